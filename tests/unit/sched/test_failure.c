/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a task can end from any depth with an error and a message, after its cleanups, and harms
 *         nobody else by it; a failure that nobody looked at is reported, once, and no other is.
 * Method: tasks that fail beside tasks that work; hooks that write down what they were told.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "aids.h"
#include "sched_aids.h"

/* ---- from any depth -------------------------------------------------------------------------- */

enum { DEPTH = 20 };

struct fall;

struct step {
    struct fall *fall;
    int depth;
};

struct fall {
    struct step steps[DEPTH + 1];
    int order[DEPTH + 1]; /* plain: who cleaned up, in order */
    int count;
};

static void note_step(void *arg)
{
    const struct step *step = arg;
    step->fall->order[step->fall->count++] = step->depth;
}

static __attribute__((noinline)) void fall_deeper(struct fall *fall, int depth)
{
    weft_cleanup cleanup;
    fall->steps[depth] = (struct step){fall, depth};
    weft_cleanup_push(&cleanup, note_step, &fall->steps[depth]);
    if (depth == DEPTH) {
        weft_fail(-ERANGE, "fell %d deep: %s", depth, "ouch");
    }
    if (fall->count == 0) { /* nobody has cleaned up yet */
        fall_deeper(fall, depth + 1);
    }
    weft_cleanup_pop(&cleanup, 0); /* not reached */
}

static intptr_t fall(void *arg)
{
    fall_deeper(arg, 0);
    return 0;
}

static intptr_t watch_a_fall(void *arg)
{
    (void)arg;
    struct fall record = {.count = 0};
    char text[64] = "untouched";
    weft_task *task = go(fall, &record);
    intptr_t result = 0;
    CHECK_EQ(weft_join(task, &result), 0);
    CHECK_EQ(result, -ERANGE);
    CHECK_EQ(state_of(task), WEFT_FAILED);
    CHECK_EQ(record.count, DEPTH + 1);
    for (int i = 0; i <= DEPTH; i++) {
        CHECK_EQ(record.order[i], DEPTH - i); /* newest first */
    }
    CHECK_EQ(weft_task_message(task, text, sizeof(text)), (int)strlen("fell 20 deep: ouch"));
    CHECK_STR(text, "fell 20 deep: ouch");
    CHECK_EQ(weft_task_message(task, text, 5), (int)strlen("fell 20 deep: ouch"));
    CHECK_STR(text, "fell");
    CHECK_EQ(weft_task_message(task, NULL, 0), (int)strlen("fell 20 deep: ouch"));
    weft_drop(task);
    return 0;
}

/* behaviour 31 */
static void a_task_fails_from_any_depth_after_its_cleanups(void)
{
    run_under(EVERYWHERE, watch_a_fall);
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
    weft_drop(task);
    return 0;
}

static void only_a_task_that_failed_has_a_message(void)
{
    run_under(EVERYWHERE, ask_for_messages);
}

/* ---- cleanups -------------------------------------------------------------------------------- */

struct tidy {
    weft_cleanup cleanups[3];
    char order[8];
    size_t count;
    weft_task *awaited;
};

static void tidy_a(void *arg)
{
    struct tidy *tidy = arg;
    tidy->order[tidy->count++] = 'a';
}

static void tidy_b(void *arg)
{
    struct tidy *tidy = arg;
    tidy->order[tidy->count++] = 'b';
}

/* One that waits, which it may. */
static void tidy_c(void *arg)
{
    struct tidy *tidy = arg;
    CHECK_EQ(weft_shield(1), 0);
    CHECK_EQ(weft_await(go(echo, (void *)4)), 4);
    CHECK_EQ(weft_shield(0), 0);
    tidy->order[tidy->count++] = 'c';
}

static intptr_t take_cleanups_off(void *arg)
{
    struct tidy *tidy = arg;
    weft_cleanup_push(&tidy->cleanups[0], tidy_a, tidy);
    weft_cleanup_push(&tidy->cleanups[1], tidy_b, tidy);
    weft_cleanup_push(&tidy->cleanups[2], tidy_c, tidy);
    weft_cleanup_pop(&tidy->cleanups[2], 1);
    weft_cleanup_pop(&tidy->cleanups[1], 0);
    weft_cleanup_pop(&tidy->cleanups[0], 1);
    return 0;
}

static intptr_t fail_with_cleanups(void *arg)
{
    struct tidy *tidy = arg;
    weft_cleanup_push(&tidy->cleanups[0], tidy_a, tidy);
    weft_cleanup_push(&tidy->cleanups[1], tidy_b, tidy);
    weft_cleanup_push(&tidy->cleanups[2], tidy_c, tidy);
    weft_fail(-EIO, "%d", 3);
}

static intptr_t fail_when_cancelled(void *arg)
{
    struct tidy *tidy = arg;
    weft_cleanup_push(&tidy->cleanups[0], tidy_c, tidy);
    weft_cleanup_push(&tidy->cleanups[1], tidy_a, tidy);
    weft_fail(weft_join(tidy->awaited, NULL), "cancelled");
}

static intptr_t clean_up_in_every_way(void *arg)
{
    (void)arg;
    struct tidy tidy = {.count = 0};
    CHECK_EQ(weft_await(go(take_cleanups_off, &tidy)), 0);
    CHECK_STR(tidy.order, "ca");

    tidy = (struct tidy){.count = 0};
    CHECK_EQ(weft_await(go(fail_with_cleanups, &tidy)), -EIO);
    CHECK_STR(tidy.order, "cba");

    wf_atomic_u32 open = {0};
    tidy = (struct tidy){.awaited = go(stand_by, &open)};
    weft_task *task = go(fail_when_cancelled, &tidy);
    wait_for_state(task, WEFT_BLOCKED);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_STR(tidy.order, "ac");
    raise_by_one(&open);
    CHECK_EQ(weft_await(tidy.awaited), 0);
    return 0;
}

/* behaviour 31 */
static void cleanups_run_on_every_way_out(void)
{
    run_under(EVERYWHERE, clean_up_in_every_way);
}

static intptr_t forget_a_cleanup(void *arg)
{
    struct tidy *tidy = arg;
    weft_cleanup_push(&tidy->cleanups[0], tidy_a, tidy);
    return 0;
}

static void run_a_forgetful_task(void)
{
    static struct tidy tidy; /* outlives the frame, so that only the check can object */
    (void)weft_run(forget_a_cleanup, &tidy, NULL);
}

static void a_task_that_returns_with_a_cleanup_is_stopped(void)
{
    char text[4096];
    const int status = tap_run_child(run_a_forgetful_task, text, sizeof(text));
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
    *weft_local(key) = arg;
    weft_fail(-EIO, "%s", "");
}

static intptr_t watch_values_go(void *arg)
{
    (void)arg;
    wf_atomic_u32 destroyed = {0};
    CHECK_EQ(weft_await(go(fail_with_a_value, &destroyed)), -EIO);
    CHECK_EQ(wf_load_acquire(&destroyed), 1);
    return 0;
}

static void a_failing_task_gives_its_values_back(void)
{
    CHECK_EQ(weft_key_new(&key, count_value), 0);
    run_under(EVERYWHERE, watch_values_go);
}

/* ---- the others ------------------------------------------------------------------------------ */

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

/* part of behaviour 30, S2.52: what fails takes no worker along. */
static void a_failure_leaves_the_others_alone(void)
{
    run_under(EVERYWHERE, fail_beside_others);
}

struct end {
    weft_task *gate;
    intptr_t result;
};

static intptr_t end_behind_a_gate(void *arg)
{
    const struct end *end = arg;
    CHECK_EQ(weft_join(end->gate, NULL), 0);
    return end->result;
}

static intptr_t give_what_it_gives(void *arg)
{
    intptr_t result = 0;
    CHECK_EQ(weft_join(arg, &result), 0);
    return result + 100;
}

static intptr_t fail_before_waiters(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    for (int is_bad = 0; is_bad < 2; is_bad++) {
        const intptr_t result = is_bad ? -EIO : 6;
        struct end end = {.gate = go(stand_by, &open), .result = result};
        weft_task *task = go(end_behind_a_gate, &end);
        weft_task *waiters[3];
        for (int i = 0; i < 3; i++) {
            waiters[i] = go(give_what_it_gives, task);
            wait_for_state(waiters[i], WEFT_BLOCKED);
        }
        raise_by_one(&open);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(weft_await(waiters[i]), result + 100);
        }
        CHECK_EQ(state_of(task), is_bad ? WEFT_FAILED : WEFT_COMPLETED);
        CHECK_EQ(weft_await(task), result);
        CHECK_EQ(weft_await(end.gate), 0);
        wf_store_relaxed(&open, 0);
    }
    return 0;
}

static void run_what_fails_before_waiters(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.on_failure = NULL; /* the one that prints */
        CHECK_EQ(weft_run(fail_before_waiters, NULL, &tour.options), 0);
    }
}

/* S2.28: a good end and a bad one resume all who wait, and nothing is printed. */
static void who_waits_is_resumed_by_a_failure_too(void)
{
    char text[64] = "";
    CHECK_EQ(tap_run_child(run_what_fails_before_waiters, text, sizeof(text)), 0);
    CHECK_STR(text, "");
}

/* ---- what nobody looked at ------------------------------------------------------------------- */

struct reports {
    wf_atomic_u32 count;
    uint64_t id;
    int error;
    char name[WEFT_NAME_SIZE];
    char message[64];
};

static void take_report(void *context, const weft_failure *failure)
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

static void a_failure_that_nobody_looked_at_is_reported_once(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct reports reports = {.id = 0};
        weft_runtime *runtime = NULL;
        uint64_t id = 0;
        const weft_task_options named = {.name = "poor"};
        tour.options.on_failure = take_report;
        tour.options.hook_context = &reports;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, fail_unseen, &id, &named), 0);
        wait_for(&reports.count, 1); /* nothing is left to run: it needs no push */
        CHECK_EQ(weft_await(go_into(runtime, echo, (void *)1)), 1);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(wf_load_acquire(&reports.count), 1);
        CHECK_EQ(reports.id, id);
        CHECK_EQ(reports.error, -ENXIO);
        CHECK_STR(reports.name, "poor");
        CHECK_STR(reports.message, "unseen message");
    }
}

static intptr_t fail_plainly(void *arg)
{
    raise_by_one(arg);
    return -EIO;
}

static struct reports late_reports;

static intptr_t keep_busy_after_a_failure(void *arg)
{
    (void)arg;
    wf_atomic_u32 failed = {0};
    weft_drop(go(fail_plainly, &failed)); /* before its end */
    wait_for(&failed, 1);
    weft_task *task = go(fail_plainly, &failed);
    wait_for_state(task, WEFT_FAILED);
    weft_drop(task); /* after it */
    for (int i = 0; i < 200; i++) {
        (void)weft_yield();
        CHECK_EQ(wf_load_acquire(&late_reports.count), 0); /* we are left to run */
    }
    return 0;
}

/* behaviour 30 */
static void reports_come_when_nothing_is_left_to_run(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        late_reports = (struct reports){.id = 0};
        tour.options.on_failure = take_report;
        tour.options.hook_context = &late_reports;
        CHECK_EQ(weft_run(keep_busy_after_a_failure, NULL, &tour.options), 0);
        CHECK_EQ(wf_load_acquire(&late_reports.count), 2);
        CHECK_EQ(late_reports.error, -EIO);
        CHECK_STR(late_reports.name, "");
        CHECK_STR(late_reports.message, "");
    }
}

static intptr_t be_busy_until_told(void *arg)
{
    const struct reports *reports = arg;
    wf_atomic_u32 failed = {0};
    weft_drop(go(fail_plainly, &failed));
    while (wf_load_acquire(&reports->count) == 0) {
        CHECK_EQ(weft_yield(), 0);
    }
    return 0;
}

/* A server that always has something to do fails in public too. */
static void in_a_runtime_that_is_never_quiet_the_monitor_reports(void)
{
    for (struct tour tour = {.which = ON_SEVERAL}; tour_next(&tour);) {
        struct reports reports = {.id = 0};
        tour.options.on_failure = take_report;
        tour.options.hook_context = &reports;
        CHECK_EQ(weft_run(be_busy_until_told, &reports, &tour.options), 0);
        CHECK_EQ(wf_load_acquire(&reports.count), 1);
        CHECK_EQ(reports.error, -EIO);
    }
}

static intptr_t drop_it(void *arg)
{
    weft_drop(arg);
    return 0;
}

/* behaviour 30: nothing is left to run, so it is told at once, whoever drops the handle. */
static void what_is_dropped_in_a_quiet_runtime_is_reported(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct reports reports = {.id = 0};
        weft_runtime *runtime = NULL;
        weft_runtime *other = NULL;
        wf_atomic_u32 failed = {0};
        CHECK_EQ(weft_runtime_open(&other, &tour.options), 0);
        tour.options.on_failure = take_report;
        tour.options.hook_context = &reports;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (uint32_t i = 0; i < 4; i++) {
            weft_task *task = go_into(runtime, fail_plainly, &failed);
            const uint64_t id = weft_task_id(task);
            wait_for_state(task, WEFT_FAILED);
            while (stats_of(runtime).parked < tour.setting->workers) {
                (void)sched_yield();
            }
            if (i % 2 == 0) {
                weft_drop(task);
            } else {
                CHECK_EQ(weft_await(go_into(other, drop_it, task)), 0);
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
    weft_drop(kept);
    take_report(&keeper->reports, failure);
}

/* behaviour 30 */
static void what_a_hook_drops_is_reported(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct keeper keeper = {.kept = NULL};
        weft_runtime *runtime = NULL;
        wf_atomic_u32 failed = {0};
        tour.options.on_failure = report_and_drop;
        tour.options.hook_context = &keeper;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        keeper.kept = go_into(runtime, fail_plainly, &failed);
        wait_for_state(keeper.kept, WEFT_FAILED);
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, fail_plainly, &failed, NULL), 0);
        wait_for(&keeper.reports.count, 2);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(wf_load_acquire(&keeper.reports.count), 2);
    }
}

static intptr_t look_in_every_way(void *arg)
{
    (void)arg;
    wf_atomic_u32 failed = {0};
    wf_atomic_u32 never = {0};
    intptr_t result = 0;
    CHECK_EQ(weft_await(go(fail_plainly, &failed)), -EIO);
    weft_task *task = go(fail_plainly, &failed);
    CHECK_EQ(weft_join(task, NULL), 0);
    weft_drop(task);
    task = go(fail_plainly, &failed);
    while (weft_try_join(task, &result) == -EAGAIN) {
        (void)weft_yield();
    }
    weft_drop(task);
    weft_task *tasks[2] = {go(fail_plainly, &failed), go(fail_plainly, &failed)};
    CHECK_EQ(weft_await_all(tasks, 2, NULL), -EIO);
    weft_task *racers[2] = {go(fail_plainly, &failed), go(stand_by_or_leave, &never)};
    CHECK_EQ(weft_race(racers, 2, &result), 0);
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_go(&scope, fail_plainly, &failed), 0);
    CHECK_EQ(weft_scope_close(&scope), -EIO);
    return 0;
}

/* behaviour 30; the hook of sched_aids.h allows no report. */
static void what_was_looked_at_is_not_reported(void)
{
    run_under(EVERYWHERE, look_in_every_way);
}

static intptr_t fail_as_the_first_task(void *arg)
{
    (void)arg;
    return -EIO;
}

/* Its result is that of weft_run. */
static void the_failure_of_the_first_task_is_not_reported(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        CHECK_EQ(weft_run(fail_as_the_first_task, NULL, &tour.options), -EIO);
    }
}

static intptr_t cancel_unseen(void *arg)
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
        weft_drop(task);
        wait_for_state(second, WEFT_CANCELLED);
        weft_drop(second);
    }
    return 0;
}

/* behaviour 30 */
static void what_was_cancelled_is_not_reported(void)
{
    run_under(EVERYWHERE, cancel_unseen);
}

static intptr_t spawn_a_failure(void *arg)
{
    weft_task *task = NULL;
    const weft_task_options named = {.name = "hapless"};
    CHECK_EQ(weft_spawn(&task, fail_unseen, arg, &named), 0);
    wait_for_state(task, WEFT_FAILED); /* or we would cancel it by our end */
    weft_drop(task);
    return 0;
}

static void run_without_a_hook(void)
{
    uint64_t id = 0;
    CHECK_EQ(weft_run(spawn_a_failure, &id, &(weft_options){.workers = 2}), 0);
}

static void without_a_hook_the_report_goes_to_stderr(void)
{
    char text[4096];
    CHECK_EQ(tap_run_child(run_without_a_hook, text, sizeof(text)), 0);
    const char *line = strstr(text, "hapless");
    CHECK(line != NULL);
    CHECK(strstr(text, "unseen message") != NULL);
    CHECK(strchr(line, '\n') != NULL);
    CHECK(strstr(strchr(line, '\n'), "hapless") == NULL); /* once */
}

/* ---- in the middle of a future --------------------------------------------------------------- */

/* Waits for a task, and gives up when it is polled again. */
struct despair {
    weft_future future;
    weft_task_future other;
    bool has_begun;
};

static weft_poll despair_poll(weft_cx *cx, weft_future *future, intptr_t *result)
{
    struct despair *despair = (struct despair *)(void *)future;
    if (despair->has_begun) {
        weft_fail(-EIO, "nothing will come of it");
    }
    despair->has_begun = true;
    CHECK_EQ(weft_poll_future(cx, &despair->other.future, result), WEFT_PENDING);
    weft_wake(weft_cx_waker(cx));
    return WEFT_PENDING;
}

static intptr_t sleep_for_ever(void *arg)
{
    (void)arg;
    return weft_sleep_until(WEFT_NEVER);
}

static intptr_t despair_of(void *other)
{
    struct despair despair = {.future = {.poll = despair_poll}};
    weft_task_future_init(&despair.other, weft_task_ref(other), true);
    return weft_await_future(&despair.future);
}

static intptr_t leave_no_deadline(void *arg)
{
    (void)weft_deadline(WEFT_NEVER); /* so its end looks at what is left */
    return echo(arg);
}

/* What its futures had left with others lies in a frame that is gone. */
static intptr_t fail_in_a_future(void *arg)
{
    (void)arg;
    for (intptr_t i = 0; i < 10; i++) {
        weft_task *sleeper = go(sleep_for_ever, NULL);
        CHECK_EQ(weft_await(go(despair_of, sleeper)), -EIO);
        CHECK_EQ(weft_await(sleeper), -ECANCELED); /* the future was dropped */
        CHECK_EQ(weft_await(go(leave_no_deadline, (void *)i)), i);
    }
    return 0;
}

static void a_failing_task_drops_its_futures(void)
{
    run_under(EVERYWHERE, fail_in_a_future);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_task_fails_from_any_depth_after_its_cleanups),
    TAP_TEST(only_a_task_that_failed_has_a_message),
    TAP_TEST(cleanups_run_on_every_way_out),
    TAP_TEST(a_task_that_returns_with_a_cleanup_is_stopped),
    TAP_TEST(a_failing_task_gives_its_values_back),
    TAP_TEST(a_failing_task_drops_its_futures),
    TAP_TEST(a_failure_leaves_the_others_alone),
    TAP_TEST(who_waits_is_resumed_by_a_failure_too),
    TAP_TEST(a_failure_that_nobody_looked_at_is_reported_once),
    TAP_TEST(reports_come_when_nothing_is_left_to_run),
    TAP_TEST_LIMIT(in_a_runtime_that_is_never_quiet_the_monitor_reports, 30),
    TAP_TEST(what_is_dropped_in_a_quiet_runtime_is_reported),
    TAP_TEST(what_a_hook_drops_is_reported),
    TAP_TEST(what_was_looked_at_is_not_reported),
    TAP_TEST(the_failure_of_the_first_task_is_not_reported),
    TAP_TEST(what_was_cancelled_is_not_reported),
    TAP_TEST(without_a_hook_the_report_goes_to_stderr),
};
TAP_MAIN(tests)
