/* SPDX-License-Identifier: MIT */
/*
 * The rows of the benchmarks on libuv; bench/README.md defines each row.  libuv has no tasks: a
 * task is work for its thread pool (of so many threads as there are workers), a yield is one turn
 * of the loop through idle callbacks, and a sleeper is a timer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "bench.h"

enum { BATCH = 1000, MS = 1000000 };

static void check(int is_true, const char *what)
{
    if (!is_true) {
        (void)fprintf(stderr, "libuv: %s\n", what);
        abort();
    }
}

/* The pool reads its size once, when the first work arrives. */
static void use_workers(unsigned workers)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%u", workers);
    (void)setenv("UV_THREADPOOL_SIZE", text, 1);
}

static uint64_t finished;

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

static void count_finished(uv_work_t *work, int status)
{
    (void)work;
    check(status == 0, "work is done");
    finished++;
}

static uint64_t spawn(uint64_t ops, unsigned workers, uint64_t batch)
{
    static uv_work_t works[BATCH];
    uv_loop_t *loop = uv_default_loop();
    use_workers(workers);
    finished = 0;
    for (uint64_t done = 0; done < ops; done += batch) {
        for (uint64_t i = 0; i < batch; i++) {
            check(uv_queue_work(loop, &works[i], do_nothing, count_finished) == 0, "queue work");
        }
        check(uv_run(loop, UV_RUN_DEFAULT) == 0, "the loop runs dry");
    }
    check(finished >= ops, "every task ends");
    return 0;
}

static uint64_t spawn_join(uint64_t ops, unsigned workers)
{
    return spawn(ops, workers, BATCH);
}

static uint64_t spawn_await(uint64_t ops, unsigned workers)
{
    return spawn(ops, workers, 1);
}

static void count_turns(uv_idle_t *idle)
{
    uint64_t *left = idle->data;
    if (--*left == 0) {
        uv_close((uv_handle_t *)idle, NULL);
    }
}

static uint64_t yield(uint64_t ops, uint64_t tasks)
{
    static uv_idle_t idles[1000];
    static uint64_t left[1000];
    uv_loop_t *loop = uv_default_loop();
    for (uint64_t i = 0; i < tasks; i++) {
        left[i] = ops / tasks;
        idles[i].data = &left[i];
        check(uv_idle_init(loop, &idles[i]) == 0, "idle handle");
        check(uv_idle_start(&idles[i], count_turns) == 0, "idle start");
    }
    check(uv_run(loop, UV_RUN_DEFAULT) == 0, "the loop runs dry");
    return 0;
}

static uint64_t yield_2(uint64_t ops, unsigned workers)
{
    (void)workers;
    return yield(ops, 2);
}

static uint64_t yield_1000(uint64_t ops, unsigned workers)
{
    (void)workers;
    return yield(ops, 1000);
}

static uint64_t overslept_ns;

/* A timer starts from the loop's own idea of now, which is where its lateness counts from. */
struct sleeper {
    uv_timer_t timer;
    uint64_t due_ns;
};

static void wake_up(uv_timer_t *timer)
{
    uint64_t now_ns = uv_hrtime();
    uint64_t due_ns = ((struct sleeper *)timer)->due_ns;
    overslept_ns += now_ns > due_ns ? now_ns - due_ns : 0;
    uv_close((uv_handle_t *)timer, NULL);
}

/* Gives the sum of what all sleepers overslept. */
static uint64_t sleep_late(uint64_t ops, unsigned workers)
{
    uv_loop_t *loop = uv_default_loop();
    struct sleeper *sleepers = calloc(ops, sizeof(*sleepers));
    (void)workers;
    check(sleepers != NULL, "memory");
    overslept_ns = 0;
    for (uint64_t i = 0; i < ops; i++) {
        uint64_t span_ms = 1 + i * 7919 % 1000;
        if (i % BATCH == 0) {
            uv_update_time(loop); /* else all would count from the start of the loop's turn */
        }
        check(uv_timer_init(loop, &sleepers[i].timer) == 0, "timer");
        sleepers[i].due_ns = uv_hrtime() + span_ms * MS;
        check(uv_timer_start(&sleepers[i].timer, wake_up, span_ms, 0) == 0, "timer start");
    }
    check(uv_run(loop, UV_RUN_DEFAULT) == 0, "the loop runs dry");
    free(sleepers);
    return overslept_ns;
}

static uint64_t sleep_1m(uint64_t ops, unsigned workers)
{
    (void)sleep_late(ops, workers);
    return 0;
}

static const struct bench_row rows[] = {
    {"spawn-join-1000", "libuv", "task", 50000, 1, spawn_join},
    {"spawn-await", "libuv", "task", 5000, 1, spawn_await},
    {"yield-2", "libuv", "switch", 500000, 1, yield_2},
    {"yield-1000", "libuv", "switch", 2000000, 1, yield_1000},
    {"sleep-1m", "libuv", "task", 1000000, 1, sleep_1m},
    {"sleep-1m-late", "libuv", "task", 1000000, 1, sleep_late},
};

int main(int argc, char **argv)
{
    const struct bench_suite suite = {
        .rows = rows,
        .row_count = sizeof(rows) / sizeof(rows[0]),
    };
    return bench_answer(argc, argv, &suite);
}
