/* SPDX-License-Identifier: MIT */
/*
 * sync/mutex.c - mutual exclusion.
 *
 * The word is the holder, and flags that say what an unlock has to do:
 *
 *   WAITERS   the queue may have waiters
 *   WOKEN     a waiter was taken out and woken to retry; no other is woken until it has retried
 *   HANDOVER  the first waiter was overtaken often enough: it is given the mutex, not a retry
 *
 *   0       --lock: CAS-->    holder            uncontended: one step to lock ...
 *   holder  --unlock: CAS-->  0                 ... and one to unlock
 *   flags   --lock: CAS-->    holder | flags    the caller overtakes the waiters
 *   holder | WAITERS             --unlock-->       WOKEN (| WAITERS)   the first waiter retries
 *   holder | WOKEN (| WAITERS)   --unlock: CAS-->  WOKEN (| WAITERS)   no other waiter is woken
 *   holder | WAITERS | HANDOVER  --unlock-->       the first waiter (| WAITERS)
 *
 * (| WAITERS): only if more waiters are queued.  If all waiters have left, an unlock clears WAITERS
 * and HANDOVER.
 *
 * Flags change only under the lock of the queue, except WOKEN: the woken waiter clears it in the
 * step that locks.  HANDOVER is never set without a holder, so the waiter is not overtaken again.
 *
 * Why a caller may overtake the waiters: a mutex that is handed over to a task that does not run
 * yet stays locked until that task runs, and all callers meanwhile join the queue: each lock then
 * costs a switch.  Four tasks on two workers that lock, add one and unlock take 42 ns each time if
 * the mutex is always handed over, and 25 if others may overtake once; 64 tasks take 31 and 20.  On
 * one worker there is no difference.  docs/adr/0014-mutex-barging-limited-to-one.md has the rest.
 *
 * A task spends its budget before it locks, never between lock and unlock: so locking and unlocking
 * a mutex makes no task yield while the task holds that mutex.
 *
 * The last access of an unlock to the mutex is the step that releases it, or is under the lock of
 * the queue.  A waiter that was handed the mutex drains that lock (wf_lock_drain), so the next
 * holder may free the mutex.
 */
#include <errno.h>

#include "future/future.h"
#include "sync/sync.h"

enum flag {
    WAITERS = 1,
    WOKEN = 2,
    HANDOVER = 4,
};
#define FLAGS ((uintptr_t)(WAITERS | WOKEN | HANDOVER))

/* What a node was granted: its `result`. */
enum mutex_grant {
    GRANT_RETRY,
    GRANT_MUTEX,
};

_Static_assert(sizeof(struct wf_mutex) <= sizeof(weft_mutex), "it fits");
_Static_assert(alignof(struct wf_mutex) <= alignof(weft_mutex), "it fits");
_Static_assert(offsetof(struct wf_mutex, owned) == 0, "a report shows the address of the mutex");

static struct wf_mutex *mutex_of(weft_mutex *mutex)
{
    return (struct wf_mutex *)(void *)mutex;
}

static uintptr_t mutex_holder(uintptr_t word)
{
    return word & ~FLAGS;
}

bool wf_mutex_is_held(const struct wf_mutex *mutex, uintptr_t holder)
{
    /* relaxed: a caller sees its own lock */
    return mutex_holder(wf_load_relaxed(&mutex->word)) == holder;
}

/* ---- unlock -------------------------------------------------------------------------------- */

/* [locked, holder]  Grants the first waiter a retry or the mutex.  Returns the task that the caller
 * must wake, or NULL. */
static struct weft_task *mutex_grant_first(struct wf_mutex *mutex, uintptr_t holder,
                                           bool *is_handed_over)
{
    /* relaxed: no other thread changes it while the caller has the mutex and the lock. */
    const uintptr_t word = wf_load_relaxed(&mutex->word);
    struct wf_wait_node *node = (word & WOKEN) == 0 ? wf_waitq_claim(&mutex->queue) : NULL;
    const uintptr_t waiters = wf_plain_load(&mutex->queue.first) != NULL ? WAITERS : 0;
    *is_handed_over = false;
    if (node == NULL) {
        wf_store_relaxed(&mutex->word, holder | (word & WOKEN) | waiters);
        return NULL;
    }
    if ((word & HANDOVER) != 0) {
        WF_REACHED("mutex.handed_over");
        *is_handed_over = true;
        node->result = GRANT_MUTEX;
        /* relaxed: the grant orders it (sync.Q1) */
        wf_store_relaxed(&mutex->word, (uintptr_t)node->item | waiters);
    } else {
        node->result = GRANT_RETRY;
        wf_store_relaxed(&mutex->word, holder | WOKEN | waiters);
    }
    return wf_waitq_grant(node);
}

/* [holder]  Unlocks, with or without waiters.  Does not change the list of owned locks: the caller
 * does. */
static __attribute__((noinline)) void mutex_release(struct wf_mutex *mutex, uintptr_t holder)
{
    struct weft_task *task = NULL;
    bool is_done = false;
    while (!is_done) { /* ends: repeated once after a grant, and for each new waiter */
        uintptr_t word = wf_load_relaxed(&mutex->word); /* relaxed: the CAS decides */
        if (word == holder || (word & (WOKEN | HANDOVER)) == WOKEN) {
            is_done = wf_cas_release(&mutex->word, &word, word & FLAGS); /* (sync.M1) */
        } else {
            wf_lock_acquire(&mutex->queue.lock);
            struct weft_task *granted = mutex_grant_first(mutex, holder, &is_done);
            wf_lock_release(&mutex->queue.lock);
            task = granted != NULL ? granted : task;
        }
    }
    if (task != NULL) {
        wf_task_wake(task);
    }
}

/* [any]  Unlocks for a thread, or for a task whose newest lock is another one. */
static __attribute__((noinline)) int mutex_unlock_slow(struct wf_mutex *mutex,
                                                       struct weft_task *self)
{
    const uintptr_t holder = wf_holder_of(self);
    if (!wf_mutex_is_held(mutex, holder)) {
        return -EPERM;
    }
    if (self != NULL) {
        wf_owned_lock_remove(self, &mutex->owned);
    }
    mutex_release(mutex, holder);
    return 0;
}

/* [the task, holder]  There are waiters.  `next` is the newest lock after the unlock. */
static __attribute__((noinline)) int
mutex_unlock_contended(struct wf_mutex *mutex, struct weft_task *self, struct wf_owned_lock *next)
{
    mutex_release(mutex, (uintptr_t)self);
    self->owned_locks = next;
    return 0;
}

/* The slow paths here and in weft_mutex_lock are tail calls: so no register has to be saved before
 * the locked instruction, which waits for every store before it. */

WF_READS_TLS int weft_mutex_unlock(weft_mutex *out)
{
    WF_NOT_NULL(out, "weft_mutex_unlock: mutex is NULL");
    struct wf_mutex *mutex = mutex_of(out);
    struct weft_task *self = wf_task_self_inline();
    if (self == NULL || self->owned_locks != &mutex->owned) {
        return mutex_unlock_slow(mutex, self);
    }
    /* The list shows that the task holds it.  A load of the word would wait for the locked
     * instruction of the lock. */
    struct wf_owned_lock *next = mutex->owned.next;
    uintptr_t word = (uintptr_t)self;
    if (!wf_cas_release(&mutex->word, &word, 0)) { /* (sync.M1) */
        return mutex_unlock_contended(mutex, self, next);
    }
    self->owned_locks = next;
    return 0;
}

/* [the task, closer]  Unlocks for a task that ends. */
static void mutex_release_for(struct wf_owned_lock *owned, struct weft_task *task)
{
    mutex_release(wf_container_of(owned, struct wf_mutex, owned), wf_holder_of(task));
}

/* [waiter, closer]  Passes on the retry that was granted to a woken waiter, which does not use it.
 */
static void mutex_pass_retry_on(struct wf_mutex *mutex)
{
    struct weft_task *task = NULL;
    wf_lock_acquire(&mutex->queue.lock);
    uintptr_t word = wf_fetch_and_relaxed(&mutex->word, ~(uintptr_t)WOKEN); /* relaxed: a flag */
    /* A holder serves the queue when it unlocks.  Without a holder, this caller must. */
    struct wf_wait_node *node = mutex_holder(word) == 0 ? wf_waitq_claim(&mutex->queue) : NULL;
    if (node != NULL) {
        node->result = GRANT_RETRY;
        (void)wf_fetch_or_relaxed(&mutex->word, (uintptr_t)WOKEN); /* relaxed: a flag */
        task = wf_waitq_grant(node);
    }
    wf_lock_release(&mutex->queue.lock);
    if (task != NULL) {
        wf_task_wake(task);
    }
}

/* [waiter, closer, not locked] */
static void mutex_pass_on(struct wf_wait_node *node)
{
    struct wf_mutex *mutex = wf_container_of(node->queue, struct wf_mutex, queue);
    if (node->result == GRANT_MUTEX) {
        mutex_release(mutex, (uintptr_t)node->item);
    } else {
        mutex_pass_retry_on(mutex);
    }
}

/* ---- lock ---------------------------------------------------------------------------------- */

static int mutex_set_owner(struct wf_mutex *mutex, struct weft_task *self)
{
    if (self != NULL) {
        wf_owned_lock_add(self, &mutex->owned, mutex_release_for);
    }
    return 0;
}

/* [any]  Locks a free mutex, and clears `cleared`: WOKEN for a woken waiter, else 0.  False: it is
 * not free. */
static bool mutex_take(struct wf_mutex *mutex, uintptr_t holder, uintptr_t cleared)
{
    uintptr_t word = wf_load_relaxed(&mutex->word); /* relaxed: the CAS decides */
    while (mutex_holder(word) == 0) {
        /* (sync.M1); each lost CAS is a step of another thread */
        if (wf_cas_acquire(&mutex->word, &word, (word & ~cleared) | holder)) {
            return true;
        }
    }
    return false;
}

/* [any]  As mutex_take, with retries: the holder may be about to unlock, on another CPU. */
static bool mutex_spin(struct wf_mutex *mutex, uintptr_t holder, uintptr_t cleared)
{
    unsigned hints = wf_backoff_first();
    while (hints <= WF_BACKOFF_MAX) {
        if (mutex_take(mutex, holder, cleared)) {
            return true;
        }
        wf_backoff(&hints);
    }
    return mutex_take(mutex, holder, cleared);
}

/* [waiter]  0: the waiter holds the mutex; -EINPROGRESS: its node is in the queue. */
static int mutex_take_or_queue(struct wf_mutex *mutex, struct wf_wait_node *node, bool is_woken)
{
    const uintptr_t holder = (uintptr_t)node->item;
    const uintptr_t cleared = is_woken ? WOKEN : 0;
    const bool needs_handover = node->count >= WF_MUTEX_LOSSES_MAX;
    bool is_taken;
    wf_lock_acquire(&mutex->queue.lock);
    uintptr_t word = wf_load_relaxed(&mutex->word); /* relaxed: the CAS decides */
    uintptr_t next;
    do { /* each lost CAS is a step of another thread */
        is_taken = mutex_holder(word) == 0;
        next = (word & ~cleared) |
               (is_taken ? holder : WAITERS | (needs_handover ? (uintptr_t)HANDOVER : 0));
    } while (!wf_cas_acquire(&mutex->word, &word, next)); /* (sync.M1) */
    if (!is_taken && is_woken) {
        wf_waitq_push_front(&mutex->queue, node);
    } else if (!is_taken) {
        wf_waitq_push(&mutex->queue, node);
    }
    wf_lock_release(&mutex->queue.lock);
    return is_taken ? mutex_set_owner(mutex, node->waiter.task) : -EINPROGRESS;
}

/* [the report of deadlocks]  The task that holds the mutex. */
static const struct weft_task *mutex_blocked_on(const struct wf_abandon_hook *hook)
{
    const struct wf_mutex *mutex = wf_container_of(wf_node_of(hook)->queue, struct wf_mutex, queue);
    return wf_holder_task(mutex_holder(wf_load_relaxed(&mutex->word))); /* relaxed: nothing runs */
}

int wf_mutex_begin(struct wf_mutex *mutex, struct wf_wait_node *node, uintptr_t holder)
{
    node->item = (void *)holder;
    node->pass_on = mutex_pass_on;
    node->hook.blocked_on = mutex_blocked_on;
    return mutex_take_or_queue(mutex, node, false);
}

int wf_mutex_granted(struct wf_wait_node *node)
{
    struct wf_mutex *mutex = wf_container_of(node->queue, struct wf_mutex, queue);
    if (node->result == GRANT_MUTEX || mutex_spin(mutex, (uintptr_t)node->item, WOKEN)) {
        return mutex_set_owner(mutex, node->waiter.task);
    }
    WF_REACHED("mutex.too_late");
    node->count++;
    wf_node_reset(node);
    return mutex_take_or_queue(mutex, node, true);
}

void wf_mutex_abandon(struct wf_wait_node *node)
{
    wf_waitq_abandon(node);
}

static __attribute__((noinline)) int mutex_lock_contended(struct wf_mutex *mutex,
                                                          struct weft_task *self, uintptr_t holder)
{
    if (wf_mutex_is_held(mutex, holder)) {
        return -EDEADLK;
    }
    if (mutex_spin(mutex, holder, 0)) {
        return mutex_set_owner(mutex, self);
    }
    int rc = self != NULL ? wf_interrupted(self) : 0;
    if (rc != 0) {
        return rc;
    }
    struct wf_wait_node node;
    wf_node_init(&node, self);
    rc = wf_mutex_begin(mutex, &node, holder);
    while (rc == -EINPROGRESS) { /* ends with the mutex, see HANDOVER, or an interruption */
        rc = wf_waitq_wait(&node, WEFT_WAIT_MUTEX, mutex, WEFT_NEVER);
        if (rc != 0) {
            return rc;
        }
        rc = wf_mutex_granted(&node);
        const int end = rc != 0 && self != NULL ? wf_interrupted(self) : 0;
        if (end != 0) {
            WF_REACHED("mutex.too_late_and_cancelled");
            wf_mutex_abandon(&node);
            rc = end;
        }
    }
    return rc;
}

/* [any]  Locks for a thread, or for a task whose budget is used up. */
static __attribute__((noinline)) int mutex_lock_slow(struct wf_mutex *mutex, struct weft_task *self)
{
    if (self != NULL) {
        wf_task_yield(self);
    }
    const uintptr_t holder = wf_holder_of(self);
    return mutex_take(mutex, holder, 0) ? mutex_set_owner(mutex, self)
                                        : mutex_lock_contended(mutex, self, holder);
}

WF_READS_TLS int weft_mutex_lock(weft_mutex *out)
{
    WF_NOT_NULL(out, "weft_mutex_lock: mutex is NULL");
    struct wf_mutex *mutex = mutex_of(out);
    struct weft_task *self = wf_task_self_inline();
    if (__builtin_expect(self == NULL || !wf_budget_left(self), 0)) {
        return mutex_lock_slow(mutex, self);
    }
    uintptr_t word = 0;
    if (wf_cas_acquire(&mutex->word, &word, (uintptr_t)self)) { /* (sync.M1) */
        return mutex_set_owner(mutex, self);
    }
    return mutex_lock_contended(mutex, self, (uintptr_t)self);
}

WF_READS_TLS int weft_mutex_try_lock(weft_mutex *out)
{
    WF_NOT_NULL(out, "weft_mutex_try_lock: mutex is NULL");
    struct wf_mutex *mutex = mutex_of(out);
    struct weft_task *self = wf_task_self_inline();
    if (self != NULL) {
        wf_budget_spend(self); /* a task that polls in a loop must let the holder run */
    }
    const uintptr_t holder = wf_holder_of(self);
    if (mutex_take(mutex, holder, 0)) {
        return mutex_set_owner(mutex, self);
    }
    return wf_mutex_is_held(mutex, holder) ? -EDEADLK : -EAGAIN;
}

int weft_mutex_is_locked(const weft_mutex *out)
{
    WF_NOT_NULL(out, "weft_mutex_is_locked: mutex is NULL");
    const struct wf_mutex *mutex = (const struct wf_mutex *)(const void *)out;
    return mutex_holder(wf_load_relaxed(&mutex->word)) != 0 ? 1 : 0; /* relaxed: a hint */
}
