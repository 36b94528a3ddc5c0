/* SPDX-License-Identifier: MIT */
/*
 * model/ledger.h - numbered items with a plain payload, and a count of how often each was taken.
 *
 * `make` writes the payload plainly, so that a queue that passes an item on without ordering shows
 * as a race; `take` reads it, and fails on an item taken twice; `all_taken` fails on a lost one.
 */
#ifndef MODEL_LEDGER_H
#define MODEL_LEDGER_H

#include "model/model.h"

enum { LEDGER_MAX = 16, LEDGER_PAYLOAD = 1000 };

struct ledger_item {
    struct wf_node node;
    int payload;
};

static struct ledger_item ledger_items[LEDGER_MAX];
static int ledger_takers[LEDGER_MAX]; /* times taken; each item has one taker, so plain */

static inline void ledger_clear(void)
{
    for (int i = 0; i < LEDGER_MAX; i++) {
        ledger_items[i] = (struct ledger_item){0};
        ledger_takers[i] = 0;
    }
}

/* [the thread that pushes the item] */
static inline struct wf_node *ledger_make(int number)
{
    wf_plain_store(&ledger_items[number].payload, LEDGER_PAYLOAD + number);
    return &ledger_items[number].node;
}

/* [the thread that got the item]  Returns its number; -1 for NULL. */
static inline int ledger_take(struct wf_node *node)
{
    if (node == NULL) {
        return -1;
    }
    struct ledger_item *item = wf_container_of(node, struct ledger_item, node);
    int number = (int)(item - ledger_items);
    MODEL_REQUIRE(number >= 0 && number < LEDGER_MAX);
    MODEL_REQUIRE(ledger_takers[number] == 0); /* taken twice */
    ledger_takers[number]++;
    MODEL_REQUIRE(wf_plain_load(&item->payload) == LEDGER_PAYLOAD + number);
    wf_plain_store(&item->payload, 0); /* the taker owns it: a second holder would race */
    return number;
}

static inline void ledger_all_taken(int count)
{
    for (int i = 0; i < LEDGER_MAX; i++) {
        MODEL_REQUIRE(ledger_takers[i] == (i < count ? 1 : 0));
    }
}

#endif
