/* SPDX-License-Identifier: MIT */
/*
 * model/sync_helpers.h - the scheduler functions that the files of src/sync call, for their model
 * programs.
 *
 * A thread of the test is a task, with its own worker, or a thread outside the runtime.  A task
 * that waits is parked by its real state, and its thread by a parker: a lost wake-up is a deadlock.
 */
#ifndef MODEL_SYNC_HELPERS_H
#define MODEL_SYNC_HELPERS_H

#include <errno.h>

#include "future/future.h"
#include "model/model.h"
#include "sync/sync.h"

static weft_runtime runtime;
static struct wf_task_pool pool;
static struct wf_worker workers[MODEL_THREADS_MAX];

/* By thread. */
static alignas(WF_CACHE_LINE) struct weft_task selves[MODEL_THREADS_MAX];
static bool is_thread[MODEL_THREADS_MAX];
static struct wf_parker parkers[MODEL_THREADS_MAX];

/* Before and after the threads, setup() and check() run outside of a task. */
static inline bool is_in_task(void)
{
    return model_thread() < MODEL_THREADS_MAX && !is_thread[model_thread()];
}

struct wf_worker *wf_worker_self(void)
{
    return is_in_task() ? &workers[model_thread()] : NULL;
}

struct weft_task *wf_task_self(void)
{
    return is_in_task() ? &selves[model_thread()] : NULL;
}

void wf_task_suspend(struct weft_task *self)
{
    if (wf_state_park(&self->state)) {
        (void)wf_parker_park(&parkers[self - selves], WF_FOREVER);
    }
}

void wf_task_wake(struct weft_task *task)
{
    if (wf_state_wake(&task->state) == WF_WAKE_QUEUE) {
        wf_parker_unpark(&parkers[task - selves]);
    }
}

static inline void cancel(unsigned thread)
{
    if (wf_state_cancel(&selves[thread].state) == WF_WAKE_QUEUE) {
        wf_parker_unpark(&parkers[thread]);
    }
}

int wf_task_interrupted(struct weft_task *self)
{
    return wf_state_is_cancelled(&self->state) ? -ECANCELED : 0;
}

void wf_task_spend(struct weft_task *self)
{
    (void)self;
}

void wf_task_yield(struct weft_task *self)
{
    (void)self;
    model_fail("a task whose budget is used up");
}

uintptr_t wf_thread_key(void)
{
    return (model_thread() + 1) * (uintptr_t)16;
}

void wf_wait_begin_until(struct weft_task *self, enum weft_wait wait, const void *object,
                         int64_t until_ns)
{
    (void)self;
    (void)wait;
    (void)object;
    (void)until_ns;
}

void wf_wait_end(struct weft_task *self)
{
    (void)self;
}

/* No task is abandoned inside a function of the user here. */
void wf_undo_hook_add(struct wf_undo_hook *hook, void (*undo)(void *arg), void *arg)
{
    (void)hook;
    (void)undo;
    (void)arg;
}

void wf_undo_hook_remove(struct wf_undo_hook *hook)
{
    (void)hook;
}

void wf_waiter_init(struct wf_waiter *waiter, struct weft_task *self)
{
    waiter->task = self;
    wf_parker_init(&waiter->parker);
}

void wf_waiter_wake(struct wf_waiter *waiter)
{
    if (waiter->task != NULL) {
        wf_task_wake(waiter->task);
    } else {
        wf_parker_unpark(&waiter->parker);
    }
}

bool wf_pool_pin(struct wf_task_pool *of)
{
    MODEL_REQUIRE(of == &pool);
    return true;
}

void wf_pool_unpin(struct wf_task_pool *of)
{
    MODEL_REQUIRE(of == &pool);
}

int64_t wf_clock_now(void)
{
    return 0;
}

/* [setup]  All threads are tasks. */
static inline void start_tasks(void)
{
    runtime = (weft_runtime){0};
    pool = (struct wf_task_pool){.runtime = &runtime};
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        selves[i] = (struct weft_task){.pool = &pool, .budget = WF_TASK_BUDGET};
        wf_store_relaxed(&selves[i].deadline, WEFT_NEVER);
        wf_state_init(&selves[i].state, 1);
        workers[i] = (struct wf_worker){.runtime = &runtime, .pool = &pool, .index = i};
        wf_parker_init(&parkers[i]);
        is_thread[i] = false;
    }
}

#endif
