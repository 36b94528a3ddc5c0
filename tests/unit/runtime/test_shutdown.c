/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the close of a runtime reaches every task in any state, cancels it, waits, and forces the
 *         remaining tasks when its timeout is over; every waiter for a task learns of its end;
 *         nothing leaks.
 * Method: runtimes are closed around tasks in every state; handles are checked afterwards; spawns
 *         race the close.
 */
#include "helpers.h"
#include "sched_helpers.h"

/* ---- tasks in every state -------------------------------------------------------------------- */

struct scene {
    wf_atomic_u32 started; /* tasks that have started */
    wf_atomic_u32 open;
    wf_atomic_u32 cleaned;
    weft_task *awaited;
    weft_runtime *runtime;
};

static intptr_t occupy_worker(void *arg)
{
    struct scene *scene = arg;
    raise_by_one(&scene->started);
    hold_for(&scene->open, 1);
    return weft_check();
}

static void open_scene(struct tour *tour, struct scene *scene)
{
    *scene = (struct scene){.awaited = NULL};
    CHECK_EQ(weft_runtime_open(&scene->runtime, &tour->options), 0);
}

static void *close_thread(void *arg)
{
    CHECK_EQ(weft_runtime_close(arg, -1), 0);
    return NULL;
}

static void close_when_released(struct scene *scene, weft_task *observed)
{
    pthread_t closer;
    CHECK_EQ(wf_thread_start(&closer, close_thread, scene->runtime, NULL), 0);
    while (!info_of(observed).is_cancelled) { /* the close has begun */
        (void)sched_yield();
    }
    raise_by_one(&scene->open);
    CHECK_EQ(wf_thread_join(closer), 0);
}

enum { WORKERS_MAX = 8, QUEUED = 50 };

/* behaviour 34; a known fault of other runtimes: they forget tasks in the global queue */
static void runtime_close_cancels_queued_tasks(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct scene scene;
        weft_task *holders[WORKERS_MAX];
        weft_task *queued[QUEUED];
        open_scene(&tour, &scene);
        for (unsigned i = 0; i < tour.setting->workers; i++) {
            holders[i] = go_into(scene.runtime, occupy_worker, &scene);
            wait_for(&scene.started, i + 1);
        }
        for (int i = 0; i < QUEUED; i++) {
            queued[i] = go_into(scene.runtime, stand_by_or_leave, &scene.cleaned);
        }
        close_when_released(&scene, queued[QUEUED - 1]);
        for (unsigned i = 0; i < tour.setting->workers; i++) {
            CHECK_EQ(weft_await(holders[i]), -ECANCELED); /* running: the close waited */
        }
        for (int i = 0; i < QUEUED; i++) {
            intptr_t result = 0;
            CHECK_EQ(weft_try_join(queued[i], &result), 0);
            CHECK_EQ(result, -ECANCELED);
            CHECK_EQ(state_of(queued[i]), WEFT_TASK_CANCELLED);
            weft_task_unref(queued[i]);
        }
    }
}

static void note_cleanup(void *arg)
{
    raise_by_one(arg);
}

static intptr_t wait_with_cleanup(void *arg)
{
    struct scene *scene = arg;
    weft_cleanup cleanup;
    weft_cleanup_push(&cleanup, note_cleanup, &scene->cleaned);
    int rc = weft_join(scene->awaited, NULL);
    weft_cleanup_pop(&cleanup, true);
    return rc;
}

/* S0.6, behaviour 34 */
static void runtime_close_cancels_waiting_tasks(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        enum { COUNT = 30 };
        struct scene scene;
        weft_task *tasks[COUNT];
        open_scene(&tour, &scene);
        scene.awaited = go_into(scene.runtime, stand_by_or_leave, &scene.open);
        for (int i = 0; i < COUNT; i++) {
            tasks[i] = go_into(scene.runtime, wait_with_cleanup, &scene);
        }
        for (int i = 0; i < COUNT; i++) {
            wait_for_state(tasks[i], WEFT_TASK_BLOCKED);
        }
        CHECK_EQ(weft_runtime_close(scene.runtime, -1), 0);
        CHECK_EQ(wf_load_acquire(&scene.cleaned), COUNT);
        for (int i = 0; i < COUNT; i++) {
            intptr_t result = 1;
            CHECK_EQ(weft_try_join(tasks[i], &result), 0);
            /* A joiner may see the end of the awaited task before its own cancel. */
            CHECK(result == -ECANCELED || result == 0);
            weft_task_unref(tasks[i]);
        }
        CHECK_EQ(weft_await(scene.awaited), -ECANCELED);
    }
}

static intptr_t finish_with_shield(void *arg)
{
    struct scene *scene = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    raise_by_one(&scene->started);
    while (!info_of(weft_self()).is_cancelled) { /* until the close has begun */
        CHECK_EQ(weft_yield(), 0);
    }
    /* All calls except spawns still work. */
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn(&task, echo, NULL, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_runtime_spawn(scene->runtime, &task, echo, NULL, NULL), -ESHUTDOWN);
    CHECK(task == NULL);
    CHECK(weft_go(echo, NULL) == NULL);
    (void)weft_join(scene->awaited, NULL);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_yield(), 0);
    }
    raise_by_one(&scene->cleaned);
    CHECK_EQ(weft_shield_end(), 0);
    return weft_check();
}

/* On a thread of the pool, until `open` is raised. */
static intptr_t occupy_thread(void *arg)
{
    hold_for(&((struct scene *)arg)->open, 1);
    return 0;
}

static intptr_t call_occupy_thread(void *arg)
{
    return weft_blocking_call(occupy_thread, arg);
}

/* The close wakes the task once; repeated wakes would keep a CPU busy for nothing. */
static void runtime_close_does_not_wake_a_blocked_task_repeatedly(void)
{
    enum { CHECKS = 300, RUNS_MAX = 20 };
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct scene scene;
        pthread_t closer;
        open_scene(&tour, &scene);
        weft_task *task = go_into(scene.runtime, call_occupy_thread, &scene);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        CHECK_EQ(wf_thread_start(&closer, close_thread, scene.runtime, NULL), 0);
        while (!info_of(task).is_cancelled) { /* the close has begun */
            (void)sched_yield();
        }
        for (int i = 0; i < CHECKS && info_of(task).runs < RUNS_MAX; i++) {
            (void)sched_yield();
        }
        CHECK(info_of(task).runs < RUNS_MAX);
        raise_by_one(&scene.open);
        CHECK_EQ(wf_thread_join(closer), 0);
        weft_task_unref(task);
    }
}

/* a known fault of other runtimes: workers exit while the queues are empty for a moment */
static void runtime_close_waits_for_shielded_tasks(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        enum { COUNT = 5 };
        struct scene scene;
        weft_task *tasks[COUNT];
        open_scene(&tour, &scene);
        scene.awaited = go_into(scene.runtime, stand_by_or_leave, &scene.open);
        for (int i = 0; i < COUNT; i++) {
            tasks[i] = go_into(scene.runtime, finish_with_shield, &scene);
        }
        wait_for(&scene.started, COUNT);
        CHECK_EQ(weft_runtime_close(scene.runtime, -1), 0);
        CHECK_EQ(wf_load_acquire(&scene.cleaned), COUNT);
        CHECK_EQ(weft_await_all(tasks, COUNT, NULL), -ECANCELED);
        CHECK_EQ(weft_await(scene.awaited), -ECANCELED);
    }
}

/* ---- forced close ---------------------------------------------------------------------------- */

static intptr_t join_with_shield(void *arg)
{
    struct scene *scene = arg;
    weft_cleanup cleanup;
    weft_cleanup_push(&cleanup, note_cleanup, &scene->cleaned);
    CHECK_EQ(weft_shield_begin(), 0);
    (void)weft_join(scene->awaited, NULL);
    weft_cleanup_pop(&cleanup, true);
    return 0;
}

static intptr_t never_end(void *arg)
{
    (void)arg;
    while (weft_yield() <= 0) { /* always true */
    }
    return 0;
}

/* "-ETIMEDOUT: some were forced" */
static void runtime_close_forces_tasks_after_the_timeout(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        for (int64_t timeout = 0; timeout <= 1000000; timeout += 1000000) {
            struct scene scene;
            weft_task *tasks[3];
            open_scene(&tour, &scene);
            scene.awaited = go_into(scene.runtime, never_end, NULL);
            for (int i = 0; i < 3; i++) {
                tasks[i] = go_into(scene.runtime, join_with_shield, &scene);
                wait_for_state(tasks[i], WEFT_TASK_BLOCKED);
            }
            CHECK_EQ(weft_runtime_close(scene.runtime, timeout), -ETIMEDOUT);
            for (int i = 0; i < 3; i++) {
                CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
            }
            CHECK_EQ(weft_await(scene.awaited), -ECANCELED);
            CHECK_EQ(wf_load_acquire(&scene.cleaned), 0); /* forced: no cleanups */
        }
    }
}

static void runtime_close_with_timeout_0_succeeds_without_tasks(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        CHECK_EQ(weft_await(go_into(runtime, echo, (void *)5)), 5);
        CHECK_EQ(weft_runtime_close(runtime, 0), 0);
    }
}

/* ---- waiters --------------------------------------------------------------------------------- */

static void *join_from_a_thread(void *arg)
{
    struct scene *scene = arg;
    intptr_t result = 0;
    raise_by_one(&scene->started);
    CHECK_EQ(weft_join(scene->awaited, &result), 0);
    CHECK_EQ(result, -ECANCELED);
    return NULL;
}

/* a known fault of other runtimes: joiners hang */
static void runtime_close_wakes_joining_threads(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        enum { THREADS = 3 };
        struct scene scene;
        pthread_t threads[THREADS];
        for (int is_forced = 0; is_forced < 2; is_forced++) {
            open_scene(&tour, &scene);
            scene.awaited = is_forced ? go_into(scene.runtime, never_end, NULL)
                                      : go_into(scene.runtime, stand_by_or_leave, &scene.open);
            for (int i = 0; i < THREADS; i++) {
                CHECK_EQ(wf_thread_start(&threads[i], join_from_a_thread, &scene, NULL), 0);
            }
            wait_for(&scene.started, THREADS);
            CHECK_EQ(weft_runtime_close(scene.runtime, is_forced ? 0 : -1),
                     is_forced ? -ETIMEDOUT : 0);
            for (int i = 0; i < THREADS; i++) {
                CHECK_EQ(wf_thread_join(threads[i]), 0);
            }
            weft_task_unref(scene.awaited);
        }
    }
}

static intptr_t join_in_other_runtime(void *arg)
{
    struct scene *scene = arg;
    intptr_t result = 0;
    CHECK_EQ(weft_join(scene->awaited, &result), 0);
    return result;
}

static intptr_t close_other_runtime(void *arg)
{
    struct scene *scene = arg;
    CHECK_EQ(weft_runtime_close(weft_runtime_self(), -1), -EDEADLK);
    weft_task *joiner = go(join_in_other_runtime, scene);
    wait_for_state(joiner, WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_runtime_close(scene->runtime, -1), 0);
    CHECK_EQ(weft_await(joiner), -ECANCELED);
    weft_task_unref(scene->awaited);
    return 0;
}

/* part of behaviour 19 */
static void runtime_close_in_a_task_works_for_other_runtimes_only(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct scene scene;
        open_scene(&tour, &scene);
        scene.awaited = go_into(scene.runtime, stand_by_or_leave, &scene.open);
        CHECK_EQ(weft_run(close_other_runtime, &scene, &tour.options), 0);
    }
}

struct hook_scene {
    weft_runtime *runtime;
    wf_atomic_u32 refusals;
};

static void close_in_hook(void *context, const weft_failure *failure)
{
    struct hook_scene *hook_scene = context;
    CHECK_EQ(failure->error, -EIO);
    CHECK_EQ(weft_runtime_close(hook_scene->runtime, -1), -EDEADLK);
    raise_by_one(&hook_scene->refusals);
}

static intptr_t fail_after_signal(void *arg)
{
    (void)stand_by_or_leave(arg);
    return -EIO;
}

/* On any thread: the close would wait for itself. */
static void runtime_close_in_a_hook_fails_with_edeadlk(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct hook_scene hook_scene = {.runtime = NULL};
        wf_atomic_u32 is_open = {1};
        wf_atomic_u32 is_rundown = {0};
        tour.options.on_failure = close_in_hook;
        tour.options.hook_context = &hook_scene;
        CHECK_EQ(weft_runtime_open(&hook_scene.runtime, &tour.options), 0);
        CHECK_EQ(weft_runtime_spawn(hook_scene.runtime, NULL, fail_after_signal, &is_open, NULL),
                 0);
        wait_for(&hook_scene.refusals, 1);
        CHECK_EQ(weft_runtime_spawn(hook_scene.runtime, NULL, fail_after_signal, &is_rundown, NULL),
                 0);
        CHECK_EQ(weft_runtime_close(hook_scene.runtime, -1), 0); /* cancels the task, which fails */
        CHECK_EQ(wf_load_acquire(&hook_scene.refusals), 2);
    }
}

/* ---- the end of weft_run --------------------------------------------------------------------- */

struct orphan {
    wf_atomic_u32 started;
    wf_atomic_u32 ended;
};

static intptr_t live_until_cancelled(void *arg)
{
    struct orphan *orphan = arg;
    raise_by_one(&orphan->started);
    int rc = 0;
    while (rc == 0) {
        rc = weft_yield();
    }
    raise_by_one(&orphan->ended);
    return rc;
}

static intptr_t leave_orphans(void *arg)
{
    struct orphan *orphan = arg;
    CHECK_EQ(weft_await(go(echo, (void *)5)), 5);
    for (int i = 0; i < 20; i++) {
        weft_task_unref(go(live_until_cancelled, orphan));
    }
    wait_for(&orphan->started, 20);
    return 11;
}

/* S0.5: weft_run returns when all tasks have ended, with the result of the first; other results
 * come through handles. */
static void run_cancels_and_joins_tasks_left_by_the_first_task(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct orphan orphan = {.started = {0}};
        CHECK_EQ(weft_run(leave_orphans, &orphan, &tour.options), 11);
        CHECK_EQ(wf_load_acquire(&orphan.ended), 20);
    }
}

static intptr_t leave_unstarted_tasks(void *arg)
{
    for (int i = 0; i < 100; i++) {
        weft_task_unref(go(count_up, arg));
    }
    return 0;
}

/* behaviour 34: whether they ran or not, nothing leaks. */
static void run_may_end_before_its_tasks_begin(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        for (int i = 0; i < 10; i++) {
            wf_atomic_u32 ran = {0};
            CHECK_EQ(weft_run(leave_unstarted_tasks, &ran, &tour.options), 0);
            CHECK(wf_load_acquire(&ran) <= 100);
        }
    }
}

/* ---- spawns that race the close -------------------------------------------------------------- */

struct spawner {
    weft_runtime *runtime;
    wf_atomic_u32 spawned; /* accepted */
    wf_atomic_u32 refused;
    wf_atomic_u32 ended;
};

static void count_end(void *value)
{
    struct spawner *spawner = value;
    raise_by_one(&spawner->ended);
}

static intptr_t spawn_until_shutdown(void *arg)
{
    struct spawner *spawner = arg;
    weft_cleanup cleanup;
    weft_cleanup_push(&cleanup, count_end, spawner);
    int rc = 0;
    while (rc == 0) {
        weft_task *task = NULL;
        rc = weft_spawn(&task, echo, NULL, NULL);
        CHECK(rc == 0 || rc == -ESHUTDOWN);
        if (rc == 0) {
            raise_by_one(&spawner->spawned);
            (void)weft_await(task);
        }
    }
    raise_by_one(&spawner->refused);
    weft_cleanup_pop(&cleanup, true);
    return rc == -ESHUTDOWN ? 0 : rc;
}

/* "-ESHUTDOWN: it is closing" */
static void spawn_in_a_task_that_races_close_runs_or_fails(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        for (int i = 0; i < 5; i++) {
            enum { COUNT = 4 };
            struct spawner spawner = {.runtime = NULL};
            weft_task *tasks[COUNT];
            CHECK_EQ(weft_runtime_open(&spawner.runtime, &tour.options), 0);
            for (int j = 0; j < COUNT; j++) {
                tasks[j] = go_into(spawner.runtime, spawn_until_shutdown, &spawner);
            }
            wait_for(&spawner.spawned, 10);
            CHECK_EQ(weft_runtime_close(spawner.runtime, -1), 0);
            CHECK_EQ(wf_load_acquire(&spawner.refused), COUNT);
            CHECK_EQ(wf_load_acquire(&spawner.ended), COUNT);
            CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
        }
    }
}

struct thread_spawner {
    weft_runtime *runtime;
    wf_atomic_u32 accepted;
    weft_task *tasks[2000];
    size_t count;
};

static void *spawn_until_refused(void *arg)
{
    struct thread_spawner *thread_spawner = arg;
    int rc = 0;
    while (thread_spawner->count < 2000 && rc == 0) {
        rc = weft_runtime_spawn(thread_spawner->runtime,
                                &thread_spawner->tasks[thread_spawner->count], stand_by_or_leave,
                                &thread_spawner->accepted, NULL);
        CHECK(rc == 0 || rc == -ESHUTDOWN);
        thread_spawner->count += rc == 0 ? 1 : 0;
        if (rc == 0) {
            raise_by_one(&thread_spawner->accepted);
        }
    }
    return NULL;
}

struct keeper {
    wf_atomic_u32 started;
    wf_atomic_u32 release;
};

/* Keeps the runtime open while a thread still uses it. */
static intptr_t keep_runtime_open(void *arg)
{
    struct keeper *keeper = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    raise_by_one(&keeper->started);
    wait_for(&keeper->release, 1);
    CHECK_EQ(weft_shield_end(), 0);
    return 0;
}

static void spawn_from_a_thread_that_races_close_runs_or_fails(void)
{
    static struct thread_spawner thread_spawner;
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct keeper keeper = {.started = {0}};
        pthread_t spawner;
        pthread_t closer;
        thread_spawner.count = 0;
        wf_store_relaxed(&thread_spawner.accepted, 0);
        CHECK_EQ(weft_runtime_open(&thread_spawner.runtime, &tour.options), 0);
        weft_task *task = go_into(thread_spawner.runtime, keep_runtime_open, &keeper);
        wait_for(&keeper.started, 1);
        CHECK_EQ(wf_thread_start(&spawner, spawn_until_refused, &thread_spawner, NULL), 0);
        wait_for(&thread_spawner.accepted, 20);
        CHECK_EQ(wf_thread_start(&closer, close_thread, thread_spawner.runtime, NULL), 0);
        CHECK_EQ(wf_thread_join(spawner), 0);
        raise_by_one(&keeper.release);
        CHECK_EQ(wf_thread_join(closer), 0);
        for (size_t i = 0; i < thread_spawner.count; i++) {
            CHECK_EQ(weft_try_join(thread_spawner.tasks[i], NULL), 0); /* none was lost */
            weft_task_unref(thread_spawner.tasks[i]);
        }
        CHECK_EQ(weft_await(task), 0);
    }
}

/* ---- a task closes another runtime ------------------------------------------------------------
 */

static intptr_t wait_shielded(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    return weft_join(arg, NULL);
}

static intptr_t force_close(void *arg)
{
    return weft_runtime_close(arg, 0);
}

/* A forced task is counted in its own runtime. Otherwise the closer's runtime would believe that
 * one of its own tasks has ended, and would not wait for it. */
static void forced_close_in_a_task_keeps_the_counts_of_both_runtimes(void)
{
    for (struct tour tour = {.which = ON_SEVERAL}; tour_next(&tour);) {
        struct keeper keeper = {.started = {0}};
        weft_runtime *inner = NULL;
        weft_runtime *outer = NULL;
        CHECK_EQ(weft_runtime_open(&inner, &tour.options), 0);
        CHECK_EQ(weft_runtime_open(&outer, &tour.options), 0);
        weft_task *kept = go_into(outer, keep_runtime_open, &keeper);
        weft_task *forced = go_into(inner, wait_shielded, kept);
        wait_for_state(forced, WEFT_TASK_BLOCKED);
        wait_for(&keeper.started, 1);
        CHECK_EQ(weft_await(go_into(outer, force_close, inner)), -ETIMEDOUT);
        CHECK_EQ(weft_await(forced), -ECANCELED);
        CHECK_EQ(stats_of(outer).live, 1);
        CHECK_EQ(stats_of(outer).total.cancelled, 0);
        raise_by_one(&keeper.release);
        CHECK_EQ(weft_await(kept), 0);
        CHECK_EQ(weft_runtime_close(outer, -1), 0);
    }
}

static intptr_t spawn_into(void *arg)
{
    return weft_runtime_spawn(arg, NULL, echo, NULL, NULL);
}

/* A task that waits for admission in the closed runtime may need the worker of the closer to
 * return. */
static void runtime_close_in_a_task_lets_waiting_spawners_fail(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct keeper keeper = {.started = {0}};
        weft_runtime *inner = NULL;
        weft_runtime *outer = NULL;
        CHECK_EQ(weft_runtime_open(&outer, &tour.options), 0);
        tour.options.tasks_max = 1;
        tour.options.spawn_waits = true;
        CHECK_EQ(weft_runtime_open(&inner, &tour.options), 0);
        weft_task *kept = go_into(inner, keep_runtime_open, &keeper);
        weft_task *waiting = go_into(outer, spawn_into, inner);
        wait_for_state(waiting, WEFT_TASK_BLOCKED);
        CHECK_EQ(weft_await(go_into(outer, force_close, inner)), -ETIMEDOUT);
        CHECK_EQ(weft_await(waiting), -ESHUTDOWN);
        CHECK_EQ(weft_await(kept), -ECANCELED);
        CHECK_EQ(weft_runtime_close(outer, -1), 0);
    }
}

/* ---- a parked spare during a forced close ---------------------------------------------------- */

struct yielder {
    wf_atomic_u32 is_in_section;
    wf_atomic_u32 slices;
};

/* Yields forever; two threads that ran it at once would overlap here. */
static intptr_t yield_with_overlap_check(void *arg)
{
    struct yielder *yielder = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    do { /* until the runtime is closed by force */
        CHECK_EQ(wf_fetch_add_relaxed(&yielder->is_in_section, 1), 0);
        raise_by_one(&yielder->slices);
        (void)wf_fetch_sub_relaxed(&yielder->is_in_section, 1);
    } while (weft_yield() == 0);
    return 0;
}

/* Keeps its worker. */
static intptr_t occupy_until_done(void *arg)
{
    hold_for(arg, 1);
    return 0;
}

/* The only worker uses its queue in biased mode, and a spare is parked. The forced close wakes the
 * spare, which searches for work. */
static void close_with_parked_spare(const weft_runtime_options *options)
{
    enum { YIELDERS = 20 };
    struct yielder yielders[YIELDERS] = {{.slices = {0}}};
    weft_task *tasks[YIELDERS];
    weft_runtime *runtime = NULL;
    wf_atomic_u32 done = {0};
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    weft_task *task = go_into(runtime, occupy_until_done, &done);
    while (stats_of(runtime).workers_active < 2) {
        (void)sched_yield();
    }
    raise_by_one(&done);
    CHECK_EQ(weft_await(task), 0);
    while (stats_of(runtime).workers_active > 1) {
        (void)sched_yield();
    }
    for (int i = 0; i < YIELDERS; i++) {
        tasks[i] = go_into(runtime, yield_with_overlap_check, &yielders[i]);
    }
    wait_for(&yielders[YIELDERS - 1].slices, 50);
    CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    for (int i = 0; i < YIELDERS; i++) {
        CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
    }
}

static void forced_close_with_a_parked_spare_runs_no_task_twice(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        for (int round = 0; round < 10; round++) {
            tour.options.hog_ns = WEFT_MILLISECOND;
            close_with_parked_spare(&tour.options);
        }
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(forced_close_with_a_parked_spare_runs_no_task_twice),
    TAP_TEST(runtime_close_cancels_queued_tasks),
    TAP_TEST(runtime_close_cancels_waiting_tasks),
    TAP_TEST(runtime_close_waits_for_shielded_tasks),
    TAP_TEST(runtime_close_does_not_wake_a_blocked_task_repeatedly),
    TAP_TEST(runtime_close_forces_tasks_after_the_timeout),
    TAP_TEST(runtime_close_with_timeout_0_succeeds_without_tasks),
    TAP_TEST(runtime_close_wakes_joining_threads),
    TAP_TEST(runtime_close_in_a_task_works_for_other_runtimes_only),
    TAP_TEST(runtime_close_in_a_hook_fails_with_edeadlk),
    TAP_TEST(run_cancels_and_joins_tasks_left_by_the_first_task),
    TAP_TEST(run_may_end_before_its_tasks_begin),
    TAP_TEST(spawn_in_a_task_that_races_close_runs_or_fails),
    TAP_TEST(spawn_from_a_thread_that_races_close_runs_or_fails),
    TAP_TEST(forced_close_in_a_task_keeps_the_counts_of_both_runtimes),
    TAP_TEST(runtime_close_in_a_task_lets_waiting_spawners_fail),
};
TAP_MAIN(tests)
