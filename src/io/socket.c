/* SPDX-License-Identifier: MIT */
/*
 * io/socket.c - making connections, and waiting for descriptors that are read by other means.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "io/io.h"
#include "os/sys.h"
#include "sched/fast.h"

/* ---- accept -------------------------------------------------------------------------------- */

/* How long an accept waits that finds no descriptor or no memory for the connection. */
#define PAUSE_FIRST_NS (1 * WEFT_MILLISECOND)
#define PAUSE_MAX_NS (256 * WEFT_MILLISECOND)
#define PAUSES_NS (1 * WEFT_SECOND)

static bool is_shortage(int rc)
{
    return rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS || rc == -ENOMEM;
}

/* Errors of the network that are the connection's, and not the socket's: accept(2). */
static bool is_of_connection(int rc)
{
    return rc == -ECONNABORTED || rc == -EPROTO || rc == -ENETDOWN || rc == -ENOPROTOOPT ||
           rc == -EHOSTDOWN || rc == -ENONET || rc == -EHOSTUNREACH || rc == -EOPNOTSUPP ||
           rc == -ENETUNREACH;
}

/* [inside] */
static int sleep_inside(struct wf_use *use, int64_t ns)
{
    struct wf_hold hold;
    wf_hold_begin(&hold, use);
    const int rc = weft_sleep(ns);
    wf_hold_end(&hold);
    return rc;
}

/* [inside]  Waits a moment, longer each time; the error when that was long enough. */
static int wait_for_better_times(struct wf_use *use, int rc, int64_t *pause_ns, int64_t *paused_ns)
{
    if (*paused_ns >= PAUSES_NS) {
        return rc;
    }
    int interrupted = sleep_inside(use, *pause_ns);
    *paused_ns += *pause_ns;
    *pause_ns = *pause_ns < PAUSE_MAX_NS ? 2 * *pause_ns : PAUSE_MAX_NS;
    return interrupted;
}

/* [inside]  Until there is a connection: its descriptor. */
static int accept_one(struct wf_use *use, struct sockaddr *address, socklen_t *address_size)
{
    int64_t pause_ns = PAUSE_FIRST_NS;
    int64_t paused_ns = 0;
    const socklen_t room = address_size != NULL ? *address_size : 0;
    for (;;) { /* ends with a connection or an error; what is skipped was somebody's connect */
        const uint32_t news = wf_use_news(use, WF_SIDE_READ);
        if (address_size != NULL) {
            *address_size = room;
        }
        int rc = wf_use_is_drained(use, WF_SIDE_READ, news)
                     ? -EAGAIN
                     : wf_sys_accept(use->fd, address, address_size);
        if (rc == -EAGAIN) {
            wf_use_drain(use, WF_SIDE_READ, news);
            rc = wf_use_wait(use, WF_SIDE_READ, news);
        } else if (is_of_connection(rc) && rc != -EOPNOTSUPP) {
            WF_REACHED("socket.connection_skipped");
            rc = 0;
        } else if (is_shortage(rc) && (use->self == NULL || use->self->body != WF_BODY_POLL)) {
            rc = wait_for_better_times(use, rc, &pause_ns, &paused_ns);
        } else {
            return rc;
        }
        if (rc != 0) {
            return rc;
        }
    }
}

int weft_accept(int fd, struct sockaddr *address, socklen_t *address_size)
{
    struct wf_use use;
    enum wf_fd_kind kind;
    int rc = wf_use_begin(&use, fd);
    if (rc != 0) {
        return rc;
    }
    rc = wf_use_classify(&use, &kind);
    if (rc == 0) {
        rc = accept_one(&use, address, address_size);
    }
    wf_use_end(&use);
    if (rc < 0) {
        return rc;
    }
    int adopted = wf_fd_adopt(rc, kind);
    if (adopted != 0) {
        (void)wf_sys_close(rc); /* nobody has seen it */
        return adopted;
    }
    if (use.self != NULL) {
        wf_spend(use.self);
    }
    return rc;
}

/* ---- connect ------------------------------------------------------------------------------- */

/* [inside]  It goes on by itself; the socket can be written to when it is over. */
static int wait_for_connect(struct wf_use *use, uint32_t news)
{
    for (;;) { /* ends with the connection, its error, or when it may not wait on */
        int rc = wf_sys_poll(use->fd, -1, POLLOUT, 0);
        if (rc != 0) {
            return rc < 0 ? rc : wf_sys_socket_error(use->fd);
        }
        rc = wf_use_wait(use, WF_SIDE_WRITE, news);
        if (rc != 0) {
            return rc;
        }
        news = wf_use_news(use, WF_SIDE_WRITE);
    }
}

int weft_connect(int fd, const struct sockaddr *address, socklen_t address_size)
{
    struct wf_use use;
    enum wf_fd_kind kind;
    int rc = wf_use_begin(&use, fd);
    if (rc != 0) {
        return rc;
    }
    rc = wf_use_classify(&use, &kind);
    if (rc == 0) {
        uint32_t news = wf_use_news(&use, WF_SIDE_WRITE);
        rc = wf_sys_connect(fd, address, address_size);
        while (rc == -EAGAIN) { /* a Unix socket whose peer has too many waiting: no news come */
            rc = sleep_inside(&use, PAUSE_FIRST_NS);
            rc = rc != 0 ? rc : wf_sys_connect(fd, address, address_size);
        }
        /* A poll task calls again when the socket can be written to. */
        if (rc == -EINPROGRESS || (rc == -EALREADY && use.self != NULL)) {
            rc = wait_for_connect(&use, news);
        }
    }
    wf_use_end(&use);
    return rc;
}

int weft_shutdown(int fd, int how)
{
    struct wf_use use;
    int rc = wf_use_begin(&use, fd);
    if (rc == 0) {
        rc = wf_sys_shutdown(fd, how);
        wf_use_end(&use);
    }
    return rc;
}

/* ---- any descriptor ------------------------------------------------------------------------ */

static bool side_of(int events, enum wf_side *side)
{
    *side = events == POLLOUT ? WF_SIDE_WRITE : WF_SIDE_READ;
    return events == POLLIN || events == POLLOUT;
}

int weft_poll_fd(int fd, int events)
{
    return wf_poll_until(fd, events, WEFT_NEVER);
}

int wf_poll_until(int fd, int events, int64_t until_ns)
{
    struct wf_use use;
    enum wf_side side;
    if (!side_of(events, &side)) {
        return -EINVAL;
    }
    int rc = wf_use_begin(&use, fd);
    if (rc != 0) {
        return rc;
    }
    for (;;) { /* ends with an event, or when it may not wait on */
        const uint32_t news = wf_use_news(&use, side);
        rc = wf_sys_poll(fd, -1, (short)events, 0);
        if (rc != 0) {
            break;
        }
        rc = wf_use_wait_until(&use, side, news, until_ns);
        if (rc != 0) {
            break;
        }
    }
    wf_use_end(&use);
    return rc > 0 && (rc & POLLNVAL) != 0 ? -EBADF : rc;
}
