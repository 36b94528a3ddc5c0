/* SPDX-License-Identifier: MIT */
/*
 * obs/obs.h - what a program can see of its runtimes: task info, dumps, statistics, traces, reports
 * of misuse, of deadlocks and of stack overflows.
 *
 * Promises:      Reading changes nothing that a task could notice.  Names, wait records and ids are
 *                read while tasks run, so a report may be slightly out of date, never torn.
 * Must not know: how the scheduler chooses, locks of users, I/O.
 *
 * Edges, with the functions named without their wf_ prefix ("one sees the other": see sched.h):
 *
 *   edge      from (file function: operation)    to                           carries
 *   obs.C1    quiescence.c report: fence         runtime.c close: fence       one sees the other
 */
#ifndef WF_OBS_OBS_H
#define WF_OBS_OBS_H

#include "life/life.h"

/* info.c  [any]  Fills *out for a task that may have ended.  `runtime` is the task's; NULL: the
 * runtime may be closed.  `is_held`: the caller has a reference; else another task may begin in
 * this memory at any time. */
void wf_task_describe(const weft_runtime *runtime, const struct weft_task *task, bool is_held,
                      weft_task_info *out);

/* quiescence.c  [loop, control thread]  No task runs and none is queued: reports failures and a
 * deadlock, or wakes the closer.  `is_still`: the caller knows that no worker begins to run a task;
 * else the function stops the world where it needs that. */
void wf_quiescence_report(weft_runtime *runtime, bool is_still);
/* quiescence.c  [any]  True: since the last report a worker has begun or stopped running tasks, or
 * a report was requested. */
bool wf_quiescence_is_due(weft_runtime *runtime);
/* quiescence.c  [any]  Requests a report, because something has changed outside of the runtime's
 * tasks: a failure was noted, or a blocking function has ended after its future was dropped.  The
 * caller has made the change before the call. */
void wf_quiescence_request(struct wf_task_pool *pool);

/* report.c  [signal]  Prints which task ran into the guard of its stack. */
void wf_overflow_print(const struct wf_overflow *overflow);
/* report.c  [closer]  Prints to stderr that weft_run waits for this task. */
void wf_unfinished_print(const struct weft_task *task);
/* report.c  [any]  The program broke a rule: prints the task and the rule; ends the process. */
__attribute__((noreturn)) void wf_misuse(const char *what); /* as in struct wf_upcalls */

/* trace.c  [closer]  Frees the rings of all workers and of non-worker threads. */
void wf_runtime_trace_done(weft_runtime *runtime);

#endif
