/* SPDX-License-Identifier: MIT */
/*
 * Goal:   sockets listen at the given address, with exactly the given options, and report the true
 *         address of each peer.
 * Method: every form of address, over loopback and Unix sockets; the kernel's view of each option;
 *         paths in a folder of their own; each system call fails in turn.
 */
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fault_helpers.h"
#include "net_helpers.h"

static int option_of(int fd, int level, int name)
{
    int value = -1;
    socklen_t size = sizeof(value);
    CHECK_EQ(getsockopt(fd, level, name, &value, &size), 0);
    return value;
}

/* A folder for sockets, removed at the end. */
struct folder {
    char path[64];
    char socket[96]; /* path of a socket in the folder */
    char address[112];
};

static struct folder folder_new(void)
{
    struct folder folder = {.path = "/tmp/weft-test-XXXXXX"};
    CHECK(mkdtemp(folder.path) != NULL);
    (void)snprintf(folder.socket, sizeof(folder.socket), "%s/socket", folder.path);
    (void)snprintf(folder.address, sizeof(folder.address), "unix:%s", folder.socket);
    return folder;
}

static void folder_done(const struct folder *folder)
{
    (void)unlink(folder->socket);
    CHECK_EQ(rmdir(folder->path), 0);
}

/* ---- connections ----------------------------------------------------------------------------- */

static intptr_t accept_one(void *arg)
{
    return weft_accept((int)(intptr_t)arg, NULL, NULL);
}

static void check_equal(const weft_address *a, const weft_address *b)
{
    CHECK_EQ(a->size, b->size);
    CHECK(memcmp(&a->as, &b->as, a->size) == 0);
}

/* A connection from the address that its peer sees. */
static void connect_to(int listener)
{
    weft_address address = local_of(listener);
    weft_task *task = go(accept_one, (void *)(intptr_t)listener);
    int near = connecting(&address);
    CHECK(near >= 0);
    int far = (int)weft_await(task);
    CHECK(far >= 0);
    check_connected(near, far);
    weft_address near_address = local_of(near);
    weft_address peer;
    CHECK_EQ(weft_address_peer(&peer, far), 0);
    check_equal(&peer, &near_address);
    CHECK_EQ(weft_close(near), 0);
    CHECK_EQ(weft_close(far), 0);
}

static intptr_t listen_everywhere(void *arg)
{
    (void)arg;
    const struct folder folder = folder_new();
    const size_t before = open_count(); /* including the runtime's own, which the dials open */
    static const char *const texts[] = {"127.0.0.1:0", ":0", "unix:@weft-test-", "[::1]:0", NULL};
    const bool is_ip6 = has_ip6();
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char name[128];
        const char *text = texts[i] != NULL ? texts[i] : folder.address;
        if (text[0] == '[' && !is_ip6) {
            continue;
        }
        if (strncmp(text, "unix:@", 6) == 0) { /* the name is not in use at the moment */
            (void)snprintf(name, sizeof(name), "%s%d", text, getpid());
            text = name;
        }
        int fd = listening(text);
        CHECK_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
        weft_address peer;
        CHECK_EQ(weft_address_peer(&peer, fd), -ENOTCONN);
        connect_to(fd);
        CHECK_EQ(weft_close(fd), 0);
    }
    CHECK(open_count() <= before + poller_descriptors());
    folder_done(&folder);
    return 0;
}

static void listen_accepts_each_form_of_address(void)
{
    run_under(EVERYWHERE, listen_everywhere);
}

static void *connect_from_thread(void *arg)
{
    const weft_address *address = arg;
    int fd = connecting(address);
    CHECK(fd >= 0);
    return (void *)(intptr_t)fd;
}

static void listen_works_in_a_thread(void)
{
    pthread_t thread;
    void *near;
    int listener = listening("127.0.0.1:0");
    weft_address address = local_of(listener);
    CHECK_EQ(pthread_create(&thread, NULL, connect_from_thread, &address), 0);
    int far = weft_accept(listener, NULL, NULL);
    CHECK(far >= 0);
    CHECK_EQ(pthread_join(thread, &near), 0);
    check_connected((int)(intptr_t)near, far);
    CHECK_EQ(weft_close((int)(intptr_t)near), 0);
    CHECK_EQ(weft_close(far), 0);
    CHECK_EQ(weft_close(listener), 0);
}

/* A datagram from a socket without a name, and a reply to a socket with a name. */
static intptr_t exchange_datagrams(void *arg)
{
    (void)arg;
    static const weft_net_listen_options options = {.is_datagram = true};
    const struct folder folder = folder_new();
    const char *const texts[] = {"127.0.0.1:0", folder.address};
    char name[64];
    (void)snprintf(name, sizeof(name), "unix:@weft-test-%d", getpid());
    for (size_t i = 0; i < 2; i++) {
        char text[8];
        weft_address from = {.size = sizeof(from.as)};
        int one = weft_net_listen(texts[i], &options);
        int other = weft_net_listen(i == 0 ? "127.0.0.1:0" : name, &options);
        CHECK(one >= 0);
        CHECK(other >= 0);
        weft_address to = local_of(one);
        weft_address back = local_of(other);
        CHECK_EQ(weft_sendto(other, "weft", 4, 0, &to.as.any, to.size), 4);
        CHECK_EQ(weft_recvfrom(one, text, sizeof(text), 0, &from.as.any, &from.size), 4);
        CHECK(memcmp(text, "weft", 4) == 0);
        check_equal(&from, &back);
        CHECK_EQ(weft_close(one), 0);
        CHECK_EQ(weft_close(other), 0);
    }
    folder_done(&folder);
    return 0;
}

static void listen_datagrams_carry_addresses(void)
{
    run_under(ON_ONE_WORKER, exchange_datagrams);
}

/* ---- options --------------------------------------------------------------------------------- */

static void listen_reuse_port_needs_both_sockets(void)
{
    static const weft_net_listen_options shares = {.size = sizeof(shares), .reuses_port = true};
    int one = weft_net_listen("127.0.0.1:0", &shares);
    CHECK(one >= 0);
    struct text text = local_text(one);
    CHECK_EQ(weft_net_listen(text.text, NULL), -EADDRINUSE);
    int other = weft_net_listen(text.text, &shares);
    CHECK(other >= 0);
    CHECK_EQ(weft_close(one), 0);
    CHECK_EQ(weft_close(other), 0);
}

/* The kernel copies these to each connection. */
static void listen_connections_inherit_options(void)
{
    for (unsigned is_on = 0; is_on < 2; is_on++) {
        const weft_net_listen_options options = {.has_nodelay = is_on, .has_keepalive = is_on};
        int listener = weft_net_listen("127.0.0.1:0", &options);
        CHECK(listener >= 0);
        weft_address address = local_of(listener);
        int near = connecting(&address);
        CHECK(near >= 0);
        int far = weft_accept(listener, NULL, NULL);
        CHECK(far >= 0);
        CHECK_EQ(option_of(far, IPPROTO_TCP, TCP_NODELAY), is_on);
        CHECK_EQ(option_of(far, SOL_SOCKET, SO_KEEPALIVE), is_on);
        CHECK_EQ(weft_close(near), 0);
        CHECK_EQ(weft_close(far), 0);
        CHECK_EQ(weft_close(listener), 0);
    }
}

static void listen_backlog_is_the_requested_one(void)
{
    static const weft_net_listen_options options = {.backlog = 1};
    int listener = weft_net_listen("127.0.0.1:0", &options);
    CHECK(listener >= 0);
    struct tcp_info info;
    socklen_t size = sizeof(info);
    CHECK_EQ(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    CHECK_EQ(weft_close(listener), 0);
    if (size < offsetof(struct tcp_info, tcpi_lost)) {
        tap_skip("the emulator has no TCP_INFO");
    }
    CHECK_EQ(info.tcpi_sacked, 1); /* for a listener: the backlog */
}

/* A connection of the previous server may linger at the port: the new server need not wait. */
static void listen_port_can_be_reused_at_once(void)
{
    for (unsigned is_datagram = 0; is_datagram < 2; is_datagram++) {
        const weft_net_listen_options options = {.is_datagram = is_datagram};
        int listener = weft_net_listen("127.0.0.1:0", &options);
        CHECK(listener >= 0);
        CHECK_EQ(option_of(listener, SOL_SOCKET, SO_REUSEADDR), !is_datagram);
        CHECK_EQ(option_of(listener, SOL_SOCKET, SO_REUSEPORT), 0);
        CHECK_EQ(weft_close(listener), 0);
    }
}

static void listen_ip6_accepts_ip4_unless_disabled(void)
{
    if (!has_ip6()) {
        tap_skip("this machine has no IPv6");
    }
    for (unsigned is_v6only = 0; is_v6only < 2; is_v6only++) {
        const weft_net_listen_options options = {.is_v6only = is_v6only};
        int listener = weft_net_listen(":0", &options);
        CHECK(listener >= 0);
        CHECK_EQ(option_of(listener, IPPROTO_IPV6, IPV6_V6ONLY), is_v6only);
        const in_port_t port = local_of(listener).as.ip6.sin6_port;
        weft_address address;
        CHECK_EQ(weft_address_parse(&address, "127.0.0.1:0", -1), 0);
        address.as.ip4.sin_port = port;
        int fd = connecting(&address);
        if (is_v6only) {
            CHECK(fd == -ECONNREFUSED);
        } else {
            CHECK(fd >= 0);
            CHECK_EQ(weft_close(fd), 0);
        }
        CHECK_EQ(weft_close(listener), 0);
    }
}

static void listen_refuses_bad_options(void)
{
    CHECK_EQ(weft_net_listen("127.0.0.1:0", &(weft_net_listen_options){.size = 1}), -EINVAL);
    CHECK_EQ(weft_net_listen("127.0.0.1:0", &(weft_net_listen_options){.backlog = -1}), -EINVAL);
    CHECK_EQ(weft_net_listen("localhost:0", NULL), -EINVAL);
    CHECK_EQ(weft_net_listen("192.0.2.1:0", NULL), -EADDRNOTAVAIL);
}

/* ---- paths ----------------------------------------------------------------------------------- */

static void listen_replaces_a_stale_path_only_on_request(void)
{
    static const weft_net_listen_options replaces = {.unlinks_stale = true};
    static const weft_net_listen_options datagrams = {.unlinks_stale = true, .is_datagram = true};
    const struct folder folder = folder_new();
    int fd = listening(folder.address);
    CHECK_EQ(weft_net_listen(folder.address, &replaces), -EADDRINUSE); /* another socket listens */
    CHECK_EQ(weft_net_listen(folder.address, &datagrams), -EADDRINUSE);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_net_listen(folder.address, NULL),
             -EADDRINUSE); /* no socket listens, and the path exists */
    fd = weft_net_listen(folder.address, &replaces);
    CHECK(fd >= 0);
    weft_address address = local_of(fd);
    int near = connecting(&address);
    CHECK(near >= 0);
    CHECK_EQ(weft_close(near), 0);
    CHECK_EQ(weft_close(fd), 0);
    fd = weft_net_listen(folder.address, &datagrams);
    CHECK(fd >= 0);
    CHECK_EQ(weft_close(fd), 0);
    folder_done(&folder);
}

static void listen_never_replaces_a_file_that_is_no_socket(void)
{
    static const weft_net_listen_options replaces = {.unlinks_stale = true};
    const struct folder folder = folder_new();
    int file = open(folder.socket, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    CHECK_EQ(weft_net_listen(folder.address, &replaces), -EADDRINUSE);
    struct stat status;
    CHECK_EQ(stat(folder.socket, &status), 0);
    CHECK(S_ISREG(status.st_mode));
    CHECK_EQ(close(file), 0);
    folder_done(&folder);
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void socket_options_can_be_set_later(void)
{
    struct pair pair = tcp_pair_new();
    CHECK_EQ(weft_socket_set_nodelay(pair.near, true), 0);
    CHECK_EQ(option_of(pair.near, IPPROTO_TCP, TCP_NODELAY), 1);
    CHECK_EQ(weft_socket_set_nodelay(pair.near, false), 0);
    CHECK_EQ(option_of(pair.near, IPPROTO_TCP, TCP_NODELAY), 0);
    CHECK_EQ(weft_socket_set_keepalive(pair.near, 17), 0);
    CHECK_EQ(option_of(pair.near, SOL_SOCKET, SO_KEEPALIVE), 1);
    CHECK_EQ(option_of(pair.near, IPPROTO_TCP, TCP_KEEPIDLE), 17);
    CHECK_EQ(option_of(pair.near, IPPROTO_TCP, TCP_KEEPINTVL), 17);
    CHECK_EQ(weft_socket_set_keepalive(pair.near, 32767), 0);
    CHECK_EQ(weft_socket_set_keepalive(pair.near, 32768), -EINVAL);
    CHECK_EQ(weft_socket_set_keepalive(pair.near, 0), 0);
    CHECK_EQ(option_of(pair.near, SOL_SOCKET, SO_KEEPALIVE), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
}

static void socket_calls_refuse_other_descriptors(void)
{
    weft_address address;
    int fds[2];
    CHECK_EQ(pipe2(fds, O_CLOEXEC), 0);
    CHECK_EQ(weft_address_local(&address, fds[0]), -ENOTSOCK);
    CHECK_EQ(weft_address_peer(&address, fds[0]), -ENOTSOCK);
    CHECK_EQ(weft_socket_set_nodelay(fds[0], true), -ENOTSOCK);
    CHECK_EQ(weft_socket_set_keepalive(fds[0], 1), -ENOTSOCK);
    CHECK_EQ(weft_socket_set_keepalive(-1, 1), -EBADF);
    CHECK_EQ(weft_address_local(&address, -1), -EBADF);
    CHECK_EQ(weft_address_peer(&address, -1), -EBADF);
    CHECK_EQ(weft_close(fds[0]), 0);
    CHECK_EQ(weft_close(fds[1]), 0);
    CHECK_EQ(weft_socket_set_nodelay(fds[0], true), -EBADF);
}

/* ---- injected failures ----------------------------------------------------------------------- */

#ifdef WF_TEST_HOOKS

static void listen_once(struct faults *faults, const char *text,
                        const weft_net_listen_options *options)
{
    const size_t before = open_count();
    faults_begin(faults);
    int fd = weft_net_listen(text, options);
    faults_end(faults);
    if (fd >= 0) {
        CHECK_EQ(close(fd), 0);
        CHECK_EQ(weft_fd_forget(fd), 0);
    } else {
        faults->refused++;
        CHECK(faults->what != NULL);
    }
    CHECK_EQ(open_count(), before);
}

static void listen_failure_leaves_nothing_open(void)
{
    static const weft_net_listen_options all = {
        .reuses_port = true, .has_nodelay = true, .has_keepalive = true, .unlinks_stale = true};
    const struct folder folder = folder_new();
    const char *const texts[] = {"127.0.0.1:0", ":0", folder.address};
    faults_prepare();
    /* allocates the page of the fd table, which stays */
    CHECK_EQ(weft_close(listening("127.0.0.1:0")), 0);
    CHECK_EQ(weft_close(listening(folder.address)), 0); /* the first is stale */
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct faults faults = {0};
        bool has_ip4 = false;
        while (faults_next(&faults)) {
            listen_once(&faults, texts[i], &all);
            has_ip4 = has_ip4 || is_hit(&faults, "socket_ip6");
        }
        CHECK(faults.refused >= 3); /* socket, bind, listen */
        CHECK(has_ip4 == (texts[i][0] == ':'));
    }
    folder_done(&folder);
}

static void socket_queries_report_every_injected_failure(void)
{
    struct pair pair = tcp_pair_new();
    weft_address address = {.size = 7};
    CHECK_EQ(weft_socket_set_nodelay(pair.near, false), 0); /* its kind is known afterwards */
    wf_fault_arm(1);
    CHECK_EQ(weft_address_local(&address, pair.near), -ENOBUFS);
    wf_fault_arm(1);
    CHECK_EQ(weft_address_peer(&address, pair.near), -ENOBUFS);
    wf_fault_arm(1);
    CHECK_EQ(weft_socket_set_nodelay(pair.near, true), -ENOBUFS);
    for (uint64_t nth = 1; nth <= 3; nth++) {
        wf_fault_arm(nth);
        CHECK_EQ(weft_socket_set_keepalive(pair.near, 5), -ENOBUFS);
    }
    wf_fault_arm(0);
    CHECK_EQ(address.size, 7);
    CHECK_EQ(option_of(pair.near, IPPROTO_TCP, TCP_NODELAY), 0);
    CHECK_EQ(option_of(pair.near, SOL_SOCKET, SO_KEEPALIVE), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(listen_accepts_each_form_of_address),
    TAP_TEST(listen_works_in_a_thread),
    TAP_TEST(listen_datagrams_carry_addresses),
    TAP_TEST(listen_reuse_port_needs_both_sockets),
    TAP_TEST(listen_connections_inherit_options),
    TAP_TEST(listen_backlog_is_the_requested_one),
    TAP_TEST(listen_port_can_be_reused_at_once),
    TAP_TEST(listen_ip6_accepts_ip4_unless_disabled),
    TAP_TEST(listen_refuses_bad_options),
    TAP_TEST(listen_replaces_a_stale_path_only_on_request),
    TAP_TEST(listen_never_replaces_a_file_that_is_no_socket),
    TAP_TEST(socket_options_can_be_set_later),
    TAP_TEST(socket_calls_refuse_other_descriptors),
#ifdef WF_TEST_HOOKS
    TAP_TEST(listen_failure_leaves_nothing_open),
    TAP_TEST(socket_queries_report_every_injected_failure),
#endif
};
TAP_MAIN(tests)
