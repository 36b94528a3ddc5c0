/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sched/room.c nobody waits for room while there is some, what one who gives up
 *         was woken for is another's, a close lets everybody go, and nobody is woken whose frame is
 *         gone, in every order of steps under every memory model.
 * Method: threads that want room for a task or in the queue and wait for it, others that make
 *         some.  Who waits beside room is a deadlock; who is woken too late has written to a plain
 *         variable that the waker reads.  Room itself is a number and carries no data.
 *         Shows part of S4.40.
 */
#include <errno.h>

#include "model/model.h"
#include "sched/sched.h"

static weft_runtime runtime;
static WF_ATOMIC(uint32_t) queued;

/* By thread. */
static struct weft_task selves[MODEL_THREADS_MAX]; /* the task it is, if it is one */
static bool is_task[MODEL_THREADS_MAX];
static struct wf_parker parkers[MODEL_THREADS_MAX];
static const struct wf_waiter *waiters[MODEL_THREADS_MAX];
static int frames[MODEL_THREADS_MAX];   /* plain: 1 while the frame of its wait is there */
static int outcomes[MODEL_THREADS_MAX]; /* what it was told; 1: nothing yet */
static wf_atomic_u32 is_cancelled;      /* of the one task that is */

/* ---- what the scheduler does otherwise ----------------------------------------------------- */

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

/* A task that was woken before it slept goes on: what a parker does too. */
void wf_waiter_wait(struct wf_waiter *waiter)
{
    (void)waiter;
    (void)wf_parker_park(&parkers[model_thread()], WF_FOREVER);
}

void wf_waiter_wake(struct wf_waiter *waiter)
{
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        if (waiters[i] == waiter) {
            MODEL_REQUIRE(wf_plain_load(&frames[i]) == 1); /* it has not left yet */
            wf_parker_unpark(&parkers[i]);
        }
    }
}

void wf_pool_leave(struct wf_task_pool *pool)
{
    (void)pool;
}

uint64_t wf_runtime_queued(weft_runtime *of)
{
    (void)of;
    return wf_load_relaxed(&queued);
}

/* ---- who wants room ------------------------------------------------------------------------ */

/* [a thread that waited]  Its frame is gone. */
static void leave(int outcome)
{
    wf_plain_store(&frames[model_thread()], 0);
    outcomes[model_thread()] = outcome;
}

static void spawn(void)
{
    leave(wf_room_enter(&runtime));
}

/* It ends at once. */
static void spawn_and_end(void)
{
    int rc = wf_room_enter(&runtime);
    leave(rc);
    if (rc == 0) {
        wf_room_leave(&runtime);
    }
}

/* As spawn_waiting in task.c; the gate is one step here. */
static void queue_one(void)
{
    int rc;
    do {
        uint32_t before = wf_load_relaxed(&queued);
        rc =
            before < runtime.options.global_capacity && wf_cas_relaxed(&queued, &before, before + 1)
                ? 0
                : -EAGAIN;
        if (wf_load_relaxed(&runtime.is_closing) != 0) {
            rc = -ESHUTDOWN;
        }
    } while (rc == -EAGAIN && (rc = wf_room_wait(&runtime, WF_ROOM_QUEUE)) == 0);
    leave(rc);
}

static void end_one(void)
{
    wf_room_leave(&runtime);
}

static void end_two(void)
{
    wf_room_leave(&runtime);
    wf_room_leave(&runtime);
}

static void take(uint32_t count)
{
    (void)wf_fetch_sub_relaxed(&queued, count);
    wf_room_wake(&runtime, WF_ROOM_QUEUE, count);
}

static void take_one(void)
{
    take(1);
}

static void take_two_at_once(void)
{
    take(2);
}

/* The first may have been woken for the room, and does not use it. */
static void end_one_and_cancel(void)
{
    wf_room_leave(&runtime);
    wf_store_release(&is_cancelled, 1);
    wf_parker_unpark(&parkers[0]);
}

/* As weft_runtime_close. */
static void close_all(void)
{
    wf_store_relaxed(&runtime.is_closing, 1);
    wf_fence_seq_cst();
    wf_room_close(&runtime);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void start(size_t tasks_max, size_t capacity)
{
    runtime = (weft_runtime){
        .options = {.tasks_max = tasks_max, .global_capacity = capacity, .spawn_waits = true}};
    wf_lock_init(&runtime.room.lock, WF_RANK_ROOM);
    for (unsigned kind = 0; kind < WF_ROOM_KINDS; kind++) {
        wf_list_init(&runtime.room.waiters[kind]);
    }
    wf_store_relaxed(&runtime.room.live, tasks_max);
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

static void check_nobody_waits(void)
{
    for (unsigned kind = 0; kind < WF_ROOM_KINDS; kind++) {
        MODEL_REQUIRE(wf_list_is_empty(&runtime.room.waiters[kind]));
        MODEL_REQUIRE(wf_load_relaxed(&runtime.room.waiting[kind]) == 0);
    }
}

static void check_spawned(void)
{
    check_nobody_waits();
    MODEL_REQUIRE(wf_load_relaxed(&runtime.room.live) == runtime.options.tasks_max);
}

static void check_queued(void)
{
    check_nobody_waits();
    MODEL_REQUIRE(wf_load_relaxed(&queued) == runtime.options.global_capacity);
}

static void check_all_ended(void)
{
    check_nobody_waits();
    MODEL_REQUIRE(outcomes[0] == 0 || outcomes[0] == -ECANCELED);
    MODEL_REQUIRE(outcomes[1] == 0);
    MODEL_REQUIRE(wf_load_relaxed(&runtime.room.live) == 0);
}

static void check_closed(void)
{
    check_nobody_waits();
    MODEL_REQUIRE(outcomes[0] == -ESHUTDOWN);
}

/* With three threads: three preemptions in sc, one in view, one or none in tso; more takes minutes.
 */
static const struct model_test tests[] = {
    {.name = "a task ends",
     .setup = start_full,
     .threads = {spawn, end_one},
     .names = {"spawner", "ender"},
     .check = check_spawned},
    {.name = "two wait, two end",
     .setup = start_full_of_two,
     .threads = {spawn, spawn, end_two},
     .names = {"spawner 1", "spawner 2", "ender"},
     .bound = {4, 2, 2},
     .check = check_spawned,
     .is_slow = 1},
    {.name = "a task is taken from the queue",
     .setup = start_full,
     .threads = {queue_one, take_one},
     .names = {"spawner", "taker"},
     .check = check_queued},
    {.name = "two are taken at once",
     .setup = start_full_of_two,
     .threads = {queue_one, queue_one, take_two_at_once},
     .names = {"spawner 1", "spawner 2", "taker"},
     .bound = {4, 2, 2},
     .check = check_queued,
     .is_slow = 1},
    {.name = "who is cancelled hands it on",
     .setup = start_with_a_task,
     .threads = {spawn_and_end, spawn_and_end, end_one_and_cancel},
     .names = {"task", "spawner", "ender"},
     .bound = {4, 1, 2},
     .check = check_all_ended,
     .is_slow = 1},
    {.name = "a close, tasks",
     .setup = start_full,
     .threads = {spawn, close_all},
     .names = {"spawner", "closer"},
     .check = check_closed},
    {.name = "a close, queue",
     .setup = start_full,
     .threads = {queue_one, close_all},
     .names = {"spawner", "closer"},
     .check = check_closed},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"room", tests, MODEL_COUNT(tests),
                                             NULL,   0,     "src/sched/room.c"};
    return model_main(argc, argv, &suite);
}
