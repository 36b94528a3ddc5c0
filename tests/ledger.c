/* SPDX-License-Identifier: MIT */
/*
 * ledger.c - see ledger.h.
 *
 * Each item has its own slot in a long array and is pushed once.  Recycling a few items would need
 * less memory, but the hand-back would order the taker before the next push, and so hide from TSan
 * whether the queue does.  For the same reason everything that the threads share besides the queue
 * is relaxed.
 */
#include "ledger.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "items.h"
#include "queue/queue.h"
#include "tap.h"

enum {
    WORKERS_MAX = 16,
    BOOKED_AT_ONCE = 1024, /* items between two updates of the shared count */
    PAUSE_ONE_IN = 64,
};

struct worker;

struct ledger {
    struct item *items;
    size_t count;
    wf_atomic_u64 left; /* [any]  items that no worker has booked yet */
    pthread_barrier_t start;
    unsigned producers; /* inject, mpsc: number of producers; each pushes one slice of the items */

    struct wf_ring rings[WORKERS_MAX];
    struct wf_deque deques[WORKERS_MAX];
    struct wf_inject inject;
    struct wf_mpsc mpsc;

    /* Owner and thief of a race for the last items. */
    size_t rounds;
    void (*push)(struct worker *owner, struct wf_node *node);
    struct wf_node *(*pop)(struct worker *owner);
    struct wf_node *(*steal)(struct worker *thief);
};

struct worker {
    struct ledger *ledger;
    void (*run)(struct worker *worker);
    pthread_t thread;
    unsigned index;
    unsigned workers;
    struct wf_random random;
    uint64_t taken;
    uint64_t unbooked;              /* taken, but not yet subtracted from ledger->left */
    uint64_t handed;                /* items that a steal returned to run at once */
    uint64_t wakes;                 /* sends that found the queue empty */
    uint64_t drains;                /* takes that found something */
    struct wf_chain spill;          /* items that the race's ring overflowed */
    int64_t last_seen[WORKERS_MAX]; /* the newest index of each producer, for the order */
};

static void subtract_booked(struct worker *worker)
{
    (void)wf_fetch_sub_relaxed(&worker->ledger->left, worker->unbooked);
    worker->unbooked = 0;
}

static size_t book(struct worker *worker, struct wf_node *node)
{
    size_t index = item_take(worker->ledger->items, node);
    worker->taken++;
    if (++worker->unbooked == BOOKED_AT_ONCE) {
        subtract_booked(worker);
    }
    return index;
}

/* True if all items are taken; otherwise yields the CPU: there may be only two. */
static bool is_over(struct worker *worker)
{
    subtract_booked(worker);
    if (wf_load_relaxed(&worker->ledger->left) == 0) {
        return true;
    }
    (void)sched_yield();
    return false;
}

/* Some items take longer, so that thieves find a queue that was just filled. */
static void run_item(struct worker *worker, struct wf_node *node)
{
    (void)book(worker, node);
    if (wf_random_below(&worker->random, PAUSE_ONE_IN) == 0) {
        (void)sched_yield();
    }
}

static void check_newer(struct worker *worker, unsigned producer, size_t index)
{
    CHECK((int64_t)index > worker->last_seen[producer]);
    worker->last_seen[producer] = (int64_t)index;
}

static unsigned another(struct worker *worker)
{
    unsigned victim = wf_random_below(&worker->random, worker->workers - 1);
    return victim < worker->index ? victim : victim + 1;
}

/* ---- workers ------------------------------------------------------------------------------- */

static double now_s(void)
{
    struct timespec now;
    CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Binds the calling thread to one of the allowed CPUs, each worker to the next.  Otherwise the
 * system may keep two short-lived threads on one CPU, where they alternate and never race.  Where
 * binding is not allowed, the run uses the system's choice. */
static void spread_over_cpus(unsigned index)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return;
    }
    unsigned nth = index % (unsigned)CPU_COUNT(&allowed);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && nth-- == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            (void)sched_setaffinity(0, sizeof(one), &one);
            return;
        }
    }
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    spread_over_cpus(worker->index);
    (void)pthread_barrier_wait(&worker->ledger->start);
    worker->run(worker);
    subtract_booked(worker);
    return NULL;
}

static struct ledger *ledger_new(size_t items)
{
    void *memory = NULL;
    CHECK_EQ(posix_memalign(&memory, WF_CACHE_LINE, sizeof(struct ledger)), 0);
    struct ledger *ledger = memory;
    *ledger = (struct ledger){.items = items_new(items), .count = items};
    wf_atomic_init(&ledger->left, items);
    return ledger;
}

static void ledger_free(struct ledger *ledger)
{
    free(ledger->items);
    free(ledger);
}

/* Runs worker 0 as `first` and all others as `other`, and waits for their ends. */
static struct ledger_report run_team(struct ledger *ledger, struct worker *team, unsigned workers,
                                     void (*first)(struct worker *), void (*other)(struct worker *))
{
    CHECK(workers >= 2 && workers <= WORKERS_MAX);
    CHECK_EQ(pthread_barrier_init(&ledger->start, NULL, workers + 1), 0);
    for (unsigned i = 0; i < workers; i++) {
        team[i] = (struct worker){.ledger = ledger, .index = i, .workers = workers};
        team[i].run = i == 0 ? first : other;
        wf_random_init(&team[i].random, tap_seed() + i);
        for (unsigned producer = 0; producer < WORKERS_MAX; producer++) {
            team[i].last_seen[producer] = -1;
        }
        CHECK_EQ(pthread_create(&team[i].thread, NULL, worker_main, &team[i]), 0);
    }
    double begin_s = now_s();
    (void)pthread_barrier_wait(&ledger->start);
    struct ledger_report report = {0};
    for (unsigned i = 0; i < workers; i++) {
        CHECK_EQ(pthread_join(team[i].thread, NULL), 0);
        *(i == 0 ? &report.by_owner : &report.by_others) += team[i].taken;
    }
    report.seconds = now_s() - begin_s;
    CHECK_EQ(pthread_barrier_destroy(&ledger->start), 0);
    CHECK_EQ(report.by_owner + report.by_others, ledger->count);
    CHECK_EQ(wf_load_relaxed(&ledger->left), 0);
    items_check_all_taken(ledger->items, ledger->count);
    return report;
}

/* ---- ring ---------------------------------------------------------------------------------- */

static void overflow_into_inject(void *context, struct wf_chain *batch)
{
    struct ledger *ledger = context;
    wf_inject_push_overflow(&ledger->inject, batch);
}

/* Some bursts are larger than the ring, so that it alternates between full and empty. */
static void ring_produce(struct worker *owner)
{
    struct ledger *ledger = owner->ledger;
    struct wf_ring *ring = &ledger->rings[0];
    for (size_t next = 0; next < ledger->count;) {
        for (uint32_t left = wf_random_below(&owner->random, 2 * WF_RING_CAPACITY);
             left > 0 && next < ledger->count; left--) {
            wf_ring_push(ring, item_node(ledger->items, next), overflow_into_inject, ledger);
            next++;
        }
        for (uint32_t left = wf_random_below(&owner->random, WF_RING_CAPACITY); left > 0; left--) {
            struct wf_node *node = wf_ring_pop(ring);
            if (node == NULL) {
                break;
            }
            check_newer(owner, 0, book(owner, node)); /* the owner's end is FIFO */
        }
    }
}

/* The items that fit go through the ring, where thieves may steal them; the rest is booked at
 * once. */
static struct wf_node *ring_refill(struct worker *worker)
{
    struct ledger *ledger = worker->ledger;
    struct wf_chain batch = {0};
    if (wf_inject_pop(&ledger->inject, worker->workers, WF_RING_CAPACITY, &batch) == 0) {
        return NULL;
    }
    struct wf_node *first = wf_chain_pop(&batch);
    (void)wf_ring_push_chain(&ledger->rings[worker->index], &batch);
    for (struct wf_node *node; (node = wf_chain_pop(&batch)) != NULL;) {
        (void)book(worker, node);
    }
    return first;
}

static struct wf_node *ring_steal(struct worker *worker)
{
    struct ledger *ledger = worker->ledger;
    struct wf_node *node =
        wf_ring_steal(&ledger->rings[another(worker)], &ledger->rings[worker->index]);
    worker->handed += node != NULL;
    return node;
}

static void ring_worker(struct worker *worker)
{
    struct wf_ring *ring = &worker->ledger->rings[worker->index];
    for (;;) {
        struct wf_node *node = wf_ring_pop(ring);
        node = node != NULL ? node : ring_refill(worker);
        node = node != NULL ? node : ring_steal(worker);
        if (node != NULL) {
            run_item(worker, node);
        } else if (is_over(worker)) {
            return;
        }
    }
}

static void ring_owner(struct worker *owner)
{
    ring_produce(owner);
    ring_worker(owner);
}

/* Items that went into the rings left them: popped, overflowed, or returned by a steal. */
static void ring_check_counters(struct ledger *ledger, const struct worker *team, unsigned workers)
{
    struct wf_queue_stats sum = {0};
    uint64_t handed = 0;
    for (unsigned i = 0; i < workers; i++) {
        struct wf_queue_stats stats;
        wf_queue_stats_read(&ledger->rings[i].counters, &stats);
        sum.pushed += stats.pushed;
        sum.popped += stats.popped;
        sum.stolen += stats.stolen;
        sum.overflowed += stats.overflowed;
        handed += team[i].handed;
        CHECK(stats.stolen >= team[i].handed);
        CHECK_EQ(wf_ring_count(&ledger->rings[i]), 0);
    }
    CHECK_EQ(sum.pushed, sum.popped + sum.overflowed + handed);
    struct wf_queue_stats inject;
    wf_queue_stats_read(&ledger->inject.counters, &inject);
    CHECK_EQ(inject.overflowed, sum.overflowed);
    CHECK_EQ(inject.pushed, inject.popped);
    CHECK_EQ(inject.pushed, inject.overflowed);
}

struct ledger_report ledger_ring(size_t items, unsigned thieves)
{
    struct worker team[WORKERS_MAX];
    struct ledger *ledger = ledger_new(items);
    for (unsigned i = 0; i <= thieves; i++) {
        wf_ring_init(&ledger->rings[i]);
    }
    CHECK_EQ(wf_inject_init(&ledger->inject, NULL), 0);
    struct ledger_report report = run_team(ledger, team, thieves + 1, ring_owner, ring_worker);
    ring_check_counters(ledger, team, thieves + 1);
    ledger_free(ledger);
    return report;
}

/* ---- deque --------------------------------------------------------------------------------- */

enum { BURST = 48, BURST_LARGE = 5000, LARGE_ONE_IN = 64 };

static void deque_produce(struct worker *owner)
{
    struct ledger *ledger = owner->ledger;
    struct wf_deque *deque = &ledger->deques[0];
    for (size_t next = 0; next < ledger->count;) {
        uint32_t bound = wf_random_below(&owner->random, LARGE_ONE_IN) == 0 ? BURST_LARGE : BURST;
        for (uint32_t left = wf_random_below(&owner->random, bound);
             left > 0 && next < ledger->count; left--) {
            CHECK_EQ(wf_deque_push(deque, item_node(ledger->items, next)), 0);
            next++;
        }
        /* Half of the items, so that there is something to steal and the deque must grow. */
        for (uint32_t left = wf_random_below(&owner->random, bound / 2); left > 0; left--) {
            struct wf_node *node = wf_deque_pop(deque);
            if (node == NULL) {
                break;
            }
            (void)book(owner, node);
        }
    }
}

/* Steals one item.  The producer's deque holds its items in the order of their numbers, so a thief
 * must never see a number decrease. */
static struct wf_node *deque_steal_one(struct worker *worker, unsigned victim)
{
    struct wf_node *node;
    if (wf_deque_steal(&worker->ledger->deques[victim], &node) != WF_STEAL_TAKEN) {
        return NULL;
    }
    if (victim == 0) {
        check_newer(worker, 0, (size_t)item_index(node));
    }
    return node;
}

static struct wf_node *deque_steal(struct worker *worker)
{
    struct ledger *ledger = worker->ledger;
    unsigned victim = another(worker);
    /* The producer keeps no stolen items: its deque would no longer be in order. */
    if (worker->index == 0 || wf_random_below(&worker->random, 2) == 0) {
        return deque_steal_one(worker, victim);
    }
    struct wf_node *node =
        wf_deque_steal_half(&ledger->deques[victim], &ledger->deques[worker->index]);
    worker->handed += node != NULL;
    return node;
}

static void deque_worker(struct worker *worker)
{
    struct wf_deque *deque = &worker->ledger->deques[worker->index];
    for (;;) {
        struct wf_node *node = wf_deque_pop(deque);
        node = node != NULL ? node : deque_steal(worker);
        if (node != NULL) {
            run_item(worker, node);
        } else if (is_over(worker)) {
            return;
        }
    }
}

static void deque_owner(struct worker *owner)
{
    deque_produce(owner);
    deque_worker(owner);
}

struct ledger_report ledger_deque(size_t items, unsigned thieves)
{
    struct wf_alloc_stats before;
    struct wf_alloc_stats after;
    struct worker team[WORKERS_MAX];
    struct ledger *ledger = ledger_new(items);
    wf_alloc_stats(&before);
    for (unsigned i = 0; i <= thieves; i++) {
        CHECK_EQ(wf_deque_init(&ledger->deques[i], WF_DEQUE_CAPACITY_MIN), 0);
    }
    struct ledger_report report = run_team(ledger, team, thieves + 1, deque_owner, deque_worker);
    for (unsigned i = 0; i <= thieves; i++) {
        wf_deque_done(&ledger->deques[i]);
    }
    wf_alloc_stats(&after);
    CHECK_EQ(after.allocated - before.allocated, after.freed - before.freed);
    ledger_free(ledger);
    return report;
}

/* ---- inject and mpsc ----------------------------------------------------------------------- */

static size_t slice_of(const struct ledger *ledger)
{
    return (ledger->count + ledger->producers - 1) / ledger->producers;
}

static size_t slice_end(const struct ledger *ledger, unsigned producer)
{
    size_t end = (producer + 1) * slice_of(ledger);
    return end < ledger->count ? end : ledger->count;
}

enum { INJECT_CAPACITY = 2048, INJECT_CHAIN_MAX = 64 };

/* Pushes one item or a chain of several, and retries until the queue accepts it. */
static size_t inject_some(struct worker *producer, size_t next, size_t end)
{
    struct ledger *ledger = producer->ledger;
    size_t count = 1 + wf_random_below(&producer->random, INJECT_CHAIN_MAX);
    count = count < end - next ? count : end - next;
    struct wf_chain chain = items_chain(ledger->items, next, count);
    for (;;) {
        int rc = count == 1 ? wf_inject_push(&ledger->inject, chain.first)
                            : wf_inject_push_chain(&ledger->inject, &chain);
        if (rc == 0) {
            return count;
        }
        CHECK_EQ(rc, -EAGAIN);
        CHECK_EQ(chain.count, count);
        (void)sched_yield();
    }
}

static void inject_produce(struct worker *producer)
{
    struct ledger *ledger = producer->ledger;
    size_t end = slice_end(ledger, producer->index);
    for (size_t next = producer->index * slice_of(ledger); next < end;) {
        next += inject_some(producer, next, end);
    }
}

static void inject_consume(struct worker *consumer)
{
    struct ledger *ledger = consumer->ledger;
    for (;;) {
        struct wf_chain batch = {0};
        size_t room = 1 + wf_random_below(&consumer->random, WF_INJECT_BATCH_MAX);
        size_t count = wf_inject_pop(&ledger->inject, ledger->producers, room, &batch);
        CHECK_EQ(count, batch.count);
        CHECK(count <= room);
        CHECK(wf_inject_count(&ledger->inject) <= INJECT_CAPACITY);
        for (struct wf_node *node; (node = wf_chain_pop(&batch)) != NULL;) {
            size_t index = book(consumer, node);
            check_newer(consumer, (unsigned)(index / slice_of(ledger)), index);
        }
        if (count == 0 && is_over(consumer)) {
            return;
        }
    }
}

static void inject_worker(struct worker *worker)
{
    if (worker->index < worker->ledger->producers) {
        inject_produce(worker);
    } else {
        inject_consume(worker);
    }
}

struct ledger_report ledger_inject(size_t items, unsigned producers)
{
    struct wf_alloc_stats before;
    struct wf_alloc_stats after;
    struct worker team[WORKERS_MAX];
    struct ledger *ledger = ledger_new(items);
    ledger->producers = producers;
    wf_alloc_stats(&before);
    const struct wf_inject_options options = {.capacity = INJECT_CAPACITY};
    CHECK_EQ(wf_inject_init(&ledger->inject, &options), 0);
    struct ledger_report report =
        run_team(ledger, team, 2 * producers, inject_worker, inject_worker);
    wf_alloc_stats(&after);
    CHECK_EQ(after.allocated, before.allocated); /* no allocation */
    struct wf_queue_stats stats;
    wf_queue_stats_read(&ledger->inject.counters, &stats);
    CHECK_EQ(stats.pushed, items);
    CHECK_EQ(stats.popped, items);
    ledger_free(ledger);
    return report;
}

static void mpsc_send(struct worker *sender)
{
    struct ledger *ledger = sender->ledger;
    unsigned slice = sender->index - 1; /* worker 0 receives */
    size_t end = slice_end(ledger, slice);
    for (size_t next = slice * slice_of(ledger); next < end; next++) {
        sender->wakes += wf_mpsc_push(&ledger->mpsc, item_node(ledger->items, next));
    }
}

static void mpsc_receive(struct worker *receiver)
{
    struct ledger *ledger = receiver->ledger;
    for (;;) {
        struct wf_chain batch = {0};
        size_t count = wf_mpsc_take(&ledger->mpsc, &batch);
        CHECK_EQ(count, batch.count);
        receiver->drains += count > 0;
        for (struct wf_node *node; (node = wf_chain_pop(&batch)) != NULL;) {
            size_t index = book(receiver, node);
            check_newer(receiver, (unsigned)(index / slice_of(ledger)), index);
        }
        if (count == 0 && is_over(receiver)) {
            return;
        }
    }
}

struct ledger_report ledger_mpsc(size_t items, unsigned senders)
{
    struct worker team[WORKERS_MAX];
    struct ledger *ledger = ledger_new(items);
    ledger->producers = senders;
    wf_mpsc_init(&ledger->mpsc);
    struct ledger_report report = run_team(ledger, team, senders + 1, mpsc_receive, mpsc_send);
    uint64_t wakes = 0;
    for (unsigned i = 1; i <= senders; i++) {
        wakes += team[i].wakes;
    }
    CHECK_EQ(wakes, team[0].drains); /* exactly one sender sees each emptying */
    ledger_free(ledger);
    return report;
}

/* ---- the last items ------------------------------------------------------------------------ */

enum {
    /* Items of an iteration: 1, 2 or 3 in turn.  For the last one owner and thief compete by CAS;
     * with two or three left, the fence keeps the owner from an item just stolen. */
    ROUND_MAX = 3,
    ROUND_MEAN = 2,
    WINS_MIN = 100, /* of owner and thief: a race that one of them always wins was none */
    MISSES_PER_YIELD = 64,
    DELAY_MAX = 8, /* pauses of the CPU, some tens of nanoseconds each */
};

/* A short, random delay, so that the pops come before, during and after a steal. */
static void delay(struct worker *owner)
{
    for (uint32_t left = wf_random_below(&owner->random, DELAY_MAX); left > 0; left--) {
        wf_spin_hint();
    }
}

static void keep_overflow(void *context, struct wf_chain *batch)
{
    wf_chain_append(context, batch);
}

/* A thief that is preempted in its steal occupies the slots after some iterations; until it
 * continues, the items come back by the overflow hook and there is no race. */
static void race_push_ring(struct worker *owner, struct wf_node *node)
{
    wf_ring_push(&owner->ledger->rings[0], node, keep_overflow, &owner->spill);
}

static struct wf_node *race_pop_ring(struct worker *owner)
{
    struct wf_node *node = wf_ring_pop(&owner->ledger->rings[0]);
    return node != NULL ? node : wf_chain_pop(&owner->spill);
}

static struct wf_node *race_steal_ring(struct worker *thief)
{
    struct ledger *ledger = thief->ledger;
    struct wf_node *kept = wf_ring_pop(&ledger->rings[1]); /* half of three is two */
    return kept != NULL ? kept : wf_ring_steal(&ledger->rings[0], &ledger->rings[1]);
}

static void race_push_deque(struct worker *owner, struct wf_node *node)
{
    CHECK_EQ(wf_deque_push(&owner->ledger->deques[0], node), 0);
}

static struct wf_node *race_pop_deque(struct worker *owner)
{
    return wf_deque_pop(&owner->ledger->deques[0]);
}

static struct wf_node *race_steal_deque(struct worker *thief)
{
    return deque_steal_one(thief, 0);
}

static void race_as_owner(struct worker *owner)
{
    struct ledger *ledger = owner->ledger;
    size_t next = 0;
    for (size_t round = 0; round < ledger->rounds; round++) {
        for (size_t end = next + 1 + round % ROUND_MAX; next < end; next++) {
            ledger->push(owner, item_node(ledger->items, next));
        }
        delay(owner);
        for (struct wf_node *node; (node = ledger->pop(owner)) != NULL;) {
            (void)book(owner, node);
        }
    }
    CHECK_EQ(next, ledger->count);
}

static void race_as_thief(struct worker *thief)
{
    for (unsigned misses = 0;;) {
        struct wf_node *node = thief->ledger->steal(thief);
        if (node != NULL) {
            (void)book(thief, node);
        } else if (++misses % MISSES_PER_YIELD == 0 && is_over(thief)) {
            return;
        }
    }
}

/* Repeats `rounds` iterations until owner and thief have won often enough; the scheduler may keep
 * one of two threads off the CPU for a whole repetition. */
static struct ledger_report race(size_t rounds, void (*init)(struct ledger *),
                                 void (*done)(struct ledger *))
{
    struct ledger_report sum = {0};
    rounds += ROUND_MAX - rounds % ROUND_MAX; /* the mean is that of whole cycles */
    while (sum.by_owner < WINS_MIN || sum.by_others < WINS_MIN) {
        struct worker team[WORKERS_MAX];
        struct ledger *ledger = ledger_new(rounds * ROUND_MEAN);
        ledger->rounds = rounds;
        init(ledger);
        struct ledger_report report = run_team(ledger, team, 2, race_as_owner, race_as_thief);
        sum.seconds += report.seconds;
        sum.by_owner += report.by_owner;
        sum.by_others += report.by_others;
        done(ledger);
        ledger_free(ledger);
    }
    return sum;
}

static void race_ring_init(struct ledger *ledger)
{
    ledger->push = race_push_ring;
    ledger->pop = race_pop_ring;
    ledger->steal = race_steal_ring;
    wf_ring_init(&ledger->rings[0]);
    wf_ring_init(&ledger->rings[1]);
}

static void race_ring_done(struct ledger *ledger)
{
    CHECK_EQ(wf_ring_count(&ledger->rings[0]), 0);
    CHECK_EQ(wf_ring_count(&ledger->rings[1]), 0);
}

static void race_deque_init(struct ledger *ledger)
{
    ledger->push = race_push_deque;
    ledger->pop = race_pop_deque;
    ledger->steal = race_steal_deque;
    CHECK_EQ(wf_deque_init(&ledger->deques[0], WF_DEQUE_CAPACITY_MIN), 0);
}

static void race_deque_done(struct ledger *ledger)
{
    wf_deque_done(&ledger->deques[0]);
}

struct ledger_report ledger_last_of_ring(size_t rounds)
{
    return race(rounds, race_ring_init, race_ring_done);
}

struct ledger_report ledger_last_of_deque(size_t rounds)
{
    return race(rounds, race_deque_init, race_deque_done);
}
