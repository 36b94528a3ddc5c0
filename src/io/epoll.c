/* SPDX-License-Identifier: MIT */
/*
 * io/epoll.c - readiness by epoll.
 *
 * A descriptor is registered once, for both directions and edge-triggered, so a wait takes no
 * system call of its own.  The kernel drops a registration when the last copy of the open file is
 * closed.  If the program has made copies, events of a number that was closed may still come; they
 * only make a waiter try once for nothing.
 *
 * Wake-ups come by an eventfd, edge-triggered too.  No thread reads it: each write is an edge.
 *
 * A thread that takes an event gets the address of the record from the kernel, which orders what
 * the registering thread wrote there before.  The C memory model does not know that; `added` states
 * the same order in its terms (io.I5).
 */
#include "io/poller.h"
#include "io/uring.h"
#include "os/sys.h"

int wf_epoll_open(struct wf_poller *poller)
{
    int rc = wf_sys_epoll_create();
    if (rc < 0) {
        return rc;
    }
    poller->fd = rc;
    rc = wf_sys_eventfd();
    if (rc < 0) {
        goto close_epoll;
    }
    poller->wakeup_fd = rc;
    rc = wf_sys_epoll_add(poller->fd, poller->wakeup_fd, EPOLLIN | EPOLLET, NULL);
    if (rc < 0) {
        goto close_eventfd;
    }
    return 0;

close_eventfd:
    (void)wf_sys_close(poller->wakeup_fd); /* nothing was written */
close_epoll:
    (void)wf_sys_close(poller->fd);
    return rc;
}

void wf_epoll_close(struct wf_poller *poller)
{
    (void)wf_sys_close(poller->wakeup_fd); /* no data is lost with these two */
    (void)wf_sys_close(poller->fd);
}

int wf_epoll_add(struct wf_poller *poller, struct wf_fd *record)
{
    (void)wf_fetch_add_release(&poller->added, 1); /* (io.I5) */
    return wf_sys_epoll_add(poller->fd, record->fd,
                            EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLET, record);
}

void wf_epoll_remove(struct wf_poller *poller, struct wf_fd *record)
{
    wf_sys_epoll_remove(poller->fd, record->fd);
}

static struct wf_event translate_event(const struct epoll_event *from)
{
    struct wf_uring *uring = wf_uring_of_epoll(from->data.ptr);
    if (uring != NULL) {
        return (struct wf_event){.uring = uring};
    }
    struct wf_event event = {.record = from->data.ptr};
    if ((from->events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        event.dirs |= 1u << WF_DIR_READ;
    }
    if ((from->events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
        event.dirs |= 1u << WF_DIR_WRITE;
    }
    /* Urgent data ends a read early too, with more bytes behind it. */
    event.is_hung_up = (from->events & (EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    return event;
}

int wf_epoll_wait(struct wf_poller *poller, struct wf_event *events, int count, int64_t deadline_ns)
{
    struct epoll_event found[WF_IO_EVENTS_MAX];
    count = count < (int)WF_IO_EVENTS_MAX ? count : (int)WF_IO_EVENTS_MAX;
    count = wf_sys_epoll_wait(poller->fd, found, count, deadline_ns);
    (void)wf_load_acquire(&poller->added); /* (io.I5) */
    for (int i = 0; i < count; i++) {
        events[i] = translate_event(&found[i]);
    }
    return count;
}

void wf_epoll_wake(struct wf_poller *poller)
{
    wf_sys_eventfd_add(poller->wakeup_fd);
}
