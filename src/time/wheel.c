/* SPDX-License-Identifier: MIT */
/*
 * time/wheel.c - a hierarchical timer wheel, as a pure data structure.
 *
 * The slot of a timer follows from its tick and the current tick alone, so arm and disarm are one
 * list operation and one bit, without a search.  Advancing jumps from one occupied slot to the next
 * by the bitmaps, so an hour without timers costs the same as a millisecond.  A slot of level 0 is
 * one tick: its timers are due.  A slot of a higher level is a block of ticks: when time enters it,
 * its timers cascade to lower levels.
 *
 * Ticks are absolute, counted from the clock's zero, so the slot of a deadline and the slots that
 * an advance visits come from the same numbers.  (Wheels that compute the slot from the distance to
 * the deadline, but advance by absolute time, have lost timers.)
 *
 * Rejected: a heap.  It knows the first timer exactly, where a wheel knows only its block, but each
 * arm and disarm costs O(log n) cache misses, and most timers are timeouts that never fire.
 */
#include "time/time.h"

/* The current tick at time `ns`: rounded down. */
static uint64_t tick_before(int64_t ns)
{
    return ns <= 0 ? 0 : (uint64_t)ns / (uint64_t)WF_WHEEL_TICK_NS;
}

/* The first tick that begins at or after the deadline `ns`: rounded up. */
static uint64_t tick_after(int64_t ns)
{
    return ns <= 0 ? 0
                   : ((uint64_t)ns + (uint64_t)WF_WHEEL_TICK_NS - 1) / (uint64_t)WF_WHEEL_TICK_NS;
}

/* For assertions.  Does not check a wheel with many timers: each arm would visit all timers, and to
 * arm a million of them would take more than a day. */
static inline __attribute__((unused)) bool is_sound(const struct wf_wheel *wheel)
{
    enum { CHECKED_MAX = 1000 };
    return wheel->count > CHECKED_MAX || wf_wheel_check(wheel);
}

/* The highest group of 6 bits in which the two ticks differ. */
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

/* Inserts the timer into the slot of its tick. */
static void wheel_insert(struct wf_wheel *wheel, struct wf_timer *timer)
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

/* Removes the timer from its slot. */
static void wheel_remove(struct wf_wheel *wheel, struct wf_timer *timer)
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
    wheel_insert(wheel, timer);
    WEFT_ASSERT_SLOW(is_sound(wheel));
}

bool wf_wheel_disarm(struct wf_wheel *wheel, struct wf_timer *timer)
{
    if (!timer->is_armed) {
        return false;
    }
    wheel_remove(wheel, timer);
    timer->is_armed = false;
    wheel->count--;
    WEFT_ASSERT_SLOW(is_sound(wheel));
    return true;
}

/* Sets *tick to the first tick of the level's first occupied slot.  False: the level is empty. */
static bool first_of_level(const struct wf_wheel *wheel, unsigned level, uint64_t *tick)
{
    const unsigned shift = level * WF_WHEEL_BITS;
    const unsigned current = slot_of(wheel->now, level);
    /* By I1 and I3 the slots before the current one are empty. */
    const uint64_t ahead = wheel->occupied[level] >> current << current;
    WEFT_ASSERT(ahead == wheel->occupied[level]);
    if (ahead == 0) {
        return false;
    }
    const uint64_t slot = (uint64_t)__builtin_ctzll(ahead);
    const uint64_t block = wheel->now >> shift >> WF_WHEEL_BITS << WF_WHEEL_BITS;
    *tick = (block + slot) << shift;
    return true;
}

/* Finds the first occupied slot: its level and its first tick.  Lower levels come first: all their
 * ticks are before the next slot of a higher level.  False: the wheel is empty. */
static bool first_event(const struct wf_wheel *wheel, uint64_t *tick, unsigned *level)
{
    for (*level = 0; *level < WF_WHEEL_LEVELS; (*level)++) {
        if (first_of_level(wheel, *level, tick)) {
            return true;
        }
    }
    return false;
}

/* Empties the current slot of the level: timers of level 0 are due, others move to lower levels.
 * Returns how many were due. */
static size_t enter_slot(struct wf_wheel *wheel, unsigned level, struct wf_list *due)
{
    struct wf_list *slot = &wheel->slots[level][slot_of(wheel->now, level)];
    size_t fired = 0;
    while (!wf_list_is_empty(slot)) { /* Ends: a reinserted timer goes to a lower level (I1). */
        struct wf_timer *timer = wf_container_of(slot->next, struct wf_timer, link);
        wheel_remove(wheel, timer);
        if (level > 0) {
            wheel_insert(wheel, timer);
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

/* The time at which a tick begins; for the last tick of the clock, just below WF_FOREVER. */
static int64_t tick_begin_ns(uint64_t tick)
{
    return tick < (uint64_t)(WF_FOREVER / WF_WHEEL_TICK_NS) ? (int64_t)tick * WF_WHEEL_TICK_NS
                                                            : WF_FOREVER - 1;
}

int64_t wf_wheel_next_ns(const struct wf_wheel *wheel)
{
    uint64_t tick;
    unsigned level;
    return first_event(wheel, &tick, &level) ? tick_begin_ns(tick) : WF_FOREVER;
}

int64_t wf_timer_due_ns(const struct wf_timer *timer)
{
    return tick_begin_ns(timer->tick);
}

bool wf_wheel_check(const struct wf_wheel *wheel)
{
    size_t count = 0;
    for (unsigned level = 0; level < WF_WHEEL_LEVELS; level++) {
        for (unsigned slot = 0; slot < WF_WHEEL_SLOTS; slot++) {
            const struct wf_list *head = &wheel->slots[level][slot];
            const bool is_occupied = (wheel->occupied[level] >> slot & 1) != 0;
            if (is_occupied == wf_list_is_empty(head)) {
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
