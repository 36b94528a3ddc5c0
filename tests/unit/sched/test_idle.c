/* SPDX-License-Identifier: MIT */
/*
 * Goal:   parked workers are woken one by one, counted exactly, and each is claimed by exactly one
 *         waker, for any number of workers.
 * Method: the protocol step by step on one thread; its rare interleavings between any two
 *         instructions; real threads with work that must never wait beside a parked worker.
 *         tests/model/model_idle.c exhausts all interleavings.
 */
#include <errno.h>
#include <sched.h>

#include "marks.h"
#include "sched/sched.h"
#include "step.h"
#include "tap.h"

static bool has_work_always(void *context)
{
    (void)context;
    return true;
}

static bool has_work_never(void *context)
{
    (void)context;
    return false;
}

/* Announces the worker's sleep without a sleep: the steps of a worker up to its recheck. */
static void announce(struct wf_idle *idle, unsigned worker)
{
    (void)wf_fetch_or_relaxed(&idle->asleep[worker / 64], UINT64_C(1) << (worker % 64));
}

static void idle_init_rejects_bad_numbers_of_workers(void)
{
    struct wf_idle idle = {.workers = 77};
    CHECK_EQ(wf_idle_init(&idle, 0), -EINVAL);
    CHECK_EQ(wf_idle_init(&idle, WF_WORKERS_MAX + 1), -EINVAL);
    CHECK_EQ(idle.workers, 77); /* untouched */
    CHECK_EQ(wf_idle_init(&idle, WF_WORKERS_MAX), 0);
}

/* S4.31 */
static void idle_begin_search_admits_at_most_half_of_the_workers(void)
{
    for (unsigned workers = 1; workers <= 9; workers++) {
        struct wf_idle idle;
        CHECK_EQ(wf_idle_init(&idle, workers), 0);
        unsigned searchers = 0;
        while (wf_idle_begin_search(&idle)) {
            searchers++;
        }
        CHECK_EQ(searchers, (workers + 1) / 2);
        CHECK_EQ(wf_idle_searching(&idle), searchers);
        for (; searchers > 1; searchers--) {
            CHECK(!wf_idle_end_search(&idle));
        }
        CHECK(wf_idle_end_search(&idle)); /* the last searcher learns that it was the last */
        CHECK_EQ(wf_idle_searching(&idle), 0);
    }
}

/* S4.28, S4.30 */
static void idle_notify_claims_the_lowest_sleeper_unless_one_searches(void)
{
    struct wf_idle idle;
    CHECK_EQ(wf_idle_init(&idle, 8), 0);
    CHECK_EQ(wf_idle_notify(&idle), -1); /* no worker sleeps */
    announce(&idle, 5);
    announce(&idle, 3);
    CHECK_EQ(wf_idle_asleep(&idle), 2);
    CHECK_EQ(wf_idle_notify(&idle), 3);
    CHECK_EQ(wf_idle_searching(&idle), 1); /* the claimed worker */
    CHECK_EQ(wf_idle_notify(&idle), -1);   /* it will find the work */
    CHECK_EQ(wf_idle_claim(&idle), 5);     /* a claim ignores searchers */
    CHECK_EQ(wf_idle_searching(&idle), 2);
    CHECK_EQ(wf_idle_asleep(&idle), 0);
}

/* part of behaviour 18: more workers than a word has bits */
static void idle_claim_returns_each_of_many_workers_once(void)
{
    static const unsigned numbers[] = {1, 63, 64, 65, 130, WF_WORKERS_MAX};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct wf_idle idle;
        CHECK_EQ(wf_idle_init(&idle, numbers[i]), 0);
        for (unsigned worker = 0; worker < numbers[i]; worker++) {
            announce(&idle, worker);
        }
        CHECK_EQ(wf_idle_asleep(&idle), numbers[i]);
        for (unsigned worker = 0; worker < numbers[i]; worker++) {
            CHECK_EQ(wf_idle_claim(&idle), worker);
        }
        CHECK_EQ(wf_idle_claim(&idle), -1);
        CHECK_EQ(wf_idle_searching(&idle), numbers[i]);
    }
}

static void idle_sleep_returns_if_the_recheck_finds_work(void)
{
    struct wf_idle idle;
    struct wf_parker parker = {0};
    CHECK_EQ(wf_idle_init(&idle, 4), 0);
    CHECK(wf_idle_begin_search(&idle));
    CHECK(!wf_idle_sleep(&idle, 2,
                         &(struct wf_sleep){.parker = &parker,
                                            .has_work = has_work_always,
                                            .deadline_ns = WF_FOREVER,
                                            .is_searching = true}));
    CHECK_EQ(wf_idle_searching(&idle), 0);
    CHECK_EQ(wf_idle_asleep(&idle), 0);
}

static void idle_sleep_ends_at_its_deadline(void)
{
    struct wf_idle idle;
    struct wf_parker parker = {0};
    CHECK_EQ(wf_idle_init(&idle, 4), 0);
    CHECK(!wf_idle_sleep(
        &idle, 2,
        &(struct wf_sleep){.parker = &parker, .has_work = has_work_never, .deadline_ns = 0}));
    CHECK_EQ(wf_idle_searching(&idle), 0);
    CHECK_EQ(wf_idle_asleep(&idle), 0);
}

#ifdef WF_PARK_TIMEOUT_NS
/* False at the recheck, true afterwards. */
static bool has_work_after_recheck(void *context)
{
    unsigned *checks = context;
    return (*checks)++ > 0;
}

/* False at the recheck, then true at every second check. */
static bool has_work_alternately(void *context)
{
    unsigned *checks = context;
    return (*checks)++ % 2 != 0;
}

/* `make wakeups` relies on this: work that was queued without a notify is found and counted. */
static void idle_counts_a_lost_wakeup(void)
{
    struct wf_idle idle;
    struct wf_parker parker = {0};
    unsigned checks = 0;
    CHECK_EQ(wf_idle_init(&idle, 4), 0);
    CHECK(!wf_idle_sleep(&idle, 2,
                         &(struct wf_sleep){.parker = &parker,
                                            .has_work = has_work_after_recheck,
                                            .context = &checks,
                                            .deadline_ns = WF_FOREVER}));
    CHECK_EQ(wf_load_relaxed(&idle.lost_wakeups), 1);
    CHECK_EQ(checks, 1 + WF_PARK_RECHECKS);
    CHECK_EQ(wf_idle_asleep(&idle), 0);
}

static void idle_does_not_count_work_that_comes_and_goes(void)
{
    struct wf_idle idle;
    struct wf_parker parker = {0};
    unsigned checks = 0;
    const int64_t deadline_ns = wf_clock_now() + 10 * WF_PARK_TIMEOUT_NS;
    CHECK_EQ(wf_idle_init(&idle, 4), 0);
    CHECK(!wf_idle_sleep(&idle, 2,
                         &(struct wf_sleep){.parker = &parker,
                                            .has_work = has_work_alternately,
                                            .context = &checks,
                                            .deadline_ns = deadline_ns}));
    CHECK_EQ(wf_load_relaxed(&idle.lost_wakeups), 0);
    CHECK(checks > 1);
}

/* A searcher will find the work, however long it waits for a CPU. */
static void idle_does_not_count_work_beside_a_searcher(void)
{
    struct wf_idle idle;
    struct wf_parker parker = {0};
    unsigned checks = 0;
    const int64_t deadline_ns = wf_clock_now() + 10 * WF_PARK_TIMEOUT_NS;
    CHECK_EQ(wf_idle_init(&idle, 4), 0);
    CHECK(wf_idle_begin_search(&idle));
    CHECK(!wf_idle_sleep(&idle, 2,
                         &(struct wf_sleep){.parker = &parker,
                                            .has_work = has_work_after_recheck,
                                            .context = &checks,
                                            .deadline_ns = deadline_ns}));
    CHECK_EQ(wf_load_relaxed(&idle.lost_wakeups), 0);
}
#endif

/* ---- between any two instructions ---------------------------------------------------------- */

struct scene {
    struct wf_idle idle;
    struct wf_parker parker;
    bool is_back_searching;
    int first;
    int second;
};

static void sleep_until_past(void *context)
{
    struct scene *scene = context;
    scene->is_back_searching = wf_idle_sleep(
        &scene->idle, 0,
        &(struct wf_sleep){.parker = &scene->parker, .has_work = has_work_never, .deadline_ns = 0});
}

static void notify_and_unpark(void *context)
{
    struct scene *scene = context;
    scene->first = wf_idle_notify(&scene->idle);
    if (scene->first >= 0) {
        wf_parker_unpark(&scene->parker);
    }
}

/* behaviour 13: a worker that is claimed while its deadline passes is counted once. */
static void idle_claim_at_the_deadline_counts_once(void)
{
    step_require();
    bool is_in_section = true;
    for (uint64_t at = 1; is_in_section; at++) {
        struct scene scene = {.first = -1};
        CHECK_EQ(wf_idle_init(&scene.idle, 2), 0);
        is_in_section = step_interrupt(at, sleep_until_past, notify_and_unpark, &scene);
        CHECK_EQ(scene.is_back_searching, scene.first == 0);
        CHECK_EQ(wf_idle_searching(&scene.idle), scene.is_back_searching ? 1 : 0);
        CHECK_EQ(wf_idle_asleep(&scene.idle), 0);
        CHECK_EQ(wf_parker_park(&scene.parker, 0), -ETIMEDOUT); /* no wake-up is left over */
    }
    check_reached("idle.claimed_at_the_deadline");
}

static void claim_first(void *context)
{
    struct scene *scene = context;
    scene->first = wf_idle_claim(&scene->idle);
}

static void claim_second(void *context)
{
    struct scene *scene = context;
    scene->second = wf_idle_claim(&scene->idle);
}

static void idle_claim_never_returns_one_worker_twice(void)
{
    step_require();
    bool is_in_section = true;
    for (uint64_t at = 1; is_in_section; at++) {
        struct scene scene = {.first = -1, .second = -1};
        CHECK_EQ(wf_idle_init(&scene.idle, 8), 0);
        announce(&scene.idle, 1);
        announce(&scene.idle, 6);
        is_in_section = step_interrupt(at, claim_first, claim_second, &scene);
        if (is_in_section) {
            CHECK_EQ(scene.first + scene.second, 7);
            CHECK(scene.first == 1 || scene.first == 6);
            CHECK_EQ(wf_idle_searching(&scene.idle), 2);
        }
        CHECK_EQ(wf_idle_asleep(&scene.idle), is_in_section ? 0 : 1);
    }
    check_reached("idle.claim_lost");
}

/* ---- real threads -------------------------------------------------------------------------- */

enum { WORKERS = 4, ROUNDS = 3000 };

static struct wf_idle pool;
static struct wf_parker parkers[WORKERS];
static wf_atomic_u64 queued;
static wf_atomic_u64 taken;
static uint64_t payload; /* plain: written before the push, read by the taker */

static void notify_pool(void)
{
    int worker = wf_idle_notify(&pool);
    if (worker >= 0) {
        wf_parker_unpark(&parkers[worker]);
    }
}

static bool is_work_or_end(void *context)
{
    (void)context;
    return wf_load_relaxed(&queued) > 0 || wf_load_relaxed(&taken) == ROUNDS;
}

static bool take(void)
{
    uint64_t count = wf_load_relaxed(&queued);
    while (count > 0) {
        if (wf_cas_acquire(&queued, &count, count - 1)) {
            return true;
        }
    }
    return false;
}

static void *work(void *arg)
{
    unsigned self = (unsigned)((struct wf_parker *)arg - parkers);
    bool is_searching = false;
    while (wf_load_relaxed(&taken) < ROUNDS) {
        is_searching = is_searching || wf_idle_begin_search(&pool);
        if (!take()) {
            is_searching = wf_idle_sleep(&pool, self,
                                         &(struct wf_sleep){.parker = &parkers[self],
                                                            .has_work = is_work_or_end,
                                                            .deadline_ns = WF_FOREVER,
                                                            .is_searching = is_searching});
            continue;
        }
        if (is_searching && wf_idle_end_search(&pool)) {
            notify_pool();
        }
        is_searching = false;
        CHECK_EQ(payload, wf_load_relaxed(&taken) + 1); /* one item at a time is queued */
        (void)wf_fetch_add_release(&taken, 1);
    }
    if (is_searching) {
        (void)wf_idle_end_search(&pool);
    }
    return NULL;
}

/* part of behaviour 14: no wait has a timeout, so a lost wake-up hangs. Each item is queued after
 * the previous one is done: most workers are asleep each time. */
static void idle_notify_loses_no_wakeup_under_threads(void)
{
    pthread_t threads[WORKERS];
    CHECK_EQ(wf_idle_init(&pool, WORKERS), 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], work, &parkers[i], NULL), 0);
    }
    for (uint64_t round = 0; round < ROUNDS; round++) {
        while (wf_load_acquire(&taken) < round) {
            (void)sched_yield();
        }
        payload = round + 1;
        (void)wf_fetch_add_release(&queued, 1);
        notify_pool();
    }
    while (wf_load_acquire(&taken) < ROUNDS) {
        (void)sched_yield();
    }
    wf_fence_seq_cst();
    for (int worker; (worker = wf_idle_claim(&pool)) >= 0;) {
        wf_parker_unpark(&parkers[worker]);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    CHECK_EQ(wf_idle_searching(&pool), 0);
    CHECK_EQ(wf_idle_asleep(&pool), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(idle_init_rejects_bad_numbers_of_workers),
    TAP_TEST(idle_begin_search_admits_at_most_half_of_the_workers),
    TAP_TEST(idle_notify_claims_the_lowest_sleeper_unless_one_searches),
    TAP_TEST(idle_claim_returns_each_of_many_workers_once),
    TAP_TEST(idle_sleep_returns_if_the_recheck_finds_work),
    TAP_TEST(idle_sleep_ends_at_its_deadline),
#ifdef WF_PARK_TIMEOUT_NS
    TAP_TEST(idle_counts_a_lost_wakeup),
    TAP_TEST(idle_does_not_count_work_that_comes_and_goes),
    TAP_TEST(idle_does_not_count_work_beside_a_searcher),
#endif
    TAP_TEST(idle_claim_at_the_deadline_counts_once),
    TAP_TEST(idle_claim_never_returns_one_worker_twice),
    TAP_TEST(idle_notify_loses_no_wakeup_under_threads),
};
TAP_MAIN(tests)
