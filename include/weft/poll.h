/* SPDX-License-Identifier: MIT */
/*
 * weft/poll.h - stackless tasks: state machines of a few hundred bytes, for millions of them.
 *
 * A poll task is a function that never waits.  It does what it can.  If it has to wait, it arranges
 * to be woken, records its position in its state and returns WEFT_POLL_PENDING.  After it was woken
 * it is called again, on any worker; spurious calls are possible.  When it returns WEFT_POLL_READY
 * it has ended.  Its handle is like that of any other task: weft_await, weft_cancel and the rest of
 * task.h work on it.  A cancellation makes the runtime call it again; futures then return
 * -ECANCELED, and so does weft_check, for state machines that wait by wakers of their own.
 *
 * Most state machines wait for futures.  A future is a struct of the caller that waits for one
 * thing: the end of a sleep or of a task, a lock, an item of a channel.  The caller initialises it,
 * polls it until it is ready, and may drop it at any time.  From its first poll until it is ready
 * or dropped a future must not be moved, and belongs to the task that polls it: no other task may
 * poll or drop it.  It usually lies in the state of the task.
 *
 *     struct state { int step; weft_sleep_future nap; };
 *
 *     static weft_poll_result wait_twice(weft_cx *cx, void *arg, intptr_t *result)
 *     {
 *         struct state *state = arg;
 *         for (; state->step < 2; state->step++) {
 *             if (state->nap.future.poll == NULL) {
 *                 weft_sleep_future_init(&state->nap, weft_time_after(WEFT_SECOND));
 *             }
 *             if (weft_future_poll(&state->nap.future, cx, result) == WEFT_POLL_PENDING) {
 *                 return WEFT_POLL_PENDING;
 *             }
 *             state->nap.future.poll = NULL;
 *         }
 *         return WEFT_POLL_READY;
 *     }
 *
 * Inside a poll task no other call of Weft may wait: a check stops the process if one would, except
 * for the I/O calls that return -EAGAIN instead.  Calls that do not wait are allowed as everywhere.
 */
#ifndef WEFT_POLL_H
#define WEFT_POLL_H

#include <weft/task.h>
#include <weft/time.h>
#include <weft/types.h>

WEFT_BEGIN

typedef enum weft_poll_result { WEFT_POLL_PENDING, WEFT_POLL_READY } weft_poll_result;

/* The context of one poll: the task that is being polled. */
typedef struct weft_cx weft_cx;

/* A counted reference that wakes a task. */
typedef struct weft_waker weft_waker;

/* The function of a poll task.  It writes its result to *result, which is 0 before, and returns
 * WEFT_POLL_READY; or it returns WEFT_POLL_PENDING.  A result < 0 is a negative errno: the task
 * failed. */
typedef weft_poll_result (*weft_poll_fn)(weft_cx *cx, void *state, intptr_t *result);

/* A state up to this size lies in the task itself, which has 256 bytes in total; a larger one is
 * allocated. */
#define WEFT_POLL_STATE_INLINE 64u
#define WEFT_POLL_STATE_MAX ((size_t)1 << 20)

/*
 * Spawns a poll task with a copy of `size` bytes of state; 0: no state.  *out receives a handle, as
 * with weft_spawn.  The options stack_size, arg_copy and keeps_fp_control must be zero.
 *
 * 0            it will be polled
 * -EINVAL      a state larger than WEFT_POLL_STATE_MAX, or one of the options above
 * -ENOMEM      no memory
 * -EPERM       the caller is not a task
 * and the other errors of weft_spawn
 */
WEFT_API int weft_spawn_poll(weft_task **out, weft_poll_fn fn, const void *state, size_t size,
                             const weft_task_options *options) WEFT_NONNULL(2);

/* Spawns a poll task into `runtime`, from any thread or task.  Errors: those of weft_spawn_poll.
 * -EPERM: in a child process after fork.  -ESHUTDOWN: the runtime is closing. */
WEFT_API int weft_runtime_spawn_poll(weft_runtime *runtime, weft_task **out, weft_poll_fn fn,
                                     const void *state, size_t size,
                                     const weft_task_options *options) WEFT_NONNULL(1, 3);

/* ---- wakers -------------------------------------------------------------------------------- */

/* Returns the waker of the task that is being polled.  Borrowed: valid until the poll returns. */
WEFT_API weft_waker *weft_cx_waker(weft_cx *cx) WEFT_NONNULL(1);

/* Adds a reference, which may be kept and passed to any thread, and must be dropped.  Returns the
 * same pointer. */
WEFT_API weft_waker *weft_waker_ref(weft_waker *waker) WEFT_NONNULL(1);

/* Wakes the task: it is polled at least once after this call.  May be called from any thread, any
 * number of times.  Does nothing if the task or its runtime has ended, or for NULL.  Never waits.
 */
WEFT_API void weft_waker_wake(weft_waker *waker);

/* Gives a reference back.  NULL is allowed. */
WEFT_API void weft_waker_unref(weft_waker *waker);

/* ---- futures ------------------------------------------------------------------------------- */

/* The first member of every future, also of user-defined ones.  All zeros is no future. */
typedef struct weft_future weft_future;
struct weft_future {
    /* Polls it, with the results of weft_poll_fn.  Not called again after WEFT_POLL_READY. */
    weft_poll_result (*poll)(weft_cx *cx, weft_future *self, intptr_t *result);
    /* Releases what the future holds; it is not polled again.  NULL: nothing to do. */
    void (*drop)(weft_future *self);
};

/* Polls a future from inside a poll function; never waits.  Returns WEFT_POLL_PENDING, or
 * WEFT_POLL_READY with the future's result in *result. */
WEFT_API weft_poll_result weft_future_poll(weft_future *future, weft_cx *cx, intptr_t *result)
    WEFT_NONNULL(1, 2, 3);

/* Drops a future: it stops waiting, and what was granted to it meanwhile goes to the next waiter.
 * Does nothing if it was dropped before or was ready.  NULL is allowed.  Never waits. */
WEFT_API void weft_future_drop(weft_future *future);

/* Waits for a future in a green thread and returns its result, which is -ECANCELED or -ETIMEDOUT
 * only if the future itself returns that.  -EPERM: not in a green thread; -EINVAL: a future of all
 * zeros. */
WEFT_API intptr_t weft_future_await(weft_future *future) WEFT_NONNULL(1);

/* Waits for a point in time, as weft_sleep_until.  Result: 0, -ECANCELED, -ETIMEDOUT. */
typedef struct weft_sleep_future {
    weft_future future;
    uint64_t opaque[13];
} weft_sleep_future;

WEFT_API void weft_sleep_future_init(weft_sleep_future *future, weft_time at) WEFT_NONNULL(1);

/*
 * Waits for the end of a task, as weft_await, and takes over the handle.  Result: that of the task,
 * -ECANCELED, -ETIMEDOUT, -EDEADLK if the task waits for itself, or -ENOMEM if `task` is NULL.  If
 * the future is dropped before it is ready, it drops the handle, and cancels the task if `cancels`
 * is true.
 */
typedef struct weft_task_future {
    weft_future future;
    uint64_t opaque[22];
} weft_task_future;

WEFT_API void weft_task_future_init(weft_task_future *future, weft_task *task, bool cancels)
    WEFT_NONNULL(1);

/* ---- combining futures --------------------------------------------------------------------- */

/* One of several futures, in an array of the caller. */
typedef struct weft_branch {
    weft_future *future;
    intptr_t result;
    bool is_done;
} weft_branch;

/*
 * A future that waits for several others.  The array and the futures must stay in place until it is
 * ready or dropped.
 *
 *   all       until all are done.  Result: 0, or the error of the first failed branch in array
 *             order
 *   try_all   until all are done or one returns an error; the others are then dropped.  Result: 0,
 *             or that error
 *   race      until one is done; the others are dropped.  Result: its index
 *   select    until one is done; the others stay and can be polled again.  Result: its index.
 *             Branches that are done already are left out; -ENOENT if none is left
 *
 * `result` and `is_done` of each branch give the details.  Without branches the result is 0 for the
 * first two kinds and -EINVAL for the others.
 */
enum weft_join_kind { WEFT_JOIN_ALL, WEFT_JOIN_TRY_ALL, WEFT_JOIN_RACE, WEFT_JOIN_SELECT };

typedef struct weft_join_future {
    weft_future future;
    weft_branch *branches;
    size_t count;
    enum weft_join_kind kind;
    size_t turn; /* the branch that the next poll begins with: no branch is always first */
} weft_join_future;

WEFT_API void weft_join_future_init(weft_join_future *future, enum weft_join_kind kind,
                                    weft_branch *branches, size_t count) WEFT_NONNULL(1);

/* A future with a time limit.  Result: that of the inner future, or -ETIMEDOUT after `at`; the
 * inner future is then dropped.  -ETIMEDOUT may also come from the task's own deadline, after which
 * all its waits return that; weft_check tells the two apart. */
typedef struct weft_timeout_future {
    weft_future future;
    weft_future *inner;
    weft_sleep_future clock;
} weft_timeout_future;

WEFT_API void weft_timeout_future_init(weft_timeout_future *future, weft_future *inner,
                                       weft_time at) WEFT_NONNULL(1, 2);

WEFT_END

#endif
