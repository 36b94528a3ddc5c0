/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/cond.c a waiter for data under the mutex sees each signalled change,
 *         whether the signal comes while the mutex is held or after; it sees the change; and no
 *         signal is lost to a waiter that is cancelled or never runs again, in every order of steps
 *         under every memory model.
 * Method: the data is plain, under the mutex.  A lost signal is a deadlock.  The mutex is that of
 *         src/sync/mutex.c, which has its own model program: here it is assumed to be correct.
 */
#include "model/sync_helpers.h"

static weft_mutex mutex;
static weft_cond *cond;
static unsigned flag; /* plain: under the mutex */
static struct wf_wait_node *abandoned_node;

static void start(void)
{
    start_tasks();
    mutex = (weft_mutex){0};
    cond = wf_alloc_zeroed(1, sizeof(*cond));
    flag = 0;
    abandoned_node = NULL;
}

static void start_thread(void)
{
    start();
    is_thread[0] = true;
}

/* Thread 3, which does not exist, waits. */
static void start_with_abandoned(void)
{
    start();
    abandoned_node = wf_alloc_zeroed(1, sizeof(*abandoned_node));
    wf_node_init(abandoned_node, &selves[3]);
    wf_cond_begin((struct wf_cond *)(void *)cond, abandoned_node);
}

static void check(void)
{
    MODEL_REQUIRE(weft_mutex_is_locked(&mutex) == 0);
    MODEL_REQUIRE(((struct wf_cond *)(void *)cond)->queue.first == NULL);
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        MODEL_REQUIRE(selves[i].owned_locks == NULL);
    }
    wf_free(cond);
    wf_free(abandoned_node);
}

static void check_all_woken(void)
{
    MODEL_REQUIRE(wf_load_relaxed(&abandoned_node->is_granted) == 1);
    check();
}

/* ---- threads ------------------------------------------------------------------------------- */

/* Waits until the flag is set; returns with the mutex held, whatever the result. */
static int wait_for_flag(void)
{
    int rc = weft_mutex_lock(&mutex);
    if (rc != 0) {
        return rc; /* cancelled before it had the mutex */
    }
    while (rc == 0 && wf_plain_load(&flag) == 0) { /* each iteration except the last is a signal */
        rc = weft_cond_wait(cond, &mutex);
    }
    MODEL_REQUIRE(rc != 0 || wf_plain_load(&flag) == 1);
    MODEL_REQUIRE(weft_mutex_unlock(&mutex) == 0);
    return rc;
}

static void wait_until_set(void)
{
    MODEL_REQUIRE(wait_for_flag() == 0);
}

static void wait_cancelled(void)
{
    const int rc = wait_for_flag();
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
}

static void set_flag(void)
{
    MODEL_REQUIRE(weft_mutex_lock(&mutex) == 0);
    wf_plain_store(&flag, 1);
    MODEL_REQUIRE(weft_mutex_unlock(&mutex) == 0);
}

static void set_and_signal(void)
{
    set_flag();
    MODEL_REQUIRE(weft_cond_signal(cond) == 0);
}

static void signal_inside(void)
{
    MODEL_REQUIRE(weft_mutex_lock(&mutex) == 0);
    wf_plain_store(&flag, 1);
    MODEL_REQUIRE(weft_cond_signal(cond) == 0);
    MODEL_REQUIRE(weft_mutex_unlock(&mutex) == 0);
}

static void set_and_broadcast(void)
{
    set_flag();
    MODEL_REQUIRE(weft_cond_broadcast(cond) == 0);
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
    {.name = "signal after unlock races wait",
     .setup = start,
     .threads = {wait_until_set, set_and_signal},
     .names = {"waits", "signals"},
     .bound = {5, 2, 3}, /* four preemptions, one under tso, two under view */
     .check = check},
    {.name = "signal under the mutex races wait",
     .setup = start,
     .threads = {wait_until_set, signal_inside},
     .names = {"waits", "signals"},
     .bound = {4, 2, 2}, /* three preemptions, else one */
     .check = check},
    {.name = "signal races wait of a thread",
     .setup = start_thread,
     .threads = {wait_until_set, set_and_signal},
     .names = {"thread", "signals"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "broadcast wakes all waiters",
     .setup = start_with_abandoned,
     .threads = {wait_until_set, set_and_broadcast},
     .names = {"waits", "broadcasts"},
     .bound = {4, 2, 2}, /* three preemptions, else one */
     .check = check_all_woken},
    {.name = "cancel races signal and wait",
     .setup = start,
     .threads = {wait_cancelled, set_and_signal, cancel_first},
     .names = {"cancelled", "signals", "canceller"},
     .bound = {3, 1, 1}, /* two preemptions, else none */
     .check = check},
    {.name = "abandoned waiter passes the signal on",
     .setup = start_with_abandoned,
     .threads = {wait_until_set, set_and_signal, abandon_node},
     .names = {"waits", "signals", "closer"},
     .bound = {3, 1, 1}, /* two preemptions, else none */
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"cond", tests, MODEL_COUNT(tests),
                                             NULL,   0,     "src/sync/cond.c"};
    return model_main(argc, argv, &suite);
}
