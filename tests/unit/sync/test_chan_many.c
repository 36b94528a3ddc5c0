/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with many senders and receivers, in tasks and in threads of several runtimes, every item
 *         arrives once, with the data that was written into it before; a close in the middle loses
 *         nothing.
 * Method: every mix of one to four senders and receivers over channels with and without capacity,
 *         and a ledger of items with plain data in them.
 */
#include "chan_helpers.h"

/* ---- many senders and receivers -------------------------------------------------------------- */

static struct ledger ledger;

static intptr_t send_entries(void *arg)
{
    (void)arg;
    struct entry *entry;
    while ((entry = ledger_next(&ledger)) != NULL) {
        int rc = entry->text % 5 == 0 ? weft_chan_try_send(ledger.chan, &entry) : -EAGAIN;
        CHECK_EQ(rc == -EAGAIN ? weft_chan_send(ledger.chan, &entry) : rc, 0);
    }
    return 0;
}

static intptr_t take_entries(void *arg)
{
    (void)arg;
    struct entry *entry;
    int rc;
    for (;;) {
        rc = weft_chan_recv(ledger.chan, &entry);
        if (rc != 0) {
            break;
        }
        ledger_take(&ledger, entry);
    }
    CHECK_EQ(rc, -EPIPE);
    return 0;
}

static void *send_in_thread(void *arg)
{
    return (void *)send_entries(arg); /* NOLINT: a number */
}

static void *take_in_thread(void *arg)
{
    return (void *)take_entries(arg); /* NOLINT: a number */
}

static void run_mix(size_t capacity, int senders, int receivers, size_t count)
{
    weft_task *sending[4];
    weft_task *taking[4];
    ledger_init(&ledger, capacity, count);
    for (int i = 0; i < 4; i++) { /* alternating: some wait before others exist */
        if (i < receivers) {
            taking[i] = go(take_entries, NULL);
        }
        if (i < senders) {
            sending[i] = go(send_entries, NULL);
        }
    }
    CHECK_EQ(weft_await_all(sending, (size_t)senders, NULL), 0);
    CHECK_EQ(weft_chan_close(ledger.chan), 0);
    CHECK_EQ(weft_await_all(taking, (size_t)receivers, NULL), 0);
    ledger_check(&ledger);
}

static const size_t capacities[] = {0, 1, 3, 128, WEFT_CHAN_UNBOUNDED};

static intptr_t run_mixes(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < 5; i++) {
        for (int senders = 1; senders <= 4; senders++) {
            for (int receivers = 1; receivers <= 4; receivers++) {
                run_mix(capacities[i], senders, receivers, 200);
            }
        }
    }
    return 0;
}

static void chan_many_tasks_every_item_arrives_once(void)
{
    run_under(EVERYWHERE, run_mixes);
}

static void mix_with_threads(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    for (size_t i = 0; i < 5; i++) {
        pthread_t sender;
        pthread_t receiver;
        weft_task *sending[2];
        weft_task *taking[2];
        ledger_init(&ledger, capacities[i], 300);
        CHECK_EQ(wf_thread_start(&receiver, take_in_thread, NULL, NULL), 0);
        for (int n = 0; n < 2; n++) {
            taking[n] = go_into(runtime, take_entries, NULL);
            sending[n] = go_into(runtime, send_entries, NULL);
        }
        CHECK_EQ(wf_thread_start(&sender, send_in_thread, NULL, NULL), 0);
        CHECK_EQ(weft_await_all(sending, 2, NULL), 0);
        CHECK_EQ(wf_thread_join(sender), 0);
        CHECK_EQ(weft_chan_close(ledger.chan), 0);
        CHECK_EQ(weft_await_all(taking, 2, NULL), 0);
        CHECK_EQ(wf_thread_join(receiver), 0);
        ledger_check(&ledger);
    }
}

static void chan_threads_and_tasks_share_a_channel(void)
{
    open_under(EVERYWHERE, mix_with_threads);
}

static void chan_threads_need_no_runtime(void)
{
    for (size_t i = 0; i < 5; i++) {
        pthread_t threads[4];
        ledger_init(&ledger, capacities[i], 500);
        for (int n = 0; n < 4; n++) {
            CHECK_EQ(
                wf_thread_start(&threads[n], n < 2 ? take_in_thread : send_in_thread, NULL, NULL),
                0);
        }
        CHECK_EQ(wf_thread_join(threads[2]), 0);
        CHECK_EQ(wf_thread_join(threads[3]), 0);
        CHECK_EQ(weft_chan_close(ledger.chan), 0);
        CHECK_EQ(wf_thread_join(threads[0]), 0);
        CHECK_EQ(wf_thread_join(threads[1]), 0);
        ledger_check(&ledger);
    }
}

/* Two runtimes pass items to each other: the wake-ups cross runtimes. */
static void chan_connects_tasks_of_two_runtimes(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtimes[2];
        weft_task *sending[2];
        weft_task *taking[2];
        ledger_init(&ledger, 0, 300);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(weft_runtime_open(&runtimes[i], &tour.options), 0);
            taking[i] = go_into(runtimes[i], take_entries, NULL);
            sending[i] = go_into(runtimes[i], send_entries, NULL);
        }
        CHECK_EQ(weft_await_all(sending, 2, NULL), 0);
        CHECK_EQ(weft_chan_close(ledger.chan), 0);
        CHECK_EQ(weft_await_all(taking, 2, NULL), 0);
        ledger_check(&ledger);
        CHECK_EQ(weft_runtime_close(runtimes[0], -1), 0);
        CHECK_EQ(weft_runtime_close(runtimes[1], -1), 0);
    }
}

/* ---- close during sends and receives --------------------------------------------------------- */

static wf_atomic_u64 sent;
static wf_atomic_u64 received;

static intptr_t send_until_closed(void *arg)
{
    int rc;
    int item = 1;
    while ((rc = weft_chan_send(arg, &item)) == 0) {
        (void)wf_fetch_add_relaxed(&sent, 1); /* relaxed: read after all tasks have ended */
    }
    CHECK_EQ(rc, -EPIPE);
    return 0;
}

static intptr_t receive_until_closed(void *arg)
{
    int rc;
    int item;
    while ((rc = weft_chan_recv(arg, &item)) == 0) {
        (void)wf_fetch_add_relaxed(&received, 1); /* relaxed: read after all tasks have ended */
    }
    CHECK_EQ(rc, -EPIPE);
    return 0;
}

static intptr_t close_in_the_middle(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < 20; i++) {
        weft_chan *chan = int_chan(i % 2 == 0 ? 0 : i);
        weft_task *tasks[4];
        wf_store_relaxed(&sent, 0); /* relaxed: no other task uses it yet */
        wf_store_relaxed(&received, 0);
        for (int n = 0; n < 4; n++) {
            tasks[n] = go(n % 2 == 0 ? send_until_closed : receive_until_closed, chan);
        }
        for (size_t n = 0; n < i; n++) {
            (void)weft_yield();
        }
        CHECK_EQ(weft_chan_close(chan), 0);
        CHECK_EQ(weft_await_all(tasks, 4, NULL), 0);
        CHECK_EQ(wf_load_relaxed(&sent), wf_load_relaxed(&received));
        weft_chan_unref(chan);
    }
    return 0;
}

/* Receivers get all items that were sent before the close, and nothing else. */
static void chan_close_loses_no_sent_item(void)
{
    run_under(EVERYWHERE, close_in_the_middle);
}

static const struct tap_test tests[] = {
    TAP_TEST_LIMIT(chan_many_tasks_every_item_arrives_once, 60),
    TAP_TEST(chan_threads_and_tasks_share_a_channel),
    TAP_TEST(chan_threads_need_no_runtime),
    TAP_TEST(chan_connects_tasks_of_two_runtimes),
    TAP_TEST(chan_close_loses_no_sent_item),
};
TAP_MAIN(tests)
