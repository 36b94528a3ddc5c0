/* SPDX-License-Identifier: MIT */
/*
 * crowded.c - a server that stays responsive: two hundred clients send requests over the loopback
 * interface, all of them tasks on one worker, while other tasks compute without end or block in the
 * kernel.
 *
 * Each request is answered and checked.  The main thread measures how many are answered and how
 * long that takes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weft/net.h>
#include <weft/weft.h>

enum { CLIENTS = 200, SIZE = 64, SLEEPERS = 100, BUCKETS = 400, GLANCES = 20 };

static char address[WEFT_ADDRESS_TEXT_SIZE];
static atomic_bool is_over;
static atomic_bool is_released;   /* the tasks that compute may end */
static _Atomic uint64_t requests; /* answered requests */
static _Atomic uint64_t
    took_count[BUCKETS]; /* requests by duration: ten buckets for each doubling */

/* ---- how long ------------------------------------------------------------------------------ */

static void note(int64_t took_ns)
{
    unsigned bucket = 0;
    double limit = 1000;
    while (limit < (double)took_ns && bucket < BUCKETS - 1) { /* ends: the limit grows */
        limit *= 1.0717734625;                                /* the tenth root of two */
        bucket++;
    }
    atomic_fetch_add(&took_count[bucket], 1);
    atomic_fetch_add(&requests, 1);
}

/* Stores in us[i] the time in microseconds within which parts[i] of the requests were answered, and
 * resets the counts. */
static void take_times(const double *parts, double *us, unsigned count)
{
    uint64_t counts[BUCKETS];
    uint64_t sum = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        counts[i] = atomic_exchange(&took_count[i], 0);
        sum += counts[i];
    }
    for (unsigned part = 0; part < count; part++) {
        uint64_t below = 0;
        double limit = 1000;
        for (unsigned i = 0; i < BUCKETS; i++) {
            below += counts[i];
            if ((double)below >= parts[part] * (double)sum) {
                break;
            }
            limit *= 1.0717734625;
        }
        us[part] = limit / 1e3;
    }
}

/* ---- the server and its clients ------------------------------------------------------------ */

static intptr_t answer(void *arg)
{
    const int fd = (int)(intptr_t)arg;
    char text[SIZE];
    while (weft_read_full(fd, text, SIZE) == SIZE && weft_write_all(fd, text, SIZE) == 0) {
    }
    return weft_close(fd);
}

static intptr_t ask(void *arg)
{
    const intptr_t number = (intptr_t)arg;
    char text[SIZE] = {0};
    char back[SIZE];
    const int fd = weft_net_dial(address);
    intptr_t rc = fd < 0 ? fd : 0;
    for (uint32_t turn = 0; rc == 0 && !atomic_load(&is_over); turn++) {
        (void)snprintf(text, sizeof(text), "%" PRIdPTR " asks for the %" PRIu32 ". time", number,
                       turn);
        const weft_time start = weft_now();
        rc = weft_write_all(fd, text, SIZE);
        rc = rc == 0 && weft_read_full(fd, back, SIZE) != SIZE ? -EPIPE : rc;
        rc = rc == 0 && memcmp(text, back, SIZE) != 0 ? -EPROTO : rc;
        note(weft_now() - start);
    }
    if (fd >= 0) {
        (void)weft_close(fd);
    }
    return rc;
}

static intptr_t serve(void *arg)
{
    weft_task *clients[CLIENTS];
    weft_address here;
    const weft_net_listen_options options = {.has_nodelay = true};
    (void)arg;
    const int listener = weft_net_listen("127.0.0.1:0", &options);
    if (listener < 0 || weft_address_local(&here, listener) != 0) {
        return listener < 0 ? listener : -EIO;
    }
    (void)weft_address_print(&here, address, sizeof(address));
    for (intptr_t i = 0; i < CLIENTS; i++) {
        clients[i] = weft_go(ask, (void *)i);
        const int fd = weft_accept(listener, NULL, NULL);
        if (fd < 0) {
            return fd;
        }
        weft_task_unref(weft_go(answer, (void *)(intptr_t)fd));
    }
    (void)weft_close(listener);
    return weft_await_all(clients, CLIENTS, NULL);
}

/* ---- tasks that block ---------------------------------------------------------------------- */

/* Computes, and never calls the runtime. */
static intptr_t compute(void *arg)
{
    volatile uint64_t number = (uintptr_t)arg;
    while (!atomic_load(&is_released)) {
        number = number * 6364136223846793005u + 1;
    }
    return 0;
}

static intptr_t sleep_in_kernel(void *arg)
{
    (void)arg;
    static const struct timespec span = {.tv_nsec = 100 * 1000 * 1000};
    return nanosleep(&span, NULL);
}

static intptr_t sleep_again_and_again(void *arg)
{
    intptr_t rc = 0;
    while (rc == 0 && !atomic_load(&is_released)) {
        rc = weft_blocking_call(sleep_in_kernel, arg);
    }
    return rc;
}

/* ---- measuring ----------------------------------------------------------------------------- */

_Noreturn static void give_up(const char *what, intptr_t rc)
{
    (void)fflush(stdout);
    (void)fprintf(stderr, "crowded: %s: %s\n", what, strerror((int)-rc));
    exit(EXIT_FAILURE);
}

static int64_t look_ns = WEFT_SECOND;

static void look_on(const char *what)
{
    static const double parts[] = {0.5, 0.99, 1};
    const int64_t glance_ns = look_ns / GLANCES;
    const struct timespec span = {glance_ns / WEFT_SECOND, glance_ns % WEFT_SECOND};
    const bool has_leader = isatty(STDOUT_FILENO) != 0;
    double us[3];
    take_times(parts, us, 3);
    const uint64_t before = atomic_load(&requests);
    for (int i = 1; i <= GLANCES; i++) {
        (void)nanosleep(&span, NULL);
        if (has_leader) {
            printf("\r  %-36s %8" PRIu64 " answered", what, atomic_load(&requests) - before);
            (void)fflush(stdout);
        }
    }
    const uint64_t answered = atomic_load(&requests) - before;
    take_times(parts, us, 3);
    printf("%s  %-36s %8" PRIu64 " %10.0f %10.0f %10.0f\n", has_leader ? "\r" : "", what, answered,
           us[0], us[1], us[2]);
    if (answered == 0) {
        give_up("nothing was answered", -ETIMEDOUT);
    }
}

/* Measures beside `count` tasks of this kind. */
static void look_on_beside(weft_runtime *runtime, const char *what, weft_fn fn, int count)
{
    weft_task *tasks[SLEEPERS];
    atomic_store(&is_released, false);
    for (int i = 0; i < count; i++) {
        const int rc = weft_runtime_spawn(runtime, &tasks[i], fn, NULL, NULL);
        if (rc != 0) {
            give_up(what, rc);
        }
    }
    look_on(what);
    atomic_store(&is_released, true);
    const int rc = weft_await_all(tasks, (size_t)count, NULL);
    if (rc != 0) {
        give_up(what, rc);
    }
}

int main(int argc, char **argv)
{
    const weft_runtime_options options = {.workers = 1};
    weft_runtime *runtime = NULL;
    weft_task *server = NULL;
    look_ns = argc > 1 ? strtol(argv[1], NULL, 10) * WEFT_MILLISECOND : look_ns;
    int rc = weft_runtime_open(&runtime, &options);
    rc = rc == 0 ? weft_runtime_spawn(runtime, &server, serve, NULL, NULL) : rc;
    if (rc != 0) {
        give_up("cannot begin", rc);
    }
    printf("A server and %d clients on one worker: answers in %" PRId64
           " ms, their times in us\n\n",
           CLIENTS, look_ns / WEFT_MILLISECOND);
    printf("  %-36s %8s %10s %10s %10s\n", "", "answered", "half", "99 of 100", "all");
    look_on("alone");
    look_on_beside(runtime, "beside two tasks that only compute", compute, 2);
    look_on_beside(runtime, "beside 100 calls that block", sleep_again_and_again, SLEEPERS);
    atomic_store(&is_over, true);
    const intptr_t result = weft_await(server);
    rc = weft_runtime_close(runtime, -1);
    if (result != 0 || rc != 0) {
        give_up("the server", result != 0 ? result : rc);
    }
    return EXIT_SUCCESS;
}
