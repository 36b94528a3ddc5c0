/* SPDX-License-Identifier: MIT */
/*
 * queue/inject.c - the global queue: external submissions, and the overflow of the rings.
 *
 * A list under a lock.  A worker checks it rarely and takes a batch.  So the check of an empty
 * queue must cost one load, and one acquire of the lock must give a worker many items.
 *
 * Rejected: a lock-free list (Michael and Scott's).  It cannot give a batch in one step, needs safe
 * memory reclamation, and is slower than a lock held for twenty nanoseconds.
 *
 * (queue.I1) is the edge of the lock (os.L1): it carries the chain and the contents of the items.
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

/* [locked inject->lock]  The caller's release of the lock publishes the items (queue.I1). */
static void append_locked(struct wf_inject *inject, struct wf_chain *chain)
{
    wf_counter_add(&inject->counters.pushed, chain->count);
    wf_chain_append(&inject->chain, chain);
    /* relaxed: readers take it as a hint; a worker about to park has a fence of its own. */
    wf_store_relaxed(&inject->count, wf_plain_load(&inject->chain.count));
}

/* [locked inject->lock]  The free capacity; overflow may have exceeded the capacity. */
static size_t inject_free_locked(const struct wf_inject *inject)
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
    } else if (chain->count > inject_free_locked(inject)) {
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

void wf_inject_push_admitted(struct wf_inject *inject, struct wf_node *item)
{
    struct wf_chain chain = {0};
    wf_chain_push(&chain, item);
    wf_inject_push_overflow(inject, &chain);
}

/* [locked inject->lock]  One worker's fair share of the items, at most `max`. */
static size_t inject_share_locked(const struct wf_inject *inject, unsigned workers, size_t max)
{
    size_t count = wf_plain_load(&inject->chain.count);
    size_t share = count / (workers > 0 ? workers : 1);
    share = share > WF_INJECT_BATCH_MIN ? share : WF_INJECT_BATCH_MIN;
    share = share < inject->batch_max ? share : inject->batch_max;
    share = share < count ? share : count;
    return share < max ? share : max;
}

size_t wf_inject_pop(struct wf_inject *inject, unsigned workers, size_t max, struct wf_chain *out)
{
    /* relaxed: skips the lock of an empty queue.  A push that it misses counts as a later one. */
    if (max == 0 || wf_load_relaxed(&inject->count) == 0) {
        return 0;
    }
    wf_lock_acquire(&inject->lock); /* (queue.I1) */
    size_t taken = inject_share_locked(inject, workers, max);
    wf_chain_move(out, &inject->chain, taken);
    if (taken == 0) {
        WF_REACHED("inject.emptied_before_lock");
    }
    wf_store_relaxed(&inject->count, wf_plain_load(&inject->chain.count)); /* relaxed: a hint */
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
