/* SPDX-License-Identifier: MIT */
/*
 * sync/sem.c - semaphores: a number of permits.
 *
 * The word is the permits and a bit that says that there are waiters.  Without waiters, acquire and
 * release are one compare-and-exchange each.  The bit sends all callers through the lock of the
 * queue, and only the holder of that lock then changes the word.  A waiter sets the bit in the step
 * that finds too few permits.  So the waiter has seen each release before that step, and each later
 * release sees the bit.
 *
 * Invariant: the queue is not empty => the bit is set.
 *
 * Waiters are served in the order of their arrival, whatever their counts: while the first waiter
 * wants more permits than there are, all wait.  So a waiter that leaves without a grant may have
 * kept others from the permits that are there: it serves them.
 */
#include <errno.h>

#include "future/future.h"
#include "sync/sync.h"

#define WAITERS UINT64_C(1)

_Static_assert(sizeof(struct wf_sem) <= sizeof(weft_sem), "it fits");
_Static_assert(alignof(struct wf_sem) <= alignof(weft_sem), "it fits");

static struct wf_sem *sem_of(weft_sem *sem)
{
    return (struct wf_sem *)(void *)sem;
}

static uint64_t permits_of(uint64_t word)
{
    return word >> 1;
}

static uint64_t word_of(uint64_t permits, bool has_waiters)
{
    return permits << 1 | (has_waiters ? WAITERS : 0);
}

/* [any]  Takes the permits, unless there are too few, or waiters. */
static bool sem_take(struct wf_sem *sem, uint32_t count)
{
    uint64_t word = wf_load_relaxed(&sem->word); /* relaxed: the CAS decides */
    while ((word & WAITERS) == 0 && permits_of(word) >= count) {
        /* (sync.E1); each lost CAS is an operation of another thread that succeeded */
        if (wf_cas_acquire(&sem->word, &word, word - word_of(count, false))) {
            wf_lock_drain(&sem->queue.lock); /* the releaser may still hold it */
            return true;
        }
    }
    return false;
}

/* [locked]  The bit is set.  Adds `more` permits, and grants waiters as far as the permits go. */
static void sem_serve(struct wf_sem *sem, uint64_t more, struct wf_wakes *wakes)
{
    /* relaxed: the waiter that set the bit acquired all earlier releases, and held the lock. */
    uint64_t permits = permits_of(wf_load_relaxed(&sem->word)) + more;
    struct wf_wait_node *first;
    while ((first = wf_plain_load(&sem->queue.first)) != NULL && first->count <= permits) {
        const uint32_t count = first->count; /* the node may be gone once it is granted */
        if (wf_waitq_claim_node(&sem->queue, first)) {
            permits -= count;
            wf_wakes_add(wakes, first);
        }
    }
    wf_store_release(&sem->word, word_of(permits, first != NULL)); /* (sync.E1) */
}

/* [any]  A waiter has left the queue: serves the waiters behind it. */
static void sem_serve_next(struct wf_sem *sem)
{
    struct wf_wakes wakes = {.count = 0};
    wf_lock_acquire(&sem->queue.lock);
    if ((wf_load_relaxed(&sem->word) & WAITERS) !=
        0) { /* relaxed: under the lock the bit is stable */
        sem_serve(sem, 0, &wakes);
    }
    wf_lock_release(&sem->queue.lock);
    wf_wakes_do(&wakes);
}

/* ---- release ------------------------------------------------------------------------------- */

/* [any]  Adds permits.  -EOVERFLOW; -EAGAIN: there are waiters. */
static int sem_add_permits(struct wf_sem *sem, uint32_t count)
{
    uint64_t word = wf_load_relaxed(&sem->word); /* relaxed: the CAS decides */
    while ((word & WAITERS) == 0) {
        if (permits_of(word) + count > WEFT_SEM_PERMITS_MAX) {
            return -EOVERFLOW;
        }
        /* (sync.E1); each lost CAS is an operation of another thread that succeeded */
        if (wf_cas_release(&sem->word, &word, word + word_of(count, false))) {
            return 0;
        }
    }
    return -EAGAIN;
}

static __attribute__((noinline)) int sem_release_slow(struct wf_sem *sem, uint32_t count)
{
    struct wf_wakes wakes = {.count = 0};
    wf_lock_acquire(&sem->queue.lock);
    int rc = sem_add_permits(sem, count); /* the last waiter may have left */
    if (rc == -EAGAIN) {
        /* relaxed: only the holder of the lock changes it */
        const uint64_t permits = permits_of(wf_load_relaxed(&sem->word));
        rc = permits + count > WEFT_SEM_PERMITS_MAX ? -EOVERFLOW : 0;
        if (rc == 0) {
            sem_serve(sem, count, &wakes);
        }
    }
    wf_lock_release(&sem->queue.lock);
    wf_wakes_do(&wakes);
    return rc;
}

static int sem_release(struct wf_sem *sem, uint32_t count)
{
    int rc = sem_add_permits(sem, count);
    return rc == -EAGAIN ? sem_release_slow(sem, count) : rc;
}

WF_READS_TLS int weft_sem_release(weft_sem *out, uint32_t count)
{
    WF_NOT_NULL(out, "weft_sem_release: sem is NULL");
    if (count == 0) {
        return -EINVAL;
    }
    int rc = sem_release(sem_of(out), count);
    struct weft_task *self = wf_task_self_inline();
    if (self != NULL) {
        wf_budget_spend(self);
    }
    return rc;
}

/* ---- acquire ------------------------------------------------------------------------------- */

/* [waiter, closer]  Passes on the permits that were granted to a waiter that cannot take them. */
static void sem_pass_on(struct wf_wait_node *node)
{
    /* Fails only if other callers have released up to WEFT_SEM_PERMITS_MAX permits meanwhile. */
    (void)sem_release(wf_container_of(node->queue, struct wf_sem, queue), node->count);
}

void wf_sem_abandon(struct wf_wait_node *node)
{
    struct wf_sem *sem = wf_container_of(node->queue, struct wf_sem, queue);
    wf_waitq_abandon(node);
    sem_serve_next(sem);
}

static void sem_abandon(struct wf_abandon_hook *hook)
{
    wf_sem_abandon(wf_container_of(hook, struct wf_wait_node, hook));
}

int wf_sem_begin(struct wf_sem *sem, struct wf_wait_node *node, uint32_t count)
{
    node->count = count;
    node->pass_on = sem_pass_on;
    node->hook.abandon = sem_abandon;
    wf_lock_acquire(&sem->queue.lock);
    uint64_t word = wf_load_relaxed(&sem->word); /* relaxed: the CAS decides */
    uint64_t next;
    bool is_enough;
    do { /* each lost CAS is an operation of another thread that succeeded */
        is_enough = (word & WAITERS) == 0 && permits_of(word) >= count;
        next = is_enough ? word - word_of(count, false) : word | WAITERS;
    } while (!wf_cas_acquire(&sem->word, &word, next)); /* (sync.E1) */
    if (!is_enough) {
        wf_waitq_push(&sem->queue, node);
    }
    wf_lock_release(&sem->queue.lock);
    return is_enough ? 0 : -EINPROGRESS;
}

static __attribute__((noinline)) int sem_acquire_slow(struct wf_sem *sem, struct weft_task *self,
                                                      uint32_t count)
{
    int rc = self != NULL ? wf_interrupted(self) : 0;
    if (rc != 0) {
        return rc;
    }
    struct wf_wait_node node;
    wf_node_init(&node, self);
    rc = wf_sem_begin(sem, &node, count);
    if (rc == -EINPROGRESS) {
        rc = wf_waitq_wait(&node, WEFT_WAIT_SEMAPHORE, sem, WEFT_NEVER);
        if (rc != 0) {
            sem_serve_next(sem);
        }
    }
    return rc;
}

WF_READS_TLS int weft_sem_acquire(weft_sem *out, uint32_t count)
{
    WF_NOT_NULL(out, "weft_sem_acquire: sem is NULL");
    if (count == 0) {
        return -EINVAL;
    }
    struct weft_task *self = wf_task_self_inline();
    if (self != NULL) {
        wf_budget_spend(self);
    }
    return sem_take(sem_of(out), count) ? 0 : sem_acquire_slow(sem_of(out), self, count);
}

WF_READS_TLS int weft_sem_try_acquire(weft_sem *out, uint32_t count)
{
    WF_NOT_NULL(out, "weft_sem_try_acquire: sem is NULL");
    if (count == 0) {
        return -EINVAL;
    }
    struct weft_task *self = wf_task_self_inline();
    if (self != NULL) {
        wf_budget_spend(self); /* a task that polls in a loop must let others run */
    }
    return sem_take(sem_of(out), count) ? 0 : -EAGAIN;
}

/* ---- permits -------------------------------------------------------------------------------- */

int weft_sem_init(weft_sem *out, uint32_t permits)
{
    WF_NOT_NULL(out, "weft_sem_init: sem is NULL");
    *out = (weft_sem)WEFT_SEM_INIT(permits);
    return 0;
}

int64_t weft_sem_permits(const weft_sem *out)
{
    WF_NOT_NULL(out, "weft_sem_permits: sem is NULL");
    const struct wf_sem *sem = (const struct wf_sem *)(const void *)out;
    return (int64_t)permits_of(wf_load_relaxed(&sem->word)); /* relaxed: a hint */
}
