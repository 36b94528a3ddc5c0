/* SPDX-License-Identifier: MIT */
/*
 * io/socket.c - accept, connect and shutdown; waiting for a descriptor without reading it.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "future/future.h"
#include "io/io.h"
#include "io/poller.h"
#include "os/sys.h"

/* ---- accept -------------------------------------------------------------------------------- */

/* An accept that finds no descriptor or no memory for the connection sleeps and tries again.  These
 * are the length of its first sleep, of its longest one, and of all together before it fails. */
#define BACKOFF_FIRST_NS (1 * WEFT_MILLISECOND)
#define BACKOFF_MAX_NS (256 * WEFT_MILLISECOND)
#define BACKOFF_TOTAL_NS (1 * WEFT_SECOND)

static bool is_shortage(int rc)
{
    return rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS || rc == -ENOMEM;
}

/* Errors of the pending connection, not of the listening socket: accept(2). */
static bool is_connection_error(int rc)
{
    return rc == -ECONNABORTED || rc == -EPROTO || rc == -ENETDOWN || rc == -ENOPROTOOPT ||
           rc == -EHOSTDOWN || rc == -ENONET || rc == -EHOSTUNREACH || rc == -EOPNOTSUPP ||
           rc == -ENETUNREACH;
}

/* [op]  False in a poll task, which must not wait inside a call. */
static bool op_can_sleep(const struct wf_fd_op *op)
{
    return op->self == NULL || op->self->body != WF_BODY_POLL;
}

/* [op]  Sleeps.  A forced close meanwhile ends the operation. */
static int op_sleep(struct wf_fd_op *op, int64_t ns)
{
    struct wf_undo_hook hook;
    wf_undo_hook_add(&hook, wf_fd_op_undo, op);
    const int rc = weft_sleep(ns);
    wf_undo_hook_remove(&hook);
    return rc;
}

/* How long an accept has slept for lack of descriptors or memory. */
struct backoff {
    int64_t next_ns;
    int64_t total_ns;
};

/* [op]  Sleeps, twice as long each time.  Returns `rc`, the error, when the total is used up. */
static int accept_back_off(struct wf_fd_op *op, struct backoff *backoff, int rc)
{
    if (backoff->total_ns >= BACKOFF_TOTAL_NS) {
        return rc;
    }
    int interrupted = op_sleep(op, backoff->next_ns);
    backoff->total_ns += backoff->next_ns;
    backoff->next_ns = backoff->next_ns < BACKOFF_MAX_NS ? 2 * backoff->next_ns : BACKOFF_MAX_NS;
    return interrupted;
}

/* [op]  Suspends until there is a connection; returns its descriptor. */
static int accept_one(struct wf_fd_op *op, struct sockaddr *address, socklen_t *address_size)
{
    struct backoff backoff = {.next_ns = BACKOFF_FIRST_NS};
    const socklen_t capacity = address_size != NULL ? *address_size : 0;
    for (;;) { /* ends with a connection or an error; each one skipped was a connect of a peer */
        const uint32_t ready_seq = wf_fd_op_ready_seq(op, WF_DIR_READ);
        if (address_size != NULL) {
            *address_size = capacity;
        }
        int rc = wf_fd_op_is_known_empty(op, WF_DIR_READ, ready_seq)
                     ? -EAGAIN
                     : wf_sys_accept(op->fd, address, address_size);
        if (rc == -EAGAIN) {
            wf_fd_op_set_empty(op, WF_DIR_READ, ready_seq);
            rc = wf_fd_op_wait(op, WF_DIR_READ, ready_seq);
        } else if (is_connection_error(rc) && rc != -EOPNOTSUPP) {
            WF_REACHED("socket.connection_skipped");
            rc = 0;
        } else if (is_shortage(rc) && op_can_sleep(op)) {
            rc = accept_back_off(op, &backoff, rc);
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
    struct wf_fd_op op;
    enum wf_fd_kind kind;
    struct weft_task *self = wf_task_self();
    if (self != NULL) {
        wf_budget_spend(self); /* first: a task that yields may be abandoned */
    }
    int rc = wf_fd_op_begin(&op, fd);
    if (rc != 0) {
        return rc;
    }
    rc = wf_fd_op_kind(&op, &kind);
    if (rc == 0) {
        rc = accept_one(&op, address, address_size);
    }
    wf_fd_op_end(&op);
    if (rc < 0) {
        return rc;
    }
    int adopted = wf_fd_adopt(rc, kind);
    if (adopted != 0) {
        (void)wf_sys_close(rc); /* it has no owner yet, and no data */
        return adopted;
    }
    return rc;
}

/* ---- connect ------------------------------------------------------------------------------- */

/* [op]  The kernel connects in the background; the socket is writable when it is done. */
static int wait_for_connect(struct wf_fd_op *op, uint32_t ready_seq)
{
    for (;;) { /* ends with the connection, its error, or an interruption of the wait */
        int rc = wf_sys_poll(op->fd, -1, POLLOUT, 0);
        if (rc != 0) {
            return rc < 0 ? rc : wf_sys_socket_error(op->fd);
        }
        rc = wf_fd_op_wait(op, WF_DIR_WRITE, ready_seq);
        if (rc != 0) {
            return rc;
        }
        ready_seq = wf_fd_op_ready_seq(op, WF_DIR_WRITE);
    }
}

int weft_connect(int fd, const struct sockaddr *address, socklen_t address_size)
{
    struct wf_fd_op op;
    enum wf_fd_kind kind;
    int rc = wf_fd_op_begin(&op, fd);
    if (rc != 0) {
        return rc;
    }
    rc = wf_fd_op_kind(&op, &kind);
    if (rc == 0) {
        uint32_t ready_seq = wf_fd_op_ready_seq(&op, WF_DIR_WRITE);
        rc = wf_sys_connect(fd, address, address_size);
        /* A Unix socket, and the backlog is full: the kernel reports no readiness for it. */
        while (rc == -EAGAIN && op_can_sleep(&op)) {
            rc = op_sleep(&op, BACKOFF_FIRST_NS);
            rc = rc != 0 ? rc : wf_sys_connect(fd, address, address_size);
        }
        /* -EALREADY: a poll task that got -EAGAIN calls again when the socket is writable. */
        if (rc == -EINPROGRESS || (rc == -EALREADY && op.self != NULL)) {
            rc = wait_for_connect(&op, ready_seq);
        }
    }
    wf_fd_op_end(&op);
    return rc;
}

void wf_fd_op_retire_socket(struct wf_fd_op *op)
{
    /* dup3 closes the socket and puts another open file at its number; any open file serves, and
     * the wakeup_fd is one.  If dup3 fails, the last put closes the socket. */
    (void)wf_sys_dup3(op->poller->wakeup_fd, op->fd);
}

int weft_shutdown(int fd, int how)
{
    struct wf_fd_op op;
    int rc = wf_fd_op_begin(&op, fd);
    if (rc == 0) {
        rc = wf_sys_shutdown(fd, how);
        wf_fd_op_end(&op);
    }
    return rc;
}

/* ---- any descriptor ------------------------------------------------------------------------ */

static bool dir_of_events(int events, enum wf_dir *dir)
{
    *dir = events == POLLOUT ? WF_DIR_WRITE : WF_DIR_READ;
    return events == POLLIN || events == POLLOUT;
}

int weft_fd_wait(int fd, int events)
{
    return wf_poll_until(fd, events, WEFT_NEVER);
}

int wf_poll_until(int fd, int events, int64_t until_ns)
{
    struct wf_fd_op op;
    enum wf_dir dir;
    if (!dir_of_events(events, &dir)) {
        return -EINVAL;
    }
    int rc = wf_fd_op_begin(&op, fd);
    if (rc != 0) {
        return rc;
    }
    for (;;) { /* ends with an event, or an interruption of the wait */
        const uint32_t ready_seq = wf_fd_op_ready_seq(&op, dir);
        rc = wf_sys_poll(fd, -1, (short)events, 0);
        if (rc != 0) {
            break;
        }
        rc = wf_fd_op_wait_until(&op, dir, ready_seq, until_ns);
        if (rc != 0) {
            break;
        }
    }
    wf_fd_op_end(&op);
    return rc > 0 && (rc & POLLNVAL) != 0 ? -EBADF : rc;
}
