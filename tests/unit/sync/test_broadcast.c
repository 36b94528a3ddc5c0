/* SPDX-License-Identifier: MIT */
/*
 * Goal:   every subscriber receives every item in order, or learns how many it has missed; no
 *         sender waits for slow subscribers; close, cancel, deadline and forced close end the
 *         waits.
 * Method: one thread that knows what every subscriber must see; then concurrent senders and
 *         subscribers, where received and missed items must add up.
 */
#include "chan_helpers.h"
#include "fault_helpers.h"

static weft_broadcast *broadcast_of(size_t capacity)
{
    weft_broadcast *broadcast = NULL;
    CHECK_EQ(weft_broadcast_new(&broadcast, sizeof(int), capacity), 0);
    return broadcast;
}

static void publish(weft_broadcast *broadcast, int item)
{
    CHECK_EQ(weft_broadcast_send(broadcast, &item), 0);
}

static void broadcast_refuses_bad_arguments(void)
{
    weft_broadcast *broadcast = NULL;
    weft_subscription subscription = {.broadcast = NULL};
    int item = 0;
    CHECK_EQ(weft_broadcast_new(&broadcast, 0, 4), -EINVAL);
    CHECK_EQ(weft_broadcast_new(&broadcast, WEFT_CHAN_ITEM_SIZE_MAX + 1, 4), -EINVAL);
    CHECK_EQ(weft_broadcast_new(&broadcast, 4, 0), -EINVAL);
    CHECK_EQ(weft_broadcast_new(&broadcast, 4, WEFT_CHAN_CAPACITY_MAX + 1), -EINVAL);
    CHECK_EQ(weft_broadcast_new(&broadcast, 4, WEFT_CHAN_UNBOUNDED), -EINVAL);
    CHECK(broadcast == NULL);
    broadcast = broadcast_of(3);
    CHECK_EQ(weft_broadcast_capacity(broadcast), 3);
    CHECK_EQ(weft_broadcast_recv(&subscription, &item), -EINVAL);
    CHECK_EQ(weft_broadcast_length(&subscription), 0);
    CHECK_EQ(weft_broadcast_subscribe(&subscription, broadcast), 0);
    weft_broadcast_unsubscribe(&subscription);
    weft_broadcast_unsubscribe(&subscription); /* it is unsubscribed already */
    weft_broadcast_unsubscribe(NULL);
    weft_broadcast_unref(NULL);
    weft_broadcast_unref(broadcast);
}

static void broadcast_every_subscriber_receives_every_item(void)
{
    weft_broadcast *broadcast = broadcast_of(5);
    weft_subscription early;
    weft_subscription late;
    int item = -1;
    CHECK_EQ(weft_broadcast_subscribe(&early, broadcast), 0);
    CHECK_EQ(weft_broadcast_try_recv(&early, &item), -EAGAIN);
    publish(broadcast, 0);
    CHECK_EQ(weft_broadcast_subscribe(&late, broadcast), 0); /* receives from the next item */
    for (int n = 1; n < 5; n++) {
        publish(broadcast, n);
    }
    CHECK_EQ(weft_broadcast_length(&early), 5);
    CHECK_EQ(weft_broadcast_length(&late), 4);
    for (int n = 0; n < 5; n++) {
        CHECK_EQ(weft_broadcast_recv(&early, &item), 0);
        CHECK_EQ(item, n);
        if (n > 0) {
            CHECK_EQ(weft_broadcast_try_recv(&late, &item), 0);
            CHECK_EQ(item, n);
        }
    }
    CHECK_EQ(weft_broadcast_try_recv(&late, &item), -EAGAIN);
    CHECK_EQ(weft_broadcast_close(broadcast), 0);
    CHECK_EQ(weft_broadcast_close(broadcast), -EPIPE);
    weft_broadcast_unref(broadcast); /* each subscription has its own reference */
    CHECK_EQ(weft_broadcast_recv(&early, &item), -EPIPE);
    CHECK_EQ(weft_broadcast_try_recv(&late, &item), -EPIPE);
    CHECK_EQ(weft_broadcast_send(early.broadcast, &item), -EPIPE);
    weft_broadcast_unsubscribe(&early);
    weft_broadcast_unsubscribe(&late);
}

static void broadcast_slow_subscriber_learns_how_many_it_missed(void)
{
    /* also capacities that are not powers of two */
    for (int capacity = 1; capacity < 20; capacity++) {
        for (int missed = 0; missed < 40; missed++) {
            weft_broadcast *broadcast = broadcast_of((size_t)capacity);
            weft_subscription subscription;
            int item = -1;
            CHECK_EQ(weft_broadcast_subscribe(&subscription, broadcast), 0);
            for (int n = 0; n < capacity + missed; n++) {
                publish(broadcast, n);
            }
            CHECK_EQ(weft_broadcast_length(&subscription), capacity);
            CHECK_EQ(weft_broadcast_close(broadcast),
                     0); /* the items that are still kept are received */
            CHECK_EQ(weft_broadcast_recv(&subscription, &item), missed);
            CHECK_EQ(item, missed);
            CHECK_EQ(subscription.lost, missed);
            for (int n = missed + 1; n < capacity + missed; n++) {
                CHECK_EQ(weft_broadcast_recv(&subscription, &item), 0);
                CHECK_EQ(item, n);
            }
            CHECK_EQ(weft_broadcast_recv(&subscription, &item), -EPIPE);
            weft_broadcast_unsubscribe(&subscription);
            weft_broadcast_unref(broadcast);
        }
    }
}

static void broadcast_open_without_memory_leaves_nothing_behind(void)
{
    struct faults faults = {0};
    while (faults_next(&faults)) {
        weft_broadcast *broadcast = NULL;
        faults_begin(&faults);
        const int rc = weft_broadcast_new(&broadcast, 8, 8);
        faults_end(&faults);
        CHECK((rc == 0 && broadcast != NULL) || (rc == -ENOMEM && broadcast == NULL));
        faults.refused += rc != 0 ? 1 : 0;
        weft_broadcast_unref(broadcast);
    }
    CHECK(faults.refused >= 3);
}

/* ---- waiting --------------------------------------------------------------------------------- */

enum { MANY_TASKS = 50 }; /* more than one wake-up batch */

struct page {
    int text; /* plain: written before it is sent */
};

struct reader {
    weft_subscription subscription;
    const struct page *first; /* the first of the pages that are sent */
    uint64_t seen;
};

/* Receives until the close; each page must follow the one before. */
static intptr_t read_all(void *arg)
{
    struct reader *reader = arg;
    const struct page *page = NULL;
    int64_t missed;
    uint64_t next = 0;
    while ((missed = weft_broadcast_recv(&reader->subscription, &page)) >= 0) {
        CHECK_EQ(page->text, page - reader->first + 1);
        CHECK_EQ((uint64_t)(page - reader->first), next + (uint64_t)missed);
        next = (uint64_t)(page - reader->first) + 1;
        reader->seen++;
    }
    CHECK_EQ(missed, -EPIPE);
    return 0;
}

static void *read_in_thread(void *arg)
{
    (void)read_all(arg);
    return NULL;
}

static intptr_t send_to_many(void *arg)
{
    (void)arg;
    enum { PAGES = 200 };
    struct page pages[PAGES];
    struct reader readers[MANY_TASKS];
    weft_task *tasks[MANY_TASKS];
    weft_broadcast *broadcast = NULL;
    CHECK_EQ(weft_broadcast_new(&broadcast, sizeof(struct page *), 16), 0);
    for (int i = 0; i < MANY_TASKS; i++) {
        readers[i] = (struct reader){.first = pages};
        CHECK_EQ(weft_broadcast_subscribe(&readers[i].subscription, broadcast), 0);
        tasks[i] = go(read_all, &readers[i]);
    }
    for (int i = 0; i < MANY_TASKS; i++) {
        wait_for_state(tasks[i], WEFT_TASK_BLOCKED);
        CHECK_EQ(info_of(tasks[i]).wait, WEFT_WAIT_RECEIVE);
    }
    for (int n = 0; n < PAGES; n++) {
        const struct page *page = &pages[n];
        pages[n].text = n + 1;
        CHECK_EQ(weft_broadcast_send(broadcast, &page), 0);
    }
    CHECK_EQ(weft_broadcast_close(broadcast), 0);
    CHECK_EQ(weft_await_all(tasks, MANY_TASKS, NULL), 0);
    for (int i = 0; i < MANY_TASKS; i++) {
        CHECK_EQ(readers[i].seen + readers[i].subscription.lost, PAGES);
        CHECK(readers[i].seen >= 16); /* the last items are kept for every subscriber */
        weft_broadcast_unsubscribe(&readers[i].subscription);
    }
    weft_broadcast_unref(broadcast);
    return 0;
}

static void broadcast_received_and_missed_items_add_up(void)
{
    run_under(EVERYWHERE, send_to_many);
}

static void read_outside(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    enum { PAGES = 300 };
    struct page pages[PAGES];
    struct reader readers[2];
    weft_broadcast *broadcast = NULL;
    pthread_t thread;
    CHECK_EQ(weft_broadcast_new(&broadcast, sizeof(struct page *), 4), 0);
    for (int i = 0; i < 2; i++) {
        readers[i] = (struct reader){.first = pages};
        CHECK_EQ(weft_broadcast_subscribe(&readers[i].subscription, broadcast), 0);
    }
    weft_task *task = go_into(runtime, read_all, &readers[0]);
    CHECK_EQ(wf_thread_start(&thread, read_in_thread, &readers[1], NULL), 0);
    for (int n = 0; n < PAGES; n++) {
        const struct page *page = &pages[n];
        pages[n].text = n + 1;
        CHECK_EQ(weft_broadcast_send(broadcast, &page), 0);
    }
    CHECK_EQ(weft_broadcast_close(broadcast), 0);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(wf_thread_join(thread), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(readers[i].seen + readers[i].subscription.lost, PAGES);
        weft_broadcast_unsubscribe(&readers[i].subscription);
    }
    weft_broadcast_unref(broadcast);
}

static void broadcast_threads_send_and_receive(void)
{
    open_under(EVERYWHERE, read_outside);
}

static intptr_t receive_one(void *arg)
{
    int item = -1;
    const int64_t rc = weft_broadcast_recv(arg, &item);
    return rc < 0 ? (intptr_t)rc : item;
}

static intptr_t end_the_waits(void *arg)
{
    (void)arg;
    weft_broadcast *broadcast = broadcast_of(2);
    weft_subscription subscription;
    CHECK_EQ(weft_broadcast_subscribe(&subscription, broadcast), 0);
    weft_task *task = go(receive_one, &subscription);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(receive_one(&subscription), -ETIMEDOUT);
    CHECK_EQ(receive_one(&subscription), -ETIMEDOUT);
    publish(broadcast, 6);
    CHECK_EQ(receive_one(&subscription), 6); /* returns at once */
    weft_deadline_set(WEFT_NEVER);
    weft_broadcast_unsubscribe(&subscription);
    weft_broadcast_unref(broadcast);
    return 0;
}

static void broadcast_recv_ends_by_cancel_and_deadline(void)
{
    run_under(EVERYWHERE, end_the_waits);
}

static intptr_t receive_shielded(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    (void)receive_one(arg);
    tap_fail(__FILE__, __LINE__, "resumed after a forced close");
}

static void broadcast_forced_close_removes_a_waiting_subscriber(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_broadcast *broadcast = broadcast_of(2);
        weft_subscription subscription;
        CHECK_EQ(weft_broadcast_subscribe(&subscription, broadcast), 0);
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, receive_shielded, &subscription);
        wait_for_state(task, WEFT_TASK_BLOCKED);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        publish(broadcast, 4); /* no subscriber waits */
        CHECK_EQ(receive_one(&subscription), 4);
        weft_broadcast_unsubscribe(&subscription);
        weft_broadcast_unref(broadcast);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(broadcast_refuses_bad_arguments),
    TAP_TEST(broadcast_every_subscriber_receives_every_item),
    TAP_TEST(broadcast_slow_subscriber_learns_how_many_it_missed),
    TAP_TEST(broadcast_open_without_memory_leaves_nothing_behind),
    TAP_TEST(broadcast_received_and_missed_items_add_up),
    TAP_TEST(broadcast_threads_send_and_receive),
    TAP_TEST(broadcast_recv_ends_by_cancel_and_deadline),
    TAP_TEST(broadcast_forced_close_removes_a_waiting_subscriber),
};
TAP_MAIN(tests)
