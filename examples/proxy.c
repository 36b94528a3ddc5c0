/* SPDX-License-Identifier: MIT */
/*
 * proxy.c - forwards connections: `proxy 127.0.0.1:8080 example.org:80` until it is interrupted. It
 * copies bytes in both directions, and passes on the end of each direction.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/net.h>
#include <weft/weft.h>

static const char *target;

struct direction {
    int from;
    int to;
};

/* Copies until the end and passes that on; the other direction continues. */
static intptr_t pump(void *arg)
{
    const struct direction *direction = arg;
    char buffer[16384];
    ssize_t size;
    while ((size = weft_read(direction->from, buffer, sizeof(buffer))) > 0 &&
           weft_write_all(direction->to, buffer, (size_t)size) == 0) {
    }
    return weft_shutdown(direction->to, SHUT_WR);
}

static intptr_t pass_on(void *arg)
{
    int near = (int)(intptr_t)arg;
    int far = weft_net_dial(target);
    if (far >= 0) {
        struct direction there = {near, far};
        struct direction back = {far, near};
        weft_task *task = weft_go(pump, &back);
        (void)pump(&there);
        (void)weft_await(task);
        weft_close(far);
    }
    return weft_close(near);
}

static intptr_t run(void *arg)
{
    char text[WEFT_ADDRESS_TEXT_SIZE];
    weft_address here;
    int near;
    int listener = weft_net_listen(arg, NULL);
    if (listener < 0 || weft_address_local(&here, listener) != 0) {
        return listener;
    }
    weft_address_print(&here, text, sizeof(text));
    printf("%s -> %s\n", text, target);
    (void)fflush(stdout);
    while ((near = weft_accept(listener, NULL, NULL)) >= 0 || near == -EMFILE) {
        if (near >= 0) { /* else all descriptors are in use; some will be closed */
            weft_task_unref(weft_go(pass_on, (void *)(intptr_t)near));
        }
    }
    return near;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fprintf(stderr, "usage: proxy ADDRESS TARGET\n");
        return EXIT_FAILURE;
    }
    target = argv[2];
    int rc = (int)weft_run(run, argv[1], NULL);
    (void)fprintf(stderr, "proxy: %s\n", strerror(-rc));
    return EXIT_FAILURE;
}
