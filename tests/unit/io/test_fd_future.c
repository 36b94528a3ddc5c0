/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a poll task waits for a descriptor by a future, and a green thread for the first of
 *         several futures of which one is a descriptor; a future that is dropped, cancelled or past
 *         its deadline leaves the descriptor unchanged.
 * Method: poll tasks that echo, under every setting; each end of a wait.  Keeps part of behaviour
 *         57.
 */
#include "io_helpers.h"

/* ---- a poll task that echoes ----------------------------------------------------------------- */

struct echo {
    int fd;
    bool is_waiting;
    size_t total;
    weft_wait_future *wait; /* too large for the state itself */
};

static weft_poll_result echo_poll(weft_cx *cx, void *state, intptr_t *result)
{
    struct echo *echo = state;
    char text[64];
    for (;;) { /* until it is pending, or the peer has closed */
        if (echo->is_waiting) {
            intptr_t events;
            if (weft_future_poll(&echo->wait->future, cx, &events) == WEFT_POLL_PENDING) {
                return WEFT_POLL_PENDING;
            }
            echo->is_waiting = false;
            if (events < 0) {
                *result = events;
                return WEFT_POLL_READY;
            }
            CHECK((events & POLLIN) != 0);
        }
        ssize_t got = weft_read(echo->fd, text, sizeof(text));
        if (got == -EAGAIN) {
            weft_fd_wait_future(echo->wait, echo->fd, POLLIN);
            echo->is_waiting = true;
            continue;
        }
        if (got <= 0) {
            *result = got < 0 ? got : (intptr_t)echo->total;
            return WEFT_POLL_READY;
        }
        CHECK_EQ(weft_write(echo->fd, text, (size_t)got), got);
        echo->total += (size_t)got;
    }
}

enum { ROUNDS = 50 };

static intptr_t talk_to_poll_task(void *arg)
{
    (void)arg;
    struct pair pair = tcp_pair_new();
    weft_wait_future wait;
    const struct echo state = {.fd = pair.far, .wait = &wait};
    weft_task *task = NULL;
    char text[8];
    CHECK_EQ(weft_spawn_poll(&task, echo_poll, &state, sizeof(state), NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(weft_write_all(pair.near, "letters", 7), 0);
        CHECK_EQ(weft_read_full(pair.near, text, 7), 7);
        CHECK(memcmp(text, "letters", 7) == 0);
    }
    CHECK_EQ(weft_shutdown(pair.near, SHUT_WR), 0);
    CHECK_EQ(weft_await(task), ROUNDS * 7);
    CHECK_EQ(weft_close(pair.far), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    return 0;
}

static void fd_future_wakes_a_poll_task(void)
{
    run_under(EVERYWHERE, talk_to_poll_task);
}

/* ---- ends of waits --------------------------------------------------------------------------- */

/* [task]  A poll task that waits for bytes that never arrive. */
static weft_task *start_waiting(struct pair *pair, weft_wait_future *wait)
{
    const struct echo state = {.fd = pair->far, .wait = wait};
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, echo_poll, &state, sizeof(state), NULL), 0);
    wait_until_blocked(task, WEFT_WAIT_WAKER);
    return task;
}

static intptr_t end_polls(void *arg)
{
    (void)arg;
    weft_wait_future wait;
    struct pair pair = pair_new(SOCK_STREAM);
    weft_task *task = start_waiting(&pair, &wait);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    task = start_waiting(&pair, &wait);
    CHECK_EQ(weft_close(pair.far), 0);
    CHECK_EQ(weft_await(task), -EBADF);
    expect_closed(pair.far); /* no operation uses it any more */
    CHECK_EQ(weft_close(pair.near), 0);

    weft_fd_wait_future(&wait, 3, POLLIN | POLLOUT);
    CHECK_EQ(weft_future_await(&wait.future), -EINVAL);
    weft_fd_wait_future(&wait, -1, POLLIN);
    CHECK_EQ(weft_future_await(&wait.future), -EBADF);
    return 0;
}

static void fd_future_ends_by_cancel_and_close(void)
{
    run_under(EVERYWHERE, end_polls);
}

/* A green thread waits for bytes or a time, whichever comes first. */
static intptr_t wait_for_either(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_STREAM);
    weft_wait_future bytes;
    weft_timeout_future timeout;
    for (int round = 0; round < 3; round++) {
        weft_fd_wait_future(&bytes, pair.near, POLLIN);
        weft_timeout_future_init(&timeout, &bytes.future, weft_time_after(WEFT_MILLISECOND));
        CHECK_EQ(weft_future_await(&timeout.future), -ETIMEDOUT);
        weft_fd_wait_future(&bytes, pair.near, POLLOUT);
        CHECK_EQ(weft_future_await(&bytes.future), POLLOUT);
        CHECK_EQ(weft_write(pair.far, "x", 1), 1);
        weft_fd_wait_future(&bytes, pair.near, POLLIN);
        weft_timeout_future_init(&timeout, &bytes.future, weft_time_after(WEFT_SECOND * 100));
        CHECK_EQ(weft_future_await(&timeout.future), POLLIN);
        char text[2];
        CHECK_EQ(weft_read(pair.near, text, 2), 1);
    }
    CHECK_EQ(weft_close(pair.near), 0);
    expect_closed(pair.near);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void fd_future_races_with_a_timer(void)
{
    run_under(EVERYWHERE, wait_for_either);
}

/* A poll task never runs again after it began to wait: the number can be closed. */
static void fd_future_forced_close_releases_the_descriptor(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_task *task = NULL;
        weft_wait_future wait;
        struct pair pair = pair_new(SOCK_STREAM);
        const struct echo state = {.fd = pair.far, .wait = &wait};
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        CHECK_EQ(weft_runtime_spawn_poll(runtime, &task, echo_poll, &state, sizeof(state), NULL),
                 0);
        wait_until_blocked(task, WEFT_WAIT_WAKER);
        const int rc = weft_runtime_close(runtime, 0);
        CHECK(rc == 0 || rc == -ETIMEDOUT); /* the task may have seen its cancellation in time */
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(weft_close(pair.far), 0);
        expect_closed(pair.far);
        CHECK_EQ(weft_close(pair.near), 0);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(fd_future_wakes_a_poll_task),
    TAP_TEST(fd_future_ends_by_cancel_and_close),
    TAP_TEST(fd_future_races_with_a_timer),
    TAP_TEST(fd_future_forced_close_releases_the_descriptor),
};
TAP_MAIN(tests)
