/* SPDX-License-Identifier: MIT */
/*
 * net/address.c - addresses as text: weft_address_parse, weft_address_print.
 *
 * The parser splits the text itself and passes only numeric hosts to libc, which is strict there
 * (inet_pton) and lenient elsewhere (strtoul takes signs and spaces, getaddrinfo "0x7f.1").  What
 * is printed is parsed back to the same bytes, so an interface is printed by its name only if the
 * parser would read that name as one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "net/net.h"

#define UNIX_PREFIX "unix:"
#define PORT_MAX 65535

/* Bytes before the path. */
#define LOCAL_HEAD offsetof(struct sockaddr_un, sun_path)

_Static_assert(WEFT_ADDRESS_TEXT_SIZE >
                   sizeof(UNIX_PREFIX) + sizeof(((struct sockaddr_un *)0)->sun_path),
               "the longest text is that of an abstract Unix socket");
_Static_assert(WEFT_ADDRESS_TEXT_SIZE > INET6_ADDRSTRLEN + IF_NAMESIZE + sizeof("[%]:65535"),
               "an address with an interface fits");

/* A part of a text. */
struct span {
    const char *begin;
    size_t size;
};

/* ---- parsing --------------------------------------------------------------------------------- */

/* Decimal digits without a sign, spaces or leading zeros.  False: another text, or above `max`. */
static bool parse_number(struct span text, uint32_t max, uint32_t *out)
{
    uint64_t number = 0;
    if (text.size == 0 || text.size > 10 || (text.begin[0] == '0' && text.size > 1)) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.begin[i] < '0' || text.begin[i] > '9') {
            return false;
        }
        number = number * 10 + (uint64_t)(text.begin[i] - '0');
    }
    if (number > max) {
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

/* Copies the span as a string for libc.  False: it is empty or does not fit. */
static bool copy_span(char *out, size_t out_size, struct span text)
{
    if (text.size == 0 || text.size >= out_size) {
        return false;
    }
    memcpy(out, text.begin, text.size);
    out[text.size] = '\0';
    return true;
}

/* ":80", or an empty text if there is a default.  False: neither. */
static bool parse_port(struct span text, int default_port, in_port_t *out)
{
    uint32_t port = (uint32_t)default_port;
    if (text.size == 0) {
        if (default_port < 0) {
            return false;
        }
    } else if (text.begin[0] != ':' ||
               !parse_number((struct span){text.begin + 1, text.size - 1}, PORT_MAX, &port)) {
        return false;
    }
    *out = htons((uint16_t)port);
    return true;
}

/* An interface: a number from 1, if there are only digits; else a name. */
static int parse_zone(struct span text, uint32_t *out)
{
    char name[IF_NAMESIZE];
    if (parse_number(text, UINT32_MAX, out)) {
        return *out != 0 ? 0 : -EINVAL;
    }
    bool has_letter = false;
    for (size_t i = 0; i < text.size; i++) {
        has_letter = has_letter || text.begin[i] < '0' || text.begin[i] > '9';
    }
    if (!has_letter || !copy_span(name, sizeof(name), text)) {
        return -EINVAL;
    }
    *out = if_nametoindex(name);
    return *out != 0 ? 0 : -ENODEV;
}

/* `text` begins after the opening bracket. */
static int parse_ip6(weft_address *out, struct span text, int default_port)
{
    struct sockaddr_in6 *ip6 = &out->as.ip6;
    char host[INET6_ADDRSTRLEN];
    const char *end = memchr(text.begin, ']', text.size);
    if (end == NULL) {
        return -EINVAL;
    }
    struct span port = {end + 1, text.size - (size_t)(end + 1 - text.begin)};
    struct span inner = {text.begin, (size_t)(end - text.begin)};
    const char *percent = memchr(inner.begin, '%', inner.size);
    struct span address = {inner.begin,
                           percent != NULL ? (size_t)(percent - inner.begin) : inner.size};
    ip6->sin6_family = AF_INET6;
    if (!copy_span(host, sizeof(host), address) ||
        inet_pton(AF_INET6, host, &ip6->sin6_addr) != 1 ||
        !parse_port(port, default_port, &ip6->sin6_port)) {
        return -EINVAL;
    }
    out->size = sizeof(*ip6);
    if (percent == NULL) {
        return 0;
    }
    struct span zone = {percent + 1, (size_t)(end - percent - 1)};
    return parse_zone(zone, &ip6->sin6_scope_id);
}

static int parse_ip4(weft_address *out, struct span text, int default_port)
{
    struct sockaddr_in *ip4 = &out->as.ip4;
    char host[INET_ADDRSTRLEN];
    const char *colon = memchr(text.begin, ':', text.size);
    size_t size = colon != NULL ? (size_t)(colon - text.begin) : text.size;
    struct span port = {text.begin + size, text.size - size};
    ip4->sin_family = AF_INET;
    if (!copy_span(host, sizeof(host), (struct span){text.begin, size}) ||
        inet_pton(AF_INET, host, &ip4->sin_addr) != 1 ||
        !parse_port(port, default_port, &ip4->sin_port)) {
        return -EINVAL;
    }
    out->size = sizeof(*ip4);
    return 0;
}

/* ":80" is [::]:80; that address is all zeros. */
static int parse_any(weft_address *out, struct span port)
{
    out->as.ip6.sin6_family = AF_INET6;
    out->size = sizeof(out->as.ip6);
    return parse_port(port, -1, &out->as.ip6.sin6_port) ? 0 : -EINVAL;
}

/* `text` begins after "unix:".  The size of a path counts its terminating zero; an abstract name
 * (@) has none. */
static int parse_local(weft_address *out, struct span text)
{
    struct sockaddr_un *local = &out->as.local;
    const bool is_name = text.size > 0 && text.begin[0] == '@';
    if (text.size == (is_name ? 1 : 0)) {
        return -EINVAL;
    }
    if (text.size - (is_name ? 1 : 0) >= sizeof(local->sun_path)) {
        return -ENAMETOOLONG;
    }
    local->sun_family = AF_UNIX;
    memcpy(local->sun_path, text.begin, text.size);
    if (is_name) {
        local->sun_path[0] = '\0';
    }
    out->size = (socklen_t)(LOCAL_HEAD + text.size + (is_name ? 0 : 1));
    return 0;
}

int weft_address_parse(weft_address *out, const char *text, int default_port)
{
    WF_NOT_NULL(out, "weft_address_parse: out is NULL");
    WF_NOT_NULL(text, "weft_address_parse: text is NULL");
    if (default_port > PORT_MAX) {
        return -EINVAL;
    }
    struct span rest = {text, strlen(text)};
    weft_address address;
    memset(&address, 0, sizeof(address));
    int rc;
    if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0) {
        rc = parse_local(&address, (struct span){rest.begin + strlen(UNIX_PREFIX),
                                                 rest.size - strlen(UNIX_PREFIX)});
    } else if (text[0] == '[') {
        rc = parse_ip6(&address, (struct span){rest.begin + 1, rest.size - 1}, default_port);
    } else if (text[0] == ':') {
        rc = parse_any(&address, rest);
    } else {
        rc = parse_ip4(&address, rest, default_port);
    }
    if (rc == 0) {
        *out = address;
    }
    return rc;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* The interface, as parse_zone reads it. */
static void print_zone(uint32_t zone, char *out, size_t out_size)
{
    char name[IF_NAMESIZE];
    if (zone == 0) {
        out[0] = '\0';
    } else if (if_indextoname(zone, name) == NULL || strpbrk(name, "]") != NULL ||
               strspn(name, "0123456789") == strlen(name)) {
        (void)snprintf(out, out_size, "%%%u", zone);
    } else {
        (void)snprintf(out, out_size, "%%%s", name);
    }
}

static int print_ip6(const struct sockaddr_in6 *ip6, char *out, size_t out_size)
{
    char host[INET6_ADDRSTRLEN];
    char zone[IF_NAMESIZE + 1];
    (void)inet_ntop(AF_INET6, &ip6->sin6_addr, host, sizeof(host));
    print_zone(ip6->sin6_scope_id, zone, sizeof(zone));
    return snprintf(out, out_size, "[%s%s]:%u", host, zone, ntohs(ip6->sin6_port));
}

static int print_ip4(const struct sockaddr_in *ip4, char *out, size_t out_size)
{
    char host[INET_ADDRSTRLEN];
    (void)inet_ntop(AF_INET, &ip4->sin_addr, host, sizeof(host));
    return snprintf(out, out_size, "%s:%u", host, ntohs(ip4->sin_port));
}

/* The kernel ends a path by a zero or by the size.  "./" tells a path that begins with @ from an
 * abstract name. */
static int print_local(const struct sockaddr_un *local, size_t size, char *out, size_t out_size)
{
    char path[sizeof(local->sun_path) + 1];
    size = size < sizeof(*local) ? size - LOCAL_HEAD : sizeof(local->sun_path);
    memcpy(path, local->sun_path, size);
    path[size] = '\0';
    if (size > 0 && path[0] == '\0') {
        for (char *zero = path;
             (zero = memchr(zero, '\0', size - (size_t)(zero - path))) != NULL;) {
            *zero = '@';
        }
        return snprintf(out, out_size, UNIX_PREFIX "%s", path);
    }
    return snprintf(out, out_size, UNIX_PREFIX "%s%s", path[0] == '@' ? "./" : "", path);
}

int weft_address_print(const weft_address *address, char *text, size_t text_size)
{
    WF_NOT_NULL(address, "weft_address_print: address is NULL");
    WF_RULE_CHECKED(text_size == 0 || text != NULL, "weft_address_print: text is NULL");
    if (address->size < sizeof(address->as.any.sa_family) || address->size > sizeof(address->as)) {
        return -EINVAL;
    }
    switch (address->as.any.sa_family) {
    case AF_INET:
        return address->size < sizeof(address->as.ip4)
                   ? -EINVAL
                   : print_ip4(&address->as.ip4, text, text_size);
    case AF_INET6:
        return address->size < sizeof(address->as.ip6)
                   ? -EINVAL
                   : print_ip6(&address->as.ip6, text, text_size);
    case AF_UNIX:
        return print_local(&address->as.local, address->size, text, text_size);
    default:
        return -EAFNOSUPPORT;
    }
}
