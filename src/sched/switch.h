/* SPDX-License-Identifier: MIT */
/*
 * sched/switch.h - from task to task: what yield, wait and end have in common, inline.
 *
 * A switch takes less than twenty nanoseconds.  Each function that a task is inside of when it is
 * suspended adds 7 ns, because the CPU mispredicts its return after the switch.  So the few
 * functions that every suspension goes through are inline, and only they.
 */
#ifndef WF_SCHED_SWITCH_H
#define WF_SCHED_SWITCH_H

#include <weft/par_fork.h>

#include "sched/ready.h"

/* ---- the next task ------------------------------------------------------------------------- */

/* [owner]  The next task, for one that switches away; NULL: the loop has to look. */
static inline struct weft_task *wf_pick_next(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    /* relaxed: a stopper waits until the worker has seen its request */
    if (worker->runq.mode != WF_RUNQ_FAIR || worker->tick.left == 0 ||
        wf_load_relaxed(&runtime->world.is_stopped) != 0 ||
        wf_inject_count(&runtime->queues.high) > 0) {
        return NULL;
    }
    worker->tick.left--;
    return wf_task_of(wf_runq_pop_fair(&worker->runq));
}

/* ---- forks of the running task ----------------------------------------------------------------
 */

/* [the task]  Its split deque (fork/fork.h).  NULL: it has not forked yet. */
static inline struct weft_par_forks *wf_forks_of(const struct weft_task *self)
{
    const struct wf_task_extra *extra =
        wf_load_relaxed(&self->extra); /* relaxed, both: the task's own */
    return extra != NULL ? wf_load_relaxed(&extra->forks) : NULL;
}

/* [owner]  Sets the worker's current split deque to that of the task that runs next; NULL: the loop
 * runs.  weft_par_fork_go then finds it by one load instead of three. */
static inline void wf_forks_enter(struct wf_worker *worker, const struct weft_task *task)
{
    struct weft_par_forks *forks = NULL;
    if (task != NULL && __builtin_expect(!task->is_bare, 0)) {
        forks = wf_forks_of(task);
    }
    worker->forks = forks != NULL ? forks : wf_upcalls.no_forks;
}

/* [the task]  Whether it has forks that are not joined yet. */
static inline bool wf_has_forks(const struct weft_task *self)
{
    struct weft_par_forks *forks = wf_forks_of(self);
    return forks != NULL && weft_par_forks_front_of(forks)->newest != NULL;
}

/* ---- switching ----------------------------------------------------------------------------- */

/* What the next context does for the context that switched away.  It travels in the low bits of the
 * message of the switch, an address. */
enum wf_after_switch {
    WF_AFTER_NOTHING,
    WF_AFTER_REQUEUE,    /* of a task: queue it behind the others */
    WF_AFTER_PARK,       /* of a task: make it idle, unless it was woken */
    WF_AFTER_FREE_STACK, /* of a stack: no context runs on it any more */
    WF_AFTER_RUN_NEXT,   /* of a task: queue it, to be the next one here */
};
#define WF_AFTER_MASK 7u

_Static_assert(alignof(struct wf_stack) > WF_AFTER_MASK, "the action fits beside the address");

static inline void *wf_switch_message(void *what, enum wf_after_switch after)
{
    return (char *)what + after;
}

/* [owner]  The thread is about to go on with this task. */
static inline void wf_enter_task(struct wf_worker *worker, struct weft_task *task)
{
    /* release: (sched.D1) for dumps, (sched.K5) for thieves, which look at the task's forks */
    wf_store_release(&worker->current, task);
    wf_forks_enter(worker, task);
    wf_counter_add(&worker->counters.polled, 1);
    wf_counter_add(&task->runs, 1);
    if (worker->trace != NULL) {
        wf_trace_put(worker->trace, WF_TRACE_FIND, wf_task_id(task), 0);
        wf_trace_put(worker->trace, WF_TRACE_ENTER, wf_task_id(task), 0);
    }
}

/* [owner]  The thread is about to go on with the loop. */
static inline void wf_enter_loop(struct wf_worker *worker)
{
    wf_store_relaxed(&worker->current, NULL); /* relaxed: other threads only look */
    wf_forks_enter(worker, NULL);
}

/* [task]  Switches to `next`, or to the loop if `next` is NULL or cannot begin.  The context that
 * resumes carries out the after-switch action `after` for `self`. */
static inline __attribute__((always_inline)) void wf_switch_away(struct wf_worker *worker,
                                                                 struct weft_task *self,
                                                                 struct weft_task *next,
                                                                 enum wf_after_switch after)
{
    struct wf_fiber *to = &worker->loop;
    if (next != NULL) {
        bool is_begun = next->fiber != NULL ||
                        (next->body == WF_BODY_GREEN && wf_task_begin(worker, next) == 0);
        if (is_begun) {
            wf_enter_task(worker, next);
            to = next->fiber;
        } else {
            WF_REACHED("switch.next_has_no_stack_yet");
            worker->run.next = next; /* the loop tries again, and fails the task if need be */
        }
    }
    void *message = wf_fiber_switch(self->fiber, to, wf_switch_message(self, after));
    wf_finish_switch(wf_worker_self(), message);
}

/* [task]  As wf_task_suspend, inline.  The model checker has no fibers: there the model program
 * defines wf_task_suspend. */
static inline __attribute__((always_inline)) void wf_suspend(struct weft_task *self)
{
#ifdef WF_MODEL
    wf_task_suspend(self);
#else
    if (__builtin_expect(!self->is_bare, 0) && wf_has_forks(self)) {
        wf_upcalls.forks_release(self);
    }
    struct wf_worker *worker = wf_worker_self();
    WEFT_ASSERT(wf_load_relaxed(&self->wait) != WEFT_WAIT_NOTHING);
    self->budget = WF_TASK_BUDGET;
    wf_switch_away(worker, self, wf_pick_next(worker), WF_AFTER_PARK);
#endif
}

/* [task]  The caller is about to wait for the end of `task`.  If `task` has not begun to run, and
 * this worker has a ready task, the caller yields first.  Usually `task` has ended when the caller
 * runs again, and the caller need not wait: it has paid one pass through the queue instead of the
 * three locked instructions of a wait.  If `task` is in the LIFO slot and runs next, the caller is
 * queued to run right after it. */
static inline __attribute__((always_inline)) void wf_yield_to_new(struct weft_task *self,
                                                                  struct weft_task *task)
{
#ifndef WF_MODEL
    struct wf_worker *worker = wf_worker_self();
    /* relaxed: a guess.  A poll task (no fiber) must not wait: wf_wait_begin_on reports it. */
    if (wf_load_relaxed(&task->runs) != 0 || self->needs_slow_queue || worker->trace != NULL ||
        self->fiber == NULL) {
        return;
    }
    const bool is_newest =
        wf_load_relaxed(&worker->runq.lifo) == &task->node; /* relaxed: a guess */
    struct weft_task *next = wf_pick_next(worker);
    if (next != NULL) {
        self->budget = WF_TASK_BUDGET;
        wf_switch_away(worker, self, next,
                       is_newest && next == task ? WF_AFTER_RUN_NEXT : WF_AFTER_REQUEUE);
    }
#else
    (void)self;
    (void)task;
#endif
}

#endif
