/* SPDX-License-Identifier: MIT */
/*
 * sched/ready.c - tasks become ready: by a spawn, a wake-up, a cancel.
 *
 * A wake-up changes the state word; exactly one waker makes the transition from IDLE to ACTIVE and
 * queues the task (state.c).  A thread that is no worker of the task's runtime pins the runtime
 * meanwhile, since it may be closed at any moment.
 */
#include "sched/ready.h"

/* [owner]  Notifies a worker, if the push into the run queue requires it. */
static inline void follow_up(struct wf_worker *worker, enum wf_runq_pushed pushed)
{
    if (pushed == WF_RUNQ_NOTIFY && !wf_is_single_biased(worker)) {
        wf_steal_notify(worker->runtime, worker);
    }
}

void wf_ready_slow(struct wf_worker *worker, struct weft_task *task, enum wf_ready_place place)
{
    /* In fair mode only tasks for slow queues come here, and in hostile builds some others; in NONE
     * mode all. */
    if (task->needs_slow_queue || worker->runq.mode != WF_RUNQ_DEPTH_FIRST || WF_MIGRATES()) {
        worker->runtime->policy->ready(worker->runtime, worker, task);
    } else {
        follow_up(worker, place == WF_RUN_NEXT ? wf_runq_push_deque(&worker->runq, &task->node)
                                               : wf_runq_push_global(&worker->runq, &task->node));
    }
}

void wf_ready_displaced(struct wf_worker *worker, struct wf_node *displaced)
{
    follow_up(worker, wf_runq_push_displaced(&worker->runq, displaced));
}

void wf_ready_back(struct wf_worker *worker, struct weft_task *task)
{
    follow_up(worker, wf_runq_push_back(&worker->runq, &task->node));
}

/* [any]  Records why the task becomes ready. */
static void trace_ready(struct wf_worker *worker, struct weft_task *task, enum wf_trace_event event)
{
    weft_runtime *runtime = task->pool->runtime;
    const uint64_t id = wf_task_id(task);
    const uint64_t parent =
        wf_load_relaxed(&task->origin.parent_id); /* relaxed: the caller has it */
    wf_trace_event(runtime, worker, event, id, event == WF_TRACE_SPAWN ? parent : 0);
    wf_trace_event(runtime, worker, WF_TRACE_QUEUE, id, 0);
}

/* [owner]  ready_here on a traced worker.  Not inlined, like ready_outside, so that the common path
 * ends with a jump and saves no registers. */
static __attribute__((noinline)) void ready_traced(struct wf_worker *worker, struct weft_task *task,
                                                   enum wf_trace_event event)
{
    trace_ready(worker, task, event);
    wf_ready(worker, task, WF_RUN_NEXT);
}

/* [owner]  Makes a task of its own runtime ready. */
static inline void ready_here(struct wf_worker *worker, struct weft_task *task,
                              enum wf_trace_event event)
{
    if (__builtin_expect(worker->trace != NULL, 0)) {
        ready_traced(worker, task, event);
    } else {
        wf_ready(worker, task, WF_RUN_NEXT);
    }
}

/* [any, no worker of the runtime, runtime pinned]  Makes a task ready. */
static __attribute__((noinline)) void ready_outside(struct weft_task *task,
                                                    enum wf_trace_event event)
{
    weft_runtime *runtime = task->pool->runtime;
    trace_ready(NULL, task, event);
    runtime->policy->ready(runtime, NULL, task);
}

/* [any]  Changes the state, and queues the task if this call changed it from IDLE to ACTIVE. */
static inline void wake_by(struct wf_worker *worker, struct weft_task *task,
                           enum wf_wake (*change)(struct wf_state *))
{
    if (worker != NULL && worker->pool == task->pool) {
        if (change(&task->state) == WF_WAKE_QUEUE) {
            ready_here(worker, task, WF_TRACE_WAKE);
        }
    } else if (wf_pool_pin(task->pool)) {
        struct wf_task_pool *pool = task->pool;
        if (change(&task->state) == WF_WAKE_QUEUE) {
            ready_outside(task, WF_TRACE_WAKE);
        }
        wf_pool_unpin(pool);
    } else {
        WF_REACHED("ready.woken_after_its_runtime");
    }
}

void wf_task_wake(struct weft_task *task)
{
    wake_by(wf_worker_self(), task, wf_state_wake);
}

void wf_task_wake_on(struct wf_worker *worker, struct weft_task *task)
{
    wake_by(worker, task, wf_state_wake);
}

void wf_task_cancel(struct weft_task *task)
{
    wake_by(wf_worker_self(), task, wf_state_cancel);
}

void wf_task_place_on(struct wf_worker *worker, struct weft_task *task)
{
    if (worker != NULL && worker->pool == task->pool) {
        ready_here(worker, task, WF_TRACE_SPAWN);
    } else {
        ready_outside(task, WF_TRACE_SPAWN);
    }
}

void wf_task_place(struct weft_task *task)
{
    wf_task_place_on(wf_worker_self(), task);
}
