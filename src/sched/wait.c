/* SPDX-License-Identifier: MIT */
/*
 * sched/wait.c - what a task waits for, and who may end its wait: wait records, cancelling,
 * shields, deadlines.
 *
 * Nothing suspends without a wait record: dumps, the report of deadlocks and cancelling read it.
 * Cancelling is a wake: the task looks whether it was asked to end, before each wait and after.
 *
 * The clock of a wait record is that of the worker, which is read every few turns: a dump shows the
 * age of a wait to about a millisecond, and a wait costs no look at the clock.
 */
#include <errno.h>

#include "sched/sched.h"

bool wf_wait_is_for_task(uint32_t wait)
{
    return wait == WEFT_WAIT_TASK || wait == WEFT_WAIT_TASKS || wait == WEFT_WAIT_SCOPE;
}

bool wf_wait_is_for_lock(uint32_t wait)
{
    return wait == WEFT_WAIT_MUTEX || wait == WEFT_WAIT_RWLOCK;
}

bool wf_wait_is_in_sync(uint32_t wait)
{
    return wait >= WEFT_WAIT_MUTEX && wait <= WEFT_WAIT_SELECT;
}

int64_t wf_wait_end_of(struct weft_task *self, int64_t until_ns)
{
    int64_t deadline = wf_load_relaxed(&self->deadline); /* relaxed: our own */
    if (deadline >= until_ns) {
        return until_ns;
    }
    struct wf_state_view view;
    wf_state_read(&self->state, &view);
    return view.shields == 0 ? deadline : until_ns;
}

void wf_wait_begin_until(struct weft_task *self, enum weft_wait wait, const void *object,
                         int64_t until_ns)
{
    struct wf_worker *worker = wf_worker_self();
    WF_RULE(self->body != WF_BODY_POLL,
            "a poll task waits: it has to give WEFT_PENDING, and to wait by a future");
    wf_trace(worker->trace, WF_TRACE_WAIT, wf_task_id(self), (uint64_t)wait);
    /* All relaxed: a record for those who look. */
    wf_store_relaxed(&self->wait_object, (uintptr_t)object);
    wf_store_relaxed(&self->wait_since, worker->now_ns);
    bool is_task = wait == WEFT_WAIT_TASK || wait == WEFT_WAIT_OUTER_TASK;
    wf_store_relaxed(&self->wait_task_id, is_task ? wf_task_id(object) : 0);
    wf_store_relaxed(&self->wait, (uint8_t)wait);
    if (wf_wait_is_for_task(wait) || wf_wait_is_for_lock(wait)) {
        wf_counter_add(&worker->counters.waits_for_task, 1);
    } else if (wf_wait_is_in_sync(wait)) {
        wf_counter_add(&worker->counters.waits_in_sync, 1);
    }
    until_ns = wf_wait_end_of(self, until_ns);
    if (until_ns != WEFT_NEVER) {
        self->is_timed = true;
        wf_alarm_set(&self->alarm, self, until_ns);
    }
}

void wf_wait_begin(struct weft_task *self, enum weft_wait wait, const void *object)
{
    wf_wait_begin_until(self, wait, object, WEFT_NEVER);
}

void wf_wait_end(struct weft_task *self)
{
    if (self->is_timed) { /* else its line of the cache may be left where it is */
        self->is_timed = false;
        wf_alarm_clear(&self->alarm);
    }
    const uint8_t wait = wf_load_relaxed(&self->wait); /* relaxed: our own */
    if (wf_wait_is_for_task(wait) || wf_wait_is_for_lock(wait)) {
        wf_counter_add(&wf_worker_self()->counters.waits_ended, 1);
    } else if (wf_wait_is_in_sync(wait)) {
        wf_counter_add(&wf_worker_self()->counters.sync_waits_ended, 1);
    }
    wf_store_relaxed(&self->wait, WEFT_WAIT_NOTHING); /* relaxed: as above */
}

int wf_task_interrupted(struct weft_task *self)
{
    int64_t deadline = wf_load_relaxed(&self->deadline); /* relaxed: our own */
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

void wf_partings_forget(struct weft_task *task)
{
    struct wf_parting *parting;
    while ((parting = task->partings) != NULL) {
        wf_parting_remove(task, parting); /* first: its memory may go with it */
        parting->forget(parting);
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
        (void)wf_parker_park(&waiter->parker, WF_FOREVER); /* without a deadline it is woken */
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
    if (task == NULL) {
        return -EINVAL;
    }
    WF_RULE(wf_is_live_handle(task), "weft_cancel of a handle that was given back");
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
    if (wf_load_relaxed(&worker->is_asked) != 0) { /* relaxed: a request, early or late */
        wf_store_relaxed(&worker->is_asked, 0);
        wf_task_yield(self);
    } else {
        wf_task_spend(self);
    }
    return wf_task_interrupted(self);
}

int weft_shield(int on)
{
    struct weft_task *self = wf_task_self();
    if (self == NULL) {
        return -EPERM;
    }
    return on != 0 ? wf_state_shield(&self->state) : wf_state_unshield(&self->state);
}

weft_time weft_deadline(weft_time deadline)
{
    struct weft_task *self = wf_task_self();
    if (self == NULL) {
        return WEFT_NEVER;
    }
    weft_time old = wf_load_relaxed(&self->deadline); /* relaxed: our own, others only look */
    self->is_plain = false;
    wf_store_relaxed(&self->deadline, deadline);
    return old;
}

weft_time weft_deadline_sooner(weft_time deadline)
{
    const weft_time old = weft_deadline(deadline);
    if (old < deadline) {
        (void)weft_deadline(old);
    }
    return old;
}

weft_task *weft_self(void)
{
    return wf_task_self();
}

int weft_pin(int on)
{
    struct weft_task *self = wf_task_self();
    if (self == NULL) {
        return -EPERM;
    }
    uint16_t pins = wf_load_relaxed(&self->pins); /* relaxed: our own, others only look */
    if (on == 0 && pins == 0) {
        return -EINVAL;
    }
    if (on != 0 && pins == UINT16_MAX) {
        return -EOVERFLOW;
    }
    pins = (uint16_t)(on != 0 ? pins + 1 : pins - 1);
    wf_store_relaxed(&self->pins, pins);
    self->is_plain = false;
    self->home = (uint16_t)wf_worker_self()->index;
    self->is_special = pins > 0 || wf_load_relaxed(&self->priority) != WEFT_PRIORITY_NORMAL;
    return 0;
}
