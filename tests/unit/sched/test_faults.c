/* SPDX-License-Identifier: MIT */
/*
 * Goal:   whatever the machine refuses (memory, mappings, threads, writes), the call that needed it
 *         says so, nothing is left behind, and the runtime goes on.
 * Method: each operation is done again and again, and each time the next one of its calls that can
 *         fail does, until none is left; then again, and each time all memory is gone from the next
 *         allocation on.  After each round the blocks of memory are counted, and the same runtime
 *         must run another task.  Only waits on futexes do not fail: every thread has them at any
 *         time, and they would make each round another one.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fault_aids.h"
#include "proc_aids.h"
#include "sched_aids.h"

#ifdef WF_TEST_AIDS

/* ---- opening ------------------------------------------------------------------------------- */

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

static void open_with_each_fault(const weft_options *options)
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
    /* The runtime, its workers, their queues, threads and signal stacks, the rings of the trace. */
    CHECK(faults.refused >= 10);
    expect_threads(0);
}

/* part of S0.6 */
static void a_runtime_opens_whole_or_not_at_all(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        tour.options.trace_events = 16;
        open_with_each_fault(&tour.options);
    }
}

static void the_number_of_workers_may_be_unknown(void)
{
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 0};
    const weft_options options = options_of(&setting);
    open_with_each_fault(&options);
}

static void a_run_says_why_it_could_not_be(void)
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
        CHECK(faults.refused >= 12); /* those above, and the task and the stack of `echo` */
    }
}

/* ---- spawning ------------------------------------------------------------------------------ */

enum { CROWD = 6 };

struct crowd {
    wf_atomic_u32 started;
    wf_atomic_u32 open;
    weft_task *tasks[CROWD];
    intptr_t results[CROWD];
};

static intptr_t start_and_stand_by(void *arg)
{
    struct crowd *crowd = arg;
    raise_by_one(&crowd->started);
    wait_for(&crowd->open, 1);
    return 7;
}

static unsigned count_ended(const struct crowd *crowd)
{
    unsigned ended = 0;
    for (int i = 0; i < CROWD; i++) {
        ended += weft_try_join(crowd->tasks[i], NULL) == 0 ? 1 : 0;
    }
    return ended;
}

/* Until each has begun, or never will: so all have stacks at the same time. */
static void await_beginnings(struct crowd *crowd)
{
    while (wf_load_acquire(&crowd->started) + count_ended(crowd) < CROWD) { /* to raise_by_one */
        let_others_run();
    }
}

static void check_crowd(struct faults *faults, struct crowd *crowd)
{
    unsigned refused = 0;
    for (int i = 0; i < CROWD; i++) {
        CHECK(crowd->results[i] == 7 || crowd->results[i] == -ENOMEM);
        refused += crowd->results[i] == -ENOMEM ? 1 : 0;
    }
    faults_refused(faults, refused);
}

static intptr_t run_a_crowd(void *arg)
{
    struct faults *faults = arg;
    struct crowd crowd = {.open = {0}};
    const weft_task_options options = {.stack_size = (size_t)1 << 20}; /* a slab has four of them */
    faults_begin(faults);
    for (int i = 0; i < CROWD; i++) {
        CHECK_EQ(weft_spawn(&crowd.tasks[i], start_and_stand_by, &crowd, &options), 0);
    }
    await_beginnings(&crowd);
    faults_end(faults);
    raise_by_one(&crowd.open);
    int rc = weft_await_all(crowd.tasks, CROWD, crowd.results);
    CHECK(rc == 0 || rc == -ENOMEM);
    check_crowd(faults, &crowd);
    return 0;
}

/* S2.52: out of memory is an error of one task, whose worker goes on */
static void who_gets_no_stack_ends_with_an_error(void)
{
    fail_each(run_a_crowd, 4);
}

static intptr_t read_number(void *arg)
{
    (void)weft_yield();
    return *(const int *)arg;
}

/* Spawns with everything that a task can be asked to have. */
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
        weft_task *task = weft_self(); /* something that must stay */
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

static void a_spawn_with_any_option_fails_whole(void)
{
    /* Name; copy; two stacks of other sizes, of a block and a mapping each; twice for the last. */
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

static void a_spawn_from_outside_fails_whole(void)
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
    CHECK(close_rc == 0 || (rc == 0 && close_rc == -ENOMEM)); /* it got no stack */
    bool is_refused = rc != 0 || close_rc != 0;
    CHECK_EQ(wf_load_relaxed(&ran), is_refused ? 0 : 1);
    CHECK(!is_refused || faults->what != NULL);
    faults->refused += is_refused ? 1 : 0;
    return 0;
}

static void a_scope_hears_of_a_task_that_got_no_stack(void)
{
    fail_each(go_in_a_scope, 3);
}

enum { MANY = 100 }; /* more than a slab of tasks has, or the first buffers of a deque */

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
    CHECK_EQ(wf_load_acquire(&ran), MANY - refused); /* to raise_by_one */
    return 0;
}

static void who_is_made_runs_even_if_no_queue_can_grow(void)
{
    fail_each(go_many, 1);
}

/* ---- inside of tasks ----------------------------------------------------------------------- */

static weft_key key;
static unsigned destroyed; /* plain: whoever ends a task hands it on */

static void destroy(void *value)
{
    CHECK(value == &key);
    destroyed++;
}

static intptr_t keep_a_local(void *arg)
{
    struct faults *faults = arg;
    faults_begin(faults);
    void **place = weft_local(key);
    faults_end(faults);
    if (place == NULL) {
        CHECK(is_hit(faults, "alloc"));
        faults->refused++;
        place = weft_local(key);
    }
    CHECK(place != NULL);
    CHECK(*place == NULL);
    *place = &key;
    return 0;
}

static intptr_t keep_a_local_in_a_child(void *arg)
{
    destroyed = 0;
    CHECK_EQ(weft_await(go(keep_a_local, arg)), 0);
    CHECK_EQ(destroyed, 1);
    return 0;
}

static void a_local_that_has_no_memory_has_it_later(void)
{
    CHECK_EQ(weft_key_new(&key, destroy), 0);
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
    weft_drop(task);
    return 0;
}

static void a_failure_without_memory_keeps_its_error(void)
{
    fail_each(read_message, 2);
}

enum { RUNNERS = 12 }; /* more than a race has room for in its frame */

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
    weft_task *tasks[RUNNERS];
    for (int i = 0; i < RUNNERS; i++) {
        tasks[i] = i == RUNNERS - 1 ? go(win, &open) : go(stand_by_or_leave, &never);
        while (!info_of(tasks[i]).has_run) { /* then it has a stack */
            let_others_run();
        }
    }
    intptr_t result = 0;
    faults_begin(faults);
    raise_by_one(&open);
    int rc = weft_race(tasks, RUNNERS, &result);
    faults_end(faults);
    if (rc == -ENOMEM) {
        CHECK(is_hit(faults, "alloc"));
        CHECK_EQ(result, 0);
        faults->refused++;
        rc = weft_race(tasks, RUNNERS, &result); /* the handles are still ours */
    }
    CHECK_EQ(rc, RUNNERS - 1);
    CHECK_EQ(result, 7);
    return 0;
}

static void a_race_without_memory_leaves_the_handles(void)
{
    fail_each(race_many, 1);
}

/* ---- looking at a runtime ------------------------------------------------------------------ */

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

static intptr_t dump_it(void *arg)
{
    struct faults *faults = arg;
    int fd = open_null();
    faults_begin(faults);
    int rc = weft_dump(weft_runtime_self(), fd);
    faults_end(faults);
    if (rc != 1) { /* tasks: ourselves */
        CHECK(is_write_error(faults, rc) || (rc == -ENOMEM && is_hit(faults, "alloc")));
        faults->refused++;
    }
    CHECK_EQ(weft_dump(weft_runtime_self(), fd), 1);
    CHECK_EQ(close(fd), 0);
    return 0;
}

static void a_dump_says_why_it_is_not_whole(void)
{
    fail_each(dump_it, 3); /* memory, and for a worker and a task a write that fails */
}

static intptr_t trace_it(void *arg)
{
    struct faults *faults = arg;
    weft_runtime *runtime = weft_runtime_self();
    int fd = open_null();
    faults_begin(faults);
    int rc = weft_trace_start(runtime, 64);
    if (rc != 0) {
        faults_end(faults);
        CHECK_EQ(rc, -ENOMEM);
        CHECK(is_hit(faults, "alloc"));
        faults->refused++;
        CHECK_EQ(weft_trace_stop(runtime, fd), -EALREADY);
        CHECK_EQ(weft_trace_start(runtime, 64), 0);
    }
    (void)weft_yield();
    rc = weft_trace_stop(runtime, fd);
    faults_end(faults);
    if (rc == -ENOMEM) { /* then it still runs */
        CHECK(is_hit(faults, "alloc"));
        faults->refused++;
        CHECK_EQ(weft_trace_start(runtime, 64), -EALREADY);
        rc = weft_trace_stop(runtime, fd);
    }
    CHECK(rc == 0 || is_write_error(faults, rc));
    CHECK_EQ(weft_trace_stop(runtime, fd), -EALREADY);
    CHECK_EQ(close(fd), 0);
    return 0;
}

static void a_trace_that_cannot_start_or_stop_can_later(void)
{
    fail_each(trace_it, 5);
}

/* ---- what is reported ---------------------------------------------------------------------- */

struct news {
    wf_atomic_u32 failures;
    wf_atomic_u32 deadlocks;
    size_t cycle_count;
    uint64_t task_id;
    int error;
    char message[64];
};

static void hear_failure(void *context, const weft_failure *failure)
{
    struct news *news = context;
    news->task_id = failure->task_id;
    news->error = failure->error;
    (void)snprintf(news->message, sizeof(news->message), "%s", failure->message);
    raise_by_one(&news->failures);
}

static void hear_deadlock(void *context, const weft_deadlock *deadlock)
{
    struct news *news = context;
    news->cycle_count = deadlock->cycle_count;
    CHECK_EQ(deadlock->count, 3);
    CHECK(deadlock->cycle_count == 0 || deadlock->cycle != NULL);
    CHECK((deadlock->text[0] != '\0') == (deadlock->cycle_count > 0));
    raise_by_one(&news->deadlocks);
}

static intptr_t fail_unseen(void *arg)
{
    weft_drop(go(fail_with_message, arg));
    return 0;
}

/* part of behaviour 30 */
static void a_failure_that_cannot_be_noted_is_reported(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        struct faults faults = {0};
        while (faults_next(&faults)) {
            struct news news = {.error = 0};
            weft_runtime *runtime = NULL;
            tour.options.on_failure = hear_failure;
            tour.options.hook_context = &news;
            CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
            CHECK_EQ(weft_await(go_into(runtime, fail_unseen, &faults)), 0);
            while (stats_of(runtime).live > 0) {
                (void)sched_yield();
            }
            CHECK_EQ(stats_of(runtime).total.failed, 1);
            CHECK_EQ(weft_runtime_close(runtime, -1), 0);
            faults_end(&faults);
            CHECK_EQ(wf_load_acquire(&news.failures), 1); /* to raise_by_one */
            if (news.task_id == 0) {
                CHECK(is_hit(&faults, "alloc"));
                CHECK_EQ(news.error, -ENOMEM);
                CHECK_STR(news.message, "no memory to note 1 more that failed");
                faults.refused++;
            } else {
                CHECK_EQ(news.error, -EIO);
                CHECK(strcmp(news.message, "disk 7 is full") == 0 || is_hit(&faults, "alloc"));
            }
        }
        CHECK(faults.refused >= 1);
    }
}

static void fail_without_a_stack(struct faults *faults, weft_runtime *runtime, struct news *news)
{
    const weft_task_options options = {.stack_size = (size_t)1 << 20, .is_detached = true};
    wf_atomic_u32 ran = {0};
    while (stats_of(runtime).parked < weft_runtime_workers(runtime)) {
        (void)sched_yield();
    }
    faults_begin(faults);
    int rc = weft_runtime_spawn(runtime, NULL, count_up, &ran, &options);
    CHECK(rc == 0 || rc == -ENOMEM);
    /* Nothing runs, before and after: the report must come all the same. */
    while (rc == 0 && wf_load_acquire(&ran) + wf_load_acquire(&news->failures) == 0) {
        (void)sched_yield();
    }
    faults_end(faults);
    CHECK_EQ(wf_load_relaxed(&news->failures), rc == 0 && wf_load_relaxed(&ran) == 0 ? 1 : 0);
    CHECK_EQ(news->error, wf_load_relaxed(&news->failures) == 1 ? -ENOMEM : 0);
    faults->refused += wf_load_relaxed(&news->failures);
}

static void who_never_ran_for_want_of_a_stack_is_reported(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        struct faults faults = {0};
        while (faults_next(&faults)) {
            struct news news = {.error = 0};
            weft_runtime *runtime = NULL;
            tour.options.on_failure = hear_failure;
            tour.options.hook_context = &news;
            tour.options.no_monitor = true; /* as in fail_each */
            CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
            fail_without_a_stack(&faults, runtime, &news);
            CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        }
        CHECK(faults.refused >= 2); /* a block and a mapping */
    }
}

struct knot {
    struct faults *faults;
    weft_task *tasks[2];
    wf_atomic_u32 is_tied;
};

static intptr_t join_second(void *arg)
{
    struct knot *knot = arg;
    wait_for(&knot->is_tied, 1);
    return weft_join(knot->tasks[1], NULL);
}

static intptr_t join_first(void *arg)
{
    struct knot *knot = arg;
    wait_for(&knot->is_tied, 1);
    return weft_join(knot->tasks[0], NULL);
}

static intptr_t tie_a_knot(void *arg)
{
    struct knot knot = {.faults = arg};
    knot.tasks[0] = go(join_second, &knot);
    knot.tasks[1] = go(join_first, &knot);
    raise_by_one(&knot.is_tied);
    wait_for_state(knot.tasks[0], WEFT_BLOCKED);
    wait_for_state(knot.tasks[1], WEFT_BLOCKED);
    faults_begin(knot.faults);
    int rc = weft_join(knot.tasks[0], NULL); /* the knot is cut somewhere */
    CHECK(rc == 0 || rc == -ECANCELED);
    weft_drop(knot.tasks[0]);
    weft_drop(knot.tasks[1]);
    return 0;
}

static void a_deadlock_is_reported_without_memory_too(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        struct faults faults = {0};
        while (faults_next(&faults)) {
            struct news news = {.cycle_count = 0};
            tour.options.on_deadlock = hear_deadlock;
            tour.options.hook_context = &news;
            CHECK_EQ(weft_run(tie_a_knot, &faults, &tour.options), -EDEADLK);
            faults_end(&faults);
            CHECK_EQ(wf_load_acquire(&news.deadlocks), 1); /* to raise_by_one */
            if (news.cycle_count != 2) {
                CHECK_EQ(news.cycle_count, 0);
                CHECK(is_hit(&faults, "alloc"));
                faults.refused++;
            }
        }
        CHECK(faults.refused >= 2); /* the tasks, and the text */
    }
}

#else

static void faults_are_compiled_in(void)
{
    tap_skip("this build has no fault points");
}

#endif

static const struct tap_test tests[] = {
#ifdef WF_TEST_AIDS
    TAP_TEST(a_runtime_opens_whole_or_not_at_all),
    TAP_TEST(the_number_of_workers_may_be_unknown),
    TAP_TEST(a_run_says_why_it_could_not_be),
    TAP_TEST(who_gets_no_stack_ends_with_an_error),
    TAP_TEST(a_spawn_with_any_option_fails_whole),
    TAP_TEST(a_spawn_from_outside_fails_whole),
    TAP_TEST(a_scope_hears_of_a_task_that_got_no_stack),
    TAP_TEST(who_is_made_runs_even_if_no_queue_can_grow),
    TAP_TEST(a_local_that_has_no_memory_has_it_later),
    TAP_TEST(a_failure_without_memory_keeps_its_error),
    TAP_TEST(a_race_without_memory_leaves_the_handles),
    TAP_TEST(a_dump_says_why_it_is_not_whole),
    TAP_TEST(a_trace_that_cannot_start_or_stop_can_later),
    TAP_TEST(a_failure_that_cannot_be_noted_is_reported),
    TAP_TEST(who_never_ran_for_want_of_a_stack_is_reported),
    TAP_TEST(a_deadlock_is_reported_without_memory_too),
#else
    TAP_TEST(faults_are_compiled_in),
#endif
};
TAP_MAIN(tests)
