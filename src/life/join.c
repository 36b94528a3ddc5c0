/* SPDX-License-Identifier: MIT */
/*
 * life/join.c - waiting for the end of tasks.
 *
 * There are two ways to join.
 *
 * Direct: the common case, a task with one handle, awaited by a task of the same runtime.  The
 * joiner's address goes into the state of the awaited task (wf_state_join).  The step that
 * completes the task also reads the joiner, which is then woken: no list, no lock.  The joiner must
 * be a task of the same pool: its wake-up may come after it has ended, and is harmless only because
 * that memory is always the memory of a task.
 *
 * Listed: all other joiners, which are callers of weft_join (several may wait), non-worker threads,
 * tasks of another runtime, weft_await_first, weft_select and futures.  The joiner's node is in a
 * list of the awaited task, under one of a few locks, selected by the task's address.  The thread
 * that completes the task wakes the joiners under that lock, and each joiner acquires it before it
 * leaves.  So the node may be in the joiner's frame.
 */
#include <errno.h>

#include "life/life.h"

struct wf_lock wf_join_locks[WF_JOIN_LOCKS] = {
    [0 ... WF_JOIN_LOCKS - 1] = {.rank = WF_RANK_JOIN},
};

static struct wf_lock *lock_of(const struct weft_task *task)
{
    return &wf_join_locks[((uintptr_t)task / sizeof(struct weft_task)) % WF_JOIN_LOCKS];
}

/* ---- the list ------------------------------------------------------------------------------ */

bool wf_joiner_enter(struct weft_task *task, struct wf_joiner *joiner)
{
    struct wf_lock *lock = lock_of(task);
    wf_lock_acquire(lock);
    const bool is_listed = wf_state_share(&task->state);
    wf_plain_store(&joiner->is_listed, is_listed);
    if (is_listed) {
        struct wf_joiner *first = wf_plain_load(&task->joiners);
        wf_plain_store(&joiner->prev, (struct wf_joiner *)NULL);
        wf_plain_store(&joiner->next, first);
        if (first != NULL) {
            wf_plain_store(&first->prev, joiner);
        }
        wf_plain_store(&task->joiners, joiner);
    }
    wf_lock_release(lock);
    return is_listed;
}

void wf_joiner_leave(struct weft_task *task, struct wf_joiner *joiner)
{
    struct wf_lock *lock = lock_of(task);
    wf_lock_acquire(lock);
    if (wf_plain_load(&joiner->is_listed)) {
        struct wf_joiner *next = wf_plain_load(&joiner->next);
        struct wf_joiner *prev = wf_plain_load(&joiner->prev);
        wf_plain_store(prev != NULL ? &prev->next : &task->joiners, next);
        if (next != NULL) {
            wf_plain_store(&next->prev, prev);
        }
    }
    wf_lock_release(lock);
}

void wf_joiners_wake(struct weft_task *task)
{
    struct wf_lock *lock = lock_of(task);
    wf_lock_acquire(lock);
    struct wf_joiner *joiner;
    while ((joiner = wf_plain_load(&task->joiners)) != NULL) {
        struct wf_joiner *next = wf_plain_load(&joiner->next);
        __builtin_prefetch(next); /* mostly in the frame of a joiner that has waited for long */
        wf_plain_store(&task->joiners, next);
        if (next != NULL) {
            wf_plain_store(&next->prev, (struct wf_joiner *)NULL);
        }
        wf_plain_store(&joiner->is_listed, false);
        if (joiner->winner != NULL) {
            int32_t none = -1;
            /* relaxed: the lock orders it for the joiner */
            (void)wf_cas_relaxed(joiner->winner, &none, joiner->index);
        }
        wf_waiter_wake(joiner->waiter);
    }
    wf_lock_release(lock);
}

/* ---- abandon hooks ------------------------------------------------------------------------- */

/* A wait for one task, in the joiner's frame. */
struct join_wait {
    struct wf_abandon_hook hook;
    struct weft_task *task;
    struct wf_joiner *joiner; /* in the list of the task; NULL: not */
    bool is_direct;           /* the joiner is in the state of the task */
    bool takes_handle;        /* the wait owns the handle, and releases it */
};

/* [closer]  The joiner never runs again. */
static void join_wait_abandon(struct wf_abandon_hook *hook)
{
    struct join_wait *wait = wf_container_of(hook, struct join_wait, hook);
    WF_REACHED("join.abandoned");
    if (wait->joiner != NULL) {
        wf_joiner_leave(wait->task, wait->joiner);
    } else if (wait->is_direct) {
        (void)wf_state_unjoin(&wait->task->state); /* false: the task has ended */
    }
    if (wait->takes_handle) {
        wf_task_unref(wait->task);
    }
}

static void drop_all(weft_task **tasks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        weft_task_unref(tasks[i]);
    }
}

/* Handles that a call has taken from its caller, in the frame of the call. */
struct taken_handles {
    struct wf_abandon_hook hook;
    weft_task **tasks;
    size_t count;
};

/* [closer]  The caller never runs again. */
static void taken_handles_abandon(struct wf_abandon_hook *hook)
{
    struct taken_handles *taken = wf_container_of(hook, struct taken_handles, hook);
    WF_REACHED("join.handles_abandoned");
    drop_all(taken->tasks, taken->count);
}

static void taken_handles_enter(struct weft_task *self, struct taken_handles *taken)
{
    if (self != NULL) {
        taken->hook.abandon = taken_handles_abandon;
        wf_abandon_hook_enter(self, &taken->hook);
    }
}

static void taken_handles_leave(struct weft_task *self, struct taken_handles *taken)
{
    if (self != NULL) {
        wf_abandon_hook_remove(self, &taken->hook);
    }
}

/* ---- waiting for one ----------------------------------------------------------------------- */

/* [task]  Joins directly; the caller has the only handle.  0: the task has ended; -ECANCELED,
 * -ETIMEDOUT: the caller was interrupted. */
static inline __attribute__((always_inline)) int wait_direct(struct weft_task *self,
                                                             struct join_wait *wait)
{
    struct weft_task *task = wait->task;
    if (!wf_state_join(&task->state, self)) {
        return 0;
    }
    int rc = 0;
    wait->is_direct = true;
    wf_wait_begin(self, WEFT_WAIT_TASK, task);
    do { /* ends: the task ends, or the caller is interrupted */
        wf_suspend(self);
        if (wf_state_is_complete(&task->state)) {
            break;
        }
        rc = wf_interrupted(self);
    } while (rc == 0);
    wf_wait_end(self);
    return rc != 0 && wf_state_unjoin(&task->state) ? rc : 0;
}

/* [any]  Joins by the list.  `self` is NULL for a thread.  0: the task has ended; -ECANCELED,
 * -ETIMEDOUT: the caller was interrupted. */
static int wait_listed(struct weft_task *self, struct join_wait *wait)
{
    struct weft_task *task = wait->task;
    struct wf_waiter waiter;
    wf_waiter_init(&waiter, self);
    struct wf_joiner joiner = {.waiter = &waiter};
    if (!wf_joiner_enter(task, &joiner)) {
        WF_REACHED("join.ended_before_it_was_listed");
        return 0;
    }
    int rc = 0;
    wait->joiner = &joiner;
    if (self != NULL) {
        bool is_ours = self->pool == task->pool;
        wf_wait_begin(self, is_ours ? WEFT_WAIT_TASK : WEFT_WAIT_EXTERNAL_TASK, task);
    }
    do { /* ends: the task ends, or the caller is interrupted */
        wf_waiter_wait(&waiter);
        if (wf_state_is_complete(&task->state)) {
            rc = 0;
            break;
        }
        rc = self != NULL ? wf_interrupted(self) : 0;
    } while (rc == 0);
    if (self != NULL) {
        wf_wait_end(self);
    }
    wf_joiner_leave(task, &joiner);
    wait->joiner = NULL;
    return rc;
}

int wf_join_main(weft_runtime *runtime, struct weft_task *task)
{
    struct wf_joiner joiner = {.waiter = &runtime->main_wait.waiter};
    int rc = 0;
    if (!wf_joiner_enter(task, &joiner)) {
        return 0;
    }
    bool is_complete = false;
    while (!is_complete && rc == 0) { /* woken by the end of the task, or for a deadlock */
        wf_waiter_wait(&runtime->main_wait.waiter);
        is_complete = wf_state_is_complete(&task->state);
        /* relaxed: the wake in wf_join_main_break orders it */
        bool is_stuck = wf_load_relaxed(&runtime->quiescence.is_deadlocked) != 0;
        rc = !is_complete && is_stuck ? -EDEADLK : 0;
    }
    wf_joiner_leave(task, &joiner);
    (void)wf_fetch_or_relaxed(&task->marks, WF_TASK_OBSERVED); /* relaxed: unref orders it */
    return rc;
}

void wf_join_main_break(weft_runtime *runtime)
{
    wf_store_relaxed(&runtime->quiescence.is_deadlocked, 1); /* relaxed: the wake orders it */
    wf_parker_unpark(&runtime->main_wait.waiter.parker);
}

/* The owner of the handle during the wait. */
enum handle {
    HANDLE_STAYS,  /* the user */
    HANDLE_TAKEN,  /* the wait: its hook drops the handle if the caller is abandoned */
    HANDLE_LISTED, /* a structure around the wait, whose own hook drops it */
};

/* [any]  Waits for the end of the task.  0: it has ended; -EDEADLK: it is the caller; -EPERM: the
 * process was made by fork(2); -ECANCELED, -ETIMEDOUT: the caller was interrupted. */
static inline __attribute__((always_inline)) int join_wait_end(struct weft_task *task,
                                                               enum handle handle)
{
    struct weft_task *self = wf_task_self();
    if (self == task) {
        return -EDEADLK;
    }
    if (wf_state_is_complete(&task->state)) {
        if (self != NULL && handle != HANDLE_TAKEN) {
            wf_task_spend(self); /* may yield: an abandoned task would leak a TAKEN handle */
        }
        return 0;
    }
    struct join_wait wait = {.hook = {.abandon = join_wait_abandon},
                             .task = task,
                             .takes_handle = handle == HANDLE_TAKEN};
    if (self == NULL) {
        return wf_is_forked() ? -EPERM : wait_listed(NULL, &wait);
    }
    int rc = wf_interrupted(self);
    if (rc != 0) {
        return rc;
    }
    wf_abandon_hook_enter(self, &wait.hook); /* a task that yields may be abandoned, too */
    wf_yield_to_new(self, task);
    if (!wf_state_is_complete(&task->state)) {
        const bool is_direct = handle != HANDLE_STAYS && self->pool == task->pool &&
                               wf_state_has_one_handle(&task->state);
        rc = is_direct ? wait_direct(self, &wait) : wait_listed(self, &wait);
    }
    wf_abandon_hook_remove(self, &wait.hook);
    return rc;
}

int wf_join_wait(struct weft_task *task)
{
    return join_wait_end(task, HANDLE_LISTED);
}

intptr_t wf_join_observe(struct weft_task *task)
{
    intptr_t result = wf_plain_load(&task->result);
    if (result < 0) {
        (void)wf_fetch_or_relaxed(&task->marks, WF_TASK_OBSERVED); /* relaxed: unref orders it */
    }
    return result;
}

/* [any]  Takes the result of a task that has ended, and drops the handle. */
static intptr_t take_result(struct weft_task *task)
{
    intptr_t result = wf_join_observe(task);
    struct wf_worker *worker = wf_worker_self();
    struct weft_task *self = wf_task_on(worker);
    wf_task_unref_on(worker, task);
    if (self != NULL) {
        wf_task_spend(self); /* last: it may yield, and resume on another thread */
    }
    return result;
}

/* [any]  The error with which weft_go returned NULL to the caller.  Outside of tasks it is -EPERM.
 */
static __attribute__((noinline)) int go_error(void)
{
    const struct weft_task *self = wf_task_self();
    return self != NULL ? wf_spawn_error(self) : -EPERM;
}

intptr_t weft_await(weft_task *task)
{
    if (task == NULL) {
        return go_error();
    }
    WF_RULE(wf_is_live_handle(task), "weft_await: handle already released");
    if (wf_state_is_complete(&task->state)) {
        return take_result(task);
    }
    int rc = join_wait_end(task, HANDLE_TAKEN);
    if (rc == -EDEADLK) {
        return rc;
    }
    intptr_t result = rc == 0 ? wf_join_observe(task) : rc;
    wf_task_unref(task);
    return result;
}

int weft_join(weft_task *task, intptr_t *result)
{
    WF_NOT_NULL(task, "weft_join: task is NULL");
    WF_RULE(wf_is_live_handle(task), "weft_join: handle already released");
    int rc = join_wait_end(task, HANDLE_STAYS);
    if (rc == 0) {
        intptr_t value = wf_join_observe(task);
        if (result != NULL) {
            *result = value;
        }
    }
    return rc;
}

int weft_try_join(weft_task *task, intptr_t *result)
{
    WF_NOT_NULL(task, "weft_try_join: task is NULL");
    WF_RULE(wf_is_live_handle(task), "weft_try_join: handle already released");
    if (!wf_state_is_complete(&task->state)) {
        return -EAGAIN;
    }
    intptr_t value = wf_join_observe(task);
    if (result != NULL) {
        *result = value;
    }
    return 0;
}

weft_task *weft_task_ref(weft_task *task)
{
    /* Fails at 2^24 handles of one task: only a program that leaks handles has that many. */
    WEFT_CHECK(wf_state_ref(&task->state) == 0);
    return task;
}

/* [any]  For checks: whether a handle exists.  A task that has not ended has a reference for its
 * run, which is no handle. */
static bool has_handle(const struct weft_task *task)
{
    struct wf_state_view view;
    wf_state_read(&task->state, &view);
    return view.lifecycle == WF_COMPLETE || view.references > 1;
}

void weft_task_unref(weft_task *task)
{
    if (task != NULL) {
        WF_RULE(wf_is_live_handle(task) && has_handle(task),
                "weft_task_unref: handle already released");
        wf_task_unref(task);
    }
}

/* ---- waiting for several ------------------------------------------------------------------- */

/* [any]  The checks before a wait.  -EDEADLK: the caller is one of the tasks;
 * -EPERM: the process was made by fork(2). */
static int check_several(weft_task **tasks, size_t count)
{
    struct weft_task *self = wf_task_self();
    if (self == NULL && wf_is_forked()) {
        return -EPERM;
    }
    for (size_t i = 0; i < count && self != NULL; i++) {
        if (tasks[i] == self) {
            return -EDEADLK;
        }
    }
    return 0;
}

int weft_await_all(weft_task **tasks, size_t count, intptr_t *results)
{
    WF_RULE_CHECKED(count == 0 || tasks != NULL, "weft_await_all: tasks is NULL");
    int rc = check_several(tasks, count);
    if (rc != 0) {
        return rc;
    }
    int first_error = 0;
    struct weft_task *self = wf_task_self();
    struct taken_handles taken = {.tasks = tasks, .count = count};
    taken_handles_enter(self, &taken);
    for (; taken.count > 0 && rc == 0; taken.count--, taken.tasks++) {
        weft_task *task = taken.tasks[0];
        rc = task != NULL ? join_wait_end(task, HANDLE_LISTED) : 0;
        if (rc != 0) {
            break;
        }
        const intptr_t result = task != NULL ? wf_join_observe(task) : go_error();
        weft_task_unref(task);
        if (results != NULL) {
            results[taken.tasks - tasks] = result;
        }
        if (result < 0 && first_error == 0) {
            first_error = (int)result;
        }
    }
    taken_handles_leave(self, &taken);
    drop_all(taken.tasks, taken.count);
    return rc != 0 ? rc : first_error;
}

/* A wait for the first end of several tasks, in the caller's frame. */
struct race {
    struct wf_abandon_hook hook;
    wf_atomic_i32 winner; /* [any: CAS]  -1: none yet */
    struct wf_waiter waiter;
    weft_task **tasks; /* [const] */
    size_t listed;     /* [the task]  the first `listed` tasks have its joiner in the list */
    struct wf_joiner *joiners; /* [const]  one for each task */
    struct wf_joiner few[8];
};

static void race_leave(struct race *race)
{
    for (size_t i = 0; i < race->listed; i++) {
        wf_joiner_leave(race->tasks[i], &race->joiners[i]);
    }
    if (race->joiners != race->few) {
        wf_free(race->joiners);
    }
}

/* [closer]  The caller never runs again.  Another hook drops its handles. */
static void race_abandon(struct wf_abandon_hook *hook)
{
    WF_REACHED("join.race_abandoned");
    race_leave(wf_container_of(hook, struct race, hook));
}

/* [any]  Waits for the winner.  Returns its index; -ECANCELED, -ETIMEDOUT: the caller was
 * interrupted. */
static int race_wait(struct weft_task *self, struct race *race, enum weft_wait wait)
{
    int rc = 0;
    if (self != NULL) {
        race->hook.abandon = race_abandon;
        wf_abandon_hook_enter(self, &race->hook);
        wf_wait_begin(self, wait, race);
    }
    for (;;) { /* ends: one of the tasks ends, or the caller is interrupted */
        int winner = wf_load_relaxed(&race->winner); /* relaxed: the lock orders the result */
        if (winner >= 0) {
            rc = winner;
            break;
        }
        rc = self != NULL ? wf_interrupted(self) : 0;
        if (rc != 0) {
            break;
        }
        wf_waiter_wait(&race->waiter);
    }
    if (self != NULL) {
        wf_wait_end(self);
        wf_abandon_hook_remove(self, &race->hook);
    }
    return rc;
}

/* [any]  Enters all lists, waits, leaves them.  Returns as race_wait, or -ENOMEM. */
static int race_run(struct weft_task *self, weft_task **tasks, size_t count)
{
    struct race race = {.tasks = tasks};
    enum weft_wait wait = WEFT_WAIT_TASKS;
    const bool is_few = count <= sizeof(race.few) / sizeof(race.few[0]);
    race.joiners = is_few ? race.few : wf_alloc_zeroed(count, sizeof(race.few[0]));
    if (race.joiners == NULL) {
        return -ENOMEM;
    }
    wf_waiter_init(&race.waiter, self);
    wf_atomic_init(&race.winner, -1);
    for (; race.listed < count; race.listed++) {
        const size_t i = race.listed;
        race.joiners[i] =
            (struct wf_joiner){.waiter = &race.waiter, .winner = &race.winner, .index = (int)i};
        if (self != NULL && tasks[i]->pool != self->pool) {
            wait = WEFT_WAIT_EXTERNAL_TASKS;
        }
        if (!wf_joiner_enter(tasks[i], &race.joiners[i])) {
            int32_t none = -1;
            WF_REACHED("join.race_was_over");
            /* relaxed: wf_joiner_enter has ordered the result */
            (void)wf_cas_relaxed(&race.winner, &none, (int32_t)i);
            break;
        }
    }
    const int rc = race_wait(self, &race, wait);
    race_leave(&race);
    return rc;
}

/* [any]  Cancels all tasks except the winner, waits for their ends, and drops all handles.  A
 * caller that is cancelled itself does not wait. */
static void race_end(struct weft_task *self, struct taken_handles *taken, size_t winner)
{
    for (size_t i = 0; i < taken->count; i++) {
        if (i != winner) {
            (void)weft_cancel(taken->tasks[i]);
        }
    }
    for (; taken->count > 0; taken->count--, taken->tasks++) {
        if (join_wait_end(taken->tasks[0], HANDLE_LISTED) == 0) {
            (void)wf_join_observe(taken->tasks[0]);
        }
        wf_task_unref(taken->tasks[0]);
    }
    taken_handles_leave(self, taken);
}

int weft_await_first(weft_task **tasks, size_t count, intptr_t *result)
{
    WF_RULE_CHECKED(count == 0 || tasks != NULL, "weft_await_first: tasks is NULL");
    int rc = check_several(tasks, count);
    if (rc != 0 || count == 0 || count > INT32_MAX) {
        return rc != 0 ? rc : -EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        if (tasks[i] == NULL) {
            return -EINVAL;
        }
    }
    struct weft_task *self = wf_task_self();
    struct taken_handles taken = {.tasks = tasks, .count = count};
    taken_handles_enter(self, &taken);
    rc = race_run(self, tasks, count);
    if (rc < 0) {
        taken_handles_leave(self, &taken);
        if (rc != -ENOMEM) {
            drop_all(tasks, count);
        }
        return rc;
    }
    const intptr_t value = wf_join_observe(tasks[rc]);
    race_end(self, &taken, (size_t)rc);
    if (result != NULL) {
        *result = value;
    }
    return rc;
}
