/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the clock is the kernel's monotonic clock, in nanoseconds.
 * Method: a reading lies between two readings of libc; readings never decrease, in one thread and
 *         from one thread to another.
 */
#include <time.h>

#include "os/os.h"
#include "tap.h"

static int64_t libc_now(void)
{
    struct timespec now;
    CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void clock_reading_lies_between_two_libc_readings(void)
{
    int64_t before = libc_now();
    int64_t now = wf_clock_now();
    int64_t after = libc_now();
    CHECK(before > 0);
    CHECK(before <= now);
    CHECK(now <= after);
}

static void clock_never_goes_back_and_advances(void)
{
    const int64_t start = wf_clock_now();
    int64_t last = start;
    for (int i = 0; i < 10000 || last == start; i++) {
        int64_t now = wf_clock_now();
        CHECK(now >= last);
        last = now;
    }
}

static void *read_later(void *arg)
{
    int64_t *reading = arg;
    CHECK(wf_clock_now() >= *reading);
    *reading = wf_clock_now();
    return NULL;
}

static void clock_is_consistent_across_threads(void)
{
    int64_t reading = wf_clock_now();
    pthread_t thread;
    CHECK_EQ(wf_thread_start(&thread, read_later, &reading, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    CHECK(wf_clock_now() >= reading);
}

static const struct tap_test tests[] = {
    TAP_TEST(clock_reading_lies_between_two_libc_readings),
    TAP_TEST(clock_never_goes_back_and_advances),
    TAP_TEST(clock_is_consistent_across_threads),
};
TAP_MAIN(tests)
