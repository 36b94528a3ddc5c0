/* SPDX-License-Identifier: MIT */
/*
 * queue/runq.h - the local run queue of a worker, as one data structure.
 *
 * Fair mode: a LIFO slot for the newest item, which is popped next, and a ring for the others.  A
 * push into an occupied slot moves the displaced item to the tail of the ring.  So two tasks that
 * wake each other stay on one worker and in its caches.  After WF_LIFO_RUNS_MAX items out of the
 * slot in a row the ring comes first.
 *
 * Depth-first mode: a deque, newest first, without a slot.
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
 * An item that is to run next goes into the LIFO slot (wf_lifo_put), or, in depth-first mode, into
 * the deque.  No worker is notified of an item in the slot, because the task that runs on the owner
 * is usually about to suspend, and then the owner pops the item.  If that task does not suspend,
 * the leader takes the item, so there must be a leader (sched/leader.c).  The displaced item is
 * pushed to the ring.
 */
#ifndef WF_QUEUE_RUNQ_H
#define WF_QUEUE_RUNQ_H

#include "queue/bias.h"
#include "queue/queue.h"

enum wf_runq_mode {
    WF_RUNQ_NONE,
    WF_RUNQ_FAIR,
    WF_RUNQ_DEPTH_FIRST,
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

    struct wf_ring ring;   /* fair mode */
    struct wf_deque deque; /* depth-first mode */
};

#ifndef WF_MODEL
_Static_assert(offsetof(struct wf_runq, global) <= WF_CACHE_LINE, "a switch touches one line");
#endif

/* [owner]  Makes an empty queue.  `is_biased`: as `is_wanted` of wf_bias_init.  -ENOMEM: nothing is
 * left behind. */
int wf_runq_init(struct wf_runq *runq, enum wf_runq_mode mode, struct wf_inject *global,
                 struct wf_bias_domain *domain, bool is_biased);
/* [owner]  Frees what wf_runq_init allocated.  No thread may use the queue any more.  Items that
 * are still queued are forgotten; the queue does not own them. */
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
    /* (queue.S1) release.  No acquire: if an item is displaced, the owner itself had put it. */
    return wf_exchange_release(&runq->lifo, item);
}

/* [owner; thief after wf_bias_revoke]  Takes the item; NULL: the slot is empty. */
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

/* [owner, fair]  Takes the item that wf_lifo_put has displaced. */
enum wf_runq_pushed wf_runq_push_displaced(struct wf_runq *runq, struct wf_node *item);
/* [owner, depth-first]  Takes an item that is to run next. */
enum wf_runq_pushed wf_runq_push_deque(struct wf_runq *runq, struct wf_node *item);
/* [owner]  Takes an item into the global queue: one that does not fit, or in depth-first mode
 * one that has had its slice, because the owner would pop it from the deque at once. */
enum wf_runq_pushed wf_runq_push_global(struct wf_runq *runq, struct wf_node *item);

/* [owner, fair]  Takes an item to the tail of a biased ring, behind others.  False: the queue is
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

/* [owner, fair]  Takes an item that has had its slice, behind all other items.  If the ring is
 * full, this item goes to the global queue; no other item is moved out of the ring. */
static inline enum wf_runq_pushed wf_runq_push_back(struct wf_runq *runq, struct wf_node *item)
{
    if (wf_runq_push_biased(runq, item)) {
        return WF_RUNQ_DONE;
    }
    return wf_ring_try_push(&runq->ring, item) ? WF_RUNQ_NOTIFY : wf_runq_push_global(runq, item);
}

/* [owner, fair]  Pops.  `is_biased`, a constant: inside a biased section. */
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

/* [owner, fair]  wf_runq_pop_fair of a queue that is not biased.  Not inline, so that the owner of
 * a biased queue saves no registers for it. */
struct wf_node *wf_runq_pop_unbiased(struct wf_runq *runq);

/* [owner, fair]  The next item; NULL: the queue is empty. */
static inline struct wf_node *wf_runq_pop_fair(struct wf_runq *runq)
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
/* [owner]  Takes a chain that the caller has taken from the global queue, behind the items in the
 * queue.  The caller ensures that the chain fits: in fair mode at most wf_runq_free_count items, in
 * depth-first mode at most WF_INJECT_BATCH_DEPTH_FIRST, into an empty deque. */
void wf_runq_refill(struct wf_runq *runq, struct wf_chain *chain);
/* [owner]  If the ring is nearly full and the items of the global queue do not fit into its free
 * slots, moves all items of the ring behind the global queue.  True: they were moved, and the
 * caller must notify a worker.  False: nothing was done. */
bool wf_runq_rotate(struct wf_runq *runq, int64_t now_ns);
/* [owner, fair, in a biased section]  The item of the ring that is popped after `ahead` others;
 * NULL: none.  It stays in the queue. */
static inline struct wf_node *wf_runq_peek(struct wf_runq *runq, unsigned ahead)
{
    return wf_ring_peek_biased(&runq->ring, (wf_ring_pos)ahead);
}
/* [owner]  Items the ring takes without overflow. */
size_t wf_runq_free_count(struct wf_runq *runq);
/* [owner]  After wf_bias_is_due: takes the bias again, unless a thread is inside the queue. */
void wf_runq_bias(struct wf_runq *runq);

/* ---- other threads ------------------------------------------------------------------------- */

/* [thief, owner of `into`]  Takes half of `from`, in fair mode at most `most` items; depth-first
 * mode ignores `most`.  Returns one item for the thief to run and moves the others to `into`.
 * NULL: nothing was taken. */
struct wf_node *wf_runq_steal(struct wf_runq *from, struct wf_runq *into, size_t most);
/* [thief]  Takes the item in the LIFO slot.  NULL: the slot is empty, or the bias could not be
 * revoked. */
struct wf_node *wf_runq_steal_lifo(struct wf_runq *from);
/* [thief]  Moves items to the end of `out`: first those of the ring or the deque, oldest first,
 * until `out` has WF_RING_CAPACITY items, then the item in the LIFO slot.  False: the bias could
 * not be revoked, and nothing was moved. */
bool wf_runq_drain(struct wf_runq *from, struct wf_chain *out);

/* [any]  The number of items that could be popped or stolen now, without the LIFO slot.  A hint; in
 * fair mode with the guarantee of wf_ring_count, on which (sched.S1) relies. */
static inline size_t wf_runq_count(struct wf_runq *runq)
{
    return runq->mode == WF_RUNQ_DEPTH_FIRST ? wf_deque_count(&runq->deque)
                                             : wf_ring_count(&runq->ring);
}

/* [any]  Copies the counters of the ring, or of the deque in depth-first mode, to *out. */
void wf_runq_stats_read(const struct wf_runq *runq, struct wf_queue_stats *out);

#endif
