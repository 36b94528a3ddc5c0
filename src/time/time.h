/* SPDX-License-Identifier: MIT */
/*
 * time/time.h - what happens at a point in time.
 *
 * Promises:      a timer never fires before its deadline, and is found at the first look at the
 * wheel after the tick in which the deadline lies.  To arm and to disarm cost the same however many
 * timers there are. Must not know: locks of users, I/O, processes.
 *
 *   tick      the grain of time here, WF_TICK_NS
 *   timer     a deadline and its place in a wheel; the owner embeds it
 *   wheel     all timers of one owner, sorted as far as need be
 *
 * Tags:  [owner] whoever the wheel belongs to; it does no locking of its own.
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

/* A timer.  Its memory must stay as it is while it is armed. */
struct wf_timer {
    struct wf_list link; /* in the slot's list, or alone */
    uint64_t tick;       /* the one at whose end it may fire */
    uint8_t level;       /* where it is, while armed */
    uint8_t slot;
    bool is_armed;
    uint16_t place; /* for whoever has several wheels; a wheel does not look at it */
};

/*
 * Timers by the highest group of 6 bits in which their tick differs from the present one: level 0
 * has the ticks of the present block of 64, level 1 those of the present block of 64 * 64, and so
 * on.  As time enters a block, the timers of its slot go down to the levels below.
 *
 * Invariants:
 *   I1  a timer stands on the level, and in the slot, that its tick and `now` say
 *   I2  bit s of occupied[l] is set if and only if slot s of level l has timers
 *   I3  no armed timer has a tick below `now`
 */
struct wf_wheel {
    uint64_t now; /* the present tick: all before it have been dealt with */
    size_t count; /* armed timers */
    uint64_t occupied[WF_WHEEL_LEVELS];
    struct wf_list slots[WF_WHEEL_LEVELS][WF_WHEEL_SLOTS];
};

/* Empty, with this as the present. */
void wf_wheel_init(struct wf_wheel *wheel, int64_t now_ns);

/* An unarmed timer. */
void wf_timer_init(struct wf_timer *timer);

/* [owner]  Arms a timer that is not armed.  A deadline in the past fires at the next look. */
void wf_wheel_arm(struct wf_wheel *wheel, struct wf_timer *timer, int64_t deadline_ns);

/* [owner]  Disarms the timer; false: it was not armed. */
bool wf_wheel_disarm(struct wf_wheel *wheel, struct wf_timer *timer);

/* [owner]  Time has come to now_ns (which may be less than before: then nothing happens).  Appends
 * the timers that are due to `due`, by `link`, earliest tick first; they are disarmed.  Gives how
 * many. */
size_t wf_wheel_advance(struct wf_wheel *wheel, int64_t now_ns, struct wf_list *due);

/* [owner]  When to look again: not after the first timer is due, perhaps before.  WF_FOREVER: there
 * are none. */
int64_t wf_wheel_next_ns(const struct wf_wheel *wheel);

/* [owner]  When this armed timer fires, if somebody looks then. */
int64_t wf_timer_due_ns(const struct wf_timer *timer);

/* [owner]  For assertions: all invariants hold. */
bool wf_wheel_check(const struct wf_wheel *wheel);

#endif
