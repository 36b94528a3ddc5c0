/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/sem.c no permit is lost or granted twice, no waiter waits while enough
 *         permits for the first waiter are available, and an acquirer sees the writes before the
 *         release, in every order of steps under every memory model.
 * Method: acquires of one and of two, releases, cancels and a task that never runs again.  A lost
 *         wake-up is a deadlock.  The semaphore comes from the checker's heap and is freed by the
 *         acquirer of its last permit, in one test.
 *         Keeps behaviour 51.
 */
#include "model/sync_helpers.h"

static weft_sem *sem;
static uint64_t expected; /* permits that exist at the end */
static uint64_t kept[MODEL_THREADS_MAX];
static int payloads[MODEL_THREADS_MAX]; /* plain: written by thread i before it releases */
static struct wf_wait_node *abandoned_node;

static void start(void)
{
    start_tasks();
    sem = wf_alloc_zeroed(1, sizeof(*sem));
    expected = 0;
    abandoned_node = NULL;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        kept[i] = 0;
        payloads[i] = 0;
    }
}

/* One permit is released, and kept by its acquirer. */
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

static void start_thread(void)
{
    start_one();
    is_thread[0] = true;
}

/* Thread 3, which does not exist, waits. */
static void add_abandoned(uint32_t count)
{
    abandoned_node = wf_alloc_zeroed(1, sizeof(*abandoned_node));
    wf_node_init(abandoned_node, &selves[3]);
    (void)wf_sem_begin((struct wf_sem *)(void *)sem, abandoned_node, count);
}

static void start_with_abandoned(void)
{
    start_one();
    add_abandoned(2);
}

static void start_behind_one(void)
{
    start_two();
    add_abandoned(1);
    kept[3] = 1; /* it will be granted one permit, and never take it */
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
    wf_free(abandoned_node);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void release(uint32_t count)
{
    wf_plain_store(&payloads[model_thread()], 1);
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
    MODEL_REQUIRE(wf_plain_load(&payloads[1]) == 1);
}

/* Threads 1 and 2 release. */
static void acquire_2_of_both(void)
{
    MODEL_REQUIRE(acquire(2) == 0);
    MODEL_REQUIRE(wf_plain_load(&payloads[1]) == 1);
    MODEL_REQUIRE(wf_plain_load(&payloads[2]) == 1);
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
        MODEL_REQUIRE(wf_plain_load(&payloads[1]) == 1);
    }
}

static void acquire_1_cancelled(void)
{
    int rc = acquire(1);
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
}

static void acquire_2_cancelled(void)
{
    MODEL_REQUIRE(acquire(2) == -ECANCELED); /* only one permit exists */
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

static void abandon_node(void)
{
    abandoned_node->hook.abandon(&abandoned_node->hook);
    struct wf_wait_node *node = abandoned_node;
    abandoned_node = NULL;
    wf_free(node);
}

static const struct model_test tests[] = {
    {.name = "acquire races release",
     .setup = start_one,
     .threads = {acquire_1, release_1},
     .names = {"acquire", "release"},
     .check = check},
    {.name = "try_acquire races release",
     .setup = start_one,
     .threads = {try_1, release_1},
     .names = {"try", "release"},
     .check = check},
    {.name = "acquire of a thread races release",
     .setup = start_thread,
     .threads = {acquire_1, release_1},
     .names = {"thread", "release"},
     .check = check},
    {.name = "acquire of two races two releases",
     .setup = start_two,
     .threads = {acquire_2_of_both, release_1, release_1},
     .names = {"acquire", "release 1", "release 2"},
     .bound = {3, 3, 2}, /* two preemptions, one under view */
     .check = check},
    {.name = "two acquires race one release of two",
     .setup = start_two,
     .threads = {acquire_any, release_2, acquire_any},
     .names = {"acquire 1", "release", "acquire 2"},
     .bound = {3, 2, 1}, /* two preemptions, one under tso, none under view */
     .check = check,
     .is_slow = 1},
    {.name = "acquire of two and of one race release of three",
     .setup = start_three,
     .threads = {acquire_2, release_3, acquire_any},
     .names = {"acquire 2", "release", "acquire 1"},
     .bound = {3, 2, 1}, /* two preemptions, one under tso, none under view */
     .check = check,
     .is_slow = 1},
    {.name = "cancel races acquire and release",
     .setup = start_one,
     .threads = {acquire_1_cancelled, release_1, cancel_first},
     .names = {"acquire", "release", "canceller"},
     .bound = {0, 3, 2}, /* two preemptions, one under view */
     .check = check},
    {.name = "cancelled large request serves the next waiter",
     .setup = start_one,
     .threads = {acquire_2_cancelled, release_1, cancel_first, acquire_any},
     .names = {"acquire 2", "release", "canceller", "acquire 1"},
     .bound = {2, 1, 1}, /* one preemption, else none */
     .check = check,
     .is_slow = 1},
    {.name = "abandoned large request serves the next waiter",
     .setup = start_with_abandoned,
     .threads = {acquire_1, release_1, abandon_node},
     .names = {"acquire", "release", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check,
     .is_slow = 1},
    {.name = "release serves a waiter and stores the rest",
     .setup = start_behind_one,
     .threads = {acquire_1, release_2},
     .names = {"acquire", "release"},
     .check = check},
    {.name = "acquirer of the stored rest frees it",
     .setup = start_behind_one,
     .threads = {acquire_and_free, release_2},
     .names = {"acquire", "release"},
     .check = check},
    {.name = "acquirer of the released permit frees it",
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
