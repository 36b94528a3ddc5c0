/* SPDX-License-Identifier: MIT */
/*
 * life/spawn.c - spawning tasks.
 *
 * A task has one reference for its run and one for each handle.  A spawn takes memory from the
 * pool, fills it, counts the task and queues it.  Fields that dumps may read at any time are
 * written with atomic stores, and the id last.
 */
#include <errno.h>
#include <string.h>

#include "life/life.h"

/* The ids of all tasks of the process, from 1; workers take them in blocks. */
static WF_ATOMIC(uint64_t) next_id = {1};

static uint64_t id_take(struct wf_worker *worker)
{
    if (worker == NULL) {
        return wf_fetch_add_relaxed(&next_id, 1); /* relaxed: ids need only be unique */
    }
    if (worker->ids.next == worker->ids.end) {
        /* relaxed: ids need only be unique */
        worker->ids.next = wf_fetch_add_relaxed(&next_id, WF_TASK_ID_BLOCK);
        worker->ids.end = worker->ids.next + WF_TASK_ID_BLOCK;
    }
    return worker->ids.next++;
}

/* ---- spawn --------------------------------------------------------------------------------- */

static int options_check(const struct wf_spawn *spawn)
{
    const weft_task_options *options = spawn->options;
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
    if (spawn->poll_init != NULL &&
        (options->arg_copy > 0 || options->stack_size != 0 || options->keeps_fp_control)) {
        return -EINVAL;
    }
    return options->arg_copy > 0 && spawn->arg == NULL ? -EINVAL : 0;
}

/* [spawner]  Fills the extras: the name, and the copy of the argument.  -ENOMEM: the caller resets
 * the memory. */
static int fill_extra(struct weft_task *task, const struct wf_spawn *spawn)
{
    const weft_task_options *options = spawn->options;
    struct wf_task_extra *extra = wf_load_relaxed(&task->extra); /* relaxed: not published yet */
    if (options != NULL && (options->name != NULL || options->arg_copy > 0)) {
        extra = wf_task_extra(task);
        if (extra == NULL) {
            return -ENOMEM;
        }
    }
    if (extra == NULL) {
        return 0;
    }
    wf_task_name_put(extra, options != NULL ? options->name : NULL);
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

/* [spawner]  Fills the fields that only a task with options, or in a scope, needs.  -ENOMEM: the
 * caller resets the memory. */
static int init_options(struct weft_task *task, const struct wf_spawn *spawn)
{
    static const weft_task_options defaults;
    const weft_task_options *options = spawn->options != NULL ? spawn->options : &defaults;
    task->is_bare = false;
    task->needs_slow_queue = options->is_pinned || options->priority != WEFT_PRIORITY_NORMAL;
    task->body = options->keeps_fp_control ? WF_BODY_GREEN_FP : WF_BODY_GREEN;
    task->scope = spawn->scope;
    /* All relaxed: the id publishes them to dumps. */
    wf_store_relaxed(&task->pins, options->is_pinned ? 1 : 0);
    wf_store_relaxed(&task->priority, (uint8_t)options->priority);
    wf_store_relaxed(&task->stack_size, (uint32_t)((options->stack_size + 1023) >> 10));
    return spawn->options != NULL ? fill_extra(task, spawn) : 0;
}

/* [spawner]  Fills the fields that every task needs.  All others are as wf_task_reset left them, or
 * as init_options has set them. */
static inline __attribute__((always_inline)) void
fill(struct weft_task *task, const struct wf_spawn *spawn, struct wf_worker *worker)
{
    struct weft_task *parent = wf_task_on(worker);
    WEFT_ASSERT(task->fiber == NULL);
    WEFT_ASSERT(task->body == WF_BODY_POLL || task->cleanups == NULL);
    WEFT_ASSERT(task->joiners == NULL);
    task->budget = WF_TASK_BUDGET;
    task->owned_locks = NULL;
    /* All relaxed: the id below publishes them to dumps. */
    wf_store_relaxed(&task->fn, spawn->fn);
    wf_store_relaxed(&task->origin.parent_id, parent != NULL ? wf_task_id(parent) : 0);
    wf_store_relaxed(&task->origin.site, (uintptr_t)spawn->site);
    wf_store_relaxed(&task->marks, spawn->has_handle ? 0u : (uint32_t)WF_TASK_DETACHED);
    wf_store_relaxed(&task->runs, 0);
    wf_store_relaxed(&task->origin.created_ns,
                     worker != NULL ? worker->tick.now_ns : wf_clock_now());
    wf_state_init(&task->state, spawn->has_handle ? 2 : 1);
    wf_store_release(&task->id, id_take(worker)); /* release: a dump that sees it sees the fields */
}

/* [owner of cache; NULL: any]  Returns the memory of a task that has no id yet. */
static void unmake(struct wf_task_pool *pool, struct wf_task_cache *cache, struct weft_task *task)
{
    if (task->body == WF_BODY_POLL) {
        wf_upcalls.poll_done(task);
    }
    wf_task_reset(task);
    wf_task_put(pool, cache, task);
}

/* [owner; NULL: any]  Takes memory from the pool and fills it.  On error nothing is left behind.
 * `is_plain`, a constant: no options, no scope, no poll task.  The compiler then removes the code
 * for them, and keeps *spawn in registers. */
static inline __attribute__((always_inline)) int make(struct wf_task_pool *pool,
                                                      struct wf_worker *worker,
                                                      const struct wf_spawn *spawn, bool is_plain,
                                                      struct weft_task **out)
{
    struct wf_task_cache *cache = worker != NULL ? &worker->tasks : NULL;
    struct weft_task *task = wf_task_get(pool, cache);
    int rc = 0;
    if (task == NULL) {
        return -ENOMEM;
    }
    task->arg = spawn->arg;
    if (!is_plain && (spawn->options != NULL || spawn->scope != NULL)) {
        rc = init_options(task, spawn);
    }
    if (!is_plain && rc == 0 && spawn->poll_init != NULL) {
        rc = spawn->poll_init(task, spawn);
    }
    if (rc != 0) {
        unmake(pool, cache, task);
        return rc;
    }
    fill(task, spawn, worker);
    *out = task;
    return 0;
}

int wf_task_make(struct wf_worker *worker, const struct wf_spawn *spawn, struct weft_task **out)
{
    return make(worker->pool, worker, spawn, false, out);
}

/* [owner]  Makes a task on the caller's worker.  `is_plain`: see make. */
static inline __attribute__((always_inline)) int spawn_here(struct wf_worker *worker,
                                                            const struct wf_spawn *spawn,
                                                            bool is_plain, struct weft_task **out)
{
    /* relaxed: the closer finds a task that is spawned after is_closing was set, see
     * runtime/runtime.c */
    if (wf_load_relaxed(&worker->runtime->shutdown.is_closing) != 0) {
        return -ESHUTDOWN;
    }
    int rc = make(worker->pool, worker, spawn, is_plain, out);
    if (rc == 0) {
        (*out)->home = (uint16_t)worker->index;
        wf_counter_add(&worker->counters.spawned, 1);
    }
    return rc;
}

/* [any, no worker of the runtime]  Makes a task under the gate, which orders it against the close.
 * -ESHUTDOWN: the runtime is closing; -EAGAIN: the global queue is at its limit; -ENOMEM. */
static int spawn_external(weft_runtime *runtime, const struct wf_spawn *spawn,
                          struct weft_task **out)
{
    struct weft_task *task = NULL;
    int rc = make(runtime->pool, NULL, spawn, false, &task);
    if (rc != 0) {
        return rc;
    }
    task->home = (uint16_t)(wf_task_id(task) % runtime->worker_count); /* if it is pinned */
    wf_lock_acquire(&runtime->shutdown.gate);
    if (wf_load_relaxed(&runtime->shutdown.is_closing) != 0) { /* relaxed: the gate orders it */
        WF_REACHED("spawn.gate_is_closed");
        rc = -ESHUTDOWN;
    } else if (runtime->options.global_capacity != 0 && !task->needs_slow_queue &&
               wf_runtime_queued(runtime) >= runtime->options.global_capacity) {
        WF_REACHED("spawn.queue_is_full");
        rc = -EAGAIN;
    } else {
        wf_counter_add(&runtime->foreign.spawned, 1);
    }
    wf_lock_release(&runtime->shutdown.gate);
    if (rc != 0) {
        wf_task_withdraw(NULL, task, spawn->has_handle);
        return rc;
    }
    *out = task;
    return 0;
}

/* [any]  Makes the task.  Waits for admission if the options say so. */
static int spawn_admitted(weft_runtime *runtime, const struct wf_spawn *spawn,
                          struct weft_task **out)
{
    int rc = runtime->options.tasks_max != 0 ? wf_limit_admit(runtime) : 0;
    if (rc != 0) {
        return rc;
    }
    bool has_waited = false;
    for (;;) { /* Ends at the latest when the runtime closes. */
        struct wf_worker *worker = wf_worker_self();
        rc = worker != NULL && worker->runtime == runtime ? spawn_here(worker, spawn, false, out)
                                                          : spawn_external(runtime, spawn, out);
        if (rc != -EAGAIN || !runtime->options.spawn_waits) {
            break;
        }
        rc = wf_limit_wait(runtime, WF_LIMIT_QUEUE);
        has_waited = true;
        if (rc != 0) {
            break;
        }
    }
    if (rc != 0 && has_waited) {
        wf_limit_wake(runtime, WF_LIMIT_QUEUE, 1); /* pass the wake-up on to another waiter */
    }
    if (rc != 0 && runtime->options.tasks_max != 0) {
        wf_limit_release(runtime);
    }
    return rc;
}

int wf_task_spawn(weft_runtime *runtime, const struct wf_spawn *spawn, struct weft_task **out)
{
    struct wf_worker *worker = wf_worker_self();
    struct wf_task_pool *pool = runtime->pool;
    const bool is_external = worker == NULL || worker->runtime != runtime;
    int rc = options_check(spawn);
    if (rc != 0) {
        return rc;
    }
    if (is_external && !wf_pool_pin(pool)) {
        return -ESHUTDOWN;
    }
    struct weft_task *task = NULL;
    rc = spawn_admitted(runtime, spawn, &task);
    if (rc == 0) {
        *out = task;
        if (spawn->scope == NULL) {
            wf_task_place(task);
        }
    }
    if (is_external) {
        wf_pool_unpin(pool);
    }
    return rc;
}

/* ---- the public calls ---------------------------------------------------------------------- */

/* The errors of weft_go.  The task keeps the index of the last one; 0, as in a new task, is
 * -ENOMEM. */
static const int go_errors[] = {-ENOMEM, -EAGAIN, -ESHUTDOWN, -ECANCELED, -ETIMEDOUT};
enum { GO_ERROR_SHIFT = 4, GO_ERROR_COUNT = sizeof(go_errors) / sizeof(go_errors[0]) };
_Static_assert(GO_ERROR_COUNT <= 1 << (8 - GO_ERROR_SHIFT), "the index fits into the marks");

/* [any]  Keeps the error for weft_await(NULL).  Returns NULL. */
static __attribute__((noinline)) weft_task *go_failed(int rc)
{
    struct weft_task *self = wf_task_self();
    unsigned index = GO_ERROR_COUNT - 1;
    while (index > 0 && go_errors[index] != rc) {
        index--;
    }
    WEFT_ASSERT(go_errors[index] == rc);
    if (self != NULL) {
        /* Both relaxed: only the task reads these bits.  Joiners may set other bits meanwhile. */
        (void)wf_fetch_and_relaxed(&self->marks, (uint8_t)((1u << GO_ERROR_SHIFT) - 1));
        (void)wf_fetch_or_relaxed(&self->marks, (uint8_t)(index << GO_ERROR_SHIFT));
    }
    return NULL;
}

int wf_spawn_error(const struct weft_task *self)
{
    return go_errors[wf_load_relaxed(&self->marks) >>
                     GO_ERROR_SHIFT]; /* relaxed: only the task writes these bits */
}

/* [worker]  weft_go for a spawn that needs admission.  A function of its own, so that weft_go keeps
 * its struct wf_spawn in registers: if weft_go passed the address of the struct, it would be in
 * memory. */
static __attribute__((noinline)) weft_task *go_admitted(weft_runtime *runtime, weft_fn fn,
                                                        void *arg, const void *site)
{
    const struct wf_spawn spawn = {.fn = fn, .arg = arg, .site = site, .has_handle = true};
    struct weft_task *task = NULL;
    int rc = wf_task_spawn(runtime, &spawn, &task);
    return rc == 0 ? task : go_failed(rc);
}

weft_task *weft_go(weft_fn fn, void *arg)
{
    struct wf_worker *worker = wf_worker_self();
    const struct wf_spawn spawn = {
        .fn = fn, .arg = arg, .site = __builtin_return_address(0), .has_handle = true};
    WF_NOT_NULL(fn, "weft_go: fn is NULL");
    if (worker == NULL) {
        return NULL; /* there is no task that could keep the error */
    }
    if (worker->runtime->options.tasks_max != 0) {
        return go_admitted(worker->runtime, fn, arg, spawn.site);
    }
    struct weft_task *task = NULL;
    int rc = spawn_here(worker, &spawn, true, &task);
    if (rc != 0) {
        return go_failed(rc);
    }
    wf_task_place_on(worker, task);
    return task;
}

int wf_task_spawn_out(weft_runtime *runtime, weft_task **out, struct wf_spawn *spawn)
{
    struct weft_task *task = NULL;
    spawn->has_handle = out != NULL && (spawn->options == NULL || !spawn->options->is_detached);
    int rc = wf_task_spawn(runtime, spawn, &task);
    if (rc == 0 && spawn->has_handle && out != NULL) {
        *out = task;
    }
    return rc;
}

int weft_spawn(weft_task **out, weft_fn fn, void *arg, const weft_task_options *options)
{
    WF_NOT_NULL(fn, "weft_spawn: fn is NULL");
    struct wf_worker *worker = wf_worker_self();
    struct wf_spawn spawn = {
        .fn = fn, .arg = arg, .options = options, .site = __builtin_return_address(0)};
    return worker != NULL ? wf_task_spawn_out(worker->runtime, out, &spawn) : -EPERM;
}

int weft_runtime_spawn(weft_runtime *runtime, weft_task **out, weft_fn fn, void *arg,
                       const weft_task_options *options)
{
    WF_NOT_NULL(runtime, "weft_runtime_spawn: runtime is NULL");
    WF_NOT_NULL(fn, "weft_runtime_spawn: fn is NULL");
    struct wf_spawn spawn = {
        .fn = fn, .arg = arg, .options = options, .site = __builtin_return_address(0)};
    if (wf_is_forked()) {
        return -EPERM;
    }
    return wf_task_spawn_out(runtime, out, &spawn);
}
