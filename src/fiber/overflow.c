/* SPDX-License-Identifier: MIT */
/*
 * fiber/overflow.c - reports which stack overflowed, instead of "Segmentation fault".
 *
 * An overflow is a fault in a guard.  The handler cannot run on the full stack, so each thread has
 * an alternate signal stack.  The layer above provides the report, because it knows what ran on the
 * stack.  Then the process aborts: the frame that did not fit can neither be completed nor undone.
 *
 * All other faults go to the program as if this handler did not exist.  The program's handler is
 * called with the same arguments and the same signals blocked (this handler is installed with its
 * mask and flags).  A default action happens with the registers of the fault in the core file: the
 * default is restored and the instruction runs again.  A signal sent by kill has the effect that it
 * would have had.  One thing differs: the program's handler runs on the alternate signal stack even
 * if it was not installed with SA_ONSTACK.
 *
 * Rejected: to unwind the one task (the fault interrupts the code between any two instructions,
 * with any lock held); a thread that waits for faults through ptrace or userfaultfd.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "fiber/fiber.h"

static const int signals[] = {SIGSEGV, SIGBUS}; /* the kernel decides which one a guard raises */

enum {
    SIGNALS = sizeof(signals) / sizeof(signals[0]),
};

static struct wf_lock install_lock = {.rank = WF_RANK_OVERFLOW};
static unsigned install_count; /* [install_lock] */

static WF_ATOMIC(wf_overflow_report_fn) report; /* [install_lock: write] [signal: read] */

/* [install_lock]  Per signal: on_fault is installed, or the program has replaced it by a handler
 * that may call on_fault. */
static bool is_hooked[SIGNALS];
/* [install_lock: write, while not hooked and `handlers` is 0] [signal: read]  The action before. */
static struct sigaction previous[SIGNALS];
/* [signal: add]  Handlers that are reading `previous`. */
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

/* The stack pointer may be up to the size of a guard below the guard: code that is compiled with
 * -fstack-clash-protection touches the guard before it moves the stack pointer further. */
static bool is_on_stack(const struct wf_stack_place *place, uintptr_t stack_pointer)
{
    const uintptr_t lowest = (uintptr_t)place->low - 2 * wf_guard_size();
    return stack_pointer - lowest <= place->size + 2 * wf_guard_size();
}

/* True when a report is installed and the fault is an access to a guard. */
static bool is_overflow(const siginfo_t *info, const ucontext_t *context, struct wf_overflow *out)
{
    struct wf_stack_place place;
    /* acquire: pairs with (fiber.O1), for `previous` too.  A signal that was sent by a process
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
        .is_stray = !is_on_stack(&place, stack_pointer_of(context)),
    };
    return true;
}

static _Noreturn void report_and_abort(const struct wf_overflow *overflow)
{
    wf_overflow_report_fn report_fn = wf_load_acquire(&report); /* acquire: pairs with (fiber.O1) */
    if (report_fn == NULL) {
        wf_panic(__FILE__, __LINE__, "a stack (overflow)");
    }
    report_fn(overflow);
    abort();
}

void wf_overflow_found(const struct wf_stack *stack)
{
    report_and_abort(&(struct wf_overflow){
        .low = stack->low,
        .size = stack->size,
        .user = wf_load_relaxed(&stack->user), /* relaxed: only the owner, the caller, writes it */
    });
}

/* ---- other faults -------------------------------------------------------------------------- */

/* Restores the default action.  After a fault the instruction runs again and faults again.  A
 * signal that was sent is sent again, and is delivered when the handler returns. */
static void fault_default(int number, const siginfo_t *info)
{
    const struct sigaction action = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &action, NULL); /* never fails for SIGSEGV and SIGBUS */
    if (info->si_code <= 0) {
        (void)syscall(SYS_tgkill, getpid(), wf_thread_id(), number);
    }
}

/* Calls the program's handler, or does what its action says. */
static void fault_forward(int number, siginfo_t *info, void *context,
                          const struct sigaction *action)
{
    const bool has_info = (action->sa_flags & SA_SIGINFO) != 0;
    if (!has_info && action->sa_handler == SIG_IGN && info->si_code <= 0) {
        return;
    }
    /* A fault cannot be ignored: the kernel kills the process. */
    if (!has_info && (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN)) {
        fault_default(number, info);
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
    const int saved_errno = errno; /* of the interrupted code */
    struct wf_overflow overflow;
    if (is_overflow(info, context, &overflow)) {
        report_and_abort(&overflow);
    }
    (void)wf_fetch_add_acquire(&handlers, 1); /* acquire: the read of `previous` comes later */
    const struct sigaction action = previous[number == signals[0] ? 0 : 1];
    (void)wf_fetch_sub_release(&handlers, 1);      /* (fiber.O2) release */
    fault_forward(number, info, context, &action); /* may leave by siglongjmp */
    errno = saved_errno;
}

/* ---- installing ---------------------------------------------------------------------------- */

/* [locked install_lock] */
static int hook_locked(int i)
{
    if (is_hooked[i]) {
        return 0; /* the program replaced on_fault by its own handler, which may call on_fault */
    }
    if (WF_FAULT("sigaction")) {
        return -EINVAL;
    }
    /* acquire: pairs with (fiber.O2).  A handler that began before the last unhook may still be
     * reading.  Ends: such a handler only copies one structure. */
    while (wf_load_acquire(&handlers) != 0) {
        (void)sched_yield();
    }
    if (sigaction(signals[i], NULL, &previous[i]) != 0) {
        return -errno;
    }
    struct sigaction action = previous[i];
    action.sa_sigaction = on_fault;
    /* Keeps the mask, SA_NODEFER and SA_RESTART, but not SA_RESETHAND. */
    action.sa_flags = (action.sa_flags & (SA_NODEFER | SA_RESTART)) | SA_SIGINFO | SA_ONSTACK;
    if (sigaction(signals[i], &action, NULL) != 0) {
        return -errno;
    }
    is_hooked[i] = true;
    return 0;
}

/* [locked install_lock]  Restores the previous action, unless the program has installed a handler
 * since.  That handler may call on_fault, which then only forwards. */
static void unhook_locked(int i)
{
    struct sigaction now;
    if (is_hooked[i] && sigaction(signals[i], NULL, &now) == 0 && now.sa_sigaction == on_fault) {
        (void)sigaction(signals[i], &previous[i], NULL); /* never fails for SIGSEGV and SIGBUS */
        is_hooked[i] = false;
    }
}

int wf_overflow_install(wf_overflow_report_fn new_report)
{
    int rc = 0;
    WEFT_ASSERT(new_report != NULL);
    wf_lock_acquire(&install_lock);
    if (install_count > 0) {
        /* relaxed: install_lock orders it. */
        rc = wf_load_relaxed(&report) == new_report ? 0 : -EBUSY;
    }
    for (int i = 0; i < SIGNALS && rc == 0 && install_count == 0; i++) {
        rc = hook_locked(i);
    }
    if (rc == 0) {
        install_count++;
        /* (fiber.O1) release: the handler sees the report's data and `previous`. */
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

/* ---- alternate signal stacks --------------------------------------------------------------- */

/* The bytes that the kernel pushes for a signal: the registers, of which newer CPUs have many. */
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
        return 0; /* that of a sanitizer or of the program */
    }
    const size_t page_size = wf_page_size();
    const size_t size = WF_SIGNAL_STACK_SIZE + signal_frame_size();
    const size_t bytes = page_size + (size + page_size - 1) / page_size * page_size;
    void *memory;
    int rc = wf_memory_map(&memory, bytes);
    if (rc != 0) {
        return rc;
    }
    (void)wf_memory_protect(memory, page_size); /* on error (no mapping left) without a guard */
    const stack_t alternate = {.ss_sp = (char *)memory + page_size, .ss_size = bytes - page_size};
    if (WF_FAULT("sigaltstack") || sigaltstack(&alternate, NULL) != 0) {
        (void)wf_memory_unmap(memory, bytes); /* a whole mapping; on error it leaks */
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
    (void)sigaltstack(&old, NULL);                      /* succeeds: it was valid before */
    (void)wf_memory_unmap(stack->memory, stack->bytes); /* a whole mapping; on error it leaks */
    stack->memory = NULL;
}
