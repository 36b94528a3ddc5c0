/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/task/pool.c and quiescence.c no thread outside the runtime touches a freed
 *         runtime, the closer is woken when the last task has ended, and an event outside of a
 *         quiescent runtime is reported, in every order of steps under every memory model.
 * Method: non-worker threads read plain data between pin and unpin; the closer writes it after it
 *         has shut the pool: a late read is a race.  A worker ends a task and becomes quiescent
 *         against a closer that counts and sleeps, as in runtime.c: a missed wake-up is a deadlock.
 *         A non-worker thread adds a failure against a worker that reports, checks for new failures
 *         and sleeps: a failure that is left at the end was never reported.
 *         Shows part of behaviours 30, 33 and 34.
 */
#include <errno.h>

#include "model/model.h"
#include "runtime/runtime.h"

static weft_runtime runtime;
static struct wf_task_pool pool;
static struct wf_worker worker;
static struct weft_task closer_task; /* the closer yields where a thread would spin */
static bool has_closer;              /* thread 0 is the closer */
static int structure;                /* plain: 1 while the runtime exists */
static wf_atomic_u32 is_asleep;      /* the worker's idle bit */
static unsigned reported;            /* [worker]  number of reports */

/* ---- stubs of the scheduler ---------------------------------------------------------------- */

struct weft_task *wf_task_self(void)
{
    return has_closer && model_thread() == 0 ? &closer_task : NULL;
}

void wf_task_reset(struct weft_task *task)
{
    (void)task;
}

void wf_task_name(const struct weft_task *task, char name[WEFT_TASK_NAME_SIZE])
{
    (void)task;
    name[0] = '\0';
}

static void relax(void)
{
    wf_spin_hint();
}

uint64_t wf_runtime_live(const weft_runtime *of)
{
    uint64_t completed = wf_load_acquire(&of->workers[0].counters.completed);
    return wf_load_relaxed(&of->workers[0].counters.spawned) - completed;
}

/* Only the length of the list is kept. */
void wf_failures_report(weft_runtime *of)
{
    wf_lock_acquire(&of->pool->lock);
    if (wf_plain_load(&of->pool->failures.lost) > 0) {
        reported++;
        wf_plain_store(&of->pool->failures.lost, 0);
    }
    wf_lock_release(&of->pool->lock);
}

/* There is no deadlock here. */
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

unsigned wf_blocking_idle_threads(const struct wf_blocking *blocking)
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
                      weft_task_info *out)
{
    (void)of;
    (void)task;
    (void)is_held;
    *out = (weft_task_info){0};
}

const char *weft_wait_name(enum weft_wait wait)
{
    (void)wait;
    return "";
}

int weft_runtime_dump(weft_runtime *of, int fd)
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
static void wake_any(weft_runtime *of)
{
    (void)of;
    wf_fence_seq_cst();
    if (wf_exchange_relaxed(&is_asleep, 0) != 0) {
        wf_parker_unpark(&worker.parker);
    }
}

/* ---- non-worker threads -------------------------------------------------------------------- */

static void pin_and_read(void)
{
    if (wf_pool_pin(&pool)) {
        MODEL_REQUIRE(wf_plain_load(&structure) == 1);
        wf_pool_unpin(&pool);
    }
}

static void shut(void)
{
    wf_pool_rundown(&pool, relax);
    wf_plain_store(&structure, 0);
}

static void note(void)
{
    wf_lock_acquire(&pool.lock);
    wf_plain_store(&pool.failures.lost, wf_plain_load(&pool.failures.lost) + 1);
    wf_lock_release(&pool.lock);
    wf_quiescence_request(&pool);
}

static void note_twice(void)
{
    note();
    note();
}

/* ---- the worker ---------------------------------------------------------------------------- */

/* One tick, as in worker.c. */
static void end_a_task(void)
{
    wf_store_release(&worker.run.seq, 1);
    wf_store_release(&worker.counters.completed, 1);
    wf_store_release(&worker.run.seq, 2);
}

/* Parks as the only worker does. */
static void park_for_ever(void)
{
    for (;;) {
        if (wf_quiescence_is_due(&runtime)) {
            wf_quiescence_report(&runtime, false);
            continue;
        }
        wf_store_relaxed(&is_asleep, 1);
        wf_fence_seq_cst();
        if (wf_quiescence_is_due(&runtime) && wf_exchange_relaxed(&is_asleep, 0) != 0) {
            continue;
        }
        (void)wf_parker_park(&worker.parker, WF_FOREVER);
    }
}

static void end_and_park(void)
{
    end_a_task();
    park_for_ever();
}

/* ---- the closer ---------------------------------------------------------------------------- */

/* Steps 1 to 3 of runtime.c. */
static void close_it(void)
{
    wf_lock_acquire(&runtime.shutdown.gate);
    wf_store_relaxed(&runtime.shutdown.is_closing, 1);
    wf_lock_release(&runtime.shutdown.gate);
    wf_fence_seq_cst(); /* (obs.C1) */
    while (wf_runtime_live(&runtime) != 0) {
        (void)wf_parker_park(&runtime.shutdown.closer, WF_FOREVER);
    }
    wf_plain_store(&structure, 0); /* the closer has reached this point */
}

/* ---- tests --------------------------------------------------------------------------------- */

static void start(void)
{
    static const struct wf_policy policy = {.wake_any = wake_any};
    runtime =
        (weft_runtime){.policy = &policy, .worker_count = 1, .workers = &worker, .pool = &pool};
    pool = (struct wf_task_pool){.runtime = &runtime};
    worker = (struct wf_worker){.runtime = &runtime, .pool = &pool};
    wf_lock_init(&runtime.shutdown.gate, WF_RANK_GATE);
    wf_lock_init(&pool.lock, WF_RANK_TASK_POOL);
    wf_parker_init(&runtime.shutdown.closer);
    wf_parker_init(&worker.parker);
    wf_store_relaxed(&worker.counters.spawned, 1);
    wf_store_relaxed(&is_asleep, 0);
    has_closer = false;
    structure = 1;
    reported = 0;
}

static void start_to_close(void)
{
    start();
    has_closer = true;
}

static void check_gone(void)
{
    MODEL_REQUIRE(structure == 0);
    MODEL_REQUIRE(wf_load_relaxed(&pool.external_refs) == 0);
}

static void check_reported(void)
{
    MODEL_REQUIRE(pool.failures.lost == 0);
    MODEL_REQUIRE(reported > 0);
    MODEL_REQUIRE(wf_load_relaxed(&is_asleep) == 1);
}

static const struct model_test tests[] = {
    {.name = "shut waits for a pinned thread",
     .setup = start_to_close,
     .threads = {shut, pin_and_read},
     .names = {"closer", "outside"},
     .check = check_gone},
    {.name = "shut waits for two pinned threads",
     .setup = start_to_close,
     .threads = {shut, pin_and_read, pin_and_read},
     .names = {"closer", "outside 1", "outside 2"},
     .bound = {0, 0, 4},
     .check = check_gone},
    {.name = "end of the last task wakes the closer",
     .setup = start_to_close,
     .threads = {close_it, end_and_park},
     .names = {"closer", "worker"},
     .check = check_gone,
     .may_rest = 1},
    {.name = "failure noted while the worker parks is reported",
     .setup = start,
     .threads = {park_for_ever, note},
     .names = {"worker", "outside"},
     .check = check_reported,
     .may_rest = 1},
    {.name = "second failure noted while parking is reported",
     .setup = start,
     .threads = {park_for_ever, note_twice},
     .names = {"worker", "outside"},
     .bound = {4, 1, 2},
     .check = check_reported,
     .may_rest = 1,
     .is_slow = 1},
};

static const struct model_equivalent equivalents[] = {
    {"activity: wf_load_acquire(&runtime->workers[i].run.seq) -> relaxed",
     "(sched.Y1) publishes what a tick wrote to tasks, and there are no tasks here"},
    {"wf_parker_unpark: wf_exchange_release(&parker->word) -> relaxed",
     "the fences order what the woken thread reads; model_park shows what the parker publishes"},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {
        "close", tests, MODEL_COUNT(tests), equivalents, MODEL_COUNT(equivalents), NULL};
    return model_main(argc, argv, &suite);
}
