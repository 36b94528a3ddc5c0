/* SPDX-License-Identifier: MIT */
/*
 * weft/event.h - waiting for something to happen: notify, wait group, latch, barrier, once.
 *
 * The rules of weft/sync.h (Zeros, Waiting, Errors, Grants, Memory) hold here too.
 */
#ifndef WEFT_EVENT_H
#define WEFT_EVENT_H

#include <weft/types.h>

WEFT_BEGIN

/* ---- notify ---------------------------------------------------------------------------------- */

/* Tells a waiter to check its condition again.  If there is no waiter it stores one permit, however
 * often it is notified.  So a task that checks and then waits misses no change made by a task that
 * changes and then notifies. */
typedef struct weft_notify {
    uint64_t opaque[4];
} weft_notify;

/*
 * Takes the permit, or waits for a notification.
 *
 * 0            it was notified
 * -ECANCELED   the task was cancelled
 * -ETIMEDOUT   the task's deadline passed
 */
WEFT_API int weft_notify_wait(weft_notify *notify) WEFT_NONNULL(1);
/* Takes the permit if there is one; never waits.  -EAGAIN: there is none. */
WEFT_API int weft_notify_try_wait(weft_notify *notify) WEFT_NONNULL(1);
/* Wakes the longest waiter; without a waiter it stores the permit. */
WEFT_API int weft_notify_one(weft_notify *notify) WEFT_NONNULL(1);
/* Wakes all present waiters; stores no permit for later ones. */
WEFT_API int weft_notify_all(weft_notify *notify) WEFT_NONNULL(1);

/* ---- wait group and latch -------------------------------------------------------------------- */

/* Waits until counted work is finished: add before a piece of work begins, done when it ends. */
typedef struct weft_group {
    uint64_t opaque[4];
} weft_group;

/* Adds to the count; never waits.  -EOVERFLOW: the count would exceed UINT32_MAX and is
 * unchanged. */
WEFT_API int weft_group_add(weft_group *group, uint32_t count) WEFT_NONNULL(1);
/* Decrements the count; at 0 it wakes all waiters.  Never waits.  -EINVAL: the count is 0 already
 * and unchanged. */
WEFT_API int weft_group_finish(weft_group *group) WEFT_NONNULL(1);
/*
 * Waits until the count is 0.
 *
 * 0            the count was 0 at some moment of the call
 * -ECANCELED   the task was cancelled
 * -ETIMEDOUT   the task's deadline passed
 */
WEFT_API int weft_group_wait(weft_group *group) WEFT_NONNULL(1);
/* Returns the count at this moment. */
WEFT_API int64_t weft_group_count(const weft_group *group) WEFT_NONNULL(1);

/* Opens once, when its count reaches 0; all zeros is open. */
typedef struct weft_latch {
    weft_group group;
} weft_latch;

/* clang-format off */
#define WEFT_LATCH_INIT(count) {{{(uint64_t)(uint32_t)(count) << 1, 0, 0, 0}}}
/* clang-format on */

/* Initialises a latch that is not static, before its first use. */
WEFT_API int weft_latch_init(weft_latch *latch, uint32_t count) WEFT_NONNULL(1);
/* Subtracts from the count; at 0 it wakes all waiters.  Never waits.  -EINVAL: `count` is larger
 * than what is left; the latch is unchanged. */
WEFT_API int weft_latch_count_down(weft_latch *latch, uint32_t count) WEFT_NONNULL(1);
/* Waits until the latch is open.  Returns and errors: see weft_group_wait. */
WEFT_API int weft_latch_wait(weft_latch *latch) WEFT_NONNULL(1);
/* Returns 0 if the latch is open, -EAGAIN if it is not; never waits. */
WEFT_API int weft_latch_try_wait(weft_latch *latch) WEFT_NONNULL(1);

/* ---- barrier --------------------------------------------------------------------------------- */

/* Lets a fixed number of tasks or threads meet, again and again.  All zeros is invalid: a barrier
 * needs a count. */
typedef struct weft_barrier {
    uint64_t opaque[5];
} weft_barrier;

/* clang-format off */
#define WEFT_BARRIER_INIT(count) {{0, 0, 0, (uint64_t)(uint32_t)(count), 0}}
/* clang-format on */

/* Initialises a barrier that is not static, before its first use.  -EINVAL: a count of 0. */
WEFT_API int weft_barrier_init(weft_barrier *barrier, uint32_t count) WEFT_NONNULL(1);
/*
 * Waits until `count` callers have arrived.  The next arrival begins a new generation.
 *
 * 1            all have arrived, this caller last; exactly one caller of a generation gets 1
 * 0            all have arrived
 * -EINVAL      a barrier without a count
 * -ECANCELED   the task was cancelled; its arrival does not count
 * -ETIMEDOUT   the task's deadline passed; its arrival does not count
 */
WEFT_API int weft_barrier_wait(weft_barrier *barrier) WEFT_NONNULL(1);
/* Returns the number of completed generations. */
WEFT_API int64_t weft_barrier_generation(const weft_barrier *barrier) WEFT_NONNULL(1);

/* ---- once ------------------------------------------------------------------------------------ */

/* Runs a function once: the first caller runs it, the others wait for it. */
typedef struct weft_once {
    uint64_t opaque[5];
} weft_once;

/*
 * Calls fn(arg) unless that was done before.  If fn returns an error, or ends its task by
 * weft_fail, it counts as not done, and the next waiter or caller calls its own fn.
 *
 * >= 0         done: the result of fn for the caller that ran it, 0 for the others
 * < 0          the error that fn returned
 * -EDEADLK     called by fn itself
 * -ECANCELED   the task was cancelled while another caller ran fn
 * -ETIMEDOUT   the task's deadline passed while another caller ran fn
 */
WEFT_API intptr_t weft_once_do(weft_once *once, weft_fn fn, void *arg) WEFT_NONNULL(1, 2);
/* The final value of the first word of a weft_once, after its function was done. */
#define WEFT_ONCE_DONE 3u

/* Returns whether the function was done.  One acquire load: on true all effects of the function are
 * visible. */
static inline WEFT_NONNULL(1) bool weft_once_is_done(const weft_once *once)
{
    return __atomic_load_n(&once->opaque[0], __ATOMIC_ACQUIRE) == WEFT_ONCE_DONE;
}

/* A value that is set once.  NULL is no value. */
typedef struct weft_cell {
    weft_once once;
    void *value; /* read it by weft_cell_get */
} weft_cell;

/* Returns the value; NULL if there is none yet.  One acquire load: what the value points at is
 * visible as it was when the value was set. */
static inline WEFT_NONNULL(1) void *weft_cell_get(const weft_cell *cell)
{
    return __atomic_load_n(&cell->value, __ATOMIC_ACQUIRE);
}
/* Sets the value; waits while another caller is making one.  -EEXIST: there is a value; -EINVAL:
 * `value` is NULL; -ECANCELED, -ETIMEDOUT: the task was interrupted while it waited. */
WEFT_API int weft_cell_set(weft_cell *cell, void *value) WEFT_NONNULL(1);
/* Sets the value to make(arg) unless there is one, and stores it in *out (NULL on error).  Returns
 * 0; -ENOMEM: make returned NULL, and the next caller tries again; other errors: those of
 * weft_once_do. */
WEFT_API int weft_cell_make(weft_cell *cell, void **out, void *(*make)(void *arg), void *arg)
    WEFT_NONNULL(1, 2, 3);

WEFT_END

#endif
