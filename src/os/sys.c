/* SPDX-License-Identifier: MIT */
/*
 * os/sys.c - the system calls for I/O: see os/sys.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "os/os.h"
#include "os/sys.h"

#define NS_PER_MS INT64_C(1000000)

/* Returns the result of `call`, restarted after EINTR, or `fault` if the fault point fires. */
#define CALL(type, name, fault, call)                                                              \
    do {                                                                                           \
        if (WF_FAULT(name)) {                                                                      \
            return (fault);                                                                        \
        }                                                                                          \
        for (;;) { /* Ends with the first call that no signal interrupts. */                       \
            const type rc_ = (call);                                                               \
            if (rc_ >= 0) {                                                                        \
                return rc_;                                                                        \
            }                                                                                      \
            if (errno != EINTR) {                                                                  \
                return -errno;                                                                     \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/*
 * In libc these calls are pthread cancellation points.  In a process with threads that takes two
 * locked instructions a call, about 25 ns, and the runtime's threads are never cancelled.  So these
 * calls bypass libc, except in sanitizer builds, where the sanitizer intercepts them.
 */
#if defined(WF_TSAN) || defined(WF_ASAN)
#define DIRECT(name, ...) name(__VA_ARGS__)
#else
#define DIRECT(name, ...) syscall(SYS_##name, __VA_ARGS__)
#endif

ssize_t wf_sys_read(int fd, void *buffer, size_t size)
{
    CALL(ssize_t, "read", -EIO, DIRECT(read, fd, buffer, size));
}

ssize_t wf_sys_write(int fd, const void *bytes, size_t size)
{
    CALL(ssize_t, "write", -EIO, DIRECT(write, fd, bytes, size));
}

ssize_t wf_sys_readv(int fd, const struct iovec *parts, int count)
{
    CALL(ssize_t, "readv", -EIO, DIRECT(readv, fd, parts, count));
}

ssize_t wf_sys_writev(int fd, const struct iovec *parts, int count)
{
    CALL(ssize_t, "writev", -EIO, DIRECT(writev, fd, parts, count));
}

ssize_t wf_sys_recvfrom(int fd, void *buffer, size_t size, int flags, struct sockaddr *address,
                        socklen_t *address_size)
{
    CALL(ssize_t, "recvfrom", -ECONNRESET,
         DIRECT(recvfrom, fd, buffer, size, flags, address, address_size));
}

ssize_t wf_sys_sendto(int fd, const void *bytes, size_t size, int flags,
                      const struct sockaddr *address, socklen_t address_size)
{
    CALL(ssize_t, "sendto", -ENOBUFS,
         DIRECT(sendto, fd, bytes, size, flags, address, address_size));
}

ssize_t wf_sys_recvmsg(int fd, struct msghdr *message, int flags)
{
    CALL(ssize_t, "recvmsg", -ECONNRESET, DIRECT(recvmsg, fd, message, flags));
}

ssize_t wf_sys_sendmsg(int fd, const struct msghdr *message, int flags)
{
    CALL(ssize_t, "sendmsg", -ENOBUFS, DIRECT(sendmsg, fd, message, flags));
}

int wf_sys_accept(int fd, struct sockaddr *address, socklen_t *address_size)
{
    if (WF_FAULT("accept_aborted")) {
        return -ECONNABORTED;
    }
    CALL(int, "accept", -EMFILE, accept4(fd, address, address_size, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

int wf_sys_connect(int fd, const struct sockaddr *address, socklen_t address_size)
{
    if (WF_FAULT("connect")) {
        return -ENETUNREACH;
    }
    if (connect(fd, address, address_size) == 0) {
        return 0;
    }
    return errno == EINTR ? -EINPROGRESS : -errno;
}

int wf_sys_socket_error(int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);
    if (WF_FAULT("getsockopt")) {
        return -ENOBUFS;
    }
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? -error : -errno;
}

int wf_sys_socket_type(int fd, int *domain, int *type)
{
    socklen_t size = sizeof(*type);
    if (WF_FAULT("getsockopt")) {
        return -ENOBUFS;
    }
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, type, &size) == 0 &&
                   getsockopt(fd, SOL_SOCKET, SO_DOMAIN, domain, &size) == 0
               ? 0
               : -errno;
}

int wf_sys_shutdown(int fd, int how)
{
    CALL(int, "shutdown", -ENOTCONN, shutdown(fd, how));
}

int wf_sys_close(int fd)
{
    int rc = close(fd) == 0 || errno == EINTR ? 0 : -errno;
    return WF_FAULT("close") ? -EIO : rc; /* a close that fails has closed the descriptor too */
}

int wf_sys_fstat(int fd, struct stat *out)
{
    CALL(int, "fstat", -EIO, fstat(fd, out));
}

int wf_sys_set_nonblocking(int fd)
{
    if (WF_FAULT("fcntl")) {
        return -EPERM;
    }
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0) {
        return -errno;
    }
    return (flags & O_NONBLOCK) != 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 ? 0 : -errno;
}

/* ---- files --------------------------------------------------------------------------------- */

int wf_sys_open(const char *path, int flags, mode_t mode)
{
    CALL(int, "open", -EMFILE, open(path, flags | O_CLOEXEC, mode));
}

ssize_t wf_sys_pread(int fd, void *buffer, size_t size, int64_t offset)
{
    CALL(ssize_t, "pread", -EIO, pread(fd, buffer, size, offset));
}

ssize_t wf_sys_pwrite(int fd, const void *bytes, size_t size, int64_t offset)
{
    CALL(ssize_t, "pwrite", -EIO, pwrite(fd, bytes, size, offset));
}

ssize_t wf_sys_read_cached(int fd, const struct iovec *parts, int count, int64_t offset)
{
    if (WF_FAULT("preadv2")) {
        return -EAGAIN;
    }
    const ssize_t got = preadv2(fd, parts, count, offset, RWF_NOWAIT);
    return got >= 0 ? got : -EAGAIN; /* the plain read that follows reports the error */
}

int wf_sys_fsync(int fd)
{
    CALL(int, "fsync", -EIO, fsync(fd));
}

int wf_sys_fdatasync(int fd)
{
    CALL(int, "fdatasync", -EIO, fdatasync(fd));
}

ssize_t wf_sys_copy_file_range(int to, int from, size_t size)
{
    CALL(ssize_t, "copy_file_range", -EXDEV, copy_file_range(from, NULL, to, NULL, size, 0));
}

ssize_t wf_sys_sendfile(int to, int from, size_t size)
{
    CALL(ssize_t, "sendfile", -EINVAL, sendfile(to, from, NULL, size));
}

ssize_t wf_sys_splice(int to, int from, size_t size)
{
    CALL(ssize_t, "splice", -EINVAL, splice(from, NULL, to, NULL, size, SPLICE_F_NONBLOCK));
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* The time until the deadline, in *out; NULL for WF_FOREVER. */
static struct timespec *time_left(int64_t deadline_ns, struct timespec *out)
{
    if (deadline_ns == WF_FOREVER) {
        return NULL;
    }
    int64_t left_ns = deadline_ns == 0 ? 0 : deadline_ns - wf_clock_now();
    left_ns = left_ns > 0 ? left_ns : 0;
    *out = (struct timespec){.tv_sec = left_ns / WF_NS_PER_S, .tv_nsec = left_ns % WF_NS_PER_S};
    return out;
}

int wf_sys_poll(int fd, int wakeup_fd, short events, int64_t deadline_ns)
{
    struct pollfd both[2] = {{.fd = fd, .events = events}, {.fd = wakeup_fd, .events = POLLIN}};
    struct timespec left;
    if (WF_FAULT("poll")) {
        return -ENOMEM;
    }
    for (;;) { /* Ends with an event or at the deadline. */
        const int count = ppoll(both, 2, time_left(deadline_ns, &left), NULL);
        if (count >= 0) {
            return count == 0 ? 0 : both[0].revents;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

int wf_sys_epoll_create(void)
{
    CALL(int, "epoll_create", -EMFILE, epoll_create1(EPOLL_CLOEXEC));
}

int wf_sys_epoll_add(int epoll_fd, int fd, uint32_t events, void *data)
{
    struct epoll_event event = {.events = events, .data.ptr = data};
    if (WF_FAULT("epoll_ctl")) {
        return -ENOSPC;
    }
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) {
        return 0;
    }
    if (errno != EEXIST) {
        return -errno;
    }
    WF_REACHED("sys.epoll_knows_it");
    return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0 ? 0 : -errno;
}

void wf_sys_epoll_remove(int epoll_fd, int fd)
{
    (void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* fails if `fd` is not registered */
}

/* Before Linux 5.11: milliseconds, rounded up. */
static int epoll_wait_ms(int epoll_fd, struct epoll_event *events, int count,
                         const struct timespec *left)
{
    int64_t ms = -1;
    if (left != NULL) {
        ms = left->tv_sec * 1000 + (left->tv_nsec + NS_PER_MS - 1) / NS_PER_MS;
        ms = ms < INT_MAX ? ms : INT_MAX;
    }
    return epoll_wait(epoll_fd, events, count, (int)ms);
}

static int epoll_wait_ns(int epoll_fd, struct epoll_event *events, int count,
                         const struct timespec *left)
{
#if defined(WF_TSAN) || defined(WF_ASAN)
    return epoll_pwait2(epoll_fd, events, count, left, NULL);
#else
    return (int)syscall(SYS_epoll_pwait2, epoll_fd, events, count, left, NULL, 0);
#endif
}

int wf_sys_epoll_wait(int epoll_fd, struct epoll_event *events, int count, int64_t deadline_ns)
{
    static WF_ATOMIC(int) is_old; /* [any: write]  the kernel lacks epoll_pwait2 */
    struct timespec buffer;
    const struct timespec *left = time_left(deadline_ns, &buffer);
    int rc = -1;
    /* relaxed: a thread that does not see the flag makes one more futile call. */
    bool is_new = wf_load_relaxed(&is_old) == 0 && !WF_FAULT("epoll_pwait2");
    if (is_new) {
        rc = epoll_wait_ns(epoll_fd, events, count, left);
        is_new = rc >= 0 || errno != ENOSYS;
        wf_store_relaxed(&is_old, !is_new);
    }
    if (!is_new) {
        WF_REACHED("sys.no_epoll_pwait2");
        rc = epoll_wait_ms(epoll_fd, events, count, left);
    }
    WEFT_CHECK(rc >= 0 || errno == EINTR); /* any other error means a bad descriptor */
    return rc >= 0 ? rc : 0;
}

int wf_sys_eventfd(void)
{
    CALL(int, "eventfd", -EMFILE, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

void wf_sys_eventfd_add(int fd)
{
    const uint64_t one = 1;
    ssize_t rc;
    do { /* Ends with the first write that no signal interrupts. */
        rc = write(fd, &one, sizeof(one));
    } while (rc < 0 && errno == EINTR);
    WEFT_CHECK(rc == (ssize_t)sizeof(one) || errno == EAGAIN);
}
