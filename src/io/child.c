/* SPDX-License-Identifier: MIT */
/*
 * io/child.c - processes that this one starts.
 *
 * posix_spawn keeps its thread until the child has called exec, so it is made on one that may
 * block.  From then on the child is known by a descriptor of its own (pidfd), which can be read
 * from when it has ended: a wait is a wait for that, and then waitid, which does not wait.  A lock
 * sees to it that one caller asks the kernel, and the others find what it has heard.
 *
 * A descriptor that the child gets as its stream n must not have a number below 3 in between, or
 * one stream would be laid over the source of the next: such sources are copied upwards first.
 *
 * O_NONBLOCK belongs to what is open, and not to its number.  The child's ends of pipes are never
 * set to it.  Ours are set when they are first used, as all descriptors are, so that one that was
 * not used can be given on to another child.
 *
 * Rejected: SIGCHLD by a signalfd (it says that some child has ended, and the signal belongs to the
 * program); a thread for each child that waits.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "io/io.h"
#include "os/sys.h"
#include "sched/fast.h"
#include "weft/child.h"

enum { STREAMS = 3 };

struct weft_child {
    struct wf_lock lock;
    int pidfd;          /* [const] */
    pid_t pid;          /* [const] */
    int pipes[STREAMS]; /* [lock]  our ends; -1: none, or taken */
    int rc;             /* [lock]  of the wait; -EAGAIN: it has not ended */
    weft_child_end end; /* [lock]  if rc is 0 */
};

/* ---- starting ------------------------------------------------------------------------------ */

struct start {
    const weft_child_options *options;
    struct weft_child *child;
    int theirs[STREAMS]; /* to be closed here; -1: none */
};

static void close_all(int fds[STREAMS])
{
    for (int i = 0; i < STREAMS; i++) {
        if (fds[i] >= 0) {
            (void)weft_close(fds[i]); /* nothing is lost with a pipe */
            fds[i] = -1;
        }
    }
}

/* Puts the descriptor that the child is to have into *out. */
static int open_stream(struct start *start, const weft_child_io *io, int stream, int *out)
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

static int plan_stream(struct start *start, const weft_child_io *io, int stream, int *out)
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

/* [a thread that may block] */
static intptr_t run_start(void *arg)
{
    struct start *start = arg;
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
    close_all(start->theirs);
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
    if (out == NULL || options == NULL || options->argv == NULL || options->argv[0] == NULL ||
        (options->size != 0 && options->size != sizeof(*options)) || options->group < -1) {
        return -EINVAL;
    }
    struct weft_child *child = wf_alloc_zeroed(1, sizeof(*child));
    if (child == NULL) {
        return -ENOMEM;
    }
    wf_lock_init(&child->lock, WF_RANK_CHILD);
    struct start start = {.options = options, .child = child};
    child->rc = -EAGAIN;
    for (int i = 0; i < STREAMS; i++) {
        child->pipes[i] = start.theirs[i] = -1;
    }
    const int rc = (int)wf_call_blocking(run_start, &start);
    if (rc != 0) {
        close_all(child->pipes);
        wf_free(child);
        return rc;
    }
    *out = child;
    return 0;
}

/* ---- its life ------------------------------------------------------------------------------ */

int weft_child_id(const weft_child *child)
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

/* [locked]  Asks the kernel, unless somebody has. */
static int look_locked(struct weft_child *child, bool waits)
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

static int look(struct weft_child *child, weft_child_end *end, bool waits)
{
    wf_lock_acquire(&child->lock);
    const int rc = look_locked(child, waits);
    if (rc == 0 && end != NULL) {
        *end = child->end;
    }
    wf_lock_release(&child->lock);
    return rc;
}

int weft_child_wait(weft_child *child, weft_child_end *end)
{
    for (;;) { /* ends when the child does, or it may not wait on */
        int rc = look(child, end, false);
        if (rc != -EAGAIN) {
            return rc;
        }
        rc = weft_poll_fd(child->pidfd, POLLIN);
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
    if (look(child, NULL, false) == -EAGAIN) {
        int rc = weft_child_kill(child, SIGKILL);
        if (rc != 0 && rc != -ESRCH) {
            return rc;
        }
        const bool is_shielded = self != NULL && weft_shield(1) == 0;
        rc = weft_child_wait(child, NULL);
        if (is_shielded) {
            (void)weft_shield(0);
        }
        if (rc == -EAGAIN) {
            return rc;
        }
        if (rc != 0) {
            WF_REACHED("child.waited_for_in_the_kernel");
            (void)look(child, NULL, true); /* for a moment: it is killed */
        }
    }
    close_all(child->pipes);
    (void)weft_close(child->pidfd);
    wf_free(child);
    return 0;
}
