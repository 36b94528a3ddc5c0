/* SPDX-License-Identifier: MIT */
/*
 * weft/file.h - files, without keeping a worker.
 *
 * A regular file is never "not ready": a call that needs the disk keeps its thread until it is
 * done.  So these calls, and weft_read, weft_write and their like on regular files, run on a thread
 * that may block (weft_blocking), and the task waits.  A read of what the kernel has in its cache
 * needs no thread.  If there is no thread and none can be had, the worker makes the call itself.
 *
 * A call that runs cannot be stopped: a task that is cancelled meanwhile, or out of time, waits for
 * its end and gets its result.  -ECANCELED and -ETIMEDOUT say that it had not begun.
 *
 * A thread that is no worker is blocked, and so is the worker of a poll task.
 */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <sys/types.h>

#include <weft/types.h>

WEFT_BEGIN

/* Opens a file, as open does with O_CLOEXEC added: its descriptor, which weft_close closes.
 * -EINVAL: no path. */
WEFT_API int weft_open(const char *path, int flags, mode_t mode);

/* Bytes at a place of a file; where the descriptor stands does not matter and is not changed.  May
 * give less than asked.  -ESPIPE: what has no places, a pipe or a socket. */
WEFT_API ssize_t weft_pread(int fd, void *buffer, size_t size, int64_t offset);
WEFT_API ssize_t weft_pwrite(int fd, const void *bytes, size_t size, int64_t offset);

/* Waits until what was written is on the disk; the second leaves out what is not needed to read it
 * again.  After an error of the disk nobody knows what is there, also if a later call gives 0. */
WEFT_API int weft_fsync(int fd);
WEFT_API int weft_fdatasync(int fd);

/*
 * Copies up to `limit` bytes from where one descriptor stands to where the other one does, or until
 * the end of the first.  Both may be files, pipes, sockets, or whatever else can be read and
 * written.  Inside of a task the kernel moves the bytes itself where it can: between files, from a
 * file to anything, and if one of both is a pipe.
 *
 * *copied (or NULL) is set in any case: bytes that have arrived.
 *
 * 0            all, or up to the end: then *copied is less than the limit
 * -EINVAL      one of both cannot be copied to or from
 * -ECANCELED, -ETIMEDOUT   between two steps, and what read and write give.  What was taken from a
 *              socket or a pipe and had not arrived is lost then, 64 KiB at the most.
 * -EAGAIN      in a poll task, which cannot wait here
 */
WEFT_API int weft_copy(int to, int from, size_t limit, size_t *copied);

WEFT_END

#endif
