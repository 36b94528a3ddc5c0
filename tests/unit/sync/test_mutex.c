/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a mutex belongs to one task or thread at a time, and says so to who misuses it; nobody
 *         waits for ever, whatever happens to others who wait, or to the one who has it.
 * Method: tasks and foreign threads that change plain data under it; every wrong call; a cancel, a
 *         deadline and a forced close at each place where one waits or holds; tasks that end and
 *         hold mutexes.  The model of the same file is tests/model/model_mutex.c.
 */
#include <string.h>

#include "sync/sync.h"
#include "sync_aids.h"

static int lock(void *mutex)
{
    return weft_mutex_lock(mutex);
}

/* ---- single calls ---------------------------------------------------------------------------- */

static void *misuse_from_outside(void *arg)
{
    weft_mutex *mutex = arg; /* another thread has it */
    CHECK_EQ(weft_mutex_try_lock(mutex), -EAGAIN);
    CHECK_EQ(weft_mutex_unlock(mutex), -EPERM);
    CHECK_EQ(weft_mutex_is_locked(mutex), 1);
    return NULL;
}

/* There is no runtime here: the try tier needs none.  Part of behaviour 53: who does not have it
 * cannot unlock it, and nobody locks it twice. */
static void wrong_calls_are_refused(void)
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
    CHECK_EQ(weft_mutex_lock(NULL), -EINVAL);
    CHECK_EQ(weft_mutex_try_lock(NULL), -EINVAL);
    CHECK_EQ(weft_mutex_unlock(NULL), -EINVAL);
    CHECK_EQ(weft_mutex_is_locked(NULL), -EINVAL);
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
    static const int order[COUNT] = {1, 3, 0, 2}; /* not the reverse */
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(weft_mutex_unlock(&mutexes[order[i]]), 0);
        CHECK_EQ(weft_mutex_unlock(&mutexes[order[i]]), -EPERM);
        CHECK_EQ(weft_mutex_is_locked(&mutexes[order[i]]), 0);
    }
    return 0;
}

/* part of behaviour 53, in tasks */
static void several_are_held_and_unlocked_in_any_order(void)
{
    run_under(EVERYWHERE, hold_several);
}

/* ---- one at a time --------------------------------------------------------------------------- */

enum { ROUNDS = 3000, CROWD = 6 };

struct account {
    weft_mutex mutex;
    uint64_t sum;  /* plain: under the mutex */
    uint64_t twin; /* plain: the same number as sum, but between lock and unlock */
    uint32_t rounds;
};

static void deposit(struct account *account, bool is_dawdling)
{
    for (uint32_t i = 0; i < account->rounds; i++) {
        CHECK_EQ(weft_mutex_lock(&account->mutex), 0);
        CHECK_EQ(account->sum, account->twin);
        account->sum++;
        if (is_dawdling && i % 16 == 0) {
            let_others_run(); /* who has it may wait, and move to another thread */
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

static intptr_t deposit_slowly(void *arg)
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
        while (weft_mutex_try_lock(&account->mutex) != 0) { /* it lets others run by itself */
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
    static const weft_fn kinds[] = {deposit_quickly, deposit_slowly, deposit_trying};
    struct account account = {.rounds = ROUNDS / CROWD};
    weft_task *tasks[CROWD];
    for (int i = 0; i < CROWD; i++) {
        tasks[i] = go_into(runtime, kinds[i % 3], &account);
    }
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        threads[i] = start_thread(deposit_outside, &account);
    }
    CHECK_EQ(weft_await_all(tasks, CROWD, NULL), 0);
    for (int i = 0; i < 2; i++) {
        join_thread(threads[i]);
    }
    CHECK_EQ(account.sum, (CROWD + 2) * account.rounds);
    CHECK_EQ(weft_mutex_is_locked(&account.mutex), 0);
}

/* S1.17, and the part of S1.20 that lies here: an unlock, by whatever worker, wakes who waits, also
 * if it comes before the wait has begun. */
static void tasks_and_threads_have_it_one_at_a_time(void)
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
    weft_task *blocked = go(call_it, &wait);
    wait_until_inside(blocked, &wait);
    weft_task *beside = go(run_beside, &two); /* on one worker: its thread is not blocked */
    CHECK_EQ(weft_await(beside), 0);
    CHECK_EQ(wf_load_acquire(&two.others), 1);
    CHECK_EQ(state_of(blocked), WEFT_BLOCKED);
    CHECK_EQ(weft_cancel(blocked), 0);
    CHECK_EQ(weft_await(blocked), -ECANCELED);
    CHECK_EQ(weft_mutex_unlock(&two.mutex), 0);
    return 0;
}

/* S0.28 */
static void who_waits_blocks_no_thread(void)
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
            let_others_run(); /* whoever waits comes too late, again and again */
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

/* part of behaviour 53: one that came too late has it handed over */
static void who_waits_gets_its_turn(void)
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
static void a_wait_ends_by_cancel_and_by_deadline(void)
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

static void who_need_not_wait_succeeds_though_cancelled(void)
{
    run_under(EVERYWHERE, cancel_one_that_need_not_wait);
}

static intptr_t lock_or_leave(void *arg)
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
            tasks[j] = go(lock_or_leave, &account);
        }
        if (i % 2 == 0) {
            (void)weft_yield(); /* they wait, or some do */
        }
        CHECK_EQ(weft_cancel(tasks[i % COUNT]), 0);
        CHECK_EQ(weft_mutex_unlock(&account.mutex), 0);
        CHECK_EQ(weft_cancel(tasks[(i + 1) % COUNT]), 0);
        if (i % 3 == 0) { /* those who were told to try come too late, some of them cancelled */
            CHECK_EQ(weft_mutex_lock(&account.mutex), 0);
            (void)weft_yield();
            CHECK_EQ(weft_mutex_unlock(&account.mutex), 0);
        }
        CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0); /* all have left, so none was forgotten */
        CHECK(account.sum >= COUNT - 2);
        CHECK_EQ(weft_mutex_is_locked(&account.mutex), 0);
    }
    return 0;
}

/* Behaviour 53: who is cancelled when it has just been told to try lets the next one try. */
static void a_cancel_that_meets_an_unlock_forgets_nobody(void)
{
    run_under(EVERYWHERE, cancel_while_unlocking);
}

/* [any]  So many stand in its queue. */
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

/* One worker, nothing else runs: the order is ours. */
static intptr_t come_too_late(void *arg)
{
    (void)arg;
    weft_mutex mutex = {{0}};
    struct sync_wait wait = {lock, &mutex, WEFT_WAIT_MUTEX};
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    weft_task *late = go(call_it, &wait);
    wait_for_length(&mutex, 1);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0); /* it is told to try */
    CHECK_EQ(weft_mutex_lock(&mutex), 0);   /* but we are faster */
    CHECK_EQ(weft_cancel(late), 0);
    CHECK_EQ(weft_await(late), -ECANCELED);
    wait_for_length(&mutex, 0);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    CHECK_EQ(weft_mutex_is_locked(&mutex), 0);
    return 0;
}

static void who_comes_too_late_and_is_cancelled_leaves(void)
{
    if (HAS_ORDER == 1) {
        run_under(ON_ONE_WORKER, come_too_late);
    }
}

/* ---- forced ends ----------------------------------------------------------------------------- */

static void *lock_and_unlock_outside(void *mutex)
{
    CHECK_EQ(weft_mutex_lock(mutex), 0);
    CHECK_EQ(weft_mutex_unlock(mutex), 0);
    return NULL;
}

static void a_forced_close_leaves_the_queue(void)
{
    static weft_mutex mutex;
    struct sync_wait wait = {lock, &mutex, WEFT_WAIT_MUTEX};
    struct doomed doomed;
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    doom(&doomed, &wait);
    pthread_t thread = start_thread(lock_and_unlock_outside, &mutex);
    wait_for_length(&mutex, 2);
    close_by_force(&doomed);
    wait_for_length(&mutex, 1);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    join_thread(thread);
}

/* Behaviour 53: the task was told to try, and never will. */
static void a_forced_close_passes_a_chance_on(void)
{
    static weft_mutex mutex;
    struct sync_wait wait = {lock, &mutex, WEFT_WAIT_MUTEX};
    struct doomed doomed;
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    doom(&doomed, &wait);
    keep_busy(&doomed);
    pthread_t thread = start_thread(lock_and_unlock_outside, &mutex);
    wait_for_length(&mutex, 2);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    wait_for_length(&mutex, 1); /* the thread waits on: somebody else is told to try */
    close_by_force(&doomed);
    join_thread(thread);
    CHECK_EQ(weft_mutex_is_locked(&mutex), 0);
}

/* ---- tasks that end and hold it -------------------------------------------------------------- */

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
    weft_task *next = go(call_it, &wait); /* waits, gets it, ends with it */
    wait_until_inside(next, &wait);
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
static void a_task_that_ends_unlocks_what_it_holds_and_is_reported(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        struct report report = {.error = 0};
        tour.options.on_failure = keep_report;
        tour.options.hook_context = &report;
        CHECK_EQ(weft_run(end_with_mutexes, NULL, &tour.options), 0);
        CHECK_EQ(wf_load_acquire(&report.count), 3); /* once for each task, with one or two */
        CHECK_EQ(report.error, -EOWNERDEAD);
        CHECK(strstr(report.message, "lock") != NULL);
    }
}

static int lock_and_sleep(void *mutex)
{
    CHECK_EQ(weft_mutex_lock(mutex), 0);
    return weft_sleep_until(WEFT_NEVER);
}

/* Whoever waits outside gets what the forced close took away. */
static void a_forced_close_unlocks_what_a_task_holds(void)
{
    static weft_mutex mutex;
    struct sync_wait wait = {lock_and_sleep, &mutex, WEFT_WAIT_TIME};
    struct report report = {.error = 0};
    const weft_options options = {.workers = 2, .on_failure = keep_report, .hook_context = &report};
    struct doomed doomed = {.runtime = NULL};
    CHECK_EQ(weft_runtime_open(&doomed.runtime, &options), 0);
    doomed.task = go_into(doomed.runtime, call_it_shielded, &wait);
    wait_for_state(doomed.task, WEFT_BLOCKED);
    pthread_t thread = start_thread(lock_and_unlock_outside, &mutex);
    wait_for_length(&mutex, 1);
    close_by_force(&doomed);
    join_thread(thread);
    CHECK_EQ(wf_load_acquire(&report.count), 1);
    CHECK_EQ(report.error, -EOWNERDEAD);
}

/* A mutex that lies in what is freed with the task that has it. */
struct heirloom {
    weft_mutex mutex;
    weft_mutex **where;
    wf_atomic_u32 *is_there;
};

static intptr_t keep_heirloom(void *arg)
{
    struct heirloom *heirloom = arg; /* a copy of its own */
    CHECK_EQ(weft_shield(1), 0);
    CHECK_EQ(weft_mutex_lock(&heirloom->mutex), 0);
    *heirloom->where = &heirloom->mutex;
    raise_by_one(heirloom->is_there);
    return weft_sleep_until(WEFT_NEVER);
}

static void a_forced_close_ends_waits_before_it_frees_anything(void)
{
    enum { HEIRS = 2 };
    struct report report = {.error = 0};
    const weft_options options = {.workers = 2, .on_failure = keep_report, .hook_context = &report};
    weft_mutex *mutexes[HEIRS];
    struct sync_wait waits[HEIRS];
    weft_task *heirs[HEIRS];
    wf_atomic_u32 is_there = {0};
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (uint32_t i = 0; i < HEIRS; i++) {
        struct heirloom heirloom = {.where = &mutexes[i], .is_there = &is_there};
        const weft_task_options copied = {.arg_copy = sizeof(heirloom)};
        CHECK_EQ(weft_runtime_spawn(runtime, NULL, keep_heirloom, &heirloom, &copied), 0);
        wait_for(&is_there, i + 1);
    }
    for (uint32_t i = 0; i < HEIRS; i++) {
        waits[i] = (struct sync_wait){lock, mutexes[i], WEFT_WAIT_MUTEX};
        heirs[i] = go_into(runtime, call_it_shielded, &waits[i]);
        wait_for_state(heirs[i], WEFT_BLOCKED);
    }
    CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    for (uint32_t i = 0; i < HEIRS; i++) {
        CHECK_EQ(weft_await(heirs[i]), -ECANCELED);
    }
    CHECK_EQ(wf_load_acquire(&report.count), HEIRS);
}

static void print_a_report(void)
{
    CHECK_EQ(weft_run(return_with_it, NULL, &(weft_options){.workers = 1}), 7);
}

static void without_a_hook_a_line_is_printed(void)
{
    char text[256];
    CHECK_EQ(tap_run_child(print_a_report, text, sizeof(text)), 0);
    CHECK(strstr(text, "main left locks: EOWNERDEAD: ended and held 1 lock") != NULL);
}

static const struct tap_test tests[] = {
    TAP_TEST(wrong_calls_are_refused),
    TAP_TEST(several_are_held_and_unlocked_in_any_order),
    TAP_TEST_LIMIT(tasks_and_threads_have_it_one_at_a_time, 60),
    TAP_TEST(who_waits_blocks_no_thread),
    TAP_TEST(who_waits_gets_its_turn),
    TAP_TEST(a_wait_ends_by_cancel_and_by_deadline),
    TAP_TEST(who_need_not_wait_succeeds_though_cancelled),
    TAP_TEST(a_cancel_that_meets_an_unlock_forgets_nobody),
    TAP_TEST(who_comes_too_late_and_is_cancelled_leaves),
    TAP_TEST(a_forced_close_leaves_the_queue),
    TAP_TEST(a_forced_close_passes_a_chance_on),
    TAP_TEST(a_task_that_ends_unlocks_what_it_holds_and_is_reported),
    TAP_TEST(a_forced_close_unlocks_what_a_task_holds),
    TAP_TEST(a_forced_close_ends_waits_before_it_frees_anything),
    TAP_TEST(without_a_hook_a_line_is_printed),
};
TAP_MAIN(tests)
