/* SPDX-License-Identifier: MIT */
/*
 * io/rw.c - reading and writing: the system call is tried first, and the task waits only if it
 * moves nothing.
 *
 * All functions are one loop around a `struct transfer`, which names the system call and its
 * arguments.
 *
 * No write raises SIGPIPE.  Sends have a flag for that.  Other writes have none: the threads of a
 * runtime have SIGPIPE blocked, and a non-worker thread blocks it around the call.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>

#include "future/future.h"
#include "io/io.h"
#include "io/uring.h"
#include "os/sys.h"

/* A system call that moves bytes. */
struct transfer {
    ssize_t (*call)(int fd, const struct transfer *transfer, enum wf_fd_kind kind);
    enum wf_dir dir;
    int flags;   /* of recv and send */
    size_t size; /* bytes of `buffer`; 0 if `parts` or `message` is used instead */
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
    return kind == WF_FD_KIND_TCP || kind == WF_FD_KIND_SOCKET;
}

static ssize_t call_read(int fd, const struct transfer *transfer, enum wf_fd_kind kind);
static ssize_t call_readv(int fd, const struct transfer *transfer, enum wf_fd_kind kind);
static ssize_t call_write(int fd, const struct transfer *transfer, enum wf_fd_kind kind);
static ssize_t call_writev(int fd, const struct transfer *transfer, enum wf_fd_kind kind);
static ssize_t call_recvfrom(int fd, const struct transfer *transfer, enum wf_fd_kind kind);
static ssize_t call_sendto(int fd, const struct transfer *transfer, enum wf_fd_kind kind);

/* [op]  A terminal is in blocking mode: polls it first.  -EAGAIN: the call would block. */
static int terminal_poll(struct wf_fd_op *op, const struct transfer *transfer)
{
    const short events = transfer->dir == WF_DIR_READ ? POLLIN : POLLOUT;
    const int rc = wf_sys_poll(op->fd, -1, events, 0);
    return rc == 0 ? -EAGAIN : rc < 0 ? rc : 0;
}

/* [op, non-worker thread]  Writes to a pipe, as the thread of a task does: with SIGPIPE blocked. */
static __attribute__((noinline)) ssize_t
call_without_sigpipe(int fd, const struct transfer *transfer, enum wf_fd_kind kind)
{
    struct wf_sigpipe sigpipe;
    wf_sigpipe_begin(&sigpipe);
    const ssize_t moved = transfer->call(fd, transfer, kind);
    wf_sigpipe_end(&sigpipe, moved >= 0 && (size_t)moved == transfer->size);
    return moved;
}

/* [op]  Makes the system call.  Uses io_uring for it if other tasks of the worker have calls to
 * make too. */
static inline __attribute__((always_inline)) ssize_t
call_once(struct wf_fd_op *op, const struct transfer *transfer, enum wf_fd_kind kind)
{
    const bool is_read =
        transfer->call == call_read || (transfer->call == call_recvfrom && transfer->from == NULL);
    const bool is_write =
        transfer->call == call_write || (transfer->call == call_sendto && transfer->to == NULL);
    ssize_t moved;
    if (is_socket(kind) && transfer->size > 0 && (is_read || is_write) &&
        (transfer->flags & MSG_DONTWAIT) == 0 && wf_uring_is_on(op) && wf_uring_is_worth(op)) {
        const struct wf_uring_call call = {
            .opcode = is_read ? WF_URING_RECV : WF_URING_SEND,
            .fd = op->fd,
            .bytes = transfer->bytes,
            .size = transfer->size,
            .flags = is_read ? transfer->flags : transfer->flags | MSG_NOSIGNAL,
        };
        if (wf_uring_call(op, &call, &moved)) {
            return moved;
        }
    }
    if (transfer->dir == WF_DIR_WRITE && kind == WF_FD_KIND_POLLED && op->self == NULL) {
        return call_without_sigpipe(op->fd, transfer, kind);
    }
    return transfer->call(op->fd, transfer, kind);
}

/* [op]  Tries once.  -EAGAIN: the call would block. */
static inline __attribute__((always_inline)) ssize_t transfer_try(struct wf_fd_op *op,
                                                                  const struct transfer *transfer,
                                                                  uint32_t ready_seq,
                                                                  enum wf_fd_kind kind)
{
    if ((transfer->flags & MSG_DONTWAIT) == 0 &&
        wf_fd_op_is_known_empty(op, transfer->dir, ready_seq)) {
        return -EAGAIN;
    }
    const int rc =
        kind == WF_FD_KIND_TERMINAL && op->self != NULL ? terminal_poll(op, transfer) : 0;
    const ssize_t moved = rc != 0 ? rc : call_once(op, transfer, kind);
    if (moved == -EAGAIN || (kind == WF_FD_KIND_TCP && transfer->flags == 0 && moved > 0 &&
                             (size_t)moved < transfer->size)) {
        wf_fd_op_set_empty(op, transfer->dir, ready_seq);
    }
    return moved;
}

/* A call on a regular file, for a thread of the blocking pool. */
struct file_transfer {
    const struct transfer *transfer;
    int fd;
};

static intptr_t run_file_transfer(void *arg)
{
    const struct file_transfer *call = arg;
    return call->transfer->call(call->fd, call->transfer, WF_FD_KIND_FILE);
}

/* [op, green thread]  Makes the call on a thread of the blocking pool.  Not by io_uring: there a
 * call reads the file position when it begins and stores the new one when it ends, so overlapping
 * calls would use the same position, and one would overwrite what another has written. */
static ssize_t move_file_slow(struct wf_fd_op *op, const struct transfer *transfer)
{
    struct file_transfer file = {transfer, op->fd};
    struct wf_undo_hook hook;
    wf_undo_hook_add(&hook, wf_fd_op_undo, op);
    ssize_t result = wf_call_blocking(run_file_transfer, &file);
    wf_undo_hook_remove(&hook);
    return result;
}

/* [op, task]  Bytes in the page cache are read without a switch. */
static ssize_t move_file(struct wf_fd_op *op, const struct transfer *transfer)
{
    ssize_t got = -EAGAIN;
    if (transfer->call == call_read) {
        const struct iovec whole = {.iov_base = transfer->buffer, .iov_len = transfer->size};
        got = wf_sys_read_cached(op->fd, &whole, 1, -1);
    } else if (transfer->call == call_readv) {
        got = wf_sys_read_cached(op->fd, transfer->parts, transfer->count, -1);
    }
    if (got < 0) {
        op->has_waited = true;
        return move_file_slow(op, transfer);
    }
    return got;
}

/* [op]  Makes the system call; while it returns -EAGAIN, waits for readiness and repeats (not with
 * MSG_DONTWAIT). */
static inline __attribute__((always_inline)) ssize_t
move_once(struct wf_fd_op *op, enum wf_fd_kind kind, const struct transfer *transfer)
{
    ssize_t moved = op->self != NULL ? wf_cancel_point(op->self) : 0;
    if (moved != 0) {
        return moved;
    }
    if (kind == WF_FD_KIND_FILE && op->self != NULL) {
        return move_file(op, transfer);
    }
    for (;;) { /* ends with a result of the call, or an interruption of the wait */
        const uint32_t ready_seq = wf_fd_op_ready_seq(op, transfer->dir);
        moved = transfer_try(op, transfer, ready_seq, kind);
        if (moved != -EAGAIN || (transfer->flags & MSG_DONTWAIT) != 0) {
            break;
        }
        moved = wf_fd_op_wait(op, transfer->dir, ready_seq);
        if (moved != 0) {
            break;
        }
        op->has_waited = true;
    }
    return moved;
}

/* [op]  Ends the operation and yields if the budget is used up.  In this order: a task that yields
 * may be abandoned, and must not hold a reference then. */
static inline __attribute__((always_inline)) void end_and_spend(struct wf_fd_op *op, bool is_done)
{
    wf_fd_op_end(op);
    if (is_done && op->self != NULL && !op->has_waited) {
        wf_budget_spend(op->self);
    }
}

/* Inlined into weft_read and weft_write: the compiler drops the branches of other calls. */
static inline __attribute__((always_inline)) ssize_t move_inline(int fd,
                                                                 const struct transfer *transfer)
{
    struct wf_fd_op op;
    enum wf_fd_kind kind;
    ssize_t moved = wf_fd_op_begin(&op, fd);
    if (moved != 0) {
        return moved;
    }
    moved = wf_fd_op_kind(&op, &kind);
    moved = moved == 0 ? move_once(&op, kind, transfer) : moved;
    end_and_spend(&op, moved >= 0);
    return moved;
}

static __attribute__((noinline)) ssize_t move(int fd, const struct transfer *transfer)
{
    return move_inline(fd, transfer);
}

/* [op]  Checked between two pieces: a close ends waits, but the pieces may never wait. */
static bool is_closed(const struct wf_fd_op *op)
{
    return (wf_load_relaxed(&op->record->state) & WF_FD_CLOSING) != 0; /* relaxed: a flag */
}

/* Moves the whole buffer.  Returns the number of bytes moved, smaller than the size only at the end
 * of the stream; after an error, the negative errno only.  One fd operation covers all pieces:
 * between two fd operations another thread could close the descriptor, and the kernel could reuse
 * its number. */
static inline __attribute__((always_inline)) ssize_t move_all(int fd, struct transfer *transfer)
{
    struct wf_fd_op op;
    enum wf_fd_kind kind;
    ssize_t done = 0;
    ssize_t moved = wf_fd_op_begin(&op, fd);
    if (moved != 0) {
        return moved;
    }
    moved = wf_fd_op_kind(&op, &kind);
    if (moved == 0) {
        do { /* ends: each iteration moves a byte, or is the last */
            moved = is_closed(&op) ? -EBADF : move_once(&op, kind, transfer);
            if (moved > 0) {
                transfer->buffer = (char *)transfer->buffer + moved;
                transfer->size -= (size_t)moved;
                done += moved;
            }
        } while (moved > 0 && transfer->size > 0);
    }
    end_and_spend(&op, moved >= 0);
    return moved < 0 ? moved : done;
}

/* ---- the calls ----------------------------------------------------------------------------- */

/* On a socket recv is a tenth faster than read.  But a recv of size 0 consumes a datagram. */
static ssize_t call_read(int fd, const struct transfer *transfer, enum wf_fd_kind kind)
{
    return is_socket(kind) && transfer->size > 0
               ? wf_sys_recvfrom(fd, transfer->buffer, transfer->size, 0, NULL, NULL)
               : wf_sys_read(fd, transfer->buffer, transfer->size);
}

/* A socket whose peer is gone must not end the process by SIGPIPE. */
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
        .call = call_read, .dir = WF_DIR_READ, .size = size, .buffer = buffer};
    return move_inline(fd, &transfer);
}

ssize_t weft_write(int fd, const void *bytes, size_t size)
{
    const struct transfer transfer = {
        .call = call_write, .dir = WF_DIR_WRITE, .size = size, .bytes = bytes};
    return move_inline(fd, &transfer);
}

ssize_t weft_readv(int fd, const struct iovec *parts, int count)
{
    const struct transfer transfer = {
        .call = call_readv, .dir = WF_DIR_READ, .parts = parts, .count = count};
    return move(fd, &transfer);
}

ssize_t weft_writev(int fd, const struct iovec *parts, int count)
{
    const struct transfer transfer = {
        .call = call_writev, .dir = WF_DIR_WRITE, .parts = parts, .count = count};
    return move(fd, &transfer);
}

ssize_t weft_recv(int fd, void *buffer, size_t size, int flags)
{
    return weft_recvfrom(fd, buffer, size, flags, NULL, NULL);
}

/* The kernel writes *address and *address_size, so neither parameter can be a pointer to const. */
ssize_t weft_recvfrom(int fd, void *buffer, size_t size, int flags, struct sockaddr *address,
                      socklen_t *address_size) /* NOLINT(readability-non-const-parameter) */
{
    const struct transfer transfer = {
        .call = call_recvfrom,
        .dir = WF_DIR_READ,
        .flags = flags,
        .size = size,
        .buffer = buffer,
        .from = address,
        .from_size = address_size,
    };
    return move(fd, &transfer);
}

ssize_t weft_send(int fd, const void *bytes, size_t size, int flags)
{
    return weft_sendto(fd, bytes, size, flags, NULL, 0);
}

ssize_t weft_sendto(int fd, const void *bytes, size_t size, int flags,
                    const struct sockaddr *address, socklen_t address_size)
{
    const struct transfer transfer = {
        .call = call_sendto,
        .dir = WF_DIR_WRITE,
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
        .call = call_recvmsg, .dir = WF_DIR_READ, .flags = flags, .message = message};
    return message != NULL ? move(fd, &transfer) : -EINVAL;
}

ssize_t weft_sendmsg(int fd, const struct msghdr *message, int flags)
{
    const struct transfer transfer = {
        .call = call_sendmsg,
        .dir = WF_DIR_WRITE,
        .flags = flags,
        .message = (struct msghdr *)(uintptr_t)message, /* only read */
    };
    return message != NULL ? move(fd, &transfer) : -EINVAL;
}

/* ---- whole buffers ------------------------------------------------------------------------- */

ssize_t weft_read_full(int fd, void *buffer, size_t size)
{
    if (size > SSIZE_MAX) {
        return -EINVAL;
    }
    struct transfer transfer = {
        .call = call_read, .dir = WF_DIR_READ, .size = size, .buffer = buffer};
    return size > 0 ? move_all(fd, &transfer) : 0;
}

int weft_write_all(int fd, const void *bytes, size_t size)
{
    struct transfer transfer = {
        .call = call_write, .dir = WF_DIR_WRITE, .size = size, .bytes = bytes};
    const ssize_t moved = size > 0 ? move_all(fd, &transfer) : 0;
    if (moved < 0) {
        return (int)moved;
    }
    return transfer.size == 0 ? 0 : -EIO; /* the kernel took 0 bytes, which no descriptor does */
}
