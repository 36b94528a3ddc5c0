/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sched/safepoint.c only whoever has stopped the world touches what belongs to the
 *         workers, sees what they did before and they what it did, and everybody goes on
 *         afterwards, in every order of steps under every memory model.
 * Method: workers touch plain data of their own, look whether they should stand still, and sleep;
 *         a stopper touches the data of all while the world stands still.  Whoever touches it at
 * the wrong time, or without order, races; who is forgotten in its sleep is a deadlock. Shows part
 * of behaviour 65.
 */
#include "model/model.h"
#include "sched/sched.h"

enum { WORKERS = 2 };

static weft_runtime runtime;
static struct wf_worker workers[WORKERS];
static struct wf_safe *safes[WORKERS];
static int touched[WORKERS]; /* plain: by worker i, or by whoever has stopped the world */
static unsigned stops;       /* in this test */

/* Of the second half: each worker runs one task. */
static struct weft_task tasks[WORKERS];
static struct wf_parker parkers[WORKERS];
static bool has_tasks;

/* ---- what the scheduler does otherwise ----------------------------------------------------- */

struct wf_worker *wf_worker_self(void)
{
    return has_tasks ? &workers[model_thread()] : NULL;
}

struct weft_task *wf_task_self(void)
{
    return has_tasks ? &tasks[model_thread()] : NULL;
}

/* As the loop does between two tasks. */
static void stand_still_if_asked(unsigned index)
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
        stand_still_if_asked(index);
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

/* ---- the beginning and the end of a test --------------------------------------------------- */

static void start_with(unsigned count)
{
    runtime = (weft_runtime){.workers = workers, .safes = safes, .worker_count = WORKERS};
    wf_lock_init(&runtime.world_lock, WF_RANK_WORLD);
    wf_list_init(&runtime.world_waiters);
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

/* The other worker is not there: as the stopper's own. */
static void start_alone(void)
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

/* Works, looks whether it should stand still, works, leaves its seat. */
static void look(void)
{
    touch(0);
    stand_still_if_asked(0);
    touch(0);
    wf_safe_enter(&runtime.world, &workers[0].safe);
}

/* Works, sleeps, whatever is asked, works, leaves its seat. */
static void nap(void)
{
    touch(0);
    wf_safe_enter(&runtime.world, &workers[0].safe);
    wf_safe_leave(&runtime.world, &workers[0].safe);
    touch(0);
    wf_safe_enter(&runtime.world, &workers[0].safe);
}

/* Slept, works, sleeps again. */
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

/* Works, and sleeps. */
static void tire(void)
{
    touch(1);
    wf_safe_enter(&runtime.world, &workers[1].safe);
}

/* A task of either worker stops the world; the other has to wait for its turn. */
static void stop_as_task(void)
{
    MODEL_REQUIRE(weft_stop_the_world(&runtime) == 0);
    touch(0);
    touch(1);
    MODEL_REQUIRE(weft_start_the_world(&runtime) == 0);
    wf_safe_enter(&runtime.world, &workers[model_thread()].safe);
}

static void check_turns(void)
{
    MODEL_REQUIRE(runtime.world_owner == NULL);
    MODEL_REQUIRE(runtime.world_depth == 0);
    MODEL_REQUIRE(touched[0] == 2);
    MODEL_REQUIRE(touched[1] == 2);
}

static const struct model_test tests[] = {
    {.name = "a worker that looks",
     .setup = start_alone,
     .threads = {look, stop_world},
     .names = {"worker", "stopper"}},
    {.name = "a worker that sleeps",
     .setup = start_alone,
     .threads = {nap, stop_world},
     .names = {"worker", "stopper"}},
    {.name = "a worker that wakes, two stops",
     .setup = start_asleep_two_stops,
     .threads = {wake_0, stop_world},
     .names = {"worker", "stopper"}},
    {.name = "one worker wakes, another sleeps",
     .setup = start_one_asleep,
     .threads = {wake_0, tire, stop_world},
     .names = {"worker 0", "worker 1", "stopper"}},
    {.name = "two workers wake",
     .setup = start_asleep,
     .threads = {wake_0, wake_1, stop_world},
     .names = {"worker 0", "worker 1", "stopper"},
     .bound = {0, 0, 3}, /* two preemptions under view: more takes minutes */
     .is_slow = 1},
    {.name = "two tasks stop the world",
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
