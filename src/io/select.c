/* SPDX-License-Identifier: MIT */
/*
 * io/select.c - descriptors and signals as cases of a select.
 *
 * The wait node of a case is in the queue of its descriptor and is granted when the kernel reports
 * readiness, as that of weft_fd_wait is.  When the case has won, it polls the descriptor: another
 * task may have taken the bytes, and then the select starts over.
 *
 * A signal is taken when its case has won and not before.  Until then a signalfd reports that one
 * is pending, as in signal.c.
 */
#include <errno.h>
#include <poll.h>

#include "io/io.h"
#include "io/poller.h"
#include "os/sys.h"
#include "sync/source.h"
#include "weft/signals.h"

/* ---- descriptors --------------------------------------------------------------------------- */

/* The arguments of a case are in its unused fields. */
static int io_case_fd(const weft_case *it)
{
    return (int)(intptr_t)it->opaque[0];
}

static short io_case_events(const weft_case *it)
{
    return (short)(intptr_t)it->opaque[1];
}

static enum wf_dir io_case_dir(short events)
{
    return events == POLLIN ? WF_DIR_READ : WF_DIR_WRITE;
}

/* Polls once.  0: the events are in it->value; -EAGAIN: none; or an error. */
static int io_case_poll(weft_case *it, int fd, short events)
{
    const int rc = wf_sys_poll(fd, -1, events, 0);
    if (rc <= 0) {
        return rc == 0 ? -EAGAIN : rc;
    }
    it->value = rc;
    return (rc & POLLNVAL) == 0 ? 0 : -EBADF;
}

static int fd_case_check(const weft_case *it)
{
    return io_case_events(it) == POLLIN || io_case_events(it) == POLLOUT ? 0 : -EINVAL;
}

/* [waiter]  Begins the operation.  The node notes the record and the ready_seq. */
static int fd_case_begin(weft_case *it, struct wf_wait_node *node)
{
    struct wf_fd_op op;
    int rc = wf_fd_op_begin(&op, io_case_fd(it));
    if (rc != 0) {
        return rc;
    }
    node->spin = &op.record->spin;
    node->count = wf_fd_op_ready_seq(&op, io_case_dir(io_case_events(it)));
    return io_case_poll(it, io_case_fd(it), io_case_events(it));
}

static struct wf_fd *record_of_node(const struct wf_wait_node *node)
{
    return wf_container_of(node->spin, struct wf_fd, spin);
}

static int io_case_enqueue(int fd, short events, struct wf_wait_node *node)
{
    struct wf_fd_op op = {.fd = fd, .record = record_of_node(node), .self = node->waiter.task};
    (void)wf_poller_of(wf_worker_self()->runtime, &op.poller); /* open since the case began */
    return wf_fd_op_begin_wait(&op, io_case_dir(events), node->count, node);
}

static int fd_case_enter(weft_case *it, struct wf_wait_node *node)
{
    return io_case_enqueue(io_case_fd(it), io_case_events(it), node);
}

static void io_case_dequeue(weft_case *it, struct wf_wait_node *node)
{
    (void)it;
    if (node->queue != NULL) {
        (void)wf_waitq_leave(node);
    }
}

static int fd_case_run(weft_case *it)
{
    return it->value != 0 ? 0 : io_case_poll(it, io_case_fd(it), io_case_events(it));
}

static void fd_case_end(weft_case *it, struct wf_wait_node *node)
{
    (void)it;
    if (node->spin != NULL) {
        wf_fd_put(record_of_node(node));
    }
}

static const struct wf_source fd_source = {fd_case_check,   fd_case_begin, fd_case_enter,
                                           io_case_dequeue, fd_case_run,   fd_case_end};

weft_case weft_case_fd(int fd, int events)
{
    weft_case it = wf_case_of(&fd_source, NULL);
    it.opaque[0] = (void *)(intptr_t)fd;
    it.opaque[1] = (void *)(intptr_t)events;
    return it;
}

/* ---- signals ------------------------------------------------------------------------------- */

static const sigset_t *io_case_signals(const weft_case *it)
{
    return it->opaque[0];
}

static int signal_case_check(const weft_case *it)
{
    return wf_signals_check(io_case_signals(it));
}

static int signal_case_begin(weft_case *it, struct wf_wait_node *node)
{
    (void)node;
    return wf_signals_are_pending(io_case_signals(it)) ? 0 : -EAGAIN;
}

/* Opens a signalfd for the time of the wait; its number is in the case. */
static int signal_case_enter(weft_case *it, struct wf_wait_node *node)
{
    struct wf_fd_op op;
    const int fd = wf_sys_signalfd(io_case_signals(it));
    if (fd < 0) {
        return fd;
    }
    int rc = wf_fd_op_begin(&op, fd);
    if (rc != 0) {
        (void)wf_sys_close(fd); /* no data is lost with it */
        return rc;
    }
    it->opaque[1] = (void *)(intptr_t)fd;
    node->spin = &op.record->spin;
    node->count = wf_fd_op_ready_seq(&op, WF_DIR_READ);
    rc = wf_sys_poll(fd, -1, POLLIN, 0);
    return rc != 0 ? (rc < 0 ? rc : 0) : io_case_enqueue(fd, POLLIN, node);
}

static int signal_case_run(weft_case *it)
{
    const int rc = wf_sys_signal_take(io_case_signals(it), it->item);
    it->value = rc;
    return rc > 0 ? 0 : rc;
}

static void signal_case_end(weft_case *it, struct wf_wait_node *node)
{
    if (node->spin != NULL) {
        fd_case_end(it, node);
        (void)weft_close((int)(intptr_t)it->opaque[1]); /* no data is lost with it */
    }
}

static const struct wf_source signal_source = {signal_case_check, signal_case_begin,
                                               signal_case_enter, io_case_dequeue,
                                               signal_case_run,   signal_case_end};

weft_case weft_case_signal(const sigset_t *set, siginfo_t *info)
{
    weft_case it = wf_case_of(&signal_source, info);
    it.opaque[0] = (void *)(uintptr_t)set; /* only read */
    return it;
}
