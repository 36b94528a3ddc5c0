/* SPDX-License-Identifier: MIT */
/*
 * Goal:   functions that block have threads of their own, as many as are needed and allowed, and no
 *         worker waits with them; every call ends, with the function's result or with the reason
 *         why it never began.
 * Method: functions that wait at gates, so that it is known how many are inside at once; the
 *         numbers of the runtime; calls that are cancelled, out of time or closed in each state;
 *         threads and memory that are refused in turn.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "fault_aids.h"
#include "proc_aids.h"
#include "sched/sched.h"
#include "sched_aids.h"

/* A gate that functions come through, one thread each. */
struct gate {
    wf_atomic_u32 inside; /* came to it */
    wf_atomic_u32 now;    /* are there */
    wf_atomic_u32 most;   /* were there at once */
    wf_atomic_u32 passed; /* left it again */
    wf_atomic_u32 open;   /* so many may */
};

static intptr_t pass_gate(void *arg)
{
    struct gate *gate = arg;
    CHECK(weft_self() == NULL);
    const uint32_t here = wf_fetch_add_relaxed(&gate->now, 1) + 1; /* relaxed: a number */
    raise_by_one(&gate->inside);
    uint32_t most = wf_load_relaxed(&gate->most);
    while (here > most && !wf_cas_relaxed(&gate->most, &most, here)) {
    }
    hold_for(&gate->open, 1);
    (void)wf_fetch_sub_relaxed(&gate->now, 1);
    raise_by_one(&gate->passed);
    return 5;
}

static intptr_t call_gate(void *arg)
{
    return weft_blocking(pass_gate, arg);
}

/* ---- what a call is ------------------------------------------------------------------------ */

struct visit {
    int plain; /* carried there and back */
    int thread;
};

static intptr_t look_around(void *arg)
{
    struct visit *visit = arg;
    CHECK(weft_self() == NULL);
    CHECK(weft_runtime_self() == NULL);
    visit->thread = wf_thread_id();
    visit->plain *= 2;
    return visit->plain + 1;
}

static intptr_t fail_there(void *arg)
{
    (void)arg;
    return -EIO;
}

static intptr_t call_some(void *arg)
{
    (void)arg;
    struct visit visit = {.plain = 21};
    CHECK_EQ(weft_blocking(look_around, &visit), 43);
    CHECK_EQ(visit.plain, 42);
    CHECK(visit.thread != wf_thread_id());
    CHECK_EQ(weft_blocking(fail_there, NULL), -EIO);
    CHECK_EQ(weft_blocking(NULL, NULL), -EINVAL);
    return 0;
}

/* behaviour 58, S1.1 */
static void a_function_runs_on_a_thread_of_its_own(void)
{
    run_under(EVERYWHERE, call_some);
    struct visit visit = {.plain = 4};
    CHECK_EQ(weft_blocking(look_around, &visit), 9); /* from a thread that is no worker */
    CHECK_EQ(visit.thread, wf_thread_id());
    CHECK_EQ(weft_blocking(NULL, NULL), -EINVAL);
}

static intptr_t go_on_meanwhile(void *arg)
{
    (void)arg;
    struct gate gate = {0};
    weft_task *caller = go(call_gate, &gate);
    wait_for(&gate.inside, 1);
    wait_for_state(caller, WEFT_BLOCKED);
    CHECK_EQ(info_of(caller).wait, WEFT_WAIT_BLOCKING);
    CHECK_STR(weft_wait_name(WEFT_WAIT_BLOCKING), "blocking");
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    }
    CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    CHECK_EQ(wf_load_acquire(&gate.passed), 0);
    raise_by_one(&gate.open);
    CHECK_EQ(weft_await(caller), 5);
    return 0;
}

static void its_worker_goes_on_with_others(void)
{
    run_under(EVERYWHERE, go_on_meanwhile);
}

/* ---- how many ------------------------------------------------------------------------------ */

enum { MANY = 100 };

/* Each waits until all of them are there. */
static intptr_t meet(void *arg)
{
    wf_atomic_u32 *arrived = arg;
    raise_by_one(arrived);
    hold_for(arrived, MANY);
    return 0;
}

static intptr_t call_meet(void *arg)
{
    return weft_blocking(meet, arg);
}

static intptr_t hundred_meet(void *arg)
{
    (void)arg;
    wf_atomic_u32 arrived = {0};
    weft_task *tasks[MANY];
    for (int i = 0; i < MANY; i++) {
        tasks[i] = go(call_meet, &arrived);
    }
    CHECK_EQ(weft_await_all(tasks, MANY, NULL), 0);
    const weft_stats stats = stats_of(weft_runtime_self());
    CHECK_EQ(stats.blocking_done, MANY);
    CHECK_EQ(stats.blocking_waiting, 0);
    CHECK(stats.blocking_threads <= MANY);
    return 0;
}

/* behaviour 58: with less than a hundred threads none would ever leave */
static void a_hundred_that_wait_for_each_other_are_there_at_once(void)
{
    run_under(EVERYWHERE, hundred_meet);
}

static intptr_t doze(void *arg)
{
    (void)arg;
    /* The promise is about sleeps. */
    const struct timespec time = {.tv_nsec = 100 * 1000 * 1000};
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static intptr_t call_doze(void *arg)
{
    return weft_blocking(doze, arg);
}

static intptr_t hundred_doze(void *arg)
{
    (void)arg;
    weft_task *tasks[MANY];
    const weft_time began = weft_now();
    for (int i = 0; i < MANY; i++) {
        tasks[i] = go(call_doze, NULL);
    }
    CHECK_EQ(weft_await_all(tasks, MANY, NULL), 0);
    CHECK(weft_now() - began < 5 * WEFT_SECOND); /* one after the other they take ten */
    return 0;
}

/* behaviour 58 */
static void a_hundred_sleeps_take_as_long_as_a_few(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        CHECK_EQ(weft_run(hundred_doze, NULL, &tour.options), 0);
    }
}

enum { CAP = 3, CALLS = 20 };

static intptr_t crowd_at_gate(void *arg)
{
    (void)arg;
    struct gate gate = {0};
    weft_runtime *runtime = weft_runtime_self();
    weft_task *tasks[CALLS];
    for (int i = 0; i < CALLS; i++) {
        tasks[i] = go(call_gate, &gate);
    }
    while (stats_of(runtime).blocking_waiting < CALLS - CAP) {
        let_others_run();
    }
    wait_for(&gate.inside, CAP);
    CHECK_EQ(stats_of(runtime).blocking_threads, CAP);
    CHECK_EQ(stats_of(runtime).blocking_idle, 0);
    CHECK_EQ(wf_load_acquire(&gate.inside), CAP);
    raise_by_one(&gate.open);
    for (int i = 0; i < CALLS; i++) {
        CHECK_EQ(weft_await(tasks[i]), 5);
    }
    CHECK(wf_load_acquire(&gate.most) <= CAP);
    CHECK_EQ(stats_of(runtime).blocking_threads, CAP);
    CHECK_EQ(stats_of(runtime).blocking_done, CALLS);
    return 0;
}

/* behaviour 58 */
static void there_are_no_more_threads_than_allowed(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = CAP;
        CHECK_EQ(weft_run(crowd_at_gate, NULL, &tour.options), 0);
    }
}

struct place {
    int number;
    int *next; /* plain: only one at a time is there */
};

static intptr_t take_place(void *arg)
{
    struct place *place = arg;
    CHECK_EQ(place->number, *place->next);
    *place->next += 1;
    return 0;
}

static intptr_t call_take_place(void *arg)
{
    return weft_blocking(take_place, arg);
}

static intptr_t stand_in_line(void *arg)
{
    (void)arg;
    struct gate gate = {0};
    int next = 0;
    struct place places[CALLS];
    weft_task *tasks[CALLS];
    weft_task *first = go(call_gate, &gate);
    wait_for(&gate.inside, 1);
    for (int i = 0; i < CALLS; i++) {
        places[i] = (struct place){i, &next};
        tasks[i] = go(call_take_place, &places[i]);
        while (stats_of(weft_runtime_self()).blocking_waiting <= (uint64_t)i) {
            let_others_run();
        }
    }
    raise_by_one(&gate.open);
    CHECK_EQ(weft_await(first), 5);
    CHECK_EQ(weft_await_all(tasks, CALLS, NULL), 0);
    CHECK_EQ(next, CALLS);
    return 0;
}

static void who_came_first_begins_first(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        CHECK_EQ(weft_run(stand_in_line, NULL, &tour.options), 0);
    }
}

static intptr_t call_again_and_again(void *arg)
{
    (void)arg;
    for (int i = 0; i < CALLS; i++) {
        CHECK_EQ(weft_blocking(echo, (void *)(intptr_t)i), i);
        CHECK_EQ(stats_of(weft_runtime_self()).blocking_threads, 1);
    }
    return 0;
}

static void one_call_after_the_other_needs_one_thread(void)
{
    run_under(EVERYWHERE, call_again_and_again);
}

static intptr_t wait_for_their_end(void *arg)
{
    (void)arg;
    weft_runtime *runtime = weft_runtime_self();
    for (int round = 0; round < 3; round++) {
        struct gate gate = {0};
        weft_task *tasks[CAP];
        for (int i = 0; i < CAP; i++) {
            tasks[i] = go(call_gate, &gate);
        }
        wait_for(&gate.inside, CAP);
        raise_by_one(&gate.open);
        for (int i = 0; i < CAP; i++) {
            CHECK_EQ(weft_await(tasks[i]), 5);
        }
        while (stats_of(runtime).blocking_threads > 0) {
            let_others_run();
        }
        CHECK_EQ(stats_of(runtime).blocking_idle, 0);
    }
    return 0;
}

/* behaviour 58 */
static void threads_without_a_job_end_and_come_back(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_idle_ns = WEFT_MILLISECOND;
        CHECK_EQ(weft_run(wait_for_their_end, NULL, &tour.options), 0);
    }
}

enum { ROUNDS = 2000, CALLERS = 4 };

static intptr_t call_often(void *arg)
{
    struct visit visit = {.plain = 1};
    for (int i = 0; i < ROUNDS; i++) {
        visit.plain = i;
        CHECK_EQ(weft_blocking(look_around, &visit), 2 * i + 1);
        CHECK_EQ(visit.plain, 2 * i);
    }
    raise_by_one(arg);
    return 0;
}

static intptr_t call_at_the_deadline(void *arg)
{
    (void)arg;
    wf_atomic_u32 ended = {0};
    weft_task *tasks[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        tasks[i] = go(call_often, &ended);
    }
    CHECK_EQ(weft_await_all(tasks, CALLERS, NULL), 0);
    CHECK_EQ(wf_load_acquire(&ended), CALLERS);
    CHECK_EQ(stats_of(weft_runtime_self()).blocking_done, ROUNDS * CALLERS);
    return 0;
}

/* Each thread is about to end whenever the next job comes. */
static void a_job_for_a_thread_that_is_about_to_end_is_not_lost(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_idle_ns = 5000 * (1 + (int64_t)tour.next % 4);
        CHECK_EQ(weft_run(call_at_the_deadline, NULL, &tour.options), 0);
    }
}

/* ---- cancel, deadlines, close -------------------------------------------------------------- */

static intptr_t call_twice(void *arg)
{
    intptr_t result = weft_blocking(pass_gate, arg);
    CHECK_EQ(weft_blocking(echo, NULL), -ECANCELED); /* the next wait is what is cancelled */
    return result;
}

static intptr_t never_called(void *arg)
{
    (void)arg;
    tap_fail(__FILE__, __LINE__, "it was called");
}

static intptr_t call_never(void *arg)
{
    return weft_blocking(never_called, arg);
}

static intptr_t call_never_in_time(void *arg)
{
    (void)weft_deadline(weft_in(WEFT_MILLISECOND));
    return weft_blocking(never_called, arg);
}

static intptr_t cancel_some(void *arg)
{
    (void)arg;
    struct gate gate = {0};
    weft_task *running = go(call_twice, &gate);
    wait_for(&gate.inside, 1);
    weft_task *late = go(call_never_in_time, NULL);
    weft_task *queued = go(call_never, NULL);
    CHECK_EQ(weft_await(late), -ETIMEDOUT);
    while (stats_of(weft_runtime_self()).blocking_waiting < 1) {
        let_others_run();
    }
    CHECK_EQ(weft_cancel(queued), 0);
    CHECK_EQ(weft_await(queued), -ECANCELED);
    CHECK_EQ(weft_cancel(running), 0);
    CHECK_EQ(weft_blocking(NULL, NULL), -EINVAL);
    wait_for_state(running, WEFT_BLOCKED); /* again: its function cannot be stopped */
    raise_by_one(&gate.open);
    CHECK_EQ(weft_await(running), 5);
    return 0;
}

/* part of behaviour 32 */
static void a_call_that_has_not_begun_can_be_cancelled(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        CHECK_EQ(weft_run(cancel_some, NULL, &tour.options), 0);
    }
}

static intptr_t call_never_when_asked(void *arg)
{
    wf_atomic_u32 *may_go = arg;
    while (wf_load_acquire(may_go) == 0) {
        let_others_run();
    }
    const intptr_t result = weft_blocking(echo, (void *)9);
    CHECK(result == 9 || result == -ECANCELED);
    return result;
}

/* The cancel comes at any moment of the call: the control thread may not have seen it yet. */
static intptr_t cancel_at_any_moment(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        wf_atomic_u32 may_go = {0};
        weft_task *task = go(call_never_when_asked, &may_go);
        raise_by_one(&may_go);
        for (int turn = 0; turn < i % 8; turn++) {
            let_others_run();
        }
        CHECK_EQ(weft_cancel(task), 0);
        const intptr_t result = weft_await(task);
        CHECK(result == 9 || result == -ECANCELED);
    }
    return 0;
}

static void a_cancel_at_any_moment_ends_the_call_or_lets_it_end(void)
{
    run_under(EVERYWHERE, cancel_at_any_moment);
}

struct closing {
    weft_runtime *runtime;
    int64_t timeout_ns;
    wf_atomic_u32 is_closed;
    int rc;
};

static void *close_it(void *arg)
{
    struct closing *closing = arg;
    closing->rc = weft_runtime_close(closing->runtime, closing->timeout_ns);
    raise_by_one(&closing->is_closed);
    return NULL;
}

/* Some calls run and some wait for a thread when the runtime is closed. */
static void close_around_calls(const weft_options *options, int64_t timeout_ns)
{
    struct gate gate = {0};
    struct closing closing = {.timeout_ns = timeout_ns};
    weft_task *running[CAP];
    weft_task *queued[CALLS];
    pthread_t thread;
    CHECK_EQ(weft_runtime_open(&closing.runtime, options), 0);
    for (int i = 0; i < CAP; i++) {
        running[i] = go_into(closing.runtime, call_gate, &gate);
    }
    wait_for(&gate.inside, CAP);
    for (int i = 0; i < CALLS; i++) {
        queued[i] = go_into(closing.runtime, call_never, NULL);
    }
    while (stats_of(closing.runtime).blocking_waiting < CALLS) {
        (void)sched_yield();
    }
    CHECK_EQ(wf_thread_start(&thread, close_it, &closing, NULL), 0);
    for (int i = 0; i < CALLS; i++) { /* while the others still run, if there is time */
        while (timeout_ns != 0 && weft_try_join(queued[i], NULL) != 0) {
            (void)sched_yield();
        }
    }
    if (timeout_ns == 0) {
        expect_threads(CAP); /* the time is over, and the workers have left */
    }
    CHECK_EQ(wf_load_acquire(&closing.is_closed), 0);
    raise_by_one(&gate.open);
    CHECK_EQ(wf_thread_join(thread), 0);
    CHECK_EQ(closing.rc, timeout_ns != 0 ? 0 : -ETIMEDOUT);
    CHECK_EQ(wf_load_acquire(&gate.passed), CAP); /* were waited for */
    for (int i = 0; i < CAP; i++) {
        CHECK_EQ(weft_await(running[i]), timeout_ns != 0 ? 5 : -ECANCELED);
    }
    for (int i = 0; i < CALLS; i++) {
        CHECK_EQ(weft_await(queued[i]), -ECANCELED);
    }
    expect_threads(0);
}

/* behaviour 58 */
static void a_close_ends_every_call(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = CAP;
        close_around_calls(&tour.options, -1);
    }
}

/* behaviour 58 */
static void a_forced_close_ends_every_call(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = CAP;
        close_around_calls(&tour.options, 0);
    }
}

/* Nobody would end this: not even the threads that have nothing to do. */
static intptr_t wait_without_end(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_blocking(echo, NULL), 0);
    weft_notify notify = {0};
    return weft_notify_wait(&notify);
}

static void note_deadlock(void *context, const weft_deadlock *deadlock)
{
    CHECK_EQ(deadlock->count, 1);
    raise_by_one(context);
}

static void idle_threads_do_not_hide_a_deadlock(void)
{
    if (wf_thread_count() != 1) {
        tap_skip("the process has threads of others");
    }
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        wf_atomic_u32 found = {0};
        tour.options.on_deadlock = note_deadlock;
        tour.options.hook_context = &found;
        CHECK_EQ(weft_run(wait_without_end, NULL, &tour.options), -EDEADLK);
        CHECK(wf_load_acquire(&found) >= 1);
    }
}

/* ---- refused ------------------------------------------------------------------------------- */

/* ---- threads that are about to end ----------------------------------------------------------- */

static intptr_t call_as_it_leaves(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2000; i++) {
        const int64_t until_ns = wf_clock_now() + 40000 + i % 40 * 1000;
        CHECK_EQ(weft_blocking(echo, (void *)7), 7);
        while (wf_clock_now() < until_ns) { /* about as long as the thread waits for more */
        }
    }
    return 0;
}

/* The only thread that there may be is just leaving: the job is not left to nobody. */
static void a_thread_that_ends_leaves_no_job_behind(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        tour.options.blocking_idle_ns = 50000;
        CHECK_EQ(weft_run(call_as_it_leaves, NULL, &tour.options), 0);
    }
}

#ifdef WF_TEST_AIDS

static intptr_t call_while_it_may_fail(void *arg)
{
    struct faults *faults = arg;
    faults_begin(faults);
    const intptr_t result = weft_blocking(echo, (void *)7);
    faults_end(faults);
    if (result != 7) {
        CHECK(result == -EAGAIN || result == -ENOMEM);
        CHECK_EQ(stats_of(weft_runtime_self()).blocking_refused, 1);
        faults_refused(faults, 1);
    }
    CHECK_EQ(weft_blocking(echo, (void *)8), 8);
    return 0;
}

static void a_call_without_a_thread_says_so(void)
{
    fail_each(call_while_it_may_fail, 3); /* memory twice, and the thread */
}

/* What the allocator below waits for before it refuses; one at a time. */
static struct {
    wf_atomic_u32 is_armed;
    wf_atomic_u32 calls;
    weft_runtime *runtime;
    struct gate *gate; /* to be opened */
} refusal;

static void *refuse_late(size_t alignment, size_t size)
{
    if (wf_load_acquire(&refusal.is_armed) == 0) { /* to raise_by_one */
        void *memory = NULL;
        alignment = alignment > sizeof(void *) ? alignment : sizeof(void *);
        return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
    }
    if (wf_fetch_add_acq_rel(&refusal.calls, 1) == 0) {
        if (refusal.gate != NULL) {
            raise_by_one(&refusal.gate->open);
            while (stats_of(refusal.runtime).blocking_idle == 0) {
                (void)sched_yield();
            }
        } else {
            while (stats_of(refusal.runtime).blocking_waiting == 0) {
                (void)sched_yield();
            }
        }
    }
    return NULL;
}

static intptr_t use_the_one_that_is_free(void *arg)
{
    (void)arg;
    struct gate gate = {0};
    weft_task *first = go(call_gate, &gate);
    wait_for(&gate.inside, 1);
    refusal.runtime = weft_runtime_self();
    refusal.gate = &gate;
    raise_by_one(&refusal.is_armed);
    CHECK_EQ(weft_blocking(echo, (void *)7), 7);
    wf_store_release(&refusal.is_armed, 0);
    CHECK_EQ(weft_await(first), 5);
    CHECK_EQ(stats_of(refusal.runtime).blocking_threads, 1);
    CHECK_EQ(stats_of(refusal.runtime).blocking_refused, 1);
    return 0;
}

/* It has its stack before it calls. */
static intptr_t call_echo_when_armed(void *arg)
{
    wait_for(&refusal.is_armed, 1);
    return weft_blocking(echo, arg);
}

/* The second finds that a thread is being started for the first, and waits for that one. */
static intptr_t lose_both(void *arg)
{
    (void)arg;
    refusal.runtime = weft_runtime_self();
    weft_task *tasks[2] = {go(call_echo_when_armed, (void *)7),
                           go(call_echo_when_armed, (void *)7)};
    while (info_of(tasks[0]).runs == 0 || info_of(tasks[1]).runs == 0) {
        let_others_run();
    }
    raise_by_one(&refusal.is_armed);
    CHECK_EQ(weft_await(tasks[0]), -ENOMEM);
    CHECK_EQ(weft_await(tasks[1]), -ENOMEM);
    wf_store_release(&refusal.is_armed, 0);
    CHECK_EQ(weft_blocking(echo, (void *)8), 8);
    return 0;
}

static void with_late_refusals(enum which which, weft_fn fn)
{
    static const struct wf_allocator late = {refuse_late, free};
    CHECK_EQ(wf_allocator_set(&late), 0);
    for (struct tour tour = {.which = which}; tour_next(&tour);) {
        memset(&refusal, 0, sizeof(refusal));
        CHECK_EQ(weft_run(fn, NULL, &tour.options), 0);
    }
}

static void a_thread_that_is_free_by_now_does_instead(void)
{
    with_late_refusals(EVERYWHERE, use_the_one_that_is_free);
}

static void who_waits_for_a_thread_that_never_starts_is_told(void)
{
    with_late_refusals(ON_SEVERAL_THAT_STEAL, lose_both);
}

static intptr_t wait_for_a_busy_one(void *arg)
{
    struct faults *faults = arg;
    struct gate gate = {0};
    weft_task *first = go(call_gate, &gate);
    wait_for(&gate.inside, 1);
    wf_store_release(&refusal.is_armed, 0);
    weft_task *second = go(call_echo_when_armed, (void *)7);
    while (info_of(second).runs == 0) {
        let_others_run();
    }
    faults_begin(faults);
    raise_by_one(&refusal.is_armed);
    while (weft_try_join(second, NULL) != 0 &&
           stats_of(weft_runtime_self()).blocking_waiting == 0) {
        let_others_run();
    }
    faults_end(faults);
    if (weft_try_join(second, NULL) != 0) {
        faults->refused++;
        CHECK(faults->what != NULL);
    }
    raise_by_one(&gate.open);
    CHECK_EQ(weft_await(second), 7);
    CHECK_EQ(weft_await(first), 5);
    return 0;
}

static void a_call_waits_for_a_busy_thread_if_there_is_no_other(void)
{
    memset(&refusal, 0, sizeof(refusal));
    fail_each(wait_for_a_busy_one, 3);
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(a_thread_that_ends_leaves_no_job_behind),
    TAP_TEST(a_function_runs_on_a_thread_of_its_own),
    TAP_TEST(its_worker_goes_on_with_others),
    TAP_TEST_LIMIT(a_hundred_that_wait_for_each_other_are_there_at_once, 60),
    TAP_TEST_LIMIT(a_hundred_sleeps_take_as_long_as_a_few, 60),
    TAP_TEST(there_are_no_more_threads_than_allowed),
    TAP_TEST(who_came_first_begins_first),
    TAP_TEST(one_call_after_the_other_needs_one_thread),
    TAP_TEST(threads_without_a_job_end_and_come_back),
    TAP_TEST_LIMIT(a_job_for_a_thread_that_is_about_to_end_is_not_lost, 60),
    TAP_TEST(a_call_that_has_not_begun_can_be_cancelled),
    TAP_TEST(a_cancel_at_any_moment_ends_the_call_or_lets_it_end),
    TAP_TEST(a_close_ends_every_call),
    TAP_TEST(a_forced_close_ends_every_call),
    TAP_TEST(idle_threads_do_not_hide_a_deadlock),
#ifdef WF_TEST_AIDS
    TAP_TEST(a_call_without_a_thread_says_so),
    TAP_TEST(a_thread_that_is_free_by_now_does_instead),
    TAP_TEST(who_waits_for_a_thread_that_never_starts_is_told),
    TAP_TEST(a_call_waits_for_a_busy_thread_if_there_is_no_other),
#endif
};
TAP_MAIN(tests)
