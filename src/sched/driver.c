/* SPDX-License-Identifier: MIT */
/*
 * sched/driver.c - news from outside: how a layer above lends the scheduler its way to wait.
 *
 * The scheduler knows nothing of descriptors.  It knows that of those who have nothing to do one is
 * the watcher, who must not sleep for longer than until the next alarm; with a driver it sleeps in
 * the driver's berth, where events end the sleep too.  So an idle runtime is woken by an event in
 * one step, by the thread that will run the task.  Those who work look in passing, every
 * WF_DRIVER_LOOK_NS, unless the watcher is there.
 *
 * (V2) A driver is there from the first moment a task needs it; whoever sleeps then sleeps
 * elsewhere:
 *
 *   attach:   publishes the driver; fence, calls the watcher; fence, calls one more
 *   watcher:  its bit, fence, looks once more whether there is a driver that it did not know of
 */
#include "sched/sched.h"

struct wf_driver *wf_driver_of(const weft_runtime *runtime)
{
    return wf_load_acquire(&runtime->driver); /* (V2) the driver, whole */
}

bool wf_driver_attach(weft_runtime *runtime, struct wf_driver *driver)
{
    struct wf_driver *none = NULL;
    if (!wf_cas_release(&runtime->driver, &none, driver)) { /* (V2) */
        return false;
    }
    runtime->policy->hurry(runtime); /* both begin with the fence */
    runtime->policy->rouse(runtime); /* there may have been nothing to watch until now */
    return true;
}

void wf_driver_pass(weft_runtime *runtime, struct wf_worker *worker, int64_t now_ns)
{
    struct wf_driver *driver = wf_driver_of(runtime);
    if (driver == NULL || wf_load_relaxed(&runtime->is_watched) != 0 || /* relaxed: a hint */
        now_ns - wf_load_relaxed(&driver->looked_ns) < WF_DRIVER_LOOK_NS) {
        return;
    }
    wf_store_relaxed(&driver->looked_ns, now_ns); /* relaxed: two who look are no harm */
    if (worker != NULL) {
        worker->is_looking = true;
    }
    driver->look(driver, worker);
    if (worker != NULL) {
        worker->is_looking = false;
    }
}

void wf_driver_flush(struct wf_worker *worker)
{
    struct wf_driver *driver = wf_driver_of(worker->runtime); /* it is there: it set the mark */
    driver->flush(driver, worker);
}

void wf_driver_relieve(weft_runtime *runtime, struct wf_worker *worker)
{
    struct wf_driver *driver = wf_driver_of(runtime);
    if (driver != NULL && driver->flush != NULL) {
        driver->flush(driver, worker);
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
        WF_REACHED("driver.called");
        struct wf_driver *driver = wf_driver_of(runtime); /* it is there: somebody sleeps in it */
        driver->berth.call(&driver->berth);
    }
}
