/* SPDX-License-Identifier: MIT */
/*
 * fiber/sanitize.c - tells AddressSanitizer, ThreadSanitizer and Valgrind what happens to stacks.
 *
 * All three believe that a thread has one stack.  ASan is told which stack will be used next before
 * a switch, and after it that the switch took place: in between it must not look.  TSan keeps a
 * history of calls and a clock for each fiber and is told when to change them.  Valgrind is told
 * once for each stack that it is one.  In other builds nothing of this costs anything.
 *
 * Functions that switch are not instrumented: code that TSan adds at the begin and the end of a
 * function would be run for one fiber at the begin and for another at the end, and ASan would put
 * local variables where it may not yet.
 *
 * TSan's fibers are kept with the stacks: to make one takes gcc's TSan most of a millisecond, and
 * some of the memory never comes back.  That is only possible while its history of calls is as long
 * at the end of a fiber's life as at its begin.  A fiber that ends deep inside other calls, or is
 * given up while suspended, wears its TSan fiber out, and the next one on that stack gets a new
 * one.
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

void wf_notice_stack_new(struct wf_stack *stack)
{
    stack->valgrind_id = VALGRIND_STACK_REGISTER(stack->low, wf_stack_high(stack) - 1);
}

void wf_notice_stack_back(struct wf_stack *stack)
{
#ifdef WF_ASAN
    /* Functions that never returned did not clean up the marks around their local variables. */
    __asan_unpoison_memory_region(stack->low, stack->size);
#else
    (void)stack;
#endif
}

void wf_notice_stack_gone(struct wf_stack *stack)
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

void wf_notice_thread(struct wf_fiber *fiber)
{
#ifdef WF_TSAN
    fiber->tsan = __tsan_get_current_fiber();
#else
    (void)fiber; /* ASan tells us the bounds of a thread's stack when it is left */
#endif
}

void wf_notice_fiber(struct wf_fiber *fiber)
{
#ifdef WF_ASAN
    fiber->asan_low = fiber->stack->low;
    fiber->asan_size = fiber->stack->size;
#endif
#ifdef WF_TSAN
    struct wf_stack *stack = fiber->stack;
    if (stack->is_tsan_worn) {
        __tsan_destroy_fiber(stack->tsan);
        stack->tsan = NULL;
    }
    if (stack->tsan == NULL) {
        stack->tsan = __tsan_create_fiber(0);
    }
    stack->is_tsan_worn = true; /* until wf_notice_end says otherwise */
    fiber->tsan = stack->tsan;
#endif
    (void)fiber;
}

#ifdef WF_ASAN
/* The first thing after a switch, in the fiber that goes on. */
WF_UNINSTRUMENTED static void arrive(struct wf_fiber *fiber)
{
    const void *low;
    size_t size;
    struct wf_fiber *from = fiber->resumed_by;
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &low, &size);
    if (from->stack == NULL) { /* a thread: cannot have gone yet, since we came from there */
        from->asan_low = low;
        from->asan_size = size;
    }
}
#endif

WF_UNINSTRUMENTED void wf_notice_begin(struct wf_fiber *fiber)
{
#ifdef WF_ASAN
    arrive(fiber);
#else
    (void)fiber;
#endif
}

WF_UNINSTRUMENTED void wf_notice_end(struct wf_fiber *from, struct wf_fiber *to, bool is_outermost)
{
#ifdef WF_ASAN
    to->resumed_by = from;
    /* NULL: what ASan keeps for this fiber is freed. */
    __sanitizer_start_switch_fiber(NULL, to->asan_low, to->asan_size);
#endif
#ifdef WF_TSAN
    from->stack->is_tsan_worn = !is_outermost;
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
    (void)from;
    (void)to;
    (void)is_outermost;
}

#ifdef WF_SWITCH_NOTICED
WF_UNINSTRUMENTED void *wf_fiber_switch_noticed(struct wf_fiber *from, struct wf_fiber *to,
                                                void *message)
{
    void *resume = to->stack_pointer;
    to->stack_pointer = NULL;
#ifdef WF_ASAN
    to->resumed_by = from;
    __sanitizer_start_switch_fiber(&from->fake_stack, to->asan_low, to->asan_size);
#endif
#ifdef WF_TSAN
    __tsan_switch_to_fiber(to->tsan, 0); /* 0: what came before on this thread happened before */
#endif
    message = wf_context_switch(&from->stack_pointer, resume, message);
#ifdef WF_ASAN
    arrive(from);
#endif
    return message;
}
#endif
