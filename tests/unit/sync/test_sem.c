/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a semaphore grants each permit to one waiter, in order, all requested permits at once; no
 *         permit is lost, whatever happens to the waiters.
 * Method: counts by hand; tasks and threads outside the runtime whose number inside is limited by
 *         permits; a cancel, a deadline and a forced close at each wait.  tests/model/model_sem.c
 *         is the model program of the same source.
 */
#include "sync/sync.h"
#include "sync_helpers.h"

static int acquire_one(void *sem)
{
    return weft_sem_acquire(sem, 1);
}

static int acquire_two(void *sem)
{
    return weft_sem_acquire(sem, 2);
}

static int acquire_three(void *sem)
{
    return weft_sem_acquire(sem, 3);
}

/* No runtime is open here: the try calls and acquires that do not wait need none. */
static void sem_counts_permits(void)
{
    static weft_sem sem = WEFT_SEM_INIT(3);
    CHECK_EQ(weft_sem_permits(&sem), 3);
    CHECK_EQ(weft_sem_try_acquire(&sem, 2), 0);
    CHECK_EQ(weft_sem_try_acquire(&sem, 2), -EAGAIN);
    CHECK_EQ(weft_sem_permits(&sem), 1);
    CHECK_EQ(weft_sem_acquire(&sem, 1), 0);
    CHECK_EQ(weft_sem_try_acquire(&sem, 1), -EAGAIN);
    CHECK_EQ(weft_sem_release(&sem, 2), 0);
    CHECK_EQ(weft_sem_permits(&sem), 2);

    weft_sem zeros = {{0}};
    CHECK_EQ(weft_sem_permits(&zeros), 0);
    CHECK_EQ(weft_sem_try_acquire(&zeros, 1), -EAGAIN);
    CHECK_EQ(weft_sem_release(&zeros, 1), 0);
    CHECK_EQ(weft_sem_acquire(&zeros, 1), 0);
}

static void sem_bad_calls_change_nothing(void)
{
    weft_sem sem;
    CHECK_EQ(weft_sem_init(&sem, 1), 0);
    CHECK_EQ(weft_sem_acquire(&sem, 0), -EINVAL);
    CHECK_EQ(weft_sem_try_acquire(&sem, 0), -EINVAL);
    CHECK_EQ(weft_sem_release(&sem, 0), -EINVAL);
    CHECK_EQ(weft_sem_release(&sem, WEFT_SEM_PERMITS_MAX), -EOVERFLOW);
    CHECK_EQ(weft_sem_permits(&sem), 1);
    CHECK_EQ(weft_sem_release(&sem, WEFT_SEM_PERMITS_MAX - 1), 0);
    CHECK_EQ(weft_sem_permits(&sem), WEFT_SEM_PERMITS_MAX);
    CHECK_EQ(weft_sem_release(&sem, 1), -EOVERFLOW);
    CHECK_EQ(weft_sem_acquire(&sem, WEFT_SEM_PERMITS_MAX), 0);
}

/* ---- order ----------------------------------------------------------------------------------- */

static intptr_t wait_for_many_permits(void *arg)
{
    (void)arg;
    weft_sem sem = WEFT_SEM_INIT(1);
    struct sync_wait large = {acquire_three, &sem, WEFT_WAIT_SEMAPHORE};
    struct sync_wait small = {acquire_one, &sem, WEFT_WAIT_SEMAPHORE};
    weft_task *first = go(call_wait, &large);
    wait_until_blocked_in(first, &large);
    /* a permit is available, but an earlier waiter is queued */
    CHECK_EQ(weft_sem_try_acquire(&sem, 1), -EAGAIN);
    weft_task *second = go(call_wait, &small);
    wait_until_blocked_in(second, &small);
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    CHECK_EQ(weft_sem_permits(&sem), 2);
    CHECK_EQ(state_of(first), WEFT_TASK_BLOCKED);
    CHECK_EQ(state_of(second), WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_sem_release(&sem, WEFT_SEM_PERMITS_MAX), -EOVERFLOW);
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    CHECK_EQ(weft_await(first), 0);
    CHECK_EQ(state_of(second), WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_sem_permits(&sem), 0);
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    CHECK_EQ(weft_await(second), 0);
    return 0;
}

static void sem_large_request_is_not_overtaken(void)
{
    run_under(EVERYWHERE, wait_for_many_permits);
}

static intptr_t wait_in_many_tasks(void *arg)
{
    (void)arg;
    enum { COUNT = 40 }; /* more than one wake-up batch */
    static weft_task *tasks[COUNT];
    weft_sem sem = WEFT_SEM_INIT(0);
    struct sync_wait wait = {acquire_one, &sem, WEFT_WAIT_SEMAPHORE};
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(call_wait, &wait);
        wait_until_blocked_in(tasks[i], &wait);
    }
    CHECK_EQ(weft_sem_release(&sem, COUNT + 1), 0);
    CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
    CHECK_EQ(weft_sem_permits(&sem), 1);
    return 0;
}

static void sem_one_release_serves_many_waiters(void)
{
    run_under(EVERYWHERE, wait_in_many_tasks);
}

/* ---- ends of waits --------------------------------------------------------------------------- */

static intptr_t end_waits(void *arg)
{
    (void)arg;
    weft_sem sem = WEFT_SEM_INIT(1);
    struct sync_wait large = {acquire_two, &sem, WEFT_WAIT_SEMAPHORE};
    struct sync_wait small = {acquire_one, &sem, WEFT_WAIT_SEMAPHORE};
    check_ends_of_wait(&large);
    CHECK_EQ(weft_sem_permits(&sem), 1);

    weft_task *first = go(call_wait, &large);
    wait_until_blocked_in(first, &large);
    weft_task *second = go(call_wait, &small);
    wait_until_blocked_in(second, &small);
    CHECK_EQ(weft_cancel(first), 0);
    CHECK_EQ(weft_await(first), -ECANCELED);
    CHECK_EQ(weft_await(second), 0); /* no waiter is ahead of it any more */
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    return 0;
}

/* part of behaviour 32 */
static void sem_wait_ends_by_cancel_and_deadline(void)
{
    run_under(EVERYWHERE, end_waits);
}

static intptr_t acquire_without_wait(void *arg)
{
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_sem_acquire(arg, 1), 0);
    CHECK_EQ(weft_sem_acquire(arg, 1), -ECANCELED);
    return weft_sem_release(arg, 1);
}

static intptr_t cancel_one_that_need_not_wait(void *arg)
{
    (void)arg;
    weft_sem sem = WEFT_SEM_INIT(1);
    CHECK_EQ(weft_await(go(acquire_without_wait, &sem)), 0);
    CHECK_EQ(weft_sem_permits(&sem), 1);
    return 0;
}

static void sem_acquire_without_wait_succeeds_though_cancelled(void)
{
    run_under(EVERYWHERE, cancel_one_that_need_not_wait);
}

static void *acquire_one_outside(void *sem)
{
    CHECK_EQ(weft_sem_acquire(sem, 1), 0);
    return NULL;
}

/* [any]  Returns when this number of waiters is queued. */
static void wait_for_length(weft_sem *sem, unsigned length)
{
    struct wf_sem *inner = (struct wf_sem *)(void *)sem;
    for (;;) {
        unsigned found = 0;
        wf_lock_acquire(&inner->queue.lock);
        for (struct wf_wait_node *node = inner->queue.first; node != NULL; node = node->next) {
            found++;
        }
        wf_lock_release(&inner->queue.lock);
        if (found == length) {
            return;
        }
        let_others_run();
    }
}

static void sem_forced_close_removes_the_waiter(void)
{
    static weft_sem sem = WEFT_SEM_INIT(1);
    struct sync_wait wait = {acquire_two, &sem, WEFT_WAIT_SEMAPHORE};
    struct blocked blocked;
    start_blocked(&blocked, &wait);
    pthread_t thread = start_thread(acquire_one_outside, &sem);
    wait_for_length(&sem, 2);
    close_by_force(&blocked);
    join_thread(thread); /* the waiter ahead of it is removed */
    CHECK_EQ(weft_sem_permits(&sem), 0);
}

/* Behaviour 53, for permits: a grant to a waiter that cannot take it goes to another. */
static void sem_forced_close_passes_the_grant_on(void)
{
    static weft_sem sem = WEFT_SEM_INIT(0);
    struct sync_wait wait = {acquire_two, &sem, WEFT_WAIT_SEMAPHORE};
    struct blocked blocked;
    start_blocked(&blocked, &wait);
    occupy_worker(&blocked);
    pthread_t thread = start_thread(acquire_one_outside, &sem);
    wait_for_length(&sem, 2);
    CHECK_EQ(weft_sem_release(&sem, 2), 0); /* granted to the task, which never runs again */
    CHECK_EQ(weft_sem_permits(&sem), 0);
    close_by_force(&blocked);
    join_thread(thread);
    CHECK_EQ(weft_sem_permits(&sem), 1);
}

/* ---- stress ---------------------------------------------------------------------------------- */

enum { ROUNDS = 2000, MANY_TASKS = 6, PERMITS = 3 };

struct section {
    weft_sem permits;
    weft_sem lock; /* a lock, made of one permit */
    uint64_t sum;  /* plain: changed only by the holder of the lock */
    wf_atomic_u32 inside;
    uint32_t rounds;
};

static void enter_section(struct section *section, uint32_t count)
{
    for (uint32_t i = 0; i < section->rounds; i++) {
        CHECK_EQ(weft_sem_acquire(&section->permits, count), 0);
        CHECK(wf_fetch_add_relaxed(&section->inside, count) + count <= PERMITS);
        CHECK_EQ(weft_sem_acquire(&section->lock, 1), 0);
        section->sum++;
        CHECK_EQ(weft_sem_release(&section->lock, 1), 0);
        (void)wf_fetch_sub_relaxed(&section->inside, count);
        CHECK_EQ(weft_sem_release(&section->permits, count), 0);
    }
}

static intptr_t enter_with_one(void *arg)
{
    enter_section(arg, 1);
    return 0;
}

static intptr_t enter_with_two(void *arg)
{
    enter_section(arg, 2);
    return 0;
}

static void *enter_from_thread(void *arg)
{
    enter_section(arg, 1);
    return NULL;
}

static void use_section(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct section section = {
        .permits = WEFT_SEM_INIT(PERMITS), .lock = WEFT_SEM_INIT(1), .rounds = ROUNDS / MANY_TASKS};
    weft_task *tasks[MANY_TASKS];
    for (int i = 0; i < MANY_TASKS; i++) {
        tasks[i] = go_into(runtime, i % 2 == 0 ? enter_with_one : enter_with_two, &section);
    }
    pthread_t thread = start_thread(enter_from_thread, &section);
    CHECK_EQ(weft_await_all(tasks, MANY_TASKS, NULL), 0);
    join_thread(thread);
    CHECK_EQ(section.sum, (MANY_TASKS + 1) * section.rounds);
    CHECK_EQ(weft_sem_permits(&section.permits), PERMITS);
}

static void sem_limits_the_number_inside(void)
{
    open_under(EVERYWHERE, use_section);
}

struct buffer {
    weft_sem full;
    weft_sem empty;
    int item; /* plain: passed back and forth under full and empty */
};

static intptr_t produce(void *arg)
{
    struct buffer *buffer = arg;
    for (int i = 1; i <= ROUNDS; i++) {
        CHECK_EQ(weft_sem_acquire(&buffer->empty, 1), 0);
        buffer->item = i;
        CHECK_EQ(weft_sem_release(&buffer->full, 1), 0);
    }
    return 0;
}

static void consume(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct buffer buffer = {.empty = WEFT_SEM_INIT(1)};
    weft_task *producer = go_into(runtime, produce, &buffer);
    for (int i = 1; i <= ROUNDS; i++) {
        CHECK_EQ(weft_sem_acquire(&buffer.full, 1), 0);
        CHECK_EQ(buffer.item, i);
        CHECK_EQ(weft_sem_release(&buffer.empty, 1), 0);
    }
    CHECK_EQ(weft_await(producer), 0);
}

/* Behaviour 51: each acquire races with the release that it waits for; a missed release would leave
 * both waiting for ever. */
static void sem_acquire_racing_release_is_not_missed(void)
{
    open_under(EVERYWHERE, consume);
}

struct race {
    weft_sem sem;
    wf_atomic_u32 kept;
};

static intptr_t acquire_or_be_cancelled(void *arg)
{
    struct race *race = arg;
    int rc = weft_sem_acquire(&race->sem, 1);
    CHECK(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        raise_by_one(&race->kept);
    }
    return 0;
}

static intptr_t cancel_while_granting(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        struct race race = {.sem = WEFT_SEM_INIT(0)};
        weft_task *tasks[3];
        for (int j = 0; j < 3; j++) {
            tasks[j] = go(acquire_or_be_cancelled, &race);
        }
        if (i % 2 == 0) {
            (void)weft_yield(); /* all, some or none of the tasks wait */
        }
        CHECK_EQ(weft_cancel(tasks[i % 3]), 0);
        CHECK_EQ(weft_sem_release(&race.sem, 1), 0);
        CHECK_EQ(weft_cancel(tasks[(i + 1) % 3]), 0);
        /* together with the first release, one permit for each task */
        CHECK_EQ(weft_sem_release(&race.sem, 2), 0);
        CHECK_EQ(weft_await_all(tasks, 3, NULL), 0);
        CHECK_EQ(wf_load_relaxed(&race.kept) + weft_sem_permits(&race.sem), 3);
    }
    return 0;
}

static void sem_cancel_racing_release_loses_no_permit(void)
{
    run_under(EVERYWHERE, cancel_while_granting);
}

static const struct tap_test tests[] = {
    TAP_TEST(sem_counts_permits),
    TAP_TEST(sem_bad_calls_change_nothing),
    TAP_TEST(sem_large_request_is_not_overtaken),
    TAP_TEST(sem_one_release_serves_many_waiters),
    TAP_TEST(sem_wait_ends_by_cancel_and_deadline),
    TAP_TEST(sem_acquire_without_wait_succeeds_though_cancelled),
    TAP_TEST(sem_forced_close_removes_the_waiter),
    TAP_TEST(sem_forced_close_passes_the_grant_on),
    TAP_TEST_LIMIT(sem_limits_the_number_inside, 60),
    TAP_TEST_LIMIT(sem_acquire_racing_release_is_not_missed, 60),
    TAP_TEST(sem_cancel_racing_release_loses_no_permit),
};
TAP_MAIN(tests)
