/* SPDX-License-Identifier: MIT */
/*
 * weft/scope.h - structured concurrency: tasks that cannot outlive a block of code.
 *
 *     weft_scope scope;
 *     weft_scope_open(&scope, NULL);
 *     weft_scope_go(&scope, work, arg);      any number, from any task of the scope too
 *     int rc = weft_scope_close(&scope);     waits for all; the first error, else 0
 *
 * The first task that fails cancels the others; the owner hears of it by weft_scope_close, and is
 * not cancelled.  The struct lies in the frame of the task that opened it, which must close it
 * before the frame is left; scopes nest.  A task that returns with an open scope is stopped by a
 * check; weft_fail closes its scopes itself.
 */
#ifndef WEFT_SCOPE_H
#define WEFT_SCOPE_H

#include <weft/task.h>
#include <weft/types.h>

WEFT_BEGIN

typedef struct weft_scope_options {
    uint32_t size;
    /* Of all its tasks, and of the owner until close.  0, or later than the owner's: the owner's,
     * as it was when the scope was opened. */
    weft_time deadline;
    char *message;       /* gets the message of weft_fail of the task that failed first, or "" */
    size_t message_size; /* bytes there, the end included; a longer message is cut */
} weft_scope_options;

typedef struct weft_scope {
    uint64_t private_data[20];
} weft_scope;

/* -EPERM: not inside a task. */
WEFT_API int weft_scope_open(weft_scope *scope, const weft_scope_options *options);

/* Starts fn(arg) in the scope.  -ENOMEM, -EAGAIN: as weft_spawn; -ECANCELED: the scope was
 * cancelled; -EINVAL: it is closed; -EPERM: not inside a task of the owner's runtime. */
WEFT_API int weft_scope_go(weft_scope *scope, weft_fn fn, void *arg);
WEFT_API int weft_scope_spawn(weft_scope *scope, weft_fn fn, void *arg,
                              const weft_task_options *options);

/* Cancels all its tasks; `error` (a negative errno) is what close gives, unless there was an error
 * before.  From any task or thread.  -EINVAL: `error` is none, or the scope is not open; then
 * nobody was cancelled. */
WEFT_API int weft_scope_cancel(weft_scope *scope, int error);

/* Waits for all tasks, always, also if the caller is cancelled or out of time: then the tasks are
 * cancelled too.  The owner's deadline is again what it was when the scope was opened.  The first
 * error, else 0.  -EPERM: not the owner; -EINVAL: not the innermost open scope. */
WEFT_API int weft_scope_close(weft_scope *scope);

/* Closes it if it is open: for __attribute__((cleanup(weft_scope_end))). */
WEFT_API void weft_scope_end(weft_scope *scope);

WEFT_END

#endif
