/* SPDX-License-Identifier: MIT */
/*
 * download.c - downloads eight parts of a file at the same time, from an HTTP server in the same
 * program, and writes each at its offset; on a terminal it shows the progress.  Prints:
 *
 *     8 parts, 4096000 bytes, all as they were sent
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/net.h>
#include <weft/weft.h>

enum { PARTS = 8, SIZE = 512000, PIECE = 8000 };

static char address[WEFT_ADDRESS_TEXT_SIZE];
static int file; /* without a name: it is deleted with the program's end */
static atomic_long done;

/* ---- the server ---------------------------------------------------------------------------- */

static intptr_t answer(void *arg)
{
    char bytes[PIECE] = "";
    int fd = (int)(intptr_t)arg;
    weft_read(fd, bytes, sizeof(bytes)); /* GET /<part> HTTP/1.1 */
    const char part = bytes[5];
    int size = snprintf(bytes, sizeof(bytes), "HTTP/1.1 200\r\nContent-Length: %d\r\n\r\n", SIZE);
    weft_write_all(fd, bytes, (size_t)size);
    memset(bytes, part, sizeof(bytes));
    for (int i = 0; i < SIZE / PIECE && weft_write_all(fd, bytes, sizeof(bytes)) == 0; i++) {
    }
    return weft_close(fd);
}

static intptr_t serve(void *arg)
{
    int fd;
    while ((fd = weft_accept((int)(intptr_t)arg, NULL, NULL)) >= 0) {
        weft_task_unref(weft_go(answer, (void *)(intptr_t)fd));
    }
    return 0;
}

static int start_server(void)
{
    weft_address here;
    int listener = weft_net_listen("127.0.0.1:0", NULL);
    if (listener >= 0) {
        weft_address_local(&here, listener);
        weft_address_print(&here, address, sizeof(address));
        weft_task_unref(weft_go(serve, (void *)(intptr_t)listener));
    }
    return listener;
}

/* ---- the client ---------------------------------------------------------------------------- */

static void show(void)
{
    if (isatty(STDERR_FILENO)) {
        int percent = (int)(100 * atomic_load(&done) / ((long)PARTS * SIZE));
        (void)fprintf(stderr, "\r%.*s %3d%%", percent / 2,
                      "##################################################", percent);
    }
}

/* Downloads part `arg`; returns the number of bytes, or an error. */
static intptr_t download(void *arg)
{
    char piece[PIECE];
    weft_reader reader;
    weft_view line;
    int64_t got_all = 0;
    ssize_t got;
    int fd = weft_net_dial(address);
    if (fd < 0 || weft_reader_init(&reader, fd, NULL, 0) != 0) {
        return fd < 0 ? fd : weft_close(fd) - 1;
    }
    int size = snprintf(piece, sizeof(piece), "GET /%d HTTP/1.1\r\n\r\n", (int)(intptr_t)arg);
    weft_write_all(fd, piece, (size_t)size);
    while (weft_reader_read_line(&reader, &line, 0) == 1 && line.size > 0) { /* the head */
    }
    while ((got = weft_reader_read(&reader, piece, sizeof(piece))) > 0 &&
           weft_pwrite(file, piece, (size_t)got, (intptr_t)arg * SIZE + got_all) == got) {
        got_all += got;
        atomic_fetch_add(&done, got);
        show();
    }
    weft_reader_done(&reader);
    weft_close(fd);
    return got_all;
}

/* Returns how many bytes of the file are those that the server has sent. */
static long count_good(void)
{
    char piece[PIECE];
    long good = 0;
    for (long place = 0; weft_pread(file, piece, sizeof(piece), place) == PIECE; place += PIECE) {
        for (int i = 0; i < PIECE; i++) {
            good += piece[i] == '0' + place / SIZE;
        }
    }
    return good;
}

static intptr_t run(void *arg)
{
    weft_task *tasks[PARTS];
    intptr_t sizes[PARTS];
    (void)arg;
    int listener = start_server();
    file = weft_open("/tmp", O_TMPFILE | O_RDWR, 0600);
    if (listener < 0 || file < 0) {
        return listener < 0 ? listener : file;
    }
    for (intptr_t i = 0; i < PARTS; i++) {
        tasks[i] = weft_go(download, (void *)i);
    }
    weft_await_all(tasks, PARTS, sizes);
    (void)fputs(isatty(STDERR_FILENO) ? "\n" : "", stderr);
    const long good = count_good();
    printf("%d parts, %ld bytes, %s as they were sent\n", PARTS, atomic_load(&done),
           good == atomic_load(&done) ? "all" : "not");
    weft_close(listener); /* ends the server */
    return weft_close(file);
}

int main(void)
{
    return weft_run(run, NULL, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
