/* SPDX-License-Identifier: MIT */
/*
 * life/end.c - the end of a task, and its references.
 *
 * wf_task_finish is the last function that runs on behalf of a task: it releases what the task has
 * attached, stores the result, makes the task COMPLETE and wakes the joiners.  The thread that
 * releases the last reference frees the task.
 */
#include <errno.h>

#include "life/life.h"

/* ---- references ---------------------------------------------------------------------------- */

bool wf_task_try_ref(struct weft_task *task, uint64_t id)
{
    if (!wf_state_try_ref(&task->state)) {
        return false;
    }
    /* relaxed: (task.T5); constant while the caller has the reference */
    if (wf_load_relaxed(&task->id) == id) {
        return true;
    }
    WF_REACHED("end.held_another");
    wf_task_unref(task);
    return false;
}

/* ---- the end ------------------------------------------------------------------------------- */

/* [any]  Frees a task whose last reference was released. */
static inline __attribute__((always_inline)) void task_free(struct wf_worker *worker,
                                                            struct weft_task *task)
{
    struct wf_task_pool *pool = task->pool;
    uint32_t marks = wf_load_relaxed(&task->marks); /* relaxed: the last unref orders it */
    if (__builtin_expect(wf_plain_load(&task->result) < 0, 0) &&
        (marks & (WF_TASK_OBSERVED | WF_TASK_CANCELLED)) == 0) {
        wf_failure_note(pool, task);
    }
    if (!task->is_bare) {
        wf_task_reset(task);
    }
    bool is_ours = worker != NULL && worker->pool == pool;
    if (is_ours) {
        wf_trace(worker->trace, WF_TRACE_FREE, wf_task_id(task), 0);
    }
    wf_task_put(pool, is_ours ? &worker->tasks : NULL, task);
}

/* [any]  Releases a reference.  True: it was the last, and the caller frees the task. */
static inline __attribute__((always_inline)) bool unref(struct weft_task *task)
{
    if (wf_state_is_sole(&task->state)) {
        wf_state_retire(&task->state);
        return true;
    }
    return wf_state_unref(&task->state);
}

void wf_task_unref_on(struct wf_worker *worker, struct weft_task *task)
{
    if (unref(task)) {
        task_free(worker, task);
    }
}

void wf_task_unref(struct weft_task *task)
{
    wf_task_unref_on(wf_worker_self(), task);
}

/* [any]  The result is stored: makes the task COMPLETE, wakes the joiners and releases the
 * reference of the run.  The caller must not touch the task any more. */
static inline __attribute__((always_inline)) void end_task(struct wf_worker *worker,
                                                           struct weft_task *task)
{
    void *joiner;
    unsigned ended = wf_state_complete(&task->state, &joiner);
    if (joiner != NULL) {
        wf_task_wake_on(worker, joiner);
    }
    if ((ended & WF_ENDED_SHARED) != 0) {
        wf_joiners_wake(task);
        if (wf_state_unref(&task->state)) {
            ended |= WF_ENDED_LAST;
        }
    }
    if ((ended & WF_ENDED_LAST) != 0) {
        task_free(worker, task);
    }
}

/* [any]  Ends the task: stores the result, counts, makes it COMPLETE.  The caller must not touch
 * the task any more. */
static inline __attribute__((always_inline)) void complete(struct wf_worker *worker,
                                                           struct weft_task *task, intptr_t result)
{
    weft_runtime *runtime = task->pool->runtime;
    struct wf_counters *counters = worker != NULL ? &worker->counters : &runtime->foreign;
    wf_plain_store(&task->result, result);
    task->fiber = NULL;
    if (result < 0) {
        struct wf_state_view view;
        wf_state_read(&task->state, &view);
        bool is_cancelled = view.is_cancelled && result == -ECANCELED;
        if (is_cancelled) {
            /* relaxed: (task.T3) orders it */
            (void)wf_fetch_or_relaxed(&task->marks, WF_TASK_CANCELLED);
        }
        wf_counter_add(&counters->failed, is_cancelled ? 0 : 1);
        wf_counter_add(&counters->cancelled, is_cancelled ? 1 : 0);
    }
    /* (sched.Y2) release: the count of its spawn, on whichever worker, and the counts above. */
    wf_store_release(&counters->completed, wf_counter_read(&counters->completed) + 1);
    bool is_limited = runtime->options.tasks_max != 0;
    end_task(worker, task);
    if (is_limited) {
        wf_limit_release(runtime);
    }
}

void wf_task_withdraw(struct wf_worker *worker, struct weft_task *task, bool has_handle)
{
    if (task->body == WF_BODY_POLL) {
        wf_upcalls.poll_done(task);
    }
    task->is_bare = false; /* so that the thread that frees it resets it */
    wf_plain_store(&task->result, -ECANCELED);
    /* relaxed: (task.T3) orders it.  The mark keeps it from being reported as a failure. */
    (void)wf_fetch_or_relaxed(&task->marks, WF_TASK_CANCELLED);
    end_task(worker, task);
    if (has_handle && unref(task)) { /* no event of task_free: the task was never spawned */
        wf_task_reset(task);
        wf_task_put(task->pool, worker != NULL ? &worker->tasks : NULL, task);
    }
}

void wf_task_unmake(struct wf_worker *worker, struct weft_task *task)
{
    wf_task_withdraw(worker, task, true);
}

/* [the task, closer]  Releases what must be released before the result is stored.  Locals first:
 * their destroy functions may release locks that the task owns.  The scope after that: objects of
 * the scope's owner exist until the task has left the scope. */
static void release_attachments(struct weft_task *task, intptr_t result)
{
    if (!task->is_bare && wf_load_relaxed(&task->extra) != NULL) { /* relaxed: the task's own */
        wf_locals_done(task);
    }
    if (task->owned_locks != NULL) {
        wf_owned_locks_release(task);
    }
    if (!task->is_bare && task->scope != NULL) {
        wf_scope_leave(task, result);
    }
    if (task->body == WF_BODY_POLL) {
        wf_upcalls.poll_done(task);
    }
}

struct wf_worker *wf_task_finish(struct weft_task *task, intptr_t result)
{
    if (!task->is_bare || task->owned_locks != NULL) {
        release_attachments(task, result);
    }
    struct wf_worker *worker = wf_worker_self();
    wf_trace(worker->trace, WF_TRACE_FINISH, wf_task_id(task), 0);
    complete(worker, task, result);
    return worker;
}

void wf_task_abandon(struct weft_task *task, intptr_t result)
{
    struct wf_worker *worker = wf_worker_self();
    if (worker != NULL && worker->pool != task->pool) {
        worker = NULL; /* the closer is a task of another runtime: not a worker of this one */
    }
    if (wf_has_forks(task)) {
        wf_upcalls.forks_forget(task);
    }
    if (!task->is_bare || task->owned_locks != NULL) {
        release_attachments(task, result);
    }
    complete(worker, task, result);
}
