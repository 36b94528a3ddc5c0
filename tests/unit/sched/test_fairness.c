/* SPDX-License-Identifier: MIT */
/*
 * Goal:   every runnable task runs. No task starves another, no worker sleeps while work is queued,
 *         and no private part of a run queue hides a task.
 * Method: tasks that hog a worker, a queue or a priority until another task has run; tasks that
 *         need all workers at once. If a requirement is violated, the test hangs.
 */
#include "sched_helpers.h"

/* ---- all workers run ------------------------------------------------------------------------- */

struct barrier {
    wf_atomic_u32 arrived;
    uint32_t expected;
};

/* Keeps its worker until all tasks have started. */
static intptr_t wait_for_others(void *arg)
{
    struct barrier *barrier = arg;
    raise_by_one(&barrier->arrived);
    hold_for(&barrier->arrived, barrier->expected);
    return 0;
}

enum { WORKERS_MAX = 8 };

static intptr_t fan_out(void *arg)
{
    const struct setting *setting = arg;
    weft_task *tasks[WORKERS_MAX];
    for (int round = 0; round < 20; round++) {
        struct barrier barrier = {.expected = setting->workers};
        for (unsigned i = 1; i < setting->workers; i++) {
            tasks[i] = go(wait_for_others, &barrier);
        }
        CHECK_EQ(wait_for_others(&barrier), 0); /* this task keeps the last worker */
        CHECK_EQ(weft_await_all(tasks + 1, setting->workers - 1, NULL), 0);
    }
    return 0;
}

/* behaviour 16, X7: the spawner keeps its worker, so other workers must steal. */
static void spawn_fan_out_reaches_all_workers(void)
{
    run_under(ON_SEVERAL, fan_out);
}

static void occupy(weft_runtime *runtime, const struct setting *setting)
{
    weft_task *tasks[WORKERS_MAX];
    for (int round = 0; round < 20; round++) {
        struct barrier barrier = {.expected = setting->workers};
        for (unsigned i = 0; i < setting->workers; i++) {
            tasks[i] = go_into(runtime, wait_for_others, &barrier);
        }
        CHECK_EQ(weft_await_all(tasks, setting->workers, NULL), 0);
    }
}

/* behaviour 17 */
static void external_submission_of_long_tasks_occupies_all_workers(void)
{
    open_under(EVERYWHERE, occupy);
}

static intptr_t keep_task_in_lifo_slot(void *arg)
{
    (void)arg;
    for (int round = 0; round < 20; round++) {
        wf_atomic_u32 ran = {0};
        weft_task *task = go(count_up, &ran);
        hold_for(&ran, 1); /* the task is in the LIFO slot, and this task keeps the worker */
        CHECK_EQ(weft_await(task), 0);
    }
    return 0;
}

/* behaviour 23 */
static void lifo_slot_of_a_busy_worker_is_stolen(void)
{
    run_under(ON_SEVERAL, keep_task_in_lifo_slot);
}

static intptr_t count_after_join(void *arg)
{
    void **pair = arg;
    CHECK_EQ(weft_join(pair[0], NULL), 0);
    raise_by_one(pair[1]);
    return 0;
}

/* A task that is woken by the end of another one is in the LIFO slot, too. */
static intptr_t keep_woken_task_in_lifo_slot(void *arg)
{
    (void)arg;
    for (int round = 0; round < 20; round++) {
        wf_atomic_u32 open = {0};
        wf_atomic_u32 ran = {0};
        weft_task *awaited = go(stand_by, &open);
        void *pair[2] = {awaited, &ran};
        weft_task *task = go(count_after_join, (void *)pair);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        raise_by_one(&open);
        hold_for(&ran, 1);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(weft_await(awaited), 0);
    }
    return 0;
}

static void lifo_slot_with_a_woken_task_is_stolen_from_a_busy_worker(void)
{
    run_under(ON_SEVERAL, keep_woken_task_in_lifo_slot);
}

/* ---- one worker ------------------------------------------------------------------------------ */

struct hog {
    weft_runtime *runtime;
    wf_atomic_u32 local;
    wf_atomic_u32 global;
    wf_atomic_u32 is_over;
    int (*relax)(void);
};

static void *spawn_from_thread(void *arg)
{
    struct hog *hog = arg;
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_runtime_spawn(hog->runtime, NULL, count_up, &hog->global, NULL), 0);
    }
    return NULL;
}

static intptr_t hog_with(int (*relax)(void))
{
    struct hog hog = {.runtime = weft_runtime_self(), .relax = relax};
    pthread_t thread;
    for (int i = 0; i < 5; i++) {
        weft_task_unref(go(count_up, &hog.local));
    }
    CHECK_EQ(wf_thread_start(&thread, spawn_from_thread, &hog, NULL), 0);
    while (wf_load_acquire(&hog.local) < 5 || wf_load_acquire(&hog.global) < 5) {
        CHECK_EQ(relax(), 0);
    }
    CHECK_EQ(wf_thread_join(thread), 0);
    return 0;
}

static intptr_t hog_with_yield(void *arg)
{
    (void)arg;
    return hog_with(weft_yield);
}

/* part of behaviour 21, X6 */
static void yield_starves_neither_local_nor_global_queue(void)
{
    run_under(EVERYWHERE, hog_with_yield);
}

static intptr_t hog_with_check(void *arg)
{
    (void)arg;
    return hog_with(weft_check);
}

/* part of behaviour 21, S2.6: a loop that computes and calls weft_check; for loops without a call
 * see hog_loops_do_not_stop_other_tasks in test_hogs.c. */
static void preempt_check_starves_neither_local_nor_global_queue(void)
{
    run_under(EVERYWHERE, hog_with_check);
}

static intptr_t yield_until_over(void *arg)
{
    struct hog *hog = arg;
    while (wf_load_acquire(&hog->is_over) == 0) {
        (void)hog->relax();
    }
    return 0;
}

/* The local queue is never empty: the worker must still serve the global queue. */
static void keep_local_queue_full(weft_runtime *runtime, const struct setting *setting)
{
    int (*const ways[])(void) = {weft_yield, weft_check};
    for (int i = 0; i < 2; i++) {
        struct hog hog = {.runtime = runtime, .relax = ways[i]};
        weft_task *tasks[3 * WORKERS_MAX];
        const unsigned count = 3 * setting->workers;
        for (unsigned j = 0; j < count; j++) {
            tasks[j] = go_into(runtime, yield_until_over, &hog);
        }
        for (unsigned j = 0; j < count; j++) {
            while (info_of(tasks[j]).runs < 2) {
                (void)sched_yield();
            }
        }
        (void)spawn_from_thread(&hog);
        wait_for(&hog.global, 5);
        raise_by_one(&hog.is_over);
        CHECK_EQ(weft_await_all(tasks, count, NULL), 0);
    }
}

/* part of behaviour 21, part of S4.20 */
static void global_queue_is_not_starved_by_busy_local_queues(void)
{
    open_under(EVERYWHERE, keep_local_queue_full);
}

static void spin_long(void)
{
    const int64_t end = wf_clock_now() + 2000000; /* longer than the global queue is made to wait */
    while (wf_clock_now() < end) {
    }
}

enum { LONG_TASKS = 4 };

struct slices {
    int *counts;
    int own;
};

/* Counts in plain memory: there is one worker. */
static intptr_t run_long_slices(void *arg)
{
    const struct slices *slices = arg;
    for (int sum = 0; sum < 120;) {
        slices->counts[slices->own]++;
        spin_long();
        (void)weft_yield();
        sum = 0;
        for (int i = 0; i < LONG_TASKS; i++) {
            sum += slices->counts[i];
        }
    }
    return 0;
}

static intptr_t share_long_slices(void *arg)
{
    (void)arg;
    int counts[LONG_TASKS] = {0};
    struct slices slices[LONG_TASKS];
    weft_task *tasks[LONG_TASKS];
    for (int i = 0; i < LONG_TASKS; i++) {
        slices[i] = (struct slices){counts, i};
        tasks[i] = go(run_long_slices, &slices[i]);
    }
    CHECK_EQ(weft_await_all(tasks, LONG_TASKS, NULL), 0);
    for (int i = 0; i < LONG_TASKS; i++) {
        CHECK(counts[i] >= 120 / LONG_TASKS / 3); /* at least a third of its share */
    }
    return 0;
}

/* part of behaviour 21: a worker does not always take the queue to which a yielding task goes. */
static void local_queue_is_not_starved_by_long_slices(void)
{
    run_under(ON_ONE_WORKER, share_long_slices);
}

enum { YIELDERS = 40, STEPS = 200 };

static intptr_t step_and_yield(void *arg)
{
    int *steps = arg; /* plain: moves with its task from worker to worker */
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

/* Through rings, deques and the global queue, while thieves take from them. */
static void yield_of_many_tasks_loses_none(void)
{
    run_under(EVERYWHERE, let_many_yield);
}

struct chain {
    wf_atomic_u32 old_ran;
    wf_atomic_u32 links;
    wf_atomic_u32 is_over;
};

/* Each link is in the LIFO slot when it is spawned. */
static intptr_t spawn_next_link(void *arg)
{
    struct chain *chain = arg;
    if (wf_load_acquire(&chain->old_ran) == 0) {
        (void)wf_fetch_add_relaxed(&chain->links, 1);
        weft_task_unref(go(spawn_next_link, chain));
    } else {
        raise_by_one(&chain->is_over);
    }
    return 0;
}

static uint32_t run_chain_beside_old_task(void)
{
    struct chain chain = {.links = {0}};
    weft_task *old = go(count_up, &chain.old_ran);
    weft_task_unref(go(spawn_next_link, &chain));
    CHECK_EQ(weft_await(old), 0);
    wait_for(&chain.is_over, 1);
    return wf_load_acquire(&chain.links);
}

static intptr_t count_links_before_old_task(void *arg)
{
    (void)arg;
    /* The old task is in the ring: it is next after the slot had its runs in a row. */
    CHECK(run_chain_beside_old_task() <= WF_LIFO_RUNS_MAX);
    return 0;
}

/* A single worker and no spare, so that only the worker's own order counts: a thief may have the
 * old task in its hands while the system gives its thread no CPU, and then any number of links
 * runs. */
static void lifo_slot_chain_runs_at_most_three_links_before_an_older_task(void)
{
#ifdef WF_HOSTILE
    tap_skip("this build moves ready tasks to other queues at random");
#endif
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        if (tour.setting->order == WEFT_ORDER_FAIR && tour.setting->policy == WEFT_POLICY_STEAL) {
            tour.options.no_monitor = true;
            CHECK_EQ(weft_run(count_links_before_old_task, NULL, &tour.options), 0);
        }
    }
}

static intptr_t end_chain_beside_old_task(void *arg)
{
    (void)arg;
    (void)run_chain_beside_old_task();
    return 0;
}

/* The chain ends only after the old task has run.  Fair order only: in depth-first order the newest
 * task runs first by design, and an old task waits for its worker. */
static void lifo_slot_chain_does_not_starve_older_tasks(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        if (tour.setting->order == WEFT_ORDER_FAIR) {
            CHECK_EQ(weft_run(end_chain_beside_old_task, NULL, &tour.options), 0);
        }
    }
}

/* ---- priorities ------------------------------------------------------------------------------ */

struct level {
    wf_atomic_u32 ran;
    wf_atomic_u32 is_over;
};

static intptr_t occupy_level(void *arg)
{
    struct level *level = arg;
    while (wf_load_acquire(&level->is_over) == 0) {
        (void)weft_yield();
    }
    return 0;
}

/* Tasks of one priority keep its queue non-empty until a task of another priority has run. */
static void check_priority_pair(const struct setting *setting, enum weft_priority busy,
                                enum weft_priority waiting)
{
    enum { COUNT = 3 * WORKERS_MAX };
    struct level level = {.ran = {0}};
    weft_task *tasks[COUNT + 1];
    const size_t count = 3 * setting->workers;
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(
            weft_spawn(&tasks[i], occupy_level, &level, &(weft_task_options){.priority = busy}), 0);
    }
    for (size_t i = 0; i < count; i++) {
        while (info_of(tasks[i]).runs < 2) {
            (void)weft_yield();
        }
    }
    CHECK_EQ(
        weft_spawn(&tasks[count], count_up, &level.ran, &(weft_task_options){.priority = waiting}),
        0);
    wait_for(&level.ran, 1);
    raise_by_one(&level.is_over);
    CHECK_EQ(weft_await_all(tasks, count + 1, NULL), 0);
}

static intptr_t check_all_priority_pairs(void *arg)
{
    const enum weft_priority all[] = {WEFT_PRIORITY_NORMAL, WEFT_PRIORITY_HIGH, WEFT_PRIORITY_LOW};
    for (int busy = 0; busy < 3; busy++) {
        for (int waiting = 0; waiting < 3; waiting++) {
            check_priority_pair(arg, all[busy], all[waiting]);
        }
    }
    return 0;
}

/* part of S2.9: priorities are an order, and no priority excludes another. */
static void priority_starves_no_other_priority(void)
{
    run_under(EVERYWHERE, check_all_priority_pairs);
}

/* Batches of tasks that are too short to be worth stealing, until the test sets `is_over`. */
static intptr_t run_short_tasks(void *arg)
{
    enum { TASKS = 300 };
    weft_task *tasks[TASKS];
    wf_atomic_u32 *is_over = arg;
    while (wf_load_acquire(is_over) == 0) { /* pairs with raise_by_one */
        for (intptr_t i = 0; i < TASKS; i++) {
            tasks[i] = go(echo, (void *)i);
        }
        for (intptr_t i = 0; i < TASKS; i++) {
            CHECK_EQ(weft_await(tasks[i]), i);
        }
    }
    return 0;
}

/* A thief in steal backoff still takes external submissions at once, and steals tasks that are
 * worth it later. */
static void steal_backoff_does_not_delay_external_submissions(void)
{
    for (unsigned workers = 2; workers <= 4; workers++) {
        const weft_runtime_options options = {.workers = workers};
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        wf_atomic_u32 is_over = {0};
        weft_task *producer = go_into(runtime, run_short_tasks, &is_over);
        for (intptr_t i = 0; i < 200; i++) {
            CHECK_EQ(weft_await(go_into(runtime, echo, (void *)i)), i);
        }
        struct barrier barrier = {.expected = workers - 1}; /* each task needs a worker */
        weft_task *tasks[WORKERS_MAX];
        for (unsigned i = 0; i < barrier.expected; i++) {
            tasks[i] = go_into(runtime, wait_for_others, &barrier);
        }
        for (unsigned i = 0; i < barrier.expected; i++) {
            CHECK_EQ(weft_await(tasks[i]), 0);
        }
        raise_by_one(&is_over);
        CHECK_EQ(weft_await(producer), 0);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

static intptr_t spawn_barrier_tasks(void *arg)
{
    struct barrier barrier = {.expected = *(const unsigned *)arg};
    weft_task *tasks[WORKERS_MAX];
    for (unsigned i = 1; i < barrier.expected; i++) {
        tasks[i] = go(wait_for_others, &barrier);
    }
    CHECK_EQ(wait_for_others(&barrier), 0);
    return weft_await_all(tasks + 1, barrier.expected - 1, NULL);
}

/* The last task is in the LIFO slot of a worker that keeps running: only the leader finds it, even
 * if the leader was about to park when the work began. */
static void leader_finds_the_lifo_slot_of_a_busy_worker(void)
{
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 4};
    const weft_runtime_options options = options_of(&setting);
    unsigned workers = setting.workers;
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (int round = 0; round < 20; round++) {
        CHECK_EQ(weft_await(go_into(runtime, spawn_barrier_tasks, &workers)), 0);
    }
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

/* ---- more tasks than a ring holds ------------------------------------------------------------ */

enum { OVERFLOWING = 2 * WF_RING_CAPACITY + 40 };

struct load {
    int64_t slice_ns;
    uint32_t slices;
};

struct yielder {
    int64_t slice_ns;
    const wf_atomic_u32 *is_over;
    wf_atomic_u32 slices;
};

static intptr_t run_yielder(void *arg)
{
    struct yielder *yielder = arg;
    while (wf_load_acquire(yielder->is_over) == 0) { /* pairs with raise_by_one */
        raise_by_one(&yielder->slices);
        const int64_t end_ns = wf_clock_now() + yielder->slice_ns;
        while (wf_clock_now() < end_ns) {
        }
        (void)weft_yield();
    }
    return 0;
}

/* When the first task has run `load->slices` slices, every task has run some. */
static intptr_t compare_slices(void *arg)
{
    static struct yielder yielders[OVERFLOWING];
    static weft_task *tasks[OVERFLOWING];
    wf_atomic_u32 is_over = {0};
    uint32_t slices_max = 0;
    uint32_t slices_min = UINT32_MAX;
    const struct load *load = arg;
    for (unsigned i = 0; i < OVERFLOWING; i++) {
        yielders[i] = (struct yielder){.slice_ns = load->slice_ns, .is_over = &is_over};
        tasks[i] = go(run_yielder, &yielders[i]);
    }
    while (slices_max < load->slices) {
        (void)weft_yield();
        for (unsigned i = 0; i < OVERFLOWING; i++) {
            const uint32_t slices = wf_load_acquire(&yielders[i].slices);
            slices_max = slices > slices_max ? slices : slices_max;
        }
    }
    for (unsigned i = 0; i < OVERFLOWING; i++) {
        const uint32_t slices = wf_load_acquire(&yielders[i].slices);
        slices_min = slices < slices_min ? slices : slices_min;
    }
    raise_by_one(&is_over);
    CHECK_EQ(weft_await_all(tasks, OVERFLOWING, NULL), 0);
    CHECK(slices_min >= (HAS_ORDER ? load->slices / 4 : 1));
    return 0;
}

static intptr_t compare_short_slices(void *arg)
{
    struct load load = {1000, 20};
    (void)arg;
    return compare_slices(&load);
}

/* The ring overflows all the time: tasks keep their order in the global queue. */
static void rotation_gives_every_task_of_a_full_ring_its_slice(void)
{
    run_under(ON_ONE_WORKER, compare_short_slices);
}

/* The slice length decides how many slices lie between two checks of the global queue. With very
 * short slices some tasks run often before other tasks run once. */
static void rotation_is_fair_for_slices_of_any_length(void)
{
    static struct load loads[] = {{0, 80}, {5000, 40}, {20000, 20}};
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    const weft_runtime_options options = options_of(&setting);
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
        CHECK_EQ(weft_await(go_into(runtime, compare_slices, &loads[i])), 0);
    }
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

/* ---- pinned tasks and priorities ------------------------------------------------------------- */

struct slow_queue_task {
    bool is_pinned;
    int64_t slice_ns;
    wf_atomic_u32 *is_over;
};

static intptr_t keep_yielding(void *arg)
{
    const struct slow_queue_task *slow_queue_task = arg;
    if (slow_queue_task->is_pinned) {
        CHECK_EQ(weft_pin_begin(), 0);
    }
    while (wf_load_acquire(slow_queue_task->is_over) == 0) { /* pairs with raise_by_one */
        const int64_t end_ns = wf_clock_now() + slow_queue_task->slice_ns;
        while (wf_clock_now() < end_ns) {
        }
        (void)weft_yield();
    }
    return slow_queue_task->is_pinned ? weft_pin_end() : 0;
}

static intptr_t set_over(void *arg)
{
    raise_by_one(arg);
    return 0;
}

/* Pinned tasks and tasks of high priority leave slices to normal tasks, both external and local. */
static void slow_queue_tasks_do_not_starve_normal_tasks(void)
{
    static const int64_t slice_ns[] = {0, 100000, 600000, 2000000};
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    const weft_runtime_options options = options_of(&setting);
    const weft_task_options high = {.size = sizeof(high), .priority = WEFT_PRIORITY_HIGH};
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (size_t i = 0; i < 2 * sizeof(slice_ns) / sizeof(slice_ns[0]); i++) {
        wf_atomic_u32 is_over = {0};
        struct slow_queue_task slow_queue_tasks[] = {{true, slice_ns[i / 2], &is_over},
                                                     {false, slice_ns[i / 2], &is_over}};
        weft_task *tasks[2];
        weft_task *normal;
        CHECK_EQ(weft_runtime_spawn(runtime, &tasks[0], keep_yielding, &slow_queue_tasks[0], NULL),
                 0);
        CHECK_EQ(weft_runtime_spawn(runtime, &tasks[1], keep_yielding, &slow_queue_tasks[1],
                                    i % 2 == 0 ? &high : NULL),
                 0);
        CHECK_EQ(weft_runtime_spawn(runtime, &normal, set_over, &is_over, NULL), 0);
        CHECK_EQ(weft_await(normal), 0);
        CHECK_EQ(weft_await(tasks[0]), 0);
        CHECK_EQ(weft_await(tasks[1]), 0);
    }
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(spawn_fan_out_reaches_all_workers),
    TAP_TEST(external_submission_of_long_tasks_occupies_all_workers),
    TAP_TEST(lifo_slot_of_a_busy_worker_is_stolen),
    TAP_TEST(lifo_slot_with_a_woken_task_is_stolen_from_a_busy_worker),
    TAP_TEST(yield_starves_neither_local_nor_global_queue),
    TAP_TEST(preempt_check_starves_neither_local_nor_global_queue),
    TAP_TEST(global_queue_is_not_starved_by_busy_local_queues),
    TAP_TEST(local_queue_is_not_starved_by_long_slices),
    TAP_TEST(yield_of_many_tasks_loses_none),
    TAP_TEST(lifo_slot_chain_runs_at_most_three_links_before_an_older_task),
    TAP_TEST(lifo_slot_chain_does_not_starve_older_tasks),
    TAP_TEST(priority_starves_no_other_priority),
    TAP_TEST(steal_backoff_does_not_delay_external_submissions),
    TAP_TEST(leader_finds_the_lifo_slot_of_a_busy_worker),
    TAP_TEST(rotation_gives_every_task_of_a_full_ring_its_slice),
    TAP_TEST(rotation_is_fair_for_slices_of_any_length),
    TAP_TEST(slow_queue_tasks_do_not_starve_normal_tasks),
};
TAP_MAIN(tests)
