/* SPDX-License-Identifier: MIT */
/*
 * echo.c - a server that sends back what it receives: `echo 127.0.0.1:7000`.  Each connection is a
 * task.  Without an address it tests itself, with a hundred clients at once.  Prints:
 *
 *     100 clients sent 10 lines each, and 1000 came back
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/net.h>
#include <weft/weft.h>

enum { CLIENTS = 100, LINES = 10 };

static intptr_t echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buffer[4096];
    ssize_t size;
    while ((size = weft_read(fd, buffer, sizeof(buffer))) > 0 &&
           weft_write_all(fd, buffer, (size_t)size) == 0) {
    }
    return weft_close(fd);
}

static intptr_t serve(void *arg)
{
    int fd;
    while ((fd = weft_accept((int)(intptr_t)arg, NULL, NULL)) >= 0) {
        weft_task_unref(weft_go(echo, (void *)(intptr_t)fd));
    }
    return fd;
}

static intptr_t talk(void *arg)
{
    weft_reader reader;
    weft_view line;
    int count = 0;
    int fd = weft_net_dial(arg);
    int rc = weft_reader_init(&reader, fd, NULL, 0);
    while (rc == 0 && count < LINES && weft_write_all(fd, "a line\n", 7) == 0 &&
           weft_reader_read_line(&reader, &line, 0) == 1 && memcmp(line.bytes, "a line", 6) == 0) {
        count++; /* the line came back unchanged */
    }
    weft_reader_done(&reader);
    weft_close(fd);
    return count;
}

static intptr_t run(void *arg)
{
    char text[WEFT_ADDRESS_TEXT_SIZE];
    weft_address here;
    weft_task *clients[CLIENTS];
    int lines = 0;
    int fd = weft_net_listen(arg != NULL ? arg : "127.0.0.1:0", NULL);
    if (fd < 0 || arg != NULL) {
        return fd < 0 ? fd : serve((void *)(intptr_t)fd);
    }
    weft_task *server = weft_go(serve, (void *)(intptr_t)fd);
    weft_address_local(&here, fd);
    weft_address_print(&here, text, sizeof(text));
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = weft_go(talk, text);
    }
    for (int i = 0; i < CLIENTS; i++) {
        lines += (int)weft_await(clients[i]);
    }
    printf("%d clients sent %d lines each, and %d came back\n", CLIENTS, LINES, lines);
    weft_close(fd); /* ends the server */
    return weft_await(server) == -EBADF ? 0 : -1;
}

int main(int argc, char **argv)
{
    return weft_run(run, argc > 1 ? argv[1] : NULL, NULL) == 0 ? 0 : 1;
}
