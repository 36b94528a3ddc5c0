/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a signal to the process is taken by one task that waits for it, and no signal is lost,
 *         however fast signals come and whichever task is cancelled meanwhile; a server that gets
 *         SIGTERM shuts down in order; a write to a broken pipe raises no signal.
 * Method: signals that the process sends to itself, or a child gets from its parent; counted floods
 *         of signals; drains with tasks that end, stay, or fail.  Keeps part of behaviour 60.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "fault_helpers.h"
#include "net_helpers.h"
#include <weft/file.h>
#include <weft/signals.h>

static sigset_t set_of(int first, int second)
{
    sigset_t set;
    (void)sigemptyset(&set);
    CHECK_EQ(sigaddset(&set, first), 0);
    CHECK_EQ(sigaddset(&set, second), 0);
    return set;
}

static void block(int first, int second)
{
    const sigset_t set = set_of(first, second);
    CHECK_EQ(weft_signals_block(&set), 0);
}

static void send_value(int number, int value)
{
    const union sigval what = {.sival_int = value};
    /* the kernel's queue is full: retry until some are taken */
    while (sigqueue(getpid(), number, what) != 0) {
        CHECK_EQ(errno, EAGAIN);
        (void)sched_yield();
    }
}

static void send_number(int number)
{
    CHECK_EQ(kill(getpid(), number), 0);
}

struct wait {
    int number;
    siginfo_t info;
};

static intptr_t wait_for_one(void *arg)
{
    struct wait *wait = arg;
    const sigset_t set = set_of(wait->number, wait->number);
    return weft_signal_wait(&set, &wait->info);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static intptr_t wait_for_three_signals(void *arg)
{
    (void)arg;
    struct wait waits[] = {{.number = SIGUSR1}, {.number = SIGCHLD}, {.number = SIGRTMIN + 1}};
    weft_task *tasks[3];
    (void)weft_deadline_set(weft_now());
    CHECK_EQ(wait_for_one(&waits[0]), -ETIMEDOUT); /* allocates the poller */
    (void)weft_deadline_set(WEFT_NEVER);
    const size_t before = open_count();
    for (size_t i = 0; i < 3; i++) {
        tasks[i] = go(wait_for_one, &waits[i]);
        wait_until_blocked(tasks[i], WEFT_WAIT_READABLE);
    }
    send_value(SIGRTMIN + 1, 42);
    CHECK_EQ(weft_await(tasks[2]), SIGRTMIN + 1);
    CHECK_EQ(waits[2].info.si_value.sival_int, 42);
    CHECK_EQ(waits[2].info.si_pid, getpid());
    send_number(SIGCHLD); /* it would be discarded if it were not blocked */
    CHECK_EQ(weft_await(tasks[1]), SIGCHLD);
    CHECK_EQ(state_of(tasks[0]), WEFT_TASK_BLOCKED);
    send_number(SIGUSR1);
    CHECK_EQ(weft_await(tasks[0]), SIGUSR1);
    send_number(SIGUSR1); /* no task waits: it stays pending */
    CHECK_EQ(wait_for_one(&waits[0]), SIGUSR1);
    CHECK_EQ(waits[0].info.si_code, SI_USER);
    CHECK_EQ(open_count(), before);
    struct sigaction action;
    CHECK_EQ(sigaction(SIGUSR1, NULL, &action), 0);
    CHECK(action.sa_handler == SIG_DFL); /* no handler is installed */
    return 0;
}

/* behaviour 60 */
static void signal_wait_gets_the_awaited_signals(void)
{
    block(SIGUSR1, SIGCHLD);
    block(SIGRTMIN + 1, SIGRTMIN + 1);
    run_under(EVERYWHERE, wait_for_three_signals);
}

static intptr_t cancel_and_wait_again(void *arg)
{
    (void)arg;
    struct wait wait = {.number = SIGUSR1};
    weft_task *task = go(wait_for_one, &wait);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    const weft_time old = weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(wait_for_one(&wait), -ETIMEDOUT);
    (void)weft_deadline_set(old);
    weft_task *again = go(wait_for_one, &wait);
    wait_until_blocked(again, WEFT_WAIT_READABLE);
    CHECK_EQ(weft_cancel(again), 0); /* both at once: it is taken, or it stays pending */
    send_number(SIGUSR1);
    const intptr_t rc = weft_await(again);
    CHECK(rc == -ECANCELED || rc == SIGUSR1);
    if (rc == -ECANCELED) {
        CHECK_EQ(wait_for_one(&wait), SIGUSR1);
    }
    return 0;
}

static void signal_cancelled_wait_takes_no_signal(void)
{
    block(SIGUSR1, SIGUSR1);
    run_under(EVERYWHERE, cancel_and_wait_again);
}

static intptr_t pass_bad_arguments(void *arg)
{
    (void)arg;
    sigset_t empty;
    (void)sigemptyset(&empty);
    const sigset_t some = set_of(SIGUSR1, SIGUSR2);
    const sigset_t usual = set_of(SIGINT, SIGTERM);
    CHECK_EQ(weft_signal_wait(&empty, NULL), -EINVAL);
    CHECK_EQ(weft_signal_wait(&some, NULL), -EPERM); /* one of these is not blocked */
    CHECK_EQ(weft_signals_block(&usual), -EPERM);
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_drain(&scope, -1, NULL), -EPERM);
    const weft_scope_drain_options odd = {.size = 1};
    const weft_scope_drain_options negative = {.grace_ns = -1};
    CHECK_EQ(weft_scope_drain(&scope, -1, &odd), -EINVAL);
    CHECK_EQ(weft_scope_drain(&scope, -1, &negative), -EINVAL);
    CHECK_EQ(weft_scope_close(&scope), 0);
    return 0;
}

static void signal_wait_refuses_signals_that_are_not_blocked(void)
{
    static const int impatient[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,
                                    SIGFPE,  SIGILL,  SIGTRAP, SIGSYS};
    sigset_t empty;
    (void)sigemptyset(&empty);
    CHECK_EQ(weft_signals_block(&empty), -EINVAL);
    for (size_t i = 0; i < sizeof(impatient) / sizeof(impatient[0]); i++) {
        const sigset_t set = set_of(SIGUSR1, impatient[i]);
        CHECK_EQ(weft_signals_block(&set), -EINVAL);
    }
    block(SIGUSR1, SIGUSR1);
    run_under(ON_ONE_WORKER, pass_bad_arguments);
    weft_scope scope = {{0}};
    CHECK_EQ(weft_scope_drain(&scope, -1, NULL), -EPERM);
    const sigset_t some = set_of(SIGUSR1, SIGUSR1);
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &some, NULL), 0);
    CHECK_EQ(weft_signal_wait(&some, NULL), -EPERM);
}

static void *wait_in_thread(void *arg)
{
    CHECK_EQ(wait_for_one(arg), SIGUSR1);
    return NULL;
}

static void signal_wait_works_in_a_thread(void)
{
    pthread_t thread;
    struct wait wait = {.number = SIGUSR1};
    block(SIGUSR1, SIGUSR1);
    CHECK_EQ(pthread_create(&thread, NULL, wait_in_thread, &wait), 0);
    send_number(SIGUSR1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(wait.info.si_pid, getpid());
}

static weft_poll_result wait_in_poll(weft_cx *cx, void *state, intptr_t *result)
{
    struct wait wait = {.number = SIGUSR1};
    (void)cx;
    (void)state;
    CHECK_EQ(wait_for_one(&wait), -EAGAIN);
    send_number(SIGUSR1);
    *result = wait_for_one(&wait);
    return WEFT_POLL_READY;
}

static intptr_t spawn_poll(void *arg)
{
    (void)arg;
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, wait_in_poll, NULL, 0, NULL), 0);
    CHECK_EQ(weft_await(task), SIGUSR1);
    return 0;
}

static void signal_wait_in_a_poll_task_takes_pending_signals(void)
{
    block(SIGUSR1, SIGUSR1);
    run_under(ON_ONE_WORKER, spawn_poll);
}

/* ---- floods of signals ----------------------------------------------------------------------- */

enum { SIGNALS = 5000, TAKERS = 3 };

struct flood {
    unsigned char taken[SIGNALS]; /* each written by the task that took it */
    wf_atomic_u32 count;
    wf_atomic_u32 last; /* the newest signal that was sent without being queued */
};

static void *send_flood(void *arg)
{
    struct flood *flood = arg;
    for (unsigned i = 0; i < SIGNALS; i++) {
        send_value(SIGRTMIN, (int)i);
        raise_by_one(&flood->last);
        send_number(SIGUSR1);
    }
    return NULL;
}

static intptr_t take_counted(void *arg)
{
    struct flood *flood = arg;
    struct wait wait = {.number = SIGRTMIN};
    for (;;) { /* ends by cancellation, when all were taken */
        const intptr_t rc = wait_for_one(&wait);
        if (rc != SIGRTMIN) {
            CHECK_EQ(rc, -ECANCELED);
            return 0;
        }
        flood->taken[wait.info.si_value.sival_int]++;
        raise_by_one(&flood->count);
    }
}

/* If the last signal were lost this task would wait for ever. */
static intptr_t take_last(void *arg)
{
    struct flood *flood = arg;
    struct wait wait = {.number = SIGUSR1};
    do {
        CHECK_EQ(wait_for_one(&wait), SIGUSR1);
    } while (wf_load_acquire(&flood->last) != SIGNALS); /* to raise_by_one */
    return 0;
}

static intptr_t run_flood(void *arg)
{
    (void)arg;
    pthread_t thread;
    weft_task *takers[TAKERS];
    struct flood *flood = calloc(1, sizeof(*flood));
    CHECK(flood != NULL);
    for (size_t i = 0; i < TAKERS; i++) {
        takers[i] = go(take_counted, flood);
    }
    weft_task *last = go(take_last, flood);
    CHECK_EQ(pthread_create(&thread, NULL, send_flood, flood), 0);
    CHECK_EQ(weft_await(last), 0);
    wait_for(&flood->count, SIGNALS);
    for (size_t i = 0; i < TAKERS; i++) {
        CHECK_EQ(weft_cancel(takers[i]), 0);
        CHECK_EQ(weft_await(takers[i]), 0);
    }
    for (size_t i = 0; i < SIGNALS; i++) {
        CHECK_EQ(flood->taken[i], 1);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    struct wait wait = {.number = SIGUSR1};
    (void)weft_deadline_set(weft_now()); /* the last may have been sent twice by then */
    (void)wait_for_one(&wait);
    free(flood);
    return 0;
}

static void signal_flood_loses_no_signal(void)
{
    block(SIGRTMIN, SIGUSR1);
    run_under(EVERYWHERE, run_flood);
}

/* ---- drains ---------------------------------------------------------------------------------- */

struct server {
    int listener;
    wf_atomic_u32 accepted;
    wf_atomic_u32 begun;   /* the drain has begun */
    wf_atomic_u32 release; /* the connections wait for this */
    int number;
    weft_scope *scope;
};

/* Answers when `release` is raised; a cancel ends it. */
static intptr_t serve_one(void *arg)
{
    struct server *server = arg;
    raise_by_one(&server->accepted);
    (void)stand_by_or_leave(&server->release);
    return 0;
}

static intptr_t accept_all(void *arg)
{
    struct server *server = arg;
    for (;;) { /* until the listener is closed */
        int fd = weft_accept(server->listener, NULL, NULL);
        if (fd < 0) {
            return fd == -EBADF || fd == -ECANCELED ? 0 : fd;
        }
        CHECK_EQ(weft_close(fd), 0);
        CHECK_EQ(weft_scope_go(server->scope, serve_one, server), 0);
    }
}

static void on_begin(void *context, int number)
{
    struct server *server = context;
    CHECK_EQ(weft_accept(server->listener, NULL, NULL), -EBADF);
    CHECK(is_open(server->listener)); /* its number is not reused */
    server->number = number;
    raise_by_one(&server->begun);
}

/* One connection is being served when the signal comes. */
struct stop {
    struct server *server;
    weft_address address;
    int then; /* 0: the connection ends; 1: nothing; 2: another signal */
};

static intptr_t stop_server(void *arg)
{
    struct stop *stop = arg;
    int fd = connecting(&stop->address);
    CHECK(fd >= 0);
    wait_for(&stop->server->accepted, 1);
    send_number(SIGTERM);
    wait_for(&stop->server->begun, 1);
    int late;
    /* an accept may still be in progress */
    while ((late = connecting(&stop->address)) != -ECONNREFUSED) {
        CHECK(late < 0 || weft_close(late) == 0);
        let_others_run();
    }
    if (stop->then == 0) {
        raise_by_one(&stop->server->release);
    } else if (stop->then == 2) {
        send_number(SIGINT);
    }
    CHECK_EQ(weft_close(fd), 0);
    return 0;
}

static intptr_t drain_thrice(void *arg)
{
    (void)arg;
    static const int64_t grace_ns[] = {0, WEFT_MILLISECOND, WEFT_NEVER};
    static const int results[] = {0, -ETIMEDOUT, -EINTR};
    for (int then = 0; then < 3; then++) {
        weft_scope scope;
        struct server server = {.listener = listening("127.0.0.1:0"), .scope = &scope};
        struct stop stop = {.server = &server, .address = local_of(server.listener), .then = then};
        const weft_scope_drain_options options = {.size = sizeof(options),
                                                  .grace_ns = grace_ns[then],
                                                  .on_begin = on_begin,
                                                  .context = &server};
        CHECK_EQ(weft_scope_open(&scope, NULL), 0);
        CHECK_EQ(weft_scope_go(&scope, accept_all, &server), 0);
        weft_task *stopper = go(stop_server, &stop);
        CHECK_EQ(weft_scope_drain(&scope, server.listener, &options), results[then]);
        CHECK_EQ(server.number, SIGTERM);
        CHECK(!is_open(server.listener));
        CHECK_EQ(weft_await(stopper), 0);
    }
    return 0;
}

/* behaviour 60 */
static void drain_waits_for_tasks_and_cancels_the_rest(void)
{
    CHECK_EQ(weft_signals_block(NULL), 0);
    run_under(EVERYWHERE, drain_thrice);
}

static intptr_t fail_at_once(void *arg)
{
    return (intptr_t)arg;
}

static intptr_t drain_cancelled(void *arg)
{
    struct server *server = arg;
    weft_scope scope;
    server->scope = &scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, accept_all, server), 0);
    return weft_scope_drain(&scope, server->listener, NULL);
}

/* Without a signal the drain is a close of the scope. */
static intptr_t drain_without_signal(void *arg)
{
    (void)arg;
    weft_scope scope;
    int listener = listening("127.0.0.1:0");
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, echo, NULL), 0);
    CHECK_EQ(weft_scope_drain(&scope, listener, NULL), 0);
    CHECK(is_open(listener));
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, fail_at_once, (void *)(intptr_t)-EPROTO), 0);
    CHECK_EQ(weft_scope_drain(&scope, listener, NULL), -EPROTO);
    struct server server = {.listener = listener};
    weft_task *task = go(drain_cancelled, &server);
    wait_until_blocked(task, WEFT_WAIT_SCOPE);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK(is_open(listener));
    CHECK_EQ(weft_close(listener), 0);
    return 0;
}

static void drain_without_signal_closes_the_scope(void)
{
    CHECK_EQ(weft_signals_block(NULL), 0);
    run_under(EVERYWHERE, drain_without_signal);
}

static intptr_t stop_full_server(void *arg)
{
    struct stop *stop = arg;
    wait_for(&stop->server->accepted, 1);
    send_number(SIGTERM);
    wait_for(&stop->server->begun, 1);
    if (stop->then == 0) {
        raise_by_one(&stop->server->release);
    } else {
        send_number(SIGINT);
    }
    return 0;
}

static intptr_t drain_without_descriptors(void *arg)
{
    (void)arg;
    for (int then = 0; then < 3; then += 2) {
        weft_scope scope;
        struct server server = {.listener = listening("127.0.0.1:0"), .scope = &scope};
        struct stop stop = {.server = &server, .then = then};
        const weft_scope_drain_options options = {
            .grace_ns = WEFT_NEVER, .on_begin = on_begin, .context = &server};
        struct shortage shortage;
        shortage_begin(&shortage);
        CHECK_EQ(weft_scope_open(&scope, NULL), 0);
        CHECK_EQ(weft_scope_go(&scope, serve_one, &server), 0);
        weft_task *stopper = go(stop_full_server, &stop);
        CHECK_EQ(weft_scope_drain(&scope, server.listener, &options), then == 0 ? 0 : -EINTR);
        CHECK_EQ(server.number, SIGTERM);
        CHECK_EQ(weft_await(stopper), 0);
        shortage_end(&shortage);
    }
    return 0;
}

/* behaviour 60: a full server is often told to end because it is full. */
static void drain_works_without_free_descriptors(void)
{
    CHECK_EQ(weft_signals_block(NULL), 0);
    run_under(EVERYWHERE, drain_without_descriptors);
}

/* ---- a process that is told to end ----------------------------------------------------------- */

struct service {
    weft_scope scope;
    int listener;
};

/* Answers each byte with the next one; after a 'z', the last byte, it hangs up. */
static intptr_t answer(void *arg)
{
    const int fd = (int)(intptr_t)arg;
    char byte = 0;
    while (byte != 'z' + 1 && weft_read(fd, &byte, 1) == 1) {
        byte++;
        (void)weft_write_all(fd, &byte, 1);
    }
    (void)weft_close(fd);
    return 0;
}

static intptr_t accept_and_answer(void *arg)
{
    struct service *service = arg;
    int fd;
    while ((fd = weft_accept(service->listener, NULL, NULL)) >= 0) {
        CHECK_EQ(weft_scope_go(&service->scope, answer, (void *)(intptr_t)fd), 0);
    }
    return 0;
}

static void report_begin(void *context, int number)
{
    CHECK_EQ(number, SIGTERM);
    CHECK_EQ(weft_write(*(int *)context, "d", 1), 1);
}

static intptr_t run_service(void *arg)
{
    struct service service;
    const int report = *(int *)arg;
    const weft_scope_drain_options options = {.on_begin = report_begin, .context = arg};
    service.listener = listening("127.0.0.1:0");
    const struct text text = local_text(service.listener);
    CHECK_EQ(weft_write_all(report, &text, sizeof(text)), 0);
    CHECK_EQ(weft_scope_open(&service.scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&service.scope, accept_and_answer, &service), 0);
    return weft_scope_drain(&service.scope, service.listener, &options);
}

/* The test is single-threaded, so it may fork and continue. */
static pid_t service_start(const weft_runtime_options *options, struct text *address, int *report)
{
    int pipes[2];
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK_EQ(weft_signals_block(NULL), 0);
        _exit(weft_run(run_service, &pipes[1], options) == 0 ? 7 : 1);
    }
    CHECK_EQ(close(pipes[1]), 0);
    CHECK_EQ(read(pipes[0], address, sizeof(*address)), sizeof(*address));
    *report = pipes[0];
    return pid;
}

static void ask(int fd, char byte)
{
    char answered = 0;
    CHECK_EQ(weft_write(fd, &byte, 1), 1);
    CHECK_EQ(weft_read(fd, &answered, 1), 1);
    CHECK_EQ(answered, byte + 1);
}

/* behaviour 60 */
static void drain_at_sigterm_serves_existing_connections(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct text address;
        int report;
        char byte = 0;
        const pid_t pid = service_start(&tour.options, &address, &report);
        int fd = weft_net_dial(address.text);
        CHECK(fd >= 0);
        ask(fd, 'a');
        CHECK_EQ(kill(pid, SIGTERM), 0);
        CHECK_EQ(read(report, &byte, 1), 1); /* it has received the signal */
        CHECK_EQ(close(report), 0);
        int late;
        /* an accept may still be in progress */
        while ((late = weft_net_dial(address.text)) != -ECONNREFUSED) {
            CHECK(late < 0 || weft_close(late) == 0);
        }
        ask(fd, 'b'); /* the existing connection is still served */
        ask(fd, 'z');
        CHECK_EQ(weft_close(fd), 0);
        int status = 0;
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), 7);
    }
}

/* ---- injected failures ----------------------------------------------------------------------- */

/* ---- SIGPIPE --------------------------------------------------------------------------------- */

static bool is_sigpipe_pending(void)
{
    sigset_t pending;
    CHECK_EQ(sigpending(&pending), 0);
    return sigismember(&pending, SIGPIPE) == 1;
}

static intptr_t write_to_a_broken_pipe(void *arg)
{
    (void)arg;
    int ends[2];
    int from[2];
    struct iovec part = {.iov_base = (char[]){"x"}, .iov_len = 1};
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(pipe(from), 0);
    CHECK_EQ(weft_write(from[1], "x", 1), 1);
    CHECK_EQ(weft_close(from[1]), 0);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_write(ends[1], "x", 1), -EPIPE);
    CHECK_EQ(weft_writev(ends[1], &part, 1), -EPIPE);
    CHECK_EQ(weft_write_all(ends[1], "x", 1), -EPIPE);
    CHECK_EQ(weft_fd_copy(ends[1], from[0], 1, NULL), -EPIPE);
    CHECK_EQ(weft_close(from[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    return 0;
}

/* A SIGPIPE would end the test.  A thread that blocks SIGPIPE gets none that becomes pending, and
 * keeps one that was pending. */
static void write_to_a_broken_pipe_raises_no_signal(void)
{
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    run_under(ON_ONE_WORKER, write_to_a_broken_pipe);
    (void)write_to_a_broken_pipe(NULL);
    CHECK(!is_sigpipe_pending());
    sigset_t pipe_only = set_of(SIGPIPE, SIGPIPE);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &pipe_only, NULL), 0);
    (void)write_to_a_broken_pipe(NULL);
    CHECK(!is_sigpipe_pending());
    CHECK_EQ(raise(SIGPIPE), 0);
    (void)write_to_a_broken_pipe(NULL);
    CHECK(is_sigpipe_pending());
}

#ifdef WF_TEST_HOOKS

struct sender {
    weft_task *waiter;
    wf_atomic_u32 is_over; /* the wait has ended */
};

static intptr_t wait_for_usual(void *arg)
{
    const sigset_t set = set_of(SIGINT, SIGTERM);
    (void)arg;
    return weft_signal_wait(&set, NULL);
}

/* Sends when the other task waits, or has failed to. */
static intptr_t send_later(void *arg)
{
    struct sender *sender = arg;
    while (wf_load_acquire(&sender->is_over) == 0 && /* to raise_by_one */
           info_of(sender->waiter).wait != WEFT_WAIT_READABLE) {
        let_others_run();
    }
    send_number(SIGTERM);
    return 0;
}

static intptr_t wait_with_fault(void *arg)
{
    struct faults *faults = arg;
    struct sender sender = {.waiter = weft_self()};
    faults_begin(faults);
    weft_task *task = weft_go(send_later, &sender);
    intptr_t rc = -ENOMEM;
    if (task != NULL) {
        rc = wait_for_usual(NULL);
        raise_by_one(&sender.is_over);
        CHECK_EQ(weft_await(task), 0);
    }
    faults_end(faults);
    faults_refused(faults, rc < 0);
    if (task != NULL && rc < 0) { /* the signal was not lost */
        CHECK_EQ(wait_for_usual(NULL), SIGTERM);
    }
    return 0;
}

static void signal_failed_wait_loses_no_signal(void)
{
    CHECK_EQ(weft_signals_block(NULL), 0);
    faults_prepare();
    /* allocates the page of the fd table, which stays */
    CHECK_EQ(weft_close(listening("127.0.0.1:0")), 0);
    fail_each(wait_with_fault, 3);
}

static intptr_t wait_for_ever(void *arg)
{
    (void)arg;
    return weft_sleep_until(WEFT_NEVER) == -ECANCELED ? 0 : -EIO;
}

/* If the task that waits for the signal cannot start, the server ends: nothing else would end
 * it. */
static intptr_t drain_with_fault(void *arg)
{
    struct faults *faults = arg;
    weft_scope scope;
    int listener = listening("127.0.0.1:0");
    const weft_scope_drain_options options = {.grace_ns = 1};
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, wait_for_ever, NULL), 0);
    send_number(SIGTERM);
    faults_begin(faults);
    int rc = weft_scope_drain(&scope, listener, &options);
    faults_end(faults);
    CHECK(rc < 0);
    CHECK(!is_open(listener) || weft_close(listener) == 0); /* as far as the drain came */
    CHECK(rc != -ETIMEDOUT || weft_close(listener) == -EBADF);
    faults_refused(faults, rc != -ETIMEDOUT);
    (void)weft_deadline_set(weft_now());
    (void)wait_for_usual(NULL); /* the signal, if it was not taken */
    (void)weft_deadline_set(WEFT_NEVER);
    return 0;
}

static void drain_that_cannot_begin_cancels_the_scope(void)
{
    CHECK_EQ(weft_signals_block(NULL), 0);
    faults_prepare();
    CHECK_EQ(weft_close(listening("127.0.0.1:0")), 0);
    fail_each(drain_with_fault, 1);
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(signal_wait_gets_the_awaited_signals),
    TAP_TEST(signal_cancelled_wait_takes_no_signal),
    TAP_TEST(signal_wait_refuses_signals_that_are_not_blocked),
    TAP_TEST(signal_wait_works_in_a_thread),
    TAP_TEST(signal_wait_in_a_poll_task_takes_pending_signals),
    TAP_TEST_LIMIT(signal_flood_loses_no_signal, 60),
    TAP_TEST(drain_waits_for_tasks_and_cancels_the_rest),
    TAP_TEST(drain_without_signal_closes_the_scope),
    TAP_TEST(drain_works_without_free_descriptors),
    TAP_TEST(drain_at_sigterm_serves_existing_connections),
    TAP_TEST(write_to_a_broken_pipe_raises_no_signal),
#ifdef WF_TEST_HOOKS
    TAP_TEST(signal_failed_wait_loses_no_signal),
    TAP_TEST(drain_that_cannot_begin_cancels_the_scope),
#endif
};
TAP_MAIN(tests)
