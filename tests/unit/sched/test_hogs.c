/* SPDX-License-Identifier: MIT */
/*
 * Goal:   nothing that a task does, or forgets to do, keeps the others from running: loops that
 *         never call, calls that block, tasks that wake each other or yield for ever.  What stands
 *         in for a worker that is stuck goes again when it is not needed.
 * Method: one worker as a rule, under both policies, and tasks that keep it until an atomic says
 *         that the others have done what they should: if they could not, the test hangs.  Times of
 *         hogs are short, so that whatever is slow counts as one.
 */
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault_aids.h"
#include "proc_aids.h"
#include "sched/sched.h"
#include "sched_aids.h"

static weft_options options_with_spares(const struct tour *tour)
{
    weft_options options = tour->options;
    options.hog_ns = WEFT_MILLISECOND;
    return options;
}

static void run_with_spares(enum which which, weft_fn body)
{
    for (struct tour tour = {.which = which}; tour_next(&tour);) {
        const weft_options options = options_with_spares(&tour);
        struct setting setting = *tour.setting;
        CHECK_EQ(weft_run(body, &setting, &options), 0);
    }
}

/* Computes, and never calls. */
static intptr_t hog(void *arg)
{
    wf_atomic_u32 *done = arg;
    while (wf_load_acquire(done) == 0) { /* to raise_by_one */
        wf_spin_hint();
    }
    return 0;
}

/* Until there are no more workers in play than were asked for. */
static void wait_for_bench(unsigned workers)
{
    while (stats_of(weft_runtime_self()).in_play > workers) {
        (void)weft_sleep(WEFT_MILLISECOND); /* and not a turn that counts as a hog's */
    }
}

/* ---- loops --------------------------------------------------------------------------------- */

enum { HOGS = 2, HOPS = 500 };

static intptr_t answer(void *arg)
{
    weft_chan **chans = arg;
    for (int i = 0; i < HOPS; i++) {
        int item = 0;
        CHECK_EQ(weft_recv(chans[0], &item), 0);
        item++;
        CHECK_EQ(weft_send(chans[1], &item), 0);
    }
    return 0;
}

static intptr_t ask(void *arg)
{
    weft_chan **chans = arg;
    for (int i = 0; i < HOPS; i++) {
        int item = i;
        CHECK_EQ(weft_send(chans[0], &item), 0);
        CHECK_EQ(weft_recv(chans[1], &item), 0);
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

static intptr_t live_beside_hogs(void *arg)
{
    const struct setting *setting = arg;
    wf_atomic_u32 done = {0};
    weft_chan *chans[2] = {NULL, NULL};
    weft_task *hogs[HOGS];
    CHECK_EQ(weft_chan_open(&chans[0], sizeof(int), 0), 0);
    CHECK_EQ(weft_chan_open(&chans[1], sizeof(int), 0), 0);
    for (int i = 0; i < HOGS; i++) {
        hogs[i] = go(hog, &done);
    }
    weft_task *others[3] = {go(tick, NULL), go(ask, chans), go(answer, chans)};
    CHECK_EQ(weft_await_all(others, 3, NULL), 0);
    if (setting->workers == 1) { /* with more, others had time before it was seen */
        CHECK(stats_of(weft_runtime_self()).hogs >= HOGS);
        CHECK(stats_of(weft_runtime_self()).seats > setting->workers);
    }
    raise_by_one(&done);
    CHECK_EQ(weft_await_all(hogs, HOGS, NULL), 0);
    wait_for_bench(setting->workers);
    CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    weft_chan_drop(chans[0]);
    weft_chan_drop(chans[1]);
    return 0;
}

/* S2.6; part of behaviour 22: of loops in C; those of a VM count their operations */
static void endless_loops_do_not_stop_the_others(void)
{
    run_with_spares(EVERYWHERE, live_beside_hogs);
}

/* ---- what lies in the queues of a stuck worker ---------------------------------------------- */

struct nest {
    wf_atomic_u32 done;
    wf_atomic_u32 inner_ran;
    weft_task *inner;
};

/* The one in the slot: ready, and nobody but thieves can take it. */
static intptr_t leave_one_in_the_slot(void *arg)
{
    struct nest *nest = arg;
    nest->inner = go(count_up, &nest->inner_ran);
    hold_for(&nest->inner_ran, 1);
    return 0;
}

static intptr_t nest_one(void *arg)
{
    (void)arg;
    struct nest nest = {.inner = NULL};
    CHECK_EQ(weft_await(go(leave_one_in_the_slot, &nest)), 0);
    CHECK_EQ(weft_await(nest.inner), 0);
    return 0;
}

/* behaviour 23: with one worker, and with others that sleep */
static void the_slot_of_a_stuck_worker_is_emptied_by_others(void)
{
    run_with_spares(EVERYWHERE, nest_one);
}

enum { MANY = 300 };

static intptr_t leave_many(void *arg)
{
    wf_atomic_u32 *ran = arg;
    weft_task *tasks[MANY];
    for (int i = 0; i < MANY; i++) { /* the ring overflows to the global queue */
        tasks[i] = go(count_up, ran);
    }
    hold_for(ran, MANY);
    return weft_await_all(tasks, MANY, NULL);
}

static intptr_t nest_many(void *arg)
{
    (void)arg;
    wf_atomic_u32 ran = {0};
    return weft_await(go(leave_many, &ran));
}

static void the_queue_of_a_stuck_worker_is_emptied_by_others(void)
{
    run_with_spares(EVERYWHERE, nest_many);
}

static intptr_t yield_until(void *arg)
{
    wf_atomic_u32 *done = arg;
    while (wf_load_acquire(done) == 0) { /* to raise_by_one */
        (void)weft_yield();
    }
    return 0;
}

/* Who stands in for it always has something to do, and would never come for the rest. */
static intptr_t leave_many_beside_busy(void *arg)
{
    enum { BUSY = 4 };
    wf_atomic_u32 *ran = arg;
    wf_atomic_u32 done = {0};
    weft_task *busy[BUSY];
    for (int i = 0; i < BUSY; i++) {
        busy[i] = go(yield_until, &done);
    }
    CHECK_EQ(leave_many(ran), 0);
    raise_by_one(&done);
    return weft_await_all(busy, BUSY, NULL);
}

static intptr_t nest_many_beside_busy(void *arg)
{
    (void)arg;
    wf_atomic_u32 ran = {0};
    return weft_await(go(leave_many_beside_busy, &ran));
}

/* behaviour 23 */
static void the_queue_of_a_stuck_worker_waits_for_nobody(void)
{
    run_with_spares(EVERYWHERE, nest_many_beside_busy);
}

/* From outside, while all workers are stuck: the inbox of the reactor, the global queue, and what
 * is of another priority. */
static void come_from_outside(weft_runtime *runtime, const struct setting *setting)
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

/* behaviour 24: but for pinned tasks, which only their own worker may run */
static void what_comes_for_stuck_workers_is_run_by_others(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        const weft_options options = options_with_spares(&tour);
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        come_from_outside(runtime, tour.setting);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

/* ---- those who never wait ------------------------------------------------------------------- */

struct pair {
    wf_atomic_u32 done;
    weft_notify notify[2];
    int side;
};

static intptr_t wake_the_other(void *arg)
{
    struct pair *pair = arg;
    const int side = pair->side++;
    while (wf_load_acquire(&pair->done) == 0) {
        CHECK_EQ(weft_notify_one(&pair->notify[1 - side]), 0);
        CHECK_EQ(weft_notify_wait(&pair->notify[side]), 0);
    }
    CHECK_EQ(weft_notify_one(&pair->notify[1 - side]), 0);
    return 0;
}

static intptr_t live_beside_a_pair(void *arg)
{
    (void)arg;
    static struct pair pair;
    pair = (struct pair){.side = 0};
    wf_atomic_u32 ran = {0};
    weft_task *pairs[2];
    for (int i = 0; i < 2; i++) {
        pairs[i] = go(wake_the_other, &pair);
        while (info_of(pairs[i]).runs == 0) {
            (void)weft_yield();
        }
    }
    weft_task *others[3] = {go(count_up, &ran), go(tick, NULL), go(count_up, &ran)};
    CHECK_EQ(weft_await_all(others, 3, NULL), 0);
    raise_by_one(&pair.done);
    return weft_await_all(pairs, 2, NULL);
}

/* behaviour 20, as far as it is about both policies */
static void two_that_wake_each_other_starve_nobody(void)
{
    run_with_spares(ON_ONE_WORKER, live_beside_a_pair);
}

static intptr_t yield_for_ever(void *arg)
{
    wf_atomic_u32 *done = arg;
    while (wf_load_acquire(done) == 0) { /* to raise_by_one */
        (void)weft_yield();
    }
    return 0;
}

static intptr_t read_a_byte(void *arg)
{
    char byte;
    return weft_read(*(const int *)arg, &byte, 1) == 1 ? 0 : -EIO;
}

static void hear_of_a_byte(weft_runtime *runtime)
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

static void live_beside_one_that_yields(weft_runtime *runtime, const struct setting *setting)
{
    wf_atomic_u32 done = {0};
    wf_atomic_u32 ran = {0};
    weft_task *yielders[8];
    for (unsigned i = 0; i < setting->workers; i++) {
        yielders[i] = go_into(runtime, yield_for_ever, &done);
    }
    const weft_task_options pinned = {.is_pinned = true};
    for (int i = 0; i < 20; i++) { /* the global queue, and the inboxes */
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, count_up, &ran, i % 2 ? &pinned : NULL), 0);
    }
    CHECK_EQ(weft_await(go_into(runtime, tick, NULL)), 0);
    CHECK_EQ(weft_await(go_into(runtime, nest_one, NULL)), 0); /* the queue of a worker */
    hear_of_a_byte(runtime);
    wait_for(&ran, 20);
    raise_by_one(&done);
    CHECK_EQ(weft_await_all(yielders, setting->workers, NULL), 0);
}

/* behaviour 21 */
static void one_that_yields_for_ever_starves_nobody(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        const weft_options options = options_with_spares(&tour);
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        live_beside_one_that_yields(runtime, tour.setting);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

/* ---- balance ------------------------------------------------------------------------------- */

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
    const unsigned seats = stats_of(runtime).seats;
    uint64_t sum = 0;
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    for (unsigned i = 0; i < seats; i++) {
        weft_counters counters;
        CHECK_EQ(weft_worker_stats(runtime, i, &counters), 0);
        sum += counters.completed;
        if (i < setting->workers) {
            least = counters.completed < least ? counters.completed : least;
            most = counters.completed > most ? counters.completed : most;
        }
    }
    CHECK_EQ(sum, COMPUTERS); /* each was counted where it ended */
    weft_counters none;
    CHECK_EQ(weft_worker_stats(runtime, seats, &none), -EINVAL);
    tap_note("%u workers: least %ju, most %ju of %d", setting->workers, (uintmax_t)least,
             (uintmax_t)most, COMPUTERS);
    return 0;
}

/* behaviour 26 */
static void how_the_work_was_spread_can_be_read(void)
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
    weft_block_begin(); /* they nest */
    raise_by_one(&blocker->inside);
    hold_for(&blocker->done, 1);
    weft_block_end();
    weft_block_end();
    CHECK_EQ(wf_thread_id(), before); /* before anything that could move it */
    return 0;
}

static intptr_t live_beside_blockers(void *arg)
{
    const struct setting *setting = arg;
    enum { BLOCKERS = 10 };
    struct blocker blocker = {.thread = 0};
    weft_task *tasks[BLOCKERS];
    for (int i = 0; i < BLOCKERS; i++) {
        tasks[i] = go(block, &blocker);
    }
    while (wf_load_acquire(&blocker.inside) < BLOCKERS) { /* to raise_by_one */
        CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    }
    CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    CHECK_EQ(stats_of(weft_runtime_self()).blocks, BLOCKERS);
    raise_by_one(&blocker.done);
    CHECK_EQ(weft_await_all(tasks, BLOCKERS, NULL), 0);
    wait_for_bench(setting->workers);
    weft_block_end(); /* without a beginning: nothing happens */
    return 0;
}

static void calls_that_block_have_a_spare_each(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct setting setting = *tour.setting;
        CHECK_EQ(weft_run(live_beside_blockers, &setting, &tour.options), 0); /* no hogs there */
    }
    weft_block_begin(); /* a thread that is no worker */
    weft_block_end();
}

static intptr_t stop_beside_blockers(void *arg)
{
    (void)arg;
    struct blocker blocker = {.thread = 0};
    weft_task *task = go(block, &blocker);
    while (wf_load_acquire(&blocker.inside) == 0) { /* to raise_by_one */
        CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    }
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_stop_the_world(weft_runtime_self()), 0);
        CHECK_EQ(weft_start_the_world(weft_runtime_self()), 0);
    }
    CHECK_EQ(weft_stop_the_world(weft_runtime_self()), 0);
    raise_by_one(&blocker.done); /* it comes back, and stands still */
    CHECK_EQ(weft_start_the_world(weft_runtime_self()), 0);
    return weft_await(task);
}

/* part of behaviour 65 */
static void who_blocks_counts_as_standing_still(void)
{
    run_with_spares(EVERYWHERE, stop_beside_blockers);
}

/* ---- spares -------------------------------------------------------------------------------- */

/* Pins itself to a spare, waits until that is on the bench, and goes on there. */
struct traveller {
    wf_atomic_u32 is_pinned;
    weft_notify notify;
    wf_atomic_u32 done;
};

static intptr_t pin_to_a_spare(void *arg)
{
    struct traveller *traveller = arg;
    while (!wf_worker_self()->post.is_spare) {
        (void)weft_sleep(WEFT_MILLISECOND);
    }
    CHECK_EQ(weft_pin(1), 0);
    const int thread = wf_thread_id();
    raise_by_one(&traveller->is_pinned);
    CHECK_EQ(weft_notify_wait(&traveller->notify), 0);
    CHECK_EQ(wf_thread_id(), thread);
    CHECK_EQ(weft_pin(0), 0);
    return 0;
}

static intptr_t recall_a_spare(void *arg)
{
    const struct setting *setting = arg;
    static struct traveller traveller;
    traveller = (struct traveller){.is_pinned = {0}};
    weft_task *hogs[8];
    for (unsigned i = 0; i < setting->workers; i++) {
        hogs[i] = go(hog, &traveller.done);
    }
    weft_task *task = go(pin_to_a_spare, &traveller);
    while (wf_load_acquire(&traveller.is_pinned) == 0) { /* to raise_by_one */
        (void)weft_sleep(WEFT_MILLISECOND);
    }
    raise_by_one(&traveller.done);
    CHECK_EQ(weft_await_all(hogs, setting->workers, NULL), 0);
    wait_for_bench(setting->workers);
    CHECK_EQ(weft_notify_one(&traveller.notify), 0);
    CHECK_EQ(weft_await(task), 0);
    wait_for_bench(setting->workers);
    return 0;
}

static void a_spare_on_the_bench_is_called_for_what_is_pinned_to_it(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        const weft_options options = options_with_spares(&tour);
        struct setting setting = *tour.setting;
        CHECK_EQ(weft_run(recall_a_spare, &setting, &options), 0);
    }
}

static intptr_t yield_long(void *arg)
{
    wf_atomic_u32 *done = arg;
    while (wf_load_acquire(done) == 0) { /* to raise_by_one */
        (void)weft_yield();
    }
    return 0;
}

/* Work for all, all the time: a spare that is not needed any more has tasks in its queue. */
static intptr_t retire_from_work(void *arg)
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
            yielders[i] = go(yield_long, &done);
        }
        weft_task *one = go(hog, &hogs_done);
        while (stats_of(weft_runtime_self()).in_play <= setting->workers) {
            (void)weft_yield();
        }
        raise_by_one(&hogs_done);
        CHECK_EQ(weft_await(one), 0);
        wait_for_bench(setting->workers);
        raise_by_one(&done);
        CHECK_EQ(weft_await_all(yielders, YIELDERS, NULL), 0);
    }
    return 0;
}

static void a_spare_that_has_work_gives_it_away(void)
{
    run_with_spares(ON_ONE_WORKER, retire_from_work); /* of more, one may be free any time */
}

static intptr_t hog_alone(void *arg)
{
    (void)arg;
    const int64_t until = wf_clock_now() + 3 * WEFT_MILLISECOND;
    while (wf_clock_now() < until) {
    }
    return 0;
}

/* Spares come and go, and what all of them wait for is reported when nothing runs any more. */
static intptr_t wait_after_hogs(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_await(go(hog_alone, NULL)), 0);
    }
    return weft_join(weft_self(), NULL) == -EDEADLK ? -EDEADLK : 0;
}

static intptr_t fail_unseen(void *arg)
{
    (void)hog_alone(NULL);
    (void)arg;
    return -EIO;
}

static void note_failure(void *context, const weft_failure *failure)
{
    CHECK_EQ(failure->error, -EIO);
    raise_by_one(context);
}

static void a_runtime_with_spares_falls_quiet(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; short_tour_next(&tour);) {
        weft_options options = options_with_spares(&tour);
        wf_atomic_u32 reports = {0};
        weft_runtime *runtime = NULL;
        options.on_failure = note_failure;
        options.hook_context = &reports;
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        for (uint32_t i = 0; i < 20; i++) {
            CHECK_EQ(weft_runtime_spawn(runtime, NULL, fail_unseen, NULL, NULL), 0);
            wait_for(&reports, i + 1); /* reported when nothing runs: else this hangs */
        }
        CHECK_EQ(weft_await(go_into(runtime, wait_after_hogs, NULL)), -EDEADLK);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

struct hog_report {
    wf_atomic_u32 count;
    char name[WEFT_NAME_SIZE];
    const void *site;
};

static void take_hog(void *context, const weft_hog *found)
{
    struct hog_report *report = context;
    if (found->fn != hog) {
        return; /* whatever is slow counts as one */
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
    CHECK(weft_dump(weft_runtime_self(), fileno(file)) >= 2);
    CHECK_EQ(fseek(file, 0, SEEK_SET), 0);
    CHECK(fread(text, 1, sizeof(text) - 1, file) > 0);
    CHECK_EQ(fclose(file), 0);
    return strstr(text, "without a call") != NULL;
}

static intptr_t hog_again_and_again(void *arg)
{
    struct hog_report *report = arg;
    const weft_task_options options = {.name = "hog"};
    for (unsigned i = 0; i < 3; i++) { /* from one place */
        wf_atomic_u32 done = {0};
        weft_task *task = NULL;
        CHECK_EQ(weft_spawn(&task, hog, &done, &options), 0);
        while (stats_of(weft_runtime_self()).hogs <= i || !is_named_in_dump()) {
            CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0); /* others that are slow count, too */
        }
        raise_by_one(&done);
        CHECK_EQ(weft_await(task), 0);
    }
    wait_for(&report->count, 1);
    return 0;
}

static void a_hog_is_reported_once_for_its_place(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        weft_options options = options_with_spares(&tour);
        struct hog_report report = {.site = NULL};
        options.on_hog = take_hog;
        options.hook_context = &report;
        CHECK_EQ(weft_run(hog_again_and_again, &report, &options), 0);
        CHECK_EQ(wf_load_acquire(&report.count), 1);
        CHECK(report.site != NULL);
    }
}

/* Without spares the runtime is as it was: nobody comes. */
static intptr_t look_at_seats(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_await(go(hog_alone, NULL)), 0);
    const weft_stats stats = stats_of(weft_runtime_self());
    CHECK_EQ(stats.seats, stats.workers);
    CHECK_EQ(stats.hogs, 0);
    return 0;
}

static void the_monitor_can_be_left_out(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_options options = options_with_spares(&tour);
        options.no_monitor = true;
        CHECK_EQ(weft_run(look_at_seats, NULL, &options), 0);
    }
}

#ifdef WF_TEST_AIDS

/* Threads and memory are refused to the monitor, again and again: it tries again. */
static intptr_t live_beside_a_hog_without_threads(void *arg)
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

/* Not all memory at once: it would be gone for good, since nobody else can go on. */
static void a_spare_that_cannot_start_is_tried_again(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        const weft_options options = options_with_spares(&tour);
        struct operation operation;
        do { /* where all is slow, a spare may be there before anything is refused: once more */
            operation = (struct operation){.fn = live_beside_a_hog_without_threads};
            while (faults_next(&operation.faults) && !operation.faults.is_memory) {
                CHECK_EQ(weft_run(operate_and_go_on, &operation, &options), 0);
            }
        } while (operation.faults.refused == 0); /* the queue, the thread, its signal stack */
    }
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(endless_loops_do_not_stop_the_others),
    TAP_TEST(the_slot_of_a_stuck_worker_is_emptied_by_others),
    TAP_TEST(the_queue_of_a_stuck_worker_is_emptied_by_others),
    TAP_TEST(the_queue_of_a_stuck_worker_waits_for_nobody),
    TAP_TEST(what_comes_for_stuck_workers_is_run_by_others),
    TAP_TEST(two_that_wake_each_other_starve_nobody),
    TAP_TEST_LIMIT(one_that_yields_for_ever_starves_nobody, 60),
    TAP_TEST(how_the_work_was_spread_can_be_read),
    TAP_TEST(calls_that_block_have_a_spare_each),
    TAP_TEST(who_blocks_counts_as_standing_still),
    TAP_TEST(a_spare_on_the_bench_is_called_for_what_is_pinned_to_it),
    TAP_TEST_LIMIT(a_spare_that_has_work_gives_it_away, 60),
    TAP_TEST(a_runtime_with_spares_falls_quiet),
    TAP_TEST(a_hog_is_reported_once_for_its_place),
    TAP_TEST(the_monitor_can_be_left_out),
#ifdef WF_TEST_AIDS
    TAP_TEST_LIMIT(a_spare_that_cannot_start_is_tried_again, 60),
#endif
};
TAP_MAIN(tests)
