/* SPDX-License-Identifier: MIT */
/*
 * Goal:   an idle runtime sleeps completely until work comes; an external submission runs at once,
 *         on one worker that was woken for it.
 * Method: counters of the kernel and the runtime while time passes over an idle runtime; then
 *         submissions from a non-worker thread, each after all threads have gone to sleep. No
 *         worker has a timeout here, so a lost wake-up hangs the test.
 */
#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "helpers.h"
#include "sched_helpers.h"

/* A worker that is counted as parked may still be about to sleep: so the test checks the kernel's
 * state, too. */
static void wait_until_all_sleep(weft_runtime *runtime, unsigned workers)
{
    while (stats_of(runtime).parked < workers) {
        (void)sched_yield();
    }
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder != NULL);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const int id = (int)strtol(entry->d_name, NULL, 10);
        if (id > 0 && id != wf_thread_id()) {
            wait_until_asleep(id);
        }
    }
    CHECK_EQ(closedir(folder), 0);
}

/* ---- idle runtime ---------------------------------------------------------------------------- */

/* Voluntary context switches of this process: one for each sleep of a thread. */
static long sleeps_of_all_threads(void)
{
    struct rusage use;
    CHECK_EQ(getrusage(RUSAGE_SELF, &use), 0);
    return use.ru_nvcsw;
}

/* Builds that search for lost wake-ups recheck periodically. */
#ifdef WF_PARK_TIMEOUT_NS
#define HAS_RECHECKS 1
#else
#define HAS_RECHECKS 0
#endif

/* Returns whether no thread woke and slept again while some time passed. The sleep of this thread
 * counts as one, and sanitizers have a thread that wakes now and then. */
static bool no_thread_woke(weft_runtime *runtime)
{
    const weft_worker_stats before = stats_of(runtime).total;
    const long sleeps = sleeps_of_all_threads();
    CHECK_EQ(weft_sleep(100 * WEFT_MILLISECOND), 0); /* no event is expected */
    const weft_worker_stats after = stats_of(runtime).total;
    return after.parked == before.parked && after.woken == before.woken &&
           (HAS_RECHECKS || sleeps_of_all_threads() - sleeps <= 4);
}

static void check_parked_workers(weft_runtime *runtime, const struct setting *setting)
{
    CHECK_EQ(weft_await(go_into(runtime, echo, NULL)), 0); /* all threads were awake */
    wait_until_all_sleep(runtime, setting->workers);
    /* A worker that parked early stays leader for a while, and the monitor takes some samples more:
     * how long they take depends on the machine.  A runtime that polls hangs the test. */
    while (!no_thread_woke(runtime)) {
    }
    CHECK_EQ(weft_await(go_into(runtime, echo, (void *)3)), 3);
}

/* behaviour 14, S2.27, S4.27: so every other test of a runtime passes without periodic rechecks,
 * too. */
static void park_lasts_until_work_comes(void)
{
    open_under(EVERYWHERE, check_parked_workers);
}

/* ---- latency of a submission ----------------------------------------------------------------- */

enum { ROUNDS = 101 };

struct wake_scene {
    weft_sem sem;
    weft_time ran;   /* plain: when the task continued */
    weft_time since; /* plain: when it was woken */
};

static intptr_t record_time(void *arg)
{
    struct wake_scene *wake_scene = arg;
    wake_scene->ran = weft_now();
    return 0;
}

static intptr_t wait_and_record_time(void *arg)
{
    struct wake_scene *wake_scene = arg;
    CHECK_EQ(weft_sem_acquire(&wake_scene->sem, 1), 0);
    return record_time(arg);
}

static int by_time(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* The limit for the median is generous: a busy machine is slow, but not most of the time.
 * bench_sched measures the latency. */
static void check_median(int64_t *times, const char *what)
{
    qsort(times, ROUNDS, sizeof(times[0]), by_time);
    tap_note("%s: half within %jd us, all within %jd us", what, (intmax_t)times[ROUNDS / 2] / 1000,
             (intmax_t)times[ROUNDS - 1] / 1000);
    CHECK_TIME(times[ROUNDS / 2] < 20 * WEFT_MILLISECOND);
}

static void measure_wakes(weft_runtime *runtime, const struct setting *setting)
{
    int64_t times[ROUNDS];
    struct wake_scene wake_scene = {.ran = 0};
    for (int i = 0; i < ROUNDS; i++) {
        wait_until_all_sleep(runtime, setting->workers);
        wake_scene.since = weft_now();
        CHECK_EQ(weft_await(go_into(runtime, record_time, &wake_scene)), 0);
        times[i] = wake_scene.ran - wake_scene.since;
        CHECK(times[i] >= 0);
    }
    check_median(times, "a spawn");
    for (int i = 0; i < ROUNDS; i++) {
        weft_task *task = go_into(runtime, wait_and_record_time, &wake_scene);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        wait_until_all_sleep(runtime, setting->workers);
        wake_scene.since = weft_now();
        CHECK_EQ(weft_sem_release(&wake_scene.sem, 1), 0);
        CHECK_EQ(weft_await(task), 0);
        times[i] = wake_scene.ran - wake_scene.since;
        CHECK(times[i] >= 0);
    }
    check_median(times, "a wake");
}

/* behaviour 15 */
static void external_submission_wakes_a_parked_worker_at_once(void)
{
    open_under(EVERYWHERE, measure_wakes);
}

/* ---- only one worker wakes ------------------------------------------------------------------- */

/* Returns whether the leader's timeout came in between: it woke without an unpark, and another
 * worker may be woken as leader.  The worker sleeps at both readings, so each of its sleeps but the
 * last has ended: by an unpark, or by a timeout. */
static bool woke_by_timeout(const weft_worker_stats *before, const weft_worker_stats *after)
{
    return after->parked - before->parked != after->woken - before->woken;
}

/* Returns false if a leader's timeout came in between: then the result is unknown. */
static bool wake_one(weft_runtime *runtime, unsigned workers)
{
    const weft_task_options options = {.is_pinned = true};
    weft_worker_stats before[8];
    weft_worker_stats after[8];
    bool is_known = true;
    wait_until_all_sleep(runtime, workers);
    for (unsigned i = 0; i < workers; i++) {
        CHECK_EQ(weft_runtime_get_worker_stats(runtime, &before[i], i), 0);
    }
    weft_task *task = NULL;
    CHECK_EQ(weft_runtime_spawn(runtime, &task, echo, NULL, &options), 0);
    CHECK_EQ(weft_await(task), 0);
    wait_until_all_sleep(runtime, workers);
    for (unsigned i = 0; i < workers; i++) {
        CHECK_EQ(weft_runtime_get_worker_stats(runtime, &after[i], i), 0);
        is_known = is_known && !woke_by_timeout(&before[i], &after[i]);
    }
    for (unsigned i = 0; i < workers && is_known; i++) {
        const uint64_t ran = after[i].polled - before[i].polled;
        CHECK_EQ(after[i].woken - before[i].woken, ran); /* the worker that ran it was woken */
    }
    return is_known;
}

static void wake_one_repeatedly(weft_runtime *runtime, const struct setting *setting)
{
    for (int round = 0; round < 20;) {
        round += wake_one(runtime, setting->workers) ? 1 : 0;
    }
}

/* S4.5: each worker sleeps on a futex word of its own. */
static void unpark_wakes_only_the_chosen_worker(void)
{
    for (struct tour tour = {.which = ON_SEVERAL_THAT_STEAL}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        wake_one_repeatedly(runtime, tour.setting);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

/* ---- workers that are about to park ---------------------------------------------------------- */

enum { LATE_ROUNDS = 1000 };

struct late_scene {
    weft_sem sem;
    int plain; /* the value for which the task was woken */
};

static intptr_t return_plain(void *arg)
{
    const struct late_scene *late_scene = arg;
    return late_scene->plain;
}

static intptr_t wait_and_return_plain(void *arg)
{
    struct late_scene *late_scene = arg;
    CHECK_EQ(weft_sem_acquire(&late_scene->sem, 1), 0);
    return return_plain(arg);
}

static void wait_without_sleep(weft_task *task, intptr_t result)
{
    intptr_t got = -1;
    while (weft_try_join(task, &got) == -EAGAIN) { /* so that the next one comes early */
        (void)sched_yield();
    }
    CHECK_EQ(got, result);
    weft_task_unref(task);
}

/* Each submission comes when the worker has just ended the previous task and searches, announces
 * its sleep, or sleeps; it is pinned to that worker, or open to all. */
static void submit_while_parking(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    const weft_task_options options[] = {{.is_pinned = true}, {.is_pinned = false}};
    struct late_scene late_scene = {.plain = 0};
    for (int i = 0; i < LATE_ROUNDS; i++) {
        weft_task *task = NULL;
        late_scene.plain = i;
        CHECK_EQ(weft_runtime_spawn(runtime, &task, return_plain, &late_scene, &options[i / 2 % 2]),
                 0);
        wait_without_sleep(task, i);
    }
    for (int i = 0; i < LATE_ROUNDS; i++) {
        weft_task *task = NULL;
        CHECK_EQ(weft_runtime_spawn(runtime, &task, wait_and_return_plain, &late_scene,
                                    &options[i / 2 % 2]),
                 0);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        late_scene.plain = i;
        CHECK_EQ(weft_sem_release(&late_scene.sem, 1), 0);
        wait_without_sleep(task, i);
    }
}

/* S4.17: no worker has a timeout, so a lost submission hangs the test. */
static void external_submission_to_a_parking_worker_is_not_lost(void)
{
    open_under(EVERYWHERE, submit_while_parking);
}

static void check_queues_are_empty(weft_runtime *runtime, unsigned workers)
{
    for (unsigned i = 0; i < workers; i++) {
        weft_worker_stats counters;
        CHECK_EQ(weft_runtime_get_worker_stats(runtime, &counters, i), 0);
        CHECK_EQ(counters.queue_depth, 0);
    }
    CHECK_EQ(stats_of(runtime).global_depth, 0);
}

struct leftover {
    wf_atomic_u32 ran;
    uint32_t count;
};

/* Ends with `count` tasks in the LIFO slot and the ring of its worker. */
static intptr_t leave_tasks_queued(void *arg)
{
    struct leftover *leftover = arg;
    for (uint32_t i = 0; i < leftover->count; i++) {
        CHECK_EQ(weft_spawn(NULL, count_up, &leftover->ran, NULL), 0);
    }
    return 0;
}

static void park_with_empty_queues(weft_runtime *runtime, const struct setting *setting)
{
    const bool has_slot = setting->policy == WEFT_POLICY_STEAL &&
                          setting->order == WEFT_ORDER_FAIR && setting->workers == 1 && HAS_ORDER;
    for (uint32_t count = 1; count <= 10; count++) {
        struct leftover leftover = {.count = count};
        const uint64_t hits = stats_of(runtime).total.lifo_hits;
        CHECK_EQ(weft_await(go_into(runtime, leave_tasks_queued, &leftover)), 0);
        wait_until_all_sleep(runtime, setting->workers);
        while (stats_of(runtime).live > 0) { /* a worker may have parked before the spawns */
            wait_until_all_sleep(runtime, setting->workers);
        }
        check_queues_are_empty(runtime, setting->workers);
        CHECK_EQ(wf_load_acquire(&leftover.ran), count); /* pairs with raise_by_one */
        CHECK(!has_slot || stats_of(runtime).total.lifo_hits > hits);
    }
}

/* S4.32: a worker parks with empty queues; an awake worker runs its local tasks, the newest first.
 * */
static void park_leaves_no_task_in_the_queues(void)
{
    open_under(EVERYWHERE, park_with_empty_queues);
}

static const struct tap_test tests[] = {
    TAP_TEST(park_lasts_until_work_comes),
    TAP_TEST(external_submission_wakes_a_parked_worker_at_once),
    TAP_TEST(unpark_wakes_only_the_chosen_worker),
    TAP_TEST(external_submission_to_a_parking_worker_is_not_lost),
    TAP_TEST(park_leaves_no_task_in_the_queues),
};
TAP_MAIN(tests)
