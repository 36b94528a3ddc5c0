/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/sem.c no permit is lost or given twice, nobody waits beside permits that
 * are enough for the first who waits, and what was done before a release is seen by who acquires
 *         it, in every order of steps under every memory model.
 * Method: acquires of one and of two, releases, cancels and a task that never runs again.  A lost
 *         wake-up is a deadlock.  The semaphore comes from the checker's heap and is freed by who
 *         acquires its last permit, in one test.
 *         Keeps behaviour 51.
 */
#include "model/sync_aids.h"

static weft_sem *sem;
static uint64_t expected; /* permits that are left at the end */
static uint64_t kept[MODEL_THREADS_MAX];
static int letters[MODEL_THREADS_MAX]; /* plain: written by thread i before it releases */
static struct wf_wait_node *left_node;

static void start(void)
{
    start_tasks();
    sem = wf_alloc_zeroed(1, sizeof(*sem));
    expected = 0;
    left_node = NULL;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        kept[i] = 0;
        letters[i] = 0;
    }
}

/* One permit is released, and kept by who acquires it. */
static void start_one(void)
{
    start();
    expected = 1;
}

static void start_two(void)
{
    start();
    expected = 2;
}

static void start_three(void)
{
    start();
    expected = 3;
}

static void start_foreign(void)
{
    start_one();
    is_foreign[0] = true;
}

/* Thread 3, which does not exist, waits. */
static void leave_one(uint32_t count)
{
    left_node = wf_alloc_zeroed(1, sizeof(*left_node));
    wf_node_init(left_node, &selves[3]);
    (void)wf_sem_begin((struct wf_sem *)(void *)sem, left_node, count);
}

static void start_with_one_left(void)
{
    start_one();
    leave_one(2);
}

static void start_behind_one(void)
{
    start_two();
    leave_one(1);
    kept[3] = 1; /* it will be granted one, and stay where it is */
}

static void check(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        sum += kept[i];
    }
    if (sem != NULL) {
        sum += (uint64_t)weft_sem_permits(sem);
        MODEL_REQUIRE(((struct wf_sem *)(void *)sem)->queue.first == NULL);
    }
    MODEL_REQUIRE(sum == expected);
    wf_free(sem);
    wf_free(left_node);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void release(uint32_t count)
{
    wf_plain_store(&letters[model_thread()], 1);
    MODEL_REQUIRE(weft_sem_release(sem, count) == 0);
}

static void release_1(void)
{
    release(1);
}

static void release_2(void)
{
    release(2);
}

static void release_3(void)
{
    release(3);
}

static int acquire(uint32_t count)
{
    int rc = weft_sem_acquire(sem, count);
    kept[model_thread()] = rc == 0 ? count : 0;
    return rc;
}

/* Thread 1 releases. */
static void acquire_1(void)
{
    MODEL_REQUIRE(acquire(1) == 0);
    MODEL_REQUIRE(wf_plain_load(&letters[1]) == 1);
}

/* Threads 1 and 2 release. */
static void acquire_2_of_both(void)
{
    MODEL_REQUIRE(acquire(2) == 0);
    MODEL_REQUIRE(wf_plain_load(&letters[1]) == 1);
    MODEL_REQUIRE(wf_plain_load(&letters[2]) == 1);
}

static void acquire_2(void)
{
    MODEL_REQUIRE(acquire(2) == 0);
}

static void acquire_any(void)
{
    MODEL_REQUIRE(acquire(1) == 0);
}

static void try_1(void)
{
    if (weft_sem_try_acquire(sem, 1) == 0) {
        kept[model_thread()] = 1;
        MODEL_REQUIRE(wf_plain_load(&letters[1]) == 1);
    }
}

static void acquire_1_cancelled(void)
{
    int rc = acquire(1);
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
}

static void acquire_2_cancelled(void)
{
    MODEL_REQUIRE(acquire(2) == -ECANCELED); /* there is one */
}

static void acquire_and_free(void)
{
    acquire_1();
    weft_sem *old = sem;
    sem = NULL;
    wf_free(old);
}

static void cancel_first(void)
{
    cancel(0);
}

static void abandon_left(void)
{
    left_node->parting.forget(&left_node->parting);
    struct wf_wait_node *node = left_node;
    left_node = NULL;
    wf_free(node);
}

static const struct model_test tests[] = {
    {.name = "an acquire and a release",
     .setup = start_one,
     .threads = {acquire_1, release_1},
     .names = {"acquire", "release"},
     .check = check},
    {.name = "a try and a release",
     .setup = start_one,
     .threads = {try_1, release_1},
     .names = {"try", "release"},
     .check = check},
    {.name = "a foreign thread acquires",
     .setup = start_foreign,
     .threads = {acquire_1, release_1},
     .names = {"thread", "release"},
     .check = check},
    {.name = "two at once, of two releases",
     .setup = start_two,
     .threads = {acquire_2_of_both, release_1, release_1},
     .names = {"acquire", "release 1", "release 2"},
     .bound = {3, 3, 2}, /* two preemptions, one under view */
     .check = check},
    {.name = "two acquires of one release",
     .setup = start_two,
     .threads = {acquire_any, release_2, acquire_any},
     .names = {"acquire 1", "release", "acquire 2"},
     .bound = {3, 2, 1}, /* two preemptions, one under tso, none under view */
     .check = check,
     .is_slow = 1},
    {.name = "a large request and a small one",
     .setup = start_three,
     .threads = {acquire_2, release_3, acquire_any},
     .names = {"acquire 2", "release", "acquire 1"},
     .bound = {3, 2, 1}, /* as above */
     .check = check,
     .is_slow = 1},
    {.name = "an acquire, cancelled",
     .setup = start_one,
     .threads = {acquire_1_cancelled, release_1, cancel_first},
     .names = {"acquire", "release", "canceller"},
     .bound = {0, 3, 2}, /* two preemptions, one under view */
     .check = check},
    {.name = "a large request in the way is cancelled",
     .setup = start_one,
     .threads = {acquire_2_cancelled, release_1, cancel_first, acquire_any},
     .names = {"acquire 2", "release", "canceller", "acquire 1"},
     .bound = {2, 1, 1}, /* one preemption, else none */
     .check = check,
     .is_slow = 1},
    {.name = "a large request in the way never runs again",
     .setup = start_with_one_left,
     .threads = {acquire_1, release_1, abandon_left},
     .names = {"acquire", "release", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check,
     .is_slow = 1},
    {.name = "what is left over by a release",
     .setup = start_behind_one,
     .threads = {acquire_1, release_2},
     .names = {"acquire", "release"},
     .check = check},
    {.name = "it is freed by who acquires what is left over",
     .setup = start_behind_one,
     .threads = {acquire_and_free, release_2},
     .names = {"acquire", "release"},
     .check = check},
    {.name = "it is freed by who acquires",
     .setup = start_one,
     .threads = {acquire_and_free, release_1},
     .names = {"acquire", "release"},
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"sem", tests, MODEL_COUNT(tests),
                                             NULL,  0,     "src/sync/sem.c"};
    return model_main(argc, argv, &suite);
}
