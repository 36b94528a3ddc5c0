/* SPDX-License-Identifier: MIT */
/*
 * os/park.c - one thread sleeps until another wakes it; a wake that comes first is kept.
 *
 *   EMPTY   --park: CAS-->        PARKED     sleeps on the futex
 *   any     --unpark: exchange--> NOTIFIED   found PARKED: wakes it
 *   NOTIFIED --park: store-->     EMPTY      the wake is used up; park returns
 *
 * Wakes do not add up: two unparks before a park are one.  That is what its users want, who look
 * at the real reason again after each return.
 *
 * (P1) unpark's exchange synchronises with the park that it ends: what the waker wrote before is
 * seen by the thread that it woke.
 */
#include <errno.h>

#include "os/os.h"

enum { EMPTY, PARKED, NOTIFIED };

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

/* [owner]  The deadline passed: leaves PARKED unless a wake came at the last moment. */
static int give_up(struct wf_parker *parker)
{
    /* acquire: P1, if it did come. */
    bool is_woken = wf_exchange_acquire(&parker->word, EMPTY) == NOTIFIED;
    if (is_woken) {
        WF_REACHED("park.woken_at_the_deadline");
    }
    return is_woken ? 0 : -ETIMEDOUT;
}

int wf_parker_park(struct wf_parker *parker, int64_t deadline_ns)
{
    uint32_t found = EMPTY;
    /* relaxed: publishes nothing; a waker that finds PARKED only wakes. */
    if (!wf_cas_relaxed(&parker->word, &found, PARKED)) {
        bool is_noticed = take_notice(parker);
        WEFT_CHECK(is_noticed); /* only NOTIFIED can have been in the way: one owner */
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

void wf_parker_unpark(struct wf_parker *parker)
{
    /* (P1) release. */
    if (wf_exchange_release(&parker->word, NOTIFIED) == PARKED) {
        (void)wf_futex_wake(&parker->word, 1); /* nobody there: it is on its way back already */
    }
}
