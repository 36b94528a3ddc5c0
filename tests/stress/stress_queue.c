/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the exactly-once ledger holds over very many items, for rare interleavings that the unit
 *         tests have no time for.
 * Method: the runs of ledger.h, ten million items each, with 1, 2, 4 and 8 threads beside the
 *         owner.  The report shows the throughput; no check depends on it.
 * Environment: WEFT_STRESS_ITEMS  items per run, and iterations of a race (default 10,000,000)
 */
#include <stdlib.h>

#include "base/base.h"
#include "ledger.h"
#include "tap.h"

enum { OTHERS_MAX = 8, LIMIT_S = 600 };

static size_t items_wanted(void)
{
    const char *text = getenv("WEFT_STRESS_ITEMS");
    uint64_t items = 10 * 1000 * 1000;
    if (text != NULL && wf_parse_u64(text, 1000, UINT32_MAX - 1, &items) != 0) {
        tap_fail(__FILE__, __LINE__, "WEFT_STRESS_ITEMS is not a number from 1000 on: %s", text);
    }
    return (size_t)items;
}

static void note(const char *what, unsigned others, struct ledger_report report)
{
    double taken = (double)(report.by_owner + report.by_others);
    tap_note("%s, %u beside the owner: %.1f million items a second; the owner took %.1f %%", what,
             others, taken / report.seconds / 1e6, 100 * (double)report.by_owner / taken);
}

static void run_all(const char *what, struct ledger_report (*run)(size_t items, unsigned others))
{
    for (unsigned others = 1; others <= OTHERS_MAX; others *= 2) {
        note(what, others, run(items_wanted(), others));
    }
}

/* behaviour 6 */
static void ring_items_are_taken_exactly_once(void)
{
    run_all("ring", ledger_ring);
}

/* behaviour 6, behaviour 7 */
static void deque_items_are_taken_exactly_once(void)
{
    run_all("deque", ledger_deque);
}

/* behaviour 8 */
static void inject_items_are_taken_exactly_once(void)
{
    run_all("inject", ledger_inject);
}

/* behaviour 9 */
static void mpsc_items_arrive_exactly_once_and_in_order(void)
{
    run_all("mpsc", ledger_mpsc);
}

/* behaviour 5: ten million iterations */
static void ring_last_item_goes_to_owner_or_thief(void)
{
    note("ring", 1, ledger_last_of_ring(items_wanted()));
}

/* behaviour 5: ten million iterations */
static void deque_last_item_goes_to_owner_or_thief(void)
{
    note("deque", 1, ledger_last_of_deque(items_wanted()));
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(ring_items_are_taken_exactly_once, LIMIT_S),
    TAP_TEST_LIMIT(deque_items_are_taken_exactly_once, LIMIT_S),
    TAP_TEST_LIMIT(inject_items_are_taken_exactly_once, LIMIT_S),
    TAP_TEST_LIMIT(mpsc_items_arrive_exactly_once_and_in_order, LIMIT_S),
    TAP_TEST_LIMIT(ring_last_item_goes_to_owner_or_thief, LIMIT_S),
    TAP_TEST_LIMIT(deque_last_item_goes_to_owner_or_thief, LIMIT_S),
};
TAP_MAIN(tests)
