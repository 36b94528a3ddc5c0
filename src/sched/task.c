/* SPDX-License-Identifier: MIT */
/*
 * sched/task.c - the life of a task: spawn, end, free.
 *
 * A task has one reference for its run and one for each handle.  Spawn fills the memory, counts and
 * places it; finish is the last thing that runs on its behalf; whoever gives the last reference
 * back frees it.  What others may look at at any time (dumps) is written with atomic stores, and
 * the id last.
 */
#include <errno.h>
#include <string.h>

#include "sched/fork.h"
#include "sched/sched.h"

/* The ids of all tasks of the process, from 1; workers take blocks of them. */
static WF_ATOMIC(uint64_t) next_id = {1};

static uint64_t id_take(struct wf_worker *worker)
{
    if (worker == NULL) {
        return wf_fetch_add_relaxed(&next_id, 1); /* relaxed: only unique */
    }
    if (worker->id_next == worker->id_end) {
        worker->id_next = wf_fetch_add_relaxed(&next_id, WF_TASK_ID_BLOCK); /* relaxed: as above */
        worker->id_end = worker->id_next + WF_TASK_ID_BLOCK;
    }
    return worker->id_next++;
}

/* ---- spawn --------------------------------------------------------------------------------- */

static int options_check(const struct wf_spawn *spawn)
{
    const weft_task_options *options = spawn->options;
    if (spawn->fn == NULL) {
        return -EINVAL;
    }
    if (options == NULL) {
        return 0;
    }
    if (options->size != 0 && options->size != sizeof(*options)) {
        return -EINVAL;
    }
    if (options->stack_size != 0 &&
        (options->stack_size < WF_STACK_SIZE_MIN || options->stack_size > WF_STACK_SIZE_MAX)) {
        return -EINVAL;
    }
    if ((unsigned)options->priority > WEFT_PRIORITY_LOW) {
        return -EINVAL;
    }
    if (spawn->is_poll &&
        (options->arg_copy > 0 || options->stack_size != 0 || options->keeps_fp_control)) {
        return -EINVAL;
    }
    return options->arg_copy > 0 && spawn->arg == NULL ? -EINVAL : 0;
}

static void name_put(struct wf_task_extra *extra, const char *name)
{
    uint64_t words[WEFT_NAME_SIZE / sizeof(uint64_t)] = {0};
    if (name != NULL) {
        memcpy(words, name, strnlen(name, WEFT_NAME_SIZE - 1));
    }
    for (size_t i = 0; i < WEFT_NAME_SIZE / sizeof(uint64_t); i++) {
        wf_store_relaxed(&extra->name[i], words[i]); /* relaxed: a dump may see half a name */
    }
}

/* What only tasks with options need.  On error nothing is left behind. */
static int fill_extra(struct weft_task *task, const struct wf_spawn *spawn)
{
    const weft_task_options *options = spawn->options;
    struct wf_task_extra *extra = wf_load_relaxed(&task->extra); /* relaxed: ours */
    if (options != NULL && (options->name != NULL || options->arg_copy > 0)) {
        extra = wf_task_extra(task);
        if (extra == NULL) {
            return -ENOMEM;
        }
    }
    if (extra == NULL) {
        return 0;
    }
    name_put(extra, options != NULL ? options->name : NULL);
    if (options != NULL && options->arg_copy > 0) {
        extra->arg_copy = wf_alloc(options->arg_copy);
        if (extra->arg_copy == NULL) {
            return -ENOMEM;
        }
        memcpy(extra->arg_copy, spawn->arg, options->arg_copy);
        task->arg = extra->arg_copy;
    }
    return 0;
}

/* What a task with options, or in a scope, has besides. */
static int dress(struct weft_task *task, const struct wf_spawn *spawn)
{
    static const weft_task_options defaults;
    const weft_task_options *options = spawn->options != NULL ? spawn->options : &defaults;
    task->is_plain = false;
    task->is_special = options->is_pinned || options->priority != WEFT_PRIORITY_NORMAL;
    task->body = options->keeps_fp_control ? WF_BODY_GREEN_FP : WF_BODY_GREEN;
    task->scope = spawn->scope;
    /* All relaxed: the id publishes them to those who look. */
    wf_store_relaxed(&task->pins, options->is_pinned ? 1 : 0);
    wf_store_relaxed(&task->priority, (uint8_t)options->priority);
    wf_store_relaxed(&task->stack_size, (uint32_t)((options->stack_size + 1023) >> 10));
    return spawn->options != NULL ? fill_extra(task, spawn) : 0;
}

void wf_task_reset(struct weft_task *task)
{
    struct wf_task_extra *extra = wf_load_relaxed(&task->extra); /* relaxed: ours */
    if (extra != NULL) {
        wf_free(extra->arg_copy);
        wf_free(extra->message);
        extra->arg_copy = NULL;
        extra->message = NULL;
        name_put(extra, NULL);
        wf_store_relaxed(&extra->forks, NULL); /* relaxed: it has none any more; see attach */
    }
    task->is_plain = true;
    task->is_special = false;
    task->body = WF_BODY_GREEN;
    task->scope = NULL;
    wf_store_relaxed(&task->pins, 0); /* all relaxed: as above */
    wf_store_relaxed(&task->priority, WEFT_PRIORITY_NORMAL);
    wf_store_relaxed(&task->stack_size, 0);
    wf_store_relaxed(&task->deadline, WEFT_NEVER);
}

/* The memory is as wf_task_reset left it: most tasks need no more than this. */
static inline __attribute__((always_inline)) void
fill(struct weft_task *task, const struct wf_spawn *spawn, struct wf_worker *worker)
{
    struct weft_task *parent = worker != NULL ? wf_load_relaxed(&worker->current) : NULL;
    WEFT_ASSERT(task->fiber == NULL);
    WEFT_ASSERT(task->body == WF_BODY_POLL || task->cleanups == NULL);
    WEFT_ASSERT(task->joiners == NULL);
    task->budget = WF_TASK_BUDGET;
    task->held = NULL;
    /* All relaxed: the id below publishes them to those who look. */
    wf_store_relaxed(&task->fn, spawn->fn);
    wf_store_relaxed(&task->parent_id, parent != NULL ? wf_task_id(parent) : 0);
    wf_store_relaxed(&task->site, (uintptr_t)spawn->site);
    wf_store_relaxed(&task->marks, spawn->has_handle ? 0u : (uint32_t)WF_MARK_DETACHED);
    wf_store_relaxed(&task->runs, 0);
    wf_store_relaxed(&task->created, worker != NULL ? worker->now_ns : wf_clock_now());
    wf_state_init(&task->state, spawn->has_handle ? 2 : 1);
    wf_store_release(&task->id, id_take(worker)); /* release: whoever finds it finds all of it */
}

/* [owner of cache; NULL: any]  Gives the memory of one back that is not filled. */
static void unmake(struct wf_task_pool *pool, struct wf_task_cache *cache, struct weft_task *task)
{
    if (task->body == WF_BODY_POLL) {
        wf_poll_done(task);
    }
    wf_task_reset(task);
    wf_task_put(pool, cache, task);
}

/* [owner of cache; NULL: any]  Memory for a task, filled.  On error nothing is left behind. */
static inline __attribute__((always_inline)) int make(struct wf_task_pool *pool,
                                                      struct wf_worker *worker,
                                                      const struct wf_spawn *spawn,
                                                      struct weft_task **out)
{
    struct wf_task_cache *cache = worker != NULL ? &worker->tasks : NULL;
    struct weft_task *task = wf_task_get(pool, cache);
    if (task == NULL) {
        return -ENOMEM;
    }
    task->arg = spawn->arg;
    if (spawn->options != NULL || spawn->scope != NULL) {
        int rc = dress(task, spawn);
        if (rc != 0) {
            unmake(pool, cache, task);
            return rc;
        }
    }
    if (spawn->is_poll) {
        int rc = wf_poll_init(task, spawn);
        if (rc != 0) {
            unmake(pool, cache, task);
            return rc;
        }
    }
    fill(task, spawn, worker);
    *out = task;
    return 0;
}

int wf_task_make(struct wf_worker *worker, const struct wf_spawn *spawn, struct weft_task **out)
{
    return make(worker->pool, worker, spawn, out);
}

/* Inline, so that a spawn without options carries nothing about, and looks at none. */
static inline __attribute__((always_inline)) int
spawn_here(struct wf_worker *worker, const struct wf_spawn *spawn, struct weft_task **out)
{
    /* relaxed: who slips in is found, see runtime.c */
    if (wf_load_relaxed(&worker->runtime->is_closing) != 0) {
        return -ESHUTDOWN;
    }
    int rc = make(worker->pool, worker, spawn, out);
    if (rc == 0) {
        (*out)->home = (uint16_t)worker->index;
        wf_counter_add(&worker->counters.spawned, 1);
    }
    return rc;
}

static void take_back(struct wf_worker *worker, struct weft_task *task, bool has_handle);

/* From a thread that is no worker of the runtime: one at a time, and none once it is closing. */
static int spawn_from_outside(weft_runtime *runtime, const struct wf_spawn *spawn,
                              struct weft_task **out)
{
    struct weft_task *task = NULL;
    int rc = make(runtime->pool, NULL, spawn, &task);
    if (rc != 0) {
        return rc;
    }
    task->home = (uint16_t)(wf_task_id(task) % runtime->worker_count); /* if it is pinned */
    wf_lock_acquire(&runtime->gate);
    if (wf_load_relaxed(&runtime->is_closing) != 0) { /* relaxed: the gate orders it */
        WF_REACHED("task.gate_is_closed");
        rc = -ESHUTDOWN;
    } else if (runtime->options.global_capacity != 0 && !task->is_special &&
               wf_runtime_queued(runtime) >= runtime->options.global_capacity) {
        WF_REACHED("task.queue_is_full");
        rc = -EAGAIN;
    } else {
        wf_counter_add(&runtime->foreign.spawned, 1);
    }
    wf_lock_release(&runtime->gate);
    if (rc != 0) {
        take_back(NULL, task, spawn->has_handle);
        return rc;
    }
    *out = task;
    return 0;
}

/* [any]  Makes the task, waiting for room where the options want it. */
static int spawn_waiting(weft_runtime *runtime, const struct wf_spawn *spawn,
                         struct weft_task **out)
{
    int rc = runtime->options.tasks_max != 0 ? wf_room_enter(runtime) : 0;
    if (rc != 0) {
        return rc;
    }
    bool has_waited = false;
    for (;;) { /* Ends with the runtime, at the latest. */
        struct wf_worker *worker = wf_worker_self();
        rc = worker != NULL && worker->runtime == runtime ? spawn_here(worker, spawn, out)
                                                          : spawn_from_outside(runtime, spawn, out);
        if (rc != -EAGAIN || !runtime->options.spawn_waits) {
            break;
        }
        rc = wf_room_wait(runtime, WF_ROOM_QUEUE);
        has_waited = true;
        if (rc != 0) {
            break;
        }
    }
    if (rc != 0 && has_waited) {
        wf_room_wake(runtime, WF_ROOM_QUEUE, 1); /* what we were woken for is another's */
    }
    if (rc != 0 && runtime->options.tasks_max != 0) {
        wf_room_leave(runtime);
    }
    return rc;
}

int wf_task_spawn(weft_runtime *runtime, const struct wf_spawn *spawn, struct weft_task **out)
{
    struct wf_worker *worker = wf_worker_self();
    struct wf_task_pool *pool = runtime->pool;
    const bool is_stranger = worker == NULL || worker->runtime != runtime;
    int rc = options_check(spawn);
    if (rc != 0) {
        return rc;
    }
    if (is_stranger && !wf_pool_enter(pool)) {
        return -ESHUTDOWN;
    }
    struct weft_task *task = NULL;
    rc = spawn_waiting(runtime, spawn, &task);
    if (rc == 0) {
        *out = task;
        if (spawn->scope == NULL) {
            wf_task_place(task);
        }
    }
    if (is_stranger) {
        wf_pool_leave(pool);
    }
    return rc;
}

/* ---- the public calls ---------------------------------------------------------------------- */

weft_task *weft_go(weft_fn fn, void *arg)
{
    struct wf_worker *worker = wf_worker_self();
    const struct wf_spawn spawn = {
        .fn = fn, .arg = arg, .site = __builtin_return_address(0), .has_handle = true};
    struct weft_task *task = NULL;
    if (worker == NULL || fn == NULL) {
        return NULL;
    }
    if (worker->runtime->options.tasks_max == 0) { /* nothing to wait for, nothing to check */
        if (spawn_here(worker, &spawn, &task) != 0) {
            return NULL;
        }
        wf_task_place_on(worker, task);
        return task;
    }
    return wf_task_spawn(worker->runtime, &spawn, &task) == 0 ? task : NULL;
}

int wf_task_spawn_out(weft_runtime *runtime, weft_task **out, const struct wf_spawn *spawn)
{
    struct weft_task *task = NULL;
    int rc = wf_task_spawn(runtime, spawn, &task);
    if (rc == 0 && spawn->has_handle && out != NULL) {
        *out = task;
    }
    return rc;
}

int weft_spawn(weft_task **out, weft_fn fn, void *arg, const weft_task_options *options)
{
    struct wf_worker *worker = wf_worker_self();
    const struct wf_spawn spawn = {
        .fn = fn,
        .arg = arg,
        .options = options,
        .site = __builtin_return_address(0),
        .has_handle = out != NULL && (options == NULL || !options->is_detached),
    };
    return worker != NULL ? wf_task_spawn_out(worker->runtime, out, &spawn) : -EPERM;
}

int weft_runtime_spawn(weft_runtime *runtime, weft_task **out, weft_fn fn, void *arg,
                       const weft_task_options *options)
{
    const struct wf_spawn spawn = {
        .fn = fn,
        .arg = arg,
        .options = options,
        .site = __builtin_return_address(0),
        .has_handle = out != NULL && (options == NULL || !options->is_detached),
    };
    if (wf_is_forked()) {
        return -EPERM;
    }
    return runtime != NULL ? wf_task_spawn_out(runtime, out, &spawn) : -EINVAL;
}

/* ---- finding ------------------------------------------------------------------------------- */

bool wf_task_hold(struct weft_task *task, uint64_t id)
{
    if (!wf_state_hold(&task->state)) {
        return false;
    }
    if (wf_load_relaxed(&task->id) == id) { /* relaxed: (T5), and from now on it is constant */
        return true;
    }
    WF_REACHED("task.held_another");
    wf_task_unref(task);
    return false;
}

/* ---- the end ------------------------------------------------------------------------------- */

/* [any]  The last reference is gone. */
static inline __attribute__((always_inline)) void task_free(struct wf_worker *worker,
                                                            struct weft_task *task)
{
    struct wf_task_pool *pool = task->pool;
    uint32_t marks = wf_load_relaxed(&task->marks); /* relaxed: the last reference orders all */
    if (__builtin_expect(wf_plain_load(&task->result) < 0, 0) &&
        (marks & (WF_MARK_OBSERVED | WF_MARK_CANCELLED)) == 0) {
        wf_failure_note(pool, task);
    }
    if (!task->is_plain) {
        wf_task_reset(task);
    }
    bool is_ours = worker != NULL && worker->pool == pool;
    if (is_ours) {
        wf_trace(worker->trace, WF_TRACE_FREE, wf_task_id(task), 0);
    }
    wf_task_put(pool, is_ours ? &worker->tasks : NULL, task);
}

/* [any]  Gives a reference back; true: it was the last, and the caller frees the task. */
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

/* [any]  The result is there: tells everybody.  The task is not touched after. */
static inline __attribute__((always_inline)) void tell(struct wf_worker *worker,
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

/* [any]  The task ends; it is not touched after. */
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
            (void)wf_fetch_or_relaxed(&task->marks, WF_MARK_CANCELLED); /* relaxed: (T3) orders */
        }
        wf_counter_add(&counters->failed, is_cancelled ? 0 : 1);
        wf_counter_add(&counters->cancelled, is_cancelled ? 1 : 0);
    }
    /* (Y2) release: that it was spawned, wherever that was counted, and how it ended. */
    wf_store_release(&counters->completed, wf_counter_read(&counters->completed) + 1);
    bool is_limited = runtime->options.tasks_max != 0;
    tell(worker, task);
    if (is_limited) {
        wf_room_leave(runtime);
    }
}

/* [owner; NULL: any]  A task that is filled and will never be counted or placed.  It has an id by
 * which it can be found: whoever did has a task that was cancelled. */
static void take_back(struct wf_worker *worker, struct weft_task *task, bool has_handle)
{
    if (task->body == WF_BODY_POLL) {
        wf_poll_done(task);
    }
    task->is_plain = false; /* to be reset, whoever frees it */
    wf_plain_store(&task->result, -ECANCELED);
    /* relaxed: (T3) orders it.  Nobody is to be told of that. */
    (void)wf_fetch_or_relaxed(&task->marks, WF_MARK_CANCELLED);
    tell(worker, task);
    if (has_handle && unref(task)) { /* as task_free, but for the trace: it never was spawned */
        wf_task_reset(task);
        wf_task_put(task->pool, worker != NULL ? &worker->tasks : NULL, task);
    }
}

void wf_task_unmake(struct wf_worker *worker, struct weft_task *task)
{
    take_back(worker, task, true);
}

/* What has to go before the result is there.  Values of the task may let go of what it holds when
 * they are destroyed; what the owner of its scope has made is there until the task leaves it. */
static void undress(struct weft_task *task, intptr_t result)
{
    if (!task->is_plain && wf_load_relaxed(&task->extra) != NULL) { /* relaxed: ours */
        wf_locals_done(task);
    }
    if (task->held != NULL) {
        wf_held_release(task);
    }
    if (!task->is_plain && task->scope != NULL) {
        wf_scope_leave(task, result);
    }
    if (task->body == WF_BODY_POLL) {
        wf_poll_done(task);
    }
}

struct wf_worker *wf_task_finish(struct weft_task *task, intptr_t result)
{
    if (!task->is_plain || task->held != NULL) {
        undress(task, result);
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
        worker = NULL; /* a task of another runtime closes this one */
    }
    if (wf_has_forks(task)) {
        wf_forks_forget(task);
    }
    if (!task->is_plain || task->held != NULL) {
        undress(task, result);
    }
    /* Who closes a runtime may be a task of another, whose worker counts its own. */
    bool is_ours = worker != NULL && worker->pool == task->pool;
    complete(is_ours ? worker : NULL, task, result);
}
