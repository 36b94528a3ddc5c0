/* SPDX-License-Identifier: MIT */
/*
 * future/future.h - stackless tasks: poll tasks, their wakers, and futures.
 *
 * Promises:      A poll task is a task like any other: in the same queues, with the same state
 *                word, woken, cancelled and joined in the same ways.  All futures of the runtime
 *                share one state machine (struct wf_future_base).
 * Must not know: how an object of sync or io grants what a future waits for.
 */
#ifndef WF_FUTURE_FUTURE_H
#define WF_FUTURE_FUTURE_H

#include "life/life.h"

/* ---- poll tasks ---------------------------------------------------------------------------- */

/* poll.c  [any]  The task has ended: runs its abandon hooks, and frees the state. */
void wf_poll_done(struct weft_task *task);
/* poll.c  [owner]  Calls the function once.  True: the task has ended, with this result. */
bool wf_poll_call(struct wf_worker *worker, struct weft_task *task, intptr_t *result);

/* The task that polls: a poll task, or a green thread that waits for a future. */
struct weft_cx {
    struct weft_task *task;
};

/* poll.c  [the task]  Spends budget for one operation.  False: the budget is used up; the future
 * must return WEFT_POLL_PENDING, and is polled again soon. */
bool wf_cx_spend(struct weft_cx *cx);
/* poll.c  [the task]  Gives back the budget unit of a poll that found nothing to do.  Otherwise a
 * task that waits for many futures at once would use up its budget in each pass before it has
 * polled the last. */
void wf_cx_refund(struct weft_cx *cx);

/* ---- futures ------------------------------------------------------------------------------- */

/* The timer of a future.  All zeros: not set. */
struct wf_future_timer {
    struct wf_task_timer task_timer;
    int64_t until_ns; /* [the task]  when the timer fires, while it is set */
};
/* future.c  [the task]  Sets the timer to wake the task at `until_ns`, or at its deadline if that
 * comes first.  Does nothing if it is set to that time and has not fired. */
void wf_future_timer_set(struct wf_future_timer *timer, struct weft_task *self, int64_t until_ns);
/* future.c  [the task, closer]  Takes the timer out of the wheel, if it is set. */
void wf_future_timer_clear(struct wf_future_timer *timer);

/*
 * What all futures of the runtime have in common.
 *
 *   NEW      --poll: begin is pending-->  WAITING   known to a queue, and to its task by `hook`
 *   NEW      --poll: begin is ready-->    OVER
 *   NEW      --poll: no budget-->         DELAYED   known to its task by `hook`, if it has an
 *                                                   `abandon`; else it stays NEW
 *   DELAYED  --poll: budget-->            NEW       and goes on as above
 *   WAITING  --poll: ready-->             OVER      its timer and its hook are removed first
 *   WAITING  --poll: interrupted-->       OVER      abandon(INTERRUPTED), unless is_uninterruptible
 *   WAITING  --drop, end of the task-->   OVER      abandon(DROPPED)
 *   NEW      --drop-->                    OVER      abandon(UNUSED)
 *   DELAYED  --drop, end of the task-->   OVER      abandon(UNUSED)
 */
enum wf_future_phase {
    WF_FUTURE_NEW,
    WF_FUTURE_DELAYED,
    WF_FUTURE_WAITING,
    WF_FUTURE_OVER,
};

/* Why a future is over without a result of its own. */
enum wf_future_end {
    WF_FUTURE_UNUSED,      /* it was dropped, or its task has ended, before it began to wait */
    WF_FUTURE_DROPPED,     /* it was dropped while it waited, or its task has ended */
    WF_FUTURE_INTERRUPTED, /* its task was cancelled, or is past its deadline, while it waited */
};

struct wf_future_base;

/* What the kinds of futures do differently. */
struct wf_future_ops {
    /* [the task]  The first poll.  WEFT_POLL_READY and *result; WEFT_POLL_PENDING: it waits, and
     *             what it
     * waits for wakes the task. */
    weft_poll_result (*begin)(struct wf_future_base *base, struct weft_task *self,
                              intptr_t *result);
    /* [the task]  Each later poll.  Returns as begin; after WEFT_POLL_READY the future is in no
     *             queue.
     */
    weft_poll_result (*ready)(struct wf_future_base *base, struct weft_task *self,
                              intptr_t *result);
    /* [the task, closer]  Leaves the queue and releases what the future has.  NULL: it has nothing.
     */
    void (*abandon)(struct wf_future_base *base, enum wf_future_end end);
    bool is_uninterruptible; /* it ends only by `ready`, also when its task is cancelled */
};

struct wf_future_base {
    weft_future future;
    struct wf_abandon_hook hook;     /* [the task]  while DELAYED or WAITING */
    struct wf_future_timer timer;    /* [the task]  its task is the task that polls */
    const struct wf_future_ops *ops; /* [const] */
    int64_t until_ns;                /* [const]  when its timer wakes the task; or WEFT_NEVER */
    enum wf_future_phase phase;      /* [the task] */
};

/* future.c  [the task]  Initialises the base of a future, in phase NEW. */
void wf_future_base_init(struct wf_future_base *base, const struct wf_future_ops *ops,
                         int64_t until_ns);

#endif
