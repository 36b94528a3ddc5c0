/* SPDX-License-Identifier: MIT */
/*
 * io/signal.c - signals that tasks wait for.
 *
 * The signals are blocked in every thread, so they stay pending until a task or a thread takes
 * them.  A task takes one by sigtimedwait with timeout 0.  If none is pending it opens a signalfd
 * for the time of the wait, to be notified when to try again; nothing is ever read from it.  So
 * there is no queue of ours in which a cancelled task could lose a signal, and no state between two
 * waits.
 *
 * Rejected: one signalfd for all tasks, with a task behind it that distributes the signals (it
 * would take signals that no task waits for, and keep them); a read of the signalfd (it reports
 * less of the signal).
 */
#include <errno.h>
#include <signal.h>

#include "future/future.h"
#include "io/io.h"
#include "os/sys.h"
#include "weft/signals.h"

/* The signals of the kernel: bit n - 1 is signal n. */
#define SIGNALS 64

/* [any: or]  The signals that weft_signals_block was called for.  relaxed: it publishes nothing. */
static WF_ATOMIC(uint64_t) blocked_signals;

static uint64_t signal_bits(const sigset_t *set)
{
    uint64_t bits = 0;
    for (int number = 1; number <= SIGNALS; number++) {
        bits |= (uint64_t)(sigismember(set, number) == 1) << (number - 1);
    }
    return bits;
}

static uint64_t signal_bit(int number)
{
    return (uint64_t)1 << (number - 1);
}

const sigset_t *wf_signals_or_default(const sigset_t *set, sigset_t *storage)
{
    if (set != NULL) {
        return set;
    }
    (void)sigemptyset(storage); /* none of these fails for signals that exist */
    (void)sigaddset(storage, SIGINT);
    (void)sigaddset(storage, SIGTERM);
    return storage;
}

/* Signals that cannot be waited for: two cannot be blocked, the others report a thread's fault. */
static uint64_t unwaitable_signals(void)
{
    return signal_bit(SIGKILL) | signal_bit(SIGSTOP) | signal_bit(SIGSEGV) | signal_bit(SIGBUS) |
           signal_bit(SIGFPE) | signal_bit(SIGILL) | signal_bit(SIGTRAP) | signal_bit(SIGSYS);
}

int weft_signals_block(const sigset_t *set)
{
    sigset_t storage;
    set = wf_signals_or_default(set, &storage);
    const uint64_t bits = signal_bits(set);
    if (bits == 0 || (bits & unwaitable_signals()) != 0) {
        return -EINVAL;
    }
    if (wf_task_self() != NULL) {
        return -EPERM;
    }
    wf_sys_signals_block(set);
    (void)wf_fetch_or_relaxed(&blocked_signals, bits);
    return 0;
}

/* ---- waiting ------------------------------------------------------------------------------- */

int wf_signals_check(const sigset_t *set)
{
    const uint64_t bits = set != NULL ? signal_bits(set) : 0;
    if (bits == 0) {
        return -EINVAL;
    }
    return (bits & ~wf_load_relaxed(&blocked_signals)) == 0 ? 0 : -EPERM;
}

bool wf_signals_are_pending(const sigset_t *set)
{
    sigset_t pending;
    wf_sys_signals_pending(&pending);
    return (signal_bits(set) & signal_bits(&pending)) != 0;
}

/* [non-worker thread] */
static int signal_wait_thread(const sigset_t *set, siginfo_t *info)
{
    sigset_t blocked;
    wf_sys_signals_blocked(&blocked);
    return (signal_bits(set) & ~signal_bits(&blocked)) == 0 ? wf_sys_signal_wait(set, info)
                                                            : -EPERM;
}

/* [green thread]  None was pending a moment ago. */
static int signal_wait_task(const sigset_t *set, siginfo_t *info)
{
    const int fd = wf_sys_signalfd(set);
    if (fd < 0) {
        return fd;
    }
    int rc;
    struct wf_undo_hook hook;
    wf_undo_hook_add(&hook, wf_fd_open_undo, (void *)(intptr_t)fd);
    do { /* another task may take the signal that this one was woken for */
        rc = weft_fd_wait(fd, POLLIN);
        rc = rc >= 0 ? wf_sys_signal_take(set, info) : rc;
    } while (rc == -EAGAIN);
    wf_undo_hook_remove(&hook);
    (void)weft_close(fd); /* no data is lost with it */
    return rc;
}

int weft_signal_wait(const sigset_t *set, siginfo_t *info)
{
    WF_NOT_NULL(set, "weft_signal_wait: set is NULL");
    struct weft_task *self = wf_task_self();
    int rc = wf_signals_check(set);
    if (rc != 0) {
        return rc;
    }
    if (self == NULL) {
        return signal_wait_thread(set, info);
    }
    rc = wf_sys_signal_take(set, info);
    if (rc == -EAGAIN && self->body != WF_BODY_POLL) {
        return signal_wait_task(set, info);
    }
    wf_budget_spend(self);
    return rc;
}
