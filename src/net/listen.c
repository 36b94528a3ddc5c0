/* SPDX-License-Identifier: MIT */
/*
 * net/listen.c - listening sockets: weft_net_listen; options and addresses of any socket.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "net/net.h"
#include "os/sys.h"

/* The kernel's maximum: tcp(7). */
#define KEEPALIVE_MAX_S 32767

/* ---- listening ------------------------------------------------------------------------------- */

/* Sets a flag, unless *rc is an error already. */
static int set_option(int *rc, int fd, int level, int name, bool is_on)
{
    if (*rc == 0 && is_on) {
        *rc = wf_sys_setsockopt(fd, level, name, 1);
    }
    return *rc;
}

/* Called before the bind, because some of the options change what the bind does.  Accepted
 * connections inherit TCP_NODELAY and SO_KEEPALIVE. */
static int set_options(int fd, const weft_address *address, const weft_net_listen_options *options)
{
    const int family = address->as.any.sa_family;
    const bool is_tcp = family != AF_UNIX && !options->is_datagram;
    int rc = 0;
    if (family == AF_INET6) {
        rc = wf_sys_setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, options->is_v6only);
    }
    (void)set_option(&rc, fd, SOL_SOCKET, SO_REUSEADDR, is_tcp);
    (void)set_option(&rc, fd, SOL_SOCKET, SO_REUSEPORT, options->reuses_port && family != AF_UNIX);
    (void)set_option(&rc, fd, SOL_SOCKET, SO_KEEPALIVE, options->has_keepalive && is_tcp);
    return set_option(&rc, fd, IPPROTO_TCP, TCP_NODELAY, options->has_nodelay && is_tcp);
}

/* True if the path is a socket that no process has open: a connect is refused. */
static bool is_stale(const weft_address *address, int type)
{
    struct stat status;
    if (wf_sys_lstat(address->as.local.sun_path, &status) != 0 || !S_ISSOCK(status.st_mode)) {
        return false;
    }
    int fd = wf_sys_socket(AF_UNIX, type);
    if (fd < 0) {
        return false;
    }
    int rc = wf_sys_connect(fd, &address->as.any, address->size);
    (void)wf_sys_close(fd); /* nothing was written */
    return rc == -ECONNREFUSED;
}

static int bind_socket(int fd, const weft_address *address, int type, bool unlinks_stale)
{
    const bool is_path = address->as.any.sa_family == AF_UNIX && address->as.local.sun_path[0] != 0;
    int rc = wf_sys_bind(fd, &address->as.any, address->size);
    if (rc != -EADDRINUSE || !is_path || !unlinks_stale || !is_stale(address, type)) {
        return rc;
    }
    rc = wf_sys_unlink(address->as.local.sun_path);
    return rc == 0 || rc == -ENOENT ? wf_sys_bind(fd, &address->as.any, address->size) : rc;
}

/* Returns the descriptor of a socket that listens. */
static int open_listener(const weft_address *address, const weft_net_listen_options *options)
{
    const int family = address->as.any.sa_family;
    const int type = options->is_datagram ? SOCK_DGRAM : SOCK_STREAM;
    int fd = wf_sys_socket(family, type);
    if (fd < 0) {
        return fd;
    }
    int rc = set_options(fd, address, options);
    if (rc == 0) {
        rc = bind_socket(fd, address, type, options->unlinks_stale);
    }
    if (rc == 0 && !options->is_datagram) {
        rc = wf_sys_listen(fd, options->backlog != 0 ? options->backlog : SOMAXCONN);
    }
    if (rc == 0) {
        rc = wf_fd_adopt(fd, wf_fd_socket_kind(family, type));
    }
    if (rc != 0) {
        (void)wf_sys_close(fd); /* it has no owner yet, and no data */
        return rc;
    }
    return fd;
}

int weft_net_listen(const char *text, const weft_net_listen_options *options)
{
    static const weft_net_listen_options defaults;
    weft_address address;
    options = options != NULL ? options : &defaults;
    if ((options->size != 0 && options->size != sizeof(*options)) || options->backlog < 0) {
        return -EINVAL;
    }
    int rc = weft_address_parse(&address, text, -1);
    if (rc != 0) {
        return rc;
    }
    int fd = open_listener(&address, options);
    if (fd == -EAFNOSUPPORT && text[0] == ':' && !options->is_v6only) {
        WF_REACHED("listen.without_ip6");
        const in_port_t port = address.as.ip6.sin6_port;
        address = (weft_address){.size = sizeof(address.as.ip4)};
        address.as.ip4.sin_family = AF_INET;
        address.as.ip4.sin_port = port;
        fd = open_listener(&address, options);
    }
    return fd;
}

/* ---- any socket ------------------------------------------------------------------------------ */

static int socket_option(int fd, int level, int name, int value)
{
    struct wf_fd_op op;
    int rc = wf_fd_op_begin(&op, fd);
    if (rc == 0) {
        rc = wf_sys_setsockopt(fd, level, name, value);
        wf_fd_op_end(&op);
    }
    return rc;
}

int weft_socket_set_nodelay(int fd, bool is_on)
{
    return socket_option(fd, IPPROTO_TCP, TCP_NODELAY, is_on);
}

int weft_socket_set_keepalive(int fd, unsigned seconds)
{
    if (seconds > KEEPALIVE_MAX_S) {
        return -EINVAL;
    }
    int rc = 0;
    if (seconds > 0) {
        rc = socket_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)seconds);
        rc = rc != 0 ? rc : socket_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, (int)seconds);
    }
    return rc != 0 ? rc : socket_option(fd, SOL_SOCKET, SO_KEEPALIVE, seconds > 0);
}

/* The local or the peer's address, by `ask`. */
static int socket_address(int fd, weft_address *out,
                          int (*ask)(int fd, struct sockaddr *address, socklen_t *address_size))
{
    weft_address address = {.size = sizeof(address.as)};
    struct wf_fd_op op;
    int rc = wf_fd_op_begin(&op, fd);
    if (rc != 0) {
        return rc;
    }
    rc = ask(fd, &address.as.any, &address.size);
    wf_fd_op_end(&op);
    if (rc == 0) {
        *out = address;
    }
    return rc;
}

int weft_address_local(weft_address *out, int fd)
{
    WF_NOT_NULL(out, "weft_address_local: out is NULL");
    return socket_address(fd, out, wf_sys_getsockname);
}

int weft_address_peer(weft_address *out, int fd)
{
    WF_NOT_NULL(out, "weft_address_peer: out is NULL");
    return socket_address(fd, out, wf_sys_getpeername);
}
