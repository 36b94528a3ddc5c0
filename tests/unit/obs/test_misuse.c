/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a misuse of the API aborts at once, with a message that names the mistake.
 * Method: each misuse in a child process, which must abort with that message; errors that a call
 *         returns are in the tests of that call.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched_helpers.h"
#include <weft/blocking.h>

static const weft_runtime_options one = {.workers = 1};

static intptr_t return_arg(void *arg)
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
    weft_task *task = weft_go(return_arg, arg);
    CHECK_EQ(weft_join(task, NULL), 0);
    weft_task_unref(task);
    weft_task_unref(task);
    return 0;
}

static intptr_t await_twice(void *arg)
{
    weft_task *task = weft_go(return_arg, arg);
    (void)weft_await(task);
    (void)weft_await(task);
    return 0;
}

/* The task still lives, and owns a reference. */
static intptr_t drop_live_task_twice(void *arg)
{
    weft_task *task = weft_go(return_arg, arg);
    weft_task_unref(task);
    weft_task_unref(task);
    return 0;
}

static intptr_t join_after_await(void *arg)
{
    weft_task *task = weft_go(return_arg, arg);
    (void)weft_await(task);
    return weft_join(task, NULL);
}

static intptr_t try_join_after_await(void *arg)
{
    weft_task *task = weft_go(return_arg, arg);
    (void)weft_await(task);
    return weft_try_join(task, NULL);
}

static intptr_t cancel_after_await(void *arg)
{
    weft_task *task = weft_go(return_arg, arg);
    (void)weft_await(task);
    return weft_cancel(task);
}

static void run_drop_live_task_twice(void)
{
    (void)weft_run(drop_live_task_twice, NULL, &one);
}

static void run_join_after_await(void)
{
    (void)weft_run(join_after_await, NULL, &one);
}

static void run_try_join_after_await(void)
{
    (void)weft_run(try_join_after_await, NULL, &one);
}

static void run_cancel_after_await(void)
{
    (void)weft_run(cancel_after_await, NULL, &one);
}

static void run_drop_twice(void)
{
    (void)weft_run(drop_twice, NULL, &one);
}

static void run_await_twice(void)
{
    (void)weft_run(await_twice, NULL, &one);
}

static void handle_used_after_release_aborts(void)
{
    check_aborts(run_drop_twice, "weft_task_unref: handle already released");
    check_aborts(run_drop_live_task_twice, "weft_task_unref: handle already released");
    check_aborts(run_join_after_await, "weft_join: handle already released");
    check_aborts(run_try_join_after_await, "weft_try_join: handle already released");
    check_aborts(run_cancel_after_await, "weft_cancel: handle already released");
    check_aborts(run_await_twice, "weft_await: handle already released");
}

/* ---- NULL ------------------------------------------------------------------------------------ */

/* The calls go through pointers to functions without WEFT_NONNULL: with it, the sanitizer of the
 * asan build reports a NULL before the library does.  The NULL is volatile, because compilers and
 * analyzers reject one that they see. */
static void *volatile no_object;

static void lock_null(void)
{
    int (*volatile call)(weft_mutex *) = weft_mutex_lock;
    (void)call(no_object);
}

static void send_to_null(void)
{
    int item = 0;
    int (*volatile call)(weft_chan *, const void *) = weft_chan_send;
    (void)call(no_object, &item);
}

static void receive_into_null(void)
{
    weft_chan *chan = NULL;
    int (*volatile call)(weft_chan *, void *) = weft_chan_recv;
    CHECK_EQ(weft_chan_new(&chan, sizeof(int), 1), 0);
    (void)call(chan, no_object);
}

static void ask_length_of_null(void)
{
    size_t (*volatile call)(const weft_chan *) = weft_chan_length;
    (void)call(no_object);
}

static void run_null(void)
{
    intptr_t (*volatile call)(weft_fn, void *, const weft_runtime_options *) = weft_run;
    (void)call((weft_fn)(uintptr_t)no_object, NULL, NULL);
}

static void join_null(void)
{
    int (*volatile call)(weft_task *, intptr_t *) = weft_join;
    (void)call(no_object, NULL);
}

static void scan_null(void)
{
    (void)weft_par_scan_i64(NULL, 1);
}

static void null_argument_aborts(void)
{
#ifdef NDEBUG
    tap_skip("the library is built without assertions");
#endif
    check_aborts(lock_null, "weft_mutex_lock: mutex is NULL");
    check_aborts(send_to_null, "weft_chan_send: chan is NULL");
    check_aborts(receive_into_null, "weft_chan_recv: item is NULL");
    check_aborts(ask_length_of_null, "weft_chan_length: chan is NULL");
    check_aborts(run_null, "weft_run: fn is NULL");
    check_aborts(join_null, "weft_join: task is NULL");
    check_aborts(scan_null, "weft_par_scan_i64: items is NULL");
}

/* ---- frames -------------------------------------------------------------------------------- */

static intptr_t leave_scope_open(void *arg)
{
    weft_scope scope;
    return (intptr_t)arg + weft_scope_open(&scope, NULL);
}

static void undo(void *arg)
{
    (void)arg;
}

static intptr_t leave_cleanup_pushed(void *arg)
{
    weft_cleanup cleanup;
    weft_cleanup_push(&cleanup, undo, arg);
    return 0;
}

static void run_leave_scope_open(void)
{
    (void)weft_run(leave_scope_open, NULL, &one);
}

static void run_leave_cleanup_pushed(void)
{
    (void)weft_run(leave_cleanup_pushed, NULL, &one);
}

static intptr_t leave_lock_held(void *arg)
{
    weft_mutex mutex = {0};
    (void)arg;
    return weft_mutex_lock(&mutex);
}

static void run_leave_lock_held(void)
{
    weft_task_options options = {.size = sizeof(options), .name = "forgetful"};
    weft_runtime *runtime = NULL;
    weft_task *task = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &one), 0);
    CHECK_EQ(weft_runtime_spawn(runtime, &task, leave_lock_held, NULL, &options), 0);
    (void)weft_await(task);
}

/* The message names the task, too. */
static void task_end_with_open_scope_cleanup_or_lock_aborts(void)
{
    check_aborts(run_leave_lock_held, "\"forgetful\", spawned at ");
    check_aborts(run_leave_lock_held, "ended with a held lock in its stack frame");
    check_aborts(run_leave_scope_open, "ended with an open scope");
    check_aborts(run_leave_cleanup_pushed, "ended with a cleanup");
}

/* ---- stop the world -------------------------------------------------------------------------- */

static intptr_t yield_in_a_stopped_world(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_world_stop(weft_runtime_self()), 0);
    return weft_yield();
}

static intptr_t end_in_a_stopped_world(void *arg)
{
    (void)arg;
    return weft_world_stop(weft_runtime_self());
}

static intptr_t block_in_a_stopped_world(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_world_stop(weft_runtime_self()), 0);
    weft_block_begin();
    weft_block_end();
    return weft_world_start(weft_runtime_self());
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

static void wait_or_end_in_a_stopped_world_aborts(void)
{
    check_aborts(run_yield_in_a_stopped_world, "has stopped the world and must not wait or end");
    check_aborts(run_block_in_a_stopped_world, "weft_block_begin: the task has stopped the world");
    check_aborts(run_end_in_a_stopped_world, "has stopped the world and must not wait or end");
}

/* ---- weft_fail ------------------------------------------------------------------------------- */

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

static void fail_without_error_or_outside_a_task_aborts(void)
{
    check_aborts(run_fail_without_an_error, "weft_fail: the error must be negative");
    check_aborts(fail_outside, "weft_fail: not in a green thread");
}

/* ---- messages -------------------------------------------------------------------------------- */

static void run_with_bad_environment(void)
{
    CHECK_EQ(setenv("WEFT_WORKERS", "abc", 1), 0);
    CHECK_EQ(weft_run(return_arg, NULL, NULL), -EINVAL);
}

static void options_name_a_bad_environment_variable_on_stderr(void)
{
    char text[4096];
    CHECK_EQ(tap_run_child(run_with_bad_environment, text, sizeof(text)), 0);
    CHECK(strstr(text, "WEFT_WORKERS=abc") != NULL);
}

static intptr_t fail_with_message(void *arg)
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
    CHECK_EQ(weft_scope_go(&scope, fail_with_message, NULL), 0);
    return weft_scope_close(&scope);
}

/* The closer of a scope and the caller of weft_run have no handle of the failed task. */
static void scope_and_run_options_return_the_failure_message(void)
{
    char message[64] = "old";
    weft_runtime_options options = {.workers = 1};
    CHECK_EQ(weft_run(fail_in_a_scope, message, &options), -EIO);
    CHECK(strcmp(message, "disk 7 is gone") == 0);
    options.message = message;
    options.message_size = 8;
    CHECK_EQ(weft_run(fail_with_message, NULL, &options), -EIO);
    CHECK(strcmp(message, "disk 7 ") == 0); /* truncated */
    CHECK_EQ(weft_run(return_arg, NULL, &options), 0);
    CHECK(strcmp(message, "") == 0);
}

static void run_and_fail_with_message(void)
{
    CHECK_EQ(weft_run(fail_with_message, NULL, NULL), -EIO);
}

/* The caller gave no buffer: the message must not be lost. */
static void run_prints_the_message_of_the_first_task_without_a_buffer(void)
{
    char text[4096];
    CHECK_EQ(tap_run_child(run_and_fail_with_message, text, sizeof(text)), 0);
    CHECK(strstr(text, "weft: main failed: disk 7 is gone\n") != NULL);
}

/* The task does not end before it has read that weft_run waits for it. */
static intptr_t read_own_name(void *arg)
{
    const int *fd = arg;
    char text[4096] = "";
    CHECK_EQ(weft_shield_begin(), 0);
    CHECK(weft_read(*fd, text, sizeof(text) - 1) > 0);
    CHECK(strstr(text, "weft: weft_run still waits for task ") != NULL);
    CHECK(strstr(text, "\"stubborn\", spawned at ") != NULL);
    CHECK_EQ(weft_shield_end(), 0);
    return 0;
}

static intptr_t leave_task_behind(void *arg)
{
    const weft_task_options options = {.name = "stubborn"};
    return weft_spawn(NULL, read_own_name, arg, &options);
}

static void run_names_a_task_for_which_it_waits(void)
{
    int ends[2];
    const weft_runtime_options options = {.workers = 2};
    const int old = dup(STDERR_FILENO);
    CHECK_EQ(pipe(ends), 0);
    CHECK(dup2(ends[1], STDERR_FILENO) >= 0);
    CHECK_EQ(weft_run(leave_task_behind, &ends[0], &options), 0);
    CHECK(dup2(old, STDERR_FILENO) >= 0);
    CHECK_EQ(close(old) + close(ends[1]) + close(ends[0]), 0);
}

/* ---- poll tasks ------------------------------------------------------------------------------ */

static weft_poll_result wait_in_a_poll(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    (void)arg;
    *result = weft_sleep(WEFT_SECOND);
    return WEFT_POLL_READY;
}

/* The task has not run yet: a green thread would yield to it before it waits. */
static weft_poll_result await_new_task_in_a_poll(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    *result = weft_await(weft_go(return_arg, arg));
    return WEFT_POLL_READY;
}

/* The ended tasks leave a warm stack: the new task can begin at once. */
static intptr_t poll_beside_warm_stack(void *arg)
{
    weft_task *task = NULL;
    for (int i = 0; i < 40; i++) {
        CHECK_EQ(weft_await(weft_go(return_arg, arg)), 0);
    }
    CHECK_EQ(weft_spawn_poll(&task, await_new_task_in_a_poll, NULL, 0, NULL), 0);
    return weft_await(task);
}

static void run_await_in_a_poll(void)
{
    (void)weft_run(poll_beside_warm_stack, NULL, &one);
}

static weft_poll_result fail_in_a_poll(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    (void)arg;
    *result = 0;
    weft_fail(-EIO, NULL);
}

static weft_poll_result clean_in_a_poll(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    (void)arg;
    *result = 0;
    weft_cleanup cleanup;
    weft_cleanup_push(&cleanup, free, NULL);
    return WEFT_POLL_READY;
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
    static weft_sleep_future sleeper;
    intptr_t result;
    weft_branch branches[2] = {{.future = &sleeper.future}};
    weft_sleep_future now;
    weft_sleep_future_init(&sleeper, weft_time_after(WEFT_SECOND));
    weft_sleep_future_init(&now, 0);
    branches[1].future = &now.future;
    weft_join_future select;
    weft_join_future_init(&select, WEFT_JOIN_SELECT, branches, 2);
    result = weft_future_await(&select.future);
    return result; /* the other future still waits */
}

static void run_leave_a_future(void)
{
    (void)weft_run(leave_a_future, NULL, &one);
}

static void poll_task_that_waits_fails_or_pushes_a_cleanup_aborts(void)
{
    check_aborts(run_wait_in_a_poll, "a poll task must not block");
    check_aborts(run_await_in_a_poll, "a poll task must not block");
    check_aborts(run_fail_in_a_poll, "weft_fail: not in a green thread");
    check_aborts(run_clean_in_a_poll, "weft_cleanup_push: not in a green thread");
    check_aborts(run_leave_a_future, "ended with a pending future");
}

/* ---- threads --------------------------------------------------------------------------------- */

static intptr_t exit_thread(void *arg)
{
    pthread_exit(arg);
}

static intptr_t cancel_own_thread(void *arg)
{
    (void)arg;
    (void)pthread_cancel(pthread_self());
    pthread_testcancel();
    return 0;
}

static weft_poll_result exit_in_a_poll(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    *result = exit_thread(arg);
    return WEFT_POLL_READY;
}

static intptr_t call_blocking(void *arg)
{
    return weft_blocking_call(exit_thread, arg);
}

static void run_exit_thread(void)
{
    (void)weft_run(exit_thread, NULL, &one);
}

static void run_cancel_own_thread(void)
{
    (void)weft_run(cancel_own_thread, NULL, &one);
}

static void run_exit_in_a_poll(void)
{
    run_poll(exit_in_a_poll);
}

static void run_exit_in_a_blocking_function(void)
{
    (void)weft_run(call_blocking, NULL, &one);
}

static void thread_that_a_task_or_blocking_function_ends_aborts(void)
{
#ifdef WF_TSAN
    tap_skip("the sanitizer itself ends a process that calls pthread_exit in a fiber");
#endif
    check_aborts(run_exit_thread, "\"main\"");
    check_aborts(run_exit_thread, "a task must not end its thread by pthread_exit");
    check_aborts(run_cancel_own_thread, "a task must not end its thread by pthread_exit");
    check_aborts(run_exit_in_a_poll, "a task must not end its thread by pthread_exit");
    check_aborts(run_exit_in_a_blocking_function,
                 "a blocking function must not end its thread by pthread_exit");
}

static const struct tap_test tests[] = {
    TAP_TEST(handle_used_after_release_aborts),
    TAP_TEST(null_argument_aborts),
    TAP_TEST(task_end_with_open_scope_cleanup_or_lock_aborts),
    TAP_TEST(wait_or_end_in_a_stopped_world_aborts),
    TAP_TEST(fail_without_error_or_outside_a_task_aborts),
    TAP_TEST(options_name_a_bad_environment_variable_on_stderr),
    TAP_TEST(scope_and_run_options_return_the_failure_message),
    TAP_TEST(run_prints_the_message_of_the_first_task_without_a_buffer),
    TAP_TEST(run_names_a_task_for_which_it_waits),
    TAP_TEST(poll_task_that_waits_fails_or_pushes_a_cleanup_aborts),
    TAP_TEST(thread_that_a_task_or_blocking_function_ends_aborts),
};
TAP_MAIN(tests)
