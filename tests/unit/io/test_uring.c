/* SPDX-License-Identifier: MIT */
/*
 * Goal:   calls through io_uring return what the system call returns; a cancelled task continues
 *         only when the kernel has released its buffer; if the kernel refuses io_uring, at any
 *         moment, the call is made another way.
 * Method: files, and pipes, which block for as long as the test needs; every call fails once.
 */
#include <sys/uio.h>

#include "fault_helpers.h"
#include "io/uring.h"
#include "marks.h"
#include "net_helpers.h"
#include "weft/blocking.h"

static void skip_without_rings(void);

/* All settings, with io_uring requested. */
static bool ring_tour_next(struct tour *tour)
{
    if (!tour_next(tour)) {
        return false;
    }
    tour->options.io = WEFT_IO_URING;
    return true;
}

static void run_with_rings(weft_fn fn)
{
    skip_without_rings();
    for (struct tour tour = {.which = EVERYWHERE}; ring_tour_next(&tour);) {
        CHECK_EQ(weft_run(fn, NULL, &tour.options), 0);
    }
}

/* [task]  A file without a name. */
static int file_new(void)
{
    char name[] = "/tmp/weft.XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(unlink(name), 0);
    return fd;
}

/* ---- backend --------------------------------------------------------------------------------- */

static intptr_t give_backend(void *arg)
{
    (void)arg;
    CHECK_EQ(stats_of(weft_runtime_self()).io, WEFT_IO_AUTO); /* no task has used I/O yet */
    CHECK_EQ(weft_fd_wait(STDOUT_FILENO, POLLOUT), POLLOUT);
    return (intptr_t)stats_of(weft_runtime_self()).io;
}

static void skip_without_rings(void)
{
    const weft_runtime_options options = {.workers = 1, .io = WEFT_IO_URING};
    if (weft_run(give_backend, NULL, &options) != WEFT_IO_URING) {
        tap_skip("this kernel refuses io_uring");
    }
}

/* S4.44: the backend can be chosen. */
static void uring_runtime_reports_its_backend(void)
{
    skip_without_rings();
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.io = WEFT_IO_EPOLL;
        CHECK_EQ(weft_run(give_backend, NULL, &tour.options), WEFT_IO_EPOLL);
        tour.options.io = WEFT_IO_URING;
        CHECK_EQ(weft_run(give_backend, NULL, &tour.options), WEFT_IO_URING);
        CHECK_EQ(setenv("WEFT_IO", "uring", 1), 0);
        tour.options.io = WEFT_IO_AUTO;
        CHECK_EQ(weft_run(give_backend, NULL, &tour.options), WEFT_IO_URING);
        CHECK_EQ(unsetenv("WEFT_IO"), 0);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static intptr_t write_and_read(void *arg)
{
    (void)arg;
    char text[8] = "";
    char more[4] = "";
    int fd = file_new();
    const struct iovec out[] = {{(char[]){"ab"}, 2}, {(char[]){"cd"}, 2}};
    const struct iovec in[] = {{text, 1}, {more, 3}};
    CHECK_EQ(weft_pwrite(fd, "0123", 4, 0), 4);
    CHECK_EQ(lseek(fd, 4, SEEK_SET), 4);
    CHECK_EQ(weft_writev(fd, out, 2), 4);
    CHECK_EQ(weft_pwrite(fd, "xy", 2, 6), 2);
    CHECK_EQ(weft_fsync(fd), 0);
    CHECK_EQ(weft_fdatasync(fd), 0);
    /* the read goes to the disk, if there is one */
    CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    CHECK_EQ(weft_pread(fd, text, 8, 0), 8);
    CHECK(memcmp(text, "0123abxy", 8) == 0);
    CHECK_EQ(lseek(fd, 4, SEEK_SET), 4);
    CHECK_EQ(weft_readv(fd, in, 2), 4);
    CHECK(text[0] == 'a' && memcmp(more, "bxy", 3) == 0);
    CHECK_EQ(weft_pread(fd, text, 8, -1), -EINVAL);
    CHECK_EQ(weft_pwrite(fd, text, 8, -1), -EINVAL);
    CHECK_EQ(weft_close(fd), 0);
    return 0;
}

enum { WRITERS = 30 };

/* A thread is needed only for calls that do not go through io_uring: two calls with an invalid
 * offset, a write at the file position, and a read there if it is not in the page cache. */
static intptr_t write_without_threads(void *arg)
{
    weft_task *tasks[WRITERS];
    (void)arg;
    for (int i = 0; i < WRITERS; i++) {
        tasks[i] = go(write_and_read, NULL);
    }
    CHECK_EQ(weft_await_all(tasks, WRITERS, NULL), 0);
    const uint64_t jobs = stats_of(weft_runtime_self()).blocking_done;
    CHECK(jobs >= 3 * WRITERS && jobs <= 4 * WRITERS);
    return 0;
}

static void uring_file_calls_need_no_threads(void)
{
    run_with_rings(write_without_threads);
}

enum { LINES = 100 };

static intptr_t write_lines(void *arg)
{
    for (int i = 0; i < LINES; i++) {
        CHECK_EQ(weft_write(*(int *)arg, "0123456789abcde\n", 16), 16);
    }
    return 0;
}

/* All writers of a file share one file position. */
static intptr_t write_one_file(void *arg)
{
    weft_task *tasks[WRITERS];
    int fd = file_new();
    (void)arg;
    for (int i = 0; i < WRITERS; i++) {
        tasks[i] = go(write_lines, &fd);
    }
    CHECK_EQ(weft_await_all(tasks, WRITERS, NULL), 0);
    CHECK_EQ(lseek(fd, 0, SEEK_END), WRITERS * LINES * 16);
    CHECK_EQ(weft_close(fd), 0);
    return 0;
}

static void uring_writes_at_the_file_position_do_not_overlap(void)
{
    run_with_rings(write_one_file);
}

static intptr_t set_over(void *arg)
{
    raise_by_one(arg);
    return 0;
}

/* A call that succeeds at once costs the task's budget, as every operation does. */
static intptr_t read_until_over(void *arg)
{
    wf_atomic_u32 is_over = {0};
    char text[64];
    (void)arg;
    int fd = weft_open("/proc/uptime", O_RDONLY | O_CLOEXEC, 0);
    CHECK(fd >= 0);
    weft_task *task = go(set_over, &is_over);
    while (wf_load_acquire(&is_over) == 0) { /* from set_over */
        CHECK(weft_pread(fd, text, sizeof(text), 0) > 0);
    }
    CHECK_EQ(weft_await(task), 0);
    return weft_close(fd);
}

static void uring_read_loop_yields_to_other_tasks(void)
{
    const weft_runtime_options options = {.workers = 1, .io = WEFT_IO_URING, .no_monitor = true};
    CHECK_EQ(weft_run(read_until_over, NULL, &options), 0);
}

/* ---- calls that block in the kernel ---------------------------------------------------------- */

/* A read through io_uring, which waits in the kernel until there is a byte. */
static ssize_t read_by_ring(int fd, void *buffer, size_t size)
{
    struct wf_fd_op op;
    ssize_t got = 0;
    const struct wf_uring_call call = {
        .opcode = WF_URING_READ, .fd = fd, .buffer = buffer, .size = size, .offset = -1};
    CHECK_EQ(wf_fd_op_begin(&op, fd), 0);
    CHECK(wf_uring_call(&op, &call, &got));
    wf_fd_op_end(&op);
    return got;
}

static intptr_t read_byte(void *arg)
{
    char byte = 0;
    const ssize_t got = read_by_ring(*(int *)arg, &byte, 1);
    return got == 1 ? byte : got;
}

static intptr_t read_for_a_moment(void *arg)
{
    (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    return read_byte(arg);
}

static intptr_t interrupt_a_call(void *arg)
{
    (void)arg;
    int pipes[2];
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    for (int i = 0; i < 10; i++) {
        weft_task *task = go(read_byte, &pipes[0]);
        wait_until_blocked(task, WEFT_WAIT_READABLE);
        CHECK_EQ(weft_cancel(task), 0);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(weft_await(go(read_for_a_moment, &pipes[0])), -ETIMEDOUT);
        CHECK_EQ(write(pipes[1], "x", 1), 1);
        CHECK_EQ(weft_await(go(read_byte, &pipes[0])), 'x'); /* the cancelled reads took no byte */
    }
    CHECK_EQ(weft_close(pipes[0]), 0);
    CHECK_EQ(weft_close(pipes[1]), 0);
    return 0;
}

static void uring_waiting_call_can_be_cancelled(void)
{
    run_with_rings(interrupt_a_call);
}

enum { MANY = 1300 }; /* a ring holds 1024 */

struct beside {
    int pipe;
    wf_atomic_u32 is_reading;
};

static void *write_many(void *arg)
{
    static const char bytes[MANY];
    struct beside *beside = arg;
    while (wf_load_acquire(&beside->is_reading) == 0) { /* from complete_during_a_call */
        (void)sched_yield();
    }
    CHECK_EQ(write(beside->pipe, bytes, MANY), MANY);
    return NULL;
}

/* The completions come while the worker is in the kernel for another call, and raise no event. */
static intptr_t complete_during_a_call(void *arg)
{
    static weft_task *tasks[MANY];
    const size_t size = (size_t)32 << 20;
    char *buffer = calloc(1, size);
    struct beside beside = {.is_reading = {0}};
    pthread_t thread;
    int pipes[2];
    (void)arg;
    CHECK(buffer != NULL);
    int fd = file_new();
    CHECK_EQ(write(fd, buffer, size), (ssize_t)size);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    for (int i = 0; i < MANY; i++) {
        tasks[i] = go(read_byte, &pipes[0]);
    }
    for (int i = 0; i < MANY; i++) {
        wait_until_blocked(tasks[i], WEFT_WAIT_READABLE);
    }
    beside.pipe = pipes[1];
    CHECK_EQ(wf_thread_start(&thread, write_many, &beside, NULL), 0);
    raise_by_one(&beside.is_reading);
    CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    CHECK_EQ(read_by_ring(fd, buffer, size), (ssize_t)size);
    CHECK_EQ(weft_await_all(tasks, MANY, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    CHECK_EQ(weft_close(pipes[0]), 0);
    CHECK_EQ(weft_close(pipes[1]), 0);
    CHECK_EQ(weft_close(fd), 0);
    free(buffer);
    return 0;
}

static void uring_completions_during_another_call_are_reaped(void)
{
    const weft_runtime_options options = {.workers = 1, .io = WEFT_IO_URING};
    for (int round = 0; round < 3; round++) {
        CHECK_EQ(weft_run(complete_during_a_call, NULL, &options), 0);
    }
}

/* More completions than a ring holds, all at once. */
static intptr_t complete_many(void *arg)
{
    (void)arg;
    static weft_task *tasks[MANY];
    static const char bytes[MANY];
    int pipes[2];
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    for (int i = 0; i < MANY; i++) {
        tasks[i] = go(read_byte, &pipes[0]);
    }
    for (int i = 0; i < MANY; i++) {
        wait_until_blocked(tasks[i], WEFT_WAIT_READABLE);
    }
    CHECK_EQ(write(pipes[1], bytes, MANY), MANY);
    CHECK_EQ(weft_await_all(tasks, MANY, NULL), 0);
    CHECK_EQ(weft_close(pipes[0]), 0);
    CHECK_EQ(weft_close(pipes[1]), 0);
    return 0;
}

static void uring_completions_beyond_the_ring_size_are_reaped(void)
{
    run_with_rings(complete_many);
}

static intptr_t read_shielded(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    return read_byte(arg); /* never returns: the runtime is closed by force */
}

/* The kernel has released the frames of tasks before they are freed. */
static void uring_forced_close_waits_for_the_kernel(void)
{
    skip_without_rings();
    for (struct tour tour = {.which = EVERYWHERE}; ring_tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        int pipes[2];
        char byte = 0;
        CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, read_shielded, &pipes[0]);
        wait_until_blocked(task, WEFT_WAIT_READABLE);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(write(pipes[1], "x", 1), 1);
        CHECK_EQ(read(pipes[0], &byte, 1), 1); /* otherwise a freed frame received the byte */
        CHECK_EQ(weft_close(pipes[0]), 0);
        CHECK(!is_open(pipes[0]));
        CHECK_EQ(weft_close(pipes[1]), 0);
    }
}

/* ---- sockets --------------------------------------------------------------------------------- */

enum { PAIRS = 100, ROUNDS = 20 };

static intptr_t echo_all(void *arg)
{
    const int fd = *(int *)arg;
    char text[16];
    ssize_t got;
    while ((got = weft_read(fd, text, sizeof(text))) > 0) {
        CHECK_EQ(weft_write_all(fd, text, (size_t)got), 0);
    }
    return got;
}

/* Sends on all sockets before it waits for any: the answering tasks become ready at once. */
static intptr_t talk_to_many(void *arg)
{
    static struct pair pairs[PAIRS];
    weft_task *tasks[PAIRS];
    (void)arg;
    for (int i = 0; i < PAIRS; i++) {
        pairs[i] = i % 2 == 0 ? pair_new(SOCK_STREAM) : tcp_pair_new();
        tasks[i] = go(echo_all, &pairs[i].near);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PAIRS; i++) {
            const char text[2] = {(char)i, (char)round};
            CHECK_EQ(weft_write(pairs[i].far, text, 2), 2);
        }
        for (int i = 0; i < PAIRS; i++) {
            char text[2];
            CHECK_EQ(weft_read_full(pairs[i].far, text, 2), 2);
            CHECK_EQ(text[0], (char)i);
            CHECK_EQ(text[1], (char)round);
        }
    }
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(weft_close(pairs[i].far), 0);
        CHECK_EQ(weft_await(tasks[i]), 0);
        CHECK_EQ(weft_close(pairs[i].near), 0);
    }
    return 0;
}

static void uring_requests_of_many_tasks_are_submitted_together(void)
{
    for (unsigned tries = 0; tries_to_reach("uring.submitted_together", &tries);) {
        run_with_rings(talk_to_many);
    }
    check_reached("uring.submitted_together");
}

static intptr_t get_byte(void *arg)
{
    char byte = 0;
    const ssize_t got = weft_read(*(int *)arg, &byte, 1);
    return got == 1 ? byte : got;
}

/* [task]  Submits as the leader does when it wakes: the second time nothing new is queued. */
static void submit_stuck_twice(void)
{
    struct wf_poller *poller = NULL;
    CHECK_EQ(wf_poller_of(weft_runtime_self(), &poller), 0);
    wf_uring_submit_stuck(poller);
    wf_uring_submit_stuck(poller);
}

static intptr_t occupy_worker(void *arg)
{
    struct pair *pair = arg;
    char byte = 0;
    submit_stuck_twice();
    /* Without a call that would submit the pending requests. */
    return recv(pair->far, &byte, 1, MSG_DONTWAIT) == 1 ? byte : -errno;
}

/* A task has left its request unsubmitted, and the next task does not yield the worker. */
static intptr_t leave_request_unsubmitted(void *arg)
{
    (void)arg;
    struct pair pair = pair_new(SOCK_STREAM);
    CHECK_EQ(weft_fd_wait(pair.near, POLLOUT), POLLOUT);
    for (int i = 0; i < 10; i++) {
        weft_task *writer = go(write_one, &pair.near);
        weft_task *occupier = go(occupy_worker, &pair);
        CHECK_EQ(weft_await(writer), 0);
        const intptr_t byte = weft_await(occupier);
        if (byte == -EAGAIN) { /* it was the first to run */
            CHECK_EQ(weft_await(go(get_byte, &pair.far)), 'x');
        } else {
            CHECK_EQ(byte, 'x');
        }
    }
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return 0;
}

static void uring_leader_submits_requests_of_a_stuck_worker(void)
{
    skip_without_rings();
    for (unsigned tries = 0; tries_to_reach("uring.submitted_for_stuck_worker", &tries);) {
        for (struct tour tour = {.which = ON_ONE_WORKER}; ring_tour_next(&tour);) {
            CHECK_EQ(weft_run(leave_request_unsubmitted, NULL, &tour.options), 0);
        }
    }
    check_reached("uring.submitted_for_stuck_worker");
}

/* ---- spares ---------------------------------------------------------------------------------- */

static wf_atomic_u32 has_written;

static intptr_t write_and_report(void *arg)
{
    (void)arg;
    CHECK_EQ(write_and_read(NULL), 0);
    raise_by_one(&has_written);
    return 0;
}

/* The only worker blocks until a spare worker has written a file. */
static intptr_t block_until_written(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_fd_wait(STDOUT_FILENO, POLLOUT), POLLOUT);
    weft_task *writer = go(write_and_report, NULL);
    weft_block_begin();
    hold_for(&has_written, 1);
    weft_block_end();
    return weft_await(writer);
}

static void uring_spare_worker_has_a_ring(void)
{
    const weft_runtime_options options = {.workers = 1, .io = WEFT_IO_URING};
    skip_without_rings();
    CHECK_EQ(weft_run(block_until_written, NULL, &options), 0);
    check_reached("uring.ring_of_spare");
}

/* ---- refusals -------------------------------------------------------------------------------- */

#ifdef WF_TEST_HOOKS

static wf_atomic_u32 changes; /* of the backend, while it was in use */

/* A request that the ring refuses is made without it. */
static intptr_t write_with_fault(void *arg)
{
    struct faults *faults = arg;
    char text[4] = "";
    unsigned refused = 0;
    int fd = file_new();
    faults_begin(faults);
    refused += weft_pwrite(fd, "weft", 4, 0) != 4;
    refused += weft_fsync(fd) != 0;
    refused += weft_pread(fd, text, 4, 0) < 0;
    faults_end(faults);
    const bool is_ours = faults->what != NULL && strncmp(faults->what, "io_uring", 8) == 0;
    CHECK(!is_ours || refused == 0);
    CHECK(refused > 0 || memcmp(text, "weft", 4) == 0);
    if (is_ours && stats_of(weft_runtime_self()).io == WEFT_IO_EPOLL) {
        raise_by_one(&changes);
    }
    faults_refused(faults, refused);
    CHECK_EQ(weft_close(fd), 0);
    return 0;
}

static void uring_refused_requests_fall_back(void)
{
    faults_prepare();
    skip_without_rings();
    CHECK_EQ(setenv("WEFT_IO", "uring", 1), 0);
    /* allocates the page of the fd table, which stays */
    CHECK_EQ(weft_close(listening("127.0.0.1:0")), 0);
    fail_each(write_with_fault, 1); /* no memory for the poller */
    CHECK_EQ(unsetenv("WEFT_IO"), 0);
    CHECK(wf_load_relaxed(&changes) >= 2); /* when it is opened, and later */
}

#endif

/* ---- beside a blocking task --------------------------------------------------------------------
 */

static intptr_t send_one(void *arg)
{
    CHECK_EQ(weft_write(((const struct pair *)arg)->near, "x", 1), 1);
    return 0;
}

static intptr_t block_until_sent(void *arg)
{
    char byte;
    weft_block_begin();
    CHECK_EQ(read(((const struct pair *)arg)->far, &byte, 1), 1);
    weft_block_end();
    return 0;
}

/* The send stays in the submission queue because other tasks are ready; one of these blocks until
 * the byte has arrived. */
static intptr_t block_behind_a_send(void *arg)
{
    struct pair pair = pair_new(SOCK_STREAM);
    wf_atomic_u32 spare = {0};
    (void)arg;
    CHECK_EQ(weft_fd_wait(pair.near, POLLOUT), POLLOUT);
    for (int round = 0; round < 3 && HAS_ORDER; round++) { /* the send must run first */
        weft_task *tasks[] = {go(send_one, &pair), go(block_until_sent, &pair),
                              go(set_over, &spare)};
        CHECK_EQ(weft_await_all(tasks, 3, NULL), 0);
    }
    CHECK_EQ(weft_close(pair.near), 0);
    return weft_close(pair.far);
}

static void uring_blocking_task_submits_pending_requests_first(void)
{
    const weft_runtime_options options = {.workers = 1, .io = WEFT_IO_URING, .no_monitor = true};
    CHECK_EQ(weft_run(block_behind_a_send, NULL, &options), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(uring_runtime_reports_its_backend),
    TAP_TEST(uring_file_calls_need_no_threads),
    TAP_TEST(uring_writes_at_the_file_position_do_not_overlap),
    TAP_TEST(uring_read_loop_yields_to_other_tasks),
    TAP_TEST(uring_waiting_call_can_be_cancelled),
    TAP_TEST(uring_completions_during_another_call_are_reaped),
    TAP_TEST(uring_blocking_task_submits_pending_requests_first),
    TAP_TEST(uring_completions_beyond_the_ring_size_are_reaped),
    TAP_TEST(uring_forced_close_waits_for_the_kernel),
    TAP_TEST(uring_requests_of_many_tasks_are_submitted_together),
    TAP_TEST(uring_leader_submits_requests_of_a_stuck_worker),
    TAP_TEST(uring_spare_worker_has_a_ring),
#ifdef WF_TEST_HOOKS
    TAP_TEST(uring_refused_requests_fall_back),
#endif
};
TAP_MAIN(tests)
