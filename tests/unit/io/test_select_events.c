/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a select waits for descriptors and signals beside channels, tasks and times; exactly one
 *         case runs, nothing is consumed for the other cases, and whatever ends the wait leaves
 *         every descriptor unchanged.
 * Method: each kind of case wins and loses against the others, under every setting; many tasks that
 *         share a descriptor; closes, cancels, deadlines, injected failures.  Keeps part of
 *         behaviour 57.
 */
#include <signal.h>

#include "chan_helpers.h"
#include "fault_helpers.h"
#include "net_helpers.h"
#include <weft/signals.h>

static sigset_t set_of(int number)
{
    sigset_t set;
    (void)sigemptyset(&set);
    CHECK_EQ(sigaddset(&set, number), 0);
    return set;
}

/* One select over all kinds of cases, in its own task. */
struct chooser {
    int fd;
    weft_chan *chan;
    sigset_t set;
    siginfo_t info;
    int item;
    weft_case cases[4];
};

enum { FD, CHAN, SIGNAL, TIME };

static intptr_t choose(void *arg)
{
    struct chooser *chooser = arg;
    chooser->cases[FD] = weft_case_fd(chooser->fd, POLLIN);
    chooser->cases[CHAN] = weft_case_recv(chooser->chan, &chooser->item);
    chooser->cases[SIGNAL] = weft_case_signal(&chooser->set, &chooser->info);
    chooser->cases[TIME] = weft_case_time(weft_time_after(HOUR));
    return weft_select(chooser->cases, 4);
}

static weft_task *start_choosing(struct chooser *chooser)
{
    weft_task *task = go(choose, chooser);
    wait_until_blocked(task, WEFT_WAIT_EXTERNAL_SELECT);
    return task;
}

/* ---- which case wins ------------------------------------------------------------------------- */

static intptr_t let_each_win(void *arg)
{
    struct pair pair = pair_new(SOCK_STREAM);
    struct chooser chooser = {.fd = pair.far, .chan = int_chan(1), .set = set_of(SIGUSR1)};
    const int item = 42;
    char byte = 0;
    (void)arg;
    weft_task *task = start_choosing(&chooser);
    CHECK_EQ(weft_write(pair.near, "x", 1), 1);
    CHECK_EQ(weft_await(task), FD);
    CHECK_EQ(chooser.cases[FD].result, 0);
    CHECK_EQ(chooser.cases[FD].value, POLLIN);
    CHECK_EQ(waiting_in(chooser.chan), 0);
    CHECK_EQ(weft_read(pair.far, &byte, 1), 1);
    CHECK_EQ(byte, 'x');

    task = start_choosing(&chooser);
    CHECK_EQ(weft_chan_send(chooser.chan, &item), 0);
    CHECK_EQ(weft_await(task), CHAN);
    CHECK_EQ(chooser.item, 42);

    task = start_choosing(&chooser);
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    CHECK_EQ(weft_await(task), SIGNAL);
    CHECK_EQ(chooser.cases[SIGNAL].result, 0);
    CHECK_EQ(chooser.cases[SIGNAL].value, SIGUSR1);
    CHECK_EQ(chooser.info.si_pid, getpid());
    weft_case none = weft_case_signal(&chooser.set, NULL); /* the signal was consumed */
    CHECK_EQ(weft_try_select(&none, 1), -EAGAIN);

    const int signal_fd = (int)(intptr_t)chooser.cases[SIGNAL].opaque[1];
    while (is_open(signal_fd)) { /* a starting thread may have the number for a moment */
        let_others_run();
    }
    weft_chan_unref(chooser.chan);
    CHECK_EQ(weft_close(pair.far), 0);
    expect_closed(pair.far); /* no operation uses it any more */
    CHECK_EQ(weft_close(pair.near), 0);
    return 0;
}

static void select_each_kind_of_case_can_win(void)
{
    const sigset_t set = set_of(SIGUSR1);
    CHECK_EQ(weft_signals_block(&set), 0);
    run_under(EVERYWHERE, let_each_win);
}

/* All cases are ready: each runs at times, and consumes nothing of the others. */
static intptr_t choose_among_ready(void *arg)
{
    enum { ROUNDS = 300 };
    struct pair pair = pair_new(SOCK_STREAM);
    weft_chan *chan = int_chan(1);
    const sigset_t set = set_of(SIGUSR1);
    unsigned wins[3] = {0};
    int item = 7;
    (void)arg;
    CHECK_EQ(weft_write(pair.near, "x", 1), 1);
    CHECK_EQ(weft_chan_send(chan, &item), 0);
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        weft_case cases[] = {weft_case_fd(pair.far, POLLIN), weft_case_recv(chan, &item),
                             weft_case_signal(&set, NULL)};
        const int ran = ((int)(i % 2) != 0 ? weft_try_select(cases, 3) : weft_select(cases, 3));
        CHECK(ran >= 0 && ran < 3);
        wins[ran]++;
        if (ran == CHAN) {
            CHECK_EQ(weft_chan_send(chan, &item), 0);
        } else if (ran == SIGNAL) {
            CHECK_EQ(cases[SIGNAL].value, SIGUSR1);
            CHECK_EQ(kill(getpid(), SIGUSR1), 0);
        }
        CHECK_EQ(weft_chan_length(chan), 1);
    }
    for (unsigned i = 0; i < 3; i++) {
        /* a third each; this bound fails with a probability of 1 in 10^20 */
        CHECK(wins[i] > ROUNDS / 10);
    }
    CHECK_EQ(weft_signal_wait(&set, NULL), SIGUSR1); /* the last signal stays pending */
    weft_chan_unref(chan);
    CHECK_EQ(weft_close(pair.far), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    return 0;
}

static void select_runs_each_ready_event_case_at_times(void)
{
    const sigset_t set = set_of(SIGUSR1);
    CHECK_EQ(weft_signals_block(&set), 0);
    run_under(ON_ONE_WORKER, choose_among_ready);
}

/* Both directions of one descriptor, and more cases than fit into the frame. */
static intptr_t choose_among_many(void *arg)
{
    enum { MANY = 40 };
    struct pair pair = pair_new(SOCK_STREAM);
    weft_case cases[MANY];
    (void)arg;
    for (int i = 0; i < MANY; i++) {
        cases[i] = weft_case_fd(pair.far, POLLIN);
    }
    CHECK_EQ(weft_try_select(cases, MANY), -EAGAIN);
    cases[MANY - 1] = weft_case_fd(pair.far, POLLOUT);
    CHECK_EQ(weft_select(cases, MANY), MANY - 1);
    CHECK_EQ(cases[MANY - 1].value, POLLOUT);
    CHECK_EQ(weft_close(pair.near), 0); /* hung up: all cases are ready */
    cases[MANY - 1] = weft_case_fd(pair.far, POLLIN);
    const int ran = weft_select(cases, MANY);
    CHECK(ran >= 0 && ran < MANY);
    CHECK((cases[ran].value & POLLHUP) != 0);
    CHECK_EQ(weft_close(pair.far), 0);
    expect_closed(pair.far);
    return 0;
}

static void select_supports_many_descriptor_cases(void)
{
    run_under(EVERYWHERE, choose_among_many);
}

/* ---- many tasks ------------------------------------------------------------------------------ */

enum { MANY_TASKS = 4, MESSAGES = 400 };

struct group {
    int fd;
    weft_chan *end;
    unsigned got[MANY_TASKS]; /* by the number of the task */
    wf_atomic_u32 seen[MESSAGES];
};

struct member {
    struct group *group;
    unsigned number;
};

/* Takes messages until the channel is closed; a task that is woken for a message that another task
 * took waits again. */
static intptr_t take_messages(void *arg)
{
    const struct member *member = arg;
    struct group *group = member->group;
    for (;;) { /* until the channel is closed */
        int nothing;
        uint32_t letter;
        weft_case cases[] = {weft_case_fd(group->fd, POLLIN), weft_case_recv(group->end, &nothing)};
        const int ran = weft_select(cases, 2);
        if (ran == CHAN) {
            CHECK_EQ(cases[CHAN].result, -EPIPE);
            return 0;
        }
        CHECK_EQ(ran, FD);
        const ssize_t got = weft_recv(group->fd, &letter, sizeof(letter), MSG_DONTWAIT);
        if (got != -EAGAIN) {
            CHECK_EQ(got, sizeof(letter));
            group->got[member->number]++;
            CHECK_EQ(wf_fetch_add_relaxed(&group->seen[letter], 1), 0);
        }
    }
}

static intptr_t share_a_descriptor(void *arg)
{
    struct pair pair = pair_new(SOCK_DGRAM);
    struct group group = {.fd = pair.far, .end = int_chan(0)};
    struct member members[MANY_TASKS];
    weft_task *tasks[MANY_TASKS];
    unsigned total = 0;
    (void)arg;
    for (unsigned i = 0; i < MANY_TASKS; i++) {
        members[i] = (struct member){&group, i};
        tasks[i] = go(take_messages, &members[i]);
    }
    for (uint32_t i = 0; i < MESSAGES; i++) {
        CHECK_EQ(weft_write(pair.near, &i, sizeof(i)), sizeof(i));
    }
    for (uint32_t i = 0; i < MESSAGES; i++) {
        wait_for(&group.seen[i], 1);
    }
    CHECK_EQ(weft_chan_close(group.end), 0);
    for (unsigned i = 0; i < MANY_TASKS; i++) {
        CHECK_EQ(weft_await(tasks[i]), 0);
        total += group.got[i];
    }
    CHECK_EQ(total, MESSAGES);
    weft_chan_unref(group.end);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    expect_closed(pair.far);
    return 0;
}

static void select_many_tasks_share_a_descriptor(void)
{
    run_under(EVERYWHERE, share_a_descriptor);
}

/* Queued signals: each is taken by one of the selecting tasks. */
struct takers {
    sigset_t set;
    weft_chan *end;
    wf_atomic_u32 taken;
};

static intptr_t take_signals(void *arg)
{
    struct takers *takers = arg;
    for (;;) { /* until the channel is closed */
        int nothing;
        weft_case cases[] = {weft_case_signal(&takers->set, NULL),
                             weft_case_recv(takers->end, &nothing)};
        if (weft_select(cases, 2) != 0) {
            return cases[1].result == -EPIPE ? 0 : -EPROTO;
        }
        CHECK_EQ(cases[0].result, 0);
        CHECK_EQ(cases[0].value, SIGRTMIN);
        raise_by_one(&takers->taken);
    }
}

static intptr_t share_signals(void *arg)
{
    enum { SIGNALS = 100 };
    struct takers takers = {.set = set_of(SIGRTMIN), .end = int_chan(0)};
    weft_task *tasks[MANY_TASKS];
    (void)arg;
    for (unsigned i = 0; i < MANY_TASKS; i++) {
        tasks[i] = go(take_signals, &takers);
    }
    for (unsigned i = 0; i < SIGNALS; i++) {
        const union sigval what = {.sival_int = 0};
        CHECK_EQ(sigqueue(getpid(), SIGRTMIN, what), 0);
    }
    wait_for(&takers.taken, SIGNALS);
    CHECK_EQ(weft_chan_close(takers.end), 0);
    for (unsigned i = 0; i < MANY_TASKS; i++) {
        CHECK_EQ(weft_await(tasks[i]), 0);
    }
    weft_chan_unref(takers.end);
    return 0;
}

static void select_takes_each_signal_once(void)
{
    const sigset_t set = set_of(SIGRTMIN);
    CHECK_EQ(weft_signals_block(&set), 0);
    run_under(EVERYWHERE, share_signals);
}

/* ---- ends of waits --------------------------------------------------------------------------- */

static intptr_t end_selects(void *arg)
{
    struct pair pair = pair_new(SOCK_STREAM);
    struct chooser chooser = {.fd = pair.far, .chan = int_chan(1), .set = set_of(SIGUSR1)};
    (void)arg;
    weft_task *task = start_choosing(&chooser);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(waiting_in(chooser.chan), 0);

    weft_case late[] = {weft_case_fd(pair.far, POLLIN),
                        weft_case_time(weft_time_after(WEFT_MILLISECOND))};
    CHECK_EQ(weft_select(late, 2), 1);
    const weft_time old = weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(weft_select(late, 1), -ETIMEDOUT);
    (void)weft_deadline_set(old);

    task = start_choosing(&chooser);
    CHECK_EQ(weft_close(pair.far), 0);
    CHECK_EQ(weft_await(task), FD);
    CHECK_EQ(chooser.cases[FD].result, -EBADF);
    expect_closed(pair.far);
    CHECK_EQ(weft_select(late, 1), 0); /* it was closed before */
    CHECK_EQ(late[0].result, -EBADF);
    weft_chan_unref(chooser.chan);
    CHECK_EQ(weft_close(pair.near), 0);
    return 0;
}

static void select_event_wait_ends_by_cancel_deadline_and_close(void)
{
    const sigset_t set = set_of(SIGUSR1);
    CHECK_EQ(weft_signals_block(&set), 0);
    run_under(EVERYWHERE, end_selects);
}

static intptr_t pass_bad_arguments(void *arg)
{
    const sigset_t unknown = set_of(SIGUSR2);
    weft_case cases[] = {weft_case_fd(0, 0),
                         weft_case_fd(0, POLLIN | POLLOUT),
                         weft_case_signal(NULL, NULL),
                         weft_case_signal(&unknown, NULL),
                         {.kind = WEFT_CASE_EVENT}};
    (void)arg;
    CHECK_EQ(weft_select(&cases[0], 1), -EINVAL);
    CHECK_EQ(weft_select(&cases[1], 1), -EINVAL);
    CHECK_EQ(weft_select(&cases[2], 1), -EINVAL);
    CHECK_EQ(weft_select(&cases[3], 1), -EPERM);
    CHECK_EQ(weft_select(&cases[4], 1), -EINVAL);
    weft_case closed = weft_case_fd(-1, POLLIN);
    CHECK_EQ(weft_select(&closed, 1), 0);
    CHECK_EQ(closed.result, -EBADF);
    return 0;
}

static void select_refuses_bad_event_cases(void)
{
    run_under(ON_ONE_WORKER, pass_bad_arguments);
}

/* A thread may try, but not wait. */
static void select_of_events_in_a_thread_may_only_try(void)
{
    struct pair pair = pair_new(SOCK_STREAM);
    weft_case it = weft_case_fd(pair.far, POLLIN);
    CHECK_EQ(weft_select(&it, 1), -EPERM);
    CHECK_EQ(weft_try_select(&it, 1), -EAGAIN);
    CHECK_EQ(write(pair.near, "x", 1), 1);
    CHECK_EQ(weft_try_select(&it, 1), 0);
    CHECK_EQ(it.value, POLLIN);
    CHECK_EQ(weft_close(pair.far), 0);
    expect_closed(pair.far);
    CHECK_EQ(weft_close(pair.near), 0);
}

static intptr_t choose_shielded(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    return choose(arg); /* never returns: the runtime is closed by force */
}

static void select_forced_close_releases_all_descriptors(void)
{
    const sigset_t set = set_of(SIGUSR1);
    CHECK_EQ(weft_signals_block(&set), 0);
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct pair pair = pair_new(SOCK_STREAM);
        struct chooser chooser = {.fd = pair.far, .chan = int_chan(1), .set = set};
        weft_runtime *runtime = NULL;
        const size_t before = open_count();
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, choose_shielded, &chooser);
        wait_until_blocked(task, WEFT_WAIT_EXTERNAL_SELECT);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(open_count(), before);
        CHECK_EQ(waiting_in(chooser.chan), 0);
        weft_chan_unref(chooser.chan);
        CHECK_EQ(weft_close(pair.far), 0);
        expect_closed(pair.far); /* no operation uses it any more */
        CHECK_EQ(weft_close(pair.near), 0);
    }
}

/* ---- injected failures ----------------------------------------------------------------------- */

/* Uses a call that does not fail. */
static intptr_t write_byte(void *arg)
{
    return write(*(int *)arg, "x", 1) == 1 ? 0 : -EIO;
}

/* A select that waits, while every call fails in turn: a case reports the error, or the failure has
 * no effect. */
static intptr_t choose_with_faults(void *arg)
{
    struct faults *faults = arg;
    struct pair pair = pair_new(SOCK_STREAM);
    const sigset_t set = set_of(SIGUSR1);
    const size_t before = open_count();
    weft_task *task = go(write_byte, &pair.near); /* runs when this task waits */
    weft_case cases[] = {weft_case_fd(pair.far, POLLIN), weft_case_signal(&set, NULL)};
    faults_begin(faults);
    const int ran = weft_select(cases, 2);
    faults_end(faults);
    if (ran < 0 || cases[ran].result < 0) {
        CHECK(faults->what != NULL);
        faults->refused++;
    } else {
        CHECK_EQ(ran, FD);
        CHECK_EQ(cases[FD].value, POLLIN);
    }
    CHECK_EQ(weft_await(task), 0);
    CHECK(open_count() <= before + poller_descriptors());
    CHECK_EQ(weft_close(pair.far), 0);
    expect_closed(pair.far);
    CHECK_EQ(weft_close(pair.near), 0);
    return 0;
}

static void select_reports_every_injected_failure(void)
{
    const weft_runtime_options one = {.size = sizeof(one), .workers = 1, .no_monitor = 1};
    const sigset_t set = set_of(SIGUSR1);
    CHECK_EQ(weft_signals_block(&set), 0);
    faults_prepare();
    /* allocates the page of the fd table, which stays */
    CHECK_EQ(weft_run(choose_among_many, NULL, &one), 0);
    struct faults faults = {0};
    while (faults_next(&faults)) {
        CHECK_EQ(weft_run(choose_with_faults, &faults, &one), 0);
    }
    CHECK(faults.refused >= 4);
}

static const struct tap_test tests[] = {
    TAP_TEST(select_each_kind_of_case_can_win),
    TAP_TEST(select_runs_each_ready_event_case_at_times),
    TAP_TEST(select_supports_many_descriptor_cases),
    TAP_TEST(select_many_tasks_share_a_descriptor),
    TAP_TEST(select_takes_each_signal_once),
    TAP_TEST(select_event_wait_ends_by_cancel_deadline_and_close),
    TAP_TEST(select_refuses_bad_event_cases),
    TAP_TEST(select_of_events_in_a_thread_may_only_try),
    TAP_TEST(select_forced_close_releases_all_descriptors),
    TAP_TEST(select_reports_every_injected_failure),
};

TAP_MAIN(tests)
