/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/chan.c, select.c, waitq.c and spin.h every item that was sent is received
 *         once, whoever waits, selects, is cancelled or closes meanwhile; nobody sleeps for ever,
 * and nobody touches a node or a channel that is gone, in every order of steps under every memory
 * model. Method: threads of the test are tasks, tasks of another runtime and foreign threads.  A
 * task that waits is parked by its real state, and its thread by a parker.  What each sent and
 * received is put down, and must be the same in the end.  Items are plain data; nodes of the waits
 * in three phases come from the checker's heap and go back to it at once.  Behaviour 52;
 * S1.18, S1.29.
 */
#include <errno.h>

#include "model/model.h"
#include "sync/chan.h"

static weft_runtime runtime;
static struct wf_task_pool pools[2];
static weft_chan *chans[2];

/* By thread. */
static struct wf_worker workers[MODEL_THREADS_MAX];
static struct weft_task selves[MODEL_THREADS_MAX]; /* the task it is, if it is one */
static bool is_task[MODEL_THREADS_MAX];
static struct wf_parker parkers[MODEL_THREADS_MAX];
static const struct wf_waiter *waiters[MODEL_THREADS_MAX];
static int frames[MODEL_THREADS_MAX];    /* plain: 1 while the frame of its wait is there */
static uint64_t sent[MODEL_THREADS_MAX]; /* 0: nothing */
static uint64_t got[MODEL_THREADS_MAX];
static int ran[MODEL_THREADS_MAX]; /* the case of its select */

/* ---- what the scheduler does otherwise ----------------------------------------------------- */

/* Before the threads, and after, there is only one who is none of them. */
static bool is_in_task(void)
{
    return model_thread() < MODEL_THREADS_MAX && is_task[model_thread()];
}

struct wf_worker *wf_worker_self(void)
{
    return is_in_task() ? &workers[model_thread()] : NULL;
}

struct weft_task *wf_task_self(void)
{
    return is_in_task() ? &selves[model_thread()] : NULL;
}

void wf_task_suspend(struct weft_task *self)
{
    if (wf_state_park(&self->state)) {
        (void)wf_parker_park(&parkers[self - selves], WF_FOREVER);
    }
}

static void place(struct weft_task *task)
{
    wf_parker_unpark(&parkers[task - selves]);
}

void wf_task_wake(struct weft_task *task)
{
    if (wf_state_wake(&task->state) == WF_WAKE_QUEUE) {
        place(task);
    }
}

void wf_task_wake_on(struct wf_worker *worker, struct weft_task *task)
{
    (void)worker;
    wf_task_wake(task);
}

int wf_task_interrupted(struct weft_task *self)
{
    return wf_state_is_cancelled(&self->state) ? -ECANCELED : 0;
}

void wf_task_spend(struct weft_task *self)
{
    (void)self;
}

void wf_task_yield(struct weft_task *self)
{
    (void)self;
}

void wf_wait_begin(struct weft_task *self, enum weft_wait wait, const void *object)
{
    (void)self;
    (void)wait;
    (void)object;
}

void wf_wait_begin_until(struct weft_task *self, enum weft_wait wait, const void *object,
                         int64_t until_ns)
{
    (void)until_ns;
    wf_wait_begin(self, wait, object);
}

void wf_wait_end(struct weft_task *self)
{
    (void)self;
}

void wf_waiter_init(struct wf_waiter *waiter, struct weft_task *self)
{
    waiter->task = self;
    wf_parker_init(&waiter->parker);
    waiters[model_thread()] = waiter;
    wf_plain_store(&frames[model_thread()], 1);
}

void wf_waiter_wake(struct wf_waiter *waiter)
{
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        if (waiters[i] == waiter) {
            MODEL_REQUIRE(wf_plain_load(&frames[i]) == 1); /* it has not left yet */
        }
    }
    wf_parker_unpark(&waiter->parker); /* only threads are woken so */
}

bool wf_pool_enter(struct wf_task_pool *of)
{
    (void)of;
    return true;
}

void wf_pool_leave(struct wf_task_pool *of)
{
    (void)of;
}

/* Nothing that follows is called. */

int64_t wf_clock_now(void)
{
    model_fail("the clock");
}

bool wf_joiner_enter(struct weft_task *task, struct wf_joiner *joiner)
{
    (void)task;
    (void)joiner;
    model_fail("the end of a task");
}

void wf_joiner_leave(struct weft_task *task, struct wf_joiner *joiner)
{
    (void)wf_joiner_enter(task, joiner);
}

int weft_try_join(weft_task *task, intptr_t *result)
{
    (void)task;
    (void)result;
    model_fail("the end of a task");
}

/* ---- the beginning and the end of a test --------------------------------------------------- */

static void start(size_t first, size_t second)
{
    runtime = (weft_runtime){0};
    for (int i = 0; i < 2; i++) {
        pools[i] = (struct wf_task_pool){.runtime = &runtime};
        MODEL_REQUIRE(weft_chan_open(&chans[i], sizeof(uint64_t), i == 0 ? first : second) == 0);
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        selves[i] = (struct weft_task){.pool = &pools[0]};
        wf_store_relaxed(&selves[i].deadline, WEFT_NEVER);
        wf_state_init(&selves[i].state, 1);
        is_task[i] = false;
        wf_parker_init(&parkers[i]);
        workers[i] = (struct wf_worker){.runtime = &runtime, .pool = &pools[0], .index = i};
        wf_store_relaxed(&workers[i].current, &selves[i]);
        waiters[i] = NULL;
        frames[i] = 0;
        sent[i] = 0;
        got[i] = 0;
        ran[i] = -1;
    }
}

static void start_without_room(void)
{
    start(0, 0);
}

static void start_with_room(void)
{
    start(1, 1);
}

static void start_with_two_handles(void)
{
    start(1, 0);
    (void)weft_chan_ref(chans[0]);
}

/* What was sent and neither received nor left in a channel; each is a bit. */
static uint64_t missing(void)
{
    uint64_t left = 0;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        MODEL_REQUIRE((left & sent[i]) == 0);
        left |= sent[i];
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        MODEL_REQUIRE((left & got[i]) == got[i]); /* it was sent, and to nobody else */
        left &= ~got[i];
    }
    for (int i = 0; i < 2; i++) {
        for (uint64_t item; chans[i] != NULL && weft_try_recv(chans[i], &item) == 0;) {
            MODEL_REQUIRE((left & item) == item);
            left &= ~item;
        }
        weft_chan_drop(chans[i]); /* nobody is left in its queues */
    }
    return left;
}

static void check(void)
{
    MODEL_REQUIRE(missing() == 0);
}

static void check_after_the_last_handle(void)
{
    weft_chan_drop(chans[1]);
}

/* Of the two, one sent and the other received, by the same channel. */
static void check_meeting(void)
{
    MODEL_REQUIRE(ran[0] == ran[1]);
    MODEL_REQUIRE(ran[0] == 0 || ran[0] == 1);
    check();
}

/* ---- threads ------------------------------------------------------------------------------- */

/* [a thread that waited]  Its frame is gone. */
static void leave(void)
{
    wf_plain_store(&frames[model_thread()], 0);
}

static void send_to(weft_chan *chan)
{
    const uint64_t item = UINT64_C(1) << model_thread();
    const int rc = weft_send(chan, &item);
    leave();
    MODEL_REQUIRE(rc == 0 || rc == -EPIPE || rc == -ECANCELED);
    sent[model_thread()] = rc == 0 ? item : 0;
}

static void receive_from(weft_chan *chan)
{
    const int rc = weft_recv(chan, &got[model_thread()]);
    leave();
    MODEL_REQUIRE(rc == 0 || rc == -EPIPE || rc == -ECANCELED);
    MODEL_REQUIRE((rc == 0) == (wf_plain_load(&got[model_thread()]) != 0));
}

static void send_task(void)
{
    is_task[model_thread()] = true;
    send_to(chans[0]);
}

static void send_task_elsewhere(void)
{
    is_task[model_thread()] = true;
    send_to(chans[1]);
}

static void send_thread(void)
{
    send_to(chans[0]);
}

static void send_stranger(void)
{
    workers[model_thread()].pool = &pools[1];
    selves[model_thread()].pool = &pools[1];
    send_task();
}

static void receive_task(void)
{
    is_task[model_thread()] = true;
    receive_from(chans[0]);
}

static void receive_thread(void)
{
    receive_from(chans[0]);
}

static void close_it(void)
{
    MODEL_REQUIRE(weft_chan_close(chans[0]) == 0);
}

static void close_task(void)
{
    is_task[model_thread()] = true;
    close_it();
}

static void cancel_first(void)
{
    if (wf_state_cancel(&selves[0].state) == WF_WAKE_QUEUE) {
        place(&selves[0]);
    }
}

/* Whoever waits has to bear it. */
static void wake_first_for_nothing(void)
{
    wf_task_wake(&selves[0]);
}

static void try_both_ways_and_drop(void)
{
    const uint64_t item = 1;
    uint64_t other;
    (void)weft_try_send(chans[0], &item);
    (void)weft_try_recv(chans[0], &other);
    weft_chan_drop(chans[0]);
}

/* As a future does it; its memory goes as soon as it knows. */
static void receive_in_phases(void)
{
    struct weft_task *self = &selves[model_thread()];
    struct wf_wait_node *node = wf_alloc_zeroed(1, sizeof(*node));
    is_task[model_thread()] = true;
    wf_chan_node_init(node, self, &got[model_thread()]);
    int rc = wf_chan_begin_recv(chans[0], node);
    if (rc == WF_PENDING) {
        while (!wf_waitq_is_granted(node)) { /* woken by the grant */
            wf_task_suspend(self);
        }
        rc = wf_plain_load(&node->result);
    }
    MODEL_REQUIRE(rc == 0 || rc == -EPIPE);
    wf_free(node);
}

/* It is given up at once, and what was handed to it goes back. */
static void abandon_in_phases(void)
{
    struct wf_wait_node *node = wf_alloc_zeroed(1, sizeof(*node));
    uint64_t item = 0;
    is_task[model_thread()] = true;
    wf_chan_node_init(node, &selves[model_thread()], &item);
    if (wf_chan_begin_recv(chans[0], node) == WF_PENDING) {
        wf_chan_abandon(node);
    } else {
        got[model_thread()] = item;
    }
    wf_free(node);
}

/* ---- selects ------------------------------------------------------------------------------- */

static void select_from_both(void)
{
    uint64_t *item = &got[model_thread()];
    weft_case cases[] = {weft_case_recv(chans[0], item), weft_case_recv(chans[1], item)};
    const int rc = weft_select(cases, 2, 0);
    leave();
    MODEL_REQUIRE(rc == 0 || rc == 1 || rc == -ECANCELED);
    MODEL_REQUIRE((rc >= 0 && cases[rc].result == 0) == (*item != 0));
    MODEL_REQUIRE(rc < 0 || cases[rc].result == 0 || cases[rc].result == -EPIPE);
    ran[model_thread()] = rc;
}

static void select_task(void)
{
    is_task[model_thread()] = true;
    select_from_both();
}

static void select_thread(void)
{
    select_from_both();
}

/* Sends to one channel or receives from the other. */
static void meet(weft_chan *to, weft_chan *from, int sends)
{
    const uint64_t item = UINT64_C(1) << model_thread();
    weft_case cases[2];
    is_task[model_thread()] = true;
    cases[sends] = weft_case_send(to, &item);
    cases[1 - sends] = weft_case_recv(from, &got[model_thread()]);
    const int rc = weft_select(cases, 2, 0);
    MODEL_REQUIRE(rc >= 0 && cases[rc].result == 0);
    sent[model_thread()] = rc == sends ? item : 0;
    ran[model_thread()] = rc;
}

/* Case 0 of both is the first channel, case 1 the second. */
static void meet_by_first(void)
{
    meet(chans[0], chans[1], 0);
}

static void meet_by_second(void)
{
    meet(chans[1], chans[0], 1);
}

static const struct model_test tests[] = {
    {.name = "two tasks meet",
     .setup = start_without_room,
     .threads = {receive_task, send_task},
     .names = {"receiver", "sender"},
     .check = check},
    {.name = "a task and a thread meet",
     .setup = start_without_room,
     .threads = {receive_task, send_thread},
     .names = {"receiver", "sender"},
     .check = check},
    {.name = "two threads meet",
     .setup = start_without_room,
     .threads = {receive_thread, send_thread},
     .names = {"receiver", "sender"},
     .check = check},
    {.name = "tasks of two runtimes meet",
     .setup = start_without_room,
     .threads = {receive_task, send_stranger},
     .names = {"receiver", "sender"},
     .check = check},
    {.name = "an item passes through the ring",
     .setup = start_with_room,
     .threads = {receive_task, send_task},
     .names = {"receiver", "sender"},
     .check = check},
    {.name = "a close and one who receives",
     .setup = start_without_room,
     .threads = {receive_task, close_it},
     .names = {"receiver", "closer"},
     .check = check},
    {.name = "a close and one who sends",
     .setup = start_without_room,
     .threads = {send_task, close_it},
     .names = {"sender", "closer"},
     .check = check},
    {.name = "a close among the two",
     .setup = start_without_room,
     .threads = {receive_task, send_task, close_it},
     .names = {"receiver", "sender", "closer"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "a cancel and an item",
     .setup = start_with_room,
     .threads = {receive_task, send_task, cancel_first},
     .names = {"receiver", "sender", "canceller"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "an item for one who is woken for nothing",
     .setup = start_without_room,
     .threads = {receive_task, send_task, wake_first_for_nothing},
     .names = {"receiver", "sender", "waker"},
     .bound = {3, 1, 2}, /* as above */
     .check = check},
    {.name = "the last handle",
     .setup = start_with_two_handles,
     .threads = {try_both_ways_and_drop, try_both_ways_and_drop},
     .names = {"first", "second"},
     .check = check_after_the_last_handle},
    {.name = "a future",
     .setup = start_without_room,
     .threads = {receive_in_phases, send_task},
     .names = {"future", "sender"},
     .check = check},
    {.name = "a future and a sender of another runtime",
     .setup = start_without_room,
     .threads = {receive_in_phases, send_stranger},
     .names = {"future", "sender"},
     .check = check},
    {.name = "a future and a close",
     .setup = start_without_room,
     .threads = {receive_in_phases, close_task},
     .names = {"future", "closer"},
     .check = check},
    {.name = "a future that is dropped",
     .setup = start_with_room,
     .threads = {abandon_in_phases, send_task},
     .names = {"future", "sender"},
     .check = check},
    {.name = "a select and two who send",
     .setup = start_with_room,
     .threads = {select_task, send_task, send_task_elsewhere},
     .names = {"select", "first", "second"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "a select and one who sends",
     .setup = start_without_room,
     .threads = {select_task, send_task},
     .names = {"select", "sender"},
     .check = check},
    {.name = "a thread selects",
     .setup = start_without_room,
     .threads = {select_thread, send_task},
     .names = {"select", "sender"},
     .check = check},
    {.name = "a select and a close",
     .setup = start_without_room,
     .threads = {select_task, close_it},
     .names = {"select", "closer"},
     .check = check},
    {.name = "a select, an item and a cancel",
     .setup = start_with_room,
     .threads = {select_task, send_task, cancel_first},
     .names = {"select", "sender", "canceller"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "two selects meet",
     .setup = start_without_room,
     .threads = {meet_by_first, meet_by_second},
     .names = {"first", "second"},
     .check = check_meeting},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"chan", tests, MODEL_COUNT(tests),
                                             NULL,   0,     "src/sync/"};
    return model_main(argc, argv, &suite);
}
