/* SPDX-License-Identifier: MIT */
/*
 * Goal:   calls that the kernel makes through a ring give what the system call gives; who is
 *         cancelled leaves when the kernel has let go of its buffer; and a kernel that refuses
 *         rings, at any moment, is one that is asked in another way.
 * Method: files, and pipes, which wait for as long as the test likes; every call fails once.
 */
#include <sys/uio.h>

#include "fault_aids.h"
#include "io/io.h"
#include "net_aids.h"

static void skip_without_rings(void);

/* The tour, with io_uring asked for. */
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

/* ---- which it is ----------------------------------------------------------------------------- */

static intptr_t give_backend(void *arg)
{
    (void)arg;
    CHECK_EQ(stats_of(weft_runtime_self()).io, WEFT_IO_AUTO); /* nobody has needed any */
    CHECK_EQ(weft_poll_fd(STDOUT_FILENO, POLLOUT), POLLOUT);
    return (intptr_t)stats_of(weft_runtime_self()).io;
}

static void skip_without_rings(void)
{
    const weft_options options = {.workers = 1, .io = WEFT_IO_URING};
    if (weft_run(give_backend, NULL, &options) != WEFT_IO_URING) {
        tap_skip("this kernel refuses io_uring");
    }
}

/* S4.44: the backend can be chosen. */
static void a_runtime_says_by_what_it_does_io(void)
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
    CHECK_EQ(weft_write(fd, "0123", 4), 4);
    CHECK_EQ(weft_writev(fd, out, 2), 4);
    CHECK_EQ(weft_pwrite(fd, "xy", 2, 6), 2);
    CHECK_EQ(weft_fsync(fd), 0);
    CHECK_EQ(weft_fdatasync(fd), 0);
    CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0); /* read from the disk, if there is */
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

/* A thread is only needed for what no ring is asked for: two calls with a place that is none. */
static intptr_t write_without_threads(void *arg)
{
    weft_task *tasks[WRITERS];
    (void)arg;
    for (int i = 0; i < WRITERS; i++) {
        tasks[i] = go(write_and_read, NULL);
    }
    CHECK_EQ(weft_await_all(tasks, WRITERS, NULL), 0);
    CHECK_EQ(stats_of(weft_runtime_self()).blocking_done, 2 * WRITERS);
    return 0;
}

static void files_take_no_threads(void)
{
    run_with_rings(write_without_threads);
}

/* ---- calls that wait ------------------------------------------------------------------------- */

/* A read by the kernel, which waits in it until there is a byte. */
static ssize_t read_by_ring(int fd, void *buffer, size_t size)
{
    struct wf_use use;
    ssize_t got = 0;
    const struct wf_ring_call call = {
        .what = WF_RING_READ, .fd = fd, .buffer = buffer, .size = size, .offset = -1};
    CHECK_EQ(wf_use_begin(&use, fd), 0);
    CHECK(wf_ring_call(&use, &call, &got));
    wf_use_end(&use);
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
    (void)weft_deadline(weft_in(WEFT_MILLISECOND));
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
        CHECK_EQ(weft_await(go(read_byte, &pipes[0])), 'x'); /* they had moved nothing */
    }
    CHECK_EQ(weft_close(pipes[0]), 0);
    CHECK_EQ(weft_close(pipes[1]), 0);
    return 0;
}

static void a_call_that_waits_is_cancelled(void)
{
    run_with_rings(interrupt_a_call);
}

enum { MANY = 3000 };

/* More than a ring has room for, all at once. */
static intptr_t answer_many(void *arg)
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

static void more_answers_than_a_ring_has_room_for_are_heard(void)
{
    run_with_rings(answer_many);
}

static intptr_t read_shielded(void *arg)
{
    CHECK_EQ(weft_shield(1), 0);
    return read_byte(arg); /* never returns: the runtime is closed by force */
}

/* The kernel has let go of the frames of tasks before they are freed. */
static void a_forced_close_waits_for_the_kernel(void)
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
        CHECK_EQ(read(pipes[0], &byte, 1), 1); /* else a frame that is gone has it */
        CHECK_EQ(weft_close(pipes[0]), 0);
        CHECK(!is_open(pipes[0]));
        CHECK_EQ(weft_close(pipes[1]), 0);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

#ifdef WF_TEST_AIDS

static wf_atomic_u32 changes; /* of the backend, while it was in use */

/* Whatever the ring refuses is done without it. */
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

static void what_a_ring_refuses_is_done_without_it(void)
{
    faults_prepare();
    skip_without_rings();
    CHECK_EQ(setenv("WEFT_IO", "uring", 1), 0);
    CHECK_EQ(weft_close(listening("127.0.0.1:0")), 0); /* the table of descriptors stays */
    fail_each(write_with_fault, 1);                    /* no memory for the poller */
    CHECK_EQ(unsetenv("WEFT_IO"), 0);
    CHECK(wf_load_relaxed(&changes) >= 2); /* when it is opened, and later */
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(a_runtime_says_by_what_it_does_io),
    TAP_TEST(files_take_no_threads),
    TAP_TEST(a_call_that_waits_is_cancelled),
    TAP_TEST(more_answers_than_a_ring_has_room_for_are_heard),
    TAP_TEST(a_forced_close_waits_for_the_kernel),
#ifdef WF_TEST_AIDS
    TAP_TEST(what_a_ring_refuses_is_done_without_it),
#endif
};
TAP_MAIN(tests)
