/* SPDX-License-Identifier: MIT */
/*
 * Goal:   events that are rare in a short run and certain in a long one: an unpark at every
 *         distance from its park, sleeps of every length at every age of a runtime, a million
 *         timers.
 * Method: millions of iterations, with plain data passed to the woken thread; real sleeps beside
 *         each other, compared with the clock; poll tasks that sleep, some of which are cancelled.
 * Environment: WEFT_STRESS_PARKS   iterations of a park (default 1,000,000)
 *              WEFT_STRESS_TIMERS  armed at once (default 1,000,000; 0.5 KiB of memory each)
 *              WEFT_STRESS_AGES    seconds over which sleeps begin (default 10)
 */
#include <unistd.h>

#include "proc_helpers.h"
#include "stress/stress.h"

/* ---- parks ----------------------------------------------------------------------------------- */

struct pair {
    struct wf_parker parker;
    uint64_t rounds;
    uint64_t payload;   /* plain: published by the unpark */
    wf_atomic_u32 seen; /* iterations that the other thread has returned from */
};

static void *park_repeatedly(void *arg)
{
    struct pair *pair = arg;
    struct wf_random random;
    wf_random_init(&random, tap_seed() + 1);
    for (uint64_t i = 1; i <= pair->rounds; i++) {
        for (unsigned dawdle = wf_random_below(&random, 64); dawdle > 0; dawdle--) {
            wf_spin_hint();
        }
        CHECK_EQ(wf_parker_park(&pair->parker, WF_FOREVER), 0);
        CHECK_EQ(pair->payload, i);
        raise_by_one(&pair->seen);
    }
    return NULL;
}

/* behaviour 12: the unpark comes before the park, after it, and between any two steps of it.  A
 * lost unpark hangs the test, an additional one is an iteration too early. */
static void park_loses_no_unpark_at_any_distance(void)
{
    struct pair pair = {.rounds = wanted("WEFT_STRESS_PARKS", 1000 * 1000)};
    struct wf_random random;
    pthread_t thread;
    wf_random_init(&random, tap_seed());
    wf_parker_init(&pair.parker);
    start_thread(&thread, park_repeatedly, &pair);
    const int64_t begin_ns = wf_clock_now();
    for (uint64_t i = 1; i <= pair.rounds; i++) {
        pair.payload = i;
        for (unsigned dawdle = wf_random_below(&random, 64); dawdle > 0; dawdle--) {
            wf_spin_hint();
        }
        wf_parker_unpark(&pair.parker);
        hold_for(&pair.seen, (uint32_t)i);
    }
    CHECK_EQ(wf_thread_join(thread), 0);
    tap_note("%ju rounds, %.1f us each", (uintmax_t)pair.rounds,
             (double)(wf_clock_now() - begin_ns) / 1e3 / (double)pair.rounds);
    CHECK_EQ(wf_parker_park(&pair.parker, 0), -ETIMEDOUT); /* no unpark is left */
}

/* ---- sleeps ---------------------------------------------------------------------------------- */

static const int64_t lengths_ms[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000};

enum { LENGTHS = sizeof(lengths_ms) / sizeof(lengths_ms[0]), AGES_MAX = 100 };

/* Their lateness; plain, each written by its sleeper. */
static int64_t late_ns[LENGTHS][AGES_MAX];

static intptr_t sleep_and_measure(void *arg)
{
    int64_t *late = arg;
    const size_t row = (size_t)(late - late_ns[0]) / AGES_MAX;
    const weft_time at = weft_time_after(lengths_ms[row] * WEFT_MILLISECOND);
    CHECK_EQ(weft_sleep_until(at), 0);
    *late = weft_now() - at;
    CHECK(*late >= 0);
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static void sleep_at_every_age(weft_runtime *runtime, size_t ages)
{
    weft_task *tasks[AGES_MAX][LENGTHS];
    const weft_time begin = weft_now();
    for (size_t age = 0; age < ages; age++) {
        CHECK_EQ(weft_sleep_until(begin + (weft_time)age * WEFT_SECOND), 0);
        for (size_t row = 0; row < LENGTHS; row++) {
            tasks[age][row] = go_into(runtime, sleep_and_measure, &late_ns[row][age]);
        }
    }
    for (size_t age = 0; age < ages; age++) {
        CHECK_EQ(weft_await_all(tasks[age], LENGTHS, NULL), 0);
    }
}

/* behaviour 54: a quarter of the sleeps of each length must be as punctual as all sleeps are on an
 * idle machine.  tests/unit/time/test_wheel.c tests the wheel alone, at other ages. */
static void sleep_is_never_early_and_rarely_late(void)
{
    const size_t ages = (size_t)wanted("WEFT_STRESS_AGES", 10) + 1;
    CHECK(ages <= AGES_MAX);
    for (size_t i = 0; i < 2; i++) {
        static const struct setting both[] = {{WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 2},
                                              {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 2}};
        const weft_runtime_options options = options_of(&both[i]);
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        sleep_at_every_age(runtime, ages);
        const size_t half = ages / 2;
        for (size_t row = 0; row < LENGTHS; row++) {
            qsort(late_ns[row], ages, sizeof(late_ns[row][0]), by_time);
            tap_note("%s, %5jd ms: late by %.2f ms, half by %.2f, all by %.2f at most",
                     i == 0 ? "steal" : "reactor", (intmax_t)lengths_ms[row],
                     (double)late_ns[row][0] / 1e6, (double)late_ns[row][half] / 1e6,
                     (double)late_ns[row][ages - 1] / 1e6);
            CHECK_TIME(late_ns[row][ages / 4] < 2 * WEFT_MILLISECOND);
        }
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

/* ---- timers ---------------------------------------------------------------------------------- */

struct sleeper {
    weft_time at;
    weft_sleep_future nap;
};

static wf_atomic_u32 is_asleep; /* tasks that have polled their sleep */

static weft_poll_result sleep_without_a_stack(weft_cx *cx, void *arg, intptr_t *result)
{
    struct sleeper *sleeper = arg;
    if (sleeper->nap.future.poll == NULL) {
        weft_sleep_future_init(&sleeper->nap, sleeper->at);
        raise_by_one(&is_asleep);
    }
    if (weft_future_poll(&sleeper->nap.future, cx, result) == WEFT_POLL_PENDING) {
        return WEFT_POLL_PENDING;
    }
    CHECK(*result != 0 || weft_now() >= sleeper->at);
    return WEFT_POLL_READY;
}

static size_t timers_wanted(void)
{
    enum { SLEEPER_BYTES = 1024 };
    size_t count = (size_t)wanted("WEFT_STRESS_TIMERS", 1000 * 1000);
#ifdef WF_SWITCH_SANITIZED
    count = count < 20000 ? count : 20000; /* sanitizers are slower */
#endif
    if (count * SLEEPER_BYTES > (size_t)sysconf(_SC_AVPHYS_PAGES) * wf_page_size()) {
        tap_skip("not enough memory");
    }
    return count;
}

/* behaviour 55, S4.1: half of the timers fire at different times; the others would take an hour and
 * are cancelled: the tasks end at once, with their timers. */
static void timer_million_can_be_armed(void)
{
    const size_t count = timers_wanted();
    const uint64_t blocks = blocks_out();
    weft_task **tasks = calloc(count, sizeof(weft_task *));
    CHECK(tasks != NULL);
    const weft_runtime_options options = options_of(&settings[1]);
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    const size_t before = resident_bytes();
    const weft_time begin = weft_now();
    weft_time last = begin;
    wf_store_relaxed(&is_asleep, 0);
    for (size_t i = 0; i < count; i++) {
        struct sleeper sleeper = {.at = weft_time_after(3600 * WEFT_SECOND)};
        if (i % 2 == 0) { /* in the fourth or fifth second */
            sleeper.at = weft_time_after(3 * WEFT_SECOND) +
                         (weft_time)(i * 7919 % count) * (2 * WEFT_SECOND / (weft_time)count);
            last = sleeper.at > last ? sleeper.at : last;
        }
        CHECK_EQ(weft_runtime_spawn_poll(runtime, &tasks[i], sleep_without_a_stack, &sleeper,
                                         sizeof(sleeper), NULL),
                 0);
    }
    wait_for(&is_asleep, (uint32_t)count);
    const weft_time armed = weft_now();
    tap_note("%zu armed in %.1f s, %.0f bytes of memory each", count, (double)(armed - begin) / 1e9,
             (double)(resident_bytes() - before) / (double)count);
    CHECK_EQ(stats_of(runtime).stacks, 0);
    for (size_t i = 1; i < count; i += 2) {
        CHECK_EQ(weft_cancel(tasks[i]), 0);
    }
    for (size_t i = 1; i < count; i += 2) {
        CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
    }
    tap_note("half of the timers cancelled in %.1f s", (double)(weft_now() - armed) / 1e9);
    for (size_t i = 0; i < count; i += 2) {
        CHECK_EQ(weft_await(tasks[i]), 0);
    }
    tap_note("all had ended %.1f ms after the last deadline", (double)(weft_now() - last) / 1e6);
    wait_until_empty(runtime);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    CHECK_EQ(blocks_out(), blocks);
    free(tasks);
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(park_loses_no_unpark_at_any_distance, LIMIT_S),
    TAP_TEST_LIMIT(sleep_is_never_early_and_rarely_late, LIMIT_S),
    TAP_TEST_LIMIT(timer_million_can_be_armed, LIMIT_S),
};
TAP_MAIN(tests)
