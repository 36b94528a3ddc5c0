/* SPDX-License-Identifier: MIT */
/*
 * Goal:   each named operation does what its name says: the operation on the value, and the memory
 *         order.
 * Method: the values in one thread, one operation after the other; the orders by passing plain data
 *         from one thread to another through each pair of operations, under TSan.
 */
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>

#include "base/base.h"
#include "tap.h"

/* ---- values -------------------------------------------------------------------------------- */

static void atomic_load_returns_stored_value(void)
{
    wf_atomic_u64 cell;
    wf_atomic_init(&cell, 1);
    CHECK_EQ(wf_load_relaxed(&cell), 1);
    wf_store_relaxed(&cell, 2);
    CHECK_EQ(wf_load_acquire(&cell), 2);
    wf_store_release(&cell, 3);
    CHECK_EQ(wf_load_seq_cst(&cell), 3);
    wf_store_seq_cst(&cell, UINT64_MAX);
    CHECK(wf_load_relaxed(&cell) == UINT64_MAX);
}

static void atomic_exchange_returns_old_value(void)
{
    wf_atomic_u32 cell = {1};
    CHECK_EQ(wf_exchange_relaxed(&cell, 2), 1);
    CHECK_EQ(wf_exchange_acquire(&cell, 3), 2);
    CHECK_EQ(wf_exchange_release(&cell, 4), 3);
    CHECK_EQ(wf_exchange_acq_rel(&cell, 5), 4);
    CHECK_EQ(wf_exchange_seq_cst(&cell, 6), 5);
    CHECK_EQ(wf_load_relaxed(&cell), 6);
}

#define CAS_CHECKER(name, cas)                                                                     \
    static void name(void)                                                                         \
    {                                                                                              \
        wf_atomic_u32 cell = {5};                                                                  \
        uint32_t expected = 4;                                                                     \
        CHECK(!cas(&cell, &expected, 9));                                                          \
        CHECK_EQ(expected, 5);                                                                     \
        CHECK_EQ(wf_load_relaxed(&cell), 5);                                                       \
        CHECK(cas(&cell, &expected, 9));                                                           \
        CHECK_EQ(expected, 5);                                                                     \
        CHECK_EQ(wf_load_relaxed(&cell), 9);                                                       \
    }

CAS_CHECKER(check_cas_relaxed, wf_cas_relaxed)
CAS_CHECKER(check_cas_acquire, wf_cas_acquire)
CAS_CHECKER(check_cas_acquire_both, wf_cas_acquire_both)
CAS_CHECKER(check_cas_release, wf_cas_release)
CAS_CHECKER(check_cas_acq_rel, wf_cas_acq_rel)
CAS_CHECKER(check_cas_acq_rel_both, wf_cas_acq_rel_both)
CAS_CHECKER(check_cas_seq_cst, wf_cas_seq_cst)

static void atomic_failed_cas_returns_found_value_and_stores_nothing(void)
{
    check_cas_relaxed();
    check_cas_acquire();
    check_cas_acquire_both();
    check_cas_release();
    check_cas_acq_rel();
    check_cas_acq_rel_both();
    check_cas_seq_cst();
}

static void atomic_fetch_add_and_sub_return_old_value(void)
{
    wf_atomic_u32 cell = {10};
    CHECK_EQ(wf_fetch_add_relaxed(&cell, 1), 10);
    CHECK_EQ(wf_fetch_add_acquire(&cell, 1), 11);
    CHECK_EQ(wf_fetch_add_release(&cell, 1), 12);
    CHECK_EQ(wf_fetch_add_acq_rel(&cell, 1), 13);
    CHECK_EQ(wf_fetch_add_seq_cst(&cell, 1), 14);
    CHECK_EQ(wf_fetch_sub_relaxed(&cell, 2), 15);
    CHECK_EQ(wf_fetch_sub_release(&cell, 2), 13);
    CHECK_EQ(wf_fetch_sub_acq_rel(&cell, 2), 11);
    CHECK_EQ(wf_fetch_sub_seq_cst(&cell, 10), 9);
    CHECK_EQ(wf_load_relaxed(&cell), UINT32_MAX); /* unsigned arithmetic wraps */
}

static void atomic_fetch_or_and_and_set_and_clear_bits(void)
{
    wf_atomic_u32 cell = {1};
    CHECK_EQ(wf_fetch_or_relaxed(&cell, 2), 1);
    CHECK_EQ(wf_fetch_or_acq_rel(&cell, 4), 3);
    CHECK_EQ(wf_fetch_or_seq_cst(&cell, 8), 7);
    CHECK_EQ(wf_fetch_or_release(&cell, 16), 15);
    CHECK_EQ(wf_fetch_and_acquire(&cell, ~16u), 31);
    CHECK_EQ(wf_fetch_and_relaxed(&cell, ~1u), 15);
    CHECK_EQ(wf_fetch_and_acq_rel(&cell, ~2u), 14);
    CHECK_EQ(wf_fetch_and_seq_cst(&cell, ~4u), 12);
    CHECK_EQ(wf_load_relaxed(&cell), 8);
}

static void atomic_counters_and_plain_accesses_keep_their_values(void)
{
    wf_atomic_u64 counter = {0};
    wf_counter_add(&counter, 3);
    wf_counter_add(&counter, 4);
    CHECK_EQ(wf_counter_read(&counter), 7);
    int plain = 1;
    wf_plain_store(&plain, 2);
    CHECK_EQ(wf_plain_load(&plain), 2);
}

static void atomic_type_has_the_size_of_its_value(void)
{
    CHECK_EQ(sizeof(wf_atomic_u32), 4);
    CHECK_EQ(sizeof(wf_atomic_u64), 8);
    CHECK_EQ(sizeof(WF_ATOMIC(void *)), sizeof(void *));
}

/* ---- memory orders ------------------------------------------------------------------------- */

static wf_atomic_u32 flag;
static int payload; /* plain */

#define SENDER(name, operation)                                                                    \
    static void name(void)                                                                         \
    {                                                                                              \
        payload = 42;                                                                              \
        operation;                                                                                 \
    }

/* Each sets the flag from 0 to 1. */
SENDER(send_store_release, wf_store_release(&flag, 1))
SENDER(send_store_seq_cst, wf_store_seq_cst(&flag, 1))
SENDER(send_exchange_release, (void)wf_exchange_release(&flag, 1))
SENDER(send_exchange_acq_rel, (void)wf_exchange_acq_rel(&flag, 1))
SENDER(send_exchange_seq_cst, (void)wf_exchange_seq_cst(&flag, 1))
SENDER(send_cas_release, CHECK(wf_cas_release(&flag, &(uint32_t){0}, 1)))
SENDER(send_cas_acq_rel, CHECK(wf_cas_acq_rel(&flag, &(uint32_t){0}, 1)))
SENDER(send_cas_seq_cst, CHECK(wf_cas_seq_cst(&flag, &(uint32_t){0}, 1)))
SENDER(send_add_release, (void)wf_fetch_add_release(&flag, 1))
SENDER(send_add_acq_rel, (void)wf_fetch_add_acq_rel(&flag, 1))
SENDER(send_add_seq_cst, (void)wf_fetch_add_seq_cst(&flag, 1))
SENDER(send_sub_release, (void)wf_fetch_sub_release(&flag, UINT32_MAX))
SENDER(send_sub_acq_rel, (void)wf_fetch_sub_acq_rel(&flag, UINT32_MAX))
SENDER(send_sub_seq_cst, (void)wf_fetch_sub_seq_cst(&flag, UINT32_MAX))
SENDER(send_or_release, (void)wf_fetch_or_release(&flag, 1))
SENDER(send_or_acq_rel, (void)wf_fetch_or_acq_rel(&flag, 1))
SENDER(send_or_seq_cst, (void)wf_fetch_or_seq_cst(&flag, 1))

#define RECEIVER(name, operation)                                                                  \
    static bool name(void)                                                                         \
    {                                                                                              \
        return (operation) == 1;                                                                   \
    }

/* Each returns true if the flag is 1, and does not change it. */
RECEIVER(receive_load_acquire, wf_load_acquire(&flag))
RECEIVER(receive_load_seq_cst, wf_load_seq_cst(&flag))
RECEIVER(receive_cas_acquire, wf_cas_acquire(&flag, &(uint32_t){1}, 1))
RECEIVER(receive_cas_acquire_both, wf_cas_acquire_both(&flag, &(uint32_t){1}, 1))
RECEIVER(receive_cas_acq_rel, wf_cas_acq_rel(&flag, &(uint32_t){1}, 1))
RECEIVER(receive_cas_seq_cst, wf_cas_seq_cst(&flag, &(uint32_t){1}, 1))
RECEIVER(receive_add_acquire, wf_fetch_add_acquire(&flag, 0))
RECEIVER(receive_add_acq_rel, wf_fetch_add_acq_rel(&flag, 0))
RECEIVER(receive_add_seq_cst, wf_fetch_add_seq_cst(&flag, 0))
RECEIVER(receive_sub_acq_rel, wf_fetch_sub_acq_rel(&flag, 0))
RECEIVER(receive_sub_seq_cst, wf_fetch_sub_seq_cst(&flag, 0))
RECEIVER(receive_or_acq_rel, wf_fetch_or_acq_rel(&flag, 0))
RECEIVER(receive_or_seq_cst, wf_fetch_or_seq_cst(&flag, 0))
RECEIVER(receive_and_acquire, wf_fetch_and_acquire(&flag, 1))
RECEIVER(receive_and_acq_rel, wf_fetch_and_acq_rel(&flag, 1))
RECEIVER(receive_and_seq_cst, wf_fetch_and_seq_cst(&flag, 1))

/* An exchange leaves the flag unchanged only if the flag is already 1. */
static bool receive_exchange_acquire(void)
{
    return wf_load_relaxed(&flag) == 1 && wf_exchange_acquire(&flag, 1) == 1;
}

static bool receive_exchange_acq_rel(void)
{
    return wf_load_relaxed(&flag) == 1 && wf_exchange_acq_rel(&flag, 1) == 1;
}

static bool receive_exchange_seq_cst(void)
{
    return wf_load_relaxed(&flag) == 1 && wf_exchange_seq_cst(&flag, 1) == 1;
}

/* A failed CAS with acquire-or-stronger failure order is an acquire load. */
#define FAILING_RECEIVER(name, cas)                                                                \
    static bool name(void)                                                                         \
    {                                                                                              \
        uint32_t found = 7;                                                                        \
        return !cas(&flag, &found, 7) && found == 1;                                               \
    }

FAILING_RECEIVER(receive_failed_cas_acquire_both, wf_cas_acquire_both)
FAILING_RECEIVER(receive_failed_cas_seq_cst, wf_cas_seq_cst)

static void (*const senders[])(void) = {
    send_store_release,    send_store_seq_cst, send_exchange_release, send_exchange_acq_rel,
    send_exchange_seq_cst, send_cas_release,   send_cas_acq_rel,      send_cas_seq_cst,
    send_add_release,      send_add_acq_rel,   send_add_seq_cst,      send_sub_release,
    send_sub_acq_rel,      send_sub_seq_cst,   send_or_release,       send_or_acq_rel,
    send_or_seq_cst,
};

static bool (*const receivers[])(void) = {
    receive_load_acquire,       receive_load_seq_cst,
    receive_cas_acquire,        receive_cas_acquire_both,
    receive_cas_acq_rel,        receive_cas_seq_cst,
    receive_add_acquire,        receive_add_acq_rel,
    receive_add_seq_cst,        receive_sub_acq_rel,
    receive_sub_seq_cst,        receive_or_acq_rel,
    receive_or_seq_cst,         receive_and_acquire,
    receive_and_acq_rel,        receive_and_seq_cst,
    receive_exchange_acquire,   receive_exchange_acq_rel,
    receive_exchange_seq_cst,   receive_failed_cas_acquire_both,
    receive_failed_cas_seq_cst,
};

static bool (*receiver)(void);

static void *receive(void *arg)
{
    while (!receiver()) {
        (void)sched_yield();
    }
    CHECK_EQ(payload, 42);
    return arg;
}

static void hand_over(void (*sender)(void))
{
    pthread_t thread;
    payload = 0;
    wf_store_relaxed(&flag, 0);
    CHECK_EQ(pthread_create(&thread, NULL, receive, NULL), 0);
    sender();
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void atomic_every_release_synchronises_with_every_acquire(void)
{
    for (size_t s = 0; s < sizeof(senders) / sizeof(senders[0]); s++) {
        for (size_t r = 0; r < sizeof(receivers) / sizeof(receivers[0]); r++) {
            receiver = receivers[r];
            hand_over(senders[s]);
        }
    }
}

/* ---- the fence ----------------------------------------------------------------------------- */

/* Store buffering: without the fences both threads may read the old value.  x86 does so in one
 * iteration of six while both threads run at the same time.  Each cell has a cache line of its own.
 * The threads leave the rendezvous a few instructions apart, differently in each iteration. */
enum { ROUNDS = 20000, DELAYS = 8, SPINS_BEFORE_YIELD = 1000 };

static struct {
    alignas(WF_CACHE_LINE) wf_atomic_u32 cell;
} sides[2];
static wf_atomic_u32 arrived;
static uint32_t seen[2][ROUNDS];

static void rendezvous(uint32_t target)
{
    (void)wf_fetch_add_seq_cst(&arrived, 1);
    for (unsigned spins = 0; wf_load_acquire(&arrived) < target; spins++) {
        if (spins >= SPINS_BEFORE_YIELD) {
            (void)sched_yield();
        }
    }
}

/* Binds each thread to its own CPU where there are two: otherwise both often share one CPU and the
 * test shows nothing. */
static void bind_to_cpu(uint32_t own)
{
    cpu_set_t allowed;
    CHECK_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    uint32_t passed = 0;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && passed++ == own) {
            cpu_set_t only;
            CPU_ZERO(&only);
            CPU_SET(cpu, &only);
            CHECK_EQ(sched_setaffinity(0, sizeof(only), &only), 0);
        }
    }
}

static void store_then_load(uint32_t own)
{
    bind_to_cpu(own);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t delay = (own == 0 ? round : round / DELAYS) % DELAYS;
        rendezvous(4 * round + 2);
        for (volatile uint32_t left = delay; left > 0; left--) {
        }
        wf_store_relaxed(&sides[own].cell, round + 1);
        wf_fence_seq_cst();
        seen[own][round] = wf_load_relaxed(&sides[1 - own].cell);
        rendezvous(4 * round + 4);
    }
}

static void *run_second(void *arg)
{
    store_then_load(1);
    return arg;
}

static void fence_seq_cst_forbids_store_buffering(void)
{
    pthread_t thread;
    /* before this thread narrows its affinity mask */
    CHECK_EQ(pthread_create(&thread, NULL, run_second, NULL), 0);
    store_then_load(0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        CHECK(seen[0][round] == round + 1 || seen[1][round] == round + 1);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(atomic_load_returns_stored_value),
    TAP_TEST(atomic_exchange_returns_old_value),
    TAP_TEST(atomic_failed_cas_returns_found_value_and_stores_nothing),
    TAP_TEST(atomic_fetch_add_and_sub_return_old_value),
    TAP_TEST(atomic_fetch_or_and_and_set_and_clear_bits),
    TAP_TEST(atomic_counters_and_plain_accesses_keep_their_values),
    TAP_TEST(atomic_type_has_the_size_of_its_value),
    TAP_TEST_LIMIT(atomic_every_release_synchronises_with_every_acquire, 60),
    TAP_TEST_LIMIT(fence_seq_cst_forbids_store_buffering, 60),
};
TAP_MAIN(tests)
