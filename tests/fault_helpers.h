/* SPDX-License-Identifier: MIT */
/*
 * fault_helpers.h - makes each fallible call of an operation fail, one after the other.
 *
 *     struct faults faults = {0};
 *     while (faults_next(&faults)) {
 *         ... build the scene ...
 *         faults_begin(&faults);
 *         ... the operation ...
 *         faults_end(&faults);
 *         ... it has failed only if faults.what is set; then faults.refused++ ...
 *     }
 *     CHECK(faults.refused >= ...);
 *
 * In the first rounds one call fails in each round; in later rounds all memory is gone after the
 * n-th allocation, until faults_end.  The loop ends when each call has failed.  Each round must
 * free all blocks of memory that it allocated.  Futex waits do not fail: every thread uses them at
 * any time, so rounds would not be repeatable.
 */
#ifndef FAULT_HELPERS_H
#define FAULT_HELPERS_H

#include <stdlib.h>
#include <string.h>

#include "sched_helpers.h"

/* Allocations until memory is gone; negative: no limit. */
static WF_ATOMIC(int64_t) memory_left = {-1};
static wf_atomic_u32 is_memory_gone;

static inline void *alloc_limited(size_t alignment, size_t size)
{
    int64_t left = wf_load_relaxed(&memory_left); /* all relaxed: counters */
    while (left > 0 && !wf_cas_relaxed(&memory_left, &left, left - 1)) {
    }
    if (left == 0) {
        wf_store_relaxed(&is_memory_gone, 1);
        return NULL;
    }
    void *memory = NULL;
    alignment = alignment > sizeof(void *) ? alignment : sizeof(void *);
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

static const struct wf_allocator allocator = {alloc_limited, free};

struct faults {
    bool is_memory; /* all memory is gone at once; else one call fails */
    bool is_armed;
    uint64_t nth;
    const char *what; /* the call that failed in this round; NULL: none */
    unsigned refused; /* rounds in which the operation returned an error */
    uint64_t blocks;  /* allocated blocks before the round */
};

static inline uint64_t blocks_out(void)
{
    struct wf_alloc_stats stats;
    wf_alloc_stats(&stats);
    return stats.allocated - stats.freed;
}

static inline void faults_begin(struct faults *faults)
{
    faults->is_armed = true;
    if (faults->is_memory) {
        wf_store_relaxed(&is_memory_gone, 0);
        wf_store_relaxed(&memory_left, (int64_t)faults->nth - 1);
    } else {
        wf_fault_arm(faults->nth);
    }
}

static inline void faults_end(struct faults *faults)
{
    if (!faults->is_armed) {
        return;
    }
    faults->is_armed = false;
    if (faults->is_memory) {
        wf_store_relaxed(&memory_left, -1);
        faults->what = wf_load_relaxed(&is_memory_gone) != 0 ? "alloc" : NULL;
    } else {
        (void)wf_fault_hit(&faults->what);
        wf_fault_arm(0);
    }
}

/* Call it before an allocation that outlives the rounds; otherwise the first round does it. */
static inline void faults_prepare(void)
{
    static bool is_prepared;
    if (!is_prepared) {
        is_prepared = true;
        CHECK_EQ(wf_allocator_set(&allocator), 0);
        wf_fault_ignore("futex_wait");
    }
}

/* Returns true for another round, false if no call is left that could fail. All zero before the
 * first. */
static inline bool faults_next(struct faults *faults)
{
    faults_end(faults);
    if (faults->nth == 0) {
        faults_prepare();
    } else {
        CHECK_EQ(blocks_out(), faults->blocks);
    }
    if (faults->nth > 0 && faults->what == NULL) {
        if (faults->is_memory) {
            return false;
        }
        faults->is_memory = true;
        faults->nth = 0;
    }
    faults->nth++;
    faults->what = NULL;
    faults->blocks = blocks_out();
    return true;
}

/* One failed call must not cause two errors. */
static inline void faults_refused(struct faults *faults, unsigned refused)
{
    CHECK(refused == 0 || faults->what != NULL);
    CHECK(refused <= 1 || faults->is_memory);
    faults->refused += refused;
}

static inline bool is_hit(const struct faults *faults, const char *what)
{
    return faults->what != NULL && strcmp(faults->what, what) == 0;
}

/* The settings of the tour except eight workers, which only take longer. */
static inline bool short_tour_next(struct tour *tour)
{
    while (tour_next(tour)) {
        if (tour->setting->workers < 8) {
            return true;
        }
    }
    return false;
}

struct operation {
    weft_fn fn; /* calls faults_begin, and faults_end if it needs the result */
    struct faults faults;
};

/* Runs the operation, and then a task that must work. */
static inline intptr_t operate_and_go_on(void *arg)
{
    struct operation *operation = arg;
    CHECK_EQ(operation->fn(&operation->faults), 0);
    faults_end(&operation->faults);
    CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    return 0;
}

/* Each round has a new runtime, so that nothing is allocated yet. At least `refused_min` rounds
 * must fail: else the operation has not reached the calls for which the test was written. */
static inline void fail_each(weft_fn fn, unsigned refused_min)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        struct operation operation = {.fn = fn};
        tour.options.no_monitor = true; /* its thread may still start, and take the fault */
        while (faults_next(&operation.faults)) {
            CHECK_EQ(weft_run(operate_and_go_on, &operation, &tour.options), 0);
        }
        CHECK(operation.faults.refused >= refused_min);
    }
}

#endif
