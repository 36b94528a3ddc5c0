/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/life/limit.c no spawner waits while the limit admits it, a cancelled waiter
 *         passes its wake-up on, a close wakes all waiters, and no waiter is woken after its frame
 *         is gone, in every order of steps under every memory model.
 * Method: threads that wait for admission of a task or for space in the queue, others that release
 *         some.  A spawner that waits although it is admitted is a deadlock; a waiter that leaves
 *         writes to a plain variable that the waker reads: a late wake-up is a race.  Admission
 *         itself is a number and publishes no data.
 *         Shows part of S4.40.
 */
#include <errno.h>

#include "life/life.h"
#include "model/model.h"

static weft_runtime runtime;
static struct wf_limits limits;
static WF_ATOMIC(uint32_t) queued;

/* By thread. */
static struct weft_task selves[MODEL_THREADS_MAX]; /* the task of this thread, if it is one */
static bool is_task[MODEL_THREADS_MAX];
static struct wf_parker parkers[MODEL_THREADS_MAX];
static const struct wf_waiter *waiters[MODEL_THREADS_MAX];
static int frames[MODEL_THREADS_MAX];   /* plain: 1 while the frame of its wait exists */
static int outcomes[MODEL_THREADS_MAX]; /* its result; 1: none yet */
static wf_atomic_u32 is_cancelled;      /* the single cancelled task */

/* ---- stubs of the scheduler ---------------------------------------------------------------- */

struct weft_task *wf_task_self(void)
{
    return is_task[model_thread()] ? &selves[model_thread()] : NULL;
}

int wf_task_interrupted(struct weft_task *self)
{
    (void)self;
    return wf_load_acquire(&is_cancelled) != 0 ? -ECANCELED : 0;
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

void wf_waiter_init(struct wf_waiter *waiter, struct weft_task *self)
{
    waiter->task = self;
    waiters[model_thread()] = waiter;
    wf_plain_store(&frames[model_thread()], 1);
}

/* A task that was woken before it parked continues, as with a parker. */
void wf_waiter_wait(struct wf_waiter *waiter)
{
    (void)waiter;
    (void)wf_parker_park(&parkers[model_thread()], WF_FOREVER);
}

void wf_waiter_wake(struct wf_waiter *waiter)
{
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        if (waiters[i] == waiter) {
            MODEL_REQUIRE(wf_plain_load(&frames[i]) == 1); /* its frame still exists */
            wf_parker_unpark(&parkers[i]);
        }
    }
}

void wf_pool_unpin(struct wf_task_pool *pool)
{
    (void)pool;
}

static uint64_t queued_count(weft_runtime *of)
{
    (void)of;
    return wf_load_relaxed(&queued);
}

static const struct wf_policy policy = {.queued_count = queued_count};

/* ---- spawners ------------------------------------------------------------------------------ */

/* [a thread that waited]  Its frame is gone. */
static void leave(int outcome)
{
    wf_plain_store(&frames[model_thread()], 0);
    outcomes[model_thread()] = outcome;
}

static void spawn(void)
{
    leave(wf_limit_admit(&runtime));
}

/* The task ends at once. */
static void spawn_and_end(void)
{
    int rc = wf_limit_admit(&runtime);
    leave(rc);
    if (rc == 0) {
        wf_limit_release(&runtime);
    }
}

/* As spawn_admitted in spawn.c; the push into the queue is one step here. */
static void queue_one(void)
{
    int rc;
    do {
        uint32_t before = wf_load_relaxed(&queued);
        rc =
            before < runtime.options.global_capacity && wf_cas_relaxed(&queued, &before, before + 1)
                ? 0
                : -EAGAIN;
        if (wf_load_relaxed(&runtime.shutdown.is_closing) != 0) {
            rc = -ESHUTDOWN;
        }
    } while (rc == -EAGAIN && (rc = wf_limit_wait(&runtime, WF_LIMIT_QUEUE)) == 0);
    leave(rc);
}

static void end_one(void)
{
    wf_limit_release(&runtime);
}

static void end_two(void)
{
    wf_limit_release(&runtime);
    wf_limit_release(&runtime);
}

static void take(uint32_t count)
{
    (void)wf_fetch_sub_relaxed(&queued, count);
    wf_limit_wake(&runtime, WF_LIMIT_QUEUE, count);
}

static void take_one(void)
{
    take(1);
}

static void take_two_at_once(void)
{
    take(2);
}

/* The first may have been woken for the free place, and does not use it. */
static void end_one_and_cancel(void)
{
    wf_limit_release(&runtime);
    wf_store_release(&is_cancelled, 1);
    wf_parker_unpark(&parkers[0]);
}

/* As weft_runtime_close. */
static void close_all(void)
{
    wf_store_relaxed(&runtime.shutdown.is_closing, 1);
    wf_fence_seq_cst();
    wf_limit_close(&runtime);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void start(size_t tasks_max, size_t capacity)
{
    runtime = (weft_runtime){
        .options = {.tasks_max = tasks_max, .global_capacity = capacity, .spawn_waits = true}};
    runtime.policy = &policy;
    runtime.limits = &limits;
    limits = (struct wf_limits){0};
    wf_limits_init(&limits);
    wf_store_relaxed(&limits.live, tasks_max);
    wf_store_relaxed(&queued, (uint32_t)capacity);
    wf_store_relaxed(&is_cancelled, 0);
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        wf_parker_init(&parkers[i]);
        is_task[i] = false;
        waiters[i] = NULL;
        frames[i] = 0;
        outcomes[i] = 1;
    }
}

static void start_full(void)
{
    start(1, 1);
}

static void start_full_of_two(void)
{
    start(2, 2);
}

static void start_with_a_task(void)
{
    start(1, 1);
    is_task[0] = true;
}

static void check_no_waiters(void)
{
    for (unsigned kind = 0; kind < WF_LIMIT_KINDS; kind++) {
        MODEL_REQUIRE(wf_list_is_empty(&limits.waiters[kind]));
        MODEL_REQUIRE(wf_load_relaxed(&limits.waiting[kind]) == 0);
    }
}

static void check_spawned(void)
{
    check_no_waiters();
    MODEL_REQUIRE(wf_load_relaxed(&limits.live) == runtime.options.tasks_max);
}

static void check_queued(void)
{
    check_no_waiters();
    MODEL_REQUIRE(wf_load_relaxed(&queued) == runtime.options.global_capacity);
}

static void check_all_ended(void)
{
    check_no_waiters();
    MODEL_REQUIRE(outcomes[0] == 0 || outcomes[0] == -ECANCELED);
    MODEL_REQUIRE(outcomes[1] == 0);
    MODEL_REQUIRE(wf_load_relaxed(&limits.live) == 0);
}

static void check_closed(void)
{
    check_no_waiters();
    MODEL_REQUIRE(outcomes[0] == -ESHUTDOWN);
}

/* With three threads: three preemptions in sc, one in view, one or none in tso; more takes minutes.
 */
static const struct model_test tests[] = {
    {.name = "end of a task admits a waiting spawn",
     .setup = start_full,
     .threads = {spawn, end_one},
     .names = {"spawner", "ender"},
     .check = check_spawned},
    {.name = "two ends admit two waiting spawns",
     .setup = start_full_of_two,
     .threads = {spawn, spawn, end_two},
     .names = {"spawner 1", "spawner 2", "ender"},
     .bound = {4, 2, 2},
     .check = check_spawned,
     .is_slow = 1},
    {.name = "take from the queue admits a waiting push",
     .setup = start_full,
     .threads = {queue_one, take_one},
     .names = {"spawner", "taker"},
     .check = check_queued},
    {.name = "take of two admits two waiting pushes",
     .setup = start_full_of_two,
     .threads = {queue_one, queue_one, take_two_at_once},
     .names = {"spawner 1", "spawner 2", "taker"},
     .bound = {4, 2, 2},
     .check = check_queued,
     .is_slow = 1},
    {.name = "cancelled waiter passes its wake-up on",
     .setup = start_with_a_task,
     .threads = {spawn_and_end, spawn_and_end, end_one_and_cancel},
     .names = {"task", "spawner", "ender"},
     .bound = {4, 1, 2},
     .check = check_all_ended,
     .is_slow = 1},
    {.name = "close wakes a waiting spawn",
     .setup = start_full,
     .threads = {spawn, close_all},
     .names = {"spawner", "closer"},
     .check = check_closed},
    {.name = "close wakes a waiting push",
     .setup = start_full,
     .threads = {queue_one, close_all},
     .names = {"spawner", "closer"},
     .check = check_closed},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"limit", tests, MODEL_COUNT(tests),
                                             NULL,    0,     "src/life/limit.c"};
    return model_main(argc, argv, &suite);
}
