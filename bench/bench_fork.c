/* SPDX-License-Identifier: MIT */
/*
 * bench_fork.c - the cost of forks, and of the loops and sorts built on them.
 *
 * The variant `serial` is the same recursion or loop with plain calls, `weft` has forks through the
 * plain functions and `weft-typed` those of weft/par_fork_typed.h.  `apart` is `serial` in as many
 * threads as there are workers, each with all of the work for itself: what that many CPUs can do if
 * nothing is shared.  Leaves are in work.h, which peers share.  The warm-up opens the runtime,
 * which stays open.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <weft/par_fork_typed.h>
#include <weft/weft.h>

#include "base/base.h"
#include "bench.h"
#include "work.h"

enum {
    SETTLE_NS = 100 * 1000 * 1000,  /* until all workers are parked */
    IDLE_OP_NS = 100 * 1000 * 1000, /* one operation of doing nothing */
};

static weft_runtime *runtime;

/* Runs fn(arg) as a task, `ops` times. */
static uint64_t run_tasks(weft_fn fn, void *arg, uint64_t ops, unsigned workers)
{
    const weft_runtime_options options = {.workers = workers};
    if (runtime == NULL) {
        WEFT_CHECK(weft_runtime_open(&runtime, &options) == 0);
    }
    for (; ops > 0; ops--) {
        weft_task *task;
        WEFT_CHECK(weft_runtime_spawn(runtime, &task, fn, arg, NULL) == 0);
        WEFT_CHECK(weft_await(task) == 0);
    }
    return 0;
}

enum { THREADS_MAX = 64 };

/* The work of one of several threads. */
struct lot {
    weft_fn fn;
    void *arg;
    uint64_t ops;
};

static void *do_lot(void *arg)
{
    const struct lot *lot = arg;
    for (uint64_t i = 0; i < lot->ops; i++) {
        WEFT_CHECK(lot->fn(lot->arg) == 0);
    }
    return NULL;
}

/* Runs all lots at once; returns the time divided by their number. */
static uint64_t run_apart(struct lot *lots, unsigned count)
{
    pthread_t threads[THREADS_MAX];
    WEFT_CHECK(count > 0 && count <= THREADS_MAX);
    const uint64_t start_ns = bench_now_ns();
    for (unsigned i = 0; i < count; i++) {
        WEFT_CHECK(pthread_create(&threads[i], NULL, do_lot, &lots[i]) == 0);
    }
    for (unsigned i = 0; i < count; i++) {
        WEFT_CHECK(pthread_join(threads[i], NULL) == 0);
    }
    return (bench_now_ns() - start_ns) / count;
}

static void *need(void *memory)
{
    WEFT_CHECK(memory != NULL);
    return memory;
}

/* ---- fib ------------------------------------------------------------------------------------- */

static __attribute__((noinline)) long fib_serial(long n)
{
    return n < 2 ? n : fib_serial(n - 1) + fib_serial(n - 2);
}

static intptr_t fib(void *arg)
{
    const intptr_t n = (intptr_t)arg;
    if (n < 2) {
        return n;
    }
    weft_par_fork first;
    weft_par_fork_go(&first, fib, (void *)(n - 1));
    const intptr_t second = fib((void *)(n - 2));
    return weft_par_fork_join(&first) + second;
}

static long fib_typed(weft_par_forks *forks, long n);
WEFT_PAR_FORK_1(long, fib_typed, long)

static long fib_typed(weft_par_forks *forks, long n)
{
    if (n < 2) {
        return n;
    }
    struct fib_typed_fork first;
    fib_typed_go(forks, &first, n - 1);
    const long second = fib_typed(forks, n - 2);
    return fib_typed_join(forks, &first) + second;
}

static intptr_t fib_task(void *arg)
{
    (void)arg;
    return fib((void *)FIB_N) == FIB_RESULT ? 0 : -1;
}

static intptr_t fib_typed_task(void *arg)
{
    (void)arg;
    return fib_typed(weft_par_forks_self(), FIB_N) == FIB_RESULT ? 0 : -1;
}

static intptr_t fib_serial_task(void *arg)
{
    (void)arg;
    return fib_serial(FIB_N) == FIB_RESULT ? 0 : -1;
}

static uint64_t fib_35(uint64_t ops, unsigned workers)
{
    return run_tasks(fib_task, NULL, ops, workers);
}

static uint64_t fib_35_typed(uint64_t ops, unsigned workers)
{
    return run_tasks(fib_typed_task, NULL, ops, workers);
}

static uint64_t fib_35_serial(uint64_t ops, unsigned workers)
{
    return run_tasks(fib_serial_task, NULL, ops, workers);
}

/* ---- skynet ---------------------------------------------------------------------------------- */

struct node {
    uint64_t number;
    uint64_t size;
};

static __attribute__((noinline)) uint64_t skynet_serial(uint64_t number, uint64_t size)
{
    uint64_t sum = 0;
    if (size == 1) {
        return number;
    }
    for (uint64_t i = 0; i < SKYNET_CHILDREN; i++) {
        sum += skynet_serial(number + i * (size / SKYNET_CHILDREN), size / SKYNET_CHILDREN);
    }
    return sum;
}

static intptr_t skynet(void *arg)
{
    const struct node *node = arg;
    if (node->size == 1) {
        return (intptr_t)node->number;
    }
    struct node children[SKYNET_CHILDREN];
    weft_par_fork forks[SKYNET_CHILDREN - 1];
    const uint64_t size = node->size / SKYNET_CHILDREN;
    for (uint64_t i = 0; i < SKYNET_CHILDREN - 1; i++) {
        children[i] = (struct node){node->number + i * size, size};
        weft_par_fork_go(&forks[i], skynet, &children[i]);
    }
    children[SKYNET_CHILDREN - 1] =
        (struct node){node->number + (SKYNET_CHILDREN - 1) * size, size};
    intptr_t sum = skynet(&children[SKYNET_CHILDREN - 1]);
    for (int i = SKYNET_CHILDREN - 1; i-- > 0;) {
        sum += weft_par_fork_join(&forks[i]);
    }
    return sum;
}

static uint64_t skynet_typed(weft_par_forks *forks, uint64_t number, uint64_t size);
WEFT_PAR_FORK_2(uint64_t, skynet_typed, uint64_t, uint64_t)

static uint64_t skynet_typed(weft_par_forks *forks, uint64_t number, uint64_t size)
{
    if (size == 1) {
        return number;
    }
    struct skynet_typed_fork children[SKYNET_CHILDREN - 1];
    size /= SKYNET_CHILDREN;
    for (uint64_t i = 0; i < SKYNET_CHILDREN - 1; i++) {
        skynet_typed_go(forks, &children[i], number + i * size, size);
    }
    uint64_t sum = skynet_typed(forks, number + (SKYNET_CHILDREN - 1) * size, size);
    for (int i = SKYNET_CHILDREN - 1; i-- > 0;) {
        sum += skynet_typed_join(forks, &children[i]);
    }
    return sum;
}

static intptr_t skynet_task(void *arg)
{
    struct node root = {0, *(const uint64_t *)arg};
    return (uint64_t)skynet(&root) == skynet_sum(root.size) ? 0 : -1;
}

static intptr_t skynet_typed_task(void *arg)
{
    const uint64_t leaves = *(const uint64_t *)arg;
    return skynet_typed(weft_par_forks_self(), 0, leaves) == skynet_sum(leaves) ? 0 : -1;
}

static intptr_t skynet_serial_task(void *arg)
{
    const uint64_t leaves = *(const uint64_t *)arg;
    return skynet_serial(0, leaves) == skynet_sum(leaves) ? 0 : -1;
}

static uint64_t one_million = 1000 * 1000;
static uint64_t ten_million = 10 * 1000 * 1000;

static uint64_t skynet_1m(uint64_t ops, unsigned workers)
{
    return run_tasks(skynet_task, &one_million, ops, workers);
}

static uint64_t skynet_1m_typed(uint64_t ops, unsigned workers)
{
    return run_tasks(skynet_typed_task, &one_million, ops, workers);
}

static uint64_t skynet_1m_serial(uint64_t ops, unsigned workers)
{
    return run_tasks(skynet_serial_task, &one_million, ops, workers);
}

static uint64_t skynet_10m(uint64_t ops, unsigned workers)
{
    return run_tasks(skynet_task, &ten_million, ops, workers);
}

static uint64_t skynet_10m_typed(uint64_t ops, unsigned workers)
{
    return run_tasks(skynet_typed_task, &ten_million, ops, workers);
}

static uint64_t skynet_10m_serial(uint64_t ops, unsigned workers)
{
    return run_tasks(skynet_serial_task, &ten_million, ops, workers);
}

/* ---- queens ---------------------------------------------------------------------------------- */

struct placement {
    struct queens board;
    int row;
};

static __attribute__((noinline)) uint64_t place_serial(const struct queens *board, int row)
{
    uint64_t count = 0;
    if (row == QUEENS) {
        return 1;
    }
    for (int column = 0; column < QUEENS; column++) {
        if (is_safe(board, row, column)) {
            struct queens next = *board;
            next.columns[row] = (uint8_t)column;
            count += place_serial(&next, row + 1);
        }
    }
    return count;
}

static intptr_t place(void *arg)
{
    const struct placement *placement = arg;
    const int row = placement->row;
    if (row == QUEENS) {
        return 1;
    }
    struct placement next[QUEENS];
    weft_par_fork forks[QUEENS];
    int count = 0;
    for (int column = 0; column < QUEENS; column++) {
        if (is_safe(&placement->board, row, column)) {
            next[count] = (struct placement){placement->board, row + 1};
            next[count].board.columns[row] = (uint8_t)column;
            weft_par_fork_go(&forks[count], place, &next[count]);
            count++;
        }
    }
    intptr_t sum = 0;
    while (count-- > 0) {
        sum += weft_par_fork_join(&forks[count]);
    }
    return sum;
}

static intptr_t queens_task(void *arg)
{
    (void)arg;
    struct placement empty = {.row = 0};
    return place(&empty) == QUEENS_RESULT ? 0 : -1;
}

static intptr_t queens_serial_task(void *arg)
{
    (void)arg;
    const struct queens empty = {{0}};
    return place_serial(&empty, 0) == QUEENS_RESULT ? 0 : -1;
}

static uint64_t queens_13(uint64_t ops, unsigned workers)
{
    return run_tasks(queens_task, NULL, ops, workers);
}

static uint64_t queens_13_serial(uint64_t ops, unsigned workers)
{
    return run_tasks(queens_serial_task, NULL, ops, workers);
}

static uint64_t queens_13_apart(uint64_t ops, unsigned workers)
{
    struct lot lots[THREADS_MAX];
    WEFT_CHECK(workers <= THREADS_MAX);
    for (unsigned i = 0; i < workers; i++) {
        lots[i] = (struct lot){.fn = queens_serial_task, .ops = ops};
    }
    return run_apart(lots, workers);
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* c += a * b, for `size` rows and columns. */
struct product {
    double *c;
    const double *a;
    const double *b;
    int size;
};

static struct product part_of(const struct product *whole, int row, int column, int k)
{
    const int half = whole->size / 2;
    return (struct product){
        whole->c + (row * MATRIX_SIZE + column) * half,
        whole->a + (row * MATRIX_SIZE + k) * half,
        whole->b + (k * MATRIX_SIZE + column) * half,
        half,
    };
}

static void multiply_serial(const struct product *product)
{
    if (product->size == MATRIX_LEAF) {
        multiply_leaf(product->c, product->a, product->b);
        return;
    }
    for (int i = 0; i < 8; i++) {
        const struct product part = part_of(product, i / 2 % 2, i % 2, i / 4);
        multiply_serial(&part);
    }
}

/* Four parts of the result in parallel, twice. */
static intptr_t multiply(void *arg)
{
    const struct product *product = arg;
    if (product->size == MATRIX_LEAF) {
        multiply_leaf(product->c, product->a, product->b);
        return 0;
    }
    for (int k = 0; k < 2; k++) {
        struct product parts[4];
        weft_par_fork forks[4];
        for (int i = 0; i < 4; i++) {
            parts[i] = part_of(product, i / 2, i % 2, k);
            weft_par_fork_go(&forks[i], multiply, &parts[i]);
        }
        for (int i = 4; i-- > 0;) {
            (void)weft_par_fork_join(&forks[i]);
        }
    }
    return 0;
}

static struct matrices matrices;

static intptr_t multiply_task(void *arg)
{
    (void)arg;
    struct product all = {matrices.c, matrices.a, matrices.b, MATRIX_SIZE};
    return multiply(&all);
}

static intptr_t multiply_serial_task(void *arg)
{
    (void)arg;
    const struct product all = {matrices.c, matrices.a, matrices.b, MATRIX_SIZE};
    multiply_serial(&all);
    return 0;
}

static uint64_t multiply_by(weft_fn fn, uint64_t ops, unsigned workers)
{
    static uint64_t times;
    if (matrices.a == NULL) {
        matrices = matrices_new();
    }
    (void)run_tasks(fn, NULL, ops, workers);
    times += ops;
    WEFT_CHECK(matrices_are_right(&matrices, times));
    return 0;
}

static uint64_t matmul(uint64_t ops, unsigned workers)
{
    return multiply_by(multiply_task, ops, workers);
}

static uint64_t matmul_serial(uint64_t ops, unsigned workers)
{
    return multiply_by(multiply_serial_task, ops, workers);
}

static intptr_t multiply_own_task(void *arg)
{
    const struct matrices *own = arg;
    const struct product all = {own->c, own->a, own->b, MATRIX_SIZE};
    multiply_serial(&all);
    return 0;
}

static uint64_t matmul_apart(uint64_t ops, unsigned workers)
{
    static struct matrices own[THREADS_MAX];
    static uint64_t times;
    struct lot lots[THREADS_MAX];
    WEFT_CHECK(workers <= THREADS_MAX);
    for (unsigned i = 0; i < workers; i++) {
        own[i] = own[i].a == NULL ? matrices_new() : own[i];
        lots[i] = (struct lot){.fn = multiply_own_task, .arg = &own[i], .ops = ops};
    }
    const uint64_t took_ns = run_apart(lots, workers);
    times += ops;
    for (unsigned i = 0; i < workers; i++) {
        WEFT_CHECK(matrices_are_right(&own[i], times));
    }
    return took_ns;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static const double *numbers;

static void add_numbers(size_t lo, size_t hi, void *value, void *arg)
{
    double *sum = value;
    (void)arg;
    *sum += sum_range(numbers, lo, hi);
}

static void add_sums(void *value, const void *right, void *arg)
{
    double *sum = value;
    (void)arg;
    *sum += *(const double *)right;
}

static intptr_t sum_task(void *arg)
{
    const weft_par_reducer reducer = {
        .size = sizeof(double), .body = add_numbers, .combine = add_sums};
    double sum;
    (void)arg;
    WEFT_CHECK(weft_par_reduce(&sum, 0, SUM_COUNT, 0, &reducer) == 0);
    return sum == SUM_RESULT ? 0 : -1;
}

static intptr_t sum_serial_task(void *arg)
{
    (void)arg;
    return sum_range(numbers, 0, SUM_COUNT) == SUM_RESULT ? 0 : -1;
}

static uint64_t sum_by(weft_fn fn, uint64_t ops, unsigned workers)
{
    if (numbers == NULL) {
        numbers = numbers_new();
    }
    return run_tasks(fn, NULL, ops, workers);
}

static uint64_t for_sum(uint64_t ops, unsigned workers)
{
    return sum_by(sum_task, ops, workers);
}

static uint64_t for_sum_serial(uint64_t ops, unsigned workers)
{
    return sum_by(sum_serial_task, ops, workers);
}

static void add_steps(size_t lo, size_t hi, void *value, void *arg)
{
    uint64_t sum = 0;
    (void)arg;
    for (size_t i = lo; i < hi; i++) {
        sum += collatz_steps(i + 1);
    }
    *(uint64_t *)value += sum;
}

static void add_counts(void *value, const void *right, void *arg)
{
    uint64_t *sum = value;
    (void)arg;
    *sum += *(const uint64_t *)right;
}

static intptr_t steps_task(void *arg)
{
    const weft_par_reducer reducer = {
        .size = sizeof(uint64_t), .body = add_steps, .combine = add_counts};
    uint64_t sum;
    (void)arg;
    WEFT_CHECK(weft_par_reduce(&sum, 0, COLLATZ_COUNT, 0, &reducer) == 0);
    return sum == COLLATZ_RESULT ? 0 : -1;
}

static intptr_t steps_serial_task(void *arg)
{
    uint64_t sum = 0;
    add_steps(0, COLLATZ_COUNT, &sum, arg);
    return sum == COLLATZ_RESULT ? 0 : -1;
}

static uint64_t for_irregular(uint64_t ops, unsigned workers)
{
    return run_tasks(steps_task, NULL, ops, workers);
}

static uint64_t for_irregular_serial(uint64_t ops, unsigned workers)
{
    return run_tasks(steps_serial_task, NULL, ops, workers);
}

static void double_each(size_t lo, size_t hi, void *arg)
{
    uint32_t *items = arg;
    for (size_t i = lo; i < hi; i++) {
        items[i] = items[i] * 2 + 1;
    }
}

struct small {
    uint64_t times;
    bool is_serial;
};

static intptr_t small_loops_task(void *arg)
{
    static uint32_t items[SMALL_COUNT];
    const struct small *small = arg;
    for (uint64_t i = 0; i < small->times; i++) {
        if (small->is_serial) {
            double_each(0, SMALL_COUNT, items);
        } else {
            WEFT_CHECK(weft_par_for(0, SMALL_COUNT, 0, double_each, items) == 0);
        }
        __asm__ volatile("" ::: "memory"); /* keeps the compiler from skipping one */
    }
    return 0;
}

static uint64_t for_small(uint64_t ops, unsigned workers)
{
    struct small small = {ops, false};
    return run_tasks(small_loops_task, &small, 1, workers);
}

static uint64_t for_small_serial(uint64_t ops, unsigned workers)
{
    struct small small = {ops, true};
    return run_tasks(small_loops_task, &small, 1, workers);
}

/* ---- sorting --------------------------------------------------------------------------------- */

static int32_t *items;

static int compare_i32(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a;
    const int32_t y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int compare_i32_with(const void *a, const void *b, void *arg)
{
    (void)arg;
    return compare_i32(a, b);
}

static intptr_t sort_task(void *arg)
{
    (void)arg;
    return weft_par_sort(items, SORT_COUNT, sizeof(items[0]), compare_i32_with, NULL);
}

static intptr_t qsort_task(void *arg)
{
    (void)arg;
    qsort(items, SORT_COUNT, sizeof(items[0]), compare_i32);
    return 0;
}

/* Measures the time itself: filling the array does not count. */
static uint64_t sort_by(weft_fn fn, uint64_t ops, unsigned workers)
{
    uint64_t ns = 0;
    if (items == NULL) {
        items = need(malloc(SORT_COUNT * sizeof(items[0])));
    }
    for (; ops > 0; ops--) {
        fill_unsorted(items, SORT_COUNT);
        const uint64_t start_ns = bench_now_ns();
        (void)run_tasks(fn, NULL, 1, workers);
        ns += bench_now_ns() - start_ns;
        WEFT_CHECK(is_sorted(items, SORT_COUNT));
    }
    return ns;
}

static uint64_t sort_10m(uint64_t ops, unsigned workers)
{
    return sort_by(sort_task, ops, workers);
}

static uint64_t sort_10m_qsort(uint64_t ops, unsigned workers)
{
    return sort_by(qsort_task, ops, workers);
}

/* ---- doing nothing --------------------------------------------------------------------------- */

static void sleep_ns(uint64_t ns)
{
    const struct timespec span = {.tv_sec = (time_t)(ns / 1000000000),
                                  .tv_nsec = (long)(ns % 1000000000)};
    WEFT_CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL) == 0);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    WEFT_CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* After forks were stolen; the time is CPU time. */
static uint64_t idle(uint64_t ops, unsigned workers)
{
    (void)run_tasks(fib_task, NULL, 1, workers);
    sleep_ns(SETTLE_NS);
    const uint64_t start_ns = cpu_ns();
    sleep_ns(ops * IDLE_OP_NS);
    return cpu_ns() - start_ns;
}

static const struct bench_row rows[] = {
    {"fib-35", "weft", "run", 2, 1, fib_35},
    {"fib-35", "weft-typed", "run", 2, 1, fib_35_typed},
    {"fib-35", "serial", "run", 2, 1, fib_35_serial},
    {"skynet-1m", "weft", "run", 20, 1, skynet_1m},
    {"skynet-1m", "weft-typed", "run", 20, 1, skynet_1m_typed},
    {"skynet-1m", "serial", "run", 20, 1, skynet_1m_serial},
    {"skynet-10m", "weft", "run", 2, 1, skynet_10m},
    {"skynet-10m", "weft-typed", "run", 2, 1, skynet_10m_typed},
    {"skynet-10m", "serial", "run", 2, 1, skynet_10m_serial},
    {"nqueens-13", "weft", "run", 1, 1, queens_13},
    {"nqueens-13", "serial", "run", 1, 1, queens_13_serial},
    {"nqueens-13", "apart", "run", 1, 1, queens_13_apart},
    {"matmul-512", "weft", "run", 2, 1, matmul},
    {"matmul-512", "serial", "run", 2, 1, matmul_serial},
    {"matmul-512", "apart", "run", 2, 1, matmul_apart},
    {"for-sum-10m", "weft", "run", 10, 1, for_sum},
    {"for-sum-10m", "serial", "run", 10, 1, for_sum_serial},
    {"for-irregular-1m", "weft", "run", 1, 1, for_irregular},
    {"for-irregular-1m", "serial", "run", 1, 1, for_irregular_serial},
    {"for-small", "weft", "loop", 100000, 1, for_small},
    {"for-small", "serial", "loop", 100000, 1, for_small_serial},
    {"sort-10m", "weft", "run", 1, 1, sort_10m},
    {"sort-10m", "qsort", "run", 1, 1, sort_10m_qsort},
    {"fork-idle-5s", "weft", "100 ms", 50, 1, idle},
};

/* Goals in milliseconds are given here as ratios to a peer that was measured at the same time;
 * Lace, which the goals name, is not among the peers. */
static const struct bench_goal goals[] = {
    {"fib-35", "weft", "tbb", 0.0386, false, 1, false},
    {"fib-35", "weft", "tbb", 0.0379, false, 2, false},
    {"fib-35", "weft-typed", "tbb", 0.0223, false, 1, false},
    {"fib-35", "weft-typed", "tbb", 0.0224, false, 2, false},
    {"skynet-1m", "weft", "tbb", 0.080, false, 1, false},
    {"skynet-1m", "weft", "tbb", 0.079, false, 2, false},
    {"skynet-10m", "weft", "tbb", 0.077, false, 1, false},
    {"skynet-10m", "weft", "tbb", 0.078, false, 2, false},
    {"nqueens-13", "weft", "serial", 1.06, false, 1, false},
    {"nqueens-13", "weft", "serial", 0.513, false, 2, false},
    {"nqueens-13", "weft", "apart", 1.06, false, 2, false},
    {"matmul-512", "weft", "serial", 1.06, false, 1, false},
    {"matmul-512", "weft", "serial", 0.513, false, 2, false},
    {"matmul-512", "weft", "apart", 1.06, false, 2, false},
    {"for-sum-10m", "weft", "openmp", 1.0, false, 2, false},
    {"for-sum-10m", "weft", "tbb", 1.0, false, 2, false},
    {"for-irregular-1m", "weft", "openmp", 1.0, false, 2, false},
    {"for-irregular-1m", "weft", "tbb", 1.0, false, 2, false},
    {"sort-10m", "weft", "qsort", 1.0, false, 1, false},
    {"sort-10m", "weft", "tbb", 1.0, false, 2, false},
};

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {
        .title = "Fork-join",
        .base = "weft",
        .rows = rows,
        .row_count = sizeof(rows) / sizeof(rows[0]),
        .goals = goals,
        .goal_count = sizeof(goals) / sizeof(goals[0]),
    };
    return bench_main(argc, argv, &suite);
}
