/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a write writes all bytes in order, or returns the kernel's error.
 * Method: writes into a pipe that is smaller than the data while another thread reads; into
 *         descriptors that fail; with an interruption, a short write and an error injected at every
 *         call.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"
#include "tap.h"

enum { LARGE = 1 << 20 }; /* bytes: sixteen times what a pipe holds */

static unsigned char byte_at(size_t position)
{
    return (unsigned char)(position % 251);
}

static void *read_all(void *arg)
{
    const int *fd = arg;
    size_t position = 0;
    for (;;) {
        unsigned char bytes[1000];
        ssize_t length = read(*fd, bytes, sizeof(bytes));
        CHECK(length >= 0);
        if (length == 0) {
            break;
        }
        for (ssize_t i = 0; i < length; i++) {
            CHECK_EQ(bytes[i], byte_at(position));
            position++;
        }
    }
    CHECK_EQ(position, LARGE);
    return NULL;
}

static void file_write_writes_more_than_the_pipe_holds(void)
{
    static unsigned char bytes[LARGE];
    for (size_t i = 0; i < LARGE; i++) {
        bytes[i] = byte_at(i);
    }
    int fds[2];
    CHECK_EQ(pipe(fds), 0);
    pthread_t reader;
    CHECK_EQ(wf_thread_start(&reader, read_all, &fds[0], NULL), 0);
    CHECK_EQ(wf_file_write(fds[1], bytes, LARGE), 0);
    CHECK_EQ(close(fds[1]), 0);
    CHECK_EQ(wf_thread_join(reader), 0);
}

static void file_write_of_zero_bytes_makes_no_call(void)
{
    CHECK_EQ(wf_file_write(-1, NULL, 0), 0);
}

static void file_write_returns_the_kernels_error(void)
{
    static const unsigned char bytes[LARGE];
    CHECK_EQ(wf_file_write(-1, bytes, 1), -EBADF);
    int fds[2];
    CHECK_EQ(pipe2(fds, O_NONBLOCK), 0);
    CHECK_EQ(wf_file_write(fds[1], bytes, LARGE), -EAGAIN); /* after the pipe is full */
    int full = open("/dev/full", O_WRONLY);
    if (full >= 0) { /* /dev/full does not exist everywhere */
        CHECK_EQ(wf_file_write(full, bytes, 1), -ENOSPC);
    }
}

/* A SIGPIPE would end the test. */
static void file_write_to_a_broken_pipe_raises_no_signal(void)
{
    int fds[2];
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    CHECK_EQ(pipe(fds), 0);
    CHECK_EQ(close(fds[0]), 0);
    CHECK_EQ(wf_file_write(fds[1], "x", 1), -EPIPE);
}

#ifdef WF_TEST_HOOKS
/* Each call of write has four fault points: error, interrupted, no byte written, one byte
 * written. */
static void file_write_retries_interruptions_and_short_writes(void)
{
    const char text[] = "some words";
    const int expected[] = {-ENOSPC, 0, -EIO, 0, 0};
    for (uint64_t nth = 1; nth <= 5; nth++) {
        int fds[2];
        char got[sizeof(text)] = {0};
        CHECK_EQ(pipe(fds), 0);
        wf_fault_arm(nth);
        CHECK_EQ(wf_file_write(fds[1], text, sizeof(text)), expected[nth - 1]);
        CHECK_EQ(wf_fault_hit(NULL), nth < 5);
        wf_fault_arm(0);
        CHECK_EQ(close(fds[1]), 0);
        const bool is_out = expected[nth - 1] == 0;
        CHECK_EQ(read(fds[0], got, sizeof(got)), is_out ? sizeof(got) : 0);
        CHECK_STR(got, is_out ? text : "");
        CHECK_EQ(close(fds[0]), 0);
    }
}
#endif

static const struct tap_test tests[] = {
    TAP_TEST(file_write_writes_more_than_the_pipe_holds),
    TAP_TEST(file_write_of_zero_bytes_makes_no_call),
    TAP_TEST(file_write_returns_the_kernels_error),
    TAP_TEST(file_write_to_a_broken_pipe_raises_no_signal),
#ifdef WF_TEST_HOOKS
    TAP_TEST(file_write_retries_interruptions_and_short_writes),
#endif
};
TAP_MAIN(tests)
