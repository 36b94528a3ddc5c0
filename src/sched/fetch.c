/* SPDX-License-Identifier: MIT */
/*
 * sched/fetch.c - what a worker takes from the global queues, and what it fetches from memory
 * before it is needed.
 *
 * One task to run at once, and a fair share of others for its own queue.  They stand behind those
 * that are there.  As long as more are ready than the ring holds, those in the global queue would
 * wait until it is empty, which may be never: so then all of a ring give way at times.
 */
#include "sched/fast.h"
#include "sched/sched.h"

/* [owner]  The chain into an empty deque, whose first buffer has room for it. */
static void fill_deque(struct wf_worker *worker, struct wf_chain *chain)
{
    _Static_assert(WF_INJECT_BATCH_DEPTH_FIRST <= WF_DEQUE_CAPACITY_MIN, "it has");
    struct wf_node *node;
    /* Out of the chain first: once it is in the deque, a thief may have queued it elsewhere. */
    while ((node = wf_chain_pop(chain)) != NULL) {
        int rc = wf_deque_push(&worker->deque, node);
        WEFT_CHECK(rc == 0);
    }
}

/* [owner]  What it takes to go on with each of these, which nobody else has: they come from far,
 * and it is faster to fetch all of them at once than one after the other. */
static void fetch_ahead(const struct wf_chain *chain)
{
    for (struct wf_node *node = chain->first; node != NULL; node = node->next) {
        __builtin_prefetch(wf_task_of(node)->fiber);
    }
    for (struct wf_node *node = chain->first; node != NULL; node = node->next) {
        const struct wf_fiber *fiber = wf_task_of(node)->fiber;
        if (fiber != NULL) {
            for (size_t i = 0; i < WF_FRAME_LINES; i++) {
                __builtin_prefetch((const char *)fiber->stack_pointer + i * WF_CACHE_LINE);
            }
        }
    }
}

void wf_fetch_next(struct wf_worker *worker)
{
    if (!worker->is_fast || !wf_alone_begin(worker)) {
        return; /* somebody else may have it, and go on with it just now */
    }
    const struct weft_task *next = wf_task_of(wf_ring_peek_alone(&worker->ring, 0));
    const struct weft_task *second = wf_task_of(wf_ring_peek_alone(&worker->ring, 1));
    if (next != NULL && next->fiber != NULL) {
        const char *frame = next->fiber->stack_pointer;
        /* Each second one: the CPU brings a line's neighbour too, and does not wait for so few. */
        for (size_t i = 0; i < WF_FRAME_LINES_IO; i += 2) {
            __builtin_prefetch(frame + i * WF_CACHE_LINE, 1);
        }
        __builtin_prefetch(&next->wait_object, 1);
    }
    if (second != NULL) {
        __builtin_prefetch(second->fiber, 1); /* so that the next time its frame is found at once */
    }
    wf_alone_end(worker);
}

/* [owner, fair]  In a crowd whose ring is always full those in the global queue would wait for
 * ever: all of the ring go there, behind the others.  But not before all of them have had a turn,
 * or some would lose their place again and again; not some of them, or the same ones would stay;
 * and if turns are short not at once, since those in the ring are in the CPU's caches too. */
static bool give_way(struct wf_worker *worker)
{
    struct wf_inject *global = &worker->runtime->global;
    struct wf_chain chain = {0};
    const size_t room = wf_ring_room(&worker->ring);
    if (room >= WF_CROWD || wf_inject_count(global) <= room ||
        wf_counter_read(&worker->ring.counters.popped) < worker->settled_at ||
        worker->now_ns - worker->gave_way_ns < WF_CROWD_NS ||
        wf_ring_take_all(&worker->ring, &chain) == 0) {
        return false;
    }
    WF_REACHED("fetch.crowd_gives_way");
    worker->gave_way_ns = worker->now_ns;
    wf_inject_push_overflow(global, &chain);
    if (!wf_is_alone(worker)) {
        wf_steal_notify(worker->runtime, worker); /* as in wf_fetch */
    }
    return true;
}

/* [owner, fair]  Takes up to `most` of the global queue, of which one is to be run at once; but no
 * more than fit, since what came back would lose its place.  To those that others gave way for, the
 * whole ring. */
static void fetch_fair(struct wf_worker *worker, size_t most, struct wf_chain *chain)
{
    weft_runtime *runtime = worker->runtime;
    const bool is_crowd = give_way(worker);
    const size_t fits = 1 + wf_ring_room(&worker->ring);
    size_t left = most < fits && !is_crowd ? most : fits;
    size_t count;
    do {
        count = wf_inject_pop(&runtime->global, runtime->worker_count, left, chain);
        left -= count;
    } while (is_crowd && count > 0);
}

struct weft_task *wf_fetch(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    struct wf_chain chain = {0};
    /* On top of a deque that has something the batch would be all that the owner takes. */
    bool is_deque_busy = !worker->is_fast && wf_deque_count(&worker->deque) > 0;
    size_t most = is_deque_busy ? 1 : worker->shyness > 0 ? WF_SHY_BATCH : WF_INJECT_BATCH_MAX;
    if (wf_inject_count(&runtime->global) == 0) {
        return NULL;
    }
    if (runtime->options.order == WEFT_ORDER_FAIR) {
        fetch_fair(worker, most, &chain);
    } else {
        (void)wf_inject_pop(&runtime->global, runtime->worker_count, most, &chain);
    }
    const size_t count = chain.count;
    if (count == 0) {
        return NULL;
    }
    wf_counter_add(&worker->counters.global_fetches, count);
    if (wf_inject_count(&runtime->global) > WF_QUEUE_FAR) {
        fetch_ahead(&chain);
    }
    if (runtime->options.global_capacity != 0) {
        wf_room_wake(runtime, WF_ROOM_QUEUE, count);
    }
    struct weft_task *first = wf_task_of(wf_chain_pop(&chain));
    if (chain.first == NULL) {
        return first;
    }
    if (runtime->options.order == WEFT_ORDER_FAIR) {
        (void)wf_ring_push_chain(&worker->ring, &chain);
        worker->settled_at =
            wf_counter_read(&worker->ring.counters.popped) + wf_ring_count(&worker->ring);
    } else {
        fill_deque(worker, &chain);
    }
    WEFT_ASSERT(chain.first == NULL);
    if (!wf_is_alone(worker)) {
        /* somebody may have looked while they were in nobody's queue */
        wf_steal_notify(runtime, worker);
    }
    return first;
}

struct weft_task *wf_fetch_one(struct wf_worker *worker, struct wf_inject *inject)
{
    struct wf_chain chain = {0};
    if (wf_inject_count(inject) == 0 || wf_inject_pop(inject, 1, 1, &chain) == 0) {
        return NULL;
    }
    wf_counter_add(&worker->counters.global_fetches, 1);
    if (worker->runtime->options.global_capacity != 0) {
        wf_room_wake(worker->runtime, WF_ROOM_QUEUE, 1); /* they count as waiting there too */
    }
    return wf_task_of(chain.first);
}
