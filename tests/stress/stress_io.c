/* SPDX-License-Identifier: MIT */
/*
 * Goal:   connections come and go by the hundred thousand, whatever their two ends do to each
 *         other, and each byte that arrives is the right one; at the end no descriptor, no task, no
 *         block of memory is left of them.
 * Method: clients and a server in one runtime, over TCP and Unix sockets.  What a client does is
 *         drawn by lot: it asks and checks the answer, is cancelled or out of time while it waits
 *         for it, goes away in the middle, talks to a server that has closed its side, or has a
 *         reader, a writer and somebody who closes at work on one descriptor.  The server never
 *         knows.  TCP clients go to many addresses of the loopback device and mostly end by a
 *         reset, so that ports do not run out.
 *
 * Environment: WEFT_STRESS_CONNECTIONS  of all runs together (default 60000)
 */
#include "net_aids.h"
#include "proc_aids.h"
#include "stress/storm.h"

enum { CLIENTS = 48, ADDRESSES = 200, PIECE = 2048, SIZE_MAX_ALONE = 8192, SIZE_MAX_BOTH = 65536 };

/* Of a connection, as the server is told. */
enum kind {
    KIND_ECHO,  /* all bytes come back turned over, then the end */
    KIND_TRIO,  /* the same, if nobody closes before */
    KIND_SINK,  /* the server closes its side at once, and reads */
    KIND_RESET, /* the same, and the client goes away */
    KIND_LATE,  /* the answer comes when it is asked for once more */
    KINDS,
};

struct request {
    uint32_t kind;
    uint32_t size;
    uint64_t ticket;
};

struct fair {
    weft_scope *scope; /* of whoever serves */
    int listeners[2];  /* TCP, Unix */
    unsigned port;
    char name[40];       /* of the Unix socket */
    wf_atomic_u32 next;  /* ticket */
    uint32_t count;      /* of tickets */
    wf_atomic_u32 taken; /* connections that were accepted */
    wf_atomic_u32 kinds[KINDS];
    wf_atomic_u32 cut;    /* that the server saw end too early */
    wf_atomic_u32 closed; /* that a client may have cut off */
    wf_atomic_u32 met;    /* closes that met a reader */
    wf_atomic_u64 sent;   /* bytes into sinks */
    wf_atomic_u64 sunk;   /* bytes that arrived there */
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

/* `turned`: 0, or 255 for bytes that come back. */
static void check_bytes(const unsigned char *bytes, size_t size, uint64_t ticket, uint32_t at,
                        unsigned char turned)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != (byte_at(ticket, at + (uint32_t)i) ^ turned)) {
            tap_fail(__FILE__, __LINE__, "a wrong byte at %zu of ticket %ju", at + i,
                     (uintmax_t)ticket);
        }
    }
}

static uint32_t piece_of(uint32_t left)
{
    return left < PIECE ? left : PIECE;
}

/* Writes bytes `from` to `to`.  0, or the error. */
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

/* Reads and checks up to `size` bytes: how many came before the end, or before the error *why. */
static uint32_t read_bytes(int fd, const struct request *request, unsigned char turned, int *why)
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
        check_bytes(bytes, (size_t)got, request->ticket, at, turned);
        at += (uint32_t)got;
    }
    return at;
}

/* ---- the server ------------------------------------------------------------------------------ */

/* Whatever is left, until the peer has gone. */
static void read_to_the_end(int fd)
{
    char rest[256];
    while (weft_read(fd, rest, sizeof(rest)) > 0) {
    }
}

/* True: all of it came, and went back. */
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

static bool serve_sink(struct fair *fair, int fd, const struct request *request)
{
    const bool is_told = weft_shutdown(fd, SHUT_WR) == 0;
    int why;
    const uint32_t got = read_bytes(fd, request, 0, &why);
    if (request->kind == KIND_SINK) {
        (void)wf_fetch_add_relaxed(&fair->sunk, got); /* relaxed: a number */
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

struct guest {
    struct fair *fair;
    int fd;
};

static intptr_t serve(void *arg)
{
    const struct guest *guest = arg;
    const int fd = guest->fd;
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
            is_whole = serve_sink(guest->fair, fd, &request);
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
        CHECK(request.kind == KIND_TRIO || request.kind == KIND_RESET); /* as it was told at last */
        raise_by_one(&guest->fair->cut);
    }
    CHECK_EQ(weft_close(fd), 0);
    return 0;
}

struct door {
    struct fair *fair;
    int listener;
};

static intptr_t let_in(void *arg)
{
    const struct door *door = arg;
    for (;;) { /* until the listener is closed */
        struct guest guest = {door->fair, weft_accept(door->listener, NULL, NULL)};
        if (guest.fd < 0) {
            CHECK_EQ(guest.fd, -EBADF);
            return 0;
        }
        raise_by_one(&door->fair->taken);
        CHECK_EQ(weft_scope_spawn(door->fair->scope, serve, &guest,
                                  &(weft_task_options){.arg_copy = sizeof(guest)}),
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

/* All of them, and then the end. */
static void expect_bytes(int fd, const struct request *request, unsigned char turned)
{
    int why;
    const uint32_t got = read_bytes(fd, request, turned, &why);
    if (got != request->size) {
        tap_fail(__FILE__, __LINE__, "ticket %ju, kind %u: %u of %u bytes, then %d",
                 (uintmax_t)request->ticket, request->kind, got, request->size, why);
    }
    expect_end(fd);
}

static void ask_and_check(int fd, const struct request *request)
{
    CHECK_EQ(write_bytes(fd, request->ticket, 0, request->size), 0);
    expect_bytes(fd, request, 255);
    close_by_reset(fd);
}

static void fill_sink(struct fair *fair, int fd, const struct request *request)
{
    expect_end(fd); /* the server has closed its side, and goes on reading */
    CHECK_EQ(write_bytes(fd, request->ticket, 0, request->size), 0);
    (void)wf_fetch_add_relaxed(&fair->sent, request->size); /* relaxed: a number */
    CHECK_EQ(weft_close(fd), 0);
}

static void go_away(int fd, const struct request *request, struct wf_random *random)
{
    const uint32_t part = wf_random_below(random, request->size);
    CHECK_EQ(write_bytes(fd, request->ticket, 0, part), 0);
    close_by_reset(fd);
}

/* A reader that is interrupted has taken nothing. */
struct reading {
    int fd;
    weft_time deadline;
};

static intptr_t read_one(void *arg)
{
    const struct reading *reading = arg;
    unsigned char byte;
    (void)weft_deadline(reading->deadline);
    return weft_read(reading->fd, &byte, 1);
}

static void be_interrupted(int fd, const struct request *request, struct wf_random *random)
{
    const bool is_cancelled = wf_random_below(random, 2) == 0;
    struct reading reading = {fd, is_cancelled ? WEFT_NEVER : weft_in(WEFT_MILLISECOND / 10)};
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

/* One call each: a number that was closed meanwhile may be somebody else's in the next. */
struct side {
    int fd;
    const struct request *request;
    unsigned char bytes[SIZE_MAX_BOTH];
};

static intptr_t read_side(void *arg)
{
    struct side *side = arg;
    const ssize_t got = weft_read_full(side->fd, side->bytes, side->request->size);
    CHECK(got >= 0 || got == -EBADF);
    if (got > 0) {
        check_bytes(side->bytes, (size_t)got, side->request->ticket, 0, 255);
    }
    return got > 0 ? got : 0;
}

static intptr_t write_side(void *arg)
{
    struct side *side = arg;
    fill_bytes(side->bytes, side->request->size, side->request->ticket, 0);
    const int rc = weft_write_all(side->fd, side->bytes, side->request->size);
    CHECK(rc == 0 || rc == -EBADF);
    return 0;
}

/* Until it is inside of its call, or through. */
static void wait_until_begun(const weft_task *task)
{
    weft_info info;
    do { /* ends: it waits there, or it ends */
        let_others_run();
        info = info_of(task);
    } while (info.state != WEFT_BLOCKED && info.state != WEFT_COMPLETED);
}

static void read_write_and_close(struct fair *fair, int fd, const struct request *request,
                                 struct wf_random *random)
{
    const int small = 4096; /* so that writers wait, too */
    struct side *sides = calloc(2, sizeof(*sides));
    CHECK(sides != NULL);
    sides[0].fd = sides[1].fd = fd;
    sides[0].request = sides[1].request = request;
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    weft_task *tasks[2] = {go(read_side, &sides[0]), go(write_side, &sides[1])};
    intptr_t results[2];
    const bool is_hasty = wf_random_below(random, 2) == 0;
    if (is_hasty) {
        raise_by_one(&fair->closed);
        wait_until_begun(tasks[0]);
        wait_until_begun(tasks[1]);
        for (uint32_t i = wf_random_below(random, 8); i > 0; i--) {
            let_others_run();
        }
        CHECK_EQ(weft_close(fd), 0);
    }
    CHECK_EQ(weft_await_all(tasks, 2, results), 0);
    if (!is_hasty) {
        CHECK_EQ(results[0], request->size);
        expect_end(fd);
        close_by_reset(fd);
    } else if (results[0] < (intptr_t)request->size) {
        raise_by_one(&fair->met); /* the close came in the middle */
    }
    free(sides);
}

static int connect_to(const struct fair *fair, uint64_t ticket)
{
    char address[64];
    if (ticket % 4 == 0) {
        return weft_dial(fair->name);
    }
    (void)snprintf(address, sizeof(address), "127.0.0.%u:%u", 1 + (unsigned)(ticket % ADDRESSES),
                   fair->port);
    const int fd = weft_dial(address);
    CHECK(fd >= 0);
    CHECK_EQ(weft_socket_nodelay(fd, true), 0);
    return fd;
}

static void visit(struct fair *fair, uint64_t ticket, struct wf_random *random)
{
    const enum kind kind = (enum kind)wf_random_below(random, KINDS);
    const uint32_t most = kind == KIND_TRIO ? SIZE_MAX_BOTH : SIZE_MAX_ALONE;
    const struct request request = {(uint32_t)kind, 1 + wf_random_below(random, most), ticket};
    const int fd = connect_to(fair, ticket);
    CHECK(fd >= 0);
    raise_by_one(&fair->kinds[kind]);
    CHECK_EQ(weft_write_all(fd, &request, sizeof(request)), 0);
    switch (kind) {
    case KIND_ECHO:
        ask_and_check(fd, &request);
        break;
    case KIND_TRIO:
        read_write_and_close(fair, fd, &request, random);
        break;
    case KIND_SINK:
        fill_sink(fair, fd, &request);
        break;
    case KIND_RESET:
        raise_by_one(&fair->closed);
        go_away(fd, &request, random);
        break;
    case KIND_LATE:
    case KINDS:
    default:
        be_interrupted(fd, &request, random);
        break;
    }
}

static intptr_t visit_often(void *arg)
{
    struct fair *fair = arg;
    struct wf_random random;
    wf_random_init(&random, tap_seed() ^ weft_task_id(weft_self()));
    for (;;) { /* until there are no more tickets */
        const uint32_t ticket = wf_fetch_add_relaxed(&fair->next, 1); /* relaxed: a number */
        if (ticket >= fair->count) {
            return 0;
        }
        visit(fair, ticket, &random);
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

static intptr_t hold_fair(void *arg)
{
    struct fair *fair = arg;
    weft_scope serving;
    weft_scope visiting;
    CHECK_EQ(weft_scope_open(&serving, NULL), 0);
    fair->scope = &serving;
    (void)snprintf(fair->name, sizeof(fair->name), "unix:@weft-stress-%d", (int)getpid());
    /* Else each end would wait for the other's late acknowledgements most of the time. */
    fair->listeners[0] = weft_listen("0.0.0.0:0", &(weft_listen_options){.has_nodelay = true});
    fair->listeners[1] = weft_listen(fair->name, NULL);
    CHECK(fair->listeners[0] >= 0 && fair->listeners[1] >= 0);
    const weft_address address = local_of(fair->listeners[0]);
    fair->port = ntohs(address.as.ip4.sin_port);
    struct door doors[2] = {{fair, fair->listeners[0]}, {fair, fair->listeners[1]}};
    CHECK_EQ(weft_scope_go(&serving, let_in, &doors[0]), 0);
    CHECK_EQ(weft_scope_go(&serving, let_in, &doors[1]), 0);
    CHECK_EQ(weft_scope_open(&visiting, NULL), 0);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(weft_scope_go(&visiting, visit_often, fair), 0);
    }
    CHECK_EQ(weft_scope_close(&visiting), 0);
    wait_for(&fair->taken, fair->count); /* each was let in, also those that have gone again */
    CHECK_EQ(weft_close(fair->listeners[0]), 0);
    CHECK_EQ(weft_close(fair->listeners[1]), 0);
    CHECK_EQ(weft_scope_close(&serving), 0);
    while (stats_of(weft_runtime_self()).live > 1) {
        let_others_run();
    }
    CHECK_EQ(stats_of(weft_runtime_self()).lost_wakeups, 0);
    return 0;
}

static void run_fair(const weft_options *options, uint32_t count)
{
    struct fair fair = {.count = count};
    CHECK_EQ(weft_run(hold_fair, &fair, options), 0);
    CHECK_EQ(wf_load_acquire(&fair.taken), count);
    CHECK_EQ(wf_load_relaxed(&fair.sunk), wf_load_relaxed(&fair.sent));
    CHECK(wf_load_acquire(&fair.cut) <= wf_load_acquire(&fair.closed));
    tap_note("%u echoes, %u of three (%u met), %u sinks, %u resets, %u late; %u cut",
             wf_load_acquire(&fair.kinds[KIND_ECHO]), wf_load_acquire(&fair.kinds[KIND_TRIO]),
             wf_load_acquire(&fair.met), wf_load_acquire(&fair.kinds[KIND_SINK]),
             wf_load_acquire(&fair.kinds[KIND_RESET]), wf_load_acquire(&fair.kinds[KIND_LATE]),
             wf_load_acquire(&fair.cut));
}

/* What a process has before and after. */
struct remains {
    size_t descriptors;
    size_t resident;
    uint64_t blocks;
};

static struct remains remains_now(void)
{
    return (struct remains){open_count(), resident_bytes(), blocks_out()};
}

/* behaviours 54-57 in a storm, for both policies: nothing is lost, mixed up or left behind */
static void connections_leave_nothing_behind(void)
{
    static const struct setting fairs[] = {
        {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 2},
        {WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 3},
        {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 1},
        {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 3},
    };
    enum { FAIRS = sizeof(fairs) / sizeof(fairs[0]), SLACK = 8 << 20 };
    const uint32_t count = (uint32_t)wanted("WEFT_STRESS_CONNECTIONS", 60000) / FAIRS;
    for (size_t i = 0; i < FAIRS; i++) {
        tap_doing("setting %zu", i);
        weft_options options = options_of(&fairs[i]);
        run_fair(&options, count / 10 + 1); /* caches, tables and arenas are there afterwards */
        const struct remains before = remains_now();
        const int64_t begin_ns = wf_clock_now();
        run_fair(&options, count);
        const struct remains after = remains_now();
        tap_note("%u ns each; %zu KiB resident, %zu before",
                 (unsigned)((wf_clock_now() - begin_ns) / (count + 1)), after.resident >> 10,
                 before.resident >> 10);
        CHECK_EQ(after.descriptors, before.descriptors);
        CHECK_EQ(after.blocks, before.blocks);
#if !defined(WF_TSAN) && !defined(WF_ASAN) /* which keep much for themselves */
        CHECK(after.resident <= before.resident + SLACK);
#endif
    }
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(connections_leave_nothing_behind, LIMIT_S),
};
TAP_MAIN(tests)
