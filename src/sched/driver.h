/* SPDX-License-Identifier: MIT */
/*
 * sched/driver.h - who brings news from outside: a part of sched.h, see driver.c.
 */
#ifndef WF_SCHED_DRIVER_H
#define WF_SCHED_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/types.h>

#include "base/base.h"
#include "os/os.h"

struct wf_worker;

/* What a runtime has one of at most, from when the first task needs it to the end.  The watcher
 * sleeps in its berth; others look at it in passing. */
struct wf_driver {
    struct wf_berth berth;
    /* [watcher, after it slept in the berth]  Wakes tasks for what the berth has found.  `worker`
     * is the caller's; NULL: the control thread. */
    void (*gather)(struct wf_driver *driver, struct wf_worker *worker);
    /* [worker, control thread]  The same for what is there now, without waiting. */
    void (*look)(struct wf_driver *driver, struct wf_worker *worker);
    /* [owner]  Has something been left to be done when the worker has nothing else to do?  Called
     * only if its `is_owing` says so, and may make tasks ready.  NULL: nothing ever is. */
    void (*flush)(struct wf_driver *driver, struct wf_worker *worker);
    /* [closer]  No thread of the runtime and no stranger is left: frees it. */
    void (*free)(struct wf_driver *driver);
    WF_ATOMIC(int) io;            /* [any: write]  enum weft_io: what it is by now */
    WF_ATOMIC(uint64_t) events;   /* [any: add]  that it brought */
    WF_ATOMIC(int64_t) looked_ns; /* [any: write]  when somebody last looked */
};

/* [any, inside the pool]  Gives the runtime a driver; false: it has one already. */
bool wf_driver_attach(weft_runtime *runtime, struct wf_driver *driver);
/* [any]  NULL: none. */
struct wf_driver *wf_driver_of(const weft_runtime *runtime);
/* [worker, control thread]  Looks, if nobody did for a while and nobody sleeps there. */
void wf_driver_pass(weft_runtime *runtime, struct wf_worker *worker, int64_t now_ns);
/* [owner of `worker`, which owes]  Does what the driver has left to be done. */
void wf_driver_flush(struct wf_worker *worker);
/* [monitor]  The worker is stuck: does for it what it owes. */
void wf_driver_relieve(weft_runtime *runtime, struct wf_worker *worker);
/* [closer] */
void wf_driver_done(weft_runtime *runtime);
/* [any]  Wakes a thread of the runtime, wherever it sleeps. */
void wf_driver_unpark(weft_runtime *runtime, struct wf_parker *parker);

#endif
