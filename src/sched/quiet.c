/* SPDX-License-Identifier: MIT */
/*
 * sched/quiet.c - the moment at which nothing runs and nothing is queued.
 *
 * The last worker that falls asleep comes here, if anything has run since the last time: failures
 * that nobody saw are reported, a deadlock is found, and who closes the runtime looks again.
 *
 * A deadlock: every task that is alive waits for the end of tasks of this runtime, or for a lock
 * that one of them has, and no deadline is set.  Only a task could end one of these waits, and none
 * runs.  A wait for anything else that tasks and threads share, a semaphore or a channel, could
 * also be ended by a foreign thread: so it counts too if there is none, that is no thread in the
 * process but the workers and the one that waits in weft_run.
 *
 * That is known by counting, so a runtime in which a million tasks wait for something else pays a
 * few additions, and perhaps a look at the number of threads; only when the numbers agree are tasks
 * looked at one by one.
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
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
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
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        if (wf_load_acquire(&runtime->workers[i].rounds) % 2 != 0) { /* (Y1) */
            return true;
        }
    }
    return false;
}

/* A thread that is none of this runtime's, and not the one that waits in weft_run; or one that runs
 * a blocking function, which can do what any of those can. */
static bool is_anybody_outside(weft_runtime *runtime)
{
    const struct wf_monitor *monitor = &runtime->monitor;
    /* All relaxed: a thread that is counted is there. */
    const unsigned ours = runtime->worker_count + (unsigned)wf_counter_read(&monitor->started) +
                          wf_load_relaxed(&monitor->is_started) +
                          (runtime->reactor != NULL ? 1 : 0) +
                          wf_blocking_resting(&runtime->blocking) +
                          wf_load_relaxed(&runtime->has_main); /* relaxed: set before a spawn */
    const unsigned count = wf_thread_count();
    return count == 0 || count > ours;
}

/* By the counters, which costs little: whether it is worth to look at the tasks. */
static bool may_all_wait(weft_runtime *runtime, uint64_t live)
{
    uint64_t for_tasks = 0;
    uint64_t in_sync = 0;
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        const struct wf_counters *counters = &runtime->workers[i].counters;
        for_tasks -= wf_counter_read(&counters->waits_ended);
        for_tasks += wf_counter_read(&counters->waits_for_task);
        in_sync -= wf_counter_read(&counters->sync_waits_ended);
        in_sync += wf_counter_read(&counters->waits_in_sync);
    }
    if (live == 0 || for_tasks + in_sync != live) {
        return false;
    }
    return in_sync == 0 || !is_anybody_outside(runtime);
}

static const struct weft_task *holder(const struct weft_task *task);

/* [world stopped]  Nobody but a task of this runtime can end the wait of this one. */
static bool is_closed_in(const struct weft_task *task, bool is_anybody_outside)
{
    const uint32_t wait = wf_load_relaxed(&task->wait); /* relaxed: idle */
    if (wf_wait_is_for_task(wait)) {
        return true;
    }
    if (wf_wait_is_for_lock(wait) && holder(task) != NULL) {
        return true;
    }
    return wf_wait_is_in_sync(wait) && !is_anybody_outside;
}

/* Tasks that are alive, and those of them that wait for each other. */
struct census {
    bool is_anybody_outside;
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
        bool is_waiting =
            view.lifecycle == WF_IDLE && is_closed_in(task, census->is_anybody_outside);
        census->waiting += is_waiting ? 1 : 0;
    }
}

/* [world stopped]  Every task waits for others; as many are alive as when we counted before. */
static bool is_deadlock(weft_runtime *runtime, size_t live)
{
    struct census census = {.is_anybody_outside = is_anybody_outside(runtime)};
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

/* The task of the same runtime that has the lock which this one waits for; NULL: none has it, or it
 * is the task itself: a foreign thread has just handed it over, and is about to wake it. */
static const struct weft_task *holder(const struct weft_task *task)
{
    const struct wf_parting *parting = task->partings;
    while (parting != NULL && parting->awaited == NULL) {
        parting = parting->next;
    }
    const struct weft_task *found = parting != NULL ? parting->awaited(parting) : NULL;
    return found != NULL && found != task && found->pool == task->pool ? found : NULL;
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
    case WEFT_WAIT_MUTEX:
    case WEFT_WAIT_RWLOCK:
        return holder(task);
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

/* A line; its length, were it not cut. */
static size_t describe_one(char *text, size_t size, const struct weft_task *task)
{
    weft_info info;
    int length;
    wf_task_describe(task->pool->runtime, task, false, &info);
    const unsigned long long id = (unsigned long long)info.id;
    const struct weft_task *has_it = wf_wait_is_for_lock(info.wait) ? holder(task) : NULL;
    if (has_it != NULL) {
        char name[WEFT_NAME_SIZE];
        wf_task_name(has_it, name);
        length =
            snprintf(text, size, "task %llu \"%s\" waits for %s %p, which task %llu \"%s\" has\n",
                     id, info.name, weft_wait_name(info.wait), info.wait_object,
                     (unsigned long long)wf_task_id(has_it), name);
    } else if (wf_wait_is_in_sync(info.wait)) {
        length = snprintf(text, size, "task %llu \"%s\" waits for %s %p\n", id, info.name,
                          weft_wait_name(info.wait), info.wait_object);
    } else {
        length = snprintf(text, size, "task %llu \"%s\" waits for %s %llu\n", id, info.name,
                          weft_wait_name(info.wait), (unsigned long long)info.wait_task_id);
    }
    return length > 0 ? (size_t)length : 0;
}

/* One line a task, as many as fit. */
static void describe(char *text, size_t size, const struct weft_task *const *tasks, size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used + 1 < size; i++) {
        used += describe_one(text + used, size - used, tasks[i]);
    }
}

static void print_deadlock(weft_runtime *runtime, const weft_deadlock *deadlock)
{
    char line[160];
    int length = snprintf(line, sizeof(line), "weft: deadlock: %s %zu %s; %s:\n",
                          deadlock->count == 1 ? "the" : "all", deadlock->count,
                          deadlock->count == 1 ? "task waits, and nobody is left to wake it"
                                               : "tasks wait for each other",
                          deadlock->cycle_count > 0 ? "in a cycle" : "tasks");
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

/* [world stopped]  Of tasks, so far; and one. */
static uint64_t turns(weft_runtime *runtime)
{
    uint64_t sum = 1;
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        sum += wf_counter_read(&runtime->workers[i].counters.polled);
    }
    return sum;
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
        /* Somebody woke up and found it once more, before anybody could do something about it. */
        const uint64_t now = turns(runtime);
        is_found = runtime->told_at != now && is_deadlock(runtime, live);
        if (is_found) {
            runtime->told_at = now;
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
    if (may_all_wait(runtime, live)) {
        look_for_deadlock(runtime, (size_t)live);
    }
}
