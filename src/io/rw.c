/* SPDX-License-Identifier: MIT */
/*
 * io/rw.c - reading and writing: the call is tried, and waits only if it finds nothing.
 *
 * All are one loop around the system call, which is in `call`: what differs is which, and its
 * arguments.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>

#include "io/io.h"
#include "os/sys.h"
#include "sched/fast.h"

/* A system call that moves bytes. */
struct transfer {
    ssize_t (*call)(int fd, const struct transfer *transfer, enum wf_fd_kind kind);
    enum wf_side side;
    int flags;   /* of a socket */
    size_t size; /* that is asked for; 0: to get less says nothing */
    union {
        void *buffer;
        const void *bytes;
        const struct iovec *parts;
        struct msghdr *message;
    };
    int count; /* of parts */
    union {
        struct sockaddr *from;
        const struct sockaddr *to;
    };
    socklen_t *from_size;
    socklen_t to_size;
};

static bool is_socket(enum wf_fd_kind kind)
{
    return kind == WF_FD_TCP || kind == WF_FD_SOCKET;
}

static ssize_t call_read(int fd, const struct transfer *transfer, enum wf_fd_kind kind);
static ssize_t call_readv(int fd, const struct transfer *transfer, enum wf_fd_kind kind);
static ssize_t call_write(int fd, const struct transfer *transfer, enum wf_fd_kind kind);
static ssize_t call_writev(int fd, const struct transfer *transfer, enum wf_fd_kind kind);
static ssize_t call_recvfrom(int fd, const struct transfer *transfer, enum wf_fd_kind kind);
static ssize_t call_sendto(int fd, const struct transfer *transfer, enum wf_fd_kind kind);

/* [inside]  A terminal blocks: it is asked first whether it would. */
static int try_terminal(struct wf_use *use, const struct transfer *transfer)
{
    const short events = transfer->side == WF_SIDE_READ ? POLLIN : POLLOUT;
    const int rc = wf_sys_poll(use->fd, -1, events, 0);
    return rc == 0 ? -EAGAIN : rc < 0 ? rc : 0;
}

/* [inside]  The system call; or, if others of the worker have some to make too, one for all. */
static inline __attribute__((always_inline)) ssize_t
call_once(struct wf_use *use, const struct transfer *transfer, enum wf_fd_kind kind)
{
    const bool is_read =
        transfer->call == call_read || (transfer->call == call_recvfrom && transfer->from == NULL);
    const bool is_write =
        transfer->call == call_write || (transfer->call == call_sendto && transfer->to == NULL);
    ssize_t moved;
    if (is_socket(kind) && transfer->size > 0 && (is_read || is_write) &&
        (transfer->flags & MSG_DONTWAIT) == 0 && wf_has_rings(use) && wf_uring_is_worth(use)) {
        const struct wf_ring_call call = {
            .what = is_read ? WF_RING_RECV : WF_RING_SEND,
            .fd = use->fd,
            .bytes = transfer->bytes,
            .size = transfer->size,
            .flags = is_read ? transfer->flags : transfer->flags | MSG_NOSIGNAL,
        };
        if (wf_ring_call(use, &call, &moved)) {
            return moved;
        }
    }
    return transfer->call(use->fd, transfer, kind);
}

/* [inside]  Once: -EAGAIN, it would block. */
static inline __attribute__((always_inline)) ssize_t
attempt(struct wf_use *use, const struct transfer *transfer, uint32_t news, enum wf_fd_kind kind)
{
    if ((transfer->flags & MSG_DONTWAIT) == 0 && wf_use_is_drained(use, transfer->side, news)) {
        return -EAGAIN;
    }
    const int rc = kind == WF_FD_TERMINAL && use->self != NULL ? try_terminal(use, transfer) : 0;
    const ssize_t moved = rc != 0 ? rc : call_once(use, transfer, kind);
    if (moved == -EAGAIN || (kind == WF_FD_TCP && transfer->flags == 0 && moved > 0 &&
                             (size_t)moved < transfer->size)) {
        wf_use_drain(use, transfer->side, news);
    }
    return moved;
}

/* A call on a regular file, for a thread that may block. */
struct file_call {
    const struct transfer *transfer;
    int fd;
};

static intptr_t run_file_call(void *arg)
{
    const struct file_call *call = arg;
    return call->transfer->call(call->fd, call->transfer, WF_FD_FILE);
}

/* [inside, task]  On a thread that may block.  Not by a ring: there calls that overlap read the
 * position before and write it after, and what one has written another overwrites. */
static ssize_t move_file_slowly(struct wf_use *use, const struct transfer *transfer)
{
    struct file_call file = {transfer, use->fd};
    struct wf_hold hold;
    wf_hold_begin(&hold, use);
    ssize_t result = wf_call_blocking(run_file_call, &file);
    wf_hold_end(&hold);
    return result;
}

/* [inside, task]  What is in the cache is had at once. */
static ssize_t move_file(struct wf_use *use, const struct transfer *transfer)
{
    ssize_t got = -EAGAIN;
    if (transfer->call == call_read) {
        const struct iovec whole = {.iov_base = transfer->buffer, .iov_len = transfer->size};
        got = wf_sys_read_cached(use->fd, &whole, 1, -1);
    } else if (transfer->call == call_readv) {
        got = wf_sys_read_cached(use->fd, transfer->parts, transfer->count, -1);
    }
    if (got < 0) {
        use->has_waited = true;
        return move_file_slowly(use, transfer);
    }
    return got;
}

/* [inside]  Once, and waits for it. */
static inline __attribute__((always_inline)) ssize_t
move_once(struct wf_use *use, enum wf_fd_kind kind, const struct transfer *transfer)
{
    ssize_t moved = use->self != NULL ? wf_heed(use->self) : 0;
    if (moved != 0) {
        return moved;
    }
    if (kind == WF_FD_FILE && use->self != NULL) {
        return move_file(use, transfer);
    }
    for (;;) { /* ends with what the call gives, or when it may not wait on */
        const uint32_t news = wf_use_news(use, transfer->side);
        moved = attempt(use, transfer, news, kind);
        if (moved != -EAGAIN || (transfer->flags & MSG_DONTWAIT) != 0) {
            break;
        }
        moved = wf_use_wait(use, transfer->side, news);
        if (moved != 0) {
            break;
        }
        use->has_waited = true;
    }
    return moved;
}

/* [inside]  Goes out, and lets others run if it is time for that: not before, since a task that
 * never goes on would stay inside. */
static inline __attribute__((always_inline)) void end_and_spend(struct wf_use *use, bool is_well)
{
    wf_use_end(use);
    if (is_well && use->self != NULL && !use->has_waited) {
        wf_spend(use->self);
    }
}

/* Inlined into the calls that count: what is not theirs falls away. */
static inline __attribute__((always_inline)) ssize_t move_by(int fd,
                                                             const struct transfer *transfer)
{
    struct wf_use use;
    enum wf_fd_kind kind;
    ssize_t moved = wf_use_begin(&use, fd);
    if (moved != 0) {
        return moved;
    }
    moved = wf_use_classify(&use, &kind);
    moved = moved == 0 ? move_once(&use, kind, transfer) : moved;
    end_and_spend(&use, moved >= 0);
    return moved;
}

static __attribute__((noinline)) ssize_t move(int fd, const struct transfer *transfer)
{
    return move_by(fd, transfer);
}

/* [inside]  Nobody could take it back from who closed it: between two pieces it is asked for. */
static bool is_closed(const struct wf_use *use)
{
    return (wf_load_relaxed(&use->entry->state) & WF_ENTRY_CLOSING) != 0; /* relaxed: a mark */
}

/* All of `transfer`, which has one buffer: how much it was; less if the end came.  It is one use,
 * because in between the number could become that of another descriptor. */
static inline __attribute__((always_inline)) ssize_t move_all(int fd, struct transfer *transfer)
{
    struct wf_use use;
    enum wf_fd_kind kind;
    ssize_t done = 0;
    ssize_t moved = wf_use_begin(&use, fd);
    if (moved != 0) {
        return moved;
    }
    moved = wf_use_classify(&use, &kind);
    if (moved == 0) {
        do { /* ends: each turn moves a byte, or is the last */
            moved = is_closed(&use) ? -EBADF : move_once(&use, kind, transfer);
            if (moved > 0) {
                transfer->buffer = (char *)transfer->buffer + moved;
                transfer->size -= (size_t)moved;
                done += moved;
            }
        } while (moved > 0 && transfer->size > 0);
    }
    end_and_spend(&use, moved >= 0);
    return moved < 0 ? moved : done;
}

/* ---- the calls ----------------------------------------------------------------------------- */

/* On a socket a receive is a tenth faster.  But a receive of nothing takes a datagram away. */
static ssize_t call_read(int fd, const struct transfer *transfer, enum wf_fd_kind kind)
{
    return is_socket(kind) && transfer->size > 0
               ? wf_sys_recvfrom(fd, transfer->buffer, transfer->size, 0, NULL, NULL)
               : wf_sys_read(fd, transfer->buffer, transfer->size);
}

/* A socket whose peer is gone must not end the process by a signal. */
static ssize_t call_write(int fd, const struct transfer *transfer, enum wf_fd_kind kind)
{
    return is_socket(kind)
               ? wf_sys_sendto(fd, transfer->bytes, transfer->size, MSG_NOSIGNAL, NULL, 0)
               : wf_sys_write(fd, transfer->bytes, transfer->size);
}

static ssize_t call_readv(int fd, const struct transfer *transfer, enum wf_fd_kind kind)
{
    (void)kind;
    return wf_sys_readv(fd, transfer->parts, transfer->count);
}

static ssize_t call_writev(int fd, const struct transfer *transfer, enum wf_fd_kind kind)
{
    if (!is_socket(kind) || transfer->count < 0) {
        return wf_sys_writev(fd, transfer->parts, transfer->count);
    }
    const struct msghdr message = {
        .msg_iov = (struct iovec *)(uintptr_t)transfer->parts, /* only read */
        .msg_iovlen = (size_t)transfer->count,
    };
    return wf_sys_sendmsg(fd, &message, MSG_NOSIGNAL);
}

static ssize_t call_recvfrom(int fd, const struct transfer *transfer, enum wf_fd_kind kind)
{
    (void)kind;
    return wf_sys_recvfrom(fd, transfer->buffer, transfer->size, transfer->flags, transfer->from,
                           transfer->from_size);
}

static ssize_t call_sendto(int fd, const struct transfer *transfer, enum wf_fd_kind kind)
{
    (void)kind;
    return wf_sys_sendto(fd, transfer->bytes, transfer->size, transfer->flags | MSG_NOSIGNAL,
                         transfer->to, transfer->to_size);
}

static ssize_t call_recvmsg(int fd, const struct transfer *transfer, enum wf_fd_kind kind)
{
    (void)kind;
    return wf_sys_recvmsg(fd, transfer->message, transfer->flags | MSG_CMSG_CLOEXEC);
}

static ssize_t call_sendmsg(int fd, const struct transfer *transfer, enum wf_fd_kind kind)
{
    (void)kind;
    return wf_sys_sendmsg(fd, transfer->message, transfer->flags | MSG_NOSIGNAL);
}

ssize_t weft_read(int fd, void *buffer, size_t size)
{
    const struct transfer transfer = {
        .call = call_read, .side = WF_SIDE_READ, .size = size, .buffer = buffer};
    return move_by(fd, &transfer);
}

ssize_t weft_write(int fd, const void *bytes, size_t size)
{
    const struct transfer transfer = {
        .call = call_write, .side = WF_SIDE_WRITE, .size = size, .bytes = bytes};
    return move_by(fd, &transfer);
}

ssize_t weft_readv(int fd, const struct iovec *parts, int count)
{
    const struct transfer transfer = {
        .call = call_readv, .side = WF_SIDE_READ, .parts = parts, .count = count};
    return move(fd, &transfer);
}

ssize_t weft_writev(int fd, const struct iovec *parts, int count)
{
    const struct transfer transfer = {
        .call = call_writev, .side = WF_SIDE_WRITE, .parts = parts, .count = count};
    return move(fd, &transfer);
}

ssize_t weft_socket_recv(int fd, void *buffer, size_t size, int flags)
{
    return weft_recvfrom(fd, buffer, size, flags, NULL, NULL);
}

/* The kernel writes both. */
ssize_t weft_recvfrom(int fd, void *buffer, size_t size, int flags, struct sockaddr *address,
                      socklen_t *address_size) /* NOLINT(readability-non-const-parameter) */
{
    const struct transfer transfer = {
        .call = call_recvfrom,
        .side = WF_SIDE_READ,
        .flags = flags,
        .size = size,
        .buffer = buffer,
        .from = address,
        .from_size = address_size,
    };
    return move(fd, &transfer);
}

ssize_t weft_socket_send(int fd, const void *bytes, size_t size, int flags)
{
    return weft_sendto(fd, bytes, size, flags, NULL, 0);
}

ssize_t weft_sendto(int fd, const void *bytes, size_t size, int flags,
                    const struct sockaddr *address, socklen_t address_size)
{
    const struct transfer transfer = {
        .call = call_sendto,
        .side = WF_SIDE_WRITE,
        .flags = flags,
        .size = size,
        .bytes = bytes,
        .to = address,
        .to_size = address_size,
    };
    return move(fd, &transfer);
}

ssize_t weft_recvmsg(int fd, struct msghdr *message, int flags)
{
    const struct transfer transfer = {
        .call = call_recvmsg, .side = WF_SIDE_READ, .flags = flags, .message = message};
    return message != NULL ? move(fd, &transfer) : -EINVAL;
}

ssize_t weft_sendmsg(int fd, const struct msghdr *message, int flags)
{
    const struct transfer transfer = {
        .call = call_sendmsg,
        .side = WF_SIDE_WRITE,
        .flags = flags,
        .message = (struct msghdr *)(uintptr_t)message, /* only read */
    };
    return message != NULL ? move(fd, &transfer) : -EINVAL;
}

/* ---- whole pieces -------------------------------------------------------------------------- */

ssize_t weft_read_full(int fd, void *buffer, size_t size)
{
    if (size > SSIZE_MAX) {
        return -EINVAL;
    }
    struct transfer transfer = {
        .call = call_read, .side = WF_SIDE_READ, .size = size, .buffer = buffer};
    return size > 0 ? move_all(fd, &transfer) : 0;
}

int weft_write_all(int fd, const void *bytes, size_t size)
{
    struct transfer transfer = {
        .call = call_write, .side = WF_SIDE_WRITE, .size = size, .bytes = bytes};
    const ssize_t moved = size > 0 ? move_all(fd, &transfer) : 0;
    if (moved < 0) {
        return (int)moved;
    }
    return transfer.size == 0 ? 0 : -EIO; /* no descriptor writes nothing */
}
