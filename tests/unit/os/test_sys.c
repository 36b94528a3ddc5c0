/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the system call wrappers of I/O return negative errors, retry after a signal, and wait
 *         neither too short nor for ever, also on a kernel without the newest call.
 * Method: real descriptors; a timer that sends signals; the newest call fails as missing.
 */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/base.h"
#include "os/os.h"
#include "os/sys.h"
#include "tap.h"

enum { MS = 1000000 };

static void sys_epoll_wait_ends_at_its_deadline(void)
{
    struct epoll_event events[4];
    const int epoll_fd = wf_sys_epoll_create();
    const int fd = wf_sys_eventfd();
    CHECK(epoll_fd >= 0 && fd >= 0);
    CHECK_EQ(wf_sys_epoll_add(epoll_fd, fd, EPOLLIN | EPOLLET, events), 0);
    for (int is_old = 0; is_old < 2; is_old++) {
        for (int i = 0; i < 3; i++) {
            const int64_t deadline_ns = wf_clock_now() + MS / 2;
            wf_fault_arm(is_old != 0 ? 1 : 0);
            CHECK_EQ(wf_sys_epoll_wait(epoll_fd, events, 4, deadline_ns), 0);
            CHECK(wf_clock_now() >= deadline_ns);
            wf_fault_arm(is_old != 0 ? 1 : 0);
            CHECK_EQ(wf_sys_epoll_wait(epoll_fd, events, 4, 0), 0);
            wf_sys_eventfd_add(fd);
            wf_fault_arm(is_old != 0 ? 1 : 0);
            /* each write is an edge */
            CHECK_EQ(wf_sys_epoll_wait(epoll_fd, events, 4, WF_FOREVER), 1);
            CHECK(events[0].data.ptr == events);
        }
    }
    wf_fault_arm(0);
    wf_sys_epoll_remove(epoll_fd, fd);
    wf_sys_eventfd_add(fd);
    CHECK_EQ(wf_sys_epoll_wait(epoll_fd, events, 4, 0), 0);
    CHECK_EQ(wf_sys_close(fd), 0);
    CHECK_EQ(wf_sys_epoll_add(epoll_fd, fd, EPOLLIN, NULL), -EBADF);
    CHECK_EQ(wf_sys_close(epoll_fd), 0);
    CHECK_EQ(wf_sys_close(epoll_fd), -EBADF);
}

static void on_alarm(int number)
{
    (void)number;
}

/* A signal every millisecond or less.  Its handler does not restart system calls. */
static void signals_begin(void)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval timer = {{0, 500}, {0, 500}};
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static void sys_calls_retry_after_signals(void)
{
    int fds[2];
    char text[4];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    const struct timeval limit = {0, 20000};
    CHECK_EQ(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    signals_begin();
    CHECK_EQ(wf_sys_poll(fds[0], -1, POLLIN, wf_clock_now() + 20 * MS), 0);
    const int64_t until_ns = wf_clock_now() + 20 * MS;
    /* 0 also after a signal: the caller checks the time again */
    while (wf_clock_now() < until_ns) {
        const ssize_t got = wf_sys_recvfrom(fds[0], text, 1, MSG_DONTWAIT, NULL, NULL);
        CHECK_EQ(got, -EAGAIN);
    }
    const struct itimerval none = {{0, 0}, {0, 0}};
    CHECK_EQ(setitimer(ITIMER_REAL, &none, NULL), 0);
    CHECK_EQ(wf_sys_sendto(fds[1], "x", 1, MSG_NOSIGNAL, NULL, 0), 1);
    CHECK_EQ(wf_sys_poll(fds[0], -1, POLLIN, WF_FOREVER), POLLIN);
    /* woken by the second descriptor */
    CHECK_EQ(wf_sys_poll(fds[1], fds[0], POLLIN, WF_FOREVER), 0);
    CHECK_EQ(wf_sys_read(fds[0], text, sizeof(text)), 1);
    CHECK_EQ(wf_sys_shutdown(fds[1], SHUT_WR), 0);
    CHECK_EQ(wf_sys_read(fds[0], text, sizeof(text)), 0);
    CHECK_EQ(wf_sys_socket_error(fds[0]), 0);
    CHECK_EQ(wf_sys_close(fds[0]), 0);
    CHECK_EQ(wf_sys_close(fds[1]), 0);
}

/* The wrapper returns the kernel's error; errno is irrelevant. */
static void sys_calls_return_ebadf_without_descriptor(void)
{
    char byte = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    CHECK_EQ(wf_sys_read(-1, &byte, 1), -EBADF);
    CHECK_EQ(wf_sys_write(-1, &byte, 1), -EBADF);
    CHECK_EQ(wf_sys_readv(-1, &part, 1), -EBADF);
    CHECK_EQ(wf_sys_writev(-1, &part, 1), -EBADF);
    CHECK_EQ(wf_sys_recvfrom(-1, &byte, 1, 0, NULL, NULL), -EBADF);
    CHECK_EQ(wf_sys_sendto(-1, &byte, 1, 0, NULL, 0), -EBADF);
    CHECK_EQ(wf_sys_recvmsg(-1, &message, 0), -EBADF);
    CHECK_EQ(wf_sys_sendmsg(-1, &message, 0), -EBADF);
    CHECK_EQ(wf_sys_accept(-1, NULL, NULL), -EBADF);
    CHECK_EQ(wf_sys_shutdown(-1, SHUT_RD), -EBADF);
    CHECK_EQ(wf_sys_fsync(-1), -EBADF);
    CHECK_EQ(wf_sys_fdatasync(-1), -EBADF);
    CHECK_EQ(wf_sys_copy_file_range(-1, -1, 1), -EBADF);
    CHECK_EQ(wf_sys_sendfile(-1, -1, 1), -EBADF);
    CHECK_EQ(wf_sys_splice(-1, -1, 1), -EBADF);
}

static const struct tap_test tests[] = {
    TAP_TEST(sys_epoll_wait_ends_at_its_deadline),
    TAP_TEST(sys_calls_retry_after_signals),
    TAP_TEST(sys_calls_return_ebadf_without_descriptor),
};
TAP_MAIN(tests)
