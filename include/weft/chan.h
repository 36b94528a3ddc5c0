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
 * handle of its caller's for as long as it takes. Items:    bytes, which are copied.  Who receives
 * a pointer has what it points to. Order:    items come out in the order in which they went in.  Of
 * those who wait, who came first is served first. Waiting:  a call that waits gives -ECANCELED once
 * the task was cancelled, and -ETIMEDOUT once its deadline has passed (weft_deadline, weft_in:
 * there is no other form with a time limit); then nothing was sent or received.  A call that need
 * not wait succeeds in any case. Called from a thread that is no worker it blocks that thread,
 * which has no deadline. Close:    wakes everybody.  Nothing more can be sent; what was sent before
 * can be received.
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

/* ---- the first of several -------------------------------------------------------------------- */

enum weft_case_kind {
    WEFT_CASE_NONE, /* never: a case that is switched off */
    WEFT_CASE_SEND, /* the item can be sent to the channel, or that is closed */
    WEFT_CASE_RECV, /* an item can be received, or the channel is closed and empty */
    WEFT_CASE_TASK, /* the task has ended */
    WEFT_CASE_TIME, /* the point in time has come */
};

/* One thing to wait for.  Made by the functions below. */
typedef struct weft_case {
    enum weft_case_kind kind;
    int result;      /* of the case that ran: 0, or -EPIPE */
    void *object;    /* the channel or the task */
    void *item;      /* sent from here, or received to here */
    weft_time at;    /* the point in time */
    intptr_t value;  /* of the case that ran: what the task gave */
    void *unused[2]; /* zero */
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
 * same channel never meet each other.  Up to 16 cases need no memory.
 *
 *     weft_case cases[] = {
 *         weft_case_recv(answers, &answer),
 *         weft_case_time(weft_in(WEFT_SECOND)),
 *     };
 *     int ran = weft_select(cases, 2, 0);
 *
 * >= 0         the index of the case that ran; its `result` is 0, or -EPIPE if its channel is
 * closed -EAGAIN      none can run, and `try_only` is not 0 -EINVAL      no cases, none of them
 * switched on (but with `try_only`), one without its channel, item or task, or of no known kind
 * -EDEADLK     the calling task is in one of them
 * -ENOMEM      for more than 16 cases
 * -ECANCELED, -ETIMEDOUT: no case ran
 */
WEFT_API int weft_select(weft_case *cases, size_t count, int try_only);

WEFT_END

#endif
