// SPDX-License-Identifier: MIT
//
// The fork-join rows of the benchmarks on oneTBB; bench/README.md defines each row.

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "bench.h"

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

constexpr int queens = 13;
using Board = std::array<int8_t, queens>;

bool is_safe(const Board &board, int row, int column)
{
    for (int i = 0; i < row; i++) {
        int distance = row - i;
        if (board[i] == column || board[i] + distance == column || board[i] == column + distance) {
            return false;
        }
    }
    return true;
}

uint64_t place(const Board &board, int row)
{
    if (row == queens) {
        return 1;
    }
    std::array<uint64_t, queens> parts{};
    tbb::task_group group;
    for (int column = 0; column < queens; column++) {
        if (is_safe(board, row, column)) {
            Board next = board;
            next[row] = static_cast<int8_t>(column);
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

const bench_row rows[] = {
    {"spawn-join-1000", "tbb", "task", 500000, 1, spawn_join},
    {"spawn-await", "tbb", "task", 500000, 1, spawn_await},
    {"fib-35", "tbb", "run", 1, 1, fib_35},
    {"skynet-1m", "tbb", "run", 1, 1, skynet},
    {"nqueens-13", "tbb", "run", 1, 1, nqueens},
};

} // namespace

int main(int argc, char **argv)
{
    bench_suite suite{};
    suite.rows = rows;
    suite.row_count = sizeof(rows) / sizeof(rows[0]);
    return bench_answer(argc, argv, &suite);
}
