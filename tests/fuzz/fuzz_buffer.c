/* SPDX-License-Identifier: MIT */
/*
 * Goal:   in whatever pieces the bytes of a stream come and go, and whichever read or write is
 *         interrupted, a reader returns all bytes once and in order, and a writer writes all bytes
 *         once and in order.
 * Method: the input is a plan (sizes of buffer and pieces, calls and their arguments) and a text.
 *         Each call of the reader is compared with what the same call means on the whole text; the
 *         bytes it returned go through a writer, whose output must be the text again.
 */
#include <errno.h>
#include <string.h>
#include <sys/types.h>

#include "base/base.h"
#include "fuzz/fuzz.h"
#include <weft/buffer.h>

enum { TEXT_MAX = 2048, PLAN_MAX = 64, BUFFER_MAX = 80 };

struct plan {
    const uint8_t *bytes;
    size_t size;
    size_t next;
};

struct scene {
    struct plan calls;  /* the calls of the reader */
    struct plan pieces; /* how the text arrives and leaves; 0: an interruption */
    const char *text;
    size_t size;
    size_t arrived; /* bytes that the reader's function has returned */
    size_t at;      /* bytes that were taken from the reader */
    bool is_steady; /* no interruptions at the moment */
    bool was_interrupted;
    bool has_ended;  /* the function has reported the end */
    size_t written;  /* bytes that the writer's function has received */
    size_t accepted; /* bytes that the writer has accepted */
    char out[TEXT_MAX];
    size_t limit; /* the size of the reader's buffer */
    weft_reader reader;
    weft_writer writer;
};

static uint8_t next_of(struct plan *plan)
{
    return plan->size > 0 ? plan->bytes[plan->next++ % plan->size] : 1;
}

/* The size of the next piece; 0: this call is interrupted.  Never twice in a row, so that every
 * loop ends. */
static size_t next_piece(struct scene *scene, size_t size)
{
    size_t piece = next_of(&scene->pieces) % 24;
    if (piece == 0 && (scene->is_steady || scene->was_interrupted)) {
        piece = 1;
    }
    scene->was_interrupted = piece == 0;
    return piece < size ? piece : size;
}

static ssize_t read_piece(void *context, void *buffer, size_t size)
{
    struct scene *scene = context;
    WEFT_CHECK(size > 0);
    WEFT_CHECK(!scene->has_ended);
    size_t piece = next_piece(scene, size);
    if (piece == 0) {
        return -ETIMEDOUT;
    }
    size_t rest = scene->size - scene->arrived;
    piece = piece < rest ? piece : rest;
    memcpy(buffer, scene->text + scene->arrived, piece);
    scene->arrived += piece;
    scene->has_ended = piece == 0;
    return (ssize_t)piece;
}

static ssize_t write_piece(void *context, const void *bytes, size_t size)
{
    struct scene *scene = context;
    WEFT_CHECK(size > 0);
    size_t piece = next_piece(scene, size);
    if (piece == 0) {
        return -ETIMEDOUT;
    }
    WEFT_CHECK(piece <= sizeof(scene->out) - scene->written);
    memcpy(scene->out + scene->written, bytes, piece);
    scene->written += piece;
    return (ssize_t)piece;
}

/* The bytes are the next of the text; they are consumed, and passed to the writer. */
static void took(struct scene *scene, const char *bytes, size_t size)
{
    WEFT_CHECK(size <= scene->size - scene->at);
    WEFT_CHECK(size == 0 || memcmp(bytes, scene->text + scene->at, size) == 0);
    const bool was_steady = scene->is_steady;
    scene->is_steady = size > scene->writer.size; /* such a piece must not be interrupted */
    int rc;
    do {
        const bool is_text = memchr(scene->text + scene->at, '\0', size) == NULL &&
                             size < scene->writer.size && size % 2 == 0;
        rc = is_text
                 ? weft_writer_printf(&scene->writer, "%.*s", (int)size, scene->text + scene->at)
                 : weft_writer_write(&scene->writer, scene->text + scene->at, size);
        WEFT_CHECK(rc == -ETIMEDOUT || rc == (is_text ? (int)size : 0));
    } while (rc < 0);
    scene->is_steady = was_steady;
    scene->at += size;
    scene->accepted += size;
    WEFT_CHECK(scene->written + weft_writer_buffered(&scene->writer) == scene->accepted);
}

/* ---- the calls, compared with their meaning -------------------------------------------------- */

static size_t rest_of(const struct scene *scene)
{
    return scene->size - scene->at;
}

static void peek(struct scene *scene, size_t size)
{
    const char *bytes = NULL;
    ssize_t count;
    do {
        count = weft_reader_peek(&scene->reader, &bytes, size);
    } while (count == -ETIMEDOUT);
    if (size > scene->limit) {
        WEFT_CHECK(count == -EMSGSIZE);
        return;
    }
    WEFT_CHECK(count >= 0);
    size_t least = size < rest_of(scene) ? size : rest_of(scene);
    WEFT_CHECK((size_t)count >= least);
    WEFT_CHECK((size_t)count <= rest_of(scene));
    WEFT_CHECK(memcmp(bytes, scene->text + scene->at, (size_t)count) == 0);
    WEFT_CHECK(weft_reader_buffered(&scene->reader) == (size_t)count);
}

static void read_some(struct scene *scene, size_t size)
{
    char bytes[256];
    ssize_t count;
    do {
        count = weft_reader_read(&scene->reader, bytes, size);
    } while (count == -ETIMEDOUT);
    WEFT_CHECK(count >= 0);
    WEFT_CHECK((size_t)count <= size);
    WEFT_CHECK((count == 0) == (size == 0 || rest_of(scene) == 0));
    took(scene, bytes, (size_t)count);
}

static void read_exact(struct scene *scene, size_t size)
{
    char bytes[256];
    ssize_t count;
    scene->is_steady = size > scene->limit;
    do {
        count = weft_reader_read_exact(&scene->reader, bytes, size);
    } while (count == -ETIMEDOUT);
    scene->is_steady = false;
    if (size <= rest_of(scene)) {
        WEFT_CHECK(count == (ssize_t)size);
        took(scene, bytes, size);
    } else if (rest_of(scene) == 0) {
        WEFT_CHECK(count == 0);
    } else {
        WEFT_CHECK(count == -ENODATA);
        if (size > scene->limit) { /* read_exact has consumed it */
            took(scene, bytes, rest_of(scene));
        }
    }
}

static void read_to(struct scene *scene, bool is_line, char delimiter, size_t limit)
{
    weft_view slice = {NULL, 0};
    int rc;
    do {
        rc = is_line ? weft_reader_read_line(&scene->reader, &slice, limit)
                     : weft_reader_read_until(&scene->reader, &slice, delimiter, limit);
    } while (rc == -ETIMEDOUT);
    limit = limit != 0 && limit < scene->limit ? limit : scene->limit;
    const size_t seen = rest_of(scene) < limit ? rest_of(scene) : limit;
    const char *begin = scene->text + scene->at;
    const char *found = memchr(begin, delimiter, seen);
    if (found == NULL && (seen == limit || seen == 0)) {
        WEFT_CHECK(rc == (seen == 0 ? 0 : -EMSGSIZE));
        return;
    }
    WEFT_CHECK(rc == 1);
    const size_t whole = found != NULL ? (size_t)(found - begin) + 1 : seen;
    size_t shown = whole;
    if (is_line && found != NULL) {
        shown -= whole > 1 && found[-1] == '\r' ? 2 : 1;
    }
    WEFT_CHECK(slice.size == shown);
    WEFT_CHECK(memcmp(slice.bytes, begin, shown) == 0);
    took(scene, begin, whole);
}

static void skip(struct scene *scene, uint64_t size)
{
    const uint64_t expected = size < rest_of(scene) ? size : rest_of(scene);
    uint64_t done = 0;
    int64_t count;
    do {
        count = weft_reader_skip(&scene->reader, size - done);
        WEFT_CHECK(count >= 0 || count == -ETIMEDOUT);
        done += count > 0 ? (uint64_t)count : 0;
    } while (count != 0 && done < size);
    WEFT_CHECK(done == expected);
    took(scene, scene->text + scene->at, (size_t)done);
}

static void call_once(struct scene *scene)
{
    const uint8_t kind = next_of(&scene->calls);
    const size_t number = next_of(&scene->calls);
    switch (kind % 8) {
    case 0:
        peek(scene, number);
        break;
    case 1:
        read_some(scene, number);
        break;
    case 2:
        read_exact(scene, number);
        break;
    case 3:
        read_to(scene, false, (char)next_of(&scene->calls), number);
        break;
    case 4:
        skip(scene, number < 250 ? number : UINT64_MAX - number);
        break;
    case 5: {
        ssize_t count = weft_reader_fill(&scene->reader);
        WEFT_CHECK(count >= 0 || count == -ENOBUFS || count == -ETIMEDOUT);
        break;
    }
    default:
        read_to(scene, true, '\n', number);
        break;
    }
}

/* Reads the rest, so that the whole text is written. */
static void read_rest(struct scene *scene)
{
    while (rest_of(scene) > 0) {
        read_some(scene, 256);
    }
    read_exact(scene, 1);
    weft_view slice;
    WEFT_CHECK(weft_reader_read_line(&scene->reader, &slice, 0) == 0);
    while (weft_writer_flush(&scene->writer) != 0) {
    }
    WEFT_CHECK(weft_writer_buffered(&scene->writer) == 0);
    WEFT_CHECK(scene->written == scene->size);
    WEFT_CHECK(memcmp(scene->out, scene->text, scene->size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4) {
        return 0;
    }
    const size_t calls = data[2] % PLAN_MAX;
    const size_t pieces = data[3] % PLAN_MAX;
    if (size < 4 + calls + pieces || size - 4 - calls - pieces > TEXT_MAX) {
        return 0;
    }
    struct scene scene = {
        .calls = {data + 4, calls, 0},
        .pieces = {data + 4 + calls, pieces, 0},
        .text = (const char *)data + 4 + calls + pieces,
        .size = size - 4 - calls - pieces,
        .limit = 1 + data[0] % BUFFER_MAX,
    };
    const size_t room = 1 + data[1] % BUFFER_MAX;
    WEFT_CHECK(weft_reader_init_fn(&scene.reader, read_piece, &scene, NULL, scene.limit) == 0);
    WEFT_CHECK(weft_writer_init_fn(&scene.writer, write_piece, &scene, NULL, room) == 0);
    for (unsigned i = 0; i < 20 || (i < 200 && rest_of(&scene) > 0); i++) {
        call_once(&scene);
    }
    read_rest(&scene);
    weft_reader_done(&scene.reader);
    weft_writer_done(&scene.writer);
    return 0;
}
