/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a select waits for descriptors and signals beside channels, tasks and times; exactly one
 *         case runs, nothing is taken for the others, and whatever ends the wait leaves every
 *         descriptor as it was.
 * Method: each kind of case wins and loses against the others, under every setting; crowds that
 *         share a descriptor; closes, cancels, deadlines, faults.  Keeps part of behaviour 57.
 */
#include <signal.h>

#include "chan_aids.h"
#include "fault_aids.h"
#include "net_aids.h"
#include <weft/signals.h>

static sigset_t set_of(int number)
{
    sigset_t set;
    (void)sigemptyset(&set);
    CHECK_EQ(sigaddset(&set, number), 0);
    return set;
}

/* One select over all kinds, in a task of its own. */
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
    chooser->cases[TIME] = weft_case_time(weft_in(HOUR));
    return weft_select(chooser->cases, 4, 0);
}

static weft_task *start_choosing(struct chooser *chooser)
{
    weft_task *task = go(choose, chooser);
    wait_until_blocked(task, WEFT_WAIT_OUTER_SELECT);
    return task;
}

/* ---- who wins -------------------------------------------------------------------------------- */

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
    CHECK_EQ(weft_send(chooser.chan, &item), 0);
    CHECK_EQ(weft_await(task), CHAN);
    CHECK_EQ(chooser.item, 42);

    task = start_choosing(&chooser);
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    CHECK_EQ(weft_await(task), SIGNAL);
    CHECK_EQ(chooser.cases[SIGNAL].result, 0);
    CHECK_EQ(chooser.cases[SIGNAL].value, SIGUSR1);
    CHECK_EQ(chooser.info.si_pid, getpid());
    weft_case none = weft_case_signal(&chooser.set, NULL); /* it is taken */
    CHECK_EQ(weft_select(&none, 1, 1), -EAGAIN);

    const int signal_fd = (int)(intptr_t)chooser.cases[SIGNAL].unused[1];
    while (is_open(signal_fd)) { /* a thread that begins may have the number for a moment */
        let_others_run();
    }
    weft_chan_drop(chooser.chan);
    CHECK_EQ(weft_close(pair.far), 0);
    expect_closed(pair.far); /* nobody is left inside */
    CHECK_EQ(weft_close(pair.near), 0);
    return 0;
}

static void each_kind_of_case_can_win(void)
{
    const sigset_t set = set_of(SIGUSR1);
    CHECK_EQ(weft_signals_block(&set), 0);
    run_under(EVERYWHERE, let_each_win);
}

/* All can run: each does at times, and takes nothing of the others. */
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
    CHECK_EQ(weft_send(chan, &item), 0);
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        weft_case cases[] = {weft_case_fd(pair.far, POLLIN), weft_case_recv(chan, &item),
                             weft_case_signal(&set, NULL)};
        const int ran = weft_select(cases, 3, (int)(i % 2));
        CHECK(ran >= 0 && ran < 3);
        wins[ran]++;
        if (ran == CHAN) {
            CHECK_EQ(weft_send(chan, &item), 0);
        } else if (ran == SIGNAL) {
            CHECK_EQ(cases[SIGNAL].value, SIGUSR1);
            CHECK_EQ(kill(getpid(), SIGUSR1), 0);
        }
        CHECK_EQ(weft_chan_length(chan), 1);
    }
    for (unsigned i = 0; i < 3; i++) {
        CHECK(wins[i] > ROUNDS / 10); /* a third each; far less has a chance of 1 in 10^20 */
    }
    CHECK_EQ(weft_signal_wait(&set, NULL), SIGUSR1); /* the last one stays with the process */
    weft_chan_drop(chan);
    CHECK_EQ(weft_close(pair.far), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    return 0;
}

static void of_several_that_can_run_each_has_its_chance(void)
{
    const sigset_t set = set_of(SIGUSR1);
    CHECK_EQ(weft_signals_block(&set), 0);
    run_under(ON_ONE_WORKER, choose_among_ready);
}

/* Both sides of one descriptor, and more cases than the frame has room for. */
static intptr_t choose_among_many(void *arg)
{
    enum { MANY = 40 };
    struct pair pair = pair_new(SOCK_STREAM);
    weft_case cases[MANY];
    (void)arg;
    for (int i = 0; i < MANY; i++) {
        cases[i] = weft_case_fd(pair.far, POLLIN);
    }
    CHECK_EQ(weft_select(cases, MANY, 1), -EAGAIN);
    cases[MANY - 1] = weft_case_fd(pair.far, POLLOUT);
    CHECK_EQ(weft_select(cases, MANY, 0), MANY - 1);
    CHECK_EQ(cases[MANY - 1].value, POLLOUT);
    CHECK_EQ(weft_close(pair.near), 0); /* hung up: all can run */
    cases[MANY - 1] = weft_case_fd(pair.far, POLLIN);
    const int ran = weft_select(cases, MANY, 0);
    CHECK(ran >= 0 && ran < MANY);
    CHECK((cases[ran].value & POLLHUP) != 0);
    CHECK_EQ(weft_close(pair.far), 0);
    expect_closed(pair.far);
    return 0;
}

static void many_cases_may_be_descriptors(void)
{
    run_under(EVERYWHERE, choose_among_many);
}

/* ---- crowds ---------------------------------------------------------------------------------- */

enum { CROWD = 4, LETTERS = 400 };

struct crowd {
    int fd;
    weft_chan *end;
    unsigned got[CROWD]; /* by the number of the task, which is in the letter's way only here */
    wf_atomic_u32 seen[LETTERS];
};

struct member {
    struct crowd *crowd;
    unsigned number;
};

/* Takes letters until it is told to end; who is woken for one that another has taken waits on. */
static intptr_t take_letters(void *arg)
{
    const struct member *member = arg;
    struct crowd *crowd = member->crowd;
    for (;;) { /* until the channel is closed */
        int nothing;
        uint32_t letter;
        weft_case cases[] = {weft_case_fd(crowd->fd, POLLIN), weft_case_recv(crowd->end, &nothing)};
        const int ran = weft_select(cases, 2, 0);
        if (ran == CHAN) {
            CHECK_EQ(cases[CHAN].result, -EPIPE);
            return 0;
        }
        CHECK_EQ(ran, FD);
        const ssize_t got = weft_socket_recv(crowd->fd, &letter, sizeof(letter), MSG_DONTWAIT);
        if (got != -EAGAIN) {
            CHECK_EQ(got, sizeof(letter));
            crowd->got[member->number]++;
            CHECK_EQ(wf_fetch_add_relaxed(&crowd->seen[letter], 1), 0);
        }
    }
}

static intptr_t share_a_descriptor(void *arg)
{
    struct pair pair = pair_new(SOCK_DGRAM);
    struct crowd crowd = {.fd = pair.far, .end = int_chan(0)};
    struct member members[CROWD];
    weft_task *tasks[CROWD];
    unsigned total = 0;
    (void)arg;
    for (unsigned i = 0; i < CROWD; i++) {
        members[i] = (struct member){&crowd, i};
        tasks[i] = go(take_letters, &members[i]);
    }
    for (uint32_t i = 0; i < LETTERS; i++) {
        CHECK_EQ(weft_write(pair.near, &i, sizeof(i)), sizeof(i));
    }
    for (uint32_t i = 0; i < LETTERS; i++) {
        wait_for(&crowd.seen[i], 1);
    }
    CHECK_EQ(weft_chan_close(crowd.end), 0);
    for (unsigned i = 0; i < CROWD; i++) {
        CHECK_EQ(weft_await(tasks[i]), 0);
        total += crowd.got[i];
    }
    CHECK_EQ(total, LETTERS);
    weft_chan_drop(crowd.end);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    expect_closed(pair.far);
    return 0;
}

static void a_crowd_shares_a_descriptor(void)
{
    run_under(EVERYWHERE, share_a_descriptor);
}

/* Signals that are counted: each is taken by one of those who select. */
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
        if (weft_select(cases, 2, 0) != 0) {
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
    weft_task *tasks[CROWD];
    (void)arg;
    for (unsigned i = 0; i < CROWD; i++) {
        tasks[i] = go(take_signals, &takers);
    }
    for (unsigned i = 0; i < SIGNALS; i++) {
        const union sigval what = {.sival_int = 0};
        CHECK_EQ(sigqueue(getpid(), SIGRTMIN, what), 0);
    }
    wait_for(&takers.taken, SIGNALS);
    CHECK_EQ(weft_chan_close(takers.end), 0);
    for (unsigned i = 0; i < CROWD; i++) {
        CHECK_EQ(weft_await(tasks[i]), 0);
    }
    weft_chan_drop(takers.end);
    return 0;
}

static void each_signal_is_taken_by_one(void)
{
    const sigset_t set = set_of(SIGRTMIN);
    CHECK_EQ(weft_signals_block(&set), 0);
    run_under(EVERYWHERE, share_signals);
}

/* ---- the ends of a wait ---------------------------------------------------------------------- */

static intptr_t end_selects(void *arg)
{
    struct pair pair = pair_new(SOCK_STREAM);
    struct chooser chooser = {.fd = pair.far, .chan = int_chan(1), .set = set_of(SIGUSR1)};
    (void)arg;
    weft_task *task = start_choosing(&chooser);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(waiting_in(chooser.chan), 0);

    weft_case late[] = {weft_case_fd(pair.far, POLLIN), weft_case_time(weft_in(WEFT_MILLISECOND))};
    CHECK_EQ(weft_select(late, 2, 0), 1);
    const weft_time old = weft_deadline(weft_in(WEFT_MILLISECOND));
    CHECK_EQ(weft_select(late, 1, 0), -ETIMEDOUT);
    (void)weft_deadline(old);

    task = start_choosing(&chooser);
    CHECK_EQ(weft_close(pair.far), 0);
    CHECK_EQ(weft_await(task), FD);
    CHECK_EQ(chooser.cases[FD].result, -EBADF);
    expect_closed(pair.far);
    CHECK_EQ(weft_select(late, 1, 0), 0); /* it was closed before */
    CHECK_EQ(late[0].result, -EBADF);
    weft_chan_drop(chooser.chan);
    CHECK_EQ(weft_close(pair.near), 0);
    return 0;
}

static void cancels_deadlines_and_closes_end_it(void)
{
    const sigset_t set = set_of(SIGUSR1);
    CHECK_EQ(weft_signals_block(&set), 0);
    run_under(EVERYWHERE, end_selects);
}

static intptr_t ask_wrongly(void *arg)
{
    const sigset_t unknown = set_of(SIGUSR2);
    weft_case cases[] = {weft_case_fd(0, 0),
                         weft_case_fd(0, POLLIN | POLLOUT),
                         weft_case_signal(NULL, NULL),
                         weft_case_signal(&unknown, NULL),
                         {.kind = WEFT_CASE_EVENT}};
    (void)arg;
    CHECK_EQ(weft_select(&cases[0], 1, 0), -EINVAL);
    CHECK_EQ(weft_select(&cases[1], 1, 0), -EINVAL);
    CHECK_EQ(weft_select(&cases[2], 1, 0), -EINVAL);
    CHECK_EQ(weft_select(&cases[3], 1, 0), -EPERM);
    CHECK_EQ(weft_select(&cases[4], 1, 0), -EINVAL);
    weft_case closed = weft_case_fd(-1, POLLIN);
    CHECK_EQ(weft_select(&closed, 1, 0), 0);
    CHECK_EQ(closed.result, -EBADF);
    return 0;
}

static void bad_cases_are_refused(void)
{
    run_under(ON_ONE_WORKER, ask_wrongly);
}

/* It may look, but not wait. */
static void a_thread_may_try(void)
{
    struct pair pair = pair_new(SOCK_STREAM);
    weft_case it = weft_case_fd(pair.far, POLLIN);
    CHECK_EQ(weft_select(&it, 1, 0), -EPERM);
    CHECK_EQ(weft_select(&it, 1, 1), -EAGAIN);
    CHECK_EQ(write(pair.near, "x", 1), 1);
    CHECK_EQ(weft_select(&it, 1, 1), 0);
    CHECK_EQ(it.value, POLLIN);
    CHECK_EQ(weft_close(pair.far), 0);
    expect_closed(pair.far);
    CHECK_EQ(weft_close(pair.near), 0);
}

static intptr_t choose_shielded(void *arg)
{
    CHECK_EQ(weft_shield(1), 0);
    return choose(arg); /* never returns: the runtime is closed by force */
}

static void a_forced_close_leaves_all_descriptors(void)
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
        wait_until_blocked(task, WEFT_WAIT_OUTER_SELECT);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(open_count(), before);
        CHECK_EQ(waiting_in(chooser.chan), 0);
        weft_chan_drop(chooser.chan);
        CHECK_EQ(weft_close(pair.far), 0);
        expect_closed(pair.far); /* nobody was left inside */
        CHECK_EQ(weft_close(pair.near), 0);
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* By a call that does not fail. */
static intptr_t poke(void *arg)
{
    return write(*(int *)arg, "x", 1) == 1 ? 0 : -EIO;
}

/* A select that waits, with every call failing in turn: a case says so, or it was no matter. */
static intptr_t choose_with_faults(void *arg)
{
    struct faults *faults = arg;
    struct pair pair = pair_new(SOCK_STREAM);
    const sigset_t set = set_of(SIGUSR1);
    const size_t before = open_count();
    weft_task *task = go(poke, &pair.near); /* when this one waits */
    weft_case cases[] = {weft_case_fd(pair.far, POLLIN), weft_case_signal(&set, NULL)};
    faults_begin(faults);
    const int ran = weft_select(cases, 2, 0);
    faults_end(faults);
    if (ran < 0 || cases[ran].result < 0) {
        CHECK(faults->what != NULL);
        faults->refused++;
    } else {
        CHECK_EQ(ran, FD);
        CHECK_EQ(cases[FD].value, POLLIN);
    }
    CHECK_EQ(weft_await(task), 0);
    CHECK(open_count() <= before + of_poller());
    CHECK_EQ(weft_close(pair.far), 0);
    expect_closed(pair.far);
    CHECK_EQ(weft_close(pair.near), 0);
    return 0;
}

static void a_call_that_fails_is_told(void)
{
    const weft_options one = {.size = sizeof(one), .workers = 1, .no_monitor = 1};
    const sigset_t set = set_of(SIGUSR1);
    CHECK_EQ(weft_signals_block(&set), 0);
    faults_prepare();
    CHECK_EQ(weft_run(choose_among_many, NULL, &one), 0); /* the page of the table stays */
    struct faults faults = {0};
    while (faults_next(&faults)) {
        CHECK_EQ(weft_run(choose_with_faults, &faults, &one), 0);
    }
    CHECK(faults.refused >= 4);
}

static const struct tap_test tests[] = {
    TAP_TEST(each_kind_of_case_can_win),
    TAP_TEST(of_several_that_can_run_each_has_its_chance),
    TAP_TEST(many_cases_may_be_descriptors),
    TAP_TEST(a_crowd_shares_a_descriptor),
    TAP_TEST(each_signal_is_taken_by_one),
    TAP_TEST(cancels_deadlines_and_closes_end_it),
    TAP_TEST(bad_cases_are_refused),
    TAP_TEST(a_thread_may_try),
    TAP_TEST(a_forced_close_leaves_all_descriptors),
    TAP_TEST(a_call_that_fails_is_told),
};

TAP_MAIN(tests)
