/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the ring keeps order, overflows by halves, and gives half to a thief; every item comes
 *         out once, however two operations interleave.
 * Method: first in one thread, with a thief simulated by its value of `head`; then one operation
 *         stopped after each of its instructions while another happens (step.h). Real threads race
 *         in test_ledger.c.
 */
#include <stdalign.h>

#include "items.h"
#include "marks.h"
#include "queue/queue.h"
#include "step.h"
#include "tap.h"

enum {
    CAPACITY = WF_RING_CAPACITY,
    HALF = CAPACITY / 2,
    ITEMS = 4 * CAPACITY,
    /* the first index of the items that fill a thief's ring beforehand */
    THIEFS_OWN = 2 * CAPACITY,
    LIMIT_STEPPED_S = 120, /* one trap per instruction; slow on some virtual machines */
};

static struct item items[ITEMS];

/* The batch that the overflow hook received. */
struct spill {
    unsigned calls;
    struct wf_chain chain;
};

static void keep(void *context, struct wf_chain *batch)
{
    struct spill *spill = context;
    spill->calls++;
    wf_chain_append(&spill->chain, batch);
}

/* Pushes [from, to) into a ring that has enough free slots. */
static void fill(struct wf_ring *ring, size_t from, size_t to)
{
    struct spill spill = {0};
    for (size_t i = from; i < to; i++) {
        wf_ring_push(ring, item_node(items, i), keep, &spill);
    }
    CHECK_EQ(spill.calls, 0);
}

static void check_pops(struct wf_ring *ring, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        CHECK_EQ(item_index(wf_ring_pop(ring)), i);
    }
    CHECK(wf_ring_pop(ring) == NULL);
}

static wf_ring_pair pair(wf_ring_pos steal, wf_ring_pos real)
{
    return ((wf_ring_pair)steal << WF_RING_POS_BITS) | real;
}

/* An empty ring whose first item lies at `position`. */
static void init_at(struct wf_ring *ring, wf_ring_pos position)
{
    wf_ring_init(ring);
    wf_store_relaxed(&ring->head, pair(position, position));
    wf_store_relaxed(&ring->tail, position);
    ring->known = pair(position, position);
}

/* ---- single thread ------------------------------------------------------------------------- */

/* behaviour 1 (order, empty); S4.12 (pop is FIFO) */
static void ring_is_fifo(void)
{
    struct wf_ring ring;
    wf_ring_init(&ring);
    CHECK(wf_ring_pop(&ring) == NULL);
    fill(&ring, 0, 5);
    check_pops(&ring, 0, 5);
    CHECK(wf_ring_pop(&ring) == NULL);
    fill(&ring, 5, 6);
    check_pops(&ring, 5, 6);
}

/* behaviour 1 (wrap at 256) */
static void ring_keeps_order_across_the_wrap_at_every_fill(void)
{
    for (size_t kept = 1; kept <= CAPACITY; kept++) {
        struct wf_ring ring;
        wf_ring_init(&ring);
        fill(&ring, 0, kept);
        for (size_t i = kept; i < ITEMS; i++) {
            CHECK_EQ(item_index(wf_ring_pop(&ring)), i - kept);
            CHECK_EQ(wf_ring_count(&ring), kept - 1);
            fill(&ring, i, i + 1);
        }
        check_pops(&ring, ITEMS - kept, ITEMS);
    }
}

/* behaviour 1, for the biased pop (no thieves); the positions wrap on the way */
static void ring_pop_biased_is_fifo(void)
{
    for (size_t kept = 1; kept <= CAPACITY; kept++) {
        struct wf_ring ring;
        struct wf_queue_stats stats;
        init_at(&ring, (wf_ring_pos)(0 - kept));
        CHECK(wf_ring_pop_biased(&ring) == NULL);
        CHECK(wf_ring_peek_biased(&ring, 0) == NULL);
        fill(&ring, 0, kept);
        for (size_t i = kept; i < ITEMS; i++) {
            CHECK_EQ(item_index(wf_ring_peek_biased(&ring, 0)), i - kept);
            CHECK_EQ(item_index(wf_ring_peek_biased(&ring, (wf_ring_pos)(kept - 1))), i - 1);
            CHECK(wf_ring_peek_biased(&ring, (wf_ring_pos)kept) == NULL);
            CHECK_EQ(item_index(wf_ring_pop_biased(&ring)), i - kept);
            CHECK_EQ(wf_ring_count(&ring), kept - 1);
            fill(&ring, i, i + 1);
        }
        CHECK_EQ(item_index(wf_ring_pop_biased(&ring)), ITEMS - kept);
        /* the unbiased pop continues where the biased one stopped */
        check_pops(&ring, ITEMS - kept + 1, ITEMS);
        CHECK(wf_ring_pop_biased(&ring) == NULL);
        wf_queue_stats_read(&ring.counters, &stats);
        CHECK_EQ(stats.popped, ITEMS);
    }
}

/* Every operation of a ring, from a position at which all operations cross a wrap. */
static void check_all_operations_from(wf_ring_pos position)
{
    struct wf_ring ring;
    struct wf_ring mine;
    struct spill spill = {0};
    init_at(&ring, position);
    init_at(&mine, position);
    fill(&ring, 0, CAPACITY);
    CHECK_EQ(wf_ring_count(&ring), CAPACITY);
    wf_ring_push(&ring, item_node(items, CAPACITY), keep, &spill); /* half overflows */
    CHECK_EQ(spill.chain.count, HALF);
    CHECK_EQ(item_index(spill.chain.first), 0);
    CHECK_EQ(wf_ring_count(&ring), HALF + 1);
    fill(&ring, CAPACITY + 1, CAPACITY + HALF); /* full again */
    CHECK_EQ(item_index(wf_ring_steal(&ring, &mine)), CAPACITY - 1);
    CHECK_EQ(wf_ring_count(&mine), HALF - 1);
    check_pops(&mine, HALF, CAPACITY - 1);
    struct wf_chain chain = items_chain(items, CAPACITY + HALF, CAPACITY);
    CHECK_EQ(wf_ring_push_chain(&ring, &chain), HALF);
    check_pops(&ring, CAPACITY, 2 * CAPACITY);
}

/* behaviour 1 (index wrap past 2^16 and 2^32) */
static void ring_positions_wrap_around(void)
{
    const wf_ring_pos edges[] = {0, 1u << 16, 1u << 31}; /* position 0 is also 2^32 */
    for (size_t edge = 0; edge < sizeof(edges) / sizeof(edges[0]); edge++) {
        for (wf_ring_pos before = 0; before <= 2 * CAPACITY; before++) {
            check_all_operations_from(edges[edge] - before);
        }
    }
}

/* behaviour 2; S4.3 (256 slots); S4.11 (half to the global queue in a single batch) */
static void ring_257th_push_overflows_the_oldest_128_in_one_batch(void)
{
    struct wf_ring ring;
    struct spill spill = {0};
    wf_ring_init(&ring);
    fill(&ring, 0, CAPACITY);
    wf_ring_push(&ring, item_node(items, CAPACITY), keep, &spill);
    CHECK_EQ(CAPACITY, 256);
    CHECK_EQ(spill.calls, 1);
    CHECK_EQ(spill.chain.count, 128);
    for (size_t i = 0; i < HALF; i++) {
        CHECK_EQ(item_index(wf_chain_pop(&spill.chain)), i);
    }
    CHECK(wf_chain_pop(&spill.chain) == NULL);
    check_pops(&ring, HALF, CAPACITY + 1);
}

/* S4.11: the owner does not wait for a thief that has claimed half and not yet copied it */
static void ring_push_into_claimed_slots_overflows_only_the_new_item(void)
{
    struct wf_ring ring;
    struct spill spill = {0};
    wf_ring_init(&ring);
    fill(&ring, 0, CAPACITY);
    wf_store_relaxed(&ring.head, pair(0, HALF)); /* claimed */
    wf_ring_push(&ring, item_node(items, CAPACITY), keep, &spill);
    CHECK_EQ(spill.calls, 1);
    CHECK_EQ(spill.chain.count, 1);
    CHECK_EQ(item_index(spill.chain.first), CAPACITY);
    CHECK_EQ(wf_load_relaxed(&ring.head), pair(0, HALF));
    wf_store_relaxed(&ring.head, pair(HALF, HALF)); /* released */
    fill(&ring, CAPACITY, CAPACITY + HALF);
    check_pops(&ring, HALF, CAPACITY + HALF);
    check_reached("ring.full_while_stolen_from");
}

static void ring_try_push_leaves_a_full_ring_unchanged(void)
{
    struct wf_ring ring;
    wf_ring_init(&ring);
    fill(&ring, 0, CAPACITY - 1);
    CHECK(wf_ring_try_push(&ring, item_node(items, CAPACITY - 1)));
    CHECK(!wf_ring_try_push(&ring, item_node(items, CAPACITY)));
    /* the owner does not know of this steal yet */
    CHECK_EQ(item_index(wf_ring_steal_one(&ring)), 0);
    CHECK(wf_ring_try_push(&ring, item_node(items, CAPACITY)));
    wf_store_relaxed(&ring.head, pair(1, HALF)); /* claimed, and not yet copied */
    CHECK(!wf_ring_try_push(&ring, item_node(items, CAPACITY + 1)));
    wf_store_relaxed(&ring.head, pair(HALF, HALF));
    check_pops(&ring, HALF, CAPACITY + 1);
}

static void ring_take_all_takes_all_unless_a_thief_has_claimed(void)
{
    struct wf_ring ring;
    struct wf_chain chain = {0};
    wf_ring_init(&ring);
    CHECK_EQ(wf_ring_take_all(&ring, &chain), 0);
    fill(&ring, 0, CAPACITY);
    wf_store_relaxed(&ring.head, pair(0, HALF)); /* claimed */
    CHECK_EQ(wf_ring_take_all(&ring, &chain), 0);
    wf_store_relaxed(&ring.head, pair(HALF, HALF)); /* released */
    CHECK_EQ(wf_ring_take_all(&ring, &chain), HALF);
    CHECK_EQ(wf_ring_count(&ring), 0);
    for (size_t i = HALF; i < CAPACITY; i++) {
        CHECK_EQ(item_index(wf_chain_pop(&chain)), i);
    }
    CHECK(wf_chain_pop(&chain) == NULL);
    fill(&ring, 0, CAPACITY);
    check_pops(&ring, 0, CAPACITY);
}

static void ring_push_beside_a_thief_uses_free_slots(void)
{
    struct wf_ring ring;
    wf_ring_init(&ring);
    fill(&ring, 0, CAPACITY - 1);
    wf_store_relaxed(&ring.head, pair(0, HALF));
    fill(&ring, CAPACITY - 1, CAPACITY);
    check_pops(&ring, HALF, CAPACITY);
}

/* S4.9, S4.10, S4.12: head holds both positions in one word; while they differ the owner's pop
 * moves `real` and leaves `steal` to the thief */
static void ring_pop_beside_a_thief_leaves_claimed_slots(void)
{
    struct wf_ring ring;
    wf_ring_init(&ring);
    fill(&ring, 0, 8);
    wf_store_relaxed(&ring.head, pair(0, 4));
    CHECK_EQ(item_index(wf_ring_pop(&ring)), 4);
    CHECK_EQ(wf_load_relaxed(&ring.head), pair(0, 5));
    check_pops(&ring, 5, 8);
    CHECK_EQ(wf_load_relaxed(&ring.head), pair(0, 8));
    wf_store_relaxed(&ring.head, pair(8, 8));
    fill(&ring, 8, 9);
    CHECK_EQ(item_index(wf_ring_pop(&ring)), 8);
    CHECK_EQ(wf_load_relaxed(&ring.head), pair(9, 9));
}

/* S4.9: different threads write head and tail, so these share no cache line */
static void ring_head_tail_and_slots_have_own_cache_lines(void)
{
    CHECK_EQ(alignof(struct wf_ring), WF_CACHE_LINE);
    CHECK_EQ(offsetof(struct wf_ring, head) % WF_CACHE_LINE, 0);
    CHECK_EQ(offsetof(struct wf_ring, tail) % WF_CACHE_LINE, 0);
    CHECK_EQ(offsetof(struct wf_ring, slots) % WF_CACHE_LINE, 0);
    CHECK(offsetof(struct wf_ring, head) != offsetof(struct wf_ring, tail));
    CHECK_EQ(sizeof(((struct wf_ring *)NULL)->head), 2 * sizeof(wf_ring_pos));
    CHECK_EQ(sizeof(((struct wf_ring *)NULL)->slots), 256 * sizeof(void *));
}

static void ring_push_chain_takes_what_fits(void)
{
    struct wf_ring ring;
    wf_ring_init(&ring);
    struct wf_chain empty = {0};
    CHECK_EQ(wf_ring_push_chain(&ring, &empty), 0);
    CHECK(wf_ring_pop(&ring) == NULL);

    struct wf_chain chain = items_chain(items, 0, CAPACITY + 10);
    CHECK_EQ(wf_ring_push_chain(&ring, &chain), CAPACITY);
    CHECK_EQ(chain.count, 10);
    CHECK_EQ(item_index(chain.first), CAPACITY);
    CHECK_EQ(wf_ring_push_chain(&ring, &chain), 0); /* full: no more items */
    CHECK_EQ(chain.count, 10);

    wf_store_relaxed(&ring.head, pair(0, HALF)); /* a thief has claimed half */
    CHECK_EQ(wf_ring_push_chain(&ring, &chain), 0);
    wf_store_relaxed(&ring.head, pair(4, HALF)); /* the thief has released four slots */
    CHECK_EQ(wf_ring_push_chain(&ring, &chain), 4);
    CHECK_EQ(chain.count, 6);
    check_pops(&ring, HALF, CAPACITY + 4);
}

static void ring_count_excludes_claimed_items(void)
{
    struct wf_ring ring;
    wf_ring_init(&ring);
    CHECK_EQ(wf_ring_count(&ring), 0);
    fill(&ring, 0, 10);
    CHECK_EQ(wf_ring_count(&ring), 10);
    wf_store_relaxed(&ring.head, pair(0, 5));
    CHECK_EQ(wf_ring_count(&ring), 5);
    (void)wf_ring_pop(&ring);
    CHECK_EQ(wf_ring_count(&ring), 4);
    /* Head and tail are read at different instants: a reader that sees a tail more than the
     * capacity ahead knows that the ring was not empty. */
    wf_store_relaxed(&ring.head, pair(5, 5));
    wf_store_relaxed(&ring.tail, CAPACITY + 6);
    CHECK_EQ(wf_ring_count(&ring), CAPACITY);
}

static void ring_push_biased_appends_only_to_a_nonempty_ring(void)
{
    struct wf_ring ring;
    wf_ring_init(&ring);
    CHECK(!wf_ring_push_biased(&ring, item_node(items, 0))); /* refused: the ring is empty */
    CHECK_EQ(wf_ring_count(&ring), 0);
    fill(&ring, 0, 1);
    for (size_t i = 1; i < CAPACITY; i++) {
        CHECK(wf_ring_push_biased(&ring, item_node(items, i)));
    }
    CHECK(!wf_ring_push_biased(&ring, item_node(items, CAPACITY))); /* refused: the ring is full */
    CHECK_EQ(wf_counter_read(&ring.counters.pushed), CAPACITY);
    check_pops(&ring, 0, CAPACITY);
    CHECK(!wf_ring_push_biased(&ring, item_node(items, CAPACITY))); /* refused: empty again */
}

/* ---- stealing ------------------------------------------------------------------------------ */

/* A steal of `taken` items from a ring with [0, count) into one with `kept` items: the oldest items
 * move in order, the steal returns the newest of the moved items, the rest stays. */
static void check_steal(size_t count, size_t kept, size_t taken)
{
    struct wf_ring from;
    struct wf_ring into;
    wf_ring_init(&from);
    wf_ring_init(&into);
    fill(&from, 0, count);
    fill(&into, THIEFS_OWN, THIEFS_OWN + kept);
    CHECK_EQ(item_index(wf_ring_steal(&from, &into)), (int64_t)taken - 1);
    CHECK_EQ(wf_ring_count(&into), kept + (taken > 0 ? taken - 1 : 0));
    for (size_t i = 0; i < kept; i++) {
        CHECK_EQ(item_index(wf_ring_pop(&into)), THIEFS_OWN + i);
    }
    check_pops(&into, 0, taken > 0 ? taken - 1 : 0);
    check_pops(&from, taken, count);
    CHECK_EQ(wf_load_relaxed(&from.head), pair((wf_ring_pos)count, (wf_ring_pos)count));
}

/* behaviour 3; S4.13 (claim half, copy, release; a steal that has claimed always completes) */
static void ring_steal_takes_half_rounded_up(void)
{
    const struct {
        size_t count;
        size_t taken;
    } table[] = {{0, 0}, {1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {255, 128}, {256, 128}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        check_steal(table[i].count, 0, table[i].taken);
    }
}

/* behaviour 3 (thief almost full): the items that fit, and one more that is returned */
static void ring_steal_takes_no_more_than_fits(void)
{
    check_steal(CAPACITY, CAPACITY, 1);
    check_steal(CAPACITY, CAPACITY - 1, 2);
    check_steal(CAPACITY, CAPACITY - 2, 3);
    check_steal(CAPACITY, HALF + 1, HALF);
    check_steal(CAPACITY, HALF + 2, HALF - 1);
    check_steal(2, CAPACITY, 1);
    check_steal(0, CAPACITY, 0);
}

/* A thief whose own ring is being stolen from must not overwrite slots that the other thief still
 * reads. */
static void ring_steal_counts_claimed_slots_of_its_ring_as_full(void)
{
    struct wf_ring from;
    struct wf_ring into;
    wf_ring_init(&from);
    wf_ring_init(&into);
    fill(&from, 0, 100);
    fill(&into, THIEFS_OWN, THIEFS_OWN + CAPACITY);
    wf_store_relaxed(&into.head, pair(0, HALF));
    CHECK_EQ(item_index(wf_ring_steal(&from, &into)), 0);
    CHECK_EQ(wf_load_relaxed(&into.tail), CAPACITY);
    wf_store_relaxed(&into.head, pair(3, HALF));
    CHECK_EQ(item_index(wf_ring_steal(&from, &into)), 4);
    CHECK_EQ(wf_load_relaxed(&into.tail), CAPACITY + 3);
    check_pops(&from, 5, 100);
}

/* behaviour 4; S4.14 (one steal at a time) */
static void ring_second_thief_gets_nothing_and_changes_nothing(void)
{
    struct wf_ring from;
    struct wf_ring into;
    wf_ring_init(&from);
    wf_ring_init(&into);
    fill(&from, 0, 100);
    wf_store_relaxed(&from.head, pair(0, 50));
    CHECK(wf_ring_steal(&from, &into) == NULL);
    CHECK_EQ(wf_load_relaxed(&from.head), pair(0, 50));
    CHECK_EQ(wf_ring_count(&into), 0);
    check_reached("ring.second_thief_turned_away");
    check_pops(&from, 50, 100);
    CHECK(wf_ring_steal(&from, &into) == NULL); /* also when only claimed items are left */
    CHECK_EQ(wf_load_relaxed(&from.head), pair(0, 100));
}

/* S2.25 */
static void ring_counters_add_up(void)
{
    struct wf_ring ring;
    struct wf_ring mine;
    struct spill spill = {0};
    struct wf_queue_stats stats;
    wf_ring_init(&ring);
    wf_ring_init(&mine);
    fill(&ring, 0, CAPACITY);
    wf_ring_push(&ring, item_node(items, CAPACITY), keep, &spill); /* 129 left */
    struct wf_chain chain = items_chain(items, CAPACITY + 1, 3);
    CHECK_EQ(wf_ring_push_chain(&ring, &chain), 3); /* 132 left */
    CHECK(wf_ring_pop(&ring) != NULL);
    CHECK(wf_ring_pop(&ring) != NULL);            /* 130 left */
    CHECK(wf_ring_steal(&ring, &mine) != NULL);   /* 65 left; 64 in mine */
    wf_store_relaxed(&ring.head, pair(500, 600)); /* a thief has claimed slots of a full ring */
    wf_store_relaxed(&ring.tail, 500 + CAPACITY);
    wf_ring_push(&ring, item_node(items, CAPACITY + 4), keep, &spill);

    wf_queue_stats_read(&ring.counters, &stats);
    CHECK_EQ(stats.pushed, CAPACITY + 5);
    CHECK_EQ(stats.popped, 2);
    CHECK_EQ(stats.stolen, 0);
    CHECK_EQ(stats.overflowed, HALF + 1);
    CHECK_EQ(spill.chain.count, stats.overflowed);
    wf_queue_stats_read(&mine.counters, &stats);
    CHECK_EQ(stats.pushed, 0);
    CHECK_EQ(stats.stolen, 65);
    CHECK(wf_ring_pop(&mine) != NULL);
    wf_queue_stats_read(&mine.counters, &stats);
    CHECK_EQ(stats.popped, 1);
}

/* ---- the owner's copy of the head ------------------------------------------------------------ */

/* A pop with a stale copy of the head would be correct, and twice as slow. */
static void ring_owner_knows_the_head_without_thieves(void)
{
    struct wf_ring ring;
    struct spill spill = {0};
    struct wf_chain chain = items_chain(items, 0, CAPACITY);
    wf_ring_init(&ring);
    for (size_t round = 0; round < 3; round++) {
        CHECK_EQ(wf_ring_push_chain(&ring, &chain), CAPACITY);
        wf_ring_push(&ring, item_node(items, CAPACITY), keep, &spill); /* half overflows */
        CHECK_EQ(spill.calls, 1);
        check_pops(&ring, HALF, CAPACITY + 1);
        fill(&ring, 0, CAPACITY);
        check_pops(&ring, 0, CAPACITY);
        chain = items_chain(items, 0, CAPACITY);
        spill = (struct spill){0};
    }
    CHECK(!is_reached("ring.pop_met_thief"));
}

static void ring_push_finds_slots_freed_by_thieves(void)
{
    struct wf_ring ring;
    struct wf_ring mine;
    size_t pushed = CAPACITY;
    wf_ring_init(&ring);
    wf_ring_init(&mine);
    fill(&ring, 0, CAPACITY);
    for (size_t taken = 0; taken < 10 * (size_t)CAPACITY; taken += HALF) {
        CHECK_EQ(item_index(wf_ring_steal(&ring, &mine)), (taken + HALF - 1) % ITEMS);
        for (size_t i = taken; i + 1 < taken + HALF; i++) {
            CHECK_EQ(item_index(wf_ring_pop(&mine)), i % ITEMS);
        }
        for (; pushed < taken + HALF + CAPACITY; pushed++) {
            fill(&ring, pushed % ITEMS, pushed % ITEMS + 1);
        }
    }
    CHECK_EQ(wf_ring_count(&ring), CAPACITY);
}

static void ring_pop_skips_stolen_items(void)
{
    struct wf_ring ring;
    struct wf_ring mine;
    wf_ring_init(&ring);
    wf_ring_init(&mine);
    for (size_t count = 1; count <= 5; count++) {
        fill(&ring, 0, count);
        while (wf_ring_steal(&ring, &mine) != NULL) {
        }
        CHECK(wf_ring_pop(&ring) == NULL);
        fill(&ring, 7, 8);
        check_pops(&ring, 7, 8);
    }
}

/* ---- one operation between any two instructions of another ---------------------------------- */

struct scene {
    struct wf_ring ring;  /* the victim's */
    struct wf_ring mine;  /* of the first thief */
    struct wf_ring other; /* of the second */
    struct spill spill;
    size_t pushed;
    struct wf_node *popped;
    struct wf_node *stolen;
    struct wf_node *stolen_too;
};

static void pop(void *context)
{
    struct scene *scene = context;
    scene->popped = wf_ring_pop(&scene->ring);
}

static void push(void *context)
{
    struct scene *scene = context;
    wf_ring_push(&scene->ring, item_node(items, scene->pushed), keep, &scene->spill);
    scene->pushed++;
}

static void steal(void *context)
{
    struct scene *scene = context;
    scene->stolen = wf_ring_steal(&scene->ring, &scene->mine);
}

static void steal_too(void *context)
{
    struct scene *scene = context;
    scene->stolen_too = wf_ring_steal(&scene->ring, &scene->other);
}

/* The owner continues for a while: it takes one and adds one, so the number of items stays the
 * same. */
static void churn(void *context)
{
    struct scene *scene = context;
    for (int i = 0; i < HALF; i++) {
        struct wf_node *node = wf_ring_pop(&scene->ring);
        if (node != NULL) {
            (void)item_take(items, node);
        }
        push(scene);
    }
}

static void take_one(struct wf_node *node)
{
    if (node != NULL) {
        (void)item_take(items, node);
    }
}

static void take_rest(struct wf_ring *ring)
{
    for (struct wf_node *node; (node = wf_ring_pop(ring)) != NULL;) {
        (void)item_take(items, node);
    }
    wf_ring_pair head = wf_load_relaxed(&ring->head);
    CHECK_EQ(head >> WF_RING_POS_BITS, (wf_ring_pos)head); /* no steal is half done */
}

static void build_scene(struct scene *scene, size_t filled, size_t kept)
{
    *scene = (struct scene){.pushed = filled};
    for (size_t i = 0; i < ITEMS; i++) {
        wf_store_relaxed(&items[i].taken, 0);
    }
    wf_ring_init(&scene->ring);
    wf_ring_init(&scene->mine);
    wf_ring_init(&scene->other);
    fill(&scene->ring, 0, filled);
    fill(&scene->mine, THIEFS_OWN, THIEFS_OWN + kept);
}

static void check_scene(struct scene *scene, size_t kept)
{
    take_one(scene->popped);
    take_one(scene->stolen);
    take_one(scene->stolen_too);
    (void)items_take_chain(items, &scene->spill.chain);
    take_rest(&scene->ring);
    take_rest(&scene->mine);
    take_rest(&scene->other);
    items_check_all_taken(items, scene->pushed);
    items_check_all_taken(items + THIEFS_OWN, kept);
}

/* Runs the operation once without interruption to measure its length in this build: sanitizers make
 * an operation up to ten times as long. */
static uint64_t steps_uninterrupted(size_t filled, step_fn op)
{
    static struct scene scene;
    build_scene(&scene, filled, 0);
    uint64_t steps = step_count(op, &scene);
    check_scene(&scene, 0);
    return steps;
}

/* With `filled` items in the ring and `kept` in the first thief's ring, `op` is stopped after each
 * of its instructions in turn while `meanwhile` runs.  However they interleave, every item is taken
 * once.  Deep in an operation, where it only copies items, not every instruction is tried.  Before
 * that it reads and decides, which takes fewer instructions than a whole steal that copies no item;
 * every instruction is tried for twice that length. */
static void check_everywhere(size_t filled, size_t kept, step_fn op, step_fn meanwhile)
{
    enum { SPARSE_STEP = 61 };
    step_require();
    const uint64_t dense = 2 * steps_uninterrupted(1, steal);
    bool is_interrupted = true;
    for (uint64_t at = 1; is_interrupted; at += at < dense ? 1 : SPARSE_STEP) {
        static struct scene scene;
        build_scene(&scene, filled, kept);
        is_interrupted = step_interrupt(at, op, meanwhile, &scene);
        check_scene(&scene, kept);
        CHECK(is_interrupted || at > 1);
    }
}

/* Both are stopped, after each pair of their instructions. */
static void check_every_pair(size_t filled, step_fn first, step_fn second)
{
    step_require();
    const uint64_t stride_first = step_stride(steps_uninterrupted(filled, first));
    const uint64_t stride_second = step_stride(steps_uninterrupted(filled, second));
    struct step_meeting meeting = {.is_inside_first = true};
    for (uint64_t at_first = 1; meeting.is_inside_first; at_first += stride_first) {
        meeting.is_inside_second = true;
        for (uint64_t at_second = 1; meeting.is_inside_second; at_second += stride_second) {
            static struct scene scene;
            build_scene(&scene, filled, 0);
            meeting = step_interleave(at_first, first, at_second, second, &scene);
            check_scene(&scene, 0);
        }
    }
}

/* part of behaviour 5, for every interleaving of the two; S4.12 (pop retries on a lost CAS) */
static void ring_pop_and_steal_take_each_item_once(void)
{
    for (size_t filled = 1; filled <= 4; filled++) {
        check_everywhere(filled, 0, pop, steal);
        check_everywhere(filled, 0, steal, pop);
    }
    check_reached("ring.pop_met_thief");
    check_reached("ring.claim_lost");
}

/* S2.24: while one item is left, a thief that lost a race to the owner gets it. */
static void ring_thief_retries_after_a_lost_race(void)
{
    step_require();
    for (size_t filled = 2; filled <= 5; filled++) {
        bool is_interrupted = true;
        for (uint64_t at = 1; is_interrupted; at++) {
            static struct scene scene;
            build_scene(&scene, filled, 0);
            is_interrupted = step_interrupt(at, steal, pop, &scene);
            CHECK(scene.stolen != NULL);
            check_scene(&scene, 0);
        }
    }
    check_reached("ring.claim_lost");
}

static void ring_pop_and_steal_both_preempted_take_each_item_once(void)
{
    check_every_pair(1, steal, pop);
}

/* behaviour 4, for every interleaving of the two; S4.14 */
static void ring_two_steals_take_each_item_once(void)
{
    for (size_t filled = 1; filled <= 4; filled++) {
        check_everywhere(filled, 0, steal, steal_too);
    }
    check_reached("ring.second_thief_turned_away");
}

static void ring_overflow_and_steal_take_each_item_once(void)
{
    check_everywhere(CAPACITY, 0, push, steal);
    check_everywhere(CAPACITY, CAPACITY - 2, steal, push);
    check_reached("ring.overflow_lost_to_thief");
    check_reached("ring.full_while_stolen_from");
}

/* A thief that was preempted finds the ring far ahead of the positions that it read. */
static void ring_steal_survives_preemption_while_owner_continues(void)
{
    check_everywhere(1, 0, steal, churn);
    check_everywhere(HALF, CAPACITY - 2, steal, churn);
    check_everywhere(CAPACITY, CAPACITY - 2, steal, churn);
}

/* S4.11 (wait-free in the common case): a push takes the same instructions for any number of
 * items */
static void ring_push_with_free_slots_takes_a_fixed_number_of_steps(void)
{
    step_require();
    static struct scene scene;
    wf_ring_init(&scene.ring);
    uint64_t first = step_count(push, &scene);
    for (size_t i = 1; i < CAPACITY; i++) {
        CHECK_EQ(step_count(push, &scene), first);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(ring_is_fifo),
    TAP_TEST(ring_keeps_order_across_the_wrap_at_every_fill),
    TAP_TEST(ring_pop_biased_is_fifo),
    TAP_TEST(ring_positions_wrap_around),
    TAP_TEST(ring_257th_push_overflows_the_oldest_128_in_one_batch),
    TAP_TEST(ring_push_into_claimed_slots_overflows_only_the_new_item),
    TAP_TEST(ring_try_push_leaves_a_full_ring_unchanged),
    TAP_TEST(ring_take_all_takes_all_unless_a_thief_has_claimed),
    TAP_TEST(ring_push_beside_a_thief_uses_free_slots),
    TAP_TEST(ring_pop_beside_a_thief_leaves_claimed_slots),
    TAP_TEST(ring_head_tail_and_slots_have_own_cache_lines),
    TAP_TEST(ring_push_chain_takes_what_fits),
    TAP_TEST(ring_count_excludes_claimed_items),
    TAP_TEST(ring_push_biased_appends_only_to_a_nonempty_ring),
    TAP_TEST(ring_steal_takes_half_rounded_up),
    TAP_TEST(ring_steal_takes_no_more_than_fits),
    TAP_TEST(ring_steal_counts_claimed_slots_of_its_ring_as_full),
    TAP_TEST(ring_second_thief_gets_nothing_and_changes_nothing),
    TAP_TEST(ring_counters_add_up),
    TAP_TEST(ring_owner_knows_the_head_without_thieves),
    TAP_TEST(ring_push_finds_slots_freed_by_thieves),
    TAP_TEST(ring_pop_skips_stolen_items),
    TAP_TEST(ring_pop_and_steal_take_each_item_once),
    TAP_TEST_LIMIT(ring_thief_retries_after_a_lost_race, LIMIT_STEPPED_S),
    TAP_TEST_LIMIT(ring_pop_and_steal_both_preempted_take_each_item_once, LIMIT_STEPPED_S),
    TAP_TEST(ring_two_steals_take_each_item_once),
    TAP_TEST_LIMIT(ring_overflow_and_steal_take_each_item_once, LIMIT_STEPPED_S),
    TAP_TEST(ring_steal_survives_preemption_while_owner_continues),
    TAP_TEST(ring_push_with_free_slots_takes_a_fixed_number_of_steps),
};
TAP_MAIN(tests)
