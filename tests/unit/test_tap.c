/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the harness reports failures, crashes, hangs and skips correctly.
 * Method: each test runs a small suite in a child process and reads its TAP output.
 */
#include "tap.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

static const struct tap_test *inner;
static char inner_name[] = "inner";
static char *inner_args[3] = {inner_name, NULL, NULL};
static int inner_argc = 1;
static const char *inner_variable; /* set only for the inner suite; NULL: none */
static const char *inner_value;

static void run_inner(void)
{
    CHECK(inner_variable == NULL || setenv(inner_variable, inner_value, 1) == 0);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* tap_run_child collects stderr */
    exit(tap_main(inner_argc, inner_args, "inner", inner, 1));
}

/* Runs one inner test, copies its report into `text`, and returns the suite's exit status. */
static int report_of(const struct tap_test *test, char *text, size_t size)
{
    inner = test;
    int status = tap_run_child(run_inner, text, size);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void pass(void)
{
}

static void fail_plainly(void)
{
    CHECK_EQ(1 + 1, 3);
}

static void *fail_in_thread(void *arg)
{
    CHECK(arg != NULL);
    return NULL;
}

static void fail_elsewhere(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, fail_in_thread, NULL), 0);
    (void)pthread_join(thread, NULL);
    for (;;) { /* endless: the failed CHECK of the thread ends the process */
        (void)pause();
    }
}

static void crash(void)
{
    (void)raise(SIGKILL);
}

static void hang(void)
{
    for (;;) {
        (void)pause();
    }
}

static void skip(void)
{
    tap_skip("no such device");
}

static void tap_reports_passing_test_as_ok(void)
{
    const struct tap_test test = TAP_TEST(pass);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 0);
    CHECK(strstr(text, "ok 1 - pass\n1..1") == text);
}

static void tap_check_reports_location_and_values(void)
{
    const struct tap_test test = TAP_TEST(fail_plainly);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "not ok 1 - fail_plainly") == text);
    CHECK(strstr(text, "test_tap.c:") != NULL);
    CHECK(strstr(text, "1 + 1 == 3 (2, 3)") != NULL);
    CHECK(strstr(text, "# again: WEFT_TEST_SEED=") != NULL);
    CHECK(strstr(text, " inner =fail_plainly\n") != NULL);
}

static void tap_failure_in_any_thread_fails_the_test(void)
{
    const struct tap_test test = TAP_TEST(fail_elsewhere);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "arg != NULL") != NULL);
}

static void tap_reports_a_crash_with_its_signal(void)
{
    const struct tap_test test = TAP_TEST(crash);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "# ended by signal 9") != NULL);
}

static void crash_at_the_second_step(void)
{
    tap_doing("thing %d", 1);
    tap_doing("thing %d", 2);
    (void)raise(SIGKILL);
}

static void tap_doing_is_reported_however_the_test_ends(void)
{
    const struct tap_test test = TAP_TEST(crash_at_the_second_step);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "# while: thing 2\n") != NULL);
    CHECK(strstr(text, "thing 1") == NULL);
}

static void exit_early(void)
{
    _exit(0);
}

/* A test whose code calls exit has failed, also with status 0. */
static void tap_test_that_exits_fails(void)
{
    const struct tap_test test = TAP_TEST(exit_early);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "# exit status 0") != NULL);
}

/* Whether the log shows `function`, or says why it cannot show stacks and tasks. */
static bool has_stacks(const char *text, const char *function)
{
    return strstr(text, function) != NULL || strstr(text, "# gdb is not installed") != NULL ||
           strstr(text, ": gdb would show that program") != NULL;
}

/* While the task sleeps it is on no thread's stack: only weft_runtime_dump shows it. */
static intptr_t sleep_for_long(void *arg)
{
    (void)arg;
    return weft_sleep(3600 * WEFT_SECOND);
}

static intptr_t wait_for_the_sleeper(void *arg)
{
    weft_task *task;
    const weft_task_options options = {.size = sizeof(options), .name = "sleeper"};
    CHECK_EQ(weft_spawn(&task, sleep_for_long, arg, &options), 0);
    return weft_await(task);
}

static void hang_in_tasks(void)
{
    (void)weft_run(wait_for_the_sleeper, NULL, NULL);
}

static void tap_hanging_test_shows_stacks_and_tasks(void)
{
    const struct tap_test test = TAP_TEST_LIMIT(hang_in_tasks, 1);
    static char text[65536];
    CHECK_EQ(setenv("WEFT_TEST_TIME", "1", 1),
             0); /* not longer in slow builds: this test waits for it */
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "# hang_in_tasks has run for more than 1000 ms") == text);
    CHECK(strstr(text, "not ok 1 - hang_in_tasks\n# hung: still running after 3 times 1000 ms"));
    CHECK(has_stacks(text, " hang_in_tasks ("));
    CHECK(has_stacks(text, "\"sleeper\" blocked on "));
}

static void take_more_than_a_second(void)
{
    (void)usleep(1300 * 1000);
}

static void tap_test_beyond_its_limit_is_slow(void)
{
    const struct tap_test test = TAP_TEST_LIMIT(take_more_than_a_second, 1);
    static char text[65536];
    CHECK_EQ(setenv("WEFT_TEST_TIME", "1", 1), 0); /* as in the test before */
    CHECK_EQ(report_of(&test, text, sizeof(text)), 0);
    CHECK(strstr(text, "# take_more_than_a_second has run for more than 1000 ms") == text);
    CHECK(strstr(text, "\nok 1 - take_more_than_a_second # SLOW\n1..1") != NULL);
}

static void be_late(void)
{
    CHECK_TIME(1 + 1 < 2);
}

static void tap_failed_time_check_is_marked(void)
{
    const struct tap_test test = TAP_TEST(be_late);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, ": failed: late: 1 + 1 < 2\n") != NULL);
}

/* Without a working limit this test would hang. */
static void tap_child_limit_scales_and_kills_a_hanging_child(void)
{
    char text[4096];
    CHECK_EQ(setenv("WEFT_TEST_TIME", "0.01", 1), 0);
    int status = tap_run_child(hang, text, sizeof(text));
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGKILL);
}

static void tap_skip_counts_as_ok_with_its_reason(void)
{
    const struct tap_test test = TAP_TEST(skip);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 0);
    CHECK(strstr(text, "ok 1 - skip # SKIP no such device") == text);
}

static void tap_filter_without_match_is_an_error(void)
{
    const struct tap_test test = TAP_TEST(pass);
    char text[4096];
    char name[] = "other";
    inner_args[1] = name;
    inner_argc = 2;
    CHECK_EQ(report_of(&test, text, sizeof(text)), 2);
    char part[] = "as";
    inner_args[1] = part;
    CHECK_EQ(report_of(&test, text, sizeof(text)), 0);
    char not_whole[] = "=as";
    inner_args[1] = not_whole;
    CHECK_EQ(report_of(&test, text, sizeof(text)), 2);
    char whole[] = "=pass";
    inner_args[1] = whole;
    CHECK_EQ(report_of(&test, text, sizeof(text)), 0);
    inner_argc = 1;
}

static void tap_seed_comes_from_the_environment(void)
{
    const struct tap_test test = TAP_TEST(fail_plainly);
    char text[4096];
    CHECK_EQ(setenv("WEFT_TEST_SEED", "4711", 1), 0);
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "# again: WEFT_TEST_SEED=4711 inner =fail_plainly\n") != NULL);
}

static void check_refused(const char *variable, const char *value, const char *what)
{
    const struct tap_test test = TAP_TEST(pass);
    char text[4096];
    inner_variable = variable;
    inner_value = value;
    CHECK_EQ(report_of(&test, text, sizeof(text)), 2);
    CHECK_STR(text, what);
}

static void tap_refuses_variables_that_are_not_numbers(void)
{
    check_refused("WEFT_TEST_SEED", "", "WEFT_TEST_SEED=: not a number\n");
    check_refused("WEFT_TEST_SEED", "-1", "WEFT_TEST_SEED=-1: not a number\n");
    check_refused("WEFT_TEST_SEED", "12x", "WEFT_TEST_SEED=12x: not a number\n");
    check_refused("WEFT_TEST_TIME", "", "WEFT_TEST_TIME=: not a positive number\n");
    check_refused("WEFT_TEST_TIME", "0", "WEFT_TEST_TIME=0: not a positive number\n");
    check_refused("WEFT_TEST_TIME", "5s", "WEFT_TEST_TIME=5s: not a positive number\n");
    check_refused("WEFT_TEST_TIME", "nan", "WEFT_TEST_TIME=nan: not a positive number\n");
}

static void tap_unknown_options_print_the_usage(void)
{
    const struct tap_test test = TAP_TEST(pass);
    char text[4096];
    char unknown[] = "--lst";
    char help[] = "--help";
    char list[] = "--list";
    inner_argc = 2;
    inner_args[1] = unknown;
    CHECK_EQ(report_of(&test, text, sizeof(text)), 2);
    CHECK_STR(text, "usage: inner [--list | NAME...]\n");
    inner_args[1] = help;
    CHECK_EQ(report_of(&test, text, sizeof(text)), 0);
    CHECK_STR(text, "usage: inner [--list | NAME...]\n");
    inner_args[1] = list;
    CHECK_EQ(report_of(&test, text, sizeof(text)), 0);
    CHECK_STR(text, "pass\n");
    inner_argc = 1;
}

static const struct tap_test tests[] = {
    TAP_TEST(tap_reports_passing_test_as_ok),
    TAP_TEST(tap_check_reports_location_and_values),
    TAP_TEST(tap_failure_in_any_thread_fails_the_test),
    TAP_TEST(tap_reports_a_crash_with_its_signal),
    TAP_TEST(tap_doing_is_reported_however_the_test_ends),
    TAP_TEST(tap_test_that_exits_fails),
    TAP_TEST_LIMIT(tap_hanging_test_shows_stacks_and_tasks, 60),
    TAP_TEST_LIMIT(tap_test_beyond_its_limit_is_slow, 60),
    TAP_TEST(tap_failed_time_check_is_marked),
    TAP_TEST(tap_child_limit_scales_and_kills_a_hanging_child),
    TAP_TEST(tap_skip_counts_as_ok_with_its_reason),
    TAP_TEST(tap_filter_without_match_is_an_error),
    TAP_TEST(tap_seed_comes_from_the_environment),
    TAP_TEST(tap_refuses_variables_that_are_not_numbers),
    TAP_TEST(tap_unknown_options_print_the_usage),
};
TAP_MAIN(tests)
