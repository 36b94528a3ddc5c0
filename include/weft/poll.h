/* SPDX-License-Identifier: MIT */
/*
 * weft/poll.h - stackless tasks: state machines of a few hundred bytes, for millions of them.
 *
 * A poll task is a function that never waits.  It does what it can; if it has to wait it sees to it
 * that somebody wakes it, keeps in its state where it was, and gives WEFT_PENDING.  Then it is
 * called again, on any worker, when it was woken; perhaps without a reason.  Once it gives
 * WEFT_READY it has ended, and its handle is like that of any other task: weft_await, weft_cancel
 * and the rest of task.h work on it.  A cancel has it called again; futures then give -ECANCELED,
 * and so does weft_check, for state machines that wait by wakers of their own.
 *
 * Most state machines wait for futures.  A future is a struct of the caller's that waits for one
 * thing: the end of a sleep or of a task, a lock, an item of a channel.  The caller initialises it,
 * polls it until it is ready, and may drop it at any time.  From its first poll until it is ready
 * or dropped a future must stay where it is, and belongs to the task that polls it: no other may
 * poll or drop it.  Its home is the state of the task.
 *
 *     struct state { int step; weft_sleep_future nap; };
 *
 *     static weft_poll wait_twice(weft_cx *cx, void *arg, intptr_t *result)
 *     {
 *         struct state *state = arg;
 *         for (; state->step < 2; state->step++) {
 *             if (state->nap.future.poll == NULL) {
 *                 weft_sleep_future_init(&state->nap, weft_in(WEFT_SECOND));
 *             }
 *             if (weft_poll_future(cx, &state->nap.future, result) == WEFT_PENDING) {
 *                 return WEFT_PENDING;
 *             }
 *             state->nap.future.poll = NULL;
 *         }
 *         return WEFT_READY;
 *     }
 *
 * Inside of a poll task no other call of Weft may wait: the process is stopped by a check if one
 * does.  What does not wait may be called as everywhere.
 */
#ifndef WEFT_POLL_H
#define WEFT_POLL_H

#include <weft/task.h>
#include <weft/time.h>
#include <weft/types.h>

WEFT_BEGIN

typedef enum weft_poll { WEFT_PENDING, WEFT_READY } weft_poll;

/* Who is being polled. */
typedef struct weft_cx weft_cx;

/* Wakes a task. */
typedef struct weft_waker weft_waker;

/* What a poll task does.  When it gives WEFT_READY it has written its result, which is 0 before;
 * less than 0 is a negative errno: the task failed. */
typedef weft_poll (*weft_poll_fn)(weft_cx *cx, void *state, intptr_t *result);

/* State up to this size lies in the task itself, which has 256 bytes in all; a larger one is
 * allocated. */
#define WEFT_POLL_STATE_INLINE 64u
#define WEFT_POLL_STATE_MAX ((size_t)1 << 20)

/*
 * Spawns a poll task with a copy of the state, `size` bytes of it; 0: no state.  Called in a task.
 * Of the options those about stacks and arg_copy must be zero.
 *
 * 0            it will be polled
 * -EINVAL      no function, a state that is NULL or too large, or such an option
 * -ENOMEM      no memory
 * -EPERM       the caller is no task
 * and what weft_spawn gives
 */
WEFT_API int weft_spawn_poll(weft_task **out, weft_poll_fn fn, const void *state, size_t size,
                             const weft_task_options *options);

/* The same into a runtime, from any thread; as weft_runtime_spawn. */
WEFT_API int weft_runtime_spawn_poll(weft_runtime *runtime, weft_task **out, weft_poll_fn fn,
                                     const void *state, size_t size,
                                     const weft_task_options *options);

/* ---- wakers -------------------------------------------------------------------------------- */

/* The waker of who is being polled.  Borrowed: it is valid until the poll returns. */
WEFT_API weft_waker *weft_cx_waker(weft_cx *cx);

/* One that may be kept, and given to any thread; to be dropped.  Gives the same pointer. */
WEFT_API weft_waker *weft_waker_ref(weft_waker *waker);

/* Has the task polled again, once more at least, after this call.  From any thread, any number of
 * times, also when the task or its runtime has ended: then nothing happens.  NULL is allowed. */
WEFT_API void weft_wake(weft_waker *waker);

/* Gives it back.  NULL is allowed. */
WEFT_API void weft_waker_drop(weft_waker *waker);

/* ---- futures ------------------------------------------------------------------------------- */

/* The beginning of every future, also of those of users.  All zeros is none. */
typedef struct weft_future weft_future;
struct weft_future {
    /* As weft_poll_fn.  After it gave WEFT_READY it is not called again. */
    weft_poll (*poll)(weft_cx *cx, weft_future *self, intptr_t *result);
    /* It will not be polled again: lets go of what it has.  NULL: nothing to do. */
    void (*drop)(weft_future *self);
};

/* Polls a future. */
WEFT_API weft_poll weft_poll_future(weft_cx *cx, weft_future *future, intptr_t *result);

/* Drops a future: one that waits does not any more, and what it may have been given meanwhile goes
 * to the next who waits.  Twice, or after it was ready, it does nothing.  NULL is allowed. */
WEFT_API void weft_drop_future(weft_future *future);

/* Waits for a future in a green thread.  Its result, which may be -ECANCELED or -ETIMEDOUT by the
 * future's own word; -EPERM: not in a green thread; -EINVAL: NULL. */
WEFT_API intptr_t weft_await_future(weft_future *future);

/*
 * A point in time, as weft_sleep_until.  Result: 0, -ECANCELED, -ETIMEDOUT.
 */
typedef struct weft_sleep_future {
    weft_future future;
    uint64_t opaque[12];
} weft_sleep_future;

WEFT_API void weft_sleep_future_init(weft_sleep_future *future, weft_time at);

/*
 * The end of a task, as weft_await: takes over the handle.  Result: that of the task, -ECANCELED,
 * -ETIMEDOUT; -EDEADLK if it is the task itself.  Dropped before: the handle is dropped, and the
 * task is cancelled if `cancels` says so.
 */
typedef struct weft_task_future {
    weft_future future;
    uint64_t opaque[22];
} weft_task_future;

WEFT_API void weft_task_future_init(weft_task_future *future, weft_task *task, bool cancels);

/* ---- several of them ----------------------------------------------------------------------- */

/* One of several futures, in an array of the caller's. */
typedef struct weft_branch {
    weft_future *future;
    intptr_t result;
    bool is_done;
} weft_branch;

/*
 * Futures that wait for several.  The array, and what it points to, stays where it is.
 *
 *   all       until all are done.  Result: 0, or the error of the first in the array that has one
 *   try_all   until all are done, or one gives an error: the others are dropped.  Result: as above
 *   race      until one is done; the others are dropped.  Result: its index
 *   select    until one is done; the others stay as they are, to be polled again.  Result: its
 *             index; branches that are done already are left out, and with none left -ENOENT
 *
 * `result` and `is_done` of the branches say the rest.  No branches: 0 for the first two, -EINVAL
 * for the others.
 */
enum weft_join_kind { WEFT_JOIN_ALL, WEFT_JOIN_TRY_ALL, WEFT_JOIN_RACE, WEFT_JOIN_SELECT };

typedef struct weft_join_future {
    weft_future future;
    weft_branch *branches;
    size_t count;
    enum weft_join_kind kind;
    size_t turn; /* where the next poll begins: none is always first */
} weft_join_future;

WEFT_API void weft_join_future_init(weft_join_future *future, enum weft_join_kind kind,
                                    weft_branch *branches, size_t count);

/* A future with an end in time: its result, or -ETIMEDOUT, and then it is dropped.  Whether it was
 * the deadline of the task that has passed, after which all waits give that, says weft_check. */
typedef struct weft_timeout_future {
    weft_future future;
    weft_future *inner;
    weft_sleep_future clock;
} weft_timeout_future;

WEFT_API void weft_timeout_future_init(weft_timeout_future *future, weft_future *inner,
                                       weft_time at);

WEFT_END

#endif
