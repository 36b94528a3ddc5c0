/* SPDX-License-Identifier: MIT */
/*
 * Goal:   src/queue/inject.c returns every item exactly once, with its contents, never above its
 *         capacity, in every order of steps under every memory model.
 * Method: producers and consumers on the real queue over the real lock; plain payloads.
 *         Keeps S4.18, S3.8; part of S4.19, part of behaviour 8.
 */
#include "model/ledger.h"
#include "queue/queue.h"

static struct wf_inject queue;
static int refused;

static void start_with(size_t capacity)
{
    ledger_clear();
    refused = 0;
    const struct wf_inject_options options = {.capacity = capacity};
    MODEL_REQUIRE(wf_inject_init(&queue, &options) == 0);
}

static void start(void)
{
    start_with(0);
}

static void start_capped(void)
{
    start_with(1);
}

static void take_all(struct wf_chain *chain)
{
    struct wf_node *item;
    int last = -1;
    while ((item = wf_chain_pop(chain)) != NULL) {
        int number = ledger_take(item);
        MODEL_REQUIRE(number / 2 != last / 2 || number > last || last < 0); /* a producer's order */
        last = number;
    }
}

static void check_all(void)
{
    struct wf_chain left = {0};
    size_t count = wf_inject_count(&queue);
    MODEL_REQUIRE(wf_inject_pop(&queue, 1, SIZE_MAX, &left) == count);
    take_all(&left);
    MODEL_REQUIRE(wf_inject_count(&queue) == 0);
    ledger_all_taken(4 - refused);
}

static void check_three(void)
{
    refused = 1;
    check_all();
}

static void push_0_1(void)
{
    struct wf_chain chain = {0};
    wf_chain_push(&chain, ledger_make(0));
    wf_chain_push(&chain, ledger_make(1));
    MODEL_REQUIRE(wf_inject_push_chain(&queue, &chain) == 0);
}

static void push_2_3(void)
{
    MODEL_REQUIRE(wf_inject_push(&queue, ledger_make(2)) == 0);
    struct wf_chain chain = {0};
    wf_chain_push(&chain, ledger_make(3));
    wf_inject_push_overflow(&queue, &chain);
}

static void push_2(void)
{
    MODEL_REQUIRE(wf_inject_push(&queue, ledger_make(2)) == 0);
}

static void pop(void)
{
    struct wf_chain taken = {0};
    size_t count = wf_inject_pop(&queue, 2, SIZE_MAX, &taken);
    MODEL_REQUIRE(count == taken.count);
    take_all(&taken);
}

/* One fits: exactly one of two producers is refused, unless the consumer came in between. */
static void push_or_keep(int number)
{
    struct wf_node *item = ledger_make(number);
    if (wf_inject_push(&queue, item) != 0) {
        (void)ledger_take(item); /* not pushed: the producer still owns it */
    }
    MODEL_REQUIRE(wf_inject_count(&queue) <= 1);
}

static void push_or_keep_0(void)
{
    push_or_keep(0);
}

static void push_or_keep_1(void)
{
    push_or_keep(1);
}

static void check_capped(void)
{
    refused = 2;
    check_all();
}

static const struct model_test tests[] = {
    {.name = "two producers", .setup = start, .threads = {push_0_1, push_2_3}, .check = check_all},
    {.name = "producer and consumer", .setup = start, .threads = {push_2_3, pop}, .check = NULL},
    {.name = "two producers, a consumer",
     .setup = start,
     .threads = {push_0_1, push_2, pop},
     .check = check_three,
     .is_slow = 1},
    {.name = "two consumers", .setup = start, .threads = {push_0_1, pop, pop}, .check = NULL},
    {.name = "two producers at capacity, a consumer",
     .setup = start_capped,
     .threads = {push_or_keep_0, push_or_keep_1, pop},
     .check = check_capped,
     .is_slow = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"inject", tests, MODEL_COUNT(tests),
                                             NULL,     0,     "src/queue/inject.c"};
    return model_main(argc, argv, &suite);
}
