/* SPDX-License-Identifier: MIT */
/*
 * io/poller.c - the poller of a runtime: the driver in whose berth the watcher sleeps.
 *
 * It is opened by the first task that needs it, so a runtime without I/O has neither its
 * descriptors nor its cost.  What the watcher's wait has found lies in `caught` until the watcher
 * may wake tasks again; whoever else looks in passing takes its own events, and an event is given
 * to one of them.  Also a call is: so who looks in passing and gets one makes it again.
 */
#include <errno.h>
#include <string.h>

#include "io/io.h"

static struct wf_poller *of_driver(struct wf_driver *driver)
{
    return wf_container_of(driver, struct wf_poller, driver);
}

/* ---- telling who waits ---------------------------------------------------------------------- */

/* Of a thousand connections each has been away for long enough that nothing of it is in a near
 * cache: neither its entry nor the frame of who waits for it.  To go from one to the next would be
 * to wait for the memory some five times each; so a few are fetched at once. */

/* [any]  Who seems to wait first.  Without the lock: nothing but an address to be fetched. */
static __attribute__((no_sanitize("thread"))) const void *glance_at(const struct wf_waitq *queue)
{
    return queue->first;
}

static void fetch_two_lines(const void *from)
{
    if (from != NULL) {
        __builtin_prefetch(from, 1);
        __builtin_prefetch((const char *)from + WF_CACHE_LINE, 1);
    }
}

static void fetch_ahead(const struct wf_event *events, int count)
{
    if (count < WF_EVENTS_AHEAD_MIN) {
        return;
    }
    for (int i = 0; i < count; i++) {
        fetch_two_lines(events[i].entry);
    }
    for (int i = 0; i < count; i++) {
        if (events[i].entry != NULL) {
            const bool is_read = (events[i].sides & 1u << WF_SIDE_READ) != 0;
            const enum wf_side side = is_read ? WF_SIDE_READ : WF_SIDE_WRITE;
            fetch_two_lines(glance_at(&events[i].entry->queues[side]));
        }
    }
}

/* As many as fit into the wakes, if one waits for each.  True: among them was a call. */
static bool tell_some(const struct wf_event *events, int count)
{
    bool is_called = false;
    struct wf_wakes wakes;
    wakes.count = 0; /* and filled as far as that says */
    fetch_ahead(events, count);
    for (int i = 0; i < count; i++) {
        if (events[i].ring != NULL) {
            wf_uring_gather(events[i].ring);
        } else if (events[i].entry != NULL) {
            wf_entry_happened(events[i].entry, events[i].sides, events[i].is_hung_up, &wakes);
        } else {
            is_called = true;
        }
    }
    wf_wakes_do(&wakes);
    return is_called;
}

/* True: among them was a call. */
static bool tell(struct wf_poller *poller, const struct wf_event *events, int count)
{
    bool is_called = false;
    if (count > 0) {
        (void)wf_fetch_add_relaxed(&poller->driver.events, (uint64_t)count); /* a number */
    }
    for (int first = 0; first < count; first += (int)WF_WAKES_MAX) {
        const int left = count - first;
        const int some = left < (int)WF_WAKES_MAX ? left : (int)WF_WAKES_MAX;
        is_called = tell_some(&events[first], some) || is_called;
    }
    return is_called;
}

/* ---- the driver ---------------------------------------------------------------------------- */

static void wait(struct wf_berth *berth, int64_t deadline_ns)
{
    struct wf_poller *poller = of_driver(wf_container_of(berth, struct wf_driver, berth));
    poller->caught_count =
        poller->backend->wait(poller, poller->caught, poller->events_max, deadline_ns);
}

static void call(struct wf_berth *berth)
{
    struct wf_poller *poller = of_driver(wf_container_of(berth, struct wf_driver, berth));
    poller->backend->call(poller);
}

static void gather(struct wf_driver *driver, struct wf_worker *worker)
{
    (void)worker;
    struct wf_poller *poller = of_driver(driver);
    const int count = poller->caught_count;
    poller->caught_count = 0;
    (void)tell(poller, poller->caught, count); /* a call was for the caller, and is heard */
    wf_uring_relieve(poller);
}

static void flush(struct wf_driver *driver, struct wf_worker *worker)
{
    wf_uring_flush(of_driver(driver), worker);
}

static void look(struct wf_driver *driver, struct wf_worker *worker)
{
    struct wf_event events[WF_POLLER_GLANCE];
    struct wf_poller *poller = of_driver(driver);
    int most = poller->events_max < WF_POLLER_GLANCE ? poller->events_max : WF_POLLER_GLANCE;
    if (worker != NULL) {
        /* What does not fit stays with the kernel, in order; but a ring that is always full must
         * not keep the news away. */
        const int room = (int)wf_ring_room(&worker->ring);
        const int least = (most + 3) / 4;
        most = room >= most ? most : room > least ? room : least;
    }
    const int count = poller->backend->wait(poller, events, most, 0);
    /* It was for the watcher, if there is one: who began to be after we had looked for it.
     * relaxed: it was before the call, of which the kernel has told us. */
    if (tell(poller, events, count) && worker != NULL &&
        wf_load_relaxed(&worker->runtime->is_watched) != 0) {
        poller->backend->call(poller);
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

static void end(struct wf_driver *driver)
{
    struct wf_poller *poller = of_driver(driver);
    wf_entries_leave(poller);
    wf_uring_close(poller);
    poller->backend->close(poller);
    wf_free(poller);
}

/* [task]  A kernel that refuses io_uring does it all by epoll. */
static void open_rings(struct wf_poller *poller, weft_runtime *runtime)
{
    if (runtime->options.io == WEFT_IO_URING) {
        (void)wf_uring_open(poller, runtime); /* else there are none: see driver.io */
    }
}

static int open_poller(weft_runtime *runtime, struct wf_poller **out)
{
    struct wf_poller *poller = wf_alloc_zeroed(1, sizeof(*poller));
    if (poller == NULL) {
        return -ENOMEM;
    }
    poller->driver = (struct wf_driver){
        .berth = {wait, call}, .gather = gather, .look = look, .flush = flush, .free = end};
    poller->backend = &wf_backend_epoll;
    poller->events_max = (int)runtime->options.io_events_max;
    wf_store_relaxed(&poller->driver.io, WEFT_IO_EPOLL); /* relaxed: nobody has it yet */
    int rc = poller->backend->open(poller);
    if (rc != 0) {
        wf_free(poller);
        return rc;
    }
    open_rings(poller, runtime);
    *out = poller;
    return 0;
}

/* [task]  The first that needs it; of two, one. */
static __attribute__((noinline)) int attach(weft_runtime *runtime, struct wf_poller **out)
{
    struct wf_poller *poller;
    int rc = open_poller(runtime, &poller);
    if (rc != 0) {
        return rc;
    }
    if (!wf_driver_attach(runtime, &poller->driver)) {
        end(&poller->driver);
        poller = of_driver(wf_driver_of(runtime));
    }
    *out = poller;
    return 0;
}

int wf_poller_of(weft_runtime *runtime, struct wf_poller **out)
{
    struct wf_driver *driver = wf_driver_of(runtime);
    if (driver == NULL) {
        return attach(runtime, out);
    }
    *out = of_driver(driver);
    return 0;
}
