/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a broken assertion is reported in the builds that check it and ends the process; reached
 *         marks, jitter and fault points do what tests rely on.
 * Method: panics happen in child processes; the test compares their stderr and wait status.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "helpers.h"

static bool has_aborted(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static bool has_ended_well(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Compares the text that a child wrote to stderr; an emulator adds a line about the signal. */
static bool is_report(const char *text, const char *expected)
{
    const size_t length = strlen(expected);
    return strncmp(text, expected, length) == 0 &&
           (text[length] == '\0' || strncmp(text + length, "qemu: ", strlen("qemu: ")) == 0);
}

/* ---- assertion levels ---------------------------------------------------------------------- */

static void break_check(void)
{
    WEFT_CHECK(1 + 1 == 3);
}

static void break_assert(void)
{
    WEFT_ASSERT(2 + 2 == 5);
}

static void break_slow_assert(void)
{
    WEFT_ASSERT_SLOW(3 + 3 == 7);
}

static void assert_levels_panic_in_the_builds_that_check_them(void)
{
    static const struct {
        void (*run)(void);
        const char *condition;
        bool is_on;
    } rows[] = {
        {break_check, "1 + 1 == 3", true},
        {break_assert, "2 + 2 == 5", HAS_ASSERTS},
        {break_slow_assert, "3 + 3 == 7", HAS_SLOW_ASSERTS},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[1024];
        int status = tap_run_child(rows[i].run, text, sizeof(text));
        CHECK(rows[i].is_on ? has_aborted(status) : has_ended_well(status));
        CHECK_EQ(strstr(text, rows[i].condition) != NULL, rows[i].is_on);
    }
}

static void assert_evaluates_its_condition_at_most_once(void)
{
    int checks = 0;
    int asserts = 0;
    int slow_asserts = 0;
    WEFT_CHECK(++checks > 0);
    WEFT_ASSERT(++asserts > 0);
    WEFT_ASSERT_SLOW(++slow_asserts > 0);
    CHECK_EQ(checks, 1);
    CHECK_EQ(asserts, HAS_ASSERTS);
    CHECK_EQ(slow_asserts, HAS_SLOW_ASSERTS);
}

/* ---- the report and the hook --------------------------------------------------------------- */

static void panic_plainly(void)
{
    wf_panic("layer/file.c", 123, "state is invalid");
}

static void panic_default_report_is_one_line_on_stderr(void)
{
    char text[1024];
    CHECK(has_aborted(tap_run_child(panic_plainly, text, sizeof(text))));
    CHECK(is_report(text, "weft: layer/file.c:123: broken: state is invalid\n"));
}

static void panic_at_length(void)
{
    char what[2000];
    memset(what, 'x', sizeof(what) - 1);
    what[sizeof(what) - 1] = '\0';
    wf_panic("layer/file.c", 123, what);
}

static void panic_truncates_long_reports(void)
{
    static const char start[] = "weft: layer/file.c:123: broken: xxxx";
    char text[4096];
    CHECK(has_aborted(tap_run_child(panic_at_length, text, sizeof(text))));
    CHECK(strncmp(text, start, strlen(start)) == 0);
    const size_t length = strspn(text + strlen(start), "x");
    CHECK(length < 512);
    CHECK(is_report(text + strlen(start) + length, "\n")); /* still ends with a newline */
}

static void panic_without_stderr(void)
{
    (void)close(STDERR_FILENO);
    panic_plainly();
}

static void panic_aborts_even_if_stderr_is_closed(void)
{
    char text[1024];
    CHECK(has_aborted(tap_run_child(panic_without_stderr, text, sizeof(text))));
}

static void report_to_stderr(const char *file, int line, const char *what)
{
    char text[256];
    int length = snprintf(text, sizeof(text), "hook: %s %d %s", file, line, what);
    CHECK(write(STDERR_FILENO, text, (size_t)length) == length);
}

static void panic_with_hook(void)
{
    (void)wf_panic_hook(report_to_stderr);
    panic_plainly();
}

static void panic_hook_replaces_the_report_and_returning_aborts(void)
{
    char text[1024];
    CHECK(has_aborted(tap_run_child(panic_with_hook, text, sizeof(text))));
    CHECK(is_report(text, "hook: layer/file.c 123 state is invalid"));
}

static void exit_silently(const char *file, int line, const char *what)
{
    (void)file;
    (void)line;
    (void)what;
    _exit(EXIT_SUCCESS);
}

static void panic_and_exit(void)
{
    (void)wf_panic_hook(exit_silently);
    panic_plainly();
}

static void panic_hook_may_exit_the_process(void)
{
    char text[1024];
    CHECK(has_ended_well(tap_run_child(panic_and_exit, text, sizeof(text))));
    CHECK_STR(text, "");
}

static void panic_hook_set_returns_the_previous_hook(void)
{
    CHECK(wf_panic_hook(exit_silently) == NULL);
    CHECK(wf_panic_hook(report_to_stderr) == exit_silently);
    CHECK(wf_panic_hook(NULL) == report_to_stderr);
    CHECK(wf_panic_hook(NULL) == NULL);
    char text[1024];
    CHECK(has_aborted(tap_run_child(panic_plainly, text, sizeof(text))));
    CHECK(is_report(text, "weft: layer/file.c:123: broken: state is invalid\n")); /* the default */
}

/* ---- reached marks ------------------------------------------------------------------------- */

static const struct wf_mark *find_mark(const char *name)
{
    const struct wf_mark *marks;
    size_t count = wf_marks(&marks);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(marks[i].name, name) == 0) {
            return &marks[i];
        }
    }
    return NULL;
}

static void pass_by(bool is_rare)
{
    if (is_rare) {
        WF_REACHED("test.rare");
    } else {
        WF_REACHED("test.common");
    }
}

static void mark_is_listed_before_and_set_when_reached(void)
{
    pass_by(false);
#ifdef WF_TEST_HOOKS
    const struct wf_mark *rare = find_mark("test.rare");
    const struct wf_mark *common = find_mark("test.common");
    CHECK(rare != NULL);
    CHECK(common != NULL);
    CHECK_EQ(wf_load_relaxed(&common->is_reached), 1);
    CHECK_EQ(wf_load_relaxed(&rare->is_reached), 0);
    pass_by(true);
    pass_by(true);
    CHECK_EQ(wf_load_relaxed(&rare->is_reached), 1);
#else
    CHECK(find_mark("test.common") == NULL);
#endif
    CHECK(find_mark("test.none") == NULL);
}

/* ---- jitter -------------------------------------------------------------------------------- */

static void *jitter_often(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        wf_jitter();
        WF_JITTER();
    }
    return arg;
}

static void jitter_returns_in_every_thread_for_every_seed(void)
{
    const uint64_t seeds[] = {0, 1, UINT64_MAX, tap_seed()};
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        pthread_t threads[3];
        wf_jitter_seed(seeds[i]);
        for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
            CHECK_EQ(pthread_create(&threads[t], NULL, jitter_often, NULL), 0);
        }
        (void)jitter_often(NULL);
        for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
            CHECK_EQ(pthread_join(threads[t], NULL), 0);
        }
    }
}

/* ---- fault points -------------------------------------------------------------------------- */

static void fault_fails_exactly_the_armed_call(void)
{
    enum { CALLS = 10 };
    for (uint64_t nth = 1; nth <= CALLS; nth++) {
        wf_fault_arm(nth);
        for (uint64_t call = 1; call <= CALLS; call++) {
            CHECK(!wf_fault_hit(NULL) || call > nth);
            CHECK_EQ(wf_fault_now(call % 2 == 0 ? "even" : "odd"), call == nth);
        }
        const char *what;
        CHECK(wf_fault_hit(&what));
        CHECK_STR(what, nth % 2 == 0 ? "even" : "odd");
        CHECK_EQ(wf_fault_calls(), CALLS);
    }
}

static void fault_unarmed_counts_calls_and_fails_none(void)
{
    const char *what = "";
    CHECK(!wf_fault_now("before"));
    CHECK_EQ(wf_fault_calls(), 1);
    wf_fault_arm(0);
    CHECK_EQ(wf_fault_calls(), 0);
    for (int i = 0; i < 100; i++) {
        CHECK(!wf_fault_now("x"));
    }
    CHECK_EQ(wf_fault_calls(), 100);
    CHECK(!wf_fault_hit(&what));
    CHECK(what == NULL);
}

static void fault_rearming_resets_the_count(void)
{
    wf_fault_arm(1);
    CHECK(wf_fault_now("x"));
    wf_fault_arm(2);
    CHECK(!wf_fault_hit(NULL));
    CHECK(!wf_fault_now("x"));
    CHECK(wf_fault_now("x"));
    wf_fault_arm(5);
    wf_fault_arm(0);
    for (int i = 0; i < 10; i++) {
        CHECK(!wf_fault_now("x"));
    }
}

static void fault_ignored_names_are_not_counted(void)
{
    wf_fault_ignore("noise");
    wf_fault_arm(2);
    CHECK(!wf_fault_now("x"));
    CHECK(!wf_fault_now("noise"));
    CHECK(wf_fault_now("y"));
    CHECK_EQ(wf_fault_calls(), 2);
    wf_fault_ignore(NULL);
    wf_fault_arm(1);
    CHECK(wf_fault_now("noise"));
}

enum { FAULT_THREADS = 4, FAULT_CALLS = 1000 };
static wf_atomic_u32 failures;

static void *call_often(void *arg)
{
    for (int i = 0; i < FAULT_CALLS; i++) {
        if (wf_fault_now("x")) {
            (void)wf_fetch_add_relaxed(&failures, 1);
        }
    }
    return arg;
}

static void fault_fails_one_call_across_threads(void)
{
    pthread_t threads[FAULT_THREADS];
    wf_fault_arm(FAULT_THREADS * FAULT_CALLS / 2);
    for (int i = 0; i < FAULT_THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, call_often, NULL), 0);
    }
    for (int i = 0; i < FAULT_THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(wf_load_relaxed(&failures), 1);
    CHECK_EQ(wf_fault_calls(), FAULT_THREADS * FAULT_CALLS);
}

static const struct tap_test tests[] = {
    TAP_TEST(assert_levels_panic_in_the_builds_that_check_them),
    TAP_TEST(assert_evaluates_its_condition_at_most_once),
    TAP_TEST(panic_default_report_is_one_line_on_stderr),
    TAP_TEST(panic_truncates_long_reports),
    TAP_TEST(panic_aborts_even_if_stderr_is_closed),
    TAP_TEST(panic_hook_replaces_the_report_and_returning_aborts),
    TAP_TEST(panic_hook_may_exit_the_process),
    TAP_TEST(panic_hook_set_returns_the_previous_hook),
    TAP_TEST(mark_is_listed_before_and_set_when_reached),
    TAP_TEST(jitter_returns_in_every_thread_for_every_seed),
    TAP_TEST(fault_fails_exactly_the_armed_call),
    TAP_TEST(fault_unarmed_counts_calls_and_fails_none),
    TAP_TEST(fault_rearming_resets_the_count),
    TAP_TEST(fault_ignored_names_are_not_counted),
    TAP_TEST(fault_fails_one_call_across_threads),
};
TAP_MAIN(tests)
