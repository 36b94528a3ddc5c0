/* SPDX-License-Identifier: MIT */
/*
 * weft/future.h - futures for locks, events and channels: for poll tasks, and for green threads
 * that wait for several things at once (weft/poll.h says what a future is).
 *
 * Each is the call of the same name with the wait taken out of it: its result is what the call
 * gives, also -ECANCELED and -ETIMEDOUT for the task that polls it.  One that is dropped while it
 * waits has not happened; what was given to it at that moment goes to the next who waits.  The
 * object, and the memory of the item, stay where they are until the future is ready or dropped.
 *
 * One that waits for a lock, a permit or a notice may be given it, or be told to try, at any time,
 * and its task is woken for that: until it is polled again or dropped, others wait behind it.  So a
 * task that is woken polls what it waits for, and drops what it does not want any more; to keep
 * such a future and look elsewhere is to keep the lock.
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
    uint64_t opaque[30];
} weft_wait_future;

/* weft_mutex_lock: the mutex belongs to the task that polls. */
WEFT_API void weft_lock_future(weft_wait_future *future, weft_mutex *mutex);
/* weft_rwlock_read and weft_rwlock_write. */
WEFT_API void weft_read_future(weft_wait_future *future, weft_rwlock *rwlock);
WEFT_API void weft_write_future(weft_wait_future *future, weft_rwlock *rwlock);
/* weft_sem_acquire. */
WEFT_API void weft_acquire_future(weft_wait_future *future, weft_sem *sem, uint32_t count);
/* weft_notify_wait, weft_group_wait, weft_latch_wait, weft_barrier_wait. */
WEFT_API void weft_notified_future(weft_wait_future *future, weft_notify *notify);
WEFT_API void weft_group_future(weft_wait_future *future, weft_group *group);
WEFT_API void weft_latch_future(weft_wait_future *future, weft_latch *latch);
WEFT_API void weft_barrier_future(weft_wait_future *future, weft_barrier *barrier);
/* weft_send and weft_recv. */
WEFT_API void weft_send_future(weft_wait_future *future, weft_chan *chan, const void *item);
WEFT_API void weft_recv_future(weft_wait_future *future, weft_chan *chan, void *item);
/* weft_oneshot_recv.  Dropped before it was ready, what was sent stays there for another. */
WEFT_API void weft_oneshot_future(weft_wait_future *future, weft_oneshot *oneshot, void **value);
/* weft_broadcast_recv: the result is how many items were missed. */
WEFT_API void weft_broadcast_future(weft_wait_future *future, weft_subscription *subscription,
                                    void *item);
/* weft_watch_wait. */
WEFT_API void weft_watch_future(weft_wait_future *future, weft_watch *watch, uint64_t *version);

WEFT_END

#endif
