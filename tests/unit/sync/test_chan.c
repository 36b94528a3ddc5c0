/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a channel delivers every item once, in order, to the receiver that has waited longest; it
 *         holds exactly its capacity; every waiter sees a close; a wait ends by cancel, deadline or
 *         forced close without losing or doubling an item; bad arguments are refused.
 * Method: scenes in which tasks are known to wait, under every setting; test_chan_many.c has many
 *         senders and receivers.
 */
#include <string.h>

#include "chan_helpers.h"
#include "fault_helpers.h"

/* ---- arguments ------------------------------------------------------------------------------- */

static void chan_refuses_bad_arguments(void)
{
    weft_chan *chan = NULL;
    CHECK_EQ(weft_chan_new(&chan, 0, 4), -EINVAL);
    CHECK_EQ(weft_chan_new(&chan, WEFT_CHAN_ITEM_SIZE_MAX + 1, 4), -EINVAL);
    CHECK_EQ(weft_chan_new(&chan, SIZE_MAX, 4), -EINVAL);
    CHECK_EQ(weft_chan_new(&chan, 4, WEFT_CHAN_CAPACITY_MAX + 1), -EINVAL);
    CHECK_EQ(weft_chan_new(&chan, 4, SIZE_MAX - 1), -EINVAL);
    CHECK(chan == NULL);
    weft_chan_unref(NULL);
    chan = int_chan(1);
    CHECK_EQ(weft_chan_length(chan), 0);
    weft_chan_unref(chan);
}

/* ---- without a runtime ----------------------------------------------------------------------- */

static void chan_holds_exactly_its_capacity(void)
{
    const size_t capacities[] = {1, 2, 3, 128};
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        const int capacity = (int)capacities[i];
        weft_chan *chan = int_chan(capacities[i]);
        int item = -1;
        CHECK_EQ(weft_chan_capacity(chan), capacities[i]);
        for (int round = 0; round < 3; round++) { /* the ring wraps */
            for (int n = 0; n < capacity; n++) {
                CHECK_EQ(weft_chan_try_send(chan, &n), 0);
                CHECK_EQ(weft_chan_length(chan), n + 1);
            }
            CHECK_EQ(weft_chan_try_send(chan, &item), -EAGAIN);
            CHECK_EQ(weft_chan_try_recv(chan, &item), 0);
            CHECK_EQ(item, 0);
            send_int(chan, capacity);
            for (int n = 1; n <= capacity; n++) {
                CHECK_EQ(recv_int(chan), n);
            }
            CHECK_EQ(weft_chan_try_recv(chan, &item), -EAGAIN);
        }
        weft_chan_unref(chan);
    }
}

static void chan_of_capacity_zero_needs_a_receiver(void)
{
    weft_chan *chan = int_chan(0);
    int item = 3;
    CHECK_EQ(weft_chan_capacity(chan), 0);
    CHECK_EQ(weft_chan_try_send(chan, &item), -EAGAIN);
    CHECK_EQ(weft_chan_try_recv(chan, &item), -EAGAIN);
    CHECK_EQ(item, 3);
    CHECK_EQ(weft_chan_length(chan), 0);
    weft_chan_unref(chan);
}

static void chan_unbounded_grows(void)
{
    enum { COUNT = 100 * 1000 };
    weft_chan *chan = int_chan(WEFT_CHAN_UNBOUNDED);
    int next = 0;
    CHECK_EQ(weft_chan_capacity(chan), WEFT_CHAN_UNBOUNDED);
    for (int n = 0; n < COUNT; n++) {
        if (n % 2 == 0) {
            send_int(chan, n);
        } else {
            CHECK_EQ(weft_chan_try_send(chan, &n), 0);
        }
        if (n % 3 == 0) { /* so that the oldest item is in the middle of the ring when it grows */
            CHECK_EQ(recv_int(chan), next++);
        }
    }
    CHECK_EQ(weft_chan_length(chan), COUNT - next);
    while (next < COUNT) {
        CHECK_EQ(recv_int(chan), next++);
    }
    weft_chan_unref(chan);
}

static void chan_delivers_items_of_any_size(void)
{
    const size_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 16, 24, 63, 64, 65, 1000, WEFT_CHAN_ITEM_SIZE_MAX};
    static unsigned char out[2 * WEFT_CHAN_ITEM_SIZE_MAX];
    static unsigned char in[2 * WEFT_CHAN_ITEM_SIZE_MAX];
    const size_t capacities[] = {2, WEFT_CHAN_UNBOUNDED};
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t size = sizes[i / 2];
        weft_chan *chan = chan_of(size, capacities[i % 2]);
        for (size_t offset = 0; offset < 3; offset++) { /* also unaligned */
            memset(out, 0, sizeof(out));
            memset(in, 0xee, sizeof(in));
            for (size_t byte = 0; byte < size; byte++) {
                in[offset + byte] = (unsigned char)(byte * 7 + offset);
            }
            CHECK_EQ(weft_chan_send(chan, in + offset), 0);
            CHECK_EQ(weft_chan_recv(chan, out + offset), 0);
            CHECK_EQ(memcmp(out + offset, in + offset, size), 0);
            CHECK_EQ(out[offset + size], 0);
        }
        weft_chan_unref(chan);
    }
}

/* behaviour 52: a send into a closed channel fails */
static void chan_closed_can_be_drained(void)
{
    const size_t capacities[] = {0, 3, WEFT_CHAN_UNBOUNDED};
    for (size_t i = 0; i < 3; i++) {
        weft_chan *chan = int_chan(capacities[i]);
        int item = 1;
        const int count = capacities[i] == 0 ? 0 : 3;
        for (int n = 0; n < count; n++) {
            send_int(chan, n);
        }
        CHECK(!weft_chan_is_closed(chan));
        CHECK_EQ(weft_chan_close(chan), 0);
        CHECK(weft_chan_is_closed(chan));
        CHECK_EQ(weft_chan_close(chan), -EPIPE);
        CHECK_EQ(weft_chan_send(chan, &item), -EPIPE);
        CHECK_EQ(weft_chan_try_send(chan, &item), -EPIPE);
        CHECK_EQ(weft_chan_length(chan), count);
        for (int n = 0; n < count; n++) {
            CHECK_EQ(recv_int(chan), n);
        }
        CHECK_EQ(weft_chan_recv(chan, &item), -EPIPE);
        CHECK_EQ(weft_chan_try_recv(chan, &item), -EPIPE);
        CHECK_EQ(item, 1);
        weft_chan_unref(chan);
    }
}

static void chan_drop_of_last_handle_frees_it(void)
{
    weft_chan *chan = int_chan(WEFT_CHAN_UNBOUNDED);
    weft_chan *other = weft_chan_ref(chan);
    CHECK(other == chan);
    send_int(chan, 1);
    weft_chan_unref(chan);
    send_int(other, 2);
    CHECK_EQ(recv_int(other), 1);
    struct wf_alloc_stats before;
    struct wf_alloc_stats after;
    wf_alloc_stats(&before);
    weft_chan_unref(other); /* with an item in it */
    wf_alloc_stats(&after);
    CHECK_EQ(after.freed - before.freed, 2);
}

/* Sends until the first failure; returns the number of sent items, and the last result. */
static int send_some(weft_chan *chan, int *rc)
{
    int count = 0;
    while (*rc == 0 && count < 100) {
        *rc = count % 2 == 0 ? weft_chan_send(chan, &count) : weft_chan_try_send(chan, &count);
        count += *rc == 0 ? 1 : 0;
    }
    return count;
}

static void chan_without_memory_leaves_no_partial_state(void)
{
    struct faults faults = {0};
    while (faults_next(&faults)) {
        weft_chan *chan = NULL;
        weft_chan *bounded = NULL;
        faults_begin(&faults);
        int rc = weft_chan_new(&bounded, 8, 8);
        int rc_open = weft_chan_new(&chan, sizeof(int), WEFT_CHAN_UNBOUNDED);
        int rc_send = rc_open;
        const int sent = send_some(chan, &rc_send);
        faults_end(&faults);
        CHECK(rc == 0 || rc == -ENOMEM);
        CHECK(rc_send == 0 || rc_send == -ENOMEM);
        CHECK((rc == 0) == (bounded != NULL) && (rc_open == 0) == (chan != NULL));
        faults.refused += rc != 0 || rc_send != 0 ? 1 : 0;
        if (chan != NULL) { /* the sent items are there, and the channel continues to work */
            send_int(chan, sent);
            for (int n = 0; n <= sent; n++) {
                CHECK_EQ(recv_int(chan), n);
            }
        }
        weft_chan_unref(bounded);
        weft_chan_unref(chan);
    }
    CHECK(faults.refused >= 5);
}

/* ---- order of waiters ------------------------------------------------------------------------ */

enum { MANY_TASKS = 9 };

struct waiter {
    weft_chan *chan;
    int number;
    int got; /* plain: written by the task, read after its end */
};

static intptr_t receive_one(void *arg)
{
    struct waiter *waiter = arg;
    return weft_chan_recv(waiter->chan, &waiter->got);
}

static intptr_t send_one(void *arg)
{
    struct waiter *waiter = arg;
    return weft_chan_send(waiter->chan, &waiter->number);
}

/* Each task waits before the next one starts. */
static void start_waiters(weft_chan *chan, weft_fn fn, struct waiter *waiters, weft_task **tasks)
{
    for (int i = 0; i < MANY_TASKS; i++) {
        waiters[i] = (struct waiter){.chan = chan, .number = i, .got = -1};
        tasks[i] = go(fn, &waiters[i]);
        wait_until_waiting(chan, (unsigned)i + 1);
    }
}

static intptr_t serve_receivers_in_order(void *arg)
{
    (void)arg;
    const size_t capacities[] = {0, 1, 20, WEFT_CHAN_UNBOUNDED};
    struct waiter waiters[MANY_TASKS];
    weft_task *tasks[MANY_TASKS];
    for (size_t i = 0; i < 4; i++) {
        weft_chan *chan = int_chan(capacities[i]);
        start_waiters(chan, receive_one, waiters, tasks);
        for (int n = 0; n < MANY_TASKS; n++) {
            if (n % 2 == 0) {
                send_int(chan, n);
            } else {
                CHECK_EQ(weft_chan_try_send(chan, &n), 0);
            }
            CHECK_EQ(waiting_in(chan),
                     MANY_TASKS - n - 1); /* the item goes directly to the receiver */
            CHECK_EQ(weft_chan_length(chan), 0);
        }
        CHECK_EQ(weft_await_all(tasks, MANY_TASKS, NULL), 0);
        for (int n = 0; n < MANY_TASKS; n++) {
            CHECK_EQ(waiters[n].got, n);
        }
        weft_chan_unref(chan);
    }
    return 0;
}

static intptr_t serve_senders_in_order(void *arg)
{
    (void)arg;
    const size_t capacities[] = {0, 1, 4};
    struct waiter waiters[MANY_TASKS];
    weft_task *tasks[MANY_TASKS];
    for (size_t i = 0; i < 3; i++) {
        const int capacity = (int)capacities[i];
        weft_chan *chan = int_chan(capacities[i]);
        for (int n = -capacity; n < 0; n++) {
            send_int(chan, n);
        }
        start_waiters(chan, send_one, waiters, tasks);
        for (int n = -capacity; n < MANY_TASKS; n++) {
            int item = -99;
            CHECK_EQ(weft_chan_length(chan), n + capacity < MANY_TASKS ? capacity : MANY_TASKS - n);
            CHECK_EQ(n % 2 == 0 ? weft_chan_recv(chan, &item) : weft_chan_try_recv(chan, &item), 0);
            CHECK_EQ(item, n);
        }
        CHECK_EQ(weft_await_all(tasks, MANY_TASKS, NULL), 0);
        weft_chan_unref(chan);
    }
    return 0;
}

/* behaviour 52; S1.29: pairs in order of arrival */
static void chan_serves_waiters_in_order(void)
{
    run_under(EVERYWHERE, serve_receivers_in_order);
    run_under(EVERYWHERE, serve_senders_in_order);
}

static intptr_t check_wait_info(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(0);
    struct waiter waiter = {.chan = chan, .number = 7};
    weft_task *task = go(receive_one, &waiter);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    CHECK_EQ(info_of(task).wait, WEFT_WAIT_RECEIVE);
    CHECK(info_of(task).wait_object == chan);
    send_int(chan, 1);
    CHECK_EQ(weft_await(task), 0);
    task = go(send_one, &waiter);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    CHECK_EQ(info_of(task).wait, WEFT_WAIT_SEND);
    CHECK(info_of(task).wait_object == chan);
    CHECK_EQ(recv_int(chan), 7);
    CHECK_EQ(weft_await(task), 0);
    weft_chan_unref(chan);
    return 0;
}

/* S0.31, S1.18 */
static void chan_waiting_task_reports_its_wait_and_is_woken(void)
{
    run_under(EVERYWHERE, check_wait_info);
}

/* ---- closing --------------------------------------------------------------------------------- */

static intptr_t close_on_waiters(void *arg)
{
    (void)arg;
    enum { MANY = 100 }; /* more than one wake-up batch */
    static struct waiter waiters[MANY];
    weft_task *tasks[MANY];
    for (int is_send = 0; is_send < 2; is_send++) {
        weft_chan *chan = int_chan(is_send ? 1 : 3);
        if (is_send) {
            send_int(chan, 5);
        }
        for (int i = 0; i < MANY; i++) {
            waiters[i] = (struct waiter){.chan = chan, .got = -1};
            tasks[i] = go(is_send ? send_one : receive_one, &waiters[i]);
        }
        wait_until_waiting(chan, MANY);
        CHECK_EQ(weft_chan_close(chan), 0);
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(weft_await(tasks[i]), -EPIPE);
            CHECK_EQ(waiters[i].got, -1);
        }
        CHECK_EQ(weft_chan_length(chan), is_send);
        weft_chan_unref(chan);
    }
    return 0;
}

/* behaviour 52 */
static void chan_close_wakes_all_waiters(void)
{
    run_under(EVERYWHERE, close_on_waiters);
}

/* ---- cancel and deadline --------------------------------------------------------------------- */

static intptr_t cancel_waiters(void *arg)
{
    (void)arg;
    struct waiter waiters[MANY_TASKS];
    weft_task *tasks[MANY_TASKS];
    for (int is_send = 0; is_send < 2; is_send++) {
        weft_chan *chan = int_chan(0);
        start_waiters(chan, is_send ? send_one : receive_one, waiters, tasks);
        for (int i = 0; i < MANY_TASKS; i += 2) { /* the first, the last and some in between */
            CHECK_EQ(weft_cancel(tasks[i]), 0);
            CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
            CHECK_EQ(waiters[i].got, -1);
        }
        CHECK_EQ(waiting_in(chan), MANY_TASKS / 2);
        for (int i = 1; i < MANY_TASKS; i += 2) { /* still in order */
            if (is_send) {
                CHECK_EQ(recv_int(chan), i);
            } else {
                send_int(chan, i);
            }
            CHECK_EQ(weft_await(tasks[i]), 0);
            CHECK_EQ(waiters[i].got, is_send ? -1 : i);
        }
        weft_chan_unref(chan);
    }
    return 0;
}

/* behaviour 32, for channels */
static void chan_cancel_ends_a_wait(void)
{
    run_under(EVERYWHERE, cancel_waiters);
}

static intptr_t run_out_of_time(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(1);
    int item = 4;
    weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(weft_chan_recv(chan, &item), -ETIMEDOUT);
    CHECK_EQ(weft_now() >= weft_deadline_set(WEFT_NEVER), 1);
    weft_deadline_set(weft_now() - 1);
    CHECK_EQ(weft_chan_recv(chan, &item), -ETIMEDOUT);
    CHECK_EQ(weft_chan_send(chan, &item), 0); /* returns at once */
    CHECK_EQ(weft_chan_send(chan, &item), -ETIMEDOUT);
    CHECK_EQ(weft_chan_recv(chan, &item), 0);
    CHECK_EQ(weft_chan_send(chan, &item), 0);
    weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(weft_chan_send(chan, &item), -ETIMEDOUT);
    CHECK_EQ(waiting_in(chan), 0);
    CHECK_EQ(weft_chan_length(chan), 1);
    weft_deadline_set(WEFT_NEVER);
    weft_chan_unref(chan);
    return 0;
}

static void chan_deadline_ends_a_wait(void)
{
    run_under(EVERYWHERE, run_out_of_time);
}

/* A cancelled task, and the moment from which it waits behind its shield. */
struct cancelled_waiter {
    weft_chan *chan;
    wf_atomic_u32 is_shielded;
};

static intptr_t wait_although_cancelled(void *arg)
{
    struct cancelled_waiter *waiter = arg;
    weft_chan *chan = waiter->chan;
    int item = 4;
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_chan_recv(chan, &item), -ECANCELED);
    CHECK_EQ(weft_chan_send(chan, &item), 0);
    CHECK_EQ(weft_chan_send(chan, &item), -ECANCELED);
    CHECK_EQ(weft_chan_recv(chan, &item), 0);
    CHECK_EQ(weft_shield_begin(), 0);
    raise_by_one(&waiter->is_shielded);
    item = recv_int(chan); /* behind the shield it waits */
    CHECK_EQ(weft_shield_end(), 0);
    return item;
}

static intptr_t cancel_before_it_waits(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(1);
    struct cancelled_waiter waiter = {.chan = chan};
    weft_task *task = go(wait_although_cancelled, &waiter);
    wait_for(&waiter.is_shielded, 1); /* before, it may be in a queue for a moment */
    wait_until_waiting(chan, 1);
    send_int(chan, 9);
    CHECK_EQ(weft_await(task), 9);
    weft_chan_unref(chan);
    return 0;
}

static void chan_cancelled_task_does_not_wait(void)
{
    run_under(EVERYWHERE, cancel_before_it_waits);
}

/* The cancel and the item come at the same time: the task gets exactly one of the two. */
static intptr_t race_cancel_and_item(void *arg)
{
    const struct setting *setting = arg;
    const int rounds = setting->workers > 1 ? 300 : 20;
    weft_chan *chan = int_chan(1);
    for (int i = 0; i < rounds; i++) {
        struct waiter waiter = {.chan = chan, .got = -1};
        weft_task *task = go(receive_one, &waiter);
        if (i % 2 == 0) {
            wait_until_waiting(chan, 1);
        }
        send_int(chan, i);
        CHECK_EQ(weft_cancel(task), 0);
        const intptr_t rc = weft_await(task);
        CHECK(rc == 0 || rc == -ECANCELED);
        CHECK_EQ(rc == 0 ? waiter.got : recv_int(chan), i);
    }
    weft_chan_unref(chan);
    return 0;
}

static void chan_item_racing_a_cancel_is_not_lost(void)
{
    run_under(EVERYWHERE, race_cancel_and_item);
}

/* ---- forced close ---------------------------------------------------------------------------- */

static intptr_t receive_shielded(void *arg)
{
    struct waiter *waiter = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    (void)weft_chan_recv(waiter->chan, &waiter->got);
    tap_fail(__FILE__, __LINE__, "resumed after a forced close");
}

static intptr_t send_shielded(void *arg)
{
    struct waiter *waiter = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    (void)weft_chan_send(waiter->chan, &waiter->number);
    tap_fail(__FILE__, __LINE__, "resumed after a forced close");
}

/* The runtime is freed, the channel is not: no task waits in the channel. */
static void chan_forced_close_removes_waiters(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_chan *in = int_chan(0);
        weft_chan *out = int_chan(0);
        struct waiter waiters[2] = {{.chan = in}, {.chan = out}};
        int item = 0;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *receiver = go_into(runtime, receive_shielded, &waiters[0]);
        weft_task *sender = go_into(runtime, send_shielded, &waiters[1]);
        wait_until_waiting(in, 1);
        wait_until_waiting(out, 1);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(receiver), -ECANCELED);
        CHECK_EQ(weft_await(sender), -ECANCELED);
        CHECK_EQ(waiting_in(in) + waiting_in(out), 0);
        CHECK_EQ(weft_chan_try_send(in, &item), -EAGAIN);
        CHECK_EQ(weft_chan_try_recv(out, &item), -EAGAIN);
        weft_chan_unref(in);
        weft_chan_unref(out);
    }
}

struct hog {
    wf_atomic_u32 is_running;
    wf_atomic_u32 is_over;
};

static intptr_t occupy_until_over(void *arg)
{
    struct hog *hog = arg;
    raise_by_one(&hog->is_running);
    hold_for(&hog->is_over, 1);
    return 0;
}

static void *close_by_force(void *runtime)
{
    CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    return NULL;
}

static intptr_t receive_and_stay(void *arg)
{
    struct waiter *waiter = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    (void)weft_chan_recv(waiter->chan, &waiter->got);
    (void)weft_sleep_until(WEFT_NEVER);
    tap_fail(__FILE__, __LINE__, "resumed after a forced close");
}

/* Items were granted to tasks while their runtime closed: some tasks may still have taken theirs;
 * the items of the other tasks are back in the channel. */
static void chan_forced_close_returns_granted_items(void)
{
    enum { HANDED = 20 }; /* more than the ring's capacity */
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_chan *chan = int_chan(1);
        struct hog hog = {{0}, {0}};
        struct waiter waiters[HANDED];
        weft_task *tasks[HANDED];
        pthread_t closer;
        int seen = 0;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (int i = 0; i < HANDED; i++) {
            waiters[i] = (struct waiter){.chan = chan};
            tasks[i] = go_into(runtime, receive_and_stay, &waiters[i]);
        }
        wait_until_waiting(chan, HANDED);
        weft_task *keeper = go_into(runtime, occupy_until_over, &hog);
        wait_for(&hog.is_running, 1);
        CHECK_EQ(wf_thread_start(&closer, close_by_force, runtime, NULL), 0);
        while (weft_runtime_spawn(runtime, NULL, echo, NULL, NULL) != -ESHUTDOWN) {
            (void)sched_yield(); /* until the runtime closes */
        }
        for (int i = 0; i <= HANDED; i++) {
            send_int(chan, i); /* the last item finds no waiting receiver */
        }
        CHECK_EQ(weft_chan_length(chan), 1);
        raise_by_one(&hog.is_over);
        CHECK_EQ(wf_thread_join(closer), 0);
        for (int item; weft_chan_try_recv(chan, &item) == 0;) {
            CHECK_EQ(seen & 1 << item, 0);
            seen |= 1 << item;
        }
        CHECK_EQ(seen & 1 << HANDED, 1 << HANDED);
        weft_chan_unref(chan);
        for (int i = 0; i < HANDED; i++) {
            CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
        }
        weft_task_unref(keeper);
    }
}

/* ---- begin, poll, abandon -------------------------------------------------------------------- */

/* As a future does it: the wait is begun, polled, and abandoned. */
static void chan_abandoned_recv_returns_its_item(void)
{
    enum { COUNT = 40 }; /* more than the ring's capacity, so it grows twice */
    const size_t sizes[] = {0, 1, 3};
    struct wf_wait_node nodes[COUNT];
    int items[COUNT];
    for (size_t i = 0; i < 3; i++) {
        weft_chan *chan = int_chan(sizes[i]);
        for (int n = 0; n < COUNT; n++) {
            wf_chan_node_init(&nodes[n], NULL, &items[n]);
            CHECK_EQ(wf_chan_begin_recv(chan, &nodes[n]), WF_PENDING);
            CHECK(!wf_waitq_is_granted(&nodes[n]));
        }
        for (int n = 0; n < COUNT - 1; n++) {
            send_int(chan, n);
            CHECK(wf_waitq_is_granted(&nodes[n]));
            CHECK_EQ(nodes[n].result, 0);
        }
        /* the newest first, so that each goes to a waiting receiver */
        for (int n = COUNT - 2; n >= 0; n--) {
            wf_chan_abandon(&nodes[n]);
        }
        CHECK(wf_waitq_is_granted(&nodes[COUNT - 1]));
        CHECK_EQ(items[COUNT - 1], COUNT - 2);
        CHECK_EQ(weft_chan_length(chan), COUNT - 2); /* more than its capacity */
        int item = COUNT;
        CHECK_EQ(weft_chan_try_send(chan, &item), -EAGAIN);
        for (int n = 0; n < COUNT - 2; n++) {
            CHECK_EQ(recv_int(chan), n);
        }
        CHECK_EQ(weft_chan_try_recv(chan, &item), -EAGAIN);
        weft_chan_unref(chan);
    }
}

static void chan_abandoned_send_sends_nothing(void)
{
    weft_chan *chan = int_chan(1);
    struct wf_wait_node nodes[2];
    int items[2] = {1, 2};
    send_int(chan, 0);
    for (int n = 0; n < 2; n++) {
        wf_chan_node_init(&nodes[n], NULL, &items[n]);
        CHECK_EQ(wf_chan_begin_send(chan, &nodes[n]), WF_PENDING);
    }
    wf_chan_abandon(&nodes[0]);
    CHECK_EQ(recv_int(chan), 0);
    CHECK(!wf_waitq_is_granted(&nodes[0]));
    CHECK(wf_waitq_is_granted(&nodes[1]));
    CHECK_EQ(recv_int(chan), 2);
    wf_chan_abandon(&nodes[1]); /* too late: the item is sent */
    CHECK_EQ(weft_chan_length(chan), 0);
    CHECK_EQ(weft_chan_close(chan), 0);
    CHECK_EQ(wf_chan_begin_send(chan, &nodes[0]), -EPIPE);
    CHECK_EQ(wf_chan_begin_recv(chan, &nodes[0]), -EPIPE);
    weft_chan_unref(chan);
    chan = int_chan(WEFT_CHAN_UNBOUNDED);
    for (int n = 0; n < 100; n++) {
        CHECK_EQ(wf_chan_begin_send(chan, &nodes[0]), 0);
    }
    CHECK_EQ(wf_chan_begin_recv(chan, &nodes[0]), 0);
    CHECK_EQ(weft_chan_length(chan), 99);
    weft_chan_unref(chan);
}

/* ---- fairness -------------------------------------------------------------------------------- */

static intptr_t send_for_ever(void *arg)
{
    weft_chan *chan = arg;
    int item = 0;
    while (weft_chan_send(chan, &item) == 0) {
        const int rc = weft_chan_try_recv(chan, &item);
        CHECK(rc == 0 || rc == -EPIPE);
    }
    return 0;
}

static intptr_t let_another_run(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(4);
    weft_task *busy = go(send_for_ever, chan);
    wf_atomic_u32 cell = {0};
    CHECK_EQ(weft_yield(), 0); /* it runs, and never waits */
    CHECK_EQ(weft_await(go(count_up, &cell)), 0);
    CHECK_EQ(weft_chan_close(chan), 0);
    CHECK_EQ(weft_await(busy), 0);
    weft_chan_unref(chan);
    return 0;
}

/* S4.34 */
static void chan_loop_without_waits_yields_to_other_tasks(void)
{
    run_under(ON_ONE_WORKER, let_another_run);
}

static const struct tap_test tests[] = {
    TAP_TEST(chan_refuses_bad_arguments),
    TAP_TEST(chan_holds_exactly_its_capacity),
    TAP_TEST(chan_of_capacity_zero_needs_a_receiver),
    TAP_TEST(chan_unbounded_grows),
    TAP_TEST(chan_delivers_items_of_any_size),
    TAP_TEST(chan_closed_can_be_drained),
    TAP_TEST(chan_drop_of_last_handle_frees_it),
    TAP_TEST(chan_without_memory_leaves_no_partial_state),
    TAP_TEST(chan_serves_waiters_in_order),
    TAP_TEST(chan_waiting_task_reports_its_wait_and_is_woken),
    TAP_TEST(chan_close_wakes_all_waiters),
    TAP_TEST(chan_cancel_ends_a_wait),
    TAP_TEST(chan_deadline_ends_a_wait),
    TAP_TEST(chan_cancelled_task_does_not_wait),
    TAP_TEST(chan_item_racing_a_cancel_is_not_lost),
    TAP_TEST(chan_forced_close_removes_waiters),
    TAP_TEST(chan_forced_close_returns_granted_items),
    TAP_TEST(chan_abandoned_recv_returns_its_item),
    TAP_TEST(chan_abandoned_send_sends_nothing),
    TAP_TEST(chan_loop_without_waits_yields_to_other_tasks),
};
TAP_MAIN(tests)
