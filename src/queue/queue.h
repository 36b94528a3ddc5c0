/* SPDX-License-Identifier: MIT */
/*
 * queue/queue.h - the four queues that carry work between threads.
 *
 * Promises:      an item that went in comes out exactly once, whoever races with whom.
 * Must not know: what a task is.  Queues carry addresses of `struct wf_node`, which the owner of
 *                the item embeds; none allocates per item.
 *
 *   ring    bounded, one worker's.  Owner pushes and pops FIFO; a thief takes half at once.
 *   deque   growable, one worker's.  Owner pushes and pops LIFO; thieves take the oldest.
 *   inject  unbounded or capped, shared.  FIFO, anybody pushes and pops, in batches.
 *   mpsc    unbounded, many senders, one receiver (mailboxes, cross-worker frees).
 *
 * Tags:  [owner] the one worker the queue belongs to;  [thief] any other thread;  [any] anyone.
 *        Fields: [const] set before publication; [owner: write] [any: read]; [any: CAS].
 *
 * Who synchronises with whom (the letters are the labels in the code):
 *
 *   edge  from                          to                            carries
 *   R1    ring.c push: store tail       steal: load tail              the slots' contents
 *   R2    ring.c steal: release head    look: load head               slots read before refilled
 *   R3    ring.c pop, overflow, release: steal: load head             a position seen => its tail
 *         CAS head
 *   D1    deque.c push: store bottom    steal: load bottom            the slots' contents
 *   D2    deque.c grow: store buffer    steal: load buffer            the copied slots
 *   D3    deque.c pop: fence            steal: fence                  one of both sees the other
 *   I1    inject.c release of the lock  acquire of the lock           the chain and its items
 *   X1    mpsc.c  push: CAS head        take: exchange head           the items
 */
#ifndef WF_QUEUE_QUEUE_H
#define WF_QUEUE_QUEUE_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "os/os.h"

/* What a queue counted since its init; sums over workers make the runtime's statistics. */
struct wf_queue_stats {
    uint64_t pushed;     /* items put in by the owner */
    uint64_t popped;     /* items taken by the owner */
    uint64_t stolen;     /* items this queue's owner took from others */
    uint64_t overflowed; /* items a full ring moved out; of inject: that came from full rings */
};

/* The counters behind it.  [owner: write] [any: read] */
struct wf_queue_counters {
    WF_ATOMIC(uint64_t) pushed;
    WF_ATOMIC(uint64_t) popped;
    WF_ATOMIC(uint64_t) stolen;
    WF_ATOMIC(uint64_t) overflowed;
};

/* [any]  A snapshot; the four numbers may be of slightly different instants. */
void wf_queue_stats_read(const struct wf_queue_counters *counters, struct wf_queue_stats *out);

/* ---- ring ---------------------------------------------------------------------------------- */

/*
 * `head` packs two positions: `real`, the next item the owner pops, and `steal`, the first slot
 * that a thief may still be reading.  They are equal unless a steal is under way.  A thief claims
 * [real, real + n) by advancing `real`, copies, and releases by moving `steal` up to `real`.
 *
 * Invariants, for every observer at every instant (positions wrap; differences do not):
 *   I1  0 <= real - steal,  0 <= tail - real,  tail - steal <= WF_RING_CAPACITY
 *   I2  slots [real, tail) are items of the queue; [steal, real) belong to the one thief at work
 *   I3  at most one steal is under way; a second thief sees steal != real and gets nothing
 */
struct wf_ring {
    /* [any: CAS]  {steal, real}; see above. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(wf_ring_pair) head;

    /* [owner: write] [any: read]  one past the newest item. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(wf_ring_pos) tail;

    /* [owner]  The head as the owner last saw or left it.  Thieves only add to both positions, so
     * what it shows as empty is empty, and what it shows as room is room. */
    wf_ring_pair known;

    struct wf_queue_counters counters;

    /* Plain: written by the owner before R1, read by whoever moved `real` past it. */
    alignas(WF_CACHE_LINE) struct wf_node *slots[WF_RING_CAPACITY];
};

/* Takes the chain that a full ring hands over: [owner], once a batch, oldest first. */
typedef void (*wf_overflow_fn)(void *context, struct wf_chain *batch);

void wf_ring_init(struct wf_ring *ring);

/* [owner]  Takes `item`.  Into a full ring: the oldest half goes to `overflow` in one batch first;
 * while a thief holds the room, `item` alone goes there.  `overflow` must not push to this ring. */
void wf_ring_push(struct wf_ring *ring, struct wf_node *item, wf_overflow_fn overflow,
                  void *context);

/* [owner]  The same if there is room; false: the item is the caller's still. */
bool wf_ring_try_push(struct wf_ring *ring, struct wf_node *item);

/* [owner]  The same if there is room and something to stand behind, in a ring that nobody steals
 * from: see wf_ring_pop_alone. */
bool wf_ring_push_behind(struct wf_ring *ring, struct wf_node *item);

/* [owner]  Moves all to the end of `out`, oldest first; gives how many.  None, if a thief is at
 * work. */
size_t wf_ring_take_all(struct wf_ring *ring, struct wf_chain *out);

/* [owner]  Takes as many of the chain as there is room for, oldest first, at one publication; the
 * rest stays in `chain` and is the caller's.  There may be none even in a ring that the owner has
 * emptied: a thief that was preempted in the middle of its steal holds the room until it runs.
 * Gives how many were taken. */
size_t wf_ring_push_chain(struct wf_ring *ring, struct wf_chain *chain);
/* [owner]  How many it would take; not less before the owner's next push. */
size_t wf_ring_room(struct wf_ring *ring);

/* [owner]  The oldest item; NULL when empty. */
struct wf_node *wf_ring_pop(struct wf_ring *ring);
/* [owner]  The same for a ring that nobody steals from: without a locked instruction.  If somebody
 * did before, wf_ring_settle has to come first. */
struct wf_node *wf_ring_pop_alone(struct wf_ring *ring);
/* [owner]  The same, but leaves it there: the oldest (0), the next one (1), ... */
struct wf_node *wf_ring_peek_alone(struct wf_ring *ring, wf_ring_pos ahead);
/* [owner]  No thief is there any more. */
void wf_ring_settle(struct wf_ring *ring);

/* [thief, owner of `into`]  Moves half of `from`, rounded up, but no more than fits, into `into`
 * and gives one of the items to run at once, the newest of them; NULL when there was nothing or
 * another steal is under way. */
struct wf_node *wf_ring_steal(struct wf_ring *from, struct wf_ring *into);
/* [owner of into]  The same, but not more than `most`, which is not 0. */
struct wf_node *wf_ring_steal_some(struct wf_ring *from, struct wf_ring *into, size_t most);
/* [thief, who need own no ring]  The oldest item; NULL as above. */
struct wf_node *wf_ring_steal_one(struct wf_ring *from);

/* [any]  Items that could be popped or stolen now; a hint by the time it is read.  But not 0 for a
 * ring that was never empty since a fence at which its tail was known. */
size_t wf_ring_count(struct wf_ring *ring);

/* ---- deque --------------------------------------------------------------------------------- */

struct wf_deque_buffer; /* slots, their number, and the buffer it replaced */

/*
 * Chase-Lev with the orders of Le, Pop, Cohen and Zappa Nardelli (2013).
 *
 * Invariants:
 *   I1  top only grows; top <= bottom, but for the instant inside a pop of an empty deque
 *   I2  slots [top, bottom) of the newest buffer are the items
 *   I3  a replaced buffer stays allocated until wf_deque_done: a thief may still read it.  Sizes
 *       double, so all of them together are smaller than the newest.
 */
struct wf_deque {
    /* [any: CAS]  the oldest item; moving it by one hands that item to whoever moved it. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(wf_deque_pos) top;

    /* [owner: write] [any: read]  one past the newest item. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(wf_deque_pos) bottom;

    /* [owner: write] [any: read] */
    WF_ATOMIC(struct wf_deque_buffer *) buffer;

    struct wf_queue_counters counters;
};

/* What a thief came back with. */
enum wf_steal {
    WF_STEAL_EMPTY, /* nothing there */
    WF_STEAL_LOST,  /* another took the item first: try again, or elsewhere */
    WF_STEAL_TAKEN,
};

/* `capacity` slots to begin with.  -EINVAL: not a power of two within WF_DEQUE_CAPACITY_MIN..MAX;
 * -ENOMEM.  On error nothing is allocated and *deque is untouched. */
int wf_deque_init(struct wf_deque *deque, size_t capacity);
/* The deque must be empty and no thief at work. */
void wf_deque_done(struct wf_deque *deque);

/* [owner]  Takes `item`.  -ENOMEM: full and could not grow; the deque is as before. */
int wf_deque_push(struct wf_deque *deque, struct wf_node *item);
/* [owner]  The newest item; NULL when empty. */
struct wf_node *wf_deque_pop(struct wf_deque *deque);
/* [thief]  The oldest item. */
enum wf_steal wf_deque_steal(struct wf_deque *deque, struct wf_node **out);
/* [thief, owner of `into`]  About half of `from`, one item after the other, into `into`; gives one
 * of them to run at once, the newest.  NULL: nothing taken. */
struct wf_node *wf_deque_steal_half(struct wf_deque *from, struct wf_deque *into);
/* [any]  A hint. */
size_t wf_deque_count(struct wf_deque *deque);

/* ---- inject -------------------------------------------------------------------------------- */

struct wf_inject_options {
    size_t capacity;  /* items; 0: no limit */
    size_t batch_max; /* most items of one pop; 0: WF_INJECT_BATCH_MAX */
};

/* The global queue: a list under a lock, and its length readable without. */
struct wf_inject {
    struct wf_lock lock;
    struct wf_chain chain; /* [lock] */
    bool is_closed;        /* [lock] */

    size_t capacity;  /* [const] */
    size_t batch_max; /* [const] */

    /* [lock: write] [any: read]  Lets an idle worker pass by without the lock. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(size_t) count;
    struct wf_queue_counters counters; /* [lock: write] [any: read] */
};

/* NULL options = defaults.  -EINVAL: batch_max above WF_INJECT_BATCH_MAX. */
int wf_inject_init(struct wf_inject *inject, const struct wf_inject_options *options);

/* [any]  All or nothing.  -EAGAIN: over the capacity; -EPIPE: closed.  On error the caller still
 * owns the items and `chain` is as before; on success it is empty. */
int wf_inject_push(struct wf_inject *inject, struct wf_node *item);
int wf_inject_push_chain(struct wf_inject *inject, struct wf_chain *chain);

/* [any]  Takes work that exists already and must not be refused (a ring's overflow): beyond the
 * capacity too, and after close. */
void wf_inject_push_overflow(struct wf_inject *inject, struct wf_chain *chain);

/* [any]  The oldest items, at most a fair share: count / workers, at least WF_INJECT_BATCH_MIN, at
 * most batch_max and `room`.  Appends to `out`; gives how many. */
size_t wf_inject_pop(struct wf_inject *inject, unsigned workers, size_t room, struct wf_chain *out);

/* [any]  Pushes are refused from now on; what is inside can still be popped. */
void wf_inject_close(struct wf_inject *inject);
/* [any]  A hint. */
static inline size_t wf_inject_count(struct wf_inject *inject)
{
    return wf_load_relaxed(&inject->count); /* relaxed: a hint */
}

/* ---- mpsc ---------------------------------------------------------------------------------- */

/*
 * A stack that senders push with one CAS and the receiver empties with one exchange, then turns
 * over: per sender the order is kept.  A sender that stalls anywhere has either sent or not; there
 * is no half-linked state for others to wait on.  A push releases, no more: a sender that then
 * reads whether the receiver sleeps, instead of waking it whenever the box was empty, needs a
 * wf_fence_seq_cst in between.
 */
struct wf_mpsc {
    /* [any: CAS]  the newest item, linked to older ones. */
    WF_ATOMIC(struct wf_node *) head;
};

void wf_mpsc_init(struct wf_mpsc *mpsc);
/* [any]  Takes `item`.  True when the inbox was empty: the receiver may be asleep and it is this
 * sender's part to wake it. */
bool wf_mpsc_push(struct wf_mpsc *mpsc, struct wf_node *item);
/* [owner]  All items, oldest first, behind what `out` holds; gives how many. */
size_t wf_mpsc_take(struct wf_mpsc *mpsc, struct wf_chain *out);
/* [any]  A hint; exact for the receiver when it says false. */
bool wf_mpsc_is_empty(struct wf_mpsc *mpsc);

#endif
