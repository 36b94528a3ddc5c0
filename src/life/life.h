/* SPDX-License-Identifier: MIT */
/*
 * life/life.h - the life of a task: spawn, join, scope, failure, end.
 *
 * Promises:      A task that is spawned ends exactly once, and its joiners are woken.  What it has
 *                attached (locals, owned locks, its place in a scope) is released before.  A
 *                failure that no caller sees is reported.  Spawns respect the limits of the
 *                runtime.
 * Must not know: which task runs where and when; forks, futures, reports of deadlocks.  Where the
 *                end of a task concerns these, it calls wf_upcalls (sched/sched.h).
 *
 * Edges, with the functions named without their wf_ prefix:
 *
 *   edge      from (file function: operation)    to                           carries
 *   life.Q1   limit.c wake: fence                wait: fence                  one sees the other
 */
#ifndef WF_LIFE_LIFE_H
#define WF_LIFE_LIFE_H

#include "sched/wait.h"

/* ---- spawn and end ------------------------------------------------------------------------- */

/* The arguments of a spawn. */
struct wf_spawn {
    weft_fn fn;
    void *arg;
    const weft_task_options *options; /* NULL: defaults */
    const void *site;
    struct wf_scope *scope; /* NULL: none */
    bool has_handle;
    /* Makes the task a poll task: see future/poll.c.  -ENOMEM.  NULL: it is a green thread. */
    int (*poll_init)(struct weft_task *task, const struct wf_spawn *spawn);
    size_t state_size; /* of a poll task: bytes of its state, at `arg` */
};

/* spawn.c  [the task]  The error of the task's last weft_go that failed; -ENOMEM also if none has
 * failed.  It is kept in the upper four bits of `marks`. */
int wf_spawn_error(const struct weft_task *self);

/* spawn.c  [any]  Creates a task, gives it in *out, and makes it ready; a task of a scope is made
 * ready by the scope.  *out is a handle if spawn->has_handle.  A task may suspend for admission.
 * -EINVAL: bad options; -EAGAIN: at a limit; -ENOMEM; -ESHUTDOWN: the runtime closes; -ECANCELED,
 * -ETIMEDOUT: the caller was interrupted while it waited for admission. */
int wf_task_spawn(weft_runtime *runtime, const struct wf_spawn *spawn, struct weft_task **out);
/* spawn.c  [any]  Calls wf_task_spawn, with its errors, for a call of the user.  Sets
 * spawn->has_handle: the task has a handle, in *out, unless `out` is NULL or the options detach it.
 */
int wf_task_spawn_out(weft_runtime *runtime, struct weft_task **out, struct wf_spawn *spawn);
/* end.c  [the task]  Ends the task: releases what it has, stores the result, wakes the joiners.
 * The caller must not touch the task any more.  Returns the worker on which it ended. */
struct wf_worker *wf_task_finish(struct weft_task *task, intptr_t result);
/* end.c  [any]  Ends a task that cannot begin to run, or is suspended and never resumed. */
void wf_task_abandon(struct weft_task *task, intptr_t result);
/* end.c  [any, before the pool is closed]  Takes a reference to the task with this id, which the
 * caller saw in this memory.  False: that task has ended; nothing was done. */
bool wf_task_try_ref(struct weft_task *task, uint64_t id);
/* end.c  [any]  Releases a reference.  The last one frees the task. */
void wf_task_unref(struct weft_task *task);
/* end.c  [any]  As wf_task_unref, with the caller's worker; NULL: a non-worker thread. */
void wf_task_unref_on(struct wf_worker *worker, struct weft_task *task);

/* spawn.c  [owner]  Makes a task that is neither counted nor queued yet.  -ENOMEM. */
int wf_task_make(struct wf_worker *worker, const struct wf_spawn *spawn, struct weft_task **out);
/* end.c  [owner; NULL: any]  Ends a task that is filled but will never be counted or queued.  Other
 * threads may have found it by its id and taken a reference: for them the task was cancelled. */
void wf_task_withdraw(struct wf_worker *worker, struct weft_task *task, bool has_handle);
/* end.c  [owner]  Frees such a task and its handle, instead of queueing it. */
void wf_task_unmake(struct wf_worker *worker, struct weft_task *task);
/* join.c  [task, holding a handle]  Waits for the end of the task; suspends.  0: the task has
 * ended; otherwise the reason why the caller may not wait, such as -ECANCELED. */
int wf_join_wait(struct weft_task *task);

/* ---- joiners ------------------------------------------------------------------------------- */

/* A waiter for the end of a task, perhaps of the first of several: see join.c. */
struct wf_joiner {
    struct wf_joiner *next;   /* [lock] */
    struct wf_joiner *prev;   /* [lock]  so that it leaves in O(1) */
    struct wf_waiter *waiter; /* [const] */
    wf_atomic_i32 *winner; /* [const]  takes the `index` of the first task to end; NULL: one task */
    int32_t index;         /* [const] */
    bool is_listed;        /* [lock] */
};

/* join.c  [any, with a handle]  Enters the list: the waiter is woken when the task ends.  False:
 * the task has ended. */
bool wf_joiner_enter(struct weft_task *task, struct wf_joiner *joiner);
/* join.c  [joiner]  Leaves the list, if it is there.  The joiner may be freed after this. */
void wf_joiner_leave(struct weft_task *task, struct wf_joiner *joiner);
/* join.c  [any]  The result of a task that has ended, which then counts as observed. */
intptr_t wf_join_observe(struct weft_task *task);
/* join.c  [weft_run]  Waits for the end of the first task.  -EDEADLK: a deadlock was found, and the
 * task has not ended. */
int wf_join_main(weft_runtime *runtime, struct weft_task *task);
/* join.c  [loop, control thread]  A deadlock was found: ends the wait in wf_join_main. */
void wf_join_main_break(weft_runtime *runtime);
/* join.c  The locks of the lists of joiners.  The address of the awaited task selects the lock. */
extern struct wf_lock wf_join_locks[WF_JOIN_LOCKS];
/* join.c  [owner]  Wakes the joiners in the list of a task that has ended: see wf_state_share. */
void wf_joiners_wake(struct weft_task *task);

/* ---- attachments and scopes ----------------------------------------------------------------- */

/* attachments.c  [the task, closer]  The task ends: releases the locks that it owns, and notes
 * them as a failure. */
void wf_owned_locks_release(struct weft_task *task);
/* attachments.c  [the task]  Destroys its task-local values. */
void wf_locals_done(struct weft_task *task);

/* scope.c  [the task]  The task ends with this result, and leaves its scope. */
void wf_scope_leave(struct weft_task *task, intptr_t result);
/* scope.c  [any]  A task of the scope; NULL: it has none. */
const struct weft_task *wf_scope_first(struct wf_scope *scope);

/* ---- failures ------------------------------------------------------------------------------- */

/* fail.c  [the task]  Runs the cleanups that are left. */
void wf_cleanups_run(struct weft_task *task);
/* fail.c  [any]  Copies the message of a task that has ended or is about to end.  Returns its
 * length without the terminating 0. */
size_t wf_message_copy(const struct weft_task *task, char *text, size_t text_size);
/* fail.c  [any]  Notes that the task failed and no caller has read its result.  The caller is about
 * to free the task.  Without memory for a record only the number is kept. */
void wf_failure_note(struct wf_task_pool *pool, struct weft_task *task);
/* fail.c  [the task, closer]  Notes that the task ended while it held `count` locks; `object` is
 * the newest. */
void wf_failure_note_owned(struct weft_task *task, const void *object, size_t count);
/* fail.c  [loop, monitor, closer]  Reports all failures that were noted: calls the failure hook, or
 * prints. Returns at once if another thread does so. */
void wf_failures_report(weft_runtime *runtime);
/* fail.c  [any]  True if there are failures to report. */
bool wf_failures_are_noted(struct wf_task_pool *pool);

/* ---- limits --------------------------------------------------------------------------------- */

enum wf_limit_kind {
    WF_LIMIT_TASKS, /* tasks_max */
    WF_LIMIT_QUEUE, /* global_capacity */
    WF_LIMIT_KINDS,
};

/* Tasks and threads whose spawn waits for admission: see limit.c. */
struct wf_limits {
    struct wf_lock lock;
    struct wf_list waiters[WF_LIMIT_KINDS];      /* [lock] */
    WF_ATOMIC(uint32_t) waiting[WF_LIMIT_KINDS]; /* [lock: write] [any: read]  their number */
    WF_ATOMIC(uint64_t) live; /* [any: add]  live tasks; counted only if tasks_max is set */
};

/* limit.c  [opener]  No task is alive and none waits. */
void wf_limits_init(struct wf_limits *limits);
/* limit.c  [any]  Counts one more live task.  At tasks_max it waits if the options say spawn_waits,
 * and fails otherwise.  A task suspends while it waits.  -EAGAIN: at the limit; -ESHUTDOWN: the
 * runtime closes; -ECANCELED, -ETIMEDOUT: the caller was interrupted. */
int wf_limit_admit(weft_runtime *runtime);
/* limit.c  [any]  Counts one live task less, and wakes a waiter. */
void wf_limit_release(weft_runtime *runtime);
/* limit.c  [any]  Waits until the runtime may be below this limit, or closes; the caller must check
 * again.  A task suspends, a thread sleeps.  -ECANCELED, -ETIMEDOUT: the task was interrupted. */
int wf_limit_wait(weft_runtime *runtime, enum wf_limit_kind kind);
/* limit.c  [any]  The number that this limit bounds has fallen by `count`: wakes up to `count`
 * waiters. */
void wf_limit_wake(weft_runtime *runtime, enum wf_limit_kind kind, size_t count);
/* limit.c  [closer]  Wakes all waiters.  The runtime is closing: a later waiter sees that. */
void wf_limit_close(weft_runtime *runtime);

#endif
