/* SPDX-License-Identifier: MIT */
/*
 * Goal:   what a runtime says of itself is true: counters, dumps, traces.
 * Method: known numbers of tasks that end in known ways, counted against the statistics; dumps and
 *         traces are read back from a file.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched_aids.h"

static char text[1 << 16];

/* A file that has no name. */
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

enum { GOOD = 20, BAD = 7, CANCELLED = 5, YIELDS = 3 };

static intptr_t yield_some(void *arg)
{
    (void)arg;
    for (int i = 0; i < YIELDS; i++) {
        (void)weft_yield();
    }
    return 0;
}

static intptr_t sleep_a_little(void *arg)
{
    (void)arg;
    return weft_sleep(WEFT_MILLISECOND);
}

static void count_ends(weft_runtime *runtime, const struct setting *setting)
{
    wf_atomic_u32 never = {0};
    weft_task *tasks[GOOD];
    for (int i = 0; i < GOOD; i++) {
        tasks[i] = go_into(runtime, yield_some, NULL);
    }
    CHECK_EQ(weft_await_all(tasks, GOOD, NULL), 0);
    for (int i = 0; i < BAD; i++) {
        CHECK_EQ(weft_await(go_into(runtime, echo, (void *)-EIO)), -EIO);
    }
    for (int i = 0; i < CANCELLED; i++) {
        weft_task *task = go_into(runtime, stand_by_or_leave, &never);
        CHECK_EQ(weft_cancel(task), 0);
        CHECK_EQ(weft_await(task), -ECANCELED);
    }
    CHECK_EQ(weft_await(go_into(runtime, sleep_a_little, NULL)), 0);
    while (stats_of(runtime).live > 0) { /* whoever awaits may be told a moment earlier */
        (void)sched_yield();
    }
    const weft_stats stats = stats_of(runtime);
    CHECK_EQ(stats.workers, setting->workers);
    CHECK_EQ(stats.total.spawned, GOOD + BAD + CANCELLED + 1);
    CHECK_EQ(stats.total.completed, GOOD + BAD + CANCELLED + 1);
    CHECK_EQ(stats.timers_fired, 1);
    CHECK_EQ(stats.io_events, 0);
    CHECK_EQ(stats.total.failed, BAD);
    CHECK_EQ(stats.total.cancelled, CANCELLED);
    CHECK(stats.total.yielded >= (uint64_t)GOOD * YIELDS);
    CHECK(stats.total.polled >= GOOD + BAD);
    CHECK_EQ(stats.global_depth, 0);
    CHECK_EQ(stats.total.queue_depth, 0);
    CHECK_EQ(stats.lost_wakeups, 0);
    uint64_t polled = 0;
    for (unsigned i = 0; i < setting->workers; i++) {
        weft_counters counters;
        CHECK_EQ(weft_worker_stats(runtime, i, &counters), 0);
        polled += counters.polled;
    }
    CHECK_EQ(polled, stats.total.polled);
}

/* part of S2.8, part of S2.29: statistics */
static void what_happened_is_counted(void)
{
    open_under(EVERYWHERE, count_ends);
}

static void ask_badly(weft_runtime *runtime, const struct setting *setting)
{
    weft_stats stats;
    weft_counters counters;
    CHECK_EQ(weft_runtime_stats(NULL, &stats), -EINVAL);
    CHECK_EQ(weft_runtime_stats(runtime, NULL), -EINVAL);
    CHECK_EQ(weft_worker_stats(NULL, 0, &counters), -EINVAL);
    CHECK_EQ(weft_worker_stats(runtime, 0, NULL), -EINVAL);
    CHECK_EQ(weft_worker_stats(runtime, setting->workers, &counters), -EINVAL);
    CHECK(weft_dump(runtime, -1) < 0);
    CHECK_EQ(weft_dump(NULL, STDERR_FILENO), -EINVAL);
}

static void bad_questions_are_refused(void)
{
    open_under(EVERYWHERE, ask_badly);
}

/* ---- dumps ----------------------------------------------------------------------------------- */

static intptr_t join_it(void *arg)
{
    return weft_join(arg, NULL);
}

static void dump_some(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    wf_atomic_u32 open = {0};
    weft_task *tasks[3];
    const weft_task_options awaited = {.name = "the-awaited"};
    const weft_task_options waiting = {.name = "who-waits"};
    CHECK_EQ(weft_runtime_spawn(runtime, &tasks[0], stand_by, &open, &awaited), 0);
    for (int i = 1; i < 3; i++) {
        CHECK_EQ(weft_runtime_spawn(runtime, &tasks[i], join_it, tasks[0], &waiting), 0);
        wait_for_state(tasks[i], WEFT_BLOCKED);
    }
    int fd = open_file();
    CHECK_EQ(weft_dump(runtime, fd), 3);
    read_file(fd);
    CHECK_EQ(count_lines("the-awaited"), 1);
    CHECK_EQ(count_lines("who-waits"), 2);
    CHECK(count_lines("") >= 3 + setting->workers);
    raise_by_one(&open);
    CHECK_EQ(weft_await(tasks[1]), 0);
    CHECK_EQ(weft_await(tasks[2]), 0);
    CHECK_EQ(weft_await(tasks[0]), 0);
}

/* S2.50: with a_task_keeps_values_of_its_own in test_task.c */
static void a_dump_has_a_line_for_each_task_and_worker(void)
{
    open_under(EVERYWHERE, dump_some);
}

/* ---- traces ---------------------------------------------------------------------------------- */

static void trace_some(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    const uint32_t bad[] = {0, 8, 17, 1000, (1u << 20) + 1, 1u << 21};
    int fd = open_file();
    CHECK_EQ(weft_trace_stop(runtime, fd), -EALREADY); /* not started */
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(weft_trace_start(runtime, bad[i]), -EINVAL);
    }
    CHECK_EQ(weft_trace_start(runtime, 1024), 0);
    CHECK_EQ(weft_trace_start(runtime, 1024), -EALREADY);
    CHECK_EQ(weft_await(go_into(runtime, yield_some, NULL)), 0);
    CHECK(weft_trace_stop(runtime, fd) >= 0);
    CHECK_EQ(weft_trace_stop(runtime, fd), -EALREADY);
    read_file(fd);
    CHECK(count_lines("") >= 1);
}

static void a_trace_is_started_once_and_written(void)
{
    open_under(EVERYWHERE, trace_some);
}

static intptr_t come_and_go(void *arg)
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

static void dump_meanwhile(weft_runtime *runtime, const struct setting *setting)
{
    if (setting->workers != 2) {
        return; /* one task begins where another ended: more workers show no more */
    }
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    weft_task *task = go_into(runtime, come_and_go, NULL);
    while (weft_try_join(task, NULL) == -EAGAIN) {
        CHECK(weft_dump(runtime, fd) >= 0);
    }
    weft_drop(task);
    CHECK_EQ(close(fd), 0);
}

/* ThreadSanitizer sees what a dump reads of a task while another begins in its memory. */
static void a_dump_does_not_mind_tasks_that_come_and_go(void)
{
    open_under(EVERYWHERE, dump_meanwhile);
}

static const struct tap_test tests[] = {
    TAP_TEST(what_happened_is_counted),
    TAP_TEST(bad_questions_are_refused),
    TAP_TEST(a_dump_has_a_line_for_each_task_and_worker),
    TAP_TEST(a_trace_is_started_once_and_written),
    TAP_TEST(a_dump_does_not_mind_tasks_that_come_and_go),
};
TAP_MAIN(tests)
