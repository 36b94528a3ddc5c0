/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the control thread of the reactor policy does its nine steps, each event in its step, and
 *         no other thread makes decisions; programs give the same results under both policies.
 * Method: traces of small programs: the step in which a task was woken, the events between its
 *         queueing and the worker that finds it, the thread that changed its state. Occupied
 *         workers, so that queued tasks can be counted.
 */
#include <dirent.h>
#include <pthread.h>

#include "io_helpers.h"
#include "proc_helpers.h"
#include "sched/wait.h"
#include "trace_helpers.h"

/* Closes the runtime when all tasks have ended, and returns the trace. */
static struct trace_log finish_trace(weft_runtime *runtime)
{
    wait_until_done(runtime);
    struct trace_log trace_log = trace_log_read(runtime);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    return trace_log;
}

static bool is_step(const struct event *event, uint64_t number)
{
    return is_event(event, "step", 0) && event->arg == number;
}

/* ---- both policies --------------------------------------------------------------------------- */

struct sum {
    weft_mutex mutex;
    weft_chan *chan;
    intptr_t plain; /* under the mutex */
};

static intptr_t add_some(void *arg)
{
    struct sum *sum = arg;
    int item = 0;
    while (weft_chan_recv(sum->chan, &item) == 0) {
        CHECK_EQ(weft_sleep(item % 7 == 0 ? WEFT_MILLISECOND / 10 : 0), 0);
        CHECK_EQ(weft_mutex_lock(&sum->mutex), 0);
        sum->plain += weft_blocking_call(echo, (void *)(intptr_t)item);
        CHECK_EQ(weft_mutex_unlock(&sum->mutex), 0);
    }
    return 0;
}

/* Uses a channel, a mutex, sleeps and blocking calls. */
static intptr_t run_program(void *arg)
{
    enum { ADDERS = 5, ITEMS = 100 };
    (void)arg;
    struct sum sum = {.plain = 0};
    weft_task *tasks[ADDERS];
    CHECK_EQ(weft_chan_new(&sum.chan, sizeof(int), 3), 0);
    for (int i = 0; i < ADDERS; i++) {
        tasks[i] = go(add_some, &sum);
    }
    for (int i = 1; i <= ITEMS; i++) {
        CHECK_EQ(weft_chan_send(sum.chan, &i), 0);
    }
    CHECK_EQ(weft_chan_close(sum.chan), 0);
    CHECK_EQ(weft_await_all(tasks, ADDERS, NULL), 0);
    weft_chan_unref(sum.chan);
    return sum.plain;
}

static intptr_t run_and_check_stolen(void *arg)
{
    const struct setting *setting = arg;
    CHECK_EQ(run_program(NULL), 5050);
    if (setting->policy == WEFT_POLICY_REACTOR) {
        CHECK_EQ(stats_of(weft_runtime_self()).total.stolen, 0);
    }
    return 0;
}

/* S1.2: the same program, whichever policy its runtime has; the reactor policy never steals */
static void policies_give_the_same_results(void)
{
    run_under(EVERYWHERE, run_and_check_stolen);
}

/* ---- results --------------------------------------------------------------------------------- */

enum { EACH = 10 };

static intptr_t fail_at_once(void *arg)
{
    (void)arg;
    return -EIO;
}

static intptr_t suspend_once(void *arg)
{
    return weft_sem_acquire(arg, 1);
}

struct task_ids {
    uint64_t completes[EACH];
    uint64_t fails[EACH];
    uint64_t suspends[EACH];
};

static weft_task *go_with_id(weft_fn fn, void *arg, uint64_t *id)
{
    weft_task *task = go(fn, arg);
    *id = weft_task_id(task);
    return task;
}

static intptr_t run_each_kind(void *arg)
{
    struct task_ids *task_ids = arg;
    for (int i = 0; i < EACH; i++) {
        weft_sem sem = {0};
        CHECK_EQ(weft_await(go_with_id(echo, NULL, &task_ids->completes[i])), 0);
        CHECK_EQ(weft_await(go_with_id(fail_at_once, NULL, &task_ids->fails[i])), -EIO);
        weft_task *task = go_with_id(suspend_once, &sem, &task_ids->suspends[i]);
        wait_until_blocked(task, WEFT_WAIT_SEMAPHORE);
        CHECK_EQ(weft_sem_release(&sem, 1), 0);
        CHECK_EQ(weft_await(task), 0);
    }
    return 0;
}

/* The only worker reports its result before it gets the next task. In between the control thread
 * takes the result, at the latest in a first step that had begun already; then come the second and
 * the eighth step. */
static void check_result(const struct trace_log *trace_log, const char *name, uint64_t task_id)
{
    size_t at = find_event(trace_log, 0, name, task_id);
    const uint64_t steps[] = {2, 8};
    for (size_t i = 0; i < 2; i++) {
        while (!is_step(&trace_log->events[at], steps[i])) {
            CHECK(strcmp(trace_log->events[at].name, "find") != 0);
            at++;
            CHECK(at < trace_log->count);
        }
    }
}

/* S1.5 */
static void reactor_step_1_takes_results_of_workers(void)
{
    weft_runtime *runtime = open_reactor(1, MANY_EVENTS);
    struct task_ids task_ids;
    CHECK_EQ(weft_await(go_into(runtime, run_each_kind, &task_ids)), 0);
    struct trace_log trace_log = finish_trace(runtime);
    for (int i = 0; i < EACH; i++) {
        check_result(&trace_log, "finish", task_ids.completes[i]);
        check_result(&trace_log, "finish", task_ids.fails[i]);
        check_result(&trace_log, "commit", task_ids.suspends[i]);
    }
    free(trace_log.events);
}

/* ---- steps that wake tasks ------------------------------------------------------------------- */

/* A task waits for bytes, which a non-worker thread sends. */
static struct trace_log wait_for_bytes(weft_runtime *runtime, uint64_t *task_id)
{
    struct pair pair = pair_new(SOCK_STREAM);
    struct reader reader = {.fd = pair.near};
    weft_task *task = go_into(runtime, read_some, &reader);
    *task_id = weft_task_id(task);
    wait_until_blocked(task, WEFT_WAIT_READABLE);
    CHECK_EQ(write(pair.far, "bytes", 5), 5);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(reader.got, 5);
    CHECK(memcmp(reader.text, "bytes", 5) == 0);
    struct trace_log trace_log = finish_trace(runtime);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return trace_log;
}

/* S1.7, and S1.19 under the reactor policy: I/O; for blocking calls see test_steps.c */
static void reactor_step_3_wakes_readers(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        uint64_t task_id = 0;
        struct trace_log trace_log = wait_for_bytes(open_reactor(workers, MANY_EVENTS), &task_id);
        CHECK_EQ(step_of(&trace_log, "wake", task_id), 3);
        free(trace_log.events);
    }
}

/* S1.19 under the steal policy: the leader wakes the reader */
static void leader_wakes_readers_in_the_steal_policy(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        if (tour.setting->policy == WEFT_POLICY_REACTOR) {
            continue;
        }
        weft_runtime *runtime = NULL;
        uint64_t task_id = 0;
        tour.options.trace_events = MANY_EVENTS;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        struct trace_log trace_log = wait_for_bytes(runtime, &task_id);
        const size_t woken = find_event(&trace_log, 0, "wake", task_id);
        CHECK_EQ(trace_log.events[woken].worker[0], 'w'); /* a worker, not the thread that wrote */
        free(trace_log.events);
    }
}

static intptr_t sleep_for(void *arg)
{
    return weft_sleep(*(int64_t *)arg);
}

/* The trace of a task that sleeps, and whether the task was suspended before the timer fired. */
static struct trace_log trace_sleep(unsigned workers, int64_t sleep_ns, uint64_t *task_id,
                                    bool *is_suspended)
{
    weft_runtime *runtime = open_reactor(workers, MANY_EVENTS);
    weft_task *task = go_into(runtime, sleep_for, &sleep_ns);
    *task_id = weft_task_id(task);
    CHECK_EQ(weft_await(task), 0);
    struct trace_log trace_log = finish_trace(runtime);
    bool has_committed = false;
    *is_suspended = false;
    for (size_t i = 0; i < trace_log.count; i++) {
        has_committed = has_committed || is_event(&trace_log.events[i], "commit", *task_id);
        *is_suspended =
            *is_suspended || (has_committed && is_event(&trace_log.events[i], "wake", *task_id));
    }
    return trace_log;
}

/* Repeats the sleep, each time longer, until the task is suspended before the timer fires. */
static struct trace_log trace_suspending_sleep(unsigned workers, int64_t sleep_ns,
                                               uint64_t *task_id)
{
    for (;;) { /* ends: one sleep is long enough */
        bool is_suspended = false;
        struct trace_log trace_log = trace_sleep(workers, sleep_ns, task_id, &is_suspended);
        if (is_suspended) {
            return trace_log;
        }
        free(trace_log.events);
        sleep_ns *= 2;
    }
}

/* S1.8 */
static void reactor_step_4_wakes_sleepers(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        uint64_t task_id = 0;
        struct trace_log trace_log = trace_suspending_sleep(workers, WEFT_MILLISECOND, &task_id);
        CHECK_EQ(step_of(&trace_log, "wake", task_id), 4);
        free(trace_log.events);
    }
}

/* S1.13: for a push see test_steps.c. No event comes, so only the timer ends the wait; a control
 * thread that polled every millisecond would do a hundred iterations. */
static void reactor_step_9_waits_for_the_next_timer(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        uint64_t task_id = 0;
        struct trace_log trace_log =
            trace_suspending_sleep(workers, 100 * WEFT_MILLISECOND, &task_id);
        size_t at = find_event(&trace_log, 0, "commit", task_id);
        const size_t woken = find_event(&trace_log, at, "wake", task_id);
        unsigned iterations = 0;
        for (; at < woken; at++) {
            iterations += is_step(&trace_log.events[at], 9) ? 1 : 0;
        }
        CHECK(iterations >= 1);
        CHECK(iterations <= 10);
        free(trace_log.events);
    }
}

/* ---- channels -------------------------------------------------------------------------------- */

struct message {
    weft_chan *chan;
    int item;
};

static intptr_t send_message(void *arg)
{
    struct message *message = arg;
    return weft_chan_send(message->chan, &message->item);
}

static intptr_t receive_message(void *arg)
{
    struct message *message = arg;
    return weft_chan_recv(message->chan, &message->item);
}

static intptr_t serve_channels(void *arg)
{
    enum { WAITERS = 3 };
    (void)arg;
    weft_chan *chan = NULL;
    struct message messages[WAITERS];
    weft_task *tasks[WAITERS];
    int item = 1;
    CHECK_EQ(weft_chan_new(&chan, sizeof(int), 1), 0);
    CHECK_EQ(weft_chan_send(chan, &item), 0);
    for (int i = 0; i < WAITERS; i++) {
        messages[i] = (struct message){chan, i + 2};
        tasks[i] = go(send_message, &messages[i]);
        wait_until_blocked(tasks[i], WEFT_WAIT_SEND);
    }
    for (int i = 1; i <= 2; i++) { /* first the buffer, then the oldest sender */
        CHECK_EQ(weft_chan_recv(chan, &item), 0);
        CHECK_EQ(item, i);
        CHECK_EQ(weft_await(tasks[i - 1]), 0);
    }
    CHECK_EQ(state_of(tasks[2]), WEFT_TASK_BLOCKED); /* the last one keeps waiting */
    CHECK_EQ(weft_chan_recv(chan, &item), 0);
    CHECK_EQ(item, 3);
    CHECK_EQ(weft_await(tasks[2]), 0);
    CHECK_EQ(weft_chan_recv(chan, &item), 0);
    CHECK_EQ(item, 4);
    for (int i = 0; i < WAITERS; i++) {
        tasks[i] = go(receive_message, &messages[i]);
        wait_until_blocked(tasks[i], WEFT_WAIT_RECEIVE);
    }
    for (int i = 0; i < 2; i++) {
        item = 10 + i;
        CHECK_EQ(weft_chan_send(chan, &item), 0);
        CHECK_EQ(weft_await(tasks[i]), 0);
        CHECK_EQ(messages[i].item, 10 + i);
    }
    CHECK_EQ(state_of(tasks[2]), WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_chan_close(chan), 0);
    CHECK(weft_await(tasks[2]) < 0);
    weft_chan_unref(chan);
    return 0;
}

/* S1.9 */
static void chan_serves_the_buffer_first_and_then_the_oldest_waiter(void)
{
    run_under(EVERYWHERE, serve_channels);
}

/* ---- only the control thread decides --------------------------------------------------------- */

/* Every queued task was found by a worker after a seventh and an eighth step: the control thread
 * took it out of its inbox and handed it out. */
static size_t check_all_handouts(const struct trace_log *trace_log)
{
    size_t handouts = 0;
    for (size_t i = 0; i < trace_log->count; i++) {
        if (strcmp(trace_log->events[i].name, "queue") == 0) {
            check_handout(trace_log, i, trace_log->events[i].task_id);
            handouts++;
        }
    }
    return handouts;
}

/* S1.10, S1.12, S1.25: spawns, wakes by locks, channels, timers and threads */
static void reactor_control_thread_hands_out_every_task(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        weft_runtime *runtime = open_reactor(workers, MANY_EVENTS);
        CHECK_EQ(weft_await(go_into(runtime, run_program, NULL)), 5050);
        struct trace_log trace_log = finish_trace(runtime);
        CHECK(check_all_handouts(&trace_log) >= 100);
        free(trace_log.events);
    }
}

static intptr_t lock_and_unlock(void *arg)
{
    const int rc = weft_mutex_lock(arg);
    return rc != 0 ? rc : weft_mutex_unlock(arg);
}

static intptr_t begin_and_hold(void *arg)
{
    wf_atomic_u32 *cells = arg; /* begun, open */
    raise_by_one(&cells[0]);
    hold_for(&cells[1], 1);
    return 0;
}

/* S1.26: the only worker is occupied, so both tasks stay in the queue and can be counted */
static void reactor_inbox_receives_spawned_and_woken_tasks(void)
{
    weft_runtime *runtime = open_reactor(1, 0);
    weft_mutex mutex = {0};
    wf_atomic_u32 cells[2] = {{0}, {0}};
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    weft_task *waiter = go_into(runtime, lock_and_unlock, &mutex);
    wait_until_blocked(waiter, WEFT_WAIT_MUTEX);
    weft_task *hog = go_into(runtime, begin_and_hold, cells);
    wait_for(&cells[0], 1);
    CHECK_EQ(stats_of(runtime).global_depth, 0);
    weft_task *spawned = go_into(runtime, echo, (void *)7);
    CHECK_EQ(stats_of(runtime).global_depth, 1);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    CHECK_EQ(stats_of(runtime).global_depth, 2);
    CHECK(wf_load_relaxed(&runtime->workers[0].reactor.handoff) == NULL);
    raise_by_one(&cells[1]);
    CHECK_EQ(weft_await(hog), 0);
    CHECK_EQ(weft_await(waiter), 0);
    CHECK_EQ(weft_await(spawned), 7);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

/* ---- states ---------------------------------------------------------------------------------- */

enum { WAITS = 200, WAKERS = 3 };

struct wait_scene {
    weft_task *task;
    wf_atomic_u32 is_set;
    wf_atomic_u32 is_over;
};

static intptr_t suspend_often(void *arg)
{
    struct wait_scene *wait_scene = arg;
    struct weft_task *self = wf_task_self();
    for (int i = 0; i < WAITS; i++) {
        wf_wait_begin(self, WEFT_WAIT_WORLD, wait_scene); /* a wait for no task */
        wf_task_suspend(self);
        wf_wait_end(self);
    }
    raise_by_one(&wait_scene->is_over);
    return 0;
}

static void *wake_often(void *arg)
{
    struct wait_scene *wait_scene = arg;
    wait_for(&wait_scene->is_set, 1);
    while (wf_load_acquire(&wait_scene->is_over) == 0) { /* pairs with raise_by_one */
        wf_task_wake(wait_scene->task);
        (void)sched_yield();
    }
    return NULL;
}

/* The worker that entered the task suspends it, and one of its wakers wakes it. */
static void check_authors(const struct trace_log *trace_log, uint64_t task_id)
{
    const char *entered_by = NULL;
    unsigned wakes = 0;
    unsigned waits = 0;
    for (size_t i = find_event(trace_log, 0, "spawn", task_id); i < trace_log->count; i++) {
        const struct event *event = &trace_log->events[i];
        if (is_event(event, "enter", task_id)) {
            CHECK_EQ(event->worker[0], 'w');
            CHECK(wakes <= 1);
            entered_by = event->worker;
            wakes = 0;
        } else if (is_event(event, "commit", task_id)) {
            CHECK(entered_by != NULL);
            CHECK_STR(event->worker, entered_by);
            waits++;
        } else if (is_event(event, "wake", task_id)) {
            CHECK_STR(event->worker, "-"); /* a non-worker thread */
            wakes++;
        }
    }
    CHECK_EQ(waits, WAITS);
}

/* S1.22 */
static void task_state_transitions_have_one_author(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        struct wait_scene wait_scene = {.task = NULL};
        pthread_t threads[WAKERS];
        tour.options.trace_events = MANY_EVENTS;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (int i = 0; i < WAKERS; i++) {
            CHECK_EQ(wf_thread_start(&threads[i], wake_often, &wait_scene, NULL), 0);
        }
        wait_scene.task = go_into(runtime, suspend_often, &wait_scene);
        const uint64_t task_id = weft_task_id(wait_scene.task);
        raise_by_one(&wait_scene.is_set);
        for (int i = 0; i < WAKERS; i++) {
            CHECK_EQ(wf_thread_join(threads[i]), 0);
        }
        CHECK_EQ(weft_await(wait_scene.task), 0);
        struct trace_log trace_log = finish_trace(runtime);
        check_authors(&trace_log, task_id);
        free(trace_log.events);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(policies_give_the_same_results),
    TAP_TEST(reactor_step_1_takes_results_of_workers),
    TAP_TEST(reactor_step_3_wakes_readers),
    TAP_TEST(leader_wakes_readers_in_the_steal_policy),
    TAP_TEST(reactor_step_4_wakes_sleepers),
    TAP_TEST(reactor_step_9_waits_for_the_next_timer),
    TAP_TEST(chan_serves_the_buffer_first_and_then_the_oldest_waiter),
    TAP_TEST(reactor_control_thread_hands_out_every_task),
    TAP_TEST(reactor_inbox_receives_spawned_and_woken_tasks),
    TAP_TEST(task_state_transitions_have_one_author),
};
TAP_MAIN(tests)
