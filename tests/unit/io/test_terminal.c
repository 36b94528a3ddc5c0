/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a task that reads from or writes to a terminal suspends and keeps no worker, although the
 *         terminal stays in blocking mode: it is shared with the process that started this one.
 * Method: a pseudoterminal, under every setting; a task waits for the terminal while another task
 *         of the same worker runs.  Keeps part of behaviour 57.
 */
#include <stdlib.h>
#include <termios.h>

#include "io_helpers.h"

/* The near end is the terminal, in raw mode; the far end its master. */
static struct pair terminal_new(void)
{
    struct termios raw;
    char name[64];
    const int far = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (far < 0 || grantpt(far) != 0 || unlockpt(far) != 0 ||
        ptsname_r(far, name, sizeof(name)) != 0) {
        tap_skip("this machine has no pseudoterminals");
    }
    const int near = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    CHECK(near >= 0);
    CHECK_EQ(tcgetattr(near, &raw), 0);
    cfmakeraw(&raw);
    CHECK_EQ(tcsetattr(near, TCSANOW, &raw), 0);
    return (struct pair){near, far};
}

static void terminal_done(const struct pair *pair)
{
    CHECK((fcntl(pair->near, F_GETFL) & O_NONBLOCK) == 0);
    CHECK_EQ(weft_close(pair->near), 0);
    CHECK_EQ(weft_close(pair->far), 0);
}

/* A read that kept its thread would keep this task from running, on one worker. */
static intptr_t read_terminal(void *arg)
{
    struct pair pair = terminal_new();
    (void)arg;
    for (int i = 0; i < 3; i++) {
        struct reader reader = {.fd = pair.near};
        weft_task *task = go(read_some, &reader);
        wait_until_blocked(task, WEFT_WAIT_READABLE);
        CHECK_EQ(write(pair.far, "abc", 3), 3);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(reader.got, 3);
        CHECK(memcmp(reader.text, "abc", 3) == 0);
    }
    terminal_done(&pair);
    return 0;
}

static void terminal_read_suspends_the_task(void)
{
    run_under(EVERYWHERE, read_terminal);
}

static intptr_t write_until_full(void *arg)
{
    char zero = 0; /* one: a write that does not fit would keep the thread */
    for (;;) {     /* ends: it is cancelled when it waits */
        const ssize_t rc = weft_write(*(const int *)arg, &zero, 1);
        if (rc <= 0) {
            return rc;
        }
    }
}

static intptr_t fill_terminal(void *arg)
{
    struct pair pair = terminal_new();
    char text[4096];
    (void)arg;
    weft_task *task = go(write_until_full, &pair.near);
    wait_until_blocked(task, WEFT_WAIT_WRITABLE);
    CHECK(read(pair.far, text, sizeof(text)) > 0);
    wait_until_blocked(task, WEFT_WAIT_WRITABLE);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    terminal_done(&pair);
    return 0;
}

static void terminal_write_suspends_the_task(void)
{
    run_under(ON_ONE_WORKER, fill_terminal);
    run_under(ON_SEVERAL, fill_terminal);
}

static const struct tap_test tests[] = {
    TAP_TEST(terminal_read_suspends_the_task),
    TAP_TEST(terminal_write_suspends_the_task),
};
TAP_MAIN(tests)
