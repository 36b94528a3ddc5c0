/* SPDX-License-Identifier: MIT */
/* fiber_helpers.h - one fiber with everything it needs, beside the thread's own. */
#ifndef FIBER_HELPERS_H
#define FIBER_HELPERS_H

#include "fiber/fiber.h"
#include "tap.h"

struct fixture {
    struct wf_stack_pool pool;
    struct wf_stack_cache cache;
    struct wf_stack *stack; /* a list; the fiber has the first */
    struct wf_fiber thread;
    struct wf_fiber fiber;
};

/* The fiber's argument is the fixture. */
static inline void fixture_init(struct fixture *f, wf_fiber_fn fn)
{
    CHECK_EQ(wf_stack_pool_init(&f->pool, NULL), 0);
    wf_stack_cache_init(&f->cache, &f->pool);
    CHECK_EQ(wf_stack_get(&f->cache, 0, &f->stack), 0);
    wf_fiber_init_thread(&f->thread);
    wf_fiber_init(&f->fiber, f->stack, fn, f);
}

/* The fiber has ended, or will not be resumed. */
static inline void fixture_done(struct fixture *f)
{
    while (f->stack != NULL) {
        struct wf_stack *stack = f->stack;
        f->stack = stack->next;
        wf_stack_put(&f->cache, stack);
    }
    wf_stack_cache_done(&f->cache);
    wf_stack_pool_done(&f->pool);
}

#endif
