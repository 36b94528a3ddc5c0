/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a poll task is polled after each wake, never loses a wake, and can wait for everything;
 *         its futures release everything, however the task ends.
 * Method: hand-written state machines and futures, woken by tasks, threads and timers, under every
 *         setting; the next poll reads plain memory that the waker wrote before the wake.
 */
#include <stdlib.h>
#include <string.h>

#include "sched_helpers.h"

#define HOUR (3600 * WEFT_SECOND)

static weft_task *poll_go(weft_poll_fn fn, const void *state, size_t size)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, fn, state, size, NULL), 0);
    CHECK(task != NULL);
    return task;
}

/* ---- hand-written poll functions ------------------------------------------------------------- */

struct small {
    uint64_t words[WEFT_POLL_STATE_INLINE / 8];
};

static weft_poll_result sum_small(weft_cx *cx, void *arg, intptr_t *result)
{
    const struct small *state = arg;
    CHECK(weft_cx_waker(cx) != NULL);
    CHECK(weft_self() != NULL);
    for (size_t i = 0; i < sizeof(state->words) / sizeof(state->words[0]); i++) {
        *result += (intptr_t)state->words[i];
    }
    return WEFT_POLL_READY;
}

struct large {
    unsigned char bytes[1000];
};

static weft_poll_result sum_large(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    const struct large *state = arg;
    CHECK_EQ((uintptr_t)state % 16, 0);
    for (size_t i = 0; i < sizeof(state->bytes); i++) {
        *result += state->bytes[i];
    }
    return WEFT_POLL_READY;
}

static weft_poll_result return_one(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    CHECK(arg != NULL);
    *result = 1;
    return WEFT_POLL_READY;
}

static intptr_t copy_states(void *arg)
{
    (void)arg;
    struct small small = {{1, 2, 3, 4, 5, 6, 7, 8}};
    struct large large;
    memset(&large, 3, sizeof(large));
    weft_task *tasks[4] = {
        poll_go(sum_small, &small, sizeof(small)),
        poll_go(sum_large, &large, sizeof(large)),
        poll_go(return_one, NULL, 0),
        poll_go(return_one, "x", 1),
    };
    memset(&small, 0, sizeof(small)); /* the spawn copied it */
    memset(&large, 0, sizeof(large));
    intptr_t results[4];
    CHECK_EQ(weft_await_all(tasks, 4, results), 0);
    CHECK_EQ(results[0], 36);
    CHECK_EQ(results[1], 3000);
    CHECK_EQ(results[2], 1);
    CHECK_EQ(results[3], 1);
    return 0;
}

/* part of S4.1, S4.25 */
static void poll_task_copies_its_state(void)
{
    run_under(EVERYWHERE, copy_states);
}

/* Shared by a waker and the poll task. */
struct mailbox {
    int item; /* plain: written before a wake, read in the poll after it */
    int seen;
    weft_waker *waker;
    wf_atomic_u32 is_waiting; /* `waker` is set, and `item` may be written */
    unsigned polls;
};

static weft_poll_result receive_items(weft_cx *cx, void *arg, intptr_t *result)
{
    struct mailbox *mailbox = *(struct mailbox **)arg;
    mailbox->polls++;
    if (mailbox->waker == NULL) {
        mailbox->waker = weft_waker_ref(weft_cx_waker(cx));
        raise_by_one(&mailbox->is_waiting);
        return WEFT_POLL_PENDING;
    }
    if (mailbox->item == mailbox->seen) {
        return WEFT_POLL_PENDING; /* a spurious wake */
    }
    CHECK_EQ(mailbox->item, mailbox->seen + 1);
    mailbox->seen = mailbox->item;
    if (mailbox->seen == 10) {
        *result = mailbox->seen;
        return WEFT_POLL_READY;
    }
    raise_by_one(&mailbox->is_waiting);
    return WEFT_POLL_PENDING;
}

static void *send_items(void *arg)
{
    struct mailbox *mailbox = arg;
    for (uint32_t i = 1; i <= 10; i++) {
        wait_for(&mailbox->is_waiting, i);
        mailbox->item++;
        weft_waker_wake(mailbox->waker);
    }
    weft_waker_wake(mailbox->waker); /* late or redundant */
    weft_waker_unref(mailbox->waker);
    return NULL;
}

static intptr_t send_items_in_task(void *arg)
{
    (void)send_items(arg);
    return 0;
}

static intptr_t exchange_items(void *arg)
{
    (void)arg;
    enum { PAIRS = 8 };
    struct mailbox mailboxes[PAIRS] = {0};
    weft_task *tasks[2 * PAIRS] = {0};
    pthread_t threads[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        struct mailbox *mailbox = &mailboxes[i];
        tasks[i] = poll_go(receive_items, &mailbox, sizeof(mailbox));
        if (i % 2 == 0) {
            CHECK_EQ(wf_thread_start(&threads[i], send_items, mailbox, NULL), 0);
        } else {
            tasks[PAIRS + i] = go(send_items_in_task, mailbox);
        }
    }
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(weft_await(tasks[i]), 10);
        if (i % 2 != 0) {
            CHECK_EQ(weft_await(tasks[PAIRS + i]), 0);
        } else {
            CHECK_EQ(wf_thread_join(threads[i]), 0);
        }
    }
    return 0;
}

/* S4.37: each wake is followed by a poll that sees what was written before it */
static void waker_wake_is_never_lost(void)
{
    run_under(EVERYWHERE, exchange_items);
}

static weft_poll_result return_waker(weft_cx *cx, void *arg, intptr_t *result)
{
    *result = 0;
    **(weft_waker ***)arg = weft_waker_ref(weft_cx_waker(cx));
    return WEFT_POLL_READY;
}

/* S4.38 */
static void waker_outlives_its_task_and_its_runtime(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_waker *waker = NULL;
        weft_waker **slot = &waker;
        weft_runtime *runtime = NULL;
        weft_task *task = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        CHECK_EQ(weft_runtime_spawn_poll(runtime, &task, return_waker, &slot, sizeof(slot), NULL),
                 0);
        CHECK_EQ(weft_await(task), 0);
        weft_waker_wake(waker);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        weft_waker_wake(waker);
        weft_waker *other = weft_waker_ref(waker);
        weft_waker_unref(waker);
        weft_waker_wake(other);
        weft_waker_unref(other);
        weft_waker_wake(NULL);
        weft_waker_unref(NULL);
    }
}

/* Wakes itself `*left` times, which yields each time. */
static weft_poll_result poll_again(weft_cx *cx, void *arg, intptr_t *result)
{
    unsigned *left = arg;
    *result = weft_check();
    if (*left == 0 || *result < 0) {
        return WEFT_POLL_READY;
    }
    (*left)--;
    weft_waker_wake(weft_cx_waker(cx));
    (void)weft_yield(); /* no effect in a poll task, and no error */
    return WEFT_POLL_PENDING;
}

static intptr_t wake_self(void *arg)
{
    (void)arg;
    const unsigned often = 1000;
    const unsigned forever = UINT32_MAX;
    weft_task *endless = poll_go(poll_again, &forever, sizeof(forever));
    weft_task *task = poll_go(poll_again, &often, sizeof(often));
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK(info_of(task).runs >= 1001);
    CHECK_EQ(info_of(task).stack_size, 0);
    weft_task_unref(task);
    CHECK_EQ(weft_cancel(endless), 0);
    CHECK_EQ(weft_await(endless), -ECANCELED);
    return 0;
}

/* part of S4.37: a wake during the poll causes another poll; other tasks run in between */
static void poll_task_may_wake_itself(void)
{
    run_under(EVERYWHERE, wake_self);
}

static weft_poll_result wait_for_cancel(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    (void)arg;
    *result = weft_check();
    return *result < 0 ? WEFT_POLL_READY : WEFT_POLL_PENDING;
}

static intptr_t cancel_pollers(void *arg)
{
    (void)arg;
    weft_task *task = poll_go(wait_for_cancel, NULL, 0);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    CHECK_EQ(info_of(task).wait, WEFT_WAIT_WAKER);
    CHECK_STR(weft_wait_name(WEFT_WAIT_WAKER), "waker");
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    return 0;
}

static void cancel_polls_a_poll_task(void)
{
    run_under(EVERYWHERE, cancel_pollers);
}

static weft_poll_result fail_with_eio(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    (void)arg;
    *result = -EIO;
    return WEFT_POLL_READY;
}

static intptr_t spawn_with_bad_arguments(void *arg)
{
    (void)arg;
    weft_task *task = NULL;
    const weft_task_options bad[] = {
        {.stack_size = 65536}, {.arg_copy = 8}, {.keeps_fp_control = true}, {.size = 1}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(weft_spawn_poll(&task, return_one, "x", 1, &bad[i]), -EINVAL);
    }
    CHECK_EQ(weft_spawn_poll(&task, return_one, "x", WEFT_POLL_STATE_MAX + 1, NULL), -EINVAL);
    CHECK(task == NULL);
    const weft_task_options good = {.name = "poller", .priority = WEFT_PRIORITY_HIGH};
    CHECK_EQ(weft_spawn_poll(&task, fail_with_eio, NULL, 0, &good), 0);
    CHECK_STR(info_of(task).name, "poller");
    CHECK_EQ(weft_await(task), -EIO);
    CHECK_EQ(weft_spawn_poll(NULL, return_one, NULL, 0, NULL), 0); /* detached */
    return 0;
}

static void spawn_poll_rejects_bad_arguments(void)
{
    run_under(ON_ONE_WORKER, spawn_with_bad_arguments);
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, return_one, NULL, 0, NULL), -EPERM);
}

/* ---- futures --------------------------------------------------------------------------------- */

struct sleeps {
    unsigned left;
    weft_time begin;
    weft_sleep_future sleep_future;
};

static weft_poll_result sleep_several_times(weft_cx *cx, void *arg, intptr_t *result)
{
    struct sleeps *state = arg;
    for (; state->left > 0; state->left--) {
        if (state->sleep_future.future.poll == NULL) {
            state->begin = weft_now();
            weft_sleep_future_init(&state->sleep_future, state->begin + WEFT_MILLISECOND);
        }
        if (weft_future_poll(&state->sleep_future.future, cx, result) == WEFT_POLL_PENDING) {
            return WEFT_POLL_PENDING;
        }
        if (*result < 0) {
            return WEFT_POLL_READY;
        }
        CHECK(weft_now() - state->begin >= WEFT_MILLISECOND);
        state->sleep_future.future.poll = NULL;
    }
    return WEFT_POLL_READY;
}

static intptr_t sleep_in_many_tasks(void *arg)
{
    (void)arg;
    enum { COUNT = 100 };
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const struct sleeps state = {.left = 3};
        tasks[i] = poll_go(sleep_several_times, &state, sizeof(state));
    }
    return weft_await_all(tasks, COUNT, NULL);
}

static void sleep_future_suspends_a_poll_task(void)
{
    run_under(EVERYWHERE, sleep_in_many_tasks);
}

struct follower {
    weft_task_future other;
    bool has_deadline;
};

static weft_poll_result follow(weft_cx *cx, void *arg, intptr_t *result)
{
    struct follower *state = arg;
    if (state->has_deadline) {
        state->has_deadline = false;
        (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    }
    return weft_future_poll(&state->other.future, cx, result);
}

static intptr_t sleep_and_return(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_MILLISECOND), 0);
    return (intptr_t)arg;
}

static weft_task *follow_go(weft_task *task, bool cancels, bool has_deadline)
{
    struct follower state = {.has_deadline = has_deadline};
    weft_task_future_init(&state.other, task, cancels);
    return poll_go(follow, &state, sizeof(state));
}

static intptr_t sleep_for_an_hour(void *arg)
{
    (void)arg;
    return weft_sleep(HOUR);
}

static intptr_t follow_tasks(void *arg)
{
    (void)arg;
    weft_task *green = go(sleep_and_return, (void *)42); /* NOLINT: a number */
    CHECK_EQ(weft_await(follow_go(green, false, false)), 42);
    weft_task *chain = go(sleep_and_return, (void *)43); /* NOLINT: a number */
    for (int i = 0; i < 5; i++) {
        chain = follow_go(chain, false, false);
    }
    CHECK_EQ(weft_await(chain), 43);
    CHECK_EQ(weft_await(follow_go(NULL, false, false)), -ENOMEM);

    /* The deadline ends the follower; the followed task continues. */
    weft_task *sleeper = go(sleep_for_an_hour, NULL);
    CHECK_EQ(weft_await(follow_go(weft_task_ref(sleeper), false, true)), -ETIMEDOUT);
    CHECK_EQ(weft_try_join(sleeper, NULL), -EAGAIN);

    /* A cancel ends the follower, too. */
    weft_task *task = follow_go(weft_task_ref(sleeper), false, false);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(weft_cancel(sleeper), 0);
    CHECK_EQ(weft_await(sleeper), -ECANCELED);
    return 0;
}

/* A poll task waits for green threads, green threads for it, and poll tasks for poll tasks. */
static void task_future_awaits_green_threads_and_poll_tasks(void)
{
    run_under(EVERYWHERE, follow_tasks);
}

static intptr_t await_futures(void *arg)
{
    (void)arg;
    weft_sleep_future sleep_future;
    weft_task_future other;
    const weft_time begin = weft_now();
    weft_sleep_future_init(&sleep_future, begin + WEFT_MILLISECOND);
    CHECK_EQ(weft_future_await(&sleep_future.future), 0);
    CHECK(weft_now() - begin >= WEFT_MILLISECOND);
    weft_future_drop(&sleep_future.future); /* after it was ready: no effect */
    weft_task_future_init(&other, go(sleep_and_return, (void *)7), false); /* NOLINT: a number */
    CHECK_EQ(weft_future_await(&other.future), 7);
    weft_task_future_init(&other, weft_task_ref(weft_self()), false);
    CHECK_EQ(weft_future_await(&other.future), -EDEADLK);

    (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    weft_sleep_future_init(&sleep_future, weft_time_after(HOUR));
    CHECK_EQ(weft_future_await(&sleep_future.future), -ETIMEDOUT);
    (void)weft_deadline_set(WEFT_NEVER);

    weft_future empty = {0};
    CHECK_EQ(weft_future_await(&empty), -EINVAL);
    weft_future_drop(NULL);
    weft_future_drop(&empty);

    /* A drop without a poll. */
    weft_task *sleeper = go(sleep_for_an_hour, NULL);
    weft_task_future_init(&other, weft_task_ref(sleeper), true);
    weft_future_drop(&other.future);
    weft_future_drop(&other.future);
    CHECK_EQ(weft_await(sleeper), -ECANCELED);
    return 0;
}

static void await_future_suspends_a_green_thread(void)
{
    run_under(EVERYWHERE, await_futures);
    weft_sleep_future sleep_future;
    weft_sleep_future_init(&sleep_future, 0);
    CHECK_EQ(weft_future_await(&sleep_future.future), -EPERM);
}

/* ---- combined futures ------------------------------------------------------------------------ */

struct bundle {
    weft_sleep_future sleeps[4];
    weft_branch branches[4];
    weft_join_future join;
};

/* Sleeps of 1, 2, 3 and 4 steps. */
static void bundle_init(struct bundle *bundle, enum weft_join_kind kind, int64_t step)
{
    for (int i = 0; i < 4; i++) {
        weft_sleep_future_init(&bundle->sleeps[i], weft_time_after((i + 1) * step));
        bundle->branches[i] = (weft_branch){.future = &bundle->sleeps[i].future};
    }
    weft_join_future_init(&bundle->join, kind, bundle->branches, 4);
}

static intptr_t combine(void *arg)
{
    (void)arg;
    struct bundle bundle;
    bundle_init(&bundle, WEFT_JOIN_ALL, WEFT_MILLISECOND);
    CHECK_EQ(weft_future_await(&bundle.join.future), 0);
    for (int i = 0; i < 4; i++) {
        CHECK(bundle.branches[i].is_done);
    }
    bundle_init(&bundle, WEFT_JOIN_RACE, HOUR);
    weft_sleep_future_init(&bundle.sleeps[2], weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(weft_future_await(&bundle.join.future), 2);
    CHECK(bundle.branches[2].is_done && !bundle.branches[0].is_done);

    /* The losers of a select stay pending, and win the next selects. */
    bundle_init(&bundle, WEFT_JOIN_SELECT, 2 * WEFT_MILLISECOND);
    unsigned seen = 0;
    for (int i = 0; i < 4; i++) {
        intptr_t winner = weft_future_await(&bundle.join.future);
        CHECK(winner >= 0 && winner < 4 && (seen >> winner & 1) == 0);
        seen |= 1u << winner;
        weft_join_future_init(&bundle.join, WEFT_JOIN_SELECT, bundle.branches, 4);
    }
    CHECK_EQ(seen, 15);
    CHECK_EQ(weft_future_await(&bundle.join.future), -ENOENT);

    weft_join_future_init(&bundle.join, WEFT_JOIN_ALL, NULL, 0);
    CHECK_EQ(weft_future_await(&bundle.join.future), 0);
    weft_join_future_init(&bundle.join, WEFT_JOIN_TRY_ALL, NULL, 0);
    CHECK_EQ(weft_future_await(&bundle.join.future), 0);
    weft_join_future_init(&bundle.join, WEFT_JOIN_RACE, NULL, 0);
    CHECK_EQ(weft_future_await(&bundle.join.future), -EINVAL);
    return 0;
}

/* behaviour 36: all, race, select */
static void join_future_combines_all_race_and_select(void)
{
    run_under(EVERYWHERE, combine);
}

static intptr_t sleep_and_fail(void *arg)
{
    int rc = weft_sleep(WEFT_MILLISECOND);
    return rc != 0 ? rc : (intptr_t)arg;
}

static intptr_t combine_tasks(void *arg)
{
    (void)arg;
    weft_task *sleeper = go(sleep_for_an_hour, NULL);
    weft_task_future others[2];
    weft_branch branches[2] = {{.future = &others[0].future}, {.future = &others[1].future}};
    weft_join_future join;

    /* An error ends it: the dropped future cancels its task. */
    weft_task_future_init(&others[0], weft_task_ref(sleeper), true);
    weft_task_future_init(&others[1], go(sleep_and_fail, (void *)-EIO), false); /* NOLINT */
    weft_join_future_init(&join, WEFT_JOIN_TRY_ALL, branches, 2);
    CHECK_EQ(weft_future_await(&join.future), -EIO);
    CHECK_EQ(weft_await(sleeper), -ECANCELED);

    /* Without try the join waits for all branches, and returns the first error. */
    weft_task_future_init(&others[0], go(sleep_and_return, NULL), false);
    weft_task_future_init(&others[1], go(sleep_and_fail, (void *)-EIO), false); /* NOLINT */
    branches[0].is_done = false;
    branches[1].is_done = false;
    weft_join_future_init(&join, WEFT_JOIN_ALL, branches, 2);
    CHECK_EQ(weft_future_await(&join.future), -EIO);
    CHECK(branches[0].is_done && branches[0].result == 0);
    return 0;
}

/* behaviour 36: each branch has its own error, and try_all returns the first one */
static void join_future_try_all_ends_at_the_first_error(void)
{
    run_under(EVERYWHERE, combine_tasks);
}

static intptr_t wait_with_timeouts(void *arg)
{
    (void)arg;
    weft_sleep_future sleep_future;
    weft_timeout_future timeout;
    weft_sleep_future_init(&sleep_future, weft_time_after(HOUR));
    weft_timeout_future_init(&timeout, &sleep_future.future, weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(weft_future_await(&timeout.future), -ETIMEDOUT);
    weft_sleep_future_init(&sleep_future, weft_time_after(WEFT_MILLISECOND));
    weft_timeout_future_init(&timeout, &sleep_future.future, weft_time_after(HOUR));
    CHECK_EQ(weft_future_await(&timeout.future), 0);
    weft_sleep_future_init(&sleep_future, weft_time_after(HOUR));
    weft_timeout_future_init(&timeout, &sleep_future.future, weft_time_after(HOUR));
    weft_future_drop(&timeout.future);
    weft_future_drop(&timeout.future);
    return 0;
}

/* behaviour 36: a timeout */
static void timeout_future_limits_a_future(void)
{
    run_under(EVERYWHERE, wait_with_timeouts);
}

/* ---- end of a task --------------------------------------------------------------------------- */

/* Ends while its futures wait; or never ends and is shielded from cancels. */
struct dropper {
    weft_sleep_future sleep_future;
    weft_task_future other;
    bool is_shielded;
};

static weft_poll_result poll_and_end(weft_cx *cx, void *arg, intptr_t *result)
{
    struct dropper *state = arg;
    if (state->is_shielded) {
        CHECK_EQ(weft_shield_begin(), 0);
    }
    CHECK_EQ(weft_future_poll(&state->sleep_future.future, cx, result), WEFT_POLL_PENDING);
    CHECK_EQ(weft_future_poll(&state->other.future, cx, result), WEFT_POLL_PENDING);
    return state->is_shielded ? WEFT_POLL_PENDING : WEFT_POLL_READY;
}

static intptr_t end_with_pending_futures(void *arg)
{
    (void)arg;
    weft_task *sleeper = go(sleep_for_an_hour, NULL);
    struct dropper state = {0};
    weft_sleep_future_init(&state.sleep_future, weft_time_after(HOUR));
    weft_task_future_init(&state.other, weft_task_ref(sleeper), true);
    CHECK_EQ(weft_await(poll_go(poll_and_end, &state, sizeof(state))), 0);
    CHECK_EQ(weft_await(sleeper), -ECANCELED); /* the drop of its future cancelled it */
    return 0;
}

static void task_end_drops_futures(void)
{
    run_under(EVERYWHERE, end_with_pending_futures);
}

static void forced_close_drops_futures(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_runtime *outer = NULL;
        CHECK_EQ(weft_runtime_open(&outer, &tour.options), 0);
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *sleeper = go_into(outer, sleep_for_an_hour, NULL);
        struct dropper state = {.is_shielded = true};
        weft_sleep_future_init(&state.sleep_future, weft_time_after(HOUR));
        weft_task_future_init(&state.other, weft_task_ref(sleeper), true);
        weft_task *task = NULL;
        CHECK_EQ(weft_runtime_spawn_poll(runtime, &task, poll_and_end, &state, sizeof(state), NULL),
                 0);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(weft_await(sleeper), -ECANCELED);
        CHECK_EQ(weft_runtime_close(outer, -1), 0);
    }
}

static intptr_t occupy_worker(void *is_over)
{
    hold_for(is_over, 1);
    return 0;
}

static intptr_t clear_deadline_and_sleep(void *arg)
{
    (void)weft_deadline_set(WEFT_NEVER); /* so that the end of the task checks for leftovers */
    CHECK_EQ(weft_sleep(1), 0);
    return echo(arg);
}

/* The state uses the memory in which green threads have their timers and cleanups. */
static void spawn_poll_that_fails_leaves_no_state_behind(void)
{
    enum { REFUSALS = 100 };
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        weft_runtime *runtime;
        wf_atomic_u32 is_over = {0};
        struct small small;
        struct large large;
        memset(&small, 0x5a, sizeof(small));
        memset(&large, 3, sizeof(large));
        tour.options.global_capacity = 1;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *hog = go_into(runtime, occupy_worker, &is_over);
        wait_for_state(hog, WEFT_TASK_RUNNING);
        weft_task *queued = go_into(runtime, echo, NULL);
        for (int i = 0; i < REFUSALS; i++) {
            CHECK_EQ(weft_runtime_spawn_poll(runtime, NULL, sum_small, &small, sizeof(small), NULL),
                     -EAGAIN);
            CHECK_EQ(weft_runtime_spawn_poll(runtime, NULL, sum_large, &large, sizeof(large), NULL),
                     -EAGAIN);
        }
        raise_by_one(&is_over);
        CHECK_EQ(weft_await(hog), 0);
        CHECK_EQ(weft_await(queued), 0);
        for (intptr_t i = 0; i < REFUSALS; i++) {
            weft_task *task = go_into(runtime, clear_deadline_and_sleep, (void *)i);
            CHECK_EQ(weft_await(task), i);
        }
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

static weft_poll_result poll_ready_futures(weft_cx *cx, void *arg, intptr_t *result)
{
    unsigned *left = arg;
    for (; *left > 0; (*left)--) {
        weft_sleep_future sleep_future;
        weft_sleep_future_init(&sleep_future, 0);
        if (weft_future_poll(&sleep_future.future, cx, result) == WEFT_POLL_PENDING) {
            return WEFT_POLL_PENDING;
        }
    }
    return WEFT_POLL_READY;
}

static intptr_t exceed_budget(void *arg)
{
    (void)arg;
    const unsigned often = 10000;
    weft_task *task = poll_go(poll_ready_futures, &often, sizeof(often));
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK(info_of(task).runs > 10); /* the budget interrupted it */
    weft_task_unref(task);
    return 0;
}

/* S4.34 for poll tasks; for green threads see tests/unit/sync/test_chan.c */
static void budget_stops_a_loop_of_ready_futures(void)
{
    run_under(EVERYWHERE, exceed_budget);
}

/* More polls than the budget of one slice. */
enum { BRANCHES = 1000 };

struct big_race {
    weft_join_future join;
    weft_branch branches[BRANCHES];
    weft_sleep_future sleeps[BRANCHES];
};

static intptr_t race_many_branches(void *arg)
{
    (void)arg;
    struct big_race *big_race = malloc(sizeof(*big_race));
    CHECK(big_race != NULL);
    for (int i = 0; i < BRANCHES; i++) {
        weft_time at = i < BRANCHES - 1 ? WEFT_NEVER : weft_time_after(WEFT_MILLISECOND);
        weft_sleep_future_init(&big_race->sleeps[i], at);
        big_race->branches[i] = (weft_branch){.future = &big_race->sleeps[i].future};
    }
    weft_join_future_init(&big_race->join, WEFT_JOIN_RACE, big_race->branches, BRANCHES);
    CHECK_EQ(weft_future_await(&big_race->join.future), BRANCHES - 1);
    free(big_race);
    return 0;
}

static void race_future_polls_more_branches_than_the_budget(void)
{
    run_under(EVERYWHERE, race_many_branches);
}

static const struct tap_test tests[] = {
    TAP_TEST(poll_task_copies_its_state),
    TAP_TEST(waker_wake_is_never_lost),
    TAP_TEST(waker_outlives_its_task_and_its_runtime),
    TAP_TEST(poll_task_may_wake_itself),
    TAP_TEST(cancel_polls_a_poll_task),
    TAP_TEST(spawn_poll_rejects_bad_arguments),
    TAP_TEST(sleep_future_suspends_a_poll_task),
    TAP_TEST(task_future_awaits_green_threads_and_poll_tasks),
    TAP_TEST(await_future_suspends_a_green_thread),
    TAP_TEST(join_future_combines_all_race_and_select),
    TAP_TEST(join_future_try_all_ends_at_the_first_error),
    TAP_TEST(timeout_future_limits_a_future),
    TAP_TEST(task_end_drops_futures),
    TAP_TEST(forced_close_drops_futures),
    TAP_TEST(spawn_poll_that_fails_leaves_no_state_behind),
    TAP_TEST(budget_stops_a_loop_of_ready_futures),
    TAP_TEST(race_future_polls_more_branches_than_the_budget),
};
TAP_MAIN(tests)
