/* SPDX-License-Identifier: MIT */
/*
 * Goal:   what is written of the steps of a task and of the reactor is what happens, in that order.
 * Method: traces of small programs, read back; those of a task are compared with the table "The
 *         life of a task" of ARCHITECTURE.md itself, so neither can change without the other.
 *         Besides, what the reactor's loop promises: nothing that comes early is lost, it sleeps
 *         without a timeout, and hands out no more than it has workers.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aids.h"
#include "sched/sched.h"
#include "sched_aids.h"
#include "story_aids.h"

/* ---- the life of a task -------------------------------------------------------------------- */

enum { STEPS = 10 };

/* The events of the table, by its rows "| 1 | function | file | what | event |". */
static void read_table(char names[STEPS][NAME_SIZE])
{
    char line[1024];
    int rows = 0;
    bool is_inside = false;
    FILE *file = fopen(WEFT_ARCHITECTURE, "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "## ", 3) == 0) {
            is_inside = strcmp(line, "## The life of a task\n") == 0;
        }
        int step = 0;
        if (is_inside && sscanf(line, "| %d |", &step) == 1) { // NOLINT(cert-err34-c): compared
            CHECK(rows < STEPS);
            CHECK_EQ(step, rows + 1);
            char *end = strrchr(line, '|');
            CHECK(end != NULL);
            *end = '\0';
            const char *last = strrchr(line, '|');
            CHECK(last != NULL);
            CHECK_EQ(sscanf(last, "| %15s", names[rows]), 1);
            rows++;
        }
    }
    CHECK_EQ(fclose(file), 0);
    CHECK_EQ(rows, STEPS);
}

struct life {
    wf_atomic_u64 id;
    wf_atomic_u32 child_ran;
};

/* Waits once, for a task of its own. */
static intptr_t live(void *arg)
{
    struct life *life = arg;
    wf_store_relaxed(&life->id, weft_task_id(weft_self()));
    CHECK_EQ(weft_await(go(count_up, &life->child_ran)), 0);
    return 0;
}

/* A worker that sleeps, a task from outside, which nobody keeps: the whole life is in the trace. */
static struct story trace_a_life(const weft_options *options, uint64_t *task_id)
{
    weft_runtime *runtime = NULL;
    struct life life = {.id = {0}};
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    while (stats_of(runtime).parked < 1) {
        (void)sched_yield();
    }
    CHECK_EQ(weft_runtime_spawn(runtime, NULL, live, &life, NULL), 0);
    wait_until_done(runtime);
    struct story story = story_of(runtime);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    *task_id = wf_load_relaxed(&life.id); /* the last worker is joined */
    return story;
}

/* A call for a sleeper names the worker and no task: the one after the spawn is meant. */
static bool is_of(const struct event *event, uint64_t task_id, bool is_notified)
{
    return event->task_id == task_id || (!is_notified && strcmp(event->name, "notify") == 0);
}

/* Whether a sleeper was called: who is on its way to sleep finds the task by itself. */
static bool has_call(const struct story *story)
{
    for (size_t i = 0; i < story->count; i++) {
        if (strcmp(story->events[i].name, "notify") == 0) {
            return true;
        }
    }
    return false;
}

static void check_life(const struct story *story, uint64_t task_id, char names[STEPS][NAME_SIZE])
{
    /* The ten steps, and after the wake-up again from the second on, without a sleeper to call. */
    const int order[] = {0, 1, 2, 3, 4, 5, 6, 7, 1, 3, 4, 8, 9};
    const size_t count = sizeof(order) / sizeof(order[0]);
    size_t next = 0;
    bool is_notified = false;
    for (size_t i = find_event(story, 0, names[0], task_id); i < story->count; i++) {
        const struct event *event = &story->events[i];
        if (is_of(event, task_id, is_notified)) {
            CHECK(next < count);
            CHECK_STR(event->name, names[order[next]]);
            is_notified = is_notified || strcmp(event->name, "notify") == 0;
            next++;
        }
    }
    CHECK_EQ(next, count);
}

static void a_task_takes_the_ten_steps_of_the_table(void)
{
    const enum weft_order orders[] = {WEFT_ORDER_FAIR, WEFT_ORDER_DEPTH_FIRST};
    char names[STEPS][NAME_SIZE];
    read_table(names);
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        tap_doing("order %d", (int)orders[i]);
        const struct setting setting = {WEFT_POLICY_STEAL, orders[i], 1};
        weft_options options = options_of(&setting);
        options.trace_events = EVENTS;
        uint64_t task_id = 0;
        struct story story = trace_a_life(&options, &task_id);
        while (!has_call(&story)) { /* it did not sleep yet, though it said so: another one */
            free(story.events);
            story = trace_a_life(&options, &task_id);
        }
        check_life(&story, task_id, names);
        free(story.events);
    }
}

/* ---- the steps of the reactor -------------------------------------------------------------- */

enum { REACTOR_STEPS = 9, TASKS = 50, YIELDS = 5 };

static intptr_t yield_some(void *arg)
{
    (void)arg;
    for (int i = 0; i < YIELDS; i++) {
        (void)weft_yield();
    }
    return 0;
}

static intptr_t run_some(void *arg)
{
    (void)arg;
    weft_task *tasks[TASKS];
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = go(yield_some, NULL);
    }
    return weft_await_all(tasks, TASKS, NULL);
}

/* Step follows step, from whichever it begins with; gives how often all were gone through. */
static unsigned check_steps(const struct story *story)
{
    uint64_t last = 0;
    unsigned rounds = 0;
    for (size_t i = 0; i < story->count; i++) {
        const struct event *event = &story->events[i];
        if (strcmp(event->name, "step") == 0) {
            CHECK(event->arg >= 1 && event->arg <= REACTOR_STEPS);
            CHECK(last == 0 || event->arg == last % REACTOR_STEPS + 1);
            last = event->arg;
            rounds += last == REACTOR_STEPS ? 1 : 0;
        }
    }
    return rounds;
}

/* behaviour 61, part of S1.5-S1.13: what is taken in each of them is in test_reactor.c */
static void the_nine_steps_of_the_reactor_are_taken_in_order(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        weft_runtime *runtime = open_reactor(workers, 1u << 16);
        weft_task *task = go_into(runtime, run_some, NULL);
        const uint64_t task_id = weft_task_id(task);
        CHECK_EQ(weft_await(task), 0);
        wait_until_done(runtime);
        struct story story = story_of(runtime);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK(check_steps(&story) >= 2);
        check_way(&story, 0, task_id);
        free(story.events);
    }
}

static intptr_t call_a_function(void *arg)
{
    return weft_blocking(echo, arg);
}

/* S1.4, S1.6, S1.7: for I/O see test_reactor.c */
static void blocking_work_goes_through_steps_two_and_three(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        weft_runtime *runtime = open_reactor(workers, 1u << 16);
        weft_task *task = go_into(runtime, call_a_function, (void *)7);
        const uint64_t task_id = weft_task_id(task);
        CHECK_EQ(weft_await(task), 7);
        wait_until_done(runtime);
        struct story story = story_of(runtime);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(step_of(&story, "block", task_id), 2);
        CHECK_EQ(step_of(&story, "unblock", task_id), 3);
        free(story.events);
    }
}

struct completion {
    weft_task *task;
    wf_atomic_u32 is_submitted;
    wf_atomic_u32 is_completed;
    int plain; /* what the task waits for */
};

static void *complete_early(void *arg)
{
    struct completion *completion = arg;
    wait_for(&completion->is_submitted, 1);
    completion->plain = 7;
    wf_task_wake(completion->task);
    raise_by_one(&completion->is_completed);
    return NULL;
}

/* As a driver would do it: the request is out, its completion comes, and only then the task is
 * suspended. */
static intptr_t suspend_late(void *arg)
{
    struct completion *completion = arg;
    struct weft_task *self = wf_task_self();
    completion->task = self;
    raise_by_one(&completion->is_submitted);
    hold_for(&completion->is_completed, 1);
    wf_wait_begin(self, WEFT_WAIT_WORLD, completion); /* a wait that is for no task */
    wf_task_suspend(self);                            /* for ever, had the wake been lost */
    wf_wait_end(self);
    return completion->plain;
}

/* behaviour 62, S1.20: under the reactor, and under the other policy as well */
static void a_completion_before_the_suspension_is_not_lost(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (int i = 0; i < 20; i++) {
            struct completion completion = {.plain = 0};
            pthread_t thread;
            CHECK_EQ(wf_thread_start(&thread, complete_early, &completion, NULL), 0);
            CHECK_EQ(weft_await(go_into(runtime, suspend_late, &completion)), 7);
            CHECK_EQ(wf_thread_join(thread), 0);
        }
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

/* The thread of the process that has this name. */
static int thread_named(const char *wanted)
{
    int found = 0;
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder != NULL);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[300];
        char name[NAME_SIZE + 1] = "";
        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL) { /* or it has gone meanwhile */
            (void)!fscanf(file, "%16s", name);
            (void)fclose(file);
        }
        if (strcmp(name, wanted) == 0) {
            found = (int)strtol(entry->d_name, NULL, 10);
        }
    }
    CHECK_EQ(closedir(folder), 0);
    return found;
}

/* Until the control thread sleeps; it takes its name when it begins to run. */
static void wait_for_control(void)
{
    int thread_id = 0;
    while ((thread_id = thread_named("weft-control")) == 0) {
        (void)sched_yield();
    }
    wait_until_asleep(thread_id);
}

/* behaviour 63: with nothing to run it sleeps without a timeout, so only the push can wake it */
static void a_push_wakes_the_reactor(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        weft_runtime *runtime = open_reactor(workers, 0);
        for (int i = 0; i < 50; i++) {
            while (stats_of(runtime).parked < workers) {
                (void)sched_yield();
            }
            wait_for_control();
            CHECK_EQ(weft_await(go_into(runtime, echo, (void *)7)), 7);
        }
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

static intptr_t begin_and_hold(void *arg)
{
    wf_atomic_u32 *cells = arg; /* begun, open */
    raise_by_one(&cells[0]);
    hold_for(&cells[1], 1);
    return 0;
}

/* behaviour 64, S1.27 */
static void no_more_tasks_are_handed_out_than_there_are_workers(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        weft_runtime *runtime = open_reactor(workers, 0);
        wf_atomic_u32 cells[2] = {{0}, {0}};
        weft_task *tasks[TASKS];
        for (int i = 0; i < TASKS; i++) {
            tasks[i] = go_into(runtime, begin_and_hold, cells);
        }
        wait_for(&cells[0], workers);
        wait_for_control();                            /* it has done what it can */
        CHECK_EQ(wf_load_acquire(&cells[0]), workers); /* to raise_by_one */
        CHECK_EQ(stats_of(runtime).global_depth, TASKS - workers);
        for (unsigned i = 0; i < workers; i++) {
            CHECK(wf_load_relaxed(&runtime->workers[i].hand) == NULL);
        }
        raise_by_one(&cells[1]);
        CHECK_EQ(weft_await_all(tasks, TASKS, NULL), 0);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(a_task_takes_the_ten_steps_of_the_table),
    TAP_TEST(the_nine_steps_of_the_reactor_are_taken_in_order),
    TAP_TEST(blocking_work_goes_through_steps_two_and_three),
    TAP_TEST(a_completion_before_the_suspension_is_not_lost),
    TAP_TEST(a_push_wakes_the_reactor),
    TAP_TEST(no_more_tasks_are_handed_out_than_there_are_workers),
};
TAP_MAIN(tests)
