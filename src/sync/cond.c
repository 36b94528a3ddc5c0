/* SPDX-License-Identifier: MIT */
/*
 * sync/cond.c - condition variables: to wait for a change that is made under a mutex.
 *
 * A waiter enters the queue before it unlocks the mutex.  So a signaller that makes its change
 * under the mutex, and signals after that, finds the waiter.  If `waiting` is 0 the queue is empty,
 * and the signaller need not take the lock of the queue.  A waiter sets `waiting` before it unlocks
 * the mutex, so a signaller that locks the mutex after that sees it.
 *
 * The waiter locks the mutex again, whatever ended the wait: the caller unlocks it in any case.  A
 * shield keeps a cancellation from ending that lock.
 */
#include <errno.h>

#include "future/future.h"
#include "sync/sync.h"

_Static_assert(sizeof(struct wf_cond) <= sizeof(weft_cond), "it fits");
_Static_assert(alignof(struct wf_cond) <= alignof(weft_cond), "it fits");

static struct wf_cond *cond_of(weft_cond *cond)
{
    return (struct wf_cond *)(void *)cond;
}

/* [any]  Grants up to `count` of the present waiters. */
static void cond_wake(struct wf_cond *cond, uint32_t count)
{
    if (wf_load_relaxed(&cond->waiting) == 0) { /* relaxed: the mutex orders it */
        return;
    }
    struct wf_wakes wakes = {.count = 0};
    struct wf_wait_node *node = NULL;
    wf_lock_acquire(&cond->queue.lock);
    while (count > 0 && (node = wf_waitq_claim(&cond->queue)) != NULL) {
        wf_wakes_add(&wakes, node);
        count--;
    }
    const bool has_waiters = wf_plain_load(&cond->queue.first) != NULL;
    wf_store_relaxed(&cond->waiting, has_waiters ? 1 : 0); /* relaxed: a hint, set under the lock */
    wf_lock_release(&cond->queue.lock);
    wf_wakes_do(&wakes);
}

static void cond_pass_on(struct wf_wait_node *node)
{
    cond_wake(wf_container_of(node->queue, struct wf_cond, queue), 1);
}

void wf_cond_begin(struct wf_cond *cond, struct wf_wait_node *node)
{
    node->pass_on = cond_pass_on;
    wf_lock_acquire(&cond->queue.lock);
    wf_waitq_push(&cond->queue, node);
    wf_store_relaxed(&cond->waiting, 1); /* relaxed: the mutex orders it */
    wf_lock_release(&cond->queue.lock);
}

int weft_cond_wait(weft_cond *out, weft_mutex *mutex)
{
    struct weft_task *self = wf_task_self();
    WF_NOT_NULL(out, "weft_cond_wait: cond is NULL");
    WF_NOT_NULL(mutex, "weft_cond_wait: mutex is NULL");
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
    (void)weft_mutex_unlock(mutex); /* the caller holds it */
    rc = wf_waitq_wait(&node, WEFT_WAIT_CONDITION, out, WEFT_NEVER);
    const bool is_shielded =
        self != NULL && wf_state_shield(&self->state) == 0; /* else the depth is at its limit */
    const int locked = weft_mutex_lock(mutex);
    /* The lock cannot fail: this call has unlocked the mutex, and a shield defers interruptions. */
    WEFT_CHECK(locked == 0);
    if (is_shielded) {
        (void)wf_state_unshield(&self->state); /* set above, so it cannot fail */
    }
    return rc;
}

static int cond_wake_some(weft_cond *out, uint32_t count)
{
    cond_wake(cond_of(out), count);
    struct weft_task *self = wf_task_self();
    if (self != NULL) {
        wf_task_spend(self);
    }
    return 0;
}

int weft_cond_signal(weft_cond *out)
{
    WF_NOT_NULL(out, "weft_cond_signal: cond is NULL");
    return cond_wake_some(out, 1);
}

int weft_cond_broadcast(weft_cond *out)
{
    WF_NOT_NULL(out, "weft_cond_broadcast: cond is NULL");
    return cond_wake_some(out, UINT32_MAX);
}
