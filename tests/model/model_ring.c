/* SPDX-License-Identifier: MIT */
/*
 * Goal:   src/queue/ring.c returns every item exactly once, with its contents, in every order of
 *         steps under every memory model.
 * Method: a ring of 4 slots with 8-bit positions that start just before they wrap.  An owner and
 *         one or two thieves with rings of their own; items carry a plain payload.
 *         Keeps S4.10-S4.14, behaviour 4; part of S4.9, part of behaviours 1-3, 5 and 6, which
 *         require 256 slots, 32-bit positions, eight thieves and ten million iterations.
 */
#include "model/ledger.h"
#include "queue/queue.h"

enum { RINGS = 3, NEAR_WRAP = 253 };

static struct wf_ring rings[RINGS]; /* 0: the owner's, 1 and 2: the thieves' */
static struct wf_chain overflowed;
static int batches;
static int pushed;

static void keep_overflow(void *context, struct wf_chain *batch)
{
    MODEL_REQUIRE(context == &overflowed);
    batches++;
    wf_chain_append(&overflowed, batch);
}

static void push(int number)
{
    wf_ring_push(&rings[0], ledger_make(number), keep_overflow, &overflowed);
}

static void start(wf_ring_pos position, int count)
{
    ledger_clear();
    for (int i = 0; i < RINGS; i++) {
        wf_ring_init(&rings[i]);
    }
    wf_store_relaxed(&rings[0].tail, position);
    wf_ring_pair head = (wf_ring_pair)((unsigned)position << WF_RING_POS_BITS | position);
    wf_store_relaxed(&rings[0].head, head);
    wf_plain_store(&rings[0].known, head);
    overflowed = (struct wf_chain){0};
    batches = 0;
    for (int i = 0; i < count; i++) {
        push(i);
    }
}

static void start_empty(void)
{
    start(NEAR_WRAP, 0);
    pushed = 0;
}

static void start_one(void)
{
    start(NEAR_WRAP, 1);
    pushed = 1;
}

static void start_two(void)
{
    start(NEAR_WRAP, 2);
    pushed = 2;
}

static void start_three(void)
{
    start(NEAR_WRAP, 3);
    pushed = 3;
}

static void start_full(void)
{
    start(NEAR_WRAP, 4);
    pushed = 4;
}

/* Takes the items that are left in all rings; then each item must have been taken once. */
static void check_all(void)
{
    for (int i = 0; i < RINGS; i++) {
        struct wf_node *item;
        while ((item = wf_ring_pop(&rings[i])) != NULL) {
            (void)ledger_take(item);
        }
        wf_ring_pair head = wf_load_relaxed(&rings[i].head);
        MODEL_REQUIRE((wf_ring_pos)head == (wf_ring_pos)(head >> WF_RING_POS_BITS));
        MODEL_REQUIRE(wf_ring_count(&rings[i]) == 0);
    }
    struct wf_node *item;
    int last = -1;
    while ((item = wf_chain_pop(&overflowed)) != NULL) {
        int number = ledger_take(item);
        MODEL_REQUIRE(number > last); /* oldest first */
        last = number;
    }
    ledger_all_taken(pushed);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void steal_once(int thief)
{
    int number = ledger_take(wf_ring_steal(&rings[0], &rings[thief]));
    /* The other stolen items are older, in order, and still there: no thread steals from the thief
     * here. */
    for (int older = -1; number >= 0;) {
        int next = ledger_take(wf_ring_pop(&rings[thief]));
        if (next < 0) {
            break;
        }
        MODEL_REQUIRE(next > older && next < number);
        older = next;
    }
}

static void thief_1(void)
{
    steal_once(1);
}

static void thief_2(void)
{
    steal_once(2);
}

static void thief_1_twice(void)
{
    steal_once(1);
    steal_once(1);
}

static void owner_push_two_pop_two(void)
{
    push(0);
    push(1);
    pushed = 2;
    int a = ledger_take(wf_ring_pop(&rings[0]));
    int b = ledger_take(wf_ring_pop(&rings[0]));
    MODEL_REQUIRE(b < 0 || a < b); /* FIFO */
}

static void owner_pop_two(void)
{
    int a = ledger_take(wf_ring_pop(&rings[0]));
    int b = ledger_take(wf_ring_pop(&rings[0]));
    MODEL_REQUIRE(b < 0 || a < b);
}

/* Wraps the ring: the second push uses a slot that the thief may be copying. */
static void owner_pop_push_push(void)
{
    (void)ledger_take(wf_ring_pop(&rings[0]));
    push(pushed++);
    push(pushed++);
}

static void owner_pop_push(void)
{
    (void)ledger_take(wf_ring_pop(&rings[0]));
    push(pushed++);
}

/* The ring is full: these pushes refill slots that a thief may still be reading, or overflow. */
static void owner_push_into_full(void)
{
    push(4);
    push(5);
    pushed = 6;
    (void)ledger_take(wf_ring_pop(&rings[0]));
}

static void owner_push_pop_push(void)
{
    push(2);
    (void)ledger_take(wf_ring_pop(&rings[0]));
    push(3);
    pushed = 4;
}

/* From nearly empty past full: a head moved by overflow, seen with an older tail. */
static void owner_fill_and_overflow(void)
{
    for (int i = 1; i < 5; i++) {
        push(i);
    }
    pushed = 5;
}

static void owner_push_chain_behind(void)
{
    struct wf_chain chain = {0};
    wf_chain_push(&chain, ledger_make(3));
    wf_chain_push(&chain, ledger_make(4));
    size_t taken = wf_ring_push_chain(&rings[0], &chain);
    MODEL_REQUIRE(taken >= 1 && taken + chain.count == 2);
    (void)ledger_take(wf_chain_pop(&chain));
    pushed = 5;
}

static void owner_push_chain(void)
{
    struct wf_chain chain = {0};
    for (int i = 0; i < 5; i++) {
        wf_chain_push(&chain, ledger_make(i));
    }
    size_t taken = wf_ring_push_chain(&rings[0], &chain);
    MODEL_REQUIRE(taken == WF_RING_CAPACITY && chain.count == 1);
    (void)ledger_take(wf_chain_pop(&chain));
    pushed = 5;
    (void)ledger_take(wf_ring_pop(&rings[0]));
}

/* Takes all items, and pushes again, where the thief may be copying. */
static void owner_take_all(void)
{
    struct wf_chain chain = {0};
    const size_t count = wf_ring_take_all(&rings[0], &chain);
    MODEL_REQUIRE(count == chain.count);
    struct wf_node *item;
    int last = -1;
    while ((item = wf_chain_pop(&chain)) != NULL) {
        int number = ledger_take(item);
        MODEL_REQUIRE(number > last);
        last = number;
    }
    push(pushed++);
    push(pushed++);
}

static void owner_try_push(void)
{
    for (int i = 0; i < 2; i++) {
        struct wf_node *item = ledger_make(pushed++);
        if (!wf_ring_try_push(&rings[0], item)) {
            (void)ledger_take(item);
        }
    }
}

/* A thief whose own ring is stolen from: the stolen items are stolen again. */
static void thief_of_thief(void)
{
    (void)ledger_take(wf_ring_steal(&rings[1], &rings[2]));
}

/* The other stolen items stay in the thief's ring for check(). */
static void thief_1_keeps(void)
{
    (void)ledger_take(wf_ring_steal(&rings[0], &rings[1]));
}

static void thief_2_keeps(void)
{
    (void)ledger_take(wf_ring_steal(&rings[0], &rings[2]));
}

/* Steals one item after the other; it has no ring. */
static void thief_of_single_items(void)
{
    const int first = ledger_take(wf_ring_steal_one(&rings[0]));
    const int second = ledger_take(wf_ring_steal_one(&rings[0]));
    MODEL_REQUIRE(second < 0 || second > first);
}

/* The thief's own ring is full and being stolen from: its stolen items refill the same slots. */
static void start_full_thief(void)
{
    start_full();
    for (int i = 4; i < 8; i++) {
        wf_ring_push(&rings[1], ledger_make(i), keep_overflow, &overflowed);
    }
    pushed = 8;
}

static void owner_push_one_into_full(void)
{
    push(4);
    pushed = 5;
    (void)ledger_take(wf_ring_pop(&rings[0]));
}

static void count_items(void)
{
    MODEL_REQUIRE(wf_ring_count(&rings[0]) <= WF_RING_CAPACITY);
}

#define OWNER_THIEVES                                                                              \
    {                                                                                              \
        "owner", "thief 1", "thief 2"                                                              \
    }

/* The small tests first: they find most failures. */
static const struct model_test tests[] = {
    {.name = "push and pop, one steal",
     .setup = start_empty,
     .threads = {owner_push_two_pop_two, thief_1},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "push and pop, two steals of one thief",
     .setup = start_empty,
     .threads = {owner_push_two_pop_two, thief_1_twice},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "wrap while a thief copies",
     .setup = start_three,
     .threads = {owner_pop_push_push, thief_1},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "wrap while a thief takes single items",
     .setup = start_three,
     .threads = {owner_pop_push_push, thief_of_single_items},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "overflow while a thief takes single items",
     .setup = start_full,
     .threads = {owner_push_into_full, thief_of_single_items},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "overflow, one thief",
     .setup = start_full,
     .threads = {owner_push_into_full, thief_1},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "overflow from nearly empty",
     .setup = start_one,
     .threads = {owner_fill_and_overflow, thief_1_keeps},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "steal from a full thief",
     .setup = start_full_thief,
     .threads = {thief_1_keeps, thief_of_thief},
     .names = {"thief 1", "thief 2"},
     .check = check_all},
    {.name = "push_chain behind items while a thief copies",
     .setup = start_three,
     .threads = {owner_push_chain_behind, thief_1_keeps},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "take_all while a thief copies",
     .setup = start_three,
     .threads = {owner_take_all, thief_1_keeps},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "try_push into a full ring, one thief",
     .setup = start_full,
     .threads = {owner_try_push, thief_1_keeps},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "push_chain, one thief",
     .setup = start_empty,
     .threads = {owner_push_chain, thief_1},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "count during push and pop",
     .setup = start_two,
     .threads = {owner_push_pop_push, count_items},
     .names = {"owner", "reader"},
     .check = check_all},
    {.name = "push and pop, two thieves",
     .setup = start_empty,
     .threads = {owner_push_two_pop_two, thief_1, thief_2},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "pop of the last item, two thieves",
     .setup = start_two,
     .threads = {owner_pop_two, thief_1, thief_2},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "pops of three items, two thieves",
     .setup = start_three,
     .threads = {owner_pop_two, thief_1, thief_2},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "refill while two thieves copy",
     .setup = start_three,
     .threads = {owner_pop_push, thief_1, thief_2},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "overflow, two thieves",
     .setup = start_full,
     .threads = {owner_push_one_into_full, thief_1_keeps, thief_2_keeps},
     .names = OWNER_THIEVES,
     .check = check_all,
     .is_slow = 1},
    {.name = "push, pop, push; two thieves",
     .setup = start_two,
     .threads = {owner_push_pop_push, thief_1_keeps, thief_2_keeps},
     .names = OWNER_THIEVES,
     .check = check_all,
     .is_slow = 1},
    {.name = "steal from a thief",
     .setup = start_three,
     .threads = {owner_pop_push, thief_1_keeps, thief_of_thief},
     .names = OWNER_THIEVES,
     .check = check_all},
};

static const struct model_equivalent equivalents[] = {
    {"ring_claim: wf_cas_acquire_both(&from->head) -> relaxed",
     "only its failure order matters, and C11 wants success to be no weaker"},
    {"wf_ring_count: wf_load_acquire(&ring->head) -> relaxed",
     "no thread here relies on the count; model_bias does, and a fault shows that it needs the "
     "order"},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {
        "ring", tests, MODEL_COUNT(tests), equivalents, MODEL_COUNT(equivalents), NULL};
    return model_main(argc, argv, &suite);
}
