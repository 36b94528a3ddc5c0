/* SPDX-License-Identifier: MIT */
/*
 * sched/wait.c - wait records, and what ends a wait early: cancellation, shields, deadlines.
 *
 * No task suspends without a wait record.  Dumps and the report of deadlocks read it.  Cancelling a
 * task wakes it: the task checks before each wait, and after, whether it was cancelled.
 *
 * The time in a wait record is the worker's copy of the clock, which the worker updates every few
 * ticks.  So a dump shows the age of a wait to about a millisecond, and a wait does not read the
 * clock.
 */
#include <errno.h>

#include "sched/wait.h"

int64_t wf_wait_limit_ns(struct weft_task *self, int64_t until_ns)
{
    int64_t deadline = wf_load_relaxed(&self->deadline); /* relaxed: only the task writes it */
    if (deadline >= until_ns) {
        return until_ns;
    }
    struct wf_state_view view;
    wf_state_read(&self->state, &view);
    return view.shields == 0 ? deadline : until_ns;
}

void wf_wait_timer_set(struct weft_task *self, int64_t until_ns)
{
    until_ns = wf_wait_limit_ns(self, until_ns);
    if (until_ns != WEFT_NEVER) {
        self->is_timed = true;
        wf_task_timer_set(&self->task_timer, self, until_ns);
    }
}

void wf_wait_timer_clear(struct weft_task *self)
{
    self->is_timed = false;
    wf_task_timer_clear(&self->task_timer);
}

void wf_wait_begin_until(struct weft_task *self, enum weft_wait wait, const void *object,
                         int64_t until_ns)
{
    wf_wait_begin_on(wf_worker_self(), self, wait, object, until_ns);
}

void wf_wait_begin(struct weft_task *self, enum weft_wait wait, const void *object)
{
    wf_wait_begin_until(self, wait, object, WEFT_NEVER);
}

void wf_wait_end(struct weft_task *self)
{
    /* relaxed: only the task writes it */
    wf_wait_end_of_kind(self, (enum weft_wait)wf_load_relaxed(&self->wait));
}

int wf_task_interrupted(struct weft_task *self)
{
    int64_t deadline = wf_load_relaxed(&self->deadline); /* relaxed: only the task writes it */
    if (wf_state_is_cancelled(&self->state)) {
        return -ECANCELED;
    }
    if (deadline == WEFT_NEVER || wf_clock_now() < deadline) {
        return 0;
    }
    struct wf_state_view view;
    wf_state_read(&self->state, &view);
    return view.shields == 0 ? -ETIMEDOUT : 0;
}

static void undo_hook_abandon(struct wf_abandon_hook *hook)
{
    const struct wf_undo_hook *undo_hook = wf_container_of(hook, struct wf_undo_hook, hook);
    undo_hook->undo(undo_hook->arg);
}

void wf_undo_hook_add(struct wf_undo_hook *hook, void (*undo)(void *arg), void *arg)
{
    struct weft_task *self = wf_task_self();
    *hook = (struct wf_undo_hook){
        .hook = {.abandon = undo_hook_abandon},
        .self = self != NULL && self->body != WF_BODY_POLL ? self : NULL,
        .undo = undo,
        .arg = arg,
    };
    if (hook->self != NULL) {
        wf_abandon_hook_add(hook->self, &hook->hook);
    }
}

void wf_undo_hook_remove(struct wf_undo_hook *hook)
{
    if (hook->self != NULL) {
        wf_abandon_hook_remove(hook->self, &hook->hook);
    }
}

/* ---- waiters ------------------------------------------------------------------------------- */

void wf_waiter_init(struct wf_waiter *waiter, struct weft_task *self)
{
    waiter->task = self;
    wf_parker_init(&waiter->parker);
}

void wf_waiter_wait(struct wf_waiter *waiter)
{
    if (waiter->task != NULL) {
        wf_task_suspend(waiter->task);
    } else {
        (void)wf_parker_park(&waiter->parker, WF_FOREVER); /* no deadline: it was woken */
    }
}

void wf_waiter_wake(struct wf_waiter *waiter)
{
    if (waiter->task != NULL) {
        wf_task_wake(waiter->task);
    } else {
        wf_parker_unpark(&waiter->parker);
    }
}

/* ---- the public calls ---------------------------------------------------------------------- */

int weft_cancel(weft_task *task)
{
    WF_NOT_NULL(task, "weft_cancel: task is NULL");
    WF_RULE(wf_is_live_handle(task), "weft_cancel: handle already released");
    wf_task_cancel(task);
    return 0;
}

int weft_check(void)
{
    struct weft_task *self = wf_task_self();
    if (self == NULL) {
        return 0;
    }
    struct wf_worker *worker = wf_worker_self();
    /* relaxed: a hint, which the task may see late */
    if (wf_load_relaxed(&worker->preempt.is_requested) != 0) {
        wf_store_relaxed(&worker->preempt.is_requested, 0);
        wf_task_yield(self);
    } else {
        wf_task_spend(self);
    }
    return wf_task_interrupted(self);
}

int weft_shield_begin(void)
{
    struct weft_task *self = wf_task_self();
    return self != NULL ? wf_state_shield(&self->state) : -EPERM;
}

int weft_shield_end(void)
{
    struct weft_task *self = wf_task_self();
    return self != NULL ? wf_state_unshield(&self->state) : -EPERM;
}

weft_time weft_deadline_set(weft_time deadline)
{
    struct weft_task *self = wf_task_self();
    if (self == NULL) {
        return WEFT_NEVER;
    }
    weft_time old = wf_load_relaxed(&self->deadline); /* relaxed: only the task writes it */
    self->is_bare = false;
    wf_store_relaxed(&self->deadline, deadline);
    return old;
}

weft_time weft_deadline_tighten(weft_time deadline)
{
    const weft_time old = weft_deadline_set(deadline);
    if (old < deadline) {
        (void)weft_deadline_set(old);
    }
    return old;
}

weft_task *weft_self(void)
{
    return wf_task_self();
}

/* [the task]  Sets how often the task is pinned, to the thread on which it runs now. */
static int set_pins(struct weft_task *self, uint16_t pins)
{
    wf_store_relaxed(&self->pins, pins); /* relaxed: only the task writes it */
    self->is_bare = false;
    self->home = (uint16_t)wf_worker_self()->index;
    self->needs_slow_queue = pins > 0 || wf_load_relaxed(&self->priority) != WEFT_PRIORITY_NORMAL;
    return 0;
}

int weft_pin_begin(void)
{
    struct weft_task *self = wf_task_self();
    if (self == NULL) {
        return -EPERM;
    }
    const uint16_t pins = wf_load_relaxed(&self->pins); /* relaxed: only the task writes it */
    return pins < UINT16_MAX ? set_pins(self, (uint16_t)(pins + 1)) : -EOVERFLOW;
}

int weft_pin_end(void)
{
    struct weft_task *self = wf_task_self();
    if (self == NULL) {
        return -EPERM;
    }
    const uint16_t pins = wf_load_relaxed(&self->pins); /* relaxed: only the task writes it */
    return pins > 0 ? set_pins(self, (uint16_t)(pins - 1)) : -EINVAL;
}
