/* SPDX-License-Identifier: MIT */
/*
 * os/sys.h - the system calls of I/O: a part of os.h.
 *
 * Each does what the call of its name does, gives a negative errno, begins again after EINTR where
 * that is right, and can be made to fail in tests, by the name of the call.
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
/* The new one is closed on exec and does not block. */
int wf_sys_accept(int fd, struct sockaddr *address, socklen_t *address_size);
/* -EINPROGRESS also after EINTR: the connection goes on being made. */
int wf_sys_connect(int fd, const struct sockaddr *address, socklen_t address_size);
/* The error that a socket has met; 0: none. */
int wf_sys_socket_error(int fd);
int wf_sys_socket_type(int fd, int *domain, int *type);
int wf_sys_shutdown(int fd, int how);
/* Never begins again: after EINTR the descriptor is closed, too. */
int wf_sys_close(int fd);
int wf_sys_fstat(int fd, struct stat *out);
int wf_sys_set_nonblocking(int fd);
/* The events of the first; 0: the deadline passed, or the second can be read from (-1: none). */
int wf_sys_poll(int fd, int call_fd, short events, int64_t deadline_ns);

/* The new one is closed on exec and does not block. */
int wf_sys_socket(int domain, int type);
int wf_sys_bind(int fd, const struct sockaddr *address, socklen_t address_size);
int wf_sys_listen(int fd, int backlog);
/* An option that is a number. */
int wf_sys_setsockopt(int fd, int level, int name, int value);
int wf_sys_getsockname(int fd, struct sockaddr *address, socklen_t *address_size);
int wf_sys_getpeername(int fd, struct sockaddr *address, socklen_t *address_size);
/* Files.  The new one is closed on exec. */
int wf_sys_open(const char *path, int flags, mode_t mode);
ssize_t wf_sys_pread(int fd, void *buffer, size_t size, int64_t offset);
ssize_t wf_sys_pwrite(int fd, const void *bytes, size_t size, int64_t offset);
/* What is in the cache; offset -1: from where it stands.  -EAGAIN: nothing of it is, or the kernel
 * cannot tell. */
ssize_t wf_sys_read_cached(int fd, const struct iovec *parts, int count, int64_t offset);
int wf_sys_fsync(int fd);
int wf_sys_fdatasync(int fd);
/* From where the one stands to where the other one does; 0: the end.  They do not wait for pipes.
 */
ssize_t wf_sys_copy_file_range(int to, int from, size_t size);
ssize_t wf_sys_sendfile(int to, int from, size_t size);
ssize_t wf_sys_splice(int to, int from, size_t size);
int wf_sys_lstat(const char *path, struct stat *out);
int wf_sys_unlink(const char *path);

/* One that can be read from when a signal of the set is there; closed on exec, does not block. */
int wf_sys_signalfd(const sigset_t *set);
/* Takes a signal that is there: its number.  -EAGAIN: none. */
int wf_sys_signal_take(const sigset_t *set, siginfo_t *info);
/* The same; waits. */
int wf_sys_signal_wait(const sigset_t *set, siginfo_t *info);
/* Makes the second another number of the first: what it was is closed.  Closed on exec. */
int wf_sys_replace(int by, int fd);
/* Of the calling thread. */
void wf_sys_signals_block(const sigset_t *set);
void wf_sys_signals_blocked(sigset_t *out);
/* To the thread or to the process, and blocked. */
void wf_sys_signals_pending(sigset_t *out);

/* What a child gets. */
enum {
    WF_CHILD_INHERIT = -1,
    WF_CHILD_NULL = -2,
    WF_CHILD_OUT = -3, /* what its standard output is */
};
struct wf_child_plan {
    const char *path; /* without a '/': found by PATH */
    const char *const *argv;
    const char *const *envp;
    const char *cwd; /* NULL: ours */
    int fds[3];      /* its streams, or one of the above; not below 3, but for its own number */
    int group;       /* 0: ours; -1: of its own; else this one */
};
int wf_sys_spawn(const struct wf_child_plan *plan, pid_t *out);
int wf_sys_pidfd_open(pid_t pid);
int wf_sys_pidfd_kill(int pidfd, int number);
/* How it ended.  -EAGAIN: it has not, and `waits` is false. */
int wf_sys_pidfd_wait(int pidfd, siginfo_t *info, bool waits);
/* Kills a child of ours and waits for it. */
void wf_sys_reap(pid_t pid);
/* Both are closed on exec, and block. */
int wf_sys_pipe(int fds[2]);
/* A copy with a number that is not smaller; closed on exec. */
int wf_sys_dup_above(int fd, int least);

int wf_sys_epoll_create(void);
/* One that is there already is set anew: it is reported what there is. */
int wf_sys_epoll_add(int epoll_fd, int fd, uint32_t events, void *data);
void wf_sys_epoll_remove(int epoll_fd, int fd);
/* Their number; 0 also after EINTR. */
int wf_sys_epoll_wait(int epoll_fd, struct epoll_event *events, int count, int64_t deadline_ns);
int wf_sys_eventfd(void);
/* One more; a full counter is no error, since whoever looks sees that it is not empty. */
void wf_sys_eventfd_add(int fd);

#endif
