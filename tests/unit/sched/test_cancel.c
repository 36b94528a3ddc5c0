/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a cancelled task gets -ECANCELED from every call that waits, whatever it does when the
 *         cancel arrives, but not behind a shield. The same holds for a deadline.
 * Method: the test brings a task to each state, cancels it there, and checks the codes that its
 *         calls return.
 */
#include "sched_helpers.h"

/* ---- states of the cancelled task ------------------------------------------------------------ */

static intptr_t check_once(void *arg)
{
    (void)arg;
    return weft_check();
}

/* One worker: the tasks cannot begin before this task waits. */
static intptr_t cancel_queued(void *arg)
{
    (void)arg;
    enum { COUNT = 10 };
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(check_once, NULL);
        CHECK_EQ(state_of(tasks[i]), WEFT_TASK_CREATED);
        CHECK_EQ(weft_cancel(tasks[i]), 0);
        CHECK_EQ(weft_cancel(tasks[i]), 0); /* idempotent */
        CHECK(info_of(tasks[i]).is_cancelled);
    }
    for (int i = 0; i < COUNT; i++) {
        intptr_t result = 0;
        CHECK_EQ(weft_join(tasks[i], &result), 0);
        CHECK_EQ(result, -ECANCELED);
        CHECK_EQ(state_of(tasks[i]), WEFT_TASK_CANCELLED);
        weft_task_unref(tasks[i]);
    }
    return 0;
}

/* part of behaviour 32 */
static void cancel_reaches_a_queued_task(void)
{
    run_under(ON_ONE_WORKER, cancel_queued);
}

static intptr_t compute(void *arg)
{
    raise_by_one(arg);
    int rc = 0;
    while (rc == 0) {
        rc = weft_check();
    }
    CHECK_EQ(weft_check(), rc); /* at every call */
    return rc;
}

static intptr_t cancel_running(void *arg)
{
    (void)arg;
    wf_atomic_u32 started = {0};
    weft_task *task = go(compute, &started);
    wait_for(&started, 1); /* the task computes, or waits for its next slice */
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    return 0;
}

/* part of behaviour 32; a computing task shares its worker: the canceller got a slice */
static void cancel_reaches_a_running_task(void)
{
    run_under(EVERYWHERE, cancel_running);
}

/* The ways to wait, each for tasks that end only when the test allows it. */
struct waiter {
    wf_atomic_u32 open;
    weft_task *awaited[2];
    int (*wait)(struct waiter *waiter);
    enum weft_wait kind;
    int codes[2];
};

static int wait_by_join(struct waiter *waiter)
{
    intptr_t result = 99;
    int rc = weft_join(waiter->awaited[0], &result);
    CHECK_EQ(result, 99); /* untouched */
    return rc;
}

static int wait_by_await(struct waiter *waiter)
{
    return (int)weft_await(weft_task_ref(waiter->awaited[0]));
}

static int wait_by_await_all(struct waiter *waiter)
{
    weft_task *tasks[2] = {weft_task_ref(waiter->awaited[0]), weft_task_ref(waiter->awaited[1])};
    return weft_await_all(tasks, 2, NULL);
}

static int wait_by_race(struct waiter *waiter)
{
    weft_task *tasks[2] = {weft_task_ref(waiter->awaited[0]), weft_task_ref(waiter->awaited[1])};
    return weft_await_first(tasks, 2, NULL);
}

static intptr_t wait_twice(void *arg)
{
    struct waiter *waiter = arg;
    waiter->codes[0] = waiter->wait(waiter);
    waiter->codes[1] = waiter->wait(waiter); /* level-triggered: fails again at once */
    return waiter->codes[0];
}

static const struct waiter waiters[] = {
    {.wait = wait_by_join, .kind = WEFT_WAIT_TASK},
    {.wait = wait_by_await, .kind = WEFT_WAIT_TASK},
    {.wait = wait_by_await_all, .kind = WEFT_WAIT_TASK},
    {.wait = wait_by_race, .kind = WEFT_WAIT_TASKS},
};
enum { WAITERS = sizeof(waiters) / sizeof(waiters[0]) };

static struct waiter waiter_new(size_t which)
{
    return waiters[which];
}

static void waiter_begin(struct waiter *waiter)
{
    waiter->awaited[0] = go(stand_by_or_leave, &waiter->open);
    waiter->awaited[1] = go(stand_by_or_leave, &waiter->open);
}

/* The awaited tasks still run: the cancel did not reach them. */
static void waiter_end(struct waiter *waiter)
{
    for (int i = 0; i < 2; i++) {
        CHECK(!info_of(waiter->awaited[i]).is_cancelled);
        CHECK_EQ(weft_try_join(waiter->awaited[i], NULL), -EAGAIN);
    }
    raise_by_one(&waiter->open);
    CHECK_EQ(weft_await(waiter->awaited[0]), 0);
    CHECK_EQ(weft_await(waiter->awaited[1]), 0);
}

static intptr_t cancel_waiting(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < WAITERS; i++) {
        struct waiter waiter = waiter_new(i);
        waiter_begin(&waiter);
        weft_task *task = go(wait_twice, &waiter);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        CHECK_EQ(info_of(task).wait, waiter.kind);
        CHECK_EQ(weft_cancel(task), 0);
        intptr_t result = 0;
        CHECK_EQ(weft_join(task, &result), 0);
        CHECK_EQ(result, -ECANCELED);
        CHECK_EQ(waiter.codes[1], -ECANCELED);
        CHECK_EQ(state_of(task), WEFT_TASK_CANCELLED);
        weft_task_unref(task);
        waiter_end(&waiter);
    }
    return 0;
}

/* part of behaviour 32, part of S2.9: cancel */
static void cancel_wakes_a_waiting_task(void)
{
    run_under(EVERYWHERE, cancel_waiting);
}

struct canceller {
    weft_task *task;
    wf_atomic_u32 go;
};

static void *cancel_from_thread(void *arg)
{
    struct canceller *canceller = arg;
    wait_for(&canceller->go, 1);
    CHECK_EQ(weft_cancel(canceller->task), 0);
    return NULL;
}

static intptr_t join_what_never_ends(void *arg)
{
    return weft_join(arg, NULL);
}

static void race_the_cancel(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    wf_atomic_u32 never = {0};
    weft_task *endless = go_into(runtime, stand_by_or_leave, &never);
    for (int i = 0; i < 50; i++) {
        struct canceller canceller = {.go = {0}};
        pthread_t thread;
        CHECK_EQ(wf_thread_start(&thread, cancel_from_thread, &canceller, NULL), 0);
        canceller.task = go_into(runtime, join_what_never_ends, endless);
        raise_by_one(&canceller.go); /* cancels before, during or after the suspension */
        intptr_t result = 0;
        CHECK_EQ(weft_join(canceller.task, &result), 0);
        CHECK_EQ(result, -ECANCELED);
        CHECK_EQ(wf_thread_join(thread), 0);
        weft_task_unref(canceller.task);
    }
    CHECK_EQ(weft_cancel(endless), 0);
    CHECK_EQ(weft_await(endless), -ECANCELED);
}

static void cancel_that_races_a_wait_is_not_lost(void)
{
    open_under(EVERYWHERE, race_the_cancel);
}

static intptr_t cancel_at_the_end(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        weft_task *task = go(echo, (void *)5);
        for (int j = 0; j < i % 3; j++) {
            (void)weft_yield();
        }
        CHECK_EQ(weft_cancel(task), 0);
        intptr_t result = 0;
        CHECK_EQ(weft_join(task, &result), 0);
        /* A task that never ran may end without a run. */
        CHECK(result == 5 || result == -ECANCELED);
        CHECK_EQ(state_of(task), result == 5 ? WEFT_TASK_COMPLETED : WEFT_TASK_CANCELLED);
        CHECK_EQ(weft_cancel(task), 0); /* the task has ended: no effect */
        CHECK_EQ(state_of(task), result == 5 ? WEFT_TASK_COMPLETED : WEFT_TASK_CANCELLED);
        weft_task_unref(task);
    }
    return 0;
}

static void cancel_of_an_ended_task_has_no_effect(void)
{
    run_under(EVERYWHERE, cancel_at_the_end);
}

/* ---- behaviour of the cancelled task --------------------------------------------------------- */

static intptr_t cancel_self(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_check(), 0);
    CHECK_EQ(weft_yield(), 0);
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_check(), -ECANCELED);
    CHECK_EQ(weft_yield(), -ECANCELED);
    CHECK_EQ(weft_yield(), -ECANCELED);
    return 6; /* a cancel is a request */
}

static intptr_t join_task_that_ignores_cancel(void *arg)
{
    (void)arg;
    weft_task *task = go(cancel_self, NULL);
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK_EQ(state_of(task), WEFT_TASK_COMPLETED);
    CHECK_EQ(weft_await(task), 6);
    return 0;
}

static void cancel_does_not_force_the_task_to_end(void)
{
    run_under(EVERYWHERE, join_task_that_ignores_cancel);
}

/* One worker: the other task can only run when the cancelled one yields. */
static intptr_t yield_while_cancelled(void *arg)
{
    (void)arg;
    wf_atomic_u32 ran = {0};
    CHECK_EQ(weft_cancel(weft_self()), 0);
    weft_task_unref(go(count_up, &ran));
    while (wf_load_acquire(&ran) == 0) {
        CHECK_EQ(weft_yield(), -ECANCELED); /* the error comes after the yield */
    }
    return 0;
}

static void yield_of_a_cancelled_task_still_runs_others(void)
{
    run_under(ON_ONE_WORKER, yield_while_cancelled);
}

/* ---- shields --------------------------------------------------------------------------------- */

struct shielded {
    wf_atomic_u32 open;
    weft_task *awaited;
    int shields;
};

static intptr_t wait_behind_shields(void *arg)
{
    struct shielded *shielded = arg;
    for (int i = 0; i < shielded->shields; i++) {
        CHECK_EQ(weft_shield_begin(), 0);
    }
    CHECK_EQ(weft_join(shielded->awaited, NULL), 0); /* not affected by the cancel */
    for (int i = 0; i < shielded->shields; i++) {
        CHECK_EQ(weft_check(), 0);
        CHECK_EQ(weft_yield(), 0);
        CHECK_EQ(info_of(weft_self()).shields, shielded->shields - i);
        CHECK(info_of(weft_self()).is_cancelled);
        CHECK_EQ(weft_shield_end(), 0);
    }
    CHECK_EQ(weft_check(), -ECANCELED);
    return weft_join(shielded->awaited, NULL) == 0 ? weft_yield() : -ECANCELED;
}

static intptr_t cancel_shielded(void *arg)
{
    (void)arg;
    for (int shields = 1; shields <= 3; shields++) {
        struct shielded shielded = {.shields = shields};
        shielded.awaited = go(stand_by, &shielded.open);
        weft_task *task = go(wait_behind_shields, &shielded);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        CHECK_EQ(weft_cancel(task), 0);
        for (int i = 0; i < 10; i++) {
            (void)weft_yield();
            CHECK_EQ(state_of(task), WEFT_TASK_BLOCKED);
        }
        raise_by_one(&shielded.open);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(weft_await(shielded.awaited), 0);
    }
    return 0;
}

/* S4.39, behaviour 33 */
static void shield_defers_cancel_until_outermost_shield_ends(void)
{
    run_under(EVERYWHERE, cancel_shielded);
}

static intptr_t nest_shields(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_shield_end(), -EINVAL);
    for (int i = 0; i < 255; i++) {
        CHECK_EQ(weft_shield_begin(), 0);
    }
    CHECK_EQ(weft_shield_begin(), -EOVERFLOW);
    CHECK_EQ(info_of(weft_self()).shields, 255);
    CHECK_EQ(weft_cancel(weft_self()), 0);
    for (int i = 0; i < 255; i++) {
        CHECK_EQ(weft_check(), 0);
        CHECK_EQ(weft_shield_end(), 0);
    }
    CHECK_EQ(weft_check(), -ECANCELED);
    CHECK_EQ(weft_shield_end(), -EINVAL);
    return 0;
}

/* S4.39, behaviour 33 */
static void shield_nests_up_to_255(void)
{
    run_under(EVERYWHERE, nest_shields);
}

/* A cleanup may wait. */
static intptr_t clean_up_with_child(void *arg)
{
    int rc = weft_join(arg, NULL);
    CHECK_EQ(rc, -ECANCELED);
    CHECK_EQ(weft_shield_begin(), 0);
    CHECK_EQ(weft_await(go(echo, (void *)12)), 12);
    CHECK_EQ(weft_shield_end(), 0);
    return rc;
}

static intptr_t cancel_task_with_cleanup(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *awaited = go(stand_by, &open);
    weft_task *task = go(clean_up_with_child, awaited);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    raise_by_one(&open);
    CHECK_EQ(weft_await(awaited), 0);
    return 0;
}

/* behaviour 31 */
static void shield_lets_a_cancelled_task_spawn_and_await(void)
{
    run_under(EVERYWHERE, cancel_task_with_cleanup);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static intptr_t miss_every_deadline(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_deadline_set(1), WEFT_NEVER); /* far in the past */
    CHECK_EQ(info_of(weft_self()).deadline, 1);
    CHECK_EQ(weft_check(), -ETIMEDOUT);
    CHECK_EQ(weft_yield(), -ETIMEDOUT);
    CHECK_EQ(weft_yield(), -ETIMEDOUT);
    for (size_t i = 0; i < WAITERS; i++) {
        struct waiter waiter = waiter_new(i);
        waiter_begin(&waiter);
        CHECK_EQ(wait_twice(&waiter), -ETIMEDOUT);
        CHECK_EQ(waiter.codes[1], -ETIMEDOUT);
        CHECK_EQ(weft_deadline_set(WEFT_NEVER), 1);
        waiter_end(&waiter);
        CHECK_EQ(weft_deadline_set(1), WEFT_NEVER);
    }
    CHECK_EQ(weft_shield_begin(), 0); /* a shield defers deadlines, too */
    CHECK_EQ(weft_check(), 0);
    CHECK_EQ(weft_yield(), 0);
    CHECK_EQ(weft_await(go(echo, (void *)3)), 3);
    CHECK_EQ(weft_shield_end(), 0);
    CHECK_EQ(weft_check(), -ETIMEDOUT);
    CHECK_EQ(weft_deadline_set(WEFT_NEVER), 1);
    CHECK_EQ(weft_check(), 0);
    CHECK_EQ(weft_await(go(echo, (void *)3)), 3);
    return 0;
}

static void deadline_in_the_past_fails_every_wait(void)
{
    run_under(EVERYWHERE, miss_every_deadline);
}

static intptr_t check_until_late(void *arg)
{
    int (*const *check)(void) = arg;
    int rc = 0;
    (void)weft_deadline_set(wf_clock_now() + 1000000);
    while (rc == 0) {
        rc = (*check)();
    }
    return rc;
}

static intptr_t let_deadlines_pass(void *arg)
{
    (void)arg;
    int (*checks[])(void) = {weft_yield, weft_check};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_await(go(check_until_late, (void *)&checks[i])), -ETIMEDOUT);
    }
    return 0;
}

/* Running tasks only: test_time.c shows deadlines of waiting tasks. */
static void deadline_is_seen_by_a_running_task(void)
{
    run_under(EVERYWHERE, let_deadlines_pass);
}

/* ---- many joiners ---------------------------------------------------------------------------- */

static intptr_t cancel_every_second(void *arg)
{
    (void)arg;
    enum { COUNT = 200 };
    static weft_task *tasks[COUNT];
    static intptr_t results[COUNT];
    wf_atomic_u32 open = {0};
    weft_task *awaited = go(stand_by, &open);
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(join_what_never_ends, awaited);
    }
    wait_for_state(tasks[COUNT / 2], WEFT_TASK_BLOCKED); /* some joiners wait, some do not yet */
    for (int i = 0; i < COUNT; i += 2) {
        CHECK_EQ(weft_cancel(tasks[i]), 0);
    }
    for (int i = 0; i < COUNT; i += 2) {
        intptr_t result = 0;
        CHECK_EQ(weft_join(tasks[i], &result), 0);
        CHECK_EQ(result, -ECANCELED);
    }
    raise_by_one(&open);
    CHECK_EQ(weft_await_all(tasks, COUNT, results), -ECANCELED);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(results[i], i % 2 == 0 ? -ECANCELED : 0);
    }
    CHECK_EQ(weft_await(awaited), 0);
    return 0;
}

/* part of behaviour 32: cancelled joiners leave the middle of the list, the remaining joiners stay.
 * */
static void cancel_removes_single_joiners_from_a_list_of_200(void)
{
    run_under(EVERYWHERE, cancel_every_second);
}

static const struct tap_test tests[] = {
    TAP_TEST(cancel_reaches_a_queued_task),
    TAP_TEST(cancel_reaches_a_running_task),
    TAP_TEST(cancel_wakes_a_waiting_task),
    TAP_TEST(cancel_that_races_a_wait_is_not_lost),
    TAP_TEST(cancel_of_an_ended_task_has_no_effect),
    TAP_TEST(cancel_does_not_force_the_task_to_end),
    TAP_TEST(yield_of_a_cancelled_task_still_runs_others),
    TAP_TEST(shield_defers_cancel_until_outermost_shield_ends),
    TAP_TEST(shield_nests_up_to_255),
    TAP_TEST(shield_lets_a_cancelled_task_spawn_and_await),
    TAP_TEST(deadline_in_the_past_fails_every_wait),
    TAP_TEST(deadline_is_seen_by_a_running_task),
    TAP_TEST(cancel_removes_single_joiners_from_a_list_of_200),
};
TAP_MAIN(tests)
