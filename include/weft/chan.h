/* SPDX-License-Identifier: MIT */
/*
 * weft/chan.h - channels: tasks and threads that hand items to each other, and wait for the first
 * of several things.
 *
 *     weft_chan *chan;
 *     weft_chan_open(&chan, sizeof(int), 16);
 *     weft_send(chan, &number);              in one task
 *     while (weft_recv(chan, &number) == 0)  in another
 *
 * Handles:  counted, but for a oneshot, which lies where the program puts it.  A call needs a
 *           handle of its caller's for as long as it takes.
 * Items:    bytes, which are copied.  Who receives a pointer has what it points to.
 * Order:    items come out in the order in which they went in.  Of those who wait, who came first
 *           is served first.
 * Waiting:  a call that waits gives -ECANCELED once the task was cancelled, and -ETIMEDOUT once its
 *           deadline has passed (weft_deadline, weft_in: there is no other form with a time limit);
 *           then nothing was sent or received.  A call that need not wait succeeds in any case, so
 *           who empties a channel that is never empty looks for itself:
 *           while (weft_check() == 0 && weft_recv(jobs, &job) == 0).
 *           Called from a thread that is no worker it blocks that thread, which has no deadline.
 * Close:    wakes everybody.  Nothing more can be sent; what was sent before can be received.
 */
#ifndef WEFT_CHAN_H
#define WEFT_CHAN_H

#include <weft/types.h>

WEFT_BEGIN

/* Bytes of an item at the most: hand over a pointer to what is larger. */
#define WEFT_ITEM_SIZE_MAX ((size_t)65536)

/* ---- channels -------------------------------------------------------------------------------- */

/* Any number of senders and receivers. */
typedef struct weft_chan weft_chan;

/* A capacity: senders never wait. */
#define WEFT_UNBOUNDED SIZE_MAX

/* Items that a channel with a bound can hold at the most. */
#define WEFT_CAPACITY_MAX ((size_t)1 << 30)

/*
 * A channel with room for `capacity` items.  With 0 there is no room: each send waits for the
 * receive that takes its item, and the two meet.
 *
 * 0         *out is a handle
 * -EINVAL   no `out`, an item size of 0 or above WEFT_ITEM_SIZE_MAX, or a capacity above
 *           WEFT_CAPACITY_MAX that is not WEFT_UNBOUNDED
 * -ENOMEM
 */
WEFT_API int weft_chan_open(weft_chan **out, size_t item_size, size_t capacity);

/*
 * Sends the item; waits while there is no room.
 *
 * 0            it was handed to a receiver, or there is room for it
 * -EPIPE       the channel is closed, or was closed meanwhile
 * -EINVAL      NULL
 * -ENOMEM      an unbounded channel could not grow
 * -ECANCELED, -ETIMEDOUT
 */
WEFT_API int weft_send(weft_chan *chan, const void *item);

/*
 * Receives the oldest item; waits while there is none.
 *
 * 0            *item is it
 * -EPIPE       the channel is closed and empty
 * -EINVAL      NULL
 * -ECANCELED, -ETIMEDOUT
 */
WEFT_API int weft_recv(weft_chan *chan, void *item);

/* The same without waiting: -EAGAIN where they would.  They need no runtime at all. */
WEFT_API int weft_try_send(weft_chan *chan, const void *item);
WEFT_API int weft_try_recv(weft_chan *chan, void *item);

/* Wakes all who wait, with -EPIPE.  0; -EPIPE: it was closed before; -EINVAL: NULL. */
WEFT_API int weft_chan_close(weft_chan *chan);

/* One more handle of the same channel; the argument. */
WEFT_API weft_chan *weft_chan_ref(weft_chan *chan);

/* Takes a handle back; the last one ends the channel and the items in it.  NULL is allowed.  It
 * does not close: who waits has a handle, so nobody can wait for ever unseen. */
WEFT_API void weft_chan_drop(weft_chan *chan);

/* Items in it at the moment, and how many it can hold; 0 for NULL. */
WEFT_API size_t weft_chan_length(const weft_chan *chan);
WEFT_API size_t weft_chan_capacity(const weft_chan *chan);
/* True for NULL. */
WEFT_API bool weft_chan_is_closed(const weft_chan *chan);

/* ---- one value, once ------------------------------------------------------------------------- */

/*
 * One who sends and one who receives.  All zeros is an empty one; it needs no end, and may be gone
 * as soon as the value was received: nobody touches it after that.  To be used again it is made all
 * zeros again.
 */
typedef struct weft_oneshot {
    uintptr_t opaque[3];
} weft_oneshot;

/* Never waits.  0; -EPIPE: it is closed; -EALREADY: a value was sent before; -EINVAL: NULL. */
WEFT_API int weft_oneshot_send(weft_oneshot *oneshot, void *value);

/*
 * Waits for the value.
 *
 * 0            *value is it (`value` may be NULL)
 * -EPIPE       it was closed, and nothing was sent before
 * -EALREADY    it was received before
 * -EBUSY       another one waits for it
 * -EINVAL      NULL
 * -ECANCELED, -ETIMEDOUT
 */
WEFT_API int weft_oneshot_recv(weft_oneshot *oneshot, void **value);
/* The same without waiting: -EAGAIN. */
WEFT_API int weft_oneshot_try_recv(weft_oneshot *oneshot, void **value);

/* By either side: nothing will be sent.  0, also when a value is there, which can be received;
 * -EPIPE: it was closed before; -EINVAL: NULL. */
WEFT_API int weft_oneshot_close(weft_oneshot *oneshot);

/* ---- to everybody ---------------------------------------------------------------------------- */

/* Every subscriber receives every item, if it is not too slow: the last `capacity` items are kept,
 * and nobody waits for those who lag behind. */
typedef struct weft_broadcast weft_broadcast;

/* One who receives.  Belongs to one task or thread at a time. */
typedef struct weft_subscription {
    weft_broadcast *broadcast; /* NULL: none */
    uint64_t next;             /* the number of the item it receives next */
    uint64_t lost;             /* how many it has missed in all */
} weft_subscription;

/* -EINVAL: no `out`, an item size or a capacity of 0 or too large (see weft_chan_open); -ENOMEM. */
WEFT_API int weft_broadcast_open(weft_broadcast **out, size_t item_size, size_t capacity);

/* Never waits.  0; -EPIPE: it is closed; -EINVAL: NULL. */
WEFT_API int weft_broadcast_send(weft_broadcast *broadcast, const void *item);

/* From the next item on; has a handle of its own, until weft_unsubscribe.  -EINVAL: NULL. */
WEFT_API int weft_subscribe(weft_subscription *out, weft_broadcast *broadcast);
/* A subscription that is over, or all zeros, is left as it is; NULL is allowed. */
WEFT_API void weft_unsubscribe(weft_subscription *subscription);

/*
 * The next item.
 *
 * >= 0         *item is it; so many before it were missed
 * -EPIPE       it is closed, and there are no more
 * -EINVAL      NULL, or a subscription that is over
 * -ECANCELED, -ETIMEDOUT
 */
WEFT_API int64_t weft_broadcast_recv(weft_subscription *subscription, void *item);
/* The same without waiting: -EAGAIN. */
WEFT_API int64_t weft_broadcast_try_recv(weft_subscription *subscription, void *item);

/* Items that are kept for it, and how many are kept at the most; 0 for NULL. */
WEFT_API size_t weft_broadcast_length(const weft_subscription *subscription);
WEFT_API size_t weft_broadcast_capacity(const weft_broadcast *broadcast);

/* As those of channels. */
WEFT_API int weft_broadcast_close(weft_broadcast *broadcast);
WEFT_API weft_broadcast *weft_broadcast_ref(weft_broadcast *broadcast);
WEFT_API void weft_broadcast_drop(weft_broadcast *broadcast);

/* ---- the newest value ------------------------------------------------------------------------ */

/* A value that is replaced now and then, and looked at.  Its versions are numbered from 1; who is
 * late sees the newest, and that others have been missed. */
typedef struct weft_watch weft_watch;

/* `value` is the first version.  -EINVAL: NULL, a size of 0 or above WEFT_ITEM_SIZE_MAX; -ENOMEM.
 */
WEFT_API int weft_watch_open(weft_watch **out, size_t size, const void *value);

/* Replaces the value.  0; -EPIPE: it is closed; -EINVAL: NULL; -ENOMEM: only while it is borrowed,
 * and nothing has changed. */
WEFT_API int weft_watch_set(weft_watch *watch, const void *value);

/*
 * Replaces the value by what `fn` makes of a copy of it; if somebody else was faster, of a copy of
 * that: so fn may be called several times, may wait, and must change nothing but the copy.
 *
 * 1         fn gave true: the copy is the new value
 * 0         fn gave false: nothing has changed
 * -EPIPE    it is closed
 * -EINVAL   NULL
 * -ENOMEM
 */
WEFT_API int weft_watch_modify(weft_watch *watch, bool (*fn)(void *value, void *arg), void *arg);

/* A copy of the value; *version, if not NULL, is its number.  0; -EINVAL: NULL. */
WEFT_API int weft_watch_get(weft_watch *watch, void *value, uint64_t *version);

/* The value itself, which does not change until it is given back: others set a new one meanwhile.
 * NULL for NULL. */
WEFT_API const void *weft_watch_borrow(weft_watch *watch, uint64_t *version);
WEFT_API void weft_watch_return(weft_watch *watch, const void *value);

/*
 * Waits until there is another version than *version, and puts its number there.
 *
 *     uint64_t seen = 0;
 *     while (weft_watch_wait(watch, &seen) == 0) {
 *         weft_watch_get(watch, &settings, &seen);
 *     }
 *
 * 0            there is
 * -EPIPE       it is closed, and there is not
 * -EINVAL      NULL
 * -ECANCELED, -ETIMEDOUT
 */
WEFT_API int weft_watch_wait(weft_watch *watch, uint64_t *version);

/* The newest version's number; 0 for NULL. */
WEFT_API uint64_t weft_watch_version(const weft_watch *watch);

/* As those of channels; the last value can still be looked at. */
WEFT_API int weft_watch_close(weft_watch *watch);
WEFT_API weft_watch *weft_watch_ref(weft_watch *watch);
WEFT_API void weft_watch_drop(weft_watch *watch);

/* ---- the first of several -------------------------------------------------------------------- */

enum weft_case_kind {
    WEFT_CASE_NONE,  /* never: a case that is switched off */
    WEFT_CASE_SEND,  /* the item can be sent to the channel, or that is closed */
    WEFT_CASE_RECV,  /* an item can be received, or the channel is closed and empty */
    WEFT_CASE_TASK,  /* the task has ended */
    WEFT_CASE_TIME,  /* the point in time has come */
    WEFT_CASE_EVENT, /* something from outside: see weft_case_fd and weft_case_signal */
};

/* One thing to wait for.  Made by the functions below.  `result` and `value` of a case that did not
 * run say nothing. */
typedef struct weft_case {
    enum weft_case_kind kind;
    int result;      /* of the case that ran: 0, or -EPIPE; an event's has more */
    void *object;    /* the channel or the task */
    void *item;      /* sent from here, or received to here */
    weft_time at;    /* the point in time */
    intptr_t value;  /* of the case that ran: what the task gave, or what the event is */
    void *unused[2]; /* zero, but for an event */
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

/* The handle stays the caller's. */
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
 * Waits for the first case that can run, and runs it: that one and no other.  If several can, each
 * has the same chance.  A channel or a task may be in several cases; a send and a receive on the
 * same channel never meet each other.  Up to 16 cases need no memory.  Descriptors and signals are
 * cases too: weft_case_fd (weft/io.h) and weft_case_signal (weft/signals.h).
 *
 *     weft_case cases[] = {
 *         weft_case_recv(answers, &answer),
 *         weft_case_time(weft_in(WEFT_SECOND)),
 *     };
 *     int ran = weft_select(cases, 2, 0);
 *
 * >= 0         the index of the case that ran; its `result` is 0, or -EPIPE: its channel is closed
 * -EAGAIN      none can run, and `try_only` is not 0
 * -EINVAL      no cases, none of them switched on (but with `try_only`), one without its channel,
 *              item or task, or of no known kind
 * -EDEADLK     the calling task is in one of them
 * -EPERM       a thread that is no worker would have to wait for an event; it may try
 * -ENOMEM      for more than 16 cases
 * -ECANCELED, -ETIMEDOUT: no case ran
 */
WEFT_API int weft_select(weft_case *cases, size_t count, int try_only);

WEFT_END

#endif
