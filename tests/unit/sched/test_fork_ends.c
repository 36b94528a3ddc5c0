/* SPDX-License-Identifier: MIT */
/*
 * Goal:   forks end in order however their task ends: cancelled, out of time, by weft_fail, by the
 *         close of the runtime, without memory; and misuse is told at once.
 * Method: forks that were taken and forks that were not, which of them is forced by a forker that
 *         keeps its worker; plain memory of the forker's frame is written by forks to their end.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "aids.h"
#include "fault_aids.h"

/* ---- cancelling ------------------------------------------------------------------------------ */

/* What a fork is about, in the frame of its forker. */
struct scene {
    const struct setting *setting;
    wf_atomic_u32 begun;
    wf_atomic_u32 never;
    intptr_t ended; /* plain: the last thing a fork writes */
};

static bool is_stealing(const struct setting *setting)
{
    return setting->workers > 1 && setting->policy == WEFT_POLICY_STEAL;
}

static intptr_t stay_until_told(void *arg)
{
    struct scene *scene = arg;
    raise_by_one(&scene->begun);
    const intptr_t rc = stand_by_or_leave(&scene->never);
    scene->ended = rc;
    return rc;
}

static intptr_t fork_one_that_stays(void *arg)
{
    struct scene *scene = arg;
    weft_fork fork;
    weft_fork_go(&fork, stay_until_told, scene);
    const intptr_t rc = weft_fork_join(&fork);
    CHECK_EQ(scene->ended, rc);
    return rc;
}

static intptr_t cancel_a_forker(void *arg)
{
    struct scene scene = {.setting = arg};
    weft_task *task = go(fork_one_that_stays, &scene);
    wait_for(&scene.begun, 1);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    return 0;
}

static void who_cancels_a_task_cancels_its_forks(void)
{
    run_under(EVERYWHERE, cancel_a_forker);
}

/* The fork is taken, and its forker waits for it in the join when the cancel comes. */
static intptr_t fork_one_that_is_taken(void *arg)
{
    struct scene *scene = arg;
    int other = 0;
    weft_fork forks[2];
    weft_fork_go(&forks[0], echo, &other);
    weft_fork_go(&forks[1], stay_until_told, scene);
    while (wf_load_acquire(&scene->begun) == 0) { /* to stay_until_told */
        weft_fork small;
        weft_fork_go(&small, echo, NULL); /* looks whether we are asked */
        (void)weft_fork_join(&small);
        (void)sched_yield();
    }
    const intptr_t rc = weft_fork_join(&forks[1]);
    CHECK_EQ(scene->ended, rc);
    CHECK_EQ(weft_fork_join(&forks[0]), (intptr_t)&other);
    return rc;
}

static void cancel_one_that_waits(weft_runtime *runtime, const struct setting *setting)
{
    struct scene scene = {.setting = setting};
    weft_task *task = go_into(runtime, fork_one_that_is_taken, &scene);
    wait_for_state(task, WEFT_BLOCKED);
    CHECK_EQ(info_of(task).wait, WEFT_WAIT_TASK);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
}

static void a_join_passes_a_cancel_on_and_waits(void)
{
    open_under(ON_SEVERAL_THAT_STEAL, cancel_one_that_waits);
}

/* A cancelled task still waits for what it forked; behind its shield the fork goes on. */
static intptr_t raise_after_a_while(void *arg)
{
    struct scene *scene = arg;
    raise_by_one(&scene->begun);
    wait_for(&scene->never, 1);
    scene->ended = weft_check();
    return 7;
}

static intptr_t join_behind_a_shield(void *arg)
{
    struct scene *scene = arg;
    weft_fork fork;
    CHECK_EQ(weft_shield(1), 0);
    weft_fork_go(&fork, raise_after_a_while, scene);
    CHECK_EQ(weft_fork_join(&fork), 7);
    CHECK_EQ(scene->ended, 0);
    CHECK_EQ(weft_shield(0), 0);
    return weft_check();
}

static intptr_t cancel_a_shielded_one(void *arg)
{
    struct scene scene = {.setting = arg};
    weft_task *task = go(join_behind_a_shield, &scene);
    wait_for(&scene.begun, 1);
    CHECK_EQ(weft_cancel(task), 0);
    raise_by_one(&scene.never);
    CHECK_EQ(weft_await(task), -ECANCELED);
    return 0;
}

static void a_shield_holds_for_forks_too(void)
{
    run_under(EVERYWHERE, cancel_a_shielded_one);
}

static intptr_t run_out_of_time(void *arg)
{
    struct scene scene = {.setting = arg};
    (void)weft_deadline(wf_clock_now() + 1000000);
    weft_fork fork;
    weft_fork_go(&fork, stay_until_told, &scene);
    if (is_stealing(scene.setting)) {
        hold_for(&scene.begun, 1);
    }
    CHECK_EQ(weft_fork_join(&fork), -ETIMEDOUT);
    CHECK_EQ(scene.ended, -ETIMEDOUT);
    (void)weft_deadline(WEFT_NEVER);
    return 0;
}

static void a_fork_runs_out_of_time_with_its_task(void)
{
    run_under(EVERYWHERE, run_out_of_time);
}

/* ---- failing --------------------------------------------------------------------------------- */

static intptr_t fail_with_words(void *arg)
{
    raise_by_one(arg);
    weft_fail(-EDOM, "no %s", "luck");
}

static intptr_t fork_one_that_fails(void *arg)
{
    struct scene *scene = arg;
    weft_fork fork;
    weft_fork_go(&fork, fail_with_words, &scene->begun);
    if (is_stealing(scene->setting)) {
        hold_for(&scene->begun, 1);
    }
    (void)weft_fork_join(&fork);
    return 0; /* not reached */
}

static intptr_t await_a_failed_forker(void *arg)
{
    struct scene scene = {.setting = arg};
    char text[32];
    weft_task *task = go(fork_one_that_fails, &scene);
    intptr_t result = 0;
    CHECK_EQ(weft_join(task, &result), 0);
    CHECK_EQ(result, -EDOM);
    CHECK_EQ(weft_task_message(task, text, sizeof(text)), 7);
    CHECK_STR(text, "no luck");
    weft_drop(task);
    return 0;
}

static void a_fork_that_fails_fails_its_task(void)
{
    run_under(EVERYWHERE, await_a_failed_forker);
}

/* The frame is gone when the task has failed: no fork may be in it any more. */
static intptr_t fail_beside_forks(void *arg)
{
    struct scene *scene = arg;
    int cells[20] = {0};
    weft_fork forks[20];
    weft_fork_go(&forks[0], stay_until_told, scene);
    if (is_stealing(scene->setting)) {
        hold_for(&scene->begun, 1);
    }
    for (int i = 1; i < 20; i++) {
        weft_fork_go(&forks[i], echo, &cells[i]);
    }
    weft_fail(-EDOM, NULL);
}

static intptr_t await_one_that_failed_beside_forks(void *arg)
{
    struct scene scene = {.setting = arg, .ended = 1};
    CHECK_EQ(weft_await(go(fail_beside_forks, &scene)), -EDOM);
    const bool has_begun = wf_load_acquire(&scene.begun) > 0; /* to stay_until_told */
    CHECK(has_begun || !is_stealing(arg));
    CHECK_EQ(scene.ended, has_begun ? -ECANCELED : 1); /* cancelled and waited for */
    return 0;
}

static void a_task_that_fails_leaves_no_fork_behind(void)
{
    run_under(EVERYWHERE, await_one_that_failed_beside_forks);
}

/* ---- closing --------------------------------------------------------------------------------- */

/* A fork that never ends, and a forker that waits for it, when the runtime is forced to close. */
static intptr_t stay_for_ever(void *arg)
{
    struct scene *scene = arg;
    raise_by_one(&scene->begun);
    wait_for(&scene->never, 1); /* the runtime is closed by force before */
    return 0;
}

static intptr_t fork_one_for_ever(void *arg)
{
    struct scene *scene = arg;
    weft_fork forks[10];
    weft_fork_go(&forks[0], stay_for_ever, scene);
    if (is_stealing(scene->setting)) {
        hold_for(&scene->begun, 1);
    }
    for (int i = 1; i < 10; i++) {
        weft_fork_go(&forks[i], stay_for_ever, scene);
    }
    return weft_fork_join(&forks[9]);
}

static void close_by_force(weft_runtime *runtime, const struct setting *setting)
{
    static struct scene scene;
    scene = (struct scene){.setting = setting};
    weft_task *task = go_into(runtime, fork_one_for_ever, &scene);
    wait_for(&scene.begun, is_stealing(setting) ? 2 : 1);
    CHECK_EQ(weft_runtime_close(runtime, 1), -ETIMEDOUT);
    CHECK_EQ(weft_await(task), -ECANCELED);
}

/* Memory that is not given back is seen by the sanitizer. */
static void a_forced_close_ends_forks(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        close_by_force(runtime, tour.setting);
    }
}

/* ---- without memory -------------------------------------------------------------------------- */

static intptr_t add_leaves(void *arg)
{
    const intptr_t depth = (intptr_t)arg;
    if (depth == 0) {
        return 1;
    }
    weft_fork fork;
    weft_fork_go(&fork, add_leaves, (void *)(depth - 1));
    const intptr_t sum = add_leaves((void *)(depth - 1));
    return sum + weft_fork_join(&fork);
}

/* More than there is memory for tasks at the beginning. */
enum { MANY_FORKS = WF_TASK_SLAB_COUNT + 16 };

/* One is taken and waits; so the others, which are more than there are places, become tasks. */
static intptr_t fork_without_memory(void *arg)
{
    struct faults *faults = arg;
    wf_atomic_u32 cell = {0};
    weft_task *last = go(stand_by, &cell);
    weft_fork forks[MANY_FORKS];
    faults_begin(faults);
    for (int i = 0; i < MANY_FORKS; i++) {
        weft_fork_go(&forks[i], add_leaves, (void *)3);
    }
    (void)weft_yield();
    weft_fork raising;
    weft_fork_go(&raising, count_up, &cell);
    (void)weft_fork_join(&raising);
    CHECK_EQ(weft_await(last), 0);
    for (int i = MANY_FORKS; i-- > 0;) {
        CHECK_EQ(weft_fork_join(&forks[i]), 8);
    }
    faults_end(faults);
    return 0;
}

static void a_fork_does_not_need_memory(void)
{
    fail_each(fork_without_memory, 0);
}

/* A stack so large that each has a mapping of its own, so that a worker that wants to run the fork
 * has to ask for one: the one that takes it, or the one that finds it when its task waits. */
static intptr_t fork_without_a_stack(void *arg)
{
    struct faults *faults = arg;
    wf_atomic_u32 begun = {0};
    weft_fork forks[2];
    faults_begin(faults);
    weft_fork_go(&forks[0], count_up, &begun);
    const char *what = NULL;
    /* For a while only: whoever was refused a stack need not come back. */
    const int64_t end_ns = wf_clock_now() + 300000;
    while (wf_load_acquire(&begun) == 0 && !wf_fault_hit(&what) && wf_clock_now() < end_ns) {
        (void)sched_yield();
    }
    weft_fork_go(&forks[1], count_up, &begun);
    const intptr_t seven = weft_await(weft_go(echo, (void *)7));
    CHECK(seven == 7 || seven == -ENOMEM);
    CHECK_EQ(weft_fork_join(&forks[1]), 0);
    CHECK_EQ(weft_fork_join(&forks[0]), 0);
    CHECK_EQ(wf_load_acquire(&begun), 2);
    return 0;
}

static intptr_t start_one_that_needs_much(void *arg)
{
    const weft_task_options options = {.stack_size = (size_t)8 << 20};
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn(&task, fork_without_a_stack, arg, &options), 0);
    CHECK_EQ(weft_await(task), 0);
    return 0;
}

static void a_fork_does_not_need_a_stack(void)
{
    fail_each(start_one_that_needs_much, 0);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static const weft_options one = {.workers = 1};
static const weft_options two = {.workers = 2};

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

static intptr_t join_in_the_wrong_order(void *arg)
{
    weft_fork first;
    weft_fork second;
    weft_fork_go(&first, echo, arg);
    weft_fork_go(&second, echo, arg);
    (void)weft_fork_join(&first);
    (void)weft_fork_join(&second);
    return 0;
}

static void run_in_the_wrong_order(void)
{
    (void)weft_run(join_in_the_wrong_order, NULL, &one);
}

static void run_in_the_wrong_order_beside_others(void)
{
    (void)weft_run(join_in_the_wrong_order, NULL, &two);
}

static void a_join_out_of_order_is_told(void)
{
    if (!HAS_ASSERTS) {
        tap_skip("built without assertions");
    }
    check_aborts(run_in_the_wrong_order, "fork");
    check_aborts(run_in_the_wrong_order_beside_others, "fork");
}

static intptr_t return_without_a_join(void *arg)
{
    weft_fork fork;
    weft_fork_go(&fork, echo, arg);
    return 0;
}

static void run_without_a_join(void)
{
    (void)weft_run(return_without_a_join, NULL, &one);
}

static void a_task_that_ends_with_an_unjoined_fork_is_stopped(void)
{
    check_aborts(run_without_a_join, "ended with a fork in its frame");
}

static intptr_t go_deeper_for_ever(void *arg)
{
    volatile char frame[256];
    weft_fork fork;
    frame[0] = 1;
    weft_fork_go(&fork, go_deeper_for_ever, arg);
    return weft_fork_join(&fork) + frame[0];
}

static void run_too_deep(void)
{
    (void)weft_run(go_deeper_for_ever, NULL, &two);
}

static void a_recursion_without_end_is_reported(void)
{
#ifdef WF_TSAN
    tap_skip("the frame that does not fit may be the sanitizer's, with its own lock held");
#endif
    check_aborts(run_too_deep, "stack");
}

static const struct tap_test tests[] = {
    TAP_TEST(who_cancels_a_task_cancels_its_forks),
    TAP_TEST(a_join_passes_a_cancel_on_and_waits),
    TAP_TEST(a_shield_holds_for_forks_too),
    TAP_TEST(a_fork_runs_out_of_time_with_its_task),
    TAP_TEST(a_fork_that_fails_fails_its_task),
    TAP_TEST(a_task_that_fails_leaves_no_fork_behind),
    TAP_TEST(a_forced_close_ends_forks),
    TAP_TEST_LIMIT(a_fork_does_not_need_memory, 60),
    TAP_TEST_LIMIT(a_fork_does_not_need_a_stack, 60),
    TAP_TEST(a_join_out_of_order_is_told),
    TAP_TEST(a_task_that_ends_with_an_unjoined_fork_is_stopped),
    TAP_TEST(a_recursion_without_end_is_reported),
};
TAP_MAIN(tests)
