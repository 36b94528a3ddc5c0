/* SPDX-License-Identifier: MIT */
/*
 * Goal:   src/queue/deque.c returns every item exactly once, with its contents, also while its
 *         buffer is replaced, in every order of steps under every memory model.
 * Method: buffers of 1 to 4 slots with 8-bit positions that start just before they wrap; an owner
 *         and one or two thieves; items carry a plain payload.
 *         Keeps S3.13, S3.14, behaviour 7; part of S2.37, part of behaviours 5 and 6.
 */
#include "model/ledger.h"
#include "queue/queue.h"

enum { NEAR_WRAP = 254 };

static struct wf_deque deque;
static struct wf_deque thief_deque; /* the deque of the thief that steals half */
static int pushed;

static void push(int number)
{
    MODEL_REQUIRE(wf_deque_push(&deque, ledger_make(number)) == 0);
}

static void start(size_t capacity, int count)
{
    ledger_clear();
    MODEL_REQUIRE(wf_deque_init(&deque, capacity) == 0);
    MODEL_REQUIRE(wf_deque_init(&thief_deque, 2) == 0);
    wf_store_relaxed(&deque.top, NEAR_WRAP);
    wf_store_relaxed(&deque.bottom, NEAR_WRAP);
    for (int i = 0; i < count; i++) {
        push(i);
    }
    pushed = count;
}

static void start_empty(void)
{
    start(4, 0);
}

static void start_tiny(void)
{
    start(1, 0);
}

static void start_two(void)
{
    start(2, 2);
}

static void start_three(void)
{
    start(4, 3);
}

static void check_all(void)
{
    struct wf_node *item;
    while ((item = wf_deque_pop(&deque)) != NULL) {
        (void)ledger_take(item);
    }
    while ((item = wf_deque_pop(&thief_deque)) != NULL) {
        (void)ledger_take(item);
    }
    ledger_all_taken(pushed);
    wf_deque_done(&deque);
    wf_deque_done(&thief_deque);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void steal(void)
{
    struct wf_node *item;
    if (wf_deque_steal(&deque, &item) == WF_STEAL_TAKEN) {
        (void)ledger_take(item);
    }
}

/* Thieves take the oldest first. */
static void steal_twice(void)
{
    struct wf_node *item;
    int first = -1;
    if (wf_deque_steal(&deque, &item) == WF_STEAL_TAKEN) {
        first = ledger_take(item);
    }
    if (wf_deque_steal(&deque, &item) == WF_STEAL_TAKEN) {
        MODEL_REQUIRE(ledger_take(item) > first);
    }
}

static void steal_half(void)
{
    (void)ledger_take(wf_deque_steal_half(&deque, &thief_deque));
}

static void owner_pop(void)
{
    (void)ledger_take(wf_deque_pop(&deque));
}

static void owner_pop_two(void)
{
    int a = ledger_take(wf_deque_pop(&deque));
    int b = ledger_take(wf_deque_pop(&deque));
    MODEL_REQUIRE(b < a || b == -1); /* LIFO */
}

static void owner_pop_three(void)
{
    owner_pop_two();
    owner_pop();
}

static void owner_push_two_pop_two(void)
{
    push(0);
    push(1);
    pushed = 2;
    owner_pop_two();
}

/* Grows from one slot to four while thieves steal. */
static void owner_grow(void)
{
    push(0);
    push(1);
    push(2);
    pushed = 3;
    owner_pop();
}

static void owner_push_pop_twice(void)
{
    push(0);
    owner_pop();
    push(1);
    owner_pop();
    pushed = 2;
}

/* Refills slots that a slow thief may still read: the thief must lose its CAS. */
static void owner_pop_two_push_two(void)
{
    owner_pop_two();
    push(2);
    push(3);
    pushed = 4;
}

/* The deque becomes empty and is refilled: thieves read a bottom that pop stored, not push. */
static void owner_pop_push_pop(void)
{
    owner_pop();
    push(3);
    pushed = 4;
    owner_pop();
}

#define OWNER_THIEVES                                                                              \
    {                                                                                              \
        "owner", "thief 1", "thief 2"                                                              \
    }

/* The small tests first: they find most failures. */
static const struct model_test tests[] = {
    {.name = "push and pop, one steal",
     .setup = start_empty,
     .threads = {owner_push_two_pop_two, steal},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "push and pop, two steals of one thief",
     .setup = start_empty,
     .threads = {owner_push_two_pop_two, steal_twice},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "growth, one steal",
     .setup = start_tiny,
     .threads = {owner_grow, steal},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "pop, push, pop; two steals of one thief",
     .setup = start_three,
     .threads = {owner_pop_push_pop, steal_twice},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "steal of half races pops",
     .setup = start_three,
     .threads = {owner_pop_two, steal_half},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "push and pop, two thieves",
     .setup = start_empty,
     .threads = {owner_push_two_pop_two, steal, steal},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "two pops race two thieves",
     .setup = start_two,
     .threads = {owner_pop_two, steal, steal},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "three pops race two thieves",
     .setup = start_three,
     .threads = {owner_pop_three, steal_twice, steal},
     .names = OWNER_THIEVES,
     .check = check_all,
     .is_slow = 1},
    {.name = "alternating push and pop, two thieves",
     .setup = start_empty,
     .threads = {owner_push_pop_twice, steal, steal},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "growth, two thieves",
     .setup = start_tiny,
     .threads = {owner_grow, steal, steal},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "refill of slots that thieves read",
     .setup = start_two,
     .threads = {owner_pop_two_push_two, steal, steal},
     .names = OWNER_THIEVES,
     .check = check_all},
    {.name = "steal of half races pop and a steal",
     .setup = start_three,
     .threads = {owner_pop, steal_half, steal},
     .names = OWNER_THIEVES,
     .check = check_all,
     .is_slow = 1},
};

static const struct model_equivalent equivalents[] = {
    {"wf_deque_steal: wf_cas_release(&deque->top) -> relaxed",
     "keeps the read of the slot before the CAS: a load delayed past a later store is load "
     "buffering, which AArch64 does and no memory model here shows"},
    {"deque_reserve: wf_load_acquire(&deque->top) -> relaxed",
     "the other end of the same edge: only load buffering could break it"},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {
        "deque", tests, MODEL_COUNT(tests), equivalents, MODEL_COUNT(equivalents), NULL};
    return model_main(argc, argv, &suite);
}
