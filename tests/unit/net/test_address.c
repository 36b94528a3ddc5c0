/* SPDX-License-Identifier: MIT */
/*
 * Goal:   addresses are parsed strictly, and a printed address parses to the same address.
 * Method: tables by hand; a second parser, made of sscanf and a comparison with its own output, on
 *         random texts; the fuzz target with random bytes and near misses.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "fuzz/corpus.h"
#include "fuzz/fuzz.h"
#include "tap.h"
#include <weft/net.h>

static weft_address parsed(const char *text)
{
    weft_address address;
    tap_doing("\"%s\"", text);
    CHECK_EQ(weft_address_parse(&address, text, -1), 0);
    return address;
}

static void check_printed(const weft_address *address, const char *expected)
{
    char text[WEFT_ADDRESS_TEXT_SIZE];
    CHECK_EQ(weft_address_print(address, text, sizeof(text)), strlen(expected));
    CHECK_STR(text, expected);
}

static void check_refused(const char *text, int default_port, int error)
{
    weft_address address;
    weft_address before;
    memset(&address, 0x77, sizeof(address));
    memset(&before, 0x77, sizeof(before));
    tap_doing("\"%s\" with %d", text, default_port);
    CHECK_EQ(weft_address_parse(&address, text, default_port), error);
    CHECK(memcmp(&address, &before, sizeof(address)) == 0);
}

static void address_parse_gives_the_kernels_form(void)
{
    weft_address address = parsed("127.0.0.1:8080");
    CHECK_EQ(address.size, sizeof(struct sockaddr_in));
    CHECK_EQ(address.as.ip4.sin_family, AF_INET);
    CHECK_EQ(ntohs(address.as.ip4.sin_port), 8080);
    CHECK_EQ(ntohl(address.as.ip4.sin_addr.s_addr), INADDR_LOOPBACK);

    address = parsed("[::1]:65535");
    CHECK_EQ(address.size, sizeof(struct sockaddr_in6));
    CHECK_EQ(address.as.ip6.sin6_family, AF_INET6);
    CHECK_EQ(ntohs(address.as.ip6.sin6_port), 65535);
    CHECK(IN6_IS_ADDR_LOOPBACK(&address.as.ip6.sin6_addr));
    CHECK_EQ(address.as.ip6.sin6_scope_id, 0);

    address = parsed(":80");
    CHECK_EQ(address.as.ip6.sin6_family, AF_INET6);
    CHECK(IN6_IS_ADDR_UNSPECIFIED(&address.as.ip6.sin6_addr));
    CHECK_EQ(ntohs(address.as.ip6.sin6_port), 80);

    address = parsed("unix:/run/s");
    CHECK_EQ(address.as.local.sun_family, AF_UNIX);
    CHECK_STR(address.as.local.sun_path, "/run/s");
    CHECK_EQ(address.size, offsetof(struct sockaddr_un, sun_path) + sizeof("/run/s"));

    address = parsed("unix:@name");
    CHECK_EQ(address.as.local.sun_path[0], '\0');
    CHECK(memcmp(address.as.local.sun_path + 1, "name", 4) == 0);
    CHECK_EQ(address.size, offsetof(struct sockaddr_un, sun_path) + 5);
}

static void address_print_gives_the_shortest_form(void)
{
    static const char *const texts[][2] = {
        {"127.0.0.1:8080", "127.0.0.1:8080"},
        {"0.0.0.0:0", "0.0.0.0:0"},
        {"255.255.255.255:65535", "255.255.255.255:65535"},
        {":8080", "[::]:8080"},
        {"[::]:0", "[::]:0"},
        {"[0:0:0:0:0:0:0:1]:1", "[::1]:1"},
        {"[FE80::00AB]:1", "[fe80::ab]:1"},
        {"[::ffff:10.0.0.1]:9", "[::ffff:10.0.0.1]:9"},
        {"[fe80::1%4294967295]:9", "[fe80::1%4294967295]:9"},
        {"unix:relative", "unix:relative"},
        {"unix:./@at", "unix:./@at"},
        {"unix:with space:and]more", "unix:with space:and]more"},
        {"unix:@name", "unix:@name"},
        {"unix:@@", "unix:@@"},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        weft_address address = parsed(texts[i][0]);
        check_printed(&address, texts[i][1]);
        weft_address again = parsed(texts[i][1]);
        CHECK_EQ(again.size, address.size);
        CHECK(memcmp(&again.as, &address.as, address.size) == 0);
    }
}

/* The loopback interface has the number 1 wherever it has a name, but the kernel decides that. */
static void address_accepts_interface_names_and_numbers(void)
{
    unsigned loopback = if_nametoindex("lo");
    if (loopback == 0) {
        tap_skip("the loopback interface is missing");
    }
    weft_address address = parsed("[fe80::1%lo]:80");
    CHECK_EQ(address.as.ip6.sin6_scope_id, loopback);
    check_printed(&address, "[fe80::1%lo]:80");
    char text[64];
    (void)snprintf(text, sizeof(text), "[fe80::1%%%u]:80", loopback);
    address = parsed(text);
    CHECK_EQ(address.as.ip6.sin6_scope_id, loopback);
    check_printed(&address, "[fe80::1%lo]:80");
    check_refused("[fe80::1%no-such-one]:80", -1, -ENODEV);
    check_refused("[fe80::1%]:80", -1, -EINVAL);
    check_refused("[fe80::1%0]:80", -1, -EINVAL);
    check_refused("[fe80::1%01]:80", -1, -EINVAL);
    check_refused("[fe80::1%4294967296]:80", -1, -EINVAL);
    check_refused("[fe80::1%99999999999999999999]:80", -1, -EINVAL);
    check_refused("[fe80::1%longer-than-any-name]:80", -1, -EINVAL);
}

static void address_parse_refuses_bad_texts_and_writes_nothing(void)
{
    static const char *const texts[] = {
        "",
        " ",
        ":",
        "::",
        "::1",
        "::1:80",
        "[",
        "[]",
        "[]:80",
        "[:80",
        "[::1",
        "[::1]",
        "[::1]80",
        "[::1] :80",
        "[::1]:",
        "[::1]:80 ",
        "[ ::1]:80",
        "[127.0.0.1]:80",
        "[1::2::3]:80",
        "[00000:00000:00000:00000:00000:00000:00000:00001:00000]:80",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:-1",
        "127.0.0.1:+1",
        "127.0.0.1: 1",
        "127.0.0.1:1 ",
        "127.0.0.1:0x1",
        "127.0.0.1:65536",
        "127.0.0.1:4294967297",
        "127.0.0.1:18446744073709551617",
        "127.0.0.1:080",
        "127.0.0.1:00",
        "127.0.0.1:80:80",
        "127.0.0.1:http",
        " 127.0.0.1:80",
        "127.0.0.1 :80",
        "127.1:80",
        "127.0.0:80",
        "127.0.0.1.:80",
        "127.0.0.01:80",
        "256.0.0.1:80",
        "0x7f.0.0.1:80",
        "1234567890123456:80",
        "localhost:80",
        "unix",
        "unix:",
        "unix:@",
        "UNIX:path",
        "/run/socket",
        "\xff",
        "127.0.0.1\n:80",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        check_refused(texts[i], -1, -EINVAL);
    }
}

static void address_default_port_applies_only_without_port(void)
{
    weft_address address;
    CHECK_EQ(weft_address_parse(&address, "10.0.0.1", 443), 0);
    check_printed(&address, "10.0.0.1:443");
    CHECK_EQ(weft_address_parse(&address, "10.0.0.1:80", 443), 0);
    check_printed(&address, "10.0.0.1:80");
    CHECK_EQ(weft_address_parse(&address, "[::1]", 0), 0);
    check_printed(&address, "[::1]:0");
    CHECK_EQ(weft_address_parse(&address, "[::1]", 65535), 0);
    check_printed(&address, "[::1]:65535");
    check_refused("10.0.0.1:", 443, -EINVAL);
    check_refused("", 443, -EINVAL);
    check_refused(":", 443, -EINVAL);
    check_refused("10.0.0.1:80", 65536, -EINVAL);
    check_refused("10.0.0.1:80", INT_MAX, -EINVAL);
    check_refused("10.0.0.1", INT_MIN, -EINVAL);
}

static void address_unix_path_has_up_to_107_bytes(void)
{
    char text[200];
    for (unsigned is_name = 0; is_name < 2; is_name++) {
        for (size_t length = 100; length < 150; length++) {
            int head = snprintf(text, sizeof(text), "unix:%s", is_name ? "@" : "");
            memset(text + head, 'x', length);
            text[(size_t)head + length] = '\0';
            if (length > 107) {
                check_refused(text, -1, -ENAMETOOLONG);
                continue;
            }
            weft_address address = parsed(text);
            CHECK_EQ(address.size, offsetof(struct sockaddr_un, sun_path) + length + 1);
            CHECK(address.size <= sizeof(struct sockaddr_un));
            check_printed(&address, text);
        }
    }
}

/* Peer addresses from the kernel that no text stands for. */
static void address_print_shows_addresses_from_the_kernel(void)
{
    weft_address address;
    memset(&address, 0, sizeof(address));
    address.as.local.sun_family = AF_UNIX;
    address.size = offsetof(struct sockaddr_un, sun_path);
    check_printed(&address, "unix:");
    memcpy(address.as.local.sun_path, "\0a\0b", 4);
    address.size += 4;
    check_printed(&address, "unix:@a@b");
    memcpy(address.as.local.sun_path, "@at", sizeof("@at"));
    check_printed(&address, "unix:./@at");
    memset(address.as.local.sun_path, 'y', sizeof(address.as.local.sun_path));
    address.size = sizeof(struct sockaddr_un); /* a path without a terminating zero byte */
    char text[WEFT_ADDRESS_TEXT_SIZE];
    CHECK_EQ(weft_address_print(&address, text, sizeof(text)), 5 + 108);
}

static void address_print_returns_its_error(void)
{
    char text[WEFT_ADDRESS_TEXT_SIZE];
    weft_address address = parsed("127.0.0.1:80");
    CHECK_EQ(weft_address_print(&address, NULL, 0), strlen("127.0.0.1:80"));
    CHECK_EQ(weft_address_print(&address, text, 4), strlen("127.0.0.1:80"));
    CHECK_STR(text, "127");
    address.size--;
    CHECK_EQ(weft_address_print(&address, text, sizeof(text)), -EINVAL);
    address = parsed("[::1]:80");
    address.size--;
    CHECK_EQ(weft_address_print(&address, text, sizeof(text)), -EINVAL);
    address.size = sizeof(address.as) + 1;
    CHECK_EQ(weft_address_print(&address, text, sizeof(text)), -EINVAL);
    address.size = 0;
    CHECK_EQ(weft_address_print(&address, text, sizeof(text)), -EINVAL);
    address.size = sizeof(address.as);
    address.as.any.sa_family = AF_NETLINK;
    CHECK_EQ(weft_address_print(&address, text, sizeof(text)), -EAFNOSUPPORT);
}

/* A text is an address if its numbers, printed again, are the text. */
static bool is_ip4_by_sscanf(const char *text, unsigned *host, unsigned *port)
{
    unsigned part[5];
    char again[64];
    if (sscanf(text, "%3u.%3u.%3u.%3u:%5u", &part[0], &part[1], &part[2], &part[3], &part[4]) !=
        5) {
        return false;
    }
    (void)snprintf(again, sizeof(again), "%u.%u.%u.%u:%u", part[0], part[1], part[2], part[3],
                   part[4]);
    *host = part[0] << 24 | part[1] << 16 | part[2] << 8 | part[3];
    *port = part[4];
    return strcmp(text, again) == 0 && part[0] < 256 && part[1] < 256 && part[2] < 256 &&
           part[3] < 256 && part[4] < 65536;
}

static void address_parse_agrees_with_a_second_parser(void)
{
    static const char alphabet[] = "0125:. ";
    struct wf_random random;
    wf_random_init(&random, tap_seed());
    unsigned good = 0;
    for (unsigned i = 0; i < 200000; i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "%u.%u.%u.%u:%u", wf_random_below(&random, 280),
                       wf_random_below(&random, 280), wf_random_below(&random, 12),
                       wf_random_below(&random, 280), wf_random_below(&random, 70000));
        for (unsigned changes = wf_random_below(&random, 3); changes > 0; changes--) {
            text[wf_random_below(&random, (uint32_t)strlen(text))] =
                alphabet[wf_random_below(&random, sizeof(alphabet) - 1)];
        }
        unsigned host = 0;
        unsigned port = 0;
        weft_address address;
        bool is_good = is_ip4_by_sscanf(text, &host, &port);
        tap_doing("\"%s\"", text);
        CHECK_EQ(weft_address_parse(&address, text, -1), is_good ? 0 : -EINVAL);
        if (is_good) {
            good++;
            CHECK_EQ(ntohl(address.as.ip4.sin_addr.s_addr), host);
            CHECK_EQ(ntohs(address.as.ip4.sin_port), port);
        }
    }
    CHECK(good > 1000);
}

static void address_fuzz_random_bytes_parse_or_fail(void)
{
    static const char *const seeds[] = {"-127.0.0.1:8080",     "-[fe80::1%lo]:80",
                                        "-[::ffff:1.2.3.4]:1", "-:8080",
                                        "-unix:/run/x",        "/[::1]"};
    struct wf_random random;
    wf_random_init(&random, tap_seed());
    for (unsigned i = 0; i < 60000; i++) {
        uint8_t bytes[160];
        size_t size = wf_random_below(&random, sizeof(bytes));
        for (size_t k = 0; k < size; k++) {
            bytes[k] = (uint8_t)wf_random_next(&random);
        }
        if (i % 2 == 0) { /* near misses: a few bytes replaced, and truncated */
            const char *seed = seeds[wf_random_below(&random, 6)];
            memcpy(bytes, seed, strlen(seed));
            size = strlen(seed) - (wf_random_below(&random, 8) == 0 ? 1 : 0);
            for (unsigned changes = wf_random_below(&random, 3); changes > 0; changes--) {
                bytes[1 + wf_random_below(&random, (uint32_t)size - 1)] =
                    (uint8_t)(' ' + wf_random_below(&random, 95));
            }
        }
        if (i % 5 == 0 && size > 2) { /* a family that can be printed */
            static const uint8_t families[] = {AF_INET, AF_INET6, AF_UNIX};
            bytes[0] = families[wf_random_below(&random, 3)];
            bytes[1] = 0;
        }
        CHECK_EQ(LLVMFuzzerTestOneInput(bytes, size), 0);
    }
}

static void address_fuzz_corpus_passes(void)
{
    CHECK(corpus_run(WEFT_CORPUS) >= 11);
}

static const struct tap_test tests[] = {
    TAP_TEST(address_parse_gives_the_kernels_form),
    TAP_TEST(address_print_gives_the_shortest_form),
    TAP_TEST(address_accepts_interface_names_and_numbers),
    TAP_TEST(address_parse_refuses_bad_texts_and_writes_nothing),
    TAP_TEST(address_default_port_applies_only_without_port),
    TAP_TEST(address_unix_path_has_up_to_107_bytes),
    TAP_TEST(address_print_shows_addresses_from_the_kernel),
    TAP_TEST(address_print_returns_its_error),
    TAP_TEST(address_parse_agrees_with_a_second_parser),
    TAP_TEST(address_fuzz_random_bytes_parse_or_fail),
    TAP_TEST(address_fuzz_corpus_passes),
};
TAP_MAIN(tests)
