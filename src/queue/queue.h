/* SPDX-License-Identifier: MIT */
/*
 * queue/queue.h - the four queues that carry work between threads.
 *
 * Promises:      every item that is pushed is taken exactly once, under any race.
 * Must not know: what a task is.  Queues hold pointers to `struct wf_node`, which an item embeds;
 *                no queue allocates memory for an item.
 *
 *   ring    bounded, of one worker.  The owner pushes and pops FIFO; a thief takes half at once.
 *   deque   growable, of one worker.  The owner pushes and pops LIFO; a thief takes the oldest.
 *   inject  shared, unbounded or with a capacity.  FIFO; any thread pushes and pops batches.
 *   mpsc    unbounded, many senders, one receiver: inboxes of workers and of the control thread.
 *
 * Tags:  [owner] the worker that owns the queue, or the receiver;  [thief] any other thread;
 *        [any] any thread.
 *        Fields: [const] set before publication; [owner: write] [any: read]; [any: CAS].
 *
 * Edges:
 *
 *   edge      from                           to                         carries
 *   queue.R1  ring.c push: store tail        steal: load tail           the contents of the slots
 *   queue.R2  ring.c steal step 3: CAS head  push, pop: load head       slots are read before they
 *                                                                       are refilled
 *   queue.R3  ring.c pop, overflow and       steal, count: load head    a tail at or past the
 *             steal step 3: write head                                  position in head
 *   queue.D1  deque.c push, pop: store       steal: load bottom         the contents of the slots
 *             bottom
 *   queue.D2  deque.c grow: store buffer     steal: load buffer         the copied slots
 *   queue.D3  deque.c pop: fence             steal: fence               one side sees the other's
 *                                                                       write of bottom or top
 *   queue.D4  deque.c steal: CAS top         push: load top             slots are read before they
 *                                                                       are refilled
 *   queue.I1  inject.c push: release lock    pop: acquire lock          the chain and its items
 *   queue.X1  mpsc.c push: CAS head          take: exchange head        the items
 *   queue.S1  runq.h put: store, exchange    take: exchange             the item in the LIFO slot
 *   queue.B1  bias.h enter: light fence      bias.c revoke: membarrier  one side sees the other's
 *                                                                       write
 *   queue.B2  bias.c revoke: add, fence      try_set: fence, load       one side sees the other's
 *                                                                       write
 *   queue.B3  bias.c revoke, drop: store     revoke: load state         what the owner did while
 *             UNBIASED                                                  it had the bias
 */
#ifndef WF_QUEUE_QUEUE_H
#define WF_QUEUE_QUEUE_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "os/os.h"

/* Counts of a queue since its init.  The runtime's statistics sum them over the workers. */
struct wf_queue_stats {
    uint64_t pushed;     /* items that the owner pushed */
    uint64_t popped;     /* items that the owner popped */
    uint64_t stolen;     /* items that the owner of this queue stole from others */
    uint64_t overflowed; /* ring: items moved to the global queue; inject: items pushed by
                          * wf_inject_push_overflow and wf_inject_push_admitted */
};

/* [owner: write] [any: read]  The counters of a queue. */
struct wf_queue_counters {
    WF_ATOMIC(uint64_t) pushed;
    WF_ATOMIC(uint64_t) popped;
    WF_ATOMIC(uint64_t) stolen;
    WF_ATOMIC(uint64_t) overflowed;
};

/* [any]  Reads the counters one by one: they may be of slightly different times. */
void wf_queue_stats_read(const struct wf_queue_counters *counters, struct wf_queue_stats *out);

/* ---- ring ---------------------------------------------------------------------------------- */

/*
 * `head` packs two positions: `real`, the next item that the owner pops, and `steal`, the first
 * slot that a thief may still be reading.  They are equal unless a steal is in progress.  A thief
 * claims [real, real + n) by advancing `real`, copies the items, and releases the slots by
 * advancing `steal` to `real`.
 *
 * Invariants, for every observer at every instant (positions wrap; differences do not):
 *   I1  0 <= real - steal,  0 <= tail - real,  tail - steal <= WF_RING_CAPACITY
 *   I2  slots [real, tail) are items of the queue; [steal, real) belong to the one active thief
 *   I3  at most one steal is in progress; a second thief sees steal != real and gets nothing
 */
struct wf_ring {
    /* [any: CAS]  {steal, real} */
    alignas(WF_CACHE_LINE) WF_ATOMIC(wf_ring_pair) head;

    /* [owner: write] [any: read]  One past the newest item. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(wf_ring_pos) tail;

    /* [owner]  The last value of `head` that the owner has read or written.  Thieves only advance
     * both positions: a ring that is empty by this copy is empty, and a slot that is free by it is
     * free. */
    wf_ring_pair known;

    struct wf_queue_counters counters;

    /* Plain: the owner writes a slot before (queue.R1), and the thread that has advanced `real`
     * past it reads it. */
    alignas(WF_CACHE_LINE) struct wf_node *slots[WF_RING_CAPACITY];
};

/* [owner]  Takes over what a full ring gives up, as one batch: the oldest half of the ring, oldest
 * first, or the new item alone. */
typedef void (*wf_overflow_fn)(void *context, struct wf_chain *batch);

/* [owner]  Before the ring is shared. */
void wf_ring_init(struct wf_ring *ring);

/* [owner]  Takes `item`.  If the ring is full, its oldest half goes to `overflow` first, in one
 * batch.  If a thief is still copying from the needed slots, `item` alone goes to `overflow`.
 * `overflow` must not push to this ring. */
void wf_ring_push(struct wf_ring *ring, struct wf_node *item, wf_overflow_fn overflow,
                  void *context);

/* [owner]  Takes `item` if a slot is free.  False: full; the caller still owns the item. */
bool wf_ring_try_push(struct wf_ring *ring, struct wf_node *item);

/* [owner]  Takes `item` if a slot is free and the ring is not empty.  Only while the owner has the
 * bias: see wf_ring_pop_biased.  False: the caller still owns the item. */
bool wf_ring_push_biased(struct wf_ring *ring, struct wf_node *item);

/* [owner]  Moves all items to the end of `out`, oldest first, and returns how many; 0 also while a
 * steal is in progress. */
size_t wf_ring_take_all(struct wf_ring *ring, struct wf_chain *out);

/* [owner]  Takes items from the front of the chain into the free slots, publishes them at once, and
 * returns how many.  The rest stays in `chain`.  There may be no free slot even after the owner has
 * popped all items: a thief that was preempted during its steal keeps the slots until it runs. */
size_t wf_ring_push_chain(struct wf_ring *ring, struct wf_chain *chain);
/* [owner]  The number of free slots.  It does not shrink before the owner's next push. */
size_t wf_ring_free_count(struct wf_ring *ring);

/* [owner]  Removes and returns the oldest item; NULL when empty. */
struct wf_node *wf_ring_pop(struct wf_ring *ring);
/* [owner]  wf_ring_pop without a locked instruction.  Allowed only while the owner has the bias, so
 * that no other thread accesses the ring, and only if the owner has called wf_ring_refresh since
 * another thread last accessed the ring. */
struct wf_node *wf_ring_pop_biased(struct wf_ring *ring);
/* [owner]  Returns the item at distance `ahead` from the oldest (0) without removing it; NULL:
 * there is none.  Only while wf_ring_pop_biased is allowed. */
struct wf_node *wf_ring_peek_biased(struct wf_ring *ring, wf_ring_pos ahead);
/* [owner]  Reloads the owner's copy of head, after the last thief has left. */
void wf_ring_refresh(struct wf_ring *ring);

/* [thief, owner of `into`]  Takes half of `from`, rounded up, but no more than fits.  Moves the
 * items to `into`, except the newest one, which it returns for the thief to run.  NULL: `from` is
 * empty, or another steal is in progress there. */
struct wf_node *wf_ring_steal(struct wf_ring *from, struct wf_ring *into);
/* [thief, owner of `into`]  wf_ring_steal of at most `most` items, which is not 0. */
struct wf_node *wf_ring_steal_some(struct wf_ring *from, struct wf_ring *into, size_t most);
/* [thief]  Takes and returns the oldest item; needs no ring.  NULL: `from` is empty, or another
 * steal is in progress there. */
struct wf_node *wf_ring_steal_one(struct wf_ring *from);

/* [any]  The number of items that can be popped or stolen.  A hint, with one guarantee: if a fence
 * made the tail of a non-empty ring visible to the caller, and the ring has not been empty since,
 * the result is not 0. */
size_t wf_ring_count(struct wf_ring *ring);

/* ---- deque --------------------------------------------------------------------------------- */

struct wf_deque_buffer; /* the slots, their number, and the buffer that it replaced */

/*
 * A Chase-Lev deque with the memory orders of Le, Pop, Cohen and Zappa Nardelli (2013).
 *
 * Invariants:
 *   I1  top only grows; top <= bottom, except inside a pop that finds the deque empty
 *   I2  slots [top, bottom) of the newest buffer are the items
 *   I3  a replaced buffer stays allocated until wf_deque_done, because a thief may still read it.
 *       Sizes double, so all replaced buffers together are smaller than the newest one.
 */
struct wf_deque {
    /* [any: CAS]  The oldest item.  The thread that advances it by one owns that item. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(wf_deque_pos) top;

    /* [owner: write] [any: read]  One past the newest item. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(wf_deque_pos) bottom;

    /* [owner: write] [any: read]  The newest buffer. */
    WF_ATOMIC(struct wf_deque_buffer *) buffer;

    struct wf_queue_counters counters;
};

/* The result of a steal. */
enum wf_steal {
    WF_STEAL_EMPTY, /* the deque is empty */
    WF_STEAL_LOST,  /* another thread took the item: try again, or another victim */
    WF_STEAL_TAKEN, /* the thief owns the item */
};

/* [owner]  Makes an empty deque of `capacity` slots.  -EINVAL: not a power of two within
 * WF_DEQUE_CAPACITY_MIN .. WF_DEQUE_CAPACITY_MAX; -ENOMEM.  On error nothing is allocated and
 * *deque is untouched. */
int wf_deque_init(struct wf_deque *deque, size_t capacity);
/* [owner]  Frees the buffers.  The deque must be empty and have no thief. */
void wf_deque_done(struct wf_deque *deque);

/* [owner]  Takes `item`.  -ENOMEM: full, and cannot grow; the deque is unchanged. */
int wf_deque_push(struct wf_deque *deque, struct wf_node *item);
/* [owner]  Removes and returns the newest item; NULL when empty. */
struct wf_node *wf_deque_pop(struct wf_deque *deque);
/* [thief]  Takes the oldest item; *out is set for WF_STEAL_TAKEN only. */
enum wf_steal wf_deque_steal(struct wf_deque *deque, struct wf_node **out);
/* [thief, owner of `into`]  Takes about half of `from`, one item at a time.  Pushes the items to
 * `into`, except the newest one, which it returns for the thief to run.  NULL: nothing taken. */
struct wf_node *wf_deque_steal_half(struct wf_deque *from, struct wf_deque *into);
/* [any]  The number of items: a hint. */
size_t wf_deque_count(struct wf_deque *deque);

/* ---- inject -------------------------------------------------------------------------------- */

struct wf_inject_options {
    size_t capacity;  /* items; 0: no limit */
    size_t batch_max; /* items of one pop, at most; 0: WF_INJECT_BATCH_MAX */
};

/*
 * The global queue: a list under a lock, whose length any thread reads without the lock.
 *
 * The runtime sets no capacity, and pushes only items that were admitted already: life/spawn.c
 * checks the option global_capacity before a new task is queued, and life/limit.c lets the spawn
 * wait.  So only tests and benchmarks call wf_inject_push, wf_inject_push_chain and
 * wf_inject_close.
 */
struct wf_inject {
    struct wf_lock lock;
    struct wf_chain chain; /* [lock] */
    bool is_closed;        /* [lock] */

    size_t capacity;  /* [const] */
    size_t batch_max; /* [const] */

    /* [lock: write] [any: read]  A worker that reads 0 does not take the lock. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(size_t) count;
    struct wf_queue_counters counters; /* [lock: write] [any: read] */
};

/* [owner]  Makes an empty queue.  NULL options: defaults.  -EINVAL: batch_max above
 * WF_INJECT_BATCH_MAX. */
int wf_inject_init(struct wf_inject *inject, const struct wf_inject_options *options);

/* [any]  Takes the item.  -EAGAIN: the capacity is reached; -EPIPE: closed.  On error the caller
 * still owns the item. */
int wf_inject_push(struct wf_inject *inject, struct wf_node *item);
/* [any]  Takes the whole chain, which is empty afterwards.  -EAGAIN: it would exceed the capacity;
 * -EPIPE: closed.  On error `chain` is unchanged and the caller still owns the items. */
int wf_inject_push_chain(struct wf_inject *inject, struct wf_chain *chain);

/* [any]  Takes the whole chain, even beyond the capacity and after close: the overflow of a ring
 * has been admitted already and must not be refused. */
void wf_inject_push_overflow(struct wf_inject *inject, struct wf_chain *chain);
/* [any]  Takes one item that was admitted already, such as a task that is woken or has had its
 * slice: even beyond the capacity and after close, as wf_inject_push_overflow does. */
void wf_inject_push_admitted(struct wf_inject *inject, struct wf_node *item);

/* [any]  Moves the oldest items to the end of `out`, up to a fair share: count / workers, at least
 * WF_INJECT_BATCH_MIN, at most batch_max and `max`.  Returns how many. */
size_t wf_inject_pop(struct wf_inject *inject, unsigned workers, size_t max, struct wf_chain *out);

/* [any]  Refuses all later pushes except overflow; the items inside can still be popped. */
void wf_inject_close(struct wf_inject *inject);
/* [any]  The number of items: a hint. */
static inline size_t wf_inject_count(struct wf_inject *inject)
{
    return wf_load_relaxed(&inject->count); /* relaxed: a hint */
}

/* ---- mpsc ---------------------------------------------------------------------------------- */

/*
 * A stack to which senders push by one CAS, and which the receiver empties by one exchange and then
 * reverses: the items of one sender keep their order.  A sender that stalls has either sent or not;
 * there is no half-linked state for which others must wait.
 *
 * A push is a release operation and no stronger.  A sender must wake the receiver whenever its push
 * found the queue empty.  If a sender instead checks a flag that says whether the receiver sleeps,
 * it must issue a wf_fence_seq_cst between its push and that check.
 */
struct wf_mpsc {
    /* [any: CAS]  The newest item, linked to the older ones. */
    WF_ATOMIC(struct wf_node *) head;
};

/* [owner]  Before the queue is shared. */
void wf_mpsc_init(struct wf_mpsc *mpsc);
/* [any]  Takes `item`.  True: the queue was empty; the receiver may be asleep, and this sender must
 * wake it. */
bool wf_mpsc_push(struct wf_mpsc *mpsc, struct wf_node *item);
/* [owner]  Moves all items to the end of `out`, oldest first, and returns how many. */
size_t wf_mpsc_take(struct wf_mpsc *mpsc, struct wf_chain *out);
/* [any]  A hint; for the receiver, false is exact. */
bool wf_mpsc_is_empty(struct wf_mpsc *mpsc);

#endif
