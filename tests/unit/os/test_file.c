/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a write goes out whole, in order, or gives the kernel's reason.
 * Method: through a pipe that is smaller than what is written, while another thread reads; into
 *         descriptors that refuse; interrupted, cut short and refused by hand at every call.
 */
#include <errno.h>
#include <fcntl.h>
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

static void what_does_not_fit_at_once_goes_out_whole(void)
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

static void nothing_is_written_without_a_call(void)
{
    CHECK_EQ(wf_file_write(-1, NULL, 0), 0);
}

static void the_kernels_reason_is_given(void)
{
    static const unsigned char bytes[LARGE];
    CHECK_EQ(wf_file_write(-1, bytes, 1), -EBADF);
    int fds[2];
    CHECK_EQ(pipe2(fds, O_NONBLOCK), 0);
    CHECK_EQ(wf_file_write(fds[1], bytes, LARGE), -EAGAIN); /* after what a pipe holds */
    int full = open("/dev/full", O_WRONLY);
    if (full >= 0) { /* not everywhere */
        CHECK_EQ(wf_file_write(full, bytes, 1), -ENOSPC);
    }
}

#ifdef WF_TEST_AIDS
/* Each call of write takes four fault points: refused, interrupted, nothing taken, one byte taken.
 */
static void interruptions_and_short_writes_are_not_seen(void)
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
    TAP_TEST(what_does_not_fit_at_once_goes_out_whole),
    TAP_TEST(nothing_is_written_without_a_call),
    TAP_TEST(the_kernels_reason_is_given),
#ifdef WF_TEST_AIDS
    TAP_TEST(interruptions_and_short_writes_are_not_seen),
#endif
};
TAP_MAIN(tests)
