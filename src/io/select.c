/* SPDX-License-Identifier: MIT */
/*
 * io/select.c - descriptors and signals as cases of a select.
 *
 * The node of a case stands in the queue of its descriptor, and is granted by news of it, as that
 * of weft_poll_fd is.  What the news are is asked of the kernel when the case is to run: they may
 * have been for somebody else, and then the select begins anew.
 *
 * A signal is taken when its case runs, and by no other: until then a signalfd tells that there is
 * one, as in signal.c.
 */
#include <errno.h>
#include <poll.h>

#include "io/io.h"
#include "os/sys.h"
#include "sync/source.h"
#include "weft/signals.h"

/* ---- descriptors --------------------------------------------------------------------------- */

/* What the case asks for: in its unused fields. */
static int fd_of(const weft_case *it)
{
    return (int)(intptr_t)it->unused[0];
}

static short events_of(const weft_case *it)
{
    return (short)(intptr_t)it->unused[1];
}

static enum wf_side side_of(short events)
{
    return events == POLLIN ? WF_SIDE_READ : WF_SIDE_WRITE;
}

/* The kernel's answer, as a result: 0 and the events in the value, -EAGAIN, or an error. */
static int ask(weft_case *it, int fd, short events)
{
    const int rc = wf_sys_poll(fd, -1, events, 0);
    if (rc <= 0) {
        return rc == 0 ? -EAGAIN : rc;
    }
    it->value = rc;
    return (rc & POLLNVAL) == 0 ? 0 : -EBADF;
}

static int check_fd(const weft_case *it)
{
    return events_of(it) == POLLIN || events_of(it) == POLLOUT ? 0 : -EINVAL;
}

/* [waiter]  From here on it is inside, and the node knows the entry and the news. */
static int begin_fd(weft_case *it, struct wf_wait_node *node)
{
    struct wf_use use;
    int rc = wf_use_begin(&use, fd_of(it));
    if (rc != 0) {
        return rc;
    }
    node->spin = &use.entry->spin;
    node->count = wf_use_news(&use, side_of(events_of(it)));
    return ask(it, fd_of(it), events_of(it));
}

static struct wf_entry *entry_of(const struct wf_wait_node *node)
{
    return wf_container_of(node->spin, struct wf_entry, spin);
}

static int enter(int fd, short events, struct wf_wait_node *node)
{
    struct wf_use use = {.fd = fd, .entry = entry_of(node), .self = node->waiter.task};
    (void)wf_poller_of(wf_worker_self()->runtime, &use.poller); /* it was there when it began */
    return wf_use_begin_wait(&use, side_of(events), node->count, node);
}

static int enter_fd(weft_case *it, struct wf_wait_node *node)
{
    return enter(fd_of(it), events_of(it), node);
}

static void leave(weft_case *it, struct wf_wait_node *node)
{
    (void)it;
    if (node->queue != NULL) {
        (void)wf_waitq_leave(node);
    }
}

static int run_fd(weft_case *it)
{
    return it->value != 0 ? 0 : ask(it, fd_of(it), events_of(it));
}

static void end_fd(weft_case *it, struct wf_wait_node *node)
{
    (void)it;
    if (node->spin != NULL) {
        wf_entry_leave(entry_of(node));
    }
}

static const struct wf_source fd_source = {check_fd, begin_fd, enter_fd, leave, run_fd, end_fd};

weft_case weft_case_fd(int fd, int events)
{
    weft_case it = wf_case_of(&fd_source, NULL);
    it.unused[0] = (void *)(intptr_t)fd;
    it.unused[1] = (void *)(intptr_t)events;
    return it;
}

/* ---- signals ------------------------------------------------------------------------------- */

static const sigset_t *set_of(const weft_case *it)
{
    return it->unused[0];
}

static int check_signal(const weft_case *it)
{
    return wf_signals_check(set_of(it));
}

static int begin_signal(weft_case *it, struct wf_wait_node *node)
{
    (void)node;
    return wf_signals_are_pending(set_of(it)) ? 0 : -EAGAIN;
}

/* A descriptor that lasts as long as the wait; its number is in the case. */
static int enter_signal(weft_case *it, struct wf_wait_node *node)
{
    struct wf_use use;
    const int fd = wf_sys_signalfd(set_of(it));
    if (fd < 0) {
        return fd;
    }
    int rc = wf_use_begin(&use, fd);
    if (rc != 0) {
        (void)wf_sys_close(fd); /* nothing is lost with it */
        return rc;
    }
    it->unused[1] = (void *)(intptr_t)fd;
    node->spin = &use.entry->spin;
    node->count = wf_use_news(&use, WF_SIDE_READ);
    rc = wf_sys_poll(fd, -1, POLLIN, 0);
    return rc != 0 ? (rc < 0 ? rc : 0) : enter(fd, POLLIN, node);
}

static int run_signal(weft_case *it)
{
    const int rc = wf_sys_signal_take(set_of(it), it->item);
    it->value = rc;
    return rc > 0 ? 0 : rc;
}

static void end_signal(weft_case *it, struct wf_wait_node *node)
{
    if (node->spin != NULL) {
        end_fd(it, node);
        (void)weft_close((int)(intptr_t)it->unused[1]); /* nothing is lost with it */
    }
}

static const struct wf_source signal_source = {check_signal, begin_signal, enter_signal,
                                               leave,        run_signal,   end_signal};

weft_case weft_case_signal(const sigset_t *set, siginfo_t *info)
{
    weft_case it = wf_case_of(&signal_source, info);
    it.unused[0] = (void *)(uintptr_t)set; /* only read */
    return it;
}
