/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sched/monitor.c the monitor does not sleep beside a worker that is awake; a
 *         spare that sits down is called for what is pinned to it, and does not leave the others
 *         asleep beside news that nobody reports; in every order of steps under every memory model.
 * Method: a worker that wakes up, a spare that sits down, one that pushes into its inbox, one that
 *         falls asleep meanwhile.  Who sleeps for ever is a deadlock.
 */
#include <errno.h>

#include "model/model.h"
#include "sched/sched.h"

enum { WORKERS = 2, BASE = 0, SPARE = 1 };

static weft_runtime runtime;
static struct wf_worker workers[WORKERS];
static struct wf_safe *safes[WORKERS];
static struct wf_node item;
static int plain; /* what the pusher wrote */

/* ---- what the scheduler does otherwise ----------------------------------------------------- */

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

unsigned wf_reactor_idle(const struct wf_reactor *reactor)
{
    (void)reactor;
    return 0;
}

bool wf_runtime_is_news(weft_runtime *of)
{
    (void)of;
    return true;
}

void wf_ring_settle(struct wf_ring *ring)
{
    (void)ring;
}

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
                      weft_info *out)
{
    (void)of;
    (void)task;
    (void)is_held;
    *out = (weft_info){0};
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

void wf_steal_leave_behind(struct wf_worker *worker)
{
    (void)worker;
}

void wf_steal_take_over(struct wf_worker *worker, struct wf_chain *chain)
{
    (void)worker;
    (void)chain;
}

void wf_driver_flush(struct wf_worker *worker)
{
    (void)worker;
}

void wf_driver_relieve(weft_runtime *of, struct wf_worker *worker)
{
    (void)of;
    (void)worker;
}

void wf_steal_hand_on(weft_runtime *of, struct wf_chain *chain)
{
    (void)of;
    (void)chain;
}

void wf_steal_need_watcher(struct wf_worker *worker)
{
    (void)worker;
}

void wf_driver_unpark(weft_runtime *of, struct wf_parker *parker)
{
    (void)of;
    (void)wf_parker_unpark(parker);
}

/* ---- the beginning ------------------------------------------------------------------------- */

static void start(void)
{
    runtime = (weft_runtime){.workers = workers, .safes = safes, .worker_count = WORKERS};
    wf_lock_init(&runtime.monitor.lock, WF_RANK_MONITOR);
    wf_list_init(&runtime.monitor.bench);
    wf_parker_init(&runtime.monitor.parker);
    wf_store_relaxed(&runtime.in_play, WORKERS);
    wf_store_relaxed(&runtime.monitor.surplus, 1);
    MODEL_REQUIRE(wf_idle_init(&runtime.idle, WORKERS) == 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct wf_worker){.runtime = &runtime, .index = i};
        workers[i].post.is_spare = i == SPARE;
        wf_mpsc_init(&workers[i].inbox);
        wf_parker_init(&workers[i].parker);
        wf_parker_init(&workers[i].post.bench);
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

static void doze(void)
{
    wf_monitor_doze(&runtime);
}

static void wake_up(void)
{
    wf_monitor_wake_up(&workers[BASE]);
}

/* As retire in steal.c, whose tasks are gone already; goes on with what is pinned to it. */
static void sit_down(void)
{
    while (wf_mpsc_is_empty(&workers[SPARE].inbox)) {
        if (!wf_monitor_bench(&workers[SPARE])) {
            break; /* it was called, and there is no surplus counted any more */
        }
    }
    struct wf_chain chain = {0};
    (void)wf_mpsc_take(&workers[SPARE].inbox, &chain);
    MODEL_REQUIRE(chain.first == &item);
    MODEL_REQUIRE(wf_plain_load(&plain) == 1);
}

/* As place_special does. */
static void push_pinned(void)
{
    wf_plain_store(&plain, 1);
    (void)wf_mpsc_push(&workers[SPARE].inbox, &item);
    if (!wf_idle_claim_worker(&runtime.idle, SPARE) &&
        wf_load_relaxed(&workers[SPARE].post.is_benched) != 0) {
        wf_monitor_recall(&workers[SPARE]);
    }
}

static bool is_last(void *context)
{
    (void)context;
    return wf_idle_asleep(&runtime.idle) >= wf_in_play(&runtime);
}

/* The one that reports lets the other go too. */
static void sit_down_as_the_last(void)
{
    (void)wf_monitor_bench(&workers[SPARE]);
    if (wf_idle_claim_worker(&runtime.idle, BASE)) {
        (void)wf_parker_unpark(&workers[BASE].parker);
    }
}

static void sleep_as_the_last(void)
{
    const struct wf_sleep sleep = {
        .parker = &workers[BASE].parker, .has_work = is_last, .deadline_ns = WF_FOREVER};
    if (!wf_idle_sleep(&runtime.idle, BASE, &sleep)) {
        wf_monitor_recall(&workers[SPARE]);
    }
}

static const struct model_test tests[] = {
    {.name = "the monitor dozes, a worker wakes up",
     .setup = start_asleep,
     .threads = {doze, wake_up},
     .names = {"monitor", "worker"}},
    {.name = "a spare sits down, something is pinned to it",
     .setup = start,
     .threads = {sit_down, push_pinned},
     .names = {"spare", "pusher"}},
    {.name = "a spare sits down, the last other falls asleep",
     .setup = start,
     .threads = {sit_down_as_the_last, sleep_as_the_last},
     .names = {"spare", "worker"}},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"monitor", tests, MODEL_COUNT(tests),
                                             NULL,      0,     "src/sched/monitor.c"};
    return model_main(argc, argv, &suite);
}
