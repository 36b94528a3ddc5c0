/* SPDX-License-Identifier: MIT */
/*
 * fiber/fiber.c - creation, first entry and end of a fiber.
 *
 * wf_fiber_init writes to the high end of the stack what wf_context_switch would have saved there,
 * so a new fiber looks like a suspended one.  The first switch to it needs no special case.
 *
 * Rejected: ucontext (its switch makes a system call for the signal mask, at 200 times the cost),
 * and setjmp with a signal on an alternate stack for the first entry.
 */
#include "fiber/fiber.h"

/* The context that wf_context_switch restores: see the head of switch_*.S. */
struct first_frame {
#if defined(__x86_64__)
    uint64_t r15_to_r12[4];
    struct wf_fiber *rbx; /* for wf_fiber_trampoline */
    uint64_t rbp;         /* 0: the end of the frame pointer chain */
    void (*resume)(void);
#elif defined(__aarch64__)
    uint64_t x29; /* 0: the end of the frame pointer chain */
    void (*x30)(void);
    struct wf_fiber *x19; /* for wf_fiber_trampoline */
    uint64_t x20_to_x28[9];
    uint64_t d8_to_d15[8];
#else
#error "there is a context switch for x86-64 and for AArch64"
#endif
    /* Remains on the stack after the restore: aligns the trampoline's stack pointer to 16 bytes,
     * and ends the backtrace of a debugger that reads a return address here. */
    uint64_t end[2];
};

static void *first_frame_put(char *high, struct wf_fiber *fiber)
{
    struct first_frame *frame = (struct first_frame *)(void *)(high - sizeof(*frame));
#if defined(__x86_64__)
    *frame = (struct first_frame){.rbx = fiber, .resume = wf_fiber_trampoline};
#else
    *frame = (struct first_frame){.x30 = wf_fiber_trampoline, .x19 = fiber};
#endif
    return frame;
}

/* ---- floating point control ---------------------------------------------------------------- */

static struct wf_fp_control fp_control_read(void)
{
    struct wf_fp_control fp;
#if defined(__x86_64__)
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(fp.mxcsr), "=m"(fp.x87));
#else
    __asm__ volatile("mrs %0, fpcr" : "=r"(fp.fpcr));
#endif
    return fp;
}

static void fp_control_write(struct wf_fp_control fp)
{
#if defined(__x86_64__)
    __asm__ volatile("ldmxcsr %0\n\tfldcw %1" ::"m"(fp.mxcsr), "m"(fp.x87));
#else
    __asm__ volatile("msr fpcr, %0" ::"r"(fp.fpcr));
#endif
}

void wf_fiber_keep_fp_control(struct wf_fiber *fiber)
{
    fiber->fp = fp_control_read();
    fiber->keeps_fp_control = true;
}

/* The fiber that suspends restores the words before the switch and sets its own again after it.  So
 * a switch checks one flag only, that of the running fiber. */
void *wf_fiber_switch_keeping(struct wf_fiber *from, struct wf_fiber *to, void *message)
{
    const struct wf_fp_control own = fp_control_read();
    fp_control_write(from->fp);
    message = wf_fiber_switch_plain(from, to, message);
    fp_control_write(own);
    return message;
}

/* ---- creation and end ---------------------------------------------------------------------- */

void wf_fiber_init_thread(struct wf_fiber *fiber)
{
    *fiber = (struct wf_fiber){0};
    wf_sanitizer_thread(fiber);
}

void wf_fiber_init(struct wf_fiber *fiber, struct wf_stack *stack, wf_fiber_fn fn, void *arg)
{
    WEFT_ASSERT(stack != NULL);
    WEFT_ASSERT(fn != NULL);
    *fiber = (struct wf_fiber){.stack = stack, .fn = fn, .arg = arg};
    fiber->stack_pointer = first_frame_put(wf_stack_high(stack) - stack->color, fiber);
    wf_sanitizer_fiber(fiber);
}

WF_UNINSTRUMENTED void wf_fiber_main(struct wf_fiber *fiber, void *message)
{
    wf_sanitizer_switch_begin(fiber);
    struct wf_fiber_exit end = fiber->fn(fiber->arg, message);
    wf_fiber_leave(fiber, end.to, end.message, true);
}

WF_UNINSTRUMENTED void wf_fiber_switch_final(struct wf_fiber *from, struct wf_fiber *to,
                                             void *message)
{
    wf_fiber_leave(from, to, message, false);
}

WF_UNINSTRUMENTED void wf_fiber_leave(struct wf_fiber *from, struct wf_fiber *to, void *message,
                                      bool is_outermost)
{
    WEFT_CHECK(from->stack != NULL); /* a thread's own fiber cannot end */
    WEFT_CHECK(from != to);
    WEFT_CHECK(to->stack_pointer != NULL);
    if (from->keeps_fp_control) {
        fp_control_write(from->fp);
    }
    void *resume = to->stack_pointer;
    to->stack_pointer = NULL;
    void *unused; /* from->stack_pointer stays NULL: a later switch to it fails an assertion */
    wf_sanitizer_switch_end(from, to, is_outermost);
    (void)wf_context_switch(&unused, resume, message);
    __builtin_unreachable();
}
