/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a forced close inside any call that waits or takes something over leaves nothing behind:
 *         no task, no handle, no memory, no node in an object that lives on.
 * Method: a shielded task makes the call and is suspended for ever; the runtime is closed with a
 *         time-out.  Then as many blocks of memory are allocated as before, and every object that
 *         the call used works as if the task had never waited.  The same for calls that yield
 *         because the budget is used up, in a close that comes while they do (abandon_helpers.h).
 */
#include <string.h>

#include "abandon_helpers.h"
#include "sched_helpers.h"

/* ---- what tasks wait for ------------------------------------------------------------------- */

/* Outlive every runtime that is closed. */
static weft_runtime *outer_runtime;
static weft_task *outer_task; /* of that runtime; does not end */
static weft_mutex mutex;
static weft_mutex cond_mutex;
static weft_cond cond;
static weft_rwlock rwlock;
static weft_sem sem;
static weft_chan *full;
static weft_chan *empty;
static weft_oneshot oneshot;
static weft_broadcast *broadcast;
static weft_watch *watch;
static weft_notify notify;
static weft_group group;
static weft_latch latch;

/* Never ends: a cancel does not reach it. */
static intptr_t never_end(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_shield_begin(), 0);
    (void)weft_sleep(WEFT_NEVER); /* ends with the runtime */
    return 0;
}

static intptr_t await_one(void *arg)
{
    return weft_await(go(never_end, arg));
}

static intptr_t await_outer(void *arg)
{
    (void)arg;
    return weft_await(weft_task_ref(outer_task));
}

static intptr_t await_shared(void *arg)
{
    weft_task *task = go(never_end, arg);
    weft_task *second = weft_task_ref(task);
    weft_task_unref(
        second); /* it had two handles: the list of joiners is used or not, both must do */
    return weft_await(task);
}

static intptr_t join_outer(void *arg)
{
    (void)arg;
    return weft_join(outer_task, NULL);
}

static intptr_t await_several(void *arg)
{
    weft_task *tasks[] = {go(echo, NULL), go(never_end, arg), weft_task_ref(outer_task),
                          go(never_end, arg)};
    return weft_await_all(tasks, 4, NULL);
}

static intptr_t race_several(void *arg)
{
    weft_task *tasks[] = {go(never_end, arg), weft_task_ref(outer_task), go(never_end, arg)};
    return weft_await_first(tasks, 3, NULL);
}

/* More than the frame of a race has places for. */
static intptr_t race_many(void *arg)
{
    weft_task *tasks[12];
    for (size_t i = 0; i < 12; i++) {
        tasks[i] = i % 2 == 0 ? go(never_end, arg) : weft_task_ref(outer_task);
    }
    return weft_await_first(tasks, 12, NULL);
}

/* The race is over, and waits for a task that does not heed the cancel. */
static intptr_t race_won(void *arg)
{
    weft_task *tasks[] = {go(never_end, arg), go(echo, NULL), weft_task_ref(outer_task)};
    return weft_await_first(tasks, 3, NULL);
}

static intptr_t sleep_for_ever(void *arg)
{
    (void)arg;
    return weft_sleep(WEFT_NEVER);
}

static intptr_t stop_the_outer_world(void *arg)
{
    (void)arg;
    return weft_world_stop(outer_runtime);
}

static intptr_t stop_the_outer_trace(void *arg)
{
    (void)arg;
    return weft_runtime_trace_stop(outer_runtime, -1);
}

static intptr_t lock_mutex(void *arg)
{
    (void)arg;
    return weft_mutex_lock(&mutex);
}

static intptr_t wait_for_condition(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_mutex_lock(&cond_mutex), 0);
    return weft_cond_wait(&cond, &cond_mutex);
}

static intptr_t lock_to_read(void *arg)
{
    (void)arg;
    return weft_rwlock_rdlock(&rwlock);
}

static intptr_t lock_to_write(void *arg)
{
    (void)arg;
    return weft_rwlock_wrlock(&rwlock);
}

static intptr_t acquire_permit(void *arg)
{
    (void)arg;
    return weft_sem_acquire(&sem, 1);
}

static intptr_t send_item(void *arg)
{
    (void)arg;
    return weft_chan_send(full, &(int){7});
}

static intptr_t receive_item(void *arg)
{
    int item;
    (void)arg;
    return weft_chan_recv(empty, &item);
}

static intptr_t select_several(void *arg)
{
    int in;
    int out = 8;
    (void)arg;
    weft_case cases[] = {weft_case_recv(empty, &in), weft_case_send(full, &out)};
    return weft_select(cases, 2);
}

static intptr_t receive_oneshot(void *arg)
{
    void *value;
    (void)arg;
    return weft_oneshot_recv(&oneshot, &value);
}

static intptr_t receive_broadcast(void *arg)
{
    weft_subscription *subscription = arg;
    int item;
    return (intptr_t)weft_broadcast_recv(subscription, &item);
}

static intptr_t wait_for_watch(void *arg)
{
    (void)arg;
    uint64_t version = weft_watch_version(watch);
    return weft_watch_wait(watch, &version);
}

static intptr_t wait_for_notify(void *arg)
{
    (void)arg;
    return weft_notify_wait(&notify);
}

static intptr_t wait_for_group(void *arg)
{
    (void)arg;
    return weft_group_wait(&group);
}

static intptr_t wait_for_latch(void *arg)
{
    (void)arg;
    return weft_latch_wait(&latch);
}

/* ---- the test ------------------------------------------------------------------------------ */

struct call {
    const char *name;
    weft_fn fn;
};

static const struct call calls[] = {
    {"await", await_one},
    {"await of an outer task", await_outer},
    {"await of a task that had two handles", await_shared},
    {"join of an outer task", join_outer},
    {"await_all", await_several},
    {"race", race_several},
    {"race of many", race_many},
    {"race that is won", race_won},
    {"sleep", sleep_for_ever},
    {"stop_the_world", stop_the_outer_world},
    {"trace_stop", stop_the_outer_trace},
    {"mutex_lock", lock_mutex},
    {"cond_wait", wait_for_condition},
    {"rwlock_read", lock_to_read},
    {"rwlock_write", lock_to_write},
    {"sem_acquire", acquire_permit},
    {"send", send_item},
    {"recv", receive_item},
    {"select", select_several},
    {"oneshot_recv", receive_oneshot},
    {"broadcast_recv", receive_broadcast},
    {"watch_wait", wait_for_watch},
    {"notify_wait", wait_for_notify},
    {"group_wait", wait_for_group},
    {"latch_wait", wait_for_latch},
};

struct job {
    const struct call *call;
    void *arg;
};

static intptr_t call_shielded(void *arg)
{
    const struct job *job = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    return job->call->fn(job->arg);
}

static uint64_t blocks_in_use(void)
{
    struct wf_alloc_stats stats;
    wf_alloc_stats(&stats);
    return stats.allocated - stats.freed;
}

static void close_inside(const struct call *call, const weft_runtime_options *options)
{
    weft_subscription subscription;
    CHECK_EQ(weft_broadcast_subscribe(&subscription, broadcast), 0);
    struct job job = {call, &subscription};
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    weft_task *task = go_into(runtime, call_shielded, &job);
    while (info_of(task).wait == WEFT_WAIT_NOTHING) {
        (void)sched_yield();
    }
    CHECK_EQ(weft_runtime_close(runtime, 1000), -ETIMEDOUT);
    weft_task_unref(task);
    weft_broadcast_unsubscribe(&subscription);
}

static void set_up(void)
{
    const int item = 1;
    const weft_runtime_options options = {
        .size = sizeof(options), .workers = 1, .no_monitor = true};
    CHECK_EQ(weft_runtime_open(&outer_runtime, &options), 0);
    outer_task = go_into(outer_runtime, sleep_for_ever, NULL);
    wait_for_state(outer_task, WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    CHECK_EQ(weft_rwlock_wrlock(&rwlock), 0);
    CHECK_EQ(weft_chan_new(&full, sizeof(item), 1), 0);
    CHECK_EQ(weft_chan_new(&empty, sizeof(item), 1), 0);
    CHECK_EQ(weft_chan_send(full, &item), 0);
    CHECK_EQ(weft_broadcast_new(&broadcast, sizeof(item), 1), 0);
    CHECK_EQ(weft_watch_new(&watch, sizeof(item), &item), 0);
    CHECK_EQ(weft_group_add(&group, 1), 0);
    CHECK_EQ(weft_latch_init(&latch, 1), 0);
    CHECK_EQ(weft_sem_init(&sem, 0), 0);
}

/* Every object works, and no grant goes to a task that is gone. */
static void check_objects(void)
{
    int item = 0;
    void *value = NULL;
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    CHECK_EQ(weft_mutex_try_lock(&mutex), 0);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_try_wrlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_cond_signal(&cond), 0);
    CHECK_EQ(weft_mutex_try_lock(&cond_mutex), 0);
    CHECK_EQ(weft_mutex_unlock(&cond_mutex), 0);
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    CHECK_EQ(weft_sem_try_acquire(&sem, 1), 0);
    CHECK_EQ(weft_chan_try_recv(full, &item), 0);
    CHECK_EQ(item, 1);
    CHECK_EQ(weft_chan_try_recv(full, &item), -EAGAIN); /* no sender was waiting */
    CHECK_EQ(weft_chan_try_send(empty, &item), 0);
    CHECK_EQ(weft_chan_try_recv(empty, &item), 0); /* no receiver took it */
    CHECK_EQ(weft_oneshot_send(&oneshot, &item), 0);
    CHECK_EQ(weft_oneshot_try_recv(&oneshot, &value), 0);
    CHECK_EQ(weft_notify_one(&notify), 0);
    CHECK_EQ(weft_notify_try_wait(&notify), 0); /* the notification was kept */
    CHECK_EQ(weft_group_finish(&group), 0);
    CHECK_EQ(weft_latch_count_down(&latch, 1), 0);
    CHECK_EQ(weft_watch_set(watch, &item), 0);
    CHECK_EQ(weft_world_stop(outer_runtime), 0);
    CHECK_EQ(weft_world_start(outer_runtime), 0);
}

static void tear_down(void)
{
    CHECK_EQ(weft_cancel(outer_task), 0);
    CHECK_EQ(weft_await(outer_task), -ECANCELED);
    CHECK_EQ(weft_runtime_close(outer_runtime, -1), 0);
    weft_chan_unref(full);
    weft_chan_unref(empty);
    weft_broadcast_unref(broadcast);
    weft_watch_unref(watch);
}

static void forced_close_inside_a_wait_leaves_nothing(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        mutex = (weft_mutex){0};
        cond_mutex = (weft_mutex){0};
        cond = (weft_cond){0};
        rwlock = (weft_rwlock){0};
        oneshot = (weft_oneshot){0};
        notify = (weft_notify){0};
        group = (weft_group){0};
        const uint64_t at_first = blocks_in_use();
        set_up();
        CHECK_EQ(weft_world_stop(outer_runtime), 0); /* or a task would get its turn */
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
            tap_doing("%s", calls[i].name);
            close_inside(&calls[i], &tour.options); /* once before, for what is allocated once */
            const uint64_t before = blocks_in_use();
            close_inside(&calls[i], &tour.options);
            CHECK_EQ(blocks_in_use(), before);
        }
        CHECK_EQ(weft_world_start(outer_runtime), 0);
        check_objects();
        tear_down();
        CHECK_EQ(blocks_in_use(), at_first);
    }
}

/* ---- calls that yield ---------------------------------------------------------------------- */

enum { MANY_CASES = 20 }; /* more than the frame of a select has places for */

static intptr_t select_of_many(void *arg)
{
    weft_case cases[MANY_CASES] = {{0}};
    (void)arg;
    cases[0] = weft_case_time(0);
    return weft_select(cases, MANY_CASES);
}

static intptr_t try_select_of_many(void *arg)
{
    weft_case cases[MANY_CASES] = {{0}};
    (void)arg;
    cases[0] = weft_case_time(WEFT_NEVER);
    return weft_try_select(cases, MANY_CASES) == -EAGAIN ? 0 : -EIO;
}

/* Yields to the new task, with its handle taken. */
static intptr_t await_new(void *arg)
{
    return weft_await(go(echo, arg));
}

static intptr_t await_all_new(void *arg)
{
    weft_task *tasks[] = {go(echo, arg), go(echo, arg)};
    return weft_await_all(tasks, 2, NULL);
}

static intptr_t race_new(void *arg)
{
    weft_task *tasks[] = {go(echo, arg), go(echo, arg)};
    return weft_await_first(tasks, 2, NULL);
}

static const struct call yields[] = {
    {"await of a new task", await_new},
    {"await of several new tasks", await_all_new},
    {"race of new tasks", race_new},
    {"select of many", select_of_many},
    {"try of a select of many", try_select_of_many},
};

static void forced_close_inside_a_yield_leaves_nothing(void)
{
    for (size_t i = 0; i < sizeof(yields) / sizeof(yields[0]); i++) {
        tap_doing("%s", yields[i].name);
        abandon_in_yield(yields[i].fn, NULL); /* once before, for what is allocated once */
        const uint64_t before = blocks_in_use();
        abandon_in_yield(yields[i].fn, NULL);
        CHECK_EQ(blocks_in_use(), before);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(forced_close_inside_a_wait_leaves_nothing),
    TAP_TEST(forced_close_inside_a_yield_leaves_nothing),
};
TAP_MAIN(tests)
