/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the deque gives its owner the newest item and a thief the oldest, grows without losing an
 *         item or a buffer, and survives every refused allocation.
 * Method: first in one thread; then one operation stopped after each of its instructions while
 *         another happens (step.h); then real threads that steal while the owner makes the deque
 *         grow.  More threads race in test_ledger.c.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <string.h>

#include "items.h"
#include "marks.h"
#include "queue/queue.h"
#include "step.h"
#include "tap.h"

enum {
    SMALLEST = WF_DEQUE_CAPACITY_MIN,
    ITEMS = 1024,
    /* one trap per instruction, and traps are slow on some virtual machines */
    LIMIT_STEPPED_S = 120,
};

static struct item items[ITEMS];

static void init(struct wf_deque *deque)
{
    CHECK_EQ(wf_deque_init(deque, SMALLEST), 0);
}

static void fill(struct wf_deque *deque, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        CHECK_EQ(wf_deque_push(deque, item_node(items, i)), 0);
    }
}

/* The index of the item that a thief got; -1 for none. */
static int64_t stolen_index(struct wf_deque *deque)
{
    struct wf_node *node = NULL;
    enum wf_steal result = wf_deque_steal(deque, &node);
    CHECK_EQ(result, node != NULL ? WF_STEAL_TAKEN : WF_STEAL_EMPTY);
    return item_index(node);
}

static void check_pops(struct wf_deque *deque, size_t from, size_t to)
{
    for (size_t i = to; i > from; i--) {
        CHECK_EQ(item_index(wf_deque_pop(deque)), i - 1);
    }
    CHECK(wf_deque_pop(deque) == NULL);
}

/* An empty deque whose first item lies at `position`. */
static void init_at(struct wf_deque *deque, wf_deque_pos position)
{
    init(deque);
    wf_store_relaxed(&deque->top, position);
    wf_store_relaxed(&deque->bottom, position);
}

static uint64_t blocks_out(void)
{
    struct wf_alloc_stats stats;
    wf_alloc_stats(&stats);
    return stats.allocated - stats.freed;
}

static uint64_t blocks_allocated(void)
{
    struct wf_alloc_stats stats;
    wf_alloc_stats(&stats);
    return stats.allocated;
}

/* ---- single thread ------------------------------------------------------------------------- */

/* part of S0.13 (the local queue is LIFO), S2.22 (push and pop), S2.40 (newest first, empty), part
 * of S3.7, part of S3.10: tests/unit/sched/test_order.c shows how a worker uses it */
static void deque_pop_returns_the_newest(void)
{
    struct wf_deque deque;
    init(&deque);
    CHECK(wf_deque_pop(&deque) == NULL);
    CHECK_EQ(wf_deque_count(&deque), 0);
    fill(&deque, 0, 5);
    CHECK_EQ(wf_deque_count(&deque), 5);
    CHECK_EQ(item_index(wf_deque_pop(&deque)), 4);
    fill(&deque, 5, 7);
    CHECK_EQ(item_index(wf_deque_pop(&deque)), 6);
    CHECK_EQ(item_index(wf_deque_pop(&deque)), 5);
    check_pops(&deque, 0, 4);
    CHECK_EQ(wf_deque_count(&deque), 0);
    wf_deque_done(&deque);
}

/* S0.15 (the victim's FIFO end), S2.13 (three tasks: the thief gets the first, the owner continues
 * with the third), S2.40 (oldest stolen); S3.14 (thieves take at the top) */
static void deque_steal_returns_the_oldest(void)
{
    struct wf_deque deque;
    init(&deque);
    CHECK_EQ(stolen_index(&deque), -1);
    fill(&deque, 0, 3);
    CHECK_EQ(stolen_index(&deque), 0);
    CHECK_EQ(item_index(wf_deque_pop(&deque)), 2);
    CHECK_EQ(stolen_index(&deque), 1);
    CHECK_EQ(stolen_index(&deque), -1);
    CHECK(wf_deque_pop(&deque) == NULL);
    fill(&deque, 3, 4);
    CHECK_EQ(stolen_index(&deque), 3);
    wf_deque_done(&deque);
}

/* S2.14 (only one end is synchronised); S3.13, S3.14 (the owner writes bottom, thieves write
 * top) */
static void deque_owner_writes_bottom_thieves_write_top(void)
{
    struct wf_deque deque;
    init(&deque);
    fill(&deque, 0, 10);
    CHECK_EQ(wf_load_relaxed(&deque.top), 0);
    CHECK_EQ(wf_load_relaxed(&deque.bottom), 10);
    for (wf_deque_pos left = 10; left > 5; left--) {
        CHECK(wf_deque_pop(&deque) != NULL);
        CHECK_EQ(wf_load_relaxed(&deque.top), 0);
    }
    for (wf_deque_pos taken = 1; taken <= 4; taken++) {
        CHECK(stolen_index(&deque) >= 0);
        CHECK_EQ(wf_load_relaxed(&deque.bottom), 5);
        CHECK_EQ(wf_load_relaxed(&deque.top), taken);
    }
    /* the owner takes only the last item at the thieves' end */
    CHECK(wf_deque_pop(&deque) != NULL);
    CHECK_EQ(wf_load_relaxed(&deque.top), 5);
    CHECK_EQ(wf_load_relaxed(&deque.bottom), 5);
    CHECK_EQ(alignof(struct wf_deque), WF_CACHE_LINE);
    CHECK_EQ(offsetof(struct wf_deque, bottom) % WF_CACHE_LINE, 0);
    CHECK(offsetof(struct wf_deque, top) != offsetof(struct wf_deque, bottom));
    wf_deque_done(&deque);
}

/* Fills from SMALLEST slots through all doublings; the first items lie `offset` slots from the
 * buffer's start, so that each copy has a wrap in its middle. */
static void check_growth(wf_deque_pos offset)
{
    struct wf_deque deque;
    init_at(&deque, offset);
    uint64_t allocated = blocks_allocated();
    fill(&deque, 0, ITEMS);
    unsigned doublings = 0;
    for (size_t capacity = SMALLEST; capacity < ITEMS; capacity *= 2) {
        doublings++;
    }
    CHECK_EQ(blocks_allocated() - allocated, doublings);
    CHECK_EQ(wf_deque_count(&deque), ITEMS);
    for (size_t i = 0; i < ITEMS / 2; i++) {
        CHECK_EQ(stolen_index(&deque), i);
    }
    check_pops(&deque, ITEMS / 2, ITEMS);
    wf_deque_done(&deque);
}

/* S0.24, S3.13 (growable); part of behaviour 7 (buffers are freed) */
static void deque_growth_keeps_every_item_in_place(void)
{
    uint64_t before = blocks_out();
    for (wf_deque_pos offset = 0; offset <= SMALLEST; offset++) {
        check_growth(offset);
    }
    CHECK_EQ(blocks_out(), before);
}

static void deque_positions_wrap_around(void)
{
    for (wf_deque_pos before = 0; before <= ITEMS; before += 7) {
        check_growth((wf_deque_pos)0 - before);
        check_growth(((wf_deque_pos)1 << 63) - before);
        check_growth(((wf_deque_pos)1 << 32) - before);
    }
}

/* A worker that always has a few items never makes its deque grow, however many items pass
 * through. */
static void deque_with_free_slots_never_allocates(void)
{
    struct wf_deque deque;
    init(&deque);
    uint64_t allocated = blocks_allocated();
    fill(&deque, 0, SMALLEST - 1);
    for (size_t i = SMALLEST - 1; i < ITEMS; i++) {
        fill(&deque, i, i + 1);
        CHECK_EQ(stolen_index(&deque), i - (SMALLEST - 1));
    }
    CHECK_EQ(blocks_allocated(), allocated);
    check_pops(&deque, ITEMS - (SMALLEST - 1), ITEMS);
    wf_deque_done(&deque);
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void deque_init_refuses_invalid_sizes(void)
{
    const size_t sizes[] = {
        0, 1, 3, 8, SMALLEST - 1, SMALLEST + 1, 24, (size_t)WF_DEQUE_CAPACITY_MAX * 2, SIZE_MAX};
    uint64_t allocated = blocks_allocated();
    struct wf_deque deque;
    struct wf_deque untouched;
    memset(&deque, 0x5a, sizeof(deque));
    memcpy(&untouched, &deque, sizeof(deque));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        CHECK_EQ(wf_deque_init(&deque, sizes[i]), -EINVAL);
        CHECK(memcmp(&deque, &untouched, sizeof(deque)) == 0);
    }
    CHECK_EQ(blocks_allocated(), allocated);
    CHECK_EQ(wf_deque_init(&deque, 2 * (size_t)SMALLEST), 0);
    wf_deque_done(&deque);
}

/* The positions say that the largest deque is full; its gigabyte is never touched. */
static void deque_at_its_limit_refuses_to_grow(void)
{
    struct wf_deque deque;
    if (wf_deque_init(&deque, WF_DEQUE_CAPACITY_MAX) == -ENOMEM) {
        tap_skip("no address space for the largest deque");
    }
    uint64_t allocated = blocks_allocated();
    wf_store_relaxed(&deque.bottom, WF_DEQUE_CAPACITY_MAX);
    CHECK_EQ(wf_deque_push(&deque, item_node(items, 0)), -ENOMEM);
    CHECK_EQ(wf_load_relaxed(&deque.bottom), WF_DEQUE_CAPACITY_MAX);
    CHECK_EQ(blocks_allocated(), allocated);
    wf_store_relaxed(&deque.bottom, 0);
    wf_deque_done(&deque);
}

static void require_faults(void)
{
#ifndef WF_TEST_HOOKS
    tap_skip("this build has no fault points");
#endif
}

/* The n-th allocation fails; the deque is unchanged and continues to work.  Returns the number of
 * failures. */
static unsigned check_failing_allocation(uint64_t nth)
{
    struct wf_deque deque;
    unsigned refusals = 0;
    wf_fault_arm(nth);
    int rc = wf_deque_init(&deque, SMALLEST);
    if (rc != 0) {
        CHECK_EQ(rc, -ENOMEM);
        refusals++;
        init(&deque);
    }
    for (size_t i = 0; i < ITEMS; i++) {
        rc = wf_deque_push(&deque, item_node(items, i));
        if (rc != 0) {
            CHECK_EQ(rc, -ENOMEM);
            CHECK_EQ(wf_deque_count(&deque), i);
            refusals++;
            fill(&deque, i, i + 1);
        }
    }
    CHECK_EQ(wf_fault_hit(NULL), refusals > 0);
    wf_fault_arm(0);
    for (size_t i = 0; i < ITEMS / 2; i++) {
        CHECK_EQ(stolen_index(&deque), i);
    }
    check_pops(&deque, ITEMS / 2, ITEMS);
    wf_deque_done(&deque);
    return refusals;
}

/* Every allocation fails once: the sweep ends at the first number that no call reaches. */
static void deque_survives_every_refused_allocation(void)
{
    require_faults();
    uint64_t before = blocks_out();
    uint64_t nth = 1;
    while (check_failing_allocation(nth) == 1) {
        nth++;
    }
    CHECK(nth > 6); /* the first buffer and six doublings */
    CHECK_EQ(blocks_out(), before);
    check_reached("deque.push_refused");
}

/* ---- stealing half ------------------------------------------------------------------------- */

/* A steal of `taken` items out of `count`: the steal returns the newest of the stolen items; the
 * others are behind it in the thief's deque. */
static void check_steal_half(size_t count, size_t taken)
{
    struct wf_deque from;
    struct wf_deque into;
    init(&from);
    init(&into);
    fill(&from, 0, count);
    CHECK_EQ(item_index(wf_deque_steal_half(&from, &into)), (int64_t)taken - 1);
    CHECK_EQ(wf_deque_count(&into), taken > 0 ? taken - 1 : 0);
    check_pops(&into, 0, taken > 0 ? taken - 1 : 0);
    check_pops(&from, taken, count);
    wf_deque_done(&from);
    wf_deque_done(&into);
}

/* part of behaviour 3; S3.15 kept differently: half, by one CAS per item, because one CAS over
 * several items is unsafe against an owner that pops LIFO */
static void deque_steal_half_rounds_up(void)
{
    const struct {
        size_t count;
        size_t taken;
    } table[] = {{0, 0}, {1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {255, 128}, {256, 128}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        check_steal_half(table[i].count, table[i].taken);
    }
}

static void deque_steal_half_takes_what_fits_if_it_cannot_grow(void)
{
    require_faults();
    for (size_t kept = SMALLEST - 2; kept <= SMALLEST; kept++) {
        struct wf_deque from;
        struct wf_deque into;
        init(&from);
        init(&into);
        fill(&from, 0, 100);
        fill(&into, 200, 200 + kept);
        wf_fault_arm(1);
        size_t taken = SMALLEST - kept + 1; /* the free slots, and one that is returned */
        CHECK_EQ(item_index(wf_deque_steal_half(&from, &into)), taken - 1);
        CHECK(wf_fault_hit(NULL));
        wf_fault_arm(0);
        for (size_t i = taken - 1; i > 0; i--) {
            CHECK_EQ(item_index(wf_deque_pop(&into)), i - 1);
        }
        check_pops(&into, 200, 200 + kept);
        check_pops(&from, taken, 100);
        wf_deque_done(&from);
        wf_deque_done(&into);
    }
    check_reached("deque.steal_half_without_room");
}

/* S2.25: as in the ring, stolen items are counted as stolen and not as pushed again */
static void deque_counters_add_up(void)
{
    struct wf_deque from;
    struct wf_deque into;
    struct wf_queue_stats stats;
    init(&from);
    init(&into);
    fill(&from, 0, 10);
    CHECK(wf_deque_pop(&from) != NULL);
    /* five of nine; four of these stay in the thief's deque */
    CHECK(wf_deque_steal_half(&from, &into) != NULL);
    CHECK(wf_deque_pop(&into) != NULL);
    wf_queue_stats_read(&from.counters, &stats);
    CHECK_EQ(stats.pushed, 10);
    CHECK_EQ(stats.popped, 1);
    CHECK_EQ(stats.stolen, 0);
    CHECK_EQ(stats.overflowed, 0);
    wf_queue_stats_read(&into.counters, &stats);
    CHECK_EQ(stats.pushed, 0);
    CHECK_EQ(stats.popped, 1);
    CHECK_EQ(stats.stolen, 5);
    CHECK_EQ(wf_deque_count(&from), 4);
    CHECK_EQ(wf_deque_count(&into), 3);
    check_pops(&into, 0, 3);
    check_pops(&from, 5, 9);
    CHECK(wf_deque_pop(&into) == NULL); /* empty: not counted */
    wf_queue_stats_read(&into.counters, &stats);
    CHECK_EQ(stats.popped, 4);
    wf_deque_done(&from);
    wf_deque_done(&into);
}

/* ---- one operation between any two instructions of another ---------------------------------- */

/* The items that one actor took; checked when all actors have ended. */
struct taker {
    struct wf_node *nodes[4 * SMALLEST];
    size_t count;
};

struct scene {
    struct wf_deque deque; /* the victim's */
    struct wf_deque mine;  /* of the thief that steals half */
    size_t pushed;
    struct taker owner;
    struct taker thief;
    struct taker second_thief;
};

static void keep(struct taker *taker, struct wf_node *node)
{
    if (node != NULL) {
        taker->nodes[taker->count++] = node;
    }
}

static void book(struct taker *taker)
{
    while (taker->count > 0) {
        (void)item_take(items, taker->nodes[--taker->count]);
    }
}

static void pop(void *context)
{
    struct scene *scene = context;
    keep(&scene->owner, wf_deque_pop(&scene->deque));
}

static void pop_three(void *context)
{
    pop(context);
    pop(context);
    pop(context);
}

static void push(void *context)
{
    struct scene *scene = context;
    CHECK_EQ(wf_deque_push(&scene->deque, item_node(items, scene->pushed)), 0);
    scene->pushed++;
}

static void steal(void *context)
{
    struct scene *scene = context;
    struct wf_node *node = NULL;
    (void)wf_deque_steal(&scene->deque, &node); /* lost or empty: node stays NULL */
    keep(&scene->thief, node);
}

static void steal_too(void *context)
{
    struct scene *scene = context;
    struct wf_node *node = NULL;
    (void)wf_deque_steal(&scene->deque, &node);
    keep(&scene->second_thief, node);
}

/* At least two doublings, with all operations of the owner in between. */
static void push_pop_and_grow(void *context)
{
    pop_three(context);
    for (size_t i = 0; i < 3 * SMALLEST; i++) {
        push(context);
    }
    pop_three(context);
}

/* Also empties the first buffer: a thief that still reads it reads stale items. */
static void grow_and_empty_the_first_buffer(void *context)
{
    push_pop_and_grow(context);
    for (size_t i = 0; i < 2 * SMALLEST; i++) {
        steal_too(context);
    }
}

static void steal_half(void *context)
{
    struct scene *scene = context;
    keep(&scene->thief, wf_deque_steal_half(&scene->deque, &scene->mine));
}

static void take_rest(struct wf_deque *deque)
{
    for (struct wf_node *node; (node = wf_deque_pop(deque)) != NULL;) {
        (void)item_take(items, node);
    }
    CHECK_EQ(wf_load_relaxed(&deque->top), wf_load_relaxed(&deque->bottom));
}

static void build_scene(struct scene *scene, size_t filled)
{
    *scene = (struct scene){.pushed = filled};
    for (size_t i = 0; i < ITEMS; i++) {
        wf_store_relaxed(&items[i].taken, 0);
    }
    init(&scene->deque);
    init(&scene->mine);
    fill(&scene->deque, 0, filled);
}

static void check_scene(struct scene *scene)
{
    book(&scene->owner);
    book(&scene->thief);
    book(&scene->second_thief);
    take_rest(&scene->deque);
    take_rest(&scene->mine);
    items_check_all_taken(items, scene->pushed);
    wf_deque_done(&scene->deque);
    wf_deque_done(&scene->mine);
}

/* With `filled` items in the deque, `op` is stopped after each of its instructions in turn while
 * `meanwhile` runs.  However they interleave, every item is taken once.  Deep in an operation,
 * inside the allocator, only every SPARSE_STEP-th instruction is tried. */
static void check_everywhere(size_t filled, step_fn op, step_fn meanwhile)
{
    enum { DENSE = 300, SPARSE_STEP = 61 };
    step_require();
    bool is_interrupted = true;
    for (uint64_t at = 1; is_interrupted; at += at < DENSE ? 1 : SPARSE_STEP) {
        static struct scene scene;
        build_scene(&scene, filled);
        is_interrupted = step_interrupt(at, op, meanwhile, &scene);
        check_scene(&scene);
        CHECK(is_interrupted || at > 1);
    }
}

/* Runs the operation once without interruption to measure its length. */
static uint64_t stride_of(size_t filled, step_fn op)
{
    static struct scene scene;
    build_scene(&scene, filled);
    uint64_t steps = step_count(op, &scene);
    check_scene(&scene);
    return step_stride(steps);
}

/* Both are stopped, after each pair of their instructions. */
static void check_every_pair(size_t filled, step_fn first, step_fn second)
{
    step_require();
    const uint64_t stride_first = stride_of(filled, first);
    const uint64_t stride_second = stride_of(filled, second);
    struct step_meeting meeting = {.is_inside_first = true};
    for (uint64_t at_first = 1; meeting.is_inside_first; at_first += stride_first) {
        meeting.is_inside_second = true;
        for (uint64_t at_second = 1; meeting.is_inside_second; at_second += stride_second) {
            static struct scene scene;
            build_scene(&scene, filled);
            meeting = step_interleave(at_first, first, at_second, second, &scene);
            check_scene(&scene);
        }
    }
}

/* part of behaviour 5, for every interleaving of the two; part of S3.10 */
static void deque_pop_and_steal_take_each_item_once(void)
{
    for (size_t filled = 1; filled <= 4; filled++) {
        check_everywhere(filled, pop, steal);
        check_everywhere(filled, steal, pop);
    }
}

/* The owner loses the last item only to a thief that saw it before the owner began, and takes it
 * before the owner ends. */
static void deque_pop_and_steal_both_preempted_take_each_item_once(void)
{
    check_every_pair(1, steal, pop);
    check_reached("deque.pop_lost_last");
}

/* S2.40 (concurrent steals); S3.14 (thieves by CAS) */
static void deque_two_steals_take_each_item_once(void)
{
    for (size_t filled = 1; filled <= 3; filled++) {
        check_everywhere(filled, steal, steal_too);
    }
    check_reached("deque.steal_lost");
}

/* part of behaviour 6; S3.15: a thief that steals half is preempted anywhere while the owner pops
 * into the half that the thief has seen; one CAS over that half would take an item twice */
static void deque_steal_half_and_pops_take_each_item_once(void)
{
    for (size_t filled = 1; filled <= 6; filled++) {
        check_everywhere(filled, steal_half, pop_three);
        check_everywhere(filled, pop, steal_half);
    }
}

/* S2.24: while one item is left, a thief that lost a race gets it; see also
 * ring_thief_retries_after_a_lost_race in test_ring.c and tests/unit/sched/test_search.c. */
static void deque_thief_retries_after_a_lost_race(void)
{
    step_require();
    const step_fn rivals[] = {steal_too, pop};
    for (size_t i = 0; i < 2 * 4; i++) {
        const size_t filled = 2 + i / 2;
        bool is_interrupted = true;
        for (uint64_t at = 1; is_interrupted; at++) {
            static struct scene scene;
            build_scene(&scene, filled);
            is_interrupted = step_interrupt(at, steal_half, rivals[i % 2], &scene);
            CHECK_EQ(scene.thief.count, 1);
            check_scene(&scene);
        }
    }
    check_reached("deque.steal_lost");
}

/* behaviour 7, for every interleaving of the two */
static void deque_growth_and_steal_take_each_item_once(void)
{
    check_everywhere(SMALLEST, push, steal);
    check_everywhere(SMALLEST, push, steal_half);
    check_everywhere(SMALLEST, steal, push_pop_and_grow);
    check_everywhere(1, steal, push_pop_and_grow);
    check_everywhere(SMALLEST, steal, grow_and_empty_the_first_buffer);
}

/* S2.37 (O(1)): the same instructions in a deque with two items and in one with a thousand */
static void deque_operations_take_a_fixed_number_of_steps(void)
{
    step_require();
    static struct scene scene;
    init(&scene.deque);
    fill(&scene.deque, 0, 2);
    scene.pushed = 2;
    const uint64_t push_steps = step_count(push, &scene);
    const uint64_t pop_steps = step_count(pop, &scene);
    const uint64_t steal_steps = step_count(steal, &scene);
    CHECK_EQ(wf_deque_count(&scene.deque), 1);
    fill(&scene.deque, 3, ITEMS - 1); /* 1021 in 1024 slots */
    scene.pushed = ITEMS - 1;
    CHECK_EQ(step_count(push, &scene), push_steps);
    CHECK_EQ(step_count(pop, &scene), pop_steps);
    CHECK_EQ(step_count(steal, &scene), steal_steps);
    take_rest(&scene.deque);
    wf_deque_done(&scene.deque);
}

/* ---- growth while real thieves steal -------------------------------------------------------- */

enum { GROWN = 1 << 16, PUSHES = 2 * GROWN + SMALLEST, THIEVES = 2 };

static struct {
    struct item *items;
    struct wf_deque deque;
    wf_atomic_u32 is_pushing; /* the thieves leave half of the items, so that the deque must grow */
    wf_atomic_u64 left;
} field;

static void *thief_main(void *arg)
{
    int64_t last = -1;
    while (wf_load_relaxed(&field.left) > 0) {
        wf_deque_pos taken = wf_load_relaxed(&field.deque.top);
        struct wf_node *node;
        if ((wf_load_relaxed(&field.is_pushing) && wf_deque_count(&field.deque) <= taken) ||
            wf_deque_steal(&field.deque, &node) != WF_STEAL_TAKEN) {
            (void)sched_yield();
            continue;
        }
        int64_t index = (int64_t)item_take(field.items, node);
        CHECK(index > last); /* every thief gets the oldest first */
        last = index;
        (void)wf_fetch_sub_relaxed(&field.left, 1);
    }
    return arg;
}

/* behaviour 7; S2.40 (many thieves) */
static void deque_grows_while_thieves_steal(void)
{
    uint64_t blocks = blocks_out();
    uint64_t allocated = blocks_allocated();
    pthread_t thieves[THIEVES];
    field.items = items_new(PUSHES);
    wf_store_relaxed(&field.is_pushing, 1);
    wf_store_relaxed(&field.left, PUSHES);
    init(&field.deque);
    for (int i = 0; i < THIEVES; i++) {
        CHECK_EQ(pthread_create(&thieves[i], NULL, thief_main, NULL), 0);
    }
    for (size_t i = 0; i < PUSHES; i++) {
        CHECK_EQ(wf_deque_push(&field.deque, item_node(field.items, i)), 0);
        /* Before each doubling the thieves must have stolen from the current buffer. */
        while (wf_is_power_of_two(i) && wf_load_relaxed(&field.deque.top) < i / 4) {
            (void)sched_yield();
        }
    }
    CHECK(wf_deque_count(&field.deque) > GROWN - THIEVES);
    wf_store_relaxed(&field.is_pushing, 0);
    for (struct wf_node *node; (node = wf_deque_pop(&field.deque)) != NULL;) {
        (void)item_take(field.items, node);
        (void)wf_fetch_sub_relaxed(&field.left, 1);
    }
    for (int i = 0; i < THIEVES; i++) {
        CHECK_EQ(pthread_join(thieves[i], NULL), 0);
    }
    items_check_all_taken(field.items, PUSHES);
    wf_deque_done(&field.deque);
    CHECK(blocks_allocated() - allocated > 12); /* at least from 2^4 to 2^16 slots */
    CHECK_EQ(blocks_out(), blocks);
    free(field.items);
}

static const struct tap_test tests[] = {
    TAP_TEST(deque_pop_returns_the_newest),
    TAP_TEST(deque_steal_returns_the_oldest),
    TAP_TEST(deque_owner_writes_bottom_thieves_write_top),
    TAP_TEST(deque_growth_keeps_every_item_in_place),
    TAP_TEST(deque_positions_wrap_around),
    TAP_TEST(deque_with_free_slots_never_allocates),
    TAP_TEST(deque_init_refuses_invalid_sizes),
    TAP_TEST(deque_at_its_limit_refuses_to_grow),
    TAP_TEST(deque_survives_every_refused_allocation),
    TAP_TEST(deque_steal_half_rounds_up),
    TAP_TEST(deque_steal_half_takes_what_fits_if_it_cannot_grow),
    TAP_TEST(deque_counters_add_up),
    TAP_TEST(deque_pop_and_steal_take_each_item_once),
    TAP_TEST_LIMIT(deque_pop_and_steal_both_preempted_take_each_item_once, LIMIT_STEPPED_S),
    TAP_TEST(deque_two_steals_take_each_item_once),
    TAP_TEST_LIMIT(deque_steal_half_and_pops_take_each_item_once, LIMIT_STEPPED_S),
    TAP_TEST_LIMIT(deque_thief_retries_after_a_lost_race, LIMIT_STEPPED_S),
    TAP_TEST_LIMIT(deque_growth_and_steal_take_each_item_once, LIMIT_STEPPED_S),
    TAP_TEST(deque_operations_take_a_fixed_number_of_steps),
    TAP_TEST(deque_grows_while_thieves_steal),
};
TAP_MAIN(tests)
