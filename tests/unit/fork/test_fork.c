/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a fork runs exactly once, in its forker or in a thief, and its join gives its result and
 *         its writes. Idle workers find forks, and a waiting task hides none.
 * Method: trees and rows of forks that write plain memory of their forker, with waits of every kind
 *         in between, under every policy; and scenes in which a thief must take the fork, because
 *         the forker does not join it before.
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "helpers.h"
#include "sched_helpers.h"

/* ---- each fork runs once --------------------------------------------------------------------- */

/* A node of a tree; plain: the fork writes it, the forker reads it after the join. */
struct node {
    int depth;
    uint64_t leaves;
};

static intptr_t count_leaves(void *arg)
{
    struct node *node = arg;
    if (node->depth == 0) {
        node->leaves++; /* a second run would be visible */
        return 1;
    }
    struct node left = {.depth = node->depth - 1};
    struct node right = {.depth = node->depth - 1};
    weft_par_fork fork;
    weft_par_fork_go(&fork, count_leaves, &left);
    const intptr_t right_count = count_leaves(&right);
    const intptr_t left_count = weft_par_fork_join(&fork);
    CHECK_EQ(right_count, right.leaves);
    CHECK_EQ(left_count, left.leaves);
    node->leaves += left.leaves + right.leaves;
    return left_count + right_count;
}

static intptr_t grow_trees(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        struct node root = {.depth = 12};
        CHECK_EQ(count_leaves(&root), 1 << 12);
        CHECK_EQ(root.leaves, 1 << 12);
    }
    return 0;
}

static void fork_tree_computes_the_sum(void)
{
    run_under(EVERYWHERE, grow_trees);
}

static void fork_tree_computes_the_sum_on_65_workers(void)
{
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 65};
    const weft_runtime_options options = options_of(&setting);
    CHECK_EQ(weft_run(grow_trees, NULL, &options), 0);
}

enum { ROW = 1000 };

static intptr_t add_one(void *arg)
{
    int *cell = arg;
    *cell += 1;
    return *cell;
}

/* More forks than the shared part holds, so that slots are reused while thieves still have older
 * forks. */
static intptr_t fork_a_row(void *arg)
{
    (void)arg;
    static weft_par_fork forks[ROW];
    static int cells[ROW];
    for (int round = 1; round <= 20; round++) {
        for (int i = 0; i < ROW; i++) {
            weft_par_fork_go(&forks[i], add_one, &cells[i]);
        }
        for (int i = ROW; i-- > 0;) {
            CHECK_EQ(weft_par_fork_join(&forks[i]), round);
            CHECK_EQ(cells[i], round);
        }
    }
    for (int i = 0; i < ROW; i++) {
        cells[i] = 0; /* for the next setting */
    }
    return 0;
}

static void fork_row_runs_each_fork_once(void)
{
    run_under(EVERYWHERE, fork_a_row);
}

/* S2.51: no thief takes the fork, so no task is made of it. */
static intptr_t running_task(void *arg)
{
    (void)arg;
    return (intptr_t)weft_self();
}

static intptr_t fork_without_thieves(void *arg)
{
    (void)arg;
    const uint64_t spawned = stats_of(weft_runtime_self()).total.spawned;
    for (int i = 0; i < 100; i++) {
        weft_par_fork fork;
        weft_par_fork_go(&fork, running_task, NULL);
        CHECK_EQ(weft_par_fork_join(&fork), (intptr_t)weft_self());
    }
    CHECK_EQ(stats_of(weft_runtime_self()).total.spawned, spawned);
    return 0;
}

static void fork_join_runs_an_untaken_fork_inline(void)
{
    run_under(ON_ONE_WORKER, fork_without_thieves);
}

/* ---- thieves find forks ---------------------------------------------------------------------- */

/* The forker keeps its worker until the fork has run: only another worker can have run it. */
static intptr_t fork_and_hold(void *arg)
{
    (void)arg;
    const uint64_t before = stats_of(weft_runtime_self()).total.forks_taken;
    for (int i = 0; i < 50; i++) {
        wf_atomic_u32 cell = {0};
        weft_par_fork fork;
        weft_par_fork_go(&fork, count_up, &cell);
        hold_for(&cell, 1);
        CHECK_EQ(weft_par_fork_join(&fork), 0);
    }
    CHECK_EQ(stats_of(weft_runtime_self()).total.forks_taken - before, 50);
    return 0;
}

static void fork_wakes_a_parked_worker(void)
{
    run_under(ON_SEVERAL_THAT_STEAL, fork_and_hold);
}

/* The task forks three times before a thief has taken one. The forks in the loop check for a
 * request. */
static intptr_t fork_three_and_keep_forking(void *arg)
{
    (void)arg;
    wf_atomic_u32 cell = {0};
    int sum = 0;
    weft_par_fork forks[3];
    for (int i = 0; i < 3; i++) {
        weft_par_fork_go(&forks[i], count_up, &cell);
    }
    while (wf_load_acquire(&cell) < 3) { /* pairs with raise_by_one */
        weft_par_fork small;
        weft_par_fork_go(&small, add_one, &sum);
        (void)weft_par_fork_join(&small);
        (void)sched_yield();
    }
    for (int i = 3; i-- > 0;) {
        CHECK_EQ(weft_par_fork_join(&forks[i]), 0);
    }
    return 0;
}

static void fork_go_exposes_forks_on_request(void)
{
    run_under(ON_SEVERAL, fork_three_and_keep_forking);
}

/* Joins only, no forks: thieves take the oldest forks while the newest run here. */
static intptr_t wait_for_second_cell(void *arg)
{
    wf_atomic_u32 *cells = arg;
    wait_for(&cells[1], 1);
    return 0;
}

static intptr_t join_until_exposed(void *arg)
{
    (void)arg;
    wf_atomic_u32 cells[2] = {{0}, {0}};
    weft_par_fork forks[4];
    weft_par_fork_go(&forks[0], count_up, &cells[0]);
    hold_for(&cells[0], 1); /* a thief took it before the next forks existed */
    weft_par_fork_go(&forks[1], count_up, &cells[1]);
    weft_par_fork_go(&forks[2], count_up, &cells[0]);
    weft_par_fork_go(&forks[3], wait_for_second_cell, cells);
    for (int i = 4; i-- > 0;) {
        CHECK_EQ(weft_par_fork_join(&forks[i]), 0);
    }
    return 0;
}

static void fork_join_exposes_forks_on_request(void)
{
    run_under(ON_SEVERAL_THAT_STEAL, join_until_exposed);
}

/* ---- waits ----------------------------------------------------------------------------------- */

/* The forker waits for a task that waits for the forks: on one worker the forks must become tasks.
 * */
enum { FORKS = 20 };

static intptr_t wait_for_all_forks(void *arg)
{
    wait_for(arg, FORKS);
    return 0;
}

static intptr_t wait_for_own_forks(void *arg)
{
    (void)arg;
    wf_atomic_u32 cell = {0};
    weft_par_fork forks[FORKS];
    for (int i = 0; i < FORKS; i++) {
        weft_par_fork_go(&forks[i], count_up, &cell);
    }
    CHECK_EQ(weft_await(go(wait_for_all_forks, &cell)), 0);
    for (int i = FORKS; i-- > 0;) {
        CHECK_EQ(weft_par_fork_join(&forks[i]), 0);
    }
    return 0;
}

static void fork_of_a_waiting_task_is_run_by_others(void)
{
    run_under(EVERYWHERE, wait_for_own_forks);
}

/* A tree whose nodes wait in every way, and fork in the tasks that they spawn. */
static intptr_t grow_waiting(void *arg);

static intptr_t grow_in_a_scope(void *arg)
{
    struct node *node = arg;
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, grow_waiting, node), 0);
    CHECK_EQ(weft_scope_close(&scope), 0);
    return 0;
}

static intptr_t grow_waiting(void *arg)
{
    struct node *node = arg;
    if (node->depth == 0) {
        (void)weft_yield();
        node->leaves++;
        return 0;
    }
    struct node parts[4];
    weft_par_fork forks[3];
    static const weft_fn kinds[3] = {grow_waiting, grow_in_a_scope, grow_waiting};
    for (int i = 0; i < 4; i++) {
        parts[i] = (struct node){.depth = node->depth - 1};
    }
    for (int i = 0; i < 3; i++) {
        weft_par_fork_go(&forks[i], kinds[i], &parts[i]);
        CHECK_EQ(weft_check(), 0);
    }
    CHECK_EQ(weft_await(go(grow_waiting, &parts[3])), 0);
    for (int i = 3; i-- > 0;) {
        CHECK_EQ(weft_par_fork_join(&forks[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        node->leaves += parts[i].leaves;
    }
    return 0;
}

static intptr_t grow_a_waiting_tree(void *arg)
{
    (void)arg;
    struct node root = {.depth = 4};
    CHECK_EQ(grow_waiting(&root), 0);
    CHECK_EQ(root.leaves, 1 << 8);
    return 0;
}

static void fork_may_wait_yield_and_open_scopes(void)
{
    run_under(EVERYWHERE, grow_a_waiting_tree);
}

/* Many trees at once, so that tasks with unjoined forks move between workers. */
static intptr_t grow_yielding(void *arg)
{
    struct node *node = arg;
    (void)weft_yield();
    if (node->depth == 0) {
        node->leaves++;
        return 0;
    }
    struct node left = {.depth = node->depth - 1};
    struct node right = {.depth = node->depth - 1};
    weft_par_fork fork;
    weft_par_fork_go(&fork, grow_yielding, &left);
    (void)grow_yielding(&right);
    (void)weft_yield();
    (void)weft_par_fork_join(&fork);
    node->leaves += left.leaves + right.leaves;
    return 0;
}

static intptr_t grow_many_trees(void *arg)
{
    (void)arg;
    struct node roots[10];
    weft_task *tasks[10];
    for (int i = 0; i < 10; i++) {
        roots[i] = (struct node){.depth = 7};
        tasks[i] = go(grow_yielding, &roots[i]);
    }
    CHECK_EQ(weft_await_all(tasks, 10, NULL), 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(roots[i].leaves, 1 << 7);
    }
    return 0;
}

static void fork_survives_migration_of_its_task(void)
{
    run_under(EVERYWHERE, grow_many_trees);
}

/* ---- inheritance ----------------------------------------------------------------------------- */

static intptr_t return_deadline(void *arg)
{
    raise_by_one(arg);
    const weft_time deadline = weft_deadline_set(WEFT_NEVER);
    (void)weft_deadline_set(deadline);
    return (intptr_t)deadline;
}

static intptr_t fork_with_a_deadline(void *arg)
{
    const struct setting *setting = arg;
    wf_atomic_u32 cell = {0};
    const weft_time deadline = wf_clock_now() + INT64_C(3600000000000);
    (void)weft_deadline_set(deadline);
    weft_par_fork fork;
    weft_par_fork_go(&fork, return_deadline, &cell);
    if (setting->workers > 1 && setting->policy == WEFT_POLICY_STEAL) {
        hold_for(&cell, 1);
    }
    CHECK_EQ(weft_par_fork_join(&fork), deadline);
    return 0;
}

static void fork_inherits_the_deadline_of_its_task(void)
{
    run_under(EVERYWHERE, fork_with_a_deadline);
}

static __attribute__((noinline)) int use_stack(size_t bytes)
{
    volatile char frame[4096];
    frame[0] = 1;
    return bytes > 4096 ? use_stack(bytes - 4096) + frame[0] : frame[0];
}

static intptr_t use_much_stack(void *arg)
{
    raise_by_one(arg);
    return use_stack(512 << 10) > 0 ? 0 : -1;
}

static intptr_t fork_on_a_large_stack(void *arg)
{
    (void)arg;
    wf_atomic_u32 cell = {0};
    weft_par_fork fork;
    weft_par_fork_go(&fork, use_much_stack, &cell);
    hold_for(&cell, 1);
    return weft_par_fork_join(&fork);
}

static intptr_t spawn_with_large_stack(void *arg)
{
    (void)arg;
    const weft_task_options options = {.stack_size = 1 << 20};
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn(&task, fork_on_a_large_stack, NULL, &options), 0);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

static void fork_inherits_the_stack_size_of_its_task(void)
{
    run_under(ON_SEVERAL_THAT_STEAL, spawn_with_large_stack);
}

static intptr_t return_thread(void *arg)
{
    (void)arg;
    return (intptr_t)syscall(SYS_gettid);
}

/* With and without a wait in between, which turns the forks into tasks. */
static intptr_t fork_pinned(void *arg)
{
    (void)arg;
    const long thread = syscall(SYS_gettid);
    weft_par_fork forks[10];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 10; i++) {
            weft_par_fork_go(&forks[i], return_thread, NULL);
        }
        if (round % 2 == 0) {
            CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
        }
        for (int i = 10; i-- > 0;) {
            CHECK_EQ(weft_par_fork_join(&forks[i]), thread);
        }
    }
    return 0;
}

static intptr_t pin_and_fork(void *arg)
{
    const weft_task_options options = {.is_pinned = true};
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn(&task, fork_pinned, arg, &options), 0);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(fork_three_and_keep_forking(NULL), 0); /* an unpinned task exposes forks again */
    return 0;
}

static void fork_of_a_pinned_task_stays_on_its_thread(void)
{
    run_under(ON_SEVERAL, pin_and_fork);
}

/* ---- without a runtime ----------------------------------------------------------------------- */

static void *grow_outside(void *arg)
{
    struct node *root = arg;
    CHECK_EQ(count_leaves(root), 1 << root->depth);
    return NULL;
}

static void fork_outside_of_tasks_runs_at_once(void)
{
    int cell = 0;
    weft_par_fork fork;
    weft_par_fork_go(&fork, add_one, &cell);
    CHECK_EQ(cell, 1);
    CHECK_EQ(weft_par_fork_join(&fork), 1);
    struct node root = {.depth = 10};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, grow_outside, &root), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(root.leaves, 1 << 10);
}

/* A poll task cannot wait for a thief; and its memory may have been that of a forking task. */
static weft_poll_result fork_in_a_poll(weft_cx *cx, void *state, intptr_t *result)
{
    (void)cx;
    (void)state;
    int cell = 0;
    weft_par_fork fork;
    weft_par_fork_go(&fork, add_one, &cell);
    CHECK_EQ(cell, 1);
    *result = weft_par_fork_join(&fork);
    return WEFT_POLL_READY;
}

static intptr_t fork_in_poll_tasks(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        struct node root = {.depth = 3};
        weft_task *task = NULL;
        CHECK_EQ(weft_await(go(count_leaves, &root)), 1 << 3);
        CHECK_EQ(weft_spawn_poll(&task, fork_in_a_poll, NULL, 0, NULL), 0);
        CHECK_EQ(weft_await(task), 1);
    }
    return 0;
}

static void fork_in_a_poll_task_runs_at_once(void)
{
    run_under(EVERYWHERE, fork_in_poll_tasks);
}

/* No task runs in the hook, but the worker has just run a task with forks. */
static void fork_in_a_hook(void *context, const weft_failure *failure)
{
    int *cell = context;
    weft_par_fork fork;
    CHECK_EQ(failure->error, -EIO);
    weft_par_fork_go(&fork, add_one, cell);
    CHECK_EQ(*cell, 1);
    CHECK_EQ(weft_par_fork_join(&fork), 1);
}

static intptr_t fork_and_fail(void *arg)
{
    struct node root = {.depth = 3};
    (void)arg;
    CHECK_EQ(count_leaves(&root), 1 << 3);
    return -EIO;
}

static intptr_t spawn_failing_forker(void *arg)
{
    weft_task_unref(go(fork_and_fail, arg));
    return 0;
}

static void fork_in_a_hook_runs_at_once(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        int cell = 0;
        tour.options.on_failure = fork_in_a_hook;
        tour.options.hook_context = &cell;
        CHECK_EQ(weft_run(spawn_failing_forker, NULL, &tour.options), 0);
        CHECK_EQ(cell, 1);
    }
}

/* ---- depth ----------------------------------------------------------------------------------- */

static intptr_t go_deep(void *arg)
{
    const intptr_t depth = (intptr_t)arg;
    if (depth == 0) {
        return 0;
    }
    weft_par_fork fork;
    weft_par_fork_go(&fork, echo, (void *)1);
    const intptr_t below = go_deep((void *)(depth - 1));
    return weft_par_fork_join(&fork) + below;
}

static intptr_t go_deep_on_a_large_stack(void *arg)
{
    const weft_task_options options = {.stack_size = (size_t)32 << 20};
    weft_task *task = NULL;
    (void)arg;
    CHECK_EQ(weft_spawn(&task, go_deep, (void *)30000, &options), 0);
    CHECK_EQ(weft_await(task), 30000);
    return 0;
}

static void fork_nests_30000_deep(void)
{
    run_under(EVERYWHERE, go_deep_on_a_large_stack);
}

static const struct tap_test tests[] = {
    TAP_TEST(fork_tree_computes_the_sum),
    TAP_TEST(fork_tree_computes_the_sum_on_65_workers),
    TAP_TEST(fork_row_runs_each_fork_once),
    TAP_TEST(fork_join_runs_an_untaken_fork_inline),
    TAP_TEST(fork_wakes_a_parked_worker),
    TAP_TEST(fork_go_exposes_forks_on_request),
    TAP_TEST(fork_join_exposes_forks_on_request),
    TAP_TEST(fork_of_a_waiting_task_is_run_by_others),
    TAP_TEST(fork_may_wait_yield_and_open_scopes),
    TAP_TEST(fork_survives_migration_of_its_task),
    TAP_TEST(fork_inherits_the_deadline_of_its_task),
    TAP_TEST(fork_inherits_the_stack_size_of_its_task),
    TAP_TEST(fork_of_a_pinned_task_stays_on_its_thread),
    TAP_TEST(fork_outside_of_tasks_runs_at_once),
    TAP_TEST(fork_in_a_poll_task_runs_at_once),
    TAP_TEST(fork_in_a_hook_runs_at_once),
    TAP_TEST(fork_nests_30000_deep),
};
TAP_MAIN(tests)
