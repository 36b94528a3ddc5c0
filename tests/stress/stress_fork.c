/* SPDX-License-Identifier: MIT */
/*
 * Goal:   whatever shape a tree of forks has, and whichever fork is stolen, waits, is cancelled or
 *         fails, every fork runs exactly once, in its own runtime, and its forker sees its writes;
 *         in a tree that fails, no fork runs twice, and none after the tree's end.
 * Method: random trees over a ledger, under every policy and order in turn, in two runtimes at
 *         once.  Each leaf checks plain data of its forker, writes plain data that the join reads,
 *         and in between yields, locks, awaits, sleeps or owns a scope, or fails.  At the end of an
 *         iteration the ledger must balance, and nothing is left.
 * Environment: see stress.h
 */
#include "stress/stress.h"

enum { ROOTS = 6, LEAVES = 600, PARTS_MAX = 5, RUNTIMES = 2 };

enum kind {
    PLAIN,
    CANCELLED, /* by a thread outside the runtime, at any time */
    FAILING,   /* one of its leaves fails */
    KINDS,
};

/* One leaf; all plain. */
struct entry {
    uint64_t given; /* by its forker, right before the fork */
    uint64_t runs;  /* by the leaf */
    uint64_t by;    /* the task that ran it */
};

struct root {
    enum kind kind;
    bool is_pure; /* its leaves compute and never suspend: thieves take the forks */
    uint64_t seed;
    size_t failing; /* the leaf that fails */
    weft_runtime *runtime;
    weft_mutex mutex;
    uint64_t locked;      /* plain: leaves that have held the mutex */
    wf_atomic_u32 begun;  /* leaves */
    wf_atomic_u32 locker; /* leaves that locked it */
    struct entry entries[LEAVES];
};

/* A part of a root's ledger. */
struct part {
    struct root *root;
    size_t first;
    size_t count;
};

static struct wf_random random_of(const struct part *part)
{
    struct wf_random random;
    wf_random_init(&random, part->root->seed + part->first * LEAVES + part->count);
    return random;
}

static intptr_t own_a_scope(void)
{
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    const int rc = weft_scope_go(&scope, echo, NULL);
    CHECK(rc == 0 || rc == -ECANCELED);
    return weft_scope_close(&scope);
}

/* The work of a leaf besides being counted.  A cancel shortens all of it. */
static void do_leaf_work(struct part *part, struct wf_random *random)
{
    struct root *root = part->root;
    if (root->is_pure) {
        for (unsigned i = wf_random_below(random, 500); i > 0; i--) {
            wf_spin_hint();
        }
        return;
    }
    switch (wf_random_below(random, 16)) {
    case 0:
        (void)weft_yield();
        break;
    case 1:
        (void)weft_sleep(wf_random_below(random, 20) * INT64_C(1000));
        break;
    case 2:
        if (weft_mutex_lock(&root->mutex) == 0) {
            (void)wf_fetch_add_relaxed(&root->locker, 1);
            root->locked++;
            CHECK_EQ(weft_mutex_unlock(&root->mutex), 0);
        }
        break;
    case 3: {
        weft_task *task = weft_go(echo, (void *)3);
        if (task != NULL) { /* a cancelled task cannot spawn */
            const intptr_t result = weft_await(task);
            CHECK(result == 3 || result == -ECANCELED);
        }
        break;
    }
    case 4:
        (void)own_a_scope();
        break;
    default: /* most leaves are short, as forks are */
        break;
    }
}

static intptr_t run_a_leaf(struct part *part, struct wf_random *random)
{
    struct root *root = part->root;
    struct entry *entry = &root->entries[part->first];
    CHECK_EQ(entry->given, part->first + 1);
    CHECK_EQ(entry->runs, 0);
    CHECK(weft_runtime_self() == root->runtime);
    raise_by_one(&root->begun);
    do_leaf_work(part, random);
    entry->runs++;
    entry->by = weft_task_id(weft_self());
    if (root->kind == FAILING && part->first == root->failing) {
        weft_fail(-EIO, "leaf %zu", part->first);
    }
    return 1;
}

/* Returns its number of leaves. */
static intptr_t run_a_part(void *arg)
{
    struct part *part = arg;
    struct wf_random random = random_of(part);
    if (part->count == 1) {
        return run_a_leaf(part, &random);
    }
    weft_par_fork forks[PARTS_MAX];
    struct part parts[PARTS_MAX];
    size_t left = part->count;
    size_t wanted_parts = 2 + wf_random_below(&random, PARTS_MAX - 1);
    size_t count = 0;
    while (left > 0) {
        const bool is_last = count + 1 == PARTS_MAX || count + 1 == wanted_parts;
        size_t size = is_last ? left : 1 + wf_random_below(&random, (uint32_t)left);
        size = size == part->count ? size - 1 : size; /* otherwise the recursion would not end */
        parts[count] = (struct part){part->root, part->first + part->count - left, size};
        if (size == 1) {
            part->root->entries[parts[count].first].given = parts[count].first + 1;
        }
        weft_par_fork_go(&forks[count], run_a_part, &parts[count]);
        left -= size;
        count++;
        wanted_parts += left > 0 && count == wanted_parts ? 1 : 0; /* one part was made smaller */
    }
    intptr_t sum = 0;
    while (count > 0) {
        count--;
        const intptr_t result = weft_par_fork_join(&forks[count]);
        CHECK_EQ(result, parts[count].count);
        for (size_t i = 0; i < parts[count].count && part->count < 16; i++) {
            /* published by the join */
            CHECK_EQ(part->root->entries[parts[count].first + i].runs, 1);
        }
        sum += result;
    }
    return sum;
}

static intptr_t run_a_root(void *arg)
{
    struct root *root = arg;
    struct part all = {root, 0, LEAVES};
    return run_a_part(&all);
}

static void check_root(const struct root *root, intptr_t result)
{
    CHECK_EQ(result, root->kind == FAILING ? -EIO : LEAVES);
    for (size_t i = 0; i < LEAVES; i++) {
        const struct entry *entry = &root->entries[i];
        CHECK(entry->runs == 1 || (root->kind == FAILING && entry->runs == 0));
        CHECK(entry->runs == 0 || (entry->given == i + 1 && entry->by != 0));
    }
    CHECK(root->entries[root->failing].runs == 1);
    CHECK_EQ(root->locked, wf_load_relaxed(&root->locker)); /* relaxed: all have ended */
}

struct forest {
    struct root *roots;
    size_t count; /* number of trees: with one tree, workers without work steal from it */
    weft_runtime *runtime;
    uint64_t seed;
};

static void forest_init(struct forest *forest)
{
    struct wf_random random;
    wf_random_init(&random, forest->seed);
    forest->count = wf_random_below(&random, 2) == 0 ? 1 : ROOTS;
    for (size_t i = 0; i < forest->count; i++) {
        struct root *root = &forest->roots[i];
        *root = (struct root){.kind = (enum kind)wf_random_below(&random, KINDS),
                              .is_pure = wf_random_below(&random, 2) == 0,
                              .seed = wf_random_next(&random),
                              .failing = wf_random_below(&random, LEAVES),
                              .runtime = forest->runtime};
    }
}

/* [non-worker thread]  Starts the trees, cancels some while they run, and checks their results. */
static void *run_forest(void *arg)
{
    struct forest *forest = arg;
    weft_task *tasks[ROOTS];
    forest_init(forest);
    for (size_t i = 0; i < forest->count; i++) {
        tasks[i] = go_into(forest->runtime, run_a_root, &forest->roots[i]);
    }
    for (size_t i = 0; i < forest->count; i++) {
        struct root *root = &forest->roots[i];
        if (root->kind == CANCELLED) {
            wait_for(&root->begun, (uint32_t)(root->failing % LEAVES));
            CHECK_EQ(weft_cancel(tasks[i]), 0);
        }
    }
    for (size_t i = 0; i < forest->count; i++) {
        check_root(&forest->roots[i], weft_await(tasks[i]));
    }
    return NULL;
}

static void fork_runs_exactly_once_in_random_trees(void)
{
    uint64_t taken = 0;
    for (struct stress stress = {.rounds = 0}; stress_next(&stress);) {
        const uint64_t blocks = blocks_out();
        struct forest forests[RUNTIMES];
        pthread_t threads[RUNTIMES];
        for (size_t i = 0; i < RUNTIMES; i++) {
            forests[i] = (struct forest){.roots = calloc(ROOTS, sizeof(struct root)),
                                         .seed = wf_random_next(&stress.random)};
            CHECK(forests[i].roots != NULL);
            CHECK_EQ(weft_runtime_open(&forests[i].runtime, &stress.options), 0);
            start_thread(&threads[i], run_forest, &forests[i]);
        }
        for (size_t i = 0; i < RUNTIMES; i++) {
            CHECK_EQ(wf_thread_join(threads[i]), 0);
            wait_until_empty(forests[i].runtime);
            taken += stats_of(forests[i].runtime).total.forks_taken;
            stress.tasks += stats_of(forests[i].runtime).total.spawned;
            CHECK_EQ(weft_runtime_close(forests[i].runtime, -1), 0);
            free(forests[i].roots);
        }
        CHECK_EQ(blocks_out(), blocks);
    }
    tap_note("%ju forks were stolen", (uintmax_t)taken);
    CHECK(taken > 0);
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(fork_runs_exactly_once_in_random_trees, LIMIT_S),
};
TAP_MAIN(tests)
