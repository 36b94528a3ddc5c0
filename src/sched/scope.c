/* SPDX-License-Identifier: MIT */
/*
 * sched/scope.c - tasks that cannot outlive a block of code.
 *
 * A scope lies in the frame of its owner.  Its tasks stand in a list under its lock, so that they
 * can be cancelled; the last to leave wakes the owner, under the lock, which the owner takes before
 * it looks whether all have gone: after that nobody knows the scope any more.
 *
 * An open scope is also a cleanup of its owner, so that weft_fail closes it.
 */
#include <errno.h>

#include "sched/sched.h"

struct wf_scope {
    struct wf_lock lock;
    struct wf_list tasks;    /* [lock] */
    struct weft_task *owner; /* [owner]  NULL: closed */
    struct wf_scope *outer;  /* [owner]  opened before */
    weft_cleanup cleanup;    /* [owner] */
    weft_time deadline;      /* [const] */
    weft_time old_deadline;  /* [owner]  of the owner, before */
    int32_t error;           /* [lock]  the first; 0: none */
    char *message;           /* [const]  where the message of the first goes; NULL: nowhere */
    size_t message_size;     /* [const] */
    bool is_cancelled;       /* [lock] */
    bool is_awaited;         /* [lock]  the owner waits */
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
    if (out == NULL ||
        (options != NULL && options->size != 0 && options->size != sizeof(*options))) {
        return -EINVAL;
    }
    if (self == NULL || self->body == WF_BODY_POLL) {
        return -EPERM;
    }
    struct wf_scope *scope = scope_of(out);
    weft_time deadline = wf_load_relaxed(&self->deadline); /* relaxed: our own */
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
        self->is_plain = false;
        wf_store_relaxed(&self->deadline, scope->deadline); /* relaxed: others only look */
    }
    self->open_scopes = scope;
    self->is_plain = false;
    weft_cleanup_push(&scope->cleanup, close_by_cleanup, scope);
    return 0;
}

/* [locked scope->lock]  May be said again: who came in between is asked too. */
static void cancel_locked(struct wf_scope *scope, int error)
{
    if (scope->error == 0) {
        scope->error = error;
    }
    scope->is_cancelled = true;
    for (struct wf_list *link = scope->tasks.next; link != &scope->tasks; link = link->next) {
        wf_task_cancel(wf_container_of(link, struct weft_task, scope_link));
    }
}

int weft_scope_spawn(weft_scope *out, weft_fn fn, void *arg, const weft_task_options *options)
{
    struct wf_scope *scope = out != NULL ? scope_of(out) : NULL;
    struct wf_worker *worker = wf_worker_self();
    if (scope == NULL || scope->owner == NULL) {
        return -EINVAL;
    }
    /* The owner's wait is one for tasks of its own runtime. */
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
    int rc = wf_task_spawn(worker->runtime, &spawn, &task); /* not placed yet */
    if (rc != 0) {
        return rc;
    }
    wf_store_relaxed(&task->deadline, scope->deadline); /* relaxed: it has not run */
    wf_lock_acquire(&scope->lock);
    bool is_refused = scope->is_cancelled;
    wf_list_push_back(&scope->tasks, &task->scope_link);
    wf_lock_release(&scope->lock);
    if (is_refused) {
        WF_REACHED("scope.spawned_too_late");
        (void)wf_state_cancel(&task->state); /* it is not queued: nothing to be woken */
        wf_task_abandon(task, -ECANCELED);
        return -ECANCELED;
    }
    wf_task_place(task);
    return 0;
}

int weft_scope_go(weft_scope *scope, weft_fn fn, void *arg)
{
    return weft_scope_spawn(scope, fn, arg, NULL);
}

int weft_scope_cancel(weft_scope *out, int error)
{
    struct wf_scope *scope = out != NULL ? scope_of(out) : NULL;
    if (scope == NULL || scope->owner == NULL || error >= 0) {
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
    if (result < 0 && !scope->is_cancelled) {
        (void)wf_message_copy(task, scope->message, scope->message_size); /* cut is fine */
        cancel_locked(scope, (int)result);
    }
    if (result < 0 && result == scope->error) {
        /* Whoever closes the scope gets it.  relaxed: (T3) orders it before the free. */
        (void)wf_fetch_or_relaxed(&task->marks, WF_MARK_OBSERVED);
    }
    if (wf_list_is_empty(&scope->tasks) && scope->is_awaited) {
        wf_task_wake(scope->owner);
    }
    wf_lock_release(&scope->lock);
}

/* [task]  Until all have left, whatever happens to the owner. */
static void wait_for_all(struct weft_task *self, struct wf_scope *scope)
{
    bool is_empty = false;
    int told = 0; /* what interrupted us, and we passed on */
    wf_wait_begin(self, WEFT_WAIT_SCOPE, scope);
    for (;;) { /* Ends when the last task has left; a task that is cancelled is expected to. */
        wf_lock_acquire(&scope->lock);
        is_empty = wf_list_is_empty(&scope->tasks);
        scope->is_awaited = true;
        int rc = wf_task_interrupted(self);
        if (!is_empty && rc != 0 && told == 0) {
            told = rc;
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
    wait_for_all(self, scope);
    self->open_scopes = scope->outer;
    wf_store_relaxed(&self->deadline, scope->old_deadline); /* relaxed: others only look */
    scope->owner = NULL;
    return scope->error;
}

int weft_scope_close(weft_scope *out)
{
    struct wf_scope *scope = out != NULL ? scope_of(out) : NULL;
    struct weft_task *self = wf_task_self();
    if (scope == NULL || scope->owner == NULL) {
        return -EINVAL;
    }
    if (scope->owner != self) {
        return -EPERM;
    }
    if (self->open_scopes != scope || self->cleanups != &scope->cleanup) {
        return -EINVAL;
    }
    weft_cleanup_pop(&scope->cleanup, 0);
    return close_innermost(self, scope);
}

void weft_scope_end(weft_scope *out)
{
    if (out != NULL && scope_of(out)->owner != NULL) {
        (void)weft_scope_close(out); /* the error was not wanted */
    }
}

/* The owner fails: what it began ends with it. */
static void close_by_cleanup(void *arg)
{
    struct wf_scope *scope = arg;
    wf_lock_acquire(&scope->lock);
    cancel_locked(scope, -ECANCELED);
    wf_lock_release(&scope->lock);
    (void)close_innermost(scope->owner, scope);
}
