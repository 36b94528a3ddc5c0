/* SPDX-License-Identifier: MIT */
/*
 * tap.h - the test harness: TAP on stdout, one forked process per test.
 *
 * A test is a function without arguments; it passes if it returns.  A failed CHECK in any thread or
 * fiber ends the test's process at once, so the report names the line that found the fault.  A test
 * that crashes, leaks (LeakSanitizer) or hangs does not affect the other tests: they still run.
 * When a test exceeds its limit, the harness prints the stacks and tasks of its process.  A test
 * that then ends within three times its limit is slow: the harness appends "# SLOW" to its line,
 * and run.sh runs it again.  A test that does not end by then has hung: the harness kills it.
 *
 * Environment: WEFT_TEST_SEED  the seed (a number) for tap_seed(); default: from the clock
 *              WEFT_TEST_TIME  multiplies every time limit (sanitizers, valgrind, emulation)
 *              WEFT_TEST_MARKS file to which the names of reached WF_REACHED marks are appended
 * Arguments:   NAME...         run only the tests whose name contains a NAME; =NAME: equals it
 *              --list          print the names; --help the usage
 * Exit status: 0 all passed, 1 some failed, 2 bad usage.
 */
#ifndef TAP_H
#define TAP_H

#include <stddef.h>
#include <stdint.h>

struct tap_test {
    const char *name;
    void (*run)(void);
    unsigned limit_s; /* above it the test is slow, above three times this it has hung; 0: 20 */
};

/* Formatted by hand: clang-format takes #fn for a directive. */
/* clang-format off */
#define TAP_TEST(fn) {#fn, fn, 0}
#define TAP_TEST_LIMIT(fn, seconds) {#fn, fn, (seconds)}
/* clang-format on */

int tap_main(int argc, char **argv, const char *file, const struct tap_test *tests, size_t count);

#define TAP_MAIN(tests)                                                                            \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return tap_main(argc, argv, __FILE__, tests, sizeof(tests) / sizeof((tests)[0]));          \
    }

/* The seed; all test processes of a run have the same.  The report of a failed test contains it. */
uint64_t tap_seed(void);

/* Ends the test as skipped.  Only for something that the machine lacks, not the code. */
_Noreturn void tap_skip(const char *reason);

/* Adds a remark to the report of the test. */
void tap_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Sets the text that describes the current step of the test, for a test that repeats its steps
 * under several conditions.  The report of a failed test contains the last text, also if the test
 * hung or crashed.  Only one thread at a time may call it. */
void tap_doing(const char *format, ...) __attribute__((format(printf, 1, 2)));

_Noreturn void tap_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tap_check_eq(const char *file, int line, const char *a, const char *b, intmax_t va,
                  intmax_t vb);
void tap_check_str(const char *file, int line, const char *a, const char *b, const char *va,
                   const char *vb);

#define CHECK(c) ((c) ? (void)0 : tap_fail(__FILE__, __LINE__, "%s", #c))
/* A check of elapsed time, which other load on the machine may spoil.  If such a check fails and
 * the test is in timing_checks.list, run.sh runs the test again.  run.sh repeats no other failed
 * check, so this macro must not be used for other conditions. */
#define CHECK_TIME(c) ((c) ? (void)0 : tap_fail(__FILE__, __LINE__, "late: %s", #c))
/* Compares integers of any type as intmax_t, so it is not for values above INT64_MAX. */
#define CHECK_EQ(a, b) tap_check_eq(__FILE__, __LINE__, #a, #b, (intmax_t)(a), (intmax_t)(b))
#define CHECK_STR(a, b) tap_check_str(__FILE__, __LINE__, #a, #b, (a), (b))

/* Runs `run` in a child process and returns the child's wait status, or 0 if `run` returned.  For
 * tests of panics and crashes.  Copies the child's stderr into `text`, cut to `size`. */
int tap_run_child(void (*run)(void), char *text, size_t size);

#endif
