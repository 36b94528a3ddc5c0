/* SPDX-License-Identifier: MIT */
/*
 * future/future.c - the base of all futures, and the futures for the end of a sleep, of a task and
 * of blocking work.
 *
 * A future that waits is linked elsewhere: in a timer wheel, in a wait queue, or in the list of
 * joiners of a task.  Meanwhile its abandon hook is in the list of the task that polls it.  So when
 * that task ends, for whatever reason, the hook takes the future out of these structures.  A future
 * that was polled without budget and has not begun has its hook in the list too: it may own a
 * handle, or an argument.
 */
#include <errno.h>

#include "future/future.h"
#include "life/blocking.h"

/* ---- any future ---------------------------------------------------------------------------- */

weft_poll_result weft_future_poll(weft_future *future, weft_cx *cx, intptr_t *result)
{
    return future->poll(cx, future, result);
}

void weft_future_drop(weft_future *future)
{
    if (future != NULL && future->drop != NULL) {
        future->drop(future);
    }
}

intptr_t weft_future_await(weft_future *future)
{
    struct weft_task *self = wf_task_self();
    WF_NOT_NULL(future, "weft_future_await: future is NULL");
    if (future->poll == NULL) {
        return -EINVAL;
    }
    if (self == NULL || self->body == WF_BODY_POLL) {
        return -EPERM;
    }
    struct weft_cx cx = {.task = self};
    intptr_t result = 0;
    bool is_interrupted = wf_task_interrupted(self) != 0;
    while (future->poll(&cx, future, &result) ==
           WEFT_POLL_PENDING) { /* the poll arranged a wake-up */
        wf_wait_begin(self, WEFT_WAIT_WAKER, future);
        if (is_interrupted) { /* the poll saw that and still waits: a timer would wake it in vain */
            wf_task_timer_clear(&self->task_timer);
        }
        wf_task_suspend(self);
        wf_wait_end(self);
        is_interrupted = wf_task_interrupted(self) != 0; /* read first, so the poll sees it too */
    }
    return result;
}

/* ---- the timer ----------------------------------------------------------------------------- */

void wf_future_timer_set(struct wf_future_timer *timer, struct weft_task *self, int64_t until_ns)
{
    until_ns = wf_wait_limit_ns(self, until_ns);
    if (timer->task_timer.timer.place != 0) {
        if (timer->until_ns == until_ns && wf_clock_now() < until_ns) {
            return; /* set, and not fired yet */
        }
        wf_task_timer_clear(&timer->task_timer);
    }
    if (until_ns != WEFT_NEVER) {
        timer->until_ns = until_ns;
        wf_task_timer_set(&timer->task_timer, self, until_ns);
    }
}

void wf_future_timer_clear(struct wf_future_timer *timer)
{
    wf_task_timer_clear(&timer->task_timer);
}

/* ---- the base ------------------------------------------------------------------------------ */

/* [the task, closer]  Ends a future that has no result. */
static void future_abandon(struct wf_future_base *base, enum wf_future_end end)
{
    wf_future_timer_clear(&base->timer);
    base->phase = WF_FUTURE_OVER;
    if (base->ops->abandon != NULL) {
        base->ops->abandon(base, end);
    }
}

/* [closer, the task]  The task ends, or drops the future; the hook is out of the task's list. */
static void future_task_ends(struct wf_abandon_hook *hook)
{
    struct wf_future_base *base = wf_container_of(hook, struct wf_future_base, hook);
    future_abandon(base, base->phase == WF_FUTURE_WAITING ? WF_FUTURE_DROPPED : WF_FUTURE_UNUSED);
}

/* [the task]  Makes the future known to its task, which is about to suspend. */
static void future_hook_add(struct wf_future_base *base, struct weft_task *self,
                            enum wf_future_phase phase)
{
    base->phase = phase;
    base->timer.task_timer.task = self;
    base->hook.abandon = future_task_ends;
    wf_abandon_hook_add(self, &base->hook);
}

static void future_drop(weft_future *future)
{
    struct wf_future_base *base = wf_container_of(future, struct wf_future_base, future);
    if (base->phase == WF_FUTURE_WAITING || base->phase == WF_FUTURE_DELAYED) {
        wf_abandon_hook_remove(base->timer.task_timer.task, &base->hook);
        future_task_ends(&base->hook);
    } else if (base->phase == WF_FUTURE_NEW) {
        future_abandon(base, WF_FUTURE_UNUSED);
    }
}

static weft_poll_result future_poll(weft_cx *cx, weft_future *future, intptr_t *result)
{
    struct wf_future_base *base = wf_container_of(future, struct wf_future_base, future);
    struct weft_task *self = cx->task;
    if (!wf_cx_spend(cx)) {
        if (base->phase == WF_FUTURE_NEW && base->ops->abandon != NULL) { /* it may own something */
            future_hook_add(base, self, WF_FUTURE_DELAYED);
        }
        return WEFT_POLL_PENDING;
    }
    if (base->phase == WF_FUTURE_DELAYED) {
        wf_abandon_hook_remove(base->timer.task_timer.task, &base->hook);
        base->phase = WF_FUTURE_NEW;
    }
    const bool is_new = base->phase == WF_FUTURE_NEW;
    if ((is_new ? base->ops->begin : base->ops->ready)(base, self, result) == WEFT_POLL_READY) {
        if (base->phase == WF_FUTURE_WAITING) {
            wf_abandon_hook_remove(self, &base->hook);
            wf_future_timer_clear(&base->timer); /* else the wheel keeps a timer of freed memory */
        }
        base->phase = WF_FUTURE_OVER;
        return WEFT_POLL_READY;
    }
    if (is_new) {
        future_hook_add(base, self, WF_FUTURE_WAITING);
    }
    const int rc = wf_task_interrupted(self);
    if (rc == 0) {
        wf_future_timer_set(&base->timer, self, base->until_ns);
    } else if (!base->ops->is_uninterruptible) {
        wf_abandon_hook_remove(self, &base->hook);
        future_abandon(base, WF_FUTURE_INTERRUPTED);
        *result = rc;
        return WEFT_POLL_READY;
    }
    wf_cx_refund(cx);
    return WEFT_POLL_PENDING;
}

void wf_future_base_init(struct wf_future_base *base, const struct wf_future_ops *ops,
                         int64_t until_ns)
{
    *base = (struct wf_future_base){
        .future = {.poll = future_poll, .drop = future_drop}, .ops = ops, .until_ns = until_ns};
}

/* ---- the end of a sleep -------------------------------------------------------------------- */

_Static_assert(sizeof(struct wf_future_base) <= sizeof(weft_sleep_future), "it fits");

static weft_poll_result sleep_ready(struct wf_future_base *base, struct weft_task *self,
                                    intptr_t *result)
{
    *result = wf_task_interrupted(self); /* a cancellation comes before the end of the sleep */
    return *result != 0 || wf_clock_now() >= base->until_ns ? WEFT_POLL_READY : WEFT_POLL_PENDING;
}

static const struct wf_future_ops sleep_ops = {.begin = sleep_ready, .ready = sleep_ready};

void weft_sleep_future_init(weft_sleep_future *future, weft_time at)
{
    wf_future_base_init((struct wf_future_base *)(void *)future, &sleep_ops, at);
}

/* ---- the end of a task --------------------------------------------------------------------- */

struct join_future {
    struct wf_future_base base;
    struct wf_waiter waiter;
    struct wf_joiner joiner;
    struct weft_task *task; /* [the task]  the awaited task; NULL: the handle was dropped */
    bool cancels;           /* [const] */
};
_Static_assert(sizeof(struct join_future) <= sizeof(weft_task_future), "it fits");

static struct join_future *join_future_of(struct wf_future_base *base)
{
    return wf_container_of(base, struct join_future, base);
}

/* [the task, closer]  Leaves the list of joiners and drops the handle. */
static void join_future_release(struct join_future *join, bool is_listed)
{
    if (is_listed) {
        wf_joiner_leave(join->task, &join->joiner);
    }
    if (join->task != NULL) {
        weft_task_unref(join->task);
        join->task = NULL;
    }
}

static void join_future_abandon(struct wf_future_base *base, enum wf_future_end end)
{
    struct join_future *join = join_future_of(base);
    if (end != WF_FUTURE_INTERRUPTED && join->cancels && join->task != NULL) {
        wf_task_cancel(join->task);
    }
    join_future_release(join, end != WF_FUTURE_UNUSED);
}

/* [the task]  Enters the list of joiners.  False: the awaited task has ended. */
static bool join_future_enter(struct join_future *join, struct weft_task *self)
{
    wf_waiter_init(&join->waiter, self);
    join->joiner = (struct wf_joiner){.waiter = &join->waiter};
    return wf_joiner_enter(join->task, &join->joiner);
}

static weft_poll_result join_future_ready(struct wf_future_base *base, struct weft_task *self,
                                          intptr_t *result)
{
    struct join_future *join = join_future_of(base);
    const bool is_listed = base->phase == WF_FUTURE_WAITING;
    if (join->task == NULL) {
        *result = -ENOMEM;
    } else if (join->task == self) {
        *result = -EDEADLK;
    } else if (wf_state_is_complete(&join->task->state) ||
               (!is_listed && !join_future_enter(join, self))) {
        *result = wf_join_observe(join->task);
    } else {
        return WEFT_POLL_PENDING;
    }
    join_future_release(join, is_listed);
    return WEFT_POLL_READY;
}

static const struct wf_future_ops join_ops = {
    .begin = join_future_ready, .ready = join_future_ready, .abandon = join_future_abandon};

void weft_task_future_init(weft_task_future *future, weft_task *task, bool cancels)
{
    struct join_future *join = (struct join_future *)(void *)future;
    *join = (struct join_future){.task = task, .cancels = cancels};
    wf_future_base_init(&join->base, &join_ops, WEFT_NEVER);
}

/* ---- the end of blocking work -------------------------------------------------------------- */

struct work_future {
    struct wf_future_base base;
    weft_fn fn;                 /* [const] */
    void *arg;                  /* [const] */
    void (*release)(void *arg); /* [const] */
    struct wf_job *job;         /* [the task]  while WAITING */
};
_Static_assert(sizeof(struct work_future) <= sizeof(weft_wait_future), "it fits");

static struct work_future *work_future_of(struct wf_future_base *base)
{
    return wf_container_of(base, struct work_future, base);
}

static struct wf_blocking *blocking_of(const struct weft_task *task)
{
    return task->pool->runtime->blocking;
}

static void work_future_abandon(struct wf_future_base *base, enum wf_future_end end)
{
    struct work_future *work = work_future_of(base);
    if (end != WF_FUTURE_UNUSED) {
        wf_blocking_leave(blocking_of(work->job->task), work->job); /* gives the job away */
        work->job = NULL;
    } else if (work->release != NULL) {
        work->release(work->arg);
    }
}

/* [the task]  The job is over, or was never requested. */
static weft_poll_result work_future_end(struct work_future *work, intptr_t value, intptr_t *result)
{
    wf_free(work->job);
    work->job = NULL;
    *result = value;
    return WEFT_POLL_READY;
}

static weft_poll_result work_future_ready(struct wf_future_base *base, struct weft_task *self,
                                          intptr_t *result)
{
    struct work_future *work = work_future_of(base);
    /* An interrupted job that has not begun is withdrawn; one that runs is waited for. */
    const int rc = wf_task_interrupted(self);
    return wf_blocking_is_over(blocking_of(self), work->job, rc)
               ? work_future_end(work, work->job->result, result)
               : WEFT_POLL_PENDING;
}

static weft_poll_result work_future_begin(struct wf_future_base *base, struct weft_task *self,
                                          intptr_t *result)
{
    struct work_future *work = work_future_of(base);
    int rc = work->fn != NULL ? wf_task_interrupted(self) : -EINVAL;
    if (rc != 0) {
        return work_future_end(work, rc, result);
    }
    work->job = wf_alloc_zeroed(1, sizeof(*work->job));
    if (work->job == NULL) {
        return work_future_end(work, -ENOMEM, result);
    }
    work->job->fn = work->fn;
    work->job->arg = work->arg;
    work->job->release = work->release;
    work->job->task = self;
    rc = wf_blocking_request(blocking_of(self), work->job);
    return rc != 0 ? work_future_end(work, rc, result) : work_future_ready(base, self, result);
}

static const struct wf_future_ops work_ops = {.begin = work_future_begin,
                                              .ready = work_future_ready,
                                              .abandon = work_future_abandon,
                                              .is_uninterruptible = true};

void weft_blocking_call_future(weft_wait_future *future, weft_fn fn, void *arg,
                               void (*release)(void *arg))
{
    WF_NOT_NULL(future, "weft_blocking_call_future: future is NULL");
    WF_NOT_NULL(fn, "weft_blocking_call_future: fn is NULL");
    struct work_future *work = (struct work_future *)(void *)future;
    *work = (struct work_future){.fn = fn, .arg = arg, .release = release};
    wf_future_base_init(&work->base, &work_ops, WEFT_NEVER);
}
