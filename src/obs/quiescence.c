/* SPDX-License-Identifier: MIT */
/*
 * obs/quiescence.c - what happens when no task runs and none is queued.
 *
 * The last worker that goes to sleep calls wf_quiescence_report, if a task has run since the last
 * call.  It reports unobserved failures, wakes the closer, and searches for a deadlock.
 *
 * A deadlock: every live task waits for the end of tasks of this runtime, or for a lock that one of
 * them holds, and no timer is set.  Only a task could end one of these waits, and none runs.  A
 * wait in another object of sync/, such as a semaphore or a channel, could also be ended by a
 * non-worker thread.  Such a wait is part of a deadlock only if there is no such thread: the
 * process has no threads except those of the runtime and the thread in weft_run.
 *
 * The search has two stages.  The first adds up the counters of begun and ended waits, and may read
 * the number of threads.  Mostly this shows already that some task waits for something else, and a
 * runtime with a million such tasks pays no more than that.  Only if the counters allow a deadlock
 * does the second stage visit the tasks one by one.
 *
 * The visit follows pointers into the frames of waiting tasks (a scope, a lock).  A non-worker
 * thread could cancel such a task meanwhile, and a sleeping worker would wake, run it, and leave
 * the frame.  So the tasks are visited while the world is stopped, which is immediate here, since
 * all workers sleep.  The hook is called after the world has been resumed.  In the reactor policy
 * the control thread visits them, and no other thread resumes tasks.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "life/blocking.h"
#include "obs/obs.h"

/* Returns a number that changes whenever a worker begins or stops running tasks.  Never 0. */
static uint64_t activity(weft_runtime *runtime)
{
    uint64_t sum = 1;
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        sum += wf_load_acquire(&runtime->workers[i].run.seq); /* (sched.Y1) */
    }
    return sum;
}

bool wf_quiescence_is_due(weft_runtime *runtime)
{
    return activity(runtime) !=
           wf_load_relaxed(&runtime->quiescence.reported_at); /* relaxed: a hint */
}

void wf_quiescence_request(struct wf_task_pool *pool)
{
    struct weft_task *self = wf_task_self();
    if (self != NULL && self->pool == pool) {
        return; /* the runtime is not quiescent before the caller suspends */
    }
    if (wf_pool_pin(pool)) {
        /* relaxed: the fences of wake_any order it.  If another thread is in wf_quiescence_report
         * and has not seen the caller's change, the lock that guards the change orders this store
         * after that thread's store of reported_at. */
        wf_store_relaxed(&pool->runtime->quiescence.reported_at, 0);
        pool->runtime->policy->wake_any(pool->runtime);
        wf_pool_unpin(pool);
    }
}

/* ---- deadlocks ----------------------------------------------------------------------------- */

static bool is_any_worker_running(weft_runtime *runtime)
{
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        if (wf_load_acquire(&runtime->workers[i].run.seq) % 2 != 0) { /* (sched.Y1) */
            return true;
        }
    }
    return false;
}

/* True: the process may have a thread that is not of this runtime and not in weft_run, or a thread
 * of the runtime runs a blocking function.  Either could end a wait in an object of sync/. */
static bool may_have_outside_thread(weft_runtime *runtime)
{
    const struct wf_monitor *monitor = &runtime->monitor;
    /* All relaxed: a thread that is counted exists. */
    const unsigned ours =
        runtime->worker_count + (unsigned)wf_counter_read(&monitor->started) +
        wf_load_relaxed(&monitor->is_started) + runtime->policy->thread_count +
        wf_blocking_idle_threads(runtime->blocking) +
        wf_load_relaxed(&runtime->main_wait.is_used); /* relaxed: set before a spawn */
    const unsigned count = wf_thread_count();
    return count == 0 || count > ours;
}

/* The first stage: false if the counters show that something other than a task of the runtime can
 * wake some task. */
static bool may_all_wait(weft_runtime *runtime, uint64_t live)
{
    uint64_t for_tasks = 0;
    uint64_t in_sync = 0;
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        const struct wf_counters *counters = &runtime->workers[i].counters;
        for_tasks -= wf_counter_read(&counters->waits_ended);
        for_tasks += wf_counter_read(&counters->waits_for_task);
        in_sync -= wf_counter_read(&counters->sync_waits_ended);
        in_sync += wf_counter_read(&counters->waits_in_sync);
    }
    if (live == 0 || for_tasks + in_sync != live) {
        return false;
    }
    return in_sync == 0 || !may_have_outside_thread(runtime);
}

static const struct weft_task *lock_holder(const struct weft_task *task);

/* [world stopped]  True: only a task of this runtime can end the wait of this one. */
static bool only_task_can_wake(const struct weft_task *task, bool has_outside_thread)
{
    const uint32_t wait = wf_load_relaxed(&task->wait); /* relaxed: the task is IDLE */
    if (wf_wait_is_for_task(wait)) {
        return true;
    }
    if (wf_wait_is_for_lock(wait) && lock_holder(task) != NULL) {
        return true;
    }
    return wf_wait_is_in_sync(wait) && !has_outside_thread;
}

/* The number of live tasks, and of those whose wait only a task can end. */
struct census {
    bool has_outside_thread;
    uint64_t alive;
    uint64_t waiting;
};

static void census_count(struct weft_task *task, void *context)
{
    struct census *census = context;
    struct wf_state_view view;
    wf_state_read(&task->state, &view);
    if (view.lifecycle != WF_COMPLETE) {
        census->alive++;
        bool is_waiting =
            view.lifecycle == WF_IDLE && only_task_can_wake(task, census->has_outside_thread);
        census->waiting += is_waiting ? 1 : 0;
    }
}

/* [world stopped]  The second stage.  `live` is the number of live tasks in the first stage.  True:
 * it is still the same number, and only tasks of this runtime could wake these tasks. */
static bool is_deadlock(weft_runtime *runtime, size_t live)
{
    struct census census = {.has_outside_thread = may_have_outside_thread(runtime)};
    if (is_any_worker_running(runtime) || wf_timers_are_set(runtime)) {
        return false; /* the worker that runs, or the timer, leads to another report */
    }
    wf_task_pool_visit(runtime->pool, census_count, &census);
    return census.alive == live && census.waiting == live;
}

struct task_list {
    const struct weft_task **tasks;
    size_t count;
    size_t max;
};

static void deadlock_collect(struct weft_task *task, void *context)
{
    struct task_list *task_list = context;
    if (task_list->count < task_list->max && !wf_state_is_complete(&task->state)) {
        task_list->tasks[task_list->count++] = task;
    }
}

/* [world stopped]  The task of the same runtime that holds the lock which this one waits for.
 * NULL: no such task; or the holder is the task itself: a non-worker thread has just granted it the
 * lock and is about to wake it. */
static const struct weft_task *lock_holder(const struct weft_task *task)
{
    const struct wf_abandon_hook *hook = task->abandon_hooks;
    while (hook != NULL && hook->blocked_on == NULL) {
        hook = hook->next;
    }
    const struct weft_task *found = hook != NULL ? hook->blocked_on(hook) : NULL;
    return found != NULL && found != task && found->pool == task->pool ? found : NULL;
}

/* [world stopped]  A task that this one waits for; NULL: unknown. */
static const struct weft_task *task_blocked_on(const struct weft_task *task)
{
    const uintptr_t object = wf_load_relaxed(&task->wait_record.object); /* relaxed: no task runs */
    switch (wf_load_relaxed(&task->wait)) {
    case WEFT_WAIT_TASK:
        return (const struct weft_task *)object;
    case WEFT_WAIT_SCOPE:
        return wf_scope_first((struct wf_scope *)object);
    case WEFT_WAIT_MUTEX:
    case WEFT_WAIT_RWLOCK:
        return lock_holder(task);
    default:
        return NULL;
    }
}

/* Follows the waits from `task`.  `count` is the number of all tasks: a walk that leads into a
 * cycle is inside the cycle after `count` steps.  Returns the length of the cycle and stores its
 * tasks in `cycle`; 0: there is none. */
static size_t find_cycle_from(const struct weft_task *task, size_t count,
                              const struct weft_task **cycle)
{
    for (size_t i = 0; i < count && task != NULL; i++) {
        task = task_blocked_on(task);
    }
    size_t length = 0;
    const struct weft_task *first = task;
    while (task != NULL && (length == 0 || task != first)) {
        cycle[length++] = task;
        task = task_blocked_on(task);
    }
    return task != NULL ? length : 0;
}

/* A walk ends at a task that waits for one of several tasks, so the search starts at other tasks
 * too.  At a few only: each walk may visit all tasks. */
static size_t find_cycle(const struct task_list *all, const struct weft_task **cycle)
{
    enum { WALKS_MAX = 64 };
    size_t length = 0;
    for (size_t i = 0; i < all->count && i < WALKS_MAX && length == 0; i++) {
        length = find_cycle_from(all->tasks[i], all->count, cycle);
        if (length > 0 && i > 0) {
            WF_REACHED("quiescence.cycle_elsewhere");
        }
    }
    return length;
}

/* Writes a line.  Returns its full length, also if it was cut. */
static size_t describe_waiting(char *text, size_t size, const struct weft_task *task)
{
    weft_task_info info;
    int length;
    wf_task_describe(task->pool->runtime, task, false, &info);
    const unsigned long long id = (unsigned long long)info.id;
    const struct weft_task *held_by = wf_wait_is_for_lock(info.wait) ? lock_holder(task) : NULL;
    if (held_by != NULL) {
        char name[WEFT_TASK_NAME_SIZE];
        wf_task_name(held_by, name);
        length =
            snprintf(text, size, "task %llu \"%s\" waits for %s %p, held by task %llu \"%s\"\n", id,
                     info.name, weft_wait_name(info.wait), info.wait_object,
                     (unsigned long long)wf_task_id(held_by), name);
    } else if (wf_wait_is_in_sync(info.wait)) {
        length = snprintf(text, size, "task %llu \"%s\" waits for %s %p\n", id, info.name,
                          weft_wait_name(info.wait), info.wait_object);
    } else {
        length = snprintf(text, size, "task %llu \"%s\" waits for %s %llu\n", id, info.name,
                          weft_wait_name(info.wait), (unsigned long long)info.wait_task_id);
    }
    return length > 0 ? (size_t)length : 0;
}

/* One line per task, until the text is full. */
static void describe_tasks(char *text, size_t size, const struct weft_task *const *tasks,
                           size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used + 1 < size; i++) {
        used += describe_waiting(text + used, size - used, tasks[i]);
    }
}

static void print_deadlock(weft_runtime *runtime, const weft_deadlock *deadlock)
{
    char line[160];
    int length = snprintf(line, sizeof(line), "weft: deadlock: %zu %s and cannot be woken; %s:\n",
                          deadlock->count, deadlock->count == 1 ? "task waits" : "tasks wait",
                          deadlock->cycle_count > 0 ? "a cycle" : "waiting");
    /* An error here cannot be reported. */
    (void)wf_file_write(STDERR_FILENO, line, (size_t)length);
    (void)wf_file_write(STDERR_FILENO, deadlock->text, strlen(deadlock->text));
    (void)weft_runtime_dump(runtime, STDERR_FILENO);
}

/* The details of a deadlock. */
struct details {
    struct task_list all; /* its array is twice as long: the cycle goes into the second half */
    char *text;           /* this or all.tasks NULL: no memory, no details */
    weft_deadlock found;
};
enum { TEXT_SIZE = 4096 };

/* [world stopped] */
static void describe_deadlock(weft_runtime *runtime, struct details *details)
{
    struct task_list *all = &details->all;
    if (all->tasks == NULL || details->text == NULL) {
        WF_REACHED("quiescence.no_memory_for_details");
        return;
    }
    wf_task_pool_visit(runtime->pool, deadlock_collect, all);
    const struct weft_task **cycle = all->tasks + all->max;
    const size_t length = find_cycle(all, cycle);
    details->found.cycle_count = length;
    details->found.cycle = cycle;
    describe_tasks(details->text, TEXT_SIZE, length > 0 ? cycle : all->tasks,
                   length > 0 ? length : all->count);
}

static void report_deadlock(weft_runtime *runtime, const weft_deadlock *deadlock)
{
    if (runtime->options.on_deadlock != NULL) {
        runtime->options.on_deadlock(runtime->options.hook_context, deadlock);
    } else {
        print_deadlock(runtime, deadlock);
    }
    wf_join_main_break(runtime);
}

/* [world stopped]  1 plus the number of slices so far: changes whenever a task has run. */
static uint64_t slices_run(weft_runtime *runtime)
{
    uint64_t sum = 1;
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        sum += wf_counter_read(&runtime->workers[i].counters.polled);
    }
    return sum;
}

/* [loop, control thread]  The second stage, and the report of a deadlock.  `is_still`: no worker
 * can begin to run a task, so the world need not be stopped. */
static void check_deadlock(weft_runtime *runtime, size_t live, bool is_still)
{
    const size_t size = 2 * sizeof(const struct weft_task *);
    struct details details = {.all = {.tasks = wf_alloc_zeroed(live, size), .max = live},
                              .text = wf_alloc_zeroed(1, TEXT_SIZE)};
    details.found = (weft_deadlock){.count = live, .text = details.text ? details.text : ""};
    bool is_found = false;
    if (is_still || wf_world_try_stop(runtime)) {
        /* If no task has run since the last deadlock it is the same one, and was reported. */
        const uint64_t now = slices_run(runtime);
        is_found = runtime->quiescence.deadlock_at != now && is_deadlock(runtime, live);
        if (is_found) {
            runtime->quiescence.deadlock_at = now;
            describe_deadlock(runtime, &details);
        }
        if (!is_still) {
            wf_world_resume(runtime);
        }
    } else {
        WF_REACHED("quiescence.no_longer_quiescent");
        /* Another worker is awake, or another stopper has the turn: the report stays due.
         * relaxed: a hint */
        wf_store_relaxed(&runtime->quiescence.reported_at, 0);
    }
    if (is_found) {
        report_deadlock(runtime, &details.found);
    }
    wf_free(details.all.tasks);
    wf_free(details.text);
}

void wf_quiescence_report(weft_runtime *runtime, bool is_still)
{
    wf_store_relaxed(&runtime->quiescence.reported_at, activity(runtime)); /* relaxed: a hint */
    wf_failures_report(runtime);
    /* (obs.C1) The closer sets is_closing, fences and counts the live tasks.  Either it sees that
     * the last task has ended, or the caller sees is_closing. */
    wf_fence_seq_cst();
    if (wf_load_relaxed(&runtime->shutdown.is_closing) != 0) {
        wf_parker_unpark(&runtime->shutdown.closer);
        return;
    }
    uint64_t live = wf_runtime_live(runtime);
    if (may_all_wait(runtime, live)) {
        check_deadlock(runtime, (size_t)live, is_still);
    }
}
