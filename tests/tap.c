/* SPDX-License-Identifier: MIT */
/*
 * tap.c - see tap.h.
 *
 * The parent forks a child for each test and waits for its end on a pipe whose other end only the
 * child holds: end of file means that the child and those it forked are gone.  Programs that it has
 * started do not hold it, or one that outlives a test that failed would hide the failure until the
 * limit.  The verdict is the child's exit status; what it has to say travels through the pipe.
 */
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "marks.h"

enum {
    EXIT_FAILED = 1,
    EXIT_RETURNED = 117, /* not 0: that is what code under test gives that exits by itself */
    EXIT_SKIPPED = 77,
    LIMIT_DEFAULT_S = 20,
    TEXT_MAX = 4096,
    DOING_MAX = 256,
};

static const char *program;
static uint64_t seed;
static int report_fd = STDERR_FILENO;
/* Shared with the child: what it wrote here is there however it ended. */
static char *doing;

/* Coverage counters are written at a normal exit only; gcc's runtime offers this where linked. */
extern void __gcov_dump(void) __attribute__((weak));

void tap_note(const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof(text) - 1, format, args);
    va_end(args);
    size_t size = length < 0 ? 0 : (size_t)length;
    size = size < sizeof(text) - 2 ? size : sizeof(text) - 2;
    text[size++] = '\n';
    /* A full or closed pipe loses the remark, not the verdict. */
    (void)!write(report_fd, text, size);
}

void tap_doing(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(doing, DOING_MAX, format, args);
    va_end(args);
}

static _Noreturn void leave(int status)
{
    if (__gcov_dump != NULL) {
        __gcov_dump();
    }
    _exit(status);
}

void tap_fail(const char *file, int line, const char *format, ...)
{
    char what[TEXT_MAX / 2];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    tap_note("%s:%d: failed: %s", file, line, what);
    leave(EXIT_FAILED);
}

void tap_check_eq(const char *file, int line, const char *a, const char *b, intmax_t va,
                  intmax_t vb)
{
    if (va != vb) {
        tap_fail(file, line, "%s == %s (%jd, %jd)", a, b, va, vb);
    }
}

void tap_check_str(const char *file, int line, const char *a, const char *b, const char *va,
                   const char *vb)
{
    if (va == NULL || vb == NULL || strcmp(va, vb) != 0) {
        tap_fail(file, line, "%s == %s (\"%s\", \"%s\")", a, b, va ? va : "NULL", vb ? vb : "NULL");
    }
}

void tap_skip(const char *reason)
{
    tap_note("%s", reason);
    leave(EXIT_SKIPPED);
}

uint64_t tap_seed(void)
{
    return seed;
}

/* abort() goes on when this returns.  Not safe in general, but a panic is no interruption. */
static void dump_coverage(int number)
{
    (void)number;
    __gcov_dump(); /* NOLINT(bugprone-signal-handler,cert-sig30-c): see above */
}

static _Noreturn void run_in_child(void (*run)(void), int fd)
{
    report_fd = fd;
    if (__gcov_dump != NULL) {
        (void)signal(SIGABRT, dump_coverage); /* or tests of panics would count nothing */
    }
    wf_jitter_seed(seed);
    run();
    marks_write(getenv("WEFT_TEST_MARKS"));
    exit(EXIT_RETURNED); /* not _exit: leak check and coverage happen on the way out */
}

/* Reads what the child says until it is gone or the limit passed; false when it hung. */
static bool read_until_end(int fd, int limit_ms, char *text, size_t size)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t end_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000 + limit_ms;
    size_t used = 0;
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        int64_t left = end_ms - (now.tv_sec * 1000 + now.tv_nsec / 1000000);
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int rc = poll(&ready, 1, left > 0 ? (int)left : 0);
        if (rc == 0) {
            return false;
        }
        if (rc < 0) {
            continue;
        }
        char drop[256];
        size_t room = size - 1 - used;
        ssize_t n = read(fd, room > 0 ? text + used : drop, room > 0 ? room : sizeof(drop));
        if (n <= 0) {
            return true;
        }
        used += room > 0 ? (size_t)n : 0;
        text[used] = '\0';
    }
}

/* Forks, runs, collects; `stderr_too` sends the child's stderr into the pipe as well. */
static int run_forked(void (*run)(void), int limit_ms, bool stderr_too, char *text, size_t size,
                      bool *is_hung)
{
    int ends[2];
    text[0] = '\0';
    (void)fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    pid_t child = fork();
    if (child < 0) {
        return -1;
    }
    if (child == 0) {
        close(ends[0]);
        (void)setpgid(0, 0);
        if (stderr_too) {
            (void)dup2(ends[1], STDERR_FILENO);
        }
        run_in_child(run, ends[1]);
    }
    (void)setpgid(child, child);
    close(ends[1]);
    *is_hung = !read_until_end(ends[0], limit_ms, text, size);
    if (*is_hung) {
        (void)kill(-child, SIGKILL); /* the group: what the test itself started goes too */
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    close(ends[0]);
    return status;
}

/* The limit of a test, or of a child it runs, with WEFT_TEST_TIME in it. */
static int limit_ms(unsigned limit_s)
{
    const char *text = getenv("WEFT_TEST_TIME");
    double factor = text == NULL ? 1.0 : strtod(text, NULL);
    double ms = (limit_s == 0 ? LIMIT_DEFAULT_S : limit_s) * 1000.0 * factor;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

int tap_run_child(void (*run)(void), char *text, size_t size)
{
    bool is_hung;
    int status = run_forked(run, limit_ms(0), true, text, size, &is_hung);
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_RETURNED ? 0 : status;
}

static void print_text(const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        printf("# %.*s\n", (int)length, text);
        text += length + (text[length] == '\n' ? 1 : 0);
    }
}

/* One line of TAP and the remarks; true unless it failed. */
static bool run_one(size_t number, const struct tap_test *test)
{
    char text[TEXT_MAX];
    bool is_hung = false;
    int limit = limit_ms(test->limit_s);
    doing[0] = '\0';
    int status = run_forked(test->run, limit, false, text, sizeof(text), &is_hung);
    bool is_skipped = !is_hung && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED;
    bool is_ok = !is_hung && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_RETURNED;
    if (is_skipped) {
        text[strcspn(text, "\n")] = '\0';
        printf("ok %zu - %s # SKIP %s\n", number, test->name, text);
        return true;
    }
    printf("%s %zu - %s\n", is_ok ? "ok" : "not ok", number, test->name);
    print_text(text);
    if (is_hung) {
        printf("# hung: still running after %d ms\n", limit);
    } else if (WIFSIGNALED(status)) {
        printf("# ended by signal %d\n", WTERMSIG(status));
    } else if (!is_ok) {
        printf("# exit status %d\n", WEXITSTATUS(status));
    }
    if (!is_ok && doing[0] != '\0') {
        printf("# while: %s\n", doing);
    }
    if (!is_ok) {
        printf("# again: WEFT_TEST_SEED=%ju %s %s\n", (uintmax_t)seed, program, test->name);
    }
    return is_ok;
}

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strstr(name, argv[i]) != NULL) {
            return true;
        }
    }
    return argc < 2;
}

/* False, and said why, where a variable is not what tap.h wants. */
static bool is_environment_good(void)
{
    const char *text = getenv("WEFT_TEST_SEED");
    if (text != NULL && (*text == '\0' || text[strspn(text, "0123456789")] != '\0')) {
        (void)fprintf(stderr, "WEFT_TEST_SEED=%s: not a number\n", text);
        return false;
    }
    char *end;
    text = getenv("WEFT_TEST_TIME");
    if (text != NULL && (!(strtod(text, &end) > 0) || *end != '\0')) {
        (void)fprintf(stderr, "WEFT_TEST_TIME=%s: not a positive number\n", text);
        return false;
    }
    return true;
}

int tap_main(int argc, char **argv, const char *file, const struct tap_test *tests, size_t count)
{
    program = argv[0];
    if (!is_environment_good()) {
        return 2;
    }
    const char *seed_text = getenv("WEFT_TEST_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    seed = seed_text != NULL ? strtoull(seed_text, NULL, 10)
                             : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    bool is_list = argc == 2 && strcmp(argv[1], "--list") == 0;
    if (argc > 1 && argv[1][0] == '-' && !is_list) {
        (void)fprintf(stderr, "usage: %s [--list | NAME...]\n", program);
        return strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    doing = mmap(NULL, DOING_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (doing == MAP_FAILED) {
        (void)fprintf(stderr, "no memory\n");
        return 2;
    }
    size_t wanted = 0;
    bool all_ok = true;
    for (size_t i = 0; i < count; i++) {
        if (is_list) {
            printf("%s\n", tests[i].name);
        } else if (is_wanted(tests[i].name, argc, argv)) {
            all_ok = run_one(++wanted, &tests[i]) && all_ok;
            (void)fflush(stdout);
        }
    }
    if (!is_list) {
        printf("1..%zu # %s\n", wanted, file);
    }
    if (wanted == 0 && !is_list) {
        (void)fprintf(stderr, "no test matches\n");
        return 2;
    }
    return all_ok ? 0 : 1;
}
