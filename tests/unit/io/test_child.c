/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a child process is started, fed, read from, waited for and killed like any other object
 *         of a wait: no worker is blocked, no zombie and no descriptor is left, and the child has
 *         the streams and signals that programs expect.
 * Method: small programs of every Linux system, under every setting; the kernel's view of their
 *         streams and signals; low numbers for their descriptors; every call that can fail does.
 *         Keeps part of behaviour 60.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "fault_helpers.h"
#include "net_helpers.h"

/* The options for one line of shell. */
struct shell {
    const char *argv[4];
    weft_child_options options;
};

static void shell_init(struct shell *shell, const char *line)
{
    *shell = (struct shell){.argv = {"sh", "-c", line, NULL}};
    shell->options.size = sizeof(shell->options);
    shell->options.argv = shell->argv;
}

/* The emulator turns every vfork into a fork: an error in the child is not reported, and the
 * emulator's locks may be held by a thread that does not exist in the child. */
static void skip_if_emulated(void)
{
    const char *wrap = getenv("WEFT_TEST_WRAP");
    if (wrap != NULL && strstr(wrap, "qemu") != NULL) {
        tap_skip("the emulator does not support children of threads");
    }
}

static weft_child *start(const struct shell *shell)
{
    weft_child *child = NULL;
    skip_if_emulated();
    int rc = weft_child_spawn(&child, &shell->options);
    if (rc == -ENOSYS) {
        tap_skip("the kernel has no pidfd");
    }
    CHECK_EQ(rc, 0);
    CHECK(child != NULL);
    return child;
}

static weft_child *start_line(const char *line)
{
    struct shell shell;
    shell_init(&shell, line);
    return start(&shell);
}

static weft_child_end end_of(weft_child *child)
{
    weft_child_end end = {.code = -1};
    CHECK_EQ(weft_child_wait(child, &end), 0);
    return end;
}

static bool has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* The whole output of a line; the child must end with status 0. */
static void text_of_shell(struct shell *shell, char *text, size_t size)
{
    shell->options.out.kind = WEFT_CHILD_PIPE;
    weft_child *child = start(shell);
    int fd = weft_child_take(child, 1);
    CHECK(fd >= 0);
    const ssize_t got = weft_read_full(fd, text, size - 1);
    CHECK(got >= 0);
    text[got] = '\0';
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(end_of(child).code, 0);
    CHECK_EQ(weft_child_close(child), 0);
}

static void check_prints(struct shell *shell, const char *expected)
{
    char text[4096];
    text_of_shell(shell, text, sizeof(text));
    CHECK_STR(text, expected);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static intptr_t wait_for_end_of(void *arg)
{
    return end_of(arg).code;
}

static intptr_t check_ends(void *arg)
{
    (void)arg;
    weft_child *child = start_line("exit 0");
    CHECK(weft_child_pid(child) > 0);
    weft_child_end end = end_of(child);
    CHECK(end.code == 0 && end.signal == 0 && !end.has_core);
    CHECK_EQ(weft_child_close(child), 0);
    child = start_line("exec sleep 1000");
    weft_task *waiters[2];
    for (size_t i = 0; i < 2; i++) {
        waiters[i] = go(wait_for_end_of, child);
        wait_until_blocked(waiters[i], WEFT_WAIT_READABLE);
    }
    CHECK_EQ(weft_child_kill(child, 1000), -EINVAL);
    CHECK_EQ(weft_child_kill(child, SIGTERM), 0);
    CHECK_EQ(weft_await_all(waiters, 2, NULL), 0);
    end = end_of(child);
    CHECK(end.code == 0 && end.signal == SIGTERM);
    CHECK_EQ(weft_child_kill(child, SIGTERM), -ESRCH);
    CHECK_EQ(weft_child_wait(child, NULL), 0);
    CHECK_EQ(weft_child_close(child), 0);
    CHECK(!has_children());
    return 0;
}

/* behaviour 60 */
static void child_wait_waits_for_its_end(void)
{
    run_under(EVERYWHERE, check_ends);
}

static intptr_t cancel_wait(void *arg)
{
    (void)arg;
    weft_child *child = start_line("exec sleep 1000");
    weft_task *task = go(wait_for_end_of, child);
    (void)task;
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    (void)weft_deadline_set(weft_now());
    CHECK_EQ(weft_child_wait(child, NULL), -ETIMEDOUT);
    (void)weft_deadline_set(WEFT_NEVER);
    CHECK_EQ(kill(weft_child_pid(child), 0), 0); /* it still runs */
    CHECK_EQ(weft_child_kill(child, SIGKILL), 0);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(end_of(child).signal, SIGKILL);
    CHECK_EQ(weft_child_close(child), 0);
    return 0;
}

static intptr_t wait_for_child(void *arg)
{
    return weft_child_wait(arg, NULL);
}

/* Closed while it runs, by a task that was cancelled itself. */
static intptr_t close_cancelled(void *arg)
{
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_child_wait(arg, NULL), -ECANCELED);
    return weft_child_close(arg);
}

static intptr_t cancel_and_close(void *arg)
{
    CHECK_EQ(cancel_wait(arg), 0);
    weft_child *child = start_line("exec sleep 1000");
    weft_task *task = go(wait_for_child, child);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(kill(weft_child_pid(child), 0), 0);
    CHECK(has_children());
    CHECK_EQ(weft_await(go(close_cancelled, child)), 0);
    CHECK(!has_children());
    CHECK_EQ(weft_child_close(NULL), 0);
    return 0;
}

static void child_survives_a_cancelled_wait_but_not_a_close(void)
{
    run_under(EVERYWHERE, cancel_and_close);
}

enum { MANY_TASKS = 12 };

struct member {
    int number;
};

static intptr_t run_child(void *arg)
{
    const int number = ((struct member *)arg)->number;
    char line[64];
    char expected[16];
    struct shell shell;
    (void)snprintf(line, sizeof(line), "read x; echo $x; exit %d", number);
    (void)snprintf(expected, sizeof(expected), "%d\n", number);
    shell_init(&shell, line);
    shell.options.in.kind = shell.options.out.kind = WEFT_CHILD_PIPE;
    weft_child *child = start(&shell);
    int in = weft_child_take(child, 0);
    int out = weft_child_take(child, 1);
    char text[16] = "";
    CHECK_EQ(weft_write_all(in, expected, strlen(expected)), 0);
    CHECK_EQ(weft_read_full(out, text, sizeof(text)), (ssize_t)strlen(expected));
    CHECK_STR(text, expected);
    CHECK_EQ(weft_close(in), 0);
    CHECK_EQ(weft_close(out), 0);
    CHECK_EQ(end_of(child).code, number);
    CHECK_EQ(weft_child_close(child), 0);
    return 0;
}

static intptr_t run_many_children(void *arg)
{
    (void)arg;
    weft_task *tasks[MANY_TASKS];
    struct member members[MANY_TASKS];
    for (int i = 0; i < MANY_TASKS; i++) {
        members[i].number = i;
        tasks[i] = go(run_child, &members[i]);
    }
    CHECK_EQ(weft_await_all(tasks, MANY_TASKS, NULL), 0);
    CHECK(!has_children());
    return 0;
}

static void child_many_run_at_once(void)
{
    run_under(EVERYWHERE, run_many_children);
}

/* ---- streams --------------------------------------------------------------------------------- */

enum { MUCH = 300 * 1000 };

static char byte_at(size_t place)
{
    return (char)(place * 31 + place / 251);
}

static intptr_t feed(void *arg)
{
    const int fd = *(int *)arg;
    char piece[1000];
    for (size_t place = 0; place < MUCH; place += sizeof(piece)) {
        for (size_t i = 0; i < sizeof(piece); i++) {
            piece[i] = byte_at(place + i);
        }
        CHECK_EQ(weft_write_all(fd, piece, sizeof(piece)), 0);
    }
    CHECK_EQ(weft_close(fd), 0);
    return 0;
}

/* More than pipes hold, through two children; this process owned the pipe between the two for a
 * moment. */
static intptr_t feed_two_in_a_row(void *arg)
{
    (void)arg;
    struct shell shell;
    char piece[1000];
    size_t place = 0;
    ssize_t got;
    const size_t before = open_count();
    shell_init(&shell, "exec cat");
    shell.options.in.kind = shell.options.out.kind = WEFT_CHILD_PIPE;
    weft_child *first = start(&shell);
    int between = weft_child_take(first, 1);
    CHECK(between >= 0);
    CHECK_EQ(weft_child_take(first, 1), -ENOENT);
    CHECK_EQ(weft_child_take(first, 2), -ENOENT);
    CHECK_EQ(weft_child_take(first, 3), -EINVAL);
    shell.options.in = (weft_child_io){WEFT_CHILD_FD, between};
    weft_child *second = start(&shell);
    CHECK_EQ(weft_close(between), 0);
    int in = weft_child_take(first, 0);
    int out = weft_child_take(second, 1);
    weft_task *feeder = go(feed, &in);
    while ((got = weft_read(out, piece, sizeof(piece))) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            CHECK_EQ(piece[i], byte_at(place++));
        }
    }
    CHECK_EQ(got, 0);
    CHECK_EQ(place, MUCH);
    CHECK_EQ(weft_await(feeder), 0);
    CHECK_EQ(weft_close(out), 0);
    CHECK_EQ(end_of(first).code, 0);
    CHECK_EQ(end_of(second).code, 0);
    CHECK_EQ(weft_child_close(first), 0);
    CHECK_EQ(weft_child_close(second), 0);
    CHECK(open_count() <= before + poller_descriptors());
    return 0;
}

static void child_pipes_connect_children(void)
{
    run_under(EVERYWHERE, feed_two_in_a_row);
}

/* The number after a label in a file of /proc. */
static unsigned long number_after(const char *text, const char *label, int base)
{
    const char *place = strstr(text, label);
    CHECK(place != NULL);
    return strtoul(place + strlen(label), NULL, base);
}

static intptr_t check_streams(void *arg)
{
    (void)arg;
    char text[4096];
    struct shell shell;
    shell_init(&shell, "exec cat /proc/self/fdinfo/0 /proc/self/fdinfo/1");
    shell.options.in.kind = WEFT_CHILD_PIPE;
    text_of_shell(&shell, text, sizeof(text));
    const char *second = strstr(text + 1, "pos:");
    CHECK(second != NULL);
    CHECK_EQ(number_after(text, "flags:", 8) & O_NONBLOCK, 0);
    CHECK_EQ(number_after(second, "flags:", 8) & O_NONBLOCK, 0);
    shell_init(&shell, "exec cat /proc/self/status");
    text_of_shell(&shell, text, sizeof(text));
    CHECK_EQ(number_after(text, "SigBlk:", 16), 0);
    CHECK_EQ(number_after(text, "SigIgn:", 16) >> (SIGPIPE - 1) & 1, 0);
    shell_init(&shell, "ls /proc/self/fd | wc -l");
    shell.options.in.kind = shell.options.err.kind = WEFT_CHILD_NULL;
    text_of_shell(&shell, text, sizeof(text));
    struct pair pair = tcp_pair_new();
    struct shell idle;
    shell_init(&idle, "exec sleep 1000");
    idle.options.in.kind = idle.options.out.kind = idle.options.err.kind = WEFT_CHILD_PIPE;
    weft_child *child = start(&idle);
    check_prints(&shell, text); /* the child has none of these descriptors */
    CHECK_EQ(weft_child_close(child), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void child_has_clean_streams_and_signals(void)
{
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    run_under(ON_SEVERAL, check_streams);
}

/* A child that is known to run. */
static weft_child *start_in_group(int group)
{
    struct shell shell;
    char said;
    shell_init(&shell, "echo; exec sleep 1000");
    shell.options.group = group;
    shell.options.out.kind = WEFT_CHILD_PIPE;
    weft_child *child = start(&shell);
    const int fd = weft_child_take(child, 1);
    CHECK_EQ(weft_read_full(fd, &said, 1), 1);
    CHECK_EQ(weft_close(fd), 0);
    return child;
}

static intptr_t try_options(void *arg)
{
    (void)arg;
    static const char *const environment[] = {"WEFT_COLOUR=green", NULL};
    static const char *const named[] = {"anything", "-c", "echo $0 $1", "a", "b", NULL};
    struct shell shell;
    shell_init(&shell, "pwd -P; echo $WEFT_COLOUR");
    shell.options.cwd = "/proc";
    shell.options.envp = environment;
    shell.options.path = "/bin/sh";
    check_prints(&shell, "/proc\ngreen\n");
    shell_init(&shell, "");
    shell.options.path = "/bin/sh";
    shell.options.argv = named;
    check_prints(&shell, "a b\n");
    shell_init(&shell, "cat; echo out; echo err >&2");
    shell.options.in.kind = WEFT_CHILD_NULL;
    shell.options.err.kind = WEFT_CHILD_OUT;
    check_prints(&shell, "out\nerr\n");
    weft_child *leader = start_in_group(-1);
    CHECK_EQ(getpgid(weft_child_pid(leader)), weft_child_pid(leader));
    weft_child *other = start_in_group(weft_child_pid(leader));
    CHECK_EQ(getpgid(weft_child_pid(other)), weft_child_pid(leader));
    CHECK_EQ(weft_child_close(leader), 0);
    CHECK_EQ(weft_child_close(other), 0);
    CHECK(!has_children());
    return 0;
}

static void child_options_take_effect(void)
{
    run_under(ON_ONE_WORKER, try_options);
}

static void check_refused(const weft_child_options *options, int expected)
{
    weft_child *child = NULL;
    const size_t before = open_count();
    CHECK_EQ(weft_child_spawn(&child, options), expected);
    CHECK(child == NULL);
    CHECK_EQ(open_count(), before);
    CHECK(!has_children());
}

static intptr_t try_bad_options(void *arg)
{
    (void)arg;
    skip_if_emulated();
    static const char *const nothing[] = {NULL};
    struct shell shell;
    shell_init(&shell, "exit 0");
    shell.options.path = "weft-no-such-program";
    shell.options.out.kind = WEFT_CHILD_PIPE;
    check_refused(&shell.options, -ENOENT);
    shell.options.path = "/proc/version";
    check_refused(&shell.options, -EACCES);
    shell_init(&shell, "exit 0");
    shell.options.cwd = "/weft-no-such-folder";
    check_refused(&shell.options, -ENOENT);
    shell_init(&shell, "exit 0");
    shell.options.in = (weft_child_io){WEFT_CHILD_FD, -1};
    check_refused(&shell.options, -EBADF);
    shell.options.in = (weft_child_io){WEFT_CHILD_FD, 1000};
    check_refused(&shell.options, -EBADF);
    shell.options.in = (weft_child_io){WEFT_CHILD_OUT, 0};
    check_refused(&shell.options, -EINVAL);
    shell.options.in.kind = (enum weft_child_stream)77;
    check_refused(&shell.options, -EINVAL);
    shell_init(&shell, "exit 0");
    shell.options.argv = nothing;
    check_refused(&shell.options, -EINVAL);
    shell.options.argv = NULL;
    check_refused(&shell.options, -EINVAL);
    shell_init(&shell, "exit 0");
    shell.options.size = 1;
    check_refused(&shell.options, -EINVAL);
    shell.options.size = 0;
    shell.options.group = -2;
    check_refused(&shell.options, -EINVAL);
    return 0;
}

static void child_start_refuses_bad_options_without_leak(void)
{
    run_under(ON_ONE_WORKER, try_bad_options);
}

/* The streams of the child have each other's numbers in this process. */
static intptr_t cross_streams(void *arg)
{
    (void)arg;
    int in[2];
    int out[2];
    char text[8] = "";
    struct shell shell;
    CHECK_EQ(pipe2(in, O_CLOEXEC), 0);
    CHECK_EQ(pipe2(out, O_CLOEXEC), 0);
    const int kept[] = {dup(0), dup(1)};
    CHECK(kept[0] >= 0 && kept[1] >= 0);
    CHECK_EQ(dup2(in[0], 1), 1);
    CHECK_EQ(dup2(out[1], 0), 0);
    shell_init(&shell, "exec cat");
    shell.options.in = (weft_child_io){WEFT_CHILD_FD, 1};
    shell.options.out = (weft_child_io){WEFT_CHILD_FD, 0};
    weft_child *child = start(&shell);
    CHECK_EQ(dup2(kept[0], 0), 0);
    CHECK_EQ(dup2(kept[1], 1), 1);
    CHECK_EQ(close(in[0]), 0);
    CHECK_EQ(close(out[1]), 0);
    CHECK_EQ(weft_write(in[1], "cross", 5), 5);
    CHECK_EQ(weft_close(in[1]), 0);
    CHECK_EQ(weft_read_full(out[0], text, sizeof(text)), 5);
    CHECK_STR(text, "cross");
    CHECK_EQ(weft_close(out[0]), 0);
    CHECK_EQ(end_of(child).code, 0);
    CHECK_EQ(weft_child_close(child), 0);
    /* Without a standard input in this process, a pipe gets its number. */
    CHECK_EQ(close(0), 0);
    shell_init(&shell, "echo low");
    shell.options.in.kind = WEFT_CHILD_NULL;
    check_prints(&shell, "low\n");
    CHECK_EQ(dup2(kept[0], 0), 0);
    CHECK_EQ(close(kept[0]), 0);
    CHECK_EQ(close(kept[1]), 0);
    return 0;
}

static void child_streams_may_swap_descriptor_numbers(void)
{
    run_under(ON_ONE_WORKER, cross_streams);
}

/* ---- other callers --------------------------------------------------------------------------- */

static void *run_child_in_thread(void *arg)
{
    struct member member = {.number = 5};
    CHECK_EQ(run_child(&member), 0);
    CHECK_EQ(weft_child_close(start_line("exec sleep 1000")), 0);
    return arg;
}

static void child_can_be_started_from_a_thread(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, run_child_in_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(!has_children());
}

static weft_poll_result run_child_in_poll(weft_cx *cx, void *state, intptr_t *result)
{
    weft_child **child = state;
    (void)cx;
    if (*child == NULL) {
        *child = start_line("exec sleep 1000");
        CHECK_EQ(weft_child_wait(*child, NULL), -EAGAIN);
    }
    const int rc = weft_child_close(*child);
    CHECK(rc == 0 || rc == -EAGAIN);
    *result = 0;
    if (rc == -EAGAIN) {
        weft_waker_wake(weft_cx_waker(cx));
    }
    return rc == 0 ? WEFT_POLL_READY : WEFT_POLL_PENDING;
}

static intptr_t spawn_poll(void *arg)
{
    (void)arg;
    weft_task *task = NULL;
    weft_child *child = NULL;
    CHECK_EQ(weft_spawn_poll(&task, run_child_in_poll, &child, sizeof(child), NULL), 0);
    CHECK_EQ(weft_await(task), 0);
    CHECK(!has_children());
    return 0;
}

static void child_can_be_closed_from_a_poll_task(void)
{
    run_under(ON_ONE_WORKER, spawn_poll);
}

/* Other code of the process has waited for the child: the wait returns an error, and nothing
 * hangs. */
static intptr_t reap_elsewhere(void *arg)
{
    (void)arg;
    weft_child *child = start_line("exit 3");
    int status = 0;
    CHECK_EQ(waitpid(weft_child_pid(child), &status, 0), weft_child_pid(child));
    CHECK_EQ(weft_child_wait(child, NULL), -ECHILD);
    CHECK_EQ(weft_child_wait(child, NULL), -ECHILD);
    CHECK_EQ(weft_child_kill(child, SIGTERM), -ESRCH);
    CHECK_EQ(weft_child_close(child), 0);
    return 0;
}

static void child_wait_reports_an_end_reaped_elsewhere(void)
{
    run_under(ON_ONE_WORKER, reap_elsewhere);
}

/* ---- injected failures ----------------------------------------------------------------------- */

#ifdef WF_TEST_HOOKS

static intptr_t run_child_with_fault(void *arg)
{
    struct faults *faults = arg;
    struct shell shell;
    const size_t before = open_count();
    weft_child *child = NULL;
    shell_init(&shell, "exit 3");
    shell.options.in.kind = shell.options.err.kind = WEFT_CHILD_PIPE;
    shell.options.out = (weft_child_io){WEFT_CHILD_FD, 2};
    faults_begin(faults);
    int rc = weft_child_spawn(&child, &shell.options);
    unsigned refused = rc != 0;
    CHECK((rc == 0) == (child != NULL));
    if (rc == 0) {
        weft_child_end end = {.code = 3};
        refused += weft_child_wait(child, &end) != 0;
        CHECK_EQ(end.code, 3);
        CHECK_EQ(weft_child_close(child), 0);
    }
    faults_end(faults);
    CHECK(is_hit(faults, "waitid") || !has_children());
    while (waitpid(-1, NULL, 0) > 0) { /* the children that an injected failure left behind */
    }
    CHECK(open_count() <= before + poller_descriptors());
    faults_refused(faults, refused);
    return 0;
}

static void child_start_failure_leaves_nothing_behind(void)
{
    faults_prepare();
    /* allocates the page of the fd table, which stays */
    CHECK_EQ(weft_close(listening("127.0.0.1:0")), 0);
    fail_each(run_child_with_fault, 8);
}

static intptr_t close_with_fault(void *arg)
{
    struct faults *faults = arg;
    weft_child *child = start_line("exec sleep 1000");
    const pid_t pid = weft_child_pid(child);
    faults_begin(faults);
    int rc = weft_child_close(child);
    faults_end(faults);
    CHECK(rc == 0 || is_hit(faults, "pidfd_send_signal"));
    faults_refused(faults, rc != 0);
    CHECK(rc == 0 || weft_child_close(child) == 0);
    if (is_hit(faults, "waitid")) { /* the child seemed to have ended: it is not tracked any more */
        CHECK_EQ(kill(pid, SIGKILL), 0);
        CHECK_EQ(waitpid(pid, NULL, 0), pid);
    }
    CHECK(!has_children());
    return 0;
}

static void child_close_ends_it_whatever_fails(void)
{
    faults_prepare();
    CHECK_EQ(weft_close(listening("127.0.0.1:0")), 0);
    fail_each(close_with_fault, 1);
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(child_wait_waits_for_its_end),
    TAP_TEST(child_survives_a_cancelled_wait_but_not_a_close),
    TAP_TEST_LIMIT(child_many_run_at_once, 60),
    TAP_TEST(child_pipes_connect_children),
    TAP_TEST(child_has_clean_streams_and_signals),
    TAP_TEST(child_options_take_effect),
    TAP_TEST(child_start_refuses_bad_options_without_leak),
    TAP_TEST(child_streams_may_swap_descriptor_numbers),
    TAP_TEST(child_can_be_started_from_a_thread),
    TAP_TEST(child_can_be_closed_from_a_poll_task),
    TAP_TEST(child_wait_reports_an_end_reaped_elsewhere),
#ifdef WF_TEST_HOOKS
    TAP_TEST_LIMIT(child_start_failure_leaves_nothing_behind, 60),
    TAP_TEST_LIMIT(child_close_ends_it_whatever_fails, 60),
#endif
};
TAP_MAIN(tests)
