/* SPDX-License-Identifier: MIT */
/*
 * Goal:   readers have the lock together, a writer has it alone, and neither is starved by the
 *         other, whatever happens to those who wait.
 * Method: counts by hand; tasks and foreign threads that read and change plain data; every wrong
 *         call; a cancel, a deadline and a forced close at each place where one waits.
 */
#include "sync/sync.h"
#include "sync_aids.h"

static int read_lock(void *rwlock)
{
    return weft_rwlock_read(rwlock);
}

static int write_lock(void *rwlock)
{
    return weft_rwlock_write(rwlock);
}

static void *misuse_from_outside(void *rwlock)
{
    CHECK_EQ(weft_rwlock_unlock(rwlock), -EPERM); /* somebody else writes */
    CHECK_EQ(weft_rwlock_try_read(rwlock), -EAGAIN);
    CHECK_EQ(weft_rwlock_try_write(rwlock), -EAGAIN);
    return NULL;
}

/* There is no runtime here: the try tier needs none. */
static void wrong_calls_are_refused(void)
{
    static weft_rwlock rwlock;
    CHECK_EQ(weft_rwlock_unlock(&rwlock), -EPERM);
    CHECK_EQ(weft_rwlock_try_read(&rwlock), 0);
    CHECK_EQ(weft_rwlock_read(&rwlock), 0);
    CHECK_EQ(weft_rwlock_try_write(&rwlock), -EAGAIN);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), -EPERM);
    CHECK_EQ(weft_rwlock_write(&rwlock), 0);
    CHECK_EQ(weft_rwlock_write(&rwlock), -EDEADLK);
    CHECK_EQ(weft_rwlock_read(&rwlock), -EDEADLK);
    join_thread(start_thread(misuse_from_outside, &rwlock));
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_try_write(&rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_read(NULL), -EINVAL);
    CHECK_EQ(weft_rwlock_write(NULL), -EINVAL);
    CHECK_EQ(weft_rwlock_try_read(NULL), -EINVAL);
    CHECK_EQ(weft_rwlock_try_write(NULL), -EINVAL);
    CHECK_EQ(weft_rwlock_unlock(NULL), -EINVAL);
}

static intptr_t keep_order(void *arg)
{
    (void)arg;
    weft_rwlock rwlock = {{0}};
    weft_mutex mutex = {{0}};
    struct sync_wait reading = {read_lock, &rwlock, WEFT_WAIT_RWLOCK};
    CHECK_EQ(weft_rwlock_read(&rwlock), 0);
    weft_task *writer = NULL;
    struct sync_wait writing = {write_lock, &rwlock, WEFT_WAIT_RWLOCK};
    writer = go(call_it, &writing);
    wait_until_inside(writer, &writing);
    weft_task *readers[2];
    for (int i = 0; i < 2; i++) { /* behind the writer, though others read */
        readers[i] = go(call_it, &reading);
        wait_until_inside(readers[i], &reading);
    }
    CHECK_EQ(weft_rwlock_try_read(&rwlock), -EAGAIN);
    CHECK_EQ(weft_cancel(writer), 0);
    CHECK_EQ(weft_await(writer), -ECANCELED); /* the readers were kept by it alone */
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_await(readers[i]), 0);
        CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    }
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    /* unlocked in another order than locked */
    CHECK_EQ(weft_rwlock_write(&rwlock), 0);
    CHECK_EQ(weft_mutex_lock(&mutex), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), -EPERM);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);
    return 0;
}

static void a_writer_that_waits_goes_before_later_readers(void)
{
    run_under(EVERYWHERE, keep_order);
}

static intptr_t end_waits(void *arg)
{
    (void)arg;
    weft_rwlock rwlock = {{0}};
    struct sync_wait reading = {read_lock, &rwlock, WEFT_WAIT_RWLOCK};
    struct sync_wait writing = {write_lock, &rwlock, WEFT_WAIT_RWLOCK};
    CHECK_EQ(weft_rwlock_read(&rwlock), 0);
    check_ends_of_wait(&writing);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_write(&rwlock), 0);
    check_ends_of_wait(&reading);
    check_ends_of_wait(&writing);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_try_write(&rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    return 0;
}

/* part of behaviour 32 */
static void a_wait_ends_by_cancel_and_by_deadline(void)
{
    run_under(EVERYWHERE, end_waits);
}

/* ---- storms ---------------------------------------------------------------------------------- */

enum { ROUNDS = 1500, CROWD = 6 };

struct page {
    weft_rwlock rwlock;
    uint64_t text[4]; /* plain: all alike, but while somebody writes */
    uint32_t rounds;
};

static void read_page(struct page *page)
{
    CHECK_EQ(weft_rwlock_read(&page->rwlock), 0);
    const uint64_t first = page->text[0];
    for (int i = 1; i < 4; i++) {
        CHECK_EQ(page->text[i], first);
    }
    CHECK_EQ(weft_rwlock_unlock(&page->rwlock), 0);
}

static void write_page(struct page *page, bool is_dawdling)
{
    CHECK_EQ(weft_rwlock_write(&page->rwlock), 0);
    for (int i = 0; i < 4; i++) {
        page->text[i]++;
        if (is_dawdling && i == 1) {
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
    struct page page = {.rounds = ROUNDS / CROWD};
    weft_task *tasks[CROWD];
    for (int i = 0; i < CROWD; i++) {
        tasks[i] = go_into(runtime, i % 3 == 0 ? write_often : read_often, &page);
    }
    pthread_t thread = start_thread(use_outside, &page);
    CHECK_EQ(weft_await_all(tasks, CROWD, NULL), 0);
    join_thread(thread);
    CHECK_EQ(page.text[0], 3 * page.rounds);
    CHECK_EQ(weft_rwlock_try_write(&page.rwlock), 0);
    CHECK_EQ(weft_rwlock_unlock(&page.rwlock), 0);
}

static void writers_are_alone_and_readers_see_what_is_whole(void)
{
    open_under(EVERYWHERE, use_page);
}

/* ---- forced ends ----------------------------------------------------------------------------- */

static void *read_outside(void *rwlock)
{
    CHECK_EQ(weft_rwlock_read(rwlock), 0);
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

static void a_forced_close_lets_those_behind_go_on(void)
{
    static weft_rwlock rwlock;
    struct sync_wait wait = {write_lock, &rwlock, WEFT_WAIT_RWLOCK};
    struct doomed doomed;
    CHECK_EQ(weft_rwlock_read(&rwlock), 0);
    doom(&doomed, &wait);
    pthread_t thread = start_thread(read_outside, &rwlock);
    wait_for_length(&rwlock, 2);
    close_by_force(&doomed);
    join_thread(thread);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
}

static void a_forced_close_passes_a_grant_on(void)
{
    static weft_rwlock rwlock;
    struct sync_wait wait = {write_lock, &rwlock, WEFT_WAIT_RWLOCK};
    struct doomed doomed;
    CHECK_EQ(weft_rwlock_write(&rwlock), 0);
    doom(&doomed, &wait);
    keep_busy(&doomed);
    pthread_t thread = start_thread(read_outside, &rwlock);
    wait_for_length(&rwlock, 2);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0); /* the task's, which never runs again */
    CHECK_EQ(weft_rwlock_try_read(&rwlock), -EAGAIN);
    close_by_force(&doomed);
    join_thread(thread);
}

static void count_report(void *context, const weft_failure *failure)
{
    CHECK_EQ(failure->error, -EOWNERDEAD);
    raise_by_one(context);
}

static intptr_t end_while_writing(void *rwlock)
{
    return weft_rwlock_write(rwlock);
}

static void a_task_that_ends_while_it_writes_unlocks(void)
{
    static weft_rwlock rwlock;
    wf_atomic_u32 reports = {0};
    const weft_options options = {
        .workers = 1, .on_failure = count_report, .hook_context = &reports};
    CHECK_EQ(weft_run(end_while_writing, &rwlock, &options), 0);
    CHECK_EQ(wf_load_acquire(&reports), 1);
    CHECK_EQ(weft_rwlock_try_write(&rwlock), 0);
}

static intptr_t end_while_reading(void *rwlock)
{
    CHECK_EQ(weft_rwlock_read(rwlock), 0);
    return 0;
}

static void unlock_it(void *rwlock)
{
    CHECK_EQ(weft_rwlock_unlock(rwlock), 0);
}

static intptr_t fail_while_reading(void *rwlock)
{
    weft_cleanup cleanup;
    CHECK_EQ(weft_rwlock_read(rwlock), 0);
    weft_cleanup_push(&cleanup, unlock_it, rwlock);
    weft_fail(-EIO, "while it reads");
}

static intptr_t clean_up_after_readers(void *arg)
{
    (void)arg;
    weft_rwlock rwlock = {{0}};
    CHECK_EQ(weft_await(go(end_while_reading, &rwlock)), 0);
    CHECK_EQ(weft_rwlock_try_read(&rwlock), 0);
    CHECK_EQ(weft_rwlock_try_write(&rwlock), -EAGAIN);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_rwlock_try_write(&rwlock), -EAGAIN); /* that of the task */
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);
    CHECK_EQ(weft_await(go(fail_while_reading, &rwlock)), -EIO);
    CHECK_EQ(weft_rwlock_try_write(&rwlock), 0);
    return weft_rwlock_unlock(&rwlock);
}

/* As sync.h says: nobody knows who reads. */
static void a_task_that_ends_while_it_reads_needs_somebody_to_unlock(void)
{
    run_under(EVERYWHERE, clean_up_after_readers);
}

static const struct tap_test tests[] = {
    TAP_TEST(wrong_calls_are_refused),
    TAP_TEST(a_writer_that_waits_goes_before_later_readers),
    TAP_TEST(a_wait_ends_by_cancel_and_by_deadline),
    TAP_TEST_LIMIT(writers_are_alone_and_readers_see_what_is_whole, 60),
    TAP_TEST(a_forced_close_lets_those_behind_go_on),
    TAP_TEST(a_forced_close_passes_a_grant_on),
    TAP_TEST(a_task_that_ends_while_it_writes_unlocks),
    TAP_TEST(a_task_that_ends_while_it_reads_needs_somebody_to_unlock),
};
TAP_MAIN(tests)
