/* SPDX-License-Identifier: MIT */
/*
 * Goal:   whoever closes a descriptor ends the waits of all who use it, and it is closed when the
 *         last of them has left; a number that is given out again is never taken for the old one.
 * Method: closes while others wait, read and write, under every setting; the same number again and
 *         again; copies, descriptors that others close, and a forced close of the runtime.  The
 *         model of the same is tests/model/model_fd.c.  Keeps part of behaviours 32 and 57.
 */
#include <malloc.h>
#include <semaphore.h>

#include <weft/signals.h>

#include "io/io.h"
#include "io_aids.h"
#include "net_aids.h"

static intptr_t close_under_others(void *arg)
{
    (void)arg;
    for (int round = 0; round < 10; round++) {
        struct pair pair = pair_new(SOCK_STREAM);
        struct reader readers[2] = {{.fd = pair.near}, {.fd = pair.near}};
        fill(pair.near);
        weft_task *first = go(read_some, &readers[0]);
        weft_task *second = go(read_some, &readers[1]);
        weft_task *writer = go(write_one, &pair.near);
        wait_until_blocked(first, WEFT_WAIT_READABLE);
        wait_until_blocked(second, WEFT_WAIT_READABLE);
        wait_until_blocked(writer, WEFT_WAIT_WRITABLE);
        CHECK_EQ(weft_close(pair.near), 0);
        CHECK_EQ(weft_await(first), -EBADF);
        CHECK_EQ(weft_await(second), -EBADF);
        CHECK_EQ(weft_await(writer), -EBADF);
        expect_closed(pair.near);
        CHECK_EQ(weft_close(pair.near), -EBADF);
        CHECK_EQ(weft_read(pair.near, readers[0].text, 1), -EBADF);
        CHECK_EQ(weft_close(pair.far), 0);
    }
    return 0;
}

static void a_close_ends_all_waits(void)
{
    run_under(EVERYWHERE, close_under_others);
}

/* The same number each time: what was known of it must not stay. */
enum { NUMBER = 200 };

static intptr_t reuse_a_number(void *arg)
{
    (void)arg;
    for (int round = 0; round < 50; round++) {
        struct pair pair = round % 2 == 0 ? pair_new(SOCK_STREAM) : tcp_pair_new();
        expect_closed(NUMBER);
        CHECK_EQ(dup2(pair.near, NUMBER), NUMBER);
        CHECK_EQ(close(pair.near), 0);
        pair.near = NUMBER;
        struct reader reader = {.fd = pair.near};
        weft_task *task = go(read_some, &reader);
        wait_until_blocked(task, WEFT_WAIT_READABLE);
        CHECK_EQ(weft_write(pair.far, "ab", 2), 2);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(reader.got, 2);
        if (round % 3 == 0) {
            CHECK_EQ(weft_close(pair.far), 0); /* it was hung up when it is closed */
            CHECK_EQ(weft_close(pair.near), 0);
        } else {
            CHECK_EQ(weft_close(pair.near), 0);
            CHECK_EQ(weft_close(pair.far), 0);
        }
    }
    return 0;
}

static void a_number_given_out_again_is_another(void)
{
    run_under(ON_ONE_WORKER, reuse_a_number);
    run_under(ON_SEVERAL, reuse_a_number);
}

/* Others close it: it is forgotten, and the number is good for something else. */
static intptr_t forget_a_number(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_STREAM);
    struct reader reader = {.fd = pair.near};
    weft_task *task = go(read_some, &reader);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(weft_forget(pair.near), 0);
    CHECK_EQ(weft_await(task), -EBADF);
    CHECK(is_open(pair.near));
    for (int round = 0; round < 2; round++) { /* it may also be used on, or be another */
        task = go(read_some, &reader);
        wait_until_blocked(task, WEFT_WAIT_READABLE);
        CHECK_EQ(weft_write(pair.far, "ab", 2), 2);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(weft_forget(pair.near), 0);
        struct pair other = pair_new(SOCK_STREAM);
        CHECK(dup2(other.near, pair.near) == pair.near);
        CHECK_EQ(close(other.near), 0);
        CHECK_EQ(weft_close(pair.far), 0);
        pair.far = other.far;
    }
    CHECK_EQ(weft_forget(-1), -EBADF);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void a_forgotten_number_is_as_new(void)
{
    run_under(EVERYWHERE, forget_a_number);
}

/* A copy keeps what the kernel was told; the number comes back to the same socket. */
static intptr_t return_to_a_number(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_STREAM);
    struct reader reader = {.fd = pair.near};
    int copy = dup(pair.near);
    for (int round = 0; round < 3; round++) {
        weft_task *task = go(read_some, &reader);
        wait_until_blocked(task, WEFT_WAIT_READABLE);
        CHECK_EQ(weft_write(pair.far, "ab", 2), 2);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(weft_close(pair.near), 0);
        CHECK_EQ(dup2(copy, pair.near), pair.near);
    }
    CHECK_EQ(weft_close(copy), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void a_number_may_come_back_to_the_same_socket(void)
{
    run_under(EVERYWHERE, return_to_a_number);
}

static intptr_t read_shielded(void *arg)
{
    CHECK_EQ(weft_shield(1), 0);
    return read_some(arg); /* never returns: the runtime is closed by force */
}

/* What a task had in its hands that never runs again is not in use for ever. */
static void a_forced_close_leaves_the_descriptor(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        struct pair pair = pair_new(SOCK_STREAM);
        struct reader reader = {.fd = pair.near};
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, read_shielded, &reader);
        wait_until_blocked(task, WEFT_WAIT_READABLE);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(weft_close(pair.near), 0);
        expect_closed(pair.near);
        CHECK_EQ(weft_close(pair.far), 0);
    }
}

/* Calls that have something of their own while they wait; none of them returns. */
static intptr_t wait_for_a_signal(void *set)
{
    CHECK_EQ(weft_shield(1), 0);
    return weft_signal_wait(set, NULL);
}

static intptr_t dial_one_that_is_silent(void *address)
{
    CHECK_EQ(weft_shield(1), 0);
    return weft_dial(text_of(address).text);
}

static intptr_t race_two_that_are_silent(void *address)
{
    const weft_address both[2] = {*(const weft_address *)address, *(const weft_address *)address};
    CHECK_EQ(weft_shield(1), 0);
    return wf_dial_addresses(both, 2, 0);
}

static intptr_t copy_nothing(void *arg)
{
    const struct pair *pair = arg;
    CHECK_EQ(weft_shield(1), 0);
    return weft_copy(pair->near, pair->near, 1, NULL); /* by a buffer, which LeakSanitizer knows */
}

static void a_forced_close_leaves_nothing_of_calls_behind(void)
{
    sigset_t set;
    weft_address address;
    CHECK_EQ(sigemptyset(&set) + sigaddset(&set, SIGUSR1), 0);
    CHECK_EQ(weft_signals_block(&set), 0);
    const int listener = silent(&address);
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        struct pair pair = pair_new(SOCK_STREAM);
        const size_t before = open_count();
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *tasks[] = {go_into(runtime, wait_for_a_signal, &set),
                              go_into(runtime, race_two_that_are_silent, &address),
                              go_into(runtime, copy_nothing, &pair),
                              go_into(runtime, dial_one_that_is_silent, &address)};
        wait_until_blocked(tasks[0], WEFT_WAIT_READABLE);
        wait_until_blocked(tasks[1], WEFT_WAIT_READABLE);
        wait_until_blocked(tasks[2], WEFT_WAIT_READABLE);
        wait_until_blocked(tasks[3], WEFT_WAIT_WRITABLE);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
            CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
        }
        CHECK_EQ(open_count(), before);
        CHECK_EQ(weft_close(pair.near) + weft_close(pair.far), 0);
    }
    CHECK_EQ(weft_close(listener), 0);
}

/* A server that was asked to end, and never does: one of its tasks heeds no cancel. */
struct server {
    const sigset_t *signals;
    struct reader reader;
    sem_t is_ending;
};

static void tell_that_it_ends(void *context, int signal)
{
    struct server *server = context;
    CHECK_EQ(signal, SIGUSR2);
    CHECK_EQ(sem_post(&server->is_ending), 0);
}

static intptr_t serve_for_ever(void *arg)
{
    struct server *server = arg;
    weft_scope scope;
    const weft_drain_options options = {
        .signals = server->signals, .on_begin = tell_that_it_ends, .context = server};
    const int listener = weft_listen("127.0.0.1:0", NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_spawn(&scope, read_shielded, &server->reader, NULL), 0);
    return weft_drain(&scope, listener, &options);
}

static void close_while_it_drains(const sigset_t *set, const weft_options *options)
{
    weft_runtime *runtime = NULL;
    struct pair pair = pair_new(SOCK_STREAM);
    struct server server = {.signals = set, .reader = {.fd = pair.near}};
    const size_t before = open_count();
    CHECK_EQ(sem_init(&server.is_ending, 0, 0), 0);
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    weft_task *task = go_into(runtime, serve_for_ever, &server);
    CHECK_EQ(kill(getpid(), SIGUSR2), 0);
    CHECK_EQ(sem_wait(&server.is_ending), 0);
    CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(open_count(), before); /* the number of the listener too, which the drain had */
    CHECK_EQ(sem_destroy(&server.is_ending), 0);
    CHECK_EQ(weft_close(pair.near) + weft_close(pair.far), 0);
}

static void a_forced_close_ends_a_drain(void)
{
    enum { TIMES = 10, SLACK = 64 << 10 };
    sigset_t set;
    CHECK_EQ(sigemptyset(&set) + sigaddset(&set, SIGUSR2), 0);
    CHECK_EQ(weft_signals_block(&set), 0);
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        close_while_it_drains(&set, &tour.options);
    }
    /* Nor is the memory of the tasks kept by a handle that nobody has: 16 KiB and more each time.
     * (An allocator that tells nothing says 0.) */
    const size_t before = mallinfo2().uordblks;
    for (int i = 0; i < TIMES; i++) {
        close_while_it_drains(&set, NULL);
    }
    CHECK(mallinfo2().uordblks < before + SLACK);
}

/* ---- storms ---------------------------------------------------------------------------------- */

struct fight {
    int fd;
};

static intptr_t read_until_closed(void *arg)
{
    struct fight *fight = arg;
    char text[16];
    ssize_t rc;
    do {
        rc = weft_read(fight->fd, text, sizeof(text));
    } while (rc > 0);
    CHECK(rc == -EBADF || rc == 0 || rc == -ECONNRESET);
    return 0;
}

static intptr_t write_until_closed(void *arg)
{
    struct fight *fight = arg;
    ssize_t rc;
    do {
        rc = weft_write(fight->fd, "0123456789", 10);
    } while (rc > 0);
    CHECK(rc == -EBADF || rc == -EPIPE || rc == -ECONNRESET);
    return 0;
}

/* A reader, a writer and one who closes at any moment. */
static intptr_t fight_over_one(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_poll_fd(STDOUT_FILENO, POLLOUT), POLLOUT); /* nobody opens anything from now on */
    for (int round = 0; round < 24; round++) {
        struct pair pair = round % 2 == 0 ? pair_new(SOCK_STREAM) : tcp_pair_new();
        struct fight near = {.fd = pair.near};
        struct fight far = {.fd = pair.far};
        weft_task *tasks[] = {go(read_until_closed, &near), go(write_until_closed, &near),
                              go(read_until_closed, &far), go(write_until_closed, &far)};
        for (int i = 0; i < round / 2; i++) {
            (void)weft_yield();
        }
        CHECK_EQ(weft_close(pair.near), 0);
        CHECK_EQ(weft_await(tasks[0]), 0);
        CHECK_EQ(weft_await(tasks[1]), 0);
        CHECK_EQ(weft_await(tasks[2]), 0);
        CHECK_EQ(weft_await(tasks[3]), 0);
        expect_closed(pair.near);
        CHECK_EQ(weft_close(pair.far), 0);
    }
    return 0;
}

static void a_reader_a_writer_and_a_closer_fight_over_one(void)
{
    run_under(EVERYWHERE, fight_over_one);
}

/* Numbers go from one thread to the other as fast as the kernel gives them out: each closes only
 * what is its own, and that is never refused. */
enum { CLOSERS = 3, CLOSES = 20000 };

static void *close_own(void *arg)
{
    for (int i = 0; i < CLOSES; i++) {
        int fd = dup(*(const int *)arg);
        CHECK(fd >= 0);
        CHECK_EQ(weft_close(fd), 0);
    }
    return NULL;
}

static void a_number_is_closed_by_whoever_has_it(void)
{
    pthread_t threads[CLOSERS];
    struct pair pair = pair_new(SOCK_STREAM);
    CHECK_EQ(weft_poll_fd(pair.near, POLLOUT), POLLOUT); /* numbers like it are in the table */
    const int next = dup(pair.near);
    CHECK_EQ(weft_close(next), 0);
    for (int i = 0; i < CLOSERS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, close_own, &pair.near), 0);
    }
    for (int i = 0; i < CLOSERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    const int left = dup(pair.near);
    CHECK_EQ(left, next); /* nothing was left open */
    CHECK_EQ(weft_close(left), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_close_ends_all_waits),
    TAP_TEST(a_number_given_out_again_is_another),
    TAP_TEST(a_forgotten_number_is_as_new),
    TAP_TEST(a_number_may_come_back_to_the_same_socket),
    TAP_TEST(a_forced_close_leaves_the_descriptor),
    TAP_TEST(a_forced_close_leaves_nothing_of_calls_behind),
    TAP_TEST(a_forced_close_ends_a_drain),
    TAP_TEST(a_reader_a_writer_and_a_closer_fight_over_one),
    TAP_TEST(a_number_is_closed_by_whoever_has_it),
};
TAP_MAIN(tests)
