/* SPDX-License-Identifier: MIT */
/*
 * obs/info.c - snapshots of tasks, and the names of states and waits.
 *
 * While a task may run on another worker, a snapshot reads only the atomic fields of the task.  So
 * it stops no thread, and its values may be from slightly different moments.
 *
 * weft_runtime_find_task visits all tasks of the runtime.  Rejected: a table of ids, which every
 * spawn and every end would pay for; a search by id is rare and need not be fast.
 */
#include <errno.h>
#include <string.h>

#include "obs/obs.h"

static bool is_running(const weft_runtime *runtime, const struct weft_task *task)
{
    for (unsigned i = 0; runtime != NULL && i < wf_worker_total(runtime); i++) {
        if (wf_load_relaxed(&runtime->workers[i].current) == task) { /* relaxed: a hint */
            return true;
        }
    }
    return false;
}

static enum weft_task_state info_state(const weft_runtime *runtime, const struct weft_task *task,
                                       bool is_held, const struct wf_state_view *view)
{
    switch (view->lifecycle) {
    case WF_COMPLETE:
        if (!is_held || task->result >= 0) {
            return WEFT_TASK_COMPLETED;
        }
        /* relaxed: the task is COMPLETE, and (task.T3) ordered it */
        return (wf_load_relaxed(&task->marks) & WF_TASK_CANCELLED) != 0 ? WEFT_TASK_CANCELLED
                                                                        : WEFT_TASK_FAILED;
    case WF_IDLE:
        return WEFT_TASK_BLOCKED;
    case WF_ACTIVE:
    default:
        if (is_running(runtime, task)) {
            return WEFT_TASK_RUNNING;
        }
        return wf_load_relaxed(&task->runs) == 0 ? WEFT_TASK_CREATED : WEFT_TASK_READY;
    }
}

void wf_task_describe(const weft_runtime *runtime, const struct weft_task *task, bool is_held,
                      weft_task_info *out)
{
    struct wf_state_view view;
    wf_state_read(&task->state, &view);
    const bool is_complete = view.lifecycle == WF_COMPLETE;
    /* All relaxed: a snapshot for diagnosis. */
    const uint32_t marks = wf_load_relaxed(&task->marks);
    *out = (weft_task_info){
        .id = wf_load_relaxed(&task->id),
        .parent_id = wf_load_relaxed(&task->origin.parent_id),
        .state = info_state(runtime, task, is_held, &view),
        .wait_since = wf_load_relaxed(&task->wait_record.since_ns),
        .created = wf_load_relaxed(&task->origin.created_ns),
        .deadline = wf_load_relaxed(&task->deadline),
        .fn = wf_load_relaxed(&task->fn),
        .site = (const void *)wf_load_relaxed(&task->origin.site),
        .result = is_complete && is_held ? task->result : 0,
        .priority = (enum weft_priority)wf_load_relaxed(&task->priority),
        .shields = view.shields,
        .runs = wf_load_relaxed(&task->runs),
        .is_cancelled = view.is_cancelled,
        .is_pinned = wf_load_relaxed(&task->pins) > 0,
        .is_detached = (marks & WF_TASK_DETACHED) != 0,
    };
    out->has_run = out->runs > 0;
    if (out->state == WEFT_TASK_BLOCKED) {
        out->wait = (enum weft_wait)wf_load_relaxed(&task->wait);
        out->wait_object = (const void *)wf_load_relaxed(&task->wait_record.object);
        out->wait_task_id = wf_load_relaxed(&task->wait_record.task_id);
    }
    if (out->has_run && !is_complete) {
        size_t size = (size_t)wf_load_relaxed(&task->stack_size) << 10;
        out->stack_size = size == 0 && runtime != NULL ? runtime->options.stack_size : size;
    }
    wf_task_name(task, out->name);
}

int weft_task_get_info(const weft_task *task, weft_task_info *out)
{
    WF_NOT_NULL(task, "weft_task_get_info: task is NULL");
    WF_NOT_NULL(out, "weft_task_get_info: out is NULL");
    struct wf_task_pool *pool = task->pool;
    const struct wf_worker *worker = wf_worker_self();
    const bool is_ours = worker != NULL && worker->pool == pool;
    const bool is_in_section =
        is_ours || wf_pool_pin(pool); /* or the runtime could be freed meanwhile */
    wf_task_describe(is_in_section ? pool->runtime : NULL, task, true, out);
    if (is_in_section && !is_ours) {
        wf_pool_unpin(pool);
    }
    return 0;
}

uint64_t weft_task_id(const weft_task *task)
{
    return task != NULL ? wf_load_relaxed(&task->id) : 0; /* relaxed: constant for the caller */
}

/* A search for a task by its id.  `task` is the memory that had this id when it was visited; NULL:
 * not found. */
struct id_search {
    uint64_t id;
    struct weft_task *task;
};

static void compare_id(struct weft_task *task, void *context)
{
    struct id_search *id_search = context;
    if (wf_load_relaxed(&task->id) == id_search->id) { /* relaxed: wf_task_try_ref decides */
        id_search->task = task;
    }
}

weft_task *weft_runtime_find_task(weft_runtime *runtime, uint64_t id)
{
    struct id_search id_search = {.id = id};
    WF_NOT_NULL(runtime, "weft_runtime_find_task: runtime is NULL");
    if (id == 0) {
        return NULL;
    }
    wf_task_pool_visit(runtime->pool, compare_id, &id_search);
    /* Not under the pool's lock: releasing a reference may take it. */
    return id_search.task != NULL && wf_task_try_ref(id_search.task, id) ? id_search.task : NULL;
}

/* ---- names --------------------------------------------------------------------------------- */

const char *weft_state_style_name(enum weft_state_style style, enum weft_task_state state)
{
    /* By style and state. */
    static const char *const names[][WEFT_TASK_CANCELLED + 1] = {
        [WEFT_STATE_STYLE_WEFT] = {"created", "ready", "running", "blocked", "completed", "failed",
                                   "cancelled"},
        [WEFT_STATE_STYLE_STEAL] = {"Ready", "Ready", "Running", "Blocked", "Complete", "Complete",
                                    "Complete"},
        [WEFT_STATE_STYLE_REACTOR] = {"Ready", "Resumed", "Running", "Suspended", "Completed",
                                      "Failed", "Failed"},
        [WEFT_STATE_STYLE_PLAN] = {"Created", "Resumed", "Running", "Suspended", "Completed",
                                   "Failed", "Failed"},
        [WEFT_STATE_STYLE_PROCESS] = {"Ready", "Ready", "Running", "Blocked", "Complete",
                                      "Complete", "Complete"},
        [WEFT_STATE_STYLE_POLL] = {"SCHEDULED", "SCHEDULED", "RUNNING", "IDLE", "COMPLETE",
                                   "COMPLETE", "COMPLETE"},
    };
    const bool is_known =
        (unsigned)style <= WEFT_STATE_STYLE_POLL && (unsigned)state <= WEFT_TASK_CANCELLED;
    return is_known ? names[style][state] : "unknown";
}

const char *weft_task_state_name(enum weft_task_state state)
{
    return weft_state_style_name(WEFT_STATE_STYLE_WEFT, state);
}

const char *weft_wait_name(enum weft_wait wait)
{
    static const char *const names[] = {
        [WEFT_WAIT_NOTHING] = "nothing",
        [WEFT_WAIT_TASK] = "task",
        [WEFT_WAIT_TASKS] = "tasks",
        [WEFT_WAIT_EXTERNAL_TASK] = "external task",
        [WEFT_WAIT_EXTERNAL_TASKS] = "external tasks",
        [WEFT_WAIT_SCOPE] = "scope",
        [WEFT_WAIT_ADMISSION] = "admission",
        [WEFT_WAIT_WORLD] = "world",
        [WEFT_WAIT_TIME] = "time",
        [WEFT_WAIT_WAKER] = "waker",
        [WEFT_WAIT_BLOCKING] = "blocking",
        [WEFT_WAIT_MUTEX] = "mutex",
        [WEFT_WAIT_RWLOCK] = "rwlock",
        [WEFT_WAIT_SEMAPHORE] = "semaphore",
        [WEFT_WAIT_CONDITION] = "condition",
        [WEFT_WAIT_BARRIER] = "barrier",
        [WEFT_WAIT_ONCE] = "once",
        [WEFT_WAIT_NOTIFY] = "notify",
        [WEFT_WAIT_GROUP] = "group",
        [WEFT_WAIT_SEND] = "send",
        [WEFT_WAIT_RECEIVE] = "receive",
        [WEFT_WAIT_SELECT] = "select",
        [WEFT_WAIT_READABLE] = "readable fd",
        [WEFT_WAIT_WRITABLE] = "writable fd",
        [WEFT_WAIT_EXTERNAL_SELECT] = "external select",
    };
    _Static_assert(sizeof(names) / sizeof(names[0]) == WEFT_WAIT_KINDS, "each has one");
    return (unsigned)wait < WEFT_WAIT_KINDS ? names[wait] : "unknown";
}
