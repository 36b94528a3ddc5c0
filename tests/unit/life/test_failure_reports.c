/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the number of lines about unobserved failures is limited and no failure is left out of
 *         the count; weft_await(NULL) gives the error of the spawn that failed.
 * Method: many tasks that fail, at once and one by one, in a child process whose stderr is read;
 *         runtimes that are full or closing.
 */
#include <string.h>

#include "helpers.h"
#include "sched_helpers.h"

/* ---- many reports ---------------------------------------------------------------------------- */

enum { CROWD = 100 };

static void count_report(void *context, const weft_failure *failure)
{
    CHECK_EQ(failure->error, -EIO);
    raise_by_one(context);
}

static intptr_t fail_plainly(void *arg)
{
    raise_by_one(arg);
    return -EIO;
}

static intptr_t drop_many_failures(void *arg)
{
    wf_atomic_u32 *failed = arg;
    for (uint32_t i = 0; i < CROWD; i++) {
        CHECK_EQ(weft_spawn(NULL, fail_plainly, failed, NULL), 0);
    }
    wait_for(failed, CROWD); /* or our end would cancel them */
    return 0;
}

static void run_many_failures(void)
{
    wf_atomic_u32 failed = {0};
    CHECK_EQ(weft_run(drop_many_failures, &failed, &(weft_runtime_options){.workers = 2}), 0);
}

/* The runtime is quiescent after each of them, and reports it. */
static void run_failures_one_by_one(void)
{
    weft_runtime *runtime = NULL;
    wf_atomic_u32 failed = {0};
    CHECK_EQ(weft_runtime_open(&runtime, &(weft_runtime_options){.workers = 2}), 0);
    for (uint32_t i = 0; i < CROWD; i++) {
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, fail_plainly, &failed, NULL), 0);
        wait_for(&failed, i + 1);
        while (stats_of(runtime).parked < 2) {
            (void)sched_yield();
        }
    }
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

/* Lines on stderr for single failures, and failures that were only counted. */
struct lines {
    uint32_t shown;
    uint32_t counted;
    uint32_t summaries;
};

static struct lines count_lines(const char *text)
{
    struct lines lines = {0};
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        unsigned more = 0;
        CHECK(strchr(line, '\n') != NULL);
        if (sscanf(line, "weft: and %u more", &more) == 1) {
            lines.counted += more;
            lines.summaries++;
        } else {
            CHECK(strncmp(line, "weft: task ", strlen("weft: task ")) == 0);
            lines.shown++;
        }
    }
    return lines;
}

/* Each window of the limit is at least a second long: the child had no more of them than began in
 * the time that it took. */
static void check_lines_of(void (*run)(void))
{
    static char text[32768];
    const int64_t begin_ns = wf_clock_now();
    CHECK_EQ(tap_run_child(run, text, sizeof(text)), 0);
    const int64_t windows_max = (wf_clock_now() - begin_ns) / WF_NS_PER_S + 1;
    const struct lines lines = count_lines(text);
    CHECK_EQ(lines.shown + lines.counted, CROWD);
    CHECK(lines.shown >= WF_FAILURE_LINES);
    CHECK(lines.shown <= WF_FAILURE_LINES * windows_max);
    CHECK(lines.summaries <= windows_max + 1); /* and the last one, at the close */
    CHECK(lines.summaries >= (lines.counted > 0 ? 1 : 0));
}

static void stderr_reports_are_limited_per_second(void)
{
    check_lines_of(run_many_failures);
    check_lines_of(run_failures_one_by_one);
}

static void hook_gets_every_failure(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        wf_atomic_u32 reports = {0};
        wf_atomic_u32 failed = {0};
        tour.options.on_failure = count_report;
        tour.options.hook_context = &reports;
        CHECK_EQ(weft_run(drop_many_failures, &failed, &tour.options), 0);
        CHECK_EQ(wf_load_acquire(&reports), CROWD);
    }
}

/* ---- spawns that fail ------------------------------------------------------------------------ */

static intptr_t await_what_was_not_started(void *arg)
{
    (void)arg;
    weft_task *tasks[2] = {NULL, NULL};
    intptr_t results[2] = {0, 0};
    CHECK_EQ(weft_await(NULL), -ENOMEM); /* no weft_go has failed */
    CHECK_EQ(weft_await(weft_go(echo, (void *)3)), -EAGAIN);
    (void)weft_yield();
    CHECK_EQ(weft_await(NULL), -EAGAIN);
    CHECK_EQ(weft_await_all(tasks, 2, results), -EAGAIN);
    CHECK_EQ(results[1], -EAGAIN);
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_await(weft_go(echo, (void *)3)), -EAGAIN);
    CHECK_EQ(weft_shield_begin(), 0); /* weft_run waits for our result */
    return 0;
}

static void await_of_null_gives_the_error_of_the_spawn(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.tasks_max = 1;
        CHECK_EQ(weft_run(await_what_was_not_started, NULL, &tour.options), 0);
    }
}

/* A server whose loop ends when the next task cannot be started. */
static intptr_t spawn_until_refused(void *arg)
{
    raise_by_one(arg);
    CHECK_EQ(weft_shield_begin(), 0); /* it does not see the cancellation of the close */
    intptr_t rc = 0;
    while (rc == 0) {
        rc = weft_await(weft_go(echo, NULL));
        (void)weft_yield(); /* depth first, the other would not begin */
    }
    CHECK_EQ(weft_shield_end(), 0);
    return rc;
}

/* The closer has caused the error, so the failure is not reported: the hook allows none. */
static void spawn_refused_by_the_close_is_not_reported(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        wf_atomic_u32 started = {0};
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *kept = go_into(runtime, spawn_until_refused, &started);
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, spawn_until_refused, &started, NULL), 0);
        wait_for(&started, 2);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(weft_await(kept), -ESHUTDOWN);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(stderr_reports_are_limited_per_second),
    TAP_TEST(hook_gets_every_failure),
    TAP_TEST(await_of_null_gives_the_error_of_the_spawn),
    TAP_TEST(spawn_refused_by_the_close_is_not_reported),
};
TAP_MAIN(tests)
