/* SPDX-License-Identifier: MIT */
/*
 * bench_chan.c - the cost of passing items: buffered and rendezvous channels, between two tasks,
 * several tasks, and many in a ring or a chain.
 *
 * The warm-up opens the runtime, which stays open, so that starting threads is not measured.
 */
#include <errno.h>
#include <stdlib.h>
#include <weft/weft.h>

#include "base/base.h"
#include "bench.h"

enum {
    BUFFER = 128,
    RING = 503,
    PAIRS_MAX = 4,
    PRIMES = 2000,
    PRIME_LAST = 17389,
};

static weft_runtime *runtime;

/* Runs fn(arg) as a task. */
static uint64_t run_task(weft_fn fn, void *arg, unsigned workers)
{
    const weft_runtime_options options = {.workers = workers};
    weft_task *task;
    if (runtime == NULL) {
        WEFT_CHECK(weft_runtime_open(&runtime, &options) == 0); /* never closed */
    }
    WEFT_CHECK(weft_runtime_spawn(runtime, &task, fn, arg, NULL) == 0);
    WEFT_CHECK(weft_await(task) == 0);
    return 0;
}

static weft_chan *open_chan(size_t capacity)
{
    weft_chan *chan;
    WEFT_CHECK(weft_chan_new(&chan, sizeof(uint64_t), capacity) == 0);
    return chan;
}

static weft_task *go(weft_fn fn, void *arg)
{
    weft_task *task = weft_go(fn, arg);
    WEFT_CHECK(task != NULL);
    return task;
}

/* ---- two tasks that take turns --------------------------------------------------------------- */

struct game {
    weft_chan *ping;
    weft_chan *pong;
    uint64_t rounds;
};

static intptr_t answer_pings(void *arg)
{
    const struct game *game = arg;
    uint64_t value;
    while (weft_chan_recv(game->ping, &value) == 0) {
        value++;
        WEFT_CHECK(weft_chan_send(game->pong, &value) == 0);
    }
    return 0;
}

static intptr_t ping_pong_task(void *arg)
{
    const struct game *game = arg;
    weft_task *partner = go(answer_pings, arg);
    uint64_t value = 0;
    for (uint64_t left = game->rounds; left > 0; left--) {
        WEFT_CHECK(weft_chan_send(game->ping, &value) == 0);
        WEFT_CHECK(weft_chan_recv(game->pong, &value) == 0);
    }
    WEFT_CHECK(value == game->rounds);
    WEFT_CHECK(weft_chan_close(game->ping) == 0);
    return weft_await(partner);
}

static uint64_t ping_pong(uint64_t ops, unsigned workers)
{
    struct game game = {.ping = open_chan(0), .pong = open_chan(0), .rounds = ops};
    (void)run_task(ping_pong_task, &game, workers);
    weft_chan_unref(game.ping);
    weft_chan_unref(game.pong);
    return 0;
}

/* ---- producers and consumers ----------------------------------------------------------------- */

struct market {
    weft_chan *chan;
    uint64_t pairs;
    uint64_t each; /* items per producer */
};

static intptr_t produce(void *arg)
{
    const struct market *market = arg;
    const uint64_t one = 1;
    for (uint64_t left = market->each; left > 0; left--) {
        WEFT_CHECK(weft_chan_send(market->chan, &one) == 0);
    }
    return 0;
}

static intptr_t consume(void *arg)
{
    const struct market *market = arg;
    uint64_t item;
    uint64_t sum = 0;
    while (weft_chan_recv(market->chan, &item) == 0) {
        sum += item;
    }
    return (intptr_t)sum;
}

static intptr_t market_task(void *arg)
{
    struct market *market = arg;
    weft_task *producers[PAIRS_MAX];
    weft_task *consumers[PAIRS_MAX];
    intptr_t sum = 0;
    for (uint64_t i = 0; i < market->pairs; i++) {
        producers[i] = go(produce, market);
        consumers[i] = go(consume, market);
    }
    WEFT_CHECK(weft_await_all(producers, market->pairs, NULL) == 0);
    WEFT_CHECK(weft_chan_close(market->chan) == 0);
    for (uint64_t i = 0; i < market->pairs; i++) {
        sum += weft_await(consumers[i]);
    }
    WEFT_CHECK((uint64_t)sum == market->pairs * market->each);
    return 0;
}

static uint64_t market(uint64_t ops, unsigned workers, uint64_t pairs)
{
    struct market market = {.chan = open_chan(BUFFER), .pairs = pairs, .each = ops / pairs};
    (void)run_task(market_task, &market, workers);
    weft_chan_unref(market.chan);
    return 0;
}

static uint64_t chan_1p1c(uint64_t ops, unsigned workers)
{
    return market(ops, workers, 1);
}

static uint64_t chan_4p4c(uint64_t ops, unsigned workers)
{
    return market(ops, workers, 4);
}

/* ---- a ring ---------------------------------------------------------------------------------- */

struct link {
    weft_chan *from;
    weft_chan *to;
};

/* The token counts hops down; at 0 each task passes the end on by closing the next channel. */
static intptr_t pass_on(void *arg)
{
    const struct link *link = arg;
    uint64_t token;
    while (weft_chan_recv(link->from, &token) == 0) {
        if (token == 0) {
            break;
        }
        token--;
        if (weft_chan_send(link->to, &token) != 0) {
            break;
        }
    }
    (void)weft_chan_close(link->to); /* the last task has closed it already */
    return 0;
}

static intptr_t ring_task(void *arg)
{
    const uint64_t *hops = arg;
    static weft_chan *chans[RING];
    static struct link links[RING];
    static weft_task *tasks[RING];
    for (size_t i = 0; i < RING; i++) {
        chans[i] = open_chan(0);
    }
    for (size_t i = 0; i < RING; i++) {
        links[i] = (struct link){chans[i], chans[(i + 1) % RING]};
        tasks[i] = go(pass_on, &links[i]);
    }
    WEFT_CHECK(weft_chan_send(chans[0], hops) == 0);
    WEFT_CHECK(weft_await_all(tasks, RING, NULL) == 0);
    for (size_t i = 0; i < RING; i++) {
        weft_chan_unref(chans[i]);
    }
    return 0;
}

static uint64_t ring_503(uint64_t ops, unsigned workers)
{
    return run_task(ring_task, &ops, workers);
}

/* ---- a chain of filters ---------------------------------------------------------------------- */

static intptr_t count_up(void *arg)
{
    weft_chan *out = arg;
    for (uint64_t n = 2; n <= PRIME_LAST; n++) {
        WEFT_CHECK(weft_chan_send(out, &n) == 0);
    }
    return weft_chan_close(out);
}

struct filter {
    weft_chan *in;
    weft_chan *out;
    uint64_t prime;
};

static intptr_t filter_out(void *arg)
{
    const struct filter *filter = arg;
    uint64_t n;
    while (weft_chan_recv(filter->in, &n) == 0) {
        if (n % filter->prime != 0) {
            WEFT_CHECK(weft_chan_send(filter->out, &n) == 0);
        }
    }
    return weft_chan_close(filter->out);
}

static intptr_t sieve_task(void *arg)
{
    static struct filter filters[PRIMES];
    static weft_task *tasks[PRIMES + 1];
    size_t found = 0;
    uint64_t prime = 0;
    (void)arg;
    weft_chan *in = open_chan(0);
    tasks[PRIMES] = go(count_up, in);
    while (weft_chan_recv(in, &prime) == 0) {
        WEFT_CHECK(found < PRIMES);
        filters[found] = (struct filter){.in = in, .out = open_chan(0), .prime = prime};
        tasks[found] = go(filter_out, &filters[found]);
        in = filters[found].out;
        found++;
    }
    WEFT_CHECK(found == PRIMES && weft_await_all(tasks, PRIMES + 1, NULL) == 0);
    for (size_t i = 0; i < PRIMES; i++) {
        weft_chan_unref(filters[i].in);
    }
    weft_chan_unref(in);
    return 0;
}

static uint64_t sieve_2000(uint64_t ops, unsigned workers)
{
    for (; ops > 0; ops--) {
        (void)run_task(sieve_task, NULL, workers);
    }
    return 0;
}

/* ---- other shapes ---------------------------------------------------------------------------- */

static intptr_t oneshot_task(void *arg)
{
    uint64_t item = 0;
    for (uint64_t left = *(uint64_t *)arg; left > 0; left--) {
        weft_oneshot oneshot = {{0}};
        void *value;
        WEFT_CHECK(weft_oneshot_send(&oneshot, &item) == 0);
        WEFT_CHECK(weft_oneshot_recv(&oneshot, &value) == 0);
        item += value == &item ? 1 : 0;
    }
    WEFT_CHECK(item == *(uint64_t *)arg);
    return 0;
}

static uint64_t oneshot(uint64_t ops, unsigned workers)
{
    return run_task(oneshot_task, &ops, workers);
}

static intptr_t broadcast_task(void *arg)
{
    enum { SUBSCRIBERS = 4 };
    weft_subscription subscriptions[SUBSCRIBERS];
    weft_broadcast *broadcast;
    uint64_t sum = 0;
    WEFT_CHECK(weft_broadcast_new(&broadcast, sizeof(uint64_t), 16) == 0);
    for (int i = 0; i < SUBSCRIBERS; i++) {
        WEFT_CHECK(weft_broadcast_subscribe(&subscriptions[i], broadcast) == 0);
    }
    for (uint64_t left = *(uint64_t *)arg; left > 0; left--) {
        const uint64_t one = 1;
        WEFT_CHECK(weft_broadcast_send(broadcast, &one) == 0);
        for (int i = 0; i < SUBSCRIBERS; i++) {
            uint64_t item;
            WEFT_CHECK(weft_broadcast_recv(&subscriptions[i], &item) == 0);
            sum += item;
        }
    }
    WEFT_CHECK(sum == SUBSCRIBERS * *(uint64_t *)arg);
    for (int i = 0; i < SUBSCRIBERS; i++) {
        weft_broadcast_unsubscribe(&subscriptions[i]);
    }
    weft_broadcast_unref(broadcast);
    return 0;
}

static uint64_t broadcast_4(uint64_t ops, unsigned workers)
{
    return run_task(broadcast_task, &ops, workers);
}

static intptr_t watch_task(void *arg)
{
    weft_watch *watch;
    uint64_t value = 0;
    uint64_t seen = 1;
    WEFT_CHECK(weft_watch_new(&watch, sizeof(value), &value) == 0);
    for (uint64_t left = *(uint64_t *)arg; left > 0; left--) {
        value++;
        WEFT_CHECK(weft_watch_set(watch, &value) == 0);
        WEFT_CHECK(weft_watch_wait(watch, &seen) == 0);
        const uint64_t *newest = weft_watch_borrow(watch, &seen);
        WEFT_CHECK(*newest == value);
        weft_watch_return(watch, newest);
    }
    weft_watch_unref(watch);
    return 0;
}

static uint64_t watch(uint64_t ops, unsigned workers)
{
    return run_task(watch_task, &ops, workers);
}

/* Two channels, one of which has an item. */
static intptr_t select_task(void *arg)
{
    weft_chan *chans[2] = {open_chan(1), open_chan(1)};
    uint64_t item = 0;
    weft_case cases[2] = {weft_case_recv(chans[0], &item), weft_case_recv(chans[1], &item)};
    for (uint64_t left = *(uint64_t *)arg; left > 0; left--) {
        WEFT_CHECK(weft_chan_send(chans[left % 2], &left) == 0);
        WEFT_CHECK(weft_select(cases, 2) == (int)(left % 2));
        WEFT_CHECK(item == left);
    }
    weft_chan_unref(chans[0]);
    weft_chan_unref(chans[1]);
    return 0;
}

static uint64_t select_2(uint64_t ops, unsigned workers)
{
    return run_task(select_task, &ops, workers);
}

static const struct bench_row rows[] = {
    {"ping-pong", "weft", "round trip", 500000, 1, ping_pong},
    {"chan-1p1c", "weft", "item", 2000000, 1, chan_1p1c},
    {"chan-4p4c", "weft", "item", 2000000, 1, chan_4p4c},
    {"ring-503", "weft", "hop", 1000000, 1, ring_503},
    {"sieve-2000", "weft", "run", 1, 1, sieve_2000},
    {"oneshot", "weft", "value", 2000000, 1, oneshot},
    {"broadcast-4", "weft", "item", 1000000, 1, broadcast_4},
    {"watch", "weft", "version", 1000000, 1, watch},
    {"select-2", "weft", "item", 1000000, 1, select_2},
};

/* Goals in nanoseconds are given here as ratios to a peer that was measured at the same time. */
static const struct bench_goal goals[] = {
    {"ping-pong", "weft", "go", 0.31, false, 1, false},
    {"ping-pong", "weft", "go", 0.35, false, 2, false},
    {"chan-1p1c", "weft", "go", 0.45, false, 1, false},
    {"chan-1p1c", "weft", "go", 0.54, false, 2, false},
    {"chan-4p4c", "weft", "go", 0.5, false, 1, false},
    {"chan-4p4c", "weft", "go", 0.37, false, 2, false},
    {"ring-503", "weft", "go", 0.25, false, 1, false},
    {"ring-503", "weft", "go", 0.27, false, 2, false},
    {"sieve-2000", "weft", "go", 0.6, false, 1, false},
    {"sieve-2000", "weft", "go", 0.57, false, 2, false},
    {"oneshot", "weft", "tokio", 0.5, false, 1, false},
    {"broadcast-4", "weft", "tokio", 0.5, false, 1, false},
    {"watch", "weft", "tokio", 0.5, false, 1, false},
};

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {
        .title = "Channels",
        .base = "weft",
        .rows = rows,
        .row_count = sizeof(rows) / sizeof(rows[0]),
        .goals = goals,
        .goal_count = sizeof(goals) / sizeof(goals[0]),
    };
    return bench_main(argc, argv, &suite);
}
