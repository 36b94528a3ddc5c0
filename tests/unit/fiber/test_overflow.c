/* SPDX-License-Identifier: MIT */
/*
 * Goal:   whoever overflows a stack is told by name; every other fault does what it would have done
 *         without us.
 * Method: children that overflow, in each way, and children that fault in other ways under each
 *         kind of handler; what they print and how they end is compared.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aids.h"
#include "fiber_aids.h"

enum { TEXT = 4096 };

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
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
    say("overflow: %s, %zu bytes, %s, %s\n",
        overflow->user != NULL ? (const char *)overflow->user : "nobody", overflow->size,
        overflow->is_stray ? "stray" : "own", overflow->address == NULL ? "traces" : "caught");
}

/* A child that must end by `number`, after it said `expected`. */
static void check_ends(void (*run)(void), int number, const char *expected)
{
    char text[TEXT];
    const int status = tap_run_child(run, text, sizeof(text));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != number || strstr(text, expected) == NULL) {
        tap_fail(__FILE__, __LINE__, "status %x, said: %s", (unsigned)status, text);
    }
}

/* A child that must go on to its end, after it said `expected`. */
static void check_lives(void (*run)(void), const char *expected)
{
    char text[TEXT];
    const int status = tap_run_child(run, text, sizeof(text));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || strstr(text, expected) == NULL) {
        tap_fail(__FILE__, __LINE__, "status %x, said: %s", (unsigned)status, text);
    }
}

/* ---- overflows ----------------------------------------------------------------------------- */

static char name[] = "the task in question";
static struct fixture f;

static void run_watched(wf_fiber_fn fn, const struct wf_stack_options *options)
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
    say("%d\n", recurse(0));
    return (struct wf_fiber_exit){&f.thread, message};
}

static void overflow_by_note(void)
{
    run_watched(recurse_on_fiber, &(struct wf_stack_options){.guard = WF_GUARD_NOTE});
}

static void overflow_by_mapping(void)
{
    run_watched(recurse_on_fiber, &(struct wf_stack_options){.guard = WF_GUARD_MAPPING});
}

static const char *expected_text(const char *how)
{
    static char text[128];
    (void)snprintf(text, sizeof(text), "overflow: %s, %zu bytes, %s\n", name,
                   WF_STACK_SIZE_DEFAULT * WF_STACK_SCALE, how);
    return text;
}

static void an_overflow_is_told_by_name(void)
{
    if (wf_memory_can_guard()) {
        check_ends(overflow_by_note, SIGABRT, expected_text("own, caught"));
    }
    check_ends(overflow_by_mapping, SIGABRT, expected_text("own, caught"));
}

/* Touches its lowest byte only: what is between must be touched by the code at its begin.  That it
 * is the lowest is not for the compiler to know, or there would be no large frame. */
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
    say("%d\n", use_large_frame());
    return (struct wf_fiber_exit){&f.thread, message};
}

static void overflow_by_large_frame(void)
{
    run_watched(use_large_frame_on_fiber, NULL);
}

/* Hazard: one frame larger than stack and guard together ends in a neighbour's stack, unless it is
 * compiled with -fstack-clash-protection. */
static void a_large_frame_does_not_jump_over_the_guard(void)
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
    run_watched(damage_canary, &(struct wf_stack_options){.guard = WF_GUARD_CANARY});
}

static void a_damaged_canary_is_told_by_name(void)
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

static void a_wild_pointer_into_a_guard_is_no_overflow(void)
{
    check_ends(write_to_guard, SIGABRT, "overflow: nobody");
    check_ends(write_to_guard, SIGABRT, "stray, caught");
}

/* ---- other faults -------------------------------------------------------------------------- */

static volatile char *forbidden; /* a page nobody may touch */
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
    fixture_init(&f, recurse_on_fiber); /* so that there are stacks which it is not about */
}

static void fault_by_default(void)
{
    prepare(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL});
    say("before\n");
    *forbidden = 1;
    say("not reached\n");
}

/* Inside a stack, but not in its guard: the program's doing. */
static void fault_inside_a_stack(void)
{
    prepare(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL});
    CHECK_EQ(mprotect(f.stack->low, wf_page_size(), PROT_NONE), 0);
    say("before\n");
    *(volatile char *)f.stack->low = 1;
    say("not reached\n");
}

static void send_by_default(void)
{
    prepare(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL});
    say("before\n");
    (void)raise(SIGSEGV);
    say("not reached\n");
}

static void send_bus_by_default(void)
{
    prepare(SIGBUS, &(struct sigaction){.sa_handler = SIG_DFL});
    say("before\n");
    (void)raise(SIGBUS);
    say("not reached\n");
}

static void fault_ignored(void)
{
    prepare(SIGSEGV, &(struct sigaction){.sa_handler = SIG_IGN});
    say("before\n");
    *forbidden = 1;
    say("not reached\n");
}

static void send_ignored(void)
{
    prepare(SIGSEGV, &(struct sigaction){.sa_handler = SIG_IGN});
    (void)raise(SIGSEGV);
    say("after\n");
}

static void without_handlers_the_default_happens(void)
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
            say("not reached\n");
        }
    }
    say("%d calls\n", calls);
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
    say("%d %s %s\n", number, is_blocked(SIGSEGV) ? "blocked" : "open",
        is_blocked(SIGUSR1) ? "blocked" : "open");
    CHECK_EQ(mprotect((void *)(uintptr_t)forbidden, wf_page_size(), PROT_READ | PROT_WRITE), 0);
    errno = EDOM; /* a careless handler: ours has to put it right */
}

static void fault_and_mend(const struct sigaction *action)
{
    prepare(SIGSEGV, action);
    errno = ENOENT;
    *forbidden = 1;
    CHECK_EQ(errno, ENOENT);
    CHECK(given_info.si_addr == (void *)(uintptr_t)forbidden);
    CHECK_EQ(given_info.si_code, SEGV_ACCERR);
    say("%d calls\n", calls);
}

static void fault_to_info_handler(void)
{
    struct sigaction action = {.sa_sigaction = on_info, .sa_flags = SA_SIGINFO};
    (void)sigaddset(&action.sa_mask, SIGUSR1);
    fault_and_mend(&action);
}

static void fault_to_open_handler(void)
{
    fault_and_mend(
        &(struct sigaction){.sa_sigaction = on_info, .sa_flags = SA_SIGINFO | SA_NODEFER});
}

/* The second fault finds no handler any more. */
static void fault_twice_to_handler_for_one(void)
{
    fault_and_mend(
        &(struct sigaction){.sa_sigaction = on_info, .sa_flags = (int)(SA_SIGINFO | SA_RESETHAND)});
    CHECK_EQ(mprotect((void *)(uintptr_t)forbidden, wf_page_size(), PROT_NONE), 0);
    *forbidden = 1;
}

static void the_programs_handler_gets_its_faults(void)
{
    check_lives(fault_to_plain_handler, "3 calls\n");
    check_lives(fault_to_info_handler, "11 blocked blocked\n1 calls\n");
#ifndef WF_TSAN /* which blocks all signals while a handler runs */
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

static void handlers_stay_until_the_last_removal(void)
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

static struct sigaction below; /* what the one in front found */

static void on_front(int number, siginfo_t *info, void *context)
{
    say("front\n");
    if (++calls < 10) { /* or it goes round */
        below.sa_sigaction(number, info, context);
    }
}

/* A handler that came after ours calls ours: it stays usable, and nothing goes round in circles. */
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
    say("done\n");
}

static void a_handler_in_front_of_ours_is_left_alone(void)
{
    check_lives(fault_behind_another, "front\nfront\ndone\n");
}

static void the_stack_for_signals_comes_and_goes(void)
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
    struct wf_signal_stack second; /* finds one that will do */
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

#ifdef WF_TEST_AIDS
static void every_failure_is_told_and_leaves_nothing(void)
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
    for (uint64_t nth = 1; nth <= 4; nth++) { /* the guard of it, the third, is forgone */
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
    TAP_TEST(an_overflow_is_told_by_name),
    TAP_TEST(a_large_frame_does_not_jump_over_the_guard),
    TAP_TEST(a_damaged_canary_is_told_by_name),
    TAP_TEST(a_wild_pointer_into_a_guard_is_no_overflow),
    TAP_TEST(without_handlers_the_default_happens),
    TAP_TEST(the_programs_handler_gets_its_faults),
    TAP_TEST(handlers_stay_until_the_last_removal),
    TAP_TEST(a_handler_in_front_of_ours_is_left_alone),
    TAP_TEST(the_stack_for_signals_comes_and_goes),
#ifdef WF_TEST_AIDS
    TAP_TEST(every_failure_is_told_and_leaves_nothing),
#endif
};
TAP_MAIN(tests)
