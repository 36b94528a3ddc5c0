/* SPDX-License-Identifier: MIT */
/*
 * sync/sync.h - what tasks and threads wait for each other with.
 *
 * Promises:      no wake-up is lost and no grant: who was granted something and cannot take it any
 *                more passes it on.  Waiting allocates nothing.  Who came first is served first,
 *                but where a file says otherwise.
 * Must not know: I/O, processes.
 *
 *   queue     those who wait in one object, with its lock
 *   node      one who waits, in the frame of the wait or in a future
 *   grant     what the node waits for is given to it, by somebody else, under the lock of the queue
 *   claim     to win a node that stands in several queues at once: only one may grant it something
 *
 * Tags:  [locked] the caller holds the lock of the queue;  [waiter] who the node belongs to;
 *        [any] [task] as in sched.h.
 *
 * Who synchronises with whom (the letters are the labels in the code):
 *
 *   edge  from                           to                            carries
 *   Q1    waitq.c grant: store           is_granted: load              what the granter did before
 *   M1    mutex.c unlock: CAS            lock: CAS                     what was done under the lock
 *   W2    rwlock.c unlock: CAS, store    lock: CAS                     what was done under the lock
 *   E1    sem.c release: CAS, store      acquire: CAS                  what the releaser did before
 *   K1    spin.h release: store          acquire: exchange             what was done under the lock
 *   F1    notify.c keep: CAS, store      take, begin: CAS              what was done before it
 *   G1    group.c take_away: CAS         is_done, begin: load          what was done before it
 *   O1    once.c leave: CAS, store       is_done: load, begin: CAS     what was done once
 *   O2    once.c put: store              weft_cell_get: load           what the value points at
 */
#ifndef WF_SYNC_SYNC_H
#define WF_SYNC_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/base.h"
#include "os/os.h"
#include "sched/sched.h"
#include "sync/spin.h"

/* ---- the wait queue ------------------------------------------------------------------------ */

struct wf_wait_node;

/* All zeros is an empty one.  See waitq.c. */
struct wf_waitq {
    struct wf_lock lock;
    struct wf_wait_node *first; /* [locked]  who waits longest */
    struct wf_wait_node *last;  /* [locked] */
};

/* Whoever waits in several queues for the first that grants something. */
struct wf_selection {
    wf_atomic_i32 winner;    /* [any: CAS]  the `index` of the node that was claimed; -1: none */
    struct wf_waiter waiter; /* [const]  where a thread waits for all of them */
};

struct wf_wait_node {
    /* What a grant touches, and who is woken by it, together: they are mostly cold by then. */
    struct wf_wait_node *next;      /* [locked] */
    struct wf_wait_node *prev;      /* [locked] */
    struct wf_selection *selection; /* [const]  NULL: it stands in this queue only */
    struct wf_waiter waiter;        /* [const]  a task, green or not, or a thread */
    void *item;                     /* [const]  where something is handed over; up to the object */
    WF_ATOMIC(uint32_t) is_granted; /* [locked: write] [waiter: read] */
    int result;                     /* [granter: before the grant]  what the wait gives */
    uint32_t count;                 /* [locked]  of what is waited for; up to the object */
    bool is_queued;                 /* [locked] */
    struct wf_parting parting;

    struct wf_waitq *queue; /* [const]  while it waits */
    struct wf_spin *spin;   /* [const]  the lock, if it is not that of the queue; or NULL */
    int32_t index;          /* [const]  in the selection */

    /* [any, not locked]  Gives what was granted to the next, since the waiter cannot take it.
     * NULL: there is nothing to give. */
    void (*pass_on)(struct wf_wait_node *node);
    /* [locked]  The waiter has left the queue, without a grant.  NULL: nobody wants to know. */
    void (*left)(struct wf_wait_node *node);
};

/* [any]  Whose parting it is. */
static inline const struct wf_wait_node *wf_node_of(const struct wf_parting *parting)
{
    const char *address = (const char *)parting - offsetof(struct wf_wait_node, parting);
    return (const struct wf_wait_node *)(const void *)address;
}

/* [waiter]  A node of the calling task, or of the calling thread if `self` is NULL. */
void wf_node_init(struct wf_wait_node *node, struct weft_task *self);
/* [waiter]  It was granted something and is to wait once more. */
void wf_node_reset(struct wf_wait_node *node);

/* [locked]  To the end, or to the beginning for one that was woken and has to wait on. */
void wf_waitq_push(struct wf_waitq *queue, struct wf_wait_node *node);
void wf_waitq_push_front(struct wf_waitq *queue, struct wf_wait_node *node);

/* [locked]  Takes the first one out that nobody else has claimed; NULL: nobody waits.  The caller
 * must grant it something. */
struct wf_wait_node *wf_waitq_claim(struct wf_waitq *queue);
/* [locked]  The same for one that the caller has looked at; false: another queue has claimed it,
 * and it is out of this one. */
bool wf_waitq_claim_node(struct wf_waitq *queue, struct wf_wait_node *node);

/* [locked]  The claimed node has what it waits for.  It must not be touched any more.  Gives the
 * task to be woken by wf_task_wake, better without the lock; NULL: none, a thread is woken here. */
struct weft_task *wf_waitq_grant(struct wf_wait_node *node);

/* Those to be woken when the lock is open again.  All zeros: nobody. */
struct wf_wakes {
    unsigned count;
    struct weft_task *tasks[WF_WAKES_MAX];
};
/* [locked]  Grants the claimed node. */
void wf_wakes_add(struct wf_wakes *wakes, struct wf_wait_node *node);
/* [any]  In the order in which they were granted; better without the lock. */
void wf_wakes_do(struct wf_wakes *wakes);
/* [locked by `spin`]  Grants all who wait, with this result; who does not fit is woken here.  The
 * lock is open now and then meanwhile, and held at the end. */
void wf_wakes_grant_all(struct wf_wakes *wakes, struct wf_waitq *queue, struct wf_spin *spin,
                        int result);
/* [locked by `spin`]  The same, and wakes them all. */
void wf_waitq_grant_all(struct wf_waitq *queue, struct wf_spin *spin, int result);

/* [waiter]  Waits until it is granted: 0.  -ECANCELED, -ETIMEDOUT: it was not, and is out of the
 * queue.  The node was pushed; the queue is not locked.  `object` is what the dump shows. */
int wf_waitq_wait(struct wf_wait_node *node, enum weft_wait wait, const void *object,
                  int64_t until_ns);

/* [waiter]  Without waiting: what it waits for was given to it, and the granter is done with the
 * queue, which may be freed. */
bool wf_waitq_is_granted(const struct wf_wait_node *node);

/* [waiter]  Leaves the queue.  True: it was granted before, and the caller has what was granted. */
bool wf_waitq_leave(struct wf_wait_node *node);

/* [waiter]  Leaves for good: what was granted is passed on. */
void wf_waitq_abandon(struct wf_wait_node *node);

/* ---- what is built on it ------------------------------------------------------------------- */

/*
 * Each wait has three phases, so that it can be a function that waits or a future that is asked:
 *
 *   begin     the node is initialised.  0: what is wanted is there, and the node was not needed;
 *             -EINPROGRESS: the node stands in the queue
 *   granted?  wf_waitq_is_granted, unless there is a function of its own
 *   abandon   leaves it, whether or not it was granted, and sees to those who wait behind
 */

/* notify.c */
struct wf_notify {
    wf_atomic_u64 word;
    struct wf_waitq queue;
};
int wf_notify_begin(struct wf_notify *notify, struct wf_wait_node *node);

/* group.c  What is left to be done. */
struct wf_group {
    wf_atomic_u64 word; /* [any: CAS]  count << 1 | somebody waits */
    struct wf_waitq queue;
};
int wf_group_begin(struct wf_group *group, struct wf_wait_node *node);

/* barrier.c */
struct wf_barrier {
    struct wf_waitq queue;
    uint32_t count;                 /* [const]  that come together */
    uint32_t arrived;               /* [locked]  that have come */
    WF_ATOMIC(uint64_t) generation; /* [locked: write] [any: read] */
};
/* 1: all have come, and the caller is the leader. */
int wf_barrier_begin(struct wf_barrier *barrier, struct wf_wait_node *node);

/* once.c */
struct wf_once {
    wf_atomic_u64 word;
    struct wf_waitq queue;
    WF_ATOMIC(uintptr_t) owner; /* [who does it: write] [any: read]  its name; 0: nobody */
};
int wf_once_begin(struct wf_once *once, struct wf_wait_node *node);
/* [any]  What was done is seen. */
bool wf_once_is_done(const struct wf_once *once);
/* A value that is made once. */
struct wf_cell {
    struct wf_once once;
    WF_ATOMIC(void *) value; /* [who makes it: write] [any: read]  there, once it is not NULL */
};

/* [any]  For wf_backoff, of one who finds a lock taken and may queue instead.  More than
 * WF_BACKOFF_MAX: not at all, since nobody could let go meanwhile. */
static inline unsigned wf_backoff_first(void)
{
    const struct wf_worker *worker = wf_worker_self();
    return worker != NULL && worker->is_lone ? WF_BACKOFF_MAX + 1 : WF_BACKOFF_FIRST;
}

/* Who holds a lock: the address of a task, or what tells a thread from others, with this bit. */
#define WF_HOLDER_THREAD ((uintptr_t)8)
/* [any]  Of the calling task, or thread if it is NULL.  The bits below the one above are 0. */
static inline uintptr_t wf_holder_of(const struct weft_task *self)
{
    WEFT_ASSERT(((uintptr_t)self & (2 * WF_HOLDER_THREAD - 1)) == 0);
    return self != NULL ? (uintptr_t)self : wf_thread_key() | WF_HOLDER_THREAD;
}
/* [any]  NULL: it is a thread, or nobody. */
static inline const struct weft_task *wf_holder_task(uintptr_t holder)
{
    return (holder & WF_HOLDER_THREAD) == 0 ? (const struct weft_task *)holder : NULL;
}

/* mutex.c  See there. */
struct wf_mutex {
    struct wf_held held;       /* [who has it, if it is a task] */
    WF_ATOMIC(uintptr_t) word; /* [any: CAS]  who has it, and enum flag of mutex.c */
    struct wf_waitq queue;     /* of a node `count`: how often it was too late */
};
/* [waiter]  `holder` is the waiter's. */
int wf_mutex_begin(struct wf_mutex *mutex, struct wf_wait_node *node, uintptr_t holder);
/* [waiter]  The node was granted.  0: the mutex is locked; -EINPROGRESS: it waits on. */
int wf_mutex_granted(struct wf_wait_node *node);
/* [any, not locked] */
void wf_mutex_abandon(struct wf_wait_node *node);
/* [any]  By the caller. */
bool wf_mutex_is_held(const struct wf_mutex *mutex, uintptr_t holder);

/* sem.c  A number of permits.  See there. */
struct wf_sem {
    wf_atomic_u64 word;    /* [any: CAS]  permits << 1 | somebody waits */
    struct wf_waitq queue; /* `count` of a node: the permits it waits for */
};
/* [waiter] */
int wf_sem_begin(struct wf_sem *sem, struct wf_wait_node *node, uint32_t count);
/* [any, not locked] */
void wf_sem_abandon(struct wf_wait_node *node);

/* rwlock.c  See there. */
struct wf_rwlock {
    struct wf_held held;       /* [who writes, if it is a task] */
    WF_ATOMIC(uintptr_t) word; /* [any: CAS]  readers or who writes, and whether anybody waits */
    struct wf_waitq queue;     /* `count` of a node: whether it reads or writes */
    wf_atomic_u32 is_shared;   /* [any]  a hint: whether the last who came met others */
};
/* [waiter]  `holder` is the waiter's. */
int wf_rwlock_begin(struct wf_rwlock *rwlock, struct wf_wait_node *node, bool is_writer,
                    uintptr_t holder);
/* [waiter]  The node was granted: 0. */
int wf_rwlock_granted(struct wf_wait_node *node, struct wf_rwlock *rwlock);
/* [any, not locked] */
void wf_rwlock_abandon(struct wf_wait_node *node);
/* [any]  By the caller. */
bool wf_rwlock_is_written(const struct wf_rwlock *rwlock, uintptr_t holder);

/* cond.c  See there. */
struct wf_cond {
    WF_ATOMIC(uint32_t) waiting; /* [locked: write] [any: read]  somebody may wait */
    struct wf_waitq queue;
};
/* [waiter, who has the mutex]  It waits in any case. */
void wf_cond_begin(struct wf_cond *cond, struct wf_wait_node *node);

#endif
