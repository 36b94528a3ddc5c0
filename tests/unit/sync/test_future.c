/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a poll task can wait for everything that a green thread can wait for; a dropped future
 *         passes on what it was granted.
 * Method: poll tasks beside green threads on the same objects, with plain data between them; each
 *         kind of future becomes ready, is granted, dropped, cancelled, and exceeds its deadline.
 */
#include <string.h>

#include "future/future.h"
#include "sync_helpers.h"

/* ---- one future of each kind ----------------------------------------------------------------- */

/* Objects in a state in which each wait suspends. */
struct objects {
    weft_mutex mutex;
    weft_rwlock rwlock;
    weft_sem sem;
    weft_notify notify;
    weft_group group;
    weft_latch latch;
    weft_barrier barrier;
    weft_chan *full;
    weft_chan *empty;
    int item;
};

enum kind { LOCK, READ, WRITE, ACQUIRE, NOTIFIED, GROUP, LATCH, BARRIER, SEND, RECV, KINDS };

static void future_init(weft_wait_future *future, enum kind kind, struct objects *objects)
{
    switch (kind) {
    case LOCK:
        weft_mutex_lock_future(future, &objects->mutex);
        break;
    case READ:
        weft_rwlock_rdlock_future(future, &objects->rwlock);
        break;
    case WRITE:
        weft_rwlock_wrlock_future(future, &objects->rwlock);
        break;
    case ACQUIRE:
        weft_sem_acquire_future(future, &objects->sem, 1);
        break;
    case NOTIFIED:
        weft_notify_wait_future(future, &objects->notify);
        break;
    case GROUP:
        weft_group_wait_future(future, &objects->group);
        break;
    case LATCH:
        weft_latch_wait_future(future, &objects->latch);
        break;
    case BARRIER:
        weft_barrier_wait_future(future, &objects->barrier);
        break;
    case SEND:
        weft_chan_send_future(future, objects->full, &objects->item);
        break;
    case RECV:
    default:
        weft_chan_recv_future(future, objects->empty, &objects->item);
        break;
    }
}

static void objects_init(struct objects *objects)
{
    memset(objects, 0, sizeof(*objects));
    CHECK_EQ(weft_mutex_lock(&objects->mutex), 0);
    CHECK_EQ(weft_rwlock_wrlock(&objects->rwlock), 0);
    CHECK_EQ(weft_group_add(&objects->group, 1), 0);
    CHECK_EQ(weft_latch_init(&objects->latch, 1), 0);
    CHECK_EQ(weft_barrier_init(&objects->barrier, 2), 0);
    CHECK_EQ(weft_chan_new(&objects->full, sizeof(int), 1), 0);
    CHECK_EQ(weft_chan_new(&objects->empty, sizeof(int), 1), 0);
    CHECK_EQ(weft_chan_send(objects->full, &objects->item), 0);
}

/* Lets one wait of this kind succeed. */
static void allow(enum kind kind, struct objects *objects)
{
    int item = 0;
    switch (kind) {
    case LOCK:
        CHECK_EQ(weft_mutex_unlock(&objects->mutex), 0);
        break;
    case READ:
    case WRITE:
        CHECK_EQ(weft_rwlock_unlock(&objects->rwlock), 0);
        break;
    case ACQUIRE:
        CHECK_EQ(weft_sem_release(&objects->sem, 1), 0);
        break;
    case NOTIFIED:
        CHECK_EQ(weft_notify_one(&objects->notify), 0);
        break;
    case GROUP:
        CHECK_EQ(weft_group_finish(&objects->group), 0);
        break;
    case LATCH:
        CHECK_EQ(weft_latch_count_down(&objects->latch, 1), 0);
        break;
    case BARRIER:
        CHECK_EQ(weft_barrier_wait(&objects->barrier), 1);
        break;
    case SEND:
        CHECK_EQ(weft_chan_recv(objects->full, &item), 0);
        break;
    case RECV:
    default:
        CHECK_EQ(weft_chan_send(objects->empty, &item), 0);
        break;
    }
}

static void unlock_granted(enum kind kind, struct objects *objects)
{
    if (kind == LOCK) {
        CHECK_EQ(weft_mutex_unlock(&objects->mutex), 0);
    } else if (kind == READ || kind == WRITE) {
        CHECK_EQ(weft_rwlock_unlock(&objects->rwlock), 0);
    }
}

static void objects_done(struct objects *objects, enum kind allowed)
{
    if (allowed != LOCK) {
        CHECK_EQ(weft_mutex_unlock(&objects->mutex), 0);
    }
    if (allowed != READ && allowed != WRITE) {
        CHECK_EQ(weft_rwlock_unlock(&objects->rwlock), 0);
    }
    weft_chan_unref(objects->full);
    weft_chan_unref(objects->empty);
}

struct waiter {
    enum kind kind;
    struct objects *objects;
    weft_time limit; /* until its deadline; 0: it has none */
    bool is_begun;
    bool drops_when_woken; /* drops its future when it is woken, granted or not */
    weft_wait_future future;
};

static weft_poll_result wait_for_it(weft_cx *cx, void *arg, intptr_t *result)
{
    struct waiter *state = arg;
    if (!state->is_begun) {
        state->is_begun = true;
        if (state->limit != 0) {
            (void)weft_deadline_set(weft_time_after(state->limit));
        }
        future_init(&state->future, state->kind, state->objects);
    } else if (state->drops_when_woken) {
        weft_future_drop(&state->future.future);
        weft_future_drop(&state->future.future);
        *result = 99;
        return WEFT_POLL_READY;
    }
    weft_poll_result poll = weft_future_poll(&state->future.future, cx, result);
    if (poll == WEFT_POLL_READY && *result >= 0) {
        unlock_granted(state->kind, state->objects);
    }
    return poll;
}

static weft_task *wait_go(enum kind kind, struct objects *objects, weft_time limit,
                          bool drops_when_woken)
{
    const struct waiter state = {
        .kind = kind, .objects = objects, .limit = limit, .drops_when_woken = drops_when_woken};
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, wait_for_it, &state, sizeof(state), NULL), 0);
    return task;
}

static intptr_t wait_for_each(void *arg)
{
    (void)arg;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        tap_doing("kind %d", (int)kind);
        struct objects objects;
        objects_init(&objects);
        /* Cancelled, and past the deadline: the objects are unchanged. */
        weft_task *task = wait_go(kind, &objects, 0, false);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        CHECK_EQ(weft_cancel(task), 0);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(weft_await(wait_go(kind, &objects, WEFT_MILLISECOND, false)), -ETIMEDOUT);
        /* Granted. */
        task = wait_go(kind, &objects, 0, false);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        allow(kind, &objects);
        CHECK_EQ(weft_await(task), 0);
        objects_done(&objects, kind);
    }
    return 0;
}

static void future_of_each_kind_can_be_awaited_by_a_poll_task(void)
{
    run_under(EVERYWHERE, wait_for_each);
}

/* A dropped future passes its grant to the next waiter. */
static intptr_t drop_each(void *arg)
{
    (void)arg;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        tap_doing("kind %d", (int)kind);
        struct objects objects;
        if (kind == BARRIER) {
            continue; /* a barrier that opened has no waiter left to pass it on to */
        }
        objects_init(&objects);
        weft_task *fickle = wait_go(kind, &objects, 0, true);
        wait_for_state(fickle, WEFT_TASK_BLOCKED);
        weft_task *second = wait_go(kind, &objects, 0, false);
        wait_for_state(second, WEFT_TASK_BLOCKED);
        allow(kind, &objects);
        CHECK_EQ(weft_await(fickle), 99);
        if (kind == SEND) {
            allow(kind, &objects); /* the item of the first was received: it stays sent */
        }
        CHECK_EQ(weft_await(second), 0);
        objects_done(&objects, kind);
    }
    return 0;
}

static void future_dropped_passes_its_grant_on(void)
{
    run_under(EVERYWHERE, drop_each);
}

enum { HOUR_S = 3600 };

static intptr_t end_before_deadline(void *arg)
{
    (void)arg;
    weft_runtime *runtime = wf_worker_self()->runtime;
    enum { GRANTED, DROPPED, CANCELLED, ENDS };
    for (enum kind kind = 0; kind < KINDS; kind++) {
        for (int end = 0; end < ENDS; end++) {
            tap_doing("kind %d, end %d", (int)kind, end);
            struct objects objects;
            objects_init(&objects);
            weft_task *task = wait_go(kind, &objects, HOUR_S * WEFT_SECOND, end == DROPPED);
            wait_for_state(task, WEFT_TASK_BLOCKED);
            CHECK(wf_timers_are_set(runtime));
            if (end == CANCELLED) {
                CHECK_EQ(weft_cancel(task), 0);
                CHECK_EQ(weft_await(task), -ECANCELED);
            } else {
                allow(kind, &objects);
                CHECK_EQ(weft_await(task), end == GRANTED ? 0 : 99);
            }
            CHECK(!wf_timers_are_set(runtime)); /* else the wheel has a timer in freed memory */
            objects_done(&objects, end == CANCELLED ? KINDS : kind);
        }
    }
    return 0;
}

static void future_over_before_deadline_removes_its_timer(void)
{
    run_under(EVERYWHERE, end_before_deadline);
}

static intptr_t await_at_once(void *arg)
{
    (void)arg;
    weft_wait_future future;
    weft_mutex mutex = {{0}};
    weft_mutex_lock_future(&future, &mutex);
    CHECK_EQ(weft_future_await(&future.future), 0);
    weft_mutex_lock_future(&future, &mutex);
    CHECK_EQ(weft_future_await(&future.future), -EDEADLK);
    CHECK_EQ(weft_mutex_unlock(&mutex), 0);

    weft_rwlock rwlock = {{0}};
    weft_rwlock_wrlock_future(&future, &rwlock);
    CHECK_EQ(weft_future_await(&future.future), 0);
    weft_rwlock_rdlock_future(&future, &rwlock);
    CHECK_EQ(weft_future_await(&future.future), -EDEADLK);
    weft_rwlock_wrlock_future(&future, &rwlock);
    CHECK_EQ(weft_future_await(&future.future), -EDEADLK);
    CHECK_EQ(weft_rwlock_unlock(&rwlock), 0);

    weft_barrier alone = WEFT_BARRIER_INIT(1);
    weft_barrier empty_barrier = {{0}};
    weft_barrier_wait_future(&future, &alone);
    CHECK_EQ(weft_future_await(&future.future), 1);
    weft_barrier_wait_future(&future, &empty_barrier);
    CHECK_EQ(weft_future_await(&future.future), -EINVAL);

    weft_sem sem = WEFT_SEM_INIT(3);
    weft_sem_acquire_future(&future, &sem, 3);
    CHECK_EQ(weft_future_await(&future.future), 0);
    weft_sem_acquire_future(&future, &sem, 0);
    CHECK_EQ(weft_future_await(&future.future), -EINVAL);

    weft_chan *chan = NULL;
    int item = 5;
    CHECK_EQ(weft_chan_new(&chan, sizeof(int), 1), 0);
    weft_chan_send_future(&future, chan, &item);
    CHECK_EQ(weft_future_await(&future.future), 0);
    item = 0;
    weft_chan_recv_future(&future, chan, &item);
    CHECK_EQ(weft_future_await(&future.future), 0);
    CHECK_EQ(item, 5);
    CHECK_EQ(weft_chan_close(chan), 0);
    weft_chan_recv_future(&future, chan, &item);
    CHECK_EQ(weft_future_await(&future.future), -EPIPE);
    weft_chan_send_future(&future, chan, &item);
    CHECK_EQ(weft_future_await(&future.future), -EPIPE);
    weft_chan_unref(chan);
    return 0;
}

static void future_is_ready_at_once_if_it_need_not_wait(void)
{
    run_under(ON_ONE_WORKER, await_at_once);
}

/* ---- many tasks ------------------------------------------------------------------------------ */

enum { ITEMS = 300, WORKERS = 4 };

struct relay {
    weft_chan *in;
    weft_chan *out;
    weft_mutex *mutex;
    int *moved; /* plain, under the mutex */
    int step;
    int item;
    weft_wait_future future;
};

/* Receives, counts under the mutex, sends; until the channel is closed. */
static weft_poll_result move_items(weft_cx *cx, void *arg, intptr_t *result)
{
    struct relay *state = arg;
    for (;;) {
        if (state->future.future.poll == NULL) {
            if (state->step == 0) {
                weft_chan_recv_future(&state->future, state->in, &state->item);
            } else if (state->step == 1) {
                weft_mutex_lock_future(&state->future, state->mutex);
            } else {
                weft_chan_send_future(&state->future, state->out, &state->item);
            }
        }
        if (weft_future_poll(&state->future.future, cx, result) == WEFT_POLL_PENDING) {
            return WEFT_POLL_PENDING;
        }
        if (*result == -EPIPE && state->step == 0) {
            *result = 0;
            return WEFT_POLL_READY;
        }
        CHECK_EQ(*result, 0);
        if (state->step == 1) {
            (*state->moved)++;
            CHECK_EQ(weft_mutex_unlock(state->mutex), 0);
        }
        state->future.future.poll = NULL;
        state->step = (state->step + 1) % 3;
    }
}

static intptr_t feed(void *chan)
{
    for (int i = 1; i <= ITEMS; i++) {
        CHECK_EQ(weft_chan_send(chan, &i), 0);
    }
    return weft_chan_close(chan);
}

static intptr_t relay_items(void *arg)
{
    (void)arg;
    weft_mutex mutex = {{0}};
    int moved = 0;
    struct relay relay = {.mutex = &mutex, .moved = &moved};
    weft_task *tasks[WORKERS];
    CHECK_EQ(weft_chan_new(&relay.in, sizeof(int), 0), 0);
    CHECK_EQ(weft_chan_new(&relay.out, sizeof(int), 2), 0);
    weft_task *feeder = go(feed, relay.in);
    for (int i = 0; i < WORKERS; i++) {
        CHECK_EQ(weft_spawn_poll(&tasks[i], move_items, &relay, sizeof(relay), NULL), 0);
    }
    int64_t sum = 0;
    for (int i = 0; i < ITEMS; i++) {
        int item = 0;
        CHECK_EQ(weft_chan_recv(relay.out, &item), 0);
        sum += item;
    }
    CHECK_EQ(weft_await(feeder), 0);
    CHECK_EQ(weft_await_all(tasks, WORKERS, NULL), 0);
    CHECK_EQ(sum, (int64_t)ITEMS * (ITEMS + 1) / 2);
    CHECK_EQ(moved, ITEMS);
    weft_chan_unref(relay.in);
    weft_chan_unref(relay.out);
    return 0;
}

static void future_each_item_passes_once_through_poll_tasks(void)
{
    run_under(EVERYWHERE, relay_items);
}

/* ---- forced close ---------------------------------------------------------------------------- */

static weft_poll_result wait_shielded(weft_cx *cx, void *arg, intptr_t *result)
{
    CHECK_EQ(weft_shield_begin(), 0);
    return wait_for_it(cx, arg, result);
}

static void future_forced_close_removes_it_from_its_queue(void)
{
    static const struct setting one = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    for (enum kind kind = 0; kind < KINDS; kind++) {
        tap_doing("kind %d", (int)kind);
        struct objects objects;
        objects_init(&objects);
        const struct waiter state = {.kind = kind, .objects = &objects};
        const weft_runtime_options options = options_of(&one);
        weft_runtime *runtime = NULL;
        weft_task *task = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        CHECK_EQ(
            weft_runtime_spawn_poll(runtime, &task, wait_shielded, &state, sizeof(state), NULL), 0);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        if (kind != BARRIER) {
            allow(kind, &objects); /* there is no task to grant it to */
        }
        objects_done(&objects, kind);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(future_of_each_kind_can_be_awaited_by_a_poll_task),
    TAP_TEST(future_dropped_passes_its_grant_on),
    TAP_TEST(future_over_before_deadline_removes_its_timer),
    TAP_TEST(future_is_ready_at_once_if_it_need_not_wait),
    TAP_TEST(future_each_item_passes_once_through_poll_tasks),
    TAP_TEST(future_forced_close_removes_it_from_its_queue),
};
TAP_MAIN(tests)
