/* SPDX-License-Identifier: MIT */
/*
 * io/fd.c - fd records: operations on a descriptor, waiting for it, closing it.
 *
 * Readiness.  Each direction has a ready_seq, which grows when the kernel reports readiness:
 *
 *   1  a call reads ready_seq
 *   2  it tries the system call; if that finds too little, empty_at = the ready_seq of step 1
 *   3  it waits until ready_seq differs from that of step 1
 *
 * A report between 1 and 3 has changed ready_seq, so it is not lost.  A later call that finds
 * empty_at == ready_seq goes to step 3 at once, without a system call that would find nothing.
 * After a hang-up no call sets empty_at, so each call makes the system call first: the kernel
 * reports a hang-up once, and may have done so before step 1.
 *
 * Registration.  The first task that waits for a descriptor registers it, for both directions, with
 * the poller of its runtime.  When that poller is closed, waiting tasks of other runtimes are woken
 * and register it with theirs.
 *
 * Closing.  A number may be closed while other calls use it.  The state of the record counts them:
 *
 *   references                       in use, or idle if 0
 *   references | CLOSING             closed: wf_fd_get fails, waits end with -EBADF
 *   references | CLOSING|KEEP_OPEN   closed by weft_fd_forget: the number itself stays open
 *   references | RESETTING           the last put closes the number and resets the record; a
 *                                    reference here is a wf_fd_get that waits for the reset
 *
 *   idle     --weft_close: CAS-->   RESETTING   --fd_reset: sub-->   idle
 *   in use   --weft_close: CAS-->   CLOSING, and the caller of weft_close has a reference until it
 *                                   has ended all waits: else the number could be reused before
 *                                   that, and the caller would end waits for the next descriptor
 *   CLOSING  --last put: CAS-->     RESETTING
 *
 * wf_fd_get adds its reference first and checks the flags then, because an addition costs half of a
 * compare-and-swap.  A get that finds a flag drops its reference, and may be the last put.
 *
 * The record is reset after the kernel has closed the number; until it is closed, no other
 * descriptor can have the number.  A call that uses a new descriptor with this number before the
 * reset is done spins until RESETTING is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "future/future.h"
#include "io/io.h"
#include "io/poller.h"
#include "io/prefetch.h"
#include "os/sys.h"

/* ---- references ---------------------------------------------------------------------------- */

/* [RESETTING, set by the caller]  The number belongs to no descriptor of ours any more. */
static void fd_reset(struct wf_fd *record)
{
    for (unsigned dir = 0; dir < WF_DIRS; dir++) {
        /* relaxed, as all here: (io.I2) below publishes it */
        wf_store_relaxed(&record->empty_at[dir], WF_READY_NONE);
        wf_store_relaxed(&record->ready_seq[dir], 0);
    }
    wf_store_relaxed(&record->poller, NULL);
    wf_store_relaxed(&record->kind, WF_FD_KIND_UNKNOWN);
    (void)wf_fetch_sub_release(&record->state, WF_FD_RESETTING); /* (io.I2) */
#ifdef WF_MODEL
    (void)wf_futex_wake(&record->state, INT32_MAX); /* see wf_spin_pause */
#endif
}

/* [RESETTING, set by the caller]  Closes the number, or only removes its registration. */
static int fd_end(struct wf_fd *record, bool keeps_open)
{
    int rc = 0;
    if (keeps_open) {
        wf_spin_acquire(
            &record->spin); /* so that wf_fds_detach waits until the poller is not used */
        struct wf_poller *poller = wf_load_relaxed(&record->poller); /* relaxed: under the lock */
        if (poller != NULL) {
            wf_epoll_remove(poller, record);
            wf_store_relaxed(&record->poller, NULL);
        }
        wf_spin_release(&record->spin);
    } else {
        rc = wf_sys_close(record->fd);
    }
    fd_reset(record);
    return rc;
}

/* [any]  The caller has dropped a reference; `state` is what is left.  If the record is closed and
 * has no references, ends it: see fd_end. */
static void fd_end_if_last(struct wf_fd *record, uint32_t state)
{
    const bool keeps_open = (state & WF_FD_KEEP_OPEN) != 0;
    /* acquire: (io.I1).  Fails if a wf_fd_get has added its reference: its put is the last then. */
    if (state < WF_FD_REF && (state & WF_FD_CLOSING) != 0 &&
        wf_cas_acquire(&record->state, &state, WF_FD_RESETTING)) {
        WF_REACHED("fd.closed_by_last_put");
        (void)fd_end(record, keeps_open); /* weft_close has returned already */
    }
}

void wf_fd_put_slow(struct wf_fd *record, uint32_t before)
{
    fd_end_if_last(record, before - WF_FD_REF);
}

bool wf_fd_get_slow(struct wf_fd *record, uint32_t before)
{
    unsigned attempts = 0;
    do { /* ends: the descriptor is closed, or a reset is about to end */
        /* relaxed: the caller has not used the record */
        const uint32_t state = wf_fetch_sub_relaxed(&record->state, WF_FD_REF) - WF_FD_REF;
        fd_end_if_last(record, state);
        if ((before & WF_FD_CLOSING) != 0) {
            return false;
        }
        if ((state & WF_FD_RESETTING) != 0) {
            wf_spin_pause(&record->state, state, attempts++);
        }
        before = wf_fetch_add_acquire(&record->state, WF_FD_REF); /* (io.I2) */
    } while ((before & WF_FD_FLAGS) != 0);
    return true;
}

int wf_fd_op_begin(struct wf_fd_op *op, int fd)
{
    struct weft_task *self = wf_task_self();
    *op = (struct wf_fd_op){.fd = fd, .self = self};
    if (fd < 0) {
        return -EBADF;
    }
    int rc = self != NULL ? wf_poller_of(wf_worker_self()->runtime, &op->poller) : 0;
    if (rc != 0) {
        return rc;
    }
    op->record = wf_fd_table_find(fd);
    if (op->record == NULL && (op->record = wf_fd_table_get(fd)) == NULL) {
        return -ENOMEM;
    }
    return wf_fd_get(op->record) ? 0 : -EBADF;
}

void wf_fd_op_end(struct wf_fd_op *op)
{
    wf_fd_put(op->record);
}

void wf_fd_op_undo(void *op)
{
    wf_fd_op_end(op);
}

/* ---- kinds --------------------------------------------------------------------------------- */

/* A short read of TCP has emptied the socket.  Not so for a Unix socket: it stops at boundaries
 * that its peer has set, with more bytes behind them. */
enum wf_fd_kind wf_fd_socket_kind(int family, int type)
{
    return type == SOCK_STREAM && (family == AF_INET || family == AF_INET6) ? WF_FD_KIND_TCP
                                                                            : WF_FD_KIND_SOCKET;
}

static enum wf_fd_kind find_socket_kind(int fd)
{
    int family = 0;
    int type = 0;
    return wf_sys_socket_type(fd, &family, &type) == 0 ? wf_fd_socket_kind(family, type)
                                                       : WF_FD_KIND_SOCKET;
}

static int find_kind(int fd, enum wf_fd_kind *kind)
{
    struct stat status;
    int rc = wf_sys_fstat(fd, &status);
    if (rc != 0) {
        return rc;
    }
    if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode)) {
        *kind = WF_FD_KIND_FILE;
        return 0;
    }
    if (S_ISCHR(status.st_mode) && isatty(fd) == 1) {
        *kind = WF_FD_KIND_TERMINAL; /* the parent process shares it, and its reads must block */
        return 0;
    }
    *kind = S_ISSOCK(status.st_mode) ? find_socket_kind(fd) : WF_FD_KIND_POLLED;
    return wf_sys_set_nonblocking(fd);
}

int wf_fd_op_find_kind(struct wf_fd_op *op, enum wf_fd_kind *kind)
{
    int rc = find_kind(op->fd, kind);
    if (rc == 0) {
        wf_store_relaxed(&op->record->kind, (uint8_t)*kind); /* relaxed: see wf_fd_op_kind */
    }
    return rc;
}

int wf_fd_adopt(int fd, enum wf_fd_kind kind)
{
    struct wf_fd_op op;
    int rc = wf_fd_op_begin(&op, fd);
    if (rc == 0) {
        wf_store_relaxed(&op.record->kind, (uint8_t)kind); /* relaxed: see wf_fd_op_kind */
        wf_fd_op_end(&op);
    }
    return rc;
}

void wf_fd_open_undo(void *fd)
{
    (void)weft_close((int)(intptr_t)fd); /* no data is lost with it */
}

/* ---- readiness ----------------------------------------------------------------------------- */

void wf_fd_ready(struct wf_fd *record, uint32_t dirs, bool is_hung_up, struct wf_wakes *wakes)
{
    wf_spin_acquire(&record->spin);
    for (unsigned dir = 0; dir < WF_DIRS; dir++) {
        if ((dirs & 1u << dir) != 0) {
            /* relaxed: written under the lock */
            uint32_t ready_seq = wf_load_relaxed(&record->ready_seq[dir]);
            ready_seq = (ready_seq + WF_READY_STEP) | (is_hung_up ? WF_READY_HUNG_UP : 0);
            if (ready_seq == WF_READY_NONE) {
                ready_seq = WF_READY_HUNG_UP; /* wraps after two thousand million reports */
            }
            wf_store_release(&record->ready_seq[dir], ready_seq); /* (io.I4) */
            wf_wakes_grant_all(wakes, &record->queues[dir], &record->spin, 0);
        }
    }
    wf_spin_release(&record->spin);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* [op]  Ends all waits of both directions with this result. */
static void end_waits(struct wf_fd *record, int result)
{
    wf_spin_acquire(&record->spin);
    for (unsigned dir = 0; dir < WF_DIRS; dir++) {
        wf_waitq_grant_all(&record->queues[dir], &record->spin, result);
    }
    for (struct wf_thread_wait *wait = record->threads; wait != NULL; wait = wait->next) {
        wf_sys_eventfd_add(wait->wakeup_fd);
    }
    wf_spin_release(&record->spin);
}

/* [op]  The caller's node is queued.  Registers the descriptor, if it is not registered. */
static int fd_register(struct wf_fd_op *op)
{
    struct wf_fd *record = op->record;
    struct wf_poller *none = NULL;
    /* relaxed: the poller is only compared here; the waiter sees reports under record->spin */
    if (wf_load_relaxed(&record->poller) != NULL ||
        !wf_cas_relaxed(&record->poller, &none, op->poller)) {
        return 0;
    }
    int rc = wf_epoll_add(op->poller, record);
    if (rc != 0) {
        wf_store_relaxed(&record->poller, NULL);
        end_waits(record, rc); /* the caller's, and those that relied on this registration */
    }
    return rc;
}

/* [closer] */
static void fd_detach(struct wf_fd *record, void *context)
{
    struct wf_poller *poller = context;
    if (wf_load_relaxed(&record->poller) != poller) { /* relaxed: the CAS decides */
        return;
    }
    wf_spin_acquire(&record->spin); /* waits for an fd_end that uses the poller */
    const bool is_ours = wf_cas_relaxed(&record->poller, &poller, NULL);
    wf_spin_release(&record->spin);
    if (is_ours) {
        end_waits(record, 0);
    }
}

void wf_fds_detach(struct wf_poller *poller)
{
    wf_fd_table_visit(fd_detach, poller);
}

/* [closer]  The waiting task is never resumed.  Leaves the queue, and drops the reference of the fd
 * operation, which does not return. */
static void fd_wait_abandon(struct wf_abandon_hook *hook)
{
    struct wf_wait_node *node = wf_container_of(hook, struct wf_wait_node, hook);
    struct wf_fd *record = wf_container_of(node->spin, struct wf_fd, spin);
    wf_waitq_abandon(node);
    wf_fd_put(record);
}

int wf_fd_op_begin_wait(struct wf_fd_op *op, enum wf_dir dir, uint32_t ready_seq,
                        struct wf_wait_node *node)
{
    struct wf_fd *record = op->record;
    node->spin = &record->spin;
    node->hook.abandon = fd_wait_abandon;
    wf_spin_acquire(&record->spin);
    /* Both relaxed: under the lock.  The closer sets CLOSING before it takes the lock. */
    const bool is_closing = (wf_load_relaxed(&record->state) & WF_FD_CLOSING) != 0;
    const bool is_ready = wf_load_relaxed(&record->ready_seq[dir]) != ready_seq;
    if (!is_closing && !is_ready) {
        wf_waitq_push(&record->queues[dir], node);
    }
    wf_spin_release(&record->spin);
    if (is_closing) {
        return -EBADF;
    }
    if (is_ready) {
        return 0;
    }
    int rc = fd_register(op);
    if (rc != 0) {
        (void)wf_waitq_leave(node); /* granted, with the error */
        return rc;
    }
    return -EINPROGRESS;
}

/* [non-worker thread]  There is no poller: polls the descriptor, and an eventfd that the closer of
 * the descriptor writes to. */
static int fd_wait_thread(const struct wf_fd_op *op, enum wf_dir dir, int64_t until_ns)
{
    struct wf_fd *record = op->record;
    struct wf_thread_wait wait = {.wakeup_fd = wf_sys_eventfd()};
    if (wait.wakeup_fd < 0) {
        return wait.wakeup_fd;
    }
    wf_spin_acquire(&record->spin);
    wait.next = record->threads;
    record->threads = &wait;
    /* relaxed: under the lock, as in wf_fd_op_begin_wait */
    int rc = (wf_load_relaxed(&record->state) & WF_FD_CLOSING) != 0 ? -EBADF : 0;
    wf_spin_release(&record->spin);
    if (rc == 0) {
        rc = wf_sys_poll(op->fd, wait.wakeup_fd, dir == WF_DIR_READ ? POLLIN : POLLOUT, until_ns);
    }
    wf_spin_acquire(&record->spin);
    struct wf_thread_wait **link = &record->threads;
    while (*link != &wait) { /* ends: it is in the list */
        link = &(*link)->next;
    }
    *link = wait.next;
    const bool is_closing = (wf_load_relaxed(&record->state) & WF_FD_CLOSING) != 0;
    wf_spin_release(&record->spin);
    (void)wf_sys_close(wait.wakeup_fd); /* no data is lost with it */
    if (is_closing || (rc > 0 && (rc & POLLNVAL) != 0)) {
        return -EBADF;
    }
    return rc == 0 && wf_clock_now() >= until_ns ? -ETIME : rc < 0 ? rc : 0;
}

int wf_fd_op_wait(struct wf_fd_op *op, enum wf_dir dir, uint32_t ready_seq)
{
    return wf_fd_op_wait_until(op, dir, ready_seq, WEFT_NEVER);
}

int wf_fd_op_wait_until(struct wf_fd_op *op, enum wf_dir dir, uint32_t ready_seq, int64_t until_ns)
{
    struct weft_task *self = op->self;
    if (self == NULL) {
        return fd_wait_thread(op, dir, until_ns);
    }
    if (self->body == WF_BODY_POLL) {
        return -EAGAIN;
    }
    int rc = wf_interrupted(self);
    if (rc != 0) {
        return rc;
    }
    struct wf_wait_node node;
    wf_node_init(&node, self);
    rc = wf_fd_op_begin_wait(op, dir, ready_seq, &node);
    if (rc == -EINPROGRESS) {
        rc = wf_waitq_wait(&node, dir == WF_DIR_READ ? WEFT_WAIT_READABLE : WEFT_WAIT_WRITABLE,
                           (const void *)(uintptr_t)(unsigned)op->fd, until_ns);
        if (rc == -ETIMEDOUT && until_ns != WEFT_NEVER && wf_interrupted(self) == 0) {
            rc = -ETIME; /* until_ns, not the deadline of the task */
        }
        rc = rc != 0 ? rc : node.result;
        wf_prefetch_after_wait();
    }
    return rc;
}

/* ---- closing ------------------------------------------------------------------------------- */

/* [any]  See the file head. */
static int fd_close(struct wf_fd *record, bool keeps_open)
{
    uint32_t state = wf_load_relaxed(&record->state); /* relaxed: the CAS decides */
    uint32_t next;
    unsigned attempts = 0;
    do {                                         /* a failed CAS is progress of another thread */
        while ((state & WF_FD_RESETTING) != 0) { /* the number may be that of a new descriptor */
            wf_spin_pause(&record->state, state, attempts++);
            state = wf_load_relaxed(&record->state); /* relaxed: the CAS decides */
        }
        if ((state & WF_FD_FLAGS) != 0) {
            return -EBADF; /* another thread has closed it; the last put has yet to come */
        }
        next = state == 0
                   ? WF_FD_RESETTING
                   : (state | WF_FD_CLOSING | (keeps_open ? WF_FD_KEEP_OPEN : 0)) + WF_FD_REF;
    } while (!wf_cas_acquire(&record->state, &state, next)); /* (io.I1) */
    if (next == WF_FD_RESETTING) {
        return fd_end(record, keeps_open);
    }
    end_waits(record, -EBADF);
    wf_fd_put(record);
    return 0;
}

int weft_close(int fd)
{
    struct wf_fd *record = wf_fd_table_find(fd);
    return record != NULL ? fd_close(record, false) : wf_sys_close(fd);
}

int weft_fd_forget(int fd)
{
    struct wf_fd *record = wf_fd_table_find(fd);
    if (fd < 0) {
        return -EBADF;
    }
    return record != NULL ? fd_close(record, true) : 0;
}
