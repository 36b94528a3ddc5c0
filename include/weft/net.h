/* SPDX-License-Identifier: MIT */
/*
 * weft/net.h - addresses: as text, and as the kernel takes them.
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

WEFT_END

#endif
