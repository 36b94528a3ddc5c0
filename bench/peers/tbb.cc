// SPDX-License-Identifier: MIT
//
// The fork-join rows of the benchmarks on oneTBB; bench/README.md defines each row.

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/parallel_reduce.h>
#include <oneapi/tbb/parallel_sort.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench.h"
#include "work.h"

namespace
{

void check(bool is_true, const char *what)
{
    if (!is_true) {
        std::fprintf(stderr, "tbb: %s\n", what);
        std::abort();
    }
}

// Runs with so many threads; the warm-up starts them, so that this is not measured.
template <class Work> uint64_t on_workers(unsigned workers, Work work)
{
    static tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers);
    static tbb::task_arena arena(static_cast<int>(workers));
    arena.execute(work);
    return 0;
}

uint64_t spawn_join(uint64_t ops, unsigned workers)
{
    return on_workers(workers, [=] {
        for (uint64_t done = 0; done < ops; done += 1000) {
            tbb::task_group group;
            for (int i = 0; i < 1000; i++) {
                group.run([] {});
            }
            group.wait();
        }
    });
}

uint64_t spawn_await(uint64_t ops, unsigned workers)
{
    return on_workers(workers, [=] {
        tbb::task_group group;
        for (uint64_t done = 0; done < ops; done++) {
            group.run([] {});
            group.wait();
        }
    });
}

uint64_t fib(unsigned n)
{
    if (n < 2) {
        return n;
    }
    uint64_t a;
    uint64_t b;
    tbb::parallel_invoke([&] { a = fib(n - 1); }, [&] { b = fib(n - 2); });
    return a + b;
}

uint64_t fib_35(uint64_t ops, unsigned workers)
{
    return on_workers(workers, [=] {
        for (uint64_t done = 0; done < ops; done++) {
            check(fib(35) == 9227465, "fib(35)");
        }
    });
}

uint64_t skynet_node(uint64_t number, uint64_t size)
{
    if (size == 1) {
        return number;
    }
    std::array<uint64_t, 10> parts;
    tbb::task_group group;
    for (uint64_t i = 0; i < 9; i++) {
        group.run([&, i] { parts[i] = skynet_node(number + i * (size / 10), size / 10); });
    }
    parts[9] = skynet_node(number + 9 * (size / 10), size / 10);
    group.wait();
    uint64_t sum = 0;
    for (uint64_t part : parts) {
        sum += part;
    }
    return sum;
}

uint64_t skynet(uint64_t ops, unsigned workers)
{
    return on_workers(workers, [=] {
        for (uint64_t done = 0; done < ops; done++) {
            check(skynet_node(0, 1000000) == 499999500000, "the sum of all leaves");
        }
    });
}

using Board = struct queens;

uint64_t place(const Board &board, int row)
{
    if (row == QUEENS) {
        return 1;
    }
    std::array<uint64_t, QUEENS> parts{};
    tbb::task_group group;
    for (int column = 0; column < QUEENS; column++) {
        if (is_safe(&board, row, column)) {
            Board next = board;
            next.columns[row] = static_cast<uint8_t>(column);
            group.run([&parts, next, row, column] { parts[column] = place(next, row + 1); });
        }
    }
    group.wait();
    uint64_t sum = 0;
    for (uint64_t part : parts) {
        sum += part;
    }
    return sum;
}

uint64_t nqueens(uint64_t ops, unsigned workers)
{
    return on_workers(workers, [=] {
        for (uint64_t done = 0; done < ops; done++) {
            check(place(Board{}, 0) == 73712, "13 queens");
        }
    });
}

uint64_t skynet_10m(uint64_t ops, unsigned workers)
{
    return on_workers(workers, [=] {
        for (uint64_t done = 0; done < ops; done++) {
            check(skynet_node(0, 10000000) == skynet_sum(10000000), "the sum of all leaves");
        }
    });
}

// Four parts of the result beside each other, twice.
void multiply(double *c, const double *a, const double *b, int size)
{
    if (size == MATRIX_LEAF) {
        multiply_leaf(c, a, b);
        return;
    }
    const int half = size / 2;
    const auto part = [=](int row, int column, int k) {
        multiply(c + (row * MATRIX_SIZE + column) * half, a + (row * MATRIX_SIZE + k) * half,
                 b + (k * MATRIX_SIZE + column) * half, half);
    };
    for (int k = 0; k < 2; k++) {
        tbb::parallel_invoke([=] { part(0, 0, k); }, [=] { part(0, 1, k); },
                             [=] { part(1, 0, k); }, [=] { part(1, 1, k); });
    }
}

uint64_t matmul(uint64_t ops, unsigned workers)
{
    static const matrices m = matrices_new();
    static uint64_t times = 0;
    on_workers(workers, [=] {
        for (uint64_t done = 0; done < ops; done++) {
            multiply(m.c, m.a, m.b, MATRIX_SIZE);
        }
    });
    times += ops;
    check(matrices_are_right(&m, times), "the product");
    return 0;
}

using Range = tbb::blocked_range<size_t>;

uint64_t for_sum(uint64_t ops, unsigned workers)
{
    static const double *numbers = numbers_new();
    return on_workers(workers, [=] {
        for (uint64_t done = 0; done < ops; done++) {
            const double sum = tbb::parallel_reduce(
                Range(0, SUM_COUNT), 0.0,
                [](const Range &range, double value) {
                    return value + sum_range(numbers, range.begin(), range.end());
                },
                [](double left, double right) { return left + right; });
            check(sum == SUM_RESULT, "the sum");
        }
    });
}

uint64_t for_irregular(uint64_t ops, unsigned workers)
{
    return on_workers(workers, [=] {
        for (uint64_t done = 0; done < ops; done++) {
            const uint64_t sum = tbb::parallel_reduce(
                Range(0, COLLATZ_COUNT), uint64_t{0},
                [](const Range &range, uint64_t value) {
                    for (size_t i = range.begin(); i < range.end(); i++) {
                        value += collatz_steps(i + 1);
                    }
                    return value;
                },
                [](uint64_t left, uint64_t right) { return left + right; });
            check(sum == COLLATZ_RESULT, "the steps");
        }
    });
}

uint64_t for_small(uint64_t ops, unsigned workers)
{
    static uint32_t items[SMALL_COUNT];
    return on_workers(workers, [=] {
        for (uint64_t done = 0; done < ops; done++) {
            tbb::parallel_for(Range(0, SMALL_COUNT), [](const Range &range) {
                for (size_t i = range.begin(); i < range.end(); i++) {
                    items[i] = items[i] * 2 + 1;
                }
            });
        }
    });
}

// Its comparison is part of the code of the sort, where ours and qsort's are called.
uint64_t sort_10m(uint64_t ops, unsigned workers)
{
    static std::vector<int32_t> items(SORT_COUNT);
    uint64_t ns = 0;
    for (; ops > 0; ops--) {
        fill_unsorted(items.data(), SORT_COUNT);
        const uint64_t start_ns = bench_now_ns();
        on_workers(workers, [] { tbb::parallel_sort(items.begin(), items.end()); });
        ns += bench_now_ns() - start_ns;
        check(is_sorted(items.data(), SORT_COUNT), "sorted");
    }
    return ns;
}

const bench_row rows[] = {
    {"spawn-join-1000", "tbb", "task", 500000, 1, spawn_join},
    {"spawn-await", "tbb", "task", 500000, 1, spawn_await},
    {"fib-35", "tbb", "run", 1, 1, fib_35},
    {"skynet-1m", "tbb", "run", 1, 1, skynet},
    {"skynet-10m", "tbb", "run", 1, 1, skynet_10m},
    {"nqueens-13", "tbb", "run", 1, 1, nqueens},
    {"matmul-512", "tbb", "run", 2, 1, matmul},
    {"for-sum-10m", "tbb", "run", 10, 1, for_sum},
    {"for-irregular-1m", "tbb", "run", 1, 1, for_irregular},
    {"for-small", "tbb", "loop", 100000, 1, for_small},
    {"sort-10m", "tbb", "run", 1, 1, sort_10m},
};

} // namespace

int main(int argc, char **argv)
{
    bench_suite suite{};
    suite.rows = rows;
    suite.row_count = sizeof(rows) / sizeof(rows[0]);
    return bench_answer(argc, argv, &suite);
}
