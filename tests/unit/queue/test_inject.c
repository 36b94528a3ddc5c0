/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the global queue is FIFO, gives a worker its fair share and no more, and refuses a push
 *         over its capacity or after its close as a whole.
 * Method: one thread and tables; the lock excludes the rest.  Real producers and consumers race in
 *         test_ledger.c.
 */
#include <errno.h>
#include <string.h>

#include "items.h"
#include "marks.h"
#include "queue/queue.h"
#include "tap.h"

enum { ITEMS = 1 << 16, ROOMY = 256 };

static struct item items[ITEMS + 1];

static void init(struct wf_inject *inject, size_t capacity, size_t batch_max)
{
    const struct wf_inject_options options = {.capacity = capacity, .batch_max = batch_max};
    CHECK_EQ(wf_inject_init(inject, &options), 0);
}

static void fill(struct wf_inject *inject, size_t from, size_t to)
{
    struct wf_chain chain = items_chain(items, from, to - from);
    CHECK_EQ(wf_inject_push_chain(inject, &chain), 0);
    CHECK_EQ(chain.count, 0);
    CHECK(chain.first == NULL);
    CHECK(chain.last == NULL);
}

/* The remaining items are [from, to), in this order. */
static void check_rest(struct wf_inject *inject, size_t from, size_t to)
{
    struct wf_chain out = {0};
    while (wf_inject_pop(inject, 1, ROOMY, &out) > 0) {
    }
    for (size_t i = from; i < to; i++) {
        CHECK_EQ(item_index(wf_chain_pop(&out)), i);
    }
    CHECK(wf_chain_pop(&out) == NULL);
    CHECK_EQ(wf_inject_count(inject), 0);
}

static void check_refused_chain(struct wf_inject *inject, size_t from, size_t count, int rc)
{
    size_t inside = wf_inject_count(inject);
    struct wf_chain chain = items_chain(items, from, count);
    CHECK_EQ(wf_inject_push_chain(inject, &chain), rc);
    CHECK_EQ(wf_inject_count(inject), inside);
    CHECK_EQ(chain.count, count);
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(item_index(wf_chain_pop(&chain)), from + i);
    }
}

/* ---- order --------------------------------------------------------------------------------- */

/* behaviour 8 (FIFO); S3.8; S4.18 */
static void inject_is_fifo(void)
{
    struct wf_inject inject;
    struct wf_chain out = {0};
    CHECK_EQ(wf_inject_init(&inject, NULL), 0);
    CHECK_EQ(wf_inject_pop(&inject, 1, ROOMY, &out), 0);
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 0)), 0);
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 1)), 0);
    fill(&inject, 2, 100);
    struct wf_chain spill = items_chain(items, 100, 128);
    wf_inject_push_overflow(&inject, &spill);
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 228)), 0);
    CHECK_EQ(wf_inject_count(&inject), 229);
    check_rest(&inject, 0, 229);
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 229)), 0); /* emptied and used again */
    check_rest(&inject, 229, 230);
}

static void inject_pop_batch_appends_to_the_workers_chain(void)
{
    struct wf_inject inject;
    struct wf_chain out = items_chain(items, 0, 3);
    init(&inject, 0, 0);
    fill(&inject, 3, 10);
    CHECK_EQ(wf_inject_pop(&inject, 1, 2, &out), 2);
    CHECK_EQ(wf_inject_pop(&inject, 1, ROOMY, &out), 5);
    CHECK_EQ(out.count, 10);
    for (size_t i = 0; i < 10; i++) {
        CHECK_EQ(item_index(wf_chain_pop(&out)), i);
    }
}

/* behaviour 8 (zero allocation) */
static void inject_allocates_nothing(void)
{
    struct wf_alloc_stats before;
    struct wf_alloc_stats after;
    struct wf_inject inject;
    wf_alloc_stats(&before);
    init(&inject, 0, 0);
    for (size_t i = 0; i < 1000; i++) {
        CHECK_EQ(wf_inject_push(&inject, item_node(items, i)), 0);
    }
    check_rest(&inject, 0, 1000);
    wf_alloc_stats(&after);
    CHECK_EQ(after.allocated, before.allocated);
}

/* ---- the fair share ------------------------------------------------------------------------ */

struct share {
    size_t count;
    unsigned workers;
    size_t batch_max; /* 0: the default */
    size_t room;
    size_t taken;
};

static const struct share shares[] = {
    /* a share of what is there: S4.19 (len / workers) */
    {100, 4, 0, ROOMY, 25},
    {256, 8, 0, ROOMY, 32},
    {103, 4, 0, ROOMY, 25},
    /* at least four, or what there is: S4.19 (MIN 4) */
    {10, 4, 0, ROOMY, 4},
    {1000, 1000, 0, ROOMY, 4},
    {4, 64, 0, ROOMY, 4},
    {3, 64, 0, ROOMY, 3},
    {1, 1, 0, ROOMY, 1},
    /* at most 64: S4.19 (MAX 64) */
    {64, 1, 0, ROOMY, 64},
    {65, 1, 0, ROOMY, 64},
    {1000, 4, 0, ROOMY, 64},
    {1000, 4, WF_INJECT_BATCH_MAX, ROOMY, 64},
    /* at most what the user chose: S4.19 (32); part of S3.11 (one and 16 more) */
    {1000, 4, 32, ROOMY, 32},
    {1000, 1, 1 + WF_INJECT_BATCH_DEPTH_FIRST, ROOMY, 17},
    {10, 1, 1 + WF_INJECT_BATCH_DEPTH_FIRST, ROOMY, 10},
    {1000, 4, 2, ROOMY, 2},
    {1000, 4, 1, ROOMY, 1},
    /* at most the free slots of the worker */
    {1000, 4, 0, 63, 63},
    {1000, 4, 0, 3, 3},
    {1000, 4, 0, 1, 1},
    {1000, 4, 0, 0, 0},
    /* an empty queue; a number of workers that is not known yet */
    {0, 4, 0, ROOMY, 0},
    {100, 0, 0, ROOMY, 64},
};

/* behaviour 8 (batch pop, fair share); part of S3.11; S4.19 */
static void inject_pop_batch_takes_the_fair_share(void)
{
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        const struct share *share = &shares[i];
        struct wf_inject inject;
        struct wf_chain out = {0};
        init(&inject, 0, share->batch_max);
        fill(&inject, 0, share->count);
        size_t taken = wf_inject_pop(&inject, share->workers, share->room, &out);
        if (taken != share->taken) {
            tap_note("row %zu of the table", i);
        }
        CHECK_EQ(taken, share->taken);
        CHECK_EQ(out.count, taken);
        CHECK_EQ(wf_inject_count(&inject), share->count - taken);
        for (size_t k = 0; k < taken; k++) {
            CHECK_EQ(item_index(wf_chain_pop(&out)), k);
        }
        check_rest(&inject, taken, share->count);
    }
}

/* S4.20: the first worker leaves three of four workers their part */
static void inject_pop_batch_leaves_a_share_for_other_workers(void)
{
    const size_t expected[] = {50, 37, 28, 21, 16};
    struct wf_inject inject;
    struct wf_chain out = {0};
    init(&inject, 0, 0);
    fill(&inject, 0, 200);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        CHECK_EQ(wf_inject_pop(&inject, 4, ROOMY, &out), expected[i]);
    }
}

/* The length is read without the lock: other workers may empty the queue first. */
static void inject_pop_batch_tolerates_a_stale_length(void)
{
    struct wf_inject inject;
    struct wf_chain out = {0};
    init(&inject, 0, 0);
    /* the length that the worker read before the others emptied the queue */
    wf_store_relaxed(&inject.count, 1);
    CHECK_EQ(wf_inject_pop(&inject, 4, ROOMY, &out), 0);
    CHECK_EQ(out.count, 0);
    CHECK_EQ(wf_inject_count(&inject), 0);
    check_reached("inject.emptied_before_lock");
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void inject_push_chain_over_capacity_is_refused_whole(void)
{
    struct wf_inject inject;
    struct wf_chain out = {0};
    init(&inject, 8, 0);
    check_refused_chain(&inject, 0, 9, -EAGAIN);
    fill(&inject, 0, 6);
    check_refused_chain(&inject, 6, 3, -EAGAIN);
    fill(&inject, 6, 8); /* exactly full */
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 8)), -EAGAIN);
    check_refused_chain(&inject, 8, 1, -EAGAIN);
    struct wf_chain nothing = {0};
    CHECK_EQ(wf_inject_push_chain(&inject, &nothing), 0); /* needs no free slot */
    CHECK_EQ(wf_inject_count(&inject), 8);
    CHECK_EQ(wf_inject_pop(&inject, 4, 1, &out), 1);
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 8)), 0); /* a slot is free again */
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 9)), -EAGAIN);
    check_rest(&inject, 1, 9);
}

static void inject_capacity_is_exact(void)
{
    struct wf_inject inject;
    init(&inject, ITEMS, 0);
    for (size_t i = 0; i < ITEMS; i++) {
        CHECK_EQ(wf_inject_push(&inject, item_node(items, i)), 0);
    }
    CHECK_EQ(wf_inject_push(&inject, item_node(items, ITEMS)), -EAGAIN);
    check_rest(&inject, 0, ITEMS);
}

static void inject_closed_refuses_pushes_and_can_be_drained(void)
{
    struct wf_inject inject;
    init(&inject, 4, 0);
    fill(&inject, 0, 3);
    wf_inject_close(&inject);
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 3)), -EPIPE);
    check_refused_chain(&inject, 3, 1, -EPIPE);
    check_refused_chain(&inject, 3, 9, -EPIPE); /* not -EAGAIN: there will never be a free slot */
    wf_inject_close(&inject);
    check_rest(&inject, 0, 3);
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 3)), -EPIPE);
}

/* S4.18 (overflow buffer): work that exists already cannot go anywhere else */
static void inject_overflow_is_never_refused(void)
{
    struct wf_inject inject;
    struct wf_chain out = {0};
    init(&inject, 4, 0);
    fill(&inject, 0, 4);
    struct wf_chain chain = items_chain(items, 4, 128);
    wf_inject_push_overflow(&inject, &chain);
    CHECK_EQ(chain.count, 0);
    CHECK_EQ(wf_inject_count(&inject), 132);
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 140)), -EAGAIN);
    check_refused_chain(&inject, 140, 2, -EAGAIN);
    wf_inject_close(&inject);
    chain = items_chain(items, 132, 1);
    wf_inject_push_overflow(&inject, &chain);
    CHECK_EQ(wf_inject_pop(&inject, 1, 1, &out), 1);
    CHECK_EQ(item_index(wf_chain_pop(&out)), 0);
    check_rest(&inject, 1, 133);
}

/* After the overflow has drained below the capacity, the queue accepts new work again. */
static void inject_accepts_pushes_again_below_capacity(void)
{
    struct wf_inject inject;
    struct wf_chain out = {0};
    init(&inject, 4, 0);
    struct wf_chain chain = items_chain(items, 0, 6);
    wf_inject_push_overflow(&inject, &chain);
    for (size_t left = 6; left >= 4; left--) {
        CHECK_EQ(wf_inject_push(&inject, item_node(items, 6)), -EAGAIN);
        CHECK_EQ(wf_inject_pop(&inject, 1, 1, &out), 1);
    }
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 6)), 0);
    check_rest(&inject, 3, 7);
}

static void inject_init_refuses_invalid_batch(void)
{
    struct wf_inject inject;
    struct wf_inject untouched;
    struct wf_inject_options options = {.batch_max = WF_INJECT_BATCH_MAX + 1};
    memset(&inject, 0x5a, sizeof(inject));
    memcpy(&untouched, &inject, sizeof(inject));
    CHECK_EQ(wf_inject_init(&inject, &options), -EINVAL);
    options.batch_max = SIZE_MAX;
    CHECK_EQ(wf_inject_init(&inject, &options), -EINVAL);
    CHECK(memcmp(&inject, &untouched, sizeof(inject)) == 0);
    options.batch_max = WF_INJECT_BATCH_MAX;
    CHECK_EQ(wf_inject_init(&inject, &options), 0);
}

/* S2.25 */
static void inject_counters_add_up(void)
{
    struct wf_inject inject;
    struct wf_chain out = {0};
    struct wf_queue_stats stats;
    init(&inject, 10, 0);
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 0)), 0);
    fill(&inject, 1, 4);
    struct wf_chain chain = items_chain(items, 4, 8);
    wf_inject_push_overflow(&inject, &chain);
    CHECK_EQ(wf_inject_push(&inject, item_node(items, 12)), -EAGAIN); /* not counted */
    CHECK_EQ(wf_inject_pop(&inject, 1, 5, &out), 5);
    wf_queue_stats_read(&inject.counters, &stats);
    CHECK_EQ(stats.pushed, 12);
    CHECK_EQ(stats.overflowed, 8);
    CHECK_EQ(stats.popped, 5);
    CHECK_EQ(stats.stolen, 0);
    CHECK_EQ(stats.pushed, stats.popped + wf_inject_count(&inject));
}

static const struct tap_test tests[] = {
    TAP_TEST(inject_is_fifo),
    TAP_TEST(inject_pop_batch_appends_to_the_workers_chain),
    TAP_TEST(inject_allocates_nothing),
    TAP_TEST(inject_pop_batch_takes_the_fair_share),
    TAP_TEST(inject_pop_batch_leaves_a_share_for_other_workers),
    TAP_TEST(inject_pop_batch_tolerates_a_stale_length),
    TAP_TEST(inject_push_chain_over_capacity_is_refused_whole),
    TAP_TEST(inject_capacity_is_exact),
    TAP_TEST(inject_closed_refuses_pushes_and_can_be_drained),
    TAP_TEST(inject_overflow_is_never_refused),
    TAP_TEST(inject_accepts_pushes_again_below_capacity),
    TAP_TEST(inject_init_refuses_invalid_batch),
    TAP_TEST(inject_counters_add_up),
};
TAP_MAIN(tests)
