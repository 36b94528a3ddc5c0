/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sched/safepoint.c only the stopper touches the workers' data while the world is
 *         stopped, it sees their earlier writes and they see its writes, and all workers continue
 *         afterwards, in every order of steps under every memory model.
 * Method: workers touch their own plain data, check for a stop, and sleep; a stopper touches the
 *         data of all while the world is stopped.  An access at the wrong time, or without order,
 *         is a race; a worker that is not woken is a deadlock.  Shows part of behaviour 65.
 */
#include "model/model.h"
#include "sched/wait.h"

enum { WORKERS = 2 };

static weft_runtime runtime;
static struct wf_worker workers[WORKERS];
static struct wf_safe *safes[WORKERS];
static int touched[WORKERS]; /* plain: by worker i, or by the stopper */
static unsigned stops;       /* in this test */

/* For the second half: each worker runs one task. */
static struct weft_task tasks[WORKERS];
static struct wf_parker parkers[WORKERS];
static bool has_tasks;

/* ---- stubs of the scheduler ---------------------------------------------------------------- */

struct wf_worker *wf_worker_self(void)
{
    return has_tasks ? &workers[model_thread()] : NULL;
}

struct weft_task *wf_task_self(void)
{
    return has_tasks ? &tasks[model_thread()] : NULL;
}

/* As the loop does between two tasks. */
static void stop_if_requested(unsigned index)
{
    if (wf_load_relaxed(&runtime.world.is_stopped) != 0) {
        wf_safe_enter(&runtime.world, &workers[index].safe);
        wf_safe_leave(&runtime.world, &workers[index].safe);
    }
}

void wf_waiter_init(struct wf_waiter *waiter, struct weft_task *self)
{
    waiter->task = self;
}

/* The task is suspended; its worker has nothing else to do, and sleeps. */
void wf_waiter_wait(struct wf_waiter *waiter)
{
    const unsigned index = (unsigned)(waiter->task - tasks);
    if (wf_state_park(&waiter->task->state)) {
        wf_safe_enter(&runtime.world, &workers[index].safe);
        (void)wf_parker_park(&parkers[index], WF_FOREVER);
        wf_safe_leave(&runtime.world, &workers[index].safe);
    } else {
        stop_if_requested(index);
    }
}

void wf_waiter_wake(struct wf_waiter *waiter)
{
    if (wf_state_wake(&waiter->task->state) == WF_WAKE_QUEUE) {
        wf_parker_unpark(&parkers[waiter->task - tasks]);
    }
}

void wf_wait_begin(struct weft_task *self, enum weft_wait wait, const void *object)
{
    (void)self;
    (void)wait;
    (void)object;
}

void wf_wait_end(struct weft_task *self)
{
    (void)self;
}

bool wf_is_forked(void)
{
    return false;
}

int64_t wf_clock_now(void)
{
    return 0;
}

/* ---- setup and check ----------------------------------------------------------------------- */

static void start_with(unsigned count)
{
    runtime = (weft_runtime){.workers = workers, .safes = safes, .worker_count = WORKERS};
    wf_lock_init(&runtime.world_turn.lock, WF_RANK_WORLD);
    wf_list_init(&runtime.world_turn.waiters);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct wf_worker){.runtime = &runtime, .index = i};
        safes[i] = &workers[i].safe;
        touched[i] = 0;
        tasks[i] = (struct weft_task){0};
        wf_state_init(&tasks[i].state, 1);
        wf_parker_init(&parkers[i]);
    }
    has_tasks = false;
    stops = count;
}

/* The other worker does not exist: it is safe, like the stopper's own. */
static void start_single(void)
{
    start_with(1);
    safes[1] = NULL;
}

static void start_asleep_two_stops(void)
{
    start_with(2);
    safes[1] = NULL;
    wf_store_relaxed(&workers[0].safe.is_safe, 1);
}

static void start_one_asleep(void)
{
    start_with(1);
    wf_store_relaxed(&workers[0].safe.is_safe, 1);
}

static void start_asleep(void)
{
    start_one_asleep();
    wf_store_relaxed(&workers[1].safe.is_safe, 1);
}

static void start_tasks(void)
{
    start_with(2);
    has_tasks = true;
}

/* ---- threads ------------------------------------------------------------------------------- */

static void touch(unsigned index)
{
    wf_plain_store(&touched[index], wf_plain_load(&touched[index]) + 1);
}

static void stop_world(void)
{
    for (unsigned i = 0; i < stops; i++) {
        wf_world_stop(&runtime.world);
        wf_world_wait(&runtime.world, safes, WORKERS);
        for (unsigned k = 0; k < WORKERS; k++) {
            if (safes[k] != NULL) {
                touch(k);
            }
        }
        wf_world_start(&runtime.world, safes, WORKERS);
    }
}

/* Works, checks for a stop, works, becomes safe for good. */
static void work_and_check(void)
{
    touch(0);
    stop_if_requested(0);
    touch(0);
    wf_safe_enter(&runtime.world, &workers[0].safe);
}

/* Works, sleeps whether or not a stop is requested, works, becomes safe for good. */
static void work_and_sleep(void)
{
    touch(0);
    wf_safe_enter(&runtime.world, &workers[0].safe);
    wf_safe_leave(&runtime.world, &workers[0].safe);
    touch(0);
    wf_safe_enter(&runtime.world, &workers[0].safe);
}

/* Has slept, works, sleeps again. */
static void wake(unsigned index)
{
    wf_safe_leave(&runtime.world, &workers[index].safe);
    touch(index);
    wf_safe_enter(&runtime.world, &workers[index].safe);
}

static void wake_0(void)
{
    wake(0);
}

static void wake_1(void)
{
    wake(1);
}

/* Works, then sleeps. */
static void work_then_sleep(void)
{
    touch(1);
    wf_safe_enter(&runtime.world, &workers[1].safe);
}

/* A task of either worker stops the world; the other waits for its turn. */
static void stop_as_task(void)
{
    MODEL_REQUIRE(weft_world_stop(&runtime) == 0);
    touch(0);
    touch(1);
    MODEL_REQUIRE(weft_world_start(&runtime) == 0);
    wf_safe_enter(&runtime.world, &workers[model_thread()].safe);
}

static void check_turns(void)
{
    MODEL_REQUIRE(runtime.world_turn.owner == NULL);
    MODEL_REQUIRE(runtime.world_turn.depth == 0);
    MODEL_REQUIRE(touched[0] == 2);
    MODEL_REQUIRE(touched[1] == 2);
}

static const struct model_test tests[] = {
    {.name = "stop races a worker that checks",
     .setup = start_single,
     .threads = {work_and_check, stop_world},
     .names = {"worker", "stopper"}},
    {.name = "stop races a worker that sleeps",
     .setup = start_single,
     .threads = {work_and_sleep, stop_world},
     .names = {"worker", "stopper"}},
    {.name = "two stops race a worker that wakes",
     .setup = start_asleep_two_stops,
     .threads = {wake_0, stop_world},
     .names = {"worker", "stopper"}},
    {.name = "stop races one waking and one sleeping worker",
     .setup = start_one_asleep,
     .threads = {wake_0, work_then_sleep, stop_world},
     .names = {"worker 0", "worker 1", "stopper"}},
    {.name = "stop races two waking workers",
     .setup = start_asleep,
     .threads = {wake_0, wake_1, stop_world},
     .names = {"worker 0", "worker 1", "stopper"},
     .bound = {0, 0, 3}, /* two preemptions under view: more takes minutes */
     .is_slow = 1},
    {.name = "two tasks stop the world in turn",
     .setup = start_tasks,
     .threads = {stop_as_task, stop_as_task},
     .names = {"worker 0", "worker 1"},
     .check = check_turns,
     .is_slow = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"world", tests, MODEL_COUNT(tests),
                                             NULL,    0,     "src/sched/safepoint.c"};
    return model_main(argc, argv, &suite);
}
