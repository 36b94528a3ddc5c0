/* SPDX-License-Identifier: MIT */
/*
 * runtime/runtime.h - a runtime as a whole: options, opening, running, closing, the monitor.
 *
 * Promises:      Opening is all or nothing.  Closing ends every task and every thread, and leaves
 *                nothing but the handles, and the task memory that they keep.  A stuck worker is
 *                replaced by a spare.
 * Must not know: locks of users, I/O.
 */
#ifndef WF_RUNTIME_RUNTIME_H
#define WF_RUNTIME_RUNTIME_H

#include "fork/fork.h"
#include "future/future.h"
#include "life/blocking.h"
#include "obs/obs.h"

/* options.c  [any]  Fills in defaults and the environment.  -EINVAL: `text` gets the reason, as in
 * weft_runtime_options_check. */
int wf_options_fill(weft_runtime_options *out, const weft_runtime_options *options, char *text,
                    size_t text_size);

/* start.c  [opener]  Allocates memory for all workers that may exist and initialises those that the
 * options ask for, without their threads.  -ENOMEM: nothing is left behind. */
int wf_workers_init(weft_runtime *runtime);
/* start.c  [opener, closer]  Frees the memory; `count` workers are initialised. */
void wf_workers_done(weft_runtime *runtime, unsigned count);
/* start.c  [opener]  Starts the threads of the workers, all or none.  -EAGAIN, -ENOMEM. */
int wf_workers_start(weft_runtime *runtime);
/* start.c  [opener, monitor]  Initialises one worker, without its thread.  -ENOMEM. */
int wf_worker_init(weft_runtime *runtime, unsigned index);
/* start.c  [monitor]  Starts the thread of a spare.  -EAGAIN, -ENOMEM. */
int wf_worker_start(struct wf_worker *worker);

/* monitor.c  [opener]  Starts the monitor's thread, unless the options forbid it.  -EAGAIN,
 * -ENOMEM: the thread could not be started. */
int wf_monitor_start(weft_runtime *runtime);
/* monitor.c  [closer]  Ends the monitor's thread: no spare starts after this.  May be called twice.
 */
void wf_monitor_stop(weft_runtime *runtime);
/* monitor.c  [monitor]  Sleeps until a worker leaves the safe state.  Returns at once if one is not
 * safe. */
void wf_monitor_sleep(weft_runtime *runtime);

#endif
