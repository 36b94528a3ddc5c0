/* SPDX-License-Identifier: MIT */
/*
 * sched/timers.c - tasks that are woken at a point in time.
 *
 * Each worker has a wheel of its own, so that tasks which set and clear alarms, mostly without ever
 * being woken by them, meet nobody.  An alarm stays in the wheel in which it was set, wherever its
 * task goes; the wheel's lock is for those who clear it from elsewhere and for whoever looks.
 *
 * When it is time to look is one number for all wheels, `next_ns` of the runtime.  Every worker
 * compares it when it looks at the clock, every few turns; and if somebody sleeps, one of the
 * sleepers is the watcher, who sleeps no longer than that.  So alarms are on time whether all are
 * busy with short turns, or all but one sleep, or nobody has anything to do.  If every worker is
 * inside of one long turn, a spare comes (monitor.c).
 *
 * Who finds that it is time takes the number away, so that others do not come for the same reason,
 * looks at all wheels, and puts back the least time it found.  Against somebody who sets an alarm
 * meanwhile (A1):
 *
 *   set:   next_ns of the wheel, fence, reads the number     it is not later: nothing to do
 *   look:  takes the number, fence, reads next_ns of all wheels
 *
 * Either the look finds the new alarm, or who sets it finds the number gone, and writes it.  And
 * whoever makes the number less, against a watcher that is about to sleep for longer (A2):
 *
 *   publish:  lowers the number, fence, reads until when the watcher sleeps: too long, calls it
 *   watcher:  writes until when it sleeps, fence, reads the number: it is less, so does not sleep
 *
 * The number is never later than the first alarm, but may be too early: an alarm that was cleared
 * does not raise it.  Then a look finds nothing, and corrects it.
 */
#include "sched/sched.h"

/* Tasks that a look wakes at once, without the lock. */
#define WAKES_MAX 64u

void wf_timers_init(struct wf_timers *timers, int64_t now_ns)
{
    wf_lock_init(&timers->lock, WF_RANK_TIMERS);
    wf_wheel_init(&timers->wheel, now_ns);
    wf_list_init(&timers->due);
    wf_store_relaxed(&timers->next_ns, WF_FOREVER); /* relaxed: not published yet */
}

void wf_hours_init(struct wf_hours *hours)
{
    /* All relaxed: not published yet. */
    wf_store_relaxed(&hours->next_ns, WF_FOREVER);
    wf_store_relaxed(&hours->until_ns, 0);
}

/* [any]  Whether workers may sleep without a watcher while others work: there is nothing that they
 * could take from them, so they watch only while there is an alarm. */
static bool may_nobody_watch(const weft_runtime *runtime)
{
    return runtime->reactor == NULL &&
           (runtime->options.no_steal || runtime->options.order != WEFT_ORDER_FAIR);
}

/* [any]  Somebody has to look at this time, at the latest. */
static void publish(weft_runtime *runtime, int64_t at_ns)
{
    struct wf_hours *hours = &runtime->hours;
    int64_t next_ns = wf_load_relaxed(&hours->next_ns); /* relaxed: (A1), (A2) */
    do {                                                /* ends: each turn it is less, or ours */
        if (next_ns <= at_ns) {
            return; /* who made it so has called the watcher */
        }
    } while (!wf_cas_relaxed(&hours->next_ns, &next_ns, at_ns));
    wf_fence_seq_cst();                                         /* (A2) */
    const int64_t until_ns = wf_load_relaxed(&hours->until_ns); /* relaxed: (A2) */
    if (until_ns > at_ns || (until_ns == 0 && may_nobody_watch(runtime))) {
        runtime->policy->hurry(runtime);
    }
}

/* ---- alarms -------------------------------------------------------------------------------- */

void wf_alarm_set(struct wf_alarm *alarm, struct weft_task *self, int64_t at_ns)
{
    struct wf_worker *worker = wf_worker_self();
    struct wf_timers *timers = &worker->timers;
    WEFT_ASSERT(alarm->timer.place == 0);
    wf_timer_init(&alarm->timer);
    alarm->timer.place = (uint16_t)(worker->index + 1);
    alarm->task = self;
    wf_lock_acquire(&timers->lock);
    wf_wheel_arm(&timers->wheel, &alarm->timer, at_ns);
    const int64_t due_ns = wf_timer_due_ns(&alarm->timer);
    if (due_ns < wf_load_relaxed(&timers->next_ns)) { /* relaxed: the lock's */
        wf_store_relaxed(&timers->next_ns, due_ns);   /* relaxed: (A1) */
    }
    wf_lock_release(&timers->lock);
    wf_fence_seq_cst(); /* (A1) */
    publish(worker->runtime, due_ns);
    if (worker->is_rested) {
        wf_steal_need_watcher(worker); /* all others may sleep, for ever */
    }
}

void wf_alarm_clear(struct wf_alarm *alarm)
{
    if (alarm->timer.place == 0) {
        return;
    }
    weft_runtime *runtime = alarm->task->pool->runtime;
    struct wf_timers *timers = &runtime->workers[alarm->timer.place - 1].timers;
    wf_lock_acquire(&timers->lock);
    if (!wf_wheel_disarm(&timers->wheel, &alarm->timer)) {
        wf_list_remove(&alarm->timer.link); /* out of `due`, if it is there */
    }
    wf_lock_release(&timers->lock);
    alarm->timer.place = 0;
}

bool wf_timers_are_set(weft_runtime *runtime)
{
    bool is_any = false;
    for (unsigned i = 0; i < wf_seats(runtime) && !is_any; i++) {
        struct wf_timers *timers = &runtime->workers[i].timers;
        wf_lock_acquire(&timers->lock);
        is_any = timers->wheel.count > 0 || !wf_list_is_empty(&timers->due);
        wf_lock_release(&timers->lock);
    }
    return is_any;
}

/* ---- looking ------------------------------------------------------------------------------- */

/* Takes some of those whose time has come.  Their tasks may be gone when they are woken: that is a
 * wake without a reason for whoever has the memory then. */
static unsigned take_due(struct wf_timers *timers, int64_t now_ns, struct weft_task **tasks)
{
    unsigned count = 0;
    wf_lock_acquire(&timers->lock);
    (void)wf_wheel_advance(&timers->wheel, now_ns, &timers->due);
    while (count < WAKES_MAX && !wf_list_is_empty(&timers->due)) {
        struct wf_timer *timer =
            wf_container_of(wf_list_pop_front(&timers->due), struct wf_timer, link);
        tasks[count++] = wf_container_of(timer, struct wf_alarm, timer)->task;
    }
    wf_store_relaxed(&timers->next_ns, wf_wheel_next_ns(&timers->wheel)); /* relaxed: (A1) */
    wf_counter_add(&timers->fired, count);
    wf_lock_release(&timers->lock);
    return count;
}

/* [worker, control thread]  All whose time has come, of one wheel. */
static void wake_due(struct wf_worker *worker, struct wf_timers *timers, int64_t now_ns)
{
    struct weft_task *tasks[WAKES_MAX];
    unsigned count;
    do { /* ends: time stands still, so no more of them become due */
        count = take_due(timers, now_ns, tasks);
        for (unsigned i = 0; i < count; i++) {
            wf_task_wake_on(worker, tasks[i]);
        }
    } while (count == WAKES_MAX);
}

void wf_timers_look(weft_runtime *runtime, struct wf_worker *worker, int64_t now_ns)
{
    struct wf_hours *hours = &runtime->hours;
    int64_t next_ns = wf_load_relaxed(&hours->next_ns); /* relaxed: the CAS decides */
    if (next_ns > now_ns || !wf_cas_relaxed(&hours->next_ns, &next_ns, WF_FOREVER)) {
        return; /* another one looks, or it changed: then it is looked at soon again */
    }
    wf_fence_seq_cst(); /* (A1) */
    int64_t least_ns = WF_FOREVER;
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        struct wf_timers *timers = &runtime->workers[i].timers;
        if (wf_load_relaxed(&timers->next_ns) <= now_ns) { /* relaxed: (A1) */
            wake_due(worker, timers, now_ns);
        }
        int64_t at_ns = wf_load_relaxed(&timers->next_ns);
        least_ns = at_ns < least_ns ? at_ns : least_ns;
    }
    if (least_ns != WF_FOREVER) {
        publish(runtime, least_ns);
    }
}

int64_t wf_timers_next(const weft_runtime *runtime)
{
    return wf_load_relaxed(&runtime->hours.next_ns); /* relaxed: (A2), or a hint */
}

/* ---- watching ------------------------------------------------------------------------------ */

void wf_timers_watch(weft_runtime *runtime, uint32_t watcher, int64_t until_ns)
{
    /* Both relaxed: (A2); with a `watcher` that is not the one who wrote `until_ns`, the newer one
     * sees the number by itself, since it sleeps later. */
    wf_store_relaxed(&runtime->hours.watcher, watcher);
    wf_store_relaxed(&runtime->hours.until_ns, until_ns);
}

void wf_timers_unwatch(weft_runtime *runtime)
{
    wf_store_relaxed(&runtime->hours.until_ns, 0); /* relaxed: it is awake, and will look */
}
