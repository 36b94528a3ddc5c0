/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/chan.c, select.c, waitq.c and spin.h every item that was sent is received
 *         once, whichever thread waits, selects, is cancelled or closes meanwhile; no thread sleeps
 *         for ever, and no thread touches a freed node or channel, in every order of steps under
 *         every memory model.
 * Method: threads of the test are tasks, tasks of another runtime and threads outside a runtime.  A
 *         task that waits is parked by its real state, and its thread by a parker.  Each thread
 *         records what it sent and received; the sums must be equal in the end.  Items are plain
 *         data; nodes of the waits in three phases come from the checker's heap and are freed at
 *         once.  Behaviour 52; S1.18, S1.29.
 */
#include <errno.h>

#include "model/model.h"
#include "sync/chan.h"

static weft_runtime runtime;
static struct wf_task_pool pools[2];
static weft_chan *chans[2];

/* By thread. */
static struct wf_worker workers[MODEL_THREADS_MAX];
static struct weft_task selves[MODEL_THREADS_MAX]; /* the task of this thread, if it is one */
static bool is_task[MODEL_THREADS_MAX];
static struct wf_parker parkers[MODEL_THREADS_MAX];
static const struct wf_waiter *waiters[MODEL_THREADS_MAX];
static int frames[MODEL_THREADS_MAX];    /* plain: 1 while the frame of its wait exists */
static uint64_t sent[MODEL_THREADS_MAX]; /* 0: nothing */
static uint64_t got[MODEL_THREADS_MAX];
static int ran[MODEL_THREADS_MAX]; /* the case of its select */

/* ---- stubs of the scheduler ---------------------------------------------------------------- */

/* Before and after the threads, setup() and check() run outside of a task. */
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

void wf_undo_hook_add(struct wf_undo_hook *hook, void (*undo)(void *arg), void *arg)
{
    (void)hook;
    (void)undo;
    (void)arg;
    model_fail("no select needs an allocation");
}

void wf_undo_hook_remove(struct wf_undo_hook *hook)
{
    wf_undo_hook_add(hook, NULL, NULL);
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
            MODEL_REQUIRE(wf_plain_load(&frames[i]) == 1); /* its frame still exists */
        }
    }
    wf_parker_unpark(&waiter->parker); /* only threads are woken this way */
}

bool wf_pool_pin(struct wf_task_pool *of)
{
    (void)of;
    return true;
}

void wf_pool_unpin(struct wf_task_pool *of)
{
    (void)of;
}

/* The functions below are not called. */

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

/* ---- setup and check ----------------------------------------------------------------------- */

static void start(size_t first, size_t second)
{
    runtime = (weft_runtime){0};
    for (int i = 0; i < 2; i++) {
        pools[i] = (struct wf_task_pool){.runtime = &runtime};
        MODEL_REQUIRE(weft_chan_new(&chans[i], sizeof(uint64_t), i == 0 ? first : second) == 0);
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

static void start_capacity_0(void)
{
    start(0, 0);
}

static void start_capacity_1(void)
{
    start(1, 1);
}

static void start_with_two_handles(void)
{
    start(1, 0);
    (void)weft_chan_ref(chans[0]);
}

/* The items that were sent and neither received nor left in a channel; each is a bit. */
static uint64_t missing(void)
{
    uint64_t left = 0;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        MODEL_REQUIRE((left & sent[i]) == 0);
        left |= sent[i];
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        MODEL_REQUIRE((left & got[i]) == got[i]); /* it was sent, and received once */
        left &= ~got[i];
    }
    for (int i = 0; i < 2; i++) {
        for (uint64_t item; chans[i] != NULL && weft_chan_try_recv(chans[i], &item) == 0;) {
            MODEL_REQUIRE((left & item) == item);
            left &= ~item;
        }
        weft_chan_unref(chans[i]); /* no waiter is left in its queues */
    }
    return left;
}

static void check(void)
{
    MODEL_REQUIRE(missing() == 0);
}

static void check_after_the_last_handle(void)
{
    weft_chan_unref(chans[1]);
}

/* One of the two sent and the other received, through the same channel. */
static void check_pairing(void)
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
    const int rc = weft_chan_send(chan, &item);
    leave();
    MODEL_REQUIRE(rc == 0 || rc == -EPIPE || rc == -ECANCELED);
    sent[model_thread()] = rc == 0 ? item : 0;
}

static void receive_from(weft_chan *chan)
{
    const int rc = weft_chan_recv(chan, &got[model_thread()]);
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

static void send_other_runtime(void)
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

/* A waiter must tolerate it. */
static void wake_first_spuriously(void)
{
    wf_task_wake(&selves[0]);
}

static void try_both_ways_and_drop(void)
{
    const uint64_t item = 1;
    uint64_t other;
    (void)weft_chan_try_send(chans[0], &item);
    (void)weft_chan_try_recv(chans[0], &other);
    weft_chan_unref(chans[0]);
}

/* As a future does; its memory is freed as soon as the result is known. */
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

/* Abandons the wait at once; an item that was granted goes back. */
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
    const int rc = weft_select(cases, 2);
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
static void select_send_or_recv(weft_chan *to, weft_chan *from, int sends)
{
    const uint64_t item = UINT64_C(1) << model_thread();
    weft_case cases[2];
    is_task[model_thread()] = true;
    cases[sends] = weft_case_send(to, &item);
    cases[1 - sends] = weft_case_recv(from, &got[model_thread()]);
    const int rc = weft_select(cases, 2);
    MODEL_REQUIRE(rc >= 0 && cases[rc].result == 0);
    sent[model_thread()] = rc == sends ? item : 0;
    ran[model_thread()] = rc;
}

/* Case 0 of both is the first channel, case 1 the second. */
static void select_first(void)
{
    select_send_or_recv(chans[0], chans[1], 0);
}

static void select_second(void)
{
    select_send_or_recv(chans[1], chans[0], 1);
}

static const struct model_test tests[] = {
    {.name = "send races recv, capacity 0",
     .setup = start_capacity_0,
     .threads = {receive_task, send_task},
     .names = {"receiver", "sender"},
     .check = check},
    {.name = "send of a thread races recv",
     .setup = start_capacity_0,
     .threads = {receive_task, send_thread},
     .names = {"receiver", "sender"},
     .check = check},
    {.name = "send of a thread races recv of a thread",
     .setup = start_capacity_0,
     .threads = {receive_thread, send_thread},
     .names = {"receiver", "sender"},
     .check = check},
    {.name = "send of another runtime races recv",
     .setup = start_capacity_0,
     .threads = {receive_task, send_other_runtime},
     .names = {"receiver", "sender"},
     .check = check},
    {.name = "send races recv, capacity 1",
     .setup = start_capacity_1,
     .threads = {receive_task, send_task},
     .names = {"receiver", "sender"},
     .check = check},
    {.name = "close races recv",
     .setup = start_capacity_0,
     .threads = {receive_task, close_it},
     .names = {"receiver", "closer"},
     .check = check},
    {.name = "close races send",
     .setup = start_capacity_0,
     .threads = {send_task, close_it},
     .names = {"sender", "closer"},
     .check = check},
    {.name = "close races send and recv",
     .setup = start_capacity_0,
     .threads = {receive_task, send_task, close_it},
     .names = {"receiver", "sender", "closer"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "cancel races send and recv",
     .setup = start_capacity_1,
     .threads = {receive_task, send_task, cancel_first},
     .names = {"receiver", "sender", "canceller"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "spurious wake-up races send and recv",
     .setup = start_capacity_0,
     .threads = {receive_task, send_task, wake_first_spuriously},
     .names = {"receiver", "sender", "waker"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso, one under view */
     .check = check},
    {.name = "last handle frees it",
     .setup = start_with_two_handles,
     .threads = {try_both_ways_and_drop, try_both_ways_and_drop},
     .names = {"first", "second"},
     .check = check_after_the_last_handle},
    {.name = "future recv races send",
     .setup = start_capacity_0,
     .threads = {receive_in_phases, send_task},
     .names = {"future", "sender"},
     .check = check},
    {.name = "future recv races send of another runtime",
     .setup = start_capacity_0,
     .threads = {receive_in_phases, send_other_runtime},
     .names = {"future", "sender"},
     .check = check},
    {.name = "future recv races close",
     .setup = start_capacity_0,
     .threads = {receive_in_phases, close_task},
     .names = {"future", "closer"},
     .check = check},
    {.name = "future recv dropped during send",
     .setup = start_capacity_1,
     .threads = {abandon_in_phases, send_task},
     .names = {"future", "sender"},
     .check = check},
    {.name = "select races two sends",
     .setup = start_capacity_1,
     .threads = {select_task, send_task, send_task_elsewhere},
     .names = {"select", "first", "second"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "select races a send",
     .setup = start_capacity_0,
     .threads = {select_task, send_task},
     .names = {"select", "sender"},
     .check = check},
    {.name = "select of a thread races a send",
     .setup = start_capacity_0,
     .threads = {select_thread, send_task},
     .names = {"select", "sender"},
     .check = check},
    {.name = "select races close",
     .setup = start_capacity_0,
     .threads = {select_task, close_it},
     .names = {"select", "closer"},
     .check = check},
    {.name = "select races send and cancel",
     .setup = start_capacity_1,
     .threads = {select_task, send_task, cancel_first},
     .names = {"select", "sender", "canceller"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso: more takes minutes */
     .check = check,
     .is_slow = 1},
    {.name = "select pairs with another select",
     .setup = start_capacity_0,
     .threads = {select_first, select_second},
     .names = {"first", "second"},
     .check = check_pairing},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"chan", tests, MODEL_COUNT(tests),
                                             NULL,   0,     "src/sync/"};
    return model_main(argc, argv, &suite);
}
