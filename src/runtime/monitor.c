/* SPDX-License-Identifier: MIT */
/*
 * runtime/monitor.c - the monitor finds stuck workers, and starts spares that run tasks meanwhile.
 *
 * A task that computes without a call into the runtime, or waits in a system call, occupies its
 * worker.  Another worker can still steal from its run queue, if one is awake.  So a stuck worker
 * keeps its thread and its queues, and the monitor activates a spare: one more worker with a thread
 * of its own.  When the stuck worker returns there is a surplus, and a spare parks.  ADR 16 has the
 * reasons.
 *
 * A worker that has tasks of its own does not steal.  So at each sample the monitor drains the run
 * queue of every stuck worker into the global queue, which all workers check.
 *
 *   active    the worker runs tasks, searches or sleeps; `workers_active` is the number of these
 *   stuck     active, and in one slice for longer than hog_ns, or between weft_block_begin and
 *             weft_block_end
 *   short     fewer than options.workers are active and not stuck, and all active workers
 *             have tasks
 *   surplus   more than options.workers are active and not stuck.  The next spare that notices it
 *             between two tasks moves its queued tasks to the global queue and parks.
 *   idle      a spare that is parked and not active; the last parked one is unparked first
 *
 * Spares steal no forks.  A task that forks computes on purpose, on the number of workers that the
 * user has configured; more threads would only compete with them for the CPUs.
 *
 * The monitor samples all workers every hog_ns / 2, as long as one is awake.  When all workers have
 * slept for SLEEP_AFTER_SAMPLES samples, the monitor sleeps without a timeout (sched.M3):
 *
 *   monitor                              worker that wakes up
 *   1  sets is_asleep                    1  clears its is_safe
 *   2  fence                             2  fence (safepoint.c)
 *   3  sleeps if all workers are safe    3  wakes the monitor if is_asleep is set
 *
 * The only worker of a runtime is biased, and notifies no other worker of what it queues.  Before
 * the monitor activates a second one it revokes the bias (queue/bias.c).  If the revocation is
 * refused, the monitor retries at its next sample.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/runtime.h"

/* Samples at which all workers slept, before the monitor sleeps too. */
#define SLEEP_AFTER_SAMPLES 4u
/* Nanoseconds between two samples: the limits. */
#define SAMPLE_NS_MIN INT64_C(100000)
#define SAMPLE_NS_MAX INT64_C(50000000)

/* ---- spares -------------------------------------------------------------------------------- */

/* [monitor]  Whether the thread of the last worker could not be started. */
static bool is_last_without_thread(weft_runtime *runtime)
{
    return !runtime->workers[wf_worker_total(runtime) - 1].health.has_thread;
}

/* [monitor]  Makes one more worker, without a thread.  -EBUSY: the world is stopped; -ENOMEM. */
static int make_spare(weft_runtime *runtime)
{
    const unsigned index = wf_worker_total(runtime);
    struct wf_worker *worker = &runtime->workers[index];
    wf_lock_acquire(&runtime->world_turn.lock);
    int rc = -EBUSY;
    if (runtime->world_turn.owner == NULL) { /* else a stopper has counted the workers already */
        rc = wf_worker_init(runtime, index);
        const struct wf_trace_ring *outside = runtime->trace.outside.ring;
        if (rc == 0 && wf_load_relaxed(&runtime->trace.is_on) != 0) { /* relaxed: see trace.c */
            (void)wf_trace_ring_new(&worker->trace, outside->events, index); /* or no trace */
        }
        if (rc == 0) {
            wf_idle_grow(&runtime->idle, index + 1);
            wf_store_release(&runtime->workers_total, index + 1); /* (sched.M1) */
        }
    }
    wf_lock_release(&runtime->world_turn.lock);
    return rc;
}

/* [monitor]  Starts the thread of a new spare, which the caller has counted as active already. */
static void start_spare(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    int rc = is_last_without_thread(runtime) ? 0 : make_spare(runtime);
    if (rc == 0) {
        rc = wf_worker_start(&runtime->workers[wf_worker_total(runtime) - 1]);
    }
    if (rc == 0) {
        wf_counter_add(&monitor->started, 1);
        return;
    }
    WF_REACHED("monitor.no_spare");
    wf_counter_add(&monitor->refused, rc != -EBUSY ? 1 : 0);
    wf_lock_acquire(&monitor->lock);
    wf_workers_active_add_locked(runtime, -1);
    wf_lock_release(&monitor->lock);
    runtime->policy->wake_any(runtime); /* all other workers may have parked since the count */
}

/* [locked monitor.lock, monitor]  Whether a worker is needed, and a spare is idle or can start. */
static bool wants_spare_locked(weft_runtime *runtime)
{
    const bool can_grow =
        wf_worker_total(runtime) < runtime->workers_max || is_last_without_thread(runtime);
    return (can_grow || !wf_list_is_empty(&runtime->monitor.idle_spares)) &&
           wf_workers_are_short_locked(runtime);
}

/* [monitor]  Whether a spare is still needed and none could be activated.  Then the monitor must
 * not sleep: a blocked worker counts as safe, and no other thread would wake the monitor. */
static bool wants_spare(weft_runtime *runtime)
{
    wf_lock_acquire(&runtime->monitor.lock);
    const bool wants = runtime->monitor.stuck > 0 && wants_spare_locked(runtime);
    wf_lock_release(&runtime->monitor.lock);
    return wants;
}

/* [monitor]  Activates one spare, if a worker is needed. */
static void start_or_unpark_spare(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    struct wf_worker *spare = NULL;
    wf_lock_acquire(&monitor->lock);
    const bool is_short = wants_spare_locked(runtime) && wf_single_bias_revoke_locked(runtime);
    if (is_short && !wf_list_is_empty(&monitor->idle_spares)) {
        spare = wf_container_of(monitor->idle_spares.next, struct wf_worker, health.link);
        wf_spare_activate_locked(spare);
    } else if (is_short) {
        wf_workers_active_add_locked(runtime, 1);
    }
    wf_lock_release(&monitor->lock);
    if (spare != NULL) {
        (void)wf_parker_unpark(&spare->health.spare_parker);
    } else if (is_short) {
        start_spare(runtime);
    }
}

/* [monitor]  A stuck worker may have been the leader, or would have polled I/O and timers between
 * two tasks.  The parked workers do not know. */
static void replace_leader(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    wf_lock_acquire(&monitor->lock);
    const bool is_any_stuck = monitor->stuck > 0;
    wf_lock_release(&monitor->lock);
    if (is_any_stuck && runtime->policy->repair_leader != NULL) {
        runtime->policy->repair_leader(runtime);
    }
}

/* [monitor]  If too many workers are active, has the policy park a spare that has no task. */
static void recall_spare(weft_runtime *runtime)
{
    if (wf_spare_is_surplus(runtime)) {
        runtime->policy->recall_spare(runtime);
    }
}

/* [monitor]  Moves the queued tasks of every stuck worker to the global queue, and submits its I/O
 * requests.  Workers with tasks of their own would not steal them. */
static void drain_stuck(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        struct wf_worker *worker = &runtime->workers[i];
        struct wf_chain chain = {0};
        /* The lock: a spare that unparks meanwhile revokes the bias too, and would be refused. */
        wf_lock_acquire(&monitor->lock);
        const bool is_stuck = worker->health.is_hog || worker->health.is_blocked;
        if (is_stuck && wf_workers_active(runtime) > 1) {
            (void)wf_runq_drain(&worker->runq, &chain); /* if refused: at the next sample */
        }
        wf_lock_release(&monitor->lock);
        if (chain.first != NULL) {
            WF_REACHED("monitor.drains_stuck");
            wf_inject_push_overflow(&runtime->queues.global, &chain);
            wf_steal_notify_external(runtime, NULL);
        }
        if (is_stuck) {
            wf_driver_submit_for(runtime, worker);
        }
    }
}

/* ---- hogs ---------------------------------------------------------------------------------- */

/* [monitor]  Whether no hog of this spawn site was reported yet.  Records the site. */
static bool is_new_site(struct wf_monitor *monitor, const void *site)
{
    for (unsigned i = 0; i < monitor->site_count; i++) {
        if (monitor->sites[i] == site) {
            return false;
        }
    }
    if (monitor->site_count == WF_HOG_SITES) {
        return false;
    }
    monitor->sites[monitor->site_count++] = site;
    return true;
}

/* [monitor]  Counts the hog, and calls on_hog for a new spawn site. */
static void report_hog(struct wf_worker *worker, int64_t ran_ns)
{
    weft_runtime *runtime = worker->runtime;
    struct weft_task *task = wf_load_acquire(&worker->current); /* (sched.D1) */
    weft_task_info info;
    wf_counter_add(&runtime->monitor.hogs, 1);
    if (task == NULL || runtime->options.on_hog == NULL) {
        return;
    }
    wf_task_describe(runtime, task, false, &info);
    if (is_new_site(&runtime->monitor, info.site)) {
        const weft_hog hog = {.task_id = info.id,
                              .name = info.name,
                              .fn = info.fn,
                              .site = info.site,
                              .worker = worker->index,
                              .ran_ns = ran_ns};
        runtime->options.on_hog(runtime->options.hook_context, &hog);
    }
}

/* [monitor]  Samples the counters of the worker.  If they are unchanged, the worker is still in one
 * slice: after hog_ns / 2 requests preemption, after hog_ns counts the worker as stuck. */
static void sample_worker(struct wf_worker *worker, int64_t now)
{
    struct wf_worker_health *health = &worker->health;
    weft_runtime *runtime = worker->runtime;
    const uint64_t polled = wf_counter_read(&worker->counters.polled);
    const uint64_t run_seq = wf_load_acquire(&worker->run.seq); /* (sched.Y1) */
    const bool is_same =
        run_seq % 2 != 0 && polled == health->seen_polled && run_seq == health->seen_run_seq;
    if (!is_same) {
        health->seen_polled = polled;
        health->seen_run_seq = run_seq;
        health->seen_ns = now;
    }
    const int64_t ran_ns = now - health->seen_ns;
    const bool is_long = is_same && ran_ns >= runtime->options.hog_ns;
    if (is_same && ran_ns >= runtime->options.hog_ns / 2) {
        wf_store_relaxed(&worker->preempt.is_requested, 1); /* relaxed: a request */
    }
    wf_lock_acquire(&runtime->monitor.lock);
    const bool is_hog = is_long && !health->is_blocked;
    const bool was_hog = health->is_hog;
    wf_worker_set_stuck_locked(worker, is_hog, health->is_blocked);
    wf_lock_release(&runtime->monitor.lock);
    wf_store_relaxed(&health->hog_since_ns, is_hog ? health->seen_ns : 0); /* relaxed: for dumps */
    if (is_hog && !was_hog) {
        report_hog(worker, ran_ns);
    }
}

/* ---- the monitor --------------------------------------------------------------------------- */

/* [monitor]  Failures are reported at quiescence.  If there is none for WF_FAILURE_WAIT_NS, reports
 * them now. */
static void report_overdue_failures(weft_runtime *runtime, int64_t now)
{
    struct wf_monitor *monitor = &runtime->monitor;
    if (!wf_failures_are_noted(runtime->pool)) {
        monitor->noted_ns = 0;
    } else if (monitor->noted_ns == 0) {
        monitor->noted_ns = now;
    } else if (now - monitor->noted_ns >= WF_FAILURE_WAIT_NS) {
        WF_REACHED("monitor.reports_failures");
        monitor->noted_ns = 0;
        wf_failures_report(runtime);
    }
}

/* [monitor] */
static bool is_any_worker_awake(weft_runtime *runtime)
{
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        if (wf_load_relaxed(&runtime->workers[i].safe.is_safe) == 0) { /* relaxed: (sched.M3) */
            return true;
        }
    }
    return false;
}

void wf_monitor_sleep(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    wf_store_relaxed(&monitor->is_asleep, 1); /* relaxed: the fence orders it */
    wf_fence_seq_cst();                       /* (sched.M3) */
    if (!is_any_worker_awake(runtime)) {
        (void)wf_parker_park(&monitor->parker, WF_FOREVER); /* samples all workers either way */
    }
    wf_store_relaxed(&monitor->is_asleep, 0); /* relaxed: a wake-up too many is harmless */
}

static void *monitor_main(void *arg)
{
    weft_runtime *runtime = arg;
    struct wf_monitor *monitor = &runtime->monitor;
    const int64_t half_ns = runtime->options.hog_ns / 2;
    const int64_t sample_ns = half_ns < SAMPLE_NS_MIN   ? SAMPLE_NS_MIN
                              : half_ns > SAMPLE_NS_MAX ? SAMPLE_NS_MAX
                                                        : half_ns;
    unsigned idle_samples = 0;
    while (wf_load_acquire(&monitor->is_leaving) == 0) { /* acquire: pairs with wf_monitor_stop */
        const int64_t now = wf_clock_now();
        for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
            sample_worker(&runtime->workers[i], now);
        }
        start_or_unpark_spare(runtime);
        drain_stuck(runtime);
        replace_leader(runtime);
        recall_spare(runtime);
        report_overdue_failures(runtime, now);
        const bool is_idle =
            !wf_spare_is_surplus(runtime) && !is_any_worker_awake(runtime) && !wants_spare(runtime);
        idle_samples = is_idle ? idle_samples + 1 : 0;
        if (idle_samples >= SLEEP_AFTER_SAMPLES) {
            idle_samples = 0;
            wf_monitor_sleep(runtime);
        } else {
            (void)wf_parker_park(&monitor->parker, now + sample_ns); /* samples either way */
        }
    }
    return NULL;
}

int wf_monitor_start(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    const struct wf_thread_options options = {.name = "weft-monitor"};
    if (runtime->options.no_monitor) {
        return 0;
    }
    int rc = wf_thread_start(&monitor->thread, monitor_main, runtime, &options);
    wf_store_relaxed(&monitor->is_started, rc == 0 ? 1 : 0); /* relaxed: a number for readers */
    return rc;
}

void wf_monitor_stop(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    if (wf_load_relaxed(&monitor->is_started) == 0) { /* relaxed: only the closer writes it */
        return;
    }
    wf_store_release(&monitor->is_leaving, 1); /* release: pairs with the loop's load */
    (void)wf_parker_unpark(&monitor->parker);
    int rc = wf_thread_join(monitor->thread);
    WEFT_CHECK(rc == 0); /* the closer joins it once */
    wf_store_relaxed(&monitor->is_started, 0);
}
