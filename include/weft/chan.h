/* SPDX-License-Identifier: MIT */
/*
 * weft/chan.h - channels, and select over channels, tasks, times and external events.
 *
 *     weft_chan *chan;
 *     weft_chan_new(&chan, sizeof(int), 16);
 *     weft_chan_send(chan, &number);              in one task
 *     while (weft_chan_recv(chan, &number) == 0)  in another
 *
 * Handles:  counted references, except for a oneshot, which is a struct of the program.  The caller
 *           must hold a handle for the duration of a call.
 * Items:    bytes, which are copied.  If an item is a pointer, the receiver takes over what it
 *           points to.
 * Order:    items come out in the order in which they went in.  Waiters are served first come,
 *           first served.
 * Waiting:  a call that waits returns -ECANCELED once the task was cancelled and -ETIMEDOUT once
 *           its deadline has passed (weft_deadline_set, weft_time_after: no call has a timeout
 *           parameter); then nothing was sent or received.  A call that need not wait succeeds even
 *           then, so a task that drains a channel that is never empty should check for
 *           cancellation: while (weft_check() == 0 && weft_chan_recv(jobs, &job) == 0).
 * Threads:  all calls may be made from any task or thread.  A call that waits blocks a non-worker
 *           thread, which has no deadline.  Calls named try never wait, and need no runtime.
 * Close:    wakes all waiters.  Nothing more can be sent; what was sent before can be received.
 */
#ifndef WEFT_CHAN_H
#define WEFT_CHAN_H

#include <weft/types.h>

WEFT_BEGIN

/* The maximum size of an item in bytes: send a pointer to anything larger. */
#define WEFT_CHAN_ITEM_SIZE_MAX ((size_t)65536)

/* ---- channels -------------------------------------------------------------------------------- */

/* A queue with any number of senders and receivers. */
typedef struct weft_chan weft_chan;

/* A capacity without a bound: senders never wait. */
#define WEFT_CHAN_UNBOUNDED SIZE_MAX

/* The maximum capacity of a bounded channel. */
#define WEFT_CHAN_CAPACITY_MAX ((size_t)1 << 30)

/*
 * Creates a channel for `capacity` items.  A channel of capacity 0 has no buffer: each send waits
 * for the receive that takes its item (rendezvous).
 *
 * 0         *out is a handle, which the caller gives back by weft_chan_unref
 * -EINVAL   the item size is 0 or above WEFT_CHAN_ITEM_SIZE_MAX, or the capacity is above
 *           WEFT_CHAN_CAPACITY_MAX and not WEFT_CHAN_UNBOUNDED
 * -ENOMEM
 */
WEFT_API int weft_chan_new(weft_chan **out, size_t item_size, size_t capacity) WEFT_NONNULL(1);

/*
 * Sends a copy of *item; waits while the channel is full.
 *
 * 0            the item was handed to a receiver or put into the buffer
 * -EPIPE       the channel is closed, or was closed while the caller waited
 * -ENOMEM      an unbounded channel could not grow
 * -ECANCELED, -ETIMEDOUT   the item was not sent
 */
WEFT_API int weft_chan_send(weft_chan *chan, const void *item) WEFT_NONNULL(1, 2);

/*
 * Receives the oldest item; waits while there is none.
 *
 * 0            *item is the item
 * -EPIPE       the channel is closed and empty
 * -ECANCELED, -ETIMEDOUT   no item was received
 */
WEFT_API int weft_chan_recv(weft_chan *chan, void *item) WEFT_NONNULL(1, 2);

/* Send or receive without waiting: -EAGAIN where weft_chan_send or weft_chan_recv would wait; other
 * errors as there. */
WEFT_API int weft_chan_try_send(weft_chan *chan, const void *item) WEFT_NONNULL(1, 2);
WEFT_API int weft_chan_try_recv(weft_chan *chan, void *item) WEFT_NONNULL(1, 2);

/* Closes the channel and wakes all waiters with -EPIPE.  Never waits.  Returns 0; -EPIPE: it was
 * closed before. */
WEFT_API int weft_chan_close(weft_chan *chan) WEFT_NONNULL(1);

/* Adds a handle of the same channel.  Returns its argument, which must not be NULL. */
WEFT_API weft_chan *weft_chan_ref(weft_chan *chan) WEFT_NONNULL(1);

/* Gives a handle back; the last one frees the channel and the items in it.  NULL is allowed.  It
 * does not close the channel: every waiter holds a handle, so the last drop finds no waiter. */
WEFT_API void weft_chan_unref(weft_chan *chan);

/* Return the number of items in the channel at this moment, and its capacity. */
WEFT_API size_t weft_chan_length(const weft_chan *chan) WEFT_NONNULL(1);
WEFT_API size_t weft_chan_capacity(const weft_chan *chan) WEFT_NONNULL(1);
/* Returns whether the channel is closed. */
WEFT_API bool weft_chan_is_closed(const weft_chan *chan) WEFT_NONNULL(1);

/* ---- oneshot: one value, once ---------------------------------------------------------------- */

/*
 * One sender passes one value to one receiver.  All zeros is an empty oneshot.  It needs no
 * clean-up and may be freed as soon as the value was received: no call touches it after that.  To
 * reuse it, set it to all zeros again.
 */
typedef struct weft_oneshot {
    uintptr_t opaque[3];
} weft_oneshot;

/* Sends the value; never waits.  Returns 0; -EPIPE: the oneshot is closed; -EALREADY: a value was
 * sent before. */
WEFT_API int weft_oneshot_send(weft_oneshot *oneshot, void *value) WEFT_NONNULL(1);

/*
 * Waits for the value.
 *
 * 0            *value is the value (`value` may be NULL)
 * -EPIPE       the oneshot was closed before a value was sent
 * -EALREADY    the value was received before
 * -EBUSY       another receiver waits for it
 * -ECANCELED, -ETIMEDOUT
 */
WEFT_API int weft_oneshot_recv(weft_oneshot *oneshot, void **value) WEFT_NONNULL(1);
/* Receives the value without waiting: -EAGAIN if there is none; other errors as
 * weft_oneshot_recv. */
WEFT_API int weft_oneshot_try_recv(weft_oneshot *oneshot, void **value) WEFT_NONNULL(1);

/* Declares that no value will be sent; the sender or the receiver may call it.  Never waits.
 * Returns 0, also if a value was sent, which can still be received; -EPIPE: it was closed
 * before. */
WEFT_API int weft_oneshot_close(weft_oneshot *oneshot) WEFT_NONNULL(1);

/* ---- broadcast: every item to every subscriber ----------------------------------------------- */

/* Keeps the last `capacity` items.  Every subscriber receives every item, unless it lags by more
 * than that: senders do not wait for slow subscribers. */
typedef struct weft_broadcast weft_broadcast;

/* The position of one receiver.  Belongs to one task or thread at a time. */
typedef struct weft_subscription {
    weft_broadcast *broadcast; /* NULL: none */
    uint64_t next;             /* the number of the item it receives next */
    uint64_t lost;             /* items it has missed in total */
} weft_subscription;

/* Creates a broadcast channel; *out is a handle.  -EINVAL: an item size or capacity that is 0 or
 * too large (see weft_chan_new); -ENOMEM. */
WEFT_API int weft_broadcast_new(weft_broadcast **out, size_t item_size, size_t capacity)
    WEFT_NONNULL(1);

/* Sends a copy of *item to all subscribers; never waits.  Returns 0; -EPIPE: it is closed. */
WEFT_API int weft_broadcast_send(weft_broadcast *broadcast, const void *item) WEFT_NONNULL(1, 2);

/* Subscribes, beginning with the next item.  The subscription holds a handle of its own until
 * weft_broadcast_unsubscribe. */
WEFT_API int weft_broadcast_subscribe(weft_subscription *out, weft_broadcast *broadcast)
    WEFT_NONNULL(1, 2);
/* Ends a subscription and gives its handle back.  A subscription that has ended, one of all zeros,
 * and NULL are allowed. */
WEFT_API void weft_broadcast_unsubscribe(weft_subscription *subscription);

/*
 * Waits for the next item.
 *
 * >= 0         *item is the item; the result is the number of items missed before it
 * -EPIPE       the broadcast is closed, and no items are left
 * -EINVAL      a subscription that has ended
 * -ECANCELED, -ETIMEDOUT
 */
WEFT_API int64_t weft_broadcast_recv(weft_subscription *subscription, void *item)
    WEFT_NONNULL(1, 2);
/* Receives the next item without waiting: -EAGAIN if there is none; other results as
 * weft_broadcast_recv. */
WEFT_API int64_t weft_broadcast_try_recv(weft_subscription *subscription, void *item)
    WEFT_NONNULL(1, 2);

/* Return the number of items kept for this subscription, and the capacity. */
WEFT_API size_t weft_broadcast_length(const weft_subscription *subscription) WEFT_NONNULL(1);
WEFT_API size_t weft_broadcast_capacity(const weft_broadcast *broadcast) WEFT_NONNULL(1);

/* Closes the broadcast and wakes all subscribers.  Never waits.  Returns 0; -EPIPE: it was closed
 * before. */
WEFT_API int weft_broadcast_close(weft_broadcast *broadcast) WEFT_NONNULL(1);
/* Adds a handle.  Returns its argument, which must not be NULL. */
WEFT_API weft_broadcast *weft_broadcast_ref(weft_broadcast *broadcast) WEFT_NONNULL(1);
/* Gives a handle back; the last one frees the broadcast and its items.  NULL is allowed. */
WEFT_API void weft_broadcast_unref(weft_broadcast *broadcast);

/* ---- watch: the newest value ----------------------------------------------------------------- */

/* A value that is replaced from time to time.  Its versions are numbered from 1.  A late reader
 * gets the newest version; the version number shows how many it has missed. */
typedef struct weft_watch weft_watch;

/* Creates a watch; *out is a handle, and `value` the first version.  -EINVAL: a size of 0 or above
 * WEFT_CHAN_ITEM_SIZE_MAX; -ENOMEM. */
WEFT_API int weft_watch_new(weft_watch **out, size_t size, const void *value) WEFT_NONNULL(1, 3);

/* Replaces the value; never waits.  Returns 0; -EPIPE: the watch is closed; -ENOMEM: the value is
 * unchanged (possible only while a reader has borrowed the value). */
WEFT_API int weft_watch_set(weft_watch *watch, const void *value) WEFT_NONNULL(1, 2);

/*
 * Replaces the value by what fn makes of a copy of it.  If another caller replaces the value
 * meanwhile, fn is called again with a copy of the new one.  So fn may be called several times and
 * must change nothing except the copy.  It may wait: no lock is held while it runs.
 *
 * 1         fn returned true: the copy is the new value
 * 0         fn returned false: nothing has changed
 * -EPIPE    the watch is closed
 * -ENOMEM
 */
WEFT_API int weft_watch_modify(weft_watch *watch, bool (*fn)(void *value, void *arg), void *arg)
    WEFT_NONNULL(1, 2);

/* Copies the value to *value and, if `version` is not NULL, its number to *version.  Never
 * waits. */
WEFT_API int weft_watch_get(weft_watch *watch, void *value, uint64_t *version) WEFT_NONNULL(1, 2);

/* weft_watch_borrow returns the value itself, which stays unchanged until the caller gives it back
 * by weft_watch_return: a setter meanwhile stores its new value elsewhere.  If `version` is not
 * NULL, *version is set to the number of the version.  Neither call waits. */
WEFT_API const void *weft_watch_borrow(weft_watch *watch, uint64_t *version) WEFT_NONNULL(1);
WEFT_API void weft_watch_return(weft_watch *watch, const void *value) WEFT_NONNULL(1, 2);

/*
 * Waits until the number of the newest version differs from *version, and stores it in *version.
 *
 *     uint64_t seen = 0;
 *     while (weft_watch_wait(watch, &seen) == 0) {
 *         weft_watch_get(watch, &settings, &seen);
 *     }
 *
 * 0            there is another version
 * -EPIPE       the watch is closed, and there is no other version
 * -ECANCELED, -ETIMEDOUT
 */
WEFT_API int weft_watch_wait(weft_watch *watch, uint64_t *version) WEFT_NONNULL(1, 2);

/* Returns the number of the newest version. */
WEFT_API uint64_t weft_watch_version(const weft_watch *watch) WEFT_NONNULL(1);

/* Closes the watch and wakes all waiters; the last value can still be read.  Never waits.  Returns
 * 0; -EPIPE: it was closed before. */
WEFT_API int weft_watch_close(weft_watch *watch) WEFT_NONNULL(1);
/* Adds a handle.  Returns its argument, which must not be NULL. */
WEFT_API weft_watch *weft_watch_ref(weft_watch *watch) WEFT_NONNULL(1);
/* Gives a handle back; the last one frees the watch.  NULL is allowed. */
WEFT_API void weft_watch_unref(weft_watch *watch);

/* ---- select: the first of several ------------------------------------------------------------ */

enum weft_case_kind {
    WEFT_CASE_NONE,  /* never ready: a case that is switched off */
    WEFT_CASE_SEND,  /* the item can be sent to the channel, or the channel is closed */
    WEFT_CASE_RECV,  /* an item can be received, or the channel is closed and empty */
    WEFT_CASE_TASK,  /* the task has ended */
    WEFT_CASE_TIME,  /* the point in time has come */
    WEFT_CASE_EVENT, /* an external event: see weft_case_fd and weft_case_signal */
};

/* One thing to wait for, made by the functions below.  `result` and `value` are set only in the
 * case that ran. */
typedef struct weft_case {
    enum weft_case_kind kind;
    int result;      /* of the case that ran: 0 or -EPIPE; an event has further errors */
    void *object;    /* the channel or the task */
    void *item;      /* what to send, or where to store what is received */
    weft_time at;    /* the point in time */
    intptr_t value;  /* of the case that ran: the task's result, the poll events, or the signal
                      * number */
    void *opaque[2]; /* zero, except in an event */
} weft_case;

static inline weft_case weft_case_send(weft_chan *chan, const void *item)
{
    weft_case it = {WEFT_CASE_SEND, 0, chan, (void *)(uintptr_t)item, 0, 0, {0, 0}};
    return it;
}

static inline weft_case weft_case_recv(weft_chan *chan, void *item)
{
    weft_case it = {WEFT_CASE_RECV, 0, chan, item, 0, 0, {0, 0}};
    return it;
}

/* The caller keeps the handle. */
static inline weft_case weft_case_task(weft_task *task)
{
    weft_case it = {WEFT_CASE_TASK, 0, task, 0, 0, 0, {0, 0}};
    return it;
}

static inline weft_case weft_case_time(weft_time at)
{
    weft_case it = {WEFT_CASE_TIME, 0, 0, 0, at, 0, {0, 0}};
    return it;
}

/*
 * Waits until a case can run, and runs exactly one.  If several can, each is chosen with the same
 * probability.  A channel or a task may appear in several cases; a send and a receive of one select
 * on the same channel never meet each other.  Up to 16 cases need no memory.  Descriptors and
 * signals are cases too: weft_case_fd (weft/io.h) and weft_case_signal (weft/signals.h).
 *
 *     weft_case cases[] = {
 *         weft_case_recv(answers, &answer),
 *         weft_case_time(weft_time_after(WEFT_SECOND)),
 *     };
 *     int ran = weft_select(cases, 2);
 *
 * >= 0         the index of the case that ran; its `result` is 0, or -EPIPE if its channel is
 *              closed
 * -EINVAL      no cases, no case switched on, a case without its channel, item or task, or of an
 *              unknown kind
 * -EDEADLK     the calling task is one of the cases
 * -EPERM       a non-worker thread would have to wait for an event; it may use weft_try_select
 * -ENOMEM      only for more than 16 cases
 * -ECANCELED, -ETIMEDOUT   no case ran
 */
WEFT_API int weft_select(weft_case *cases, size_t count);

/* Runs one case that can run at once; never waits.  -EAGAIN: there is none, also if no case is
 * switched on; other results as weft_select. */
WEFT_API int weft_try_select(weft_case *cases, size_t count);

WEFT_END

#endif
