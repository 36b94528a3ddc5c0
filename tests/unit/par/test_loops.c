/* SPDX-License-Identifier: MIT */
/*
 * Goal:   parallel for, reduce, map and scan give the results of their sequential forms, for every
 *         size, with one worker and many, with bodies that suspend, and refuse bad arguments.
 * Method: each index counts itself in plain memory, so a skipped or repeated index is noticed;
 *         reductions use operations that do not commute; the rest is compared with a loop.
 */
#include <string.h>

#include "fault_helpers.h"
#include "par/par.h"

/* ---- loops ----------------------------------------------------------------------------------- */

enum { MANY = 20000 };

static const size_t sizes[] = {0, 1, 2, 3, 7, 64, 1000, 8191, MANY};
static const size_t grains[] = {0, 1, 2, 100, MANY, SIZE_MAX};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), GRAINS = sizeof(grains) / sizeof(grains[0]) };

static void count_each(size_t lo, size_t hi, void *arg)
{
    uint8_t *counts = arg;
    CHECK(lo < hi);
    for (size_t i = lo; i < hi; i++) {
        counts[i]++;
    }
}

static void check_loop(size_t begin, size_t end, size_t grain)
{
    static uint8_t counts[MANY + 10];
    memset(counts, 0, sizeof(counts));
    CHECK_EQ(weft_par_for(begin, end, grain, count_each, counts), 0);
    for (size_t i = 0; i < sizeof(counts); i++) {
        CHECK_EQ(counts[i], i >= begin && i < end ? 1 : 0);
    }
}

static intptr_t loop_over_sizes(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < SIZES; i++) {
        for (size_t j = 0; j < GRAINS; j++) {
            check_loop(0, sizes[i], grains[j]);
            check_loop(3, 3 + sizes[i], grains[j]);
        }
    }
    return 0;
}

static void for_runs_each_index_once(void)
{
    run_under(EVERYWHERE, loop_over_sizes);
}

static void for_outside_a_task_runs_sequentially(void)
{
    CHECK_EQ(loop_over_sizes(NULL), 0);
}

static void yield_and_count(size_t lo, size_t hi, void *arg)
{
    (void)weft_yield();
    if (lo % 3 == 0) {
        CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    }
    count_each(lo, hi, arg);
}

static intptr_t loop_and_wait(void *arg)
{
    (void)arg;
    uint8_t counts[200] = {0};
    CHECK_EQ(weft_par_for(0, 200, 1, yield_and_count, counts), 0);
    for (size_t i = 0; i < 200; i++) {
        CHECK_EQ(counts[i], 1);
    }
    return 0;
}

static void for_body_may_suspend(void)
{
    run_under(EVERYWHERE, loop_and_wait);
}

/* Two bodies that wait for each other: a single worker would not reach the end. */
struct meeting {
    wf_atomic_u32 here;
};

static void meet(size_t lo, size_t hi, void *arg)
{
    struct meeting *meeting = arg;
    CHECK_EQ(hi - lo, 1);
    raise_by_one(&meeting->here);
    hold_for(&meeting->here, 2);
}

static intptr_t meet_in_a_loop(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        struct meeting meeting = {{0}};
        CHECK_EQ(weft_par_for(0, 2, 0, meet, &meeting), 0);
    }
    return 0;
}

static void for_spreads_over_idle_workers(void)
{
    run_under(ON_SEVERAL_THAT_STEAL, meet_in_a_loop);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

struct stop {
    wf_atomic_u32 begun;
    wf_atomic_u32 done;
};

static void run_until_stopped(size_t lo, size_t hi, void *arg)
{
    struct stop *stop = arg;
    raise_by_one(&stop->begun);
    while (weft_check() == 0) {
        (void)weft_yield();
    }
    (void)wf_fetch_add_relaxed(&stop->done, (uint32_t)(hi - lo)); /* relaxed: the join orders it */
}

static intptr_t loop_until_cancelled(void *arg)
{
    return weft_par_for(0, 1000000, 1, run_until_stopped, arg);
}

static intptr_t cancel_a_loop(void *arg)
{
    (void)arg;
    struct stop stop = {{0}, {0}};
    weft_task *task = go(loop_until_cancelled, &stop);
    wait_for(&stop.begun, 1);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK(wf_load_relaxed(&stop.done) < 1000000);
    return 0;
}

static void for_cancelled_ends_early(void)
{
    run_under(EVERYWHERE, cancel_a_loop);
}

static intptr_t loop_out_of_time(void *arg)
{
    (void)arg;
    static uint8_t counts[MANY];
    (void)weft_deadline_set(1); /* long ago */
    CHECK_EQ(weft_par_for(0, 10, 1, count_each, counts), -ETIMEDOUT);
    (void)weft_deadline_set(WEFT_NEVER);
    CHECK_EQ(counts[0], 0);
    return 0;
}

static void for_past_its_deadline_does_not_begin(void)
{
    run_under(EVERYWHERE, loop_out_of_time);
}

static void meet_in_a_sum(size_t lo, size_t hi, void *value, void *arg)
{
    meet(lo, hi, arg);
    *(size_t *)value += hi - lo;
}

static void add_sums(void *value, const void *right, void *arg)
{
    (void)arg;
    *(size_t *)value += *(const size_t *)right;
}

/* Behind a shield the whole loop runs, also the chunks that thieves took, although the deadline has
 * passed. */
static intptr_t meet_behind_a_shield(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        struct meeting loop = {{0}};
        struct meeting sum = {{0}};
        const weft_par_reducer reducer = {
            .size = sizeof(size_t), .body = meet_in_a_sum, .combine = add_sums, .arg = &sum};
        size_t count = 0;
        CHECK_EQ(weft_shield_begin(), 0);
        (void)weft_deadline_set(1); /* long ago */
        CHECK_EQ(weft_par_for(0, 2, 0, meet, &loop), 0);
        CHECK_EQ(weft_par_reduce(&count, 0, 2, 0, &reducer), 0);
        CHECK_EQ(count, 2);
        (void)weft_deadline_set(WEFT_NEVER);
        CHECK_EQ(weft_shield_end(), 0);
    }
    return 0;
}

static void for_behind_a_shield_runs_to_its_end(void)
{
    run_under(ON_SEVERAL_THAT_STEAL, meet_behind_a_shield);
}

/* ---- reduce ---------------------------------------------------------------------------------- */

/* x -> a x + b: composition is associative and not commutative. */
struct affine {
    uint64_t a;
    uint64_t b;
};

static void apply(void *value, const void *right, void *arg)
{
    struct affine *left = value;
    const struct affine *then = right;
    (void)arg;
    left->b = then->a * left->b + then->b;
    left->a = then->a * left->a;
}

static void apply_each(size_t lo, size_t hi, void *value, void *arg)
{
    for (size_t i = lo; i < hi; i++) {
        const struct affine next = {2 * i + 1, i};
        apply(value, &next, arg);
    }
}

static intptr_t reduce_over_sizes(void *arg)
{
    (void)arg;
    const struct affine same = {1, 0};
    const weft_par_reducer reducer = {
        .size = sizeof(same), .identity = &same, .body = apply_each, .combine = apply};
    for (size_t i = 0; i < SIZES; i++) {
        struct affine expected = same;
        apply_each(5, 5 + sizes[i], &expected, NULL);
        for (size_t j = 0; j < GRAINS; j++) {
            struct affine sum = {9, 9};
            CHECK_EQ(weft_par_reduce(&sum, 5, 5 + sizes[i], grains[j], &reducer), 0);
            CHECK(sum.a == expected.a && sum.b == expected.b);
        }
    }
    return 0;
}

static void reduce_keeps_order(void)
{
    run_under(EVERYWHERE, reduce_over_sizes);
    CHECK_EQ(reduce_over_sizes(NULL), 0);
}

/* A value that is too large for a frame: the number of occurrences of each byte. */
struct histogram {
    uint64_t counts[256];
};

static void count_bytes(size_t lo, size_t hi, void *value, void *arg)
{
    struct histogram *histogram = value;
    (void)arg;
    for (size_t i = lo; i < hi; i++) {
        histogram->counts[(i * 7) % 256]++;
    }
}

static void add_histograms(void *value, const void *right, void *arg)
{
    struct histogram *histogram = value;
    const struct histogram *other = right;
    (void)arg;
    for (size_t i = 0; i < 256; i++) {
        histogram->counts[i] += other->counts[i];
    }
}

static const weft_par_reducer histograms = {
    .size = sizeof(struct histogram), .body = count_bytes, .combine = add_histograms};

static intptr_t reduce_large_values(void *arg)
{
    (void)arg;
    struct histogram sum;
    memset(&sum, 1, sizeof(sum)); /* the result starts from zero bytes all the same */
    CHECK_EQ(weft_par_reduce(&sum, 0, 256 * 100, 1, &histograms), 0);
    for (size_t i = 0; i < 256; i++) {
        CHECK_EQ(sum.counts[i], 100);
    }
    return 0;
}

static void reduce_supports_large_values(void)
{
    run_under(EVERYWHERE, reduce_large_values);
}

static intptr_t reduce_without_memory(void *arg)
{
    faults_begin(arg);
    CHECK_EQ(reduce_large_values(NULL), 0);
    faults_end(arg);
    return 0;
}

static void reduce_without_memory_runs_sequentially(void)
{
    fail_each(reduce_without_memory, 0);
}

static intptr_t reduce_until_cancelled(void *arg)
{
    struct histogram sum;
    raise_by_one(arg);
    while (weft_check() == 0) {
    }
    CHECK_EQ(weft_par_reduce(&sum, 0, 1000, 1, &histograms), -ECANCELED);
    return 0;
}

static intptr_t cancel_a_sum(void *arg)
{
    (void)arg;
    wf_atomic_u32 begun = {0};
    weft_task *task = go(reduce_until_cancelled, &begun);
    wait_for(&begun, 1);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

static void reduce_cancelled_returns_ecanceled(void)
{
    run_under(EVERYWHERE, cancel_a_sum);
}

/* ---- map ------------------------------------------------------------------------------------- */

static void square(const void *item, void *result, void *arg)
{
    const uint32_t number = *(const uint32_t *)item;
    uint64_t *out = result;
    *out = (uint64_t)number * number + *(const uint64_t *)arg;
}

static intptr_t map_some(void *arg)
{
    (void)arg;
    static uint32_t items[MANY];
    static uint64_t results[MANY];
    uint64_t more = 3;
    for (uint32_t i = 0; i < MANY; i++) {
        items[i] = i;
        results[i] = 0;
    }
    CHECK_EQ(
        weft_par_map(items, sizeof(items[0]), results, sizeof(results[0]), MANY, square, &more), 0);
    for (uint64_t i = 0; i < MANY; i++) {
        CHECK(results[i] == i * i + 3);
    }
    CHECK_EQ(weft_par_map(NULL, 1, NULL, 1, 0, square, NULL), 0);
    return 0;
}

static void map_has_a_result_for_each_item(void)
{
    run_under(EVERYWHERE, map_some);
}

/* ---- scan ------------------------------------------------------------------------------------ */

static intptr_t scan_numbers(void *arg)
{
    (void)arg;
    static int64_t numbers[3 * MANY];
    static double reals[3 * MANY];
    const size_t counts[] = {0, 1, 2, 5, 8191, 8192, 8193, 16385, 3 * MANY};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        for (size_t i = 0; i < counts[c]; i++) {
            numbers[i] = (int64_t)(i % 17) - 5;
            reals[i] = (double)(i % 9); /* whole numbers: no rounding */
        }
        CHECK_EQ(weft_par_scan_i64(numbers, counts[c]), 0);
        CHECK_EQ(weft_par_scan_f64(reals, counts[c]), 0);
        int64_t sum = 0;
        double real_sum = 0;
        for (size_t i = 0; i < counts[c]; i++) {
            sum += (int64_t)(i % 17) - 5;
            real_sum += (double)(i % 9);
            CHECK_EQ(numbers[i], sum);
            CHECK(reals[i] == real_sum);
        }
    }
    return 0;
}

static void scan_matches_a_sequential_loop(void)
{
    run_under(EVERYWHERE, scan_numbers);
    CHECK_EQ(scan_numbers(NULL), 0);
}

static intptr_t scan_what_does_not_commute(void *arg)
{
    (void)arg;
    static struct affine items[MANY];
    for (uint64_t i = 0; i < MANY; i++) {
        items[i] = (struct affine){2 * i + 1, i};
    }
    CHECK_EQ(weft_par_scan(items, MANY, sizeof(items[0]), apply, NULL), 0);
    struct affine sum = {1, 0};
    for (uint64_t i = 0; i < MANY; i++) {
        const struct affine next = {2 * i + 1, i};
        apply(&sum, &next, NULL);
        CHECK(items[i].a == sum.a && items[i].b == sum.b);
    }
    return 0;
}

static void scan_keeps_order(void)
{
    run_under(EVERYWHERE, scan_what_does_not_commute);
}

/* A cancelled task gets complete sums all the same. */
static intptr_t scan_when_cancelled(void *arg)
{
    raise_by_one(arg);
    while (weft_check() == 0) {
    }
    return scan_numbers(NULL);
}

static intptr_t cancel_a_scan(void *arg)
{
    (void)arg;
    wf_atomic_u32 begun = {0};
    weft_task *task = go(scan_when_cancelled, &begun);
    wait_for(&begun, 1);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

static intptr_t scan_out_of_time(void *arg)
{
    for (int i = 0; i < 5; i++) {
        (void)weft_deadline_set(1); /* long ago */
        CHECK_EQ(scan_numbers(arg), 0);
        (void)weft_deadline_set(WEFT_NEVER);
    }
    return 0;
}

static void scan_runs_to_its_end_though_cancelled(void)
{
    run_under(EVERYWHERE, cancel_a_scan);
    run_under(EVERYWHERE, scan_out_of_time);
}

static intptr_t scan_without_memory(void *arg)
{
    faults_begin(arg);
    CHECK_EQ(scan_numbers(NULL), 0);
    faults_end(arg);
    return 0;
}

static void scan_allocates_nothing(void)
{
    fail_each(scan_without_memory, 0);
}

/* ---- grain ----------------------------------------------------------------------------------- */

static void grain_adapts_to_the_target_duration(void)
{
    struct wf_grain grain = wf_grain_of(0);
    CHECK_EQ(grain.chunk, 1);
    wf_grain_adapt(&grain, 1, 10); /* far too short */
    CHECK_EQ(grain.chunk, 4);
    wf_grain_adapt(&grain, 4, WF_CHUNK_NS / 4);
    CHECK_EQ(grain.chunk, 8);
    wf_grain_adapt(&grain, 1000, WF_CHUNK_NS); /* the right length */
    CHECK_EQ(grain.chunk, 8);
    wf_grain_adapt(&grain, 1000, 10 * WF_CHUNK_NS);
    CHECK_EQ(grain.chunk, 100);
    wf_grain_adapt(&grain, 3, 1000 * WF_CHUNK_NS);
    CHECK_EQ(grain.chunk, 1);
    wf_grain_adapt(&grain, SIZE_MAX, 1);
    CHECK(grain.chunk == SIZE_MAX);
    CHECK_EQ(wf_grain_of(5).chunk, 5);
}

static void grain_does_not_fork_short_loops(void)
{
    struct wf_grain grain = wf_grain_of(0);
    CHECK(wf_grain_is_worth_forking(&grain, WF_CHUNK_FIRST - 1)); /* each item may take long */
    CHECK(!wf_grain_is_worth_forking(&grain, WF_CHUNK_FIRST));
    wf_grain_adapt(&grain, 1, 20); /* too short to measure */
    CHECK(!wf_grain_is_worth_forking(&grain, 1000000));
    wf_grain_adapt(&grain, 100, WF_CHUNK_NS);
    CHECK(!wf_grain_is_worth_forking(&grain, 199));
    CHECK(wf_grain_is_worth_forking(&grain, 200));
    grain = wf_grain_of(7);
    CHECK(wf_grain_is_worth_forking(&grain, 8)); /* the grain that was requested */
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static void par_refuses_bad_arguments(void)
{
    int64_t number = 1;
    weft_par_reducer bad[4];
    CHECK_EQ(weft_par_for(2, 1, 0, count_each, NULL), -EINVAL);
    for (int i = 0; i < 4; i++) {
        bad[i] = histograms;
    }
    bad[0].body = NULL;
    bad[1].combine = NULL;
    bad[2].size = 0;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_par_reduce(&number, 0, 1, 0, &bad[i]), -EINVAL);
    }
    CHECK_EQ(weft_par_reduce(&number, 1, 0, 0, &histograms), -EINVAL);
    CHECK_EQ(weft_par_scan(&number, 1, 0, apply, NULL), -EINVAL);
    CHECK_EQ(weft_par_scan(&number, 1, 257, apply, NULL), -EINVAL);
    CHECK_EQ(weft_par_scan_i64(NULL, 0), 0);
    CHECK_EQ(number, 1);
}

static const struct tap_test tests[] = {
    TAP_TEST(for_runs_each_index_once),
    TAP_TEST(for_outside_a_task_runs_sequentially),
    TAP_TEST(for_body_may_suspend),
    TAP_TEST(for_spreads_over_idle_workers),
    TAP_TEST(for_cancelled_ends_early),
    TAP_TEST(for_past_its_deadline_does_not_begin),
    TAP_TEST(for_behind_a_shield_runs_to_its_end),
    TAP_TEST(reduce_keeps_order),
    TAP_TEST(reduce_supports_large_values),
    TAP_TEST(reduce_without_memory_runs_sequentially),
    TAP_TEST(reduce_cancelled_returns_ecanceled),
    TAP_TEST(map_has_a_result_for_each_item),
    TAP_TEST(scan_matches_a_sequential_loop),
    TAP_TEST(scan_keeps_order),
    TAP_TEST(scan_runs_to_its_end_though_cancelled),
    TAP_TEST(scan_allocates_nothing),
    TAP_TEST(grain_adapts_to_the_target_duration),
    TAP_TEST(grain_does_not_fork_short_loops),
    TAP_TEST(par_refuses_bad_arguments),
};
TAP_MAIN(tests)
