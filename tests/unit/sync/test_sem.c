/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a semaphore gives each permit to one, in the order of those who came, as many at once as
 *         were asked for; and none is lost whatever happens to those who wait.
 * Method: counts by hand; tasks and foreign threads that take what they may only have together; a
 *         cancel, a deadline and a forced close at each place where one waits.  The model of the
 *         same file is tests/model/model_sem.c.
 */
#include "sync/sync.h"
#include "sync_aids.h"

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

/* There is no runtime here: the try tier needs none, and nothing that need not wait. */
static void permits_are_counted(void)
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

static void bad_calls_change_nothing(void)
{
    weft_sem sem;
    CHECK_EQ(weft_sem_init(&sem, 1), 0);
    CHECK_EQ(weft_sem_init(NULL, 1), -EINVAL);
    CHECK_EQ(weft_sem_acquire(NULL, 1), -EINVAL);
    CHECK_EQ(weft_sem_acquire(&sem, 0), -EINVAL);
    CHECK_EQ(weft_sem_try_acquire(NULL, 1), -EINVAL);
    CHECK_EQ(weft_sem_try_acquire(&sem, 0), -EINVAL);
    CHECK_EQ(weft_sem_release(NULL, 1), -EINVAL);
    CHECK_EQ(weft_sem_release(&sem, 0), -EINVAL);
    CHECK_EQ(weft_sem_permits(NULL), -EINVAL);
    CHECK_EQ(weft_sem_release(&sem, WEFT_PERMITS_MAX), -EOVERFLOW);
    CHECK_EQ(weft_sem_permits(&sem), 1);
    CHECK_EQ(weft_sem_release(&sem, WEFT_PERMITS_MAX - 1), 0);
    CHECK_EQ(weft_sem_permits(&sem), WEFT_PERMITS_MAX);
    CHECK_EQ(weft_sem_release(&sem, 1), -EOVERFLOW);
    CHECK_EQ(weft_sem_acquire(&sem, WEFT_PERMITS_MAX), 0);
}

/* ---- order ----------------------------------------------------------------------------------- */

static intptr_t ask_for_much(void *arg)
{
    (void)arg;
    weft_sem sem = WEFT_SEM_INIT(1);
    struct sync_wait large = {acquire_three, &sem, WEFT_WAIT_SEMAPHORE};
    struct sync_wait small = {acquire_one, &sem, WEFT_WAIT_SEMAPHORE};
    weft_task *first = go(call_it, &large);
    wait_until_inside(first, &large);
    CHECK_EQ(weft_sem_try_acquire(&sem, 1), -EAGAIN); /* there is one, but it is not its turn */
    weft_task *second = go(call_it, &small);
    wait_until_inside(second, &small);
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    CHECK_EQ(weft_sem_permits(&sem), 2);
    CHECK_EQ(state_of(first), WEFT_BLOCKED);
    CHECK_EQ(state_of(second), WEFT_BLOCKED);
    CHECK_EQ(weft_sem_release(&sem, WEFT_PERMITS_MAX), -EOVERFLOW);
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    CHECK_EQ(weft_await(first), 0);
    CHECK_EQ(state_of(second), WEFT_BLOCKED);
    CHECK_EQ(weft_sem_permits(&sem), 0);
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    CHECK_EQ(weft_await(second), 0);
    return 0;
}

static void a_large_request_is_not_passed(void)
{
    run_under(EVERYWHERE, ask_for_much);
}

static intptr_t be_many(void *arg)
{
    (void)arg;
    enum { COUNT = 40 }; /* more than are woken at once */
    static weft_task *tasks[COUNT];
    weft_sem sem = WEFT_SEM_INIT(0);
    struct sync_wait wait = {acquire_one, &sem, WEFT_WAIT_SEMAPHORE};
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(call_it, &wait);
        wait_until_inside(tasks[i], &wait);
    }
    CHECK_EQ(weft_sem_release(&sem, COUNT + 1), 0);
    CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
    CHECK_EQ(weft_sem_permits(&sem), 1);
    return 0;
}

static void one_release_serves_many(void)
{
    run_under(EVERYWHERE, be_many);
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

    weft_task *first = go(call_it, &large);
    wait_until_inside(first, &large);
    weft_task *second = go(call_it, &small);
    wait_until_inside(second, &small);
    CHECK_EQ(weft_cancel(first), 0);
    CHECK_EQ(weft_await(first), -ECANCELED);
    CHECK_EQ(weft_await(second), 0); /* nobody is in its way any more */
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    return 0;
}

/* part of behaviour 32 */
static void a_wait_ends_by_cancel_and_by_deadline(void)
{
    run_under(EVERYWHERE, end_waits);
}

static intptr_t take_what_is_there(void *arg)
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
    CHECK_EQ(weft_await(go(take_what_is_there, &sem)), 0);
    CHECK_EQ(weft_sem_permits(&sem), 1);
    return 0;
}

static void who_need_not_wait_succeeds_though_cancelled(void)
{
    run_under(EVERYWHERE, cancel_one_that_need_not_wait);
}

static void *acquire_one_outside(void *sem)
{
    CHECK_EQ(weft_sem_acquire(sem, 1), 0);
    return NULL;
}

/* [any]  So many stand in its queue. */
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

static void a_forced_close_leaves_the_queue(void)
{
    static weft_sem sem = WEFT_SEM_INIT(1);
    struct sync_wait wait = {acquire_two, &sem, WEFT_WAIT_SEMAPHORE};
    struct doomed doomed;
    doom(&doomed, &wait);
    pthread_t thread = start_thread(acquire_one_outside, &sem);
    wait_for_length(&sem, 2);
    close_by_force(&doomed);
    join_thread(thread); /* the one in its way is gone */
    CHECK_EQ(weft_sem_permits(&sem), 0);
}

/* Behaviour 53, for permits: what was granted to one that cannot take it is another's. */
static void a_forced_close_passes_a_grant_on(void)
{
    static weft_sem sem = WEFT_SEM_INIT(0);
    struct sync_wait wait = {acquire_two, &sem, WEFT_WAIT_SEMAPHORE};
    struct doomed doomed;
    doom(&doomed, &wait);
    keep_busy(&doomed);
    pthread_t thread = start_thread(acquire_one_outside, &sem);
    wait_for_length(&sem, 2);
    CHECK_EQ(weft_sem_release(&sem, 2), 0); /* the task's, which never runs again */
    CHECK_EQ(weft_sem_permits(&sem), 0);
    close_by_force(&doomed);
    join_thread(thread);
    CHECK_EQ(weft_sem_permits(&sem), 1);
}

/* ---- storms ---------------------------------------------------------------------------------- */

enum { ROUNDS = 2000, CROWD = 6, SEATS = 3 };

struct room {
    weft_sem seats;
    weft_sem alone; /* a lock, made of one permit */
    uint64_t sum;   /* plain: changed by who is alone */
    wf_atomic_u32 inside;
    uint32_t rounds;
};

static void sit_down(struct room *room, uint32_t count)
{
    for (uint32_t i = 0; i < room->rounds; i++) {
        CHECK_EQ(weft_sem_acquire(&room->seats, count), 0);
        CHECK(wf_fetch_add_relaxed(&room->inside, count) + count <= SEATS);
        CHECK_EQ(weft_sem_acquire(&room->alone, 1), 0);
        room->sum++;
        CHECK_EQ(weft_sem_release(&room->alone, 1), 0);
        (void)wf_fetch_sub_relaxed(&room->inside, count);
        CHECK_EQ(weft_sem_release(&room->seats, count), 0);
    }
}

static intptr_t sit_on_one(void *arg)
{
    sit_down(arg, 1);
    return 0;
}

static intptr_t sit_on_two(void *arg)
{
    sit_down(arg, 2);
    return 0;
}

static void *sit_outside(void *arg)
{
    sit_down(arg, 1);
    return NULL;
}

static void fill_room(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct room room = {
        .seats = WEFT_SEM_INIT(SEATS), .alone = WEFT_SEM_INIT(1), .rounds = ROUNDS / CROWD};
    weft_task *tasks[CROWD];
    for (int i = 0; i < CROWD; i++) {
        tasks[i] = go_into(runtime, i % 2 == 0 ? sit_on_one : sit_on_two, &room);
    }
    pthread_t thread = start_thread(sit_outside, &room);
    CHECK_EQ(weft_await_all(tasks, CROWD, NULL), 0);
    join_thread(thread);
    CHECK_EQ(room.sum, (CROWD + 1) * room.rounds);
    CHECK_EQ(weft_sem_permits(&room.seats), SEATS);
}

static void no_more_are_inside_than_there_are_permits(void)
{
    open_under(EVERYWHERE, fill_room);
}

struct table {
    weft_sem full;
    weft_sem empty;
    int dish; /* plain: full and empty carry it to and fro */
};

static intptr_t cook(void *arg)
{
    struct table *table = arg;
    for (int i = 1; i <= ROUNDS; i++) {
        CHECK_EQ(weft_sem_acquire(&table->empty, 1), 0);
        table->dish = i;
        CHECK_EQ(weft_sem_release(&table->full, 1), 0);
    }
    return 0;
}

static void eat(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct table table = {.empty = WEFT_SEM_INIT(1)};
    weft_task *cooking = go_into(runtime, cook, &table);
    for (int i = 1; i <= ROUNDS; i++) {
        CHECK_EQ(weft_sem_acquire(&table.full, 1), 0);
        CHECK_EQ(table.dish, i);
        CHECK_EQ(weft_sem_release(&table.empty, 1), 0);
    }
    CHECK_EQ(weft_await(cooking), 0);
}

/* Behaviour 51: each acquire races with the release that it waits for; one that is missed would
 * leave both waiting for ever. */
static void an_acquire_that_races_a_release_is_not_left_behind(void)
{
    open_under(EVERYWHERE, eat);
}

struct chance {
    weft_sem sem;
    wf_atomic_u32 kept;
};

static intptr_t acquire_or_leave(void *arg)
{
    struct chance *chance = arg;
    int rc = weft_sem_acquire(&chance->sem, 1);
    CHECK(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        raise_by_one(&chance->kept);
    }
    return 0;
}

static intptr_t cancel_while_granting(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        struct chance chance = {.sem = WEFT_SEM_INIT(0)};
        weft_task *tasks[3];
        for (int j = 0; j < 3; j++) {
            tasks[j] = go(acquire_or_leave, &chance);
        }
        if (i % 2 == 0) {
            (void)weft_yield(); /* they wait, or some do */
        }
        CHECK_EQ(weft_cancel(tasks[i % 3]), 0);
        CHECK_EQ(weft_sem_release(&chance.sem, 1), 0);
        CHECK_EQ(weft_cancel(tasks[(i + 1) % 3]), 0);
        CHECK_EQ(weft_sem_release(&chance.sem, 2), 0); /* one for each, if all want it */
        CHECK_EQ(weft_await_all(tasks, 3, NULL), 0);
        CHECK_EQ(wf_load_relaxed(&chance.kept) + weft_sem_permits(&chance.sem), 3);
    }
    return 0;
}

static void no_permit_is_lost_to_one_that_is_cancelled(void)
{
    run_under(EVERYWHERE, cancel_while_granting);
}

static const struct tap_test tests[] = {
    TAP_TEST(permits_are_counted),
    TAP_TEST(bad_calls_change_nothing),
    TAP_TEST(a_large_request_is_not_passed),
    TAP_TEST(one_release_serves_many),
    TAP_TEST(a_wait_ends_by_cancel_and_by_deadline),
    TAP_TEST(who_need_not_wait_succeeds_though_cancelled),
    TAP_TEST(a_forced_close_leaves_the_queue),
    TAP_TEST(a_forced_close_passes_a_grant_on),
    TAP_TEST_LIMIT(no_more_are_inside_than_there_are_permits, 60),
    TAP_TEST_LIMIT(an_acquire_that_races_a_release_is_not_left_behind, 60),
    TAP_TEST(no_permit_is_lost_to_one_that_is_cancelled),
};
TAP_MAIN(tests)
