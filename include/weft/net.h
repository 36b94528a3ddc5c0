/* SPDX-License-Identifier: MIT */
/*
 * weft/net.h - socket addresses as text; listening; name lookup; connecting by name.
 *
 *     127.0.0.1:8080        IPv4
 *     [::1]:0               IPv6; port 0: any free port
 *     [fe80::1%eth0]:80     IPv6 with an interface, by name or by number
 *     :8080                 all addresses of the machine: the same as [::]:8080
 *     unix:path             a Unix socket in the file system; a relative path is relative to the
 *                           working directory
 *     unix:@name            a Unix socket in the abstract namespace
 *
 * Numbers have one form: no spaces, signs or leading zeros.
 *
 * Threads: any task or thread.  Calls that wait suspend a task and block a non-worker thread.
 */
#ifndef WEFT_NET_H
#define WEFT_NET_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <weft/types.h>

WEFT_BEGIN

/* A socket address.  Pass &address.as.any and address.size to bind, connect and similar calls. */
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

/* A buffer size that is sufficient for the text of every address. */
#define WEFT_ADDRESS_TEXT_SIZE 128

/*
 * Parses an address; never waits.  Host names are not addresses: use weft_net_resolve or
 * weft_net_dial. `default_port` applies to a text without a port ("127.0.0.1", "[::1]"); -1: a port
 * is required.
 *
 * 0               *out is the address
 * -EINVAL         not an address, or a default port above 65535
 * -ENAMETOOLONG   the path or name of a Unix socket has more than 107 bytes
 * -ENODEV         there is no such interface
 * After an error *out is unchanged.
 */
WEFT_API int weft_address_parse(weft_address *out, const char *text, int default_port)
    WEFT_NONNULL(1, 2);

/*
 * Writes the address as text with a final '\0', truncated to `text_size` bytes in all; returns the
 * length of the whole text without the '\0'.  weft_address_parse turns the text of an address that
 * it parsed back into the same address.  It cannot turn back two forms of Unix addresses: a socket
 * without a name prints as "unix:", and a zero byte inside an abstract name prints as '@'.
 *
 * -EINVAL         an address size that is too large, or too small for its family
 * -EAFNOSUPPORT   neither IPv4 nor IPv6 nor Unix
 */
WEFT_API int weft_address_print(const weft_address *address, char *text, size_t text_size)
    WEFT_NONNULL(1);

/* Store the address of a socket, or of its peer, in *out; never wait.  Return 0, or an error of
 * getsockname and getpeername: -ENOTCONN, -ENOTSOCK, -EBADF. */
WEFT_API int weft_address_local(weft_address *out, int fd) WEFT_NONNULL(1);
WEFT_API int weft_address_peer(weft_address *out, int fd) WEFT_NONNULL(1);

/* ---- listening ------------------------------------------------------------------------------- */

/* An option that does not apply to the kind of socket has no effect. */
typedef struct weft_net_listen_options {
    uint32_t size;      /* sizeof(weft_net_listen_options), or 0 */
    int backlog;        /* connections that may wait for an accept; 0: the kernel's maximum */
    bool is_datagram;   /* UDP, or a Unix datagram socket; read it by weft_recvfrom */
    bool is_v6only;     /* [::] accepts no IPv4 connections */
    bool reuses_port;   /* SO_REUSEPORT: several IP sockets share the address and its traffic */
    bool has_nodelay;   /* TCP_NODELAY on each accepted connection: see weft_socket_set_nodelay */
    bool has_keepalive; /* SO_KEEPALIVE on each accepted connection, with the system's times */
    bool unlinks_stale; /* replaces a Unix socket path on which no process listens */
} weft_net_listen_options;

/*
 * Creates a socket that listens at the address; accept connections by weft_accept.  The caller owns
 * the descriptor and closes it by weft_close, which does not remove the path of a Unix socket.  A
 * TCP port can be reused as soon as its listener is closed (SO_REUSEADDR).  On a machine without
 * IPv6, ":8080" means IPv4 only.  Never waits.
 *
 * To check for a stale path and to replace it are two steps: of two programs that start at the same
 * moment, one may lose its path to the other.
 *
 * >= 0     the descriptor
 * -EINVAL, -ENAMETOOLONG, -ENODEV   as weft_address_parse; -EINVAL also for invalid options and for
 *          a host name, whose addresses weft_net_resolve gives
 * else     an error of socket, bind or listen: -EADDRINUSE, -EACCES, -EADDRNOTAVAIL, -EMFILE, ...
 */
WEFT_API int weft_net_listen(const char *address, const weft_net_listen_options *options)
    WEFT_NONNULL(1);

/* ---- names ----------------------------------------------------------------------------------- */

/* The addresses of a name. */
typedef struct weft_address_list {
    size_t count;
    weft_address *list; /* in the system's order of preference */
} weft_address_list;

/*
 * Looks up the addresses of a host, given by name or by number without brackets.  `service` is the
 * name or the number of a port; NULL: port 0.
 *
 * A name is looked up by getaddrinfo on a blocking thread, and the task waits.  If the task is
 * cancelled or its deadline passes, the call returns at once; the thread continues until the lookup
 * ends and discards the answer.  If the host is a number, and the service is a number or NULL, the
 * call needs neither a thread nor a wait.
 *
 * 0            *out has at least one address; free it by weft_address_list_free
 * -ENOENT      there is no such host or service
 * -EREMOTEIO   the name servers did not answer
 * -EINVAL      an empty name, or a number that is not a port
 * -ENOMEM      no memory
 * -EAGAIN      called in a poll task, which cannot wait; or no thread could be started
 * -ECANCELED, -ETIMEDOUT
 * else         another error of getaddrinfo, as a negative errno
 */
WEFT_API int weft_net_resolve(weft_address_list **out, const char *host, const char *service)
    WEFT_NONNULL(1, 2);
/* Frees the result of weft_net_resolve.  NULL is allowed. */
WEFT_API void weft_address_list_free(weft_address_list *addrs);

/*
 * Connects to an address, or to "host:service", and waits until the connection is established.  A
 * host is looked up as by weft_net_resolve.  If it has several addresses they are tried in turn,
 * IPv6 and IPv4 alternating; the next attempt begins when one has failed or after 250 ms.  The
 * first connection is used and the other attempts are ended.  The task's deadline covers the whole
 * call. ":8080" is this machine.
 *
 * >= 0     the descriptor of a stream connection, which the caller owns
 * -EAGAIN  called in a poll task, which cannot wait
 * or an error of weft_address_parse, weft_net_resolve, socket and connect; if several addresses
 * were tried, the error of the first attempt that failed
 */
WEFT_API int weft_net_dial(const char *address) WEFT_NONNULL(1);

/* ---- sockets --------------------------------------------------------------------------------- */

/* Sets TCP_NODELAY: small writes are sent at once, without waiting for the acknowledgement of
 * earlier ones.  Never waits.  Returns 0 or an error of setsockopt. */
WEFT_API int weft_socket_set_nodelay(int fd, bool is_on);

/* Enables keep-alive probes: the first after `seconds` of silence, and one every `seconds` after
 * that.  If the peer answers none of several (/proc/sys/net/ipv4/tcp_keepalive_probes), the
 * connection fails with -ETIMEDOUT.  0 disables them.  Never waits.  Returns 0 or an error of
 * setsockopt; -EINVAL: above 32767. */
WEFT_API int weft_socket_set_keepalive(int fd, unsigned seconds);

WEFT_END

#endif
