/* SPDX-License-Identifier: MIT */
/*
 * sched/state.c - the word that decides who may run, queue, cancel and free a task.
 *
 * One function a transition; the picture is in sched.h, with those that every short task needs and
 * that are no more than a load or a store.  Everything is in one word so that every
 * decision has one winner: a waker and the worker that parks the task, two wakers, a canceller and
 * a shield, the end of the task and the last handle.
 *
 * A wake always writes, also when NOTIFIED is set already.  To leave the word alone then would save
 * a locked instruction and lose wake-ups: the waker's news could still be in its store buffer while
 * the task takes the older notice, looks, sees nothing and sleeps.
 *
 * Rejected: a state for "running" apart from "queued".  Nobody decides by it, and setting it would
 * cost every resumption a locked instruction.
 */
#include <errno.h>

#include "sched/sched.h"

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
    for (;;) { /* A lost CAS means that another thread changed the word; each does so rarely. */
        uint64_t next = word | NOTIFIED;
        if (lifecycle_of(word) == WF_COMPLETE) {
            return WF_WAKE_LATE;
        }
        if (lifecycle_of(word) == WF_IDLE) {
            next = with_lifecycle(word, WF_ACTIVE);
        }
        WF_JITTER();
        /* (T1) release: the task sees our news.  acquire: (T2), who queues it has it whole. */
        if (wf_cas_acq_rel(&state->word, &word, next)) {
            return lifecycle_of(word) == WF_IDLE ? WF_WAKE_QUEUE : WF_WAKE_NOTED;
        }
    }
}

bool wf_state_park(struct wf_state *state)
{
    uint64_t word = wf_load_relaxed(&state->word); /* relaxed: the CAS decides */
    for (;;) { /* Each lost CAS is a wake, a cancel or a reference. */
        WEFT_ASSERT(lifecycle_of(word) == WF_ACTIVE);
        bool is_notified = (word & NOTIFIED) != 0;
        uint64_t next = is_notified ? word & ~NOTIFIED : with_lifecycle(word, WF_IDLE);
        WF_JITTER();
        /* acquire: (T1) of the notice that is taken.  (T2) release: the suspended task. */
        if (wf_cas_acq_rel(&state->word, &word, next)) {
            return !is_notified;
        }
    }
}

unsigned wf_state_complete(struct wf_state *state, void **joiner)
{
    uint64_t word = wf_load_acquire(&state->word); /* acquire: (T4), `joiner` is there */
    for (;;) {                                     /* Each lost CAS is as in wf_state_park. */
        WEFT_CHECK(lifecycle_of(word) == WF_ACTIVE);
        WEFT_CHECK(references_of(word) > 0); /* I3 */
        bool is_shared = (word & SHARED) != 0;
        /* relaxed: ordered by the load of the word, and it changes only with it */
        *joiner = (word & JOINED) != 0 ? wf_load_relaxed(&state->joiner) : NULL;
        uint64_t next = with_lifecycle(word, WF_COMPLETE) - (is_shared ? 0 : REFERENCE_ONE);
        WF_JITTER();
        /* (T3) release: the result.  acquire: the others' uses, if we are the last; (T4) when it
         * was set since the load, for the next turn. */
        if (wf_cas_acq_rel_both(&state->word, &word, next)) {
            return (is_shared ? WF_ENDED_SHARED : 0u) |
                   (references_of(next) == 0 ? WF_ENDED_LAST : 0u);
        }
    }
}

bool wf_state_join(struct wf_state *state, void *joiner)
{
    wf_store_relaxed(&state->joiner, joiner); /* relaxed: published by the word */
    WF_JITTER();
    /* (T4) release: the joiner.  acquire: (T3), the result, if it is complete. */
    uint64_t before = wf_fetch_add_acq_rel(&state->word, JOINED);
    WEFT_CHECK((before & JOINED) == 0); /* one at a time */
    return lifecycle_of(before) != WF_COMPLETE;
}

bool wf_state_unjoin(struct wf_state *state)
{
    /* acquire: (T3), the result, if it is complete */
    uint64_t before = wf_fetch_sub_acq_rel(&state->word, JOINED);
    WEFT_CHECK((before & JOINED) != 0);
    return lifecycle_of(before) != WF_COMPLETE;
}

bool wf_state_share(struct wf_state *state)
{
    uint64_t before = wf_fetch_or_acq_rel(&state->word, SHARED); /* acquire: (T3) */
    return lifecycle_of(before) != WF_COMPLETE;
}

int wf_state_ref(struct wf_state *state)
{
    /* relaxed: the reference we hold keeps the task; nothing is published. */
    uint64_t before = wf_fetch_add_relaxed(&state->word, REFERENCE_ONE);
    WEFT_CHECK(references_of(before) > 0); /* I3 */
    if (references_of(before) < REFERENCE_MAX) {
        return 0;
    }
    /* It wrapped to 0; nobody can see that as an end, since ends are told by unref alone. */
    (void)wf_fetch_sub_relaxed(&state->word, REFERENCE_ONE);
    return -EOVERFLOW;
}

bool wf_state_hold(struct wf_state *state)
{
    uint64_t word = wf_load_relaxed(&state->word); /* relaxed: the CAS decides */
    for (;;) {                                     /* Each lost CAS is as in wf_state_park. */
        /* What is complete may be down to a last reference, which goes by a plain store; what has
         * none was never used. */
        if (lifecycle_of(word) == WF_COMPLETE || references_of(word) == 0 ||
            references_of(word) == REFERENCE_MAX) {
            return false;
        }
        WF_JITTER();
        /* (T5) acquire: if it is another task's by now, so is the id. */
        if (wf_cas_acquire(&state->word, &word, word + REFERENCE_ONE)) {
            return true;
        }
    }
}

bool wf_state_unref(struct wf_state *state)
{
    uint64_t before = wf_fetch_sub_acq_rel(&state->word, REFERENCE_ONE); /* (T3) */
    WEFT_CHECK(references_of(before) > 0);                               /* I3 */
    return references_of(before) == 1;
}

enum wf_wake wf_state_cancel(struct wf_state *state)
{
    uint64_t word = wf_load_relaxed(&state->word); /* relaxed: the CAS decides */
    for (;;) {                                     /* as in wf_state_wake */
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
        if (wf_cas_acq_rel(&state->word, &word, next)) { /* (T1), (T2) */
            return is_woken && is_idle ? WF_WAKE_QUEUE : WF_WAKE_NOTED;
        }
    }
}

int wf_state_shield(struct wf_state *state)
{
    /* relaxed: only the task itself raises and lowers it, and it is running. */
    if (shields_of(wf_load_relaxed(&state->word)) == SHIELD_MAX) {
        return -EOVERFLOW;
    }
    (void)wf_fetch_add_relaxed(&state->word, SHIELD_ONE);
    return 0;
}

int wf_state_unshield(struct wf_state *state)
{
    if (shields_of(wf_load_relaxed(&state->word)) == 0) { /* relaxed: as above */
        return -EINVAL;
    }
    (void)wf_fetch_sub_relaxed(&state->word, SHIELD_ONE);
    return 0;
}

bool wf_state_is_cancelled(struct wf_state *state)
{
    /* acquire: pairs with (T1) of the canceller, whose reasons the task may look at. */
    uint64_t word = wf_load_acquire(&state->word);
    return (word & CANCELLED) != 0 && (word & SHIELD_MASK) == 0;
}

void wf_state_read(const struct wf_state *state, struct wf_state_view *out)
{
    uint64_t word = wf_load_acquire(&state->word); /* acquire: complete means there is a result */
    *out = (struct wf_state_view){
        .lifecycle = lifecycle_of(word),
        .is_notified = (word & NOTIFIED) != 0,
        .is_cancelled = (word & CANCELLED) != 0,
        .shields = shields_of(word),
        .references = references_of(word),
    };
}
