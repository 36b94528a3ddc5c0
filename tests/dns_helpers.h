/* SPDX-License-Identifier: MIT */
/*
 * dns_helpers.h - a name server in the test, and a network without any other server.
 *
 * dns_enter moves the process into a network namespace that has a loopback and nothing else, and
 * where libc asks 127.0.0.1; it skips the test where the kernel does not allow that.  The server is
 * a task, so a lookup that blocked the only worker would never be answered.  It knows:
 *
 *   both.test     127.0.0.1 and ::1
 *   four.test     127.0.0.1
 *   slow.test     127.0.0.1, after `release` was raised
 *   broken.test   a server error
 *   anything else: no such name
 */
#ifndef DNS_HELPERS_H
#define DNS_HELPERS_H

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "net_helpers.h"

struct dns {
    int fd;
    wf_atomic_u32 asked;   /* received questions about slow.test */
    wf_atomic_u32 release; /* set: these questions may be answered */
};

/* ---- the network ----------------------------------------------------------------------------- */

/* Replaces a file's content, for this process and its threads. */
static inline bool dns_replace(const char *path, const char *text)
{
    char name[] = "/tmp/weft-test-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    CHECK_EQ(close(fd), 0);
    CHECK_EQ(chmod(name, 0644), 0);
    bool is_done = mount(name, path, NULL, MS_BIND, NULL) == 0;
    CHECK_EQ(unlink(name), 0); /* the mount keeps it */
    return is_done;
}

static inline bool dns_loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    bool is_up = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    CHECK_EQ(close(fd), 0);
    return is_up;
}

static inline void dns_enter(void)
{
    const int own = CLONE_NEWNS | CLONE_NEWNET;
    if ((unshare(own) != 0 && unshare(own | CLONE_NEWUSER) != 0) ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || !dns_loopback_up() ||
        !dns_replace("/etc/resolv.conf", "nameserver 127.0.0.1\noptions ndots:1\n") ||
        !dns_replace("/etc/nsswitch.conf", "hosts: dns\nservices: files\n")) {
        tap_skip("the kernel gives this process no network of its own");
    }
}

/* ---- the server ------------------------------------------------------------------------------ */

enum { DNS_HEAD = 12, DNS_A = 1, DNS_AAAA = 28, DNS_SERVER_ERROR = 2, DNS_NO_NAME = 3 };

/* Reads the name in the question, with dots; returns the offset behind it. */
static inline size_t dns_name(const uint8_t *bytes, size_t size, char *name)
{
    size_t at = DNS_HEAD;
    size_t used = 0;
    while (at < size && bytes[at] != 0) { /* ends: a label has at least one byte */
        size_t length = bytes[at++];
        CHECK(at + length < size && used + length + 1 < 64);
        memcpy(name + used, bytes + at, length);
        used += length;
        name[used++] = '.';
        at += length;
    }
    CHECK(used > 0);
    name[used - 1] = '\0';
    return at + 1;
}

/* Turns a question into its answer; returns its size. */
static inline size_t dns_answer(struct dns *dns, uint8_t *bytes, size_t size)
{
    static const uint8_t ip4[] = {127, 0, 0, 1};
    static const uint8_t ip6[16] = {[15] = 1};
    char name[64];
    size_t at = dns_name(bytes, size, name);
    CHECK(at + 4 <= size);
    const unsigned type = (unsigned)bytes[at] << 8 | bytes[at + 1];
    at += 4;
    const bool has_ip6 = strcmp(name, "both.test") == 0;
    bool has_ip4 = has_ip6 || strcmp(name, "four.test") == 0;
    if (strcmp(name, "slow.test") == 0) {
        raise_by_one(&dns->asked);
        wait_for(&dns->release, 1);
        has_ip4 = true;
    }
    const bool is_broken = strcmp(name, "broken.test") == 0;
    bytes[2] = 0x81; /* an answer; recursion desired */
    bytes[3] = (uint8_t)(0x80 | (is_broken ? DNS_SERVER_ERROR : has_ip4 ? 0 : DNS_NO_NAME));
    memset(bytes + 6, 0, 6);
    const bool is_known = (type == DNS_A && has_ip4) || (type == DNS_AAAA && has_ip6);
    if (is_known) {
        const uint8_t length = type == DNS_A ? sizeof(ip4) : sizeof(ip6);
        const uint8_t head[] = {0xc0, DNS_HEAD, 0, (uint8_t)type, 0, 1, 0, 0, 0, 0, 0, length};
        bytes[7] = 1;
        memcpy(bytes + at, head, sizeof(head));
        memcpy(bytes + at + sizeof(head), type == DNS_A ? ip4 : ip6, length);
        at += sizeof(head) + length;
    }
    return at;
}

/* Serves until it is cancelled. */
static inline intptr_t dns_serve(void *arg)
{
    struct dns *dns = arg;
    for (;;) { /* ends by cancellation */
        uint8_t bytes[512];
        weft_address from = {.size = sizeof(from.as)};
        ssize_t size =
            weft_recvfrom(dns->fd, bytes, sizeof(bytes) - 64, 0, &from.as.any, &from.size);
        if (size == -ECANCELED) {
            return 0;
        }
        CHECK(size > DNS_HEAD);
        size_t answer = dns_answer(dns, bytes, (size_t)size);
        CHECK_EQ(weft_sendto(dns->fd, bytes, answer, 0, &from.as.any, from.size), answer);
    }
}

static inline weft_task *dns_start(struct dns *dns)
{
    static const weft_net_listen_options options = {.is_datagram = true};
    dns->fd = weft_net_listen("127.0.0.1:53", &options);
    CHECK(dns->fd >= 0);
    return go(dns_serve, dns);
}

static inline void dns_stop(struct dns *dns, weft_task *task)
{
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_close(dns->fd), 0);
}

#endif
