/* SPDX-License-Identifier: MIT */
/*
 * sync/sem.c - a number of permits.
 *
 * One word has the permits and a bit that says whether anybody waits.  While nobody does, acquire
 * and release are a compare-and-exchange each.  The bit sends everybody through the lock of the
 * queue: whoever holds it then is the only one to change the word.  Who has to wait sets the bit in
 * the step that finds too few permits; so a release that came before was seen, and one that comes
 * after sees the bit.
 *
 * Invariant: the queue is not empty => the bit is set.
 *
 * First come, first served, by the permits as well: while the first in the queue wants more than
 * there are, all wait.  So one who leaves the queue without having got anything may have kept
 * others from what is there: it serves them.
 */
#include <errno.h>

#include "sched/fast.h"
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

/* [any] */
static bool take(struct wf_sem *sem, uint32_t count)
{
    uint64_t word = wf_load_relaxed(&sem->word); /* relaxed: the CAS decides */
    while ((word & WAITERS) == 0 && permits_of(word) >= count) {
        /* (E1); each lost one is another's operation that was done */
        if (wf_cas_acquire(&sem->word, &word, word - word_of(count, false))) {
            wf_lock_pass(&sem->queue.lock); /* whoever released may be inside still */
            return true;
        }
    }
    return false;
}

/* [locked]  The bit is set.  Grants what there is, with so many permits more. */
static void serve(struct wf_sem *sem, uint64_t more, struct wf_wakes *wakes)
{
    /* relaxed: whoever set the bit has acquired what was released before, and had the lock. */
    uint64_t permits = permits_of(wf_load_relaxed(&sem->word)) + more;
    struct wf_wait_node *first;
    while ((first = wf_plain_load(&sem->queue.first)) != NULL && first->count <= permits) {
        const uint32_t count = first->count; /* it may be gone once it is granted */
        if (wf_waitq_claim_node(&sem->queue, first)) {
            permits -= count;
            wf_wakes_add(wakes, first);
        }
    }
    wf_store_release(&sem->word, word_of(permits, first != NULL)); /* (E1) */
}

/* [any]  Somebody has left the queue. */
static void serve_those_behind(struct wf_sem *sem)
{
    struct wf_wakes wakes = {.count = 0};
    wf_lock_acquire(&sem->queue.lock);
    if ((wf_load_relaxed(&sem->word) & WAITERS) != 0) { /* relaxed: only a look */
        serve(sem, 0, &wakes);
    }
    wf_lock_release(&sem->queue.lock);
    wf_wakes_do(&wakes);
}

/* ---- release ------------------------------------------------------------------------------- */

/* [any]  0, -EOVERFLOW, or -EAGAIN: somebody waits. */
static int add(struct wf_sem *sem, uint32_t count)
{
    uint64_t word = wf_load_relaxed(&sem->word); /* relaxed: the CAS decides */
    while ((word & WAITERS) == 0) {
        if (permits_of(word) + count > WEFT_PERMITS_MAX) {
            return -EOVERFLOW;
        }
        /* (E1); each lost one is another's operation that was done */
        if (wf_cas_release(&sem->word, &word, word + word_of(count, false))) {
            return 0;
        }
    }
    return -EAGAIN;
}

static __attribute__((noinline)) int release_slowly(struct wf_sem *sem, uint32_t count)
{
    struct wf_wakes wakes = {.count = 0};
    wf_lock_acquire(&sem->queue.lock);
    int rc = add(sem, count); /* it may be that nobody waits any more */
    if (rc == -EAGAIN) {
        /* relaxed: nobody else changes it now */
        const uint64_t permits = permits_of(wf_load_relaxed(&sem->word));
        rc = permits + count > WEFT_PERMITS_MAX ? -EOVERFLOW : 0;
        if (rc == 0) {
            serve(sem, count, &wakes);
        }
    }
    wf_lock_release(&sem->queue.lock);
    wf_wakes_do(&wakes);
    return rc;
}

static int give(struct wf_sem *sem, uint32_t count)
{
    int rc = add(sem, count);
    return rc == -EAGAIN ? release_slowly(sem, count) : rc;
}

WF_ASKS_THREAD int weft_sem_release(weft_sem *out, uint32_t count)
{
    if (out == NULL || count == 0) {
        return -EINVAL;
    }
    int rc = give(sem_of(out), count);
    struct weft_task *self = wf_task_here();
    if (self != NULL) {
        wf_spend(self);
    }
    return rc;
}

/* ---- acquire ------------------------------------------------------------------------------- */

/* The permits were granted to a node that cannot take them. */
static void pass_on(struct wf_wait_node *node)
{
    (void)give(wf_container_of(node->queue, struct wf_sem, queue), node->count); /* had as many */
}

void wf_sem_abandon(struct wf_wait_node *node)
{
    struct wf_sem *sem = wf_container_of(node->queue, struct wf_sem, queue);
    wf_waitq_abandon(node);
    serve_those_behind(sem);
}

static void forget(struct wf_parting *parting)
{
    wf_sem_abandon(wf_container_of(parting, struct wf_wait_node, parting));
}

int wf_sem_begin(struct wf_sem *sem, struct wf_wait_node *node, uint32_t count)
{
    node->count = count;
    node->pass_on = pass_on;
    node->parting.forget = forget;
    wf_lock_acquire(&sem->queue.lock);
    uint64_t word = wf_load_relaxed(&sem->word); /* relaxed: the CAS decides */
    uint64_t next;
    bool is_enough;
    do { /* each lost CAS is an operation of another that was done */
        is_enough = (word & WAITERS) == 0 && permits_of(word) >= count;
        next = is_enough ? word - word_of(count, false) : word | WAITERS;
    } while (!wf_cas_acquire(&sem->word, &word, next)); /* (E1) */
    if (!is_enough) {
        wf_waitq_push(&sem->queue, node);
    }
    wf_lock_release(&sem->queue.lock);
    return is_enough ? 0 : -EINPROGRESS;
}

static __attribute__((noinline)) int acquire_slowly(struct wf_sem *sem, struct weft_task *self,
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
            serve_those_behind(sem);
        }
    }
    return rc;
}

WF_ASKS_THREAD int weft_sem_acquire(weft_sem *out, uint32_t count)
{
    if (out == NULL || count == 0) {
        return -EINVAL;
    }
    struct weft_task *self = wf_task_here();
    if (self != NULL) {
        wf_spend(self);
    }
    return take(sem_of(out), count) ? 0 : acquire_slowly(sem_of(out), self, count);
}

WF_ASKS_THREAD int weft_sem_try_acquire(weft_sem *out, uint32_t count)
{
    if (out == NULL || count == 0) {
        return -EINVAL;
    }
    struct weft_task *self = wf_task_here();
    if (self != NULL) {
        wf_spend(self); /* who tries in a loop must let others run too */
    }
    return take(sem_of(out), count) ? 0 : -EAGAIN;
}

/* ---- the others ----------------------------------------------------------------------------- */

int weft_sem_init(weft_sem *out, uint32_t permits)
{
    if (out == NULL) {
        return -EINVAL;
    }
    *out = (weft_sem)WEFT_SEM_INIT(permits);
    return 0;
}

int64_t weft_sem_permits(const weft_sem *out)
{
    if (out == NULL) {
        return -EINVAL;
    }
    const struct wf_sem *sem = (const struct wf_sem *)(const void *)out;
    return (int64_t)permits_of(wf_load_relaxed(&sem->word)); /* relaxed: a number */
}
