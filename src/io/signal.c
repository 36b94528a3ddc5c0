/* SPDX-License-Identifier: MIT */
/*
 * io/signal.c - signals that tasks wait for, and servers that end by one.
 *
 * The signals are blocked everywhere, so they stay with the process until somebody takes them.  A
 * task takes one by sigtimedwait, which does not wait; if there is none it opens a signalfd, for as
 * long as it waits, and only to be told when to try again: nothing is ever read from it.  So there
 * is no queue of ours in which a signal could be lost when a task is cancelled, and no state
 * between two waits.
 *
 * Rejected: one signalfd for all who wait, with a task behind it that hands signals out (it would
 * take what nobody waits for, and keep it); a read of the signalfd (less is known of the signal).
 */
#include <errno.h>
#include <signal.h>

#include "io/io.h"
#include "os/sys.h"
#include "sched/fast.h"
#include "weft/signals.h"

/* The signals of the kernel: bit n - 1 is signal n. */
#define SIGNALS 64

/* [any: or]  Those that the process waits for; relaxed: numbers. */
static WF_ATOMIC(uint64_t) announced;

static uint64_t bits_of(const sigset_t *set)
{
    uint64_t bits = 0;
    for (int number = 1; number <= SIGNALS; number++) {
        bits |= (uint64_t)(sigismember(set, number) == 1) << (number - 1);
    }
    return bits;
}

static uint64_t bit_of(int number)
{
    return (uint64_t)1 << (number - 1);
}

static const sigset_t *or_usual(const sigset_t *set, sigset_t *usual)
{
    (void)sigemptyset(usual); /* none of these fails for signals that exist */
    (void)sigaddset(usual, SIGINT);
    (void)sigaddset(usual, SIGTERM);
    return set != NULL ? set : usual;
}

/* Signals that no thread can wait for: some end the process in any case, some are its faults. */
static uint64_t impatient(void)
{
    return bit_of(SIGKILL) | bit_of(SIGSTOP) | bit_of(SIGSEGV) | bit_of(SIGBUS) | bit_of(SIGFPE) |
           bit_of(SIGILL) | bit_of(SIGTRAP) | bit_of(SIGSYS);
}

int weft_signals_block(const sigset_t *set)
{
    sigset_t usual;
    set = or_usual(set, &usual);
    const uint64_t bits = bits_of(set);
    if (bits == 0 || (bits & impatient()) != 0) {
        return -EINVAL;
    }
    if (wf_task_self() != NULL) {
        return -EPERM;
    }
    wf_sys_signals_block(set);
    (void)wf_fetch_or_relaxed(&announced, bits);
    return 0;
}

/* ---- waiting ------------------------------------------------------------------------------- */

int wf_signals_check(const sigset_t *set)
{
    const uint64_t bits = set != NULL ? bits_of(set) : 0;
    if (bits == 0) {
        return -EINVAL;
    }
    return (bits & ~wf_load_relaxed(&announced)) == 0 ? 0 : -EPERM;
}

bool wf_signals_are_pending(const sigset_t *set)
{
    sigset_t pending;
    wf_sys_signals_pending(&pending);
    return (bits_of(set) & bits_of(&pending)) != 0;
}

/* [thread] */
static int wait_in_thread(const sigset_t *set, siginfo_t *info)
{
    sigset_t blocked;
    wf_sys_signals_blocked(&blocked);
    return (bits_of(set) & ~bits_of(&blocked)) == 0 ? wf_sys_signal_wait(set, info) : -EPERM;
}

/* [green]  There was none just now. */
static int wait_in_task(const sigset_t *set, siginfo_t *info)
{
    const int fd = wf_sys_signalfd(set);
    if (fd < 0) {
        return fd;
    }
    int rc;
    struct wf_belonging belonging;
    wf_belonging_begin_fd(&belonging, fd);
    do { /* another may take what this one was woken for */
        rc = weft_poll_fd(fd, POLLIN);
        rc = rc >= 0 ? wf_sys_signal_take(set, info) : rc;
    } while (rc == -EAGAIN);
    wf_belonging_end(&belonging);
    (void)weft_close(fd); /* nothing is lost with it */
    return rc;
}

int weft_signal_wait(const sigset_t *set, siginfo_t *info)
{
    struct weft_task *self = wf_task_self();
    int rc = wf_signals_check(set);
    if (rc != 0) {
        return rc;
    }
    if (self == NULL) {
        return wait_in_thread(set, info);
    }
    rc = wf_sys_signal_take(set, info);
    if (rc == -EAGAIN && self->body != WF_BODY_POLL) {
        return wait_in_task(set, info);
    }
    wf_spend(self);
    return rc;
}

/* ---- the end of a server ------------------------------------------------------------------- */

#define PATIENCE_NS (10 * WEFT_SECOND)
#define LOOK_NS (10 * WEFT_MILLISECOND)

struct drain {
    weft_scope *scope;
    const weft_drain_options *options;
    const sigset_t *signals;
    int listener;
    bool is_held; /* the number of the listener, by `use` */
    struct wf_use use;
    weft_task *watcher;
};

/* The socket is closed; its number, not before the drain has ended: a task may be about to accept
 * from it, and would do so from whatever had the number then. */
static void close_listener(struct drain *drain)
{
    int rc = drain->listener >= 0 ? wf_use_begin(&drain->use, drain->listener) : -EBADF;
    drain->is_held = rc == 0;
    if (rc != -EBADF) {
        (void)weft_close(drain->listener); /* nobody enters any more */
    }
    if (drain->is_held) {
        (void)wf_sys_replace(drain->use.poller->call_fd, drain->listener); /* or it closes later */
    }
}

static void let_go_of_listener(struct drain *drain)
{
    if (drain->is_held) {
        wf_use_end(&drain->use);
    }
}

/* [closer]  Neither the drain nor its watcher goes on. */
static void forget_drain(void *what)
{
    struct drain *drain = what;
    let_go_of_listener(drain);
    wf_task_unref(drain->watcher);
}

/* A server whose connections have taken every descriptor is told to end all the same: then it looks
 * for the signal now and then. */
static int wait_for_signal(const struct drain *drain)
{
    for (;;) { /* until there is one, or the task is cancelled or out of time */
        int rc = weft_signal_wait(drain->signals, NULL);
        if (rc != -EMFILE && rc != -ENFILE && rc != -ENOMEM) {
            return rc;
        }
        WF_REACHED("signal.no_descriptor");
        rc = weft_sleep(LOOK_NS);
        if (rc != 0) {
            return rc;
        }
    }
}

/* Waits for the first signal, and then for the second, with an end.  It is cancelled when all tasks
 * have gone. */
static intptr_t watch(void *arg)
{
    struct drain *drain = arg;
    const weft_drain_options *options = drain->options;
    const int64_t patience_ns = options->patience_ns != 0 ? options->patience_ns : PATIENCE_NS;
    int rc = wait_for_signal(drain);
    if (rc > 0) {
        close_listener(drain);
        if (options->on_begin != NULL) {
            options->on_begin(options->context, rc);
        }
        (void)weft_deadline(weft_in(patience_ns));
        rc = wait_for_signal(drain);
        rc = rc > 0 ? -EINTR : rc;
    }
    if (rc != -ECANCELED) {
        (void)weft_scope_cancel(drain->scope, rc);
    }
    return 0;
}

int weft_drain(weft_scope *scope, int listener, const weft_drain_options *options)
{
    static const weft_drain_options defaults;
    static const weft_task_options names = {.name = "drain"};
    sigset_t usual;
    const struct weft_task *self = wf_task_self();
    options = options != NULL ? options : &defaults;
    if (self == NULL || self->body == WF_BODY_POLL) {
        return -EPERM;
    }
    if (scope == NULL || (options->size != 0 && options->size != sizeof(*options)) ||
        options->patience_ns < 0) {
        return -EINVAL;
    }
    struct drain drain = {.scope = scope,
                          .options = options,
                          .signals = or_usual(options->signals, &usual),
                          .listener = listener};
    int rc = wf_signals_check(drain.signals);
    if (rc != 0) {
        return rc;
    }
    rc = weft_spawn(&drain.watcher, watch, &drain, &names);
    if (rc != 0) {
        (void)weft_scope_cancel(scope, rc); /* nothing would ever stop its tasks */
        (void)weft_scope_close(scope);
        return rc;
    }
    struct wf_belonging belonging;
    wf_belonging_begin(&belonging, forget_drain, &drain);
    rc = weft_scope_close(scope);
    (void)weft_cancel(drain.watcher);
    const bool is_shielded = weft_shield(1) == 0; /* it works with our frame; else behind 255 */
    (void)weft_await(drain.watcher);
    wf_belonging_end(&belonging);
    if (is_shielded) {
        (void)weft_shield(0);
    }
    let_go_of_listener(&drain);
    return rc;
}
