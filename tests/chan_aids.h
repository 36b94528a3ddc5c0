/* SPDX-License-Identifier: MIT */
/*
 * chan_aids.h - what tests of channels have in common: who waits in one, and a ledger of items that
 * are to arrive once each, with what was written into them before they were sent.
 */
#ifndef CHAN_AIDS_H
#define CHAN_AIDS_H

#include <pthread.h>

#include "sched_aids.h"
#include "sync/chan.h"

/* An hour: in a test that is for ever. */
#define HOUR (3600 * WEFT_SECOND)

static inline weft_chan *chan_of(size_t item_size, size_t capacity)
{
    weft_chan *chan = NULL;
    CHECK_EQ(weft_chan_open(&chan, item_size, capacity), 0);
    CHECK(chan != NULL);
    return chan;
}

static inline weft_chan *int_chan(size_t capacity)
{
    return chan_of(sizeof(int), capacity);
}

/* Those who wait in the channel, for whatever. */
static inline unsigned waiting_in(weft_chan *chan)
{
    unsigned count = 0;
    wf_spin_acquire(&chan->lock);
    const struct wf_wait_node *node = chan->receivers.first;
    for (int is_sender = 0; is_sender < 2; is_sender++, node = chan->senders.first) {
        for (; node != NULL; node = node->next) {
            count++;
        }
    }
    wf_spin_release(&chan->lock);
    return count;
}

/* Tasks and threads alike. */
static inline void wait_until_waiting(weft_chan *chan, unsigned count)
{
    while (waiting_in(chan) != count) {
        let_others_run();
    }
}

static inline void send_int(weft_chan *chan, int item)
{
    CHECK_EQ(weft_send(chan, &item), 0);
}

static inline int recv_int(weft_chan *chan)
{
    int item = -1;
    CHECK_EQ(weft_recv(chan, &item), 0);
    return item;
}

/* ---- the ledger ------------------------------------------------------------------------------ */

struct entry {
    int text;  /* plain: written before it is sent */
    int taken; /* plain: how often it was received */
};

enum { LEDGER_MAX = 4000 };

struct ledger {
    weft_chan *chan; /* of addresses of entries */
    size_t count;
    WF_ATOMIC(uint64_t) next; /* the first that nobody sends yet */
    struct entry entries[LEDGER_MAX];
};

static inline void ledger_init(struct ledger *ledger, size_t capacity, size_t count)
{
    CHECK(count <= LEDGER_MAX);
    *ledger = (struct ledger){.chan = chan_of(sizeof(struct entry *), capacity), .count = count};
}

/* The next one to be sent; NULL: there is none. */
static inline struct entry *ledger_next(struct ledger *ledger)
{
    const uint64_t number = wf_fetch_add_relaxed(&ledger->next, 1); /* relaxed: a number */
    if (number >= ledger->count) {
        return NULL;
    }
    ledger->entries[number].text = (int)number + 1;
    return &ledger->entries[number];
}

static inline void ledger_take(struct ledger *ledger, struct entry *entry)
{
    CHECK_EQ(entry->text, entry - ledger->entries + 1);
    entry->taken++;
}

static inline void ledger_check(struct ledger *ledger)
{
    for (size_t i = 0; i < ledger->count; i++) {
        CHECK_EQ(ledger->entries[i].taken, 1);
    }
    weft_chan_drop(ledger->chan);
}

#endif
