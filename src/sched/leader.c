/* SPDX-License-Identifier: MIT */
/*
 * sched/leader.c - the leader: the parked worker that waits on behalf of all.
 *
 * No worker is notified of a task in a LIFO slot: mostly the task that runs there is about to wait,
 * and the owner of the slot takes the next one itself.  If the running task does not wait, the task
 * in the slot would be stuck.  So, while a worker runs tasks, one of the parked workers is the
 * leader.  It wakes up every WF_SLICE_MAX_NS, steals from LIFO slots, and requests preemption of
 * tasks that have run since its last check.  That bounds the unfairness of the slot; no wake-up for
 * a queue depends on it.
 *
 * The leader also parks for the next timer, and in the driver if there is one, where I/O events end
 * its sleep.
 *
 * Leadership ends when the leader wakes up.  The next worker that parks takes it, if there is
 * anything to wait for.  A worker that wakes up while all others are parked needs no leader until
 * it has something to be watched: a task in its slot, a timer (may_be_needed).
 */
#include "sched/ready.h"

void wf_leader_summon(weft_runtime *runtime)
{
    /* (sched.S1): either a worker that is about to park sees that there is no leader, or this
     * thread sees that worker's bit. */
    wf_fence_seq_cst();
    const bool has_leader = wf_load_relaxed(&runtime->has_leader) != 0; /* relaxed: one wake-up too
                                                                         * many is harmless */
    if (has_leader &&
        wf_load_relaxed(&runtime->timer_summary.until_ns) > wf_clock_now() + WF_SLICE_MAX_NS) {
        /* The leader sleeps for longer than a slice, because no worker ran tasks when it parked.
         * Now one does, so the leader must wake up in time to check its slice. */
        runtime->policy->wake_leader(runtime);
        return;
    }
    int sleeper = !has_leader ? wf_idle_claim(&runtime->idle) : -1;
    if (sleeper >= 0) {
        WF_REACHED("leader.summoned");
        wf_driver_unpark(runtime, &runtime->workers[sleeper].parker);
    }
}

void wf_leader_needed(struct wf_worker *worker)
{
    worker->leader.may_be_needed = false;
    wf_leader_summon(worker->runtime);
}

/* [loop]  Whether the leader must check for long slices: some worker is not parked. */
static bool must_check_slices(const struct wf_worker *worker, unsigned asleep)
{
    const weft_runtime *runtime = worker->runtime;
    return worker->runq.mode == WF_RUNQ_FAIR && !runtime->options.no_steal &&
           asleep < wf_workers_active(runtime);
}

/* [loop]  Whether a leader is needed and there is none. */
static bool is_leader_missing(struct wf_worker *worker, unsigned asleep)
{
    weft_runtime *runtime = worker->runtime;
    return (must_check_slices(worker, asleep) || wf_timers_next(runtime) != WF_FOREVER ||
            wf_driver_of(runtime) != NULL) &&
           wf_load_relaxed(&runtime->has_leader) == 0; /* relaxed: the exchange decides */
}

int64_t wf_leader_begin(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    const unsigned asleep = wf_idle_asleep(&runtime->idle) + 1;
    worker->leader.is_self = is_leader_missing(worker, asleep) &&
                             /* acquire: the driver's pending events, from the leader before */
                             wf_exchange_acquire(&runtime->has_leader, 1) == 0;
    worker->leader.driver = worker->leader.is_self ? wf_driver_of(runtime) : NULL;
    if (!worker->leader.is_self) {
        return WF_FOREVER;
    }
    int64_t until_ns = wf_timers_next(runtime);
    if (must_check_slices(worker, asleep)) {
        const int64_t check_ns = wf_clock_now() + WF_SLICE_MAX_NS;
        until_ns = check_ns < until_ns ? check_ns : until_ns;
    }
    wf_timers_set_leader(runtime, worker->index, until_ns); /* (sched.A2): the sleep's fence */
    return until_ns;
}

bool wf_leader_must_stay(void *context)
{
    struct wf_worker *worker = context;
    if (wf_steal_has_work(worker)) {
        return true;
    }
    weft_runtime *runtime = worker->runtime;
    const unsigned asleep = wf_idle_asleep(&runtime->idle);
    /* Other workers may have begun to run tasks, or stepped down as leader, since
     * wf_leader_begin: before this worker's bit was set they could not wake it. */
    if (!worker->leader.is_self) {
        return is_leader_missing(worker, asleep);
    }
    return wf_timers_next(runtime) < worker->leader.until_ns || /* (sched.A2) */
           wf_driver_of(runtime) != worker->leader.driver ||    /* (sched.V2) */
           (must_check_slices(worker, asleep) &&
            worker->leader.until_ns > wf_clock_now() + WF_SLICE_MAX_NS);
}

void wf_leader_end(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    worker->leader.is_self = false;
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        struct wf_worker *other = &runtime->workers[i];
        uint64_t polled = wf_counter_read(&other->counters.polled);
        /* All relaxed: hints, and a request that may be seen later. */
        if (wf_load_relaxed(&other->current) != NULL &&
            wf_load_relaxed(&other->preempt.polled_seen) == polled) {
            WF_REACHED("leader.preempt_requested");
            wf_store_relaxed(&other->preempt.is_requested, 1);
        }
        wf_store_relaxed(&other->preempt.polled_seen, polled);
    }
    wf_timers_clear_leader(runtime);
    if (worker->leader.driver != NULL) {
        worker->leader.driver->dispatch(worker->leader.driver, worker);
    }
    wf_store_release(&runtime->has_leader, 0); /* release: the driver's pending events */
    /* The tasks woken by this dispatch summoned no leader, because this worker still was the
     * leader.  With a monitor that is fine: if the next slice is long, after hog_ns the monitor
     * wakes a sleeper, which becomes the leader (wf_leader_repair).  A wake-up for each event of a
     * server with little to do would cost more than the event. */
    worker->leader.may_be_needed = worker->leader.may_be_needed || runtime->options.no_monitor;
}

void wf_leader_wake_any(weft_runtime *runtime)
{
    wf_fence_seq_cst(); /* (sched.S1): a worker that is awake checks once more before it parks as
                         * the last */
    int sleeper = wf_idle_claim(&runtime->idle);
    if (sleeper >= 0) {
        WF_REACHED("leader.any_woken");
        wf_driver_unpark(runtime, &runtime->workers[sleeper].parker);
    }
}

void wf_leader_wake(weft_runtime *runtime)
{
    if (wf_load_relaxed(&runtime->has_leader) == 0) { /* relaxed: behind the caller's fence */
        wf_leader_wake_any(runtime);
        return;
    }
    /* relaxed: see wf_timers_set_leader */
    const uint32_t leader = wf_load_relaxed(&runtime->timer_summary.leader);
    if (wf_idle_claim_worker(&runtime->idle, leader)) {
        WF_REACHED("leader.woken_early");
        wf_driver_unpark(runtime, &runtime->workers[leader].parker);
    }
}

void wf_leader_repair(weft_runtime *runtime)
{
    if (wf_load_relaxed(&runtime->has_leader) == 0 && /* relaxed: a hint; the woken worker checks */
        (wf_driver_of(runtime) != NULL || wf_timers_next(runtime) != WF_FOREVER)) {
        wf_leader_wake_any(runtime);
    }
}
