/* SPDX-License-Identifier: MIT */
/*
 * sync/chan.h - the inside of channels, for those who wait in several at once and for futures.
 *
 * A wait has three phases, each a function of its own:
 *
 *   begin     does at once what can be done; else puts the node into the channel: WF_PENDING
 *   finished  wf_waitq_is_granted(node); then node->result is what the call gives
 *   abandon   leaves; an item that was handed over meanwhile goes back to where it came from
 *
 * The blocking calls of chan.c are made of the same, with the wait in between.
 */
#ifndef WF_SYNC_CHAN_H
#define WF_SYNC_CHAN_H

#include "sync/spin.h"
#include "sync/sync.h"

/* What a begin gives when the node was put into the channel. */
#define WF_PENDING 1

/*
 * One lock, a ring of items, and two queues of which at most one has somebody in it who waits for
 * this channel alone.
 *
 * Invariants, whenever the lock is open:
 *   I1  somebody waits to receive => there is no item, nobody waits to send (but for the cases of
 *       one and the same select), and the channel is open
 *   I2  somebody waits to send => count >= limit, and the channel is open
 */
struct weft_chan {
    /* All that an item which is handed over needs: one line of the cache. */
    struct wf_spin lock;
    uint32_t item_size;        /* [const]  bytes */
    struct wf_waitq receivers; /* [locked]  its own lock is not used; nor is that of the senders */
    struct wf_waitq senders;   /* [locked] */
    uint32_t count;            /* [locked]  items in the ring */
    bool is_closed;            /* [locked] */

    uint32_t head;            /* [locked]  where the oldest is */
    uint32_t limit;           /* [locked]  senders wait from this count on: see chan.c */
    uint32_t slots;           /* [locked]  of the ring */
    char *items;              /* [locked]  the ring; NULL: none */
    size_t capacity;          /* [const]  as it was asked for */
    WF_ATOMIC(uint32_t) refs; /* [any: add]  handles */
};

#ifndef WF_MODEL
_Static_assert(offsetof(struct weft_chan, head) == WF_CACHE_LINE, "one line for who hands over");
#endif

/* ---- items --------------------------------------------------------------------------------- */

/* A word at any address, of whatever it is a part of. */
typedef uint64_t __attribute__((aligned(1), may_alias)) wf_any_word;

/* Most items are a pointer or a number. */
static inline void wf_item_copy(void *to, const void *from, uint32_t size)
{
    if (size == sizeof(wf_any_word)) {
        wf_plain_store((wf_any_word *)to, wf_plain_load((const wf_any_word *)from));
    } else {
        __builtin_memcpy(to, from, size);
    }
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* [waiter]  A node that sends or receives `item`. */
void wf_chan_node_init(struct wf_wait_node *node, struct weft_task *self, void *item);

/* [waiter]  0, WF_PENDING, or the error of the call; -ENOMEM only of send.  The node is set up. */
int wf_chan_begin_send(struct weft_chan *chan, struct wf_wait_node *node);
int wf_chan_begin_recv(struct weft_chan *chan, struct wf_wait_node *node);
/* [waiter]  It will not take what it waits for.  Pending nodes only. */
void wf_chan_abandon(struct wf_wait_node *node);

/* broadcast.c  [waiter]  As weft_broadcast_recv; -EINPROGRESS: the node stands in the queue.  Once
 * it was granted there may be an item: it is reset, and this is called again. */
int64_t wf_broadcast_begin(weft_subscription *subscription, struct wf_wait_node *node, void *item);

/* watch.c  [waiter]  The same of weft_watch_wait. */
int wf_watch_begin(weft_watch *watch, struct wf_wait_node *node, uint64_t *version);

/* oneshot.c  [receiver]  As weft_oneshot_recv; -EINPROGRESS: the waiter is woken by the value or by
 * the close, and stays where it is until granted says something else, or it was abandoned.  What
 * comes with the end of the wait stays in the oneshot then. */
int wf_oneshot_begin(weft_oneshot *outside, struct wf_waiter *waiter, void **value);
int wf_oneshot_granted(weft_oneshot *outside, void **value);
void wf_oneshot_abandon(weft_oneshot *outside);

/* ---- under the lock ------------------------------------------------------------------------ */

/* [locked]  Does it if it can be done at once: 0, or -EPIPE.  *task: to be woken when the lock is
 * open, or NULL.  -EAGAIN: one has to wait.  -ENOMEM: only of send; the ring has to grow first. */
int wf_chan_send_locked(struct weft_chan *chan, const void *item, struct weft_task **task);
int wf_chan_recv_locked(struct weft_chan *chan, void *item, struct weft_task **task);

/* [locked]  Puts a node into its queue. */
void wf_chan_push_locked(struct weft_chan *chan, struct wf_wait_node *node, bool is_sender);

/* [any]  More room in the ring of an unbounded channel.  -ENOMEM. */
int wf_chan_grow(struct weft_chan *chan);

/* [any]  An item that its receiver cannot take: to the next, or back to the front of the ring. */
void wf_chan_put_back(struct weft_chan *chan, const void *item);

#endif
