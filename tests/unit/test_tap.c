/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the harness itself tells the truth: what fails, crashes, hangs or skips is reported so.
 * Method: each case runs a small suite in a child process and reads the TAP it prints.
 */
#include "tap.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct tap_test *inner;
static char inner_name[] = "inner";
static char *inner_args[3] = {inner_name, NULL, NULL};
static int inner_argc = 1;
static const char *inner_variable; /* set for the inner suite alone; NULL: none */
static const char *inner_value;

static void run_inner(void)
{
    CHECK(inner_variable == NULL || setenv(inner_variable, inner_value, 1) == 0);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* tap_run_child collects stderr */
    exit(tap_main(inner_argc, inner_args, "inner", inner, 1));
}

/* Runs one inner test; gives its report and the suite's exit status. */
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
    for (;;) { /* never reached: the thread's failure ends the process */
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

static void a_passing_test_is_ok(void)
{
    const struct tap_test test = TAP_TEST(pass);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 0);
    CHECK(strstr(text, "ok 1 - pass\n1..1") == text);
}

static void a_failed_check_names_place_and_values(void)
{
    const struct tap_test test = TAP_TEST(fail_plainly);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "not ok 1 - fail_plainly") == text);
    CHECK(strstr(text, "test_tap.c:") != NULL);
    CHECK(strstr(text, "1 + 1 == 3 (2, 3)") != NULL);
    CHECK(strstr(text, "# again: WEFT_TEST_SEED=") != NULL);
    CHECK(strstr(text, " inner fail_plainly\n") != NULL);
}

static void a_failure_in_any_thread_fails_the_test(void)
{
    const struct tap_test test = TAP_TEST(fail_elsewhere);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "arg != NULL") != NULL);
}

static void a_crash_is_a_failure_with_its_signal(void)
{
    const struct tap_test test = TAP_TEST(crash);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "# ended by signal 9") != NULL);
}

static void crash_at_the_second_thing(void)
{
    tap_doing("thing %d", 1);
    tap_doing("thing %d", 2);
    (void)raise(SIGKILL);
}

static void a_failed_test_says_what_it_was_doing_however_it_ended(void)
{
    const struct tap_test test = TAP_TEST(crash_at_the_second_thing);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "# while: thing 2\n") != NULL);
    CHECK(strstr(text, "thing 1") == NULL);
}

static void leave_early(void)
{
    _exit(0);
}

/* Code under test that exits by itself has not passed, whatever it says. */
static void a_test_that_does_not_return_fails(void)
{
    const struct tap_test test = TAP_TEST(leave_early);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "# exit status 0") != NULL);
}

static void a_hanging_test_is_ended_and_fails(void)
{
    const struct tap_test test = TAP_TEST_LIMIT(hang, 1);
    char text[4096];
    CHECK_EQ(setenv("WEFT_TEST_TIME", "1", 1), 0); /* slow builds need not wait longer for it */
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "# hung") != NULL);
}

/* Were it not, this test itself would hang. */
static void a_hanging_child_is_ended_by_a_limit_that_scales_too(void)
{
    char text[4096];
    CHECK_EQ(setenv("WEFT_TEST_TIME", "0.01", 1), 0);
    int status = tap_run_child(hang, text, sizeof(text));
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGKILL);
}

static void a_skip_counts_as_ok_and_says_why(void)
{
    const struct tap_test test = TAP_TEST(skip);
    char text[4096];
    CHECK_EQ(report_of(&test, text, sizeof(text)), 0);
    CHECK(strstr(text, "ok 1 - skip # SKIP no such device") == text);
}

static void a_filter_that_matches_nothing_is_an_error(void)
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
    inner_argc = 1;
}

static void the_seed_comes_from_the_environment(void)
{
    const struct tap_test test = TAP_TEST(fail_plainly);
    char text[4096];
    CHECK_EQ(setenv("WEFT_TEST_SEED", "4711", 1), 0);
    CHECK_EQ(report_of(&test, text, sizeof(text)), 1);
    CHECK(strstr(text, "# again: WEFT_TEST_SEED=4711 inner fail_plainly\n") != NULL);
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

static void variables_that_are_no_numbers_are_refused(void)
{
    check_refused("WEFT_TEST_SEED", "", "WEFT_TEST_SEED=: not a number\n");
    check_refused("WEFT_TEST_SEED", "-1", "WEFT_TEST_SEED=-1: not a number\n");
    check_refused("WEFT_TEST_SEED", "12x", "WEFT_TEST_SEED=12x: not a number\n");
    check_refused("WEFT_TEST_TIME", "", "WEFT_TEST_TIME=: not a positive number\n");
    check_refused("WEFT_TEST_TIME", "0", "WEFT_TEST_TIME=0: not a positive number\n");
    check_refused("WEFT_TEST_TIME", "5s", "WEFT_TEST_TIME=5s: not a positive number\n");
    check_refused("WEFT_TEST_TIME", "nan", "WEFT_TEST_TIME=nan: not a positive number\n");
}

static void options_but_list_give_the_usage(void)
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
    TAP_TEST(a_passing_test_is_ok),
    TAP_TEST(a_failed_check_names_place_and_values),
    TAP_TEST(a_failure_in_any_thread_fails_the_test),
    TAP_TEST(a_crash_is_a_failure_with_its_signal),
    TAP_TEST(a_failed_test_says_what_it_was_doing_however_it_ended),
    TAP_TEST(a_test_that_does_not_return_fails),
    TAP_TEST(a_hanging_test_is_ended_and_fails),
    TAP_TEST(a_hanging_child_is_ended_by_a_limit_that_scales_too),
    TAP_TEST(a_skip_counts_as_ok_and_says_why),
    TAP_TEST(a_filter_that_matches_nothing_is_an_error),
    TAP_TEST(the_seed_comes_from_the_environment),
    TAP_TEST(variables_that_are_no_numbers_are_refused),
    TAP_TEST(options_but_list_give_the_usage),
};
TAP_MAIN(tests)
