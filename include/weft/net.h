/* SPDX-License-Identifier: MIT */
/*
 * weft/net.h - addresses, as text and as the kernel takes them; listening, and connecting to names.
 *
 *     127.0.0.1:8080        IPv4
 *     [::1]:0               IPv6; port 0: any that is free
 *     [fe80::1%eth0]:80     with the interface, by name or by number
 *     :8080                 all addresses of the machine: the same as [::]:8080
 *     unix:path             a Unix socket in the file system, from where the process stands
 *     unix:@name            a Unix socket that has only a name
 *
 * There is one way to write a number: no spaces, no signs, no zeros in front.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <weft/types.h>

WEFT_BEGIN

/* An address of a socket.  bind, connect and the like get &address.as.any and address.size. */
typedef struct weft_address {
    socklen_t size; /* 0: none */
    union {
        struct sockaddr any;
        struct sockaddr_in ip4;
        struct sockaddr_in6 ip6;
        struct sockaddr_un local;
        struct sockaddr_storage storage;
    } as;
} weft_address;

/* A buffer of this size has room for the text of every address. */
#define WEFT_ADDRESS_TEXT_SIZE 128

/*
 * Reads an address.  Names of hosts are none: weft_resolve and weft_dial take these.
 *
 * `default_port` is for a text without port ("127.0.0.1", "[::1]"); -1: there has to be one.
 *
 * 0               *out is it
 * -EINVAL         NULL, no such address, or a default port above 65535
 * -ENAMETOOLONG   the path or the name of a Unix socket has more than 107 bytes
 * -ENODEV         there is no such interface
 * After an error *out is as it was.
 */
WEFT_API int weft_address_parse(weft_address *out, const char *text, int default_port);

/*
 * Writes the address as text, cut to `text_size` bytes with the end; the bytes it needs without the
 * end.  What was read gives the address again when it is printed and read.  Shown only: a Unix
 * socket without a name as "unix:", and zero bytes in a name as '@'.
 *
 * -EINVAL         NULL, or a size that is too small for its kind
 * -EAFNOSUPPORT   neither IPv4 nor IPv6 nor Unix
 */
WEFT_API int weft_address_print(const weft_address *address, char *text, size_t text_size);

/* The address of a socket, and of its peer.  0, or what getsockname and getpeername give:
 * -ENOTCONN; -ENOTSOCK; -EBADF. */
WEFT_API int weft_local_address(int fd, weft_address *out);
WEFT_API int weft_peer_address(int fd, weft_address *out);

/* ---- listening ------------------------------------------------------------------------------- */

/* What does not apply to the kind of socket has no effect. */
typedef struct weft_listen_options {
    uint32_t size;      /* sizeof(weft_listen_options), or 0 */
    int backlog;        /* connections that wait for an accept; 0: as many as the kernel allows */
    bool is_datagram;   /* UDP, or datagrams of a Unix socket: read by weft_recvfrom */
    bool is_v6only;     /* [::] is not for IPv4, too */
    bool reuses_port;   /* several sockets of IP may have the address, and share what comes */
    bool has_nodelay;   /* of each connection that is accepted: see weft_socket_nodelay */
    bool has_keepalive; /* the same, after the time that is set for the machine */
    bool unlinks_stale; /* a Unix socket in the file system that nobody has open is replaced */
} weft_listen_options;

/*
 * A socket that listens at the address; connections are had by weft_accept.  It is closed by
 * weft_close, which does not remove the path of a Unix socket.  A TCP port can be had again as soon
 * as nobody listens there (SO_REUSEADDR).  Where there is no IPv6, ":8080" stands for IPv4 alone.
 *
 * To look whether a path is stale and to replace it are two steps: of two programs that start at
 * the same moment one may lose its path to the other.
 *
 * >= 0     the descriptor
 * -EINVAL, -ENAMETOOLONG, -ENODEV   as weft_address_parse; or options that make no sense
 * -EINVAL  a name, too: weft_resolve has its addresses
 * or what socket, bind and listen give: -EADDRINUSE, -EACCES, -EADDRNOTAVAIL, -EMFILE, ...
 */
WEFT_API int weft_listen(const char *address, const weft_listen_options *options);

/* ---- names ----------------------------------------------------------------------------------- */

/* What a name stands for. */
typedef struct weft_addrs {
    size_t count;
    weft_address *list; /* best first, as the machine is set up to see it */
} weft_addrs;

/*
 * Looks up the addresses of a host: a name or a number, without brackets.  `service`: the name or
 * the number of a port; NULL: port 0.
 *
 * Files and servers are asked by getaddrinfo, on a thread that may block; the worker goes on.  A
 * task that is cancelled or out of time leaves at once, while the thread goes on until it has its
 * answer, which nobody sees.  Numbers need neither thread nor wait.
 *
 * 0            *out has at least one address, and is given back to weft_addrs_free
 * -ENOENT      there is no such host or service
 * -EREMOTEIO   the servers gave no answer
 * -EINVAL      NULL, an empty name, or a number that is no port
 * -ENOMEM; -EAGAIN: a poll task, which cannot wait, or there is no thread for it
 * -ECANCELED, -ETIMEDOUT
 */
WEFT_API int weft_resolve(const char *host, const char *service, weft_addrs **out);
/* NULL is allowed. */
WEFT_API void weft_addrs_free(weft_addrs *addrs);

/*
 * Connects to an address, or to "host:service".  A host is looked up as by weft_resolve; if it has
 * several addresses they are tried in turn, IPv6 and IPv4 alternating: the next when one has
 * failed, or after 250 ms; the first connection is taken, the other attempts end.  The deadline of
 * the task is for all of it.  ":8080" is this machine.
 *
 * >= 0     the descriptor of the connection, a stream
 * or what weft_address_parse, weft_resolve, socket and connect give; if several addresses were
 * tried, the error of the first that failed
 */
WEFT_API int weft_dial(const char *address);

/* ---- sockets --------------------------------------------------------------------------------- */

/* Whether small pieces leave at once, instead of waiting for an answer to those before:
 * TCP_NODELAY.
 */
WEFT_API int weft_socket_nodelay(int fd, bool is_on);

/* Asks a silent peer whether it is there, after so many seconds, and then as often; one that does
 * not answer several times (/proc/sys/net/ipv4/tcp_keepalive_probes) is an error, -ETIMEDOUT, of
 * the connection.  0: does not ask.  -EINVAL: above 32767. */
WEFT_API int weft_socket_keepalive(int fd, unsigned seconds);

WEFT_END

#endif
