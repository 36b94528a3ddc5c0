/* SPDX-License-Identifier: MIT */
/*
 * sched/idle.h - idle workers and how they are woken: a part of sched.h, see idle.c.
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
 * A worker is busy, searching (it has no work and checks the queues of all workers) or asleep.
 *
 * Invariants:
 *   I1  a set bit in `asleep` is that of a worker that has announced its sleep; no waker has
 *       claimed the worker since, and it has not given up
 *   I2  `searching` is the number of workers that search plus the number of workers that were
 *       claimed and have not yet returned from wf_idle_sleep
 *   I3  if work is queued and a bit is set, then a worker searches, or the submitter of the work
 *       has not finished wf_idle_notify, or the sleeper has not finished its second check
 *
 * I1 and I2 end when the closer unparks all workers, so that they leave their loops.
 */
struct wf_idle {
    unsigned workers; /* [const]  the configured number: at most half search */
    wf_atomic_u32
        workers_total; /* [monitor: write] [any: read]  with spares, up to WF_WORKERS_MAX */

    /* [any: add] */
    alignas(WF_CACHE_LINE) WF_ATOMIC(uint32_t) searching;

    /* [any: or, and]  Bit i % 64 of word i / 64: worker i is asleep. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(uint64_t) asleep[WF_IDLE_WORDS];

    WF_ATOMIC(uint64_t) lost_wakeups; /* [any: add]  see WF_PARK_TIMEOUT_NS */

    /* For searchers in steal backoff: see wf_idle_backoff_wait. */
    alignas(WF_CACHE_LINE)
        WF_ATOMIC(uint32_t) external_trackers; /* [any: add]  workers that may back off */
    WF_ATOMIC(uint32_t) backing_off;           /* [any: add]  workers that do */
    wf_atomic_u32 external_seq; /* [any: add]  a futex: external submissions, while tracked */
};

/* [opener]  No worker searches or sleeps.  -EINVAL: no workers, or more than WF_WORKERS_MAX. */
int wf_idle_init(struct wf_idle *idle, unsigned workers);

/* [monitor]  Sets the number of workers that exist, before the thread of a new one starts. */
void wf_idle_grow(struct wf_idle *idle, unsigned workers_total);

/* [owner]  Makes the worker a searcher.  False: half of the workers search already; the caller goes
 * to sleep, and the last searcher wakes it if there is more work. */
bool wf_idle_begin_search(struct wf_idle *idle);

/* [owner]  Stops searching.  True: it was the last searcher and must check all queues again,
 * because submitters have skipped the wake-up while it searched. */
bool wf_idle_end_search(struct wf_idle *idle);

/* [owner]  The second check: true if any queue has work for the worker.  Called after the worker
 * has set its bit and before it parks. */
typedef bool (*wf_has_work_fn)(void *context);

/* [owner, control thread]  Parks at the parker; if `driver` is not NULL, in the driver.  0: the
 * caller was unparked; -ETIMEDOUT: the park ended without an unpark.  Builds that search for lost
 * wake-ups (WF_PARK_TIMEOUT_NS) count a lost wake-up if work was queued for the whole time and no
 * thread unparked the caller. */
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
                          : wf_driver_park(driver, parker, deadline_ns);
}
#endif

/* Parameters of wf_idle_sleep. */
struct wf_sleep {
    struct wf_parker *parker; /* of the worker */
    struct wf_driver *driver; /* in which the leader waits for I/O; NULL: waits at the parker */
    wf_has_work_fn has_work;
    void *context; /* for has_work */
    int64_t deadline_ns;
    bool is_searching; /* the worker is a searcher when it calls */
};

/* [owner]  Sleeps until a waker claims the worker, until the deadline, or until the driver returns.
 * Does not sleep if has_work returns true.  True: the worker was unparked.  A waker claimed it, and
 * it is a searcher now; or the closer unparked it without a claim (workers_leave in runtime.c).
 * False: no thread unparked it, and it is not a searcher. */
bool wf_idle_sleep(struct wf_idle *idle, unsigned worker, const struct wf_sleep *sleep);

/* [any]  The submitter calls this after it has queued work.  Claims one sleeping worker, counts it
 * as searching and returns its index: the caller must unpark it.  -1: a searcher will find the
 * work, or no worker sleeps. */
int wf_idle_notify(struct wf_idle *idle);

/* [any]  Claims one sleeping worker, whether or not others search, and returns its index: the
 * caller must unpark it.  -1: no worker sleeps.  The caller has issued the fence (sched.S1). */
int wf_idle_claim(struct wf_idle *idle);

/* [any]  Claims this worker, for work that only it can take.  True: the caller must unpark it.
 * False: it is awake, or another waker has claimed it. */
bool wf_idle_claim_worker(struct wf_idle *idle, unsigned worker);

/* [any]  Ends the wait of every searcher that backs off.  The submitter of external work calls this
 * after it has queued the work and before it notifies. */
void wf_idle_external(struct wf_idle *idle);
/* [owner]  On: external submissions are counted, until the worker switches it off again. */
void wf_idle_track_external(struct wf_idle *idle, bool is_on);
/* [owner]  Number of external submissions counted so far.  Read before the queues are checked. */
uint32_t wf_idle_external_seq(struct wf_idle *idle);
/* [owner: a searcher that tracks external submissions]  Waits until the deadline, or until the
 * number of external submissions is no longer external_seq. */
void wf_idle_backoff_wait(struct wf_idle *idle, uint32_t external_seq, int64_t deadline_ns);

/* [any]  The number of searchers, and the number of sleepers.  Hints: either may have changed when
 * the function returns. */
unsigned wf_idle_searching(struct wf_idle *idle);
unsigned wf_idle_asleep(struct wf_idle *idle);

#endif
