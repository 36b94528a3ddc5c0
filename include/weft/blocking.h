/* SPDX-License-Identifier: MIT */
/*
 * weft/blocking.h - calls that block their thread, without keeping a worker.
 *
 * A function that waits in the kernel, or in a library that knows nothing of tasks, keeps the
 * thread it runs on.  Here it gets one of its own: threads are started when they are needed, up to
 * `blocking_max` of the runtime's options; one that had nothing to do for `blocking_idle_ns` ends.
 * Jobs beyond that wait, and begin in the order in which they came.
 */
#ifndef WEFT_BLOCKING_H
#define WEFT_BLOCKING_H

#include <weft/future.h>
#include <weft/types.h>

WEFT_BEGIN

/*
 * Calls fn(arg) on a thread of its own and waits for it; the worker goes on with other tasks.  In
 * fn there is no task: it is a foreign thread, and calls of Weft that wait block it.  A thread that
 * is no worker calls fn itself.
 *
 * The result of fn, or
 * -EINVAL      no function
 * -ECANCELED   the task was asked to end, before fn had begun: it never will
 * -ETIMEDOUT   the same, the task's deadline has passed
 * -EAGAIN      there is no thread, and the system gives none
 * -ENOMEM      there is no thread, and no memory for one
 *
 * A function that runs cannot be stopped: a task that is cancelled meanwhile waits for its end and
 * gets its result, and so does who closes the runtime.  It is the next wait that is cancelled.
 */
WEFT_API intptr_t weft_blocking(weft_fn fn, void *arg);

/*
 * weft_blocking for poll tasks, and for those who wait for several things at once: its result is
 * what the call gives.  fn begins with the first poll, or when there is a thread for it.
 *
 * A future that is dropped does not wait: if fn has not begun it never will, and if it runs it goes
 * on without anybody who looks at its result.  So `arg` belongs to the future until that is ready;
 * of one that is dropped before, release(arg) is called once, when fn does not use it any more: at
 * once, or on the thread of fn; it must not wait.  NULL: nobody has to be told.  There is one more
 * reason for -ENOMEM: the future needs some memory.
 *
 * So a green thread can leave a call that runs, when it is cancelled or out of time, by a race with
 * a sleep that never ends:
 *
 *     weft_wait_future call;
 *     weft_sleep_future sleep;
 *     weft_join_future race;
 *     weft_branch branches[2] = {{.future = &call.future}, {.future = &sleep.future}};
 *     weft_blocking_future(&call, fn, arg, release);
 *     weft_sleep_future_init(&sleep, WEFT_NEVER);
 *     weft_join_future_init(&race, WEFT_JOIN_RACE, branches, 2);
 *     intptr_t rc = weft_await_future(&race.future);       < 0: it was left
 *     rc = rc < 0 ? rc : branches[rc].result;
 */
WEFT_API void weft_blocking_future(weft_wait_future *future, weft_fn fn, void *arg,
                                   void (*release)(void *arg));

/*
 * Around a call that may block, in a task: the task keeps its thread, and another worker stands in
 * for its own meanwhile.  Cheaper than weft_blocking where the call mostly does not block, and for
 * what has to be done on this thread.  In between no function of Weft may be called but these two,
 * which nest: the worker counts as standing still, also for who stops the world.  Outside of a task
 * they do nothing.
 */
WEFT_API void weft_block_begin(void);
WEFT_API void weft_block_end(void);

WEFT_END

#endif
