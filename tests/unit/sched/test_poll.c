/* SPDX-License-Identifier: MIT */
/*
 * Goal:   stackless tasks are polled when they were woken, never lose a wake, and can wait for
 *         everything; their futures let go of everything, however they end.
 * Method: state machines by hand and by futures, woken by tasks, threads and the time, under every
 *         setting; what a waker wrote before it woke is read, plain, by the next poll.
 */
#include <stdlib.h>
#include <string.h>

#include "sched_aids.h"

#define HOUR (3600 * WEFT_SECOND)

static weft_task *poll_go(weft_poll_fn fn, const void *state, size_t size)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, fn, state, size, NULL), 0);
    CHECK(task != NULL);
    return task;
}

/* ---- by hand --------------------------------------------------------------------------------- */

struct small {
    uint64_t words[WEFT_POLL_STATE_INLINE / 8];
};

static weft_poll sum_small(weft_cx *cx, void *arg, intptr_t *result)
{
    const struct small *state = arg;
    CHECK(weft_cx_waker(cx) != NULL);
    CHECK(weft_self() != NULL);
    for (size_t i = 0; i < sizeof(state->words) / sizeof(state->words[0]); i++) {
        *result += (intptr_t)state->words[i];
    }
    return WEFT_READY;
}

struct large {
    unsigned char bytes[1000];
};

static weft_poll sum_large(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    const struct large *state = arg;
    CHECK_EQ((uintptr_t)state % 16, 0);
    for (size_t i = 0; i < sizeof(state->bytes); i++) {
        *result += state->bytes[i];
    }
    return WEFT_READY;
}

static weft_poll give_one(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    CHECK(arg != NULL);
    *result = 1;
    return WEFT_READY;
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
        poll_go(give_one, NULL, 0),
        poll_go(give_one, "x", 1),
    };
    memset(&small, 0, sizeof(small)); /* it was copied */
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
static void a_poll_task_has_a_copy_of_its_state(void)
{
    run_under(EVERYWHERE, copy_states);
}

/* What passes between a waker and the polled. */
struct meeting {
    int letter; /* plain: written before a wake, read in the poll after it */
    int seen;
    weft_waker *waker;
    wf_atomic_u32 is_waiting; /* the waker is there, and the letter may be written */
    unsigned polls;
};

static weft_poll receive_letters(weft_cx *cx, void *arg, intptr_t *result)
{
    struct meeting *meeting = *(struct meeting **)arg;
    meeting->polls++;
    if (meeting->waker == NULL) {
        meeting->waker = weft_waker_ref(weft_cx_waker(cx));
        raise_by_one(&meeting->is_waiting);
        return WEFT_PENDING;
    }
    if (meeting->letter == meeting->seen) {
        return WEFT_PENDING; /* a wake without a reason */
    }
    CHECK_EQ(meeting->letter, meeting->seen + 1);
    meeting->seen = meeting->letter;
    if (meeting->seen == 10) {
        *result = meeting->seen;
        return WEFT_READY;
    }
    raise_by_one(&meeting->is_waiting);
    return WEFT_PENDING;
}

static void *write_letters(void *arg)
{
    struct meeting *meeting = arg;
    for (uint32_t i = 1; i <= 10; i++) {
        wait_for(&meeting->is_waiting, i);
        meeting->letter++;
        weft_wake(meeting->waker);
    }
    weft_wake(meeting->waker); /* too late, or once too often */
    weft_waker_drop(meeting->waker);
    return NULL;
}

static intptr_t write_letters_in_a_task(void *arg)
{
    (void)write_letters(arg);
    return 0;
}

static intptr_t exchange_letters(void *arg)
{
    (void)arg;
    enum { PAIRS = 8 };
    struct meeting meetings[PAIRS] = {0};
    weft_task *tasks[2 * PAIRS] = {0};
    pthread_t threads[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        struct meeting *meeting = &meetings[i];
        tasks[i] = poll_go(receive_letters, &meeting, sizeof(meeting));
        if (i % 2 == 0) {
            CHECK_EQ(wf_thread_start(&threads[i], write_letters, meeting, NULL), 0);
        } else {
            tasks[PAIRS + i] = go(write_letters_in_a_task, meeting);
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
static void a_wake_is_never_lost(void)
{
    run_under(EVERYWHERE, exchange_letters);
}

static weft_poll give_the_waker(weft_cx *cx, void *arg, intptr_t *result)
{
    *result = 0;
    **(weft_waker ***)arg = weft_waker_ref(weft_cx_waker(cx));
    return WEFT_READY;
}

/* S4.38 */
static void a_waker_outlives_its_task_and_its_runtime(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_waker *waker = NULL;
        weft_waker **place = &waker;
        weft_runtime *runtime = NULL;
        weft_task *task = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        CHECK_EQ(
            weft_runtime_spawn_poll(runtime, &task, give_the_waker, &place, sizeof(place), NULL),
            0);
        CHECK_EQ(weft_await(task), 0);
        weft_wake(waker);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        weft_wake(waker);
        weft_waker *other = weft_waker_ref(waker);
        weft_waker_drop(waker);
        weft_wake(other);
        weft_waker_drop(other);
        weft_wake(NULL);
        weft_waker_drop(NULL);
    }
}

/* Wakes itself so often, and yields that way. */
static weft_poll poll_again(weft_cx *cx, void *arg, intptr_t *result)
{
    unsigned *left = arg;
    *result = weft_check();
    if (*left == 0 || *result < 0) {
        return WEFT_READY;
    }
    (*left)--;
    weft_wake(weft_cx_waker(cx));
    (void)weft_yield(); /* does nothing here, and is no error */
    return WEFT_PENDING;
}

static intptr_t wake_oneself(void *arg)
{
    (void)arg;
    const unsigned often = 1000;
    const unsigned for_ever = UINT32_MAX;
    weft_task *endless = poll_go(poll_again, &for_ever, sizeof(for_ever));
    weft_task *task = poll_go(poll_again, &often, sizeof(often));
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK(info_of(task).runs >= 1001);
    CHECK_EQ(info_of(task).stack_size, 0);
    weft_drop(task);
    CHECK_EQ(weft_cancel(endless), 0);
    CHECK_EQ(weft_await(endless), -ECANCELED);
    return 0;
}

/* part of S4.37: a wake while it runs is a poll more; others have their turns meanwhile */
static void a_poll_task_may_wake_itself(void)
{
    run_under(EVERYWHERE, wake_oneself);
}

static weft_poll wait_for_the_end(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    (void)arg;
    *result = weft_check();
    return *result < 0 ? WEFT_READY : WEFT_PENDING;
}

static intptr_t cancel_pollers(void *arg)
{
    (void)arg;
    weft_task *task = poll_go(wait_for_the_end, NULL, 0);
    wait_for_state(task, WEFT_BLOCKED);
    CHECK_EQ(info_of(task).wait, WEFT_WAIT_WAKER);
    CHECK_STR(weft_wait_name(WEFT_WAIT_WAKER), "waker");
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    return 0;
}

static void a_cancel_has_it_polled(void)
{
    run_under(EVERYWHERE, cancel_pollers);
}

static weft_poll refuse(weft_cx *cx, void *arg, intptr_t *result)
{
    (void)cx;
    (void)arg;
    *result = -EIO;
    return WEFT_READY;
}

static intptr_t spawn_badly(void *arg)
{
    (void)arg;
    weft_task *task = NULL;
    const weft_task_options bad[] = {
        {.stack_size = 65536}, {.arg_copy = 8}, {.keeps_fp_control = true}, {.size = 1}};
    CHECK_EQ(weft_spawn_poll(&task, NULL, NULL, 0, NULL), -EINVAL);
    CHECK_EQ(weft_spawn_poll(&task, give_one, NULL, 1, NULL), -EINVAL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(weft_spawn_poll(&task, give_one, "x", 1, &bad[i]), -EINVAL);
    }
    CHECK_EQ(weft_spawn_poll(&task, give_one, "x", WEFT_POLL_STATE_MAX + 1, NULL), -EINVAL);
    CHECK(task == NULL);
    const weft_task_options good = {.name = "poller", .priority = WEFT_PRIORITY_HIGH};
    CHECK_EQ(weft_spawn_poll(&task, refuse, NULL, 0, &good), 0);
    CHECK_STR(info_of(task).name, "poller");
    CHECK_EQ(weft_await(task), -EIO);
    CHECK_EQ(weft_spawn_poll(NULL, give_one, NULL, 0, NULL), 0); /* detached */
    return 0;
}

static void bad_spawns_are_refused(void)
{
    run_under(ON_ONE_WORKER, spawn_badly);
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, give_one, NULL, 0, NULL), -EPERM);
    CHECK_EQ(weft_runtime_spawn_poll(NULL, &task, give_one, NULL, 0, NULL), -EINVAL);
}

/* ---- futures --------------------------------------------------------------------------------- */

struct naps {
    unsigned left;
    weft_time begin;
    weft_sleep_future nap;
};

static weft_poll take_naps(weft_cx *cx, void *arg, intptr_t *result)
{
    struct naps *state = arg;
    for (; state->left > 0; state->left--) {
        if (state->nap.future.poll == NULL) {
            state->begin = weft_now();
            weft_sleep_future_init(&state->nap, state->begin + WEFT_MILLISECOND);
        }
        if (weft_poll_future(cx, &state->nap.future, result) == WEFT_PENDING) {
            return WEFT_PENDING;
        }
        if (*result < 0) {
            return WEFT_READY;
        }
        CHECK(weft_now() - state->begin >= WEFT_MILLISECOND);
        state->nap.future.poll = NULL;
    }
    return WEFT_READY;
}

static intptr_t nap_in_crowds(void *arg)
{
    (void)arg;
    enum { COUNT = 100 };
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const struct naps state = {.left = 3};
        tasks[i] = poll_go(take_naps, &state, sizeof(state));
    }
    return weft_await_all(tasks, COUNT, NULL);
}

static void poll_tasks_sleep(void)
{
    run_under(EVERYWHERE, nap_in_crowds);
}

struct follower {
    weft_task_future other;
    bool has_deadline;
};

static weft_poll follow(weft_cx *cx, void *arg, intptr_t *result)
{
    struct follower *state = arg;
    if (state->has_deadline) {
        state->has_deadline = false;
        (void)weft_deadline(weft_in(WEFT_MILLISECOND));
    }
    return weft_poll_future(cx, &state->other.future, result);
}

static intptr_t nap_and_give(void *arg)
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

static intptr_t follow_each_other(void *arg)
{
    (void)arg;
    weft_task *green = go(nap_and_give, (void *)42); /* NOLINT: a number */
    CHECK_EQ(weft_await(follow_go(green, false, false)), 42);
    weft_task *chain = go(nap_and_give, (void *)43); /* NOLINT: a number */
    for (int i = 0; i < 5; i++) {
        chain = follow_go(chain, false, false);
    }
    CHECK_EQ(weft_await(chain), 43);
    CHECK_EQ(weft_await(follow_go(NULL, false, false)), -ENOMEM);

    /* Its deadline ends it, and what it follows goes on. */
    weft_task *sleeper = go(sleep_for_an_hour, NULL);
    CHECK_EQ(weft_await(follow_go(weft_task_ref(sleeper), false, true)), -ETIMEDOUT);
    CHECK_EQ(weft_try_join(sleeper, NULL), -EAGAIN);

    /* A cancel ends it too. */
    weft_task *task = follow_go(weft_task_ref(sleeper), false, false);
    wait_for_state(task, WEFT_BLOCKED);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(weft_cancel(sleeper), 0);
    CHECK_EQ(weft_await(sleeper), -ECANCELED);
    return 0;
}

/* A poll task waits for green threads, they for it, and poll tasks for poll tasks. */
static void the_end_of_any_task_can_be_awaited(void)
{
    run_under(EVERYWHERE, follow_each_other);
}

static intptr_t await_futures(void *arg)
{
    (void)arg;
    weft_sleep_future nap;
    weft_task_future other;
    const weft_time begin = weft_now();
    weft_sleep_future_init(&nap, begin + WEFT_MILLISECOND);
    CHECK_EQ(weft_await_future(&nap.future), 0);
    CHECK(weft_now() - begin >= WEFT_MILLISECOND);
    weft_drop_future(&nap.future); /* after it was ready: nothing */
    weft_task_future_init(&other, go(nap_and_give, (void *)7), false); /* NOLINT: a number */
    CHECK_EQ(weft_await_future(&other.future), 7);
    weft_task_future_init(&other, weft_task_ref(weft_self()), false);
    CHECK_EQ(weft_await_future(&other.future), -EDEADLK);

    (void)weft_deadline(weft_in(WEFT_MILLISECOND));
    weft_sleep_future_init(&nap, weft_in(HOUR));
    CHECK_EQ(weft_await_future(&nap.future), -ETIMEDOUT);
    (void)weft_deadline(WEFT_NEVER);

    weft_future nothing = {0};
    CHECK_EQ(weft_await_future(NULL), -EINVAL);
    CHECK_EQ(weft_await_future(&nothing), -EINVAL);
    weft_drop_future(NULL);
    weft_drop_future(&nothing);

    /* Dropped without ever having been polled. */
    weft_task *sleeper = go(sleep_for_an_hour, NULL);
    weft_task_future_init(&other, weft_task_ref(sleeper), true);
    weft_drop_future(&other.future);
    weft_drop_future(&other.future);
    CHECK_EQ(weft_await(sleeper), -ECANCELED);
    return 0;
}

static void a_green_thread_waits_for_futures(void)
{
    run_under(EVERYWHERE, await_futures);
    weft_sleep_future nap;
    weft_sleep_future_init(&nap, 0);
    CHECK_EQ(weft_await_future(&nap.future), -EPERM);
}

/* ---- several of them ------------------------------------------------------------------------- */

struct bundle {
    weft_sleep_future naps[4];
    weft_branch branches[4];
    weft_join_future join;
};

/* Naps of 1, 2, 3 and 4 steps. */
static void bundle_init(struct bundle *bundle, enum weft_join_kind kind, int64_t step)
{
    for (int i = 0; i < 4; i++) {
        weft_sleep_future_init(&bundle->naps[i], weft_in((i + 1) * step));
        bundle->branches[i] = (weft_branch){.future = &bundle->naps[i].future};
    }
    weft_join_future_init(&bundle->join, kind, bundle->branches, 4);
}

static intptr_t combine(void *arg)
{
    (void)arg;
    struct bundle bundle;
    bundle_init(&bundle, WEFT_JOIN_ALL, WEFT_MILLISECOND);
    CHECK_EQ(weft_await_future(&bundle.join.future), 0);
    for (int i = 0; i < 4; i++) {
        CHECK(bundle.branches[i].is_done);
    }
    bundle_init(&bundle, WEFT_JOIN_RACE, HOUR);
    weft_sleep_future_init(&bundle.naps[2], weft_in(WEFT_MILLISECOND));
    CHECK_EQ(weft_await_future(&bundle.join.future), 2);
    CHECK(bundle.branches[2].is_done && !bundle.branches[0].is_done);

    /* Those that lose a select stay, and win the next ones. */
    bundle_init(&bundle, WEFT_JOIN_SELECT, 2 * WEFT_MILLISECOND);
    unsigned seen = 0;
    for (int i = 0; i < 4; i++) {
        intptr_t winner = weft_await_future(&bundle.join.future);
        CHECK(winner >= 0 && winner < 4 && (seen >> winner & 1) == 0);
        seen |= 1u << winner;
        weft_join_future_init(&bundle.join, WEFT_JOIN_SELECT, bundle.branches, 4);
    }
    CHECK_EQ(seen, 15);
    CHECK_EQ(weft_await_future(&bundle.join.future), -ENOENT);

    weft_join_future_init(&bundle.join, WEFT_JOIN_ALL, NULL, 0);
    CHECK_EQ(weft_await_future(&bundle.join.future), 0);
    weft_join_future_init(&bundle.join, WEFT_JOIN_TRY_ALL, NULL, 4);
    CHECK_EQ(weft_await_future(&bundle.join.future), 0);
    weft_join_future_init(&bundle.join, WEFT_JOIN_RACE, NULL, 0);
    CHECK_EQ(weft_await_future(&bundle.join.future), -EINVAL);
    return 0;
}

/* behaviour 36: all, race, select */
static void several_futures_are_one(void)
{
    run_under(EVERYWHERE, combine);
}

static intptr_t fail_after_a_nap(void *arg)
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

    /* An error ends it: what is dropped is cancelled. */
    weft_task_future_init(&others[0], weft_task_ref(sleeper), true);
    weft_task_future_init(&others[1], go(fail_after_a_nap, (void *)-EIO), false); /* NOLINT */
    weft_join_future_init(&join, WEFT_JOIN_TRY_ALL, branches, 2);
    CHECK_EQ(weft_await_future(&join.future), -EIO);
    CHECK_EQ(weft_await(sleeper), -ECANCELED);

    /* Without try it waits for the other one, and says the first error. */
    weft_task_future_init(&others[0], go(nap_and_give, NULL), false);
    weft_task_future_init(&others[1], go(fail_after_a_nap, (void *)-EIO), false); /* NOLINT */
    branches[0].is_done = false;
    branches[1].is_done = false;
    weft_join_future_init(&join, WEFT_JOIN_ALL, branches, 2);
    CHECK_EQ(weft_await_future(&join.future), -EIO);
    CHECK(branches[0].is_done && branches[0].result == 0);
    return 0;
}

/* behaviour 36: each branch has its own error, and who tries has the first */
static void an_error_ends_a_try(void)
{
    run_under(EVERYWHERE, combine_tasks);
}

static intptr_t wait_with_timeouts(void *arg)
{
    (void)arg;
    weft_sleep_future nap;
    weft_timeout_future timeout;
    weft_sleep_future_init(&nap, weft_in(HOUR));
    weft_timeout_future_init(&timeout, &nap.future, weft_in(WEFT_MILLISECOND));
    CHECK_EQ(weft_await_future(&timeout.future), -ETIMEDOUT);
    weft_sleep_future_init(&nap, weft_in(WEFT_MILLISECOND));
    weft_timeout_future_init(&timeout, &nap.future, weft_in(HOUR));
    CHECK_EQ(weft_await_future(&timeout.future), 0);
    weft_timeout_future_init(&timeout, NULL, weft_in(HOUR));
    CHECK_EQ(weft_await_future(&timeout.future), -EINVAL);
    weft_sleep_future_init(&nap, weft_in(HOUR));
    weft_timeout_future_init(&timeout, &nap.future, weft_in(HOUR));
    weft_drop_future(&timeout.future);
    weft_drop_future(&timeout.future);
    return 0;
}

/* behaviour 36: a time-out */
static void a_future_may_have_an_end_in_time(void)
{
    run_under(EVERYWHERE, wait_with_timeouts);
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Gives up while its futures wait; or never, and does not hear of a cancel. */
struct quitter {
    weft_sleep_future nap;
    weft_task_future other;
    bool is_deaf;
};

static weft_poll wait_and_quit(weft_cx *cx, void *arg, intptr_t *result)
{
    struct quitter *state = arg;
    if (state->is_deaf) {
        CHECK_EQ(weft_shield(1), 0);
    }
    CHECK_EQ(weft_poll_future(cx, &state->nap.future, result), WEFT_PENDING);
    CHECK_EQ(weft_poll_future(cx, &state->other.future, result), WEFT_PENDING);
    return state->is_deaf ? WEFT_PENDING : WEFT_READY;
}

static intptr_t quit_in_the_middle(void *arg)
{
    (void)arg;
    weft_task *sleeper = go(sleep_for_an_hour, NULL);
    struct quitter state = {0};
    weft_sleep_future_init(&state.nap, weft_in(HOUR));
    weft_task_future_init(&state.other, weft_task_ref(sleeper), true);
    CHECK_EQ(weft_await(poll_go(wait_and_quit, &state, sizeof(state))), 0);
    CHECK_EQ(weft_await(sleeper), -ECANCELED); /* its future was dropped */
    return 0;
}

static void a_task_that_ends_drops_its_futures(void)
{
    run_under(EVERYWHERE, quit_in_the_middle);
}

static void a_forced_close_drops_futures(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_runtime *outer = NULL;
        CHECK_EQ(weft_runtime_open(&outer, &tour.options), 0);
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *sleeper = go_into(outer, sleep_for_an_hour, NULL);
        struct quitter state = {.is_deaf = true};
        weft_sleep_future_init(&state.nap, weft_in(HOUR));
        weft_task_future_init(&state.other, weft_task_ref(sleeper), true);
        weft_task *task = NULL;
        CHECK_EQ(
            weft_runtime_spawn_poll(runtime, &task, wait_and_quit, &state, sizeof(state), NULL), 0);
        wait_for_state(task, WEFT_BLOCKED);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(weft_await(sleeper), -ECANCELED);
        CHECK_EQ(weft_runtime_close(outer, -1), 0);
    }
}

static intptr_t hog_the_worker(void *is_over)
{
    hold_for(is_over, 1);
    return 0;
}

static intptr_t change_the_deadline(void *arg)
{
    (void)weft_deadline(WEFT_NEVER); /* its end looks at what it may have left */
    CHECK_EQ(weft_sleep(1), 0);
    return echo(arg);
}

/* The state lies where green threads have their alarms and cleanups. */
static void a_poll_task_that_is_refused_leaves_nothing_behind(void)
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
        weft_task *hog = go_into(runtime, hog_the_worker, &is_over);
        wait_for_state(hog, WEFT_RUNNING);
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
            weft_task *task = go_into(runtime, change_the_deadline, (void *)i);
            CHECK_EQ(weft_await(task), i);
        }
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
    }
}

static weft_poll poll_ready_futures(weft_cx *cx, void *arg, intptr_t *result)
{
    unsigned *left = arg;
    for (; *left > 0; (*left)--) {
        weft_sleep_future nap;
        weft_sleep_future_init(&nap, 0);
        if (weft_poll_future(cx, &nap.future, result) == WEFT_PENDING) {
            return WEFT_PENDING;
        }
    }
    return WEFT_READY;
}

static intptr_t have_ones_share(void *arg)
{
    (void)arg;
    const unsigned often = 10000;
    weft_task *task = poll_go(poll_ready_futures, &often, sizeof(often));
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK(info_of(task).runs > 10); /* it was not let run through */
    weft_drop(task);
    return 0;
}

/* S4.34, of poll tasks; of green threads see tests/unit/sync/test_chan.c */
static void futures_that_are_always_ready_starve_nobody(void)
{
    run_under(EVERYWHERE, have_ones_share);
}

/* More than a task may do in one turn. */
enum { CROWD = 1000 };

struct crowd {
    weft_join_future join;
    weft_branch branches[CROWD];
    weft_sleep_future naps[CROWD];
};

static intptr_t wait_for_a_crowd(void *arg)
{
    (void)arg;
    struct crowd *crowd = malloc(sizeof(*crowd));
    CHECK(crowd != NULL);
    for (int i = 0; i < CROWD; i++) {
        weft_time at = i < CROWD - 1 ? WEFT_NEVER : weft_in(WEFT_MILLISECOND);
        weft_sleep_future_init(&crowd->naps[i], at);
        crowd->branches[i] = (weft_branch){.future = &crowd->naps[i].future};
    }
    weft_join_future_init(&crowd->join, WEFT_JOIN_RACE, crowd->branches, CROWD);
    CHECK_EQ(weft_await_future(&crowd->join.future), CROWD - 1);
    free(crowd);
    return 0;
}

static void of_a_crowd_of_futures_each_is_asked(void)
{
    run_under(EVERYWHERE, wait_for_a_crowd);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_poll_task_has_a_copy_of_its_state),
    TAP_TEST(a_wake_is_never_lost),
    TAP_TEST(a_waker_outlives_its_task_and_its_runtime),
    TAP_TEST(a_poll_task_may_wake_itself),
    TAP_TEST(a_cancel_has_it_polled),
    TAP_TEST(bad_spawns_are_refused),
    TAP_TEST(poll_tasks_sleep),
    TAP_TEST(the_end_of_any_task_can_be_awaited),
    TAP_TEST(a_green_thread_waits_for_futures),
    TAP_TEST(several_futures_are_one),
    TAP_TEST(an_error_ends_a_try),
    TAP_TEST(a_future_may_have_an_end_in_time),
    TAP_TEST(a_task_that_ends_drops_its_futures),
    TAP_TEST(a_forced_close_drops_futures),
    TAP_TEST(a_poll_task_that_is_refused_leaves_nothing_behind),
    TAP_TEST(futures_that_are_always_ready_starve_nobody),
    TAP_TEST(of_a_crowd_of_futures_each_is_asked),
};
TAP_MAIN(tests)
