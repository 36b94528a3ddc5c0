/* SPDX-License-Identifier: MIT */
/*
 * weft/io.h - I/O in the style of blocking calls, on sockets, pipes and every other descriptor that
 * can be polled.
 *
 * Each call does what the system call of its name does.  Where that would block, the task is
 * suspended and its worker runs other tasks.  The system call is tried first, unless the last one
 * returned EAGAIN and the kernel has reported no readiness since.  A result < 0 is a negative
 * errno: that of the system call, or
 *
 *   -ECANCELED   the task was cancelled
 *   -ETIMEDOUT   the task's deadline passed (weft_deadline_set)
 *   -EBADF       another task or thread closed the descriptor by weft_close during the call
 *   -EAGAIN      called in a poll task, which cannot wait here: use weft_fd_wait_future
 *
 * A call that ends with one of these has transferred nothing.  A call that need not wait succeeds
 * even if the task was cancelled, but checks for cancellation from time to time.  No call returns
 * -EINTR.
 *
 * Descriptors:  plain numbers from any source.  Weft sets O_NONBLOCK on a descriptor at its first
 *               use (not on regular files and terminals).  Two rules.  First, if a descriptor was
 *               used here, close it by weft_close; if other code closes it, call weft_fd_forget
 *               before that.  Otherwise a task that uses a later descriptor with the same number
 *               may wait for ever, because Weft takes the later descriptor for the old one.
 *               Second, a descriptor must stay open during the calls that use it; weft_close
 *               ensures that, close(2) does not.
 * Threads:      any task or thread.  A non-worker thread is blocked where a task would be
 *               suspended.
 */
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include <sys/types.h>

#include <weft/chan.h>
#include <weft/future.h>
#include <weft/types.h>

WEFT_BEGIN

/* Declared here instead of including <sys/socket.h> and <sys/uio.h>, which bring many short names.
 * socklen_t is an unsigned int there. */
struct iovec;
struct msghdr;
struct sockaddr;

/* Read up to `size` bytes; return their number, or 0 at the end of the file or after the peer has
 * closed its direction. */
WEFT_API ssize_t weft_read(int fd, void *buffer, size_t size);
WEFT_API ssize_t weft_readv(int fd, const struct iovec *parts, int count);
/* Write up to `size` bytes; return their number, which may be less than requested. */
WEFT_API ssize_t weft_write(int fd, const void *bytes, size_t size);
WEFT_API ssize_t weft_writev(int fd, const struct iovec *parts, int count);

/* Reads until it has `size` bytes or reaches the end; returns the number of bytes.  After an error
 * it is unknown how many were read. */
WEFT_API ssize_t weft_read_full(int fd, void *buffer, size_t size);
/* Writes all `size` bytes and returns 0.  After an error it is unknown how many were written. */
WEFT_API int weft_write_all(int fd, const void *bytes, size_t size);

/* Socket calls.  If the peer is gone they return -EPIPE without raising SIGPIPE, as do the calls
 * above.  With MSG_DONTWAIT in `flags` they never wait and return -EAGAIN instead. */
WEFT_API ssize_t weft_recv(int fd, void *buffer, size_t size, int flags);
WEFT_API ssize_t weft_send(int fd, const void *bytes, size_t size, int flags);
WEFT_API ssize_t weft_recvfrom(int fd, void *buffer, size_t size, int flags,
                               struct sockaddr *address, unsigned int *address_size);
WEFT_API ssize_t weft_sendto(int fd, const void *bytes, size_t size, int flags,
                             const struct sockaddr *address, unsigned int address_size);
WEFT_API ssize_t weft_recvmsg(int fd, struct msghdr *message, int flags);
WEFT_API ssize_t weft_sendmsg(int fd, const struct msghdr *message, int flags);

/*
 * Waits for the next connection and returns its descriptor, which has O_CLOEXEC and O_NONBLOCK and
 * belongs to the caller.  `address` may be NULL.  A connection that was reset before it was
 * accepted is skipped.  If the process is out of descriptors or memory (EMFILE, ENFILE, ENOBUFS,
 * ENOMEM), it waits and tries again for up to a second, then returns the error.  The connection
 * stays in the backlog: a server that continues to accept gets it as soon as a descriptor is free.
 */
WEFT_API int weft_accept(int fd, struct sockaddr *address, unsigned int *address_size);
/* Connects, waits until the connection is established, and returns 0.  If the backlog of a Unix
 * socket is full, it waits and tries again; in a poll task it returns -EAGAIN instead, and no
 * future reports when the backlog has room again. */
WEFT_API int weft_connect(int fd, const struct sockaddr *address, unsigned int address_size);
/* Shuts down a connection, as shutdown(2) does; a call that waits for the direction that was shut
 * down returns.  Never waits. */
WEFT_API int weft_shutdown(int fd, int how);

/*
 * Waits until the descriptor is readable (`events` POLLIN) or writable (POLLOUT); `events` is one
 * of the two.  For descriptors that are read by other means: an eventfd, a timerfd, a library's
 * socket. Returns POLLIN or POLLOUT, with POLLHUP and POLLERR if these are known.  Unlike the calls
 * above it asks the kernel each time.
 */
WEFT_API int weft_fd_wait(int fd, int events);

/* weft_fd_wait as a future, for poll tasks and for waiting for several things at once. */
WEFT_API void weft_fd_wait_future(weft_wait_future *future, int fd, int events) WEFT_NONNULL(1);

/*
 * weft_fd_wait as a case of weft_select, for green threads: the case can run when the descriptor is
 * readable (POLLIN) or writable (POLLOUT).  The `value` of the case that ran is the result of
 * weft_fd_wait; its `result` is 0 or the error, -EBADF: the descriptor was closed.  To wait for
 * both events use two cases.
 *
 *     weft_case cases[] = {weft_case_fd(fd, POLLIN), weft_case_recv(orders, &order)};
 */
WEFT_API weft_case weft_case_fd(int fd, int events);

/*
 * Closes the descriptor.  Waiting calls on it return -EBADF, and so do later calls.  The descriptor
 * itself is closed when the last call that uses it has returned, usually at once; the kernel may
 * then reuse its number.  So to end a connection that another task uses, call weft_shutdown and let
 * the other task close it.  Never waits.
 *
 * Returns 0; -EBADF: the descriptor is not open; or another error of close(2), after which the
 * descriptor is closed all the same.
 */
WEFT_API int weft_close(int fd);

/* Makes Weft forget the descriptor, without closing it: call it before other code closes the
 * descriptor or takes it over.  Waiting calls on it return -EBADF.  Never waits.  Returns 0, also
 * if Weft does not know the descriptor; -EBADF: a negative number. */
WEFT_API int weft_fd_forget(int fd);

WEFT_END

#endif
