/* SPDX-License-Identifier: MIT */
/*
 * net/drain.c - the graceful end of a server: weft_scope_drain.
 *
 * The call closes the scope, which waits for its tasks.  A second task, the signal task, waits for
 * the signals meanwhile:
 *
 *   1  the first signal: it closes the listener and calls on_begin
 *   2  the second signal, or the end of the grace period: it cancels the scope
 *
 * When the scope is closed the call cancels the signal task and waits for its end, because the
 * signal task uses the frame of the call.
 */
#include <errno.h>
#include <signal.h>

#include "net/net.h"
#include "weft/signals.h"

/* The grace period, unless options say another. */
#define GRACE_NS (10 * WEFT_SECOND)
/* Between two checks for a signal, if there is no descriptor to wait with. */
#define RETRY_NS (10 * WEFT_MILLISECOND)

struct drain {
    weft_scope *scope;
    const weft_scope_drain_options *options;
    const sigset_t *signals;
    int listener;
    bool has_op; /* `op` keeps the number of the listener */
    struct wf_fd_op op;
    weft_task *signal_task; /* NULL: weft_await has taken the handle */
};

/* Closes the socket at once, and its number when the drain ends: a task may be about to accept from
 * the number, which must not belong to another descriptor then. */
static void listener_close(struct drain *drain)
{
    int rc = drain->listener >= 0 ? wf_fd_op_begin(&drain->op, drain->listener) : -EBADF;
    drain->has_op = rc == 0;
    if (rc != -EBADF) {
        (void)weft_close(drain->listener); /* no operation on it begins any more */
    }
    if (drain->has_op) {
        wf_fd_op_retire_socket(&drain->op);
    }
}

static void listener_release(struct drain *drain)
{
    if (drain->has_op) {
        wf_fd_op_end(&drain->op);
    }
}

/* [closer]  Neither the call nor its signal task is resumed. */
static void drain_undo(void *arg)
{
    struct drain *drain = arg;
    listener_release(drain);
    if (drain->signal_task != NULL) {
        wf_task_unref(drain->signal_task);
    }
}

/* Waits for a signal.  A server whose connections have taken every descriptor must end too: then it
 * checks for the signal every RETRY_NS. */
static int drain_wait_signal(const struct drain *drain)
{
    for (;;) { /* ends with a signal, or when the task is cancelled or out of time */
        int rc = weft_signal_wait(drain->signals, NULL);
        if (rc != -EMFILE && rc != -ENFILE && rc != -ENOMEM) {
            return rc;
        }
        WF_REACHED("drain.no_descriptor");
        rc = weft_sleep(RETRY_NS);
        if (rc != 0) {
            return rc;
        }
    }
}

/* The signal task.  The call cancels it when all tasks of the scope have ended. */
static intptr_t run_signal_task(void *arg)
{
    struct drain *drain = arg;
    const weft_scope_drain_options *options = drain->options;
    const int64_t grace_ns = options->grace_ns != 0 ? options->grace_ns : GRACE_NS;
    int rc = drain_wait_signal(drain);
    if (rc > 0) {
        listener_close(drain);
        if (options->on_begin != NULL) {
            options->on_begin(options->context, rc);
        }
        (void)weft_deadline_set(weft_time_after(grace_ns));
        rc = drain_wait_signal(drain);
        rc = rc > 0 ? -EINTR : rc;
    }
    if (rc != -ECANCELED) {
        (void)weft_scope_cancel(drain->scope, rc);
    }
    return 0;
}

int weft_scope_drain(weft_scope *scope, int listener, const weft_scope_drain_options *options)
{
    WF_NOT_NULL(scope, "weft_scope_drain: scope is NULL");
    static const weft_scope_drain_options defaults;
    static const weft_task_options names = {.name = "drain"};
    sigset_t storage;
    const struct weft_task *self = wf_task_self();
    options = options != NULL ? options : &defaults;
    if (self == NULL || self->body == WF_BODY_POLL) {
        return -EPERM;
    }
    if ((options->size != 0 && options->size != sizeof(*options)) || options->grace_ns < 0) {
        return -EINVAL;
    }
    struct drain drain = {.scope = scope,
                          .options = options,
                          .signals = wf_signals_or_default(options->signals, &storage),
                          .listener = listener};
    int rc = wf_signals_check(drain.signals);
    if (rc != 0) {
        return rc;
    }
    rc = weft_spawn(&drain.signal_task, run_signal_task, &drain, &names);
    if (rc != 0) {
        (void)weft_scope_cancel(scope, rc); /* no signal would ever end its tasks */
        (void)weft_scope_close(scope);
        return rc;
    }
    struct wf_undo_hook hook;
    wf_undo_hook_add(&hook, drain_undo, &drain);
    rc = weft_scope_close(scope);
    (void)weft_cancel(drain.signal_task);
    const bool is_shielded = weft_shield_begin() == 0; /* fails only if 255 shields are in place */
    weft_task *signal_task = drain.signal_task;
    drain.signal_task = NULL; /* the call takes the handle, and a hook of its own releases it */
    (void)weft_await(signal_task);
    wf_undo_hook_remove(&hook);
    if (is_shielded) {
        (void)weft_shield_end();
    }
    listener_release(&drain);
    return rc;
}
