/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the checker reports what each memory model allows, no more and no less.
 * Method: the classic litmus tests; `check` forbids the weak outcome, so a model that allows it
 *         fails.  The verdicts are those of C11 (RC11), x86 and sequential consistency.
 */
#include "model/model.h"
#include "os/os.h"

static WF_ATOMIC(int) x;
static WF_ATOMIC(int) y;
static WF_ATOMIC(int) z;
static int plain;
static int r1, r2, r3, r4;

static void clear(void)
{
    wf_store_relaxed(&x, 0);
    wf_store_relaxed(&y, 0);
    wf_store_relaxed(&z, 0);
    plain = 0;
    r1 = r2 = r3 = r4 = -1;
}

/* SB, store buffering: may both threads miss the other's store? */
static void sb_check(void)
{
    MODEL_REQUIRE(!(r1 == 0 && r2 == 0));
}

#define SB(suffix, store, between, load)                                                           \
    static void sb_##suffix##_0(void)                                                              \
    {                                                                                              \
        store(&x, 1);                                                                              \
        between;                                                                                   \
        r1 = load(&y);                                                                             \
    }                                                                                              \
    static void sb_##suffix##_1(void)                                                              \
    {                                                                                              \
        store(&y, 1);                                                                              \
        between;                                                                                   \
        r2 = load(&x);                                                                             \
    }
SB(relaxed, wf_store_relaxed, (void)0, wf_load_relaxed)
SB(ra, wf_store_release, (void)0, wf_load_acquire)
SB(sc, wf_store_seq_cst, (void)0, wf_load_seq_cst)
SB(fence, wf_store_relaxed, wf_fence_seq_cst(), wf_load_relaxed)
SB(store_sc, wf_store_seq_cst, (void)0, wf_load_acquire)
SB(rmw, (void)wf_exchange_acq_rel, (void)0, wf_load_acquire)

/* A barrier is a fence for the other threads too; but two light fences are none. */
SB(light, wf_store_relaxed, wf_fence_light(), wf_load_relaxed)
SB(barrier, wf_store_relaxed, (void)wf_barrier_everywhere(), wf_load_relaxed)

/* A barrier does not wait for later stores, and is no fence between these and a load. */
static void before_barrier(void)
{
    r1 = wf_load_relaxed(&z);
    wf_store_relaxed(&x, 1);
    r2 = wf_load_relaxed(&y);
}

static void barrier_early(void)
{
    (void)wf_exchange_acq_rel(&z, 1);
    (void)wf_barrier_everywhere();
    wf_store_relaxed(&y, 1);
    r3 = wf_load_relaxed(&x);
}

static void late_check(void)
{
    MODEL_REQUIRE(!(r1 == 0 && r2 == 0 && r3 == 0));
}

/* SB with an SC access in one thread and a fence in the other: both take part in one order. */
static void sb_mixed_0(void)
{
    wf_store_seq_cst(&x, 1);
    r1 = wf_load_seq_cst(&y);
}

/* MP, message passing: does the flag publish the data? */
static void mp_check(void)
{
    MODEL_REQUIRE(!(r1 == 1 && r2 == 0));
}

#define MP(suffix, store, load)                                                                    \
    static void mp_##suffix##_0(void)                                                              \
    {                                                                                              \
        wf_store_relaxed(&x, 1);                                                                   \
        store(&y, 1);                                                                              \
    }                                                                                              \
    static void mp_##suffix##_1(void)                                                              \
    {                                                                                              \
        r1 = load(&y);                                                                             \
        r2 = wf_load_relaxed(&x);                                                                  \
    }
MP(relaxed, wf_store_relaxed, wf_load_relaxed)
MP(release, wf_store_release, wf_load_relaxed)
MP(acquire, wf_store_relaxed, wf_load_acquire)
MP(ra, wf_store_release, wf_load_acquire)

static void mp_fence_0(void)
{
    wf_store_relaxed(&x, 1);
    wf_fence_seq_cst();
    wf_store_relaxed(&y, 1);
}

static void mp_fence_1(void)
{
    r1 = wf_load_relaxed(&y);
    wf_fence_seq_cst();
    r2 = wf_load_relaxed(&x);
}

/* MP with plain data: an acquire orders it, anything less is a race. */
static void plain_release(void)
{
    wf_plain_store(&plain, 1);
    wf_store_release(&y, 1);
}

static void plain_relaxed(void)
{
    wf_plain_store(&plain, 1);
    wf_store_relaxed(&y, 1);
}

static void plain_acquire(void)
{
    if (wf_load_acquire(&y) == 1) {
        r1 = wf_plain_load(&plain);
        MODEL_REQUIRE(r1 == 1);
    }
}

static void plain_unordered(void)
{
    (void)wf_load_acquire(&y);
    r1 = wf_plain_load(&plain);
}

/* A release sequence: a relaxed read-modify-write in between continues it, a relaxed store does
 * not. */
static void sequence_rmw(void)
{
    if (wf_load_relaxed(&y) == 1) {
        (void)wf_fetch_add_relaxed(&y, 1);
    }
}

static void sequence_store(void)
{
    if (wf_load_relaxed(&y) == 1) {
        wf_store_relaxed(&y, 2);
    }
}

static void sequence_end(void)
{
    if (wf_load_acquire(&y) == 2) {
        r1 = wf_plain_load(&plain);
    }
}

/* IRIW: may two readers see two independent stores in opposite orders? */
static void iriw_check(void)
{
    MODEL_REQUIRE(!(r1 == 1 && r2 == 0 && r3 == 1 && r4 == 0));
}

static void store_x(void)
{
    wf_store_release(&x, 1);
}

static void store_y(void)
{
    wf_store_release(&y, 1);
}

static void iriw_ra_2(void)
{
    r1 = wf_load_acquire(&x);
    r2 = wf_load_acquire(&y);
}

static void iriw_ra_3(void)
{
    r3 = wf_load_acquire(&y);
    r4 = wf_load_acquire(&x);
}

static void store_x_sc(void)
{
    wf_store_seq_cst(&x, 1);
}

static void store_y_sc(void)
{
    wf_store_seq_cst(&y, 1);
}

static void iriw_sc_2(void)
{
    r1 = wf_load_seq_cst(&x);
    r2 = wf_load_seq_cst(&y);
}

static void iriw_sc_3(void)
{
    r3 = wf_load_seq_cst(&y);
    r4 = wf_load_seq_cst(&x);
}

static void iriw_fence_2(void)
{
    r1 = wf_load_relaxed(&x);
    wf_fence_seq_cst();
    r2 = wf_load_relaxed(&y);
}

static void iriw_fence_3(void)
{
    r3 = wf_load_relaxed(&y);
    wf_fence_seq_cst();
    r4 = wf_load_relaxed(&x);
}

/* CoRR: all threads read one cell in one order, whatever the memory orders. */
static void corr_0(void)
{
    wf_store_relaxed(&x, 1);
    wf_store_relaxed(&x, 2);
}

static void corr_1(void)
{
    r1 = wf_load_relaxed(&x);
    r2 = wf_load_relaxed(&x);
}

static void corr_check(void)
{
    MODEL_REQUIRE(r1 <= r2);
}

/* Atomicity: two increments are two. */
static void add_one(void)
{
    (void)wf_fetch_add_relaxed(&x, 1);
}

static void add_check(void)
{
    MODEL_REQUIRE(wf_load_relaxed(&x) == 2);
}

/* WRC: a message passed on by a second thread still publishes the first thread's store. */
static void wrc_1(void)
{
    if (wf_load_acquire(&x) == 1) {
        wf_store_release(&y, 1);
    }
}

static void wrc_2(void)
{
    r1 = wf_load_acquire(&y);
    r2 = wf_load_relaxed(&x);
}

/* LB, load buffering: allowed by C11, found on ARM, outside this checker's view model. */
static void lb_0(void)
{
    r1 = wf_load_relaxed(&x);
    wf_store_relaxed(&y, 1);
}

static void lb_1(void)
{
    r2 = wf_load_relaxed(&y);
    wf_store_relaxed(&x, 1);
}

static void lb_check(void)
{
    MODEL_REQUIRE(!(r1 == 1 && r2 == 1));
}

#define HOLDS                                                                                      \
    {                                                                                              \
        MODEL_HOLDS, MODEL_HOLDS, MODEL_HOLDS                                                      \
    }
#define WEAK_ON_X86                                                                                \
    {                                                                                              \
        MODEL_HOLDS, MODEL_FAILS, MODEL_FAILS                                                      \
    }
#define WEAK_IN_C11                                                                                \
    {                                                                                              \
        MODEL_HOLDS, MODEL_HOLDS, MODEL_FAILS                                                      \
    }
#define RACE                                                                                       \
    {                                                                                              \
        MODEL_FAILS, MODEL_FAILS, MODEL_FAILS                                                      \
    }

static const struct model_test tests[] = {
    {"SB relaxed",
     clear,
     {sb_relaxed_0, sb_relaxed_1},
     {0},
     sb_check,
     0,
     WEAK_ON_X86,
     {0},
     0,
     0,
     0},
    {"SB release/acquire", clear, {sb_ra_0, sb_ra_1}, {0}, sb_check, 0, WEAK_ON_X86, {0}, 0, 0, 0},
    {"SB seq_cst", clear, {sb_sc_0, sb_sc_1}, {0}, sb_check, 0, HOLDS, {0}, 0, 0, 0},
    {"SB fences", clear, {sb_fence_0, sb_fence_1}, {0}, sb_check, 0, HOLDS, {0}, 0, 0, 0},
    {"SB light fences",
     clear,
     {sb_light_0, sb_light_1},
     {0},
     sb_check,
     0,
     WEAK_ON_X86,
     {0},
     0,
     0,
     0},
    {.name = "SB barrier, light fence",
     .setup = clear,
     .threads = {sb_barrier_0, sb_light_1},
     .check = sb_check,
     .has_barrier = 1},
    {.name = "SB light fence, barrier",
     .setup = clear,
     .threads = {sb_light_0, sb_barrier_1},
     .check = sb_check,
     .has_barrier = 1},
    {.name = "SB behind an early barrier",
     .setup = clear,
     .threads = {before_barrier, barrier_early},
     .check = late_check,
     .expect = {MODEL_HOLDS, MODEL_FAILS, MODEL_FAILS},
     .has_barrier = 1},
    {"SB light fence, fence",
     clear,
     {sb_light_0, sb_fence_1},
     {0},
     sb_check,
     0,
     WEAK_ON_X86,
     {0},
     0,
     0,
     0},
    {"SB seq_cst store, acquire load",
     clear,
     {sb_store_sc_0, sb_store_sc_1},
     {0},
     sb_check,
     0,
     WEAK_IN_C11,
     {0},
     0,
     0,
     0},
    {"SB acq_rel exchange",
     clear,
     {sb_rmw_0, sb_rmw_1},
     {0},
     sb_check,
     0,
     WEAK_IN_C11,
     {0},
     0,
     0,
     0},
    {"SB seq_cst against fence",
     clear,
     {sb_mixed_0, sb_fence_1},
     {0},
     sb_check,
     0,
     HOLDS,
     {0},
     0,
     0,
     0},
    {"MP relaxed",
     clear,
     {mp_relaxed_0, mp_relaxed_1},
     {0},
     mp_check,
     0,
     WEAK_IN_C11,
     {0},
     0,
     0,
     0},
    {"MP release only",
     clear,
     {mp_release_0, mp_release_1},
     {0},
     mp_check,
     0,
     WEAK_IN_C11,
     {0},
     0,
     0,
     0},
    {"MP acquire only",
     clear,
     {mp_acquire_0, mp_acquire_1},
     {0},
     mp_check,
     0,
     WEAK_IN_C11,
     {0},
     0,
     0,
     0},
    {"MP release/acquire", clear, {mp_ra_0, mp_ra_1}, {0}, mp_check, 0, HOLDS, {0}, 0, 0, 0},
    {"MP fences", clear, {mp_fence_0, mp_fence_1}, {0}, mp_check, 0, HOLDS, {0}, 0, 0, 0},
    {"MP plain data, ordered",
     clear,
     {plain_release, plain_acquire},
     {0},
     NULL,
     0,
     HOLDS,
     {0},
     0,
     0,
     0},
    {"MP plain data, relaxed flag",
     clear,
     {plain_relaxed, plain_acquire},
     {0},
     NULL,
     0,
     WEAK_IN_C11,
     {0},
     0,
     0,
     0},
    {"MP plain data, flag ignored",
     clear,
     {plain_release, plain_unordered},
     {0},
     NULL,
     0,
     RACE,
     {0},
     0,
     0,
     0},
    {"release sequence by RMW",
     clear,
     {plain_release, sequence_rmw, sequence_end},
     {0},
     NULL,
     0,
     HOLDS,
     {0},
     0,
     0,
     0},
    {"release sequence broken by store",
     clear,
     {plain_release, sequence_store, sequence_end},
     {0},
     NULL,
     0,
     WEAK_IN_C11,
     {0},
     0,
     0,
     0},
    {"IRIW release/acquire",
     clear,
     {store_x, store_y, iriw_ra_2, iriw_ra_3},
     {0},
     iriw_check,
     0,
     WEAK_IN_C11,
     {0},
     0,
     0,
     0},
    {"IRIW seq_cst",
     clear,
     {store_x_sc, store_y_sc, iriw_sc_2, iriw_sc_3},
     {0},
     iriw_check,
     0,
     HOLDS,
     {0},
     0,
     0,
     0},
    {"IRIW fences",
     clear,
     {store_x, store_y, iriw_fence_2, iriw_fence_3},
     {0},
     iriw_check,
     0,
     HOLDS,
     {0},
     0,
     0,
     0},
    {"CoRR", clear, {corr_0, corr_1}, {0}, corr_check, 0, HOLDS, {0}, 0, 0, 0},
    {"WRC release/acquire", clear, {store_x, wrc_1, wrc_2}, {0}, mp_check, 0, HOLDS, {0}, 0, 0, 0},
    {"RMW atomicity", clear, {add_one, add_one}, {0}, add_check, 0, HOLDS, {0}, 0, 0, 0},
    {"LB (not covered by view)", clear, {lb_0, lb_1}, {0}, lb_check, 0, HOLDS, {0}, 0, 0, 0},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"litmus", tests, MODEL_COUNT(tests), NULL, 0, NULL};
    return model_main(argc, argv, &suite);
}
