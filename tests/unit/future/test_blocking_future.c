/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a poll task waits for a blocking function through a future, which it may drop at any
 *         time. A function that has not begun never begins, one that runs is not disturbed, and its
 *         argument is released once, after its last use.
 * Method: functions that wait at gates, so that the test knows the state of a job when its future
 *         is polled, dropped, cancelled, out of time or closed with its runtime; arguments that
 *         their last owner frees, also under AddressSanitizer; many drops at random moments; memory
 *         and threads that are refused in turn.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "abandon_helpers.h"
#include "fault_helpers.h"
#include "future/future.h"
#include "proc_helpers.h"
#include "sched_helpers.h"

/* Argument of a function: a gate at which it waits, and a plain value. */
struct job {
    wf_atomic_u32 begun;
    wf_atomic_u32 open;
    wf_atomic_u32 passed;
    wf_atomic_u32 released;
    int plain; /* carried to the thread and back */
    int thread;
};

static intptr_t pass_gate(void *arg)
{
    struct job *job = arg;
    CHECK(weft_self() == NULL);
    job->thread = wf_thread_id();
    job->plain *= 2;
    raise_by_one(&job->begun);
    hold_for(&job->open, 1);
    raise_by_one(&job->passed);
    return 5;
}

static void release(void *arg)
{
    struct job *job = arg;
    raise_by_one(&job->released);
}

static intptr_t never_called(void *arg)
{
    (void)arg;
    tap_fail(__FILE__, __LINE__, "a function ran that must never begin");
}

/* A poll task that waits for one function and counts its polls. */
struct waiter {
    weft_wait_future *wait;
    wf_atomic_u32 *polls;
};

static weft_poll_result wait_for_it(weft_cx *cx, void *state, intptr_t *result)
{
    struct waiter *waiter = state;
    const weft_poll_result poll = weft_future_poll(&waiter->wait->future, cx, result);
    raise_by_one(waiter->polls);
    return poll;
}

static weft_task *poll_go(weft_runtime *runtime, weft_poll_fn fn, const void *state, size_t size)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_runtime_spawn_poll(runtime, &task, fn, state, size, NULL), 0);
    return task;
}

/* ---- results --------------------------------------------------------------------------------- */

static intptr_t run_others_while_pending(void *arg)
{
    (void)arg;
    weft_wait_future wait;
    wf_atomic_u32 polls = {0};
    struct job job = {.plain = 21};
    weft_blocking_call_future(&wait, pass_gate, &job, release);
    const struct waiter waiter = {&wait, &polls};
    weft_task *task = poll_go(weft_runtime_self(), wait_for_it, &waiter, sizeof(waiter));
    wait_for(&job.begun, 1);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    }
    CHECK_EQ(wf_load_acquire(&job.passed), 0);
    raise_by_one(&job.open);
    CHECK_EQ(weft_await(task), 5);
    CHECK_EQ(job.plain, 42);
    CHECK(job.thread != wf_thread_id());
    weft_future_drop(&wait.future); /* the future was ready: the caller owns the argument */
    CHECK_EQ(wf_load_acquire(&job.released), 0);
    return 0;
}

static void blocking_future_suspends_poll_task_until_function_returns(void)
{
    run_under(EVERYWHERE, run_others_while_pending);
}

static intptr_t fail_with_eio(void *arg)
{
    (void)arg;
    return -EIO;
}

static intptr_t await_some(void *arg)
{
    (void)arg;
    weft_wait_future wait;
    weft_blocking_call_future(&wait, echo, (void *)9, NULL);
    CHECK_EQ(weft_future_await(&wait.future), 9);
    weft_blocking_call_future(&wait, fail_with_eio, NULL, NULL);
    CHECK_EQ(weft_future_await(&wait.future), -EIO);
    weft_future_drop(&wait.future);
    struct job job = {.plain = 0};
    weft_blocking_call_future(&wait, never_called, &job, release); /* never polled */
    weft_future_drop(&wait.future);
    weft_future_drop(&wait.future);
    CHECK_EQ(wf_load_acquire(&job.released), 1);
    CHECK_EQ(stats_of(weft_runtime_self()).blocking_done, 2);
    return 0;
}

static void blocking_future_gives_result_of_function(void)
{
    run_under(EVERYWHERE, await_some);
}

/* Races a function that waits at its gate against a sleep; the sleep wins. */
static void lose_race_to_sleep(struct job *job, int64_t sleep_ns)
{
    weft_wait_future work;
    weft_sleep_future sleeper;
    weft_blocking_call_future(&work, pass_gate, job, release);
    weft_sleep_future_init(&sleeper, weft_time_after(sleep_ns));
    weft_branch branches[2] = {{.future = &work.future}, {.future = &sleeper.future}};
    weft_join_future race;
    weft_join_future_init(&race, WEFT_JOIN_RACE, branches, 2);
    CHECK_EQ(weft_future_await(&race.future), 1);
}

/* The function is at its gate when the sleep ends: the race ends without it. */
static intptr_t race_with_sleep(void *arg)
{
    (void)arg;
    weft_wait_future quick;
    struct job job;
    int64_t sleep_ns = WEFT_MILLISECOND;
    do { /* until the sleep is long enough for the function to begin */
        job = (struct job){.plain = 1};
        lose_race_to_sleep(&job, sleep_ns);
        sleep_ns *= 2;
        /* The control thread may have the job: it begins the job, or sees the drop. */
        while (wf_load_acquire(&job.begun) == 0 && wf_load_acquire(&job.released) == 0) {
            let_others_run();
        }
    } while (wf_load_acquire(&job.released) != 0); /* released by the drop */
    CHECK_EQ(wf_load_acquire(&job.released), 0);
    weft_blocking_call_future(&quick, echo, (void *)9, NULL); /* another call is not delayed */
    CHECK_EQ(weft_future_await(&quick.future), 9);
    raise_by_one(&job.open);
    wait_for(&job.released, 1);
    CHECK_EQ(wf_load_acquire(&job.passed), 1);
    return 0;
}

static void blocking_future_that_loses_a_race_does_not_delay_it(void)
{
    run_under(EVERYWHERE, race_with_sleep);
}

/* ---- drop ------------------------------------------------------------------------------------ */

/* Polls its futures once, then drops them, ends, or stays suspended behind a shield. */
struct dropper {
    weft_wait_future *running;
    weft_wait_future *queued;
    wf_atomic_u32 *begun; /* `begun` of the running job */
    weft_runtime *runtime;
    bool is_ending;
    bool is_shielded;
};

static weft_poll_result begin_and_drop(weft_cx *cx, void *state, intptr_t *result)
{
    struct dropper *dropper = state;
    if (dropper->is_shielded) {
        CHECK_EQ(weft_shield_begin(), 0);
    }
    CHECK_EQ(weft_future_poll(&dropper->running->future, cx, result), WEFT_POLL_PENDING);
    hold_for(dropper->begun, 1);
    CHECK_EQ(weft_future_poll(&dropper->queued->future, cx, result), WEFT_POLL_PENDING);
    while (stats_of(dropper->runtime).blocking_waiting == 0) {
        (void)sched_yield();
    }
    if (dropper->is_shielded) {
        return WEFT_POLL_PENDING;
    }
    if (!dropper->is_ending) {
        weft_future_drop(&dropper->running->future);
        weft_future_drop(&dropper->queued->future);
        weft_future_drop(&dropper->queued->future);
    }
    return WEFT_POLL_READY;
}

static intptr_t check_drops(bool is_ending)
{
    weft_wait_future running;
    weft_wait_future queued;
    struct job first = {.plain = 1};
    struct job second = {.plain = 1};
    weft_blocking_call_future(&running, pass_gate, &first, release);
    weft_blocking_call_future(&queued, never_called, &second, release);
    const struct dropper dropper = {.running = &running,
                                    .queued = &queued,
                                    .begun = &first.begun,
                                    .runtime = weft_runtime_self(),
                                    .is_ending = is_ending};
    CHECK_EQ(weft_await(poll_go(weft_runtime_self(), begin_and_drop, &dropper, sizeof(dropper))),
             0);
    memset(&running, 0x5a, sizeof(running)); /* the runtime does not access them any more */
    memset(&queued, 0x5a, sizeof(queued));
    CHECK_EQ(wf_load_acquire(&second.released), 1);
    CHECK_EQ(wf_load_acquire(&first.released), 0);
    CHECK_EQ(stats_of(weft_runtime_self()).blocking_waiting, 0);
    raise_by_one(&first.open);
    wait_for(&first.released, 1);
    CHECK_EQ(wf_load_acquire(&first.passed), 1);
    CHECK_EQ(weft_blocking_call(echo, (void *)8), 8);
    CHECK_EQ(wf_load_acquire(&first.released), 1);
    CHECK_EQ(wf_load_acquire(&second.released), 1);
    return 0;
}

static intptr_t drop_explicitly(void *arg)
{
    (void)arg;
    return check_drops(false);
}

static intptr_t drop_by_task_end(void *arg)
{
    (void)arg;
    return check_drops(true);
}

static void with_one_thread(weft_fn fn)
{
    for (struct tour tour = {.which = ON_SEVERAL}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        CHECK_EQ(weft_run(fn, NULL, &tour.options), 0);
    }
}

static void blocking_future_can_be_dropped_before_and_after_begin(void)
{
    with_one_thread(drop_explicitly);
}

static void task_end_drops_blocking_futures(void)
{
    with_one_thread(drop_by_task_end);
}

/* Each future has an argument of its own; its last owner frees it. */
static wf_atomic_u32 freed;

static intptr_t fill_buffer(void *arg)
{
    memset(arg, 3, 64);
    return 1;
}

static void free_buffer(void *arg)
{
    free(arg);
    raise_by_one(&freed);
}

struct impatient {
    weft_wait_future *wait;
    void *arg;
    unsigned ticks_left;
};

static weft_poll_result poll_and_drop(weft_cx *cx, void *state, intptr_t *result)
{
    struct impatient *impatient = state;
    if (weft_future_poll(&impatient->wait->future, cx, result) == WEFT_POLL_READY) {
        CHECK(*result == 1 || *result == -ECANCELED);
        CHECK(*result < 0 || ((unsigned char *)impatient->arg)[63] == 3);
        free_buffer(impatient->arg);
        *result = 0;
        return WEFT_POLL_READY;
    }
    if (impatient->ticks_left-- == 0) {
        weft_future_drop(&impatient->wait->future);
        return WEFT_POLL_READY;
    }
    weft_waker_wake(weft_cx_waker(cx));
    return WEFT_POLL_PENDING;
}

enum { TASKS = 8, ROUNDS = 100 };

static intptr_t drop_at_any_moment(void *arg)
{
    (void)arg;
    wf_store_release(&freed, 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        weft_wait_future waits[TASKS];
        weft_task *tasks[TASKS];
        for (unsigned i = 0; i < TASKS; i++) {
            const struct impatient impatient = {&waits[i], malloc(64), (round + i) % 11};
            CHECK(impatient.arg != NULL);
            weft_blocking_call_future(&waits[i], fill_buffer, impatient.arg, free_buffer);
            tasks[i] = poll_go(weft_runtime_self(), poll_and_drop, &impatient, sizeof(impatient));
        }
        CHECK_EQ(weft_await_all(tasks, TASKS, NULL), 0);
    }
    return 0;
}

static void blocking_future_releases_each_argument_once(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = 1 + (uint32_t)tour.next % 3;
        CHECK_EQ(weft_run(drop_at_any_moment, NULL, &tour.options), 0);
        CHECK_EQ(wf_load_acquire(&freed), TASKS * ROUNDS); /* the close waited for running calls */
    }
}

/* ---- cancel and deadlines -------------------------------------------------------------------- */

static intptr_t await_wait(void *arg)
{
    weft_wait_future *wait = arg;
    return weft_future_await(&wait->future);
}

static intptr_t await_wait_with_deadline(void *arg)
{
    (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    return await_wait(arg);
}

struct patient {
    weft_wait_future *wait;
    weft_time deadline;
};

static intptr_t await_wait_until(void *arg)
{
    const struct patient *patient = arg;
    (void)weft_deadline_set(patient->deadline);
    return await_wait(patient->wait);
}

/* Starts a task that awaits a function which waits at its gate, with a deadline that passes after
 * the function has begun. */
static weft_task *await_begun(struct patient *patient, struct job *job)
{
    for (int64_t ns = WEFT_MILLISECOND;; ns *= 2) { /* ends: one deadline is late enough */
        weft_blocking_call_future(patient->wait, pass_gate, job, release);
        patient->deadline = weft_time_after(ns);
        weft_task *task = go(await_wait_until, patient);
        while (wf_load_acquire(&job->begun) == 0 && weft_try_join(task, NULL) == -EAGAIN) {
            let_others_run();
        }
        if (wf_load_acquire(&job->begun) != 0) {
            return task;
        }
        CHECK_EQ(weft_await(task), -ETIMEDOUT);
    }
}

static void wait_until_queued(uint64_t count)
{
    while (stats_of(weft_runtime_self()).blocking_waiting < count) {
        let_others_run();
    }
}

static intptr_t cancel_some(void *arg)
{
    (void)arg;
    weft_wait_future waits[3];
    struct job first = {.plain = 1};
    struct job second = {.plain = 1};
    wf_atomic_u32 polls = {0};
    struct patient patient = {.wait = &waits[0]};
    weft_blocking_call_future(&waits[1], never_called, &second, release);
    weft_blocking_call_future(&waits[2], never_called, &second, release);
    weft_task *running = await_begun(&patient, &first);
    weft_task *late = go(await_wait_with_deadline, &waits[1]);
    CHECK_EQ(weft_await(late), -ETIMEDOUT);
    const struct waiter waiter = {&waits[2], &polls};
    weft_task *queued = poll_go(weft_runtime_self(), wait_for_it, &waiter, sizeof(waiter));
    wait_until_queued(1);
    CHECK_EQ(weft_cancel(queued), 0);
    CHECK_EQ(weft_await(queued), -ECANCELED);
    CHECK_EQ(weft_cancel(running), 0);
    CHECK_EQ(weft_sleep_until(patient.deadline + WEFT_MILLISECOND), 0); /* it has passed, too */
    wait_for_state(running, WEFT_TASK_BLOCKED); /* a function that runs cannot be stopped */
    const uint64_t runs = info_of(running).runs;
    CHECK_EQ(weft_sleep(2 * WEFT_MILLISECOND), 0);
    CHECK(info_of(running).runs <= runs + 3); /* the task does not poll in a loop */
    raise_by_one(&first.open);
    CHECK_EQ(weft_await(running), 5);
    CHECK_EQ(wf_load_acquire(&first.released), 0);
    CHECK_EQ(wf_load_acquire(&second.released), 0); /* both futures were ready, with an error */
    return 0;
}

static void blocking_future_is_cancelled_only_before_begin(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        CHECK_EQ(weft_run(cancel_some, NULL, &tour.options), 0);
    }
}

static intptr_t cancel_at_any_moment(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        weft_wait_future wait;
        wf_atomic_u32 polls = {0};
        weft_blocking_call_future(&wait, echo, (void *)9, NULL);
        const struct waiter waiter = {&wait, &polls};
        weft_task *task = poll_go(weft_runtime_self(), wait_for_it, &waiter, sizeof(waiter));
        for (int yields = 0; yields < i % 8; yields++) {
            let_others_run();
        }
        CHECK_EQ(weft_cancel(task), 0);
        const intptr_t result = weft_await(task);
        CHECK(result == 9 || result == -ECANCELED);
    }
    return 0;
}

static void blocking_future_survives_cancel_at_any_moment(void)
{
    run_under(EVERYWHERE, cancel_at_any_moment);
}

/* ---- close ----------------------------------------------------------------------------------- */

struct closing {
    weft_runtime *runtime;
    int64_t timeout_ns;
    int rc;
};

static void *close_thread(void *arg)
{
    struct closing *closing = arg;
    closing->rc = weft_runtime_close(closing->runtime, closing->timeout_ns);
    return NULL;
}

/* One function runs and one waits for a thread. Either the task is shielded, so that only a forced
 * close ends it, or the task has ended before and the function runs without a waiter. */
static void close_around_work(const weft_runtime_options *options, bool is_shielded)
{
    weft_wait_future running;
    weft_wait_future queued;
    struct job first = {.plain = 1};
    struct job second = {.plain = 1};
    struct closing closing = {.timeout_ns = is_shielded ? 0 : -1};
    pthread_t thread;
    CHECK_EQ(weft_runtime_open(&closing.runtime, options), 0);
    weft_blocking_call_future(&running, pass_gate, &first, release);
    weft_blocking_call_future(&queued, never_called, &second, release);
    const struct dropper dropper = {.running = &running,
                                    .queued = &queued,
                                    .begun = &first.begun,
                                    .runtime = closing.runtime,
                                    .is_shielded = is_shielded};
    weft_task *task = poll_go(closing.runtime, begin_and_drop, &dropper, sizeof(dropper));
    if (is_shielded) {
        wait_for_state(task, WEFT_TASK_BLOCKED);
    } else {
        CHECK_EQ(weft_await(task), 0);
    }
    CHECK_EQ(wf_thread_start(&thread, close_thread, &closing, NULL), 0);
    expect_threads(1); /* the thread of the pool, for which the close waits */
    CHECK_EQ(wf_load_acquire(&first.released), 0);
    raise_by_one(&first.open);
    CHECK_EQ(wf_thread_join(thread), 0);
    CHECK_EQ(closing.rc, is_shielded ? -ETIMEDOUT : 0);
    CHECK_EQ(wf_load_acquire(&first.passed), 1);
    CHECK_EQ(wf_load_acquire(&first.released), 1);
    CHECK_EQ(wf_load_acquire(&second.released), 1);
    if (is_shielded) {
        CHECK_EQ(weft_await(task), -ECANCELED);
    }
    expect_threads(0);
}

static void close_under_settings(bool is_shielded)
{
    for (struct tour tour = {.which = ON_SEVERAL}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        tour.options.no_monitor = true; /* the test counts threads */
        close_around_work(&tour.options, is_shielded);
    }
}

static void runtime_close_waits_for_functions_of_dropped_futures(void)
{
    close_under_settings(false);
}

static void forced_close_drops_blocking_futures(void)
{
    close_under_settings(true);
}

/* The close hits each phase, also while a job is on its way through the control thread. */
static void runtime_close_at_any_moment_releases_every_argument(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        wf_store_release(&freed, 0);
        tour.options.no_monitor = true;
        for (unsigned round = 0; round < ROUNDS; round++) {
            weft_runtime *runtime = NULL;
            weft_wait_future waits[2];
            CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
            for (unsigned i = 0; i < 2; i++) {
                const struct impatient impatient = {&waits[i], malloc(64), round % 3 + i};
                CHECK(impatient.arg != NULL);
                weft_blocking_call_future(&waits[i], fill_buffer, impatient.arg, free_buffer);
                weft_task_unref(poll_go(runtime, poll_and_drop, &impatient, sizeof(impatient)));
            }
            const int rc = weft_runtime_close(runtime, round % 2 == 0 ? 0 : -1);
            CHECK(rc == 0 || rc == -ETIMEDOUT);
            weft_future_drop(&waits[0].future); /* if its task never ran, the test still owns it */
            weft_future_drop(&waits[1].future);
        }
        CHECK_EQ(wf_load_acquire(&freed), 2 * ROUNDS);
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

#ifdef WF_TEST_HOOKS

static intptr_t await_while_it_may_fail(void *arg)
{
    struct faults *faults = arg;
    weft_wait_future wait;
    struct job job = {.plain = 1};
    raise_by_one(&job.open);
    weft_blocking_call_future(&wait, pass_gate, &job, release);
    faults_begin(faults);
    const intptr_t result = weft_future_await(&wait.future);
    faults_end(faults);
    if (result != 5) {
        CHECK(result == -EAGAIN || result == -ENOMEM);
        CHECK_EQ(wf_load_acquire(&job.begun), 0);
        faults_refused(faults, 1);
    }
    weft_future_drop(&wait.future);
    CHECK_EQ(wf_load_acquire(&job.released), 0); /* an error is a result */
    weft_blocking_call_future(&wait, echo, (void *)8, NULL);
    CHECK_EQ(weft_future_await(&wait.future), 8);
    return 0;
}

static void blocking_future_reports_missing_memory_or_thread(void)
{
    fail_each(await_while_it_may_fail, 4); /* three allocations, and the thread */
}

#endif

/* ---- without budget -------------------------------------------------------------------------- */

/* The branches before the last use up the budget of the task. */
struct crowd {
    weft_sleep_future sleeps[WF_TASK_BUDGET];
    weft_wait_future last;
    weft_branch branches[WF_TASK_BUDGET + 1];
    weft_join_future all;
    struct job job;
};

static void crowd_init(struct crowd *crowd)
{
    for (size_t i = 0; i < WF_TASK_BUDGET; i++) {
        weft_sleep_future_init(&crowd->sleeps[i], 0);
        crowd->branches[i] = (weft_branch){.future = &crowd->sleeps[i].future};
    }
    weft_blocking_call_future(&crowd->last, pass_gate, &crowd->job, release);
    crowd->branches[WF_TASK_BUDGET] = (weft_branch){.future = &crowd->last.future};
    weft_join_future_init(&crowd->all, WEFT_JOIN_ALL, crowd->branches, WF_TASK_BUDGET + 1);
}

static intptr_t await_crowd(void *arg)
{
    struct crowd *crowd = arg;
    crowd_init(crowd);
    return weft_future_await(&crowd->all.future);
}

/* Polls all branches, the last without budget, and ends. */
static weft_poll_result poll_crowd_once(weft_cx *cx, void *state, intptr_t *result)
{
    struct crowd *crowd = *(struct crowd **)state;
    crowd_init(crowd);
    CHECK_EQ(weft_future_poll(&crowd->all.future, cx, result), WEFT_POLL_PENDING);
    *result = 0;
    return WEFT_POLL_READY;
}

static intptr_t end_without_budget(void *arg)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, poll_crowd_once, &arg, sizeof(arg), NULL), 0);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

static void blocking_future_polled_without_budget_releases_its_argument(void)
{
    static struct crowd abandoned;
    static struct crowd ended;
    static struct crowd awaited;
    raise_by_one(&abandoned.job.open); /* in a hostile build the task may be polled again */
    abandon_in_yield(await_crowd, &abandoned);
    if (HAS_ORDER) {
        CHECK_EQ(wf_load_acquire(&abandoned.job.begun), 0);
        CHECK_EQ(wf_load_acquire(&abandoned.job.released), 1);
    }
    CHECK_EQ(weft_run(end_without_budget, &ended, NULL), 0);
    CHECK_EQ(wf_load_acquire(&ended.job.begun), 0);
    CHECK_EQ(wf_load_acquire(&ended.job.released), 1);
    raise_by_one(&awaited.job.open);
    CHECK_EQ(weft_run(await_crowd, &awaited, NULL), 0);
    CHECK_EQ(awaited.branches[WF_TASK_BUDGET].result, 5);
    CHECK_EQ(wf_load_acquire(&awaited.job.released), 0); /* it was ready: the argument is ours */
}

static const struct tap_test tests[] = {
    TAP_TEST(blocking_future_suspends_poll_task_until_function_returns),
    TAP_TEST(blocking_future_gives_result_of_function),
    TAP_TEST(blocking_future_that_loses_a_race_does_not_delay_it),
    TAP_TEST(blocking_future_can_be_dropped_before_and_after_begin),
    TAP_TEST(task_end_drops_blocking_futures),
    TAP_TEST_LIMIT(blocking_future_releases_each_argument_once, 60),
    TAP_TEST(blocking_future_is_cancelled_only_before_begin),
    TAP_TEST(blocking_future_survives_cancel_at_any_moment),
    TAP_TEST(runtime_close_waits_for_functions_of_dropped_futures),
    TAP_TEST(forced_close_drops_blocking_futures),
    TAP_TEST_LIMIT(runtime_close_at_any_moment_releases_every_argument, 60),
    TAP_TEST(blocking_future_polled_without_budget_releases_its_argument),
#ifdef WF_TEST_HOOKS
    TAP_TEST(blocking_future_reports_missing_memory_or_thread),
#endif
};
TAP_MAIN(tests)
