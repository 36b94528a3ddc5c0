/* SPDX-License-Identifier: MIT */
/*
 * Goal:   stacks have their size and their guard, of every kind; they are reused, go back to the
 *         kernel after a burst, and no failure loses a stack.
 * Method: each kind of guard is forced in turn; accesses that must fault are made in children; the
 *         kernel counts memory; every call that can fail fails in turn.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fiber_helpers.h"
#include "helpers.h"
#include "marks.h"
#include "proc_helpers.h"

static struct wf_stack_pool pool;
static struct wf_stack_cache cache;

static void start(const struct wf_stack_options *options)
{
    CHECK_EQ(wf_stack_pool_init(&pool, options), 0);
    wf_stack_cache_init(&cache, &pool);
}

static void stop(void)
{
    wf_stack_cache_done(&cache);
    wf_stack_pool_done(&pool);
}

static struct wf_stack *get(size_t size)
{
    struct wf_stack *stack = NULL;
    CHECK_EQ(wf_stack_get(&cache, size, &stack), 0);
    CHECK(stack != NULL);
    return stack;
}

static struct wf_stack_stats stats(void)
{
    struct wf_stack_stats now;
    wf_stack_pool_stats(&pool, &now);
    return now;
}

/* A list of `count` stacks, each with its highest byte touched. */
static struct wf_stack *get_many(size_t count, size_t size)
{
    struct wf_stack *list = NULL;
    for (size_t i = 0; i < count; i++) {
        struct wf_stack *stack = get(size);
        wf_stack_high(stack)[-1] = 1;
        stack->next = list;
        list = stack;
    }
    return list;
}

static void put_all(struct wf_stack *list)
{
    while (list != NULL) {
        struct wf_stack *stack = list;
        list = stack->next;
        wf_stack_put(&cache, stack);
    }
}

/* ---- sizes --------------------------------------------------------------------------------- */

static void stack_has_the_requested_size(void)
{
    start(NULL);
    for (size_t size = WF_STACK_SIZE_MIN; size <= WF_STACK_SIZE_MAX; size *= 2) {
        const size_t sizes[] = {size, size - 1, size + 1};
        for (int i = 0; i < 3; i++) {
            if (sizes[i] < WF_STACK_SIZE_MIN || sizes[i] > WF_STACK_SIZE_MAX) {
                continue;
            }
            struct wf_stack *stack = get(sizes[i]);
            CHECK(stack->size >= sizes[i]);
            CHECK(stack->size < 2 * sizes[i] || stack->size == wf_page_size());
            CHECK(wf_is_power_of_two(stack->size));
            CHECK_EQ((uintptr_t)stack->low % wf_page_size(), 0);
            stack->low[0] = 1;
            wf_stack_high(stack)[-1] = 1;
            wf_stack_put(&cache, stack);
        }
    }
    struct wf_stack *stack = get(0);
    CHECK_EQ(stack->size, WF_STACK_SIZE_DEFAULT * WF_STACK_SCALE);
    wf_stack_put(&cache, stack);
    stop();
}

static void stack_get_refuses_invalid_sizes(void)
{
    const size_t sizes[] = {1, WF_STACK_SIZE_MIN - 1, WF_STACK_SIZE_MAX + 1, SIZE_MAX};
    struct wf_stack *const untouched = (struct wf_stack *)(void *)&pool;
    start(NULL);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct wf_stack *stack = untouched;
        CHECK_EQ(wf_stack_get(&cache, sizes[i], &stack), -EINVAL);
        CHECK(stack == untouched);
    }
    CHECK_EQ(stats().slabs, 0);
    stop();
    CHECK_EQ(wf_stack_pool_init(&pool, &(struct wf_stack_options){.guard = WF_GUARD_KINDS}),
             -EINVAL);
}

/* ---- guards -------------------------------------------------------------------------------- */

static volatile char *byte_to_write;

static void write_byte(void)
{
    (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would end the child otherwise */
    *byte_to_write = 1;
}

static bool is_faulting(char *byte)
{
    char text[1024];
    byte_to_write = byte;
    int status = tap_run_child(write_byte, text, sizeof(text));
    CHECK(WIFEXITED(status) || WTERMSIG(status) == SIGSEGV);
    return WIFSIGNALED(status);
}

static void check_guard(enum wf_guard guard)
{
    start(&(struct wf_stack_options){.guard = guard});
    struct wf_stack *first = get(0);
    struct wf_stack *second = get(0);
    struct wf_stack *above = first->low > second->low ? first : second;
    CHECK_EQ(above->guard, guard);
    CHECK_EQ(stats().guards[guard], stats().stacks);
    memset(above->low, 0xa5, above->size); /* the whole stack is usable */
    CHECK(is_faulting(above->low - 1));
    CHECK(is_faulting(above->low - wf_guard_size()));
    CHECK(!is_faulting(above->low - wf_guard_size() - 1)); /* the next stack */
    CHECK(!is_faulting(wf_stack_high(above) - 1));
    wf_stack_put(&cache, first);
    wf_stack_put(&cache, second);
    stop();
}

static void stack_guard_by_page_table_marker_faults(void)
{
    if (!wf_memory_can_guard()) {
        CHECK_EQ(wf_stack_pool_init(&pool, &(struct wf_stack_options){.guard = WF_GUARD_MARKER}),
                 -EINVAL);
        tap_skip("this kernel has no MADV_GUARD_INSTALL");
    }
    check_guard(WF_GUARD_MARKER);
}

static void stack_guard_by_protected_page_faults(void)
{
    check_guard(WF_GUARD_MAPPING);
}

static void stack_pool_picks_and_reports_the_best_guard(void)
{
    start(NULL);
    struct wf_stack *stack = get(0);
    const enum wf_guard best = wf_memory_can_guard() ? WF_GUARD_MARKER : WF_GUARD_MAPPING;
    CHECK_EQ(stack->guard, best);
    CHECK_EQ(stats().guards[best], stats().stacks);
    CHECK(is_faulting(stack->low - 1));
    wf_stack_put(&cache, stack);
    stop();
}

static size_t damaged_offset; /* from the low end downwards */

static void damage_a_canary(void)
{
    start(&(struct wf_stack_options){.guard = WF_GUARD_CANARY});
    struct wf_stack *stack = get(0);
    stack->low[-(ptrdiff_t)damaged_offset] ^= 1;
    wf_stack_put(&cache, stack);
}

static void stack_canary_detects_an_overflow(void)
{
    const size_t offsets[] = {1, 8, 9, 1000, WF_CANARY_BYTES};
    char text[1024];
    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        damaged_offset = offsets[i];
        int status = tap_run_child(damage_a_canary, text, sizeof(text));
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        CHECK(strstr(text, "overflow") != NULL);
    }
}

static void stack_canary_reports_nothing_without_overflow(void)
{
    start(&(struct wf_stack_options){.guard = WF_GUARD_CANARY});
    struct wf_stack *kept = get(0); /* so that memory is discarded, but the slab stays */
    for (int round = 0; round < 3; round++) {
        struct wf_stack *list = get_many(200, 0);
        for (struct wf_stack *stack = list; stack != NULL; stack = stack->next) {
            CHECK_EQ(stack->guard, WF_GUARD_CANARY);
            memset(stack->low, 0xa5, stack->size);
        }
        put_all(list);
        wf_stack_cache_done(&cache);
        if (round > 0) {
            CHECK(wf_stack_pool_trim(&pool)); /* the pattern is discarded too, and written again */
        }
    }
    CHECK(stats().discarded > 0);
    wf_stack_put(&cache, kept);
    stop();
}

/* Two mappings for each of the first ten stacks, and no more. */
static void stack_guard_falls_back_to_canary_at_the_mapping_limit(void)
{
    struct wf_stack_options options = {.guard_mappings_max = 20};
    if (wf_memory_can_guard()) {
        options.guard = WF_GUARD_MAPPING;
        start(&options);
        struct wf_stack *stack = NULL;
        CHECK_EQ(wf_stack_get(&cache, 0, &stack), -ENOMEM);
        CHECK(stack == NULL);
        CHECK_EQ(stats().mapped_bytes, 0);
        stop();
        options.guard = WF_GUARD_BEST;
    }
    start(&options);
    wf_store_relaxed(&pool.guard, WF_GUARD_MAPPING); /* as on an older kernel */
    put_all(get_many(1, 0));
    CHECK_EQ(stats().guards[WF_GUARD_MAPPING], 10);
    CHECK_EQ(stats().guards[WF_GUARD_CANARY], stats().stacks - 10);
    check_reached("slab.mapping_refused");
    stop();
    start(&options); /* the ten were given back */
    wf_store_relaxed(&pool.guard, WF_GUARD_MAPPING);
    put_all(get_many(1, 0));
    CHECK_EQ(stats().guards[WF_GUARD_MAPPING], 10);
    stop();
}

#ifdef WF_TEST_HOOKS
static void stack_guard_falls_back_to_mapping_without_markers(void)
{
    start(NULL);
    if (!wf_memory_can_guard()) {
        tap_skip("this kernel has no MADV_GUARD_INSTALL");
    }
    wf_fault_arm(4); /* alloc, mmap, no huge pages, and then the first guard */
    struct wf_stack *stack = get(0);
    const char *what = NULL;
    CHECK(wf_fault_hit(&what));
    CHECK_STR(what, "madvise_guard");
    check_reached("slab.marker_refused");
    CHECK_EQ(stats().guards[WF_GUARD_MAPPING], stats().stacks);
    CHECK(is_faulting(stack->low - 1));
    wf_stack_put(&cache, stack);
    stop();
}
#endif

/* ---- reuse --------------------------------------------------------------------------------- */

static void stack_cache_is_lifo(void)
{
    start(NULL);
    struct wf_stack *a = get(0);
    struct wf_stack *b = get(0);
    wf_stack_put(&cache, b);
    wf_stack_put(&cache, a);
    if (WF_STACK_CACHE_MAX > 1) {
        CHECK(get(0) == a);
        CHECK(get(0) == b);
        wf_stack_put(&cache, a);
        wf_stack_put(&cache, b);
    }
    stop();
}

static void stack_cache_exchanges_batches_with_the_pool(void)
{
    enum { MANY = 100 };
    start(NULL);
    struct wf_stack *list = get_many(1, 0);
    const struct wf_stack_stats first = stats();
    CHECK_EQ(first.slabs, 1);
    CHECK_EQ(first.free + wf_stack_cache_count(&cache) + 1, first.stacks);
    if (WF_STACK_CACHE_MAX > 0) {
        CHECK(wf_stack_cache_count(&cache) > 0);
    }
    put_all(list);
    list = get_many(MANY, 0);
    CHECK(stats().stacks >= MANY);
    CHECK_EQ(stats().free + wf_stack_cache_count(&cache) + MANY, stats().stacks);
    put_all(list);
    CHECK(wf_stack_cache_count(&cache) <= WF_STACK_CACHE_MAX);
    CHECK_EQ(stats().free + wf_stack_cache_count(&cache), stats().stacks);
    CHECK(stats().dirty + wf_stack_cache_count(&cache) >= MANY);
    wf_stack_cache_done(&cache);
    CHECK_EQ(wf_stack_cache_count(&cache), 0);
    CHECK_EQ(stats().free, stats().stacks);
    stop();
}

static void stack_can_be_put_into_another_cache(void)
{
    struct wf_stack_cache other;
    start(NULL);
    wf_stack_cache_init(&other, &pool);
    for (int i = 0; i < 1000; i++) {
        wf_stack_put(&other, get(0));
    }
    CHECK(stats().stacks <= (size_t)2 * WF_SLAB_STACKS_MAX); /* stacks are reused */
    wf_stack_cache_done(&other);
    stop();
}

static void put_twice(void)
{
    start(NULL);
    struct wf_stack *stack = get(0);
    wf_stack_put(&cache, stack);
    wf_stack_cache_done(&cache);
    wf_stack_put(&cache, stack);
    wf_stack_cache_done(&cache);
}

static void leave_one_out(void)
{
    start(NULL);
    (void)get(0);
    stop();
}

static void stack_pool_detects_lost_and_doubly_freed_stacks(void)
{
    char text[1024];
    int status = tap_run_child(put_twice, text, sizeof(text));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(strstr(text, "slab->free & stacks") != NULL);
    status = tap_run_child(leave_one_out, text, sizeof(text));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(strstr(text, "pool->slabs == 0") != NULL);
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Sanitizers keep shadow memory. */
#ifdef WF_SWITCH_SANITIZED
enum { IS_COUNT_EXACT = 0 };
#else
enum { IS_COUNT_EXACT = 1 };
#endif

static void stack_depth_is_the_touched_size(void)
{
    size_t depth = 1;
    start(NULL);
    struct wf_stack *stack = get((size_t)8 << 20); /* more than one query to the kernel covers */
    CHECK_EQ(wf_stack_depth(stack, &depth), 0);
    CHECK_EQ(depth, 0);
    wf_stack_high(stack)[-1] = 1;
    CHECK_EQ(wf_stack_depth(stack, &depth), 0);
    CHECK_EQ(depth, wf_page_size());
    wf_stack_high(stack)[-3 * (ptrdiff_t)wf_page_size()] = 1;
    CHECK_EQ(wf_stack_depth(stack, &depth), 0);
    CHECK_EQ(depth, 3 * wf_page_size());
    stack->low[stack->size / 2 - 1] = 1;
    CHECK_EQ(wf_stack_depth(stack, &depth), 0);
    CHECK_EQ(depth, stack->size / 2 + wf_page_size());
    stack->low[0] = 1;
    CHECK_EQ(wf_stack_depth(stack, &depth), 0);
    CHECK_EQ(depth, stack->size);
    wf_stack_put(&cache, stack);
    stop();
}

enum { BURST = 20000 };

/* The stress test uses a million stacks. */
static void stack_costs_one_page_and_slabs_few_mappings(void)
{
    start(NULL);
    const size_t bytes_before = resident_bytes();
    const size_t mappings_before = mapping_count();
    const enum wf_guard best = wf_memory_can_guard() ? WF_GUARD_MARKER : WF_GUARD_MAPPING;
    struct wf_stack *list = get_many(BURST, WF_STACK_SIZE_MIN);
    const size_t bytes = resident_bytes() - bytes_before;
    CHECK(bytes >= BURST * wf_page_size());
    CHECK(bytes < 2 * wf_page_size() * BURST || !IS_COUNT_EXACT);
    if (best == WF_GUARD_MARKER) {
        CHECK(mapping_count() - mappings_before <= stats().slabs || !IS_COUNT_EXACT);
        CHECK_EQ(stats().guards[WF_GUARD_MARKER], stats().stacks);
    }
    CHECK(mapping_count() < wf_mapping_count_max());
    put_all(list);
    stop();
}

static void stack_pool_unmaps_slabs_after_a_burst(void)
{
    start(NULL);
    const size_t bytes_before = resident_bytes();
    struct wf_stack *list = get_many(BURST, WF_STACK_SIZE_DEFAULT);
    const size_t grown = resident_bytes() - bytes_before;
    put_all(list);
    const size_t kept = WF_STACK_FREE_BYTES_MAX / WF_STACK_SIZE_DEFAULT;
    CHECK(stats().stacks <= kept + WF_SLAB_STACKS_MAX);
    CHECK(stats().unmapped >= BURST - kept - (size_t)2 * WF_SLAB_STACKS_MAX);
    CHECK(resident_bytes() - bytes_before < grown / 4 || !IS_COUNT_EXACT);
    stop();
}

/* One stack of each slab stays in use, so no slab is ever wholly free. */
static void stack_pool_discards_free_stacks_after_a_burst(void)
{
    struct wf_stack *kept = NULL;
    struct wf_slab *slab_before = NULL;
    start(NULL);
    const size_t bytes_before = resident_bytes();
    struct wf_stack *list = get_many(BURST, WF_STACK_SIZE_DEFAULT);
    const size_t grown = resident_bytes() - bytes_before;
    while (list != NULL) {
        struct wf_stack *stack = list;
        list = stack->next;
        if (stack->slab != slab_before) {
            slab_before = stack->slab;
            stack->next = kept;
            kept = stack;
        } else {
            wf_stack_put(&cache, stack);
        }
    }
    CHECK_EQ(stats().unmapped, 0);
    CHECK(stats().discarded > 0);
    CHECK(stats().dirty <= WF_STACK_FREE_BYTES_MAX / WF_STACK_SIZE_DEFAULT);
    CHECK(resident_bytes() - bytes_before < grown / 4 || !IS_COUNT_EXACT);
    for (struct wf_stack *stack = kept; stack != NULL; stack = stack->next) {
        CHECK_EQ(wf_stack_high(stack)[-1], 1); /* the stack in use is untouched */
    }
    list = get_many(BURST / 2, WF_STACK_SIZE_DEFAULT); /* free stacks are usable again */
    put_all(list);
    put_all(kept);
    stop();
}

static void stack_pool_trim_unmaps_everything(void)
{
    start(NULL);
    put_all(get_many(300, 0));
    put_all(get_many(3, WF_STACK_SIZE_MAX));
    wf_stack_cache_done(&cache);
    CHECK(stats().mapped_bytes > 0);
    CHECK(wf_stack_pool_trim(&pool));
    CHECK(!wf_stack_pool_trim(&pool));
    CHECK_EQ(stats().mapped_bytes, 0);
    CHECK_EQ(stats().slabs, 0);
    CHECK_EQ(stats().stacks, 0);
    CHECK_EQ(stats().free, 0);
    CHECK_EQ(stats().dirty, 0);
    stop();
}

/* Gives back the stacks of one slab, and one stack of another slab. */
static void stack_pool_unmaps_a_free_slab_whichever_stack_came_last(void)
{
    enum { BOTH = 2 * WF_SLAB_STACKS_MAX };
    for (int is_one_last = 0; is_one_last <= 1; is_one_last++) {
        start(NULL);
        struct wf_stack *list = get_many(BOTH, WF_STACK_SIZE_DEFAULT);
        CHECK_EQ(stats().slabs, 2);
        struct wf_stack *parts[2] = {NULL, NULL};
        struct wf_slab *first = list->slab;
        while (list != NULL) {
            struct wf_stack *stack = list;
            list = stack->next;
            struct wf_stack **part = &parts[stack->slab == first ? 0 : 1];
            stack->next = *part;
            *part = stack;
        }
        struct wf_stack *one = parts[1];
        CHECK(one != NULL);
        parts[1] = one->next;
        one->next = NULL;
        put_all(is_one_last != 0 ? parts[0] : one);
        wf_stack_cache_done(&cache);
        put_all(is_one_last != 0 ? one : parts[0]);
        wf_stack_cache_done(&cache);
        CHECK(wf_stack_pool_trim(&pool));
        CHECK_EQ(stats().slabs, 1);
        put_all(parts[1]);
        stop();
    }
}

static void stack_pool_respects_its_limit_of_mapped_bytes(void)
{
    const size_t limit = (size_t)10 << 20;
    struct wf_stack *list = NULL;
    struct wf_stack *stack = NULL;
    start(&(struct wf_stack_options){.mapped_bytes_max = limit});
    int rc;
    while ((rc = wf_stack_get(&cache, 0, &stack)) == 0) {
        CHECK(stats().mapped_bytes <= limit);
        stack->next = list;
        list = stack;
    }
    CHECK_EQ(rc, -ENOMEM);
    CHECK(list != NULL);
    check_reached("stack.limit");
    struct wf_stack *other = NULL;
    CHECK_EQ(wf_stack_get(&cache, (size_t)4 << 20, &other), -ENOMEM);
    CHECK(other == NULL);
    put_all(list);
    wf_stack_cache_done(&cache);
    /* the reserve of the first size is unmapped to make space for this size */
    other = get((size_t)4 << 20);
    check_reached("stack.tried_again");
    CHECK(stats().mapped_bytes <= limit);
    wf_stack_put(&cache, other);
    stop();
}

/* ---- stack of an address ------------------------------------------------------------------- */

static bool is_of(const void *address, const struct wf_stack *stack, void *user, bool is_guard)
{
    struct wf_stack_place place;
    return wf_stack_find(address, &place) && place.low == stack->low && place.size == stack->size &&
           place.user == user && place.is_guard == is_guard;
}

static void stack_find_returns_the_stack_of_an_address(void)
{
    int user;
    start(NULL);
    struct wf_stack *small = get(WF_STACK_SIZE_MIN);
    struct wf_stack *stack = get(0);
    wf_store_relaxed(&stack->user, &user);
    CHECK(is_of(stack->low, stack, &user, false));
    CHECK(is_of(stack->low + stack->size / 2, stack, &user, false));
    CHECK(is_of(wf_stack_high(stack) - 1, stack, &user, false));
    CHECK(is_of(stack->low - 1, stack, &user, true));
    CHECK(is_of(stack->low - wf_guard_size(), stack, &user, true));
    CHECK(is_of(small->low, small, NULL, false));
    wf_stack_put(&cache, stack);
    CHECK(is_of(stack->low, stack, NULL, false)); /* its user is cleared */
    wf_stack_put(&cache, small);
    stop();
}

static void stack_find_of_a_foreign_address_finds_none(void)
{
    struct wf_stack_place place;
    start(NULL);
    struct wf_stack *stack = get(0);
    char *const low = stack->low;
    CHECK(wf_stack_find(low, &place));
    CHECK(!wf_stack_find(&place, &place));
    CHECK(!wf_stack_find(NULL, &place));
    CHECK(!wf_stack_find((void *)UINTPTR_MAX, &place));
    wf_stack_put(&cache, stack);
    stop();
    CHECK(!wf_stack_find(low, &place));
}

/* ---- injected failures --------------------------------------------------------------------- */

#ifdef WF_TEST_HOOKS
/* Returns the first error, or 0. */
static int use_everything(enum wf_guard guard)
{
    const size_t sizes[] = {0, WF_STACK_SIZE_MIN, (size_t)4 << 20};
    struct wf_stack *list = NULL;
    int rc = wf_stack_pool_init(&pool, &(struct wf_stack_options){.guard = guard});
    if (rc != 0) {
        return rc;
    }
    wf_stack_cache_init(&cache, &pool);
    for (int i = 0; i < 3 && rc == 0; i++) {
        struct wf_stack *stack = NULL;
        rc = wf_stack_get(&cache, sizes[i], &stack);
        CHECK((rc == 0) == (stack != NULL));
        if (rc == 0) {
            stack->next = list;
            list = stack;
        }
    }
    size_t depth = 0;
    rc = rc == 0 ? wf_stack_depth(list, &depth) : rc;
    struct wf_stack *one = list; /* keeps its slab mapped, so that there is something to discard */
    if (list != NULL) {
        list = list->next;
    }
    put_all(list);
    wf_stack_cache_done(&cache);
    (void)wf_stack_pool_trim(&pool);
    if (one != NULL) {
        one->next = NULL;
        put_all(one);
    }
    wf_stack_cache_done(&cache);
    wf_stack_pool_done(&pool);
    return rc;
}

/* Calls whose failure is compensated and need not be reported. */
static bool is_harmless(const char *what)
{
    static const char *const names[] = {"madvise_nohugepage", "madvise", "munmap", "open", "read"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(what, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void check_every_failure(enum wf_guard guard)
{
    const bool is_choice = guard == WF_GUARD_BEST;
    const char *what = "";
    uint64_t nth = 0;
    while (what != NULL) {
        struct wf_alloc_stats before;
        struct wf_alloc_stats after;
        const size_t bytes_before = virtual_bytes();
        wf_alloc_stats(&before);
        wf_fault_arm(++nth);
        int rc = use_everything(guard);
        (void)wf_fault_hit(&what);
        wf_fault_arm(0);
        wf_alloc_stats(&after);
        CHECK_EQ(after.allocated - before.allocated, after.freed - before.freed);
        /* a failed munmap loses addresses, not memory */
        if (what == NULL || strcmp(what, "munmap") != 0) {
            const size_t half_a_slab = WF_SLAB_BYTES / 8;
            CHECK(virtual_bytes() < bytes_before + half_a_slab || !IS_COUNT_EXACT);
        }
        if (what == NULL || is_harmless(what)) {
            CHECK_EQ(rc, 0);
        } else {
            /* With a choice of guards the pool may use another guard, but it cannot do without
             * memory. */
            CHECK(rc < 0 || (is_choice && strcmp(what, "alloc") != 0));
        }
    }
    CHECK(nth > 20);
    check_reached("slab.unmap_refused");
}

static void stack_pool_survives_every_failure_with_the_best_guard(void)
{
    check_every_failure(WF_GUARD_BEST);
}

static void stack_pool_survives_every_failure_with_protected_pages(void)
{
    check_every_failure(WF_GUARD_MAPPING);
}
#endif

static const struct tap_test tests[] = {
    TAP_TEST(stack_has_the_requested_size),
    TAP_TEST(stack_get_refuses_invalid_sizes),
    TAP_TEST(stack_guard_by_page_table_marker_faults),
    TAP_TEST(stack_guard_by_protected_page_faults),
    TAP_TEST(stack_pool_picks_and_reports_the_best_guard),
    TAP_TEST(stack_canary_detects_an_overflow),
    TAP_TEST(stack_canary_reports_nothing_without_overflow),
    TAP_TEST(stack_guard_falls_back_to_canary_at_the_mapping_limit),
    TAP_TEST(stack_cache_is_lifo),
    TAP_TEST(stack_cache_exchanges_batches_with_the_pool),
    TAP_TEST(stack_can_be_put_into_another_cache),
    TAP_TEST(stack_pool_detects_lost_and_doubly_freed_stacks),
    TAP_TEST(stack_depth_is_the_touched_size),
    TAP_TEST(stack_costs_one_page_and_slabs_few_mappings),
    TAP_TEST(stack_pool_unmaps_slabs_after_a_burst),
    TAP_TEST(stack_pool_discards_free_stacks_after_a_burst),
    TAP_TEST(stack_pool_trim_unmaps_everything),
    TAP_TEST(stack_pool_unmaps_a_free_slab_whichever_stack_came_last),
    TAP_TEST(stack_pool_respects_its_limit_of_mapped_bytes),
    TAP_TEST(stack_find_returns_the_stack_of_an_address),
    TAP_TEST(stack_find_of_a_foreign_address_finds_none),
#ifdef WF_TEST_HOOKS
    TAP_TEST(stack_guard_falls_back_to_mapping_without_markers),
    TAP_TEST(stack_pool_survives_every_failure_with_the_best_guard),
    TAP_TEST(stack_pool_survives_every_failure_with_protected_pages),
#endif
};
TAP_MAIN(tests)
