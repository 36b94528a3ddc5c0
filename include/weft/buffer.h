/* SPDX-License-Identifier: MIT */
/*
 * weft/buffer.h - a buffered reader and a buffered writer, for protocols of lines or records and
 * for many small writes.
 *
 *     weft_reader reader;
 *     weft_view line;
 *     weft_reader_init(&reader, fd, NULL, 0);
 *     while (weft_reader_read_line(&reader, &line, 0) > 0) {
 *         ... line.bytes, line.size ...
 *     }
 *     weft_reader_done(&reader);
 *
 * Source:   a descriptor, which is read by weft_read and written by weft_write, or a function.  The
 *           calls wait as these do.  Reader and writer close nothing.
 * Buffer:   memory of the caller, or allocated once at initialisation; it never grows.
 * Threads:  a reader or writer belongs to one task or thread at a time.  A reader and a writer of
 *           the same connection are independent.
 * Errors:   those of the source.  A call that fails (-ECANCELED, -ETIMEDOUT, -EAGAIN or any other
 *           error of the source) has lost nothing unless its contract says so, and can be repeated.
 */
#ifndef WEFT_BUFFER_H
#define WEFT_BUFFER_H

#include <stdarg.h>
#include <sys/types.h>

#include <weft/types.h>

WEFT_BEGIN

/* The default size of an allocated buffer. */
#define WEFT_BUFFER_SIZE ((size_t)8192)

/* Borrowed bytes, without a final '\0'. */
typedef struct weft_view {
    const char *bytes;
    size_t size;
} weft_view;

/* ---- reader ---------------------------------------------------------------------------------- */

/* Reads at least one and up to `size` bytes; returns their number, 0 at the end, or a negative
 * errno. */
typedef ssize_t (*weft_read_fn)(void *context, void *buffer, size_t size);

/* All fields are private. */
typedef struct weft_reader {
    weft_read_fn read;
    void *context;
    char *bytes;
    size_t size;
    size_t begin; /* bytes[begin, end) were read and are not taken yet */
    size_t end;
    bool is_at_end;
    bool is_allocated;
} weft_reader;

/*
 * Initialise a reader on a descriptor, which is read by weft_read, or on a function.  With `buffer`
 * NULL they allocate `size` bytes, or WEFT_BUFFER_SIZE for 0.  Never wait.
 *
 * 0         initialised; weft_reader_done is needed if the buffer was allocated
 * -EINVAL   a buffer with size 0
 * -ENOMEM
 */
WEFT_API int weft_reader_init(weft_reader *reader, int fd, void *buffer, size_t size)
    WEFT_NONNULL(1);
WEFT_API int weft_reader_init_fn(weft_reader *reader, weft_read_fn read, void *context,
                                 void *buffer, size_t size) WEFT_NONNULL(1, 2);

/* Frees the buffer if it was allocated; bytes that were read and not taken are lost.  NULL and a
 * reader of all zeros are allowed.  Never waits. */
WEFT_API void weft_reader_done(weft_reader *reader);

/*
 * Reads once and appends to the buffer.  After the source has reported its end it is not read
 * again.
 *
 * > 0        the number of bytes added
 * 0          the end
 * -ENOBUFS   the buffer is full
 */
WEFT_API ssize_t weft_reader_fill(weft_reader *reader) WEFT_NONNULL(1);

/* Returns the number of bytes that can be taken without reading. */
WEFT_API size_t weft_reader_buffered(const weft_reader *reader) WEFT_NONNULL(1);

/*
 * Gives access to the next bytes without taking them: at least `size`, and all that are in the
 * buffer.  *out is valid until the next call on the reader, as are all slices that it returns.
 *
 * >= 0        the number of bytes at *out; if it is less than `size`, the end follows
 * -EMSGSIZE   the buffer is smaller than `size`
 */
WEFT_API ssize_t weft_reader_peek(weft_reader *reader, const char **out, size_t size)
    WEFT_NONNULL(1, 2);

/* Takes at least one and up to `size` bytes; returns their number.  0: the end, or `size` is 0. */
WEFT_API ssize_t weft_reader_read(weft_reader *reader, void *buffer, size_t size) WEFT_NONNULL(1);

/*
 * Takes exactly `size` bytes.
 *
 * `size`     the bytes are in `buffer`
 * 0          the end, with no bytes before it
 * -ENODATA   the end came after fewer bytes
 * If `size` is at most the size of the reader's buffer, a call that fails has taken nothing.  If
 * `size` is larger, a call that fails has taken an unknown number of bytes; with -ENODATA it has
 * taken all bytes up to the end.
 */
WEFT_API ssize_t weft_reader_read_exact(weft_reader *reader, void *buffer, size_t size)
    WEFT_NONNULL(1);

/*
 * Takes all bytes up to and including the first `delimiter`, which must be among the first `limit`
 * bytes.  A limit of 0, or above the size of the buffer, means the size of the buffer.  Copies
 * nothing: *out points into the buffer.
 *
 * 1           *out holds the bytes; if the last one is not the delimiter, the end came first
 * 0           the end, with no bytes before it
 * -EMSGSIZE   the first `limit` bytes contain no delimiter; nothing was taken, so they can be read
 *             or skipped
 */
WEFT_API int weft_reader_read_until(weft_reader *reader, weft_view *out, char delimiter,
                                    size_t limit) WEFT_NONNULL(1, 2);

/* Takes a line, without the "\n" or "\r\n" at its end, which `limit` counts too.  Results: those of
 * weft_reader_read_until.  A '\r' elsewhere is part of the line.  The last line need not end with a
 * "\n"; after a final "\n" there is no further empty line. */
WEFT_API int weft_reader_read_line(weft_reader *reader, weft_view *out, size_t limit)
    WEFT_NONNULL(1, 2);

/* Takes and discards `size` bytes; returns the number of bytes discarded.  If that is less than
 * `size`, the source has ended or failed.  An error of the source is returned only if no byte was
 * discarded: call again to get it. */
WEFT_API int64_t weft_reader_skip(weft_reader *reader, uint64_t size) WEFT_NONNULL(1);

/* ---- writer ---------------------------------------------------------------------------------- */

/* Writes at least one and up to `size` bytes; returns their number, or a negative errno. */
typedef ssize_t (*weft_write_fn)(void *context, const void *bytes, size_t size);

/* All fields are private. */
typedef struct weft_writer {
    weft_write_fn write;
    void *context;
    char *bytes;
    size_t size;
    size_t used;
    int error; /* the permanent error after a partial write of a large piece; 0: none */
    bool is_allocated;
} weft_writer;

/* Initialise a writer on a descriptor, which is written by weft_write, or on a function.  With
 * `buffer` NULL they allocate `size` bytes, or WEFT_BUFFER_SIZE for 0.  Never wait.  Return 0;
 * -EINVAL: a buffer with size 0; -ENOMEM. */
WEFT_API int weft_writer_init(weft_writer *writer, int fd, void *buffer, size_t size)
    WEFT_NONNULL(1);
WEFT_API int weft_writer_init_fn(weft_writer *writer, weft_write_fn write, void *context,
                                 void *buffer, size_t size) WEFT_NONNULL(1, 2);

/* Frees the buffer if it was allocated.  NULL and a writer of all zeros are allowed.  Does not
 * flush, because it could not report an error; call weft_writer_flush before. */
WEFT_API void weft_writer_done(weft_writer *writer);

/*
 * Puts the bytes into the buffer; flushes it first if they do not fit.  A piece larger than the
 * buffer is written directly.
 *
 * Returns 0 if all bytes are in the buffer or written.  After an error the writer has taken none of
 * them, with one exception: if a piece larger than the buffer was written in part, the position in
 * the stream is unknown, and this and all later calls return that error.
 */
WEFT_API int weft_writer_write(weft_writer *writer, const void *bytes, size_t size) WEFT_NONNULL(1);

/* Format a text into the buffer; flush first if it does not fit.  Return its length.  -EMSGSIZE:
 * the text is as long as the buffer or longer, and nothing was written; -EINVAL: printf rejects the
 * format; other errors as weft_writer_write. */
WEFT_API int weft_writer_printf(weft_writer *writer, const char *format, ...) WEFT_NONNULL(1, 2)
    __attribute__((format(printf, 2, 3)));
WEFT_API int weft_writer_vprintf(weft_writer *writer, const char *format, va_list arguments)
    WEFT_NONNULL(1, 2) __attribute__((format(printf, 2, 0)));

/* Writes the contents of the buffer and returns 0.  After an error the rest is still in the buffer.
 * -EIO: the function returned 0. */
WEFT_API int weft_writer_flush(weft_writer *writer) WEFT_NONNULL(1);

/* Returns the number of bytes that are not flushed yet. */
WEFT_API size_t weft_writer_buffered(const weft_writer *writer) WEFT_NONNULL(1);

WEFT_END

#endif
