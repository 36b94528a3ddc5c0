/* SPDX-License-Identifier: MIT */
/*
 * Goal:   files are read and written without blocking a worker, and a task's buffer outlives the
 *         call in every case; a copy transfers every byte between all kinds of descriptors, and
 *         reports how many have arrived.
 * Method: files in a folder of their own; a pool with one thread, which is busy; a FIFO, whose open
 *         waits for another task; copies between all kinds of descriptors, also where the kernel
 *         refuses to copy by itself; every call that can fail does.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fault_helpers.h"
#include "net_helpers.h"

/* ---- scenes ---------------------------------------------------------------------------------- */

static char folder[] = "/tmp/weft-file-XXXXXX";

static void enter_folder(void)
{
    CHECK(mkdtemp(folder) != NULL);
    CHECK_EQ(chdir(folder), 0);
}

static void leave_folder(void)
{
    static const char *const names[] = {"a", "b", "fifo"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)unlink(names[i]); /* not every test creates all files */
    }
    CHECK_EQ(chdir("/"), 0);
    CHECK_EQ(rmdir(folder), 0);
}

enum { MUCH = 300 * 1000 };

static char byte_at(size_t place)
{
    return (char)(place * 31 + place / 251);
}

static char *much_new(void)
{
    char *bytes = malloc(MUCH);
    CHECK(bytes != NULL);
    for (size_t i = 0; i < MUCH; i++) {
        bytes[i] = byte_at(i);
    }
    return bytes;
}

static void file_fill(const char *name)
{
    char *bytes = much_new();
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(wf_file_write(fd, bytes, MUCH), 0);
    CHECK_EQ(close(fd), 0);
    free(bytes);
}

static void file_check(const char *name, size_t size)
{
    char piece[4096];
    size_t place = 0;
    ssize_t got;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    while ((got = read(fd, piece, sizeof(piece))) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            CHECK_EQ(piece[i], byte_at(place++));
        }
    }
    CHECK_EQ(place, size);
    CHECK_EQ(close(fd), 0);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static intptr_t write_and_read(void *arg)
{
    (void)arg;
    char text[16] = "";
    char more[4] = "";
    const struct iovec parts[] = {{text, 4}, {more, 4}};
    CHECK_EQ(weft_open("missing", O_RDONLY, 0), -ENOENT);
    int fd = weft_open("a", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQ(weft_write(fd, "0123", 4), 4);
    CHECK_EQ(weft_writev(fd, (const struct iovec[]){{(char[]){"45"}, 2}, {(char[]){"67"}, 2}}, 2),
             4);
    CHECK_EQ(weft_pwrite(fd, "xy", 2, 2), 2);
    CHECK_EQ(weft_fsync(fd), 0);
    CHECK_EQ(weft_fdatasync(fd), 0);
    CHECK_EQ(weft_pread(fd, text, 8, 0), 8);
    CHECK(memcmp(text, "01xy4567", 8) == 0);
    CHECK_EQ(weft_pread(fd, text, 8, 8), 0);
    CHECK_EQ(weft_pread(fd, text, 8, -1), -EINVAL);
    CHECK_EQ(weft_read(fd, text, 8), 0); /* the position is at the end of the last write */
    CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    CHECK_EQ(weft_readv(fd, parts, 2), 8);
    CHECK(memcmp(text, "01xy", 4) == 0 && memcmp(more, "4567", 4) == 0);
    CHECK_EQ(lseek(fd, 1, SEEK_SET), 1);
    CHECK_EQ(weft_read(fd, text, 3), 3);
    CHECK(memcmp(text, "1xy", 3) == 0);
    CHECK_EQ(weft_recv(fd, text, 3, 0), -ENOTSOCK);
    CHECK_EQ(lseek(fd, 0, SEEK_CUR), 4);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_pread(fd, text, 8, 0), -EBADF);
    CHECK_EQ(weft_fsync(-1), -EBADF);
    return 0;
}

static void *write_and_read_in_thread(void *arg)
{
    CHECK_EQ(write_and_read(arg), 0);
    return NULL;
}

static void file_read_returns_what_was_written(void)
{
    pthread_t thread;
    enter_folder();
    run_under(EVERYWHERE, write_and_read);
    CHECK_EQ(pthread_create(&thread, NULL, write_and_read_in_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    leave_folder();
}

static intptr_t use_offsets_on_socket(void *arg)
{
    (void)arg;
    char byte;
    struct pair pair = pair_new(SOCK_STREAM);
    CHECK_EQ(weft_pread(pair.near, &byte, 1, 0), -ESPIPE);
    CHECK_EQ(weft_pwrite(pair.near, &byte, 1, 0), -ESPIPE);
    CHECK_EQ(weft_fsync(pair.near), -EINVAL);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void file_pread_of_a_socket_is_refused(void)
{
    run_under(ON_ONE_WORKER, use_offsets_on_socket);
}

/* ---- workers --------------------------------------------------------------------------------- */

static intptr_t open_fifo(void *arg)
{
    return weft_open("fifo", *(const int *)arg, 0);
}

/* Each end waits for the other: with one worker the second open would never run if the first
 * blocked the worker. */
static intptr_t open_both_ends(void *arg)
{
    (void)arg;
    static const int reads = O_RDONLY;
    static const int writes = O_WRONLY;
    weft_task *reader = go(open_fifo, (void *)(uintptr_t)&reads);
    wait_until_blocked(reader, WEFT_WAIT_BLOCKING);
    weft_task *writer = go(open_fifo, (void *)(uintptr_t)&writes);
    const int near = (int)weft_await(reader);
    const int far = (int)weft_await(writer);
    char byte = 0;
    CHECK(near >= 0 && far >= 0);
    CHECK_EQ(weft_write(far, "f", 1), 1);
    CHECK_EQ(weft_read(near, &byte, 1), 1);
    CHECK_EQ(byte, 'f');
    CHECK_EQ(weft_close(near), 0);
    CHECK_EQ(weft_close(far), 0);
    return 0;
}

static void file_open_that_waits_blocks_no_worker(void)
{
    enter_folder();
    CHECK_EQ(mkfifo("fifo", 0600), 0);
    run_under(EVERYWHERE, open_both_ends);
    leave_folder();
}

/* The job has begun: the pool has a thread, and the queue is empty. */
static void wait_until_one_runs(void)
{
    for (;;) { /* ends when the job begins */
        weft_runtime_stats stats = stats_of(weft_runtime_self());
        if (stats.blocking_threads == 1 && stats.blocking_idle == 0) {
            return;
        }
        let_others_run();
    }
}

/* A task that is cancelled while the thread is in the kernel gets the opened descriptor, which does
 * not leak. */
static intptr_t cancel_an_open(void *arg)
{
    (void)arg;
    static const int reads = O_RDONLY;
    weft_task *reader = go(open_fifo, (void *)(uintptr_t)&reads);
    wait_until_one_runs();
    CHECK_EQ(weft_cancel(reader), 0);
    CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    wait_until_blocked(reader, WEFT_WAIT_BLOCKING);
    int far;
    while ((far = open("fifo", O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0) {
        CHECK_EQ(errno, ENXIO); /* the open has not happened yet */
        let_others_run();
    }
    const int near = (int)weft_await(reader);
    CHECK(near >= 0);
    CHECK_EQ(weft_close(near), 0);
    CHECK_EQ(close(far), 0);
    return 0;
}

static void file_cancelled_open_does_not_leak(void)
{
    enter_folder();
    CHECK_EQ(mkfifo("fifo", 0600), 0);
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        CHECK_EQ(weft_run(cancel_an_open, NULL, &tour.options), 0);
    }
    leave_folder();
}

struct gate {
    wf_atomic_u32 inside;
    wf_atomic_u32 open;
};

static intptr_t pass_gate(void *arg)
{
    struct gate *gate = arg;
    raise_by_one(&gate->inside);
    hold_for(&gate->open, 1);
    return 0;
}

static intptr_t call_gate(void *arg)
{
    return weft_blocking_call(pass_gate, arg);
}

static intptr_t write_byte(void *arg)
{
    ssize_t rc = weft_pwrite(*(int *)arg, "x", 1, 0);
    return rc == 1 ? 0 : rc;
}

static intptr_t write_for_a_moment(void *arg)
{
    (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(weft_pwrite(*(int *)arg, "x", 1, 0), -ETIMEDOUT);
    return 0;
}

/* The only thread is busy, so a write waits; the write can be abandoned, and a close waits for
 * it. */
static intptr_t wait_for_a_thread(void *arg)
{
    (void)arg;
    struct gate gate = {{0}, {0}};
    char text[4] = "";
    int fd = weft_open("a", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    weft_task *blocker = go(call_gate, &gate);
    wait_for(&gate.inside, 1);
    weft_task *cancelled = go(write_byte, &fd);
    wait_until_blocked(cancelled, WEFT_WAIT_BLOCKING);
    CHECK_EQ(weft_await(go(write_for_a_moment, &fd)), 0);
    CHECK_EQ(weft_cancel(cancelled), 0);
    CHECK_EQ(weft_await(cancelled), -ECANCELED);
    CHECK_EQ(pread(fd, text, 1, 0), 0); /* nothing was written */
    weft_task *patient = go(write_one, &fd);
    wait_until_blocked(patient, WEFT_WAIT_BLOCKING);
    const int kept = dup(fd);
    CHECK(kept >= 0);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_write(fd, "y", 1), -EBADF);
    CHECK(is_open(fd)); /* its number is not reused */
    raise_by_one(&gate.open);
    CHECK_EQ(weft_await(patient), 0);
    CHECK(!is_open(fd));
    CHECK_EQ(pread(kept, text, 4, 0), 1);
    CHECK_EQ(text[0], 'x');
    CHECK_EQ(close(kept), 0);
    CHECK_EQ(weft_await(blocker), 0);
    return 0;
}

static void file_write_waiting_for_a_thread_blocks_no_worker(void)
{
    enter_folder();
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        tour.options.io = WEFT_IO_EPOLL; /* io_uring needs no thread */
        CHECK_EQ(weft_run(wait_for_a_thread, NULL, &tour.options), 0);
    }
    leave_folder();
}

static weft_poll_result write_in_poll(weft_cx *cx, void *state, intptr_t *result)
{
    char byte = 0;
    (void)cx;
    (void)state;
    int fd = weft_open("a", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(weft_write(fd, "p", 1), 1);
    CHECK_EQ(weft_pread(fd, &byte, 1, 0), 1);
    CHECK_EQ(byte, 'p');
    CHECK_EQ(weft_fd_copy(fd, fd, 1, NULL), -EAGAIN);
    CHECK_EQ(weft_close(fd), 0);
    *result = 0;
    return WEFT_POLL_READY;
}

static intptr_t spawn_poll(void *arg)
{
    (void)arg;
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, write_in_poll, NULL, 0, NULL), 0);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(stats_of(weft_runtime_self()).blocking_done, 0);
    return 0;
}

static void file_write_in_a_poll_task_runs_inline(void)
{
    enter_folder();
    run_under(ON_ONE_WORKER, spawn_poll);
    leave_folder();
}

/* ---- copies ---------------------------------------------------------------------------------- */

enum kind { OF_FILE, OF_PIPE, OF_TCP, OF_UNIX, KINDS };

/* One end of a copy, and the task behind it that writes or reads. */
struct end {
    enum kind kind;
    int fd;  /* used by the copy */
    int far; /* used by the task; -1: a file */
    size_t seen;
    weft_task *task;
};

static intptr_t feed(void *arg)
{
    struct end *end = arg;
    char *bytes = much_new();
    intptr_t rc = weft_write_all(end->far, bytes, MUCH);
    free(bytes);
    CHECK_EQ(weft_close(end->far), 0);
    return rc;
}

static intptr_t drain_far(void *arg)
{
    struct end *end = arg;
    char piece[5000];
    ssize_t got;
    while ((got = weft_read(end->far, piece, sizeof(piece))) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            CHECK_EQ(piece[i], byte_at(end->seen++));
        }
    }
    CHECK_EQ(weft_close(end->far), 0);
    return got;
}

static struct pair ends_of(enum kind kind)
{
    int pipes[2];
    if (kind != OF_PIPE) {
        return kind == OF_TCP ? tcp_pair_new() : pair_new(SOCK_STREAM);
    }
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    return (struct pair){pipes[0], pipes[1]};
}

static void source_open(struct end *end)
{
    end->far = -1;
    if (end->kind == OF_FILE) {
        end->fd = weft_open("a", O_RDONLY, 0);
        CHECK(end->fd >= 0);
        return;
    }
    struct pair pair = ends_of(end->kind);
    end->fd = pair.near;
    end->far = pair.far;
    end->task = go(feed, end);
}

static void sink_open(struct end *end, int flags)
{
    end->far = -1;
    end->seen = 0;
    if (end->kind == OF_FILE) {
        end->fd = weft_open("b", O_WRONLY | O_CREAT | O_TRUNC | flags, 0600);
        CHECK(end->fd >= 0);
        return;
    }
    struct pair pair = ends_of(end->kind);
    end->fd = pair.far;
    end->far = pair.near;
    end->task = go(drain_far, end);
}

static intptr_t end_finish(struct end *end)
{
    CHECK_EQ(weft_close(end->fd), 0);
    return end->far >= 0 ? weft_await(end->task) : 0;
}

static void copy_between(enum kind from, enum kind to, int flags)
{
    struct end source = {.kind = from};
    struct end sink = {.kind = to};
    size_t first = 0;
    size_t rest = 0;
    source_open(&source);
    sink_open(&sink, flags);
    CHECK_EQ(weft_fd_copy(sink.fd, source.fd, MUCH / 3, &first), 0);
    CHECK_EQ(first, MUCH / 3);
    CHECK_EQ(weft_fd_copy(sink.fd, source.fd, 0, NULL), 0);
    CHECK_EQ(weft_fd_copy(sink.fd, source.fd, SIZE_MAX, &rest), 0);
    CHECK_EQ(rest, MUCH - first);
    CHECK_EQ(weft_fd_copy(sink.fd, source.fd, 1, &rest), 0);
    CHECK_EQ(rest, 0);
    CHECK_EQ(end_finish(&source), 0);
    CHECK_EQ(end_finish(&sink), 0);
    if (to == OF_FILE) {
        file_check("b", MUCH);
    } else {
        CHECK_EQ(sink.seen, MUCH);
    }
}

static intptr_t copy_all_ways(void *arg)
{
    (void)arg;
    for (enum kind from = 0; from < KINDS; from++) {
        for (enum kind to = 0; to < KINDS; to++) {
            copy_between(from, to, 0);
        }
        copy_between(from, OF_FILE, O_APPEND); /* no system call copies to an O_APPEND file */
    }
    return 0;
}

static void copy_transfers_all_bytes_between_all_kinds(void)
{
    enter_folder();
    file_fill("a");
    run_under(EVERYWHERE, copy_all_ways);
    leave_folder();
}

static void *copy_in_thread(void *arg)
{
    size_t copied = 0;
    struct pair pair = *(struct pair *)arg;
    int file = weft_open("a", O_RDONLY, 0);
    CHECK(file >= 0);
    CHECK_EQ(weft_fd_copy(pair.far, file, SIZE_MAX, &copied), 0);
    CHECK_EQ(copied, MUCH);
    CHECK_EQ(weft_close(file), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return NULL;
}

static void copy_works_in_a_thread(void)
{
    pthread_t thread;
    size_t copied = 0;
    struct pair pair = tcp_pair_new();
    enter_folder();
    file_fill("a");
    CHECK_EQ(pthread_create(&thread, NULL, copy_in_thread, &pair), 0);
    int file = weft_open("b", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK_EQ(weft_fd_copy(file, pair.near, SIZE_MAX, &copied), 0);
    CHECK_EQ(copied, MUCH);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_close(file), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    file_check("b", MUCH);
    leave_folder();
}

struct copier {
    int to;
    int from;
    size_t copied;
};

static intptr_t copy_on(void *arg)
{
    struct copier *copier = arg;
    return weft_fd_copy(copier->to, copier->from, SIZE_MAX, &copier->copied);
}

/* The far end of a socket reads a part and then stops; the copy reports the bytes that arrived. */
static intptr_t cancel_copies(void *arg)
{
    (void)arg;
    int pipes[2];
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    struct pair pair = pair_new(SOCK_STREAM);
    struct copier copier = {.to = pair.near, .from = pipes[0]};
    weft_task *task = go(copy_on, &copier);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(weft_write(pipes[1], "abc", 3), 3);
    char text[4];
    CHECK_EQ(weft_read_full(pair.far, text, 3), 3);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(copier.copied, 3);
    struct copier from_file = {.to = pair.near, .from = weft_open("a", O_RDONLY, 0)};
    CHECK(from_file.from >= 0);
    int small = 4096;
    CHECK_EQ(setsockopt(pair.near, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    task = go(copy_on, &from_file);
    wait_until_blocked(task, WEFT_WAIT_WRITABLE);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK(from_file.copied > 0 && from_file.copied < MUCH);
    CHECK_EQ(lseek(from_file.from, 0, SEEK_CUR), from_file.copied); /* nothing is lost */
    CHECK_EQ(weft_close(pair.near), 0);
    char *bytes = malloc(MUCH);
    CHECK(bytes != NULL);
    CHECK_EQ(weft_read_full(pair.far, bytes, MUCH), from_file.copied);
    free(bytes);
    CHECK_EQ(weft_close(from_file.from), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    CHECK_EQ(weft_close(pipes[0]), 0);
    CHECK_EQ(weft_close(pipes[1]), 0);
    return 0;
}

static void copy_cancelled_reports_what_has_arrived(void)
{
    enter_folder();
    file_fill("a");
    run_under(EVERYWHERE, cancel_copies);
    leave_folder();
}

/* No signal ends the process, whichever call detects the closed peer. */
static intptr_t copy_to_closed_peer(void *arg)
{
    (void)arg;
    static const enum kind sources[] = {OF_FILE, OF_PIPE, OF_TCP};
    static const enum kind sinks[] = {OF_PIPE, OF_UNIX};
    for (size_t i = 0; i < 6; i++) {
        struct end source = {.kind = sources[i % 3]};
        size_t copied = 0;
        source_open(&source);
        struct pair pair = ends_of(sinks[i / 3]);
        CHECK_EQ(weft_close(pair.near), 0);
        CHECK_EQ(weft_fd_copy(pair.far, source.fd, SIZE_MAX, &copied), -EPIPE);
        CHECK_EQ(copied, 0);
        CHECK_EQ(weft_close(pair.far), 0);
        CHECK(end_finish(&source) <= 0);
    }
    return 0;
}

static intptr_t copy_unusual(void *arg)
{
    size_t copied = 7;
    int pipes[2];
    CHECK_EQ(copy_to_closed_peer(arg), 0);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    CHECK_EQ(weft_fd_copy(-1, pipes[0], 1, &copied), -EBADF);
    CHECK_EQ(copied, 0);
    CHECK_EQ(weft_fd_copy(pipes[1], 1000, 1, &copied), -EBADF);
    CHECK_EQ(weft_write(pipes[1], "x", 1), 1);
    CHECK_EQ(weft_fd_copy(pipes[0], pipes[0], 1, &copied), -EBADF); /* not writable */
    int file = weft_open("b", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int kernel = weft_open("/proc/self/status", O_RDONLY, 0); /* reports a size of 0 */
    CHECK(file >= 0 && kernel >= 0);
    CHECK_EQ(weft_fd_copy(file, kernel, SIZE_MAX, &copied), 0);
    CHECK(copied > 100);
    int root = weft_open("/", O_RDONLY, 0);
    CHECK_EQ(weft_fd_copy(file, root, 1, &copied), -EISDIR);
    CHECK_EQ(weft_close(root), 0);
    CHECK_EQ(weft_close(file), 0);
    CHECK_EQ(weft_close(kernel), 0);
    CHECK_EQ(weft_close(pipes[0]), 0);
    CHECK_EQ(weft_close(pipes[1]), 0);
    return 0;
}

static void copy_of_unusual_descriptors_works_or_is_refused(void)
{
    enter_folder();
    file_fill("a");
    run_under(ON_ONE_WORKER, copy_unusual);
    leave_folder();
}

/* ---- injected failures ----------------------------------------------------------------------- */

/* ---- calls that never suspend ---------------------------------------------------------------- */

struct endless {
    ssize_t (*call)(int fd);
    int fd;
    wf_atomic_u32 has_begun;
};

static ssize_t write_a_byte(int fd)
{
    return weft_write(fd, "x", 1);
}

static ssize_t read_a_byte(int fd)
{
    char byte;
    return weft_read(fd, &byte, 1);
}

static ssize_t read_the_first_byte(int fd)
{
    char byte;
    return weft_pread(fd, &byte, 1, 0);
}

static intptr_t call_for_ever(void *arg)
{
    struct endless *endless = arg;
    ssize_t rc;
    do {
        rc = endless->call(endless->fd);
        raise_by_one(&endless->has_begun);
    } while (rc == 1);
    return rc;
}

static void end_endless(ssize_t (*call)(int fd), const char *path, int flags)
{
    struct endless endless = {.call = call, .fd = weft_open(path, flags, 0)};
    CHECK(endless.fd >= 0);
    weft_task *task = go(call_for_ever, &endless);
    wait_for(&endless.has_begun, 1);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(call_for_ever(&endless), -ETIMEDOUT);
    (void)weft_deadline_set(WEFT_NEVER);
    CHECK_EQ(weft_close(endless.fd), 0);
}

static intptr_t end_all_endless(void *arg)
{
    (void)arg;
    end_endless(write_a_byte, "/dev/null", O_WRONLY);
    end_endless(read_a_byte, "/dev/zero", O_RDONLY);
    end_endless(read_the_first_byte, "/proc/self/exe", O_RDONLY);
    return 0;
}

/* A loop whose calls always succeed at once still sees a cancellation. */
static void file_loop_without_waits_sees_a_cancel(void)
{
    run_under(EVERYWHERE, end_all_endless);
}

static intptr_t call_for_ever_shielded(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    return call_for_ever(arg); /* never returns: the runtime is closed by force */
}

/* Wherever the task is at the forced close, it holds no reference to the descriptor afterwards. */
static void file_forced_close_releases_a_loop_without_waits(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct endless endless = {.call = write_a_byte, .fd = open("/dev/null", O_WRONLY)};
        weft_runtime *runtime = NULL;
        CHECK(endless.fd >= 0);
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, call_for_ever_shielded, &endless);
        wait_for(&endless.has_begun, 1);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(weft_close(endless.fd), 0);
        CHECK(!is_open(endless.fd));
    }
}

#ifdef WF_TEST_HOOKS

static intptr_t copy_with_fault(void *arg)
{
    struct faults *faults = arg;
    unsigned refused = 0;
    int file = open("a", O_RDONLY | O_CLOEXEC);
    int to = open("b", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int pipes[2];
    size_t copied[3];
    char text[8];
    CHECK(file >= 0 && to >= 0);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    faults_begin(faults);
    refused += weft_fd_copy(to, file, 1000, &copied[0]) != 0;
    refused += weft_fd_copy(pipes[1], file, 1000, &copied[1]) != 0;
    refused += weft_fd_copy(to, pipes[0], copied[1], &copied[2]) != 0;
    refused += weft_pwrite(to, "weft", 4, 5000) != 4;
    ssize_t got = weft_pread(to, text, 4, 5000);
    refused += got < 0;
    refused += weft_fsync(to) != 0;
    refused += weft_fdatasync(to) != 0;
    int opened = weft_open("a", O_RDONLY, 0);
    refused += opened < 0;
    faults_end(faults);
    CHECK(got < 4 || memcmp(text, "weft", 4) == 0 || faults->what != NULL);
    CHECK(faults->what != NULL || (copied[0] == 1000 && copied[1] == 1000 && copied[2] == 1000));
    CHECK_EQ(lseek(to, 0, SEEK_CUR), copied[0] + copied[2]);
    faults_refused(faults, refused);
    CHECK(opened < 0 || weft_close(opened) == 0);
    CHECK_EQ(weft_close(file), 0);
    CHECK_EQ(weft_close(to), 0);
    CHECK_EQ(weft_close(pipes[0]), 0);
    CHECK_EQ(weft_close(pipes[1]), 0);
    return 0;
}

static void file_calls_report_every_injected_failure(void)
{
    enter_folder();
    file_fill("a");
    faults_prepare();
    /* allocates the page of the fd table, which stays */
    CHECK_EQ(weft_close(listening("127.0.0.1:0")), 0);
    fail_each(copy_with_fault, 6); /* open, pwrite, fsync, fdatasync, fstat, memory */
    leave_folder();
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(file_forced_close_releases_a_loop_without_waits),
    TAP_TEST(file_loop_without_waits_sees_a_cancel),
    TAP_TEST(file_read_returns_what_was_written),
    TAP_TEST(file_pread_of_a_socket_is_refused),
    TAP_TEST(file_open_that_waits_blocks_no_worker),
    TAP_TEST(file_cancelled_open_does_not_leak),
    TAP_TEST(file_write_waiting_for_a_thread_blocks_no_worker),
    TAP_TEST(file_write_in_a_poll_task_runs_inline),
    TAP_TEST(copy_transfers_all_bytes_between_all_kinds),
    TAP_TEST(copy_works_in_a_thread),
    TAP_TEST(copy_cancelled_reports_what_has_arrived),
    TAP_TEST(copy_of_unusual_descriptors_works_or_is_refused),
#ifdef WF_TEST_HOOKS
    TAP_TEST_LIMIT(file_calls_report_every_injected_failure, 90),
#endif
};
TAP_MAIN(tests)
