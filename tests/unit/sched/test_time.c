/* SPDX-License-Identifier: MIT */
/*
 * Goal:   who sleeps is woken, not before its time, whatever the workers do meanwhile; a deadline
 *         ends every wait; a cancel ends a sleep at once; intervals keep their distances.
 * Method: sleeps next to idle, busy and hogging workers; nothing here compares how late anything
 *         was, but for what would be minutes if it were broken.
 */
#include <string.h>

#include "sched_aids.h"

/* An hour: in a test that is for ever. */
#define HOUR (3600 * WEFT_SECOND)

/* ---- sleeping -------------------------------------------------------------------------------- */

static void check_sleep(int64_t ns)
{
    const weft_time begin = weft_now();
    CHECK_EQ(weft_sleep(ns), 0);
    CHECK(weft_now() - begin >= ns);
}

static intptr_t sleep_a_little(void *arg)
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
static void a_sleep_never_ends_early(void)
{
    run_under(EVERYWHERE, sleep_a_little);
}

static void a_thread_may_sleep_too(void)
{
    (void)sleep_a_little(NULL);
    CHECK_EQ(weft_sleep(-1), -EINVAL);
    CHECK_EQ(weft_sleep_until(0), 0);
}

static intptr_t sleep_absurdly(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep(-1), -EINVAL);
    CHECK_EQ(weft_sleep(INT64_MIN), -EINVAL);
    CHECK_EQ(weft_sleep_until(weft_now() - 1), 0);
    CHECK_EQ(weft_sleep_until(INT64_MIN), 0);
    CHECK_EQ(weft_in(INT64_MAX), WEFT_NEVER);
    CHECK(weft_in(-HOUR) < weft_now());
    return 0;
}

static void absurd_sleeps_have_an_answer(void)
{
    run_under(ON_ONE_WORKER, sleep_absurdly);
}

/* Plain: written before the sleep of one, read after the sleep of another. */
struct page {
    int text;
    wf_atomic_u32 is_written;
};

static intptr_t write_and_sleep(void *arg)
{
    struct page *page = arg;
    page->text++;
    CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    page->text++;
    return 0;
}

static intptr_t write_before_and_after(void *arg)
{
    (void)arg;
    struct page pages[50] = {0};
    weft_task *tasks[50];
    for (size_t i = 0; i < 50; i++) {
        tasks[i] = go(write_and_sleep, &pages[i]);
    }
    CHECK_EQ(weft_await_all(tasks, 50, NULL), 0);
    for (size_t i = 0; i < 50; i++) {
        CHECK_EQ(pages[i].text, 2);
    }
    return 0;
}

static void a_sleeper_goes_on_where_it_was(void)
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

static intptr_t sleep_in_crowds(void *arg)
{
    (void)arg;
    enum { COUNT = 500 };
    static weft_task *tasks[COUNT];
    for (uintptr_t i = 0; i < COUNT; i++) {
        tasks[i] = go(sleep_by_number, (void *)i); /* NOLINT: a number */
    }
    return weft_await_all(tasks, COUNT, NULL);
}

static void many_sleep_at_once(void)
{
    run_under(EVERYWHERE, sleep_in_crowds);
}

/* ---- while others work ----------------------------------------------------------------------- */

static wf_atomic_u32 is_over;

/* Short turns until it is over. */
static intptr_t keep_busy(void *arg)
{
    (void)arg;
    while (wf_load_acquire(&is_over) == 0) { /* to raise_by_one */
        const weft_time end = weft_in(200 * WEFT_MICROSECOND);
        while (weft_now() < end) {
        }
        (void)weft_yield();
    }
    return 0;
}

static intptr_t sleep_among_the_busy(void *arg)
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

/* behaviour 25, part of S4.44: nobody is ever idle, so a worker has to look between two turns. */
static void timers_fire_while_all_are_busy(void)
{
    run_under(EVERYWHERE, sleep_among_the_busy);
}

static intptr_t sleep_and_tell(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    raise_by_one(arg);
    return 0;
}

/* The sleeper's alarm is in the wheel of a worker that does not come back before it has rung. */
static intptr_t hog_until_it_rang(void *arg)
{
    (void)arg;
    wf_atomic_u32 has_rung = {0};
    weft_task *task = go(sleep_and_tell, &has_rung);
    while (state_of(task) != WEFT_BLOCKED && wf_load_acquire(&has_rung) == 0) { /* to the raise */
        let_others_run();
    }
    hold_for(&has_rung, 1);
    return weft_await(task);
}

/* The same again and again, by a worker that never rests in between. */
static intptr_t hog_until_each_rang(void *arg)
{
    for (int round = 0; round < 5; round++) {
        CHECK_EQ(hog_until_it_rang(arg), 0);
    }
    return 0;
}

/* Who sleeps where there is nothing to be taken from others looks after the alarms all the same. */
static void alarms_are_watched_where_nobody_steals(void)
{
    const weft_options quiet[] = {
        {.workers = 2, .no_monitor = true, .no_steal = true},
        {.workers = 2, .no_monitor = true, .order = WEFT_ORDER_DEPTH_FIRST},
        {.workers = 2, .no_monitor = true},
    };
    for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
        tap_doing("setting %zu", i);
        CHECK_EQ(weft_run(hog_until_each_rang, NULL, &quiet[i]), 0);
    }
}

/* behaviour 55 */
static void a_worker_that_does_not_come_back_delays_no_timer(void)
{
    run_under(ON_SEVERAL, hog_until_it_rang);
}

static intptr_t sleep_for_an_hour(void *arg)
{
    (void)arg;
    return weft_sleep(HOUR);
}

/* All but us wait for a long time; then a short sleep comes, and later the long ones are ended. */
static intptr_t set_an_earlier_one(void *arg)
{
    (void)arg;
    enum { COUNT = 4 };
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(sleep_for_an_hour, NULL);
        wait_for_state(tasks[i], WEFT_BLOCKED);
    }
    CHECK_EQ(info_of(tasks[0]).wait, WEFT_WAIT_TIME);
    CHECK_STR(weft_wait_name(info_of(tasks[0]).wait), "time");
    for (int i = 0; i < 5; i++) {
        check_sleep(2 * WEFT_MILLISECOND); /* every worker sleeps meanwhile, one with an alarm */
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(weft_cancel(tasks[i]), 0);
        CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
    }
    return 0;
}

/* behaviour 55 */
static void a_new_earliest_timer_wakes_who_sleeps_for_longer(void)
{
    run_under(EVERYWHERE, set_an_earlier_one);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

struct ending {
    wf_atomic_u32 open;
    weft_task *other;
};

static intptr_t wait_with_a_deadline(void *arg)
{
    struct ending *ending = arg;
    const weft_time deadline = weft_in(2 * WEFT_MILLISECOND);
    CHECK_EQ(weft_deadline(deadline), WEFT_NEVER);
    CHECK_EQ(weft_join(ending->other, NULL), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    CHECK_EQ(weft_sleep(0), -ETIMEDOUT);
    CHECK_EQ(weft_deadline(WEFT_NEVER), deadline);
    CHECK_EQ(weft_sleep(1000), 0);

    /* Behind a shield it does not count. */
    (void)weft_deadline(weft_in(WEFT_MILLISECOND));
    CHECK_EQ(weft_shield(1), 0);
    check_sleep(3 * WEFT_MILLISECOND);
    CHECK_EQ(weft_shield(0), 0);
    CHECK_EQ(weft_sleep(HOUR), -ETIMEDOUT);
    (void)weft_deadline(WEFT_NEVER);
    return 0;
}

static intptr_t end_by_deadline(void *arg)
{
    (void)arg;
    struct ending ending = {.other = go(sleep_for_an_hour, NULL)};
    weft_task *task = go(wait_with_a_deadline, &ending);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_cancel(ending.other), 0);
    CHECK_EQ(weft_await(ending.other), -ECANCELED);
    return 0;
}

static void a_deadline_ends_a_wait(void)
{
    run_under(EVERYWHERE, end_by_deadline);
}

static weft_task *partner;

static intptr_t wait_for_the_partner(void *arg)
{
    (void)arg;
    weft_task *parent = partner;
    (void)weft_deadline(weft_in(5 * WEFT_MILLISECOND));
    return weft_join(parent, NULL);
}

/* Two that wait for each other are no deadlock while one of them will give up: the hook of these
 * tests would fail. */
static intptr_t wait_for_each_other(void *arg)
{
    (void)arg;
    partner = weft_self();
    CHECK_EQ(weft_await(go(wait_for_the_partner, NULL)), -ETIMEDOUT);
    return 0;
}

static void a_deadline_is_no_deadlock(void)
{
    run_under(EVERYWHERE, wait_for_each_other);
}

static void count_deadlock(void *context, const weft_deadlock *deadlock)
{
    CHECK_EQ(deadlock->count, 2);
    raise_by_one(context);
}

static intptr_t wait_in_vain(void *arg)
{
    (void)arg;
    return weft_join(partner, NULL);
}

/* An alarm that was cleared, and one that has rung, are not there any more. */
static intptr_t sleep_and_wait_for_each_other(void *arg)
{
    (void)arg;
    weft_task *sleeper = go(sleep_for_an_hour, NULL);
    wait_for_state(sleeper, WEFT_BLOCKED);
    CHECK_EQ(weft_cancel(sleeper), 0);
    CHECK_EQ(weft_await(sleeper), -ECANCELED);
    CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    partner = weft_self();
    return weft_await(go(wait_in_vain, NULL));
}

static void a_deadlock_after_sleeps_is_found(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        wf_atomic_u32 found = {0};
        tour.options.on_deadlock = count_deadlock;
        tour.options.hook_context = &found;
        CHECK_EQ(weft_run(sleep_and_wait_for_each_other, NULL, &tour.options), -EDEADLK);
        CHECK_EQ(wf_load_acquire(&found), 1); /* to raise_by_one */
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void close_with_sleepers(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    enum { COUNT = 100 };
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go_into(runtime, sleep_for_an_hour, NULL);
    }
    wait_for_state(tasks[COUNT - 1], WEFT_BLOCKED);
    for (int i = 0; i < COUNT; i++) {
        weft_drop(tasks[i]);
    }
}

static void closing_ends_all_sleeps(void)
{
    open_under(EVERYWHERE, close_with_sleepers);
}

static intptr_t sleep_behind_a_shield(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_shield(1), 0);
    return weft_sleep(HOUR);
}

/* Forced: the task never runs again, its alarm must go all the same. */
static void a_forced_close_forgets_alarms(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, sleep_behind_a_shield, NULL);
        wait_for_state(task, WEFT_BLOCKED);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        intptr_t result = 0;
        CHECK_EQ(weft_try_join(task, &result), 0);
        CHECK_EQ(result, -ECANCELED);
        weft_drop(task);
    }
}

/* ---- intervals ------------------------------------------------------------------------------- */

static void check_bad_intervals(void)
{
    weft_interval interval;
    CHECK_EQ(weft_interval_init(NULL, 1, WEFT_MISSED_SKIP), -EINVAL);
    CHECK_EQ(weft_interval_init(&interval, 0, WEFT_MISSED_SKIP), -EINVAL);
    CHECK_EQ(weft_interval_init(&interval, -1, WEFT_MISSED_SKIP), -EINVAL);
    CHECK_EQ(weft_interval_init(&interval, 1, (enum weft_missed)3), -EINVAL);
    memset(&interval, 0, sizeof(interval));
    CHECK_EQ(weft_interval_wait(&interval), -EINVAL);
    CHECK_EQ(weft_interval_wait(NULL), -EINVAL);
}

static intptr_t tick(void *arg)
{
    (void)arg;
    weft_interval interval;
    const weft_time begin = weft_now();
    check_bad_intervals();

    CHECK_EQ(weft_interval_init(&interval, WEFT_MILLISECOND, WEFT_MISSED_BURST), 0);
    CHECK(interval.next >= begin + WEFT_MILLISECOND);
    const weft_time first = interval.next;
    CHECK_EQ(weft_sleep(4 * WEFT_MILLISECOND), 0);
    for (int i = 1; i <= 4; i++) { /* four have come: at once, each by itself */
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
static void an_interval_makes_up_for_what_was_missed_as_it_is_told(void)
{
    run_under(EVERYWHERE, tick);
}

static intptr_t end_an_interval(void *arg)
{
    weft_interval interval;
    CHECK_EQ(weft_interval_init(&interval, HOUR, WEFT_MISSED_SKIP), 0);
    const weft_time next = interval.next;
    (void)weft_deadline(weft_in(WEFT_MILLISECOND));
    CHECK_EQ(weft_interval_wait(&interval), -ETIMEDOUT);
    (void)weft_deadline(WEFT_NEVER);
    CHECK_EQ(interval.next, next); /* the tick is still to come */
    raise_by_one(arg);
    return (intptr_t)weft_interval_wait(&interval);
}

static intptr_t cancel_an_interval(void *arg)
{
    (void)arg;
    wf_atomic_u32 has_begun = {0};
    weft_task *task = go(end_an_interval, &has_begun);
    wait_for(&has_begun, 1);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    return 0;
}

static void an_interval_ends_with_its_task(void)
{
    run_under(EVERYWHERE, cancel_an_interval);
}

static intptr_t nest_deadlines(void *arg)
{
    (void)arg;
    const weft_time outer = weft_in(HOUR);
    CHECK_EQ(weft_deadline_sooner(outer), WEFT_NEVER);
    CHECK_EQ(weft_deadline_sooner(outer + 1), outer); /* it stays */
    CHECK_EQ(weft_deadline_sooner(outer - 1), outer);
    CHECK_EQ(weft_deadline(outer), outer - 1);
    CHECK_EQ(weft_deadline_sooner(weft_in(-1)), outer);
    CHECK_EQ(weft_sleep(HOUR), -ETIMEDOUT);
    CHECK(weft_deadline(WEFT_NEVER) < outer);
    return 0;
}

static void the_sooner_of_two_deadlines_holds(void)
{
    run_under(EVERYWHERE, nest_deadlines);
    CHECK_EQ(weft_deadline_sooner(1), WEFT_NEVER); /* a thread has none */
}

static const struct tap_test tests[] = {
    TAP_TEST(a_sleep_never_ends_early),
    TAP_TEST(a_thread_may_sleep_too),
    TAP_TEST(absurd_sleeps_have_an_answer),
    TAP_TEST(a_sleeper_goes_on_where_it_was),
    TAP_TEST(many_sleep_at_once),
    TAP_TEST(timers_fire_while_all_are_busy),
    TAP_TEST(a_worker_that_does_not_come_back_delays_no_timer),
    TAP_TEST(alarms_are_watched_where_nobody_steals),
    TAP_TEST(a_new_earliest_timer_wakes_who_sleeps_for_longer),
    TAP_TEST(a_deadline_ends_a_wait),
    TAP_TEST(a_deadline_is_no_deadlock),
    TAP_TEST(the_sooner_of_two_deadlines_holds),
    TAP_TEST(a_deadlock_after_sleeps_is_found),
    TAP_TEST(closing_ends_all_sleeps),
    TAP_TEST(a_forced_close_forgets_alarms),
    TAP_TEST(an_interval_makes_up_for_what_was_missed_as_it_is_told),
    TAP_TEST(an_interval_ends_with_its_task),
};
TAP_MAIN(tests)
