/* SPDX-License-Identifier: MIT */
/*
 * sched/driver.h - the driver, which waits for events on behalf of the scheduler: a part of
 * sched.h, see driver.c.
 */
#ifndef WF_SCHED_DRIVER_H
#define WF_SCHED_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/types.h>

#include "base/base.h"
#include "os/os.h"

struct wf_worker;

/* A driver.  A runtime has at most one; it exists from the first task that needs it until the
 * close.  The leader, or the control thread, sleeps in it; busy workers poll it between two
 * tasks. */
struct wf_driver {
    /* [leader, control thread]  Sleeps until an event, an `unpark` or the deadline; may return
     * spuriously.  Keeps the events for `dispatch`. */
    void (*park)(struct wf_driver *driver, int64_t deadline_ns);
    /* [any]  Ends a running `park`, or the next one. */
    void (*unpark)(struct wf_driver *driver);
    /* [leader, control thread; after `park`]  Wakes the tasks that wait for the events that `park`
     * has kept.  `worker` is the caller's; NULL: the control thread. */
    void (*dispatch)(struct wf_driver *driver, struct wf_worker *worker);
    /* [worker, control thread]  Fetches the events that are there now, without waiting, and wakes
     * the tasks that wait for them.  `worker` as for `dispatch`. */
    void (*poll)(struct wf_driver *driver, struct wf_worker *worker);
    /* [owner; monitor, for a stuck worker]  Gives the worker's unsubmitted I/O requests to the
     * kernel.  An owner calls it only if its `has_unsubmitted` is set.  May make tasks ready.
     * NULL: the driver never defers requests. */
    void (*submit)(struct wf_driver *driver, struct wf_worker *worker);
    /* [closer]  Frees the driver.  No thread of the runtime is left, and no other thread has pinned
     * it. */
    void (*free)(struct wf_driver *driver);
    WF_ATOMIC(int) io;            /* [any: write]  enum weft_io: the backend in use */
    WF_ATOMIC(uint64_t) events;   /* [any: add]  number of events so far */
    WF_ATOMIC(int64_t) polled_ns; /* [any: write]  time of the last poll */
};

/* [any, runtime pinned]  Gives the runtime a driver, which it then owns.  False: it has one
 * already, and the caller keeps this one. */
bool wf_driver_attach(weft_runtime *runtime, struct wf_driver *driver);
/* [any]  The driver of the runtime.  NULL: none yet. */
struct wf_driver *wf_driver_of(const weft_runtime *runtime);
/* [worker, control thread]  Polls the driver, if the last poll is WF_DRIVER_POLL_NS ago and there
 * is no leader. */
void wf_driver_maybe_poll(weft_runtime *runtime, struct wf_worker *worker, int64_t now_ns);
/* [owner]  Submits the worker's I/O requests.  `has_unsubmitted` must be set. */
void wf_driver_submit(struct wf_worker *worker);
/* [monitor]  Submits the I/O requests of a stuck worker. */
void wf_driver_submit_for(weft_runtime *runtime, struct wf_worker *worker);
/* [closer]  Frees the driver, if there is one. */
void wf_driver_done(weft_runtime *runtime);
/* [leader, control thread; owner of `parker`]  Sleeps in the driver.  0: woken; -ETIMEDOUT:
 * returned for another reason.  This is here, not in os, because os knows no driver. */
static inline int wf_driver_park(struct wf_driver *driver, struct wf_parker *parker,
                                 int64_t deadline_ns)
{
    if (!wf_parker_begin_away(parker)) {
        return 0;
    }
    WF_JITTER();
    driver->park(driver, deadline_ns);
    return wf_parker_end_away(parker);
}
/* [any]  Wakes the owner of the parker, whether it sleeps at the parker or in the driver. */
void wf_driver_unpark(weft_runtime *runtime, struct wf_parker *parker);

#endif
