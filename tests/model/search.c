/* SPDX-License-Identifier: MIT */
/*
 * model/search.c - which action comes next.
 *
 * Depth-first: a path of nodes, one for each choice made.  A run follows the path and extends it at
 * its end; backtracking advances the last node that has an option left.  Which options a node has
 * is found out by race.c from the runs through it.  Sleep sets (Godefroid) keep equivalent orders
 * from being run twice: when an option of a node has been explored it goes to sleep in the node's
 * later branches, until an action that does not commute with it is taken.  A run in which every
 * enabled action sleeps is equivalent to an earlier one and is cut.
 *
 * PCT (Burckhardt et al., 2010): every thread and every store buffer has a random priority; the
 * highest enabled acts; at D-1 random steps the acting thread or buffer drops to the bottom.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "model/engine.h"

enum { PATH_MAX_ = 16384 };

struct node {
    uint32_t enabled;
    uint32_t wanted; /* to be explored */
    uint32_t done;   /* explored already */
    uint32_t sleep;  /* inherited: covered by an earlier branch */
    uint8_t action;  /* or, for a choice of data, the option taken */
    uint8_t count;   /* options of a choice of data; 0: a choice of action */
    uint8_t last;    /* the thread that ran before, for the preemption bound */
    uint8_t preemptions;
};

static const struct search *search;
static struct node path[PATH_MAX_];
static unsigned path_length;
static unsigned position;         /* in the path, during a run */
static unsigned last_action_node; /* of the path as backtracking left it */
static uint32_t sleeping;         /* for the next new node */
static uint8_t last_thread;
static uint8_t preemptions;

/* Of the random searches. */
static struct wf_random random_state;
static uint32_t priorities[ACTIONS_MAX];
static unsigned change_points[8];
static unsigned expected_steps; /* length of a run: change points fall within it */
static uint64_t current_seed;

/* ---- depth-first --------------------------------------------------------------------------- */

static bool is_preemption(unsigned action, uint32_t enabled, unsigned last)
{
    return action < ACTION_DRAIN && last < MODEL_THREADS_MAX && action != last &&
           (enabled & (1u << last)) != 0;
}

/* The next unexplored option of a node: the thread that ran before comes first, so that the first
 * runs read like a sequential program. */
static unsigned next_option(const struct node *node)
{
    uint32_t left = node->wanted & ~node->sleep & ~node->done;
    if (node->last < MODEL_THREADS_MAX && (left & (1u << node->last)) != 0) {
        return node->last;
    }
    for (unsigned action = 0; action < ACTIONS_MAX; action++) {
        if ((left & (1u << action)) != 0) {
            bool costs = is_preemption(action, node->enabled, node->last);
            if (search->bound == 0 || !costs || node->preemptions + 1u < search->bound) {
                return action;
            }
        }
    }
    return ACTION_NONE;
}

static struct node *extend_path(void)
{
    if (path_length == PATH_MAX_) {
        model_fail("the path is too long for the model");
    }
    struct node *node = &path[path_length++];
    *node = (struct node){0};
    return node;
}

static uint32_t *wanted_at(unsigned node)
{
    return &path[node].wanted;
}

static uint32_t enabled_at(unsigned node)
{
    return path[node].enabled;
}

static bool is_reduced(void)
{
    const bool is_known = !(engine.test->has_barrier != 0 && engine.memory == MODEL_TSO);
    return search->bound == 0 && !search->is_bare && is_known;
}

/* False: every enabled action sleeps. */
static bool begin_node(uint32_t enabled)
{
    struct node *node = extend_path();
    node->enabled = enabled;
    node->wanted = enabled;
    node->sleep = search->bound == 0 ? sleeping : 0;
    node->last = last_thread;
    node->preemptions = preemptions;
    unsigned action = next_option(node);
    if (action == ACTION_NONE) {
        path_length--;
        return false;
    }
    if (is_reduced()) {
        /* A sleeper's deadline disappears with its wake-up, so no race would ever request it. */
        node->wanted = 1u << action | (enabled & ~((1u << ACTION_TIMEOUT) - 1));
    }
    node->action = (uint8_t)action;
    return true;
}

/* The actions that stay asleep after the node: those that commute with its action. */
static uint32_t sleep_after(const struct node *node)
{
    uint32_t asleep = 0;
    struct effect taken = memory_effect(node->action);
    for (uint32_t left = node->sleep | node->done; left != 0; left &= left - 1) {
        struct effect other = memory_effect((unsigned)__builtin_ctz(left));
        if (!memory_are_dependent(&other, &taken)) {
            asleep |= left & -left;
        }
    }
    return asleep;
}

static unsigned pick_depth_first(uint32_t enabled)
{
    if (position == path_length && !begin_node(enabled)) {
        return ACTION_NONE;
    }
    const struct node *node = &path[position++];
    if (node->count != 0 || node->enabled != enabled) {
        model_fail("the test is not deterministic: a replayed run went another way");
    }
    bool is_new = position > last_action_node;
    if (is_new) {
        sleeping = sleep_after(node);
    }
    race_add(node->action, position - 1, is_new);
    preemptions =
        (uint8_t)(node->preemptions + (is_preemption(node->action, enabled, node->last) ? 1 : 0));
    if (node->action < ACTION_DRAIN) {
        last_thread = node->action;
    }
    return node->action;
}

static unsigned choose_depth_first(unsigned count)
{
    if (position == path_length) {
        struct node *fresh = extend_path();
        fresh->count = (uint8_t)count;
    }
    const struct node *node = &path[position++];
    if (node->count != count) {
        model_fail("the test is not deterministic: a replayed choice had other options");
    }
    return node->action;
}

/* Nodes from this one are new or changed: the sleep sets of their successors must be computed. */
static void note_last_action_node(void)
{
    last_action_node = path_length;
    while (last_action_node > 0 && path[last_action_node - 1].count != 0) {
        last_action_node--;
    }
    last_action_node -= last_action_node > 0 ? 1 : 0;
}

/* Moves to the next path; false when there is none. */
static bool backtrack(void)
{
    for (; path_length > 0; path_length--) {
        struct node *node = &path[path_length - 1];
        if (node->count != 0) {
            if (node->action + 1u < node->count) {
                node->action++;
                note_last_action_node();
                return true;
            }
            continue;
        }
        node->done |= 1u << node->action;
        unsigned action = next_option(node);
        if (action != ACTION_NONE) {
            node->action = (uint8_t)action;
            note_last_action_node();
            return true;
        }
    }
    return false;
}

/* ---- random -------------------------------------------------------------------------------- */

static void begin_random(uint64_t seed)
{
    current_seed = seed;
    wf_random_init(&random_state, seed);
    for (unsigned i = 0; i < ACTIONS_MAX; i++) {
        priorities[i] = 1000 + (uint32_t)(wf_random_next(&random_state) & 0xffffff);
    }
    for (unsigned i = 0; i < MODEL_COUNT(change_points); i++) {
        change_points[i] =
            i + 1 < search->depth ? wf_random_below(&random_state, expected_steps) : UINT32_MAX;
    }
}

static unsigned pick_random(uint32_t enabled)
{
    unsigned nth = wf_random_below(&random_state, (uint32_t)__builtin_popcount(enabled));
    for (; nth > 0; nth--) {
        enabled &= enabled - 1;
    }
    return (unsigned)__builtin_ctz(enabled);
}

static unsigned pick_by_priority(uint32_t enabled)
{
    unsigned best = ACTION_NONE;
    for (unsigned action = 0; action < ACTIONS_MAX; action++) {
        if ((enabled & (1u << action)) != 0 &&
            (best == ACTION_NONE || priorities[action] > priorities[best])) {
            best = action;
        }
    }
    for (unsigned i = 0; i < MODEL_COUNT(change_points); i++) {
        if (change_points[i] == engine.steps) {
            priorities[best] = i;
        }
    }
    return best;
}

/* ---- runs ---------------------------------------------------------------------------------- */

static unsigned pick(uint32_t enabled)
{
    switch (search->kind) {
    case SEARCH_DFS:
        return pick_depth_first(enabled);
    case SEARCH_PCT:
        return pick_by_priority(enabled);
    default:
        return pick_random(enabled);
    }
}

unsigned search_choose(unsigned count)
{
    if (count <= 1) {
        return 0;
    }
    return search->kind == SEARCH_DFS ? choose_depth_first(count)
                                      : wf_random_below(&random_state, count);
}

unsigned model_choose(unsigned count)
{
    return engine.is_concurrent ? search_choose(count) : 0;
}

static void describe_deadlock(void)
{
    char text[400];
    size_t used = 0;
    for (unsigned i = 0; i < engine.thread_count; i++) {
        const struct thread *thread = &engine.threads[i];
        if (thread->state == THREAD_DONE || used >= sizeof(text)) {
            continue;
        }
        int n = snprintf(text + used, sizeof(text) - used, "%s %s %s %s", used == 0 ? ":" : ",",
                         thread_name(i), thread->state == THREAD_ASLEEP ? "sleeps on" : "spins",
                         thread->state == THREAD_ASLEEP ? memory_cell_name(thread->step->address)
                                                        : "and no thread stores any more");
        used += n > 0 ? (size_t)n : 0;
    }
    text[sizeof(text) - 1] = '\0';
    model_fail("deadlock (a wake-up was lost)%s", text);
}

static void finish_checks(void)
{
    engine.is_concurrent = false;
    if (engine.test->check != NULL) {
        engine.test->check();
    }
    heap_check_leaks();
}

static bool are_all_done(void)
{
    for (unsigned i = 0; i < engine.thread_count; i++) {
        if (engine.threads[i].state != THREAD_DONE) {
            return false;
        }
    }
    return true;
}

static enum run_end run_end;

/* Guarded as a whole: a failure in a step leaves from anywhere in here. */
static void run_steps(void)
{
    run_end = RUN_FAILED;
    if (engine.test->setup != NULL) {
        engine.test->setup();
    }
    engine.is_concurrent = true;
    for (unsigned i = 0; i < engine.thread_count && !engine.is_failed; i++) {
        fiber_start(i);
    }
    while (!engine.is_failed) {
        uint32_t enabled = memory_enabled();
        if (enabled == 0) {
            break;
        }
        if (++engine.steps > STEPS_MAX) {
            model_fail("the run does not end: %d steps", STEPS_MAX);
        }
        unsigned action = pick(enabled);
        if (action == ACTION_NONE) {
            run_end = RUN_BLOCKED;
            return;
        }
        memory_perform(action);
    }
    if (engine.is_failed) {
        return;
    }
    if (!engine.test->may_rest && !are_all_done()) {
        describe_deadlock();
    }
    finish_checks();
    run_end = RUN_OK;
}

static enum run_end run_once(void)
{
    engine.is_failed = false;
    engine.is_concurrent = false;
    engine.steps = 0;
    engine.writes = 0;
    position = 0;
    last_thread = ACTION_NONE;
    preemptions = 0;
    sleeping = 0;
    race_begin();
    heap_reset();
    memory_reset();
    return fiber_guard(run_steps) ? run_end : RUN_FAILED;
}

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void prepare(const struct model_test *test, enum model_memory memory)
{
    static bool is_prepared;
    if (!is_prepared) {
        fiber_prepare();
        is_prepared = true;
    }
    engine.test = test;
    engine.memory = memory;
    engine.thread_count = 0;
    while (engine.thread_count < MODEL_THREADS_MAX && test->threads[engine.thread_count] != NULL) {
        engine.thread_count++;
    }
    path_length = 0;
    last_action_node = 0;
}

/* Measures the length of a run that is the same every time: a seed must mean the same run whichever
 * runs came before it. */
static void measure_run(void)
{
    if (search->kind == SEARCH_DFS) {
        return;
    }
    expected_steps = 1;
    begin_random(0);
    (void)run_once();
    expected_steps = engine.steps + 1;
}

void search_run(const struct model_test *test, enum model_memory memory, const struct search *how,
                struct search_result *out)
{
    *out = (struct search_result){0};
    search = how;
    prepare(test, memory);
    double start = now_seconds();
    measure_run();
    for (;;) {
        uint64_t seed = how->seed + out->executions;
        if (how->kind != SEARCH_DFS) {
            begin_random(seed);
        }
        enum run_end end = run_once();
        out->steps += engine.steps;
        out->executions += end == RUN_BLOCKED ? 0 : 1;
        out->blocked += end == RUN_BLOCKED ? 1 : 0;
        if (end == RUN_FAILED) {
            out->is_failed = true;
            out->failing_seed = seed;
            break;
        }
        if (how->kind == SEARCH_DFS && is_reduced()) {
            race_reverse(wanted_at, enabled_at);
        }
        if (how->kind == SEARCH_DFS && !backtrack()) {
            out->is_exhausted = true;
            break;
        }
        if (how->runs != 0 && out->executions >= how->runs) {
            break;
        }
    }
    out->seconds = now_seconds() - start;
}

void search_replay(void)
{
    engine.is_tracing = true;
    if (search->kind != SEARCH_DFS) {
        begin_random(current_seed);
    }
    (void)run_once();
    engine.is_tracing = false;
}
