/* SPDX-License-Identifier: MIT */
/*
 * weft/child.h - child processes: start them, and wait for them without blocking a thread.
 *
 *     const char *const argv[] = {"sort", "-u", NULL};
 *     weft_child *child;
 *     weft_child_options options = {.argv = argv, .in.kind = WEFT_CHILD_PIPE};
 *     int rc = weft_child_spawn(&child, &options);
 *     int fd = weft_child_take(child, 0);
 *     ... weft_write_all(fd, ...); weft_close(fd) ...
 *     weft_child_end end;
 *     rc = weft_child_wait(child, &end);
 *     rc = weft_child_close(child);
 *
 * Signals: Weft neither handles nor blocks SIGCHLD.  If the program itself waits for any child
 *          (wait, waitpid(-1)) or ignores SIGCHLD, the exit status of these children is lost, and
 *          weft_child_wait returns -ECHILD.
 * Fork:    a plain fork() is allowed in a process with a runtime, also in a task, if the child soon
 *          calls exec or _exit: see weft_runtime_open in runtime.h.  A task and a blocking function
 *          run with all signals blocked.  The child of fork() blocks only those that the opener of
 *          the runtime blocked.  posix_spawn, system and popen give their child the mask of the
 *          calling thread: use weft_child_spawn, or posix_spawn with POSIX_SPAWN_SETSIGMASK.
 * Threads: all calls may be made from any task or thread, also concurrently, except
 *          weft_child_close, which must be the last call.
 */
#ifndef WEFT_CHILD_H
#define WEFT_CHILD_H

#include <weft/types.h>

WEFT_BEGIN

typedef struct weft_child weft_child;

/* What a standard stream of the child is connected to. */
enum weft_child_stream {
    WEFT_CHILD_INHERIT, /* the same stream of this process */
    WEFT_CHILD_NULL,    /* /dev/null */
    WEFT_CHILD_PIPE,    /* a pipe; weft_child_take returns the other end */
    WEFT_CHILD_FD,      /* a descriptor of this process, which stays open here */
    WEFT_CHILD_OUT,     /* for standard error only: the same as standard output */
};

typedef struct weft_child_io {
    enum weft_child_stream kind;
    /* For WEFT_CHILD_FD.  The child gets the same open file, and with it O_NONBLOCK, which Weft
     * sets on a descriptor at its first use and which few programs expect.  The end of a pipe from
     * weft_child_take does not have O_NONBLOCK before its first use. */
    int fd;
} weft_child_io;

typedef struct weft_child_options {
    uint32_t size;
    const char *path;        /* of the program; without a '/': searched in PATH; NULL: argv[0] */
    const char *const *argv; /* ends with NULL; must not be NULL or empty */
    const char *const *envp; /* ends with NULL; NULL: the environment of this process */
    const char *cwd;         /* its working directory; NULL: that of this process */
    weft_child_io in;
    weft_child_io out;
    weft_child_io err;
    int group; /* its process group; 0: that of this process; -1: a new one; else this one */
} weft_child_options;

/*
 * Starts a child process, and waits until it has called exec; the worker runs other tasks
 * meanwhile. The child inherits only descriptors without O_CLOEXEC.  It blocks no signals, and
 * SIGPIPE has its default action; other signals that this process ignores are ignored in the child
 * too.
 *
 * 0        *out is the child, which the caller gives back by weft_child_close
 * -EINVAL  no argv, or invalid options
 * -ENOENT, -EACCES, -ENOEXEC, ...   an error of exec
 * -EBADF   a descriptor is invalid
 * -EMFILE, -ENFILE, -ENOMEM, -EAGAIN, -ENOSYS (before Linux 5.4)   if one of these occurs late, the
 *          child was started and has been killed and reaped already
 * -ECANCELED, -ETIMEDOUT   the child was not started
 */
WEFT_API int weft_child_spawn(weft_child **out, const weft_child_options *options)
    WEFT_NONNULL(1, 2);

/* Returns the child's process id, which the kernel does not reuse before weft_child_wait or
 * weft_child_close has reaped the child. */
WEFT_API int weft_child_pid(const weft_child *child) WEFT_NONNULL(1);

/* Returns this process's end of the pipe to stream 0, 1 or 2; the caller owns it and closes it by
 * weft_close.  -ENOENT: there is no pipe, or its end was taken before; -EINVAL: no such stream. */
WEFT_API int weft_child_take(weft_child *child, int stream) WEFT_NONNULL(1);

/* How the child ended. */
typedef struct weft_child_end {
    int code;   /* its exit code; 0 if it was killed */
    int signal; /* the signal that killed it; 0: none */
    bool has_core;
} weft_child_end;

/*
 * Waits for the end of the child and stores it in *end, which may be NULL.  May be called again.
 *
 * 0
 * -ECHILD      other code has waited for the child; its end is unknown
 * -ECANCELED, -ETIMEDOUT   the child continues
 * -EAGAIN      in a poll task: the child has not ended
 */
WEFT_API int weft_child_wait(weft_child *child, weft_child_end *end) WEFT_NONNULL(1);

/* Sends a signal to the child; never to another process that reuses its id.  -ESRCH: the child has
 * ended; -EINVAL: no such signal; -EPERM: the child changed its user id. */
WEFT_API int weft_child_kill(weft_child *child, int number) WEFT_NONNULL(1);

/*
 * Closes the pipes that were not taken and frees the child.  A child that has not ended is killed
 * by SIGKILL and reaped, so no zombie is left; the call waits for that even if the task is
 * cancelled or its deadline passes.  NULL is allowed.
 *
 * 0
 * -EPERM    the child changed its user id and cannot be killed; nothing has changed
 * -EAGAIN   in a poll task, which cannot wait: the child is being killed; call weft_child_close
 *           again
 */
WEFT_API int weft_child_close(weft_child *child);

WEFT_END

#endif
