/* SPDX-License-Identifier: MIT */
/*
 * tap.h - the test harness: TAP on stdout, one forked process a test.
 *
 * A test is a function without arguments; it passes by returning.  A failed CHECK ends its whole
 * process at once, from whichever thread or fiber, so a broken invariant is reported where it
 * broke.  A test that crashes, leaks (LeakSanitizer) or hangs fails alone; the others still run.
 *
 * Environment: WEFT_TEST_SEED  the seed (a number) for tap_seed(); else taken from the clock
 *              WEFT_TEST_TIME  multiplies every time limit (sanitizers, valgrind, emulation)
 *              WEFT_TEST_MARKS file to which the names of reached WF_REACHED marks are appended
 * Arguments:   NAME...         run only the tests whose name contains one of these
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
    unsigned limit_s; /* seconds before the test counts as hung; 0: 20 */
};

/* By hand: clang-format takes #fn for a directive. */
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

/* Each test process starts with the same seed; a failed test prints how to run it again. */
uint64_t tap_seed(void);

/* Ends the test as skipped; only where the machine, not the code, lacks something. */
_Noreturn void tap_skip(const char *reason);

/* A remark in the report. */
void tap_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What the test is about to do, for one that does the same under several conditions: the report of
 * a failed test says the last one, also if it hung or crashed.  From one thread at a time. */
void tap_doing(const char *format, ...) __attribute__((format(printf, 1, 2)));

_Noreturn void tap_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tap_check_eq(const char *file, int line, const char *a, const char *b, intmax_t va,
                  intmax_t vb);
void tap_check_str(const char *file, int line, const char *a, const char *b, const char *va,
                   const char *vb);

#define CHECK(c) ((c) ? (void)0 : tap_fail(__FILE__, __LINE__, "%s", #c))
/* Integers of any type, compared as intmax_t (so not for values above INT64_MAX). */
#define CHECK_EQ(a, b) tap_check_eq(__FILE__, __LINE__, #a, #b, (intmax_t)(a), (intmax_t)(b))
#define CHECK_STR(a, b) tap_check_str(__FILE__, __LINE__, #a, #b, (a), (b))

/* Runs `run` in a child and gives its wait status, for tests of panics and crashes.  What it
 * printed on stderr is put into `text` (cut to `size`). */
int tap_run_child(void (*run)(void), char *text, size_t size);

#endif
