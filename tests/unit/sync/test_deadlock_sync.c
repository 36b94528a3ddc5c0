/* SPDX-License-Identifier: MIT */
/*
 * Goal:   tasks that wait for each other's locks, or for something that no task can provide, are
 *         reported as a deadlock, by name; not while a thread outside the runtime could still wake
 *         them.
 * Method: cycles of mutexes, and a task that waits for a permit; with and without a thread outside
 *         the runtime.
 */
#include <string.h>

#include "sync_helpers.h"

enum { MUTEXES = 3 };

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

struct cycle {
    weft_mutex mutexes[MUTEXES];
    weft_barrier all_hold_one;
    wf_atomic_u32 next;
};

static intptr_t lock_two(void *arg)
{
    struct cycle *cycle = arg;
    const uint32_t index = wf_fetch_add_relaxed(&cycle->next, 1);
    CHECK_EQ(weft_mutex_lock(&cycle->mutexes[index]), 0);
    CHECK(weft_barrier_wait(&cycle->all_hold_one) >= 0); /* each task holds one mutex */
    weft_mutex *second = &cycle->mutexes[(index + 1) % MUTEXES];
    int rc = weft_mutex_lock(second);
    if (rc == 0) { /* another task was cancelled and has unlocked its mutex */
        CHECK_EQ(weft_mutex_unlock(second), 0);
    }
    CHECK_EQ(weft_mutex_unlock(&cycle->mutexes[index]), 0);
    return rc;
}

static intptr_t run_cycle(void *arg)
{
    weft_task *tasks[MUTEXES];
    static const char *const names[MUTEXES] = {"Kant", "Hume", "Mill"};
    for (int i = 0; i < MUTEXES; i++) {
        const weft_task_options options = {.name = names[i]};
        CHECK_EQ(weft_spawn(&tasks[i], lock_two, arg, &options), 0);
    }
    return weft_await_all(tasks, MUTEXES, NULL);
}

static void *stand_by_outside(void *done)
{
    wait_for(done, 1);
    return NULL;
}

/* The holders are known: a thread outside makes no difference. */
static void deadlock_cycle_of_mutexes_is_reported_by_name(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct cycle cycle = {.all_hold_one = WEFT_BARRIER_INIT(MUTEXES)};
        struct report report = {.length = 0};
        wf_atomic_u32 done = {0};
        tour.options.on_deadlock = take_report;
        tour.options.hook_context = &report;
        pthread_t thread = start_thread(stand_by_outside, &done);
        CHECK_EQ(weft_run(run_cycle, &cycle, &tour.options), -EDEADLK);
        raise_by_one(&done);
        join_thread(thread);
        CHECK_EQ(wf_load_acquire(&report.count), 1);
        CHECK_EQ(report.waiting, MUTEXES + 1);
        CHECK_EQ(report.length, MUTEXES);
        CHECK(strstr(report.text, "\"Kant\" waits for mutex") != NULL);
        CHECK(strstr(report.text, "\"Hume\"\n") != NULL);
        for (int i = 0; i < MUTEXES; i++) {
            CHECK_EQ(weft_mutex_is_locked(&cycle.mutexes[i]), 0);
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
    return weft_chan_recv(chan, &item);
}

static intptr_t send_two(void *chan)
{
    const int item = 1;
    CHECK_EQ(weft_chan_send(chan, &item), 0);
    return weft_chan_send(chan, &item);
}

static intptr_t select_one(void *chan)
{
    int item;
    weft_case cases[1] = {weft_case_recv(chan, &item)};
    return weft_select(cases, 1);
}

static void check_deadlock(weft_runtime_options options, weft_fn fn, void *arg, const char *words)
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

static void deadlock_of_a_wait_that_no_task_can_end_is_reported(void)
{
    if (wf_thread_count() != 1) {
        tap_skip("the process has another thread");
    }
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_sem sem = WEFT_SEM_INIT(0);
        weft_chan *chan = NULL;
        CHECK_EQ(weft_chan_new(&chan, sizeof(int), 1), 0);
        check_deadlock(tour.options, acquire_one, &sem, "\"main\" waits for semaphore");
        check_deadlock(tour.options, receive_one, chan, "\"main\" waits for receive");
        check_deadlock(tour.options, select_one, chan, "\"main\" waits for select");
        check_deadlock(tour.options, send_two, chan, "\"main\" waits for send");
        weft_chan_unref(chan);
    }
}

struct outside {
    weft_sem sem;
    weft_mutex mutex;
    wf_atomic_u32 has_mutex;
    weft_runtime *runtime;
    wf_atomic_u32 is_running;
};

static intptr_t wait_for_thread(void *arg)
{
    struct outside *outside = arg;
    wait_for(&outside->has_mutex, 1);
    outside->runtime = weft_runtime_self();
    raise_by_one(&outside->is_running);
    CHECK_EQ(weft_mutex_lock(&outside->mutex), 0); /* a thread outside holds it */
    CHECK_EQ(weft_mutex_unlock(&outside->mutex), 0);
    return weft_sem_acquire(&outside->sem, 1);
}

/* No task runs for a while: long enough for a worker to check for a deadlock. */
static void wait_until_idle(weft_runtime *runtime)
{
    for (uint64_t polled = UINT64_MAX, same = 0; same < 1000; (void)sched_yield()) {
        const weft_runtime_stats stats = stats_of(runtime);
        same = stats.total.polled == polled ? same + 1 : 0;
        polled = stats.total.polled;
    }
}

static void *wake_from_thread(void *arg)
{
    struct outside *outside = arg;
    CHECK_EQ(weft_mutex_lock(&outside->mutex), 0);
    raise_by_one(&outside->has_mutex);
    wait_for(&outside->is_running, 1);
    wait_until_idle(outside->runtime);
    CHECK_EQ(weft_mutex_unlock(&outside->mutex), 0);
    wait_until_idle(outside->runtime);
    CHECK_EQ(weft_sem_release(&outside->sem, 1), 0);
    return NULL;
}

/* A deadlock would fail the test. */
static void deadlock_is_not_reported_while_a_thread_may_wake(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct outside outside = {.runtime = NULL};
        pthread_t thread = start_thread(wake_from_thread, &outside);
        CHECK_EQ(weft_run(wait_for_thread, &outside, &tour.options), 0);
        join_thread(thread);
    }
}

/* A blocking function that no task awaits any more, and that continues to run. */
struct job {
    weft_sem begun;
    weft_sem sem;
    bool releases;
    weft_runtime *runtime;
    wf_atomic_u32 is_abandoned;
};

static intptr_t run_job(void *arg)
{
    struct job *job = arg;
    CHECK_EQ(weft_sem_release(&job->begun, 1), 0);
    wait_for(&job->is_abandoned, 1);
    wait_until_idle(job->runtime);
    if (job->releases) {
        CHECK_EQ(weft_sem_release(&job->sem, 1), 0);
    }
    return 0;
}

static intptr_t abandon_job_and_wait(void *arg)
{
    struct job *job = arg;
    weft_wait_future call;
    weft_wait_future begun;
    weft_join_future race;
    weft_branch branches[2] = {{.future = &call.future}, {.future = &begun.future}};
    job->runtime = weft_runtime_self();
    weft_blocking_call_future(&call, run_job, job, NULL);
    weft_sem_acquire_future(&begun, &job->begun, 1);
    weft_join_future_init(&race, WEFT_JOIN_RACE, branches, 2);
    CHECK_EQ(weft_future_await(&race.future), 1);
    raise_by_one(&job->is_abandoned);
    return weft_sem_acquire(&job->sem, 1);
}

static void deadlock_is_not_reported_while_a_blocking_call_runs(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct job job = {.releases = true};
        CHECK_EQ(weft_run(abandon_job_and_wait, &job, &tour.options), 0);
    }
}

static void deadlock_is_reported_after_the_last_blocking_call(void)
{
    if (wf_thread_count() != 1) {
        tap_skip("the process has another thread");
    }
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct job job = {.releases = false};
        check_deadlock(tour.options, abandon_job_and_wait, &job, "\"main\" waits for semaphore");
    }
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(deadlock_cycle_of_mutexes_is_reported_by_name, 60),
    TAP_TEST_LIMIT(deadlock_of_a_wait_that_no_task_can_end_is_reported, 60),
    TAP_TEST_LIMIT(deadlock_is_not_reported_while_a_thread_may_wake, 60),
    TAP_TEST_LIMIT(deadlock_is_not_reported_while_a_blocking_call_runs, 60),
    TAP_TEST_LIMIT(deadlock_is_reported_after_the_last_blocking_call, 60),
};
TAP_MAIN(tests)
