/* SPDX-License-Identifier: MIT */
/*
 * Goal:   news and tasks share the workers: of more connections than a worker's own queue holds
 *         none is forgotten, and who waits for news looks after those who work.
 * Method: a server with a task for each, on one worker, and a thread that keeps all of them busy;
 *         when the first has been served so often, all have been.  A task that does not let go
 *         beside a worker that waits for news.  Part of behaviour 57.
 */
#include <pthread.h>
#include <sys/resource.h>

#include "io/io.h"
#include "io_aids.h"

enum { CONNECTIONS = 2 * WF_RING_CAPACITY + 40, TURNS = 40, TURN_NS = 6000 };

/* Where a turn takes longer than it takes until somebody looks for news, order is coarse. */
#ifdef WF_TSAN
enum { LEAST = 1 };
#else
enum { LEAST = HAS_ORDER ? TURNS / 3 : 1 };
#endif

static struct pair pairs[CONNECTIONS];
static wf_atomic_u32 turns[CONNECTIONS];
static wf_atomic_u32 is_over;

/* One who has been served asks again, at once. */
static void *ask_all(void *arg)
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
    const unsigned number = (unsigned)(uintptr_t)arg;
    while (weft_read(pairs[number].near, &byte, 1) == 1 &&
           weft_write(pairs[number].near, &byte, 1) == 1) {
        const int64_t end_ns = wf_clock_now() + TURN_NS;
        while (wf_clock_now() < end_ns) {
        }
        if (wf_fetch_add_release(&turns[number], 1) + 1 == TURNS) {
            raise_by_one(&is_over);
        }
    }
    return 0;
}

static intptr_t serve_all(void *arg)
{
    static weft_task *tasks[CONNECTIONS];
    uint32_t least = UINT32_MAX;
    (void)arg;
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        pairs[i] = pair_new(SOCK_STREAM);
        tasks[i] = go(serve, (void *)(uintptr_t)i);
    }
    pthread_t asker;
    CHECK_EQ(pthread_create(&asker, NULL, ask_all, NULL), 0);
    while (wf_load_acquire(&is_over) == 0) { /* from serve */
        (void)weft_sleep(WEFT_MILLISECOND);
    }
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        const uint32_t count = wf_load_acquire(&turns[i]);
        least = count < least ? count : least;
    }
    CHECK_EQ(pthread_join(asker, NULL), 0);
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        CHECK_EQ(weft_close(pairs[i].far), 0);
        CHECK_EQ(weft_await(tasks[i]), 0);
        CHECK_EQ(weft_close(pairs[i].near), 0);
    }
    CHECK(least >= LEAST);
    return 0;
}

static void of_many_connections_each_has_its_turn(void)
{
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    const weft_options options = options_of(&setting);
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    CHECK_EQ(weft_run(serve_all, NULL, &options), 0);
}

/* ---- who waits for news --------------------------------------------------------------------- */

static intptr_t be_the_newest(void *arg)
{
    raise_by_one(arg);
    return 0;
}

/* [task]  Its own worker does not run the newest, whose place is its slot. */
static intptr_t compute_until_it_ran(void *arg)
{
    wf_atomic_u32 has_run = {0};
    (void)arg;
    weft_task *task = go(be_the_newest, &has_run);
    hold_for(&has_run, 1);
    return weft_await(task);
}

/* Who waits for news watches the others too, also if they all slept when it began. */
static void who_waits_for_news_watches_the_others(void)
{
    const weft_options options = {.workers = 2, .no_monitor = true};
    const struct pair pair = pair_new(SOCK_STREAM);
    struct reader reader = {.fd = pair.near};
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    weft_task *task = go_into(runtime, read_some, &reader);
    for (int round = 0; round < 10; round++) {
        /* relaxed: until it has no reason to look at the others any more */
        while (stats_of(runtime).parked < 2 || wf_load_relaxed(&runtime->is_watched) == 0 ||
               wf_load_relaxed(&runtime->hours.until_ns) != WF_FOREVER) {
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

/* It was the watcher itself that heard the news, and now it works: somebody else has to watch. */
static void who_heard_the_news_is_watched_by_another(void)
{
    const weft_options options = {.workers = 2, .no_monitor = true};
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
    TAP_TEST(of_many_connections_each_has_its_turn),
    TAP_TEST(who_waits_for_news_watches_the_others),
    TAP_TEST(who_heard_the_news_is_watched_by_another),
};
TAP_MAIN(tests)
