/* SPDX-License-Identifier: MIT */
/*
 * sched/quiet.c - the moment at which nothing runs and nothing is queued.
 *
 * The last worker that falls asleep comes here, if anything has run since the last time: failures
 * that nobody saw are reported, a deadlock is found, and who closes the runtime looks again.
 *
 * A deadlock: every task that is alive waits for the end of tasks of this runtime.  Only a task
 * could end one of these waits, and none runs.  That is known by counting, so a runtime in which a
 * million tasks wait for something else pays a few additions; only when the numbers agree are tasks
 * looked at one by one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sched/sched.h"

/* Grows with everything that happens. */
static uint64_t activity(weft_runtime *runtime)
{
    uint64_t sum = wf_counter_read(&runtime->foreign.spawned) + 1;
    for (unsigned i = 0; i < runtime->worker_count; i++) {
        sum += wf_counter_read(&runtime->workers[i].counters.polled);
    }
    return sum;
}

bool wf_runtime_is_news(weft_runtime *runtime)
{
    return activity(runtime) != wf_load_relaxed(&runtime->quiet_at); /* relaxed: a hint */
}

/* ---- deadlocks ----------------------------------------------------------------------------- */

static bool all_wait_for_tasks(weft_runtime *runtime, uint64_t live)
{
    uint64_t ended = 0;
    uint64_t begun = 0;
    for (unsigned i = 0; i < runtime->worker_count; i++) {
        ended += wf_counter_read(&runtime->workers[i].counters.waits_ended);
        begun += wf_counter_read(&runtime->workers[i].counters.waits_for_task);
    }
    return live > 0 && begun - ended == live;
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
static const struct weft_task *awaited(const struct gathering *all, const struct weft_task *task)
{
    const uint32_t wait = wf_load_relaxed(&task->wait); /* relaxed: nothing runs */
    const uintptr_t object = wf_load_relaxed(&task->wait_object);
    for (size_t i = 0; i < all->count; i++) {
        if ((wait == WEFT_WAIT_TASK && (uintptr_t)all->tasks[i] == object) ||
            (wait == WEFT_WAIT_SCOPE && (uintptr_t)all->tasks[i]->scope == object)) {
            return all->tasks[i];
        }
    }
    return NULL;
}

/* Follows the waits from the first task; after as many steps as there are tasks it is in a cycle,
 * if there is one.  Gives the length of the cycle, its tasks in `cycle`. */
static size_t find_cycle(const struct gathering *all, const struct weft_task **cycle)
{
    const struct weft_task *task = all->tasks[0];
    for (size_t i = 0; i < all->count && task != NULL; i++) {
        task = awaited(all, task);
    }
    size_t length = 0;
    const struct weft_task *first = task;
    while (task != NULL && (length == 0 || task != first)) {
        cycle[length++] = task;
        task = awaited(all, task);
    }
    return task != NULL ? length : 0;
}

/* One line a task, as many as fit. */
static void describe(char *text, size_t size, const struct weft_task *const *tasks, size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used + 1 < size; i++) {
        weft_info info;
        wf_task_describe(tasks[i], &info);
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

static void report_deadlock(weft_runtime *runtime, uint64_t live)
{
    enum { TEXT_SIZE = 4096 };
    const size_t max = (size_t)live;
    struct gathering all = {.tasks = wf_alloc_zeroed(max, 2 * sizeof(all.tasks[0])), .max = max};
    char *text = wf_alloc_zeroed(1, TEXT_SIZE);
    if (all.tasks != NULL && text != NULL) {
        wf_task_pool_visit(runtime->pool, gather, &all);
    }
    weft_deadlock deadlock = {.count = max, .text = text != NULL ? text : ""};
    if (all.count > 0) {
        const struct weft_task **cycle = all.tasks + max;
        deadlock.cycle_count = find_cycle(&all, cycle);
        deadlock.cycle = cycle;
        bool is_cycle = deadlock.cycle_count > 0;
        describe(text, TEXT_SIZE, is_cycle ? cycle : all.tasks,
                 is_cycle ? deadlock.cycle_count : all.count);
    }
    if (runtime->options.on_deadlock != NULL) {
        runtime->options.on_deadlock(runtime->options.hook_context, &deadlock);
    } else {
        print_deadlock(runtime, &deadlock);
    }
    wf_free(all.tasks);
    wf_free(text);
    wf_join_main_break(runtime);
}

void wf_runtime_quiet(weft_runtime *runtime)
{
    wf_store_relaxed(&runtime->quiet_at, activity(runtime)); /* relaxed: a hint */
    if (wf_load_relaxed(&runtime->failures_noted) > 0) {     /* relaxed: the lock decides */
        wf_failures_report(runtime);
    }
    /* (C1) Either the closer, who says so and then counts, sees what ended, or we see the closer.
     */
    wf_fence_seq_cst();
    if (wf_load_relaxed(&runtime->is_closing) != 0) {
        wf_parker_unpark(&runtime->closer);
        return;
    }
    uint64_t live = wf_runtime_live(runtime);
    if (all_wait_for_tasks(runtime, live)) {
        report_deadlock(runtime, live);
    }
}
