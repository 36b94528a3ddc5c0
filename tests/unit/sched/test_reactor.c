/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the control thread of the reactor policy takes what its nine steps promise, each thing in
 *         its step, and nobody else decides anything; programs cannot tell the policies apart.
 * Method: traces of small programs: in which step a task was woken, what lies between its place in
 *         a queue and the worker that finds it, who changed its state.  Workers that are held, so
 *         that what is queued can be counted.
 */
#include <dirent.h>
#include <pthread.h>

#include "io_aids.h"
#include "proc_aids.h"
#include "sched/sched.h"
#include "story_aids.h"

/* Closes the runtime when all have ended, and gives what was traced. */
static struct story end_story(weft_runtime *runtime)
{
    wait_until_done(runtime);
    struct story story = story_of(runtime);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    return story;
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
    while (weft_recv(sum->chan, &item) == 0) {
        CHECK_EQ(weft_sleep(item % 7 == 0 ? WEFT_MILLISECOND / 10 : 0), 0);
        CHECK_EQ(weft_mutex_lock(&sum->mutex), 0);
        sum->plain += weft_blocking(echo, (void *)(intptr_t)item);
        CHECK_EQ(weft_mutex_unlock(&sum->mutex), 0);
    }
    return 0;
}

/* A bit of everything. */
static intptr_t run_program(void *arg)
{
    enum { ADDERS = 5, ITEMS = 100 };
    (void)arg;
    struct sum sum = {.plain = 0};
    weft_task *tasks[ADDERS];
    CHECK_EQ(weft_chan_open(&sum.chan, sizeof(int), 3), 0);
    for (int i = 0; i < ADDERS; i++) {
        tasks[i] = go(add_some, &sum);
    }
    for (int i = 1; i <= ITEMS; i++) {
        CHECK_EQ(weft_send(sum.chan, &i), 0);
    }
    CHECK_EQ(weft_chan_close(sum.chan), 0);
    CHECK_EQ(weft_await_all(tasks, ADDERS, NULL), 0);
    weft_chan_drop(sum.chan);
    return sum.plain;
}

static intptr_t run_and_look(void *arg)
{
    const struct setting *setting = arg;
    CHECK_EQ(run_program(NULL), 5050);
    if (setting->policy == WEFT_POLICY_REACTOR) {
        CHECK_EQ(stats_of(weft_runtime_self()).total.stolen, 0);
    }
    return 0;
}

/* S1.2: the same program, whichever policy its runtime is opened with; nothing is stolen where the
 * reactor decides */
static void the_same_programs_run_under_both(void)
{
    run_under(EVERYWHERE, run_and_look);
}

/* ---- results --------------------------------------------------------------------------------- */

enum { EACH = 10 };

static intptr_t fail_at_once(void *arg)
{
    (void)arg;
    return -EIO;
}

/* So long that it is suspended before the time has come. */
static intptr_t suspend_once(void *arg)
{
    (void)arg;
    return weft_sleep(20 * WEFT_MILLISECOND);
}

struct cast {
    uint64_t completes[EACH];
    uint64_t fails[EACH];
    uint64_t suspends[EACH];
};

static weft_task *go_known(weft_fn fn, uint64_t *id)
{
    weft_task *task = go(fn, NULL);
    *id = weft_task_id(task);
    return task;
}

static intptr_t run_cast(void *arg)
{
    struct cast *cast = arg;
    for (int i = 0; i < EACH; i++) {
        CHECK_EQ(weft_await(go_known(echo, &cast->completes[i])), 0);
        CHECK_EQ(weft_await(go_known(fail_at_once, &cast->fails[i])), -EIO);
        CHECK_EQ(weft_await(go_known(suspend_once, &cast->suspends[i])), 0);
    }
    return 0;
}

/* The only worker has told its result, and has the next task: in between the results were taken, at
 * the latest in a first step that had begun already; then came the second, and the eighth. */
static void check_result(const struct story *story, const char *name, uint64_t task_id)
{
    size_t at = find_event(story, 0, name, task_id);
    const uint64_t steps[] = {2, 8};
    for (size_t i = 0; i < 2; i++) {
        while (!is_step(&story->events[at], steps[i])) {
            CHECK(strcmp(story->events[at].name, "find") != 0);
            at++;
            CHECK(at < story->count);
        }
    }
}

/* S1.5 */
static void results_of_workers_are_taken_in_step_one(void)
{
    weft_runtime *runtime = open_reactor(1, MANY_EVENTS);
    struct cast cast;
    CHECK_EQ(weft_await(go_into(runtime, run_cast, &cast)), 0);
    struct story story = end_story(runtime);
    for (int i = 0; i < EACH; i++) {
        check_result(&story, "finish", cast.completes[i]);
        check_result(&story, "finish", cast.fails[i]);
        check_result(&story, "commit", cast.suspends[i]);
    }
    free(story.events);
}

/* ---- who is woken in which step -------------------------------------------------------------- */

/* A task waits for bytes, which a thread that is none of the runtime's sends. */
static struct story wait_for_bytes(weft_runtime *runtime, uint64_t *task_id)
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
    struct story story = end_story(runtime);
    CHECK_EQ(weft_close(pair.near), 0);
    CHECK_EQ(weft_close(pair.far), 0);
    return story;
}

/* S1.7, and S1.19 under the reactor policy: I/O; for blocking work see test_steps.c */
static void who_waits_for_bytes_is_woken_in_step_three(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        uint64_t task_id = 0;
        struct story story = wait_for_bytes(open_reactor(workers, MANY_EVENTS), &task_id);
        CHECK_EQ(step_of(&story, "wake", task_id), 3);
        free(story.events);
    }
}

/* S1.19 under the other policy: the worker that watches wakes it */
static void who_waits_for_bytes_is_woken_by_the_watcher(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        if (tour.setting->policy == WEFT_POLICY_REACTOR) {
            continue;
        }
        weft_runtime *runtime = NULL;
        uint64_t task_id = 0;
        tour.options.trace_events = MANY_EVENTS;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        struct story story = wait_for_bytes(runtime, &task_id);
        const size_t woken = find_event(&story, 0, "wake", task_id);
        CHECK_EQ(story.events[woken].worker[0], 'w'); /* and not who wrote them */
        free(story.events);
    }
}

static intptr_t sleep_for(void *arg)
{
    return weft_sleep(*(int64_t *)arg);
}

/* The step in which it is woken; 0: the time had come before it was suspended. */
static uint64_t step_that_wakes(unsigned workers, int64_t sleep_ns)
{
    weft_runtime *runtime = open_reactor(workers, MANY_EVENTS);
    weft_task *task = go_into(runtime, sleep_for, &sleep_ns);
    const uint64_t task_id = weft_task_id(task);
    CHECK_EQ(weft_await(task), 0);
    struct story story = end_story(runtime);
    bool is_woken = false;
    for (size_t i = 0; i < story.count; i++) {
        is_woken = is_woken || is_event(&story.events[i], "wake", task_id);
    }
    const uint64_t step = is_woken ? step_of(&story, "wake", task_id) : 0;
    free(story.events);
    return step;
}

/* S1.8 */
static void who_sleeps_is_woken_in_step_four(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        uint64_t step = 0;
        for (int64_t ns = WEFT_MILLISECOND; step == 0; ns *= 2) { /* ends: it sleeps long enough */
            step = step_that_wakes(workers, ns);
        }
        CHECK_EQ(step, 4);
    }
}

static intptr_t sleep_long(void *arg)
{
    (void)arg;
    return weft_sleep(100 * WEFT_MILLISECOND);
}

/* S1.13: for a push see test_steps.c.  Nothing comes, so only the timer ends its wait; whoever
 * polled each millisecond would go round a hundred times. */
static void step_nine_waits_for_the_next_timer(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        weft_runtime *runtime = open_reactor(workers, MANY_EVENTS);
        weft_task *task = go_into(runtime, sleep_long, NULL);
        const uint64_t task_id = weft_task_id(task);
        CHECK_EQ(weft_await(task), 0);
        struct story story = end_story(runtime);
        size_t at = find_event(&story, 0, "commit", task_id);
        const size_t woken = find_event(&story, at, "wake", task_id);
        unsigned rounds = 0;
        for (; at < woken; at++) {
            rounds += is_step(&story.events[at], 9) ? 1 : 0;
        }
        CHECK(rounds >= 1);
        CHECK(rounds <= 10);
        free(story.events);
    }
}

/* ---- channels -------------------------------------------------------------------------------- */

struct letter {
    weft_chan *chan;
    int item;
};

static intptr_t send_letter(void *arg)
{
    struct letter *letter = arg;
    return weft_send(letter->chan, &letter->item);
}

static intptr_t receive_letter(void *arg)
{
    struct letter *letter = arg;
    return weft_recv(letter->chan, &letter->item);
}

static intptr_t serve_channels(void *arg)
{
    enum { WAITERS = 3 };
    (void)arg;
    weft_chan *chan = NULL;
    struct letter letters[WAITERS];
    weft_task *tasks[WAITERS];
    int item = 1;
    CHECK_EQ(weft_chan_open(&chan, sizeof(int), 1), 0);
    CHECK_EQ(weft_send(chan, &item), 0);
    for (int i = 0; i < WAITERS; i++) {
        letters[i] = (struct letter){chan, i + 2};
        tasks[i] = go(send_letter, &letters[i]);
        wait_until_blocked(tasks[i], WEFT_WAIT_SEND);
    }
    for (int i = 1; i <= 2; i++) { /* first the buffer, then the sender who waits the longest */
        CHECK_EQ(weft_recv(chan, &item), 0);
        CHECK_EQ(item, i);
        CHECK_EQ(weft_await(tasks[i - 1]), 0);
    }
    CHECK_EQ(state_of(tasks[2]), WEFT_BLOCKED); /* the rest keeps waiting */
    CHECK_EQ(weft_recv(chan, &item), 0);
    CHECK_EQ(item, 3);
    CHECK_EQ(weft_await(tasks[2]), 0);
    CHECK_EQ(weft_recv(chan, &item), 0);
    CHECK_EQ(item, 4);
    for (int i = 0; i < WAITERS; i++) {
        tasks[i] = go(receive_letter, &letters[i]);
        wait_until_blocked(tasks[i], WEFT_WAIT_RECEIVE);
    }
    for (int i = 0; i < 2; i++) {
        item = 10 + i;
        CHECK_EQ(weft_send(chan, &item), 0);
        CHECK_EQ(weft_await(tasks[i]), 0);
        CHECK_EQ(letters[i].item, 10 + i);
    }
    CHECK_EQ(state_of(tasks[2]), WEFT_BLOCKED);
    CHECK_EQ(weft_chan_close(chan), 0);
    CHECK(weft_await(tasks[2]) < 0);
    weft_chan_drop(chan);
    return 0;
}

/* S1.9 */
static void channels_serve_the_buffer_first_and_then_who_waits_the_longest(void)
{
    run_under(EVERYWHERE, serve_channels);
}

/* ---- one thread decides ---------------------------------------------------------------------- */

/* Every task that was queued, for whatever reason, was found by a worker after a seventh and an
 * eighth step: the control thread took it out of its inbox and handed it out. */
static size_t check_all_ways(const struct story *story)
{
    size_t ways = 0;
    for (size_t i = 0; i < story->count; i++) {
        if (strcmp(story->events[i].name, "queue") == 0) {
            check_way(story, i, story->events[i].task_id);
            ways++;
        }
    }
    return ways;
}

/* S1.10, S1.12, S1.25: spawns, wakes by locks, channels, timers and threads */
static void everything_that_runs_was_handed_out_by_the_control_thread(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        weft_runtime *runtime = open_reactor(workers, MANY_EVENTS);
        CHECK_EQ(weft_await(go_into(runtime, run_program, NULL)), 5050);
        struct story story = end_story(runtime);
        CHECK(check_all_ways(&story) >= 100);
        free(story.events);
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

/* S1.26: the only worker is held, so both stay in the queue, and can be counted there */
static void spawned_and_woken_tasks_come_in_through_one_queue(void)
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
    CHECK(wf_load_relaxed(&runtime->workers[0].hand) == NULL);
    raise_by_one(&cells[1]);
    CHECK_EQ(weft_await(hog), 0);
    CHECK_EQ(weft_await(waiter), 0);
    CHECK_EQ(weft_await(spawned), 7);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

/* ---- states ---------------------------------------------------------------------------------- */

enum { NAPS = 200, WAKERS = 3 };

struct nap {
    weft_task *task;
    wf_atomic_u32 is_set;
    wf_atomic_u32 is_over;
};

static intptr_t nap_often(void *arg)
{
    struct nap *nap = arg;
    struct weft_task *self = wf_task_self();
    for (int i = 0; i < NAPS; i++) {
        wf_wait_begin(self, WEFT_WAIT_WORLD, nap); /* a wait that is for no task */
        wf_task_suspend(self);
        wf_wait_end(self);
    }
    raise_by_one(&nap->is_over);
    return 0;
}

static void *wake_often(void *arg)
{
    struct nap *nap = arg;
    wait_for(&nap->is_set, 1);
    while (wf_load_acquire(&nap->is_over) == 0) { /* to raise_by_one */
        wf_task_wake(nap->task);
        (void)sched_yield();
    }
    return NULL;
}

/* The worker that entered it is the one that suspends it, and of all who wake it one does. */
static void check_authors(const struct story *story, uint64_t task_id)
{
    const char *entered_by = NULL;
    unsigned wakes = 0;
    unsigned naps = 0;
    for (size_t i = find_event(story, 0, "spawn", task_id); i < story->count; i++) {
        const struct event *event = &story->events[i];
        if (is_event(event, "enter", task_id)) {
            CHECK_EQ(event->worker[0], 'w');
            CHECK(wakes <= 1);
            entered_by = event->worker;
            wakes = 0;
        } else if (is_event(event, "commit", task_id)) {
            CHECK(entered_by != NULL);
            CHECK_STR(event->worker, entered_by);
            naps++;
        } else if (is_event(event, "wake", task_id)) {
            CHECK_STR(event->worker, "-"); /* one of the threads */
            wakes++;
        }
    }
    CHECK_EQ(naps, NAPS);
}

/* S1.22 */
static void each_change_of_state_has_one_author(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        struct nap nap = {.task = NULL};
        pthread_t threads[WAKERS];
        tour.options.trace_events = MANY_EVENTS;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (int i = 0; i < WAKERS; i++) {
            CHECK_EQ(wf_thread_start(&threads[i], wake_often, &nap, NULL), 0);
        }
        nap.task = go_into(runtime, nap_often, &nap);
        const uint64_t task_id = weft_task_id(nap.task);
        raise_by_one(&nap.is_set);
        for (int i = 0; i < WAKERS; i++) {
            CHECK_EQ(wf_thread_join(threads[i]), 0);
        }
        CHECK_EQ(weft_await(nap.task), 0);
        struct story story = end_story(runtime);
        check_authors(&story, task_id);
        free(story.events);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(the_same_programs_run_under_both),
    TAP_TEST(results_of_workers_are_taken_in_step_one),
    TAP_TEST(who_waits_for_bytes_is_woken_in_step_three),
    TAP_TEST(who_waits_for_bytes_is_woken_by_the_watcher),
    TAP_TEST(who_sleeps_is_woken_in_step_four),
    TAP_TEST(step_nine_waits_for_the_next_timer),
    TAP_TEST(channels_serve_the_buffer_first_and_then_who_waits_the_longest),
    TAP_TEST(everything_that_runs_was_handed_out_by_the_control_thread),
    TAP_TEST(spawned_and_woken_tasks_come_in_through_one_queue),
    TAP_TEST(each_change_of_state_has_one_author),
};
TAP_MAIN(tests)
