/* SPDX-License-Identifier: MIT */
/*
 * weft/child.h - processes that this one starts, and waits for as for anything else.
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
 * Weft neither handles nor blocks SIGCHLD for this.  A program that waits for any child itself
 * (wait, waitpid(-1)), or ignores SIGCHLD, takes the end of these away: then it is -ECHILD.
 *
 * A plain fork() is allowed in a process with a runtime, in a task as well, if the child calls exec
 * or _exit soon: see weft_runtime_open in runtime.h.
 *
 * All calls are for any task or thread, also several at once, but for weft_child_close, which is
 * the last one.
 */
#ifndef WEFT_CHILD_H
#define WEFT_CHILD_H

#include <weft/types.h>

WEFT_BEGIN

typedef struct weft_child weft_child;

/* Where a standard stream of the child goes. */
enum weft_child_stream {
    WEFT_CHILD_INHERIT, /* where ours does */
    WEFT_CHILD_NULL,    /* /dev/null */
    WEFT_CHILD_PIPE,    /* a pipe: weft_child_take gives the other end */
    WEFT_CHILD_FD,      /* a descriptor of ours, which stays open here */
    WEFT_CHILD_OUT,     /* standard error only: where standard output goes */
};

typedef struct weft_child_io {
    enum weft_child_stream kind;
    /* For WEFT_CHILD_FD.  O_NONBLOCK is shared: Weft sets it on what it has read from or written
     * to, and few programs expect that.  An end that weft_child_take has given is as it should be,
     * until it is used here. */
    int fd;
} weft_child_io;

typedef struct weft_child_options {
    uint32_t size;
    const char *path;        /* of the program; without a '/': found by PATH; NULL: argv[0] */
    const char *const *argv; /* with NULL at the end; not NULL itself, and not empty */
    const char *const *envp; /* the same; NULL: our environment */
    const char *cwd;         /* where it starts; NULL: where we are */
    weft_child_io in;
    weft_child_io out;
    weft_child_io err;
    int group; /* its process group: 0: ours; -1: one of its own; else this one */
} weft_child_options;

/*
 * Starts a process.  It has no other descriptors of ours but those that are not closed on exec,
 * blocks no signals, and SIGPIPE ends it, whatever we have made of that; signals that we ignore are
 * ignored there, too.  The worker goes on with others meanwhile.
 *
 * 0        *out is it, and is given back to weft_child_close
 * -EINVAL  NULL, no argv, or options that make no sense
 * -ENOENT, -EACCES, -ENOEXEC, ...   what exec says to the program
 * -EBADF   a descriptor is none
 * -EMFILE, -ENFILE, -ENOMEM, -EAGAIN, -ENOSYS (before Linux 5.4)   if this comes late the child has
 *          been started, killed and waited for already
 * -ECANCELED, -ETIMEDOUT   it was not started
 */
WEFT_API int weft_child_spawn(weft_child **out, const weft_child_options *options);

/* Its process id, which stays its own until weft_child_wait has given its end. */
WEFT_API int weft_child_id(const weft_child *child);

/* Our end of the pipe to stream 0, 1 or 2: the caller's from now on, who closes it by weft_close.
 * -ENOENT: there is none, or somebody has taken it.  -EINVAL: no such stream. */
WEFT_API int weft_child_take(weft_child *child, int stream);

/* How it ended. */
typedef struct weft_child_end {
    int code;   /* what it gave to exit; 0 if it was killed */
    int signal; /* that killed it; 0: none did */
    bool has_core;
} weft_child_end;

/*
 * Waits for its end.  Whoever asks later gets it again.  `end` may be NULL.
 *
 * 0
 * -ECHILD      somebody else has waited for it: nobody knows
 * -ECANCELED, -ETIMEDOUT   the child goes on
 * -EAGAIN      in a poll task: it has not ended
 */
WEFT_API int weft_child_wait(weft_child *child, weft_child_end *end);

/* Sends it a signal; never to another process that has its number by now.  -ESRCH: it has ended;
 * -EINVAL: no such signal; -EPERM: it has become somebody else. */
WEFT_API int weft_child_kill(weft_child *child, int number);

/*
 * Closes the pipes that were not taken, and gives it back.  A child that has not ended is killed by
 * SIGKILL and waited for, whatever the task was asked to do: no zombie is left.  NULL is allowed.
 *
 * 0
 * -EPERM    it has become somebody else, and we may not kill it: as before
 * -EAGAIN   in a poll task, which cannot wait: it is being killed, and to be closed again
 */
WEFT_API int weft_child_close(weft_child *child);

WEFT_END

#endif
