/* SPDX-License-Identifier: MIT */
/*
 * obs/stats.c - counters of a runtime and of its workers, read while they run.
 */
#include <errno.h>

#include "life/blocking.h"
#include "obs/obs.h"

static void read_counters(const struct wf_counters *counters, weft_worker_stats *out)
{
    *out = (weft_worker_stats){
        .spawned = wf_counter_read(&counters->spawned),
        .completed = wf_counter_read(&counters->completed),
        .failed = wf_counter_read(&counters->failed),
        .cancelled = wf_counter_read(&counters->cancelled),
        .polled = wf_counter_read(&counters->polled),
        .yielded = wf_counter_read(&counters->yielded),
        .stolen = wf_counter_read(&counters->slots_stolen),
        .steals_tried = wf_counter_read(&counters->steals_tried),
        .parked = wf_counter_read(&counters->parked),
        .woken = wf_counter_read(&counters->woken),
        .global_fetches = wf_counter_read(&counters->global_fetches),
        .forks_taken = wf_counter_read(&counters->forks_taken),
    };
}

static void read_worker(struct wf_worker *worker, weft_worker_stats *out)
{
    struct wf_queue_stats queue;
    read_counters(&worker->counters, out);
    wf_runq_stats_read(&worker->runq, &queue);
    out->stolen += queue.stolen;
    out->overflowed = queue.overflowed;
    out->lifo_hits = wf_counter_read(&worker->runq.lifo_hits);
    out->queue_depth = wf_runq_count(&worker->runq) + (wf_lifo_is_full(&worker->runq) ? 1 : 0);
}

static void stats_add(weft_worker_stats *sum, const weft_worker_stats *more)
{
    sum->spawned += more->spawned;
    sum->completed += more->completed;
    sum->failed += more->failed;
    sum->cancelled += more->cancelled;
    sum->polled += more->polled;
    sum->yielded += more->yielded;
    sum->stolen += more->stolen;
    sum->steals_tried += more->steals_tried;
    sum->parked += more->parked;
    sum->woken += more->woken;
    sum->overflowed += more->overflowed;
    sum->lifo_hits += more->lifo_hits;
    sum->global_fetches += more->global_fetches;
    sum->queue_depth += more->queue_depth;
    sum->forks_taken += more->forks_taken;
}

int weft_runtime_get_worker_stats(weft_runtime *runtime, weft_worker_stats *out, unsigned worker)
{
    WF_NOT_NULL(runtime, "weft_runtime_get_worker_stats: runtime is NULL");
    WF_NOT_NULL(out, "weft_runtime_get_worker_stats: out is NULL");
    if (worker >= wf_worker_total(runtime)) {
        return -EINVAL;
    }
    read_worker(&runtime->workers[worker], out);
    return 0;
}

int weft_runtime_get_stats(weft_runtime *runtime, weft_runtime_stats *out)
{
    WF_NOT_NULL(runtime, "weft_runtime_get_stats: runtime is NULL");
    WF_NOT_NULL(out, "weft_runtime_get_stats: out is NULL");
    const struct wf_blocking *blocking = runtime->blocking;
    const struct wf_driver *driver = wf_driver_of(runtime);
    struct wf_stack_stats stacks;
    wf_stack_pool_stats(&runtime->stacks, &stacks);
    *out = (weft_runtime_stats){
        .workers = runtime->worker_count,
        .searching = wf_idle_searching(&runtime->idle),
        .parked = runtime->policy->parked_count(runtime),
        .live = wf_runtime_live(runtime),
        .global_depth = wf_runtime_queued(runtime),
        .stack_bytes = stacks.mapped_bytes,
        .stacks = stacks.stacks - stacks.free,
        .stops = wf_counter_read(&runtime->world_stats.stops),
        .stop_ns_max = wf_counter_read(&runtime->world_stats.ns_max),
        .stop_ns_total = wf_counter_read(&runtime->world_stats.ns_total),
        .workers_total = wf_worker_total(runtime),
        .workers_active = wf_workers_active(runtime),
        .hogs = wf_counter_read(&runtime->monitor.hogs),
        .blocks = wf_counter_read(&runtime->monitor.blocked),
        .spares_refused = wf_counter_read(&runtime->monitor.refused),
        .blocking_threads = wf_load_relaxed(&blocking->started),
        .blocking_idle = wf_load_relaxed(&blocking->resting), /* all relaxed: hints */
        .blocking_waiting = wf_load_relaxed(&blocking->waiting),
        .blocking_done = wf_load_relaxed(&blocking->done),
        .blocking_refused = wf_load_relaxed(&blocking->refused),
        .io_events = driver != NULL ? wf_load_relaxed(&driver->events) : 0,
        .io = driver != NULL ? (enum weft_io)wf_load_relaxed(&driver->io) : WEFT_IO_AUTO,
        .lost_wakeups = wf_load_relaxed(&runtime->idle.lost_wakeups), /* relaxed: a hint */
    };
    read_counters(&runtime->foreign, &out->total);
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        weft_worker_stats counters;
        read_worker(&runtime->workers[i], &counters);
        stats_add(&out->total, &counters);
        out->timers_fired += wf_counter_read(&runtime->workers[i].timers.fired);
        size_t cached = wf_stack_cache_count(&runtime->workers[i].stacks);
        cached +=
            wf_load_relaxed(&runtime->workers[i].warm_stack) != NULL ? 1 : 0; /* relaxed: a hint */
        out->stacks -= cached < out->stacks ? cached : out->stacks;
    }
    return 0;
}
