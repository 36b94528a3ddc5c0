/* SPDX-License-Identifier: MIT */
/*
 * task/state.h - the state word of a task: a part of task.h, see state.c.
 */
#ifndef WF_TASK_STATE_H
#define WF_TASK_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/*
 * One word:  | references 24 | shield 8 | flags 8 | lifecycle 8 | reserved 16 |
 *
 *   state     event                next state          the thread that queues the task
 *   (new)     spawn                ACTIVE              the spawner
 *   IDLE      wake                 ACTIVE              the waker
 *   ACTIVE    wake                 ACTIVE, NOTIFIED    none: the next park sees NOTIFIED
 *   ACTIVE    park, not NOTIFIED   IDLE                none: the next waker will
 *   ACTIVE    park, NOTIFIED       ACTIVE              the worker that ran it; NOTIFIED is cleared
 *   ACTIVE    complete             COMPLETE            none
 *   COMPLETE  wake                 COMPLETE            none
 *
 * A cancel is a wake, unless the task has a shield.
 *
 * ACTIVE means queued or running.  A waker treats both alike, so a task that starts to run, or
 * yields, does not write the word.  (wf_worker.current shows which of the two it is.)
 *
 * Invariants:
 *   I1  of all wakers only the waker that changes IDLE to ACTIVE queues the task; an ACTIVE task is
 *       queued again only by the worker that ran it.  So a task is in at most one queue
 *   I2  NOTIFIED is set only while ACTIVE, and the next park clears it
 *   I3  the reference count never rises from 0; the thread that releases the last reference frees
 *       the task
 */
struct wf_state {
    WF_ATOMIC(uint64_t) word; /* [any: CAS] */

    /* [joiner: write]  The task that waits for the end, valid while JOINED is in the word.  Only
     * the holder of the only handle sets it; every other joiner uses the list and SHARED. */
    WF_ATOMIC(void *) joiner;
};

/* The flag in the word: the task was cancelled. */
#define WF_STATE_CANCELLED (UINT64_C(2) << 24)

#define WF_STATE_LIFECYCLE_SHIFT 16
#define WF_STATE_LIFECYCLE_MASK (UINT64_C(0xff) << WF_STATE_LIFECYCLE_SHIFT)
#define WF_STATE_REFERENCE_SHIFT 40

enum wf_lifecycle { WF_IDLE, WF_ACTIVE, WF_COMPLETE };

/* Fields of a word. */
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

/* A decoded snapshot of the word. */
struct wf_state_view {
    enum wf_lifecycle lifecycle;
    bool is_notified;
    bool is_cancelled; /* also while a shield defers it */
    unsigned shields;
    unsigned references;
};

enum wf_wake {
    WF_WAKE_QUEUE, /* the task was IDLE: the caller, and no other thread, must queue it */
    WF_WAKE_NOTED, /* the task is ACTIVE: its next park fails, and it checks again */
    WF_WAKE_LATE,  /* the task is COMPLETE */
};

/* [any]  Wakes the task, after the caller has changed something that the task may wait for.
 * Returns what the caller must do. */
enum wf_wake wf_state_wake(struct wf_state *state);

/* [owner: the worker that ran the task, off the task's stack]  True: the task is IDLE; any waker
 * may queue it at once, so the owner must not touch it any more.  False: a waker was faster; the
 * owner must queue it again. */
bool wf_state_park(struct wf_state *state);

/* What the caller of wf_state_complete has to do. */
enum wf_ended {
    WF_ENDED_LAST = 1,   /* the last reference is released: free the task */
    WF_ENDED_SHARED = 2, /* wake the list of joiners, then release the reference of the run */
};

/* [owner]  Completes the task, whose result is stored.  Releases the reference of the run, unless
 * SHARED is set.  *joiner is the task to wake, or NULL.  Returns a set of enum wf_ended; with
 * neither WF_ENDED_SHARED nor WF_ENDED_LAST the caller must not touch the task any more. */
unsigned wf_state_complete(struct wf_state *state, void **joiner);

/* [any, with the only handle]  Registers the task that the end wakes.  False: the task is COMPLETE
 * already. */
bool wf_state_join(struct wf_state *state, void *joiner);
/* [joiner]  Withdraws the registration.  False: the task is COMPLETE; a wake may still come. */
bool wf_state_unjoin(struct wf_state *state);
/* [any, with a handle]  Makes the end of the task wake the list of joiners (join.c).  False: the
 * task is COMPLETE already. */
bool wf_state_share(struct wf_state *state);

/* [spawner]  ACTIVE, with this number of references. */
static inline void wf_state_init(struct wf_state *state, unsigned references)
{
    WEFT_ASSERT(references > 0);
    /* A late waker of the task that used this memory before may write the word at the same time.
     * For the new task that is a spurious wake.  (task.T5) release: the old id is gone. */
    wf_store_release(
        &state->word,
        wf_state_put_lifecycle((uint64_t)references << WF_STATE_REFERENCE_SHIFT, WF_ACTIVE));
}

static inline bool wf_state_is_complete(const struct wf_state *state)
{
    return wf_state_lifecycle(wf_load_acquire(&state->word)) == WF_COMPLETE; /* (task.T3) */
}

/* [any, with a reference]  True: it is the only one, so the caller may free the task after
 * wf_state_retire, without a locked instruction. */
static inline bool wf_state_is_sole(struct wf_state *state)
{
    /* acquire: (task.T3), all uses of the task before the other references were released */
    return wf_state_references(wf_load_acquire(&state->word)) == 1;
}

/* [any, with the only reference]  Releases it. */
static inline void wf_state_retire(struct wf_state *state)
{
    /* relaxed: no other thread has a reference.  The count of 0 lets wf_state_unref detect a
     * handle that is released twice (I3). */
    wf_store_relaxed(&state->word, wf_state_put_lifecycle(0, WF_COMPLETE));
}

/* [any, with a handle]  True: the only other reference is that of the run. */
static inline bool wf_state_has_one_handle(struct wf_state *state)
{
    /* relaxed: the two references are the caller's handle and that of the run.  If the task is
     * COMPLETE the run has none: both are handles. */
    uint64_t word = wf_load_relaxed(&state->word);
    return wf_state_references(word) == 2 && wf_state_lifecycle(word) != WF_COMPLETE;
}

/* [any, with a reference]  Adds one.  -EOVERFLOW: there are 2^24 - 1 already. */
int wf_state_ref(struct wf_state *state);
/* [any, without a reference]  Adds a reference to the task in this memory, if that task has not
 * ended.  It may be another task than the caller expects, so the caller must compare the id
 * afterwards.  False: the memory has no such task, or there are 2^24 - 1 references already;
 * nothing changed. */
bool wf_state_try_ref(struct wf_state *state);
/* [any]  Releases a reference.  True: it was the last; the caller frees the task. */
bool wf_state_unref(struct wf_state *state);

/* [any]  Cancels the task, and wakes it unless it has a shield.  Returns what wf_state_wake would
 * return, but WF_WAKE_NOTED for every task with a shield that is not COMPLETE: the caller queues
 * nothing. */
enum wf_wake wf_state_cancel(struct wf_state *state);

/* [the task]  Adds a shield: a cancellation takes effect when the last one is removed.  -EOVERFLOW:
 * there are 255 already. */
int wf_state_shield(struct wf_state *state);
/* [the task]  Removes a shield.  -EINVAL: there is none. */
int wf_state_unshield(struct wf_state *state);

/* [any]  True: the task was cancelled and has no shield. */
bool wf_state_is_cancelled(struct wf_state *state);
/* [any]  Decodes a snapshot of the word. */
void wf_state_read(const struct wf_state *state, struct wf_state_view *out);

#endif
