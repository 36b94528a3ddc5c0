/* SPDX-License-Identifier: MIT */
/*
 * sync/cond.c - to wait, with a mutex unlocked meanwhile, until somebody says that something has
 * changed.
 *
 * Who waits is in the queue before it unlocks the mutex: whoever changes something under the mutex
 * and then signals finds it.  `waiting` says without the lock that nobody is there; whoever waited
 * before the signaller locked the mutex has set it before it unlocked the mutex.
 *
 * The mutex is locked again whatever ended the wait, behind a shield: the caller unlocks it anyway.
 */
#include <errno.h>

#include "sched/fast.h"
#include "sync/sync.h"

_Static_assert(sizeof(struct wf_cond) <= sizeof(weft_cond), "it fits");
_Static_assert(alignof(struct wf_cond) <= alignof(weft_cond), "it fits");

static struct wf_cond *cond_of(weft_cond *cond)
{
    return (struct wf_cond *)(void *)cond;
}

/* [any]  Wakes so many, of those who wait now. */
static void wake(struct wf_cond *cond, uint32_t count)
{
    if (wf_load_relaxed(&cond->waiting) == 0) { /* relaxed: see above */
        return;
    }
    struct wf_wakes wakes = {.count = 0};
    struct wf_wait_node *node = NULL;
    wf_lock_acquire(&cond->queue.lock);
    while (count > 0 && (node = wf_waitq_claim(&cond->queue)) != NULL) {
        wf_wakes_add(&wakes, node);
        count--;
    }
    const bool is_anybody = wf_plain_load(&cond->queue.first) != NULL;
    wf_store_relaxed(&cond->waiting, is_anybody ? 1 : 0); /* relaxed: a hint, set under the lock */
    wf_lock_release(&cond->queue.lock);
    wf_wakes_do(&wakes);
}

static void pass_on(struct wf_wait_node *node)
{
    wake(wf_container_of(node->queue, struct wf_cond, queue), 1);
}

void wf_cond_begin(struct wf_cond *cond, struct wf_wait_node *node)
{
    node->pass_on = pass_on;
    wf_lock_acquire(&cond->queue.lock);
    wf_waitq_push(&cond->queue, node);
    wf_store_relaxed(&cond->waiting, 1); /* relaxed: as above */
    wf_lock_release(&cond->queue.lock);
}

int weft_cond_wait(weft_cond *out, weft_mutex *mutex)
{
    struct weft_task *self = wf_task_self();
    if (out == NULL || mutex == NULL) {
        return -EINVAL;
    }
    if (!wf_mutex_is_held((struct wf_mutex *)(void *)mutex, wf_holder_of(self))) {
        return -EPERM;
    }
    int rc = self != NULL ? wf_interrupted(self) : 0;
    if (rc != 0) {
        return rc;
    }
    struct wf_wait_node node;
    wf_node_init(&node, self);
    wf_cond_begin(cond_of(out), &node);
    (void)weft_mutex_unlock(mutex); /* it is ours */
    rc = wf_waitq_wait(&node, WEFT_WAIT_CONDITION, out, WEFT_NEVER);
    const bool is_shielded = self != NULL && wf_state_shield(&self->state) == 0; /* else it is */
    const int locked = weft_mutex_lock(mutex);
    WEFT_CHECK(locked == 0); /* nothing but a lock by ourselves could be in the way */
    if (is_shielded) {
        (void)wf_state_unshield(&self->state); /* there is one */
    }
    return rc;
}

static int wake_some(weft_cond *out, uint32_t count)
{
    if (out == NULL) {
        return -EINVAL;
    }
    wake(cond_of(out), count);
    struct weft_task *self = wf_task_self();
    if (self != NULL) {
        wf_task_spend(self);
    }
    return 0;
}

int weft_cond_signal(weft_cond *out)
{
    return wake_some(out, 1);
}

int weft_cond_broadcast(weft_cond *out)
{
    return wake_some(out, UINT32_MAX);
}
