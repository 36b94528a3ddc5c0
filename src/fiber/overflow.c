/* SPDX-License-Identifier: MIT */
/*
 * fiber/overflow.c - says which stack overflowed, instead of "Segmentation fault".
 *
 * An overflow is a fault in a guard.  Its handler cannot run on the stack that is full, so each
 * thread has another one for signals.  What the report says is up to the layer above, which knows
 * what ran there; afterwards the process aborts, because the frame that did not fit can neither be
 * finished nor undone.
 *
 * Faults that are not ours are none of our business, but we are in between now.  The program must
 * not notice: its handler is called with the same arguments and the same signals blocked (ours is
 * installed with its mask and flags), a default action happens with the registers of the fault in
 * the core file (the action is restored and the instruction runs again), and who sent a signal by
 * kill gets what kill would have done.  One thing differs: a handler that would have run on the
 * normal stack runs on the one for signals.
 *
 * Rejected: to catch the fault and unwind the one task (the code was interrupted between any two
 * instructions, with any lock held); a thread that waits for faults through ptrace or userfaultfd.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "fiber/fiber.h"

static const int signals[] = {SIGSEGV, SIGBUS}; /* which one a guard gives is up to the kernel */

enum {
    SIGNALS = sizeof(signals) / sizeof(signals[0]),
};

static struct wf_lock install_lock = {.rank = WF_RANK_OVERFLOW};
static unsigned install_count; /* [install_lock] */

static WF_ATOMIC(wf_overflow_report_fn) report; /* [install_lock: write] [signal: read] */

/* Per signal: our handler is in force, or somebody put his in front of it, who may call ours. */
static bool is_hooked[SIGNALS]; /* [install_lock] */
/* What was there before.  [install_lock: write, while not hooked and no handler runs] */
static struct sigaction previous[SIGNALS];
/* [signal: add]  Handlers that look at `previous`. */
static WF_ATOMIC(uint32_t) handlers;

/* ---- reports ------------------------------------------------------------------------------- */

static uintptr_t stack_pointer_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#else
    return (uintptr_t)context->uc_mcontext.sp;
#endif
}

/* The first instruction that touches the guard may have moved the stack pointer through it by up to
 * a guard's size, and by no more if it was compiled as it must be. */
static bool is_on(const struct wf_stack_place *place, uintptr_t stack_pointer)
{
    const uintptr_t lowest = (uintptr_t)place->low - 2 * wf_guard_size();
    return stack_pointer - lowest <= place->size + 2 * wf_guard_size();
}

/* True when the fault is an overflow and somebody wants to know. */
static bool is_overflow(const siginfo_t *info, const ucontext_t *context, struct wf_overflow *out)
{
    struct wf_stack_place place;
    /* acquire: pairs with wf_overflow_install, for `previous` as well.  A signal that was sent
     * (si_code <= 0) has no address. */
    if (wf_load_acquire(&report) == NULL || info->si_code <= 0 ||
        !wf_stack_find(info->si_addr, &place) || !place.is_guard) {
        return false;
    }
    *out = (struct wf_overflow){
        .address = info->si_addr,
        .low = place.low,
        .size = place.size,
        .user = place.user,
        .is_stray = !is_on(&place, stack_pointer_of(context)),
    };
    return true;
}

static _Noreturn void tell_and_end(const struct wf_overflow *overflow)
{
    wf_overflow_report_fn tell = wf_load_acquire(&report); /* pairs with wf_overflow_install */
    if (tell == NULL) {
        wf_panic(__FILE__, __LINE__, "a stack (overflow)");
    }
    tell(overflow);
    abort();
}

void wf_overflow_found(const struct wf_stack *stack)
{
    tell_and_end(&(struct wf_overflow){
        .low = stack->low,
        .size = stack->size,
        .user = wf_load_relaxed(&stack->user), /* relaxed: ours */
    });
}

/* ---- faults of others ---------------------------------------------------------------------- */

/* What the kernel would have done without a handler.  After a fault the instruction will run again
 * and fault again; a signal that was sent has to be sent again, and comes when we return. */
static void do_default(int number, const siginfo_t *info)
{
    const struct sigaction action = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &action, NULL); /* never fails for these */
    if (info->si_code <= 0) {
        (void)syscall(SYS_tgkill, getpid(), wf_thread_id(), number);
    }
}

static void pass_on(int number, siginfo_t *info, void *context, const struct sigaction *action)
{
    const bool has_info = (action->sa_flags & SA_SIGINFO) != 0;
    if (!has_info && action->sa_handler == SIG_IGN && info->si_code <= 0) {
        return;
    }
    /* To ignore a fault is not possible: the kernel ends the process. */
    if (!has_info && (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN)) {
        do_default(number, info);
        return;
    }
    if (((unsigned)action->sa_flags & SA_RESETHAND) != 0) {
        const struct sigaction once = {.sa_handler = SIG_DFL};
        (void)sigaction(number, &once, NULL);
    }
    if (has_info) {
        action->sa_sigaction(number, info, context);
    } else {
        action->sa_handler(number);
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    const int saved_errno = errno; /* the interrupted code's */
    struct wf_overflow overflow;
    if (is_overflow(info, context, &overflow)) {
        tell_and_end(&overflow);
    }
    (void)wf_fetch_add_acquire(&handlers, 1); /* acquire: counted before it reads */
    const struct sigaction action = previous[number == signals[0] ? 0 : 1];
    (void)wf_fetch_sub_release(&handlers, 1);
    pass_on(number, info, context, &action); /* may leave by siglongjmp */
    errno = saved_errno;
}

/* ---- installing ---------------------------------------------------------------------------- */

/* [locked install_lock] */
static int hook_locked(int i)
{
    if (is_hooked[i]) {
        return 0; /* somebody put his handler in front of ours and calls it, or does without us */
    }
    if (WF_FAULT("sigaction")) {
        return -EINVAL;
    }
    /* acquire: a handler from before the last unhook may still be reading. */
    while (wf_load_acquire(&handlers) != 0) {
        (void)sched_yield();
    }
    if (sigaction(signals[i], NULL, &previous[i]) != 0) {
        return -errno;
    }
    struct sigaction ours = previous[i];
    ours.sa_sigaction = on_fault;
    /* Its mask and its wish not to be blocked, but not to be called only once. */
    ours.sa_flags = (ours.sa_flags & (SA_NODEFER | SA_RESTART)) | SA_SIGINFO | SA_ONSTACK;
    if (sigaction(signals[i], &ours, NULL) != 0) {
        return -errno;
    }
    is_hooked[i] = true;
    return 0;
}

/* [locked install_lock]  Unless somebody else has installed a handler since then: he may call ours,
 * which then only passes on. */
static void unhook_locked(int i)
{
    struct sigaction now;
    if (is_hooked[i] && sigaction(signals[i], NULL, &now) == 0 && now.sa_sigaction == on_fault) {
        (void)sigaction(signals[i], &previous[i], NULL); /* never fails for these */
        is_hooked[i] = false;
    }
}

int wf_overflow_install(wf_overflow_report_fn new_report)
{
    int rc = 0;
    WEFT_ASSERT(new_report != NULL);
    wf_lock_acquire(&install_lock);
    if (install_count > 0) {
        /* relaxed: under the lock that it was written under */
        rc = wf_load_relaxed(&report) == new_report ? 0 : -EBUSY;
    }
    for (int i = 0; i < SIGNALS && rc == 0 && install_count == 0; i++) {
        rc = hook_locked(i);
    }
    if (rc == 0) {
        install_count++;
        /* release: the report's own data is seen by the handler */
        wf_store_release(&report, new_report);
    }
    for (int i = 0; i < SIGNALS && install_count == 0; i++) {
        unhook_locked(i);
    }
    wf_lock_release(&install_lock);
    return rc;
}

void wf_overflow_remove(void)
{
    wf_lock_acquire(&install_lock);
    WEFT_CHECK(install_count > 0);
    if (--install_count == 0) {
        for (int i = 0; i < SIGNALS; i++) {
            unhook_locked(i);
        }
        wf_store_relaxed(&report, NULL); /* relaxed: publishes nothing */
    }
    wf_lock_release(&install_lock);
}

/* ---- stacks for signals -------------------------------------------------------------------- */

/* What the kernel itself puts on a signal's stack: registers, of which newer CPUs have many. */
static size_t signal_frame_size(void)
{
#ifdef _SC_MINSIGSTKSZ
    long size = sysconf(_SC_MINSIGSTKSZ);
    return size > 0 ? (size_t)size : (size_t)MINSIGSTKSZ;
#else
    return (size_t)MINSIGSTKSZ;
#endif
}

int wf_signal_stack_init(struct wf_signal_stack *stack)
{
    stack_t old;
    if (WF_FAULT("sigaltstack")) {
        return -ENOMEM;
    }
    if (sigaltstack(NULL, &old) != 0) {
        return -errno;
    }
    *stack = (struct wf_signal_stack){
        .old_low = old.ss_sp, .old_size = old.ss_size, .old_flags = old.ss_flags};
    const size_t needed = WF_SIGNAL_STACK_SIZE / 4 + signal_frame_size();
    if ((old.ss_flags & SS_DISABLE) == 0 && old.ss_size >= needed) {
        return 0; /* a sanitizer's, or the program's own */
    }
    const size_t page_size = wf_page_size();
    const size_t size = WF_SIGNAL_STACK_SIZE + signal_frame_size();
    const size_t bytes = page_size + (size + page_size - 1) / page_size * page_size;
    void *memory;
    int rc = wf_memory_map(&memory, bytes);
    if (rc != 0) {
        return rc;
    }
    (void)wf_memory_protect(memory, page_size); /* if there is no mapping left: without a guard */
    const stack_t ours = {.ss_sp = (char *)memory + page_size, .ss_size = bytes - page_size};
    if (WF_FAULT("sigaltstack") || sigaltstack(&ours, NULL) != 0) {
        (void)wf_memory_unmap(memory, bytes); /* a whole mapping: at worst it stays */
        return -ENOMEM;
    }
    stack->memory = memory;
    stack->bytes = bytes;
    return 0;
}

void wf_signal_stack_done(struct wf_signal_stack *stack)
{
    if (stack->memory == NULL) {
        return;
    }
    const stack_t old = {
        .ss_sp = stack->old_low, .ss_size = stack->old_size, .ss_flags = stack->old_flags};
    (void)sigaltstack(&old, NULL);                      /* was in force before */
    (void)wf_memory_unmap(stack->memory, stack->bytes); /* as above */
    stack->memory = NULL;
}
