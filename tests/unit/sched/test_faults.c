/* SPDX-License-Identifier: MIT */
/*
 * Goal:   when the machine refuses memory, a mapping, a thread or a write, the call that needed it
 *         returns an error, nothing leaks, and the runtime continues.
 * Method: the test repeats each operation, and in each round the next of its fallible calls fails,
 *         until no call is left. Then it repeats the operation, and in each round all memory is
 *         gone after the next allocation. After each round it counts the allocated blocks, and the
 *         same runtime must run another task. Futex waits do not fail: every thread uses them at
 *         any time, so rounds would not be repeatable.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fault_helpers.h"
#include "proc_helpers.h"
#include "sched_helpers.h"

#ifdef WF_TEST_HOOKS

/* ---- open ------------------------------------------------------------------------------------ */

static void check_open_error(const struct faults *faults, int rc)
{
    if (rc == -EINVAL) {
        CHECK(is_hit(faults, "sigaction"));
    } else if (rc == -EAGAIN) {
        CHECK(is_hit(faults, "pthread_create"));
    } else {
        CHECK_EQ(rc, -ENOMEM);
        CHECK(faults->what != NULL);
    }
}

static void open_with_each_fault(const weft_runtime_options *options)
{
    struct faults faults = {0};
    while (faults_next(&faults)) {
        weft_runtime *const untouched = (weft_runtime *)(void *)&faults;
        weft_runtime *runtime = untouched;
        faults_begin(&faults);
        int rc = weft_runtime_open(&runtime, options);
        faults_end(&faults);
        if (rc != 0) {
            faults.refused++;
            check_open_error(&faults, rc);
            CHECK(runtime == untouched);
            expect_threads(0);
        } else {
            CHECK_EQ(weft_await(go_into(runtime, echo, (void *)7)), 7);
            CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        }
    }
    /* The runtime, its workers, their queues, threads and signal stacks, the trace rings. */
    CHECK(faults.refused >= 10);
    expect_threads(0);
}

/* part of S0.6 */
static void runtime_open_succeeds_completely_or_fails_without_leaks(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        tour.options.trace_events = 16;
        open_with_each_fault(&tour.options);
    }
}

static void runtime_open_with_default_workers_survives_each_fault(void)
{
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 0};
    const weft_runtime_options options = options_of(&setting);
    open_with_each_fault(&options);
}

static void run_returns_the_error_of_each_fault(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        struct faults faults = {0};
        while (faults_next(&faults)) {
            faults_begin(&faults);
            intptr_t result = weft_run(echo, (void *)7, &tour.options);
            faults_end(&faults);
            if (result != 7) {
                faults.refused++;
                check_open_error(&faults, (int)result);
            }
        }
        CHECK(faults.refused >= 12); /* as above, and the task and the stack of `echo` */
    }
}

/* ---- spawn ----------------------------------------------------------------------------------- */

enum { TASKS = 6 };

struct batch {
    wf_atomic_u32 started;
    wf_atomic_u32 open;
    weft_task *tasks[TASKS];
    intptr_t results[TASKS];
};

static intptr_t start_and_stand_by(void *arg)
{
    struct batch *batch = arg;
    raise_by_one(&batch->started);
    wait_for(&batch->open, 1);
    return 7;
}

static unsigned count_ended(const struct batch *batch)
{
    unsigned ended = 0;
    for (int i = 0; i < TASKS; i++) {
        ended += weft_try_join(batch->tasks[i], NULL) == 0 ? 1 : 0;
    }
    return ended;
}

/* Waits until each task has begun or has failed: then all begun tasks have stacks at the same time.
 * */
static void await_starts(struct batch *batch)
{
    while (wf_load_acquire(&batch->started) + count_ended(batch) < TASKS) { /* raise_by_one */
        let_others_run();
    }
}

static void check_batch(struct faults *faults, struct batch *batch)
{
    unsigned refused = 0;
    for (int i = 0; i < TASKS; i++) {
        CHECK(batch->results[i] == 7 || batch->results[i] == -ENOMEM);
        refused += batch->results[i] == -ENOMEM ? 1 : 0;
    }
    faults_refused(faults, refused);
}

static intptr_t spawn_batch(void *arg)
{
    struct faults *faults = arg;
    struct batch batch = {.open = {0}};
    const weft_task_options options = {.stack_size = (size_t)1 << 20}; /* a slab has four stacks */
    faults_begin(faults);
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(weft_spawn(&batch.tasks[i], start_and_stand_by, &batch, &options), 0);
    }
    await_starts(&batch);
    faults_end(faults);
    raise_by_one(&batch.open);
    int rc = weft_await_all(batch.tasks, TASKS, batch.results);
    CHECK(rc == 0 || rc == -ENOMEM);
    check_batch(faults, &batch);
    return 0;
}

/* S2.52: out of memory is an error of one task, and its worker continues */
static void spawn_without_stack_memory_ends_the_task_with_enomem(void)
{
    fail_each(spawn_batch, 4);
}

static intptr_t read_number(void *arg)
{
    (void)weft_yield();
    return *(const int *)arg;
}

/* Spawns with every task option. */
static intptr_t spawn_with_options(void *arg)
{
    static const weft_task_options options[] = {
        {.name = "named"},
        {.arg_copy = sizeof(int)},
        {.stack_size = (size_t)1 << 20},
        {.keeps_fp_control = true},
        {.is_pinned = true},
        {.priority = WEFT_PRIORITY_HIGH},
        {.priority = WEFT_PRIORITY_LOW},
        {.name = "all",
         .arg_copy = sizeof(int),
         .stack_size = (size_t)2 << 20,
         .keeps_fp_control = true,
         .is_pinned = true,
         .priority = WEFT_PRIORITY_HIGH},
    };
    struct faults *faults = arg;
    unsigned refused = 0;
    int number = 7;
    faults_begin(faults);
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        weft_task *task = weft_self(); /* must stay on error */
        int rc = weft_spawn(&task, read_number, &number, &options[i]);
        CHECK(rc == 0 ? task != weft_self() : task == weft_self());
        intptr_t result = rc == 0 ? weft_await(task) : rc;
        CHECK(result == 7 || result == -ENOMEM);
        refused += result != 7 ? 1 : 0;
    }
    faults_end(faults);
    faults_refused(faults, refused);
    return 0;
}

static void spawn_with_any_option_fails_without_leaks(void)
{
    /* Name; copy; two other stack sizes with a block and a mapping each; both again for the last.
     * */
    fail_each(spawn_with_options, 6);
}

static void spawn_from_a_thread(struct faults *faults, weft_runtime *runtime)
{
    const weft_task_options options = {.name = "named", .arg_copy = sizeof(int)};
    int number = 7;
    weft_task *task = NULL;
    faults_begin(faults);
    int rc = weft_runtime_spawn(runtime, &task, read_number, &number, &options);
    CHECK(rc == 0 || task == NULL);
    intptr_t result = rc == 0 ? weft_await(task) : rc;
    faults_end(faults);
    CHECK(result == 7 || (result == -ENOMEM && faults->what != NULL));
    faults->refused += result != 7 ? 1 : 0;
    CHECK_EQ(weft_await(go_into(runtime, echo, (void *)7)), 7);
}

static void spawn_from_a_non_worker_thread_fails_without_leaks(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        struct faults faults = {0};
        while (faults_next(&faults)) {
            weft_runtime *runtime = NULL;
            CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
            spawn_from_a_thread(&faults, runtime);
            CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        }
        CHECK(faults.refused >= 5); /* a slab of tasks, name and copy, a stack and its mapping */
    }
}

static intptr_t go_in_a_scope(void *arg)
{
    struct faults *faults = arg;
    const weft_task_options options = {.name = "named", .stack_size = (size_t)1 << 20};
    wf_atomic_u32 ran = {0};
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    faults_begin(faults);
    int rc = weft_scope_spawn(&scope, count_up, &ran, &options);
    int close_rc = weft_scope_close(&scope);
    faults_end(faults);
    CHECK(rc == 0 || rc == -ENOMEM);
    CHECK(close_rc == 0 || (rc == 0 && close_rc == -ENOMEM)); /* the task got no stack */
    bool is_refused = rc != 0 || close_rc != 0;
    CHECK_EQ(wf_load_relaxed(&ran), is_refused ? 0 : 1);
    CHECK(!is_refused || faults->what != NULL);
    faults->refused += is_refused ? 1 : 0;
    return 0;
}

static void scope_close_reports_a_task_that_got_no_stack(void)
{
    fail_each(go_in_a_scope, 3);
}

enum { MANY = 100 }; /* more than a slab of tasks or the initial buffer of a deque holds */

static intptr_t go_many(void *arg)
{
    struct faults *faults = arg;
    wf_atomic_u32 ran = {0};
    weft_task *tasks[MANY];
    faults_begin(faults);
    unsigned refused = 0;
    for (int i = 0; i < MANY; i++) {
        tasks[i] = weft_go(count_up, &ran);
        refused += tasks[i] == NULL ? 1 : 0;
    }
    int rc = weft_await_all(tasks, MANY, NULL);
    faults_end(faults);
    faults_refused(faults, refused);
    CHECK_EQ(rc, refused > 0 ? -ENOMEM : 0);
    CHECK_EQ(wf_load_acquire(&ran), MANY - refused); /* pairs with raise_by_one */
    return 0;
}

static void spawned_task_runs_even_if_no_queue_can_grow(void)
{
    fail_each(go_many, 1);
}

/* ---- inside tasks ---------------------------------------------------------------------------- */

static weft_key key;
static unsigned destroyed; /* plain: the end of a task publishes it */

static void destroy(void *value)
{
    CHECK(value == &key);
    destroyed++;
}

static intptr_t keep_a_local(void *arg)
{
    struct faults *faults = arg;
    faults_begin(faults);
    void **slot = weft_key_slot(key);
    faults_end(faults);
    if (slot == NULL) {
        CHECK(is_hit(faults, "alloc"));
        faults->refused++;
        slot = weft_key_slot(key);
    }
    CHECK(slot != NULL);
    CHECK(*slot == NULL);
    *slot = &key;
    return 0;
}

static intptr_t keep_a_local_in_a_child(void *arg)
{
    destroyed = 0;
    CHECK_EQ(weft_await(go(keep_a_local, arg)), 0);
    CHECK_EQ(destroyed, 1);
    return 0;
}

static void task_local_can_be_retried_after_enomem(void)
{
    CHECK_EQ(weft_key_create(&key, destroy), 0);
    fail_each(keep_a_local_in_a_child, 2);
}

static intptr_t fail_with_message(void *arg)
{
    faults_begin(arg);
    weft_fail(-EIO, "disk %d is %s", 7, "full");
}

static intptr_t read_message(void *arg)
{
    struct faults *faults = arg;
    char text[32];
    intptr_t result = 0;
    weft_task *task = go(fail_with_message, faults);
    CHECK_EQ(weft_join(task, &result), 0);
    faults_end(faults);
    CHECK_EQ(result, -EIO);
    int length = weft_task_message(task, text, sizeof(text));
    if (length == 0) {
        CHECK(is_hit(faults, "alloc"));
        faults->refused++;
    } else {
        CHECK_STR(text, "disk 7 is full");
    }
    weft_task_unref(task);
    return 0;
}

static void fail_without_memory_keeps_the_error_code(void)
{
    fail_each(read_message, 2);
}

enum { RACERS = 12 }; /* more than a race holds in its frame */

static intptr_t win(void *arg)
{
    wait_for(arg, 1);
    return 7;
}

static intptr_t race_many(void *arg)
{
    struct faults *faults = arg;
    wf_atomic_u32 never = {0};
    wf_atomic_u32 open = {0};
    weft_task *tasks[RACERS];
    for (int i = 0; i < RACERS; i++) {
        tasks[i] = i == RACERS - 1 ? go(win, &open) : go(stand_by_or_leave, &never);
        while (!info_of(tasks[i]).has_run) { /* then it has a stack */
            let_others_run();
        }
    }
    intptr_t result = 0;
    faults_begin(faults);
    raise_by_one(&open);
    int rc = weft_await_first(tasks, RACERS, &result);
    faults_end(faults);
    if (rc == -ENOMEM) {
        CHECK(is_hit(faults, "alloc"));
        CHECK_EQ(result, 0);
        faults->refused++;
        rc = weft_await_first(tasks, RACERS, &result); /* the caller still owns the handles */
    }
    CHECK_EQ(rc, RACERS - 1);
    CHECK_EQ(result, 7);
    return 0;
}

static void race_without_memory_leaves_the_handles(void)
{
    fail_each(race_many, 1);
}

/* ---- dump and trace -------------------------------------------------------------------------- */

static int open_null(void)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static bool is_write_error(const struct faults *faults, int rc)
{
    return faults->what != NULL && strncmp(faults->what, "write", strlen("write")) == 0 &&
           rc != -ENOMEM;
}

static intptr_t dump_under_fault(void *arg)
{
    struct faults *faults = arg;
    int fd = open_null();
    faults_begin(faults);
    int rc = weft_runtime_dump(weft_runtime_self(), fd);
    faults_end(faults);
    if (rc != 1) { /* one task: the caller */
        CHECK(is_write_error(faults, rc) || (rc == -ENOMEM && is_hit(faults, "alloc")));
        faults->refused++;
    }
    CHECK_EQ(weft_runtime_dump(weft_runtime_self(), fd), 1);
    CHECK_EQ(close(fd), 0);
    return 0;
}

static void dump_returns_the_error_of_each_fault(void)
{
    fail_each(dump_under_fault, 3); /* memory, and a failed write for a worker and for a task */
}

static intptr_t trace_under_fault(void *arg)
{
    struct faults *faults = arg;
    weft_runtime *runtime = weft_runtime_self();
    int fd = open_null();
    faults_begin(faults);
    int rc = weft_runtime_trace_start(runtime, 64);
    if (rc != 0) {
        faults_end(faults);
        CHECK_EQ(rc, -ENOMEM);
        CHECK(is_hit(faults, "alloc"));
        faults->refused++;
        CHECK_EQ(weft_runtime_trace_stop(runtime, fd), -EALREADY);
        CHECK_EQ(weft_runtime_trace_start(runtime, 64), 0);
    }
    (void)weft_yield();
    rc = weft_runtime_trace_stop(runtime, fd);
    faults_end(faults);
    if (rc == -ENOMEM) { /* then the trace still runs */
        CHECK(is_hit(faults, "alloc"));
        faults->refused++;
        CHECK_EQ(weft_runtime_trace_start(runtime, 64), -EALREADY);
        rc = weft_runtime_trace_stop(runtime, fd);
    }
    CHECK(rc == 0 || is_write_error(faults, rc));
    CHECK_EQ(weft_runtime_trace_stop(runtime, fd), -EALREADY);
    CHECK_EQ(close(fd), 0);
    return 0;
}

static void trace_start_and_stop_can_be_retried_after_a_fault(void)
{
    fail_each(trace_under_fault, 5);
}

/* ---- reports --------------------------------------------------------------------------------- */

struct reports {
    wf_atomic_u32 failures;
    wf_atomic_u32 deadlocks;
    size_t cycle_count;
    uint64_t task_id;
    int error;
    char message[64];
};

static void record_failure(void *context, const weft_failure *failure)
{
    struct reports *reports = context;
    reports->task_id = failure->task_id;
    reports->error = failure->error;
    (void)snprintf(reports->message, sizeof(reports->message), "%s", failure->message);
    raise_by_one(&reports->failures);
}

static void record_deadlock(void *context, const weft_deadlock *deadlock)
{
    struct reports *reports = context;
    reports->cycle_count = deadlock->cycle_count;
    CHECK_EQ(deadlock->count, 3);
    CHECK(deadlock->cycle_count == 0 || deadlock->cycle != NULL);
    CHECK((deadlock->text[0] != '\0') == (deadlock->cycle_count > 0));
    raise_by_one(&reports->deadlocks);
}

static intptr_t fail_unseen(void *arg)
{
    weft_task_unref(go(fail_with_message, arg));
    return 0;
}

/* part of behaviour 30 */
static void failure_report_counts_failures_that_had_no_memory(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        struct faults faults = {0};
        while (faults_next(&faults)) {
            struct reports reports = {.error = 0};
            weft_runtime *runtime = NULL;
            tour.options.on_failure = record_failure;
            tour.options.hook_context = &reports;
            CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
            CHECK_EQ(weft_await(go_into(runtime, fail_unseen, &faults)), 0);
            while (stats_of(runtime).live > 0) {
                (void)sched_yield();
            }
            CHECK_EQ(stats_of(runtime).total.failed, 1);
            CHECK_EQ(weft_runtime_close(runtime, -1), 0);
            faults_end(&faults);
            CHECK_EQ(wf_load_acquire(&reports.failures), 1); /* pairs with raise_by_one */
            if (reports.task_id == 0) {
                CHECK(is_hit(&faults, "alloc"));
                CHECK_EQ(reports.error, -ENOMEM);
                CHECK_STR(reports.message, "1 more failure, not recorded: out of memory");
                faults.refused++;
            } else {
                CHECK_EQ(reports.error, -EIO);
                CHECK(strcmp(reports.message, "disk 7 is full") == 0 || is_hit(&faults, "alloc"));
            }
        }
        CHECK(faults.refused >= 1);
    }
}

static void spawn_without_stack(struct faults *faults, weft_runtime *runtime,
                                struct reports *reports)
{
    const weft_task_options options = {.stack_size = (size_t)1 << 20, .is_detached = true};
    wf_atomic_u32 ran = {0};
    while (stats_of(runtime).parked < weft_runtime_workers(runtime)) {
        (void)sched_yield();
    }
    faults_begin(faults);
    int rc = weft_runtime_spawn(runtime, NULL, count_up, &ran, &options);
    CHECK(rc == 0 || rc == -ENOMEM);
    /* The runtime is quiescent before and after: the report must still be made. */
    while (rc == 0 && wf_load_acquire(&ran) + wf_load_acquire(&reports->failures) == 0) {
        (void)sched_yield();
    }
    faults_end(faults);
    CHECK_EQ(wf_load_relaxed(&reports->failures), rc == 0 && wf_load_relaxed(&ran) == 0 ? 1 : 0);
    CHECK_EQ(reports->error, wf_load_relaxed(&reports->failures) == 1 ? -ENOMEM : 0);
    faults->refused += wf_load_relaxed(&reports->failures);
}

static void failure_report_names_a_task_that_got_no_stack(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        struct faults faults = {0};
        while (faults_next(&faults)) {
            struct reports reports = {.error = 0};
            weft_runtime *runtime = NULL;
            tour.options.on_failure = record_failure;
            tour.options.hook_context = &reports;
            tour.options.no_monitor = true; /* see fail_each */
            CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
            spawn_without_stack(&faults, runtime, &reports);
            CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        }
        CHECK(faults.refused >= 2); /* a block and a mapping */
    }
}

struct cycle {
    struct faults *faults;
    weft_task *tasks[2];
    wf_atomic_u32 is_complete;
};

static intptr_t join_second(void *arg)
{
    struct cycle *cycle = arg;
    wait_for(&cycle->is_complete, 1);
    return weft_join(cycle->tasks[1], NULL);
}

static intptr_t join_first(void *arg)
{
    struct cycle *cycle = arg;
    wait_for(&cycle->is_complete, 1);
    return weft_join(cycle->tasks[0], NULL);
}

static intptr_t join_cycle(void *arg)
{
    struct cycle cycle = {.faults = arg};
    cycle.tasks[0] = go(join_second, &cycle);
    cycle.tasks[1] = go(join_first, &cycle);
    raise_by_one(&cycle.is_complete);
    wait_for_state(cycle.tasks[0], WEFT_TASK_BLOCKED);
    wait_for_state(cycle.tasks[1], WEFT_TASK_BLOCKED);
    faults_begin(cycle.faults);
    int rc = weft_join(cycle.tasks[0], NULL); /* the close cancels a task of the cycle */
    CHECK(rc == 0 || rc == -ECANCELED);
    weft_task_unref(cycle.tasks[0]);
    weft_task_unref(cycle.tasks[1]);
    return 0;
}

static void deadlock_report_works_without_memory(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        struct faults faults = {0};
        while (faults_next(&faults)) {
            struct reports reports = {.cycle_count = 0};
            tour.options.on_deadlock = record_deadlock;
            tour.options.hook_context = &reports;
            CHECK_EQ(weft_run(join_cycle, &faults, &tour.options), -EDEADLK);
            faults_end(&faults);
            CHECK_EQ(wf_load_acquire(&reports.deadlocks), 1); /* pairs with raise_by_one */
            if (reports.cycle_count != 2) {
                CHECK_EQ(reports.cycle_count, 0);
                CHECK(is_hit(&faults, "alloc"));
                faults.refused++;
            }
        }
        CHECK(faults.refused >= 2); /* the task array and the text */
    }
}

#else

static void fault_points_are_compiled_in(void)
{
    tap_skip("this build has no fault points");
}

#endif

static const struct tap_test tests[] = {
#ifdef WF_TEST_HOOKS
    TAP_TEST(runtime_open_succeeds_completely_or_fails_without_leaks),
    TAP_TEST(runtime_open_with_default_workers_survives_each_fault),
    TAP_TEST(run_returns_the_error_of_each_fault),
    TAP_TEST(spawn_without_stack_memory_ends_the_task_with_enomem),
    TAP_TEST(spawn_with_any_option_fails_without_leaks),
    TAP_TEST(spawn_from_a_non_worker_thread_fails_without_leaks),
    TAP_TEST(scope_close_reports_a_task_that_got_no_stack),
    TAP_TEST(spawned_task_runs_even_if_no_queue_can_grow),
    TAP_TEST(task_local_can_be_retried_after_enomem),
    TAP_TEST(fail_without_memory_keeps_the_error_code),
    TAP_TEST(race_without_memory_leaves_the_handles),
    TAP_TEST(dump_returns_the_error_of_each_fault),
    TAP_TEST(trace_start_and_stop_can_be_retried_after_a_fault),
    TAP_TEST(failure_report_counts_failures_that_had_no_memory),
    TAP_TEST(failure_report_names_a_task_that_got_no_stack),
    TAP_TEST(deadlock_report_works_without_memory),
#else
    TAP_TEST(fault_points_are_compiled_in),
#endif
};
TAP_MAIN(tests)
