/* SPDX-License-Identifier: MIT */
/*
 * base/atomic.h - the one place where memory orders are written.
 *
 * Every access to memory that two threads share goes through a named operation of this header,
 * so that one swap of the header turns the real source of a queue or a protocol into a model:
 * with WF_MODEL defined, tests/model/model_atomic.h gives the same names to a checker that runs
 * the code under every interleaving and under three memory models.
 *
 *   WF_ATOMIC(T)            a shared cell.  It is a struct, so that `x = 1` or `x++` on it does
 *                           not compile: C would silently make it sequentially consistent.
 *   wf_<op>_<order>(&cell)  the operations; the order is part of the name and cannot be left out.
 *   wf_plain_load/store     shared memory that a protocol protects (a queue's slot): no atomic
 *                           instruction, but the checker and TSan watch it for races.
 *   wf_counter_*            statistics with one writer; never used to decide anything, and
 *                           therefore no step of the model.
 *
 * There are no acquire or release fences: TSan cannot see them, and each has a form on the
 * access itself.  The one fence is wf_fence_seq_cst(), for store-then-load protocols.
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

/* Before the cell is shared; no ordering. */
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
 * Strong compare-and-exchange: true when *expected was found and replaced, else *expected holds
 * what was found.  A failed one is a relaxed load, or an acquire where the name ends in _both or
 * seq_cst (a retry loop then goes by what stands behind the value it was given).
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
#define wf_fetch_or_acq_rel(cell, v)                                                               \
    atomic_fetch_or_explicit(&(cell)->value, (v), memory_order_acq_rel)
#define wf_fetch_or_seq_cst(cell, v)                                                               \
    atomic_fetch_or_explicit(&(cell)->value, (v), memory_order_seq_cst)

#define wf_fetch_and_relaxed(cell, v)                                                              \
    atomic_fetch_and_explicit(&(cell)->value, (v), memory_order_relaxed)
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

/* The cheap end of a pair of fences, the other end of which is wf_barrier_everywhere: keeps the
 * compiler from moving anything across. */
#define wf_fence_light() atomic_signal_fence(memory_order_seq_cst)

#ifdef WF_TSAN
/* TSan ignores fences.  A read-modify-write of one shared cell orders what they order, and more:
 * each hands everything over to the next, so TSan may miss a race that the model finds. */
#define wf_fence_seq_cst() ((void)wf_fetch_add_seq_cst(&wf_tsan_fence_cell, 1))
#elif defined(__x86_64__)
/* A locked no-op: 6-8 ns where mfence, which clang emits, takes 21.  Below the top of the stack,
 * whose line the return is about to load: measured 3 ns less in the deque's push and pop. */
#define wf_fence_seq_cst() __asm__ volatile("lock; orl $0, -64(%%rsp)" ::: "memory", "cc")
#else
#define wf_fence_seq_cst() atomic_thread_fence(memory_order_seq_cst)
#endif

#define wf_plain_load(p) (*(p))
#define wf_plain_store(p, v) ((void)(*(p) = (v)))

/* One writer, any reader: a relaxed load and store, so no locked instruction. */
#define wf_counter_add(cell, n) wf_store_relaxed((cell), wf_load_relaxed(cell) + (n))
#define wf_counter_read(cell) wf_load_relaxed(cell)

/* Inside a loop that waits for another thread's store. */
#if defined(__x86_64__)
#define wf_spin_hint() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define wf_spin_hint() __asm__ volatile("isb" ::: "memory")
#else
#define wf_spin_hint() ((void)0)
#endif

#endif /* WF_MODEL */

/* Cells that are passed by address to functions need a named type. */
typedef WF_ATOMIC(int32_t) wf_atomic_i32;
typedef WF_ATOMIC(uint32_t) wf_atomic_u32;
typedef WF_ATOMIC(uint64_t) wf_atomic_u64;

#ifdef WF_TSAN
extern wf_atomic_u32 wf_tsan_fence_cell; /* see wf_fence_seq_cst */
#endif

#endif
