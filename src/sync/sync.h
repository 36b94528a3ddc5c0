/* SPDX-License-Identifier: MIT */
/*
 * sync/sync.h - how tasks and threads wait for each other: locks, events, channels.
 *
 * Promises:      no wake-up and no grant is lost: a waiter that was granted something and cannot
 *                take it any more passes it on.  A wait allocates nothing.  Waiters are served in
 *                the order of their arrival, unless a file says otherwise.
 * Must not know: I/O, processes.
 *
 *   queue     the waiters of one object, with its lock
 *   node      one waiter in a queue, in the frame of the wait or in a future
 *   grant     the granter gives the node what it waits for, under the lock of the queue
 *   claim     wins a node that is in several queues at once: only one granter may grant it
 *
 * Tags:  [locked] the caller holds the lock of the queue;  [waiter] the task or thread to which
 *        the node belongs;  [granter] the thread that claimed the node;  [holder] the task or
 *        thread that holds the lock;  [any] [task] [the task] [closer] as in sched.h.
 *
 * Edges:
 *
 *   edge     from                          to                          carries
 *   sync.Q1  waitq.h grant: store          is_granted: load            what the granter did before
 *   sync.M1  mutex.c unlock: CAS           lock: CAS                   what the holder did
 *   sync.W1  rwlock.c unlock: CAS, store   lock: CAS                   what the holders did
 *   sync.E1  sem.c release: CAS, store     acquire: CAS                what the releaser did before
 *   sync.K1  spin.h release: store         acquire: exchange           what the holder did
 *   sync.K2  chan.c, broadcast.c, watch.c  drop: the last subtraction  every use before the free
 *            drop: subtraction
 *   sync.F1  notify.c keep: CAS, store     take, begin: CAS            what the notifier did before
 *   sync.G1  group.c subtract: CAS         is_done, begin: load        what the finisher did before
 *   sync.O1  once.c leave: CAS, store      is_done: load, begin: CAS   what the function did
 *   sync.S1  oneshot.c unlock: store       lock: exchange, state: load what the last holder of the
 *                                                                      word did
 */
#ifndef WF_SYNC_SYNC_H
#define WF_SYNC_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/base.h"
#include "future/future.h"
#include "os/os.h"
#include "sync/spin.h"
#include "sync/waitq.h"

/* ---- objects ------------------------------------------------------------------------------- */

/*
 * Each wait has three phases, so that it can be a blocking call or a future:
 *
 *   begin     The caller has initialised the node.  0: the wait succeeded at once, and the node was
 *             not queued; -EINPROGRESS: the node is in the queue
 *   granted?  wf_waitq_is_granted, unless the object has a function of its own
 *   abandon   Leaves the queue, passes on what was granted, and serves the waiters behind
 */

/* notify.c  At most one permit. */
struct wf_notify {
    wf_atomic_u64 word; /* [any: CAS]  see notify.c */
    struct wf_waitq queue;
};
/* [waiter]  0: took the permit; -EINPROGRESS. */
int wf_notify_begin(struct wf_notify *notify, struct wf_wait_node *node);

/* group.c  A count of unfinished work. */
struct wf_group {
    wf_atomic_u64 word; /* [any: CAS]  count << 1 | has waiters */
    struct wf_waitq queue;
};
/* [waiter]  0: the count is 0; -EINPROGRESS. */
int wf_group_begin(struct wf_group *group, struct wf_wait_node *node);

/* barrier.c  A number of waiters that wait for each other. */
struct wf_barrier {
    struct wf_waitq queue;
    uint32_t count;                 /* [const]  waiters that open it */
    uint32_t arrived;               /* [locked]  waiters that have arrived */
    WF_ATOMIC(uint64_t) generation; /* [locked: write] [any: read] */
};
/* [waiter]  1: the caller arrived last, and all others are granted; -EINPROGRESS. */
int wf_barrier_begin(struct wf_barrier *barrier, struct wf_wait_node *node);

/* once.c  A function that runs once. */
struct wf_once {
    wf_atomic_u64 word; /* [any: CAS]  see once.c */
    struct wf_waitq queue;
    WF_ATOMIC(uintptr_t) owner; /* [runner: write] [any: read]  the runner; 0: none */
};
/* [waiter]  0: it is done; 1: the caller must run the function; -EINPROGRESS: another runner does.
 */
int wf_once_begin(struct wf_once *once, struct wf_wait_node *node);
/* [any]  True: the function has run, and the caller sees what it did. */
bool wf_once_is_done(const struct wf_once *once);
/* once.c  A value that is made once. */
struct wf_cell {
    struct wf_once once;
    WF_ATOMIC(void *) value; /* [runner: write] [any: read]  NULL: not made yet */
};

/* [any]  The first `hints` for wf_backoff, for a caller that found a lock taken and may queue
 * instead.  More than WF_BACKOFF_MAX: the caller must not spin, since no other worker runs that
 * could release the lock. */
static inline unsigned wf_backoff_first(void)
{
    const struct wf_worker *worker = wf_worker_self();
    return worker != NULL && worker->is_single ? WF_BACKOFF_MAX + 1 : WF_BACKOFF_FIRST;
}

/* The holder of a lock as a word: the address of a task, or the key of a thread with this bit. */
#define WF_HOLDER_THREAD ((uintptr_t)8)
/* [any]  The word of the calling task, or of the calling thread if `self` is NULL.  The bits below
 * WF_HOLDER_THREAD are 0. */
static inline uintptr_t wf_holder_of(const struct weft_task *self)
{
    WEFT_ASSERT(((uintptr_t)self & (2 * WF_HOLDER_THREAD - 1)) == 0);
    return self != NULL ? (uintptr_t)self : wf_thread_key() | WF_HOLDER_THREAD;
}
/* [any]  The task of a holder's word.  NULL: a thread, or no holder. */
static inline const struct weft_task *wf_holder_task(uintptr_t holder)
{
    return (holder & WF_HOLDER_THREAD) == 0 ? (const struct weft_task *)holder : NULL;
}

/* mutex.c */
struct wf_mutex {
    struct wf_owned_lock owned; /* [holder, if it is a task] */
    WF_ATOMIC(uintptr_t) word;  /* [any: CAS]  the holder, and enum flag of mutex.c */
    struct wf_waitq queue;      /* `count` of a node: how often it lost the mutex */
};
/* [waiter]  0: the mutex is locked; -EINPROGRESS.  `holder` is the waiter's word. */
int wf_mutex_begin(struct wf_mutex *mutex, struct wf_wait_node *node, uintptr_t holder);
/* [waiter]  The node was granted.  0: the mutex is locked; -EINPROGRESS: the waiter was overtaken,
 * and is in the queue again. */
int wf_mutex_granted(struct wf_wait_node *node);
/* [waiter, closer]  Leaves the queue, and passes on what was granted. */
void wf_mutex_abandon(struct wf_wait_node *node);
/* [any]  True: `holder`, which is the caller's word, has the mutex. */
bool wf_mutex_is_held(const struct wf_mutex *mutex, uintptr_t holder);

/* sem.c  A number of permits. */
struct wf_sem {
    wf_atomic_u64 word;    /* [any: CAS]  permits << 1 | has waiters */
    struct wf_waitq queue; /* `count` of a node: the permits that it wants */
};
/* [waiter]  0: has the permits; -EINPROGRESS. */
int wf_sem_begin(struct wf_sem *sem, struct wf_wait_node *node, uint32_t count);
/* [waiter, closer]  Leaves the queue, passes on what was granted, and serves the waiters behind. */
void wf_sem_abandon(struct wf_wait_node *node);

/* rwlock.c */
struct wf_rwlock {
    struct wf_owned_lock owned; /* [the writer, if it is a task] */
    WF_ATOMIC(uintptr_t) word;  /* [any: CAS]  readers or the writer, and has waiters */
    struct wf_waitq queue;      /* `count` of a node: enum access of rwlock.c */
    wf_atomic_u32 is_shared;    /* [any]  a hint: the last lock found other holders */
};
/* [waiter]  0: the lock is held; -EINPROGRESS.  `holder` is the waiter's word. */
int wf_rwlock_begin(struct wf_rwlock *rwlock, struct wf_wait_node *node, bool is_writer,
                    uintptr_t holder);
/* [waiter]  The node was granted, and the lock is held: 0. */
int wf_rwlock_granted(struct wf_wait_node *node, struct wf_rwlock *rwlock);
/* [waiter, closer]  Leaves the queue, passes on what was granted, and serves the waiters behind. */
void wf_rwlock_abandon(struct wf_wait_node *node);
/* [any]  True: `holder`, which is the caller's word, writes. */
bool wf_rwlock_is_written(const struct wf_rwlock *rwlock, uintptr_t holder);

/* cond.c */
struct wf_cond {
    WF_ATOMIC(uint32_t) waiting; /* [locked: write] [any: read]  there may be waiters */
    struct wf_waitq queue;
};
/* [waiter, holder of the mutex]  Puts the node into the queue in any case. */
void wf_cond_begin(struct wf_cond *cond, struct wf_wait_node *node);

#endif
