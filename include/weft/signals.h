/* SPDX-License-Identifier: MIT */
/*
 * weft/signals.h - signals as events that tasks wait for, and the graceful shutdown of a server.
 *
 * Weft installs no handler for these signals (only for SIGSEGV and SIGBUS, to report the overflow
 * of a stack).  A signal that a task waits for must be blocked in every thread of the process; the
 * kernel then keeps the signal pending until a task or thread takes it.  The threads of a runtime
 * block all signals (except those that report a fault of the thread itself).  For the other threads
 * there is one rule:
 *
 *     weft_signals_block(&set) at the beginning of main, before any other thread is started.
 *
 * A new thread inherits the blocked signals from the thread that starts it.  A thread that was
 * started before must call weft_signals_block too.
 *
 * Only signals to the process are delivered here (kill, sigqueue, a timer, a terminal), not signals
 * to a thread (pthread_kill, raise).  A standard signal that arrives several times before it is
 * taken counts once; signals from SIGRTMIN on are queued, up to the sender's limit
 * (RLIMIT_SIGPENDING).
 *
 * <signal.h> declares no signal sets under -std=c11 alone: define _POSIX_C_SOURCE or _GNU_SOURCE.
 */
#ifndef WEFT_SIGNALS_H
#define WEFT_SIGNALS_H

#include <signal.h>

#include <weft/chan.h>
#include <weft/scope.h>
#include <weft/types.h>

WEFT_BEGIN

#if defined(SIG_BLOCK) && defined(SI_USER)

/*
 * Blocks these signals in the calling thread, and records that the process waits for them.  NULL:
 * SIGINT and SIGTERM.  It cannot be undone: a handler of the program for one of them does not run
 * any more.  Never waits.
 *
 * 0
 * -EINVAL   an empty set, or one that contains SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 *           SIGTRAP or SIGSYS, which cannot be kept pending
 * -EPERM    called inside a task, where it would have no effect
 */
WEFT_API int weft_signals_block(const sigset_t *set);

/*
 * Waits for one of these signals and takes it.  Returns its number, and its details in *info unless
 * `info` is NULL.  If several are pending, the lowest number comes first.  Several tasks and
 * threads may wait for the same signals or for others; each signal is taken by one of them.  A
 * signal that arrives while no task waits stays pending.
 *
 * -EINVAL      an empty set
 * -EPERM       one of them was never passed to weft_signals_block; or the caller is a non-worker
 *              thread that has not blocked one of them
 * -ECANCELED, -ETIMEDOUT   no signal was taken
 * -EAGAIN      in a poll task: none is pending
 * -EMFILE, -ENFILE, -ENOMEM   no descriptor to wait with
 */
WEFT_API int weft_signal_wait(const sigset_t *set, siginfo_t *info) WEFT_NONNULL(1);

/*
 * weft_signal_wait as a case of weft_select, for green threads.  The signal is taken only if the
 * case runs; its number is the `value` of the case.  *set and *info must stay valid until the
 * select has returned.  `result` is 0, -EMFILE, -ENFILE or -ENOMEM.  For an invalid set weft_select
 * itself returns -EINVAL or -EPERM, as weft_signal_wait does.
 */
WEFT_API weft_case weft_case_signal(const sigset_t *set, siginfo_t *info);

typedef struct weft_scope_drain_options {
    uint32_t size;
    const sigset_t *signals; /* the signals that begin the shutdown; NULL: SIGINT and SIGTERM */
    int64_t grace_ns;        /* grace period of the tasks; 0: 10 s; WEFT_NEVER: no limit */
    /* Called in a task of its own after the listener was closed, with the number of the signal: for
     * example to end connections that wait for their next request.  It may wait; the grace period
     * begins when it returns.  NULL: none. */
    void (*on_begin)(void *context, int number);
    void *context;
} weft_scope_drain_options;

/*
 * For a scope whose tasks serve until a signal comes: waits for the tasks and closes the scope, as
 * weft_scope_close does.  After the signal
 *
 *   1. the listener is closed: an accept returns -EBADF and new connections are refused (-1: there
 *      is no listener); its number is not reused before weft_scope_drain returns
 *   2. on_begin is called
 *   3. the tasks may end on their own, until the grace period is over or another signal comes
 *   4. the remaining tasks are cancelled and waited for
 *
 *     weft_signals_block(NULL);                        in main, before weft_run
 *     ...
 *     weft_scope_open(&scope, NULL);
 *     weft_scope_go(&scope, accept_loop, &server);     each connection another weft_scope_go
 *     int rc = weft_scope_drain(&scope, server.fd, NULL);
 *
 * A task of the scope that fails cancels the others, as in any scope.  So a connection should
 * return 0 even after an error, and so should a loop whose accept returned -EBADF.  After -EMFILE
 * or -ENFILE the loop should continue, or the server ends under its highest load (examples/http.c
 * has such a loop, and an on_begin that ends idle connections).  Without a signal weft_scope_drain
 * ends with the last task, and the listener stays open.  If no descriptor is free to wait for
 * signals, it checks for them every 10 ms.  Suspends the calling green thread, which must own the
 * scope.
 *
 * 0            all tasks ended on their own
 * -ETIMEDOUT   some tasks had to be cancelled after the grace period
 * -EINTR       some tasks had to be cancelled because another signal came
 * -EPERM       the signals were not passed to weft_signals_block; or as weft_scope_close
 * -EINVAL      invalid options or signals; or as weft_scope_close.  After -EPERM and -EINVAL the
 *              scope is unchanged and must be closed
 * else         the first error of the scope, or the error that prevented the wait for signals: then
 *              all tasks were cancelled
 */
WEFT_API int weft_scope_drain(weft_scope *scope, int listener,
                              const weft_scope_drain_options *options) WEFT_NONNULL(1);

#endif

WEFT_END

#endif
