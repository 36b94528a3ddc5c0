/* SPDX-License-Identifier: MIT */
/*
 * fork/fork.h - forks: calls that another worker may run, recorded in the caller's frame.
 *
 * Promises:      A fork that no thief takes costs a call.  A fork runs once, as a whole, and its
 *                owner knows where.  A task that suspends or ends leaves no fork behind.
 * Must not know: how a thief finds its victim; futures, reports.
 *
 * Edges between threads, with the functions named without their wf_ prefix; (sched.K4) and
 * (sched.K5) are in sched.h:
 *
 *   edge      from                           to                             carries
 *   fork.K1   fork_shared.c expose: store    take: CAS                      the fork's record
 *   fork.K2   fork_shared.c take: CAS        retract, expose: load          the thief's task
 *   fork.K3   fork.c attach: store           forks_on: load                 the empty split deque
 */
#ifndef WF_FORK_FORK_H
#define WF_FORK_FORK_H

#include <weft/par_fork.h>

#include "life/life.h"

/*
 * The forks of a task: a split deque.  The records are in the frames of the functions that forked,
 * linked from the newest to the oldest:
 *
 *     newest -> ... -> marked -> ... -> shared -> ... -> released -> ... -> NULL
 *     |                                |                |                  |
 *     +--- private part ---------------+--- shared part: exposed, stolen --+
 *                                      |    or retracted                   |
 *                                      |                +--- all tasks ----+
 *
 * Only the owner, the task itself, uses the private part: a fork or join there is a few plain
 * instructions.  A record of the shared part is exposed in a slot, or has the task that runs it,
 * or the owner has retracted it and it has no slot (WF_FORK_KEPT).  From `marked` to the oldest
 * the records are also linked from old to new, so that the owner finds the oldest private forks
 * without a walk over all forks each time.
 *
 * Invariants:
 *   I1  a record is in at most one slot; the thread that replaces it there, by CAS, owns the fork
 *   I2  as long as there are private forks, a fork is exposed or a request is set: see fork.c
 */
struct weft_par_forks {
    /* [the task]  Each may be NULL: none. */
    weft_par_fork *newest;
    weft_par_fork *marked;   /* the newest of the linked forks: all older ones have `newer` */
    weft_par_fork *shared;   /* the newest fork of the shared part */
    weft_par_fork *released; /* the newest such that it and all older forks have tasks */
    weft_par_fork *oldest;   /* valid if `marked` is not NULL */
    struct weft_task *owner; /* [const] */
    uint32_t position;       /* slot of the next exposed fork, modulo WF_FORK_SHARED_MAX */
    weft_par_fork *records[WF_FORK_SHARED_MAX]; /* the fork that was last exposed in each slot */

    /* The cache line that thieves read. */
    /* [any: write]  The request: enum wf_fork_requested; in wf_forks_outside
     *               WEFT_PAR_FORKS_AT_ONCE. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(uint32_t) requested;
    WF_ATOMIC(uint32_t) first; /* [any: write]  the slot that a thief reads first: a hint */
    /* [the task: store] [any: CAS]  The slots.  0: free; a record; or the thief's task plus 1. */
    WF_ATOMIC(uintptr_t) exposed[WF_FORK_SHARED_MAX];
};

enum wf_fork_requested {
    WF_FORK_NOT_REQUESTED,
    WF_FORK_BY_OWNER, /* no fork is exposed: the owner must expose the next one */
    WF_FORK_BY_THIEF, /* a thief found no exposed fork */
};

/* `place` of a record that has no slot. */
#define WF_FORK_KEPT UINT32_MAX

/* fork_shared.c  [the task]  Exposes the fork in the next slot.  False: the slot still holds an
 * exposed fork; nothing was done. */
bool wf_fork_expose(struct weft_par_forks *forks, weft_par_fork *fork);
/* fork_shared.c  [the task]  Retracts an exposed fork and frees its slot.  NULL: the caller owns
 * the fork.  Otherwise a thief took it: returns the thief's task, whose handle the caller owns. */
struct weft_task *wf_fork_retract(struct weft_par_forks *forks, weft_par_fork *fork);
/* fork_shared.c  [any]  Finds a slot with an exposed fork and returns the slot's word; 0: there is
 * none.  A hint: wf_fork_take decides. */
uintptr_t wf_fork_peek(struct weft_par_forks *forks, uint32_t *slot);
/* fork_shared.c  [any]  Takes the fork that wf_fork_peek found, to be run by the task `taker`.
 * NULL: another thread took it first; nothing was done. */
weft_par_fork *wf_fork_take(struct weft_par_forks *forks, uint32_t slot, uintptr_t word,
                            struct weft_task *taker);
/* fork_shared.c  [any]  Requests that the owner exposes forks. */
void wf_fork_request(struct weft_par_forks *forks);

/* fork.c  [the task]  Makes a task of each of its forks, because it is about to be suspended.  If
 * there is no memory for a task, the fork stays a fork.  Does nothing for a task of
 * WF_BODY_GREEN_FP, or while the runtime closes. */
void wf_forks_release(struct weft_task *self);
/* fork.c  [the task]  Drops its forks, because its frames are left without joins.  Cancels those
 * that thieves took, and waits for their end. */
void wf_forks_cut(struct weft_task *self);
/* fork.c  [closer]  Drops the forks of a task that never runs again, and the handles of the tasks
 * that took them, which never run again either.  Does not wait. */
void wf_forks_forget(struct weft_task *task);
/* fork.c  [owner, searching]  Steals a fork of the task that runs on `victim` and returns a new
 * task for it, ready to run.  NULL: no fork is exposed (the thief has requested one), another thief
 * was faster, there is no memory, or the runtime is closing. */
struct weft_task *wf_fork_steal(struct wf_worker *worker, struct wf_worker *victim);
/* fork.c  [any]  Whether the task that runs on `victim` has an exposed fork.  A hint. */
bool wf_fork_is_open(struct wf_worker *victim);
/* fork.c  [control thread]  Requests forks of every task that runs. */
void wf_forks_request_all(weft_runtime *runtime);

/* fork.c  Stands for the forks of non-worker threads, of poll tasks, which cannot wait for forks,
 * of tasks that have not forked yet, and of tasks for whose forks there is no memory.  A caller
 * that finds it takes the slow path. */
extern struct weft_par_forks wf_forks_outside;

#endif
