/* SPDX-License-Identifier: MIT */
/*
 * sched/steal.c - the policy in which every worker decides for itself.
 *
 * Fair order: a task that becomes ready goes into the slot of the worker at hand, and runs next;
 * the one that was there goes to the tail of the ring.  So two tasks that wake each other stay on
 * one worker and in its caches.  After WF_LIFO_RUNS_MAX tasks out of the slot in a row the ring has
 * its turn.  Depth-first order: there is no slot, and a deque instead of the ring, newest first.
 *
 * Who yields goes behind all others: to the tail of the ring, or, in depth-first order, to the
 * global queue, because the owner of a deque would take it out again at once.
 *
 * A worker takes, in this order: the slot, its own queue, the global queue, half of another's queue
 * (beginning with a random one), another's slot.  Every `interval` turns the global queue goes
 * first, and whenever WF_GLOBAL_LATENCY_NS have passed; the interval follows the time that a turn
 * takes.
 *
 * Tasks of another priority and pinned ones are `special`: they go through queues of their own, at
 * which only the loop looks.
 *
 * To put a task into an empty slot calls nobody: mostly the one that did it is about to wait, and
 * its worker takes the task.  What goes into a queue calls a sleeping worker (idle.c), unless it
 * stands behind others in the ring of an owner who is alone (alone.c).  If the task that runs does
 * not wait, the slot would be stuck: so, as long as somebody works, one of those who sleep is the
 * watcher.  It wakes every WF_TURN_MAX_NS, takes what it finds in slots, and asks tasks that have
 * run since its last look to let others run.  That bounds how unfair the slot can be; no wake-up
 * of a queue rests on it.  Who is woken while all others sleep calls one of them only when there
 * is something to watch.
 */
#include "sched/fast.h"
#include "sched/fork.h"
#include "sched/sched.h"

/* ---- putting ------------------------------------------------------------------------------- */

void wf_steal_notify(weft_runtime *runtime, struct wf_worker *worker)
{
    int sleeper = wf_idle_notify(&runtime->idle);
    if (sleeper >= 0) {
        wf_trace_event(runtime, worker, WF_TRACE_NOTIFY, 0, (uint64_t)sleeper);
        wf_driver_unpark(runtime, &runtime->workers[sleeper].parker);
    }
}

/* [any]  The same for what comes from outside, or is not for everybody. */
static void notify_of_arrival(weft_runtime *runtime, struct wf_worker *worker)
{
    wf_idle_arrive(&runtime->idle);
    wf_steal_notify(runtime, worker);
}

/* [any]  Somebody has to look after those who work: see watch. */
static void call_watcher(weft_runtime *runtime)
{
    wf_fence_seq_cst(); /* (S1): either who goes to sleep sees that nobody watches, or we it */
    /* relaxed: one too many is no harm */
    const bool is_watched = wf_load_relaxed(&runtime->is_watched) != 0;
    if (is_watched && wf_load_relaxed(&runtime->hours.until_ns) > wf_clock_now() + WF_TURN_MAX_NS) {
        runtime->policy->hurry(runtime); /* when it began all slept: it would not look at us */
        return;
    }
    int sleeper = !is_watched ? wf_idle_claim(&runtime->idle) : -1;
    if (sleeper >= 0) {
        WF_REACHED("steal.watcher_called");
        wf_driver_unpark(runtime, &runtime->workers[sleeper].parker);
    }
}

void wf_steal_need_watcher(struct wf_worker *worker)
{
    worker->is_rested = false;
    call_watcher(worker->runtime);
}

/* A full ring's older half. */
static void overflow(void *context, struct wf_chain *batch)
{
    wf_inject_push_overflow(context, batch);
}

/* [any]  To the global queue, in any case. */
static void push_global(struct wf_inject *inject, struct weft_task *task)
{
    struct wf_chain chain = {0};
    wf_chain_push(&chain, &task->node);
    wf_inject_push_overflow(inject, &chain);
}

/* [owner]  Into the deque of depth-first order. */
static __attribute__((noinline)) void push_newest(struct wf_worker *worker, struct weft_task *task)
{
    if (wf_deque_push(&worker->deque, &task->node) != 0) {
        WF_REACHED("steal.deque_cannot_grow");
        push_global(&worker->runtime->global, task);
    }
}

/* [owner, fair]  Behind others in its ring, if it is alone with them; false: nothing was done.
 * Nobody has to be called: who is about to sleep sees that there is something, as it has been since
 * somebody was called for that (S1). */
static bool push_behind(struct wf_worker *worker, struct weft_task *task)
{
    if (!wf_alone_begin(worker)) {
        return false;
    }
    const bool is_done = wf_ring_push_behind(&worker->ring, &task->node);
    wf_alone_end(worker);
    return is_done;
}

/* [owner, fair]  Nobody loses a place to it. */
static void push_if_room(struct wf_worker *worker, struct weft_task *task)
{
    if (!wf_ring_try_push(&worker->ring, &task->node)) {
        push_global(&worker->runtime->global, task);
    }
}

void wf_steal_push(struct wf_worker *worker, struct weft_task *task)
{
    weft_runtime *runtime = worker->runtime;
    if (worker->is_fast) { /* fair order */
        if (push_behind(worker, task)) {
            return;
        }
        if (worker->is_looking) {
            push_if_room(worker, task);
        } else {
            wf_ring_push(&worker->ring, &task->node, overflow, &runtime->global);
        }
    } else {
        push_newest(worker, task);
    }
    if (!wf_is_alone(worker)) {
        wf_steal_notify(runtime, worker);
    }
}

void wf_steal_push_back(struct wf_worker *worker, struct weft_task *task)
{
    if (push_behind(worker, task)) {
        return;
    }
    push_if_room(worker, task);
    if (!wf_is_alone(worker)) {
        wf_steal_notify(worker->runtime, worker);
    }
}

/* [any]  Of a task that only one worker may run, or of another priority. */
static void place_special(weft_runtime *runtime, struct wf_worker *worker, struct weft_task *task)
{
    if (wf_load_relaxed(&task->pins) > 0) { /* relaxed: whoever places it has it */
        struct wf_worker *home = &runtime->workers[task->home];
        (void)wf_mpsc_push(&home->inbox, &task->node);
        wf_idle_arrive(&runtime->idle);
        if (wf_idle_claim_worker(&runtime->idle, home->index)) {
            WF_REACHED("steal.home_is_called");
            wf_driver_unpark(runtime, &home->parker);
            return;
        }
        if (wf_load_relaxed(&home->post.is_benched) != 0) { /* relaxed: behind the fence (S1) */
            wf_monitor_recall(home);
            return;
        }
        call_watcher(runtime); /* its task may have to be asked for a break */
        return;
    }
    bool is_high = wf_load_relaxed(&task->priority) == WEFT_PRIORITY_HIGH; /* relaxed: as above */
    push_global(is_high ? &runtime->high : &runtime->low, task);
    notify_of_arrival(runtime, worker);
}

static void place(weft_runtime *runtime, struct wf_worker *worker, struct weft_task *task)
{
    if (task->is_special) {
        place_special(runtime, worker, task);
        return;
    }
    if (worker == NULL || WF_MIGRATES()) {
        push_global(&runtime->global, task);
        notify_of_arrival(runtime, worker);
        return;
    }
    if (!worker->is_fast) {
        wf_steal_push(worker, task);
        return;
    }
    struct weft_task *old = wf_slot_put(worker, task);
    if (old != NULL) {
        wf_steal_push(worker, old);
    }
}

static void requeue(struct wf_worker *worker, struct weft_task *task)
{
    weft_runtime *runtime = worker->runtime;
    if (task->is_special) {
        place_special(runtime, worker, task);
    } else if (worker->is_fast && !WF_MIGRATES()) {
        wf_steal_push_back(worker, task);
    } else {
        push_global(&runtime->global, task);
        wf_steal_notify(runtime, worker);
    }
}

/* ---- taking -------------------------------------------------------------------------------- */

/* [owner]  The next task of its own, but for special ones. */
static struct weft_task *take_local(struct wf_worker *worker)
{
    return worker->is_fast ? wf_take_fair(worker) : wf_task_of(wf_deque_pop(&worker->deque));
}

bool wf_steal_is_due(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    return worker->polls_left == 0 || wf_load_relaxed(&runtime->world.is_stopped) != 0 ||
           wf_inject_count(&runtime->global) > 0 || wf_inject_count(&runtime->high) > 0 ||
           wf_inject_count(&runtime->low) > 0 || !wf_mpsc_is_empty(&worker->inbox) ||
           worker->pinned.first != NULL;
}

/* [owner]  One that only this worker may run. */
static struct weft_task *take_pinned(struct wf_worker *worker)
{
    if (!wf_mpsc_is_empty(&worker->inbox)) {
        (void)wf_mpsc_take(&worker->inbox, &worker->pinned);
    }
    return wf_task_of(wf_chain_pop(&worker->pinned));
}

/* [owner]  A fork of another's task, beginning with this one of so many; but for spares. */
static struct weft_task *steal_fork(struct wf_worker *worker, unsigned first, unsigned count)
{
    weft_runtime *runtime = worker->runtime;
    for (unsigned i = 0; i < count && !worker->post.is_spare; i++) {
        struct wf_worker *victim = &runtime->workers[(first + i) % count];
        struct weft_task *task = victim != worker ? wf_fork_steal(worker, victim) : NULL;
        if (task != NULL) {
            return task;
        }
    }
    return NULL;
}

/* [owner, fair]  Half of another's ring, but no more than so many; gives the one to be run. */
static struct wf_node *steal_oldest(struct wf_worker *worker, struct wf_worker *victim, size_t most)
{
    if (wf_ring_count(&victim->ring) == 0 || !wf_visit_begin(victim)) {
        return NULL;
    }
    struct wf_node *node = wf_ring_steal_some(&victim->ring, &worker->ring, most);
    wf_visit_end(victim);
    return node;
}

/* [owner, fair]  What is in another's slot. */
static struct weft_task *steal_slot(struct wf_worker *victim)
{
    /* relaxed: the exchange decides */
    if (wf_load_relaxed(&victim->slot) == NULL || !wf_visit_begin(victim)) {
        return NULL;
    }
    struct weft_task *task = wf_slot_take(victim);
    wf_visit_end(victim);
    return task;
}

/* [owner]  Half of another's queue, beginning with this one of so many; gives the one to be run. */
static struct weft_task *steal_half(struct wf_worker *worker, unsigned first, unsigned count)
{
    weft_runtime *runtime = worker->runtime;
    const size_t most = worker->shyness > 0 ? WF_SHY_BATCH : WF_RING_CAPACITY;
    for (unsigned i = 0; i < count; i++) {
        struct wf_worker *victim = &runtime->workers[(first + i) % count];
        if (victim == worker) {
            continue;
        }
        wf_counter_add(&worker->counters.steals_tried, 1);
        struct wf_node *node = worker->is_fast
                                   ? steal_oldest(worker, victim, most)
                                   : wf_deque_steal_half(&victim->deque, &worker->deque);
        if (node != NULL) {
            wf_trace(worker->trace, WF_TRACE_STEAL, wf_task_id(wf_task_of(node)), victim->index);
            return wf_task_of(node);
        }
    }
    return NULL;
}

/* [owner]  Half of another worker's queue, or its slot.  Only who counts as a searcher may: what is
 * on its way from one queue to another is seen by nobody, and the last searcher calls somebody. */
static struct weft_task *steal(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    if (runtime->options.no_steal || wf_is_alone(worker)) {
        return NULL;
    }
    worker->is_searching = worker->is_searching || wf_idle_begin_search(&runtime->idle);
    if (!worker->is_searching) {
        return NULL;
    }
    const unsigned count = wf_seats(runtime);
    const unsigned first = wf_random_below(&worker->random, count);
    struct weft_task *oldest = steal_half(worker, first, count);
    if (oldest != NULL) {
        return oldest;
    }
    for (unsigned i = 0; i < count; i++) {
        struct wf_worker *victim = &runtime->workers[(first + i) % count];
        struct weft_task *task = victim != worker ? steal_slot(victim) : NULL;
        if (task != NULL) {
            WF_REACHED("steal.slot_stolen");
            wf_counter_add(&worker->counters.slots_stolen, 1);
            return task;
        }
    }
    return steal_fork(worker, first, count);
}

/* ---- the order of a turn ------------------------------------------------------------------- */

uint32_t wf_steal_interval(int64_t task_ns)
{
    int64_t interval = WF_GLOBAL_LATENCY_NS / (task_ns > 0 ? task_ns : 1);
    return (uint32_t)(interval < 1                        ? 1
                      : interval > WF_GLOBAL_INTERVAL_MAX ? WF_GLOBAL_INTERVAL_MAX
                                                          : interval);
}

/* [owner]  Looks at the clock; true when the global queue has to go first. */
static bool is_turn_of_global(struct wf_worker *worker)
{
    int64_t now = wf_clock_now();
    int64_t turn_ns = (now - worker->now_ns) / (int64_t)worker->clock_turns;
    worker->now_ns = now;
    wf_timers_look(worker->runtime, worker, now);
    wf_driver_pass(worker->runtime, worker, now);
    if (__builtin_expect(worker->is_owing, 0) && now - worker->flushed_ns >= WF_DRIVER_LOOK_NS) {
        worker->flushed_ns = now;
        wf_driver_flush(worker); /* there may always be another task that is ready */
    }
    wf_alone_again(worker, now);
    worker->task_ns += (turn_ns - worker->task_ns) / WF_TURN_WEIGHT;
    worker->interval = wf_steal_interval(worker->task_ns);
    worker->global_turns += worker->clock_turns;
    /* Never twice in a row: what yields goes to the global queue in depth-first order, and if every
     * turn is long it would be taken again each time. */
    bool is_due = !worker->is_after_global && (worker->global_turns >= worker->interval ||
                                               now - worker->global_ns >= WF_GLOBAL_LATENCY_NS);
    worker->is_after_global = is_due;
    if (is_due) {
        worker->global_turns = 0;
        worker->global_ns = now;
    }
    uint32_t left =
        worker->interval > worker->global_turns ? worker->interval - worker->global_turns : 1;
    worker->clock_turns = turn_ns > WF_TURN_LONG_NS      ? 1
                          : left < WF_CLOCK_INTERVAL_MAX ? left
                                                         : WF_CLOCK_INTERVAL_MAX;
    worker->polls_left = worker->clock_turns;
    return is_due;
}

/* [owner]  What comes before the worker's own tasks in this turn. */
static struct weft_task *take_first(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    const uint32_t turn = worker->turns++;
    struct weft_task *task = NULL;
    if (turn % WF_TURN_OF_NORMAL != 0) {
        task = wf_fetch_one(worker, &runtime->high);
    }
    if (task == NULL && turn % WF_TURN_OF_LOW == 0) {
        task = wf_fetch_one(worker, &runtime->low);
    }
    if (task == NULL && turn % 2 == 0 && turn % (2 * WF_TURN_OF_NORMAL) != 0) {
        task = take_pinned(worker);
    }
    if (worker->polls_left == 0 && is_turn_of_global(worker)) {
        if (task == NULL) {
            return wf_fetch(worker);
        }
        /* A special one has the turn: the global queue has the next that is free. */
        worker->is_after_global = false;
        worker->global_turns = worker->interval;
        worker->clock_turns = 1;
        worker->polls_left = 1;
    }
    return task;
}

static struct weft_task *take_anything(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    struct weft_task *task = take_local(worker);
    if (task == NULL && __builtin_expect(worker->is_owing, 0)) {
        wf_driver_flush(worker);
        task = take_local(worker);
    }
    if (task == NULL) {
        task = take_pinned(worker);
    }
    if (task == NULL && worker->is_guest) {
        wf_guest_judge(worker);
    }
    if (task == NULL && worker->shyness >= WF_SHY) {
        worker->arrivals = wf_idle_arrivals(&runtime->idle);
    }
    if (task == NULL) {
        task = wf_fetch_one(worker, &runtime->high);
    }
    if (task == NULL && runtime->options.steal_first) {
        task = steal(worker);
    }
    if (task == NULL) {
        task = wf_fetch(worker);
    }
    if (task == NULL) {
        task = wf_fetch_one(worker, &runtime->low);
    }
    return task;
}

/* Whether there is anything for this worker to do: all queues, but not the others' slots, which
 * their owners are about to empty. */
static bool has_work(void *context)
{
    struct wf_worker *worker = context;
    weft_runtime *runtime = worker->runtime;
    if (wf_inject_count(&runtime->global) > 0 || wf_inject_count(&runtime->high) > 0 ||
        wf_inject_count(&runtime->low) > 0 || !wf_mpsc_is_empty(&worker->inbox) ||
        wf_load_relaxed(&runtime->is_leaving) != 0) {
        return true;
    }
    for (unsigned i = 0; i < wf_seats(runtime) && !runtime->options.no_steal; i++) {
        struct wf_worker *other = &runtime->workers[i];
        if (wf_ring_count(&other->ring) > 0 || wf_deque_count(&other->deque) > 0 ||
            (!worker->post.is_spare && wf_fork_is_open(other))) {
            return true;
        }
    }
    return wf_idle_asleep(&runtime->idle) >= wf_in_play(runtime) && wf_runtime_is_news(runtime);
}

/* [owner]  It will not look on.  Who stops to search as the last one looks once more: while it
 * searched, others called nobody.  So does who searched, was about to sleep and stayed for
 * something that it saw: what it does now may be something else. */
static void stop_search(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    bool has_to_look = worker->has_given_up;
    worker->has_given_up = false;
    if (worker->is_searching) {
        worker->is_searching = false;
        has_to_look = wf_idle_end_search(&runtime->idle) || has_to_look;
    }
    if (has_to_look) {
        wf_fence_seq_cst(); /* (S1) */
        if (has_work(worker)) {
            wf_steal_notify(runtime, worker);
        }
    }
}

/* [owner]  It has found something. */
static void found(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    if (worker->is_searching) {
        worker->is_guest = !worker->is_lone;
        wf_guest_begin(worker, wf_clock_now());
    }
    stop_search(worker);
    /* It may have been the one who would have watched the others, and the time.  If they all sleep,
     * no alarm is set and nothing waits in the slot, it is time enough to call one of them when
     * there is something to be watched.  relaxed: only we fill it */
    if (worker->is_rested && !wf_is_alone(worker) &&
        (wf_idle_asleep(&runtime->idle) + 1 < wf_in_play(runtime) ||
         wf_timers_next(runtime) != WF_FOREVER || wf_load_relaxed(&worker->slot) != NULL)) {
        wf_steal_need_watcher(worker);
    }
}

/* [owner of a spare]  It is one too many: gives away what it has, and sits down. */
static void retire(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    struct wf_chain chain = {0};
    struct weft_task *task;
    if (wf_load_relaxed(&runtime->is_leaving) !=
        0) {    /* relaxed: who closes has woken it, or will */
        return; /* without a claim: it does not search */
    }
    if (worker->is_owing) {
        wf_driver_flush(worker);
    }
    while ((task = take_local(worker)) != NULL) {
        wf_chain_push(&chain, &task->node);
    }
    if (chain.first != NULL) {
        WF_REACHED("steal.retires_with_tasks");
        wf_inject_push_overflow(&runtime->global, &chain);
        notify_of_arrival(runtime, worker);
    }
    stop_search(worker);
    worker->is_guest = false;
    wf_guest_be_shy(worker, 0);
    /* It may have been the watcher: as in found. */
    if (wf_idle_asleep(&runtime->idle) + 1 < wf_in_play(runtime) ||
        wf_timers_next(runtime) != WF_FOREVER || wf_driver_of(runtime) != NULL) {
        call_watcher(runtime);
    }
    if (worker->pinned.first == NULL && wf_monitor_bench(worker)) {
        worker->is_rested = true;
        worker->now_ns = wf_clock_now();
        worker->global_ns = worker->now_ns;
    }
}

void wf_steal_leave_behind(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    if (worker->is_owing) {
        wf_driver_flush(worker);
    }
    if (runtime->reactor == NULL &&
        (wf_load_relaxed(&worker->slot) != NULL || wf_ring_count(&worker->ring) > 0 ||
         wf_deque_count(&worker->deque) > 0)) {
        notify_of_arrival(runtime, worker);
    }
}

void wf_steal_take_over(struct wf_worker *worker, struct wf_chain *chain)
{
    struct wf_node *node;
    while (chain->count < WF_RING_CAPACITY && (node = wf_ring_steal_one(&worker->ring)) != NULL) {
        wf_chain_push(chain, node);
    }
    while (chain->count < WF_RING_CAPACITY &&
           wf_deque_steal(&worker->deque, &node) == WF_STEAL_TAKEN) {
        wf_chain_push(chain, node);
    }
    struct weft_task *task = wf_slot_take(worker);
    if (task != NULL) {
        wf_chain_push(chain, &task->node);
    }
}

void wf_steal_hand_on(weft_runtime *runtime, struct wf_chain *chain)
{
    wf_inject_push_overflow(&runtime->global, chain);
    notify_of_arrival(runtime, NULL);
}

static struct weft_task *poll(struct wf_worker *worker)
{
    if (__builtin_expect(worker->post.is_spare, 0) && wf_monitor_is_surplus(worker->runtime)) {
        retire(worker);
    }
    if (worker->polls_left > 0) {
        worker->polls_left--;
    }
    struct weft_task *task = take_first(worker);
    if (task == NULL) {
        task = take_anything(worker);
    }
    if (task != NULL) {
        found(worker);
        return task;
    }
    task = steal(worker);
    if (task != NULL) {
        found(worker);
    }
    return task;
}

/* ---- resting ------------------------------------------------------------------------------- */

/* [loop]  Looks a few times more: to sleep and be woken costs more than that. */
static bool search(struct wf_worker *worker)
{
    for (unsigned i = 0; i < WF_SEARCH_SPIN; i++) {
        wf_spin_hint();
        if (has_work(worker) || wf_load_relaxed(&worker->runtime->world.is_stopped) != 0) {
            return true;
        }
    }
    return false;
}

/* [loop]  Stops to search; true: there is work.  A hook may take its time, and as long as somebody
 * counts as a searcher nobody is called for what others queue. */
static bool give_up_search(struct wf_worker *worker)
{
    if (!worker->is_searching) {
        return false;
    }
    worker->is_searching = false;
    (void)wf_idle_end_search(&worker->runtime->idle); /* we look ourselves */
    wf_fence_seq_cst();                               /* (S1) as in a sleep */
    worker->has_given_up = has_work(worker);
    return worker->has_given_up;
}

/* [loop]  Somebody may have to be asked for a break: not all are asleep. */
static bool is_anybody_to_be_watched(const struct wf_worker *worker, unsigned asleep)
{
    const weft_runtime *runtime = worker->runtime;
    return worker->is_fast && !runtime->options.no_steal && asleep < wf_in_play(runtime);
}

/* [loop]  There is something to watch, others at work, the time or news, and nobody does. */
static bool is_watch_free(struct wf_worker *worker, unsigned asleep)
{
    weft_runtime *runtime = worker->runtime;
    return (is_anybody_to_be_watched(worker, asleep) || wf_timers_next(runtime) != WF_FOREVER ||
            wf_driver_of(runtime) != NULL) &&
           wf_load_relaxed(&runtime->is_watched) == 0; /* relaxed: the exchange decides */
}

/* [loop]  Until when the worker sleeps.  It may become the watcher, who looks at the others, and at
 * the time for all. */
static int64_t begin_watch(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    const unsigned asleep = wf_idle_asleep(&runtime->idle) + 1;
    worker->is_watching = is_watch_free(worker, asleep) &&
                          /* acquire: the berth of the driver, from the one before */
                          wf_exchange_acquire(&runtime->is_watched, 1) == 0;
    worker->watch_driver = worker->is_watching ? wf_driver_of(runtime) : NULL;
    if (!worker->is_watching) {
        return WF_FOREVER;
    }
    int64_t until_ns = wf_timers_next(runtime);
    if (is_anybody_to_be_watched(worker, asleep)) {
        const int64_t look_ns = wf_clock_now() + WF_TURN_MAX_NS;
        until_ns = look_ns < until_ns ? look_ns : until_ns;
    }
    wf_timers_watch(runtime, worker->index, until_ns); /* (A2): the fence is that of the sleep */
    return until_ns;
}

/* The look between announcement and sleep.  Others may have begun to work, or given up the watch,
 * since begin_watch: whoever did before our bit was there could not call us. */
static bool has_reason_to_stay(void *context)
{
    struct wf_worker *worker = context;
    if (has_work(worker)) {
        return true;
    }
    weft_runtime *runtime = worker->runtime;
    const unsigned asleep = wf_idle_asleep(&runtime->idle);
    if (!worker->is_watching) {
        return is_watch_free(worker, asleep);
    }
    return wf_timers_next(runtime) < worker->watch_until_ns || /* (A2) */
           wf_driver_of(runtime) != worker->watch_driver ||    /* (V2) */
           (is_anybody_to_be_watched(worker, asleep) &&        /* since begin_watch */
            worker->watch_until_ns > wf_clock_now() + WF_TURN_MAX_NS);
}

/* [any]  Who is awake sees the news when it is about to sleep, as the last. */
static void rouse(weft_runtime *runtime)
{
    wf_fence_seq_cst(); /* (S1) */
    int sleeper = wf_idle_claim(&runtime->idle);
    if (sleeper >= 0) {
        WF_REACHED("steal.roused");
        wf_driver_unpark(runtime, &runtime->workers[sleeper].parker);
    }
}

/* [any]  An alarm is set for before the watcher would look; or there is none. */
static void hurry(weft_runtime *runtime)
{
    if (wf_load_relaxed(&runtime->is_watched) == 0) { /* relaxed: behind the fence of who calls */
        rouse(runtime);
        return;
    }
    /* relaxed: see wf_timers_watch */
    const uint32_t watcher = wf_load_relaxed(&runtime->hours.watcher);
    if (wf_idle_claim_worker(&runtime->idle, watcher)) {
        WF_REACHED("steal.watcher_hurried");
        wf_driver_unpark(runtime, &runtime->workers[watcher].parker);
    }
}

/* [watcher]  Asks tasks that have run since the last look for a break. */
static void end_watch(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        struct wf_worker *other = &runtime->workers[i];
        uint64_t polled = wf_counter_read(&other->counters.polled);
        /* All relaxed: hints, and a request that may be seen later. */
        if (wf_load_relaxed(&other->current) != NULL &&
            wf_load_relaxed(&other->polled_at_watch) == polled) {
            WF_REACHED("steal.break_asked");
            wf_store_relaxed(&other->is_asked, 1);
        }
        wf_store_relaxed(&other->polled_at_watch, polled);
    }
    wf_timers_unwatch(runtime);
    if (worker->watch_driver != NULL) {
        worker->watch_driver->gather(worker->watch_driver, worker);
    }
    wf_store_release(&runtime->is_watched, 0); /* release: what the berth found is the next one's */
    /* Who was to be called for what it gathered was not, since it watched itself.  With a monitor
     * that is good: it sees to it that somebody watches, if this turn gets long, and a call for
     * each event of a server with little to do would cost more than the event. */
    worker->is_rested = worker->is_rested || runtime->options.no_monitor;
}

/* [loop]  Sleeps until called, or until it is time to look at the others, or the driver has news.
 */
static void sleep_until_called(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    worker->watch_until_ns = begin_watch(worker);
    const struct wf_sleep sleep = {
        .parker = &worker->parker,
        .driver = worker->watch_driver,
        .has_work = has_reason_to_stay,
        .context = worker,
        .deadline_ns = worker->watch_until_ns,
        .is_searching = worker->is_searching,
    };
    worker->is_searching = wf_idle_sleep(&runtime->idle, worker->index, &sleep);
    worker->has_given_up = !worker->is_searching;
    if (worker->is_searching) {
        wf_counter_add(&worker->counters.woken, 1);
    }
}

static void rest(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    if (worker->is_searching && search(worker)) {
        return;
    }
    if (wf_idle_asleep(&runtime->idle) + 1 >= wf_in_play(runtime) && wf_runtime_is_news(runtime)) {
        if (!give_up_search(worker)) {
            wf_runtime_quiet(runtime);
        }
        return; /* a hook may have made something ready */
    }
    worker->is_rested = true;
    wf_counter_add(&worker->counters.parked, 1);
    wf_trace(worker->trace, WF_TRACE_PARK, 0, 0);
    wf_safe_enter(&runtime->world, &worker->safe);
    sleep_until_called(worker);
    wf_monitor_wake_up(worker);
    if (worker->is_watching) {
        worker->is_watching = false;
        end_watch(worker); /* not before the world may go on: the driver wakes tasks */
    }
    wf_trace(worker->trace, WF_TRACE_UNPARK, 0, 0);
    worker->now_ns = wf_clock_now(); /* the time asleep was no turn of anybody's */
    worker->global_ns = worker->now_ns;
    wf_timers_look(runtime, worker, worker->now_ns);
}

const struct wf_policy wf_policy_steal = {
    .place = place,
    .requeue = requeue,
    .poll = poll,
    .rest = rest,
    .hurry = hurry,
    .rouse = rouse,
};
