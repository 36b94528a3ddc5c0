/* SPDX-License-Identifier: MIT */
/*
 * io/poller.c - the poller of a runtime: the driver in which the leader parks.
 *
 * The first task that needs it opens it, so a runtime without I/O has neither its descriptors nor
 * its cost.
 *
 *   park       the leader waits in epoll; the events it found are pending until it may wake tasks
 *   dispatch   the leader wakes the tasks of the pending events
 *   poll       a busy worker takes events between two tasks, without waiting, and dispatches them
 *   submit     a worker submits the I/O requests that its tasks have queued (uring.c)
 *   unpark     any thread ends the leader's wait, by the wakeup_fd
 *
 * epoll delivers each edge to one waiter.  A busy worker may consume the wake-up edge that was
 * meant for the leader; then it must write to the wakeup_fd again.
 */
#include <errno.h>
#include <string.h>

#include "io/poller.h"
#include "io/prefetch.h"
#include "io/uring.h"

static struct wf_poller *poller_of_driver(struct wf_driver *driver)
{
    return wf_container_of(driver, struct wf_poller, driver);
}

/* ---- dispatching --------------------------------------------------------------------------- */

/* `count` is at most WF_WAKES_MAX.  Mostly an event has one waiter, so usually all fit into the
 * wakes; wf_wakes_grant_all flushes them when they are full.  True: a wake-up was among the events.
 */
static bool dispatch_batch(const struct wf_event *events, int count)
{
    bool has_wakeup = false;
    struct wf_wakes wakes;
    wakes.count = 0; /* only this many tasks of the array are valid */
    wf_prefetch_events(events, count);
    for (int i = 0; i < count; i++) {
        if (events[i].uring != NULL) {
            wf_uring_reap(events[i].uring);
        } else if (events[i].record != NULL) {
            wf_fd_ready(events[i].record, events[i].dirs, events[i].is_hung_up, &wakes);
        } else {
            has_wakeup = true;
        }
    }
    wf_wakes_do(&wakes);
    return has_wakeup;
}

/* True: a wake-up was among the events. */
static bool dispatch_events(struct wf_poller *poller, const struct wf_event *events, int count)
{
    bool has_wakeup = false;
    if (count > 0) {
        (void)wf_fetch_add_relaxed(&poller->driver.events, (uint64_t)count); /* a statistic */
    }
    for (int first = 0; first < count; first += (int)WF_WAKES_MAX) {
        const int left = count - first;
        const int batch = left < (int)WF_WAKES_MAX ? left : (int)WF_WAKES_MAX;
        has_wakeup = dispatch_batch(&events[first], batch) || has_wakeup;
    }
    return has_wakeup;
}

/* ---- the driver ---------------------------------------------------------------------------- */

static void poller_park(struct wf_driver *driver, int64_t deadline_ns)
{
    struct wf_poller *poller = poller_of_driver(driver);
    poller->pending_count = wf_epoll_wait(poller, poller->pending, poller->events_max, deadline_ns);
}

static void poller_unpark(struct wf_driver *driver)
{
    wf_epoll_wake(poller_of_driver(driver));
}

static void poller_dispatch(struct wf_driver *driver, struct wf_worker *worker)
{
    (void)worker;
    struct wf_poller *poller = poller_of_driver(driver);
    const int count = poller->pending_count;
    poller->pending_count = 0;
    (void)dispatch_events(poller, poller->pending, count); /* a wake-up was for this caller */
    wf_uring_submit_stuck(poller);
}

static void poller_submit(struct wf_driver *driver, struct wf_worker *worker)
{
    wf_uring_submit(poller_of_driver(driver), worker);
}

/* [owner]  Returns how many events a worker takes: as many as its run queue has free slots.  The
 * kernel keeps the others, in order.  A run queue that is always full must not keep events away, so
 * the worker takes at least a quarter of the maximum. */
static int poll_limit(struct wf_worker *worker, int limit)
{
    const int free_count = (int)wf_runq_free_count(&worker->runq);
    const int least = (limit + 3) / 4;
    return free_count >= limit ? limit : free_count > least ? free_count : least;
}

static void poller_poll(struct wf_driver *driver, struct wf_worker *worker)
{
    struct wf_event events[WF_POLLER_BATCH];
    struct wf_poller *poller = poller_of_driver(driver);
    int limit = poller->events_max < WF_POLLER_BATCH ? poller->events_max : WF_POLLER_BATCH;
    limit = worker != NULL ? poll_limit(worker, limit) : limit;
    const int count = wf_epoll_wait(poller, events, limit, 0);
    /* If there is a leader now, it became the leader after this worker had checked that there was
     * none, and the wake-up was meant for it: this worker wakes it again.  relaxed: the leader's
     * store came before the wake-up that the kernel reported. */
    if (dispatch_events(poller, events, count) && worker != NULL &&
        wf_load_relaxed(&worker->runtime->has_leader) != 0) {
        wf_epoll_wake(poller);
    }
}

/* ---- opening and closing ------------------------------------------------------------------- */

static void poller_free(struct wf_driver *driver)
{
    struct wf_poller *poller = poller_of_driver(driver);
    wf_fds_detach(poller);
    wf_uring_close(poller);
    wf_epoll_close(poller);
    wf_free(poller);
}

static int poller_open(weft_runtime *runtime, struct wf_poller **out)
{
    struct wf_poller *poller = wf_alloc_zeroed(1, sizeof(*poller));
    if (poller == NULL) {
        return -ENOMEM;
    }
    poller->driver = (struct wf_driver){.park = poller_park,
                                        .unpark = poller_unpark,
                                        .dispatch = poller_dispatch,
                                        .poll = poller_poll,
                                        .submit = poller_submit,
                                        .free = poller_free};
    poller->events_max = (int)runtime->options.io_events_max;
    wf_store_relaxed(&poller->driver.io, WEFT_IO_EPOLL); /* relaxed: not published yet */
    int rc = wf_epoll_open(poller);
    if (rc != 0) {
        wf_free(poller);
        return rc;
    }
    if (runtime->options.io == WEFT_IO_URING) {
        (void)wf_uring_open(poller, runtime); /* refused: driver.io stays WEFT_IO_EPOLL */
    }
    *out = poller;
    return 0;
}

/* [task]  If two tasks open a poller at once, one of the two pollers is kept. */
static __attribute__((noinline)) int poller_attach(weft_runtime *runtime, struct wf_poller **out)
{
    struct wf_poller *poller;
    int rc = poller_open(runtime, &poller);
    if (rc != 0) {
        return rc;
    }
    if (!wf_driver_attach(runtime, &poller->driver)) {
        poller_free(&poller->driver);
        poller = poller_of_driver(wf_driver_of(runtime));
    }
    *out = poller;
    return 0;
}

int wf_poller_of(weft_runtime *runtime, struct wf_poller **out)
{
    struct wf_driver *driver = wf_driver_of(runtime);
    if (driver == NULL) {
        return poller_attach(runtime, out);
    }
    *out = poller_of_driver(driver);
    return 0;
}
