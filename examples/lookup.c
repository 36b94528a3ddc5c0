/* SPDX-License-Identifier: MIT */
/*
 * lookup.c - looks up the addresses of several hosts at the same time, each for at most five
 * seconds, as in `lookup 127.0.0.1 ::1 localhost`.  Prints:
 *
 *     127.0.0.1: 127.0.0.1
 *     ::1: ::1
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/net.h>
#include <weft/weft.h>

struct lookup {
    const char *host;
    weft_address_list *found;
};

static intptr_t look_up(void *arg)
{
    struct lookup *lookup = arg;
    weft_deadline_set(weft_time_after(5 * WEFT_SECOND));
    return weft_net_resolve(&lookup->found, lookup->host, NULL);
}

static void show(const struct lookup *lookup, int rc)
{
    printf("%s:", lookup->host);
    for (size_t i = 0; rc == 0 && i < lookup->found->count; i++) {
        const weft_address *address = &lookup->found->list[i];
        char text[INET6_ADDRSTRLEN];
        const void *bytes = address->as.any.sa_family == AF_INET
                                ? (const void *)&address->as.ip4.sin_addr
                                : (const void *)&address->as.ip6.sin6_addr;
        printf(" %s", inet_ntop(address->as.any.sa_family, bytes, text, sizeof(text)));
    }
    printf("%s\n", rc == 0 ? "" : rc == -ENOENT ? " no such host" : " no answer");
}

static intptr_t run(void *arg)
{
    char **hosts = arg;
    int failed = 0;
    size_t count = 0;
    while (hosts[count] != NULL) {
        count++;
    }
    struct lookup *lookups = calloc(count + 1, sizeof(*lookups));
    weft_task **tasks = calloc(count + 1, sizeof(*tasks));
    for (size_t i = 0; lookups != NULL && tasks != NULL && i < count; i++) {
        lookups[i].host = hosts[i];
        tasks[i] = weft_go(look_up, &lookups[i]);
    }
    for (size_t i = 0; lookups != NULL && tasks != NULL && i < count; i++) {
        int rc = (int)weft_await(tasks[i]);
        show(&lookups[i], rc);
        weft_address_list_free(lookups[i].found);
        failed += rc != 0;
    }
    free(lookups);
    free(tasks);
    return failed == 0 ? 0 : -EIO;
}

int main(int argc, char **argv)
{
    (void)argc;
    return weft_run(run, argv + 1, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
