/* SPDX-License-Identifier: MIT */
/*
 * Goal:   notify, wait group, latch, barrier and once wake exactly the waiters that their contracts
 *         name, each once; a waiter that leaves keeps them consistent.
 * Method: plain data is written before an event and read after it; cancels, deadlines, forced
 *         closes and threads outside the runtime in every wait.
 */
#include <string.h>
#include <unistd.h>

#include "sync/sync.h"
#include "sync_helpers.h"

/* ---- notify ---------------------------------------------------------------------------------- */

static int wait_for_notification(void *notify)
{
    return weft_notify_wait(notify);
}

/* No runtime is open here. */
static void notify_stores_one_permit(void)
{
    weft_notify notify = {{0}};
    CHECK_EQ(weft_notify_try_wait(&notify), -EAGAIN);
    CHECK_EQ(weft_notify_one(&notify), 0);
    CHECK_EQ(weft_notify_one(&notify), 0);
    CHECK_EQ(weft_notify_wait(&notify), 0);
    CHECK_EQ(weft_notify_try_wait(&notify), -EAGAIN);
    CHECK_EQ(weft_notify_all(&notify), 0); /* no permit is stored */
    CHECK_EQ(weft_notify_try_wait(&notify), -EAGAIN);
}

static intptr_t notify_some(void *arg)
{
    (void)arg;
    enum { COUNT = 20 };
    weft_notify notify = {{0}};
    struct sync_wait wait = {wait_for_notification, &notify, WEFT_WAIT_NOTIFY};
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(call_wait, &wait);
        wait_until_blocked_in(tasks[i], &wait);
    }
    CHECK_EQ(weft_notify_one(&notify), 0);
    CHECK_EQ(weft_await(tasks[0]), 0); /* the first waiter */
    CHECK_EQ(weft_cancel(tasks[1]), 0);
    CHECK_EQ(weft_await(tasks[1]), -ECANCELED);
    CHECK_EQ(weft_notify_one(&notify), 0);
    CHECK_EQ(weft_await(tasks[2]), 0);
    CHECK_EQ(state_of(tasks[3]), WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_notify_all(&notify), 0);
    CHECK_EQ(weft_await_all(&tasks[3], COUNT - 3, NULL), 0);
    CHECK_EQ(weft_notify_try_wait(&notify), -EAGAIN);
    check_ends_of_wait(&wait);
    CHECK_EQ(weft_notify_one(&notify), 0); /* these waiters have left: the permit is stored */
    CHECK_EQ(weft_notify_try_wait(&notify), 0);
    return 0;
}

static void notify_wakes_waiters_in_order(void)
{
    run_under(EVERYWHERE, notify_some);
}

/* A mailbox: one check after a notification is enough for any number of messages. */
struct mailbox {
    weft_notify notify;
    wf_atomic_u32 count; /* number of messages: the notify orders them */
    int data[400];       /* plain */
};

static intptr_t send_messages(void *arg)
{
    struct mailbox *mailbox = arg;
    for (int i = 0; i < 100; i++) {
        const uint32_t place = wf_fetch_add_relaxed(&mailbox->count, 1);
        mailbox->data[place] = 1;
        CHECK_EQ(weft_notify_one(&mailbox->notify), 0);
    }
    return 0;
}

static void *send_messages_in_a_thread(void *arg)
{
    (void)send_messages(arg);
    return NULL;
}

static intptr_t receive_messages(void *arg)
{
    (void)arg;
    struct mailbox mailbox = {.count = {0}};
    weft_task *tasks[2] = {go(send_messages, &mailbox), go(send_messages, &mailbox)};
    pthread_t threads[2] = {start_thread(send_messages_in_a_thread, &mailbox),
                            start_thread(send_messages_in_a_thread, &mailbox)};
    while (wf_load_relaxed(&mailbox.count) < 400) {
        CHECK_EQ(weft_notify_wait(&mailbox.notify), 0);
    }
    CHECK_EQ(weft_await_all(tasks, 2, NULL), 0);
    join_thread(threads[0]);
    join_thread(threads[1]);
    int sum = 0;
    for (int i = 0; i < 400; i++) {
        sum += mailbox.data[i];
    }
    CHECK_EQ(sum, 400);
    return 0;
}

static void notify_loses_no_notification(void)
{
    run_under(EVERYWHERE, receive_messages);
}

static void notify_passes_on_a_permit_that_cannot_be_taken(void)
{
    weft_notify notify = {{0}};
    struct sync_wait wait = {wait_for_notification, &notify, WEFT_WAIT_NOTIFY};
    struct blocked blocked;
    start_blocked(&blocked, &wait);
    occupy_worker(&blocked);
    CHECK_EQ(weft_notify_one(&notify), 0);
    CHECK_EQ(weft_notify_try_wait(&notify), -EAGAIN); /* the task has it */
    close_by_force(&blocked);
    CHECK_EQ(weft_notify_try_wait(&notify), 0);
}

/* ---- wait group and latch -------------------------------------------------------------------- */

static int wait_for_group(void *group)
{
    return weft_group_wait(group);
}

static void group_and_latch_count_work(void)
{
    weft_group group = {{0}};
    CHECK_EQ(weft_group_wait(&group), 0);
    CHECK_EQ(weft_group_finish(&group), -EINVAL);
    CHECK_EQ(weft_group_add(&group, 2), 0);
    CHECK_EQ(weft_group_count(&group), 2);
    CHECK_EQ(weft_group_add(&group, UINT32_MAX), -EOVERFLOW);
    CHECK_EQ(weft_group_finish(&group), 0);
    CHECK_EQ(weft_group_finish(&group), 0);
    CHECK_EQ(weft_group_wait(&group), 0);
    CHECK_EQ(weft_group_add(&group, UINT32_MAX), 0);
    CHECK_EQ(weft_group_count(&group), UINT32_MAX);

    static weft_latch latch = WEFT_LATCH_INIT(3);
    CHECK_EQ(weft_latch_try_wait(&latch), -EAGAIN);
    CHECK_EQ(weft_latch_count_down(&latch, 4), -EINVAL);
    CHECK_EQ(weft_latch_count_down(&latch, 2), 0);
    CHECK_EQ(weft_latch_try_wait(&latch), -EAGAIN);
    CHECK_EQ(weft_latch_count_down(&latch, 1), 0);
    CHECK_EQ(weft_latch_wait(&latch), 0);
    CHECK_EQ(weft_latch_try_wait(&latch), 0);
    CHECK_EQ(weft_latch_init(&latch, 1), 0);
    CHECK_EQ(weft_latch_try_wait(&latch), -EAGAIN);
}

struct work {
    weft_group *group;
    int result; /* plain: read when the group is done */
};

static intptr_t do_work(void *arg)
{
    struct work *work = arg;
    work->result = 1;
    CHECK_EQ(weft_group_finish(work->group), 0);
    return 0;
}

static void *do_work_in_a_thread(void *arg)
{
    (void)do_work(arg);
    return NULL;
}

/* The group is in this frame, which is left as soon as the group is done. */
static int64_t share_work(void)
{
    enum { TASKS = 10, THREADS = 2 };
    weft_group group = {{0}};
    struct work works[TASKS + THREADS];
    pthread_t threads[THREADS];
    CHECK_EQ(weft_group_add(&group, TASKS + THREADS), 0);
    for (int i = 0; i < TASKS + THREADS; i++) {
        works[i] = (struct work){.group = &group};
        if (i < THREADS) {
            threads[i] = start_thread(do_work_in_a_thread, &works[i]);
        } else {
            CHECK_EQ(weft_spawn(NULL, do_work, &works[i], NULL), 0);
        }
    }
    CHECK_EQ(weft_group_wait(&group), 0);
    int64_t sum = 0;
    for (int i = 0; i < TASKS + THREADS; i++) {
        sum += works[i].result;
    }
    for (int i = 0; i < THREADS; i++) {
        join_thread(threads[i]);
    }
    return sum;
}

static intptr_t wait_for_work(void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(share_work(), 12);
    }
    weft_group group = {{0}};
    struct sync_wait wait = {wait_for_group, &group, WEFT_WAIT_GROUP};
    weft_task *tasks[20];
    CHECK_EQ(weft_group_add(&group, 1), 0);
    check_ends_of_wait(&wait);
    for (int i = 0; i < 20; i++) {
        tasks[i] = go(call_wait, &wait);
        wait_until_blocked_in(tasks[i], &wait);
    }
    CHECK_EQ(weft_group_add(&group, 1), 0);
    CHECK_EQ(weft_group_finish(&group), 0);
    CHECK_EQ(state_of(tasks[0]), WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_group_finish(&group), 0);
    return weft_await_all(tasks, 20, NULL);
}

static void group_wait_sees_the_finished_work(void)
{
    run_under(EVERYWHERE, wait_for_work);
}

static void *wait_for_the_latch(void *latch)
{
    CHECK_EQ(weft_latch_wait(latch), 0);
    return NULL;
}

static void latch_wait_works_in_a_thread(void)
{
    weft_latch latch = WEFT_LATCH_INIT(1);
    pthread_t thread = start_thread(wait_for_the_latch, &latch);
    CHECK_EQ(weft_latch_count_down(&latch, 1), 0);
    join_thread(thread);
}

/* ---- barrier --------------------------------------------------------------------------------- */

static int wait_at_barrier(void *barrier)
{
    return weft_barrier_wait(barrier);
}

enum { PARTICIPANTS = 4, STEPS = 50 };

struct field {
    weft_barrier barrier;
    /* plain: each participant writes its own cell, and reads all cells after the barrier */
    int cells[PARTICIPANTS];
    wf_atomic_u32 leaders;
};

struct participant {
    struct field *field;
    int number;
};

static intptr_t step_together(void *arg)
{
    struct participant *participant = arg;
    struct field *field = participant->field;
    for (int step = 1; step <= STEPS; step++) {
        field->cells[participant->number] = step;
        int rc = weft_barrier_wait(&field->barrier);
        CHECK(rc == 0 || rc == 1);
        (void)wf_fetch_add_relaxed(&field->leaders, (uint32_t)rc);
        for (int i = 0; i < PARTICIPANTS; i++) {
            CHECK_EQ(field->cells[i], step);
        }
        CHECK(weft_barrier_wait(&field->barrier) >= 0); /* all have read */
    }
    return 0;
}

static void *step_together_in_a_thread(void *arg)
{
    (void)step_together(arg);
    return NULL;
}

static intptr_t run_participants(void *arg)
{
    (void)arg;
    struct field field = {.barrier = WEFT_BARRIER_INIT(PARTICIPANTS)};
    struct participant participants[PARTICIPANTS];
    weft_task *tasks[PARTICIPANTS];
    for (int i = 0; i < PARTICIPANTS; i++) {
        participants[i] = (struct participant){&field, i};
    }
    const pthread_t thread = start_thread(step_together_in_a_thread, &participants[0]);
    for (int i = 1; i < PARTICIPANTS; i++) {
        tasks[i] = go(step_together, &participants[i]);
    }
    CHECK_EQ(weft_await_all(&tasks[1], PARTICIPANTS - 1, NULL), 0);
    join_thread(thread);
    /* one leader in the first of each two waits */
    CHECK_EQ(wf_load_relaxed(&field.leaders), STEPS);
    CHECK_EQ(weft_barrier_generation(&field.barrier), 2 * STEPS);
    return 0;
}

static void barrier_is_reusable(void)
{
    run_under(EVERYWHERE, run_participants);
}

static intptr_t cancel_barrier_waiters(void *arg)
{
    (void)arg;
    weft_barrier barrier = WEFT_BARRIER_INIT(2);
    struct sync_wait wait = {wait_at_barrier, &barrier, WEFT_WAIT_BARRIER};
    check_ends_of_wait(&wait);
    weft_task *task = go(call_wait, &wait); /* the participants that left do not count */
    wait_until_blocked_in(task, &wait);
    CHECK_EQ(weft_barrier_generation(&barrier), 0);
    CHECK_EQ(weft_barrier_wait(&barrier), 1);
    CHECK_EQ(weft_await(task), 0);

    weft_barrier alone = WEFT_BARRIER_INIT(1);
    weft_barrier empty_barrier = {{0}};
    CHECK_EQ(weft_barrier_wait(&alone), 1);
    CHECK_EQ(weft_barrier_wait(&empty_barrier), -EINVAL);
    CHECK_EQ(weft_barrier_init(&empty_barrier, 0), -EINVAL);
    CHECK_EQ(weft_barrier_init(&empty_barrier, 1), 0);
    CHECK_EQ(weft_barrier_wait(&empty_barrier), 1);
    return 0;
}

static void barrier_cancelled_waiter_does_not_count(void)
{
    run_under(EVERYWHERE, cancel_barrier_waiters);
}

static void barrier_forced_close_removes_the_waiter(void)
{
    weft_barrier barrier = WEFT_BARRIER_INIT(2);
    struct sync_wait wait = {wait_at_barrier, &barrier, WEFT_WAIT_BARRIER};
    struct blocked blocked;
    start_blocked(&blocked, &wait);
    close_by_force(&blocked);
    struct wf_barrier inside;
    memcpy(&inside, &barrier, sizeof(inside));
    CHECK_EQ(inside.arrived, 0); /* no arrival is counted */
}

/* ---- once ------------------------------------------------------------------------------------ */

struct product {
    weft_once once;
    /* plain: written by the caller that runs the function, read by the others */
    int made;
    wf_atomic_u32 tries; /* by all callers */
    uint32_t failures;   /* this number of calls fails first */
};

static intptr_t make_product(void *arg)
{
    struct product *product = arg;
    const uint32_t number = wf_fetch_add_relaxed(&product->tries, 1);
    int rc = weft_sleep(0); /* other callers arrive meanwhile */
    if (number < product->failures) {
        if (number % 2 == 0) {
            weft_fail(-EIO, "by weft_fail");
        }
        return -EIO;
    }
    CHECK_EQ(rc, 0);
    product->made++;
    return 7;
}

static intptr_t use_product(void *arg)
{
    struct product *product = arg;
    intptr_t rc = weft_once_do(&product->once, make_product, product);
    if (rc >= 0) {
        CHECK_EQ(product->made, 1);
        CHECK(weft_once_is_done(&product->once));
    }
    return rc;
}

static intptr_t use_product_in_tasks(void *arg)
{
    (void)arg;
    enum { COUNT = 30, FAILURES = 5 };
    struct product product = {.failures = FAILURES};
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(use_product, &product);
    }
    unsigned failed = 0;
    unsigned did = 0;
    for (int i = 0; i < COUNT; i++) {
        intptr_t rc = weft_await(tasks[i]);
        failed += rc == -EIO ? 1 : 0;
        did += rc == 7 ? 1 : 0;
        CHECK(rc == 0 || rc == 7 || rc == -EIO);
    }
    CHECK_EQ(failed, FAILURES);
    CHECK_EQ(did, 1);
    CHECK_EQ(wf_load_relaxed(&product.tries), FAILURES + 1);
    CHECK_EQ(use_product(&product), 0);
    return 0;
}

static void once_runs_once_and_retries_failures(void)
{
    run_under(EVERYWHERE, use_product_in_tasks);
}

struct pending {
    weft_once once;
    wf_atomic_u32 is_running;
    wf_atomic_u32 go_on;
};

static intptr_t wait_until_released(void *arg)
{
    struct pending *pending = arg;
    CHECK_EQ(weft_once_do(&pending->once, wait_until_released, arg), -EDEADLK);
    raise_by_one(&pending->is_running);
    wait_for(&pending->go_on, 1);
    return 0;
}

static intptr_t run_once_and_wait(void *arg)
{
    struct pending *pending = arg;
    return weft_once_do(&pending->once, wait_until_released, arg);
}

static int run_once(void *once)
{
    return (int)weft_once_do(once, echo, NULL);
}

static intptr_t cancel_once_waiters(void *arg)
{
    (void)arg;
    struct pending pending = {.go_on = {0}};
    struct sync_wait wait = {run_once, &pending.once, WEFT_WAIT_ONCE};
    weft_task *task = go(run_once_and_wait, &pending);
    wait_for(&pending.is_running, 1);
    check_ends_of_wait(&wait);
    CHECK(!weft_once_is_done(&pending.once));
    raise_by_one(&pending.go_on);
    CHECK_EQ(weft_await(task), 0);
    CHECK(weft_once_is_done(&pending.once));
    return 0;
}

static void once_waiter_can_be_cancelled(void)
{
    run_under(EVERYWHERE, cancel_once_waiters);
}

static intptr_t sleep_in_a_once(void *arg)
{
    (void)arg;
    return weft_sleep(3600 * WEFT_SECOND);
}

static int run_once_for_ever(void *once)
{
    return (int)weft_once_do(once, sleep_in_a_once, NULL);
}

static intptr_t give_one(void *arg)
{
    (void)arg;
    return 1;
}

static void *run_once_in_a_thread(void *once)
{
    CHECK_EQ(weft_once_do(once, give_one, NULL), 1);
    return NULL;
}

/* The first caller never returns: the waiting thread runs the function. */
static void once_forced_close_passes_it_to_the_next_waiter(void)
{
    weft_once once = {{0}};
    struct sync_wait wait = {run_once_for_ever, &once, WEFT_WAIT_TIME};
    struct blocked blocked;
    start_blocked(&blocked, &wait);
    pthread_t thread = start_thread(run_once_in_a_thread, &once);
    close_by_force(&blocked);
    join_thread(thread);
    CHECK(weft_once_is_done(&once));
}

static int value = 5;

static void *make_value(void *arg)
{
    int *left = arg;
    return --*left > 0 ? NULL : &value;
}

static void cell_keeps_one_value(void)
{
    weft_cell cell = {.value = NULL};
    weft_cell other = {.value = NULL};
    void *out = &cell;
    int left = 2;
    CHECK(weft_cell_get(&cell) == NULL);
    CHECK_EQ(weft_cell_make(&cell, &out, make_value, &left), -ENOMEM);
    CHECK(out == NULL);
    CHECK_EQ(weft_cell_make(&cell, &out, make_value, &left), 0);
    CHECK(out == &value && weft_cell_get(&cell) == &value);
    /* the function is not called again */
    CHECK_EQ(weft_cell_make(&cell, &out, make_value, &left), 0);
    CHECK_EQ(left, 0);
    CHECK_EQ(weft_cell_set(&cell, &left), -EEXIST);
    CHECK_EQ(weft_cell_set(&other, &left), 0);
    CHECK(weft_cell_get(&other) == &left);
    CHECK_EQ(weft_cell_set(&other, NULL), -EINVAL);
}

/* ---- wait records ---------------------------------------------------------------------------- */

struct reasons {
    weft_mutex mutex;
    weft_chan *full;
    weft_chan *empty;
    weft_task *other;
    int fds[2]; /* of a pipe */
};

static intptr_t wait_for_task(void *arg)
{
    return weft_join(((struct reasons *)arg)->other, NULL);
}

static intptr_t wait_for_time(void *arg)
{
    (void)arg;
    return weft_sleep(3600 * WEFT_SECOND);
}

static intptr_t wait_for_mutex(void *arg)
{
    return weft_mutex_lock(&((struct reasons *)arg)->mutex);
}

static intptr_t wait_for_room(void *arg)
{
    const int item = 0;
    return weft_chan_send(((struct reasons *)arg)->full, &item);
}

static intptr_t wait_for_item(void *arg)
{
    int item;
    return weft_chan_recv(((struct reasons *)arg)->empty, &item);
}

static intptr_t wait_for_byte(void *arg)
{
    char byte;
    return weft_read(((struct reasons *)arg)->fds[0], &byte, 1);
}

static intptr_t wait_for_all_reasons(void *arg)
{
    (void)arg;
    static const struct {
        weft_fn fn;
        enum weft_wait wait;
        const char *name;
    } kinds[] = {
        {wait_for_time, WEFT_WAIT_TIME, "time"},
        {wait_for_task, WEFT_WAIT_TASK, "task"},
        {wait_for_mutex, WEFT_WAIT_MUTEX, "mutex"},
        {wait_for_room, WEFT_WAIT_SEND, "send"},
        {wait_for_item, WEFT_WAIT_RECEIVE, "receive"},
        {wait_for_byte, WEFT_WAIT_READABLE, "readable fd"},
    };
    enum { COUNT = sizeof(kinds) / sizeof(kinds[0]) };
    struct reasons reasons = {.other = NULL};
    weft_task *tasks[COUNT];
    const int item = 0;
    CHECK_EQ(pipe(reasons.fds), 0);
    CHECK_EQ(weft_mutex_lock(&reasons.mutex), 0);
    CHECK_EQ(weft_chan_new(&reasons.full, sizeof(int), 1), 0);
    CHECK_EQ(weft_chan_new(&reasons.empty, sizeof(int), 1), 0);
    CHECK_EQ(weft_chan_send(reasons.full, &item), 0);
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(kinds[i].fn, &reasons);
        if (i == 0) {
            reasons.other = tasks[0]; /* before any task reads it */
        }
        wait_for_state(tasks[i], WEFT_TASK_BLOCKED);
        const void *const objects[COUNT] = {NULL,           reasons.other,
                                            &reasons.mutex, reasons.full,
                                            reasons.empty,  (const void *)(intptr_t)reasons.fds[0]};
        CHECK_EQ(info_of(tasks[i]).wait, kinds[i].wait);
        CHECK(info_of(tasks[i]).wait_object == objects[i] || i == 0);
        CHECK_STR(weft_wait_name(kinds[i].wait), kinds[i].name);
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        CHECK_EQ(weft_cancel(tasks[i]), 0);
        CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
    }
    CHECK_EQ(weft_mutex_unlock(&reasons.mutex), 0);
    weft_chan_unref(reasons.full);
    weft_chan_unref(reasons.empty);
    CHECK_EQ(weft_close(reasons.fds[0]), 0);
    CHECK_EQ(weft_close(reasons.fds[1]), 0);
    return 0;
}

/* S0.9, S1.14 */
static void task_info_names_what_each_wait_is_for(void)
{
    run_under(EVERYWHERE, wait_for_all_reasons);
}

static const struct tap_test tests[] = {
    TAP_TEST(notify_stores_one_permit),
    TAP_TEST(notify_wakes_waiters_in_order),
    TAP_TEST(notify_loses_no_notification),
    TAP_TEST(notify_passes_on_a_permit_that_cannot_be_taken),
    TAP_TEST(group_and_latch_count_work),
    TAP_TEST(group_wait_sees_the_finished_work),
    TAP_TEST(latch_wait_works_in_a_thread),
    TAP_TEST(barrier_is_reusable),
    TAP_TEST(barrier_cancelled_waiter_does_not_count),
    TAP_TEST(barrier_forced_close_removes_the_waiter),
    TAP_TEST(once_runs_once_and_retries_failures),
    TAP_TEST(once_waiter_can_be_cancelled),
    TAP_TEST(once_forced_close_passes_it_to_the_next_waiter),
    TAP_TEST(cell_keeps_one_value),
    TAP_TEST(task_info_names_what_each_wait_is_for),
};
TAP_MAIN(tests)
