/* SPDX-License-Identifier: MIT */
/*
 * weft/signals.h - signals as events that tasks wait for, and the orderly end of a server.
 *
 * Weft installs no handler.  A signal that is waited for has to be blocked in every thread of the
 * process: then the kernel keeps it until somebody takes it.  The threads of a runtime have all
 * signals blocked (but for those that report a fault of the thread itself); for the others there is
 * one rule:
 *
 *     weft_signals_block(&set) at the beginning of main, before any other thread is started.
 *
 * Threads inherit it.  A thread that was started before calls it, too.
 *
 * Only signals to the process come here, by kill, sigqueue, a timer, a terminal; not those to a
 * thread, by pthread_kill or raise.  A standard signal that comes again before it is taken is one;
 * the ones from SIGRTMIN on are counted, up to the limit of the sender (RLIMIT_SIGPENDING).
 *
 * <signal.h> has no sets of signals under -std=c11 alone: define _POSIX_C_SOURCE or _GNU_SOURCE.
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
 * Blocks these signals in the calling thread, and notes that the process waits for them.  NULL:
 * SIGINT and SIGTERM.  For good: a handler of the program for one of them never runs any more.
 *
 * 0
 * -EINVAL   an empty set, or one of SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
 *           SIGSYS, which cannot wait
 * -EPERM    inside of a task, where it would be of no use
 */
WEFT_API int weft_signals_block(const sigset_t *set);

/*
 * Waits for one of these signals and takes it: its number, and what is known of it in *info (or
 * NULL).  Of several the one with the lowest number comes first.  Several may wait, for the same
 * signals or others; each signal is taken by one.  Nothing is lost while nobody waits.
 *
 * -EINVAL      NULL or an empty set
 * -EPERM       one of them was never given to weft_signals_block; or the caller, a thread that is
 *              no worker, has one of them not blocked
 * -ECANCELED, -ETIMEDOUT   and then none was taken
 * -EAGAIN      in a poll task: there is none now
 * -EMFILE, -ENFILE, -ENOMEM   no descriptor to wait with
 */
WEFT_API int weft_signal_wait(const sigset_t *set, siginfo_t *info);

/*
 * The same as a case of weft_select, for green threads.  The signal is taken if the case runs, and
 * only then; its number is the `value` of the case.  Both objects have to stay until the select has
 * returned.  `result`: 0, or -EMFILE, -ENFILE, -ENOMEM; what weft_signal_wait says of bad sets,
 * weft_select does.
 */
WEFT_API weft_case weft_case_signal(const sigset_t *set, siginfo_t *info);

typedef struct weft_drain_options {
    uint32_t size;
    const sigset_t *signals; /* that end the server; NULL: SIGINT and SIGTERM */
    int64_t patience_ns;     /* for the tasks, once it ends; 0: 10 s; WEFT_NEVER: any */
    /* Called in a task of its own when the listener was closed, to tell others: connections that
     * would wait for the next request, say.  It may wait; the patience begins when it returns.
     * NULL: nobody. */
    void (*on_begin)(void *context, int number);
    void *context;
} weft_drain_options;

/*
 * Closes a scope, as weft_scope_close does, of tasks that serve until a signal comes.  Then
 *
 *   1. the listener is closed: an accept gives -EBADF, who connects is refused (-1: there is none);
 *      its number is given to nobody else before weft_drain returns
 *   2. on_begin is called
 *   3. the tasks have time to end, as long as the patience lasts and no other signal comes
 *   4. those that are left are cancelled, and waited for
 *
 *     weft_signals_block(NULL);                        in main, before weft_run
 *     ...
 *     weft_scope_open(&scope, NULL);
 *     weft_scope_go(&scope, accept_loop, &server);     each connection another weft_scope_go
 *     int rc = weft_drain(&scope, server.fd, NULL);
 *
 * A task of the scope that fails cancels the others, as ever: a connection that does not want to
 * gives 0, and so does a loop whose accept gave -EBADF; after -EMFILE or -ENFILE it goes on, or the
 * server ends when it has most to do (examples/http.c has such a loop, and an on_begin that ends
 * idle connections).  If no signal comes it ends with the last task, and the listener stays as it
 * is.  If there is no descriptor left to wait with, it looks for the signal every 10 ms.
 *
 * 0            all ended by themselves
 * -ETIMEDOUT   some had to be cancelled
 * -EINTR       the same, because another signal came
 * -EPERM       the signals were not given to weft_signals_block; or as weft_scope_close
 * -EINVAL      as both; after these two the scope is as it was, and has to be closed
 * else         the first error of the scope, or what kept it from waiting for signals: then all
 *              tasks were cancelled
 */
WEFT_API int weft_drain(weft_scope *scope, int listener, const weft_drain_options *options);

#endif

WEFT_END

#endif
