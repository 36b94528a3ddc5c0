/* SPDX-License-Identifier: MIT */
/*
 * Goal:   reads and writes of descriptors suspend the task and block no worker; no byte and no
 *         wake-up is lost, whatever ends a wait.
 * Method: socket pairs, pipes and connections over loopback, under every setting; a cancel and a
 *         deadline at each wait; threads beside tasks.  test_close.c tests closes.  Keeps part of
 *         behaviours 32 and 57.
 */
#include <pthread.h>
#include <sys/eventfd.h>

#include "fault_helpers.h"
#include "io/io.h"
#include "io/poller.h"
#include "io_helpers.h"

/* ---- bytes ----------------------------------------------------------------------------------- */

static intptr_t wait_for_bytes(void *arg)
{
    (void)arg;
    const struct pair pairs[] = {pair_new(SOCK_STREAM), tcp_pair_new(), pair_new(SOCK_SEQPACKET)};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct reader reader = {.fd = pairs[i].near};
        weft_task *task = go(read_some, &reader);
        wait_until_blocked(task, WEFT_WAIT_READABLE);
        CHECK_EQ((int)(uintptr_t)info_of(task).wait_object, reader.fd);
        CHECK_EQ(weft_write(pairs[i].far, "weft", 4), 4);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(reader.got, 4);
        CHECK(memcmp(reader.text, "weft", 4) == 0);
        CHECK_EQ(weft_close(pairs[i].far), 0);
        CHECK_EQ(weft_read(pairs[i].near, reader.text, 1), 0);
        CHECK_EQ(weft_close(pairs[i].near), 0);
        expect_closed(pairs[i].near);
    }
    return 0;
}

static void fd_read_waits_for_bytes(void)
{
    run_under(EVERYWHERE, wait_for_bytes);
}

enum { MUCH = 1 << 20, PIECE = 4096 };

static unsigned char byte_at(size_t place)
{
    return (unsigned char)(place * 31 + place / 256);
}

static intptr_t write_much(void *arg)
{
    const int fd = *(int *)arg;
    unsigned char piece[PIECE];
    for (size_t place = 0; place < MUCH; place += PIECE) {
        for (size_t i = 0; i < PIECE; i++) {
            piece[i] = byte_at(place + i);
        }
        CHECK_EQ(weft_write_all(fd, piece, PIECE), 0);
    }
    CHECK_EQ(weft_close(fd), 0);
    return 0;
}

/* More than any buffer holds, so both ends wait; the reads have arbitrary sizes. */
static intptr_t move_much(void *arg)
{
    (void)arg;
    int pipes[2];
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    struct pair pairs[] = {pair_new(SOCK_STREAM), tcp_pair_new(), {pipes[0], pipes[1]}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        unsigned char piece[1000];
        size_t place = 0;
        ssize_t got;
        weft_task *writer = go(write_much, &pairs[i].far);
        while ((got = weft_read(pairs[i].near, piece, 1 + place % sizeof(piece))) > 0) {
            for (size_t k = 0; k < (size_t)got; k++) {
                CHECK_EQ(piece[k], byte_at(place++));
            }
        }
        CHECK_EQ(got, 0);
        CHECK_EQ(place, MUCH);
        CHECK_EQ(weft_await(writer), 0);
        CHECK_EQ(weft_close(pairs[i].near), 0);
    }
    return 0;
}

static void fd_many_bytes_arrive_in_order(void)
{
    run_under(EVERYWHERE, move_much);
}

/* The kernel reports the end together with the last bytes, and not again. */
static intptr_t read_to_the_end(void *arg)
{
    (void)arg;
    struct pair pair = tcp_pair_new();
    char text[16];
    struct reader reader = {.fd = pair.near};
    weft_task *task = go(read_some, &reader);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(send(pair.far, "last", 4, MSG_NOSIGNAL), 4);
    CHECK_EQ(shutdown(pair.far, SHUT_WR), 0);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(reader.got, 4);
    CHECK_EQ(weft_read(pair.near, text, sizeof(text)), 0);
    CHECK_EQ(weft_read(pair.near, text, sizeof(text)), 0);
    /* half closed: the other direction still works */
    CHECK_EQ(weft_write(pair.near, "more", 4), 4);
    CHECK_EQ(weft_read_full(pair.far, text, 4), 4);
    CHECK_EQ(weft_shutdown(pair.near, SHUT_WR), 0);
    CHECK_EQ(weft_read_full(pair.far, text, 4), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void fd_read_sees_the_end_after_the_last_bytes(void)
{
    run_under(EVERYWHERE, read_to_the_end);
}

/* A closed peer: an error, and no signal that would end the process. */
static intptr_t write_to_closed_peer(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_STREAM);
    const struct iovec part = {.iov_base = (char[]){"x"}, .iov_len = 1};
    const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)&part, .msg_iovlen = 1};
    CHECK_EQ(weft_close(pair.far), 0);
    CHECK_EQ(weft_write(pair.near, "x", 1), -EPIPE);
    CHECK_EQ(weft_writev(pair.near, &part, 1), -EPIPE);
    CHECK_EQ(weft_send(pair.near, "x", 1, 0), -EPIPE);
    CHECK_EQ(weft_sendmsg(pair.near, &message, 0), -EPIPE);
    CHECK_EQ(weft_close(pair.near), 0);
    struct pair reset = tcp_pair_new();
    const struct linger linger = {.l_onoff = 1, .l_linger = 0};
    CHECK_EQ(setsockopt(reset.far, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    struct reader reader = {.fd = reset.near};
    weft_task *task = go(read_some, &reader);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(weft_close(reset.far), 0);
    CHECK_EQ(weft_await(task), -ECONNRESET);
    CHECK_EQ(weft_close(reset.near), 0);
    return 0;
}

static void fd_write_to_a_closed_peer_is_an_error(void)
{
    run_under(EVERYWHERE, write_to_closed_peer);
}

/* Each datagram is one read: a short read does not mean that the socket is empty. */
static intptr_t read_datagrams(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_DGRAM);
    struct reader reader = {.fd = pair.near};
    for (int round = 0; round < 20; round++) {
        weft_task *task = go(read_some, &reader);
        wait_until_blocked(task, WEFT_WAIT_READABLE);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(weft_write(pair.far, "one", 3), 3);
        }
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(reader.got, 3);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(weft_recv(pair.near, reader.text, sizeof(reader.text), 0), 3);
        }
        CHECK_EQ(weft_recv(pair.near, reader.text, sizeof(reader.text), MSG_DONTWAIT), -EAGAIN);
    }
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void fd_datagrams_are_read_one_by_one(void)
{
    run_under(EVERYWHERE, read_datagrams);
}

/* A nonblocking read sees bytes that arrived since, though no task waits for readiness. */
static intptr_t read_without_blocking(void *arg)
{
    (void)arg;
    struct pair pairs[] = {tcp_pair_new(), pair_new(SOCK_STREAM)};
    for (size_t i = 0; i < 2; i++) {
        char text[8];
        struct reader reader = {.fd = pairs[i].near};
        for (int round = 0; round < 3; round++) {
            const int fd = pairs[i].near;
            CHECK_EQ(weft_recv(fd, text, sizeof(text), MSG_DONTWAIT), -EAGAIN);
            CHECK_EQ(weft_write(pairs[i].far, "ab", 2), 2);
            ssize_t got;
            do { /* ends: the bytes are on their way */
                got = weft_recv(fd, text, sizeof(text), MSG_DONTWAIT);
            } while (got == -EAGAIN);
            CHECK_EQ(got, 2);
            weft_task *task = go(read_some, &reader); /* registers the descriptor with the kernel */
            wait_until_blocked(task, WEFT_WAIT_READABLE);
            CHECK_EQ(weft_write(pairs[i].far, "ab", 2), 2);
            CHECK_EQ(weft_await(task), 0);
        }
        CHECK_EQ(weft_close(pairs[i].near), 0);
        CHECK_EQ(weft_close(pairs[i].far), 0);
    }
    return 0;
}

static void fd_nonblocking_read_sees_new_bytes(void)
{
    run_under(EVERYWHERE, read_without_blocking);
}

static intptr_t use_vectors(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_STREAM);
    char first[2];
    char second[3];
    struct iovec parts[2] = {{first, sizeof(first)}, {second, sizeof(second)}};
    const struct iovec out[2] = {{(char[]){"ab"}, 2}, {(char[]){"cde"}, 3}};
    CHECK_EQ(weft_writev(pair.near, out, 2), 5);
    CHECK_EQ(weft_readv(pair.far, parts, 2), 5);
    CHECK(memcmp(first, "ab", 2) == 0 && memcmp(second, "cde", 3) == 0);
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    CHECK_EQ(weft_sendmsg(pair.far, &message, 0), 5);
    memset(first, 0, sizeof(first));
    CHECK_EQ(weft_recvmsg(pair.near, &message, 0), 5);
    CHECK(memcmp(first, "ab", 2) == 0);
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);
    CHECK_EQ(weft_sendto(pair.near, "x", 1, 0, NULL, 0), 1);
    CHECK_EQ(weft_recvfrom(pair.far, first, sizeof(first), 0, (struct sockaddr *)&address, &size),
             1);
    CHECK_EQ(weft_recvmsg(pair.near, NULL, 0), -EINVAL);
    CHECK_EQ(weft_sendmsg(pair.near, NULL, 0), -EINVAL);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void fd_vectors_and_messages_are_transferred(void)
{
    run_under(ON_ONE_WORKER, use_vectors);
}

/* ---- ends of waits --------------------------------------------------------------------------- */

static intptr_t read_until_deadline(void *arg)
{
    (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    return read_some(arg);
}

static intptr_t read_before_deadline(void *arg)
{
    (void)weft_deadline_set(weft_time_after(3600 * WEFT_SECOND));
    return read_some(arg);
}

/* After each, the task finds the bytes that arrive later. */
static intptr_t end_waits(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_STREAM);
    struct reader reader = {.fd = pair.near};
    weft_task *task = go(read_some, &reader);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(weft_await(go(read_until_deadline, &reader)), -ETIMEDOUT);
    CHECK_EQ(weft_write(pair.far, "ab", 2), 2);
    CHECK_EQ(weft_await(go(read_before_deadline, &reader)), 0); /* returns at once */
    CHECK_EQ(reader.got, 2);
    fill(pair.near);
    task = go(write_one, &pair.near);
    wait_until_blocked(task, WEFT_WAIT_WRITABLE);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void fd_cancel_and_deadline_end_a_wait(void)
{
    run_under(EVERYWHERE, end_waits);
}

/* ---- several runtimes, and threads ----------------------------------------------------------- */

/* The runtime that registered the descriptor first is closed: the other still receives its
 * readiness. */
static void fd_stays_registered_when_another_runtime_closes(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtimes[2];
        struct pair pair = pair_new(SOCK_STREAM);
        struct reader readers[2] = {{.fd = pair.near}, {.fd = pair.near}};
        weft_task *tasks[2];
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(weft_runtime_open(&runtimes[i], &tour.options), 0);
            tasks[i] = go_into(runtimes[i], read_some, &readers[i]);
            wait_until_blocked(tasks[i], WEFT_WAIT_READABLE);
        }
        CHECK_EQ(weft_cancel(tasks[0]), 0);
        CHECK_EQ(weft_await(tasks[0]), -ECANCELED);
        CHECK_EQ(weft_runtime_close(runtimes[0], -1), 0);
        CHECK_EQ(weft_write(pair.far, "ab", 2), 2);
        CHECK_EQ(weft_await(tasks[1]), 0);
        CHECK_EQ(readers[1].got, 2);
        CHECK_EQ(weft_runtime_close(runtimes[1], -1), 0);
        CHECK_EQ(weft_close(pair.near), 0);
        CHECK_EQ(weft_close(pair.far), 0);
    }
}

struct start {
    wf_atomic_u32 ready;
    unsigned count;
};

/* [task, thread]  All continue at the same moment. */
static void start_together(struct start *start)
{
    raise_by_one(&start->ready);
    hold_for(&start->ready, start->count);
}

static intptr_t poll_at_once(void *arg)
{
    start_together(arg);
    return weft_fd_wait(STDOUT_FILENO, POLLOUT) == POLLOUT ? 0 : -EIO;
}

/* Two tasks need the poller at once before it exists: both use one, and no second one is left
 * over. */
static void poller_concurrent_first_uses_share_one(void)
{
    const int before = dup(STDOUT_FILENO);
    CHECK_EQ(close(before), 0);
    for (int round = 0; round < 100; round++) {
        struct start start = {.count = 2};
        weft_runtime_options options = {
            .size = sizeof(options), .workers = 2, .on_failure = refuse_failure};
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        weft_task *first = go_into(runtime, poll_at_once, &start);
        weft_task *second = go_into(runtime, poll_at_once, &start);
        CHECK_EQ(weft_await(first), 0);
        CHECK_EQ(weft_await(second), 0);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
    const int after = dup(STDOUT_FILENO);
    CHECK_EQ(after, before);
    CHECK_EQ(close(after), 0);
}

static void *find_at_once(void *arg)
{
    struct start *start = arg;
    for (int page = 1; page < 200; page++) {
        (void)wf_fetch_add_release(&start->ready, 1); /* to hold_for */
        hold_for(&start->ready, 2 * (uint32_t)page);
        struct wf_fd *entry = wf_fd_table_get(page * 256);
        CHECK(entry != NULL);
        CHECK_EQ(entry->fd, page * 256);
        CHECK(entry == wf_fd_table_find(page * 256));
    }
    return NULL;
}

static void fd_concurrent_first_uses_share_one_record(void)
{
    struct start start = {.count = 2};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, find_at_once, &start), 0);
    (void)find_at_once(&start);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void *read_in_thread(void *arg)
{
    struct reader *reader = arg;
    reader->got = weft_read(reader->fd, reader->text, sizeof(reader->text));
    return NULL;
}

/* A thread blocks, and is woken when another thread closes its descriptor. */
static void fd_threads_read_and_are_woken_by_close(void)
{
    struct pair pair = pair_new(SOCK_STREAM);
    struct reader reader = {.fd = pair.near};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, read_in_thread, &reader), 0);
    CHECK_EQ(weft_write(pair.far, "ab", 2), 2);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(reader.got, 2);
    /* before it waits, while it waits, and after it was woken */
    for (int round = 0; round < 50; round++) {
        CHECK_EQ(pthread_create(&thread, NULL, read_in_thread, &reader), 0);
        for (int i = 0; i < round; i++) {
            (void)sched_yield();
        }
        CHECK_EQ(weft_close(pair.near), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(reader.got, -EBADF);
        CHECK_EQ(weft_close(pair.far), 0);
        pair = pair_new(SOCK_STREAM);
        CHECK_EQ(pair.near, reader.fd);
    }
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
}

/* ---- other descriptors ----------------------------------------------------------------------- */

static intptr_t poll_eventfd(void *arg)
{
    return weft_fd_wait(*(int *)arg, POLLIN);
}

static intptr_t poll_own(void *arg)
{
    (void)arg;
    uint64_t count;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(fd >= 0);
    CHECK_EQ(weft_fd_wait(fd, POLLOUT), POLLOUT);
    for (int round = 0; round < 5; round++) {
        weft_task *task = go(poll_eventfd, &fd);
        wait_until_blocked(task, WEFT_WAIT_READABLE);
        CHECK_EQ(eventfd_write(fd, 1), 0);
        CHECK_EQ(weft_await(task), POLLIN);
        CHECK_EQ(weft_fd_wait(fd, POLLIN), POLLIN); /* until it is read */
        CHECK_EQ(read(fd, &count, sizeof(count)), (ssize_t)sizeof(count));
    }
    CHECK(stats_of(weft_runtime_self()).io_events > 0);
    CHECK_EQ(weft_fd_wait(fd, POLLIN | POLLOUT), -EINVAL);
    CHECK_EQ(weft_fd_wait(-1, POLLIN), -EBADF);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_fd_wait(fd, POLLIN), -EBADF);
    return 0;
}

static void fd_poll_works_for_any_pollable_descriptor(void)
{
    run_under(EVERYWHERE, poll_own);
}

static intptr_t use_odd_numbers(void *arg)
{
    (void)arg;
    char text[4];
    CHECK_EQ(weft_read(-1, text, 1), -EBADF);
    CHECK_EQ(weft_read(1 << 29, text, 1), -ENOMEM);
    CHECK_EQ(weft_close(-1), -EBADF);
    CHECK_EQ(weft_close(1 << 29), -EBADF);
    struct pair pair = pair_new(SOCK_STREAM);
    CHECK_EQ(dup2(pair.near, 1000), 1000); /* in another page of the table */
    CHECK_EQ(weft_write(pair.far, "ab", 2), 2);
    CHECK_EQ(weft_read(1000, text, sizeof(text)), 2);
    CHECK_EQ(weft_close(1000), 0);
    CHECK_EQ(weft_read(1000, text, 1), -EBADF);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK_EQ(weft_write(fileno(file), "abc", 3), 3);
    CHECK_EQ(lseek(fileno(file), 1, SEEK_SET), 1);
    CHECK_EQ(weft_read(fileno(file), text, sizeof(text)), 2);
    CHECK_EQ(weft_read(fileno(file), text, sizeof(text)), 0);
    CHECK_EQ(weft_fd_forget(fileno(file)), 0);
    CHECK_EQ(fclose(file), 0);
    return 0;
}

static void fd_numbers_are_accepted_or_refused(void)
{
    run_under(ON_ONE_WORKER, use_odd_numbers);
}

/* ---- driver ---------------------------------------------------------------------------------- */

/* While a worker sleeps in the poller, timers and external submissions still work. */
static intptr_t sleep_beside_io(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_STREAM);
    struct reader reader = {.fd = pair.near};
    weft_task *task = go(read_some, &reader);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    for (int i = 0; i < 5; i++) {
        weft_time until = weft_time_after(2 * WEFT_MILLISECOND);
        CHECK_EQ(weft_sleep_until(until), 0);
        CHECK(weft_now() >= until);
    }
    CHECK_EQ(weft_write(pair.far, "x", 1), 1);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void driver_fires_timers_while_waiting_for_io(void)
{
    run_under(EVERYWHERE, sleep_beside_io);
}

static void submit_to_waiting_leader(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct pair pair = pair_new(SOCK_STREAM);
    struct reader reader = {.fd = pair.near};
    weft_task *task = go_into(runtime, read_some, &reader);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    for (int i = 0; i < 200; i++) {
        weft_task *other = go_into(runtime, echo, (void *)(intptr_t)i);
        CHECK_EQ(weft_await(other), i);
        if (i % 50 == 0) {
            CHECK_EQ(weft_world_stop(runtime), 0);
            CHECK_EQ(weft_world_start(runtime), 0);
        }
    }
    CHECK_EQ(write(pair.far, "x", 1), 1);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
}

static void driver_wakes_for_external_submissions(void)
{
    open_under(EVERYWHERE, submit_to_waiting_leader);
}

/* A task that never suspends does not delay readiness for other tasks, not even on its own
 * worker. */
static intptr_t spin_until(void *arg)
{
    wf_atomic_u32 *cell = arg;
    while (wf_load_acquire(cell) == 0) { /* to raise_by_one */
        (void)weft_yield();
    }
    return 0;
}

struct waiting_reader {
    int fd;
    wf_atomic_u32 has_begun;
    wf_atomic_u32 has_read;
};

static intptr_t read_and_raise(void *arg)
{
    struct waiting_reader *waiting_reader = arg;
    char text[4];
    CHECK_EQ(weft_read(waiting_reader->fd, text, sizeof(text)), 1);
    raise_by_one(&waiting_reader->has_read);
    return 0;
}

/* Many descriptors become ready at once. */
static intptr_t take_events_in_batches(void *arg)
{
    enum { MANY = 9, MOST = 2 };
    struct pair pairs[MANY];
    struct waiting_reader waiting_readers[MANY];
    weft_task *readers[MANY];
    struct wf_event events[MANY];
    struct wf_poller *poller = NULL;
    (void)arg;
    for (int i = 0; i < MANY; i++) {
        pairs[i] = pair_new(SOCK_STREAM);
        waiting_readers[i] = (struct waiting_reader){.fd = pairs[i].near};
        readers[i] = go(read_and_raise, &waiting_readers[i]);
        wait_until_blocked(readers[i], WEFT_WAIT_READABLE);
    }
    CHECK_EQ(wf_poller_of(weft_runtime_self(), &poller), 0);
    CHECK_EQ(poller->events_max, MOST);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(write(pairs[i].far, "x", 1), 1);
    }
    /* As the driver does: the caller dispatches the events that it takes. */
    const int count = wf_epoll_wait(poller, events, poller->events_max, 0);
    CHECK(count <= MOST);
    for (int i = 0; i < count; i++) {
        if (events[i].record != NULL) {
            struct wf_wakes wakes = {0};
            wf_fd_ready(events[i].record, events[i].dirs, events[i].is_hung_up, &wakes);
            wf_wakes_do(&wakes);
        } else {
            /* a wake-up for the worker that waits there: pass it on */
            wf_epoll_wake(poller);
        }
    }
    for (int i = 0; i < MANY; i++) { /* the other events are not lost */
        CHECK_EQ(weft_await(readers[i]), 0);
        CHECK_EQ(weft_close(pairs[i].near), 0);
        CHECK_EQ(weft_close(pairs[i].far), 0);
    }
    return 0;
}

/* S4.40 */
static void driver_takes_at_most_io_events_max_events_at_once(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.io_events_max = 2;
        CHECK_EQ(weft_run(take_events_in_batches, NULL, &tour.options), 0);
    }
}

static intptr_t read_while_busy(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_STREAM);
    struct waiting_reader waiting_reader = {.fd = pair.near};
    weft_task *reader = go(read_and_raise, &waiting_reader);
    wait_until_blocked(reader, WEFT_WAIT_READABLE);
    weft_task *spinners[4];
    for (int i = 0; i < 4; i++) {
        spinners[i] = go(spin_until, &waiting_reader.has_read);
    }
    CHECK_EQ(write(pair.far, "x", 1), 1);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_await(spinners[i]), 0);
    }
    CHECK_EQ(weft_await(reader), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void driver_dispatches_readiness_while_all_workers_are_busy(void)
{
    run_under(EVERYWHERE, read_while_busy);
}

/* A task that computes without end, beside one that waits for bytes. */
static intptr_t compute(void *arg)
{
    struct waiting_reader *waiting_reader = arg;
    raise_by_one(&waiting_reader->has_begun);
    while (wf_load_acquire(&waiting_reader->has_read) == 0) { /* to raise_by_one */
    }
    return 0;
}

static void read_beside_a_hog(weft_runtime *runtime)
{
    for (int round = 0; round < 4; round++) { /* any worker may have been the leader */
        struct pair pair = pair_new(SOCK_STREAM);
        struct waiting_reader waiting_reader = {.fd = pair.near};
        weft_task *reader = go_into(runtime, read_and_raise, &waiting_reader);
        wait_until_blocked(reader, WEFT_WAIT_READABLE);
        weft_task *hog = go_into(runtime, compute, &waiting_reader);
        hold_for(&waiting_reader.has_begun, 1);
        CHECK_EQ(write(pair.far, "x", 1), 1);
        CHECK_EQ(weft_await(reader), 0);
        CHECK_EQ(weft_await(hog), 0);
        CHECK_EQ(weft_close(pair.near), 0);
        CHECK_EQ(weft_close(pair.far), 0);
    }
}

static void driver_dispatches_readiness_beside_a_hog(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        tour.options.hog_ns = WEFT_MILLISECOND;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        read_beside_a_hog(runtime);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

/* A worker that polls without blocking consumes a wake-up meant for the sleeping leader, and
 * repeats it. */
static intptr_t consume_wakeups(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_fd_wait(STDOUT_FILENO, POLLOUT), POLLOUT);
    struct wf_worker *self = wf_worker_self();
    weft_runtime *runtime = self->runtime;
    struct wf_driver *driver = wf_driver_of(runtime);
    struct wf_worker *other = &runtime->workers[1 - self->index];
    for (int round = 0; round < 50; round++) {
        uint64_t parked;
        do { /* until the other worker has slept for a while as the leader */
            parked = wf_counter_read(&other->counters.parked);
            for (int i = 0; i < 20; i++) {
                (void)sched_yield();
            }
        } while (wf_load_relaxed(&runtime->has_leader) == 0 ||
                 wf_counter_read(&other->counters.parked) != parked);
        driver->unpark(driver);
        driver->poll(driver, self);
        while (wf_counter_read(&other->counters.parked) == parked) { /* it is woken all the same */
            (void)sched_yield();
        }
    }
    return 0;
}

static void driver_repeats_a_wakeup_consumed_by_another_worker(void)
{
    /* In this order the leader has no other reason to wake. */
    const weft_runtime_options options = {
        .size = sizeof(options),
        .workers = 2,
        .order = WEFT_ORDER_DEPTH_FIRST,
        .no_monitor = true,
    };
    CHECK_EQ(weft_run(consume_wakeups, NULL, &options), 0);
}

/* ---- injected failures ----------------------------------------------------------------------- */

static intptr_t talk(void *arg)
{
    struct faults *faults = arg;
    unsigned refused = 0;
    struct pair pair = pair_new(SOCK_STREAM);
    char text[4];
    faults_begin(faults);
    struct reader reader = {.fd = pair.near};
    weft_task *task = weft_go(read_some, &reader);
    ssize_t wrote = weft_write(pair.far, "ab", 2);
    refused += wrote != 2;
    if (task != NULL) {
        if (wrote != 2) {
            CHECK_EQ(weft_cancel(task), 0);
        }
        intptr_t rc = weft_await(task);
        refused += rc != 0 && wrote == 2;
        CHECK(rc != 0 || reader.got == 2);
        if (rc != 0 && wrote == 2) { /* nothing is lost */
            faults_end(faults);
            CHECK_EQ(read(pair.near, text, sizeof(text)), 2);
        }
    }
    faults_end(faults);
    refused += task == NULL;
    faults_refused(faults, refused);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

/* Every call that can fail fails once: the error is returned, and nothing is lost or leaked. */
static void fd_calls_report_every_injected_failure(void)
{
    const weft_runtime_options one = {.size = sizeof(one), .workers = 1};
    faults_prepare();
    /* allocates the page of the fd table, which stays */
    CHECK_EQ(weft_run(wait_for_bytes, NULL, &one), 0);
    struct faults faults = {0};
    while (faults_next(&faults)) {
        CHECK_EQ(weft_run(talk, &faults, &one), 0);
    }
    CHECK(faults.refused >= 4);
}

static const struct tap_test tests[] = {
    TAP_TEST(fd_read_waits_for_bytes),
    TAP_TEST(fd_many_bytes_arrive_in_order),
    TAP_TEST(fd_read_sees_the_end_after_the_last_bytes),
    TAP_TEST(fd_write_to_a_closed_peer_is_an_error),
    TAP_TEST(fd_datagrams_are_read_one_by_one),
    TAP_TEST(fd_nonblocking_read_sees_new_bytes),
    TAP_TEST(fd_vectors_and_messages_are_transferred),
    TAP_TEST(fd_cancel_and_deadline_end_a_wait),
    TAP_TEST(poller_concurrent_first_uses_share_one),
    TAP_TEST(fd_concurrent_first_uses_share_one_record),
    TAP_TEST(fd_stays_registered_when_another_runtime_closes),
    TAP_TEST(fd_threads_read_and_are_woken_by_close),
    TAP_TEST(fd_poll_works_for_any_pollable_descriptor),
    TAP_TEST(fd_numbers_are_accepted_or_refused),
    TAP_TEST(driver_fires_timers_while_waiting_for_io),
    TAP_TEST(driver_wakes_for_external_submissions),
    TAP_TEST(driver_dispatches_readiness_while_all_workers_are_busy),
    TAP_TEST(driver_takes_at_most_io_events_max_events_at_once),
    TAP_TEST(driver_dispatches_readiness_beside_a_hog),
    TAP_TEST(driver_repeats_a_wakeup_consumed_by_another_worker),
    TAP_TEST(fd_calls_report_every_injected_failure),
};
TAP_MAIN(tests)
