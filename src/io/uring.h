/* SPDX-License-Identifier: MIT */
/*
 * io/uring.h - system calls by io_uring: see uring.c.  Without liburing there are none, and the
 * functions here say so.
 */
#ifndef WF_IO_URING_H
#define WF_IO_URING_H

#include "io/poller.h"

enum wf_uring_opcode {
    WF_URING_READ,
    WF_URING_WRITE,
    WF_URING_FSYNC,
    WF_URING_FDATASYNC,
    WF_URING_RECV, /* of sockets: these two end as soon as they are submitted */
    WF_URING_SEND,
};

/* A system call that the kernel can make while the worker does something else. */
struct wf_uring_call {
    enum wf_uring_opcode opcode;
    int fd;
    union {
        void *buffer;
        const void *bytes;
    };
    size_t size;
    int64_t offset;
    int flags; /* of recv and send */
};

/* [op]  True if the poller uses io_uring: a hint, before wf_uring_call. */
static inline bool wf_uring_is_on(const struct wf_fd_op *op)
{
    /* relaxed: a hint */
    return op->poller != NULL && wf_load_relaxed(&op->poller->driver.io) == WEFT_IO_URING;
}

#ifdef WF_URING
/* uring.c  [op]  Submits the call and suspends until it has completed.  False: it was not made, and
 * the caller must make it in another way.  *result: what the system call gives; -ECANCELED,
 * -ETIMEDOUT: it has moved nothing. */
bool wf_uring_call(struct wf_fd_op *op, const struct wf_uring_call *call, ssize_t *result);
/* uring.c  [task]  True if other tasks of the worker have calls to make too, so that one system
 * call submits them all. */
bool wf_uring_is_worth(const struct wf_fd_op *op);
/* uring.c  [owner, monitor]  Submits what the worker's ring has queued, and reaps: wakes tasks. */
void wf_uring_submit(struct wf_poller *poller, struct wf_worker *worker);
/* uring.c  [leader]  Submits what a worker has queued and not submitted since the leader's last
 * visit; wakes tasks. */
void wf_uring_submit_stuck(struct wf_poller *poller);
/* uring.c  [worker, control thread]  Wakes the tasks whose calls have completed. */
void wf_uring_reap(struct wf_uring *uring);
/* uring.c  [task]  Opens a ring for each worker.  -ENOSYS, -ENOMEM and others: the kernel refuses;
 * wf_uring_close frees what was opened. */
int wf_uring_open(struct wf_poller *poller, weft_runtime *runtime);
/* uring.c  [closer] */
void wf_uring_close(struct wf_poller *poller);
#else
static inline bool wf_uring_call(struct wf_fd_op *op, const struct wf_uring_call *call,
                                 ssize_t *result)
{
    (void)op;
    (void)call;
    (void)result;
    return false;
}

static inline bool wf_uring_is_worth(const struct wf_fd_op *op)
{
    (void)op;
    return false;
}

static inline void wf_uring_submit(struct wf_poller *poller, struct wf_worker *worker)
{
    (void)poller;
    (void)worker;
}

static inline void wf_uring_submit_stuck(struct wf_poller *poller)
{
    (void)poller;
}

static inline void wf_uring_reap(struct wf_uring *uring)
{
    (void)uring;
}

static inline int wf_uring_open(struct wf_poller *poller, weft_runtime *runtime)
{
    (void)poller;
    (void)runtime;
    return 0;
}

static inline void wf_uring_close(struct wf_poller *poller)
{
    (void)poller;
}
#endif

/* What epoll keeps for a ring in place of a record: an odd address. */
static inline void *wf_uring_to_epoll(struct wf_uring *uring)
{
    return (char *)uring + 1;
}

/* The ring of such an address; NULL: it is that of a record. */
static inline struct wf_uring *wf_uring_of_epoll(void *data)
{
    return ((uintptr_t)data & 1) != 0 ? (struct wf_uring *)(void *)((char *)data - 1) : NULL;
}

#endif
