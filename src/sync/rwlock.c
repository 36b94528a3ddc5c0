/* SPDX-License-Identifier: MIT */
/*
 * sync/rwlock.c - many who read, or one who writes.
 *
 * The word is a number of readers, or who writes, and a bit that says whether anybody waits.  While
 * nobody does, each call is one compare-and-exchange.  The bit sends everybody through the lock of
 * the queue, which then is the only way to change the word; who has to wait sets it in the step
 * that finds the lock taken.  It goes with the last who waits, which may be one who gives up.
 *
 * In order of arrival: a writer that waits keeps readers that come later waiting, so it is not
 * starved by them; readers that wait between two writers are let in together, so they are not
 * starved by writers either.  Who leaves the queue may have kept others waiting: it serves them.
 * Where nobody waits yet, who finds it taken stays away for a moment first (wf_backoff).
 */
#include <errno.h>

#include "sched/fast.h"
#include "sync/sync.h"

#define WAITERS ((uintptr_t)1)
#define WRITER ((uintptr_t)2)
#define READER ((uintptr_t)64)

_Static_assert(sizeof(struct wf_rwlock) <= sizeof(weft_rwlock), "it fits");
_Static_assert(alignof(struct wf_rwlock) <= alignof(weft_rwlock), "it fits");
_Static_assert(offsetof(struct wf_rwlock, held) == 0, "a report shows the address of the lock");

static struct wf_rwlock *rwlock_of(weft_rwlock *rwlock)
{
    return (struct wf_rwlock *)(void *)rwlock;
}

static uintptr_t writer_word(uintptr_t holder)
{
    return holder | WRITER;
}

/* `count` of a node says what it wants. */
enum { TO_READ, TO_WRITE };

/* What the word becomes if one more is let in; 0: it may not be. */
static uintptr_t word_with(uintptr_t word, uint32_t wanted, uintptr_t holder)
{
    if (wanted == TO_READ) {
        return (word & (WAITERS | WRITER)) == 0 ? word + READER : 0;
    }
    return word == 0 ? writer_word(holder) : 0;
}

/* What the word is at first is guessed where nobody else was met lately, and not looked for: a load
 * of a word that this CPU has just exchanged waits until that is done. */
static uintptr_t guess(const struct wf_rwlock *rwlock, uintptr_t alone)
{
    /* both relaxed: the CAS decides */
    return wf_load_relaxed(&rwlock->is_shared) == 0 ? alone : wf_load_relaxed(&rwlock->word);
}

/* [any]  Whether others were met. */
static void note_others(struct wf_rwlock *rwlock, bool is_shared)
{
    if ((wf_load_relaxed(&rwlock->is_shared) != 0) != is_shared) { /* both relaxed: for a guess */
        wf_store_relaxed(&rwlock->is_shared, is_shared ? 1 : 0);
    }
}

/* [any] */
static bool take(struct wf_rwlock *rwlock, uint32_t wanted, uintptr_t holder)
{
    uintptr_t word = guess(rwlock, 0);
    uintptr_t next;
    while ((next = word_with(word, wanted, holder)) != 0) {
        /* (W2); each lost one is another's operation that was done */
        if (wf_cas_acquire(&rwlock->word, &word, next)) {
            note_others(rwlock, word != 0);
            wf_lock_pass(&rwlock->queue.lock); /* whoever unlocked may be inside still */
            return true;
        }
    }
    note_others(rwlock, true);
    return false;
}

/* [locked]  The bit is set, and this is the rest of the word.  Lets in who may. */
static void serve(struct wf_rwlock *rwlock, uintptr_t word, struct wf_wakes *wakes)
{
    struct wf_wait_node *first;
    while ((first = wf_plain_load(&rwlock->queue.first)) != NULL) {
        const uintptr_t next = word_with(word, first->count, (uintptr_t)first->item);
        if (next == 0) {
            break;
        }
        if (wf_waitq_claim_node(&rwlock->queue, first)) {
            word = next;
            wf_wakes_add(wakes, first);
        }
    }
    wf_store_release(&rwlock->word, word | (first != NULL ? WAITERS : 0)); /* (W2) */
}

/* [any]  Somebody has left the queue. */
static void serve_those_behind(struct wf_rwlock *rwlock)
{
    struct wf_wakes wakes = {.count = 0};
    wf_lock_acquire(&rwlock->queue.lock);
    const uintptr_t word = wf_load_relaxed(&rwlock->word); /* relaxed: the lock's, if the bit is */
    if ((word & WAITERS) != 0) {
        serve(rwlock, word & ~WAITERS, &wakes);
    }
    wf_lock_release(&rwlock->queue.lock);
    wf_wakes_do(&wakes);
}

/* ---- unlock -------------------------------------------------------------------------------- */

/* [holder]  One who reads, or the one who writes, has done so; false: somebody waits.  The word may
 * be `*last`, and is what it was last after that. */
static bool go(struct wf_rwlock *rwlock, uintptr_t *last)
{
    uintptr_t word = *last;
    while ((word & WAITERS) == 0) {
        /* (W2); each lost one is another's operation that was done */
        if (wf_cas_release(&rwlock->word, &word, (word & WRITER) != 0 ? 0 : word - READER)) {
            return true;
        }
    }
    *last = word;
    return false;
}

/* [holder]  The same, whoever waits. */
static void leave(struct wf_rwlock *rwlock, uintptr_t word)
{
    if (go(rwlock, &word)) {
        return;
    }
    struct wf_wakes wakes = {.count = 0};
    wf_lock_acquire(&rwlock->queue.lock);
    /* Whoever waited may have left and taken the bit away, and then others come and go without the
     * lock.  Nobody sets it again before we let go. */
    word = wf_load_relaxed(&rwlock->word); /* relaxed: the lock's, or the CAS decides */
    if (!go(rwlock, &word)) {
        word &= ~WAITERS;
        serve(rwlock, (word & WRITER) != 0 ? 0 : word - READER, &wakes);
    }
    wf_lock_release(&rwlock->queue.lock);
    wf_wakes_do(&wakes);
}

/* [the task, closer]  The task that writes ends. */
static void release_for(struct wf_held *held, struct weft_task *task)
{
    leave(wf_container_of(held, struct wf_rwlock, held), writer_word(wf_holder_of(task)));
}

/* [any]  By one of several who read, or a thread that writes; the word is `word`, or was. */
static __attribute__((noinline)) int unlock_any(struct wf_rwlock *rwlock, struct weft_task *self,
                                                uintptr_t word)
{
    /* If it is the caller's, it is that for as long as we look. */
    const bool is_written = (word & WRITER) != 0;
    if (is_written ? (word & ~WAITERS) != writer_word(wf_holder_of(self)) : word < READER) {
        return -EPERM;
    }
    if (is_written && self != NULL) {
        wf_held_remove(self, &rwlock->held);
    }
    leave(rwlock, word);
    return 0;
}

WF_ASKS_THREAD int weft_rwlock_unlock(weft_rwlock *out)
{
    if (out == NULL) {
        return -EINVAL;
    }
    struct wf_rwlock *rwlock = rwlock_of(out);
    struct weft_task *self = wf_task_here();
    if (self != NULL && self->held == &rwlock->held) { /* it writes */
        self->held = rwlock->held.next;
        leave(rwlock, writer_word((uintptr_t)self));
        return 0;
    }
    uintptr_t word = guess(rwlock, READER);
    if (word == READER && wf_cas_release(&rwlock->word, &word, 0)) { /* (W2) nobody else reads */
        return 0;
    }
    return unlock_any(rwlock, self, word);
}

/* ---- lock ---------------------------------------------------------------------------------- */

static void pass_on(struct wf_wait_node *node)
{
    leave(wf_container_of(node->queue, struct wf_rwlock, queue),
          node->count == TO_WRITE ? writer_word((uintptr_t)node->item) : READER);
}

void wf_rwlock_abandon(struct wf_wait_node *node)
{
    struct wf_rwlock *rwlock = wf_container_of(node->queue, struct wf_rwlock, queue);
    wf_waitq_abandon(node);
    serve_those_behind(rwlock);
}

static void forget(struct wf_parting *parting)
{
    wf_rwlock_abandon(wf_container_of(parting, struct wf_wait_node, parting));
}

/* [the report of deadlocks]  Who writes; who reads is not known. */
static const struct weft_task *writer_awaited(const struct wf_parting *parting)
{
    const struct wf_rwlock *rwlock =
        wf_container_of(wf_node_of(parting)->queue, struct wf_rwlock, queue);
    const uintptr_t word = wf_load_relaxed(&rwlock->word); /* relaxed: nothing runs */
    return (word & WRITER) != 0 ? wf_holder_task(word & ~(WAITERS | WRITER)) : NULL;
}

static int hold(struct wf_rwlock *rwlock, uint32_t wanted, struct weft_task *self)
{
    if (wanted == TO_WRITE && self != NULL) {
        wf_held_push(self, &rwlock->held, release_for);
    }
    return 0;
}

int wf_rwlock_begin(struct wf_rwlock *rwlock, struct wf_wait_node *node, bool is_writer,
                    uintptr_t holder)
{
    node->count = is_writer ? TO_WRITE : TO_READ;
    node->item = (void *)holder;
    node->pass_on = pass_on;
    node->parting.forget = forget;
    node->parting.awaited = writer_awaited;
    wf_lock_acquire(&rwlock->queue.lock);
    uintptr_t word = wf_load_relaxed(&rwlock->word); /* relaxed: the CAS decides */
    uintptr_t next;
    bool is_taken;
    do { /* each lost CAS is an operation of another that was done */
        next = word_with(word, node->count, holder);
        is_taken = next != 0;
        next = is_taken ? next : word | WAITERS;
    } while (!wf_cas_acquire(&rwlock->word, &word, next)); /* (W2) */
    if (!is_taken) {
        wf_waitq_push(&rwlock->queue, node);
    }
    wf_lock_release(&rwlock->queue.lock);
    return is_taken ? wf_rwlock_granted(node, rwlock) : -EINPROGRESS;
}

int wf_rwlock_granted(struct wf_wait_node *node, struct wf_rwlock *rwlock)
{
    return hold(rwlock, node->count, node->waiter.task);
}

bool wf_rwlock_is_written(const struct wf_rwlock *rwlock, uintptr_t holder)
{
    /* relaxed: who writes knows */
    return (wf_load_relaxed(&rwlock->word) & ~WAITERS) == writer_word(holder);
}

/* [any]  Locks it if others let go of it soon, on another CPU.  Not beside those who wait. */
static bool take_spinning(struct wf_rwlock *rwlock, uint32_t wanted, uintptr_t holder)
{
    unsigned hints = wf_backoff_first();
    while (hints <= WF_BACKOFF_MAX && (wf_load_relaxed(&rwlock->word) & WAITERS) == 0) {
        wf_backoff(&hints); /* relaxed above: a guess */
        if (take(rwlock, wanted, holder)) {
            return true;
        }
    }
    return false;
}

static __attribute__((noinline)) int lock_slowly(struct wf_rwlock *rwlock, struct weft_task *self,
                                                 uint32_t wanted, uintptr_t holder)
{
    if (wf_rwlock_is_written(rwlock, holder)) {
        return -EDEADLK;
    }
    if (take_spinning(rwlock, wanted, holder)) {
        return hold(rwlock, wanted, self);
    }
    int rc = self != NULL ? wf_interrupted(self) : 0;
    if (rc != 0) {
        return rc;
    }
    struct wf_wait_node node;
    wf_node_init(&node, self);
    rc = wf_rwlock_begin(rwlock, &node, wanted == TO_WRITE, holder);
    if (rc == -EINPROGRESS) {
        rc = wf_waitq_wait(&node, WEFT_WAIT_RWLOCK, rwlock, WEFT_NEVER);
        if (rc != 0) {
            serve_those_behind(rwlock);
            return rc;
        }
        rc = wf_rwlock_granted(&node, rwlock);
    }
    return rc;
}

static inline __attribute__((always_inline)) int lock(weft_rwlock *out, uint32_t wanted,
                                                      bool may_wait)
{
    if (out == NULL) {
        return -EINVAL;
    }
    struct wf_rwlock *rwlock = rwlock_of(out);
    struct weft_task *self = wf_task_here();
    if (self != NULL) {
        wf_spend(self);
    }
    const uintptr_t holder = wf_holder_of(self);
    if (take(rwlock, wanted, holder)) {
        return hold(rwlock, wanted, self);
    }
    return may_wait ? lock_slowly(rwlock, self, wanted, holder) : -EAGAIN;
}

WF_ASKS_THREAD int weft_rwlock_read(weft_rwlock *out)
{
    return lock(out, TO_READ, true);
}

WF_ASKS_THREAD int weft_rwlock_write(weft_rwlock *out)
{
    return lock(out, TO_WRITE, true);
}

WF_ASKS_THREAD int weft_rwlock_try_read(weft_rwlock *out)
{
    return lock(out, TO_READ, false);
}

WF_ASKS_THREAD int weft_rwlock_try_write(weft_rwlock *out)
{
    return lock(out, TO_WRITE, false);
}
