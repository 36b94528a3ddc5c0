/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/mutex.c one thread at a time holds the mutex and sees the writes of earlier
 *         holders, and no waiter is forgotten: whether it is woken to retry or gets the mutex by
 *         hand-off, is overtaken, cancelled, or never runs again; in every order of steps under
 *         every memory model.
 * Method: the mutex protects plain data, so that two holders are a race.  A lost wake-up is a
 *         deadlock.  The mutex comes from the checker's heap and is freed by the last holder: a
 *         later access is a use after free.
 *         Keeps part of behaviour 53.
 */
#include "model/sync_helpers.h"

static weft_mutex *mutex;
static unsigned sum;    /* plain: under the mutex */
static unsigned users;  /* plain: under the mutex; the last frees it */
static unsigned locked; /* number of lock calls that succeed */
static struct wf_wait_node *abandoned_node;

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
    abandoned_node = NULL;
}

static void start_three(void)
{
    start();
    locked = 3;
}

static void start_thread(void)
{
    start();
    is_thread[0] = true;
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

/* Thread 1 holds the mutex, and thread 3, which does not exist, waits for it. */
static void add_abandoned(unsigned losses)
{
    start();
    wf_store_relaxed(&inner()->word, (uintptr_t)&selves[1]);
    selves[1].owned_locks = &inner()->owned;
    abandoned_node = wf_alloc_zeroed(1, sizeof(*abandoned_node));
    wf_node_init(abandoned_node, &selves[3]);
    abandoned_node->count = losses;
    (void)wf_mutex_begin(inner(), abandoned_node, (uintptr_t)&selves[3]);
}

static void start_with_abandoned(void)
{
    add_abandoned(0);
}

/* It lost a race before: it will get the mutex by hand-off. */
static void start_with_abandoned_handoff(void)
{
    add_abandoned(WF_MUTEX_LOSSES_MAX);
}

static void check(void)
{
    MODEL_REQUIRE(sum == locked);
    if (mutex != NULL) {
        MODEL_REQUIRE(weft_mutex_is_locked(mutex) == 0);
        MODEL_REQUIRE(inner()->queue.first == NULL);
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        MODEL_REQUIRE(selves[i].owned_locks == NULL);
    }
    wf_free(mutex);
    wf_free(abandoned_node);
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
        locked--; /* not a step of the model: read after all threads */
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

static void abandon_node(void)
{
    abandoned_node->hook.abandon(&abandoned_node->hook);
    struct wf_wait_node *node = abandoned_node;
    abandoned_node = NULL;
    wf_free(node);
}

static const struct model_test tests[] = {
    {.name = "two locks",
     .setup = start,
     .threads = {lock_once, lock_once},
     .names = {"first", "second"},
     .bound = {0, 0, 5}, /* four preemptions under view */
     .check = check},
    {.name = "lock races try_lock",
     .setup = start,
     .threads = {lock_once, try_once},
     .names = {"locks", "tries"},
     .bound = {0, 5, 4}, /* four preemptions under tso, three under view */
     .check = check,
     .is_slow = 1},
    {.name = "lock races lock of a thread",
     .setup = start_thread,
     .threads = {lock_once, lock_once},
     .names = {"thread", "task"},
     .bound = {4, 3, 2}, /* three preemptions, two under tso, one under view */
     .check = check},
    {.name = "last holder of two frees it",
     .setup = start_users,
     .threads = {lock_and_free, lock_and_free},
     .names = {"first", "second"},
     .bound = {0, 5, 5}, /* four preemptions */
     .check = check},
    {.name = "cancel races two locks",
     .setup = start,
     .threads = {lock_cancelled, lock_once, cancel_first},
     .names = {"cancelled", "locks", "canceller"},
     .bound = {4, 3, 2}, /* three, two and one preemptions */
     .check = check},
    {.name = "abandoned woken waiter wakes the next",
     .setup = start_with_abandoned,
     .threads = {lock_once, unlock, abandon_node},
     .names = {"locks", "unlocks", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "abandoned waiter passes the hand-off on",
     .setup = start_with_abandoned_handoff,
     .threads = {lock_once, unlock, abandon_node},
     .names = {"locks", "unlocks", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "three locks",
     .setup = start_three,
     .threads = {lock_once, lock_once, lock_once},
     .names = {"first", "second", "third"},
     .bound = {4, 2, 1}, /* three preemptions, one under tso, none under view */
     .check = check,
     .is_slow = 1},
    {.name = "last holder of three frees it",
     .setup = start_three_users,
     .threads = {lock_and_free, lock_and_free, lock_and_free},
     .names = {"first", "second", "third"},
     .bound = {4, 2, 1}, /* three preemptions, one under tso, none under view */
     .check = check,
     .is_slow = 1},
    {.name = "cancel races three locks",
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
