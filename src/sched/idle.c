/* SPDX-License-Identifier: MIT */
/*
 * sched/idle.c - workers that have nothing to do, and how work finds one.
 *
 * The protocol, with S for a worker on its way to sleep and N for whoever queues work:
 *
 *   N1 queue the work                        S1 stop searching (if it did)
 *   N2 fence                                 S2 set its bit
 *   N3 somebody searches?  then done         S3 fence
 *   N4 claim a set bit, unpark that worker   S4 look at everything once more
 *                                            S5 sleep until unparked
 *
 * Of the two fences one comes first.  N2 first: S4 sees the work.  S3 first: N3 sees that S does
 * not search and N4 sees its bit.  Either way somebody acts.  If N3 sees another searcher, the same
 * holds between N and that one when it gives up.
 *
 * A notifier wakes one worker and only if none searches, so a burst of pushes wakes one; whoever
 * finds work as the last searcher notifies once more, so that sleepers wake one by one as long as
 * there is work for them.  At most half of the workers search: more would only meet each other.
 *
 * Claiming decides by the old value of the bit.  A worker that gives up its sleep (it found work,
 * or its deadline passed) clears its own bit in the same way; if a notifier was faster the worker
 * counts as a searcher already and takes the wake that is on its way.  Clearing without looking
 * would count one worker twice, and a searcher that does not exist would silence every notifier
 * for ever.
 *
 * A searcher may leave the queues alone for a while (steal.c has the reason).  Nobody is called as
 * long as it counts, so what comes from outside ends its pause; what those who work queue does not,
 * and waits at most until the deadline, if they do not take it themselves.  With G for the guest
 * and O for whoever comes from outside:
 *
 *   O1 queue the work                        G1 say that it heeds arrivals, once; fence
 *   O2 fence; does anybody heed?             G2 read how many there were, look at the queues
 *   O3 one arrival more, fence               G3 say that it pauses; fence
 *   O4 does anybody pause?  then wake it     G4 sleep while there were as many as in G2
 *
 * What O queued before G1 is seen in G2; else O3 comes before G2's read, and then O1 is seen too,
 * or after it, and then G4 does not sleep or O4 wakes it.
 *
 * The bits tell who sleeps with one instruction per 64 workers.  Rejected: a list of sleepers under
 * a lock (a notify would take it each time); waking by timeout, which only hides a lost wake-up.
 */
#include <errno.h>
#include <limits.h>

#include "sched/sched.h"

static uint64_t bit_of(unsigned worker)
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

void wf_idle_grow(struct wf_idle *idle, unsigned seats)
{
    WEFT_ASSERT(seats <= WF_WORKERS_MAX);
    /* relaxed: before the thread of the new worker starts, and its fences (S1) come after that */
    wf_store_relaxed(&idle->seats, seats);
}

bool wf_idle_begin_search(struct wf_idle *idle)
{
    /* relaxed: a limit that may be overstepped by as many as ask at once; nothing depends on it. */
    if (2 * wf_load_relaxed(&idle->searching) >= idle->workers) {
        return false;
    }
    (void)wf_fetch_add_relaxed(&idle->searching, 1); /* relaxed: the fences order (S1) */
    return true;
}

bool wf_idle_end_search(struct wf_idle *idle)
{
    /* (S2) release: the last to give up sees what those before it took into their queues, for which
     * they called nobody; its fence is the other end. */
    uint32_t before = wf_fetch_sub_release(&idle->searching, 1);
    WEFT_CHECK(before > 0); /* I2 */
    return before == 1;
}

/* [owner]  Takes its bit back; false: a notifier has claimed the worker. */
static bool withdraw(struct wf_idle *idle, unsigned worker)
{
    uint64_t bit = bit_of(worker);
    /* relaxed: who clears the bit is decided by the order of this cell alone. */
    return (wf_fetch_and_relaxed(&idle->asleep[worker / 64], ~bit) & bit) != 0;
}

#ifdef WF_PARK_TIMEOUT_NS
/* What is there this time may not be what was there the last time.  But each piece of work that
 * comes while nobody searches calls a worker that sleeps, and the caller does: so one of the looks
 * would have found nothing, or the wake. */
int wf_idle_park(struct wf_idle *idle, struct wf_parker *parker, struct wf_driver *driver,
                 wf_has_work_fn has_work, void *context, int64_t deadline_ns)
{
    unsigned suspicions = 0;
    for (;;) { /* Ends as without the looks, or with a wake-up that was lost. */
        int64_t wake_ns = wf_clock_now() + WF_PARK_TIMEOUT_NS;
        wake_ns = suspicions == 0 && deadline_ns < wake_ns ? deadline_ns : wake_ns;
        int rc = driver == NULL ? wf_parker_park(parker, wake_ns)
                                : wf_parker_park_in(parker, &driver->berth, wake_ns);
        if (rc == 0 || (driver != NULL && wf_clock_now() < wake_ns)) {
            return rc; /* woken, or the driver has news */
        }
        suspicions = wf_idle_searching(idle) == 0 && has_work(context) ? suspicions + 1 : 0;
        if (suspicions == WF_PARK_LOOKS) {
            (void)wf_fetch_add_relaxed(&idle->lost_wakeups, 1); /* relaxed: a number */
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
    WEFT_ASSERT(worker < wf_load_relaxed(&idle->seats));
    uint64_t bit = bit_of(worker);
    if (sleep->is_searching) {
        (void)wf_idle_end_search(idle);
    }
    WF_JITTER();
    uint64_t before = wf_fetch_or_relaxed(&idle->asleep[worker / 64], bit); /* relaxed: (S1) */
    WEFT_CHECK((before & bit) == 0);                                        /* I1 */
    wf_fence_seq_cst();                                                     /* (S1) */
    if (sleep->has_work(sleep->context) && withdraw(idle, worker)) {
        return false;
    }
    WF_JITTER();
    if (wf_idle_park(idle, sleep->parker, sleep->driver, sleep->has_work, sleep->context,
                     sleep->deadline_ns) == 0) {
        return true;
    }
    if (withdraw(idle, worker)) {
        return false;
    }
    /* Claimed at the last moment: the wake is certain, and must not be left for the next sleep. */
    WF_REACHED("idle.claimed_at_the_deadline");
    (void)wf_parker_park(sleep->parker, WF_FOREVER);
    return true;
}

int wf_idle_claim(struct wf_idle *idle)
{
    for (unsigned word = 0; word * 64 < wf_load_relaxed(&idle->seats); word++) {
        /* relaxed: the claim below decides. */
        uint64_t sleepers = wf_load_relaxed(&idle->asleep[word]);
        while (sleepers != 0) { /* each turn clears a bit that was read, ours or another's */
            uint64_t bit = sleepers & -sleepers;
            uint64_t before = wf_fetch_and_relaxed(&idle->asleep[word], ~bit);
            if ((before & bit) != 0) {
                (void)wf_fetch_add_relaxed(&idle->searching, 1); /* in the sleeper's name: I2 */
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
    WEFT_ASSERT(worker < wf_load_relaxed(&idle->seats));
    wf_fence_seq_cst(); /* (S1) */
    uint64_t bit = bit_of(worker);
    if ((wf_load_relaxed(&idle->asleep[worker / 64]) & bit) == 0) {
        return false;
    }
    if ((wf_fetch_and_relaxed(&idle->asleep[worker / 64], ~bit) & bit) == 0) {
        return false; /* another was faster: it is being woken */
    }
    (void)wf_fetch_add_relaxed(&idle->searching, 1); /* in the sleeper's name: I2 */
    return true;
}

int wf_idle_notify(struct wf_idle *idle)
{
    wf_fence_seq_cst(); /* (S1) */
    if (wf_load_relaxed(&idle->searching) > 0) {
        return -1;
    }
    return wf_idle_claim(idle);
}

/* ---- pauses -------------------------------------------------------------------------------- */

void wf_idle_heed(struct wf_idle *idle, bool is_on)
{
    if (is_on) {
        (void)wf_fetch_add_relaxed(&idle->heeding, 1); /* relaxed: the fence orders it */
        wf_fence_seq_cst();                            /* (S3) */
    } else {
        (void)wf_fetch_sub_relaxed(&idle->heeding, 1); /* relaxed: one too many is no harm */
    }
}

void wf_idle_arrive(struct wf_idle *idle)
{
    wf_fence_seq_cst(); /* (S3) */
    if (wf_load_relaxed(&idle->heeding) == 0) {
        return;
    }
    (void)wf_fetch_add_relaxed(&idle->arrivals, 1); /* relaxed: between two fences */
    wf_fence_seq_cst();                             /* (S3) */
    if (wf_load_relaxed(&idle->paused) != 0) {
        (void)wf_futex_wake(&idle->arrivals, INT_MAX);
    }
}

uint32_t wf_idle_arrivals(struct wf_idle *idle)
{
    return wf_load_acquire(&idle->arrivals); /* (S3) */
}

void wf_idle_pause(struct wf_idle *idle, uint32_t arrivals, int64_t deadline_ns)
{
    (void)wf_fetch_add_relaxed(&idle->paused, 1); /* relaxed: the fence orders it */
    wf_fence_seq_cst();                           /* (S3) */
    (void)wf_futex_wait(&idle->arrivals, arrivals, deadline_ns);
    (void)wf_fetch_sub_relaxed(&idle->paused, 1); /* relaxed: a wake too many is no harm */
}

unsigned wf_idle_searching(struct wf_idle *idle)
{
    return wf_load_relaxed(&idle->searching);
}

unsigned wf_idle_asleep(struct wf_idle *idle)
{
    unsigned count = 0;
    for (unsigned word = 0; word * 64 < wf_load_relaxed(&idle->seats); word++) {
        count += (unsigned)__builtin_popcountll(wf_load_relaxed(&idle->asleep[word]));
    }
    return count;
}
