/* SPDX-License-Identifier: MIT */
/*
 * bench_fiber.c - the cost of fibers: a switch, a life, a stack.
 *
 *   switch-2     two fibers in turn, nothing else
 *   switch-503   a ring of 503, more than the first-level cache holds
 *   fiber-life   a stack from the worker's cache, one switch to it and back, and the stack returned
 *   stack-burst  1000 stacks at once, one page of each touched, and all returned
 *
 * Variants: weft; weft-fp keeps the floating point control words; weft-plain begins all stacks at
 * the same offset within their page, as without colors; ucontext is the C library's
 * switch; mmap is a mapping with a guard page for each stack, as threads have it.
 */
#include <sys/mman.h>
#include <ucontext.h>

#include "bench.h"
#include "fiber/fiber.h"

enum { CIRCLE = 503, BURST = 1000 };

#define INLINED static inline __attribute__((always_inline))

static struct wf_stack_pool pool;
static struct wf_stack_cache cache;
static struct wf_fiber thread;
static struct wf_fiber fibers[CIRCLE];
static struct wf_stack *stacks[BURST];

static void start(void)
{
    WEFT_CHECK(wf_stack_pool_init(&pool, NULL) == 0);
    wf_stack_cache_init(&cache, &pool);
    wf_fiber_init_thread(&thread);
}

static void take_stacks(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        WEFT_CHECK(wf_stack_get(&cache, 0, &stacks[i]) == 0);
    }
}

static void give_stacks(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        wf_stack_put(&cache, stacks[i]);
    }
}

static void stop(void)
{
    wf_stack_cache_done(&cache);
    wf_stack_pool_done(&pool);
}

/* ---- switches ------------------------------------------------------------------------------ */

/* Ends when the message is NULL; counts how often it was switched to. */
static struct wf_fiber_exit count_visits(void *arg, void *message)
{
    struct wf_fiber *self = arg;
    uintptr_t visits = 0;
    while (message != NULL) {
        visits++;
        message = wf_fiber_switch(self, &thread, NULL);
    }
    return (struct wf_fiber_exit){&thread, (void *)visits};
}

/* There and back are two switches. */
static uint64_t visit_circle(uint64_t ops, bool is_colored)
{
    const uint64_t rounds = ops / (2 * CIRCLE) + 1;
    uint64_t visits = 0;
    start();
    take_stacks(CIRCLE);
    for (size_t i = 0; i < CIRCLE; i++) {
        stacks[i]->color = is_colored ? stacks[i]->color : 0;
        wf_fiber_init(&fibers[i], stacks[i], count_visits, &fibers[i]);
    }
    const uint64_t start_ns = bench_now_ns();
    for (uint64_t left = rounds; left > 0; left--) {
        for (size_t i = 0; i < CIRCLE; i++) {
            (void)wf_fiber_switch(&thread, &fibers[i], &thread);
        }
    }
    const uint64_t spent_ns = bench_now_ns() - start_ns;
    for (size_t i = 0; i < CIRCLE; i++) {
        visits += (uintptr_t)wf_fiber_switch(&thread, &fibers[i], NULL);
    }
    WEFT_CHECK(visits == rounds * CIRCLE);
    give_stacks(CIRCLE);
    stop();
    return spent_ns * ops / (2 * visits);
}

INLINED uint64_t visit_one(uint64_t ops, bool is_keeping)
{
    start();
    take_stacks(1);
    wf_fiber_init(&fibers[0], stacks[0], count_visits, &fibers[0]);
    if (is_keeping) {
        wf_fiber_keep_fp_control(&fibers[0]);
    }
    const uint64_t start_ns = bench_now_ns();
    for (uint64_t left = ops / 2; left > 0; left--) {
        (void)wf_fiber_switch(&thread, &fibers[0], &thread);
    }
    const uint64_t spent_ns = bench_now_ns() - start_ns;
    WEFT_CHECK((uintptr_t)wf_fiber_switch(&thread, &fibers[0], NULL) == ops / 2);
    give_stacks(1);
    stop();
    return spent_ns;
}

static uint64_t switch_2(uint64_t ops, unsigned workers)
{
    (void)workers;
    return visit_one(ops, false);
}

static uint64_t switch_2_fp(uint64_t ops, unsigned workers)
{
    (void)workers;
    return visit_one(ops, true);
}

static uint64_t switch_503(uint64_t ops, unsigned workers)
{
    (void)workers;
    return visit_circle(ops, true);
}

static uint64_t switch_503_plain(uint64_t ops, unsigned workers)
{
    (void)workers;
    return visit_circle(ops, false);
}

static ucontext_t here;
static ucontext_t there;
static uint64_t context_visits;

static void count_context_visits(void)
{
    for (;;) { /* never returns: the stack is freed */
        context_visits++;
        WEFT_CHECK(swapcontext(&there, &here) == 0);
    }
}

static uint64_t switch_2_ucontext(uint64_t ops, unsigned workers)
{
    (void)workers;
    start();
    take_stacks(1);
    WEFT_CHECK(getcontext(&there) == 0);
    there.uc_stack = (stack_t){.ss_sp = stacks[0]->low, .ss_size = stacks[0]->size};
    makecontext(&there, count_context_visits, 0);
    context_visits = 0;
    const uint64_t start_ns = bench_now_ns();
    for (uint64_t done = 0; done < ops; done += 2) {
        WEFT_CHECK(swapcontext(&here, &there) == 0);
    }
    const uint64_t spent_ns = bench_now_ns() - start_ns;
    WEFT_CHECK(context_visits >= ops / 2);
    give_stacks(1);
    stop();
    return spent_ns;
}

/* ---- lives --------------------------------------------------------------------------------- */

static struct wf_fiber_exit visit_once(void *arg, void *message)
{
    ++*(uint64_t *)message;
    return (struct wf_fiber_exit){&thread, arg};
}

static uint64_t fiber_life(uint64_t ops, unsigned workers)
{
    uint64_t visits = 0;
    (void)workers;
    start();
    for (uint64_t i = 0; i < ops; i++) {
        struct wf_fiber fiber;
        struct wf_stack *stack;
        WEFT_CHECK(wf_stack_get(&cache, 0, &stack) == 0);
        wf_fiber_init(&fiber, stack, visit_once, NULL);
        (void)wf_fiber_switch(&thread, &fiber, &visits);
        wf_stack_put(&cache, stack);
    }
    WEFT_CHECK(visits == ops);
    stop();
    return 0;
}

/* A stack of its own for each life. */
static uint64_t fiber_life_mmap(uint64_t ops, unsigned workers)
{
    uint64_t visits = 0;
    const size_t guard = wf_guard_size();
    (void)workers;
    wf_fiber_init_thread(&thread);
    for (uint64_t i = 0; i < ops; i++) {
        struct wf_fiber fiber;
        void *memory;
        WEFT_CHECK(wf_memory_map(&memory, guard + WF_STACK_SIZE_DEFAULT) == 0);
        WEFT_CHECK(wf_memory_protect(memory, guard) == 0);
        struct wf_stack stack = {.low = (char *)memory + guard, .size = WF_STACK_SIZE_DEFAULT};
        wf_fiber_init(&fiber, &stack, visit_once, NULL);
        (void)wf_fiber_switch(&thread, &fiber, &visits);
        WEFT_CHECK(wf_memory_unmap(memory, guard + WF_STACK_SIZE_DEFAULT) == 0);
    }
    WEFT_CHECK(visits == ops);
    return 0;
}

/* ---- stacks -------------------------------------------------------------------------------- */

static uint64_t stack_burst(uint64_t ops, unsigned workers)
{
    (void)workers;
    start();
    for (uint64_t done = 0; done < ops; done += BURST) {
        take_stacks(BURST);
        for (size_t i = 0; i < BURST; i++) {
            *(volatile char *)(wf_stack_high(stacks[i]) - 1) = 1;
        }
        give_stacks(BURST);
    }
    stop();
    return 0;
}

static uint64_t stack_burst_mmap(uint64_t ops, unsigned workers)
{
    static void *memory[BURST];
    const size_t guard = wf_guard_size();
    const size_t bytes = guard + WF_STACK_SIZE_DEFAULT;
    (void)workers;
    for (uint64_t done = 0; done < ops; done += BURST) {
        for (size_t i = 0; i < BURST; i++) {
            WEFT_CHECK(wf_memory_map(&memory[i], bytes) == 0);
            WEFT_CHECK(wf_memory_protect(memory[i], guard) == 0);
            *(volatile char *)((char *)memory[i] + bytes - 1) = 1;
        }
        for (size_t i = 0; i < BURST; i++) {
            WEFT_CHECK(wf_memory_unmap(memory[i], bytes) == 0);
        }
    }
    return 0;
}

static const struct bench_row rows[] = {
    {"switch-2", "weft", "switch", 20000000, 0, switch_2},
    {"switch-2", "weft-fp", "switch", 8000000, 0, switch_2_fp},
    {"switch-2", "ucontext", "switch", 200000, 0, switch_2_ucontext},
    {"switch-503", "weft", "switch", 5000000, 0, switch_503},
    {"switch-503", "weft-plain", "switch", 1500000, 0, switch_503_plain},
    {"fiber-life", "weft", "fiber", 2000000, 0, fiber_life},
    {"fiber-life", "mmap", "fiber", 10000, 0, fiber_life_mmap},
    {"stack-burst", "weft", "stack", 500000, 0, stack_burst},
    {"stack-burst", "mmap", "stack", 10000, 0, stack_burst_mmap},
};

/* The goal of the bare switch is 3 ns; the base of its ratio is the system's switch. */
static const struct bench_goal goals[] = {
    {.row = "switch-2", .variant = "weft", .than = "ucontext", .limit = 0.05},
    {.row = "switch-503", .variant = "weft", .than = "weft-plain", .limit = 0.6},
    {.row = "fiber-life", .variant = "weft", .than = "mmap", .limit = 0.05},
};

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {
        .title = "Fibers",
        .base = "weft",
        .rows = rows,
        .row_count = sizeof(rows) / sizeof(rows[0]),
        .goals = goals,
        .goal_count = sizeof(goals) / sizeof(goals[0]),
    };
    return bench_main(argc, argv, &suite);
}
