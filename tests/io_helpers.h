/* SPDX-License-Identifier: MIT */
/*
 * io_helpers.h - pairs of descriptors, and tasks that are known to wait for one.
 */
#ifndef IO_HELPERS_H
#define IO_HELPERS_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fd_helpers.h"
#include "sched_helpers.h"

struct pair {
    int near;
    int far;
};

static inline struct pair pair_new(int type)
{
    int fds[2];
    CHECK_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds), 0);
    return (struct pair){fds[0], fds[1]};
}

/* A listening socket of the loopback device; its address. */
static inline int listen_here(struct sockaddr_in *address)
{
    socklen_t size = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    CHECK_EQ(bind(fd, (struct sockaddr *)address, size), 0);
    CHECK_EQ(listen(fd, 128), 0);
    CHECK_EQ(getsockname(fd, (struct sockaddr *)address, &size), 0);
    return fd;
}

/* Two ends of a TCP connection. */
static inline struct pair tcp_pair_new(void)
{
    struct sockaddr_in address;
    int listener = listen_here(&address);
    int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(near >= 0);
    CHECK_EQ(connect(near, (struct sockaddr *)&address, sizeof(address)), 0);
    int far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(far >= 0);
    CHECK_EQ(close(listener), 0);
    return (struct pair){near, far};
}

/* The descriptor was closed and no operation uses it; but a worker that dispatches its readiness
 * may still hold a reference. */
static inline void expect_closed(int fd)
{
    while (is_open(fd)) {
        (void)weft_yield();
    }
}

static inline void wait_until_blocked(const weft_task *task, enum weft_wait wait)
{
    for (;;) { /* ends: the task waits */
        weft_task_info info = info_of(task);
        if (info.state == WEFT_TASK_BLOCKED && info.wait == wait) {
            return;
        }
        let_others_run();
    }
}

struct reader {
    int fd;
    char text[64];
    ssize_t got;
};

static inline intptr_t read_some(void *arg)
{
    struct reader *reader = arg;
    reader->got = weft_read(reader->fd, reader->text, sizeof(reader->text));
    return reader->got < 0 ? reader->got : 0;
}

/* [task]  Fills the socket's buffer; the other end does not read. */
static inline void fill(int fd)
{
    static const char zeros[4096];
    while (weft_send(fd, zeros, sizeof(zeros), MSG_DONTWAIT) > 0) {
    }
}

static inline intptr_t write_one(void *arg)
{
    ssize_t rc = weft_write(*(int *)arg, "x", 1);
    return rc == 1 ? 0 : rc;
}

#endif
