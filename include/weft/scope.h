/* SPDX-License-Identifier: MIT */
/*
 * weft/scope.h - structured concurrency: tasks that cannot outlive a block of code.
 *
 *     weft_scope scope;
 *     weft_scope_open(&scope, NULL);
 *     weft_scope_go(&scope, work, arg);      any number, also from tasks of the scope
 *     int rc = weft_scope_close(&scope);     waits for all; the first error, else 0
 *
 * The first task that fails cancels the others, but not the owner, which is the task that opened
 * the scope; weft_scope_close returns the error.  The struct lies in the owner's frame, and the
 * owner must close the scope before it leaves that frame.  Scopes nest.  A task that returns with
 * an open scope ends the process with a message; weft_fail closes the task's scopes itself.
 */
#ifndef WEFT_SCOPE_H
#define WEFT_SCOPE_H

#include <weft/task.h>
#include <weft/types.h>

WEFT_BEGIN

typedef struct weft_scope_options {
    uint32_t size;
    /* The deadline of all tasks of the scope, and of the owner until it closes the scope.  If it is
     * 0 or later than the owner's deadline at the open, the owner's deadline counts. */
    weft_time deadline;
    char *message;       /* receives the weft_fail message of the first failed task, or "" */
    size_t message_size; /* bytes at `message` with the final '\0'; a longer message is truncated */
} weft_scope_options;

typedef struct weft_scope {
    uint64_t opaque[20];
} weft_scope;

/* Opens a scope owned by the calling green thread.  Never waits.  -EPERM: not inside a green
 * thread; -EINVAL: options of an unknown size. */
WEFT_API int weft_scope_open(weft_scope *scope, const weft_scope_options *options) WEFT_NONNULL(1);

/* Starts fn(arg) as a task of the scope, without a handle.  May be called by any task of the
 * owner's runtime while the scope is open.  -ECANCELED: the scope was cancelled; -EINVAL: the scope
 * is closed; -EPERM: not inside a task of the owner's runtime; -ENOMEM, -EAGAIN, -ESHUTDOWN: as
 * weft_spawn. */
WEFT_API int weft_scope_go(weft_scope *scope, weft_fn fn, void *arg) WEFT_NONNULL(1, 2);
/* weft_scope_go with the options of weft_spawn.  Errors: those of weft_scope_go and weft_spawn. */
WEFT_API int weft_scope_spawn(weft_scope *scope, weft_fn fn, void *arg,
                              const weft_task_options *options) WEFT_NONNULL(1, 2);

/* Cancels all tasks of the scope.  weft_scope_close then returns `error` (a negative errno), unless
 * an error came before.  May be called from any task or thread; does not wait.  -EINVAL: `error` is
 * not negative, or the scope is not open; no task was cancelled. */
WEFT_API int weft_scope_cancel(weft_scope *scope, int error) WEFT_NONNULL(1);

/* Waits for all tasks of the scope and closes it.  If the owner is cancelled or its deadline passes
 * meanwhile, the call cancels the tasks of the scope and still waits until all have ended.
 * Restores the deadline that the owner had at the open.  Returns 0 or the first error; -EPERM: the
 * caller is not the owner; -EINVAL: not the innermost open scope, or a cleanup that was pushed
 * after the open is not popped. */
WEFT_API int weft_scope_close(weft_scope *scope) WEFT_NONNULL(1);

/* Closes the scope if it is open and ignores its error: for
 * __attribute__((cleanup(weft_scope_auto_close))). */
WEFT_API void weft_scope_auto_close(weft_scope *scope) WEFT_NONNULL(1);

WEFT_END

#endif
