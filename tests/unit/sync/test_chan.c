/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a channel hands every item over once, in order, to whoever waits longest; it has room for
 *         what it says; a close is seen by everybody; a wait ends by cancel, deadline or force
 *         without an item being lost or doubled; bad arguments have an answer.
 * Method: scenes in which tasks are known to wait, under every setting; crowds are in
 *         test_chan_crowds.c.
 */
#include <string.h>

#include "chan_aids.h"
#include "fault_aids.h"

/* ---- arguments ------------------------------------------------------------------------------- */

static void bad_arguments_are_refused(void)
{
    weft_chan *chan = NULL;
    int item = 0;
    CHECK_EQ(weft_chan_open(NULL, 4, 4), -EINVAL);
    CHECK_EQ(weft_chan_open(&chan, 0, 4), -EINVAL);
    CHECK_EQ(weft_chan_open(&chan, WEFT_ITEM_SIZE_MAX + 1, 4), -EINVAL);
    CHECK_EQ(weft_chan_open(&chan, SIZE_MAX, 4), -EINVAL);
    CHECK_EQ(weft_chan_open(&chan, 4, WEFT_CAPACITY_MAX + 1), -EINVAL);
    CHECK_EQ(weft_chan_open(&chan, 4, SIZE_MAX - 1), -EINVAL);
    CHECK(chan == NULL);
    CHECK_EQ(weft_send(NULL, &item), -EINVAL);
    CHECK_EQ(weft_recv(NULL, &item), -EINVAL);
    CHECK_EQ(weft_try_send(NULL, &item), -EINVAL);
    CHECK_EQ(weft_try_recv(NULL, &item), -EINVAL);
    CHECK_EQ(weft_chan_close(NULL), -EINVAL);
    CHECK_EQ(weft_chan_length(NULL), 0);
    CHECK_EQ(weft_chan_capacity(NULL), 0);
    CHECK(weft_chan_is_closed(NULL));
    weft_chan_drop(NULL);
    chan = int_chan(1);
    CHECK_EQ(weft_send(chan, NULL), -EINVAL);
    CHECK_EQ(weft_recv(chan, NULL), -EINVAL);
    CHECK_EQ(weft_try_send(chan, NULL), -EINVAL);
    CHECK_EQ(weft_try_recv(chan, NULL), -EINVAL);
    CHECK_EQ(weft_chan_length(chan), 0);
    weft_chan_drop(chan);
}

/* ---- without a runtime ----------------------------------------------------------------------- */

static void it_holds_as_many_as_it_says(void)
{
    const size_t capacities[] = {1, 2, 3, 128};
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        const int capacity = (int)capacities[i];
        weft_chan *chan = int_chan(capacities[i]);
        int item = -1;
        CHECK_EQ(weft_chan_capacity(chan), capacities[i]);
        for (int round = 0; round < 3; round++) { /* the ring turns */
            for (int n = 0; n < capacity; n++) {
                CHECK_EQ(weft_try_send(chan, &n), 0);
                CHECK_EQ(weft_chan_length(chan), n + 1);
            }
            CHECK_EQ(weft_try_send(chan, &item), -EAGAIN);
            CHECK_EQ(weft_try_recv(chan, &item), 0);
            CHECK_EQ(item, 0);
            send_int(chan, capacity);
            for (int n = 1; n <= capacity; n++) {
                CHECK_EQ(recv_int(chan), n);
            }
            CHECK_EQ(weft_try_recv(chan, &item), -EAGAIN);
        }
        weft_chan_drop(chan);
    }
}

static void without_room_nobody_sends_alone(void)
{
    weft_chan *chan = int_chan(0);
    int item = 3;
    CHECK_EQ(weft_chan_capacity(chan), 0);
    CHECK_EQ(weft_try_send(chan, &item), -EAGAIN);
    CHECK_EQ(weft_try_recv(chan, &item), -EAGAIN);
    CHECK_EQ(item, 3);
    CHECK_EQ(weft_chan_length(chan), 0);
    weft_chan_drop(chan);
}

static void an_unbounded_one_grows(void)
{
    enum { COUNT = 100 * 1000 };
    weft_chan *chan = int_chan(WEFT_UNBOUNDED);
    int next = 0;
    CHECK_EQ(weft_chan_capacity(chan), WEFT_UNBOUNDED);
    for (int n = 0; n < COUNT; n++) {
        if (n % 2 == 0) {
            send_int(chan, n);
        } else {
            CHECK_EQ(weft_try_send(chan, &n), 0);
        }
        if (n % 3 == 0) { /* so that the oldest is somewhere in the middle when it grows */
            CHECK_EQ(recv_int(chan), next++);
        }
    }
    CHECK_EQ(weft_chan_length(chan), COUNT - next);
    while (next < COUNT) {
        CHECK_EQ(recv_int(chan), next++);
    }
    weft_chan_drop(chan);
}

static void items_of_any_size_arrive_whole(void)
{
    const size_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 16, 24, 63, 64, 65, 1000, WEFT_ITEM_SIZE_MAX};
    static unsigned char out[2 * WEFT_ITEM_SIZE_MAX];
    static unsigned char in[2 * WEFT_ITEM_SIZE_MAX];
    const size_t capacities[] = {2, WEFT_UNBOUNDED};
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t size = sizes[i / 2];
        weft_chan *chan = chan_of(size, capacities[i % 2]);
        for (size_t offset = 0; offset < 3; offset++) { /* not aligned either */
            memset(out, 0, sizeof(out));
            memset(in, 0xee, sizeof(in));
            for (size_t byte = 0; byte < size; byte++) {
                in[offset + byte] = (unsigned char)(byte * 7 + offset);
            }
            CHECK_EQ(weft_send(chan, in + offset), 0);
            CHECK_EQ(weft_recv(chan, out + offset), 0);
            CHECK_EQ(memcmp(out + offset, in + offset, size), 0);
            CHECK_EQ(out[offset + size], 0);
        }
        weft_chan_drop(chan);
    }
}

/* behaviour 52: sending into a closed one is an error */
static void a_closed_one_is_drained(void)
{
    const size_t capacities[] = {0, 3, WEFT_UNBOUNDED};
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
        CHECK_EQ(weft_send(chan, &item), -EPIPE);
        CHECK_EQ(weft_try_send(chan, &item), -EPIPE);
        CHECK_EQ(weft_chan_length(chan), count);
        for (int n = 0; n < count; n++) {
            CHECK_EQ(recv_int(chan), n);
        }
        CHECK_EQ(weft_recv(chan, &item), -EPIPE);
        CHECK_EQ(weft_try_recv(chan, &item), -EPIPE);
        CHECK_EQ(item, 1);
        weft_chan_drop(chan);
    }
}

static void the_last_handle_ends_it(void)
{
    weft_chan *chan = int_chan(WEFT_UNBOUNDED);
    weft_chan *other = weft_chan_ref(chan);
    CHECK(other == chan);
    send_int(chan, 1);
    weft_chan_drop(chan);
    send_int(other, 2);
    CHECK_EQ(recv_int(other), 1);
    struct wf_alloc_stats before;
    struct wf_alloc_stats after;
    wf_alloc_stats(&before);
    weft_chan_drop(other); /* with an item in it */
    wf_alloc_stats(&after);
    CHECK_EQ(after.freed - before.freed, 2);
}

/* As many as it takes; gives their number, and the answer to the last. */
static int send_some(weft_chan *chan, int *rc)
{
    int count = 0;
    while (*rc == 0 && count < 100) {
        *rc = count % 2 == 0 ? weft_send(chan, &count) : weft_try_send(chan, &count);
        count += *rc == 0 ? 1 : 0;
    }
    return count;
}

static void without_memory_nothing_is_half_done(void)
{
    struct faults faults = {0};
    while (faults_next(&faults)) {
        weft_chan *chan = NULL;
        weft_chan *bounded = NULL;
        faults_begin(&faults);
        int rc = weft_chan_open(&bounded, 8, 8);
        int rc_open = weft_chan_open(&chan, sizeof(int), WEFT_UNBOUNDED);
        int rc_send = rc_open;
        const int sent = send_some(chan, &rc_send);
        faults_end(&faults);
        CHECK(rc == 0 || rc == -ENOMEM);
        CHECK(rc_send == 0 || rc_send == -ENOMEM);
        CHECK((rc == 0) == (bounded != NULL) && (rc_open == 0) == (chan != NULL));
        faults.refused += rc != 0 || rc_send != 0 ? 1 : 0;
        if (chan != NULL) { /* what was sent is there, and it goes on */
            send_int(chan, sent);
            for (int n = 0; n <= sent; n++) {
                CHECK_EQ(recv_int(chan), n);
            }
        }
        weft_chan_drop(bounded);
        weft_chan_drop(chan);
    }
    CHECK(faults.refused >= 5);
}

/* ---- who waits, and in which order ----------------------------------------------------------- */

enum { CROWD = 9 };

struct place {
    weft_chan *chan;
    int number;
    int got; /* plain: written by the task, read after its end */
};

static intptr_t receive_one(void *arg)
{
    struct place *place = arg;
    return weft_recv(place->chan, &place->got);
}

static intptr_t send_one(void *arg)
{
    struct place *place = arg;
    return weft_send(place->chan, &place->number);
}

/* Each waits before the next one comes. */
static void line_up(weft_chan *chan, weft_fn fn, struct place *places, weft_task **tasks)
{
    for (int i = 0; i < CROWD; i++) {
        places[i] = (struct place){.chan = chan, .number = i, .got = -1};
        tasks[i] = go(fn, &places[i]);
        wait_until_waiting(chan, (unsigned)i + 1);
    }
}

static intptr_t serve_receivers_in_order(void *arg)
{
    (void)arg;
    const size_t capacities[] = {0, 1, 20, WEFT_UNBOUNDED};
    struct place places[CROWD];
    weft_task *tasks[CROWD];
    for (size_t i = 0; i < 4; i++) {
        weft_chan *chan = int_chan(capacities[i]);
        line_up(chan, receive_one, places, tasks);
        for (int n = 0; n < CROWD; n++) {
            if (n % 2 == 0) {
                send_int(chan, n);
            } else {
                CHECK_EQ(weft_try_send(chan, &n), 0);
            }
            CHECK_EQ(waiting_in(chan), CROWD - n - 1); /* handed over, not put down */
            CHECK_EQ(weft_chan_length(chan), 0);
        }
        CHECK_EQ(weft_await_all(tasks, CROWD, NULL), 0);
        for (int n = 0; n < CROWD; n++) {
            CHECK_EQ(places[n].got, n);
        }
        weft_chan_drop(chan);
    }
    return 0;
}

static intptr_t serve_senders_in_order(void *arg)
{
    (void)arg;
    const size_t capacities[] = {0, 1, 4};
    struct place places[CROWD];
    weft_task *tasks[CROWD];
    for (size_t i = 0; i < 3; i++) {
        const int capacity = (int)capacities[i];
        weft_chan *chan = int_chan(capacities[i]);
        for (int n = -capacity; n < 0; n++) {
            send_int(chan, n);
        }
        line_up(chan, send_one, places, tasks);
        for (int n = -capacity; n < CROWD; n++) {
            int item = -99;
            CHECK_EQ(weft_chan_length(chan), n + capacity < CROWD ? capacity : CROWD - n);
            CHECK_EQ(n % 2 == 0 ? weft_recv(chan, &item) : weft_try_recv(chan, &item), 0);
            CHECK_EQ(item, n);
        }
        CHECK_EQ(weft_await_all(tasks, CROWD, NULL), 0);
        weft_chan_drop(chan);
    }
    return 0;
}

/* behaviour 52; S1.29: pairs in order of arrival */
static void who_came_first_is_served_first(void)
{
    run_under(EVERYWHERE, serve_receivers_in_order);
    run_under(EVERYWHERE, serve_senders_in_order);
}

static intptr_t look_at_who_waits(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(0);
    struct place place = {.chan = chan, .number = 7};
    weft_task *task = go(receive_one, &place);
    wait_for_state(task, WEFT_BLOCKED);
    CHECK_EQ(info_of(task).wait, WEFT_WAIT_RECEIVE);
    CHECK(info_of(task).wait_object == chan);
    send_int(chan, 1);
    CHECK_EQ(weft_await(task), 0);
    task = go(send_one, &place);
    wait_for_state(task, WEFT_BLOCKED);
    CHECK_EQ(info_of(task).wait, WEFT_WAIT_SEND);
    CHECK(info_of(task).wait_object == chan);
    CHECK_EQ(recv_int(chan), 7);
    CHECK_EQ(weft_await(task), 0);
    weft_chan_drop(chan);
    return 0;
}

/* S0.31, S1.18 */
static void who_waits_is_seen_and_woken(void)
{
    run_under(EVERYWHERE, look_at_who_waits);
}

/* ---- closing --------------------------------------------------------------------------------- */

static intptr_t close_on_waiters(void *arg)
{
    (void)arg;
    enum { MANY = 100 }; /* more than are woken at once */
    static struct place places[MANY];
    weft_task *tasks[MANY];
    for (int is_send = 0; is_send < 2; is_send++) {
        weft_chan *chan = int_chan(is_send ? 1 : 3);
        if (is_send) {
            send_int(chan, 5);
        }
        for (int i = 0; i < MANY; i++) {
            places[i] = (struct place){.chan = chan, .got = -1};
            tasks[i] = go(is_send ? send_one : receive_one, &places[i]);
        }
        wait_until_waiting(chan, MANY);
        CHECK_EQ(weft_chan_close(chan), 0);
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(weft_await(tasks[i]), -EPIPE);
            CHECK_EQ(places[i].got, -1);
        }
        CHECK_EQ(weft_chan_length(chan), is_send);
        weft_chan_drop(chan);
    }
    return 0;
}

/* behaviour 52 */
static void a_close_wakes_everybody(void)
{
    run_under(EVERYWHERE, close_on_waiters);
}

/* ---- cancel and deadline --------------------------------------------------------------------- */

static intptr_t cancel_those_who_wait(void *arg)
{
    (void)arg;
    struct place places[CROWD];
    weft_task *tasks[CROWD];
    for (int is_send = 0; is_send < 2; is_send++) {
        weft_chan *chan = int_chan(0);
        line_up(chan, is_send ? send_one : receive_one, places, tasks);
        for (int i = 0; i < CROWD; i += 2) { /* the first, the last and some between them */
            CHECK_EQ(weft_cancel(tasks[i]), 0);
            CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
            CHECK_EQ(places[i].got, -1);
        }
        CHECK_EQ(waiting_in(chan), CROWD / 2);
        for (int i = 1; i < CROWD; i += 2) { /* in order still */
            if (is_send) {
                CHECK_EQ(recv_int(chan), i);
            } else {
                send_int(chan, i);
            }
            CHECK_EQ(weft_await(tasks[i]), 0);
            CHECK_EQ(places[i].got, is_send ? -1 : i);
        }
        weft_chan_drop(chan);
    }
    return 0;
}

/* behaviour 32, for channels */
static void a_cancel_ends_a_wait(void)
{
    run_under(EVERYWHERE, cancel_those_who_wait);
}

static intptr_t run_out_of_time(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(1);
    int item = 4;
    weft_deadline(weft_in(WEFT_MILLISECOND));
    CHECK_EQ(weft_recv(chan, &item), -ETIMEDOUT);
    CHECK_EQ(weft_now() >= weft_deadline(WEFT_NEVER), 1);
    weft_deadline(weft_now() - 1);
    CHECK_EQ(weft_recv(chan, &item), -ETIMEDOUT);
    CHECK_EQ(weft_send(chan, &item), 0); /* does not have to wait */
    CHECK_EQ(weft_send(chan, &item), -ETIMEDOUT);
    CHECK_EQ(weft_recv(chan, &item), 0);
    CHECK_EQ(weft_send(chan, &item), 0);
    weft_deadline(weft_in(WEFT_MILLISECOND));
    CHECK_EQ(weft_send(chan, &item), -ETIMEDOUT);
    CHECK_EQ(waiting_in(chan), 0);
    CHECK_EQ(weft_chan_length(chan), 1);
    weft_deadline(WEFT_NEVER);
    weft_chan_drop(chan);
    return 0;
}

static void a_deadline_ends_a_wait(void)
{
    run_under(EVERYWHERE, run_out_of_time);
}

static intptr_t wait_although_cancelled(void *arg)
{
    weft_chan *chan = arg;
    int item = 4;
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_recv(chan, &item), -ECANCELED);
    CHECK_EQ(weft_send(chan, &item), 0);
    CHECK_EQ(weft_send(chan, &item), -ECANCELED);
    CHECK_EQ(weft_recv(chan, &item), 0);
    CHECK_EQ(weft_shield(1), 0);
    item = recv_int(chan); /* behind the shield it waits */
    CHECK_EQ(weft_shield(0), 0);
    return item;
}

static intptr_t cancel_before_it_waits(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(1);
    weft_task *task = go(wait_although_cancelled, chan);
    wait_until_waiting(chan, 1);
    send_int(chan, 9);
    CHECK_EQ(weft_await(task), 9);
    weft_chan_drop(chan);
    return 0;
}

static void who_was_cancelled_does_not_wait(void)
{
    run_under(EVERYWHERE, cancel_before_it_waits);
}

/* The cancel and the item come at the same time: the task has one of them. */
static intptr_t race_cancel_and_item(void *arg)
{
    const struct setting *setting = arg;
    const int rounds = setting->workers > 1 ? 300 : 20;
    weft_chan *chan = int_chan(1);
    for (int i = 0; i < rounds; i++) {
        struct place place = {.chan = chan, .got = -1};
        weft_task *task = go(receive_one, &place);
        if (i % 2 == 0) {
            wait_until_waiting(chan, 1);
        }
        send_int(chan, i);
        CHECK_EQ(weft_cancel(task), 0);
        const intptr_t rc = weft_await(task);
        CHECK(rc == 0 || rc == -ECANCELED);
        CHECK_EQ(rc == 0 ? place.got : recv_int(chan), i);
    }
    weft_chan_drop(chan);
    return 0;
}

static void an_item_that_meets_a_cancel_is_not_lost(void)
{
    run_under(EVERYWHERE, race_cancel_and_item);
}

/* ---- by force -------------------------------------------------------------------------------- */

static intptr_t receive_shielded(void *arg)
{
    struct place *place = arg;
    CHECK_EQ(weft_shield(1), 0);
    (void)weft_recv(place->chan, &place->got);
    tap_fail(__FILE__, __LINE__, "it is never resumed");
}

static intptr_t send_shielded(void *arg)
{
    struct place *place = arg;
    CHECK_EQ(weft_shield(1), 0);
    (void)weft_send(place->chan, &place->number);
    tap_fail(__FILE__, __LINE__, "it is never resumed");
}

/* The runtime is gone, the channel is not: nobody waits in it any more. */
static void who_is_ended_by_force_leaves_the_channel(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_chan *in = int_chan(0);
        weft_chan *out = int_chan(0);
        struct place places[2] = {{.chan = in}, {.chan = out}};
        int item = 0;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *receiver = go_into(runtime, receive_shielded, &places[0]);
        weft_task *sender = go_into(runtime, send_shielded, &places[1]);
        wait_until_waiting(in, 1);
        wait_until_waiting(out, 1);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(receiver), -ECANCELED);
        CHECK_EQ(weft_await(sender), -ECANCELED);
        CHECK_EQ(waiting_in(in) + waiting_in(out), 0);
        CHECK_EQ(weft_try_send(in, &item), -EAGAIN);
        CHECK_EQ(weft_try_recv(out, &item), -EAGAIN);
        weft_chan_drop(in);
        weft_chan_drop(out);
    }
}

struct hog {
    wf_atomic_u32 is_running;
    wf_atomic_u32 is_over;
};

static intptr_t keep_the_worker(void *arg)
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
    struct place *place = arg;
    CHECK_EQ(weft_shield(1), 0);
    (void)weft_recv(place->chan, &place->got);
    (void)weft_sleep_until(WEFT_NEVER);
    tap_fail(__FILE__, __LINE__, "it is never resumed");
}

/* Items that were handed to tasks while their runtime closed: some of them may still have taken
 * theirs; those of the others came back. */
static void what_was_handed_to_one_who_is_gone_comes_back(void)
{
    enum { HANDED = 20 }; /* more than the ring has room for */
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_chan *chan = int_chan(1);
        struct hog hog = {{0}, {0}};
        struct place places[HANDED];
        weft_task *tasks[HANDED];
        pthread_t closer;
        int seen = 0;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (int i = 0; i < HANDED; i++) {
            places[i] = (struct place){.chan = chan};
            tasks[i] = go_into(runtime, receive_and_stay, &places[i]);
        }
        wait_until_waiting(chan, HANDED);
        weft_task *keeper = go_into(runtime, keep_the_worker, &hog);
        wait_for(&hog.is_running, 1);
        CHECK_EQ(wf_thread_start(&closer, close_by_force, runtime, NULL), 0);
        while (weft_runtime_spawn(runtime, NULL, echo, NULL, NULL) != -ESHUTDOWN) {
            (void)sched_yield(); /* until it closes */
        }
        for (int i = 0; i <= HANDED; i++) {
            send_int(chan, i); /* the last one finds nobody */
        }
        CHECK_EQ(weft_chan_length(chan), 1);
        raise_by_one(&hog.is_over);
        CHECK_EQ(wf_thread_join(closer), 0);
        for (int item; weft_try_recv(chan, &item) == 0;) {
            CHECK_EQ(seen & 1 << item, 0);
            seen |= 1 << item;
        }
        CHECK_EQ(seen & 1 << HANDED, 1 << HANDED);
        weft_chan_drop(chan);
        for (int i = 0; i < HANDED; i++) {
            CHECK_EQ(weft_await(tasks[i]), -ECANCELED);
        }
        weft_drop(keeper);
    }
}

/* ---- the three phases ------------------------------------------------------------------------ */

/* As a future does it: the wait is begun, looked at, and given up. */
static void a_wait_that_is_given_up_gives_its_item_back(void)
{
    enum { COUNT = 40 }; /* more than the ring has room for, so it grows twice */
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
        for (int n = COUNT - 2; n >= 0; n--) { /* the newest first goes to who waits */
            wf_chan_abandon(&nodes[n]);
        }
        CHECK(wf_waitq_is_granted(&nodes[COUNT - 1]));
        CHECK_EQ(items[COUNT - 1], COUNT - 2);
        CHECK_EQ(weft_chan_length(chan), COUNT - 2); /* more than it has room for */
        int item = COUNT;
        CHECK_EQ(weft_try_send(chan, &item), -EAGAIN);
        for (int n = 0; n < COUNT - 2; n++) {
            CHECK_EQ(recv_int(chan), n);
        }
        CHECK_EQ(weft_try_recv(chan, &item), -EAGAIN);
        weft_chan_drop(chan);
    }
}

static void a_send_that_is_given_up_sends_nothing(void)
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
    wf_chan_abandon(&nodes[1]); /* too late: it was sent */
    CHECK_EQ(weft_chan_length(chan), 0);
    CHECK_EQ(weft_chan_close(chan), 0);
    CHECK_EQ(wf_chan_begin_send(chan, &nodes[0]), -EPIPE);
    CHECK_EQ(wf_chan_begin_recv(chan, &nodes[0]), -EPIPE);
    weft_chan_drop(chan);
    chan = int_chan(WEFT_UNBOUNDED);
    for (int n = 0; n < 100; n++) {
        CHECK_EQ(wf_chan_begin_send(chan, &nodes[0]), 0);
    }
    CHECK_EQ(wf_chan_begin_recv(chan, &nodes[0]), 0);
    CHECK_EQ(weft_chan_length(chan), 99);
    weft_chan_drop(chan);
}

/* ---- fairness -------------------------------------------------------------------------------- */

static intptr_t send_for_ever(void *arg)
{
    weft_chan *chan = arg;
    int item = 0;
    while (weft_send(chan, &item) == 0) {
        const int rc = weft_try_recv(chan, &item);
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
    CHECK_EQ(weft_yield(), 0); /* it runs, and never has to wait */
    CHECK_EQ(weft_await(go(count_up, &cell)), 0);
    CHECK_EQ(weft_chan_close(chan), 0);
    CHECK_EQ(weft_await(busy), 0);
    weft_chan_drop(chan);
    return 0;
}

/* S4.34 */
static void a_loop_that_never_waits_lets_others_run(void)
{
    run_under(ON_ONE_WORKER, let_another_run);
}

static const struct tap_test tests[] = {
    TAP_TEST(bad_arguments_are_refused),
    TAP_TEST(it_holds_as_many_as_it_says),
    TAP_TEST(without_room_nobody_sends_alone),
    TAP_TEST(an_unbounded_one_grows),
    TAP_TEST(items_of_any_size_arrive_whole),
    TAP_TEST(a_closed_one_is_drained),
    TAP_TEST(the_last_handle_ends_it),
    TAP_TEST(without_memory_nothing_is_half_done),
    TAP_TEST(who_came_first_is_served_first),
    TAP_TEST(who_waits_is_seen_and_woken),
    TAP_TEST(a_close_wakes_everybody),
    TAP_TEST(a_cancel_ends_a_wait),
    TAP_TEST(a_deadline_ends_a_wait),
    TAP_TEST(who_was_cancelled_does_not_wait),
    TAP_TEST(an_item_that_meets_a_cancel_is_not_lost),
    TAP_TEST(who_is_ended_by_force_leaves_the_channel),
    TAP_TEST(what_was_handed_to_one_who_is_gone_comes_back),
    TAP_TEST(a_wait_that_is_given_up_gives_its_item_back),
    TAP_TEST(a_send_that_is_given_up_sends_nothing),
    TAP_TEST(a_loop_that_never_waits_lets_others_run),
};
TAP_MAIN(tests)
