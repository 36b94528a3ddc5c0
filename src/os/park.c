/* SPDX-License-Identifier: MIT */
/*
 * os/park.c - one thread sleeps until another wakes it; a wake that comes first is kept.
 *
 *   EMPTY   --park: CAS-->        PARKED     sleeps on the futex
 *   EMPTY   --park_in: CAS-->     AWAY       sleeps in a berth
 *   any     --unpark: exchange--> NOTIFIED   found PARKED: wakes it; AWAY: the caller has to
 *   NOTIFIED --park: store-->     EMPTY      the wake is used up; park returns
 *
 * Wakes do not add up: two unparks before a park are one.  That is what its users want, who look
 * at the real reason again after each return.
 *
 * A call that comes when its sleeper has left the berth already ends the next sleep there for no
 * reason; none is lost, because a berth keeps it.
 *
 * (P1) unpark's exchange synchronises with the park that it ends: what the waker wrote before is
 * seen by the thread that it woke.
 */
#include <errno.h>

#include "os/os.h"

enum { EMPTY, PARKED, NOTIFIED, AWAY };

void wf_parker_init(struct wf_parker *parker)
{
    wf_atomic_init(&parker->word, EMPTY);
}

/* [owner]  True when a wake was there; it is used up then. */
static bool take_notice(struct wf_parker *parker)
{
    uint32_t found = NOTIFIED;
    return wf_cas_acquire(&parker->word, &found, EMPTY); /* P1 */
}

/* [owner]  Leaves PARKED or AWAY, unless a wake came at the last moment. */
static int give_up(struct wf_parker *parker)
{
    /* acquire: P1, if it did come. */
    bool is_woken = wf_exchange_acquire(&parker->word, EMPTY) == NOTIFIED;
    if (is_woken) {
        WF_REACHED("park.woken_at_the_deadline");
    }
    return is_woken ? 0 : -ETIMEDOUT;
}

/* [owner]  False: a wake was there already, and is used up. */
static bool begin(struct wf_parker *parker, uint32_t how)
{
    uint32_t found = EMPTY;
    /* relaxed: publishes nothing; a waker that finds it only wakes. */
    if (wf_cas_relaxed(&parker->word, &found, how)) {
        return true;
    }
    bool is_noticed = take_notice(parker);
    WEFT_CHECK(is_noticed); /* only NOTIFIED can have been in the way: one owner */
    return false;
}

int wf_parker_park_in(struct wf_parker *parker, struct wf_berth *berth, int64_t deadline_ns)
{
    if (!begin(parker, AWAY)) {
        return 0;
    }
    WF_JITTER();
    berth->wait(berth, deadline_ns);
    return give_up(parker);
}

int wf_parker_park(struct wf_parker *parker, int64_t deadline_ns)
{
    if (!begin(parker, PARKED)) {
        return 0;
    }
    for (;;) { /* Ends by a wake or the deadline; a futex may return for no reason in between. */
        WF_JITTER();
        int rc = wf_futex_wait(&parker->word, PARKED, deadline_ns);
        if (take_notice(parker)) {
            return 0;
        }
        if (rc == -ETIMEDOUT) {
            return give_up(parker);
        }
    }
}

bool wf_parker_unpark(struct wf_parker *parker)
{
    const uint32_t found = wf_exchange_release(&parker->word, NOTIFIED); /* (P1) release */
    if (found == PARKED) {
        (void)wf_futex_wake(&parker->word, 1); /* nobody there: it is on its way back already */
    }
    return found == AWAY;
}
