/* SPDX-License-Identifier: MIT */
/*
 * weft/future.h - futures for locks, events and channels: for poll tasks, and for green threads
 * that wait for several things at once.  weft/poll.h explains futures.
 *
 * Each function initialises *future to do what the named call does, without suspending.  The
 * future's result is that of the call, including -ECANCELED and -ETIMEDOUT of the task that polls
 * it.  If a future is dropped while it waits, the call has not happened; what was granted to it at
 * that moment goes to the next waiter.  The object and the memory of the item must stay in place
 * until the future is ready or dropped.
 *
 * A future that waits for a lock, a permit or a notification may be granted it, or be told to
 * retry, at any time; then its task is woken.  Until that task polls or drops the future, the
 * waiters behind the future may get nothing.  So a woken task should poll the futures that it still
 * wants and drop the others: a granted future that is neither polled nor dropped keeps the lock.
 */
#ifndef WEFT_FUTURE_H
#define WEFT_FUTURE_H

#include <weft/chan.h>
#include <weft/event.h>
#include <weft/poll.h>
#include <weft/sync.h>
#include <weft/types.h>

WEFT_BEGIN

typedef struct weft_wait_future {
    weft_future future;
    uint64_t opaque[34];
} weft_wait_future;

/* weft_mutex_lock: the task that polls becomes the holder of the mutex. */
WEFT_API void weft_mutex_lock_future(weft_wait_future *future, weft_mutex *mutex)
    WEFT_NONNULL(1, 2);
/* weft_rwlock_rdlock and weft_rwlock_wrlock. */
WEFT_API void weft_rwlock_rdlock_future(weft_wait_future *future, weft_rwlock *rwlock)
    WEFT_NONNULL(1, 2);
WEFT_API void weft_rwlock_wrlock_future(weft_wait_future *future, weft_rwlock *rwlock)
    WEFT_NONNULL(1, 2);
/* weft_sem_acquire. */
WEFT_API void weft_sem_acquire_future(weft_wait_future *future, weft_sem *sem, uint32_t count)
    WEFT_NONNULL(1, 2);
/* weft_notify_wait, weft_group_wait, weft_latch_wait, weft_barrier_wait. */
WEFT_API void weft_notify_wait_future(weft_wait_future *future, weft_notify *notify)
    WEFT_NONNULL(1, 2);
WEFT_API void weft_group_wait_future(weft_wait_future *future, weft_group *group)
    WEFT_NONNULL(1, 2);
WEFT_API void weft_latch_wait_future(weft_wait_future *future, weft_latch *latch)
    WEFT_NONNULL(1, 2);
WEFT_API void weft_barrier_wait_future(weft_wait_future *future, weft_barrier *barrier)
    WEFT_NONNULL(1, 2);
/* weft_chan_send and weft_chan_recv. */
WEFT_API void weft_chan_send_future(weft_wait_future *future, weft_chan *chan, const void *item)
    WEFT_NONNULL(1, 2, 3);
WEFT_API void weft_chan_recv_future(weft_wait_future *future, weft_chan *chan, void *item)
    WEFT_NONNULL(1, 2, 3);
/* weft_oneshot_recv.  If it is dropped before it was ready, the value stays in the oneshot for
 * another receiver. */
WEFT_API void weft_oneshot_recv_future(weft_wait_future *future, weft_oneshot *oneshot,
                                       void **value) WEFT_NONNULL(1, 2);
/* weft_broadcast_recv: the result is the number of missed items. */
WEFT_API void weft_broadcast_recv_future(weft_wait_future *future, weft_subscription *subscription,
                                         void *item) WEFT_NONNULL(1, 2, 3);
/* weft_watch_wait. */
WEFT_API void weft_watch_wait_future(weft_wait_future *future, weft_watch *watch, uint64_t *version)
    WEFT_NONNULL(1, 2, 3);

WEFT_END

#endif
