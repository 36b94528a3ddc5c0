/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a driver that src/sched/driver.c gives a runtime is waited in from then on: who is about
 *         to sleep, or sleeps, as the watcher without one finds it, in every order of steps under
 *         every memory model.
 * Method: a worker sleeps as the scheduler has it, by real idle bits and parkers, until an event
 *         came; another thread attaches a driver and then makes the event happen, which only ends
 *         sleeps in the driver's berth.  A worker that sleeps elsewhere is a deadlock.
 */
#include <errno.h>

#include "model/model.h"
#include "sched/sched.h"

static struct weft_runtime runtime;
static struct wf_worker workers[2];
static struct wf_driver drivers[2];
static wf_atomic_u32 events; /* what ends a sleep in the berth, as a descriptor would */
static uint32_t seen;
static int data; /* plain: from who attaches to who sleeps there */

static void wait_in_berth(struct wf_berth *berth, int64_t deadline_ns)
{
    struct wf_driver *driver = wf_container_of(berth, struct wf_driver, berth);
    MODEL_REQUIRE(driver == &drivers[0] || driver == &drivers[1]);
    MODEL_REQUIRE(wf_plain_load(&data) == 1);
    uint32_t count = wf_load_acquire(&events);
    while (count == seen && wf_futex_wait(&events, count, deadline_ns) != -ETIMEDOUT) {
        count = wf_load_acquire(&events);
    }
    seen = count;
}

static void happen(struct wf_berth *berth)
{
    (void)berth;
    (void)wf_fetch_add_release(&events, 1);
    (void)wf_futex_wake(&events, 1);
}

/* ---- what driver.c calls --------------------------------------------------------------------- */

static void hurry(weft_runtime *of)
{
    if (wf_idle_claim_worker(&of->idle, 0)) {
        wf_driver_unpark(of, &workers[0].parker);
    }
}

static void rouse(weft_runtime *of)
{
    wf_fence_seq_cst();
    int sleeper = wf_idle_claim(&of->idle);
    if (sleeper >= 0) {
        wf_driver_unpark(of, &workers[sleeper].parker);
    }
}

/* ---- the threads ----------------------------------------------------------------------------- */

static void look(struct wf_driver *driver, struct wf_worker *worker);

static void start(void)
{
    static const struct wf_policy policy = {.hurry = hurry, .rouse = rouse};
    runtime.policy = &policy;
    MODEL_REQUIRE(wf_idle_init(&runtime.idle, 1) == 0);
    wf_store_relaxed(&runtime.driver, NULL);
    wf_parker_init(&workers[0].parker);
    for (int i = 0; i < 2; i++) {
        drivers[i].berth = (struct wf_berth){wait_in_berth, happen};
        drivers[i].look = look;
        wf_store_relaxed(&drivers[i].looked_ns, 0);
    }
    wf_store_relaxed(&events, 0);
    seen = 0;
    data = 0;
}

static bool is_driver_new(void *context)
{
    const struct wf_worker *worker = context;
    return wf_driver_of(&runtime) != worker->watch_driver;
}

static void watch(void)
{
    while (seen == 0) {
        workers[0].watch_driver = wf_driver_of(&runtime);
        const struct wf_sleep sleep = {
            .parker = &workers[0].parker,
            .driver = workers[0].watch_driver,
            .has_work = is_driver_new,
            .context = &workers[0],
            .deadline_ns = WF_FOREVER,
        };
        if (wf_idle_sleep(&runtime.idle, 0, &sleep)) {
            (void)wf_idle_end_search(&runtime.idle);
        }
    }
}

static void attach(void)
{
    wf_plain_store(&data, 1);
    MODEL_REQUIRE(wf_driver_attach(&runtime, &drivers[0]));
    happen(&drivers[0].berth);
}

/* Who looks in passing looks at a driver that is whole. */
static void look(struct wf_driver *driver, struct wf_worker *worker)
{
    (void)worker;
    MODEL_REQUIRE(driver == &drivers[0]);
    MODEL_REQUIRE(wf_plain_load(&data) == 1);
}

static void pass(void)
{
    wf_driver_pass(&runtime, &workers[0], WF_DRIVER_LOOK_NS);
}

/* Work calls whoever sleeps in the berth, too. */
static WF_ATOMIC(int) is_work;

static void start_attached(void)
{
    start();
    wf_store_relaxed(&is_work, 0);
    wf_store_relaxed(&runtime.driver, &drivers[0]);
    data = 1;
}

static bool has_work(void *context)
{
    (void)context;
    return wf_load_relaxed(&is_work) != 0;
}

static void sleep_until_work(void)
{
    while (wf_load_acquire(&is_work) == 0) {
        const struct wf_sleep sleep = {
            .parker = &workers[0].parker,
            .driver = &drivers[0],
            .has_work = has_work,
            .deadline_ns = WF_FOREVER,
        };
        if (wf_idle_sleep(&runtime.idle, 0, &sleep)) {
            (void)wf_idle_end_search(&runtime.idle);
        }
    }
}

static void bring_work(void)
{
    wf_store_release(&is_work, 1);
    int sleeper = wf_idle_notify(&runtime.idle);
    if (sleeper >= 0) {
        wf_driver_unpark(&runtime, &workers[sleeper].parker);
    }
}

/* Of two who come at once one is refused, and finds the other's. */
static void attach_if_first(void)
{
    if (!wf_driver_attach(&runtime, &drivers[1])) {
        MODEL_REQUIRE(wf_driver_of(&runtime) == &drivers[0]);
    }
}

static void attach_or_find(void)
{
    if (!wf_driver_attach(&runtime, &drivers[0])) {
        MODEL_REQUIRE(wf_driver_of(&runtime) == &drivers[1]);
    }
}

static const struct model_test tests[] = {
    {.name = "a watcher falls asleep meanwhile",
     .setup = start,
     .threads = {watch, attach},
     .names = {"watcher", "attacher"}},
    {.name = "one looks in passing",
     .setup = start,
     .threads = {pass, attach},
     .names = {"worker", "attacher"}},
    {.name = "work comes",
     .setup = start_attached,
     .threads = {sleep_until_work, bring_work},
     .names = {"watcher", "worker"}},
    {.name = "two attach",
     .setup = start,
     .threads = {attach_or_find, attach_if_first},
     .names = {"one", "other"}},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"driver", tests, MODEL_COUNT(tests),
                                             NULL,     0,     "src/sched/driver.c"};
    return model_main(argc, argv, &suite);
}
