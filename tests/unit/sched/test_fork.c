/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a fork runs exactly once, wherever that is, and its join gives its result and what it
 *         wrote; whoever has time finds forks, and a task that waits hides none.
 * Method: trees and rows of forks that write plain memory of their forker, with waits of every kind
 *         in between, under every policy; and scenes in which a fork must be taken, because its
 *         forker does not join it before.
 */
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "aids.h"
#include "sched_aids.h"

/* ---- once, and with its result --------------------------------------------------------------- */

/* A node of a tree; plain, written by the fork and read after the join. */
struct node {
    int depth;
    uint64_t leaves;
};

static intptr_t count_leaves(void *arg)
{
    struct node *node = arg;
    if (node->depth == 0) {
        node->leaves++; /* a second time would be seen */
        return 1;
    }
    struct node left = {.depth = node->depth - 1};
    struct node right = {.depth = node->depth - 1};
    weft_fork fork;
    weft_fork_go(&fork, count_leaves, &left);
    const intptr_t on_the_right = count_leaves(&right);
    const intptr_t on_the_left = weft_fork_join(&fork);
    CHECK_EQ(on_the_right, right.leaves);
    CHECK_EQ(on_the_left, left.leaves);
    node->leaves += left.leaves + right.leaves;
    return on_the_left + on_the_right;
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

static void a_tree_of_forks_adds_up(void)
{
    run_under(EVERYWHERE, grow_trees);
}

static void a_tree_of_forks_adds_up_on_more_workers_than_a_word_has_bits(void)
{
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 65};
    const weft_options options = options_of(&setting);
    CHECK_EQ(weft_run(grow_trees, NULL, &options), 0);
}

enum { ROW = 1000 };

static intptr_t add_one(void *arg)
{
    int *cell = arg;
    *cell += 1;
    return *cell;
}

/* More than fit on the board, so that places are used again while older forks are out. */
static intptr_t fork_a_row(void *arg)
{
    (void)arg;
    static weft_fork forks[ROW];
    static int cells[ROW];
    for (int round = 1; round <= 20; round++) {
        for (int i = 0; i < ROW; i++) {
            weft_fork_go(&forks[i], add_one, &cells[i]);
        }
        for (int i = ROW; i-- > 0;) {
            CHECK_EQ(weft_fork_join(&forks[i]), round);
            CHECK_EQ(cells[i], round);
        }
    }
    for (int i = 0; i < ROW; i++) {
        cells[i] = 0; /* for the next setting */
    }
    return 0;
}

static void a_row_of_forks_runs_each_of_them_once(void)
{
    run_under(EVERYWHERE, fork_a_row);
}

/* S2.51: nobody takes it, so no task is made of it. */
static intptr_t who_runs(void *arg)
{
    (void)arg;
    return (intptr_t)weft_self();
}

static intptr_t fork_alone(void *arg)
{
    (void)arg;
    const uint64_t spawned = stats_of(weft_runtime_self()).total.spawned;
    for (int i = 0; i < 100; i++) {
        weft_fork fork;
        weft_fork_go(&fork, who_runs, NULL);
        CHECK_EQ(weft_fork_join(&fork), (intptr_t)weft_self());
    }
    CHECK_EQ(stats_of(weft_runtime_self()).total.spawned, spawned);
    return 0;
}

static void a_fork_that_nobody_takes_is_a_call(void)
{
    run_under(ON_ONE_WORKER, fork_alone);
}

/* ---- being found ----------------------------------------------------------------------------- */

/* The forker keeps its worker until the fork has run: only another can have run it. */
static intptr_t fork_and_hold(void *arg)
{
    (void)arg;
    const uint64_t before = stats_of(weft_runtime_self()).total.forks_taken;
    for (int i = 0; i < 50; i++) {
        wf_atomic_u32 cell = {0};
        weft_fork fork;
        weft_fork_go(&fork, count_up, &cell);
        hold_for(&cell, 1);
        CHECK_EQ(weft_fork_join(&fork), 0);
    }
    CHECK_EQ(stats_of(weft_runtime_self()).total.forks_taken - before, 50);
    return 0;
}

static void the_first_fork_is_found_by_workers_that_sleep(void)
{
    run_under(ON_SEVERAL_THAT_STEAL, fork_and_hold);
}

/* All three are forked before anybody has taken one; the forks in the loop are when it is asked. */
static intptr_t fork_three_and_go_on(void *arg)
{
    (void)arg;
    wf_atomic_u32 cell = {0};
    int sum = 0;
    weft_fork forks[3];
    for (int i = 0; i < 3; i++) {
        weft_fork_go(&forks[i], count_up, &cell);
    }
    while (wf_load_acquire(&cell) < 3) { /* to count_up */
        weft_fork small;
        weft_fork_go(&small, add_one, &sum);
        (void)weft_fork_join(&small);
        (void)sched_yield();
    }
    for (int i = 3; i-- > 0;) {
        CHECK_EQ(weft_fork_join(&forks[i]), 0);
    }
    return 0;
}

static void a_task_that_forks_gives_work_when_it_is_asked(void)
{
    run_under(ON_SEVERAL, fork_three_and_go_on);
}

/* No fork but only joins: the oldest are taken while the newest run here. */
static intptr_t hold_until_another_has_run(void *arg)
{
    wf_atomic_u32 *cells = arg;
    wait_for(&cells[1], 1);
    return 0;
}

static intptr_t join_and_be_asked(void *arg)
{
    (void)arg;
    wf_atomic_u32 cells[2] = {{0}, {0}};
    weft_fork forks[4];
    weft_fork_go(&forks[0], count_up, &cells[0]);
    hold_for(&cells[0], 1); /* it is taken, and the others were not there to be laid open */
    weft_fork_go(&forks[1], count_up, &cells[1]);
    weft_fork_go(&forks[2], count_up, &cells[0]);
    weft_fork_go(&forks[3], hold_until_another_has_run, cells);
    for (int i = 4; i-- > 0;) {
        CHECK_EQ(weft_fork_join(&forks[i]), 0);
    }
    return 0;
}

static void a_task_that_joins_gives_work_when_it_is_asked(void)
{
    run_under(ON_SEVERAL_THAT_STEAL, join_and_be_asked);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* It waits for a task that waits for the forks: on one worker nobody but the forks can end that. */
enum { CROWD = 20 };

static intptr_t wait_for_crowd(void *arg)
{
    wait_for(arg, CROWD);
    return 0;
}

static intptr_t wait_for_ones_forks(void *arg)
{
    (void)arg;
    wf_atomic_u32 cell = {0};
    weft_fork forks[CROWD];
    for (int i = 0; i < CROWD; i++) {
        weft_fork_go(&forks[i], count_up, &cell);
    }
    CHECK_EQ(weft_await(go(wait_for_crowd, &cell)), 0);
    for (int i = CROWD; i-- > 0;) {
        CHECK_EQ(weft_fork_join(&forks[i]), 0);
    }
    return 0;
}

static void a_task_that_waits_hides_no_forks(void)
{
    run_under(EVERYWHERE, wait_for_ones_forks);
}

/* A tree whose nodes wait in every way there is, and fork in the tasks they start. */
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
    weft_fork forks[3];
    static const weft_fn kinds[3] = {grow_waiting, grow_in_a_scope, grow_waiting};
    for (int i = 0; i < 4; i++) {
        parts[i] = (struct node){.depth = node->depth - 1};
    }
    for (int i = 0; i < 3; i++) {
        weft_fork_go(&forks[i], kinds[i], &parts[i]);
        CHECK_EQ(weft_check(), 0);
    }
    CHECK_EQ(weft_await(go(grow_waiting, &parts[3])), 0);
    for (int i = 3; i-- > 0;) {
        CHECK_EQ(weft_fork_join(&forks[i]), 0);
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

static void forks_wait_yield_and_open_scopes(void)
{
    run_under(EVERYWHERE, grow_a_waiting_tree);
}

/* Many at once, so that tasks with unjoined forks move between workers. */
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
    weft_fork fork;
    weft_fork_go(&fork, grow_yielding, &left);
    (void)grow_yielding(&right);
    (void)weft_yield();
    (void)weft_fork_join(&fork);
    node->leaves += left.leaves + right.leaves;
    return 0;
}

static intptr_t grow_a_wood(void *arg)
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

static void forks_survive_that_their_task_moves(void)
{
    run_under(EVERYWHERE, grow_a_wood);
}

/* ---- what a fork inherits -------------------------------------------------------------------- */

static intptr_t give_deadline(void *arg)
{
    raise_by_one(arg);
    const weft_time deadline = weft_deadline(WEFT_NEVER);
    (void)weft_deadline(deadline);
    return (intptr_t)deadline;
}

static intptr_t fork_with_a_deadline(void *arg)
{
    const struct setting *setting = arg;
    wf_atomic_u32 cell = {0};
    const weft_time deadline = wf_clock_now() + INT64_C(3600000000000);
    (void)weft_deadline(deadline);
    weft_fork fork;
    weft_fork_go(&fork, give_deadline, &cell);
    if (setting->workers > 1 && setting->policy == WEFT_POLICY_STEAL) {
        hold_for(&cell, 1);
    }
    CHECK_EQ(weft_fork_join(&fork), deadline);
    return 0;
}

static void a_fork_has_the_deadline_of_its_task(void)
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
    weft_fork fork;
    weft_fork_go(&fork, use_much_stack, &cell);
    hold_for(&cell, 1);
    return weft_fork_join(&fork);
}

static intptr_t start_one_with_a_large_stack(void *arg)
{
    (void)arg;
    const weft_task_options options = {.stack_size = 1 << 20};
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn(&task, fork_on_a_large_stack, NULL, &options), 0);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

static void a_fork_has_a_stack_as_large_as_that_of_its_task(void)
{
    run_under(ON_SEVERAL_THAT_STEAL, start_one_with_a_large_stack);
}

static intptr_t give_thread(void *arg)
{
    (void)arg;
    return (intptr_t)syscall(SYS_gettid);
}

/* With and without a wait in between, which makes tasks of them. */
static intptr_t fork_pinned(void *arg)
{
    (void)arg;
    const long thread = syscall(SYS_gettid);
    weft_fork forks[10];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 10; i++) {
            weft_fork_go(&forks[i], give_thread, NULL);
        }
        if (round % 2 == 0) {
            CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
        }
        for (int i = 10; i-- > 0;) {
            CHECK_EQ(weft_fork_join(&forks[i]), thread);
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
    CHECK_EQ(fork_three_and_go_on(NULL), 0); /* one that is not pinned gives work again */
    return 0;
}

static void forks_of_a_pinned_task_stay_on_its_thread(void)
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

static void outside_of_tasks_a_fork_runs_at_once(void)
{
    int cell = 0;
    weft_fork fork;
    weft_fork_go(&fork, add_one, &cell);
    CHECK_EQ(cell, 1);
    CHECK_EQ(weft_fork_join(&fork), 1);
    struct node root = {.depth = 10};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, grow_outside, &root), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(root.leaves, 1 << 10);
}

/* It cannot wait for another; and its memory may be that of a task that forked. */
static weft_poll fork_in_a_poll(weft_cx *cx, void *state, intptr_t *result)
{
    (void)cx;
    (void)state;
    int cell = 0;
    weft_fork fork;
    weft_fork_go(&fork, add_one, &cell);
    CHECK_EQ(cell, 1);
    *result = weft_fork_join(&fork);
    return WEFT_READY;
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

static void in_a_poll_task_a_fork_runs_at_once(void)
{
    run_under(EVERYWHERE, fork_in_poll_tasks);
}

/* No task runs then, but one has just run that had forks. */
static void fork_in_a_hook(void *context, const weft_failure *failure)
{
    int *cell = context;
    weft_fork fork;
    CHECK_EQ(failure->error, -EIO);
    weft_fork_go(&fork, add_one, cell);
    CHECK_EQ(*cell, 1);
    CHECK_EQ(weft_fork_join(&fork), 1);
}

static intptr_t fork_and_fail(void *arg)
{
    struct node root = {.depth = 3};
    (void)arg;
    CHECK_EQ(count_leaves(&root), 1 << 3);
    return -EIO;
}

static intptr_t let_one_fail(void *arg)
{
    weft_drop(go(fork_and_fail, arg));
    return 0;
}

static void in_a_hook_a_fork_runs_at_once(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        int cell = 0;
        tour.options.on_failure = fork_in_a_hook;
        tour.options.hook_context = &cell;
        CHECK_EQ(weft_run(let_one_fail, NULL, &tour.options), 0);
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
    weft_fork fork;
    weft_fork_go(&fork, echo, (void *)1);
    const intptr_t below = go_deep((void *)(depth - 1));
    return weft_fork_join(&fork) + below;
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

static void forks_nest_as_deep_as_the_stack_allows(void)
{
    run_under(EVERYWHERE, go_deep_on_a_large_stack);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_tree_of_forks_adds_up),
    TAP_TEST(a_tree_of_forks_adds_up_on_more_workers_than_a_word_has_bits),
    TAP_TEST(a_row_of_forks_runs_each_of_them_once),
    TAP_TEST(a_fork_that_nobody_takes_is_a_call),
    TAP_TEST(the_first_fork_is_found_by_workers_that_sleep),
    TAP_TEST(a_task_that_forks_gives_work_when_it_is_asked),
    TAP_TEST(a_task_that_joins_gives_work_when_it_is_asked),
    TAP_TEST(a_task_that_waits_hides_no_forks),
    TAP_TEST(forks_wait_yield_and_open_scopes),
    TAP_TEST(forks_survive_that_their_task_moves),
    TAP_TEST(a_fork_has_the_deadline_of_its_task),
    TAP_TEST(a_fork_has_a_stack_as_large_as_that_of_its_task),
    TAP_TEST(forks_of_a_pinned_task_stay_on_its_thread),
    TAP_TEST(outside_of_tasks_a_fork_runs_at_once),
    TAP_TEST(in_a_poll_task_a_fork_runs_at_once),
    TAP_TEST(in_a_hook_a_fork_runs_at_once),
    TAP_TEST(forks_nest_as_deep_as_the_stack_allows),
};
TAP_MAIN(tests)
