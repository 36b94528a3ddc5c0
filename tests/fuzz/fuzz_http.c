/* SPDX-License-Identifier: MIT */
/*
 * Goal:   any bytes are requests, or are refused, independently of the pieces in which they come;
 *         an accepted path stays below its folder, and no accepted head is ambiguous to another
 *         parser.
 * Method: the first byte selects the pieces in which the rest arrives.  The rest is also parsed as
 *         a whole, and each accepted head is checked by other means.
 */
#include <string.h>
#include <sys/types.h>

#include "base/base.h"
#include "fuzz/fuzz.h"
#include <examples/http.h>

struct stream {
    const char *bytes;
    size_t size;
    size_t taken;
    size_t piece;
};

static ssize_t read_piece(void *context, void *buffer, size_t size)
{
    struct stream *stream = context;
    size_t piece = stream->size - stream->taken;
    piece = piece < stream->piece ? piece : stream->piece;
    piece = piece < size ? piece : size;
    memcpy(buffer, stream->bytes + stream->taken, piece);
    stream->taken += piece;
    return (ssize_t)piece;
}

/* The offset behind the bytes that were taken from the reader. */
static size_t offset_of(const struct stream *stream, const weft_reader *reader)
{
    return stream->taken - weft_reader_buffered(reader);
}

static void check_path(const char *path)
{
    char framed[HTTP_PATH_MAX + 2] = "/";
    const size_t length = strnlen(path, HTTP_PATH_MAX);
    WEFT_CHECK(length < HTTP_PATH_MAX);
    WEFT_CHECK(path[0] != '/');
    for (size_t i = 0; i < length; i++) {
        WEFT_CHECK((unsigned char)path[i] >= ' ');
    }
    memcpy(framed + 1, path, length);
    framed[length + 1] = '/';
    WEFT_CHECK(memmem(framed, length + 2, "/../", 4) == NULL);
}

/* Number of lines of the head that begin with `begin`, ignoring case. */
static size_t count_lines(const char *head, size_t size, const char *begin)
{
    const size_t length = strlen(begin);
    size_t count = 0;
    for (size_t i = 1; i + length <= size; i++) {
        count += head[i - 1] == '\n' && strncasecmp(head + i, begin, length) == 0;
    }
    return count;
}

static void check_accepted(const struct http_request *request, const char *head, size_t size)
{
    while (size > 0 && (*head == '\n' || *head == '\r')) { /* empty lines before it */
        head++;
        size--;
    }
    WEFT_CHECK(size <= HTTP_HEAD_MAX);
    WEFT_CHECK(size > 4 && head[size - 1] == '\n');
    WEFT_CHECK(memcmp(head, request->is_head ? "HEAD " : "GET ", request->is_head ? 5 : 4) == 0);
    WEFT_CHECK(memchr(head, '\0', size) == NULL);
    WEFT_CHECK(count_lines(head, size, "transfer-encoding:") == 0);
    WEFT_CHECK(count_lines(head, size, "content-length:") <= 1);
    WEFT_CHECK(count_lines(head, size, " ") == 0);
    WEFT_CHECK(count_lines(head, size, "\t") == 0);
    WEFT_CHECK(count_lines(head, size, "host:") <= 1);
    check_path(request->path);
}

/* A line in memory of exactly its size: the sanitizer checks its end. */
static void check_line(const char *bytes, size_t size)
{
    struct http_request request = {.path = ""};
    char *line = wf_alloc(size);
    WEFT_CHECK(line != NULL);
    memcpy(line, bytes, size);
    (void)http_parse_first(&request, (weft_view){line, size});
    (void)http_parse_header(&request, (weft_view){line, size});
    wf_free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char buffers[2][HTTP_HEAD_MAX];
    struct stream whole = {.bytes = (const char *)data + 1, .size = size - 1, .piece = SIZE_MAX};
    struct stream parts = whole;
    weft_reader readers[2];
    int status = 0;
    if (size < 2) {
        return 0;
    }
    parts.piece = 1 + data[0] % 64;
    check_line(whole.bytes, whole.size);
    WEFT_CHECK(weft_reader_init_fn(&readers[0], read_piece, &whole, buffers[0], HTTP_HEAD_MAX) ==
               0);
    WEFT_CHECK(weft_reader_init_fn(&readers[1], read_piece, &parts, buffers[1], HTTP_HEAD_MAX) ==
               0);
    while (status == 0) { /* ends: a head has at least one byte */
        struct http_request requests[2];
        const size_t begin = offset_of(&whole, &readers[0]);
        status = http_request_read(&readers[0], &requests[0]);
        WEFT_CHECK(http_request_read(&readers[1], &requests[1]) == status);
        WEFT_CHECK(status < 0 || (status == 0) == (http_reason(status)[0] == '\0'));
        if (status == 0) {
            const size_t end = offset_of(&whole, &readers[0]);
            WEFT_CHECK(offset_of(&parts, &readers[1]) == end);
            WEFT_CHECK(strcmp(requests[0].path, requests[1].path) == 0);
            WEFT_CHECK(requests[0].has_body == requests[1].has_body);
            check_accepted(&requests[0], whole.bytes + begin, end - begin);
        }
    }
    return 0;
}
