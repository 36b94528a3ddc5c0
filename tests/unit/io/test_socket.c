/* SPDX-License-Identifier: MIT */
/*
 * Goal:   connections are made and accepted without blocking a worker; an error of one connection,
 *         or of the process, is returned and affects no other connection.
 * Method: loopback, under every setting; refused and reset connections, a process without free
 *         descriptors, cancels and closes during waits, a forced close during a yield.  Keeps
 *         part of behaviour 57.
 */
#include <sys/resource.h>
#include <sys/un.h>

#include "abandon_helpers.h"
#include "fault_helpers.h"
#include "net_helpers.h"

struct server {
    int fd;
    wf_atomic_u32 served;
};

static intptr_t echo_one(void *arg)
{
    const int fd = (int)(intptr_t)arg;
    char text[32];
    ssize_t got;
    while ((got = weft_read(fd, text, sizeof(text))) > 0) {
        CHECK_EQ(weft_write_all(fd, text, (size_t)got), 0);
    }
    CHECK_EQ(weft_close(fd), 0);
    return got;
}

static intptr_t serve(void *arg)
{
    struct server *server = arg;
    for (;;) { /* until it is closed */
        struct sockaddr_in peer;
        socklen_t size = sizeof(peer);
        int fd = weft_accept(server->fd, (struct sockaddr *)&peer, &size);
        if (fd < 0) {
            return fd == -EBADF ? 0 : fd;
        }
        CHECK_EQ(size, sizeof(peer));
        CHECK_EQ(peer.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
        CHECK((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        raise_by_one(&server->served);
        weft_task *task = go(echo_one, (void *)(intptr_t)fd);
        weft_task_unref(task);
    }
}

static int connect_to(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    int rc = weft_connect(fd, (const struct sockaddr *)address, sizeof(*address));
    if (rc != 0) {
        CHECK_EQ(weft_close(fd), 0);
        return rc;
    }
    return fd;
}

static intptr_t talk_to(void *arg)
{
    char text[5];
    int fd = connect_to(arg);
    if (fd < 0) {
        return fd;
    }
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_write_all(fd, "hello", 5), 0);
        CHECK_EQ(weft_read_full(fd, text, 5), 5);
        CHECK(memcmp(text, "hello", 5) == 0);
    }
    CHECK_EQ(weft_close(fd), 0);
    return 0;
}

enum { CLIENTS = 20 };

static intptr_t serve_many(void *arg)
{
    (void)arg;
    struct sockaddr_in address;
    struct server server = {.fd = listen_here(&address)};
    weft_task *servers[2] = {go(serve, &server), go(serve, &server)};
    weft_task *clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = go(talk_to, &address);
    }
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(weft_await(clients[i]), 0);
    }
    CHECK_EQ(wf_load_acquire(&server.served), CLIENTS);
    CHECK_EQ(weft_close(server.fd), 0);
    CHECK_EQ(weft_await(servers[0]), 0);
    CHECK_EQ(weft_await(servers[1]), 0);
    CHECK_EQ(weft_await(go(talk_to, &address)), -ECONNREFUSED);
    return 0;
}

static void socket_connections_are_served(void)
{
    run_under(EVERYWHERE, serve_many);
}

static intptr_t accept_one(void *arg)
{
    return weft_accept(*(int *)arg, NULL, NULL);
}

static intptr_t end_accepts(void *arg)
{
    (void)arg;
    struct sockaddr_in address;
    int fd = listen_here(&address);
    weft_task *task = go(accept_one, &fd);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    task = go(accept_one, &fd);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    int near = connect_to(&address);
    CHECK(near >= 0);
    int far = (int)weft_await(task);
    CHECK(far >= 0);
    CHECK_EQ(weft_close(near), 0);
    CHECK_EQ(weft_close(far), 0);
    CHECK_EQ(weft_close(fd), 0);
    int file = STDIN_FILENO;
    CHECK(weft_await(go(accept_one, &file)) < 0); /* not a listening socket */
    return 0;
}

static void accept_cancelled_takes_no_connection(void)
{
    run_under(EVERYWHERE, end_accepts);
}

/* ---- a process without free descriptors ------------------------------------------------------ */

struct crowded {
    struct sockaddr_in address;
    int fd;
};

static intptr_t take_one(void *arg)
{
    const struct crowded *crowded = arg;
    return weft_accept(crowded->fd, NULL, NULL);
}

static intptr_t accept_without_descriptors(void *arg)
{
    (void)arg;
    struct crowded crowded;
    struct shortage shortage;
    crowded.fd = listen_here(&crowded.address);
    int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(near >= 0);
    CHECK_EQ(weft_fd_wait(near, POLLOUT) > 0, true);
    shortage_begin(&shortage);
    weft_task *task = go(take_one, &crowded);
    CHECK_EQ(weft_connect(near, (struct sockaddr *)&crowded.address, sizeof(crowded.address)), 0);
    wait_until_blocked(task, WEFT_WAIT_TIME); /* it retries later, and does not spin */
    shortage_relieve(&shortage);
    int far = (int)weft_await(task);
    CHECK(far >= 0);
    CHECK_EQ(weft_close(far), 0);
    shortage_end(&shortage);
    CHECK_EQ(weft_close(near), 0);
    CHECK_EQ(weft_close(crowded.fd), 0);
    return 0;
}

static void accept_without_free_descriptors_recovers(void)
{
    run_under(ON_ONE_WORKER, accept_without_descriptors);
}

/* ---- Unix sockets ---------------------------------------------------------------------------- */

/* A listening socket, and its address, which no other test has. */
static int listen_unix(struct sockaddr_un *address, int backlog)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "weft-test-%ju-%d",
                   (uintmax_t)tap_seed(), (int)getpid());
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)address, sizeof(*address)), 0);
    CHECK_EQ(listen(fd, backlog), 0);
    return fd;
}

static intptr_t connect_unix(void *arg)
{
    const struct sockaddr_un *address = arg;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    int rc = weft_connect(fd, (const struct sockaddr *)address, sizeof(*address));
    CHECK_EQ(weft_close(fd), 0);
    return rc;
}

/* Its connect returns EAGAIN when its backlog is full: the call retries. */
static intptr_t fill_unix_backlog(void *arg)
{
    (void)arg;
    struct sockaddr_un address;
    int fd = listen_unix(&address, 1);
    weft_task *tasks[6];
    for (int i = 0; i < 6; i++) {
        tasks[i] = go(connect_unix, &address);
    }
    for (int i = 0; i < 6; i++) {
        int far = weft_accept(fd, NULL, NULL);
        CHECK(far >= 0);
        CHECK_EQ(weft_close(far), 0);
    }
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(weft_await(tasks[i]), 0);
    }
    CHECK_EQ(weft_close(fd), 0);
    return 0;
}

static void connect_waits_for_a_full_unix_backlog(void)
{
    run_under(EVERYWHERE, fill_unix_backlog);
}

static weft_poll_result connect_in_poll(weft_cx *cx, void *state, intptr_t *result)
{
    (void)cx;
    *result = connect_unix(state);
    return WEFT_POLL_READY;
}

/* No event tells when such a backlog has room, so the task cannot wait for it either. */
static intptr_t connect_to_a_full_backlog(void *arg)
{
    enum { FDS = 8 };
    struct sockaddr_un address;
    int fds[FDS];
    weft_task *task = NULL;
    (void)arg;
    int listener = listen_unix(&address, 1);
    for (int i = 0; i < FDS; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        CHECK(fds[i] >= 0);
        const int rc = connect(fds[i], (struct sockaddr *)&address, sizeof(address));
        CHECK(rc == 0 || errno == EAGAIN);
        CHECK(rc != 0 || i + 1 < FDS);
    }
    CHECK_EQ(weft_spawn_poll(&task, connect_in_poll, &address, sizeof(address), NULL), 0);
    CHECK_EQ(weft_await(task), -EAGAIN);
    for (int i = 0; i < FDS; i++) {
        CHECK_EQ(close(fds[i]), 0);
    }
    CHECK_EQ(weft_close(listener), 0);
    return 0;
}

static void connect_in_a_poll_task_does_not_wait_for_a_unix_backlog(void)
{
    run_under(ON_ONE_WORKER, connect_to_a_full_backlog);
}

/* A connection that is made and accepted, again and again. */
struct visit {
    struct sockaddr_un address;
    int listener;
    int near; /* the last one; -1: none */
};

static intptr_t accept_visit(void *arg)
{
    struct visit *visit = arg;
    if (visit->near >= 0) {
        CHECK_EQ(close(visit->near), 0);
    }
    visit->near = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(visit->near >= 0);
    CHECK_EQ(connect(visit->near, (struct sockaddr *)&visit->address, sizeof(visit->address)), 0);
    const int far = weft_accept(visit->listener, NULL, NULL);
    CHECK(far >= 0);
    return weft_close(far);
}

static void accept_abandoned_while_it_yields_leaves_no_descriptor(void)
{
    struct visit visit = {.near = -1};
    visit.listener = listen_unix(&visit.address, 8);
    const size_t before = open_count();
    abandon_in_yield(accept_visit, &visit);
    CHECK_EQ(close(visit.near), 0);
    CHECK_EQ(open_count(), before);
    CHECK_EQ(weft_close(visit.listener), 0);
    CHECK(!is_open(visit.listener)); /* no operation is left */
}

/* ---- injected failures ----------------------------------------------------------------------- */

static intptr_t connect_and_accept(void *arg)
{
    struct faults *faults = arg;
    unsigned refused = 0;
    struct sockaddr_in address;
    int fd = listen_here(&address);
    int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(near >= 0);
    faults_begin(faults);
    int rc = weft_connect(near, (struct sockaddr *)&address, sizeof(address));
    refused += rc != 0;
    int far = -1;
    if (rc == 0) {
        far = weft_accept(fd, NULL, NULL);
        if (is_hit(faults, "accept_aborted") || is_hit(faults, "accept")) {
            CHECK(far >= 0); /* a failed accept was skipped, or waited for */
        }
        refused += far < 0;
    }
    faults_end(faults);
    faults_refused(faults, refused);
    if (far >= 0) {
        CHECK_EQ(weft_close(far), 0);
    }
    CHECK_EQ(weft_close(near), 0);
    CHECK_EQ(weft_close(fd), 0);
    return 0;
}

/* Before any fault: allocates the page of the fd table, which stays. */
static intptr_t warm_up(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_fd_wait(STDOUT_FILENO, POLLOUT), POLLOUT);
    return 0;
}

static void socket_calls_report_every_injected_failure(void)
{
    const weft_runtime_options one = {.size = sizeof(one), .workers = 1};
    struct faults faults = {0};
    faults_prepare();
    CHECK_EQ(weft_run(warm_up, NULL, &one), 0);
    while (faults_next(&faults)) {
        CHECK_EQ(weft_run(connect_and_accept, &faults, &one), 0);
    }
    CHECK(faults.refused >= 3);
}

#ifdef WF_TEST_HOOKS
/* The number of the accepted connection lies in a page of the table that is not there yet, and
 * there is no memory for it.  A non-worker thread accepts: it allocates nothing else. */
static void accept_closes_a_connection_without_memory(void)
{
    enum { PAGE = 256 };
    struct sockaddr_in address;
    char byte;
    int copies[PAGE];
    int count = 0;
    faults_prepare();
    const int fd = listen_here(&address);
    CHECK(fd < PAGE);
    CHECK_EQ(weft_fd_wait(STDOUT_FILENO, POLLOUT), POLLOUT); /* the first page is there */
    const int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(near, (struct sockaddr *)&address, sizeof(address)), 0);
    do {
        copies[count] = dup(fd);
        CHECK(copies[count] >= 0);
    } while (copies[count++] != PAGE - 1);
    const size_t before = open_count();
    wf_store_relaxed(&memory_left, 0);
    CHECK_EQ(weft_accept(fd, NULL, NULL), -ENOMEM);
    wf_store_relaxed(&memory_left, -1);
    CHECK_EQ(open_count(), before);
    CHECK_EQ(read(near, &byte, 1), 0); /* the peer sees the close */
    while (count > 0) {
        CHECK_EQ(close(copies[--count]), 0);
    }
    CHECK_EQ(close(near), 0);
    CHECK_EQ(weft_close(fd), 0);
}
#endif

/* A read stops at a mark of urgent data, with more bytes behind it. */
static intptr_t read_past_a_mark(void *arg)
{
    struct pair pair = tcp_pair_new();
    char text[16];
    (void)arg;
    struct reader first = {.fd = pair.near};
    weft_task *task = go(read_some, &first); /* registers it for readiness */
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(weft_write(pair.far, "x", 1), 1);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_write(pair.far, "abc", 3), 3);
    CHECK_EQ(weft_send(pair.far, "!", 1, MSG_OOB), 1);
    CHECK_EQ(weft_write(pair.far, "def", 3), 3);
    size_t got = 0;
    /* if the library took the short read for the end of the data, it would wait for ever */
    while (got < 6) {
        const ssize_t more = weft_read(pair.near, text + got, sizeof(text) - got);
        CHECK(more > 0);
        got += (size_t)more;
    }
    CHECK(memcmp(text, "abcdef", 6) == 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void socket_read_continues_past_urgent_data(void)
{
    run_under(EVERYWHERE, read_past_a_mark);
}

static const struct tap_test tests[] = {
    TAP_TEST(socket_read_continues_past_urgent_data),
    TAP_TEST(socket_connections_are_served),
    TAP_TEST(accept_cancelled_takes_no_connection),
    TAP_TEST(accept_without_free_descriptors_recovers),
    TAP_TEST(connect_waits_for_a_full_unix_backlog),
    TAP_TEST(connect_in_a_poll_task_does_not_wait_for_a_unix_backlog),
    TAP_TEST(accept_abandoned_while_it_yields_leaves_no_descriptor),
    TAP_TEST(socket_calls_report_every_injected_failure),
#ifdef WF_TEST_HOOKS
    TAP_TEST(accept_closes_a_connection_without_memory),
#endif
};
TAP_MAIN(tests)
