/* SPDX-License-Identifier: MIT */
/*
 * Goal:   readers share the lock, a writer excludes all others, and neither starves the other,
 *         whatever happens to the waiters.
 * Method: counts by hand; tasks and threads outside the runtime that read and change plain data;
 *         every wrong call; a cancel, a deadline and a forced close at each wait.
 */
#include "sync/sync.h"
#include "sync_helpers.h"

static int read_lock(void *rwlock)
{
    return weft_rwlock_rdlock(rwlock);
}

static int write_lock(void *rwlock)
{
    return weft_rwlock_wrlock(rwlock);
}

static void *misuse_from_outside(void *rwlock)
{
    CHECK_EQ(weft_rwlock_unlock(rwlock), -EPERM); /* another thread holds it for writing */
    CHECK_EQ(weft_rwlock_try_rdlock(rwlock), -EAGAIN);
    CHECK_EQ(weft_rwlock_try_wrlock(rwlock), -EAGAIN);
    return NULL;
}

/* No runtime is open here: the try calls need none. */
static void rwlock_refuses_wrong_calls(void)
{
    static weft_rwlock rwlock;
    CHECK_EQ(weft_rwlock_unlock(&rwlock), -EPERM);
    CHECK_EQ(weft_rwlock_try_rdlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_rdlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_try_wrlock(&rwlock), -EAGAIN);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), -EPERM);
    CHECK_EQ(weft_rwlock_wrlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_wrlock(&rwlock), -EDEADLK);
    CHECK_EQ(weft_rwlock_rdlock(&rwlock), -EDEADLK);
    join_thread(start_thread(misuse_from_outside, &rwlock));
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_try_wrlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
}

static wf_atomic_u32 has_other_run;

static intptr_t note_run(void *arg)
{
    wf_store_relaxed(&has_other_run, 1); /* relaxed: only the flag is read */
    return (intptr_t)arg;
}

static int try_read_lock(void *rwlock)
{
    return weft_rwlock_try_rdlock(rwlock);
}

static int try_write_lock(void *rwlock)
{
    return weft_rwlock_try_wrlock(rwlock);
}

static intptr_t take_free_lock_in_loop(void *arg)
{
    (void)arg;
    static int (*const calls[])(void *) = {read_lock, write_lock, try_read_lock, try_write_lock};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        tap_doing("call %d", (int)i);
        weft_rwlock rwlock = {{0}};
        wf_store_relaxed(&has_other_run, 0);
        weft_task *other = go(note_run, NULL);
        /* Hostile builds may let the caller run again after a yield, but not 32 times in a row. */
        const int rounds = HAS_ORDER ? 1 : 32;
        for (int calls_left = rounds * (int)WF_TASK_BUDGET; calls_left > 0; calls_left--) {
            CHECK_EQ(calls[i](&rwlock), 0);
            CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
        }
        CHECK_EQ(wf_load_relaxed(&has_other_run), 1);
        CHECK_EQ(weft_await(other), 0);
    }
    return 0;
}

/* A task that takes a free lock again and again uses up its budget, and yields to the other task of
 * the only worker. */
static void rwlock_taking_a_free_lock_costs_budget(void)
{
    const weft_runtime_options options = {.workers = 1};
    CHECK_EQ(weft_run(take_free_lock_in_loop, NULL, &options), 0);
}

static intptr_t keep_order(void *arg)
{
    (void)arg;
    weft_rwlock rwlock = {{0}};
    weft_mutex mutex = {{0}};
    struct sync_wait reading = {read_lock, &rwlock, WEFT_WAIT_RWLOCK};
    CHECK_EQ(weft_rwlock_rdlock(&rwlock), 0);
    weft_task *writer = NULL;
    struct sync_wait writing = {write_lock, &rwlock, WEFT_WAIT_RWLOCK};
    writer = go(call_wait, &writing);
    wait_until_blocked_in(writer, &writing);
    weft_task *readers[2];
    for (int i = 0; i < 2; i++) { /* behind the writer, although readers hold the lock */
        readers[i] = go(call_wait, &reading);
        wait_until_blocked_in(readers[i], &reading);
    }
    CHECK_EQ(weft_rwlock_try_rdlock(&rwlock), -EAGAIN);
    CHECK_EQ(weft_cancel(writer), 0);
    /* the writer was the only reason why the readers waited */
    CHECK_EQ(weft_await(writer), -ECANCELED);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_await(readers[i]), 0);
        CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    }
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    /* unlocked in another order than locked */
    CHECK_EQ(weft_rwlock_wrlock(&rwlock), 0);
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), -EPERM);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    return 0;
}

static void rwlock_waiting_writer_precedes_later_readers(void)
{
    run_under(EVERYWHERE, keep_order);
}

static intptr_t end_waits(void *arg)
{
    (void)arg;
    weft_rwlock rwlock = {{0}};
    struct sync_wait reading = {read_lock, &rwlock, WEFT_WAIT_RWLOCK};
    struct sync_wait writing = {write_lock, &rwlock, WEFT_WAIT_RWLOCK};
    CHECK_EQ(weft_rwlock_rdlock(&rwlock), 0);
    check_ends_of_wait(&writing);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_wrlock(&rwlock), 0);
    check_ends_of_wait(&reading);
    check_ends_of_wait(&writing);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_try_wrlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    return 0;
}

/* part of behaviour 32 */
static void rwlock_wait_ends_by_cancel_and_deadline(void)
{
    run_under(EVERYWHERE, end_waits);
}

/* ---- stress ---------------------------------------------------------------------------------- */

enum { ROUNDS = 1500, MANY_TASKS = 6 };

struct page {
    weft_rwlock rwlock;
    uint64_t text[4]; /* plain: all equal, except while a writer holds the lock */
    uint32_t rounds;
};

static void read_page(struct page *page)
{
    CHECK_EQ(weft_rwlock_rdlock(&page->rwlock), 0);
    const uint64_t first = page->text[0];
    for (int i = 1; i < 4; i++) {
        CHECK_EQ(page->text[i], first);
    }
    CHECK_EQ(weft_rwlock_unlock(&page->rwlock), 0);
}

static void write_page(struct page *page, bool is_slow)
{
    CHECK_EQ(weft_rwlock_wrlock(&page->rwlock), 0);
    for (int i = 0; i < 4; i++) {
        page->text[i]++;
        if (is_slow && i == 1) {
            let_others_run();
        }
    }
    CHECK_EQ(weft_rwlock_unlock(&page->rwlock), 0);
}

static intptr_t read_often(void *arg)
{
    struct page *page = arg;
    for (uint32_t i = 0; i < page->rounds; i++) {
        read_page(page);
    }
    return 0;
}

static intptr_t write_often(void *arg)
{
    struct page *page = arg;
    for (uint32_t i = 0; i < page->rounds; i++) {
        write_page(page, i % 16 == 0);
    }
    return 0;
}

static void *use_outside(void *arg)
{
    struct page *page = arg;
    for (uint32_t i = 0; i < page->rounds; i++) {
        read_page(page);
        write_page(page, false);
    }
    return NULL;
}

static void use_page(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct page page = {.rounds = ROUNDS / MANY_TASKS};
    weft_task *tasks[MANY_TASKS];
    for (int i = 0; i < MANY_TASKS; i++) {
        tasks[i] = go_into(runtime, i % 3 == 0 ? write_often : read_often, &page);
    }
    pthread_t thread = start_thread(use_outside, &page);
    CHECK_EQ(weft_await_all(tasks, MANY_TASKS, NULL), 0);
    join_thread(thread);
    CHECK_EQ(page.text[0], 3 * page.rounds);
    CHECK_EQ(weft_rwlock_try_wrlock(&page.rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&page.rwlock), 0);
}

static void rwlock_writers_exclude_all_and_readers_see_whole_data(void)
{
    open_under(EVERYWHERE, use_page);
}

/* ---- forced close ---------------------------------------------------------------------------- */

static void *read_outside(void *rwlock)
{
    CHECK_EQ(weft_rwlock_rdlock(rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(rwlock), 0);
    return NULL;
}

static void wait_for_length(weft_rwlock *rwlock, unsigned length)
{
    struct wf_rwlock *inner = (struct wf_rwlock *)(void *)rwlock;
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

static void rwlock_forced_close_grants_the_waiters_behind(void)
{
    static weft_rwlock rwlock;
    struct sync_wait wait = {write_lock, &rwlock, WEFT_WAIT_RWLOCK};
    struct blocked blocked;
    CHECK_EQ(weft_rwlock_rdlock(&rwlock), 0);
    start_blocked(&blocked, &wait);
    pthread_t thread = start_thread(read_outside, &rwlock);
    wait_for_length(&rwlock, 2);
    close_by_force(&blocked);
    join_thread(thread);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
}

static void rwlock_forced_close_passes_the_grant_on(void)
{
    static weft_rwlock rwlock;
    struct sync_wait wait = {write_lock, &rwlock, WEFT_WAIT_RWLOCK};
    struct blocked blocked;
    CHECK_EQ(weft_rwlock_wrlock(&rwlock), 0);
    start_blocked(&blocked, &wait);
    occupy_worker(&blocked);
    pthread_t thread = start_thread(read_outside, &rwlock);
    wait_for_length(&rwlock, 2);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0); /* granted to the task, which never runs again */
    CHECK_EQ(weft_rwlock_try_rdlock(&rwlock), -EAGAIN);
    close_by_force(&blocked);
    join_thread(thread);
}

static void count_report(void *context, const weft_failure *failure)
{
    CHECK_EQ(failure->error, -EOWNERDEAD);
    raise_by_one(context);
}

static intptr_t end_while_writing(void *rwlock)
{
    return weft_rwlock_wrlock(rwlock);
}

static void rwlock_ending_writer_is_unlocked(void)
{
    static weft_rwlock rwlock;
    wf_atomic_u32 reports = {0};
    const weft_runtime_options options = {
        .workers = 1, .on_failure = count_report, .hook_context = &reports};
    CHECK_EQ(weft_run(end_while_writing, &rwlock, &options), 0);
    CHECK_EQ(wf_load_acquire(&reports), 1);
    CHECK_EQ(weft_rwlock_try_wrlock(&rwlock), 0);
}

static intptr_t end_while_reading(void *rwlock)
{
    CHECK_EQ(weft_rwlock_rdlock(rwlock), 0);
    return 0;
}

static void unlock_it(void *rwlock)
{
    CHECK_EQ(weft_rwlock_unlock(rwlock), 0);
}

static intptr_t fail_while_reading(void *rwlock)
{
    weft_cleanup cleanup;
    CHECK_EQ(weft_rwlock_rdlock(rwlock), 0);
    weft_cleanup_push(&cleanup, unlock_it, rwlock);
    weft_fail(-EIO, "while it reads");
}

static intptr_t clean_up_after_readers(void *arg)
{
    (void)arg;
    weft_rwlock rwlock = {{0}};
    CHECK_EQ(weft_await(go(end_while_reading, &rwlock)), 0);
    CHECK_EQ(weft_rwlock_try_rdlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_try_wrlock(&rwlock), -EAGAIN);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_try_wrlock(&rwlock), -EAGAIN); /* the task holds it for reading */
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_await(go(fail_while_reading, &rwlock)), -EIO);
    CHECK_EQ(weft_rwlock_try_wrlock(&rwlock), 0);
    return weft_rwlock_unlock(&rwlock);
}

/* As sync.h says: the lock does not record its readers. */
static void rwlock_ending_reader_is_not_unlocked(void)
{
    run_under(EVERYWHERE, clean_up_after_readers);
}

static const struct tap_test tests[] = {
    TAP_TEST(rwlock_refuses_wrong_calls),
    TAP_TEST(rwlock_taking_a_free_lock_costs_budget),
    TAP_TEST(rwlock_waiting_writer_precedes_later_readers),
    TAP_TEST(rwlock_wait_ends_by_cancel_and_deadline),
    TAP_TEST_LIMIT(rwlock_writers_exclude_all_and_readers_see_whole_data, 60),
    TAP_TEST(rwlock_forced_close_grants_the_waiters_behind),
    TAP_TEST(rwlock_forced_close_passes_the_grant_on),
    TAP_TEST(rwlock_ending_writer_is_unlocked),
    TAP_TEST(rwlock_ending_reader_is_not_unlocked),
};
TAP_MAIN(tests)
