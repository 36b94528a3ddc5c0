/* SPDX-License-Identifier: MIT */
/*
 * task/owned_lock.h - the locks that a task owns.
 *
 * If a task ended with a lock, the waiters for that lock would wait forever.  So a task has a list
 * of the locks that it owns, linked through the locks; no other task touches it.  When the task
 * ends, in any way, the locks that are left are released (life/attachments.c).
 *
 * The head of the list shares its memory with the result: a task that has a result owns no lock any
 * more.
 */
#ifndef WF_TASK_OWNED_LOCK_H
#define WF_TASK_OWNED_LOCK_H

#include "task/task.h"

/* The first member of every kind of lock that a task can own.  A task that ends releases all locks
 * that it still owns. */
struct wf_owned_lock {
    struct wf_owned_lock *next; /* [the task]  the lock taken before this one; NULL: none */
    struct wf_owned_lock *prev; /* [the task]  the lock taken after; stale in the newest lock */
    /* [the task, closer]  Unlocks for a task that ends.  The caller has removed the lock from the
     * task's list. */
    void (*release)(struct wf_owned_lock *owned, struct weft_task *task);
};

/* A list through the locks, newest first, linked in both directions: a lock is removed in O(1),
 * also if it is not the newest.  Each store before a locked instruction delays that instruction, so
 * a field that already has the right value is not written.  `prev` of the newest lock is never
 * read; it is written when a newer lock is added. */

/* [the task]  Adds a lock that the task has just taken. */
static inline void wf_owned_lock_add(struct weft_task *self, struct wf_owned_lock *owned,
                                     void (*release)(struct wf_owned_lock *owned,
                                                     struct weft_task *task))
{
    struct wf_owned_lock *newest = self->owned_locks;
    /* One branch for the usual case: the task owns no other lock (newest is NULL), and neither did
     * the task that took this lock last (next is still NULL). */
    if (((uintptr_t)owned->next | (uintptr_t)newest) != 0) {
        owned->next = newest;
        if (newest != NULL) {
            newest->prev = owned;
        }
    }
    if (owned->release != release) {
        owned->release = release;
    }
    self->owned_locks = owned;
}

/* [the task, closer]  Removes a lock that the task owns. */
static inline void wf_owned_lock_remove(struct weft_task *self, struct wf_owned_lock *owned)
{
    struct wf_owned_lock *next = owned->next;
    if (self->owned_locks == owned) {
        self->owned_locks = next;
        return;
    }
    struct wf_owned_lock *prev = owned->prev;
    WEFT_ASSERT(prev->next == owned);
    prev->next = next;
    if (next != NULL) {
        next->prev = prev;
    }
}

#endif
