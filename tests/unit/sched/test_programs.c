/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the fifteen required programs give the right results.
 * Method: one test for each program, under every policy, order and number of workers.
 */
#include "sched_helpers.h"

static intptr_t work(void *arg)
{
    (void)arg;
    return 42;
}

static intptr_t call_async(void *arg)
{
    (void)arg;
    weft_task *task = go(work, NULL);
    return weft_await(task) == 42 ? 0 : -EIO;
}

/* S2.43, 1; part of S0.29, part of S0.30, part of S2.34, part of S2.35 */
static void await_returns_the_result_of_one_task(void)
{
    run_under(EVERYWHERE, call_async);
}

static intptr_t await_ten(void *arg)
{
    (void)arg;
    weft_task *tasks[10];
    intptr_t sum = 0;
    for (intptr_t i = 0; i < 10; i++) {
        tasks[i] = go(echo, (void *)(i + 1));
    }
    for (int i = 0; i < 10; i++) {
        sum += weft_await(tasks[i]);
    }
    CHECK_EQ(sum, 55);
    return 0;
}

/* S2.43, 2 */
static void await_returns_the_results_of_ten_tasks(void)
{
    run_under(EVERYWHERE, await_ten);
}

static intptr_t count_descendants(void *arg)
{
    const intptr_t generations = (intptr_t)arg;
    intptr_t count = 1;
    if (generations > 0) {
        weft_task *tasks[3];
        intptr_t results[3];
        for (int i = 0; i < 3; i++) {
            tasks[i] = go(count_descendants, (void *)(generations - 1));
        }
        CHECK_EQ(weft_await_all(tasks, 3, results), 0);
        count += results[0] + results[1] + results[2];
    }
    return count;
}

static intptr_t count_three_generations(void *arg)
{
    (void)arg;
    CHECK_EQ(count_descendants((void *)3), 40);
    return 0;
}

/* S2.43, 3 */
static void await_all_works_over_three_generations(void)
{
    run_under(EVERYWHERE, count_three_generations);
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

/* S2.43, 4 */
static void stats_count_stolen_tasks(void)
{
    run_under(ON_SEVERAL_THAT_STEAL, keep_worker_for_thieves);
}

struct resume_scene {
    weft_task *awaited;
    int step; /* plain: set before and after the wait */
};

static intptr_t suspend_and_resume(void *arg)
{
    struct resume_scene *resume_scene = arg;
    volatile int stack_value = 77;
    resume_scene->step = 1;
    CHECK_EQ(weft_join(resume_scene->awaited, NULL), 0);
    CHECK_EQ(resume_scene->step, 1);
    resume_scene->step = 2;
    return stack_value;
}

static intptr_t check_resume(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    struct resume_scene resume_scene = {.awaited = go(stand_by, &open)};
    weft_task *task = go(suspend_and_resume, &resume_scene);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    const uint64_t runs = info_of(task).runs;
    raise_by_one(&open);
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK_EQ(resume_scene.step, 2);
    CHECK_EQ(info_of(task).runs, runs + 1);
    CHECK_EQ(weft_await(task), 77);
    return weft_await(resume_scene.awaited);
}

/* S2.43, 5 */
static void join_suspends_and_resumes_with_the_same_stack(void)
{
    run_under(EVERYWHERE, check_resume);
}

static intptr_t fib(void *arg)
{
    const intptr_t n = (intptr_t)arg;
    if (n < 2) {
        return n;
    }
    weft_task *a = go(fib, (void *)(n - 1));
    weft_task *b = go(fib, (void *)(n - 2));
    return weft_await(a) + weft_await(b);
}

static intptr_t compute_fib(void *arg)
{
    (void)arg;
    CHECK_EQ(fib((void *)10), 55);
    return 0;
}

/* S2.43, 6 */
static void spawn_tree_computes_fibonacci(void)
{
    run_under(EVERYWHERE, compute_fib);
}

enum { ITEMS = 100, CAPACITY = 4 };

/* A bounded buffer between two tasks that yield to each other. */
struct buffer {
    wf_atomic_u32 made;
    wf_atomic_u32 used;
    int items[CAPACITY]; /* plain */
};

static intptr_t produce(void *arg)
{
    struct buffer *buffer = arg;
    for (uint32_t i = 0; i < ITEMS; i++) {
        while (i - wf_load_acquire(&buffer->used) >= CAPACITY) {
            (void)weft_yield();
        }
        buffer->items[i % CAPACITY] = (int)i * 3;
        raise_by_one(&buffer->made);
    }
    return 0;
}

static intptr_t consume(void *arg)
{
    struct buffer *buffer = arg;
    for (uint32_t i = 0; i < ITEMS; i++) {
        wait_for(&buffer->made, i + 1);
        CHECK_EQ(buffer->items[i % CAPACITY], (int)i * 3); /* in order, and no item is lost */
        raise_by_one(&buffer->used);
    }
    return ITEMS;
}

static intptr_t run_producer_and_consumer(void *arg)
{
    (void)arg;
    struct buffer buffer = {.made = {0}};
    weft_task *consumer = go(consume, &buffer);
    weft_task *producer = go(produce, &buffer);
    CHECK_EQ(weft_await(consumer), ITEMS);
    return weft_await(producer);
}

/* S2.43, 7: without channels */
static void yield_lets_producer_and_consumer_exchange_items_in_order(void)
{
    run_under(EVERYWHERE, run_producer_and_consumer);
}

static intptr_t double_it(void *arg)
{
    if ((intptr_t)arg % 3 == 0) {
        (void)weft_yield();
    }
    return 2 * (intptr_t)arg;
}

static intptr_t spawn_a_thousand(void *arg)
{
    (void)arg;
    enum { COUNT = 1000 };
    static weft_task *tasks[COUNT];
    static intptr_t results[COUNT];
    for (intptr_t i = 0; i < COUNT; i++) {
        tasks[i] = go(double_it, (void *)i);
    }
    CHECK_EQ(weft_await_all(tasks, COUNT, results), 0);
    for (intptr_t i = 0; i < COUNT; i++) {
        CHECK_EQ(results[i], 2 * i);
    }
    return 0;
}

/* S2.43, 8 */
static void await_all_returns_a_thousand_results(void)
{
    run_under(EVERYWHERE, spawn_a_thousand);
}

struct counted {
    wf_atomic_u32 *is_over;
    uint64_t count; /* plain */
};

static intptr_t count_until_over(void *arg)
{
    struct counted *counted = arg;
    while (wf_load_relaxed(counted->is_over) == 0) {
        counted->count++;
        (void)weft_yield();
    }
    return 0;
}

static void pause_the_world(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    wf_atomic_u32 is_over = {0};
    struct counted counted[4];
    weft_task *tasks[4];
    for (int i = 0; i < 4; i++) {
        counted[i] = (struct counted){&is_over, 0};
        tasks[i] = go_into(runtime, count_until_over, &counted[i]);
    }
    for (int pause = 0; pause < 5; pause++) {
        CHECK_EQ(weft_world_stop(runtime), 0);
        uint64_t before[4];
        for (int i = 0; i < 4; i++) {
            before[i] = counted[i].count;
        }
        for (int i = 0; i < 100; i++) {
            (void)sched_yield();
            CHECK_EQ(counted[i % 4].count, before[i % 4]);
        }
        CHECK_EQ(weft_world_start(runtime), 0);
    }
    wf_store_relaxed(&is_over, 1);
    CHECK_EQ(weft_await_all(tasks, 4, NULL), 0);
}

/* S2.43, 9 */
static void world_stop_pauses_running_tasks(void)
{
    open_under(EVERYWHERE, pause_the_world);
}

static intptr_t fail_for_5(void *arg)
{
    return (intptr_t)arg == 5 ? -EIO : (intptr_t)arg;
}

static intptr_t await_failing(void *arg)
{
    return weft_await(go(fail_for_5, arg));
}

static intptr_t isolate_failure(void *arg)
{
    (void)arg;
    weft_task *tasks[10];
    for (intptr_t i = 0; i < 10; i++) {
        tasks[i] = go(await_failing, (void *)i);
    }
    for (intptr_t i = 0; i < 10; i++) {
        CHECK_EQ(weft_await(tasks[i]), i == 5 ? -EIO : i);
    }
    return 0;
}

/* S2.43, 10 */
static void failure_propagates_to_its_awaiter_only(void)
{
    run_under(EVERYWHERE, isolate_failure);
}

/* S2.43, 11: the other tests use 1, 2, 3 and 8 */
static void runtime_works_with_1_2_4_and_8_workers(void)
{
    static const struct setting counts[] = {
        {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1},        {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 2},
        {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 4},        {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 8},
        {WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 4}, {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 4},
    };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const weft_runtime_options options = options_of(&counts[i]);
        tap_doing("row %zu", i);
        CHECK_EQ(weft_run(spawn_a_thousand, NULL, &options), 0);
        CHECK_EQ(weft_run(compute_fib, NULL, &options), 0);
    }
}

struct injection {
    weft_runtime *runtime;
    wf_atomic_u32 ran;
};

static void *inject(void *arg)
{
    struct injection *injection = arg;
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(weft_runtime_spawn(injection->runtime, NULL, count_up, &injection->ran, NULL), 0);
    }
    return NULL;
}

static void inject_from_threads(weft_runtime *runtime, const struct setting *setting)
{
    struct injection injection = {.runtime = runtime};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], inject, &injection, NULL), 0);
    }
    wait_for(&injection.ran, 400);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    CHECK_EQ(wf_load_acquire(&injection.ran), 400);
    if (setting->policy == WEFT_POLICY_STEAL) {
        CHECK(stats_of(runtime).total.global_fetches >= 1);
    }
}

/* S2.43, 12; part of S2.32 */
static void runtime_spawn_works_from_several_threads(void)
{
    open_under(EVERYWHERE, inject_from_threads);
}

static intptr_t run_c(void *arg)
{
    (void)arg;
    (void)weft_yield();
    return 1;
}

static intptr_t run_b(void *arg)
{
    (void)arg;
    return weft_await(go(run_c, NULL)) + 10;
}

static intptr_t run_a(void *arg)
{
    (void)arg;
    return weft_await(go(run_b, NULL)) + 100;
}

static intptr_t await_a(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_await(go(run_a, NULL)), 111);
    return 0;
}

/* S2.43, 13 */
static void await_chain_of_three_tasks_completes(void)
{
    run_under(EVERYWHERE, await_a);
}

static struct {
    char text[128];
    size_t length;
} steps;

static intptr_t log_steps(void *arg)
{
    for (int i = 0; i < 30; i++) {
        steps.text[steps.length++] = *(const char *)arg;
        CHECK_EQ(weft_yield(), 0);
    }
    return 0;
}

static intptr_t interleave(void *arg)
{
    /* In depth-first order a yielding task goes to the global queue, which is served first now and
     * then. */
    const unsigned in_a_row_max = ((const struct setting *)arg)->order == WEFT_ORDER_FAIR ? 1 : 3;
    unsigned in_a_row = 1;
    static char names[] = "ab";
    steps.length = 0;
    weft_task *tasks[2] = {go(log_steps, &names[0]), go(log_steps, &names[1])};
    CHECK_EQ(weft_await_all(tasks, 2, NULL), 0);
    CHECK_EQ(steps.length, 60);
    for (size_t i = 1; i < steps.length; i++) {
        in_a_row = steps.text[i] == steps.text[i - 1] ? in_a_row + 1 : 1;
        CHECK(!HAS_ORDER || in_a_row <= in_a_row_max || i >= 56); /* one task may be left */
    }
    return 0;
}

/* S2.43, 14 */
static void yield_alternates_two_tasks(void)
{
    run_under(ON_ONE_WORKER, interleave);
}

static void count_cleanup(void *arg)
{
    raise_by_one(arg);
}

struct closing {
    wf_atomic_u32 begun;
    wf_atomic_u32 cleaned;
};

static intptr_t run_until_cancelled(void *arg)
{
    struct closing *closing = arg;
    weft_cleanup cleanup;
    weft_cleanup_push(&cleanup, count_cleanup, &closing->cleaned);
    raise_by_one(&closing->begun);
    int rc = 0;
    while (rc == 0) {
        rc = weft_yield();
    }
    weft_fail(rc, "the end");
}

/* S2.43, 15; S0.6 */
static void runtime_close_runs_cleanups_of_all_tasks(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        enum { COUNT = 20 };
        struct closing closing = {.begun = {0}};
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (int i = 0; i < COUNT; i++) {
            CHECK_EQ(weft_runtime_spawn(runtime, NULL, run_until_cancelled, &closing, NULL), 0);
        }
        wait_for(&closing.begun, COUNT);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(wf_load_acquire(&closing.cleaned), COUNT);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(await_returns_the_result_of_one_task),
    TAP_TEST(await_returns_the_results_of_ten_tasks),
    TAP_TEST(await_all_works_over_three_generations),
    TAP_TEST(stats_count_stolen_tasks),
    TAP_TEST(join_suspends_and_resumes_with_the_same_stack),
    TAP_TEST(spawn_tree_computes_fibonacci),
    TAP_TEST(yield_lets_producer_and_consumer_exchange_items_in_order),
    TAP_TEST(await_all_returns_a_thousand_results),
    TAP_TEST(world_stop_pauses_running_tasks),
    TAP_TEST(failure_propagates_to_its_awaiter_only),
    TAP_TEST(runtime_works_with_1_2_4_and_8_workers),
    TAP_TEST(runtime_spawn_works_from_several_threads),
    TAP_TEST(await_chain_of_three_tasks_completes),
    TAP_TEST(yield_alternates_two_tasks),
    TAP_TEST(runtime_close_runs_cleanups_of_all_tasks),
};
TAP_MAIN(tests)
