/* SPDX-License-Identifier: MIT */
/*
 * Goal:   green threads start, wait and end, in large numbers.
 * Method: recursive spawns with a known sum, on 1, 2 and 8 workers.
 */
#include <weft/weft.h>

#include "tap.h"

static intptr_t fib(void *arg)
{
    intptr_t n = (intptr_t)arg;
    if (n < 2) {
        return n;
    }
    weft_task *first = weft_go(fib, (void *)(n - 1));
    weft_task *second = weft_go(fib, (void *)(n - 2));
    intptr_t sum = weft_await(second);
    return sum + weft_await(first);
}

/* S0.1, part of behaviour 38 */
static void spawn_tree_computes_fibonacci(void)
{
    for (uint32_t workers = 1; workers <= 8; workers = workers == 1 ? 2 : workers * 4) {
        const weft_runtime_options options = {.workers = workers};
        CHECK_EQ(weft_run(fib, (void *)15, &options), 610);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(spawn_tree_computes_fibonacci),
};
TAP_MAIN(tests)
