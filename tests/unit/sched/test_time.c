/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a sleeping task is woken, never early, whatever the workers do; a deadline ends every
 *         wait; a cancel ends a sleep at once; intervals keep their period.
 * Method: sleeps beside idle, busy and hogging workers. No check compares lateness, except where a
 *         fault would cause minutes.
 */
#include <string.h>

#include "sched_helpers.h"

/* An hour: longer than any test. */
#define HOUR (3600 * WEFT_SECOND)

/* ---- sleep ----------------------------------------------------------------------------------- */

static void check_sleep(int64_t ns)
{
    const weft_time begin = weft_now();
    CHECK_EQ(weft_sleep(ns), 0);
    CHECK(weft_now() - begin >= ns);
}

static intptr_t check_short_sleeps(void *arg)
{
    (void)arg;
    const int64_t times[] = {0,        1,        1000,     249999,  250000,  250001,
                             499999,   999999,   1000000,  1000001, 1999999, 4000000,
                             15999999, 16000000, 16000001, 17000000};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        check_sleep(times[i]);
    }
    return 0;
}

/* behaviour 54; S1.16 */
static void sleep_never_ends_early(void)
{
    run_under(EVERYWHERE, check_short_sleeps);
}

static void sleep_works_on_a_non_worker_thread(void)
{
    (void)check_short_sleeps(NULL);
    CHECK_EQ(weft_sleep(-1), -EINVAL);
    CHECK_EQ(weft_sleep_until(0), 0);
}

static intptr_t check_odd_sleeps(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep(-1), -EINVAL);
    CHECK_EQ(weft_sleep(INT64_MIN), -EINVAL);
    CHECK_EQ(weft_sleep_until(weft_now() - 1), 0);
    CHECK_EQ(weft_sleep_until(INT64_MIN), 0);
    CHECK_EQ(weft_time_after(INT64_MAX), WEFT_NEVER);
    CHECK(weft_time_after(-HOUR) < weft_now());
    return 0;
}

static void sleep_handles_negative_and_past_times(void)
{
    run_under(ON_ONE_WORKER, check_odd_sleeps);
}

/* Plain: written before and after the sleep of its task, read by the awaiter. */
struct cell {
    int number;
    wf_atomic_u32 is_written;
};

static intptr_t write_and_sleep(void *arg)
{
    struct cell *cell = arg;
    cell->number++;
    CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    cell->number++;
    return 0;
}

static intptr_t write_before_and_after(void *arg)
{
    (void)arg;
    struct cell cells[50] = {0};
    weft_task *tasks[50];
    for (size_t i = 0; i < 50; i++) {
        tasks[i] = go(write_and_sleep, &cells[i]);
    }
    CHECK_EQ(weft_await_all(tasks, 50, NULL), 0);
    for (size_t i = 0; i < 50; i++) {
        CHECK_EQ(cells[i].number, 2);
    }
    return 0;
}

static void sleep_resumes_the_task_where_it_was(void)
{
    run_under(EVERYWHERE, write_before_and_after);
}

static intptr_t sleep_by_number(void *arg)
{
    const weft_time begin = weft_now();
    const int64_t ns = (int64_t)((uintptr_t)arg % 50) * 400000;
    int rc = weft_sleep(ns);
    CHECK(rc != 0 || weft_now() - begin >= ns);
    return rc;
}

static intptr_t sleep_in_many_tasks(void *arg)
{
    (void)arg;
    enum { COUNT = 500 };
    static weft_task *tasks[COUNT];
    for (uintptr_t i = 0; i < COUNT; i++) {
        tasks[i] = go(sleep_by_number, (void *)i); /* NOLINT: a number */
    }
    return weft_await_all(tasks, COUNT, NULL);
}

static void sleep_works_in_500_tasks_at_once(void)
{
    run_under(EVERYWHERE, sleep_in_many_tasks);
}

/* ---- busy workers ---------------------------------------------------------------------------- */

static wf_atomic_u32 is_over;

/* Short slices until `is_over`. */
static intptr_t keep_busy(void *arg)
{
    (void)arg;
    while (wf_load_acquire(&is_over) == 0) { /* pairs with raise_by_one */
        const weft_time end = weft_time_after(200 * WEFT_MICROSECOND);
        while (weft_now() < end) {
        }
        (void)weft_yield();
    }
    return 0;
}

static intptr_t sleep_beside_busy_tasks(void *arg)
{
    const struct setting *setting = arg;
    enum { MAX = 16 };
    weft_task *tasks[MAX];
    const unsigned count = 2 * setting->workers;
    wf_store_relaxed(&is_over, 0);
    for (unsigned i = 0; i < count; i++) {
        tasks[i] = go(keep_busy, NULL);
    }
    for (int i = 0; i < 3; i++) {
        check_sleep(WEFT_MILLISECOND);
    }
    raise_by_one(&is_over);
    return weft_await_all(tasks, count, NULL);
}

/* behaviour 25, part of S4.44: no worker is ever idle, so a worker must check timers between two
 * slices. */
static void timer_fires_while_all_workers_are_busy(void)
{
    run_under(EVERYWHERE, sleep_beside_busy_tasks);
}

static intptr_t sleep_and_signal(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    raise_by_one(arg);
    return 0;
}

/* The timer is in the wheel of a worker whose task keeps running until the timer has fired. */
static intptr_t hog_until_timer_fires(void *arg)
{
    (void)arg;
    wf_atomic_u32 has_fired = {0};
    weft_task *task = go(sleep_and_signal, &has_fired);
    while (state_of(task) != WEFT_TASK_BLOCKED &&
           wf_load_acquire(&has_fired) == 0) { /* raise_by_one */
        let_others_run();
    }
    hold_for(&has_fired, 1);
    return weft_await(task);
}

/* Repeats it on a worker that never parks in between. */
static intptr_t hog_until_each_fires(void *arg)
{
    for (int round = 0; round < 5; round++) {
        CHECK_EQ(hog_until_timer_fires(arg), 0);
    }
    return 0;
}

/* The leader serves timers of other workers even if it can steal nothing from them. */
static void timer_of_a_stuck_worker_fires_without_stealing(void)
{
    const weft_runtime_options cases[] = {
        {.workers = 2, .no_monitor = true, .no_steal = true},
        {.workers = 2, .no_monitor = true, .order = WEFT_ORDER_DEPTH_FIRST},
        {.workers = 2, .no_monitor = true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tap_doing("setting %zu", i);
        CHECK_EQ(weft_run(hog_until_each_fires, NULL, &cases[i]), 0);
    }
}

/* behaviour 55 */
static void timer_of_a_stuck_worker_fires_on_another(void)
{
    run_under(ON_SEVERAL, hog_until_timer_fires);
}

static intptr_t sleep_for_an_hour(void *arg)
{
    (void)arg;
    return weft_sleep(HOUR);
}

/* All tasks except this one sleep for long; then a short sleep comes, and later the long ones are
 * cancelled. */
static intptr_t set_earlier_timer(void *arg)
{
    (void)arg;
    enum { COUNT = 4 };
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(sleep_for_an_hour, NULL);
        wait_for_state(tasks[i], WEFT_TASK_BLOCKED);
    }
    CHECK_EQ(info_of(tasks[0]).wait, WEFT_WAIT_TIME);
    CHECK_STR(weft_wait_name(info_of(tasks[0]).wait), "time");
    for (int i = 0; i < 5; i++) {
        check_sleep(2 * WEFT_MILLISECOND); /* all workers are parked; one wait has a timeout */
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(weft_cancel(tasks[i]), 0);
        CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
    }
    return 0;
}

/* behaviour 55 */
static void timer_that_becomes_the_earliest_fires_in_time(void)
{
    run_under(EVERYWHERE, set_earlier_timer);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

struct deadline_scene {
    wf_atomic_u32 open;
    weft_task *other;
};

static intptr_t check_deadlines(void *arg)
{
    struct deadline_scene *deadline_scene = arg;
    const weft_time deadline = weft_time_after(2 * WEFT_MILLISECOND);
    CHECK_EQ(weft_deadline_set(deadline), WEFT_NEVER);
    CHECK_EQ(weft_join(deadline_scene->other, NULL), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_sleep(0), -ETIMEDOUT);
    CHECK_EQ(weft_deadline_set(WEFT_NEVER), deadline);
    CHECK_EQ(weft_sleep(1000), 0);

    /* A shield defers the deadline. */
    (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(weft_shield_begin(), 0);
    check_sleep(3 * WEFT_MILLISECOND);
    CHECK_EQ(weft_shield_end(), 0);
    CHECK_EQ(weft_sleep(HOUR), -ETIMEDOUT);
    (void)weft_deadline_set(WEFT_NEVER);
    return 0;
}

static intptr_t end_by_deadline(void *arg)
{
    (void)arg;
    struct deadline_scene deadline_scene = {.other = go(sleep_for_an_hour, NULL)};
    weft_task *task = go(check_deadlines, &deadline_scene);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_cancel(deadline_scene.other), 0);
    CHECK_EQ(weft_await(deadline_scene.other), -ECANCELED);
    return 0;
}

static void deadline_ends_a_wait(void)
{
    run_under(EVERYWHERE, end_by_deadline);
}

static weft_task *partner;

static intptr_t join_partner_with_deadline(void *arg)
{
    (void)arg;
    weft_task *parent = partner;
    (void)weft_deadline_set(weft_time_after(5 * WEFT_MILLISECOND));
    return weft_join(parent, NULL);
}

/* Two tasks that join each other are no deadlock while one has a deadline: a report would fail the
 * test. */
static intptr_t join_each_other(void *arg)
{
    (void)arg;
    partner = weft_self();
    CHECK_EQ(weft_await(go(join_partner_with_deadline, NULL)), -ETIMEDOUT);
    return 0;
}

static void deadlock_report_ignores_a_wait_with_a_deadline(void)
{
    run_under(EVERYWHERE, join_each_other);
}

static void count_deadlock(void *context, const weft_deadlock *deadlock)
{
    CHECK_EQ(deadlock->count, 2);
    raise_by_one(context);
}

static intptr_t join_partner(void *arg)
{
    (void)arg;
    return weft_join(partner, NULL);
}

/* A cleared timer and a fired one do not count as a pending wake-up. */
static intptr_t sleep_and_join_each_other(void *arg)
{
    (void)arg;
    weft_task *sleeper = go(sleep_for_an_hour, NULL);
    wait_for_state(sleeper, WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_cancel(sleeper), 0);
    CHECK_EQ(weft_await(sleeper), -ECANCELED);
    CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    partner = weft_self();
    return weft_await(go(join_partner, NULL));
}

static void deadlock_report_is_not_hidden_by_cleared_or_fired_timers(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        wf_atomic_u32 found = {0};
        tour.options.on_deadlock = count_deadlock;
        tour.options.hook_context = &found;
        CHECK_EQ(weft_run(sleep_and_join_each_other, NULL, &tour.options), -EDEADLK);
        CHECK_EQ(wf_load_acquire(&found), 1); /* pairs with raise_by_one */
    }
}

/* ---- close ----------------------------------------------------------------------------------- */

static void close_with_sleepers(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    enum { COUNT = 100 };
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go_into(runtime, sleep_for_an_hour, NULL);
    }
    wait_for_state(tasks[COUNT - 1], WEFT_TASK_BLOCKED);
    for (int i = 0; i < COUNT; i++) {
        weft_task_unref(tasks[i]);
    }
}

static void runtime_close_ends_all_sleeps(void)
{
    open_under(EVERYWHERE, close_with_sleepers);
}

static intptr_t sleep_with_shield(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_shield_begin(), 0);
    return weft_sleep(HOUR);
}

/* The task never runs again, but the close must remove its timer. */
static void forced_close_removes_timers(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, sleep_with_shield, NULL);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        intptr_t result = 0;
        CHECK_EQ(weft_try_join(task, &result), 0);
        CHECK_EQ(result, -ECANCELED);
        weft_task_unref(task);
    }
}

/* ---- intervals ------------------------------------------------------------------------------- */

static void check_bad_intervals(void)
{
    weft_interval interval;
    CHECK_EQ(weft_interval_init(&interval, 0, WEFT_MISSED_SKIP), -EINVAL);
    CHECK_EQ(weft_interval_init(&interval, -1, WEFT_MISSED_SKIP), -EINVAL);
    CHECK_EQ(weft_interval_init(&interval, 1, (enum weft_missed)3), -EINVAL);
    memset(&interval, 0, sizeof(interval));
    CHECK_EQ(weft_interval_wait(&interval), -EINVAL);
}

static intptr_t check_intervals(void *arg)
{
    (void)arg;
    weft_interval interval;
    const weft_time begin = weft_now();
    check_bad_intervals();

    CHECK_EQ(weft_interval_init(&interval, WEFT_MILLISECOND, WEFT_MISSED_BURST), 0);
    CHECK(interval.next >= begin + WEFT_MILLISECOND);
    const weft_time first = interval.next;
    CHECK_EQ(weft_sleep(4 * WEFT_MILLISECOND), 0);
    for (int i = 1; i <= 4; i++) { /* four ticks are due: each wait returns one at once */
        CHECK_EQ(weft_interval_wait(&interval), 1);
        CHECK_EQ(interval.next, first + i * WEFT_MILLISECOND);
    }

    CHECK_EQ(weft_interval_init(&interval, WEFT_MILLISECOND, WEFT_MISSED_DELAY), 0);
    CHECK_EQ(weft_sleep(4 * WEFT_MILLISECOND), 0);
    const weft_time late = weft_now();
    CHECK_EQ(weft_interval_wait(&interval), 1);
    CHECK(interval.next >= late + WEFT_MILLISECOND);

    CHECK_EQ(weft_interval_init(&interval, WEFT_MILLISECOND, WEFT_MISSED_SKIP), 0);
    const weft_time grid = interval.next;
    CHECK_EQ(weft_sleep(4 * WEFT_MILLISECOND), 0);
    const int64_t ticks = weft_interval_wait(&interval);
    CHECK(ticks >= 4);
    CHECK_EQ(interval.next, grid + ticks * WEFT_MILLISECOND);
    CHECK(weft_interval_wait(&interval) >= 1);
    CHECK(weft_now() >= grid + ticks * WEFT_MILLISECOND);
    return 0;
}

/* behaviour 55 */
static void interval_handles_missed_ticks_by_its_mode(void)
{
    run_under(EVERYWHERE, check_intervals);
}

static intptr_t wait_for_interval(void *arg)
{
    weft_interval interval;
    CHECK_EQ(weft_interval_init(&interval, HOUR, WEFT_MISSED_SKIP), 0);
    const weft_time next = interval.next;
    (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(weft_interval_wait(&interval), -ETIMEDOUT);
    (void)weft_deadline_set(WEFT_NEVER);
    CHECK_EQ(interval.next, next); /* the tick is still to come */
    raise_by_one(arg);
    return (intptr_t)weft_interval_wait(&interval);
}

static intptr_t cancel_an_interval(void *arg)
{
    (void)arg;
    wf_atomic_u32 has_begun = {0};
    weft_task *task = go(wait_for_interval, &has_begun);
    wait_for(&has_begun, 1);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    return 0;
}

static void interval_wait_ends_by_deadline_and_cancel(void)
{
    run_under(EVERYWHERE, cancel_an_interval);
}

static intptr_t nest_deadlines(void *arg)
{
    (void)arg;
    const weft_time outer = weft_time_after(HOUR);
    CHECK_EQ(weft_deadline_tighten(outer), WEFT_NEVER);
    CHECK_EQ(weft_deadline_tighten(outer + 1), outer); /* the earlier one stays */
    CHECK_EQ(weft_deadline_tighten(outer - 1), outer);
    CHECK_EQ(weft_deadline_set(outer), outer - 1);
    CHECK_EQ(weft_deadline_tighten(weft_time_after(-1)), outer);
    CHECK_EQ(weft_sleep(HOUR), -ETIMEDOUT);
    CHECK(weft_deadline_set(WEFT_NEVER) < outer);
    return 0;
}

static void deadline_sooner_keeps_the_earlier_deadline(void)
{
    run_under(EVERYWHERE, nest_deadlines);
    CHECK_EQ(weft_deadline_tighten(1), WEFT_NEVER); /* a thread has no deadline */
}

static const struct tap_test tests[] = {
    TAP_TEST(sleep_never_ends_early),
    TAP_TEST(sleep_works_on_a_non_worker_thread),
    TAP_TEST(sleep_handles_negative_and_past_times),
    TAP_TEST(sleep_resumes_the_task_where_it_was),
    TAP_TEST(sleep_works_in_500_tasks_at_once),
    TAP_TEST(timer_fires_while_all_workers_are_busy),
    TAP_TEST(timer_of_a_stuck_worker_fires_on_another),
    TAP_TEST(timer_of_a_stuck_worker_fires_without_stealing),
    TAP_TEST(timer_that_becomes_the_earliest_fires_in_time),
    TAP_TEST(deadline_ends_a_wait),
    TAP_TEST(deadlock_report_ignores_a_wait_with_a_deadline),
    TAP_TEST(deadline_sooner_keeps_the_earlier_deadline),
    TAP_TEST(deadlock_report_is_not_hidden_by_cleared_or_fired_timers),
    TAP_TEST(runtime_close_ends_all_sleeps),
    TAP_TEST(forced_close_removes_timers),
    TAP_TEST(interval_handles_missed_ticks_by_its_mode),
    TAP_TEST(interval_wait_ends_by_deadline_and_cancel),
};
TAP_MAIN(tests)
