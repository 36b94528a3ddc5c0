/* SPDX-License-Identifier: MIT */
/*
 * life/scope.c - scopes: tasks that cannot outlive a block of code.
 *
 * A scope is in the frame of its owner.  Its tasks are in a list under its lock, so that they can
 * be cancelled.  The last task that leaves wakes the owner under the lock, and the owner takes the
 * lock to see that the list is empty.  So no task uses the scope after the owner has left its
 * frame.
 *
 * The first failure cancels the other tasks.  weft_scope_close reports it, so it counts as
 * observed; so do later failures: they come from tasks that were cancelled, or that ran out of time
 * together with the scope.
 *
 * An open scope is also a cleanup of its owner, so weft_fail closes it.
 */
#include <errno.h>

#include "life/life.h"

struct wf_scope {
    struct wf_lock lock;
    struct wf_list tasks;    /* [lock] */
    struct weft_task *owner; /* [owner]  NULL: closed */
    struct wf_scope *outer;  /* [owner]  the scope opened before it; NULL: none */
    weft_cleanup cleanup;    /* [owner] */
    weft_time deadline;      /* [const] */
    weft_time old_deadline;  /* [owner]  that of the owner before the scope was opened */
    int32_t error;           /* [lock]  the first one; 0: none */
    char *message;           /* [const]  gets the message of the first failure; or NULL */
    size_t message_size;     /* [const] */
    bool is_cancelled;       /* [lock] */
    bool is_awaited;         /* [lock]  the owner waits: the last task wakes it */
};

_Static_assert(sizeof(struct wf_scope) <= sizeof(weft_scope), "it fits");
_Static_assert(alignof(struct wf_scope) <= alignof(weft_scope), "it fits");

static struct wf_scope *scope_of(weft_scope *scope)
{
    return (struct wf_scope *)(void *)scope;
}

static void close_by_cleanup(void *arg);

int weft_scope_open(weft_scope *out, const weft_scope_options *options)
{
    struct weft_task *self = wf_task_self();
    WF_NOT_NULL(out, "weft_scope_open: scope is NULL");
    if (options != NULL && options->size != 0 && options->size != sizeof(*options)) {
        return -EINVAL;
    }
    if (self == NULL || self->body == WF_BODY_POLL) {
        return -EPERM;
    }
    struct wf_scope *scope = scope_of(out);
    weft_time deadline = wf_load_relaxed(&self->deadline); /* relaxed: the owner's own */
    *scope = (struct wf_scope){
        .owner = self, .outer = self->open_scopes, .deadline = deadline, .old_deadline = deadline};
    if (options != NULL && options->message != NULL && options->message_size > 0) {
        scope->message = options->message;
        scope->message_size = options->message_size;
        scope->message[0] = '\0';
    }
    wf_lock_init(&scope->lock, WF_RANK_SCOPE);
    wf_list_init(&scope->tasks);
    if (options != NULL && options->deadline != 0 && options->deadline < deadline) {
        scope->deadline = options->deadline;
        self->is_bare = false;
        wf_store_relaxed(&self->deadline, scope->deadline); /* relaxed: others only read it */
    }
    self->open_scopes = scope;
    self->is_bare = false;
    weft_cleanup_push(&scope->cleanup, close_by_cleanup, scope);
    return 0;
}

/* [locked scope->lock]  Cancels all tasks of the scope; `error` counts if it is the first.  May be
 * called again: tasks that were spawned meanwhile are cancelled too. */
static void cancel_locked(struct wf_scope *scope, int error)
{
    if (wf_plain_load(&scope->error) == 0) {
        wf_plain_store(&scope->error, error);
    }
    wf_plain_store(&scope->is_cancelled, true);
    for (struct wf_list *link = scope->tasks.next; link != &scope->tasks; link = link->next) {
        wf_task_cancel(wf_container_of(link, struct weft_task, scope_link));
    }
}

int weft_scope_spawn(weft_scope *out, weft_fn fn, void *arg, const weft_task_options *options)
{
    WF_NOT_NULL(out, "weft_scope_spawn: scope is NULL");
    WF_NOT_NULL(fn, "weft_scope_spawn: fn is NULL");
    struct wf_scope *scope = scope_of(out);
    struct wf_worker *worker = wf_worker_self();
    if (scope->owner == NULL) {
        return -EINVAL;
    }
    /* The owner's wait counts as one for tasks of its own runtime (quiescence.c). */
    if (worker == NULL || worker->pool != scope->owner->pool) {
        return -EPERM;
    }
    const struct wf_spawn spawn = {.fn = fn,
                                   .arg = arg,
                                   .options = options,
                                   .site = __builtin_return_address(0),
                                   .scope = scope,
                                   .has_handle = false};
    struct weft_task *task;
    int rc = wf_task_spawn(worker->runtime, &spawn, &task); /* not queued yet */
    if (rc != 0) {
        return rc;
    }
    wf_store_relaxed(&task->deadline, scope->deadline); /* relaxed: the task is not queued yet */
    wf_lock_acquire(&scope->lock);
    bool is_refused = wf_plain_load(&scope->is_cancelled);
    wf_list_push_back(&scope->tasks, &task->scope_link);
    wf_lock_release(&scope->lock);
    if (is_refused) {
        WF_REACHED("scope.spawned_too_late");
        (void)wf_state_cancel(&task->state); /* the task is not queued: no wake is needed */
        wf_task_abandon(task, -ECANCELED);
        return -ECANCELED;
    }
    wf_task_place(task);
    return 0;
}

int weft_scope_go(weft_scope *scope, weft_fn fn, void *arg)
{
    WF_NOT_NULL(scope, "weft_scope_go: scope is NULL");
    WF_NOT_NULL(fn, "weft_scope_go: fn is NULL");
    return weft_scope_spawn(scope, fn, arg, NULL);
}

int weft_scope_cancel(weft_scope *out, int error)
{
    WF_NOT_NULL(out, "weft_scope_cancel: scope is NULL");
    struct wf_scope *scope = scope_of(out);
    if (scope->owner == NULL || error >= 0) {
        return -EINVAL;
    }
    wf_lock_acquire(&scope->lock);
    cancel_locked(scope, error);
    wf_lock_release(&scope->lock);
    return 0;
}

const struct weft_task *wf_scope_first(struct wf_scope *scope)
{
    wf_lock_acquire(&scope->lock);
    struct wf_list *first = scope->tasks.next;
    bool is_empty = first == &scope->tasks;
    wf_lock_release(&scope->lock);
    return is_empty ? NULL : wf_container_of(first, struct weft_task, scope_link);
}

void wf_scope_leave(struct weft_task *task, intptr_t result)
{
    struct wf_scope *scope = task->scope;
    wf_lock_acquire(&scope->lock);
    wf_list_remove(&task->scope_link);
    if (result < 0 && !wf_plain_load(&scope->is_cancelled)) {
        (void)wf_message_copy(task, scope->message, scope->message_size); /* it may be cut */
        cancel_locked(scope, (int)result);
    }
    if (result < 0) {
        /* weft_scope_close reports the first failure.  relaxed: (task.T3) orders this store before
         * the free. */
        (void)wf_fetch_or_relaxed(&task->marks, WF_TASK_OBSERVED);
    }
    if (wf_list_is_empty(&scope->tasks) && wf_plain_load(&scope->is_awaited)) {
        wf_task_wake(wf_plain_load(&scope->owner));
    }
    wf_lock_release(&scope->lock);
}

/* [task]  Waits until all tasks have left.  A cancellation or a timeout of the owner cancels them,
 * and does not end the wait. */
static void scope_wait_all(struct weft_task *self, struct wf_scope *scope)
{
    bool is_empty = false;
    int passed_on =
        0; /* the error that interrupted the owner, and with which it cancelled the tasks */
    wf_wait_begin(self, WEFT_WAIT_SCOPE, scope);
    for (;;) { /* Ends when the last task has left; a cancelled task is expected to end. */
        wf_lock_acquire(&scope->lock);
        is_empty = wf_list_is_empty(&scope->tasks);
        wf_plain_store(&scope->is_awaited, true);
        int rc = wf_task_interrupted(self);
        if (!is_empty && rc != 0 && passed_on == 0) {
            passed_on = rc;
            cancel_locked(scope, rc);
        }
        wf_lock_release(&scope->lock);
        if (is_empty) {
            break;
        }
        wf_task_suspend(self);
    }
    wf_wait_end(self);
}

static int close_innermost(struct weft_task *self, struct wf_scope *scope)
{
    scope_wait_all(self, scope);
    self->open_scopes = scope->outer;
    wf_store_relaxed(&self->deadline, scope->old_deadline); /* relaxed: others only read it */
    scope->owner = NULL;
    return scope->error;
}

int weft_scope_close(weft_scope *out)
{
    WF_NOT_NULL(out, "weft_scope_close: scope is NULL");
    struct wf_scope *scope = scope_of(out);
    struct weft_task *self = wf_task_self();
    if (scope->owner == NULL) {
        return -EINVAL;
    }
    if (scope->owner != self) {
        return -EPERM;
    }
    if (self->open_scopes != scope || self->cleanups != &scope->cleanup) {
        return -EINVAL;
    }
    weft_cleanup_pop(&scope->cleanup, false);
    return close_innermost(self, scope);
}

void weft_scope_auto_close(weft_scope *out)
{
    WF_NOT_NULL(out, "weft_scope_auto_close: scope is NULL");
    if (scope_of(out)->owner != NULL) {
        (void)weft_scope_close(out); /* this form of close has no result */
    }
}

/* [the owner]  It fails: cancels the tasks of the scope and waits for them. */
static void close_by_cleanup(void *arg)
{
    struct wf_scope *scope = arg;
    wf_lock_acquire(&scope->lock);
    cancel_locked(scope, -ECANCELED);
    wf_lock_release(&scope->lock);
    (void)close_innermost(scope->owner, scope);
}
