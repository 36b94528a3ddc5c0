/* SPDX-License-Identifier: MIT */
/*
 * Goal:   every block comes from the installed allocator, is counted, and can be refused.
 * Method: allocators that record the requests they get; the counters before and after; the n-th
 *         allocation fails, for each n.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/base.h"
#include "helpers.h"

static struct wf_alloc_stats stats_now(void)
{
    struct wf_alloc_stats stats;
    wf_alloc_stats(&stats);
    return stats;
}

/* ---- libc's allocator ---------------------------------------------------------------------- */

static void alloc_gives_writable_blocks_and_counts_them(void)
{
    enum { BLOCKS = 100 };
    void *blocks[BLOCKS];
    const struct wf_alloc_stats before = stats_now();
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = wf_alloc(i * 7); /* includes size 0 */
        CHECK(blocks[i] != NULL);
        CHECK_EQ((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
        memset(blocks[i], 0xa5, i == 0 ? 1 : i * 7);
    }
    CHECK_EQ(stats_now().allocated - before.allocated, BLOCKS);
    CHECK_EQ(stats_now().freed, before.freed);
    for (size_t i = 0; i < BLOCKS; i++) {
        wf_free(blocks[i]);
    }
    CHECK_EQ(stats_now().freed - before.freed, BLOCKS);
    CHECK_EQ(stats_now().refused, before.refused);
}

static void alloc_zeroed_clears_reused_blocks(void)
{
    const size_t count = 33;
    const size_t size = 7;
    for (int round = 0; round < 100; round++) {
        unsigned char *block = wf_alloc_zeroed(count, size);
        CHECK(block != NULL);
        for (size_t i = 0; i < count * size; i++) {
            CHECK_EQ(block[i], 0);
        }
        memset(block, 0xa5, count * size);
        wf_free(block);
    }
    void *empty = wf_alloc_zeroed(0, size);
    CHECK(empty != NULL);
    wf_free(empty);
}

static void alloc_zeroed_refuses_count_times_size_overflow(void)
{
    const struct wf_alloc_stats before = stats_now();
    /* volatile: the compiler would see the overflow and warn */
    volatile size_t half = SIZE_MAX / 2;
    CHECK(wf_alloc_zeroed(half + 2, 2) == NULL);
    CHECK(wf_alloc_zeroed(2, half + 2) == NULL);
    CHECK(wf_alloc_zeroed(SIZE_MAX, SIZE_MAX) == NULL);
    CHECK_EQ(stats_now().refused - before.refused, 3);
    CHECK_EQ(stats_now().allocated, before.allocated);
}

static void alloc_aligned_keeps_every_power_of_two(void)
{
    for (size_t alignment = 1; alignment <= 1u << 16; alignment *= 2) {
        void *block = wf_alloc_aligned(alignment, 3);
        CHECK(block != NULL);
        CHECK_EQ((uintptr_t)block % alignment, 0);
        memset(block, 0xa5, 3);
        wf_free(block);
    }
}

static void free_accepts_null(void)
{
    const struct wf_alloc_stats before = stats_now();
    wf_free(NULL);
    CHECK_EQ(stats_now().freed, before.freed);
}

static void align_to_three(void)
{
    wf_free(wf_alloc_aligned(3, 8));
}

static void align_to_zero(void)
{
    wf_free(wf_alloc_aligned(0, 8));
}

static void alloc_aligned_asserts_power_of_two_alignment(void)
{
    void (*const runs[])(void) = {align_to_three, align_to_zero};
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        char text[1024];
        int status = tap_run_child(runs[i], text, sizeof(text));
        if (HAS_ASSERTS) {
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
            CHECK(strstr(text, "wf_is_power_of_two(alignment)") != NULL);
        } else {
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
    }
}

/* ---- a custom allocator -------------------------------------------------------------------- */

static size_t last_alignment;
static size_t last_size;
static int hook_allocs;
static int hook_frees;

static void *recording_alloc(size_t alignment, size_t size)
{
    last_alignment = alignment;
    last_size = size;
    hook_allocs++;
    return malloc(size);
}

static void recording_free(void *memory)
{
    hook_frees++;
    free(memory);
}

static void *refusing_alloc(size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    hook_allocs++;
    return NULL;
}

static const struct wf_allocator recording_allocator = {recording_alloc, recording_free};
static const struct wf_allocator refusing_allocator = {refusing_alloc, recording_free};

static void allocator_hook_receives_alignment_and_size(void)
{
    CHECK_EQ(wf_allocator_set(&recording_allocator), 0);
    void *a = wf_alloc(10);
    CHECK_EQ(last_alignment, _Alignof(max_align_t));
    CHECK_EQ(last_size, 10);
    void *b = wf_alloc_aligned(64, 0);
    CHECK_EQ(last_alignment, 64);
    CHECK_EQ(last_size, 1); /* never 0: allocators differ in what they return for size 0 */
    void *c = wf_alloc_zeroed(3, 5);
    CHECK_EQ(last_size, 15);
    CHECK_EQ(hook_allocs, 3);
    wf_free(a);
    wf_free(b);
    wf_free(c);
    wf_free(NULL);
    CHECK_EQ(hook_frees, 3);
}

static void allocator_set_fails_while_blocks_are_live(void)
{
    void *block = wf_alloc(1);
    CHECK(block != NULL);
    CHECK_EQ(wf_allocator_set(&recording_allocator), -EBUSY);
    wf_free(block);
    CHECK_EQ(hook_frees, 0); /* the block went back to the allocator that it came from */
    CHECK_EQ(wf_allocator_set(&recording_allocator), 0);
    block = wf_alloc(1);
    CHECK_EQ(wf_allocator_set(NULL), -EBUSY);
    wf_free(block);
    CHECK_EQ(wf_allocator_set(NULL), 0);
    wf_free(wf_alloc(1));
    CHECK_EQ(hook_allocs, 1);
    CHECK_EQ(hook_frees, 1);
}

static void allocator_refusal_gives_null_and_is_counted(void)
{
    const struct wf_alloc_stats before = stats_now();
    CHECK_EQ(wf_allocator_set(&refusing_allocator), 0);
    CHECK(wf_alloc(1) == NULL);
    CHECK(wf_alloc_zeroed(1, 1) == NULL);
    CHECK(wf_alloc_aligned(64, 1) == NULL);
    CHECK_EQ(hook_allocs, 3);
    CHECK_EQ(stats_now().refused - before.refused, 3);
    CHECK_EQ(stats_now().allocated, before.allocated);
    CHECK_EQ(wf_allocator_set(NULL), 0); /* no block is live */
}

/* ---- threads and injected failures --------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 2000 };

static void *alloc_and_free(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        int *block = wf_alloc(sizeof(*block));
        CHECK(block != NULL);
        *block = i;
        wf_free(block);
    }
    return arg;
}

static void alloc_stats_are_exact_across_threads(void)
{
    pthread_t threads[THREADS];
    const struct wf_alloc_stats before = stats_now();
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, alloc_and_free, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(stats_now().allocated - before.allocated, THREADS * ROUNDS);
    CHECK_EQ(stats_now().freed - before.freed, THREADS * ROUNDS);
}

#ifdef WF_TEST_HOOKS
static void alloc_fault_hits_every_nth_allocation(void)
{
    enum { BLOCKS = 6 };
    for (uint64_t nth = 1; nth <= BLOCKS; nth++) {
        const struct wf_alloc_stats before = stats_now();
        void *blocks[BLOCKS];
        wf_fault_arm(nth);
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = i % 3 == 0   ? wf_alloc(1)
                        : i % 3 == 1 ? wf_alloc_zeroed(1, 1)
                                     : wf_alloc_aligned(64, 1);
            CHECK_EQ(blocks[i] == NULL, i + 1 == nth);
        }
        const char *what;
        CHECK(wf_fault_hit(&what));
        CHECK_STR(what, "alloc");
        CHECK_EQ(stats_now().refused - before.refused, 1);
        CHECK_EQ(stats_now().allocated - before.allocated, BLOCKS - 1);
        for (size_t i = 0; i < BLOCKS; i++) {
            wf_free(blocks[i]);
        }
    }
}
#endif

static const struct tap_test tests[] = {
    TAP_TEST(alloc_gives_writable_blocks_and_counts_them),
    TAP_TEST(alloc_zeroed_clears_reused_blocks),
    TAP_TEST(alloc_zeroed_refuses_count_times_size_overflow),
    TAP_TEST(alloc_aligned_keeps_every_power_of_two),
    TAP_TEST(free_accepts_null),
    TAP_TEST(alloc_aligned_asserts_power_of_two_alignment),
    TAP_TEST(allocator_hook_receives_alignment_and_size),
    TAP_TEST(allocator_set_fails_while_blocks_are_live),
    TAP_TEST(allocator_refusal_gives_null_and_is_counted),
    TAP_TEST(alloc_stats_are_exact_across_threads),
#ifdef WF_TEST_HOOKS
    TAP_TEST(alloc_fault_hits_every_nth_allocation),
#endif
};
TAP_MAIN(tests)
