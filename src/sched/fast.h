/* SPDX-License-Identifier: MIT */
/*
 * sched/fast.h - what every switch between tasks goes through, inline.
 *
 * A switch takes less than twenty nanoseconds, of which the locked instruction of the ring's pop is
 * the largest part.  Each function that a task is inside of when it is suspended would be the
 * second: after a switch the CPU predicts wrongly where it returns to, at 7 ns each.  So the few
 * functions that yield, wait, wake and end have in common are here, and only they.  In the policy
 * of stealing with fair order only (is_fast); everything else goes the long way round, through the
 * policy.
 */
#ifndef WF_SCHED_FAST_H
#define WF_SCHED_FAST_H

#include "sched/alone.h"
#include "sched/fork.h"
#include "sched/sched.h"

/* ---- the slot ------------------------------------------------------------------------------ */

/* [owner]  Puts a task in; gives the one that was there, NULL: none. */
static inline struct weft_task *wf_slot_put(struct wf_worker *worker, struct weft_task *task)
{
    if (wf_alone_begin(worker)) {
        struct weft_task *old = wf_load_relaxed(&worker->slot); /* both relaxed: nobody else */
        wf_store_relaxed(&worker->slot, task);
        wf_alone_end(worker);
        if (__builtin_expect(worker->is_rested && old == NULL, 0) && !worker->is_lone) {
            wf_steal_need_watcher(worker);
        }
        return old;
    }
    struct weft_task *old = wf_load_relaxed(&worker->slot); /* relaxed: only we fill it */
    if (old == NULL) {
        wf_store_release(&worker->slot, task); /* (W1) release: who takes the task has it whole */
        if (__builtin_expect(worker->is_rested, 0)) {
            wf_steal_need_watcher(worker);
        }
        return NULL;
    }
    /* (W1) release.  No acquire: what comes out, if no thief was faster, we have put in. */
    return wf_exchange_release(&worker->slot, task);
}

/* [any]  Takes what is in; NULL: nothing. */
static inline struct weft_task *wf_slot_take(struct wf_worker *worker)
{
    struct weft_task *task = wf_load_relaxed(&worker->slot); /* relaxed: the exchange decides */
    return task != NULL ? wf_exchange_acquire(&worker->slot, NULL) : NULL; /* (W1) */
}

/* [owner, alone] */
static inline struct weft_task *wf_slot_take_alone(struct wf_worker *worker)
{
    struct weft_task *task = wf_load_relaxed(&worker->slot); /* both relaxed: nobody else */
    if (task != NULL) {
        wf_store_relaxed(&worker->slot, NULL);
    }
    return task;
}

/* ---- the next task ------------------------------------------------------------------------- */

static inline struct weft_task *wf_task_of(struct wf_node *node)
{
    return node != NULL ? wf_container_of(node, struct weft_task, node) : NULL;
}

/* [owner, fair]  The next task of its own, but for special ones. */
static inline struct weft_task *wf_take_fair(struct wf_worker *worker)
{
    const bool is_alone = wf_alone_begin(worker);
    struct weft_task *task = NULL;
    if (worker->lifo_runs < WF_LIFO_RUNS_MAX) {
        task = is_alone ? wf_slot_take_alone(worker) : wf_slot_take(worker);
    }
    if (task != NULL) {
        worker->lifo_runs++;
        wf_counter_add(&worker->counters.lifo_hits, 1);
    } else {
        task = wf_task_of(is_alone ? wf_ring_pop_alone(&worker->ring) : wf_ring_pop(&worker->ring));
        if (task == NULL && worker->lifo_runs >= WF_LIFO_RUNS_MAX) {
            WF_REACHED("fast.slot_after_the_ring");
            task = is_alone ? wf_slot_take_alone(worker) : wf_slot_take(worker);
        }
        worker->lifo_runs = 0;
    }
    if (is_alone) {
        wf_alone_end(worker);
    }
    return task;
}

/* [owner]  The next task, for one that leaves; NULL: the loop has to look. */
static inline struct weft_task *wf_pick(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    /* relaxed: whoever asks us to stand still waits until we have seen it */
    if (!worker->is_fast || worker->polls_left == 0 ||
        wf_load_relaxed(&runtime->world.is_stopped) != 0 || wf_inject_count(&runtime->high) > 0) {
        return NULL;
    }
    worker->polls_left--;
    return wf_take_fair(worker);
}

/* ---- switching ----------------------------------------------------------------------------- */

/* What the message of a switch says, in the low bits of an address. */
enum wf_errand {
    WF_ERRAND_NONE,
    WF_ERRAND_YIELD, /* of a task: queue it again */
    WF_ERRAND_PARK,  /* of a task: make it idle, if nobody woke it */
    WF_ERRAND_END,   /* of a stack: nothing runs on it any more */
    WF_ERRAND_NEAR,  /* of a task: queue it again, to be the next one here */
};
#define WF_ERRAND_MASK 7u

_Static_assert(alignof(struct wf_stack) > WF_ERRAND_MASK, "room for the errand");

static inline void *wf_message_of(void *what, enum wf_errand errand)
{
    return (char *)what + errand;
}

/* [owner]  The thread is about to go on with this task. */
static inline void wf_enter(struct wf_worker *worker, struct weft_task *task)
{
    /* release: (D1) for those who look at tasks, (K5) for thieves, who look at its forks */
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
    wf_store_relaxed(&worker->current, NULL); /* relaxed: others only look */
    wf_forks_enter(worker, NULL);
}

/* [task]  Leaves the task with an errand, for the next one or for the loop. */
static inline __attribute__((always_inline)) void wf_leave(struct wf_worker *worker,
                                                           struct weft_task *self,
                                                           struct weft_task *next,
                                                           enum wf_errand errand)
{
    struct wf_fiber *to = &worker->loop;
    if (next != NULL) {
        bool is_begun = next->fiber != NULL ||
                        (next->body == WF_BODY_GREEN && wf_task_begin(worker, next) == 0);
        if (is_begun) {
            wf_enter(worker, next);
            to = next->fiber;
        } else {
            WF_REACHED("fast.next_has_no_stack_yet");
            worker->handed = next; /* the loop tries again, and tells the task */
        }
    }
    void *message = wf_fiber_switch(self->fiber, to, wf_message_of(self, errand));
    wf_arrive(wf_worker_self(), message);
}

/* [task]  As wf_task_suspend: for the few whose time counts.  The model has no fibers: there the
 * kernel program says what it is to suspend. */
static inline __attribute__((always_inline)) void wf_suspend(struct weft_task *self)
{
#ifdef WF_MODEL
    wf_task_suspend(self);
#else
    if (__builtin_expect(!self->is_plain, 0) && wf_has_forks(self)) {
        wf_forks_release(self);
    }
    struct wf_worker *worker = wf_worker_self();
    WEFT_ASSERT(wf_load_relaxed(&self->wait) != WEFT_WAIT_NOTHING);
    self->budget = WF_TASK_BUDGET;
    wf_leave(worker, self, wf_pick(worker), WF_ERRAND_PARK);
#endif
}

/* [task]  About to wait for the end of `task`: if that has not begun to run, and something is ready
 * here, lets that go first, as if it yielded.  Mostly the other one has ended when it is back, and
 * there is nothing left to wait for: a turn in a queue, instead of a wait with its three locked
 * instructions.  If the other one is what comes next, the caller comes right after it. */
static inline __attribute__((always_inline)) void wf_let_begin(struct weft_task *self,
                                                               struct weft_task *task)
{
#ifndef WF_MODEL
    struct wf_worker *worker = wf_worker_self();
    /* relaxed: a guess */
    if (wf_load_relaxed(&task->runs) != 0 || self->is_special || worker->trace != NULL) {
        return;
    }
    const bool is_newest = wf_load_relaxed(&worker->slot) == task; /* relaxed: the same */
    struct weft_task *next = wf_pick(worker);
    if (next != NULL) {
        self->budget = WF_TASK_BUDGET;
        wf_leave(worker, self, next, is_newest && next == task ? WF_ERRAND_NEAR : WF_ERRAND_YIELD);
    }
#else
    (void)self;
    (void)task;
#endif
}

/* ---- wait records -------------------------------------------------------------------------- */

/* [the task]  As wf_wait_begin, for a wait in a channel, if nothing but the record is needed.
 * True: it is there, and wf_wait_unnote ends the wait; false: nothing was done. */
static inline bool wf_wait_note(struct wf_worker *worker, struct weft_task *self,
                                enum weft_wait wait, const void *object)
{
#ifdef WF_MODEL
    (void)worker;
    (void)self;
    (void)wait;
    (void)object;
    return false;
#else
    /* All relaxed: our own, or a record for those who look. */
    if (worker->trace != NULL || wf_load_relaxed(&self->deadline) != WEFT_NEVER ||
        self->body == WF_BODY_POLL) {
        return false;
    }
    wf_store_relaxed(&self->wait_object, (uintptr_t)object);
    wf_store_relaxed(&self->wait_since, worker->now_ns);
    wf_store_relaxed(&self->wait_task_id, 0);
    wf_store_relaxed(&self->wait, (uint8_t)wait);
    wf_counter_add(&worker->counters.waits_in_sync, 1);
    return true;
#endif
}

static inline void wf_wait_unnote(struct weft_task *self)
{
    wf_counter_add(&wf_worker_self()->counters.sync_waits_ended, 1);
    wf_store_relaxed(&self->wait, WEFT_WAIT_NOTHING); /* relaxed: as above */
}

/* ---- being interrupted --------------------------------------------------------------------- */

/* [the task]  As wf_task_interrupted, which decides where there is anything to decide. */
static inline int wf_interrupted(struct weft_task *self)
{
    /* relaxed: who was cancelled and does not see it yet sees it the next time */
    if ((wf_load_relaxed(&self->state.word) & WF_STATE_CANCELLED) == 0 &&
        wf_load_relaxed(&self->deadline) == WEFT_NEVER) {
        return 0;
    }
    return wf_task_interrupted(self);
}

/* [the task]  Counts a call; false: it has had its share, and is to yield. */
static inline bool wf_has_spent(struct weft_task *self)
{
    /* A poll task that has had its share stays at 0 until it returns. */
    return __builtin_expect(self->budget != 0 && --self->budget != 0, 1);
}

/* [the task]  As wf_task_spend. */
static inline void wf_spend(struct weft_task *self)
{
    if (!wf_has_spent(self)) {
        wf_task_yield(self);
    }
}

/* [green]  A task whose calls never have to wait hears of a cancel and its deadline too: at the
 * first call after it has let others run. */
static inline int wf_heed(struct weft_task *self)
{
    return self->budget == WF_TASK_BUDGET && self->body != WF_BODY_POLL ? wf_interrupted(self) : 0;
}

/* ---- what a task holds ---------------------------------------------------------------------- */

/* A list in one direction: locks are mostly let go of in the reverse order.  Each store before a
 * locked instruction delays it, so what is there already is not written again. */

/* [the task] */
static inline void wf_held_push(struct weft_task *self, struct wf_held *held,
                                void (*release)(struct wf_held *held, struct weft_task *task))
{
    if (held->next != self->held) {
        held->next = self->held;
    }
    if (held->release != release) {
        held->release = release;
    }
    self->held = held;
}

/* [the task, closer] */
static inline void wf_held_remove(struct weft_task *self, struct wf_held *held)
{
    struct wf_held **link = &self->held;
    while (__builtin_expect(*link != held, 0)) {
        link = &(*link)->next;
    }
    *link = held->next;
}

/* ---- who calls ------------------------------------------------------------------------------ */

/* [any]  As wf_task_self, without a call: for functions that are marked WF_ASKS_THREAD themselves,
 * so that nobody is inside them across a switch with what they asked for; and there only before
 * anything that may switch. */
static inline __attribute__((always_inline)) struct weft_task *wf_task_here(void)
{
#ifdef WF_MODEL
    return wf_task_self();
#else
    struct wf_worker *worker = wf_of_thread(wf_seat);
    return worker != NULL ? wf_load_relaxed(&worker->current) : NULL; /* relaxed: our own */
#endif
}

#endif
