/* SPDX-License-Identifier: MIT */
/*
 * weft/blocking.h - calls that block their thread, without keeping a worker.
 *
 * A function that waits in the kernel, or in a library that does not know tasks, keeps the thread
 * it runs on.  weft_blocking runs it on a thread of the blocking pool.  Such threads are started on
 * demand, up to `blocking_max` of the runtime's options; a thread that was idle for
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
 * that thread.  Called on a non-worker thread, weft_blocking calls fn directly.
 *
 * Returns the result of fn, or
 * -EINVAL      no function
 * -ECANCELED   the task was cancelled before fn began; fn is never called
 * -ETIMEDOUT   the task's deadline passed before fn began; fn is never called
 * -EAGAIN      there is no thread, and the system starts none
 * -ENOMEM      there is no thread, and no memory for one
 *
 * A running function cannot be stopped: a task that is cancelled meanwhile waits for its end and
 * returns its result, and so does a thread that closes the runtime.  The task's next wait returns
 * -ECANCELED.
 */
WEFT_API intptr_t weft_blocking(weft_fn fn, void *arg);

/*
 * weft_blocking as a future, for poll tasks and for waiting for several things at once.  Its result
 * is that of the call.  fn begins at the first poll, or as soon as there is a thread for it.  The
 * result may also be -ENOMEM because the future itself needs some memory.
 *
 * Dropping the future does not wait.  If fn has not begun, it never will; if fn is running, it
 * continues and its result is discarded.  So `arg` belongs to the future until the future is ready.
 * If the future is dropped before, release(arg) is called once, when fn no longer uses arg: at
 * once, or on the thread of fn.  release must not wait and may be NULL.
 *
 * With it a green thread can abandon a running call when it is cancelled or its deadline passes, by
 * a race with a sleep that never ends:
 *
 *     weft_wait_future call;
 *     weft_sleep_future sleep;
 *     weft_join_future race;
 *     weft_branch branches[2] = {{.future = &call.future}, {.future = &sleep.future}};
 *     weft_blocking_future(&call, fn, arg, release);
 *     weft_sleep_future_init(&sleep, WEFT_NEVER);
 *     weft_join_future_init(&race, WEFT_JOIN_RACE, branches, 2);
 *     intptr_t rc = weft_await_future(&race.future);       < 0: the call was abandoned
 *     rc = rc < 0 ? rc : branches[rc].result;
 */
WEFT_API void weft_blocking_future(weft_wait_future *future, weft_fn fn, void *arg,
                                   void (*release)(void *arg));

/*
 * A task encloses a call that may block by these two.  The task keeps its thread, and another
 * worker runs the other tasks of its worker meanwhile.  Cheaper than weft_blocking if the call
 * rarely blocks, and the only way if the call must be made on this thread.  Calls nest.  Between
 * the two no other function of Weft may be called: the worker counts as standing still, also for
 * weft_stop_the_world.  weft_block_end may wait until the world is started again.  Outside a task
 * both do nothing.
 */
WEFT_API void weft_block_begin(void);
WEFT_API void weft_block_end(void);

WEFT_END

#endif
