/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a task can end from any call depth with an error and a message. Its cleanups run first,
 *         and no other task is disturbed. A failure that no join has seen is reported once, and no
 *         other failure is reported.
 * Method: tasks that fail beside tasks that work; hooks that record the reports.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "helpers.h"
#include "sched_helpers.h"

/* ---- weft_fail from any depth ---------------------------------------------------------------- */

enum { DEPTH = 20 };

struct descent;

struct step {
    struct descent *descent;
    int depth;
};

struct descent {
    struct step steps[DEPTH + 1];
    int order[DEPTH + 1]; /* plain: depths in the order of their cleanups */
    int count;
};

static void note_step(void *arg)
{
    const struct step *step = arg;
    step->descent->order[step->descent->count++] = step->depth;
}

static __attribute__((noinline)) void descend(struct descent *descent, int depth)
{
    weft_cleanup cleanup;
    descent->steps[depth] = (struct step){descent, depth};
    weft_cleanup_push(&cleanup, note_step, &descent->steps[depth]);
    if (depth == DEPTH) {
        weft_fail(-ERANGE, "fell %d deep: %s", depth, "ouch");
    }
    if (descent->count == 0) { /* no cleanup has run yet */
        descend(descent, depth + 1);
    }
    weft_cleanup_pop(&cleanup, false); /* not reached */
}

static intptr_t descent(void *arg)
{
    descend(arg, 0);
    return 0;
}

static intptr_t join_descent(void *arg)
{
    (void)arg;
    struct descent record = {.count = 0};
    char text[64] = "untouched";
    weft_task *task = go(descent, &record);
    intptr_t result = 0;
    CHECK_EQ(weft_join(task, &result), 0);
    CHECK_EQ(result, -ERANGE);
    CHECK_EQ(state_of(task), WEFT_TASK_FAILED);
    CHECK_EQ(record.count, DEPTH + 1);
    for (int i = 0; i <= DEPTH; i++) {
        CHECK_EQ(record.order[i], DEPTH - i); /* newest first */
    }
    CHECK_EQ(weft_task_message(task, text, sizeof(text)), (int)strlen("fell 20 deep: ouch"));
    CHECK_STR(text, "fell 20 deep: ouch");
    CHECK_EQ(weft_task_message(task, text, 5), (int)strlen("fell 20 deep: ouch"));
    CHECK_STR(text, "fell");
    CHECK_EQ(weft_task_message(task, NULL, 0), (int)strlen("fell 20 deep: ouch"));
    weft_task_unref(task);
    return 0;
}

/* behaviour 31 */
static void fail_runs_cleanups_from_any_depth(void)
{
    run_under(EVERYWHERE, join_descent);
}

static intptr_t ask_for_messages(void *arg)
{
    (void)arg;
    char text[16] = "untouched";
    wf_atomic_u32 open = {0};
    weft_task *task = go(stand_by, &open);
    CHECK_EQ(weft_task_message(task, text, sizeof(text)), -EAGAIN);
    CHECK_STR(text, "untouched");
    raise_by_one(&open);
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK_EQ(weft_task_message(task, text, sizeof(text)), 0);
    CHECK_STR(text, "");
    weft_task_unref(task);
    return 0;
}

static void task_message_exists_only_for_a_failed_task(void)
{
    run_under(EVERYWHERE, ask_for_messages);
}

/* ---- cleanups -------------------------------------------------------------------------------- */

struct cleanup_log {
    weft_cleanup cleanups[3];
    char order[8];
    size_t count;
    weft_task *awaited;
};

static void note_a(void *arg)
{
    struct cleanup_log *cleanup_log = arg;
    cleanup_log->order[cleanup_log->count++] = 'a';
}

static void note_b(void *arg)
{
    struct cleanup_log *cleanup_log = arg;
    cleanup_log->order[cleanup_log->count++] = 'b';
}

/* A cleanup may wait. */
static void wait_and_note_c(void *arg)
{
    struct cleanup_log *cleanup_log = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    CHECK_EQ(weft_await(go(echo, (void *)4)), 4);
    CHECK_EQ(weft_shield_end(), 0);
    cleanup_log->order[cleanup_log->count++] = 'c';
}

static intptr_t pop_cleanups(void *arg)
{
    struct cleanup_log *cleanup_log = arg;
    weft_cleanup_push(&cleanup_log->cleanups[0], note_a, cleanup_log);
    weft_cleanup_push(&cleanup_log->cleanups[1], note_b, cleanup_log);
    weft_cleanup_push(&cleanup_log->cleanups[2], wait_and_note_c, cleanup_log);
    weft_cleanup_pop(&cleanup_log->cleanups[2], true);
    weft_cleanup_pop(&cleanup_log->cleanups[1], false);
    weft_cleanup_pop(&cleanup_log->cleanups[0], true);
    return 0;
}

static intptr_t fail_with_cleanups(void *arg)
{
    struct cleanup_log *cleanup_log = arg;
    weft_cleanup_push(&cleanup_log->cleanups[0], note_a, cleanup_log);
    weft_cleanup_push(&cleanup_log->cleanups[1], note_b, cleanup_log);
    weft_cleanup_push(&cleanup_log->cleanups[2], wait_and_note_c, cleanup_log);
    weft_fail(-EIO, "%d", 3);
}

static intptr_t fail_when_cancelled(void *arg)
{
    struct cleanup_log *cleanup_log = arg;
    weft_cleanup_push(&cleanup_log->cleanups[0], wait_and_note_c, cleanup_log);
    weft_cleanup_push(&cleanup_log->cleanups[1], note_a, cleanup_log);
    weft_fail(weft_join(cleanup_log->awaited, NULL), "cancelled");
}

static intptr_t check_all_cleanups(void *arg)
{
    (void)arg;
    struct cleanup_log cleanup_log = {.count = 0};
    CHECK_EQ(weft_await(go(pop_cleanups, &cleanup_log)), 0);
    CHECK_STR(cleanup_log.order, "ca");

    cleanup_log = (struct cleanup_log){.count = 0};
    CHECK_EQ(weft_await(go(fail_with_cleanups, &cleanup_log)), -EIO);
    CHECK_STR(cleanup_log.order, "cba");

    wf_atomic_u32 open = {0};
    cleanup_log = (struct cleanup_log){.awaited = go(stand_by, &open)};
    weft_task *task = go(fail_when_cancelled, &cleanup_log);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_STR(cleanup_log.order, "ac");
    raise_by_one(&open);
    CHECK_EQ(weft_await(cleanup_log.awaited), 0);
    return 0;
}

/* behaviour 31 */
static void cleanup_runs_on_pop_fail_and_cancel(void)
{
    run_under(EVERYWHERE, check_all_cleanups);
}

static intptr_t return_with_cleanup(void *arg)
{
    struct cleanup_log *cleanup_log = arg;
    weft_cleanup_push(&cleanup_log->cleanups[0], note_a, cleanup_log);
    return 0;
}

static void run_task_with_cleanup(void)
{
    static struct cleanup_log cleanup_log; /* outlives the frame: only the check can abort */
    (void)weft_run(return_with_cleanup, &cleanup_log, NULL);
}

static void cleanup_left_at_task_return_aborts(void)
{
    char text[4096];
    const int status = tap_run_child(run_task_with_cleanup, text, sizeof(text));
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    CHECK(strstr(text, "cleanup") != NULL);
}

static weft_key key;

static void count_value(void *value)
{
    raise_by_one(value);
}

static intptr_t fail_with_a_value(void *arg)
{
    *weft_key_slot(key) = arg;
    weft_fail(-EIO, "%s", "");
}

static intptr_t check_local_destroyed(void *arg)
{
    (void)arg;
    wf_atomic_u32 destroyed = {0};
    CHECK_EQ(weft_await(go(fail_with_a_value, &destroyed)), -EIO);
    CHECK_EQ(wf_load_acquire(&destroyed), 1);
    return 0;
}

static void fail_destroys_task_locals(void)
{
    CHECK_EQ(weft_key_create(&key, count_value), 0);
    run_under(EVERYWHERE, check_local_destroyed);
}

/* ---- other tasks ----------------------------------------------------------------------------- */

static intptr_t work_or_fail(void *arg)
{
    int *number = arg;
    (void)weft_yield();
    if (*number % 3 == 0) {
        weft_fail(-EIO, "number %d", *number);
    }
    *number = -*number;
    return *number * -1;
}

static intptr_t fail_beside_others(void *arg)
{
    (void)arg;
    enum { COUNT = 300 };
    static weft_task *tasks[COUNT];
    static int numbers[COUNT];
    static intptr_t results[COUNT];
    for (int i = 0; i < COUNT; i++) {
        numbers[i] = i + 1;
        tasks[i] = go(work_or_fail, &numbers[i]);
    }
    CHECK_EQ(weft_await_all(tasks, COUNT, results), -EIO);
    for (int i = 0; i < COUNT; i++) {
        const int number = i + 1;
        CHECK_EQ(results[i], number % 3 == 0 ? -EIO : number);
        CHECK_EQ(numbers[i], number % 3 == 0 ? number : -number);
    }
    return 0;
}

/* part of behaviour 30, S2.52: the worker of a failed task continues. */
static void fail_does_not_disturb_other_tasks(void)
{
    run_under(EVERYWHERE, fail_beside_others);
}

struct end {
    weft_task *gate;
    intptr_t result;
};

static intptr_t end_after_gate(void *arg)
{
    const struct end *end = arg;
    CHECK_EQ(weft_join(end->gate, NULL), 0);
    return end->result;
}

static intptr_t join_and_add_100(void *arg)
{
    intptr_t result = 0;
    CHECK_EQ(weft_join(arg, &result), 0);
    return result + 100;
}

static intptr_t fail_before_waiters(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    for (int is_failing = 0; is_failing < 2; is_failing++) {
        const intptr_t result = is_failing ? -EIO : 6;
        struct end end = {.gate = go(stand_by, &open), .result = result};
        weft_task *task = go(end_after_gate, &end);
        weft_task *waiters[3];
        for (int i = 0; i < 3; i++) {
            waiters[i] = go(join_and_add_100, task);
            wait_for_state(waiters[i], WEFT_TASK_BLOCKED);
        }
        raise_by_one(&open);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(weft_await(waiters[i]), result + 100);
        }
        CHECK_EQ(state_of(task), is_failing ? WEFT_TASK_FAILED : WEFT_TASK_COMPLETED);
        CHECK_EQ(weft_await(task), result);
        CHECK_EQ(weft_await(end.gate), 0);
        wf_store_relaxed(&open, 0);
    }
    return 0;
}

static void run_fail_before_waiters(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.on_failure = NULL; /* the default hook, which prints */
        CHECK_EQ(weft_run(fail_before_waiters, NULL, &tour.options), 0);
    }
}

/* S2.28: completion and failure resume all waiters, and the runtime prints nothing. */
static void join_returns_for_failed_and_completed_tasks(void)
{
    char text[64] = "";
    CHECK_EQ(tap_run_child(run_fail_before_waiters, text, sizeof(text)), 0);
    CHECK_STR(text, "");
}

/* ---- reports of unseen failures -------------------------------------------------------------- */

struct reports {
    wf_atomic_u32 count;
    uint64_t id;
    int error;
    char name[WEFT_TASK_NAME_SIZE];
    char message[64];
};

static void record_report(void *context, const weft_failure *failure)
{
    struct reports *reports = context;
    reports->id = failure->task_id;
    reports->error = failure->error;
    (void)snprintf(reports->name, sizeof(reports->name), "%s", failure->name);
    (void)snprintf(reports->message, sizeof(reports->message), "%s", failure->message);
    raise_by_one(&reports->count);
}

static intptr_t fail_unseen(void *arg)
{
    uint64_t *id = arg;
    *id = weft_task_id(weft_self());
    weft_fail(-ENXIO, "unseen %s", "message");
}

static void failure_report_is_made_once_for_an_unseen_failure(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct reports reports = {.id = 0};
        weft_runtime *runtime = NULL;
        uint64_t id = 0;
        const weft_task_options named = {.name = "poor"};
        tour.options.on_failure = record_report;
        tour.options.hook_context = &reports;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, fail_unseen, &id, &named), 0);
        wait_for(&reports.count, 1); /* the runtime is quiescent: the report needs no other event */
        CHECK_EQ(weft_await(go_into(runtime, echo, (void *)1)), 1);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(wf_load_acquire(&reports.count), 1);
        CHECK_EQ(reports.id, id);
        CHECK_EQ(reports.error, -ENXIO);
        CHECK_STR(reports.name, "poor");
        CHECK_STR(reports.message, "unseen message");
    }
}

static intptr_t fail_with_eio(void *arg)
{
    raise_by_one(arg);
    return -EIO;
}

static struct reports late_reports;

static intptr_t yield_after_failure(void *arg)
{
    (void)arg;
    wf_atomic_u32 failed = {0};
    weft_task_unref(go(fail_with_eio, &failed)); /* dropped before its end */
    wait_for(&failed, 1);
    weft_task *task = go(fail_with_eio, &failed);
    wait_for_state(task, WEFT_TASK_FAILED);
    weft_task_unref(task); /* dropped after its end */
    for (int i = 0; i < 200; i++) {
        (void)weft_yield();
        CHECK_EQ(wf_load_acquire(&late_reports.count), 0); /* this task still runs */
    }
    return 0;
}

/* behaviour 30. No monitor: it would report after a second, which a busy machine may need for the
 * yields. For its report see the next test. */
static void failure_report_waits_until_the_runtime_is_quiescent(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        late_reports = (struct reports){.id = 0};
        tour.options.no_monitor = true;
        tour.options.on_failure = record_report;
        tour.options.hook_context = &late_reports;
        CHECK_EQ(weft_run(yield_after_failure, NULL, &tour.options), 0);
        CHECK_EQ(wf_load_acquire(&late_reports.count), 2);
        CHECK_EQ(late_reports.error, -EIO);
        CHECK_STR(late_reports.name, "");
        CHECK_STR(late_reports.message, "");
    }
}

static intptr_t yield_until_reported(void *arg)
{
    const struct reports *reports = arg;
    wf_atomic_u32 failed = {0};
    weft_task_unref(go(fail_with_eio, &failed));
    while (wf_load_acquire(&reports->count) == 0) {
        CHECK_EQ(weft_yield(), 0);
    }
    return 0;
}

/* A runtime that is always busy reports its failures, too. */
static void failure_report_comes_from_the_monitor_in_a_busy_runtime(void)
{
    for (struct tour tour = {.which = ON_SEVERAL}; tour_next(&tour);) {
        struct reports reports = {.id = 0};
        tour.options.on_failure = record_report;
        tour.options.hook_context = &reports;
        CHECK_EQ(weft_run(yield_until_reported, &reports, &tour.options), 0);
        CHECK_EQ(wf_load_acquire(&reports.count), 1);
        CHECK_EQ(reports.error, -EIO);
    }
}

static intptr_t drop_task(void *arg)
{
    weft_task_unref(arg);
    return 0;
}

/* behaviour 30: the runtime is quiescent, so the report is made at once, in whichever thread drops
 * the handle. */
static void failure_report_follows_drop_in_a_quiescent_runtime(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct reports reports = {.id = 0};
        weft_runtime *runtime = NULL;
        weft_runtime *other = NULL;
        wf_atomic_u32 failed = {0};
        CHECK_EQ(weft_runtime_open(&other, &tour.options), 0);
        tour.options.on_failure = record_report;
        tour.options.hook_context = &reports;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (uint32_t i = 0; i < 4; i++) {
            weft_task *task = go_into(runtime, fail_with_eio, &failed);
            const uint64_t id = weft_task_id(task);
            wait_for_state(task, WEFT_TASK_FAILED);
            while (stats_of(runtime).parked < tour.setting->workers) {
                (void)sched_yield();
            }
            if (i % 2 == 0) {
                weft_task_unref(task);
            } else {
                CHECK_EQ(weft_await(go_into(other, drop_task, task)), 0);
            }
            wait_for(&reports.count, i + 1);
            CHECK_EQ(reports.id, id);
        }
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(weft_runtime_close(other, -1), 0);
        CHECK_EQ(wf_load_acquire(&reports.count), 4);
    }
}

struct keeper {
    struct reports reports;
    weft_task *kept;
};

static void report_and_drop(void *context, const weft_failure *failure)
{
    struct keeper *keeper = context;
    weft_task *kept = keeper->kept;
    keeper->kept = NULL;
    weft_task_unref(kept);
    record_report(&keeper->reports, failure);
}

/* behaviour 30 */
static void failure_report_follows_drop_inside_the_hook(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct keeper keeper = {.kept = NULL};
        weft_runtime *runtime = NULL;
        wf_atomic_u32 failed = {0};
        tour.options.on_failure = report_and_drop;
        tour.options.hook_context = &keeper;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        keeper.kept = go_into(runtime, fail_with_eio, &failed);
        wait_for_state(keeper.kept, WEFT_TASK_FAILED);
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, fail_with_eio, &failed, NULL), 0);
        wait_for(&keeper.reports.count, 2);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(wf_load_acquire(&keeper.reports.count), 2);
    }
}

static intptr_t join_in_every_way(void *arg)
{
    (void)arg;
    wf_atomic_u32 failed = {0};
    wf_atomic_u32 never = {0};
    intptr_t result = 0;
    CHECK_EQ(weft_await(go(fail_with_eio, &failed)), -EIO);
    weft_task *task = go(fail_with_eio, &failed);
    CHECK_EQ(weft_join(task, NULL), 0);
    weft_task_unref(task);
    task = go(fail_with_eio, &failed);
    while (weft_try_join(task, &result) == -EAGAIN) {
        (void)weft_yield();
    }
    weft_task_unref(task);
    weft_task *tasks[2] = {go(fail_with_eio, &failed), go(fail_with_eio, &failed)};
    CHECK_EQ(weft_await_all(tasks, 2, NULL), -EIO);
    weft_task *racers[2] = {go(fail_with_eio, &failed), go(stand_by_or_leave, &never)};
    CHECK_EQ(weft_await_first(racers, 2, &result), 0);
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, fail_with_eio, &failed), 0);
    CHECK_EQ(weft_scope_close(&scope), -EIO);
    return 0;
}

/* behaviour 30; the hook of sched_helpers.h fails the test at any report. */
static void failure_report_skips_joined_failures(void)
{
    run_under(EVERYWHERE, join_in_every_way);
}

static intptr_t fail_as_the_first_task(void *arg)
{
    (void)arg;
    return -EIO;
}

/* weft_run returns its result. */
static void failure_report_skips_the_first_task_of_a_run(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        CHECK_EQ(weft_run(fail_as_the_first_task, NULL, &tour.options), -EIO);
    }
}

static intptr_t cancel_and_drop(void *arg)
{
    (void)arg;
    wf_atomic_u32 never = {0};
    for (int i = 0; i < 10; i++) {
        weft_task *task = go(stand_by_or_leave, &never);
        if (i % 2 == 0) {
            (void)weft_yield();
        }
        CHECK_EQ(weft_cancel(task), 0);
        weft_task *second = weft_task_ref(task);
        weft_task_unref(task);
        wait_for_state(second, WEFT_TASK_CANCELLED);
        weft_task_unref(second);
    }
    return 0;
}

/* behaviour 30 */
static void failure_report_skips_cancelled_tasks(void)
{
    run_under(EVERYWHERE, cancel_and_drop);
}

static intptr_t spawn_a_failure(void *arg)
{
    weft_task *task = NULL;
    const weft_task_options named = {.name = "hapless"};
    CHECK_EQ(weft_spawn(&task, fail_unseen, arg, &named), 0);
    wait_for_state(task, WEFT_TASK_FAILED); /* or the end of this task would cancel it */
    weft_task_unref(task);
    return 0;
}

static void run_without_a_hook(void)
{
    uint64_t id = 0;
    CHECK_EQ(weft_run(spawn_a_failure, &id, &(weft_runtime_options){.workers = 2}), 0);
}

static void failure_report_goes_to_stderr_without_a_hook(void)
{
    char text[4096];
    CHECK_EQ(tap_run_child(run_without_a_hook, text, sizeof(text)), 0);
    const char *line = strstr(text, "hapless");
    CHECK(line != NULL);
    CHECK(strstr(text, "unseen message") != NULL);
    CHECK(strchr(line, '\n') != NULL);
    CHECK(strstr(strchr(line, '\n'), "hapless") == NULL); /* once */
}

/* ---- failure during a poll ------------------------------------------------------------------- */

/* Waits for a task, and fails when it is polled again. */
struct failing_future {
    weft_future future;
    weft_task_future other;
    bool has_begun;
};

static weft_poll_result failing_future_poll(weft_cx *cx, weft_future *future, intptr_t *result)
{
    struct failing_future *failing_future = (struct failing_future *)(void *)future;
    if (failing_future->has_begun) {
        weft_fail(-EIO, "nothing will come of it");
    }
    failing_future->has_begun = true;
    CHECK_EQ(weft_future_poll(&failing_future->other.future, cx, result), WEFT_POLL_PENDING);
    weft_waker_wake(weft_cx_waker(cx));
    return WEFT_POLL_PENDING;
}

static intptr_t sleep_forever(void *arg)
{
    (void)arg;
    return weft_sleep_until(WEFT_NEVER);
}

static intptr_t await_failing_future(void *other)
{
    struct failing_future failing_future = {.future = {.poll = failing_future_poll}};
    weft_task_future_init(&failing_future.other, weft_task_ref(other), true);
    return weft_future_await(&failing_future.future);
}

static intptr_t clear_deadline(void *arg)
{
    (void)weft_deadline_set(WEFT_NEVER); /* so that the end of the task checks for leftovers */
    return echo(arg);
}

/* The futures of a failed task are in a frame that is gone: none may stay registered. */
static intptr_t fail_in_a_future(void *arg)
{
    (void)arg;
    for (intptr_t i = 0; i < 10; i++) {
        weft_task *sleeper = go(sleep_forever, NULL);
        CHECK_EQ(weft_await(go(await_failing_future, sleeper)), -EIO);
        CHECK_EQ(weft_await(sleeper), -ECANCELED); /* dropping the future cancelled the task */
        CHECK_EQ(weft_await(go(clear_deadline, (void *)i)), i);
    }
    return 0;
}

static void fail_drops_futures_of_the_task(void)
{
    run_under(EVERYWHERE, fail_in_a_future);
}

static const struct tap_test tests[] = {
    TAP_TEST(fail_runs_cleanups_from_any_depth),
    TAP_TEST(task_message_exists_only_for_a_failed_task),
    TAP_TEST(cleanup_runs_on_pop_fail_and_cancel),
    TAP_TEST(cleanup_left_at_task_return_aborts),
    TAP_TEST(fail_destroys_task_locals),
    TAP_TEST(fail_drops_futures_of_the_task),
    TAP_TEST(fail_does_not_disturb_other_tasks),
    TAP_TEST(join_returns_for_failed_and_completed_tasks),
    TAP_TEST(failure_report_is_made_once_for_an_unseen_failure),
    TAP_TEST(failure_report_waits_until_the_runtime_is_quiescent),
    TAP_TEST_LIMIT(failure_report_comes_from_the_monitor_in_a_busy_runtime, 30),
    TAP_TEST(failure_report_follows_drop_in_a_quiescent_runtime),
    TAP_TEST(failure_report_follows_drop_inside_the_hook),
    TAP_TEST(failure_report_skips_joined_failures),
    TAP_TEST(failure_report_skips_the_first_task_of_a_run),
    TAP_TEST(failure_report_skips_cancelled_tasks),
    TAP_TEST(failure_report_goes_to_stderr_without_a_hook),
};
TAP_MAIN(tests)
