/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the basic operations of tasks, workers and the scheduler work.
 * Method: one test for each item of the requirement that is named at the test. tests/unit/queue
 *         tests the queues, test_programs.c the fifteen programs.
 */
#include "proc_helpers.h"
#include "sched_helpers.h"

/* ---- S2.39: tasks ---------------------------------------------------------------------------- */

static intptr_t check_created(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *task = go(stand_by, &open);
    const weft_task_info info = info_of(task);
    CHECK(info.id > 0);
    CHECK(info.fn == stand_by);
    CHECK(info.state != WEFT_TASK_COMPLETED);
    CHECK_EQ(info.result, 0);
    raise_by_one(&open);
    return weft_await(task);
}

/* S2.39, 1 */
static void spawn_creates_a_task_with_id_and_function(void)
{
    run_under(EVERYWHERE, check_created);
}

/* Properties that a task records of itself before it waits; plain. */
struct own_record {
    uintptr_t frame;
    uint64_t parent_id;
    weft_task *gate;
};

static intptr_t record_own_stack(void *arg)
{
    struct own_record *own_record = arg;
    volatile uint64_t words[8];
    for (uint64_t i = 0; i < 8; i++) {
        words[i] = weft_task_id(weft_self()) * 8 + i;
    }
    own_record->frame = (uintptr_t)words;
    own_record->parent_id = info_of(weft_self()).parent_id;
    CHECK_EQ(weft_join(own_record->gate, NULL), 0); /* continues with the same frame */
    for (uint64_t i = 0; i < 8; i++) {
        CHECK_EQ(words[i], weft_task_id(weft_self()) * 8 + i);
    }
    return (intptr_t)(words[7] / 8);
}

static intptr_t check_two_tasks(void *arg)
{
    (void)arg;
    enum { STACK = 16384 };
    wf_atomic_u32 open = {0};
    weft_task *gate = go(stand_by, &open);
    struct own_record own_records[2] = {{.gate = gate}, {.gate = gate}};
    weft_task *tasks[2];
    for (int i = 0; i < 2; i++) {
        tasks[i] = go(record_own_stack, &own_records[i]);
        wait_for_state(tasks[i], WEFT_TASK_BLOCKED);
        const weft_task_info info = info_of(tasks[i]);
        CHECK_EQ(info.id, weft_task_id(tasks[i]));
        CHECK(info.fn == record_own_stack);
        CHECK(info.stack_size >= STACK);
        CHECK_EQ(info.wait, WEFT_WAIT_TASK);
        CHECK(info.wait_object == gate);
        CHECK_EQ(info.wait_task_id, weft_task_id(gate));
        CHECK_EQ(own_records[i].parent_id, weft_task_id(weft_self()));
    }
    const uintptr_t low =
        own_records[0].frame < own_records[1].frame ? own_records[0].frame : own_records[1].frame;
    CHECK(own_records[0].frame + own_records[1].frame - 2 * low >= STACK); /* two stacks */
    raise_by_one(&open);
    for (int i = 0; i < 2; i++) {
        intptr_t result = 0;
        const uint64_t id = weft_task_id(tasks[i]);
        CHECK_EQ(weft_join(tasks[i], &result), 0);
        CHECK_EQ(result, id);
        CHECK_EQ(info_of(tasks[i]).result, id);
        CHECK_EQ(state_of(tasks[i]), WEFT_TASK_COMPLETED);
        weft_task_unref(tasks[i]);
    }
    return weft_await(gate);
}

/* S0.7, S2.19: id, state, function, stack and frame, result, wait, parent; for its waiters see
 * join_resumes_all_waiters_of_a_task. */
static void task_info_reports_stack_parent_wait_and_result(void)
{
    run_under(EVERYWHERE, check_two_tasks);
}

enum { MANY = 500 };

static uint64_t ids[MANY];

static intptr_t note_id(void *arg)
{
    *(uint64_t *)arg = weft_task_id(weft_self());
    return 0;
}

static intptr_t compare_ids(void *arg)
{
    (void)arg;
    static weft_task *tasks[MANY];
    for (int i = 0; i < MANY; i++) {
        tasks[i] = go(note_id, &ids[i]);
    }
    CHECK_EQ(weft_await_all(tasks, MANY, NULL), 0);
    for (int i = 0; i < MANY; i++) {
        CHECK(ids[i] > 0);
        for (int j = 0; j < i; j++) {
            CHECK(ids[i] != ids[j]);
        }
    }
    return 0;
}

/* S2.39, 2; S2.18 */
static void task_id_is_unique(void)
{
    run_under(EVERYWHERE, compare_ids);
}

static intptr_t pass_through_states(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *task = go(stand_by, &open);
    CHECK_EQ(state_of(task), WEFT_TASK_CREATED);
    CHECK_EQ(state_of(weft_self()), WEFT_TASK_RUNNING);
    while (info_of(task).runs == 0) {
        (void)weft_yield();
    }
    CHECK_EQ(state_of(task), WEFT_TASK_READY); /* one worker: this task runs */
    raise_by_one(&open);
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK_EQ(state_of(task), WEFT_TASK_COMPLETED);
    weft_task_unref(task);
    return 0;
}

/* S2.39, 3: for all states see test_task.c */
static void task_state_goes_from_created_to_completed(void)
{
    run_under(ON_ONE_WORKER, pass_through_states);
}

static intptr_t compare_results(void *arg)
{
    (void)arg;
    weft_task *task = go(echo, (void *)31);
    intptr_t result = 0;
    CHECK_EQ(weft_join(task, &result), 0);
    CHECK_EQ(result, 31);
    CHECK_EQ(info_of(task).result, 31);
    return weft_await(task) == 31 ? 0 : -EIO;
}

/* S2.39, 4; S2.21 */
static void join_returns_the_result(void)
{
    run_under(EVERYWHERE, compare_results);
}

static intptr_t join_and_add_one(void *arg)
{
    intptr_t result = 0;
    CHECK_EQ(weft_join(arg, &result), 0);
    return result + 1;
}

static intptr_t check_waiters(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *awaited = go(stand_by, &open);
    weft_task *waiters[5];
    for (int i = 0; i < 5; i++) {
        waiters[i] = go(join_and_add_one, awaited);
        wait_for_state(waiters[i], WEFT_TASK_BLOCKED);
        CHECK_EQ(info_of(waiters[i]).wait_task_id, weft_task_id(awaited));
    }
    raise_by_one(&open);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_await(waiters[i]), 1);
    }
    return weft_await(awaited);
}

/* S2.39, 5 */
static void join_resumes_all_waiters_of_a_task(void)
{
    run_under(EVERYWHERE, check_waiters);
}

static intptr_t return_parent(void *arg)
{
    (void)arg;
    return (intptr_t)info_of(weft_self()).parent_id;
}

static intptr_t compare_parents(void *arg)
{
    const uint64_t own_id = weft_task_id(weft_self());
    CHECK_EQ(weft_await(go(return_parent, NULL)), own_id);
    if (arg != NULL) {
        return weft_await(go(compare_parents, NULL)); /* and that of its children */
    }
    return 0;
}

/* S2.39, 6 */
static void task_info_names_the_parent(void)
{
    run_under(EVERYWHERE, compare_parents);
}

/* ---- S2.41: workers -------------------------------------------------------------------------- */

static intptr_t return_thread(void *arg)
{
    (void)arg;
    return wf_thread_id();
}

static void start_workers(weft_runtime *runtime, const struct setting *setting)
{
    CHECK_EQ(weft_runtime_workers(runtime), setting->workers);
    const intptr_t thread = weft_await(go_into(runtime, return_thread, NULL));
    CHECK(thread > 0);
    CHECK(thread != wf_thread_id());
    for (unsigned i = 0; i < setting->workers; i++) {
        weft_worker_stats counters;
        CHECK_EQ(weft_runtime_get_worker_stats(runtime, &counters, i), 0);
    }
}

/* S2.41, 13; S2.26: with worker_executes_spawned_tasks */
static void runtime_open_starts_workers_monitor_and_control_thread(void)
{
    open_under(EVERYWHERE, start_workers);
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        const bool has_control = tour.setting->policy == WEFT_POLICY_REACTOR;
        weft_runtime *runtime = NULL;
        expect_threads(0);
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        expect_threads(tour.setting->workers + 1 + (has_control ? 1 : 0)); /* and the monitor */
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        expect_threads(0);
    }
}

static void execute(weft_runtime *runtime, const struct setting *setting)
{
    enum { COUNT = 50 };
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go_into(runtime, echo, NULL);
    }
    CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
    uint64_t polled = 0;
    for (unsigned i = 0; i < setting->workers; i++) {
        weft_worker_stats counters;
        CHECK_EQ(weft_runtime_get_worker_stats(runtime, &counters, i), 0);
        polled += counters.polled;
    }
    CHECK(polled >= COUNT);
}

/* S2.41, 14 */
static void worker_executes_spawned_tasks(void)
{
    open_under(EVERYWHERE, execute);
}

enum { STOLEN = 20 };

static intptr_t keep_worker_for_thieves(void *arg)
{
    (void)arg;
    wf_atomic_u32 ran = {0};
    weft_task *tasks[STOLEN];
    for (int i = 0; i < STOLEN; i++) {
        tasks[i] = go(count_up, &ran);
    }
    hold_for(&ran, STOLEN); /* this task keeps its worker: thieves took all tasks */
    CHECK_EQ(weft_await_all(tasks, STOLEN, NULL), 0);
    CHECK(!HAS_ORDER || stats_of(weft_runtime_self()).total.stolen >= STOLEN);
    return 0;
}

/* S2.41, 15; S2.22: workers with empty queues steal. */
static void worker_steals_from_a_busy_worker(void)
{
    run_under(ON_SEVERAL_THAT_STEAL, keep_worker_for_thieves);
}

static void idle(weft_runtime *runtime, const struct setting *setting)
{
    /* A worker that is about to sleep may find the task before it is woken: repeat. */
    for (int i = 0; i < 5 || stats_of(runtime).total.woken == 0; i++) {
        while (stats_of(runtime).parked < setting->workers) { /* all workers park */
            (void)sched_yield();
        }
        CHECK_EQ(weft_await(go_into(runtime, echo, (void *)8)), 8); /* and one wakes */
    }
    CHECK(stats_of(runtime).total.parked >= setting->workers);
}

/* S2.41, 16: idle workers park until they are woken; they do not poll every 100 us. */
static void worker_parks_and_wakes(void)
{
    open_under(EVERYWHERE, idle);
}

static intptr_t compute_until(void *arg)
{
    wf_atomic_u32 *is_over = arg;
    while (wf_load_acquire(is_over) == 0) {
        (void)weft_check();
    }
    return 0;
}

static void reach_safepoints(weft_runtime *runtime, const struct setting *setting)
{
    wf_atomic_u32 is_over = {0};
    weft_task *tasks[16];
    const unsigned count = 2 * setting->workers;
    for (unsigned i = 0; i < count; i++) {
        tasks[i] = go_into(runtime, compute_until, &is_over);
    }
    CHECK_EQ(weft_world_stop(runtime), 0); /* every worker reached a safepoint */
    CHECK_EQ(weft_world_start(runtime), 0);
    raise_by_one(&is_over);
    CHECK_EQ(weft_await_all(tasks, count, NULL), 0);
}

/* S2.41, 17 */
static void worker_reaches_a_safepoint_in_weft_check(void)
{
    open_under(EVERYWHERE, reach_safepoints);
}

/* ---- S2.42: the scheduler -------------------------------------------------------------------- */

static void check_empty(weft_runtime *runtime, const struct setting *setting)
{
    CHECK_EQ(stats_of(runtime).live, 0);
    CHECK_EQ(stats_of(runtime).workers, setting->workers);
}

/* S2.42, 18 and 19: a scheduler, its worker pool, and their end */
static void runtime_open_and_close_without_tasks(void)
{
    open_under(EVERYWHERE, check_empty);
}

static void spawn_one(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    weft_task *task = NULL;
    CHECK_EQ(weft_runtime_spawn(runtime, &task, echo, (void *)12, NULL), 0);
    CHECK(weft_task_id(task) > 0);
    CHECK_EQ(weft_await(task), 12);
}

/* S2.42, 20; S0.4 */
static void runtime_spawn_runs_a_task(void)
{
    open_under(EVERYWHERE, spawn_one);
}

static void register_tasks(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    enum { COUNT = 20 };
    wf_atomic_u32 open = {0};
    weft_task *tasks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        CHECK_EQ(stats_of(runtime).live, i);
        tasks[i] = go_into(runtime, stand_by, &open);
        CHECK_EQ(info_of(tasks[i]).id, weft_task_id(tasks[i])); /* the handle refers to the task */
    }
    CHECK_EQ(stats_of(runtime).live, COUNT);
    raise_by_one(&open);
    CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
    while (stats_of(runtime).live > 0) { /* an awaiter may run a moment before the count drops */
        (void)sched_yield();
    }
}

/* S2.42, 21 to 23: registration, retrieval, count; S2.31 together with the next test */
static void stats_count_live_tasks(void)
{
    open_under(EVERYWHERE, register_tasks);
}

/* S2.42, 24 and 25 */
static void options_workers_default_to_the_number_of_cpus(void)
{
    weft_runtime *runtime = NULL;
    for (unsigned workers = 1; workers <= 8; workers++) {
        CHECK_EQ(weft_runtime_open(&runtime, &(weft_runtime_options){.workers = workers}), 0);
        CHECK_EQ(weft_runtime_workers(runtime), workers);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
    CHECK_EQ(weft_runtime_open(&runtime, NULL), 0);
    CHECK_EQ(weft_runtime_workers(runtime), wf_cpu_count());
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(spawn_creates_a_task_with_id_and_function),
    TAP_TEST(task_info_reports_stack_parent_wait_and_result),
    TAP_TEST(task_id_is_unique),
    TAP_TEST(task_state_goes_from_created_to_completed),
    TAP_TEST(join_returns_the_result),
    TAP_TEST(join_resumes_all_waiters_of_a_task),
    TAP_TEST(task_info_names_the_parent),
    TAP_TEST(runtime_open_starts_workers_monitor_and_control_thread),
    TAP_TEST(worker_executes_spawned_tasks),
    TAP_TEST(worker_steals_from_a_busy_worker),
    TAP_TEST(worker_parks_and_wakes),
    TAP_TEST(worker_reaches_a_safepoint_in_weft_check),
    TAP_TEST(runtime_open_and_close_without_tasks),
    TAP_TEST(runtime_spawn_runs_a_task),
    TAP_TEST(stats_count_live_tasks),
    TAP_TEST(options_workers_default_to_the_number_of_cpus),
};
TAP_MAIN(tests)
