/* SPDX-License-Identifier: MIT */
/*
 * bench_sched.c - the cost of tasks: starting, awaiting, yielding, a million waiting tasks, waking
 * a worker.
 *
 * The warm-up opens the runtime, which stays open, so that starting threads is not measured.
 * Latency rows report the median of their samples: a mean would show the few times when other
 * processes had the CPU.  Where a row waits before each sample it spins, on a thread that no worker
 * needs: a CPU that was halted would add its own wake-up time.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <weft/weft.h>

#include "base/base.h"
#include "bench.h"
#include "os/os.h"

enum {
    BATCH = 1000,
    CHILDREN = 10,                  /* of a skynet node */
    LEAVES = 1000 * 1000,           /* of the skynet */
    PAUSE_NS = 300 * 1000,          /* until a worker without work parks */
    SETTLE_NS = 100 * 1000 * 1000,  /* until all workers are parked, in any case */
    IDLE_OP_NS = 100 * 1000 * 1000, /* one operation of doing nothing */
};

#define SKYNET_SUM INT64_C(499999500000)

static weft_runtime *runtime;

/* Never closed: the process ends after the measurement. */
static void need_runtime(unsigned workers)
{
    const weft_runtime_options options = {.workers = workers};
    if (runtime == NULL) {
        WEFT_CHECK(weft_runtime_open(&runtime, &options) == 0);
    }
}

/* Runs fn(arg) as a task; returns its result. */
static uint64_t run_task(weft_fn fn, void *arg, unsigned workers)
{
    weft_task *task;
    need_runtime(workers);
    WEFT_CHECK(weft_runtime_spawn(runtime, &task, fn, arg, NULL) == 0);
    const intptr_t result = weft_await(task);
    WEFT_CHECK(result >= 0);
    return (uint64_t)result;
}

static void *as_arg(uint64_t number)
{
    return (void *)(uintptr_t)number;
}

static uint64_t as_number(const void *arg)
{
    return (uintptr_t)arg;
}

static void pause_busily(uint64_t ns)
{
    for (const uint64_t start_ns = bench_now_ns(); bench_now_ns() - start_ns < ns;) {
    }
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Returns the median sample times `count`. */
static uint64_t sum_of_median(uint64_t *samples, uint64_t count)
{
    qsort(samples, count, sizeof(samples[0]), compare_u64);
    return samples[count / 2] * count;
}

static void *allocate(uint64_t count, size_t size)
{
    void *memory = calloc(count, size);
    WEFT_CHECK(memory != NULL);
    return memory;
}

/* ---- starting and waiting ------------------------------------------------------------------- */

static intptr_t give_one(void *arg)
{
    (void)arg;
    return 1;
}

static intptr_t spawn_join_task(void *arg)
{
    static weft_task *tasks[BATCH];
    intptr_t sum = 0;
    for (uint64_t left = as_number(arg) / BATCH; left > 0; left--) {
        for (size_t i = 0; i < BATCH; i++) {
            tasks[i] = weft_go(give_one, NULL);
        }
        for (size_t i = 0; i < BATCH; i++) {
            sum += weft_await(tasks[i]);
        }
    }
    WEFT_CHECK((uint64_t)sum == as_number(arg) / BATCH * BATCH);
    return 0;
}

static uint64_t spawn_join(uint64_t ops, unsigned workers)
{
    return run_task(spawn_join_task, as_arg(ops), workers);
}

static intptr_t spawn_join_all_task(void *arg)
{
    static weft_task *tasks[BATCH];
    static intptr_t results[BATCH];
    for (uint64_t left = as_number(arg) / BATCH; left > 0; left--) {
        for (size_t i = 0; i < BATCH; i++) {
            tasks[i] = weft_go(give_one, NULL);
        }
        WEFT_CHECK(weft_await_all(tasks, BATCH, results) == 0);
        WEFT_CHECK(results[BATCH - 1] == 1);
    }
    return 0;
}

static uint64_t spawn_join_all(uint64_t ops, unsigned workers)
{
    return run_task(spawn_join_all_task, as_arg(ops), workers);
}

static intptr_t spawn_join_scope_task(void *arg)
{
    for (uint64_t left = as_number(arg) / BATCH; left > 0; left--) {
        weft_scope scope;
        WEFT_CHECK(weft_scope_open(&scope, NULL) == 0);
        for (size_t i = 0; i < BATCH; i++) {
            WEFT_CHECK(weft_scope_go(&scope, give_one, NULL) == 0);
        }
        WEFT_CHECK(weft_scope_close(&scope) == 0);
    }
    return 0;
}

static uint64_t spawn_join_scope(uint64_t ops, unsigned workers)
{
    return run_task(spawn_join_scope_task, as_arg(ops), workers);
}

static intptr_t spawn_await_task(void *arg)
{
    intptr_t sum = 0;
    for (uint64_t left = as_number(arg); left > 0; left--) {
        sum += weft_await(weft_go(give_one, NULL));
    }
    WEFT_CHECK((uint64_t)sum == as_number(arg));
    return 0;
}

static uint64_t spawn_await(uint64_t ops, unsigned workers)
{
    return run_task(spawn_await_task, as_arg(ops), workers);
}

static uint64_t spawn_outside(uint64_t ops, unsigned workers)
{
    static weft_task *tasks[BATCH];
    intptr_t sum = 0;
    need_runtime(workers);
    for (uint64_t left = ops / BATCH; left > 0; left--) {
        for (size_t i = 0; i < BATCH; i++) {
            WEFT_CHECK(weft_runtime_spawn(runtime, &tasks[i], give_one, NULL, NULL) == 0);
        }
        for (size_t i = 0; i < BATCH; i++) {
            sum += weft_await(tasks[i]);
        }
    }
    WEFT_CHECK((uint64_t)sum == ops / BATCH * BATCH);
    return 0;
}

struct node {
    int64_t number; /* of its first leaf */
    int64_t size;   /* leaves below it */
};

static intptr_t skynet_node(void *arg)
{
    const struct node *node = arg;
    struct node children[CHILDREN];
    weft_task *tasks[CHILDREN];
    if (node->size == 1) {
        return (intptr_t)node->number;
    }
    for (int i = 0; i < CHILDREN; i++) {
        const int64_t size = node->size / CHILDREN;
        children[i] = (struct node){.number = node->number + i * size, .size = size};
        tasks[i] = weft_go(skynet_node, &children[i]);
    }
    intptr_t sum = 0;
    for (int i = 0; i < CHILDREN; i++) {
        sum += weft_await(tasks[i]);
    }
    return sum;
}

static uint64_t skynet(uint64_t ops, unsigned workers)
{
    for (; ops > 0; ops--) {
        struct node root = {.number = 0, .size = LEAVES};
        WEFT_CHECK(run_task(skynet_node, &root, workers) == SKYNET_SUM);
    }
    return 0;
}

/* ---- yielding ------------------------------------------------------------------------------- */

static intptr_t yield_often(void *arg)
{
    for (uint64_t left = as_number(arg); left > 0; left--) {
        WEFT_CHECK(weft_yield() == 0);
    }
    return 0;
}

struct crowd {
    size_t tasks;
    uint64_t yields; /* of each task */
};

static intptr_t yield_task(void *arg)
{
    static weft_task *tasks[BATCH];
    const struct crowd *crowd = arg;
    for (size_t i = 0; i < crowd->tasks; i++) {
        tasks[i] = weft_go(yield_often, as_arg(crowd->yields));
    }
    return weft_await_all(tasks, crowd->tasks, NULL);
}

static uint64_t yield_2(uint64_t ops, unsigned workers)
{
    struct crowd crowd = {.tasks = 2, .yields = ops / 2};
    return run_task(yield_task, &crowd, workers);
}

static uint64_t yield_1000(uint64_t ops, unsigned workers)
{
    struct crowd crowd = {.tasks = BATCH, .yields = ops / BATCH};
    return run_task(yield_task, &crowd, workers);
}

/* ---- a million waiting tasks ---------------------------------------------------------------- */

struct blocked {
    uint64_t count;
    uint64_t create_ns; /* until all tasks wait */
    uint64_t wake_ns;   /* until all tasks have ended */
};

static wf_atomic_u64 arrived;

/* The gate: all other tasks wait for its end.  It awaits the task that cancels it, which does not
 * end before; so it waits until it is cancelled, and never runs in between. */
static intptr_t stay_shut(void *opener)
{
    return weft_await(opener);
}

static intptr_t wait_at_gate(void *gate)
{
    (void)wf_fetch_add_relaxed(&arrived, 1); /* relaxed: only a count */
    return weft_join(gate, NULL);
}

static intptr_t blocked_task(void *arg)
{
    struct blocked *blocked = arg;
    weft_task **tasks = allocate(blocked->count, sizeof(weft_task *));
    wf_store_relaxed(&arrived, 0);
    weft_task *gate = weft_go(stay_shut, weft_task_ref(weft_self()));
    WEFT_CHECK(gate != NULL);
    const uint64_t start_ns = bench_now_ns();
    for (uint64_t i = 0; i < blocked->count; i++) {
        tasks[i] = weft_go(wait_at_gate, gate);
    }
    while (wf_load_relaxed(&arrived) < blocked->count) {
        WEFT_CHECK(weft_yield() == 0);
    }
    const uint64_t blocked_ns = bench_now_ns();
    WEFT_CHECK(weft_cancel(gate) == 0);
    for (uint64_t i = 0; i < blocked->count; i++) {
        WEFT_CHECK(weft_await(tasks[i]) == 0);
    }
    blocked->create_ns = blocked_ns - start_ns;
    blocked->wake_ns = bench_now_ns() - blocked_ns;
    WEFT_CHECK(weft_await(gate) < 0);
    free(tasks);
    return 0;
}

/* The same with poll tasks: their gate is a latch. */
struct passer {
    weft_wait_future gate;
    bool has_arrived;
};

static weft_poll_result pass_gate(weft_cx *cx, void *state, intptr_t *result)
{
    struct passer *passer = state;
    if (!passer->has_arrived) {
        passer->has_arrived = true;
        (void)wf_fetch_add_relaxed(&arrived, 1); /* relaxed: as above */
    }
    return weft_future_poll(&passer->gate.future, cx, result);
}

static intptr_t blocked_poll_task(void *arg)
{
    struct blocked *blocked = arg;
    weft_task **tasks = allocate(blocked->count, sizeof(weft_task *));
    weft_latch gate = WEFT_LATCH_INIT(1);
    struct passer passer = {.has_arrived = false};
    wf_store_relaxed(&arrived, 0);
    const uint64_t start_ns = bench_now_ns();
    for (uint64_t i = 0; i < blocked->count; i++) {
        weft_latch_wait_future(&passer.gate, &gate);
        WEFT_CHECK(weft_spawn_poll(&tasks[i], pass_gate, &passer, sizeof(passer), NULL) == 0);
    }
    while (wf_load_relaxed(&arrived) < blocked->count) {
        WEFT_CHECK(weft_yield() == 0);
    }
    const uint64_t blocked_ns = bench_now_ns();
    WEFT_CHECK(weft_latch_count_down(&gate, 1) == 0);
    for (uint64_t i = 0; i < blocked->count; i++) {
        WEFT_CHECK(weft_await(tasks[i]) == 0);
    }
    blocked->create_ns = blocked_ns - start_ns;
    blocked->wake_ns = bench_now_ns() - blocked_ns;
    free(tasks);
    return 0;
}

static uint64_t blocked_create_poll(uint64_t ops, unsigned workers)
{
    struct blocked blocked = {.count = ops};
    (void)run_task(blocked_poll_task, &blocked, workers);
    return blocked.create_ns;
}

static uint64_t blocked_wake_poll(uint64_t ops, unsigned workers)
{
    struct blocked blocked = {.count = ops};
    (void)run_task(blocked_poll_task, &blocked, workers);
    return blocked.wake_ns;
}

static uint64_t blocked_create(uint64_t ops, unsigned workers)
{
    struct blocked blocked = {.count = ops};
    (void)run_task(blocked_task, &blocked, workers);
    return blocked.create_ns;
}

static uint64_t blocked_wake(uint64_t ops, unsigned workers)
{
    struct blocked blocked = {.count = ops};
    (void)run_task(blocked_task, &blocked, workers);
    return blocked.wake_ns;
}

/* ---- waking a worker ------------------------------------------------------------------------ */

static wf_atomic_u64 arrived_ns; /* when the awaited task began to run; 0: it has not */

static intptr_t arrive(void *arg)
{
    uint64_t none = 0;
    (void)arg;
    (void)wf_cas_release(&arrived_ns, &none, bench_now_ns()); /* the first of several counts */
    return 0;
}

/* Spins without yielding the CPU, which could go to the thread that is measured. */
static uint64_t await_arrival(void)
{
    for (;;) {
        const uint64_t ns = wf_load_acquire(&arrived_ns);
        if (ns != 0) {
            return ns;
        }
    }
}

static uint64_t wake_parked(uint64_t ops, unsigned workers)
{
    uint64_t *samples = allocate(ops, sizeof(uint64_t));
    need_runtime(workers);
    for (uint64_t i = 0; i < ops; i++) {
        pause_busily(PAUSE_NS);
        wf_store_relaxed(&arrived_ns, 0);
        const uint64_t start_ns = bench_now_ns();
        WEFT_CHECK(weft_runtime_spawn(runtime, NULL, arrive, NULL, NULL) == 0);
        samples[i] = await_arrival() - start_ns;
    }
    const uint64_t ns = sum_of_median(samples, ops);
    free(samples);
    return ns;
}

/* The minimum that wakes a sleeping thread: one word and two system calls. */
struct sleeper {
    wf_atomic_u32 round;
    uint32_t rounds;
};

static void *sleep_rounds(void *arg)
{
    struct sleeper *sleeper = arg;
    for (uint32_t round = 1; round <= sleeper->rounds; round++) {
        while (wf_load_acquire(&sleeper->round) != round) {
            (void)wf_futex_wait(&sleeper->round, round - 1, WF_FOREVER);
        }
        wf_store_release(&arrived_ns, bench_now_ns());
    }
    return NULL;
}

static uint64_t wake_futex(uint64_t ops, unsigned workers)
{
    uint64_t *samples = allocate(ops, sizeof(uint64_t));
    struct sleeper sleeper = {.rounds = (uint32_t)ops};
    pthread_t thread;
    (void)workers;
    WEFT_CHECK(wf_thread_start(&thread, sleep_rounds, &sleeper, NULL) == 0);
    for (uint64_t i = 0; i < ops; i++) {
        pause_busily(PAUSE_NS);
        wf_store_relaxed(&arrived_ns, 0);
        const uint64_t start_ns = bench_now_ns();
        wf_store_release(&sleeper.round, (uint32_t)i + 1);
        (void)wf_futex_wake(&sleeper.round, 1);
        samples[i] = await_arrival() - start_ns;
    }
    WEFT_CHECK(wf_thread_join(thread) == 0);
    const uint64_t ns = sum_of_median(samples, ops);
    free(samples);
    return ns;
}

struct thefts {
    uint64_t count;
    uint64_t pause_ns; /* before each sample */
    uint64_t ns;
};

/* The task keeps its worker busy until a thief has taken one of its two children: two, because the
 * newest stays in the LIFO slot of its own worker. */
static intptr_t be_robbed(void *arg)
{
    struct thefts *thefts = arg;
    uint64_t *samples = allocate(thefts->count, sizeof(uint64_t));
    for (uint64_t i = 0; i < thefts->count; i++) {
        pause_busily(thefts->pause_ns);
        wf_store_relaxed(&arrived_ns, 0);
        const uint64_t start_ns = bench_now_ns();
        weft_task *older = weft_go(arrive, NULL);
        weft_task *newer = weft_go(arrive, NULL);
        samples[i] = await_arrival() - start_ns;
        WEFT_CHECK(weft_await(older) == 0);
        WEFT_CHECK(weft_await(newer) == 0);
    }
    thefts->ns = sum_of_median(samples, thefts->count);
    free(samples);
    return 0;
}

static uint64_t steal_parked(uint64_t ops, unsigned workers)
{
    struct thefts thefts = {.count = ops, .pause_ns = PAUSE_NS};
    (void)workers;
    (void)run_task(be_robbed, &thefts, 2);
    return thefts.ns;
}

static uint64_t steal_searching(uint64_t ops, unsigned workers)
{
    struct thefts thefts = {.count = ops, .pause_ns = 0};
    (void)workers;
    (void)run_task(be_robbed, &thefts, 2);
    return thefts.ns;
}

/* ---- doing nothing -------------------------------------------------------------------------- */

static void sleep_ns(uint64_t ns)
{
    const struct timespec span = {.tv_sec = (time_t)(ns / 1000000000),
                                  .tv_nsec = (long)(ns % 1000000000)};
    WEFT_CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL) == 0);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    WEFT_CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The time is CPU time. */
static uint64_t idle(uint64_t ops, unsigned workers)
{
    (void)run_task(give_one, NULL, workers);
    sleep_ns(SETTLE_NS);
    const uint64_t start_ns = cpu_ns();
    sleep_ns(ops * IDLE_OP_NS);
    return cpu_ns() - start_ns;
}

static const struct bench_row rows[] = {
    {"spawn-join-1000", "weft", "task", 500000, 1, spawn_join},
    {"spawn-join-1000", "weft-all", "task", 500000, 1, spawn_join_all},
    {"spawn-join-1000", "weft-scope", "task", 500000, 1, spawn_join_scope},
    {"spawn-await", "weft", "task", 500000, 1, spawn_await},
    {"spawn-outside-1000", "weft", "task", 200000, 1, spawn_outside},
    {"yield-2", "weft", "switch", 2000000, 1, yield_2},
    {"yield-1000", "weft", "switch", 2000000, 1, yield_1000},
    {"skynet-1m", "weft", "run", 1, 1, skynet},
    {"wake-parked", "weft", "wake", 500, 1, wake_parked},
    {"wake-parked", "futex", "wake", 500, 1, wake_futex},
    {"steal-parked", "weft", "theft", 500, 0, steal_parked},
    {"steal-searching", "weft", "theft", 20000, 0, steal_searching},
    {"blocked-1m-create", "weft", "task", 1000000, 1, blocked_create},
    {"blocked-1m-create", "weft-poll", "task", 1000000, 1, blocked_create_poll},
    {"blocked-1m-wake", "weft", "task", 1000000, 1, blocked_wake},
    {"blocked-1m-wake", "weft-poll", "task", 1000000, 1, blocked_wake_poll},
    {"idle-5s", "weft", "100 ms", 50, 1, idle},
};

/* Goals in nanoseconds are given here as ratios to a peer that was measured at the same time. */
static const struct bench_goal goals[] = {
    {"spawn-join-1000", "weft", "go", 0.25, false, 1, false},
    {"spawn-join-1000", "weft", "go", 0.25, false, 2, false},
    {"spawn-await", "weft", "tokio", 0.21, false, 1, false},
    {"spawn-await", "weft", "tokio", 0.24, false, 2, false},
    {"yield-2", "weft", "go", 0.22, false, 1, false},
    {"yield-2", "weft", "go", 0.29, false, 2, false},
    {"yield-1000", "weft", "go", 0.25, false, 1, false},
    {"yield-1000", "weft", "tokio", 0.55, false, 2, false},
    {"wake-parked", "weft", "futex", 1.1, false, 1, true},
    {"wake-parked", "weft", "futex", 1.1, false, 2, true},
    {"blocked-1m-create", "weft", "go", 0.57, false, 1, false},
    {"blocked-1m-wake", "weft", "go", 0.38, false, 1, false},
    {"blocked-1m-create", "weft-poll", "tokio", 0.5, false, 1, false},
    {"blocked-1m-wake", "weft-poll", "tokio", 0.5, false, 1, false},
};

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {
        .title = "Tasks",
        .base = "weft",
        .rows = rows,
        .row_count = sizeof(rows) / sizeof(rows[0]),
        .goals = goals,
        .goal_count = sizeof(goals) / sizeof(goals[0]),
    };
    return bench_main(argc, argv, &suite);
}
