/* SPDX-License-Identifier: MIT */
/*
 * sched/reactor.c - the policy in which one control thread decides everything.
 *
 * Tasks that become ready go into the inbox of the control thread, from wherever they come; it
 * keeps the only ready queue and hands tasks to workers, one at a time each: a worker that wants
 * work puts itself into the box of results, and gets a task into its hand.  So no two scheduling
 * decisions ever race, and there are never more tasks handed out than workers.
 *
 * The loop has nine steps, in this order:
 *   1  results of workers: who is done and wants work
 *   2  requests for work that blocks: to the threads of blocking.c
 *   3  completions of such work, and of I/O by the driver
 *   4  timers that are due
 *   5  channels: nothing to do, since senders and receivers meet by themselves
 *   6  the inbox: tasks that were spawned or woken
 *   7  long turns: asks tasks that have run for WF_TURN_MAX_NS to let others run
 *   8  hands ready tasks to workers
 *   9  waits for the next event
 *
 * Who puts something into an empty box wakes the control thread (mpsc.c says who that is), so it
 * needs no timeout; it wakes by itself for the next timer, and for step 7 when tasks wait for
 * workers that are all busy.
 */
#include <errno.h>
#include <string.h>

#include "sched/fast.h"
#include "sched/fork.h"
#include "sched/sched.h"

enum { PRIORITIES = WEFT_PRIORITY_LOW + 1 };

struct wf_reactor {
    weft_runtime *runtime;   /* [const] */
    struct wf_mpsc inbox;    /* tasks that are ready */
    struct wf_mpsc results;  /* workers that want work */
    struct wf_mpsc asked;    /* jobs for the blocking pool */
    struct wf_mpsc returned; /* jobs that have run */
    struct wf_parker parker; /* where the control thread waits */

    /* All of these [control]. */
    struct wf_chain ready[PRIORITIES];
    struct wf_chain *pinned; /* by worker */
    struct wf_chain idle;    /* workers that want work */
    uint32_t turn;
    struct wf_driver *slept_in; /* where step 9 waited; NULL: nowhere, or there is none */

    WF_ATOMIC(uint32_t) idle_count; /* [control: write] [any: read] */
    WF_ATOMIC(uint64_t) queued;     /* [any: add]  tasks in the inbox and ready */
    WF_ATOMIC(uint32_t) is_leaving; /* [closer: write] */
    pthread_t thread;
};

/* ---- the workers' side --------------------------------------------------------------------- */

static void place(weft_runtime *runtime, struct wf_worker *worker, struct weft_task *task)
{
    (void)worker;
    struct wf_reactor *reactor = runtime->reactor;
    (void)wf_fetch_add_relaxed(&reactor->queued, 1); /* relaxed: a number */
    if (wf_mpsc_push(&reactor->inbox, &task->node)) {
        wf_driver_unpark(runtime, &reactor->parker);
    }
}

static void requeue(struct wf_worker *worker, struct weft_task *task)
{
    place(worker->runtime, worker, task);
}

static struct weft_task *poll(struct wf_worker *worker)
{
    worker->now_ns = wf_clock_now();
    if (wf_load_relaxed(&worker->hand) == NULL) { /* relaxed: the exchange decides */
        return NULL;
    }
    worker->has_reported = false;
    wf_store_relaxed(&worker->is_asked, 0);          /* relaxed: a request to the one before */
    return wf_exchange_acquire(&worker->hand, NULL); /* (H1) */
}

static bool has_hand(void *context)
{
    struct wf_worker *worker = context;
    return wf_load_relaxed(&worker->hand) != NULL || /* relaxed: poll, rest take it */
           wf_load_relaxed(&worker->post.is_sent_off) != 0;
}

static void rest(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    if (wf_exchange_acquire(&worker->post.is_sent_off, 0) != 0) { /* (H1) */
        worker->has_reported = false;
        wf_monitor_sit(worker);
    }
    if (!worker->has_reported) {
        worker->has_reported = true;
        if (wf_mpsc_push(&runtime->reactor->results, &worker->report)) {
            wf_driver_unpark(runtime, &runtime->reactor->parker);
        }
    }
    wf_counter_add(&worker->counters.parked, 1);
    wf_trace(worker->trace, WF_TRACE_PARK, 0, 0);
    wf_safe_enter(&runtime->world, &worker->safe);
    /* For a task, or to leave. */
    (void)wf_idle_park(&runtime->idle, &worker->parker, NULL, has_hand, worker, WF_FOREVER);
    wf_monitor_wake_up(worker);
    wf_trace(worker->trace, WF_TRACE_UNPARK, 0, 0);
    wf_counter_add(&worker->counters.woken, 1);
}

static void hurry(weft_runtime *runtime)
{
    wf_driver_unpark(runtime, &runtime->reactor->parker);
}

const struct wf_policy wf_policy_reactor = {
    .place = place,
    .requeue = requeue,
    .poll = poll,
    .rest = rest,
    .hurry = hurry,
    .rouse = hurry,
};

void wf_reactor_ask(struct wf_reactor *reactor, struct wf_job *job)
{
    if (wf_mpsc_push(&reactor->asked, &job->node)) {
        wf_driver_unpark(reactor->runtime, &reactor->parker);
    }
}

void wf_reactor_return(struct wf_reactor *reactor, struct wf_job *job)
{
    if (wf_mpsc_push(&reactor->returned, &job->node)) {
        wf_driver_unpark(reactor->runtime, &reactor->parker);
    }
}

/* ---- the control thread -------------------------------------------------------------------- */

/* Step 1. */
static void drain_results(struct wf_reactor *reactor)
{
    size_t count = wf_mpsc_take(&reactor->results, &reactor->idle);
    wf_counter_add(&reactor->idle_count, (uint32_t)count);
}

/* Step 2. */
static void drain_asked(struct wf_reactor *reactor)
{
    struct wf_chain chain = {0};
    (void)wf_mpsc_take(&reactor->asked, &chain);
    struct wf_node *node;
    while ((node = wf_chain_pop(&chain)) != NULL) {
        wf_blocking_begin(&reactor->runtime->blocking, wf_container_of(node, struct wf_job, node));
    }
}

/* Step 3. */
static void drain_returned(struct wf_reactor *reactor)
{
    struct wf_chain chain = {0};
    (void)wf_mpsc_take(&reactor->returned, &chain);
    struct wf_node *node;
    while ((node = wf_chain_pop(&chain)) != NULL) {
        wf_blocking_end(&reactor->runtime->blocking, wf_container_of(node, struct wf_job, node));
    }
}

/* Step 3. */
static void take_news(struct wf_reactor *reactor, int64_t now)
{
    if (reactor->slept_in != NULL) {
        reactor->slept_in->gather(reactor->slept_in, NULL);
        reactor->slept_in = NULL;
    }
    wf_driver_pass(reactor->runtime, NULL, now);
}

/* Step 6. */
static void drain_inbox(struct wf_reactor *reactor)
{
    struct wf_chain chain = {0};
    (void)wf_mpsc_take(&reactor->inbox, &chain);
    struct weft_task *task;
    while ((task = wf_task_of(wf_chain_pop(&chain))) != NULL) {
        if (wf_load_relaxed(&task->pins) > 0) { /* relaxed: it is ours now */
            struct wf_worker *home = &reactor->runtime->workers[task->home];
            wf_chain_push(&reactor->pinned[task->home], &task->node);
            if (wf_load_relaxed(&home->post.is_benched) != 0) { /* relaxed: only we send it there */
                wf_monitor_recall(home);
            }
        } else {
            wf_chain_push(&reactor->ready[wf_load_relaxed(&task->priority)], &task->node);
        }
    }
}

/* Step 7. */
static void check_turns(struct wf_reactor *reactor, int64_t now)
{
    weft_runtime *runtime = reactor->runtime;
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        struct wf_worker *worker = &runtime->workers[i];
        /* relaxed: a request; who misses it is asked again */
        if (wf_load_relaxed(&worker->current) != NULL &&
            now - worker->turn_began_ns >= WF_TURN_MAX_NS) {
            WF_REACHED("reactor.break_asked");
            wf_store_relaxed(&worker->is_asked, 1);
        }
    }
}

/* The next task for this worker; NULL: none. */
static struct weft_task *next_for(struct wf_reactor *reactor, struct wf_worker *worker)
{
    const uint32_t turn = reactor->turn++;
    struct wf_chain *order[PRIORITIES + 1] = {
        &reactor->pinned[worker->index],
        &reactor->ready[WEFT_PRIORITY_HIGH],
        &reactor->ready[WEFT_PRIORITY_NORMAL],
        &reactor->ready[WEFT_PRIORITY_LOW],
    };
    if (turn % WF_TURN_OF_LOW == 0) {
        order[0] = &reactor->ready[WEFT_PRIORITY_LOW];
        order[PRIORITIES] = &reactor->pinned[worker->index];
    } else if (turn % WF_TURN_OF_NORMAL == 0) {
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

/* A spare wants work: sends it to the bench, if it is one too many. */
static bool send_off(struct wf_reactor *reactor, struct wf_worker *worker)
{
    if (reactor->pinned[worker->index].first != NULL || !wf_monitor_is_surplus(worker->runtime) ||
        !wf_monitor_send_off(worker)) {
        return false;
    }
    WF_REACHED("reactor.spare_sent_off");
    wf_counter_add(&reactor->idle_count, (uint32_t)-1);
    wf_store_release(&worker->post.is_sent_off, 1); /* (H1) */
    (void)wf_parker_unpark(&worker->parker);        /* as in dispatch */
    return true;
}

/* Step 8. */
static void dispatch(struct wf_reactor *reactor, int64_t now)
{
    struct wf_chain left = {0};
    bool is_any_left = false; /* one that takes forks */
    struct wf_node *node;
    while ((node = wf_chain_pop(&reactor->idle)) != NULL) {
        struct wf_worker *worker = wf_container_of(node, struct wf_worker, report);
        if (worker->post.is_spare && send_off(reactor, worker)) {
            continue;
        }
        struct weft_task *task = next_for(reactor, worker);
        if (task == NULL) {
            is_any_left = is_any_left || !worker->post.is_spare;
            wf_chain_push(&left, node);
            continue;
        }
        (void)wf_fetch_sub_relaxed(&reactor->queued, 1); /* relaxed: a number */
        if (reactor->runtime->options.global_capacity != 0) {
            wf_room_wake(reactor->runtime, WF_ROOM_QUEUE, 1);
        }
        wf_counter_add(&reactor->idle_count, (uint32_t)-1);
        worker->turn_began_ns = now;
        wf_store_release(&worker->hand, task);   /* (H1) release: the task, whole */
        (void)wf_parker_unpark(&worker->parker); /* only the control thread sleeps in a berth */
    }
    reactor->idle = left;
    if (is_any_left) {
        wf_fence_seq_cst(); /* (K4): either a task sees that it is asked, or that we have workers */
        wf_forks_ask_all(reactor->runtime);
    }
}

static bool has_mail(void *context)
{
    struct wf_reactor *reactor = context;
    return !wf_mpsc_is_empty(&reactor->inbox) || !wf_mpsc_is_empty(&reactor->results) ||
           !wf_mpsc_is_empty(&reactor->asked) || !wf_mpsc_is_empty(&reactor->returned);
}

/* Step 9. */
static void wait_for_event(struct wf_reactor *reactor, int64_t now)
{
    weft_runtime *runtime = reactor->runtime;
    const bool is_ready = wf_load_relaxed(&reactor->queued) > 0; /* relaxed: what came is drained */
    if (!is_ready && wf_counter_read(&reactor->idle_count) == wf_in_play(runtime) &&
        wf_runtime_is_news(runtime)) {
        wf_runtime_quiet(runtime);
    }
    int64_t deadline_ns = wf_timers_next(runtime);
    if (is_ready && deadline_ns > now + WF_TURN_MAX_NS) {
        deadline_ns = now + WF_TURN_MAX_NS;
    }
    wf_timers_watch(runtime, 0, deadline_ns);
    wf_fence_seq_cst();                               /* (A2) */
    struct wf_driver *driver = wf_driver_of(runtime); /* who attaches one unparks us */
    if (wf_timers_next(runtime) >= deadline_ns) {
        /* Either way it looks at everything. */
        (void)wf_idle_park(&runtime->idle, &reactor->parker, driver, has_mail, reactor,
                           deadline_ns);
    }
    wf_timers_unwatch(runtime);
    reactor->slept_in = driver;
}

static void step(struct wf_reactor *reactor, uint64_t number)
{
    wf_trace_event(reactor->runtime, NULL, WF_TRACE_STEP, 0, number);
}

static void *control_main(void *arg)
{
    struct wf_reactor *reactor = arg;
    while (wf_load_acquire(&reactor->is_leaving) == 0) { /* acquire: the closer's store */
        int64_t now = wf_clock_now();
        step(reactor, 1);
        drain_results(reactor);
        step(reactor, 2);
        drain_asked(reactor);
        step(reactor, 3);
        drain_returned(reactor);
        take_news(reactor, now);
        step(reactor, 4);
        wf_timers_look(reactor->runtime, NULL, now);
        step(reactor, 5);
        step(reactor, 6);
        drain_inbox(reactor);
        step(reactor, 7);
        check_turns(reactor, now);
        step(reactor, 8);
        dispatch(reactor, now);
        step(reactor, 9);
        wait_for_event(reactor, now);
    }
    return NULL;
}

/* ---- life ---------------------------------------------------------------------------------- */

int wf_reactor_new(weft_runtime *runtime)
{
    struct wf_reactor *reactor = wf_alloc_zeroed(1, sizeof(*reactor));
    if (reactor == NULL) {
        return -ENOMEM;
    }
    int rc = -ENOMEM;
    reactor->runtime = runtime;
    reactor->pinned = wf_alloc_zeroed(runtime->seats_max, sizeof(reactor->pinned[0]));
    if (reactor->pinned == NULL) {
        goto free_reactor;
    }
    wf_mpsc_init(&reactor->inbox);
    wf_mpsc_init(&reactor->results);
    wf_mpsc_init(&reactor->asked);
    wf_mpsc_init(&reactor->returned);
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

void wf_reactor_stop(struct wf_reactor *reactor)
{
    /* relaxed: the closer's own */
    if (reactor == NULL || wf_load_relaxed(&reactor->is_leaving) != 0) {
        return;
    }
    wf_store_release(&reactor->is_leaving, 1); /* release: pairs with the loop's load */
    wf_driver_unpark(reactor->runtime, &reactor->parker);
    int rc = wf_thread_join(reactor->thread);
    WEFT_CHECK(rc == 0); /* a thread of our own, joined once */
}

void wf_reactor_empty(struct wf_reactor *reactor)
{
    if (reactor == NULL) {
        return;
    }
    struct wf_chain chain = {0};
    (void)wf_mpsc_take(&reactor->asked, &chain);
    (void)wf_mpsc_take(&reactor->returned, &chain);
    struct wf_node *node;
    while ((node = wf_chain_pop(&chain)) != NULL) {
        wf_blocking_strand(&reactor->runtime->blocking, wf_container_of(node, struct wf_job, node));
    }
}

void wf_reactor_free(struct wf_reactor *reactor)
{
    if (reactor != NULL) {
        wf_reactor_stop(reactor);
        wf_free(reactor->pinned);
        wf_free(reactor);
    }
}

bool wf_reactor_is_self(const struct wf_reactor *reactor)
{
    return reactor != NULL && pthread_equal(pthread_self(), reactor->thread) != 0;
}

unsigned wf_reactor_idle(const struct wf_reactor *reactor)
{
    return wf_counter_read(&reactor->idle_count);
}

uint64_t wf_reactor_queued(const struct wf_reactor *reactor)
{
    return wf_load_relaxed(&reactor->queued); /* relaxed: a hint */
}
