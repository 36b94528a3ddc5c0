/* SPDX-License-Identifier: MIT */
/*
 * queue/runq.c - the local run queue: slow paths of the owner, and what thieves do.
 */
#include <errno.h>

#include "queue/runq.h"

#ifndef WF_MODEL
_Static_assert(WF_INJECT_BATCH_DEPTH_FIRST <= WF_DEQUE_CAPACITY_MIN, "a refill always fits");
#endif

int wf_runq_init(struct wf_runq *runq, enum wf_runq_mode mode, struct wf_inject *global,
                 struct wf_bias_domain *domain, bool is_biased)
{
    *runq = (struct wf_runq){.mode = (uint8_t)mode, .global = global};
    wf_bias_init(&runq->bias, domain, is_biased);
    wf_ring_init(&runq->ring);
    return mode == WF_RUNQ_DEPTH_FIRST ? wf_deque_init(&runq->deque, WF_DEQUE_CAPACITY_MIN) : 0;
}

void wf_runq_done(struct wf_runq *runq)
{
    if (runq->mode == WF_RUNQ_DEPTH_FIRST) {
        while (wf_deque_pop(&runq->deque) != NULL) { /* left by a forced close */
        }
        wf_deque_done(&runq->deque);
    }
}

/* ---- pushing ------------------------------------------------------------------------------- */

/* The older half of a full ring. */
static void runq_overflow(void *context, struct wf_chain *batch)
{
    wf_inject_push_overflow(context, batch);
}

enum wf_runq_pushed wf_runq_push_global(struct wf_runq *runq, struct wf_node *item)
{
    wf_inject_push_admitted(runq->global, item);
    return WF_RUNQ_NOTIFY;
}

enum wf_runq_pushed wf_runq_push_displaced(struct wf_runq *runq, struct wf_node *item)
{
    if (wf_runq_push_biased(runq, item)) {
        return WF_RUNQ_DONE;
    }
    if (!runq->spills_newest) {
        wf_ring_push(&runq->ring, item, runq_overflow, runq->global);
    } else if (!wf_ring_try_push(&runq->ring, item)) {
        return wf_runq_push_global(runq, item);
    }
    return WF_RUNQ_NOTIFY;
}

enum wf_runq_pushed wf_runq_push_deque(struct wf_runq *runq, struct wf_node *item)
{
    if (wf_deque_push(&runq->deque, item) != 0) {
        WF_REACHED("runq.deque_cannot_grow");
        return wf_runq_push_global(runq, item);
    }
    return WF_RUNQ_NOTIFY;
}

/* ---- the owner's other operations ----------------------------------------------------------- */

struct wf_node *wf_runq_pop_unbiased(struct wf_runq *runq)
{
    return wf_runq_pop_as(runq, false);
}

struct wf_node *wf_runq_pop(struct wf_runq *runq)
{
    return runq->mode == WF_RUNQ_FAIR          ? wf_runq_pop_fair(runq)
           : runq->mode == WF_RUNQ_DEPTH_FIRST ? wf_deque_pop(&runq->deque)
                                               : NULL;
}

void wf_runq_refill(struct wf_runq *runq, struct wf_chain *chain)
{
    if (runq->mode == WF_RUNQ_FAIR) {
        (void)wf_ring_push_chain(&runq->ring, chain);
        runq->rotate_after_pops =
            wf_counter_read(&runq->ring.counters.popped) + wf_ring_count(&runq->ring);
    } else {
        struct wf_node *node;
        /* Unlinked first: once an item is in the deque, a thief may link it elsewhere. */
        while ((node = wf_chain_pop(chain)) != NULL) {
            int rc = wf_deque_push(&runq->deque, node);
            WEFT_CHECK(rc == 0);
        }
    }
    WEFT_ASSERT(chain->first == NULL);
}

/* [owner]  Starvation guard: while the ring stays full, items in the global queue would wait for
 * ever.  The owner rotates only after each item that was in the ring at the last refill has been
 * popped once; otherwise some items would lose their place again and again.  It always moves the
 * whole ring; otherwise the same items would stay.  It rotates at most every WF_ROTATE_NS, because
 * the tasks of the ring are in the CPU's caches. */
bool wf_runq_rotate(struct wf_runq *runq, int64_t now_ns)
{
    const size_t free_count = wf_ring_free_count(&runq->ring);
    const bool is_needed =
        free_count < WF_ROTATE_FREE_MIN && wf_inject_count(runq->global) > free_count;
    const bool is_allowed =
        wf_counter_read(&runq->ring.counters.popped) >= runq->rotate_after_pops &&
        now_ns - runq->rotated_ns >= WF_ROTATE_NS;
    struct wf_chain chain = {0};
    if (!is_needed || !is_allowed || wf_ring_take_all(&runq->ring, &chain) == 0) {
        return false;
    }
    WF_REACHED("runq.rotated");
    runq->rotated_ns = now_ns;
    wf_inject_push_overflow(runq->global, &chain);
    return true;
}

size_t wf_runq_free_count(struct wf_runq *runq)
{
    return wf_ring_free_count(&runq->ring);
}

void wf_runq_bias(struct wf_runq *runq)
{
    if (wf_bias_try_set(&runq->bias)) {
        wf_ring_refresh(&runq->ring); /* thieves may have moved the head since */
    }
}

/* ---- other threads -------------------------------------------------------------------------- */

struct wf_node *wf_runq_steal(struct wf_runq *from, struct wf_runq *into, size_t most)
{
    if (from->mode == WF_RUNQ_DEPTH_FIRST) {
        return wf_deque_steal_half(&from->deque, &into->deque);
    }
    if (wf_ring_count(&from->ring) == 0 || !wf_bias_revoke(&from->bias)) {
        return NULL;
    }
    struct wf_node *item = wf_ring_steal_some(&from->ring, &into->ring, most);
    wf_bias_release(&from->bias);
    return item;
}

struct wf_node *wf_runq_steal_lifo(struct wf_runq *from)
{
    if (!wf_lifo_is_full(from) || !wf_bias_revoke(&from->bias)) {
        return NULL;
    }
    struct wf_node *item = wf_lifo_take(from);
    wf_bias_release(&from->bias);
    return item;
}

bool wf_runq_drain(struct wf_runq *from, struct wf_chain *out)
{
    struct wf_node *item;
    if (!wf_bias_revoke(&from->bias)) {
        return false;
    }
    while (out->count < WF_RING_CAPACITY && (item = wf_ring_steal_one(&from->ring)) != NULL) {
        wf_chain_push(out, item);
    }
    while (from->mode == WF_RUNQ_DEPTH_FIRST && out->count < WF_RING_CAPACITY &&
           wf_deque_steal(&from->deque, &item) == WF_STEAL_TAKEN) {
        wf_chain_push(out, item);
    }
    item = wf_lifo_take(from);
    if (item != NULL) {
        wf_chain_push(out, item);
    }
    wf_bias_release(&from->bias);
    return true;
}

void wf_runq_stats_read(const struct wf_runq *runq, struct wf_queue_stats *out)
{
    wf_queue_stats_read(
        runq->mode == WF_RUNQ_DEPTH_FIRST ? &runq->deque.counters : &runq->ring.counters, out);
}
