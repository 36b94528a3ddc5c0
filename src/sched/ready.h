/* SPDX-License-Identifier: MIT */
/*
 * sched/ready.h - where a task goes when it becomes ready.
 *
 * A worker calls wf_ready for each task of its runtime that becomes ready.  A normal task goes into
 * the run queue of that worker; all others go through the policy: a pinned task to the inbox of its
 * worker, a task of high or low priority to the queue of that priority, and in the reactor policy
 * every task to the control thread.  A thread that is no worker of the runtime calls the policy
 * directly (ready.c), which queues the task by pin, priority and policy.
 */
#ifndef WF_SCHED_READY_H
#define WF_SCHED_READY_H

#include "sched/sched.h"

/* [owner]  True: no other worker can take what this one queues.  It is the only configured worker,
 * and its queue is biased, which shows that no spare is active. */
static inline bool wf_is_single_biased(struct wf_worker *worker)
{
    return worker->is_single && wf_bias_is_set(&worker->runq.bias);
}

enum wf_ready_place {
    WF_RUN_NEXT, /* before the other tasks of the worker */
    WF_RUN_BACK, /* behind them: it has had its slice */
};

/* ready.c  [owner]  The parts of wf_ready that are not inline. */
void wf_ready_slow(struct wf_worker *worker, struct weft_task *task, enum wf_ready_place place);
void wf_ready_displaced(struct wf_worker *worker, struct wf_node *displaced);
void wf_ready_back(struct wf_worker *worker, struct weft_task *task);

/* [owner]  Queues a task that is ready, and wakes a worker for it if need be.  Every slow path is a
 * tail call, so the fast path saves no registers. */
static inline void wf_ready(struct wf_worker *worker, struct weft_task *task,
                            enum wf_ready_place place)
{
    if (__builtin_expect(
            task->needs_slow_queue || worker->runq.mode != WF_RUNQ_FAIR || WF_MIGRATES(), 0)) {
        wf_ready_slow(worker, task, place);
    } else if (place == WF_RUN_BACK) {
        wf_ready_back(worker, task);
    } else {
        struct wf_node *displaced = wf_lifo_put(&worker->runq, &task->node);
        if (displaced != NULL) {
            wf_ready_displaced(worker, displaced);
        } else if (__builtin_expect(worker->leader.may_be_needed, 0) &&
                   !wf_is_single_biased(worker)) {
            wf_leader_needed(worker);
        }
    }
}

/* ready.c  [any]  Wakes a task that may be waiting, or may have ended: see task/pool.c. */
void wf_task_wake(struct weft_task *task);
/* ready.c  [any]  As wf_task_wake, with the caller's worker; NULL: a non-worker thread. */
void wf_task_wake_on(struct wf_worker *worker, struct weft_task *task);
/* ready.c  [any]  Cancels the task, and wakes it unless it has a shield. */
void wf_task_cancel(struct weft_task *task);
/* ready.c  [any, runtime pinned]  Queues a new task. */
void wf_task_place(struct weft_task *task);
/* ready.c  [any, runtime pinned]  As wf_task_place, with the caller's worker; NULL: a non-worker
 * thread. */
void wf_task_place_on(struct wf_worker *worker, struct weft_task *task);

#endif
