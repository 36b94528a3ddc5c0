/* SPDX-License-Identifier: MIT */
/*
 * io/future.c - waiting for a descriptor as a future: weft_poll_fd without the wait.
 */
#include <errno.h>
#include <poll.h>

#include "io/io.h"
#include "os/sys.h"
#include "sync/future.h"

/* The use of a future that waits: it is inside of the entry. */
static struct wf_use use_of(const struct wf_future_wait *wait, struct weft_task *self)
{
    struct wf_use use = {.fd = (int)(intptr_t)wait->item, .self = self};
    use.entry = wf_container_of(wait->node.spin, struct wf_entry, spin);
    (void)wf_poller_of(wf_worker_self()->runtime, &use.poller); /* it was there when it began */
    return use;
}

/* [inside]  The events; -EINPROGRESS: there are none yet, and the node waits. */
static int ask(struct wf_use *use, struct wf_future_wait *wait)
{
    const short events = (short)wait->count;
    const enum wf_side side = events == POLLIN ? WF_SIDE_READ : WF_SIDE_WRITE;
    int rc;
    do { /* ends: each turn there are other news */
        const uint32_t news = wf_use_news(use, side);
        rc = wf_sys_poll(use->fd, -1, events, 0);
        if (rc == 0) {
            void (*forget)(struct wf_parting *) = wait->node.parting.forget;
            rc = wf_use_begin_wait(use, side, news, &wait->node);
            wait->node.parting.forget = forget; /* the future's, from the second time on */
        } else if (rc > 0 && (rc & POLLNVAL) != 0) {
            rc = -EBADF;
        }
    } while (rc == 0);
    if (rc != -EINPROGRESS) {
        wf_use_end(use);
    }
    return rc;
}

static intptr_t begin(struct wf_future_wait *wait, struct weft_task *self)
{
    struct wf_use use;
    (void)self;
    const int rc = wf_use_begin(&use, (int)(intptr_t)wait->item);
    return rc != 0 ? rc : ask(&use, wait);
}

/* News, of whatever; or it was closed. */
static intptr_t granted(struct wf_future_wait *wait)
{
    struct wf_use use = use_of(wait, wait->node.waiter.task);
    const int rc = wf_plain_load(&wait->node.result);
    if (rc != 0) {
        wf_use_end(&use);
        return rc;
    }
    wf_node_reset(&wait->node);
    return ask(&use, wait);
}

static void abandon(struct wf_wait_node *node)
{
    struct wf_entry *entry = wf_container_of(node->spin, struct wf_entry, spin);
    wf_waitq_abandon(node);
    wf_entry_leave(entry);
}

static const struct wf_future_kind kind = {begin, granted, abandon, false};

void weft_fd_future(weft_wait_future *future, int fd, int events)
{
    const bool is_known = events == POLLIN || events == POLLOUT;
    /* The object is only looked at for whether it is there. */
    struct wf_future_wait *wait = wf_future_set_up(future, &kind, is_known ? future : NULL);
    wait->item = (void *)(intptr_t)fd;
    wait->count = (uint32_t)events;
}
