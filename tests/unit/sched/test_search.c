/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a worker searches its queues and victims in the specified order and takes the specified
 *         share; a running task is never interrupted; workers get no special treatment by the
 *         kernel, and tasks no inherited priority.
 * Method: a task occupies every worker while the queues are filled; then one worker is released,
 *         and the test records what it runs. Hostile builds place tasks elsewhere on purpose: there
 *         the same code runs, but the places are not compared.
 */
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sched/wait.h"
#include "sched_helpers.h"

/* In slow builds every slice is long, and averages of slices show nothing. */
#if defined(__OPTIMIZE__) && defined(__x86_64__) && !defined(WF_TSAN) && !defined(WF_HOSTILE)
#define IS_SLOW 0
#else
#define IS_SLOW 1
#endif

enum { WORKERS_MAX = 3 };

static weft_runtime_options options_for(enum weft_order order, unsigned workers)
{
    const struct setting setting = {WEFT_POLICY_STEAL, order, workers};
    return options_of(&setting);
}

/* ---- one occupying task for each worker ------------------------------------------------------ */

struct scene {
    weft_runtime *runtime;
    unsigned workers;
    wf_atomic_u32 occupied; /* workers that are occupied, each by a task of its own */
    wf_atomic_u32 loaded;   /* occupied workers that have filled their queues */
    wf_atomic_u32 is_over;  /* 1: the workers still occupied are released */
    unsigned free;          /* plain: the worker that is released first */
    void (*load)(struct scene *scene, unsigned worker); /* [task on that worker] */
};

static intptr_t occupy_worker(void *arg)
{
    struct scene *scene = arg;
    raise_by_one(&scene->occupied);
    hold_for(&scene->occupied, scene->workers); /* so that each task is on a worker of its own */
    const unsigned worker = wf_worker_self()->index;
    if (scene->load != NULL) {
        scene->load(scene, worker);
    }
    raise_by_one(&scene->loaded);
    hold_for(&scene->loaded, scene->workers);
    if (worker != scene->free) {
        hold_for(&scene->is_over, 1);
    }
    return 0;
}

static void scene_open(struct scene *scene, enum weft_order order, unsigned workers)
{
    const weft_runtime_options options = options_for(order, workers);
    scene->workers = workers;
    CHECK_EQ(weft_runtime_open(&scene->runtime, &options), 0);
}

/* Runs the scene until `*cell` reaches `at_least`; then releases the workers still occupied. */
static void scene_play(struct scene *scene, wf_atomic_u32 *cell, uint32_t at_least)
{
    weft_task *occupiers[WORKERS_MAX] = {NULL};
    wf_store_relaxed(&scene->occupied, 0);
    wf_store_relaxed(&scene->loaded, 0);
    wf_store_relaxed(&scene->is_over, 0);
    for (unsigned i = 0; i < scene->workers; i++) {
        occupiers[i] = go_into(scene->runtime, occupy_worker, scene);
    }
    wait_for(cell, at_least);
    raise_by_one(&scene->is_over);
    for (unsigned i = 0; i < scene->workers; i++) {
        CHECK_EQ(weft_await(occupiers[i]), 0);
    }
}

/* ---- victims --------------------------------------------------------------------------------- */

struct steal_scene {
    struct scene scene;
    wf_atomic_u32 first; /* 1: a task was stolen */
    wf_atomic_u32 ran;
    struct stolen_task {
        struct steal_scene *steal_scene;
        unsigned victim;
    } stolen_task[WORKERS_MAX];
    /* Plain: written by the first stolen task. */
    unsigned thief;
    unsigned victim;
};

static intptr_t run_stolen(void *arg)
{
    const struct stolen_task *stolen_task = arg;
    struct steal_scene *steal_scene = stolen_task->steal_scene;
    uint32_t none = 0;
    if (wf_cas_relaxed(&steal_scene->first, &none, 1)) { /* relaxed: the raise publishes it */
        steal_scene->thief = wf_worker_self()->index;
        steal_scene->victim = stolen_task->victim;
    }
    raise_by_one(&steal_scene->ran);
    return 0;
}

static void queue_stolen(struct scene *scene, unsigned worker)
{
    struct steal_scene *steal_scene = wf_container_of(scene, struct steal_scene, scene);
    if (worker != scene->free) {
        steal_scene->stolen_task[worker] = (struct stolen_task){steal_scene, worker};
        weft_task_unref(go(run_stolen, &steal_scene->stolen_task[worker]));
        weft_task_unref(
            go(run_stolen, &steal_scene->stolen_task[worker])); /* displaces the first */
    }
}

/* Each of three workers steals from both others, in random order. The number of rounds is random; a
 * thief with a fixed order would never reach all pairs. */
static void steal_until_all_pairs(enum weft_order order)
{
    struct steal_scene steal_scene = {.scene = {.load = queue_stolen}};
    unsigned seen = 0; /* bitmap of pairs seen; six of the nine are possible */
    unsigned pairs = 0;
    scene_open(&steal_scene.scene, order, WORKERS_MAX);
    for (unsigned round = 0; HAS_ORDER ? pairs < 6 : round < 30; round++) {
        steal_scene.scene.free = round % WORKERS_MAX;
        wf_store_relaxed(&steal_scene.first, 0);
        wf_store_relaxed(&steal_scene.ran, 0);
        scene_play(&steal_scene.scene, &steal_scene.ran, 1);
        wait_for(&steal_scene.ran, 2 * (WORKERS_MAX - 1));
        if (HAS_ORDER) {
            CHECK_EQ(steal_scene.thief, steal_scene.scene.free);
            CHECK(steal_scene.victim != steal_scene.thief);
            const unsigned pair = 1u << (steal_scene.thief * WORKERS_MAX + steal_scene.victim);
            pairs += (seen & pair) == 0 ? 1 : 0;
            seen |= pair;
        }
    }
    CHECK_EQ(weft_runtime_close(steal_scene.scene.runtime, -1), 0);
}

/* S0.12, S0.15, S2.3, S2.13, S2.24, S3.12: test_ring.c and test_deque.c show that a thief retries
 * after a lost race. */
static void steal_reaches_every_victim_from_every_thief(void)
{
    steal_until_all_pairs(WEFT_ORDER_FAIR);
    steal_until_all_pairs(WEFT_ORDER_DEPTH_FIRST);
}

/* S4.7: with the test of xorshift128+ in test_util.c. Each worker starts from the seed of the
 * options plus its index, so that not all thieves choose the same victim. A thief draws any number
 * of numbers while it searches: so the workers do not steal here, and the generators stay as the
 * opener has left them. */
static void steal_random_seed_differs_per_worker(void)
{
    weft_runtime_options options = options_for(WEFT_ORDER_FAIR, WORKERS_MAX);
    weft_runtime *runtime = NULL;
    options.no_steal = true;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        struct wf_random expected;
        wf_random_init(&expected, tap_seed() + i);
        CHECK(memcmp(&runtime->workers[i].random, &expected, sizeof(expected)) == 0);
    }
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

/* ---- search order ---------------------------------------------------------------------------- */

/* Names of the tasks that one worker ran while the other was occupied. */
static struct {
    char text[16];
    size_t length;
    wf_atomic_u32 written;
} run_log;

static char names[] = "abc12vw";

static intptr_t log_name(void *arg)
{
    run_log.text[run_log.length++] = *(const char *)arg;
    raise_by_one(&run_log.written);
    return 0;
}

static struct scene *current;

static void *inject(void *arg)
{
    CHECK_EQ(weft_runtime_spawn(current->runtime, NULL, log_name, arg, NULL), 0);
    return NULL;
}

static void run_in_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    CHECK_EQ(wf_thread_start(&thread, fn, arg, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
}

/* A worker checks the global queue first if a millisecond has passed, but never twice in a row: the
 * first global task may run at any time, and injects the second one, which matters. */
static intptr_t log_and_inject(void *arg)
{
    CHECK_EQ(log_name(arg), 0);
    run_in_thread(inject, (char *)arg + 1);
    return 0;
}

static void *inject_decoy(void *arg)
{
    CHECK_EQ(weft_runtime_spawn(current->runtime, NULL, log_and_inject, arg, NULL), 0);
    return NULL;
}

static void fill_every_queue(struct scene *scene, unsigned worker)
{
    if (worker != scene->free) {
        weft_task_unref(
            go(log_name, &names[5])); /* the next spawn displaces it from the LIFO slot */
        weft_task_unref(go(log_name, &names[6]));
        return;
    }
    run_in_thread(inject_decoy, &names[3]);
    for (int i = 0; i < 3; i++) {
        weft_task_unref(go(log_name, &names[i]));
    }
}

static size_t index_of(char name)
{
    const char *found = strchr(run_log.text, name);
    CHECK(found != NULL);
    return (size_t)(found - run_log.text);
}

/* Returns whether the order is that of a run without long slices. */
static bool check_log(void)
{
    CHECK_EQ(run_log.length, sizeof(names) - 1);
    const char local_names[] = {'c', 'a', 'b', 'v', 'w'};
    for (size_t i = 1; i < sizeof(local_names); i++) {
        CHECK(index_of(local_names[i - 1]) < index_of(local_names[i]));
    }
    CHECK(index_of('1') < index_of('2'));
    CHECK(index_of('2') < index_of('v')); /* victims come last */
    return index_of('2') > index_of('b');
}

/* S4.8: the LIFO slot, the ring (with fetched tasks: see below), the global queue, the victims. */
static void search_order_is_lifo_slot_ring_global_queue_victims(void)
{
    struct scene scene = {.load = fill_every_queue};
    current = &scene;
    scene_open(&scene, WEFT_ORDER_FAIR, 2);
    bool is_shown = !HAS_ORDER;
    for (unsigned round = 0; round < 5 || !is_shown; round++) {
        memset(&run_log, 0, sizeof(run_log));
        scene.free = round % 2;
        scene_play(&scene, &run_log.written, sizeof(names) - 1);
        is_shown = !HAS_ORDER || check_log() || is_shown;
    }
    CHECK_EQ(weft_runtime_close(scene.runtime, -1), 0);
}

/* ---- size of a fetch ------------------------------------------------------------------------- */

enum { WAITING = 240 };

struct share {
    struct scene scene;
    uint64_t global[WAITING]; /* plain: depth of the global queue when each task ran */
    uint64_t local[WAITING];  /* plain: depth of the worker's run queue */
    unsigned count;
    wf_atomic_u32 ran;
};

static struct share share;

static intptr_t note_depths(void *arg)
{
    (void)arg;
    weft_worker_stats counters;
    CHECK_EQ(weft_runtime_get_worker_stats(share.scene.runtime, &counters, wf_worker_self()->index),
             0);
    share.global[share.count] = stats_of(share.scene.runtime).global_depth;
    share.local[share.count] = counters.queue_depth;
    share.count++;
    raise_by_one(&share.ran);
    return 0;
}

static void *inject_all(void *arg)
{
    (void)arg;
    for (int i = 0; i < WAITING; i++) {
        CHECK_EQ(weft_runtime_spawn(share.scene.runtime, NULL, note_depths, NULL, NULL), 0);
    }
    return NULL;
}

static void fill_global_queue(struct scene *scene, unsigned worker)
{
    if (worker == scene->free) {
        run_in_thread(inject_all, NULL);
    }
}

/* S4.4, S4.21: a worker fetches a batch into the ring, where thieves see it, and then none for a
 * while. */
static void global_queue_fetch_takes_a_batch_into_the_ring(void)
{
    share = (struct share){.scene = {.load = fill_global_queue}};
    scene_open(&share.scene, WEFT_ORDER_FAIR, 2);
    scene_play(&share.scene, &share.ran, WAITING);
    unsigned fetches = 0;
    uint64_t before = WAITING;
    for (unsigned i = 0; i < WAITING && HAS_ORDER; i++) {
        CHECK_EQ(share.global[i] + share.local[i] + i + 1, WAITING); /* none is missing */
        if (share.global[i] != before) {
            CHECK(before - share.global[i] <= WF_INJECT_BATCH_MAX);
            fetches++;
        }
        before = share.global[i];
    }
    CHECK(fetches <= WAITING / WF_INJECT_BATCH_MIN);
    CHECK_EQ(weft_runtime_close(share.scene.runtime, -1), 0);
}

/* ---- interval of the checks ------------------------------------------------------------------ */

/* S4.23 */
static void global_interval_is_computed_from_the_slice_length(void)
{
    static const struct {
        int64_t us;
        uint32_t interval;
    } table[] = {{0, 255}, {1, 255}, {10, 100}, {50, 20}, {100, 10}, {1000, 1}, {60000000, 1}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        CHECK_EQ(wf_global_interval(table[i].us * 1000), table[i].interval);
    }
}

static intptr_t spin_and_yield(void *arg)
{
    for (int i = 0; i < *(const int *)arg; i++) {
        const weft_time end = weft_time_after(100 * WEFT_MICROSECOND);
        while (weft_now() < end) {
        }
        CHECK_EQ(weft_yield(), 0);
    }
    return (intptr_t)wf_worker_self()->tick.interval;
}

/* Returns the interval after one slice of 100 us. */
static intptr_t measure_interval(void *arg)
{
    (void)arg;
    int slices = 1;
    weft_task *other = go(spin_and_yield, &slices);
    const intptr_t first = spin_and_yield(&slices);
    CHECK(weft_await(other) >= 1);
    slices = 60; /* the average approaches 100 us by a tenth of the difference each time */
    other = go(spin_and_yield, &slices);
    const intptr_t last = spin_and_yield(&slices);
    CHECK(last >= 1 && last <= 10);
    CHECK(weft_await(other) <= 10);
    return first;
}

/* S4.22, with global_interval_is_computed_from_the_slice_length above, and
 * global_queue_is_not_starved_by_busy_local_queues in test_fairness.c for the clock. Slices are
 * longer on a busy machine: repeat until one run shows the weight of a tenth. */
static void global_interval_adapts_to_measured_slices(void)
{
    const weft_runtime_options options = options_for(WEFT_ORDER_FAIR, 1);
    while (weft_run(measure_interval, NULL, &options) <= 10 && !IS_SLOW) {
    }
}

/* Of the only worker, plain: values since its last clock read. */
static int64_t polled_ns;
static uint32_t slices_since_clock;
static uint32_t slices_since_clock_max;

static intptr_t count_slices(void *arg)
{
    for (int i = 0; i < *(const int *)arg; i++) {
        const int64_t now_ns = wf_worker_self()->tick.now_ns;
        slices_since_clock = now_ns == polled_ns ? slices_since_clock + 1 : 1;
        slices_since_clock_max = slices_since_clock > slices_since_clock_max
                                     ? slices_since_clock
                                     : slices_since_clock_max;
        polled_ns = now_ns;
        CHECK(slices_since_clock <= WF_CLOCK_INTERVAL_MAX + 1); /* with the slice that read it */
        CHECK_EQ(weft_yield(), 0);
    }
    return 0;
}

static intptr_t run_short_slices(void *arg)
{
    (void)arg;
    enum { TASKS = 4 };
    int slices = 500;
    weft_task *tasks[TASKS];
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = go(count_slices, &slices);
    }
    return weft_await_all(tasks, TASKS, NULL);
}

/* S4.6, S4.33: the effects of the check are shown by global_interval_adapts_to_measured_slices, by
 * timer_fires_while_all_workers_are_busy in test_time.c and by the tests of busy workers in
 * tests/unit/io/test_fd.c. The worker reads the clock after a slice that the machine makes long;
 * repeat until the maximal number of short slices came in a row. */
static void tick_of_a_busy_worker_reads_the_clock_after_bounded_slices(void)
{
    const enum weft_order orders[] = {WEFT_ORDER_FAIR, WEFT_ORDER_DEPTH_FIRST};
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        const weft_runtime_options options = options_for(orders[i], 1);
        slices_since_clock_max = 0;
        do {
            slices_since_clock = 0;
            CHECK_EQ(weft_run(run_short_slices, NULL, &options), 0);
        } while (slices_since_clock_max < WF_CLOCK_INTERVAL_MAX && !IS_SLOW);
    }
}

struct latency_scene {
    weft_runtime *runtime;
    bool is_injected; /* all plain: there is one worker */
    bool has_run;
    unsigned slices; /* slices that began since the injection */
};

static intptr_t mark_run(void *arg)
{
    struct latency_scene *latency_scene = arg;
    latency_scene->has_run = true;
    return 0;
}

static void *inject_one(void *arg)
{
    struct latency_scene *latency_scene = arg;
    CHECK_EQ(weft_runtime_spawn(latency_scene->runtime, NULL, mark_run, latency_scene, NULL), 0);
    return NULL;
}

static intptr_t run_long_slices(void *arg)
{
    struct latency_scene *latency_scene = arg;
    while (!latency_scene->has_run) {
        latency_scene->slices += latency_scene->is_injected ? 1 : 0;
        const int64_t end_ns = wf_clock_now() + WF_GLOBAL_LATENCY_NS;
        while (wf_clock_now() <= end_ns) {
        }
        CHECK_EQ(weft_yield(), 0);
    }
    return 0;
}

static intptr_t measure_global_latency(void *arg)
{
    (void)arg;
    struct latency_scene latency_scene = {.runtime = weft_runtime_self()};
    weft_task *tasks[2] = {go(run_long_slices, &latency_scene),
                           go(run_long_slices, &latency_scene)};
    while (info_of(tasks[1]).runs < 2 * WF_CLOCK_INTERVAL_MAX) { /* long slices measured */
        CHECK_EQ(weft_yield(), 0);
    }
    run_in_thread(inject_one, &latency_scene);
    latency_scene.is_injected = true;
    CHECK_EQ(weft_await_all(tasks, 2, NULL), 0);
    CHECK(latency_scene.slices <= 3); /* the running one; checks are never two in a row */
    return 0;
}

/* S4.41: a millisecond, checked as a number of slices, since slices may take any time. For the
 * workers see runtime_with_70_workers_uses_all_of_them and options_reject_bad_values_by_name in
 * test_runtime.c. */
static void global_queue_is_served_within_a_millisecond_by_a_busy_worker(void)
{
    CHECK_EQ(WF_GLOBAL_LATENCY_NS, WEFT_MILLISECOND);
    for (int i = 0; i < 2; i++) {
        const weft_runtime_options options =
            options_for(i == 0 ? WEFT_ORDER_FAIR : WEFT_ORDER_DEPTH_FIRST, 1);
        CHECK_EQ(weft_run(measure_global_latency, NULL, &options), 0);
    }
}

/* ---- queues of workers and runtimes ---------------------------------------------------------- */

struct queue_scene {
    struct scene scene;
    wf_atomic_u32 ran;
    unsigned of_each[WORKERS_MAX]; /* plain: tasks that it put into its queue */
};

static void queue_some(struct scene *scene, unsigned worker)
{
    struct queue_scene *queue_scene = wf_container_of(scene, struct queue_scene, scene);
    CHECK(weft_runtime_self() == scene->runtime);
    CHECK(wf_worker_self()->runtime == scene->runtime);
    CHECK(wf_worker_self() == &scene->runtime->workers[worker]);
    queue_scene->of_each[worker] = 2 * worker + 1;
    for (unsigned i = 0; i < queue_scene->of_each[worker]; i++) {
        weft_task_unref(go(count_up, &queue_scene->ran));
    }
}

/* S0.3, S0.10, S2.32: each runtime has its workers, each worker its run queue; one global queue per
 * runtime takes external submissions. */
static void run_queues_are_separate_per_worker_and_runtime(void)
{
    struct queue_scene queue_scenes[2] = {{.ran = {0}}, {.ran = {0}}};
    weft_task *occupiers[2][WORKERS_MAX];
    for (unsigned e = 0; e < 2; e++) {
        struct scene *scene = &queue_scenes[e].scene;
        scene->load = queue_some;
        scene->free = WORKERS_MAX; /* no worker */
        scene_open(scene, WEFT_ORDER_FAIR, e == 0 ? WORKERS_MAX : 2);
        for (unsigned i = 0; i < scene->workers; i++) {
            occupiers[e][i] = go_into(scene->runtime, occupy_worker, scene);
        }
        wait_for(&scene->loaded, scene->workers);
    }
    for (unsigned e = 0; e < 2; e++) {
        struct scene *scene = &queue_scenes[e].scene;
        const uint64_t outside = e == 0 ? 5 : 0;
        uint64_t inside = 0;
        const uint64_t depth = stats_of(scene->runtime).global_depth; /* hostile builds: not 0 */
        const uint64_t of_other = stats_of(queue_scenes[1].scene.runtime).global_depth;
        for (uint64_t i = 0; i < outside; i++) {
            weft_task_unref(go_into(scene->runtime, count_up, &queue_scenes[e].ran));
            CHECK_EQ(stats_of(scene->runtime).global_depth, depth + i + 1);
        }
        CHECK_EQ(stats_of(queue_scenes[1].scene.runtime).global_depth, of_other);
        for (unsigned i = 0; i < scene->workers; i++) {
            weft_worker_stats counters;
            CHECK_EQ(weft_runtime_get_worker_stats(scene->runtime, &counters, i), 0);
            CHECK(!HAS_ORDER || counters.queue_depth == queue_scenes[e].of_each[i]);
            inside += queue_scenes[e].of_each[i];
        }
        CHECK_EQ(stats_of(scene->runtime).live, scene->workers + inside + outside);
        CHECK_EQ(stats_of(scene->runtime).workers, scene->workers);
        raise_by_one(&scene->is_over);
        wait_for(&queue_scenes[e].ran, (uint32_t)(inside + outside));
        for (unsigned i = 0; i < scene->workers; i++) {
            CHECK_EQ(weft_await(occupiers[e][i]), 0);
        }
        CHECK_EQ(weft_runtime_close(scene->runtime, -1), 0);
    }
}

/* ---- while a task runs ----------------------------------------------------------------------- */

static intptr_t compute_beside_ready_task(void *arg)
{
    (void)arg;
    wf_atomic_u32 ran = {0};
    weft_task *other = go(count_up, &ran);
    const weft_time end = weft_time_after(5 * WF_SLICE_MAX_NS);
    uint64_t steps = 0;
    while (weft_now() < end) { /* a preempt request is set, and the task does not check for it */
        steps++;
    }
    CHECK(steps > 0);
    CHECK_EQ(wf_load_acquire(&ran), 0); /* pairs with raise_by_one */
    CHECK_EQ(weft_yield(), 0);
    CHECK_EQ(weft_await(other), 0);
    return 0;
}

/* S0.26, S2.5, S2.10: there is one worker, and the other task is ready all the time. */
static void task_is_never_preempted_between_calls(void)
{
    run_under(ON_ONE_WORKER, compute_beside_ready_task);
}

/* Attributes that the kernel grants a thread. */
struct thread_attributes {
    int policy;
    int nice;
    cpu_set_t cpus;
    int memory;
};

static struct thread_attributes attributes_of_thread(void)
{
    struct thread_attributes thread_attributes = {.policy = sched_getscheduler(0),
                                                  .nice = getpriority(PRIO_PROCESS, 0)};
    CHECK(thread_attributes.policy >= 0);
    CHECK_EQ(sched_getaffinity(0, sizeof(thread_attributes.cpus), &thread_attributes.cpus), 0);
    if (syscall(SYS_get_mempolicy, &thread_attributes.memory, NULL, 0, NULL, 0) != 0) {
        thread_attributes.memory = 0; /* a kernel without NUMA, or a container */
    }
    return thread_attributes;
}

struct attribute_scene {
    struct scene scene;
    struct thread_attributes of_workers[WORKERS_MAX]; /* plain: of the thread of each worker */
    struct thread_attributes of_high_tasks[WORKERS_MAX];
};

static intptr_t record_attributes(void *arg)
{
    *(struct thread_attributes *)arg = attributes_of_thread();
    return 0;
}

static void record_worker_attributes(struct scene *scene, unsigned worker)
{
    struct attribute_scene *attribute_scene = wf_container_of(scene, struct attribute_scene, scene);
    const weft_task_options high = {.is_pinned = true, .priority = WEFT_PRIORITY_HIGH};
    weft_task *task = NULL;
    attribute_scene->of_workers[worker] = attributes_of_thread();
    CHECK_EQ(weft_pin_begin(), 0);
    CHECK_EQ(weft_spawn(&task, record_attributes, &attribute_scene->of_high_tasks[worker], &high),
             0);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_pin_end(), 0);
}

static void check_same(const struct thread_attributes *one, const struct thread_attributes *other)
{
    CHECK_EQ(one->policy, other->policy);
    CHECK_EQ(one->nice, other->nice);
    CHECK(CPU_EQUAL(&one->cpus, &other->cpus));
    CHECK_EQ(one->memory, other->memory);
}

/* S2.10: no real-time class and no affinity, also for tasks of high priority. */
static void worker_threads_have_no_special_kernel_priority_or_affinity(void)
{
    struct attribute_scene attribute_scene = {.scene = {.load = record_worker_attributes}};
    const struct thread_attributes ours = attributes_of_thread();
    scene_open(&attribute_scene.scene, WEFT_ORDER_FAIR, WORKERS_MAX);
    scene_play(&attribute_scene.scene, &attribute_scene.scene.loaded, WORKERS_MAX);
    CHECK_EQ(weft_runtime_close(attribute_scene.scene.runtime, -1), 0);
    for (unsigned i = 0; i < WORKERS_MAX; i++) {
        check_same(&ours, &attribute_scene.of_workers[i]);
        check_same(&ours, &attribute_scene.of_high_tasks[i]);
    }
}

struct mutex_scene {
    weft_mutex mutex;
    wf_atomic_u32 is_locked;
    wf_atomic_u32 open;
};

static intptr_t hold_mutex(void *arg)
{
    struct mutex_scene *mutex_scene = arg;
    CHECK_EQ(weft_mutex_lock(&mutex_scene->mutex), 0);
    raise_by_one(&mutex_scene->is_locked);
    wait_for(&mutex_scene->open, 1);
    return weft_mutex_unlock(&mutex_scene->mutex);
}

static intptr_t lock_mutex(void *arg)
{
    struct mutex_scene *mutex_scene = arg;
    CHECK_EQ(weft_mutex_lock(&mutex_scene->mutex), 0);
    return weft_mutex_unlock(&mutex_scene->mutex);
}

static intptr_t wait_for_low_holder(void *arg)
{
    (void)arg;
    struct mutex_scene mutex_scene = {.is_locked = {0}};
    weft_task *low = NULL;
    weft_task *high = NULL;
    const weft_task_options low_options = {.priority = WEFT_PRIORITY_LOW};
    const weft_task_options high_options = {.priority = WEFT_PRIORITY_HIGH};
    CHECK_EQ(weft_spawn(&low, hold_mutex, &mutex_scene, &low_options), 0);
    wait_for(&mutex_scene.is_locked, 1);
    CHECK_EQ(weft_spawn(&high, lock_mutex, &mutex_scene, &high_options), 0);
    wait_for_state(high, WEFT_TASK_BLOCKED);
    CHECK_EQ(info_of(high).wait, WEFT_WAIT_MUTEX);
    CHECK_EQ(info_of(low).priority, WEFT_PRIORITY_LOW);
    raise_by_one(&mutex_scene.open);
    CHECK_EQ(weft_await(high), 0);
    return weft_await(low);
}

/* S2.10 */
static void mutex_does_not_inherit_priority(void)
{
    run_under(EVERYWHERE, wait_for_low_holder);
}

static const struct tap_test tests[] = {
    TAP_TEST(steal_reaches_every_victim_from_every_thief),
    TAP_TEST(steal_random_seed_differs_per_worker),
    TAP_TEST(search_order_is_lifo_slot_ring_global_queue_victims),
    TAP_TEST(global_queue_fetch_takes_a_batch_into_the_ring),
    TAP_TEST(global_interval_is_computed_from_the_slice_length),
    TAP_TEST(global_interval_adapts_to_measured_slices),
    TAP_TEST(tick_of_a_busy_worker_reads_the_clock_after_bounded_slices),
    TAP_TEST(global_queue_is_served_within_a_millisecond_by_a_busy_worker),
    TAP_TEST(run_queues_are_separate_per_worker_and_runtime),
    TAP_TEST(task_is_never_preempted_between_calls),
    TAP_TEST(worker_threads_have_no_special_kernel_priority_or_affinity),
    TAP_TEST(mutex_does_not_inherit_priority),
};
TAP_MAIN(tests)
