/* SPDX-License-Identifier: MIT */
/*
 * Goal:   counters, dumps and traces of a runtime are correct.
 * Method: known numbers of tasks that end in known ways, compared with the statistics; dumps and
 *         traces are read back from a file.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/io.h>
#include <weft/sync.h>

#include "obs/obs.h"
#include "sched_helpers.h"

static char text[1 << 16];

/* An unlinked temporary file. */
static int open_file(void)
{
    char name[] = "/tmp/weft-obs-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0);
    CHECK_EQ(unlink(name), 0);
    return fd;
}

static void read_file(int fd)
{
    CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    ssize_t size = read(fd, text, sizeof(text) - 1);
    CHECK(size >= 0);
    text[size] = '\0';
    CHECK_EQ(close(fd), 0);
}

static unsigned count_lines(const char *part)
{
    unsigned count = 0;
    for (const char *line = text; *line != '\0';) {
        const char *end = strchr(line, '\n');
        CHECK(end != NULL); /* whole lines only */
        const char *found = strstr(line, part);
        count += found != NULL && found < end ? 1 : 0;
        line = end + 1;
    }
    return count;
}

/* ---- counters -------------------------------------------------------------------------------- */

enum { COMPLETED = 20, FAILED = 7, CANCELLED = 5, YIELDS = 3 };

static intptr_t yield_some(void *arg)
{
    (void)arg;
    for (int i = 0; i < YIELDS; i++) {
        (void)weft_yield();
    }
    return 0;
}

/* Sleeps until a timer has fired: a sleep whose time has passed before it begins needs none. */
static intptr_t sleep_once(void *arg)
{
    for (int64_t ns = WEFT_MILLISECOND; stats_of(arg).timers_fired == 0; ns *= 2) {
        CHECK_EQ(weft_sleep(ns), 0);
    }
    return 0;
}

static void count_ends(weft_runtime *runtime, const struct setting *setting)
{
    wf_atomic_u32 never = {0};
    weft_task *tasks[COMPLETED];
    for (int i = 0; i < COMPLETED; i++) {
        tasks[i] = go_into(runtime, yield_some, NULL);
    }
    CHECK_EQ(weft_await_all(tasks, COMPLETED, NULL), 0);
    for (int i = 0; i < FAILED; i++) {
        CHECK_EQ(weft_await(go_into(runtime, echo, (void *)-EIO)), -EIO);
    }
    for (int i = 0; i < CANCELLED; i++) {
        weft_task *task = go_into(runtime, stand_by_or_leave, &never);
        CHECK_EQ(weft_cancel(task), 0);
        CHECK_EQ(weft_await(task), -ECANCELED);
    }
    CHECK_EQ(weft_await(go_into(runtime, sleep_once, runtime)), 0);
    while (stats_of(runtime).live > 0) { /* an awaiter may run a moment before the count drops */
        (void)sched_yield();
    }
    const weft_runtime_stats stats = stats_of(runtime);
    CHECK_EQ(stats.workers, setting->workers);
    CHECK_EQ(stats.total.spawned, COMPLETED + FAILED + CANCELLED + 1);
    CHECK_EQ(stats.total.completed, COMPLETED + FAILED + CANCELLED + 1);
    CHECK_EQ(stats.timers_fired, 1);
    CHECK_EQ(stats.io_events, 0);
    CHECK_EQ(stats.total.failed, FAILED);
    CHECK_EQ(stats.total.cancelled, CANCELLED);
    CHECK(stats.total.yielded >= (uint64_t)COMPLETED * YIELDS);
    CHECK(stats.total.polled >= COMPLETED + FAILED);
    CHECK_EQ(stats.global_depth, 0);
    CHECK_EQ(stats.total.queue_depth, 0);
    CHECK_EQ(stats.lost_wakeups, 0);
    uint64_t polled = 0;
    for (unsigned i = 0; i < setting->workers; i++) {
        weft_worker_stats counters;
        CHECK_EQ(weft_runtime_get_worker_stats(runtime, &counters, i), 0);
        polled += counters.polled;
    }
    CHECK_EQ(polled, stats.total.polled);
}

/* part of S2.8: statistics */
static void stats_count_spawns_ends_failures_cancels_and_yields(void)
{
    open_under(EVERYWHERE, count_ends);
}

enum { WORKERS_MAX = 8 };

/* Phases of the tasks that occupy one worker each, so that the counters of the worker are known. */
struct phases {
    unsigned workers;
    wf_atomic_u32 started;
    wf_atomic_u32 done;
    wf_atomic_u32 read;
};

static intptr_t yield_and_fail(void *arg)
{
    for (unsigned i = 0; i < *(const unsigned *)arg; i++) {
        (void)weft_yield();
    }
    return -EIO;
}

static intptr_t check_own_counters(void *arg)
{
    struct phases *phases = arg;
    const weft_task_options here = {.is_pinned = true};
    raise_by_one(&phases->started);
    hold_for(&phases->started, phases->workers); /* so that each task is on a worker of its own */
    CHECK_EQ(weft_pin_begin(), 0);
    weft_worker_stats before;
    weft_worker_stats after;
    const unsigned worker = wf_worker_self()->index;
    unsigned yields = worker + 2;
    const unsigned count = 2 * worker + 1;
    CHECK_EQ(weft_runtime_get_worker_stats(weft_runtime_self(), &before, worker), 0);
    for (unsigned i = 0; i < count; i++) {
        weft_task *task = NULL;
        CHECK_EQ(weft_spawn(&task, yield_and_fail, &yields, &here), 0);
        CHECK_EQ(weft_await(task), -EIO);
    }
    raise_by_one(&phases->done);
    hold_for(&phases->done, phases->workers); /* the counters must not include other workers */
    CHECK_EQ(weft_runtime_get_worker_stats(weft_runtime_self(), &after, worker), 0);
    CHECK_EQ(after.spawned - before.spawned, count);
    CHECK_EQ(after.completed - before.completed, count);
    CHECK_EQ(after.failed - before.failed, count);
    CHECK_EQ(after.cancelled, before.cancelled);
    CHECK_EQ(after.yielded - before.yielded, (uint64_t)count * yields);
    CHECK(after.polled - before.polled >= (uint64_t)count * (yields + 1));
    CHECK_EQ(after.stolen, before.stolen);
    CHECK_EQ(after.queue_depth, 0);
    raise_by_one(&phases->read);
    hold_for(&phases->read, phases->workers);
    return weft_pin_end();
}

static void check_counters_of_each(weft_runtime *runtime, const struct setting *setting)
{
    struct phases phases = {.workers = setting->workers};
    weft_task *tasks[WORKERS_MAX];
    for (unsigned i = 0; i < setting->workers; i++) {
        tasks[i] = go_into(runtime, check_own_counters, &phases);
    }
    CHECK_EQ(weft_await_all(tasks, setting->workers, NULL), 0);
}

/* S2.29 */
static void worker_stats_count_only_the_own_worker(void)
{
    open_under(EVERYWHERE, check_counters_of_each);
}

static intptr_t begin_and_hold(void *arg)
{
    wf_atomic_u32 *cells = arg; /* begun, open */
    raise_by_one(&cells[0]);
    hold_for(&cells[1], 1);
    return 0;
}

static uint64_t waiting_in(weft_runtime *runtime)
{
    const weft_runtime_stats stats = stats_of(runtime);
    return stats.global_depth + stats.total.queue_depth;
}

static void occupy_all_workers(weft_runtime *runtime, const struct setting *setting)
{
    wf_atomic_u32 cells[2] = {{0}, {0}};
    weft_task *hogs[WORKERS_MAX];
    weft_task *tasks[COMPLETED];
    for (unsigned i = 0; i < setting->workers; i++) {
        hogs[i] = go_into(runtime, begin_and_hold, cells);
    }
    wait_for(&cells[0], setting->workers);
    for (int i = 0; i < COMPLETED; i++) {
        tasks[i] = go_into(runtime, echo, NULL);
    }
    while (waiting_in(runtime) < COMPLETED) { /* the control thread may not have seen them yet */
        (void)sched_yield();
    }
    const weft_runtime_stats before = stats_of(runtime);
    for (int i = 0; i < COMPLETED; i++) {
        CHECK_EQ(info_of(tasks[i]).runs, 0);
    }
    const weft_runtime_stats after = stats_of(runtime);
    CHECK_EQ(waiting_in(runtime), COMPLETED);          /* all tasks still wait */
    CHECK_EQ(after.total.polled, before.total.polled); /* no task got a slice */
    CHECK_EQ(after.parked, 0);                         /* and no worker is idle */
    raise_by_one(&cells[1]);
    CHECK_EQ(weft_await_all(hogs, setting->workers, NULL), 0);
    CHECK_EQ(weft_await_all(tasks, COMPLETED, NULL), 0);
    CHECK_EQ(waiting_in(runtime), 0);
    CHECK(stats_of(runtime).total.polled >= after.total.polled + COMPLETED);
}

/* S2.52: with fail_does_not_disturb_other_tasks in test_failure.c and spawn_never_waits below; this
 * test has no spares, which would run the tasks. */
static void stats_show_starvation(void)
{
    open_under(EVERYWHERE, occupy_all_workers);
}

static intptr_t spawn_many(void *arg)
{
    enum { MANY = 1000 };
    static weft_task *tasks[MANY];
    (void)arg;
    const uint64_t runs = info_of(weft_self()).runs;
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_spawn(&tasks[i], echo, NULL, NULL), 0);
    }
    CHECK_EQ(info_of(weft_self()).runs, runs); /* it was not suspended */
    return weft_await_all(tasks, MANY, NULL);
}

/* S2.52: a spawn beyond the limit fails at once, unless the options let it wait: see
 * spawn_fails_at_tasks_max_and_recovers in test_runtime.c. */
static void spawn_never_waits(void)
{
    run_under(EVERYWHERE, spawn_many);
}

static void pass_bad_arguments(weft_runtime *runtime, const struct setting *setting)
{
    weft_worker_stats counters;
    CHECK_EQ(weft_runtime_get_worker_stats(runtime, &counters, setting->workers), -EINVAL);
    CHECK(weft_runtime_dump(runtime, -1) < 0);
    CHECK(weft_runtime_find_task(runtime, 0) == NULL);
    const enum weft_state_style no_style = (enum weft_state_style)(WEFT_STATE_STYLE_POLL + 1);
    const enum weft_task_state no_state = (enum weft_task_state)(WEFT_TASK_CANCELLED + 1);
    CHECK_STR(weft_state_style_name(no_style, WEFT_TASK_RUNNING), "unknown");
    CHECK_STR(weft_state_style_name(WEFT_STATE_STYLE_POLL, no_state), "unknown");
    CHECK_STR(weft_task_state_name(no_state), "unknown");
    CHECK_STR(weft_task_state_name(WEFT_TASK_READY), "ready");
}

static void obs_calls_reject_bad_arguments(void)
{
    open_under(EVERYWHERE, pass_bad_arguments);
}

/* ---- dumps ----------------------------------------------------------------------------------- */

static intptr_t join_task(void *arg)
{
    return weft_join(arg, NULL);
}

static void dump_some(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    wf_atomic_u32 open = {0};
    weft_task *tasks[3];
    const weft_task_options awaited = {.name = "awaited-task"};
    const weft_task_options waiting = {.name = "joiner-task"};
    CHECK_EQ(weft_runtime_spawn(runtime, &tasks[0], stand_by, &open, &awaited), 0);
    for (int i = 1; i < 3; i++) {
        CHECK_EQ(weft_runtime_spawn(runtime, &tasks[i], join_task, tasks[0], &waiting), 0);
        wait_for_state(tasks[i], WEFT_TASK_BLOCKED);
    }
    int fd = open_file();
    CHECK_EQ(weft_runtime_dump(runtime, fd), 3);
    read_file(fd);
    CHECK_EQ(count_lines("awaited-task"), 1);
    CHECK_EQ(count_lines("joiner-task"), 2);
    CHECK(count_lines("") >= 3 + setting->workers);
    raise_by_one(&open);
    CHECK_EQ(weft_await(tasks[1]), 0);
    CHECK_EQ(weft_await(tasks[2]), 0);
    CHECK_EQ(weft_await(tasks[0]), 0);
}

static intptr_t read_byte(void *arg)
{
    char byte;
    return weft_read(*(int *)arg, &byte, 1);
}

static intptr_t lock_mutex(void *arg)
{
    CHECK_EQ(weft_mutex_lock(arg), 0);
    return weft_mutex_unlock(arg);
}

/* Each line has the kind of the wait, and the object by its number or address. */
static void dump_waits(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    int pipe_ends[2];
    char wait[64];
    weft_mutex mutex = {0};
    weft_task *tasks[3];
    const weft_task_options pinned = {.is_pinned = true};
    CHECK_EQ(pipe(pipe_ends), 0);
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    CHECK_EQ(weft_runtime_spawn(runtime, &tasks[0], read_byte, &pipe_ends[0], &pinned), 0);
    CHECK_EQ(weft_runtime_spawn(runtime, &tasks[1], lock_mutex, &mutex, NULL), 0);
    CHECK_EQ(weft_runtime_spawn(runtime, &tasks[2], join_task, tasks[0], NULL), 0);
    for (int i = 0; i < 3; i++) {
        wait_for_state(tasks[i], WEFT_TASK_BLOCKED);
    }
    int fd = open_file();
    CHECK_EQ(weft_runtime_dump(runtime, fd), 3);
    read_file(fd);
    (void)snprintf(wait, sizeof(wait), " on %s %d for ", weft_wait_name(WEFT_WAIT_READABLE),
                   pipe_ends[0]);
    CHECK_EQ(count_lines(wait), 1);
    (void)snprintf(wait, sizeof(wait), " on %s %p for ", weft_wait_name(WEFT_WAIT_MUTEX),
                   (void *)&mutex);
    CHECK_EQ(count_lines(wait), 1);
    (void)snprintf(wait, sizeof(wait), " on %s %llu for ", weft_wait_name(WEFT_WAIT_TASK),
                   (unsigned long long)weft_task_id(tasks[0]));
    CHECK_EQ(count_lines(wait), 1);
    CHECK_EQ(count_lines(", pinned"), 1);
    CHECK_EQ(write(pipe_ends[1], "x", 1), 1);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    CHECK_EQ(weft_await(tasks[2]), 0);
    CHECK_EQ(weft_await(tasks[1]), 0);
    CHECK_EQ(weft_await(tasks[0]), 1);
    CHECK_EQ(weft_close(pipe_ends[0]), 0);
    CHECK_EQ(close(pipe_ends[1]), 0);
}

static void dump_names_what_each_task_waits_for(void)
{
    open_under(EVERYWHERE, dump_waits);
}

/* S2.50: with task_local_values_belong_to_their_task in test_key.c */
static void dump_has_a_line_for_each_task_and_worker(void)
{
    open_under(EVERYWHERE, dump_some);
}

/* ---- traces ---------------------------------------------------------------------------------- */

static void trace_some(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    const uint32_t bad[] = {0, 8, 17, 1000, (1u << 20) + 1, 1u << 21};
    int fd = open_file();
    CHECK_EQ(weft_runtime_trace_stop(runtime, fd), -EALREADY); /* not started */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(weft_runtime_trace_start(runtime, bad[i]), -EINVAL);
    }
    CHECK_EQ(weft_runtime_trace_start(runtime, 1024), 0);
    CHECK_EQ(weft_runtime_trace_start(runtime, 1024), -EALREADY);
    CHECK_EQ(weft_await(go_into(runtime, yield_some, NULL)), 0);
    CHECK(weft_runtime_trace_stop(runtime, fd) >= 0);
    CHECK_EQ(weft_runtime_trace_stop(runtime, fd), -EALREADY);
    read_file(fd);
    CHECK(count_lines("spawn") >= 1);
    fd = open_file();
    CHECK_EQ(weft_runtime_trace_start(runtime, 16),
             0); /* a new trace, without events of the first */
    CHECK(weft_runtime_trace_stop(runtime, fd) >= 0);
    read_file(fd);
    CHECK_EQ(count_lines("spawn"), 0);
}

static void trace_starts_once_and_is_written(void)
{
    open_under(EVERYWHERE, trace_some);
}

static intptr_t spawn_and_end(void *arg)
{
    for (int i = 0; i < 200; i++) {
        weft_task *tasks[8];
        for (int k = 0; k < 8; k++) {
            tasks[k] = go(echo, arg);
        }
        CHECK_EQ(weft_await_all(tasks, 8, NULL), 0);
    }
    return 0;
}

static void dump_while_tasks_end(weft_runtime *runtime, const struct setting *setting)
{
    if (setting->workers != 2) {
        return; /* tasks begin in the memory of ended ones: more workers show nothing new */
    }
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    weft_task *task = go_into(runtime, spawn_and_end, NULL);
    while (weft_try_join(task, NULL) == -EAGAIN) {
        CHECK(weft_runtime_dump(runtime, fd) >= 0);
    }
    weft_task_unref(task);
    CHECK_EQ(close(fd), 0);
}

/* ThreadSanitizer checks the reads of the dump while another task begins in the same memory. */
static void dump_tolerates_tasks_that_begin_and_end(void)
{
    open_under(EVERYWHERE, dump_while_tasks_end);
}

static const struct tap_test tests[] = {
    TAP_TEST(stats_count_spawns_ends_failures_cancels_and_yields),
    TAP_TEST(worker_stats_count_only_the_own_worker),
    TAP_TEST(stats_show_starvation),
    TAP_TEST(spawn_never_waits),
    TAP_TEST(obs_calls_reject_bad_arguments),
    TAP_TEST(dump_has_a_line_for_each_task_and_worker),
    TAP_TEST(dump_names_what_each_task_waits_for),
    TAP_TEST(trace_starts_once_and_is_written),
    TAP_TEST(dump_tolerates_tasks_that_begin_and_end),
};
TAP_MAIN(tests)
