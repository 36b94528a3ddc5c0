/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a process may fork while its tasks run: the parent does not notice, and the child may
 *         exec or exit, is told that it has no runtime, and is stopped if it goes on as if it had.
 * Method: forks in tasks and beside them, under every setting, while others work; what the child
 *         found is its exit status.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched_aids.h"

enum { GOOD = 7 };

/* [child]  The number of what was not as it should be; GOOD if all was. */
static int look_around(weft_runtime *runtime, weft_task *task)
{
    weft_task *out = NULL;
    weft_runtime *another = NULL;
    const bool as_expected[] = {
        weft_self() == NULL,
        weft_runtime_self() == NULL,
        weft_go(echo, NULL) == NULL,
        weft_spawn(&out, echo, NULL, NULL) == -EPERM,
        weft_runtime_spawn(runtime, &out, echo, NULL, NULL) == -EPERM,
        weft_await(task) == -EPERM,
        weft_runtime_open(&another, NULL) == -EPERM,
        weft_run(echo, NULL, NULL) == -EPERM,
        weft_stop_the_world(runtime) == -EPERM,
        weft_runtime_close(runtime, 0) == -EPERM,
        weft_yield() == 0,
    };
    for (int i = 0; i < (int)(sizeof(as_expected) / sizeof(as_expected[0])); i++) {
        if (!as_expected[i]) {
            return 100 + i;
        }
    }
    return GOOD;
}

static void check_end(pid_t pid)
{
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), GOOD);
}

static intptr_t fork_in_task(void *arg)
{
    (void)arg;
    wf_atomic_u32 release = {0};
    weft_runtime *runtime = weft_runtime_self();
    weft_task *others[4];
    for (size_t i = 0; i < 4; i++) {
        others[i] = go(stand_by, &release);
    }
    for (unsigned i = 0; i < 3; i++) {
        const pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            _exit(look_around(runtime, others[0]));
        }
        check_end(pid);
        CHECK_EQ(weft_await(go(echo, (void *)5)), 5);
    }
    raise_by_one(&release);
    CHECK_EQ(weft_await_all(others, 4, NULL), 0);
    return 0;
}

static void a_task_may_fork_and_goes_on(void)
{
    run_under(EVERYWHERE, fork_in_task);
}

static void fork_beside(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    wf_atomic_u32 release = {0};
    weft_task *task = go_into(runtime, stand_by, &release);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        _exit(look_around(runtime, task));
    }
    check_end(pid);
    raise_by_one(&release);
    CHECK_EQ(weft_await(task), 0);
}

static void a_thread_beside_may_fork(void)
{
    open_under(EVERYWHERE, fork_beside);
}

static intptr_t exec_in_child(void *arg)
{
    (void)arg;
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
        _exit(1);
    }
    check_end(pid);
    return 0;
}

static void the_child_may_call_exec(void)
{
    run_under(ON_SEVERAL, exec_in_child);
}

static intptr_t count_to(void *arg)
{
    return (intptr_t)arg;
}

/* Nothing is left of a runtime that was closed. */
static void a_child_without_runtimes_may_open_one(void)
{
    const weft_options one = {.size = sizeof(one), .workers = 1};
    CHECK_EQ(weft_run(count_to, (void *)3, &one), 3);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        _exit((int)weft_run(count_to, (void *)GOOD, &one));
    }
    check_end(pid);
}

static intptr_t fork_and_return(void *arg)
{
    const pid_t pid = fork();
    if (pid == 0) {
        if (arg != NULL) {
            weft_fail(-EIO, "in the child");
        }
        return 0;
    }
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    return 0;
}

static weft_poll fork_in_poll(weft_cx *cx, void *state, intptr_t *result)
{
    (void)cx;
    (void)state;
    *result = fork_and_return(NULL);
    return WEFT_READY;
}

static intptr_t spawn_poll(void *arg)
{
    weft_task *task = NULL;
    (void)arg;
    CHECK_EQ(weft_spawn_poll(&task, fork_in_poll, NULL, 0, NULL), 0);
    return weft_await(task);
}

static void return_in_child(void)
{
    const weft_options one = {.size = sizeof(one), .workers = 1};
    CHECK_EQ(weft_run(fork_and_return, NULL, &one), 0);
    CHECK_EQ(weft_run(fork_and_return, (void *)1, &one), 0);
    CHECK_EQ(weft_run(spawn_poll, NULL, &one), 0);
}

static void a_task_that_returns_in_the_child_is_stopped(void)
{
    char text[1024];
    const int status = tap_run_child(return_in_child, text, sizeof(text));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    const char *first = strstr(text, "in the child of fork");
    CHECK(first != NULL);
    const char *second = strstr(first, "outside a green thread");
    CHECK(second != NULL);
    CHECK(strstr(second, "in the child of fork") != NULL);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_task_may_fork_and_goes_on),
    TAP_TEST(a_thread_beside_may_fork),
    TAP_TEST(the_child_may_call_exec),
    TAP_TEST(a_child_without_runtimes_may_open_one),
    TAP_TEST(a_task_that_returns_in_the_child_is_stopped),
};
TAP_MAIN(tests)
