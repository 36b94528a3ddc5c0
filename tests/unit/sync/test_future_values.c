/* SPDX-License-Identifier: MIT */
/*
 * Goal:   oneshots, broadcasts and watches can be awaited by futures as by their calls; a dropped,
 *         cancelled or forcibly closed future has received nothing, and the value stays in its
 *         object.
 * Method: as in test_future.c, with poll tasks on the same objects as green threads; then stress,
 *         where received and missed items must add up.
 */
#include <string.h>

#include "sync_helpers.h"

enum kind { ONESHOT, BROADCAST, WATCH, KINDS };

/* Objects in a state in which each wait suspends.  The received data is plain. */
struct objects {
    weft_oneshot oneshot;
    int payload; /* the value sent through the oneshot points here */
    void *value;
    weft_broadcast *broadcast;
    weft_subscription subscription;
    int64_t item;
    weft_watch *watch;
    uint64_t version;
};

static void objects_init(struct objects *objects)
{
    const int64_t first = 5;
    memset(objects, 0, sizeof(*objects));
    CHECK_EQ(weft_broadcast_new(&objects->broadcast, sizeof(int64_t), 4), 0);
    CHECK_EQ(weft_broadcast_subscribe(&objects->subscription, objects->broadcast), 0);
    CHECK_EQ(weft_watch_new(&objects->watch, sizeof(int64_t), &first), 0);
    objects->version = 1;
}

static void objects_done(struct objects *objects)
{
    weft_broadcast_unsubscribe(&objects->subscription);
    weft_broadcast_unref(objects->broadcast);
    weft_watch_unref(objects->watch);
}

static void future_init(weft_wait_future *future, enum kind kind, struct objects *objects)
{
    if (kind == ONESHOT) {
        weft_oneshot_recv_future(future, &objects->oneshot, &objects->value);
    } else if (kind == BROADCAST) {
        weft_broadcast_recv_future(future, &objects->subscription, &objects->item);
    } else {
        weft_watch_wait_future(future, objects->watch, &objects->version);
    }
}

static void send(enum kind kind, struct objects *objects)
{
    const int64_t item = 77;
    if (kind == ONESHOT) {
        objects->payload = 77;
        CHECK_EQ(weft_oneshot_send(&objects->oneshot, &objects->payload), 0);
    } else if (kind == BROADCAST) {
        CHECK_EQ(weft_broadcast_send(objects->broadcast, &item), 0);
    } else {
        CHECK_EQ(weft_watch_set(objects->watch, &item), 0);
    }
}

static void check_received(enum kind kind, const struct objects *objects)
{
    if (kind == ONESHOT) {
        CHECK_EQ(*(const int *)objects->value, 77);
    } else if (kind == BROADCAST) {
        CHECK_EQ(objects->item, 77);
    } else {
        CHECK_EQ(objects->version, 2);
    }
}

/* The value was not received: it is still in the object. */
static void receive_now(enum kind kind, struct objects *objects)
{
    if (kind == ONESHOT) {
        CHECK(objects->value == NULL);
        CHECK_EQ(weft_oneshot_try_recv(&objects->oneshot, &objects->value), 0);
    } else if (kind == BROADCAST) {
        CHECK_EQ(objects->item, 0);
        CHECK_EQ(weft_broadcast_try_recv(&objects->subscription, &objects->item), 0);
    } else {
        CHECK_EQ(objects->version, 1);
        CHECK_EQ(weft_watch_wait(objects->watch, &objects->version), 0);
    }
    check_received(kind, objects);
}

/* ---- one wait -------------------------------------------------------------------------------- */

struct waiter {
    enum kind kind;
    struct objects *objects;
    bool has_deadline;
    bool is_begun;
    bool drops_when_woken; /* drops its future when it is woken */
    bool is_shielded;      /* ignores cancellation */
    weft_wait_future future;
};

static weft_poll_result wait_for_it(weft_cx *cx, void *arg, intptr_t *result)
{
    struct waiter *state = arg;
    if (!state->is_begun) {
        state->is_begun = true;
        if (state->has_deadline) {
            (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
        }
        if (state->is_shielded) {
            CHECK_EQ(weft_shield_begin(), 0);
        }
        future_init(&state->future, state->kind, state->objects);
    } else if (state->drops_when_woken) {
        weft_future_drop(&state->future.future);
        weft_future_drop(&state->future.future);
        *result = 99;
        return WEFT_POLL_READY;
    }
    return weft_future_poll(&state->future.future, cx, result);
}

static weft_task *wait_go(const struct waiter *state)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn_poll(&task, wait_for_it, state, sizeof(*state), NULL), 0);
    return task;
}

static intptr_t wait_for_each(void *arg)
{
    (void)arg;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        tap_doing("kind %d", (int)kind);
        struct objects objects;
        objects_init(&objects);
        weft_task *task = wait_go(&(struct waiter){.kind = kind, .objects = &objects});
        wait_for_state(task, WEFT_TASK_BLOCKED);
        CHECK_EQ(weft_cancel(task), 0);
        CHECK_EQ(weft_await(task), -ECANCELED);
        task = wait_go(&(struct waiter){.kind = kind, .objects = &objects, .has_deadline = true});
        CHECK_EQ(weft_await(task), -ETIMEDOUT);
        task = wait_go(&(struct waiter){.kind = kind, .objects = &objects});
        wait_for_state(task, WEFT_TASK_BLOCKED);
        send(kind, &objects);
        CHECK_EQ(weft_await(task), 0);
        check_received(kind, &objects);
        objects_done(&objects);
    }
    return 0;
}

static void future_poll_task_awaits_oneshot_broadcast_watch(void)
{
    run_under(EVERYWHERE, wait_for_each);
}

static intptr_t drop_each(void *arg)
{
    (void)arg;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        tap_doing("kind %d", (int)kind);
        struct objects objects;
        objects_init(&objects);
        weft_task *task =
            wait_go(&(struct waiter){.kind = kind, .objects = &objects, .drops_when_woken = true});
        wait_for_state(task, WEFT_TASK_BLOCKED);
        send(kind, &objects);
        CHECK_EQ(weft_await(task), 99);
        receive_now(kind, &objects);
        objects_done(&objects);
    }
    return 0;
}

static void future_dropped_leaves_the_value_in_its_object(void)
{
    run_under(EVERYWHERE, drop_each);
}

static void future_forced_close_receives_nothing(void)
{
    static const struct setting one = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    for (enum kind kind = 0; kind < KINDS; kind++) {
        tap_doing("kind %d", (int)kind);
        struct objects objects;
        objects_init(&objects);
        const struct waiter state = {.kind = kind, .objects = &objects, .is_shielded = true};
        const weft_runtime_options options = options_of(&one);
        weft_runtime *runtime = NULL;
        weft_task *task = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
        CHECK_EQ(weft_runtime_spawn_poll(runtime, &task, wait_for_it, &state, sizeof(state), NULL),
                 0);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        send(kind, &objects); /* there is no task to wake */
        receive_now(kind, &objects);
        objects_done(&objects);
    }
}

/* ---- ready without waiting ------------------------------------------------------------------- */

static intptr_t await_at_once(void *arg)
{
    (void)arg;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        tap_doing("kind %d", (int)kind);
        struct objects objects;
        weft_wait_future future;
        objects_init(&objects);
        send(kind, &objects);
        future_init(&future, kind, &objects);
        CHECK_EQ(weft_future_await(&future.future), 0);
        check_received(kind, &objects);
        future_init(&future, kind, &objects);
        weft_future_drop(&future.future); /* before it was polled */
        if (kind == ONESHOT) {
            future_init(&future, kind, &objects);
            CHECK_EQ(weft_future_await(&future.future), -EALREADY);
            objects.oneshot = (weft_oneshot){0};
            CHECK_EQ(weft_oneshot_close(&objects.oneshot), 0);
        }
        CHECK_EQ(weft_broadcast_close(objects.broadcast), 0);
        CHECK_EQ(weft_watch_close(objects.watch), 0);
        if (kind == WATCH) {
            objects.version = weft_watch_version(objects.watch);
        }
        future_init(&future, kind, &objects);
        CHECK_EQ(weft_future_await(&future.future), -EPIPE);
        objects_done(&objects);
    }
    return 0;
}

/* A broadcast that overtakes its subscriber reports the number of missed items; a oneshot allows
 * one waiter. */
static intptr_t await_missed_and_busy(void *arg)
{
    (void)arg;
    struct objects objects;
    weft_wait_future future;
    objects_init(&objects);
    for (int i = 0; i < 10; i++) {
        send(BROADCAST, &objects);
    }
    future_init(&future, BROADCAST, &objects);
    CHECK_EQ(weft_future_await(&future.future), 6);
    weft_task *task = wait_go(&(struct waiter){.kind = ONESHOT, .objects = &objects});
    wait_for_state(task, WEFT_TASK_BLOCKED);
    future_init(&future, ONESHOT, &objects);
    CHECK_EQ(weft_future_await(&future.future), -EBUSY);
    CHECK_EQ(weft_oneshot_close(&objects.oneshot), 0);
    CHECK_EQ(weft_await(task), -EPIPE);
    weft_broadcast_unsubscribe(&objects.subscription);
    future_init(&future, BROADCAST, &objects);
    CHECK_EQ(weft_future_await(&future.future), -EINVAL);
    objects_done(&objects);
    return 0;
}

static void future_of_value_or_error_is_ready_at_once(void)
{
    run_under(EVERYWHERE, await_at_once);
    run_under(EVERYWHERE, await_missed_and_busy);
}

/* ---- stress ---------------------------------------------------------------------------------- */

enum { ITEMS = 500, LISTENERS = 3 };

struct listener {
    weft_subscription subscription;
    int64_t item;
    int64_t before;   /* plain: the item received last */
    int64_t received; /* plain: received and missed items */
    bool is_begun;
    weft_wait_future future;
};

/* Receives until the close: items come in order, and received and missed items add up to all. */
static weft_poll_result listen(weft_cx *cx, void *arg, intptr_t *result)
{
    struct listener *state = *(struct listener **)arg;
    for (;;) { /* Ends with the close, or when the future is pending. */
        if (!state->is_begun) {
            weft_broadcast_recv_future(&state->future, &state->subscription, &state->item);
            state->is_begun = true;
        }
        if (weft_future_poll(&state->future.future, cx, result) == WEFT_POLL_PENDING) {
            return WEFT_POLL_PENDING;
        }
        state->is_begun = false;
        if (*result < 0) {
            *result = *result == -EPIPE ? 0 : *result;
            return WEFT_POLL_READY;
        }
        CHECK_EQ(state->item, state->before + 1 + *result);
        state->before = state->item;
        state->received += 1 + *result;
    }
}

static intptr_t broadcast_to_all(void *arg)
{
    weft_broadcast *broadcast = arg;
    for (int64_t i = 1; i <= ITEMS; i++) {
        CHECK_EQ(weft_broadcast_send(broadcast, &i), 0);
        if (i % 16 == 0) {
            (void)weft_yield();
        }
    }
    return weft_broadcast_close(broadcast);
}

static intptr_t listen_under_stress(void *arg)
{
    (void)arg;
    weft_broadcast *broadcast = NULL;
    struct listener listeners[LISTENERS];
    weft_task *tasks[LISTENERS];
    memset(listeners, 0, sizeof(listeners));
    CHECK_EQ(weft_broadcast_new(&broadcast, sizeof(int64_t), 8), 0);
    for (int i = 0; i < LISTENERS; i++) {
        struct listener *listener = &listeners[i];
        CHECK_EQ(weft_broadcast_subscribe(&listener->subscription, broadcast), 0);
        CHECK_EQ(
            weft_spawn_poll(&tasks[i], listen, (const void *)&listener, sizeof(listener), NULL), 0);
    }
    CHECK_EQ(weft_await(go(broadcast_to_all, broadcast)), 0);
    CHECK_EQ(weft_await_all(tasks, LISTENERS, NULL), 0);
    for (int i = 0; i < LISTENERS; i++) {
        CHECK_EQ(listeners[i].received, ITEMS);
        CHECK_EQ(listeners[i].before, ITEMS);
        weft_broadcast_unsubscribe(&listeners[i].subscription);
    }
    weft_broadcast_unref(broadcast);
    return 0;
}

struct exchange {
    weft_oneshot oneshot;
    int payload; /* plain */
};

static intptr_t answer(void *arg)
{
    struct exchange *exchange = arg;
    exchange->payload++;
    return weft_oneshot_send(&exchange->oneshot, &exchange->payload);
}

static intptr_t ask_and_watch(void *arg)
{
    (void)arg;
    const int64_t first = 0;
    weft_watch *watch = NULL;
    uint64_t seen = 1;
    CHECK_EQ(weft_watch_new(&watch, sizeof(int64_t), &first), 0);
    for (int64_t i = 1; i <= ITEMS; i++) {
        struct exchange exchange = {.payload = 0};
        void *value = NULL;
        weft_wait_future futures[2];
        weft_task *task = go(answer, &exchange);
        weft_oneshot_recv_future(&futures[0], &exchange.oneshot, &value);
        CHECK_EQ(weft_future_await(&futures[0].future), 0);
        CHECK_EQ(*(const int *)value, 1);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(weft_watch_set(watch, &i), 0);
        weft_watch_wait_future(&futures[1], watch, &seen);
        CHECK_EQ(weft_future_await(&futures[1].future), 0);
        CHECK_EQ(seen, i + 1);
    }
    weft_watch_unref(watch);
    return 0;
}

static void future_values_lose_nothing_under_stress(void)
{
    run_under(EVERYWHERE, listen_under_stress);
    run_under(EVERYWHERE, ask_and_watch);
}

static const struct tap_test tests[] = {
    TAP_TEST(future_poll_task_awaits_oneshot_broadcast_watch),
    TAP_TEST(future_dropped_leaves_the_value_in_its_object),
    TAP_TEST(future_forced_close_receives_nothing),
    TAP_TEST(future_of_value_or_error_is_ready_at_once),
    TAP_TEST(future_values_lose_nothing_under_stress),
};
TAP_MAIN(tests)
