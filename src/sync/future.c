/* SPDX-License-Identifier: MIT */
/*
 * sync/future.c - waits of this layer as futures.
 *
 * Each object has its wait in three phases (sync.h): begin, granted, abandon.  A blocking call
 * suspends the task between them; a future returns WEFT_POLL_PENDING.  Cancellation, the deadline
 * and the end of the task are handled by the base (future/future.h).
 */
#include <errno.h>

#include "sync/chan.h"
#include "sync/future.h"
#include "sync/sync.h"

_Static_assert(sizeof(struct wf_future_wait) <= sizeof(weft_wait_future), "it fits");

static struct wf_future_wait *wait_of(struct wf_future_base *base)
{
    return wf_container_of(base, struct wf_future_wait, base);
}

/* ---- any kind ------------------------------------------------------------------------------ */

static weft_poll_result sync_future_result(intptr_t rc, intptr_t *result)
{
    if (rc == -EINPROGRESS) {
        return WEFT_POLL_PENDING;
    }
    *result = rc;
    return WEFT_POLL_READY;
}

static weft_poll_result sync_future_begin(struct wf_future_base *base, struct weft_task *self,
                                          intptr_t *result)
{
    struct wf_future_wait *wait = wait_of(base);
    wf_node_init(&wait->node, self);
    return sync_future_result(wait->kind->begin(wait, self), result);
}

static weft_poll_result sync_future_ready(struct wf_future_base *base, struct weft_task *self,
                                          intptr_t *result)
{
    struct wf_future_wait *wait = wait_of(base);
    (void)self;
    if (!wait->kind->has_no_queue && !wf_waitq_is_granted(&wait->node)) {
        return WEFT_POLL_PENDING;
    }
    return sync_future_result(wait->kind->granted != NULL ? wait->kind->granted(wait)
                                                          : wf_plain_load(&wait->node.result),
                              result);
}

static void sync_future_abandon(struct wf_future_base *base, enum wf_future_end end)
{
    struct wf_future_wait *wait = wait_of(base);
    if (end != WF_FUTURE_UNUSED) {
        wait->kind->abandon(&wait->node);
    }
}

static const struct wf_future_ops sync_future_ops = {
    .begin = sync_future_begin, .ready = sync_future_ready, .abandon = sync_future_abandon};

struct wf_future_wait *wf_future_set_up(weft_wait_future *future, const struct wf_future_kind *kind,
                                        void *object)
{
    struct wf_future_wait *wait = (struct wf_future_wait *)(void *)future;
    *wait = (struct wf_future_wait){.kind = kind, .object = object};
    wf_future_base_init(&wait->base, &sync_future_ops, WEFT_NEVER);
    return wait;
}

/* ---- locks --------------------------------------------------------------------------------- */

static intptr_t mutex_future_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    const uintptr_t holder = wf_holder_of(self);
    return wf_mutex_is_held(wait->object, holder)
               ? -EDEADLK
               : wf_mutex_begin(wait->object, &wait->node, holder);
}

static intptr_t mutex_future_granted(struct wf_future_wait *wait)
{
    return wf_mutex_granted(&wait->node);
}

static const struct wf_future_kind lock_kind = {mutex_future_begin, mutex_future_granted,
                                                wf_mutex_abandon, false};

void weft_mutex_lock_future(weft_wait_future *future, weft_mutex *mutex)
{
    WF_NOT_NULL(future, "weft_mutex_lock_future: future is NULL");
    WF_NOT_NULL(mutex, "weft_mutex_lock_future: mutex is NULL");
    (void)wf_future_set_up(future, &lock_kind, mutex);
}

static intptr_t rwlock_begin(struct wf_future_wait *wait, struct weft_task *self, bool is_writer)
{
    const uintptr_t holder = wf_holder_of(self);
    return wf_rwlock_is_written(wait->object, holder)
               ? -EDEADLK
               : wf_rwlock_begin(wait->object, &wait->node, is_writer, holder);
}

static intptr_t read_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    return rwlock_begin(wait, self, false);
}

static intptr_t write_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    return rwlock_begin(wait, self, true);
}

static intptr_t rwlock_granted(struct wf_future_wait *wait)
{
    return wf_rwlock_granted(&wait->node, wait->object);
}

static const struct wf_future_kind read_kind = {read_begin, rwlock_granted, wf_rwlock_abandon,
                                                false};
static const struct wf_future_kind write_kind = {write_begin, rwlock_granted, wf_rwlock_abandon,
                                                 false};

void weft_rwlock_rdlock_future(weft_wait_future *future, weft_rwlock *rwlock)
{
    WF_NOT_NULL(future, "weft_rwlock_rdlock_future: future is NULL");
    WF_NOT_NULL(rwlock, "weft_rwlock_rdlock_future: rwlock is NULL");
    (void)wf_future_set_up(future, &read_kind, rwlock);
}

void weft_rwlock_wrlock_future(weft_wait_future *future, weft_rwlock *rwlock)
{
    WF_NOT_NULL(future, "weft_rwlock_wrlock_future: future is NULL");
    WF_NOT_NULL(rwlock, "weft_rwlock_wrlock_future: rwlock is NULL");
    (void)wf_future_set_up(future, &write_kind, rwlock);
}

static intptr_t acquire_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    (void)self;
    return wait->count > 0 ? wf_sem_begin(wait->object, &wait->node, wait->count) : -EINVAL;
}

static const struct wf_future_kind acquire_kind = {acquire_begin, NULL, wf_sem_abandon, false};

void weft_sem_acquire_future(weft_wait_future *future, weft_sem *sem, uint32_t count)
{
    WF_NOT_NULL(future, "weft_sem_acquire_future: future is NULL");
    WF_NOT_NULL(sem, "weft_sem_acquire_future: sem is NULL");
    wf_future_set_up(future, &acquire_kind, sem)->count = count;
}

/* ---- events -------------------------------------------------------------------------------- */

static intptr_t notified_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    (void)self;
    return wf_notify_begin(wait->object, &wait->node);
}

static const struct wf_future_kind notified_kind = {notified_begin, NULL, wf_waitq_abandon, false};

void weft_notify_wait_future(weft_wait_future *future, weft_notify *notify)
{
    WF_NOT_NULL(future, "weft_notify_wait_future: future is NULL");
    WF_NOT_NULL(notify, "weft_notify_wait_future: notify is NULL");
    (void)wf_future_set_up(future, &notified_kind, notify);
}

static intptr_t group_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    (void)self;
    return wf_group_begin(wait->object, &wait->node);
}

static const struct wf_future_kind group_kind = {group_begin, NULL, wf_waitq_abandon, false};

void weft_group_wait_future(weft_wait_future *future, weft_group *group)
{
    WF_NOT_NULL(future, "weft_group_wait_future: future is NULL");
    WF_NOT_NULL(group, "weft_group_wait_future: group is NULL");
    (void)wf_future_set_up(future, &group_kind, group);
}

void weft_latch_wait_future(weft_wait_future *future, weft_latch *latch)
{
    WF_NOT_NULL(future, "weft_latch_wait_future: future is NULL");
    WF_NOT_NULL(latch, "weft_latch_wait_future: latch is NULL");
    (void)wf_future_set_up(future, &group_kind, &latch->group);
}

static intptr_t barrier_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    struct wf_barrier *barrier = wait->object;
    (void)self;
    return barrier->count > 0 ? wf_barrier_begin(barrier, &wait->node) : -EINVAL;
}

static const struct wf_future_kind barrier_kind = {barrier_begin, NULL, wf_waitq_abandon, false};

void weft_barrier_wait_future(weft_wait_future *future, weft_barrier *barrier)
{
    WF_NOT_NULL(future, "weft_barrier_wait_future: future is NULL");
    WF_NOT_NULL(barrier, "weft_barrier_wait_future: barrier is NULL");
    (void)wf_future_set_up(future, &barrier_kind, barrier);
}

/* ---- channels ------------------------------------------------------------------------------ */

static intptr_t send_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    wf_chan_node_init(&wait->node, self, wait->item);
    const int rc = wf_chan_begin_send(wait->object, &wait->node);
    return rc == WF_PENDING ? -EINPROGRESS : rc;
}

static intptr_t recv_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    wf_chan_node_init(&wait->node, self, wait->item);
    const int rc = wf_chan_begin_recv(wait->object, &wait->node);
    return rc == WF_PENDING ? -EINPROGRESS : rc;
}

static const struct wf_future_kind send_kind = {send_begin, NULL, wf_chan_abandon, false};
static const struct wf_future_kind recv_kind = {recv_begin, NULL, wf_chan_abandon, false};

void weft_chan_send_future(weft_wait_future *future, weft_chan *chan, const void *item)
{
    WF_NOT_NULL(future, "weft_chan_send_future: future is NULL");
    WF_NOT_NULL(chan, "weft_chan_send_future: chan is NULL");
    WF_NOT_NULL(item, "weft_chan_send_future: item is NULL");
    /* The cast drops const: a sent item is only read. */
    wf_future_set_up(future, &send_kind, chan)->item = (void *)(uintptr_t)item;
}

void weft_chan_recv_future(weft_wait_future *future, weft_chan *chan, void *item)
{
    WF_NOT_NULL(future, "weft_chan_recv_future: future is NULL");
    WF_NOT_NULL(chan, "weft_chan_recv_future: chan is NULL");
    WF_NOT_NULL(item, "weft_chan_recv_future: item is NULL");
    wf_future_set_up(future, &recv_kind, chan)->item = item;
}

/* ---- oneshot, broadcast, watch ------------------------------------------------------------- */

static intptr_t oneshot_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    (void)self;
    return wf_oneshot_begin(wait->object, &wait->node.waiter, wait->item);
}

static intptr_t oneshot_granted(struct wf_future_wait *wait)
{
    return wf_oneshot_granted(wait->object, wait->item);
}

static void oneshot_future_abandon(struct wf_wait_node *node)
{
    wf_oneshot_abandon(wf_container_of(node, struct wf_future_wait, node)->object);
}

static const struct wf_future_kind oneshot_kind = {oneshot_begin, oneshot_granted,
                                                   oneshot_future_abandon, true};

void weft_oneshot_recv_future(weft_wait_future *future, weft_oneshot *oneshot, void **value)
{
    WF_NOT_NULL(future, "weft_oneshot_recv_future: future is NULL");
    WF_NOT_NULL(oneshot, "weft_oneshot_recv_future: oneshot is NULL");
    wf_future_set_up(future, &oneshot_kind, oneshot)->item = (void *)value;
}

static intptr_t broadcast_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    const weft_subscription *subscription = wait->object;
    (void)self;
    return subscription->broadcast != NULL
               ? (intptr_t)wf_broadcast_begin(wait->object, &wait->node, wait->item)
               : -EINVAL;
}

/* An item was sent, and may be overwritten by now. */
static intptr_t broadcast_granted(struct wf_future_wait *wait)
{
    wf_node_reset(&wait->node);
    return (intptr_t)wf_broadcast_begin(wait->object, &wait->node, wait->item);
}

static const struct wf_future_kind broadcast_kind = {broadcast_begin, broadcast_granted,
                                                     wf_waitq_abandon, false};

void weft_broadcast_recv_future(weft_wait_future *future, weft_subscription *subscription,
                                void *item)
{
    WF_NOT_NULL(future, "weft_broadcast_recv_future: future is NULL");
    WF_NOT_NULL(subscription, "weft_broadcast_recv_future: subscription is NULL");
    WF_NOT_NULL(item, "weft_broadcast_recv_future: item is NULL");
    wf_future_set_up(future, &broadcast_kind, subscription)->item = item;
}

static intptr_t watch_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    (void)self;
    return wf_watch_begin(wait->object, &wait->node, wait->item);
}

static intptr_t watch_granted(struct wf_future_wait *wait)
{
    wf_node_reset(&wait->node);
    return wf_watch_begin(wait->object, &wait->node, wait->item);
}

static const struct wf_future_kind watch_kind = {watch_begin, watch_granted, wf_waitq_abandon,
                                                 false};

void weft_watch_wait_future(weft_wait_future *future, weft_watch *watch, uint64_t *version)
{
    WF_NOT_NULL(future, "weft_watch_wait_future: future is NULL");
    WF_NOT_NULL(watch, "weft_watch_wait_future: watch is NULL");
    WF_NOT_NULL(version, "weft_watch_wait_future: version is NULL");
    wf_future_set_up(future, &watch_kind, watch)->item = version;
}
