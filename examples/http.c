/* SPDX-License-Identifier: MIT */
/*
 * http.c - an HTTP/1.1 server: `http 127.0.0.1:8080 FOLDER [MILLISECONDS]` serves the files of a
 * folder, and /hello from memory, until SIGINT or SIGTERM; then it finishes the requests in
 * progress.
 *
 * Each connection is a task, written as sequential code.  The server closes a connection whose
 * client neither sends nor receives for the given number of milliseconds (10000).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <weft/net.h>
#include <weft/signals.h>
#include <weft/weft.h>

#include "http.h"

enum { CONNECTIONS_MAX = 65536, SMALL_MAX = 8192 };

struct connection {
    int fd;
    weft_reader reader;
    weft_writer writer;
    time_t second; /* the second of `date`, which is formatted again in the next one */
    char date[32];
    bool has_rest; /* the client has sent bytes that will not be read */
    char in[HTTP_HEAD_MAX];
    char out[SMALL_MAX + 512]; /* a small file and its response head */
};

struct server {
    weft_scope scope;
    int listener;
};

static int folder;
static int64_t grace_ns = 10 * WEFT_SECOND;
static atomic_bool is_stopping;
/* By descriptor: the connection waits for the first byte of a request. */
static atomic_bool is_idle[CONNECTIONS_MAX];

/* ---- answers ------------------------------------------------------------------------------- */

/* Each function returns whether the connection can be used further. */
static bool write_head(struct connection *c, const struct http_request *request, int status,
                       const char *type, uint64_t size, bool is_last)
{
    const char *connection = request->is_old ? "Connection: keep-alive\r\n" : "";
    const time_t now = time(NULL);
    struct tm parts;
    if (now != c->second && gmtime_r(&now, &parts) != NULL) {
        c->second = now;
        (void)strftime(c->date, sizeof(c->date), "%a, %d %b %Y %H:%M:%S GMT", &parts); /* fits */
    }
    return weft_writer_printf(&c->writer,
                              "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\n"
                              "Content-Length: %" PRIu64 "\r\n%s%s\r\n",
                              status, http_reason(status), c->date, type, size,
                              is_last ? "Connection: close\r\n" : connection,
                              status == 405 ? "Allow: GET, HEAD\r\n" : "") > 0;
}

static bool answer_text(struct connection *c, const struct http_request *request, int status,
                        const char *text, bool is_last)
{
    const size_t size = strlen(text);
    return write_head(c, request, status, "text/plain", size, is_last) &&
           (request->is_head || weft_writer_write(&c->writer, text, size) == 0);
}

struct file {
    char path[HTTP_PATH_MAX + sizeof("index.html")];
    uint64_t how;
    struct stat status;
};

/* The kernel follows no link and no ".." out of the folder. */
static intptr_t open_file(void *arg)
{
    struct file *file = arg;
    const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | file->how};
    const int fd = (int)syscall(SYS_openat2, folder, file->path, &how, sizeof(how));
    if (fd < 0) {
        return -errno;
    }
    if (fstat(fd, &file->status) == 0 && S_ISREG(file->status.st_mode)) {
        return fd;
    }
    (void)close(fd);
    return -ENOENT;
}

/* Tries the kernel's cache first; a blocking thread opens a path that is not cached. */
static int find_file(struct file *file)
{
    file->how = RESOLVE_CACHED;
    const intptr_t fd = open_file(file);
    file->how = 0;
    return (int)(fd == -EAGAIN || fd == -EINVAL ? weft_blocking_call(open_file, file) : fd);
}

static int status_of(int error)
{
    const bool is_nowhere = error == -ENOENT || error == -ENOTDIR || error == -ENAMETOOLONG ||
                            error == -ELOOP || error == -EXDEV; /* -EXDEV: outside the folder */
    return is_nowhere ? 404 : error == -EACCES ? 403 : 503;
}

/* A small file is sent together with its head, and usually needs no disk access. */
static bool send_file(struct connection *c, int fd, size_t size)
{
    char bytes[SMALL_MAX];
    if (size <= sizeof(bytes)) {
        return weft_pread(fd, bytes, size, 0) == (ssize_t)size &&
               weft_writer_write(&c->writer, bytes, size) == 0;
    }
    const int rc = weft_writer_flush(&c->writer);
    size_t copied = 1;
    while (rc == 0 && size > 0 && copied > 0) {
        (void)weft_deadline_set(
            weft_time_after(grace_ns)); /* a client that receives gets more time */
        (void)weft_fd_copy(c->fd, fd, size, &copied);
        size -= copied;
    }
    return size == 0; /* else the client is gone, or the file became shorter */
}

static bool answer_file(struct connection *c, const struct http_request *request, bool is_last)
{
    struct file file;
    const size_t length = strlen(request->path);
    const bool is_folder = length == 0 || request->path[length - 1] == '/';
    (void)snprintf(file.path, sizeof(file.path), "%s%s", request->path, /* fits */
                   is_folder ? "index.html" : "");
    const int fd = find_file(&file);
    if (fd < 0) {
        return answer_text(c, request, status_of(fd), http_reason(status_of(fd)), is_last);
    }
    const size_t size = (size_t)file.status.st_size;
    const bool is_well = write_head(c, request, 200, http_type(file.path), size, is_last) &&
                         (request->is_head || send_file(c, fd, size));
    (void)weft_close(fd);
    return is_well;
}

/* ---- connections --------------------------------------------------------------------------- */

/* Flushes the answers before the task waits; answers to pipelined requests are sent together. */
static ssize_t flush_and_read(void *context, void *buffer, size_t size)
{
    struct connection *c = context;
    const int rc = weft_writer_flush(&c->writer);
    return rc == 0 ? weft_read(c->fd, buffer, size) : rc;
}

/* Either this task sees that the server stops, or the drain task sees that this one is idle. */
static bool wait_for_request(struct connection *c)
{
    const char *bytes;
    (void)weft_deadline_set(weft_time_after(grace_ns));
    atomic_store(&is_idle[c->fd], true);
    const bool is_there = !atomic_load(&is_stopping) && weft_reader_peek(&c->reader, &bytes, 1) > 0;
    atomic_store(&is_idle[c->fd], false);
    return is_there;
}

static bool serve_request(struct connection *c)
{
    struct http_request request;
    (void)weft_deadline_set(weft_time_after(grace_ns)); /* for the whole head */
    const int status = http_request_read(&c->reader, &request);
    const bool is_last = status != 0 || request.has_body || request.wants_close ||
                         !request.is_kept_alive || atomic_load(&is_stopping);
    (void)weft_deadline_set(weft_time_after(grace_ns));
    bool is_well;
    if (status != 0) {
        is_well = status > 0 && answer_text(c, &request, status, http_reason(status), true);
    } else if (strcmp(request.path, "hello") == 0) {
        is_well = answer_text(c, &request, 200, "Hello, world!\n", is_last);
    } else {
        is_well = answer_file(c, &request, is_last);
    }
    c->has_rest = is_well && (status != 0 || request.has_body);
    return is_well && !is_last;
}

/* If a connection is closed with unread bytes, it is reset and the client may never see the answer.
 * So this reads some of the bytes, until the client has closed its direction. */
static void linger(struct connection *c)
{
    (void)weft_deadline_set(weft_time_after(WEFT_SECOND));
    (void)weft_shutdown(c->fd, SHUT_WR);
    for (int i = 0; i < 64 && weft_read(c->fd, c->in, sizeof(c->in)) > 0; i++) {
    }
}

static intptr_t serve(void *arg)
{
    struct connection c; /* untouched parts of it cost no memory */
    c.fd = (int)(intptr_t)arg;
    c.second = 0;
    c.has_rest = false;
    if (weft_writer_init(&c.writer, c.fd, c.out, sizeof(c.out)) == 0 &&
        weft_reader_init_fn(&c.reader, flush_and_read, &c, c.in, sizeof(c.in)) == 0) {
        while (wait_for_request(&c) && serve_request(&c)) {
        }
        if (weft_writer_flush(&c.writer) == 0 && c.has_rest) {
            linger(&c);
        }
    }
    (void)weft_close(c.fd);
    return 0; /* a failed connection must not cancel the others */
}

static intptr_t accept_all(void *arg)
{
    struct server *server = arg;
    for (;;) { /* until the listener is closed or the task is cancelled */
        const int fd = weft_accept(server->listener, NULL, NULL);
        if (fd == -EBADF || fd == -ECANCELED) {
            return 0;
        }
        if (fd < 0) { /* too many connections, for example; some will end */
            (void)weft_sleep(10 * WEFT_MILLISECOND);
        } else if (fd >= CONNECTIONS_MAX ||
                   weft_scope_go(&server->scope, serve, (void *)(intptr_t)fd) != 0) {
            (void)weft_close(fd);
        }
    }
}

/* Connections that wait for a request see its end; the others finish their last request. */
static void stop(void *context, int number)
{
    (void)context;
    (void)number;
    atomic_store(&is_stopping, true);
    for (int fd = 0; fd < CONNECTIONS_MAX; fd++) {
        if (atomic_load(&is_idle[fd])) {
            (void)weft_shutdown(fd, SHUT_RD);
        }
    }
}

static intptr_t run(void *arg)
{
    const weft_net_listen_options listen_options = {.has_nodelay = true};
    const weft_scope_drain_options drain_options = {.on_begin = stop};
    char text[WEFT_ADDRESS_TEXT_SIZE];
    weft_address here;
    struct server server = {.listener = weft_net_listen(arg, &listen_options)};
    if (server.listener < 0) {
        return server.listener;
    }
    (void)weft_address_local(&here, server.listener);
    (void)weft_address_print(&here, text, sizeof(text));
    printf("http://%s/\n", text);
    (void)fflush(stdout);
    weft_scope_open(&server.scope, NULL);
    weft_scope_go(&server.scope, accept_all, &server);
    return weft_scope_drain(&server.scope, server.listener, &drain_options);
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4 || weft_signals_block(NULL) != 0) {
        (void)fprintf(stderr, "usage: http ADDRESS FOLDER [MILLISECONDS]\n");
        return EXIT_FAILURE;
    }
    grace_ns = argc > 3 ? strtol(argv[3], NULL, 10) * WEFT_MILLISECOND : grace_ns;
    folder = open(argv[2], O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int rc = folder < 0 ? -errno : (int)weft_run(run, argv[1], NULL);
    if (rc != 0) {
        (void)fprintf(stderr, "http: %s\n", strerror(-rc));
    }
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
