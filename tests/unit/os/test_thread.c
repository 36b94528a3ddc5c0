/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a thread starts with the name, CPU, stack and signals it was asked to have; a start that
 *         fails leaves nothing behind.
 * Method: each thread asks the kernel about itself and notes the answers in plain memory, which
 *         the test reads after the join; every call on the way is made to fail in turn.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aids.h"
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

static void a_thread_gets_its_argument_and_join_sees_its_work(void)
{
    (void)run(NULL);
    (void)run(&(struct wf_thread_options){.name = NULL});
}

static void threads_have_ids_of_their_own(void)
{
    struct report a = run(NULL);
    CHECK_EQ(wf_thread_id(), getpid()); /* the first thread of a process has its id */
    CHECK(a.id > 0);
    CHECK(a.id != wf_thread_id());
}

/* TSan looks a joined thread up among those it saw created, and stops at the first of a process. */
#ifndef WF_TSAN
static void a_thread_cannot_wait_for_its_own_end(void)
{
    CHECK_EQ(wf_thread_join(pthread_self()), -EDEADLK);
}
#endif

static void the_stack_has_at_least_the_size_asked_for(void)
{
    struct report report = run(&(struct wf_thread_options){.stack_size = STACK_SIZE});
    CHECK(report.stack_size >= STACK_SIZE);
    CHECK(report.stack_size < run(NULL).stack_size); /* it was not simply the default */
}

static void absurd_stacks_are_refused(void)
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

static void the_name_is_visible_from_the_first_instruction(void)
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

static void the_name_need_not_outlive_the_call(void)
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

static void a_thread_can_rename_itself(void)
{
    char name[WF_THREAD_NAME_MAX + 1];
    CHECK_EQ(wf_thread_set_name("renamed to something long"), 0);
    CHECK_EQ(prctl(PR_GET_NAME, name, 0, 0, 0), 0);
    CHECK_STR(name, "renamed to some");
}

/* ---- CPUs ---------------------------------------------------------------------------------- */

static void a_bound_thread_runs_on_its_cpu_and_its_creator_stays_free(void)
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

static void a_cpu_counts_only_when_bound(void)
{
    cpu_set_t own;
    CHECK_EQ(sched_getaffinity(0, sizeof(own), &own), 0);
    struct report report = run(&(struct wf_thread_options){.cpu = -5});
    CHECK(CPU_EQUAL(&own, &report.cpus));
}

static void a_cpu_that_is_not_there_is_refused(void)
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

static void a_thread_can_bind_itself(void)
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

static void a_thread_takes_no_signal_but_its_own_faults(void)
{
    sigset_t all;
    sigset_t before;
    sigset_t blockable; /* not all are: the kernel, libc and emulators keep some to themselves */
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

static void a_signal_that_the_creator_blocks_stays_blocked(void)
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

static void leave_from_handler(int number)
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
    struct sigaction action = {.sa_handler = leave_from_handler};
    void *page;
    pthread_t thread;
    CHECK_EQ(sigaction(SIGSEGV, &action, NULL), 0);
    CHECK_EQ(wf_memory_map(&page, 1), 0);
    CHECK_EQ(wf_memory_protect(page, 1), 0);
    CHECK_EQ(wf_thread_start(&thread, fault, page, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
}

static void a_fault_in_a_thread_reaches_the_programs_handler(void)
{
    char text[1024];
    int status = tap_run_child(fault_in_a_thread, text, sizeof(text));
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), EXIT_FROM_HANDLER);
}

/* ---- failure ------------------------------------------------------------------------------- */

#ifdef WF_TEST_AIDS
static void a_start_that_fails_leaves_nothing_behind(void)
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

static void a_failed_call_about_the_calling_thread_is_reported(void)
{
    wf_fault_arm(1);
    CHECK_EQ(wf_thread_set_name("x"), -EPERM);
    wf_fault_arm(1);
    CHECK_EQ(wf_thread_bind(first_allowed_cpu()), -EPERM);
}
#endif

static const struct tap_test tests[] = {
    TAP_TEST(a_thread_gets_its_argument_and_join_sees_its_work),
    TAP_TEST(threads_have_ids_of_their_own),
#ifndef WF_TSAN
    TAP_TEST(a_thread_cannot_wait_for_its_own_end),
#endif
    TAP_TEST(the_stack_has_at_least_the_size_asked_for),
    TAP_TEST(absurd_stacks_are_refused),
    TAP_TEST(the_name_is_visible_from_the_first_instruction),
    TAP_TEST(the_name_need_not_outlive_the_call),
    TAP_TEST(a_thread_can_rename_itself),
    TAP_TEST(a_bound_thread_runs_on_its_cpu_and_its_creator_stays_free),
    TAP_TEST(a_cpu_counts_only_when_bound),
    TAP_TEST(a_cpu_that_is_not_there_is_refused),
    TAP_TEST(a_thread_can_bind_itself),
    TAP_TEST(a_thread_takes_no_signal_but_its_own_faults),
    TAP_TEST(a_signal_that_the_creator_blocks_stays_blocked),
    TAP_TEST(a_fault_in_a_thread_reaches_the_programs_handler),
#ifdef WF_TEST_AIDS
    TAP_TEST(a_start_that_fails_leaves_nothing_behind),
    TAP_TEST(a_failed_call_about_the_calling_thread_is_reported),
#endif
};
TAP_MAIN(tests)
