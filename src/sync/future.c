/* SPDX-License-Identifier: MIT */
/*
 * sync/future.c - waits of this layer as futures.
 *
 * Each object has its wait in three phases (sync.h): begin, granted, abandon.  A function that
 * waits calls them with a wait in between; here a poll stands between them.  What all have in
 * common, the task's cancel, its deadline and its end, is in one place.
 */
#include <errno.h>

#include "sync/chan.h"
#include "sync/future.h"
#include "sync/sync.h"

_Static_assert(sizeof(struct wf_future_wait) <= sizeof(weft_wait_future), "it fits");

static struct wf_future_wait *wait_of(weft_future *future)
{
    return wf_container_of(future, struct wf_future_wait, future);
}

/* ---- any kind ------------------------------------------------------------------------------ */

static void forget(struct wf_parting *parting)
{
    struct wf_wait_node *node = wf_container_of(parting, struct wf_wait_node, parting);
    struct wf_future_wait *wait = wf_container_of(node, struct wf_future_wait, node);
    wf_patience_end(&wait->patience);
    wait->phase = WF_PHASE_OVER;
    wait->kind->abandon(node);
}

static void drop(weft_future *future)
{
    struct wf_future_wait *wait = wait_of(future);
    if (wait->phase == WF_PHASE_WAITING) {
        wf_parting_remove(wait->node.waiter.task, &wait->node.parting);
        forget(&wait->node.parting);
    }
    wait->phase = WF_PHASE_OVER;
}

static weft_poll over(struct wf_future_wait *wait, intptr_t rc, intptr_t *result)
{
    if (wait->phase == WF_PHASE_WAITING) {
        wf_parting_remove(wait->node.waiter.task, &wait->node.parting);
        wf_patience_end(&wait->patience);
    }
    wait->phase = WF_PHASE_OVER;
    *result = rc;
    return WEFT_READY;
}

/* The first time, and each time after. */
static intptr_t go_on(struct wf_future_wait *wait, struct weft_task *self)
{
    if (wait->phase == WF_PHASE_NEW) {
        wf_node_init(&wait->node, self);
        const intptr_t rc = wait->object != NULL ? wait->kind->begin(wait, self) : -EINVAL;
        if (rc == -EINPROGRESS) {
            wait->phase = WF_PHASE_WAITING;
            wait->node.parting.forget = forget;
            wf_parting_add(self, &wait->node.parting);
        }
        return rc;
    }
    if (!wait->kind->has_no_queue && !wf_waitq_is_granted(&wait->node)) {
        return -EINPROGRESS;
    }
    return wait->kind->granted != NULL ? wait->kind->granted(wait)
                                       : wf_plain_load(&wait->node.result);
}

static weft_poll poll(weft_cx *cx, weft_future *future, intptr_t *result)
{
    struct wf_future_wait *wait = wait_of(future);
    struct weft_task *self = cx->task;
    if (!wf_cx_spend(cx)) {
        return WEFT_PENDING;
    }
    intptr_t rc = go_on(wait, self);
    if (rc != -EINPROGRESS) {
        return over(wait, rc, result);
    }
    rc = wf_task_interrupted(self);
    if (rc != 0) {
        drop(future); /* what may have been granted since goes to the next */
        *result = rc;
        return WEFT_READY;
    }
    wf_patience_keep(&wait->patience, self, WEFT_NEVER);
    wf_cx_give_back(cx);
    return WEFT_PENDING;
}

struct wf_future_wait *wf_future_set_up(weft_wait_future *future, const struct wf_future_kind *kind,
                                        void *object)
{
    struct wf_future_wait *wait = (struct wf_future_wait *)(void *)future;
    *wait = (struct wf_future_wait){
        .future = {.poll = poll, .drop = drop}, .kind = kind, .object = object};
    return wait;
}

/* ---- locks --------------------------------------------------------------------------------- */

static intptr_t lock_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    const uintptr_t holder = wf_holder_of(self);
    return wf_mutex_is_held(wait->object, holder)
               ? -EDEADLK
               : wf_mutex_begin(wait->object, &wait->node, holder);
}

static intptr_t lock_granted(struct wf_future_wait *wait)
{
    return wf_mutex_granted(&wait->node);
}

static const struct wf_future_kind lock_kind = {lock_begin, lock_granted, wf_mutex_abandon, false};

void weft_lock_future(weft_wait_future *future, weft_mutex *mutex)
{
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

void weft_read_future(weft_wait_future *future, weft_rwlock *rwlock)
{
    (void)wf_future_set_up(future, &read_kind, rwlock);
}

void weft_write_future(weft_wait_future *future, weft_rwlock *rwlock)
{
    (void)wf_future_set_up(future, &write_kind, rwlock);
}

static intptr_t acquire_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    (void)self;
    return wait->count > 0 ? wf_sem_begin(wait->object, &wait->node, wait->count) : -EINVAL;
}

static const struct wf_future_kind acquire_kind = {acquire_begin, NULL, wf_sem_abandon, false};

void weft_acquire_future(weft_wait_future *future, weft_sem *sem, uint32_t count)
{
    wf_future_set_up(future, &acquire_kind, sem)->count = count;
}

/* ---- events -------------------------------------------------------------------------------- */

static intptr_t notified_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    (void)self;
    return wf_notify_begin(wait->object, &wait->node);
}

static const struct wf_future_kind notified_kind = {notified_begin, NULL, wf_waitq_abandon, false};

void weft_notified_future(weft_wait_future *future, weft_notify *notify)
{
    (void)wf_future_set_up(future, &notified_kind, notify);
}

static intptr_t group_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    (void)self;
    return wf_group_begin(wait->object, &wait->node);
}

static const struct wf_future_kind group_kind = {group_begin, NULL, wf_waitq_abandon, false};

void weft_group_future(weft_wait_future *future, weft_group *group)
{
    (void)wf_future_set_up(future, &group_kind, group);
}

void weft_latch_future(weft_wait_future *future, weft_latch *latch)
{
    (void)wf_future_set_up(future, &group_kind, latch != NULL ? &latch->group : NULL);
}

static intptr_t barrier_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    struct wf_barrier *barrier = wait->object;
    (void)self;
    return barrier->count > 0 ? wf_barrier_begin(barrier, &wait->node) : -EINVAL;
}

static const struct wf_future_kind barrier_kind = {barrier_begin, NULL, wf_waitq_abandon, false};

void weft_barrier_future(weft_wait_future *future, weft_barrier *barrier)
{
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

void weft_send_future(weft_wait_future *future, weft_chan *chan, const void *item)
{
    /* Only read. */
    wf_future_set_up(future, &send_kind, item != NULL ? chan : NULL)->item =
        (void *)(uintptr_t)item;
}

void weft_recv_future(weft_wait_future *future, weft_chan *chan, void *item)
{
    wf_future_set_up(future, &recv_kind, item != NULL ? chan : NULL)->item = item;
}

/* ---- one value, every value, the newest ---------------------------------------------------- */

static intptr_t oneshot_begin(struct wf_future_wait *wait, struct weft_task *self)
{
    (void)self;
    return wf_oneshot_begin(wait->object, &wait->node.waiter, wait->item);
}

static intptr_t oneshot_granted(struct wf_future_wait *wait)
{
    return wf_oneshot_granted(wait->object, wait->item);
}

static void oneshot_abandon(struct wf_wait_node *node)
{
    wf_oneshot_abandon(wf_container_of(node, struct wf_future_wait, node)->object);
}

static const struct wf_future_kind oneshot_kind = {oneshot_begin, oneshot_granted, oneshot_abandon,
                                                   true};

void weft_oneshot_future(weft_wait_future *future, weft_oneshot *oneshot, void **value)
{
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

/* Something has come, and may be gone again. */
static intptr_t broadcast_granted(struct wf_future_wait *wait)
{
    wf_node_reset(&wait->node);
    return (intptr_t)wf_broadcast_begin(wait->object, &wait->node, wait->item);
}

static const struct wf_future_kind broadcast_kind = {broadcast_begin, broadcast_granted,
                                                     wf_waitq_abandon, false};

void weft_broadcast_future(weft_wait_future *future, weft_subscription *subscription, void *item)
{
    wf_future_set_up(future, &broadcast_kind, item != NULL ? subscription : NULL)->item = item;
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

void weft_watch_future(weft_wait_future *future, weft_watch *watch, uint64_t *version)
{
    wf_future_set_up(future, &watch_kind, version != NULL ? watch : NULL)->item = version;
}
