/* SPDX-License-Identifier: MIT */
/*
 * Goal:   whatever threads and tasks do to each other at once, every task runs exactly once, every
 *         handle ends, and nothing is left behind.
 * Method: storms through the public calls, under every policy and order in turn, each as long as it
 *         is given time for.  Every task writes plain data that its spawner gave it and whoever
 *         waits for it reads; at the end of a round the books must balance: what was spawned has
 *         ended, and as many blocks of memory are out as before.
 *
 * Environment: WEFT_STRESS_TASKS  suspended at once (default 1,000,000; 5.6 KiB of memory each);
 *              see storm.h for the rest
 */
#include <string.h>
#include <unistd.h>

#include "fiber/fiber.h"
#include "proc_aids.h"
#include "queue/queue.h"
#include "stress/storm.h"

enum { TASK_BYTES_MAX = 2048 };

/* ---- a million ------------------------------------------------------------------------------- */

struct crowd {
    weft_task *gate;
    wf_atomic_u32 is_open;
    uint8_t *steps; /* plain: each task has one, which it writes before and after its wait */
};

struct sleeper {
    struct crowd *crowd;
    size_t index;
};

static intptr_t wait_at_the_gate(void *arg)
{
    const struct sleeper *sleeper = arg;
    uint8_t *step = &sleeper->crowd->steps[sleeper->index];
    *step = (uint8_t)(*step + 1);
    CHECK_EQ(weft_join(sleeper->crowd->gate, NULL), 0);
    *step = (uint8_t)(*step + 1);
    return (intptr_t)sleeper->index;
}

static void suspend_all(struct crowd *crowd, weft_runtime *runtime, weft_task **tasks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct sleeper sleeper = {crowd, i};
        const weft_task_options options = {.arg_copy = sizeof(sleeper)};
        void *arg = (void *)(uintptr_t)&sleeper; /* copied */
        CHECK_EQ(weft_runtime_spawn(runtime, &tasks[i], wait_at_the_gate, arg, &options), 0);
    }
    for (size_t i = 0; i < count; i++) {
        wait_for_state(tasks[i], WEFT_BLOCKED);
    }
}

static size_t crowd_size(void)
{
    size_t count = (size_t)wanted("WEFT_STRESS_TASKS", 1000 * 1000);
#ifdef WF_SWITCH_NOTICED
    count = count < 2000 ? count : 2000; /* sanitizers need far more memory for each */
#endif
    const size_t available = (size_t)sysconf(_SC_AVPHYS_PAGES) * wf_page_size();
    if (count * (wf_page_size() + TASK_BYTES_MAX) > available) {
        tap_skip("not enough memory");
    }
    return count;
}

/* behaviour 37 */
static void a_million_tasks_are_suspended(void)
{
    const size_t count = crowd_size();
    const uint64_t blocks = blocks_out();
    struct crowd crowd = {.steps = calloc(count, 1)};
    weft_task **tasks = calloc(count, sizeof(weft_task *));
    CHECK(crowd.steps != NULL && tasks != NULL);
    weft_options options = options_of(&settings[1]);
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    crowd.gate = go_into(runtime, stand_by, &crowd.is_open);
    const size_t before = resident_bytes();
    const int64_t begin_ns = wf_clock_now();
    suspend_all(&crowd, runtime, tasks, count);
    const int64_t suspended_ns = wf_clock_now();
    const weft_stats stats = stats_of(runtime);
    CHECK_EQ(stats.live, count + 1);
    CHECK(stats.stacks >= count);
    CHECK(mapping_count() < wf_mapping_count_max());
    tap_note("%zu tasks suspended in %.1f s: %.0f bytes of memory each, %zu mappings", count,
             (double)(suspended_ns - begin_ns) / 1e9,
             (double)(resident_bytes() - before) / (double)count, mapping_count());
    raise_by_one(&crowd.is_open);
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(weft_await(tasks[i]), i);
        CHECK_EQ(crowd.steps[i], 2);
    }
    CHECK_EQ(weft_await(crowd.gate), 0);
    tap_note("woken and ended in %.1f s", (double)(wf_clock_now() - suspended_ns) / 1e9);
    wait_until_empty(runtime);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    CHECK_EQ(blocks_out(), blocks);
    free(tasks);
    free(crowd.steps);
}

/* ---- spawns from threads --------------------------------------------------------------------- */

enum { SPAWNERS = 4, SPAWNS = 400, OPEN_HANDLES = 16 };

struct hail;

struct stone {
    struct hail *hail;
    int side;          /* whose runtime it runs in */
    unsigned given;    /* plain: by the spawner */
    unsigned ran;      /* plain: by the task */
    struct stone *sub; /* to be spawned into the other runtime by it; or NULL */
};

struct hail {
    weft_runtime *runtimes[2];
    struct stone stones[SPAWNERS][2 * SPAWNS];
    wf_atomic_u32 ended;
};

struct spawner {
    struct hail *hail;
    unsigned index;
};

static intptr_t fall(void *arg)
{
    struct stone *stone = arg;
    struct hail *hail = stone->hail;
    CHECK_EQ(stone->given, 7);
    stone->ran++;
    if (stone->sub != NULL) {
        stone->sub->given = 7;
        CHECK_EQ(weft_runtime_spawn(hail->runtimes[1 - stone->side], NULL, fall, stone->sub, NULL),
                 0);
    }
    raise_by_one(&hail->ended);
    return (intptr_t)stone->ran;
}

static void await_stone(weft_task **task, struct stone *const *stone)
{
    if (*task != NULL) {
        CHECK_EQ(weft_await(*task), 1);
        CHECK_EQ((*stone)->ran, 1);
        *task = NULL;
    }
}

/* A third of them it awaits, a third it drops, of a third it never has a handle. */
static void *spawn_hail(void *arg)
{
    const struct spawner *spawner = arg;
    struct hail *hail = spawner->hail;
    weft_task *tasks[OPEN_HANDLES] = {NULL};
    struct stone *awaited[OPEN_HANDLES] = {NULL};
    for (unsigned i = 0; i < SPAWNS; i++) {
        struct stone *stone = &hail->stones[spawner->index][2 * i];
        *stone = (struct stone){.hail = hail, .side = (int)(i % 2), .given = 7};
        stone[1] = (struct stone){.hail = hail, .side = 1 - stone->side};
        /* Only the second runtime has a limit: nobody in it waits for room. */
        stone->sub = i % 8 == 0 ? &stone[1] : NULL;
        weft_task *task = NULL;
        CHECK_EQ(weft_runtime_spawn(hail->runtimes[stone->side], i % 3 == 0 ? NULL : &task, fall,
                                    stone, NULL),
                 0);
        if (i % 3 == 1) {
            weft_drop(task);
        } else if (task != NULL) {
            await_stone(&tasks[i % OPEN_HANDLES], &awaited[i % OPEN_HANDLES]);
            tasks[i % OPEN_HANDLES] = task;
            awaited[i % OPEN_HANDLES] = stone;
        }
    }
    for (unsigned i = 0; i < OPEN_HANDLES; i++) {
        await_stone(&tasks[i], &awaited[i]);
    }
    return NULL;
}

static void threads_spawn_into_two_runtimes(void)
{
    for (struct storm storm = {.rounds = 0}; storm_next(&storm);) {
        const uint64_t blocks = blocks_out();
        struct hail *hail = calloc(1, sizeof(*hail));
        CHECK(hail != NULL);
        weft_options limited = storm.options;
        limited.tasks_max = 48;
        limited.global_capacity = 24;
        limited.spawn_waits = true;
        CHECK_EQ(weft_runtime_open(&hail->runtimes[0], &storm.options), 0);
        CHECK_EQ(weft_runtime_open(&hail->runtimes[1], &limited), 0);
        struct spawner spawners[SPAWNERS];
        pthread_t threads[SPAWNERS];
        for (unsigned i = 0; i < SPAWNERS; i++) {
            spawners[i] = (struct spawner){hail, i};
            start_thread(&threads[i], spawn_hail, &spawners[i]);
        }
        for (unsigned i = 0; i < SPAWNERS; i++) {
            CHECK_EQ(wf_thread_join(threads[i]), 0);
        }
        const uint32_t total = SPAWNERS * (SPAWNS + SPAWNS / 8);
        wait_for(&hail->ended, total);
        wait_until_empty(hail->runtimes[0]);
        wait_until_empty(hail->runtimes[1]);
        CHECK_EQ(stats_of(hail->runtimes[0]).total.spawned +
                     stats_of(hail->runtimes[1]).total.spawned,
                 total);
        for (unsigned i = 0; i < SPAWNERS; i++) {
            for (unsigned k = 0; k < 2 * SPAWNS; k++) {
                CHECK_EQ(hail->stones[i][k].ran, hail->stones[i][k].given != 0 ? 1 : 0);
            }
        }
        storm.tasks += total;
        CHECK_EQ(weft_runtime_close(hail->runtimes[0], -1), 0);
        CHECK_EQ(weft_runtime_close(hail->runtimes[1], -1), 0);
        CHECK_EQ(blocks_out(), blocks);
        free(hail);
    }
}

/* ---- cancels against ends, joins and drops --------------------------------------------------- */

enum { TARGETS = 96, HANDS = 4 };

struct target {
    weft_task *task;
    weft_task *before; /* a handle of the target before it; NULL: it is the first */
    unsigned kind;
    unsigned begun;     /* plain */
    intptr_t result;    /* plain: what it is about to return */
    wf_atomic_u32 ends; /* times that it came to its end */
};

struct range {
    struct target targets[TARGETS];
    weft_task *handles[HANDS][TARGETS];
    uint64_t seed;
};

static intptr_t own_a_scope(void)
{
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    for (int i = 0; i < 2; i++) {
        int rc = weft_scope_go(&scope, yield_until_asked, NULL);
        CHECK(rc == 0 || rc == -ECANCELED || rc == -ESHUTDOWN);
    }
    return weft_scope_close(&scope);
}

static intptr_t be_a_target(void *arg)
{
    struct target *target = arg;
    intptr_t rc = 0;
    target->begun++;
    switch (target->kind) {
    case 0: /* ends by itself */
        break;
    case 1: /* soon */
        for (int i = 0; i < 20 && rc == 0; i++) {
            rc = weft_yield();
        }
        break;
    case 2: /* only if it is asked to */
        while (rc == 0) {
            rc = weft_yield();
        }
        break;
    case 3: /* with another one */
        rc = target->before != NULL ? weft_join(target->before, NULL) : 0;
        break;
    default: /* with those it owns, which end if it is asked to */
        rc = own_a_scope();
        break;
    }
    CHECK(rc == 0 || rc == -ECANCELED);
    weft_drop(target->before);
    target->result = rc == 0 ? 1 : rc;
    raise_by_one(&target->ends);
    return target->result;
}

struct hand {
    struct range *range;
    unsigned index;
};

/* Cancels, joins, drops or awaits, each target once, in an order of its own. */
static void *lay_hands_on(void *arg)
{
    const struct hand *hand = arg;
    struct range *range = hand->range;
    struct wf_random random;
    wf_random_init(&random, range->seed + hand->index);
    const unsigned first = wf_random_below(&random, TARGETS);
    for (unsigned i = 0; i < TARGETS; i++) {
        const unsigned at = (first + i * 5) % TARGETS; /* 5 and 96 have no divisor in common */
        struct target *target = &range->targets[at];
        weft_task *task = range->handles[hand->index][at];
        intptr_t result = 0;
        switch (hand->index) {
        case 0:
            CHECK_EQ(weft_cancel(task), 0);
            break;
        case 1:
            CHECK_EQ(weft_join(task, &result), 0);
            CHECK_EQ(result, target->result);
            break;
        case 2:
            (void)weft_check();
            break;
        default:
            result = weft_await(weft_task_ref(task));
            CHECK_EQ(result, target->result);
            break;
        }
        weft_drop(task);
    }
    return NULL;
}

static intptr_t lay_hands_on_in_a_task(void *arg)
{
    return (intptr_t)lay_hands_on(arg);
}

static void fill_range(struct range *range, weft_runtime *runtime, struct storm *storm)
{
    range->seed = wf_random_next(&storm->random);
    for (unsigned i = 0; i < TARGETS; i++) {
        struct target *target = &range->targets[i];
        target->kind = wf_random_below(&storm->random, 5);
        target->before = i > 0 ? weft_task_ref(range->targets[i - 1].task) : NULL;
        target->task = go_into(runtime, be_a_target, target);
        for (unsigned k = 0; k < HANDS; k++) {
            range->handles[k][i] = weft_task_ref(target->task);
        }
    }
}

static void cancels_meet_ends_joins_and_drops(void)
{
    for (struct storm storm = {.rounds = 0}; storm_next(&storm);) {
        const uint64_t blocks = blocks_out();
        struct range *range = calloc(1, sizeof(*range));
        weft_runtime *runtime = NULL;
        CHECK(range != NULL);
        CHECK_EQ(weft_runtime_open(&runtime, &storm.options), 0);
        fill_range(range, runtime, &storm);
        struct hand hands[HANDS];
        pthread_t threads[HANDS];
        for (unsigned i = 0; i < HANDS; i++) {
            hands[i] = (struct hand){range, i};
        }
        for (unsigned i = 0; i + 1 < HANDS; i++) {
            start_thread(&threads[i], lay_hands_on, &hands[i]);
        }
        CHECK_EQ(weft_await(go_into(runtime, lay_hands_on_in_a_task, &hands[HANDS - 1])), 0);
        for (unsigned i = 0; i + 1 < HANDS; i++) {
            CHECK_EQ(wf_thread_join(threads[i]), 0);
        }
        for (unsigned i = 0; i < TARGETS; i++) {
            struct target *target = &range->targets[i];
            const intptr_t result = weft_await(target->task);
            CHECK_EQ(result, target->result);
            CHECK_EQ(target->begun, 1);
            CHECK_EQ(wf_load_acquire(&target->ends), 1);
        }
        wait_until_empty(runtime);
        storm.tasks += stats_of(runtime).total.spawned;
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(blocks_out(), blocks);
        free(range);
    }
}

/* ---- more workers than a word has bits ------------------------------------------------------- */

enum { MANY_WORKERS = 70, WIDTH = 6, DEPTH = 4 };

struct branch {
    unsigned depth;
    uint64_t leaves; /* plain: by the task, read by who awaits it */
};

static intptr_t grow(void *arg)
{
    struct branch *branch = arg;
    struct branch below[WIDTH];
    weft_task *tasks[WIDTH];
    if (branch->depth == 0) {
        branch->leaves = 1;
        return 0;
    }
    for (unsigned i = 0; i < WIDTH; i++) {
        below[i] = (struct branch){.depth = branch->depth - 1};
        tasks[i] = go(grow, &below[i]);
    }
    CHECK_EQ(weft_await_all(tasks, WIDTH, NULL), 0);
    for (unsigned i = 0; i < WIDTH; i++) {
        branch->leaves += below[i].leaves;
    }
    return 0;
}

static void seventy_workers_share_a_tree(void)
{
    for (struct storm storm = {.rounds = 0}; storm_next(&storm);) {
        const uint64_t blocks = blocks_out();
        weft_runtime *runtime = NULL;
        storm.options.workers = MANY_WORKERS;
        CHECK_EQ(weft_runtime_open(&runtime, &storm.options), 0);
        for (unsigned i = 0; i < 3; i++) {
            struct branch root = {.depth = DEPTH};
            CHECK_EQ(weft_await(go_into(runtime, grow, &root)), 0);
            CHECK_EQ(root.leaves, WIDTH * WIDTH * WIDTH * WIDTH);
        }
        wait_until_empty(runtime);
        storm.tasks += stats_of(runtime).total.spawned;
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(blocks_out(), blocks);
    }
}

/* ---- what the plan asks for ------------------------------------------------------------------ */

enum { TRIES = 20, BATCH = 2000, YIELDS = 20000, STEALS = 10000 };

/* The best of several tries, in nanoseconds for one: others on the machine make all but the best
 * longer. */
static int64_t best_of(void (*once)(void), int64_t count)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        const int64_t begin_ns = wf_clock_now();
        once();
        const int64_t taken_ns = (wf_clock_now() - begin_ns) / count;
        best = taken_ns < best ? taken_ns : best;
    }
    return best;
}

static weft_task *batch[BATCH];

static void spawn_a_batch(void)
{
    for (int i = 0; i < BATCH; i++) {
        batch[i] = go(echo, NULL);
    }
}

static void run_a_batch(void)
{
    spawn_a_batch();
    CHECK_EQ(weft_await_all(batch, BATCH, NULL), 0);
}

static intptr_t yield_often(void *arg)
{
    for (int i = 0; i < YIELDS; i++) {
        CHECK_EQ(weft_yield(), 0);
    }
    return (intptr_t)arg;
}

static void let_two_yield(void)
{
    weft_task *tasks[2] = {go(yield_often, NULL), go(yield_often, NULL)};
    CHECK_EQ(weft_await_all(tasks, 2, NULL), 0);
}

static intptr_t measure_tasks(void *arg)
{
    int64_t spawn_ns = INT64_MAX;
    for (int i = 0; i < TRIES; i++) { /* without what it takes to run them */
        const int64_t begin_ns = wf_clock_now();
        spawn_a_batch();
        const int64_t taken_ns = (wf_clock_now() - begin_ns) / BATCH;
        spawn_ns = taken_ns < spawn_ns ? taken_ns : spawn_ns;
        CHECK_EQ(weft_await_all(batch, BATCH, NULL), 0);
    }
    const int64_t task_ns = best_of(run_a_batch, BATCH);
    const int64_t switch_ns = best_of(let_two_yield, 2 * (int64_t)YIELDS);
    tap_note("%u workers: %jd ns a spawn, %jd ns a task from spawn to await, %jd ns a switch",
             *(const unsigned *)arg, (intmax_t)spawn_ns, (intmax_t)task_ns, (intmax_t)switch_ns);
    CHECK(spawn_ns < 10000);
    CHECK(task_ns < 1000);
    CHECK(switch_ns < 500);
    return 0;
}

/* One worker's ring, and a thief with one of its own. */
struct theft {
    struct wf_ring from;
    struct wf_ring into;
    struct wf_node nodes[STEALS];
    int64_t taken_ns[STEALS];
    wf_atomic_u32 pushed;
    wf_atomic_u32 stolen;
};

static void *steal_them(void *arg)
{
    struct theft *theft = arg;
    for (uint32_t i = 0; i < STEALS; i++) {
        hold_for(&theft->pushed, i + 1);
        const int64_t begin_ns = wf_clock_now();
        const struct wf_node *node = wf_ring_steal(&theft->from, &theft->into);
        theft->taken_ns[i] = wf_clock_now() - begin_ns;
        CHECK(node == &theft->nodes[i]);
        raise_by_one(&theft->stolen);
    }
    return NULL;
}

static int by_time(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static int64_t measure_steals(void)
{
    struct theft *theft = wf_alloc_aligned(WF_CACHE_LINE, sizeof(*theft));
    pthread_t thread;
    CHECK(theft != NULL);
    memset(theft, 0, sizeof(*theft));
    wf_ring_init(&theft->from);
    wf_ring_init(&theft->into);
    start_thread(&thread, steal_them, theft);
    for (uint32_t i = 0; i < STEALS; i++) {
        wf_ring_push(&theft->from, &theft->nodes[i], NULL, NULL); /* never full */
        raise_by_one(&theft->pushed);
        hold_for(&theft->stolen, i + 1);
    }
    CHECK_EQ(wf_thread_join(thread), 0);
    qsort(theft->taken_ns, STEALS, sizeof(theft->taken_ns[0]), by_time);
    const int64_t good_ns = theft->taken_ns[STEALS / 4];
    wf_free(theft);
    return good_ns;
}

/* S2.45-S2.48: limits from which we are far away, in a build with assertions too, and with fewer
 * than the eight cores that the last one allows. */
static void the_targets_of_the_plan_are_met(void)
{
#ifdef WF_SWITCH_NOTICED
    tap_skip("sanitizers take their time");
#endif
    for (unsigned workers = 1; workers <= 2; workers++) {
        const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, workers};
        const weft_options options = options_of(&setting);
        CHECK_EQ(weft_run(measure_tasks, &workers, &options), 0);
    }
    const int64_t steal_ns = measure_steals();
    tap_note("%jd ns a steal", (intmax_t)steal_ns);
    CHECK(steal_ns < 1000);
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(a_million_tasks_are_suspended, LIMIT_S),
    TAP_TEST_LIMIT(threads_spawn_into_two_runtimes, LIMIT_S),
    TAP_TEST_LIMIT(cancels_meet_ends_joins_and_drops, LIMIT_S),
    TAP_TEST_LIMIT(seventy_workers_share_a_tree, LIMIT_S),
    TAP_TEST_LIMIT(the_targets_of_the_plan_are_met, LIMIT_S),
};
TAP_MAIN(tests)
