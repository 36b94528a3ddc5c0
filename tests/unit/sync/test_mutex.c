/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a mutex belongs to one task or thread at a time and reports misuse; no waiter waits for
 *         ever, whatever happens to other waiters or to the holder.
 * Method: tasks and threads outside the runtime that change plain data under it; every wrong call;
 *         a cancel, a deadline and a forced close at each place where a task waits or holds; tasks
 *         that end while they hold mutexes.  tests/model/model_mutex.c is the model program of the
 *         same source.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sync/sync.h"
#include "sync_helpers.h"

static int lock(void *mutex)
{
    return weft_mutex_lock(mutex);
}

/* ---- single calls ---------------------------------------------------------------------------- */

static void *misuse_from_outside(void *arg)
{
    weft_mutex *mutex = arg; /* another thread holds it */
    CHECK_EQ(weft_mutex_try_lock(mutex), -EAGAIN);
    CHECK_EQ(weft_mutex_unlock(mutex), -EPERM);
    CHECK_EQ(weft_mutex_is_locked(mutex), 1);
    return NULL;
}

/* No runtime is open here: the try calls need none.  Part of behaviour 53: only the holder can
 * unlock it, and no task locks it twice. */
static void mutex_refuses_wrong_calls(void)
{
    static weft_mutex mutex;
    CHECK_EQ(weft_mutex_is_locked(&mutex), 0);
    CHECK_EQ(weft_mutex_unlock(&mutex), -EPERM);
    CHECK_EQ(weft_mutex_try_lock(&mutex), 0);
    CHECK_EQ(weft_mutex_try_lock(&mutex), -EDEADLK);
    CHECK_EQ(weft_mutex_lock(&mutex), -EDEADLK);
    CHECK_EQ(weft_mutex_is_locked(&mutex), 1);
    join_thread(start_thread(misuse_from_outside, &mutex));
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    CHECK_EQ(weft_mutex_unlock(&mutex), -EPERM);
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
}

static intptr_t misuse_from_task(void *mutex)
{
    CHECK_EQ(weft_mutex_try_lock(mutex), -EAGAIN);
    CHECK_EQ(weft_mutex_unlock(mutex), -EPERM);
    return 0;
}

static intptr_t hold_several(void *arg)
{
    (void)arg;
    enum { COUNT = 4 };
    weft_mutex mutexes[COUNT] = {{{0}}};
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(weft_mutex_lock(&mutexes[i]), 0);
        CHECK_EQ(weft_mutex_lock(&mutexes[i]), -EDEADLK);
        CHECK_EQ(weft_mutex_try_lock(&mutexes[i]), -EDEADLK);
    }
    CHECK_EQ(weft_await(go(misuse_from_task, &mutexes[0])), 0);
    static const int order[COUNT] = {1, 3, 0, 2}; /* not the reverse order */
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(weft_mutex_unlock(&mutexes[order[i]]), 0);
        CHECK_EQ(weft_mutex_unlock(&mutexes[order[i]]), -EPERM);
        CHECK_EQ(weft_mutex_is_locked(&mutexes[order[i]]), 0);
    }
    return 0;
}

/* part of behaviour 53, in tasks */
static void mutex_several_unlock_in_any_order(void)
{
    run_under(EVERYWHERE, hold_several);
}

enum { OWNED_MANY = 40000 };

/* Takes many locks, of both kinds in turn, and releases them oldest or newest first.  Returns the
 * CPU time of the releases in nanoseconds. */
static int64_t release_many(weft_mutex *mutexes, weft_rwlock *rwlocks, bool is_oldest_first)
{
    for (int i = 0; i < OWNED_MANY; i++) {
        CHECK_EQ(weft_mutex_lock(&mutexes[i]), 0);
        CHECK_EQ(weft_rwlock_wrlock(&rwlocks[i]), 0);
    }
    struct timespec before;
    struct timespec after;
    CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before), 0);
    for (int i = 0; i < OWNED_MANY; i++) {
        const int at = is_oldest_first ? i : OWNED_MANY - 1 - i;
        CHECK_EQ(weft_rwlock_unlock(&rwlocks[at]), 0);
        CHECK_EQ(weft_mutex_unlock(&mutexes[at]), 0);
    }
    CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after), 0);
    return (int64_t)(after.tv_sec - before.tv_sec) * 1000000000 + (after.tv_nsec - before.tv_nsec);
}

static intptr_t compare_release_orders(void *arg)
{
    (void)arg;
    weft_mutex *mutexes = calloc(OWNED_MANY, sizeof(*mutexes));
    weft_rwlock *rwlocks = calloc(OWNED_MANY, sizeof(*rwlocks));
    CHECK(mutexes != NULL && rwlocks != NULL);
    int64_t newest_first = INT64_MAX;
    int64_t oldest_first = INT64_MAX;
    for (int i = 0; i < 3; i++) { /* the fastest of three: a noisy machine only adds time */
        const int64_t newest = release_many(mutexes, rwlocks, false);
        const int64_t oldest = release_many(mutexes, rwlocks, true);
        newest_first = newest < newest_first ? newest : newest_first;
        oldest_first = oldest < oldest_first ? oldest : oldest_first;
    }
    /* A walk through the list would visit 40000 locks on average: a factor of some thousand. */
    CHECK_TIME(oldest_first < 100 * newest_first);
    free(mutexes);
    free(rwlocks);
    return 0;
}

/* The cost of an unlock does not depend on the number of locks that the task took later.  One
 * worker: the CPU time is that of its thread. */
static void mutex_unlock_oldest_of_many_takes_constant_time(void)
{
    const weft_runtime_options options = {.workers = 1};
    CHECK_EQ(weft_run(compare_release_orders, NULL, &options), 0);
}

static intptr_t release_in_random_order(void *arg)
{
    (void)arg;
    enum { COUNT = 64, STEPS = 20000 };
    weft_mutex mutexes[COUNT] = {{{0}}};
    bool is_owned[COUNT] = {false};
    struct wf_random random;
    wf_random_init(&random, 1);
    for (int i = 0; i < STEPS; i++) {
        const uint32_t at = wf_random_below(&random, COUNT);
        CHECK_EQ(weft_mutex_is_locked(&mutexes[at]), is_owned[at] ? 1 : 0);
        CHECK_EQ(is_owned[at] ? weft_mutex_unlock(&mutexes[at]) : weft_mutex_lock(&mutexes[at]), 0);
        is_owned[at] = !is_owned[at];
    }
    unsigned owned = 0;
    for (const struct wf_owned_lock *it = wf_task_self()->owned_locks; it != NULL; it = it->next) {
        const weft_mutex *mutex = (const weft_mutex *)(const void *)it;
        CHECK(is_owned[mutex - mutexes]);
        CHECK(it->next == NULL || it->next->prev == it);
        owned++;
    }
    for (int i = 0; i < COUNT; i++) {
        owned -= is_owned[i] ? 1 : 0;
        CHECK_EQ(weft_mutex_unlock(&mutexes[i]), is_owned[i] ? 0 : -EPERM);
    }
    CHECK_EQ(owned, 0);
    CHECK(wf_task_self()->owned_locks == NULL);
    return 0;
}

/* The list of a task's locks has exactly those that it owns, whatever the order of its calls. */
static void mutex_owned_locks_are_listed_in_any_order_of_release(void)
{
    run_under(EVERYWHERE, release_in_random_order);
}

/* ---- mutual exclusion ------------------------------------------------------------------------ */

enum { ROUNDS = 3000, MANY_TASKS = 6 };

struct account {
    weft_mutex mutex;
    uint64_t sum;  /* plain: under the mutex */
    uint64_t twin; /* plain: equal to sum, except between lock and unlock */
    uint32_t rounds;
};

static void deposit(struct account *account, bool is_slow)
{
    for (uint32_t i = 0; i < account->rounds; i++) {
        CHECK_EQ(weft_mutex_lock(&account->mutex), 0);
        CHECK_EQ(account->sum, account->twin);
        account->sum++;
        if (is_slow && i % 16 == 0) {
            let_others_run(); /* the holder may suspend, and move to another thread */
        }
        account->twin++;
        CHECK_EQ(weft_mutex_unlock(&account->mutex), 0);
    }
}

static intptr_t deposit_quickly(void *arg)
{
    deposit(arg, false);
    return 0;
}

static intptr_t deposit_slow(void *arg)
{
    deposit(arg, true);
    return 0;
}

static void *deposit_outside(void *arg)
{
    deposit(arg, false);
    return NULL;
}

static intptr_t deposit_trying(void *arg)
{
    struct account *account = arg;
    for (uint32_t i = 0; i < account->rounds; i++) {
        while (weft_mutex_try_lock(&account->mutex) != 0) { /* a failed try yields to other tasks */
        }
        account->sum++;
        account->twin++;
        CHECK_EQ(weft_mutex_unlock(&account->mutex), 0);
    }
    return 0;
}

static void use_account(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    static const weft_fn kinds[] = {deposit_quickly, deposit_slow, deposit_trying};
    struct account account = {.rounds = ROUNDS / MANY_TASKS};
    weft_task *tasks[MANY_TASKS];
    for (int i = 0; i < MANY_TASKS; i++) {
        tasks[i] = go_into(runtime, kinds[i % 3], &account);
    }
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        threads[i] = start_thread(deposit_outside, &account);
    }
    CHECK_EQ(weft_await_all(tasks, MANY_TASKS, NULL), 0);
    for (int i = 0; i < 2; i++) {
        join_thread(threads[i]);
    }
    CHECK_EQ(account.sum, (MANY_TASKS + 2) * account.rounds);
    CHECK_EQ(weft_mutex_is_locked(&account.mutex), 0);
}

/* S1.17, and the part of S1.20 that lies here: an unlock by any worker wakes the waiter, also if it
 * comes before the wait has begun. */
static void mutex_excludes_tasks_and_threads(void)
{
    open_under(EVERYWHERE, use_account);
}

struct queue_of_two {
    weft_mutex mutex;
    wf_atomic_u32 others;
};

static intptr_t run_beside(void *arg)
{
    struct queue_of_two *two = arg;
    raise_by_one(&two->others);
    return 0;
}

static intptr_t wait_and_let_others_run(void *arg)
{
    (void)arg;
    struct queue_of_two two = {.others = {0}};
    CHECK_EQ(weft_mutex_lock(&two.mutex), 0);
    struct sync_wait wait = {lock, &two.mutex, WEFT_WAIT_MUTEX};
    weft_task *blocked = go(call_wait, &wait);
    wait_until_blocked_in(blocked, &wait);
    /* on one worker: the waiter does not block its thread */
    weft_task *beside = go(run_beside, &two);
    CHECK_EQ(weft_await(beside), 0);
    CHECK_EQ(wf_load_acquire(&two.others), 1);
    CHECK_EQ(state_of(blocked), WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_cancel(blocked), 0);
    CHECK_EQ(weft_await(blocked), -ECANCELED);
    CHECK_EQ(weft_mutex_unlock(&two.mutex), 0);
    return 0;
}

/* S0.28 */
static void mutex_waiter_blocks_no_thread(void)
{
    run_under(ON_ONE_WORKER, wait_and_let_others_run);
}

/* ---- order ----------------------------------------------------------------------------------- */

struct race {
    weft_mutex mutex;
    wf_atomic_u32 done;
};

static intptr_t lock_for_ever(void *arg)
{
    struct race *race = arg;
    for (uint64_t rounds = 0; wf_load_acquire(&race->done) == 0; rounds++) {
        CHECK_EQ(weft_mutex_lock(&race->mutex), 0);
        if (rounds % 8 == 0) {
            let_others_run(); /* the waiter loses the race for the lock again and again */
        }
        CHECK_EQ(weft_mutex_unlock(&race->mutex), 0);
    }
    return 0;
}

static intptr_t lock_a_few_times(void *arg)
{
    struct race *race = arg;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_mutex_lock(&race->mutex), 0);
        CHECK_EQ(weft_mutex_unlock(&race->mutex), 0);
    }
    return 0;
}

static intptr_t compete(void *arg)
{
    (void)arg;
    struct race race = {.done = {0}};
    weft_task *greedy[3];
    for (int i = 0; i < 3; i++) {
        greedy[i] = go(lock_for_ever, &race);
    }
    CHECK_EQ(weft_await(go(lock_a_few_times, &race)), 0);
    raise_by_one(&race.done);
    CHECK_EQ(weft_await_all(greedy, 3, NULL), 0);
    return 0;
}

/* part of behaviour 53: a waiter that lost the race gets the mutex by hand-off */
static void mutex_hands_off_to_a_starved_waiter(void)
{
    run_under(EVERYWHERE, compete);
}

/* ---- ends of waits --------------------------------------------------------------------------- */

static intptr_t end_waits(void *arg)
{
    (void)arg;
    weft_mutex mutex = {{0}};
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    struct sync_wait wait = {lock, &mutex, WEFT_WAIT_MUTEX};
    check_ends_of_wait(&wait);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    CHECK_EQ(weft_mutex_is_locked(&mutex), 0);
    return 0;
}

/* part of behaviour 32 */
static void mutex_wait_ends_by_cancel_and_deadline(void)
{
    run_under(EVERYWHERE, end_waits);
}

static intptr_t lock_though_cancelled(void *mutex)
{
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_mutex_lock(mutex), 0);
    return weft_mutex_unlock(mutex);
}

static intptr_t cancel_one_that_need_not_wait(void *arg)
{
    (void)arg;
    weft_mutex mutex = {{0}};
    return weft_await(go(lock_though_cancelled, &mutex));
}

static void mutex_lock_without_wait_succeeds_though_cancelled(void)
{
    run_under(EVERYWHERE, cancel_one_that_need_not_wait);
}

static intptr_t lock_or_be_cancelled(void *arg)
{
    struct account *account = arg;
    int rc = weft_mutex_lock(&account->mutex);
    CHECK(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        account->sum++;
        CHECK_EQ(weft_mutex_unlock(&account->mutex), 0);
    }
    return 0;
}

static intptr_t cancel_while_unlocking(void *arg)
{
    (void)arg;
    enum { COUNT = 5 };
    for (int i = 0; i < 200; i++) {
        struct account account = {.sum = 0};
        weft_task *tasks[COUNT];
        CHECK_EQ(weft_mutex_lock(&account.mutex), 0);
        for (int j = 0; j < COUNT; j++) {
            tasks[j] = go(lock_or_be_cancelled, &account);
        }
        if (i % 2 == 0) {
            (void)weft_yield(); /* all, some or none of the tasks wait */
        }
        CHECK_EQ(weft_cancel(tasks[i % COUNT]), 0);
        CHECK_EQ(weft_mutex_unlock(&account.mutex), 0);
        CHECK_EQ(weft_cancel(tasks[(i + 1) % COUNT]), 0);
        if (i % 3 == 0) { /* the woken waiters lose the race, some of them cancelled */
            CHECK_EQ(weft_mutex_lock(&account.mutex), 0);
            (void)weft_yield();
            CHECK_EQ(weft_mutex_unlock(&account.mutex), 0);
        }
        /* all have ended: no waiter was forgotten */
        CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
        CHECK(account.sum >= COUNT - 2);
        CHECK_EQ(weft_mutex_is_locked(&account.mutex), 0);
    }
    return 0;
}

/* Behaviour 53: a waiter that is cancelled right after it was woken wakes the next waiter. */
static void mutex_cancel_racing_unlock_wakes_the_next_waiter(void)
{
    run_under(EVERYWHERE, cancel_while_unlocking);
}

/* [any]  Returns when this number of waiters is queued. */
static void wait_for_length(weft_mutex *mutex, unsigned length)
{
    struct wf_mutex *inner = (struct wf_mutex *)(void *)mutex;
    for (unsigned found = UINT32_MAX; found != length;) {
        found = 0;
        wf_lock_acquire(&inner->queue.lock);
        for (struct wf_wait_node *node = inner->queue.first; node != NULL; node = node->next) {
            found++;
        }
        wf_lock_release(&inner->queue.lock);
        let_others_run();
    }
}

/* One worker, no other task runs: this task decides the order. */
static intptr_t lose_race_and_be_cancelled(void *arg)
{
    (void)arg;
    weft_mutex mutex = {{0}};
    struct sync_wait wait = {lock, &mutex, WEFT_WAIT_MUTEX};
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    weft_task *late = go(call_wait, &wait);
    wait_for_length(&mutex, 1);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0); /* wakes the waiter */
    CHECK_EQ(weft_mutex_lock(&mutex), 0);   /* but this task locks first */
    CHECK_EQ(weft_cancel(late), 0);
    CHECK_EQ(weft_await(late), -ECANCELED);
    wait_for_length(&mutex, 0);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    CHECK_EQ(weft_mutex_is_locked(&mutex), 0);
    return 0;
}

static void mutex_waiter_cancelled_after_lost_race_leaves_the_queue(void)
{
    if (HAS_ORDER == 1) {
        run_under(ON_ONE_WORKER, lose_race_and_be_cancelled);
    }
}

/* ---- forced close ---------------------------------------------------------------------------- */

static void *lock_and_unlock_outside(void *mutex)
{
    CHECK_EQ(weft_mutex_lock(mutex), 0);
    CHECK_EQ(weft_mutex_unlock(mutex), 0);
    return NULL;
}

static void mutex_forced_close_removes_the_waiter(void)
{
    static weft_mutex mutex;
    struct sync_wait wait = {lock, &mutex, WEFT_WAIT_MUTEX};
    struct blocked blocked;
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    start_blocked(&blocked, &wait);
    pthread_t thread = start_thread(lock_and_unlock_outside, &mutex);
    wait_for_length(&mutex, 2);
    close_by_force(&blocked);
    wait_for_length(&mutex, 1);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    join_thread(thread);
}

/* Behaviour 53: the task was woken and will never retry. */
static void mutex_forced_close_of_a_woken_waiter_wakes_the_next(void)
{
    static weft_mutex mutex;
    struct sync_wait wait = {lock, &mutex, WEFT_WAIT_MUTEX};
    struct blocked blocked;
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    start_blocked(&blocked, &wait);
    occupy_worker(&blocked);
    pthread_t thread = start_thread(lock_and_unlock_outside, &mutex);
    wait_for_length(&mutex, 2);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    wait_for_length(&mutex, 1); /* the thread still waits: the task was woken */
    close_by_force(&blocked);
    join_thread(thread);
    CHECK_EQ(weft_mutex_is_locked(&mutex), 0);
}

/* ---- tasks that end while they hold a mutex -------------------------------------------------- */

struct report {
    wf_atomic_u32 count;
    int error;
    char message[128];
};

static void keep_report(void *context, const weft_failure *failure)
{
    struct report *report = context;
    report->error = failure->error;
    (void)snprintf(report->message, sizeof(report->message), "%s", failure->message);
    raise_by_one(&report->count);
}

static weft_mutex left_mutexes[2];

static intptr_t return_with_it(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_mutex_lock(&left_mutexes[0]), 0);
    return 7;
}

static intptr_t fail_with_two(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_mutex_lock(&left_mutexes[0]), 0);
    CHECK_EQ(weft_mutex_lock(&left_mutexes[1]), 0);
    weft_fail(-EIO, "in the middle");
}

static void unlock_by_cleanup(void *mutex)
{
    CHECK_EQ(weft_mutex_unlock(mutex), 0);
}

static intptr_t fail_with_cleanup(void *arg)
{
    (void)arg;
    weft_cleanup cleanup;
    CHECK_EQ(weft_mutex_lock(&left_mutexes[0]), 0);
    weft_cleanup_push(&cleanup, unlock_by_cleanup, &left_mutexes[0]);
    weft_fail(-EIO, "as planned");
}

static intptr_t end_with_mutexes(void *arg)
{
    (void)arg;
    struct sync_wait wait = {lock, &left_mutexes[0], WEFT_WAIT_MUTEX};
    CHECK_EQ(weft_await(go(return_with_it, NULL)), 7);
    CHECK_EQ(weft_mutex_is_locked(&left_mutexes[0]), 0);
    CHECK_EQ(weft_mutex_lock(&left_mutexes[0]), 0);
    weft_task *next = go(call_wait, &wait); /* waits, gets it, ends with it */
    wait_until_blocked_in(next, &wait);
    weft_task *failing = go(fail_with_two, NULL);
    CHECK_EQ(weft_mutex_unlock(&left_mutexes[0]), 0);
    CHECK_EQ(weft_await(next), 0);
    CHECK_EQ(weft_await(failing), -EIO);
    CHECK_EQ(weft_await(go(fail_with_cleanup, NULL)), -EIO);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_mutex_is_locked(&left_mutexes[i]), 0);
    }
    return 0;
}

/* behaviour 31 */
static void mutex_held_by_an_ending_task_is_unlocked_and_reported(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct report report = {.error = 0};
        tour.options.on_failure = keep_report;
        tour.options.hook_context = &report;
        CHECK_EQ(weft_run(end_with_mutexes, NULL, &tour.options), 0);
        CHECK_EQ(wf_load_acquire(&report.count), 3); /* once per task, with one or two locks */
        CHECK_EQ(report.error, -EOWNERDEAD);
        CHECK(strstr(report.message, "lock") != NULL);
    }
}

static int lock_and_sleep(void *mutex)
{
    CHECK_EQ(weft_mutex_lock(mutex), 0);
    return weft_sleep_until(WEFT_NEVER);
}

/* A thread outside gets the mutex that the forced close released. */
static void mutex_forced_close_unlocks_what_the_task_holds(void)
{
    static weft_mutex mutex;
    struct sync_wait wait = {lock_and_sleep, &mutex, WEFT_WAIT_TIME};
    struct report report = {.error = 0};
    const weft_runtime_options options = {
        .workers = 2, .on_failure = keep_report, .hook_context = &report};
    struct blocked blocked = {.runtime = NULL};
    CHECK_EQ(weft_runtime_open(&blocked.runtime, &options), 0);
    blocked.task = go_into(blocked.runtime, call_wait_shielded, &wait);
    wait_for_state(blocked.task, WEFT_TASK_BLOCKED);
    pthread_t thread = start_thread(lock_and_unlock_outside, &mutex);
    wait_for_length(&mutex, 1);
    close_by_force(&blocked);
    join_thread(thread);
    CHECK_EQ(wf_load_acquire(&report.count), 1);
    CHECK_EQ(report.error, -EOWNERDEAD);
}

/* A mutex in memory that is freed with the task that holds it. */
struct block {
    weft_mutex mutex;
    weft_mutex **where;
    wf_atomic_u32 *is_there;
};

static intptr_t lock_and_keep_block(void *arg)
{
    struct block *block = arg; /* the task's own copy */
    CHECK_EQ(weft_shield_begin(), 0);
    CHECK_EQ(weft_mutex_lock(&block->mutex), 0);
    *block->where = &block->mutex;
    raise_by_one(block->is_there);
    return weft_sleep_until(WEFT_NEVER);
}

static void mutex_forced_close_ends_waits_before_freeing_memory(void)
{
    enum { HEIRS = 2 };
    struct report report = {.error = 0};
    const weft_runtime_options options = {
        .workers = 2, .on_failure = keep_report, .hook_context = &report};
    weft_mutex *mutexes[HEIRS];
    struct sync_wait waits[HEIRS];
    weft_task *heirs[HEIRS];
    wf_atomic_u32 is_there = {0};
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (uint32_t i = 0; i < HEIRS; i++) {
        struct block block = {.where = &mutexes[i], .is_there = &is_there};
        const weft_task_options copied = {.arg_copy = sizeof(block)};
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, lock_and_keep_block, &block, &copied), 0);
        wait_for(&is_there, i + 1);
    }
    for (uint32_t i = 0; i < HEIRS; i++) {
        waits[i] = (struct sync_wait){lock, mutexes[i], WEFT_WAIT_MUTEX};
        heirs[i] = go_into(runtime, call_wait_shielded, &waits[i]);
        wait_for_state(heirs[i], WEFT_TASK_BLOCKED);
    }
    CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    for (uint32_t i = 0; i < HEIRS; i++) {
        CHECK_EQ(weft_await(heirs[i]), -ECANCELED);
    }
    CHECK_EQ(wf_load_acquire(&report.count), HEIRS);
}

static void print_a_report(void)
{
    CHECK_EQ(weft_run(return_with_it, NULL, &(weft_runtime_options){.workers = 1}), 7);
}

static void mutex_left_locked_prints_a_line_without_hook(void)
{
    char text[256];
    CHECK_EQ(tap_run_child(print_a_report, text, sizeof(text)), 0);
    CHECK(strstr(text, "\"main\" ended with locks held: EOWNERDEAD: it held 1 lock") != NULL);
}

static const struct tap_test tests[] = {
    TAP_TEST(mutex_refuses_wrong_calls),
    TAP_TEST(mutex_several_unlock_in_any_order),
    TAP_TEST_LIMIT(mutex_unlock_oldest_of_many_takes_constant_time, 60),
    TAP_TEST(mutex_owned_locks_are_listed_in_any_order_of_release),
    TAP_TEST_LIMIT(mutex_excludes_tasks_and_threads, 60),
    TAP_TEST(mutex_waiter_blocks_no_thread),
    TAP_TEST(mutex_hands_off_to_a_starved_waiter),
    TAP_TEST(mutex_wait_ends_by_cancel_and_deadline),
    TAP_TEST(mutex_lock_without_wait_succeeds_though_cancelled),
    TAP_TEST(mutex_cancel_racing_unlock_wakes_the_next_waiter),
    TAP_TEST(mutex_waiter_cancelled_after_lost_race_leaves_the_queue),
    TAP_TEST(mutex_forced_close_removes_the_waiter),
    TAP_TEST(mutex_forced_close_of_a_woken_waiter_wakes_the_next),
    TAP_TEST(mutex_held_by_an_ending_task_is_unlocked_and_reported),
    TAP_TEST(mutex_forced_close_unlocks_what_the_task_holds),
    TAP_TEST(mutex_forced_close_ends_waits_before_freeing_memory),
    TAP_TEST(mutex_left_locked_prints_a_line_without_hook),
};
TAP_MAIN(tests)
