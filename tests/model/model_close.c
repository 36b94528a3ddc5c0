/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sched/pool.c and quiet.c nobody from outside touches a runtime that is gone, who
 *         closes it is woken when the last task has ended, and what happens outside of a quiet
 *         runtime is reported, in every order of steps under every memory model.
 * Method: strangers read plain data between entering the pool and leaving it; the closer writes it
 *         after it has shut the pool: too late is a race.  A worker ends a task and falls quiet
 *         against a closer that counts and sleeps, as in runtime.c: who is not woken is a deadlock.
 *         A stranger notes something against a worker that reports, looks for news and sleeps: what
 *         is noted at the end was never told.
 *         Shows part of behaviours 30, 33 and 34.
 */
#include <errno.h>

#include "model/model.h"
#include "sched/sched.h"

static weft_runtime runtime;
static struct wf_task_pool pool;
static struct wf_worker worker;
static struct weft_task closer_task; /* the closer yields where a thread would spin */
static bool has_closer;              /* thread 0 */
static int structure;                /* plain: 1 as long as the runtime is whole */
static wf_atomic_u32 is_asleep;      /* the worker's bit */
static unsigned told;                /* [worker]  reports */

/* ---- what the scheduler does otherwise ----------------------------------------------------- */

struct weft_task *wf_task_self(void)
{
    return has_closer && model_thread() == 0 ? &closer_task : NULL;
}

void wf_task_yield(struct weft_task *self)
{
    (void)self;
    wf_spin_hint();
}

void wf_task_reset(struct weft_task *task)
{
    (void)task;
}

uint64_t wf_runtime_live(const weft_runtime *of)
{
    uint64_t completed = wf_load_acquire(&of->workers[0].counters.completed);
    return wf_load_relaxed(&of->workers[0].counters.spawned) - completed;
}

/* Of the list only its length is kept. */
void wf_failures_report(weft_runtime *of)
{
    wf_lock_acquire(&of->pool->lock);
    if (wf_plain_load(&of->pool->failures_lost) > 0) {
        told++;
        wf_plain_store(&of->pool->failures_lost, 0);
    }
    wf_lock_release(&of->pool->lock);
}

void wf_failures_free(struct wf_failure *failures)
{
    (void)failures;
}

/* Nothing here is a deadlock. */
bool wf_world_try_stop(weft_runtime *of)
{
    (void)of;
    return false;
}

void wf_world_resume(weft_runtime *of)
{
    (void)of;
}

bool wf_timers_are_set(weft_runtime *of)
{
    (void)of;
    return true;
}

bool wf_wait_is_for_task(uint32_t wait)
{
    return wait != 0;
}

bool wf_wait_is_for_lock(uint32_t wait)
{
    (void)wait;
    return false;
}

bool wf_wait_is_in_sync(uint32_t wait)
{
    (void)wait;
    return false;
}

void wf_task_name(const struct weft_task *task, char name[WEFT_NAME_SIZE])
{
    (void)task;
    name[0] = '\0';
}

unsigned wf_blocking_resting(const struct wf_blocking *blocking)
{
    (void)blocking;
    return 0;
}

unsigned wf_thread_count(void)
{
    return 0;
}

const struct weft_task *wf_scope_first(struct wf_scope *scope)
{
    (void)scope;
    return NULL;
}

void wf_task_describe(const weft_runtime *of, const struct weft_task *task, bool is_held,
                      weft_info *out)
{
    (void)of;
    (void)task;
    (void)is_held;
    *out = (weft_info){0};
}

const char *weft_wait_name(enum weft_wait wait)
{
    (void)wait;
    return "";
}

int weft_dump(weft_runtime *of, int fd)
{
    (void)of;
    return fd;
}

int wf_file_write(int fd, const void *bytes, size_t size)
{
    (void)fd;
    (void)bytes;
    (void)size;
    return 0;
}

void wf_join_main_break(weft_runtime *of)
{
    (void)of;
}

/* As steal.c does. */
static void rouse(weft_runtime *of)
{
    (void)of;
    wf_fence_seq_cst();
    if (wf_exchange_relaxed(&is_asleep, 0) != 0) {
        wf_parker_unpark(&worker.parker);
    }
}

/* ---- strangers ----------------------------------------------------------------------------- */

static void visit(void)
{
    if (wf_pool_enter(&pool)) {
        MODEL_REQUIRE(wf_plain_load(&structure) == 1);
        wf_pool_leave(&pool);
    }
}

static void shut(void)
{
    wf_pool_shut(&pool);
    wf_plain_store(&structure, 0);
}

static void note(void)
{
    wf_lock_acquire(&pool.lock);
    wf_plain_store(&pool.failures_lost, wf_plain_load(&pool.failures_lost) + 1);
    wf_lock_release(&pool.lock);
    wf_runtime_tell(&pool);
}

static void note_twice(void)
{
    note();
    note();
}

/* ---- the worker ---------------------------------------------------------------------------- */

/* A round, as in worker.c. */
static void end_a_task(void)
{
    wf_store_release(&worker.rounds, 1);
    wf_store_release(&worker.counters.completed, 1);
    wf_store_release(&worker.rounds, 2);
}

/* Rests as the only worker does. */
static void rest_for_ever(void)
{
    for (;;) {
        if (wf_runtime_is_news(&runtime)) {
            wf_runtime_quiet(&runtime);
            continue;
        }
        wf_store_relaxed(&is_asleep, 1);
        wf_fence_seq_cst();
        if (wf_runtime_is_news(&runtime) && wf_exchange_relaxed(&is_asleep, 0) != 0) {
            continue;
        }
        (void)wf_parker_park(&worker.parker, WF_FOREVER);
    }
}

static void end_and_rest(void)
{
    end_a_task();
    rest_for_ever();
}

/* ---- the closer ---------------------------------------------------------------------------- */

/* Steps 1 to 3 of runtime.c. */
static void close_it(void)
{
    wf_lock_acquire(&runtime.gate);
    wf_store_relaxed(&runtime.is_closing, 1);
    wf_lock_release(&runtime.gate);
    wf_fence_seq_cst(); /* (C1) */
    while (wf_runtime_live(&runtime) != 0) {
        (void)wf_parker_park(&runtime.closer, WF_FOREVER);
    }
    wf_plain_store(&structure, 0); /* it has got this far */
}

/* ---- tests --------------------------------------------------------------------------------- */

static void start(void)
{
    static const struct wf_policy policy = {.rouse = rouse};
    runtime =
        (weft_runtime){.policy = &policy, .worker_count = 1, .workers = &worker, .pool = &pool};
    pool = (struct wf_task_pool){.runtime = &runtime};
    worker = (struct wf_worker){.runtime = &runtime, .pool = &pool};
    wf_lock_init(&runtime.gate, WF_RANK_GATE);
    wf_lock_init(&pool.lock, WF_RANK_TASK_POOL);
    wf_parker_init(&runtime.closer);
    wf_parker_init(&worker.parker);
    wf_store_relaxed(&worker.counters.spawned, 1);
    wf_store_relaxed(&is_asleep, 0);
    has_closer = false;
    structure = 1;
    told = 0;
}

static void start_to_close(void)
{
    start();
    has_closer = true;
}

static void check_gone(void)
{
    MODEL_REQUIRE(structure == 0);
    MODEL_REQUIRE(wf_load_relaxed(&pool.strangers) == 0);
}

static void check_told(void)
{
    MODEL_REQUIRE(pool.failures_lost == 0);
    MODEL_REQUIRE(told > 0);
    MODEL_REQUIRE(wf_load_relaxed(&is_asleep) == 1);
}

static const struct model_test tests[] = {
    {.name = "a stranger",
     .setup = start_to_close,
     .threads = {shut, visit},
     .names = {"closer", "stranger"},
     .check = check_gone},
    {.name = "two strangers",
     .setup = start_to_close,
     .threads = {shut, visit, visit},
     .names = {"closer", "stranger 1", "stranger 2"},
     .bound = {0, 0, 4},
     .check = check_gone},
    {.name = "the last task ends",
     .setup = start_to_close,
     .threads = {close_it, end_and_rest},
     .names = {"closer", "worker"},
     .check = check_gone,
     .may_rest = 1},
    {.name = "news from outside",
     .setup = start,
     .threads = {rest_for_ever, note},
     .names = {"worker", "stranger"},
     .check = check_told,
     .may_rest = 1},
    {.name = "news again",
     .setup = start,
     .threads = {rest_for_ever, note_twice},
     .names = {"worker", "stranger"},
     .bound = {4, 1, 2},
     .check = check_told,
     .may_rest = 1,
     .is_slow = 1},
};

static const struct model_equivalent equivalents[] = {
    {"activity: wf_load_acquire(&runtime->workers[i].rounds) -> relaxed",
     "(Y1) is for who goes by it to what a round left in tasks, of which there are none here"},
    {"wf_parker_unpark: wf_exchange_release(&parker->word) -> relaxed",
     "who is woken looks at what the fences order; model_park shows what the parker carries"},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {
        "close", tests, MODEL_COUNT(tests), equivalents, MODEL_COUNT(equivalents), NULL};
    return model_main(argc, argv, &suite);
}
