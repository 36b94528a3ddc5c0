/* SPDX-License-Identifier: MIT */
/*
 * os/park.c - park and unpark of one thread.  An unpark before the park is kept.
 *
 *   EMPTY    --park: CAS-->           PARKED    the owner sleeps on the futex
 *   EMPTY    --begin_away: CAS-->     AWAY      the owner sleeps in a system call of its own
 *   any      --unpark: exchange-->    NOTIFIED  found PARKED: unpark wakes the futex;
 *                                               AWAY: the caller of unpark ends the system call
 *   NOTIFIED --park: CAS, exchange--> EMPTY     the notification is consumed; park returns
 *
 * Notifications are not counted: two unparks before a park have the effect of one.  The users
 * check their condition again after each return.
 *
 * A waker may act to end the system call of an AWAY owner after the owner has returned from that
 * call.  Then the owner's next system call ends early, without a wake-up; no wake-up is lost.
 *
 * (os.P1) The exchange of unpark synchronises with the park that it ends: the woken thread sees
 * what the waker wrote before.
 */
#include <errno.h>

#include "os/os.h"

enum { EMPTY, PARKED, NOTIFIED, AWAY };

void wf_parker_init(struct wf_parker *parker)
{
    wf_atomic_init(&parker->word, EMPTY);
}

/* [owner]  Consumes a pending notification; false: there is none. */
static bool park_consume(struct wf_parker *parker)
{
    uint32_t found = NOTIFIED;
    return wf_cas_acquire(&parker->word, &found, EMPTY); /* (os.P1) acquire */
}

/* [owner]  Leaves PARKED or AWAY.  0: an unpark came in the meantime; else -ETIMEDOUT. */
static int park_end(struct wf_parker *parker)
{
    /* (os.P1) acquire: if an unpark came. */
    bool is_woken = wf_exchange_acquire(&parker->word, EMPTY) == NOTIFIED;
    if (is_woken) {
        WF_REACHED("park.woken_at_the_deadline");
    }
    return is_woken ? 0 : -ETIMEDOUT;
}

/* [owner]  Enters PARKED or AWAY.  False: a notification was pending; it is consumed. */
static bool park_begin(struct wf_parker *parker, uint32_t state)
{
    uint32_t found = EMPTY;
    /* relaxed: publishes nothing; a waker that finds the state only wakes the owner. */
    if (wf_cas_relaxed(&parker->word, &found, state)) {
        return true;
    }
    bool is_consumed = park_consume(parker);
    WEFT_CHECK(is_consumed); /* only the owner parks, so the state was NOTIFIED */
    return false;
}

bool wf_parker_begin_away(struct wf_parker *parker)
{
    return park_begin(parker, AWAY);
}

int wf_parker_end_away(struct wf_parker *parker)
{
    return park_end(parker);
}

int wf_parker_park(struct wf_parker *parker, int64_t deadline_ns)
{
    if (!park_begin(parker, PARKED)) {
        return 0;
    }
    for (;;) { /* Ends with an unpark or the deadline; futex waits may return spuriously. */
        WF_JITTER();
        int rc = wf_futex_wait(&parker->word, PARKED, deadline_ns);
        if (park_consume(parker)) {
            return 0;
        }
        if (rc == -ETIMEDOUT) {
            return park_end(parker);
        }
    }
}

bool wf_parker_unpark(struct wf_parker *parker)
{
    const uint32_t found = wf_exchange_release(&parker->word, NOTIFIED); /* (os.P1) release */
    if (found == PARKED) {
        (void)wf_futex_wake(&parker->word, 1); /* wakes none if the owner has left the futex */
    }
    return found == AWAY;
}
