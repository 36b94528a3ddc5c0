/* SPDX-License-Identifier: MIT */
/*
 * sync/mutex.c - one at a time.
 *
 * The word has who holds it, and what there is to be done when it is let go of:
 *
 *   WAITERS   the queue may have somebody in it
 *   WOKEN     one of them was taken out and told to try; until it has tried nobody else is told
 *   HANDOVER  the first in the queue was too late often enough: it gets the mutex, not the chance
 *
 *   0       --lock: CAS-->    holder            nobody else is about: one step to lock ...
 *   holder  --unlock: CAS-->  0                 ... and one to unlock
 *   flags   --lock: CAS-->    holder | flags    others wait, and are overtaken
 *   holder | WAITERS         --unlock-->  WAITERS | WOKEN   the first is told to try
 *   holder | WAITERS | WOKEN --unlock-->  the same without holder
 *   holder | HANDOVER        --unlock-->  the first | WAITERS
 *
 * Flags change under the lock of the queue only; but for WOKEN, which who was woken takes off in
 * the step by which it locks.  HANDOVER is never there without a holder, so that nobody is
 * overtaken once more.
 *
 * Why others may overtake: a mutex that is handed over to a task that does not run yet stays locked
 * until that task has its turn, and all who come meanwhile join the queue: from then on each lock
 * costs a switch.  Four tasks on two workers that lock, add one and unlock take 42 ns each time if
 * the mutex is always handed over, and 25 if others may be faster once; 64 tasks 31 and 20.  On one
 * worker there is no difference.  docs/adr/0014-a-mutex-may-be-overtaken.md has the rest.
 *
 * What a task has done in one turn is paid for before it locks, never between lock and unlock: so
 * no task is made to yield while it has a mutex, at least not by that mutex.
 *
 * Whoever unlocks touches the mutex for the last time in the step by which it lets go, or under the
 * lock of the queue, which who was handed the mutex lets pass: so the next holder may free it.
 */
#include <errno.h>

#include "sched/fast.h"
#include "sync/sync.h"

enum flag {
    WAITERS = 1,
    WOKEN = 2,
    HANDOVER = 4,
};
#define FLAGS ((uintptr_t)(WAITERS | WOKEN | HANDOVER))

/* What a node was granted: its `result`. */
enum granted {
    A_CHANCE,
    THE_MUTEX,
};

_Static_assert(sizeof(struct wf_mutex) <= sizeof(weft_mutex), "it fits");
_Static_assert(alignof(struct wf_mutex) <= alignof(weft_mutex), "it fits");
_Static_assert(offsetof(struct wf_mutex, held) == 0, "a report shows the address of the mutex");

static struct wf_mutex *mutex_of(weft_mutex *mutex)
{
    return (struct wf_mutex *)(void *)mutex;
}

static uintptr_t holder_in(uintptr_t word)
{
    return word & ~FLAGS;
}

bool wf_mutex_is_held(const struct wf_mutex *mutex, uintptr_t holder)
{
    return holder_in(wf_load_relaxed(&mutex->word)) == holder; /* relaxed: who has it knows */
}

/* ---- unlock -------------------------------------------------------------------------------- */

/* [locked, holder]  Somebody is told to try, or gets the mutex; gives the task to be woken. */
static struct weft_task *choose(struct wf_mutex *mutex, uintptr_t holder, bool *is_handed_over)
{
    /* relaxed: nobody else changes it while we have both the mutex and the lock. */
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
        node->result = THE_MUTEX;
        /* relaxed: it is told by its grant. */
        wf_store_relaxed(&mutex->word, (uintptr_t)node->item | waiters);
    } else {
        node->result = A_CHANCE;
        wf_store_relaxed(&mutex->word, holder | WOKEN | waiters);
    }
    return wf_waitq_grant(node);
}

/* [holder]  Out of the list of what it holds. */
static __attribute__((noinline)) void unlock_slowly(struct wf_mutex *mutex, uintptr_t holder)
{
    struct weft_task *task = NULL;
    bool is_done = false;
    while (!is_done) { /* a second turn lets go; a third only if somebody came in between */
        uintptr_t word = wf_load_relaxed(&mutex->word); /* relaxed: the CAS decides */
        if (word == holder || (word & (WOKEN | HANDOVER)) == WOKEN) {
            is_done = wf_cas_release(&mutex->word, &word, word & FLAGS); /* (M1) */
        } else {
            wf_lock_acquire(&mutex->queue.lock);
            struct weft_task *chosen = choose(mutex, holder, &is_done);
            wf_lock_release(&mutex->queue.lock);
            task = chosen != NULL ? chosen : task;
        }
    }
    if (task != NULL) {
        wf_task_wake(task);
    }
}

/* [any]  By a thread, or not the newest of what the task holds. */
static __attribute__((noinline)) int unlock_any(struct wf_mutex *mutex, struct weft_task *self)
{
    const uintptr_t holder = wf_holder_of(self);
    if (!wf_mutex_is_held(mutex, holder)) {
        return -EPERM;
    }
    if (self != NULL) {
        wf_held_remove(self, &mutex->held);
    }
    unlock_slowly(mutex, holder);
    return 0;
}

/* [the task, holder]  Others wait.  `next` is what it held before. */
static __attribute__((noinline)) int unlock_contended(struct wf_mutex *mutex,
                                                      struct weft_task *self, struct wf_held *next)
{
    unlock_slowly(mutex, (uintptr_t)self);
    self->held = next;
    return 0;
}

/* What is rare here and in weft_mutex_lock is the last call of its function: so nothing has to be
 * saved on the way to the locked instruction, which waits for every store before it. */

WF_ASKS_THREAD int weft_mutex_unlock(weft_mutex *out)
{
    if (out == NULL) {
        return -EINVAL;
    }
    struct wf_mutex *mutex = mutex_of(out);
    struct weft_task *self = wf_task_here();
    if (self == NULL || self->held != &mutex->held) {
        return unlock_any(mutex, self);
    }
    /* It is the task's, without a look at the word, which would wait for the step that locked it.
     */
    struct wf_held *next = mutex->held.next;
    uintptr_t word = (uintptr_t)self;
    if (!wf_cas_release(&mutex->word, &word, 0)) { /* (M1) */
        return unlock_contended(mutex, self, next);
    }
    self->held = next;
    return 0;
}

/* [the task, closer]  The task ends. */
static void release_for(struct wf_held *held, struct weft_task *task)
{
    unlock_slowly(wf_container_of(held, struct wf_mutex, held), wf_holder_of(task));
}

/* [any]  One that was told to try does not: the next may. */
static void pass_chance_on(struct wf_mutex *mutex)
{
    struct weft_task *task = NULL;
    wf_lock_acquire(&mutex->queue.lock);
    uintptr_t word = wf_fetch_and_relaxed(&mutex->word, ~(uintptr_t)WOKEN); /* relaxed: a flag */
    /* Who has the mutex will find the queue; if nobody has it we have to look. */
    struct wf_wait_node *node = holder_in(word) == 0 ? wf_waitq_claim(&mutex->queue) : NULL;
    if (node != NULL) {
        node->result = A_CHANCE;
        (void)wf_fetch_or_relaxed(&mutex->word, (uintptr_t)WOKEN); /* relaxed: a flag */
        task = wf_waitq_grant(node);
    }
    wf_lock_release(&mutex->queue.lock);
    if (task != NULL) {
        wf_task_wake(task);
    }
}

/* [any, not locked] */
static void pass_on(struct wf_wait_node *node)
{
    struct wf_mutex *mutex = wf_container_of(node->queue, struct wf_mutex, queue);
    if (node->result == THE_MUTEX) {
        unlock_slowly(mutex, (uintptr_t)node->item);
    } else {
        pass_chance_on(mutex);
    }
}

/* ---- lock ---------------------------------------------------------------------------------- */

static int hold(struct wf_mutex *mutex, struct weft_task *self)
{
    if (self != NULL) {
        wf_held_push(self, &mutex->held, release_for);
    }
    return 0;
}

/* [any]  Locks it if nobody has it.  `taken_off` is WOKEN for who was woken, else 0. */
static bool take(struct wf_mutex *mutex, uintptr_t holder, uintptr_t taken_off)
{
    uintptr_t word = wf_load_relaxed(&mutex->word); /* relaxed: the CAS decides */
    while (holder_in(word) == 0) {
        /* (M1); each lost one is a step of another */
        if (wf_cas_acquire(&mutex->word, &word, (word & ~taken_off) | holder)) {
            return true;
        }
    }
    return false;
}

/* [any]  The same for a while: who has it may be about to unlock it, on another CPU. */
static bool take_spinning(struct wf_mutex *mutex, uintptr_t holder, uintptr_t taken_off)
{
    unsigned hints = wf_backoff_first();
    while (hints <= WF_BACKOFF_MAX) {
        if (take(mutex, holder, taken_off)) {
            return true;
        }
        wf_backoff(&hints);
    }
    return take(mutex, holder, taken_off);
}

/* [waiter]  0: it is locked; -EINPROGRESS: the node stands in the queue. */
static int take_or_queue(struct wf_mutex *mutex, struct wf_wait_node *node, bool is_woken)
{
    const uintptr_t holder = (uintptr_t)node->item;
    const uintptr_t taken_off = is_woken ? WOKEN : 0;
    const bool has_waited_enough = node->count >= WF_MUTEX_LOSSES_MAX;
    bool is_taken;
    wf_lock_acquire(&mutex->queue.lock);
    uintptr_t word = wf_load_relaxed(&mutex->word); /* relaxed: the CAS decides */
    uintptr_t next;
    do { /* each lost one is a step of another */
        is_taken = holder_in(word) == 0;
        next = (word & ~taken_off) |
               (is_taken ? holder : WAITERS | (has_waited_enough ? (uintptr_t)HANDOVER : 0));
    } while (!wf_cas_acquire(&mutex->word, &word, next)); /* (M1) */
    if (!is_taken && is_woken) {
        wf_waitq_push_front(&mutex->queue, node);
    } else if (!is_taken) {
        wf_waitq_push(&mutex->queue, node);
    }
    wf_lock_release(&mutex->queue.lock);
    return is_taken ? hold(mutex, node->waiter.task) : -EINPROGRESS;
}

/* [the report of deadlocks] */
static const struct weft_task *holder_awaited(const struct wf_parting *parting)
{
    const struct wf_mutex *mutex =
        wf_container_of(wf_node_of(parting)->queue, struct wf_mutex, queue);
    return wf_holder_task(holder_in(wf_load_relaxed(&mutex->word))); /* relaxed: nothing runs */
}

int wf_mutex_begin(struct wf_mutex *mutex, struct wf_wait_node *node, uintptr_t holder)
{
    node->item = (void *)holder;
    node->pass_on = pass_on;
    node->parting.awaited = holder_awaited;
    return take_or_queue(mutex, node, false);
}

int wf_mutex_granted(struct wf_wait_node *node)
{
    struct wf_mutex *mutex = wf_container_of(node->queue, struct wf_mutex, queue);
    if (node->result == THE_MUTEX || take_spinning(mutex, (uintptr_t)node->item, WOKEN)) {
        return hold(mutex, node->waiter.task);
    }
    WF_REACHED("mutex.too_late");
    node->count++;
    wf_node_reset(node);
    return take_or_queue(mutex, node, true);
}

void wf_mutex_abandon(struct wf_wait_node *node)
{
    wf_waitq_abandon(node);
}

static __attribute__((noinline)) int lock_slowly(struct wf_mutex *mutex, struct weft_task *self,
                                                 uintptr_t holder)
{
    if (wf_mutex_is_held(mutex, holder)) {
        return -EDEADLK;
    }
    if (take_spinning(mutex, holder, 0)) {
        return hold(mutex, self);
    }
    int rc = self != NULL ? wf_interrupted(self) : 0;
    if (rc != 0) {
        return rc;
    }
    struct wf_wait_node node;
    wf_node_init(&node, self);
    rc = wf_mutex_begin(mutex, &node, holder);
    while (rc == -EINPROGRESS) { /* until it has it: see HANDOVER; or may not wait on */
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

/* [any]  A thread, or a task that has to let others run first. */
static __attribute__((noinline)) int lock_any(struct wf_mutex *mutex, struct weft_task *self)
{
    if (self != NULL) {
        wf_task_yield(self);
    }
    const uintptr_t holder = wf_holder_of(self);
    return take(mutex, holder, 0) ? hold(mutex, self) : lock_slowly(mutex, self, holder);
}

WF_ASKS_THREAD int weft_mutex_lock(weft_mutex *out)
{
    if (out == NULL) {
        return -EINVAL;
    }
    struct wf_mutex *mutex = mutex_of(out);
    struct weft_task *self = wf_task_here();
    if (__builtin_expect(self == NULL || !wf_has_spent(self), 0)) {
        return lock_any(mutex, self);
    }
    uintptr_t word = 0;
    if (wf_cas_acquire(&mutex->word, &word, (uintptr_t)self)) { /* (M1) */
        return hold(mutex, self);
    }
    return lock_slowly(mutex, self, (uintptr_t)self);
}

WF_ASKS_THREAD int weft_mutex_try_lock(weft_mutex *out)
{
    if (out == NULL) {
        return -EINVAL;
    }
    struct wf_mutex *mutex = mutex_of(out);
    struct weft_task *self = wf_task_here();
    if (self != NULL) {
        wf_spend(self); /* who tries in a loop must let the holder run */
    }
    const uintptr_t holder = wf_holder_of(self);
    if (take(mutex, holder, 0)) {
        return hold(mutex, self);
    }
    return wf_mutex_is_held(mutex, holder) ? -EDEADLK : -EAGAIN;
}

int weft_mutex_is_locked(const weft_mutex *out)
{
    if (out == NULL) {
        return -EINVAL;
    }
    const struct wf_mutex *mutex = (const struct wf_mutex *)(const void *)out;
    return holder_in(wf_load_relaxed(&mutex->word)) != 0 ? 1 : 0; /* relaxed: a look */
}
