/* SPDX-License-Identifier: MIT */
/*
 * Goal:   weft_blocking_call runs each function on a thread of the pool. The pool starts threads on
 *         demand, up to the limit, and no worker blocks. Every call ends, with the function's
 *         result or with the reason why the function never began.
 * Method: functions that wait at gates, so that the test knows how many are inside at once; the
 *         statistics of the runtime; calls that are cancelled, out of time or closed in each state;
 *         threads and memory that are refused in turn.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "fault_helpers.h"
#include "life/blocking.h"
#include "life/life.h"
#include "proc_helpers.h"
#include "sched_helpers.h"

/* A gate that functions pass, each on a thread of its own. */
struct gate {
    wf_atomic_u32 inside;     /* functions that reached the gate */
    wf_atomic_u32 now;        /* functions that are at the gate */
    wf_atomic_u32 inside_max; /* largest value of `now` */
    wf_atomic_u32 passed;     /* functions that left the gate */
    wf_atomic_u32 open;       /* 1: the gate is open */
};

static intptr_t pass_gate(void *arg)
{
    struct gate *gate = arg;
    CHECK(weft_self() == NULL);
    const uint32_t now_inside = wf_fetch_add_relaxed(&gate->now, 1) + 1; /* relaxed: a counter */
    raise_by_one(&gate->inside);
    uint32_t inside_max = wf_load_relaxed(&gate->inside_max);
    while (now_inside > inside_max && !wf_cas_relaxed(&gate->inside_max, &inside_max, now_inside)) {
    }
    hold_for(&gate->open, 1);
    (void)wf_fetch_sub_relaxed(&gate->now, 1);
    raise_by_one(&gate->passed);
    return 5;
}

static intptr_t call_gate(void *arg)
{
    return weft_blocking_call(pass_gate, arg);
}

/* ---- result and context of a call ------------------------------------------------------------ */

struct payload {
    int plain; /* carried to the thread and back */
    int thread;
};

static intptr_t check_context(void *arg)
{
    struct payload *payload = arg;
    CHECK(weft_self() == NULL);
    CHECK(weft_runtime_self() == NULL);
    payload->thread = wf_thread_id();
    payload->plain *= 2;
    return payload->plain + 1;
}

static intptr_t fail_with_eio(void *arg)
{
    (void)arg;
    return -EIO;
}

static intptr_t check_results(void *arg)
{
    (void)arg;
    struct payload payload = {.plain = 21};
    CHECK_EQ(weft_blocking_call(check_context, &payload), 43);
    CHECK_EQ(payload.plain, 42);
    CHECK(payload.thread != wf_thread_id());
    CHECK_EQ(weft_blocking_call(fail_with_eio, NULL), -EIO);
    return 0;
}

/* behaviour 58, S1.1 */
static void blocking_runs_function_on_a_thread_of_its_own(void)
{
    run_under(EVERYWHERE, check_results);
    struct payload payload = {.plain = 4};
    CHECK_EQ(weft_blocking_call(check_context, &payload), 9); /* from a non-worker thread */
    CHECK_EQ(payload.thread, wf_thread_id());
}

static intptr_t run_others_while_blocked(void *arg)
{
    (void)arg;
    struct gate gate = {0};
    weft_task *caller = go(call_gate, &gate);
    wait_for(&gate.inside, 1);
    wait_for_state(caller, WEFT_TASK_BLOCKED);
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

static void blocking_caller_leaves_its_worker_to_other_tasks(void)
{
    run_under(EVERYWHERE, run_others_while_blocked);
}

/* ---- number of threads ----------------------------------------------------------------------- */

enum { MANY = 100 };

/* Each call waits until all calls have started. */
static intptr_t wait_for_all_started(void *arg)
{
    wf_atomic_u32 *started = arg;
    raise_by_one(started);
    hold_for(started, MANY);
    return 0;
}

static intptr_t call_wait_for_all(void *arg)
{
    return weft_blocking_call(wait_for_all_started, arg);
}

static intptr_t start_hundred(void *arg)
{
    (void)arg;
    wf_atomic_u32 started = {0};
    weft_task *tasks[MANY];
    for (int i = 0; i < MANY; i++) {
        tasks[i] = go(call_wait_for_all, &started);
    }
    CHECK_EQ(weft_await_all(tasks, MANY, NULL), 0);
    const weft_runtime_stats stats = stats_of(weft_runtime_self());
    CHECK_EQ(stats.blocking_done, MANY);
    CHECK_EQ(stats.blocking_waiting, 0);
    CHECK(stats.blocking_threads <= MANY);
    return 0;
}

/* behaviour 58: with fewer than a hundred threads no call would ever return */
static void blocking_runs_100_interdependent_functions_at_once(void)
{
    run_under(EVERYWHERE, start_hundred);
}

static intptr_t nap(void *arg)
{
    (void)arg;
    /* The requirement is about sleeps. */
    const struct timespec time = {.tv_nsec = 100 * 1000 * 1000};
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static intptr_t call_nap(void *arg)
{
    return weft_blocking_call(nap, arg);
}

static intptr_t nap_hundred_times(void *arg)
{
    (void)arg;
    weft_task *tasks[MANY];
    const weft_time began = weft_now();
    for (int i = 0; i < MANY; i++) {
        tasks[i] = go(call_nap, NULL);
    }
    CHECK_EQ(weft_await_all(tasks, MANY, NULL), 0);
    CHECK_TIME(weft_now() - began < 5 * WEFT_SECOND); /* in sequence they take ten seconds */
    return 0;
}

/* behaviour 58 */
static void blocking_sleeps_run_concurrently(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        CHECK_EQ(weft_run(nap_hundred_times, NULL, &tour.options), 0);
    }
}

enum { CAP = 3, CALLS = 20 };

static intptr_t exceed_thread_limit(void *arg)
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
    CHECK(wf_load_acquire(&gate.inside_max) <= CAP);
    CHECK_EQ(stats_of(runtime).blocking_threads, CAP);
    CHECK_EQ(stats_of(runtime).blocking_done, CALLS);
    return 0;
}

/* behaviour 58 */
static void blocking_starts_at_most_blocking_max_threads(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = CAP;
        CHECK_EQ(weft_run(exceed_thread_limit, NULL, &tour.options), 0);
    }
}

struct ticket {
    int number;
    int *next; /* plain: the pool has one thread */
};

static intptr_t take_ticket(void *arg)
{
    struct ticket *ticket = arg;
    CHECK_EQ(ticket->number, *ticket->next);
    *ticket->next += 1;
    return 0;
}

static intptr_t call_take_ticket(void *arg)
{
    return weft_blocking_call(take_ticket, arg);
}

static intptr_t queue_behind_gate(void *arg)
{
    (void)arg;
    struct gate gate = {0};
    int next = 0;
    struct ticket tickets[CALLS];
    weft_task *tasks[CALLS];
    weft_task *first = go(call_gate, &gate);
    wait_for(&gate.inside, 1);
    for (int i = 0; i < CALLS; i++) {
        tickets[i] = (struct ticket){i, &next};
        tasks[i] = go(call_take_ticket, &tickets[i]);
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

static void blocking_queue_is_fifo(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        CHECK_EQ(weft_run(queue_behind_gate, NULL, &tour.options), 0);
    }
}

static intptr_t call_in_sequence(void *arg)
{
    (void)arg;
    for (int i = 0; i < CALLS; i++) {
        CHECK_EQ(weft_blocking_call(echo, (void *)(intptr_t)i), i);
        CHECK_EQ(stats_of(weft_runtime_self()).blocking_threads, 1);
    }
    return 0;
}

static void blocking_sequential_calls_reuse_one_thread(void)
{
    run_under(EVERYWHERE, call_in_sequence);
}

static intptr_t outlive_idle_threads(void *arg)
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
static void blocking_idle_threads_end_and_are_started_again(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_idle_ns = WEFT_MILLISECOND;
        CHECK_EQ(weft_run(outlive_idle_threads, NULL, &tour.options), 0);
    }
}

enum { ROUNDS = 2000, CALLERS = 4 };

static intptr_t call_often(void *arg)
{
    struct payload payload = {.plain = 1};
    for (int i = 0; i < ROUNDS; i++) {
        payload.plain = i;
        CHECK_EQ(weft_blocking_call(check_context, &payload), 2 * i + 1);
        CHECK_EQ(payload.plain, 2 * i);
    }
    raise_by_one(arg);
    return 0;
}

static intptr_t call_near_idle_timeout(void *arg)
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

/* The idle timeout is so short that each thread is about to end when the next job arrives. */
static void blocking_job_that_races_idle_timeout_is_not_lost(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_idle_ns = 5000 * (1 + (int64_t)tour.next % 4);
        CHECK_EQ(weft_run(call_near_idle_timeout, NULL, &tour.options), 0);
    }
}

/* ---- cancel, deadlines, close -------------------------------------------------------------- */

static intptr_t call_twice(void *arg)
{
    intptr_t result = weft_blocking_call(pass_gate, arg);
    CHECK_EQ(weft_blocking_call(echo, NULL), -ECANCELED); /* the cancel is seen at the next wait */
    return result;
}

static intptr_t never_called(void *arg)
{
    (void)arg;
    tap_fail(__FILE__, __LINE__, "a function ran that must never begin");
}

static intptr_t call_never(void *arg)
{
    return weft_blocking_call(never_called, arg);
}

static intptr_t call_never_with_deadline(void *arg)
{
    (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    return weft_blocking_call(never_called, arg);
}

static intptr_t cancel_some(void *arg)
{
    (void)arg;
    struct gate gate = {0};
    weft_task *running = go(call_twice, &gate);
    wait_for(&gate.inside, 1);
    weft_task *late = go(call_never_with_deadline, NULL);
    weft_task *queued = go(call_never, NULL);
    CHECK_EQ(weft_await(late), -ETIMEDOUT);
    while (stats_of(weft_runtime_self()).blocking_waiting < 1) {
        let_others_run();
    }
    CHECK_EQ(weft_cancel(queued), 0);
    CHECK_EQ(weft_await(queued), -ECANCELED);
    CHECK_EQ(weft_cancel(running), 0);
    wait_for_state(running, WEFT_TASK_BLOCKED); /* again: a function that runs cannot be stopped */
    raise_by_one(&gate.open);
    CHECK_EQ(weft_await(running), 5);
    return 0;
}

/* part of behaviour 32 */
static void blocking_call_can_be_cancelled_only_before_it_begins(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        CHECK_EQ(weft_run(cancel_some, NULL, &tour.options), 0);
    }
}

static intptr_t call_echo_after_signal(void *arg)
{
    wf_atomic_u32 *may_go = arg;
    while (wf_load_acquire(may_go) == 0) {
        let_others_run();
    }
    const intptr_t result = weft_blocking_call(echo, (void *)9);
    CHECK(result == 9 || result == -ECANCELED);
    return result;
}

/* The cancel hits each phase of the call, also before the control thread has seen the call. */
static intptr_t cancel_at_any_moment(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        wf_atomic_u32 may_go = {0};
        weft_task *task = go(call_echo_after_signal, &may_go);
        raise_by_one(&may_go);
        for (int yields = 0; yields < i % 8; yields++) {
            let_others_run();
        }
        CHECK_EQ(weft_cancel(task), 0);
        const intptr_t result = weft_await(task);
        CHECK(result == 9 || result == -ECANCELED);
    }
    return 0;
}

static void blocking_call_survives_cancel_at_any_moment(void)
{
    run_under(EVERYWHERE, cancel_at_any_moment);
}

struct closing {
    weft_runtime *runtime;
    int64_t timeout_ns;
    wf_atomic_u32 is_closed;
    int rc;
};

static void *close_thread(void *arg)
{
    struct closing *closing = arg;
    closing->rc = weft_runtime_close(closing->runtime, closing->timeout_ns);
    raise_by_one(&closing->is_closed);
    return NULL;
}

/* Closes the runtime while some calls run and some wait for a thread. */
static void close_around_calls(const weft_runtime_options *options, int64_t timeout_ns)
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
    CHECK_EQ(wf_thread_start(&thread, close_thread, &closing, NULL), 0);
    for (int i = 0; i < CALLS; i++) { /* before the running calls end, if the close has time */
        while (timeout_ns != 0 && weft_try_join(queued[i], NULL) != 0) {
            (void)sched_yield();
        }
    }
    if (timeout_ns == 0) {
        expect_threads(CAP); /* the timeout has passed, and the workers have ended */
    }
    CHECK_EQ(wf_load_acquire(&closing.is_closed), 0);
    raise_by_one(&gate.open);
    CHECK_EQ(wf_thread_join(thread), 0);
    CHECK_EQ(closing.rc, timeout_ns != 0 ? 0 : -ETIMEDOUT);
    CHECK_EQ(wf_load_acquire(&gate.passed), CAP); /* the close waited for the functions */
    for (int i = 0; i < CAP; i++) {
        CHECK_EQ(weft_await(running[i]), timeout_ns != 0 ? 5 : -ECANCELED);
    }
    for (int i = 0; i < CALLS; i++) {
        CHECK_EQ(weft_await(queued[i]), -ECANCELED);
    }
    expect_threads(0);
}

/* behaviour 58 */
static void runtime_close_ends_every_blocking_call(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = CAP;
        close_around_calls(&tour.options, -1);
    }
}

/* behaviour 58 */
static void forced_close_ends_every_blocking_call(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = CAP;
        close_around_calls(&tour.options, 0);
    }
}

/* Nothing can wake this task, and the idle threads of the pool do not count as activity. */
static intptr_t wait_without_end(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_blocking_call(echo, NULL), 0);
    weft_notify notify = {0};
    return weft_notify_wait(&notify);
}

static void note_deadlock(void *context, const weft_deadlock *deadlock)
{
    CHECK_EQ(deadlock->count, 1);
    raise_by_one(context);
}

static void deadlock_report_is_not_hidden_by_idle_blocking_threads(void)
{
    if (wf_thread_count() != 1) {
        tap_skip("the process has threads that the test did not start");
    }
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        wf_atomic_u32 found = {0};
        tour.options.on_deadlock = note_deadlock;
        tour.options.hook_context = &found;
        CHECK_EQ(weft_run(wait_without_end, NULL, &tour.options), -EDEADLK);
        CHECK(wf_load_acquire(&found) >= 1);
    }
}

/* ---- threads that are about to end; faults --------------------------------------------------- */

static intptr_t call_near_thread_end(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2000; i++) {
        const int64_t until_ns = wf_clock_now() + 40000 + i % 40 * 1000;
        CHECK_EQ(weft_blocking_call(echo, (void *)7), 7);
        while (wf_clock_now() < until_ns) { /* about the idle timeout of the thread */
        }
    }
    return 0;
}

/* The only thread that the limit allows is about to end: the job must not stay in the queue. */
static void blocking_thread_that_ends_takes_a_job_queued_meanwhile(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        tour.options.blocking_idle_ns = 50000;
        CHECK_EQ(weft_run(call_near_thread_end, NULL, &tour.options), 0);
    }
}

#ifdef WF_TEST_HOOKS

static intptr_t call_while_it_may_fail(void *arg)
{
    struct faults *faults = arg;
    faults_begin(faults);
    const intptr_t result = weft_blocking_call(echo, (void *)7);
    faults_end(faults);
    if (result != 7) {
        CHECK(result == -EAGAIN || result == -ENOMEM);
        CHECK_EQ(stats_of(weft_runtime_self()).blocking_refused, 1);
        faults_refused(faults, 1);
    }
    CHECK_EQ(weft_blocking_call(echo, (void *)8), 8);
    return 0;
}

static void blocking_reports_missing_memory_or_thread(void)
{
    fail_each(call_while_it_may_fail, 3); /* two allocations, and the thread */
}

/* State of the allocator below, which refuses memory only after a condition holds. */
static struct {
    wf_atomic_u32 is_armed;
    wf_atomic_u32 calls;
    weft_runtime *runtime;
    struct gate *gate; /* opened before the first refusal */
} refusal;

static void *refuse_late(size_t alignment, size_t size)
{
    if (wf_load_acquire(&refusal.is_armed) == 0) { /* pairs with raise_by_one */
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

static intptr_t call_while_thread_becomes_idle(void *arg)
{
    (void)arg;
    struct gate gate = {0};
    weft_task *first = go(call_gate, &gate);
    wait_for(&gate.inside, 1);
    refusal.runtime = weft_runtime_self();
    refusal.gate = &gate;
    raise_by_one(&refusal.is_armed);
    CHECK_EQ(weft_blocking_call(echo, (void *)7), 7);
    wf_store_release(&refusal.is_armed, 0);
    CHECK_EQ(weft_await(first), 5);
    CHECK_EQ(stats_of(refusal.runtime).blocking_threads, 1);
    CHECK_EQ(stats_of(refusal.runtime).blocking_refused, 1);
    return 0;
}

/* The task has its stack before it calls. */
static intptr_t call_echo_when_armed(void *arg)
{
    wait_for(&refusal.is_armed, 1);
    return weft_blocking_call(echo, arg);
}

/* The second caller finds that a thread is being started for the first one, and waits for it. */
static intptr_t fail_both_calls(void *arg)
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
    CHECK_EQ(weft_blocking_call(echo, (void *)8), 8);
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

static void blocking_uses_a_freed_thread_if_a_new_one_cannot_start(void)
{
    with_late_refusals(EVERYWHERE, call_while_thread_becomes_idle);
}

static void blocking_queued_calls_fail_if_their_thread_never_starts(void)
{
    with_late_refusals(ON_SEVERAL_THAT_STEAL, fail_both_calls);
}

static intptr_t call_behind_busy_thread(void *arg)
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

static void blocking_waits_for_a_busy_thread_if_no_other_can_start(void)
{
    memset(&refusal, 0, sizeof(refusal));
    fail_each(call_behind_busy_thread, 3);
}

#endif

struct late_call {
    wf_atomic_u32 is_running;
    wf_atomic_u32 functions;
};

static intptr_t count_function(void *arg)
{
    raise_by_one(arg);
    return 0;
}

/* Keeps its worker until the forced close has shut the pool, and calls then.  The shield: else the
 * call fails because the task is cancelled. */
static intptr_t call_after_shut(void *arg)
{
    struct late_call *late = arg;
    struct wf_blocking *pool = weft_runtime_self()->blocking;
    CHECK_EQ(weft_shield_begin(), 0);
    raise_by_one(&late->is_running);
    bool is_closing = false;
    while (!is_closing) {
        wf_lock_acquire(&pool->lock);
        is_closing = pool->is_closing;
        wf_lock_release(&pool->lock);
        (void)sched_yield();
    }
    (void)weft_blocking_call(count_function, &late->functions);
    CHECK(false); /* the task is abandoned inside the call */
    return 0;
}

static void forced_close_begins_no_function_submitted_later(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        struct late_call late = {.is_running = {0}};
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, call_after_shut, &late, NULL), 0);
        hold_for(&late.is_running, 1);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(wf_load_acquire(&late.functions), 0); /* all threads have been joined */
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(blocking_thread_that_ends_takes_a_job_queued_meanwhile),
    TAP_TEST(blocking_runs_function_on_a_thread_of_its_own),
    TAP_TEST(blocking_caller_leaves_its_worker_to_other_tasks),
    TAP_TEST_LIMIT(blocking_runs_100_interdependent_functions_at_once, 60),
    TAP_TEST_LIMIT(blocking_sleeps_run_concurrently, 60),
    TAP_TEST(blocking_starts_at_most_blocking_max_threads),
    TAP_TEST(blocking_queue_is_fifo),
    TAP_TEST(blocking_sequential_calls_reuse_one_thread),
    TAP_TEST(blocking_idle_threads_end_and_are_started_again),
    TAP_TEST_LIMIT(blocking_job_that_races_idle_timeout_is_not_lost, 60),
    TAP_TEST(blocking_call_can_be_cancelled_only_before_it_begins),
    TAP_TEST(blocking_call_survives_cancel_at_any_moment),
    TAP_TEST(runtime_close_ends_every_blocking_call),
    TAP_TEST(forced_close_ends_every_blocking_call),
    TAP_TEST(forced_close_begins_no_function_submitted_later),
    TAP_TEST(deadlock_report_is_not_hidden_by_idle_blocking_threads),
#ifdef WF_TEST_HOOKS
    TAP_TEST(blocking_reports_missing_memory_or_thread),
    TAP_TEST(blocking_uses_a_freed_thread_if_a_new_one_cannot_start),
    TAP_TEST(blocking_queued_calls_fail_if_their_thread_never_starts),
    TAP_TEST(blocking_waits_for_a_busy_thread_if_no_other_can_start),
#endif
};
TAP_MAIN(tests)
