/* SPDX-License-Identifier: MIT */
/*
 * sched/state.h - the state of a task, in one word: a part of sched.h, see state.c.
 */
#ifndef WF_SCHED_STATE_H
#define WF_SCHED_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/*
 * One word:  | references 24 | shield 8 | flags 8 | lifecycle 8 | reserved 16 |
 *
 *              wake: queue it
 *        +---------------------+      wake: set NOTIFIED
 *        |                     v       +--+
 *      IDLE                  ACTIVE <--+  |        complete
 *        ^   park, if not      |  ^-------+ ----------------------> COMPLETE
 *        +---- NOTIFIED -------+  park, if NOTIFIED: clears it, goes on
 *
 * ACTIVE is queued or running: to whoever wakes a task the two are the same, so a task that starts
 * to run, or yields, does not touch the word.  (Which of them it is, is known by the worker.)
 *
 * Invariants:
 *   I1  only the transition IDLE -> ACTIVE lets a task be queued: it is in one queue at the most
 *   I2  NOTIFIED is set only while ACTIVE, and taken by the next park
 *   I3  references never come back from 0; the last one to go frees the task
 */
struct wf_state {
    WF_ATOMIC(uint64_t) word; /* [any: CAS] */

    /* [joiner: write]  Who waits for the end and is woken by it, while JOINED is in the word.  Only
     * the holder of the one handle there is sets it; others come by way of SHARED. */
    WF_ATOMIC(void *) joiner;
};

/* The flag in the word that says: it was asked to end. */
#define WF_STATE_CANCELLED (UINT64_C(2) << 24)

#define WF_STATE_LIFECYCLE_SHIFT 16
#define WF_STATE_LIFECYCLE_MASK (UINT64_C(0xff) << WF_STATE_LIFECYCLE_SHIFT)
#define WF_STATE_REFERENCE_SHIFT 40

enum wf_lifecycle { WF_IDLE, WF_ACTIVE, WF_COMPLETE };

/* What is in a word. */
static inline enum wf_lifecycle wf_state_lifecycle(uint64_t word)
{
    return (enum wf_lifecycle)((word & WF_STATE_LIFECYCLE_MASK) >> WF_STATE_LIFECYCLE_SHIFT);
}

static inline uint64_t wf_state_put_lifecycle(uint64_t word, enum wf_lifecycle lifecycle)
{
    return (word & ~WF_STATE_LIFECYCLE_MASK) | (uint64_t)lifecycle << WF_STATE_LIFECYCLE_SHIFT;
}

static inline unsigned wf_state_references(uint64_t word)
{
    return (unsigned)(word >> WF_STATE_REFERENCE_SHIFT);
}

/* What a snapshot of the word says. */
struct wf_state_view {
    enum wf_lifecycle lifecycle;
    bool is_notified;
    bool is_cancelled; /* asked for, perhaps behind a shield */
    unsigned shields;
    unsigned references;
};

enum wf_wake {
    WF_WAKE_QUEUE, /* it was idle: the caller must queue it, nobody else will */
    WF_WAKE_NOTED, /* it is active and will look again before it sleeps */
    WF_WAKE_LATE,  /* it is complete */
};

/* [any]  Something happened that the task may wait for. */
enum wf_wake wf_state_wake(struct wf_state *state);

/* [owner: the worker that runs it, off its stack]  True: it is idle now and somebody else's as soon
 * as it is woken.  False: it was woken meanwhile and goes on. */
bool wf_state_park(struct wf_state *state);

/* What wf_state_complete leaves to be done. */
enum wf_ended {
    WF_ENDED_LAST = 1,   /* no handle is left: the caller frees the task */
    WF_ENDED_SHARED = 2, /* others wait, see wf_state_share; the run's reference is still there */
};

/* [owner]  The result is written.  Gives the run's reference back, unless SHARED, and the joiner to
 * be woken (NULL: none); a set of enum wf_ended.  But for SHARED nothing of the task may be touched
 * afterwards. */
unsigned wf_state_complete(struct wf_state *state, void **joiner);

/* [any, holding the one handle]  Asks to be woken at the end.  False: it is complete already. */
bool wf_state_join(struct wf_state *state, void *joiner);
/* [the joiner]  Takes that back.  False: it is complete; a wake may still come. */
bool wf_state_unjoin(struct wf_state *state);
/* [any, holding a handle]  At the end the list of waiters has to be looked at.  False: it is
 * complete already. */
bool wf_state_share(struct wf_state *state);

/* Active, with so many references. */
static inline void wf_state_init(struct wf_state *state, unsigned references)
{
    WEFT_ASSERT(references > 0);
    /* A waker of the task that was here before may still be at work; what it does to the new one is
     * a wake without a reason.  (T5) release: that the memory has lost its old id. */
    wf_store_release(
        &state->word,
        wf_state_put_lifecycle((uint64_t)references << WF_STATE_REFERENCE_SHIFT, WF_ACTIVE));
}

static inline bool wf_state_is_complete(const struct wf_state *state)
{
    return wf_state_lifecycle(wf_load_acquire(&state->word)) == WF_COMPLETE; /* (T3) */
}

/* [any, holding a reference]  It is the only one; so it may free the task without unref. */
static inline bool wf_state_is_sole(struct wf_state *state)
{
    /* acquire: (T3), what all others did before they gave their references back */
    return wf_state_references(wf_load_acquire(&state->word)) == 1;
}

/* [any, holding the only reference]  It is gone. */
static inline void wf_state_retire(struct wf_state *state)
{
    /* relaxed: nobody else has a reference.  A handle that is given back twice is then found out.
     */
    wf_store_relaxed(&state->word, wf_state_put_lifecycle(0, WF_COMPLETE));
}

/* [any, holding a handle]  Besides it there is only the reference of the run. */
static inline bool wf_state_has_one_handle(struct wf_state *state)
{
    /* relaxed: both references are accounted for.  Of a task that has ended both are handles. */
    uint64_t word = wf_load_relaxed(&state->word);
    return wf_state_references(word) == 2 && wf_state_lifecycle(word) != WF_COMPLETE;
}

/* [any, holding a reference]  -EOVERFLOW: 2^24 - 1 are out. */
int wf_state_ref(struct wf_state *state);
/* [any, without a reference]  Takes one of a task that has not ended, if there is one in this
 * memory, which may be another than the caller looks for.  False: nothing was done. */
bool wf_state_hold(struct wf_state *state);
/* [any]  True: it was the last; the caller frees the task. */
bool wf_state_unref(struct wf_state *state);

/* [any]  Asks the task to end: it is woken, unless it stands behind a shield. */
enum wf_wake wf_state_cancel(struct wf_state *state);

/* [the task]  A shield more: cancelling takes effect only when all are gone.  -EOVERFLOW: 255. */
int wf_state_shield(struct wf_state *state);
/* [the task]  A shield less; -EINVAL: there is none. */
int wf_state_unshield(struct wf_state *state);

/* [any]  Asked to end, and no shield. */
bool wf_state_is_cancelled(struct wf_state *state);
void wf_state_read(const struct wf_state *state, struct wf_state_view *out);

#endif
