/* SPDX-License-Identifier: MIT */
/*
 * sync/chan.h - the parts of channels that select and futures use.
 *
 * A wait has three phases, each a function of its own:
 *
 *   begin     does at once what can be done; else puts the node into the channel: WF_PENDING
 *   granted?  wf_waitq_is_granted(node); then node->result is the result of the call
 *   abandon   leaves the channel; an item that was handed over meanwhile goes back to the channel
 *
 * The blocking calls of chan.c consist of the same steps, with the wait in between.
 */
#ifndef WF_SYNC_CHAN_H
#define WF_SYNC_CHAN_H

#include "sync/spin.h"
#include "sync/sync.h"

/* The result of a begin that has put the node into the channel. */
#define WF_PENDING 1

/*
 * One lock, a ring of items, and two queues.  At most one of the queues has waiters that wait for
 * this channel only.
 *
 * Invariants, whenever the lock is free, except while weft_chan_close grants the waiters:
 *   I1  a receiver waits => there is no item, the channel is open, and no sender waits (except as a
 *       case of the same select)
 *   I2  a sender waits => count >= limit, and the channel is open
 */
struct weft_chan {
    /* All that the hand-over of an item needs: one cache line. */
    struct wf_spin lock;
    uint32_t item_size;        /* [const]  bytes */
    struct wf_waitq receivers; /* [locked]  its own lock is not used; nor is that of the senders */
    struct wf_waitq senders;   /* [locked] */
    uint32_t count;            /* [locked]  items in the ring */
    bool is_closed;            /* [locked] */

    uint32_t head;            /* [locked]  the slot of the oldest item */
    uint32_t limit;           /* [locked]  senders wait at this count: see chan.c */
    uint32_t slots;           /* [locked]  of the ring */
    char *items;              /* [locked]  the ring; NULL: none */
    size_t capacity;          /* [const]  as requested */
    WF_ATOMIC(uint32_t) refs; /* [any: add]  handles */
};

#ifndef WF_MODEL
_Static_assert(offsetof(struct weft_chan, head) == WF_CACHE_LINE, "one line for a hand-over");
#endif

/* ---- items --------------------------------------------------------------------------------- */

/* A word at any address, that may alias any type. */
typedef uint64_t __attribute__((aligned(1), may_alias)) wf_any_word;

/* Copies an item.  Most items are a pointer or a number. */
static inline void wf_item_copy(void *to, const void *from, uint32_t size)
{
    if (size == sizeof(wf_any_word)) {
        wf_plain_store((wf_any_word *)to, wf_plain_load((const wf_any_word *)from));
    } else {
        __builtin_memcpy(to, from, size);
    }
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* [waiter]  Sets up a node that sends or receives `item`. */
void wf_chan_node_init(struct wf_wait_node *node, struct weft_task *self, void *item);

/* [waiter]  Sends the node's item.  0, WF_PENDING; -EPIPE: closed; -ENOMEM: an unbounded channel
 * cannot grow. */
int wf_chan_begin_send(struct weft_chan *chan, struct wf_wait_node *node);
/* [waiter]  Receives into the node's item.  0, WF_PENDING; -EPIPE: closed and empty. */
int wf_chan_begin_recv(struct weft_chan *chan, struct wf_wait_node *node);
/* [waiter, closer]  Leaves the channel, and puts back an item that was received.  The node is
 * pending. */
void wf_chan_abandon(struct wf_wait_node *node);

/* broadcast.c  [waiter]  As weft_broadcast_recv; -EINPROGRESS: the node is in the queue.  After a
 * grant the waiter must reset the node, and call this again. */
int64_t wf_broadcast_begin(weft_subscription *subscription, struct wf_wait_node *node, void *item);

/* watch.c  [waiter]  As weft_watch_wait; -EINPROGRESS: the node is in the queue.  After a grant the
 * waiter must reset the node, and call this again. */
int wf_watch_begin(weft_watch *watch, struct wf_wait_node *node, uint64_t *version);

/* oneshot.c  [receiver]  As weft_oneshot_recv; -EINPROGRESS: the sender, or the caller that closes
 * the oneshot, wakes the waiter.  The waiter must stay valid until wf_oneshot_granted has returned
 * a result or wf_oneshot_abandon has returned. */
int wf_oneshot_begin(weft_oneshot *out, struct wf_waiter *waiter, void **value);
/* oneshot.c  [receiver]  The result of the wait; -EINPROGRESS: it is not over. */
int wf_oneshot_granted(weft_oneshot *out, void **value);
/* oneshot.c  [receiver, closer]  Ends the wait.  A value that was sent stays in the oneshot. */
void wf_oneshot_abandon(weft_oneshot *out);

/* ---- under the lock ------------------------------------------------------------------------ */

/* [locked]  Sends, if that needs no wait: 0, or -EPIPE.  *task is the task that the caller must
 * wake after it has released the lock, or NULL.  -EAGAIN: the caller must wait.  -ENOMEM: the
 * caller must grow the ring first. */
int wf_chan_send_locked(struct weft_chan *chan, const void *item, struct weft_task **task);
/* [locked]  Receives, if that needs no wait: 0, or -EPIPE.  *task as in wf_chan_send_locked.
 * -EAGAIN: the caller must wait. */
int wf_chan_recv_locked(struct weft_chan *chan, void *item, struct weft_task **task);

/* [locked]  Puts a node into its queue. */
void wf_chan_push_locked(struct weft_chan *chan, struct wf_wait_node *node, bool is_sender);

/* [any]  Grows the ring of an unbounded channel.  -ENOMEM. */
int wf_chan_grow(struct weft_chan *chan);

/* [any]  Puts back an item that its receiver cannot take: gives it to the next receiver, or to the
 * front of the ring. */
void wf_chan_put_back(struct weft_chan *chan, const void *item);

#endif
