/* SPDX-License-Identifier: MIT */
/*
 * sched/global.c - when a worker looks at the clock and at the global queue, and what it takes from
 * there: one task to run at once, and a fair share of others for its run queue.
 *
 * A worker counts ticks, one for each task that it begins to run.  It reads the clock every few
 * ticks.  Every `interval` ticks, and whenever WF_GLOBAL_LATENCY_NS have passed, the global queue
 * goes before the run queue; the interval follows the length of a slice.
 */
#include "sched/ready.h"

/* ---- ticks --------------------------------------------------------------------------------- */

uint32_t wf_global_interval(int64_t slice_ns)
{
    int64_t interval = WF_GLOBAL_LATENCY_NS / (slice_ns > 0 ? slice_ns : 1);
    return (uint32_t)(interval < 1                        ? 1
                      : interval > WF_GLOBAL_INTERVAL_MAX ? WF_GLOBAL_INTERVAL_MAX
                                                          : interval);
}

/* [owner]  Takes the bias of its run queue again, if no thief has come for a while. */
static void regain_bias(struct wf_worker *worker, int64_t now)
{
    weft_runtime *runtime = worker->runtime;
    if (!wf_bias_is_due(&worker->runq.bias, now)) {
        return;
    }
    if (!worker->is_single) {
        wf_runq_bias(&worker->runq);
        return;
    }
    /* The only worker notifies no other while it is biased: a spare must not start meanwhile. */
    wf_lock_acquire(&runtime->monitor.lock);
    if (wf_workers_active(runtime) == 1) {
        wf_runq_bias(&worker->runq);
    }
    wf_lock_release(&runtime->monitor.lock);
}

/* [owner]  Reads the clock: timers, I/O, the bias.  Returns the mean length of the slices since the
 * last read, in nanoseconds. */
static int64_t tick_clock(struct wf_worker *worker)
{
    const int64_t now = wf_clock_now();
    const int64_t slice_ns = (now - worker->tick.now_ns) / (int64_t)worker->tick.clock;
    worker->tick.now_ns = now;
    wf_timers_look(worker->runtime, worker, now);
    wf_driver_maybe_poll(worker->runtime, worker, now);
    if (__builtin_expect(worker->io.has_unsubmitted, 0) &&
        now - worker->io.submitted_ns >= WF_DRIVER_POLL_NS) {
        worker->io.submitted_ns = now;
        wf_driver_submit(worker); /* the run queue may never become empty */
    }
    regain_bias(worker, now);
    worker->tick.slice_ns += (slice_ns - worker->tick.slice_ns) / WF_SLICE_WEIGHT;
    return slice_ns;
}

/* [owner]  After a reading of the clock: plans the next one.  Returns whether the global queue goes
 * before the run queue in this tick. */
static bool tick_plan(struct wf_worker *worker, int64_t slice_ns)
{
    struct wf_tick *tick = &worker->tick;
    tick->interval = wf_global_interval(tick->slice_ns);
    tick->global += tick->clock;
    /* Never twice in a row: in depth-first order a task that yields goes to the global queue, and
     * would be taken again each time if every slice is long. */
    const bool is_due =
        !tick->is_after_global &&
        (tick->global >= tick->interval || tick->now_ns - tick->global_ns >= WF_GLOBAL_LATENCY_NS);
    tick->is_after_global = is_due;
    if (is_due) {
        tick->global = 0;
        tick->global_ns = tick->now_ns;
    }
    const uint32_t left = tick->interval > tick->global ? tick->interval - tick->global : 1;
    tick->clock = slice_ns > WF_SLICE_LONG_NS    ? 1
                  : left < WF_CLOCK_INTERVAL_MAX ? left
                                                 : WF_CLOCK_INTERVAL_MAX;
    tick->left = tick->clock;
    return is_due;
}

bool wf_global_is_due(struct wf_worker *worker)
{
    return worker->tick.left == 0 && tick_plan(worker, tick_clock(worker));
}

/* ---- taking from the global queue -------------------------------------------------------------
 */

/* [owner, fair]  Takes up to `most` tasks of the global queue, but at most one more than the ring
 * has room for: one task runs at once, and a task that overflowed back would lose its position.
 * After a rotation it takes all that fit. */
static void take_fair(struct wf_worker *worker, size_t most, struct wf_chain *chain)
{
    weft_runtime *runtime = worker->runtime;
    const bool is_rotated = wf_runq_rotate(&worker->runq, worker->tick.now_ns);
    if (is_rotated && !wf_is_single_biased(worker)) {
        wf_steal_notify(runtime, worker);
    }
    const size_t fits = 1 + wf_runq_free_count(&worker->runq);
    size_t left = most < fits && !is_rotated ? most : fits;
    size_t count;
    do {
        count = wf_inject_pop(&runtime->queues.global, runtime->worker_count, left, chain);
        left -= count;
    } while (is_rotated && count > 0);
}

/* [owner]  The number of tasks that the worker takes at once, with the task that it runs. */
static size_t take_max(struct wf_worker *worker)
{
    if (worker->runq.mode == WF_RUNQ_DEPTH_FIRST && wf_runq_count(&worker->runq) > 0) {
        return 1; /* the owner would run a whole batch before the tasks below it in the deque */
    }
    return worker->backoff.level > 0 ? WF_STEAL_BACKOFF_BATCH : WF_INJECT_BATCH_MAX;
}

struct weft_task *wf_global_take(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    struct wf_chain chain = {0};
    if (wf_inject_count(&runtime->queues.global) == 0) {
        return NULL;
    }
    if (worker->runq.mode == WF_RUNQ_FAIR) {
        take_fair(worker, take_max(worker), &chain);
    } else {
        (void)wf_inject_pop(&runtime->queues.global, runtime->worker_count, take_max(worker),
                            &chain);
    }
    const size_t count = chain.count;
    if (count == 0) {
        return NULL;
    }
    wf_counter_add(&worker->counters.global_fetches, count);
    if (wf_inject_count(&runtime->queues.global) > WF_PREFETCH_QUEUE_MIN) {
        wf_prefetch_chain(&chain);
    }
    if (runtime->options.global_capacity != 0) {
        wf_upcalls.queue_shrunk(runtime, count);
    }
    struct weft_task *first = wf_task_of(wf_chain_pop(&chain));
    if (chain.first == NULL) {
        return first;
    }
    wf_runq_refill(&worker->runq, &chain);
    if (!wf_is_single_biased(worker)) {
        /* a searcher may have checked the queues while the tasks were in none */
        wf_steal_notify(runtime, worker);
    }
    return first;
}

struct weft_task *wf_global_take_one(struct wf_worker *worker, struct wf_inject *inject)
{
    struct wf_chain chain = {0};
    if (wf_inject_count(inject) == 0 || wf_inject_pop(inject, 1, 1, &chain) == 0) {
        return NULL;
    }
    wf_counter_add(&worker->counters.global_fetches, 1);
    if (worker->runtime->options.global_capacity != 0) {
        /* tasks in the queues of high and low priority count as queued, too */
        wf_upcalls.queue_shrunk(worker->runtime, 1);
    }
    return wf_task_of(chain.first);
}
