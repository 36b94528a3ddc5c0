/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a fiber that one thread suspended continues in another thread; thread-local addresses are
 *         looked up again after a switch; stacks move between caches, the pool and the kernel
 *         meanwhile.
 * Method: threads take fibers out of one queue, run them a step and put them back; fibers keep
 *         plain data on their stacks and compare it; a reader walks the list of slabs while slabs
 *         are unmapped.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "fiber_helpers.h"
#include "helpers.h"
#include "marks.h"
#include "queue/queue.h"

/* ---- thread-local data --------------------------------------------------------------------- */

static _Thread_local int own_id;

/* Code on a fiber must read thread-local data this way: see WF_READS_TLS. */
WF_READS_TLS static int *own_id_address(void)
{
    return wf_tls(&own_id);
}

WF_READS_TLS static int *errno_address(void)
{
    return wf_tls(&errno);
}

struct handover {
    struct fixture f;
    int step;
};

static void check_thread(void)
{
    const int id = wf_thread_id();
    CHECK_EQ(*own_id_address(), id);
    CHECK_EQ(*errno_address(), id);
}

/* The message is the fiber of the resuming thread: there is no other way back. */
static struct wf_fiber_exit check_on_each_thread(void *arg, void *message)
{
    struct handover *h = arg;
    for (h->step = 0; h->step < 10; h->step++) {
        int *const address = own_id_address();
        check_thread();
        message = wf_fiber_switch(&h->f.fiber, message, NULL);
        check_thread();
        CHECK(own_id_address() != address);
    }
    return (struct wf_fiber_exit){message, NULL};
}

static void resume_here(struct handover *h)
{
    struct wf_fiber thread;
    own_id = wf_thread_id();
    errno = own_id;
    wf_fiber_init_thread(&thread);
    (void)wf_fiber_switch(&thread, &h->f.fiber, &thread);
}

static void *resume_there(void *arg)
{
    resume_here(arg);
    return NULL;
}

/* Hazard: compilers keep the addresses of errno and of thread-local variables across calls. */
static void fiber_reads_thread_locals_of_its_current_thread(void)
{
    static struct handover h;
    pthread_t other;
    fixture_init(&h.f, check_on_each_thread);
    wf_fiber_init(&h.f.fiber, h.f.stack, check_on_each_thread, &h);
    for (int i = 0; i < 5; i++) {
        resume_here(&h);
        CHECK_EQ(wf_thread_start(&other, resume_there, &h, NULL), 0);
        CHECK_EQ(wf_thread_join(other), 0);
    }
    resume_here(&h);
    CHECK_EQ(h.step, 10);
    CHECK(h.f.fiber.stack_pointer == NULL);
    fixture_done(&h.f);
}

/* ---- many fibers, several threads ---------------------------------------------------------- */

enum { THREADS = 3, FIBERS = 300, STEPS = 40, GENERATIONS = 4 };

struct walker {
    struct wf_node node; /* first: the queue links it */
    struct wf_fiber fiber;
    int generation; /* plain: carried by the queue from thread to thread */
    int step;
    bool is_over;
};

static struct walker walkers[FIBERS];
static struct wf_inject queue;
static struct wf_stack_pool pool;
static WF_ATOMIC(uint32_t) left;

static struct wf_fiber_exit walk(void *arg, void *message)
{
    struct walker *walker = arg;
    struct wf_random random;
    wf_random_init(&random, (uint64_t)(walker - walkers));
    volatile unsigned char data[256]; /* on the stack */
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (unsigned char)i;
    }
    for (walker->step = 0; walker->step < STEPS; walker->step++) {
        data[wf_random_below(&random, sizeof(data))]++;
        message = wf_fiber_switch(&walker->fiber, message, walker);
    }
    wf_random_init(&random, (uint64_t)(walker - walkers));
    for (int i = 0; i < STEPS; i++) {
        data[wf_random_below(&random, sizeof(data))]--;
    }
    for (size_t i = 0; i < sizeof(data); i++) {
        CHECK_EQ(data[i], i);
    }
    walker->is_over = true;
    return (struct wf_fiber_exit){message, walker};
}

static void begin(struct walker *walker, struct wf_stack_cache *cache)
{
    struct wf_stack *stack;
    CHECK_EQ(wf_stack_get(cache, 0, &stack), 0);
    walker->is_over = false;
    wf_store_relaxed(&stack->user, walker);
    wf_fiber_init(&walker->fiber, stack, walk, walker);
}

/* Runs one step of the walker; puts it back, or begins its next generation, perhaps on another
 * stack. */
static void run_step(struct wf_fiber *thread, struct walker *walker, struct wf_stack_cache *cache)
{
    struct wf_stack_place place;
    CHECK(wf_fiber_switch(thread, &walker->fiber, thread) == walker);
    if (!walker->is_over) {
        CHECK(wf_stack_find(walker->fiber.stack_pointer, &place));
        CHECK(place.user == walker);
    } else {
        wf_stack_put(cache, walker->fiber.stack);
        if (++walker->generation == GENERATIONS) {
            (void)wf_fetch_sub_acq_rel(&left, 1);
            return;
        }
        begin(walker, cache);
    }
    CHECK_EQ(wf_inject_push(&queue, &walker->node), 0);
}

static void *run_walkers(void *arg)
{
    struct wf_stack_cache cache;
    struct wf_fiber thread;
    wf_stack_cache_init(&cache, &pool);
    wf_fiber_init_thread(&thread);
    while (wf_load_acquire(&left) > 0) {
        struct wf_chain batch = {0};
        if (wf_inject_pop(&queue, THREADS, 8, &batch) == 0) {
            (void)sched_yield();
        }
        while (batch.first != NULL) {
            run_step(&thread, (struct walker *)wf_chain_pop(&batch), &cache);
        }
    }
    wf_stack_cache_done(&cache);
    return arg;
}

/* Small limits, so that slabs come and go all the time. */
static void fiber_migrates_between_threads(void)
{
    pthread_t threads[THREADS];
    struct wf_stack_cache cache;
    const size_t one_slab = WF_SLAB_BYTES;
    CHECK_EQ(wf_stack_pool_init(&pool, &(struct wf_stack_options){.free_bytes_max = one_slab}), 0);
    CHECK_EQ(wf_inject_init(&queue, NULL), 0);
    wf_stack_cache_init(&cache, &pool);
    wf_atomic_init(&left, FIBERS);
    for (int i = 0; i < FIBERS; i++) {
        begin(&walkers[i], &cache);
        CHECK_EQ(wf_inject_push(&queue, &walkers[i].node), 0);
    }
    wf_stack_cache_done(&cache);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], run_walkers, NULL, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(walkers[i].generation, GENERATIONS);
    }
    wf_stack_pool_done(&pool);
}

/* ---- a reader while slabs are unmapped ----------------------------------------------------- */

static WF_ATOMIC(uint32_t) is_stopped;

static void *map_and_unmap(void *arg)
{
    struct wf_stack_cache cache;
    wf_stack_cache_init(&cache, &pool);
    for (int i = 0; wf_load_acquire(&is_stopped) == 0; i++) {
        struct wf_stack *stack;
        CHECK_EQ(wf_stack_get(&cache, (size_t)1 << 20, &stack), 0); /* few stacks per slab */
        wf_stack_put(&cache, stack);
        wf_stack_cache_done(&cache);
        (void)wf_stack_pool_trim(&pool);
    }
    return arg;
}

static bool has_waited(void)
{
#ifdef WF_TEST_HOOKS
    const struct wf_mark *mark;
    const size_t count = wf_marks(&mark);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(mark[i].name, "registry.waited_for_reader") == 0) {
            return wf_load_relaxed(&mark[i].is_reached) != 0;
        }
    }
#endif
    return true;
}

/* Runs until the unmapping of a slab had to wait for a reader: TSan or ASan would report a read of
 * freed memory. */
static void stack_slab_list_is_readable_while_slabs_are_unmapped(void)
{
    pthread_t threads[2];
    struct wf_stack_cache cache;
    struct wf_stack *stack;
    struct wf_stack_place place;
    CHECK_EQ(wf_stack_pool_init(&pool, NULL), 0);
    wf_stack_cache_init(&cache, &pool);
    CHECK_EQ(wf_stack_get(&cache, 0, &stack), 0); /* stays, behind the others in the list */
    wf_atomic_init(&is_stopped, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], map_and_unmap, NULL, NULL), 0);
    }
    for (int i = 0; i < 1000 || !has_waited(); i++) {
        CHECK(wf_stack_find(stack->low, &place));
        CHECK(place.low == stack->low);
        CHECK(!wf_stack_find(&place, &place));
    }
    wf_store_release(&is_stopped, 1);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    wf_stack_put(&cache, stack);
    wf_stack_cache_done(&cache);
    wf_stack_pool_done(&pool);
}

static const struct tap_test tests[] = {
    TAP_TEST(fiber_reads_thread_locals_of_its_current_thread),
    TAP_TEST(fiber_migrates_between_threads),
    TAP_TEST(stack_slab_list_is_readable_while_slabs_are_unmapped),
};
TAP_MAIN(tests)
