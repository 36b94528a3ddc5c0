/* SPDX-License-Identifier: MIT */
/*
 * bench_io.c - servers: the cost of a request, beside a hand-written epoll loop.
 *
 * The server listens on a port of the loopback device, starts bench_load as a process of its own
 * and serves it until it is done; the CPU time of a row is the server's alone.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "base/base.h"
#include "bench.h"

enum { BUFFER = 4096, EVENTS = 256 };

/* What the load reports. */
struct load {
    uint64_t ops;
    unsigned connections;
    unsigned workers;
    bool is_churn;  /* a connection for each request */
    bool is_polled; /* by poll tasks */
    int listener;
    int output;    /* a pipe, while the load runs */
    pid_t process; /* of the load */
    uint64_t wall_ns;
    uint64_t p99_ns;
};

static void listen_for(struct load *load)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    load->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    WEFT_CHECK(load->listener >= 0);
    WEFT_CHECK(bind(load->listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    WEFT_CHECK(listen(load->listener, 1024) == 0);
}

/* Starts the load; its report comes through a pipe, whose end means that it is done. */
static void load_begin(struct load *load)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    char port[16];
    char connections[16];
    char ops[32];
    char *program = getenv("BENCH_LOAD"); /* NOLINT(concurrency-mt-unsafe) */
    int ends[2];
    posix_spawn_file_actions_t actions;
    WEFT_CHECK(program != NULL);
    WEFT_CHECK(getsockname(load->listener, (struct sockaddr *)&address, &size) == 0);
    (void)snprintf(port, sizeof(port), "%u", ntohs(address.sin_port)); /* all three fit */
    (void)snprintf(connections, sizeof(connections), "%u", load->connections);
    (void)snprintf(ops, sizeof(ops), "%" PRIu64, load->ops);
    char churn[] = "churn";
    char *const arguments[] = {program, port, connections, ops, load->is_churn ? churn : NULL,
                               NULL};
    WEFT_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    WEFT_CHECK(posix_spawn_file_actions_init(&actions) == 0);
    WEFT_CHECK(posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) == 0);
    WEFT_CHECK(posix_spawn(&load->process, program, &actions, NULL, arguments, environ) == 0);
    WEFT_CHECK(posix_spawn_file_actions_destroy(&actions) == 0);
    WEFT_CHECK(close(ends[1]) == 0);
    load->output = ends[0];
}

static void load_end(struct load *load)
{
    char text[128];
    int status = 0;
    WEFT_CHECK(fcntl(load->output, F_SETFL, 0) ==
               0); /* the report is complete, or the load has failed */
    const ssize_t length = read(load->output, text, sizeof(text) - 1);
    WEFT_CHECK(length > 0);
    text[length] = 0;
    char *rest = NULL;
    load->wall_ns = strtoull(text, &rest, 10);
    (void)strtoull(rest, &rest, 10); /* the median */
    load->p99_ns = strtoull(rest, NULL, 10);
    WEFT_CHECK(close(load->output) == 0);
    WEFT_CHECK(waitpid(load->process, &status, 0) == load->process && status == 0);
}

static void set_nodelay(int fd)
{
    const int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* may fail: only a hint */
}

/* ---- weft ---------------------------------------------------------------------------------- */

static intptr_t echo(void *arg)
{
    const int fd = (int)(intptr_t)arg;
    char buffer[BUFFER];
    ssize_t got;
    while ((got = weft_read(fd, buffer, sizeof(buffer))) > 0) {
        if (weft_write_all(fd, buffer, (size_t)got) != 0) {
            break;
        }
    }
    (void)weft_close(fd);
    return 0;
}

/* The echo server as a poll task. */
struct polled_echo {
    int fd;
    weft_wait_future readable;
};

static weft_poll_result echo_polled(weft_cx *cx, void *arg, intptr_t *result)
{
    struct polled_echo *state = arg;
    char buffer[BUFFER];
    for (;;) { /* until there is nothing to read, or the end */
        weft_future *readable = &state->readable.future;
        if (readable->poll != NULL && weft_future_poll(readable, cx, result) == WEFT_POLL_PENDING) {
            return WEFT_POLL_PENDING;
        }
        const ssize_t got = weft_read(state->fd, buffer, sizeof(buffer));
        if (got == -EAGAIN) {
            weft_fd_wait_future(&state->readable, state->fd, POLLIN);
        } else if (got <= 0) {
            (void)weft_close(state->fd);
            return WEFT_POLL_READY;
        } else {
            WEFT_CHECK(weft_write_all(state->fd, buffer, (size_t)got) ==
                       0); /* the socket buffer has space */
            readable->poll = NULL;
        }
    }
}

static intptr_t accept_all(void *arg)
{
    const struct load *load = arg;
    for (;;) { /* until the task is cancelled */
        int fd = weft_accept(load->listener, NULL, NULL);
        if (fd < 0) {
            return 0;
        }
        set_nodelay(fd);
        if (load->is_polled) {
            const struct polled_echo state = {.fd = fd};
            WEFT_CHECK(weft_spawn_poll(NULL, echo_polled, &state, sizeof(state), NULL) == 0);
            continue;
        }
        weft_task *task = weft_go(echo, (void *)(intptr_t)fd);
        WEFT_CHECK(task != NULL);
        weft_task_unref(task);
    }
}

static intptr_t serve(void *arg)
{
    struct load *load = arg;
    weft_task *acceptor = weft_go(accept_all, load);
    WEFT_CHECK(acceptor != NULL);
    load_begin(load);
    WEFT_CHECK(weft_fd_wait(load->output, POLLIN) > 0);
    load_end(load);
    (void)weft_cancel(acceptor);
    (void)weft_await(acceptor);
    return 0;
}

static void run_weft(struct load *load)
{
    const weft_runtime_options options = {.size = sizeof(options), .workers = load->workers};
    WEFT_CHECK(weft_run(serve, load, &options) == 0);
}

/* ---- a loop around epoll ------------------------------------------------------------------- */

static void add(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};
    WEFT_CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void accept_ready(int epoll_fd, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        set_nodelay(fd);
        add(epoll_fd, fd);
    }
}

/* A short read has taken all that was there. */
static void echo_ready(int fd)
{
    char buffer[BUFFER];
    ssize_t got;
    do {
        got = recv(fd, buffer, sizeof(buffer), 0);
        if (got > 0) {
            WEFT_CHECK(send(fd, buffer, (size_t)got, MSG_NOSIGNAL) == got);
        }
    } while (got == (ssize_t)sizeof(buffer));
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        (void)close(fd);
    }
}

static void run_epoll(struct load *load)
{
    struct epoll_event events[EVENTS];
    const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    WEFT_CHECK(epoll_fd >= 0);
    add(epoll_fd, load->listener);
    load_begin(load);
    add(epoll_fd, load->output);
    for (bool is_over = false; !is_over;) {
        const int count = epoll_wait(epoll_fd, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            const int fd = events[i].data.fd;
            if (fd == load->listener) {
                accept_ready(epoll_fd, fd);
            } else if (fd == load->output) {
                is_over = true;
            } else {
                echo_ready(fd);
            }
        }
    }
    load_end(load);
    (void)close(epoll_fd);
}

/* ---- the rows ------------------------------------------------------------------------------ */

static struct load run(void (*server)(struct load *load), struct load load)
{
    listen_for(&load);
    server(&load);
    (void)close(load.listener);
    return load;
}

static uint64_t weft_50(uint64_t ops, unsigned workers)
{
    (void)run(run_weft, (struct load){.ops = ops, .connections = 50, .workers = workers});
    return 0;
}

static uint64_t weft_50_p99(uint64_t ops, unsigned workers)
{
    const struct load load = {.ops = ops, .connections = 50, .workers = workers};
    return run(run_weft, load).p99_ns * ops;
}

static uint64_t weft_1000(uint64_t ops, unsigned workers)
{
    (void)run(run_weft, (struct load){.ops = ops, .connections = 1000, .workers = workers});
    return 0;
}

static uint64_t weft_1000_p99(uint64_t ops, unsigned workers)
{
    const struct load load = {.ops = ops, .connections = 1000, .workers = workers};
    return run(run_weft, load).p99_ns * ops;
}

static uint64_t weft_churn(uint64_t ops, unsigned workers)
{
    const struct load load = {.ops = ops, .connections = 50, .workers = workers, .is_churn = true};
    (void)run(run_weft, load);
    return 0;
}

/* Each connection has one request, and is idle then until all have had theirs. */
static uint64_t weft_idle(uint64_t ops, unsigned workers)
{
    const struct load load = {.ops = ops, .connections = (unsigned)ops, .workers = workers};
    (void)run(run_weft, load);
    return 0;
}

static uint64_t epoll_50(uint64_t ops, unsigned workers)
{
    (void)run(run_epoll, (struct load){.ops = ops, .connections = 50, .workers = workers});
    return 0;
}

static uint64_t epoll_50_p99(uint64_t ops, unsigned workers)
{
    const struct load load = {.ops = ops, .connections = 50, .workers = workers};
    return run(run_epoll, load).p99_ns * ops;
}

static uint64_t epoll_1000(uint64_t ops, unsigned workers)
{
    (void)run(run_epoll, (struct load){.ops = ops, .connections = 1000, .workers = workers});
    return 0;
}

static uint64_t epoll_1000_p99(uint64_t ops, unsigned workers)
{
    const struct load load = {.ops = ops, .connections = 1000, .workers = workers};
    return run(run_epoll, load).p99_ns * ops;
}

static uint64_t epoll_churn(uint64_t ops, unsigned workers)
{
    const struct load load = {.ops = ops, .connections = 50, .workers = workers, .is_churn = true};
    (void)run(run_epoll, load);
    return 0;
}

/* Each connection has one request, and is idle then until all have had theirs. */
static uint64_t epoll_idle(uint64_t ops, unsigned workers)
{
    const struct load load = {.ops = ops, .connections = (unsigned)ops, .workers = workers};
    (void)run(run_epoll, load);
    return 0;
}

static uint64_t weft_idle_polled(uint64_t ops, unsigned workers)
{
    const struct load load = {
        .ops = ops, .connections = (unsigned)ops, .workers = workers, .is_polled = true};
    (void)run(run_weft, load);
    return 0;
}

static const struct bench_row rows[] = {
    {"echo-50", "weft", "request", 200000, 1, weft_50},
    {"echo-50", "epoll", "request", 200000, 1, epoll_50},
    {"echo-1000", "weft", "request", 200000, 1, weft_1000},
    {"echo-1000", "epoll", "request", 200000, 1, epoll_1000},
    {"echo-50-p99", "weft", "request", 200000, 1, weft_50_p99},
    {"echo-50-p99", "epoll", "request", 200000, 1, epoll_50_p99},
    {"echo-1000-p99", "weft", "request", 200000, 1, weft_1000_p99},
    {"echo-1000-p99", "epoll", "request", 200000, 1, epoll_1000_p99},
    {"churn-50", "weft", "connection", 10000, 1, weft_churn},
    {"churn-50", "epoll", "connection", 10000, 1, epoll_churn},
    {"idle-conn", "weft", "connection", 8000, 1, weft_idle},
    {"idle-conn", "weft-poll", "connection", 8000, 1, weft_idle_polled},
    {"idle-conn", "epoll", "connection", 8000, 1, epoll_idle},
};

/* Goals in microseconds are given here as ratios to the hand-written loop. */
static const struct bench_goal goals[] = {
    {"echo-50", "weft", "epoll", 1.07, false, 1, false},
    {"echo-1000", "weft", "epoll", 1.1, false, 1, false},
    {"echo-50-p99", "weft", "epoll", 1.2, false, 1, true},
    {"echo-1000-p99", "weft", "epoll", 1.5, false, 1, true},
    {"echo-50", "weft", "tokio", 1.0, false, 1, false},
    {"echo-50", "weft", "go", 1.0, false, 1, false},
    {"echo-1000", "weft", "tokio", 1.0, false, 1, false},
    {"echo-1000", "weft", "go", 1.0, false, 1, false},
};

/* The load is in the folder of this program; peers find it by the same variable. */
static void find_load(void)
{
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - sizeof("bench_load"));
    WEFT_CHECK(length > 0);
    path[length] = 0;
    char *name = strrchr(path, '/');
    WEFT_CHECK(name != NULL);
    memcpy(name + 1, "bench_load", sizeof("bench_load")); /* fits: see above */
    (void)setenv("BENCH_LOAD", path, 0);                  /* fails only for lack of memory */
}

/* For this process and the peers, which inherit it. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* else a row of many connections fails */
    }
}

int main(int argc, char **argv)
{
    find_load();
    allow_descriptors();
    static const struct bench_suite suite = {
        .title = "Input and output",
        .base = "weft",
        .rows = rows,
        .row_count = sizeof(rows) / sizeof(rows[0]),
        .goals = goals,
        .goal_count = sizeof(goals) / sizeof(goals[0]),
    };
    return bench_main(argc, argv, &suite);
}
