/* SPDX-License-Identifier: MIT */
/*
 * sync/waitq.c - the one place where a wake-up could be lost.
 *
 * Whoever finds that it has to wait finds it under the lock of the queue, and is in the queue
 * before it lets go of that lock; whoever gives something gives it under the same lock.  So a giver
 * either comes first, and the other does not wait; or it finds the waiter, and grants.  Nothing is
 * given to "whoever may be there" outside of the lock.
 *
 * A grant is final: the thing belongs to the waiter from then on, whether or not it has noticed.  A
 * waiter that is cancelled, or runs out of time, takes the lock and looks: still in the queue, it
 * leaves empty-handed; out of it, it was granted, and the wait has succeeded (a cancel is then seen
 * at the next call that waits).  Who cannot use it any more, a future that is dropped or a task
 * that a forced close ends, passes it on.
 *
 * The frame of a wait may be gone as soon as it is granted.  A task looks at `is_granted` without
 * the lock, so the store of it is the last that a granter does to a node; the task is woken by its
 * own address, which is always that of a task.  A thread is woken under the lock, and takes the
 * lock before it leaves, because what wakes it lies in its frame.
 *
 * The queue, too, may be gone: who was granted what it waited for may free the object, a wait group
 * in its frame, while the granter is still about to let go of the lock.  So whoever finds itself
 * granted lets that lock pass first; mostly it is open already, and that costs one load.
 *
 * A node of a selection stands in several queues, each with its own lock.  Who wants to grant it
 * something has to claim it first, by a CAS on what all its nodes share; who comes second leaves it
 * alone.  The waiter takes all of the locks, one after the other, before it leaves.
 */
#include <errno.h>

#include "sched/fast.h"
#include "sync/sync.h"

/* ---- nodes --------------------------------------------------------------------------------- */

/* [closer]  The task will never run again. */
static void forget(struct wf_parting *parting)
{
    wf_waitq_abandon(wf_container_of(parting, struct wf_wait_node, parting));
}

void wf_node_init(struct wf_wait_node *node, struct weft_task *self)
{
    *node = (struct wf_wait_node){.parting = {.forget = forget}};
    wf_atomic_init(&node->is_granted, 0);
    wf_waiter_init(&node->waiter, self);
}

void wf_node_reset(struct wf_wait_node *node)
{
    wf_store_relaxed(&node->is_granted, 0); /* relaxed: in no queue, so nobody else knows it */
}

/* ---- the queue ----------------------------------------------------------------------------- */

void wf_waitq_push(struct wf_waitq *queue, struct wf_wait_node *node)
{
    struct wf_wait_node *last = wf_plain_load(&queue->last);
    WEFT_ASSERT(!node->is_queued);
    node->queue = queue;
    wf_plain_store(&node->is_queued, true);
    wf_plain_store(&node->next, NULL);
    wf_plain_store(&node->prev, last);
    wf_plain_store(last != NULL ? &last->next : &queue->first, node);
    wf_plain_store(&queue->last, node);
}

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
static void take_out(struct wf_waitq *queue, struct wf_wait_node *node)
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
    take_out(queue, node);
    if (node->selection == NULL) {
        return true;
    }
    int32_t nobody = -1;
    /* relaxed: the winner is told by is_granted, and the losers hand nothing over */
    return wf_cas_relaxed(&node->selection->winner, &nobody, node->index);
}

struct wf_wait_node *wf_waitq_claim(struct wf_waitq *queue)
{
    struct wf_wait_node *node;
    while ((node = wf_plain_load(&queue->first)) != NULL) { /* each turn takes one out */
        if (wf_waitq_claim_node(queue, node)) {
            return node;
        }
        WF_REACHED("waitq.claimed_elsewhere");
    }
    return NULL;
}

/* [locked, a stranger to the task's runtime]  The runtime may be closed, and the task's memory be
 * gone with it, as soon as the task knows: so we are inside before it does. */
static void grant_from_outside(struct wf_wait_node *node, struct weft_task *task)
{
    struct wf_task_pool *pool = task->pool;
    const bool is_inside = wf_pool_enter(pool);
    wf_store_release(&node->is_granted, 1); /* (Q1) */
    if (is_inside) {                        /* else no task of it will ever run */
        wf_task_wake(task);
        wf_pool_leave(pool);
    }
}

struct weft_task *wf_waitq_grant(struct wf_wait_node *node)
{
    struct weft_task *task = node->waiter.task;
    if (task == NULL) {
        struct wf_selection *all = node->selection;
        wf_store_relaxed(&node->is_granted, 1); /* relaxed: it takes the lock before it leaves */
        wf_waiter_wake(all != NULL ? &all->waiter : &node->waiter);
        return NULL;
    }
    struct wf_worker *worker = wf_worker_self();
    if (worker == NULL || worker->pool != task->pool) {
        grant_from_outside(node, task);
        return NULL;
    }
    WF_JITTER();
    wf_store_release(&node->is_granted, 1); /* (Q1)  the node may be gone from here on */
    return task;
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

/* [locked by `spin`]  Wakes them; the lock is open meanwhile. */
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
    /* Each turn takes one out; who comes meanwhile finds what the caller has changed. */
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
    wakes.count = 0; /* and filled as far as that says */
    wf_wakes_grant_all(&wakes, queue, spin, result);
    if (wakes.count > 0) {
        wake_unlocked(&wakes, spin);
    }
}

/* ---- waiting ------------------------------------------------------------------------------- */

bool wf_waitq_is_granted(const struct wf_wait_node *node)
{
    if (wf_load_acquire(&node->is_granted) == 0) { /* (Q1); for a thread see wf_waitq_leave */
        return false;
    }
    if (node->spin == NULL) { /* else whoever granted it has a reference of its own */
        wf_lock_pass(&node->queue->lock);
    }
    return true;
}

/* [waiter]  The lock of the queue that it is in. */
static void lock_queue(struct wf_wait_node *node)
{
    if (node->spin != NULL) {
        wf_spin_acquire(node->spin);
    } else {
        wf_lock_acquire(&node->queue->lock);
    }
}

static void unlock_queue(struct wf_wait_node *node)
{
    if (node->spin != NULL) {
        wf_spin_release(node->spin);
    } else {
        wf_lock_release(&node->queue->lock);
    }
}

bool wf_waitq_leave(struct wf_wait_node *node)
{
    lock_queue(node);
    const bool is_granted = wf_load_relaxed(&node->is_granted) != 0; /* relaxed: the lock's */
    if (wf_plain_load(&node->is_queued)) {
        take_out(node->queue, node);
        if (node->left != NULL) {
            node->left(node);
        }
    }
    unlock_queue(node);
    return is_granted;
}

void wf_waitq_abandon(struct wf_wait_node *node)
{
    if (wf_waitq_leave(node) && node->pass_on != NULL) {
        WF_REACHED("waitq.passed_on");
        node->pass_on(node);
    }
}

/* [task] */
static int wait_in_task(struct weft_task *self, struct wf_wait_node *node, enum weft_wait wait,
                        const void *object, int64_t until_ns)
{
    int rc = 0;
    wf_parting_add(self, &node->parting);
    wf_wait_begin_until(self, wait, object, until_ns);
    while (!wf_waitq_is_granted(node)) { /* ends with the grant, or when it may not wait on */
        rc = wf_interrupted(self);       /* before the first time too: no wake would come */
        if (rc == 0 && until_ns != WEFT_NEVER && wf_clock_now() >= until_ns) {
            rc = -ETIMEDOUT;
        }
        if (rc != 0) {
            rc = wf_waitq_leave(node) ? 0 : rc;
            break;
        }
        wf_task_suspend(self);
    }
    wf_wait_end(self);
    wf_parting_remove(self, &node->parting);
    return rc;
}

/* [foreign thread] */
static int wait_in_thread(struct wf_wait_node *node, int64_t until_ns)
{
    int rc = 0;
    do { /* a grant wakes it, so it ends with that or at its time */
        rc = wf_parker_park(&node->waiter.parker, until_ns);
    } while (rc == 0 && !wf_waitq_is_granted(node));
    return wf_waitq_leave(node) ? 0 : rc;
}

int wf_waitq_wait(struct wf_wait_node *node, enum weft_wait wait, const void *object,
                  int64_t until_ns)
{
    struct weft_task *self = node->waiter.task;
    return self != NULL ? wait_in_task(self, node, wait, object, until_ns)
                        : wait_in_thread(node, until_ns);
}
