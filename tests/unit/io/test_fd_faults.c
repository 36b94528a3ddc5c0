/* SPDX-License-Identifier: MIT */
/*
 * Goal:   whichever system call fails below a call of weft/io.h, the error is returned, nothing is
 *         lost and nothing is left behind: the repeated call works.
 * Method: all calls on sockets and pipes in turn, in a new runtime each time; each time another
 *         system call or allocation below them fails.  At the end each name of the list has failed
 *         at least once.
 */
#include <sys/uio.h>

#include "fault_helpers.h"
#include "net_helpers.h"

#ifdef WF_TEST_HOOKS

static const char *const names[] = {
    "epoll_create", "eventfd",   "fstat",    "getsockopt", "fcntl",   "read",
    "write",        "readv",     "writev",   "recvfrom",   "sendto",  "recvmsg",
    "poll",         "epoll_ctl", "shutdown", "close",      "sendmsg",
};
enum { NAMES = sizeof(names) / sizeof(names[0]) };
static bool has_failed[NAMES];

/* One exchange; `refused` counts the calls that failed. */
struct exchange {
    struct faults *faults;
    struct pair pair;
    int pipe[2];
    unsigned refused;
};

/* A failed call is repeated without a fault, and must then succeed. */
#define EXPECT(exchange, call, expected)                                                           \
    do {                                                                                           \
        const intmax_t first_ = (call);                                                            \
        if (first_ != (expected)) {                                                                \
            CHECK(first_ < 0);                                                                     \
            faults_end((exchange)->faults);                                                        \
            (exchange)->refused++;                                                                 \
            CHECK_EQ(call, expected);                                                              \
        }                                                                                          \
    } while (0)

static void exchange_bytes(struct exchange *exchange)
{
    const struct pair pair = exchange->pair;
    char text[4] = "";
    char word[] = "b";
    struct iovec in = {.iov_base = text, .iov_len = 1};
    struct iovec out = {.iov_base = word, .iov_len = 1};
    EXPECT(exchange, weft_write(pair.near, "a", 1), 1);
    EXPECT(exchange, weft_read(pair.far, text, 1), 1);
    CHECK_EQ(text[0], 'a');
    EXPECT(exchange, weft_writev(pair.near, &out, 1), 1);
    EXPECT(exchange, weft_readv(pair.far, &in, 1), 1);
    CHECK_EQ(text[0], 'b');
}

static void exchange_in_pipe(struct exchange *exchange)
{
    char text[4] = "";
    char word[] = "d";
    const struct iovec out = {.iov_base = word, .iov_len = 1};
    EXPECT(exchange, weft_write(exchange->pipe[1], "c", 1), 1);
    EXPECT(exchange, weft_writev(exchange->pipe[1], &out, 1), 1);
    EXPECT(exchange, weft_read(exchange->pipe[0], text, sizeof(text)), 2);
    CHECK(memcmp(text, "cd", 2) == 0);
}

static void exchange_messages(struct exchange *exchange)
{
    const struct pair pair = exchange->pair;
    char text[4] = "";
    struct iovec in = {.iov_base = text, .iov_len = 1};
    char word[] = "d";
    struct iovec out = {.iov_base = word, .iov_len = 1};
    struct msghdr got = {.msg_iov = &in, .msg_iovlen = 1};
    const struct msghdr sent = {.msg_iov = &out, .msg_iovlen = 1};
    EXPECT(exchange, weft_sendmsg(pair.near, &sent, 0), 1);
    EXPECT(exchange, weft_recvmsg(pair.far, &got, 0), 1);
    CHECK_EQ(text[0], 'd');
    EXPECT(exchange, weft_send(pair.near, "e", 1, 0), 1);
    EXPECT(exchange, weft_recv(pair.far, text, 1, 0), 1);
    CHECK_EQ(text[0], 'e');
}

/* Waits once without success, and then for ready descriptors. */
static void wait_for_some(struct exchange *exchange)
{
    char text[4];
    const weft_time old = weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    ssize_t rc = weft_read(exchange->pair.far, text, 1);
    (void)weft_deadline_set(old);
    CHECK(rc < 0);
    exchange->refused += rc != -ETIMEDOUT;
    EXPECT(exchange, weft_fd_wait(exchange->pair.far, POLLOUT), POLLOUT);
    EXPECT(exchange, weft_shutdown(exchange->pair.near, SHUT_WR), 0);
    EXPECT(exchange, weft_read(exchange->pair.far, text, 1), 0);
}

/* A close that fails has closed the descriptor, too. */
static void close_one(struct exchange *exchange, int fd)
{
    const int rc = weft_close(fd);
    CHECK(rc == 0 || rc == -EIO);
    CHECK(!is_open(fd));
    exchange->refused += rc != 0;
}

static intptr_t exchange_with_fault(void *arg)
{
    static size_t descriptors; /* before the first iteration */
    struct exchange exchange = {.faults = arg};
    descriptors = descriptors != 0 ? descriptors : open_count();
    CHECK_EQ(open_count(), descriptors);
    exchange.pair = pair_new(SOCK_STREAM);
    CHECK_EQ(pipe2(exchange.pipe, O_CLOEXEC), 0);
    faults_begin(exchange.faults);
    exchange_bytes(&exchange);
    exchange_in_pipe(&exchange);
    exchange_messages(&exchange);
    wait_for_some(&exchange);
    close_one(&exchange, exchange.pair.near);
    close_one(&exchange, exchange.pair.far);
    close_one(&exchange, exchange.pipe[0]);
    close_one(&exchange, exchange.pipe[1]);
    faults_end(exchange.faults);
    faults_refused(exchange.faults, exchange.refused > 0 ? 1 : 0);
    for (size_t i = 0; i < NAMES; i++) {
        has_failed[i] = has_failed[i] || is_hit(exchange.faults, names[i]);
    }
    return 0;
}

/* Before any fault: allocates the page of the fd table, which stays. */
static intptr_t warm_up(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_fd_wait(STDOUT_FILENO, POLLOUT), POLLOUT);
    return 0;
}

static void io_calls_report_every_failure_and_can_be_repeated(void)
{
    const weft_runtime_options one = {.size = sizeof(one), .workers = 1};
    faults_prepare();
    CHECK_EQ(weft_run(warm_up, NULL, &one), 0);
    /* except the check of a socket of unknown kind, and a poll */
    fail_each(exchange_with_fault, NAMES - 2);
    for (size_t i = 0; i < NAMES; i++) {
        tap_doing("%s", names[i]);
        CHECK(has_failed[i]);
    }
}

#else

static void io_calls_report_every_failure_and_can_be_repeated(void)
{
    tap_skip("this build has no fault points");
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(io_calls_report_every_failure_and_can_be_repeated, 60),
};
TAP_MAIN(tests)
