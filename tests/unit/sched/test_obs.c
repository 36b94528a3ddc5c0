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

#include "sched/sched.h"
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

/* part of S2.8: statistics */
static void what_happened_is_counted(void)
{
    open_under(EVERYWHERE, count_ends);
}

enum { WORKERS_MOST = 8 };

/* What the worker of each does is known, since it does nothing else. */
struct ledger {
    unsigned workers;
    wf_atomic_u32 arrived;
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

static intptr_t keep_books(void *arg)
{
    struct ledger *ledger = arg;
    const weft_task_options here = {.is_pinned = true};
    raise_by_one(&ledger->arrived);
    hold_for(&ledger->arrived, ledger->workers); /* so each is on another */
    CHECK_EQ(weft_pin(1), 0);
    weft_counters before;
    weft_counters after;
    const unsigned worker = wf_worker_self()->index;
    unsigned yields = worker + 2;
    const unsigned count = 2 * worker + 1;
    CHECK_EQ(weft_worker_stats(weft_runtime_self(), worker, &before), 0);
    for (unsigned i = 0; i < count; i++) {
        weft_task *task = NULL;
        CHECK_EQ(weft_spawn(&task, yield_and_fail, &yields, &here), 0);
        CHECK_EQ(weft_await(task), -EIO);
    }
    raise_by_one(&ledger->done);
    hold_for(&ledger->done, ledger->workers); /* what the others did is not in it */
    CHECK_EQ(weft_worker_stats(weft_runtime_self(), worker, &after), 0);
    CHECK_EQ(after.spawned - before.spawned, count);
    CHECK_EQ(after.completed - before.completed, count);
    CHECK_EQ(after.failed - before.failed, count);
    CHECK_EQ(after.cancelled, before.cancelled);
    CHECK_EQ(after.yielded - before.yielded, (uint64_t)count * yields);
    CHECK(after.polled - before.polled >= (uint64_t)count * (yields + 1));
    CHECK_EQ(after.stolen, before.stolen);
    CHECK_EQ(after.queue_depth, 0);
    raise_by_one(&ledger->read);
    hold_for(&ledger->read, ledger->workers);
    return weft_pin(0);
}

static void keep_books_of_each(weft_runtime *runtime, const struct setting *setting)
{
    struct ledger ledger = {.workers = setting->workers};
    weft_task *tasks[WORKERS_MOST];
    for (unsigned i = 0; i < setting->workers; i++) {
        tasks[i] = go_into(runtime, keep_books, &ledger);
    }
    CHECK_EQ(weft_await_all(tasks, setting->workers, NULL), 0);
}

/* S2.29 */
static void each_worker_counts_what_it_does_itself(void)
{
    open_under(EVERYWHERE, keep_books_of_each);
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
    const weft_stats stats = stats_of(runtime);
    return stats.global_depth + stats.total.queue_depth;
}

static void starve(weft_runtime *runtime, const struct setting *setting)
{
    wf_atomic_u32 cells[2] = {{0}, {0}};
    weft_task *hogs[WORKERS_MOST];
    weft_task *tasks[GOOD];
    for (unsigned i = 0; i < setting->workers; i++) {
        hogs[i] = go_into(runtime, begin_and_hold, cells);
    }
    wait_for(&cells[0], setting->workers);
    for (int i = 0; i < GOOD; i++) {
        tasks[i] = go_into(runtime, echo, NULL);
    }
    while (waiting_in(runtime) < GOOD) { /* the reactor takes its time to see them */
        (void)sched_yield();
    }
    const weft_stats before = stats_of(runtime);
    for (int i = 0; i < GOOD; i++) {
        CHECK_EQ(info_of(tasks[i]).runs, 0);
    }
    const weft_stats after = stats_of(runtime);
    CHECK_EQ(waiting_in(runtime), GOOD);               /* they wait */
    CHECK_EQ(after.total.polled, before.total.polled); /* nobody has a turn */
    CHECK_EQ(after.parked, 0);                         /* though nobody is idle */
    raise_by_one(&cells[1]);
    CHECK_EQ(weft_await_all(hogs, setting->workers, NULL), 0);
    CHECK_EQ(weft_await_all(tasks, GOOD, NULL), 0);
    CHECK_EQ(waiting_in(runtime), 0);
    CHECK(stats_of(runtime).total.polled >= after.total.polled + GOOD);
}

/* S2.52: with a_failure_leaves_the_others_alone in test_failure.c and a_spawn_never_waits below;
 * here there are no spares, which would step in. */
static void starvation_can_be_seen_in_the_statistics(void)
{
    open_under(EVERYWHERE, starve);
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
    CHECK_EQ(info_of(weft_self()).runs, runs); /* it has not been away */
    return weft_await_all(tasks, MANY, NULL);
}

/* S2.52: where a limit is reached it is refused at once, if the options do not want it to wait: see
 * a_runtime_with_a_limit_of_tasks_refuses_and_recovers in test_runtime.c. */
static void a_spawn_never_waits(void)
{
    run_under(EVERYWHERE, spawn_many);
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
    CHECK(count_lines("spawn") >= 1);
    fd = open_file();
    CHECK_EQ(weft_trace_start(runtime, 16), 0); /* another one, with nothing of the first */
    CHECK(weft_trace_stop(runtime, fd) >= 0);
    read_file(fd);
    CHECK_EQ(count_lines("spawn"), 0);
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
    TAP_TEST(each_worker_counts_what_it_does_itself),
    TAP_TEST(starvation_can_be_seen_in_the_statistics),
    TAP_TEST(a_spawn_never_waits),
    TAP_TEST(bad_questions_are_refused),
    TAP_TEST(a_dump_has_a_line_for_each_task_and_worker),
    TAP_TEST(a_trace_is_started_once_and_written),
    TAP_TEST(a_dump_does_not_mind_tasks_that_come_and_go),
};
TAP_MAIN(tests)
