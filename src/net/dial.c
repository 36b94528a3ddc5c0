/* SPDX-License-Identifier: MIT */
/*
 * net/dial.c - connecting to an address or a host name: weft_net_dial.
 *
 * A host name may have several addresses, and some may not answer.  The attempts race (RFC 8305):
 * the first address is tried, then the next whenever an attempt has failed or a delay has passed,
 * with alternating families.  The first connection wins, and the other attempts are closed.
 *
 * The attempts are sockets in an epoll of their own, for which the task waits as for any
 * descriptor.  So one wait is for all attempts and for the time of the next, and the fd table knows
 * no attempt until one has won.
 *
 * Rejected: a task for each attempt (each needs a stack, and the dialing task must wait for the end
 * of all).
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "future/future.h"
#include "net/net.h"
#include "os/sys.h"

/* RFC 8305, 5: how long one attempt runs before the next begins. */
#define ATTEMPT_NS (250 * WEFT_MILLISECOND)
/* Addresses tried at most.  A host name with more distinct addresses is not expected. */
#define ATTEMPTS_MAX 32

/* A host name has at most 253 characters (RFC 1035); a service name has far fewer than this. */
#define HOST_SIZE 256
#define SERVICE_SIZE 64

struct dial {
    const weft_address *addresses;
    size_t count;
    size_t next;           /* index of the address that is tried next */
    size_t running;        /* attempts that have neither connected nor failed */
    int fds[ATTEMPTS_MAX]; /* of the attempts, by address; negative: failed */
    int epoll_fd;
    int64_t delay_ns;
    weft_time next_at; /* when the next address is tried at the latest */
    int error;         /* of the first attempt that failed; or 0 */
};

/* ---- attempts -------------------------------------------------------------------------------- */

static void attempt_fail(struct dial *dial, size_t index, int error)
{
    if (dial->fds[index] >= 0) {
        (void)wf_sys_close(dial->fds[index]); /* nothing was written */
        dial->fds[index] = -1;
        dial->running--;
    }
    dial->error = dial->error != 0 ? dial->error : error;
    dial->next_at = 0; /* the next attempt begins at once */
}

/* Tries the next address.  1: it is connected; 0: it is connecting, or has failed. */
static int attempt_next(struct dial *dial)
{
    const size_t index = dial->next++;
    const weft_address *address = &dial->addresses[index];
    int fd = wf_sys_socket(address->as.any.sa_family, SOCK_STREAM);
    dial->fds[index] = fd;
    dial->next_at = weft_time_after(dial->delay_ns);
    if (fd < 0) {
        attempt_fail(dial, index, fd);
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
        attempt_fail(dial, index, rc);
    }
    return rc == 0 ? 1 : 0;
}

/* Handles the attempts that have ended.  Returns the index of one that is connected, or -EAGAIN. */
static int dial_poll(struct dial *dial)
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
        attempt_fail(dial, index, error);
    }
    return -EAGAIN;
}

/* Suspends until an attempt is connected.  Returns its index, or an error. */
static int race(struct dial *dial)
{
    for (;;) { /* ends: in each iteration an attempt begins or ends, or the wait fails */
        if (dial->next < dial->count && (dial->running == 0 || weft_now() >= dial->next_at)) {
            if (attempt_next(dial) == 1) {
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
            rc = dial_poll(dial);
            if (rc != -EAGAIN) {
                return rc;
            }
        } else if (rc != -ETIME) {
            return rc;
        }
    }
}

/* Closes the epoll and all attempts except the winner; -1: all. */
static void close_attempts(const struct dial *dial, int winner)
{
    for (size_t i = 0; i < dial->next; i++) {
        if ((int)i != winner && dial->fds[i] >= 0) {
            (void)wf_sys_close(dial->fds[i]); /* nothing was written */
        }
    }
    (void)weft_close(dial->epoll_fd); /* no data is lost with it */
}

/* [closer] */
static void dial_undo(void *dial)
{
    close_attempts(dial, -1);
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
    struct wf_undo_hook hook;
    wf_undo_hook_add(&hook, dial_undo, &dial);
    int won = race(&dial);
    wf_undo_hook_remove(&hook);
    int fd = won >= 0 ? dial.fds[won] : won;
    if (won >= 0) {
        int rc = wf_fd_adopt(fd, wf_fd_socket_kind(addresses[won].as.any.sa_family, SOCK_STREAM));
        if (rc != 0) {
            (void)wf_sys_close(fd); /* it has no owner yet, and no data */
            fd = rc;
        }
    }
    close_attempts(&dial, won);
    return fd;
}

/* One address needs no race: a plain connect. */
static int dial_one(const weft_address *address)
{
    int fd = wf_sys_socket(address->as.any.sa_family, SOCK_STREAM);
    if (fd < 0) {
        return fd;
    }
    int rc = wf_fd_adopt(fd, wf_fd_socket_kind(address->as.any.sa_family, SOCK_STREAM));
    if (rc != 0) {
        (void)wf_sys_close(fd); /* it has no owner yet, and no data */
        return rc;
    }
    struct wf_undo_hook hook;
    wf_undo_hook_add(&hook, wf_fd_open_undo, (void *)(intptr_t)fd);
    rc = weft_connect(fd, &address->as.any, address->size);
    wf_undo_hook_remove(&hook);
    if (rc != 0) {
        (void)weft_close(fd); /* nothing was written */
        return rc;
    }
    return fd;
}

/* ---- names ----------------------------------------------------------------------------------- */

void wf_interleave(weft_address *addresses, size_t count)
{
    for (size_t place = 1; place < count; place++) { /* those before `place` alternate */
        const sa_family_t last = addresses[place - 1].as.any.sa_family;
        size_t other = place;
        while (other < count && addresses[other].as.any.sa_family == last) {
            other++;
        }
        if (other == count) {
            return; /* one family is left */
        }
        const weft_address moved = addresses[other];
        memmove(&addresses[place + 1], &addresses[place], (other - place) * sizeof(moved));
        addresses[place] = moved;
    }
}

/* Splits "host:service". */
static int split_host(const char *text, char *host, char *service)
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

/* ":80": the loopback addresses of both families. */
static int dial_loopback(const weft_address *any)
{
    weft_address both[2] = {*any, {.size = sizeof(both[1].as.ip4)}};
    both[0].as.ip6.sin6_addr = in6addr_loopback;
    both[1].as.ip4.sin_family = AF_INET;
    both[1].as.ip4.sin_port = any->as.ip6.sin6_port;
    both[1].as.ip4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return wf_dial_addresses(both, 2, ATTEMPT_NS);
}

static int dial_name(const char *text)
{
    char host[HOST_SIZE];
    char service[SERVICE_SIZE];
    weft_address_list *found;
    int rc = split_host(text, host, service);
    if (rc == 0) {
        rc = weft_net_resolve(&found, host, service);
    }
    if (rc != 0) {
        return rc;
    }
    struct wf_undo_hook hook;
    wf_undo_hook_add(&hook, wf_free, found);
    if (found->count == 1) {
        rc = dial_one(&found->list[0]);
    } else {
        wf_interleave(found->list, found->count);
        rc = wf_dial_addresses(found->list, found->count, ATTEMPT_NS);
    }
    wf_undo_hook_remove(&hook);
    weft_address_list_free(found);
    return rc;
}

int weft_net_dial(const char *text)
{
    weft_address address;
    struct weft_task *self = wf_task_self();
    WF_NOT_NULL(text, "weft_net_dial: address is NULL");
    if (self != NULL && self->body == WF_BODY_POLL) {
        return -EAGAIN;
    }
    int rc = weft_address_parse(&address, text, -1);
    if (rc == 0) {
        return text[0] == ':' ? dial_loopback(&address) : dial_one(&address);
    }
    return rc == -EINVAL && text[0] != '[' ? dial_name(text) : rc;
}
