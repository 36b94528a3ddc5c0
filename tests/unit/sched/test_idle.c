/* SPDX-License-Identifier: MIT */
/*
 * Goal:   sleepers are woken one by one, counted right, and claimed by exactly one, for any number
 *         of workers.
 * Method: the protocol by hand on one thread; its rare meetings between any two instructions; real
 *         threads with work that must never wait beside a sleeper.  All orders of steps are
 *         exhausted in tests/model/model_idle.c.
 */
#include <errno.h>
#include <sched.h>

#include "marks.h"
#include "sched/sched.h"
#include "step.h"
#include "tap.h"

static bool say_yes(void *context)
{
    (void)context;
    return true;
}

static bool say_no(void *context)
{
    (void)context;
    return false;
}

/* Announces the worker's sleep without sleeping: what a worker does up to its second look. */
static void announce(struct wf_idle *idle, unsigned worker)
{
    (void)wf_fetch_or_relaxed(&idle->asleep[worker / 64], UINT64_C(1) << (worker % 64));
}

static void bad_numbers_of_workers_are_refused(void)
{
    struct wf_idle idle = {.workers = 77};
    CHECK_EQ(wf_idle_init(&idle, 0), -EINVAL);
    CHECK_EQ(wf_idle_init(&idle, WF_WORKERS_MAX + 1), -EINVAL);
    CHECK_EQ(idle.workers, 77); /* untouched */
    CHECK_EQ(wf_idle_init(&idle, WF_WORKERS_MAX), 0);
}

/* S4.31 */
static void at_most_half_of_the_workers_search(void)
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
        CHECK(wf_idle_end_search(&idle)); /* the last is told so */
        CHECK_EQ(wf_idle_searching(&idle), 0);
    }
}

/* S4.28, S4.30 */
static void a_notify_claims_the_lowest_sleeper_unless_somebody_searches(void)
{
    struct wf_idle idle;
    CHECK_EQ(wf_idle_init(&idle, 8), 0);
    CHECK_EQ(wf_idle_notify(&idle), -1); /* nobody sleeps */
    announce(&idle, 5);
    announce(&idle, 3);
    CHECK_EQ(wf_idle_asleep(&idle), 2);
    CHECK_EQ(wf_idle_notify(&idle), 3);
    CHECK_EQ(wf_idle_searching(&idle), 1); /* the claimed one */
    CHECK_EQ(wf_idle_notify(&idle), -1);   /* it will find the work */
    CHECK_EQ(wf_idle_claim(&idle), 5);     /* asked for in any case */
    CHECK_EQ(wf_idle_searching(&idle), 2);
    CHECK_EQ(wf_idle_asleep(&idle), 0);
}

/* part of behaviour 18: more workers than a word has bits */
static void every_worker_of_many_can_be_claimed_once(void)
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

static void work_seen_at_the_second_look_keeps_the_worker_awake(void)
{
    struct wf_idle idle;
    struct wf_parker parker = {0};
    CHECK_EQ(wf_idle_init(&idle, 4), 0);
    CHECK(wf_idle_begin_search(&idle));
    CHECK(!wf_idle_sleep(&idle, 2,
                         &(struct wf_sleep){.parker = &parker,
                                            .has_work = say_yes,
                                            .deadline_ns = WF_FOREVER,
                                            .is_searching = true}));
    CHECK_EQ(wf_idle_searching(&idle), 0);
    CHECK_EQ(wf_idle_asleep(&idle), 0);
}

static void a_deadline_ends_the_sleep(void)
{
    struct wf_idle idle;
    struct wf_parker parker = {0};
    CHECK_EQ(wf_idle_init(&idle, 4), 0);
    CHECK(!wf_idle_sleep(
        &idle, 2, &(struct wf_sleep){.parker = &parker, .has_work = say_no, .deadline_ns = 0}));
    CHECK_EQ(wf_idle_searching(&idle), 0);
    CHECK_EQ(wf_idle_asleep(&idle), 0);
}

#ifdef WF_PARK_TIMEOUT_NS
/* Not at the second look, but from then on. */
static bool say_yes_later(void *context)
{
    unsigned *looks = context;
    return (*looks)++ > 0;
}

/* Not at the second look, and then every other time. */
static bool say_yes_in_turn(void *context)
{
    unsigned *looks = context;
    return (*looks)++ % 2 != 0;
}

/* What `make wakeups` rests on: queued without a notify it would wait for ever, and is found. */
static void work_that_nobody_calls_for_is_counted(void)
{
    struct wf_idle idle;
    struct wf_parker parker = {0};
    unsigned looks = 0;
    CHECK_EQ(wf_idle_init(&idle, 4), 0);
    CHECK(!wf_idle_sleep(&idle, 2,
                         &(struct wf_sleep){.parker = &parker,
                                            .has_work = say_yes_later,
                                            .context = &looks,
                                            .deadline_ns = WF_FOREVER}));
    CHECK_EQ(wf_load_relaxed(&idle.lost_wakeups), 1);
    CHECK_EQ(looks, 1 + WF_PARK_LOOKS);
    CHECK_EQ(wf_idle_asleep(&idle), 0);
}

static void work_that_comes_and_goes_is_not_counted(void)
{
    struct wf_idle idle;
    struct wf_parker parker = {0};
    unsigned looks = 0;
    const int64_t deadline_ns = wf_clock_now() + 10 * WF_PARK_TIMEOUT_NS;
    CHECK_EQ(wf_idle_init(&idle, 4), 0);
    CHECK(!wf_idle_sleep(&idle, 2,
                         &(struct wf_sleep){.parker = &parker,
                                            .has_work = say_yes_in_turn,
                                            .context = &looks,
                                            .deadline_ns = deadline_ns}));
    CHECK_EQ(wf_load_relaxed(&idle.lost_wakeups), 0);
    CHECK(looks > 1);
}

/* A searcher will find it, however long it is kept from its CPU. */
static void work_beside_a_searcher_is_not_counted(void)
{
    struct wf_idle idle;
    struct wf_parker parker = {0};
    unsigned looks = 0;
    const int64_t deadline_ns = wf_clock_now() + 10 * WF_PARK_TIMEOUT_NS;
    CHECK_EQ(wf_idle_init(&idle, 4), 0);
    CHECK(wf_idle_begin_search(&idle));
    CHECK(!wf_idle_sleep(&idle, 2,
                         &(struct wf_sleep){.parker = &parker,
                                            .has_work = say_yes_later,
                                            .context = &looks,
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
        &(struct wf_sleep){.parker = &scene->parker, .has_work = say_no, .deadline_ns = 0});
}

static void notify_and_unpark(void *context)
{
    struct scene *scene = context;
    scene->first = wf_idle_notify(&scene->idle);
    if (scene->first >= 0) {
        wf_parker_unpark(&scene->parker);
    }
}

/* behaviour 13: whoever claims a worker whose deadline passes, it is counted once. */
static void a_claim_at_the_deadline_counts_once(void)
{
    step_require();
    bool is_inside = true;
    for (uint64_t at = 1; is_inside; at++) {
        struct scene scene = {.first = -1};
        CHECK_EQ(wf_idle_init(&scene.idle, 2), 0);
        is_inside = step_interrupt(at, sleep_until_past, notify_and_unpark, &scene);
        CHECK_EQ(scene.is_back_searching, scene.first == 0);
        CHECK_EQ(wf_idle_searching(&scene.idle), scene.is_back_searching ? 1 : 0);
        CHECK_EQ(wf_idle_asleep(&scene.idle), 0);
        CHECK_EQ(wf_parker_park(&scene.parker, 0), -ETIMEDOUT); /* no wake is left over */
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

static void two_claims_never_get_the_same_worker(void)
{
    step_require();
    bool is_inside = true;
    for (uint64_t at = 1; is_inside; at++) {
        struct scene scene = {.first = -1, .second = -1};
        CHECK_EQ(wf_idle_init(&scene.idle, 8), 0);
        announce(&scene.idle, 1);
        announce(&scene.idle, 6);
        is_inside = step_interrupt(at, claim_first, claim_second, &scene);
        if (is_inside) {
            CHECK_EQ(scene.first + scene.second, 7);
            CHECK(scene.first == 1 || scene.first == 6);
            CHECK_EQ(wf_idle_searching(&scene.idle), 2);
        }
        CHECK_EQ(wf_idle_asleep(&scene.idle), is_inside ? 0 : 1);
    }
    check_reached("idle.claim_lost");
}

/* ---- real threads -------------------------------------------------------------------------- */

enum { WORKERS = 4, ROUNDS = 3000 };

static struct wf_idle pool;
static struct wf_parker parkers[WORKERS];
static wf_atomic_u64 queued;
static wf_atomic_u64 taken;
static uint64_t payload; /* plain: written before a push, read by its taker */

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
        CHECK_EQ(payload, wf_load_relaxed(&taken) + 1); /* one piece at a time is out */
        (void)wf_fetch_add_release(&taken, 1);
    }
    if (is_searching) {
        (void)wf_idle_end_search(&pool);
    }
    return NULL;
}

/* part of behaviour 14: no timeout anywhere, so a lost wake-up hangs.  One piece at a time, queued
 * only when the one before is done: most of the workers are asleep each time. */
static void no_piece_of_work_waits_beside_sleepers(void)
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
    TAP_TEST(bad_numbers_of_workers_are_refused),
    TAP_TEST(at_most_half_of_the_workers_search),
    TAP_TEST(a_notify_claims_the_lowest_sleeper_unless_somebody_searches),
    TAP_TEST(every_worker_of_many_can_be_claimed_once),
    TAP_TEST(work_seen_at_the_second_look_keeps_the_worker_awake),
    TAP_TEST(a_deadline_ends_the_sleep),
#ifdef WF_PARK_TIMEOUT_NS
    TAP_TEST(work_that_nobody_calls_for_is_counted),
    TAP_TEST(work_that_comes_and_goes_is_not_counted),
    TAP_TEST(work_beside_a_searcher_is_not_counted),
#endif
    TAP_TEST(a_claim_at_the_deadline_counts_once),
    TAP_TEST(two_claims_never_get_the_same_worker),
    TAP_TEST(no_piece_of_work_waits_beside_sleepers),
};
TAP_MAIN(tests)
