/* SPDX-License-Identifier: MIT */
/*
 * items.h - what the tests of the queues put into them: numbered items that can be taken once.
 *
 * The number is plain memory, written before the push and read after the take: it goes through
 * the very edge that the queue promises, so TSan sees it when the edge is missing.  The marks are
 * relaxed for the same reason: they must not order anything themselves.
 */
#ifndef ITEMS_H
#define ITEMS_H

#include <stdint.h>
#include <stdlib.h>

#include "base/base.h"
#include "tap.h"

struct item {
    struct wf_node node;
    uint32_t number;     /* its index + 1; 0: not pushed yet */
    wf_atomic_u32 taken; /* [any: exchange]  1 once somebody took it */
};

/* Gives zeroed items; free() takes them back. */
static inline struct item *items_new(size_t count)
{
    struct item *items = calloc(count, sizeof(*items));
    CHECK(items != NULL);
    return items;
}

/* Writes the number and gives what a queue carries. */
static inline struct wf_node *item_node(struct item *items, size_t index)
{
    items[index].number = (uint32_t)index + 1;
    return &items[index].node;
}

/* The index of a node; -1 for none, so that a test of the order reads CHECK_EQ(item_index(x), 3).
 */
static inline int64_t item_index(const struct wf_node *node)
{
    if (node == NULL) {
        return -1;
    }
    const struct item *item = (const struct item *)node; /* the node is its first member */
    return (int64_t)item->number - 1;
}
_Static_assert(offsetof(struct item, node) == 0, "item_index casts");

/* Books a node as taken: the number must have arrived with it, and nobody may have taken it yet.
 * Gives its index. */
static inline size_t item_take(struct item *items, struct wf_node *node)
{
    struct item *item = wf_container_of(node, struct item, node);
    size_t index = (size_t)(item - items);
    CHECK_EQ(item->number, index + 1);
    CHECK_EQ(wf_exchange_relaxed(&item->taken, 1), 0);
    return index;
}

/* How many of a chain were booked. */
static inline size_t items_take_chain(struct item *items, struct wf_chain *chain)
{
    size_t taken = 0;
    for (struct wf_node *node; (node = wf_chain_pop(chain)) != NULL; taken++) {
        (void)item_take(items, node);
    }
    CHECK_EQ(chain->count, 0);
    return taken;
}

/* Every one of the first `count` was taken; item_take has seen to it that none was twice. */
static inline void items_check_all_taken(struct item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(wf_load_relaxed(&items[i].taken), 1);
    }
}

/* A chain of items [from, from + count). */
static inline struct wf_chain items_chain(struct item *items, size_t from, size_t count)
{
    struct wf_chain chain = {0};
    for (size_t i = 0; i < count; i++) {
        wf_chain_push(&chain, item_node(items, from + i));
    }
    return chain;
}

#endif
