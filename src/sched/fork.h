/* SPDX-License-Identifier: MIT */
/*
 * sched/fork.h - the forks of a task: what fork.c, board.c and those who suspend, end and look for
 * tasks have in common.
 *
 * Who synchronises with whom, as in sched.h:
 *
 *   K1    board.c offer: store           take: CAS                     the fork's record
 *   K2    board.c take: CAS              withdraw, offer: load         the task that took it
 *   K3    fork.c attach: store           steal: load                   the empty board
 *   K4    reactor.c: fence               fork.c hand_out: fence        one of both sees the other
 *   K5    fast.h enter: store current    fork.c forks_on: load         the memory of the task
 */
#ifndef WF_SCHED_FORK_H
#define WF_SCHED_FORK_H

#include "sched/sched.h"

/*
 * The forks of a task.  Records lie in the frames of those who forked, linked from the newest to
 * the oldest:
 *
 *     newest -> ... -> marked -> ... -> shared -> ... -> released -> ... -> NULL
 *     |                               |                |              |
 *     +--- private -------------------+--- open, or taken, or a task -+--- tasks
 *
 * The private part is the task's alone, and a fork or join there is a few plain instructions.  Of
 * the shared part each record lies open in a place of the board, or has the task that runs it, or
 * was taken back without a place (WF_FORK_KEPT).  From marked on, records are linked the other way
 * too, so that the oldest private ones are found without a walk each time.
 *
 * Invariants:
 *   I1  a record is in one place at the most; whoever changes the place from it, by CAS, has it
 *   I2  as long as there are private ones, one lies open or the task is asked: see fork.c
 */
struct weft_forks {
    /* [the task]  Each may be NULL: none. */
    weft_fork *newest;
    weft_fork *marked;                  /* it and all older ones have `newer` */
    weft_fork *shared;                  /* the newest that is not private */
    weft_fork *released;                /* the newest such that it and all older ones have tasks */
    weft_fork *oldest;                  /* if there is a marked one */
    struct weft_task *owner;            /* [const] */
    uint32_t position;                  /* where the next is offered, modulo WF_FORK_PLACES */
    weft_fork *records[WF_FORK_PLACES]; /* who was offered there last */

    /* What thieves read. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(uint32_t) asked; /* [any: write]  enum wf_fork_asked */
    WF_ATOMIC(uint32_t) first; /* [any: write]  where to look first: a hint */
    /* [the task: put] [any: CAS]  0: free; a record; or the task that took it, plus 1 */
    WF_ATOMIC(uintptr_t) places[WF_FORK_PLACES];
};

enum wf_fork_asked {
    WF_FORK_NOT_ASKED,
    WF_FORK_BY_ITSELF, /* nothing lies open: the next fork does */
    WF_FORK_BY_OTHERS, /* somebody found nothing */
};

/* What `place` of a record says that is in none. */
#define WF_FORK_KEPT UINT32_MAX

/* board.c  [the task]  Lays the record open; false: there is no place. */
bool wf_board_offer(struct weft_forks *forks, weft_fork *fork);
/* board.c  [the task]  Takes it back, if nobody took it; else gives who did. */
struct weft_task *wf_board_withdraw(struct weft_forks *forks, weft_fork *fork);
/* board.c  [any]  A place with an open record, and its word; 0: none. */
uintptr_t wf_board_look(struct weft_forks *forks, uint32_t *place);
/* board.c  [any]  Takes what look found; the record is the taker's then.  NULL: another has it. */
weft_fork *wf_board_take(struct weft_forks *forks, uint32_t place, uintptr_t word,
                         struct weft_task *taker);
/* board.c  [any]  Asks the task to lay something open. */
void wf_board_ask(struct weft_forks *forks);

/* fork.c  [the task]  It is about to be suspended: its forks become tasks. */
void wf_forks_release(struct weft_task *self);
/* fork.c  [the task]  Its frames are left without joins: nobody may have its forks after this. */
void wf_forks_cut(struct weft_task *self);
/* fork.c  [closer]  The same of a task that never runs again, nor do those that took its forks. */
void wf_forks_forget(struct weft_task *task);
/* fork.c  [owner, searching]  A task made of a fork of the one that runs on `victim`; or NULL. */
struct weft_task *wf_fork_steal(struct wf_worker *worker, struct wf_worker *victim);
/* fork.c  [any]  Whether it would find one. */
bool wf_fork_is_open(struct wf_worker *victim);
/* fork.c  [control]  Asks every task that runs. */
void wf_forks_ask_all(weft_runtime *runtime);

/* [the task]  NULL: it has not forked yet, or never does. */
static inline struct weft_forks *wf_forks_of(const struct weft_task *self)
{
    const struct wf_task_extra *extra = wf_load_relaxed(&self->extra); /* relaxed, both: our own */
    return extra != NULL ? wf_load_relaxed(&extra->forks) : NULL;
}

/* fork.c  Of threads that are no workers, of poll tasks, which cannot wait for forks, and of tasks
 * that have not forked yet: who finds these has to look closer. */
extern struct weft_forks wf_forks_outside;

/* [owner]  The forks of the one that goes on now; NULL: of the loop.  A fork finds them by one load
 * instead of three. */
static inline void wf_forks_enter(struct wf_worker *worker, const struct weft_task *task)
{
    struct weft_forks *forks = NULL;
    if (task != NULL && __builtin_expect(!task->is_plain, 0)) {
        forks = wf_forks_of(task);
    }
    worker->forks = forks != NULL ? forks : &wf_forks_outside;
}

/* [the task]  Whether it has forks that are not joined. */
static inline bool wf_has_forks(const struct weft_task *self)
{
    const struct weft_forks *forks = wf_forks_of(self);
    return forks != NULL && forks->newest != NULL;
}

/* task.c  [owner]  A task that is neither counted nor placed yet.  -ENOMEM. */
int wf_task_make(struct wf_worker *worker, const struct wf_spawn *spawn, struct weft_task **out);
/* task.c  [owner]  Takes it back, with the handle, in place of its being placed. */
void wf_task_unmake(struct wf_worker *worker, struct weft_task *task);
/* join.c  [task, holding a handle]  0: the task has ended; else why the caller may not wait. */
int wf_join_wait(struct weft_task *task);

#endif
