/* SPDX-License-Identifier: MIT */
/*
 * Goal:   signals that come ten thousand times a second are all counted, while tasks read and
 *         write; a process that is stopped and continued, however often, loses no timer, byte or
 *         wake-up.
 * Method: a thread queues a realtime signal with a number in it, at that rate; several tasks take
 *         the signals and mark the numbers, while pairs of tasks pass numbers over sockets.  A
 *         child with sleepers, and with tasks that exchange bytes with each other and with the
 *         parent, is stopped; the parent sends it bytes and continues it, and the answers must
 *         arrive.
 * Environment: WEFT_STRESS_SECONDS  of signals, for each policy (default 3)
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "io_helpers.h"
#include "stress/stress.h"
#include <weft/signals.h>

static const struct setting policies[] = {
    {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 2},
    {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 2},
};
enum { POLICIES = sizeof(policies) / sizeof(policies[0]) };

/* ---- tasks that exchange numbers ------------------------------------------------------------- */

struct talk {
    struct pair pair;
    wf_atomic_u32 *is_over;
    uint64_t passed; /* counted by the first task of the pair */
};

static intptr_t begin_talk(void *arg)
{
    struct talk *talk = arg;
    uint64_t number = 0;
    do { /* once in any case: a thief may hold this task for as long as it gets no CPU */
        const uint64_t sent = ++number;
        CHECK_EQ(weft_write_all(talk->pair.near, &number, sizeof(number)), 0);
        CHECK_EQ(weft_read_full(talk->pair.near, &number, sizeof(number)), sizeof(number));
        CHECK_EQ(number, sent + 1);
    } while (wf_load_acquire(talk->is_over) == 0); /* to raise_by_one */
    talk->passed = number;
    CHECK_EQ(weft_shutdown(talk->pair.near, SHUT_WR), 0);
    return 0;
}

static intptr_t answer_talk(void *arg)
{
    struct talk *talk = arg;
    uint64_t number = 0;
    while (weft_read_full(talk->pair.far, &number, sizeof(number)) == sizeof(number)) {
        number++;
        CHECK_EQ(weft_write_all(talk->pair.far, &number, sizeof(number)), 0);
    }
    return 0;
}

static void talk_in(weft_scope *scope, struct talk *talk, wf_atomic_u32 *is_over)
{
    *talk = (struct talk){.pair = pair_new(SOCK_STREAM), .is_over = is_over};
    CHECK_EQ(weft_scope_go(scope, begin_talk, talk), 0);
    CHECK_EQ(weft_scope_go(scope, answer_talk, talk), 0);
}

static void end_talk(const struct talk *talk)
{
    CHECK_EQ(weft_close(talk->pair.near), 0);
    CHECK_EQ(weft_close(talk->pair.far), 0);
    CHECK(talk->passed > 0);
}

/* ---- signals --------------------------------------------------------------------------------- */

enum { RATE = 10000, TAKERS = 3, TALKS = 4, COUNTED = 1, LAST = 2 };

struct flood {
    uint32_t count;
    unsigned char *seen; /* by number; each written by the task that took it */
    wf_atomic_u32 taken;
    wf_atomic_u32 is_over;
    int64_t taken_ns; /* to send them */
};

/* Sends the numbers 1 to count at RATE per second. */
static void *send_flood(void *arg)
{
    struct flood *flood = arg;
    const int64_t begin_ns = wf_clock_now();
    for (uint32_t i = 0; i < flood->count; i++) {
        const int64_t due_ns = begin_ns + (int64_t)i * 1000000000 / RATE;
        const struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
        /* The rate is what is tested: there is no event to wait for. */
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        const union sigval number = {.sival_int = (int)i + 1};
        /* the kernel's queue is full */
        while (sigqueue(getpid(), SIGRTMIN + COUNTED, number) != 0) {
            CHECK_EQ(errno, EAGAIN);
            (void)sched_yield();
        }
    }
    flood->taken_ns = wf_clock_now() - begin_ns;
    return NULL;
}

static intptr_t take_flood(void *arg)
{
    struct flood *flood = arg;
    sigset_t set;
    (void)sigemptyset(&set);
    CHECK_EQ(sigaddset(&set, SIGRTMIN + COUNTED), 0);
    CHECK_EQ(sigaddset(&set, SIGRTMIN + LAST), 0);
    for (;;) { /* until there are no more signals */
        siginfo_t info;
        const int number = weft_signal_wait(&set, &info);
        if (number == SIGRTMIN + LAST) {
            return 0;
        }
        CHECK_EQ(number, SIGRTMIN + COUNTED);
        const int value = info.si_value.sival_int;
        CHECK(value >= 1 && (uint32_t)value <= flood->count);
        CHECK_EQ(flood->seen[value - 1], 0); /* no other task has it */
        flood->seen[value - 1] = 1;
        raise_by_one(&flood->taken);
    }
}

static intptr_t run_flood(void *arg)
{
    struct flood *flood = arg;
    struct talk talks[TALKS];
    weft_scope takers;
    weft_scope talkers;
    pthread_t thread;
    CHECK_EQ(weft_scope_open(&takers, NULL), 0);
    for (int i = 0; i < TAKERS; i++) {
        CHECK_EQ(weft_scope_go(&takers, take_flood, flood), 0);
    }
    CHECK_EQ(weft_scope_open(&talkers, NULL), 0);
    for (int i = 0; i < TALKS; i++) {
        talk_in(&talkers, &talks[i], &flood->is_over);
    }
    start_thread(&thread, send_flood, flood);
    wait_for(&flood->taken, flood->count); /* for ever, if one is lost */
    raise_by_one(&flood->is_over);
    CHECK_EQ(weft_scope_close(&talkers), 0);
    for (int i = 0; i < TAKERS; i++) {
        CHECK_EQ(kill(getpid(), SIGRTMIN + LAST), 0);
    }
    CHECK_EQ(weft_scope_close(&takers), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    uint64_t passed = 0;
    for (int i = 0; i < TALKS; i++) {
        end_talk(&talks[i]);
        passed += talks[i].passed;
    }
    tap_note("%u signals in %jd ms, %ju numbers passed", flood->count,
             (intmax_t)(flood->taken_ns / 1000000), (uintmax_t)passed);
    return 0;
}

/* behaviour 60, under stress */
static void signal_flood_beside_io_loses_no_signal(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    CHECK_EQ(sigaddset(&set, SIGRTMIN + COUNTED), 0);
    CHECK_EQ(sigaddset(&set, SIGRTMIN + LAST), 0);
    CHECK_EQ(weft_signals_block(&set), 0);
    for (size_t i = 0; i < POLICIES; i++) {
        struct flood flood = {.count = (uint32_t)wanted("WEFT_STRESS_SECONDS", 3) * RATE};
        tap_doing("policy %zu", i);
        flood.seen = calloc(flood.count, 1);
        CHECK(flood.seen != NULL);
        const weft_runtime_options options = options_of(&policies[i]);
        CHECK_EQ(weft_run(run_flood, &flood, &options), 0);
        for (uint32_t number = 0; number < flood.count; number++) {
            CHECK_EQ(flood.seen[number], 1);
        }
        free(flood.seen);
    }
}

/* ---- stopping a process ---------------------------------------------------------------------- */

enum { STOPS = 200, SLEEPERS = 20, BYTES = 5 };

struct stopped {
    int fd; /* to the parent */
    wf_atomic_u32 is_over;
    wf_atomic_u32 slept;
};

static intptr_t sleep_often(void *arg)
{
    struct stopped *stopped = arg;
    struct wf_random random;
    wf_random_init(&random, tap_seed() ^ weft_task_id(weft_self()));
    while (wf_load_acquire(&stopped->is_over) == 0) { /* to raise_by_one */
        const int64_t length_ns = (int64_t)wf_random_below(&random, 5000000);
        const weft_time until = weft_time_after(length_ns);
        CHECK_EQ(weft_sleep(length_ns), 0);
        CHECK(weft_now() >= until); /* never early */
        raise_by_one(&stopped->slept);
    }
    return 0;
}

/* No bytes arrive: its deadline ends each wait, and not before. */
static intptr_t wait_for_deadline(void *arg)
{
    struct stopped *stopped = arg;
    const struct pair pair = pair_new(SOCK_STREAM);
    while (wf_load_acquire(&stopped->is_over) == 0) { /* to raise_by_one */
        const weft_time until = weft_time_after(WEFT_MILLISECOND);
        char byte;
        (void)weft_deadline_set(until);
        CHECK_EQ(weft_read(pair.near, &byte, 1), -ETIMEDOUT);
        (void)weft_deadline_set(WEFT_NEVER);
        CHECK(weft_now() >= until);
    }
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static intptr_t run_stopped(void *arg)
{
    struct stopped *stopped = arg;
    struct talk talks[TALKS];
    weft_scope scope;
    char byte;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    for (int i = 0; i < SLEEPERS; i++) {
        CHECK_EQ(weft_scope_go(&scope, i % 4 == 0 ? wait_for_deadline : sleep_often, stopped), 0);
    }
    for (int i = 0; i < TALKS; i++) {
        talk_in(&scope, &talks[i], &stopped->is_over);
    }
    while (weft_read(stopped->fd, &byte, 1) == 1) { /* until the parent closes its end */
        byte ^= 1;
        CHECK_EQ(weft_write_all(stopped->fd, &byte, 1), 0);
    }
    wait_for(&stopped->slept, 1);
    raise_by_one(&stopped->is_over);
    CHECK_EQ(weft_scope_close(&scope), 0);
    for (int i = 0; i < TALKS; i++) {
        end_talk(&talks[i]);
    }
    CHECK_EQ(stats_of(weft_runtime_self()).lost_wakeups, 0);
    return 0;
}

static void stop_and_go(pid_t child, int fd, struct wf_random *random)
{
    char bytes[BYTES];
    char answers[BYTES];
    int status = 0;
    CHECK_EQ(kill(child, SIGSTOP), 0);
    CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
    CHECK(WIFSTOPPED(status));
    for (int i = 0; i < BYTES; i++) {
        bytes[i] = (char)wf_random_below(random, 128);
    }
    CHECK_EQ(send(fd, bytes, BYTES, MSG_NOSIGNAL), BYTES);
    CHECK_EQ(kill(child, SIGCONT), 0);
    /* it continues, and has received all bytes */
    CHECK_EQ(recv(fd, answers, BYTES, MSG_WAITALL), BYTES);
    for (int i = 0; i < BYTES; i++) {
        CHECK_EQ(answers[i], bytes[i] ^ 1);
    }
}

static void stop_often(const weft_runtime_options *options)
{
    const struct pair pair = pair_new(SOCK_STREAM);
    struct wf_random random;
    wf_random_init(&random, tap_seed());
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct stopped stopped = {.fd = pair.far};
        CHECK_EQ(close(pair.near), 0);
        CHECK_EQ(weft_run(run_stopped, &stopped, options), 0);
        CHECK_EQ(weft_close(pair.far), 0);
        _exit(0);
    }
    CHECK_EQ(close(pair.far), 0);
    for (int i = 0; i < STOPS; i++) {
        stop_and_go(child, pair.near, &random);
    }
    CHECK_EQ(shutdown(pair.near, SHUT_WR), 0);
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(close(pair.near), 0);
}

static void runtime_survives_sigstop_and_sigcont(void)
{
    for (size_t i = 0; i < POLICIES; i++) {
        tap_doing("policy %zu", i);
        const weft_runtime_options options = options_of(&policies[i]);
        stop_often(&options);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(signal_flood_beside_io_loses_no_signal, LIMIT_S),
    TAP_TEST_LIMIT(runtime_survives_sigstop_and_sigcont, LIMIT_S),
};
TAP_MAIN(tests)
