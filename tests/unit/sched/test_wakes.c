/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a runtime with nothing to do sleeps, all of it, for as long as nothing comes; and what
 *         comes from outside is run at once, by one worker that was called for it.
 * Method: what the kernel and the runtime count while time passes over an idle runtime; then work
 *         from a foreign thread, again and again, each time after everybody has gone to sleep.  No
 *         worker wakes by itself here, so a wake-up that is lost hangs the test.
 */
#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "aids.h"
#include "sched_aids.h"

/* A worker that says it sleeps may be about to: so the kernel is asked, too. */
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

/* ---- nothing comes --------------------------------------------------------------------------- */

/* Times that a thread of this process gave up its CPU by itself: once for each sleep. */
static long sleeps_of_all_threads(void)
{
    struct rusage use;
    CHECK_EQ(getrusage(RUSAGE_SELF, &use), 0);
    return use.ru_nvcsw;
}

/* Builds that look for lost wake-ups do look, and only that. */
#ifdef WF_PARK_TIMEOUT_NS
#define HAS_LOOKS 1
#else
#define HAS_LOOKS 0
#endif

/* Whether nobody went to sleep again while some time passed, which takes that one wakes before.
 * Our own sleep is one, and sanitizers have a thread that looks around now and then. */
static bool is_still(weft_runtime *runtime)
{
    const weft_counters before = stats_of(runtime).total;
    const long sleeps = sleeps_of_all_threads();
    CHECK_EQ(weft_sleep(100 * WEFT_MILLISECOND), 0); /* nothing is to happen meanwhile */
    const weft_counters after = stats_of(runtime).total;
    return after.parked == before.parked && after.woken == before.woken &&
           (HAS_LOOKS || sleeps_of_all_threads() - sleeps <= 4);
}

static void look_at_sleepers(weft_runtime *runtime, const struct setting *setting)
{
    CHECK_EQ(weft_await(go_into(runtime, echo, NULL)), 0); /* all of it has been awake */
    wait_until_all_sleep(runtime, setting->workers);
    /* Who fell asleep before the others watches them for a while. */
    bool is_quiet = is_still(runtime);
    for (int i = 0; i < 20 && !is_quiet; i++) {
        is_quiet = is_still(runtime);
    }
    CHECK(is_quiet);
    CHECK_EQ(weft_await(go_into(runtime, echo, (void *)3)), 3);
}

/* behaviour 14, S2.27, S4.27: so every other test of a runtime passes without such looks too. */
static void nobody_wakes_by_itself(void)
{
    open_under(EVERYWHERE, look_at_sleepers);
}

/* ---- something comes ------------------------------------------------------------------------- */

enum { ROUNDS = 101 };

struct call {
    weft_sem sem;
    weft_time ran;   /* plain: when the task went on */
    weft_time since; /* plain: when it was called */
};

static intptr_t note_the_time(void *arg)
{
    struct call *call = arg;
    call->ran = weft_now();
    return 0;
}

static intptr_t wait_and_note_the_time(void *arg)
{
    struct call *call = arg;
    CHECK_EQ(weft_sem_acquire(&call->sem, 1), 0);
    return note_the_time(arg);
}

static int by_time(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Half of the times are generous: a machine that has other things to do is slow, but not most of
 * the time.  How fast it is, bench_sched says. */
static void judge(int64_t *times, const char *what)
{
    qsort(times, ROUNDS, sizeof(times[0]), by_time);
    tap_note("%s: half within %jd us, all within %jd us", what, (intmax_t)times[ROUNDS / 2] / 1000,
             (intmax_t)times[ROUNDS - 1] / 1000);
    CHECK(times[ROUNDS / 2] < 20 * WEFT_MILLISECOND);
}

static void call_sleepers(weft_runtime *runtime, const struct setting *setting)
{
    int64_t times[ROUNDS];
    struct call call = {.ran = 0};
    for (int i = 0; i < ROUNDS; i++) {
        wait_until_all_sleep(runtime, setting->workers);
        call.since = weft_now();
        CHECK_EQ(weft_await(go_into(runtime, note_the_time, &call)), 0);
        times[i] = call.ran - call.since;
        CHECK(times[i] >= 0);
    }
    judge(times, "a spawn");
    for (int i = 0; i < ROUNDS; i++) {
        weft_task *task = go_into(runtime, wait_and_note_the_time, &call);
        wait_for_state(task, WEFT_BLOCKED);
        wait_until_all_sleep(runtime, setting->workers);
        call.since = weft_now();
        CHECK_EQ(weft_sem_release(&call.sem, 1), 0);
        CHECK_EQ(weft_await(task), 0);
        times[i] = call.ran - call.since;
        CHECK(times[i] >= 0);
    }
    judge(times, "a wake");
}

/* behaviour 15 */
static void what_comes_from_outside_is_run_at_once(void)
{
    open_under(EVERYWHERE, call_sleepers);
}

/* ---- one of them is called ------------------------------------------------------------------- */

/* The watcher's time came just then: it woke by itself, and another may be called to watch. */
static bool has_looked(const weft_counters *before, const weft_counters *after)
{
    return after->parked != before->parked && after->woken == before->woken;
}

/* False: a watcher came in between, and nothing is known. */
static bool call_one(weft_runtime *runtime, unsigned workers)
{
    const weft_task_options options = {.is_pinned = true};
    weft_counters before[8];
    weft_counters after[8];
    bool is_known = true;
    wait_until_all_sleep(runtime, workers);
    for (unsigned i = 0; i < workers; i++) {
        CHECK_EQ(weft_worker_stats(runtime, i, &before[i]), 0);
    }
    weft_task *task = NULL;
    CHECK_EQ(weft_runtime_spawn(runtime, &task, echo, NULL, &options), 0);
    CHECK_EQ(weft_await(task), 0);
    wait_until_all_sleep(runtime, workers);
    for (unsigned i = 0; i < workers; i++) {
        CHECK_EQ(weft_worker_stats(runtime, i, &after[i]), 0);
        is_known = is_known && !has_looked(&before[i], &after[i]);
    }
    for (unsigned i = 0; i < workers && is_known; i++) {
        const uint64_t ran = after[i].polled - before[i].polled;
        CHECK_EQ(after[i].woken - before[i].woken, ran); /* who ran it was woken, and no other */
    }
    return is_known;
}

static void call_one_of_them(weft_runtime *runtime, const struct setting *setting)
{
    for (int round = 0; round < 20;) {
        round += call_one(runtime, setting->workers) ? 1 : 0;
    }
}

/* S4.5: each has a word of its own to sleep on. */
static void only_who_is_called_wakes(void)
{
    for (struct tour tour = {.which = ON_SEVERAL_THAT_STEAL}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        call_one_of_them(runtime, tour.setting);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

/* ---- who is about to sleep ------------------------------------------------------------------- */

enum { LATE_ROUNDS = 1000 };

struct late {
    weft_sem sem;
    int plain; /* what it was called for */
};

static intptr_t take_what_is_there(void *arg)
{
    const struct late *late = arg;
    return late->plain;
}

static intptr_t wait_and_take(void *arg)
{
    struct late *late = arg;
    CHECK_EQ(weft_sem_acquire(&late->sem, 1), 0);
    return take_what_is_there(arg);
}

static void wait_without_sleep(weft_task *task, intptr_t result)
{
    intptr_t got = -1;
    while (weft_try_join(task, &got) == -EAGAIN) { /* so the next comes as soon as it can */
        (void)sched_yield();
    }
    CHECK_EQ(got, result);
    weft_drop(task);
}

/* Each comes when the worker has just ended the one before, and looks for the next, or says that it
 * sleeps, or does: for that worker alone, or for whoever comes. */
static void come_late(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    const weft_task_options options[] = {{.is_pinned = true}, {.is_pinned = false}};
    struct late late = {.plain = 0};
    for (int i = 0; i < LATE_ROUNDS; i++) {
        weft_task *task = NULL;
        late.plain = i;
        CHECK_EQ(weft_runtime_spawn(runtime, &task, take_what_is_there, &late, &options[i / 2 % 2]),
                 0);
        wait_without_sleep(task, i);
    }
    for (int i = 0; i < LATE_ROUNDS; i++) {
        weft_task *task = NULL;
        CHECK_EQ(weft_runtime_spawn(runtime, &task, wait_and_take, &late, &options[i / 2 % 2]), 0);
        wait_for_state(task, WEFT_BLOCKED);
        late.plain = i;
        CHECK_EQ(weft_sem_release(&late.sem, 1), 0);
        wait_without_sleep(task, i);
    }
}

/* S4.17: nobody wakes by itself, so one that is forgotten hangs the test. */
static void what_comes_for_a_worker_that_falls_asleep_is_run(void)
{
    open_under(EVERYWHERE, come_late);
}

static void check_queues_are_empty(weft_runtime *runtime, unsigned workers)
{
    for (unsigned i = 0; i < workers; i++) {
        weft_counters counters;
        CHECK_EQ(weft_worker_stats(runtime, i, &counters), 0);
        CHECK_EQ(counters.queue_depth, 0);
    }
    CHECK_EQ(stats_of(runtime).global_depth, 0);
}

struct litter {
    wf_atomic_u32 ran;
    uint32_t count;
};

/* Ends with as many in the worker's own place of the newest and queue. */
static intptr_t leave_some_behind(void *arg)
{
    struct litter *litter = arg;
    for (uint32_t i = 0; i < litter->count; i++) {
        CHECK_EQ(weft_spawn(NULL, count_up, &litter->ran, NULL), 0);
    }
    return 0;
}

static void sleep_with_nothing_left(weft_runtime *runtime, const struct setting *setting)
{
    const bool has_slot = setting->policy == WEFT_POLICY_STEAL &&
                          setting->order == WEFT_ORDER_FAIR && setting->workers == 1 && HAS_ORDER;
    for (uint32_t count = 1; count <= 10; count++) {
        struct litter litter = {.count = count};
        const uint64_t hits = stats_of(runtime).total.lifo_hits;
        CHECK_EQ(weft_await(go_into(runtime, leave_some_behind, &litter)), 0);
        wait_until_all_sleep(runtime, setting->workers);
        while (stats_of(runtime).live > 0) { /* it may have been on its way to the first sleep */
            wait_until_all_sleep(runtime, setting->workers);
        }
        check_queues_are_empty(runtime, setting->workers);
        CHECK_EQ(wf_load_acquire(&litter.ran), count); /* to raise_by_one */
        CHECK(!has_slot || stats_of(runtime).total.lifo_hits > hits);
    }
}

/* S4.32: and when it is awake again it runs what is its own, the newest first. */
static void who_sleeps_has_left_nothing_in_its_queues(void)
{
    open_under(EVERYWHERE, sleep_with_nothing_left);
}

static const struct tap_test tests[] = {
    TAP_TEST(nobody_wakes_by_itself),
    TAP_TEST(what_comes_from_outside_is_run_at_once),
    TAP_TEST(only_who_is_called_wakes),
    TAP_TEST(what_comes_for_a_worker_that_falls_asleep_is_run),
    TAP_TEST(who_sleeps_has_left_nothing_in_its_queues),
};
TAP_MAIN(tests)
