/* SPDX-License-Identifier: MIT */
/*
 * Goal:   while the world is stopped, only the stopper runs; stops are exclusive; and all tasks
 *         continue afterwards.
 * Method: tasks that count in plain memory, which may be read only while they are stopped:
 *         ThreadSanitizer sees every read that comes too early.
 */
#include "helpers.h"
#include "sched_helpers.h"

enum { RUNNERS = 4, PAUSES = 2 };

struct world {
    weft_runtime *runtime;
    wf_atomic_u32 stop;
    uint64_t counts[RUNNERS]; /* plain: written by its task, read by the stopper */
    struct runner {
        struct world *world;
        uint64_t *count;
    } runners[RUNNERS];
    weft_task *tasks[RUNNERS];
};

static intptr_t run_and_count(void *arg)
{
    const struct runner *runner = arg;
    while (wf_load_relaxed(&runner->world->stop) == 0) {
        *runner->count += 1;
        (void)(*runner->count % 4 == 0 ? weft_check() : weft_yield());
    }
    return 0;
}

static void world_begin(struct world *world, weft_runtime *runtime)
{
    world->runtime = runtime;
    for (int i = 0; i < RUNNERS; i++) {
        world->runners[i] = (struct runner){world, &world->counts[i]};
        world->tasks[i] = go_into(runtime, run_and_count, &world->runners[i]);
    }
}

static void world_end(struct world *world)
{
    wf_store_relaxed(&world->stop, 1);
    CHECK_EQ(weft_await_all(world->tasks, RUNNERS, NULL), 0);
}

static uint64_t sum(const struct world *world)
{
    uint64_t sum = 0;
    for (int i = 0; i < RUNNERS; i++) {
        sum += world->counts[i];
    }
    return sum;
}

/* Yields the CPU to any task that still runs; then checks that the counts are unchanged. */
static uint64_t check_stopped(const struct world *world)
{
    const uint64_t before = sum(world);
    for (int i = 0; i < 10; i++) {
        (void)sched_yield();
        CHECK_EQ(sum(world), before);
    }
    return before;
}

/* Waits until every task made a step; the world must be running. */
static void check_running(struct world *world)
{
    for (int i = 0; i < RUNNERS; i++) {
        const uint64_t runs = info_of(world->tasks[i]).runs;
        while (info_of(world->tasks[i]).runs == runs) {
            let_others_run();
        }
    }
}

static void stop_from_a_thread(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct world world = {.runtime = NULL};
    world_begin(&world, runtime);
    uint64_t last = 0;
    for (int i = 0; i < PAUSES; i++) {
        check_running(&world);
        CHECK_EQ(weft_world_stop(runtime), 0);
        CHECK(check_stopped(&world) > last);
        last = sum(&world);
        CHECK_EQ(weft_world_start(runtime), 0);
    }
    check_running(&world);
    world_end(&world);
    CHECK_EQ(stats_of(runtime).stops, PAUSES);
}

/* part of behaviour 66 */
static void world_stop_from_a_thread_can_be_repeated(void)
{
    open_under(EVERYWHERE, stop_from_a_thread);
}

static intptr_t stop_as_a_task(void *arg)
{
    struct world *world = arg;
    for (int i = 0; i < PAUSES; i++) {
        check_running(world);
        CHECK_EQ(weft_world_stop(world->runtime), 0);
        (void)check_stopped(world);
        CHECK_EQ(weft_world_start(world->runtime), 0);
    }
    return 0;
}

static void stop_in_task(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct world world = {.runtime = NULL};
    world_begin(&world, runtime);
    CHECK_EQ(weft_await(go_into(runtime, stop_as_a_task, &world)), 0);
    check_running(&world);
    world_end(&world);
}

static void world_stop_from_a_task_lets_only_that_task_run(void)
{
    open_under(EVERYWHERE, stop_in_task);
}

static void stop_while_all_sleep(weft_runtime *runtime, const struct setting *setting)
{
    while (stats_of(runtime).parked < setting->workers) {
        (void)sched_yield();
    }
    wf_atomic_u32 ran = {0};
    CHECK_EQ(weft_world_stop(runtime), 0);
    weft_task *task = go_into(runtime, count_up, &ran); /* may be spawned, but does not run */
    for (int i = 0; i < 50; i++) {
        (void)sched_yield();
        CHECK_EQ(wf_load_acquire(&ran), 0);
    }
    CHECK_EQ(weft_world_start(runtime), 0);
    CHECK_EQ(weft_await(task), 0);
}

/* behaviour 65 */
static void world_stop_works_while_all_workers_are_parked(void)
{
    open_under(EVERYWHERE, stop_while_all_sleep);
}

static void *start_foreign_stop(void *arg)
{
    CHECK_EQ(weft_world_start(arg), -EPERM);
    return NULL;
}

static void nest_stops(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct world world = {.runtime = NULL};
    pthread_t thread;
    CHECK_EQ(weft_world_start(runtime), -EPERM); /* the world is not stopped */
    world_begin(&world, runtime);
    check_running(&world);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_world_stop(runtime), 0);
    }
    (void)check_stopped(&world);
    CHECK_EQ(wf_thread_start(&thread, start_foreign_stop, runtime, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_world_start(runtime), 0);
        (void)check_stopped(&world);
    }
    CHECK_EQ(weft_world_start(runtime), 0);
    CHECK_EQ(weft_world_start(runtime), -EPERM);
    check_running(&world);
    world_end(&world);
}

/* behaviour 66 */
static void world_stop_nests_and_only_its_stopper_can_start(void)
{
    open_under(EVERYWHERE, nest_stops);
}

struct pause {
    weft_runtime *runtime;
    wf_atomic_u32 begun;
    wf_atomic_u32 open;
    wf_atomic_u32 thread_id;
};

static intptr_t begin_and_occupy(void *arg)
{
    struct pause *pause = arg;
    raise_by_one(&pause->begun);
    hold_for(&pause->open, 1);
    return 0;
}

static void *stop_once(void *arg)
{
    struct pause *pause = arg;
    (void)wf_fetch_add_release(&pause->thread_id, (uint32_t)wf_thread_id()); /* to wait_for() */
    CHECK_EQ(weft_world_stop(pause->runtime), 0);
    CHECK_EQ(weft_world_start(pause->runtime), 0);
    return NULL;
}

/* One worker is occupied until the stopper sleeps: it waits at least from then to the release. */
static void measure_stop(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct pause pause = {.runtime = runtime};
    pthread_t thread;
    weft_task *task = go_into(runtime, begin_and_occupy, &pause);
    wait_for(&pause.begun, 1);
    const int64_t begin_ns = wf_clock_now();
    CHECK_EQ(wf_thread_start(&thread, stop_once, &pause, NULL), 0);
    wait_for(&pause.thread_id, 1);
    wait_until_asleep((int)wf_load_relaxed(&pause.thread_id));
    const int64_t asleep_ns = wf_clock_now();
    CHECK_EQ(stats_of(runtime).stops, 0); /* the world is not stopped yet */
    const int64_t open_ns = wf_clock_now();
    raise_by_one(&pause.open);
    CHECK_EQ(wf_thread_join(thread), 0);
    const int64_t end_ns = wf_clock_now();
    CHECK_EQ(weft_await(task), 0);
    const weft_runtime_stats stats = stats_of(runtime);
    CHECK_EQ(stats.stops, 1);
    CHECK(stats.stop_ns_max >= (uint64_t)(open_ns - asleep_ns));
    CHECK(stats.stop_ns_max <= (uint64_t)(end_ns - begin_ns));
    CHECK_EQ(stats.stop_ns_total, stats.stop_ns_max);
}

/* part of behaviour 66: the time can be read */
static void world_stop_time_is_measured(void)
{
    open_under(EVERYWHERE, measure_stop);
}

enum { STOPPERS = 3, STOPS = 20 };

struct exclusion {
    weft_runtime *runtime;
    uint64_t plain; /* only the stopper accesses it */
};

static void stop_and_count(struct exclusion *exclusion)
{
    for (int i = 0; i < STOPS; i++) {
        CHECK_EQ(weft_world_stop(exclusion->runtime), 0);
        exclusion->plain++;
        CHECK_EQ(weft_world_start(exclusion->runtime), 0);
    }
}

static void *stop_and_count_in_thread(void *arg)
{
    stop_and_count(arg);
    return NULL;
}

static intptr_t stop_and_count_in_task(void *arg)
{
    stop_and_count(arg);
    return 0;
}

static void stop_from_all(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct exclusion exclusion = {.runtime = runtime};
    pthread_t threads[STOPPERS];
    weft_task *tasks[STOPPERS];
    for (int i = 0; i < STOPPERS; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], stop_and_count_in_thread, &exclusion, NULL), 0);
        tasks[i] = go_into(runtime, stop_and_count_in_task, &exclusion);
    }
    for (int i = 0; i < STOPPERS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    CHECK_EQ(weft_await_all(tasks, STOPPERS, NULL), 0);
    CHECK_EQ(exclusion.plain, 2 * STOPPERS * STOPS);
    CHECK_EQ(stats_of(runtime).stops, 2 * STOPPERS * STOPS);
    CHECK(stats_of(runtime).stop_ns_total >= stats_of(runtime).stop_ns_max);
}

static void world_stop_is_exclusive_among_tasks_and_threads(void)
{
    open_under(EVERYWHERE, stop_from_all);
}

static intptr_t check_while_stopped(void *arg)
{
    struct world world = {.stop = {0}};
    (void)arg;
    world_begin(&world, weft_runtime_self());
    CHECK_EQ(weft_world_stop(world.runtime), 0);
    const uint64_t before = sum(&world);
    for (int i = 0; i < 1000; i++) { /* more than the budget of a slice */
        CHECK_EQ(weft_check(), 0);
    }
    CHECK_EQ(sum(&world), before);
    CHECK_EQ(weft_world_start(world.runtime), 0);
    world_end(&world);
    return 0;
}

/* No other task may run: a check that yielded would never return. */
static void world_stopper_does_not_yield_in_weft_check(void)
{
    run_under(EVERYWHERE, check_while_stopped);
}

static const struct tap_test tests[] = {
    TAP_TEST(world_stop_from_a_thread_can_be_repeated),
    TAP_TEST_LIMIT(world_stop_from_a_task_lets_only_that_task_run, 60), /* waits for all workers */
    TAP_TEST(world_stop_works_while_all_workers_are_parked),
    TAP_TEST(world_stop_nests_and_only_its_stopper_can_start),
    TAP_TEST(world_stop_time_is_measured),
    TAP_TEST(world_stop_is_exclusive_among_tasks_and_threads),
    TAP_TEST(world_stopper_does_not_yield_in_weft_check),
};
TAP_MAIN(tests)
