/* SPDX-License-Identifier: MIT */
/*
 * sync/notify.c - "look again", with at most one permit kept.
 *
 * A word says whether there is a permit, or somebody may wait.  While nobody does, to notify and to
 * take the permit are a compare-and-exchange each.  If somebody waits, the lock of the queue
 * decides between who waits, who notifies and who leaves.  To notify where there is a permit
 * already is an exchange all the same: who takes the permit has to see what was done before each of
 * them.
 *
 * Invariant: the queue is not empty => the word is WAITERS.
 */
#include <errno.h>

#include "sched/fast.h"
#include "sync/sync.h"

enum {
    NOTHING,
    PERMIT,
    WAITERS, /* perhaps: who has left does not take it back */
};

_Static_assert(sizeof(struct wf_notify) <= sizeof(weft_notify), "it fits");

static struct wf_notify *notify_of(weft_notify *notify)
{
    return (struct wf_notify *)(void *)notify;
}

/* What is expected here is guessed, and not looked for: a load of a word that this CPU has just
 * exchanged waits until that is done. */

/* [any] */
static bool take(struct wf_notify *notify)
{
    uint64_t word = PERMIT;
    if (!wf_cas_acquire(&notify->word, &word, NOTHING)) { /* (F1) */
        return false;
    }
    wf_lock_pass(&notify->queue.lock); /* whoever notified may be inside still */
    return true;
}

/* [any]  False: somebody waits. */
static bool keep(struct wf_notify *notify)
{
    uint64_t word = NOTHING;
    while (word != WAITERS) { /* each lost CAS is an operation of another that was done */
        if (wf_cas_release(&notify->word, &word, PERMIT)) { /* (F1) */
            return true;
        }
    }
    return false;
}

static __attribute__((noinline)) void notify_waiter(struct wf_notify *notify)
{
    struct weft_task *task = NULL;
    wf_lock_acquire(&notify->queue.lock);
    if (!keep(notify)) {
        struct wf_wait_node *node = wf_waitq_claim(&notify->queue);
        const bool is_last = wf_plain_load(&notify->queue.first) == NULL;
        if (is_last) { /* (F1) release, if it is a permit */
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
    if (!keep(notify)) {
        notify_waiter(notify);
    }
}

static void pass_on(struct wf_wait_node *node)
{
    notify_one(wf_container_of(node->queue, struct wf_notify, queue));
}

int wf_notify_begin(struct wf_notify *notify, struct wf_wait_node *node)
{
    node->pass_on = pass_on;
    wf_lock_acquire(&notify->queue.lock);
    uint64_t word = wf_load_relaxed(&notify->word); /* relaxed: the CAS decides */
    uint64_t next;
    do { /* as above */
        next = word == PERMIT ? NOTHING : WAITERS;
    } while (!wf_cas_acquire(&notify->word, &word, next)); /* (F1) */
    if (next == WAITERS) {
        wf_waitq_push(&notify->queue, node);
    }
    wf_lock_release(&notify->queue.lock);
    return next == WAITERS ? -EINPROGRESS : 0;
}

static __attribute__((noinline)) int wait_slowly(struct wf_notify *notify, struct weft_task *self)
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

WF_ASKS_THREAD int weft_notify_wait(weft_notify *out)
{
    if (out == NULL) {
        return -EINVAL;
    }
    struct weft_task *self = wf_task_here();
    if (self != NULL) {
        wf_spend(self);
    }
    return take(notify_of(out)) ? 0 : wait_slowly(notify_of(out), self);
}

int weft_notify_try(weft_notify *out)
{
    if (out == NULL) {
        return -EINVAL;
    }
    struct wf_notify *notify = notify_of(out);
    /* relaxed: the CAS decides; who tries again and again takes the line from nobody */
    return wf_load_relaxed(&notify->word) == PERMIT && take(notify) ? 0 : -EAGAIN;
}

int weft_notify_one(weft_notify *out)
{
    if (out == NULL) {
        return -EINVAL;
    }
    notify_one(notify_of(out));
    return 0;
}

int weft_notify_all(weft_notify *out)
{
    struct wf_wakes wakes = {.count = 0};
    struct wf_wait_node *node;
    if (out == NULL) {
        return -EINVAL;
    }
    struct wf_notify *notify = notify_of(out);
    wf_lock_acquire(&notify->queue.lock);
    if (wf_load_relaxed(&notify->word) == WAITERS) { /* relaxed: only changed under the lock now */
        wf_store_relaxed(&notify->word, NOTHING); /* relaxed: grants carry what was done before */
        while ((node = wf_waitq_claim(&notify->queue)) != NULL) {
            wf_wakes_add(&wakes, node);
        }
    }
    wf_lock_release(&notify->queue.lock);
    wf_wakes_do(&wakes);
    return 0;
}
