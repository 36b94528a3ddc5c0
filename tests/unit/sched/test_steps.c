/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the documented steps of a task and of the reactor happen in the documented order.
 * Method: traces of small programs, read back; those of a task are compared with the table "The
 *         life of a task" of ARCHITECTURE.md itself, so that neither can change without the other.
 *         Further properties of the reactor's loop: no early wake is lost, it sleeps without a
 *         timeout, and it hands out at most one task per worker.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "helpers.h"
#include "sched/wait.h"
#include "sched_helpers.h"
#include "trace_helpers.h"

/* ---- the life of a task -------------------------------------------------------------------- */

enum { STEPS = 10 };

/* Reads the events of the table from its rows "| 1 | function | file | what | event |". */
static void read_table(char names[STEPS][NAME_SIZE])
{
    char line[1024];
    int rows = 0;
    bool is_in_section = false;
    FILE *file = fopen(WEFT_ARCHITECTURE, "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "## ", 3) == 0) {
            is_in_section = strcmp(line, "## The life of a task\n") == 0;
        }
        int step = 0;
        if (is_in_section && sscanf(line, "| %d |", &step) == 1) { // NOLINT(cert-err34-c): compared
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

struct lifecycle {
    wf_atomic_u64 id;
    wf_atomic_u32 child_ran;
};

/* Waits once, for a child task. */
static intptr_t await_child(void *arg)
{
    struct lifecycle *lifecycle = arg;
    wf_store_relaxed(&lifecycle->id, weft_task_id(weft_self()));
    CHECK_EQ(weft_await(go(count_up, &lifecycle->child_ran)), 0);
    return 0;
}

/* One parked worker, and a detached task from outside: its whole life is in the trace. */
static struct trace_log trace_task(const weft_runtime_options *options, uint64_t *task_id)
{
    weft_runtime *runtime = NULL;
    struct lifecycle lifecycle = {.id = {0}};
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    while (stats_of(runtime).parked < 1) {
        (void)sched_yield();
    }
    CHECK_EQ(weft_runtime_spawn(runtime, NULL, await_child, &lifecycle, NULL), 0);
    wait_until_done(runtime);
    struct trace_log trace_log = trace_log_read(runtime);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    *task_id = wf_load_relaxed(&lifecycle.id); /* the last worker has been joined */
    return trace_log;
}

/* A notify event names the worker and no task: the first one after the spawn counts. */
static bool belongs_to_task(const struct event *event, uint64_t task_id, bool is_notified)
{
    return event->task_id == task_id || (!is_notified && strcmp(event->name, "notify") == 0);
}

/* Returns whether a parked worker was notified: a worker that is about to park finds the task
 * without a notify. */
static bool has_notify(const struct trace_log *trace_log)
{
    for (size_t i = 0; i < trace_log->count; i++) {
        if (strcmp(trace_log->events[i].name, "notify") == 0) {
            return true;
        }
    }
    return false;
}

static void check_lifecycle(const struct trace_log *trace_log, uint64_t task_id,
                            char names[STEPS][NAME_SIZE])
{
    /* The ten steps, and after the wake-up again from the second step, without a notify. */
    const int order[] = {0, 1, 2, 3, 4, 5, 6, 7, 1, 3, 4, 8, 9};
    const size_t count = sizeof(order) / sizeof(order[0]);
    size_t next = 0;
    bool is_notified = false;
    for (size_t i = find_event(trace_log, 0, names[0], task_id); i < trace_log->count; i++) {
        const struct event *event = &trace_log->events[i];
        if (belongs_to_task(event, task_id, is_notified)) {
            CHECK(next < count);
            CHECK_STR(event->name, names[order[next]]);
            is_notified = is_notified || strcmp(event->name, "notify") == 0;
            next++;
        }
    }
    CHECK_EQ(next, count);
}

static void task_lifecycle_matches_the_table_of_the_architecture(void)
{
    const enum weft_order orders[] = {WEFT_ORDER_FAIR, WEFT_ORDER_DEPTH_FIRST};
    char names[STEPS][NAME_SIZE];
    read_table(names);
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        tap_doing("order %d", (int)orders[i]);
        const struct setting setting = {WEFT_POLICY_STEAL, orders[i], 1};
        weft_runtime_options options = options_of(&setting);
        options.trace_events = EVENTS;
        uint64_t task_id = 0;
        struct trace_log trace_log = trace_task(&options, &task_id);
        while (!has_notify(&trace_log)) { /* the worker had not parked yet: repeat */
            free(trace_log.events);
            trace_log = trace_task(&options, &task_id);
        }
        check_lifecycle(&trace_log, task_id, names);
        free(trace_log.events);
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

/* Checks that each step follows the previous one, and returns the number of complete iterations. */
static unsigned check_steps(const struct trace_log *trace_log)
{
    uint64_t last = 0;
    unsigned iterations = 0;
    for (size_t i = 0; i < trace_log->count; i++) {
        const struct event *event = &trace_log->events[i];
        if (strcmp(event->name, "step") == 0) {
            CHECK(event->arg >= 1 && event->arg <= REACTOR_STEPS);
            CHECK(last == 0 || event->arg == last % REACTOR_STEPS + 1);
            last = event->arg;
            iterations += last == REACTOR_STEPS ? 1 : 0;
        }
    }
    return iterations;
}

/* behaviour 61, part of S1.5-S1.13: for the work of each step see test_reactor.c */
static void reactor_takes_its_nine_steps_in_order(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        weft_runtime *runtime = open_reactor(workers, 1u << 16);
        weft_task *task = go_into(runtime, run_some, NULL);
        const uint64_t task_id = weft_task_id(task);
        CHECK_EQ(weft_await(task), 0);
        wait_until_done(runtime);
        struct trace_log trace_log = trace_log_read(runtime);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK(check_steps(&trace_log) >= 2);
        check_handout(&trace_log, 0, task_id);
        free(trace_log.events);
    }
}

static intptr_t call_blocking(void *arg)
{
    return weft_blocking_call(echo, arg);
}

/* S1.4, S1.6, S1.7: for I/O see test_reactor.c */
static void reactor_handles_blocking_calls_in_steps_2_and_3(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        weft_runtime *runtime = open_reactor(workers, 1u << 16);
        weft_task *task = go_into(runtime, call_blocking, (void *)7);
        const uint64_t task_id = weft_task_id(task);
        CHECK_EQ(weft_await(task), 7);
        wait_until_done(runtime);
        struct trace_log trace_log = trace_log_read(runtime);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(step_of(&trace_log, "block", task_id), 2);
        CHECK_EQ(step_of(&trace_log, "unblock", task_id), 3);
        free(trace_log.events);
    }
}

struct completion {
    weft_task *task;
    wf_atomic_u32 is_submitted;
    wf_atomic_u32 is_completed;
    int plain; /* the result for which the task waits */
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

/* Like a driver: the request is submitted, its completion comes, and the task suspends only then.
 * */
static intptr_t suspend_late(void *arg)
{
    struct completion *completion = arg;
    struct weft_task *self = wf_task_self();
    completion->task = self;
    raise_by_one(&completion->is_submitted);
    hold_for(&completion->is_completed, 1);
    wf_wait_begin(self, WEFT_WAIT_WORLD, completion); /* a wait for no task */
    wf_task_suspend(self);                            /* hangs if the wake was lost */
    wf_wait_end(self);
    return completion->plain;
}

/* behaviour 62, S1.20: under both policies */
static void wake_by_a_driver_before_the_suspension_is_not_lost(void)
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

/* Returns the thread id of the thread with this name, or 0. */
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
        if (file != NULL) { /* or the thread has ended */
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

/* Waits until the control thread sleeps; it sets its name when it begins to run. */
static void wait_for_control(void)
{
    int thread_id = 0;
    while ((thread_id = thread_named("weft-control")) == 0) {
        (void)sched_yield();
    }
    wait_until_asleep(thread_id);
}

/* behaviour 63: with nothing to run the control thread sleeps without a timeout, so only the push
 * can wake it */
static void reactor_is_woken_by_a_push(void)
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
static void reactor_hands_out_at_most_one_task_per_worker(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        weft_runtime *runtime = open_reactor(workers, 0);
        wf_atomic_u32 cells[2] = {{0}, {0}};
        weft_task *tasks[TASKS];
        for (int i = 0; i < TASKS; i++) {
            tasks[i] = go_into(runtime, begin_and_hold, cells);
        }
        wait_for(&cells[0], workers);
        wait_for_control();                            /* it has handed out what it can */
        CHECK_EQ(wf_load_acquire(&cells[0]), workers); /* pairs with raise_by_one */
        CHECK_EQ(stats_of(runtime).global_depth, TASKS - workers);
        for (unsigned i = 0; i < workers; i++) {
            CHECK(wf_load_relaxed(&runtime->workers[i].reactor.handoff) == NULL);
        }
        raise_by_one(&cells[1]);
        CHECK_EQ(weft_await_all(tasks, TASKS, NULL), 0);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(task_lifecycle_matches_the_table_of_the_architecture),
    TAP_TEST(reactor_takes_its_nine_steps_in_order),
    TAP_TEST(reactor_handles_blocking_calls_in_steps_2_and_3),
    TAP_TEST(wake_by_a_driver_before_the_suspension_is_not_lost),
    TAP_TEST(reactor_is_woken_by_a_push),
    TAP_TEST(reactor_hands_out_at_most_one_task_per_worker),
};
TAP_MAIN(tests)
