/* SPDX-License-Identifier: MIT */
/*
 * bench_sync.c - what it costs to wait for each other: locks, permits, notices, meetings.
 *
 * Rows ending in -1 have one task, and nobody to wait for; the others have so many, all of which do
 * the same to one object.  What a lock protects is one addition.
 */
#include <weft/weft.h>

#include "base/base.h"
#include "bench.h"

enum { TASKS_MAX = 64 };

static weft_runtime *runtime;

/* Never closed: what is measured is over by then, and the process ends. */
static void need_runtime(unsigned workers)
{
    const weft_options options = {.workers = workers};
    if (runtime == NULL) {
        WEFT_CHECK(weft_runtime_open(&runtime, &options) == 0);
    }
}

/* What each of the tasks does. */
struct share {
    void (*work)(uint64_t rounds, unsigned number);
    uint64_t rounds;
    unsigned number;
};

static intptr_t work_task(void *arg)
{
    const struct share *share = arg;
    share->work(share->rounds, share->number);
    return 0;
}

struct crowd {
    unsigned tasks;
    uint64_t ops; /* in all */
    void (*work)(uint64_t rounds, unsigned number);
};

static intptr_t crowd_task(void *arg)
{
    const struct crowd *crowd = arg;
    static struct share shares[TASKS_MAX];
    static weft_task *tasks[TASKS_MAX];
    for (unsigned i = 0; i < crowd->tasks; i++) {
        shares[i] = (struct share){crowd->work, crowd->ops / crowd->tasks, i};
        tasks[i] = weft_go(work_task, &shares[i]);
    }
    return weft_await_all(tasks, crowd->tasks, NULL);
}

static uint64_t together(uint64_t ops, unsigned workers, unsigned tasks,
                         void (*work)(uint64_t rounds, unsigned number))
{
    struct crowd crowd = {.tasks = tasks, .ops = ops, .work = work};
    weft_task *task;
    need_runtime(workers);
    WEFT_CHECK(weft_runtime_spawn(runtime, &task, crowd_task, &crowd, NULL) == 0);
    WEFT_CHECK(weft_await(task) == 0);
    return 0;
}

static uint64_t counter; /* what the locks protect */

/* ---- mutex ---------------------------------------------------------------------------------- */

static weft_mutex mutex;

static void lock_and_add(uint64_t rounds, unsigned number)
{
    (void)number;
    for (; rounds > 0; rounds--) {
        WEFT_CHECK(weft_mutex_lock(&mutex) == 0);
        counter++;
        WEFT_CHECK(weft_mutex_unlock(&mutex) == 0);
    }
}

static uint64_t mutex_of(uint64_t ops, unsigned workers, unsigned tasks)
{
    counter = 0;
    (void)together(ops, workers, tasks, lock_and_add);
    WEFT_CHECK(counter == ops / tasks * tasks);
    return 0;
}

static uint64_t mutex_1(uint64_t ops, unsigned workers)
{
    return mutex_of(ops, workers, 1);
}

static uint64_t mutex_4(uint64_t ops, unsigned workers)
{
    return mutex_of(ops, workers, 4);
}

static uint64_t mutex_64(uint64_t ops, unsigned workers)
{
    return mutex_of(ops, workers, 64);
}

static const struct bench_row rows[] = {
    {"mutex-1", "weft", "lock", 2000000, 1, mutex_1},
    {"mutex-4", "weft", "lock", 2000000, 1, mutex_4},
    {"mutex-64", "weft", "lock", 2000000, 1, mutex_64},
};

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {
        .title = "Locks and meetings",
        .base = "weft",
        .rows = rows,
        .row_count = sizeof(rows) / sizeof(rows[0]),
    };
    return bench_main(argc, argv, &suite);
}
