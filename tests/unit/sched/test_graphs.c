/* SPDX-License-Identifier: MIT */
/*
 * Goal:   graphs of many tasks give the right results, whatever their shape.
 * Method: chains, trees, diamonds, waves and pipelines with known results; all data between tasks
 *         is plain memory.
 */
#include <stdlib.h>
#include <unistd.h>

#include "fiber/fiber.h"
#include "proc_helpers.h"
#include "sched_helpers.h"

/* gcc's ThreadSanitizer uses a megabyte for each stack. */
#ifdef WF_TSAN
enum { CHAIN = 200, LIVE = 500 };
#else
enum { CHAIN = 2000, LIVE = 10000 };
#endif

/* ---- chains ---------------------------------------------------------------------------------- */

static intptr_t run_chain(void *arg)
{
    const intptr_t depth = (intptr_t)arg;
    if (depth == 0) {
        return 0;
    }
    return weft_await(go(run_chain, (void *)(depth - 1))) + 1;
}

static intptr_t check_chain(void *arg)
{
    (void)arg;
    CHECK_EQ(run_chain((void *)CHAIN), CHAIN);
    return 0;
}

/* behaviour 38 */
static void await_chain_of_2000_tasks_completes(void)
{
    run_under(EVERYWHERE, check_chain);
}

/* ---- diamonds -------------------------------------------------------------------------------- */

struct diamond {
    weft_task *top;
    int base; /* plain: written by the top, read by both sides */
    int sides[2];
};

static intptr_t run_top(void *arg)
{
    struct diamond *diamond = arg;
    (void)weft_yield();
    diamond->base = 100;
    return 0;
}

static intptr_t run_left(void *arg)
{
    struct diamond *diamond = arg;
    CHECK_EQ(weft_join(diamond->top, NULL), 0);
    diamond->sides[0] = diamond->base + 1;
    return 0;
}

static intptr_t run_right(void *arg)
{
    struct diamond *diamond = arg;
    CHECK_EQ(weft_join(diamond->top, NULL), 0);
    diamond->sides[1] = diamond->base + 2;
    return 0;
}

static intptr_t run_diamonds(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++) {
        struct diamond diamond = {.base = 0};
        diamond.top = go(run_top, &diamond);
        weft_task *sides[2] = {go(run_left, &diamond), go(run_right, &diamond)};
        CHECK_EQ(weft_await_all(sides, 2, NULL), 0);
        CHECK_EQ(diamond.sides[0] + diamond.sides[1], 203);
        weft_task_unref(diamond.top);
    }
    return 0;
}

/* behaviour 38 */
static void join_diamond_sees_writes_of_both_sides(void)
{
    run_under(EVERYWHERE, run_diamonds);
}

/* ---- trees ----------------------------------------------------------------------------------- */

static intptr_t fib(intptr_t n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static intptr_t fib_by_tasks(void *arg)
{
    const intptr_t n = (intptr_t)arg;
    if (n < 2) {
        return n;
    }
    weft_task *left = go(fib_by_tasks, (void *)(n - 1));
    const intptr_t right = fib_by_tasks((void *)(n - 2));
    return weft_await(left) + right;
}

/* Below 18 the task computes the value itself. */
static intptr_t fib_by_few_tasks(void *arg)
{
    const intptr_t n = (intptr_t)arg;
    if (n < 18) {
        return fib(n);
    }
    weft_task *left = go(fib_by_few_tasks, (void *)(n - 1));
    const intptr_t right = fib_by_few_tasks((void *)(n - 2));
    return weft_await(left) + right;
}

static intptr_t compute_fib(void *arg)
{
    (void)arg;
    CHECK_EQ(fib_by_tasks((void *)10), 55);
    CHECK_EQ(fib_by_tasks((void *)14), 377);
    CHECK_EQ(fib_by_few_tasks((void *)25), 75025);
    return 0;
}

/* behaviour 38 */
static void spawn_tree_computes_fibonacci_with_and_without_cutoff(void)
{
    run_under(EVERYWHERE, compute_fib);
}

struct square {
    int level;
    int sum;
};

static intptr_t nest_four(void *arg)
{
    struct square *square = arg;
    if (square->level == 0) {
        square->sum = 1;
        return 0;
    }
    struct square parts[4];
    weft_task *tasks[4];
    for (int i = 0; i < 4; i++) {
        parts[i] = (struct square){square->level - 1, 0};
        tasks[i] = go(nest_four, &parts[i]);
    }
    int rc = weft_await_all(tasks, 4, NULL);
    for (int i = 0; i < 4; i++) {
        square->sum += parts[i].sum;
    }
    return rc;
}

static intptr_t nest_in_parallel(void *arg)
{
    (void)arg;
    struct square square = {4, 0};
    CHECK_EQ(nest_four(&square), 0);
    CHECK_EQ(square.sum, 256);
    return 0;
}

/* behaviour 38 */
static void await_all_nests_four_levels_deep(void)
{
    run_under(EVERYWHERE, nest_in_parallel);
}

/* ---- waves ----------------------------------------------------------------------------------- */

enum { WIDTH = 20, WAVES = 20 };

struct cell {
    const uint64_t *before; /* the whole previous wave, plain */
    uint64_t *own;
};

static intptr_t add_previous_wave(void *arg)
{
    const struct cell *cell = arg;
    for (int i = 0; i < WIDTH; i++) {
        *cell->own += cell->before[i];
    }
    *cell->own %= 1000003;
    return 0;
}

static intptr_t run_waves(void *arg)
{
    (void)arg;
    uint64_t await_all_separates_waves_of_tasks[2][WIDTH] = {{1}};
    uint64_t expected = 1;
    for (int wave = 1; wave < WAVES; wave++) {
        struct cell cells[WIDTH];
        weft_task *tasks[WIDTH];
        for (int i = 0; i < WIDTH; i++) {
            await_all_separates_waves_of_tasks[wave % 2][i] = 0;
            cells[i] = (struct cell){await_all_separates_waves_of_tasks[(wave - 1) % 2],
                                     &await_all_separates_waves_of_tasks[wave % 2][i]};
            tasks[i] = go(add_previous_wave, &cells[i]);
        }
        CHECK_EQ(weft_await_all(tasks, WIDTH, NULL), 0);
        for (int i = 0; i < WIDTH; i++) {
            CHECK_EQ(await_all_separates_waves_of_tasks[wave % 2][i], expected);
        }
        expected = expected * WIDTH % 1000003;
    }
    return 0;
}

/* behaviour 38 */
static void await_all_separates_waves_of_tasks(void)
{
    run_under(EVERYWHERE, run_waves);
}

/* ---- matrices, maps -------------------------------------------------------------------------- */

enum { N = 16 };

static int left[N][N];
static int right[N][N];
static int product[N][N];

static intptr_t multiply_a_cell(void *arg)
{
    const int index = (int)(intptr_t)arg;
    int sum = 0;
    for (int k = 0; k < N; k++) {
        sum += left[index / N][k] * right[k][index % N];
    }
    product[index / N][index % N] = sum;
    return 0;
}

static intptr_t multiply(void *arg)
{
    (void)arg;
    weft_scope scope;
    for (int i = 0; i < N * N; i++) {
        left[i / N][i % N] = i;
        right[i / N][i % N] = i / N == i % N ? 2 : 0;
        product[i / N][i % N] = -1;
    }
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    for (intptr_t i = 0; i < N * N; i++) {
        CHECK_EQ(weft_scope_go(&scope, multiply_a_cell, (void *)i), 0);
    }
    CHECK_EQ(weft_scope_close(&scope), 0);
    for (int i = 0; i < N * N; i++) {
        CHECK_EQ(product[i / N][i % N], 2 * i);
    }
    return 0;
}

/* behaviour 38 */
static void scope_computes_a_16_by_16_matrix_product(void)
{
    run_under(EVERYWHERE, multiply);
}

static intptr_t square_it(void *arg)
{
    const intptr_t number = (intptr_t)arg;
    return number * number;
}

static intptr_t map_and_reduce(void *arg)
{
    (void)arg;
    weft_task *tasks[5];
    intptr_t results[5];
    intptr_t sum = 0;
    for (intptr_t i = 0; i < 5; i++) {
        tasks[i] = go(square_it, (void *)(i + 1));
    }
    CHECK_EQ(weft_await_all(tasks, 5, results), 0);
    for (int i = 0; i < 5; i++) {
        sum += results[i];
    }
    CHECK_EQ(sum, 55);
    return 0;
}

/* behaviour 38 */
static void await_all_computes_a_map_reduce(void)
{
    run_under(EVERYWHERE, map_and_reduce);
}

/* ---- pipelines ------------------------------------------------------------------------------- */

enum { STAGES = 5, ITEMS = 40 };

/* Item i of stage s waits for item i of stage s - 1 and for item i - 1 of stage s. */
struct station {
    weft_task *task;
    struct station *source;
    struct station *earlier;
    int value; /* plain */
};

static intptr_t run_station(void *arg)
{
    struct station *station = arg;
    int value = 0;
    if (station->source != NULL) {
        CHECK_EQ(weft_join(station->source->task, NULL), 0);
        value += station->source->value;
    }
    if (station->earlier != NULL) {
        CHECK_EQ(weft_join(station->earlier->task, NULL), 0);
        value += station->earlier->value;
    }
    station->value = value == 0 ? 1 : value % 10007;
    return 0;
}

static intptr_t run_a_pipeline(void *arg)
{
    (void)arg;
    static struct station stations[STAGES][ITEMS];
    int expected[STAGES][ITEMS];
    for (int s = 0; s < STAGES; s++) {
        for (int i = 0; i < ITEMS; i++) {
            struct station *station = &stations[s][i];
            *station = (struct station){
                .source = s > 0 ? &stations[s - 1][i] : NULL,
                .earlier = i > 0 ? &stations[s][i - 1] : NULL,
            };
            station->task = go(run_station, station);
            int value = (s > 0 ? expected[s - 1][i] : 0) + (i > 0 ? expected[s][i - 1] : 0);
            expected[s][i] = value == 0 ? 1 : value % 10007;
        }
    }
    for (int s = 0; s < STAGES; s++) {
        for (int i = 0; i < ITEMS; i++) {
            CHECK_EQ(weft_join(stations[s][i].task, NULL), 0);
            CHECK_EQ(stations[s][i].value, expected[s][i]);
        }
    }
    for (int i = 0; i < STAGES * ITEMS; i++) {
        weft_task_unref(stations[i / ITEMS][i % ITEMS].task);
    }
    return 0;
}

/* behaviour 38 */
static void join_pipeline_of_five_stages_computes_all_items(void)
{
    run_under(EVERYWHERE, run_a_pipeline);
}

/* ---- many tasks ------------------------------------------------------------------------------ */

static intptr_t count_and_join(void *arg)
{
    void **pair = arg;
    raise_by_one(pair[1]);
    return weft_join(pair[0], NULL);
}

/* Reports the memory of each task: a page of its stack, two cache lines of the task and its share
 * of common memory, as the kernel counts it; an estimate. */
static void suspend_many(size_t count)
{
    wf_atomic_u32 open = {0};
    wf_atomic_u32 begun = {0};
    weft_task *awaited = go(stand_by, &open);
    void *pair[2] = {awaited, &begun};
    weft_task **tasks = calloc(count, sizeof(weft_task *));
    CHECK(tasks != NULL);
    const size_t before = resident_bytes();
    for (size_t i = 0; i < count; i++) {
        tasks[i] = go(count_and_join, (void *)pair);
    }
    wait_for(&begun, (uint32_t)count); /* every task has its stack and has not ended */
    tap_note("%zu tasks: %.0f bytes each", count,
             (double)(resident_bytes() - before) / (double)count);
    CHECK(stats_of(weft_runtime_self()).live >= count);
    CHECK(stats_of(weft_runtime_self()).stacks >= count);
    raise_by_one(&open);
    CHECK_EQ(weft_await_all(tasks, count, NULL), 0);
    CHECK_EQ(weft_await(awaited), 0);
    free((void *)tasks);
}

static intptr_t suspend_live(void *arg)
{
    (void)arg;
    suspend_many(LIVE);
    return 0;
}

/* S2.49, behaviour 37: ten thousand at once (fewer under ThreadSanitizer) */
static void join_suspends_10000_tasks_at_once(void)
{
    const weft_runtime_options options = options_of(&settings[1]);
    CHECK_EQ(weft_run(suspend_live, NULL, &options), 0);
}

static intptr_t suspend_ten_times_live(void *arg)
{
    enum { TASK_BYTES_MAX = 8192 };
    (void)arg;
    const size_t available = (size_t)sysconf(_SC_AVPHYS_PAGES) * wf_page_size();
    if (available < 10 * (size_t)LIVE * TASK_BYTES_MAX) {
        tap_skip("not enough memory");
    }
    suspend_many(10 * (size_t)LIVE);
    return 0;
}

/* behaviour 37; tests/stress/stress_sched.c has a million */
static void join_suspends_100000_tasks_at_once(void)
{
#ifdef WF_SWITCH_SANITIZED
    tap_skip("a sanitizer takes too much memory for each");
#endif
    const weft_runtime_options options = options_of(&settings[1]);
    CHECK_EQ(weft_run(suspend_ten_times_live, NULL, &options), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(await_chain_of_2000_tasks_completes),
    TAP_TEST(join_diamond_sees_writes_of_both_sides),
    TAP_TEST(spawn_tree_computes_fibonacci_with_and_without_cutoff),
    TAP_TEST(await_all_nests_four_levels_deep),
    TAP_TEST(await_all_separates_waves_of_tasks),
    TAP_TEST(scope_computes_a_16_by_16_matrix_product),
    TAP_TEST(await_all_computes_a_map_reduce),
    TAP_TEST(join_pipeline_of_five_stages_computes_all_items),
    TAP_TEST(join_suspends_10000_tasks_at_once),
    TAP_TEST(join_suspends_100000_tasks_at_once),
};
TAP_MAIN(tests)
