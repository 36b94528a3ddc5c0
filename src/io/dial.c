/* SPDX-License-Identifier: MIT */
/*
 * io/dial.c - connecting to a name: weft_dial.
 *
 * A name has several addresses, of which some may not answer: an attempt is made at the first, and
 * at the next when one has failed or a while has passed, the families in turn; the first connection
 * is taken, and the other attempts end (RFC 8305).
 *
 * The attempts are sockets in an epoll of their own, for which the task waits as for any
 * descriptor: so one wait is for all of them and for the time of the next, and nothing of them is
 * known to others until one has won.  Tasks for the attempts would each need a stack, and somebody
 * who waits for their end.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "io/io.h"
#include "os/sys.h"
#include "sched/fast.h"
#include "weft/net.h"

/* RFC 8305, 5: how long an attempt is alone. */
#define ATTEMPT_NS (250 * WEFT_MILLISECOND)
/* No more are tried: nobody has so many that differ. */
#define ATTEMPTS_MAX 32

/* What a name of a host, and of a service, can have: RFC 1035, and enough. */
#define HOST_SIZE 256
#define SERVICE_SIZE 64

struct dial {
    const weft_address *addresses;
    size_t count;
    size_t next;           /* the address that is tried next */
    size_t running;        /* attempts that are not over */
    int fds[ATTEMPTS_MAX]; /* of the attempts, by address; -1: it is over */
    int epoll_fd;
    int64_t delay_ns;
    weft_time next_at; /* when the next is tried at the latest */
    int error;         /* of the first that has failed */
};

/* ---- attempts -------------------------------------------------------------------------------- */

static void fail(struct dial *dial, size_t index, int error)
{
    if (dial->fds[index] >= 0) {
        (void)wf_sys_close(dial->fds[index]); /* nothing was written */
        dial->fds[index] = -1;
        dial->running--;
    }
    dial->error = dial->error != 0 ? dial->error : error;
    dial->next_at = 0; /* the next need not wait for it */
}

/* The next address: 1, it is connected.  0: it will be, or has failed. */
static int try_next(struct dial *dial)
{
    const size_t index = dial->next++;
    const weft_address *address = &dial->addresses[index];
    int fd = wf_sys_socket(address->as.any.sa_family, SOCK_STREAM);
    dial->fds[index] = fd;
    dial->next_at = weft_in(dial->delay_ns);
    if (fd < 0) {
        fail(dial, index, fd);
        return 0;
    }
    dial->running++;
    int rc = wf_sys_connect(fd, &address->as.any, address->size);
    if (rc == -EINPROGRESS) {
        rc = wf_sys_epoll_add(dial->epoll_fd, fd, EPOLLOUT, (void *)(uintptr_t)index);
        if (rc == 0) {
            return 0;
        }
    }
    if (rc != 0) {
        fail(dial, index, rc);
    }
    return rc == 0 ? 1 : 0;
}

/* What has become of the attempts that are over: the index of one that is connected, or -EAGAIN. */
static int look(struct dial *dial)
{
    struct epoll_event events[ATTEMPTS_MAX];
    int count = wf_sys_epoll_wait(dial->epoll_fd, events, ATTEMPTS_MAX, 0);
    if (count < 0) {
        return count;
    }
    for (int i = 0; i < count; i++) {
        const size_t index = (uintptr_t)events[i].data.ptr;
        int error = wf_sys_socket_error(dial->fds[index]);
        if (error == 0) {
            return (int)index;
        }
        fail(dial, index, error);
    }
    return -EAGAIN;
}

/* Until one is connected: its index, or the error. */
static int race(struct dial *dial)
{
    for (;;) { /* ends: each turn an attempt begins, or one is over, or it may not wait on */
        if (dial->next < dial->count && (dial->running == 0 || weft_now() >= dial->next_at)) {
            if (try_next(dial) == 1) {
                return (int)dial->next - 1;
            }
            continue;
        }
        if (dial->running == 0) {
            return dial->error;
        }
        int rc = wf_poll_until(dial->epoll_fd, POLLIN,
                               dial->next < dial->count ? dial->next_at : WEFT_NEVER);
        if (rc > 0) {
            rc = look(dial);
            if (rc != -EAGAIN) {
                return rc;
            }
        } else if (rc != -ETIME) {
            return rc;
        }
    }
}

/* Closes the attempts but for one, and what they were waited for with. */
static void close_attempts(const struct dial *dial, int but)
{
    for (size_t i = 0; i < dial->next; i++) {
        if ((int)i != but && dial->fds[i] >= 0) {
            (void)wf_sys_close(dial->fds[i]); /* a loser: nothing was written */
        }
    }
    (void)weft_close(dial->epoll_fd); /* nothing is lost with it */
}

/* [closer] */
static void give_up(void *what)
{
    close_attempts(what, -1);
}

int wf_dial_addresses(const weft_address *addresses, size_t count, int64_t delay_ns)
{
    struct dial dial = {
        .addresses = addresses,
        .count = count < ATTEMPTS_MAX ? count : ATTEMPTS_MAX,
        .epoll_fd = wf_sys_epoll_create(),
        .delay_ns = delay_ns,
        .error = count > 0 ? 0 : -EINVAL,
    };
    if (dial.epoll_fd < 0) {
        return dial.epoll_fd;
    }
    struct wf_belonging belonging;
    wf_belonging_begin(&belonging, give_up, &dial);
    int won = race(&dial);
    wf_belonging_end(&belonging);
    int fd = won >= 0 ? dial.fds[won] : won;
    if (won >= 0) {
        int rc = wf_fd_adopt(fd, wf_kind_of_socket(addresses[won].as.any.sa_family, SOCK_STREAM));
        if (rc != 0) {
            (void)wf_sys_close(fd); /* nobody has seen it */
            fd = rc;
        }
    }
    close_attempts(&dial, won);
    return fd;
}

/* One address, without a race: as the socket's own call does it. */
static int dial_one(const weft_address *address)
{
    int fd = wf_sys_socket(address->as.any.sa_family, SOCK_STREAM);
    if (fd < 0) {
        return fd;
    }
    int rc = wf_fd_adopt(fd, wf_kind_of_socket(address->as.any.sa_family, SOCK_STREAM));
    if (rc != 0) {
        (void)wf_sys_close(fd); /* nobody has seen it */
        return rc;
    }
    struct wf_belonging belonging;
    wf_belonging_begin_fd(&belonging, fd);
    rc = weft_connect(fd, &address->as.any, address->size);
    wf_belonging_end(&belonging);
    if (rc != 0) {
        (void)weft_close(fd); /* nothing was written */
        return rc;
    }
    return fd;
}

/* ---- names ----------------------------------------------------------------------------------- */

void wf_interleave(weft_address *addresses, size_t count)
{
    for (size_t place = 1; place < count; place++) { /* all before `place` are in order */
        const sa_family_t last = addresses[place - 1].as.any.sa_family;
        size_t other = place;
        while (other < count && addresses[other].as.any.sa_family == last) {
            other++;
        }
        if (other == count) {
            return; /* only one family is left */
        }
        const weft_address moved = addresses[other];
        memmove(&addresses[place + 1], &addresses[place], (other - place) * sizeof(moved));
        addresses[place] = moved;
    }
}

/* "host:service", taken apart. */
static int split(const char *text, char *host, char *service)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || colon[1] == '\0' || strchr(text, ':') != colon) {
        return -EINVAL;
    }
    const size_t host_size = (size_t)(colon - text);
    if (host_size >= HOST_SIZE || strlen(colon + 1) >= SERVICE_SIZE) {
        return -ENAMETOOLONG;
    }
    memcpy(host, text, host_size);
    host[host_size] = '\0';
    memcpy(service, colon + 1, strlen(colon + 1) + 1);
    return 0;
}

/* This machine, by both of its names. */
static int dial_here(const weft_address *any)
{
    weft_address here[2] = {*any, {.size = sizeof(here[1].as.ip4)}};
    here[0].as.ip6.sin6_addr = in6addr_loopback;
    here[1].as.ip4.sin_family = AF_INET;
    here[1].as.ip4.sin_port = any->as.ip6.sin6_port;
    here[1].as.ip4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return wf_dial_addresses(here, 2, ATTEMPT_NS);
}

static int dial_name(const char *text)
{
    char host[HOST_SIZE];
    char service[SERVICE_SIZE];
    weft_addrs *found;
    int rc = split(text, host, service);
    if (rc == 0) {
        rc = weft_resolve(host, service, &found);
    }
    if (rc != 0) {
        return rc;
    }
    struct wf_belonging belonging;
    wf_belonging_begin(&belonging, wf_free, found);
    if (found->count == 1) {
        rc = dial_one(&found->list[0]);
    } else {
        wf_interleave(found->list, found->count);
        rc = wf_dial_addresses(found->list, found->count, ATTEMPT_NS);
    }
    wf_belonging_end(&belonging);
    weft_addrs_free(found);
    return rc;
}

int weft_dial(const char *text)
{
    weft_address address;
    struct weft_task *self = wf_task_self();
    if (text == NULL) {
        return -EINVAL;
    }
    if (self != NULL && self->body == WF_BODY_POLL) {
        return -EAGAIN;
    }
    int rc = weft_address_parse(&address, text, -1);
    if (rc == 0) {
        return text[0] == ':' ? dial_here(&address) : dial_one(&address);
    }
    return rc == -EINVAL && text[0] != '[' ? dial_name(text) : rc;
}
