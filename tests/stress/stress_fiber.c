/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a million fibers, each suspended on a guarded stack, at the kernel's usual limits, with
 *         one page of memory each; and the memory is given back.
 * Method: all fibers are begun and suspended, then resumed in another order; the kernel counts
 *         memory and mappings.  The report shows the times; no check depends on them.
 * Environment: WEFT_STRESS_FIBERS  number of fibers (default 1,000,000; needs 4.6 KiB of memory
 *              each)
 */
#include <stdlib.h>
#include <unistd.h>

#include "fiber_helpers.h"
#include "proc_helpers.h"

enum { LIMIT_S = 600, CONTROL_BYTES_MAX = 1024 };

struct sleeper {
    struct wf_fiber fiber;
    uint64_t number;
};

static struct wf_stack_pool pool;
static struct wf_stack_cache cache;
static struct wf_fiber thread;

static size_t fibers_wanted(void)
{
    const char *text = getenv("WEFT_STRESS_FIBERS");
    uint64_t fibers = 1000 * 1000;
    if (text != NULL && wf_parse_u64(text, 1000, UINT32_MAX, &fibers) != 0) {
        tap_fail(__FILE__, __LINE__, "WEFT_STRESS_FIBERS is not a number from 1000 on: %s", text);
    }
    return (size_t)fibers;
}

/* Suspended once, with data on its stack to compare. */
static struct wf_fiber_exit sleep_once(void *arg, void *message)
{
    struct sleeper *self = arg;
    const volatile uint64_t number = self->number;
    CHECK(message == &thread);
    (void)wf_fiber_switch(&self->fiber, &thread, NULL);
    CHECK(number == self->number);
    return (struct wf_fiber_exit){&thread, self};
}

static double seconds_since(int64_t begin_ns)
{
    return (double)(wf_clock_now() - begin_ns) / 1e9;
}

static void begin_all(struct sleeper *sleepers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct wf_stack *stack;
        CHECK_EQ(wf_stack_get(&cache, 0, &stack), 0);
        sleepers[i].number = i;
        wf_fiber_init(&sleepers[i].fiber, stack, sleep_once, &sleepers[i]);
        (void)wf_fiber_switch(&thread, &sleepers[i].fiber, &thread);
    }
}

/* A prime step visits each fiber once, in an unrelated order. */
static void end_all(struct sleeper *sleepers, size_t count)
{
    const size_t step = 1000003;
    CHECK(count % step != 0);
    for (size_t i = 0, at = 0; i < count; i++, at = (at + step) % count) {
        CHECK(wf_fiber_switch(&thread, &sleepers[at].fiber, NULL) == &sleepers[at]);
        wf_stack_put(&cache, sleepers[at].fiber.stack);
    }
}

static void fiber_million_can_be_suspended(void)
{
    const size_t count = fibers_wanted();
#ifdef WF_SWITCH_SANITIZED
    tap_skip("sanitizers need far more memory for a fiber");
#endif
    const size_t available = (size_t)sysconf(_SC_AVPHYS_PAGES) * wf_page_size();
    if (count * (wf_page_size() + CONTROL_BYTES_MAX) > available) {
        tap_skip("not enough memory");
    }
    struct wf_stack_stats stats;
    CHECK_EQ(wf_stack_pool_init(&pool, NULL), 0);
    wf_stack_cache_init(&cache, &pool);
    wf_fiber_init_thread(&thread);
    struct sleeper *sleepers = wf_alloc_zeroed(count, sizeof(*sleepers));
    CHECK(sleepers != NULL);

    const size_t before = resident_bytes();
    int64_t begin_ns = wf_clock_now();
    begin_all(sleepers, count);
    const double begin_s = seconds_since(begin_ns);
    const size_t used = resident_bytes() - before;
    wf_stack_pool_stats(&pool, &stats);
    tap_note("%zu fibers suspended in %.1f s: %.0f bytes of memory each, %zu mappings, "
             "guards: %zu notes, %zu mappings, %zu canaries",
             count, begin_s, (double)used / (double)count, mapping_count(),
             stats.guards[WF_GUARD_MARKER], stats.guards[WF_GUARD_MAPPING],
             stats.guards[WF_GUARD_CANARY]);
    CHECK(mapping_count() < wf_mapping_count_max());
    CHECK(stats.stacks >= count);
    if (wf_memory_can_guard()) {
        CHECK_EQ(stats.guards[WF_GUARD_MARKER], stats.stacks);
        CHECK(used < count * (wf_page_size() + CONTROL_BYTES_MAX));
    }

    begin_ns = wf_clock_now();
    end_all(sleepers, count);
    tap_note("resumed and ended in %.1f s; then %.1f MiB more are resident than before",
             seconds_since(begin_ns), (double)(resident_bytes() - before) / (1 << 20));
    wf_stack_cache_done(&cache);
    (void)wf_stack_pool_trim(&pool);
    CHECK(resident_bytes() - before < used / 10);
    wf_stack_pool_done(&pool);
    wf_free(sleepers);
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(fiber_million_can_be_suspended, LIMIT_S),
};
TAP_MAIN(tests)
