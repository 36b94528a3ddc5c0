/* SPDX-License-Identifier: MIT */
/*
 * Goal:   whoever may run does run: no task starves another, no worker sleeps beside work, and no
 *         worker's private place hides a task.
 * Method: tasks that hog a worker, a queue or a priority until another task has run; tasks that
 *         need as many workers at once as there are.  If the promise is broken, the test hangs.
 */
#include "sched_aids.h"

/* ---- every worker works ---------------------------------------------------------------------- */

struct meeting {
    wf_atomic_u32 arrived;
    uint32_t expected;
};

/* Keeps its worker until all are there. */
static intptr_t meet(void *arg)
{
    struct meeting *meeting = arg;
    raise_by_one(&meeting->arrived);
    hold_for(&meeting->arrived, meeting->expected);
    return 0;
}

enum { WORKERS_MOST = 8 };

static intptr_t fan_out(void *arg)
{
    const struct setting *setting = arg;
    weft_task *tasks[WORKERS_MOST];
    for (int round = 0; round < 20; round++) {
        struct meeting meeting = {.expected = setting->workers};
        for (unsigned i = 1; i < setting->workers; i++) {
            tasks[i] = go(meet, &meeting);
        }
        CHECK_EQ(meet(&meeting), 0); /* we are one of them, on the last worker */
        CHECK_EQ(weft_await_all(tasks + 1, setting->workers - 1, NULL), 0);
    }
    return 0;
}

/* behaviour 16, X7: the spawner gives nothing away itself, it keeps its worker. */
static void a_fan_out_from_a_task_reaches_all_workers(void)
{
    run_under(ON_SEVERAL, fan_out);
}

static void occupy(weft_runtime *runtime, const struct setting *setting)
{
    weft_task *tasks[WORKERS_MOST];
    for (int round = 0; round < 20; round++) {
        struct meeting meeting = {.expected = setting->workers};
        for (unsigned i = 0; i < setting->workers; i++) {
            tasks[i] = go_into(runtime, meet, &meeting);
        }
        CHECK_EQ(weft_await_all(tasks, setting->workers, NULL), 0);
    }
}

/* behaviour 17 */
static void long_tasks_from_outside_occupy_all_workers(void)
{
    open_under(EVERYWHERE, occupy);
}

static intptr_t hide_one(void *arg)
{
    (void)arg;
    for (int round = 0; round < 20; round++) {
        wf_atomic_u32 ran = {0};
        weft_task *task = go(count_up, &ran);
        hold_for(&ran, 1); /* it stands in the place of the newest, and we do not let go */
        CHECK_EQ(weft_await(task), 0);
    }
    return 0;
}

/* behaviour 23 */
static void the_newest_task_of_a_busy_worker_is_run_by_others(void)
{
    run_under(ON_SEVERAL, hide_one);
}

static intptr_t go_on_after(void *arg)
{
    void **pair = arg;
    CHECK_EQ(weft_join(pair[0], NULL), 0);
    raise_by_one(pair[1]);
    return 0;
}

/* What a task wakes by its end stands in the place of the newest too. */
static intptr_t hide_the_woken(void *arg)
{
    (void)arg;
    for (int round = 0; round < 20; round++) {
        wf_atomic_u32 open = {0};
        wf_atomic_u32 ran = {0};
        weft_task *awaited = go(stand_by, &open);
        void *pair[2] = {awaited, &ran};
        weft_task *task = go(go_on_after, (void *)pair);
        wait_for_state(task, WEFT_BLOCKED);
        raise_by_one(&open);
        hold_for(&ran, 1);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(weft_await(awaited), 0);
    }
    return 0;
}

static void what_is_woken_beside_a_busy_worker_is_run_by_others(void)
{
    run_under(ON_SEVERAL, hide_the_woken);
}

/* ---- one worker ------------------------------------------------------------------------------ */

struct hog {
    weft_runtime *runtime;
    wf_atomic_u32 local;
    wf_atomic_u32 global;
    wf_atomic_u32 is_over;
    int (*give_way)(void);
};

static void *inject(void *arg)
{
    struct hog *hog = arg;
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_runtime_spawn(hog->runtime, NULL, count_up, &hog->global, NULL), 0);
    }
    return NULL;
}

static intptr_t hog_by(int (*give_way)(void))
{
    struct hog hog = {.runtime = weft_runtime_self(), .give_way = give_way};
    pthread_t thread;
    for (int i = 0; i < 5; i++) {
        weft_drop(go(count_up, &hog.local));
    }
    CHECK_EQ(wf_thread_start(&thread, inject, &hog, NULL), 0);
    while (wf_load_acquire(&hog.local) < 5 || wf_load_acquire(&hog.global) < 5) {
        CHECK_EQ(give_way(), 0);
    }
    CHECK_EQ(wf_thread_join(thread), 0);
    return 0;
}

static intptr_t hog_by_yield(void *arg)
{
    (void)arg;
    return hog_by(weft_yield);
}

/* part of behaviour 21, X6 */
static void a_task_that_yields_starves_neither_queue(void)
{
    run_under(EVERYWHERE, hog_by_yield);
}

static intptr_t hog_by_check(void *arg)
{
    (void)arg;
    return hog_by(weft_check);
}

/* part of behaviour 21, S2.6: a loop that computes, and asks now and then; of those that never ask
 * see endless_loops_do_not_stop_the_others in test_hogs.c. */
static void a_task_that_computes_starves_neither_queue(void)
{
    run_under(EVERYWHERE, hog_by_check);
}

static intptr_t yield_until_over(void *arg)
{
    struct hog *hog = arg;
    while (wf_load_acquire(&hog->is_over) == 0) {
        (void)hog->give_way();
    }
    return 0;
}

/* The own queue is never empty: the global one must have its turn all the same. */
static void keep_the_queue_full(weft_runtime *runtime, const struct setting *setting)
{
    int (*const ways[])(void) = {weft_yield, weft_check};
    for (int i = 0; i < 2; i++) {
        struct hog hog = {.runtime = runtime, .give_way = ways[i]};
        weft_task *tasks[3 * WORKERS_MOST];
        const unsigned count = 3 * setting->workers;
        for (unsigned j = 0; j < count; j++) {
            tasks[j] = go_into(runtime, yield_until_over, &hog);
        }
        for (unsigned j = 0; j < count; j++) {
            while (info_of(tasks[j]).runs < 2) {
                (void)sched_yield();
            }
        }
        (void)inject(&hog);
        wait_for(&hog.global, 5);
        raise_by_one(&hog.is_over);
        CHECK_EQ(weft_await_all(tasks, count, NULL), 0);
    }
}

/* part of behaviour 21, part of S4.20 */
static void busy_local_queues_do_not_starve_the_global_one(void)
{
    open_under(EVERYWHERE, keep_the_queue_full);
}

static void spin_long(void)
{
    const int64_t end = wf_clock_now() + 2000000; /* more than the global queue is made to wait */
    while (wf_clock_now() < end) {
    }
}

enum { LONG_TURNS = 4 };

struct turns {
    int *counts;
    int own;
};

/* Counts in plain memory: there is one worker. */
static intptr_t take_long_turns(void *arg)
{
    const struct turns *turns = arg;
    for (int sum = 0; sum < 120;) {
        turns->counts[turns->own]++;
        spin_long();
        (void)weft_yield();
        sum = 0;
        for (int i = 0; i < LONG_TURNS; i++) {
            sum += turns->counts[i];
        }
    }
    return 0;
}

static intptr_t share_long_turns(void *arg)
{
    (void)arg;
    int counts[LONG_TURNS] = {0};
    struct turns turns[LONG_TURNS];
    weft_task *tasks[LONG_TURNS];
    for (int i = 0; i < LONG_TURNS; i++) {
        turns[i] = (struct turns){counts, i};
        tasks[i] = go(take_long_turns, &turns[i]);
    }
    CHECK_EQ(weft_await_all(tasks, LONG_TURNS, NULL), 0);
    for (int i = 0; i < LONG_TURNS; i++) {
        CHECK(counts[i] >= 120 / LONG_TURNS / 3); /* a third of its share at least */
    }
    return 0;
}

/* part of behaviour 21: the queue that a yielding task goes to is not always the next. */
static void long_turns_do_not_starve_the_local_queue(void)
{
    run_under(ON_ONE_WORKER, share_long_turns);
}

enum { YIELDERS = 40, STEPS = 200 };

static intptr_t step_and_yield(void *arg)
{
    int *steps = arg; /* plain: goes along from worker to worker */
    for (int i = 0; i < STEPS; i++) {
        *steps += 1;
        (void)weft_yield();
    }
    return 0;
}

static intptr_t let_many_yield(void *arg)
{
    (void)arg;
    static weft_task *tasks[YIELDERS];
    static int steps[YIELDERS];
    for (int i = 0; i < YIELDERS; i++) {
        steps[i] = 0;
        tasks[i] = go(step_and_yield, &steps[i]);
    }
    CHECK_EQ(weft_await_all(tasks, YIELDERS, NULL), 0);
    for (int i = 0; i < YIELDERS; i++) {
        CHECK_EQ(steps[i], STEPS);
    }
    return 0;
}

/* Through rings, deques and the global queue, while others take from them. */
static void no_task_that_yields_is_lost(void)
{
    run_under(EVERYWHERE, let_many_yield);
}

struct chain {
    wf_atomic_u32 old_ran;
    wf_atomic_u32 links;
    wf_atomic_u32 is_over;
};

/* Each link is the newest task when it is made. */
static intptr_t forge_the_next(void *arg)
{
    struct chain *chain = arg;
    if (wf_load_acquire(&chain->old_ran) == 0) {
        CHECK(wf_fetch_add_relaxed(&chain->links, 1) < 100000);
        weft_drop(go(forge_the_next, chain));
    } else {
        raise_by_one(&chain->is_over);
    }
    return 0;
}

static intptr_t forge_beside_an_old_task(void *arg)
{
    (void)arg;
    struct chain chain = {.links = {0}};
    weft_task *old = go(count_up, &chain.old_ran);
    weft_drop(go(forge_the_next, &chain));
    CHECK_EQ(weft_await(old), 0);
    wait_for(&chain.is_over, 1);
    return 0;
}

/* Depth first it is the newest that runs, by design: there an old task waits for its own worker. */
static void a_chain_of_the_newest_does_not_starve_the_old(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        if (tour.setting->order == WEFT_ORDER_FAIR) {
            CHECK_EQ(weft_run(forge_beside_an_old_task, NULL, &tour.options), 0);
        }
    }
}

/* ---- priorities ------------------------------------------------------------------------------ */

struct rank {
    wf_atomic_u32 ran;
    wf_atomic_u32 is_over;
};

static intptr_t occupy_a_rank(void *arg)
{
    struct rank *rank = arg;
    while (wf_load_acquire(&rank->is_over) == 0) {
        (void)weft_yield();
    }
    return 0;
}

/* Tasks of one priority never leave its queue empty, until one of another has run. */
static void check_turn(const struct setting *setting, enum weft_priority busy,
                       enum weft_priority patient)
{
    enum { COUNT = 3 * WORKERS_MOST };
    struct rank rank = {.ran = {0}};
    weft_task *tasks[COUNT + 1];
    const size_t count = 3 * setting->workers;
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(
            weft_spawn(&tasks[i], occupy_a_rank, &rank, &(weft_task_options){.priority = busy}), 0);
    }
    for (size_t i = 0; i < count; i++) {
        while (info_of(tasks[i]).runs < 2) {
            (void)weft_yield();
        }
    }
    CHECK_EQ(
        weft_spawn(&tasks[count], count_up, &rank.ran, &(weft_task_options){.priority = patient}),
        0);
    wait_for(&rank.ran, 1);
    raise_by_one(&rank.is_over);
    CHECK_EQ(weft_await_all(tasks, count + 1, NULL), 0);
}

static intptr_t give_every_rank_its_turn(void *arg)
{
    const enum weft_priority all[] = {WEFT_PRIORITY_NORMAL, WEFT_PRIORITY_HIGH, WEFT_PRIORITY_LOW};
    for (int busy = 0; busy < 3; busy++) {
        for (int patient = 0; patient < 3; patient++) {
            check_turn(arg, all[busy], all[patient]);
        }
    }
    return 0;
}

/* part of S2.9: priorities are an order, not a right. */
static void no_priority_starves_another(void)
{
    run_under(EVERYWHERE, give_every_rank_its_turn);
}

/* Batches of tasks that are not worth being shared, until it is told to stop. */
static intptr_t run_short_tasks(void *arg)
{
    enum { TASKS = 300 };
    weft_task *tasks[TASKS];
    wf_atomic_u32 *is_over = arg;
    while (wf_load_acquire(is_over) == 0) { /* to raise_by_one */
        for (intptr_t i = 0; i < TASKS; i++) {
            tasks[i] = go(echo, (void *)i);
        }
        for (intptr_t i = 0; i < TASKS; i++) {
            CHECK_EQ(weft_await(tasks[i]), i);
        }
    }
    return 0;
}

/* A worker that looks away from what the others have, because it is not worth it, sees what comes
 * from outside all the same; and what is worth it, later. */
static void short_tasks_of_others_keep_nothing_waiting(void)
{
    for (unsigned workers = 2; workers <= 4; workers++) {
        const weft_options options = {.workers = workers};
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        wf_atomic_u32 is_over = {0};
        weft_task *short_ones = go_into(runtime, run_short_tasks, &is_over);
        for (intptr_t i = 0; i < 200; i++) {
            CHECK_EQ(weft_await(go_into(runtime, echo, (void *)i)), i);
        }
        struct meeting meeting = {.expected = workers - 1}; /* they need a worker each */
        weft_task *tasks[WORKERS_MOST];
        for (unsigned i = 0; i < meeting.expected; i++) {
            tasks[i] = go_into(runtime, meet, &meeting);
        }
        for (unsigned i = 0; i < meeting.expected; i++) {
            CHECK_EQ(weft_await(tasks[i]), 0);
        }
        raise_by_one(&is_over);
        CHECK_EQ(weft_await(short_ones), 0);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

static intptr_t meet_those_of_others(void *arg)
{
    struct meeting meeting = {.expected = *(const unsigned *)arg};
    weft_task *tasks[WORKERS_MOST];
    for (unsigned i = 1; i < meeting.expected; i++) {
        tasks[i] = go(meet, &meeting);
    }
    CHECK_EQ(meet(&meeting), 0);
    return weft_await_all(tasks + 1, meeting.expected - 1, NULL);
}

/* The last of the tasks stands in the place of the newest, of a worker that does not let go: it is
 * found only by somebody who watches, also if that one was falling asleep as the work began. */
static void who_falls_asleep_beside_work_watches_it(void)
{
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 4};
    const weft_options options = options_of(&setting);
    unsigned workers = setting.workers;
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (int round = 0; round < 20; round++) {
        CHECK_EQ(weft_await(go_into(runtime, meet_those_of_others, &workers)), 0);
    }
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

/* ---- more than a worker's own queue holds ---------------------------------------------------- */

enum { CROWD = 2 * WF_RING_CAPACITY + 40 };

struct pace {
    int64_t turn_ns;
    uint32_t turns;
};

struct walker {
    int64_t turn_ns;
    const wf_atomic_u32 *is_over;
    wf_atomic_u32 turns;
};

static intptr_t walk(void *arg)
{
    struct walker *walker = arg;
    while (wf_load_acquire(walker->is_over) == 0) { /* from raise_by_one */
        raise_by_one(&walker->turns);
        const int64_t end_ns = wf_clock_now() + walker->turn_ns;
        while (wf_clock_now() < end_ns) {
        }
        (void)weft_yield();
    }
    return 0;
}

/* When the first has had so many turns, all have had some. */
static intptr_t walk_in_a_crowd(void *arg)
{
    static struct walker walkers[CROWD];
    static weft_task *tasks[CROWD];
    wf_atomic_u32 is_over = {0};
    uint32_t most = 0;
    uint32_t least = UINT32_MAX;
    const struct pace *pace = arg;
    for (unsigned i = 0; i < CROWD; i++) {
        walkers[i] = (struct walker){.turn_ns = pace->turn_ns, .is_over = &is_over};
        tasks[i] = go(walk, &walkers[i]);
    }
    while (most < pace->turns) {
        (void)weft_yield();
        for (unsigned i = 0; i < CROWD; i++) {
            const uint32_t turns = wf_load_acquire(&walkers[i].turns);
            most = turns > most ? turns : most;
        }
    }
    for (unsigned i = 0; i < CROWD; i++) {
        const uint32_t turns = wf_load_acquire(&walkers[i].turns);
        least = turns < least ? turns : least;
    }
    raise_by_one(&is_over);
    CHECK_EQ(weft_await_all(tasks, CROWD, NULL), 0);
    CHECK(least >= (HAS_ORDER ? pace->turns / 4 : 1));
    return 0;
}

static intptr_t walk_at_one_pace(void *arg)
{
    struct pace pace = {1000, 20};
    (void)arg;
    return walk_in_a_crowd(&pace);
}

/* The ring overflows all the time: what goes to the global queue keeps its place there. */
static void a_crowd_takes_turns(void)
{
    run_under(ON_ONE_WORKER, walk_at_one_pace);
}

/* How long a turn is decides how many lie between two looks at the global queue; of very short ones
 * some have many before others have any. */
static void a_crowd_takes_turns_of_any_length(void)
{
    static struct pace paces[] = {{0, 80}, {5000, 40}, {20000, 20}};
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    const weft_options options = options_of(&setting);
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (size_t i = 0; i < sizeof(paces) / sizeof(paces[0]); i++) {
        CHECK_EQ(weft_await(go_into(runtime, walk_in_a_crowd, &paces[i])), 0);
    }
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

/* ---- tasks of a kind of their own ------------------------------------------------------------ */

struct special {
    bool is_pinned;
    int64_t turn_ns;
    wf_atomic_u32 *is_over;
};

static intptr_t keep_yielding(void *arg)
{
    const struct special *special = arg;
    if (special->is_pinned) {
        CHECK_EQ(weft_pin(1), 0);
    }
    while (wf_load_acquire(special->is_over) == 0) { /* from raise_by_one */
        const int64_t end_ns = wf_clock_now() + special->turn_ns;
        while (wf_clock_now() < end_ns) {
        }
        (void)weft_yield();
    }
    return special->is_pinned ? weft_pin(0) : 0;
}

static intptr_t end_it(void *arg)
{
    raise_by_one(arg);
    return 0;
}

/* Those that may run on one worker only, and those that go first, leave turns to the others: what
 * comes from outside, and what is there. */
static void special_tasks_leave_turns_to_others(void)
{
    static const int64_t turn_ns[] = {0, 100000, 600000, 2000000};
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    const weft_options options = options_of(&setting);
    const weft_task_options high = {.size = sizeof(high), .priority = WEFT_PRIORITY_HIGH};
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (size_t i = 0; i < 2 * sizeof(turn_ns) / sizeof(turn_ns[0]); i++) {
        wf_atomic_u32 is_over = {0};
        struct special specials[] = {{true, turn_ns[i / 2], &is_over},
                                     {false, turn_ns[i / 2], &is_over}};
        weft_task *tasks[2];
        weft_task *guest;
        CHECK_EQ(weft_runtime_spawn(runtime, &tasks[0], keep_yielding, &specials[0], NULL), 0);
        CHECK_EQ(weft_runtime_spawn(runtime, &tasks[1], keep_yielding, &specials[1],
                                    i % 2 == 0 ? &high : NULL),
                 0);
        CHECK_EQ(weft_runtime_spawn(runtime, &guest, end_it, &is_over, NULL), 0);
        CHECK_EQ(weft_await(guest), 0);
        CHECK_EQ(weft_await(tasks[0]), 0);
        CHECK_EQ(weft_await(tasks[1]), 0);
    }
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_fan_out_from_a_task_reaches_all_workers),
    TAP_TEST(long_tasks_from_outside_occupy_all_workers),
    TAP_TEST(the_newest_task_of_a_busy_worker_is_run_by_others),
    TAP_TEST(what_is_woken_beside_a_busy_worker_is_run_by_others),
    TAP_TEST(a_task_that_yields_starves_neither_queue),
    TAP_TEST(a_task_that_computes_starves_neither_queue),
    TAP_TEST(busy_local_queues_do_not_starve_the_global_one),
    TAP_TEST(long_turns_do_not_starve_the_local_queue),
    TAP_TEST(no_task_that_yields_is_lost),
    TAP_TEST(a_chain_of_the_newest_does_not_starve_the_old),
    TAP_TEST(no_priority_starves_another),
    TAP_TEST(short_tasks_of_others_keep_nothing_waiting),
    TAP_TEST(who_falls_asleep_beside_work_watches_it),
    TAP_TEST(a_crowd_takes_turns),
    TAP_TEST(a_crowd_takes_turns_of_any_length),
    TAP_TEST(special_tasks_leave_turns_to_others),
};
TAP_MAIN(tests)
