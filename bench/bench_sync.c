/* SPDX-License-Identifier: MIT */
/*
 * bench_sync.c - the cost of synchronisation: locks, permits, notifications, barriers.
 *
 * Rows that end in -1 have one task, which never waits; the others have the given number of tasks,
 * all of which use one object.  A lock protects one addition.
 */
#include <weft/weft.h>

#include "base/base.h"
#include "bench.h"

enum { TASKS_MAX = 64 };

static weft_runtime *runtime;

/* Never closed: the process ends after the measurement. */
static void need_runtime(unsigned workers)
{
    const weft_runtime_options options = {.workers = workers};
    if (runtime == NULL) {
        WEFT_CHECK(weft_runtime_open(&runtime, &options) == 0);
    }
}

/* The function of each task. */
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
    uint64_t ops; /* in total */
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

/* ---- rwlock --------------------------------------------------------------------------------- */

static weft_rwlock rwlock;

static void read_often(uint64_t rounds, unsigned number)
{
    uint64_t sum = 0;
    (void)number;
    for (; rounds > 0; rounds--) {
        WEFT_CHECK(weft_rwlock_rdlock(&rwlock) == 0);
        sum += counter;
        WEFT_CHECK(weft_rwlock_unlock(&rwlock) == 0);
    }
    WEFT_CHECK(sum < UINT64_MAX);
}

static void write_often(uint64_t rounds, unsigned number)
{
    (void)number;
    for (; rounds > 0; rounds--) {
        WEFT_CHECK(weft_rwlock_wrlock(&rwlock) == 0);
        counter++;
        WEFT_CHECK(weft_rwlock_unlock(&rwlock) == 0);
    }
}

/* One writer, the others read. */
static void read_or_write(uint64_t rounds, unsigned number)
{
    if (number == 0) {
        write_often(rounds, number);
    } else {
        read_often(rounds, number);
    }
}

static uint64_t rwlock_read_1(uint64_t ops, unsigned workers)
{
    return together(ops, workers, 1, read_often);
}

static uint64_t rwlock_write_1(uint64_t ops, unsigned workers)
{
    return together(ops, workers, 1, write_often);
}

static uint64_t rwlock_8(uint64_t ops, unsigned workers)
{
    return together(ops, workers, 8, read_or_write);
}

/* ---- semaphore ------------------------------------------------------------------------------ */

static weft_sem sem = WEFT_SEM_INIT(2);

static void acquire_often(uint64_t rounds, unsigned number)
{
    (void)number;
    for (; rounds > 0; rounds--) {
        WEFT_CHECK(weft_sem_acquire(&sem, 1) == 0);
        WEFT_CHECK(weft_sem_release(&sem, 1) == 0);
    }
}

static uint64_t sem_1(uint64_t ops, unsigned workers)
{
    return together(ops, workers, 1, acquire_often);
}

/* Eight tasks for two permits. */
static uint64_t sem_8(uint64_t ops, unsigned workers)
{
    return together(ops, workers, 8, acquire_often);
}

/* ---- notify, barrier, once, group ------------------------------------------------------------ */

static weft_notify notify;

static void notify_often(uint64_t rounds, unsigned number)
{
    (void)number;
    for (; rounds > 0; rounds--) {
        WEFT_CHECK(weft_notify_one(&notify) == 0);
        WEFT_CHECK(weft_notify_wait(&notify) == 0);
    }
}

static uint64_t notify_1(uint64_t ops, unsigned workers)
{
    return together(ops, workers, 1, notify_often);
}

static weft_barrier barrier;

static void meet_often(uint64_t rounds, unsigned number)
{
    (void)number;
    for (; rounds > 0; rounds--) {
        WEFT_CHECK(weft_barrier_wait(&barrier) >= 0);
    }
}

static uint64_t barrier_1(uint64_t ops, unsigned workers)
{
    WEFT_CHECK(weft_barrier_init(&barrier, 1) == 0);
    return together(ops, workers, 1, meet_often);
}

/* An operation is an arrival. */
static uint64_t barrier_4(uint64_t ops, unsigned workers)
{
    WEFT_CHECK(weft_barrier_init(&barrier, 4) == 0);
    return together(ops, workers, 4, meet_often);
}

static void get_often(uint64_t rounds, unsigned number)
{
    static weft_cell cell;
    (void)number;
    (void)weft_cell_set(&cell, &cell); /* a previous run may have set it */
    for (; rounds > 0; rounds--) {
        WEFT_CHECK(weft_cell_get(&cell) == &cell);
    }
}

static uint64_t once_get(uint64_t ops, unsigned workers)
{
    return together(ops, workers, 1, get_often);
}

static void set_often(uint64_t rounds, unsigned number)
{
    static const weft_cell empty;
    (void)number;
    for (; rounds > 0; rounds--) {
        weft_cell cell = empty;
        WEFT_CHECK(weft_cell_set(&cell, &counter) == 0);
        WEFT_CHECK(weft_cell_get(&cell) == &counter);
    }
}

static uint64_t once_set(uint64_t ops, unsigned workers)
{
    return together(ops, workers, 1, set_often);
}

static const struct bench_row rows[] = {
    {"mutex-1", "weft", "lock", 2000000, 1, mutex_1},
    {"mutex-4", "weft", "lock", 2000000, 1, mutex_4},
    {"mutex-64", "weft", "lock", 2000000, 1, mutex_64},
    {"rwlock-read-1", "weft", "lock", 2000000, 1, rwlock_read_1},
    {"rwlock-write-1", "weft", "lock", 2000000, 1, rwlock_write_1},
    {"rwlock-8", "weft", "lock", 1000000, 1, rwlock_8},
    {"sem-1", "weft", "permit", 2000000, 1, sem_1},
    {"sem-8", "weft", "permit", 1000000, 1, sem_8},
    {"notify-1", "weft", "notice", 2000000, 1, notify_1},
    {"barrier-1", "weft", "arrival", 1000000, 1, barrier_1},
    {"barrier-4", "weft", "arrival", 400000, 1, barrier_4},
    {"once-get", "weft", "look", 20000000, 1, once_get},
    {"once-set", "weft", "cell", 1000000, 1, once_set},
};

/* Goals in nanoseconds are given here as ratios to a peer that was measured at the same time. */
static const struct bench_goal goals[] = {
    {"mutex-1", "weft", "go", 1.0, false, 1, false},
    {"mutex-4", "weft", "go", 1.0, false, 1, false},
    {"mutex-4", "weft", "tokio", 0.5, false, 2, false},
    {"mutex-64", "weft", "go", 1.0, false, 1, false},
    {"mutex-64", "weft", "tokio", 0.5, false, 2, false},
    {"rwlock-read-1", "weft", "tokio", 0.5, false, 1, false},
    {"rwlock-write-1", "weft", "tokio", 0.5, false, 1, false},
    {"rwlock-8", "weft", "tokio", 1.0, false, 2, false},
    {"sem-1", "weft", "tokio", 0.5, false, 1, false},
    {"sem-8", "weft", "tokio", 1.0, false, 2, false},
    {"notify-1", "weft", "tokio", 0.5, false, 1, false},
    {"barrier-4", "weft", "tokio", 0.5, false, 1, false},
    {"once-get", "weft", "tokio", 1.0, false, 1, false},
    {"once-set", "weft", "tokio", 0.5, false, 1, false},
};

int main(int argc, char **argv)
{
    static const struct bench_suite suite = {
        .title = "Locks and events",
        .base = "weft",
        .rows = rows,
        .row_count = sizeof(rows) / sizeof(rows[0]),
        .goals = goals,
        .goal_count = sizeof(goals) / sizeof(goals[0]),
    };
    return bench_main(argc, argv, &suite);
}
