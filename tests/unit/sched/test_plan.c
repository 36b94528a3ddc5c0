/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the unit tests that the plan of the milestone (S2) asks for pass: tasks 1-6, workers
 *         13-17, the scheduler 18-25.
 * Method: one test each, as our API expresses it.  The queues (7-12) are tested in
 *         tests/unit/queue, the fifteen programs in test_programs.c.
 */
#include "proc_aids.h"
#include "sched_aids.h"

/* ---- S2.39: tasks ---------------------------------------------------------------------------- */

static intptr_t create(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *task = go(stand_by, &open);
    const weft_info info = info_of(task);
    CHECK(info.id > 0);
    CHECK(info.fn == stand_by);
    CHECK(info.state != WEFT_COMPLETED);
    CHECK_EQ(info.result, 0);
    raise_by_one(&open);
    return weft_await(task);
}

/* S2.39, 1 */
static void task_creation(void)
{
    run_under(EVERYWHERE, create);
}

/* What a task has of its own, as it says itself while it waits; plain. */
struct own {
    uintptr_t frame;
    uint64_t parent_id;
    weft_task *gate;
};

static intptr_t have_a_stack_of_ones_own(void *arg)
{
    struct own *own = arg;
    volatile uint64_t words[8];
    for (uint64_t i = 0; i < 8; i++) {
        words[i] = weft_task_id(weft_self()) * 8 + i;
    }
    own->frame = (uintptr_t)words;
    own->parent_id = info_of(weft_self()).parent_id;
    CHECK_EQ(weft_join(own->gate, NULL), 0); /* goes on where it was, with what it had */
    for (uint64_t i = 0; i < 8; i++) {
        CHECK_EQ(words[i], weft_task_id(weft_self()) * 8 + i);
    }
    return (intptr_t)(words[7] / 8);
}

static intptr_t ask_two_tasks(void *arg)
{
    (void)arg;
    enum { STACK = 16384 };
    wf_atomic_u32 open = {0};
    weft_task *gate = go(stand_by, &open);
    struct own owns[2] = {{.gate = gate}, {.gate = gate}};
    weft_task *tasks[2];
    for (int i = 0; i < 2; i++) {
        tasks[i] = go(have_a_stack_of_ones_own, &owns[i]);
        wait_for_state(tasks[i], WEFT_BLOCKED);
        const weft_info info = info_of(tasks[i]);
        CHECK_EQ(info.id, weft_task_id(tasks[i]));
        CHECK(info.fn == have_a_stack_of_ones_own);
        CHECK(info.stack_size >= STACK);
        CHECK_EQ(info.wait, WEFT_WAIT_TASK);
        CHECK(info.wait_object == gate);
        CHECK_EQ(info.wait_task_id, weft_task_id(gate));
        CHECK_EQ(owns[i].parent_id, weft_task_id(weft_self()));
    }
    const uintptr_t low = owns[0].frame < owns[1].frame ? owns[0].frame : owns[1].frame;
    CHECK(owns[0].frame + owns[1].frame - 2 * low >= STACK); /* two stacks */
    raise_by_one(&open);
    for (int i = 0; i < 2; i++) {
        intptr_t result = 0;
        const uint64_t id = weft_task_id(tasks[i]);
        CHECK_EQ(weft_join(tasks[i], &result), 0);
        CHECK_EQ(result, id);
        CHECK_EQ(info_of(tasks[i]).result, id);
        CHECK_EQ(state_of(tasks[i]), WEFT_COMPLETED);
        weft_drop(tasks[i]);
    }
    return weft_await(gate);
}

/* S0.7, S2.19: id, state, code, stack and where it is in it, result, what it waits for, parent; who
 * waits for it see waiters_of_a_task. */
static void what_a_task_has_of_its_own(void)
{
    run_under(EVERYWHERE, ask_two_tasks);
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
static void id_uniqueness(void)
{
    run_under(EVERYWHERE, compare_ids);
}

static intptr_t pass_through_states(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *task = go(stand_by, &open);
    CHECK_EQ(state_of(task), WEFT_CREATED);
    CHECK_EQ(state_of(weft_self()), WEFT_RUNNING);
    while (info_of(task).runs == 0) {
        (void)weft_yield();
    }
    CHECK_EQ(state_of(task), WEFT_RUNNABLE); /* one worker: we run */
    raise_by_one(&open);
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK_EQ(state_of(task), WEFT_COMPLETED);
    weft_drop(task);
    return 0;
}

/* S2.39, 3: more of it in test_task.c */
static void state_transitions(void)
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
static void result_of_a_task(void)
{
    run_under(EVERYWHERE, compare_results);
}

static intptr_t join_it(void *arg)
{
    intptr_t result = 0;
    CHECK_EQ(weft_join(arg, &result), 0);
    return result + 1;
}

static intptr_t have_waiters(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    weft_task *awaited = go(stand_by, &open);
    weft_task *waiters[5];
    for (int i = 0; i < 5; i++) {
        waiters[i] = go(join_it, awaited);
        wait_for_state(waiters[i], WEFT_BLOCKED);
        CHECK_EQ(info_of(waiters[i]).wait_task_id, weft_task_id(awaited));
    }
    raise_by_one(&open);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_await(waiters[i]), 1);
    }
    return weft_await(awaited);
}

/* S2.39, 5 */
static void waiters_of_a_task(void)
{
    run_under(EVERYWHERE, have_waiters);
}

static intptr_t give_parent(void *arg)
{
    (void)arg;
    return (intptr_t)info_of(weft_self()).parent_id;
}

static intptr_t compare_parents(void *arg)
{
    const uint64_t own = weft_task_id(weft_self());
    CHECK_EQ(weft_await(go(give_parent, NULL)), own);
    if (arg != NULL) {
        return weft_await(go(compare_parents, NULL)); /* and its own children's */
    }
    return 0;
}

/* S2.39, 6 */
static void parent_of_a_task(void)
{
    run_under(EVERYWHERE, compare_parents);
}

/* ---- S2.41: workers -------------------------------------------------------------------------- */

static intptr_t give_thread(void *arg)
{
    (void)arg;
    return wf_thread_id();
}

static void start_workers(weft_runtime *runtime, const struct setting *setting)
{
    CHECK_EQ(weft_runtime_workers(runtime), setting->workers);
    const intptr_t thread = weft_await(go_into(runtime, give_thread, NULL));
    CHECK(thread > 0);
    CHECK(thread != wf_thread_id());
    for (unsigned i = 0; i < setting->workers; i++) {
        weft_counters counters;
        CHECK_EQ(weft_worker_stats(runtime, i, &counters), 0);
    }
}

/* S2.41, 13; S2.26: with worker_execution, which is what the loop is for */
static void worker_start_up(void)
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
        weft_counters counters;
        CHECK_EQ(weft_worker_stats(runtime, i, &counters), 0);
        polled += counters.polled;
    }
    CHECK(polled >= COUNT);
}

/* S2.41, 14 */
static void worker_execution(void)
{
    open_under(EVERYWHERE, execute);
}

enum { LOOT = 20 };

static intptr_t be_robbed(void *arg)
{
    (void)arg;
    wf_atomic_u32 ran = {0};
    weft_task *tasks[LOOT];
    for (int i = 0; i < LOOT; i++) {
        tasks[i] = go(count_up, &ran);
    }
    hold_for(&ran, LOOT); /* we keep our worker: all were taken from it */
    CHECK_EQ(weft_await_all(tasks, LOOT, NULL), 0);
    CHECK(!HAS_ORDER || stats_of(weft_runtime_self()).total.stolen >= LOOT);
    return 0;
}

/* S2.41, 15; S2.22: with nothing in their own, the others look elsewhere. */
static void worker_stealing(void)
{
    run_under(ON_SEVERAL_THAT_STEAL, be_robbed);
}

static void idle(weft_runtime *runtime, const struct setting *setting)
{
    for (int i = 0; i < 5; i++) {
        while (stats_of(runtime).parked < setting->workers) { /* all go to sleep */
            (void)sched_yield();
        }
        CHECK_EQ(weft_await(go_into(runtime, echo, (void *)8)), 8); /* and wake up */
    }
    CHECK(stats_of(runtime).total.parked >= setting->workers);
    CHECK(stats_of(runtime).total.woken >= 1);
}

/* S2.41, 16: they sleep until they are woken; the plan polls every 100 us, and we do not. */
static void worker_idle_handling(void)
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
    CHECK_EQ(weft_stop_the_world(runtime), 0); /* every worker came to one */
    CHECK_EQ(weft_start_the_world(runtime), 0);
    raise_by_one(&is_over);
    CHECK_EQ(weft_await_all(tasks, count, NULL), 0);
}

/* S2.41, 17 */
static void worker_safepoint(void)
{
    open_under(EVERYWHERE, reach_safepoints);
}

/* ---- S2.42: the scheduler -------------------------------------------------------------------- */

static void nothing(weft_runtime *runtime, const struct setting *setting)
{
    CHECK_EQ(stats_of(runtime).live, 0);
    CHECK_EQ(stats_of(runtime).workers, setting->workers);
}

/* S2.42, 18 and 19: a scheduler and its pool, and their end */
static void scheduler_creation_and_pool(void)
{
    open_under(EVERYWHERE, nothing);
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
static void scheduler_spawn(void)
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
        CHECK_EQ(info_of(tasks[i]).id, weft_task_id(tasks[i])); /* the handle finds it */
    }
    CHECK_EQ(stats_of(runtime).live, COUNT);
    raise_by_one(&open);
    CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
    while (stats_of(runtime).live > 0) { /* whoever awaits may be told a moment earlier */
        (void)sched_yield();
    }
}

/* S2.42, 21 to 23: registration, retrieval, count; with the one below S2.31 */
static void scheduler_registration_retrieval_and_count(void)
{
    open_under(EVERYWHERE, register_tasks);
}

/* S2.42, 24 and 25 */
static void scheduler_worker_count_and_default(void)
{
    weft_runtime *runtime = NULL;
    for (unsigned workers = 1; workers <= 8; workers++) {
        CHECK_EQ(weft_runtime_open(&runtime, &(weft_options){.workers = workers}), 0);
        CHECK_EQ(weft_runtime_workers(runtime), workers);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
    CHECK_EQ(weft_runtime_open(&runtime, NULL), 0);
    CHECK_EQ(weft_runtime_workers(runtime), wf_cpu_count());
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(task_creation),
    TAP_TEST(what_a_task_has_of_its_own),
    TAP_TEST(id_uniqueness),
    TAP_TEST(state_transitions),
    TAP_TEST(result_of_a_task),
    TAP_TEST(waiters_of_a_task),
    TAP_TEST(parent_of_a_task),
    TAP_TEST(worker_start_up),
    TAP_TEST(worker_execution),
    TAP_TEST(worker_stealing),
    TAP_TEST(worker_idle_handling),
    TAP_TEST(worker_safepoint),
    TAP_TEST(scheduler_creation_and_pool),
    TAP_TEST(scheduler_spawn),
    TAP_TEST(scheduler_registration_retrieval_and_count),
    TAP_TEST(scheduler_worker_count_and_default),
};
TAP_MAIN(tests)
