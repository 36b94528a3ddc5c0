/* SPDX-License-Identifier: MIT */
/*
 * chan_helpers.h - common code of tests of channels: the number of waiters of a channel, and a
 * ledger of items, each of which must arrive once with the data that was written into it before the
 * send.
 */
#ifndef CHAN_HELPERS_H
#define CHAN_HELPERS_H

#include <pthread.h>

#include "sched_helpers.h"
#include "sync/chan.h"

/* An hour: longer than any test runs. */
#define HOUR (3600 * WEFT_SECOND)

static inline weft_chan *chan_of(size_t item_size, size_t capacity)
{
    weft_chan *chan = NULL;
    CHECK_EQ(weft_chan_new(&chan, item_size, capacity), 0);
    CHECK(chan != NULL);
    return chan;
}

static inline weft_chan *int_chan(size_t capacity)
{
    return chan_of(sizeof(int), capacity);
}

/* The number of senders and receivers that wait in the channel. */
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

/* Callable from tasks and threads. */
static inline void wait_until_waiting(weft_chan *chan, unsigned count)
{
    while (waiting_in(chan) != count) {
        let_others_run();
    }
}

static inline void send_int(weft_chan *chan, int item)
{
    CHECK_EQ(weft_chan_send(chan, &item), 0);
}

static inline int recv_int(weft_chan *chan)
{
    int item = -1;
    CHECK_EQ(weft_chan_recv(chan, &item), 0);
    return item;
}

/* ---- the ledger ------------------------------------------------------------------------------ */

struct entry {
    int text;  /* plain: written before it is sent */
    int taken; /* plain: how often it was received */
};

enum { LEDGER_MAX = 4000 };

struct ledger {
    weft_chan *chan; /* addresses of entries */
    size_t count;
    WF_ATOMIC(uint64_t) next; /* the first entry that no sender has claimed */
    struct entry entries[LEDGER_MAX];
};

static inline void ledger_init(struct ledger *ledger, size_t capacity, size_t count)
{
    CHECK(count <= LEDGER_MAX);
    *ledger = (struct ledger){.chan = chan_of(sizeof(struct entry *), capacity), .count = count};
}

/* The next entry to send; NULL: none left. */
static inline struct entry *ledger_next(struct ledger *ledger)
{
    /* relaxed: only the number matters */
    const uint64_t number = wf_fetch_add_relaxed(&ledger->next, 1);
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
    weft_chan_unref(ledger->chan);
}

#endif
