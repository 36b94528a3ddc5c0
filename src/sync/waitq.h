/* SPDX-License-Identifier: MIT */
/*
 * sync/waitq.h - the wait queue: a part of sync.h, which includes it.  waitq.c has the protocol.
 *
 * What a channel does for each item is inline here: to push, to claim, to grant and to wait.  A
 * call costs little, but each frame that a suspended task has to return through costs a wrong
 * prediction: see sched/switch.h.
 */
#ifndef WF_SYNC_WAITQ_H
#define WF_SYNC_WAITQ_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "future/future.h"
#include "os/os.h"
#include "sync/spin.h"

struct wf_wait_node;

/* All zeros is an empty queue. */
struct wf_waitq {
    struct wf_lock lock;
    struct wf_wait_node *first; /* [locked]  the node that was pushed first */
    struct wf_wait_node *last;  /* [locked] */
};

/* Shared by the nodes of a waiter that waits in several queues for the first grant. */
struct wf_selection {
    wf_atomic_i32 winner;    /* [any: CAS]  the `index` of the node that was claimed; -1: none */
    struct wf_waiter waiter; /* [const]  where a thread waits, whichever node is granted */
};

struct wf_wait_node {
    /* What a grant and the wake-up after it touch lies together: it is mostly cold by then. */
    struct wf_wait_node *next;      /* [locked] */
    struct wf_wait_node *prev;      /* [locked] */
    struct wf_selection *selection; /* [const]  NULL: the node is in this queue only */
    struct wf_waiter waiter;        /* [const]  a task of either kind, or a thread */
    void *item;                     /* [const]  for the object: where a value is handed over */
    WF_ATOMIC(uint32_t) is_granted; /* [locked: write] [waiter: read] */
    int result;                     /* [granter: before the grant]  what the wait returns */
    uint32_t count;                 /* [locked]  for the object: how much the waiter wants */
    bool is_queued;                 /* [locked] */
    struct wf_abandon_hook hook;

    struct wf_waitq *queue; /* [const]  while the waiter waits */
    struct wf_spin *spin;   /* [const]  guards the queue; NULL: the queue's own lock does */
    int32_t index;          /* [const]  in the selection */

    /* [any, not locked]  Passes on to the next waiter what was granted to this one, which cannot
     * take it.  NULL: there is nothing to pass on. */
    void (*pass_on)(struct wf_wait_node *node);
    /* [locked]  The waiter has left the queue without a grant.  NULL: the object needs no notice.
     */
    void (*left)(struct wf_wait_node *node);
};

/* ---- nodes --------------------------------------------------------------------------------- */

/* [any]  The node that contains this hook. */
static inline const struct wf_wait_node *wf_node_of(const struct wf_abandon_hook *hook)
{
    const char *address = (const char *)hook - offsetof(struct wf_wait_node, hook);
    return (const struct wf_wait_node *)(const void *)address;
}

/* [closer]  The abandon hook of a node: wf_waitq_abandon. */
void wf_node_abandon(struct wf_abandon_hook *hook);

/* [waiter]  Sets up a node of the calling task, or of the calling thread if `self` is NULL. */
static inline void wf_node_init(struct wf_wait_node *node, struct weft_task *self)
{
    /* Field by field, without the links, which a push and wf_abandon_hook_add write: compilers zero
     * the whole node by a string instruction (round trip through two channels: 95 ns, not 74). */
    node->selection = NULL;
    node->waiter = (struct wf_waiter){.task = self}; /* a parker of zeros holds no wake-up */
    node->item = NULL;
    wf_atomic_init(&node->is_granted, 0);
    node->result = 0;
    node->count = 0;
    node->is_queued = false;
    node->hook.abandon = wf_node_abandon;
    node->hook.blocked_on = NULL;
    node->queue = NULL; /* io/select.c checks this: the node was never pushed */
    node->spin = NULL;
    node->index = 0;
    node->pass_on = NULL;
    node->left = NULL;
}

/* [waiter]  Prepares a node that was granted for another wait. */
static inline void wf_node_reset(struct wf_wait_node *node)
{
    /* relaxed: the node is in no queue, so only the waiter accesses it */
    wf_store_relaxed(&node->is_granted, 0);
}

/* ---- the queue ----------------------------------------------------------------------------- */

/* [locked]  Appends the node. */
static inline void wf_waitq_push(struct wf_waitq *queue, struct wf_wait_node *node)
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

/* [locked]  Prepends the node: its waiter was woken, and must wait once more. */
void wf_waitq_push_front(struct wf_waitq *queue, struct wf_wait_node *node);

/* [locked]  Takes the node out of the queue for a grant.  True: the caller must grant it.  False:
 * another queue of its selection has claimed it before. */
bool wf_waitq_claim_node(struct wf_waitq *queue, struct wf_wait_node *node);

/* [locked]  As wf_waitq_claim, for a queue whose first node belongs to a selection. */
struct wf_wait_node *wf_waitq_claim_selected(struct wf_waitq *queue);

/* [locked]  Takes out and returns the first node that no other queue has claimed; the caller must
 * grant it.  Also takes out the claimed nodes before it.  NULL: there is no unclaimed node. */
static inline struct wf_wait_node *wf_waitq_claim(struct wf_waitq *queue)
{
    struct wf_wait_node *node = wf_plain_load(&queue->first);
    if (node == NULL || node->selection != NULL) {
        return node == NULL ? NULL : wf_waitq_claim_selected(queue);
    }
    struct wf_wait_node *next = wf_plain_load(&node->next);
    wf_plain_store(&queue->first, next);
    wf_plain_store(next != NULL ? &next->prev : &queue->last, NULL);
    wf_plain_store(&node->is_queued, false);
    return node;
}

/* ---- granting ------------------------------------------------------------------------------ */

/* [locked]  As wf_waitq_grant, if the waiter is a thread, the caller is a non-worker thread, or the
 * waiter is a task of another runtime than the caller's worker.  Wakes the waiter itself. */
void wf_waitq_grant_outside(struct wf_wait_node *node);

/* [locked]  As wf_waitq_grant, for a caller that knows its worker; NULL: a non-worker thread. */
static inline struct weft_task *wf_waitq_grant_on(struct wf_worker *worker,
                                                  struct wf_wait_node *node)
{
    struct weft_task *task = node->waiter.task;
    if (worker == NULL || task == NULL || worker->pool != task->pool) {
        wf_waitq_grant_outside(node);
        return NULL;
    }
    __builtin_prefetch(task->fiber); /* the task is mostly the next to run on this worker */
    WF_JITTER();
    wf_store_release(&node->is_granted, 1); /* (sync.Q1)  the node may be gone after this */
    return task;
}

/* [locked]  Grants a claimed node, which must not be touched after this.  Returns the task that the
 * caller must wake by wf_task_wake, preferably after it has released the lock.  NULL: the waiter
 * was woken here. */
struct weft_task *wf_waitq_grant(struct wf_wait_node *node);

/* Tasks to be woken once the lock is released.  All zeros: none. */
struct wf_wakes {
    unsigned count;
    struct weft_task *tasks[WF_WAKES_MAX];
};
/* [locked]  Grants a claimed node and remembers its task. */
void wf_wakes_add(struct wf_wakes *wakes, struct wf_wait_node *node);
/* [any]  Wakes the tasks in the order of their grants; preferably without the lock. */
void wf_wakes_do(struct wf_wakes *wakes);
/* [locked by `spin`]  Grants all nodes of the queue, with this result.  Tasks that do not fit into
 * `wakes` are woken here; the lock is released meanwhile, and held again at the end. */
void wf_wakes_grant_all(struct wf_wakes *wakes, struct wf_waitq *queue, struct wf_spin *spin,
                        int result);
/* [locked by `spin`]  Grants all nodes of the queue, with this result, and wakes their waiters. The
 * lock is released meanwhile, and held again at the end. */
void wf_waitq_grant_all(struct wf_waitq *queue, struct wf_spin *spin, int result);

/* ---- waiting ------------------------------------------------------------------------------- */

/* [waiter]  True: the node was granted, and the granter is done with the queue, which the waiter
 * may free.  Does not suspend. */
bool wf_waitq_is_granted(const struct wf_wait_node *node);

/* [waiter]  As wf_waitq_is_granted, inline. */
static inline bool wf_node_is_granted(const struct wf_wait_node *node)
{
    if (wf_load_acquire(&node->is_granted) == 0) { /* (sync.Q1); for a thread see wf_waitq_leave */
        return false;
    }
    if (node->spin == NULL) { /* else the granter has a reference to the object */
        wf_lock_drain(&node->queue->lock);
    }
    return true;
}

/* [waiter]  Takes the node out of the queue.  True: it was granted before, and the caller owns what
 * was granted. */
bool wf_waitq_leave(struct wf_wait_node *node);

/* [waiter]  Takes the node out of the queue and passes on what was granted to it. */
void wf_waitq_abandon(struct wf_wait_node *node);

/* [task]  As wf_waitq_wait, inline, for the waiter's task `self` on `worker`. */
static inline __attribute__((always_inline)) int
wf_waitq_wait_on(struct wf_worker *worker, struct weft_task *self, struct wf_wait_node *node,
                 enum weft_wait wait, const void *object, int64_t until_ns)
{
    int rc = 0;
    wf_abandon_hook_add(self, &node->hook);
    wf_wait_begin_on(worker, self, wait, object, until_ns);
    while (!wf_node_is_granted(node)) { /* ends with the grant, or when the task must not wait */
        /* Also before the first suspension: an earlier cancellation sends no further wake-up. */
        rc = wf_interrupted(self);
        if (rc == 0 && until_ns != WEFT_NEVER && wf_clock_now() >= until_ns) {
            rc = -ETIMEDOUT;
        }
        if (rc != 0) {
            rc = wf_waitq_leave(node) ? 0 : rc;
            break;
        }
        wf_suspend(self);
    }
    wf_wait_end_of_kind(self, wait);
    wf_abandon_hook_remove(self, &node->hook);
    return rc;
}

/* [waiter]  Waits until the node is granted: 0.  -ECANCELED, -ETIMEDOUT: it was not granted, and is
 * out of the queue.  The node was pushed before, and the caller does not hold the lock.  `object`
 * is what dumps show.  Suspends a task, blocks a thread. */
int wf_waitq_wait(struct wf_wait_node *node, enum weft_wait wait, const void *object,
                  int64_t until_ns);

#endif
