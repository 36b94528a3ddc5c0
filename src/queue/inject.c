/* SPDX-License-Identifier: MIT */
/*
 * queue/inject.c - the global queue: where work enters from outside and overflows to.
 *
 * A list under a lock.  A worker visits rarely and takes a batch, so what counts is that an empty
 * visit costs one load and a full one moves many items for one lock.  Rejected: a lock-free list
 * (Michael and Scott's): it cannot hand out batches in one step, needs safe reclamation, and loses
 * to a lock held for twenty nanoseconds.
 *
 * (I1) is the lock itself: it carries the chain and everything in the items.
 */
#include <errno.h>

#include "queue/queue.h"

int wf_inject_init(struct wf_inject *inject, const struct wf_inject_options *options)
{
    size_t capacity = options != NULL ? options->capacity : 0;
    size_t batch_max = options != NULL ? options->batch_max : 0;
    if (batch_max > WF_INJECT_BATCH_MAX) {
        return -EINVAL;
    }
    *inject = (struct wf_inject){
        .capacity = capacity == 0 ? SIZE_MAX : capacity,
        .batch_max = batch_max == 0 ? WF_INJECT_BATCH_MAX : batch_max,
    };
    wf_lock_init(&inject->lock, WF_RANK_INJECT);
    return 0;
}

/* [locked inject->lock] */
static void append_locked(struct wf_inject *inject, struct wf_chain *chain)
{
    wf_counter_add(&inject->counters.pushed, chain->count);
    wf_chain_append(&inject->chain, chain);
    /* relaxed: read as a hint; who needs more (a worker about to sleep) has its own fence. */
    wf_store_relaxed(&inject->count, wf_plain_load(&inject->chain.count));
}

/* [locked inject->lock]  Overflow may have taken the queue past its capacity. */
static size_t room_locked(const struct wf_inject *inject)
{
    size_t count = wf_plain_load(&inject->chain.count);
    return count < inject->capacity ? inject->capacity - count : 0;
}

int wf_inject_push_chain(struct wf_inject *inject, struct wf_chain *chain)
{
    int rc = 0;
    wf_lock_acquire(&inject->lock);
    if (wf_plain_load(&inject->is_closed)) {
        rc = -EPIPE;
    } else if (chain->count > room_locked(inject)) {
        rc = -EAGAIN;
    } else {
        append_locked(inject, chain);
    }
    wf_lock_release(&inject->lock);
    return rc;
}

int wf_inject_push(struct wf_inject *inject, struct wf_node *item)
{
    struct wf_chain chain = {0};
    wf_chain_push(&chain, item);
    return wf_inject_push_chain(inject, &chain);
}

void wf_inject_push_overflow(struct wf_inject *inject, struct wf_chain *chain)
{
    wf_lock_acquire(&inject->lock);
    wf_counter_add(&inject->counters.overflowed, chain->count);
    append_locked(inject, chain);
    wf_lock_release(&inject->lock);
}

/* [locked inject->lock]  One worker's share of what is there now. */
static size_t share_locked(const struct wf_inject *inject, unsigned workers, size_t room)
{
    size_t count = wf_plain_load(&inject->chain.count);
    size_t share = count / (workers > 0 ? workers : 1);
    share = share > WF_INJECT_BATCH_MIN ? share : WF_INJECT_BATCH_MIN;
    share = share < inject->batch_max ? share : inject->batch_max;
    share = share < count ? share : count;
    return share < room ? share : room;
}

size_t wf_inject_pop(struct wf_inject *inject, unsigned workers, size_t room, struct wf_chain *out)
{
    /* relaxed: an empty queue is passed by without the lock; a push that is missed here is one
     * that had not happened yet. */
    if (room == 0 || wf_load_relaxed(&inject->count) == 0) {
        return 0;
    }
    wf_lock_acquire(&inject->lock);
    size_t taken = share_locked(inject, workers, room);
    wf_chain_move(out, &inject->chain, taken);
    if (taken == 0) {
        WF_REACHED("inject.emptied_before_lock");
    }
    wf_store_relaxed(&inject->count, wf_plain_load(&inject->chain.count)); /* as in append_locked */
    wf_counter_add(&inject->counters.popped, taken);
    wf_lock_release(&inject->lock);
    return taken;
}

void wf_inject_close(struct wf_inject *inject)
{
    wf_lock_acquire(&inject->lock);
    wf_plain_store(&inject->is_closed, true);
    wf_lock_release(&inject->lock);
}
