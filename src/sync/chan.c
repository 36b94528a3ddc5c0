/* SPDX-License-Identifier: MIT */
/*
 * sync/chan.c - channels.
 *
 * If the peer waits, an item goes straight from the sender's frame into the receiver's frame; else
 * it goes through the ring.  The task that is woken enters the LIFO slot of this worker, and runs
 * next: two tasks that take turns stay on one worker, and no other worker is woken.  A woken
 * receiver has its item, and does not take the lock again.
 *
 * The ring has `slots` slots, and senders wait at `limit` items.  In a bounded channel both are the
 * capacity.  An unbounded channel grows: there the limit is the number of slots, and a sender that
 * reaches it grows the ring, without the lock, and tries again.  There may be more items than the
 * limit: items that a receiver could not take (wf_chan_put_back).
 *
 * A call that has to wait consists of two functions.  The first ends in a tail call of the second,
 * which is the only function of this layer that the task has to return through after its wait: see
 * sched/switch.h.
 *
 * Rejected: the lock of the queue (a second exchange for each call, see spin.h); a lock-free ring
 * (waiters need a lock anyway, and here the same lock guards the items).
 */
#include <errno.h>

#include "future/future.h"
#include "sync/chan.h"

enum {
    GROWTH_MIN = 16, /* slots of the first ring */
    UNBOUNDED_MAX = 1 << 30,
};

/* ---- the ring ------------------------------------------------------------------------------ */

static char *chan_slot(struct weft_chan *chan, uint32_t index)
{
    return chan->items + (size_t)index * chan->item_size;
}

/* [locked]  Appends an item.  A slot is free. */
static inline void chan_ring_put(struct weft_chan *chan, const void *item)
{
    const uint32_t count = wf_plain_load(&chan->count);
    const uint64_t tail = (uint64_t)chan->head + count;
    WEFT_ASSERT(count < chan->slots);
    wf_item_copy(chan_slot(chan, (uint32_t)(tail < chan->slots ? tail : tail - chan->slots)), item,
                 chan->item_size);
    wf_plain_store(&chan->count, count + 1);
}

/* [locked]  Removes the oldest item.  There is one. */
static inline void chan_ring_take(struct weft_chan *chan, void *item)
{
    const uint32_t head = chan->head;
    wf_item_copy(item, chan_slot(chan, head), chan->item_size);
    chan->head = head + 1 < chan->slots ? head + 1 : 0;
    wf_plain_store(&chan->count, wf_plain_load(&chan->count) - 1);
}

/* [locked]  Prepends an item.  A slot is free. */
static void chan_ring_put_front(struct weft_chan *chan, const void *item)
{
    chan->head = (chan->head > 0 ? chan->head : chan->slots) - 1;
    wf_item_copy(chan_slot(chan, chan->head), item, chan->item_size);
    wf_plain_store(&chan->count, wf_plain_load(&chan->count) + 1);
}

/* [locked]  Moves all items into the ring `items`.  Returns the old ring, which the caller
 * frees. */
static char *chan_ring_move(struct weft_chan *chan, char *items, uint32_t slots)
{
    char *old = chan->items;
    const size_t size = chan->item_size;
    const uint32_t head = chan->head;
    const uint32_t count = chan->count;
    const uint32_t before_end = count < chan->slots - head ? count : chan->slots - head;
    if (count > 0) {
        __builtin_memcpy(items, old + head * size, before_end * size);
        __builtin_memcpy(items + before_end * size, old, (count - before_end) * size);
    }
    chan->items = items;
    chan->head = 0;
    chan->slots = slots;
    if (chan->capacity == WEFT_CHAN_UNBOUNDED) {
        chan->limit = slots;
    }
    return old;
}

/* [any]  Grows the ring, unless another caller has grown it since the caller saw `seen` slots.
 * -ENOMEM. */
static int chan_grow(struct weft_chan *chan, uint32_t seen)
{
    if (seen >= UNBOUNDED_MAX) {
        return -ENOMEM;
    }
    const uint32_t slots = seen < GROWTH_MIN ? GROWTH_MIN : seen * 2;
    char *items = wf_alloc((size_t)slots * chan->item_size);
    if (items == NULL) {
        return -ENOMEM;
    }
    wf_spin_acquire(&chan->lock);
    if (chan->slots == seen) {
        items = chan_ring_move(chan, items, slots);
    }
    wf_spin_release(&chan->lock);
    wf_free(items);
    return 0;
}

int wf_chan_grow(struct weft_chan *chan)
{
    wf_spin_acquire(&chan->lock);
    const uint32_t slots = chan->slots;
    wf_spin_release(&chan->lock);
    return chan_grow(chan, slots);
}

/* ---- nodes --------------------------------------------------------------------------------- */

/* `count` of a node. */
enum direction { RECEIVES, SENDS };

static struct weft_chan *chan_of(const struct wf_wait_node *node)
{
    return node->count == SENDS ? wf_container_of(node->queue, struct weft_chan, senders)
                                : wf_container_of(node->queue, struct weft_chan, receivers);
}

/* [waiter, closer]  The receiver cannot take the item that it was granted. */
static void chan_pass_on(struct wf_wait_node *node)
{
    if (node->count == RECEIVES && node->result == 0) {
        wf_chan_put_back(chan_of(node), node->item);
    }
}

/* [waiter]  As wf_chan_node_init, inline. */
static inline __attribute__((always_inline)) void chan_node_init(struct wf_wait_node *node,
                                                                 struct weft_task *self, void *item)
{
    wf_node_init(node, self);
    node->item = item;
    node->pass_on = chan_pass_on;
}

void wf_chan_node_init(struct wf_wait_node *node, struct weft_task *self, void *item)
{
    chan_node_init(node, self, item);
}

/* [locked] */
static inline void chan_push(struct weft_chan *chan, struct wf_waitq *queue,
                             struct wf_wait_node *node)
{
    node->spin = &chan->lock;
    node->count = queue == &chan->senders ? SENDS : RECEIVES;
    wf_waitq_push(queue, node);
}

void wf_chan_push_locked(struct weft_chan *chan, struct wf_wait_node *node, bool is_sender)
{
    chan_push(chan, is_sender ? &chan->senders : &chan->receivers, node);
}

/* ---- under the lock ------------------------------------------------------------------------ */

/* [locked]  As wf_chan_send_locked; -EAGAIN also if the ring has to grow. */
static inline __attribute__((always_inline)) int chan_send(struct weft_chan *chan,
                                                           struct wf_worker *worker,
                                                           const void *item,
                                                           struct weft_task **task)
{
    struct wf_wait_node *receiver = wf_waitq_claim(&chan->receivers);
    *task = NULL;
    if (receiver != NULL) {
        wf_item_copy(receiver->item, item, chan->item_size);
        *task = wf_waitq_grant_on(worker, receiver);
        return 0;
    }
    if (wf_plain_load(&chan->is_closed)) {
        return -EPIPE;
    }
    if (wf_plain_load(&chan->count) < chan->limit) {
        chan_ring_put(chan, item);
        return 0;
    }
    return -EAGAIN;
}

/* [locked]  As wf_chan_recv_locked. */
static inline __attribute__((always_inline)) int
chan_recv(struct weft_chan *chan, struct wf_worker *worker, void *item, struct weft_task **task)
{
    *task = NULL;
    if (wf_plain_load(&chan->count) > 0) {
        chan_ring_take(chan, item);
        if (wf_plain_load(&chan->senders.first) != NULL &&
            wf_plain_load(&chan->count) < chan->limit) {
            struct wf_wait_node *sender = wf_waitq_claim(&chan->senders);
            if (sender != NULL) {
                chan_ring_put(chan, sender->item);
                *task = wf_waitq_grant_on(worker, sender);
            }
        }
        return 0;
    }
    struct wf_wait_node *sender = wf_waitq_claim(&chan->senders);
    if (sender != NULL) {
        wf_item_copy(item, sender->item, chan->item_size);
        *task = wf_waitq_grant_on(worker, sender);
        return 0;
    }
    return wf_plain_load(&chan->is_closed) ? -EPIPE : -EAGAIN;
}

int wf_chan_send_locked(struct weft_chan *chan, const void *item, struct weft_task **task)
{
    const int rc = chan_send(chan, wf_worker_self(), item, task);
    return rc == -EAGAIN && chan->capacity == WEFT_CHAN_UNBOUNDED ? -ENOMEM : rc;
}

int wf_chan_recv_locked(struct weft_chan *chan, void *item, struct weft_task **task)
{
    return chan_recv(chan, wf_worker_self(), item, task);
}

/* ---- the three phases ---------------------------------------------------------------------- */

static void chan_wake(struct weft_task *task)
{
    if (task != NULL) {
        wf_task_wake(task);
    }
}

int wf_chan_begin_send(struct weft_chan *chan, struct wf_wait_node *node)
{
    struct weft_task *task;
    int rc;
    for (;;) { /* Ends: the channel grows in each iteration, or cannot. */
        wf_spin_acquire(&chan->lock);
        rc = wf_chan_send_locked(chan, node->item, &task);
        if (rc != -ENOMEM) {
            break;
        }
        wf_spin_release(&chan->lock);
        rc = wf_chan_grow(chan);
        if (rc != 0) {
            return rc;
        }
    }
    if (rc == -EAGAIN) {
        chan_push(chan, &chan->senders, node);
        rc = WF_PENDING;
    }
    wf_spin_release(&chan->lock);
    chan_wake(task);
    return rc;
}

int wf_chan_begin_recv(struct weft_chan *chan, struct wf_wait_node *node)
{
    struct weft_task *task;
    wf_spin_acquire(&chan->lock);
    int rc = wf_chan_recv_locked(chan, node->item, &task);
    if (rc == -EAGAIN) {
        chan_push(chan, &chan->receivers, node);
        rc = WF_PENDING;
    }
    wf_spin_release(&chan->lock);
    chan_wake(task);
    return rc;
}

void wf_chan_abandon(struct wf_wait_node *node)
{
    wf_waitq_abandon(node);
}

void wf_chan_put_back(struct weft_chan *chan, const void *item)
{
    struct weft_task *task = NULL;
    for (;;) { /* Ends: the ring grows in each iteration, or cannot. */
        wf_spin_acquire(&chan->lock);
        struct wf_wait_node *receiver = wf_waitq_claim(&chan->receivers);
        const uint32_t slots = chan->slots;
        const bool is_taken = receiver != NULL || chan->count < slots;
        if (receiver != NULL) {
            wf_item_copy(receiver->item, item, chan->item_size);
            task = wf_waitq_grant(receiver);
        } else if (is_taken) {
            chan_ring_put_front(chan, item);
        }
        wf_spin_release(&chan->lock);
        if (is_taken || chan_grow(chan, slots) != 0) {
            break; /* without memory the item is lost with its receiver */
        }
        WF_REACHED("chan.room_for_one_that_came_back");
    }
    chan_wake(task);
}

/* ---- sending and receiving ----------------------------------------------------------------- */

/* [locked, any]  Releases the lock, and waits in the queue.  Returns the result of the send or of
 * the receive. */
static inline __attribute__((always_inline)) int chan_wait(struct weft_chan *chan,
                                                           struct wf_waitq *queue,
                                                           struct wf_worker *worker,
                                                           struct weft_task *self, void *item)
{
    const enum weft_wait wait = queue == &chan->senders ? WEFT_WAIT_SEND : WEFT_WAIT_RECEIVE;
    struct wf_wait_node node;
    chan_node_init(&node, self, item);
    chan_push(chan, queue, &node);
    wf_spin_release(&chan->lock);
    const int rc = self != NULL ? wf_waitq_wait_on(worker, self, &node, wait, chan, WEFT_NEVER)
                                : wf_waitq_wait(&node, wait, chan, WEFT_NEVER);
    return rc != 0 ? rc : node.result;
}

/* [locked, any]  The channel is full: grows it or waits. */
static __attribute__((noinline)) int chan_send_slow(struct weft_chan *chan, const void *item,
                                                    struct wf_worker *worker,
                                                    struct weft_task *self)
{
    if (chan->capacity == WEFT_CHAN_UNBOUNDED) {
        struct wf_wait_node node;
        wf_spin_release(&chan->lock);
        wf_chan_node_init(&node, self, (void *)(uintptr_t)item);
        return wf_chan_begin_send(chan, &node);
    }
    return chan_wait(chan, &chan->senders, worker, self, (void *)(uintptr_t)item);
}

/* [locked, any]  The channel is empty: waits. */
static __attribute__((noinline)) int
chan_recv_slow(struct weft_chan *chan, void *item, struct wf_worker *worker, struct weft_task *self)
{
    return chan_wait(chan, &chan->receivers, worker, self, item);
}

/* [any]  Ends a call that did not wait: wakes the peer, and spends budget. */
static inline __attribute__((always_inline)) void
chan_finish(struct wf_worker *worker, struct weft_task *self, struct weft_task *woken)
{
    if (woken != NULL) {
        wf_task_wake_on(worker, woken);
    }
    if (self != NULL) {
        wf_budget_spend(self);
    }
}

int weft_chan_send(weft_chan *chan, const void *item)
{
    WF_NOT_NULL(chan, "weft_chan_send: chan is NULL");
    WF_NOT_NULL(item, "weft_chan_send: item is NULL");
    struct wf_worker *worker = wf_worker_self();
    /* relaxed: only this thread writes it */
    struct weft_task *self = wf_task_on(worker);
    struct weft_task *woken;
    wf_spin_acquire(&chan->lock);
    const int rc = chan_send(chan, worker, item, &woken);
    if (rc == -EAGAIN) {
        return chan_send_slow(chan, item, worker, self);
    }
    wf_spin_release(&chan->lock);
    chan_finish(worker, self, woken);
    return rc;
}

int weft_chan_recv(weft_chan *chan, void *item)
{
    WF_NOT_NULL(chan, "weft_chan_recv: chan is NULL");
    WF_NOT_NULL(item, "weft_chan_recv: item is NULL");
    struct wf_worker *worker = wf_worker_self();
    /* relaxed: only this thread writes it */
    struct weft_task *self = wf_task_on(worker);
    struct weft_task *woken;
    wf_spin_acquire(&chan->lock);
    const int rc = chan_recv(chan, worker, item, &woken);
    if (rc == -EAGAIN) {
        return chan_recv_slow(chan, item, worker, self);
    }
    wf_spin_release(&chan->lock);
    chan_finish(worker, self, woken);
    return rc;
}

int weft_chan_try_send(weft_chan *chan, const void *item)
{
    WF_NOT_NULL(chan, "weft_chan_try_send: chan is NULL");
    WF_NOT_NULL(item, "weft_chan_try_send: item is NULL");
    struct wf_worker *worker = wf_worker_self();
    struct weft_task *woken;
    int rc;
    do { /* ends: the channel grows in each iteration, or cannot */
        wf_spin_acquire(&chan->lock);
        rc = wf_chan_send_locked(chan, item, &woken);
        wf_spin_release(&chan->lock);
    } while (rc == -ENOMEM && wf_chan_grow(chan) == 0);
    /* relaxed: only this thread writes it */
    chan_finish(worker, wf_task_on(worker), woken);
    return rc;
}

int weft_chan_try_recv(weft_chan *chan, void *item)
{
    WF_NOT_NULL(chan, "weft_chan_try_recv: chan is NULL");
    WF_NOT_NULL(item, "weft_chan_try_recv: item is NULL");
    struct wf_worker *worker = wf_worker_self();
    struct weft_task *woken;
    wf_spin_acquire(&chan->lock);
    const int rc = chan_recv(chan, worker, item, &woken);
    wf_spin_release(&chan->lock);
    /* relaxed: only this thread writes it */
    chan_finish(worker, wf_task_on(worker), woken);
    return rc;
}

/* ---- opening and closing ------------------------------------------------------------------- */

int weft_chan_new(weft_chan **out, size_t item_size, size_t capacity)
{
    const bool is_bounded = capacity != WEFT_CHAN_UNBOUNDED;
    WF_NOT_NULL(out, "weft_chan_new: out is NULL");
    if (item_size == 0 || item_size > WEFT_CHAN_ITEM_SIZE_MAX ||
        (is_bounded && capacity > WEFT_CHAN_CAPACITY_MAX)) {
        return -EINVAL;
    }
    struct weft_chan *chan = wf_alloc_aligned(WF_CACHE_LINE, sizeof(*chan));
    if (chan == NULL) {
        return -ENOMEM;
    }
    wf_plain_store(chan,
                   ((struct weft_chan){.item_size = (uint32_t)item_size, .capacity = capacity}));
    wf_atomic_init(&chan->lock.word, 0);
    wf_atomic_init(&chan->refs, 1);
    if (is_bounded && capacity > 0) {
        chan->items = wf_alloc(capacity * item_size);
        if (chan->items == NULL) {
            wf_free(chan);
            return -ENOMEM;
        }
        chan->limit = (uint32_t)capacity;
        chan->slots = (uint32_t)capacity;
    }
    *out = chan;
    return 0;
}

int weft_chan_close(weft_chan *chan)
{
    WF_NOT_NULL(chan, "weft_chan_close: chan is NULL");
    wf_spin_acquire(&chan->lock);
    if (wf_plain_load(&chan->is_closed)) {
        wf_spin_release(&chan->lock);
        return -EPIPE;
    }
    wf_plain_store(&chan->is_closed, true); /* no waiter comes after this */
    wf_waitq_grant_all(&chan->receivers, &chan->lock, -EPIPE);
    wf_waitq_grant_all(&chan->senders, &chan->lock, -EPIPE);
    wf_spin_release(&chan->lock);
    return 0;
}

weft_chan *weft_chan_ref(weft_chan *chan)
{
    /* relaxed: the caller's handle keeps the object */
    const uint32_t before = wf_fetch_add_relaxed(&chan->refs, 1);
    WEFT_CHECK(before > 0);
    WEFT_CHECK(before < UINT32_MAX);
    return chan;
}

void weft_chan_unref(weft_chan *chan)
{
    if (chan == NULL) {
        return;
    }
    /* (sync.K2) release: the uses by this handle.  acquire: the uses by all others, for the last.
     */
    const uint32_t before = wf_fetch_sub_acq_rel(&chan->refs, 1);
    WF_RULE(before > 0, "weft_chan_unref: channel already released");
    if (before == 1) {
        const bool has_waiters = chan->receivers.first != NULL || chan->senders.first != NULL;
        WEFT_CHECK(!has_waiters); /* a waiter has a handle */
        wf_free(chan->items);
        wf_free(chan);
    }
}

/* ---- queries ------------------------------------------------------------------------------- */

/* Functions that only read take the lock too. */
static struct weft_chan *chan_to_lock(const weft_chan *chan)
{
    return (struct weft_chan *)(uintptr_t)chan;
}

size_t weft_chan_length(const weft_chan *chan)
{
    WF_NOT_NULL(chan, "weft_chan_length: chan is NULL");
    wf_spin_acquire(&chan_to_lock(chan)->lock);
    const size_t count = chan->count;
    wf_spin_release(&chan_to_lock(chan)->lock);
    return count;
}

size_t weft_chan_capacity(const weft_chan *chan)
{
    WF_NOT_NULL(chan, "weft_chan_capacity: chan is NULL");
    return chan->capacity;
}

bool weft_chan_is_closed(const weft_chan *chan)
{
    WF_NOT_NULL(chan, "weft_chan_is_closed: chan is NULL");
    wf_spin_acquire(&chan_to_lock(chan)->lock);
    const bool is_closed = chan->is_closed;
    wf_spin_release(&chan_to_lock(chan)->lock);
    return is_closed;
}
