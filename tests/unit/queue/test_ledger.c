/* SPDX-License-Identifier: MIT */
/*
 * Goal:   an item that went into a queue comes out exactly once, whichever threads race.
 * Method: owners, thieves, producers and senders on real threads over numbered items (ledger.h),
 *         more threads than there are CPUs.  tests/stress runs the same with many more items.
 */
#include "ledger.h"

#include "tap.h"

enum {
    ITEMS = 200 * 1000,
    ROUNDS = 100 * 1000,
    THIEVES_MAX = 8,
};

/* Runs with 1, 2, ... THIEVES_MAX threads beside the owner.  A run in which the thieves took
 * nothing shows little; the thieves must have taken something in at least one run. */
static void check_with_1_to_n_threads(struct ledger_report (*run)(size_t items, unsigned others))
{
    struct ledger_report sum = {0};
    for (unsigned others = 1; others <= THIEVES_MAX; others++) {
        struct ledger_report report = run(ITEMS, others);
        sum.by_owner += report.by_owner;
        sum.by_others += report.by_others;
    }
    tap_note("owner %ju, others %ju", (uintmax_t)sum.by_owner, (uintmax_t)sum.by_others);
    CHECK(sum.by_others > 0);
}

/* behaviour 6 (FIFO owner, steal-half, overflow); S2.25 (the counters add up) */
static void ring_items_are_taken_exactly_once(void)
{
    check_with_1_to_n_threads(ledger_ring);
}

/* behaviour 6 (LIFO owner, steal-half), behaviour 7; S2.40 (many thieves) */
static void deque_items_are_taken_exactly_once(void)
{
    check_with_1_to_n_threads(ledger_deque);
}

/* behaviour 8 (concurrent, zero allocation); S3.8 */
static void inject_items_are_taken_exactly_once(void)
{
    check_with_1_to_n_threads(ledger_inject);
}

/* behaviour 9 (senders lose nothing, whichever sender is preempted); part of S3.20 */
static void mpsc_items_arrive_exactly_once_and_in_order(void)
{
    for (unsigned senders = 1; senders <= THIEVES_MAX; senders++) {
        (void)ledger_mpsc(ITEMS, senders);
    }
}

/* part of behaviour 5: the stress test runs many more iterations */
static void ring_last_item_goes_to_owner_or_thief(void)
{
    struct ledger_report report = ledger_last_of_ring(ROUNDS);
    tap_note("owner %ju, thief %ju", (uintmax_t)report.by_owner, (uintmax_t)report.by_others);
}

/* part of behaviour 5: the stress test runs many more iterations */
static void deque_last_item_goes_to_owner_or_thief(void)
{
    struct ledger_report report = ledger_last_of_deque(ROUNDS);
    tap_note("owner %ju, thief %ju", (uintmax_t)report.by_owner, (uintmax_t)report.by_others);
}

static const struct tap_test tests[] = {
    TAP_TEST(ring_items_are_taken_exactly_once),
    TAP_TEST(deque_items_are_taken_exactly_once),
    TAP_TEST(inject_items_are_taken_exactly_once),
    TAP_TEST(mpsc_items_arrive_exactly_once_and_in_order),
    TAP_TEST(ring_last_item_goes_to_owner_or_thief),
    TAP_TEST(deque_last_item_goes_to_owner_or_thief),
};
TAP_MAIN(tests)
