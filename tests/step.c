/* SPDX-License-Identifier: MIT */
/*
 * step.c - see step.h.
 *
 * While the trap flag is set, the CPU raises SIGTRAP after each instruction.  The kernel clears the
 * flag for the handler and restores it when the handler returns, so functions called by the handler
 * run at full speed.
 */
#include "step.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#include "base/atomic.h"
#include "tap.h"

#if defined(__x86_64__) && !defined(WF_TSAN) && !defined(WF_HOSTILE)
#define STEP_POSSIBLE 1
#endif

#ifdef STEP_POSSIBLE

enum { TRAP_FLAG = 0x100 };

/* One stepped operation per thread; the handler runs on the same thread. */
static _Thread_local struct {
    volatile bool is_inside; /* between the first and the last instruction of op */
    volatile bool is_hit;
    volatile uint64_t steps;
    uint64_t at; /* 0: never */
    step_fn meanwhile;
    void *context;
} state;

static void on_trap(int signal, siginfo_t *info, void *frame)
{
    (void)signal;
    (void)info;
    ucontext_t *interrupted = frame;
    if (!state.is_inside) {
        return;
    }
    state.steps++;
    if (state.steps == state.at) {
        state.is_hit = true;
        /* the rest runs at full speed */
        interrupted->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
        state.meanwhile(state.context);
    }
}

/* The red zone below the stack pointer belongs to the compiler: step over it first. */
#define CHANGE_FLAGS(instruction)                                                                  \
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; " instruction                                \
                     "; popfq; lea 128(%%rsp), %%rsp" ::                                           \
                         : "memory", "cc")

static void run_stepped(uint64_t at, step_fn op, step_fn meanwhile, void *context)
{
    const struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0); /* never restored: each test is a process */
    state.is_hit = false;
    state.steps = 0;
    state.at = at;
    state.meanwhile = meanwhile;
    state.context = context;
    CHANGE_FLAGS("orq $0x100, (%%rsp)");
    state.is_inside = true;
    op(context);
    state.is_inside = false;
    CHANGE_FLAGS("andq $~0x100, (%%rsp)");
}

void step_require(void)
{
}

bool step_interrupt(uint64_t at, step_fn op, step_fn meanwhile, void *context)
{
    CHECK(at > 0);
    run_stepped(at, op, meanwhile, context);
    return state.is_hit;
}

uint64_t step_count(step_fn op, void *context)
{
    run_stepped(0, op, NULL, context);
    return state.steps;
}

/* ---- both preempted ------------------------------------------------------------------------ */

/* The handler posts and awaits the semaphores; that is safe because it interrupts the operation,
 * which uses no semaphore. */
struct meeting {
    step_fn first;
    step_fn second;
    void *context;
    uint64_t at_second;
    bool is_inside_second;
    sem_t second_may_begin;
    sem_t first_may_end;
    sem_t second_may_end;
};

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) {
        CHECK_EQ(errno, EINTR);
    }
}

static void run_first(void *context)
{
    struct meeting *meeting = context;
    meeting->first(meeting->context);
}

static void run_second(void *context)
{
    struct meeting *meeting = context;
    meeting->second(meeting->context);
}

static void pause_first(void *context)
{
    struct meeting *meeting = context;
    (void)sem_post(&meeting->second_may_begin);
    await(&meeting->first_may_end);
}

static void pause_second(void *context)
{
    struct meeting *meeting = context;
    (void)sem_post(&meeting->first_may_end);
    await(&meeting->second_may_end);
}

static void *second_main(void *arg)
{
    struct meeting *meeting = arg;
    await(&meeting->second_may_begin);
    meeting->is_inside_second =
        step_interrupt(meeting->at_second, run_second, pause_second, meeting);
    if (!meeting->is_inside_second) {
        (void)sem_post(&meeting->first_may_end); /* it ended instead of pausing */
    }
    return NULL;
}

struct step_meeting step_interleave(uint64_t at_first, step_fn first, uint64_t at_second,
                                    step_fn second, void *context)
{
    struct meeting meeting = {
        .first = first, .second = second, .context = context, .at_second = at_second};
    CHECK_EQ(sem_init(&meeting.second_may_begin, 0, 0), 0);
    CHECK_EQ(sem_init(&meeting.first_may_end, 0, 0), 0);
    CHECK_EQ(sem_init(&meeting.second_may_end, 0, 0), 0);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, second_main, &meeting), 0);
    bool is_inside_first = step_interrupt(at_first, run_first, pause_first, &meeting);
    if (!is_inside_first) {
        (void)sem_post(&meeting.second_may_begin); /* it ended instead of pausing */
    }
    (void)sem_post(&meeting.second_may_end);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(sem_destroy(&meeting.second_may_begin), 0);
    CHECK_EQ(sem_destroy(&meeting.first_may_end), 0);
    CHECK_EQ(sem_destroy(&meeting.second_may_end), 0);
    return (struct step_meeting){is_inside_first, meeting.is_inside_second};
}

#else /* not STEP_POSSIBLE */

void step_require(void)
{
    tap_skip("this build cannot be run instruction by instruction");
}

bool step_interrupt(uint64_t at, step_fn op, step_fn meanwhile, void *context)
{
    (void)at;
    (void)op;
    (void)meanwhile;
    (void)context;
    step_require();
    return false;
}

struct step_meeting step_interleave(uint64_t at_first, step_fn first, uint64_t at_second,
                                    step_fn second, void *context)
{
    (void)at_first;
    (void)first;
    (void)at_second;
    (void)second;
    (void)context;
    step_require();
    return (struct step_meeting){false, false};
}

uint64_t step_count(step_fn op, void *context)
{
    (void)op;
    (void)context;
    step_require();
    return 0;
}

#endif

uint64_t step_stride(uint64_t steps)
{
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
    enum { PLACES_MAX = 200 };
#else
    enum { PLACES_MAX = 40 };
#endif
    return 1 + steps / PLACES_MAX;
}
