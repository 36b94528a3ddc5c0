/* SPDX-License-Identifier: MIT */
/*
 * sync/waitq.c - the wait queue: the one place where a wake-up could be lost.
 *
 * A waiter decides under the lock of the queue that it must wait, and is in the queue before it
 * releases that lock.  A granter gives under the same lock.  So either the granter comes first, and
 * the waiter does not wait; or the granter finds the waiter in the queue and grants.  Nothing is
 * given outside of the lock.
 *
 * A grant is final: what was granted belongs to the waiter, whether or not the waiter has noticed.
 * A waiter that is cancelled, or whose time is over, takes the lock and checks.  If it is still in
 * the queue it leaves empty-handed.  If not, it was granted and the wait has succeeded; the task
 * sees the cancellation at its next cancellation point.  A waiter that cannot use the grant any
 * more passes it on: a future that is dropped, or a task that a forced close ends.
 *
 * The frame of a wait may be gone as soon as the node is granted, because a task reads `is_granted`
 * without the lock.  So the store of `is_granted` is the granter's last access to a node, and the
 * granter wakes the task by its address.  Should the task have ended by then, the memory at that
 * address is still that of a task, and the wake-up is spurious.  A thread is woken under the lock,
 * and takes the lock before it leaves, because its parker lies in its frame.
 *
 * The queue may be gone too: a waiter that was granted may free the object, for example a wait
 * group in its frame, while the granter is about to release the lock.  So a waiter that finds its
 * node granted drains that lock first.  Mostly the lock is free already, and that costs one load.
 *
 * The nodes of a selection are in several queues, each with its own lock.  A granter must claim
 * such a node first, by a CAS on the selection that all its nodes share; a granter that loses
 * does not grant it.  The waiter takes all of the locks, one after the other, before it leaves.
 */
#include <errno.h>

#include "sync/sync.h"

void wf_node_abandon(struct wf_abandon_hook *hook)
{
    wf_waitq_abandon(wf_container_of(hook, struct wf_wait_node, hook));
}

/* ---- the queue ----------------------------------------------------------------------------- */

void wf_waitq_push_front(struct wf_waitq *queue, struct wf_wait_node *node)
{
    struct wf_wait_node *first = wf_plain_load(&queue->first);
    WEFT_ASSERT(!node->is_queued);
    node->queue = queue;
    wf_plain_store(&node->is_queued, true);
    wf_plain_store(&node->prev, NULL);
    wf_plain_store(&node->next, first);
    wf_plain_store(first != NULL ? &first->prev : &queue->last, node);
    wf_plain_store(&queue->first, node);
}

/* [locked] */
static void waitq_unlink(struct wf_waitq *queue, struct wf_wait_node *node)
{
    struct wf_wait_node *next = wf_plain_load(&node->next);
    struct wf_wait_node *prev = wf_plain_load(&node->prev);
    WEFT_ASSERT(node->is_queued);
    wf_plain_store(prev != NULL ? &prev->next : &queue->first, next);
    wf_plain_store(next != NULL ? &next->prev : &queue->last, prev);
    wf_plain_store(&node->is_queued, false);
}

/* ---- granting ------------------------------------------------------------------------------ */

bool wf_waitq_claim_node(struct wf_waitq *queue, struct wf_wait_node *node)
{
    waitq_unlink(queue, node);
    if (node->selection == NULL) {
        return true;
    }
    int32_t unclaimed = -1;
    /* relaxed: is_granted orders what the winner did, and the losers hand nothing over */
    return wf_cas_relaxed(&node->selection->winner, &unclaimed, node->index);
}

struct wf_wait_node *wf_waitq_claim_selected(struct wf_waitq *queue)
{
    struct wf_wait_node *node;
    while ((node = wf_plain_load(&queue->first)) != NULL) { /* each iteration takes a node out */
        if (wf_waitq_claim_node(queue, node)) {
            return node;
        }
        WF_REACHED("waitq.claimed_elsewhere");
    }
    return NULL;
}

void wf_waitq_grant_outside(struct wf_wait_node *node)
{
    struct weft_task *task = node->waiter.task;
    if (task == NULL) {
        struct wf_selection *all = node->selection;
        wf_store_relaxed(&node->is_granted, 1); /* relaxed: the thread takes the lock to leave */
        wf_waiter_wake(all != NULL ? &all->waiter : &node->waiter);
        return;
    }
    /* The task's runtime may be closed, and the task's memory be freed with it, as soon as the task
     * sees the grant: so the granter pins the runtime before. */
    struct wf_task_pool *pool = task->pool;
    const bool is_pinned = wf_pool_pin(pool);
    wf_store_release(&node->is_granted, 1); /* (sync.Q1) */
    if (is_pinned) {                        /* else no task of that runtime runs again */
        wf_task_wake(task);
        wf_pool_unpin(pool);
    }
}

struct weft_task *wf_waitq_grant(struct wf_wait_node *node)
{
    return wf_waitq_grant_on(wf_worker_self(), node);
}

void wf_wakes_add(struct wf_wakes *wakes, struct wf_wait_node *node)
{
    struct weft_task *task = wf_waitq_grant(node);
    if (task == NULL) {
        return;
    }
    if (wakes->count == WF_WAKES_MAX) {
        WF_REACHED("waitq.many_wakes");
        wf_wakes_do(wakes);
    }
    wakes->tasks[wakes->count++] = task;
}

void wf_wakes_do(struct wf_wakes *wakes)
{
    for (unsigned i = 0; i < wakes->count; i++) {
        wf_task_wake(wakes->tasks[i]);
    }
    wakes->count = 0;
}

/* [locked by `spin`]  Releases the lock for the wake-ups, and takes it again. */
static void wake_unlocked(struct wf_wakes *wakes, struct wf_spin *spin)
{
    wf_spin_release(spin);
    wf_wakes_do(wakes);
    wf_spin_acquire(spin);
}

void wf_wakes_grant_all(struct wf_wakes *wakes, struct wf_waitq *queue, struct wf_spin *spin,
                        int result)
{
    struct wf_wait_node *node;
    /* Each iteration takes a node out, and a new waiter finds what the caller has changed. */
    while (wf_plain_load(&queue->first) != NULL) {
        if (wakes->count == WF_WAKES_MAX) {
            wake_unlocked(wakes, spin);
        }
        if ((node = wf_waitq_claim(queue)) != NULL) { /* the queue may be empty by now */
            wf_plain_store(&node->result, result);
            wf_wakes_add(wakes, node);
        }
    }
}

void wf_waitq_grant_all(struct wf_waitq *queue, struct wf_spin *spin, int result)
{
    struct wf_wakes wakes;
    wakes.count = 0; /* the tasks behind it need no initialisation */
    wf_wakes_grant_all(&wakes, queue, spin, result);
    if (wakes.count > 0) {
        wake_unlocked(&wakes, spin);
    }
}

/* ---- waiting ------------------------------------------------------------------------------- */

bool wf_waitq_is_granted(const struct wf_wait_node *node)
{
    return wf_node_is_granted(node);
}

/* [waiter]  Takes the lock that guards the node's queue. */
static void waitq_lock(struct wf_wait_node *node)
{
    if (node->spin != NULL) {
        wf_spin_acquire(node->spin);
    } else {
        wf_lock_acquire(&node->queue->lock);
    }
}

static void waitq_unlock(struct wf_wait_node *node)
{
    if (node->spin != NULL) {
        wf_spin_release(node->spin);
    } else {
        wf_lock_release(&node->queue->lock);
    }
}

bool wf_waitq_leave(struct wf_wait_node *node)
{
    waitq_lock(node);
    const bool is_granted = wf_load_relaxed(&node->is_granted) != 0; /* relaxed: under the lock */
    if (wf_plain_load(&node->is_queued)) {
        waitq_unlink(node->queue, node);
        if (node->left != NULL) {
            node->left(node);
        }
    }
    waitq_unlock(node);
    return is_granted;
}

void wf_waitq_abandon(struct wf_wait_node *node)
{
    if (wf_waitq_leave(node) && node->pass_on != NULL) {
        WF_REACHED("waitq.passed_on");
        node->pass_on(node);
    }
}

/* [non-worker thread] */
static int waitq_wait_thread(struct wf_wait_node *node, int64_t until_ns)
{
    int rc = 0;
    do { /* ends with the grant, which unparks the thread, or when its time is over */
        rc = wf_parker_park(&node->waiter.parker, until_ns);
    } while (rc == 0 && !wf_node_is_granted(node));
    return wf_waitq_leave(node) ? 0 : rc;
}

int wf_waitq_wait(struct wf_wait_node *node, enum weft_wait wait, const void *object,
                  int64_t until_ns)
{
    struct weft_task *self = node->waiter.task;
    return self != NULL ? wf_waitq_wait_on(wf_worker_self(), self, node, wait, object, until_ns)
                        : waitq_wait_thread(node, until_ns);
}
