/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a process may call fork() while its tasks run. The parent is not affected. The child may
 *         exec or exit; calls of the runtime return -EPERM there, and a task that continues in the
 *         child aborts.  The child blocks the signals of the opener, not those of the worker.
 * Method: fork() in tasks and in non-worker threads, under every setting, while other tasks run;
 *         the exit status of the child reports what it found.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched_helpers.h"
#include <weft/blocking.h>

enum { PASSED = 7 };

/* [child] Returns PASSED, or 100 plus the index of the first check that failed. */
static int check_child_calls(weft_runtime *runtime, weft_task *task)
{
    weft_task *out = NULL;
    weft_runtime *another = NULL;
    const bool as_expected[] = {
        weft_self() == NULL,
        weft_runtime_self() == NULL,
        weft_go(echo, NULL) == NULL,
        weft_spawn(&out, echo, NULL, NULL) == -EPERM,
        weft_runtime_spawn(runtime, &out, echo, NULL, NULL) == -EPERM,
        weft_await_all(&task, 1, NULL) == -EPERM,
        weft_await_first(&task, 1, NULL) == -EPERM,
        weft_await(task) == -EPERM, /* consumes the handle */
        weft_runtime_open(&another, NULL) == -EPERM,
        weft_run(echo, NULL, NULL) == -EPERM,
        weft_world_stop(runtime) == -EPERM,
        weft_runtime_trace_start(runtime, 16) == -EPERM,
        weft_runtime_trace_stop(runtime, STDOUT_FILENO) == -EPERM,
        weft_runtime_close(runtime, 0) == -EPERM,
        weft_yield() == 0,
    };
    for (int i = 0; i < (int)(sizeof(as_expected) / sizeof(as_expected[0])); i++) {
        if (!as_expected[i]) {
            return 100 + i;
        }
    }
    return PASSED;
}

static void check_end(pid_t pid)
{
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), PASSED);
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
            _exit(check_child_calls(runtime, others[0]));
        }
        check_end(pid);
        CHECK_EQ(weft_await(go(echo, (void *)5)), 5);
    }
    raise_by_one(&release);
    CHECK_EQ(weft_await_all(others, 4, NULL), 0);
    return 0;
}

static void process_fork_in_a_task_leaves_the_parent_intact(void)
{
    run_under(EVERYWHERE, fork_in_task);
}

static void fork_in_thread(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    wf_atomic_u32 release = {0};
    weft_task *task = go_into(runtime, stand_by, &release);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        _exit(check_child_calls(runtime, task));
    }
    check_end(pid);
    raise_by_one(&release);
    CHECK_EQ(weft_await(task), 0);
}

static void process_fork_in_a_non_worker_thread_leaves_the_parent_intact(void)
{
    open_under(EVERYWHERE, fork_in_thread);
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

static void process_fork_child_may_call_exec(void)
{
    run_under(ON_SEVERAL, exec_in_child);
}

/* ---- signals --------------------------------------------------------------------------------- */

/* [child]  Ends by SIGTERM, if the child does not block it. */
static void end_by_sigterm(void *is_exec)
{
    sigset_t blocked;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    if (sigismember(&blocked, SIGUSR1) != 1 || sigismember(&blocked, SIGUSR2) != 0) {
        _exit(1); /* the opener blocks only the first */
    }
    if (is_exec != NULL) {
        (void)execl("/bin/sh", "sh", "-c", "kill -TERM $$; exit 2", (char *)NULL);
    }
    (void)kill(getpid(), SIGTERM);
    _exit(3);
}

static intptr_t fork_and_terminate(void *is_exec)
{
    int status = 0;
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        end_by_sigterm(is_exec);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGTERM);
    return 0;
}

static intptr_t terminate_children(void *arg)
{
    (void)arg;
    CHECK_EQ(fork_and_terminate(NULL), 0);
    CHECK_EQ(fork_and_terminate((void *)1), 0);
    CHECK_EQ(weft_blocking_call(fork_and_terminate, NULL), 0);
    CHECK_EQ(weft_blocking_call(fork_and_terminate, (void *)1), 0);
    return 0;
}

static void process_fork_child_blocks_the_signals_of_the_opener(void)
{
    sigset_t set;
    CHECK_EQ(sigemptyset(&set), 0);
    CHECK_EQ(sigaddset(&set, SIGUSR1), 0);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    run_under(EVERYWHERE, terminate_children);
}

/* ---- children that use the runtime ----------------------------------------------------------- */

static intptr_t return_arg(void *arg)
{
    return (intptr_t)arg;
}

/* A closed runtime leaves nothing behind that forbids another one in the child. */
static void process_fork_child_without_runtimes_may_open_one(void)
{
    const weft_runtime_options one = {.size = sizeof(one), .workers = 1};
    CHECK_EQ(weft_run(return_arg, (void *)3, &one), 3);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        _exit((int)weft_run(return_arg, (void *)PASSED, &one));
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

static weft_poll_result fork_in_poll(weft_cx *cx, void *state, intptr_t *result)
{
    (void)cx;
    (void)state;
    *result = fork_and_return(NULL);
    return WEFT_POLL_READY;
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
    const weft_runtime_options one = {.size = sizeof(one), .workers = 1};
    CHECK_EQ(weft_run(fork_and_return, NULL, &one), 0);
    CHECK_EQ(weft_run(fork_and_return, (void *)1, &one), 0);
    CHECK_EQ(weft_run(spawn_poll, NULL, &one), 0);
}

static void process_fork_child_aborts_when_a_task_returns(void)
{
    char text[1024];
    const int status = tap_run_child(return_in_child, text, sizeof(text));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    const char *first = strstr(text, "in the child of fork");
    CHECK(first != NULL);
    const char *second = strstr(first, "not in a green thread");
    CHECK(second != NULL);
    CHECK(strstr(second, "in the child of fork") != NULL);
}

struct taken_fork {
    wf_atomic_u32 is_taken;
    wf_atomic_u32 release;
};

static intptr_t run_as_thief(void *arg)
{
    struct taken_fork *taken = arg;
    raise_by_one(&taken->is_taken);
    hold_for(&taken->release, 1);
    return 0;
}

/* The second fork makes the owner expose the first one, when a thief has requested forks. */
static intptr_t join_in_child(void *arg)
{
    (void)arg;
    struct taken_fork taken = {.is_taken = {0}};
    weft_par_fork first;
    weft_par_fork_go(&first, run_as_thief, &taken);
    while (wf_load_acquire(&taken.is_taken) == 0) {
        weft_par_fork second;
        weft_par_fork_go(&second, return_arg, (void *)1);
        CHECK_EQ(weft_par_fork_join(&second), 1);
        (void)sched_yield();
    }
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        weft_par_fork second; /* runs at once */
        weft_par_fork_go(&second, return_arg, (void *)1);
        _exit(weft_par_fork_join(&second) == 1 ? (int)weft_par_fork_join(&first) : 1);
    }
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    raise_by_one(&taken.release);
    return weft_par_fork_join(&first);
}

static void run_join_in_child(void)
{
    const weft_runtime_options two = {.size = sizeof(two), .workers = 2};
    CHECK_EQ(weft_run(join_in_child, NULL, &two), 0);
}

static void process_fork_child_aborts_at_the_join_of_a_taken_fork(void)
{
    char text[4096];
    const int status = tap_run_child(run_join_in_child, text, sizeof(text));
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    CHECK(strstr(text, "weft_par_fork_join: the fork runs in the parent") != NULL);
}

static const struct tap_test tests[] = {
    TAP_TEST(process_fork_in_a_task_leaves_the_parent_intact),
    TAP_TEST(process_fork_in_a_non_worker_thread_leaves_the_parent_intact),
    TAP_TEST(process_fork_child_may_call_exec),
    TAP_TEST(process_fork_child_blocks_the_signals_of_the_opener),
    TAP_TEST(process_fork_child_without_runtimes_may_open_one),
    TAP_TEST(process_fork_child_aborts_when_a_task_returns),
    TAP_TEST(process_fork_child_aborts_at_the_join_of_a_taken_fork),
};
TAP_MAIN(tests)
