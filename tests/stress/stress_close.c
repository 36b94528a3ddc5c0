/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a forced close ends a runtime whatever its tasks do, and the world stops however many
 *         callers request it; every handle ends, nothing is left behind, and other runtimes
 *         continue.
 * Method: iterations as in stress_sched.c: tasks of the runtime that will be closed wait for
 *         objects of a second runtime, while threads cancel and query these tasks; threads and
 *         tasks stop the world of tasks that keep plain data consistent only at suspension points.
 * Environment: see stress.h
 */
#include "stress/stress.h"

/* ---- forced close ---------------------------------------------------------------------------- */

enum { TASKS = 64, THREADS = 2 };

/* The runtime that is closed, another that stays, and the objects of the second for which tasks of
 * the first wait. */
struct scene {
    weft_runtime *closing;
    weft_runtime *host;
    weft_task *host_tasks[2];
    weft_task *tasks[TASKS];
    weft_task *children[TASKS]; /* children of the tasks */
    wf_atomic_u32 child_count;
    wf_atomic_u32 host_is_open;
    wf_atomic_u32 is_over;  /* the closer has returned */
    wf_atomic_u32 is_set;   /* all tasks are spawned */
    wf_atomic_u32 failures; /* of tasks without a handle */
    unsigned reported;      /* plain: one report at a time, the last by the closer */
};

static intptr_t never_end(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    return yield_until_asked(arg);
}

static intptr_t own_for_ever(void *arg)
{
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    int rc = weft_scope_go(&scope, never_end, arg);
    CHECK(rc == 0 || rc == -ESHUTDOWN);
    return weft_scope_close(&scope);
}

/* A task that is ended by force gives no handle back, so the test does. */
static intptr_t join_a_child(void *arg)
{
    struct scene *scene = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    weft_task *child = weft_go(never_end, arg);
    if (child == NULL) {
        return -ESHUTDOWN; /* too late: the runtime is closing */
    }
    scene->children[wf_fetch_add_relaxed(&scene->child_count, 1)] = child;
    return weft_join(child, NULL);
}

static intptr_t join_the_host(void *arg)
{
    struct scene *scene = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    return weft_join(scene->host_tasks[0], NULL);
}

static intptr_t race_the_host(void *arg)
{
    struct scene *scene = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    weft_task *tasks[] = {weft_task_ref(scene->host_tasks[0]), weft_task_ref(scene->host_tasks[1])};
    return weft_await_first(tasks, 2, NULL);
}

static intptr_t spawn_into_the_host(void *arg)
{
    struct scene *scene = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    return weft_runtime_spawn(scene->host, NULL, echo, NULL, NULL);
}

static intptr_t stop_the_host(void *arg)
{
    struct scene *scene = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    return weft_world_stop(scene->host);
}

static intptr_t fail(void *arg)
{
    if (arg != NULL) {
        weft_fail(-EIO, "expected failure");
    }
    return 0;
}

static intptr_t fail_unseen(void *arg)
{
    struct scene *scene = arg;
    raise_by_one(&scene->failures);
    return fail(arg);
}

static const weft_fn bodies[] = {
    echo,          never_end,     own_for_ever,        join_a_child, join_the_host,
    race_the_host, stop_the_host, spawn_into_the_host, fail,         stand_by_or_leave,
};
enum { BODIES = sizeof(bodies) / sizeof(bodies[0]) };

static void count_unseen(void *context, const weft_failure *failure)
{
    struct scene *scene = context;
    CHECK_EQ(failure->error, -EIO);
    scene->reported++;
}

static void expect_deadlocks(void *context, const weft_deadlock *deadlock)
{
    (void)context;
    (void)deadlock;
}

/* Cancels and queries while the runtime closes; afterwards every handle is still valid. */
static void *cancel_and_query(void *arg)
{
    struct scene *scene = arg;
    wait_for(&scene->is_set, 1);
    for (unsigned i = 0; wf_load_acquire(&scene->is_over) == 0; i = (i + 1) % TASKS) {
        CHECK_EQ(weft_cancel(scene->tasks[i]), 0);
        weft_task_unref(weft_task_ref(scene->tasks[i]));
        int rc = weft_try_join(scene->tasks[i], NULL);
        CHECK(rc == 0 || rc == -EAGAIN);
        (void)sched_yield();
    }
    for (unsigned i = 0; i < TASKS; i++) {
        CHECK_EQ(weft_join(scene->tasks[i], NULL), 0);
    }
    return NULL;
}

static void scene_begin(struct scene *scene, struct stress *stress)
{
    weft_runtime_options full = stress->options;
    full.tasks_max = 2; /* the host's own two tasks */
    full.spawn_waits = true;
    CHECK_EQ(weft_runtime_open(&scene->host, &full), 0);
    stress->options.on_failure = count_unseen;
    stress->options.on_deadlock = expect_deadlocks;
    stress->options.hook_context = scene;
    CHECK_EQ(weft_runtime_open(&scene->closing, &stress->options), 0);
    for (int i = 0; i < 2; i++) {
        scene->host_tasks[i] = go_into(scene->host, stand_by, &scene->host_is_open);
    }
    CHECK_EQ(weft_world_stop(scene->host), 0);
    for (unsigned i = 0; i < TASKS; i++) {
        static const enum weft_priority priorities[] = {WEFT_PRIORITY_NORMAL, WEFT_PRIORITY_NORMAL,
                                                        WEFT_PRIORITY_HIGH, WEFT_PRIORITY_LOW};
        const weft_task_options options = {.priority = priorities[i % 4],
                                           .is_pinned = i % 5 == 0,
                                           .name = i % 3 == 0 ? "named" : NULL,
                                           .stack_size = i % 7 == 0 ? 128 * 1024 : 0};
        const weft_fn body = bodies[wf_random_below(&stress->random, BODIES)];
        void *arg = body == stand_by_or_leave ? (void *)&scene->is_over : (void *)scene;
        CHECK_EQ(weft_runtime_spawn(scene->closing, &scene->tasks[i], body, arg, &options), 0);
        if (body == fail) {
            CHECK_EQ(weft_runtime_spawn(scene->closing, NULL, fail_unseen, arg, &options), 0);
        }
    }
    raise_by_one(&scene->is_set);
}

static void scene_end(struct scene *scene)
{
    for (unsigned i = 0; i < TASKS; i++) {
        weft_task_unref(scene->tasks[i]);
        weft_task_unref(scene->children[i]);
    }
    CHECK_EQ(weft_world_start(scene->host), 0);
    raise_by_one(&scene->host_is_open);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_join(scene->host_tasks[i], NULL), 0);
        weft_task_unref(scene->host_tasks[i]);
    }
    wait_until_empty(scene->host);
    /* the limit admits tasks again */
    CHECK_EQ(weft_await(go_into(scene->host, echo, (void *)7)), 7);
    CHECK_EQ(weft_runtime_close(scene->host, -1), 0);
}

static void runtime_forced_close_works_in_any_state(void)
{
    for (struct stress stress = {.rounds = 0}; stress_next(&stress);) {
        const uint64_t blocks = blocks_out();
        struct scene *scene = calloc(1, sizeof(*scene));
        CHECK(scene != NULL);
        scene_begin(scene, &stress);
        pthread_t threads[THREADS];
        for (unsigned i = 0; i < THREADS; i++) {
            start_thread(&threads[i], cancel_and_query, scene);
        }
        for (unsigned i = wf_random_below(&stress.random, 200); i > 0; i--) {
            (void)sched_yield(); /* so that some tasks have begun, some not, and some have ended */
        }
        int64_t grace_ns = wf_random_below(&stress.random, 3) * INT64_C(500000);
        int rc = weft_runtime_close(scene->closing, grace_ns);
        CHECK(rc == -ETIMEDOUT || rc == 0);
        CHECK_EQ(scene->reported, wf_load_acquire(&scene->failures));
        raise_by_one(&scene->is_over);
        for (unsigned i = 0; i < THREADS; i++) {
            CHECK_EQ(wf_thread_join(threads[i]), 0);
        }
        for (unsigned i = 0; i < TASKS; i++) {
            CHECK_EQ(weft_try_join(scene->tasks[i], NULL), 0);
        }
        scene_end(scene);
        stress.tasks += TASKS;
        CHECK_EQ(blocks_out(), blocks);
        free(scene);
    }
}

/* ---- stopping the world ---------------------------------------------------------------------- */

enum { CELLS = 24, STOPPERS = 2, STOPS = 60 };

struct cell {
    struct world *world;
    uint64_t left; /* plain: equal to right at each suspension point of the task */
    uint64_t right;
    uint64_t own; /* plain: increments by the task itself */
};

struct world {
    weft_runtime *runtime;
    struct cell cells[CELLS];
    wf_atomic_u32 stops;
    wf_atomic_u32 is_over;
};

static intptr_t update_cell(void *arg)
{
    struct cell *cell = arg;
    while (wf_load_acquire(&cell->world->is_over) == 0) { /* to raise_by_one */
        cell->left++;
        cell->own++;
        cell->right++;
        CHECK_EQ(weft_yield(), 0);
    }
    return 0;
}

static void stop_and_check(struct world *world)
{
    CHECK_EQ(weft_world_stop(world->runtime), 0);
    for (unsigned i = 0; i < CELLS; i++) {
        struct cell *cell = &world->cells[i];
        CHECK_EQ(cell->left, cell->right);
        cell->left++; /* seen by the task when it continues */
        cell->right++;
    }
    CHECK_EQ(weft_world_start(world->runtime), 0);
    raise_by_one(&world->stops);
}

static void *stop_often(void *arg)
{
    for (unsigned i = 0; i < STOPS; i++) {
        stop_and_check(arg);
        let_others_run();
    }
    return NULL;
}

static intptr_t stop_often_in_a_task(void *arg)
{
    return (intptr_t)stop_often(arg);
}

static void world_stops_repeatedly_from_threads_and_tasks(void)
{
    for (struct stress stress = {.rounds = 0}; stress_next(&stress);) {
        struct world world = {.runtime = NULL};
        weft_task *updating[CELLS];
        weft_task *stopping[STOPPERS];
        pthread_t threads[STOPPERS];
        CHECK_EQ(weft_runtime_open(&world.runtime, &stress.options), 0);
        for (unsigned i = 0; i < CELLS; i++) {
            world.cells[i].world = &world;
            updating[i] = go_into(world.runtime, update_cell, &world.cells[i]);
        }
        for (unsigned i = 0; i < STOPPERS; i++) {
            stopping[i] = go_into(world.runtime, stop_often_in_a_task, &world);
            start_thread(&threads[i], stop_often, &world);
        }
        for (unsigned i = 0; i < STOPPERS; i++) {
            CHECK_EQ(weft_await(stopping[i]), 0);
            CHECK_EQ(wf_thread_join(threads[i]), 0);
        }
        raise_by_one(&world.is_over);
        for (unsigned i = 0; i < CELLS; i++) {
            CHECK_EQ(weft_await(updating[i]), 0);
            const struct cell *cell = &world.cells[i];
            CHECK_EQ(cell->left, cell->right);
            CHECK_EQ(cell->left, cell->own + wf_load_acquire(&world.stops));
        }
        CHECK_EQ(wf_load_acquire(&world.stops), 2 * STOPPERS * STOPS);
        CHECK_EQ(stats_of(world.runtime).stops, 2 * STOPPERS * STOPS);
        wait_until_empty(world.runtime);
        stress.tasks += CELLS + STOPPERS;
        CHECK_EQ(weft_runtime_close(world.runtime, -1), 0);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(runtime_forced_close_works_in_any_state, LIMIT_S),
    TAP_TEST_LIMIT(world_stops_repeatedly_from_threads_and_tasks, LIMIT_S),
};
TAP_MAIN(tests)
