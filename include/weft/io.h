/* SPDX-License-Identifier: MIT */
/*
 * weft/io.h - reading and writing in the style of blocking calls: sockets, pipes, and whatever else
 * can be polled.
 *
 * Each call does what the system call of its name does, and where that would block the task waits:
 * its worker goes on with others.  The call is tried first, unless the last one found nothing and
 * the kernel has told of nothing since.  A result < 0 is a negative errno; besides those of the
 * system call:
 *
 *   -ECANCELED   the task was asked to end
 *   -ETIMEDOUT   its deadline came first (weft_deadline)
 *   -EBADF       somebody closed the descriptor meanwhile, by weft_close
 *   -EAGAIN      in a poll task, which cannot wait here: weft_fd_future does
 *
 * A call that was interrupted so has moved nothing.  One that need not wait succeeds, but now and
 * then it looks, too.  EINTR is never given.
 *
 * Descriptors are plain numbers and may come from anywhere.  Weft sets O_NONBLOCK when it first
 * has to know one (not on regular files and terminals).  Two rules: what was used here is closed by
 * weft_close, or, if others close it, weft_forget is called before; and a descriptor has to outlive
 * the calls that use it, which weft_close sees to and close does not.  Who breaks the first has a
 * task that waits for ever when the number is given out again: it is taken for the old one.
 *
 * A thread that is no worker may call these too, and is blocked.
 */
#ifndef WEFT_IO_H
#define WEFT_IO_H

#include <sys/types.h>

#include <weft/chan.h>
#include <weft/future.h>
#include <weft/types.h>

WEFT_BEGIN

/* Of <sys/socket.h> and <sys/uio.h>, whose many short names are not forced upon those who only want
 * tasks.  socklen_t is an unsigned int there. */
struct iovec;
struct msghdr;
struct sockaddr;

/* 0: the end of the file, or a peer that has closed its side. */
WEFT_API ssize_t weft_read(int fd, void *buffer, size_t size);
WEFT_API ssize_t weft_readv(int fd, const struct iovec *parts, int count);
/* May write less than asked. */
WEFT_API ssize_t weft_write(int fd, const void *bytes, size_t size);
WEFT_API ssize_t weft_writev(int fd, const struct iovec *parts, int count);

/* Reads until `size` bytes are there, or the end comes first: then it gives less.  After an error
 * it is unknown how much was read. */
WEFT_API ssize_t weft_read_full(int fd, void *buffer, size_t size);
/* Writes all of it: 0.  After an error it is unknown how much was written. */
WEFT_API int weft_write_all(int fd, const void *bytes, size_t size);

/* Sockets.  A peer that is gone gives -EPIPE, and no signal, here and in the calls above.
 * MSG_DONTWAIT in `flags` is heeded. */
WEFT_API ssize_t weft_socket_recv(int fd, void *buffer, size_t size, int flags);
WEFT_API ssize_t weft_socket_send(int fd, const void *bytes, size_t size, int flags);
WEFT_API ssize_t weft_recvfrom(int fd, void *buffer, size_t size, int flags,
                               struct sockaddr *address, unsigned int *address_size);
WEFT_API ssize_t weft_sendto(int fd, const void *bytes, size_t size, int flags,
                             const struct sockaddr *address, unsigned int address_size);
WEFT_API ssize_t weft_recvmsg(int fd, struct msghdr *message, int flags);
WEFT_API ssize_t weft_sendmsg(int fd, const struct msghdr *message, int flags);

/*
 * The next connection: its descriptor, which is closed on exec and does not block.  `address` may
 * be NULL.  A connection that was reset before anybody took it is skipped.  If there are no more
 * descriptors, or no memory for one (EMFILE, ENFILE, ENOBUFS, ENOMEM), it waits a moment and tries
 * again, up to a second in all; then it gives the error: the connection stays where it is, and a
 * server that goes on accepting has it as soon as another one ends.
 */
WEFT_API int weft_accept(int fd, struct sockaddr *address, unsigned int *address_size);
/* Connects, and waits until it is done: 0. */
WEFT_API int weft_connect(int fd, const struct sockaddr *address, unsigned int address_size);
WEFT_API int weft_shutdown(int fd, int how);

/*
 * Waits until the descriptor can be read from (POLLIN) or written to (POLLOUT): one of both.  For
 * descriptors that are read by other means: an eventfd, a timerfd, a library's socket.  Gives
 * POLLIN or POLLOUT, with POLLHUP and POLLERR if these are known.  Unlike the calls above it asks
 * the kernel each time.
 */
WEFT_API int weft_poll_fd(int fd, int events);

/* weft_poll_fd for poll tasks, and for those who wait for several things at once. */
WEFT_API void weft_fd_future(weft_wait_future *future, int fd, int events);

/*
 * weft_poll_fd as a case of weft_select, for green threads: it can run when the descriptor can be
 * read from (POLLIN) or written to (POLLOUT).  The `value` of the case that ran is what
 * weft_poll_fd would have given, its `result` 0 or the error: -EBADF, it is closed.  For both
 * events, two cases.
 *
 *     weft_case cases[] = {weft_case_fd(fd, POLLIN), weft_case_recv(orders, &order)};
 */
WEFT_API weft_case weft_case_fd(int fd, int events);

/*
 * Closes it.  Whoever waits for it gets -EBADF, and so do later calls; it is closed when the last
 * call that uses it has returned, mostly at once.  Then its number is somebody else's: so who wants
 * to end a connection that another task has uses weft_shutdown, and the other one closes it.
 *
 * 0 or an error of close, after which it is closed too; -EBADF: it is not open.
 */
WEFT_API int weft_close(int fd);

/* Somebody else is about to close the descriptor, or has it from now on: Weft forgets what it knows
 * of it.  Whoever waits for it gets -EBADF. */
WEFT_API int weft_forget(int fd);

WEFT_END

#endif
