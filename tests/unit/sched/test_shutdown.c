/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the end of a runtime finds every task where it is, asks it to end, waits, and takes the
 *         rest by force when its time is over; whoever waits for a task hears of its end; nothing
 *         leaks.
 * Method: runtimes are closed around tasks in every state; handles are looked at afterwards; spawns
 *         race the close.
 */
#include "aids.h"
#include "sched_aids.h"

/* ---- tasks in every state -------------------------------------------------------------------- */

struct stage {
    wf_atomic_u32 held; /* workers that are kept busy */
    wf_atomic_u32 open;
    wf_atomic_u32 cleaned;
    weft_task *awaited;
    weft_runtime *runtime;
};

static intptr_t hold(void *arg)
{
    struct stage *stage = arg;
    raise_by_one(&stage->held);
    hold_for(&stage->open, 1);
    return weft_check();
}

static void open_stage(struct tour *tour, struct stage *stage)
{
    *stage = (struct stage){.awaited = NULL};
    CHECK_EQ(weft_runtime_open(&stage->runtime, &tour->options), 0);
}

static void *close_it(void *arg)
{
    CHECK_EQ(weft_runtime_close(arg, -1), 0);
    return NULL;
}

static void close_when_released(struct stage *stage, weft_task *witness)
{
    pthread_t closer;
    CHECK_EQ(wf_thread_start(&closer, close_it, stage->runtime, NULL), 0);
    while (!info_of(witness).is_cancelled) { /* the close has begun */
        (void)sched_yield();
    }
    raise_by_one(&stage->open);
    CHECK_EQ(wf_thread_join(closer), 0);
}

enum { WORKERS_MOST = 8, QUEUED = 50 };

/* behaviour 34; fault of others: what is in the global queue is forgotten */
static void queued_tasks_are_cancelled(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct stage stage;
        weft_task *holders[WORKERS_MOST];
        weft_task *queued[QUEUED];
        open_stage(&tour, &stage);
        for (unsigned i = 0; i < tour.setting->workers; i++) {
            holders[i] = go_into(stage.runtime, hold, &stage);
            wait_for(&stage.held, i + 1);
        }
        for (int i = 0; i < QUEUED; i++) {
            queued[i] = go_into(stage.runtime, stand_by_or_leave, &stage.cleaned);
        }
        close_when_released(&stage, queued[QUEUED - 1]);
        for (unsigned i = 0; i < tour.setting->workers; i++) {
            CHECK_EQ(weft_await(holders[i]), -ECANCELED); /* running: was waited for */
        }
        for (int i = 0; i < QUEUED; i++) {
            intptr_t result = 0;
            CHECK_EQ(weft_try_join(queued[i], &result), 0);
            CHECK_EQ(result, -ECANCELED);
            CHECK_EQ(state_of(queued[i]), WEFT_CANCELLED);
            weft_drop(queued[i]);
        }
    }
}

static void note_cleanup(void *arg)
{
    raise_by_one(arg);
}

static intptr_t wait_with_cleanup(void *arg)
{
    struct stage *stage = arg;
    weft_cleanup cleanup;
    weft_cleanup_push(&cleanup, note_cleanup, &stage->cleaned);
    int rc = weft_join(stage->awaited, NULL);
    weft_cleanup_pop(&cleanup, 1);
    return rc;
}

/* S0.6, behaviour 34 */
static void waiting_tasks_are_cancelled(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        enum { COUNT = 30 };
        struct stage stage;
        weft_task *tasks[COUNT];
        open_stage(&tour, &stage);
        stage.awaited = go_into(stage.runtime, stand_by_or_leave, &stage.open);
        for (int i = 0; i < COUNT; i++) {
            tasks[i] = go_into(stage.runtime, wait_with_cleanup, &stage);
        }
        for (int i = 0; i < COUNT; i++) {
            wait_for_state(tasks[i], WEFT_BLOCKED);
        }
        CHECK_EQ(weft_runtime_close(stage.runtime, -1), 0);
        CHECK_EQ(wf_load_acquire(&stage.cleaned), COUNT);
        for (int i = 0; i < COUNT; i++) {
            intptr_t result = 1;
            CHECK_EQ(weft_try_join(tasks[i], &result), 0);
            /* One may have been told of the other's end before its own. */
            CHECK(result == -ECANCELED || result == 0);
            weft_drop(tasks[i]);
        }
        CHECK_EQ(weft_await(stage.awaited), -ECANCELED);
    }
}

static intptr_t finish_behind_a_shield(void *arg)
{
    struct stage *stage = arg;
    CHECK_EQ(weft_shield(1), 0);
    raise_by_one(&stage->held);
    while (!info_of(weft_self()).is_cancelled) { /* until the close is under way */
        CHECK_EQ(weft_yield(), 0);
    }
    /* What it needs to finish still works, new tasks excepted. */
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn(&task, echo, NULL, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_runtime_spawn(stage->runtime, &task, echo, NULL, NULL), -ESHUTDOWN);
    CHECK(task == NULL);
    CHECK(weft_go(echo, NULL) == NULL);
    (void)weft_join(stage->awaited, NULL);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_yield(), 0);
    }
    raise_by_one(&stage->cleaned);
    CHECK_EQ(weft_shield(0), 0);
    return weft_check();
}

/* On a thread of its own, until the stage is open. */
static intptr_t hold_a_thread(void *arg)
{
    hold_for(&((struct stage *)arg)->open, 1);
    return 0;
}

static intptr_t wait_for_a_thread(void *arg)
{
    return weft_blocking(hold_a_thread, arg);
}

/* It hears of the close once; to be told again and again would keep a CPU busy for nothing. */
static void who_cannot_end_yet_is_left_alone(void)
{
    enum { LOOKS = 300, RUNS_MOST = 20 };
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct stage stage;
        pthread_t closer;
        open_stage(&tour, &stage);
        weft_task *task = go_into(stage.runtime, wait_for_a_thread, &stage);
        wait_for_state(task, WEFT_BLOCKED);
        CHECK_EQ(wf_thread_start(&closer, close_it, stage.runtime, NULL), 0);
        while (!info_of(task).is_cancelled) { /* the close has begun */
            (void)sched_yield();
        }
        for (int i = 0; i < LOOKS && info_of(task).runs < RUNS_MOST; i++) {
            (void)sched_yield();
        }
        CHECK(info_of(task).runs < RUNS_MOST);
        raise_by_one(&stage.open);
        CHECK_EQ(wf_thread_join(closer), 0);
        weft_drop(task);
    }
}

/* fault of others: workers leave while the queues are empty for a moment */
static void shielded_tasks_finish_what_they_do(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        enum { COUNT = 5 };
        struct stage stage;
        weft_task *tasks[COUNT];
        open_stage(&tour, &stage);
        stage.awaited = go_into(stage.runtime, stand_by_or_leave, &stage.open);
        for (int i = 0; i < COUNT; i++) {
            tasks[i] = go_into(stage.runtime, finish_behind_a_shield, &stage);
        }
        wait_for(&stage.held, COUNT);
        CHECK_EQ(weft_runtime_close(stage.runtime, -1), 0);
        CHECK_EQ(wf_load_acquire(&stage.cleaned), COUNT);
        CHECK_EQ(weft_await_all(tasks, COUNT, NULL), -ECANCELED);
        CHECK_EQ(weft_await(stage.awaited), -ECANCELED);
    }
}

/* ---- by force -------------------------------------------------------------------------------- */

static intptr_t join_behind_a_shield(void *arg)
{
    struct stage *stage = arg;
    weft_cleanup cleanup;
    weft_cleanup_push(&cleanup, note_cleanup, &stage->cleaned);
    CHECK_EQ(weft_shield(1), 0);
    (void)weft_join(stage->awaited, NULL);
    weft_cleanup_pop(&cleanup, 1);
    return 0;
}

static intptr_t never_end(void *arg)
{
    (void)arg;
    while (weft_yield() <= 0) { /* always */
    }
    return 0;
}

/* "-ETIMEDOUT: some were forced" */
static void what_does_not_end_is_forced_when_the_time_is_over(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        for (int64_t timeout = 0; timeout <= 1000000; timeout += 1000000) {
            struct stage stage;
            weft_task *tasks[3];
            open_stage(&tour, &stage);
            stage.awaited = go_into(stage.runtime, never_end, NULL);
            for (int i = 0; i < 3; i++) {
                tasks[i] = go_into(stage.runtime, join_behind_a_shield, &stage);
                wait_for_state(tasks[i], WEFT_BLOCKED);
            }
            CHECK_EQ(weft_runtime_close(stage.runtime, timeout), -ETIMEDOUT);
            for (int i = 0; i < 3; i++) {
                CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
            }
            CHECK_EQ(weft_await(stage.awaited), -ECANCELED);
            CHECK_EQ(wf_load_acquire(&stage.cleaned), 0); /* forced: no cleanups */
        }
    }
}

static void a_close_without_time_is_enough_for_who_ends_by_himself(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        CHECK_EQ(weft_await(go_into(runtime, echo, (void *)5)), 5);
        CHECK_EQ(weft_runtime_close(runtime, 0), 0);
    }
}

/* ---- whoever waits --------------------------------------------------------------------------- */

static void *join_from_a_thread(void *arg)
{
    struct stage *stage = arg;
    intptr_t result = 0;
    raise_by_one(&stage->held);
    CHECK_EQ(weft_join(stage->awaited, &result), 0);
    CHECK_EQ(result, -ECANCELED);
    return NULL;
}

/* fault of others: joiners hang */
static void threads_that_wait_hear_of_the_end(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        enum { THREADS = 3 };
        struct stage stage;
        pthread_t threads[THREADS];
        for (int is_forced = 0; is_forced < 2; is_forced++) {
            open_stage(&tour, &stage);
            stage.awaited = is_forced ? go_into(stage.runtime, never_end, NULL)
                                      : go_into(stage.runtime, stand_by_or_leave, &stage.open);
            for (int i = 0; i < THREADS; i++) {
                CHECK_EQ(wf_thread_start(&threads[i], join_from_a_thread, &stage, NULL), 0);
            }
            wait_for(&stage.held, THREADS);
            CHECK_EQ(weft_runtime_close(stage.runtime, is_forced ? 0 : -1),
                     is_forced ? -ETIMEDOUT : 0);
            for (int i = 0; i < THREADS; i++) {
                CHECK_EQ(wf_thread_join(threads[i]), 0);
            }
            weft_drop(stage.awaited);
        }
    }
}

static intptr_t join_over_there(void *arg)
{
    struct stage *stage = arg;
    intptr_t result = 0;
    CHECK_EQ(weft_join(stage->awaited, &result), 0);
    return result;
}

static intptr_t close_over_there(void *arg)
{
    struct stage *stage = arg;
    CHECK_EQ(weft_runtime_close(weft_runtime_self(), -1), -EDEADLK);
    weft_task *joiner = go(join_over_there, stage);
    wait_for_state(joiner, WEFT_BLOCKED);
    CHECK_EQ(weft_runtime_close(stage->runtime, -1), 0);
    CHECK_EQ(weft_await(joiner), -ECANCELED);
    weft_drop(stage->awaited);
    return 0;
}

/* part of behaviour 19 */
static void a_task_closes_another_runtime_but_not_its_own(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct stage stage;
        open_stage(&tour, &stage);
        stage.awaited = go_into(stage.runtime, stand_by_or_leave, &stage.open);
        CHECK_EQ(weft_run(close_over_there, &stage, &tour.options), 0);
    }
}

struct meddler {
    weft_runtime *runtime;
    wf_atomic_u32 refusals;
};

static void close_in_a_hook(void *context, const weft_failure *failure)
{
    struct meddler *meddler = context;
    CHECK_EQ(failure->error, -EIO);
    CHECK_EQ(weft_runtime_close(meddler->runtime, -1), -EDEADLK);
    raise_by_one(&meddler->refusals);
}

static intptr_t fail_when_asked(void *arg)
{
    (void)stand_by_or_leave(arg);
    return -EIO;
}

/* On whatever thread it is called: it would wait for itself. */
static void a_hook_does_not_close_its_runtime(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct meddler meddler = {.runtime = NULL};
        wf_atomic_u32 is_open = {1};
        wf_atomic_u32 is_shut = {0};
        tour.options.on_failure = close_in_a_hook;
        tour.options.hook_context = &meddler;
        CHECK_EQ(weft_runtime_open(&meddler.runtime, &tour.options), 0);
        CHECK_EQ(weft_runtime_spawn(meddler.runtime, NULL, fail_when_asked, &is_open, NULL), 0);
        wait_for(&meddler.refusals, 1);
        CHECK_EQ(weft_runtime_spawn(meddler.runtime, NULL, fail_when_asked, &is_shut, NULL), 0);
        CHECK_EQ(weft_runtime_close(meddler.runtime, -1), 0); /* which makes it fail */
        CHECK_EQ(wf_load_acquire(&meddler.refusals), 2);
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
        weft_drop(go(live_until_cancelled, orphan));
    }
    wait_for(&orphan->started, 20);
    return 11;
}

/* S0.5: to the end of all, and with the result of the first; others' come by their handles. */
static void a_run_cancels_what_its_first_task_leaves_and_waits(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct orphan orphan = {.started = {0}};
        CHECK_EQ(weft_run(leave_orphans, &orphan, &tour.options), 11);
        CHECK_EQ(wf_load_acquire(&orphan.ended), 20);
    }
}

static intptr_t leave_the_unstarted(void *arg)
{
    for (int i = 0; i < 100; i++) {
        weft_drop(go(count_up, arg));
    }
    return 0;
}

/* behaviour 34: run or not, they leave nothing. */
static void a_run_may_end_before_its_tasks_begin(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        for (int i = 0; i < 10; i++) {
            wf_atomic_u32 ran = {0};
            CHECK_EQ(weft_run(leave_the_unstarted, &ran, &tour.options), 0);
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

static intptr_t spawn_on_and_on(void *arg)
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
    weft_cleanup_pop(&cleanup, 1);
    return rc == -ESHUTDOWN ? 0 : rc;
}

/* "-ESHUTDOWN: it is closing" */
static void spawns_that_race_the_close_are_run_or_refused(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        for (int i = 0; i < 5; i++) {
            enum { COUNT = 4 };
            struct spawner spawner = {.runtime = NULL};
            weft_task *tasks[COUNT];
            CHECK_EQ(weft_runtime_open(&spawner.runtime, &tour.options), 0);
            for (int j = 0; j < COUNT; j++) {
                tasks[j] = go_into(spawner.runtime, spawn_on_and_on, &spawner);
            }
            wait_for(&spawner.spawned, 10);
            CHECK_EQ(weft_runtime_close(spawner.runtime, -1), 0);
            CHECK_EQ(wf_load_acquire(&spawner.refused), COUNT);
            CHECK_EQ(wf_load_acquire(&spawner.ended), COUNT);
            CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
        }
    }
}

struct intruder {
    weft_runtime *runtime;
    wf_atomic_u32 accepted;
    weft_task *tasks[2000];
    size_t count;
};

static void *spawn_until_refused(void *arg)
{
    struct intruder *intruder = arg;
    int rc = 0;
    while (intruder->count < 2000 && rc == 0) {
        rc = weft_runtime_spawn(intruder->runtime, &intruder->tasks[intruder->count],
                                stand_by_or_leave, &intruder->accepted, NULL);
        CHECK(rc == 0 || rc == -ESHUTDOWN);
        intruder->count += rc == 0 ? 1 : 0;
        if (rc == 0) {
            raise_by_one(&intruder->accepted);
        }
    }
    return NULL;
}

struct keeper {
    wf_atomic_u32 started;
    wf_atomic_u32 release;
};

/* Keeps a runtime from being gone while a thread still uses it. */
static intptr_t keep_it_open(void *arg)
{
    struct keeper *keeper = arg;
    CHECK_EQ(weft_shield(1), 0);
    raise_by_one(&keeper->started);
    wait_for(&keeper->release, 1);
    CHECK_EQ(weft_shield(0), 0);
    return 0;
}

static void a_thread_that_races_the_close_is_accepted_or_refused(void)
{
    static struct intruder intruder;
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct keeper keeper = {.started = {0}};
        pthread_t spawner;
        pthread_t closer;
        intruder.count = 0;
        wf_store_relaxed(&intruder.accepted, 0);
        CHECK_EQ(weft_runtime_open(&intruder.runtime, &tour.options), 0);
        weft_task *task = go_into(intruder.runtime, keep_it_open, &keeper);
        wait_for(&keeper.started, 1);
        CHECK_EQ(wf_thread_start(&spawner, spawn_until_refused, &intruder, NULL), 0);
        wait_for(&intruder.accepted, 20);
        CHECK_EQ(wf_thread_start(&closer, close_it, intruder.runtime, NULL), 0);
        CHECK_EQ(wf_thread_join(spawner), 0);
        raise_by_one(&keeper.release);
        CHECK_EQ(wf_thread_join(closer), 0);
        for (size_t i = 0; i < intruder.count; i++) {
            CHECK_EQ(weft_try_join(intruder.tasks[i], NULL), 0); /* none was forgotten */
            weft_drop(intruder.tasks[i]);
        }
        CHECK_EQ(weft_await(task), 0);
    }
}

/* ---- a task closes another runtime ------------------------------------------------------------
 */

static intptr_t wait_shielded(void *arg)
{
    CHECK_EQ(weft_shield(1), 0);
    return weft_join(arg, NULL);
}

static intptr_t force(void *arg)
{
    return weft_runtime_close(arg, 0);
}

/* What is taken by force is counted where it lived: else the runtime of the one who closes would
 * believe that a task of its own has ended, and not wait for it. */
static void who_forces_a_runtime_counts_its_own_tasks(void)
{
    for (struct tour tour = {.which = ON_SEVERAL}; tour_next(&tour);) {
        struct keeper keeper = {.started = {0}};
        weft_runtime *inner = NULL;
        weft_runtime *outer = NULL;
        CHECK_EQ(weft_runtime_open(&inner, &tour.options), 0);
        CHECK_EQ(weft_runtime_open(&outer, &tour.options), 0);
        weft_task *kept = go_into(outer, keep_it_open, &keeper);
        weft_task *forced = go_into(inner, wait_shielded, kept);
        wait_for_state(forced, WEFT_BLOCKED);
        wait_for(&keeper.started, 1);
        CHECK_EQ(weft_await(go_into(outer, force, inner)), -ETIMEDOUT);
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

/* A task that waits for room in the runtime that is closed may need the worker of the one who
 * closes it, in order to leave. */
static void a_close_lets_tasks_of_its_worker_leave_the_runtime(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct keeper keeper = {.started = {0}};
        weft_runtime *inner = NULL;
        weft_runtime *outer = NULL;
        CHECK_EQ(weft_runtime_open(&outer, &tour.options), 0);
        tour.options.tasks_max = 1;
        tour.options.spawn_waits = true;
        CHECK_EQ(weft_runtime_open(&inner, &tour.options), 0);
        weft_task *kept = go_into(inner, keep_it_open, &keeper);
        weft_task *waiting = go_into(outer, spawn_into, inner);
        wait_for_state(waiting, WEFT_BLOCKED);
        CHECK_EQ(weft_await(go_into(outer, force, inner)), -ETIMEDOUT);
        CHECK_EQ(weft_await(waiting), -ESHUTDOWN);
        CHECK_EQ(weft_await(kept), -ECANCELED);
        CHECK_EQ(weft_runtime_close(outer, -1), 0);
    }
}

/* ---- a spare that gets up by itself ---------------------------------------------------------- */

struct walker {
    wf_atomic_u32 is_inside;
    wf_atomic_u32 turns;
};

/* Yields for ever; two threads at once would meet here. */
static intptr_t walk_alone(void *arg)
{
    struct walker *walker = arg;
    CHECK_EQ(weft_shield(1), 0);
    do { /* until the runtime is closed by force */
        CHECK_EQ(wf_fetch_add_relaxed(&walker->is_inside, 1), 0);
        raise_by_one(&walker->turns);
        (void)wf_fetch_sub_relaxed(&walker->is_inside, 1);
    } while (weft_yield() == 0);
    return 0;
}

/* Keeps its worker. */
static intptr_t keep_on(void *arg)
{
    hold_for(arg, 1);
    return 0;
}

/* The only worker uses its queues as if nobody else did, and a spare sits on the bench.  A forced
 * close makes the spare get up, and it looks for work. */
static void close_with_one_on_the_bench(const weft_options *options)
{
    enum { WALKERS = 20 };
    struct walker walkers[WALKERS] = {{.turns = {0}}};
    weft_task *tasks[WALKERS];
    weft_runtime *runtime = NULL;
    wf_atomic_u32 done = {0};
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    weft_task *task = go_into(runtime, keep_on, &done);
    while (stats_of(runtime).in_play < 2) {
        (void)sched_yield();
    }
    raise_by_one(&done);
    CHECK_EQ(weft_await(task), 0);
    while (stats_of(runtime).in_play > 1) {
        (void)sched_yield();
    }
    for (int i = 0; i < WALKERS; i++) {
        tasks[i] = go_into(runtime, walk_alone, &walkers[i]);
    }
    wait_for(&walkers[WALKERS - 1].turns, 50);
    CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    for (int i = 0; i < WALKERS; i++) {
        CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
    }
}

static void who_gets_up_by_itself_finds_the_queues_open(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        for (int round = 0; round < 10; round++) {
            tour.options.hog_ns = WEFT_MILLISECOND;
            close_with_one_on_the_bench(&tour.options);
        }
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(who_gets_up_by_itself_finds_the_queues_open),
    TAP_TEST(queued_tasks_are_cancelled),
    TAP_TEST(waiting_tasks_are_cancelled),
    TAP_TEST(shielded_tasks_finish_what_they_do),
    TAP_TEST(who_cannot_end_yet_is_left_alone),
    TAP_TEST(what_does_not_end_is_forced_when_the_time_is_over),
    TAP_TEST(a_close_without_time_is_enough_for_who_ends_by_himself),
    TAP_TEST(threads_that_wait_hear_of_the_end),
    TAP_TEST(a_task_closes_another_runtime_but_not_its_own),
    TAP_TEST(a_hook_does_not_close_its_runtime),
    TAP_TEST(a_run_cancels_what_its_first_task_leaves_and_waits),
    TAP_TEST(a_run_may_end_before_its_tasks_begin),
    TAP_TEST(spawns_that_race_the_close_are_run_or_refused),
    TAP_TEST(a_thread_that_races_the_close_is_accepted_or_refused),
    TAP_TEST(who_forces_a_runtime_counts_its_own_tasks),
    TAP_TEST(a_close_lets_tasks_of_its_worker_leave_the_runtime),
};
TAP_MAIN(tests)
