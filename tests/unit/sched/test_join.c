/* SPDX-License-Identifier: MIT */
/*
 * Goal:   whoever waits for a task, be it tasks or threads, one or many, before or after its end,
 *         gets its result and everything it wrote; and no worker stands still meanwhile.
 * Method: every way to wait, at every moment; rounds in which the end and the wait race.
 */
#include <stdlib.h>

#include "sched_aids.h"

/* ---- one task -------------------------------------------------------------------------------- */

static intptr_t await_oddly(void *arg)
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
    CHECK(weft_task_id(self) > 0); /* still there */
    CHECK_EQ(weft_join(NULL, &result), -EINVAL);
    CHECK_EQ(weft_try_join(NULL, &result), -EINVAL);
    CHECK_EQ(weft_cancel(NULL), -EINVAL);
    weft_drop(NULL);
    return 0;
}

static void awaiting_nothing_or_oneself_ends_at_once(void)
{
    run_under(EVERYWHERE, await_oddly);
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

/* Who awaits one after the other goes behind all of them, and not to and fro with each. */
static void a_batch_runs_before_who_awaits_it_in_order(void)
{
    const weft_options options = {.workers = 1};
    CHECK_EQ(weft_run(await_a_batch, NULL, &options), 0);
}

static intptr_t await_in_the_queue(void *arg)
{
    weft_task *other = go(echo, NULL);
    weft_task *third = go(echo, NULL);
    raise_by_one(arg);
    const intptr_t result = weft_await(other); /* it lets them begin, and is cancelled meanwhile */
    CHECK(result == 0 || result == -ECANCELED);
    (void)weft_await(third);
    return result;
}

static void who_lets_a_task_begin_may_be_cancelled(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (int round = 0; round < 50; round++) {
            wf_atomic_u32 has_begun = {0};
            weft_task *task = go_into(runtime, await_in_the_queue, &has_begun);
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
    for (int i = 0; i < 3; i++) { /* it has ended */
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
static void a_task_can_be_joined_again_and_again(void)
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
    weft_drop(task);
    return 0;
}

static void a_try_never_waits(void)
{
    run_under(EVERYWHERE, try_before_and_after);
}

static intptr_t await_failures(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *ended = go(echo, (void *)-EIO);
    wait_for_state(ended, WEFT_FAILED);
    CHECK_EQ(weft_await(ended), -EIO);
    for (int i = 0; i < 20; i++) { /* the joiner is there before the end, or comes after it */
        CHECK_EQ(weft_await(go(echo, (void *)-ENOENT)), -ENOENT);
    }
    weft_task *task = go(stand_by, &open);
    raise_by_one(&open);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

/* X28, S1.15, behaviour 28 */
static void a_failure_comes_to_who_awaits_it(void)
{
    run_under(EVERYWHERE, await_failures);
}

/* ---- many who wait --------------------------------------------------------------------------- */

enum { TASKS = 40, THREADS = 3 };

struct crowd {
    weft_task *task;
    wf_atomic_u32 open;
    wf_atomic_u32 waiting;
    int written; /* plain: by the task before its end, read by all who joined it */
};

static intptr_t write_when_open(void *arg)
{
    struct crowd *crowd = arg;
    wait_for(&crowd->open, 1);
    crowd->written = 4711;
    return 17;
}

static void join_in(struct crowd *crowd)
{
    intptr_t result = 0;
    raise_by_one(&crowd->waiting);
    CHECK_EQ(weft_join(crowd->task, &result), 0);
    CHECK_EQ(result, 17);
    CHECK_EQ(crowd->written, 4711);
}

static intptr_t join_as_task(void *arg)
{
    join_in(arg);
    return 0;
}

static void *join_as_thread(void *arg)
{
    join_in(arg);
    return NULL;
}

static void join_all_at_once(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct crowd crowd = {0};
    weft_task *joiners[TASKS];
    pthread_t threads[THREADS];
    crowd.task = go_into(runtime, write_when_open, &crowd);
    for (int i = 0; i < TASKS; i++) {
        joiners[i] = go_into(runtime, join_as_task, &crowd);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], join_as_thread, &crowd, NULL), 0);
    }
    wait_for(&crowd.waiting, TASKS + THREADS);
    for (int i = 0; i < TASKS; i++) {
        wait_for_state(joiners[i], WEFT_BLOCKED);
    }
    raise_by_one(&crowd.open);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    CHECK_EQ(weft_await_all(joiners, TASKS, NULL), 0);
    CHECK_EQ(weft_await(crowd.task), 17);
}

/* behaviour 28, behaviour 29, S0.27, part of S0.30: with one worker the joiners would stop it. */
static void many_tasks_and_threads_join_one_task(void)
{
    open_under(EVERYWHERE, join_all_at_once);
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

static intptr_t join_at_the_end(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        struct race race = {.value = 0};
        weft_task *task = go(end_soon, &race);
        /* Half of the rounds go to sleep first, half meet the end half-way. */
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
static void a_join_that_races_the_end_is_not_lost(void)
{
    run_under(EVERYWHERE, join_at_the_end);
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

static void a_thread_that_races_the_end_is_not_lost(void)
{
    open_under(EVERYWHERE, race_from_a_thread);
}

/* ---- several tasks at once ------------------------------------------------------------------- */

struct after {
    wf_atomic_u32 *open;
    intptr_t result;
};

static intptr_t give_after(void *arg)
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
    /* The later of the two errors comes first in time. */
    afters[3] = (struct after){&late, -EIO};
    afters[7] = (struct after){&early, -ENOENT};
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(give_after, &afters[i]);
    }
    wait_for_state(tasks[7], WEFT_FAILED);
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
static void all_results_come_in_order_and_so_does_the_first_error(void)
{
    run_under(EVERYWHERE, await_all_in_order);
}

static intptr_t wait_for_several(void *arg)
{
    return weft_race(arg, 2, NULL);
}

static intptr_t look_at_a_wait_for_several(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *tasks[2] = {go(stand_by, &open), go(stand_by, &open)};
    weft_task *waiter = go(wait_for_several, (void *)tasks);
    wait_for_state(waiter, WEFT_BLOCKED);
    CHECK_EQ(info_of(waiter).wait, WEFT_WAIT_TASKS);
    raise_by_one(&open);
    CHECK(weft_await(waiter) >= 0);
    return 0;
}

static void a_wait_for_several_says_so(void)
{
    run_under(EVERYWHERE, look_at_a_wait_for_several);
}

/* The same task stands twice in the array: each handle counts. */
static intptr_t await_twins(void *arg)
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
static void each_handle_is_given_back_on_its_own(void)
{
    run_under(EVERYWHERE, await_twins);
}

struct loser {
    wf_atomic_u32 *started;
    int has_left; /* plain: written before its end */
};

static intptr_t lose(void *arg)
{
    struct loser *loser = arg;
    raise_by_one(loser->started);
    int rc = 0;
    while (rc == 0) {
        rc = weft_yield();
    }
    loser->has_left = 1;
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
        struct loser losers[4] = {{.has_left = 0}};
        weft_task *tasks[4];
        intptr_t result = 0;
        for (int i = 0; i < 4; i++) {
            losers[i].started = &started;
            tasks[i] = i == winner ? go(win, &started) : go(lose, &losers[i]);
        }
        CHECK_EQ(weft_race(tasks, 4, &result), winner);
        CHECK_EQ(result, 42);
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(losers[i].has_left, i == winner ? 0 : 1); /* all were waited for */
        }
    }
    return 0;
}

/* behaviour 36 */
static void a_race_cancels_the_losers_and_waits_for_them(void)
{
    run_under(EVERYWHERE, race_three_against_one);
}

static intptr_t race_oddly(void *arg)
{
    (void)arg;
    wf_atomic_u32 never = {0};
    intptr_t result = 99;
    CHECK_EQ(weft_race(NULL, 0, &result), -EINVAL);
    CHECK_EQ(result, 99);
    weft_task *failing[2] = {go(stand_by_or_leave, &never), go(echo, (void *)-EIO)};
    CHECK_EQ(weft_race(failing, 2, &result), 1); /* the first to end wins, however */
    CHECK_EQ(result, -EIO);
    weft_task *ended[2] = {go(stand_by_or_leave, &never), go(echo, (void *)8)};
    wait_for_state(ended[1], WEFT_COMPLETED);
    CHECK_EQ(weft_race(ended, 2, &result), 1);
    CHECK_EQ(result, 8);
    weft_task *alone[1] = {go(echo, (void *)6)};
    CHECK_EQ(weft_race(alone, 1, NULL), 0);
    return 0;
}

static void a_race_may_be_over_before_it_begins(void)
{
    run_under(EVERYWHERE, race_oddly);
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
    CHECK_EQ(weft_race(racers, 2, results), 1);
    CHECK_EQ(results[0], 4);
}

static void a_thread_can_wait_for_several(void)
{
    open_under(EVERYWHERE, wait_for_several_from_a_thread);
}

/* ---- handles --------------------------------------------------------------------------------- */

static intptr_t drop_at_all_times(void *arg)
{
    (void)arg;
    enum { ROUNDS = 100 };
    wf_atomic_u32 ended = {0};
    for (int i = 0; i < ROUNDS; i++) {
        weft_drop(go(count_up, &ended)); /* before its end, or while it ends */
    }
    wait_for(&ended, ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        weft_task *task = go(count_up, &ended);
        wait_for_state(task, WEFT_COMPLETED);
        weft_drop(task); /* after it */
    }
    return 0;
}

/* behaviour 34: LeakSanitizer counts what is left. */
static void a_handle_can_be_dropped_at_any_time(void)
{
    run_under(EVERYWHERE, drop_at_all_times);
}

static void *drop_many(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        weft_drop(weft_task_ref(arg));
    }
    weft_drop(arg);
    return NULL;
}

static void share_a_handle(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    static wf_atomic_u32 open; /* the task may look at it until the runtime is closed */
    pthread_t threads[THREADS];
    wf_store_relaxed(&open, 0);
    weft_task *task = go_into(runtime, stand_by, &open);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], drop_many, weft_task_ref(task), NULL), 0);
    }
    weft_drop(task);
    raise_by_one(&open);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
}

/* S4.38, behaviour 34 */
static void the_last_of_many_handles_may_go_anywhere(void)
{
    open_under(EVERYWHERE, share_a_handle);
}

static void a_handle_outlives_its_runtime(void)
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
        CHECK_EQ(state_of(task), WEFT_COMPLETED);
        CHECK_EQ(weft_cancel(task), 0);
        CHECK_EQ(weft_await(task), 77);
    }
}

/* ---- two runtimes ---------------------------------------------------------------------------- */

struct pair {
    weft_runtime *other;
    int carried;
};

static intptr_t work_there(void *arg)
{
    struct pair *pair = arg;
    CHECK(weft_runtime_self() == pair->other);
    pair->carried++;
    return 0;
}

static intptr_t await_over_there(void *arg)
{
    struct pair *pair = arg;
    weft_runtime *own = weft_runtime_self();
    CHECK(own != pair->other);
    for (int i = 0; i < 200; i++) {
        weft_task *task = NULL;
        pair->carried = i;
        CHECK_EQ(weft_runtime_spawn(pair->other, &task, work_there, pair, NULL), 0);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(pair->carried, i + 1);
        CHECK(weft_runtime_self() == own);
    }
    return 0;
}

static void cross(weft_runtime *runtime, const struct setting *setting)
{
    weft_options options = options_of(setting);
    struct pair here = {.other = NULL};
    CHECK_EQ(weft_runtime_open(&here.other, &options), 0);
    struct pair there = {.other = runtime};
    weft_task *tasks[2] = {go_into(runtime, await_over_there, &here),
                           go_into(here.other, await_over_there, &there)};
    CHECK_EQ(weft_await_all(tasks, 2, NULL), 0);
    CHECK_EQ(weft_runtime_close(here.other, -1), 0);
}

/* behaviour 19: each wakes tasks of the other, at the same time. */
static void tasks_of_two_runtimes_await_each_other(void)
{
    open_under(EVERYWHERE, cross);
}

static const struct tap_test tests[] = {
    TAP_TEST(awaiting_nothing_or_oneself_ends_at_once),
    TAP_TEST(a_batch_runs_before_who_awaits_it_in_order),
    TAP_TEST(who_lets_a_task_begin_may_be_cancelled),
    TAP_TEST(a_task_can_be_joined_again_and_again),
    TAP_TEST(a_try_never_waits),
    TAP_TEST(a_failure_comes_to_who_awaits_it),
    TAP_TEST(many_tasks_and_threads_join_one_task),
    TAP_TEST(a_join_that_races_the_end_is_not_lost),
    TAP_TEST(a_thread_that_races_the_end_is_not_lost),
    TAP_TEST(all_results_come_in_order_and_so_does_the_first_error),
    TAP_TEST(a_wait_for_several_says_so),
    TAP_TEST(each_handle_is_given_back_on_its_own),
    TAP_TEST(a_race_cancels_the_losers_and_waits_for_them),
    TAP_TEST(a_race_may_be_over_before_it_begins),
    TAP_TEST(a_thread_can_wait_for_several),
    TAP_TEST(a_handle_can_be_dropped_at_any_time),
    TAP_TEST(the_last_of_many_handles_may_go_anywhere),
    TAP_TEST(a_handle_outlives_its_runtime),
    TAP_TEST(tasks_of_two_runtimes_await_each_other),
};
TAP_MAIN(tests)
