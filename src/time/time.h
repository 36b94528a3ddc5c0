/* SPDX-License-Identifier: MIT */
/*
 * time/time.h - timers and the timer wheel.
 *
 * Promises:      a timer never fires before its deadline.  It fires at the first wf_wheel_advance
 *                after the tick in which the deadline lies.  Arm and disarm are O(1).
 * Must not know: locks of its users, I/O, child processes.
 *
 *   tick      the unit of time of a wheel: WF_WHEEL_TICK_NS
 *   timer     a deadline and its position in a wheel; its user embeds it in an object
 *   wheel     the timers of one owner, partially sorted
 *
 * Tags:  [owner] the thread that owns the wheel, or holds the lock that guards it: a wheel does no
 *        locking.
 */
#ifndef WF_TIME_TIME_H
#define WF_TIME_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "os/os.h"

/* ---- wheel --------------------------------------------------------------------------------- */

#define WF_WHEEL_SLOTS 64u
#define WF_WHEEL_BITS 6u

/* A timer.  It must not move or be freed while it is armed. */
struct wf_timer {
    struct wf_list link; /* in the slot's list; unarmed: not in a list of the wheel */
    uint64_t tick;       /* it fires when this tick begins */
    uint8_t level;       /* while armed: its level ... */
    uint8_t slot;        /* ... and its slot */
    bool is_armed;
    uint16_t place; /* for users with several wheels: which one; the wheel ignores it */
};

/*
 * A hierarchical wheel.  A timer's level is the highest group of 6 bits in which its tick differs
 * from the current tick: level 0 has the ticks of the current block of 64, level 1 those of the
 * current block of 64 * 64, and so on.  When time enters a block, the timers of its slot move to
 * lower levels.
 *
 * Invariants:
 *   I1  the level and the slot of a timer follow from its tick and `now`
 *   I2  bit s of occupied[l] is set if and only if slot s of level l has timers
 *   I3  no armed timer has a tick below `now`
 */
struct wf_wheel {
    uint64_t now; /* the current tick: the timers of all earlier ticks have fired */
    size_t count; /* armed timers */
    uint64_t occupied[WF_WHEEL_LEVELS];
    struct wf_list slots[WF_WHEEL_LEVELS][WF_WHEEL_SLOTS];
};

/* [owner]  Makes an empty wheel whose current time is now_ns. */
void wf_wheel_init(struct wf_wheel *wheel, int64_t now_ns);

/* [owner]  Makes an unarmed timer. */
void wf_timer_init(struct wf_timer *timer);

/* [owner]  Arms an unarmed timer.  With a deadline in the past it fires at the next advance. */
void wf_wheel_arm(struct wf_wheel *wheel, struct wf_timer *timer, int64_t deadline_ns);

/* [owner]  Disarms the timer; false: it was not armed. */
bool wf_wheel_disarm(struct wf_wheel *wheel, struct wf_timer *timer);

/* [owner]  Advances the wheel to now_ns; does nothing if that is in its past.  Disarms the timers
 * that are due and appends them to `due`, by `link`, earliest tick first.  Returns how many. */
size_t wf_wheel_advance(struct wf_wheel *wheel, int64_t now_ns, struct wf_list *due);

/* [owner]  The time at which the owner should next call wf_wheel_advance.  It is never later than
 * the time at which the first timer is due; it may be earlier, when that call only moves timers to
 * lower levels.  WF_FOREVER: no timer is armed. */
int64_t wf_wheel_next_ns(const struct wf_wheel *wheel);

/* [owner]  The earliest time at which wf_wheel_advance fires this armed timer. */
int64_t wf_timer_due_ns(const struct wf_timer *timer);

/* [owner]  True if all invariants hold; for assertions. */
bool wf_wheel_check(const struct wf_wheel *wheel);

#endif
