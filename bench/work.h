/* SPDX-License-Identifier: MIT */
/*
 * work.h - the leaves of the fork-join rows, the same for us and for peers in C and C++, so that
 * only the forks differ.
 */
#ifndef BENCH_WORK_H
#define BENCH_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Never inlined, so that the compiler generates the same code for every caller, and aligned within
 * its cache line: 32 bytes off, the loop of collatz_steps takes a fifth longer. */
#define LEAF static __attribute__((noinline, unused, aligned(64)))

#define FIB_N 35
#define FIB_RESULT 9227465
#define SKYNET_CHILDREN 10
#define QUEENS 13
#define QUEENS_RESULT 73712

/* The sum of all leaves of a skynet. */
static inline uint64_t skynet_sum(uint64_t leaves)
{
    return leaves * (leaves - 1) / 2;
}

struct queens {
    uint8_t columns[QUEENS]; /* of the rows that have a queen */
};

LEAF bool is_safe(const struct queens *board, int row, int column)
{
    for (int i = 0; i < row; i++) {
        const int distance = row - i;
        const int other = board->columns[i];
        if (other == column || other + distance == column || other == column + distance) {
            return false;
        }
    }
    return true;
}

/* ---- matrices ------------------------------------------------------------------------------- */

#define MATRIX_SIZE 512
#define MATRIX_LEAF 64

/* A square part of a matrix of MATRIX_SIZE columns. */
LEAF void multiply_leaf(double *c, const double *a, const double *b)
{
    for (int i = 0; i < MATRIX_LEAF; i++) {
        for (int k = 0; k < MATRIX_LEAF; k++) {
            const double factor = a[i * MATRIX_SIZE + k];
            for (int j = 0; j < MATRIX_LEAF; j++) {
                c[i * MATRIX_SIZE + j] += factor * b[k * MATRIX_SIZE + j];
            }
        }
    }
}

struct matrices {
    double *a;
    double *b;
    double *c;
};

static inline struct matrices matrices_new(void)
{
    const size_t count = (size_t)MATRIX_SIZE * MATRIX_SIZE;
    struct matrices m;
    m.a = (double *)calloc(count, sizeof(double));
    m.b = (double *)calloc(count, sizeof(double));
    m.c = (double *)calloc(count, sizeof(double));
    for (size_t i = 0; i < count; i++) {
        m.a[i] = (double)(i % 7);
        m.b[i] = (double)(i % 5);
    }
    return m;
}

/* One element of the product, `times` of which were added up. */
static inline bool matrices_are_right(const struct matrices *m, uint64_t times)
{
    double cell = 0;
    for (int k = 0; k < MATRIX_SIZE; k++) {
        cell += m->a[3 * MATRIX_SIZE + k] * m->b[k * MATRIX_SIZE + 5];
    }
    return m->c[3 * MATRIX_SIZE + 5] == cell * (double)times;
}

/* ---- loops ---------------------------------------------------------------------------------- */

#define SUM_COUNT ((size_t)10 * 1000 * 1000)
#define COLLATZ_COUNT ((size_t)1000 * 1000)
#define COLLATZ_RESULT 131434424u
#define SMALL_COUNT ((size_t)1000)

static inline double *numbers_new(void)
{
    double *numbers = (double *)malloc(SUM_COUNT * sizeof(double));
    for (size_t i = 0; i < SUM_COUNT; i++) {
        numbers[i] = (double)(i % 3);
    }
    return numbers;
}

/* Whole numbers: the order of additions makes no difference. */
LEAF double sum_range(const double *numbers, size_t lo, size_t hi)
{
    double sums[4] = {0, 0, 0, 0}; /* four sums, which a compiler may not derive from one */
    const size_t rest = lo + (hi - lo) / 4 * 4;
    for (size_t i = lo; i < rest; i += 4) {
        for (size_t j = 0; j < 4; j++) {
            sums[j] += numbers[i + j];
        }
    }
    for (size_t i = rest; i < hi; i++) {
        sums[0] += numbers[i];
    }
    return sums[0] + sums[1] + sums[2] + sums[3];
}

#define SUM_RESULT 9999999.0

/* Steps until 1 is reached: irregular, between 0 and 524. */
LEAF uint64_t collatz_steps(uint64_t n)
{
    uint64_t steps = 0;
    for (; n > 1; steps++) {
        n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    }
    return steps;
}

/* ---- sorting -------------------------------------------------------------------------------- */

#define SORT_COUNT ((size_t)10 * 1000 * 1000)

static inline void fill_unsorted(int32_t *items, size_t count)
{
    uint32_t state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        items[i] = (int32_t)(state ^ (state >> 15));
    }
}

static inline bool is_sorted(const int32_t *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (items[i - 1] > items[i]) {
            return false;
        }
    }
    return true;
}

#endif
