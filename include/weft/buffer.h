/* SPDX-License-Identifier: MIT */
/*
 * weft/buffer.h - a reader and a writer with a buffer, for protocols made of lines, of records, or
 * of small pieces.
 *
 *     weft_reader reader;
 *     weft_slice line;
 *     weft_reader_init(&reader, fd, NULL, 0);
 *     while (weft_reader_read_line(&reader, &line, 0) > 0) {
 *         ... line.bytes, line.size ...
 *     }
 *     weft_reader_done(&reader);
 *
 * Bytes come from a descriptor, or from a function, and go to one; the calls wait as these do.  A
 * buffer is the caller's, or allocated once, when it is set up; it never grows.  Neither of them
 * closes anything.
 * Each belongs to one task or thread at a time, and a reader and a writer of the same connection
 * know nothing of each other.
 *
 * A call that was interrupted (-ECANCELED, -ETIMEDOUT, -EAGAIN, or any other error of the function)
 * has lost nothing unless it says so, and can be repeated.
 */
#ifndef WEFT_BUFFER_H
#define WEFT_BUFFER_H

#include <stdarg.h>
#include <sys/types.h>

#include <weft/types.h>

WEFT_BEGIN

/* The size of a buffer that is not the caller's, unless another one is asked for. */
#define WEFT_BUFFER_SIZE ((size_t)8192)

/* Some bytes that lie elsewhere; no zero byte ends them. */
typedef struct weft_slice {
    const char *bytes;
    size_t size;
} weft_slice;

/* ---- reader ---------------------------------------------------------------------------------- */

/* Reads up to `size` bytes, at least one: how many.  0: the end; < 0: a negative errno. */
typedef ssize_t (*weft_read_fn)(void *context, void *buffer, size_t size);

/* Its fields are not for the caller. */
typedef struct weft_reader {
    weft_read_fn read;
    void *context;
    char *bytes;
    size_t size;
    size_t begin; /* what was read and nobody has taken: from here */
    size_t end;   /* to here */
    bool is_at_end;
    bool is_allocated;
} weft_reader;

/*
 * Sets up a reader on a descriptor, which is read by weft_read, or on a function.  `buffer` NULL:
 * allocates `size` bytes, WEFT_BUFFER_SIZE for 0.
 *
 * 0         it is set up, and needs weft_reader_done if the buffer was allocated
 * -EINVAL   no function, or a buffer without a size
 * -ENOMEM
 */
WEFT_API int weft_reader_init(weft_reader *reader, int fd, void *buffer, size_t size);
WEFT_API int weft_reader_init_fn(weft_reader *reader, weft_read_fn read, void *context,
                                 void *buffer, size_t size);

/* Gives the memory back if it was allocated; what was read and not taken is lost.  NULL is allowed,
 * and so is a reader of all zeros. */
WEFT_API void weft_reader_done(weft_reader *reader);

/*
 * Reads once, behind what is in the buffer.  The function is not asked again after it has said that
 * this is the end.
 *
 * > 0        so many bytes were added
 * 0          the end
 * -ENOBUFS   the buffer is full
 */
WEFT_API ssize_t weft_reader_fill(weft_reader *reader);

/* Bytes that can be taken without reading. */
WEFT_API size_t weft_reader_buffered(const weft_reader *reader);

/*
 * Looks at what comes next, without taking it: at least `size` bytes, and all there are in the
 * buffer.  *out is valid until the next call, as are all slices that a reader gives.
 *
 * >= 0        their number; less than `size`: the end comes then
 * -EMSGSIZE   the buffer is smaller than that
 */
WEFT_API ssize_t weft_reader_peek(weft_reader *reader, size_t size, const char **out);

/* Takes up to `size` bytes, at least one unless that is 0.  0: the end. */
WEFT_API ssize_t weft_reader_read(weft_reader *reader, void *buffer, size_t size);

/*
 * Takes exactly `size` bytes.
 *
 * `size`     they are in `buffer`
 * 0          the end, and nothing was before it
 * -ENODATA   the end came in between
 * Up to the size of the reader's buffer nothing was taken after an error.  Beyond that it is
 * unknown how much was, and -ENODATA has taken the rest.
 */
WEFT_API ssize_t weft_reader_read_exact(weft_reader *reader, void *buffer, size_t size);

/*
 * Takes everything up to the first `delimiter`, and that too.  It has to be among the first `limit`
 * bytes; 0, and everything above the size of the buffer, is the size of the buffer.  Nothing is
 * copied.
 *
 * 1           *out is it; without a delimiter at its end: the end came first
 * 0           the end, and nothing was before it
 * -EMSGSIZE   there are `limit` bytes, and no delimiter among them; nothing was taken, so they can
 *             be read, or skipped
 */
WEFT_API int weft_reader_read_until(weft_reader *reader, char delimiter, weft_slice *out,
                                    size_t limit);

/* The same for a line, which is given without the "\n" or "\r\n" at its end; `limit` counts that
 * too.  A '\r' elsewhere is part of the line.  The last line needs no end; behind the end of the
 * one before there is none. */
WEFT_API int weft_reader_read_line(weft_reader *reader, weft_slice *out, size_t limit);

/* Takes `size` bytes and forgets them: how many.  Less: the end, or an error, which the next call
 * says. */
WEFT_API int64_t weft_reader_skip(weft_reader *reader, uint64_t size);

/* ---- writer ---------------------------------------------------------------------------------- */

/* Writes up to `size` bytes, at least one: how many.  < 0: a negative errno. */
typedef ssize_t (*weft_write_fn)(void *context, const void *bytes, size_t size);

/* Its fields are not for the caller. */
typedef struct weft_writer {
    weft_write_fn write;
    void *context;
    char *bytes;
    size_t size;
    size_t used;
    int error; /* a large piece went out in part */
    bool is_allocated;
} weft_writer;

/* As weft_reader_init and weft_reader_init_fn. */
WEFT_API int weft_writer_init(weft_writer *writer, int fd, void *buffer, size_t size);
WEFT_API int weft_writer_init_fn(weft_writer *writer, weft_write_fn write, void *context,
                                 void *buffer, size_t size);

/* As weft_reader_done.  It does not flush: an error could not be seen. */
WEFT_API void weft_writer_done(weft_writer *writer);

/*
 * Puts the bytes into the buffer, which is flushed before if they do not fit.  What is larger than
 * the buffer goes out at once, past it.
 *
 * 0   all of them are in the buffer, or out
 * After an error the writer has taken none of them.  But if a piece larger than the buffer went out
 * in part, nobody knows where the stream stands: this and all later calls give that error.
 */
WEFT_API int weft_writer_write(weft_writer *writer, const void *bytes, size_t size);

/* The same for a text.  The bytes it has; -EMSGSIZE: not fewer than the buffer, and nothing was
 * written; -EINVAL: printf refuses the format. */
WEFT_API int weft_writer_printf(weft_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
WEFT_API int weft_writer_vprintf(weft_writer *writer, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* Writes what is in the buffer: 0.  After an error the rest is still there.  -EIO: the function
 * wrote nothing and gave no reason. */
WEFT_API int weft_writer_flush(weft_writer *writer);

/* Bytes that were not flushed yet. */
WEFT_API size_t weft_writer_buffered(const weft_writer *writer);

WEFT_END

#endif
