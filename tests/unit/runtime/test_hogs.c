/* SPDX-License-Identifier: MIT */
/*
 * Goal:   no task keeps other tasks from running: neither a loop without calls, nor a call that
 *         blocks, nor tasks that wake each other or yield forever. A spare that replaces a stuck
 *         worker parks when it is no longer needed.
 * Method: mostly one worker, under both policies, and tasks that keep it until an atomic says that
 *         other tasks have run; if they could not, the test hangs. `hog_ns` is short, so that every
 *         slow task counts as a hog.
 */
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault_helpers.h"
#include "proc_helpers.h"
#include "runtime/runtime.h"
#include "sched_helpers.h"

static weft_runtime_options options_with_spares(const struct tour *tour)
{
    weft_runtime_options options = tour->options;
    options.hog_ns = WEFT_MILLISECOND;
    return options;
}

static void run_with_spares(enum which which, weft_fn body)
{
    for (struct tour tour = {.which = which}; tour_next(&tour);) {
        const weft_runtime_options options = options_with_spares(&tour);
        struct setting setting = *tour.setting;
        CHECK_EQ(weft_run(body, &setting, &options), 0);
    }
}

/* Computes without a call. */
static intptr_t hog(void *arg)
{
    wf_atomic_u32 *done = arg;
    while (wf_load_acquire(done) == 0) { /* pairs with raise_by_one */
        wf_spin_hint();
    }
    return 0;
}

/* Waits until no more workers than configured are active. */
static void wait_until_spares_park(unsigned workers)
{
    while (stats_of(weft_runtime_self()).workers_active > workers) {
        (void)weft_sleep(WEFT_MILLISECOND); /* a sleep, so that this task is no hog */
    }
}

/* ---- loops --------------------------------------------------------------------------------- */

enum { HOGS = 2, HOPS = 500 };

static intptr_t answer(void *arg)
{
    weft_chan **chans = arg;
    for (int i = 0; i < HOPS; i++) {
        int item = 0;
        CHECK_EQ(weft_chan_recv(chans[0], &item), 0);
        item++;
        CHECK_EQ(weft_chan_send(chans[1], &item), 0);
    }
    return 0;
}

static intptr_t ask(void *arg)
{
    weft_chan **chans = arg;
    for (int i = 0; i < HOPS; i++) {
        int item = i;
        CHECK_EQ(weft_chan_send(chans[0], &item), 0);
        CHECK_EQ(weft_chan_recv(chans[1], &item), 0);
        CHECK_EQ(item, i + 1);
    }
    return 0;
}

static intptr_t tick(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    }
    return 0;
}

static intptr_t run_beside_hogs(void *arg)
{
    const struct setting *setting = arg;
    wf_atomic_u32 done = {0};
    weft_chan *chans[2] = {NULL, NULL};
    weft_task *hogs[HOGS];
    CHECK_EQ(weft_chan_new(&chans[0], sizeof(int), 0), 0);
    CHECK_EQ(weft_chan_new(&chans[1], sizeof(int), 0), 0);
    for (int i = 0; i < HOGS; i++) {
        hogs[i] = go(hog, &done);
    }
    weft_task *others[3] = {go(tick, NULL), go(ask, chans), go(answer, chans)};
    CHECK_EQ(weft_await_all(others, 3, NULL), 0);
    /* With more workers the spares need not have started.  With one worker a spare may have started
     * for a task that lost its CPU, and then the monitor sees the hogs later. */
    while (setting->workers == 1 &&
           (stats_of(weft_runtime_self()).hogs < HOGS ||
            stats_of(weft_runtime_self()).workers_total <= setting->workers)) {
        CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    }
    raise_by_one(&done);
    CHECK_EQ(weft_await_all(hogs, HOGS, NULL), 0);
    wait_until_spares_park(setting->workers);
    CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    weft_chan_unref(chans[0]);
    weft_chan_unref(chans[1]);
    return 0;
}

/* S2.6; part of behaviour 22: loops in C; a VM counts its operations */
static void hog_loops_do_not_stop_other_tasks(void)
{
    run_with_spares(EVERYWHERE, run_beside_hogs);
}

/* ---- run queue of a stuck worker ------------------------------------------------------------- */

struct lifo_scene {
    wf_atomic_u32 done;
    wf_atomic_u32 inner_ran;
    weft_task *inner;
};

/* The inner task is in the LIFO slot: only thieves can take it. */
static intptr_t fill_lifo_slot_and_hold(void *arg)
{
    struct lifo_scene *lifo_scene = arg;
    lifo_scene->inner = go(count_up, &lifo_scene->inner_ran);
    hold_for(&lifo_scene->inner_ran, 1);
    return 0;
}

static intptr_t check_lifo_slot(void *arg)
{
    (void)arg;
    struct lifo_scene lifo_scene = {.inner = NULL};
    CHECK_EQ(weft_await(go(fill_lifo_slot_and_hold, &lifo_scene)), 0);
    CHECK_EQ(weft_await(lifo_scene.inner), 0);
    return 0;
}

/* behaviour 23: with one worker, and with parked workers */
static void lifo_slot_of_a_stuck_worker_is_taken_by_others(void)
{
    run_with_spares(EVERYWHERE, check_lifo_slot);
}

enum { MANY = 300 };

static intptr_t fill_queue_and_hold(void *arg)
{
    wf_atomic_u32 *ran = arg;
    weft_task *tasks[MANY];
    for (int i = 0; i < MANY; i++) { /* the ring overflows into the global queue */
        tasks[i] = go(count_up, ran);
    }
    hold_for(ran, MANY);
    return weft_await_all(tasks, MANY, NULL);
}

static intptr_t check_queue(void *arg)
{
    (void)arg;
    wf_atomic_u32 ran = {0};
    return weft_await(go(fill_queue_and_hold, &ran));
}

static void run_queue_of_a_stuck_worker_is_taken_by_others(void)
{
    run_with_spares(EVERYWHERE, check_queue);
}

static intptr_t yield_until(void *arg)
{
    wf_atomic_u32 *done = arg;
    while (wf_load_acquire(done) == 0) { /* pairs with raise_by_one */
        (void)weft_yield();
    }
    return 0;
}

/* The spare always has local work, and would never steal the rest of the queue. */
static intptr_t fill_queue_beside_busy(void *arg)
{
    enum { BUSY = 4 };
    wf_atomic_u32 *ran = arg;
    wf_atomic_u32 done = {0};
    weft_task *busy[BUSY];
    for (int i = 0; i < BUSY; i++) {
        busy[i] = go(yield_until, &done);
    }
    CHECK_EQ(fill_queue_and_hold(ran), 0);
    raise_by_one(&done);
    return weft_await_all(busy, BUSY, NULL);
}

static intptr_t check_queue_beside_busy(void *arg)
{
    (void)arg;
    wf_atomic_u32 ran = {0};
    return weft_await(go(fill_queue_beside_busy, &ran));
}

/* behaviour 23 */
static void run_queue_of_a_stuck_worker_does_not_wait_for_busy_spares(void)
{
    run_with_spares(EVERYWHERE, check_queue_beside_busy);
}

/* Spawns from outside while all workers are stuck: through the reactor's inbox, the global queue,
 * and the slow queues of other priorities. */
static void submit_from_outside(weft_runtime *runtime, const struct setting *setting)
{
    wf_atomic_u32 done = {0};
    wf_atomic_u32 ran = {0};
    weft_task *hogs[8];
    for (unsigned i = 0; i < setting->workers; i++) {
        hogs[i] = go_into(runtime, hog, &done);
    }
    for (int i = 0; i < 30; i++) {
        const weft_task_options options = {.priority = (enum weft_priority)(i % 3)};
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, count_up, &ran, &options), 0);
    }
    wait_for(&ran, 30);
    raise_by_one(&done);
    CHECK_EQ(weft_await_all(hogs, setting->workers, NULL), 0);
}

/* behaviour 24: except pinned tasks, which only their own worker may run */
static void spare_runs_external_submissions_of_stuck_workers(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        const weft_runtime_options options = options_with_spares(&tour);
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        submit_from_outside(runtime, tour.setting);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

/* ---- tasks that never wait long -------------------------------------------------------------- */

struct pair {
    wf_atomic_u32 done;
    weft_notify notify[2];
    int index;
};

static intptr_t wake_partner(void *arg)
{
    struct pair *pair = arg;
    const int index = pair->index++;
    while (wf_load_acquire(&pair->done) == 0) {
        CHECK_EQ(weft_notify_one(&pair->notify[1 - index]), 0);
        CHECK_EQ(weft_notify_wait(&pair->notify[index]), 0);
    }
    CHECK_EQ(weft_notify_one(&pair->notify[1 - index]), 0);
    return 0;
}

static intptr_t run_beside_ping_pong(void *arg)
{
    (void)arg;
    static struct pair pair;
    pair = (struct pair){.index = 0};
    wf_atomic_u32 ran = {0};
    weft_task *pairs[2];
    for (int i = 0; i < 2; i++) {
        pairs[i] = go(wake_partner, &pair);
        while (info_of(pairs[i]).runs == 0) {
            (void)weft_yield();
        }
    }
    weft_task *others[3] = {go(count_up, &ran), go(tick, NULL), go(count_up, &ran)};
    CHECK_EQ(weft_await_all(others, 3, NULL), 0);
    raise_by_one(&pair.done);
    return weft_await_all(pairs, 2, NULL);
}

/* behaviour 20, as far as it concerns both policies */
static void notify_ping_pong_starves_no_other_task(void)
{
    run_with_spares(ON_ONE_WORKER, run_beside_ping_pong);
}

static intptr_t yield_until_done(void *arg)
{
    wf_atomic_u32 *done = arg;
    while (wf_load_acquire(done) == 0) { /* pairs with raise_by_one */
        (void)weft_yield();
    }
    return 0;
}

static intptr_t read_a_byte(void *arg)
{
    char byte;
    return weft_read(*(const int *)arg, &byte, 1) == 1 ? 0 : -EIO;
}

static void check_pipe_read(weft_runtime *runtime)
{
    int ends[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    weft_task *reader = go_into(runtime, read_a_byte, &ends[0]);
    while (info_of(reader).wait != WEFT_WAIT_READABLE) {
        let_others_run();
    }
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(weft_await(reader), 0);
    CHECK_EQ(weft_close(ends[0]) + weft_close(ends[1]), 0);
}

static void run_beside_yielders(weft_runtime *runtime, const struct setting *setting)
{
    wf_atomic_u32 done = {0};
    wf_atomic_u32 ran = {0};
    weft_task *yielders[8];
    for (unsigned i = 0; i < setting->workers; i++) {
        yielders[i] = go_into(runtime, yield_until_done, &done);
    }
    const weft_task_options pinned = {.is_pinned = true};
    for (int i = 0; i < 20; i++) { /* the global queue and the inboxes */
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, count_up, &ran, i % 2 ? &pinned : NULL), 0);
    }
    CHECK_EQ(weft_await(go_into(runtime, tick, NULL)), 0);
    CHECK_EQ(weft_await(go_into(runtime, check_lifo_slot, NULL)), 0); /* a worker's run queue */
    check_pipe_read(runtime);
    wait_for(&ran, 20);
    raise_by_one(&done);
    CHECK_EQ(weft_await_all(yielders, setting->workers, NULL), 0);
}

/* behaviour 21 */
static void yield_loop_starves_no_queue_timer_or_descriptor(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        const weft_runtime_options options = options_with_spares(&tour);
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        run_beside_yielders(runtime, tour.setting);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

/* ---- counters per worker --------------------------------------------------------------------- */

enum { COMPUTERS = 10000 };

static intptr_t compute(void *arg)
{
    volatile unsigned sum = 0;
    for (unsigned i = 0; i < 2000; i++) {
        sum = sum * 31 + i;
    }
    raise_by_one(arg);
    return 0;
}

static intptr_t balance(void *arg)
{
    const struct setting *setting = arg;
    static weft_task *tasks[COMPUTERS];
    wf_atomic_u32 ran = {0};
    weft_runtime *runtime = weft_runtime_self();
    for (int i = 0; i < COMPUTERS; i++) {
        tasks[i] = go(compute, &ran);
    }
    CHECK_EQ(weft_await_all(tasks, COMPUTERS, NULL), 0);
    const unsigned workers_total = stats_of(runtime).workers_total;
    uint64_t sum = 0;
    uint64_t completed_min = UINT64_MAX;
    uint64_t completed_max = 0;
    for (unsigned i = 0; i < workers_total; i++) {
        weft_worker_stats counters;
        CHECK_EQ(weft_runtime_get_worker_stats(runtime, &counters, i), 0);
        sum += counters.completed;
        if (i < setting->workers) {
            completed_min = counters.completed < completed_min ? counters.completed : completed_min;
            completed_max = counters.completed > completed_max ? counters.completed : completed_max;
        }
    }
    CHECK_EQ(sum, COMPUTERS); /* each task was counted by the worker that ended it */
    weft_worker_stats none;
    CHECK_EQ(weft_runtime_get_worker_stats(runtime, &none, workers_total), -EINVAL);
    tap_note("%u workers: least %ju, most %ju of %d", setting->workers, (uintmax_t)completed_min,
             (uintmax_t)completed_max, COMPUTERS);
    return 0;
}

/* behaviour 26 */
static void worker_stats_count_each_task_where_it_ended(void)
{
    run_with_spares(EVERYWHERE, balance);
}

/* ---- calls that block ---------------------------------------------------------------------- */

struct blocker {
    wf_atomic_u32 inside;
    wf_atomic_u32 done;
    int thread;
};

static intptr_t block(void *arg)
{
    struct blocker *blocker = arg;
    const int before = wf_thread_id();
    weft_block_begin();
    weft_block_begin(); /* the calls nest */
    raise_by_one(&blocker->inside);
    hold_for(&blocker->done, 1);
    weft_block_end();
    weft_block_end();
    CHECK_EQ(wf_thread_id(), before); /* checked before any call that could move the task */
    return 0;
}

static intptr_t run_beside_blockers(void *arg)
{
    const struct setting *setting = arg;
    enum { BLOCKERS = 10 };
    struct blocker blocker = {.thread = 0};
    weft_task *tasks[BLOCKERS];
    for (int i = 0; i < BLOCKERS; i++) {
        tasks[i] = go(block, &blocker);
    }
    while (wf_load_acquire(&blocker.inside) < BLOCKERS) { /* pairs with raise_by_one */
        CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    }
    CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    CHECK_EQ(stats_of(weft_runtime_self()).blocks, BLOCKERS);
    raise_by_one(&blocker.done);
    CHECK_EQ(weft_await_all(tasks, BLOCKERS, NULL), 0);
    wait_until_spares_park(setting->workers);
    weft_block_end(); /* without a begin: no effect */
    return 0;
}

static void block_begin_gives_each_blocked_worker_a_spare(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct setting setting = *tour.setting;
        CHECK_EQ(weft_run(run_beside_blockers, &setting, &tour.options), 0); /* no hogs there */
    }
    weft_block_begin(); /* on a non-worker thread */
    weft_block_end();
}

static intptr_t stop_world_beside_blockers(void *arg)
{
    (void)arg;
    struct blocker blocker = {.thread = 0};
    weft_task *task = go(block, &blocker);
    while (wf_load_acquire(&blocker.inside) == 0) { /* pairs with raise_by_one */
        CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    }
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_world_stop(weft_runtime_self()), 0);
        CHECK_EQ(weft_world_start(weft_runtime_self()), 0);
    }
    CHECK_EQ(weft_world_stop(weft_runtime_self()), 0);
    raise_by_one(&blocker.done); /* the blocked worker returns and stops */
    CHECK_EQ(weft_world_start(weft_runtime_self()), 0);
    return weft_await(task);
}

/* part of behaviour 65 */
static void world_stops_while_a_task_is_in_block_begin(void)
{
    run_with_spares(EVERYWHERE, stop_world_beside_blockers);
}

/* ---- spares ---------------------------------------------------------------------------------- */

/* A task pins itself to a spare, waits until that spare is parked, and continues there. */
struct pinned_scene {
    wf_atomic_u32 is_pinned;
    weft_notify notify;
    wf_atomic_u32 done;
};

static intptr_t pin_to_a_spare(void *arg)
{
    struct pinned_scene *pinned_scene = arg;
    while (!wf_worker_self()->health.is_spare) {
        (void)weft_sleep(WEFT_MILLISECOND);
    }
    CHECK_EQ(weft_pin_begin(), 0);
    const int thread = wf_thread_id();
    raise_by_one(&pinned_scene->is_pinned);
    CHECK_EQ(weft_notify_wait(&pinned_scene->notify), 0);
    CHECK_EQ(wf_thread_id(), thread);
    CHECK_EQ(weft_pin_end(), 0);
    return 0;
}

static intptr_t unpark_spare(void *arg)
{
    const struct setting *setting = arg;
    static struct pinned_scene pinned_scene;
    pinned_scene = (struct pinned_scene){.is_pinned = {0}};
    weft_task *hogs[8];
    for (unsigned i = 0; i < setting->workers; i++) {
        hogs[i] = go(hog, &pinned_scene.done);
    }
    weft_task *task = go(pin_to_a_spare, &pinned_scene);
    while (wf_load_acquire(&pinned_scene.is_pinned) == 0) { /* pairs with raise_by_one */
        (void)weft_sleep(WEFT_MILLISECOND);
    }
    raise_by_one(&pinned_scene.done);
    CHECK_EQ(weft_await_all(hogs, setting->workers, NULL), 0);
    wait_until_spares_park(setting->workers);
    CHECK_EQ(weft_notify_one(&pinned_scene.notify), 0);
    CHECK_EQ(weft_await(task), 0);
    wait_until_spares_park(setting->workers);
    return 0;
}

static void spare_is_unparked_for_a_task_pinned_to_it(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        const weft_runtime_options options = options_with_spares(&tour);
        struct setting setting = *tour.setting;
        CHECK_EQ(weft_run(unpark_spare, &setting, &options), 0);
    }
}

static intptr_t yield_for_spare(void *arg)
{
    wf_atomic_u32 *done = arg;
    while (wf_load_acquire(done) == 0) { /* pairs with raise_by_one */
        (void)weft_yield();
    }
    return 0;
}

/* All workers always have work: a spare that is no longer needed has tasks in its queue. */
static intptr_t retire_busy_spare(void *arg)
{
    const struct setting *setting = arg;
    enum { YIELDERS = 60 };
    wf_atomic_u32 done = {0};
    wf_atomic_u32 hogs_done = {0};
    weft_task *yielders[YIELDERS];
    for (int round = 0; round < 3; round++) {
        wf_store_release(&done, 0);
        wf_store_release(&hogs_done, 0);
        for (int i = 0; i < YIELDERS; i++) {
            yielders[i] = go(yield_for_spare, &done);
        }
        weft_task *one = go(hog, &hogs_done);
        while (stats_of(weft_runtime_self()).workers_active <= setting->workers) {
            (void)weft_yield();
        }
        raise_by_one(&hogs_done);
        CHECK_EQ(weft_await(one), 0);
        wait_until_spares_park(setting->workers);
        raise_by_one(&done);
        CHECK_EQ(weft_await_all(yielders, YIELDERS, NULL), 0);
    }
    return 0;
}

static void spare_that_retires_hands_its_queue_over(void)
{
    run_with_spares(ON_ONE_WORKER, retire_busy_spare); /* with more, one may be idle at any time */
}

static intptr_t hog_3_ms(void *arg)
{
    (void)arg;
    const int64_t until = wf_clock_now() + 3 * WEFT_MILLISECOND;
    while (wf_clock_now() < until) {
    }
    return 0;
}

/* Spares start and park; the runtime still detects that all tasks wait. */
static intptr_t wait_after_hogs(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_await(go(hog_3_ms, NULL)), 0);
    }
    return weft_join(weft_self(), NULL) == -EDEADLK ? -EDEADLK : 0;
}

static intptr_t fail_unseen(void *arg)
{
    (void)hog_3_ms(NULL);
    (void)arg;
    return -EIO;
}

static void note_failure(void *context, const weft_failure *failure)
{
    CHECK_EQ(failure->error, -EIO);
    raise_by_one(context);
}

static void quiescence_is_detected_in_a_runtime_with_spares(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        weft_runtime_options options = options_with_spares(&tour);
        wf_atomic_u32 reports = {0};
        weft_runtime *runtime = NULL;
        options.on_failure = note_failure;
        options.hook_context = &reports;
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        for (uint32_t i = 0; i < 20; i++) {
            CHECK_EQ(weft_runtime_spawn(runtime, NULL, fail_unseen, NULL, NULL), 0);
            wait_for(&reports, i + 1); /* the report needs quiescence: else this hangs */
        }
        CHECK_EQ(weft_await(go_into(runtime, wait_after_hogs, NULL)), -EDEADLK);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

struct hog_report {
    wf_atomic_u32 count;
    char name[WEFT_TASK_NAME_SIZE];
    const void *site;
};

static void record_hog(void *context, const weft_hog *found)
{
    struct hog_report *report = context;
    if (found->fn != hog) {
        return; /* every slow task counts as a hog */
    }
    CHECK(found->ran_ns >= WEFT_MILLISECOND);
    CHECK(found->task_id != 0);
    CHECK_STR(found->name, "hog");
    report->site = found->site;
    raise_by_one(&report->count);
}

static bool is_named_in_dump(void)
{
    char text[4096] = "";
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK(weft_runtime_dump(weft_runtime_self(), fileno(file)) >= 2);
    CHECK_EQ(fseek(file, 0, SEEK_SET), 0);
    CHECK(fread(text, 1, sizeof(text) - 1, file) > 0);
    CHECK_EQ(fclose(file), 0);
    return strstr(text, ", stuck for ") != NULL;
}

static intptr_t hog_three_times(void *arg)
{
    struct hog_report *report = arg;
    const weft_task_options options = {.name = "hog"};
    for (unsigned i = 0; i < 3; i++) { /* one spawn site */
        wf_atomic_u32 done = {0};
        weft_task *task = NULL;
        CHECK_EQ(weft_spawn(&task, hog, &done, &options), 0);
        /* Other slow tasks count, too: so the number alone does not show that this one was seen. */
        while (stats_of(weft_runtime_self()).hogs <= i || !is_named_in_dump() ||
               wf_load_acquire(&report->count) == 0) { /* pairs with raise_by_one */
            CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
        }
        raise_by_one(&done);
        CHECK_EQ(weft_await(task), 0);
    }
    return 0;
}

static void hog_report_is_made_once_per_spawn_site(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        weft_runtime_options options = options_with_spares(&tour);
        struct hog_report report = {.site = NULL};
        options.on_hog = record_hog;
        options.hook_context = &report;
        CHECK_EQ(weft_run(hog_three_times, &report, &options), 0);
        CHECK_EQ(wf_load_acquire(&report.count), 1);
        CHECK(report.site != NULL);
    }
}

/* Without the monitor no spare starts. */
static intptr_t check_no_spares(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_await(go(hog_3_ms, NULL)), 0);
    const weft_runtime_stats stats = stats_of(weft_runtime_self());
    CHECK_EQ(stats.workers_total, stats.workers);
    CHECK_EQ(stats.hogs, 0);
    return 0;
}

static void no_monitor_option_disables_hogs_and_spares(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime_options options = options_with_spares(&tour);
        options.no_monitor = true;
        CHECK_EQ(weft_run(check_no_spares, NULL, &options), 0);
    }
}

#ifdef WF_TEST_HOOKS

/* The monitor gets no thread or memory, and tries again. */
static intptr_t run_beside_hog_under_fault(void *arg)
{
    struct faults *faults = arg;
    wf_atomic_u32 done = {0};
    wf_atomic_u32 ran = {0};
    weft_runtime *runtime = weft_runtime_self();
    weft_task *hogs[3];
    const unsigned workers = weft_runtime_workers(runtime);
    for (unsigned i = 0; i + 1 < workers; i++) {
        hogs[i] = go(hog, &done);
    }
    weft_task *inner = go(count_up, &ran);
    faults_begin(faults);
    hold_for(&ran, 1); /* this task is the last hog */
    faults_end(faults);
    const uint64_t refused = stats_of(runtime).spares_refused;
    faults->refused += refused > 0 ? 1 : 0;
    CHECK(refused == 0 || faults->what != NULL);
    raise_by_one(&done);
    CHECK_EQ(weft_await_all(hogs, workers - 1, NULL), 0);
    return weft_await(inner);
}

/* Only single faults: if all memory stayed gone, no spare could ever start. */
static void monitor_retries_a_spare_that_cannot_start(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        const weft_runtime_options options = options_with_spares(&tour);
        struct operation operation;
        do { /* on a slow machine a spare may start before the fault: repeat */
            operation = (struct operation){.fn = run_beside_hog_under_fault};
            while (faults_next(&operation.faults) && !operation.faults.is_memory) {
                CHECK_EQ(weft_run(operate_and_go_on, &operation, &options), 0);
            }
        } while (operation.faults.refused == 0); /* the queue, the thread, its signal stack */
    }
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(hog_loops_do_not_stop_other_tasks),
    TAP_TEST(lifo_slot_of_a_stuck_worker_is_taken_by_others),
    TAP_TEST(run_queue_of_a_stuck_worker_is_taken_by_others),
    TAP_TEST(run_queue_of_a_stuck_worker_does_not_wait_for_busy_spares),
    TAP_TEST(spare_runs_external_submissions_of_stuck_workers),
    TAP_TEST(notify_ping_pong_starves_no_other_task),
    TAP_TEST_LIMIT(yield_loop_starves_no_queue_timer_or_descriptor, 60),
    TAP_TEST(worker_stats_count_each_task_where_it_ended),
    TAP_TEST(block_begin_gives_each_blocked_worker_a_spare),
    TAP_TEST(world_stops_while_a_task_is_in_block_begin),
    TAP_TEST(spare_is_unparked_for_a_task_pinned_to_it),
    TAP_TEST_LIMIT(spare_that_retires_hands_its_queue_over, 60),
    TAP_TEST(quiescence_is_detected_in_a_runtime_with_spares),
    TAP_TEST(hog_report_is_made_once_per_spawn_site),
    TAP_TEST(no_monitor_option_disables_hogs_and_spares),
#ifdef WF_TEST_HOOKS
    TAP_TEST_LIMIT(monitor_retries_a_spare_that_cannot_start, 60),
#endif
};
TAP_MAIN(tests)
