/* SPDX-License-Identifier: MIT */
/*
 * tap.c - see tap.h.
 *
 * The parent forks a child for each test and waits for the child's end on a pipe.  Only the child
 * and the processes that it forks hold the write end: end of file means that they have all ended.
 * The write end is close-on-exec.  Otherwise a program that the test started and that outlives a
 * failed test would hide the failure until the limit.  The child's exit status says whether the
 * test passed; the child writes its remarks into the pipe.
 *
 * When a child exceeds its limit, the parent runs stacks.sh, which prints the child's stacks and
 * tasks into the log.  The child then gets two more limits, since a shared machine stalls at times:
 * a test that ends by then is slow, and a test that does not has hung.
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
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "marks.h"

enum {
    EXIT_FAILED = 1,
    EXIT_RETURNED = 117, /* not 0: code under test that calls exit returns 0 */
    EXIT_SKIPPED = 77,
    LIMIT_DEFAULT_S = 20,
    LIMITS_UNTIL_HUNG = 3, /* the parent kills a test after this many times its limit */
    TEXT_MAX = 4096,
    DOING_MAX = 256,
};

static const char *program;
static uint64_t seed;
static int report_fd = STDERR_FILENO;
/* The text of tap_doing.  Shared memory: the parent can read it after the child has crashed. */
static char *doing;

/* How a child ended. */
enum end { IN_TIME, SLOW, HUNG };

/* What the child has written into the pipe. */
struct output {
    char *text;
    size_t size;
    size_t used;
};

/* Writes the coverage counters, which gcc's runtime otherwise writes only at a normal exit.  NULL
 * in a build without coverage. */
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
    /* Ignored: a full or closed pipe loses the remark, and the exit status still counts. */
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

/* Handles SIGABRT; abort() continues when it returns.  __gcov_dump is not async-signal-safe, but
 * a panic calls abort() outside of any other library call. */
static void dump_coverage(int number)
{
    (void)number;
    __gcov_dump(); /* NOLINT(bugprone-signal-handler,cert-sig30-c): see above */
}

static _Noreturn void run_in_child(void (*run)(void), int fd)
{
    report_fd = fd;
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* for gdb, under Yama */
    if (__gcov_dump != NULL) {
        (void)signal(SIGABRT, dump_coverage); /* else a panic would lose the coverage counters */
    }
    wf_jitter_seed(seed);
    run();
    marks_write(getenv("WEFT_TEST_MARKS"));
    exit(EXIT_RETURNED); /* not _exit: exit checks for leaks and writes coverage */
}

/* Reads the child's output until end of file; false if the limit passes before. */
static bool read_until_end(int fd, int limit_ms, struct output *output)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t end_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000 + limit_ms;
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
        size_t space = output->size - 1 - output->used;
        ssize_t n = read(fd, space > 0 ? output->text + output->used : drop,
                         space > 0 ? space : sizeof(drop));
        if (n <= 0) {
            return true;
        }
        output->used += space > 0 ? (size_t)n : 0;
        output->text[output->used] = '\0';
    }
}

/* Prints the stacks and tasks of the child into the log.  This time does not count against the
 * child's limit. */
static void show_stacks(pid_t child)
{
    char pid[16];
    (void)snprintf(pid, sizeof(pid), "%d", (int)child);
    (void)fflush(stdout);
    pid_t script = fork();
    if (script == 0) {
        (void)execl("/bin/sh", "sh", WEFT_STACKS, pid, (char *)NULL);
        _exit(127);
    }
    while (script > 0 && waitpid(script, NULL, 0) < 0 && errno == EINTR) {
    }
}

/* Waits for the end of the child.  `name` is the test's name; NULL for a child of tap_run_child. */
static enum end wait_for_end(int fd, pid_t child, const char *name, int limit_ms,
                             struct output *output)
{
    const int more_ms = limit_ms < INT_MAX / LIMITS_UNTIL_HUNG ? (LIMITS_UNTIL_HUNG - 1) * limit_ms
                                                               : INT_MAX - limit_ms;
    if (read_until_end(fd, limit_ms, output)) {
        return IN_TIME;
    }
    if (name != NULL) {
        printf("# %s has run for more than %d ms; its stacks and tasks:\n", name, limit_ms);
        show_stacks(child);
    }
    return read_until_end(fd, more_ms, output) ? SLOW : HUNG;
}

/* Runs `run` in a child and returns the child's wait status.  If `name` is NULL, the child's stderr
 * goes into the pipe too. */
static int run_forked(void (*run)(void), const char *name, int limit_ms, struct output *output,
                      enum end *end)
{
    int ends[2];
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
        if (name == NULL) {
            (void)dup2(ends[1], STDERR_FILENO);
        }
        run_in_child(run, ends[1]);
    }
    (void)setpgid(child, child);
    close(ends[1]);
    *end = wait_for_end(ends[0], child, name, limit_ms, output);
    if (*end == HUNG) {
        (void)kill(-child, SIGKILL); /* the group: includes what the test started */
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    close(ends[0]);
    return status;
}

/* The limit of a test, or of a child of tap_run_child, scaled by WEFT_TEST_TIME. */
static int limit_ms(unsigned limit_s)
{
    const char *text = getenv("WEFT_TEST_TIME");
    double factor = text == NULL ? 1.0 : strtod(text, NULL);
    double ms = (limit_s == 0 ? LIMIT_DEFAULT_S : limit_s) * 1000.0 * factor;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

int tap_run_child(void (*run)(void), char *text, size_t size)
{
    enum end end;
    struct output output = {.text = text, .size = size};
    text[0] = '\0';
    int status = run_forked(run, NULL, limit_ms(0), &output, &end);
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

/* Runs one test and prints its TAP line and remarks.  Returns false if the test failed. */
static bool run_one(size_t number, const struct tap_test *test)
{
    char text[TEXT_MAX] = "";
    struct output output = {.text = text, .size = sizeof(text)};
    enum end end = IN_TIME;
    int limit = limit_ms(test->limit_s);
    doing[0] = '\0';
    int status = run_forked(test->run, test->name, limit, &output, &end);
    bool is_skipped = end != HUNG && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED;
    bool is_ok = end != HUNG && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_RETURNED;
    if (is_skipped) {
        text[strcspn(text, "\n")] = '\0';
        printf("ok %zu - %s # SKIP %s\n", number, test->name, text);
        return true;
    }
    printf("%s %zu - %s%s\n", is_ok ? "ok" : "not ok", number, test->name,
           is_ok && end == SLOW ? " # SLOW" : "");
    print_text(text);
    if (end == HUNG) {
        printf("# hung: still running after %d times %d ms\n", (int)LIMITS_UNTIL_HUNG, limit);
    } else if (WIFSIGNALED(status)) {
        printf("# ended by signal %d\n", WTERMSIG(status));
    } else if (!is_ok) {
        printf("# exit status %d\n", WEXITSTATUS(status));
    }
    if (!is_ok && doing[0] != '\0') {
        printf("# while: %s\n", doing);
    }
    if (!is_ok) {
        printf("# again: WEFT_TEST_SEED=%ju %s =%s\n", (uintmax_t)seed, program, test->name);
    }
    return is_ok;
}

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *part = argv[i];
        if (part[0] == '=' ? strcmp(name, part + 1) == 0 : strstr(name, part) != NULL) {
            return true;
        }
    }
    return argc < 2;
}

/* Returns false and prints a message if a variable has no valid value (tap.h). */
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
    /* The file into which a test process writes its tasks when stacks.sh makes it call
     * weft_runtime_dump. Without the file stacks.sh shows only the stacks. */
    (void)memfd_create("weft-stacks", MFD_CLOEXEC);
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
