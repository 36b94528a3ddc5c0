/* SPDX-License-Identifier: MIT */
/*
 * sync/chan.c - channels.
 *
 * An item goes from the sender's frame straight into the receiver's where one of them waits, and
 * through the ring where nobody does.  Whoever hands over wakes the other, who then lies in the
 * slot of this worker and is the next to run there: two tasks that take turns stay on one worker,
 * and nobody else is called for them.  The one that was woken has its item, and does not take the
 * lock again.
 *
 * The ring has `slots` places, and senders wait from `limit` items on.  In a bounded channel the
 * limit is the capacity, and there are as many slots; an unbounded one grows, and there the limit
 * is the number of slots: who reaches it grows the ring, without the lock, and tries again.  There
 * may be more items than the limit: those that came back from a receiver that could not take them
 * any more (wf_chan_put_back).
 *
 * A call that has to wait is in two parts.  The first has no frame of its own when it goes over to
 * the second, which is the only function of ours that a task is inside of while it waits: see
 * sched/fast.h.
 *
 * Rejected: the queue's own lock (a second exchange for each call, see spin.h); a ring without
 * locks (the waiters need one anyway, and there it is the lock that items pass through as well).
 */
#include <errno.h>

#include "sched/fast.h"
#include "sync/chan.h"

enum {
    GROWTH_MIN = 16, /* slots of a ring that was empty */
    UNBOUNDED_MAX = 1 << 30,
};

/* ---- the ring ------------------------------------------------------------------------------ */

static char *slot_at(struct weft_chan *chan, uint32_t index)
{
    return chan->items + (size_t)index * chan->item_size;
}

/* [locked]  There is room. */
static inline void ring_put(struct weft_chan *chan, const void *item)
{
    const uint32_t count = wf_plain_load(&chan->count);
    const uint64_t tail = (uint64_t)chan->head + count;
    WEFT_ASSERT(count < chan->slots);
    wf_item_copy(slot_at(chan, (uint32_t)(tail < chan->slots ? tail : tail - chan->slots)), item,
                 chan->item_size);
    wf_plain_store(&chan->count, count + 1);
}

/* [locked]  There is an item. */
static inline void ring_take(struct weft_chan *chan, void *item)
{
    const uint32_t head = chan->head;
    wf_item_copy(item, slot_at(chan, head), chan->item_size);
    chan->head = head + 1 < chan->slots ? head + 1 : 0;
    wf_plain_store(&chan->count, wf_plain_load(&chan->count) - 1);
}

/* [locked]  There is room: before all others. */
static void ring_put_front(struct weft_chan *chan, const void *item)
{
    chan->head = (chan->head > 0 ? chan->head : chan->slots) - 1;
    wf_item_copy(slot_at(chan, chan->head), item, chan->item_size);
    wf_plain_store(&chan->count, wf_plain_load(&chan->count) + 1);
}

/* [locked]  All items into another ring; gives the old one. */
static char *ring_move(struct weft_chan *chan, char *items, uint32_t slots)
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
    if (chan->capacity == WEFT_UNBOUNDED) {
        chan->limit = slots;
    }
    return old;
}

/* [any]  Makes the ring larger, if it is still full. */
static int grow(struct weft_chan *chan, uint32_t seen)
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
        items = ring_move(chan, items, slots);
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
    return grow(chan, slots);
}

/* ---- nodes --------------------------------------------------------------------------------- */

/* What node->count says. */
enum direction { RECEIVES, SENDS };

static struct weft_chan *chan_of(const struct wf_wait_node *node)
{
    return node->count == SENDS ? wf_container_of(node->queue, struct weft_chan, senders)
                                : wf_container_of(node->queue, struct weft_chan, receivers);
}

/* [waiter]  The item was handed over, and nobody takes it. */
static void return_item(struct wf_wait_node *node)
{
    if (node->count == RECEIVES && node->result == 0) {
        wf_chan_put_back(chan_of(node), node->item);
    }
}

/* [closer]  The task will never run again. */
static void forget(struct wf_parting *parting)
{
    wf_waitq_abandon(wf_container_of(parting, struct wf_wait_node, parting));
}

static inline __attribute__((always_inline)) void set_up(struct wf_wait_node *node,
                                                         struct weft_task *self, void *item)
{
    *node = (struct wf_wait_node){
        .waiter.task = self,
        .item = item,
        .pass_on = return_item,
        .parting = {.forget = forget},
    };
}

void wf_chan_node_init(struct wf_wait_node *node, struct weft_task *self, void *item)
{
    set_up(node, self, item);
}

/* [locked]  As wf_waitq_push. */
static inline void push(struct weft_chan *chan, struct wf_waitq *queue, struct wf_wait_node *node)
{
    struct wf_wait_node *last = wf_plain_load(&queue->last);
    WEFT_ASSERT(!node->is_queued);
    node->queue = queue;
    node->spin = &chan->lock;
    node->count = queue == &chan->senders ? SENDS : RECEIVES;
    wf_plain_store(&node->is_queued, true);
    wf_plain_store(&node->next, NULL);
    wf_plain_store(&node->prev, last);
    wf_plain_store(last != NULL ? &last->next : &queue->first, node);
    wf_plain_store(&queue->last, node);
}

void wf_chan_push_locked(struct weft_chan *chan, struct wf_wait_node *node, bool is_sender)
{
    push(chan, is_sender ? &chan->senders : &chan->receivers, node);
}

/* [locked]  As wf_waitq_claim, which sees to those that stand in several queues. */
static inline struct wf_wait_node *claim(struct wf_waitq *queue)
{
    struct wf_wait_node *node = wf_plain_load(&queue->first);
    if (node == NULL || node->selection != NULL) {
        return node == NULL ? NULL : wf_waitq_claim(queue);
    }
    struct wf_wait_node *next = wf_plain_load(&node->next);
    wf_plain_store(&queue->first, next);
    wf_plain_store(next != NULL ? &next->prev : &queue->last, NULL);
    wf_plain_store(&node->is_queued, false);
    return node;
}

/* [locked]  As wf_waitq_grant, which sees to threads and to tasks of other runtimes. */
static inline struct weft_task *grant(struct wf_worker *worker, struct wf_wait_node *node)
{
    struct weft_task *task = node->waiter.task;
    if (worker == NULL || task == NULL || worker->pool != task->pool) {
        return wf_waitq_grant(node);
    }
    __builtin_prefetch(task->fiber); /* it is the next to run here */
    WF_JITTER();
    wf_store_release(&node->is_granted, 1); /* (Q1)  the node may be gone from here on */
    return task;
}

/* ---- under the lock ------------------------------------------------------------------------ */

/* [locked] */
static inline __attribute__((always_inline)) int send_locked(struct weft_chan *chan,
                                                             struct wf_worker *worker,
                                                             const void *item,
                                                             struct weft_task **task)
{
    struct wf_wait_node *receiver = claim(&chan->receivers);
    *task = NULL;
    if (receiver != NULL) {
        wf_item_copy(receiver->item, item, chan->item_size);
        *task = grant(worker, receiver);
        return 0;
    }
    if (wf_plain_load(&chan->is_closed)) {
        return -EPIPE;
    }
    if (wf_plain_load(&chan->count) < chan->limit) {
        ring_put(chan, item);
        return 0;
    }
    return -EAGAIN;
}

/* [locked] */
static inline __attribute__((always_inline)) int
recv_locked(struct weft_chan *chan, struct wf_worker *worker, void *item, struct weft_task **task)
{
    *task = NULL;
    if (wf_plain_load(&chan->count) > 0) {
        ring_take(chan, item);
        if (wf_plain_load(&chan->senders.first) != NULL &&
            wf_plain_load(&chan->count) < chan->limit) {
            struct wf_wait_node *sender = claim(&chan->senders);
            if (sender != NULL) {
                ring_put(chan, sender->item);
                *task = grant(worker, sender);
            }
        }
        return 0;
    }
    struct wf_wait_node *sender = claim(&chan->senders);
    if (sender != NULL) {
        wf_item_copy(item, sender->item, chan->item_size);
        *task = grant(worker, sender);
        return 0;
    }
    return wf_plain_load(&chan->is_closed) ? -EPIPE : -EAGAIN;
}

int wf_chan_send_locked(struct weft_chan *chan, const void *item, struct weft_task **task)
{
    const int rc = send_locked(chan, wf_worker_self(), item, task);
    return rc == -EAGAIN && chan->capacity == WEFT_UNBOUNDED ? -ENOMEM : rc;
}

int wf_chan_recv_locked(struct weft_chan *chan, void *item, struct weft_task **task)
{
    return recv_locked(chan, wf_worker_self(), item, task);
}

/* ---- the three phases ---------------------------------------------------------------------- */

static void wake(struct weft_task *task)
{
    if (task != NULL) {
        wf_task_wake(task);
    }
}

int wf_chan_begin_send(struct weft_chan *chan, struct wf_wait_node *node)
{
    struct weft_task *task;
    int rc;
    for (;;) { /* Ends: an unbounded channel grows each time, or cannot. */
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
        push(chan, &chan->senders, node);
        rc = WF_PENDING;
    }
    wf_spin_release(&chan->lock);
    wake(task);
    return rc;
}

int wf_chan_begin_recv(struct weft_chan *chan, struct wf_wait_node *node)
{
    struct weft_task *task;
    wf_spin_acquire(&chan->lock);
    int rc = wf_chan_recv_locked(chan, node->item, &task);
    if (rc == -EAGAIN) {
        push(chan, &chan->receivers, node);
        rc = WF_PENDING;
    }
    wf_spin_release(&chan->lock);
    wake(task);
    return rc;
}

void wf_chan_abandon(struct wf_wait_node *node)
{
    wf_waitq_abandon(node);
}

void wf_chan_put_back(struct weft_chan *chan, const void *item)
{
    struct weft_task *task = NULL;
    for (;;) { /* Ends: each turn the ring grows, or cannot. */
        wf_spin_acquire(&chan->lock);
        struct wf_wait_node *receiver = claim(&chan->receivers);
        const uint32_t slots = chan->slots;
        const bool is_taken = receiver != NULL || chan->count < slots;
        if (receiver != NULL) {
            wf_item_copy(receiver->item, item, chan->item_size);
            task = wf_waitq_grant(receiver);
        } else if (is_taken) {
            ring_put_front(chan, item);
        }
        wf_spin_release(&chan->lock);
        if (is_taken || grow(chan, slots) != 0) {
            break; /* without memory it ends with the task that it was given to */
        }
        WF_REACHED("chan.room_for_one_that_came_back");
    }
    wake(task);
}

/* ---- sending and receiving ----------------------------------------------------------------- */

/* [any]  Waits in the channel, whose lock is held. */
static inline __attribute__((always_inline)) int wait_in(struct weft_chan *chan,
                                                         struct wf_waitq *queue,
                                                         struct wf_worker *worker,
                                                         struct weft_task *self, void *item)
{
    const enum weft_wait wait = queue == &chan->senders ? WEFT_WAIT_SEND : WEFT_WAIT_RECEIVE;
    struct wf_wait_node node;
    int rc = self != NULL ? wf_interrupted(self) : 0;
    if (rc != 0) {
        wf_spin_release(&chan->lock);
        return rc;
    }
    set_up(&node, self, item);
    push(chan, queue, &node);
    wf_spin_release(&chan->lock);
    if (self == NULL) {
        rc = wf_waitq_wait(&node, wait, chan, WEFT_NEVER);
        return rc != 0 ? rc : node.result;
    }
    wf_parting_add(self, &node.parting);
    const bool is_noted = wf_wait_note(worker, self, wait, chan);
    if (!is_noted) {
        wf_wait_begin(self, wait, chan);
    }
    for (;;) { /* Ends with the grant, or when it may not wait on. */
        wf_suspend(self);
        if (wf_load_acquire(&node.is_granted) != 0) { /* (Q1) */
            break;
        }
        rc = wf_interrupted(self);
        if (rc != 0) {
            rc = wf_waitq_leave(&node) ? 0 : rc;
            break;
        }
    }
    if (is_noted) {
        wf_wait_unnote(self);
    } else {
        wf_wait_end(self);
    }
    wf_parting_remove(self, &node.parting);
    return rc != 0 ? rc : node.result;
}

/* [any]  The lock is held, and there is no room. */
static __attribute__((noinline)) int send_late(struct weft_chan *chan, const void *item,
                                               struct wf_worker *worker, struct weft_task *self)
{
    if (chan->capacity == WEFT_UNBOUNDED) {
        struct wf_wait_node node;
        wf_spin_release(&chan->lock);
        wf_chan_node_init(&node, self, (void *)(uintptr_t)item);
        return wf_chan_begin_send(chan, &node);
    }
    return wait_in(chan, &chan->senders, worker, self, (void *)(uintptr_t)item);
}

/* [any]  The lock is held, and there is no item. */
static __attribute__((noinline)) int recv_late(struct weft_chan *chan, void *item,
                                               struct wf_worker *worker, struct weft_task *self)
{
    return wait_in(chan, &chan->receivers, worker, self, item);
}

/* [any]  The lock is open: what is due after a call that did not wait. */
static inline __attribute__((always_inline)) void
go_on(struct wf_worker *worker, struct weft_task *self, struct weft_task *woken)
{
    if (woken != NULL) {
        wf_task_wake_on(worker, woken);
    }
    if (self != NULL && (self->budget == 0 || --self->budget == 0)) {
        wf_task_yield(self);
    }
}

int weft_send(weft_chan *chan, const void *item)
{
    if (chan == NULL || item == NULL) {
        return -EINVAL;
    }
    struct wf_worker *worker = wf_worker_self();
    /* relaxed: our own */
    struct weft_task *self = worker != NULL ? wf_load_relaxed(&worker->current) : NULL;
    struct weft_task *woken;
    wf_spin_acquire(&chan->lock);
    const int rc = send_locked(chan, worker, item, &woken);
    if (rc == -EAGAIN) {
        return send_late(chan, item, worker, self);
    }
    wf_spin_release(&chan->lock);
    go_on(worker, self, woken);
    return rc;
}

int weft_recv(weft_chan *chan, void *item)
{
    if (chan == NULL || item == NULL) {
        return -EINVAL;
    }
    struct wf_worker *worker = wf_worker_self();
    /* relaxed: our own */
    struct weft_task *self = worker != NULL ? wf_load_relaxed(&worker->current) : NULL;
    struct weft_task *woken;
    wf_spin_acquire(&chan->lock);
    const int rc = recv_locked(chan, worker, item, &woken);
    if (rc == -EAGAIN) {
        return recv_late(chan, item, worker, self);
    }
    wf_spin_release(&chan->lock);
    go_on(worker, self, woken);
    return rc;
}

int weft_try_send(weft_chan *chan, const void *item)
{
    if (chan == NULL || item == NULL) {
        return -EINVAL;
    }
    struct wf_worker *worker = wf_worker_self();
    struct weft_task *woken;
    int rc;
    do { /* as wf_chan_begin_send */
        wf_spin_acquire(&chan->lock);
        rc = wf_chan_send_locked(chan, item, &woken);
        wf_spin_release(&chan->lock);
    } while (rc == -ENOMEM && wf_chan_grow(chan) == 0);
    /* relaxed: our own */
    go_on(worker, worker != NULL ? wf_load_relaxed(&worker->current) : NULL, woken);
    return rc;
}

int weft_try_recv(weft_chan *chan, void *item)
{
    if (chan == NULL || item == NULL) {
        return -EINVAL;
    }
    struct wf_worker *worker = wf_worker_self();
    struct weft_task *woken;
    wf_spin_acquire(&chan->lock);
    const int rc = recv_locked(chan, worker, item, &woken);
    wf_spin_release(&chan->lock);
    /* relaxed: our own */
    go_on(worker, worker != NULL ? wf_load_relaxed(&worker->current) : NULL, woken);
    return rc;
}

/* ---- opening and closing ------------------------------------------------------------------- */

int weft_chan_open(weft_chan **out, size_t item_size, size_t capacity)
{
    const bool is_bounded = capacity != WEFT_UNBOUNDED;
    if (out == NULL || item_size == 0 || item_size > WEFT_ITEM_SIZE_MAX ||
        (is_bounded && capacity > WEFT_CAPACITY_MAX)) {
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
    if (chan == NULL) {
        return -EINVAL;
    }
    wf_spin_acquire(&chan->lock);
    if (wf_plain_load(&chan->is_closed)) {
        wf_spin_release(&chan->lock);
        return -EPIPE;
    }
    wf_plain_store(&chan->is_closed, true); /* nobody comes to wait from here on */
    wf_waitq_grant_all(&chan->receivers, &chan->lock, -EPIPE);
    wf_waitq_grant_all(&chan->senders, &chan->lock, -EPIPE);
    wf_spin_release(&chan->lock);
    return 0;
}

weft_chan *weft_chan_ref(weft_chan *chan)
{
    /* relaxed: the caller has a handle, so it does not go meanwhile */
    const uint32_t before = wf_fetch_add_relaxed(&chan->refs, 1);
    WEFT_CHECK(before > 0);
    WEFT_CHECK(before < UINT32_MAX);
    return chan;
}

void weft_chan_drop(weft_chan *chan)
{
    if (chan == NULL) {
        return;
    }
    /* (K2) release: our uses.  acquire: those of the others, if we are the last. */
    const uint32_t before = wf_fetch_sub_acq_rel(&chan->refs, 1);
    WF_RULE(before > 0, "weft_chan_drop of a channel that was given back");
    if (before == 1) {
        const bool is_anybody_waiting =
            chan->receivers.first != NULL || chan->senders.first != NULL;
        WEFT_CHECK(!is_anybody_waiting); /* whoever waits has a handle */
        wf_free(chan->items);
        wf_free(chan);
    }
}

/* ---- looking ------------------------------------------------------------------------------- */

/* The functions that only look take the lock, too. */
static struct weft_chan *to_lock(const weft_chan *chan)
{
    return (struct weft_chan *)(uintptr_t)chan;
}

size_t weft_chan_length(const weft_chan *chan)
{
    if (chan == NULL) {
        return 0;
    }
    wf_spin_acquire(&to_lock(chan)->lock);
    const size_t count = chan->count;
    wf_spin_release(&to_lock(chan)->lock);
    return count;
}

size_t weft_chan_capacity(const weft_chan *chan)
{
    return chan != NULL ? chan->capacity : 0;
}

bool weft_chan_is_closed(const weft_chan *chan)
{
    if (chan == NULL) {
        return true;
    }
    wf_spin_acquire(&to_lock(chan)->lock);
    const bool is_closed = chan->is_closed;
    wf_spin_release(&to_lock(chan)->lock);
    return is_closed;
}
