/* SPDX-License-Identifier: MIT */
/*
 * sched/spare.c - active, stuck and idle workers: the accounts that workers and monitor share, the
 * parking of spares, and the calls with which a task announces that it blocks its worker.
 *
 * runtime/monitor.c has the idea and the terms.  A spare that parks may be the last worker that was
 * awake, or the home of a pinned task that another thread makes ready at this moment.  For both
 * cases `workers_active` and `is_spare_parked` serve as the bit of a sleeping worker does in
 * idle.c: the spare sets them, issues a fence, and checks once more before it parks (sched.S1).
 *
 * The run queue of a runtime's only worker is biased, and this worker notifies no other worker of
 * what it queues.  So that bias is revoked before a second worker becomes active (queue/bias.c).
 */
#include "sched/ready.h"

/* ---- active workers ------------------------------------------------------------------------ */

/* [locked monitor.lock]  Sets the surplus. */
static void monitor_count_locked(weft_runtime *runtime)
{
    struct wf_monitor *monitor = &runtime->monitor;
    /* Both relaxed: written under the lock; hints for readers without it. */
    const uint32_t able = wf_load_relaxed(&runtime->workers_active) - monitor->stuck;
    const uint32_t wanted = runtime->worker_count;
    wf_store_relaxed(&monitor->surplus, able > wanted ? able - wanted : 0);
}

void wf_workers_active_add_locked(weft_runtime *runtime, int32_t more)
{
    /* relaxed: written under the lock; readers without it issue a fence (sched.S1) */
    wf_store_relaxed(&runtime->workers_active,
                     wf_load_relaxed(&runtime->workers_active) + (uint32_t)more);
    monitor_count_locked(runtime);
}

bool wf_workers_are_short_locked(weft_runtime *runtime)
{
    return wf_workers_active(runtime) - runtime->monitor.stuck < runtime->worker_count &&
           runtime->policy->idle_count(runtime) == 0;
}

void wf_worker_set_stuck_locked(struct wf_worker *worker, bool is_hog, bool is_blocked)
{
    struct wf_worker_health *health = &worker->health;
    struct wf_monitor *monitor = &worker->runtime->monitor;
    const bool was_stuck = health->is_hog || health->is_blocked;
    health->is_hog = is_hog;
    health->is_blocked = is_blocked;
    if ((is_hog || is_blocked) != was_stuck) {
        monitor->stuck += was_stuck ? (unsigned)-1 : 1;
        monitor_count_locked(worker->runtime);
    }
}

bool wf_spare_is_surplus(const weft_runtime *runtime)
{
    return wf_load_relaxed(&runtime->monitor.surplus) > 0; /* relaxed: a hint */
}

/* ---- idle spares --------------------------------------------------------------------------- */

/* [locked monitor.lock]  Makes the spare idle. */
static void spare_park_locked(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    wf_list_push_front(&runtime->monitor.idle_spares, &worker->health.link);
    /* relaxed: the fence in wf_spare_wait orders it */
    wf_store_relaxed(&worker->health.is_spare_parked, 1);
    wf_workers_active_add_locked(runtime, -1);
}

bool wf_single_bias_revoke_locked(weft_runtime *runtime)
{
    struct wf_worker *worker = &runtime->workers[0];
    if (worker->is_single) {
        if (!wf_bias_revoke(&worker->runq.bias)) {
            return false;
        }
        wf_bias_release(&worker->runq.bias);
    }
    return true;
}

void wf_spare_activate_locked(struct wf_worker *worker)
{
    wf_list_remove(&worker->health.link);
    wf_store_relaxed(&worker->health.is_spare_parked, 0); /* relaxed: the spare checks all queues */
    wf_workers_active_add_locked(worker->runtime, 1);
    /* If this fails, the bias is ended all the same, unless the kernel refuses the barrier: then
     * the owner gives it up at its next clock tick (wf_bias_is_due). */
    (void)wf_single_bias_revoke_locked(worker->runtime);
}

/* [owner]  The second check of a spare that parks: unparks itself for a pinned task, for the end of
 * the runtime, or because it must report quiescence as the last worker. */
static bool spare_try_unpark(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    const bool is_last = wf_idle_asleep(&runtime->idle) >= wf_workers_active(runtime);
    if (wf_mpsc_is_empty(&worker->pinned.inbox) &&
        wf_load_relaxed(&runtime->shutdown.exit_mode) == 0 && /* relaxed: the closer wakes it */
        !(is_last && wf_upcalls.quiescence_is_due(runtime))) {
        return false;
    }
    WF_REACHED("spare.spare_unparks_itself");
    wf_lock_acquire(&runtime->monitor.lock);
    if (wf_load_relaxed(&worker->health.is_spare_parked) != 0) { /* relaxed: under the lock */
        wf_spare_activate_locked(worker);
    }
    wf_lock_release(&runtime->monitor.lock);
    return true;
}

void wf_spare_wait(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    wf_safe_enter(&runtime->world, &worker->safe);
    /* relaxed: the fence of wf_safe_enter is between the store of is_spare_parked and the second
     * check (sched.S1).  A thread that queues a task for it later sees the flag and unparks it. */
    while (wf_load_relaxed(&worker->health.is_spare_parked) != 0 && !spare_try_unpark(worker)) {
        (void)wf_parker_park(&worker->health.spare_parker, WF_FOREVER); /* the loop checks again */
    }
    wf_worker_leave_safe(worker);
}

bool wf_spare_dismiss(struct wf_worker *worker)
{
    struct wf_monitor *monitor = &worker->runtime->monitor;
    wf_lock_acquire(&monitor->lock);
    const bool is_surplus = worker->health.is_spare && wf_spare_is_surplus(worker->runtime);
    if (is_surplus) {
        spare_park_locked(worker);
    }
    wf_lock_release(&monitor->lock);
    return is_surplus;
}

bool wf_spare_park(struct wf_worker *worker)
{
    const bool is_surplus = wf_spare_dismiss(worker);
    if (is_surplus) {
        WF_JITTER();
        wf_spare_wait(worker);
    }
    return is_surplus;
}

void wf_spare_unpark(struct wf_worker *worker)
{
    struct wf_monitor *monitor = &worker->runtime->monitor;
    wf_lock_acquire(&monitor->lock);
    const bool is_spare_parked =
        wf_load_relaxed(&worker->health.is_spare_parked) != 0; /* relaxed: under the lock */
    if (is_spare_parked) {
        WF_REACHED("spare.pinned_task_unparks_spare");
        wf_spare_activate_locked(worker);
    }
    wf_lock_release(&monitor->lock);
    (void)wf_parker_unpark(&worker->health.spare_parker);
}

/* ---- the safe state ------------------------------------------------------------------------- */

void wf_worker_leave_safe(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    wf_safe_leave(&runtime->world, &worker->safe);
    if (wf_load_relaxed(&runtime->monitor.is_asleep) != 0) { /* relaxed: (sched.M3) */
        (void)wf_parker_unpark(&runtime->monitor.parker);
    }
}

/* ---- blocking calls ------------------------------------------------------------------------ */

/* [owner]  Marks the worker as blocked, or as not blocked any more.  Returns a spare that the
 * caller must unpark; NULL: none.  Sets *is_short if a worker is needed. */
static struct wf_worker *set_blocked(struct wf_worker *worker, bool is_blocked, bool *is_short)
{
    weft_runtime *runtime = worker->runtime;
    struct wf_monitor *monitor = &runtime->monitor;
    struct wf_worker *spare = NULL;
    wf_lock_acquire(&monitor->lock);
    wf_worker_set_stuck_locked(worker, false, is_blocked);
    *is_short = is_blocked && wf_workers_are_short_locked(runtime);
    if (is_blocked && worker->is_single) {
        wf_bias_drop(&worker->runq.bias);
    }
    if (*is_short && !wf_list_is_empty(&monitor->idle_spares)) {
        spare = wf_container_of(monitor->idle_spares.next, struct wf_worker, health.link);
        wf_spare_activate_locked(spare);
    }
    if (is_blocked) {
        wf_counter_add(&monitor->blocked, 1);
    }
    wf_lock_release(&monitor->lock);
    return spare;
}

void weft_block_begin(void)
{
    struct wf_worker *worker = wf_worker_self();
    if (worker == NULL || wf_load_relaxed(&worker->current) == NULL || /* relaxed: the owner's */
        worker->health.blocks++ > 0) {
        return;
    }
    weft_runtime *runtime = worker->runtime;
    /* relaxed: the owner compares it with itself */
    WF_RULE(wf_load_relaxed(&runtime->world_turn.worker) != worker,
            "weft_block_begin: the task has stopped the world");
    bool is_short = false;
    if (worker->io.has_unsubmitted) {
        wf_driver_submit(worker); /* the blocking call may wait for their results */
    }
    struct wf_worker *spare = set_blocked(worker, true, &is_short);
    if (spare != NULL) {
        (void)wf_parker_unpark(&spare->health.spare_parker);
    } else if (is_short) {
        (void)wf_parker_unpark(&runtime->monitor.parker);
    } else {
        wf_steal_handoff(worker);
    }
    wf_safe_enter(&runtime->world, &worker->safe);
}

void weft_block_end(void)
{
    struct wf_worker *worker = wf_worker_self();
    if (worker == NULL || worker->health.blocks == 0 || --worker->health.blocks > 0) {
        return;
    }
    bool is_short = false;
    (void)set_blocked(worker, false, &is_short);
    wf_worker_leave_safe(worker);
}
