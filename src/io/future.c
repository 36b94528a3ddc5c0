/* SPDX-License-Identifier: MIT */
/*
 * io/future.c - waiting for a descriptor as a future: weft_fd_wait without the wait.
 */
#include <errno.h>
#include <poll.h>

#include "io/io.h"
#include "io/poller.h"
#include "os/sys.h"
#include "sync/future.h"

/* The operation of a future that waits: the future holds the reference to the record. */
static struct wf_fd_op fd_future_op(const struct wf_future_wait *wait, struct weft_task *self)
{
    struct wf_fd_op op = {.fd = (int)(intptr_t)wait->item, .self = self};
    op.record = wf_container_of(wait->node.spin, struct wf_fd, spin);
    (void)wf_poller_of(wf_worker_self()->runtime, &op.poller); /* open since the future began */
    return op;
}

/* [op]  Returns the events, or an error, and ends the operation.  -EINPROGRESS: there are no events
 * yet; the node is queued and the operation goes on. */
static int fd_future_poll(struct wf_fd_op *op, struct wf_future_wait *wait)
{
    const short events = (short)wait->count;
    const enum wf_dir dir = events == POLLIN ? WF_DIR_READ : WF_DIR_WRITE;
    int rc;
    do { /* ends: each iteration has seen another ready_seq */
        const uint32_t ready_seq = wf_fd_op_ready_seq(op, dir);
        rc = wf_sys_poll(op->fd, -1, events, 0);
        if (rc == 0) {
            rc = wf_fd_op_begin_wait(op, dir, ready_seq, &wait->node);
        } else if (rc > 0 && (rc & POLLNVAL) != 0) {
            rc = -EBADF;
        }
    } while (rc == 0);
    if (rc != -EINPROGRESS) {
        wf_fd_op_end(op);
    }
    return rc;
}

static intptr_t fd_future_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    struct wf_fd_op op;
    (void)self;
    if (wait->count != POLLIN && wait->count != POLLOUT) {
        return -EINVAL;
    }
    const int rc = wf_fd_op_begin(&op, (int)(intptr_t)wait->item);
    return rc != 0 ? rc : fd_future_poll(&op, wait);
}

/* The kernel has reported something, or the descriptor was closed. */
static intptr_t fd_future_granted(struct wf_future_wait *wait)
{
    struct wf_fd_op op = fd_future_op(wait, wait->node.waiter.task);
    const int rc = wf_plain_load(&wait->node.result);
    if (rc != 0) {
        wf_fd_op_end(&op);
        return rc;
    }
    wf_node_reset(&wait->node);
    return fd_future_poll(&op, wait);
}

static void fd_future_abandon(struct wf_wait_node *node)
{
    struct wf_fd *record = wf_container_of(node->spin, struct wf_fd, spin);
    wf_waitq_abandon(node);
    wf_fd_put(record);
}

static const struct wf_future_kind fd_future_kind = {fd_future_begin, fd_future_granted,
                                                     fd_future_abandon, false};

void weft_fd_wait_future(weft_wait_future *future, int fd, int events)
{
    WF_NOT_NULL(future, "weft_fd_wait_future: future is NULL");
    struct wf_future_wait *wait = wf_future_set_up(future, &fd_future_kind, NULL);
    wait->item = (void *)(intptr_t)fd;
    wait->count = (uint32_t)events;
}
