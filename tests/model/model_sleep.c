/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the checker finds lost wake-ups: the protocol by which a worker parks is safe as
 *         documented, and each way to get it wrong shows as a deadlock where it is one.
 * Method: a worker announces its park, checks the global queue (the real one) again, and sleeps on
 *         a futex; a producer pushes and wakes the worker if it has announced itself.  The wrong
 *         forms omit the second check, or the fences.  Shows part of S4.28 in small.
 */
#include "model/ledger.h"
#include "queue/queue.h"

static struct wf_inject queue;
static wf_atomic_u32 asleep; /* 1: the worker sleeps, or is about to */

static void start(void)
{
    ledger_clear();
    MODEL_REQUIRE(wf_inject_init(&queue, NULL) == 0);
    wf_store_relaxed(&asleep, 0);
}

static void check_all(void)
{
    ledger_all_taken(1);
}

static bool take(void)
{
    struct wf_chain taken = {0};
    if (wf_inject_pop(&queue, 1, SIZE_MAX, &taken) == 0) {
        return false;
    }
    (void)ledger_take(wf_chain_pop(&taken));
    return true;
}

static void wake_worker(void)
{
    if (wf_load_relaxed(&asleep) == 1) {
        wf_store_relaxed(&asleep, 0);
        (void)wf_futex_wake(&asleep, 1);
    }
}

static void producer(void)
{
    MODEL_REQUIRE(wf_inject_push(&queue, ledger_make(0)) == 0);
    wf_fence_seq_cst(); /* orders the push before the check of the sleeper */
    wake_worker();
}

static void producer_without_fence(void)
{
    MODEL_REQUIRE(wf_inject_push(&queue, ledger_make(0)) == 0);
    wake_worker();
}

static void worker(void)
{
    while (!take()) {
        wf_store_relaxed(&asleep, 1);
        wf_fence_seq_cst(); /* orders the announcement before the second check */
        if (wf_inject_count(&queue) == 0) {
            (void)wf_futex_wait(&asleep, 1, WF_FOREVER);
        }
        wf_store_relaxed(&asleep, 0);
    }
}

static void worker_without_second_check(void)
{
    while (!take()) {
        wf_store_relaxed(&asleep, 1);
        wf_fence_seq_cst();
        (void)wf_futex_wait(&asleep, 1, WF_FOREVER);
        wf_store_relaxed(&asleep, 0);
    }
}

static void worker_without_fence(void)
{
    while (!take()) {
        wf_store_relaxed(&asleep, 1);
        if (wf_inject_count(&queue) == 0) {
            (void)wf_futex_wait(&asleep, 1, WF_FOREVER);
        }
        wf_store_relaxed(&asleep, 0);
    }
}

static const struct model_test tests[] = {
    {.name = "announce, second check, sleep",
     .setup = start,
     .threads = {worker, producer},
     .names = {"worker", "producer"},
     .check = check_all},
    {.name = "without the second check",
     .setup = start,
     .threads = {worker_without_second_check, producer},
     .names = {"worker", "producer"},
     .check = check_all,
     .expect = {MODEL_FAILS, MODEL_FAILS, MODEL_FAILS}},
    {.name = "without the worker's fence",
     .setup = start,
     .threads = {worker_without_fence, producer},
     .names = {"worker", "producer"},
     .check = check_all,
     .expect = {MODEL_HOLDS, MODEL_FAILS, MODEL_FAILS}},
    {.name = "without the producer's fence",
     .setup = start,
     .threads = {worker, producer_without_fence},
     .names = {"worker", "producer"},
     .check = check_all,
     /* x86 is safe by accident: releasing the queue's lock is a locked instruction. */
     .expect = {MODEL_HOLDS, MODEL_HOLDS, MODEL_FAILS}},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"sleep", tests, MODEL_COUNT(tests),
                                             NULL,    0,     "src/queue/inject.c"};
    return model_main(argc, argv, &suite);
}
