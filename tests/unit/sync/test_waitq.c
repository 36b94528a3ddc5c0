/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the wait queue is first in, first granted; a waiter that leaves is granted nothing, a
 *         waiter that was granted something has it, and a waiter that cannot take it passes it on;
 *         a waiter in several queues is granted one thing only.
 * Method: a box with tokens built from the queue alone; its takers are tasks and threads that are
 *         cancelled, exceed a deadline, or are ended by a forced close.
 */
#include "sched_helpers.h"
#include "sync/sync.h"

/* Tokens, each with plain data that passes from the putter to the taker. */
struct box {
    struct wf_waitq queue;
    unsigned tokens; /* [locked] */
    int data;        /* plain: only a holder of a token uses it */
};

static void put(struct box *box);

static void pass_on(struct wf_wait_node *node)
{
    put(wf_container_of(node->queue, struct box, queue));
}

static void put(struct box *box)
{
    wf_lock_acquire(&box->queue.lock);
    struct wf_wait_node *node = wf_waitq_claim(&box->queue);
    struct weft_task *task = NULL;
    if (node != NULL) {
        task = wf_waitq_grant(node);
    } else {
        box->tokens++;
    }
    wf_lock_release(&box->queue.lock);
    if (task != NULL) {
        wf_task_wake(task);
    }
}

static int take(struct box *box)
{
    struct wf_wait_node node;
    wf_node_init(&node, wf_task_self());
    node.pass_on = pass_on;
    wf_lock_acquire(&box->queue.lock);
    const bool is_there = box->tokens > 0;
    if (is_there) {
        box->tokens--;
    } else {
        wf_waitq_push(&box->queue, &node);
    }
    wf_lock_release(&box->queue.lock);
    return is_there ? 0 : wf_waitq_wait(&node, WEFT_WAIT_SEMAPHORE, box, WEFT_NEVER);
}

static size_t waiting_in(struct box *box)
{
    size_t count = 0;
    wf_lock_acquire(&box->queue.lock);
    for (struct wf_wait_node *node = box->queue.first; node != NULL; node = node->next) {
        count++;
    }
    wf_lock_release(&box->queue.lock);
    return count;
}

static void wait_until_waiting(struct box *box, size_t count)
{
    while (waiting_in(box) != count) {
        let_others_run();
    }
}

/* ---- one token for many takers --------------------------------------------------------------- */

enum { ROUNDS = 200 };

static intptr_t take_and_put(void *arg)
{
    struct box *box = arg;
    for (int i = 0; i < ROUNDS; i++) {
        int rc = take(box);
        if (rc != 0) {
            return rc;
        }
        box->data++;
        put(box);
    }
    return 0;
}

static void *take_and_put_in_a_thread(void *arg)
{
    CHECK_EQ(take_and_put(arg), 0);
    return NULL;
}

static intptr_t share_a_token(void *arg)
{
    (void)arg;
    enum { TASKS = 4, THREADS = 2 };
    struct box box = {.tokens = 1};
    weft_task *tasks[TASKS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_start(&threads[i], take_and_put_in_a_thread, &box, NULL), 0);
    }
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = go(take_and_put, &box);
    }
    CHECK_EQ(weft_await_all(tasks, TASKS, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(wf_thread_join(threads[i]), 0);
    }
    CHECK_EQ(box.data, (TASKS + THREADS) * ROUNDS);
    CHECK_EQ(box.tokens, 1);
    CHECK(box.queue.first == NULL && box.queue.last == NULL);
    return 0;
}

static void waitq_grant_goes_to_one_waiter(void)
{
    run_under(EVERYWHERE, share_a_token);
}

/* ---- order ----------------------------------------------------------------------------------- */

struct ticket {
    struct box *box;
    int *order; /* plain: passed on with the token */
    int number;
};

static intptr_t take_in_order(void *arg)
{
    struct ticket *ticket = arg;
    CHECK_EQ(take(ticket->box), 0);
    ticket->order[ticket->box->data++] = ticket->number;
    put(ticket->box);
    return 0;
}

static intptr_t queue_up(void *arg)
{
    (void)arg;
    enum { COUNT = 10 };
    struct box box = {0};
    int order[COUNT];
    struct ticket turns[COUNT];
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        turns[i] = (struct ticket){&box, order, i};
        tasks[i] = go(take_in_order, &turns[i]);
        wait_until_waiting(&box, (size_t)i + 1);
        wait_for_state(tasks[i], WEFT_TASK_BLOCKED); /* its wait record is set */
        CHECK_EQ(info_of(tasks[i]).wait, WEFT_WAIT_SEMAPHORE);
        CHECK(info_of(tasks[i]).wait_object == &box);
    }
    put(&box);
    CHECK_EQ(weft_await_all(tasks, COUNT, NULL), 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(order[i], i);
    }
    return 0;
}

static void waitq_grants_in_order(void)
{
    run_under(EVERYWHERE, queue_up);
}

/* ---- leaving --------------------------------------------------------------------------------- */

static intptr_t take_token(void *arg)
{
    return take(arg);
}

static intptr_t take_token_until_deadline(void *arg)
{
    (void)weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    return take(arg);
}

static intptr_t cancel_and_time_out(void *arg)
{
    (void)arg;
    struct box box = {0};
    weft_task *tasks[4];
    for (int i = 0; i < 4; i++) {
        tasks[i] = go(take_token, &box);
        wait_until_waiting(&box, (size_t)i + 1);
    }
    const int leaving[] = {1, 3, 0};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_cancel(tasks[leaving[i]]), 0);
        CHECK_EQ(weft_await(tasks[leaving[i]]), -ECANCELED);
    }
    CHECK_EQ(waiting_in(&box), 1);
    CHECK_EQ(weft_await(go(take_token_until_deadline, &box)), -ETIMEDOUT);
    CHECK_EQ(waiting_in(&box), 1);
    put(&box);
    CHECK_EQ(weft_await(tasks[2]), 0);
    CHECK_EQ(box.tokens, 0);
    return 0;
}

static void waitq_waiter_that_leaves_is_granted_nothing(void)
{
    run_under(EVERYWHERE, cancel_and_time_out);
}

/* Stress: each token is taken or is still in the box, whichever taker was cancelled when. */
static intptr_t cancel_and_grant(void *arg)
{
    (void)arg;
    enum { COUNT = 100 };
    struct box box = {0};
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(take_token, &box);
    }
    for (int i = 0; i < COUNT; i++) {
        put(&box);
        CHECK_EQ(weft_cancel(tasks[(i * 7) % COUNT]), 0);
    }
    unsigned taken = 0;
    for (int i = 0; i < COUNT; i++) {
        intptr_t rc = weft_await(tasks[i]);
        CHECK(rc == 0 || rc == -ECANCELED);
        taken += rc == 0 ? 1 : 0;
    }
    CHECK_EQ(box.tokens + taken, COUNT);
    CHECK_EQ(waiting_in(&box), 0);
    return 0;
}

static void waitq_cancel_racing_grant_loses_nothing(void)
{
    run_under(EVERYWHERE, cancel_and_grant);
}

/* ---- forced close ---------------------------------------------------------------------------- */

static intptr_t take_behind_a_shield(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    return take(arg);
}

/* Half of the tasks wait at the forced close; the others have just been granted a token, and end
 * before or after they take it. */
static void waitq_forced_close_removes_waiters_and_passes_grants_on(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        enum { COUNT = 10 };
        struct box box = {0};
        weft_runtime *runtime = NULL;
        weft_task *tasks[COUNT];
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (int i = 0; i < COUNT; i++) {
            tasks[i] = go_into(runtime, take_behind_a_shield, &box);
        }
        wait_until_waiting(&box, COUNT);
        CHECK_EQ(weft_world_stop(runtime), 0);
        for (int i = 0; i < COUNT / 2; i++) {
            put(&box); /* no task that could take it runs */
        }
        CHECK_EQ(weft_world_start(runtime), 0);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        unsigned taken = 0;
        for (int i = 0; i < COUNT; i++) {
            taken += weft_await(tasks[i]) == 0 ? 1 : 0;
        }
        CHECK_EQ(waiting_in(&box), 0);
        CHECK_EQ(box.tokens + taken, COUNT / 2);
    }
}

/* For example the node of a future that is dropped after it was granted. */
static void waitq_abandoned_grant_is_passed_on(void)
{
    struct box box = {0};
    struct wf_wait_node first;
    struct wf_wait_node second;
    wf_node_init(&first, NULL);
    wf_node_init(&second, NULL);
    first.pass_on = pass_on;
    second.pass_on = pass_on;
    wf_waitq_push(&box.queue, &second);
    wf_waitq_push_front(&box.queue, &first);
    put(&box);
    CHECK(wf_waitq_is_granted(&first));
    CHECK(!wf_waitq_is_granted(&second));
    wf_waitq_abandon(&first);
    CHECK(wf_waitq_is_granted(&second));
    wf_waitq_abandon(&second);
    CHECK_EQ(box.tokens, 1);
}

/* ---- in several queues ----------------------------------------------------------------------- */

static void waitq_waiter_in_two_queues_is_granted_by_one(void)
{
    struct box boxes[2] = {0};
    struct wf_selection selection;
    struct wf_wait_node nodes[2];
    wf_atomic_init(&selection.winner, -1);
    wf_waiter_init(&selection.waiter, NULL);
    for (int i = 0; i < 2; i++) {
        wf_node_init(&nodes[i], NULL);
        nodes[i].selection = &selection;
        nodes[i].index = i;
        wf_waitq_push(&boxes[i].queue, &nodes[i]);
    }
    put(&boxes[1]);
    put(&boxes[0]);
    CHECK_EQ(wf_load_relaxed(&selection.winner), 1);
    CHECK_EQ(boxes[0].tokens, 1);
    CHECK_EQ(boxes[1].tokens, 0);
    CHECK(!wf_waitq_leave(&nodes[0]));
    CHECK(wf_waitq_leave(&nodes[1]));
}

static const struct tap_test tests[] = {
    TAP_TEST(waitq_grant_goes_to_one_waiter),
    TAP_TEST(waitq_grants_in_order),
    TAP_TEST(waitq_waiter_that_leaves_is_granted_nothing),
    TAP_TEST(waitq_cancel_racing_grant_loses_nothing),
    TAP_TEST(waitq_forced_close_removes_waiters_and_passes_grants_on),
    TAP_TEST(waitq_abandoned_grant_is_passed_on),
    TAP_TEST(waitq_waiter_in_two_queues_is_granted_by_one),
};
TAP_MAIN(tests)
