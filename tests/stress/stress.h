/* SPDX-License-Identifier: MIT */
/*
 * stress.h - iterations of a stress test, under one setting after the other, and a check that
 * nothing is left afterwards.
 *
 * Environment: WEFT_STRESS_SECONDS  per test (default 6)
 */
#ifndef STRESS_H
#define STRESS_H

#include <stdlib.h>

#include "fault_helpers.h"
#include "sched_helpers.h"

enum { LIMIT_S = 600 };

static inline uint64_t wanted(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    uint64_t number = otherwise;
    if (text != NULL && wf_parse_u64(text, 1, UINT32_MAX, &number) != 0) {
        tap_fail(__FILE__, __LINE__, "%s is not a number: %s", variable, text);
    }
    return number;
}

/* One setting after the other, each at least once, until the time is over. */
struct stress {
    int64_t end_ns;
    uint64_t rounds;
    uint64_t tasks; /* for the report */
    struct wf_random random;
    weft_runtime_options options;
};

static inline bool stress_next(struct stress *stress)
{
    const size_t count = sizeof(settings) / sizeof(settings[0]);
    if (stress->rounds == 0) {
        const int64_t seconds = (int64_t)wanted("WEFT_STRESS_SECONDS", 6);
        stress->end_ns = wf_clock_now() + seconds * INT64_C(1000000000);
        wf_random_init(&stress->random, tap_seed());
    } else if (stress->rounds >= count && wf_clock_now() >= stress->end_ns) {
        tap_note("%ju iterations, %ju tasks", (uintmax_t)stress->rounds, (uintmax_t)stress->tasks);
        return false;
    }
    const struct setting *setting = &settings[stress->rounds++ % count];
    stress->options = options_of(setting);
    tap_doing("iteration %ju: policy %d, order %d, %u workers", (uintmax_t)stress->rounds,
              (int)setting->policy, (int)setting->order, setting->workers);
    return true;
}

static inline void start_thread(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    const struct wf_thread_options options = {.name = "stress"};
    CHECK_EQ(wf_thread_start(thread, fn, arg, &options), 0);
}

/* A task may be awaited a moment before it is counted as completed. */
static inline void wait_until_empty(weft_runtime *runtime)
{
    while (stats_of(runtime).live > 0) {
        let_others_run();
    }
    const weft_runtime_stats stats = stats_of(runtime);
    CHECK_EQ(stats.total.spawned, stats.total.completed);
    CHECK_EQ(stats.lost_wakeups, 0);
}

static inline intptr_t yield_until_asked(void *arg)
{
    (void)arg;
    int rc = 0;
    while (rc == 0) {
        rc = weft_yield();
    }
    return rc;
}

#endif
