/* SPDX-License-Identifier: MIT */
/*
 * bench_queue.c - the cost of the queues: in one thread, in batches, and between two threads.
 *
 *   push-pop-N   only the owner: pushes N items, pops N, repeats
 *   steal        one steal; its preparation is not measured
 *   inject-N     the global queue: N items in, N out, by one call each where there is such a call
 *   mpsc-N       the MPSC queue: N items sent one by one, then all taken
 *   owner-thief  the owner pushes 64 and pops until empty, while a thief steals
 *   hand-over    one thread pushes, another takes, with at most WINDOW items in flight
 *
 * Every row counts what came out, so a queue that loses an item fails.
 */
#include <pthread.h>
#include <sched.h>

#include "bench.h"
#include "queue/queue.h"
#include "rivals.h"

enum {
    WINDOW = 128,       /* items in flight from one thread to the other */
    BURST = 64,         /* items the owner pushes before it pops */
    HALF = 128,         /* items of one large steal: half of a full ring */
    SPINS_MAX = 64,     /* empty polls before a waiting thread yields */
    STEAL_SETS_MAX = 8, /* steals timed together, so that the clock's own cost is a hundredth */
};

static struct wf_node nodes[WF_RING_CAPACITY];

/* ---- the queues, behind the same four functions -------------------------------------------- */

static struct wf_ring ring;
static struct wf_ring thief_ring;
static struct wf_deque deque;
static struct wf_inject inject;
static struct wf_mpsc mpsc;
static struct rival_stack stack;
static struct rival_fifo fifo;
static struct rival_locked locked;
static struct rival_list list;
static struct rival_deque unfenced;
static struct rival_deque_buffer unfenced_buffer;

/* A ring of these rows is full only while a thief is preempted in the middle of a steal: the owner
 * then keeps the item, where a worker would use the global queue. */
static uint64_t overflowed;

static void keep_overflow(void *context, struct wf_chain *batch)
{
    (void)context;
    overflowed += batch->count;
}

static void ring_start(void)
{
    wf_ring_init(&ring);
    wf_ring_init(&thief_ring);
    overflowed = 0;
}

static void ring_push(struct wf_node *item)
{
    wf_ring_push(&ring, item, keep_overflow, NULL);
}

static struct wf_node *ring_pop(void)
{
    return wf_ring_pop(&ring);
}

static size_t ring_take(void)
{
    size_t count = wf_ring_steal(&ring, &thief_ring) != NULL;
    while (count > 0 && wf_ring_pop(&thief_ring) != NULL) {
        count++;
    }
    return count;
}

static void deque_start(void)
{
    wf_deque_done(&deque); /* of the warm-up; an unused one holds nothing */
    WEFT_CHECK(wf_deque_init(&deque, WF_RING_CAPACITY) == 0);
}

static void deque_push(struct wf_node *item)
{
    WEFT_CHECK(wf_deque_push(&deque, item) == 0);
}

static struct wf_node *deque_pop(void)
{
    return wf_deque_pop(&deque);
}

static size_t deque_take(void)
{
    struct wf_node *item;
    return wf_deque_steal(&deque, &item) == WF_STEAL_TAKEN;
}

static void unfenced_start(void)
{
    rival_deque_init(&unfenced, &unfenced_buffer);
}

static void unfenced_push(struct wf_node *item)
{
    WEFT_CHECK(rival_deque_push(&unfenced, item) == 0);
}

static struct wf_node *unfenced_pop(void)
{
    return rival_deque_pop(&unfenced);
}

static void stack_start(void)
{
    stack.count = 0;
}

static void stack_push(struct wf_node *item)
{
    rival_stack_push(&stack, item);
}

static struct wf_node *stack_pop(void)
{
    return rival_stack_pop(&stack);
}

static void fifo_start(void)
{
    fifo.head = fifo.tail;
}

static void fifo_push(struct wf_node *item)
{
    rival_fifo_push(&fifo, item);
}

static struct wf_node *fifo_pop(void)
{
    return rival_fifo_pop(&fifo);
}

static void locked_start(void)
{
    rival_locked_init(&locked);
}

static void locked_push(struct wf_node *item)
{
    rival_locked_push(&locked, item);
}

static struct wf_node *locked_pop(void)
{
    return rival_locked_pop(&locked);
}

static size_t locked_take(void)
{
    return rival_locked_pop(&locked) != NULL;
}

static void inject_start(void)
{
    WEFT_CHECK(wf_inject_init(&inject, NULL) == 0);
}

static void inject_push(struct wf_node *item)
{
    WEFT_CHECK(wf_inject_push(&inject, item) == 0);
}

static struct wf_node *inject_pop(void)
{
    struct wf_chain out = {0};
    (void)wf_inject_pop(&inject, 1, 1, &out);
    return out.first;
}

static size_t inject_take(void)
{
    struct wf_chain out = {0};
    return wf_inject_pop(&inject, 1, BURST, &out);
}

static void mpsc_start(void)
{
    wf_mpsc_init(&mpsc);
}

static void mpsc_push(struct wf_node *item)
{
    (void)wf_mpsc_push(&mpsc, item);
}

static size_t mpsc_take(void)
{
    struct wf_chain out = {0};
    return wf_mpsc_take(&mpsc, &out);
}

static void list_start(void)
{
    rival_list_init(&list);
}

static void list_push(struct wf_node *item)
{
    rival_list_push(&list, item);
}

static size_t list_take(void)
{
    struct wf_chain out = {0};
    return rival_list_take(&list, &out);
}

/* ---- one thread ----------------------------------------------------------------------------- */

typedef void (*start_fn)(void);
typedef void (*push_fn)(struct wf_node *item);
typedef struct wf_node *(*pop_fn)(void);
typedef size_t (*take_fn)(void);

/* Inlined into each row, so that the queue's functions are called directly and not by a pointer. */
#define INLINED static inline __attribute__((always_inline))

INLINED uint64_t push_pop(uint64_t ops, size_t burst, start_fn start, push_fn push, pop_fn pop)
{
    uint64_t popped = 0;
    start();
    for (uint64_t done = 0; done < ops; done += burst) {
        for (size_t i = 0; i < burst; i++) {
            push(&nodes[i]);
        }
        for (size_t i = 0; i < burst; i++) {
            popped += pop() != NULL;
        }
    }
    WEFT_CHECK(popped >= ops);
    return 0;
}

INLINED uint64_t push_take(uint64_t ops, size_t burst, start_fn start, push_fn push, take_fn take)
{
    uint64_t taken = 0;
    start();
    for (uint64_t done = 0; done < ops; done += burst) {
        for (size_t i = 0; i < burst; i++) {
            push(&nodes[i]);
        }
        taken += take();
    }
    WEFT_CHECK(taken >= ops);
    return 0;
}

/* A row's function: a loop above with these arguments. */
#define ROW(name, loop, ...)                                                                       \
    static uint64_t name(uint64_t ops, unsigned workers)                                           \
    {                                                                                              \
        (void)workers;                                                                             \
        return loop(ops, __VA_ARGS__);                                                             \
    }

ROW(ring_1, push_pop, 1, ring_start, ring_push, ring_pop)
ROW(ring_64, push_pop, BURST, ring_start, ring_push, ring_pop)
ROW(deque_1, push_pop, 1, deque_start, deque_push, deque_pop)
ROW(deque_64, push_pop, BURST, deque_start, deque_push, deque_pop)
ROW(unfenced_1, push_pop, 1, unfenced_start, unfenced_push, unfenced_pop)
ROW(unfenced_64, push_pop, BURST, unfenced_start, unfenced_push, unfenced_pop)
ROW(stack_1, push_pop, 1, stack_start, stack_push, stack_pop)
ROW(stack_64, push_pop, BURST, stack_start, stack_push, stack_pop)
ROW(fifo_1, push_pop, 1, fifo_start, fifo_push, fifo_pop)
ROW(fifo_64, push_pop, BURST, fifo_start, fifo_push, fifo_pop)
ROW(locked_1, push_pop, 1, locked_start, locked_push, locked_pop)
ROW(locked_64, push_pop, BURST, locked_start, locked_push, locked_pop)
ROW(inject_1, push_pop, 1, inject_start, inject_push, inject_pop)
ROW(mpsc_1, push_take, 1, mpsc_start, mpsc_push, mpsc_take)
ROW(mpsc_64, push_take, BURST, mpsc_start, mpsc_push, mpsc_take)
ROW(list_1, push_take, 1, list_start, list_push, list_take)
ROW(list_64, push_take, BURST, list_start, list_push, list_take)

/* The same chain goes in and comes out as a whole. */
static uint64_t inject_64(uint64_t ops, unsigned workers)
{
    struct wf_chain chain = {0};
    (void)workers;
    inject_start();
    for (size_t i = 0; i < BURST; i++) {
        wf_chain_push(&chain, &nodes[i]);
    }
    for (uint64_t done = 0; done < ops; done += BURST) {
        WEFT_CHECK(wf_inject_push_chain(&inject, &chain) == 0);
        WEFT_CHECK(wf_inject_pop(&inject, 1, BURST, &chain) == BURST);
    }
    return 0;
}

static uint64_t locked_batch_64(uint64_t ops, unsigned workers)
{
    struct wf_node *items[BURST];
    (void)workers;
    locked_start();
    for (size_t i = 0; i < BURST; i++) {
        items[i] = &nodes[i];
    }
    for (uint64_t done = 0; done < ops; done += BURST) {
        WEFT_CHECK(rival_locked_push_many(&locked, items, BURST) == BURST);
        WEFT_CHECK(rival_locked_pop_many(&locked, items, BURST) == BURST);
    }
    return 0;
}

/* ---- steals --------------------------------------------------------------------------------- */

static struct wf_ring rings[STEAL_SETS_MAX * 20]; /* enough for 128 x 1 too */
static struct wf_ring thieves[STEAL_SETS_MAX];
static struct wf_deque deques[STEAL_SETS_MAX];
static struct wf_deque thief_deques[STEAL_SETS_MAX];

static uint64_t steal_ring_half(uint64_t ops, unsigned workers)
{
    uint64_t spent_ns = 0;
    (void)workers;
    for (uint64_t done = 0; done < ops; done += STEAL_SETS_MAX) {
        for (size_t set = 0; set < STEAL_SETS_MAX; set++) {
            while (wf_ring_pop(&thieves[set]) != NULL) {
            }
            for (size_t i = wf_ring_count(&rings[set]); i < WF_RING_CAPACITY; i++) {
                wf_ring_push(&rings[set], &nodes[i], keep_overflow, NULL);
            }
        }
        uint64_t start_ns = bench_now_ns();
        for (size_t set = 0; set < STEAL_SETS_MAX; set++) {
            WEFT_CHECK(wf_ring_steal(&rings[set], &thieves[set]) != NULL);
        }
        spent_ns += bench_now_ns() - start_ns;
        WEFT_CHECK(wf_ring_count(&thieves[0]) == HALF - 1);
    }
    return spent_ns;
}

/* A thief takes half of a ring: to steal one item at a time the ring must hold one, so each sample
 * uses `count` rings. */
INLINED uint64_t steal_ring_singles(uint64_t ops, size_t sets, size_t count)
{
    uint64_t spent_ns = 0;
    for (uint64_t done = 0; done < ops; done += sets) {
        for (size_t i = 0; i < sets * count; i++) {
            wf_ring_push(&rings[i], &nodes[0], keep_overflow, NULL);
        }
        uint64_t start_ns = bench_now_ns();
        for (size_t i = 0; i < sets * count; i++) {
            WEFT_CHECK(wf_ring_steal(&rings[i], &thieves[0]) != NULL);
        }
        spent_ns += bench_now_ns() - start_ns;
    }
    return spent_ns;
}

static void fill_deques(size_t count)
{
    for (size_t set = 0; set < STEAL_SETS_MAX; set++) {
        if (wf_load_relaxed(&deques[set].buffer) == NULL) {
            WEFT_CHECK(wf_deque_init(&deques[set], WF_RING_CAPACITY) == 0);
            WEFT_CHECK(wf_deque_init(&thief_deques[set], WF_RING_CAPACITY) == 0);
        }
        for (size_t i = wf_deque_count(&deques[set]); i < count; i++) {
            WEFT_CHECK(wf_deque_push(&deques[set], &nodes[i]) == 0);
        }
        while (wf_deque_pop(&thief_deques[set]) != NULL) {
        }
    }
}

INLINED uint64_t steal_deque_singles(uint64_t ops, size_t count)
{
    uint64_t spent_ns = 0;
    for (uint64_t done = 0; done < ops; done += STEAL_SETS_MAX) {
        fill_deques(HALF);
        uint64_t start_ns = bench_now_ns();
        for (size_t set = 0; set < STEAL_SETS_MAX; set++) {
            for (size_t i = 0; i < count; i++) {
                struct wf_node *item;
                WEFT_CHECK(wf_deque_steal(&deques[set], &item) == WF_STEAL_TAKEN);
            }
        }
        spent_ns += bench_now_ns() - start_ns;
    }
    return spent_ns;
}

static uint64_t steal_deque_half(uint64_t ops, unsigned workers)
{
    uint64_t spent_ns = 0;
    (void)workers;
    for (uint64_t done = 0; done < ops; done += STEAL_SETS_MAX) {
        fill_deques(WF_RING_CAPACITY);
        uint64_t start_ns = bench_now_ns();
        for (size_t set = 0; set < STEAL_SETS_MAX; set++) {
            WEFT_CHECK(wf_deque_steal_half(&deques[set], &thief_deques[set]) != NULL);
        }
        spent_ns += bench_now_ns() - start_ns;
        WEFT_CHECK(wf_deque_count(&thief_deques[0]) == HALF - 1);
    }
    return spent_ns;
}

ROW(steal_ring_20, steal_ring_singles, STEAL_SETS_MAX, 20)
ROW(steal_ring_128, steal_ring_singles, 1, HALF)
ROW(steal_deque_20, steal_deque_singles, 20)
ROW(steal_deque_128, steal_deque_singles, HALF)

/* ---- two threads ---------------------------------------------------------------------------- */

struct pair {
    alignas(WF_CACHE_LINE) wf_atomic_u64 taken;   /* [taker: write] [any: read] */
    alignas(WF_CACHE_LINE) wf_atomic_u32 is_done; /* the owner has nothing left */
    wf_atomic_u32 is_ready;                       /* the taker is running */
    push_fn push;
    pop_fn pop; /* NULL: a hand-over */
    take_fn take;
    uint64_t ops;
};

/* After an empty poll: spins, and after SPINS_MAX yields the core. */
static void look_again(unsigned *spins)
{
    if (++*spins < SPINS_MAX) {
        wf_spin_hint();
    } else {
        *spins = 0;
        (void)sched_yield();
    }
}

static void *take_until_done(void *arg)
{
    struct pair *pair = arg;
    uint64_t taken = 0;
    unsigned spins = 0;
    wf_store_release(&pair->is_ready, 1);
    for (;;) {
        /* Before the poll, so that everything pushed before the end is seen. */
        bool is_last = wf_load_acquire(&pair->is_done) != 0;
        size_t count = pair->take();
        if (count > 0) {
            taken += count;
            wf_store_release(&pair->taken, taken); /* the sender may reuse their nodes */
        } else if (is_last) {
            return NULL;
        } else {
            look_again(&spins);
        }
    }
}

static uint64_t push_and_pop(struct pair *pair)
{
    uint64_t popped = 0;
    for (uint64_t done = 0; done < pair->ops; done += BURST) {
        for (size_t i = 0; i < BURST; i++) {
            pair->push(&nodes[i]);
        }
        while (pair->pop() != NULL) {
            popped++;
        }
    }
    return popped;
}

static void push_within_window(struct pair *pair)
{
    uint64_t taken = 0;
    unsigned spins = 0;
    for (uint64_t sent = 0; sent < pair->ops; sent++) {
        while (sent - taken >= WINDOW) {
            taken = wf_load_acquire(&pair->taken);
            if (sent - taken >= WINDOW) {
                look_again(&spins);
            }
        }
        pair->push(&nodes[sent % WINDOW]);
    }
}

/* Binds each of the two threads to a core of its own, if there are two: on a busy machine both
 * might otherwise stay on one core for a whole row. */
static void bind_apart(pthread_t taker)
{
    static cpu_set_t cores[2];
    static int found; /* searched once: afterwards this thread is bound */
    cpu_set_t allowed;
    (void)sched_getaffinity(0, sizeof(allowed), &allowed);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++) {
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_SET(cpu, &cores[found++]);
        }
    }
    if (found == 2) {
        WEFT_CHECK(pthread_setaffinity_np(pthread_self(), sizeof(cores[0]), &cores[0]) == 0);
        WEFT_CHECK(pthread_setaffinity_np(taker, sizeof(cores[1]), &cores[1]) == 0);
    }
}

static uint64_t between_two(uint64_t ops, start_fn start, push_fn push, pop_fn pop, take_fn take)
{
    struct pair pair = {.push = push, .pop = pop, .take = take, .ops = ops};
    uint64_t popped = 0;
    unsigned spins = 0;
    pthread_t taker;
    start();
    WEFT_CHECK(pthread_create(&taker, NULL, take_until_done, &pair) == 0);
    bind_apart(taker);
    while (wf_load_acquire(&pair.is_ready) == 0) { /* else the owner might finish before */
        look_again(&spins);
    }
    if (pop != NULL) {
        popped = push_and_pop(&pair);
    } else {
        push_within_window(&pair);
    }
    wf_store_release(&pair.is_done, 1);
    WEFT_CHECK(pthread_join(taker, NULL) == 0);
    WEFT_CHECK(popped + overflowed + wf_load_relaxed(&pair.taken) >= ops);
    return 0;
}

ROW(thief_ring_row, between_two, ring_start, ring_push, ring_pop, ring_take)
ROW(thief_deque_row, between_two, deque_start, deque_push, deque_pop, deque_take)
ROW(thief_locked_row, between_two, locked_start, locked_push, locked_pop, locked_take)
ROW(hand_ring, between_two, ring_start, ring_push, NULL, ring_take)
ROW(hand_deque, between_two, deque_start, deque_push, NULL, deque_take)
ROW(hand_inject, between_two, inject_start, inject_push, NULL, inject_take)
ROW(hand_mpsc, between_two, mpsc_start, mpsc_push, NULL, mpsc_take)
ROW(hand_locked, between_two, locked_start, locked_push, NULL, locked_take)
ROW(hand_list, between_two, list_start, list_push, NULL, list_take)

/* ---- the table ------------------------------------------------------------------------------ */

/* Operations of a repetition, about 50 ms; multiples of 64 x 100, so that the tenth of a warm-up
 * and the tenth of a quick run are whole bursts. */
enum { OPS_ALONE = 6400 * 400, OPS_STEAL = 800 * 50, OPS_PAIR = 6400 * 200 };

static const struct bench_row rows[] = {
    {"push-pop-1", "ring", "item", OPS_ALONE, 0, ring_1},
    {"push-pop-1", "deque", "item", OPS_ALONE, 0, deque_1},
    {"push-pop-1", "deque-unfenced", "item", OPS_ALONE, 0, unfenced_1},
    {"push-pop-1", "array-stack", "item", OPS_ALONE, 0, stack_1},
    {"push-pop-1", "array-fifo", "item", OPS_ALONE, 0, fifo_1},
    {"push-pop-1", "mutex", "item", OPS_ALONE, 0, locked_1},
    {"push-pop-64", "ring", "item", OPS_ALONE, 0, ring_64},
    {"push-pop-64", "deque", "item", OPS_ALONE, 0, deque_64},
    {"push-pop-64", "deque-unfenced", "item", OPS_ALONE, 0, unfenced_64},
    {"push-pop-64", "array-stack", "item", OPS_ALONE, 0, stack_64},
    {"push-pop-64", "array-fifo", "item", OPS_ALONE, 0, fifo_64},
    {"push-pop-64", "mutex", "item", OPS_ALONE, 0, locked_64},
    {"steal", "ring-128-at-once", "theft", OPS_STEAL, 0, steal_ring_half},
    {"steal", "ring-20-single", "theft", OPS_STEAL, 0, steal_ring_20},
    {"steal", "ring-128-single", "theft", OPS_STEAL, 0, steal_ring_128},
    {"steal", "deque-20-single", "theft", OPS_STEAL, 0, steal_deque_20},
    {"steal", "deque-128-single", "theft", OPS_STEAL, 0, steal_deque_128},
    {"steal", "deque-half-of-256", "theft", OPS_STEAL, 0, steal_deque_half},
    {"inject-1", "inject", "item", OPS_ALONE, 0, inject_1},
    {"inject-1", "mutex", "item", OPS_ALONE, 0, locked_1},
    {"inject-64", "inject", "item", OPS_ALONE, 0, inject_64},
    {"inject-64", "mutex", "item", OPS_ALONE, 0, locked_batch_64},
    {"mpsc-1", "mpsc", "item", OPS_ALONE, 0, mpsc_1},
    {"mpsc-1", "mutex", "item", OPS_ALONE, 0, list_1},
    {"mpsc-64", "mpsc", "item", OPS_ALONE, 0, mpsc_64},
    {"mpsc-64", "mutex", "item", OPS_ALONE, 0, list_64},
    {"owner-thief", "ring", "item", OPS_PAIR, 0, thief_ring_row},
    {"owner-thief", "deque", "item", OPS_PAIR, 0, thief_deque_row},
    {"owner-thief", "mutex", "item", OPS_PAIR, 0, thief_locked_row},
    {"hand-over", "ring", "item", OPS_PAIR, 0, hand_ring},
    {"hand-over", "deque", "item", OPS_PAIR, 0, hand_deque},
    {"hand-over", "inject", "item", OPS_PAIR, 0, hand_inject},
    {"hand-over", "mpsc", "item", OPS_PAIR, 0, hand_mpsc},
    {"hand-over", "mutex", "item", OPS_PAIR, 0, hand_locked},
    {"hand-over", "mutex-list", "item", OPS_PAIR, 0, hand_list},
};

static const struct bench_goal goals[] = {
    {"push-pop-1", "deque", "crossbeam-lifo", 1.0, false, 0, false},
    {"push-pop-64", "deque", "crossbeam-lifo", 1.0, false, 0, false},
    {"push-pop-1", "ring", "deque-unfenced", 1.5, false, 0, false},
    {"push-pop-64", "ring", "deque-unfenced", 1.5, false, 0, false},
    {"steal", "ring-128-at-once", "deque-20-single", 1.0, true, 0, false},
    {"steal", "ring-128-at-once", "ring-20-single", 1.0, true, 0, false},
};

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {
        .title = "Queues",
        .base = "mutex",
        .rows = rows,
        .row_count = sizeof(rows) / sizeof(rows[0]),
        .goals = goals,
        .goal_count = sizeof(goals) / sizeof(goals[0]),
    };
    return bench_main(argc, argv, &suite);
}
