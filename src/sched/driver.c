/* SPDX-License-Identifier: MIT */
/*
 * sched/driver.c - the driver: functions of a higher layer by which the scheduler waits for events.
 *
 * The scheduler knows nothing of descriptors.  It knows the leader: the parked worker that sleeps
 * until the next timer at most.  With a driver the leader sleeps in the driver, where events end
 * the sleep too.  So an event wakes an idle runtime in one step: the thread that it wakes also runs
 * the task.  Busy workers poll the driver every WF_DRIVER_POLL_NS, unless there is a leader.
 *
 * The driver is attached when the first task needs it.  The leader may sleep at its own parker then
 * (sched.V2):
 *
 *   attaching thread                       leader
 *   1  publishes the driver                1  sets its bit as a sleeper
 *   2  fence                               2  fence
 *   3  wakes the leader                    3  parks if no driver was attached since
 *   4  wakes one sleeping worker
 */
#include "sched/sched.h"

struct wf_driver *wf_driver_of(const weft_runtime *runtime)
{
    return wf_load_acquire(&runtime->driver); /* (sched.V2) */
}

bool wf_driver_attach(weft_runtime *runtime, struct wf_driver *driver)
{
    struct wf_driver *none = NULL;
    if (!wf_cas_release(&runtime->driver, &none, driver)) { /* (sched.V2) */
        return false;
    }
    wf_fence_seq_cst(); /* (sched.V2) */
    runtime->policy->wake_leader(runtime);
    runtime->policy->wake_any(runtime); /* there may have been no need for a leader so far */
    return true;
}

void wf_driver_maybe_poll(weft_runtime *runtime, struct wf_worker *worker, int64_t now_ns)
{
    struct wf_driver *driver = wf_driver_of(runtime);
    if (driver == NULL || wf_load_relaxed(&runtime->has_leader) != 0 || /* relaxed: a hint */
        now_ns - wf_load_relaxed(&driver->polled_ns) < WF_DRIVER_POLL_NS) {
        return;
    }
    wf_store_relaxed(&driver->polled_ns, now_ns); /* relaxed: two polls at once are harmless */
    if (worker != NULL) {
        worker->runq.spills_newest = true;
    }
    driver->poll(driver, worker);
    if (worker != NULL) {
        worker->runq.spills_newest = false;
    }
}

void wf_driver_submit(struct wf_worker *worker)
{
    struct wf_driver *driver = wf_driver_of(worker->runtime); /* not NULL: it set has_unsubmitted */
    driver->submit(driver, worker);
}

void wf_driver_submit_for(weft_runtime *runtime, struct wf_worker *worker)
{
    struct wf_driver *driver = wf_driver_of(runtime);
    if (driver != NULL && driver->submit != NULL) {
        driver->submit(driver, worker);
    }
}

void wf_driver_done(weft_runtime *runtime)
{
    struct wf_driver *driver = wf_driver_of(runtime);
    if (driver != NULL) {
        driver->free(driver);
    }
}

void wf_driver_unpark(weft_runtime *runtime, struct wf_parker *parker)
{
    if (wf_parker_unpark(parker)) {
        WF_REACHED("driver.unparked");
        struct wf_driver *driver = wf_driver_of(runtime); /* not NULL: the owner sleeps in it */
        driver->unpark(driver);
    }
}
