/* SPDX-License-Identifier: MIT */
/*
 * os/sys.h - the system calls for I/O, signals and child processes: a part of os/os.h.
 *
 * Each function does what the system call of its name does and may be called by any thread.  It
 * returns the result of the system call, 0 if there is none, and on error a negative errno.  It
 * restarts after EINTR unless its comment says otherwise.  Most are fault points with the name of
 * the system call.
 */
#ifndef WF_OS_SYS_H
#define WF_OS_SYS_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

ssize_t wf_sys_read(int fd, void *buffer, size_t size);
ssize_t wf_sys_write(int fd, const void *bytes, size_t size);
ssize_t wf_sys_readv(int fd, const struct iovec *parts, int count);
ssize_t wf_sys_writev(int fd, const struct iovec *parts, int count);
ssize_t wf_sys_recvfrom(int fd, void *buffer, size_t size, int flags, struct sockaddr *address,
                        socklen_t *address_size);
ssize_t wf_sys_sendto(int fd, const void *bytes, size_t size, int flags,
                      const struct sockaddr *address, socklen_t address_size);
ssize_t wf_sys_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t wf_sys_sendmsg(int fd, const struct msghdr *message, int flags);
/* The new descriptor is non-blocking and close-on-exec. */
int wf_sys_accept(int fd, struct sockaddr *address, socklen_t *address_size);
/* Does not restart.  -EINPROGRESS also after EINTR: the kernel continues to connect. */
int wf_sys_connect(int fd, const struct sockaddr *address, socklen_t address_size);
/* Returns and clears the pending error of the socket (SO_ERROR), as a negative errno; 0: none. */
int wf_sys_socket_error(int fd);
int wf_sys_socket_type(int fd, int *domain, int *type);
int wf_sys_shutdown(int fd, int how);
/* Does not restart: the descriptor is closed even after EINTR, which counts as success, and after
 * an error. */
int wf_sys_close(int fd);
int wf_sys_fstat(int fd, struct stat *out);
int wf_sys_set_nonblocking(int fd);
/* Blocks until `fd` has one of `events`, until `wakeup_fd` (-1: none) is readable, or until the
 * deadline.  Returns the events of `fd`; 0: none, because of the deadline or `wakeup_fd`. */
int wf_sys_poll(int fd, int wakeup_fd, short events, int64_t deadline_ns);

/* The new descriptor is non-blocking and close-on-exec. */
int wf_sys_socket(int domain, int type);
int wf_sys_bind(int fd, const struct sockaddr *address, socklen_t address_size);
int wf_sys_listen(int fd, int backlog);
/* Only for options that are an int. */
int wf_sys_setsockopt(int fd, int level, int name, int value);
int wf_sys_getsockname(int fd, struct sockaddr *address, socklen_t *address_size);
int wf_sys_getpeername(int fd, struct sockaddr *address, socklen_t *address_size);

/* The new descriptor is close-on-exec. */
int wf_sys_open(const char *path, int flags, mode_t mode);
ssize_t wf_sys_pread(int fd, void *buffer, size_t size, int64_t offset);
ssize_t wf_sys_pwrite(int fd, const void *bytes, size_t size, int64_t offset);
/* Reads what is in the page cache (RWF_NOWAIT); offset -1: at the file position.  -EAGAIN: the
 * read would block or failed; a plain read then blocks or returns the error. */
ssize_t wf_sys_read_cached(int fd, const struct iovec *parts, int count, int64_t offset);
int wf_sys_fsync(int fd);
int wf_sys_fdatasync(int fd);
/* These three copy up to `size` bytes from the file position of `from` to that of `to` and return
 * the number copied; 0: end of file.  wf_sys_splice does not block on a pipe. */
ssize_t wf_sys_copy_file_range(int to, int from, size_t size);
ssize_t wf_sys_sendfile(int to, int from, size_t size);
ssize_t wf_sys_splice(int to, int from, size_t size);
int wf_sys_lstat(const char *path, struct stat *out);
int wf_sys_unlink(const char *path);

/* The new descriptor is readable while a signal of `set` is pending; non-blocking and
 * close-on-exec. */
int wf_sys_signalfd(const sigset_t *set);
/* Takes a pending signal of `set` and returns its number.  -EAGAIN: none is pending. */
int wf_sys_signal_take(const sigset_t *set, siginfo_t *info);
/* Blocks until a signal of `set` is pending, takes it and returns its number. */
int wf_sys_signal_wait(const sigset_t *set, siginfo_t *info);
/* Closes the descriptor `target`, if it is open, and makes `target` a duplicate of `fd`,
 * close-on-exec.  Returns 0. */
int wf_sys_dup3(int fd, int target);
/* Blocks the signals of `set` in the calling thread. */
void wf_sys_signals_block(const sigset_t *set);
/* Gets the signals that the calling thread blocks. */
void wf_sys_signals_blocked(sigset_t *out);
/* Gets the blocked signals that are pending for the calling thread or the process. */
void wf_sys_signals_pending(sigset_t *out);

/* Keeps a write in between from raising SIGPIPE, in a thread that may not block it. */
struct wf_sigpipe {
    bool was_blocked;
    bool was_pending;
};
/* Blocks SIGPIPE in the calling thread. */
void wf_sigpipe_begin(struct wf_sigpipe *sigpipe);
/* Restores the mask of the thread.  `is_whole`: all bytes were written, so no signal was raised;
 * otherwise takes the SIGPIPE that the write has raised, if any. */
void wf_sigpipe_end(const struct wf_sigpipe *sigpipe, bool is_whole);

/* Values of wf_child_plan.fds that are no descriptor. */
enum {
    WF_CHILD_INHERIT = -1, /* the stream of the same number of this process */
    WF_CHILD_NULL = -2,    /* /dev/null */
    WF_CHILD_OUT = -3,     /* the child's standard output */
};
struct wf_child_plan {
    const char *path; /* without a '/': searched in PATH */
    const char *const *argv;
    const char *const *envp;
    const char *cwd; /* NULL: the current directory of this process */
    int fds[3];      /* the child's streams 0 to 2: WF_CHILD_*, the stream's own number, or >= 3 */
    int group;       /* process group; 0: that of this process; -1: a new one */
};
/* Starts a child with all signals unblocked and the default action for SIGPIPE. */
int wf_sys_spawn(const struct wf_child_plan *plan, pid_t *out);
int wf_sys_pidfd_open(pid_t pid);
int wf_sys_pidfd_kill(int pidfd, int number);
/* Waits for the end of the child if `can_block`, reaps the child, and sets *info to its exit
 * status.  Returns 0; -EAGAIN: the child still runs, and `can_block` is false. */
int wf_sys_pidfd_wait(int pidfd, siginfo_t *info, bool can_block);
/* Kills a child of this process and blocks until it is reaped. */
void wf_sys_reap(pid_t pid);
/* Both descriptors are blocking and close-on-exec. */
int wf_sys_pipe(int fds[2]);
/* Returns a duplicate of `fd` with a number of `least` or above; close-on-exec. */
int wf_sys_dup_above(int fd, int least);

/* The new descriptor is close-on-exec. */
int wf_sys_epoll_create(void);
/* Adds `fd`, or sets the events anew if it is registered already: then the kernel reports the
 * current readiness again. */
int wf_sys_epoll_add(int epoll_fd, int fd, uint32_t events, void *data);
/* Does nothing if `fd` is not registered. */
void wf_sys_epoll_remove(int epoll_fd, int fd);
/* Returns the number of events; 0: the deadline has passed, or EINTR. */
int wf_sys_epoll_wait(int epoll_fd, struct epoll_event *events, int count, int64_t deadline_ns);
/* The new descriptor is non-blocking and close-on-exec. */
int wf_sys_eventfd(void);
/* Adds one.  A full counter is no error: the descriptor is readable then, too. */
void wf_sys_eventfd_add(int fd);

#endif
