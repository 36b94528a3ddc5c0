/* SPDX-License-Identifier: MIT */
/*
 * sched/steal.c - the policy in which every worker decides for itself.
 *
 * A worker looks for its next task in this order: its own run queue, its pinned tasks, high
 * priority, the global queue, low priority, half of another worker's run queue (beginning with a
 * random victim), another worker's LIFO slot, a fork.  With the option steal_first it steals before
 * it looks into the global queue.
 *
 * In some ticks take_first takes from one of these queues before that, in this order: high priority
 * in all ticks but every WF_NORMAL_INTERVAL-th; low priority in every WF_LOW_INTERVAL-th; pinned
 * tasks in every second one, but for every (2 * WF_NORMAL_INTERVAL)-th; the global queue every
 * `interval` ticks, and whenever WF_GLOBAL_LATENCY_NS have passed.  The interval follows the length
 * of a slice.
 *
 * Pinned tasks, and tasks of high or low priority, go through queues of their own (slow queues),
 * from which only the loop takes.
 *
 * A push into a run queue says whether a parked worker must be notified (queue/runq.h); idle.c has
 * the protocol.  leader.c watches the tasks of which no worker is notified.
 */
#include "sched/ready.h"

/* ---- making ready -------------------------------------------------------------------------- */

void wf_steal_notify(weft_runtime *runtime, struct wf_worker *worker)
{
    int sleeper = wf_idle_notify(&runtime->idle);
    if (sleeper >= 0) {
        wf_trace_event(runtime, worker, WF_TRACE_NOTIFY, 0, (uint64_t)sleeper);
        wf_driver_unpark(runtime, &runtime->workers[sleeper].parker);
    }
}

void wf_steal_notify_external(weft_runtime *runtime, struct wf_worker *worker)
{
    wf_idle_external(&runtime->idle);
    wf_steal_notify(runtime, worker);
}

/* [any]  Queues a pinned task, and wakes its worker. */
static void ready_pinned(weft_runtime *runtime, struct weft_task *task)
{
    struct wf_worker *home = &runtime->workers[task->home];
    (void)wf_mpsc_push(&home->pinned.inbox, &task->node);
    wf_idle_external(&runtime->idle);
    if (wf_idle_claim_worker(&runtime->idle, home->index)) {
        WF_REACHED("steal.home_is_woken");
        wf_driver_unpark(runtime, &home->parker);
    } else if (wf_load_relaxed(&home->health.is_spare_parked) != 0) { /* relaxed: (sched.S1) */
        wf_spare_unpark(home);
    } else {
        /* The home worker is awake: a leader must exist that preempts its task if the slice is
         * long. */
        wf_leader_summon(runtime);
    }
}

static void steal_ready(weft_runtime *runtime, struct wf_worker *worker, struct weft_task *task)
{
    /* All relaxed: the caller has the task. */
    if (wf_load_relaxed(&task->pins) > 0) {
        ready_pinned(runtime, task);
        return;
    }
    const uint8_t priority = wf_load_relaxed(&task->priority);
    struct wf_shared_queues *queues = &runtime->queues;
    wf_inject_push_admitted(priority == WEFT_PRIORITY_NORMAL ? &queues->global
                            : priority == WEFT_PRIORITY_HIGH ? &queues->high
                                                             : &queues->low,
                            &task->node);
    wf_steal_notify_external(runtime, worker);
}

/* ---- taking -------------------------------------------------------------------------------- */

/* [owner]  The next task of the run queue. */
static struct weft_task *take_local(struct wf_worker *worker)
{
    return wf_task_of(wf_runq_pop(&worker->runq));
}

bool wf_steal_is_due(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    return worker->tick.left == 0 || wf_load_relaxed(&runtime->world.is_stopped) != 0 ||
           wf_inject_count(&runtime->queues.global) > 0 ||
           wf_inject_count(&runtime->queues.high) > 0 ||
           wf_inject_count(&runtime->queues.low) > 0 || !wf_mpsc_is_empty(&worker->pinned.inbox) ||
           worker->pinned.taken.first != NULL;
}

/* [owner]  A task that only this worker may run. */
static struct weft_task *take_pinned(struct wf_worker *worker)
{
    if (!wf_mpsc_is_empty(&worker->pinned.inbox)) {
        (void)wf_mpsc_take(&worker->pinned.inbox, &worker->pinned.taken);
    }
    return wf_task_of(wf_chain_pop(&worker->pinned.taken));
}

/* [owner]  Steals half of the run queue of the first victim that has tasks.  Returns one of them,
 * to be run now; NULL: no victim has any. */
static struct weft_task *steal_half(struct wf_worker *worker, unsigned first, unsigned count)
{
    weft_runtime *runtime = worker->runtime;
    const size_t most = worker->backoff.level > 0 ? WF_STEAL_BACKOFF_BATCH : WF_RING_CAPACITY;
    for (unsigned i = 0; i < count; i++) {
        struct wf_worker *victim = &runtime->workers[(first + i) % count];
        if (victim == worker) {
            continue;
        }
        wf_counter_add(&worker->counters.steals_tried, 1);
        struct weft_task *task = wf_task_of(wf_runq_steal(&victim->runq, &worker->runq, most));
        if (task != NULL) {
            wf_trace(worker->trace, WF_TRACE_STEAL, wf_task_id(task), victim->index);
            return task;
        }
    }
    return NULL;
}

/* [owner]  The task in a LIFO slot. */
static struct weft_task *steal_lifo(struct wf_worker *worker, unsigned first, unsigned count)
{
    weft_runtime *runtime = worker->runtime;
    for (unsigned i = 0; i < count; i++) {
        struct wf_worker *victim = &runtime->workers[(first + i) % count];
        struct weft_task *task =
            victim != worker ? wf_task_of(wf_runq_steal_lifo(&victim->runq)) : NULL;
        if (task != NULL) {
            WF_REACHED("steal.slot_stolen");
            wf_counter_add(&worker->counters.slots_stolen, 1);
            return task;
        }
    }
    return NULL;
}

/* [owner]  A fork of another worker's task.  Spares take none: see monitor.c. */
static struct weft_task *steal_fork(struct wf_worker *worker, unsigned first, unsigned count)
{
    weft_runtime *runtime = worker->runtime;
    for (unsigned i = 0; i < count && !worker->health.is_spare; i++) {
        struct wf_worker *victim = &runtime->workers[(first + i) % count];
        struct weft_task *task = victim != worker ? wf_upcalls.fork_steal(worker, victim) : NULL;
        if (task != NULL) {
            return task;
        }
    }
    return NULL;
}

/* [owner]  A task of another worker.  Tasks that a thief moves are in no queue for a moment, and a
 * worker that checks the queues then misses them.  So only searchers steal: the last one that stops
 * checks all queues again. */
static struct weft_task *steal(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    if (runtime->options.no_steal || wf_is_single_biased(worker)) {
        return NULL;
    }
    worker->search.is_active = worker->search.is_active || wf_idle_begin_search(&runtime->idle);
    if (!worker->search.is_active) {
        return NULL;
    }
    const unsigned count = wf_worker_total(runtime);
    const unsigned first = wf_random_below(&worker->random, count);
    struct weft_task *task = steal_half(worker, first, count);
    if (task == NULL) {
        task = steal_lifo(worker, first, count);
    }
    return task != NULL ? task : steal_fork(worker, first, count);
}

/* ---- the order of the sources ---------------------------------------------------------------- */

/* [owner]  A task that comes before the run queue in this tick; NULL: none. */
static struct weft_task *take_first(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    const uint32_t tick = worker->tick.count++;
    struct weft_task *task = NULL;
    if (tick % WF_NORMAL_INTERVAL != 0) {
        task = wf_global_take_one(worker, &runtime->queues.high);
    }
    if (task == NULL && tick % WF_LOW_INTERVAL == 0) {
        task = wf_global_take_one(worker, &runtime->queues.low);
    }
    if (task == NULL && tick % 2 == 0 && tick % (2 * WF_NORMAL_INTERVAL) != 0) {
        task = take_pinned(worker);
    }
    if (!wf_global_is_due(worker)) {
        return task;
    }
    if (task == NULL) {
        return wf_global_take(worker);
    }
    /* The global queue was due, but this tick goes to a slow queue: makes it due in the next. */
    worker->tick.is_after_global = false;
    worker->tick.global = worker->tick.interval;
    worker->tick.clock = 1;
    worker->tick.left = 1;
    return task;
}

/* [owner]  A task from any queue that needs no search, in the usual order; NULL: none. */
static struct weft_task *take_any(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    struct weft_task *task = take_local(worker);
    if (task != NULL) {
        return task;
    }
    if (__builtin_expect(worker->io.has_unsubmitted, 0)) {
        wf_driver_submit(worker);
        task = take_local(worker);
        if (task != NULL) {
            return task;
        }
    }
    task = take_pinned(worker);
    if (task != NULL) {
        return task;
    }
    if (worker->backoff.is_tracked) {
        wf_steal_backoff_update(worker);
    }
    if (worker->backoff.level >= WF_STEAL_LEVEL_PAUSE) {
        worker->backoff.external_seq = wf_idle_external_seq(&runtime->idle);
    }
    task = wf_global_take_one(worker, &runtime->queues.high);
    if (task == NULL && runtime->options.steal_first) {
        task = steal(worker);
    }
    if (task == NULL) {
        task = wf_global_take(worker);
    }
    return task != NULL ? task : wf_global_take_one(worker, &runtime->queues.low);
}

/* ---- searching ----------------------------------------------------------------------------- */

bool wf_steal_has_work(void *context)
{
    struct wf_worker *worker = context;
    weft_runtime *runtime = worker->runtime;
    if (wf_inject_count(&runtime->queues.global) > 0 ||
        wf_inject_count(&runtime->queues.high) > 0 || wf_inject_count(&runtime->queues.low) > 0 ||
        !wf_mpsc_is_empty(&worker->pinned.inbox) ||
        wf_load_relaxed(&runtime->shutdown.exit_mode) != 0) {
        return true;
    }
    for (unsigned i = 0; i < wf_worker_total(runtime) && !runtime->options.no_steal; i++) {
        struct wf_worker *other = &runtime->workers[i];
        if (wf_runq_count(&other->runq) > 0 ||
            (!worker->health.is_spare && wf_upcalls.fork_is_open(other))) {
            return true;
        }
    }
    return wf_idle_asleep(&runtime->idle) >= wf_workers_active(runtime) &&
           wf_upcalls.quiescence_is_due(runtime);
}

/* [owner]  The worker stops searching.  The last searcher must rescan all queues, because
 * submitters skip the notification while a worker searches.  A worker that woke up unclaimed
 * must rescan too: it may have seen work, and then taken something else. */
static void stop_search(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    bool must_rescan = worker->search.must_rescan;
    worker->search.must_rescan = false;
    if (worker->search.is_active) {
        worker->search.is_active = false;
        must_rescan = wf_idle_end_search(&runtime->idle) || must_rescan;
    }
    if (must_rescan) {
        wf_fence_seq_cst(); /* (sched.S1), (sched.S2) */
        if (wf_steal_has_work(worker)) {
            wf_steal_notify(runtime, worker);
        }
    }
}

/* [owner]  The worker has found a task. */
static void found(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    if (worker->search.is_active) {
        worker->backoff.is_tracked = !worker->is_single;
        wf_steal_backoff_begin(worker, wf_clock_now());
    }
    stop_search(worker);
    /* A worker that has parked may have been the leader, so there may be none now.  A leader is
     * needed if another worker is awake, a timer is set or the LIFO slot is full. */
    if (worker->leader.may_be_needed && !wf_is_single_biased(worker) &&
        (wf_idle_asleep(&runtime->idle) + 1 < wf_workers_active(runtime) ||
         wf_timers_next(runtime) != WF_FOREVER || wf_lifo_is_full(&worker->runq))) {
        wf_leader_needed(worker);
    }
}

/* [owner of a spare]  There is one worker too many: moves the spare's tasks to the global queue,
 * and parks. */
static void spare_drain(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    struct wf_chain chain = {0};
    struct weft_task *task;
    if (wf_load_relaxed(&runtime->shutdown.exit_mode) != 0) { /* relaxed: the closer wakes it */
        return;
    }
    if (worker->io.has_unsubmitted) {
        wf_driver_submit(worker);
    }
    while ((task = take_local(worker)) != NULL) {
        wf_chain_push(&chain, &task->node);
    }
    if (chain.first != NULL) {
        WF_REACHED("steal.retires_with_tasks");
        wf_inject_push_overflow(&runtime->queues.global, &chain);
        wf_steal_notify_external(runtime, worker);
    }
    stop_search(worker);
    worker->backoff.is_tracked = false;
    wf_steal_backoff_set(worker, 0);
    /* This spare may have been the leader, so another leader may be needed: as in found. */
    if (wf_idle_asleep(&runtime->idle) + 1 < wf_workers_active(runtime) ||
        wf_timers_next(runtime) != WF_FOREVER || wf_driver_of(runtime) != NULL) {
        wf_leader_summon(runtime);
    }
    if (worker->pinned.taken.first == NULL && wf_spare_park(worker)) {
        worker->leader.may_be_needed = true;
        worker->tick.now_ns = wf_clock_now();
        worker->tick.global_ns = worker->tick.now_ns;
    }
}

void wf_steal_handoff(struct wf_worker *worker)
{
    if (worker->io.has_unsubmitted) {
        wf_driver_submit(worker);
    }
    if (wf_lifo_is_full(&worker->runq) || wf_runq_count(&worker->runq) > 0) {
        wf_steal_notify_external(worker->runtime, worker);
    }
}

static struct weft_task *steal_next(struct wf_worker *worker)
{
    if (__builtin_expect(worker->health.is_spare, 0) && wf_spare_is_surplus(worker->runtime)) {
        spare_drain(worker);
    }
    if (worker->tick.left > 0) {
        worker->tick.left--;
    }
    struct weft_task *task = take_first(worker);
    if (task == NULL) {
        task = take_any(worker);
    }
    if (task == NULL) {
        task = steal(worker);
    }
    if (task != NULL) {
        found(worker);
    }
    return task;
}

/* ---- parking ------------------------------------------------------------------------------- */

/* [loop]  Checks for work a few more times before the worker parks, because a park and a wake-up
 * cost more.  True: there is work, or the world is to be stopped; the worker must not park. */
static bool search(struct wf_worker *worker)
{
    for (unsigned i = 0; i < WF_SEARCH_SPIN; i++) {
        wf_spin_hint();
        if (wf_steal_has_work(worker) || wf_load_relaxed(&worker->runtime->world.is_stopped) != 0) {
            return true;
        }
    }
    return false;
}

/* [loop]  Stops searching, for a caller that is about to run a hook of the user: while a worker
 * counts as a searcher, submitters notify no other worker.  True: there is work, and the caller
 * must look for it first. */
static bool give_up_search(struct wf_worker *worker)
{
    if (!worker->search.is_active) {
        return false;
    }
    worker->search.is_active = false;
    (void)wf_idle_end_search(&worker->runtime->idle); /* the rescan is below */
    wf_fence_seq_cst();                               /* (sched.S1), (sched.S2) */
    worker->search.must_rescan = wf_steal_has_work(worker);
    return worker->search.must_rescan;
}

/* [loop]  Parks until woken; the leader also until its deadline, or an event of the driver. */
static void sleep_until_woken(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    worker->leader.until_ns = wf_leader_begin(worker);
    const struct wf_sleep sleep = {
        .parker = &worker->parker,
        .driver = worker->leader.driver,
        .has_work = wf_leader_must_stay,
        .context = worker,
        .deadline_ns = worker->leader.until_ns,
        .is_searching = worker->search.is_active,
    };
    worker->search.is_active = wf_idle_sleep(&runtime->idle, worker->index, &sleep);
    worker->search.must_rescan = !worker->search.is_active;
    if (worker->search.is_active) {
        wf_counter_add(&worker->counters.woken, 1);
    }
}

static void steal_park(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    if (worker->search.is_active && search(worker)) {
        return;
    }
    if (wf_idle_asleep(&runtime->idle) + 1 >= wf_workers_active(runtime) &&
        wf_upcalls.quiescence_is_due(runtime)) {
        if (!give_up_search(worker)) {
            wf_upcalls.quiescence_report(runtime, false);
        }
        return; /* a hook may have made a task ready */
    }
    worker->leader.may_be_needed = true;
    wf_counter_add(&worker->counters.parked, 1);
    wf_trace(worker->trace, WF_TRACE_PARK, 0, 0);
    wf_safe_enter(&runtime->world, &worker->safe);
    sleep_until_woken(worker);
    wf_worker_leave_safe(worker);
    if (worker->leader.is_self) {
        wf_leader_end(worker); /* outside of the safe state: the dispatch touches tasks */
    }
    wf_trace(worker->trace, WF_TRACE_UNPARK, 0, 0);
    worker->tick.now_ns = wf_clock_now(); /* the time asleep is no slice */
    worker->tick.global_ns = worker->tick.now_ns;
    wf_timers_look(runtime, worker, worker->tick.now_ns);
}

static int steal_open(weft_runtime *runtime)
{
    /* With no_steal a parked worker could take nothing from a running one.  In depth-first order
     * there is no LIFO slot, and a worker is notified of every task.  So with either, only a timer
     * or a driver needs a leader. */
    runtime->timer_summary.is_leader_optional =
        runtime->options.no_steal || runtime->options.order != WEFT_ORDER_FAIR;
    return 0;
}

/* [monitor]  Wakes one active spare that sleeps.  It then finds the surplus itself, and parks as an
 * idle spare. */
static void steal_recall_spare(weft_runtime *runtime)
{
    for (unsigned i = runtime->worker_count; i < wf_worker_total(runtime); i++) {
        if (wf_idle_claim_worker(&runtime->idle, i)) {
            wf_driver_unpark(runtime, &runtime->workers[i].parker);
            return;
        }
    }
}

static unsigned steal_idle_count(weft_runtime *runtime)
{
    return wf_idle_asleep(&runtime->idle) + wf_idle_searching(&runtime->idle);
}

static unsigned steal_parked_count(weft_runtime *runtime)
{
    return wf_idle_asleep(&runtime->idle);
}

static uint64_t steal_queued_count(weft_runtime *runtime)
{
    return wf_inject_count(&runtime->queues.global) + wf_inject_count(&runtime->queues.high) +
           wf_inject_count(&runtime->queues.low);
}

const struct wf_policy wf_policy_steal = {
    .steals = true,
    .open = steal_open,
    .ready = steal_ready,
    .next = steal_next,
    .park = steal_park,
    .wake_leader = wf_leader_wake,
    .wake_any = wf_leader_wake_any,
    .repair_leader = wf_leader_repair,
    .recall_spare = steal_recall_spare,
    .idle_count = steal_idle_count,
    .parked_count = steal_parked_count,
    .queued_count = steal_queued_count,
};
