/* SPDX-License-Identifier: MIT */
/*
 * http.h - parsing of HTTP/1.1 (RFC 9112): the head of a request, read from a weft_reader line by
 * line, and the texts of statuses and types.  It is separate from the server, which includes it, so
 * that tests can feed it any bytes.
 *
 * Input that is not understood is refused, never guessed: if two parsers see different requests in
 * the same bytes, one request can be smuggled inside another.  So a head with two lengths, with a
 * length and chunks, with folded lines or with blanks before a colon is rejected.
 */
#ifndef EXAMPLES_HTTP_H
#define EXAMPLES_HTTP_H

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <weft/buffer.h>

enum { HTTP_HEAD_MAX = 8192, HTTP_PATH_MAX = 1024 };

/* ---- requests ------------------------------------------------------------------------------ */

struct http_request {
    char path[HTTP_PATH_MAX]; /* decoded; no leading '/', query, ".." or control character */
    bool is_head;             /* HEAD; else GET */
    bool is_old;              /* HTTP/1.0 */
    bool is_kept_alive;       /* the client wants to send another request */
    bool wants_close;         /* overrides is_kept_alive */
    bool has_host;
    bool has_length;
    bool has_body;
    int coding; /* the status that refuses the Transfer-Encoding; 0: there is none */
};

static inline bool http_is(weft_view slice, const char *text)
{
    return slice.size == strlen(text) && memcmp(slice.bytes, text, slice.size) == 0;
}

/* Compares without regard to case. */
static inline bool http_is_like(weft_view slice, const char *text)
{
    return slice.size == strlen(text) && strncasecmp(slice.bytes, text, slice.size) == 0;
}

/* Returns the text before the first `end`; *rest is the text after it.  Without an `end` it returns
 * the whole text, and *rest is empty. */
static inline weft_view http_cut(weft_view *rest, char end)
{
    const char *found = rest->size > 0 ? memchr(rest->bytes, end, rest->size) : NULL;
    const size_t size = found != NULL ? (size_t)(found - rest->bytes) : rest->size;
    const weft_view part = {rest->bytes, size};
    const size_t taken = found != NULL ? size + 1 : size;
    *rest = (weft_view){rest->bytes + taken, rest->size - taken};
    return part;
}

static inline bool http_is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static inline weft_view http_trim(weft_view slice)
{
    while (slice.size > 0 && http_is_blank(slice.bytes[0])) {
        slice = (weft_view){slice.bytes + 1, slice.size - 1};
    }
    while (slice.size > 0 && http_is_blank(slice.bytes[slice.size - 1])) {
        slice.size--;
    }
    return slice;
}

/* Whether it is a valid name of a method or a header. */
static inline bool http_is_token(weft_view slice)
{
    for (size_t i = 0; i < slice.size; i++) {
        const unsigned char byte = (unsigned char)slice.bytes[i];
        if (byte <= ' ' || byte >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", byte) != NULL) {
            return false;
        }
    }
    return slice.size > 0;
}

static inline bool http_has_control(weft_view slice)
{
    for (size_t i = 0; i < slice.size; i++) {
        const unsigned char byte = (unsigned char)slice.bytes[i];
        if ((byte < ' ' && byte != '\t') || byte == 0x7f) {
            return true;
        }
    }
    return false;
}

/* Returns the number of leading digits up to `last`. */
static inline size_t http_count_digits(weft_view slice, char last)
{
    size_t count = 0;
    while (count < slice.size && slice.bytes[count] >= '0' && slice.bytes[count] <= last) {
        count++;
    }
    return count;
}

static inline int http_hex(char digit)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF";
    const char *found = digit != '\0' ? strchr(digits, digit) : NULL;
    return found != NULL ? (int)((found - digits) % 16) : -1;
}

/* Each function below returns 0, or the status that refuses the request. */
static inline int http_parse_target(struct http_request *request, weft_view target)
{
    size_t size = 0;
    target = http_cut(&target, '?');
    if (target.size > 7 &&
        strncasecmp(target.bytes, "http://", 7) == 0) { /* the form for proxies */
        const char *path = memchr(target.bytes + 7, '/', target.size - 7);
        target = path == NULL ? (weft_view){"/", 1}
                              : (weft_view){path, target.size - (size_t)(path - target.bytes)};
    }
    if (target.size == 0 || target.bytes[0] != '/') {
        return 400;
    }
    for (size_t i = 1; i < target.size; i++) {
        int byte = (unsigned char)target.bytes[i];
        if (byte == '%') {
            const int high = i + 2 < target.size ? http_hex(target.bytes[i + 1]) : -1;
            const int low = i + 2 < target.size ? http_hex(target.bytes[i + 2]) : -1;
            byte = high >= 0 && low >= 0 ? high * 16 + low : 0;
            i += 2;
        }
        if (byte < ' ' || byte == 0x7f) {
            return 400;
        }
        if (byte == '/' && size == 0) {
            continue; /* "//etc" is not absolute either */
        }
        if (size + 1 == sizeof(request->path)) {
            return 414;
        }
        request->path[size++] = (char)byte;
    }
    request->path[size] = '\0';
    for (const char *part = request->path; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) {
            return 400;
        }
    }
    return 0;
}

static inline int http_parse_first(struct http_request *request, weft_view line)
{
    static const char *const others[] = {"POST",  "PUT",     "DELETE", "PATCH",
                                         "TRACE", "OPTIONS", "CONNECT"};
    const bool has_control = http_has_control(line);
    const weft_view method = http_cut(&line, ' ');
    const weft_view target = http_cut(&line, ' ');
    if (has_control || !http_is_token(method) || line.size != 8 ||
        memcmp(line.bytes, "HTTP/", 5) != 0 || line.bytes[6] != '.' ||
        http_count_digits((weft_view){line.bytes + 7, 1}, '9') != 1) {
        return 400;
    }
    if (line.bytes[5] != '1') {
        return 505;
    }
    request->is_old = line.bytes[7] == '0';
    request->is_kept_alive = !request->is_old;
    request->is_head = http_is(method, "HEAD");
    if (request->is_head || http_is(method, "GET")) {
        return http_parse_target(request, target);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (http_is(method, others[i])) {
            return 405;
        }
    }
    return 501;
}

static inline int http_parse_header(struct http_request *request, weft_view line)
{
    const bool has_colon = memchr(line.bytes, ':', line.size) != NULL;
    const weft_view name = http_cut(&line, ':');
    weft_view value = http_trim(line);
    if (!has_colon || !http_is_token(name) || http_has_control(value)) {
        return 400; /* a folded line begins with a blank, which no name contains */
    }
    if (http_is_like(name, "Host")) {
        const bool is_second = request->has_host;
        request->has_host = true;
        return is_second ? 400 : 0;
    }
    if (http_is_like(name, "Transfer-Encoding")) {
        request->coding = http_is_like(value, "chunked") ? 411 : 501;
    } else if (http_is_like(name, "Content-Length")) {
        const bool is_number = value.size > 0 && http_count_digits(value, '9') == value.size;
        const bool is_second = request->has_length;
        request->has_length = true;
        request->has_body = http_count_digits(value, '0') < value.size;
        return is_number && !is_second ? 0 : 400;
    } else if (http_is_like(name, "Connection")) {
        while (value.size > 0) {
            const weft_view option = http_trim(http_cut(&value, ','));
            request->wants_close = request->wants_close || http_is_like(option, "close");
            request->is_kept_alive = request->is_kept_alive || http_is_like(option, "keep-alive");
        }
    }
    return 0;
}

/* Checks the head as a whole. */
static inline int http_judge(const struct http_request *request)
{
    if (request->coding != 0) {
        return request->has_length || request->is_old ? 400 : request->coding;
    }
    return request->has_host || request->is_old ? 0 : 400;
}

/*
 * Reads the next head.
 *
 * 0     *request is the request
 * > 0   the status that refuses it; the position of the next request is unknown
 * < 0   the connection is broken or has ended: no answer is expected
 */
static inline int http_request_read(weft_reader *reader, struct http_request *request)
{
    size_t left = HTTP_HEAD_MAX;
    *request = (struct http_request){.path = ""};
    for (bool is_first = true;;) { /* ends: each iteration takes at least one byte */
        weft_view line;
        int rc = weft_reader_read_line(reader, &line, left);
        if (rc <= 0) {
            return rc == -EMSGSIZE ? 431 : rc == -ETIMEDOUT ? 408 : rc == 0 ? -ENODATA : rc;
        }
        if (line.size + 2 >= left) {
            return 431;
        }
        left -= line.size + 2;
        if (line.size == 0 && !is_first) {
            return http_judge(request);
        }
        if (line.size > 0) { /* empty lines before a request are skipped */
            rc = is_first ? http_parse_first(request, line) : http_parse_header(request, line);
            if (rc != 0) {
                return rc;
            }
            is_first = false;
        }
    }
}

/* ---- texts --------------------------------------------------------------------------------- */

static inline const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } reasons[] = {
        {200, "OK"},
        {400, "Bad Request"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {411, "Length Required"},
        {414, "URI Too Long"},
        {431, "Request Header Fields Too Large"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (reasons[i].status == status) {
            return reasons[i].text;
        }
    }
    return "";
}

/* By the extension of the file name. */
static inline const char *http_type(const char *path)
{
    static const char *const types[][2] = {
        {".css", "text/css"},    {".gif", "image/gif"},      {".html", "text/html"},
        {".jpg", "image/jpeg"},  {".js", "text/javascript"}, {".json", "application/json"},
        {".png", "image/png"},   {".svg", "image/svg+xml"},  {".txt", "text/plain"},
        {".webp", "image/webp"},
    };
    const char *end = strrchr(path, '.');
    for (size_t i = 0; end != NULL && i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcasecmp(end, types[i][0]) == 0) {
            return types[i][1];
        }
    }
    return "application/octet-stream";
}

#endif
