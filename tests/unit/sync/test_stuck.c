/* SPDX-License-Identifier: MIT */
/*
 * Goal:   tasks that wait for locks of each other, or for what nobody is left to give, are reported
 *         as a deadlock, by name; and not while a foreign thread could still help.
 * Method: circles of mutexes, and a task that waits for a permit; with and without a foreign
 * thread.
 */
#include <string.h>

#include "sync_aids.h"

enum { SEATS = 3 };

struct report {
    wf_atomic_u32 count;
    size_t waiting;
    size_t length;
    char text[2048];
};

static void take_report(void *context, const weft_deadlock *deadlock)
{
    struct report *report = context;
    report->waiting = deadlock->count;
    report->length = deadlock->cycle_count;
    (void)snprintf(report->text, sizeof(report->text), "%s", deadlock->text);
    raise_by_one(&report->count);
}

struct dinner {
    weft_mutex forks[SEATS];
    weft_barrier seated;
    wf_atomic_u32 next;
};

static intptr_t dine(void *arg)
{
    struct dinner *dinner = arg;
    const uint32_t seat = wf_fetch_add_relaxed(&dinner->next, 1);
    CHECK_EQ(weft_mutex_lock(&dinner->forks[seat]), 0);
    CHECK(weft_barrier_wait(&dinner->seated) >= 0); /* all have one fork */
    weft_mutex *second = &dinner->forks[(seat + 1) % SEATS];
    int rc = weft_mutex_lock(second);
    if (rc == 0) { /* another was cancelled, and has put its own down */
        CHECK_EQ(weft_mutex_unlock(second), 0);
    }
    CHECK_EQ(weft_mutex_unlock(&dinner->forks[seat]), 0);
    return rc;
}

static intptr_t dine_together(void *arg)
{
    weft_task *tasks[SEATS];
    static const char *const names[SEATS] = {"Kant", "Hume", "Mill"};
    for (int i = 0; i < SEATS; i++) {
        const weft_task_options options = {.name = names[i]};
        CHECK_EQ(weft_spawn(&tasks[i], dine, arg, &options), 0);
    }
    return weft_await_all(tasks, SEATS, NULL);
}

static void *stand_by_outside(void *done)
{
    wait_for(done, 1);
    return NULL;
}

/* Who has what is known: it does not matter who else is there. */
static void a_circle_of_mutexes_is_reported_by_name(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct dinner dinner = {.seated = WEFT_BARRIER_INIT(SEATS)};
        struct report report = {.length = 0};
        wf_atomic_u32 done = {0};
        tour.options.on_deadlock = take_report;
        tour.options.hook_context = &report;
        pthread_t thread = start_thread(stand_by_outside, &done);
        CHECK_EQ(weft_run(dine_together, &dinner, &tour.options), -EDEADLK);
        raise_by_one(&done);
        join_thread(thread);
        CHECK_EQ(wf_load_acquire(&report.count), 1);
        CHECK_EQ(report.waiting, SEATS + 1);
        CHECK_EQ(report.length, SEATS);
        CHECK(strstr(report.text, "\"Kant\" waits for mutex") != NULL);
        CHECK(strstr(report.text, "\"Hume\" has") != NULL);
        for (int i = 0; i < SEATS; i++) {
            CHECK_EQ(weft_mutex_is_locked(&dinner.forks[i]), 0);
        }
    }
}

static intptr_t acquire_one(void *sem)
{
    return weft_sem_acquire(sem, 1);
}

static intptr_t receive_one(void *chan)
{
    int item;
    return weft_recv(chan, &item);
}

static intptr_t send_two(void *chan)
{
    const int item = 1;
    CHECK_EQ(weft_send(chan, &item), 0);
    return weft_send(chan, &item);
}

static intptr_t select_one(void *chan)
{
    int item;
    weft_case cases[1] = {weft_case_recv(chan, &item)};
    return weft_select(cases, 1, 0);
}

static void check_stuck(weft_options options, weft_fn fn, void *arg, const char *words)
{
    struct report report = {.length = 0};
    options.on_deadlock = take_report;
    options.hook_context = &report;
    CHECK_EQ(weft_run(fn, arg, &options), -EDEADLK);
    CHECK_EQ(wf_load_acquire(&report.count), 1);
    CHECK_EQ(report.waiting, 1);
    CHECK_EQ(report.length, 0);
    CHECK(strstr(report.text, words) != NULL);
}

static void waiting_for_what_nobody_can_give_is_reported(void)
{
    if (wf_thread_count() != 1) {
        tap_skip("there is a thread that is not ours");
    }
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_sem sem = WEFT_SEM_INIT(0);
        weft_chan *chan = NULL;
        CHECK_EQ(weft_chan_open(&chan, sizeof(int), 1), 0);
        check_stuck(tour.options, acquire_one, &sem, "\"main\" waits for semaphore");
        check_stuck(tour.options, receive_one, chan, "\"main\" waits for receive");
        check_stuck(tour.options, select_one, chan, "\"main\" waits for select");
        check_stuck(tour.options, send_two, chan, "\"main\" waits for send");
        weft_chan_drop(chan);
    }
}

struct help {
    weft_sem sem;
    weft_mutex mutex;
    wf_atomic_u32 has_mutex;
    weft_runtime *runtime;
    wf_atomic_u32 is_running;
};

static intptr_t need_help(void *arg)
{
    struct help *help = arg;
    wait_for(&help->has_mutex, 1);
    help->runtime = weft_runtime_self();
    raise_by_one(&help->is_running);
    CHECK_EQ(weft_mutex_lock(&help->mutex), 0); /* a thread has it */
    CHECK_EQ(weft_mutex_unlock(&help->mutex), 0);
    return weft_sem_acquire(&help->sem, 1);
}

/* Nothing runs for a while: long enough for a worker to have looked. */
static void wait_until_quiet(weft_runtime *runtime)
{
    for (uint64_t polled = UINT64_MAX, same = 0; same < 1000; (void)sched_yield()) {
        const weft_stats stats = stats_of(runtime);
        same = stats.total.polled == polled ? same + 1 : 0;
        polled = stats.total.polled;
    }
}

static void *give_help(void *arg)
{
    struct help *help = arg;
    CHECK_EQ(weft_mutex_lock(&help->mutex), 0);
    raise_by_one(&help->has_mutex);
    wait_for(&help->is_running, 1);
    wait_until_quiet(help->runtime);
    CHECK_EQ(weft_mutex_unlock(&help->mutex), 0);
    wait_until_quiet(help->runtime);
    CHECK_EQ(weft_sem_release(&help->sem, 1), 0);
    return NULL;
}

/* A deadlock would fail the test. */
static void a_foreign_thread_may_still_help(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct help help = {.runtime = NULL};
        pthread_t thread = start_thread(give_help, &help);
        CHECK_EQ(weft_run(need_help, &help, &tour.options), 0);
        join_thread(thread);
    }
}

/* A blocking function that nobody waits for any more, and that goes on. */
struct errand {
    weft_sem begun;
    weft_sem sem;
    bool gives_help;
    weft_runtime *runtime;
    wf_atomic_u32 is_left;
};

static intptr_t run_errand(void *arg)
{
    struct errand *errand = arg;
    CHECK_EQ(weft_sem_release(&errand->begun, 1), 0);
    wait_for(&errand->is_left, 1);
    wait_until_quiet(errand->runtime);
    if (errand->gives_help) {
        CHECK_EQ(weft_sem_release(&errand->sem, 1), 0);
    }
    return 0;
}

static intptr_t leave_errand_and_wait(void *arg)
{
    struct errand *errand = arg;
    weft_wait_future call;
    weft_wait_future begun;
    weft_join_future race;
    weft_branch branches[2] = {{.future = &call.future}, {.future = &begun.future}};
    errand->runtime = weft_runtime_self();
    weft_blocking_future(&call, run_errand, errand, NULL);
    weft_acquire_future(&begun, &errand->begun, 1);
    weft_join_future_init(&race, WEFT_JOIN_RACE, branches, 2);
    CHECK_EQ(weft_await_future(&race.future), 1);
    raise_by_one(&errand->is_left);
    return weft_sem_acquire(&errand->sem, 1);
}

static void a_blocking_function_that_was_left_may_still_help(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct errand errand = {.gives_help = true};
        CHECK_EQ(weft_run(leave_errand_and_wait, &errand, &tour.options), 0);
    }
}

static void a_blocking_function_that_did_not_help_leaves_a_deadlock(void)
{
    if (wf_thread_count() != 1) {
        tap_skip("there is a thread that is not ours");
    }
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct errand errand = {.gives_help = false};
        check_stuck(tour.options, leave_errand_and_wait, &errand, "\"main\" waits for semaphore");
    }
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(a_circle_of_mutexes_is_reported_by_name, 60),
    TAP_TEST_LIMIT(waiting_for_what_nobody_can_give_is_reported, 60),
    TAP_TEST_LIMIT(a_foreign_thread_may_still_help, 60),
    TAP_TEST_LIMIT(a_blocking_function_that_was_left_may_still_help, 60),
    TAP_TEST_LIMIT(a_blocking_function_that_did_not_help_leaves_a_deadlock, 60),
};
TAP_MAIN(tests)
