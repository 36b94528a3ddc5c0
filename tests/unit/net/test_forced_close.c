/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a forced close abandons a task inside any call of io and net that waits or takes
 *         something over, and leaves nothing of the call: no descriptor, no reference to a
 *         descriptor, no memory, no child process.
 * Method: every such call of weft/io.h, net.h, file.h, signals.h, child.h and buffer.h, in a task
 *         that is shielded from cancellation.
 *         - waits:     what the call waits for never comes
 *         - queued:    the call needs the blocking pool, whose only thread is busy
 *         - complete:  the call needs one more slice, and its only worker is busy
 *         Descriptors, blocks of memory and child processes are counted before and after.  Keeps
 *         part of behaviours 32, 57 and 60.
 */
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <weft/blocking.h>
#include <weft/buffer.h>
#include <weft/child.h>
#include <weft/file.h>
#include <weft/signals.h>

#include "fault_helpers.h"
#include "helpers.h"
#include "net/net.h"
#include "net_helpers.h"
#include "sched/sched.h"

enum { TEXT = 64 };

/* What the call of one task works on. */
struct scene {
    const struct call *call;
    struct hog *hog;     /* NULL: the worker is free */
    struct pair pair;    /* nothing can be read from either end, and nothing written */
    int file;            /* a regular file */
    int listener;        /* no connection comes */
    weft_address silent; /* never answers */
    weft_child *child;   /* lives until it is killed */
    char path[TEXT];     /* of the file */
    char crowded[TEXT];  /* of a Unix socket whose backlog is full */
    sigset_t signals;
    char buffer[TEXT];
};

struct call {
    const char *name;
    intptr_t (*run)(struct scene *scene);
};

/* ---- calls that wait for a descriptor -------------------------------------------------------- */

static struct iovec vector_of(struct scene *scene)
{
    return (struct iovec){.iov_base = scene->buffer, .iov_len = TEXT};
}

static intptr_t call_read(struct scene *scene)
{
    return weft_read(scene->pair.near, scene->buffer, TEXT);
}

static intptr_t call_readv(struct scene *scene)
{
    const struct iovec part = vector_of(scene);
    return weft_readv(scene->pair.near, &part, 1);
}

static intptr_t call_read_full(struct scene *scene)
{
    return weft_read_full(scene->pair.near, scene->buffer, TEXT);
}

static intptr_t call_socket_recv(struct scene *scene)
{
    return weft_recv(scene->pair.near, scene->buffer, TEXT, 0);
}

static intptr_t call_recvfrom(struct scene *scene)
{
    return weft_recvfrom(scene->pair.near, scene->buffer, TEXT, 0, NULL, NULL);
}

static intptr_t call_recvmsg(struct scene *scene)
{
    struct iovec part = vector_of(scene);
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return weft_recvmsg(scene->pair.near, &message, 0);
}

static intptr_t call_write(struct scene *scene)
{
    fill(scene->pair.near);
    return weft_write(scene->pair.near, scene->buffer, TEXT);
}

static intptr_t call_writev(struct scene *scene)
{
    const struct iovec part = vector_of(scene);
    fill(scene->pair.near);
    return weft_writev(scene->pair.near, &part, 1);
}

static intptr_t call_write_all(struct scene *scene)
{
    fill(scene->pair.near);
    return weft_write_all(scene->pair.near, scene->buffer, TEXT);
}

static intptr_t call_socket_send(struct scene *scene)
{
    fill(scene->pair.near);
    return weft_send(scene->pair.near, scene->buffer, TEXT, 0);
}

static intptr_t call_sendto(struct scene *scene)
{
    fill(scene->pair.near);
    return weft_sendto(scene->pair.near, scene->buffer, TEXT, 0, NULL, 0);
}

static intptr_t call_sendmsg(struct scene *scene)
{
    struct iovec part = vector_of(scene);
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    fill(scene->pair.near);
    return weft_sendmsg(scene->pair.near, &message, 0);
}

static intptr_t call_poll_fd(struct scene *scene)
{
    return weft_fd_wait(scene->pair.near, POLLIN);
}

static intptr_t call_fd_future(struct scene *scene)
{
    weft_wait_future future;
    weft_fd_wait_future(&future, scene->pair.near, POLLIN);
    return weft_future_await(&future.future);
}

static intptr_t call_select(struct scene *scene)
{
    weft_case cases[] = {weft_case_fd(scene->pair.near, POLLIN),
                         weft_case_signal(&scene->signals, NULL)};
    return weft_select(cases, 2);
}

static intptr_t call_accept(struct scene *scene)
{
    return weft_accept(scene->listener, NULL, NULL);
}

/* The caller owns the socket in any case: the pair has it, so that it is closed with that. */
static intptr_t call_connect(struct scene *scene)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(dup2(fd, scene->pair.near), scene->pair.near);
    CHECK_EQ(close(fd), 0);
    return weft_connect(scene->pair.near, &scene->silent.as.any, scene->silent.size);
}

/* The kernel reports nothing for it: the call sleeps and tries again. */
static intptr_t call_connect_crowded(struct scene *scene)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, scene->crowded, TEXT);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(dup2(fd, scene->pair.near), scene->pair.near);
    CHECK_EQ(close(fd), 0);
    return weft_connect(scene->pair.near, (struct sockaddr *)&address, sizeof(address));
}

static intptr_t call_reader(struct scene *scene)
{
    weft_reader reader;
    weft_view line;
    CHECK_EQ(weft_reader_init(&reader, scene->pair.near, scene->buffer, TEXT), 0);
    return weft_reader_read_line(&reader, &line, 0);
}

static intptr_t call_writer(struct scene *scene)
{
    weft_writer writer;
    fill(scene->pair.near);
    CHECK_EQ(weft_writer_init(&writer, scene->pair.near, scene->buffer, TEXT), 0);
    CHECK_EQ(weft_writer_printf(&writer, "x"), 1);
    return weft_writer_flush(&writer);
}

static intptr_t call_copy(struct scene *scene)
{
    return weft_fd_copy(scene->pair.near, scene->pair.near, 1, NULL); /* by a buffer */
}

static intptr_t call_dial_one(struct scene *scene)
{
    return weft_net_dial(text_of(&scene->silent).text);
}

static intptr_t call_dial_race(struct scene *scene)
{
    const weft_address both[2] = {scene->silent, scene->silent};
    return wf_dial_addresses(both, 2, 0);
}

static intptr_t call_signal_wait(struct scene *scene)
{
    return weft_signal_wait(&scene->signals, NULL);
}

static intptr_t call_child_wait(struct scene *scene)
{
    return weft_child_wait(scene->child, NULL);
}

/* ---- calls that need a thread of the blocking pool ------------------------------------------- */

static intptr_t call_open(struct scene *scene)
{
    return weft_open(scene->path, O_RDWR | O_CLOEXEC, 0);
}

static intptr_t call_file_write(struct scene *scene)
{
    return weft_write(scene->file, scene->buffer, TEXT);
}

static intptr_t call_file_writev(struct scene *scene)
{
    const struct iovec part = vector_of(scene);
    return weft_writev(scene->file, &part, 1);
}

static intptr_t call_file_read(struct scene *scene)
{
    CHECK_EQ(posix_fadvise(scene->file, 0, 0, POSIX_FADV_DONTNEED), 0);
    return weft_read(scene->file, scene->buffer, TEXT);
}

static intptr_t call_pread(struct scene *scene)
{
    CHECK_EQ(posix_fadvise(scene->file, 0, 0, POSIX_FADV_DONTNEED), 0);
    return weft_pread(scene->file, scene->buffer, TEXT, 0);
}

static intptr_t call_pwrite(struct scene *scene)
{
    return weft_pwrite(scene->file, scene->buffer, TEXT, 0);
}

static intptr_t call_fsync(struct scene *scene)
{
    return weft_fsync(scene->file);
}

static intptr_t call_fdatasync(struct scene *scene)
{
    return weft_fdatasync(scene->file);
}

static intptr_t call_copy_file(struct scene *scene)
{
    return weft_fd_copy(scene->pair.near, scene->file, 1, NULL);
}

static intptr_t call_resolve(struct scene *scene)
{
    weft_address_list *found;
    (void)scene;
    return weft_net_resolve(&found, "localhost", "80");
}

static intptr_t call_dial_name(struct scene *scene)
{
    (void)scene;
    return weft_net_dial("localhost:1");
}

static int child_start(weft_child **out)
{
    static const char *const argv[] = {"/bin/sleep", "1000", NULL};
    const weft_child_options options = {
        .argv = argv, .in = {.kind = WEFT_CHILD_PIPE}, .out = {.kind = WEFT_CHILD_PIPE}};
    return weft_child_spawn(out, &options);
}

static intptr_t call_child_spawn(struct scene *scene)
{
    (void)scene;
    weft_child *child;
    return child_start(&child);
}

/* Takes the child over: it is gone, whatever becomes of the task. */
static intptr_t call_child_close(struct scene *scene)
{
    weft_child *child = scene->child;
    scene->child = NULL;
    return weft_child_close(child);
}

#define CALL(name)                                                                                 \
    {                                                                                              \
#name, call_##name                                                                         \
    }
static const struct call waits[] = {
    CALL(read),     CALL(readv),     CALL(read_full),  CALL(socket_recv), CALL(recvfrom),
    CALL(recvmsg),  CALL(write),     CALL(writev),     CALL(write_all),   CALL(socket_send),
    CALL(sendto),   CALL(sendmsg),   CALL(poll_fd),    CALL(fd_future),   CALL(select),
    CALL(accept),   CALL(connect),   CALL(reader),     CALL(writer),      CALL(copy),
    CALL(dial_one), CALL(dial_race), CALL(child_wait), CALL(signal_wait), CALL(connect_crowded),
};

static const struct call pooled[] = {
    CALL(open),      CALL(file_write), CALL(file_writev), CALL(file_read),
    CALL(pread),     CALL(pwrite),     CALL(fsync),       CALL(fdatasync),
    CALL(copy_file), CALL(resolve),    CALL(dial_name),   CALL(child_spawn),
};

/* With these the last slice does something. */
static const struct call completed[] = {
    CALL(open), CALL(pwrite), CALL(resolve), CALL(child_spawn), CALL(copy_file), CALL(child_close),
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- scenes ---------------------------------------------------------------------------------- */

/* A Unix socket that listens, with as many connections as fit. */
static int crowded_new(char *path, int fds[8])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(snprintf(address.sun_path, TEXT, "/tmp/weft-crowd-%d", getpid()) < TEXT);
    memcpy(path, address.sun_path, TEXT);
    (void)unlink(path); /* of an earlier run */
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    CHECK_EQ(listen(fd, 0), 0);
    for (int i = 0; i < 8; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fds[i], (struct sockaddr *)&address,
                      sizeof(address)); /* the last ones fail */
    }
    return fd;
}

/* What all scenes share. */
struct stage {
    struct scene model;
    int silent;
    int crowd;
    int crowd_fds[8];
};

static void stage_init(struct stage *stage)
{
    struct scene *model = &stage->model;
    *model = (struct scene){.path = "/tmp/weft-forced-XXXXXX"};
    model->file = mkstemp(model->path);
    CHECK(model->file >= 0);
    CHECK_EQ(write(model->file, model->path, TEXT), TEXT);
    model->listener = listening("127.0.0.1:0");
    stage->silent = silent(&model->silent);
    stage->crowd = crowded_new(model->crowded, stage->crowd_fds);
    CHECK_EQ(sigemptyset(&model->signals) + sigaddset(&model->signals, SIGUSR1), 0);
    CHECK_EQ(weft_signals_block(&model->signals), 0);
}

static void stage_done(const struct stage *stage)
{
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(close(stage->crowd_fds[i]), 0);
    }
    CHECK_EQ(close(stage->crowd), 0);
    CHECK_EQ(unlink(stage->model.crowded), 0);
    CHECK_EQ(unlink(stage->model.path), 0);
    CHECK_EQ(weft_close(stage->model.file) + weft_close(stage->model.listener), 0);
    CHECK(!is_open(stage->model.file) &&
          !is_open(stage->model.listener)); /* no operation is left */
    CHECK_EQ(weft_close(stage->silent), 0);
}

static void scene_done(const struct scene *scene)
{
    CHECK_EQ(weft_close(scene->pair.near), 0);
    CHECK(!is_open(scene->pair.near)); /* no operation is left */
    CHECK_EQ(weft_close(scene->pair.far), 0);
}

/* Keeps the only worker until it is released. */
struct hog {
    wf_atomic_u32 is_running;
    wf_atomic_u32 release;
};

static intptr_t run_hog(void *arg)
{
    struct hog *hog = arg;
    raise_by_one(&hog->is_running);
    hold_for(&hog->release, 1);
    return 0;
}

static intptr_t run_call(void *arg)
{
    struct scene *scene = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    if (scene->hog != NULL) {
        weft_task_unref(go(run_hog, scene->hog)); /* it runs when this task waits */
    }
    const intptr_t rc = scene->call->run(scene);
    if (scene->call->run == call_open && rc >= 0) {
        CHECK_EQ(weft_close((int)rc), 0); /* the call was not abandoned: the result is ours */
    }
    return rc < 0 ? rc : 0;
}

static void wait_until_it_waits(const weft_task *task)
{
    enum weft_task_state state;
    do {
        let_others_run();
        state = state_of(task);
    } while (state < WEFT_TASK_BLOCKED);
}

/* ---- what never comes ------------------------------------------------------------------------ */

static void abandon_waits(const struct stage *stage, const weft_runtime_options *options,
                          weft_child *child)
{
    struct scene scenes[COUNT(waits)];
    weft_task *tasks[COUNT(waits)];
    weft_runtime *runtime = NULL;
    for (size_t i = 0; i < COUNT(waits); i++) {
        scenes[i] = stage->model;
        scenes[i].call = &waits[i];
        scenes[i].child = child;
        scenes[i].pair = pair_new(SOCK_STREAM);
    }
    const size_t open_before = open_count();
    const uint64_t blocks_before = blocks_out();
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    for (size_t i = 0; i < COUNT(waits); i++) {
        tasks[i] = go_into(runtime, run_call, &scenes[i]);
        wait_until_it_waits(tasks[i]);
    }
    CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    for (size_t i = 0; i < COUNT(waits); i++) {
        tap_doing("%s", waits[i].name);
        CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
    }
    tap_doing("all %zu waits", COUNT(waits));
    CHECK_EQ(open_count(), open_before);
    CHECK_EQ(blocks_out(), blocks_before);
    for (size_t i = 0; i < COUNT(waits); i++) {
        tap_doing("%s", waits[i].name);
        scene_done(&scenes[i]);
    }
}

static void forced_close_leaves_nothing_of_calls_that_wait(void)
{
    struct stage stage;
    weft_child *child = NULL;
    faults_prepare();
    stage_init(&stage);
    CHECK_EQ(child_start(&child), 0);
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        abandon_waits(&stage, &tour.options, child);
    }
    CHECK_EQ(weft_child_close(child), 0);
    stage_done(&stage);
}

/* A connection comes, and the process has no descriptor for it: the accept sleeps and tries again.
 */
static intptr_t accept_without_descriptors(void *arg)
{
    struct rlimit none;
    CHECK_EQ(weft_shield_begin(), 0);
    CHECK_EQ(weft_fd_wait(STDOUT_FILENO, POLLOUT), POLLOUT); /* the poller is open */
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &none), 0);
    none.rlim_cur = 3;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    return weft_accept(*(const int *)arg, NULL, NULL);
}

static void forced_close_leaves_nothing_of_an_accept_that_sleeps(void)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        struct sockaddr_in address;
        weft_runtime *runtime = NULL;
        int listener = listen_here(&address);
        const int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK_EQ(connect(near, (struct sockaddr *)&address, sizeof(address)), 0);
        const size_t open_before = open_count();
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, accept_without_descriptors, &listener);
        wait_until_blocked(task, WEFT_WAIT_TIME);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        CHECK_EQ(open_count(), open_before);
        CHECK_EQ(weft_close(listener), 0);
        CHECK(!is_open(listener));
        CHECK_EQ(close(near), 0);
    }
}

/* ---- a busy pool ----------------------------------------------------------------------------- */

/* Keeps the only thread of the pool until a cell is raised. */
struct hold {
    wf_atomic_u32 is_running;
    wf_atomic_u32 *release;
};

static intptr_t hold_thread(void *arg)
{
    struct hold *hold = arg;
    raise_by_one(&hold->is_running);
    hold_for(hold->release, 1);
    return 0;
}

static intptr_t hold_pool(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    return weft_blocking_call(hold_thread, arg);
}

struct closing {
    weft_runtime *runtime;
    struct hog *hog;
    int closer; /* id of its thread */
};

/* Releases the hog when the close waits for it: the closer has told the workers to leave, and
 * sleeps until their threads and those of the pool have ended. */
static void *release_later(void *arg)
{
    const struct closing *closing = arg;
    while (wf_load_acquire(&closing->runtime->shutdown.exit_mode) ==
           WF_EXIT_NOT) { /* from the closer */
        (void)sched_yield();
    }
    wait_until_asleep(closing->closer);
    raise_by_one(&closing->hog->release);
    return NULL;
}

/* 0 if no task was left to abandon: io_uring may complete a call of a file at once. */
static void close_by_force(weft_runtime *runtime, struct hog *hog)
{
    pthread_t thread;
    struct closing closing = {runtime, hog, wf_thread_id()};
    CHECK_EQ(pthread_create(&thread, NULL, release_later, &closing), 0);
    const int rc = weft_runtime_close(runtime, 0);
    CHECK(rc == -ETIMEDOUT || rc == 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void abandon_queued(const struct stage *stage, const weft_runtime_options *options)
{
    struct scene scenes[COUNT(pooled)];
    weft_task *tasks[COUNT(pooled)];
    weft_runtime *runtime = NULL;
    struct hog hog = {{0}, {0}};
    struct hold hold = {.release = &hog.release};
    for (size_t i = 0; i < COUNT(pooled); i++) {
        scenes[i] = stage->model;
        scenes[i].call = &pooled[i];
        scenes[i].pair = pair_new(SOCK_STREAM);
    }
    const size_t open_before = open_count();
    const uint64_t blocks_before = blocks_out();
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    weft_task *holder = go_into(runtime, hold_pool, &hold);
    wait_for(&hold.is_running, 1);
    for (size_t i = 0; i < COUNT(pooled); i++) {
        tasks[i] = go_into(runtime, run_call, &scenes[i]);
        wait_until_it_waits(tasks[i]);
    }
    close_by_force(runtime, &hog);
    (void)weft_await(holder); /* it may have heard of the end of its function */
    for (size_t i = 0; i < COUNT(pooled); i++) {
        tap_doing("%s", pooled[i].name);
        const intptr_t rc = weft_await(tasks[i]);
        CHECK(rc == -ECANCELED || rc == 0); /* 0: io_uring or the page cache needs no thread */
    }
    tap_doing("all %zu calls", COUNT(pooled));
    CHECK_EQ(open_count(), open_before);
    CHECK_EQ(blocks_out(), blocks_before);
    for (size_t i = 0; i < COUNT(pooled); i++) {
        tap_doing("%s", pooled[i].name);
        scene_done(&scenes[i]);
    }
}

static void forced_close_leaves_nothing_of_calls_for_the_pool(void)
{
    struct stage stage;
    faults_prepare();
    stage_init(&stage);
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        tour.options.blocking_max = 1;
        abandon_queued(&stage, &tour.options);
    }
    stage_done(&stage);
}

/* ---- a busy worker --------------------------------------------------------------------------- */

/* The task waits, or has ended. Waits until its call has come as far as it can without the task. */
static void wait_for_call(weft_runtime *runtime, const weft_task *task, const struct call *call)
{
    const enum weft_wait wait = info_of(task).wait;
    if (wait == WEFT_WAIT_BLOCKING || wait == WEFT_WAIT_WAKER) { /* the pool has it */
        while (stats_of(runtime).blocking_done < 2) {            /* the holder's and this one */
            (void)sched_yield();
        }
    }
    if (call->run == call_child_close) { /* it has killed the child */
        siginfo_t info;
        CHECK(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0 || errno == ECHILD);
    }
}

static void abandon_completed(const struct stage *stage, const struct call *call,
                              const weft_runtime_options *options)
{
    weft_runtime *runtime = NULL;
    struct hog hog = {{0}, {0}};
    struct hold hold = {.release = &hog.is_running}; /* so that the task waits before */
    struct scene scene = stage->model;
    const size_t open_before = open_count();
    const uint64_t blocks_before = blocks_out();
    tap_doing("%s", call->name);
    scene.call = call;
    scene.hog = &hog;
    scene.pair = pair_new(SOCK_STREAM);
    if (call->run == call_child_close) {
        CHECK_EQ(child_start(&scene.child), 0);
    }
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    weft_task *holder = go_into(runtime, hold_pool, &hold);
    wait_for(&hold.is_running, 1);
    weft_task *task = go_into(runtime, run_call, &scene);
    wait_for(&hog.is_running, 1);
    wait_for_call(runtime, task, call);
    close_by_force(runtime, &hog);
    (void)weft_await(holder);
    const intptr_t rc = weft_await(task);
    /* 0: the page cache took the bytes, or the child had ended before the close waited for it. */
    const bool may_return = call->run == call_pwrite || call->run == call_child_close;
    CHECK(rc == -ECANCELED || (rc == 0 && may_return));
    scene_done(&scene);
    CHECK_EQ(open_count(), open_before);
    CHECK_EQ(blocks_out(), blocks_before);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD); /* reaped */
}

static void forced_close_leaves_nothing_of_calls_that_are_complete(void)
{
    struct stage stage;
    faults_prepare();
    stage_init(&stage);
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        tour.options.no_monitor = true; /* no spare takes the worker's tasks */
        tour.options.blocking_max = 1;
        for (size_t i = 0; i < COUNT(completed); i++) {
            abandon_completed(&stage, &completed[i], &tour.options);
        }
    }
    stage_done(&stage);
}

/* ---- drain --------------------------------------------------------------------------------- */

/* A server that was asked to end and never does: one of its tasks is shielded, or its drain does
 * not end although all its tasks have. */
struct server {
    const sigset_t *signals;
    bool has_ended; /* the task of the scope ends, and on_begin does not return */
    struct pair pair;
    struct reader reader;
    sem_t is_ending;
};

static void report_drain(void *context, int signal)
{
    struct server *server = context;
    CHECK_EQ(signal, SIGUSR2);
    CHECK_EQ(sem_post(&server->is_ending), 0);
    if (server->has_ended) {
        CHECK_EQ(weft_write(server->pair.far, "x", 1), 1);
        CHECK_EQ(weft_shield_begin(), 0);
        (void)weft_sleep(WEFT_NEVER); /* ends with the runtime */
    }
}

static intptr_t read_shielded(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    return read_some(arg);
}

static intptr_t serve_until_drained(void *arg)
{
    struct server *server = arg;
    weft_scope scope;
    const weft_scope_drain_options options = {
        .signals = server->signals, .on_begin = report_drain, .context = server};
    const int listener = weft_net_listen("127.0.0.1:0", NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_spawn(&scope, read_shielded, &server->reader, NULL), 0);
    return weft_scope_drain(&scope, listener, &options);
}

static void abandon_drain(const sigset_t *set, const weft_runtime_options *options, bool has_ended)
{
    weft_runtime *runtime = NULL;
    struct pair pair = pair_new(SOCK_STREAM);
    struct server server = {
        .signals = set, .has_ended = has_ended, .pair = pair, .reader = {.fd = pair.near}};
    const size_t before = open_count();
    CHECK_EQ(sem_init(&server.is_ending, 0, 0), 0);
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    weft_task *task = go_into(runtime, serve_until_drained, &server);
    CHECK_EQ(kill(getpid(), SIGUSR2), 0);
    CHECK_EQ(sem_wait(&server.is_ending), 0);
    wait_until_blocked(task, has_ended ? WEFT_WAIT_TASK : WEFT_WAIT_SCOPE);
    CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(open_count(), before); /* the number of the listener too, which the drain had */
    CHECK_EQ(sem_destroy(&server.is_ending), 0);
    CHECK_EQ(weft_close(pair.near) + weft_close(pair.far), 0);
}

static void forced_close_leaves_nothing_of_a_drain(void)
{
    enum { TIMES = 10, SLACK = 64 << 10 };
    sigset_t set;
    CHECK_EQ(sigemptyset(&set) + sigaddset(&set, SIGUSR2), 0);
    CHECK_EQ(weft_signals_block(&set), 0);
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        abandon_drain(&set, &tour.options, false);
        abandon_drain(&set, &tour.options, true);
    }
    /* No handle keeps the memory of the tasks: 16 KiB and more each time.  (Some allocators report
     * nothing here but 0.) */
    const size_t before = mallinfo2().uordblks;
    for (int i = 0; i < TIMES; i++) {
        abandon_drain(&set, NULL, i % 2 == 0);
    }
    CHECK(mallinfo2().uordblks < before + SLACK);
}

static const struct tap_test tests[] = {
    TAP_TEST(forced_close_leaves_nothing_of_calls_that_wait),
    TAP_TEST(forced_close_leaves_nothing_of_an_accept_that_sleeps),
    TAP_TEST(forced_close_leaves_nothing_of_calls_for_the_pool),
    TAP_TEST_LIMIT(forced_close_leaves_nothing_of_calls_that_are_complete, 60),
    TAP_TEST(forced_close_leaves_nothing_of_a_drain),
};
TAP_MAIN(tests)
