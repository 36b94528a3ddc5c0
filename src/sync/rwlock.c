/* SPDX-License-Identifier: MIT */
/*
 * sync/rwlock.c - readers-writer locks: many readers, or one writer.
 *
 * The word is the number of readers, or the writer, and a bit that says that there are waiters.
 * Without waiters, each call is one compare-and-exchange.  The bit sends all callers through the
 * lock of the queue, and only the holder of that lock then changes the word.  A waiter sets the bit
 * in the step that finds the readers-writer lock taken.  The bit is cleared when the last waiter is
 * granted or leaves.
 *
 * Waiters are served in the order of their arrival.  A waiting writer keeps later readers waiting,
 * so readers do not starve it.  Readers that wait between two writers are granted together, so
 * writers do not starve them either.  A waiter that leaves the queue may have kept others waiting:
 * it serves them.  A caller that finds the lock taken, and no waiters, retries for a moment with
 * pauses (wf_backoff) before it queues.
 */
#include <errno.h>

#include "future/future.h"
#include "sync/sync.h"

#define WAITERS ((uintptr_t)1)
#define WRITER ((uintptr_t)2)
#define READER ((uintptr_t)64)

_Static_assert(sizeof(struct wf_rwlock) <= sizeof(weft_rwlock), "it fits");
_Static_assert(alignof(struct wf_rwlock) <= alignof(weft_rwlock), "it fits");
_Static_assert(offsetof(struct wf_rwlock, owned) == 0, "a report shows the address of the lock");

static struct wf_rwlock *rwlock_of(weft_rwlock *rwlock)
{
    return (struct wf_rwlock *)(void *)rwlock;
}

static uintptr_t rwlock_writer_word(uintptr_t holder)
{
    return holder | WRITER;
}

/* What a caller wants: `count` of a node. */
enum access { TO_READ, TO_WRITE };

/* The word after this access is granted; 0: it must wait. */
static uintptr_t rwlock_word_with(uintptr_t word, uint32_t access, uintptr_t holder)
{
    if (access == TO_READ) {
        return (word & (WAITERS | WRITER)) == 0 ? word + READER : 0;
    }
    return word == 0 ? rwlock_writer_word(holder) : 0;
}

/* The word to expect in the first CAS.  If the last caller met no other holder, this is `unshared`,
 * without a load: a load of a word that this CPU has just exchanged waits until the exchange is
 * done. */
static uintptr_t rwlock_expected_word(const struct wf_rwlock *rwlock, uintptr_t unshared)
{
    /* both relaxed: the CAS decides */
    return wf_load_relaxed(&rwlock->is_shared) == 0 ? unshared : wf_load_relaxed(&rwlock->word);
}

/* [any]  Sets the hint for rwlock_expected_word. */
static void rwlock_set_shared(struct wf_rwlock *rwlock, bool is_shared)
{
    if ((wf_load_relaxed(&rwlock->is_shared) != 0) != is_shared) { /* both relaxed: a hint */
        wf_store_relaxed(&rwlock->is_shared, is_shared ? 1 : 0);
    }
}

/* [any]  Takes the lock.  False: the caller must wait. */
static bool rwlock_take(struct wf_rwlock *rwlock, uint32_t access, uintptr_t holder)
{
    uintptr_t word = rwlock_expected_word(rwlock, 0);
    uintptr_t next;
    while ((next = rwlock_word_with(word, access, holder)) != 0) {
        /* (sync.W1); each lost CAS is an operation of another thread that succeeded */
        if (wf_cas_acquire(&rwlock->word, &word, next)) {
            rwlock_set_shared(rwlock, word != 0);
            wf_lock_drain(&rwlock->queue.lock); /* an unlock may still hold it */
            return true;
        }
    }
    rwlock_set_shared(rwlock, true);
    return false;
}

/* [locked]  WAITERS is set, and `word` is the word without it.  Grants waiters in order until one
 * must still wait, and stores the new word. */
static void rwlock_serve(struct wf_rwlock *rwlock, uintptr_t word, struct wf_wakes *wakes)
{
    struct wf_wait_node *first;
    while ((first = wf_plain_load(&rwlock->queue.first)) != NULL) {
        const uintptr_t next = rwlock_word_with(word, first->count, (uintptr_t)first->item);
        if (next == 0) {
            break;
        }
        if (wf_waitq_claim_node(&rwlock->queue, first)) {
            word = next;
            wf_wakes_add(wakes, first);
        }
    }
    wf_store_release(&rwlock->word, word | (first != NULL ? WAITERS : 0)); /* (sync.W1) */
}

/* [any]  A waiter has left the queue: serves the waiters behind it. */
static void rwlock_serve_next(struct wf_rwlock *rwlock)
{
    struct wf_wakes wakes = {.count = 0};
    wf_lock_acquire(&rwlock->queue.lock);
    const uintptr_t word = wf_load_relaxed(&rwlock->word); /* relaxed: stable if the bit is set */
    if ((word & WAITERS) != 0) {
        rwlock_serve(rwlock, word & ~WAITERS, &wakes);
    }
    wf_lock_release(&rwlock->queue.lock);
    wf_wakes_do(&wakes);
}

/* ---- unlock -------------------------------------------------------------------------------- */

/* [holder]  Unlocks for a reader or the writer.  False: there are waiters.  *expected is a guess of
 * the word, and on failure the word that was found. */
static bool rwlock_unlock_fast(struct wf_rwlock *rwlock, uintptr_t *expected)
{
    uintptr_t word = *expected;
    while ((word & WAITERS) == 0) {
        /* (sync.W1); each lost CAS is an operation of another thread that succeeded */
        if (wf_cas_release(&rwlock->word, &word, (word & WRITER) != 0 ? 0 : word - READER)) {
            return true;
        }
    }
    *expected = word;
    return false;
}

/* [holder]  Unlocks, with or without waiters.  `word` is a guess of the word. */
static void rwlock_release(struct wf_rwlock *rwlock, uintptr_t word)
{
    if (rwlock_unlock_fast(rwlock, &word)) {
        return;
    }
    struct wf_wakes wakes = {.count = 0};
    wf_lock_acquire(&rwlock->queue.lock);
    /* The last waiter may have left and cleared the bit; then others change the word without the
     * lock.  The bit is set only under the lock. */
    word = wf_load_relaxed(
        &rwlock->word); /* relaxed: stable if the bit is set; else the CAS decides */
    if (!rwlock_unlock_fast(rwlock, &word)) {
        word &= ~WAITERS;
        rwlock_serve(rwlock, (word & WRITER) != 0 ? 0 : word - READER, &wakes);
    }
    wf_lock_release(&rwlock->queue.lock);
    wf_wakes_do(&wakes);
}

/* [the task, closer]  Unlocks for a writer that ends. */
static void rwlock_release_for(struct wf_owned_lock *owned, struct weft_task *task)
{
    rwlock_release(wf_container_of(owned, struct wf_rwlock, owned),
                   rwlock_writer_word(wf_holder_of(task)));
}

/* [any]  Unlocks for one of several readers, for a thread, or for a task whose newest lock is
 * another one.  `word` is the word as it was found. */
static __attribute__((noinline)) int rwlock_unlock_slow(struct wf_rwlock *rwlock,
                                                        struct weft_task *self, uintptr_t word)
{
    /* `word` may be old.  But while the caller holds the lock, the word keeps its writer, or at
     * least one reader: so the check never refuses a holder. */
    const bool is_written = (word & WRITER) != 0;
    if (is_written ? (word & ~WAITERS) != rwlock_writer_word(wf_holder_of(self)) : word < READER) {
        return -EPERM;
    }
    if (is_written && self != NULL) {
        wf_owned_lock_remove(self, &rwlock->owned);
    }
    rwlock_release(rwlock, word);
    return 0;
}

WF_READS_TLS int weft_rwlock_unlock(weft_rwlock *out)
{
    WF_NOT_NULL(out, "weft_rwlock_unlock: rwlock is NULL");
    struct wf_rwlock *rwlock = rwlock_of(out);
    struct weft_task *self = wf_task_self_inline();
    if (self != NULL && self->owned_locks == &rwlock->owned) { /* the task writes */
        self->owned_locks = rwlock->owned.next;
        rwlock_release(rwlock, rwlock_writer_word((uintptr_t)self));
        return 0;
    }
    uintptr_t word = rwlock_expected_word(rwlock, READER);
    if (word == READER && wf_cas_release(&rwlock->word, &word, 0)) { /* (sync.W1) the only reader */
        return 0;
    }
    return rwlock_unlock_slow(rwlock, self, word);
}

/* ---- lock ---------------------------------------------------------------------------------- */

static void rwlock_pass_on(struct wf_wait_node *node)
{
    rwlock_release(wf_container_of(node->queue, struct wf_rwlock, queue),
                   node->count == TO_WRITE ? rwlock_writer_word((uintptr_t)node->item) : READER);
}

void wf_rwlock_abandon(struct wf_wait_node *node)
{
    struct wf_rwlock *rwlock = wf_container_of(node->queue, struct wf_rwlock, queue);
    wf_waitq_abandon(node);
    rwlock_serve_next(rwlock);
}

static void rwlock_abandon(struct wf_abandon_hook *hook)
{
    wf_rwlock_abandon(wf_container_of(hook, struct wf_wait_node, hook));
}

/* [the report of deadlocks]  The task that writes; readers are not known. */
static const struct weft_task *rwlock_blocked_on(const struct wf_abandon_hook *hook)
{
    const struct wf_rwlock *rwlock =
        wf_container_of(wf_node_of(hook)->queue, struct wf_rwlock, queue);
    const uintptr_t word = wf_load_relaxed(&rwlock->word); /* relaxed: nothing runs */
    return (word & WRITER) != 0 ? wf_holder_task(word & ~(WAITERS | WRITER)) : NULL;
}

static int rwlock_set_owner(struct wf_rwlock *rwlock, uint32_t access, struct weft_task *self)
{
    if (access == TO_WRITE && self != NULL) {
        wf_owned_lock_add(self, &rwlock->owned, rwlock_release_for);
    }
    return 0;
}

int wf_rwlock_begin(struct wf_rwlock *rwlock, struct wf_wait_node *node, bool is_writer,
                    uintptr_t holder)
{
    node->count = is_writer ? TO_WRITE : TO_READ;
    node->item = (void *)holder;
    node->pass_on = rwlock_pass_on;
    node->hook.abandon = rwlock_abandon;
    node->hook.blocked_on = rwlock_blocked_on;
    wf_lock_acquire(&rwlock->queue.lock);
    uintptr_t word = wf_load_relaxed(&rwlock->word); /* relaxed: the CAS decides */
    uintptr_t next;
    bool is_taken;
    do { /* each lost CAS is an operation of another thread that succeeded */
        next = rwlock_word_with(word, node->count, holder);
        is_taken = next != 0;
        next = is_taken ? next : word | WAITERS;
    } while (!wf_cas_acquire(&rwlock->word, &word, next)); /* (sync.W1) */
    if (!is_taken) {
        wf_waitq_push(&rwlock->queue, node);
    }
    wf_lock_release(&rwlock->queue.lock);
    return is_taken ? wf_rwlock_granted(node, rwlock) : -EINPROGRESS;
}

int wf_rwlock_granted(struct wf_wait_node *node, struct wf_rwlock *rwlock)
{
    return rwlock_set_owner(rwlock, node->count, node->waiter.task);
}

bool wf_rwlock_is_written(const struct wf_rwlock *rwlock, uintptr_t holder)
{
    /* relaxed: a caller sees its own lock */
    return (wf_load_relaxed(&rwlock->word) & ~WAITERS) == rwlock_writer_word(holder);
}

/* [any]  As rwlock_take, with retries: the holders may be about to unlock, on another CPU.  Gives
 * up as soon as there are waiters. */
static bool rwlock_spin(struct wf_rwlock *rwlock, uint32_t access, uintptr_t holder)
{
    unsigned hints = wf_backoff_first();
    while (hints <= WF_BACKOFF_MAX && (wf_load_relaxed(&rwlock->word) & WAITERS) == 0) {
        wf_backoff(&hints); /* relaxed above: a hint */
        if (rwlock_take(rwlock, access, holder)) {
            return true;
        }
    }
    return false;
}

static __attribute__((noinline)) int rwlock_lock_slow(struct wf_rwlock *rwlock,
                                                      struct weft_task *self, uint32_t access,
                                                      uintptr_t holder)
{
    if (wf_rwlock_is_written(rwlock, holder)) {
        return -EDEADLK;
    }
    if (rwlock_spin(rwlock, access, holder)) {
        return rwlock_set_owner(rwlock, access, self);
    }
    int rc = self != NULL ? wf_interrupted(self) : 0;
    if (rc != 0) {
        return rc;
    }
    struct wf_wait_node node;
    wf_node_init(&node, self);
    rc = wf_rwlock_begin(rwlock, &node, access == TO_WRITE, holder);
    if (rc == -EINPROGRESS) {
        rc = wf_waitq_wait(&node, WEFT_WAIT_RWLOCK, rwlock, WEFT_NEVER);
        if (rc != 0) {
            rwlock_serve_next(rwlock);
            return rc;
        }
        rc = wf_rwlock_granted(&node, rwlock);
    }
    return rc;
}

static inline __attribute__((always_inline)) int rwlock_lock(weft_rwlock *out, uint32_t access,
                                                             bool may_wait)
{
    struct wf_rwlock *rwlock = rwlock_of(out);
    struct weft_task *self = wf_task_self_inline();
    if (self != NULL) {
        wf_budget_spend(self);
    }
    const uintptr_t holder = wf_holder_of(self);
    if (rwlock_take(rwlock, access, holder)) {
        return rwlock_set_owner(rwlock, access, self);
    }
    return may_wait ? rwlock_lock_slow(rwlock, self, access, holder) : -EAGAIN;
}

WF_READS_TLS int weft_rwlock_rdlock(weft_rwlock *out)
{
    WF_NOT_NULL(out, "weft_rwlock_rdlock: rwlock is NULL");
    return rwlock_lock(out, TO_READ, true);
}

WF_READS_TLS int weft_rwlock_wrlock(weft_rwlock *out)
{
    WF_NOT_NULL(out, "weft_rwlock_wrlock: rwlock is NULL");
    return rwlock_lock(out, TO_WRITE, true);
}

WF_READS_TLS int weft_rwlock_try_rdlock(weft_rwlock *out)
{
    WF_NOT_NULL(out, "weft_rwlock_try_rdlock: rwlock is NULL");
    return rwlock_lock(out, TO_READ, false);
}

WF_READS_TLS int weft_rwlock_try_wrlock(weft_rwlock *out)
{
    WF_NOT_NULL(out, "weft_rwlock_try_wrlock: rwlock is NULL");
    return rwlock_lock(out, TO_WRITE, false);
}
