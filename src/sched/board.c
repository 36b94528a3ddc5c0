/* SPDX-License-Identifier: MIT */
/*
 * sched/board.c - the public part of a task's forks: a few places out of which thieves take by one
 * CAS.
 *
 * A place holds nothing, a record that lies open, or the task that took one.  The owner fills a
 * free place by a plain store.  Whoever wants the record changes the place from its address: a
 * thief to the task that will run it, the owner, who joins it, to nothing.  So the CAS that takes a
 * record also tells its owner by whom it was taken, and no moment lies in between.
 *
 * A thief reads nothing of a record before it has it: the frame may be gone.  If the same address
 * was taken back and offered anew since the thief looked, its CAS takes the new offer, and is
 * ordered behind that one.
 *
 * Places go round: `position` is where the next record goes.  What was taken there is remembered in
 * the record first, so that a task whose forks are all taken still has places for more.
 *
 * Rejected: Chase and Lev's deque, whose owner pays a fence for each pop; one word with the two
 * ends of the public part, as in Lace, whose owner has to take all of it back in one piece, and
 * where the thief says who it is only later.
 */
#include "sched/fork.h"
#include "sched/sched.h"

_Static_assert(_Alignof(weft_fork) > 1, "room for the mark");
_Static_assert(_Alignof(struct weft_task) > 1, "room for the mark");

static bool is_open(uintptr_t word)
{
    return word != 0 && word % 2 == 0;
}

static struct weft_task *taker_of(uintptr_t word)
{
    return (struct weft_task *)(word - 1);
}

bool wf_board_offer(struct weft_forks *forks, weft_fork *fork)
{
    const uint32_t place = forks->position % WF_FORK_PLACES;
    uintptr_t word = wf_load_acquire(&forks->places[place]); /* (K2) */
    if (is_open(word)) {
        WF_REACHED("board.is_full");
        return false;
    }
    if (word != 0) {
        forks->records[place]->task = taker_of(word);
    }
    fork->task = NULL;
    fork->place = forks->position++;
    forks->records[place] = fork;
    WF_JITTER();
    wf_store_release(&forks->places[place], (uintptr_t)fork); /* (K1) release: who takes it */
    return true;
}

struct weft_task *wf_board_withdraw(struct weft_forks *forks, weft_fork *fork)
{
    const uint32_t place = fork->place % WF_FORK_PLACES;
    uintptr_t word = (uintptr_t)fork;
    WF_JITTER();
    if (wf_cas_relaxed(&forks->places[place], &word, 0)) { /* relaxed: what we get was ours */
        return NULL;
    }
    word = wf_load_acquire(&forks->places[place]); /* (K2) */
    wf_store_relaxed(&forks->places[place], 0);    /* relaxed: nobody else changes it from here */
    return taker_of(word);
}

uintptr_t wf_board_look(struct weft_forks *forks, uint32_t *place)
{
    const uint32_t first = wf_load_relaxed(&forks->first); /* relaxed: a hint */
    for (uint32_t i = 0; i < WF_FORK_PLACES; i++) {
        const uint32_t at = (first + i) % WF_FORK_PLACES;
        const uintptr_t word = wf_load_relaxed(&forks->places[at]); /* relaxed: the CAS decides */
        if (is_open(word)) {
            *place = at;
            return word;
        }
    }
    return 0;
}

weft_fork *wf_board_take(struct weft_forks *forks, uint32_t place, uintptr_t word,
                         struct weft_task *taker)
{
    const uintptr_t open = word;
    WF_JITTER();
    /* (K1) acquire: the record; (K2) release: the task. */
    if (!wf_cas_acq_rel(&forks->places[place], &word, (uintptr_t)taker + 1)) {
        WF_REACHED("board.taken_by_another");
        return NULL;
    }
    wf_store_relaxed(&forks->first, place + 1); /* relaxed: a hint */
    return (weft_fork *)open;
}

void wf_board_ask(struct weft_forks *forks)
{
    /* relaxed: a request, early or late.  Looked at first: to write would take the line away. */
    if (wf_load_relaxed(&forks->asked) == WF_FORK_NOT_ASKED) {
        wf_store_relaxed(&forks->asked, WF_FORK_BY_OTHERS);
    }
}
