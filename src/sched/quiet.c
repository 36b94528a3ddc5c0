/* SPDX-License-Identifier: MIT */
/*
 * sched/quiet.c - the moment at which nothing runs and nothing is queued.
 *
 * The last worker that falls asleep comes here, if anything has run since the last time: failures
 * that nobody saw are reported, a deadlock is found, and who closes the runtime looks again.
 *
 * A deadlock: every task that is alive waits for the end of tasks of this runtime, and no deadline
 * is set.  Only a task could end one of these waits, and none runs.  That is known by counting, so
 * a runtime in which a million tasks wait for something else pays a few additions; only when the
 * numbers agree are tasks looked at one by one.
 *
 * Somebody outside may cancel one of them meanwhile, and a worker that sleeps would wake for it and
 * run it: then what it waits for, a scope in its frame, is gone under the eyes of who looks.  So
 * they are looked at while the world stands still, which it does already if this is the moment; the
 * hook is called after.  (In the reactor policy it is the control thread that looks, and nobody
 * else lets a task run.)
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sched/sched.h"

/* Grows with every round of a worker, at its beginning and at its end. */
static uint64_t activity(weft_runtime *runtime)
{
    uint64_t sum = 1;
    for (unsigned i = 0; i < runtime->worker_count; i++) {
        sum += wf_load_acquire(&runtime->workers[i].rounds); /* (Y1) */
    }
    return sum;
}

bool wf_runtime_is_news(weft_runtime *runtime)
{
    return activity(runtime) != wf_load_relaxed(&runtime->quiet_at); /* relaxed: a hint */
}

void wf_runtime_tell(struct wf_task_pool *pool)
{
    struct weft_task *self = wf_task_self();
    if (self != NULL && self->pool == pool) {
        return; /* it falls quiet after us */
    }
    if (wf_pool_enter(pool)) {
        /* relaxed: the fences of the policy order it.  If somebody is in wf_runtime_quiet and has
         * looked already, the lock of what it looked at puts this store behind its own. */
        wf_store_relaxed(&pool->runtime->quiet_at, 0);
        pool->runtime->policy->rouse(pool->runtime);
        wf_pool_leave(pool);
    }
}

/* ---- deadlocks ----------------------------------------------------------------------------- */

static bool is_anybody_inside(weft_runtime *runtime)
{
    for (unsigned i = 0; i < runtime->worker_count; i++) {
        if (wf_load_acquire(&runtime->workers[i].rounds) % 2 != 0) { /* (Y1) */
            return true;
        }
    }
    return false;
}

/* By the counters, which costs little: whether it is worth to look at the tasks. */
static bool may_all_wait_for_tasks(weft_runtime *runtime, uint64_t live)
{
    uint64_t ended = 0;
    uint64_t begun = 0;
    for (unsigned i = 0; i < runtime->worker_count; i++) {
        ended += wf_counter_read(&runtime->workers[i].counters.waits_ended);
        begun += wf_counter_read(&runtime->workers[i].counters.waits_for_task);
    }
    return live > 0 && begun - ended == live;
}

/* Tasks that are alive, and those of them that wait for tasks. */
struct census {
    uint64_t alive;
    uint64_t waiting;
};

static void count(struct weft_task *task, void *context)
{
    struct census *census = context;
    struct wf_state_view view;
    wf_state_read(&task->state, &view);
    if (view.lifecycle != WF_COMPLETE) {
        census->alive++;
        bool is_waiting = view.lifecycle == WF_IDLE &&
                          wf_wait_is_for_task(wf_load_relaxed(&task->wait)); /* relaxed: idle */
        census->waiting += is_waiting ? 1 : 0;
    }
}

/* [world stopped]  Every task waits for tasks; as many are alive as when we counted before. */
static bool is_deadlock(weft_runtime *runtime, size_t live)
{
    struct census census = {0};
    if (is_anybody_inside(runtime) || wf_timers_are_set(runtime)) {
        return false; /* it will come here after */
    }
    wf_task_pool_visit(runtime->pool, count, &census);
    return census.alive == live && census.waiting == live;
}

struct gathering {
    const struct weft_task **tasks;
    size_t count;
    size_t max;
};

static void gather(struct weft_task *task, void *context)
{
    struct gathering *gathering = context;
    if (gathering->count < gathering->max && !wf_state_is_complete(&task->state)) {
        gathering->tasks[gathering->count++] = task;
    }
}

/* The task that this one waits for, or one of them; NULL: none that we know of. */
static const struct weft_task *awaited(const struct weft_task *task)
{
    const uintptr_t object = wf_load_relaxed(&task->wait_object); /* relaxed: nothing runs */
    switch (wf_load_relaxed(&task->wait)) {
    case WEFT_WAIT_TASK:
        return (const struct weft_task *)object;
    case WEFT_WAIT_SCOPE:
        return wf_scope_first((struct wf_scope *)object);
    default:
        return NULL;
    }
}

/* Follows the waits from a task; after as many steps as there are tasks it is in a cycle, if it
 * comes into one.  Gives the length of the cycle, its tasks in `cycle`. */
static size_t find_cycle_from(const struct weft_task *task, size_t count,
                              const struct weft_task **cycle)
{
    for (size_t i = 0; i < count && task != NULL; i++) {
        task = awaited(task);
    }
    size_t length = 0;
    const struct weft_task *first = task;
    while (task != NULL && (length == 0 || task != first)) {
        cycle[length++] = task;
        task = awaited(task);
    }
    return task != NULL ? length : 0;
}

/* Where a task waits for any of several the walk ends, so it begins at others too; at a few, since
 * each walk may be as long as there are tasks. */
static size_t find_cycle(const struct gathering *all, const struct weft_task **cycle)
{
    enum { BEGINNINGS_MAX = 64 };
    size_t length = 0;
    for (size_t i = 0; i < all->count && i < BEGINNINGS_MAX && length == 0; i++) {
        length = find_cycle_from(all->tasks[i], all->count, cycle);
        if (length > 0 && i > 0) {
            WF_REACHED("quiet.circle_elsewhere");
        }
    }
    return length;
}

/* One line a task, as many as fit. */
static void describe(char *text, size_t size, const struct weft_task *const *tasks, size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used + 1 < size; i++) {
        weft_info info;
        wf_task_describe(tasks[i]->pool->runtime, tasks[i], false, &info);
        int length = snprintf(text + used, size - used, "task %llu \"%s\" waits for %s %llu\n",
                              (unsigned long long)info.id, info.name, weft_wait_name(info.wait),
                              (unsigned long long)info.wait_task_id);
        used += length > 0 ? (size_t)length : 0;
    }
}

static void print_deadlock(weft_runtime *runtime, const weft_deadlock *deadlock)
{
    char line[160];
    int length =
        snprintf(line, sizeof(line), "weft: deadlock: all %zu tasks wait for each other; %s:\n",
                 deadlock->count, deadlock->cycle_count > 0 ? "in a cycle" : "tasks");
    /* Nobody to tell of an error. */
    (void)wf_file_write(STDERR_FILENO, line, (size_t)length);
    (void)wf_file_write(STDERR_FILENO, deadlock->text, strlen(deadlock->text));
    (void)weft_dump(runtime, STDERR_FILENO);
}

/* What is found out about a deadlock. */
struct inquiry {
    struct gathering all; /* room for the cycle behind it */
    char *text;           /* NULL, as is all.tasks: no memory for it */
    weft_deadlock found;
};
enum { TEXT_SIZE = 4096 };

/* [world stopped] */
static void describe_deadlock(weft_runtime *runtime, struct inquiry *inquiry)
{
    struct gathering *all = &inquiry->all;
    if (all->tasks == NULL || inquiry->text == NULL) {
        WF_REACHED("quiet.no_memory_for_details");
        return;
    }
    wf_task_pool_visit(runtime->pool, gather, all);
    const struct weft_task **cycle = all->tasks + all->max;
    const size_t length = find_cycle(all, cycle);
    inquiry->found.cycle_count = length;
    inquiry->found.cycle = cycle;
    describe(inquiry->text, TEXT_SIZE, length > 0 ? cycle : all->tasks,
             length > 0 ? length : all->count);
}

static void tell_deadlock(weft_runtime *runtime, const weft_deadlock *deadlock)
{
    if (runtime->options.on_deadlock != NULL) {
        runtime->options.on_deadlock(runtime->options.hook_context, deadlock);
    } else {
        print_deadlock(runtime, deadlock);
    }
    wf_join_main_break(runtime);
}

/* [loop, control thread] */
static void look_for_deadlock(weft_runtime *runtime, size_t live)
{
    const bool is_control = runtime->reactor != NULL;
    const size_t size = 2 * sizeof(const struct weft_task *);
    struct inquiry inquiry = {.all = {.tasks = wf_alloc_zeroed(live, size), .max = live},
                              .text = wf_alloc_zeroed(1, TEXT_SIZE)};
    inquiry.found = (weft_deadlock){.count = live, .text = inquiry.text ? inquiry.text : ""};
    bool is_found = false;
    if (is_control || wf_world_try_stop(runtime)) {
        is_found = is_deadlock(runtime, live);
        if (is_found) {
            describe_deadlock(runtime, &inquiry);
        }
        if (!is_control) {
            wf_world_resume(runtime);
        }
    } else {
        WF_REACHED("quiet.not_quiet_any_more");
        wf_store_relaxed(&runtime->quiet_at, 0); /* relaxed: a hint.  Who is awake comes here */
    }
    if (is_found) {
        tell_deadlock(runtime, &inquiry.found);
    }
    wf_free(inquiry.all.tasks);
    wf_free(inquiry.text);
}

void wf_runtime_quiet(weft_runtime *runtime)
{
    wf_store_relaxed(&runtime->quiet_at, activity(runtime)); /* relaxed: a hint */
    wf_failures_report(runtime);
    /* (C1) Either the closer, who says so and then counts, sees what ended, or we see the closer.
     */
    wf_fence_seq_cst();
    if (wf_load_relaxed(&runtime->is_closing) != 0) {
        wf_parker_unpark(&runtime->closer);
        return;
    }
    uint64_t live = wf_runtime_live(runtime);
    if (may_all_wait_for_tasks(runtime, live)) {
        look_for_deadlock(runtime, (size_t)live);
    }
}
