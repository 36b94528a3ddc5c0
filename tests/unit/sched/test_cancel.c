/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a task that is asked to end hears of it at every call that waits, whatever it does at
 *         that moment; not behind a shield; and the same holds for a deadline.
 * Method: a task is brought to each place where it can be, cancelled there, and asked what it
 * heard.
 */
#include "sched_aids.h"

/* ---- where a cancel finds the task ----------------------------------------------------------- */

static intptr_t say_what_a_wait_would(void *arg)
{
    (void)arg;
    return weft_check();
}

/* One worker: the task cannot begin before we wait. */
static intptr_t cancel_the_queued(void *arg)
{
    (void)arg;
    enum { COUNT = 10 };
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(say_what_a_wait_would, NULL);
        CHECK_EQ(state_of(tasks[i]), WEFT_CREATED);
        CHECK_EQ(weft_cancel(tasks[i]), 0);
        CHECK_EQ(weft_cancel(tasks[i]), 0); /* twice is once */
        CHECK(info_of(tasks[i]).is_cancelled);
    }
    for (int i = 0; i < COUNT; i++) {
        intptr_t result = 0;
        CHECK_EQ(weft_join(tasks[i], &result), 0);
        CHECK_EQ(result, -ECANCELED);
        CHECK_EQ(state_of(tasks[i]), WEFT_CANCELLED);
        weft_drop(tasks[i]);
    }
    return 0;
}

/* part of behaviour 32 */
static void a_cancel_finds_a_task_that_is_queued(void)
{
    run_under(ON_ONE_WORKER, cancel_the_queued);
}

static intptr_t compute(void *arg)
{
    raise_by_one(arg);
    int rc = 0;
    while (rc == 0) {
        rc = weft_check();
    }
    CHECK_EQ(weft_check(), rc); /* each time anew */
    return rc;
}

static intptr_t cancel_the_running(void *arg)
{
    (void)arg;
    wf_atomic_u32 started = {0};
    weft_task *task = go(compute, &started);
    wait_for(&started, 1); /* from now on it computes, or waits for its next share */
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    return 0;
}

/* part of behaviour 32; and a task that computes shares its worker: the canceller had its turn */
static void a_cancel_finds_a_task_that_runs(void)
{
    run_under(EVERYWHERE, cancel_the_running);
}

/* The ways to wait, each for tasks that end only when the test says so. */
struct waiter {
    wf_atomic_u32 open;
    weft_task *awaited[2];
    int (*wait)(struct waiter *waiter);
    enum weft_wait kind;
    int heard[2];
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

static int wait_for_all(struct waiter *waiter)
{
    weft_task *tasks[2] = {weft_task_ref(waiter->awaited[0]), weft_task_ref(waiter->awaited[1])};
    return weft_await_all(tasks, 2, NULL);
}

static int wait_for_the_first(struct waiter *waiter)
{
    weft_task *tasks[2] = {weft_task_ref(waiter->awaited[0]), weft_task_ref(waiter->awaited[1])};
    return weft_race(tasks, 2, NULL);
}

static intptr_t wait_twice(void *arg)
{
    struct waiter *waiter = arg;
    waiter->heard[0] = waiter->wait(waiter);
    waiter->heard[1] = waiter->wait(waiter); /* level-triggered: at once again */
    return waiter->heard[0];
}

static const struct waiter waiters[] = {
    {.wait = wait_by_join, .kind = WEFT_WAIT_TASK},
    {.wait = wait_by_await, .kind = WEFT_WAIT_TASK},
    {.wait = wait_for_all, .kind = WEFT_WAIT_TASK},
    {.wait = wait_for_the_first, .kind = WEFT_WAIT_TASKS},
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

/* What was awaited went on: it was not cancelled along. */
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

static intptr_t cancel_the_waiting(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < WAITERS; i++) {
        struct waiter waiter = waiter_new(i);
        waiter_begin(&waiter);
        weft_task *task = go(wait_twice, &waiter);
        wait_for_state(task, WEFT_BLOCKED);
        CHECK_EQ(info_of(task).wait, waiter.kind);
        CHECK_EQ(weft_cancel(task), 0);
        intptr_t result = 0;
        CHECK_EQ(weft_join(task, &result), 0);
        CHECK_EQ(result, -ECANCELED);
        CHECK_EQ(waiter.heard[1], -ECANCELED);
        CHECK_EQ(state_of(task), WEFT_CANCELLED);
        weft_drop(task);
        waiter_end(&waiter);
    }
    return 0;
}

/* part of behaviour 32, part of S2.9: cancel */
static void a_cancel_wakes_a_task_that_waits(void)
{
    run_under(EVERYWHERE, cancel_the_waiting);
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
        raise_by_one(&canceller.go); /* meets it before, while or after it goes to sleep */
        intptr_t result = 0;
        CHECK_EQ(weft_join(canceller.task, &result), 0);
        CHECK_EQ(result, -ECANCELED);
        CHECK_EQ(wf_thread_join(thread), 0);
        weft_drop(canceller.task);
    }
    CHECK_EQ(weft_cancel(endless), 0);
    CHECK_EQ(weft_await(endless), -ECANCELED);
}

static void a_cancel_that_races_the_wait_is_not_lost(void)
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
        /* A task that was never run may be spared the trouble. */
        CHECK(result == 5 || result == -ECANCELED);
        CHECK_EQ(state_of(task), result == 5 ? WEFT_COMPLETED : WEFT_CANCELLED);
        CHECK_EQ(weft_cancel(task), 0); /* has ended: no effect */
        CHECK_EQ(state_of(task), result == 5 ? WEFT_COMPLETED : WEFT_CANCELLED);
        weft_drop(task);
    }
    return 0;
}

static void a_cancel_may_come_too_late(void)
{
    run_under(EVERYWHERE, cancel_at_the_end);
}

/* ---- what the task makes of it --------------------------------------------------------------- */

static intptr_t cancel_oneself(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_check(), 0);
    CHECK_EQ(weft_yield(), 0);
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_check(), -ECANCELED);
    CHECK_EQ(weft_yield(), -ECANCELED);
    CHECK_EQ(weft_yield(), -ECANCELED);
    return 6; /* it was asked, not forced */
}

static intptr_t watch_a_task_that_goes_on(void *arg)
{
    (void)arg;
    weft_task *task = go(cancel_oneself, NULL);
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK_EQ(state_of(task), WEFT_COMPLETED);
    CHECK_EQ(weft_await(task), 6);
    return 0;
}

static void a_cancelled_task_may_go_on_to_its_end(void)
{
    run_under(EVERYWHERE, watch_a_task_that_goes_on);
}

/* One worker: the other task can only run when the cancelled one lets it. */
static intptr_t give_way_although_cancelled(void *arg)
{
    (void)arg;
    wf_atomic_u32 ran = {0};
    CHECK_EQ(weft_cancel(weft_self()), 0);
    weft_drop(go(count_up, &ran));
    while (wf_load_acquire(&ran) == 0) {
        CHECK_EQ(weft_yield(), -ECANCELED); /* "after it did so" */
    }
    return 0;
}

static void a_cancelled_task_still_gives_way(void)
{
    run_under(ON_ONE_WORKER, give_way_although_cancelled);
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
        CHECK_EQ(weft_shield(1), 0);
    }
    CHECK_EQ(weft_join(shielded->awaited, NULL), 0); /* as if nothing were */
    for (int i = 0; i < shielded->shields; i++) {
        CHECK_EQ(weft_check(), 0);
        CHECK_EQ(weft_yield(), 0);
        CHECK_EQ(info_of(weft_self()).shields, shielded->shields - i);
        CHECK(info_of(weft_self()).is_cancelled);
        CHECK_EQ(weft_shield(0), 0);
    }
    CHECK_EQ(weft_check(), -ECANCELED);
    return weft_join(shielded->awaited, NULL) == 0 ? weft_yield() : -ECANCELED;
}

static intptr_t cancel_the_shielded(void *arg)
{
    (void)arg;
    for (int shields = 1; shields <= 3; shields++) {
        struct shielded shielded = {.shields = shields};
        shielded.awaited = go(stand_by, &shielded.open);
        weft_task *task = go(wait_behind_shields, &shielded);
        wait_for_state(task, WEFT_BLOCKED);
        CHECK_EQ(weft_cancel(task), 0);
        for (int i = 0; i < 10; i++) {
            (void)weft_yield();
            CHECK_EQ(state_of(task), WEFT_BLOCKED);
        }
        raise_by_one(&shielded.open);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(weft_await(shielded.awaited), 0);
    }
    return 0;
}

/* S4.39, behaviour 33 */
static void behind_shields_a_cancel_waits_for_the_outermost_end(void)
{
    run_under(EVERYWHERE, cancel_the_shielded);
}

static intptr_t take_all_shields(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_shield(0), -EINVAL);
    for (int i = 0; i < 255; i++) {
        CHECK_EQ(weft_shield(1), 0);
    }
    CHECK_EQ(weft_shield(1), -EOVERFLOW);
    CHECK_EQ(info_of(weft_self()).shields, 255);
    CHECK_EQ(weft_cancel(weft_self()), 0);
    for (int i = 0; i < 255; i++) {
        CHECK_EQ(weft_check(), 0);
        CHECK_EQ(weft_shield(0), 0);
    }
    CHECK_EQ(weft_check(), -ECANCELED);
    CHECK_EQ(weft_shield(0), -EINVAL);
    return 0;
}

/* S4.39, behaviour 33 */
static void shields_nest_to_255(void)
{
    run_under(EVERYWHERE, take_all_shields);
}

/* What a task does to leave things in order may wait. */
static intptr_t clean_up_with_help(void *arg)
{
    int rc = weft_join(arg, NULL);
    CHECK_EQ(rc, -ECANCELED);
    CHECK_EQ(weft_shield(1), 0);
    CHECK_EQ(weft_await(go(echo, (void *)12)), 12);
    CHECK_EQ(weft_shield(0), 0);
    return rc;
}

static intptr_t cancel_a_tidy_task(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *awaited = go(stand_by, &open);
    weft_task *task = go(clean_up_with_help, awaited);
    wait_for_state(task, WEFT_BLOCKED);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    raise_by_one(&open);
    CHECK_EQ(weft_await(awaited), 0);
    return 0;
}

/* behaviour 31 */
static void behind_a_shield_a_cancelled_task_may_spawn_and_await(void)
{
    run_under(EVERYWHERE, cancel_a_tidy_task);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static intptr_t be_late_for_everything(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_deadline(1), WEFT_NEVER); /* long ago */
    CHECK_EQ(info_of(weft_self()).deadline, 1);
    CHECK_EQ(weft_check(), -ETIMEDOUT);
    CHECK_EQ(weft_yield(), -ETIMEDOUT);
    CHECK_EQ(weft_yield(), -ETIMEDOUT);
    for (size_t i = 0; i < WAITERS; i++) {
        struct waiter waiter = waiter_new(i);
        waiter_begin(&waiter);
        CHECK_EQ(wait_twice(&waiter), -ETIMEDOUT);
        CHECK_EQ(waiter.heard[1], -ETIMEDOUT);
        CHECK_EQ(weft_deadline(WEFT_NEVER), 1);
        waiter_end(&waiter);
        CHECK_EQ(weft_deadline(1), WEFT_NEVER);
    }
    CHECK_EQ(weft_shield(1), 0); /* holds deadlines off too */
    CHECK_EQ(weft_check(), 0);
    CHECK_EQ(weft_yield(), 0);
    CHECK_EQ(weft_await(go(echo, (void *)3)), 3);
    CHECK_EQ(weft_shield(0), 0);
    CHECK_EQ(weft_check(), -ETIMEDOUT);
    CHECK_EQ(weft_deadline(WEFT_NEVER), 1);
    CHECK_EQ(weft_check(), 0);
    CHECK_EQ(weft_await(go(echo, (void *)3)), 3);
    return 0;
}

static void after_the_deadline_every_wait_says_so(void)
{
    run_under(EVERYWHERE, be_late_for_everything);
}

static intptr_t go_on_until_late(void *arg)
{
    int (*const *look)(void) = arg;
    int rc = 0;
    (void)weft_deadline(wf_clock_now() + 1000000);
    while (rc == 0) {
        rc = (*look)();
    }
    return rc;
}

static intptr_t let_deadlines_pass(void *arg)
{
    (void)arg;
    int (*looks[])(void) = {weft_yield, weft_check};
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_await(go(go_on_until_late, (void *)&looks[i])), -ETIMEDOUT);
    }
    return 0;
}

/* Of tasks that run: there is no timer yet that would wake one that waits. */
static void a_deadline_passes_while_the_task_runs(void)
{
    run_under(EVERYWHERE, let_deadlines_pass);
}

/* ---- many ------------------------------------------------------------------------------------ */

static intptr_t cancel_a_crowd(void *arg)
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
    wait_for_state(tasks[COUNT / 2], WEFT_BLOCKED); /* some wait, some do not yet */
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

/* part of behaviour 32: those in the middle of the list of joiners go, the others stay. */
static void half_of_many_who_wait_are_cancelled(void)
{
    run_under(EVERYWHERE, cancel_a_crowd);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_cancel_finds_a_task_that_is_queued),
    TAP_TEST(a_cancel_finds_a_task_that_runs),
    TAP_TEST(a_cancel_wakes_a_task_that_waits),
    TAP_TEST(a_cancel_that_races_the_wait_is_not_lost),
    TAP_TEST(a_cancel_may_come_too_late),
    TAP_TEST(a_cancelled_task_may_go_on_to_its_end),
    TAP_TEST(a_cancelled_task_still_gives_way),
    TAP_TEST(behind_shields_a_cancel_waits_for_the_outermost_end),
    TAP_TEST(shields_nest_to_255),
    TAP_TEST(behind_a_shield_a_cancelled_task_may_spawn_and_await),
    TAP_TEST(after_the_deadline_every_wait_says_so),
    TAP_TEST(a_deadline_passes_while_the_task_runs),
    TAP_TEST(half_of_many_who_wait_are_cancelled),
};
TAP_MAIN(tests)
