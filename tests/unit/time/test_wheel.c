/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a timer fires at the first advance after the tick in which its deadline lies: never
 *         before, never later, however old the wheel is and however far away the deadline.
 * Method: tables of ages and distances; then random arms, disarms and advances compared with an
 *         array that is searched from end to end, with a seed that the harness prints.
 */
#include <stdlib.h>

#include "base/base.h"
#include "tap.h"
#include "time/time.h"

#define MS INT64_C(1000000)
#define S (INT64_C(1000) * MS)
#define YEAR (INT64_C(365) * 86400 * S)

static struct wf_wheel wheel;

static struct wf_timer *pop(struct wf_list *due)
{
    struct wf_list *link = wf_list_pop_front(due);
    return link != NULL ? wf_container_of(link, struct wf_timer, link) : NULL;
}

/* Advances the wheel to a time; returns the number of due timers, and drops them. */
static size_t advance(int64_t now_ns)
{
    struct wf_list due;
    wf_list_init(&due);
    size_t count = wf_wheel_advance(&wheel, now_ns, &due);
    size_t seen = 0;
    for (struct wf_timer *timer; (timer = pop(&due)) != NULL; seen++) {
        CHECK(!timer->is_armed);
    }
    CHECK_EQ(seen, count);
    return count;
}

/* behaviour 54: the wheel's share of it; S1.28 in another structure. */
static void wheel_fires_on_time_at_every_age(void)
{
    static const int64_t ages[] = {0, 1, 63 * MS, 64 * MS, 1 * S, 4097 * MS, 10 * S};
    static const int64_t sleeps[] = {1 * MS,   2 * MS, 15 * MS, 16 * MS, 20 * MS, 50 * MS,
                                     100 * MS, 1 * S,  4 * S,   10 * S,  1 * YEAR};
    for (size_t a = 0; a < sizeof(ages) / sizeof(ages[0]); a++) {
        for (size_t s = 0; s < sizeof(sleeps) / sizeof(sleeps[0]); s++) {
            struct wf_timer timer;
            wf_wheel_init(&wheel, 123456789);
            wf_timer_init(&timer);
            const int64_t begin = 123456789 + ages[a];
            CHECK_EQ(advance(begin), 0);
            wf_wheel_arm(&wheel, &timer, begin + sleeps[s]);
            CHECK_EQ(advance(begin + sleeps[s] - 1), 0); /* never early */
            CHECK_EQ(advance(begin + sleeps[s] + WF_WHEEL_TICK_NS), 1);
            CHECK(wf_wheel_check(&wheel));
        }
    }
}

/* Other timer wheels lost timers after a long time without an advance. */
static void wheel_loses_no_timer_after_a_long_gap(void)
{
    struct wf_timer timers[64];
    wf_wheel_init(&wheel, 0);
    for (int i = 0; i < 64; i++) {
        wf_timer_init(&timers[i]);
        wf_wheel_arm(&wheel, &timers[i], (int64_t)1 << (i % 60));
    }
    CHECK_EQ(advance((int64_t)1 << 61), 64);
    CHECK_EQ(wheel.count, 0);
    CHECK_EQ(wf_wheel_next_ns(&wheel), WF_FOREVER);
}

/* behaviour 56: there is no range to be beyond. */
static void wheel_accepts_the_largest_deadline(void)
{
    struct wf_timer last;
    struct wf_timer first;
    wf_wheel_init(&wheel, 5 * S);
    wf_timer_init(&last);
    wf_timer_init(&first);
    wf_wheel_arm(&wheel, &last, INT64_MAX);
    wf_wheel_arm(&wheel, &first, 6 * S);
    CHECK(wf_wheel_next_ns(&wheel) <= 6 * S + WF_WHEEL_TICK_NS);
    CHECK_EQ(advance(200 * YEAR), 1);
    CHECK(wf_wheel_next_ns(&wheel) < INT64_MAX);
    CHECK(wf_wheel_disarm(&wheel, &last));
    CHECK(!wf_wheel_disarm(&wheel, &last));
    CHECK_EQ(wf_wheel_next_ns(&wheel), WF_FOREVER);
}

static void wheel_fires_past_deadline_at_the_next_advance(void)
{
    struct wf_timer timer;
    wf_wheel_init(&wheel, 5 * S);
    wf_timer_init(&timer);
    wf_wheel_arm(&wheel, &timer, 1 * S);
    CHECK(wf_wheel_next_ns(&wheel) <= 5 * S);
    CHECK_EQ(advance(5 * S), 1);
    wf_wheel_arm(&wheel, &timer, -1);
    CHECK_EQ(advance(5 * S), 1);
}

static void wheel_ignores_time_going_back(void)
{
    struct wf_timer timer;
    wf_wheel_init(&wheel, 5 * S);
    wf_timer_init(&timer);
    wf_wheel_arm(&wheel, &timer, 6 * S);
    CHECK_EQ(advance(4 * S), 0);
    CHECK_EQ(advance(6 * S), 1);
}

static void wheel_returns_due_timers_in_tick_order(void)
{
    enum { COUNT = 500 };
    static struct wf_timer timers[COUNT];
    struct wf_list due;
    wf_list_init(&due);
    wf_wheel_init(&wheel, 0);
    for (int i = 0; i < COUNT; i++) {
        wf_timer_init(&timers[i]);
        wf_wheel_arm(&wheel, &timers[i], (int64_t)((i * 7919) % COUNT) * 3 * MS);
    }
    CHECK_EQ(wf_wheel_advance(&wheel, 10 * S, &due), COUNT);
    uint64_t before = 0;
    for (struct wf_timer *timer; (timer = pop(&due)) != NULL;) {
        CHECK(timer->tick >= before);
        before = timer->tick;
    }
}

/* ---- compared with a linear search --------------------------------------------------------- */

enum { TIMERS = 200, STEPS = 200000 };

static struct {
    struct wf_timer timer;
    int64_t deadline;
    bool is_armed;
} all[TIMERS];

/* Far and near: each number of bits is equally likely. */
static int64_t random_span(struct wf_random *random)
{
    return (int64_t)(wf_random_next(random) >> (8 + wf_random_below(random, 52)));
}

static int64_t tick_after(int64_t ns)
{
    return (ns + WF_WHEEL_TICK_NS - 1) / WF_WHEEL_TICK_NS;
}

/* Finds the timers that must fire by checking all of them; the wheel must give the same answer. */
static void advance_and_compare(int64_t now)
{
    struct wf_list due;
    size_t expected = 0;
    int64_t first = INT64_MAX;
    wf_list_init(&due);
    for (size_t i = 0; i < TIMERS; i++) {
        if (all[i].is_armed && tick_after(all[i].deadline) <= now / WF_WHEEL_TICK_NS) {
            expected++;
        }
    }
    CHECK_EQ(wf_wheel_advance(&wheel, now, &due), expected);
    for (struct wf_timer *timer; (timer = pop(&due)) != NULL;) {
        size_t i = (size_t)((char *)timer - (char *)all) / sizeof(all[0]);
        CHECK(all[i].is_armed);
        CHECK(all[i].deadline <= now);
        all[i].is_armed = false;
    }
    for (size_t i = 0; i < TIMERS; i++) {
        int64_t fires =
            all[i].is_armed ? tick_after(all[i].deadline) * WF_WHEEL_TICK_NS : INT64_MAX;
        first = fires < first ? fires : first;
    }
    CHECK(wf_wheel_next_ns(&wheel) <= first);
}

static void wheel_matches_a_linear_search(void)
{
    struct wf_random random;
    int64_t now = 77 * MS;
    wf_random_init(&random, tap_seed());
    wf_wheel_init(&wheel, now);
    for (size_t i = 0; i < TIMERS; i++) {
        wf_timer_init(&all[i].timer);
    }
    for (int step = 0; step < STEPS && now < INT64_MAX / 4; step++) {
        size_t i = wf_random_below(&random, TIMERS);
        switch (wf_random_below(&random, 4)) {
        case 0:
            now += random_span(&random) >> 12;
            advance_and_compare(now);
            break;
        case 1:
            CHECK_EQ(wf_wheel_disarm(&wheel, &all[i].timer), all[i].is_armed);
            all[i].is_armed = false;
            break;
        default:
            if (!all[i].is_armed) {
                all[i].deadline = now + random_span(&random);
                all[i].is_armed = true;
                wf_wheel_arm(&wheel, &all[i].timer, all[i].deadline);
            }
            break;
        }
        CHECK(step % 1000 != 0 || wf_wheel_check(&wheel));
    }
}

/* The consistency check that assertions use reports an inconsistency, and nothing else. */
static void wheel_check_detects_inconsistency(void)
{
    struct wf_timer timer;
    wf_wheel_init(&wheel, 0);
    wf_timer_init(&timer);
    wf_wheel_arm(&wheel, &timer, 3 * WF_WHEEL_TICK_NS);
    CHECK(wf_wheel_check(&wheel));
    wheel.occupied[0] ^= 1; /* a slot that is marked as occupied and is empty */
    CHECK(!wf_wheel_check(&wheel));
    wheel.occupied[0] ^= 1;
    const uint64_t tick = timer.tick;
    const uint64_t wrong[] = {tick + 1, tick ^ (UINT64_C(1) << 40)}; /* its slot, its level */
    for (int i = 0; i < 2; i++) {
        timer.tick = wrong[i];
        CHECK(!wf_wheel_check(&wheel));
    }
    timer.tick = tick;
    wheel.now = tick + 1; /* the timer should have fired */
    CHECK(!wf_wheel_check(&wheel));
    wheel.now = 0;
    timer.is_armed = false;
    CHECK(!wf_wheel_check(&wheel));
    timer.is_armed = true;
    wheel.count++;
    CHECK(!wf_wheel_check(&wheel));
    wheel.count--;
    CHECK(wf_wheel_check(&wheel));
    CHECK(wf_wheel_disarm(&wheel, &timer));
}

static const struct tap_test tests[] = {
    TAP_TEST(wheel_check_detects_inconsistency),
    TAP_TEST(wheel_fires_on_time_at_every_age),
    TAP_TEST(wheel_loses_no_timer_after_a_long_gap),
    TAP_TEST(wheel_accepts_the_largest_deadline),
    TAP_TEST(wheel_fires_past_deadline_at_the_next_advance),
    TAP_TEST(wheel_ignores_time_going_back),
    TAP_TEST(wheel_returns_due_timers_in_tick_order),
    TAP_TEST(wheel_matches_a_linear_search),
};
TAP_MAIN(tests)
