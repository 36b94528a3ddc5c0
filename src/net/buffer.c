/* SPDX-License-Identifier: MIT */
/*
 * net/buffer.c - buffered reading and writing: weft_reader and weft_writer.
 *
 * The buffered bytes of a reader are bytes[begin, end).  They move to the front only when a read
 * needs the space, so a slice stays valid until the next call.  A call consumes bytes (raises
 * `begin`) only when its result is certain, so an error loses nothing.  A write is all or nothing
 * too, as long as the piece fits into the buffer.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net/net.h"
#include "weft/buffer.h"

/* ---- reader ---------------------------------------------------------------------------------- */

/* Uses the caller's buffer, or allocates one if that is NULL. */
static int buffer_init(char **bytes, size_t *size, bool *is_allocated, void *buffer)
{
    *is_allocated = buffer == NULL;
    if (buffer != NULL) {
        *bytes = buffer;
        return *size != 0 ? 0 : -EINVAL;
    }
    *size = *size != 0 ? *size : WEFT_BUFFER_SIZE;
    *bytes = wf_alloc(*size);
    return *bytes != NULL ? 0 : -ENOMEM;
}

int weft_reader_init_fn(weft_reader *reader, weft_read_fn read, void *context, void *buffer,
                        size_t size)
{
    WF_NOT_NULL(reader, "weft_reader_init_fn: reader is NULL");
    WF_NOT_NULL(read, "weft_reader_init_fn: read is NULL");
    weft_reader fresh = {.read = read, .context = context, .size = size};
    int rc = buffer_init(&fresh.bytes, &fresh.size, &fresh.is_allocated, buffer);
    if (rc == 0) {
        *reader = fresh;
    }
    return rc;
}

static ssize_t read_fd(void *context, void *buffer, size_t size)
{
    return weft_read((int)(intptr_t)context, buffer, size);
}

int weft_reader_init(weft_reader *reader, int fd, void *buffer, size_t size)
{
    return weft_reader_init_fn(reader, read_fd, (void *)(intptr_t)fd, buffer, size);
}

void weft_reader_done(weft_reader *reader)
{
    if (reader != NULL) {
        if (reader->is_allocated) {
            wf_free(reader->bytes);
        }
        memset(reader, 0, sizeof(*reader));
    }
}

size_t weft_reader_buffered(const weft_reader *reader)
{
    return reader->end - reader->begin;
}

/* Reads once, into any memory, and notes the end of the stream. */
static ssize_t read_once(weft_reader *reader, void *buffer, size_t size)
{
    if (reader->is_at_end) {
        return 0;
    }
    ssize_t count = reader->read(reader->context, buffer, size);
    WEFT_CHECK(count <= (ssize_t)size);
    reader->is_at_end = count == 0;
    return count;
}

ssize_t weft_reader_fill(weft_reader *reader)
{
    if (reader->begin == reader->end) {
        reader->begin = 0;
        reader->end = 0;
    } else if (reader->end == reader->size && reader->begin > 0) {
        memmove(reader->bytes, reader->bytes + reader->begin, weft_reader_buffered(reader));
        reader->end -= reader->begin;
        reader->begin = 0;
    }
    if (reader->end == reader->size) {
        return -ENOBUFS;
    }
    ssize_t count = read_once(reader, reader->bytes + reader->end, reader->size - reader->end);
    if (count > 0) {
        reader->end += (size_t)count;
    }
    return count;
}

/* Reads until `size` bytes are buffered; the caller checks that they fit into the buffer.  1: they
 * are buffered; 0: the end came first; or the negative errno of the read. */
static int fill_to(weft_reader *reader, size_t size)
{
    ssize_t count = 1;
    while (weft_reader_buffered(reader) < size && count > 0) {
        count = weft_reader_fill(reader);
    }
    return count > 0 ? 1 : (int)count;
}

ssize_t weft_reader_peek(weft_reader *reader, const char **out, size_t size)
{
    if (size > reader->size) {
        return -EMSGSIZE;
    }
    int rc = fill_to(reader, size);
    if (rc < 0) {
        return rc;
    }
    *out = reader->bytes + reader->begin;
    return (ssize_t)weft_reader_buffered(reader);
}

/* Moves up to `size` buffered bytes out. */
static size_t reader_consume(weft_reader *reader, void *buffer, size_t size)
{
    size_t count = weft_reader_buffered(reader);
    count = count < size ? count : size;
    memcpy(buffer, reader->bytes + reader->begin, count);
    reader->begin += count;
    return count;
}

ssize_t weft_reader_read(weft_reader *reader, void *buffer, size_t size)
{
    if (size == 0) {
        return 0;
    }
    if (weft_reader_buffered(reader) == 0) {
        if (size >= reader->size) { /* a copy through the buffer would gain nothing */
            return read_once(reader, buffer, size);
        }
        ssize_t count = weft_reader_fill(reader);
        if (count <= 0) {
            return count;
        }
    }
    return (ssize_t)reader_consume(reader, buffer, size);
}

/* Reads exactly `size` bytes, which is more than the buffer holds. */
static ssize_t read_large(weft_reader *reader, char *buffer, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = weft_reader_read(reader, buffer + done, size - done);
        if (count < 0) {
            return count;
        }
        if (count == 0) {
            return done == 0 ? 0 : -ENODATA;
        }
        done += (size_t)count;
    }
    return (ssize_t)size;
}

ssize_t weft_reader_read_exact(weft_reader *reader, void *buffer, size_t size)
{
    if (size == 0) {
        return 0;
    }
    if (size > reader->size) {
        return read_large(reader, buffer, size);
    }
    int rc = fill_to(reader, size);
    if (rc > 0) {
        return (ssize_t)reader_consume(reader, buffer, size);
    }
    return rc == 0 && weft_reader_buffered(reader) > 0 ? -ENODATA : rc;
}

int weft_reader_read_until(weft_reader *reader, weft_view *out, char delimiter, size_t limit)
{
    limit = limit != 0 && limit < reader->size ? limit : reader->size;
    size_t searched = 0;
    for (;;) { /* ends: each iteration has more in the buffer, until `limit` is reached */
        size_t available = weft_reader_buffered(reader);
        const char *bytes = reader->bytes + reader->begin;
        available = available < limit ? available : limit;
        const char *found = memchr(bytes + searched, delimiter, available - searched);
        if (found != NULL) {
            *out = (weft_view){bytes, (size_t)(found - bytes) + 1};
            reader->begin += out->size;
            return 1;
        }
        if (available == limit) {
            return -EMSGSIZE;
        }
        searched = available;
        ssize_t count = weft_reader_fill(reader);
        if (count < 0) {
            return (int)count;
        }
        if (count == 0 && available == 0) {
            return 0;
        }
        if (count == 0) {
            *out = (weft_view){reader->bytes + reader->begin, available};
            reader->begin += available;
            return 1;
        }
    }
}

int weft_reader_read_line(weft_reader *reader, weft_view *out, size_t limit)
{
    int rc = weft_reader_read_until(reader, out, '\n', limit);
    if (rc > 0 && out->bytes[out->size - 1] == '\n') {
        out->size--;
        if (out->size > 0 && out->bytes[out->size - 1] == '\r') {
            out->size--;
        }
    }
    return rc;
}

int64_t weft_reader_skip(weft_reader *reader, uint64_t size)
{
    uint64_t done = 0;
    size = size < INT64_MAX ? size : INT64_MAX;
    while (done < size) {
        uint64_t available = weft_reader_buffered(reader);
        if (available == 0) {
            ssize_t count = weft_reader_fill(reader);
            if (count <= 0) {
                return done > 0 ? (int64_t)done : count;
            }
            available = (uint64_t)count;
        }
        available = available < size - done ? available : size - done;
        reader->begin += (size_t)available;
        done += available;
    }
    return (int64_t)done;
}

/* ---- writer ---------------------------------------------------------------------------------- */

int weft_writer_init_fn(weft_writer *writer, weft_write_fn write, void *context, void *buffer,
                        size_t size)
{
    WF_NOT_NULL(writer, "weft_writer_init_fn: writer is NULL");
    WF_NOT_NULL(write, "weft_writer_init_fn: write is NULL");
    weft_writer fresh = {.write = write, .context = context, .size = size};
    int rc = buffer_init(&fresh.bytes, &fresh.size, &fresh.is_allocated, buffer);
    if (rc == 0) {
        *writer = fresh;
    }
    return rc;
}

static ssize_t write_fd(void *context, const void *bytes, size_t size)
{
    return weft_write((int)(intptr_t)context, bytes, size);
}

int weft_writer_init(weft_writer *writer, int fd, void *buffer, size_t size)
{
    return weft_writer_init_fn(writer, write_fd, (void *)(intptr_t)fd, buffer, size);
}

void weft_writer_done(weft_writer *writer)
{
    if (writer != NULL) {
        if (writer->is_allocated) {
            wf_free(writer->bytes);
        }
        memset(writer, 0, sizeof(*writer));
    }
}

size_t weft_writer_buffered(const weft_writer *writer)
{
    return writer->used;
}

/* Writes all bytes; *done is the number of bytes written, also after an error. */
static int write_out(weft_writer *writer, const char *bytes, size_t size, size_t *done)
{
    *done = 0;
    while (*done < size) {
        ssize_t count = writer->write(writer->context, bytes + *done, size - *done);
        WEFT_CHECK(count <= (ssize_t)(size - *done));
        if (count <= 0) {
            return count < 0 ? (int)count : -EIO;
        }
        *done += (size_t)count;
    }
    return 0;
}

int weft_writer_flush(weft_writer *writer)
{
    if (writer->error != 0) {
        return writer->error;
    }
    size_t done;
    int rc = write_out(writer, writer->bytes, writer->used, &done);
    writer->used -= done;
    if (writer->used > 0) {
        memmove(writer->bytes, writer->bytes + done, writer->used);
    }
    return rc;
}

int weft_writer_write(weft_writer *writer, const void *bytes, size_t size)
{
    int rc = writer->error;
    if (rc == 0 && size > writer->size - writer->used) {
        rc = weft_writer_flush(writer);
    }
    if (rc != 0) {
        return rc;
    }
    if (size <= writer->size) {
        if (size > 0) {
            memcpy(writer->bytes + writer->used, bytes, size);
            writer->used += size;
        }
        return 0;
    }
    size_t done;
    rc = write_out(writer, bytes, size, &done);
    if (rc != 0 && done > 0) {
        writer->error = rc;
    }
    return rc;
}

/* Prints into the free space.  Returns the number of bytes that the text needs; they are there if
 * the number is less than the free space. */
static __attribute__((format(printf, 2, 0))) int print_free(weft_writer *writer, const char *format,
                                                            va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int count = vsnprintf(writer->bytes + writer->used, writer->size - writer->used, format, again);
    va_end(again);
    return count >= 0 ? count : -EINVAL;
}

int weft_writer_vprintf(weft_writer *writer, const char *format, va_list arguments)
{
    int rc = writer->error;
    while (rc == 0) { /* ends: after a flush all of the buffer is free */
        int count = print_free(writer, format, arguments);
        if (count < 0) {
            return count;
        }
        if ((size_t)count >= writer->size) {
            return -EMSGSIZE;
        }
        if ((size_t)count < writer->size - writer->used) {
            writer->used += (size_t)count;
            return count;
        }
        rc = weft_writer_flush(writer);
    }
    return rc;
}

int weft_writer_printf(weft_writer *writer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int rc = weft_writer_vprintf(writer, format, arguments);
    va_end(arguments);
    return rc;
}
