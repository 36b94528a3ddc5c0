/* SPDX-License-Identifier: MIT */
/*
 * sched/idle.h - workers that have nothing to do: a part of sched.h, see idle.c.
 */
#ifndef WF_SCHED_IDLE_H
#define WF_SCHED_IDLE_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "os/os.h"
#include "sched/driver.h"

/* Words of the bitmap of sleeping workers. */
#define WF_IDLE_WORDS ((WF_WORKERS_MAX + 63u) / 64u)

/*
 * A worker is busy, searching (it has no work and looks for some) or asleep.  See idle.c.
 *
 * Invariants:
 *   I1  a set bit is a worker that announced its sleep and was not claimed since
 *   I2  searching counts the workers that search, and those that were claimed and not yet woke
 *   I3  work was queued and a worker's bit is set => somebody searches, or the worker that queued
 *       it has not finished its notify, or the sleeper has not finished its second look
 */
struct wf_idle {
    unsigned workers;    /* [const]  that are to work at once: half of them may search */
    wf_atomic_u32 seats; /* [monitor: write] [any: read]  that there are, up to WF_WORKERS_MAX */

    /* [any: add] */
    alignas(WF_CACHE_LINE) WF_ATOMIC(uint32_t) searching;

    /* [any: or, and]  bit i of word i / 64: worker i sleeps. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(uint64_t) asleep[WF_IDLE_WORDS];

    WF_ATOMIC(uint64_t) lost_wakeups; /* [any: add]  see WF_PARK_TIMEOUT_NS */

    /* See wf_idle_pause. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(uint32_t) heeding; /* [any: add]  workers that may pause */
    WF_ATOMIC(uint32_t) paused;                         /* [any: add]  workers that do */
    wf_atomic_u32 arrivals; /* [any: add]  a futex: what came while somebody heeded it */
};

/* -EINVAL: no workers, or more than WF_WORKERS_MAX. */
int wf_idle_init(struct wf_idle *idle, unsigned workers);

/* [monitor]  There are more of them from now on. */
void wf_idle_grow(struct wf_idle *idle, unsigned seats);

/* [owner]  Asks to search; false when half of the workers do already.  Who is refused goes to
 * sleep: those that search will call it. */
bool wf_idle_begin_search(struct wf_idle *idle);

/* [owner]  Stops to search, having found work.  True: it was the last, and must notify, because
 * what woke it may have been more than one piece of work. */
bool wf_idle_end_search(struct wf_idle *idle);

/* Looks at everything that could be work for the worker; called between announcement and sleep. */
typedef bool (*wf_has_work_fn)(void *context);

/* [owner]  As wf_parker_park, or with a driver as wf_parker_park_in; where the build looks for lost
 * wake-ups it counts one if there was work all the time and nobody came. */
#ifdef WF_PARK_TIMEOUT_NS
int wf_idle_park(struct wf_idle *idle, struct wf_parker *parker, struct wf_driver *driver,
                 wf_has_work_fn has_work, void *context, int64_t deadline_ns);
#else
static inline int wf_idle_park(struct wf_idle *idle, struct wf_parker *parker,
                               struct wf_driver *driver, wf_has_work_fn has_work, void *context,
                               int64_t deadline_ns)
{
    (void)idle;
    (void)has_work;
    (void)context;
    return driver == NULL ? wf_parker_park(parker, deadline_ns)
                          : wf_parker_park_in(parker, &driver->berth, deadline_ns);
}
#endif

/* How a worker sleeps. */
struct wf_sleep {
    struct wf_parker *parker;
    struct wf_driver *driver; /* in whose berth; NULL: at the parker */
    wf_has_work_fn has_work;
    void *context;
    int64_t deadline_ns;
    bool is_searching; /* it searched before */
};

/* [owner]  Sleeps until claimed by a notifier, until the deadline, or until the driver has news;
 * does not sleep if has_work says so.  True: it comes back as a searcher. */
bool wf_idle_sleep(struct wf_idle *idle, unsigned worker, const struct wf_sleep *sleep);

/* [any]  After work was queued.  Gives the worker to unpark, which is claimed and counts as
 * searching from now on; -1: nobody sleeps, or a searcher will find it. */
int wf_idle_notify(struct wf_idle *idle);

/* [any]  Claims any sleeping worker, whether or not others search; -1: nobody sleeps. */
int wf_idle_claim(struct wf_idle *idle);

/* [any]  Claims this worker if it sleeps: then the caller must unpark it.  After something was
 * queued that only this worker can take. */
bool wf_idle_claim_worker(struct wf_idle *idle, unsigned worker);

/* [any]  Something was queued that does not come from those who work: ends every pause.  Before the
 * notify. */
void wf_idle_arrive(struct wf_idle *idle);
/* [owner]  From now on, until it is off again, arrivals are counted for it. */
void wf_idle_heed(struct wf_idle *idle, bool is_on);
/* [owner]  How many there were; to be asked before it looks at the queues. */
uint32_t wf_idle_arrivals(struct wf_idle *idle);
/* [owner, searching, heeding]  Leaves the queues alone until the deadline, or until there are more
 * arrivals than these. */
void wf_idle_pause(struct wf_idle *idle, uint32_t arrivals, int64_t deadline_ns);

/* [any]  Hints. */
unsigned wf_idle_searching(struct wf_idle *idle);
unsigned wf_idle_asleep(struct wf_idle *idle);

#endif
