/* SPDX-License-Identifier: MIT */
/*
 * base/atomic.h - the only file with memory orders.
 *
 * Every access to shared memory goes through a named operation of this header.  Replacing the
 * header turns the real source of a queue or a protocol into a model program: with WF_MODEL
 * defined, tests/model/model_atomic.h implements the same names in a checker that runs the code
 * under every interleaving and under three memory models.
 *
 *   WF_ATOMIC(T)            an atomic cell.  It is a struct, so that `x = 1` or `x++` does not
 *                           compile: C would make either sequentially consistent.
 *   wf_<op>_<order>(&cell)  the operations; the memory order is part of the name.
 *   wf_plain_load/store     shared memory that a protocol protects, such as a queue's slot: no
 *                           atomic instruction, but the checker and TSan check it for races.
 *   wf_counter_*            counts with one writer.  No protocol that the checker examines depends
 *                           on their values, so the checker does not treat them as steps.
 *
 * There are no acquire or release fences: TSan does not support them, and an acquire or release
 * access can replace each.  The only fence is wf_fence_seq_cst(), for store-load (Dekker)
 * protocols.
 */
#ifndef WF_BASE_ATOMIC_H
#define WF_BASE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#ifdef WF_MODEL
#include "model/model_atomic.h"
#else

#include <stdatomic.h>

#define WF_ATOMIC(T)                                                                               \
    struct {                                                                                       \
        _Atomic(T) value;                                                                          \
    }

/* Only before the cell is shared; no ordering. */
#define wf_atomic_init(cell, v) atomic_init(&(cell)->value, (v))

#define wf_load_relaxed(cell) atomic_load_explicit(&(cell)->value, memory_order_relaxed)
#define wf_load_acquire(cell) atomic_load_explicit(&(cell)->value, memory_order_acquire)
#define wf_load_seq_cst(cell) atomic_load_explicit(&(cell)->value, memory_order_seq_cst)

#define wf_store_relaxed(cell, v) atomic_store_explicit(&(cell)->value, (v), memory_order_relaxed)
#define wf_store_release(cell, v) atomic_store_explicit(&(cell)->value, (v), memory_order_release)
#define wf_store_seq_cst(cell, v) atomic_store_explicit(&(cell)->value, (v), memory_order_seq_cst)

#define wf_exchange_relaxed(cell, v)                                                               \
    atomic_exchange_explicit(&(cell)->value, (v), memory_order_relaxed)
#define wf_exchange_acquire(cell, v)                                                               \
    atomic_exchange_explicit(&(cell)->value, (v), memory_order_acquire)
#define wf_exchange_release(cell, v)                                                               \
    atomic_exchange_explicit(&(cell)->value, (v), memory_order_release)
#define wf_exchange_acq_rel(cell, v)                                                               \
    atomic_exchange_explicit(&(cell)->value, (v), memory_order_acq_rel)
#define wf_exchange_seq_cst(cell, v)                                                               \
    atomic_exchange_explicit(&(cell)->value, (v), memory_order_seq_cst)

/*
 * Strong compare-and-exchange.  True: the cell held *expected and holds `v` now.  False: *expected
 * is set to the value found.  A failed exchange is a relaxed load, except for the names that end in
 * _both or seq_cst: there it is an acquire load, for retry loops that dereference the value found.
 */
#define wf_cas_relaxed(cell, expected, v)                                                          \
    atomic_compare_exchange_strong_explicit(&(cell)->value, (expected), (v), memory_order_relaxed, \
                                            memory_order_relaxed)
#define wf_cas_acquire(cell, expected, v)                                                          \
    atomic_compare_exchange_strong_explicit(&(cell)->value, (expected), (v), memory_order_acquire, \
                                            memory_order_relaxed)
#define wf_cas_acquire_both(cell, expected, v)                                                     \
    atomic_compare_exchange_strong_explicit(&(cell)->value, (expected), (v), memory_order_acquire, \
                                            memory_order_acquire)
#define wf_cas_release(cell, expected, v)                                                          \
    atomic_compare_exchange_strong_explicit(&(cell)->value, (expected), (v), memory_order_release, \
                                            memory_order_relaxed)
#define wf_cas_acq_rel(cell, expected, v)                                                          \
    atomic_compare_exchange_strong_explicit(&(cell)->value, (expected), (v), memory_order_acq_rel, \
                                            memory_order_relaxed)
#define wf_cas_acq_rel_both(cell, expected, v)                                                     \
    atomic_compare_exchange_strong_explicit(&(cell)->value, (expected), (v), memory_order_acq_rel, \
                                            memory_order_acquire)
#define wf_cas_seq_cst(cell, expected, v)                                                          \
    atomic_compare_exchange_strong_explicit(&(cell)->value, (expected), (v), memory_order_seq_cst, \
                                            memory_order_acquire)

#define wf_fetch_add_relaxed(cell, v)                                                              \
    atomic_fetch_add_explicit(&(cell)->value, (v), memory_order_relaxed)
#define wf_fetch_add_acquire(cell, v)                                                              \
    atomic_fetch_add_explicit(&(cell)->value, (v), memory_order_acquire)
#define wf_fetch_add_release(cell, v)                                                              \
    atomic_fetch_add_explicit(&(cell)->value, (v), memory_order_release)
#define wf_fetch_add_acq_rel(cell, v)                                                              \
    atomic_fetch_add_explicit(&(cell)->value, (v), memory_order_acq_rel)
#define wf_fetch_add_seq_cst(cell, v)                                                              \
    atomic_fetch_add_explicit(&(cell)->value, (v), memory_order_seq_cst)

#define wf_fetch_sub_relaxed(cell, v)                                                              \
    atomic_fetch_sub_explicit(&(cell)->value, (v), memory_order_relaxed)
#define wf_fetch_sub_release(cell, v)                                                              \
    atomic_fetch_sub_explicit(&(cell)->value, (v), memory_order_release)
#define wf_fetch_sub_acq_rel(cell, v)                                                              \
    atomic_fetch_sub_explicit(&(cell)->value, (v), memory_order_acq_rel)
#define wf_fetch_sub_seq_cst(cell, v)                                                              \
    atomic_fetch_sub_explicit(&(cell)->value, (v), memory_order_seq_cst)

#define wf_fetch_or_relaxed(cell, v)                                                               \
    atomic_fetch_or_explicit(&(cell)->value, (v), memory_order_relaxed)
#define wf_fetch_or_release(cell, v)                                                               \
    atomic_fetch_or_explicit(&(cell)->value, (v), memory_order_release)
#define wf_fetch_or_acq_rel(cell, v)                                                               \
    atomic_fetch_or_explicit(&(cell)->value, (v), memory_order_acq_rel)
#define wf_fetch_or_seq_cst(cell, v)                                                               \
    atomic_fetch_or_explicit(&(cell)->value, (v), memory_order_seq_cst)

#define wf_fetch_and_relaxed(cell, v)                                                              \
    atomic_fetch_and_explicit(&(cell)->value, (v), memory_order_relaxed)
#define wf_fetch_and_acquire(cell, v)                                                              \
    atomic_fetch_and_explicit(&(cell)->value, (v), memory_order_acquire)
#define wf_fetch_and_acq_rel(cell, v)                                                              \
    atomic_fetch_and_explicit(&(cell)->value, (v), memory_order_acq_rel)
#define wf_fetch_and_seq_cst(cell, v)                                                              \
    atomic_fetch_and_explicit(&(cell)->value, (v), memory_order_seq_cst)

#if defined(__SANITIZE_THREAD__)
#define WF_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WF_TSAN 1
#endif
#endif

/* The fast side of an asymmetric fence; wf_barrier_everywhere is the slow side.  The fast side
 * emits no instruction: it only stops the compiler from moving accesses across the fence. */
#define wf_fence_light() atomic_signal_fence(memory_order_seq_cst)

#ifdef WF_TSAN
/* TSan ignores fences.  A read-modify-write of one shared cell orders at least as much as they do.
 * It also synchronises each fence with the next, so TSan may miss a race that the model finds. */
#define wf_fence_seq_cst() ((void)wf_fetch_add_seq_cst(&wf_tsan_fence_cell, 1))
#elif defined(__x86_64__)
/* A locked no-op: 6-8 ns; mfence, which clang emits, takes 21.  It writes below the stack pointer
 * and not to the line that the return is about to load: 3 ns less in the deque's push and pop. */
#define wf_fence_seq_cst() __asm__ volatile("lock; orl $0, -64(%%rsp)" ::: "memory", "cc")
#else
#define wf_fence_seq_cst() atomic_thread_fence(memory_order_seq_cst)
#endif

#define wf_plain_load(p) (*(p))
#define wf_plain_store(p, v) ((void)(*(p) = (v)))

/* One writer, any number of readers: a relaxed load and a relaxed store, no locked instruction. */
#define wf_counter_add(cell, n) wf_store_relaxed((cell), wf_load_relaxed(cell) + (n))
#define wf_counter_read(cell) wf_load_relaxed(cell)

/* For a loop that waits for another thread's store. */
#if defined(__x86_64__)
#define wf_spin_hint() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define wf_spin_hint() __asm__ volatile("isb" ::: "memory")
#else
#define wf_spin_hint() ((void)0)
#endif

#endif /* WF_MODEL */

/* Named types, for cells whose address is passed to a function. */
typedef WF_ATOMIC(int32_t) wf_atomic_i32;
typedef WF_ATOMIC(uint32_t) wf_atomic_u32;
typedef WF_ATOMIC(uint64_t) wf_atomic_u64;

#ifdef WF_TSAN
extern wf_atomic_u32 wf_tsan_fence_cell; /* see wf_fence_seq_cst */
#endif

#endif
