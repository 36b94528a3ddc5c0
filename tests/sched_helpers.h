/* SPDX-License-Identifier: MIT */
/*
 * sched_helpers.h - runs a test under every policy, order and number of workers; small helpers for
 * tests of tasks.
 *
 * A deadlock, or a failed task whose failure no join has seen, fails the test, unless the test sets
 * hooks of its own.
 */
#ifndef SCHED_HELPERS_H
#define SCHED_HELPERS_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/atomic.h"
#include "base/base.h"
#include "os/os.h"
#include "tap.h"
#include <weft/weft.h>

/* Hostile builds put every other ready task into another queue on purpose: there tests of order
 * run, too, but compare nothing. */
#ifdef WF_HOSTILE
#define HAS_ORDER 0
#else
#define HAS_ORDER 1
#endif

/* ---- settings -------------------------------------------------------------------------------- */

struct setting {
    enum weft_policy policy;
    enum weft_order order;
    unsigned workers;
};

/* With one worker the order is deterministic; with two, tasks can move; a third worker can
 * interfere with the other two; eight are more than the machine has CPUs. */
static const struct setting settings[] = {
    {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1},        {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 2},
    {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 3},        {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 8},
    {WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 1}, {WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 2},
    {WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 3}, {WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 8},
    {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 1},      {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 2},
    {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 3},      {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 8},
};

enum which {
    EVERYWHERE,
    ON_ONE_WORKER,
    ON_SEVERAL,
    ON_SEVERAL_THAT_STEAL,
};

static inline bool is_selected(enum which which, const struct setting *setting)
{
    switch (which) {
    case ON_ONE_WORKER:
        return setting->workers == 1;
    case ON_SEVERAL:
        return setting->workers > 1;
    case ON_SEVERAL_THAT_STEAL:
        return setting->workers > 1 && setting->policy == WEFT_POLICY_STEAL;
    case EVERYWHERE:
    default:
        return true;
    }
}

static inline void refuse_failure(void *context, const weft_failure *failure)
{
    (void)context;
    tap_fail(__FILE__, __LINE__, "no join saw the failure of task %ju (%s): %d %s",
             (uintmax_t)failure->task_id, failure->name, failure->error, failure->message);
}

static inline void refuse_deadlock(void *context, const weft_deadlock *deadlock)
{
    (void)context;
    tap_fail(__FILE__, __LINE__, "deadlock of %zu tasks: %s", deadlock->count, deadlock->text);
}

static inline weft_runtime_options options_of(const struct setting *setting)
{
    return (weft_runtime_options){
        .size = sizeof(weft_runtime_options),
        .workers = setting->workers,
        .policy = setting->policy,
        .order = setting->order,
        .seed = tap_seed(),
        /* Tests occupy workers on purpose: a test that needs spares sets a shorter time. */
        .hog_ns = INT64_C(3600) * 1000000000,
        .on_failure = refuse_failure,
        .on_deadlock = refuse_deadlock,
    };
}

/* Iterates over the options of the selected settings, for tests that need more than the functions
 * below:
 *     for (struct tour tour = {.which = ON_SEVERAL}; tour_next(&tour);) { ... tour.options ... } */
struct tour {
    enum which which;
    size_t next;
    const struct setting *setting;
    weft_runtime_options options;
};

static inline bool tour_next(struct tour *tour)
{
    while (tour->next < sizeof(settings) / sizeof(settings[0])) {
        const struct setting *setting = &settings[tour->next++];
        if (is_selected(tour->which, setting)) {
            tap_doing("%s, %u workers",
                      setting->policy == WEFT_POLICY_REACTOR ? "reactor"
                      : setting->order == WEFT_ORDER_FAIR    ? "steal, fair"
                                                             : "steal, depth first",
                      setting->workers);
            tour->setting = setting;
            tour->options = options_of(setting);
            return true;
        }
    }
    return false;
}

/* Runs `body` as the first task of a runtime, with the setting as its argument. */
static inline void run_under(enum which which, weft_fn body)
{
    for (struct tour tour = {.which = which}; tour_next(&tour);) {
        struct setting setting = *tour.setting;
        CHECK_EQ(weft_run(body, &setting, &tour.options), 0);
    }
}

/* Calls `body` from a non-worker thread with an open runtime. The body must leave no failed tasks.
 * */
static inline void open_under(enum which which,
                              void (*body)(weft_runtime *runtime, const struct setting *setting))
{
    for (struct tour tour = {.which = which}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        CHECK(runtime != NULL);
        body(runtime, tour.setting);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

/* ---- waits for other tasks and threads ------------------------------------------------------- */

static inline void let_others_run(void)
{
    if (weft_self() == NULL) {
        (void)sched_yield();
    } else {
        (void)weft_yield(); /* a cancelled task may wait here, too */
    }
}

/* Waits in a task or a thread; other tasks of the worker run. */
static inline void wait_for(wf_atomic_u32 *cell, uint32_t at_least)
{
    while (wf_load_acquire(cell) < at_least) { /* pairs with raise_by_one */
        let_others_run();
    }
}

/* Waits in a task and occupies its worker: no other task runs there. */
static inline void hold_for(wf_atomic_u32 *cell, uint32_t at_least)
{
    while (wf_load_acquire(cell) < at_least) { /* pairs with raise_by_one */
        (void)sched_yield();
    }
}

static inline void raise_by_one(wf_atomic_u32 *cell)
{
    (void)wf_fetch_add_release(cell, 1); /* pairs with wait_for() */
}

static inline weft_task_info info_of(const weft_task *task)
{
    weft_task_info info;
    CHECK_EQ(weft_task_get_info(task, &info), 0);
    return info;
}

static inline enum weft_task_state state_of(const weft_task *task)
{
    return info_of(task).state;
}

static inline void wait_for_state(const weft_task *task, enum weft_task_state state)
{
    while (state_of(task) != state) {
        let_others_run();
    }
}

static inline weft_runtime_stats stats_of(weft_runtime *runtime)
{
    weft_runtime_stats stats;
    CHECK_EQ(weft_runtime_get_stats(runtime, &stats), 0);
    return stats;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static inline weft_task *go(weft_fn fn, void *arg)
{
    weft_task *task = weft_go(fn, arg);
    CHECK(task != NULL);
    return task;
}

static inline weft_task *go_into(weft_runtime *runtime, weft_fn fn, void *arg)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_runtime_spawn(runtime, &task, fn, arg, NULL), 0);
    CHECK(task != NULL);
    return task;
}

/* Returns its argument. */
static inline intptr_t echo(void *arg)
{
    return (intptr_t)arg;
}

/* Yields until the cell is raised. */
static inline intptr_t stand_by(void *arg)
{
    wait_for(arg, 1);
    return 0;
}

/* Yields until the cell is raised, or the task is cancelled or out of time. */
static inline intptr_t stand_by_or_leave(void *arg)
{
    wf_atomic_u32 *cell = arg;
    while (wf_load_acquire(cell) == 0) { /* pairs with raise_by_one */
        int rc = weft_yield();
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static inline intptr_t count_up(void *arg)
{
    raise_by_one(arg);
    return 0;
}

#endif
