/* SPDX-License-Identifier: MIT */
/*
 * Goal:   notify, wait group, latch, barrier and once let go on whom they promise to, nobody else
 *         and nobody twice; whoever leaves leaves them whole.
 * Method: what was done before is plain data that is read after; cancels, deadlines, forced closes
 *         and foreign threads in every wait.
 */
#include <string.h>
#include <unistd.h>

#include "sync/sync.h"
#include "sync_aids.h"

/* ---- notify ---------------------------------------------------------------------------------- */

static int wait_for_notice(void *notify)
{
    return weft_notify_wait(notify);
}

/* There is no runtime here. */
static void a_permit_is_kept_once(void)
{
    weft_notify notify = {{0}};
    CHECK_EQ(weft_notify_try(&notify), -EAGAIN);
    CHECK_EQ(weft_notify_one(&notify), 0);
    CHECK_EQ(weft_notify_one(&notify), 0);
    CHECK_EQ(weft_notify_wait(&notify), 0);
    CHECK_EQ(weft_notify_try(&notify), -EAGAIN);
    CHECK_EQ(weft_notify_all(&notify), 0); /* keeps nothing */
    CHECK_EQ(weft_notify_try(&notify), -EAGAIN);
    CHECK_EQ(weft_notify_one(NULL), -EINVAL);
    CHECK_EQ(weft_notify_all(NULL), -EINVAL);
    CHECK_EQ(weft_notify_wait(NULL), -EINVAL);
    CHECK_EQ(weft_notify_try(NULL), -EINVAL);
}

static intptr_t notify_some(void *arg)
{
    (void)arg;
    enum { COUNT = 20 };
    weft_notify notify = {{0}};
    struct sync_wait wait = {wait_for_notice, &notify, WEFT_WAIT_NOTIFY};
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(call_it, &wait);
        wait_until_inside(tasks[i], &wait);
    }
    CHECK_EQ(weft_notify_one(&notify), 0);
    CHECK_EQ(weft_await(tasks[0]), 0); /* the first of them */
    CHECK_EQ(weft_cancel(tasks[1]), 0);
    CHECK_EQ(weft_await(tasks[1]), -ECANCELED);
    CHECK_EQ(weft_notify_one(&notify), 0);
    CHECK_EQ(weft_await(tasks[2]), 0);
    CHECK_EQ(state_of(tasks[3]), WEFT_BLOCKED);
    CHECK_EQ(weft_notify_all(&notify), 0);
    CHECK_EQ(weft_await_all(&tasks[3], COUNT - 3, NULL), 0);
    CHECK_EQ(weft_notify_try(&notify), -EAGAIN);
    check_ends_of_wait(&wait);
    CHECK_EQ(weft_notify_one(&notify), 0); /* those have left: it is kept */
    CHECK_EQ(weft_notify_try(&notify), 0);
    return 0;
}

static void who_waits_is_notified_in_order(void)
{
    run_under(EVERYWHERE, notify_some);
}

/* A letter box: one look again is enough for any number of letters. */
struct letters {
    weft_notify notify;
    wf_atomic_u32 count; /* letters: the notify orders them */
    int data[400];       /* plain */
};

static intptr_t write_letters(void *arg)
{
    struct letters *letters = arg;
    for (int i = 0; i < 100; i++) {
        const uint32_t place = wf_fetch_add_relaxed(&letters->count, 1);
        letters->data[place] = 1;
        CHECK_EQ(weft_notify_one(&letters->notify), 0);
    }
    return 0;
}

static void *write_letters_in_a_thread(void *arg)
{
    (void)write_letters(arg);
    return NULL;
}

static intptr_t read_letters(void *arg)
{
    (void)arg;
    struct letters letters = {.count = {0}};
    weft_task *tasks[2] = {go(write_letters, &letters), go(write_letters, &letters)};
    pthread_t threads[2] = {start_thread(write_letters_in_a_thread, &letters),
                            start_thread(write_letters_in_a_thread, &letters)};
    while (wf_load_relaxed(&letters.count) < 400) {
        CHECK_EQ(weft_notify_wait(&letters.notify), 0);
    }
    CHECK_EQ(weft_await_all(tasks, 2, NULL), 0);
    join_thread(threads[0]);
    join_thread(threads[1]);
    int sum = 0;
    for (int i = 0; i < 400; i++) {
        sum += letters.data[i];
    }
    CHECK_EQ(sum, 400);
    return 0;
}

static void no_notice_is_lost(void)
{
    run_under(EVERYWHERE, read_letters);
}

static void a_notice_that_cannot_be_taken_is_passed_on(void)
{
    weft_notify notify = {{0}};
    struct sync_wait wait = {wait_for_notice, &notify, WEFT_WAIT_NOTIFY};
    struct doomed doomed;
    doom(&doomed, &wait);
    keep_busy(&doomed);
    CHECK_EQ(weft_notify_one(&notify), 0);
    CHECK_EQ(weft_notify_try(&notify), -EAGAIN); /* it is the task's */
    close_by_force(&doomed);
    CHECK_EQ(weft_notify_try(&notify), 0);
}

/* ---- wait group and latch -------------------------------------------------------------------- */

static int wait_for_group(void *group)
{
    return weft_group_wait(group);
}

static void work_is_counted(void)
{
    weft_group group = {{0}};
    CHECK_EQ(weft_group_wait(&group), 0);
    CHECK_EQ(weft_group_done(&group), -EINVAL);
    CHECK_EQ(weft_group_add(&group, 2), 0);
    CHECK_EQ(weft_group_count(&group), 2);
    CHECK_EQ(weft_group_add(&group, UINT32_MAX), -EOVERFLOW);
    CHECK_EQ(weft_group_done(&group), 0);
    CHECK_EQ(weft_group_done(&group), 0);
    CHECK_EQ(weft_group_wait(&group), 0);
    CHECK_EQ(weft_group_add(&group, UINT32_MAX), 0);
    CHECK_EQ(weft_group_count(&group), UINT32_MAX);
    CHECK_EQ(weft_group_add(NULL, 1), -EINVAL);
    CHECK_EQ(weft_group_done(NULL), -EINVAL);
    CHECK_EQ(weft_group_wait(NULL), -EINVAL);
    CHECK_EQ(weft_group_count(NULL), -EINVAL);

    static weft_latch latch = WEFT_LATCH_INIT(3);
    CHECK_EQ(weft_latch_try(&latch), -EAGAIN);
    CHECK_EQ(weft_latch_count_down(&latch, 4), -EINVAL);
    CHECK_EQ(weft_latch_count_down(&latch, 2), 0);
    CHECK_EQ(weft_latch_try(&latch), -EAGAIN);
    CHECK_EQ(weft_latch_count_down(&latch, 1), 0);
    CHECK_EQ(weft_latch_wait(&latch), 0);
    CHECK_EQ(weft_latch_try(&latch), 0);
    CHECK_EQ(weft_latch_init(&latch, 1), 0);
    CHECK_EQ(weft_latch_try(&latch), -EAGAIN);
    CHECK_EQ(weft_latch_init(NULL, 1), -EINVAL);
    CHECK_EQ(weft_latch_count_down(NULL, 1), -EINVAL);
    CHECK_EQ(weft_latch_wait(NULL), -EINVAL);
    CHECK_EQ(weft_latch_try(NULL), -EINVAL);
}

struct work {
    weft_group *group;
    int result; /* plain: read when the group is done */
};

static intptr_t do_work(void *arg)
{
    struct work *work = arg;
    work->result = 1;
    CHECK_EQ(weft_group_done(work->group), 0);
    return 0;
}

static void *do_work_in_a_thread(void *arg)
{
    (void)do_work(arg);
    return NULL;
}

/* The group is in the frame, and gone as soon as it is done. */
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
        tasks[i] = go(call_it, &wait);
        wait_until_inside(tasks[i], &wait);
    }
    CHECK_EQ(weft_group_add(&group, 1), 0);
    CHECK_EQ(weft_group_done(&group), 0);
    CHECK_EQ(state_of(tasks[0]), WEFT_BLOCKED);
    CHECK_EQ(weft_group_done(&group), 0);
    return weft_await_all(tasks, 20, NULL);
}

static void who_waits_for_work_sees_what_was_done(void)
{
    run_under(EVERYWHERE, wait_for_work);
}

static void *wait_for_the_latch(void *latch)
{
    CHECK_EQ(weft_latch_wait(latch), 0);
    return NULL;
}

static void a_thread_waits_for_a_latch(void)
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

enum { SIDES = 4, STEPS = 50 };

struct field {
    weft_barrier barrier;
    int cells[SIDES]; /* plain: each writes its own, reads all after the barrier */
    wf_atomic_u32 leaders;
};

struct side {
    struct field *field;
    int number;
};

static intptr_t step_together(void *arg)
{
    struct side *side = arg;
    struct field *field = side->field;
    for (int step = 1; step <= STEPS; step++) {
        field->cells[side->number] = step;
        int rc = weft_barrier_wait(&field->barrier);
        CHECK(rc == 0 || rc == 1);
        (void)wf_fetch_add_relaxed(&field->leaders, (uint32_t)rc);
        for (int i = 0; i < SIDES; i++) {
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

static intptr_t meet(void *arg)
{
    (void)arg;
    struct field field = {.barrier = WEFT_BARRIER_INIT(SIDES)};
    struct side sides[SIDES];
    weft_task *tasks[SIDES];
    for (int i = 0; i < SIDES; i++) {
        sides[i] = (struct side){&field, i};
    }
    const pthread_t thread = start_thread(step_together_in_a_thread, &sides[0]);
    for (int i = 1; i < SIDES; i++) {
        tasks[i] = go(step_together, &sides[i]);
    }
    CHECK_EQ(weft_await_all(&tasks[1], SIDES - 1, NULL), 0);
    join_thread(thread);
    CHECK_EQ(wf_load_relaxed(&field.leaders), STEPS); /* of the first of each two: one leader */
    CHECK_EQ(weft_barrier_generation(&field.barrier), 2 * STEPS);
    return 0;
}

static void all_come_together_again_and_again(void)
{
    run_under(EVERYWHERE, meet);
}

static intptr_t leave_a_barrier(void *arg)
{
    (void)arg;
    weft_barrier barrier = WEFT_BARRIER_INIT(2);
    struct sync_wait wait = {wait_at_barrier, &barrier, WEFT_WAIT_BARRIER};
    check_ends_of_wait(&wait);
    weft_task *task = go(call_it, &wait); /* those who left do not count */
    wait_until_inside(task, &wait);
    CHECK_EQ(weft_barrier_generation(&barrier), 0);
    CHECK_EQ(weft_barrier_wait(&barrier), 1);
    CHECK_EQ(weft_await(task), 0);

    weft_barrier alone = WEFT_BARRIER_INIT(1);
    weft_barrier nobody = {{0}};
    CHECK_EQ(weft_barrier_wait(&alone), 1);
    CHECK_EQ(weft_barrier_wait(&nobody), -EINVAL);
    CHECK_EQ(weft_barrier_wait(NULL), -EINVAL);
    CHECK_EQ(weft_barrier_init(&nobody, 0), -EINVAL);
    CHECK_EQ(weft_barrier_init(NULL, 1), -EINVAL);
    CHECK_EQ(weft_barrier_init(&nobody, 1), 0);
    CHECK_EQ(weft_barrier_wait(&nobody), 1);
    CHECK_EQ(weft_barrier_generation(NULL), -EINVAL);
    return 0;
}

static void who_leaves_a_barrier_has_not_come(void)
{
    run_under(EVERYWHERE, leave_a_barrier);
}

static void a_forced_close_counts_out(void)
{
    weft_barrier barrier = WEFT_BARRIER_INIT(2);
    struct sync_wait wait = {wait_at_barrier, &barrier, WEFT_WAIT_BARRIER};
    struct doomed doomed;
    doom(&doomed, &wait);
    close_by_force(&doomed);
    struct wf_barrier inside;
    memcpy(&inside, &barrier, sizeof(inside));
    CHECK_EQ(inside.arrived, 0); /* as if nobody had been there */
}

/* ---- once ------------------------------------------------------------------------------------ */

struct making {
    weft_once once;
    int made;            /* plain: by the one, read by the others */
    wf_atomic_u32 tries; /* of all */
    uint32_t failures;   /* so many of them fail first */
};

static intptr_t make_it(void *arg)
{
    struct making *making = arg;
    const uint32_t number = wf_fetch_add_relaxed(&making->tries, 1);
    int rc = weft_sleep(0); /* others come meanwhile */
    if (number < making->failures) {
        if (number % 2 == 0) {
            weft_fail(-EIO, "by weft_fail");
        }
        return -EIO;
    }
    CHECK_EQ(rc, 0);
    making->made++;
    return 7;
}

static intptr_t want_it(void *arg)
{
    struct making *making = arg;
    intptr_t rc = weft_once_do(&making->once, make_it, making);
    if (rc >= 0) {
        CHECK_EQ(making->made, 1);
        CHECK(weft_once_is_done(&making->once));
    }
    return rc;
}

static intptr_t all_want_it(void *arg)
{
    (void)arg;
    enum { COUNT = 30, FAILURES = 5 };
    struct making making = {.failures = FAILURES};
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(want_it, &making);
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
    CHECK_EQ(wf_load_relaxed(&making.tries), FAILURES + 1);
    CHECK_EQ(want_it(&making), 0);
    return 0;
}

static void it_is_done_once_and_failures_are_tried_again(void)
{
    run_under(EVERYWHERE, all_want_it);
}

struct holding {
    weft_once once;
    wf_atomic_u32 is_running;
    wf_atomic_u32 go_on;
};

static intptr_t hold_on(void *arg)
{
    struct holding *holding = arg;
    CHECK_EQ(weft_once_do(&holding->once, hold_on, arg), -EDEADLK);
    raise_by_one(&holding->is_running);
    wait_for(&holding->go_on, 1);
    return 0;
}

static intptr_t do_and_hold(void *arg)
{
    struct holding *holding = arg;
    return weft_once_do(&holding->once, hold_on, arg);
}

static int do_it(void *once)
{
    return (int)weft_once_do(once, echo, NULL);
}

static intptr_t leave_a_once(void *arg)
{
    (void)arg;
    struct holding holding = {.go_on = {0}};
    struct sync_wait wait = {do_it, &holding.once, WEFT_WAIT_ONCE};
    weft_task *task = go(do_and_hold, &holding);
    wait_for(&holding.is_running, 1);
    check_ends_of_wait(&wait);
    CHECK(!weft_once_is_done(&holding.once));
    raise_by_one(&holding.go_on);
    CHECK_EQ(weft_await(task), 0);
    CHECK(weft_once_is_done(&holding.once));
    CHECK_EQ(weft_once_do(NULL, echo, NULL), -EINVAL);
    CHECK_EQ(weft_once_do(&holding.once, NULL, NULL), -EINVAL);
    CHECK(!weft_once_is_done(NULL));
    return 0;
}

static void who_waits_for_a_once_may_leave(void)
{
    run_under(EVERYWHERE, leave_a_once);
}

static intptr_t sleep_in_a_once(void *arg)
{
    (void)arg;
    return weft_sleep(3600 * WEFT_SECOND);
}

static int do_for_ever(void *once)
{
    return (int)weft_once_do(once, sleep_in_a_once, NULL);
}

static intptr_t give_one(void *arg)
{
    (void)arg;
    return 1;
}

static void *do_it_in_a_thread(void *once)
{
    CHECK_EQ(weft_once_do(once, give_one, NULL), 1);
    return NULL;
}

/* Who did it never comes back: the thread that waits for it does it. */
static void a_forced_close_hands_it_on(void)
{
    weft_once once = {{0}};
    struct sync_wait wait = {do_for_ever, &once, WEFT_WAIT_TIME};
    struct doomed doomed;
    doom(&doomed, &wait);
    pthread_t thread = start_thread(do_it_in_a_thread, &once);
    close_by_force(&doomed);
    join_thread(thread);
    CHECK(weft_once_is_done(&once));
}

static int value = 5;

static void *make_value(void *arg)
{
    int *left = arg;
    return --*left > 0 ? NULL : &value;
}

static void a_cell_has_one_value(void)
{
    weft_cell cell = {.value = NULL};
    weft_cell other = {.value = NULL};
    void *out = &cell;
    int left = 2;
    CHECK(weft_cell_get(&cell) == NULL);
    CHECK(weft_cell_get(NULL) == NULL);
    CHECK_EQ(weft_cell_make(&cell, make_value, &left, &out), -ENOMEM);
    CHECK(out == NULL);
    CHECK_EQ(weft_cell_make(&cell, make_value, &left, &out), 0);
    CHECK(out == &value && weft_cell_get(&cell) == &value);
    CHECK_EQ(weft_cell_make(&cell, make_value, &left, &out), 0); /* not called any more */
    CHECK_EQ(left, 0);
    CHECK_EQ(weft_cell_set(&cell, &left), -EEXIST);
    CHECK_EQ(weft_cell_set(&other, &left), 0);
    CHECK(weft_cell_get(&other) == &left);
    CHECK_EQ(weft_cell_set(&other, NULL), -EINVAL);
    CHECK_EQ(weft_cell_set(NULL, &left), -EINVAL);
    CHECK_EQ(weft_cell_make(NULL, make_value, &left, &out), -EINVAL);
    CHECK_EQ(weft_cell_make(&other, NULL, &left, &out), -EINVAL);
    CHECK_EQ(weft_cell_make(&other, make_value, &left, NULL), -EINVAL);
}

/* ---- what a wait is for ---------------------------------------------------------------------- */

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
    return weft_send(((struct reasons *)arg)->full, &item);
}

static intptr_t wait_for_item(void *arg)
{
    int item;
    return weft_recv(((struct reasons *)arg)->empty, &item);
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
    CHECK_EQ(weft_chan_open(&reasons.full, sizeof(int), 1), 0);
    CHECK_EQ(weft_chan_open(&reasons.empty, sizeof(int), 1), 0);
    CHECK_EQ(weft_send(reasons.full, &item), 0);
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(kinds[i].fn, &reasons);
        if (i == 0) {
            reasons.other = tasks[0]; /* before anybody reads it */
        }
        wait_for_state(tasks[i], WEFT_BLOCKED);
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
    weft_chan_drop(reasons.full);
    weft_chan_drop(reasons.empty);
    CHECK_EQ(weft_close(reasons.fds[0]), 0);
    CHECK_EQ(weft_close(reasons.fds[1]), 0);
    return 0;
}

/* S0.9, S1.14 */
static void every_wait_says_what_it_is_for(void)
{
    run_under(EVERYWHERE, wait_for_all_reasons);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_permit_is_kept_once),
    TAP_TEST(who_waits_is_notified_in_order),
    TAP_TEST(no_notice_is_lost),
    TAP_TEST(a_notice_that_cannot_be_taken_is_passed_on),
    TAP_TEST(work_is_counted),
    TAP_TEST(who_waits_for_work_sees_what_was_done),
    TAP_TEST(a_thread_waits_for_a_latch),
    TAP_TEST(all_come_together_again_and_again),
    TAP_TEST(who_leaves_a_barrier_has_not_come),
    TAP_TEST(a_forced_close_counts_out),
    TAP_TEST(it_is_done_once_and_failures_are_tried_again),
    TAP_TEST(who_waits_for_a_once_may_leave),
    TAP_TEST(a_forced_close_hands_it_on),
    TAP_TEST(a_cell_has_one_value),
    TAP_TEST(every_wait_says_what_it_is_for),
};
TAP_MAIN(tests)
