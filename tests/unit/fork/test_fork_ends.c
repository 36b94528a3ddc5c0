/* SPDX-License-Identifier: MIT */
/*
 * Goal:   forks end in order however their task ends: cancelled, out of time, by weft_fail, by the
 *         close of the runtime, without memory. Misuse aborts with a message.
 * Method: forks that a thief took and forks that run inline; a forker that keeps its worker forces
 *         the first case. Forks write plain memory of the forker's frame until they end.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "fault_helpers.h"
#include "helpers.h"

/* ---- cancellation ---------------------------------------------------------------------------- */

/* Argument of a fork, in the frame of its forker. */
struct scene {
    const struct setting *setting;
    wf_atomic_u32 begun;
    wf_atomic_u32 never;
    intptr_t ended; /* plain: the last write of the fork */
};

static bool is_stealing(const struct setting *setting)
{
    return setting->workers > 1 && setting->policy == WEFT_POLICY_STEAL;
}

static intptr_t run_until_cancelled(void *arg)
{
    struct scene *scene = arg;
    raise_by_one(&scene->begun);
    const intptr_t rc = stand_by_or_leave(&scene->never);
    scene->ended = rc;
    return rc;
}

static intptr_t fork_and_join(void *arg)
{
    struct scene *scene = arg;
    weft_par_fork fork;
    weft_par_fork_go(&fork, run_until_cancelled, scene);
    const intptr_t rc = weft_par_fork_join(&fork);
    CHECK_EQ(scene->ended, rc);
    return rc;
}

static intptr_t cancel_forker(void *arg)
{
    struct scene scene = {.setting = arg};
    weft_task *task = go(fork_and_join, &scene);
    wait_for(&scene.begun, 1);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    return 0;
}

static void cancel_of_a_task_cancels_its_forks(void)
{
    run_under(EVERYWHERE, cancel_forker);
}

/* A thief took the fork, and the forker waits for it in the join when the cancel arrives. */
static intptr_t fork_until_taken(void *arg)
{
    struct scene *scene = arg;
    int other = 0;
    weft_par_fork forks[2];
    weft_par_fork_go(&forks[0], echo, &other);
    weft_par_fork_go(&forks[1], run_until_cancelled, scene);
    while (wf_load_acquire(&scene->begun) == 0) { /* pairs with run_until_cancelled */
        weft_par_fork small;
        weft_par_fork_go(&small, echo, NULL); /* checks for an expose request */
        (void)weft_par_fork_join(&small);
        (void)sched_yield();
    }
    const intptr_t rc = weft_par_fork_join(&forks[1]);
    CHECK_EQ(scene->ended, rc);
    CHECK_EQ(weft_par_fork_join(&forks[0]), (intptr_t)&other);
    return rc;
}

static void cancel_waiting_forker(weft_runtime *runtime, const struct setting *setting)
{
    struct scene scene = {.setting = setting};
    weft_task *task = go_into(runtime, fork_until_taken, &scene);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    CHECK_EQ(info_of(task).wait, WEFT_WAIT_TASK);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
}

static void fork_join_forwards_a_cancel_and_waits(void)
{
    open_under(ON_SEVERAL_THAT_STEAL, cancel_waiting_forker);
}

/* A cancelled task still waits for its fork; behind the shield of its forker the fork continues. */
static intptr_t check_after_signal(void *arg)
{
    struct scene *scene = arg;
    raise_by_one(&scene->begun);
    wait_for(&scene->never, 1);
    scene->ended = weft_check();
    return 7;
}

static intptr_t join_with_shield(void *arg)
{
    struct scene *scene = arg;
    weft_par_fork fork;
    CHECK_EQ(weft_shield_begin(), 0);
    weft_par_fork_go(&fork, check_after_signal, scene);
    CHECK_EQ(weft_par_fork_join(&fork), 7);
    CHECK_EQ(scene->ended, 0);
    CHECK_EQ(weft_shield_end(), 0);
    return weft_check();
}

static intptr_t cancel_shielded_forker(void *arg)
{
    struct scene scene = {.setting = arg};
    weft_task *task = go(join_with_shield, &scene);
    wait_for(&scene.begun, 1);
    CHECK_EQ(weft_cancel(task), 0);
    raise_by_one(&scene.never);
    CHECK_EQ(weft_await(task), -ECANCELED);
    return 0;
}

static void shield_protects_forks_of_the_task(void)
{
    run_under(EVERYWHERE, cancel_shielded_forker);
}

static intptr_t run_out_of_time(void *arg)
{
    struct scene scene = {.setting = arg};
    (void)weft_deadline_set(wf_clock_now() + 1000000);
    weft_par_fork fork;
    weft_par_fork_go(&fork, run_until_cancelled, &scene);
    if (is_stealing(scene.setting)) {
        hold_for(&scene.begun, 1);
    }
    CHECK_EQ(weft_par_fork_join(&fork), -ETIMEDOUT);
    CHECK_EQ(scene.ended, -ETIMEDOUT);
    (void)weft_deadline_set(WEFT_NEVER);
    return 0;
}

static void deadline_of_a_task_holds_for_its_forks(void)
{
    run_under(EVERYWHERE, run_out_of_time);
}

/* ---- weft_fail ------------------------------------------------------------------------------- */

static intptr_t fail_with_message(void *arg)
{
    raise_by_one(arg);
    weft_fail(-EDOM, "no %s", "luck");
}

static intptr_t fork_failing(void *arg)
{
    struct scene *scene = arg;
    weft_par_fork fork;
    weft_par_fork_go(&fork, fail_with_message, &scene->begun);
    if (is_stealing(scene->setting)) {
        hold_for(&scene->begun, 1);
    }
    (void)weft_par_fork_join(&fork);
    return 0; /* not reached */
}

static intptr_t join_failed_forker(void *arg)
{
    struct scene scene = {.setting = arg};
    char text[32];
    weft_task *task = go(fork_failing, &scene);
    intptr_t result = 0;
    CHECK_EQ(weft_join(task, &result), 0);
    CHECK_EQ(result, -EDOM);
    CHECK_EQ(weft_task_message(task, text, sizeof(text)), 7);
    CHECK_STR(text, "no luck");
    weft_task_unref(task);
    return 0;
}

static void fail_in_a_fork_fails_its_task(void)
{
    run_under(EVERYWHERE, join_failed_forker);
}

/* The frame is gone when the task has failed: no fork may use it any more. */
static intptr_t fail_beside_forks(void *arg)
{
    struct scene *scene = arg;
    int cells[20] = {0};
    weft_par_fork forks[20];
    weft_par_fork_go(&forks[0], run_until_cancelled, scene);
    if (is_stealing(scene->setting)) {
        hold_for(&scene->begun, 1);
    }
    for (int i = 1; i < 20; i++) {
        weft_par_fork_go(&forks[i], echo, &cells[i]);
    }
    weft_fail(-EDOM, NULL);
}

static intptr_t join_task_that_failed_beside_forks(void *arg)
{
    struct scene scene = {.setting = arg, .ended = 1};
    CHECK_EQ(weft_await(go(fail_beside_forks, &scene)), -EDOM);
    const bool has_begun = wf_load_acquire(&scene.begun) > 0; /* pairs with run_until_cancelled */
    CHECK(has_begun || !is_stealing(arg));
    CHECK_EQ(scene.ended, has_begun ? -ECANCELED : 1); /* cancelled and joined */
    return 0;
}

static void fail_waits_for_all_forks_of_the_task(void)
{
    run_under(EVERYWHERE, join_task_that_failed_beside_forks);
}

/* ---- close ----------------------------------------------------------------------------------- */

/* A fork never ends, and its forker waits for it, when the runtime is forced to close. */
static intptr_t run_forever(void *arg)
{
    struct scene *scene = arg;
    raise_by_one(&scene->begun);
    wait_for(&scene->never, 1); /* the forced close comes before */
    return 0;
}

static intptr_t fork_forever(void *arg)
{
    struct scene *scene = arg;
    weft_par_fork forks[10];
    weft_par_fork_go(&forks[0], run_forever, scene);
    if (is_stealing(scene->setting)) {
        hold_for(&scene->begun, 1);
    }
    for (int i = 1; i < 10; i++) {
        weft_par_fork_go(&forks[i], run_forever, scene);
    }
    return weft_par_fork_join(&forks[9]);
}

static void force_close(weft_runtime *runtime, const struct setting *setting)
{
    static struct scene scene;
    scene = (struct scene){.setting = setting};
    weft_task *task = go_into(runtime, fork_forever, &scene);
    wait_for(&scene.begun, is_stealing(setting) ? 2 : 1);
    CHECK_EQ(weft_runtime_close(runtime, 1), -ETIMEDOUT);
    CHECK_EQ(weft_await(task), -ECANCELED);
}

/* LeakSanitizer sees memory that is not freed. */
static void forced_close_ends_forks(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        force_close(runtime, tour.setting);
    }
}

/* ---- out of memory --------------------------------------------------------------------------- */

static intptr_t add_leaves(void *arg)
{
    const intptr_t depth = (intptr_t)arg;
    if (depth == 0) {
        return 1;
    }
    weft_par_fork fork;
    weft_par_fork_go(&fork, add_leaves, (void *)(depth - 1));
    const intptr_t sum = add_leaves((void *)(depth - 1));
    return sum + weft_par_fork_join(&fork);
}

/* More forks than the first slab of tasks holds. */
enum { MANY_FORKS = WF_TASK_SLAB_COUNT + 16 };

/* A thief takes one fork, which waits; the other forks exceed the shared part and become tasks. */
static intptr_t fork_without_memory(void *arg)
{
    struct faults *faults = arg;
    wf_atomic_u32 cell = {0};
    weft_task *last = go(stand_by, &cell);
    weft_par_fork forks[MANY_FORKS];
    faults_begin(faults);
    for (int i = 0; i < MANY_FORKS; i++) {
        weft_par_fork_go(&forks[i], add_leaves, (void *)3);
    }
    (void)weft_yield();
    weft_par_fork raising;
    weft_par_fork_go(&raising, count_up, &cell);
    (void)weft_par_fork_join(&raising);
    CHECK_EQ(weft_await(last), 0);
    for (int i = MANY_FORKS; i-- > 0;) {
        CHECK_EQ(weft_par_fork_join(&forks[i]), 8);
    }
    faults_end(faults);
    return 0;
}

static void fork_succeeds_without_memory(void)
{
    fail_each(fork_without_memory, 0);
}

/* Each stack is so large that it has a mapping of its own. So a worker that runs the fork must map
 * one: the thief, or the worker that finds the fork when its task waits. */
static intptr_t fork_without_a_stack(void *arg)
{
    struct faults *faults = arg;
    wf_atomic_u32 begun = {0};
    weft_par_fork forks[2];
    faults_begin(faults);
    weft_par_fork_go(&forks[0], count_up, &begun);
    const char *what = NULL;
    /* For a limited time only: a worker that got no stack need not come back. */
    const int64_t end_ns = wf_clock_now() + 300000;
    while (wf_load_acquire(&begun) == 0 && !wf_fault_hit(&what) && wf_clock_now() < end_ns) {
        (void)sched_yield();
    }
    weft_par_fork_go(&forks[1], count_up, &begun);
    const intptr_t seven = weft_await(weft_go(echo, (void *)7));
    CHECK(seven == 7 || seven == -ENOMEM);
    CHECK_EQ(weft_par_fork_join(&forks[1]), 0);
    CHECK_EQ(weft_par_fork_join(&forks[0]), 0);
    CHECK_EQ(wf_load_acquire(&begun), 2);
    return 0;
}

static intptr_t spawn_forker_with_large_stack(void *arg)
{
    const weft_task_options options = {.stack_size = (size_t)8 << 20};
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn(&task, fork_without_a_stack, arg, &options), 0);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

static void fork_succeeds_without_a_stack(void)
{
    fail_each(spawn_forker_with_large_stack, 0);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static const weft_runtime_options one = {.workers = 1};
static const weft_runtime_options two = {.workers = 2};

static void check_aborts(void (*run)(void), const char *words)
{
    char text[4096];
    int status = tap_run_child(run, text, sizeof(text));
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    if (strstr(text, words) == NULL) {
        tap_fail(__FILE__, __LINE__, "said: %s", text);
    }
}

static intptr_t join_out_of_order(void *arg)
{
    weft_par_fork first;
    weft_par_fork second;
    weft_par_fork_go(&first, echo, arg);
    weft_par_fork_go(&second, echo, arg);
    (void)weft_par_fork_join(&first);
    (void)weft_par_fork_join(&second);
    return 0;
}

static void run_join_out_of_order(void)
{
    (void)weft_run(join_out_of_order, NULL, &one);
}

static void run_join_out_of_order_on_two(void)
{
    (void)weft_run(join_out_of_order, NULL, &two);
}

static void fork_join_out_of_order_aborts(void)
{
    if (!HAS_ASSERTS) {
        tap_skip("built without assertions");
    }
    check_aborts(run_join_out_of_order, "fork");
    check_aborts(run_join_out_of_order_on_two, "fork");
}

static intptr_t return_without_a_join(void *arg)
{
    weft_par_fork fork;
    weft_par_fork_go(&fork, echo, arg);
    return 0;
}

static void run_without_a_join(void)
{
    (void)weft_run(return_without_a_join, NULL, &one);
}

static void task_end_with_an_unjoined_fork_aborts(void)
{
    check_aborts(run_without_a_join, "ended with an unjoined fork");
}

static intptr_t fork_without_end(void *arg)
{
    volatile char frame[256];
    weft_par_fork fork;
    frame[0] = 1;
    weft_par_fork_go(&fork, fork_without_end, arg);
    return weft_par_fork_join(&fork) + frame[0];
}

static void run_too_deep(void)
{
    (void)weft_run(fork_without_end, NULL, &two);
}

static void fork_recursion_without_end_reports_stack_overflow(void)
{
#ifdef WF_TSAN
    tap_skip("the frame that does not fit may be the sanitizer's, with its own lock held");
#endif
    check_aborts(run_too_deep, "stack");
}

static const struct tap_test tests[] = {
    TAP_TEST(cancel_of_a_task_cancels_its_forks),
    TAP_TEST(fork_join_forwards_a_cancel_and_waits),
    TAP_TEST(shield_protects_forks_of_the_task),
    TAP_TEST(deadline_of_a_task_holds_for_its_forks),
    TAP_TEST(fail_in_a_fork_fails_its_task),
    TAP_TEST(fail_waits_for_all_forks_of_the_task),
    TAP_TEST(forced_close_ends_forks),
    TAP_TEST_LIMIT(fork_succeeds_without_memory, 60),
    TAP_TEST_LIMIT(fork_succeeds_without_a_stack, 60),
    TAP_TEST(fork_join_out_of_order_aborts),
    TAP_TEST(task_end_with_an_unjoined_fork_aborts),
    TAP_TEST(fork_recursion_without_end_reports_stack_overflow),
};
TAP_MAIN(tests)
