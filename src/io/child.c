/* SPDX-License-Identifier: MIT */
/*
 * io/child.c - child processes.
 *
 * posix_spawn blocks its thread until the child has called exec, so a thread of the blocking pool
 * calls it.  Then a pidfd stands for the child; it becomes readable when the child has ended.  A
 * wait polls the pidfd and then calls waitid, which does not block.  Under the lock one caller asks
 * the kernel, and later callers get the stored result.
 *
 * The source of a stream must not have a number below 3, because the dup2 of an earlier stream
 * would overwrite it: such sources are duplicated to higher numbers first.
 *
 * O_NONBLOCK belongs to the open file, not to its number.  The child's ends of pipes never get it.
 * Ours get it when they are first used, as all descriptors do, so an unused one can be passed to
 * another child.
 *
 * Rejected: SIGCHLD by a signalfd (it only reports that some child has ended, and the signal
 * belongs to the program); a thread that waits for each child.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "future/future.h"
#include "io/io.h"
#include "os/sys.h"
#include "weft/child.h"

enum { STREAMS = 3 };

struct weft_child {
    struct wf_lock lock;
    int pidfd;          /* [const] */
    pid_t pid;          /* [const] */
    int pipes[STREAMS]; /* [lock]  our ends; -1: none, or taken */
    int rc;             /* [lock]  of waitid; -EAGAIN: the child has not ended */
    weft_child_end end; /* [lock]  if rc is 0 */
};

/* [any]  Asks the kernel whether the child process has ended; if `waits`, blocks until it has.  0:
 * it has ended, and *end is set unless `end` is NULL; -EAGAIN: it runs; or an error of waitid. */
static int child_poll(struct weft_child *child, weft_child_end *end, bool waits);

/* ---- starting ------------------------------------------------------------------------------ */

struct child_start {
    const weft_child_options *options;
    struct weft_child *child;
    int theirs[STREAMS]; /* the child's ends, which this process closes; -1: none */
};

static void child_close_fds(int fds[STREAMS])
{
    for (int i = 0; i < STREAMS; i++) {
        if (fds[i] >= 0) {
            (void)weft_close(fds[i]); /* no data is lost with it */
            fds[i] = -1;
        }
    }
}

/* [owner of the child]  The child process has ended, or was never started. */
static void child_free(struct weft_child *child)
{
    child_close_fds(child->pipes);
    if (child->pidfd >= 0) {
        (void)weft_close(child->pidfd); /* no data is lost with it */
    }
    wf_free(child);
}

/* [closer]  No caller has the handle. */
static void child_undo(void *arg)
{
    struct weft_child *child = arg;
    if (child->pidfd >= 0) {
        (void)weft_child_kill(child, SIGKILL);
        (void)child_poll(child, NULL, true); /* a moment: the child process is killed */
    }
    child_free(child);
}

/* Stores in *out the descriptor that becomes this stream of the child. */
static int open_stream(struct child_start *start, const weft_child_io *io, int stream, int *out)
{
    int rc = 0;
    *out = io->fd;
    if (io->kind == WEFT_CHILD_PIPE) {
        int ends[2];
        rc = wf_sys_pipe(ends);
        if (rc != 0) {
            return rc;
        }
        const int ours = stream == STDIN_FILENO ? 1 : 0;
        start->child->pipes[stream] = ends[ours];
        start->theirs[stream] = *out = ends[1 - ours];
    }
    if (*out < STREAMS && *out != stream) {
        rc = wf_sys_dup_above(*out, STREAMS);
        if (rc < 0) {
            return rc;
        }
        if (start->theirs[stream] >= 0) {
            (void)weft_close(start->theirs[stream]);
        }
        start->theirs[stream] = *out = rc;
    }
    return 0;
}

static int plan_stream(struct child_start *start, const weft_child_io *io, int stream, int *out)
{
    switch (io->kind) {
    case WEFT_CHILD_INHERIT:
        *out = WF_CHILD_INHERIT;
        return 0;
    case WEFT_CHILD_NULL:
        *out = WF_CHILD_NULL;
        return 0;
    case WEFT_CHILD_OUT:
        *out = WF_CHILD_OUT;
        return stream == STDERR_FILENO ? 0 : -EINVAL;
    case WEFT_CHILD_FD:
        return io->fd >= 0 ? open_stream(start, io, stream, out) : -EBADF;
    case WEFT_CHILD_PIPE:
        return open_stream(start, io, stream, out);
    default:
        return -EINVAL;
    }
}

/* [a thread of the blocking pool] */
static intptr_t run_start(void *arg)
{
    struct child_start *start = arg;
    const weft_child_options *options = start->options;
    struct weft_child *child = start->child;
    const weft_child_io *const streams[] = {&options->in, &options->out, &options->err};
    struct wf_child_plan plan = {
        .path = options->path != NULL ? options->path : options->argv[0],
        .argv = options->argv,
        .envp = options->envp != NULL ? options->envp : (const char *const *)environ,
        .cwd = options->cwd,
        .group = options->group,
    };
    int rc = 0;
    for (int i = 0; i < STREAMS && rc == 0; i++) {
        rc = plan_stream(start, streams[i], i, &plan.fds[i]);
    }
    rc = rc != 0 ? rc : wf_sys_spawn(&plan, &child->pid);
    child_close_fds(start->theirs);
    if (rc != 0) {
        return rc;
    }
    child->pidfd = wf_sys_pidfd_open(child->pid);
    if (child->pidfd < 0) {
        wf_sys_reap(child->pid);
        return child->pidfd;
    }
    return 0;
}

int weft_child_spawn(weft_child **out, const weft_child_options *options)
{
    WF_NOT_NULL(out, "weft_child_spawn: out is NULL");
    WF_NOT_NULL(options, "weft_child_spawn: options is NULL");
    if (options->argv == NULL || options->argv[0] == NULL ||
        (options->size != 0 && options->size != sizeof(*options)) || options->group < -1) {
        return -EINVAL;
    }
    struct weft_child *child = wf_alloc_zeroed(1, sizeof(*child));
    if (child == NULL) {
        return -ENOMEM;
    }
    wf_lock_init(&child->lock, WF_RANK_CHILD);
    struct child_start start = {.options = options, .child = child};
    struct wf_undo_hook hook;
    child->rc = -EAGAIN;
    child->pidfd = -1;
    for (int i = 0; i < STREAMS; i++) {
        child->pipes[i] = start.theirs[i] = -1;
    }
    wf_undo_hook_add(&hook, child_undo, child);
    const int rc = (int)wf_call_blocking(run_start, &start);
    wf_undo_hook_remove(&hook);
    if (rc != 0) {
        child_free(child);
        return rc;
    }
    *out = child;
    return 0;
}

/* ---- waiting and ending -------------------------------------------------------------------- */

int weft_child_pid(const weft_child *child)
{
    return child->pid;
}

int weft_child_take(weft_child *child, int stream)
{
    if (stream < 0 || stream >= STREAMS) {
        return -EINVAL;
    }
    wf_lock_acquire(&child->lock);
    const int fd = child->pipes[stream];
    child->pipes[stream] = -1;
    wf_lock_release(&child->lock);
    return fd >= 0 ? fd : -ENOENT;
}

/* [locked]  Asks the kernel, unless the result is known. */
static int child_poll_locked(struct weft_child *child, bool waits)
{
    siginfo_t info;
    if (child->rc == -EAGAIN) {
        child->rc = wf_sys_pidfd_wait(child->pidfd, &info, waits);
        if (child->rc == 0) {
            const bool has_exited = info.si_code == CLD_EXITED;
            child->end = (weft_child_end){
                .code = has_exited ? info.si_status : 0,
                .signal = has_exited ? 0 : info.si_status,
                .has_core = info.si_code == CLD_DUMPED,
            };
        }
    }
    return child->rc;
}

static int child_poll(struct weft_child *child, weft_child_end *end, bool waits)
{
    wf_lock_acquire(&child->lock);
    const int rc = child_poll_locked(child, waits);
    if (rc == 0 && end != NULL) {
        *end = child->end;
    }
    wf_lock_release(&child->lock);
    return rc;
}

int weft_child_wait(weft_child *child, weft_child_end *end)
{
    for (;;) { /* ends with the child, or an interruption of the wait */
        int rc = child_poll(child, end, false);
        if (rc != -EAGAIN) {
            return rc;
        }
        rc = weft_fd_wait(child->pidfd, POLLIN);
        if (rc < 0) {
            return rc;
        }
    }
}

int weft_child_kill(weft_child *child, int number)
{
    wf_lock_acquire(&child->lock);
    const int rc = child->rc == -EAGAIN ? wf_sys_pidfd_kill(child->pidfd, number) : -ESRCH;
    wf_lock_release(&child->lock);
    return rc;
}

int weft_child_close(weft_child *child)
{
    const struct weft_task *self = wf_task_self();
    if (child == NULL) {
        return 0;
    }
    if (child_poll(child, NULL, false) == -EAGAIN) {
        int rc = weft_child_kill(child, SIGKILL);
        if (rc != 0 && rc != -ESRCH) {
            return rc;
        }
        struct wf_undo_hook hook;
        wf_undo_hook_add(&hook, child_undo, child);
        const bool is_shielded = self != NULL && weft_shield_begin() == 0;
        rc = weft_child_wait(child, NULL);
        wf_undo_hook_remove(&hook);
        if (is_shielded) {
            (void)weft_shield_end();
        }
        if (rc == -EAGAIN) {
            return rc;
        }
        if (rc != 0) {
            WF_REACHED("child.waited_in_kernel");
            (void)child_poll(child, NULL, true); /* a moment: the child process is killed */
        }
    }
    child_free(child);
    return 0;
}
