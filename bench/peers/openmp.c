/* SPDX-License-Identifier: MIT */
/*
 * The fork-join rows of the benchmarks on OpenMP, as the compiler at hand has it; bench/README.md
 * defines each row.  Forks are tasks, loops have the static schedule that they get by default; the
 * variant openmp-dynamic has pieces of 1000 that threads fetch.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "work.h"

static void check(int is_true, const char *what)
{
    if (!is_true) {
        (void)fprintf(stderr, "openmp: %s\n", what);
        abort();
    }
}

/* ---- forks ---------------------------------------------------------------------------------- */

static long fib(long n)
{
    long first;
    if (n < 2) {
        return n;
    }
#pragma omp task shared(first)
    first = fib(n - 1);
    const long second = fib(n - 2);
#pragma omp taskwait
    return first + second;
}

static uint64_t fib_35(uint64_t ops, unsigned workers)
{
    for (; ops > 0; ops--) {
        long result = 0;
#pragma omp parallel num_threads(workers)
#pragma omp single
        result = fib(FIB_N);
        check(result == FIB_RESULT, "fib(35)");
    }
    return 0;
}

static uint64_t skynet(uint64_t number, uint64_t size)
{
    uint64_t parts[SKYNET_CHILDREN];
    if (size == 1) {
        return number;
    }
    size /= SKYNET_CHILDREN;
    for (uint64_t i = 0; i < SKYNET_CHILDREN - 1; i++) {
#pragma omp task shared(parts)
        parts[i] = skynet(number + i * size, size);
    }
    parts[SKYNET_CHILDREN - 1] = skynet(number + (SKYNET_CHILDREN - 1) * size, size);
#pragma omp taskwait
    uint64_t sum = 0;
    for (int i = 0; i < SKYNET_CHILDREN; i++) {
        sum += parts[i];
    }
    return sum;
}

static uint64_t skynet_of(uint64_t leaves, uint64_t ops, unsigned workers)
{
    for (; ops > 0; ops--) {
        uint64_t sum = 0;
#pragma omp parallel num_threads(workers)
#pragma omp single
        sum = skynet(0, leaves);
        check(sum == skynet_sum(leaves), "the sum of all leaves");
    }
    return 0;
}

static uint64_t skynet_1m(uint64_t ops, unsigned workers)
{
    return skynet_of(1000 * 1000, ops, workers);
}

static uint64_t place(const struct queens *board, int row)
{
    uint64_t parts[QUEENS] = {0};
    if (row == QUEENS) {
        return 1;
    }
    for (int column = 0; column < QUEENS; column++) {
        if (is_safe(board, row, column)) {
            struct queens next = *board;
            next.columns[row] = (uint8_t)column;
#pragma omp task shared(parts) firstprivate(next)
            parts[column] = place(&next, row + 1);
        }
    }
#pragma omp taskwait
    uint64_t sum = 0;
    for (int i = 0; i < QUEENS; i++) {
        sum += parts[i];
    }
    return sum;
}

static uint64_t nqueens(uint64_t ops, unsigned workers)
{
    for (; ops > 0; ops--) {
        const struct queens empty = {{0}};
        uint64_t count = 0;
#pragma omp parallel num_threads(workers)
#pragma omp single
        count = place(&empty, 0);
        check(count == QUEENS_RESULT, "13 queens");
    }
    return 0;
}

/* ---- loops ---------------------------------------------------------------------------------- */

static uint64_t for_sum(uint64_t ops, unsigned workers)
{
    static double *numbers;
    if (numbers == NULL) {
        numbers = numbers_new();
    }
    for (; ops > 0; ops--) {
        double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum) num_threads(workers)
        for (size_t piece = 0; piece < 1000; piece++) {
            sum += sum_range(numbers, piece * (SUM_COUNT / 1000), (piece + 1) * (SUM_COUNT / 1000));
        }
        check(sum == SUM_RESULT, "the sum");
    }
    return 0;
}

static uint64_t for_irregular(uint64_t ops, unsigned workers)
{
    for (; ops > 0; ops--) {
        uint64_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum) num_threads(workers)
        for (size_t i = 0; i < COLLATZ_COUNT; i++) {
            sum += collatz_steps(i + 1);
        }
        check(sum == COLLATZ_RESULT, "the steps");
    }
    return 0;
}

static uint64_t for_irregular_dynamic(uint64_t ops, unsigned workers)
{
    for (; ops > 0; ops--) {
        uint64_t sum = 0;
#pragma omp parallel for schedule(dynamic, 1000) reduction(+ : sum) num_threads(workers)
        for (size_t i = 0; i < COLLATZ_COUNT; i++) {
            sum += collatz_steps(i + 1);
        }
        check(sum == COLLATZ_RESULT, "the steps");
    }
    return 0;
}

static uint64_t for_small(uint64_t ops, unsigned workers)
{
    static uint32_t items[SMALL_COUNT];
    for (; ops > 0; ops--) {
#pragma omp parallel for schedule(static) num_threads(workers)
        for (size_t i = 0; i < SMALL_COUNT; i++) {
            items[i] = items[i] * 2 + 1;
        }
    }
    return 0;
}

static const struct bench_row rows[] = {
    {"fib-35", "openmp", "run", 1, 1, fib_35},
    {"skynet-1m", "openmp", "run", 1, 1, skynet_1m},
    {"nqueens-13", "openmp", "run", 1, 1, nqueens},
    {"for-sum-10m", "openmp", "run", 10, 1, for_sum},
    {"for-irregular-1m", "openmp", "run", 1, 1, for_irregular},
    {"for-irregular-1m", "openmp-dynamic", "run", 1, 1, for_irregular_dynamic},
    {"for-small", "openmp", "loop", 100000, 1, for_small},
};

int main(int argc, char **argv)
{
    const struct bench_suite suite = {
        .rows = rows,
        .row_count = sizeof(rows) / sizeof(rows[0]),
    };
    return bench_answer(argc, argv, &suite);
}
