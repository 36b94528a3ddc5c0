/* SPDX-License-Identifier: MIT */
/*
 * model/model_atomic.h - the operations of base/atomic.h as steps of the model checker.
 *
 * Each use of an operation in the source is a *site*: a static record that the linker gathers in
 * one section.  The checker names sites in traces, and the mutant driver weakens one at a time
 * without compiling anything again.
 */
#ifndef MODEL_ATOMIC_H
#define MODEL_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#define MODEL_THREADS_MAX 4

enum model_kind {
    MODEL_LOAD,
    MODEL_STORE,
    MODEL_EXCHANGE,
    MODEL_CAS,
    MODEL_ADD,
    MODEL_SUB,
    MODEL_OR,
    MODEL_AND,
    MODEL_FENCE,
    MODEL_BARRIER, /* a fence in every thread */
    MODEL_FUTEX_WAIT,
    MODEL_FUTEX_WAKE,
    MODEL_SPIN,
};

/* Bits: 1 acquires, 2 releases, 4 takes part in the one total order. */
enum model_order {
    MODEL_RELAXED = 0,
    MODEL_ACQUIRE = 1,
    MODEL_RELEASE = 2,
    MODEL_ACQ_REL = 3,
    MODEL_SEQ_CST = 7,
    MODEL_DROPPED = 8, /* a mutant: the fence is removed */
};

struct model_site {
    const char *file;
    const char *name; /* the operation as written */
    const char *cell; /* the cell as written */
    const char *function;
    int line;
    uint8_t kind;
    uint8_t order;         /* as written */
    uint8_t failure_order; /* of a CAS */
    uint8_t order_now;     /* as mutated */
    uint8_t failure_now;
    uint8_t is_reached;
};

/* A plain access: not a step, but named in traces and races. */
struct model_place {
    const char *text; /* the location as written */
    const char *file;
    const char *function;
    int line;
};

uint64_t model_access(struct model_site *site, void *address, unsigned size, uint64_t operand);
bool model_cas(struct model_site *site, void *address, unsigned size, uint64_t *expected,
               uint64_t desired);
void model_init(void *address, unsigned size, uint64_t value);
void model_plain(const struct model_place *place, bool is_write, const volatile void *address,
                 const volatile void *value, unsigned size);
_Noreturn void model_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define WF_ATOMIC(T)                                                                               \
    struct {                                                                                       \
        T value;                                                                                   \
    }

#define MODEL_SITE(site_name, site_kind, site_cell, site_order, site_failure)                      \
    __extension__({                                                                                \
        static struct model_site site_                                                             \
            __attribute__((section("model_sites"), used, aligned(8))) = {                          \
                __FILE__,   site_name,    site_cell,  NULL,         __LINE__, site_kind,           \
                site_order, site_failure, site_order, site_failure, 0};                            \
        site_.function = __func__;                                                                 \
        &site_;                                                                                    \
    })

#define MODEL_WORD(v) ((uint64_t)(uintptr_t)(v))
#define MODEL_TYPE(cell) __typeof__((cell)->value)

#define MODEL_ACCESS(name, kind, order, cell, v)                                                   \
    model_access(MODEL_SITE(name, kind, #cell, order, MODEL_RELAXED),                              \
                 (void *)(uintptr_t) & (cell)->value, sizeof((cell)->value),                       \
                 MODEL_WORD((MODEL_TYPE(cell))(v)))
#define MODEL_READS(name, kind, order, cell, v)                                                    \
    ((MODEL_TYPE(cell))(uintptr_t)MODEL_ACCESS(name, kind, order, cell, v))
#define MODEL_COMPARE(name, order, failure, cell, expected, v)                                     \
    __extension__({                                                                                \
        MODEL_TYPE(cell) *expected_ = (expected);                                                  \
        uint64_t word_ = MODEL_WORD(*expected_);                                                   \
        bool is_done_ =                                                                            \
            model_cas(MODEL_SITE(name, MODEL_CAS, #cell, order, failure), &(cell)->value,          \
                      sizeof((cell)->value), &word_, MODEL_WORD((MODEL_TYPE(cell))(v)));           \
        *expected_ = (MODEL_TYPE(cell))(uintptr_t)word_;                                           \
        is_done_;                                                                                  \
    })

#define wf_atomic_init(cell, v)                                                                    \
    model_init(&(cell)->value, sizeof((cell)->value), MODEL_WORD((MODEL_TYPE(cell))(v)))

#define wf_load_relaxed(c) MODEL_READS("wf_load_relaxed", MODEL_LOAD, MODEL_RELAXED, c, 0)
#define wf_load_acquire(c) MODEL_READS("wf_load_acquire", MODEL_LOAD, MODEL_ACQUIRE, c, 0)
#define wf_load_seq_cst(c) MODEL_READS("wf_load_seq_cst", MODEL_LOAD, MODEL_SEQ_CST, c, 0)

#define wf_store_relaxed(c, v)                                                                     \
    ((void)MODEL_ACCESS("wf_store_relaxed", MODEL_STORE, MODEL_RELAXED, c, v))
#define wf_store_release(c, v)                                                                     \
    ((void)MODEL_ACCESS("wf_store_release", MODEL_STORE, MODEL_RELEASE, c, v))
#define wf_store_seq_cst(c, v)                                                                     \
    ((void)MODEL_ACCESS("wf_store_seq_cst", MODEL_STORE, MODEL_SEQ_CST, c, v))

#define wf_exchange_relaxed(c, v)                                                                  \
    MODEL_READS("wf_exchange_relaxed", MODEL_EXCHANGE, MODEL_RELAXED, c, v)
#define wf_exchange_acquire(c, v)                                                                  \
    MODEL_READS("wf_exchange_acquire", MODEL_EXCHANGE, MODEL_ACQUIRE, c, v)
#define wf_exchange_release(c, v)                                                                  \
    MODEL_READS("wf_exchange_release", MODEL_EXCHANGE, MODEL_RELEASE, c, v)
#define wf_exchange_acq_rel(c, v)                                                                  \
    MODEL_READS("wf_exchange_acq_rel", MODEL_EXCHANGE, MODEL_ACQ_REL, c, v)
#define wf_exchange_seq_cst(c, v)                                                                  \
    MODEL_READS("wf_exchange_seq_cst", MODEL_EXCHANGE, MODEL_SEQ_CST, c, v)

#define wf_cas_relaxed(c, e, v)                                                                    \
    MODEL_COMPARE("wf_cas_relaxed", MODEL_RELAXED, MODEL_RELAXED, c, e, v)
#define wf_cas_acquire(c, e, v)                                                                    \
    MODEL_COMPARE("wf_cas_acquire", MODEL_ACQUIRE, MODEL_RELAXED, c, e, v)
#define wf_cas_acquire_both(c, e, v)                                                               \
    MODEL_COMPARE("wf_cas_acquire_both", MODEL_ACQUIRE, MODEL_ACQUIRE, c, e, v)
#define wf_cas_release(c, e, v)                                                                    \
    MODEL_COMPARE("wf_cas_release", MODEL_RELEASE, MODEL_RELAXED, c, e, v)
#define wf_cas_acq_rel(c, e, v)                                                                    \
    MODEL_COMPARE("wf_cas_acq_rel", MODEL_ACQ_REL, MODEL_RELAXED, c, e, v)
#define wf_cas_acq_rel_both(c, e, v)                                                               \
    MODEL_COMPARE("wf_cas_acq_rel_both", MODEL_ACQ_REL, MODEL_ACQUIRE, c, e, v)
#define wf_cas_seq_cst(c, e, v)                                                                    \
    MODEL_COMPARE("wf_cas_seq_cst", MODEL_SEQ_CST, MODEL_ACQUIRE, c, e, v)

#define wf_fetch_add_relaxed(c, v)                                                                 \
    MODEL_READS("wf_fetch_add_relaxed", MODEL_ADD, MODEL_RELAXED, c, v)
#define wf_fetch_add_acquire(c, v)                                                                 \
    MODEL_READS("wf_fetch_add_acquire", MODEL_ADD, MODEL_ACQUIRE, c, v)
#define wf_fetch_add_release(c, v)                                                                 \
    MODEL_READS("wf_fetch_add_release", MODEL_ADD, MODEL_RELEASE, c, v)
#define wf_fetch_add_acq_rel(c, v)                                                                 \
    MODEL_READS("wf_fetch_add_acq_rel", MODEL_ADD, MODEL_ACQ_REL, c, v)
#define wf_fetch_add_seq_cst(c, v)                                                                 \
    MODEL_READS("wf_fetch_add_seq_cst", MODEL_ADD, MODEL_SEQ_CST, c, v)

#define wf_fetch_sub_relaxed(c, v)                                                                 \
    MODEL_READS("wf_fetch_sub_relaxed", MODEL_SUB, MODEL_RELAXED, c, v)
#define wf_fetch_sub_release(c, v)                                                                 \
    MODEL_READS("wf_fetch_sub_release", MODEL_SUB, MODEL_RELEASE, c, v)
#define wf_fetch_sub_acq_rel(c, v)                                                                 \
    MODEL_READS("wf_fetch_sub_acq_rel", MODEL_SUB, MODEL_ACQ_REL, c, v)
#define wf_fetch_sub_seq_cst(c, v)                                                                 \
    MODEL_READS("wf_fetch_sub_seq_cst", MODEL_SUB, MODEL_SEQ_CST, c, v)

#define wf_fetch_or_relaxed(c, v) MODEL_READS("wf_fetch_or_relaxed", MODEL_OR, MODEL_RELAXED, c, v)
#define wf_fetch_or_release(c, v) MODEL_READS("wf_fetch_or_release", MODEL_OR, MODEL_RELEASE, c, v)
#define wf_fetch_or_acq_rel(c, v) MODEL_READS("wf_fetch_or_acq_rel", MODEL_OR, MODEL_ACQ_REL, c, v)
#define wf_fetch_or_seq_cst(c, v) MODEL_READS("wf_fetch_or_seq_cst", MODEL_OR, MODEL_SEQ_CST, c, v)

#define wf_fetch_and_relaxed(c, v)                                                                 \
    MODEL_READS("wf_fetch_and_relaxed", MODEL_AND, MODEL_RELAXED, c, v)
#define wf_fetch_and_acquire(c, v)                                                                 \
    MODEL_READS("wf_fetch_and_acquire", MODEL_AND, MODEL_ACQUIRE, c, v)
#define wf_fetch_and_acq_rel(c, v)                                                                 \
    MODEL_READS("wf_fetch_and_acq_rel", MODEL_AND, MODEL_ACQ_REL, c, v)
#define wf_fetch_and_seq_cst(c, v)                                                                 \
    MODEL_READS("wf_fetch_and_seq_cst", MODEL_AND, MODEL_SEQ_CST, c, v)

/* A compiler barrier only: wf_barrier_everywhere supplies the fence for both. */
#define wf_fence_light() ((void)0)
#define wf_fence_seq_cst()                                                                         \
    ((void)model_access(                                                                           \
        MODEL_SITE("wf_fence_seq_cst", MODEL_FENCE, "", MODEL_SEQ_CST, MODEL_RELAXED), NULL, 0,    \
        0))
#define wf_spin_hint()                                                                             \
    ((void)model_access(MODEL_SITE("wf_spin_hint", MODEL_SPIN, "", MODEL_RELAXED, MODEL_RELAXED),  \
                        NULL, 0, 0))

#define MODEL_PLACE(text) (&(const struct model_place){(text), __FILE__, __func__, __LINE__})

#define wf_plain_load(p) (model_plain(MODEL_PLACE(#p), false, (p), (p), sizeof(*(p))), *(p))
#define wf_plain_store(p, v)                                                                       \
    __extension__({                                                                                \
        __typeof__(*(p)) value_ = (v);                                                             \
        model_plain(MODEL_PLACE(#p), true, (p), &value_, sizeof(value_));                          \
        *(p) = value_;                                                                             \
        (void)0;                                                                                   \
    })

/* Statistics decide nothing; as steps they would only multiply the runs. */
#define wf_counter_add(cell, n) ((void)((cell)->value += (n)))
#define wf_counter_read(cell) ((cell)->value)

#endif
