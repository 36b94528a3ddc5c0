/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/mutex.c one at a time has the mutex, sees what was done under it before,
 * and nobody who waits is forgotten: whether it is told to try or handed the mutex, is overtaken,
 *         cancelled, or never runs again; in every order of steps under every memory model.
 * Method: what the mutex protects is plain, so that two at a time are a race.  A lost wake-up is a
 *         deadlock.  The mutex comes from the checker's heap and is freed by the last who unlocks
 *         it: a later touch is a use after free.
 *         Keeps part of behaviour 53.
 */
#include "model/sync_aids.h"

static weft_mutex *mutex;
static unsigned sum;    /* plain: under the mutex */
static unsigned users;  /* plain: under the mutex; the last frees it */
static unsigned locked; /* by how many, at the end */
static struct wf_wait_node *left_node;

static struct wf_mutex *inner(void)
{
    return (struct wf_mutex *)(void *)mutex;
}

static void start(void)
{
    start_tasks();
    mutex = wf_alloc_zeroed(1, sizeof(*mutex));
    sum = 0;
    users = 0;
    locked = 2;
    left_node = NULL;
}

static void start_three(void)
{
    start();
    locked = 3;
}

static void start_foreign(void)
{
    start();
    is_foreign[0] = true;
}

static void start_users(void)
{
    start();
    users = 2;
}

static void start_three_users(void)
{
    start_three();
    users = 3;
}

/* Thread 1 has the mutex, and thread 3, which does not exist, waits for it. */
static void leave_one(unsigned losses)
{
    start();
    wf_store_relaxed(&inner()->word, (uintptr_t)&selves[1]);
    selves[1].held = &inner()->held;
    left_node = wf_alloc_zeroed(1, sizeof(*left_node));
    wf_node_init(left_node, &selves[3]);
    left_node->count = losses;
    (void)wf_mutex_begin(inner(), left_node, (uintptr_t)&selves[3]);
}

static void start_with_one_left(void)
{
    leave_one(0);
}

/* It was too late before: the mutex will be handed over. */
static void start_with_one_left_too_late(void)
{
    leave_one(WF_MUTEX_LOSSES_MAX);
}

static void check(void)
{
    MODEL_REQUIRE(sum == locked);
    if (mutex != NULL) {
        MODEL_REQUIRE(weft_mutex_is_locked(mutex) == 0);
        MODEL_REQUIRE(inner()->queue.first == NULL);
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        MODEL_REQUIRE(selves[i].held == NULL);
    }
    wf_free(mutex);
    wf_free(left_node);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void add_one(void)
{
    wf_plain_store(&sum, wf_plain_load(&sum) + 1);
}

static void lock_once(void)
{
    MODEL_REQUIRE(weft_mutex_lock(mutex) == 0);
    add_one();
    MODEL_REQUIRE(weft_mutex_unlock(mutex) == 0);
}

static void try_once(void)
{
    while (weft_mutex_try_lock(mutex) != 0) { /* ends when the others have unlocked it */
        wf_spin_hint();
    }
    add_one();
    MODEL_REQUIRE(weft_mutex_unlock(mutex) == 0);
}

static void lock_cancelled(void)
{
    int rc = weft_mutex_lock(mutex);
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        add_one();
        MODEL_REQUIRE(weft_mutex_unlock(mutex) == 0);
    } else {
        locked--; /* no step of the model: read after all */
    }
}

static void cancel_first(void)
{
    cancel(0);
}

static void lock_and_free(void)
{
    weft_mutex *mine = mutex;
    MODEL_REQUIRE(weft_mutex_lock(mine) == 0);
    add_one();
    const unsigned left = wf_plain_load(&users) - 1;
    wf_plain_store(&users, left);
    MODEL_REQUIRE(weft_mutex_unlock(mine) == 0);
    if (left == 0) {
        mutex = NULL;
        wf_free(mine);
    }
}

/* [thread 1] */
static void unlock(void)
{
    add_one();
    MODEL_REQUIRE(weft_mutex_unlock(mutex) == 0);
}

static void abandon_left(void)
{
    left_node->parting.forget(&left_node->parting);
    struct wf_wait_node *node = left_node;
    left_node = NULL;
    wf_free(node);
}

static const struct model_test tests[] = {
    {.name = "two lock",
     .setup = start,
     .threads = {lock_once, lock_once},
     .names = {"first", "second"},
     .bound = {0, 0, 5}, /* four preemptions under view */
     .check = check},
    {.name = "one tries",
     .setup = start,
     .threads = {lock_once, try_once},
     .names = {"locks", "tries"},
     .bound = {0, 5, 4}, /* four preemptions under tso, three under view */
     .check = check,
     .is_slow = 1},
    {.name = "a foreign thread locks",
     .setup = start_foreign,
     .threads = {lock_once, lock_once},
     .names = {"thread", "task"},
     .bound = {4, 3, 2}, /* three preemptions, two under tso, one under view */
     .check = check},
    {.name = "the last frees it",
     .setup = start_users,
     .threads = {lock_and_free, lock_and_free},
     .names = {"first", "second"},
     .bound = {0, 5, 5}, /* four preemptions */
     .check = check},
    {.name = "one is cancelled",
     .setup = start,
     .threads = {lock_cancelled, lock_once, cancel_first},
     .names = {"cancelled", "locks", "canceller"},
     .bound = {4, 3, 2}, /* three, two and one preemptions */
     .check = check},
    {.name = "a chance for one that never runs again",
     .setup = start_with_one_left,
     .threads = {lock_once, unlock, abandon_left},
     .names = {"locks", "unlocks", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "handed over to one that never runs again",
     .setup = start_with_one_left_too_late,
     .threads = {lock_once, unlock, abandon_left},
     .names = {"locks", "unlocks", "closer"},
     .bound = {3, 2, 2}, /* as above */
     .check = check},
    {.name = "three lock",
     .setup = start_three,
     .threads = {lock_once, lock_once, lock_once},
     .names = {"first", "second", "third"},
     .bound = {4, 2, 1}, /* three preemptions, one under tso, none under view */
     .check = check,
     .is_slow = 1},
    {.name = "the last of three frees it",
     .setup = start_three_users,
     .threads = {lock_and_free, lock_and_free, lock_and_free},
     .names = {"first", "second", "third"},
     .bound = {4, 2, 1}, /* as above */
     .check = check,
     .is_slow = 1},
    {.name = "one of three is cancelled",
     .setup = start_three,
     .threads = {lock_cancelled, lock_once, lock_once, cancel_first},
     .names = {"cancelled", "locks", "locks too", "canceller"},
     .bound = {3, 2, 1}, /* two, one and no preemptions */
     .check = check,
     .is_slow = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"mutex", tests, MODEL_COUNT(tests),
                                             NULL,    0,     "src/sync/mutex.c"};
    return model_main(argc, argv, &suite);
}
