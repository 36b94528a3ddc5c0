/* SPDX-License-Identifier: MIT */
/*
 * sched/timers.c - timers that wake tasks.
 *
 * Each worker has a timing wheel, so tasks that set and cancel timers, most of which never expire,
 * do not contend with other workers.  A timer stays in the wheel in which it was set, wherever its
 * task runs later.  The wheel's lock is for tasks that cancel from another worker, and for the
 * thread that expires timers.
 *
 * `next_ns` of the runtime is one number for all wheels: when wf_timers_look is due.  Every worker
 * compares it with the clock every few ticks.  If workers sleep, one of the sleepers is the leader,
 * which sleeps no longer than that.  So timers are on time if all workers are busy with short
 * slices, if one is busy and the others sleep, and if all sleep.  If every worker is in one long
 * slice, the monitor starts a spare (monitor.c).
 *
 * The thread that finds next_ns due takes it (sets it to WF_FOREVER), so that no other thread comes
 * for the same reason.  It expires the timers of all wheels and publishes the earliest time left.
 * Setting a timer against that (sched.A1):
 *
 *   the task that sets a timer               the thread that expires timers
 *   1 lower next_ns of its wheel             1 take next_ns of the runtime
 *   2 fence                                  2 fence
 *   3 next_ns of the runtime is not later:   3 read next_ns of all wheels, expire what is due
 *     done; else lower it                    4 lower next_ns of the runtime to the earliest
 *
 * If the task's fence comes first, the other thread sees the timer in step 3.  If it comes second,
 * the task finds next_ns taken, and lowers it.
 *
 * Lowering next_ns against a leader that is about to sleep (sched.A2):
 *
 *   publisher (timers_publish)               leader
 *   1 lower next_ns                          1 store until_ns, the end of its sleep
 *   2 fence                                  2 fence
 *   3 until_ns is later: wake the leader     3 next_ns is earlier: do not sleep
 *
 * One of the two sees what the other stored.
 *
 * Invariant: next_ns of the runtime, unless a thread has just taken it, is not later than the first
 * timer.  It may be earlier: cancelling a timer does not raise it.  Then the next wf_timers_look
 * finds nothing due and corrects it.
 *
 * tests/model/model_timers.c runs both protocols in every order.
 */
#include "sched/ready.h"

/* Tasks that are woken in one batch, after the lock is released. */
#define WAKES_MAX 64u

void wf_timers_init(struct wf_timers *timers, int64_t now_ns)
{
    wf_lock_init(&timers->lock, WF_RANK_TIMERS);
    wf_wheel_init(&timers->wheel, now_ns);
    wf_list_init(&timers->due);
    wf_store_relaxed(&timers->next_ns, WF_FOREVER); /* relaxed: not published yet */
}

void wf_timer_summary_init(struct wf_timer_summary *timer_summary)
{
    /* All relaxed: not published yet. */
    wf_store_relaxed(&timer_summary->next_ns, WF_FOREVER);
    wf_store_relaxed(&timer_summary->until_ns, 0);
}

/* [any]  Makes wf_timers_look due at this time, at the latest. */
static void timers_publish(weft_runtime *runtime, int64_t at_ns)
{
    struct wf_timer_summary *timer_summary = &runtime->timer_summary;
    int64_t next_ns =
        wf_load_relaxed(&timer_summary->next_ns); /* relaxed: (sched.A1), (sched.A2) */
    do { /* ends: each lost CAS has lowered it, or a thread has taken it */
        if (next_ns <= at_ns) {
            return; /* the publisher of that time has woken the leader */
        }
    } while (!wf_cas_relaxed(&timer_summary->next_ns, &next_ns, at_ns));
    wf_fence_seq_cst();                                                 /* (sched.A2) */
    const int64_t until_ns = wf_load_relaxed(&timer_summary->until_ns); /* relaxed: (sched.A2) */
    if (until_ns > at_ns || (until_ns == 0 && timer_summary->is_leader_optional)) {
        runtime->policy->wake_leader(runtime);
    }
}

/* ---- setting and cancelling ---------------------------------------------------------------- */

void wf_task_timer_set(struct wf_task_timer *task_timer, struct weft_task *self, int64_t at_ns)
{
    struct wf_worker *worker = wf_worker_self();
    struct wf_timers *timers = &worker->timers;
    WEFT_ASSERT(task_timer->timer.place == 0);
    wf_timer_init(&task_timer->timer);
    task_timer->timer.place = (uint16_t)(worker->index + 1);
    task_timer->task = self;
    wf_lock_acquire(&timers->lock);
    wf_wheel_arm(&timers->wheel, &task_timer->timer, at_ns);
    const int64_t due_ns = wf_timer_due_ns(&task_timer->timer);
    if (due_ns < wf_load_relaxed(&timers->next_ns)) { /* relaxed: the lock orders it */
        wf_store_relaxed(&timers->next_ns, due_ns);   /* relaxed: (sched.A1) */
    }
    wf_lock_release(&timers->lock);
    wf_fence_seq_cst(); /* (sched.A1) */
    timers_publish(worker->runtime, due_ns);
    if (worker->leader.may_be_needed) {
        wf_leader_needed(worker); /* all other workers may sleep without a leader */
    }
}

void wf_task_timer_clear(struct wf_task_timer *task_timer)
{
    if (task_timer->timer.place == 0) {
        return;
    }
    weft_runtime *runtime = task_timer->task->pool->runtime;
    struct wf_timers *timers = &runtime->workers[task_timer->timer.place - 1].timers;
    wf_lock_acquire(&timers->lock);
    if (!wf_wheel_disarm(&timers->wheel, &task_timer->timer)) {
        wf_list_remove(&task_timer->timer.link); /* from `due`, if it is there */
    }
    wf_lock_release(&timers->lock);
    task_timer->timer.place = 0;
}

bool wf_timers_are_set(weft_runtime *runtime)
{
    bool is_any = false;
    for (unsigned i = 0; i < wf_worker_total(runtime) && !is_any; i++) {
        struct wf_timers *timers = &runtime->workers[i].timers;
        wf_lock_acquire(&timers->lock);
        is_any = timers->wheel.count > 0 || !wf_list_is_empty(&timers->due);
        wf_lock_release(&timers->lock);
    }
    return is_any;
}

/* ---- expiring ------------------------------------------------------------------------------ */

/* [worker, control thread]  Takes up to WAKES_MAX expired timers of a wheel, stores their tasks in
 * `tasks` and returns how many.  A task may have ended before the caller wakes it: then the wake-up
 * is a spurious one for the task that uses the memory by then. */
static unsigned timers_take_due(struct wf_timers *timers, int64_t now_ns, struct weft_task **tasks)
{
    unsigned count = 0;
    wf_lock_acquire(&timers->lock);
    (void)wf_wheel_advance(&timers->wheel, now_ns, &timers->due);
    while (count < WAKES_MAX && !wf_list_is_empty(&timers->due)) {
        struct wf_timer *timer =
            wf_container_of(wf_list_pop_front(&timers->due), struct wf_timer, link);
        tasks[count++] = wf_container_of(timer, struct wf_task_timer, timer)->task;
    }
    wf_store_relaxed(&timers->next_ns, wf_wheel_next_ns(&timers->wheel)); /* relaxed: (sched.A1) */
    wf_counter_add(&timers->fired, count);
    wf_lock_release(&timers->lock);
    return count;
}

/* [worker, control thread]  Wakes the tasks of all expired timers of one wheel. */
static void timers_wake_due(struct wf_worker *worker, struct wf_timers *timers, int64_t now_ns)
{
    struct weft_task *tasks[WAKES_MAX];
    unsigned count;
    do { /* ends: now_ns does not change, so no more timers expire */
        count = timers_take_due(timers, now_ns, tasks);
        for (unsigned i = 0; i < count; i++) {
            wf_task_wake_on(worker, tasks[i]);
        }
    } while (count == WAKES_MAX);
}

void wf_timers_look(weft_runtime *runtime, struct wf_worker *worker, int64_t now_ns)
{
    struct wf_timer_summary *timer_summary = &runtime->timer_summary;
    int64_t next_ns = wf_load_relaxed(&timer_summary->next_ns); /* relaxed: the CAS decides */
    if (next_ns > now_ns || !wf_cas_relaxed(&timer_summary->next_ns, &next_ns, WF_FOREVER)) {
        return; /* nothing is due, or another thread took it, or lowered it: checked again soon */
    }
    wf_fence_seq_cst(); /* (sched.A1) */
    int64_t least_ns = WF_FOREVER;
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        struct wf_timers *timers = &runtime->workers[i].timers;
        if (wf_load_relaxed(&timers->next_ns) <= now_ns) { /* relaxed: (sched.A1) */
            timers_wake_due(worker, timers, now_ns);
        }
        int64_t at_ns = wf_load_relaxed(&timers->next_ns);
        least_ns = at_ns < least_ns ? at_ns : least_ns;
    }
    if (least_ns != WF_FOREVER) {
        timers_publish(runtime, least_ns);
    }
}

int64_t wf_timers_next(const weft_runtime *runtime)
{
    return wf_load_relaxed(&runtime->timer_summary.next_ns); /* relaxed: (sched.A2), or a hint */
}

/* ---- the leader ---------------------------------------------------------------------------- */

void wf_timers_set_leader(weft_runtime *runtime, uint32_t leader, int64_t until_ns)
{
    /* Both relaxed: (sched.A2).  A publisher may read the index of an earlier leader together with
     * the until_ns of the present one.  The present leader announces its sleep later, and sees
     * next_ns itself. */
    wf_store_relaxed(&runtime->timer_summary.leader, leader);
    wf_store_relaxed(&runtime->timer_summary.until_ns, until_ns);
}

void wf_timers_clear_leader(weft_runtime *runtime)
{
    wf_store_relaxed(&runtime->timer_summary.until_ns, 0); /* relaxed: it checks next_ns itself */
}
