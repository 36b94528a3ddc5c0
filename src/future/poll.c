/* SPDX-License-Identifier: MIT */
/*
 * future/poll.c - poll tasks: tasks without a stack, whose function is called after each wake-up.
 *
 * They are tasks like others: in the same queues, with the same state word, woken, cancelled and
 * joined in the same ways.  Only the loop of a worker calls them (worker.c), on its own stack,
 * since they are never suspended in the middle; a green thread switches to a poll task by way of
 * the loop.  A small state of a poll task lies where a green thread has its timer and cleanups.  So
 * both kinds of task have the same size and reuse each other's memory, which late wake-ups rely on.
 *
 * A waker is a reference to the task under another name.
 */
#include <errno.h>
#include <string.h>

#include "future/future.h"

_Static_assert(offsetof(struct weft_task, state_bytes) % alignof(max_align_t) == 0 &&
                   sizeof(struct weft_task) % alignof(max_align_t) == 0,
               "the state may have any alignment");

/* ---- the task ------------------------------------------------------------------------------ */

/* [spawner]  Makes the task a poll task, with a copy of the state.  -ENOMEM: nothing was done. */
static int poll_init(struct weft_task *task, const struct wf_spawn *spawn)
{
    void *state = task->state_bytes;
    if (spawn->state_size > sizeof(task->state_bytes)) {
        state = wf_alloc(spawn->state_size);
        if (state == NULL) {
            return -ENOMEM;
        }
    }
    if (spawn->state_size > 0) {
        memcpy(state, spawn->arg, spawn->state_size);
    }
    struct wf_task_extra *extra =
        wf_load_relaxed(&task->extra); /* relaxed: only the spawner knows the task */
    if (extra != NULL) {
        wf_store_relaxed(&extra->forks, NULL); /* of an earlier green thread: see fork.c */
    }
    task->arg = state;
    task->body = WF_BODY_POLL;
    task->is_bare = false;
    return 0;
}

void wf_poll_done(struct weft_task *task)
{
    wf_abandon_hooks_run(task); /* takes pending futures out of their queues */
    if (task->arg != task->state_bytes) {
        wf_free(task->arg);
    }
    task->arg = NULL;
    /* The next task in this memory may be a green thread, which needs zeros here. */
    memset(task->state_bytes, 0, sizeof(task->state_bytes));
}

bool wf_poll_call(struct wf_worker *worker, struct weft_task *task, intptr_t *result)
{
    struct weft_cx cx = {.task = task};
    task->budget = WF_TASK_BUDGET;
    /* All relaxed: dumps and reports read the record as hints. */
    wf_store_relaxed(&task->wait, WEFT_WAIT_NOTHING);
    const weft_poll_fn fn = (weft_poll_fn)(void (*)(void))wf_load_relaxed(&task->fn);
    if (fn(&cx, task->arg, result) == WEFT_POLL_READY) {
        return true;
    }
    wf_trace(worker->trace, WF_TRACE_WAIT, wf_task_id(task), WEFT_WAIT_WAKER);
    wf_store_relaxed(&task->wait_record.object, 0);
    wf_store_relaxed(&task->wait_record.task_id, 0);
    wf_store_relaxed(&task->wait_record.since_ns, worker->tick.now_ns);
    wf_store_relaxed(&task->wait, WEFT_WAIT_WAKER);
    return false;
}

bool wf_cx_spend(struct weft_cx *cx)
{
    if (cx->task->budget == 0) {
        WF_REACHED("poll.has_had_its_share");
        wf_task_wake(cx->task); /* to be polled again, behind other tasks */
        return false;
    }
    cx->task->budget--;
    return true;
}

void wf_cx_refund(struct weft_cx *cx)
{
    cx->task->budget++;
}

static int spawn_poll(weft_runtime *runtime, weft_task **out, struct wf_spawn *spawn)
{
    if (spawn->state_size > WEFT_POLL_STATE_MAX) {
        return -EINVAL;
    }
    spawn->poll_init = poll_init;
    return wf_task_spawn_out(runtime, out, spawn);
}

/* The cast drops const: the state is only read. */
static void *poll_state(const void *state)
{
    return (void *)(uintptr_t)state;
}

int weft_spawn_poll(weft_task **out, weft_poll_fn fn, const void *state, size_t size,
                    const weft_task_options *options)
{
    WF_NOT_NULL(fn, "weft_spawn_poll: fn is NULL");
    WF_RULE_CHECKED(size == 0 || state != NULL, "weft_spawn_poll: state is NULL");
    struct wf_worker *worker = wf_worker_self();
    struct wf_spawn spawn = {
        .fn = (weft_fn)(void (*)(void))fn,
        .arg = poll_state(state),
        .state_size = size,
        .options = options,
        .site = __builtin_return_address(0),
    };
    return worker != NULL ? spawn_poll(worker->runtime, out, &spawn) : -EPERM;
}

int weft_runtime_spawn_poll(weft_runtime *runtime, weft_task **out, weft_poll_fn fn,
                            const void *state, size_t size, const weft_task_options *options)
{
    WF_NOT_NULL(runtime, "weft_runtime_spawn_poll: runtime is NULL");
    WF_NOT_NULL(fn, "weft_runtime_spawn_poll: fn is NULL");
    WF_RULE_CHECKED(size == 0 || state != NULL, "weft_runtime_spawn_poll: state is NULL");
    struct wf_spawn spawn = {
        .fn = (weft_fn)(void (*)(void))fn,
        .arg = poll_state(state),
        .state_size = size,
        .options = options,
        .site = __builtin_return_address(0),
    };
    if (wf_is_forked()) {
        return -EPERM;
    }
    return spawn_poll(runtime, out, &spawn);
}

/* ---- wakers -------------------------------------------------------------------------------- */

static struct weft_task *task_of(weft_waker *waker)
{
    return (struct weft_task *)(void *)waker;
}

weft_waker *weft_cx_waker(weft_cx *cx)
{
    return (weft_waker *)(void *)cx->task;
}

weft_waker *weft_waker_ref(weft_waker *waker)
{
    (void)weft_task_ref(task_of(waker));
    return waker;
}

void weft_waker_wake(weft_waker *waker)
{
    if (waker != NULL) {
        wf_task_wake(task_of(waker));
    }
}

void weft_waker_unref(weft_waker *waker)
{
    weft_task_unref(waker != NULL ? task_of(waker) : NULL);
}
