/* SPDX-License-Identifier: MIT */
/*
 * sync/barrier.c - a number of waiters that wait for each other, again and again.
 *
 * All steps are taken under the lock of the queue.  A state word of its own would save nothing: all
 * waiters except the last must enter the queue anyway.  A waiter that leaves before the barrier
 * opens has not arrived: it is subtracted in the same step.
 */
#include <errno.h>

#include "future/future.h"
#include "sync/sync.h"

_Static_assert(sizeof(struct wf_barrier) <= sizeof(weft_barrier), "it fits");
_Static_assert(offsetof(struct wf_barrier, count) == 3 * sizeof(uint64_t), "WEFT_BARRIER_INIT");

static struct wf_barrier *barrier_of(weft_barrier *barrier)
{
    return (struct wf_barrier *)(void *)barrier;
}

/* [locked]  A waiter that has arrived leaves. */
static void barrier_left(struct wf_wait_node *node)
{
    struct wf_barrier *barrier = wf_container_of(node->queue, struct wf_barrier, queue);
    wf_plain_store(&barrier->arrived, wf_plain_load(&barrier->arrived) - 1);
}

/* [locked]  The last waiter has arrived: grants all others. */
static void barrier_open(struct wf_barrier *barrier, struct wf_wakes *wakes)
{
    struct wf_wait_node *node;
    wf_plain_store(&barrier->arrived, 0);
    wf_counter_add(&barrier->generation, 1);
    while ((node = wf_waitq_claim(&barrier->queue)) != NULL) {
        wf_wakes_add(wakes, node);
    }
}

int wf_barrier_begin(struct wf_barrier *barrier, struct wf_wait_node *node)
{
    struct wf_wakes wakes = {.count = 0};
    int rc = -EINPROGRESS;
    node->left = barrier_left;
    wf_lock_acquire(&barrier->queue.lock);
    const uint32_t arrived = wf_plain_load(&barrier->arrived) + 1;
    if (arrived == barrier->count) {
        barrier_open(barrier, &wakes);
        rc = 1;
    } else {
        wf_plain_store(&barrier->arrived, arrived);
        wf_waitq_push(&barrier->queue, node);
    }
    wf_lock_release(&barrier->queue.lock);
    wf_wakes_do(&wakes);
    return rc;
}

int weft_barrier_init(weft_barrier *barrier, uint32_t count)
{
    WF_NOT_NULL(barrier, "weft_barrier_init: barrier is NULL");
    if (count == 0) {
        return -EINVAL;
    }
    *barrier = (weft_barrier)WEFT_BARRIER_INIT(count);
    return 0;
}

int weft_barrier_wait(weft_barrier *out)
{
    WF_NOT_NULL(out, "weft_barrier_wait: barrier is NULL");
    if (barrier_of(out)->count == 0) {
        return -EINVAL;
    }
    struct weft_task *self = wf_task_self();
    if (self != NULL) {
        wf_task_spend(self);
    }
    struct wf_wait_node node;
    wf_node_init(&node, self);
    int rc = wf_barrier_begin(barrier_of(out), &node);
    return rc == -EINPROGRESS ? wf_waitq_wait(&node, WEFT_WAIT_BARRIER, out, WEFT_NEVER) : rc;
}

int64_t weft_barrier_generation(const weft_barrier *out)
{
    WF_NOT_NULL(out, "weft_barrier_generation: barrier is NULL");
    const struct wf_barrier *barrier = (const struct wf_barrier *)(const void *)out;
    return (int64_t)wf_counter_read(&barrier->generation);
}
