/* SPDX-License-Identifier: MIT */
/*
 * io/poller.h - the poller of a runtime: the driver that the scheduler polls and parks in, and
 * epoll behind it.  See poller.c and epoll.c.
 */
#ifndef WF_IO_POLLER_H
#define WF_IO_POLLER_H

#include "io/io.h"

struct wf_uring;

/* Events that a worker takes at most when it polls between two tasks. */
#define WF_POLLER_BATCH 32

/* What the kernel reported. */
struct wf_event {
    struct wf_fd *record;   /* NULL: a wake-up, or completions */
    struct wf_uring *uring; /* has completions; or NULL */
    uint8_t dirs;           /* bits by enum wf_dir */
    bool is_hung_up;
};

struct wf_poller {
    struct wf_driver driver;
    int fd;               /* [const]  of epoll */
    int wakeup_fd;        /* [const]  an eventfd */
    wf_atomic_u32 added;  /* [any: add]  records that were ever registered: see epoll.c */
    unsigned uring_count; /* [const]  workers and spares, which may have one: see uring.c */
    WF_ATOMIC(struct wf_uring *) *urings; /* [owner, by its index: write]  NULL: none, or not yet */
    int events_max;                       /* [const]  taken at once: options.io_events_max */
    int pending_count;                    /* [leader]  events not yet dispatched */
    struct wf_event pending[WF_IO_EVENTS_MAX];
};

/* poller.c  [task]  The poller of the runtime, opened by the first call.  Errors: -ENOMEM, -EMFILE
 * and the like. */
int wf_poller_of(weft_runtime *runtime, struct wf_poller **out);

/* ---- epoll.c ------------------------------------------------------------------------------- */

/* [task]  Opens the descriptors of the poller.  Errors: what epoll_create and eventfd give. */
int wf_epoll_open(struct wf_poller *poller);
/* [closer] */
void wf_epoll_close(struct wf_poller *poller);
/* [op]  Registers the descriptor for both directions.  The kernel reports at once what is ready.
 * Errors: -EPERM: it cannot be polled; -ENOMEM, -ENOSPC. */
int wf_epoll_add(struct wf_poller *poller, struct wf_fd *record);
/* [op]  Removes the registration.  Events that a thread has already taken may still come. */
void wf_epoll_remove(struct wf_poller *poller, struct wf_fd *record);
/* [leader; any with deadline 0]  Waits for events until the deadline; returns their number, at most
 * `count`. */
int wf_epoll_wait(struct wf_poller *poller, struct wf_event *events, int count,
                  int64_t deadline_ns);
/* [any]  Ends a wf_epoll_wait; if there is none, the next. */
void wf_epoll_wake(struct wf_poller *poller);

#endif
