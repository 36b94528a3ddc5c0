/* SPDX-License-Identifier: MIT */
/*
 * Goal:   tasks run in the order of the runtime's options: fair or depth first; local, then global,
 *         then stolen; by priority; and a yielding task is queued behind the other tasks.
 * Method: on one worker tasks write their names into plain memory as they run; on two workers the
 *         test occupies one, so that the other must find tasks elsewhere.
 */
#include <string.h>

#include "sched_helpers.h"

/* Names of the tasks in the order in which they ran. One worker: no other thread writes. */
struct run_log {
    char text[256];
    size_t length;
};

static struct run_log run_log;

static void log_append(char letter)
{
    CHECK(run_log.length < sizeof(run_log.text) - 1);
    run_log.text[run_log.length++] = letter;
    run_log.text[run_log.length] = '\0';
}

static void run_log_clear(void)
{
    run_log = (struct run_log){.length = 0};
}

static intptr_t log_letter(void *arg)
{
    log_append(*(const char *)arg);
    return 0;
}

static void expect(const char *text)
{
    CHECK_EQ(run_log.length, strlen(text));
    if (HAS_ORDER) {
        CHECK_STR(run_log.text, text);
    }
}

static char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

static weft_runtime_options options_for(enum weft_policy policy, enum weft_order order,
                                        unsigned workers)
{
    const struct setting setting = {policy, order, workers};
    return options_of(&setting);
}

/* ---- one worker ------------------------------------------------------------------------------ */

static intptr_t spawn_four(void *arg)
{
    (void)arg;
    weft_task *tasks[4];
    run_log_clear();
    for (int i = 0; i < 4; i++) {
        tasks[i] = go(log_letter, &letters[i]);
    }
    CHECK_STR(run_log.text, ""); /* a spawn does not switch */
    return weft_await_all(tasks, 4, NULL);
}

/* S0.13, part of S2.16 */
static void depth_first_order_runs_the_newest_task_first(void)
{
    const weft_runtime_options options = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 1);
    CHECK_EQ(weft_run(spawn_four, NULL, &options), 0);
    expect("DCBA");
}

/* S4.15: the newest task takes the LIFO slot; the displaced task goes to the end of the ring. */
static void fair_order_runs_the_lifo_slot_then_the_ring_in_order(void)
{
    const weft_runtime_options options = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1);
    CHECK_EQ(weft_run(spawn_four, NULL, &options), 0);
    expect("DABC");
}

static void reactor_runs_tasks_in_spawn_order(void)
{
    const weft_runtime_options options = options_for(WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 1);
    CHECK_EQ(weft_run(spawn_four, NULL, &options), 0);
    expect("ABCD");
}

static weft_runtime *own_runtime;

static void *inject_two(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_runtime_spawn(own_runtime, NULL, log_letter, &letters[24], NULL), 0);
    CHECK_EQ(weft_runtime_spawn(own_runtime, NULL, log_letter, &letters[25], NULL), 0);
    return NULL;
}

static intptr_t spawn_beside_global_queue(void *arg)
{
    (void)arg;
    weft_task *tasks[4];
    pthread_t thread;
    run_log_clear();
    own_runtime = weft_runtime_self();
    /* The join of the thread does not yield: both of its tasks are in the global queue before the
     * local ones are spawned. */
    CHECK_EQ(wf_thread_start(&thread, inject_two, NULL, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    for (int i = 0; i < 4; i++) {
        tasks[i] = go(log_letter, &letters[i]);
    }
    CHECK_EQ(weft_await_all(tasks, 4, NULL), 0);
    while (run_log.length < 6) {
        (void)weft_yield();
    }
    return 0;
}

/* Returns whether the four local tasks ran newest first, and never two global tasks in a row before
 * them. One global task may run before any local one: the worker checks the global queue first if a
 * millisecond has passed, which a slow machine may always cause, but never twice in a row. */
static bool is_local_first(void)
{
    char local[sizeof(run_log.text)];
    size_t length = 0;
    unsigned in_a_row = 0;
    for (size_t i = 0; i < run_log.length; i++) {
        const bool is_global = run_log.text[i] >= 'Y';
        in_a_row = is_global ? in_a_row + 1 : 0;
        if (in_a_row == 2 && length < 4) {
            return false;
        }
        if (!is_global) {
            local[length++] = run_log.text[i];
        }
    }
    local[length] = '\0';
    return strcmp(local, "DCBA") == 0;
}

/* S0.14; S2.40, with tests/unit/queue/test_deque.c and test_ledger.c: the fallback */
static void depth_first_order_prefers_the_local_to_the_global_queue(void)
{
    const weft_runtime_options options = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 1);
    CHECK_EQ(weft_run(spawn_beside_global_queue, NULL, &options), 0);
    CHECK_EQ(run_log.length, 6);
    CHECK(!HAS_ORDER || is_local_first());
}

/* ---- parent and children --------------------------------------------------------------------- */

static weft_task *first_child;

static intptr_t log_child(void *arg)
{
    log_append(*(const char *)arg);
    return 0;
}

static intptr_t await_in_order(void *arg)
{
    (void)arg;
    run_log_clear();
    log_append('p');
    first_child = go(log_child, &letters[0]);
    weft_task *second = go(log_child, &letters[1]);
    log_append('p');
    CHECK_EQ(weft_await(first_child), 0);
    log_append('p');
    CHECK(!HAS_ORDER || weft_try_join(second, NULL) == 0);
    CHECK_EQ(weft_await(second), 0);
    log_append('p');
    return 0;
}

/* S0.18, S2.16: spawns go to the local deque, an await suspends and takes the next task from it, an
 * end resumes its waiter. */
static void await_suspends_and_the_next_task_runs(void)
{
    const weft_runtime_options options = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 1);
    CHECK_EQ(weft_run(await_in_order, NULL, &options), 0);
    expect("ppBApp");
}

/* ---- chains in the LIFO slot ----------------------------------------------------------------- */

static intptr_t spawn_next_letter(void *arg)
{
    const char *letter = arg;
    log_append(*letter);
    if (*letter < 'T') {
        weft_task_unref(go(spawn_next_letter, (char *)arg + 1));
    }
    return 0;
}

static intptr_t start_chain(void *arg)
{
    (void)arg;
    static char old = 'z';
    run_log_clear();
    weft_task *task = go(log_letter, &old); /* displaced by the first task of the chain */
    weft_task_unref(go(spawn_next_letter, letters));
    CHECK_EQ(weft_await(task), 0);
    while (run_log.length < 21) {
        (void)weft_yield();
    }
    return 0;
}

/* S4.16, behaviour 20: the LIFO slot runs three times in a row, then the worker takes from the
 * ring. */
static void lifo_slot_runs_at_most_three_in_a_row(void)
{
    const weft_runtime_options options = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1);
    CHECK_EQ(weft_run(start_chain, NULL, &options), 0);
    const char *old = strchr(run_log.text, 'z');
    CHECK(old != NULL);
    CHECK(!HAS_ORDER || old - run_log.text == 3);
}

/* ---- yield ----------------------------------------------------------------------------------- */

enum { ROUNDS = 10, YIELDERS = 4 };

static intptr_t yield_and_note(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        log_append(*(const char *)arg);
        CHECK_EQ(weft_yield(), 0);
    }
    return 0;
}

static intptr_t let_four_yield(void *arg)
{
    weft_task *tasks[YIELDERS];
    run_log_clear();
    for (int i = 0; i < YIELDERS; i++) {
        tasks[i] = go(yield_and_note, &letters[i]);
    }
    CHECK_EQ(weft_await_all(tasks, YIELDERS, NULL), 0);
    CHECK_EQ(run_log.length, YIELDERS * ROUNDS);
    const bool is_strict = ((const struct setting *)arg)->order == WEFT_ORDER_FAIR;
    int counts[YIELDERS] = {0};
    for (size_t i = 0; i < run_log.length && HAS_ORDER; i++) {
        counts[run_log.text[i] - 'A']++;
        for (int j = 0; j < YIELDERS && is_strict; j++) {
            const int rounds = (int)i / YIELDERS; /* complete rounds */
            CHECK(counts[j] >= rounds && counts[j] <= rounds + 1);
        }
        /* In depth-first order a yielding task goes to the global queue. A worker checks that queue
         * every other tick if slices are long, and takes several tasks at once: no task may be left
         * behind for all rounds. */
        for (int j = 0; j < YIELDERS; j++) {
            CHECK(counts[run_log.text[i] - 'A'] <= counts[j] + (is_strict ? 1 : ROUNDS - 2));
        }
    }
    return 0;
}

/* X6 */
static void yield_queues_the_task_behind_all_others(void)
{
    run_under(ON_ONE_WORKER, let_four_yield);
}

/* ---- priorities ------------------------------------------------------------------------------ */

static intptr_t spawn_by_priority(void *arg)
{
    (void)arg;
    static const enum weft_priority order[] = {WEFT_PRIORITY_LOW, WEFT_PRIORITY_NORMAL,
                                               WEFT_PRIORITY_HIGH};
    weft_task *tasks[3];
    run_log_clear();
    for (int i = 0; i < 3; i++) {
        const weft_task_options options = {.priority = order[i]};
        CHECK_EQ(weft_spawn(&tasks[i], log_letter, &letters[i], &options), 0);
    }
    CHECK_EQ(weft_await_all(tasks, 3, NULL), 0);
    expect("CBA");
    return 0;
}

/* part of S2.9: high before normal before low */
static void priority_high_runs_before_normal_before_low(void)
{
    run_under(ON_ONE_WORKER, spawn_by_priority);
}

/* ---- stealing -------------------------------------------------------------------------------- */

struct steal_scene {
    wf_atomic_u32 begun; /* number of tasks that began */
    wf_atomic_u32 may_end;
    int first; /* plain: the number of the first stolen task */
    struct stolen {
        struct steal_scene *steal_scene;
        int number;
    } stolen[2];
};

static intptr_t run_stolen(void *arg)
{
    struct stolen *stolen = arg;
    struct steal_scene *steal_scene = stolen->steal_scene;
    if (wf_fetch_add_acq_rel(&steal_scene->begun, 1) == 0) {
        steal_scene->first = stolen->number;
        hold_for(&steal_scene->may_end, 1);
    }
    return 0;
}

static intptr_t keep_worker_for_thief(void *arg)
{
    (void)arg;
    struct steal_scene steal_scene = {.first = -1};
    weft_task *tasks[2];
    for (int i = 0; i < 2; i++) {
        steal_scene.stolen[i] = (struct stolen){&steal_scene, i};
        tasks[i] = go(run_stolen, &steal_scene.stolen[i]);
    }
    hold_for(&steal_scene.begun, 1); /* the other worker stole it: this task keeps its own */
    raise_by_one(&steal_scene.may_end);
    CHECK_EQ(weft_await_all(tasks, 2, NULL), 0);
    CHECK(!HAS_ORDER || steal_scene.first == 0); /* half of two tasks is the older one */
    CHECK(!HAS_ORDER || stats_of(weft_runtime_self()).total.stolen >= 1);
    return 0;
}

/* S0.15, S2.13: thieves take the oldest task; for the choice of the victim see test_search.c. */
static void steal_takes_the_oldest_task(void)
{
    const weft_runtime_options deep = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 2);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(weft_run(keep_worker_for_thief, NULL, &deep), 0);
    }
}

struct pair_scene {
    bool is_first_slow;    /* the stolen task ends after the other one, or before it */
    wf_atomic_u32 spawned; /* both handles are set */
    wf_atomic_u32 first_begun;
    wf_atomic_u32 second_ended;
    weft_task *children[2];
    int parent_thread;
    int threads[2];
};

static intptr_t run_first(void *arg)
{
    struct pair_scene *pair_scene = arg;
    pair_scene->threads[0] = wf_thread_id();
    raise_by_one(&pair_scene->first_begun);
    hold_for(&pair_scene->spawned, 1);
    if (pair_scene->is_first_slow) {
        hold_for(&pair_scene->second_ended, 1); /* step 7 happens during this wait */
        while (state_of(pair_scene->children[1]) != WEFT_TASK_COMPLETED) {
            (void)sched_yield();
        }
    }
    return 10;
}

static intptr_t run_second(void *arg)
{
    struct pair_scene *pair_scene = arg;
    pair_scene->threads[1] = wf_thread_id();
    raise_by_one(&pair_scene->second_ended);
    return 20;
}

static intptr_t run_parent(void *arg)
{
    struct pair_scene *pair_scene = arg;
    pair_scene->parent_thread = wf_thread_id();
    pair_scene->children[0] = go(run_first, pair_scene);
    pair_scene->children[1] = go(run_second, pair_scene);
    raise_by_one(&pair_scene->spawned);
    hold_for(&pair_scene->first_begun, 1); /* stolen: this task keeps its worker */
    while (!pair_scene->is_first_slow && state_of(pair_scene->children[0]) != WEFT_TASK_COMPLETED) {
        (void)sched_yield();
    }
    const intptr_t first = weft_await(pair_scene->children[0]);
    CHECK(!pair_scene->is_first_slow || weft_try_join(pair_scene->children[1], NULL) == 0);
    const intptr_t second = weft_await(pair_scene->children[1]);
    CHECK(!HAS_ORDER || pair_scene->threads[0] != pair_scene->parent_thread);
    CHECK(!HAS_ORDER || !pair_scene->is_first_slow ||
          pair_scene->threads[1] == pair_scene->parent_thread);
    CHECK_EQ(first + second, 30);
    return 0;
}

/* S2.38, whichever child ends first. The worker on which the parent continues is not specified. */
static void steal_of_the_older_child_leaves_the_younger_to_the_parent(void)
{
    const weft_runtime_options options = options_for(WEFT_POLICY_STEAL, WEFT_ORDER_DEPTH_FIRST, 2);
    for (int i = 0; i < 50; i++) {
        struct pair_scene pair_scene = {.is_first_slow = i % 2 == 0};
        CHECK_EQ(weft_run(run_parent, &pair_scene, &options), 0);
    }
}

/* ---- no_steal and steal_first ---------------------------------------------------------------- */

static intptr_t check_thread(void *arg)
{
    return !HAS_ORDER || *(const int *)arg == wf_thread_id() ? 0 : -EXDEV;
}

static intptr_t spawn_without_thieves(void *arg)
{
    (void)arg;
    enum { COUNT = 100 };
    weft_task *tasks[COUNT];
    int thread = wf_thread_id();
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(check_thread, &thread);
    }
    CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
    CHECK_EQ(stats_of(weft_runtime_self()).total.stolen, 0);
    return 0;
}

static void no_steal_option_keeps_tasks_on_their_worker(void)
{
    for (struct tour tour = {.which = ON_SEVERAL_THAT_STEAL}; tour_next(&tour);) {
        tour.options.no_steal = true;
        CHECK_EQ(weft_run(spawn_without_thieves, NULL, &tour.options), 0);
    }
}

/* S2.23, X4: with steal_first an idle worker searches victims before the global queue. */
struct choice {
    wf_atomic_u32 chosen;
    wf_atomic_u32 may_end;
    wf_atomic_u32 busy;
    wf_atomic_u32 may_search;
    weft_runtime *runtime;
    wf_atomic_u32 first; /* 0: none yet */
};

static struct choice choice;

static intptr_t record_choice(void *arg)
{
    uint32_t none = 0;
    const bool is_first = wf_cas_relaxed(&choice.first, &none, *(const unsigned char *)arg);
    raise_by_one(&choice.chosen);
    if (is_first) {
        hold_for(&choice.may_end, 1);
    }
    return 0;
}

static intptr_t occupy_worker(void *arg)
{
    (void)arg;
    raise_by_one(&choice.busy);
    hold_for(&choice.may_search, 1);
    return 0;
}

static void *inject_one(void *arg)
{
    CHECK_EQ(weft_runtime_spawn(choice.runtime, NULL, record_choice, arg, NULL), 0);
    return NULL;
}

/* A worker checks the global queue first if a millisecond has passed, which a slow machine may
 * always cause, but never twice in a row. So this task is first in the global queue, and the task
 * under test follows when it has run. */
static intptr_t inject_global(void *arg)
{
    pthread_t thread;
    CHECK_EQ(wf_thread_start(&thread, inject_one, arg, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    return 0;
}

static void *inject_decoy(void *arg)
{
    CHECK_EQ(weft_runtime_spawn(choice.runtime, NULL, inject_global, arg, NULL), 0);
    return NULL;
}

/* Both workers are busy while each queue holds one task; then the other worker becomes idle. */
static intptr_t choose_queue(void *arg)
{
    (void)arg;
    static char local = 'l';
    static char global = 'g';
    pthread_t thread;
    choice = (struct choice){.runtime = weft_runtime_self()};
    weft_task *keeper = go(occupy_worker, NULL);
    hold_for(&choice.busy, 1); /* the other worker runs it */
    CHECK_EQ(wf_thread_start(&thread, inject_decoy, &global, NULL), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    weft_task *task = go(record_choice, &local);
    raise_by_one(&choice.may_search);
    hold_for(&choice.chosen, 1);
    raise_by_one(&choice.may_end);
    wait_for(&choice.chosen, 2);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_await(keeper), 0);
    return wf_load_relaxed(&choice.first);
}

/* A run that was delayed proves nothing: repeat.  The wrong order in every run hangs the test. */
static void check_choice(const weft_runtime_options *options, char expected)
{
    while (weft_run(choose_queue, NULL, options) != expected && HAS_ORDER) {
    }
}

static void steal_first_option_searches_victims_before_the_global_queue(void)
{
    const enum weft_order orders[] = {WEFT_ORDER_FAIR, WEFT_ORDER_DEPTH_FIRST};
    for (int i = 0; i < 2; i++) {
        tap_doing("order %d", i);
        weft_runtime_options options = options_for(WEFT_POLICY_STEAL, orders[i], 2);
        check_choice(&options, 'g');
        options.steal_first = true;
        check_choice(&options, 'l');
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(depth_first_order_runs_the_newest_task_first),
    TAP_TEST(fair_order_runs_the_lifo_slot_then_the_ring_in_order),
    TAP_TEST(reactor_runs_tasks_in_spawn_order),
    TAP_TEST(depth_first_order_prefers_the_local_to_the_global_queue),
    TAP_TEST(await_suspends_and_the_next_task_runs),
    TAP_TEST(lifo_slot_runs_at_most_three_in_a_row),
    TAP_TEST(yield_queues_the_task_behind_all_others),
    TAP_TEST(priority_high_runs_before_normal_before_low),
    TAP_TEST(steal_takes_the_oldest_task),
    TAP_TEST(steal_of_the_older_child_leaves_the_younger_to_the_parent),
    TAP_TEST(no_steal_option_keeps_tasks_on_their_worker),
    TAP_TEST(steal_first_option_searches_victims_before_the_global_queue),
};
TAP_MAIN(tests)
