/* SPDX-License-Identifier: MIT */
/*
 * queue/runq.h - the local run queue of a worker, as one data structure.
 *
 * FIFO mode: a LIFO slot for the newest item, which is popped next, and a ring for the others.  A
 * push into an occupied slot moves the displaced item to the tail of the ring.  So two tasks that
 * wake each other stay on one worker and in its caches.  After WF_LIFO_RUNS_MAX items out of the
 * slot in a row the ring comes first.
 *
 * LIFO mode (depth-first order): a deque, newest first, without a slot.
 *
 * NONE: the queue is not used; a policy with queues of its own keeps the items.
 *
 * The owner's operations need no locked instruction while the queue is biased (queue/bias.h).  What
 * does not fit goes to `global`, the queue of all workers.
 *
 * A push tells its caller what is left to do, since the queue knows neither workers nor sleepers:
 *
 *   DONE      nothing.  The ring was biased and not empty, and the item is behind the others.  The
 *             owner notified a worker when the ring became non-empty.  A worker that is about to
 *             sleep checks the ring again and sees that it is not empty (sched.S1)
 *   NOTIFY    the caller must notify a parked worker
 *
 * An item that is to run next goes into the LIFO slot (wf_lifo_put), or, in LIFO mode, into the
 * deque.  No worker is notified of an item in the slot, because the owner mostly is about to wait
 * and then pops it; but a leader must exist that takes the item if the owner does not
 * (sched/leader.c).  The displaced item is pushed to the ring.
 */
#ifndef WF_QUEUE_RUNQ_H
#define WF_QUEUE_RUNQ_H

#include "queue/bias.h"
#include "queue/queue.h"

enum wf_runq_mode {
    WF_RUNQ_NONE,
    WF_RUNQ_FIFO,
    WF_RUNQ_LIFO,
};

enum wf_runq_pushed {
    WF_RUNQ_DONE,
    WF_RUNQ_NOTIFY,
};

struct wf_runq {
    /* One line that the owner touches at every switch. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(struct wf_node *) lifo; /* [owner: put] [any: take] */
    struct wf_bias bias;
    uint8_t mode;                  /* [const]  enum wf_runq_mode */
    bool spills_newest;            /* [owner]  a full ring moves out the new item, not the oldest */
    uint32_t lifo_runs;            /* [owner]  items popped from the slot in a row */
    WF_ATOMIC(uint64_t) lifo_hits; /* [owner: write] [any: read]  items popped from the slot */

    struct wf_inject *global;   /* [const]  where overflow goes */
    uint64_t rotate_after_pops; /* [owner]  no rotation before the ring has popped this many */
    int64_t rotated_ns;         /* [owner]  when it was last rotated */

    struct wf_ring ring;   /* FIFO mode */
    struct wf_deque deque; /* LIFO mode */
};

#ifndef WF_MODEL
_Static_assert(offsetof(struct wf_runq, global) <= WF_CACHE_LINE, "a switch touches one line");
#endif

/* An empty queue.  `is_biased`: the owner may take the bias.  -ENOMEM: nothing is left behind. */
int wf_runq_init(struct wf_runq *runq, enum wf_runq_mode mode, struct wf_inject *global,
                 struct wf_bias_domain *domain, bool is_biased);
/* No thread uses it any more; items that are left are dropped. */
void wf_runq_done(struct wf_runq *runq);

/* ---- the LIFO slot ------------------------------------------------------------------------- */

/* [owner]  Puts an item in; gives the displaced one, or NULL. */
static inline struct wf_node *wf_lifo_put(struct wf_runq *runq, struct wf_node *item)
{
    struct wf_node *old;
    if (wf_bias_enter(&runq->bias)) {
        old = wf_load_relaxed(&runq->lifo); /* both relaxed: only the owner is here */
        wf_store_relaxed(&runq->lifo, item);
        wf_bias_exit(&runq->bias);
        return old;
    }
    old = wf_load_relaxed(&runq->lifo); /* relaxed: only the owner fills it */
    if (old == NULL) {
        wf_store_release(&runq->lifo, item); /* (queue.S1) release: the item, whole */
        return NULL;
    }
    /* (queue.S1) release.  No acquire: the owner itself put in what comes out. */
    return wf_exchange_release(&runq->lifo, item);
}

/* [any, inside the queue or owner]  Takes the item; NULL: the slot is empty. */
static inline struct wf_node *wf_lifo_take(struct wf_runq *runq)
{
    struct wf_node *item = wf_load_relaxed(&runq->lifo); /* relaxed: the exchange decides */
    return item != NULL ? wf_exchange_acquire(&runq->lifo, NULL) : NULL; /* (queue.S1) */
}

/* [owner, in a biased section]  Takes the item; NULL: the slot is empty. */
static inline struct wf_node *wf_lifo_take_biased(struct wf_runq *runq)
{
    struct wf_node *item = wf_load_relaxed(&runq->lifo); /* both relaxed: only the owner is here */
    if (item != NULL) {
        wf_store_relaxed(&runq->lifo, NULL);
    }
    return item;
}

/* [any]  Whether an item is in the slot; a hint for all but the owner. */
static inline bool wf_lifo_is_full(const struct wf_runq *runq)
{
    return wf_load_relaxed(&runq->lifo) != NULL; /* relaxed: a hint */
}

/* ---- the owner ------------------------------------------------------------------------------ */

/* [owner, FIFO]  Takes the item that wf_lifo_put has displaced. */
enum wf_runq_pushed wf_runq_push_displaced(struct wf_runq *runq, struct wf_node *item);
/* [owner, LIFO]  Takes an item that is to run next. */
enum wf_runq_pushed wf_runq_push_deque(struct wf_runq *runq, struct wf_node *item);
/* [owner]  Takes an item that has had its slice into the global queue: in LIFO mode the owner would
 * pop it from the deque at once. */
enum wf_runq_pushed wf_runq_push_global(struct wf_runq *runq, struct wf_node *item);

/* [owner, FIFO]  Takes an item to the tail of a biased ring, behind others.  False: the queue is
 * not biased, or the ring is empty or full; the caller still owns the item. */
static inline bool wf_runq_push_biased(struct wf_runq *runq, struct wf_node *item)
{
    if (!wf_bias_enter(&runq->bias)) {
        return false;
    }
    const bool is_done = wf_ring_push_biased(&runq->ring, item);
    wf_bias_exit(&runq->bias);
    return is_done;
}

/* [owner, FIFO]  Takes an item that has had its slice: it stands behind all others.  No other item
 * loses its place to it. */
static inline enum wf_runq_pushed wf_runq_push_back(struct wf_runq *runq, struct wf_node *item)
{
    if (wf_runq_push_biased(runq, item)) {
        return WF_RUNQ_DONE;
    }
    return wf_ring_try_push(&runq->ring, item) ? WF_RUNQ_NOTIFY : wf_runq_push_global(runq, item);
}

/* [owner, FIFO]  Pops.  `is_biased`, a constant: inside a biased section. */
static inline __attribute__((always_inline)) struct wf_node *wf_runq_pop_as(struct wf_runq *runq,
                                                                            bool is_biased)
{
    struct wf_node *item = NULL;
    if (runq->lifo_runs < WF_LIFO_RUNS_MAX) {
        item = is_biased ? wf_lifo_take_biased(runq) : wf_lifo_take(runq);
    }
    if (item != NULL) {
        runq->lifo_runs++;
        wf_counter_add(&runq->lifo_hits, 1);
        return item;
    }
    item = is_biased ? wf_ring_pop_biased(&runq->ring) : wf_ring_pop(&runq->ring);
    if (item == NULL && runq->lifo_runs >= WF_LIFO_RUNS_MAX) {
        WF_REACHED("runq.slot_after_the_ring");
        item = is_biased ? wf_lifo_take_biased(runq) : wf_lifo_take(runq);
    }
    runq->lifo_runs = 0;
    return item;
}

/* [owner, FIFO]  wf_runq_pop_fifo of a queue that is not biased.  Not inline, so that the owner of
 * a biased queue saves no registers for it. */
struct wf_node *wf_runq_pop_unbiased(struct wf_runq *runq);

/* [owner, FIFO]  The next item; NULL: the queue is empty. */
static inline struct wf_node *wf_runq_pop_fifo(struct wf_runq *runq)
{
    if (!wf_bias_enter(&runq->bias)) {
        return wf_runq_pop_unbiased(runq);
    }
    struct wf_node *item = wf_runq_pop_as(runq, true);
    wf_bias_exit(&runq->bias);
    return item;
}

/* [owner]  The next item in any mode; NULL: the queue is empty. */
struct wf_node *wf_runq_pop(struct wf_runq *runq);
/* [owner]  Takes a chain from the global queue, behind what is there.  It fits: in FIFO mode at
 * most wf_runq_free_count items, in LIFO mode WF_INJECT_BATCH_DEPTH_FIRST into an empty deque. */
void wf_runq_refill(struct wf_runq *runq, struct wf_chain *chain);
/* [owner]  If the ring is nearly full and the global queue does not fit, moves the whole ring
 * behind the global queue; true: done, and the caller must notify. */
bool wf_runq_rotate(struct wf_runq *runq, int64_t now_ns);
/* [owner, FIFO, in a biased section]  The item of the ring that is popped after `ahead` others;
 * NULL: none.  It stays in the queue. */
static inline struct wf_node *wf_runq_peek(struct wf_runq *runq, unsigned ahead)
{
    return wf_ring_peek_biased(&runq->ring, (wf_ring_pos)ahead);
}
/* [owner]  Items the ring takes without overflow. */
size_t wf_runq_free_count(struct wf_runq *runq);
/* [owner]  Takes the bias again after wf_bias_is_due. */
void wf_runq_bias(struct wf_runq *runq);

/* ---- other threads ------------------------------------------------------------------------- */

/* [thief, owner of `into`]  Half of `from`, up to `most` items: gives one to run, the others are in
 * `into`.  NULL: nothing was taken. */
struct wf_node *wf_runq_steal(struct wf_runq *from, struct wf_runq *into, size_t most);
/* [thief]  The item in the LIFO slot; NULL: none, or not to be had now. */
struct wf_node *wf_runq_steal_lifo(struct wf_runq *from);
/* [any]  Moves up to a ring's worth of items to `out`, oldest first, the slot's last.  False: the
 * bias could not be revoked. */
bool wf_runq_drain(struct wf_runq *from, struct wf_chain *out);

/* [any]  Items that could be popped or stolen now, without the LIFO slot: a hint.  Not 0 for a
 * queue that was not empty since a fence at which its tail was known (sched.S1). */
static inline size_t wf_runq_count(struct wf_runq *runq)
{
    return runq->mode == WF_RUNQ_LIFO ? wf_deque_count(&runq->deque) : wf_ring_count(&runq->ring);
}

/* [any]  What the queue counted. */
void wf_runq_stats_read(const struct wf_runq *runq, struct wf_queue_stats *out);

#endif
