/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/life/scope.c the owner of a scope returns from weft_scope_close only after
 *         every child has left, sees what the children wrote, gets the first error, and no child
 *         touches the scope afterwards, in every order of steps under every memory model.
 * Method: thread 0 is the owner.  Each other thread is a worker that runs a child to its end, and
 *         then the child that was spawned on that worker.  A task that waits is suspended by its
 *         real state word, and its thread waits at a parker: a lost wake-up is a deadlock.  The
 *         scope stands for the frame of the owner and the children for the memory of tasks.  Both
 *         come from the checker's heap and are freed when they end: a late access is a use after
 *         free or a race.
 */
#include <errno.h>

#include "life/life.h"
#include "model/model.h"

enum { OWNER = 0, CHILDREN_MAX = 3, NO_CHILD = -1 };

static weft_runtime runtime;
static struct wf_task_pool pool;
static struct wf_worker workers[MODEL_THREADS_MAX];
static struct wf_parker parkers[MODEL_THREADS_MAX];
static struct weft_task owner;
static weft_scope *scope;
static bool is_forced; /* the runtime is closed by force: no task is resumed */

/* By child, in the order of the spawns. */
static struct weft_task *children[CHILDREN_MAX];
static int made;                      /* [setup, the one spawner] */
static unsigned runner[CHILDREN_MAX]; /* the thread that runs it */
static int data[CHILDREN_MAX];        /* plain: what the child wrote */
static intptr_t results[CHILDREN_MAX];
static bool is_observed[CHILDREN_MAX];

static int message_of; /* plain: the child whose message the scope has */
static int messages;   /* plain: messages that the scope was given */

/* ---- the rest of the scheduler --------------------------------------------------------------- */

static bool is_alone(void)
{
    return model_thread() >= MODEL_THREADS_MAX;
}

struct wf_worker *wf_worker_self(void)
{
    return &workers[is_alone() ? OWNER : model_thread()];
}

struct weft_task *wf_task_self(void)
{
    return is_alone() || model_thread() == OWNER ? &owner : NULL;
}

static struct wf_parker *parker_of(const struct weft_task *task)
{
    return &parkers[task == &owner ? OWNER : runner[task->home]];
}

void wf_task_suspend(struct weft_task *self)
{
    if (!wf_state_park(&self->state)) {
        return;
    }
    if (is_forced) {
        wf_parker_unpark(&parkers[1]); /* the worker has left: the runtime's closer goes on */
    }
    (void)wf_parker_park(parker_of(self), WF_FOREVER);
}

/* Without a worker no thread could run the task. */
static void queue_task(struct weft_task *task)
{
    if (!is_forced) {
        wf_parker_unpark(parker_of(task));
    }
}

void wf_task_wake(struct weft_task *task)
{
    if (wf_state_wake(&task->state) == WF_WAKE_QUEUE) {
        queue_task(task);
    }
}

void wf_task_cancel(struct weft_task *task)
{
    if (wf_state_cancel(&task->state) == WF_WAKE_QUEUE) {
        queue_task(task);
    }
}

int wf_task_interrupted(struct weft_task *self)
{
    return wf_state_is_cancelled(&self->state) ? -ECANCELED : 0;
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

void weft_cleanup_push(weft_cleanup *cleanup, void (*fn)(void *arg), void *arg)
{
    *cleanup = (weft_cleanup){.fn = fn, .arg = arg, .next = owner.cleanups};
    owner.cleanups = cleanup;
}

void weft_cleanup_pop(weft_cleanup *cleanup, bool run)
{
    MODEL_REQUIRE(owner.cleanups == cleanup && run == 0);
    owner.cleanups = cleanup->next;
}

size_t wf_message_copy(const struct weft_task *task, char *text, size_t text_size)
{
    (void)text;
    (void)text_size;
    wf_plain_store(&message_of, task->home);
    wf_plain_store(&messages, wf_plain_load(&messages) + 1);
    return 0;
}

int wf_task_spawn(weft_runtime *of, const struct wf_spawn *spawn, struct weft_task **out)
{
    (void)of;
    struct weft_task *task = wf_alloc_zeroed(1, sizeof(*task));
    task->pool = &pool;
    task->scope = spawn->scope;
    task->home = (uint16_t)made;
    wf_state_init(&task->state, 1);
    runner[made] = is_alone() ? (unsigned)made + 1 : model_thread();
    made++;
    *out = task;
    return 0;
}

void wf_task_place(struct weft_task *task)
{
    children[task->home] = task;
}

/* The end of a task, as in end.c: its memory is free after it has left its scope. */
static void end_child(struct weft_task *child, intptr_t result)
{
    const int number = child->home;
    results[number] = result;
    wf_scope_leave(child, result);
    is_observed[number] = (wf_load_relaxed(&child->marks) & WF_TASK_OBSERVED) != 0;
    wf_free(child);
}

void wf_task_abandon(struct weft_task *task, intptr_t result)
{
    end_child(task, result);
}

/* ---- children ------------------------------------------------------------------------------ */

static struct weft_task *self_child(void)
{
    return children[model_thread() - 1];
}

static void write_data(const struct weft_task *child)
{
    wf_plain_store(&data[child->home], 1);
}

static void run_to_end(void)
{
    struct weft_task *child = self_child();
    write_data(child);
    end_child(child, 0);
}

/* Each child has an error of its own. */
static void run_and_fail(void)
{
    struct weft_task *child = self_child();
    write_data(child);
    end_child(child, -EIO - child->home);
}

static void wait_for_cancel(struct weft_task *child)
{
    while (wf_task_interrupted(child) == 0) {
        wf_task_suspend(child);
    }
    write_data(child);
    end_child(child, -ECANCELED);
}

static void run_until_cancelled(void)
{
    wait_for_cancel(self_child());
}

/* The function of a child; the model runs children itself. */
static intptr_t never_called(void *arg)
{
    (void)arg;
    MODEL_REQUIRE(false);
    return 0;
}

/* The first child ends after the spawn; gives the second, NULL: refused. */
static struct weft_task *run_and_spawn(void)
{
    struct weft_task *child = self_child();
    const int next = made;
    write_data(child);
    const int rc = weft_scope_go(scope, never_called, NULL);
    end_child(child, 0);
    MODEL_REQUIRE(rc == (children[next] != NULL ? 0 : -ECANCELED));
    MODEL_REQUIRE(results[next] == rc);
    return children[next];
}

static void run_two(void)
{
    struct weft_task *child = run_and_spawn();
    MODEL_REQUIRE(child != NULL);
    write_data(child);
    end_child(child, 0);
}

/* The second child is refused, or cancelled by the failure of another. */
static void run_two_until_cancelled(void)
{
    struct weft_task *child = run_and_spawn();
    if (child != NULL) {
        wait_for_cancel(child);
    }
}

/* ---- the owner ----------------------------------------------------------------------------- */

/* Every child that was placed has left; the frame with the scope is gone. */
static void leave_frame(void)
{
    MODEL_REQUIRE(owner.open_scopes == NULL);
    for (int i = 0; i < made; i++) {
        MODEL_REQUIRE(children[i] == NULL || wf_plain_load(&data[i]) == 1);
    }
    wf_free(scope);
}

static void close_without_error(void)
{
    MODEL_REQUIRE(weft_scope_close(scope) == 0);
    MODEL_REQUIRE(wf_plain_load(&messages) == 0);
    leave_frame();
}

/* The error and the message are those of one child, which is the first. */
static void close_with_first_error(void)
{
    const int rc = weft_scope_close(scope);
    MODEL_REQUIRE(wf_plain_load(&messages) == 1);
    MODEL_REQUIRE(rc == -EIO - wf_plain_load(&message_of));
    leave_frame();
}

/* The child does not end before it is cancelled. */
static void close_when_cancelled(void)
{
    MODEL_REQUIRE(weft_scope_close(scope) == -ECANCELED);
    MODEL_REQUIRE(wf_plain_load(&messages) == 0);
    leave_frame();
}

/* As weft_fail does. */
static void fail_with_scope_open(void)
{
    const weft_cleanup *cleanup = owner.cleanups;
    (void)wf_state_shield(&owner.state);
    owner.cleanups = cleanup->next;
    cleanup->fn(cleanup->arg);
    leave_frame();
}

static void cancel_owner(void)
{
    wf_task_cancel(&owner);
}

static void wake_owner_spuriously(void)
{
    wf_task_wake(&owner);
}

static void close_by_force(void)
{
    (void)weft_scope_close(scope);
    model_fail("the owner is resumed");
}

/* As end_leftovers in runtime.c: no worker is left, and the stacks go last. */
static void abandon_all(void)
{
    void *joiner;
    (void)wf_parker_park(&parkers[1], WF_FOREVER);
    const bool is_owner_first = model_choose(2) == 0;
    for (unsigned i = 0; i < 2; i++) {
        if (is_owner_first == (i == 0)) {
            (void)wf_state_wake(&owner.state);
            (void)wf_state_complete(&owner.state, &joiner);
        } else {
            (void)wf_state_wake(&children[0]->state);
            wf_task_abandon(children[0], -ECANCELED);
        }
    }
    wf_free(scope);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void start(int count)
{
    runtime = (weft_runtime){0};
    pool = (struct wf_task_pool){.runtime = &runtime};
    owner = (struct weft_task){.pool = &pool};
    wf_store_relaxed(&owner.deadline, WEFT_NEVER);
    wf_state_init(&owner.state, 1);
    is_forced = false;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        workers[i] = (struct wf_worker){.runtime = &runtime, .pool = &pool, .index = i};
        wf_parker_init(&parkers[i]);
    }
    for (int i = 0; i < CHILDREN_MAX; i++) {
        children[i] = NULL;
        data[i] = 0;
        results[i] = 0;
        is_observed[i] = false;
    }
    made = 0;
    message_of = NO_CHILD;
    messages = 0;
    scope = wf_alloc(sizeof(*scope));
    MODEL_REQUIRE(weft_scope_open(scope, NULL) == 0);
    for (int i = 0; i < count; i++) {
        MODEL_REQUIRE(weft_scope_go(scope, never_called, NULL) == 0);
    }
}

static void start_with_one(void)
{
    start(1);
}

static void start_with_two(void)
{
    start(2);
}

static void start_forced(void)
{
    start(1);
    is_forced = true;
}

/* The scope reports its failures: each counts as observed, and no success does. */
static void check_observed(void)
{
    for (int i = 0; i < made; i++) {
        MODEL_REQUIRE(is_observed[i] == (results[i] < 0));
    }
}

/* Bounds of two or three preemptions where a search without one takes a minute. */
static const struct model_test tests[] = {
    {.name = "close waits for a child",
     .setup = start_with_one,
     .threads = {close_without_error, run_to_end},
     .names = {"owner", "child"},
     .check = check_observed},
    {.name = "close waits for two children",
     .setup = start_with_two,
     .threads = {close_without_error, run_to_end, run_to_end},
     .names = {"owner", "child 1", "child 2"},
     .bound = {0, 4, 4},
     .is_slow = 1,
     .check = check_observed},
    {.name = "a failed child cancels its sibling",
     .setup = start_with_two,
     .threads = {close_with_first_error, run_and_fail, run_until_cancelled},
     .names = {"owner", "child 1", "child 2"},
     .bound = {4, 4, 3},
     .is_slow = 1,
     .check = check_observed},
    {.name = "the first of two errors wins",
     .setup = start_with_two,
     .threads = {close_with_first_error, run_and_fail, run_and_fail},
     .names = {"owner", "child 1", "child 2"},
     .bound = {4, 4, 3},
     .is_slow = 1,
     .check = check_observed},
    {.name = "close waits for a child of a child",
     .setup = start_with_one,
     .threads = {close_without_error, run_two},
     .names = {"owner", "child"},
     .check = check_observed},
    {.name = "a spawn beside a failed child",
     .setup = start_with_two,
     .threads = {close_with_first_error, run_two_until_cancelled, run_and_fail},
     .names = {"owner", "child 1", "child 2"},
     .bound = {4, 3, 3},
     .is_slow = 1,
     .check = check_observed},
    {.name = "a cancelled owner cancels the children",
     .setup = start_with_one,
     .threads = {close_when_cancelled, run_until_cancelled, cancel_owner},
     .names = {"owner", "child", "canceller"},
     .bound = {0, 0, 3},
     .is_slow = 1},
    {.name = "a failed owner cancels the children",
     .setup = start_with_two,
     .threads = {fail_with_scope_open, run_until_cancelled, run_to_end},
     .names = {"owner", "child 1", "child 2"},
     .bound = {4, 4, 2},
     .is_slow = 1},
    {.name = "a spurious wake-up ends no close",
     .setup = start_with_one,
     .threads = {close_without_error, run_to_end, wake_owner_spuriously},
     .names = {"owner", "child", "waker"},
     .check = check_observed},
    {.name = "a forced close abandons the owner",
     .setup = start_forced,
     .threads = {close_by_force, abandon_all},
     .names = {"owner", "closer"},
     .may_rest = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"scope", tests, MODEL_COUNT(tests),
                                             NULL,    0,     "src/life/scope.c src/os/lock.c"};
    return model_main(argc, argv, &suite);
}
