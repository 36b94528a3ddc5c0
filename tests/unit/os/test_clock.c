/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the clock is the kernel's monotonic one, in nanoseconds.
 * Method: a reading lies between two that libc gives; readings never fall, in one thread and from
 *         one thread to another.
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

static void a_reading_lies_between_two_of_libc(void)
{
    int64_t before = libc_now();
    int64_t now = wf_clock_now();
    int64_t after = libc_now();
    CHECK(before > 0);
    CHECK(before <= now);
    CHECK(now <= after);
}

static void it_never_goes_back_and_never_stands_still(void)
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

static void threads_agree_on_the_time(void)
{
    int64_t reading = wf_clock_now();
    pthread_t thread;
    CHECK_EQ(wf_thread_start(&thread, read_later, &reading, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    CHECK(wf_clock_now() >= reading);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_reading_lies_between_two_of_libc),
    TAP_TEST(it_never_goes_back_and_never_stands_still),
    TAP_TEST(threads_agree_on_the_time),
};
TAP_MAIN(tests)
