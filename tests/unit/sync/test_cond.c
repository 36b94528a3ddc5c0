/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a waiter of a condition variable sees each change that was signalled under the mutex, and
 *         holds the mutex again however the wait ended.
 * Method: a buffer of one item, between tasks and threads outside the runtime; wrong calls; a
 *         cancel and a deadline.
 */
#include "sync/sync.h"
#include "sync_helpers.h"

struct buffer {
    weft_mutex mutex;
    weft_cond not_empty;
    weft_cond not_full;
    int item; /* plain: under the mutex; 0: none */
    uint64_t sum;
    uint32_t rounds;
};

static void put(struct buffer *buffer, int item)
{
    CHECK_EQ(weft_mutex_lock(&buffer->mutex), 0);
    while (buffer->item != 0) {
        CHECK_EQ(weft_cond_wait(&buffer->not_full, &buffer->mutex), 0);
    }
    buffer->item = item;
    CHECK_EQ(weft_cond_signal(&buffer->not_empty), 0);
    CHECK_EQ(weft_mutex_unlock(&buffer->mutex), 0);
}

static void take(struct buffer *buffer)
{
    CHECK_EQ(weft_mutex_lock(&buffer->mutex), 0);
    while (buffer->item == 0) {
        CHECK_EQ(weft_cond_wait(&buffer->not_empty, &buffer->mutex), 0);
    }
    buffer->sum += (uint64_t)buffer->item;
    buffer->item = 0;
    CHECK_EQ(weft_mutex_unlock(&buffer->mutex), 0);
    CHECK_EQ(weft_cond_signal(&buffer->not_full), 0); /* with or without the mutex */
}

static intptr_t put_many(void *arg)
{
    struct buffer *buffer = arg;
    for (uint32_t i = 1; i <= buffer->rounds; i++) {
        put(buffer, (int)i);
    }
    return 0;
}

static intptr_t take_many(void *arg)
{
    struct buffer *buffer = arg;
    for (uint32_t i = 0; i < buffer->rounds; i++) {
        take(buffer);
    }
    return 0;
}

static void *put_outside(void *arg)
{
    (void)put_many(arg);
    return NULL;
}

static void *take_outside(void *arg)
{
    (void)take_many(arg);
    return NULL;
}

static void use_buffer(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct buffer buffer = {.rounds = 300};
    weft_task *tasks[4];
    for (int i = 0; i < 4; i++) {
        tasks[i] = go_into(runtime, i % 2 == 0 ? put_many : take_many, &buffer);
    }
    pthread_t putting = start_thread(put_outside, &buffer);
    pthread_t taking = start_thread(take_outside, &buffer);
    CHECK_EQ(weft_await_all(tasks, 4, NULL), 0);
    join_thread(putting);
    join_thread(taking);
    CHECK_EQ(buffer.sum, 3 * buffer.rounds * (buffer.rounds + 1) / 2);
}

static void cond_no_signalled_change_is_missed(void)
{
    open_under(EVERYWHERE, use_buffer);
}

static int wait_locked(void *arg)
{
    struct buffer *buffer = wf_container_of(arg, struct buffer, not_empty);
    CHECK_EQ(weft_mutex_lock(&buffer->mutex), 0);
    int rc = weft_cond_wait(&buffer->not_empty, &buffer->mutex);
    /* the waiter holds it, however the wait ended */
    CHECK_EQ(weft_mutex_unlock(&buffer->mutex), 0);
    return rc;
}

static intptr_t end_waits(void *arg)
{
    (void)arg;
    struct buffer buffer = {.item = 0};
    struct sync_wait wait = {wait_locked, &buffer.not_empty, WEFT_WAIT_CONDITION};
    check_ends_of_wait(&wait);
    CHECK_EQ(weft_mutex_is_locked(&buffer.mutex), 0);
    /* after a cancelled wait the task waits for the mutex behind a shield */
    weft_task *task = go(call_wait, &wait);
    wait_until_blocked_in(task, &wait);
    CHECK_EQ(weft_mutex_lock(&buffer.mutex), 0);
    CHECK_EQ(weft_cancel(task), 0);
    while (info_of(task).wait != WEFT_WAIT_MUTEX) {
        let_others_run();
    }
    CHECK_EQ(weft_mutex_unlock(&buffer.mutex), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    return 0;
}

/* part of behaviour 32 */
static void cond_wait_ended_by_cancel_or_deadline_holds_the_mutex(void)
{
    run_under(EVERYWHERE, end_waits);
}

static intptr_t broadcast(void *arg)
{
    (void)arg;
    enum { COUNT = 20 };
    struct buffer buffer = {.item = 0};
    struct sync_wait wait = {wait_locked, &buffer.not_empty, WEFT_WAIT_CONDITION};
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(call_wait, &wait);
        wait_until_blocked_in(tasks[i], &wait);
    }
    CHECK_EQ(weft_cond_signal(&buffer.not_empty), 0);
    CHECK_EQ(weft_await(tasks[0]), 0); /* the waiter that waits longest */
    CHECK_EQ(state_of(tasks[1]), WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_cond_broadcast(&buffer.not_empty), 0);
    CHECK_EQ(weft_await_all(tasks + 1, COUNT - 1, NULL), 0);
    return 0;
}

static void cond_signal_wakes_the_first_and_broadcast_all(void)
{
    run_under(EVERYWHERE, broadcast);
}

/* ---- forced close ---------------------------------------------------------------------------- */

static unsigned length_of(struct wf_waitq *queue)
{
    unsigned length = 0;
    wf_lock_acquire(&queue->lock);
    for (const struct wf_wait_node *node = queue->first; node != NULL; node = node->next) {
        length++;
    }
    wf_lock_release(&queue->lock);
    return length;
}

static void wait_for_length(struct wf_waitq *queue, unsigned length)
{
    while (length_of(queue) != length) {
        (void)sched_yield();
    }
}

static struct wf_waitq *queue_of(struct buffer *buffer)
{
    void *memory = &buffer->not_empty;
    struct wf_cond *cond = memory;
    return &cond->queue;
}

static void *wait_outside(void *arg)
{
    struct buffer *buffer = arg;
    CHECK_EQ(wait_locked(&buffer->not_empty), 0);
    return NULL;
}

/* The task is not in the queue any more: the signal goes to the next waiter. */
static void cond_forced_close_removes_the_waiter(void)
{
    static struct buffer buffer;
    struct sync_wait wait = {wait_locked, &buffer.not_empty, WEFT_WAIT_CONDITION};
    struct blocked blocked;
    start_blocked(&blocked, &wait);
    pthread_t thread = start_thread(wait_outside, &buffer);
    wait_for_length(queue_of(&buffer), 2);
    close_by_force(&blocked);
    CHECK_EQ(length_of(queue_of(&buffer)), 1);
    CHECK_EQ(weft_mutex_is_locked(&buffer.mutex), 0); /* unlocked while the task waited */
    CHECK_EQ(weft_cond_signal(&buffer.not_empty), 0);
    join_thread(thread);
    CHECK_EQ(weft_mutex_is_locked(&buffer.mutex), 0);
}

/* The signal was granted to the task, which never runs again. */
static void cond_forced_close_passes_the_signal_on(void)
{
    static struct buffer buffer;
    struct sync_wait wait = {wait_locked, &buffer.not_empty, WEFT_WAIT_CONDITION};
    struct blocked blocked;
    start_blocked(&blocked, &wait);
    occupy_worker(&blocked);
    pthread_t thread = start_thread(wait_outside, &buffer);
    wait_for_length(queue_of(&buffer), 2);
    CHECK_EQ(weft_cond_signal(&buffer.not_empty), 0);
    CHECK_EQ(length_of(queue_of(&buffer)), 1);
    close_by_force(&blocked);
    join_thread(thread);
    CHECK_EQ(weft_mutex_is_locked(&buffer.mutex), 0);
}

/* The task was signalled and waits for the mutex. */
static void cond_forced_close_removes_the_waiter_from_the_mutex(void)
{
    static struct buffer buffer;
    struct sync_wait wait = {wait_locked, &buffer.not_empty, WEFT_WAIT_CONDITION};
    struct blocked blocked;
    start_blocked(&blocked, &wait);
    CHECK_EQ(weft_mutex_lock(&buffer.mutex), 0);
    CHECK_EQ(weft_cond_signal(&buffer.not_empty), 0);
    void *memory = &buffer.mutex;
    struct wf_mutex *mutex = memory;
    wait_for_length(&mutex->queue, 1);
    close_by_force(&blocked);
    CHECK_EQ(weft_mutex_unlock(&buffer.mutex), 0);
    CHECK_EQ(weft_mutex_is_locked(&buffer.mutex), 0);
}

static void cond_refuses_wrong_calls(void)
{
    weft_cond cond = {{0}};
    weft_mutex mutex = {{0}};
    CHECK_EQ(weft_cond_wait(&cond, &mutex), -EPERM);
    CHECK_EQ(weft_cond_signal(&cond), 0); /* no task waits, and the signal is not remembered */
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(cond_no_signalled_change_is_missed, 60),
    TAP_TEST(cond_wait_ended_by_cancel_or_deadline_holds_the_mutex),
    TAP_TEST(cond_signal_wakes_the_first_and_broadcast_all),
    TAP_TEST(cond_forced_close_removes_the_waiter),
    TAP_TEST(cond_forced_close_passes_the_signal_on),
    TAP_TEST(cond_forced_close_removes_the_waiter_from_the_mutex),
    TAP_TEST(cond_refuses_wrong_calls),
};
TAP_MAIN(tests)
