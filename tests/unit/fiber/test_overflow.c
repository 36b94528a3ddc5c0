/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a stack overflow is reported with the task's name; every other fault has the same effect
 *         as without the runtime.
 * Method: children that overflow, in each way, and children that fault in other ways under each
 *         kind of handler; the test compares their output and status.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fiber_helpers.h"
#include "helpers.h"

enum { TEXT = 4096 };

static void print(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void print(const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    CHECK(write(STDERR_FILENO, text, (size_t)length) == length);
}

static void report(const struct wf_overflow *overflow)
{
    print("overflow: %s, %zu bytes, %s, %s\n",
          overflow->user != NULL ? (const char *)overflow->user : "unknown", overflow->size,
          overflow->is_stray ? "stray" : "own", overflow->address == NULL ? "traces" : "caught");
}

/* A child that must end by signal `number` after it printed `expected`. */
static void check_ends(void (*run)(void), int number, const char *expected)
{
    char text[TEXT];
    const int status = tap_run_child(run, text, sizeof(text));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != number || strstr(text, expected) == NULL) {
        tap_fail(__FILE__, __LINE__, "status %x, said: %s", (unsigned)status, text);
    }
}

/* A child that must reach its end after it printed `expected`. */
static void check_lives(void (*run)(void), const char *expected)
{
    char text[TEXT];
    const int status = tap_run_child(run, text, sizeof(text));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || strstr(text, expected) == NULL) {
        tap_fail(__FILE__, __LINE__, "status %x, said: %s", (unsigned)status, text);
    }
}

/* ---- overflows ----------------------------------------------------------------------------- */

static char name[] = "the named task";
static struct fixture f;

static void run_with_report(wf_fiber_fn fn, const struct wf_stack_options *options)
{
    struct wf_signal_stack signal_stack;
    CHECK_EQ(wf_signal_stack_init(&signal_stack), 0);
    CHECK_EQ(wf_overflow_install(report), 0);
    CHECK_EQ(wf_stack_pool_init(&f.pool, options), 0);
    wf_stack_cache_init(&f.cache, &f.pool);
    CHECK_EQ(wf_stack_get(&f.cache, WF_STACK_SIZE_DEFAULT * WF_STACK_SCALE, &f.stack), 0);
    wf_store_relaxed(&f.stack->user, name);
    wf_fiber_init_thread(&f.thread);
    wf_fiber_init(&f.fiber, f.stack, fn, &f);
    (void)wf_fiber_switch(&f.thread, &f.fiber, NULL);
    fixture_done(&f);
    wf_overflow_remove();
    wf_signal_stack_done(&signal_stack);
}

static __attribute__((noinline)) int recurse(int depth)
{
    volatile char frame[64];
    frame[0] = (char)depth;
    const int below = depth > 1 << 30 ? 0 : recurse(depth + 1);
    return below + frame[0];
}

static struct wf_fiber_exit recurse_on_fiber(void *arg, void *message)
{
    (void)arg;
    print("%d\n", recurse(0));
    return (struct wf_fiber_exit){&f.thread, message};
}

static void overflow_by_note(void)
{
    run_with_report(recurse_on_fiber, &(struct wf_stack_options){.guard = WF_GUARD_MARKER});
}

static void overflow_by_mapping(void)
{
    run_with_report(recurse_on_fiber, &(struct wf_stack_options){.guard = WF_GUARD_MAPPING});
}

static const char *expected_text(const char *how)
{
    static char text[128];
    (void)snprintf(text, sizeof(text), "overflow: %s, %zu bytes, %s\n", name,
                   WF_STACK_SIZE_DEFAULT * WF_STACK_SCALE, how);
    return text;
}

static void overflow_is_reported_with_the_tasks_name(void)
{
    if (wf_memory_can_guard()) {
        check_ends(overflow_by_note, SIGABRT, expected_text("own, caught"));
    }
    check_ends(overflow_by_mapping, SIGABRT, expected_text("own, caught"));
}

/* Touches its lowest byte only: the function prologue must touch the pages in between.  The index
 * is volatile: if the compiler knew that it is the lowest byte, there would be no large frame. */
static volatile size_t lowest;

static __attribute__((noinline)) int use_large_frame(void)
{
    volatile char frame[WF_STACK_SIZE_DEFAULT * WF_STACK_SCALE * 3];
    frame[lowest] = 1;
    return frame[lowest];
}

static struct wf_fiber_exit use_large_frame_on_fiber(void *arg, void *message)
{
    (void)arg;
    print("%d\n", use_large_frame());
    return (struct wf_fiber_exit){&f.thread, message};
}

static void overflow_by_large_frame(void)
{
    run_with_report(use_large_frame_on_fiber, NULL);
}

/* Hazard: one frame larger than stack and guard together reaches into the adjacent stack, unless it
 * is compiled with -fstack-clash-protection. */
static void overflow_by_a_large_frame_hits_the_guard(void)
{
    check_ends(overflow_by_large_frame, SIGABRT, expected_text("own, caught"));
}

static struct wf_fiber_exit damage_canary(void *arg, void *message)
{
    f.stack->low[-1] ^= 1;
    (void)arg;
    return (struct wf_fiber_exit){&f.thread, message};
}

static void overflow_canary(void)
{
    run_with_report(damage_canary, &(struct wf_stack_options){.guard = WF_GUARD_CANARY});
}

static void overflow_that_damaged_a_canary_is_reported(void)
{
    check_ends(overflow_canary, SIGABRT, expected_text("own, traces"));
}

static void write_to_guard(void)
{
    struct wf_signal_stack signal_stack;
    CHECK_EQ(wf_signal_stack_init(&signal_stack), 0);
    CHECK_EQ(wf_overflow_install(report), 0);
    fixture_init(&f, recurse_on_fiber);
    *(volatile char *)(f.stack->low - 1) = 1;
}

static void overflow_is_not_reported_for_a_wild_pointer_into_a_guard(void)
{
    check_ends(write_to_guard, SIGABRT, "overflow: unknown");
    check_ends(write_to_guard, SIGABRT, "stray, caught");
}

/* ---- other faults -------------------------------------------------------------------------- */

static volatile char *forbidden; /* a page without access rights */
static sigjmp_buf back;
static siginfo_t given_info;
static volatile int calls;

static void prepare(int number, const struct sigaction *action)
{
    void *memory = mmap(NULL, wf_page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    forbidden = memory;
    CHECK_EQ(sigaction(number, action, NULL), 0);
    static struct wf_signal_stack signal_stack;
    CHECK_EQ(wf_signal_stack_init(&signal_stack), 0);
    CHECK_EQ(wf_overflow_install(report), 0);
    /* so that there are other stacks, to which the fault does not belong */
    fixture_init(&f, recurse_on_fiber);
}

static void fault_by_default(void)
{
    prepare(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL});
    print("before\n");
    *forbidden = 1;
    print("not reached\n");
}

/* Inside a stack, but not in its guard: a fault of the program. */
static void fault_inside_a_stack(void)
{
    prepare(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL});
    CHECK_EQ(mprotect(f.stack->low, wf_page_size(), PROT_NONE), 0);
    print("before\n");
    *(volatile char *)f.stack->low = 1;
    print("not reached\n");
}

static void send_by_default(void)
{
    prepare(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL});
    print("before\n");
    (void)raise(SIGSEGV);
    print("not reached\n");
}

static void send_bus_by_default(void)
{
    prepare(SIGBUS, &(struct sigaction){.sa_handler = SIG_DFL});
    print("before\n");
    (void)raise(SIGBUS);
    print("not reached\n");
}

static void fault_ignored(void)
{
    prepare(SIGSEGV, &(struct sigaction){.sa_handler = SIG_IGN});
    print("before\n");
    *forbidden = 1;
    print("not reached\n");
}

static void send_ignored(void)
{
    prepare(SIGSEGV, &(struct sigaction){.sa_handler = SIG_IGN});
    (void)raise(SIGSEGV);
    print("after\n");
}

static void fault_without_handler_has_the_default_action(void)
{
    check_ends(fault_by_default, SIGSEGV, "before\n");
    check_ends(fault_inside_a_stack, SIGSEGV, "before\n");
    check_ends(send_by_default, SIGSEGV, "before\n");
    check_ends(send_bus_by_default, SIGBUS, "before\n");
    check_ends(fault_ignored, SIGSEGV, "before\n");
    check_lives(send_ignored, "after\n");
}

static void on_plain(int number)
{
    calls += number == SIGSEGV ? 1 : 0;
    siglongjmp(back, 1);
}

static void fault_to_plain_handler(void)
{
    prepare(SIGSEGV, &(struct sigaction){.sa_handler = on_plain});
    for (volatile int i = 0; i < 3; i++) {
        if (sigsetjmp(back, 1) == 0) {
            *forbidden = 1;
            print("not reached\n");
        }
    }
    print("%d calls\n", calls);
}

static bool is_blocked(int number)
{
    sigset_t mask;
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    return sigismember(&mask, number) == 1;
}

/* Makes the access possible, so that the instruction succeeds when it runs again. */
static void on_info(int number, siginfo_t *info, void *context)
{
    CHECK(context != NULL);
    given_info = *info;
    calls++;
    print("%d %s %s\n", number, is_blocked(SIGSEGV) ? "blocked" : "open",
          is_blocked(SIGUSR1) ? "blocked" : "open");
    CHECK_EQ(mprotect((void *)(uintptr_t)forbidden, wf_page_size(), PROT_READ | PROT_WRITE), 0);
    errno = EDOM; /* a handler that clobbers errno: the library's handler must restore it */
}

static void fault_and_repair(const struct sigaction *action)
{
    prepare(SIGSEGV, action);
    errno = ENOENT;
    *forbidden = 1;
    CHECK_EQ(errno, ENOENT);
    CHECK(given_info.si_addr == (void *)(uintptr_t)forbidden);
    CHECK_EQ(given_info.si_code, SEGV_ACCERR);
    print("%d calls\n", calls);
}

static void fault_to_info_handler(void)
{
    struct sigaction action = {.sa_sigaction = on_info, .sa_flags = SA_SIGINFO};
    (void)sigaddset(&action.sa_mask, SIGUSR1);
    fault_and_repair(&action);
}

static void fault_to_open_handler(void)
{
    fault_and_repair(
        &(struct sigaction){.sa_sigaction = on_info, .sa_flags = SA_SIGINFO | SA_NODEFER});
}

/* The second fault finds no handler installed. */
static void fault_twice_to_handler_for_one(void)
{
    fault_and_repair(
        &(struct sigaction){.sa_sigaction = on_info, .sa_flags = (int)(SA_SIGINFO | SA_RESETHAND)});
    CHECK_EQ(mprotect((void *)(uintptr_t)forbidden, wf_page_size(), PROT_NONE), 0);
    *forbidden = 1;
}

static void fault_reaches_the_programs_handler(void)
{
    check_lives(fault_to_plain_handler, "3 calls\n");
    check_lives(fault_to_info_handler, "11 blocked blocked\n1 calls\n");
#ifndef WF_TSAN /* TSan blocks all signals while a handler runs */
    check_lives(fault_to_open_handler, "11 open open\n1 calls\n");
#else
    check_lives(fault_to_open_handler, "1 calls\n");
#endif
    check_ends(fault_twice_to_handler_for_one, SIGSEGV, "1 calls\n");
}

/* ---- installing ---------------------------------------------------------------------------- */

static void other_report(const struct wf_overflow *overflow)
{
    (void)overflow;
}

static bool is_handler(void (*handler)(int))
{
    struct sigaction now;
    CHECK_EQ(sigaction(SIGSEGV, NULL, &now), 0);
    return now.sa_handler == handler;
}

static void overflow_handlers_stay_until_the_last_removal(void)
{
    (void)signal(SIGSEGV, on_plain);
    CHECK_EQ(wf_overflow_install(report), 0);
    CHECK(!is_handler(on_plain));
    CHECK_EQ(wf_overflow_install(report), 0);
    CHECK_EQ(wf_overflow_install(other_report), -EBUSY);
    wf_overflow_remove();
    CHECK(!is_handler(on_plain));
    wf_overflow_remove();
    CHECK(is_handler(on_plain));
    CHECK_EQ(wf_overflow_install(other_report), 0);
    CHECK(!is_handler(on_plain));
    wf_overflow_remove();
    CHECK(is_handler(on_plain));
}

static struct sigaction below; /* the action that the front handler replaced */

static void on_front(int number, siginfo_t *info, void *context)
{
    print("front\n");
    if (++calls < 10) { /* avoids an endless loop */
        below.sa_sigaction(number, info, context);
    }
}

/* A handler that was installed after the library's calls the library's: it stays usable, and there
 * is no endless loop. */
static void fault_behind_another(void)
{
    prepare(SIGSEGV, &(struct sigaction){.sa_handler = on_plain});
    const struct sigaction front = {.sa_sigaction = on_front, .sa_flags = SA_SIGINFO};
    CHECK_EQ(sigaction(SIGSEGV, &front, &below), 0);
    for (volatile int i = 0; i < 2; i++) {
        if (sigsetjmp(back, 1) == 0) {
            *forbidden = 1;
        }
        CHECK_EQ(calls, 2 * (i + 1)); /* one in front, one on_plain */
        wf_overflow_remove();
        CHECK_EQ(wf_overflow_install(report), 0);
    }
    print("done\n");
}

static void overflow_removal_keeps_a_handler_installed_later(void)
{
    check_lives(fault_behind_another, "front\nfront\ndone\n");
}

static void signal_stack_is_installed_and_removed(void)
{
    struct wf_signal_stack stack;
    stack_t before;
    stack_t now;
    const stack_t none = {.ss_flags = SS_DISABLE};
    CHECK_EQ(sigaltstack(&none, &before), 0); /* a sanitizer's */
    CHECK_EQ(wf_signal_stack_init(&stack), 0);
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    CHECK_EQ(now.ss_flags, 0);
    CHECK(now.ss_size >= WF_SIGNAL_STACK_SIZE);
    struct wf_signal_stack second; /* finds a sufficient stack */
    CHECK_EQ(wf_signal_stack_init(&second), 0);
    CHECK(second.memory == NULL);
    wf_signal_stack_done(&second);
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    CHECK_EQ(now.ss_flags, 0);
    wf_signal_stack_done(&stack);
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    CHECK_EQ(now.ss_flags, SS_DISABLE);
    CHECK_EQ(sigaltstack(&before, NULL), 0);
}

#ifdef WF_TEST_HOOKS
static void overflow_install_reports_every_failure_without_leak(void)
{
    struct wf_signal_stack stack;
    stack_t before;
    stack_t now;
    const stack_t none = {.ss_flags = SS_DISABLE};
    (void)signal(SIGSEGV, on_plain);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        wf_fault_arm(nth);
        CHECK_EQ(wf_overflow_install(report), -EINVAL);
        CHECK(is_handler(on_plain));
    }
    CHECK_EQ(sigaltstack(&none, &before), 0);
    int failures = 0;
    /* without the third, its guard page, the call still succeeds */
    for (uint64_t nth = 1; nth <= 4; nth++) {
        wf_fault_arm(nth);
        const int rc = wf_signal_stack_init(&stack);
        CHECK(wf_fault_hit(NULL));
        CHECK_EQ(rc, nth == 3 ? 0 : -ENOMEM);
        if (rc == 0) {
            wf_signal_stack_done(&stack);
        }
        CHECK_EQ(sigaltstack(NULL, &now), 0);
        CHECK_EQ(now.ss_flags, SS_DISABLE);
        failures += rc != 0 ? 1 : 0;
    }
    CHECK_EQ(failures, 3);
    CHECK_EQ(sigaltstack(&before, NULL), 0);
}
#endif

static const struct tap_test tests[] = {
    TAP_TEST(overflow_is_reported_with_the_tasks_name),
    TAP_TEST(overflow_by_a_large_frame_hits_the_guard),
    TAP_TEST(overflow_that_damaged_a_canary_is_reported),
    TAP_TEST(overflow_is_not_reported_for_a_wild_pointer_into_a_guard),
    TAP_TEST(fault_without_handler_has_the_default_action),
    TAP_TEST(fault_reaches_the_programs_handler),
    TAP_TEST(overflow_handlers_stay_until_the_last_removal),
    TAP_TEST(overflow_removal_keeps_a_handler_installed_later),
    TAP_TEST(signal_stack_is_installed_and_removed),
#ifdef WF_TEST_HOOKS
    TAP_TEST(overflow_install_reports_every_failure_without_leak),
#endif
};
TAP_MAIN(tests)
