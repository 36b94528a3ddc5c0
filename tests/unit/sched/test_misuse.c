/* SPDX-License-Identifier: MIT */
/*
 * Goal:   whoever uses the API wrongly is told what was wrong, and told at once.
 * Method: each misuse in a child, which must end by abort with the words that name it; what a call
 *         can say by its result is in the tests of that call.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched_aids.h"

static const weft_options one = {.workers = 1};

static intptr_t nothing(void *arg)
{
    return (intptr_t)arg;
}

static void check_aborts(void (*run)(void), const char *words)
{
    char text[4096];
    int status = tap_run_child(run, text, sizeof(text));
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    CHECK(strstr(text, words) != NULL);
}

/* ---- handles ------------------------------------------------------------------------------- */

static intptr_t drop_twice(void *arg)
{
    weft_task *task = weft_go(nothing, arg);
    CHECK_EQ(weft_join(task, NULL), 0);
    weft_drop(task);
    weft_drop(task);
    return 0;
}

static intptr_t await_twice(void *arg)
{
    weft_task *task = weft_go(nothing, arg);
    (void)weft_await(task);
    (void)weft_await(task);
    return 0;
}

/* The task lives on, and has a reference of its own. */
static intptr_t drop_a_live_one_twice(void *arg)
{
    weft_task *task = weft_go(nothing, arg);
    weft_drop(task);
    weft_drop(task);
    return 0;
}

static intptr_t join_what_was_awaited(void *arg)
{
    weft_task *task = weft_go(nothing, arg);
    (void)weft_await(task);
    return weft_join(task, NULL);
}

static intptr_t try_to_join_what_was_awaited(void *arg)
{
    weft_task *task = weft_go(nothing, arg);
    (void)weft_await(task);
    return weft_try_join(task, NULL);
}

static intptr_t cancel_what_was_awaited(void *arg)
{
    weft_task *task = weft_go(nothing, arg);
    (void)weft_await(task);
    return weft_cancel(task);
}

static void run_drop_a_live_one_twice(void)
{
    (void)weft_run(drop_a_live_one_twice, NULL, &one);
}

static void run_join_what_was_awaited(void)
{
    (void)weft_run(join_what_was_awaited, NULL, &one);
}

static void run_try_to_join_what_was_awaited(void)
{
    (void)weft_run(try_to_join_what_was_awaited, NULL, &one);
}

static void run_cancel_what_was_awaited(void)
{
    (void)weft_run(cancel_what_was_awaited, NULL, &one);
}

static void run_drop_twice(void)
{
    (void)weft_run(drop_twice, NULL, &one);
}

static void run_await_twice(void)
{
    (void)weft_run(await_twice, NULL, &one);
}

static void a_handle_is_given_back_once(void)
{
    check_aborts(run_drop_twice, "weft_drop of a handle that was given back");
    check_aborts(run_drop_a_live_one_twice, "weft_drop of a handle that was given back");
    check_aborts(run_join_what_was_awaited, "weft_join of a handle that was given back");
    check_aborts(run_try_to_join_what_was_awaited, "weft_try_join of a handle that was given back");
    check_aborts(run_cancel_what_was_awaited, "weft_cancel of a handle that was given back");
    check_aborts(run_await_twice, "weft_await of a handle that was given back");
}

/* ---- frames -------------------------------------------------------------------------------- */

static intptr_t forget_a_scope(void *arg)
{
    weft_scope scope;
    return (intptr_t)arg + weft_scope_open(&scope, NULL);
}

static void undo(void *arg)
{
    (void)arg;
}

static intptr_t forget_a_cleanup(void *arg)
{
    weft_cleanup cleanup;
    weft_cleanup_push(&cleanup, undo, arg);
    return 0;
}

static void run_forget_a_scope(void)
{
    (void)weft_run(forget_a_scope, NULL, &one);
}

static void run_forget_a_cleanup(void)
{
    (void)weft_run(forget_a_cleanup, NULL, &one);
}

static intptr_t forget_a_lock(void *arg)
{
    weft_mutex mutex = {0};
    (void)arg;
    return weft_mutex_lock(&mutex);
}

static void run_forget_a_lock(void)
{
    weft_task_options options = {.size = sizeof(options), .name = "forgetful"};
    weft_runtime *runtime = NULL;
    weft_task *task = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &one), 0);
    CHECK_EQ(weft_runtime_spawn(runtime, &task, forget_a_lock, NULL, &options), 0);
    (void)weft_await(task);
}

/* It is told which task it was, too. */
static void nothing_of_a_frame_outlives_it(void)
{
    check_aborts(run_forget_a_lock, "\"forgetful\", spawned at ");
    check_aborts(run_forget_a_lock, "ended with a lock in its frame");
    check_aborts(run_forget_a_scope, "ended with a scope open");
    check_aborts(run_forget_a_cleanup, "ended with a cleanup in its frame");
}

/* ---- the world ----------------------------------------------------------------------------- */

static intptr_t yield_in_a_stopped_world(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_stop_the_world(weft_runtime_self()), 0);
    return weft_yield();
}

static intptr_t end_in_a_stopped_world(void *arg)
{
    (void)arg;
    return weft_stop_the_world(weft_runtime_self());
}

static intptr_t block_in_a_stopped_world(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_stop_the_world(weft_runtime_self()), 0);
    weft_block_begin();
    weft_block_end();
    return weft_start_the_world(weft_runtime_self());
}

static void run_block_in_a_stopped_world(void)
{
    (void)weft_run(block_in_a_stopped_world, NULL, &one);
}

static void run_yield_in_a_stopped_world(void)
{
    (void)weft_run(yield_in_a_stopped_world, NULL, &one);
}

static void run_end_in_a_stopped_world(void)
{
    (void)weft_run(end_in_a_stopped_world, NULL, &one);
}

static void who_stopped_the_world_has_to_start_it(void)
{
    check_aborts(run_yield_in_a_stopped_world, "who stopped the world waits or ends");
    check_aborts(run_block_in_a_stopped_world, "weft_block_begin by whoever has stopped the world");
    check_aborts(run_end_in_a_stopped_world, "who stopped the world waits or ends");
}

/* ---- failing ------------------------------------------------------------------------------- */

static intptr_t fail_without_an_error(void *arg)
{
    (void)arg;
    weft_fail(0, "nothing went wrong");
}

static void run_fail_without_an_error(void)
{
    (void)weft_run(fail_without_an_error, NULL, &one);
}

static void fail_outside(void)
{
    weft_fail(-EIO, "there is no task");
}

static void a_failure_is_an_error_of_a_task(void)
{
    check_aborts(run_fail_without_an_error, "weft_fail wants a negative error");
    check_aborts(fail_outside, "weft_fail outside a green thread");
}

/* ---- telling ------------------------------------------------------------------------------- */

static void run_with_bad_environment(void)
{
    CHECK_EQ(setenv("WEFT_WORKERS", "abc", 1), 0);
    CHECK_EQ(weft_run(nothing, NULL, NULL), -EINVAL);
}

static void a_bad_environment_is_named_on_stderr(void)
{
    char text[4096];
    CHECK_EQ(tap_run_child(run_with_bad_environment, text, sizeof(text)), 0);
    CHECK(strstr(text, "WEFT_WORKERS=abc") != NULL);
}

static intptr_t fail_with_words(void *arg)
{
    (void)arg;
    weft_fail(-EIO, "disk %d is gone", 7);
}

static intptr_t fail_in_a_scope(void *arg)
{
    char *message = arg;
    weft_scope scope;
    const weft_scope_options options = {.message = message, .message_size = 64};
    CHECK_EQ(weft_scope_open(&scope, &options), 0);
    CHECK_EQ(weft_scope_go(&scope, fail_with_words, NULL), 0);
    return weft_scope_close(&scope);
}

/* Who closes a scope, or runs a program, has no handle of the task that failed. */
static void messages_come_out_of_scopes_and_runs(void)
{
    char message[64] = "old";
    weft_options options = {.workers = 1};
    CHECK_EQ(weft_run(fail_in_a_scope, message, &options), -EIO);
    CHECK(strcmp(message, "disk 7 is gone") == 0);
    options.message = message;
    options.message_size = 8;
    CHECK_EQ(weft_run(fail_with_words, NULL, &options), -EIO);
    CHECK(strcmp(message, "disk 7 ") == 0); /* cut */
    CHECK_EQ(weft_run(nothing, NULL, &options), 0);
    CHECK(strcmp(message, "") == 0);
}

static void run_and_fail_with_words(void)
{
    CHECK_EQ(weft_run(fail_with_words, NULL, NULL), -EIO);
}

/* Nobody asked for them: they are not lost all the same. */
static void words_of_the_first_task_go_to_stderr(void)
{
    char text[4096];
    CHECK_EQ(tap_run_child(run_and_fail_with_words, text, sizeof(text)), 0);
    CHECK(strstr(text, "weft: main failed: disk 7 is gone\n") != NULL);
}

/* It does not end when it is asked to, before it has read that weft_run waits for it. */
static intptr_t read_who_is_left(void *arg)
{
    const int *fd = arg;
    char text[4096] = "";
    CHECK_EQ(weft_shield(1), 0);
    CHECK(weft_read(*fd, text, sizeof(text) - 1) > 0);
    CHECK(strstr(text, "weft: weft_run waits for task ") != NULL);
    CHECK(strstr(text, "\"stubborn\", spawned at ") != NULL);
    CHECK_EQ(weft_shield(0), 0);
    return 0;
}

static intptr_t leave_one_behind(void *arg)
{
    const weft_task_options options = {.name = "stubborn"};
    return weft_spawn(NULL, read_who_is_left, arg, &options);
}

static void who_does_not_end_is_named(void)
{
    int ends[2];
    const weft_options options = {.workers = 2};
    const int old = dup(STDERR_FILENO);
    CHECK_EQ(pipe(ends), 0);
    CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
    CHECK_EQ(weft_run(leave_one_behind, &ends[0], &options), 0);
    CHECK(dup2(old, STDERR_FILENO) >= 0);
    CHECK_EQ(close(old) + close(ends[1]) + close(ends[0]), 0);
}

/* ---- poll tasks ------------------------------------------------------------------------------ */

static weft_poll wait_in_a_poll(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    (void)arg;
    *result = weft_sleep(WEFT_SECOND);
    return WEFT_READY;
}

static weft_poll fail_in_a_poll(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    (void)arg;
    *result = 0;
    weft_fail(-EIO, NULL);
}

static weft_poll clean_in_a_poll(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    (void)arg;
    *result = 0;
    weft_cleanup cleanup;
    weft_cleanup_push(&cleanup, free, NULL);
    return WEFT_READY;
}

static intptr_t poll_once(void *arg)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, *(weft_poll_fn *)arg, NULL, 0, NULL), 0);
    return weft_await(task);
}

static void run_poll(weft_poll_fn fn)
{
    (void)weft_run(poll_once, &fn, &one);
}

static void run_wait_in_a_poll(void)
{
    run_poll(wait_in_a_poll);
}

static void run_fail_in_a_poll(void)
{
    run_poll(fail_in_a_poll);
}

static void run_clean_in_a_poll(void)
{
    run_poll(clean_in_a_poll);
}

static intptr_t leave_a_future(void *arg)
{
    (void)arg;
    static weft_sleep_future nap;
    intptr_t result;
    weft_branch branches[2] = {{.future = &nap.future}};
    weft_sleep_future now;
    weft_sleep_future_init(&nap, weft_in(WEFT_SECOND));
    weft_sleep_future_init(&now, 0);
    branches[1].future = &now.future;
    weft_join_future select;
    weft_join_future_init(&select, WEFT_JOIN_SELECT, branches, 2);
    result = weft_await_future(&select.future);
    return result; /* and the other one still waits */
}

static void run_leave_a_future(void)
{
    (void)weft_run(leave_a_future, NULL, &one);
}

static void what_a_poll_task_cannot_do_is_said(void)
{
    check_aborts(run_wait_in_a_poll, "a poll task waits");
    check_aborts(run_fail_in_a_poll, "weft_fail outside a green thread");
    check_aborts(run_clean_in_a_poll, "a cleanup outside a green thread");
    check_aborts(run_leave_a_future, "ended with a future in its frame");
}

static const struct tap_test tests[] = {
    TAP_TEST(a_handle_is_given_back_once),           TAP_TEST(nothing_of_a_frame_outlives_it),
    TAP_TEST(who_stopped_the_world_has_to_start_it), TAP_TEST(a_failure_is_an_error_of_a_task),
    TAP_TEST(a_bad_environment_is_named_on_stderr),  TAP_TEST(messages_come_out_of_scopes_and_runs),
    TAP_TEST(words_of_the_first_task_go_to_stderr),  TAP_TEST(who_does_not_end_is_named),
    TAP_TEST(what_a_poll_task_cannot_do_is_said),
};
TAP_MAIN(tests)
