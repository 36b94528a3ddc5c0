/* SPDX-License-Identifier: MIT */
/*
 * model/model.h - a model checker for the real source of lock-free code.
 *
 * A model test is a few threads of plain C that call, say, wf_deque_push and wf_deque_steal.  The
 * file under test is compiled with WF_MODEL, which turns every atomic access, every marked plain
 * access and every futex call into a step of a deterministic scheduler.  The threads are fibers on
 * one OS thread; the checker runs the test again and again, until every order of steps - and every
 * value a load may return under the memory model - has been seen.
 *
 * Memory models
 *   sc    sequential consistency: one memory, steps interleave.
 *   tso   x86: stores wait in a buffer per thread; the scheduler chooses when one drains.
 *   view  C11: every cell keeps its history; a load may return any store that the thread's view
 *         does not forbid.  Release/acquire, release sequences through read-modify-writes, SC
 *         fences and SC accesses (as in RC11).  Marked plain accesses are checked for data races.
 *         Not covered: load buffering; stores that enter a cell's history in another order than
 *         they were executed in; and of SC accesses (not of SC fences) what RC11 allows beyond an
 *         order that agrees with every read.
 *
 * Searches
 *   dfs     exhaustive, with source sets and sleep sets: one complete run for each class of
 *           equivalent orders.  With --bound N: at most N preemptions, without either.
 *   plain   the same with sleep sets alone, to check that source sets lose nothing.
 *   pct:D   random priorities with D-1 change points; --runs and --seed.
 *   random  a uniform choice at each step; --runs and --seed.
 *
 * What counts as a failure: MODEL_REQUIRE or an assertion of the code, a data race, use of freed or
 * uninitialised memory, a leak, a deadlock (also a lost wake-up), a run that does not end.
 */
#ifndef MODEL_H
#define MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum model_memory { MODEL_SC, MODEL_TSO, MODEL_VIEW, MODEL_MEMORIES };

/* What the search is expected to find; a litmus test of a weak behaviour expects a failure. */
enum model_verdict { MODEL_HOLDS, MODEL_FAILS };

struct model_test {
    const char *name;
    /* before the threads; resets everything: a run may be abandoned at any step, with any values in
     * its statics; may be NULL */
    void (*setup)(void);
    void (*threads[MODEL_THREADS_MAX])(void);
    const char *names[MODEL_THREADS_MAX]; /* for traces; NULL: T0, T1, ... */
    void (*check)(void);                  /* after all threads; frees the rest */
    uint8_t may_rest; /* threads may be asleep at the end; check() decides whether they should */
    enum model_verdict expect[MODEL_MEMORIES];
    unsigned bound[MODEL_MEMORIES]; /* preemption bound plus 1; 0: none, exhaust it */
    uint8_t is_slow;                /* excluded from mutant runs: too long to repeat for each */
    uint8_t spurious_wakes;         /* number of times that futex waits may return without a wake */
    /* under tso it drains the buffers of other threads, which the reduction by races does not
     * support: searched without it */
    uint8_t has_barrier;
};

/* A mutant that no test can distinguish from the original, and the reason. */
struct model_equivalent {
    const char *mutant;
    const char *reason;
};

struct model_suite {
    const char *name;
    const struct model_test *tests;
    size_t test_count;
    const struct model_equivalent *equivalents;
    size_t equivalent_count;
    const char *mutated; /* sources or folders to mutate, with spaces; NULL: all under test */
};

int model_main(int argc, char **argv, const struct model_suite *suite);

/* In a thread or in check(): ends the run as failed. */
#define MODEL_REQUIRE(c) ((c) ? (void)0 : model_fail("%s:%d: %s", __FILE__, __LINE__, #c))

/* In a thread: its index in the test, from 0. */
unsigned model_thread(void);

/* A choice that the search explores, 0 to count - 1. */
unsigned model_choose(unsigned count);

#define MODEL_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
