/* SPDX-License-Identifier: MIT */
/*
 * life/limit.c - the limits of a runtime, and spawns that wait for admission.
 *
 * There are two limits: live tasks (tasks_max), counted here, and queued tasks (global_capacity),
 * counted by the queue.  A runtime without limits never calls these functions.
 *
 * A waiter is in the list of its limit.  A releaser is a thread that ends a task or takes tasks out
 * of the queue.  It wakes up to one waiter for each task.  A woken waiter tries again, and may find
 * that another spawn was faster.  A releaser that finds no waiter pays one fence and one load.
 * Releaser against waiter (life.Q1):
 *
 *   releaser (wf_limit_wake)                 waiter (wf_limit_wait)
 *   1 has lowered the number                 1 enter the list and add 1 to `waiting`, locked
 *   2 fence                                  2 fence
 *   3 `waiting` is not 0: wake waiters       3 the number is below the limit: do not sleep
 *
 * One of the two sees what the other stored.  tests/model/model_limit.c runs this in every order.
 */
#include <errno.h>

#include "life/life.h"

/* A spawn that waits for admission, in the frame of the wait. */
struct limit_waiter {
    struct wf_abandon_hook hook;
    struct wf_list link; /* [lock] */
    struct wf_waiter waiter;
    bool is_listed;          /* [lock] */
    enum wf_limit_kind kind; /* [const] */
    weft_runtime *runtime;   /* [const]  in which it spawns */
};

void wf_limits_init(struct wf_limits *limits)
{
    wf_lock_init(&limits->lock, WF_RANK_LIMIT);
    for (unsigned kind = 0; kind < WF_LIMIT_KINDS; kind++) {
        wf_list_init(&limits->waiters[kind]);
    }
}

/* [any]  True: the waiter must try again; the number is below the limit, or the runtime closes. */
static bool must_retry(weft_runtime *runtime, enum wf_limit_kind kind)
{
    const weft_runtime_options *options = &runtime->options;
    if (wf_load_relaxed(&runtime->shutdown.is_closing) !=
        0) { /* all relaxed: the fences order them */
        return true;
    }
    return kind == WF_LIMIT_TASKS ? wf_load_relaxed(&runtime->limits->live) < options->tasks_max
                                  : wf_runtime_queued(runtime) < options->global_capacity;
}

/* [locked limits->lock] */
static void limit_list_locked(struct wf_limits *limits, struct limit_waiter *waiter)
{
    const enum wf_limit_kind kind = waiter->kind;
    wf_list_push_back(&limits->waiters[kind], &waiter->link);
    waiter->is_listed = true;
    /* relaxed: written under the lock; the fences order it for a releaser, which has no lock */
    wf_store_relaxed(&limits->waiting[kind], wf_load_relaxed(&limits->waiting[kind]) + 1);
}

/* [locked limits->lock] */
static void limit_unlist_locked(struct wf_limits *limits, struct limit_waiter *waiter)
{
    const enum wf_limit_kind kind = waiter->kind;
    wf_list_remove(&waiter->link);
    waiter->is_listed = false;
    wf_store_relaxed(&limits->waiting[kind], wf_load_relaxed(&limits->waiting[kind]) - 1);
}

/* [any]  Wakes up to `count` waiters, in the order in which they came. */
static void limit_wake_some(struct wf_limits *limits, enum wf_limit_kind kind, size_t count)
{
    wf_lock_acquire(&limits->lock);
    while (count > 0 && !wf_list_is_empty(&limits->waiters[kind])) {
        struct limit_waiter *waiter =
            wf_container_of(limits->waiters[kind].next, struct limit_waiter, link);
        limit_unlist_locked(limits, waiter);
        wf_waiter_wake(&waiter->waiter);
        count--;
    }
    wf_lock_release(&limits->lock);
}

void wf_limit_close(weft_runtime *runtime)
{
    for (unsigned kind = 0; kind < WF_LIMIT_KINDS; kind++) {
        /* all; a later waiter sees is_closing */
        limit_wake_some(runtime->limits, (enum wf_limit_kind)kind, SIZE_MAX);
    }
}

void wf_limit_wake(weft_runtime *runtime, enum wf_limit_kind kind, size_t count)
{
    wf_fence_seq_cst(); /* (life.Q1) */
    if (wf_load_relaxed(&runtime->limits->waiting[kind]) > 0) {
        limit_wake_some(runtime->limits, kind, count);
    }
}

/* [closer]  The task waits for admission and never runs again. */
static void limit_waiter_abandon(struct wf_abandon_hook *hook)
{
    struct limit_waiter *waiter = wf_container_of(hook, struct limit_waiter, hook);
    weft_runtime *runtime = waiter->runtime;
    WF_REACHED("limit.abandoned");
    wf_lock_acquire(&runtime->limits->lock);
    const bool is_woken = !waiter->is_listed;
    if (!is_woken) {
        limit_unlist_locked(runtime->limits, waiter);
    }
    wf_lock_release(&runtime->limits->lock);
    if (runtime->pool == waiter->waiter.task->pool) {
        return; /* the runtime closes too */
    }
    if (is_woken) {
        WF_REACHED("limit.woken_and_abandoned");
        wf_limit_wake(runtime, waiter->kind, 1); /* pass the wake-up on to another waiter */
    }
    if (waiter->kind == WF_LIMIT_QUEUE && runtime->options.tasks_max != 0) {
        wf_limit_release(runtime); /* the spawn was counted before it waited for the queue */
    }
    wf_pool_unpin(runtime->pool); /* the pin of wf_task_spawn, which does not return */
}

/* [the waiter]  Sleeps until woken.  -ECANCELED, -ETIMEDOUT: the task was interrupted. */
static int limit_sleep(struct weft_task *self, struct limit_waiter *waiter)
{
    if (self == NULL) {
        wf_waiter_wait(&waiter->waiter);
        return 0;
    }
    int rc = wf_task_interrupted(self);
    if (rc == 0) {
        waiter->hook.abandon = limit_waiter_abandon;
        wf_abandon_hook_enter(self, &waiter->hook);
        wf_wait_begin(self, WEFT_WAIT_ADMISSION, waiter);
        wf_waiter_wait(&waiter->waiter);
        wf_wait_end(self);
        wf_abandon_hook_remove(self, &waiter->hook);
        rc = wf_task_interrupted(self);
    }
    return rc;
}

int wf_limit_wait(weft_runtime *runtime, enum wf_limit_kind kind)
{
    struct weft_task *self = wf_task_self();
    struct wf_limits *limits = runtime->limits;
    struct limit_waiter waiter = {.kind = kind, .runtime = runtime};
    wf_waiter_init(&waiter.waiter, self);
    wf_lock_acquire(&limits->lock);
    limit_list_locked(limits, &waiter);
    wf_lock_release(&limits->lock);
    wf_fence_seq_cst(); /* (life.Q1) */
    int rc = 0;
    if (must_retry(runtime, kind)) {
        WF_REACHED("limit.made_before_it_slept");
    } else {
        rc = limit_sleep(self, &waiter);
    }
    wf_lock_acquire(&limits->lock);
    bool is_woken = !waiter.is_listed;
    if (waiter.is_listed) {
        limit_unlist_locked(limits, &waiter);
    }
    wf_lock_release(&limits->lock);
    if (rc != 0 && is_woken) {
        WF_REACHED("limit.passed_on");
        wf_limit_wake(runtime, kind, 1); /* pass the wake-up on to another waiter */
    }
    return rc;
}

int wf_limit_admit(weft_runtime *runtime)
{
    for (;;) { /* ends: admitted, or the runtime closes, or the caller is interrupted */
        uint64_t live = wf_load_relaxed(&runtime->limits->live); /* relaxed: the CAS decides */
        while (live < runtime->options.tasks_max) {
            if (wf_cas_relaxed(&runtime->limits->live, &live, live + 1)) { /* relaxed: a number */
                return 0;
            }
        }
        if (wf_load_relaxed(&runtime->shutdown.is_closing) !=
            0) { /* relaxed: wf_limit_wait checks again */
            return -ESHUTDOWN;
        }
        if (!runtime->options.spawn_waits) {
            return -EAGAIN;
        }
        int rc = wf_limit_wait(runtime, WF_LIMIT_TASKS);
        if (rc != 0) {
            return rc;
        }
    }
}

void wf_limit_release(weft_runtime *runtime)
{
    (void)wf_fetch_sub_relaxed(&runtime->limits->live,
                               1); /* relaxed: the fence in wake orders it */
    wf_limit_wake(runtime, WF_LIMIT_TASKS, 1);
}
