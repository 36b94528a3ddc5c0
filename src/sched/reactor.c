/* SPDX-License-Identifier: MIT */
/*
 * sched/reactor.c - the policy in which one control thread decides everything.
 *
 * Every thread that makes a task ready pushes it to the inbox of the control thread, which keeps
 * the only ready queues.  A worker that wants work pushes itself to the queue of results and parks.
 * The control thread stores one task in the worker's handoff field and unparks the worker.  So
 * scheduling decisions never race, and at most one task for each worker is handed out.
 *
 * The loop of the control thread has nine steps, in this order:
 *   1  results: collects the workers that have finished a task and want work
 *   2  blocking jobs: passes new ones to the threads of blocking.c
 *   3  completions: finishes blocking jobs that have run, and dispatches I/O events of the driver
 *   4  timers: fires those that have expired
 *   5  channels: does nothing, because a sender hands a value directly to a receiver.  The step
 *      exists because the trace shows nine steps.
 *   6  inbox: sorts the tasks that were spawned or woken into the ready queues
 *   7  long slices: requests preemption of tasks that have run for WF_SLICE_MAX_NS
 *   8  dispatch: hands ready tasks to the workers that want work
 *   9  waits for the next event
 *
 * The producer that makes one of the four queues non-empty wakes the control thread (mpsc.c: push
 * reports it), so the wait needs no timeout for them.  The control thread wakes itself for the next
 * timer, and for step 7 while tasks wait and all workers are busy.
 */
#include <errno.h>
#include <string.h>

#include "sched/ready.h"

enum { PRIORITIES = WEFT_PRIORITY_LOW + 1 };

struct wf_reactor {
    weft_runtime *runtime;    /* [const] */
    struct wf_mpsc inbox;     /* ready tasks */
    struct wf_mpsc results;   /* workers that want work */
    struct wf_mpsc new_jobs;  /* new jobs for the blocking pool */
    struct wf_mpsc done_jobs; /* jobs that have run */
    struct wf_parker parker;  /* where the control thread waits */

    /* All of these [control thread]. */
    struct wf_chain ready[PRIORITIES];
    struct wf_chain *pinned; /* by worker */
    struct wf_chain idle;    /* workers that want work */
    uint32_t tick;
    struct wf_driver *slept_in; /* the driver in which step 9 waited, until step 3; or NULL */

    WF_ATOMIC(uint32_t) idle_count; /* [control thread: write] [any: read] */
    WF_ATOMIC(uint64_t) queued;     /* [any: add]  tasks in the inbox and the ready queues */
    WF_ATOMIC(uint32_t) is_leaving; /* [closer: write] */
    pthread_t thread;
};

/* ---- workers ------------------------------------------------------------------------------- */

static void reactor_ready(weft_runtime *runtime, struct wf_worker *worker, struct weft_task *task)
{
    (void)worker;
    struct wf_reactor *reactor = runtime->reactor;
    (void)wf_fetch_add_relaxed(&reactor->queued, 1); /* relaxed: a number */
    if (wf_mpsc_push(&reactor->inbox, &task->node)) {
        wf_driver_unpark(runtime, &reactor->parker);
    }
}

static struct weft_task *reactor_next(struct wf_worker *worker)
{
    worker->tick.now_ns = wf_clock_now();
    if (wf_load_relaxed(&worker->reactor.handoff) == NULL) { /* relaxed: the exchange decides */
        return NULL;
    }
    worker->reactor.is_listed = false;
    wf_store_relaxed(&worker->preempt.is_requested, 0); /* relaxed: it was for the last task */
    return wf_exchange_acquire(&worker->reactor.handoff, NULL); /* (sched.H1) */
}

/* [owner]  Whether the control thread has handed the worker a task, or has dismissed it. */
static bool has_handoff(void *context)
{
    struct wf_worker *worker = context;
    /* relaxed, both: the exchanges of reactor_next and reactor_park decide */
    return wf_load_relaxed(&worker->reactor.handoff) != NULL ||
           wf_load_relaxed(&worker->health.is_dismissed) != 0;
}

static void reactor_park(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    if (wf_exchange_acquire(&worker->health.is_dismissed, 0) != 0) { /* (sched.H1) */
        worker->reactor.is_listed = false;
        wf_spare_wait(worker);
    }
    if (!worker->reactor.is_listed) {
        worker->reactor.is_listed = true;
        if (wf_mpsc_push(&runtime->reactor->results, &worker->reactor.node)) {
            wf_driver_unpark(runtime, &runtime->reactor->parker);
        }
    }
    wf_counter_add(&worker->counters.parked, 1);
    wf_trace(worker->trace, WF_TRACE_PARK, 0, 0);
    wf_safe_enter(&runtime->world, &worker->safe);
    /* Woken for a task, as a dismissed spare, or to leave: the loop checks. */
    (void)wf_idle_park(&runtime->idle, &worker->parker, NULL, has_handoff, worker, WF_FOREVER);
    wf_worker_leave_safe(worker);
    wf_trace(worker->trace, WF_TRACE_UNPARK, 0, 0);
    wf_counter_add(&worker->counters.woken, 1);
}

static void reactor_wake(weft_runtime *runtime)
{
    wf_driver_unpark(runtime, &runtime->reactor->parker);
}

static void reactor_carry_job(weft_runtime *runtime, struct wf_node *job)
{
    if (wf_mpsc_push(&runtime->reactor->new_jobs, job)) {
        wf_driver_unpark(runtime, &runtime->reactor->parker);
    }
}

static void reactor_carry_result(weft_runtime *runtime, struct wf_node *job)
{
    if (wf_mpsc_push(&runtime->reactor->done_jobs, job)) {
        wf_driver_unpark(runtime, &runtime->reactor->parker);
    }
}

/* ---- the control thread -------------------------------------------------------------------- */

/* Step 1: collects the workers that want work. */
static void drain_results(struct wf_reactor *reactor)
{
    size_t count = wf_mpsc_take(&reactor->results, &reactor->idle);
    wf_counter_add(&reactor->idle_count, (uint32_t)count);
}

/* Step 2: starts new blocking jobs. */
static void drain_new_jobs(struct wf_reactor *reactor)
{
    struct wf_chain chain = {0};
    (void)wf_mpsc_take(&reactor->new_jobs, &chain);
    struct wf_node *node;
    while ((node = wf_chain_pop(&chain)) != NULL) {
        wf_upcalls.job_begin(reactor->runtime, node);
    }
}

/* Step 3: finishes blocking jobs that have run. */
static void drain_done_jobs(struct wf_reactor *reactor)
{
    struct wf_chain chain = {0};
    (void)wf_mpsc_take(&reactor->done_jobs, &chain);
    struct wf_node *node;
    while ((node = wf_chain_pop(&chain)) != NULL) {
        wf_upcalls.job_end(reactor->runtime, node);
    }
}

/* Step 3: dispatches the I/O events of the last wait, and polls for more if a poll is due. */
static void dispatch_io(struct wf_reactor *reactor, int64_t now)
{
    if (reactor->slept_in != NULL) {
        reactor->slept_in->dispatch(reactor->slept_in, NULL);
        reactor->slept_in = NULL;
    }
    wf_driver_maybe_poll(reactor->runtime, NULL, now);
}

/* Step 6: sorts tasks by priority, and pinned ones by worker. */
static void drain_inbox(struct wf_reactor *reactor)
{
    struct wf_chain chain = {0};
    (void)wf_mpsc_take(&reactor->inbox, &chain);
    struct weft_task *task;
    while ((task = wf_task_of(wf_chain_pop(&chain))) != NULL) {
        if (wf_load_relaxed(&task->pins) > 0) { /* relaxed: the control thread owns it now */
            struct wf_worker *home = &reactor->runtime->workers[task->home];
            wf_chain_push(&reactor->pinned[task->home], &task->node);
            /* relaxed: only the control thread sets it */
            if (wf_load_relaxed(&home->health.is_spare_parked) != 0) {
                wf_spare_unpark(home);
            }
        } else {
            wf_chain_push(&reactor->ready[wf_load_relaxed(&task->priority)], &task->node);
        }
    }
}

/* Step 7: requests preemption of long slices. */
static void check_slices(struct wf_reactor *reactor, int64_t now)
{
    weft_runtime *runtime = reactor->runtime;
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        struct wf_worker *worker = &runtime->workers[i];
        /* relaxed: a request; if the worker misses it, the next pass repeats it */
        if (wf_load_relaxed(&worker->current) != NULL &&
            now - worker->reactor.slice_began_ns >= WF_SLICE_MAX_NS) {
            WF_REACHED("reactor.preempt_requested");
            wf_store_relaxed(&worker->preempt.is_requested, 1);
        }
    }
}

/* Removes and returns the next task for this worker; NULL: none.  The worker's pinned tasks come
 * first, then the others by priority, except at the ticks of WF_NORMAL_INTERVAL and
 * WF_LOW_INTERVAL. */
static struct weft_task *next_for(struct wf_reactor *reactor, struct wf_worker *worker)
{
    const uint32_t tick = reactor->tick++;
    struct wf_chain *order[PRIORITIES + 1] = {
        &reactor->pinned[worker->index],
        &reactor->ready[WEFT_PRIORITY_HIGH],
        &reactor->ready[WEFT_PRIORITY_NORMAL],
        &reactor->ready[WEFT_PRIORITY_LOW],
    };
    if (tick % WF_LOW_INTERVAL == 0) {
        order[0] = &reactor->ready[WEFT_PRIORITY_LOW];
        order[PRIORITIES] = &reactor->pinned[worker->index];
    } else if (tick % WF_NORMAL_INTERVAL == 0) {
        order[0] = &reactor->ready[WEFT_PRIORITY_NORMAL];
        order[2] = &reactor->pinned[worker->index];
    }
    for (size_t i = 0; i <= PRIORITIES; i++) {
        if (order[i]->first != NULL) {
            return wf_task_of(wf_chain_pop(order[i]));
        }
    }
    return NULL;
}

/* A spare wants work: dismisses it if there is a surplus.  False: it stays active. */
static bool dismiss_surplus(struct wf_reactor *reactor, struct wf_worker *worker)
{
    if (reactor->pinned[worker->index].first != NULL || !wf_spare_is_surplus(worker->runtime) ||
        !wf_spare_dismiss(worker)) {
        return false;
    }
    WF_REACHED("reactor.spare_dismissed");
    wf_counter_add(&reactor->idle_count, (uint32_t)-1);
    wf_store_release(&worker->health.is_dismissed, 1); /* (sched.H1) */
    (void)wf_parker_unpark(&worker->parker);           /* it never parks in the driver */
    return true;
}

/* Step 8: hands tasks to workers.  If workers remain, requests forks of all running tasks. */
static void dispatch(struct wf_reactor *reactor, int64_t now)
{
    struct wf_chain left = {0};
    bool is_any_left = false; /* a worker that is no spare got no task: it may take forks */
    struct wf_node *node;
    while ((node = wf_chain_pop(&reactor->idle)) != NULL) {
        struct wf_worker *worker = wf_container_of(node, struct wf_worker, reactor.node);
        if (worker->health.is_spare && dismiss_surplus(reactor, worker)) {
            continue;
        }
        struct weft_task *task = next_for(reactor, worker);
        if (task == NULL) {
            is_any_left = is_any_left || !worker->health.is_spare;
            wf_chain_push(&left, node);
            continue;
        }
        (void)wf_fetch_sub_relaxed(&reactor->queued, 1); /* relaxed: a number */
        if (reactor->runtime->options.global_capacity != 0) {
            wf_upcalls.queue_shrunk(reactor->runtime, 1);
        }
        wf_counter_add(&reactor->idle_count, (uint32_t)-1);
        worker->reactor.slice_began_ns = now;
        wf_store_release(&worker->reactor.handoff, task); /* (sched.H1) */
        (void)wf_parker_unpark(&worker->parker); /* only the control thread parks in the driver */
    }
    reactor->idle = left;
    if (is_any_left) {
        /* (sched.K4): either the owner of forks sees the request, or it sees the idle workers */
        wf_fence_seq_cst();
        wf_upcalls.forks_request_all(reactor->runtime);
    }
}

/* Whether any queue of the control thread has something in it. */
static bool has_input(void *context)
{
    struct wf_reactor *reactor = context;
    return !wf_mpsc_is_empty(&reactor->inbox) || !wf_mpsc_is_empty(&reactor->results) ||
           !wf_mpsc_is_empty(&reactor->new_jobs) || !wf_mpsc_is_empty(&reactor->done_jobs);
}

/* Step 9: waits, in the driver if there is one. */
static void wait_for_event(struct wf_reactor *reactor, int64_t now)
{
    weft_runtime *runtime = reactor->runtime;
    /* relaxed: the inbox is drained, and a later push unparks this thread */
    const bool is_ready = wf_load_relaxed(&reactor->queued) > 0;
    if (!is_ready && wf_counter_read(&reactor->idle_count) == wf_workers_active(runtime) &&
        wf_upcalls.quiescence_is_due(runtime)) {
        wf_upcalls.quiescence_report(runtime, true);
    }
    int64_t deadline_ns = wf_timers_next(runtime);
    if (is_ready && deadline_ns > now + WF_SLICE_MAX_NS) {
        deadline_ns = now + WF_SLICE_MAX_NS;
    }
    wf_timers_set_leader(runtime, 0, deadline_ns);
    wf_fence_seq_cst();                               /* (sched.A2) */
    struct wf_driver *driver = wf_driver_of(runtime); /* attach wakes this thread */
    if (wf_timers_next(runtime) >= deadline_ns) {
        /* Woken or not, the next pass checks everything. */
        (void)wf_idle_park(&runtime->idle, &reactor->parker, driver, has_input, reactor,
                           deadline_ns);
    }
    wf_timers_clear_leader(runtime);
    reactor->slept_in = driver;
}

static void trace_step(struct wf_reactor *reactor, uint64_t number)
{
    wf_trace_event(reactor->runtime, NULL, WF_TRACE_STEP, 0, number);
}

static void *control_main(void *arg)
{
    struct wf_reactor *reactor = arg;
    while (wf_load_acquire(&reactor->is_leaving) == 0) { /* acquire: pairs with reactor_stop */
        int64_t now = wf_clock_now();
        trace_step(reactor, 1);
        drain_results(reactor);
        trace_step(reactor, 2);
        drain_new_jobs(reactor);
        trace_step(reactor, 3);
        drain_done_jobs(reactor);
        dispatch_io(reactor, now);
        trace_step(reactor, 4);
        wf_timers_look(reactor->runtime, NULL, now);
        trace_step(reactor, 5);
        trace_step(reactor, 6);
        drain_inbox(reactor);
        trace_step(reactor, 7);
        check_slices(reactor, now);
        trace_step(reactor, 8);
        dispatch(reactor, now);
        trace_step(reactor, 9);
        wait_for_event(reactor, now);
    }
    return NULL;
}

/* ---- open and close ------------------------------------------------------------------------ */

static int reactor_open(weft_runtime *runtime)
{
    struct wf_reactor *reactor = wf_alloc_zeroed(1, sizeof(*reactor));
    if (reactor == NULL) {
        return -ENOMEM;
    }
    int rc = -ENOMEM;
    reactor->runtime = runtime;
    reactor->pinned = wf_alloc_zeroed(runtime->workers_max, sizeof(reactor->pinned[0]));
    if (reactor->pinned == NULL) {
        goto free_reactor;
    }
    wf_mpsc_init(&reactor->inbox);
    wf_mpsc_init(&reactor->results);
    wf_mpsc_init(&reactor->new_jobs);
    wf_mpsc_init(&reactor->done_jobs);
    wf_parker_init(&reactor->parker);
    runtime->reactor = reactor;
    const struct wf_thread_options options = {.name = "weft-control"};
    rc = wf_thread_start(&reactor->thread, control_main, reactor, &options);
    if (rc != 0) {
        goto free_pinned;
    }
    return 0;

free_pinned:
    wf_free(reactor->pinned);
free_reactor:
    runtime->reactor = NULL;
    wf_free(reactor);
    return rc;
}

static void reactor_stop(weft_runtime *runtime)
{
    struct wf_reactor *reactor = runtime->reactor;
    if (wf_load_relaxed(&reactor->is_leaving) != 0) { /* relaxed: only the closer writes it */
        return;
    }
    wf_store_release(&reactor->is_leaving, 1); /* release: pairs with the loop's load */
    wf_driver_unpark(runtime, &reactor->parker);
    int rc = wf_thread_join(reactor->thread);
    WEFT_CHECK(rc == 0); /* the closer started it, and joins it once */
}

static void reactor_abandon_jobs(weft_runtime *runtime)
{
    struct wf_reactor *reactor = runtime->reactor;
    struct wf_chain chain = {0};
    (void)wf_mpsc_take(&reactor->new_jobs, &chain);
    (void)wf_mpsc_take(&reactor->done_jobs, &chain);
    struct wf_node *node;
    while ((node = wf_chain_pop(&chain)) != NULL) {
        wf_upcalls.job_abandon(runtime, node);
    }
}

static void reactor_free(weft_runtime *runtime)
{
    struct wf_reactor *reactor = runtime->reactor;
    reactor_stop(runtime);
    wf_free(reactor->pinned);
    wf_free(reactor);
    runtime->reactor = NULL;
}

static bool reactor_is_own_thread(const weft_runtime *runtime)
{
    return pthread_equal(pthread_self(), runtime->reactor->thread) != 0;
}

/* Number of workers that want work. */
static unsigned reactor_idle_count(weft_runtime *runtime)
{
    return wf_counter_read(&runtime->reactor->idle_count);
}

static uint64_t reactor_queued_count(weft_runtime *runtime)
{
    return wf_load_relaxed(&runtime->reactor->queued); /* relaxed: a hint */
}

const struct wf_policy wf_policy_reactor = {
    .steals = false,
    .thread_count = 1,
    .open = reactor_open,
    .stop = reactor_stop,
    .abandon_jobs = reactor_abandon_jobs,
    .free = reactor_free,
    .ready = reactor_ready,
    .next = reactor_next,
    .park = reactor_park,
    .wake_leader = reactor_wake,
    .wake_any = reactor_wake,
    .recall_spare = reactor_wake, /* the control thread knows which workers are idle */
    .idle_count = reactor_idle_count,
    .parked_count = reactor_idle_count,
    .queued_count = reactor_queued_count,
    .is_own_thread = reactor_is_own_thread,
    .carry_job = reactor_carry_job,
    .carry_result = reactor_carry_result,
};
