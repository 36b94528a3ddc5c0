/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/cond.c who waits for something that is changed under the mutex is told of
 *         it, whether the signal comes with the mutex or after it; what was changed is seen; and a
 *         signal is not lost to one who is cancelled or never runs again, in every order of steps
 *         under every memory model.
 * Method: what is waited for is plain, under the mutex.  A lost signal is a deadlock.  The mutex is
 *         that of src/sync/mutex.c, which has a kernel of its own: here it is taken for granted.
 */
#include "model/sync_aids.h"

static weft_mutex mutex;
static weft_cond *cond;
static unsigned flag; /* plain: under the mutex */
static struct wf_wait_node *left_node;

static void start(void)
{
    start_tasks();
    mutex = (weft_mutex){0};
    cond = wf_alloc_zeroed(1, sizeof(*cond));
    flag = 0;
    left_node = NULL;
}

static void start_foreign(void)
{
    start();
    is_foreign[0] = true;
}

/* Thread 3, which does not exist, waits. */
static void start_with_one_left(void)
{
    start();
    left_node = wf_alloc_zeroed(1, sizeof(*left_node));
    wf_node_init(left_node, &selves[3]);
    wf_cond_begin((struct wf_cond *)(void *)cond, left_node);
}

static void check(void)
{
    MODEL_REQUIRE(weft_mutex_is_locked(&mutex) == 0);
    MODEL_REQUIRE(((struct wf_cond *)(void *)cond)->queue.first == NULL);
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        MODEL_REQUIRE(selves[i].held == NULL);
    }
    wf_free(cond);
    wf_free(left_node);
}

static void check_all_told(void)
{
    MODEL_REQUIRE(wf_load_relaxed(&left_node->is_granted) == 1);
    check();
}

/* ---- threads ------------------------------------------------------------------------------- */

/* Until the flag is set; whatever it gives, the mutex is the caller's. */
static int wait_for_flag(void)
{
    int rc = weft_mutex_lock(&mutex);
    if (rc != 0) {
        return rc; /* cancelled before it came so far */
    }
    while (rc == 0 && wf_plain_load(&flag) == 0) { /* each turn but the last is a signal */
        rc = weft_cond_wait(cond, &mutex);
    }
    MODEL_REQUIRE(rc != 0 || wf_plain_load(&flag) == 1);
    MODEL_REQUIRE(weft_mutex_unlock(&mutex) == 0);
    return rc;
}

static void wait_it_out(void)
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

static void set_and_tell_all(void)
{
    set_flag();
    MODEL_REQUIRE(weft_cond_broadcast(cond) == 0);
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
    {.name = "a signal after the mutex",
     .setup = start,
     .threads = {wait_it_out, set_and_signal},
     .names = {"waits", "signals"},
     .bound = {5, 2, 3}, /* four preemptions, one under tso, two under view */
     .check = check},
    {.name = "a signal with the mutex",
     .setup = start,
     .threads = {wait_it_out, signal_inside},
     .names = {"waits", "signals"},
     .bound = {4, 2, 2}, /* three preemptions, else one */
     .check = check},
    {.name = "a foreign thread waits",
     .setup = start_foreign,
     .threads = {wait_it_out, set_and_signal},
     .names = {"thread", "signals"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "all are told",
     .setup = start_with_one_left,
     .threads = {wait_it_out, set_and_tell_all},
     .names = {"waits", "tells"},
     .bound = {4, 2, 2}, /* three preemptions, else one */
     .check = check_all_told},
    {.name = "one who waits is cancelled",
     .setup = start,
     .threads = {wait_cancelled, set_and_signal, cancel_first},
     .names = {"cancelled", "signals", "canceller"},
     .bound = {3, 1, 1}, /* two preemptions, else none */
     .check = check},
    {.name = "told, one never runs again",
     .setup = start_with_one_left,
     .threads = {wait_it_out, set_and_signal, abandon_left},
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
