/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a runtime follows its options and the environment, or its open fails with the name of the
 *         bad setting; it keeps its limits; several runtimes exist at the same time.
 * Method: a table of environments, each in the process of its own test; occupied workers, so that
 *         queues fill; counts of threads before and after.
 */
#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "proc_helpers.h"
#include "runtime/runtime.h"
#include "sched_helpers.h"

/* ---- options and environment ----------------------------------------------------------------- */

static const char *const variables[] = {
    "WEFT_WORKERS",      "RAYA_NUM_THREADS", "WEFT_POLICY", "WEFT_ORDER",   "WEFT_STACK",
    "WEFT_BLOCKING_MAX", "WEFT_HOG",         "WEFT_SPARES", "WEFT_MONITOR", "WEFT_IO"};

static void clear_environment(void)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        CHECK_EQ(unsetenv(variables[i]), 0);
    }
}

static void set(const char *variable, const char *value)
{
    clear_environment();
    CHECK_EQ(setenv(variable, value, 1), 0);
}

static unsigned workers_with(const weft_runtime_options *options)
{
    weft_runtime *runtime = NULL;
    char text[200] = "untouched";
    CHECK_EQ(weft_runtime_options_check(options, text, sizeof(text)), 0);
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    const unsigned workers = weft_runtime_workers(runtime);
    CHECK_EQ(weft_await(go_into(runtime, echo, (void *)3)), 3);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    return workers;
}

/* S0.21, S0.23, S2.4, part of S2.36, part of S0.22: the default is the number of CPUs; a variable
 * overrides it, WEFT_WORKERS before RAYA_NUM_THREADS, and an option overrides both. */
static void options_workers_override_environment_and_default(void)
{
    const weft_runtime_options three = {.size = sizeof(weft_runtime_options), .workers = 3};
    clear_environment();
    CHECK_EQ(workers_with(NULL), wf_cpu_count());
    CHECK_EQ(workers_with(&(weft_runtime_options){0}), wf_cpu_count());
    set("RAYA_NUM_THREADS", "4");
    CHECK_EQ(workers_with(NULL), 4);
    CHECK_EQ(setenv("WEFT_WORKERS", "5", 1), 0);
    CHECK_EQ(workers_with(NULL), 5);
    CHECK_EQ(workers_with(&three), 3);
}

static void options_accept_good_environment_variables(void)
{
    const char *const rows[][2] = {
        {"WEFT_POLICY", "steal"},  {"WEFT_POLICY", "reactor"},
        {"WEFT_ORDER", "fair"},    {"WEFT_ORDER", "depth-first"},
        {"WEFT_STACK", "1048576"}, {"WEFT_STACK", "1M"},
        {"WEFT_STACK", "64k"},     {"WEFT_POLICY", ""}, /* as if not set */
        {"WEFT_ORDER", ""},        {"WEFT_WORKERS", ""},
        {"WEFT_STACK", ""},        {"WEFT_BLOCKING_MAX", "7"},
        {"WEFT_BLOCKING_MAX", ""}, {"WEFT_HOG", "1ns"},
        {"WEFT_HOG", "2s"},        {"WEFT_HOG", ""},
        {"WEFT_SPARES", "1"},      {"WEFT_SPARES", ""},
        {"WEFT_MONITOR", "0"},     {"WEFT_MONITOR", "1"},
        {"WEFT_MONITOR", ""},      {"WEFT_IO", "auto"},
        {"WEFT_IO", "epoll"},      {"WEFT_IO", ""}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set(rows[i][0], rows[i][1]);
        tap_doing("%s=%s", rows[i][0], rows[i][1]);
        CHECK_EQ(workers_with(&(weft_runtime_options){.workers = 2}), 2);
    }
}

static intptr_t return_stack_size(void *arg)
{
    (void)arg;
    return (intptr_t)info_of(weft_self()).stack_size;
}

static void options_stack_size_comes_from_the_environment(void)
{
    set("WEFT_STACK", "1048576");
    CHECK(weft_run(return_stack_size, NULL, NULL) >= 1048576);
    clear_environment();
    CHECK(weft_run(return_stack_size, NULL, NULL) < 1048576);
}

static weft_runtime_options filled_with(const weft_runtime_options *options)
{
    weft_runtime_options filled;
    char text[200] = "";
    CHECK_EQ(wf_options_fill(&filled, options, text, sizeof(text)), 0);
    return filled;
}

static void options_of_the_monitor_override_environment_and_default(void)
{
    const weft_runtime_options explicit_options = {
        .hog_ns = 7, .spares_max = 3, .no_monitor = true};
    clear_environment();
    CHECK_EQ(filled_with(NULL).hog_ns, 10 * WEFT_MILLISECOND);
    CHECK_EQ(filled_with(NULL).spares_max, 64);
    CHECK(!filled_with(NULL).no_monitor);
    CHECK_EQ(setenv("WEFT_HOG", "250us", 1), 0);
    CHECK_EQ(setenv("WEFT_SPARES", "5", 1), 0);
    CHECK_EQ(setenv("WEFT_MONITOR", "1", 1), 0);
    CHECK_EQ(filled_with(NULL).hog_ns, 250000);
    CHECK_EQ(filled_with(NULL).spares_max, 5);
    CHECK(!filled_with(NULL).no_monitor);
    CHECK_EQ(filled_with(&explicit_options).hog_ns, 7);
    CHECK_EQ(filled_with(&explicit_options).spares_max, 3);
    CHECK(filled_with(&explicit_options).no_monitor);
    set("WEFT_HOG", "9223372036s");
    CHECK_EQ(filled_with(NULL).hog_ns, INT64_C(9223372036) * WEFT_SECOND);
    set("WEFT_MONITOR", "0");
    CHECK(filled_with(NULL).no_monitor);
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &(weft_runtime_options){.workers = 2}), 0);
    expect_threads(2); /* only the workers */
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

static void options_reject_bad_environment_variables_by_name(void)
{
    const char *const rows[][2] = {
        {"WEFT_WORKERS", "abc"},      {"WEFT_WORKERS", "0"},
        {"WEFT_WORKERS", "99999"},    {"WEFT_WORKERS", "-1"},
        {"WEFT_WORKERS", "4 "},       {"WEFT_WORKERS", "4x"},
        {"WEFT_WORKERS", " "},        {"WEFT_WORKERS", "18446744073709551617"},
        {"RAYA_NUM_THREADS", "abc"},  {"RAYA_NUM_THREADS", "0"},
        {"RAYA_NUM_THREADS", "9999"}, {"WEFT_POLICY", "random"},
        {"WEFT_POLICY", "Steal"},     {"WEFT_ORDER", "sideways"},
        {"WEFT_STACK", "lots"},       {"WEFT_STACK", "-5"},
        {"WEFT_STACK", "1G"},         {"WEFT_STACK", "99999999999999999999999999"},
        {"WEFT_STACK", "M"},          {"WEFT_STACK", "1"},
        {"WEFT_BLOCKING_MAX", "0"},   {"WEFT_BLOCKING_MAX", "many"},
        {"WEFT_HOG", "10"},           {"WEFT_HOG", "0ms"},
        {"WEFT_HOG", "ms"},           {"WEFT_HOG", "1.5ms"},
        {"WEFT_HOG", "-1ms"},         {"WEFT_HOG", "10 ms"},
        {"WEFT_HOG", "9223372037s"},  {"WEFT_HOG", "99999999999999999999999999s"},
        {"WEFT_SPARES", "0"},         {"WEFT_SPARES", "99999"},
        {"WEFT_MONITOR", "no"},       {"WEFT_MONITOR", "2"},
        {"WEFT_IO", "iocp"},          {"WEFT_IO", "io_uring"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[200] = "";
        weft_runtime *const untouched = (weft_runtime *)text;
        weft_runtime *runtime = untouched;
        set(rows[i][0], rows[i][1]);
        tap_doing("%s=%s", rows[i][0], rows[i][1]);
        CHECK_EQ(weft_runtime_options_check(NULL, text, sizeof(text)), -EINVAL);
        CHECK(strstr(text, rows[i][0]) != NULL);
        CHECK_EQ(weft_runtime_options_check(NULL, NULL, 0), -EINVAL);
        CHECK_EQ(weft_runtime_options_check(NULL, text, 5), -EINVAL);
        CHECK(strlen(text) < 5); /* truncated, and terminated */
        CHECK_EQ(weft_runtime_open(&runtime, NULL), -EINVAL);
        CHECK(runtime == untouched);
        CHECK_EQ(weft_run(echo, NULL, NULL), -EINVAL);
        /* A bad variable is an error even if an option overrides it. */
        const weft_runtime_options explicit = {.workers = 2,
                                               .policy = WEFT_POLICY_STEAL,
                                               .order = WEFT_ORDER_FAIR,
                                               .stack_size = 1 << 16};
        CHECK_EQ(weft_runtime_options_check(&explicit, text, sizeof(text)), -EINVAL);
    }
    expect_threads(0);
}

/* The name of io_uring is accepted where it is built in; else the message names the option or
 * variable. */
static void options_reject_io_uring_by_name_if_not_built_in(void)
{
    const weft_runtime_options explicit = {.workers = 1, .io = WEFT_IO_URING};
    char text[200] = "";
    clear_environment();
#ifdef WF_URING
    CHECK_EQ(weft_runtime_options_check(&explicit, text, sizeof(text)), 0);
    set("WEFT_IO", "uring");
    CHECK_EQ(weft_runtime_options_check(NULL, text, sizeof(text)), 0);
#else
    CHECK_EQ(weft_runtime_options_check(&explicit, text, sizeof(text)), -EINVAL);
    CHECK(strstr(text, "io is WEFT_IO_URING") != NULL);
    set("WEFT_IO", "uring");
    CHECK_EQ(weft_runtime_options_check(NULL, text, sizeof(text)), -EINVAL);
    CHECK(strstr(text, "WEFT_IO") != NULL);
#endif
    clear_environment();
}

static void options_reject_bad_values_by_name(void)
{
    const struct {
        weft_runtime_options options;
        const char *name;
    } rows[] = {
        {{.workers = WF_WORKERS_MAX + 1}, "workers"},
        {{.workers = UINT32_MAX}, "workers"},
        {{.policy = (enum weft_policy)77}, "policy"},
        {{.order = (enum weft_order)77}, "order"},
        {{.io = (enum weft_io)77}, "io"},
        {{.stack_size = SIZE_MAX}, "stack_size"},
        {{.size = 3}, "size"},
        {{.trace_events = 17}, "trace_events"},
        {{.blocking_max = UINT32_MAX}, "blocking_max"},
        {{.blocking_idle_ns = -1}, "blocking_idle_ns"},
    };
    clear_environment();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[200] = "";
        weft_runtime *runtime = NULL;
        tap_doing("row %zu, %s", i, rows[i].name);
        CHECK_EQ(weft_runtime_options_check(&rows[i].options, text, sizeof(text)), -EINVAL);
        CHECK(strstr(text, rows[i].name) != NULL);
        CHECK_EQ(weft_runtime_open(&runtime, &rows[i].options), -EINVAL);
        CHECK(runtime == NULL);
        CHECK_EQ(weft_run(echo, NULL, &rows[i].options), -EINVAL);
    }
    expect_threads(0);
}

static intptr_t run_inside(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_run(echo, NULL, NULL), -EPERM);
    return 0;
}

static intptr_t open_inside(void *arg)
{
    const struct setting *setting = arg;
    weft_runtime_options options = options_of(setting);
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    CHECK_EQ(weft_await(go_into(runtime, run_inside, NULL)), 0);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    return run_inside(NULL);
}

static void runtime_open_works_in_a_task_but_run_fails_with_eperm(void)
{
    run_under(EVERYWHERE, open_inside);
}

static void spawn_with_bad_arguments(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    weft_task *task = NULL;
    CHECK_EQ(weft_runtime_spawn(runtime, &task, echo, NULL, &(weft_task_options){.arg_copy = 1}),
             -EINVAL);
    CHECK(task == NULL);
}

static void runtime_spawn_rejects_bad_arguments(void)
{
    open_under(EVERYWHERE, spawn_with_bad_arguments);
}

/* ---- numbers of workers ---------------------------------------------------------------------- */

struct barrier {
    wf_atomic_u32 started;
    uint32_t expected;
};

/* Each task keeps a worker until all tasks have one. */
static intptr_t wait_for_all(void *arg)
{
    struct barrier *barrier = arg;
    raise_by_one(&barrier->started);
    hold_for(&barrier->started, barrier->expected);
    return 0;
}

/* behaviour 18, S4.41: more workers than the idle bitmap has bits in a word, and than there are
 * CPUs */
static void runtime_with_70_workers_uses_all_of_them(void)
{
    enum { WORKERS = 70 };
    const struct setting many[] = {{WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, WORKERS},
                                   {WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, WORKERS},
                                   {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, WORKERS}};
    for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
        const weft_runtime_options options = options_of(&many[i]);
        struct barrier barrier = {.expected = WORKERS};
        weft_runtime *runtime = NULL;
        weft_task *tasks[WORKERS];
        tap_doing("row %zu", i);
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        CHECK_EQ(weft_runtime_workers(runtime), WORKERS);
        for (int j = 0; j < WORKERS; j++) {
            tasks[j] = go_into(runtime, wait_for_all, &barrier);
        }
        CHECK_EQ(weft_await_all(tasks, WORKERS, NULL), 0);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

static void runtime_open_and_close_1000_times_leaks_nothing(void)
{
    for (unsigned i = 0; i < 1000; i++) {
        const struct setting *setting = &settings[i % 2 + i % 3 * 4]; /* 1 or 2 workers */
        const weft_runtime_options options = options_of(setting);
        weft_runtime *runtime = NULL;
        CHECK(setting->workers <= 2);
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        if (i % 2 == 0) {
            weft_task_unref(go_into(runtime, echo, NULL));
        }
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
    expect_threads(0);
}

static intptr_t join_awaited(void *arg)
{
    return weft_join(arg, NULL);
}

static void fill_with_blocked(weft_runtime *runtime, const struct setting *setting)
{
    enum { COUNT = 200 };
    static weft_task *tasks[COUNT];
    wf_atomic_u32 open = {0};
    weft_task *awaited = go_into(runtime, stand_by, &open);
    /* The workers, the monitor, and in the reactor policy the control thread. */
    const unsigned threads =
        setting->workers + 1 + (setting->policy == WEFT_POLICY_REACTOR ? 1 : 0);
    expect_threads(threads);
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go_into(runtime, join_awaited, awaited);
    }
    for (int i = 0; i < COUNT; i++) {
        wait_for_state(tasks[i], WEFT_TASK_BLOCKED);
    }
    expect_threads(threads);
    raise_by_one(&open);
    CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
    CHECK_EQ(weft_await(awaited), 0);
}

/* S0.25, S0.27 */
static void blocked_tasks_need_no_threads(void)
{
    open_under(EVERYWHERE, fill_with_blocked);
}

/* ---- limits ---------------------------------------------------------------------------------- */

enum { TASKS_MAX = 10 };

static intptr_t spawn_up_to_limit(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *tasks[TASKS_MAX];
    weft_task *none = NULL;
    for (int i = 0; i < TASKS_MAX - 1; i++) { /* this task counts */
        tasks[i] = go(stand_by, &open);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_spawn(&none, echo, NULL, NULL), -EAGAIN);
        CHECK(none == NULL);
        CHECK(weft_go(echo, NULL) == NULL);
    }
    raise_by_one(&open);
    CHECK_EQ(weft_await_all(tasks, TASKS_MAX - 1, NULL), 0);
    for (int i = 0; i < 3 * TASKS_MAX; i++) { /* below the limit again */
        CHECK_EQ(weft_await(go(echo, (void *)2)), 2);
    }
    return 0;
}

/* behaviour 35 */
static void spawn_fails_at_tasks_max_and_recovers(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.tasks_max = TASKS_MAX;
        CHECK_EQ(weft_run(spawn_up_to_limit, NULL, &tour.options), 0);
    }
}

static intptr_t spawn_one_more(void *arg)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn(&task, count_up, arg, NULL), 0);
    return weft_await(task);
}

static intptr_t spawn_beyond_limit(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    wf_atomic_u32 ran = {0};
    weft_task *tasks[TASKS_MAX];
    for (int i = 0; i < TASKS_MAX - 2; i++) {
        tasks[i] = go(stand_by, &open);
    }
    weft_task *spawner = go(spawn_one_more, &ran); /* reaches the limit itself */
    wait_for_state(spawner, WEFT_TASK_BLOCKED);
    CHECK_EQ(info_of(spawner).wait, WEFT_WAIT_ADMISSION);
    CHECK_EQ(wf_load_acquire(&ran), 0);
    raise_by_one(&open);
    CHECK_EQ(weft_await_all(tasks, TASKS_MAX - 2, NULL), 0);
    CHECK_EQ(weft_await(spawner), 0);
    CHECK_EQ(wf_load_acquire(&ran), 1);
    return 0;
}

static void spawn_waits_at_tasks_max_with_spawn_waits(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.tasks_max = TASKS_MAX;
        tour.options.spawn_waits = true;
        CHECK_EQ(weft_run(spawn_beyond_limit, NULL, &tour.options), 0);
    }
}

static intptr_t return_spawn_result(void *arg)
{
    weft_task *task = NULL;
    int rc = weft_spawn(&task, count_up, arg, NULL);
    CHECK(task == NULL);
    return rc;
}

static intptr_t cancel_waiting_spawner(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *tasks[TASKS_MAX];
    for (int i = 0; i < TASKS_MAX - 2; i++) {
        tasks[i] = go(stand_by, &open);
    }
    weft_task *spawner = go(return_spawn_result, &open);
    wait_for_state(spawner, WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_cancel(spawner), 0);
    CHECK_EQ(weft_await(spawner), -ECANCELED);
    raise_by_one(&open);
    return weft_await_all(tasks, TASKS_MAX - 2, NULL);
}

/* part of behaviour 32 */
static void spawn_wait_at_tasks_max_can_be_cancelled(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.tasks_max = TASKS_MAX;
        tour.options.spawn_waits = true;
        CHECK_EQ(weft_run(cancel_waiting_spawner, NULL, &tour.options), 0);
    }
}

struct filler {
    weft_runtime *runtime;
    int thread_id;
    wf_atomic_u32 started;
    wf_atomic_u32 spawned;
    wf_atomic_u32 ran;
};

enum { MORE = 50 };

static void *spawn_from_a_thread(void *arg)
{
    struct filler *filler = arg;
    filler->thread_id = wf_thread_id();
    raise_by_one(&filler->started);
    for (int i = 0; i < MORE; i++) {
        CHECK_EQ(weft_runtime_spawn(filler->runtime, NULL, count_up, &filler->ran, NULL), 0);
        raise_by_one(&filler->spawned);
    }
    return NULL;
}

/* The runtime is at its limit: the spawn of a thread sleeps until `open` is raised, then all tasks
 * run. */
static void check_thread_waits(weft_runtime *runtime, wf_atomic_u32 *open)
{
    struct filler filler = {.runtime = runtime};
    pthread_t thread;
    CHECK_EQ(wf_thread_start(&thread, spawn_from_a_thread, &filler, NULL), 0);
    wait_for(&filler.started, 1);
    wait_until_asleep(filler.thread_id); /* it can sleep on nothing else */
    CHECK_EQ(wf_load_acquire(&filler.spawned), 0);
    raise_by_one(open);
    CHECK_EQ(wf_thread_join(thread), 0);
    wait_for(&filler.ran, MORE);
}

static void spawn_from_a_thread_waits_at_tasks_max(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        wf_atomic_u32 open = {0};
        weft_task *tasks[TASKS_MAX];
        tour.options.tasks_max = TASKS_MAX;
        tour.options.spawn_waits = true;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (int i = 0; i < TASKS_MAX; i++) {
            tasks[i] = go_into(runtime, stand_by, &open);
        }
        check_thread_waits(runtime, &open);
        CHECK_EQ(weft_await_all(tasks, TASKS_MAX, NULL), 0);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

struct occupier {
    wf_atomic_u32 occupied;
    wf_atomic_u32 open;
};

static intptr_t occupy_worker(void *arg)
{
    struct occupier *occupier = arg;
    raise_by_one(&occupier->occupied);
    hold_for(&occupier->open, 1);
    return 0;
}

/* Occupies every worker, so that external submissions stay queued. */
static void occupy_all_workers(weft_runtime *runtime, struct occupier *occupier, weft_task **tasks)
{
    const unsigned workers = weft_runtime_workers(runtime);
    for (unsigned i = 0; i < workers; i++) {
        tasks[i] = go_into(runtime, occupy_worker, occupier);
        wait_for(&occupier->occupied, i + 1);
    }
}

enum { CAPACITY = 10, WORKERS_MAX = 8 };

/* part of S4.40, X20 */
static void spawn_fails_at_global_capacity_and_recovers(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_task *tasks[WORKERS_MAX];
        weft_task *none = NULL;
        struct occupier occupier = {.occupied = {0}};
        wf_atomic_u32 ran = {0};
        tour.options.global_capacity = CAPACITY;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        occupy_all_workers(runtime, &occupier, tasks);
        for (int i = 0; i < CAPACITY; i++) {
            CHECK_EQ(weft_runtime_spawn(runtime, NULL, count_up, &ran, NULL), 0);
        }
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(weft_runtime_spawn(runtime, &none, count_up, &ran, NULL), -EAGAIN);
        }
        CHECK(none == NULL);
        raise_by_one(&occupier.open);
        CHECK_EQ(weft_await_all(tasks, tour.setting->workers, NULL), 0);
        wait_for(&ran, CAPACITY);
        CHECK_EQ(weft_await(go_into(runtime, echo, (void *)2)), 2);
        CHECK_EQ(wf_load_acquire(&ran), CAPACITY); /* a refused task never ran */
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

static void spawn_from_a_thread_waits_at_global_capacity(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_task *tasks[WORKERS_MAX];
        struct occupier occupier = {.occupied = {0}};
        wf_atomic_u32 ran = {0};
        tour.options.global_capacity = CAPACITY;
        tour.options.spawn_waits = true;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        occupy_all_workers(runtime, &occupier, tasks);
        for (int i = 0; i < CAPACITY; i++) {
            CHECK_EQ(weft_runtime_spawn(runtime, NULL, count_up, &ran, NULL), 0);
        }
        check_thread_waits(runtime, &occupier.open);
        CHECK_EQ(weft_await_all(tasks, tour.setting->workers, NULL), 0);
        wait_for(&ran, CAPACITY);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

/* Tasks in the queues of other priorities count, so the worker that takes one must wake a waiting
 * spawner. */
static void global_capacity_counts_tasks_of_all_priorities(void)
{
    const weft_task_options low = {.priority = WEFT_PRIORITY_LOW};
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_task *tasks[WORKERS_MAX];
        struct occupier occupier = {.occupied = {0}};
        wf_atomic_u32 ran = {0};
        tour.options.global_capacity = CAPACITY;
        tour.options.spawn_waits = true;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        occupy_all_workers(runtime, &occupier, tasks);
        for (int i = 0; i < CAPACITY; i++) {
            CHECK_EQ(weft_runtime_spawn(runtime, NULL, count_up, &ran, &low), 0);
        }
        check_thread_waits(runtime, &occupier.open);
        CHECK_EQ(weft_await_all(tasks, tour.setting->workers, NULL), 0);
        wait_for(&ran, CAPACITY);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

enum { COPIED_BYTES = 4321 };

static wf_atomic_u32 is_copy_refused;

static void *refuse_copies(size_t alignment, size_t size)
{
    bool is_refused = size == COPIED_BYTES && wf_load_acquire(&is_copy_refused) != 0;
    return is_refused ? NULL : aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
}

static void *spawn_with_a_copy(void *arg)
{
    struct filler *filler = arg;
    char argument[COPIED_BYTES] = "";
    const weft_task_options options = {.arg_copy = sizeof(argument)};
    filler->thread_id = wf_thread_id();
    raise_by_one(&filler->started);
    CHECK_EQ(weft_runtime_spawn(filler->runtime, NULL, echo, argument, &options), -ENOMEM);
    return NULL;
}

/* A spawner that was admitted and then fails for another reason passes the admission on. */
static void limit_passes_an_unused_admission_to_the_next_waiter(void)
{
    static const struct wf_allocator allocator = {refuse_copies, free};
    CHECK_EQ(wf_allocator_set(&allocator), 0);
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_task *tasks[WORKERS_MAX];
        struct occupier occupier = {.occupied = {0}};
        wf_atomic_u32 ran = {0};
        tour.options.global_capacity = 1;
        tour.options.spawn_waits = true;
        wf_store_relaxed(&is_copy_refused, 0);
        struct filler first = {.runtime = NULL};
        CHECK_EQ(weft_runtime_open(&first.runtime, &tour.options), 0);
        occupy_all_workers(first.runtime, &occupier, tasks);
        CHECK_EQ(weft_runtime_spawn(first.runtime, NULL, count_up, &ran, NULL), 0);
        pthread_t thread;
        CHECK_EQ(wf_thread_start(&thread, spawn_with_a_copy, &first, NULL), 0);
        wait_for(&first.started, 1);
        wait_until_asleep(first.thread_id);
        wf_store_release(&is_copy_refused, 1); /* pairs with refuse_copies */
        check_thread_waits(first.runtime, &occupier.open);
        CHECK_EQ(wf_thread_join(thread), 0);
        CHECK_EQ(weft_await_all(tasks, tour.setting->workers, NULL), 0);
        wait_for(&ran, 1);
        CHECK_EQ(weft_runtime_close(first.runtime, -1), 0);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(options_workers_override_environment_and_default),
    TAP_TEST(options_accept_good_environment_variables),
    TAP_TEST(options_stack_size_comes_from_the_environment),
    TAP_TEST(options_of_the_monitor_override_environment_and_default),
    TAP_TEST(options_reject_bad_environment_variables_by_name),
    TAP_TEST(options_reject_io_uring_by_name_if_not_built_in),
    TAP_TEST(options_reject_bad_values_by_name),
    TAP_TEST(runtime_open_works_in_a_task_but_run_fails_with_eperm),
    TAP_TEST(runtime_spawn_rejects_bad_arguments),
    TAP_TEST(runtime_with_70_workers_uses_all_of_them),
    TAP_TEST(runtime_open_and_close_1000_times_leaks_nothing),
    TAP_TEST(blocked_tasks_need_no_threads),
    TAP_TEST(spawn_fails_at_tasks_max_and_recovers),
    TAP_TEST(spawn_waits_at_tasks_max_with_spawn_waits),
    TAP_TEST(spawn_wait_at_tasks_max_can_be_cancelled),
    TAP_TEST(spawn_from_a_thread_waits_at_tasks_max),
    TAP_TEST(spawn_fails_at_global_capacity_and_recovers),
    TAP_TEST(spawn_from_a_thread_waits_at_global_capacity),
    TAP_TEST(global_capacity_counts_tasks_of_all_priorities),
    TAP_TEST(limit_passes_an_unused_admission_to_the_next_waiter),
};
TAP_MAIN(tests)
