// SPDX-License-Identifier: MIT
//
// The rows of the benchmarks on Boost.Fiber; bench/README.md defines each row.  One worker is the
// plain scheduler of one thread, several are its work-stealing one with idle threads asleep, which
// is the fastest here of those it has.

#include <boost/fiber/all.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <memory>
#include <thread>
#include <vector>

#include "bench.h"

namespace
{

namespace bf = boost::fibers;

void check(bool is_true, const char *what)
{
    if (!is_true) {
        std::fprintf(stderr, "fiber: %s\n", what);
        std::abort();
    }
}

// Starts the other threads once, in the warm-up.  They help until the process ends, which they are
// not told: Boost has no way to take a thread out of the group while others run.
void use_workers(unsigned workers)
{
    static bool is_started = false;
    if (is_started || workers < 2) {
        return;
    }
    is_started = true;
    for (unsigned i = 1; i < workers; i++) {
        std::thread([workers] {
            bf::use_scheduling_algorithm<bf::algo::work_stealing>(workers, true);
            bf::mutex mutex;
            bf::condition_variable never;
            std::unique_lock<bf::mutex> lock(mutex);
            never.wait(lock, [] { return false; });
        }).detach();
    }
    bf::use_scheduling_algorithm<bf::algo::work_stealing>(workers, true);
}

// Stacks from malloc, which main() tells to keep them: else most of a spawn is page faults.
template <class Task> bf::fiber start(Task task)
{
    return bf::fiber(std::allocator_arg, bf::fixedsize_stack(32 * 1024), std::move(task));
}

template <class Task> void together(uint64_t count, Task task)
{
    std::vector<bf::fiber> fibers;
    for (uint64_t i = 0; i < count; i++) {
        fibers.push_back(start([&task, i] { task(i); }));
    }
    for (bf::fiber &fiber : fibers) {
        fiber.join();
    }
}

uint64_t spawn_join(uint64_t ops, unsigned workers)
{
    use_workers(workers);
    for (uint64_t done = 0; done < ops; done += 1000) {
        together(1000, [](uint64_t) {});
    }
    return 0;
}

uint64_t spawn_await(uint64_t ops, unsigned workers)
{
    use_workers(workers);
    for (uint64_t done = 0; done < ops; done++) {
        start([] {}).join();
    }
    return 0;
}

template <uint64_t Tasks> uint64_t yield(uint64_t ops, unsigned workers)
{
    use_workers(workers);
    together(Tasks, [=](uint64_t) {
        for (uint64_t i = 0; i < ops / Tasks; i++) {
            boost::this_fiber::yield();
        }
    });
    return 0;
}

uint64_t ping_pong(uint64_t ops, unsigned workers)
{
    use_workers(workers);
    bf::unbuffered_channel<uint64_t> ping;
    bf::unbuffered_channel<uint64_t> pong;
    bf::fiber other = start([&] {
        for (uint64_t value : ping) {
            pong.push(value + 1);
        }
    });
    uint64_t value = 0;
    for (uint64_t i = 0; i < ops; i++) {
        ping.push(value);
        value = pong.value_pop();
    }
    ping.close();
    other.join();
    check(value == ops, "every ping has its pong");
    return 0;
}

template <uint64_t Pairs> uint64_t channel(uint64_t ops, unsigned workers)
{
    use_workers(workers);
    bf::buffered_channel<uint64_t> items(128);
    std::atomic<uint64_t> producers(Pairs);
    std::atomic<uint64_t> total(0);
    together(2 * Pairs, [&](uint64_t number) {
        if (number < Pairs) {
            for (uint64_t i = 0; i < ops / Pairs; i++) {
                items.push(1);
            }
            if (--producers == 0) {
                items.close();
            }
            return;
        }
        uint64_t sum = 0;
        for (uint64_t item : items) {
            sum += item;
        }
        total += sum;
    });
    check(total == ops / Pairs * Pairs, "every item arrives");
    return 0;
}

// The token counts hops down; at 0 each passes the end on by closing the next channel.
uint64_t ring(uint64_t ops, unsigned workers)
{
    constexpr uint64_t tasks = 503;
    use_workers(workers);
    std::vector<bf::unbuffered_channel<uint64_t>> channels(tasks);
    bf::fiber first = start([&] { channels[0].push(ops); });
    together(tasks, [&](uint64_t number) {
        bf::unbuffered_channel<uint64_t> &to = channels[(number + 1) % tasks];
        for (uint64_t token : channels[number]) {
            if (token == 0) {
                break;
            }
            to.push(token - 1);
        }
        to.close();
    });
    first.join();
    return 0;
}

uint64_t sieve(uint64_t ops, unsigned workers)
{
    using Channel = bf::unbuffered_channel<int>;
    use_workers(workers);
    for (uint64_t done = 0; done < ops; done++) {
        std::vector<bf::fiber> fibers;
        auto in = std::make_shared<Channel>();
        fibers.push_back(start([in] {
            for (int n = 2; n <= 17389; n++) {
                in->push(n);
            }
            in->close();
        }));
        int found = 0;
        int prime;
        int last = 0;
        while (in->pop(prime) == bf::channel_op_status::success) {
            found++;
            last = prime;
            auto out = std::make_shared<Channel>();
            fibers.push_back(start([in, out, prime] {
                for (int n : *in) {
                    if (n % prime != 0) {
                        out->push(n);
                    }
                }
                out->close();
            }));
            in = out;
        }
        for (bf::fiber &fiber : fibers) {
            fiber.join();
        }
        check(found == 2000 && last == 17389, "2000 primes");
    }
    return 0;
}

template <uint64_t Tasks> uint64_t mutex(uint64_t ops, unsigned workers)
{
    use_workers(workers);
    bf::mutex lock;
    uint64_t counter = 0;
    together(Tasks, [&](uint64_t) {
        for (uint64_t i = 0; i < ops / Tasks; i++) {
            std::lock_guard<bf::mutex> guard(lock);
            counter++;
        }
    });
    check(counter == ops / Tasks * Tasks, "no increment is lost");
    return 0;
}

const bench_row rows[] = {
    {"spawn-join-1000", "boost-fiber", "task", 100000, 1, spawn_join},
    {"spawn-await", "boost-fiber", "task", 100000, 1, spawn_await},
    {"yield-2", "boost-fiber", "switch", 500000, 1, yield<2>},
    {"yield-1000", "boost-fiber", "switch", 500000, 1, yield<1000>},
    {"ping-pong", "boost-fiber", "round trip", 200000, 1, ping_pong},
    {"chan-1p1c", "boost-fiber", "item", 1000000, 1, channel<1>},
    {"chan-4p4c", "boost-fiber", "item", 1000000, 1, channel<4>},
    {"ring-503", "boost-fiber", "hop", 500000, 1, ring},
    {"sieve-2000", "boost-fiber", "run", 1, 1, sieve},
    {"mutex-1", "boost-fiber", "lock", 1000000, 1, mutex<1>},
    {"mutex-4", "boost-fiber", "lock", 1000000, 1, mutex<4>},
    {"mutex-64", "boost-fiber", "lock", 1000000, 1, mutex<64>},
};

} // namespace

int main(int argc, char **argv)
{
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    bench_suite suite{};
    suite.rows = rows;
    suite.row_count = sizeof(rows) / sizeof(rows[0]);
    int status = bench_answer(argc, argv, &suite);
    std::fflush(stdout);
    std::_Exit(status); // the helping threads are still at work
}
