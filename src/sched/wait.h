/* SPDX-License-Identifier: MIT */
/*
 * sched/wait.h - waiting: wait records, waiters, what interrupts a wait, the budget.  wait.c has
 * the idea.  The layers above need no more of the scheduler than this header.
 */
#ifndef WF_SCHED_WAIT_H
#define WF_SCHED_WAIT_H

#include "sched/switch.h"

/* ---- kinds of waits ------------------------------------------------------------------------ */

/* [any]  True: only a task of the same runtime can end such a wait.  If all tasks of a runtime are
 * in such waits, that is a deadlock. */
static inline bool wf_wait_is_for_task(uint32_t wait)
{
    return wait == WEFT_WAIT_TASK || wait == WEFT_WAIT_TASKS || wait == WEFT_WAIT_SCOPE;
}

/* [any]  True: the wait is for a lock, which a task or a non-worker thread holds. */
static inline bool wf_wait_is_for_lock(uint32_t wait)
{
    return wait == WEFT_WAIT_MUTEX || wait == WEFT_WAIT_RWLOCK;
}

/* [any]  True: the wait is in an object of src/sync.  Any task or thread of the program may end it.
 */
static inline bool wf_wait_is_in_sync(uint32_t wait)
{
    return wait >= WEFT_WAIT_MUTEX && wait <= WEFT_WAIT_SELECT;
}

/* ---- wait records -------------------------------------------------------------------------- */

/* [the task]  Fills the wait record, and sets a timer for the deadline of the task. */
void wf_wait_begin(struct weft_task *self, enum weft_wait wait, const void *object);
/* [the task]  As wf_wait_begin; the timer is set for `until_ns` if that comes first. */
void wf_wait_begin_until(struct weft_task *self, enum weft_wait wait, const void *object,
                         int64_t until_ns);
/* [the task]  Clears the wait record and the timer. */
void wf_wait_end(struct weft_task *self);

/* [the task]  Whether a wait must end early.  0: no; -ECANCELED: the task was cancelled;
 * -ETIMEDOUT: its deadline has passed.  A shield defers both: the result is then 0. */
int wf_task_interrupted(struct weft_task *self);
/* [the task]  The time at which a wait until `until_ns` has to end: the task's deadline, if that is
 * earlier and no shield defers it; else `until_ns`. */
int64_t wf_wait_limit_ns(struct weft_task *self, int64_t until_ns);

/* [any]  Initialises a waiter for the calling task; NULL: for the calling thread. */
void wf_waiter_init(struct wf_waiter *waiter, struct weft_task *self);
/* [the waiter]  Waits until wf_waiter_wake.  A task may be woken spuriously, so the caller must
 * check its condition again. */
void wf_waiter_wait(struct wf_waiter *waiter);
/* [any]  Wakes the waiter.  The caller holds a lock that the waiter acquires before it frees
 * *waiter, so *waiter exists during the call. */
void wf_waiter_wake(struct wf_waiter *waiter);

/* An abandon hook that calls `undo(arg)`.  For a call that owns something while its task waits.
 * The call registers it before the wait: hooks run newest first, so the wait is undone before the
 * thing is released. */
struct wf_undo_hook {
    struct wf_abandon_hook hook;
    struct weft_task *self; /* NULL: not registered */
    void (*undo)(void *arg);
    void *arg;
};
/* wait.c  [any]  Registers the hook with the calling task, until wf_undo_hook_remove.  Registers
 * nothing on a non-worker thread, because a forced close abandons only tasks, and in a poll task,
 * because a poll task does not wait inside a call. */
void wf_undo_hook_add(struct wf_undo_hook *hook, void (*undo)(void *arg), void *arg);
/* wait.c  [any]  Removes the hook.  The caller itself must release the object from now on. */
void wf_undo_hook_remove(struct wf_undo_hook *hook);

/* ---- inline forms ---------------------------------------------------------------------------- */

/* wait.c  [the task]  Sets the timer that ends a wait at `until_ns`, or at the task's deadline if
 * that comes first.  Sets none for WEFT_NEVER. */
void wf_wait_timer_set(struct weft_task *self, int64_t until_ns);
/* wait.c  [the task]  Takes that timer out of the wheel. */
void wf_wait_timer_clear(struct weft_task *self);

/* [the task]  As wf_wait_begin_until, inline, for a caller that knows its worker.  The model
 * checker has no wait records: there the model program defines wf_wait_begin_until. */
static inline __attribute__((always_inline)) void
wf_wait_begin_on(struct wf_worker *worker, struct weft_task *self, enum weft_wait wait,
                 const void *object, int64_t until_ns)
{
#ifdef WF_MODEL
    (void)worker;
    wf_wait_begin_until(self, wait, object, until_ns);
#else
    WF_RULE(self->body != WF_BODY_POLL,
            "a poll task must not block: return WEFT_POLL_PENDING and wait with a future");
    wf_trace(worker->trace, WF_TRACE_WAIT, wf_task_id(self), (uint64_t)wait);
    const bool is_task = wait == WEFT_WAIT_TASK || wait == WEFT_WAIT_EXTERNAL_TASK;
    /* All relaxed: dumps and reports read the record as hints. */
    wf_store_relaxed(&self->wait_record.object, (uintptr_t)object);
    wf_store_relaxed(&self->wait_record.since_ns, worker->tick.now_ns);
    wf_store_relaxed(&self->wait_record.task_id, is_task ? wf_task_id(object) : 0);
    wf_store_relaxed(&self->wait, (uint8_t)wait);
    if (wf_wait_is_for_task(wait) || wf_wait_is_for_lock(wait)) {
        wf_counter_add(&worker->counters.waits_for_task, 1);
    } else if (wf_wait_is_in_sync(wait)) {
        wf_counter_add(&worker->counters.waits_in_sync, 1);
    }
    /* relaxed: only the task writes it */
    if (until_ns != WEFT_NEVER || wf_load_relaxed(&self->deadline) != WEFT_NEVER) {
        wf_wait_timer_set(self, until_ns);
    }
#endif
}

/* [the task]  As wf_wait_end, inline, for a caller that knows the kind of the wait. */
static inline __attribute__((always_inline)) void wf_wait_end_of_kind(struct weft_task *self,
                                                                      enum weft_wait wait)
{
#ifdef WF_MODEL
    (void)wait;
    wf_wait_end(self);
#else
    if (__builtin_expect(self->is_timed, 0)) { /* else the timer's cache line is not touched */
        wf_wait_timer_clear(self);
    }
    if (wf_wait_is_for_task(wait) || wf_wait_is_for_lock(wait)) {
        wf_counter_add(&wf_worker_self()->counters.waits_ended, 1);
    } else if (wf_wait_is_in_sync(wait)) {
        wf_counter_add(&wf_worker_self()->counters.sync_waits_ended, 1);
    }
    wf_store_relaxed(&self->wait, WEFT_WAIT_NOTHING); /* relaxed: a hint for dumps and reports */
#endif
}

/* ---- being interrupted --------------------------------------------------------------------- */

/* [the task]  As wf_task_interrupted, which is called only if the task was cancelled or has a
 * deadline. */
static inline int wf_interrupted(struct weft_task *self)
{
    /* relaxed: a task that does not see its cancellation yet sees it at the next check */
    if ((wf_load_relaxed(&self->state.word) & WF_STATE_CANCELLED) == 0 &&
        wf_load_relaxed(&self->deadline) == WEFT_NEVER) {
        return 0;
    }
    return wf_task_interrupted(self);
}

/* [the task]  Counts one operation.  False: the budget is used up, and the task must yield. */
static inline bool wf_budget_left(struct weft_task *self)
{
    /* A poll task that has used up its budget stays at 0 until it returns. */
    return __builtin_expect(self->budget != 0 && --self->budget != 0, 1);
}

/* [the task]  As wf_task_spend, inline. */
static inline void wf_budget_spend(struct weft_task *self)
{
    if (!wf_budget_left(self)) {
        wf_task_yield(self);
    }
}

/* [green thread]  The cancellation point of a call that did not wait.  Checks only while the budget
 * is full, so about once for each refill.  Thus even a task that never waits notices its
 * cancellation or its deadline.  0: the task may go on; -ECANCELED, -ETIMEDOUT. */
static inline int wf_cancel_point(struct weft_task *self)
{
    return self->budget == WF_TASK_BUDGET && self->body != WF_BODY_POLL ? wf_interrupted(self) : 0;
}

/* ---- the calling task ----------------------------------------------------------------------- */

/* [any]  As wf_task_self, inline.  Only for functions that are marked WF_READS_TLS themselves, so
 * that no caller keeps a thread-local address across a switch; and there only before anything that
 * may switch. */
static inline __attribute__((always_inline)) struct weft_task *wf_task_self_inline(void)
{
#ifdef WF_MODEL
    return wf_task_self();
#else
    return wf_task_on(wf_tls(wf_current_worker));
#endif
}

#endif
