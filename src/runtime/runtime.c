/* SPDX-License-Identifier: MIT */
/*
 * runtime/runtime.c - opening a runtime, running a first task in it, closing it.
 *
 * Opening is all or nothing.  Each new thread sets itself up, reports to the opener and waits for
 * its decision.  The threads begin to run tasks only if every thread is set up.
 *
 * Closing, step by step:
 *   1  The closer sets is_closing, under the gate: spawns of non-worker threads and of tasks fail.
 *   2  It cancels every task, and wakes every spawn that waits for admission.
 *   3  It waits until no task is alive.  A worker that has not seen is_closing yet may still spawn
 *      tasks.  Each worker wakes the closer when it first sees is_closing, and so does a thread
 *      that finds the runtime quiescent; the closer then repeats step 2.
 *   4  It waits for non-worker threads that have pinned the runtime, and lets the workers leave
 *      their loops.  If the deadline passed in step 3 (forced close), they leave between two tasks
 *      although tasks are queued, and blocking functions that have not begun never run.
 *   5  It joins all threads, including those for blocking functions: a blocking function that runs
 *      is waited for.
 *   6  After a forced close it first runs the abandon hooks of all tasks that are still alive,
 *      releases their locks and leaves their scopes.  Then it completes the tasks with -ECANCELED,
 *      and last it frees their stacks.
 *   7  It frees the memory.  The memory of tasks is freed when the last handle is dropped.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "weft/version.h"

/* ---- opening ------------------------------------------------------------------------------- */

static int queues_init(weft_runtime *runtime)
{
    bool is_depth_first = runtime->options.order == WEFT_ORDER_DEPTH_FIRST;
    struct wf_inject_options options = {.batch_max = runtime->options.global_batch};
    if (is_depth_first && options.batch_max > WF_INJECT_BATCH_DEPTH_FIRST + 1) {
        options.batch_max = WF_INJECT_BATCH_DEPTH_FIRST + 1; /* one to run and 16 to keep */
    }
    int rc = wf_inject_init(&runtime->queues.global, &options);
    if (rc == 0) {
        rc = wf_inject_init(&runtime->queues.high, NULL);
    }
    if (rc == 0) {
        rc = wf_inject_init(&runtime->queues.low, NULL);
    }
    wf_timer_summary_init(&runtime->timer_summary);
    return rc != 0 ? rc : wf_idle_init(&runtime->idle, runtime->worker_count);
}

static int runtime_fill(weft_runtime *runtime)
{
    runtime->worker_count = runtime->options.workers;
    const uint64_t workers_limit = (uint64_t)runtime->worker_count + runtime->options.spares_max;
    const bool has_spares = !runtime->options.no_monitor;
    runtime->workers_max = !has_spares                      ? runtime->worker_count
                           : workers_limit < WF_WORKERS_MAX ? (unsigned)workers_limit
                                                            : WF_WORKERS_MAX;
    wf_lock_init(&runtime->monitor.lock, WF_RANK_MONITOR);
    wf_list_init(&runtime->monitor.idle_spares);
    wf_parker_init(&runtime->monitor.parker);
    /* A single worker without a monitor keeps its bias: no other thread would revoke it. */
    runtime->bias_domain.has_barrier =
        (!has_spares && runtime->worker_count == 1) || wf_barrier_register() == 0;
    bool is_steal = runtime->options.policy == WEFT_POLICY_STEAL;
    runtime->policy = is_steal ? &wf_policy_steal : &wf_policy_reactor;
    wf_lock_init(&runtime->shutdown.gate, WF_RANK_GATE);
    wf_lock_init(&runtime->world_turn.lock, WF_RANK_WORLD);
    wf_limits_init(runtime->limits);
    wf_list_init(&runtime->world_turn.waiters);
    wf_blocking_init(runtime->blocking, runtime);
    return queues_init(runtime);
}

/* [opener]  Makes everything except the threads.  On error nothing is left behind. */
static int build(weft_runtime *runtime)
{
    int rc = runtime_fill(runtime);
    if (rc != 0) {
        return rc;
    }
    rc = wf_task_pool_new(&runtime->pool, runtime);
    if (rc != 0) {
        return rc;
    }
    rc = wf_stack_pool_init(&runtime->stacks, NULL);
    if (rc != 0) {
        goto close_tasks;
    }
    rc = wf_workers_init(runtime);
    if (rc != 0) {
        goto close_stacks;
    }
    rc = wf_overflow_install(wf_overflow_print);
    if (rc != 0) {
        goto close_workers;
    }
    rc = runtime->policy->open != NULL ? runtime->policy->open(runtime) : 0;
    if (rc != 0) {
        goto remove_overflow;
    }
    return 0;

remove_overflow:
    wf_overflow_remove();
close_workers:
    wf_workers_done(runtime, wf_worker_total(runtime));
close_stacks:
    wf_stack_pool_done(&runtime->stacks);
close_tasks:
    wf_task_pool_close(runtime->pool);
    return rc;
}

/* [opener, closer]  The reverse of build. */
static void dismantle(weft_runtime *runtime)
{
    if (runtime->policy->free != NULL) {
        runtime->policy->free(runtime);
    }
    wf_driver_done(runtime);
    wf_runtime_trace_done(runtime);
    wf_overflow_remove();
    wf_workers_done(runtime, wf_worker_total(runtime));
    wf_stack_pool_done(&runtime->stacks);
    wf_task_pool_close(runtime->pool);
}

/* A runtime in one piece of memory, together with the parts that the scheduler only points to. */
struct whole_runtime {
    struct weft_runtime runtime; /* the first member: both are freed as one */
    struct wf_blocking blocking;
    struct wf_limits limits;
};

/* [child of fork: its only thread]  The thread may be on the stack of a task, and has no worker any
 * more: the other workers are missing, and the queues belong to the parent.  Calls that start tasks
 * or wait for tasks return -EPERM.  The function of the task must not return, because there is no
 * loop to return to: check_frame in sched/worker.c aborts.  That check examines only tasks that are
 * not bare, so it costs other tasks nothing. */
static void detach_in_child(void)
{
    struct weft_task *task = wf_task_self();
    if (task != NULL) {
        task->is_bare = false;
    }
    wf_current_worker = NULL;
}

int weft_runtime_open(weft_runtime **out, const weft_runtime_options *options)
{
    WF_NOT_NULL(out, "weft_runtime_open: out is NULL");
    weft_runtime_options filled;
    int rc = wf_options_fill(&filled, options, NULL, 0);
    if (rc != 0) {
        return rc;
    }
    rc = wf_forked_enter(detach_in_child);
    if (rc != 0) {
        return rc;
    }
    struct whole_runtime *whole = wf_alloc_aligned(WF_CACHE_LINE, sizeof(*whole));
    if (whole == NULL) {
        rc = -ENOMEM;
        goto leave_process;
    }
    memset(whole, 0, sizeof(*whole));
    weft_runtime *runtime = &whole->runtime;
    runtime->options = filled;
    runtime->blocking = &whole->blocking;
    runtime->limits = &whole->limits;
    rc = build(runtime);
    if (rc != 0) {
        goto free_runtime;
    }
    rc = wf_workers_start(runtime);
    if (rc != 0) {
        goto dismantle_runtime;
    }
    rc = wf_monitor_start(runtime);
    if (rc == 0 && filled.trace_events != 0) {
        rc = weft_runtime_trace_start(runtime, filled.trace_events);
    }
    if (rc != 0) {
        (void)weft_runtime_close(runtime, 0); /* nothing runs yet */
        return rc;
    }
    *out = runtime;
    return 0;

dismantle_runtime:
    dismantle(runtime);
free_runtime:
    wf_free(runtime);
leave_process:
    wf_forked_leave();
    return rc;
}

/* ---- closing ------------------------------------------------------------------------------- */

/* [closer]  Cancels each task once.  A task that is cancelled again, but cannot end yet, would run,
 * wait again, and leave the runtime quiescent; that wakes the closer, which would cancel it again,
 * without an end. */
static void cancel_visited(struct weft_task *task, void *context)
{
    (void)context;
    if ((wf_load_relaxed(&task->state.word) & WF_STATE_CANCELLED) == 0) { /* relaxed: it stays */
        wf_task_cancel(task); /* or a new task in its memory, which must end as well */
    }
}

/* [closer]  Prints the first few tasks that do not end; `context` is how many more to print. */
static void print_unfinished(struct weft_task *task, void *context)
{
    unsigned *left = context;
    if (*left > 0 && !wf_state_is_complete(&task->state)) {
        wf_unfinished_print(task);
        --*left;
    }
}

/* [closer]  Steps 2 and 3.  False: the deadline passed. */
static bool runtime_wait_end(weft_runtime *runtime, int64_t deadline_ns)
{
    /* relaxed: set before anything is spawned */
    const bool is_weft_run = wf_load_relaxed(&runtime->main_wait.is_used) != 0;
    /* The caller of weft_run only sees that it does not return: after a while the closer prints
     * the tasks that do not end. */
    int64_t report_ns = is_weft_run ? wf_clock_now() + WF_UNFINISHED_REPORT_NS : WF_FOREVER;
    for (;;) { /* Each iteration follows a wake-up of the closer, or the time to report. */
        wf_task_pool_visit(runtime->pool, cancel_visited, NULL);
        wf_limit_close(runtime);
        if (wf_runtime_live(runtime) == 0) {
            return true;
        }
        const bool must_report = report_ns < deadline_ns;
        if (wf_parker_park(&runtime->shutdown.closer, must_report ? report_ns : deadline_ns) !=
            -ETIMEDOUT) {
            continue;
        }
        if (!must_report) {
            return wf_runtime_live(runtime) == 0;
        }
        unsigned left = WF_UNFINISHED_REPORT_MAX;
        wf_task_pool_visit(runtime->pool, print_unfinished, &left);
        report_ns = WF_FOREVER;
    }
}

/* [closer]  Steps 4 and 5: workers leave their loops, and all threads are joined. */
static void workers_leave(weft_runtime *runtime, bool is_forced)
{
    /* release: pairs with the loop's load. */
    wf_store_release(&runtime->shutdown.exit_mode, is_forced ? WF_EXIT_NOW : WF_EXIT_WHEN_DONE);
    /* (sched.S1): either a worker that is about to park sees exit_mode, or the closer wakes it. */
    wf_fence_seq_cst();
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        /* Not claimed: I1 and I2 of idle.h end here.  The worker takes itself for a searcher, but
         * leaves its loop before it finds a task, so it ends no search. */
        wf_driver_unpark(runtime, &runtime->workers[i].parker);
        /* not by the driver: a parked spare waits at its own parker */
        (void)wf_parker_unpark(&runtime->workers[i].health.spare_parker);
    }
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        if (runtime->workers[i].health.has_thread) {
            int rc = wf_thread_join(runtime->workers[i].thread.handle);
            WEFT_CHECK(rc == 0); /* a thread of the runtime, joined once */
        }
    }
    if (runtime->policy->stop != NULL) {
        runtime->policy->stop(runtime); /* the control thread reads tasks too */
    }
    wf_blocking_stop(runtime->blocking);
    if (runtime->policy->abandon_jobs != NULL) {
        runtime->policy->abandon_jobs(runtime);
    }
}

/* Step 6.  The tasks are linked by `node`: no queue is in use any more. */
struct leftovers {
    struct wf_chain tasks;
    struct wf_stack *stacks;
};

/* [closer] */
static void collect(struct weft_task *task, void *context)
{
    struct leftovers *leftovers = context;
    if (!wf_state_is_complete(&task->state)) {
        wf_chain_push(&leftovers->tasks, &task->node);
    }
}

/* [closer]  Undoes the waits of the task, releases its locks and leaves its scope, before any task
 * that is left completes: queues, locks and scopes may be on the stack of any of these tasks, or in
 * memory that is freed with one (the copy of its argument, a task-local value). */
static void undo_task(struct weft_task *task)
{
    wf_abandon_hooks_run(task);
    if (task->owned_locks != NULL) {
        wf_owned_locks_release(task);
    }
    if (task->body != WF_BODY_POLL) {
        wf_task_timer_clear(&task->task_timer);
    }
    if (task->scope != NULL) {
        wf_scope_leave(task, -ECANCELED);
        task->scope = NULL;
    }
}

/* [closer]  Step 6. */
static void end_leftovers(weft_runtime *runtime)
{
    struct leftovers leftovers = {0};
    wf_task_pool_visit(runtime->pool, collect, &leftovers);
    struct wf_chain undone = {0};
    struct wf_node *node;
    while ((node = wf_chain_pop(&leftovers.tasks)) != NULL) {
        undo_task(wf_container_of(node, struct weft_task, node));
        wf_chain_push(&undone, node);
    }
    while ((node = wf_chain_pop(&undone)) != NULL) {
        struct weft_task *task = wf_container_of(node, struct weft_task, node);
        struct wf_stack *stack = task->fiber != NULL ? task->fiber->stack : NULL;
        if (stack != NULL) {
            stack->next = leftovers.stacks;
            leftovers.stacks = stack;
        }
        (void)wf_state_cancel(&task->state);
        /* wf_state_complete expects ACTIVE, and the cancel does not wake a shielded task. */
        (void)wf_state_wake(&task->state);
        wf_task_abandon(task, -ECANCELED);
    }
    struct wf_stack_cache cache;
    wf_stack_cache_init(&cache, &runtime->stacks);
    while (leftovers.stacks != NULL) {
        struct wf_stack *stack = leftovers.stacks;
        leftovers.stacks = stack->next;
        wf_stack_put(&cache, stack);
    }
    wf_stack_cache_done(&cache);
}

/* [closer]  Lets other tasks and threads run, one of which must unpin the runtime. */
static void relax(void)
{
    struct weft_task *self = wf_task_self();
    if (self != NULL) {
        wf_task_yield(self);
    }
    (void)sched_yield(); /* cannot fail on Linux */
}

int weft_runtime_close(weft_runtime *runtime, int64_t timeout_ns)
{
    WF_NOT_NULL(runtime, "weft_runtime_close: runtime is NULL");
    if (wf_is_forked()) {
        return -EPERM;
    }
    struct wf_worker *worker = wf_worker_self();
    const struct wf_policy *policy = runtime->policy;
    if ((worker != NULL && worker->runtime == runtime) ||
        (policy->is_own_thread != NULL && policy->is_own_thread(runtime))) {
        return -EDEADLK;
    }
    int64_t now = wf_clock_now();
    int64_t deadline_ns =
        timeout_ns < 0 || timeout_ns > WF_FOREVER - now ? WF_FOREVER : now + timeout_ns;
    wf_lock_acquire(&runtime->shutdown.gate);
    const bool is_nested =
        wf_load_relaxed(&runtime->shutdown.is_closing) != 0; /* relaxed: under the gate */
    wf_store_relaxed(&runtime->shutdown.is_closing,
                     1); /* relaxed: the gate orders it for spawns under it */
    wf_lock_release(&runtime->shutdown.gate);
    if (is_nested) {
        return -EDEADLK; /* a hook of a close that has not returned calls close again */
    }
    wf_fence_seq_cst(); /* (obs.C1) */
    bool is_done = runtime_wait_end(runtime, deadline_ns);
    wf_pool_rundown(runtime->pool, relax);
    wf_monitor_stop(runtime);
    if (!is_done) {
        wf_blocking_shut(runtime->blocking);
    }
    workers_leave(runtime, !is_done);
    if (!is_done) {
        is_done = wf_runtime_live(runtime) == 0;
        end_leftovers(runtime);
    }
    wf_failures_report(runtime);
#if defined(WF_PARK_TIMEOUT_NS) && defined(WF_TEST_HOOKS)
    WEFT_CHECK(wf_load_relaxed(&runtime->idle.lost_wakeups) == 0);
#endif
    dismantle(runtime);
    wf_free(runtime);
    wf_forked_leave();
    return is_done ? 0 : -ETIMEDOUT;
}

/* ---- running ------------------------------------------------------------------------------- */

/* [weft_run]  Prints what is wrong with the options or the environment: the caller of weft_run gets
 * only -EINVAL. */
static void print_options_error(int rc, const weft_runtime_options *options)
{
    char text[256];
    char line[sizeof(text) + 16];
    if (rc == -EINVAL && weft_runtime_options_check(options, text, sizeof(text)) != 0) {
        int length = snprintf(line, sizeof(line), "weft: %s\n", text);
        (void)wf_file_write(STDERR_FILENO, line, (size_t)length); /* errors: no place to report */
    }
}

/* [weft_run]  Copies the weft_fail message of the first task to the caller's buffer.  If the caller
 * gave neither a buffer nor on_failure, prints the message on stderr. */
static void pass_message(const struct weft_task *task, const weft_runtime_options *options)
{
    char text[256];
    char line[sizeof(text) + 32];
    if (options != NULL && options->message != NULL) {
        (void)wf_message_copy(task, options->message, options->message_size); /* may be cut */
    } else if ((options == NULL || options->on_failure == NULL) &&
               wf_message_copy(task, text, sizeof(text)) > 0) {
        const int length = snprintf(line, sizeof(line), "weft: main failed: %s\n", text);
        (void)wf_file_write(STDERR_FILENO, line, (size_t)length); /* errors: no place to report */
    }
}

intptr_t weft_run(weft_fn fn, void *arg, const weft_runtime_options *options)
{
    if (wf_worker_self() != NULL) {
        return -EPERM;
    }
    WF_NOT_NULL(fn, "weft_run: fn is NULL");
    weft_runtime *runtime;
    int rc = weft_runtime_open(&runtime, options);
    if (rc != 0) {
        print_options_error(rc, options);
        return rc;
    }
    wf_store_relaxed(&runtime->main_wait.is_used, 1); /* relaxed: before anything is spawned */
    const weft_task_options main_options = {.name = "main"};
    struct weft_task *task;
    rc = weft_runtime_spawn(runtime, &task, fn, arg, &main_options);
    if (rc != 0) {
        (void)weft_runtime_close(runtime, 0); /* nothing runs */
        return rc;
    }
    rc = wf_join_main(runtime, task);
    (void)weft_runtime_close(runtime, rc == -EDEADLK ? WF_DEADLOCK_GRACE_NS : -1);
    intptr_t result = task->result; /* the task is COMPLETE, and the handle keeps its memory */
    pass_message(task, options);
    weft_task_unref(task);
    return rc == 0 ? result : rc;
}

weft_runtime *weft_runtime_self(void)
{
    struct wf_worker *worker = wf_worker_self();
    return worker != NULL ? worker->runtime : NULL;
}

unsigned weft_runtime_workers(const weft_runtime *runtime)
{
    WF_NOT_NULL(runtime, "weft_runtime_workers: runtime is NULL");
    return runtime->worker_count;
}

int weft_version(void)
{
    return WEFT_VERSION;
}
