/* SPDX-License-Identifier: MIT */
/*
 * Goal:   after src/sched/driver.c has attached a driver to a runtime, the leader waits in it: a
 *         worker that is about to park, or is parked, as the leader without a driver finds it, in
 *         every order of steps under every memory model.
 * Method: a worker parks as in the scheduler, with real idle bits and parkers, until an event
 *         happens; another thread attaches a driver and then causes the event, which only ends
 *         parks in the driver.  A worker parked elsewhere is a deadlock.
 */
#include <errno.h>

#include "model/model.h"
#include "sched/sched.h"

static struct weft_runtime runtime;
static struct wf_worker workers[2];
static struct wf_driver drivers[2];
static wf_atomic_u32 events; /* end a park in the driver, as a ready descriptor does */
static uint32_t seen;
/* plain: written by the attaching thread, read by the worker that parks in the driver */
static int data;

static void driver_park(struct wf_driver *driver, int64_t deadline_ns)
{
    MODEL_REQUIRE(driver == &drivers[0] || driver == &drivers[1]);
    MODEL_REQUIRE(wf_plain_load(&data) == 1);
    uint32_t count = wf_load_acquire(&events);
    while (count == seen && wf_futex_wait(&events, count, deadline_ns) != -ETIMEDOUT) {
        count = wf_load_acquire(&events);
    }
    seen = count;
}

static void driver_unpark(struct wf_driver *driver)
{
    (void)driver;
    (void)wf_fetch_add_release(&events, 1);
    (void)wf_futex_wake(&events, 1);
}

/* ---- stubs of the scheduler ------------------------------------------------------------------ */

static void wake_leader(weft_runtime *of)
{
    if (wf_idle_claim_worker(&of->idle, 0)) {
        wf_driver_unpark(of, &workers[0].parker);
    }
}

static void wake_any(weft_runtime *of)
{
    wf_fence_seq_cst();
    int sleeper = wf_idle_claim(&of->idle);
    if (sleeper >= 0) {
        wf_driver_unpark(of, &workers[sleeper].parker);
    }
}

/* As wf_leader_wake in src/sched/leader.c. */
static void wake_leader_if_any(weft_runtime *of)
{
    if (wf_load_relaxed(&of->has_leader) != 0) {
        wake_leader(of);
    }
}

/* Other workers sleep beside the leader, and are the ones to be claimed. */
static void wake_another(weft_runtime *of)
{
    (void)of;
    wf_fence_seq_cst();
}

/* ---- the threads ----------------------------------------------------------------------------- */

static void poll(struct wf_driver *driver, struct wf_worker *worker);

static void start(void)
{
    static const struct wf_policy policy = {.wake_leader = wake_leader, .wake_any = wake_any};
    runtime.policy = &policy;
    MODEL_REQUIRE(wf_idle_init(&runtime.idle, 1) == 0);
    wf_store_relaxed(&runtime.driver, NULL);
    wf_store_relaxed(&runtime.has_leader, 0);
    wf_parker_init(&workers[0].parker);
    for (int i = 0; i < 2; i++) {
        drivers[i].park = driver_park;
        drivers[i].unpark = driver_unpark;
        drivers[i].poll = poll;
        wf_store_relaxed(&drivers[i].polled_ns, 0);
    }
    wf_store_relaxed(&events, 0);
    seen = 0;
    data = 0;
}

static void start_beside_sleepers(void)
{
    static const struct wf_policy policy = {.wake_leader = wake_leader_if_any,
                                            .wake_any = wake_another};
    start();
    runtime.policy = &policy;
}

static bool is_driver_new(void *context)
{
    const struct wf_worker *worker = context;
    return wf_driver_of(&runtime) != worker->leader.driver;
}

static void park_as_leader(void)
{
    while (seen == 0) {
        workers[0].leader.driver = wf_driver_of(&runtime);
        const struct wf_sleep sleep = {
            .parker = &workers[0].parker,
            .driver = workers[0].leader.driver,
            .has_work = is_driver_new,
            .context = &workers[0],
            .deadline_ns = WF_FOREVER,
        };
        if (wf_idle_sleep(&runtime.idle, 0, &sleep)) {
            (void)wf_idle_end_search(&runtime.idle);
        }
    }
}

/* A worker that parks becomes the leader first. */
static void become_leader_and_park(void)
{
    MODEL_REQUIRE(wf_exchange_acquire(&runtime.has_leader, 1) == 0);
    park_as_leader();
}

static void attach(void)
{
    wf_plain_store(&data, 1);
    MODEL_REQUIRE(wf_driver_attach(&runtime, &drivers[0]));
    driver_unpark(&drivers[0]);
}

/* A worker that polls without blocking sees a complete driver. */
static void poll(struct wf_driver *driver, struct wf_worker *worker)
{
    (void)worker;
    MODEL_REQUIRE(driver == &drivers[0]);
    MODEL_REQUIRE(wf_plain_load(&data) == 1);
}

static void poll_while_busy(void)
{
    wf_driver_maybe_poll(&runtime, &workers[0], WF_DRIVER_POLL_NS);
}

/* Work also wakes a worker that is parked in the driver. */
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

/* Of two concurrent attaches one is refused, and finds the other's driver. */
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
    {.name = "attach races a leader that parks",
     .setup = start,
     .threads = {park_as_leader, attach},
     .names = {"leader", "attacher"}},
    {.name = "attach races a new leader beside other sleepers",
     .setup = start_beside_sleepers,
     .threads = {become_leader_and_park, attach},
     .names = {"leader", "attacher"}},
    {.name = "attach races a poll of a busy worker",
     .setup = start,
     .threads = {poll_while_busy, attach},
     .names = {"worker", "attacher"}},
    {.name = "work wakes a worker parked in the driver",
     .setup = start_attached,
     .threads = {sleep_until_work, bring_work},
     .names = {"leader", "worker"}},
    {.name = "attach races attach",
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
