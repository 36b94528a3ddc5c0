/* SPDX-License-Identifier: MIT */
/*
 * Goal:   hundreds of thousands of connections open and close, whatever their two ends do to each
 *         other, and each byte that arrives is the right one; at the end no descriptor, task or
 *         memory block is left.
 * Method: clients and a server in one runtime, over TCP and Unix sockets.  A client chooses at
 *         random: it sends a request and checks the answer, is cancelled or exceeds a deadline
 *         while it waits for the answer, resets the connection in the middle, writes to a server
 *         that has shut down its direction, or has a reader, a writer and a closer on one
 *         descriptor.  The server does not know the choice.  TCP clients use many addresses of the
 *         loopback device and mostly end by a reset, so that ports do not run out.
 * Environment: WEFT_STRESS_CONNECTIONS  of all runs together (default 60000)
 */
#include "net_helpers.h"
#include "proc_helpers.h"
#include "stress/stress.h"

enum { CLIENTS = 48, ADDRESSES = 200, PIECE = 2048, SIZE_MAX_ALONE = 8192, SIZE_MAX_BOTH = 65536 };

/* The kind of a connection, which the request names. */
enum kind {
    KIND_ECHO,  /* all bytes come back inverted, then the end */
    KIND_TRIO,  /* the same, unless the client closes earlier */
    KIND_SINK,  /* the server shuts down its direction at once, and reads */
    KIND_RESET, /* the same, and the client resets the connection */
    KIND_LATE,  /* the answer comes after a second request */
    KINDS,
};

struct request {
    uint32_t kind;
    uint32_t size;
    uint64_t ticket;
};

struct exchange {
    weft_scope *scope; /* of the server's tasks */
    int listeners[2];  /* TCP, Unix */
    unsigned port;
    char name[40];       /* of the Unix socket */
    wf_atomic_u32 next;  /* next ticket */
    uint32_t count;      /* number of tickets */
    wf_atomic_u32 taken; /* accepted connections */
    wf_atomic_u32 kinds[KINDS];
    wf_atomic_u32 cut;         /* connections that the server saw end too early */
    wf_atomic_u32 closed;      /* connections that a client may have cut */
    wf_atomic_u32 interrupted; /* closes during a read */
    wf_atomic_u64 sent;        /* bytes into sinks */
    wf_atomic_u64 received;    /* bytes that arrived there */
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static unsigned char byte_at(uint64_t ticket, uint32_t at)
{
    return (unsigned char)(ticket * 131 + at * 7 + (at >> 8));
}

static void fill_bytes(unsigned char *bytes, size_t size, uint64_t ticket, uint32_t at)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = byte_at(ticket, at + (uint32_t)i);
    }
}

/* `inverted`: 0, or 255 for bytes that come back. */
static void check_bytes(const unsigned char *bytes, size_t size, uint64_t ticket, uint32_t at,
                        unsigned char inverted)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != (byte_at(ticket, at + (uint32_t)i) ^ inverted)) {
            tap_fail(__FILE__, __LINE__, "wrong byte at %zu of ticket %ju", at + i,
                     (uintmax_t)ticket);
        }
    }
}

static uint32_t piece_of(uint32_t left)
{
    return left < PIECE ? left : PIECE;
}

/* Writes bytes `from` to `to`. Returns 0, or the error. */
static int write_bytes(int fd, uint64_t ticket, uint32_t from, uint32_t to)
{
    unsigned char bytes[PIECE];
    int rc = 0;
    for (uint32_t at = from; at < to && rc == 0; at += piece_of(to - at)) {
        fill_bytes(bytes, piece_of(to - at), ticket, at);
        rc = weft_write_all(fd, bytes, piece_of(to - at));
    }
    return rc;
}

/* Reads and checks up to `size` bytes: returns how many came before the end, or before the error
 * *why. */
static uint32_t read_bytes(int fd, const struct request *request, unsigned char inverted, int *why)
{
    unsigned char bytes[PIECE];
    uint32_t at = 0;
    *why = 0;
    while (at < request->size) {
        const ssize_t got = weft_read(fd, bytes, piece_of(request->size - at));
        if (got <= 0) {
            *why = (int)got;
            break;
        }
        check_bytes(bytes, (size_t)got, request->ticket, at, inverted);
        at += (uint32_t)got;
    }
    return at;
}

/* ---- the server ------------------------------------------------------------------------------ */

/* Reads until the peer has closed. */
static void read_to_the_end(int fd)
{
    char rest[256];
    while (weft_read(fd, rest, sizeof(rest)) > 0) {
    }
}

/* True: all bytes came, and went back. */
static bool serve_echo(int fd, const struct request *request)
{
    unsigned char bytes[PIECE];
    uint32_t at = 0;
    while (at < request->size) {
        const ssize_t got = weft_read(fd, bytes, piece_of(request->size - at));
        if (got <= 0) {
            return false;
        }
        check_bytes(bytes, (size_t)got, request->ticket, at, 0);
        for (ssize_t i = 0; i < got; i++) {
            bytes[i] ^= 255;
        }
        if (weft_write_all(fd, bytes, (size_t)got) != 0) {
            return false;
        }
        at += (uint32_t)got;
    }
    return weft_shutdown(fd, SHUT_WR) == 0;
}

static bool serve_sink(struct exchange *exchange, int fd, const struct request *request)
{
    const bool is_told = weft_shutdown(fd, SHUT_WR) == 0;
    int why;
    const uint32_t got = read_bytes(fd, request, 0, &why);
    if (request->kind == KIND_SINK) {
        (void)wf_fetch_add_relaxed(&exchange->received, got); /* relaxed: only the sum matters */
    }
    return is_told && got == request->size;
}

static bool serve_late(int fd, const struct request *request)
{
    char word;
    return weft_read(fd, &word, 1) == 1 &&
           write_bytes(fd, request->ticket, 0, request->size) == 0 &&
           weft_shutdown(fd, SHUT_WR) == 0;
}

struct connection {
    struct exchange *exchange;
    int fd;
};

static intptr_t serve(void *arg)
{
    const struct connection *connection = arg;
    const int fd = connection->fd;
    struct request request = {.kind = KIND_RESET};
    bool is_whole = false;
    const ssize_t got = weft_read_full(fd, &request, sizeof(request));
    CHECK(got >= 0 || got == -ECONNRESET);
    if (got == sizeof(request)) {
        switch ((enum kind)request.kind) {
        case KIND_ECHO:
        case KIND_TRIO:
            is_whole = serve_echo(fd, &request);
            break;
        case KIND_SINK:
        case KIND_RESET:
            is_whole = serve_sink(connection->exchange, fd, &request);
            break;
        case KIND_LATE:
            is_whole = serve_late(fd, &request);
            break;
        case KINDS:
        default:
            tap_fail(__FILE__, __LINE__, "a request of kind %u", request.kind);
        }
    }
    if (is_whole) {
        read_to_the_end(fd);
    } else {
        /* the only kinds that may be cut */
        CHECK(request.kind == KIND_TRIO || request.kind == KIND_RESET);
        raise_by_one(&connection->exchange->cut);
    }
    CHECK_EQ(weft_close(fd), 0);
    return 0;
}

struct acceptor {
    struct exchange *exchange;
    int listener;
};

static intptr_t accept_all(void *arg)
{
    const struct acceptor *acceptor = arg;
    for (;;) { /* until the listener is closed */
        struct connection connection = {acceptor->exchange,
                                        weft_accept(acceptor->listener, NULL, NULL)};
        if (connection.fd < 0) {
            CHECK_EQ(connection.fd, -EBADF);
            return 0;
        }
        raise_by_one(&acceptor->exchange->taken);
        CHECK_EQ(weft_scope_spawn(acceptor->exchange->scope, serve, &connection,
                                  &(weft_task_options){.arg_copy = sizeof(connection)}),
                 0);
    }
}

/* ---- clients --------------------------------------------------------------------------------- */

static void close_by_reset(int fd)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    CHECK_EQ(weft_close(fd), 0);
}

static void expect_end(int fd)
{
    char rest;
    CHECK_EQ(weft_read(fd, &rest, 1), 0);
}

/* Expects all bytes, and then the end. */
static void expect_bytes(int fd, const struct request *request, unsigned char inverted)
{
    int why;
    const uint32_t got = read_bytes(fd, request, inverted, &why);
    if (got != request->size) {
        tap_fail(__FILE__, __LINE__, "ticket %ju, kind %u: %u of %u bytes, then %d",
                 (uintmax_t)request->ticket, request->kind, got, request->size, why);
    }
    expect_end(fd);
}

static void request_and_check(int fd, const struct request *request)
{
    CHECK_EQ(write_bytes(fd, request->ticket, 0, request->size), 0);
    expect_bytes(fd, request, 255);
    close_by_reset(fd);
}

static void fill_sink(struct exchange *exchange, int fd, const struct request *request)
{
    expect_end(fd); /* the server has shut down its direction, and still reads */
    CHECK_EQ(write_bytes(fd, request->ticket, 0, request->size), 0);
    (void)wf_fetch_add_relaxed(&exchange->sent, request->size); /* relaxed: only the sum matters */
    CHECK_EQ(weft_close(fd), 0);
}

static void reset_connection(int fd, const struct request *request, struct wf_random *random)
{
    const uint32_t part = wf_random_below(random, request->size);
    CHECK_EQ(write_bytes(fd, request->ticket, 0, part), 0);
    close_by_reset(fd);
}

/* An interrupted reader has taken nothing. */
struct reading {
    int fd;
    weft_time deadline;
};

static intptr_t read_one(void *arg)
{
    const struct reading *reading = arg;
    unsigned char byte;
    (void)weft_deadline_set(reading->deadline);
    return weft_read(reading->fd, &byte, 1);
}

static void interrupt_reads(int fd, const struct request *request, struct wf_random *random)
{
    const bool is_cancelled = wf_random_below(random, 2) == 0;
    struct reading reading = {fd,
                              is_cancelled ? WEFT_NEVER : weft_time_after(WEFT_MILLISECOND / 10)};
    weft_task *reader = go(read_one, &reading);
    for (uint32_t i = wf_random_below(random, 4); i > 0; i--) {
        let_others_run();
    }
    if (is_cancelled) {
        CHECK_EQ(weft_cancel(reader), 0);
    }
    CHECK_EQ(weft_await(reader), is_cancelled ? -ECANCELED : -ETIMEDOUT);
    CHECK_EQ(weft_write_all(fd, "g", 1), 0);
    expect_bytes(fd, request, 0);
    close_by_reset(fd);
}

/* One call each: a number that was closed meanwhile may belong to another connection in the next
 * call. */
struct direction {
    int fd;
    const struct request *request;
    unsigned char bytes[SIZE_MAX_BOTH];
};

static intptr_t read_direction(void *arg)
{
    struct direction *direction = arg;
    const ssize_t got = weft_read_full(direction->fd, direction->bytes, direction->request->size);
    CHECK(got >= 0 || got == -EBADF);
    if (got > 0) {
        check_bytes(direction->bytes, (size_t)got, direction->request->ticket, 0, 255);
    }
    return got > 0 ? got : 0;
}

static intptr_t write_direction(void *arg)
{
    struct direction *direction = arg;
    fill_bytes(direction->bytes, direction->request->size, direction->request->ticket, 0);
    const int rc = weft_write_all(direction->fd, direction->bytes, direction->request->size);
    CHECK(rc == 0 || rc == -EBADF);
    return 0;
}

/* Returns when the task waits in its call, or has ended. */
static void wait_until_begun(const weft_task *task)
{
    weft_task_info info;
    do { /* ends: the task waits, or it ends */
        let_others_run();
        info = info_of(task);
    } while (info.state != WEFT_TASK_BLOCKED && info.state != WEFT_TASK_COMPLETED);
}

static void read_write_and_close(struct exchange *exchange, int fd, const struct request *request,
                                 struct wf_random *random)
{
    const int small = 4096; /* so that writers wait, too */
    struct direction *directions = calloc(2, sizeof(*directions));
    CHECK(directions != NULL);
    directions[0].fd = directions[1].fd = fd;
    directions[0].request = directions[1].request = request;
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    weft_task *tasks[2] = {go(read_direction, &directions[0]), go(write_direction, &directions[1])};
    intptr_t results[2];
    const bool closes_early = wf_random_below(random, 2) == 0;
    if (closes_early) {
        raise_by_one(&exchange->closed);
        wait_until_begun(tasks[0]);
        wait_until_begun(tasks[1]);
        for (uint32_t i = wf_random_below(random, 8); i > 0; i--) {
            let_others_run();
        }
        CHECK_EQ(weft_close(fd), 0);
    }
    CHECK_EQ(weft_await_all(tasks, 2, results), 0);
    if (!closes_early) {
        CHECK_EQ(results[0], request->size);
        expect_end(fd);
        close_by_reset(fd);
    } else if (results[0] < (intptr_t)request->size) {
        raise_by_one(&exchange->interrupted); /* the close came during the read */
    }
    free(directions);
}

static int connect_to(const struct exchange *exchange, uint64_t ticket)
{
    char address[64];
    if (ticket % 4 == 0) {
        return weft_net_dial(exchange->name);
    }
    (void)snprintf(address, sizeof(address), "127.0.0.%u:%u", 1 + (unsigned)(ticket % ADDRESSES),
                   exchange->port);
    const int fd = weft_net_dial(address);
    CHECK(fd >= 0);
    CHECK_EQ(weft_socket_set_nodelay(fd, true), 0);
    return fd;
}

static void run_client(struct exchange *exchange, uint64_t ticket, struct wf_random *random)
{
    const enum kind kind = (enum kind)wf_random_below(random, KINDS);
    const uint32_t most = kind == KIND_TRIO ? SIZE_MAX_BOTH : SIZE_MAX_ALONE;
    const struct request request = {(uint32_t)kind, 1 + wf_random_below(random, most), ticket};
    const int fd = connect_to(exchange, ticket);
    CHECK(fd >= 0);
    raise_by_one(&exchange->kinds[kind]);
    CHECK_EQ(weft_write_all(fd, &request, sizeof(request)), 0);
    switch (kind) {
    case KIND_ECHO:
        request_and_check(fd, &request);
        break;
    case KIND_TRIO:
        read_write_and_close(exchange, fd, &request, random);
        break;
    case KIND_SINK:
        fill_sink(exchange, fd, &request);
        break;
    case KIND_RESET:
        raise_by_one(&exchange->closed);
        reset_connection(fd, &request, random);
        break;
    case KIND_LATE:
    case KINDS:
    default:
        interrupt_reads(fd, &request, random);
        break;
    }
}

static intptr_t run_clients(void *arg)
{
    struct exchange *exchange = arg;
    struct wf_random random;
    wf_random_init(&random, tap_seed() ^ weft_task_id(weft_self()));
    for (;;) { /* until there are no more tickets */
        /* relaxed: only the number matters */
        const uint32_t ticket = wf_fetch_add_relaxed(&exchange->next, 1);
        if (ticket >= exchange->count) {
            return 0;
        }
        run_client(exchange, ticket, &random);
    }
}

/* ---- server and clients ---------------------------------------------------------------------- */

static intptr_t run_exchange_tasks(void *arg)
{
    struct exchange *exchange = arg;
    weft_scope serving;
    weft_scope clients;
    CHECK_EQ(weft_scope_open(&serving, NULL), 0);
    exchange->scope = &serving;
    (void)snprintf(exchange->name, sizeof(exchange->name), "unix:@weft-stress-%d", (int)getpid());
    /* Otherwise each end would wait for delayed acknowledgements most of the time. */
    exchange->listeners[0] =
        weft_net_listen("0.0.0.0:0", &(weft_net_listen_options){.has_nodelay = true});
    exchange->listeners[1] = weft_net_listen(exchange->name, NULL);
    CHECK(exchange->listeners[0] >= 0 && exchange->listeners[1] >= 0);
    const weft_address address = local_of(exchange->listeners[0]);
    exchange->port = ntohs(address.as.ip4.sin_port);
    struct acceptor acceptors[2] = {{exchange, exchange->listeners[0]},
                                    {exchange, exchange->listeners[1]}};
    CHECK_EQ(weft_scope_go(&serving, accept_all, &acceptors[0]), 0);
    CHECK_EQ(weft_scope_go(&serving, accept_all, &acceptors[1]), 0);
    CHECK_EQ(weft_scope_open(&clients, NULL), 0);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(weft_scope_go(&clients, run_clients, exchange), 0);
    }
    CHECK_EQ(weft_scope_close(&clients), 0);
    /* each was accepted, also connections that are closed again */
    wait_for(&exchange->taken, exchange->count);
    CHECK_EQ(weft_close(exchange->listeners[0]), 0);
    CHECK_EQ(weft_close(exchange->listeners[1]), 0);
    CHECK_EQ(weft_scope_close(&serving), 0);
    while (stats_of(weft_runtime_self()).live > 1) {
        let_others_run();
    }
    CHECK_EQ(stats_of(weft_runtime_self()).lost_wakeups, 0);
    return 0;
}

static void run_exchange(const weft_runtime_options *options, uint32_t count)
{
    struct exchange exchange = {.count = count};
    CHECK_EQ(weft_run(run_exchange_tasks, &exchange, options), 0);
    CHECK_EQ(wf_load_acquire(&exchange.taken), count);
    CHECK_EQ(wf_load_relaxed(&exchange.received), wf_load_relaxed(&exchange.sent));
    CHECK(wf_load_acquire(&exchange.cut) <= wf_load_acquire(&exchange.closed));
    tap_note("%u echoes, %u with a closer (%u interrupted), %u sinks, %u resets, %u late; %u cut",
             wf_load_acquire(&exchange.kinds[KIND_ECHO]),
             wf_load_acquire(&exchange.kinds[KIND_TRIO]), wf_load_acquire(&exchange.interrupted),
             wf_load_acquire(&exchange.kinds[KIND_SINK]),
             wf_load_acquire(&exchange.kinds[KIND_RESET]),
             wf_load_acquire(&exchange.kinds[KIND_LATE]), wf_load_acquire(&exchange.cut));
}

/* Resources of the process. */
struct resources {
    size_t descriptors;
    size_t resident;
    uint64_t blocks;
};

static struct resources resources_now(void)
{
    return (struct resources){open_count(), resident_bytes(), blocks_out()};
}

/* behaviours 54-57 under stress, for both policies: nothing is lost, mixed up or left behind */
static void io_connections_leave_nothing_behind(void)
{
    static const struct setting exchanges[] = {
        {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 2},
        {WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 3},
        {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 1},
        {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 3},
    };
    enum { EXCHANGES = sizeof(exchanges) / sizeof(exchanges[0]), SLACK = 8 << 20 };
    const uint32_t count = (uint32_t)wanted("WEFT_STRESS_CONNECTIONS", 60000) / EXCHANGES;
    for (size_t i = 0; i < EXCHANGES; i++) {
        tap_doing("setting %zu", i);
        weft_runtime_options options = options_of(&exchanges[i]);
        run_exchange(&options, count / 10 + 1); /* warms up caches, tables and arenas */
        const struct resources before = resources_now();
        const int64_t begin_ns = wf_clock_now();
        run_exchange(&options, count);
        const struct resources after = resources_now();
        tap_note("%u ns each; %zu KiB resident, %zu before",
                 (unsigned)((wf_clock_now() - begin_ns) / (count + 1)), after.resident >> 10,
                 before.resident >> 10);
        CHECK_EQ(after.descriptors, before.descriptors);
        CHECK_EQ(after.blocks, before.blocks);
#if !defined(WF_TSAN) && !defined(WF_ASAN) /* sanitizers keep much memory */
        CHECK(after.resident <= before.resident + SLACK);
#endif
    }
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(io_connections_leave_nothing_behind, LIMIT_S),
};
TAP_MAIN(tests)
