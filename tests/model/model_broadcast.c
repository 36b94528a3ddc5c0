/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/broadcast.c every subscriber receives every item or learns that it missed
 *         some, a waiting subscriber is woken by an item and by the close, and no thread touches
 *         freed memory, in every order of steps under every memory model.
 * Method: items are plain data.  A lost wake-up is a deadlock.  The broadcast comes from the
 *         checker's heap and is freed with its last handle, wherever that is dropped.
 */
#include "model/sync_helpers.h"
#include "sync/chan.h"

static weft_broadcast *broadcast;
static weft_subscription subscriptions[MODEL_THREADS_MAX];
static uint64_t items[MODEL_THREADS_MAX]; /* received last */
static struct wf_wait_node *abandoned_node;

static void start_with(size_t capacity)
{
    start_tasks();
    abandoned_node = NULL;
    MODEL_REQUIRE(weft_broadcast_new(&broadcast, sizeof(uint64_t), capacity) == 0);
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        MODEL_REQUIRE(weft_broadcast_subscribe(&subscriptions[i], broadcast) == 0);
        items[i] = 0;
    }
}

static void start(void)
{
    start_with(2);
}

static void send(uint64_t item)
{
    MODEL_REQUIRE(weft_broadcast_send(broadcast, &item) == 0);
}

/* One item is there, and the next will replace it. */
static void start_small(void)
{
    start_with(1);
    send(1);
}

static void start_sent(void)
{
    start();
    send(1);
}

static void start_thread(void)
{
    start();
    is_thread[0] = true;
}

/* Thread 3, which does not exist, waits by a future. */
static void start_with_abandoned(void)
{
    start();
    abandoned_node = wf_alloc_zeroed(1, sizeof(*abandoned_node));
    wf_node_init(abandoned_node, &selves[3]);
    MODEL_REQUIRE(wf_broadcast_begin(&subscriptions[3], abandoned_node, &items[3]) == -EINPROGRESS);
}

static void check(void)
{
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        weft_broadcast_unsubscribe(&subscriptions[i]);
    }
    weft_broadcast_unref(broadcast);
    wf_free(abandoned_node);
}

static void check_both(void)
{
    MODEL_REQUIRE(wf_load_relaxed(&abandoned_node->is_granted) == 1);
    wf_node_reset(abandoned_node);
    MODEL_REQUIRE(wf_broadcast_begin(&subscriptions[3], abandoned_node, &items[3]) == 0);
    MODEL_REQUIRE(items[3] == 1);
    check();
}

/* ---- threads ------------------------------------------------------------------------------- */

static int64_t receive(void)
{
    return weft_broadcast_recv(&subscriptions[model_thread()], &items[model_thread()]);
}

static void receive_one(void)
{
    MODEL_REQUIRE(receive() == 0);
    MODEL_REQUIRE(wf_plain_load(&items[model_thread()]) == 1);
}

/* Two items are sent, one is kept. */
static void receive_the_last(void)
{
    const int64_t missed = receive();
    MODEL_REQUIRE(missed == (wf_plain_load(&items[model_thread()]) == 1 ? 0 : 1));
    if (missed == 0) {
        MODEL_REQUIRE(receive() == 0);
    }
    MODEL_REQUIRE(wf_plain_load(&items[model_thread()]) == 2);
}

static void receive_until_closed(void)
{
    receive_one();
    MODEL_REQUIRE(receive() == -EPIPE);
}

static void receive_cancelled(void)
{
    const int64_t rc = receive();
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
    MODEL_REQUIRE(rc != 0 || wf_plain_load(&items[0]) == 1);
}

/* This may be the last handle. */
static void receive_and_leave(void)
{
    receive_one();
    weft_broadcast_unsubscribe(&subscriptions[model_thread()]);
}

static void send_one(void)
{
    send(1);
}

static void send_the_second(void)
{
    send(2);
}

static void close_it(void)
{
    MODEL_REQUIRE(weft_broadcast_close(broadcast) == 0);
}

static void send_and_drop(void)
{
    send(1);
    for (unsigned i = 1; i < MODEL_THREADS_MAX; i++) {
        weft_broadcast_unsubscribe(&subscriptions[i]);
    }
    weft_broadcast *mine = broadcast;
    broadcast = NULL;
    weft_broadcast_unref(mine);
}

static void cancel_and_send(void)
{
    cancel(0);
    send(1);
}

static void send_and_cancel(void)
{
    send(1);
    cancel(0);
}

static void abandon_node(void)
{
    struct wf_wait_node *node = abandoned_node;
    wf_waitq_abandon(node);
    abandoned_node = NULL;
    wf_free(node);
}

static const struct model_test tests[] = {
    {.name = "send races recv",
     .setup = start,
     .threads = {receive_one, send_one},
     .names = {"receives", "sends"},
     .bound = {0, 2, 4}, /* one preemption under tso, three under view */
     .check = check},
    {.name = "send races recv in a thread",
     .setup = start_thread,
     .threads = {receive_one, send_one},
     .names = {"thread", "sends"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check},
    {.name = "send overwrites the oldest item during recv",
     .setup = start_small,
     .threads = {receive_the_last, send_the_second},
     .names = {"receives", "sends"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "recv twice races send",
     .setup = start_with_abandoned,
     .threads = {receive_one, send_one},
     .names = {"receives", "sends"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check_both},
    {.name = "close races recv",
     .setup = start_sent,
     .threads = {receive_until_closed, close_it},
     .names = {"receives", "closes"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "cancel, then send, race recv",
     .setup = start,
     .threads = {receive_cancelled, cancel_and_send},
     .names = {"cancelled", "sends"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check},
    {.name = "send, then cancel, race recv",
     .setup = start,
     .threads = {receive_cancelled, send_and_cancel},
     .names = {"cancelled", "sends"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check},
    {.name = "last handle frees it",
     .setup = start,
     .threads = {receive_and_leave, send_and_drop},
     .names = {"receives", "sends"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check},
    {.name = "abandoned waiter is removed during send",
     .setup = start_with_abandoned,
     .threads = {abandon_node, send_one},
     .names = {"closer", "sends"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"broadcast", tests, MODEL_COUNT(tests),
                                             NULL,        0,     "src/sync/broadcast.c"};
    return model_main(argc, argv, &suite);
}
