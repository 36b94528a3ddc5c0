/* SPDX-License-Identifier: MIT */
/*
 * time/wheel.c - a hierarchical timer wheel, as a pure data structure.
 *
 * The place of a timer follows from its tick and the present one alone, so there is nothing to
 * search: arm and disarm are a list operation and a bit.  Advancing jumps from one occupied slot to
 * the next by the bits, so an hour without timers costs the same as a millisecond.  A slot of level
 * 0 is one tick: its timers are due.  A slot of a higher level is a block of ticks: when time
 * enters it, its timers are armed anew and find their places further down.
 *
 * Ticks are absolute, counted from the clock's own zero: the slot of a deadline and the time at
 * which it is looked at come from the same numbers.  (A slot computed from the distance to the
 * deadline, and looked at by absolute time, is how others lost timers.)
 *
 * Rejected: a heap.  It finds the first timer at once, which a wheel only knows to a block, but
 * each arm and disarm costs the logarithm of the number of timers in cache misses; most timers are
 * time limits that never fire.
 */
#include "time/time.h"

/* The tick that has begun by then. */
static uint64_t tick_before(int64_t ns)
{
    return ns <= 0 ? 0 : (uint64_t)ns / (uint64_t)WF_TICK_NS;
}

/* The tick at whose beginning the deadline has certainly passed. */
static uint64_t tick_after(int64_t ns)
{
    return ns <= 0 ? 0 : ((uint64_t)ns + (uint64_t)WF_TICK_NS - 1) / (uint64_t)WF_TICK_NS;
}

/* For assertions.  A wheel with very many timers is not looked at: each arm would look at all of
 * them, and a million could not be armed in a day. */
static inline bool is_sound(const struct wf_wheel *wheel)
{
    enum { MANY = 1000 };
    return wheel->count > MANY || wf_wheel_check(wheel);
}

/* The highest group of bits in which the two differ. */
static unsigned level_of(uint64_t now, uint64_t tick)
{
    uint64_t difference = (now ^ tick) | (WF_WHEEL_SLOTS - 1);
    return (63u - (unsigned)__builtin_clzll(difference)) / WF_WHEEL_BITS;
}

static unsigned slot_of(uint64_t tick, unsigned level)
{
    return (unsigned)(tick >> (level * WF_WHEEL_BITS)) % WF_WHEEL_SLOTS;
}

void wf_wheel_init(struct wf_wheel *wheel, int64_t now_ns)
{
    *wheel = (struct wf_wheel){.now = tick_before(now_ns)};
    for (unsigned level = 0; level < WF_WHEEL_LEVELS; level++) {
        for (unsigned slot = 0; slot < WF_WHEEL_SLOTS; slot++) {
            wf_list_init(&wheel->slots[level][slot]);
        }
    }
}

void wf_timer_init(struct wf_timer *timer)
{
    *timer = (struct wf_timer){0};
    wf_list_init(&timer->link);
}

/* Puts the timer where its tick belongs. */
static void place(struct wf_wheel *wheel, struct wf_timer *timer)
{
    unsigned level = level_of(wheel->now, timer->tick);
    unsigned slot = slot_of(timer->tick, level);
    WEFT_ASSERT(level < WF_WHEEL_LEVELS);
    WEFT_ASSERT(timer->tick >= wheel->now); /* I3 */
    timer->level = (uint8_t)level;
    timer->slot = (uint8_t)slot;
    wf_list_push_back(&wheel->slots[level][slot], &timer->link);
    wheel->occupied[level] |= UINT64_C(1) << slot;
}

/* The timer leaves its slot. */
static void displace(struct wf_wheel *wheel, struct wf_timer *timer)
{
    wf_list_remove(&timer->link);
    if (wf_list_is_empty(&wheel->slots[timer->level][timer->slot])) {
        wheel->occupied[timer->level] &= ~(UINT64_C(1) << timer->slot); /* I2 */
    }
}

void wf_wheel_arm(struct wf_wheel *wheel, struct wf_timer *timer, int64_t deadline_ns)
{
    WEFT_CHECK(!timer->is_armed);
    uint64_t tick = tick_after(deadline_ns);
    timer->tick = tick > wheel->now ? tick : wheel->now;
    timer->is_armed = true;
    wheel->count++;
    place(wheel, timer);
    WEFT_ASSERT_SLOW(is_sound(wheel));
}

bool wf_wheel_disarm(struct wf_wheel *wheel, struct wf_timer *timer)
{
    if (!timer->is_armed) {
        return false;
    }
    displace(wheel, timer);
    timer->is_armed = false;
    wheel->count--;
    WEFT_ASSERT_SLOW(is_sound(wheel));
    return true;
}

/* The first tick of the first occupied slot of the level, from the present on.  True: there is one.
 */
static bool first_of_level(const struct wf_wheel *wheel, unsigned level, uint64_t *tick)
{
    const unsigned shift = level * WF_WHEEL_BITS;
    const unsigned present = slot_of(wheel->now, level);
    /* By I1 and I3 nothing is in slots before the present one. */
    const uint64_t ahead = wheel->occupied[level] >> present << present;
    WEFT_ASSERT(ahead == wheel->occupied[level]);
    if (ahead == 0) {
        return false;
    }
    const uint64_t slot = (uint64_t)__builtin_ctzll(ahead);
    const uint64_t block = wheel->now >> shift >> WF_WHEEL_BITS << WF_WHEEL_BITS;
    *tick = (block + slot) << shift;
    return true;
}

/* The first tick at which anything has to be done, and on which level.  Lower levels come first:
 * all of what they have lies before the next slot of a higher one.  True: there is one. */
static bool first_event(const struct wf_wheel *wheel, uint64_t *tick, unsigned *level)
{
    for (*level = 0; *level < WF_WHEEL_LEVELS; (*level)++) {
        if (first_of_level(wheel, *level, tick)) {
            return true;
        }
    }
    return false;
}

/* Time is in the slot: what is due goes to `due`, the rest further down.  Gives how many were due.
 */
static size_t enter_slot(struct wf_wheel *wheel, unsigned level, struct wf_list *due)
{
    struct wf_list *slot = &wheel->slots[level][slot_of(wheel->now, level)];
    size_t fired = 0;
    while (!wf_list_is_empty(slot)) { /* who is placed anew goes to a lower level: I1 */
        struct wf_timer *timer = wf_container_of(slot->next, struct wf_timer, link);
        displace(wheel, timer);
        if (level > 0) {
            place(wheel, timer);
            continue;
        }
        timer->is_armed = false;
        wheel->count--;
        wf_list_push_back(due, &timer->link);
        fired++;
    }
    return fired;
}

size_t wf_wheel_advance(struct wf_wheel *wheel, int64_t now_ns, struct wf_list *due)
{
    const uint64_t target = tick_before(now_ns);
    size_t fired = 0;
    uint64_t tick;
    unsigned level;
    while (first_event(wheel, &tick, &level) && tick <= target) {
        WEFT_ASSERT(tick >= wheel->now || level > 0);
        wheel->now = tick > wheel->now ? tick : wheel->now;
        fired += enter_slot(wheel, level, due);
    }
    if (target > wheel->now) {
        wheel->now = target;
    }
    WEFT_ASSERT_SLOW(is_sound(wheel));
    return fired;
}

/* When a tick begins.  The last one there is begins before the end of the clock: see
 * WF_WHEEL_LEVELS. */
static int64_t begin_of(uint64_t tick)
{
    return tick < (uint64_t)(WF_FOREVER / WF_TICK_NS) ? (int64_t)tick * WF_TICK_NS : WF_FOREVER - 1;
}

int64_t wf_wheel_next_ns(const struct wf_wheel *wheel)
{
    uint64_t tick;
    unsigned level;
    return first_event(wheel, &tick, &level) ? begin_of(tick) : WF_FOREVER;
}

int64_t wf_timer_due_ns(const struct wf_timer *timer)
{
    return begin_of(timer->tick);
}

bool wf_wheel_check(const struct wf_wheel *wheel)
{
    size_t count = 0;
    for (unsigned level = 0; level < WF_WHEEL_LEVELS; level++) {
        for (unsigned slot = 0; slot < WF_WHEEL_SLOTS; slot++) {
            const struct wf_list *head = &wheel->slots[level][slot];
            const bool is_marked = (wheel->occupied[level] >> slot & 1) != 0;
            if (is_marked == wf_list_is_empty(head)) {
                return false; /* I2 */
            }
            for (struct wf_list *link = head->next; link != head; link = link->next) {
                const struct wf_timer *timer = wf_container_of(link, struct wf_timer, link);
                count++;
                if (timer->tick < wheel->now || level_of(wheel->now, timer->tick) != level ||
                    slot_of(timer->tick, level) != slot || !timer->is_armed) {
                    return false; /* I1, I3 */
                }
            }
        }
    }
    return count == wheel->count;
}
