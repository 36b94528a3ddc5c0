/* SPDX-License-Identifier: MIT */
/*
 * Goal:   whatever shape a tree of forks has, and whoever takes, waits, is cancelled or fails in
 *         it, every fork runs exactly once, in its own runtime, and its forker sees what it wrote;
 *         of a tree that fails, none twice, and none after its end.
 * Method: random trees over a ledger, under every policy and order in turn, in two runtimes at
 *         once.  Each leaf finds plain data of its forker, writes plain data that the join reads,
 *         and on the way yields, locks, awaits, sleeps or owns a scope, or fails.  At the end of a
 *         round the books must balance, and nothing is left.
 *
 * Environment: see storm.h
 */
#include "stress/storm.h"

enum { ROOTS = 6, LEAVES = 600, PARTS_MAX = 5, RUNTIMES = 2 };

enum kind {
    PLAIN,
    CANCELLED, /* by a foreign thread, at any time */
    FAILING,   /* one of its leaves fails */
    KINDS,
};

/* One leaf; all plain. */
struct entry {
    uint64_t given; /* by its forker, right before the fork */
    uint64_t runs;  /* by the leaf */
    uint64_t by;    /* the task it ran in */
};

struct root {
    enum kind kind;
    bool is_pure; /* its leaves compute, and never wait: so forks are taken, not given away */
    uint64_t seed;
    size_t failing; /* the leaf that does */
    weft_runtime *runtime;
    weft_mutex mutex;
    uint64_t locked;      /* plain: leaves that have had the mutex */
    wf_atomic_u32 begun;  /* leaves */
    wf_atomic_u32 locker; /* leaves that meant to lock it */
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

/* What a leaf does besides being counted.  A cancel makes all of it shorter. */
static void busy_oneself(struct part *part, struct wf_random *random)
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
        if (task != NULL) { /* who was cancelled does not spawn */
            const intptr_t result = weft_await(task);
            CHECK(result == 3 || result == -ECANCELED);
        }
        break;
    }
    case 4:
        (void)own_a_scope();
        break;
    default: /* most of them are short, as forks are */
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
    busy_oneself(part, random);
    entry->runs++;
    entry->by = weft_task_id(weft_self());
    if (root->kind == FAILING && part->first == root->failing) {
        weft_fail(-EIO, "leaf %zu", part->first);
    }
    return 1;
}

/* Gives how many leaves it has. */
static intptr_t run_a_part(void *arg)
{
    struct part *part = arg;
    struct wf_random random = random_of(part);
    if (part->count == 1) {
        return run_a_leaf(part, &random);
    }
    weft_fork forks[PARTS_MAX];
    struct part parts[PARTS_MAX];
    size_t left = part->count;
    size_t wanted_parts = 2 + wf_random_below(&random, PARTS_MAX - 1);
    size_t count = 0;
    while (left > 0) {
        const bool is_last = count + 1 == PARTS_MAX || count + 1 == wanted_parts;
        size_t size = is_last ? left : 1 + wf_random_below(&random, (uint32_t)left);
        size = size == part->count ? size - 1 : size; /* else it would not end */
        parts[count] = (struct part){part->root, part->first + part->count - left, size};
        if (size == 1) {
            part->root->entries[parts[count].first].given = parts[count].first + 1;
        }
        weft_fork_go(&forks[count], run_a_part, &parts[count]);
        left -= size;
        count++;
        wanted_parts += left > 0 && count == wanted_parts ? 1 : 0; /* one was made smaller */
    }
    intptr_t sum = 0;
    while (count > 0) {
        count--;
        const intptr_t result = weft_fork_join(&forks[count]);
        CHECK_EQ(result, parts[count].count);
        for (size_t i = 0; i < parts[count].count && part->count < 16; i++) {
            CHECK_EQ(part->root->entries[parts[count].first + i].runs, 1); /* carried by the join */
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

struct side {
    struct root *roots;
    size_t count; /* of them: one tree leaves workers without work, who take from it */
    weft_runtime *runtime;
    uint64_t seed;
};

static void fill_side(struct side *side)
{
    struct wf_random random;
    wf_random_init(&random, side->seed);
    side->count = wf_random_below(&random, 2) == 0 ? 1 : ROOTS;
    for (size_t i = 0; i < side->count; i++) {
        struct root *root = &side->roots[i];
        *root = (struct root){.kind = (enum kind)wf_random_below(&random, KINDS),
                              .is_pure = wf_random_below(&random, 2) == 0,
                              .seed = wf_random_next(&random),
                              .failing = wf_random_below(&random, LEAVES),
                              .runtime = side->runtime};
    }
}

/* [foreign thread]  Plants them, cancels some as they grow, and looks at what has become of them.
 */
static void *grow_a_wood(void *arg)
{
    struct side *side = arg;
    weft_task *tasks[ROOTS];
    fill_side(side);
    for (size_t i = 0; i < side->count; i++) {
        tasks[i] = go_into(side->runtime, run_a_root, &side->roots[i]);
    }
    for (size_t i = 0; i < side->count; i++) {
        struct root *root = &side->roots[i];
        if (root->kind == CANCELLED) {
            wait_for(&root->begun, (uint32_t)(root->failing % LEAVES));
            CHECK_EQ(weft_cancel(tasks[i]), 0);
        }
    }
    for (size_t i = 0; i < side->count; i++) {
        check_root(&side->roots[i], weft_await(tasks[i]));
    }
    return NULL;
}

static void every_fork_runs_once(void)
{
    uint64_t taken = 0;
    for (struct storm storm = {.rounds = 0}; storm_next(&storm);) {
        const uint64_t blocks = blocks_out();
        struct side sides[RUNTIMES];
        pthread_t threads[RUNTIMES];
        for (size_t i = 0; i < RUNTIMES; i++) {
            sides[i] = (struct side){.roots = calloc(ROOTS, sizeof(struct root)),
                                     .seed = wf_random_next(&storm.random)};
            CHECK(sides[i].roots != NULL);
            CHECK_EQ(weft_runtime_open(&sides[i].runtime, &storm.options), 0);
            start_thread(&threads[i], grow_a_wood, &sides[i]);
        }
        for (size_t i = 0; i < RUNTIMES; i++) {
            CHECK_EQ(wf_thread_join(threads[i]), 0);
            wait_until_empty(sides[i].runtime);
            taken += stats_of(sides[i].runtime).total.forks_taken;
            storm.tasks += stats_of(sides[i].runtime).total.spawned;
            CHECK_EQ(weft_runtime_close(sides[i].runtime, -1), 0);
            free(sides[i].roots);
        }
        CHECK_EQ(blocks_out(), blocks);
    }
    tap_note("%ju forks were taken by others", (uintmax_t)taken);
    CHECK(taken > 0);
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(every_fork_runs_once, LIMIT_S),
};
TAP_MAIN(tests)
