/* SPDX-License-Identifier: MIT */
/*
 * bench_time.c - the cost of waiting for a point in time, and the lateness of the wake-up.
 *
 * A million tasks sleep between 1 and 1000 ms.  The row without a suffix measures the CPU time (the
 * wall time is a second for every variant), the row with `late` the lateness of each task.
 */
#include <weft/weft.h>

#include "base/base.h"
#include "bench.h"
#include "os/os.h"

static weft_runtime *runtime;

/* Never closed: the process ends after the measurement. */
static void need_runtime(unsigned workers)
{
    const weft_runtime_options options = {.workers = workers};
    if (runtime == NULL) {
        WEFT_CHECK(weft_runtime_open(&runtime, &options) == 0);
    }
}

/* Runs fn(arg) as a task; returns its result. */
static uint64_t run_task(weft_fn fn, void *arg, unsigned workers)
{
    weft_task *task;
    need_runtime(workers);
    WEFT_CHECK(weft_runtime_spawn(runtime, &task, fn, arg, NULL) == 0);
    const intptr_t result = weft_await(task);
    WEFT_CHECK(result >= 0);
    return (uint64_t)result;
}

/* ---- a million sleepers ---------------------------------------------------------------------- */

static wf_atomic_u64 late_ns; /* the sum over all tasks */

static void wake_up(weft_time due)
{
    (void)wf_fetch_add_relaxed(&late_ns, (uint64_t)(weft_now() - due)); /* relaxed: a sum */
}

static int64_t span_of(uint64_t number)
{
    return (int64_t)(1 + number * 7919 % 1000) * WEFT_MILLISECOND;
}

static intptr_t sleep_green(void *arg)
{
    const weft_time due = weft_time_after(span_of((uintptr_t)arg));
    WEFT_CHECK(weft_sleep_until(due) == 0);
    wake_up(due);
    return 0;
}

struct sleeper {
    weft_sleep_future nap;
    weft_time due;
};

static weft_poll_result sleep_stackless(weft_cx *cx, void *state, intptr_t *result)
{
    struct sleeper *sleeper = state;
    if (weft_future_poll(&sleeper->nap.future, cx, result) == WEFT_POLL_PENDING) {
        return WEFT_POLL_PENDING;
    }
    wake_up(sleeper->due);
    return WEFT_POLL_READY;
}

struct crowd {
    uint64_t count;
    bool is_stackless;
};

static intptr_t crowd_task(void *arg)
{
    const struct crowd *crowd = arg;
    weft_task **tasks = wf_alloc_zeroed(crowd->count, sizeof(weft_task *));
    WEFT_CHECK(tasks != NULL);
    wf_store_relaxed(&late_ns, 0);
    for (uint64_t i = 0; i < crowd->count; i++) {
        int rc;
        if (crowd->is_stackless) {
            struct sleeper sleeper = {.due = weft_time_after(span_of(i))};
            weft_sleep_future_init(&sleeper.nap, sleeper.due);
            rc = weft_spawn_poll(&tasks[i], sleep_stackless, &sleeper, sizeof(sleeper), NULL);
        } else {
            rc = weft_spawn(&tasks[i], sleep_green, (void *)(uintptr_t)i, NULL);
        }
        WEFT_CHECK(rc == 0);
        if (i % 128 == 127) {
            (void)weft_yield(); /* lets the new tasks begin to sleep */
        }
    }
    WEFT_CHECK(weft_await_all(tasks, crowd->count, NULL) == 0);
    wf_free(tasks);
    return 0;
}

static uint64_t sleep_all(uint64_t ops, unsigned workers, bool is_stackless)
{
    struct crowd crowd = {.count = ops, .is_stackless = is_stackless};
    return run_task(crowd_task, &crowd, workers);
}

static uint64_t sleep_1m(uint64_t ops, unsigned workers)
{
    return sleep_all(ops, workers, false);
}

static uint64_t sleep_1m_poll(uint64_t ops, unsigned workers)
{
    return sleep_all(ops, workers, true);
}

static uint64_t sleep_late(uint64_t ops, unsigned workers)
{
    (void)sleep_all(ops, workers, false);
    return wf_load_relaxed(&late_ns);
}

static uint64_t sleep_late_poll(uint64_t ops, unsigned workers)
{
    (void)sleep_all(ops, workers, true);
    return wf_load_relaxed(&late_ns);
}

/* ---- one timer ------------------------------------------------------------------------------- */

static intptr_t rotate_ring(void *arg)
{
    (void)arg;
    return 0;
}

/* Spawn and await with a deadline that never passes: the cost of a timer that does not fire. */
static intptr_t await_task(void *arg)
{
    uint64_t ops = (uintptr_t)arg;
    for (uint64_t i = 0; i < ops; i++) {
        (void)weft_await(weft_go(rotate_ring, NULL));
    }
    return 0;
}

static intptr_t await_with_deadline_task(void *arg)
{
    (void)weft_deadline_set(weft_time_after(3600 * WEFT_SECOND));
    return await_task(arg);
}

static uint64_t await_plain(uint64_t ops, unsigned workers)
{
    (void)run_task(await_task, (void *)(uintptr_t)ops, workers);
    return 0;
}

static uint64_t await_with_deadline(uint64_t ops, unsigned workers)
{
    (void)run_task(await_with_deadline_task, (void *)(uintptr_t)ops, workers);
    return 0;
}

static const struct bench_row rows[] = {
    {"sleep-1m", "weft", "task", 1000000, 1, sleep_1m},
    {"sleep-1m", "weft-poll", "task", 1000000, 1, sleep_1m_poll},
    {"sleep-1m-late", "weft", "task", 1000000, 1, sleep_late},
    {"sleep-1m-late", "weft-poll", "task", 1000000, 1, sleep_late_poll},
    {"timer-unused", "weft", "await", 500000, 1, await_plain},
    {"timer-unused", "weft-deadline", "await", 500000, 1, await_with_deadline},
};

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {
        .title = "Time",
        .base = "weft",
        .rows = rows,
        .row_count = sizeof(rows) / sizeof(rows[0]),
    };
    return bench_main(argc, argv, &suite);
}
