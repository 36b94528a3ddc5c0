/* SPDX-License-Identifier: MIT */
/*
 * io/file.c - files: calls that block, made on threads of the blocking pool; and copies between
 * descriptors.
 *
 * A call on a file is an fd operation until the pool thread has returned, so a close waits for it.
 * The buffer may lie in the frame of the caller, so a cancelled task stays until then too.
 *
 * A copy is made in steps.  The kinds of the two descriptors decide by which system call:
 *
 *   from    to      a step
 *   file    file    copy_file_range, on a pool thread
 *   file    polled  sendfile, on a pool thread: it reads the disk; a full socket gives -EAGAIN
 *   pipe    any     splice; on a pool thread if one of the two is a file
 *   polled  pipe    splice
 *   else            a read into a buffer, and a write
 *
 * A system call that does not support one of the descriptors fails before it has moved anything;
 * the copy continues by the last line of the table.  The kernel may send SIGPIPE to a thread that
 * splices, and has no flag against it: the threads of a runtime have SIGPIPE blocked, and
 * non-worker threads copy by the buffer.
 */
#include <errno.h>
#include <poll.h>
#include <sys/stat.h>

#include "future/future.h"
#include "io/io.h"
#include "io/uring.h"
#include "os/sys.h"
#include "weft/blocking.h"
#include "weft/file.h"

/* ---- the blocking pool --------------------------------------------------------------------- */

struct job {
    weft_fn fn;
    void *arg;
    bool has_begun;
};

static intptr_t file_job_run(void *arg)
{
    struct job *job = arg;
    job->has_begun = true;
    return job->fn(job->arg);
}

intptr_t wf_call_blocking(weft_fn fn, void *arg)
{
    const struct weft_task *self = wf_task_self();
    if (self == NULL || self->body == WF_BODY_POLL) {
        return fn(arg);
    }
    struct job job = {.fn = fn, .arg = arg};
    const intptr_t rc = weft_blocking_call(file_job_run, &job);
    if (!job.has_begun && (rc == -EAGAIN || rc == -ENOMEM)) {
        WF_REACHED("file.no_pool_thread");
        return fn(arg);
    }
    return rc;
}

/* ---- calls --------------------------------------------------------------------------------- */

struct file_call {
    ssize_t (*call)(const struct file_call *file);
    enum wf_uring_opcode opcode; /* of the same call by io_uring */
    union {
        void *buffer;
        const void *bytes;
    };
    size_t size;
    int64_t offset;
    int fd;
};

static intptr_t run_file_op(void *arg)
{
    const struct file_call *file = arg;
    return file->call(file);
}

static ssize_t call_pread(const struct file_call *file)
{
    return wf_sys_pread(file->fd, file->buffer, file->size, file->offset);
}

static ssize_t call_pwrite(const struct file_call *file)
{
    return wf_sys_pwrite(file->fd, file->bytes, file->size, file->offset);
}

static ssize_t call_fsync(const struct file_call *file)
{
    return wf_sys_fsync(file->fd);
}

static ssize_t call_fdatasync(const struct file_call *file)
{
    return wf_sys_fdatasync(file->fd);
}

/* [op]  By io_uring, or on a thread of the blocking pool.  io_uring gets only regular files, and
 * only offsets that are not negative: it ignores the offset of a descriptor without positions, and
 * takes -1 for the current position. */
static ssize_t file_call_slow(struct wf_fd_op *op, struct file_call *file)
{
    ssize_t result;
    enum wf_fd_kind kind;
    const struct wf_uring_call call = {.opcode = file->opcode,
                                       .fd = file->fd,
                                       .buffer = file->buffer,
                                       .size = file->size,
                                       .offset = file->offset};
    if (!wf_uring_is_on(op) || wf_fd_op_kind(op, &kind) != 0 || kind != WF_FD_KIND_FILE ||
        file->offset < 0 || !wf_uring_call(op, &call, &result)) {
        struct wf_undo_hook hook;
        wf_undo_hook_add(&hook, wf_fd_op_undo, op);
        op->has_waited = true;
        result = wf_call_blocking(run_file_op, file);
        wf_undo_hook_remove(&hook);
    }
    return result;
}

/* [any]  Bytes in the page cache are read without a switch. */
static ssize_t file_call_make(struct file_call *file)
{
    struct wf_fd_op op;
    ssize_t rc = wf_fd_op_begin(&op, file->fd);
    if (rc != 0) {
        return rc;
    }
    const int interrupted = op.self != NULL ? wf_cancel_point(op.self) : 0;
    if (interrupted != 0) {
        wf_fd_op_end(&op);
        return interrupted;
    }
    rc = -EAGAIN;
    if (file->call == call_pread && op.self != NULL && file->offset >= 0) {
        const struct iovec whole = {.iov_base = file->buffer, .iov_len = file->size};
        rc = wf_sys_read_cached(file->fd, &whole, 1, file->offset);
    }
    rc = rc >= 0 ? rc : file_call_slow(&op, file);
    wf_fd_op_end(&op);
    if (rc >= 0 && op.self != NULL && !op.has_waited) {
        wf_budget_spend(op.self);
    }
    return rc;
}

struct open_call {
    const char *path;
    int flags;
    mode_t mode;
    int fd; /* the result; -1: not called yet */
};

static intptr_t run_open(void *arg)
{
    struct open_call *call = arg;
    call->fd = wf_sys_open(call->path, call->flags, call->mode);
    return call->fd;
}

/* [closer]  The descriptor has no owner. */
static void open_undo(void *arg)
{
    const struct open_call *call = arg;
    if (call->fd >= 0) {
        (void)wf_sys_close(call->fd); /* nothing was written */
    }
}

int weft_open(const char *path, int flags, mode_t mode)
{
    struct open_call call = {.path = path, .flags = flags, .mode = mode, .fd = -1};
    struct wf_undo_hook hook;
    WF_NOT_NULL(path, "weft_open: path is NULL");
    wf_undo_hook_add(&hook, open_undo, &call);
    const int rc = (int)wf_call_blocking(run_open, &call);
    wf_undo_hook_remove(&hook);
    return rc;
}

ssize_t weft_pread(int fd, void *buffer, size_t size, int64_t offset)
{
    struct file_call file = {.call = call_pread,
                             .opcode = WF_URING_READ,
                             .buffer = buffer,
                             .size = size,
                             .offset = offset,
                             .fd = fd};
    return file_call_make(&file);
}

ssize_t weft_pwrite(int fd, const void *bytes, size_t size, int64_t offset)
{
    struct file_call file = {.call = call_pwrite,
                             .opcode = WF_URING_WRITE,
                             .bytes = bytes,
                             .size = size,
                             .offset = offset,
                             .fd = fd};
    return file_call_make(&file);
}

int weft_fsync(int fd)
{
    struct file_call file = {.call = call_fsync, .opcode = WF_URING_FSYNC, .fd = fd};
    return (int)file_call_make(&file);
}

int weft_fdatasync(int fd)
{
    struct file_call file = {.call = call_fdatasync, .opcode = WF_URING_FDATASYNC, .fd = fd};
    return (int)file_call_make(&file);
}

/* ---- copies -------------------------------------------------------------------------------- */

/* What a step moves at most: cancellation is checked between two steps. */
#define STEP_SIZE ((size_t)8 << 20)
#define BUFFER_SIZE ((size_t)64 << 10)

struct copy_end {
    struct wf_fd_op op;
    enum wf_fd_kind kind;
    bool is_pipe;
};

struct copy {
    struct copy_end to;
    struct copy_end from;
    ssize_t (*call)(int to, int from, size_t size); /* NULL: by the buffer */
    size_t step_size;
    void *buffer;
    size_t done;
    bool blocks;   /* the call may block its thread */
    bool is_stuck; /* its last result was -EAGAIN; after a second one the buffer is used */
};

static int copy_end_begin(struct copy_end *end, int fd)
{
    struct stat status;
    int rc = wf_fd_op_begin(&end->op, fd);
    if (rc != 0) {
        return rc;
    }
    rc = wf_fd_op_kind(&end->op, &end->kind);
    rc = rc != 0 ? rc : wf_sys_fstat(fd, &status);
    if (rc != 0) {
        wf_fd_op_end(&end->op);
        return rc;
    }
    end->is_pipe = S_ISFIFO(status.st_mode);
    return 0;
}

static bool is_polled(const struct copy_end *end)
{
    return end->kind != WF_FD_KIND_FILE && end->kind != WF_FD_KIND_TERMINAL;
}

static void choose_call(struct copy *copy)
{
    const bool is_file = copy->from.kind == WF_FD_KIND_FILE;
    const bool is_to_file = copy->to.kind == WF_FD_KIND_FILE;
    copy->blocks = is_file || is_to_file;
    if (copy->to.op.self == NULL) {
        copy->call = NULL;
    } else if (is_file && is_to_file) {
        copy->call = wf_sys_copy_file_range;
    } else if (is_file && is_polled(&copy->to)) {
        copy->call = wf_sys_sendfile;
    } else if ((copy->from.is_pipe && (is_polled(&copy->to) || is_to_file)) ||
               (copy->to.is_pipe && is_polled(&copy->from))) {
        copy->call = wf_sys_splice;
    }
}

static intptr_t run_step(void *arg)
{
    const struct copy *copy = arg;
    return copy->call(copy->to.op.fd, copy->from.op.fd, copy->step_size);
}

/* The kernel does not support the call for these descriptors. */
static bool is_unsupported(ssize_t rc)
{
    return rc == -EINVAL || rc == -EXDEV || rc == -ENOSYS || rc == -EOPNOTSUPP || rc == -EBADF ||
           rc == -EPERM;
}

static int wait_for_both(const struct copy *copy)
{
    int rc = copy->from.kind != WF_FD_KIND_FILE ? weft_fd_wait(copy->from.op.fd, POLLIN) : 0;
    if (rc >= 0 && copy->to.kind != WF_FD_KIND_FILE) {
        rc = weft_fd_wait(copy->to.op.fd, POLLOUT);
    }
    return rc < 0 ? rc : 0;
}

/* Returns the bytes moved.  0: the end; or the kernel cannot copy these, and `call` is NULL now. */
static ssize_t step_by_kernel(struct copy *copy)
{
    for (;;) { /* ends: the second -EAGAIN in a row is the last */
        const ssize_t moved = copy->blocks ? wf_call_blocking(run_step, copy) : run_step(copy);
        if (is_unsupported(moved) || (moved == -EAGAIN && copy->is_stuck) ||
            (moved == 0 && copy->done == 0 && copy->call == wf_sys_copy_file_range)) {
            /* The last condition: files of /proc and the like report size 0. */
            WF_REACHED("file.kernel_cannot_copy");
            copy->call = NULL;
            return 0;
        }
        copy->is_stuck = moved == -EAGAIN;
        if (moved != -EAGAIN) {
            return moved;
        }
        const int rc = wait_for_both(copy);
        if (rc != 0) {
            return rc;
        }
    }
}

static ssize_t step_by_buffer(struct copy *copy)
{
    if (copy->buffer == NULL) {
        copy->buffer = wf_alloc(BUFFER_SIZE);
        if (copy->buffer == NULL) {
            return -ENOMEM;
        }
    }
    const size_t size = copy->step_size < BUFFER_SIZE ? copy->step_size : BUFFER_SIZE;
    const ssize_t got = weft_read(copy->from.op.fd, copy->buffer, size);
    for (ssize_t put = 0; put < got;) { /* ends: each iteration moves a byte, or is the last */
        const ssize_t moved =
            weft_write(copy->to.op.fd, (char *)copy->buffer + put, (size_t)(got - put));
        if (moved <= 0) {
            return moved < 0 ? moved : -EIO;
        }
        put += moved;
        copy->done += (size_t)moved;
    }
    return got;
}

static int copy_all(struct copy *copy, size_t limit)
{
    struct weft_task *self = copy->to.op.self;
    /* ends: each iteration moves a byte, clears `call`, or is the last */
    while (copy->done < limit) {
        copy->step_size = limit - copy->done < STEP_SIZE ? limit - copy->done : STEP_SIZE;
        int rc = self != NULL ? wf_interrupted(self) : 0;
        if (rc != 0) {
            return rc;
        }
        const bool is_by_kernel = copy->call != NULL;
        const ssize_t moved = is_by_kernel ? step_by_kernel(copy) : step_by_buffer(copy);
        if (moved < 0) {
            return (int)moved;
        }
        if (is_by_kernel) {
            copy->done += (size_t)moved;
        }
        if (moved == 0 && (!is_by_kernel || copy->call != NULL)) {
            return 0;
        }
        if (self != NULL) {
            wf_budget_spend(self);
        }
    }
    return 0;
}

/* [closer] */
static void copy_buffer_undo(void *copy)
{
    wf_free(((struct copy *)copy)->buffer);
}

int weft_fd_copy(int to, int from, size_t limit, size_t *copied)
{
    struct copy copy = {.buffer = NULL};
    const struct weft_task *self = wf_task_self();
    const bool can_wait = self == NULL || self->body != WF_BODY_POLL;
    int rc = can_wait ? copy_end_begin(&copy.to, to) : -EAGAIN;
    if (rc == 0) {
        rc = copy_end_begin(&copy.from, from);
        if (rc == 0) {
            struct wf_undo_hook hooks[3];
            wf_undo_hook_add(&hooks[0], wf_fd_op_undo, &copy.from.op);
            wf_undo_hook_add(&hooks[1], wf_fd_op_undo, &copy.to.op);
            wf_undo_hook_add(&hooks[2], copy_buffer_undo, &copy);
            choose_call(&copy);
            rc = copy_all(&copy, limit);
            wf_undo_hook_remove(&hooks[2]);
            wf_undo_hook_remove(&hooks[1]);
            wf_undo_hook_remove(&hooks[0]);
            wf_fd_op_end(&copy.from.op);
        }
        wf_fd_op_end(&copy.to.op);
    }
    wf_free(copy.buffer);
    if (copied != NULL) {
        *copied = copy.done;
    }
    return rc;
}
