/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a sorted array holds the same items as before, in order; equal items keep their order;
 *         for every size of array and item, and every initial order.
 * Method: items with many, few or one distinct key, and a number; compared with a count of the
 *         items and, for stability, with their numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "abandon_helpers.h"
#include "base/base.h"
#include "fault_helpers.h"

enum { MANY = 10000 };

static const size_t counts[] = {0, 1, 2, 7, 8, 9, 17, 100, 1000, 4097, MANY};
enum { COUNTS = sizeof(counts) / sizeof(counts[0]) };

/* ---- initial orders -------------------------------------------------------------------------- */

enum order { RANDOM, FEW_KEYS, ONE_KEY, SORTED, REVERSED, SAW, ORDERS };

static uint32_t key_at(enum order order, size_t i, struct wf_random *random)
{
    switch (order) {
    case RANDOM:
        return (uint32_t)wf_random_next(random);
    case FEW_KEYS:
        return (uint32_t)wf_random_next(random) % 5;
    case SORTED:
        return (uint32_t)i;
    case REVERSED:
        return (uint32_t)(MANY - i);
    case SAW:
        return (uint32_t)(i % 100);
    case ONE_KEY:
    default:
        return 7;
    }
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int compare_u32(const void *a, const void *b, void *arg)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    (void)arg;
    return (x > y) - (x < y);
}

static int compare_u32_qsort(const void *a, const void *b)
{
    return compare_u32(a, b, NULL);
}

static intptr_t sort_numbers(void *arg)
{
    (void)arg;
    static uint32_t items[MANY];
    static uint32_t expected[MANY];
    struct wf_random random;
    wf_random_init(&random, tap_seed());
    for (int order = 0; order < ORDERS; order++) {
        for (size_t c = 0; c < COUNTS; c++) {
            for (size_t i = 0; i < counts[c]; i++) {
                items[i] = key_at((enum order)order, i, &random);
                expected[i] = items[i];
            }
            CHECK_EQ(weft_par_sort(items, counts[c], sizeof(items[0]), compare_u32, NULL), 0);
            qsort(expected, counts[c], sizeof(expected[0]), compare_u32_qsort);
            CHECK(memcmp(items, expected, counts[c] * sizeof(items[0])) == 0);
        }
    }
    return 0;
}

static void sort_of_numbers_matches_qsort(void)
{
    run_under(EVERYWHERE, sort_numbers);
    CHECK_EQ(sort_numbers(NULL), 0); /* outside of tasks too */
}

/* ---- items of any size ----------------------------------------------------------------------- */

/* The key is in the first bytes, the number follows, and the rest is derived from both. */
struct layout {
    size_t size;
    bool is_compared; /* the comparison sees arg */
};

static uint32_t word_at(const void *item, size_t offset)
{
    uint32_t word;
    memcpy(&word, (const char *)item + offset, sizeof(word));
    return word;
}

static int compare_items(const void *a, const void *b, void *arg)
{
    struct layout *layout = arg;
    CHECK(layout->is_compared);
    const uint32_t x = word_at(a, 0);
    const uint32_t y = word_at(b, 0);
    return (x > y) - (x < y);
}

static void fill(char *item, size_t size, uint32_t key, uint32_t number)
{
    memset(item, (int)(key * 31 + number), size);
    memcpy(item, &key, sizeof(key));
    memcpy(item + sizeof(key), &number, sizeof(number));
}

static void check_sorted(const char *items, size_t count, size_t size)
{
    static uint8_t seen[MANY];
    memset(seen, 0, sizeof(seen));
    for (size_t i = 0; i < count; i++) {
        const char *item = items + i * size;
        const uint32_t key = word_at(item, 0);
        const uint32_t number = word_at(item, sizeof(key));
        char expected[64];
        fill(expected, size, key, number);
        CHECK(memcmp(item, expected, size) == 0);
        CHECK(number < count && seen[number]++ == 0); /* each once */
        if (i > 0) {
            const uint32_t before = word_at(item - size, 0);
            CHECK(before < key || (before == key && word_at(item - size, sizeof(key)) < number));
        }
    }
}

static intptr_t sort_items_stably(void *arg)
{
    (void)arg;
    static char items[1000 * 40];
    const size_t item_sizes[] = {16, 17, 40};
    struct wf_random random;
    wf_random_init(&random, tap_seed());
    for (size_t s = 0; s < sizeof(item_sizes) / sizeof(item_sizes[0]); s++) {
        struct layout layout = {item_sizes[s], true};
        for (int order = 0; order < ORDERS; order++) {
            for (size_t c = 0; c < COUNTS && counts[c] <= 1000; c++) {
                for (size_t i = 0; i < counts[c]; i++) {
                    fill(items + i * layout.size, layout.size,
                         key_at((enum order)order, i, &random), (uint32_t)i);
                }
                CHECK_EQ(
                    weft_par_sort_stable(items, counts[c], layout.size, compare_items, &layout), 0);
                check_sorted(items, counts[c], layout.size);
            }
        }
    }
    return 0;
}

static void sort_is_stable(void)
{
    run_under(EVERYWHERE, sort_items_stably);
}

static intptr_t sort_many_equal_ones(void *arg)
{
    (void)arg;
    static char items[MANY * 8];
    struct layout layout = {8, true};
    struct wf_random random;
    wf_random_init(&random, tap_seed());
    for (int order = 0; order < ORDERS; order++) {
        for (size_t i = 0; i < MANY; i++) {
            fill(items + i * 8, 8, key_at((enum order)order, i, &random), (uint32_t)i);
        }
        CHECK_EQ(weft_par_sort_stable(items, MANY, 8, compare_items, &layout), 0);
        check_sorted(items, MANY, 8);
    }
    return 0;
}

static void sort_is_stable_in_large_merges(void)
{
    run_under(EVERYWHERE, sort_many_equal_ones);
}

/* ---- comparisons that suspend ---------------------------------------------------------------- */

static int compare_and_yield(const void *a, const void *b, void *arg)
{
    if (*(const uint32_t *)a % 64 == 0) {
        (void)weft_yield();
    }
    return compare_u32(a, b, arg);
}

static intptr_t sort_and_yield(void *arg)
{
    (void)arg;
    static uint32_t items[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        items[i] = i * 7919 % MANY;
    }
    CHECK_EQ(weft_par_sort(items, MANY, sizeof(items[0]), compare_and_yield, NULL), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        CHECK_EQ(items[i], i);
    }
    return 0;
}

static void sort_comparison_may_yield(void)
{
    run_under(EVERYWHERE, sort_and_yield);
}

/* ---- without memory -------------------------------------------------------------------------- */

static intptr_t sort_without_memory(void *arg)
{
    struct faults *faults = arg;
    static uint32_t items[1000];
    faults_begin(faults);
    for (uint32_t i = 0; i < 1000; i++) {
        items[i] = i * 7919 % 1000;
    }
    const int rc = weft_par_sort_stable(items, 1000, sizeof(items[0]), compare_u32, NULL);
    CHECK(rc == 0 || rc == -ENOMEM);
    for (uint32_t i = 0; i < 1000; i++) {
        CHECK_EQ(items[i], rc == 0 ? i : i * 7919 % 1000); /* otherwise nothing was changed */
        items[i] = i * 7919 % 1000;
    }
    CHECK_EQ(weft_par_sort(items, 1000, sizeof(items[0]), compare_u32, NULL), 0);
    for (uint32_t i = 0; i < 1000; i++) {
        CHECK_EQ(items[i], i);
    }
    faults_end(faults);
    faults_refused(faults, rc != 0 ? 1 : 0);
    return 0;
}

static void sort_without_memory_works_in_place(void)
{
    fail_each(sort_without_memory, 1);
}

static int compare_or_fail(const void *a, const void *b, void *arg)
{
    unsigned *left = arg;
    if (--*left == 0) {
        weft_fail(-EIO, "no more of this");
    }
    return compare_u32(a, b, NULL);
}

static intptr_t fail_in_a_sort(void *arg)
{
    unsigned left = 500;
    uint32_t items[200];
    (void)arg;
    for (uint32_t i = 0; i < 200; i++) {
        items[i] = i * 7919 % 200;
    }
    return weft_par_sort(items, 200, sizeof(items[0]), compare_or_fail, &left);
}

static intptr_t await_failed_sorts(void *arg)
{
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_await(go(fail_in_a_sort, arg)), -EIO);
    }
    return 0;
}

/* LeakSanitizer reports it if the sort's memory is not freed. */
static void sort_comparison_may_fail_its_task(void)
{
    run_under(EVERYWHERE, await_failed_sorts);
}

/* What the task of an abandoned sort waits in. */
static wf_atomic_u32 is_comparing;

static int compare_for_ever(const void *a, const void *b, void *arg)
{
    (void)a;
    (void)b;
    (void)arg;
    CHECK_EQ(weft_shield_begin(), 0);
    raise_by_one(&is_comparing);
    (void)weft_sleep(WEFT_NEVER); /* ends with the runtime */
    return 0;
}

static intptr_t sort_for_ever(void *arg)
{
    static uint32_t items[200];
    (void)arg;
    return weft_par_sort(items, 200, sizeof(items[0]), compare_for_ever, NULL);
}

static int compare_and_check(const void *a, const void *b, void *arg)
{
    CHECK_EQ(weft_check(), 0);
    return compare_u32(a, b, arg);
}

static intptr_t compare_and_spend(void *arg)
{
    uint32_t items[] = {2, 1};
    (void)arg;
    return weft_par_sort(items, 2, sizeof(items[0]), compare_and_check, NULL);
}

static void sort_abandoned_in_a_comparison_frees_its_memory(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        const uint64_t before = blocks_out();
        wf_store_relaxed(&is_comparing, 0); /* relaxed: the spawn orders it */
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, sort_for_ever, NULL);
        wait_for(&is_comparing, 1);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(blocks_out(), before);
    }
    const uint64_t before = blocks_out();
    abandon_in_yield(compare_and_spend, NULL);
    CHECK_EQ(blocks_out(), before);
}

static void sort_refuses_bad_arguments(void)
{
    uint32_t items[2] = {2, 1};
    CHECK_EQ(weft_par_sort(items, 2, 0, compare_u32, NULL), -EINVAL);
    CHECK_EQ(weft_par_sort(items, SIZE_MAX / 2, 4, compare_u32, NULL), -EINVAL);
    CHECK_EQ(weft_par_sort(NULL, 0, 4, compare_u32, NULL), 0);
    CHECK_EQ(items[0], 2);
}

static const struct tap_test tests[] = {
    TAP_TEST(sort_of_numbers_matches_qsort),
    TAP_TEST(sort_is_stable),
    TAP_TEST(sort_is_stable_in_large_merges),
    TAP_TEST(sort_comparison_may_yield),
    TAP_TEST(sort_comparison_may_fail_its_task),
    TAP_TEST(sort_without_memory_works_in_place),
    TAP_TEST(sort_refuses_bad_arguments),
    TAP_TEST(sort_abandoned_in_a_comparison_frees_its_memory),
};
TAP_MAIN(tests)
