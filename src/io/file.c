/* SPDX-License-Identifier: MIT */
/*
 * io/file.c - files: calls that block, made on threads that may; and copies between descriptors.
 *
 * A file is used while a thread works on it, as by any other call: a close meanwhile waits.  The
 * buffer lies wherever the caller has it, perhaps in its frame, so who is cancelled stays until the
 * thread has returned.
 *
 * A copy is made of steps.  Which system call is one depends on what both ends are:
 *
 *   from    to      a step
 *   file    file    copy_file_range, on a thread that may block
 *   file    polled  sendfile, likewise: it reads the disk; a full socket gives -EAGAIN
 *   pipe    any     splice; on such a thread if one of both is a file
 *   polled  pipe    the same
 *   else            a read into a buffer, and a write
 *
 * A call that does not know one of its ends says so before it has moved anything: then it is the
 * last line of the table from there on.  The kernel may send SIGPIPE to a thread that splices, and
 * not to tell it is no option; the threads of a runtime have it blocked, others copy by the buffer.
 */
#include <errno.h>
#include <poll.h>
#include <sys/stat.h>

#include "io/io.h"
#include "os/sys.h"
#include "sched/fast.h"
#include "weft/blocking.h"
#include "weft/file.h"

/* ---- on a thread that may block ------------------------------------------------------------ */

struct errand {
    weft_fn fn;
    void *arg;
    bool has_begun;
};

static intptr_t run_errand(void *arg)
{
    struct errand *errand = arg;
    errand->has_begun = true;
    return errand->fn(errand->arg);
}

intptr_t wf_call_blocking(weft_fn fn, void *arg)
{
    const struct weft_task *self = wf_task_self();
    if (self == NULL || self->body == WF_BODY_POLL) {
        return fn(arg);
    }
    struct errand errand = {.fn = fn, .arg = arg};
    const intptr_t rc = weft_blocking(run_errand, &errand);
    if (!errand.has_begun && (rc == -EAGAIN || rc == -ENOMEM)) {
        WF_REACHED("file.no_thread_for_it");
        return fn(arg);
    }
    return rc;
}

/* ---- calls --------------------------------------------------------------------------------- */

struct file_call {
    ssize_t (*call)(const struct file_call *file);
    enum wf_ring_what what; /* the same for a ring; not of open */
    union {
        const char *path;
        void *buffer;
        const void *bytes;
    };
    size_t size;
    int64_t offset;
    int fd; /* or flags of open */
    mode_t mode;
};

static intptr_t run_call(void *arg)
{
    const struct file_call *file = arg;
    return file->call(file);
}

static ssize_t call_open(const struct file_call *file)
{
    return wf_sys_open(file->path, file->fd, file->mode);
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

/* [inside]  By the kernel, or on a thread that may block.  A ring would read from whatever has no
 * places where it stands, and a negative one it would take for that; so it gets files only. */
static ssize_t call_slowly(struct wf_use *use, struct file_call *file)
{
    ssize_t result;
    enum wf_fd_kind kind;
    const struct wf_ring_call call = {.what = file->what,
                                      .fd = file->fd,
                                      .buffer = file->buffer,
                                      .size = file->size,
                                      .offset = file->offset};
    if (!wf_has_rings(use) || wf_use_classify(use, &kind) != 0 || kind != WF_FD_FILE ||
        file->offset < 0 || !wf_ring_call(use, &call, &result)) {
        struct wf_hold hold;
        wf_hold_begin(&hold, use);
        use->has_waited = true;
        result = wf_call_blocking(run_call, file);
        wf_hold_end(&hold);
    }
    return result;
}

/* [any]  What is in the cache is had at once. */
static ssize_t use_file(struct file_call *file)
{
    struct wf_use use;
    ssize_t rc = wf_use_begin(&use, file->fd);
    if (rc != 0) {
        return rc;
    }
    const int interrupted = use.self != NULL ? wf_heed(use.self) : 0;
    if (interrupted != 0) {
        wf_use_end(&use);
        return interrupted;
    }
    rc = -EAGAIN;
    if (file->call == call_pread && use.self != NULL && file->offset >= 0) {
        const struct iovec whole = {.iov_base = file->buffer, .iov_len = file->size};
        rc = wf_sys_read_cached(file->fd, &whole, 1, file->offset);
    }
    rc = rc >= 0 ? rc : call_slowly(&use, file);
    wf_use_end(&use);
    if (rc >= 0 && use.self != NULL && !use.has_waited) {
        wf_spend(use.self);
    }
    return rc;
}

int weft_open(const char *path, int flags, mode_t mode)
{
    struct file_call file = {.call = call_open, .path = path, .fd = flags, .mode = mode};
    return path != NULL ? (int)wf_call_blocking(run_call, &file) : -EINVAL;
}

ssize_t weft_pread(int fd, void *buffer, size_t size, int64_t offset)
{
    struct file_call file = {.call = call_pread,
                             .what = WF_RING_READ,
                             .buffer = buffer,
                             .size = size,
                             .offset = offset,
                             .fd = fd};
    return use_file(&file);
}

ssize_t weft_pwrite(int fd, const void *bytes, size_t size, int64_t offset)
{
    struct file_call file = {.call = call_pwrite,
                             .what = WF_RING_WRITE,
                             .bytes = bytes,
                             .size = size,
                             .offset = offset,
                             .fd = fd};
    return use_file(&file);
}

int weft_fsync(int fd)
{
    struct file_call file = {.call = call_fsync, .what = WF_RING_FSYNC, .fd = fd};
    return (int)use_file(&file);
}

int weft_fdatasync(int fd)
{
    struct file_call file = {.call = call_fdatasync, .what = WF_RING_FDATASYNC, .fd = fd};
    return (int)use_file(&file);
}

/* ---- copies -------------------------------------------------------------------------------- */

/* What a step moves at the most: a cancel is heard between two of them. */
#define STEP_SIZE ((size_t)8 << 20)
#define BUFFER_SIZE ((size_t)64 << 10)

struct end {
    struct wf_use use;
    enum wf_fd_kind kind;
    bool is_pipe;
};

struct copy {
    struct end to;
    struct end from;
    ssize_t (*call)(int to, int from, size_t size); /* NULL: by the buffer */
    size_t step_size;
    void *buffer;
    size_t done;
    bool blocks;   /* the call may keep its thread */
    bool is_stuck; /* it found one of both not ready, although both were */
};

static int end_begin(struct end *end, int fd)
{
    struct stat status;
    int rc = wf_use_begin(&end->use, fd);
    if (rc != 0) {
        return rc;
    }
    rc = wf_use_classify(&end->use, &end->kind);
    rc = rc != 0 ? rc : wf_sys_fstat(fd, &status);
    if (rc != 0) {
        wf_use_end(&end->use);
        return rc;
    }
    end->is_pipe = S_ISFIFO(status.st_mode);
    return 0;
}

static bool is_polled(const struct end *end)
{
    return end->kind != WF_FD_FILE && end->kind != WF_FD_TERMINAL;
}

static void choose(struct copy *copy)
{
    const bool is_file = copy->from.kind == WF_FD_FILE;
    const bool is_to_file = copy->to.kind == WF_FD_FILE;
    copy->blocks = is_file || is_to_file;
    if (copy->to.use.self == NULL) {
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
    return copy->call(copy->to.use.fd, copy->from.use.fd, copy->step_size);
}

/* The kernel cannot do it, for these ends at least. */
static bool is_unable(ssize_t rc)
{
    return rc == -EINVAL || rc == -EXDEV || rc == -ENOSYS || rc == -EOPNOTSUPP || rc == -EBADF ||
           rc == -EPERM;
}

static int wait_for_both(const struct copy *copy)
{
    int rc = copy->from.kind != WF_FD_FILE ? weft_poll_fd(copy->from.use.fd, POLLIN) : 0;
    if (rc >= 0 && copy->to.kind != WF_FD_FILE) {
        rc = weft_poll_fd(copy->to.use.fd, POLLOUT);
    }
    return rc < 0 ? rc : 0;
}

/* Bytes that have arrived; 0: the end, or nothing yet: then `call` is NULL now. */
static ssize_t step_by_kernel(struct copy *copy)
{
    for (;;) { /* ends: the second -EAGAIN in a row is the last */
        const ssize_t moved = copy->blocks ? wf_call_blocking(run_step, copy) : run_step(copy);
        if (is_unable(moved) || (moved == -EAGAIN && copy->is_stuck) ||
            (moved == 0 && copy->done == 0 && copy->call == wf_sys_copy_file_range)) {
            WF_REACHED(
                "file.kernel_cannot_copy"); /* the last: a file that does not know its size */
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
    const ssize_t got = weft_read(copy->from.use.fd, copy->buffer, size);
    for (ssize_t put = 0; put < got;) { /* ends: each turn moves a byte, or is the last */
        const ssize_t moved =
            weft_write(copy->to.use.fd, (char *)copy->buffer + put, (size_t)(got - put));
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
    struct weft_task *self = copy->to.use.self;
    while (copy->done < limit) { /* ends: each turn moves a byte, or is the last, or the first */
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
            wf_spend(self);
        }
    }
    return 0;
}

/* [closer] */
static void free_buffer(void *what)
{
    wf_free(((struct copy *)what)->buffer);
}

int weft_copy(int to, int from, size_t limit, size_t *copied)
{
    struct copy copy = {.buffer = NULL};
    const struct weft_task *self = wf_task_self();
    const bool can_wait = self == NULL || self->body != WF_BODY_POLL;
    int rc = can_wait ? end_begin(&copy.to, to) : -EAGAIN;
    if (rc == 0) {
        rc = end_begin(&copy.from, from);
        if (rc == 0) {
            struct wf_hold holds[2];
            struct wf_belonging belonging;
            wf_hold_begin(&holds[0], &copy.from.use);
            wf_hold_begin(&holds[1], &copy.to.use);
            wf_belonging_begin(&belonging, free_buffer, &copy);
            choose(&copy);
            rc = copy_all(&copy, limit);
            wf_belonging_end(&belonging);
            wf_hold_end(&holds[1]);
            wf_hold_end(&holds[0]);
            wf_use_end(&copy.from.use);
        }
        wf_use_end(&copy.to.use);
    }
    wf_free(copy.buffer);
    if (copied != NULL) {
        *copied = copy.done;
    }
    return rc;
}
