/* SPDX-License-Identifier: MIT */
/*
 * sync/broadcast.c - every item to every subscriber.
 *
 * The ring has the items that were sent last.  Each subscriber has the number of the item that it
 * receives next.  Senders do not wait for subscribers: an item that is overwritten before a
 * subscriber has received it is lost to that subscriber.  The subscriber computes how many items it
 * has lost from the distance between its number and the tail.
 *
 * A grant only says that the waiter must check again.  Later items may have overwritten the item
 * by then.  Or there is no new item: the subscriber entered the queue while a sender was still
 * granting the waiters before it, and was granted with them.
 */
#include <errno.h>

#include "future/future.h"
#include "sync/chan.h"

struct weft_broadcast {
    struct wf_spin lock;
    uint32_t item_size;          /* [const]  bytes */
    uint64_t tail;               /* [locked]  the number of the next item */
    uint64_t mask;               /* [const]  slots of the ring, a power of two, less 1 */
    char *items;                 /* [const: address] [locked: contents] */
    size_t capacity;             /* [const]  items that are kept; at most the slots */
    struct wf_waitq subscribers; /* [locked]  its own lock is not used */
    bool is_closed;              /* [locked] */
    WF_ATOMIC(uint32_t) refs;    /* [any: add]  handles */
};

int weft_broadcast_new(weft_broadcast **out, size_t item_size, size_t capacity)
{
    WF_NOT_NULL(out, "weft_broadcast_new: out is NULL");
    if (item_size == 0 || item_size > WEFT_CHAN_ITEM_SIZE_MAX || capacity == 0 ||
        capacity > WEFT_CHAN_CAPACITY_MAX) {
        return -EINVAL;
    }
    size_t slots = 1;
    while (slots < capacity) {
        slots *= 2;
    }
    struct weft_broadcast *broadcast = wf_alloc_aligned(WF_CACHE_LINE, sizeof(*broadcast));
    char *items = wf_alloc(slots * item_size);
    if (broadcast == NULL || items == NULL) {
        wf_free(broadcast);
        wf_free(items);
        return -ENOMEM;
    }
    *broadcast = (struct weft_broadcast){
        .item_size = (uint32_t)item_size, .mask = slots - 1, .items = items, .capacity = capacity};
    wf_atomic_init(&broadcast->refs, 1);
    *out = broadcast;
    return 0;
}

static char *broadcast_slot(const struct weft_broadcast *broadcast, uint64_t number)
{
    return broadcast->items + (number & broadcast->mask) * broadcast->item_size;
}

static void broadcast_spend(struct weft_task *self)
{
    if (self != NULL) {
        wf_task_spend(self);
    }
}

int weft_broadcast_send(weft_broadcast *broadcast, const void *item)
{
    WF_NOT_NULL(broadcast, "weft_broadcast_send: broadcast is NULL");
    WF_NOT_NULL(item, "weft_broadcast_send: item is NULL");
    int rc = -EPIPE;
    wf_spin_acquire(&broadcast->lock);
    if (!wf_plain_load(&broadcast->is_closed)) {
        const uint64_t tail = wf_plain_load(&broadcast->tail);
        wf_item_copy(broadcast_slot(broadcast, tail), item, broadcast->item_size);
        wf_plain_store(&broadcast->tail, tail + 1);
        wf_waitq_grant_all(&broadcast->subscribers, &broadcast->lock, 0);
        rc = 0;
    }
    wf_spin_release(&broadcast->lock);
    broadcast_spend(wf_task_self());
    return rc;
}

int weft_broadcast_subscribe(weft_subscription *out, weft_broadcast *broadcast)
{
    WF_NOT_NULL(out, "weft_broadcast_subscribe: out is NULL");
    WF_NOT_NULL(broadcast, "weft_broadcast_subscribe: broadcast is NULL");
    wf_spin_acquire(&broadcast->lock);
    const uint64_t next = broadcast->tail;
    wf_spin_release(&broadcast->lock);
    *out = (weft_subscription){.broadcast = weft_broadcast_ref(broadcast), .next = next};
    return 0;
}

void weft_broadcast_unsubscribe(weft_subscription *subscription)
{
    if (subscription != NULL && subscription->broadcast != NULL) {
        weft_broadcast_unref(subscription->broadcast);
        subscription->broadcast = NULL;
    }
}

/* ---- receiving ----------------------------------------------------------------------------- */

/* [locked]  Copies the next item and returns the number of items that were missed before it.
 * -EPIPE: closed; -EAGAIN: there is no item yet. */
static inline int64_t broadcast_take(weft_subscription *subscription, void *item)
{
    const struct weft_broadcast *broadcast = subscription->broadcast;
    const uint64_t behind = wf_plain_load(&broadcast->tail) - subscription->next;
    if (behind == 0) {
        return wf_plain_load(&broadcast->is_closed) ? -EPIPE : -EAGAIN;
    }
    const uint64_t missed = behind > broadcast->capacity ? behind - broadcast->capacity : 0;
    const uint64_t number = subscription->next + missed;
    wf_item_copy(item, broadcast_slot(broadcast, number), broadcast->item_size);
    subscription->next = number + 1;
    subscription->lost += missed;
    return (int64_t)missed;
}

int64_t weft_broadcast_try_recv(weft_subscription *subscription, void *item)
{
    WF_NOT_NULL(subscription, "weft_broadcast_try_recv: subscription is NULL");
    WF_NOT_NULL(item, "weft_broadcast_try_recv: item is NULL");
    if (subscription->broadcast == NULL) {
        return -EINVAL;
    }
    struct wf_spin *lock = &subscription->broadcast->lock;
    wf_spin_acquire(lock);
    const int64_t rc = broadcast_take(subscription, item);
    wf_spin_release(lock);
    broadcast_spend(wf_task_self());
    return rc;
}

/* [locked]  As broadcast_take; -EINPROGRESS: there is no item yet, and the node is in the queue. */
static int64_t broadcast_take_or_queue(weft_subscription *subscription, struct wf_wait_node *node,
                                       void *item)
{
    const int64_t rc = broadcast_take(subscription, item);
    if (rc != -EAGAIN) {
        return rc;
    }
    node->spin = &subscription->broadcast->lock;
    wf_waitq_push(&subscription->broadcast->subscribers, node);
    return -EINPROGRESS;
}

int64_t wf_broadcast_begin(weft_subscription *subscription, struct wf_wait_node *node, void *item)
{
    struct wf_spin *lock = &subscription->broadcast->lock;
    wf_spin_acquire(lock);
    const int64_t rc = broadcast_take_or_queue(subscription, node, item);
    wf_spin_release(lock);
    return rc;
}

/* [locked, any]  Releases the lock, and waits for an item. */
static __attribute__((noinline)) int64_t broadcast_recv_slow(weft_subscription *subscription,
                                                             void *item, struct weft_task *self)
{
    struct weft_broadcast *broadcast = subscription->broadcast;
    struct wf_wait_node node;
    wf_node_init(&node, self);
    for (;;) { /* Ends with an item, the close, or an interruption. */
        int64_t rc = broadcast_take_or_queue(subscription, &node, item);
        wf_spin_release(&broadcast->lock);
        if (rc != -EINPROGRESS) {
            return rc;
        }
        rc = wf_waitq_wait(&node, WEFT_WAIT_RECEIVE, broadcast, WEFT_NEVER);
        if (rc != 0) {
            return rc;
        }
        wf_node_reset(&node);
        wf_spin_acquire(&broadcast->lock);
    }
}

int64_t weft_broadcast_recv(weft_subscription *subscription, void *item)
{
    WF_NOT_NULL(subscription, "weft_broadcast_recv: subscription is NULL");
    WF_NOT_NULL(item, "weft_broadcast_recv: item is NULL");
    if (subscription->broadcast == NULL) {
        return -EINVAL;
    }
    struct weft_task *self = wf_task_self();
    struct wf_spin *lock = &subscription->broadcast->lock;
    wf_spin_acquire(lock);
    const int64_t rc = broadcast_take(subscription, item);
    if (rc == -EAGAIN) {
        return broadcast_recv_slow(subscription, item, self);
    }
    wf_spin_release(lock);
    broadcast_spend(self);
    return rc;
}

size_t weft_broadcast_length(const weft_subscription *subscription)
{
    WF_NOT_NULL(subscription, "weft_broadcast_length: subscription is NULL");
    if (subscription->broadcast == NULL) {
        return 0;
    }
    struct weft_broadcast *broadcast = subscription->broadcast;
    wf_spin_acquire(&broadcast->lock);
    const uint64_t behind = broadcast->tail - subscription->next;
    wf_spin_release(&broadcast->lock);
    return behind < broadcast->capacity ? behind : broadcast->capacity;
}

size_t weft_broadcast_capacity(const weft_broadcast *broadcast)
{
    WF_NOT_NULL(broadcast, "weft_broadcast_capacity: broadcast is NULL");
    return broadcast->capacity;
}

/* ---- closing ------------------------------------------------------------------------------- */

int weft_broadcast_close(weft_broadcast *broadcast)
{
    WF_NOT_NULL(broadcast, "weft_broadcast_close: broadcast is NULL");
    wf_spin_acquire(&broadcast->lock);
    const bool was_closed = wf_plain_load(&broadcast->is_closed);
    wf_plain_store(&broadcast->is_closed, true);
    wf_waitq_grant_all(&broadcast->subscribers, &broadcast->lock, 0);
    wf_spin_release(&broadcast->lock);
    return was_closed ? -EPIPE : 0;
}

weft_broadcast *weft_broadcast_ref(weft_broadcast *broadcast)
{
    /* relaxed: the caller's handle keeps the object */
    const uint32_t before = wf_fetch_add_relaxed(&broadcast->refs, 1);
    WEFT_CHECK(before > 0);
    WEFT_CHECK(before < UINT32_MAX);
    return broadcast;
}

void weft_broadcast_unref(weft_broadcast *broadcast)
{
    if (broadcast == NULL) {
        return;
    }
    /* (sync.K2) release: the uses by this handle.  acquire: the uses by all others, for the last.
     */
    const uint32_t before = wf_fetch_sub_acq_rel(&broadcast->refs, 1);
    WEFT_CHECK(before > 0);
    if (before == 1) {
        const bool has_waiters = broadcast->subscribers.first != NULL;
        WEFT_CHECK(!has_waiters); /* a waiter has a handle */
        wf_free(broadcast->items);
        wf_free(broadcast);
    }
}
