/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sched/timers.c no timer is forgotten: whichever worker arms, checks, leads or
 *         disarms meanwhile, in every order of steps under every memory model, the time of the next
 *         check is never later than the first timer, and no leader sleeps past it.
 * Method: two workers with real wheels, locks, idle bits and parkers, at a constant time; one arms
 *         timers, the other checks the time, or is the leader and parks as in the scheduler.  Plain
 *         data passes from the arming worker to the woken task.
 *         Behaviour 55.
 */
#include <string.h>

#include "model/model.h"
#include "sched/ready.h"

enum { WORKERS = 2, TIMERS = 2, NOW = 100 };

/* The beginning of a tick. */
static int64_t at(int64_t tick)
{
    return tick * WF_WHEEL_TICK_NS;
}

static struct weft_runtime runtime;
static struct wf_worker workers[WORKERS];
static struct wf_task_pool pool;
static struct weft_task tasks[TIMERS];
static struct wf_task_timer alarms[TIMERS];
static int64_t armed_for[TIMERS]; /* its deadline while it is armed; WF_FOREVER: it is not */
/* plain: written before the timer is armed, read by the woken task */
static int data[TIMERS];
static int woken[TIMERS];
static bool is_leader_asleep;

/* ---- stubs for timers.c ---------------------------------------------------------------------- */

struct wf_worker *wf_worker_self(void)
{
    return &workers[model_thread()];
}

void wf_task_wake_on(struct wf_worker *worker, struct weft_task *task)
{
    (void)worker;
    MODEL_REQUIRE(wf_plain_load(&data[task - tasks]) == 1);
    woken[task - tasks]++;
}

void wf_leader_needed(struct wf_worker *of)
{
    (void)of;
    model_fail("wf_leader_needed is not expected");
}

static void wake_leader(weft_runtime *of)
{
    const uint32_t leader = wf_load_relaxed(&of->timer_summary.leader);
    if (wf_idle_claim_worker(&of->idle, leader)) {
        wf_parker_unpark(&of->workers[leader].parker);
    }
}

/* ---- setup and check ------------------------------------------------------------------------- */

static void start(void)
{
    static const struct wf_policy policy = {.wake_leader = wake_leader};
    runtime.policy = &policy;
    runtime.workers = workers;
    runtime.worker_count = WORKERS;
    runtime.options.order = WEFT_ORDER_FAIR; /* in this order only the leader is woken */
    pool.runtime = &runtime;
    MODEL_REQUIRE(wf_idle_init(&runtime.idle, WORKERS) == 0);
    wf_timer_summary_init(&runtime.timer_summary);
    wf_store_relaxed(&runtime.timer_summary.leader, 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i].runtime = &runtime;
        workers[i].index = i;
        wf_parker_init(&workers[i].parker);
        wf_timers_init(&workers[i].timers, at(NOW));
    }
    for (int i = 0; i < TIMERS; i++) {
        tasks[i].pool = &pool;
        alarms[i] = (struct wf_task_timer){0};
        armed_for[i] = WF_FOREVER;
        woken[i] = 0;
        data[i] = 0;
    }
    is_leader_asleep = false;
}

static void set(int number, int64_t tick)
{
    wf_plain_store(&data[number], 1);
    armed_for[number] = at(tick);
    wf_task_timer_set(&alarms[number], &tasks[number], at(tick));
}

static void clear(int number)
{
    wf_task_timer_clear(&alarms[number]);
    armed_for[number] = WF_FOREVER;
}

/* Every armed timer has fired, or a worker will check in time. */
static void check(void)
{
    const int64_t next_ns = wf_timers_next(&runtime);
    for (int i = 0; i < TIMERS; i++) {
        MODEL_REQUIRE(woken[i] > 0 || armed_for[i] == WF_FOREVER || next_ns <= armed_for[i]);
        MODEL_REQUIRE(woken[i] <= 1);
    }
    /* A sleeping leader sleeps for ever here: so there must be no timer. */
    MODEL_REQUIRE(!is_leader_asleep || next_ns == WF_FOREVER);
}

/* ---- arming during a check ------------------------------------------------------------------- */

/* A check is due; worker 1 has a timer. */
static void start_with(int64_t tick)
{
    start();
    data[1] = 1;
    armed_for[1] = at(tick);
    wf_timer_init(&alarms[1].timer);
    alarms[1].timer.place = 2;
    alarms[1].task = &tasks[1];
    wf_wheel_arm(&workers[1].timers.wheel, &alarms[1].timer, at(tick));
    wf_store_relaxed(&workers[1].timers.next_ns, at(tick));
    wf_store_relaxed(&runtime.timer_summary.next_ns, at(NOW));
}

/* It is due; worker 0 arms another one meanwhile. */
static void start_due(void)
{
    start_with(NOW);
}

/* An earlier one was disarmed: the check finds only that, and publishes the next time again. */
static void start_early(void)
{
    start_with(NOW + 9);
}

static void set_later(void)
{
    set(0, NOW + 5);
}

static void set_now(void)
{
    set(0, NOW);
}

static void check_timers(void)
{
    wf_timers_look(&runtime, wf_worker_self(), at(NOW));
}

static void disarm_due(void)
{
    clear(1);
}

static void check_fired(void)
{
    MODEL_REQUIRE(woken[1] == 1);
    check();
}

/* ---- arming while the leader parks ----------------------------------------------------------- */

static bool is_due_before(void *context)
{
    const int64_t *until_ns = context;
    return wf_timers_next(&runtime) < *until_ns;
}

/* Worker 0. Checks whenever it is woken, and parks until the published time; it omits a park with a
 * deadline: that ends in time. */
static void lead(void)
{
    for (;;) {
        int64_t until_ns = wf_timers_next(&runtime);
        if (until_ns != WF_FOREVER) {
            return;
        }
        wf_timers_set_leader(&runtime, 0, until_ns);
        is_leader_asleep = true;
        if (wf_idle_sleep(&runtime.idle, 0,
                          &(struct wf_sleep){.parker = &workers[0].parker,
                                             .has_work = is_due_before,
                                             .context = &until_ns,
                                             .deadline_ns = WF_FOREVER})) {
            (void)wf_idle_end_search(&runtime.idle);
        }
        is_leader_asleep = false;
        wf_timers_clear_leader(&runtime);
    }
}

/* Worker 1. */
static void set_one(void)
{
    set(0, NOW + 5);
}

static void set_two(void)
{
    set(0, NOW + 5);
    set(1, NOW + 3);
}

static void set_and_clear(void)
{
    set(0, NOW + 5);
    clear(0);
}

static void check_and_lead(void)
{
    check_timers();
    lead();
}

static const struct model_test tests_of_timers[] = {
    {.name = "timer armed during a check",
     .setup = start_due,
     .threads = {set_later, check_timers},
     .names = {"armer", "checker"},
     .check = check_fired},
    {.name = "due timer armed during a check",
     .setup = start_due,
     .threads = {set_now, check_timers},
     .names = {"armer", "checker"},
     .check = check_fired},
    {.name = "earlier timer armed during a check",
     .setup = start_early,
     .threads = {set_later, check_timers},
     .names = {"armer", "checker"},
     .check = check},
    {.name = "two checks race",
     .setup = start_due,
     .threads = {check_timers, check_timers},
     .names = {"checker 0", "checker 1"},
     .check = check_fired},
    {.name = "timer disarmed during a check",
     .setup = start_due,
     .threads = {check_timers, disarm_due},
     .names = {"checker", "owner"},
     .check = check},
    {.name = "timer armed while the leader parks",
     .setup = start,
     .threads = {lead, set_one},
     .names = {"leader", "armer"},
     .check = check,
     .may_rest = 1},
    {.name = "two timers armed while the leader parks",
     .setup = start,
     .threads = {lead, set_two},
     .names = {"leader", "armer"},
     .check = check,
     .may_rest = 1,
     .bound = {0, 0, 4},
     .is_slow = 1},
    {.name = "timer armed and disarmed while the leader parks",
     .setup = start,
     .threads = {lead, set_and_clear},
     .names = {"leader", "armer"},
     .check = check,
     .may_rest = 1,
     .bound = {0, 0, 4},
     .is_slow = 1},
    {.name = "timer armed after the leader checked",
     .setup = start_due,
     .threads = {check_and_lead, set_later},
     .names = {"leader", "armer"},
     .check = check,
     .may_rest = 1,
     .bound = {4, 4, 3},
     .is_slow = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {
        "timers", tests_of_timers, MODEL_COUNT(tests_of_timers), NULL, 0, "src/sched/timers.c"};
    return model_main(argc, argv, &suite);
}
