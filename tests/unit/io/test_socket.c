/* SPDX-License-Identifier: MIT */
/*
 * Goal:   connections are made and taken without keeping a worker; whatever is wrong with one of
 *         them, or with the process, is told and harms no other.
 * Method: loopback, under every setting; refused and reset connections, a process without free
 *         descriptors, cancels and closes while somebody waits.  Keeps part of behaviour 57.
 */
#include <sys/resource.h>
#include <sys/un.h>

#include "fault_aids.h"
#include "io_aids.h"

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
        weft_drop(task);
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

static void connections_are_served(void)
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
    CHECK(weft_await(go(accept_one, &file)) < 0); /* no socket that listens */
    return 0;
}

static void a_cancelled_accept_takes_nothing(void)
{
    run_under(EVERYWHERE, end_accepts);
}

/* ---- a process without free descriptors ------------------------------------------------------ */

struct shortage {
    struct sockaddr_in address;
    int fd;
    int hoard[64];
    size_t count;
};

static intptr_t take_one(void *arg)
{
    struct shortage *shortage = arg;
    return weft_accept(shortage->fd, NULL, NULL);
}

/* [task]  Until nobody can open one more. */
static void hoard(struct shortage *shortage)
{
    while (shortage->count < sizeof(shortage->hoard) / sizeof(shortage->hoard[0])) {
        int fd = dup(shortage->fd);
        if (fd < 0) {
            CHECK_EQ(errno, EMFILE);
            return;
        }
        shortage->hoard[shortage->count++] = fd;
    }
    tap_fail(__FILE__, __LINE__, "there is no end of descriptors");
}

static intptr_t run_short(void *arg)
{
    (void)arg;
    struct shortage shortage = {.count = 0};
    shortage.fd = listen_here(&shortage.address);
    int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct rlimit old;
    CHECK(near >= 0);
    CHECK_EQ(weft_poll_fd(near, POLLOUT) > 0, true);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
    const struct rlimit low = {.rlim_cur = (rlim_t)near + 8, .rlim_max = old.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    hoard(&shortage);
    weft_task *task = go(take_one, &shortage);
    CHECK_EQ(weft_connect(near, (struct sockaddr *)&shortage.address, sizeof(shortage.address)), 0);
    wait_until_blocked(task, WEFT_WAIT_TIME); /* it tries again later, and does not spin */
    CHECK_EQ(close(shortage.hoard[--shortage.count]), 0);
    int far = (int)weft_await(task);
    CHECK(far >= 0);
    CHECK_EQ(weft_close(far), 0);
    while (shortage.count > 0) {
        CHECK_EQ(close(shortage.hoard[--shortage.count]), 0);
    }
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
    CHECK_EQ(weft_close(near), 0);
    CHECK_EQ(weft_close(shortage.fd), 0);
    return 0;
}

static void an_accept_without_descriptors_recovers(void)
{
    run_under(ON_ONE_WORKER, run_short);
}

/* ---- Unix sockets ---------------------------------------------------------------------------- */

static intptr_t connect_unix(void *arg)
{
    const struct sockaddr_un *address = arg;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    int rc = weft_connect(fd, (const struct sockaddr *)address, sizeof(*address));
    CHECK_EQ(weft_close(fd), 0);
    return rc;
}

/* Its connect gives EAGAIN when too many wait to be taken: it goes on trying. */
static intptr_t crowd_a_unix_socket(void *arg)
{
    (void)arg;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "weft-test-%ju-%d",
                   (uintmax_t)tap_seed(), (int)getpid());
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_EQ(listen(fd, 1), 0);
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

static void a_crowded_unix_socket_is_waited_for(void)
{
    run_under(EVERYWHERE, crowd_a_unix_socket);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static intptr_t meet(void *arg)
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
            CHECK(far >= 0); /* it was skipped, or waited for */
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

/* Before any fault: the page of the table stays. */
static intptr_t warm_up(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_poll_fd(STDOUT_FILENO, POLLOUT), POLLOUT);
    return 0;
}

static void a_call_that_fails_is_told(void)
{
    const weft_options one = {.size = sizeof(one), .workers = 1};
    struct faults faults = {0};
    faults_prepare();
    CHECK_EQ(weft_run(warm_up, NULL, &one), 0);
    while (faults_next(&faults)) {
        CHECK_EQ(weft_run(meet, &faults, &one), 0);
    }
    CHECK(faults.refused >= 3);
}

/* A read stops at a mark of urgent data, with more behind it. */
static intptr_t read_past_a_mark(void *arg)
{
    struct pair pair = tcp_pair_new();
    char text[16];
    (void)arg;
    struct reader first = {.fd = pair.near};
    weft_task *task = go(read_some, &first); /* so that news of it come */
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(weft_write(pair.far, "x", 1), 1);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_write(pair.far, "abc", 3), 3);
    CHECK_EQ(weft_socket_send(pair.far, "!", 1, MSG_OOB), 1);
    CHECK_EQ(weft_write(pair.far, "def", 3), 3);
    size_t got = 0;
    while (got < 6) { /* a read that takes the rest for nothing would wait for ever */
        const ssize_t more = weft_read(pair.near, text + got, sizeof(text) - got);
        CHECK(more > 0);
        got += (size_t)more;
    }
    CHECK(memcmp(text, "abcdef", 6) == 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void urgent_data_hides_nothing(void)
{
    run_under(EVERYWHERE, read_past_a_mark);
}

static const struct tap_test tests[] = {
    TAP_TEST(urgent_data_hides_nothing),           TAP_TEST(connections_are_served),
    TAP_TEST(a_cancelled_accept_takes_nothing),    TAP_TEST(an_accept_without_descriptors_recovers),
    TAP_TEST(a_crowded_unix_socket_is_waited_for), TAP_TEST(a_call_that_fails_is_told),
};
TAP_MAIN(tests)
