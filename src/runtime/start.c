/* SPDX-License-Identifier: MIT */
/*
 * runtime/start.c - the workers of a runtime: their memory, and the start of their threads.
 *
 * The workers that the options ask for start together, all or none (os/start.c).  A spare starts
 * alone, later, on behalf of the monitor.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/runtime.h"

/* ---- memory -------------------------------------------------------------------------------- */

void wf_workers_done(weft_runtime *runtime, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct wf_worker *worker = &runtime->workers[i];
        wf_runq_done(&worker->runq);
    }
    wf_free(runtime->workers);
    wf_free(runtime->safes);
}

int wf_worker_init(weft_runtime *runtime, unsigned index)
{
    struct wf_worker *worker = &runtime->workers[index];
    const bool is_steal = runtime->policy->steals;
    memset(worker, 0, sizeof(*worker));
    worker->runtime = runtime;
    worker->pool = runtime->pool;
    worker->index = index;
    worker->is_single = runtime->worker_count == 1 && index == 0;
    worker->health.is_spare = index >= runtime->worker_count;
    /* relaxed: not published yet.  The worker is safe until its thread leaves the safepoint. */
    wf_store_relaxed(&worker->safe.is_safe, 1);
    worker->tick.clock = 1;
    worker->tick.left = 1;
    worker->tick.slice_ns = WF_SLICE_FIRST_NS;
    worker->tick.interval = wf_global_interval(worker->tick.slice_ns);
    wf_random_init(&worker->random, runtime->options.seed + index);
    wf_stack_cache_init(&worker->stacks, &runtime->stacks);
    wf_mpsc_init(&worker->pinned.inbox);
    wf_parker_init(&worker->parker);
    wf_parker_init(&worker->safe.parker);
    wf_parker_init(&worker->health.spare_parker);
    wf_timers_init(&worker->timers, wf_clock_now());
    const bool is_fair = runtime->options.order == WEFT_ORDER_FAIR;
    const enum wf_runq_mode mode = !is_steal ? WF_RUNQ_NONE
                                   : is_fair ? WF_RUNQ_FAIR
                                             : WF_RUNQ_DEPTH_FIRST;
    return wf_runq_init(&worker->runq, mode, &runtime->queues.global, &runtime->bias_domain,
                        mode == WF_RUNQ_FAIR || (worker->is_single && is_steal));
}

int wf_workers_init(weft_runtime *runtime)
{
    const unsigned count = runtime->worker_count;
    const unsigned most = runtime->workers_max; /* untouched pages cost no memory */
    runtime->workers = wf_alloc_aligned(WF_CACHE_LINE, most * sizeof(struct wf_worker));
    runtime->safes = wf_alloc_zeroed(most, sizeof(struct wf_safe *));
    if (runtime->workers == NULL || runtime->safes == NULL) {
        wf_free(runtime->workers);
        wf_free(runtime->safes);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < count; i++) {
        int rc = wf_worker_init(runtime, i);
        if (rc != 0) {
            wf_workers_done(runtime, i);
            return rc;
        }
    }
    wf_store_relaxed(&runtime->workers_total, count); /* both relaxed: not published yet */
    wf_store_relaxed(&runtime->workers_active, count);
    return 0;
}

/* ---- threads ------------------------------------------------------------------------------- */

/* [worker's thread]  The loop would never run again, and the closer would wait for ever. */
static void worker_thread_exits(void)
{
    wf_upcalls.misuse("a task must not end its thread by pthread_exit or pthread_cancel");
}

/* [opener, monitor]  Starts the thread of a worker, as one of the threads of `start`.  -EAGAIN,
 * -ENOMEM. */
static int worker_thread_start(struct wf_worker *worker, struct wf_start *start)
{
    char name[WF_THREAD_NAME_MAX + 1];
    (void)snprintf(name, sizeof(name), "weft-%u", worker->index); /* fits, or is cut */
    const struct wf_thread_options options = {.name = name, .on_exit = worker_thread_exits};
    worker->thread.start = start;
    return wf_thread_start(&worker->thread.handle, wf_worker_main, worker, &options);
}

int wf_worker_start(struct wf_worker *worker)
{
    worker->thread.own_start = (struct wf_start){.opener = {{0}}};
    int rc = worker_thread_start(worker, &worker->thread.own_start);
    if (rc != 0) {
        return rc;
    }
    rc = wf_start_decide(worker->thread.start, 1, 0);
    if (rc != 0) {
        WF_REACHED("runtime.spare_ends_at_once");
        (void)wf_thread_join(worker->thread.handle); /* it ends at once */
    }
    worker->health.has_thread = rc == 0;
    return rc;
}

int wf_workers_start(weft_runtime *runtime)
{
    struct wf_start *start = &runtime->start;
    unsigned started = 0;
    int rc = 0;
    for (; started < runtime->worker_count && rc == 0; started += rc == 0 ? 1u : 0u) {
        rc = worker_thread_start(&runtime->workers[started], start);
        runtime->workers[started].health.has_thread = rc == 0;
    }
    rc = wf_start_decide(start, started, rc);
    for (unsigned i = 0; i < started && rc != 0; i++) {
        WF_REACHED("runtime.not_all_threads");
        (void)wf_thread_join(runtime->workers[i].thread.handle); /* they end at once */
    }
    return rc;
}
