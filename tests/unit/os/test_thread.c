/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a thread starts with the name, CPU, stack and signal mask of its options; a failed start
 *         leaves nothing behind.
 * Method: each thread asks the kernel about itself and stores the answers in plain memory, which
 *         the test reads after the join; every call on the way fails in turn.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helpers.h"
#include "os/os.h"

enum {
    STACK_SIZE = 1 << 20, /* bytes; larger than any minimum, smaller than the default */
};

/* What a thread found out about itself. */
struct report {
    int input;
    int output;
    int id;
    char name[WF_THREAD_NAME_MAX + 1];
    cpu_set_t cpus;
    int cpu;
    size_t stack_size;
    sigset_t blocked;
};

static void *report_about_self(void *arg)
{
    struct report *report = arg;
    pthread_attr_t attributes;
    report->output = report->input * 2;
    report->id = wf_thread_id();
    CHECK_EQ(prctl(PR_GET_NAME, report->name, 0, 0, 0), 0);
    CHECK_EQ(sched_getaffinity(0, sizeof(report->cpus), &report->cpus), 0);
    report->cpu = sched_getcpu();
    CHECK_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
    CHECK_EQ(pthread_attr_getstacksize(&attributes, &report->stack_size), 0);
    CHECK_EQ(pthread_attr_destroy(&attributes), 0);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &report->blocked), 0);
    return NULL;
}

static struct report run(const struct wf_thread_options *options)
{
    struct report report = {.input = 21};
    pthread_t thread;
    CHECK_EQ(wf_thread_start(&thread, report_about_self, &report, options), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    CHECK_EQ(report.output, 42);
    return report;
}

static int first_allowed_cpu(void)
{
    cpu_set_t cpus;
    CHECK_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
    int cpu = 0;
    while (!CPU_ISSET((size_t)cpu, &cpus)) {
        cpu++;
    }
    return cpu;
}

static bool is_same_mask(const sigset_t *a, const sigset_t *b)
{
    for (int number = 1; number <= SIGRTMAX; number++) {
        if (sigismember(a, number) != sigismember(b, number)) {
            return false;
        }
    }
    return true;
}

/* ---- start and join ------------------------------------------------------------------------ */

static void thread_gets_its_argument_and_join_sees_its_writes(void)
{
    (void)run(NULL);
    (void)run(&(struct wf_thread_options){.name = NULL});
}

static void thread_ids_are_distinct(void)
{
    struct report a = run(NULL);
    CHECK_EQ(wf_thread_id(), getpid()); /* the first thread of a process has its id */
    CHECK(a.id > 0);
    CHECK(a.id != wf_thread_id());
}

/* TSan looks up a joined thread among the threads that it saw created, and stops at the first
 * thread of a process. */
#ifndef WF_TSAN
static void thread_join_of_itself_fails(void)
{
    CHECK_EQ(wf_thread_join(pthread_self()), -EDEADLK);
}
#endif

static void thread_stack_has_at_least_the_requested_size(void)
{
    struct report report = run(&(struct wf_thread_options){.stack_size = STACK_SIZE});
    CHECK(report.stack_size >= STACK_SIZE);
    CHECK(report.stack_size < run(NULL).stack_size); /* it is not the default size */
}

static void thread_start_refuses_invalid_stack_sizes(void)
{
    struct report report;
    const pthread_t untouched = pthread_self();
    pthread_t thread = untouched;
    struct wf_thread_options options = {.stack_size = 1};
    CHECK_EQ(wf_thread_start(&thread, report_about_self, &report, &options), -EINVAL);
    options.stack_size = SIZE_MAX / 4;
    CHECK_EQ(wf_thread_start(&thread, report_about_self, &report, &options), -EAGAIN);
    CHECK(pthread_equal(thread, untouched));
}

/* ---- names --------------------------------------------------------------------------------- */

static void thread_name_is_set_before_its_function_runs(void)
{
    static const struct {
        const char *given;
        const char *seen;
    } rows[] = {
        {"weft-0", "weft-0"},
        {"exactly fifteen", "exactly fifteen"},
        {"sixteen letters!", "sixteen letters"},
        {"a name that is much longer than the kernel keeps", "a name that is "},
        {NULL, "creator"},
        {"", "creator"},
    };
    CHECK_EQ(wf_thread_set_name("creator"), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct report report = run(&(struct wf_thread_options){.name = rows[i].given});
        CHECK_STR(report.name, rows[i].seen);
    }
}

static void thread_name_is_copied(void)
{
    for (int i = 0; i < 100; i++) {
        struct report report = {.input = 21};
        char name[] = "short-lived";
        pthread_t thread;
        struct wf_thread_options options = {.name = name};
        CHECK_EQ(wf_thread_start(&thread, report_about_self, &report, &options), 0);
        memset(name, 'x', sizeof(name) - 1);
        CHECK_EQ(wf_thread_join(thread), 0);
        CHECK_STR(report.name, "short-lived");
    }
}

static void thread_set_name_renames_the_caller(void)
{
    char name[WF_THREAD_NAME_MAX + 1];
    CHECK_EQ(wf_thread_set_name("renamed to something long"), 0);
    CHECK_EQ(prctl(PR_GET_NAME, name, 0, 0, 0), 0);
    CHECK_STR(name, "renamed to some");
}

/* ---- CPUs ---------------------------------------------------------------------------------- */

static void thread_binding_affects_only_the_new_thread(void)
{
    cpu_set_t before;
    cpu_set_t after;
    const int cpu = first_allowed_cpu();
    CHECK_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    struct report report = run(&(struct wf_thread_options){.is_bound = true, .cpu = cpu});
    CHECK_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
    CHECK_EQ(CPU_COUNT(&report.cpus), 1);
    CHECK(CPU_ISSET((size_t)cpu, &report.cpus));
    CHECK_EQ(report.cpu, cpu);
    CHECK(CPU_EQUAL(&before, &after));
}

static void thread_cpu_option_is_ignored_unless_bound(void)
{
    cpu_set_t own;
    CHECK_EQ(sched_getaffinity(0, sizeof(own), &own), 0);
    struct report report = run(&(struct wf_thread_options){.cpu = -5});
    CHECK(CPU_EQUAL(&own, &report.cpus));
}

static void thread_start_refuses_missing_cpu(void)
{
    const int cpus[] = {-1, INT32_MIN, WF_CPU_MAX - 1, WF_CPU_MAX, INT32_MAX};
    cpu_set_t before;
    cpu_set_t after;
    CHECK_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++) {
        struct report report;
        const pthread_t untouched = pthread_self();
        pthread_t thread = untouched;
        struct wf_thread_options options = {.is_bound = true, .cpu = cpus[i]};
        CHECK_EQ(wf_thread_start(&thread, report_about_self, &report, &options), -EINVAL);
        CHECK(pthread_equal(thread, untouched));
        CHECK_EQ(wf_thread_bind(cpus[i]), -EINVAL);
    }
    CHECK_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
    CHECK(CPU_EQUAL(&before, &after));
}

static void thread_bind_binds_the_caller(void)
{
    cpu_set_t cpus;
    const int cpu = first_allowed_cpu();
    CHECK_EQ(wf_thread_bind(cpu), 0);
    CHECK_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
    CHECK_EQ(CPU_COUNT(&cpus), 1);
    CHECK(CPU_ISSET((size_t)cpu, &cpus));
}

/* ---- signals ------------------------------------------------------------------------------- */

static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

static bool is_fault_signal(int number)
{
    for (size_t i = 0; i < sizeof(fault_signals) / sizeof(fault_signals[0]); i++) {
        if (fault_signals[i] == number) {
            return true;
        }
    }
    return false;
}

static void thread_blocks_all_signals_except_faults(void)
{
    sigset_t all;
    sigset_t before;
    sigset_t blockable; /* the kernel, libc and emulators keep some signals unblocked */
    sigset_t after;
    (void)sigfillset(&all);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, &blockable), 0);
    struct report report = run(NULL);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
    CHECK(is_same_mask(&before, &after));
    CHECK_EQ(sigismember(&blockable, SIGUSR1), 1);
    for (int number = 1; number <= SIGRTMAX; number++) {
        CHECK_EQ(sigismember(&report.blocked, number),
                 !is_fault_signal(number) && sigismember(&blockable, number) == 1);
    }
}

static void thread_keeps_signals_blocked_that_its_creator_blocks(void)
{
    sigset_t wanted;
    sigset_t after;
    (void)sigemptyset(&wanted);
    (void)sigaddset(&wanted, SIGBUS);
    (void)sigaddset(&wanted, SIGUSR2);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &wanted, NULL), 0);
    struct report report = run(NULL);
    CHECK_EQ(sigismember(&report.blocked, SIGBUS), 1);
    CHECK_EQ(sigismember(&report.blocked, SIGUSR2), 1);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
    CHECK_EQ(sigismember(&after, SIGBUS), 1);
    CHECK_EQ(sigismember(&after, SIGUSR2), 1);
    CHECK_EQ(sigismember(&after, SIGUSR1), 0);
}

enum { EXIT_FROM_HANDLER = 42 };

static void exit_from_handler(int number)
{
    _exit(number == SIGSEGV ? EXIT_FROM_HANDLER : 1);
}

static void *fault(void *arg)
{
    volatile int *nowhere = arg;
    *nowhere = 1;
    return NULL;
}

static void fault_in_a_thread(void)
{
    struct sigaction action = {.sa_handler = exit_from_handler};
    void *page;
    pthread_t thread;
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    CHECK_EQ(wf_memory_map(&page, 1), 0);
    CHECK_EQ(wf_memory_protect(page, 1), 0);
    CHECK_EQ(wf_thread_start(&thread, fault, page, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
}

static void thread_fault_reaches_the_programs_handler(void)
{
    char text[1024];
    int status = tap_run_child(fault_in_a_thread, text, sizeof(text));
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), EXIT_FROM_HANDLER);
}

/* ---- injected failures --------------------------------------------------------------------- */

#ifdef WF_TEST_HOOKS
static void thread_start_failure_leaves_nothing_behind(void)
{
    static const struct {
        const char *what;
        int rc;
    } rows[] = {
        {"pthread_attr_init", -ENOMEM},
        {"pthread_attr_setaffinity", -ENOMEM},
        {"alloc", -ENOMEM},
        {"pthread_create", -EAGAIN},
        {"prctl", 0}, /* only the name is missing */
        {NULL, 0},
    };
    const struct wf_thread_options options = {
        .name = "unlucky", .is_bound = true, .cpu = first_allowed_cpu()};
    CHECK_EQ(wf_thread_set_name("creator"), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const pthread_t untouched = pthread_self();
        pthread_t thread = untouched;
        struct report report = {.input = 21};
        struct wf_alloc_stats stats;
        const char *what;
        sigset_t mask;
        wf_fault_arm(i + 1);
        CHECK_EQ(wf_thread_start(&thread, report_about_self, &report, &options), rows[i].rc);
        if (rows[i].rc == 0) {
            CHECK_EQ(wf_thread_join(thread), 0);
            CHECK_STR(report.name, rows[i].what == NULL ? "unlucky" : "creator");
        } else {
            CHECK(pthread_equal(thread, untouched));
            CHECK_EQ(report.output, 0);
        }
        CHECK_EQ(wf_fault_hit(&what), rows[i].what != NULL);
        CHECK(what == rows[i].what || strcmp(what, rows[i].what) == 0);
        wf_alloc_stats(&stats);
        CHECK_EQ(stats.allocated, stats.freed);
        CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
        CHECK_EQ(sigismember(&mask, SIGUSR1), 0);
    }
}

static void thread_self_calls_report_injected_failures(void)
{
    wf_fault_arm(1);
    CHECK_EQ(wf_thread_set_name("x"), -EPERM);
    wf_fault_arm(1);
    CHECK_EQ(wf_thread_bind(first_allowed_cpu()), -EPERM);
}
#endif

static const struct tap_test tests[] = {
    TAP_TEST(thread_gets_its_argument_and_join_sees_its_writes),
    TAP_TEST(thread_ids_are_distinct),
#ifndef WF_TSAN
    TAP_TEST(thread_join_of_itself_fails),
#endif
    TAP_TEST(thread_stack_has_at_least_the_requested_size),
    TAP_TEST(thread_start_refuses_invalid_stack_sizes),
    TAP_TEST(thread_name_is_set_before_its_function_runs),
    TAP_TEST(thread_name_is_copied),
    TAP_TEST(thread_set_name_renames_the_caller),
    TAP_TEST(thread_binding_affects_only_the_new_thread),
    TAP_TEST(thread_cpu_option_is_ignored_unless_bound),
    TAP_TEST(thread_start_refuses_missing_cpu),
    TAP_TEST(thread_bind_binds_the_caller),
    TAP_TEST(thread_blocks_all_signals_except_faults),
    TAP_TEST(thread_keeps_signals_blocked_that_its_creator_blocks),
    TAP_TEST(thread_fault_reaches_the_programs_handler),
#ifdef WF_TEST_HOOKS
    TAP_TEST(thread_start_failure_leaves_nothing_behind),
    TAP_TEST(thread_self_calls_report_injected_failures),
#endif
};
TAP_MAIN(tests)
