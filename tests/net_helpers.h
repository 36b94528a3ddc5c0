/* SPDX-License-Identifier: MIT */
/*
 * net_helpers.h - addresses that refuse connections, never answer, or are free.
 */
#ifndef NET_HELPERS_H
#define NET_HELPERS_H

#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io_helpers.h"
#include <weft/net.h>

/* [task]  The number of descriptors that the poller of the runtime may have. */
static inline size_t poller_descriptors(void)
{
    const char *io = getenv("WEFT_IO"); /* NOLINT(concurrency-mt-unsafe): no thread changes it */
    const bool has_rings = io != NULL && strcmp(io, "uring") == 0; /* used or not */
    return 2 + (has_rings ? 2 * stats_of(weft_runtime_self()).workers_total : 0);
}

static inline int listening(const char *text)
{
    int fd = weft_net_listen(text, NULL);
    CHECK(fd >= 0);
    return fd;
}

static inline weft_address local_of(int fd)
{
    weft_address address;
    CHECK_EQ(weft_address_local(&address, fd), 0);
    return address;
}

/* The text of the address of a socket. */
struct text {
    char text[WEFT_ADDRESS_TEXT_SIZE];
};

static inline struct text text_of(const weft_address *address)
{
    struct text text;
    CHECK(weft_address_print(address, text.text, sizeof(text.text)) > 0);
    return text;
}

static inline struct text local_text(int fd)
{
    weft_address address = local_of(fd);
    return text_of(&address);
}

/* A stream to the address: its descriptor, or the error. */
static inline int connecting(const weft_address *address)
{
    int fd = socket(address->as.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    int rc = weft_connect(fd, &address->as.any, address->size);
    if (rc != 0) {
        CHECK_EQ(weft_close(fd), 0);
        return rc;
    }
    return fd;
}

/* A socket that has a port and does not listen: connections are refused, and no other socket gets
 * the port. */
static inline int refusing(weft_address *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(weft_address_parse(address, "127.0.0.1:0", -1), 0);
    CHECK_EQ(bind(fd, &address->as.any, address->size), 0);
    *address = local_of(fd);
    return fd;
}

/* A socket that listens and receives nothing: a filter drops all packets, so no connect ever
 * ends. */
static inline int silent(weft_address *address)
{
    struct sock_filter drop = {.code = 0x06}; /* returns 0 bytes */
    struct sock_fprog filter = {.len = 1, .filter = &drop};
    int fd = listening("127.0.0.1:0");
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) != 0) {
        tap_skip("the kernel has no filters for sockets");
    }
    *address = local_of(fd);
    return fd;
}

/* True if this machine has an IPv6 loopback. */
static inline bool has_ip6(void)
{
    int fd = weft_net_listen("[::1]:0", NULL);
    if (fd >= 0) {
        CHECK_EQ(weft_close(fd), 0);
    }
    return fd >= 0;
}

/* Bytes go both ways. */
static inline void check_connected(int near, int far)
{
    char byte = 0;
    CHECK_EQ(weft_write(near, "n", 1), 1);
    CHECK_EQ(weft_read(far, &byte, 1), 1);
    CHECK_EQ(byte, 'n');
    CHECK_EQ(weft_write(far, "f", 1), 1);
    CHECK_EQ(weft_read(near, &byte, 1), 1);
    CHECK_EQ(byte, 'f');
}

#endif
