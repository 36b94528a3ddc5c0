/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sched/timers.c no alarm is forgotten: whoever sets one, looks, watches or clears
 *         one meanwhile, in every order of steps under every memory model, the time at which
 *         somebody looks next is never later than the first alarm, and no watcher sleeps past it.
 * Method: two workers with real wheels, locks, idle bits and parkers, in a time that stands still;
 *         one sets alarms, the other looks at the time, or is the watcher and falls asleep as the
 *         scheduler has it.  Plain data goes from who sets an alarm to who is woken by it.
 *         Behaviour 55.
 */
#include <string.h>

#include "model/model.h"
#include "sched/sched.h"

enum { WORKERS = 2, ALARMS = 2, NOW = 100 };

/* The beginning of a tick. */
static int64_t at(int64_t tick)
{
    return tick * WF_TICK_NS;
}

static struct weft_runtime runtime;
static struct wf_worker workers[WORKERS];
static struct wf_task_pool pool;
static struct weft_task tasks[ALARMS];
static struct wf_alarm alarms[ALARMS];
static int64_t set_for[ALARMS]; /* when it rings, while it is set; WF_FOREVER: it is not */
static int data[ALARMS];        /* plain: written before the alarm, read by who wakes */
static int woken[ALARMS];
static bool is_watcher_asleep;

/* ---- what timers.c calls --------------------------------------------------------------------- */

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

void wf_steal_need_watcher(struct wf_worker *of)
{
    (void)of;
    model_fail("a worker that has rested");
}

static void hurry(weft_runtime *of)
{
    const uint32_t watcher = wf_load_relaxed(&of->hours.watcher);
    if (wf_idle_claim_worker(&of->idle, watcher)) {
        wf_parker_unpark(&of->workers[watcher].parker);
    }
}

/* ---- the beginning and the end --------------------------------------------------------------- */

static void start(void)
{
    static const struct wf_policy policy = {.hurry = hurry};
    runtime.policy = &policy;
    runtime.workers = workers;
    runtime.worker_count = WORKERS;
    runtime.options.order = WEFT_ORDER_FAIR; /* there, nobody is called who does not watch */
    pool.runtime = &runtime;
    MODEL_REQUIRE(wf_idle_init(&runtime.idle, WORKERS) == 0);
    wf_hours_init(&runtime.hours);
    wf_store_relaxed(&runtime.hours.watcher, 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i].runtime = &runtime;
        workers[i].index = i;
        wf_parker_init(&workers[i].parker);
        wf_timers_init(&workers[i].timers, at(NOW));
    }
    for (int i = 0; i < ALARMS; i++) {
        tasks[i].pool = &pool;
        alarms[i] = (struct wf_alarm){0};
        set_for[i] = WF_FOREVER;
        woken[i] = 0;
        data[i] = 0;
    }
    is_watcher_asleep = false;
}

static void set(int number, int64_t tick)
{
    wf_plain_store(&data[number], 1);
    set_for[number] = at(tick);
    wf_alarm_set(&alarms[number], &tasks[number], at(tick));
}

static void clear(int number)
{
    wf_alarm_clear(&alarms[number]);
    set_for[number] = WF_FOREVER;
}

/* Every alarm that is set has rung, or somebody will look in time. */
static void check(void)
{
    const int64_t next_ns = wf_timers_next(&runtime);
    for (int i = 0; i < ALARMS; i++) {
        MODEL_REQUIRE(woken[i] > 0 || set_for[i] == WF_FOREVER || next_ns <= set_for[i]);
        MODEL_REQUIRE(woken[i] <= 1);
    }
    /* Who sleeps sleeps for ever here: so there must be nothing to look at. */
    MODEL_REQUIRE(!is_watcher_asleep || next_ns == WF_FOREVER);
}

/* ---- setting while another one looks --------------------------------------------------------- */

/* Somebody has to look; there is an alarm of worker 1. */
static void start_with(int64_t tick)
{
    start();
    data[1] = 1;
    set_for[1] = at(tick);
    wf_timer_init(&alarms[1].timer);
    alarms[1].timer.place = 2;
    alarms[1].task = &tasks[1];
    wf_wheel_arm(&workers[1].timers.wheel, &alarms[1].timer, at(tick));
    wf_store_relaxed(&workers[1].timers.next_ns, at(tick));
    wf_store_relaxed(&runtime.hours.next_ns, at(NOW));
}

/* Its time has come; another one is set by worker 0 meanwhile. */
static void start_due(void)
{
    start_with(NOW);
}

/* An earlier one was cleared: the look finds nothing but that, and puts its time back. */
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

static void look(void)
{
    wf_timers_look(&runtime, wf_worker_self(), at(NOW));
}

static void clear_the_due(void)
{
    clear(1);
}

static void check_rung(void)
{
    MODEL_REQUIRE(woken[1] == 1);
    check();
}

/* ---- setting while the watcher falls asleep -------------------------------------------------- */

static bool is_due_before(void *context)
{
    const int64_t *until_ns = context;
    return wf_timers_next(&runtime) < *until_ns;
}

/* Worker 0.  Looks whenever it is called, and sleeps until the number says so; a sleep that has an
 * end, it leaves out: it is there in time. */
static void watch(void)
{
    for (;;) {
        int64_t until_ns = wf_timers_next(&runtime);
        if (until_ns != WF_FOREVER) {
            return;
        }
        wf_timers_watch(&runtime, 0, until_ns);
        is_watcher_asleep = true;
        if (wf_idle_sleep(&runtime.idle, 0,
                          &(struct wf_sleep){.parker = &workers[0].parker,
                                             .has_work = is_due_before,
                                             .context = &until_ns,
                                             .deadline_ns = WF_FOREVER})) {
            (void)wf_idle_end_search(&runtime.idle);
        }
        is_watcher_asleep = false;
        wf_timers_unwatch(&runtime);
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

static void look_and_watch(void)
{
    look();
    watch();
}

static const struct model_test tests_of_timers[] = {
    {.name = "an alarm is set during a look",
     .setup = start_due,
     .threads = {set_later, look},
     .names = {"setter", "looker"},
     .check = check_rung},
    {.name = "one that is due is set during a look",
     .setup = start_due,
     .threads = {set_now, look},
     .names = {"setter", "looker"},
     .check = check_rung},
    {.name = "an earlier one is set during a look",
     .setup = start_early,
     .threads = {set_later, look},
     .names = {"setter", "looker"},
     .check = check},
    {.name = "two look",
     .setup = start_due,
     .threads = {look, look},
     .names = {"looker 0", "looker 1"},
     .check = check_rung},
    {.name = "it is cleared during a look",
     .setup = start_due,
     .threads = {look, clear_the_due},
     .names = {"looker", "owner"},
     .check = check},
    {.name = "an alarm is set while the watcher falls asleep",
     .setup = start,
     .threads = {watch, set_one},
     .names = {"watcher", "setter"},
     .check = check,
     .may_rest = 1},
    {.name = "two alarms are set while the watcher falls asleep",
     .setup = start,
     .threads = {watch, set_two},
     .names = {"watcher", "setter"},
     .check = check,
     .may_rest = 1,
     .bound = {0, 0, 4},
     .is_slow = 1},
    {.name = "set and cleared while the watcher falls asleep",
     .setup = start,
     .threads = {watch, set_and_clear},
     .names = {"watcher", "setter"},
     .check = check,
     .may_rest = 1,
     .bound = {0, 0, 4},
     .is_slow = 1},
    {.name = "a watcher that has looked, and an alarm",
     .setup = start_due,
     .threads = {look_and_watch, set_later},
     .names = {"watcher", "setter"},
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
