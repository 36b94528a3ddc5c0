/* SPDX-License-Identifier: MIT */
/*
 * fork/fork_shared.c - the shared part of a task's split deque: a few slots from which a thief
 * takes a fork by one CAS.
 *
 *              owner: expose (store)
 *      free ---------------------------> the record's address
 *       ^ ^                                 |            |
 *       | +--- owner: retract (CAS) --------+            | thief: take (CAS)
 *       |                                                v
 *       +--- owner: join, or reuse of the slot --- the thief's task, plus 1
 *
 * The CAS decides between the owner and the thieves.  The thief replaces the record's address by
 * the task that will run the fork, so the same CAS takes the fork and reports to the owner which
 * task has it.  There is no moment in between.
 *
 * A thief reads nothing of a record before its CAS has succeeded: the frame may be gone.  If the
 * owner has retracted the record and exposed one at the same address since the thief's load, the
 * CAS takes the new one.  It is ordered after that expose, so the thief sees the new record.
 *
 * The slots are used in a circle: `position` is the slot of the next fork.  If the slot holds the
 * task of a thief, the owner first stores the task in the record of the stolen fork.  So a task
 * whose forks are all stolen still has slots for more.
 *
 * Rejected: Chase and Lev's deque, whose owner pays a fence for each pop.  Rejected: one word with
 * both ends of the shared part, as in Lace: its owner must retract the whole shared part at once,
 * and its thief reports its identity only later.
 */
#include "fork/fork.h"

_Static_assert(_Alignof(weft_par_fork) > 1, "the lowest bit is free for the tag");
_Static_assert(_Alignof(struct weft_task) > 1, "the lowest bit is free for the tag");

static bool is_exposed(uintptr_t word)
{
    return word != 0 && word % 2 == 0;
}

static struct weft_task *thief_task_of(uintptr_t word)
{
    return (struct weft_task *)(word - 1);
}

bool wf_fork_expose(struct weft_par_forks *forks, weft_par_fork *fork)
{
    const uint32_t slot = forks->position % WF_FORK_SHARED_MAX;
    uintptr_t word = wf_load_acquire(&forks->exposed[slot]); /* (fork.K2) */
    if (is_exposed(word)) {
        WF_REACHED("fork_shared.is_full");
        return false;
    }
    if (word != 0) {
        forks->records[slot]->task = thief_task_of(word);
    }
    fork->task = NULL;
    fork->place = forks->position++;
    forks->records[slot] = fork;
    WF_JITTER();
    wf_store_release(&forks->exposed[slot], (uintptr_t)fork); /* (fork.K1) */
    return true;
}

struct weft_task *wf_fork_retract(struct weft_par_forks *forks, weft_par_fork *fork)
{
    const uint32_t slot = fork->place % WF_FORK_SHARED_MAX;
    uintptr_t word = (uintptr_t)fork;
    WF_JITTER();
    /* relaxed: only the owner writes the record before it is taken */
    if (wf_cas_relaxed(&forks->exposed[slot], &word, 0)) {
        return NULL;
    }
    word = wf_load_acquire(&forks->exposed[slot]); /* (fork.K2) */
    wf_store_relaxed(&forks->exposed[slot], 0);    /* relaxed: no thief replaces a task */
    return thief_task_of(word);
}

uintptr_t wf_fork_peek(struct weft_par_forks *forks, uint32_t *slot)
{
    const uint32_t first = wf_load_relaxed(&forks->first); /* relaxed: a hint */
    for (uint32_t i = 0; i < WF_FORK_SHARED_MAX; i++) {
        const uint32_t index = (first + i) % WF_FORK_SHARED_MAX;
        /* relaxed: the CAS of wf_fork_take decides */
        const uintptr_t word = wf_load_relaxed(&forks->exposed[index]);
        if (is_exposed(word)) {
            *slot = index;
            return word;
        }
    }
    return 0;
}

weft_par_fork *wf_fork_take(struct weft_par_forks *forks, uint32_t slot, uintptr_t word,
                            struct weft_task *taker)
{
    const uintptr_t exposed_word = word;
    WF_JITTER();
    /* (fork.K1) acquire: the record; (fork.K2) release: the thief's task */
    if (!wf_cas_acq_rel(&forks->exposed[slot], &word, (uintptr_t)taker + 1)) {
        WF_REACHED("fork_shared.taken_by_another");
        return NULL;
    }
    wf_store_relaxed(&forks->first, slot + 1); /* relaxed: a hint */
    return (weft_par_fork *)exposed_word;
}

void wf_fork_request(struct weft_par_forks *forks)
{
    /* relaxed: a request; a late one is harmless.  The thief loads first: a store would take the
     * cache line from the owner. */
    if (wf_load_relaxed(&forks->requested) == WF_FORK_NOT_REQUESTED) {
        wf_store_relaxed(&forks->requested, WF_FORK_BY_THIEF);
    }
}
