/* SPDX-License-Identifier: MIT */
/*
 * sched/join.c - waiting for the end of tasks.
 *
 * The common case is one handle and one who awaits it.  Then the awaiter's address goes into the
 * task's state (wf_state_join) and the end of the task hands it to whoever completes it, in the
 * same step: no list, no lock.  It needs a waiter whose memory is always that of a task of the same
 * pool, because a wake may come after it has gone.
 *
 * Everybody else (weft_join, of which there may be several; threads; tasks of another runtime;
 * weft_race; weft_select; futures) stands in a list of the task, under one of a few locks chosen by
 * its address.  Wakes happen under that lock, and who waits takes it before it leaves: so its node
 * may lie in its frame.
 */
#include <errno.h>

#include "sched/fast.h"
#include "sched/fork.h"
#include "sched/sched.h"

/* Whoever waits for the first of several. */
struct race {
    wf_atomic_i32 winner; /* [any: CAS]  -1: none yet */
    weft_task **tasks;    /* [const]  whose lists it stands in */
    size_t count;         /* [const] */
};

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
        wf_plain_store(&joiner->next, wf_plain_load(&task->joiners));
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
        struct wf_joiner **link = &task->joiners;
        while (wf_plain_load(link) != joiner) { /* it is in the list, so this ends */
            link = &(*link)->next;
        }
        wf_plain_store(link, wf_plain_load(&joiner->next));
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
        __builtin_prefetch(next); /* in the frame of somebody who waits since long, mostly */
        wf_plain_store(&task->joiners, next);
        wf_plain_store(&joiner->is_listed, false);
        if (joiner->winner != NULL) {
            int32_t nobody = -1;
            /* relaxed: the lock orders it for the one who waits */
            (void)wf_cas_relaxed(joiner->winner, &nobody, joiner->index);
        }
        wf_waiter_wake(joiner->waiter);
    }
    wf_lock_release(lock);
}

/* [closer]  Takes a waiter that will never run again out of the list. */
static void list_forget(struct weft_task *task, const struct weft_task *waiter)
{
    struct wf_lock *lock = lock_of(task);
    wf_lock_acquire(lock);
    struct wf_joiner **link = &task->joiners;
    while (*link != NULL) {
        if ((*link)->waiter->task == waiter) {
            *link = (*link)->next;
        } else {
            link = &(*link)->next;
        }
    }
    wf_lock_release(lock);
}

void wf_join_forget(struct weft_task *task)
{
    const uintptr_t object = wf_load_relaxed(&task->wait_object); /* relaxed: nobody runs it */
    const uint32_t wait = wf_load_relaxed(&task->wait);
    if (wait == WEFT_WAIT_OUTER_TASK) {
        list_forget((struct weft_task *)object, task);
    } else if (wait == WEFT_WAIT_OUTER_TASKS) {
        const struct race *race = (const struct race *)object;
        for (size_t i = 0; i < race->count; i++) {
            list_forget(race->tasks[i], task);
        }
    }
}

/* ---- waiting for one ----------------------------------------------------------------------- */

/* [task]  The one who holds the only handle. */
static inline __attribute__((always_inline)) int wait_alone(struct weft_task *self,
                                                            struct weft_task *task)
{
    if (!wf_state_join(&task->state, self)) {
        return 0;
    }
    int rc = 0;
    wf_wait_begin(self, WEFT_WAIT_TASK, task);
    do { /* Ends with the task, or when we may not wait any longer. */
        wf_suspend(self);
        if (wf_state_is_complete(&task->state)) {
            break;
        }
        rc = wf_interrupted(self);
    } while (rc == 0);
    wf_wait_end(self);
    return rc != 0 && wf_state_unjoin(&task->state) ? rc : 0;
}

/* [any]  One of perhaps several. */
static int wait_listed(struct weft_task *self, struct weft_task *task)
{
    struct wf_waiter waiter;
    wf_waiter_init(&waiter, self);
    struct wf_joiner joiner = {.waiter = &waiter};
    if (!wf_joiner_enter(task, &joiner)) {
        WF_REACHED("join.ended_before_it_was_listed");
        return 0;
    }
    int rc = 0;
    if (self != NULL) {
        bool is_ours = self->pool == task->pool;
        wf_wait_begin(self, is_ours ? WEFT_WAIT_TASK : WEFT_WAIT_OUTER_TASK, task);
    }
    do { /* as above */
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
    return rc;
}

int wf_join_main(weft_runtime *runtime, struct weft_task *task)
{
    struct wf_joiner joiner = {.waiter = &runtime->main_waiter};
    int rc = 0;
    if (!wf_joiner_enter(task, &joiner)) {
        return 0;
    }
    bool is_complete = false;
    while (!is_complete && rc == 0) { /* woken by either */
        wf_waiter_wait(&runtime->main_waiter);
        is_complete = wf_state_is_complete(&task->state);
        /* relaxed: who says so wakes us, and that orders it */
        bool is_stuck = wf_load_relaxed(&runtime->is_deadlocked) != 0;
        rc = !is_complete && is_stuck ? -EDEADLK : 0;
    }
    wf_joiner_leave(task, &joiner);
    (void)wf_fetch_or_relaxed(&task->marks, WF_MARK_OBSERVED); /* relaxed: unref orders it */
    return rc;
}

void wf_join_main_break(weft_runtime *runtime)
{
    wf_store_relaxed(&runtime->is_deadlocked, 1); /* relaxed: the wake orders it */
    wf_parker_unpark(&runtime->main_waiter.parker);
}

/* [any]  0: the task has ended; else why the caller may not wait. */
static inline __attribute__((always_inline)) int wait_for_end(struct weft_task *task,
                                                              bool is_consuming)
{
    struct weft_task *self = wf_task_self();
    if (self == task) {
        return -EDEADLK;
    }
    if (wf_state_is_complete(&task->state)) {
        if (self != NULL) {
            wf_task_spend(self);
        }
        return 0;
    }
    if (self == NULL) {
        return wf_is_forked() ? -EPERM : wait_listed(NULL, task);
    }
    int rc = wf_interrupted(self);
    if (rc != 0) {
        return rc;
    }
    wf_let_begin(self, task);
    if (wf_state_is_complete(&task->state)) {
        return 0;
    }
    bool is_alone =
        is_consuming && self->pool == task->pool && wf_state_has_one_handle(&task->state);
    return is_alone ? wait_alone(self, task) : wait_listed(self, task);
}

int wf_join_wait(struct weft_task *task)
{
    return wait_for_end(task, true);
}

intptr_t wf_join_observe(struct weft_task *task)
{
    intptr_t result = wf_plain_load(&task->result);
    if (result < 0) {
        (void)wf_fetch_or_relaxed(&task->marks, WF_MARK_OBSERVED); /* relaxed: unref orders it */
    }
    return result;
}

/* [any]  Of a task that has ended; the handle is gone. */
static intptr_t take_result(struct weft_task *task)
{
    intptr_t result = wf_join_observe(task);
    struct wf_worker *worker = wf_worker_self();
    struct weft_task *self = worker != NULL ? wf_load_relaxed(&worker->current) : NULL;
    wf_task_unref_on(worker, task);
    if (self != NULL) {
        wf_task_spend(self); /* last: it may go on in another thread */
    }
    return result;
}

/* [any]  Why weft_go has given nothing. */
static __attribute__((noinline)) int why_nothing(void)
{
    return wf_task_self() != NULL ? -ENOMEM : -EPERM;
}

intptr_t weft_await(weft_task *task)
{
    if (task == NULL) {
        return why_nothing();
    }
    WF_RULE(wf_is_live_handle(task), "weft_await of a handle that was given back");
    if (wf_state_is_complete(&task->state)) {
        return take_result(task);
    }
    int rc = wait_for_end(task, true);
    if (rc == -EDEADLK) {
        return rc;
    }
    intptr_t result = rc == 0 ? wf_join_observe(task) : rc;
    wf_task_unref(task);
    return result;
}

int weft_join(weft_task *task, intptr_t *result)
{
    if (task == NULL) {
        return -EINVAL;
    }
    WF_RULE(wf_is_live_handle(task), "weft_join of a handle that was given back");
    int rc = wait_for_end(task, false);
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
    if (task == NULL) {
        return -EINVAL;
    }
    WF_RULE(wf_is_live_handle(task), "weft_try_join of a handle that was given back");
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
    /* 2^24 handles of one task: only a loop that forgot to drop them gets there. */
    WEFT_CHECK(wf_state_ref(&task->state) == 0);
    return task;
}

/* [any]  A task that has not ended has a reference of its own: the only one is nobody's handle. */
static bool has_handle(const struct weft_task *task)
{
    struct wf_state_view view;
    wf_state_read(&task->state, &view);
    return view.lifecycle == WF_COMPLETE || view.references > 1;
}

void weft_drop(weft_task *task)
{
    if (task != NULL) {
        WF_RULE(wf_is_live_handle(task) && has_handle(task),
                "weft_drop of a handle that was given back");
        wf_task_unref(task);
    }
}

/* ---- waiting for several ------------------------------------------------------------------- */

static void drop_all(weft_task **tasks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        weft_drop(tasks[i]);
    }
}

/* What can be said without waiting. */
static int check_several(weft_task **tasks, size_t count)
{
    if (tasks == NULL && count > 0) {
        return -EINVAL;
    }
    struct weft_task *self = wf_task_self();
    for (size_t i = 0; i < count && self != NULL; i++) {
        if (tasks[i] == self) {
            return -EDEADLK;
        }
    }
    return 0;
}

int weft_await_all(weft_task **tasks, size_t count, intptr_t *results)
{
    int rc = check_several(tasks, count);
    if (rc != 0) {
        return rc;
    }
    int first_error = 0;
    for (size_t i = 0; i < count; i++) {
        rc = tasks[i] != NULL ? wait_for_end(tasks[i], true) : 0;
        if (rc != 0) {
            drop_all(tasks + i, count - i);
            return rc;
        }
        intptr_t result = tasks[i] != NULL ? wf_join_observe(tasks[i]) : -ENOMEM;
        weft_drop(tasks[i]);
        if (results != NULL) {
            results[i] = result;
        }
        if (result < 0 && first_error == 0) {
            first_error = (int)result;
        }
    }
    return first_error;
}

/* [any]  Waits for the winner; its index, or why the caller may not wait. */
static int race_wait(struct weft_task *self, struct race *race, struct wf_waiter *waiter,
                     enum weft_wait wait)
{
    int rc = 0;
    if (self != NULL) {
        wf_wait_begin(self, wait, race);
    }
    for (;;) { /* Ends with one of the tasks, or when we may not wait any longer. */
        int winner = wf_load_relaxed(&race->winner); /* relaxed: the lock orders the result */
        if (winner >= 0) {
            rc = winner;
            break;
        }
        rc = self != NULL ? wf_interrupted(self) : 0;
        if (rc != 0) {
            break;
        }
        wf_waiter_wait(waiter);
    }
    if (self != NULL) {
        wf_wait_end(self);
    }
    return rc;
}

/* [any]  Enters all lists, waits, leaves them. */
static int race_run(weft_task **tasks, size_t count, struct wf_joiner *joiners)
{
    struct weft_task *self = wf_task_self();
    struct wf_waiter waiter;
    struct race race = {.tasks = tasks, .count = count};
    wf_waiter_init(&waiter, self);
    wf_atomic_init(&race.winner, -1);
    enum weft_wait wait = WEFT_WAIT_TASKS;
    size_t listed = 0;
    for (; listed < count; listed++) {
        joiners[listed] =
            (struct wf_joiner){.waiter = &waiter, .winner = &race.winner, .index = (int)listed};
        if (self != NULL && tasks[listed]->pool != self->pool) {
            wait = WEFT_WAIT_OUTER_TASKS;
        }
        if (!wf_joiner_enter(tasks[listed], &joiners[listed])) {
            int32_t nobody = -1;
            WF_REACHED("join.race_was_over");
            (void)wf_cas_relaxed(&race.winner, &nobody, (int32_t)listed); /* relaxed: as above */
            break;
        }
    }
    int rc = race_wait(self, &race, &waiter, wait);
    for (size_t i = 0; i < listed; i++) {
        wf_joiner_leave(tasks[i], &joiners[i]);
    }
    return rc;
}

int weft_race(weft_task **tasks, size_t count, intptr_t *result)
{
    int rc = check_several(tasks, count);
    if (rc != 0 || count == 0 || count > INT32_MAX) {
        return rc != 0 ? rc : -EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        if (tasks[i] == NULL) {
            return -EINVAL;
        }
    }
    struct wf_joiner few[8];
    const bool is_few = count <= sizeof(few) / sizeof(few[0]);
    struct wf_joiner *joiners = is_few ? few : wf_alloc_zeroed(count, sizeof(few[0]));
    if (joiners == NULL) {
        return -ENOMEM;
    }
    rc = race_run(tasks, count, joiners);
    if (!is_few) {
        wf_free(joiners);
    }
    if (rc < 0) {
        drop_all(tasks, count);
        return rc;
    }
    intptr_t value = wf_join_observe(tasks[rc]);
    for (size_t i = 0; i < count; i++) {
        if (i != (size_t)rc) {
            (void)weft_cancel(tasks[i]);
        }
    }
    for (size_t i = 0; i < count; i++) { /* a caller that is cancelled itself leaves them behind */
        (void)weft_await(tasks[i]);
    }
    if (result != NULL) {
        *result = value;
    }
    return rc;
}
