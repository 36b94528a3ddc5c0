/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a close ends the waits of all tasks that use the descriptor, and the descriptor is closed
 *         when the last operation has ended; a reused number is never taken for the old descriptor.
 * Method: closes while tasks wait, read and write, under every setting; the same number again and
 *         again; copies, descriptors that other code closes, and a forced close of the runtime
 *         (for all other calls: tests/unit/net/test_forced_close.c).
 *         tests/model/model_fd.c is the model program of the same source.  Keeps part of behaviours
 *         32 and 57.
 */
#include "io_helpers.h"

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

static void fd_close_ends_all_waits(void)
{
    run_under(EVERYWHERE, close_under_others);
}

/* The same number each time: the record of the old descriptor must not stay. */
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
            CHECK_EQ(weft_close(pair.far), 0); /* it is closed after a hang-up */
            CHECK_EQ(weft_close(pair.near), 0);
        } else {
            CHECK_EQ(weft_close(pair.near), 0);
            CHECK_EQ(weft_close(pair.far), 0);
        }
    }
    return 0;
}

static void fd_reused_number_is_a_new_descriptor(void)
{
    run_under(ON_ONE_WORKER, reuse_a_number);
    run_under(ON_SEVERAL, reuse_a_number);
}

/* Other code closes it: it is forgotten, and the number can be used for another descriptor. */
static intptr_t forget_a_number(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_STREAM);
    struct reader reader = {.fd = pair.near};
    weft_task *task = go(read_some, &reader);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(weft_fd_forget(pair.near), 0);
    CHECK_EQ(weft_await(task), -EBADF);
    CHECK(is_open(pair.near));
    /* the same descriptor may be used again, or the number may be reused */
    for (int round = 0; round < 2; round++) {
        task = go(read_some, &reader);
        wait_until_blocked(task, WEFT_WAIT_READABLE);
        CHECK_EQ(weft_write(pair.far, "ab", 2), 2);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(weft_fd_forget(pair.near), 0);
        struct pair other = pair_new(SOCK_STREAM);
        CHECK(dup2(other.near, pair.near) == pair.near);
        CHECK_EQ(close(other.near), 0);
        CHECK_EQ(weft_close(pair.far), 0);
        pair.far = other.far;
    }
    CHECK_EQ(weft_fd_forget(-1), -EBADF);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void fd_forget_resets_a_number(void)
{
    run_under(EVERYWHERE, forget_a_number);
}

/* A copy keeps the registration with the kernel; the number returns to the same socket. */
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

static void fd_number_may_return_to_the_same_socket(void)
{
    run_under(EVERYWHERE, return_to_a_number);
}

static intptr_t read_shielded(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    return read_some(arg); /* never returns: the runtime is closed by force */
}

/* A task that never runs again holds no reference to the descriptor. */
static void fd_forced_close_releases_the_descriptor(void)
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

/* ---- stress ---------------------------------------------------------------------------------- */

struct contest {
    int fd;
};

static intptr_t read_until_closed(void *arg)
{
    struct contest *contest = arg;
    char text[16];
    ssize_t rc;
    do {
        rc = weft_read(contest->fd, text, sizeof(text));
    } while (rc > 0);
    CHECK(rc == -EBADF || rc == 0 || rc == -ECONNRESET);
    return 0;
}

static intptr_t write_until_closed(void *arg)
{
    struct contest *contest = arg;
    ssize_t rc;
    do {
        rc = weft_write(contest->fd, "0123456789", 10);
    } while (rc > 0);
    CHECK(rc == -EBADF || rc == -EPIPE || rc == -ECONNRESET);
    return 0;
}

/* A reader, a writer, and a task that closes at any moment. */
static intptr_t race_reader_writer_closer(void *arg)
{
    (void)arg;
    /* allocates the poller: later calls open no descriptor */
    CHECK_EQ(weft_fd_wait(STDOUT_FILENO, POLLOUT), POLLOUT);
    for (int round = 0; round < 24; round++) {
        struct pair pair = round % 2 == 0 ? pair_new(SOCK_STREAM) : tcp_pair_new();
        struct contest near = {.fd = pair.near};
        struct contest far = {.fd = pair.far};
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

static void fd_close_racing_reader_and_writer_ends_both(void)
{
    run_under(EVERYWHERE, race_reader_writer_closer);
}

/* Numbers move from thread to thread as fast as the kernel reuses them: each thread closes only its
 * own descriptors, and no close fails. */
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

static void fd_close_never_fails_for_its_owner(void)
{
    pthread_t threads[CLOSERS];
    struct pair pair = pair_new(SOCK_STREAM);
    /* the fd table has a page for such numbers */
    CHECK_EQ(weft_fd_wait(pair.near, POLLOUT), POLLOUT);
    const int next = dup(pair.near);
    CHECK_EQ(weft_close(next), 0);
    for (int i = 0; i < CLOSERS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, close_own, &pair.near), 0);
    }
    for (int i = 0; i < CLOSERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    const int left = dup(pair.near);
    CHECK_EQ(left, next); /* no descriptor is left open */
    CHECK_EQ(weft_close(left), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(fd_close_ends_all_waits),
    TAP_TEST(fd_reused_number_is_a_new_descriptor),
    TAP_TEST(fd_forget_resets_a_number),
    TAP_TEST(fd_number_may_return_to_the_same_socket),
    TAP_TEST(fd_forced_close_releases_the_descriptor),
    TAP_TEST(fd_close_racing_reader_and_writer_ends_both),
    TAP_TEST(fd_close_never_fails_for_its_owner),
};
TAP_MAIN(tests)
