/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/life/join.c, end.c and state.c the end of a task wakes its joiners, a joiner
 *         sees the result, and no thread touches a freed task, or the frame of a joiner that has
 *         left, in every order of steps under every memory model.
 * Method: threads of the test are tasks that wait, threads outside the runtime, and workers at the
 *         end of a task.  A task that waits is parked by its real state, and its thread by a
 *         parker.  Awaited tasks come from the checker's heap and go back to it: a late access is a
 *         use after free.  A joiner that returns from a wait writes to a plain variable that its
 *         waker has read: a late wake-up is a race.  A lost wake-up is a deadlock.
 *         Keeps S4.37; part of behaviours 10 and 11.
 */
#include <errno.h>

#include "fork/fork.h"
#include "life/life.h"
#include "model/model.h"

enum { RESULT = 7, TASKS = 2 };

static weft_runtime runtime;
static struct wf_task_pool pool;
static struct wf_worker workers[MODEL_THREADS_MAX];
static struct weft_task *tasks[TASKS]; /* the awaited tasks */

/* By thread. */
static struct weft_task selves[MODEL_THREADS_MAX]; /* the task of this thread, if it is one */
static bool is_task[MODEL_THREADS_MAX];
static struct wf_parker parkers[MODEL_THREADS_MAX];
static const struct wf_waiter *waiters[MODEL_THREADS_MAX];
static int frames[MODEL_THREADS_MAX]; /* plain: 1 while the frame of its wait exists */
static int report;                    /* plain: of a deadlock */

/* ---- stubs of the scheduler ---------------------------------------------------------------- */

struct wf_worker *wf_worker_self(void)
{
    return &workers[model_thread()];
}

struct weft_task *wf_task_self(void)
{
    return is_task[model_thread()] ? &selves[model_thread()] : NULL;
}

void wf_task_suspend(struct weft_task *self)
{
    if (wf_state_park(&self->state)) {
        (void)wf_parker_park(&parkers[self - selves], WF_FOREVER);
    }
}

static void place(struct weft_task *task)
{
    wf_parker_unpark(&parkers[task - selves]);
}

void wf_task_wake(struct weft_task *task)
{
    if (wf_state_wake(&task->state) == WF_WAKE_QUEUE) {
        place(task);
    }
}

int weft_cancel(weft_task *task)
{
    if (wf_state_cancel(&task->state) == WF_WAKE_QUEUE) {
        place(task);
    }
    return 0;
}

int wf_task_interrupted(struct weft_task *self)
{
    return wf_state_is_cancelled(&self->state) ? -ECANCELED : 0;
}

bool wf_is_forked(void)
{
    return false;
}

void wf_task_spend(struct weft_task *self)
{
    (void)self;
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
    wf_parker_init(&waiter->parker);
    waiters[model_thread()] = waiter;
    wf_plain_store(&frames[model_thread()], 1);
}

void wf_waiter_wait(struct wf_waiter *waiter)
{
    if (waiter->task != NULL) {
        wf_task_suspend(waiter->task);
    } else {
        (void)wf_parker_park(&waiter->parker, WF_FOREVER);
    }
}

void wf_waiter_wake(struct wf_waiter *waiter)
{
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        if (waiters[i] == waiter) {
            MODEL_REQUIRE(wf_plain_load(&frames[i]) == 1); /* its frame still exists */
        }
    }
    if (waiter->task != NULL) {
        wf_task_wake(waiter->task);
    } else {
        wf_parker_unpark(&waiter->parker);
    }
}

/* [a thread that waited]  Its frame is gone. */
static void leave(void)
{
    wf_plain_store(&frames[model_thread()], 0);
}

void wf_task_put(struct wf_task_pool *from, struct wf_task_cache *cache, struct weft_task *task)
{
    (void)from;
    (void)cache;
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = tasks[i] == task ? NULL : tasks[i];
    }
    wf_free(task);
}

void wf_task_wake_on(struct wf_worker *worker, struct weft_task *task)
{
    (void)worker;
    wf_task_wake(task);
}

/* The functions below are not called. */

int64_t wf_clock_now(void)
{
    model_fail("the clock");
}

struct weft_task *wf_task_get(struct wf_task_pool *from, struct wf_task_cache *cache)
{
    (void)from;
    (void)cache;
    model_fail("a spawn");
}

void wf_task_place_on(struct wf_worker *worker, struct weft_task *task)
{
    (void)worker;
    (void)task;
    model_fail("a spawn");
}

void wf_task_place(struct weft_task *task)
{
    wf_task_place_on(NULL, task);
}

bool wf_pool_pin(struct wf_task_pool *of)
{
    (void)of;
    model_fail("a stranger");
}

void wf_pool_unpin(struct wf_task_pool *of)
{
    (void)of;
    model_fail("a stranger");
}

static void forks_forget(struct weft_task *task)
{
    (void)task;
    MODEL_REQUIRE(false); /* no task forks here */
}

void wf_locals_done(struct weft_task *task)
{
    (void)task;
    model_fail("a task with local values");
}

static void poll_done(struct weft_task *task)
{
    (void)task;
    model_fail("a poll task");
}

void wf_owned_locks_release(struct weft_task *task)
{
    (void)task;
    model_fail("a task that holds something");
}

void wf_scope_leave(struct weft_task *task, intptr_t result)
{
    (void)task;
    (void)result;
    model_fail("a task in a scope");
}

void wf_failure_note(struct wf_task_pool *of, struct weft_task *task)
{
    (void)of;
    (void)task;
    model_fail("a failure that was awaited counts as unseen");
}

void wf_trace_put(struct wf_trace_ring *ring, enum wf_trace_event event, uint64_t task_id,
                  uint64_t arg)
{
    (void)ring;
    (void)event;
    (void)task_id;
    (void)arg;
    model_fail("a trace");
}

int wf_limit_admit(weft_runtime *of)
{
    (void)of;
    model_fail("a runtime with limits");
}

int wf_limit_wait(weft_runtime *of, enum wf_limit_kind kind)
{
    (void)of;
    (void)kind;
    model_fail("a runtime with limits");
}

void wf_limit_wake(weft_runtime *of, enum wf_limit_kind kind, size_t count)
{
    (void)of;
    (void)kind;
    (void)count;
    model_fail("a runtime with limits");
}

void wf_limit_release(weft_runtime *of)
{
    (void)of;
    model_fail("a runtime with limits");
}

const struct wf_upcalls wf_upcalls = {.forks_forget = forks_forget, .poll_done = poll_done};

/* ---- setup and check ----------------------------------------------------------------------- */

static void make(int number, unsigned handles)
{
    struct weft_task *task = wf_alloc_zeroed(1, sizeof(*task));
    task->pool = &pool;
    task->is_bare = true;
    wf_store_relaxed(&task->id, (uint64_t)number + 1);
    wf_state_init(&task->state, 1 + handles);
    tasks[number] = task;
}

static void start(unsigned handles)
{
    runtime = (weft_runtime){0};
    pool = (struct wf_task_pool){.runtime = &runtime};
    for (unsigned i = 0; i < WF_JOIN_LOCKS; i++) {
        wf_lock_init(&wf_join_locks[i], WF_RANK_JOIN);
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        selves[i] = (struct weft_task){.pool = &pool};
        wf_store_relaxed(&selves[i].deadline, WEFT_NEVER);
        wf_state_init(&selves[i].state, 1);
        is_task[i] = false;
        wf_parker_init(&parkers[i]);
        workers[i] = (struct wf_worker){.runtime = &runtime, .pool = &pool, .index = i};
        waiters[i] = NULL;
        frames[i] = 0;
    }
    report = 0;
    make(0, handles);
}

static void start_one_handle(void)
{
    start(1);
}

static void start_two_handles(void)
{
    start(2);
}

static void start_two_tasks(void)
{
    start(1);
    make(1, 1);
}

/* Listed joiners, on the checker's heap: a list that keeps one after it has left shows. */
enum { OLDER, NEWER, JOINERS };
static struct wf_joiner *joiners[JOINERS];
static struct wf_waiter joiner_waiters[JOINERS];

static void start_two_listed(void)
{
    start(2);
    for (int i = 0; i < JOINERS; i++) {
        joiner_waiters[i] = (struct wf_waiter){.task = NULL};
        joiners[i] = wf_alloc_zeroed(1, sizeof(*joiners[i]));
        joiners[i]->waiter = &joiner_waiters[i];
        MODEL_REQUIRE(wf_joiner_enter(tasks[0], joiners[i]));
    }
}

static void check(void)
{
    MODEL_REQUIRE(tasks[0] == NULL);
    MODEL_REQUIRE(tasks[1] == NULL);
}

/* ---- threads ------------------------------------------------------------------------------- */

/* A worker at the end of a task. */
static void finish(void)
{
    wf_task_finish(tasks[0], RESULT);
}

static void finish_second(void)
{
    wf_task_finish(tasks[1], RESULT + 1);
}

static void finish_failing(void)
{
    wf_task_finish(tasks[0], -EIO);
}

static void cancel_first(void)
{
    (void)weft_cancel(&selves[0]);
}

/* A waiter must tolerate it. */
static void wake_first_spuriously(void)
{
    wf_task_wake(&selves[0]);
}

static intptr_t await(void)
{
    is_task[model_thread()] = true;
    intptr_t result = weft_await(tasks[0]);
    leave();
    return result;
}

static void await_it(void)
{
    MODEL_REQUIRE(await() == RESULT);
}

static void await_failing(void)
{
    MODEL_REQUIRE(await() == -EIO);
}

static void await_cancelled(void)
{
    intptr_t result = await();
    MODEL_REQUIRE(result == RESULT || result == -ECANCELED);
}

static int join(bool is_of_task)
{
    struct weft_task *task = tasks[0];
    intptr_t result = 0;
    is_task[model_thread()] = is_of_task;
    int rc = weft_join(task, &result);
    leave();
    MODEL_REQUIRE(result == (rc == 0 ? RESULT : 0));
    weft_task_unref(task);
    return rc;
}

static void join_it(void)
{
    MODEL_REQUIRE(join(true) == 0);
}

static void join_from_outside(void)
{
    MODEL_REQUIRE(join(false) == 0);
}

static void join_cancelled(void)
{
    int rc = join(true);
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
}

/* [a joiner that was listed by the setup]  Leaves, as after a cancellation. */
static void leave_list(int number)
{
    struct weft_task *task = tasks[0];
    wf_joiner_leave(task, joiners[number]);
    wf_free(joiners[number]);
    wf_task_unref(task);
}

static void leave_older(void)
{
    leave_list(OLDER);
}

static void leave_newer(void)
{
    leave_list(NEWER);
}

/* [a joiner that was listed by the setup]  Must be woken by the end. */
static void wait_newer(void)
{
    struct weft_task *task = tasks[0];
    (void)wf_parker_park(&joiner_waiters[NEWER].parker, WF_FOREVER);
    MODEL_REQUIRE(wf_state_is_complete(&task->state));
    MODEL_REQUIRE(wf_plain_load(&task->result) == RESULT);
    leave_list(NEWER);
}

static void race_both(void)
{
    struct weft_task *both[TASKS] = {tasks[0], tasks[1]};
    intptr_t result = 0;
    is_task[model_thread()] = true;
    int rc = weft_await_first(both, TASKS, &result);
    leave();
    MODEL_REQUIRE(rc == 0 || rc == 1);
    MODEL_REQUIRE(result == RESULT + rc);
}

/* The thread of weft_run. */
static void wait_as_main(void)
{
    struct weft_task *task = tasks[0];
    int rc = wf_join_main(&runtime, task);
    if (rc == 0) {
        MODEL_REQUIRE(wf_plain_load(&task->result) == RESULT);
    } else {
        MODEL_REQUIRE(rc == -EDEADLK);
        MODEL_REQUIRE(wf_plain_load(&report) == 1);
        wf_task_finish(task, -ECANCELED); /* as a forced close does */
    }
    weft_task_unref(task);
}

static void find_deadlock(void)
{
    wf_plain_store(&report, 1);
    wf_join_main_break(&runtime);
}

/* The remaining tasks are deadlocked, but main has ended. */
static void wait_as_main_for_result(void)
{
    struct weft_task *task = tasks[0];
    MODEL_REQUIRE(wf_join_main(&runtime, task) == 0);
    MODEL_REQUIRE(wf_plain_load(&task->result) == RESULT);
    weft_task_unref(task);
}

static void finish_and_find_deadlock(void)
{
    finish();
    find_deadlock();
}

static const struct model_test tests[] = {
    {.name = "await races the end",
     .setup = start_one_handle,
     .threads = {await_it, finish},
     .names = {"awaiter", "worker"},
     .check = check},
    {.name = "await races a failing end",
     .setup = start_one_handle,
     .threads = {await_failing, finish_failing},
     .names = {"awaiter", "worker"},
     .check = check},
    {.name = "cancel races await and the end",
     .setup = start_one_handle,
     .threads = {await_cancelled, finish, cancel_first},
     .names = {"awaiter", "worker", "canceller"},
     .check = check},
    {.name = "spurious wake-up races await and the end",
     .setup = start_one_handle,
     .threads = {await_it, finish, wake_first_spuriously},
     .names = {"awaiter", "worker", "waker"},
     .check = check},
    {.name = "two awaits race the end",
     .setup = start_two_handles,
     .threads = {await_it, await_it, finish},
     .names = {"awaiter 1", "awaiter 2", "worker"},
     .bound = {3, 3, 1}, /* two preemptions, none under view: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "join races the end",
     .setup = start_one_handle,
     .threads = {join_it, finish},
     .names = {"joiner", "worker"},
     .check = check},
    {.name = "cancel races join and the end",
     .setup = start_one_handle,
     .threads = {join_cancelled, finish, cancel_first},
     .names = {"joiner", "worker", "canceller"},
     .bound = {0, 0, 3},
     .check = check,
     .is_slow = 1},
    {.name = "join and await race the end",
     .setup = start_two_handles,
     .threads = {join_it, await_it, finish},
     .names = {"joiner", "awaiter", "worker"},
     .bound = {3, 3, 1}, /* two preemptions, none under view: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "two joins race the end",
     .setup = start_two_handles,
     .threads = {join_it, join_it, finish},
     .names = {"joiner 1", "joiner 2", "worker"},
     .bound = {3, 3, 1}, /* two preemptions, none under view: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "older joiner leaves, newer joiner is woken by the end",
     .setup = start_two_listed,
     .threads = {leave_older, wait_newer, finish},
     .names = {"older", "newer", "worker"},
     .bound = {0, 0, 3},
     .check = check,
     .is_slow = 1},
    {.name = "both joiners leave while the task ends",
     .setup = start_two_listed,
     .threads = {leave_newer, leave_older, finish},
     .names = {"newer", "older", "worker"},
     .bound = {0, 0, 3},
     .check = check,
     .is_slow = 1},
    {.name = "join of a thread races the end",
     .setup = start_one_handle,
     .threads = {join_from_outside, finish},
     .names = {"thread", "worker"},
     .check = check},
    {.name = "race of two tasks races both ends",
     .setup = start_two_tasks,
     .threads = {race_both, finish, finish_second},
     .names = {"racer", "worker 1", "worker 2"},
     .bound = {3, 1, 1}, /* two preemptions under sc, else none: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "weft_run waits for the end of main",
     .setup = start_one_handle,
     .threads = {wait_as_main, finish},
     .names = {"main", "worker"},
     .check = check},
    {.name = "weft_run returns at a deadlock of main",
     .setup = start_one_handle,
     .threads = {wait_as_main, find_deadlock},
     .names = {"main", "worker"},
     .check = check},
    {.name = "weft_run returns the result despite a later deadlock",
     .setup = start_one_handle,
     .threads = {wait_as_main_for_result, finish_and_find_deadlock},
     .names = {"main", "worker"},
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"join", tests, MODEL_COUNT(tests),
                                             NULL,   0,     "src/life/join.c"};
    return model_main(argc, argv, &suite);
}
