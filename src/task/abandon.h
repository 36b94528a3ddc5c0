/* SPDX-License-Identifier: MIT */
/*
 * task/abandon.h - abandon hooks: what must be undone if a task never runs again.
 *
 * A forced close takes the stacks of tasks that do not end in time.  A call whose wait leaves
 * something behind in another object, or that has taken something over from its caller, registers a
 * hook before it suspends and removes it when it goes on.  The close runs the hooks of the tasks
 * that are left, newest first.  Sleeps, scopes and blocking jobs need none: the close clears the
 * timer of each task, takes the task out of its scope, and has joined the threads of the blocking
 * pool before that.
 *
 * The forced close may also come while a task yields.  So a call that may yield for its budget does
 * so while it owns nothing, or has a hook.  The same goes for a function of the user that a call
 * runs: it may wait, yield, or call weft_fail, which runs the hooks too.
 */
#ifndef WF_TASK_ABANDON_H
#define WF_TASK_ABANDON_H

#include "task/task.h"

/* What must be undone if a task never runs again.  Usually a node of the task must leave the queue
 * of an object that may outlive the task.  The hook is in the frame of the call that waits, or in a
 * future. */
struct wf_abandon_hook {
    struct wf_abandon_hook *next; /* [the task] */
    struct wf_abandon_hook *prev; /* [the task] */

    /* [closer, the task]  Undoes what the hook was registered for: usually takes the node out of
     * the object's queue.  Called when the task never runs again, or ends while it has the hook,
     * after the hook was removed from the task. */
    void (*abandon)(struct wf_abandon_hook *hook);
    /* [the report of deadlocks]  Returns the task that holds the lock for which the hook's task
     * waits; NULL: unknown.  `blocked_on` itself is NULL if the wait is not for a lock. */
    const struct weft_task *(*blocked_on)(const struct wf_abandon_hook *hook);
};

/* [the task]  Adds a hook. */
static inline void wf_abandon_hook_add(struct weft_task *self, struct wf_abandon_hook *hook)
{
    hook->prev = NULL;
    hook->next = self->abandon_hooks;
    if (self->abandon_hooks != NULL) {
        self->abandon_hooks->prev = hook;
    }
    self->abandon_hooks = hook;
    self->is_bare = false;
}

/* [the task, closer]  Removes a hook. */
static inline void wf_abandon_hook_remove(struct weft_task *self, struct wf_abandon_hook *hook)
{
    if (hook->next != NULL) {
        hook->next->prev = hook->prev;
    }
    if (hook->prev != NULL) {
        hook->prev->next = hook->next;
    } else {
        self->abandon_hooks = hook->next;
    }
}

/* [the task]  As wf_abandon_hook_add, for a hook that the same call removes before it returns; does
 * not clear is_bare. */
static inline void wf_abandon_hook_enter(struct weft_task *self, struct wf_abandon_hook *hook)
{
    const bool is_bare = self->is_bare;
    wf_abandon_hook_add(self, hook);
    self->is_bare = is_bare;
}

/* [the task, closer]  Removes and runs all hooks of the task, newest first. */
static inline void wf_abandon_hooks_run(struct weft_task *task)
{
    struct wf_abandon_hook *hook;
    while ((hook = task->abandon_hooks) != NULL) {
        wf_abandon_hook_remove(task, hook); /* first: the hook may free its own memory */
        hook->abandon(hook);
    }
}

#endif
