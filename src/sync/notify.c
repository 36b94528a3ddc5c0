/* SPDX-License-Identifier: MIT */
/*
 * sync/notify.c - an event that waiters check for, with at most one permit kept.
 *
 * The word says whether there is a permit, or whether there may be waiters.  Without waiters, to
 * notify and to take the permit are one compare-and-exchange each.  With waiters, the lock of the
 * queue orders waiters, notifiers and waiters that leave.  A notifier that finds a permit exchanges
 * it all the same: the waiter that takes the permit must see what each notifier did before.
 *
 * Invariant: the queue is not empty => the word is WAITERS.
 */
#include <errno.h>

#include "future/future.h"
#include "sync/sync.h"

enum {
    NOTHING,
    PERMIT,
    WAITERS, /* a hint: a waiter that leaves does not clear it */
};

_Static_assert(sizeof(struct wf_notify) <= sizeof(weft_notify), "it fits");

static struct wf_notify *notify_of(weft_notify *notify)
{
    return (struct wf_notify *)(void *)notify;
}

/* The expected word is a guess, not a load: a load of a word that this CPU has just exchanged waits
 * until the exchange is done. */

/* [any]  Takes the permit.  False: there is none. */
static bool notify_take(struct wf_notify *notify)
{
    uint64_t word = PERMIT;
    if (!wf_cas_acquire(&notify->word, &word, NOTHING)) { /* (sync.F1) */
        return false;
    }
    wf_lock_drain(&notify->queue.lock); /* the notifier may still hold it */
    return true;
}

/* [any]  Stores a permit.  False: there may be waiters. */
static bool notify_keep(struct wf_notify *notify)
{
    uint64_t word = NOTHING;
    while (word != WAITERS) { /* each lost CAS is an operation of another thread that succeeded */
        if (wf_cas_release(&notify->word, &word, PERMIT)) { /* (sync.F1) */
            return true;
        }
    }
    return false;
}

static __attribute__((noinline)) void notify_waiter(struct wf_notify *notify)
{
    struct weft_task *task = NULL;
    wf_lock_acquire(&notify->queue.lock);
    if (!notify_keep(notify)) {
        struct wf_wait_node *node = wf_waitq_claim(&notify->queue);
        const bool is_last = wf_plain_load(&notify->queue.first) == NULL;
        if (is_last) { /* (sync.F1) release, if it is a permit */
            wf_store_release(&notify->word, node != NULL ? NOTHING : PERMIT);
        }
        task = node != NULL ? wf_waitq_grant(node) : NULL;
    }
    wf_lock_release(&notify->queue.lock);
    if (task != NULL) {
        wf_task_wake(task);
    }
}

static void notify_one(struct wf_notify *notify)
{
    if (!notify_keep(notify)) {
        notify_waiter(notify);
    }
}

static void notify_pass_on(struct wf_wait_node *node)
{
    notify_one(wf_container_of(node->queue, struct wf_notify, queue));
}

int wf_notify_begin(struct wf_notify *notify, struct wf_wait_node *node)
{
    node->pass_on = notify_pass_on;
    wf_lock_acquire(&notify->queue.lock);
    uint64_t word = wf_load_relaxed(&notify->word); /* relaxed: the CAS decides */
    uint64_t next;
    do { /* each lost CAS is an operation of another thread that succeeded */
        next = word == PERMIT ? NOTHING : WAITERS;
    } while (!wf_cas_acquire(&notify->word, &word, next)); /* (sync.F1) */
    if (next == WAITERS) {
        wf_waitq_push(&notify->queue, node);
    }
    wf_lock_release(&notify->queue.lock);
    return next == WAITERS ? -EINPROGRESS : 0;
}

static __attribute__((noinline)) int notify_wait_slow(struct wf_notify *notify,
                                                      struct weft_task *self)
{
    struct wf_wait_node node;
    int rc = self != NULL ? wf_interrupted(self) : 0;
    if (rc != 0) {
        return rc;
    }
    wf_node_init(&node, self);
    rc = wf_notify_begin(notify, &node);
    return rc == -EINPROGRESS ? wf_waitq_wait(&node, WEFT_WAIT_NOTIFY, notify, WEFT_NEVER) : rc;
}

WF_READS_TLS int weft_notify_wait(weft_notify *out)
{
    WF_NOT_NULL(out, "weft_notify_wait: notify is NULL");
    struct weft_task *self = wf_task_self_inline();
    if (self != NULL) {
        wf_budget_spend(self);
    }
    return notify_take(notify_of(out)) ? 0 : notify_wait_slow(notify_of(out), self);
}

int weft_notify_try_wait(weft_notify *out)
{
    WF_NOT_NULL(out, "weft_notify_try_wait: notify is NULL");
    struct wf_notify *notify = notify_of(out);
    /* relaxed: the CAS decides; a caller that polls takes the cache line from no other CPU */
    return wf_load_relaxed(&notify->word) == PERMIT && notify_take(notify) ? 0 : -EAGAIN;
}

int weft_notify_one(weft_notify *out)
{
    WF_NOT_NULL(out, "weft_notify_one: notify is NULL");
    notify_one(notify_of(out));
    return 0;
}

int weft_notify_all(weft_notify *out)
{
    struct wf_wakes wakes = {.count = 0};
    struct wf_wait_node *node;
    WF_NOT_NULL(out, "weft_notify_all: notify is NULL");
    struct wf_notify *notify = notify_of(out);
    wf_lock_acquire(&notify->queue.lock);
    if (wf_load_relaxed(&notify->word) == WAITERS) { /* relaxed: only changed under the lock now */
        wf_store_relaxed(&notify->word, NOTHING);    /* relaxed: the grants order it (sync.Q1) */
        while ((node = wf_waitq_claim(&notify->queue)) != NULL) {
            wf_wakes_add(&wakes, node);
        }
    }
    wf_lock_release(&notify->queue.lock);
    wf_wakes_do(&wakes);
    return 0;
}
