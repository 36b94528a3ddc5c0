/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a poll task waits for work that blocks by a future, which may be dropped at any time: a
 *         function that has not begun never does, one that runs is left alone, and its argument is
 *         given back once, when nobody uses it any more.
 * Method: functions that wait at gates, so that it is known in which state a job is when its future
 *         is polled, dropped, cancelled, out of time or closed with its runtime; arguments that are
 *         freed by whoever has them last, under AddressSanitizer too; a storm of drops at any
 *         moment; memory and threads that are refused in turn.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fault_aids.h"
#include "proc_aids.h"
#include "sched/sched.h"
#include "sched_aids.h"

/* What a function is called with: a gate it waits at, and something plain. */
struct errand {
    wf_atomic_u32 begun;
    wf_atomic_u32 open;
    wf_atomic_u32 passed;
    wf_atomic_u32 released;
    int plain; /* carried there and back */
    int thread;
};

static intptr_t pass(void *arg)
{
    struct errand *errand = arg;
    CHECK(weft_self() == NULL);
    errand->thread = wf_thread_id();
    errand->plain *= 2;
    raise_by_one(&errand->begun);
    hold_for(&errand->open, 1);
    raise_by_one(&errand->passed);
    return 5;
}

static void release(void *arg)
{
    struct errand *errand = arg;
    raise_by_one(&errand->released);
}

static intptr_t never_called(void *arg)
{
    (void)arg;
    tap_fail(__FILE__, __LINE__, "it was called");
}

/* A poll task that waits for one function, and knows how often it was polled. */
struct waiter {
    weft_wait_future *wait;
    wf_atomic_u32 *polls;
};

static weft_poll wait_for_it(weft_cx *cx, void *state, intptr_t *result)
{
    struct waiter *waiter = state;
    const weft_poll poll = weft_poll_future(cx, &waiter->wait->future, result);
    raise_by_one(waiter->polls);
    return poll;
}

static weft_task *poll_go(weft_runtime *runtime, weft_poll_fn fn, const void *state, size_t size)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_runtime_spawn_poll(runtime, &task, fn, state, size, NULL), 0);
    return task;
}

/* ---- what it gives --------------------------------------------------------------------------- */

static intptr_t go_on_meanwhile(void *arg)
{
    (void)arg;
    weft_wait_future wait;
    wf_atomic_u32 polls = {0};
    struct errand errand = {.plain = 21};
    weft_blocking_future(&wait, pass, &errand, release);
    const struct waiter waiter = {&wait, &polls};
    weft_task *task = poll_go(weft_runtime_self(), wait_for_it, &waiter, sizeof(waiter));
    wait_for(&errand.begun, 1);
    wait_for_state(task, WEFT_BLOCKED);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_await(go(echo, (void *)7)), 7);
    }
    CHECK_EQ(wf_load_acquire(&errand.passed), 0);
    raise_by_one(&errand.open);
    CHECK_EQ(weft_await(task), 5);
    CHECK_EQ(errand.plain, 42);
    CHECK(errand.thread != wf_thread_id());
    weft_drop_future(&wait.future); /* it was ready: the argument is ours */
    CHECK_EQ(wf_load_acquire(&errand.released), 0);
    return 0;
}

static void a_poll_task_waits_for_a_function_that_blocks(void)
{
    run_under(EVERYWHERE, go_on_meanwhile);
}

static intptr_t fail_there(void *arg)
{
    (void)arg;
    return -EIO;
}

static intptr_t await_some(void *arg)
{
    (void)arg;
    weft_wait_future wait;
    weft_blocking_future(&wait, echo, (void *)9, NULL);
    CHECK_EQ(weft_await_future(&wait.future), 9);
    weft_blocking_future(&wait, fail_there, NULL, NULL);
    CHECK_EQ(weft_await_future(&wait.future), -EIO);
    weft_blocking_future(&wait, NULL, NULL, NULL);
    CHECK_EQ(weft_await_future(&wait.future), -EINVAL);
    weft_drop_future(&wait.future);
    struct errand errand = {.plain = 0};
    weft_blocking_future(&wait, never_called, &errand, release); /* and never polled */
    weft_drop_future(&wait.future);
    weft_drop_future(&wait.future);
    CHECK_EQ(wf_load_acquire(&errand.released), 1);
    CHECK_EQ(stats_of(weft_runtime_self()).blocking_done, 2);
    return 0;
}

static void its_result_is_that_of_the_call(void)
{
    run_under(EVERYWHERE, await_some);
}

/* A race of a function that comes to its gate, and a sleep, which ends first. */
static void lose_to_a_sleep(struct errand *errand, int64_t nap_ns)
{
    weft_wait_future work;
    weft_sleep_future nap;
    weft_blocking_future(&work, pass, errand, release);
    weft_sleep_future_init(&nap, weft_in(nap_ns));
    weft_branch branches[2] = {{.future = &work.future}, {.future = &nap.future}};
    weft_join_future race;
    weft_join_future_init(&race, WEFT_JOIN_RACE, branches, 2);
    CHECK_EQ(weft_await_future(&race.future), 1);
}

/* The function is at its gate when the sleep ends: the race goes on without it. */
static intptr_t race_a_sleep(void *arg)
{
    (void)arg;
    weft_wait_future quick;
    struct errand errand;
    int64_t nap_ns = WEFT_MILLISECOND;
    do { /* until the sleep is long enough: one that was not begun by then never is */
        errand = (struct errand){.plain = 1};
        lose_to_a_sleep(&errand, nap_ns);
        nap_ns *= 2;
    } while (wf_load_acquire(&errand.released) != 0); /* by release, at once */
    wait_for(&errand.begun, 1);
    CHECK_EQ(wf_load_acquire(&errand.released), 0);
    weft_blocking_future(&quick, echo, (void *)9, NULL); /* another one is not in its way */
    CHECK_EQ(weft_await_future(&quick.future), 9);
    raise_by_one(&errand.open);
    wait_for(&errand.released, 1);
    CHECK_EQ(wf_load_acquire(&errand.passed), 1);
    return 0;
}

static void who_waits_for_the_first_of_several_does_not_wait_for_it(void)
{
    run_under(EVERYWHERE, race_a_sleep);
}

/* ---- dropped --------------------------------------------------------------------------------- */

/* Polls its futures once, and then drops them or ends, as it is told. */
struct quitter {
    weft_wait_future *running;
    weft_wait_future *queued;
    wf_atomic_u32 *begun; /* of the running one */
    weft_runtime *runtime;
    bool ends;
    bool is_deaf;
};

static weft_poll begin_and_quit(weft_cx *cx, void *state, intptr_t *result)
{
    struct quitter *quitter = state;
    if (quitter->is_deaf) {
        CHECK_EQ(weft_shield(1), 0);
    }
    CHECK_EQ(weft_poll_future(cx, &quitter->running->future, result), WEFT_PENDING);
    hold_for(quitter->begun, 1);
    CHECK_EQ(weft_poll_future(cx, &quitter->queued->future, result), WEFT_PENDING);
    while (stats_of(quitter->runtime).blocking_waiting == 0) {
        (void)sched_yield();
    }
    if (quitter->is_deaf) {
        return WEFT_PENDING;
    }
    if (!quitter->ends) {
        weft_drop_future(&quitter->running->future);
        weft_drop_future(&quitter->queued->future);
        weft_drop_future(&quitter->queued->future);
    }
    return WEFT_READY;
}

static intptr_t quit(bool ends)
{
    weft_wait_future running;
    weft_wait_future queued;
    struct errand first = {.plain = 1};
    struct errand second = {.plain = 1};
    weft_blocking_future(&running, pass, &first, release);
    weft_blocking_future(&queued, never_called, &second, release);
    const struct quitter quitter = {.running = &running,
                                    .queued = &queued,
                                    .begun = &first.begun,
                                    .runtime = weft_runtime_self(),
                                    .ends = ends};
    CHECK_EQ(weft_await(poll_go(weft_runtime_self(), begin_and_quit, &quitter, sizeof(quitter))),
             0);
    memset(&running, 0x5a, sizeof(running)); /* nobody looks at them any more */
    memset(&queued, 0x5a, sizeof(queued));
    CHECK_EQ(wf_load_acquire(&second.released), 1);
    CHECK_EQ(wf_load_acquire(&first.released), 0);
    CHECK_EQ(stats_of(weft_runtime_self()).blocking_waiting, 0);
    raise_by_one(&first.open);
    wait_for(&first.released, 1);
    CHECK_EQ(wf_load_acquire(&first.passed), 1);
    CHECK_EQ(weft_blocking(echo, (void *)8), 8);
    CHECK_EQ(wf_load_acquire(&first.released), 1);
    CHECK_EQ(wf_load_acquire(&second.released), 1);
    return 0;
}

static intptr_t quit_by_drops(void *arg)
{
    (void)arg;
    return quit(false);
}

static intptr_t quit_by_the_end(void *arg)
{
    (void)arg;
    return quit(true);
}

static void with_one_thread(weft_fn fn)
{
    for (struct tour tour = {.which = ON_SEVERAL}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        CHECK_EQ(weft_run(fn, NULL, &tour.options), 0);
    }
}

static void a_future_may_be_dropped_before_and_after_it_began(void)
{
    with_one_thread(quit_by_drops);
}

static void a_task_that_ends_drops_its_work(void)
{
    with_one_thread(quit_by_the_end);
}

/* An argument of its own for each future: whoever has it last frees it. */
static wf_atomic_u32 freed;

static intptr_t fill_in(void *arg)
{
    memset(arg, 3, 64);
    return 1;
}

static void free_it(void *arg)
{
    free(arg);
    raise_by_one(&freed);
}

struct hasty {
    weft_wait_future *wait;
    void *arg;
    unsigned polls_left;
};

static weft_poll poll_and_drop(weft_cx *cx, void *state, intptr_t *result)
{
    struct hasty *hasty = state;
    if (weft_poll_future(cx, &hasty->wait->future, result) == WEFT_READY) {
        CHECK(*result == 1 || *result == -ECANCELED);
        CHECK(*result < 0 || ((unsigned char *)hasty->arg)[63] == 3);
        free_it(hasty->arg);
        *result = 0;
        return WEFT_READY;
    }
    if (hasty->polls_left-- == 0) {
        weft_drop_future(&hasty->wait->future);
        return WEFT_READY;
    }
    weft_wake(weft_cx_waker(cx));
    return WEFT_PENDING;
}

enum { CROWD = 8, ROUNDS = 100 };

static intptr_t drop_at_any_moment(void *arg)
{
    (void)arg;
    wf_store_release(&freed, 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        weft_wait_future waits[CROWD];
        weft_task *tasks[CROWD];
        for (unsigned i = 0; i < CROWD; i++) {
            const struct hasty hasty = {&waits[i], malloc(64), (round + i) % 11};
            CHECK(hasty.arg != NULL);
            weft_blocking_future(&waits[i], fill_in, hasty.arg, free_it);
            tasks[i] = poll_go(weft_runtime_self(), poll_and_drop, &hasty, sizeof(hasty));
        }
        CHECK_EQ(weft_await_all(tasks, CROWD, NULL), 0);
    }
    return 0;
}

static void every_argument_is_given_back_once(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = 1 + (uint32_t)tour.next % 3;
        CHECK_EQ(weft_run(drop_at_any_moment, NULL, &tour.options), 0);
        CHECK_EQ(wf_load_acquire(&freed), CROWD * ROUNDS); /* those that ran on were waited for */
    }
}

/* ---- cancel and deadlines -------------------------------------------------------------------- */

static intptr_t await_it(void *arg)
{
    weft_wait_future *wait = arg;
    return weft_await_future(&wait->future);
}

static intptr_t await_it_in_time(void *arg)
{
    (void)weft_deadline(weft_in(WEFT_MILLISECOND));
    return await_it(arg);
}

static void wait_until_queued(uint64_t count)
{
    while (stats_of(weft_runtime_self()).blocking_waiting < count) {
        let_others_run();
    }
}

static intptr_t cancel_some(void *arg)
{
    (void)arg;
    weft_wait_future waits[3];
    struct errand first = {.plain = 1};
    struct errand second = {.plain = 1};
    wf_atomic_u32 polls = {0};
    weft_blocking_future(&waits[0], pass, &first, release);
    weft_blocking_future(&waits[1], never_called, &second, release);
    weft_blocking_future(&waits[2], never_called, &second, release);
    weft_task *running = go(await_it_in_time, &waits[0]);
    wait_for(&first.begun, 1);
    weft_task *late = go(await_it_in_time, &waits[1]);
    CHECK_EQ(weft_await(late), -ETIMEDOUT);
    const struct waiter waiter = {&waits[2], &polls};
    weft_task *queued = poll_go(weft_runtime_self(), wait_for_it, &waiter, sizeof(waiter));
    wait_until_queued(1);
    CHECK_EQ(weft_cancel(queued), 0);
    CHECK_EQ(weft_await(queued), -ECANCELED);
    CHECK_EQ(weft_cancel(running), 0);
    CHECK_EQ(weft_sleep(2 * WEFT_MILLISECOND), 0); /* its deadline has come, too */
    wait_for_state(running, WEFT_BLOCKED);         /* its function cannot be stopped */
    const uint64_t runs = info_of(running).runs;
    CHECK_EQ(weft_sleep(2 * WEFT_MILLISECOND), 0);
    CHECK(info_of(running).runs <= runs + 3); /* and it does not ask again and again */
    raise_by_one(&first.open);
    CHECK_EQ(weft_await(running), 5);
    CHECK_EQ(wf_load_acquire(&first.released), 0);
    CHECK_EQ(wf_load_acquire(&second.released), 0); /* both were ready, by their errors */
    return 0;
}

static void only_what_has_not_begun_is_cancelled(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        CHECK_EQ(weft_run(cancel_some, NULL, &tour.options), 0);
    }
}

static intptr_t cancel_at_any_moment(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        weft_wait_future wait;
        wf_atomic_u32 polls = {0};
        weft_blocking_future(&wait, echo, (void *)9, NULL);
        const struct waiter waiter = {&wait, &polls};
        weft_task *task = poll_go(weft_runtime_self(), wait_for_it, &waiter, sizeof(waiter));
        for (int turn = 0; turn < i % 8; turn++) {
            let_others_run();
        }
        CHECK_EQ(weft_cancel(task), 0);
        const intptr_t result = weft_await(task);
        CHECK(result == 9 || result == -ECANCELED);
    }
    return 0;
}

static void a_cancel_at_any_moment_ends_the_wait_or_lets_it_end(void)
{
    run_under(EVERYWHERE, cancel_at_any_moment);
}

/* ---- close ----------------------------------------------------------------------------------- */

struct closing {
    weft_runtime *runtime;
    int64_t timeout_ns;
    int rc;
};

static void *close_it(void *arg)
{
    struct closing *closing = arg;
    closing->rc = weft_runtime_close(closing->runtime, closing->timeout_ns);
    return NULL;
}

/* One function runs and one waits for a thread.  The task is deaf: only force ends it; or it has
 * ended before, and the function runs for nobody. */
static void close_around_work(const weft_options *options, bool is_deaf)
{
    weft_wait_future running;
    weft_wait_future queued;
    struct errand first = {.plain = 1};
    struct errand second = {.plain = 1};
    struct closing closing = {.timeout_ns = is_deaf ? 0 : -1};
    pthread_t thread;
    CHECK_EQ(weft_runtime_open(&closing.runtime, options), 0);
    weft_blocking_future(&running, pass, &first, release);
    weft_blocking_future(&queued, never_called, &second, release);
    const struct quitter quitter = {.running = &running,
                                    .queued = &queued,
                                    .begun = &first.begun,
                                    .runtime = closing.runtime,
                                    .is_deaf = is_deaf};
    weft_task *task = poll_go(closing.runtime, begin_and_quit, &quitter, sizeof(quitter));
    if (is_deaf) {
        wait_for_state(task, WEFT_BLOCKED);
    } else {
        CHECK_EQ(weft_await(task), 0);
    }
    CHECK_EQ(wf_thread_start(&thread, close_it, &closing, NULL), 0);
    expect_threads(1); /* the one that the close waits for */
    CHECK_EQ(wf_load_acquire(&first.released), 0);
    raise_by_one(&first.open);
    CHECK_EQ(wf_thread_join(thread), 0);
    CHECK_EQ(closing.rc, is_deaf ? -ETIMEDOUT : 0);
    CHECK_EQ(wf_load_acquire(&first.passed), 1);
    CHECK_EQ(wf_load_acquire(&first.released), 1);
    CHECK_EQ(wf_load_acquire(&second.released), 1);
    if (is_deaf) {
        CHECK_EQ(weft_await(task), -ECANCELED);
    }
    expect_threads(0);
}

static void tour_of_closes(bool is_deaf)
{
    for (struct tour tour = {.which = ON_SEVERAL}; tour_next(&tour);) {
        tour.options.blocking_max = 1;
        tour.options.no_monitor = true; /* for the number of threads */
        close_around_work(&tour.options, is_deaf);
    }
}

static void a_close_waits_for_functions_that_nobody_waits_for(void)
{
    tour_of_closes(false);
}

static void a_forced_close_drops_work(void)
{
    tour_of_closes(true);
}

/* The close comes at any moment, also while the control thread has a job on its way. */
static void a_close_at_any_moment_gives_every_argument_back(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        wf_store_release(&freed, 0);
        tour.options.no_monitor = true;
        for (unsigned round = 0; round < ROUNDS; round++) {
            weft_runtime *runtime = NULL;
            weft_wait_future waits[2];
            CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
            for (unsigned i = 0; i < 2; i++) {
                const struct hasty hasty = {&waits[i], malloc(64), round % 3 + i};
                CHECK(hasty.arg != NULL);
                weft_blocking_future(&waits[i], fill_in, hasty.arg, free_it);
                weft_drop(poll_go(runtime, poll_and_drop, &hasty, sizeof(hasty)));
            }
            const int rc = weft_runtime_close(runtime, round % 2 == 0 ? 0 : -1);
            CHECK(rc == 0 || rc == -ETIMEDOUT);
            weft_drop_future(&waits[0].future); /* one whose task never ran is still ours */
            weft_drop_future(&waits[1].future);
        }
        CHECK_EQ(wf_load_acquire(&freed), 2 * ROUNDS);
    }
}

/* ---- refused --------------------------------------------------------------------------------- */

#ifdef WF_TEST_AIDS

static intptr_t await_while_it_may_fail(void *arg)
{
    struct faults *faults = arg;
    weft_wait_future wait;
    struct errand errand = {.plain = 1};
    raise_by_one(&errand.open);
    weft_blocking_future(&wait, pass, &errand, release);
    faults_begin(faults);
    const intptr_t result = weft_await_future(&wait.future);
    faults_end(faults);
    if (result != 5) {
        CHECK(result == -EAGAIN || result == -ENOMEM);
        CHECK_EQ(wf_load_acquire(&errand.begun), 0);
        faults_refused(faults, 1);
    }
    weft_drop_future(&wait.future);
    CHECK_EQ(wf_load_acquire(&errand.released), 0); /* an error is a result */
    weft_blocking_future(&wait, echo, (void *)8, NULL);
    CHECK_EQ(weft_await_future(&wait.future), 8);
    return 0;
}

static void work_without_memory_or_a_thread_says_so(void)
{
    fail_each(await_while_it_may_fail, 4); /* memory three times, and the thread */
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(a_poll_task_waits_for_a_function_that_blocks),
    TAP_TEST(its_result_is_that_of_the_call),
    TAP_TEST(who_waits_for_the_first_of_several_does_not_wait_for_it),
    TAP_TEST(a_future_may_be_dropped_before_and_after_it_began),
    TAP_TEST(a_task_that_ends_drops_its_work),
    TAP_TEST_LIMIT(every_argument_is_given_back_once, 60),
    TAP_TEST(only_what_has_not_begun_is_cancelled),
    TAP_TEST(a_cancel_at_any_moment_ends_the_wait_or_lets_it_end),
    TAP_TEST(a_close_waits_for_functions_that_nobody_waits_for),
    TAP_TEST(a_forced_close_drops_work),
    TAP_TEST_LIMIT(a_close_at_any_moment_gives_every_argument_back, 60),
#ifdef WF_TEST_AIDS
    TAP_TEST(work_without_memory_or_a_thread_says_so),
#endif
};
TAP_MAIN(tests)
