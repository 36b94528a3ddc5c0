/* SPDX-License-Identifier: MIT */
/*
 * io/epoll.c - the kernel's news by epoll.
 *
 * A descriptor is registered once, for both sides, and reported when something changes (edges): so
 * waiting takes no system call of its own.  The kernel drops a registration when the last copy of a
 * descriptor is closed; if the program has made copies, news of a number that was closed may still
 * come, and only make somebody look for nothing.
 *
 * Calls come by an eventfd whose edges are reported too.  Nobody reads it: each write is an edge.
 *
 * Who is told of an entry has its address from the kernel, which orders what was written there
 * before; the language does not know that, so a number says it too (I6).
 */
#include "io/io.h"
#include "os/sys.h"

static int open_fds(struct wf_poller *poller)
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
    poller->call_fd = rc;
    rc = wf_sys_epoll_add(poller->fd, poller->call_fd, EPOLLIN | EPOLLET, NULL);
    if (rc < 0) {
        goto close_eventfd;
    }
    return 0;

close_eventfd:
    (void)wf_sys_close(poller->call_fd); /* nothing was written */
close_epoll:
    (void)wf_sys_close(poller->fd);
    return rc;
}

static void close_fds(struct wf_poller *poller)
{
    (void)wf_sys_close(poller->call_fd); /* nothing was written that could be lost */
    (void)wf_sys_close(poller->fd);
}

static int add(struct wf_poller *poller, struct wf_entry *entry)
{
    (void)wf_fetch_add_release(&poller->added, 1); /* (I6) */
    return wf_sys_epoll_add(poller->fd, entry->fd,
                            EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLET, entry);
}

static void forget(struct wf_poller *poller, struct wf_entry *entry)
{
    wf_sys_epoll_remove(poller->fd, entry->fd);
}

static struct wf_event translate(const struct epoll_event *from)
{
    struct wf_event event = {.entry = from->data.ptr};
    if ((from->data.u64 & 1) != 0) {
        return (struct wf_event){.ring = (struct wf_uring *)((char *)from->data.ptr - 1)};
    }
    if ((from->events & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        event.sides |= 1u << WF_SIDE_READ;
    }
    if ((from->events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
        event.sides |= 1u << WF_SIDE_WRITE;
    }
    /* Urgent data, too, ends a read early, with more behind it. */
    event.is_hung_up = (from->events & (EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    return event;
}

static int wait(struct wf_poller *poller, struct wf_event *events, int count, int64_t deadline_ns)
{
    struct epoll_event found[WF_IO_EVENTS_MAX];
    count = count < (int)WF_IO_EVENTS_MAX ? count : (int)WF_IO_EVENTS_MAX;
    count = wf_sys_epoll_wait(poller->fd, found, count, deadline_ns);
    (void)wf_load_acquire(&poller->added); /* (I6) */
    for (int i = 0; i < count; i++) {
        events[i] = translate(&found[i]);
    }
    return count;
}

static void call(struct wf_poller *poller)
{
    wf_sys_eventfd_add(poller->call_fd);
}

const struct wf_backend wf_backend_epoll = {
    .name = "epoll",
    .open = open_fds,
    .close = close_fds,
    .add = add,
    .remove = forget,
    .wait = wait,
    .call = call,
};
