/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/runtime/monitor.c the monitor does not sleep beside a worker that is awake; a
 *         spare that parks is woken for tasks pinned to it, and does not leave the other workers
 *         asleep beside an unreported failure; in every order of steps under every memory model.
 * Method: a worker that wakes up, a spare that parks, a thread that pushes into its inbox, a worker
 *         that falls asleep meanwhile.  A thread that sleeps for ever is a deadlock.
 */
#include <errno.h>

#include "model/model.h"
#include "runtime/runtime.h"

enum { WORKERS = 2, BASE = 0, SPARE = 1 };

static weft_runtime runtime;
static struct wf_worker workers[WORKERS];
static struct wf_safe *safes[WORKERS];
static struct wf_node item;
static int plain; /* written by the pusher */

/* ---- stubs of the scheduler ---------------------------------------------------------------- */

struct wf_worker *wf_worker_self(void)
{
    return NULL;
}

struct weft_task *wf_task_self(void)
{
    return NULL;
}

void wf_waiter_init(struct wf_waiter *waiter, struct weft_task *self)
{
    waiter->task = self;
}

void wf_waiter_wait(struct wf_waiter *waiter)
{
    (void)waiter;
}

void wf_waiter_wake(struct wf_waiter *waiter)
{
    (void)waiter;
}

void wf_wait_begin(struct weft_task *self, enum weft_wait wait, const void *object)
{
    (void)self;
    (void)wait;
    (void)object;
}

void wf_wait_end(struct weft_task *self)
{
    (void)self;
}

bool wf_is_forked(void)
{
    return false;
}

struct wf_driver *wf_driver_of(const weft_runtime *of)
{
    (void)of;
    return NULL;
}

int64_t wf_timers_next(const weft_runtime *of)
{
    (void)of;
    return WF_FOREVER;
}

int64_t wf_clock_now(void)
{
    return 0;
}

bool wf_failures_are_noted(struct wf_task_pool *pool)
{
    (void)pool;
    return false;
}

void wf_failures_report(weft_runtime *of)
{
    (void)of;
    model_fail("failures in a model without tasks");
}

static bool quiescence_is_due(weft_runtime *of)
{
    (void)of;
    return true;
}

const struct wf_upcalls wf_upcalls = {.quiescence_is_due = quiescence_is_due};

int wf_worker_init(weft_runtime *of, unsigned index)
{
    (void)of;
    (void)index;
    return -ENOMEM;
}

int wf_worker_start(struct wf_worker *worker)
{
    (void)worker;
    return -EAGAIN;
}

int wf_trace_ring_new(struct wf_trace_ring **out, uint32_t events, unsigned worker)
{
    (void)out;
    (void)events;
    (void)worker;
    return -ENOMEM;
}

void wf_task_describe(const weft_runtime *of, const struct weft_task *task, bool is_held,
                      weft_task_info *out)
{
    (void)of;
    (void)task;
    (void)is_held;
    *out = (weft_task_info){0};
}

int wf_thread_start(pthread_t *out, void *(*fn)(void *), void *arg,
                    const struct wf_thread_options *options)
{
    (void)out;
    (void)fn;
    (void)arg;
    (void)options;
    return -EAGAIN;
}

int wf_thread_join(pthread_t thread)
{
    (void)thread;
    return 0;
}

void wf_steal_handoff(struct wf_worker *worker)
{
    (void)worker;
}

bool wf_runq_drain(struct wf_runq *from, struct wf_chain *out)
{
    (void)from;
    (void)out;
    return true;
}

void wf_driver_submit(struct wf_worker *worker)
{
    (void)worker;
}

void wf_driver_submit_for(weft_runtime *of, struct wf_worker *worker)
{
    (void)of;
    (void)worker;
}

void wf_inject_push_overflow(struct wf_inject *inject, struct wf_chain *chain)
{
    (void)inject;
    (void)chain;
}

void wf_steal_notify_external(weft_runtime *of, struct wf_worker *worker)
{
    (void)of;
    (void)worker;
}

void wf_leader_needed(struct wf_worker *worker)
{
    (void)worker;
}

void wf_driver_unpark(weft_runtime *of, struct wf_parker *parker)
{
    (void)of;
    (void)wf_parker_unpark(parker);
}

/* ---- setup --------------------------------------------------------------------------------- */

static void start(void)
{
    runtime = (weft_runtime){.workers = workers, .safes = safes, .worker_count = WORKERS};
    wf_lock_init(&runtime.monitor.lock, WF_RANK_MONITOR);
    wf_list_init(&runtime.monitor.idle_spares);
    wf_parker_init(&runtime.monitor.parker);
    wf_store_relaxed(&runtime.workers_active, WORKERS);
    wf_store_relaxed(&runtime.monitor.surplus, 1);
    MODEL_REQUIRE(wf_idle_init(&runtime.idle, WORKERS) == 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct wf_worker){.runtime = &runtime, .index = i};
        workers[i].health.is_spare = i == SPARE;
        wf_mpsc_init(&workers[i].pinned.inbox);
        wf_parker_init(&workers[i].parker);
        wf_parker_init(&workers[i].health.spare_parker);
        safes[i] = &workers[i].safe;
    }
    plain = 0;
}

static void start_asleep(void)
{
    start();
    for (unsigned i = 0; i < WORKERS; i++) {
        wf_store_relaxed(&workers[i].safe.is_safe, 1);
    }
}

/* ---- threads ------------------------------------------------------------------------------- */

static void monitor_park(void)
{
    wf_monitor_sleep(&runtime);
}

static void wake_up(void)
{
    wf_worker_leave_safe(&workers[BASE]);
}

/* As retire in steal.c, whose tasks are drained already; continues with its pinned tasks. */
static void spare_park(void)
{
    while (wf_mpsc_is_empty(&workers[SPARE].pinned.inbox)) {
        if (!wf_spare_park(&workers[SPARE])) {
            break; /* it was woken, and is no longer counted as surplus */
        }
    }
    struct wf_chain chain = {0};
    (void)wf_mpsc_take(&workers[SPARE].pinned.inbox, &chain);
    MODEL_REQUIRE(chain.first == &item);
    MODEL_REQUIRE(wf_plain_load(&plain) == 1);
}

/* As place_special does. */
static void push_pinned(void)
{
    wf_plain_store(&plain, 1);
    (void)wf_mpsc_push(&workers[SPARE].pinned.inbox, &item);
    if (!wf_idle_claim_worker(&runtime.idle, SPARE) &&
        wf_load_relaxed(&workers[SPARE].health.is_spare_parked) != 0) {
        wf_spare_unpark(&workers[SPARE]);
    }
}

static bool is_last(void *context)
{
    (void)context;
    return wf_idle_asleep(&runtime.idle) >= wf_workers_active(&runtime);
}

/* The reporter also releases the other. */
static void spare_park_as_last(void)
{
    (void)wf_spare_park(&workers[SPARE]);
    if (wf_idle_claim_worker(&runtime.idle, BASE)) {
        (void)wf_parker_unpark(&workers[BASE].parker);
    }
}

static void sleep_as_last(void)
{
    const struct wf_sleep sleep = {
        .parker = &workers[BASE].parker, .has_work = is_last, .deadline_ns = WF_FOREVER};
    if (!wf_idle_sleep(&runtime.idle, BASE, &sleep)) {
        wf_spare_unpark(&workers[SPARE]);
    }
}

static const struct model_test tests[] = {
    {.name = "monitor parks, a worker wakes up",
     .setup = start_asleep,
     .threads = {monitor_park, wake_up},
     .names = {"monitor", "worker"}},
    {.name = "spare parks, a task is pinned to it",
     .setup = start,
     .threads = {spare_park, push_pinned},
     .names = {"spare", "pusher"}},
    {.name = "spare parks, the last other worker falls asleep",
     .setup = start,
     .threads = {spare_park_as_last, sleep_as_last},
     .names = {"spare", "worker"}},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"monitor", tests, MODEL_COUNT(tests),
                                             NULL,      0,     "src/runtime/monitor.c"};
    return model_main(argc, argv, &suite);
}
