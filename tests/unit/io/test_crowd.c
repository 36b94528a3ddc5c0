/* SPDX-License-Identifier: MIT */
/*
 * Goal:   of more connections than a worker's own queue holds none is forgotten.
 * Method: a server with a task for each, on one worker, and a thread that keeps all of them busy;
 *         when the first has been served so often, all have been.  Part of behaviour 57.
 */
#include <pthread.h>
#include <sys/resource.h>

#include "io_aids.h"

enum { CONNECTIONS = 2 * WF_RING_CAPACITY + 40, TURNS = 40, TURN_NS = 6000 };

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
    CHECK(least >= (HAS_ORDER ? TURNS / 2 : 1));
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

static const struct tap_test tests[] = {
    TAP_TEST(of_many_connections_each_has_its_turn),
};
TAP_MAIN(tests)
