/* SPDX-License-Identifier: MIT */
/*
 * fiber/sanitize.c - informs AddressSanitizer, ThreadSanitizer and Valgrind of stacks and switches.
 *
 * All three assume that a thread has one stack.  ASan needs the bounds of the next stack before a
 * switch, and a notice after it; in between it must not inspect the stack.  TSan keeps a shadow
 * call stack and a vector clock for each fiber and must be told to change them.  Valgrind needs one
 * registration for each stack.  In other builds this costs nothing.
 *
 * Functions that switch are not instrumented: the code that TSan adds to the entry and the exit of
 * a function would run for one fiber at the entry and for another one at the exit, and ASan would
 * place local variables on a stack that it does not know yet.
 *
 * Each stack keeps a TSan fiber for reuse: to create one takes gcc's TSan most of a millisecond,
 * and some of the memory is never freed.  A TSan fiber can be reused only if its shadow call stack
 * is as deep at the end of a fiber as at the start.  A fiber that ends inside nested calls, or is
 * abandoned while suspended, makes its TSan fiber stale, and the next fiber on that stack gets a
 * new one.
 */
#include "fiber/fiber.h"

#ifdef WF_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef WF_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#ifndef VALGRIND_STACK_REGISTER
#define VALGRIND_STACK_REGISTER(low, high) ((void)(low), (void)(high), 0u)
#define VALGRIND_STACK_DEREGISTER(id) ((void)(id))
#endif

/* ---- stacks -------------------------------------------------------------------------------- */

void wf_sanitizer_stack_new(struct wf_stack *stack)
{
    stack->valgrind_id = VALGRIND_STACK_REGISTER(stack->low, wf_stack_high(stack) - 1);
}

void wf_sanitizer_stack_back(struct wf_stack *stack)
{
#ifdef WF_ASAN
    /* Functions that never returned have not unpoisoned their redzones. */
    __asan_unpoison_memory_region(stack->low, stack->size);
#else
    (void)stack;
#endif
}

void wf_sanitizer_stack_gone(struct wf_stack *stack)
{
    VALGRIND_STACK_DEREGISTER(stack->valgrind_id);
#ifdef WF_TSAN
    if (stack->tsan != NULL) {
        __tsan_destroy_fiber(stack->tsan);
        stack->tsan = NULL;
    }
#endif
}

/* ---- fibers -------------------------------------------------------------------------------- */

void wf_sanitizer_thread(struct wf_fiber *fiber)
{
#ifdef WF_TSAN
    fiber->tsan = __tsan_get_current_fiber();
#else
    (void)fiber; /* ASan gives the bounds of a thread's stack at the first switch away from it */
#endif
}

void wf_sanitizer_fiber(struct wf_fiber *fiber)
{
#ifdef WF_ASAN
    fiber->asan_low = fiber->stack->low;
    fiber->asan_size = fiber->stack->size;
#endif
#ifdef WF_TSAN
    struct wf_stack *stack = fiber->stack;
    if (stack->is_tsan_stale) {
        __tsan_destroy_fiber(stack->tsan);
        stack->tsan = NULL;
    }
    if (stack->tsan == NULL) {
        stack->tsan = __tsan_create_fiber(0);
    }
    stack->is_tsan_stale = true; /* wf_sanitizer_switch_end clears it */
    fiber->tsan = stack->tsan;
#endif
    (void)fiber;
}

#ifdef WF_ASAN
/* The first call after a switch, by the resumed fiber. */
WF_UNINSTRUMENTED static void asan_finish_switch(struct wf_fiber *fiber)
{
    const void *low;
    size_t size;
    struct wf_fiber *from = fiber->resumed_by;
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &low, &size);
    if (from->stack == NULL) { /* a thread's own stack; it exists: this thread just left it */
        from->asan_low = low;
        from->asan_size = size;
    }
}
#endif

WF_UNINSTRUMENTED void wf_sanitizer_switch_begin(struct wf_fiber *fiber)
{
#ifdef WF_ASAN
    asan_finish_switch(fiber);
#else
    (void)fiber;
#endif
}

WF_UNINSTRUMENTED void wf_sanitizer_switch_end(struct wf_fiber *from, struct wf_fiber *to,
                                               bool is_outermost)
{
#ifdef WF_ASAN
    to->resumed_by = from;
    /* NULL: ASan frees the fake stack of this fiber. */
    __sanitizer_start_switch_fiber(NULL, to->asan_low, to->asan_size);
#endif
#ifdef WF_TSAN
    from->stack->is_tsan_stale = !is_outermost;
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
    (void)from;
    (void)to;
    (void)is_outermost;
}

#ifdef WF_SWITCH_SANITIZED
WF_UNINSTRUMENTED void *wf_fiber_switch_sanitized(struct wf_fiber *from, struct wf_fiber *to,
                                                  void *message)
{
    void *resume = to->stack_pointer;
    to->stack_pointer = NULL;
#ifdef WF_ASAN
    to->resumed_by = from;
    __sanitizer_start_switch_fiber(&from->fake_stack, to->asan_low, to->asan_size);
#endif
#ifdef WF_TSAN
    __tsan_switch_to_fiber(to->tsan, 0); /* 0: the switch synchronises the two fibers */
#endif
    message = wf_context_switch(&from->stack_pointer, resume, message);
#ifdef WF_ASAN
    asan_finish_switch(from);
#endif
    return message;
}
#endif
