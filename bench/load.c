/* SPDX-License-Identifier: MIT */
/*
 * load.c - the client of the I/O benchmarks, the same for all servers.
 *
 *   bench_load PORT CONNECTIONS REQUESTS [churn]
 *
 * Opens CONNECTIONS connections on the loopback device.  On each it repeatedly sends 64 bytes and
 * waits until they come back, until REQUESTS requests were made in total.  With "churn" each
 * request has a connection of its own, which is closed after the reply.  Then it prints "WALL_NS
 * P50_NS P99_NS MAX_NS".  One thread on the last CPU, around epoll.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 64, EVENTS = 512, GREETED = 100 };

struct connection {
    int fd;
    size_t got; /* bytes received of the current reply */
    uint64_t sent_ns;
};

static uint16_t port;
static int epoll_fd;
static bool is_churn;
static uint64_t requests_left;
static uint64_t replies_left;
static uint32_t *latencies; /* ns */
static uint64_t latency_count;

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void fail(const char *what)
{
    (void)fprintf(stderr, "bench_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void use_last_cpu(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)sysconf(_SC_NPROCESSORS_ONLN) - 1, &set);
    (void)sched_setaffinity(0, sizeof(set), &set); /* only makes the figures more stable */
}

static void connect_one(struct connection *connection)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
                                        .sin_port = htons(port)};
    const int one = 1;
    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0 ||
        connect(connection->fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        fail("connect");
    }
    (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) != 0) {
        fail("epoll_ctl");
    }
}

static void send_one(struct connection *connection)
{
    static const char bytes[SIZE];
    if (requests_left == 0) {
        return;
    }
    requests_left--;
    connection->got = 0;
    connection->sent_ns = now_ns();
    if (send(connection->fd, bytes, SIZE, MSG_NOSIGNAL) != SIZE) {
        fail("send");
    }
}

static void receive(struct connection *connection)
{
    char bytes[SIZE];
    ssize_t got = recv(connection->fd, bytes, SIZE - connection->got, MSG_DONTWAIT);
    if (got <= 0) {
        if (got < 0 && errno == EAGAIN) {
            return;
        }
        fail("receive");
    }
    connection->got += (size_t)got;
    if (connection->got == SIZE) {
        const uint64_t took_ns = now_ns() - connection->sent_ns;
        latencies[latency_count++] = took_ns < UINT32_MAX ? (uint32_t)took_ns : UINT32_MAX;
        replies_left--;
        if (is_churn && requests_left > 0) {
            (void)close(connection->fd);
            connect_one(connection);
        }
        send_one(connection);
    }
}

/* A request that is not counted.  Connections are accepted in order, so all earlier ones are
 * accepted too, and the backlog of the listener never overflows, which would cost a second. */
static void greet(const struct connection *connection)
{
    char bytes[SIZE] = "";
    if (send(connection->fd, bytes, SIZE, MSG_NOSIGNAL) != SIZE ||
        recv(connection->fd, bytes, SIZE, MSG_WAITALL) != SIZE) {
        fail("greet");
    }
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    is_churn = argc == 5 && strcmp(argv[4], "churn") == 0;
    if (argc != 4 && !is_churn) {
        (void)fprintf(stderr, "usage: bench_load PORT CONNECTIONS REQUESTS [churn]\n");
        return 2;
    }
    port = (uint16_t)strtoul(argv[1], NULL, 10);
    const size_t count = strtoull(argv[2], NULL, 10);
    requests_left = replies_left = strtoull(argv[3], NULL, 10);
    struct connection *connections = calloc(count, sizeof(*connections));
    latencies = calloc(requests_left, sizeof(*latencies));
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (connections == NULL || latencies == NULL || epoll_fd < 0 || count == 0) {
        fail("begin");
    }
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    use_last_cpu();
    for (size_t i = 0; i < count; i++) {
        connect_one(&connections[i]);
        if (i % GREETED == GREETED - 1) {
            greet(&connections[i]);
        }
    }
    const uint64_t begin_ns = now_ns();
    for (size_t i = 0; i < count; i++) {
        send_one(&connections[i]);
    }
    while (replies_left > 0) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll_fd, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            receive(events[i].data.ptr);
        }
    }
    const uint64_t wall_ns = now_ns() - begin_ns;
    qsort(latencies, latency_count, sizeof(*latencies), compare);
    (void)printf("%" PRIu64 " %u %u %u\n", wall_ns, latencies[latency_count / 2],
                 latencies[latency_count / 100 * 99], latencies[latency_count - 1]);
    free(latencies);
    free(connections);
    return 0;
}
