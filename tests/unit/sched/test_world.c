/* SPDX-License-Identifier: MIT */
/*
 * Goal:   while the world is stopped no task runs but the caller; who stops it has it alone; and
 *         everything goes on afterwards.
 * Method: tasks that count in plain memory, which may be read only while they stand still:
 *         ThreadSanitizer sees every reader that comes too early.
 */
#include "aids.h"
#include "sched_aids.h"

enum { RUNNERS = 4, PAUSES = 2 };

struct world {
    weft_runtime *runtime;
    wf_atomic_u32 stop;
    uint64_t counts[RUNNERS]; /* plain: each task its own; all of them for who stopped the world */
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

/* Gives way to whoever would still run; then all counts are what they were. */
static uint64_t check_stands_still(const struct world *world)
{
    const uint64_t before = sum(world);
    for (int i = 0; i < 10; i++) {
        (void)sched_yield();
        CHECK_EQ(sum(world), before);
    }
    return before;
}

/* Waits until every task made a step; the world must be running. */
static void check_goes_on(struct world *world)
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
        check_goes_on(&world);
        CHECK_EQ(weft_stop_the_world(runtime), 0);
        CHECK(check_stands_still(&world) > last);
        last = sum(&world);
        CHECK_EQ(weft_start_the_world(runtime), 0);
    }
    check_goes_on(&world);
    world_end(&world);
    CHECK_EQ(stats_of(runtime).stops, PAUSES);
}

/* part of behaviour 66 */
static void a_thread_stops_the_world_again_and_again(void)
{
    open_under(EVERYWHERE, stop_from_a_thread);
}

static intptr_t stop_as_a_task(void *arg)
{
    struct world *world = arg;
    for (int i = 0; i < PAUSES; i++) {
        check_goes_on(world);
        CHECK_EQ(weft_stop_the_world(world->runtime), 0);
        (void)check_stands_still(world);
        CHECK_EQ(weft_start_the_world(world->runtime), 0);
    }
    return 0;
}

static void let_a_task_stop(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct world world = {.runtime = NULL};
    world_begin(&world, runtime);
    CHECK_EQ(weft_await(go_into(runtime, stop_as_a_task, &world)), 0);
    check_goes_on(&world);
    world_end(&world);
}

static void a_task_stops_the_world_and_goes_on_alone(void)
{
    open_under(EVERYWHERE, let_a_task_stop);
}

static void stop_while_all_sleep(weft_runtime *runtime, const struct setting *setting)
{
    while (stats_of(runtime).parked < setting->workers) {
        (void)sched_yield();
    }
    wf_atomic_u32 ran = {0};
    CHECK_EQ(weft_stop_the_world(runtime), 0);
    weft_task *task = go_into(runtime, count_up, &ran); /* may be spawned, not run */
    for (int i = 0; i < 50; i++) {
        (void)sched_yield();
        CHECK_EQ(wf_load_acquire(&ran), 0);
    }
    CHECK_EQ(weft_start_the_world(runtime), 0);
    CHECK_EQ(weft_await(task), 0);
}

/* behaviour 65 */
static void workers_that_sleep_stand_still_already(void)
{
    open_under(EVERYWHERE, stop_while_all_sleep);
}

static void *start_what_another_stopped(void *arg)
{
    CHECK_EQ(weft_start_the_world(arg), -EPERM);
    return NULL;
}

static void nest(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct world world = {.runtime = NULL};
    pthread_t thread;
    CHECK_EQ(weft_start_the_world(runtime), -EPERM); /* nobody stopped it */
    world_begin(&world, runtime);
    check_goes_on(&world);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_stop_the_world(runtime), 0);
    }
    (void)check_stands_still(&world);
    CHECK_EQ(wf_thread_start(&thread, start_what_another_stopped, runtime, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_start_the_world(runtime), 0);
        (void)check_stands_still(&world);
    }
    CHECK_EQ(weft_start_the_world(runtime), 0);
    CHECK_EQ(weft_start_the_world(runtime), -EPERM);
    check_goes_on(&world);
    world_end(&world);
}

/* behaviour 66 */
static void stops_nest_and_belong_to_who_asked(void)
{
    open_under(EVERYWHERE, nest);
}

struct pause {
    weft_runtime *runtime;
    wf_atomic_u32 begun;
    wf_atomic_u32 open;
    wf_atomic_u32 thread_id;
};

static intptr_t begin_and_hold(void *arg)
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
    CHECK_EQ(weft_stop_the_world(pause->runtime), 0);
    CHECK_EQ(weft_start_the_world(pause->runtime), 0);
    return NULL;
}

/* One worker is held until the stopper sleeps: it waited at least from then to the release. */
static void measure_a_stop(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct pause pause = {.runtime = runtime};
    pthread_t thread;
    weft_task *task = go_into(runtime, begin_and_hold, &pause);
    wait_for(&pause.begun, 1);
    const int64_t begin_ns = wf_clock_now();
    CHECK_EQ(wf_thread_start(&thread, stop_once, &pause, NULL), 0);
    wait_for(&pause.thread_id, 1);
    wait_until_asleep((int)wf_load_relaxed(&pause.thread_id));
    const int64_t asleep_ns = wf_clock_now();
    CHECK_EQ(stats_of(runtime).stops, 0); /* not all stand still */
    const int64_t open_ns = wf_clock_now();
    raise_by_one(&pause.open);
    CHECK_EQ(wf_thread_join(thread), 0);
    const int64_t end_ns = wf_clock_now();
    CHECK_EQ(weft_await(task), 0);
    const weft_stats stats = stats_of(runtime);
    CHECK_EQ(stats.stops, 1);
    CHECK(stats.stop_ns_max >= (uint64_t)(open_ns - asleep_ns));
    CHECK(stats.stop_ns_max <= (uint64_t)(end_ns - begin_ns));
    CHECK_EQ(stats.stop_ns_total, stats.stop_ns_max);
}

/* part of behaviour 66: how long it took can be read */
static void the_time_until_all_stand_still_is_measured(void)
{
    open_under(EVERYWHERE, measure_a_stop);
}

enum { STOPPERS = 3, STOPS = 20 };

struct turns {
    weft_runtime *runtime;
    uint64_t plain; /* whoever stopped the world has it alone */
};

static void take_turns(struct turns *turns)
{
    for (int i = 0; i < STOPS; i++) {
        CHECK_EQ(weft_stop_the_world(turns->runtime), 0);
        turns->plain++;
        CHECK_EQ(weft_start_the_world(turns->runtime), 0);
    }
}

static void *take_turns_as_thread(void *arg)
{
    take_turns(arg);
    return NULL;
}

static intptr_t take_turns_as_task(void *arg)
{
    take_turns(arg);
    return 0;
}

static void stop_in_turns(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct turns turns = {.runtime = runtime};
    pthread_t threads[STOPPERS];
    weft_task *tasks[STOPPERS];
    for (int i = 0; i < STOPPERS; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], take_turns_as_thread, &turns, NULL), 0);
        tasks[i] = go_into(runtime, take_turns_as_task, &turns);
    }
    for (int i = 0; i < STOPPERS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    CHECK_EQ(weft_await_all(tasks, STOPPERS, NULL), 0);
    CHECK_EQ(turns.plain, 2 * STOPPERS * STOPS);
    CHECK_EQ(stats_of(runtime).stops, 2 * STOPPERS * STOPS);
    CHECK(stats_of(runtime).stop_ns_total >= stats_of(runtime).stop_ns_max);
}

static void tasks_and_threads_stop_the_world_in_turn(void)
{
    open_under(EVERYWHERE, stop_in_turns);
}

static intptr_t check_while_stopped(void *arg)
{
    struct world world = {.stop = {0}};
    (void)arg;
    world_begin(&world, weft_runtime_self());
    CHECK_EQ(weft_stop_the_world(world.runtime), 0);
    const uint64_t before = sum(&world);
    for (int i = 0; i < 1000; i++) { /* more than a task may do before it has to yield */
        CHECK_EQ(weft_check(), 0);
    }
    CHECK_EQ(sum(&world), before);
    CHECK_EQ(weft_start_the_world(world.runtime), 0);
    world_end(&world);
    return 0;
}

/* Nobody else may run: a check that gives way, unseen, to others would never come back. */
static void who_stopped_the_world_does_not_yield_unasked(void)
{
    run_under(EVERYWHERE, check_while_stopped);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_thread_stops_the_world_again_and_again),
    TAP_TEST_LIMIT(a_task_stops_the_world_and_goes_on_alone, 60), /* every worker has to come by */
    TAP_TEST(workers_that_sleep_stand_still_already),
    TAP_TEST(stops_nest_and_belong_to_who_asked),
    TAP_TEST(the_time_until_all_stand_still_is_measured),
    TAP_TEST(tasks_and_threads_stop_the_world_in_turn),
    TAP_TEST(who_stopped_the_world_does_not_yield_unasked),
};
TAP_MAIN(tests)
