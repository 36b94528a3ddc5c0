/* SPDX-License-Identifier: MIT */
/*
 * items.h - the items that the tests of the queues use: numbered, and each can be taken once.
 *
 * The number is plain memory, written before the push and read after the take: it depends on
 * exactly the edge that the queue guarantees, so TSan reports a missing edge.  The marks are
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
    wf_atomic_u32 taken; /* [any: exchange]  1 after it was taken */
};

/* Returns zeroed items; release them with free(). */
static inline struct item *items_new(size_t count)
{
    struct item *items = calloc(count, sizeof(*items));
    CHECK(items != NULL);
    return items;
}

/* Writes the number and returns the node for a queue. */
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

/* Books a node as taken: the number must have arrived with it, and it must not have been taken
 * before.  Returns its index. */
static inline size_t item_take(struct item *items, struct wf_node *node)
{
    struct item *item = wf_container_of(node, struct item, node);
    size_t index = (size_t)(item - items);
    CHECK_EQ(item->number, index + 1);
    CHECK_EQ(wf_exchange_relaxed(&item->taken, 1), 0);
    return index;
}

/* Books a chain; returns its length. */
static inline size_t items_take_chain(struct item *items, struct wf_chain *chain)
{
    size_t taken = 0;
    for (struct wf_node *node; (node = wf_chain_pop(chain)) != NULL; taken++) {
        (void)item_take(items, node);
    }
    CHECK_EQ(chain->count, 0);
    return taken;
}

/* Each of the first `count` items was taken; item_take checks that none was taken twice. */
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
