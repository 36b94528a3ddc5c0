/* SPDX-License-Identifier: MIT */
/*
 * weft/file.h - file I/O that does not keep a worker.
 *
 * A regular file is always "ready": a call that needs the disk keeps its thread until it is done.
 * So these calls, and weft_read, weft_write and similar calls on regular files, run on a blocking
 * thread (weft_blocking_call) or by io_uring, and the task waits.  A read of data in the kernel's
 * page cache needs no thread.  If there is no thread and none can be started, the worker makes the
 * call itself.
 *
 * A system call in progress cannot be stopped: if the task is cancelled or its deadline passes
 * meanwhile, the function still waits for the end of the system call and returns its result.
 * -ECANCELED and -ETIMEDOUT mean that the system call had not begun.
 *
 * Threads:  any task or thread.  A non-worker thread is blocked, and so is the worker of a poll
 *           task.
 */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <sys/types.h>

#include <weft/types.h>

WEFT_BEGIN

/* Opens a file as open(2) does, with O_CLOEXEC added, and waits for it.  Returns the descriptor,
 * which the caller closes by weft_close, or an error of open. */
WEFT_API int weft_open(const char *path, int flags, mode_t mode) WEFT_NONNULL(1);

/* Read or write `size` bytes at `offset`, and wait for it; the file position is neither used nor
 * changed.  Return the number of bytes, which may be less than requested.  -ESPIPE: the descriptor
 * has no positions (a pipe or a socket). */
WEFT_API ssize_t weft_pread(int fd, void *buffer, size_t size, int64_t offset);
WEFT_API ssize_t weft_pwrite(int fd, const void *bytes, size_t size, int64_t offset);

/* Wait until written data is on the disk; weft_fdatasync leaves out metadata that is not needed to
 * read the data again.  After a disk error the contents are unknown, even if a later call returns
 * 0. */
WEFT_API int weft_fsync(int fd);
WEFT_API int weft_fdatasync(int fd);

/*
 * Copies up to `limit` bytes, or until the end of `from`, from the position of `from` to the
 * position of `to`, and waits for it.  Both may be files, pipes, sockets or other descriptors that
 * can be read and written.  In a task the kernel moves the bytes where it can: between files, from
 * a file to anything, and if one of the two is a pipe.
 *
 * *copied, if `copied` is not NULL, is always set: the number of bytes written to `to`.
 *
 * 0            `limit` bytes were copied; or `from` ended before, and *copied is less than `limit`
 * -EINVAL      one of the two cannot be copied to or from
 * -EAGAIN      called in a poll task, which cannot wait here
 * -ECANCELED, -ETIMEDOUT   the task was interrupted between two steps
 * else         an error of read or write
 * After an error, bytes that were taken from a socket or pipe and not yet written are lost, at most
 * 64 KiB.
 */
WEFT_API int weft_fd_copy(int to, int from, size_t limit, size_t *copied);

WEFT_END

#endif
