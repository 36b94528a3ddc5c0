/* SPDX-License-Identifier: MIT */
/*
 * weft/blocking.h - calls that block their thread, without keeping a worker.
 *
 * A function that waits in the kernel, or in a library that does not know tasks, keeps the thread
 * it runs on.  weft_blocking_call runs it on a thread of the blocking pool.  Such threads are
 * started on demand, up to `blocking_max` of the runtime's options; a thread that was idle for
 * `blocking_idle_ns` ends.  Further jobs wait and begin in the order of submission.
 */
#ifndef WEFT_BLOCKING_H
#define WEFT_BLOCKING_H

#include <weft/future.h>
#include <weft/types.h>

WEFT_BEGIN

/*
 * Calls fn(arg) on a thread of the pool and waits for its result; the worker runs other tasks
 * meanwhile.  fn is not a task: it runs on a non-worker thread, and calls of Weft that wait block
 * that thread.  Called on a non-worker thread, weft_blocking_call calls fn directly.
 *
 * Returns the result of fn, or
 * -ECANCELED   the task was cancelled before fn began; fn is never called
 * -ETIMEDOUT   the task's deadline passed before fn began; fn is never called
 * -EAGAIN      the pool has no thread, and the system does not start another one
 * -ENOMEM      the pool has no thread, and there is no memory for one
 *
 * A running function cannot be stopped.  If the task is cancelled or its deadline passes meanwhile,
 * weft_blocking_call still waits until fn has returned, and returns the result of fn; the task's
 * next wait returns -ECANCELED or -ETIMEDOUT.  A thread that closes the runtime waits for fn, too.
 */
WEFT_API intptr_t weft_blocking_call(weft_fn fn, void *arg) WEFT_NONNULL(1);

/*
 * weft_blocking_call as a future, for poll tasks and for waiting for several things at once.  Its
 * result is that of the call.  The first poll submits fn, which begins as soon as a thread of the
 * pool is free.  The result may also be -ENOMEM because the future itself needs some memory.
 *
 * Dropping the future does not wait.  If fn has not begun, it never will; if fn is running, it
 * continues and its result is discarded.  So `arg` belongs to the future until the future is ready.
 * If the future is dropped before it is ready, release(arg) is called once, as soon as fn does not
 * use arg any more: during the drop, or later on another thread.  release must not wait and may be
 * NULL.
 *
 * A green thread can use this future to abandon a running call when the green thread is cancelled
 * or its deadline passes: the future races with a sleep that never ends.
 *
 *     weft_wait_future call;
 *     weft_sleep_future sleep;
 *     weft_join_future race;
 *     weft_branch branches[2] = {{.future = &call.future}, {.future = &sleep.future}};
 *     weft_blocking_call_future(&call, fn, arg, release);
 *     weft_sleep_future_init(&sleep, WEFT_NEVER);
 *     weft_join_future_init(&race, WEFT_JOIN_RACE, branches, 2);
 *     intptr_t rc = weft_future_await(&race.future);       1: the call was abandoned
 *     rc = rc < 0 ? rc : branches[rc].result;              then -ECANCELED or -ETIMEDOUT
 */
WEFT_API void weft_blocking_call_future(weft_wait_future *future, weft_fn fn, void *arg,
                                        void (*release)(void *arg)) WEFT_NONNULL(1, 2);

/*
 * A task calls these two functions before and after a call that may block.  The task keeps its
 * thread, and another worker runs the other tasks of its worker meanwhile.  Cheaper than
 * weft_blocking_call if the call rarely blocks, and the only way if the call must be made on this
 * thread.  The pairs nest.  Between the two functions the task must call no other function of Weft,
 * because its worker counts as standing still, also for weft_world_stop.  weft_block_end may
 * wait until the world is started again.  Outside a task both do nothing.
 */
WEFT_API void weft_block_begin(void);
WEFT_API void weft_block_end(void);

WEFT_END

#endif
