/* SPDX-License-Identifier: MIT */
/*
 * sched/idle.c - idle workers: every piece of queued work finds a worker, and no wake-up is lost.
 *
 * A worker is busy, searching (it has no work and checks the queues of all workers) or asleep
 * (parked, its bit in `asleep` set).  The actors:
 *
 *   submitter      any thread that has queued work
 *   searcher       a worker that `searching` counts
 *   last searcher  the searcher that takes `searching` from 1 to 0
 *   sleeper        a worker inside wf_idle_sleep
 *   waker          a thread that has claimed a sleeper and must unpark it
 *
 * Submitter against sleeper (sched.S1):
 *
 *   submitter                                sleeper
 *   1 queue the work                         1 stop searching, if it searched
 *   2 fence                                  2 set its bit in `asleep`
 *   3 a worker searches: done                3 fence
 *   4 else claim a sleeper and unpark it     4 check all queues again; work: clear the bit, done
 *                                            5 park until unparked
 *
 * Invariant: when both are done, the work is taken, or a worker is awake and will take it (I3).
 * One of the two fences comes first.  If it is the submitter's, the sleeper sees the work in its
 * step 4.  If it is the sleeper's, the submitter sees in step 3 that the sleeper does not search,
 * and in step 4 its bit.  If the submitter finds another searcher in step 3, that searcher has not
 * stopped yet: when it goes to sleep the same argument holds for it, and when it finds work and is
 * the last one, it notifies.
 *
 * Throttling.  A submitter wakes one worker, and only while no worker searches, so a burst of
 * submissions wakes one.  The last searcher that finds work notifies once more.  So sleepers wake
 * one after the other as long as there is work for them.  At most half of the workers search: more
 * would only contend with each other for the same queues.
 *
 * Claiming.  The thread whose fetch_and clears the bit has claimed the worker; the old value
 * decides.  A sleeper that gives up (it found work, or its deadline passed) clears its own bit in
 * the same way.  If a waker was faster, the sleeper already counts as a searcher and must consume
 * the unpark that is on its way.  A sleeper that ignored the old value would be counted twice, and
 * a searcher that does not exist would suppress every wake-up from then on.
 *
 * Backoff.  A searcher in steal backoff (steal_backoff.c) leaves the queues alone for a while.  It
 * still counts as a searcher, so submitters wake no other worker.  Therefore an external submission
 * ends its wait.  Work queued by running workers does not: they take it themselves, or it waits
 * until the searcher's deadline.  External submitter against searcher (sched.S3):
 *
 *   external submitter                       searcher
 *   1 queue the work                         1 add 1 to external_trackers, once; fence
 *   2 fence; no trackers: done               2 read external_seq, then check the queues
 *   3 add 1 to external_seq; fence           3 add 1 to backing_off; fence
 *   4 backing_off is not 0: wake the futex   4 futex wait while external_seq is the value of step 2
 *
 * Invariant: the searcher sees the work in step 2 or does not sleep past step 4 of the submitter.
 * If the submitter's first fence comes before the searcher's, the searcher sees the work in step 2.
 * Else the submitter sees the tracker and takes step 3.  If the searcher reads the new
 * external_seq, its check in step 2 sees the work, too.  If it reads the old one, its futex wait
 * returns at once, or the submitter sees backing_off in step 4 and wakes it.
 *
 * What wakes a parked worker in the steal policy.  Every waker claims it, except the kernel and the
 * closer:
 *
 *   a push into a run queue that returns NOTIFY    wf_steal_notify, by follow_up (ready.c)
 *   a refill or a rotation of a run queue          wf_steal_notify, by wf_global_take
 *   exposed forks                                  wf_steal_notify, by expose_oldest (fork.c)
 *   the last searcher, if it stops and sees work   wf_steal_notify, by stop_search (steal.c)
 *   a push into the queue global, high or low      wf_steal_notify_external, by steal_ready
 *   tasks of a spare that parks                    wf_steal_notify_external, by spare_drain
 *   tasks of a stuck worker                        wf_steal_notify_external, by drain_stuck
 *   tasks of a worker that is about to block       wf_steal_notify_external, by wf_steal_handoff
 *   a task in the worker's pinned inbox            wf_idle_claim_worker, by ready_pinned
 *   a worker that needs a leader                   wf_leader_summon
 *   a timer before the end of the leader's sleep   wf_leader_wake, by timers_publish
 *   a new driver                                   wf_leader_wake, wf_leader_wake_any, by
 *                                                  wf_driver_attach
 *   a request for a quiescence report              wf_leader_wake_any, by wf_quiescence_request
 *   the monitor: a stuck worker, and no leader     wf_leader_repair, by replace_leader
 *   the monitor: a spare too many                  steal_recall_spare, by recall_spare
 *   the monitor: a spare that did not start        wf_leader_wake_any, by start_spare
 *   the kernel: the leader's deadline, or an event of the driver
 *   the closer: the workers must leave             workers_leave (runtime.c)
 *
 * A worker also waits at other places.  While the world is stopped it waits at safe.parker, until
 * wf_world_start; in steal backoff in wf_idle_backoff_wait, until wf_idle_external or its deadline;
 * as an idle spare at spare_parker, until wf_spare_unpark, weft_block_begin, the monitor
 * (start_or_unpark_spare) or the closer.  In the reactor policy the control thread and the
 * closer unpark the workers.
 *
 * tests/model/model_idle.c runs both protocols in every order.
 *
 * A bitmap gives 64 sleepers with one load.  Rejected: a list of sleepers under a lock (each notify
 * would take the lock); a timeout for every park, which only hides a lost wake-up.
 */
#include <errno.h>
#include <limits.h>

#include "sched/sched.h"

static uint64_t idle_bit(unsigned worker)
{
    return UINT64_C(1) << (worker % 64);
}

int wf_idle_init(struct wf_idle *idle, unsigned workers)
{
    if (workers == 0 || workers > WF_WORKERS_MAX) {
        return -EINVAL;
    }
    *idle = (struct wf_idle){.workers = workers};
    wf_idle_grow(idle, workers);
    return 0;
}

void wf_idle_grow(struct wf_idle *idle, unsigned workers_total)
{
    WEFT_ASSERT(workers_total <= WF_WORKERS_MAX);
    /* relaxed: the thread of the new worker starts after this, and its fences (sched.S1) come later
     * still */
    wf_store_relaxed(&idle->workers_total, workers_total);
}

bool wf_idle_begin_search(struct wf_idle *idle)
{
    /* relaxed: the limit is no invariant; workers that begin at the same time may exceed it. */
    if (2 * wf_load_relaxed(&idle->searching) >= idle->workers) {
        return false;
    }
    (void)wf_fetch_add_relaxed(&idle->searching, 1); /* relaxed: the fences order (sched.S1) */
    return true;
}

bool wf_idle_end_search(struct wf_idle *idle)
{
    /* (sched.S2) release: a searcher that is not the last notifies no worker of the tasks that it
     * stole into its own queue.  The last searcher must see these tasks: its fence pairs with this.
     */
    uint32_t before = wf_fetch_sub_release(&idle->searching, 1);
    WEFT_CHECK(before > 0); /* I2 */
    return before == 1;
}

/* [owner]  Clears the bit of the calling sleeper.  False: a waker has claimed the worker. */
static bool clear_own_bit(struct wf_idle *idle, unsigned worker)
{
    uint64_t bit = idle_bit(worker);
    /* relaxed: the modification order of this word alone decides which thread clears the bit. */
    return (wf_fetch_and_relaxed(&idle->asleep[worker / 64], ~bit) & bit) != 0;
}

#ifdef WF_PARK_TIMEOUT_NS
/* The work found by one check need not be the work found by the check before.  But every submission
 * while no worker searches claims a sleeper, and the caller sleeps.  So WF_PARK_RECHECKS checks in
 * a row that find work, no searcher and no unpark prove a lost wake-up. */
int wf_idle_park(struct wf_idle *idle, struct wf_parker *parker, struct wf_driver *driver,
                 wf_has_work_fn has_work, void *context, int64_t deadline_ns)
{
    unsigned suspicions = 0;
    for (;;) { /* Ends with the unpark, the deadline, or a lost wake-up. */
        int64_t wake_ns = wf_clock_now() + WF_PARK_TIMEOUT_NS;
        wake_ns = suspicions == 0 && deadline_ns < wake_ns ? deadline_ns : wake_ns;
        int rc = driver == NULL ? wf_parker_park(parker, wake_ns)
                                : wf_driver_park(driver, parker, wake_ns);
        if (rc == 0 || (driver != NULL && wf_clock_now() < wake_ns)) {
            return rc; /* unparked, or the driver returned early: it has events */
        }
        suspicions = wf_idle_searching(idle) == 0 && has_work(context) ? suspicions + 1 : 0;
        if (suspicions == WF_PARK_RECHECKS) {
            (void)wf_fetch_add_relaxed(&idle->lost_wakeups, 1); /* relaxed: a statistic */
            return -ETIMEDOUT;
        }
        if (suspicions == 0 && wf_clock_now() >= deadline_ns) {
            return -ETIMEDOUT;
        }
    }
}
#endif

bool wf_idle_sleep(struct wf_idle *idle, unsigned worker, const struct wf_sleep *sleep)
{
    WEFT_ASSERT(worker < wf_load_relaxed(&idle->workers_total));
    uint64_t bit = idle_bit(worker);
    if (sleep->is_searching) {
        (void)wf_idle_end_search(idle);
    }
    WF_JITTER();
    /* (sched.S4) release: the memory of the worker, which may be a new spare. */
    uint64_t before = wf_fetch_or_release(&idle->asleep[worker / 64], bit);
    WEFT_CHECK((before & bit) == 0); /* I1 */
    wf_fence_seq_cst();              /* (sched.S1, sched.V2, sched.A2) */
    /* If there is work and the bit is cleared already, a waker has claimed the worker: the waker's
     * unpark ends the park below. */
    if (sleep->has_work(sleep->context) && clear_own_bit(idle, worker)) {
        return false;
    }
    WF_JITTER();
    if (wf_idle_park(idle, sleep->parker, sleep->driver, sleep->has_work, sleep->context,
                     sleep->deadline_ns) == 0) {
        return true;
    }
    if (clear_own_bit(idle, worker)) {
        return false;
    }
    /* A waker claimed the worker after the park had ended.  Its unpark will come and must be
     * consumed here: the next park would return at once. */
    WF_REACHED("idle.claimed_at_the_deadline");
    (void)wf_parker_park(sleep->parker, WF_FOREVER);
    return true;
}

int wf_idle_claim(struct wf_idle *idle)
{
    for (unsigned word = 0; word * 64 < wf_load_relaxed(&idle->workers_total); word++) {
        /* relaxed: the claim below decides. */
        uint64_t sleepers = wf_load_relaxed(&idle->asleep[word]);
        while (sleepers != 0) { /* ends: each iteration removes one bit of `sleepers` */
            uint64_t bit = sleepers & -sleepers;
            /* (sched.S4) acquire: the caller unparks the worker. */
            uint64_t before = wf_fetch_and_acquire(&idle->asleep[word], ~bit);
            if ((before & bit) != 0) {
                (void)wf_fetch_add_relaxed(&idle->searching, 1); /* for the sleeper: I2 */
                return (int)(word * 64 + (unsigned)__builtin_ctzll(bit));
            }
            WF_REACHED("idle.claim_lost");
            sleepers = before & (sleepers - 1);
        }
    }
    return -1;
}

bool wf_idle_claim_worker(struct wf_idle *idle, unsigned worker)
{
    WEFT_ASSERT(worker < wf_load_relaxed(&idle->workers_total));
    wf_fence_seq_cst(); /* (sched.S1) */
    uint64_t bit = idle_bit(worker);
    if ((wf_load_relaxed(&idle->asleep[worker / 64]) & bit) == 0) {
        return false;
    }
    /* (sched.S4) acquire: the caller unparks the worker. */
    if ((wf_fetch_and_acquire(&idle->asleep[worker / 64], ~bit) & bit) == 0) {
        return false; /* another waker was faster and will unpark it */
    }
    (void)wf_fetch_add_relaxed(&idle->searching, 1); /* for the sleeper: I2 */
    return true;
}

int wf_idle_notify(struct wf_idle *idle)
{
    wf_fence_seq_cst(); /* (sched.S1) */
    if (wf_load_relaxed(&idle->searching) > 0) {
        return -1;
    }
    return wf_idle_claim(idle);
}

/* ---- backoff ------------------------------------------------------------------------------- */

void wf_idle_track_external(struct wf_idle *idle, bool is_on)
{
    if (is_on) {
        (void)wf_fetch_add_relaxed(&idle->external_trackers, 1); /* relaxed: the fence orders it */
        wf_fence_seq_cst();                                      /* (sched.S3) */
    } else {
        (void)wf_fetch_sub_relaxed(
            &idle->external_trackers,
            1); /* relaxed: a stale value only costs a submitter an addition */
    }
}

void wf_idle_external(struct wf_idle *idle)
{
    wf_fence_seq_cst(); /* (sched.S3) */
    if (wf_load_relaxed(&idle->external_trackers) == 0) {
        return;
    }
    (void)wf_fetch_add_relaxed(&idle->external_seq, 1); /* relaxed: between two fences */
    wf_fence_seq_cst();                                 /* (sched.S3) */
    if (wf_load_relaxed(&idle->backing_off) != 0) {
        (void)wf_futex_wake(&idle->external_seq, INT_MAX);
    }
}

uint32_t wf_idle_external_seq(struct wf_idle *idle)
{
    return wf_load_acquire(&idle->external_seq); /* (sched.S3) */
}

void wf_idle_backoff_wait(struct wf_idle *idle, uint32_t external_seq, int64_t deadline_ns)
{
    (void)wf_fetch_add_relaxed(&idle->backing_off, 1); /* relaxed: the fence orders it */
    wf_fence_seq_cst();                                /* (sched.S3) */
    (void)wf_futex_wait(&idle->external_seq, external_seq, deadline_ns);
    (void)wf_fetch_sub_relaxed(&idle->backing_off, 1); /* relaxed: a spurious wake is harmless */
}

unsigned wf_idle_searching(struct wf_idle *idle)
{
    return wf_load_relaxed(&idle->searching);
}

unsigned wf_idle_asleep(struct wf_idle *idle)
{
    unsigned count = 0;
    for (unsigned word = 0; word * 64 < wf_load_relaxed(&idle->workers_total); word++) {
        count += (unsigned)__builtin_popcountll(wf_load_relaxed(&idle->asleep[word]));
    }
    return count;
}
