/* SPDX-License-Identifier: MIT */
/*
 * task/state.c - the state word: which thread may run, queue, cancel and free a task.
 *
 * There is one function per transition; state.h has the table of the transitions.  Functions that
 * every short task needs, and that are no more than a load or a store, are inline in state.h.
 * Everything is in one word, so each race has one winner:
 * a waker against the worker that suspends the task, two wakers, a canceller against a shield, the
 * end of the task against its joiner and its last handle.
 *
 * Waker against park.  No wake-up is lost: the task runs again after every wake that came after its
 * last check.
 *
 *   waker (wf_state_wake)                    owner (wf_state_park), off the task's stack
 *   1 change what the task waits for         1 the task checks, finds nothing and switches away
 *   2 CAS                                    2 CAS
 *       IDLE:   to ACTIVE                        NOTIFIED: clear it
 *       ACTIVE: set NOTIFIED                     else:     ACTIVE to IDLE
 *   3 it was IDLE: queue the task            3 it was NOTIFIED: queue the task, which checks again
 *
 * The two CAS have an order.  If the waker's is first, the owner takes NOTIFIED, and the next check
 * sees the change (task.T1).  If the owner's is first, the waker finds IDLE and queues the task,
 * whose saved context it sees (task.T2).  Of several wakers only the first finds IDLE (I1).
 *
 * A wake always writes, even if NOTIFIED is set already.  A waker that skipped the write would save
 * a locked instruction and lose wake-ups: its change could still be in its store buffer while the
 * owner takes the older notification, and the task checks, finds nothing and suspends.
 *
 * Join against end.  The result is seen, and the joiner is woken if it suspends.
 *
 *   joiner (wf_state_join)                   owner (wf_state_complete)
 *   1 store `joiner`                         1 the task has stored its result
 *   2 add JOINED                             2 read `joiner` if JOINED; CAS to COMPLETE, minus the
 *   3 it was COMPLETE: read the result         reference of the run
 *     else suspend                           3 wake the joiner; free the task if it was the last
 *                                              reference
 *
 * If the joiner's step 2 is first, the owner sees JOINED and the pointer (task.T4); a CAS that
 * fails because of it reads the pointer anew.  If the owner's CAS is first, the joiner sees
 * COMPLETE and the result (task.T3).  Either may release the last reference: every release is
 * such an edge, (task.T3), so the thread that frees the task has seen all uses of it.
 *
 * tests/model/model_state.c runs these in every order.
 *
 * Rejected: a state for "running" apart from "queued".  No decision depends on it, and setting it
 * would cost each resumption a locked instruction.
 */
#include <errno.h>

#include "task/task.h"

enum {
    FLAGS_SHIFT = 24,
    SHIELD_SHIFT = 32,
    SHIELD_MAX = 255,
    REFERENCE_SHIFT = WF_STATE_REFERENCE_SHIFT,
    REFERENCE_MAX = (1 << 24) - 1,
};

#define NOTIFIED (UINT64_C(1) << FLAGS_SHIFT)
#define CANCELLED WF_STATE_CANCELLED
#define JOINED (UINT64_C(4) << FLAGS_SHIFT)
#define SHARED (UINT64_C(8) << FLAGS_SHIFT)
#define SHIELD_ONE (UINT64_C(1) << SHIELD_SHIFT)
#define SHIELD_MASK (UINT64_C(0xff) << SHIELD_SHIFT)
#define REFERENCE_ONE (UINT64_C(1) << REFERENCE_SHIFT)

_Static_assert(CANCELLED == UINT64_C(2) << FLAGS_SHIFT, "one of the flags");

static enum wf_lifecycle lifecycle_of(uint64_t word)
{
    return wf_state_lifecycle(word);
}

static uint64_t with_lifecycle(uint64_t word, enum wf_lifecycle lifecycle)
{
    return wf_state_put_lifecycle(word, lifecycle);
}

static unsigned references_of(uint64_t word)
{
    return wf_state_references(word);
}

static unsigned shields_of(uint64_t word)
{
    return (unsigned)((word & SHIELD_MASK) >> SHIELD_SHIFT);
}

enum wf_wake wf_state_wake(struct wf_state *state)
{
    uint64_t word = wf_load_relaxed(&state->word); /* relaxed: the CAS decides */
    for (;;) { /* Ends: each lost CAS is a transition, or a reference, of another thread. */
        uint64_t next = word | NOTIFIED;
        if (lifecycle_of(word) == WF_COMPLETE) {
            return WF_WAKE_LATE;
        }
        if (lifecycle_of(word) == WF_IDLE) {
            next = with_lifecycle(word, WF_ACTIVE);
        }
        WF_JITTER();
        /* (task.T1) release: the task sees the waker's change.  acquire: (task.T2), the waker
         * that queues the task sees its saved context. */
        if (wf_cas_acq_rel(&state->word, &word, next)) {
            return lifecycle_of(word) == WF_IDLE ? WF_WAKE_QUEUE : WF_WAKE_NOTED;
        }
    }
}

bool wf_state_park(struct wf_state *state)
{
    uint64_t word = wf_load_relaxed(&state->word); /* relaxed: the CAS decides */
    for (;;) { /* Ends: each lost CAS is a wake, a cancellation or a reference. */
        WEFT_ASSERT(lifecycle_of(word) == WF_ACTIVE);
        bool is_notified = (word & NOTIFIED) != 0;
        uint64_t next = is_notified ? word & ~NOTIFIED : with_lifecycle(word, WF_IDLE);
        WF_JITTER();
        /* acquire: (task.T1), the change of the waker whose NOTIFIED is taken.  (task.T2)
         * release: the saved context of the task. */
        if (wf_cas_acq_rel(&state->word, &word, next)) {
            return !is_notified;
        }
    }
}

unsigned wf_state_complete(struct wf_state *state, void **joiner)
{
    uint64_t word = wf_load_acquire(&state->word); /* acquire: (task.T4), `joiner` */
    for (;;) {                                     /* ends as in wf_state_park */
        WEFT_CHECK(lifecycle_of(word) == WF_ACTIVE);
        WEFT_CHECK(references_of(word) > 0); /* I3 */
        bool is_shared = (word & SHARED) != 0;
        /* relaxed: ordered by the acquire of the word; it changes only before JOINED is set */
        *joiner = (word & JOINED) != 0 ? wf_load_relaxed(&state->joiner) : NULL;
        uint64_t next = with_lifecycle(word, WF_COMPLETE) - (is_shared ? 0 : REFERENCE_ONE);
        WF_JITTER();
        /* (task.T3) release: the result.  acquire: (task.T3), all other uses, if this is the last
         * reference; on failure (task.T4), a joiner that came meanwhile, for the next iteration.
         */
        if (wf_cas_acq_rel_both(&state->word, &word, next)) {
            return (is_shared ? WF_ENDED_SHARED : 0u) |
                   (references_of(next) == 0 ? WF_ENDED_LAST : 0u);
        }
    }
}

bool wf_state_join(struct wf_state *state, void *joiner)
{
    wf_store_relaxed(&state->joiner, joiner); /* relaxed: (task.T4) below publishes it */
    WF_JITTER();
    /* (task.T4) release: the joiner.  acquire: (task.T3), the result, if it is complete. */
    uint64_t before = wf_fetch_add_acq_rel(&state->word, JOINED);
    WEFT_CHECK((before & JOINED) == 0); /* one joiner at a time */
    return lifecycle_of(before) != WF_COMPLETE;
}

bool wf_state_unjoin(struct wf_state *state)
{
    /* acquire: (task.T3), the result, if it is complete */
    uint64_t before = wf_fetch_sub_acq_rel(&state->word, JOINED);
    WEFT_CHECK((before & JOINED) != 0);
    return lifecycle_of(before) != WF_COMPLETE;
}

bool wf_state_share(struct wf_state *state)
{
    uint64_t before = wf_fetch_or_acq_rel(&state->word, SHARED); /* acquire: (task.T3) */
    return lifecycle_of(before) != WF_COMPLETE;
}

int wf_state_ref(struct wf_state *state)
{
    /* relaxed: the caller's reference keeps the task; nothing is published. */
    uint64_t before = wf_fetch_add_relaxed(&state->word, REFERENCE_ONE);
    WEFT_CHECK(references_of(before) > 0); /* I3 */
    if (references_of(before) < REFERENCE_MAX) {
        return 0;
    }
    /* The count wrapped to 0 for a moment.  That frees nothing: the thread that releases the last
     * reference knows it by the value that it replaced. */
    (void)wf_fetch_sub_relaxed(&state->word, REFERENCE_ONE);
    return -EOVERFLOW;
}

bool wf_state_try_ref(struct wf_state *state)
{
    uint64_t word = wf_load_relaxed(&state->word); /* relaxed: the CAS decides */
    for (;;) {                                     /* ends as in wf_state_park */
        /* COMPLETE: the holder of the last reference may release it by the plain store of
         * wf_state_retire, which would overwrite a reference that is added here.  Not COMPLETE and
         * no references: this memory has never had a task. */
        if (lifecycle_of(word) == WF_COMPLETE || references_of(word) == 0 ||
            references_of(word) == REFERENCE_MAX) {
            return false;
        }
        WF_JITTER();
        /* (task.T5) acquire: if another task uses the memory by now, the caller sees its id. */
        if (wf_cas_acquire(&state->word, &word, word + REFERENCE_ONE)) {
            return true;
        }
    }
}

bool wf_state_unref(struct wf_state *state)
{
    uint64_t before = wf_fetch_sub_acq_rel(&state->word, REFERENCE_ONE); /* (task.T3) */
    WEFT_CHECK(references_of(before) > 0);                               /* I3 */
    return references_of(before) == 1;
}

enum wf_wake wf_state_cancel(struct wf_state *state)
{
    uint64_t word = wf_load_relaxed(&state->word); /* relaxed: the CAS decides */
    for (;;) {                                     /* ends as in wf_state_wake */
        uint64_t next = word | CANCELLED;
        if (lifecycle_of(word) == WF_COMPLETE) {
            return WF_WAKE_LATE;
        }
        bool is_woken = (word & SHIELD_MASK) == 0;
        bool is_idle = lifecycle_of(word) == WF_IDLE;
        if (is_woken) {
            next = is_idle ? with_lifecycle(next, WF_ACTIVE) : next | NOTIFIED;
        }
        WF_JITTER();
        if (wf_cas_acq_rel(&state->word, &word, next)) { /* (task.T1), (task.T2) */
            return is_woken && is_idle ? WF_WAKE_QUEUE : WF_WAKE_NOTED;
        }
    }
}

int wf_state_shield(struct wf_state *state)
{
    /* relaxed: only the task itself, which is running, changes the depth. */
    if (shields_of(wf_load_relaxed(&state->word)) == SHIELD_MAX) {
        return -EOVERFLOW;
    }
    (void)wf_fetch_add_relaxed(&state->word, SHIELD_ONE);
    return 0;
}

int wf_state_unshield(struct wf_state *state)
{
    if (shields_of(wf_load_relaxed(&state->word)) == 0) { /* relaxed: only the task changes it */
        return -EINVAL;
    }
    (void)wf_fetch_sub_relaxed(&state->word, SHIELD_ONE);
    return 0;
}

bool wf_state_is_cancelled(struct wf_state *state)
{
    /* acquire: (task.T1), what the canceller wrote before it cancelled. */
    uint64_t word = wf_load_acquire(&state->word);
    return (word & CANCELLED) != 0 && (word & SHIELD_MASK) == 0;
}

void wf_state_read(const struct wf_state *state, struct wf_state_view *out)
{
    uint64_t word = wf_load_acquire(&state->word); /* acquire: (task.T3), the result */
    *out = (struct wf_state_view){
        .lifecycle = lifecycle_of(word),
        .is_notified = (word & NOTIFIED) != 0,
        .is_cancelled = (word & CANCELLED) != 0,
        .shields = shields_of(word),
        .references = references_of(word),
    };
}
