/* SPDX-License-Identifier: MIT */
/*
 * sched/future.c - futures for the end of a sleep, of a task and of work that blocks, and how any
 * future is polled.
 *
 * A future that waits is known to others: to a wheel, to the list of a task.  While that is so it
 * stands among the partings of the task that polls it, so that the end of that task, however it
 * comes, takes it out of there.
 */
#include <errno.h>

#include "sched/sched.h"

/* ---- any future ---------------------------------------------------------------------------- */

weft_poll weft_poll_future(weft_cx *cx, weft_future *future, intptr_t *result)
{
    return future->poll(cx, future, result);
}

void weft_drop_future(weft_future *future)
{
    if (future != NULL && future->drop != NULL) {
        future->drop(future);
    }
}

intptr_t weft_await_future(weft_future *future)
{
    struct weft_task *self = wf_task_self();
    if (future == NULL || future->poll == NULL) {
        return -EINVAL;
    }
    if (self == NULL || self->body == WF_BODY_POLL) {
        return -EPERM;
    }
    struct weft_cx cx = {.task = self};
    intptr_t result = 0;
    bool is_told = wf_task_interrupted(self) != 0;
    while (future->poll(&cx, future, &result) == WEFT_PENDING) { /* woken by what it waits for */
        wf_wait_begin(self, WEFT_WAIT_WAKER, future);
        if (is_told) {
            wf_alarm_clear(&self->alarm); /* it waits all the same: to ring again is no use */
        }
        wf_task_suspend(self);
        wf_wait_end(self);
        is_told = wf_task_interrupted(self) != 0; /* before the poll, which looks at it too */
    }
    return result;
}

void wf_patience_keep(struct wf_patience *patience, struct weft_task *self, int64_t until_ns)
{
    until_ns = wf_wait_end_of(self, until_ns);
    if (patience->alarm.timer.place != 0) {
        if (patience->until_ns == until_ns && wf_clock_now() < until_ns) {
            return; /* it is set, and has not rung */
        }
        wf_alarm_clear(&patience->alarm);
    }
    if (until_ns != WEFT_NEVER) {
        patience->until_ns = until_ns;
        wf_alarm_set(&patience->alarm, self, until_ns);
    }
}

void wf_patience_end(struct wf_patience *patience)
{
    wf_alarm_clear(&patience->alarm);
}

/* Where a future is in its life. */
enum phase {
    PHASE_NEW,
    PHASE_WAITING, /* among the partings of its task */
    PHASE_OVER,
};

/* ---- the end of a sleep -------------------------------------------------------------------- */

struct sleep {
    weft_future future;
    struct wf_parting parting;
    struct wf_patience patience;
    weft_time at;     /* [const] */
    enum phase phase; /* [the task] */
};
_Static_assert(sizeof(struct sleep) <= sizeof(weft_sleep_future), "it fits");

static struct sleep *sleep_of(weft_future *future)
{
    return wf_container_of(future, struct sleep, future);
}

static void sleep_forget(struct wf_parting *parting)
{
    struct sleep *sleep = wf_container_of(parting, struct sleep, parting);
    wf_patience_end(&sleep->patience);
    sleep->phase = PHASE_OVER;
}

static void sleep_drop(weft_future *future)
{
    struct sleep *sleep = sleep_of(future);
    if (sleep->phase == PHASE_WAITING) {
        wf_parting_remove(sleep->patience.alarm.task, &sleep->parting);
        sleep_forget(&sleep->parting);
    }
    sleep->phase = PHASE_OVER;
}

static weft_poll sleep_poll(weft_cx *cx, weft_future *future, intptr_t *result)
{
    struct sleep *sleep = sleep_of(future);
    struct weft_task *self = cx->task;
    if (!wf_cx_spend(cx)) {
        return WEFT_PENDING;
    }
    const int rc = wf_task_interrupted(self);
    if (rc != 0 || wf_clock_now() >= sleep->at) {
        *result = rc;
        sleep_drop(future);
        return WEFT_READY;
    }
    if (sleep->phase == PHASE_NEW) {
        sleep->phase = PHASE_WAITING;
        sleep->patience.alarm.task = self;
        sleep->parting.forget = sleep_forget;
        wf_parting_add(self, &sleep->parting);
    }
    wf_patience_keep(&sleep->patience, self, sleep->at);
    wf_cx_give_back(cx);
    return WEFT_PENDING;
}

void weft_sleep_future_init(weft_sleep_future *future, weft_time at)
{
    struct sleep *sleep = (struct sleep *)(void *)future;
    *sleep = (struct sleep){.future = {.poll = sleep_poll, .drop = sleep_drop}, .at = at};
}

/* ---- the end of a task --------------------------------------------------------------------- */

struct ending {
    weft_future future;
    struct wf_parting parting;
    struct wf_patience patience;
    struct wf_waiter waiter;
    struct wf_joiner joiner;
    struct weft_task *task; /* [the task]  the one awaited; NULL: the handle is gone */
    enum phase phase;       /* [the task] */
    bool cancels;           /* [const] */
};
_Static_assert(sizeof(struct ending) <= sizeof(weft_task_future), "it fits");

static struct ending *ending_of(weft_future *future)
{
    return wf_container_of(future, struct ending, future);
}

/* [the task, closer]  It is in no list any more. */
static void stop_waiting(struct ending *ending)
{
    if (ending->phase == PHASE_WAITING) {
        wf_joiner_leave(ending->task, &ending->joiner);
        wf_patience_end(&ending->patience);
    }
    ending->phase = PHASE_OVER;
}

static void let_go(struct ending *ending)
{
    if (ending->task != NULL) {
        weft_drop(ending->task);
        ending->task = NULL;
    }
}

static void ending_forget(struct wf_parting *parting)
{
    struct ending *ending = wf_container_of(parting, struct ending, parting);
    stop_waiting(ending);
    if (ending->cancels && ending->task != NULL) {
        wf_task_cancel(ending->task);
    }
    let_go(ending);
}

static void ending_drop(weft_future *future)
{
    struct ending *ending = ending_of(future);
    if (ending->phase == PHASE_WAITING) {
        wf_parting_remove(ending->waiter.task, &ending->parting);
    }
    ending_forget(&ending->parting);
}

static weft_poll ending_over(struct ending *ending, intptr_t value, intptr_t *result)
{
    if (ending->phase == PHASE_WAITING) {
        wf_parting_remove(ending->waiter.task, &ending->parting);
    }
    stop_waiting(ending);
    let_go(ending);
    *result = value;
    return WEFT_READY;
}

/* [the task]  Into the list of the task.  False: it has ended. */
static bool start_waiting(struct ending *ending, struct weft_task *self)
{
    wf_waiter_init(&ending->waiter, self);
    ending->joiner = (struct wf_joiner){.waiter = &ending->waiter};
    ending->parting.forget = ending_forget;
    if (!wf_joiner_enter(ending->task, &ending->joiner)) {
        return false;
    }
    ending->phase = PHASE_WAITING;
    wf_parting_add(self, &ending->parting);
    return true;
}

static weft_poll ending_poll(weft_cx *cx, weft_future *future, intptr_t *result)
{
    struct ending *ending = ending_of(future);
    struct weft_task *self = cx->task;
    if (ending->task == NULL || ending->task == self) {
        return ending_over(ending, ending->task == NULL ? -ENOMEM : -EDEADLK, result);
    }
    if (!wf_cx_spend(cx)) {
        return WEFT_PENDING;
    }
    const bool is_waiting = ending->phase == PHASE_WAITING;
    if (wf_state_is_complete(&ending->task->state) ||
        (!is_waiting && !start_waiting(ending, self))) {
        return ending_over(ending, wf_join_observe(ending->task), result);
    }
    const int rc = wf_task_interrupted(self);
    if (rc != 0) {
        return ending_over(ending, rc, result);
    }
    wf_patience_keep(&ending->patience, self, WEFT_NEVER);
    wf_cx_give_back(cx);
    return WEFT_PENDING;
}

void weft_task_future_init(weft_task_future *future, weft_task *task, bool cancels)
{
    struct ending *ending = (struct ending *)(void *)future;
    *ending = (struct ending){
        .future = {.poll = ending_poll, .drop = ending_drop}, .task = task, .cancels = cancels};
}

/* ---- the end of work that blocks ----------------------------------------------------------- */

struct work {
    weft_future future;
    struct wf_parting parting;
    struct wf_patience patience;
    weft_fn fn;                 /* [const] */
    void *arg;                  /* [const] */
    void (*release)(void *arg); /* [const] */
    struct wf_job *job;         /* [the task]  while WAITING */
    enum phase phase;           /* [the task] */
};
_Static_assert(sizeof(struct work) <= sizeof(weft_wait_future), "it fits");

static struct work *work_of(weft_future *future)
{
    return wf_container_of(future, struct work, future);
}

static struct wf_blocking *blocking_of(const struct weft_task *task)
{
    return &task->pool->runtime->blocking;
}

static void work_forget(struct wf_parting *parting)
{
    struct work *work = wf_container_of(parting, struct work, parting);
    wf_patience_end(&work->patience);
    work->phase = PHASE_OVER;
    wf_blocking_leave(blocking_of(work->job->task), work->job); /* it is not ours any more */
    work->job = NULL;
}

static void work_drop(weft_future *future)
{
    struct work *work = work_of(future);
    if (work->phase == PHASE_WAITING) {
        wf_parting_remove(work->job->task, &work->parting);
        work_forget(&work->parting);
    } else if (work->phase == PHASE_NEW && work->release != NULL) {
        work->release(work->arg);
    }
    work->phase = PHASE_OVER;
}

static weft_poll work_over(struct work *work, intptr_t value, intptr_t *result)
{
    if (work->phase == PHASE_WAITING) {
        wf_parting_remove(work->job->task, &work->parting);
        wf_patience_end(&work->patience);
    }
    wf_free(work->job);
    work->job = NULL;
    work->phase = PHASE_OVER;
    *result = value;
    return WEFT_READY;
}

/* [the task]  Brings the job on its way. */
static int work_begin(struct work *work, struct weft_task *self)
{
    int rc = work->fn != NULL ? wf_task_interrupted(self) : -EINVAL;
    if (rc != 0) {
        return rc;
    }
    work->job = wf_alloc_zeroed(1, sizeof(*work->job));
    if (work->job == NULL) {
        return -ENOMEM;
    }
    work->job->fn = work->fn;
    work->job->arg = work->arg;
    work->job->release = work->release;
    work->job->task = self;
    rc = wf_blocking_ask(blocking_of(self), work->job);
    if (rc == 0) {
        work->phase = PHASE_WAITING;
        work->parting.forget = work_forget;
        wf_parting_add(self, &work->parting);
    }
    return rc;
}

static weft_poll work_poll(weft_cx *cx, weft_future *future, intptr_t *result)
{
    struct work *work = work_of(future);
    struct weft_task *self = cx->task;
    if (!wf_cx_spend(cx)) {
        return WEFT_PENDING;
    }
    int rc = work->phase == PHASE_NEW ? work_begin(work, self) : 0;
    if (rc != 0) {
        return work_over(work, rc, result);
    }
    rc = wf_task_interrupted(self);
    if (wf_blocking_is_over(blocking_of(self), work->job, rc)) {
        return work_over(work, work->job->result, result);
    }
    if (rc == 0) { /* else it runs, and only its end matters */
        wf_patience_keep(&work->patience, self, WEFT_NEVER);
    }
    wf_cx_give_back(cx);
    return WEFT_PENDING;
}

void weft_blocking_future(weft_wait_future *future, weft_fn fn, void *arg,
                          void (*release)(void *arg))
{
    struct work *work = (struct work *)(void *)future;
    *work = (struct work){
        .future = {.poll = work_poll, .drop = work_drop}, .fn = fn, .arg = arg, .release = release};
}
