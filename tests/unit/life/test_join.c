/* SPDX-License-Identifier: MIT */
/*
 * Goal:   every waiter for a task, be it a task or a thread, one or many, before or after the end,
 *         gets the result and sees all writes of the task. No worker blocks during the wait.
 * Method: every way to wait, at every moment; rounds in which the end races the wait.
 */
#include <stdlib.h>

#include "life/life.h"
#include "sched_helpers.h"
#include "step.h"

/* ---- one task -------------------------------------------------------------------------------- */

static intptr_t check_await_errors(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_await(NULL), -ENOMEM);
    weft_task *self = weft_self();
    CHECK_EQ(weft_await(self), -EDEADLK);
    intptr_t result = 99;
    CHECK_EQ(weft_join(self, &result), -EDEADLK);
    CHECK_EQ(result, 99);
    CHECK_EQ(weft_try_join(self, &result), -EAGAIN);
    CHECK_EQ(result, 99);
    CHECK(weft_task_id(self) > 0); /* still valid */
    weft_task_unref(NULL);
    return 0;
}

static void await_of_null_or_self_fails_at_once(void)
{
    run_under(EVERYWHERE, check_await_errors);
}

static intptr_t await_a_batch(void *arg)
{
    enum { TASKS = 100 };
    weft_task *tasks[TASKS];
    (void)arg;
    for (intptr_t i = 0; i < TASKS; i++) {
        tasks[i] = go(echo, (void *)i);
    }
    const uint64_t runs = info_of(weft_self()).runs;
    for (intptr_t i = 0; i < TASKS; i++) {
        CHECK_EQ(weft_await(tasks[i]), i);
    }
    CHECK(!HAS_ORDER || info_of(weft_self()).runs - runs <= TASKS / 10);
    return 0;
}

/* A task that awaits a batch in order is queued behind the whole batch. It does not switch to and
 * fro with each task. No monitor: a spare would run some of the batch, and the task could overtake
 * it. */
static void await_in_spawn_order_suspends_rarely(void)
{
    const weft_runtime_options options = {.workers = 1, .no_monitor = true};
    CHECK_EQ(weft_run(await_a_batch, NULL, &options), 0);
}

static intptr_t await_queued_tasks(void *arg)
{
    weft_task *other = go(echo, NULL);
    weft_task *third = go(echo, NULL);
    raise_by_one(arg);
    const intptr_t result = weft_await(other); /* both begin; the cancel comes during the wait */
    CHECK(result == 0 || result == -ECANCELED);
    (void)weft_await(third);
    return result;
}

static void await_of_a_queued_task_can_be_cancelled(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (int round = 0; round < 50; round++) {
            wf_atomic_u32 has_begun = {0};
            weft_task *task = go_into(runtime, await_queued_tasks, &has_begun);
            wait_for(&has_begun, 1);
            CHECK_EQ(weft_cancel(task), 0);
            const intptr_t result = weft_await(task);
            CHECK(result == 0 || result == -ECANCELED);
        }
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

static intptr_t join_many_times(void *arg)
{
    (void)arg;
    weft_task *task = go(echo, (void *)5);
    intptr_t result = 0;
    CHECK_EQ(weft_join(task, &result), 0);
    CHECK_EQ(result, 5);
    for (int i = 0; i < 3; i++) { /* the task has ended */
        result = 0;
        CHECK_EQ(weft_join(task, &result), 0);
        CHECK_EQ(result, 5);
        result = 0;
        CHECK_EQ(weft_try_join(task, &result), 0);
        CHECK_EQ(result, 5);
    }
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK_EQ(weft_try_join(task, NULL), 0);
    CHECK_EQ(weft_await(task), 5);
    return 0;
}

/* behaviour 28 */
static void join_can_be_repeated(void)
{
    run_under(EVERYWHERE, join_many_times);
}

static intptr_t try_before_and_after(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *task = go(stand_by, &open);
    intptr_t result = 99;
    CHECK_EQ(weft_try_join(task, &result), -EAGAIN);
    CHECK_EQ(weft_try_join(task, NULL), -EAGAIN);
    CHECK_EQ(result, 99);
    raise_by_one(&open);
    while (weft_try_join(task, &result) == -EAGAIN) {
        (void)weft_yield();
    }
    CHECK_EQ(result, 0);
    weft_task_unref(task);
    return 0;
}

static void try_join_never_waits(void)
{
    run_under(EVERYWHERE, try_before_and_after);
}

static intptr_t await_failures(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *ended = go(echo, (void *)-EIO);
    wait_for_state(ended, WEFT_TASK_FAILED);
    CHECK_EQ(weft_await(ended), -EIO);
    for (int i = 0; i < 20; i++) { /* the joiner waits before the end, or comes after it */
        CHECK_EQ(weft_await(go(echo, (void *)-ENOENT)), -ENOENT);
    }
    weft_task *task = go(stand_by, &open);
    raise_by_one(&open);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

/* X28, S1.15, behaviour 28 */
static void await_returns_the_error_of_a_failed_task(void)
{
    run_under(EVERYWHERE, await_failures);
}

/* ---- many joiners ---------------------------------------------------------------------------- */

enum { TASKS = 40, THREADS = 3 };

struct joiner_scene {
    weft_task *task;
    wf_atomic_u32 open;
    wf_atomic_u32 waiting;
    int written; /* plain: the task writes it before its end, all joiners read it */
};

static intptr_t write_when_open(void *arg)
{
    struct joiner_scene *joiner_scene = arg;
    wait_for(&joiner_scene->open, 1);
    joiner_scene->written = 4711;
    return 17;
}

static void join_and_check(struct joiner_scene *joiner_scene)
{
    intptr_t result = 0;
    raise_by_one(&joiner_scene->waiting);
    CHECK_EQ(weft_join(joiner_scene->task, &result), 0);
    CHECK_EQ(result, 17);
    CHECK_EQ(joiner_scene->written, 4711);
}

static intptr_t join_as_task(void *arg)
{
    join_and_check(arg);
    return 0;
}

static void *join_as_thread(void *arg)
{
    join_and_check(arg);
    return NULL;
}

static void join_from_all(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct joiner_scene joiner_scene = {0};
    weft_task *joiners[TASKS];
    pthread_t threads[THREADS];
    joiner_scene.task = go_into(runtime, write_when_open, &joiner_scene);
    for (int i = 0; i < TASKS; i++) {
        joiners[i] = go_into(runtime, join_as_task, &joiner_scene);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], join_as_thread, &joiner_scene, NULL), 0);
    }
    wait_for(&joiner_scene.waiting, TASKS + THREADS);
    for (int i = 0; i < TASKS; i++) {
        wait_for_state(joiners[i], WEFT_TASK_BLOCKED);
    }
    raise_by_one(&joiner_scene.open);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    CHECK_EQ(weft_await_all(joiners, TASKS, NULL), 0);
    CHECK_EQ(weft_await(joiner_scene.task), 17);
}

/* behaviour 28, behaviour 29, S0.27, part of S0.30: if joins blocked, the joiners would stop a
 * single worker. */
static void join_wakes_all_waiting_tasks_and_threads(void)
{
    open_under(EVERYWHERE, join_from_all);
}

struct race {
    wf_atomic_u32 ready;
    int value;
};

static intptr_t end_soon(void *arg)
{
    struct race *race = arg;
    wf_store_relaxed(&race->ready, 1);
    race->value = 5;
    return 3;
}

static intptr_t race_join_with_end(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        struct race race = {.value = 0};
        weft_task *task = go(end_soon, &race);
        /* Half of the rounds suspend first, half meet the end in progress. */
        for (int spins = 0; i % 2 == 0 && spins < 10 && wf_load_relaxed(&race.ready) == 0;
             spins++) {
            (void)weft_yield();
        }
        CHECK_EQ(weft_await(task), 3);
        CHECK_EQ(race.value, 5);
    }
    return 0;
}

/* behaviour 28 */
static void join_that_races_the_end_is_not_lost(void)
{
    run_under(EVERYWHERE, race_join_with_end);
}

static void race_from_a_thread(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    for (int i = 0; i < 200; i++) {
        struct race race = {.value = 0};
        weft_task *task = go_into(runtime, end_soon, &race);
        for (int spins = 0; i % 2 == 0 && spins < 100 && wf_load_relaxed(&race.ready) == 0;
             spins++) {
            (void)sched_yield();
        }
        CHECK_EQ(weft_await(task), 3);
        CHECK_EQ(race.value, 5);
    }
}

static void join_from_a_thread_that_races_the_end_is_not_lost(void)
{
    open_under(EVERYWHERE, race_from_a_thread);
}

/* ---- several tasks --------------------------------------------------------------------------- */

struct after {
    wf_atomic_u32 *open;
    intptr_t result;
};

static intptr_t return_after(void *arg)
{
    struct after *after = arg;
    wait_for(after->open, 1);
    return after->result;
}

static intptr_t await_all_in_order(void *arg)
{
    (void)arg;
    enum { COUNT = 10 };
    weft_task *tasks[COUNT];
    struct after afters[COUNT];
    wf_atomic_u32 late = {0};
    wf_atomic_u32 early = {1};
    intptr_t results[COUNT];
    for (int i = 0; i < COUNT; i++) {
        afters[i] = (struct after){&early, 100 + i};
    }
    /* The error with the higher index comes first in time. */
    afters[3] = (struct after){&late, -EIO};
    afters[7] = (struct after){&early, -ENOENT};
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(return_after, &afters[i]);
    }
    wait_for_state(tasks[7], WEFT_TASK_FAILED);
    raise_by_one(&late);
    CHECK_EQ(weft_await_all(tasks, COUNT, results), -EIO);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(results[i], afters[i].result);
    }
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(echo, &afters[i]);
    }
    CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
    CHECK_EQ(weft_await_all(tasks, 0, NULL), 0);
    CHECK_EQ(weft_await_all(NULL, 0, NULL), 0);
    return 0;
}

/* behaviour 36 */
static void await_all_returns_results_and_the_first_error_in_order(void)
{
    run_under(EVERYWHERE, await_all_in_order);
}

static intptr_t wait_for_several(void *arg)
{
    return weft_await_first(arg, 2, NULL);
}

static intptr_t check_race_info(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *tasks[2] = {go(stand_by, &open), go(stand_by, &open)};
    weft_task *waiter = go(wait_for_several, (void *)tasks);
    wait_for_state(waiter, WEFT_TASK_BLOCKED);
    CHECK_EQ(info_of(waiter).wait, WEFT_WAIT_TASKS);
    raise_by_one(&open);
    CHECK(weft_await(waiter) >= 0);
    return 0;
}

static void task_info_reports_a_wait_for_several_tasks(void)
{
    run_under(EVERYWHERE, check_race_info);
}

/* The array holds the same task twice: each handle counts. */
static intptr_t await_same_task_twice(void *arg)
{
    (void)arg;
    weft_task *task = go(echo, (void *)9);
    weft_task *tasks[2] = {task, weft_task_ref(task)};
    intptr_t results[2] = {0};
    CHECK(tasks[1] == task);
    CHECK_EQ(weft_await_all(tasks, 2, results), 0);
    CHECK_EQ(results[0], 9);
    CHECK_EQ(results[1], 9);
    return 0;
}

/* S4.38 */
static void await_all_releases_each_handle_of_the_same_task(void)
{
    run_under(EVERYWHERE, await_same_task_twice);
}

struct loser {
    wf_atomic_u32 *started;
    int has_ended; /* plain: written before its end */
};

static intptr_t lose(void *arg)
{
    struct loser *loser = arg;
    raise_by_one(loser->started);
    int rc = 0;
    while (rc == 0) {
        rc = weft_yield();
    }
    loser->has_ended = 1;
    return rc;
}

static intptr_t win(void *arg)
{
    wait_for(arg, 3);
    return 42;
}

static intptr_t race_three_against_one(void *arg)
{
    (void)arg;
    for (int winner = 0; winner < 4; winner++) {
        wf_atomic_u32 started = {0};
        struct loser losers[4] = {{.has_ended = 0}};
        weft_task *tasks[4];
        intptr_t result = 0;
        for (int i = 0; i < 4; i++) {
            losers[i].started = &started;
            tasks[i] = i == winner ? go(win, &started) : go(lose, &losers[i]);
        }
        CHECK_EQ(weft_await_first(tasks, 4, &result), winner);
        CHECK_EQ(result, 42);
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(losers[i].has_ended, i == winner ? 0 : 1); /* the race waited for all losers */
        }
    }
    return 0;
}

/* behaviour 36 */
static void race_cancels_and_joins_the_losers(void)
{
    run_under(EVERYWHERE, race_three_against_one);
}

static intptr_t check_race_cases(void *arg)
{
    (void)arg;
    wf_atomic_u32 never = {0};
    intptr_t result = 99;
    CHECK_EQ(weft_await_first(NULL, 0, &result), -EINVAL);
    CHECK_EQ(result, 99);
    weft_task *failing[2] = {go(stand_by_or_leave, &never), go(echo, (void *)-EIO)};
    CHECK_EQ(weft_await_first(failing, 2, &result),
             1); /* the first task to end wins, even by failure */
    CHECK_EQ(result, -EIO);
    weft_task *ended[2] = {go(stand_by_or_leave, &never), go(echo, (void *)8)};
    wait_for_state(ended[1], WEFT_TASK_COMPLETED);
    CHECK_EQ(weft_await_first(ended, 2, &result), 1);
    CHECK_EQ(result, 8);
    weft_task *single[1] = {go(echo, (void *)6)};
    CHECK_EQ(weft_await_first(single, 1, NULL), 0);
    return 0;
}

static void race_accepts_ended_failed_and_single_tasks(void)
{
    run_under(EVERYWHERE, check_race_cases);
}

static void wait_for_several_from_a_thread(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    wf_atomic_u32 never = {0};
    weft_task *all[3];
    intptr_t results[3];
    for (intptr_t i = 0; i < 3; i++) {
        all[i] = go_into(runtime, echo, (void *)(i + 1));
    }
    CHECK_EQ(weft_await_all(all, 3, results), 0);
    CHECK(results[0] == 1 && results[1] == 2 && results[2] == 3);
    weft_task *racers[2] = {go_into(runtime, stand_by_or_leave, &never),
                            go_into(runtime, echo, (void *)4)};
    CHECK_EQ(weft_await_first(racers, 2, results), 1);
    CHECK_EQ(results[0], 4);
}

static void await_all_and_race_work_from_a_thread(void)
{
    open_under(EVERYWHERE, wait_for_several_from_a_thread);
}

/* ---- handles --------------------------------------------------------------------------------- */

static intptr_t drop_at_each_moment(void *arg)
{
    (void)arg;
    enum { ROUNDS = 100 };
    wf_atomic_u32 ended = {0};
    for (int i = 0; i < ROUNDS; i++) {
        weft_task_unref(go(count_up, &ended)); /* before its end, or during it */
    }
    wait_for(&ended, ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        weft_task *task = go(count_up, &ended);
        wait_for_state(task, WEFT_TASK_COMPLETED);
        weft_task_unref(task); /* after its end */
    }
    return 0;
}

/* behaviour 34: LeakSanitizer reports leaked tasks. */
static void drop_is_allowed_before_during_and_after_the_end(void)
{
    run_under(EVERYWHERE, drop_at_each_moment);
}

static void *drop_many(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        weft_task_unref(weft_task_ref(arg));
    }
    weft_task_unref(arg);
    return NULL;
}

static void share_a_handle(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    static wf_atomic_u32 open; /* the task may read it until the runtime is closed */
    pthread_t threads[THREADS];
    wf_store_relaxed(&open, 0);
    weft_task *task = go_into(runtime, stand_by, &open);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], drop_many, weft_task_ref(task), NULL), 0);
    }
    weft_task_unref(task);
    raise_by_one(&open);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
}

/* S4.38, behaviour 34 */
static void drop_of_the_last_handle_is_allowed_on_any_thread(void)
{
    open_under(EVERYWHERE, share_a_handle);
}

static void task_handle_outlives_its_runtime(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, echo, (void *)77);
        CHECK_EQ(weft_join(task, NULL), 0);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        intptr_t result = 0;
        CHECK_EQ(weft_join(task, &result), 0);
        CHECK_EQ(result, 77);
        CHECK_EQ(state_of(task), WEFT_TASK_COMPLETED);
        CHECK_EQ(weft_cancel(task), 0);
        CHECK_EQ(weft_await(task), 77);
    }
}

/* ---- two runtimes ---------------------------------------------------------------------------- */

struct pair {
    weft_runtime *other;
    int carried;
};

static intptr_t count_in_other_runtime(void *arg)
{
    struct pair *pair = arg;
    CHECK(weft_runtime_self() == pair->other);
    pair->carried++;
    return 0;
}

static intptr_t await_in_other_runtime(void *arg)
{
    struct pair *pair = arg;
    weft_runtime *own = weft_runtime_self();
    CHECK(own != pair->other);
    for (int i = 0; i < 200; i++) {
        weft_task *task = NULL;
        pair->carried = i;
        CHECK_EQ(weft_runtime_spawn(pair->other, &task, count_in_other_runtime, pair, NULL), 0);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(pair->carried, i + 1);
        CHECK(weft_runtime_self() == own);
    }
    return 0;
}

static void await_across(weft_runtime *runtime, const struct setting *setting)
{
    weft_runtime_options options = options_of(setting);
    struct pair here = {.other = NULL};
    CHECK_EQ(weft_runtime_open(&here.other, &options), 0);
    struct pair there = {.other = runtime};
    weft_task *tasks[2] = {go_into(runtime, await_in_other_runtime, &here),
                           go_into(here.other, await_in_other_runtime, &there)};
    CHECK_EQ(weft_await_all(tasks, 2, NULL), 0);
    CHECK_EQ(weft_runtime_close(here.other, -1), 0);
}

/* behaviour 19: each runtime wakes tasks of the other one at the same time. */
static void await_works_across_two_runtimes(void)
{
    open_under(EVERYWHERE, await_across);
}

/* ---- the list of joiners ------------------------------------------------------------------- */

enum { LISTED_MAX = 1000 };

static struct {
    struct weft_task task;
    struct wf_waiter waiter;
    struct wf_joiner joiners[LISTED_MAX]; /* in the order in which they entered */
    struct wf_joiner *leaving;
} list;

static void leave_list(void *context)
{
    (void)context;
    wf_joiner_leave(&list.task, list.leaving);
}

/* The instructions of a leave by the joiner at this position, in a list of so many. */
static uint64_t count_leave(int joiners, int at)
{
    wf_state_init(&list.task.state, 2);
    list.task.joiners = NULL;
    for (int i = 0; i < joiners; i++) {
        list.joiners[i] = (struct wf_joiner){.waiter = &list.waiter};
        CHECK(wf_joiner_enter(&list.task, &list.joiners[i]));
    }
    list.leaving = &list.joiners[at];
    const uint64_t steps = step_count(leave_list, NULL);
    int left = 0;
    for (const struct wf_joiner *it = list.task.joiners; it != NULL; it = it->next) {
        CHECK(it != list.leaving);
        CHECK(it->next == NULL || it->next->prev == it);
        left++;
    }
    CHECK_EQ(left, joiners - 1);
    return steps;
}

/* The cost of a cancelled join does not depend on the number of other joiners of the task. */
static void joiner_leave_takes_a_fixed_number_of_steps(void)
{
    step_require();
    CHECK_EQ(count_leave(LISTED_MAX, 0), count_leave(2, 0));              /* oldest */
    CHECK_EQ(count_leave(LISTED_MAX, LISTED_MAX / 2), count_leave(3, 1)); /* between */
    CHECK_EQ(count_leave(LISTED_MAX, LISTED_MAX - 1), count_leave(2, 1)); /* newest */
}

static const struct tap_test tests[] = {
    TAP_TEST(await_of_null_or_self_fails_at_once),
    TAP_TEST(await_in_spawn_order_suspends_rarely),
    TAP_TEST(await_of_a_queued_task_can_be_cancelled),
    TAP_TEST(join_can_be_repeated),
    TAP_TEST(try_join_never_waits),
    TAP_TEST(await_returns_the_error_of_a_failed_task),
    TAP_TEST(join_wakes_all_waiting_tasks_and_threads),
    TAP_TEST(join_that_races_the_end_is_not_lost),
    TAP_TEST(join_from_a_thread_that_races_the_end_is_not_lost),
    TAP_TEST(await_all_returns_results_and_the_first_error_in_order),
    TAP_TEST(task_info_reports_a_wait_for_several_tasks),
    TAP_TEST(await_all_releases_each_handle_of_the_same_task),
    TAP_TEST(race_cancels_and_joins_the_losers),
    TAP_TEST(race_accepts_ended_failed_and_single_tasks),
    TAP_TEST(await_all_and_race_work_from_a_thread),
    TAP_TEST(drop_is_allowed_before_during_and_after_the_end),
    TAP_TEST(drop_of_the_last_handle_is_allowed_on_any_thread),
    TAP_TEST(task_handle_outlives_its_runtime),
    TAP_TEST(await_works_across_two_runtimes),
    TAP_TEST(joiner_leave_takes_a_fixed_number_of_steps),
};
TAP_MAIN(tests)
