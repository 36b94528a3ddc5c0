/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a runtime goes by force whatever its tasks do, and the world stops however many ask;
 * every handle ends, nothing is left behind, and others that were involved go on. Method: storms as
 * in stress_sched.c: tasks of a runtime that is about to go wait for all that a second one has,
 * while threads cancel and look at them; threads and tasks stop the world of tasks that leave plain
 * data in an order which only holds between two waits.
 *
 * Environment: see storm.h
 */
#include "stress/storm.h"

/* ---- closing by force ------------------------------------------------------------------------ */

enum { VICTIMS = 64, RIVALS = 2 };

/* The runtime that goes, another that stays, and what tasks of the first want of it. */
struct siege {
    weft_runtime *doomed;
    weft_runtime *host;
    weft_task *host_tasks[2];
    weft_task *victims[VICTIMS];
    weft_task *children[VICTIMS]; /* of victims */
    wf_atomic_u32 child_count;
    wf_atomic_u32 host_is_open;
    wf_atomic_u32 races;    /* begun: they will never give their handles back */
    wf_atomic_u32 is_over;  /* the closer has returned */
    wf_atomic_u32 is_set;   /* all victims are there */
    wf_atomic_u32 failures; /* of tasks without a handle */
    unsigned reported;      /* plain: one report at a time, the last by the closer */
};

static intptr_t never_end(void *arg)
{
    CHECK_EQ(weft_shield(1), 0);
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

/* Whoever is forced gives no handle back, so it leaves that to others. */
static intptr_t join_a_child(void *arg)
{
    struct siege *siege = arg;
    CHECK_EQ(weft_shield(1), 0);
    weft_task *child = weft_go(never_end, arg);
    if (child == NULL) {
        return -ESHUTDOWN; /* it was late */
    }
    siege->children[wf_fetch_add_relaxed(&siege->child_count, 1)] = child;
    return weft_join(child, NULL);
}

static intptr_t join_the_host(void *arg)
{
    struct siege *siege = arg;
    CHECK_EQ(weft_shield(1), 0);
    return weft_join(siege->host_tasks[0], NULL);
}

static intptr_t race_the_host(void *arg)
{
    struct siege *siege = arg;
    CHECK_EQ(weft_shield(1), 0);
    weft_task *tasks[] = {weft_task_ref(siege->host_tasks[0]), weft_task_ref(siege->host_tasks[1])};
    raise_by_one(&siege->races);
    return weft_race(tasks, 2, NULL);
}

static intptr_t spawn_into_the_host(void *arg)
{
    struct siege *siege = arg;
    CHECK_EQ(weft_shield(1), 0);
    return weft_runtime_spawn(siege->host, NULL, echo, NULL, NULL);
}

static intptr_t stop_the_host(void *arg)
{
    struct siege *siege = arg;
    CHECK_EQ(weft_shield(1), 0);
    return weft_stop_the_world(siege->host);
}

static intptr_t fail(void *arg)
{
    if (arg != NULL) {
        weft_fail(-EIO, "as it must");
    }
    return 0;
}

static intptr_t fail_unseen(void *arg)
{
    struct siege *siege = arg;
    raise_by_one(&siege->failures);
    return fail(arg);
}

static const weft_fn fates[] = {
    echo,          never_end,     own_for_ever,        join_a_child, join_the_host,
    race_the_host, stop_the_host, spawn_into_the_host, fail,         stand_by_or_leave,
};
enum { FATES = sizeof(fates) / sizeof(fates[0]) };

static void count_unseen(void *context, const weft_failure *failure)
{
    struct siege *siege = context;
    CHECK_EQ(failure->error, -EIO);
    siege->reported++;
}

static void expect_deadlocks(void *context, const weft_deadlock *deadlock)
{
    (void)context;
    (void)deadlock;
}

/* Cancels and looks while the runtime goes; then every handle is still one. */
static void *harass(void *arg)
{
    struct siege *siege = arg;
    wait_for(&siege->is_set, 1);
    for (unsigned i = 0; wf_load_acquire(&siege->is_over) == 0; i = (i + 1) % VICTIMS) {
        CHECK_EQ(weft_cancel(siege->victims[i]), 0);
        weft_drop(weft_task_ref(siege->victims[i]));
        int rc = weft_try_join(siege->victims[i], NULL);
        CHECK(rc == 0 || rc == -EAGAIN);
        (void)sched_yield();
    }
    for (unsigned i = 0; i < VICTIMS; i++) {
        CHECK_EQ(weft_join(siege->victims[i], NULL), 0);
    }
    return NULL;
}

static void siege_begin(struct siege *siege, struct storm *storm)
{
    weft_options full = storm->options;
    full.tasks_max = 2; /* which the host's own tasks are */
    full.spawn_waits = true;
    CHECK_EQ(weft_runtime_open(&siege->host, &full), 0);
    storm->options.on_failure = count_unseen;
    storm->options.on_deadlock = expect_deadlocks;
    storm->options.hook_context = siege;
    CHECK_EQ(weft_runtime_open(&siege->doomed, &storm->options), 0);
    for (int i = 0; i < 2; i++) {
        siege->host_tasks[i] = go_into(siege->host, stand_by, &siege->host_is_open);
    }
    CHECK_EQ(weft_stop_the_world(siege->host), 0);
    for (unsigned i = 0; i < VICTIMS; i++) {
        static const enum weft_priority priorities[] = {WEFT_PRIORITY_NORMAL, WEFT_PRIORITY_NORMAL,
                                                        WEFT_PRIORITY_HIGH, WEFT_PRIORITY_LOW};
        const weft_task_options options = {.priority = priorities[i % 4],
                                           .is_pinned = i % 5 == 0,
                                           .name = i % 3 == 0 ? "victim" : NULL,
                                           .stack_size = i % 7 == 0 ? 128 * 1024 : 0};
        const weft_fn fate = fates[wf_random_below(&storm->random, FATES)];
        void *arg = fate == stand_by_or_leave ? (void *)&siege->is_over : (void *)siege;
        CHECK_EQ(weft_runtime_spawn(siege->doomed, &siege->victims[i], fate, arg, &options), 0);
        if (fate == fail) {
            CHECK_EQ(weft_runtime_spawn(siege->doomed, NULL, fail_unseen, arg, &options), 0);
        }
    }
    raise_by_one(&siege->is_set);
}

static void siege_end(struct siege *siege)
{
    for (unsigned i = 0; i < VICTIMS; i++) {
        weft_drop(siege->victims[i]);
        weft_drop(siege->children[i]);
    }
    CHECK_EQ(weft_start_the_world(siege->host), 0);
    raise_by_one(&siege->host_is_open);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_join(siege->host_tasks[i], NULL), 0);
        for (uint32_t k = 0; k <= wf_load_acquire(&siege->races); k++) { /* ours too */
            weft_drop(siege->host_tasks[i]);
        }
    }
    wait_until_empty(siege->host);
    CHECK_EQ(weft_await(go_into(siege->host, echo, (void *)7)), 7); /* there is room again */
    CHECK_EQ(weft_runtime_close(siege->host, -1), 0);
}

static void a_runtime_goes_by_force_in_any_state(void)
{
    for (struct storm storm = {.rounds = 0}; storm_next(&storm);) {
        const uint64_t blocks = blocks_out();
        struct siege *siege = calloc(1, sizeof(*siege));
        CHECK(siege != NULL);
        siege_begin(siege, &storm);
        pthread_t rivals[RIVALS];
        for (unsigned i = 0; i < RIVALS; i++) {
            start_thread(&rivals[i], harass, siege);
        }
        for (unsigned i = wf_random_below(&storm.random, 200); i > 0; i--) {
            (void)sched_yield(); /* so that some have begun, or not, or have ended */
        }
        int64_t grace_ns = wf_random_below(&storm.random, 3) * INT64_C(500000);
        int rc = weft_runtime_close(siege->doomed, grace_ns);
        CHECK(rc == -ETIMEDOUT || rc == 0);
        CHECK_EQ(siege->reported, wf_load_acquire(&siege->failures));
        raise_by_one(&siege->is_over);
        for (unsigned i = 0; i < RIVALS; i++) {
            CHECK_EQ(wf_thread_join(rivals[i]), 0);
        }
        for (unsigned i = 0; i < VICTIMS; i++) {
            CHECK_EQ(weft_try_join(siege->victims[i], NULL), 0);
        }
        siege_end(siege);
        storm.tasks += VICTIMS;
        CHECK_EQ(blocks_out(), blocks);
        free(siege);
    }
}

/* ---- stopping the world ---------------------------------------------------------------------- */

enum { CELLS = 24, STOPPERS = 2, STOPS = 60 };

struct cell {
    struct globe *globe;
    uint64_t left; /* plain: the same as right, whenever the task is not between two waits */
    uint64_t right;
    uint64_t own; /* plain: what the task itself has added */
};

struct globe {
    weft_runtime *runtime;
    struct cell cells[CELLS];
    wf_atomic_u32 stops;
    wf_atomic_u32 is_over;
};

static intptr_t turn(void *arg)
{
    struct cell *cell = arg;
    while (wf_load_acquire(&cell->globe->is_over) == 0) { /* to raise_by_one */
        cell->left++;
        cell->own++;
        cell->right++;
        CHECK_EQ(weft_yield(), 0);
    }
    return 0;
}

static void stop_and_look(struct globe *globe)
{
    CHECK_EQ(weft_stop_the_world(globe->runtime), 0);
    for (unsigned i = 0; i < CELLS; i++) {
        struct cell *cell = &globe->cells[i];
        CHECK_EQ(cell->left, cell->right);
        cell->left++; /* seen by the task when it goes on */
        cell->right++;
    }
    CHECK_EQ(weft_start_the_world(globe->runtime), 0);
    raise_by_one(&globe->stops);
}

static void *stop_often(void *arg)
{
    for (unsigned i = 0; i < STOPS; i++) {
        stop_and_look(arg);
        let_others_run();
    }
    return NULL;
}

static intptr_t stop_often_in_a_task(void *arg)
{
    return (intptr_t)stop_often(arg);
}

static void the_world_stops_again_and_again(void)
{
    for (struct storm storm = {.rounds = 0}; storm_next(&storm);) {
        struct globe globe = {.runtime = NULL};
        weft_task *turning[CELLS];
        weft_task *stopping[STOPPERS];
        pthread_t threads[STOPPERS];
        CHECK_EQ(weft_runtime_open(&globe.runtime, &storm.options), 0);
        for (unsigned i = 0; i < CELLS; i++) {
            globe.cells[i].globe = &globe;
            turning[i] = go_into(globe.runtime, turn, &globe.cells[i]);
        }
        for (unsigned i = 0; i < STOPPERS; i++) {
            stopping[i] = go_into(globe.runtime, stop_often_in_a_task, &globe);
            start_thread(&threads[i], stop_often, &globe);
        }
        for (unsigned i = 0; i < STOPPERS; i++) {
            CHECK_EQ(weft_await(stopping[i]), 0);
            CHECK_EQ(wf_thread_join(threads[i]), 0);
        }
        raise_by_one(&globe.is_over);
        for (unsigned i = 0; i < CELLS; i++) {
            CHECK_EQ(weft_await(turning[i]), 0);
            const struct cell *cell = &globe.cells[i];
            CHECK_EQ(cell->left, cell->right);
            CHECK_EQ(cell->left, cell->own + wf_load_acquire(&globe.stops));
        }
        CHECK_EQ(wf_load_acquire(&globe.stops), 2 * STOPPERS * STOPS);
        CHECK_EQ(stats_of(globe.runtime).stops, 2 * STOPPERS * STOPS);
        wait_until_empty(globe.runtime);
        storm.tasks += CELLS + STOPPERS;
        CHECK_EQ(weft_runtime_close(globe.runtime, -1), 0);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(a_runtime_goes_by_force_in_any_state, LIMIT_S),
    TAP_TEST_LIMIT(the_world_stops_again_and_again, LIMIT_S),
};
TAP_MAIN(tests)
