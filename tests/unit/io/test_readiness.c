/* SPDX-License-Identifier: MIT */
/*
 * Goal:   readiness events and runnable tasks share the workers: with more connections than a
 *         worker's ring holds each connection is served, and the leader that waits for readiness
 *         still checks for long slices.
 * Method: a server with a task per connection, on one worker, and a thread that keeps all
 *         connections busy until each has been served SLICES times: a connection that is starved by
 *         the others never is.  How even the shares are depends on the length of a slice, and so on
 *         the CPU time that the system gives the worker; it is not checked.  A task that does not
 *         yield beside a leader that waits for readiness.  Part of behaviour 57.
 */
#include <pthread.h>
#include <sys/resource.h>

#include "io/io.h"
#include "io_helpers.h"

enum { CONNECTIONS = 2 * WF_RING_CAPACITY + 40, SLICES = 20, SLICE_NS = 6000 };

static struct pair pairs[CONNECTIONS];
static wf_atomic_u32 served; /* connections that were served SLICES times */
static wf_atomic_u32 is_over;

/* Each served connection sends its next request at once. */
static void *request_all(void *arg)
{
    char byte = 'x';
    (void)arg;
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        CHECK_EQ(write(pairs[i].far, &byte, 1), 1);
    }
    while (wf_load_acquire(&is_over) == 0) { /* from serve_all */
        for (unsigned i = 0; i < CONNECTIONS; i++) {
            if (recv(pairs[i].far, &byte, 1, MSG_DONTWAIT) == 1) {
                CHECK_EQ(write(pairs[i].far, &byte, 1), 1);
            }
        }
    }
    return NULL;
}

static intptr_t serve(void *arg)
{
    char byte;
    unsigned slices = 0;
    const unsigned number = (unsigned)(uintptr_t)arg;
    while (weft_read(pairs[number].near, &byte, 1) == 1 &&
           weft_write(pairs[number].near, &byte, 1) == 1) {
        const int64_t end_ns = wf_clock_now() + SLICE_NS;
        while (wf_clock_now() < end_ns) {
        }
        if (++slices == SLICES && wf_fetch_add_release(&served, 1) + 1 == CONNECTIONS) {
            raise_by_one(&is_over);
        }
    }
    return 0;
}

static intptr_t serve_all(void *arg)
{
    static weft_task *tasks[CONNECTIONS];
    (void)arg;
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        pairs[i] = pair_new(SOCK_STREAM);
        tasks[i] = go(serve, (void *)(uintptr_t)i);
    }
    pthread_t requester;
    CHECK_EQ(pthread_create(&requester, NULL, request_all, NULL), 0);
    while (wf_load_acquire(&is_over) == 0) { /* from serve */
        (void)weft_sleep(WEFT_MILLISECOND);
    }
    CHECK_EQ(pthread_join(requester, NULL), 0);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        CHECK_EQ(weft_close(pairs[i].far), 0);
        CHECK_EQ(weft_await(tasks[i]), 0);
        CHECK_EQ(weft_close(pairs[i].near), 0);
    }
    return 0;
}

static void readiness_serves_each_of_many_connections(void)
{
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    const weft_runtime_options options = options_of(&setting);
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_EQ(weft_run(serve_all, NULL, &options), 0);
}

/* ---- leader --------------------------------------------------------------------------------- */

static intptr_t count_run(void *arg)
{
    raise_by_one(arg);
    return 0;
}

/* [task]  Its own worker does not run the new task, which is in its LIFO slot. */
static intptr_t compute_until_it_ran(void *arg)
{
    wf_atomic_u32 has_run = {0};
    (void)arg;
    weft_task *task = go(count_run, &has_run);
    hold_for(&has_run, 1);
    return weft_await(task);
}

/* The leader that waits for readiness checks for long slices too, also if all workers slept when it
 * began. */
static void leader_waiting_for_readiness_checks_long_slices(void)
{
    const weft_runtime_options options = {.workers = 2, .no_monitor = true};
    const struct pair pair = pair_new(SOCK_STREAM);
    struct reader reader = {.fd = pair.near};
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    weft_task *task = go_into(runtime, read_some, &reader);
    for (int round = 0; round < 10; round++) {
        /* relaxed: until the leader has no reason to check the other workers */
        while (stats_of(runtime).parked < 2 || wf_load_relaxed(&runtime->has_leader) == 0 ||
               wf_load_relaxed(&runtime->timer_summary.until_ns) != WF_FOREVER) {
            (void)sched_yield();
        }
        CHECK_EQ(weft_await(go_into(runtime, compute_until_it_ran, NULL)), 0);
    }
    CHECK_EQ(write(pair.far, "x", 1), 1);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
}

static intptr_t read_and_compute_until_it_ran(void *arg)
{
    const struct reader *reader = arg;
    char byte;
    for (int round = 0; round < 10; round++) {
        CHECK_EQ(weft_read(reader->fd, &byte, 1), 1);
        CHECK_EQ(compute_until_it_ran(NULL), 0);
    }
    return 0;
}

/* The leader itself received the readiness event and now runs the task: another worker must become
 * leader. */
static void leader_is_replaced_when_it_runs_a_ready_task(void)
{
    const weft_runtime_options options = {.workers = 2, .no_monitor = true};
    const struct pair pair = pair_new(SOCK_STREAM);
    struct reader reader = {.fd = pair.near};
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    weft_task *task = go_into(runtime, read_and_compute_until_it_ran, &reader);
    for (int round = 0; round < 10; round++) {
        wait_until_blocked(task, WEFT_WAIT_READABLE);
        while (stats_of(runtime).parked < 2) {
            (void)sched_yield();
        }
        CHECK_EQ(write(pair.far, "x", 1), 1);
    }
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(readiness_serves_each_of_many_connections),
    TAP_TEST(leader_waiting_for_readiness_checks_long_slices),
    TAP_TEST(leader_is_replaced_when_it_runs_a_ready_task),
};
TAP_MAIN(tests)
