/* SPDX-License-Identifier: MIT */
/*
 * os/process.c - the system calls for signals and child processes: see os/sys.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "os/os.h"
#include "os/sys.h"

/* ---- signals ------------------------------------------------------------------------------- */

int wf_sys_signalfd(const sigset_t *set)
{
    if (WF_FAULT("signalfd")) {
        return -EMFILE;
    }
    const int fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd >= 0 ? fd : -errno;
}

int wf_sys_signal_take(const sigset_t *set, siginfo_t *info)
{
    static const struct timespec now;
    for (;;) { /* Ends with the first call that no signal interrupts. */
        const int number = sigtimedwait(set, info, &now);
        if (number > 0) {
            return number;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

int wf_sys_signal_wait(const sigset_t *set, siginfo_t *info)
{
    for (;;) { /* Ends with a signal of the set.  After a handler of another signal: waits again. */
        const int number = sigwaitinfo(set, info);
        if (number > 0) {
            return number;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

int wf_sys_dup3(int fd, int target)
{
    if (WF_FAULT("dup3")) {
        return -EBUSY;
    }
    return dup3(fd, target, O_CLOEXEC) >= 0 ? 0 : -errno;
}

void wf_sys_signals_block(const sigset_t *set)
{
    WEFT_CHECK(pthread_sigmask(SIG_BLOCK, set, NULL) == 0); /* fails only for a bad `how` */
}

void wf_sys_signals_blocked(sigset_t *out)
{
    WEFT_CHECK(pthread_sigmask(SIG_BLOCK, NULL, out) == 0); /* fails only for a bad `how` */
}

void wf_sys_signals_pending(sigset_t *out)
{
    (void)sigpending(out); /* fails only for a bad address */
}

static sigset_t sigpipe_set(void)
{
    sigset_t set;
    (void)sigemptyset(&set); /* does not fail; nor does sigaddset for a valid signal */
    (void)sigaddset(&set, SIGPIPE);
    return set;
}

/* A SIGPIPE can be pending before the write only if the thread had it blocked. */
void wf_sigpipe_begin(struct wf_sigpipe *sigpipe)
{
    const sigset_t set = sigpipe_set();
    sigset_t old;
    sigset_t pending;
    WEFT_CHECK(pthread_sigmask(SIG_BLOCK, &set, &old) == 0); /* fails only for a bad `how` */
    sigpipe->was_blocked = sigismember(&old, SIGPIPE) == 1;
    sigpipe->was_pending = false;
    if (sigpipe->was_blocked) {
        wf_sys_signals_pending(&pending);
        sigpipe->was_pending = sigismember(&pending, SIGPIPE) == 1;
    }
}

/* The kernel sends the SIGPIPE of a write to the thread, not to the process, and takes signals of
 * the thread first.  It is pending as soon as the write returns, even if the program ignores it. */
void wf_sigpipe_end(const struct wf_sigpipe *sigpipe, bool is_whole)
{
    const sigset_t set = sigpipe_set();
    if (!is_whole && !sigpipe->was_pending) {
        (void)wf_sys_signal_take(&set, NULL); /* -EAGAIN: the write has raised none */
    }
    if (!sigpipe->was_blocked) {
        WEFT_CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0); /* as above */
    }
}

/* ---- processes ----------------------------------------------------------------------------- */

int wf_sys_pipe(int fds[2])
{
    if (WF_FAULT("pipe2")) {
        return -EMFILE;
    }
    return pipe2(fds, O_CLOEXEC) == 0 ? 0 : -errno;
}

int wf_sys_dup_above(int fd, int least)
{
    if (WF_FAULT("dup")) {
        return -EMFILE;
    }
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, least);
    return copy >= 0 ? copy : -errno;
}

static int plan_streams(posix_spawn_file_actions_t *actions, const struct wf_child_plan *plan)
{
    for (int stream = 0; stream < 3; stream++) {
        int rc = 0;
        const int fd = plan->fds[stream];
        if (WF_FAULT("posix_spawn_file_actions")) {
            return -ENOMEM;
        }
        if (fd == WF_CHILD_NULL) {
            rc = posix_spawn_file_actions_addopen(actions, stream, "/dev/null", O_RDWR, 0);
        } else if (fd == WF_CHILD_OUT) {
            rc = posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, stream);
        } else if (fd >= 0) {
            rc = posix_spawn_file_actions_adddup2(actions, fd, stream);
        }
        if (rc != 0) {
            return -rc;
        }
    }
    return plan->cwd != NULL ? -posix_spawn_file_actions_addchdir_np(actions, plan->cwd) : 0;
}

/* None of these calls fails with valid arguments. */
static void plan_signals(posix_spawnattr_t *attributes, const struct wf_child_plan *plan)
{
    sigset_t none;
    sigset_t defaults;
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    (void)sigemptyset(&none);
    (void)sigemptyset(&defaults);
    (void)sigaddset(&defaults, SIGPIPE);
    (void)posix_spawnattr_setsigmask(attributes, &none);
    (void)posix_spawnattr_setsigdefault(attributes, &defaults);
    if (plan->group != 0) {
        flags |= POSIX_SPAWN_SETPGROUP;
        (void)posix_spawnattr_setpgroup(attributes, plan->group > 0 ? plan->group : 0);
    }
    (void)posix_spawnattr_setflags(attributes, flags);
}

int wf_sys_spawn(const struct wf_child_plan *plan, pid_t *out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (WF_FAULT("posix_spawn")) {
        return -EAGAIN;
    }
    int rc = -posix_spawn_file_actions_init(&actions);
    if (rc != 0) {
        return rc;
    }
    rc = -posix_spawnattr_init(&attributes);
    if (rc == 0) {
        plan_signals(&attributes, plan);
        rc = plan_streams(&actions, plan);
        if (rc == 0) {
            /* posix_spawnp writes to neither; its prototype predates const. */
            rc = -posix_spawnp(out, plan->path, &actions, &attributes,
                               (char *const *)(uintptr_t)plan->argv,
                               (char *const *)(uintptr_t)plan->envp);
        }
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

int wf_sys_pidfd_open(pid_t pid)
{
    if (WF_FAULT("pidfd_open")) {
        return -EMFILE;
    }
    const long fd = syscall(SYS_pidfd_open, pid, 0);
    return fd >= 0 ? (int)fd : -errno;
}

int wf_sys_pidfd_kill(int pidfd, int number)
{
    if (WF_FAULT("pidfd_send_signal")) {
        return -EPERM;
    }
    return syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) == 0 ? 0 : -errno;
}

int wf_sys_pidfd_wait(int pidfd, siginfo_t *info, bool can_block)
{
    info->si_pid = 0;
    if (WF_FAULT("waitid")) {
        return -ECHILD;
    }
    for (;;) { /* Ends with the first call that no signal interrupts. */
        const int rc = waitid(P_PIDFD, (id_t)pidfd, info, WEXITED | (can_block ? 0 : WNOHANG));
        if (rc == 0) {
            return info->si_pid != 0 ? 0 : -EAGAIN;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

void wf_sys_reap(pid_t pid)
{
    int status;
    (void)kill(pid, SIGKILL); /* the pid is not reused before the child is reaped */
    pid_t rc;
    do { /* Ends with the first call that no signal interrupts. */
        rc = waitpid(pid, &status, 0);
    } while (rc < 0 && errno == EINTR);
}
