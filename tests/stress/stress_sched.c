/* SPDX-License-Identifier: MIT */
/*
 * Goal:   whatever threads and tasks do to each other concurrently, every task runs exactly once,
 *         every handle ends, and nothing is left behind.
 * Method: stress through the public calls, under every policy and order in turn, each for its share
 *         of the time.  Every task writes plain data that its spawner gave it and its awaiter
 *         reads; at the end of an iteration the books must balance: every spawned task has ended,
 *         and the number of live memory blocks is the same as before.
 * Environment: WEFT_STRESS_TASKS  suspended at once (default 1,000,000; 5.6 KiB of memory each);
 *              see stress.h for the rest
 */
#include <string.h>
#include <unistd.h>

#include "fiber/fiber.h"
#include "proc_helpers.h"
#include "queue/queue.h"
#include "stress/stress.h"

enum { TASK_BYTES_MAX = 2048 };

/* ---- a million ------------------------------------------------------------------------------- */

struct sleepers {
    weft_task *gate;
    wf_atomic_u32 is_open;
    uint8_t *steps; /* plain: each task has one, which it writes before and after its wait */
};

struct sleeper {
    struct sleepers *sleepers;
    size_t index;
};

static intptr_t wait_at_the_gate(void *arg)
{
    const struct sleeper *sleeper = arg;
    uint8_t *step = &sleeper->sleepers->steps[sleeper->index];
    *step = (uint8_t)(*step + 1);
    CHECK_EQ(weft_join(sleeper->sleepers->gate, NULL), 0);
    *step = (uint8_t)(*step + 1);
    return (intptr_t)sleeper->index;
}

static void suspend_all(struct sleepers *sleepers, weft_runtime *runtime, weft_task **tasks,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct sleeper sleeper = {sleepers, i};
        const weft_task_options options = {.arg_copy = sizeof(sleeper)};
        void *arg = (void *)(uintptr_t)&sleeper; /* copied */
        CHECK_EQ(weft_runtime_spawn(runtime, &tasks[i], wait_at_the_gate, arg, &options), 0);
    }
    for (size_t i = 0; i < count; i++) {
        wait_for_state(tasks[i], WEFT_TASK_BLOCKED);
    }
}

static size_t sleeper_count(void)
{
    size_t count = (size_t)wanted("WEFT_STRESS_TASKS", 1000 * 1000);
#ifdef WF_SWITCH_SANITIZED
    count = count < 2000 ? count : 2000; /* sanitizers need far more memory for each */
#endif
    const size_t available = (size_t)sysconf(_SC_AVPHYS_PAGES) * wf_page_size();
    if (count * (wf_page_size() + TASK_BYTES_MAX) > available) {
        tap_skip("not enough memory");
    }
    return count;
}

/* behaviour 37 */
static void task_million_can_be_suspended(void)
{
    const size_t count = sleeper_count();
    const uint64_t blocks = blocks_out();
    struct sleepers sleepers = {.steps = calloc(count, 1)};
    weft_task **tasks = calloc(count, sizeof(weft_task *));
    CHECK(sleepers.steps != NULL && tasks != NULL);
    weft_runtime_options options = options_of(&settings[1]);
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    sleepers.gate = go_into(runtime, stand_by, &sleepers.is_open);
    const size_t before = resident_bytes();
    const int64_t begin_ns = wf_clock_now();
    suspend_all(&sleepers, runtime, tasks, count);
    const int64_t suspended_ns = wf_clock_now();
    const weft_runtime_stats stats = stats_of(runtime);
    CHECK_EQ(stats.live, count + 1);
    CHECK(stats.stacks >= count);
    CHECK(mapping_count() < wf_mapping_count_max());
    tap_note("%zu tasks suspended in %.1f s: %.0f bytes of memory each, %zu mappings", count,
             (double)(suspended_ns - begin_ns) / 1e9,
             (double)(resident_bytes() - before) / (double)count, mapping_count());
    raise_by_one(&sleepers.is_open);
    for (size_t i = 0; i < count; i++) {
        CHECK_EQ(weft_await(tasks[i]), i);
        CHECK_EQ(sleepers.steps[i], 2);
    }
    CHECK_EQ(weft_await(sleepers.gate), 0);
    tap_note("woken and ended in %.1f s", (double)(wf_clock_now() - suspended_ns) / 1e9);
    wait_until_empty(runtime);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    CHECK_EQ(blocks_out(), blocks);
    free(tasks);
    free(sleepers.steps);
}

/* ---- spawns from threads --------------------------------------------------------------------- */

enum { SPAWNERS = 4, SPAWNS = 400, OPEN_HANDLES = 16 };

struct spawns;

struct job {
    struct spawns *spawns;
    int index;       /* index of the runtime that it runs in */
    unsigned given;  /* plain: by the spawner */
    unsigned ran;    /* plain: by the task */
    struct job *sub; /* spawned by this task into the other runtime; or NULL */
};

struct spawns {
    weft_runtime *runtimes[2];
    struct job jobs[SPAWNERS][2 * SPAWNS];
    wf_atomic_u32 ended;
};

struct spawner {
    struct spawns *spawns;
    unsigned index;
};

static intptr_t run_job(void *arg)
{
    struct job *job = arg;
    struct spawns *spawns = job->spawns;
    CHECK_EQ(job->given, 7);
    job->ran++;
    if (job->sub != NULL) {
        job->sub->given = 7;
        CHECK_EQ(
            weft_runtime_spawn(spawns->runtimes[1 - job->index], NULL, run_job, job->sub, NULL), 0);
    }
    raise_by_one(&spawns->ended);
    return (intptr_t)job->ran;
}

static void await_job(weft_task **task, struct job *const *job)
{
    if (*task != NULL) {
        CHECK_EQ(weft_await(*task), 1);
        CHECK_EQ((*job)->ran, 1);
        *task = NULL;
    }
}

/* Awaits a third of the tasks, drops the handles of a third, and takes no handle of a third. */
static void *spawn_jobs(void *arg)
{
    const struct spawner *spawner = arg;
    struct spawns *spawns = spawner->spawns;
    weft_task *tasks[OPEN_HANDLES] = {NULL};
    struct job *awaited[OPEN_HANDLES] = {NULL};
    for (unsigned i = 0; i < SPAWNS; i++) {
        struct job *job = &spawns->jobs[spawner->index][2 * i];
        *job = (struct job){.spawns = spawns, .index = (int)(i % 2), .given = 7};
        job[1] = (struct job){.spawns = spawns, .index = 1 - job->index};
        /* Only the second runtime has a limit: no task in it waits for admission. */
        job->sub = i % 8 == 0 ? &job[1] : NULL;
        weft_task *task = NULL;
        CHECK_EQ(weft_runtime_spawn(spawns->runtimes[job->index], i % 3 == 0 ? NULL : &task,
                                    run_job, job, NULL),
                 0);
        if (i % 3 == 1) {
            weft_task_unref(task);
        } else if (task != NULL) {
            await_job(&tasks[i % OPEN_HANDLES], &awaited[i % OPEN_HANDLES]);
            tasks[i % OPEN_HANDLES] = task;
            awaited[i % OPEN_HANDLES] = job;
        }
    }
    for (unsigned i = 0; i < OPEN_HANDLES; i++) {
        await_job(&tasks[i], &awaited[i]);
    }
    return NULL;
}

static void spawn_from_threads_into_two_runtimes_runs_each_task_once(void)
{
    for (struct stress stress = {.rounds = 0}; stress_next(&stress);) {
        const uint64_t blocks = blocks_out();
        struct spawns *spawns = calloc(1, sizeof(*spawns));
        CHECK(spawns != NULL);
        weft_runtime_options limited = stress.options;
        limited.tasks_max = 48;
        limited.global_capacity = 24;
        limited.spawn_waits = true;
        CHECK_EQ(weft_runtime_open(&spawns->runtimes[0], &stress.options), 0);
        CHECK_EQ(weft_runtime_open(&spawns->runtimes[1], &limited), 0);
        struct spawner spawners[SPAWNERS];
        pthread_t threads[SPAWNERS];
        for (unsigned i = 0; i < SPAWNERS; i++) {
            spawners[i] = (struct spawner){spawns, i};
            start_thread(&threads[i], spawn_jobs, &spawners[i]);
        }
        for (unsigned i = 0; i < SPAWNERS; i++) {
            CHECK_EQ(wf_thread_join(threads[i]), 0);
        }
        const uint32_t total = SPAWNERS * (SPAWNS + SPAWNS / 8);
        wait_for(&spawns->ended, total);
        wait_until_empty(spawns->runtimes[0]);
        wait_until_empty(spawns->runtimes[1]);
        CHECK_EQ(stats_of(spawns->runtimes[0]).total.spawned +
                     stats_of(spawns->runtimes[1]).total.spawned,
                 total);
        for (unsigned i = 0; i < SPAWNERS; i++) {
            for (unsigned k = 0; k < 2 * SPAWNS; k++) {
                CHECK_EQ(spawns->jobs[i][k].ran, spawns->jobs[i][k].given != 0 ? 1 : 0);
            }
        }
        stress.tasks += total;
        CHECK_EQ(weft_runtime_close(spawns->runtimes[0], -1), 0);
        CHECK_EQ(weft_runtime_close(spawns->runtimes[1], -1), 0);
        CHECK_EQ(blocks_out(), blocks);
        free(spawns);
    }
}

/* ---- cancels against ends, joins and drops --------------------------------------------------- */

enum { TARGETS = 96, USERS = 4 };

struct target {
    weft_task *task;
    weft_task *before; /* a handle of the previous target; NULL: it is the first */
    unsigned kind;
    unsigned begun;     /* plain */
    intptr_t result;    /* plain: the result that it will return */
    wf_atomic_u32 ends; /* number of times that it reached its end */
};

struct range {
    struct target targets[TARGETS];
    weft_task *handles[USERS][TARGETS];
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

static intptr_t run_target(void *arg)
{
    struct target *target = arg;
    intptr_t rc = 0;
    target->begun++;
    switch (target->kind) {
    case 0: /* ends at once */
        break;
    case 1: /* ends soon */
        for (int i = 0; i < 20 && rc == 0; i++) {
            rc = weft_yield();
        }
        break;
    case 2: /* ends only when cancelled */
        while (rc == 0) {
            rc = weft_yield();
        }
        break;
    case 3: /* ends with another target */
        rc = target->before != NULL ? weft_join(target->before, NULL) : 0;
        break;
    default: /* ends with its children, which end when cancelled */
        rc = own_a_scope();
        break;
    }
    CHECK(rc == 0 || rc == -ECANCELED);
    weft_task_unref(target->before);
    target->result = rc == 0 ? 1 : rc;
    raise_by_one(&target->ends);
    return target->result;
}

struct user {
    struct range *range;
    unsigned index;
};

/* Cancels, joins, drops or awaits each target once, in its own order. */
static void *use_handles(void *arg)
{
    const struct user *user = arg;
    struct range *range = user->range;
    struct wf_random random;
    wf_random_init(&random, range->seed + user->index);
    const unsigned first = wf_random_below(&random, TARGETS);
    for (unsigned i = 0; i < TARGETS; i++) {
        const unsigned at = (first + i * 5) % TARGETS; /* 5 and 96 have no divisor in common */
        struct target *target = &range->targets[at];
        weft_task *task = range->handles[user->index][at];
        intptr_t result = 0;
        switch (user->index) {
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
        weft_task_unref(task);
    }
    return NULL;
}

static intptr_t use_handles_in_a_task(void *arg)
{
    return (intptr_t)use_handles(arg);
}

static void fill_range(struct range *range, weft_runtime *runtime, struct stress *stress)
{
    range->seed = wf_random_next(&stress->random);
    for (unsigned i = 0; i < TARGETS; i++) {
        struct target *target = &range->targets[i];
        target->kind = wf_random_below(&stress->random, 5);
        target->before = i > 0 ? weft_task_ref(range->targets[i - 1].task) : NULL;
        target->task = go_into(runtime, run_target, target);
        for (unsigned k = 0; k < USERS; k++) {
            range->handles[k][i] = weft_task_ref(target->task);
        }
    }
}

static void cancel_racing_end_join_and_drop_keeps_results(void)
{
    for (struct stress stress = {.rounds = 0}; stress_next(&stress);) {
        const uint64_t blocks = blocks_out();
        struct range *range = calloc(1, sizeof(*range));
        weft_runtime *runtime = NULL;
        CHECK(range != NULL);
        CHECK_EQ(weft_runtime_open(&runtime, &stress.options), 0);
        fill_range(range, runtime, &stress);
        struct user users[USERS];
        pthread_t threads[USERS];
        for (unsigned i = 0; i < USERS; i++) {
            users[i] = (struct user){range, i};
        }
        for (unsigned i = 0; i + 1 < USERS; i++) {
            start_thread(&threads[i], use_handles, &users[i]);
        }
        CHECK_EQ(weft_await(go_into(runtime, use_handles_in_a_task, &users[USERS - 1])), 0);
        for (unsigned i = 0; i + 1 < USERS; i++) {
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
        stress.tasks += stats_of(runtime).total.spawned;
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(blocks_out(), blocks);
        free(range);
    }
}

/* ---- more workers than a word has bits ------------------------------------------------------- */

enum { MANY_WORKERS = 70, WIDTH = 6, DEPTH = 4 };

struct branch {
    unsigned depth;
    uint64_t leaves; /* plain: written by the task, read by its awaiter */
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

static void runtime_with_seventy_workers_runs_a_tree(void)
{
    for (struct stress stress = {.rounds = 0}; stress_next(&stress);) {
        const uint64_t blocks = blocks_out();
        weft_runtime *runtime = NULL;
        stress.options.workers = MANY_WORKERS;
        CHECK_EQ(weft_runtime_open(&runtime, &stress.options), 0);
        for (unsigned i = 0; i < 3; i++) {
            struct branch root = {.depth = DEPTH};
            CHECK_EQ(weft_await(go_into(runtime, grow, &root)), 0);
            CHECK_EQ(root.leaves, WIDTH * WIDTH * WIDTH * WIDTH);
        }
        wait_until_empty(runtime);
        stress.tasks += stats_of(runtime).total.spawned;
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(blocks_out(), blocks);
    }
}

/* ---- targets of the plan --------------------------------------------------------------------- */

enum { TRIES = 20, BATCH = 2000, YIELDS = 20000, STEALS = 10000 };

/* The best of several tries, in nanoseconds per operation: other load on the machine prolongs all
 * except the best. */
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
    for (int i = 0; i < TRIES; i++) { /* excludes the time to run the tasks */
        const int64_t begin_ns = wf_clock_now();
        spawn_a_batch();
        const int64_t taken_ns = (wf_clock_now() - begin_ns) / BATCH;
        spawn_ns = taken_ns < spawn_ns ? taken_ns : spawn_ns;
        CHECK_EQ(weft_await_all(batch, BATCH, NULL), 0);
    }
    const int64_t slice_average_ns = best_of(run_a_batch, BATCH);
    const int64_t switch_ns = best_of(let_two_yield, 2 * (int64_t)YIELDS);
    tap_note("%u workers: %jd ns a spawn, %jd ns a task from spawn to await, %jd ns a switch",
             *(const unsigned *)arg, (intmax_t)spawn_ns, (intmax_t)slice_average_ns,
             (intmax_t)switch_ns);
    CHECK_TIME(spawn_ns < 10000);
    CHECK_TIME(slice_average_ns < 1000);
    CHECK_TIME(switch_ns < 500);
    return 0;
}

/* One worker's ring, and a thief with its own ring. */
struct stealing {
    struct wf_ring from;
    struct wf_ring into;
    struct wf_node nodes[STEALS];
    int64_t taken_ns[STEALS];
    wf_atomic_u32 pushed;
    wf_atomic_u32 stolen;
};

static void *steal_them(void *arg)
{
    struct stealing *stealing = arg;
    for (uint32_t i = 0; i < STEALS; i++) {
        hold_for(&stealing->pushed, i + 1);
        const int64_t begin_ns = wf_clock_now();
        const struct wf_node *node = wf_ring_steal(&stealing->from, &stealing->into);
        stealing->taken_ns[i] = wf_clock_now() - begin_ns;
        CHECK(node == &stealing->nodes[i]);
        raise_by_one(&stealing->stolen);
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
    struct stealing *stealing = wf_alloc_aligned(WF_CACHE_LINE, sizeof(*stealing));
    pthread_t thread;
    CHECK(stealing != NULL);
    memset(stealing, 0, sizeof(*stealing));
    wf_ring_init(&stealing->from);
    wf_ring_init(&stealing->into);
    start_thread(&thread, steal_them, stealing);
    for (uint32_t i = 0; i < STEALS; i++) {
        wf_ring_push(&stealing->from, &stealing->nodes[i], NULL, NULL); /* never full */
        raise_by_one(&stealing->pushed);
        hold_for(&stealing->stolen, i + 1);
    }
    CHECK_EQ(wf_thread_join(thread), 0);
    qsort(stealing->taken_ns, STEALS, sizeof(stealing->taken_ns[0]), by_time);
    const int64_t good_ns = stealing->taken_ns[STEALS / 4];
    wf_free(stealing);
    return good_ns;
}

/* S2.45-S2.48: limits with a large margin, also in a build with assertions, and with fewer than the
 * eight cores that the last one allows. */
static void sched_meets_the_targets_of_the_plan(void)
{
#ifdef WF_SWITCH_SANITIZED
    tap_skip("sanitizers are too slow");
#endif
    for (unsigned workers = 1; workers <= 2; workers++) {
        const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, workers};
        const weft_runtime_options options = options_of(&setting);
        CHECK_EQ(weft_run(measure_tasks, &workers, &options), 0);
    }
    const int64_t steal_ns = measure_steals();
    tap_note("%jd ns a steal", (intmax_t)steal_ns);
    CHECK_TIME(steal_ns < 1000);
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(task_million_can_be_suspended, LIMIT_S),
    TAP_TEST_LIMIT(spawn_from_threads_into_two_runtimes_runs_each_task_once, LIMIT_S),
    TAP_TEST_LIMIT(cancel_racing_end_join_and_drop_keeps_results, LIMIT_S),
    TAP_TEST_LIMIT(runtime_with_seventy_workers_runs_a_tree, LIMIT_S),
    TAP_TEST_LIMIT(sched_meets_the_targets_of_the_plan, LIMIT_S),
};
TAP_MAIN(tests)
