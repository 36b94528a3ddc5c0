/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the queue of those who wait: first in, first granted; who leaves is not granted anything,
 *         who was granted something has it, and who cannot take it passes it on; who stands in
 *         several queues is granted one thing only.
 * Method: a box with tokens made of the queue and nothing else; its takers are tasks and threads
 *         that are cancelled, run out of time, or are ended by force.
 */
#include "sched_aids.h"
#include "sync/sync.h"

/* Tokens, each with plain data that goes from who put it to who takes it. */
struct box {
    struct wf_waitq queue;
    unsigned tokens; /* [locked] */
    int data;        /* plain: whoever has a token may use it */
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

/* ---- one token goes round -------------------------------------------------------------------- */

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

static void what_is_granted_is_had_by_one(void)
{
    run_under(EVERYWHERE, share_a_token);
}

/* ---- order ----------------------------------------------------------------------------------- */

struct turn {
    struct box *box;
    int *order; /* plain: passed on with the token */
    int number;
};

static intptr_t take_a_turn(void *arg)
{
    struct turn *turn = arg;
    CHECK_EQ(take(turn->box), 0);
    turn->order[turn->box->data++] = turn->number;
    put(turn->box);
    return 0;
}

static intptr_t queue_up(void *arg)
{
    (void)arg;
    enum { COUNT = 10 };
    struct box box = {0};
    int order[COUNT];
    struct turn turns[COUNT];
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        turns[i] = (struct turn){&box, order, i};
        tasks[i] = go(take_a_turn, &turns[i]);
        wait_until_waiting(&box, (size_t)i + 1);
        wait_for_state(tasks[i], WEFT_BLOCKED); /* its record is there */
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

static void who_came_first_is_granted_first(void)
{
    run_under(EVERYWHERE, queue_up);
}

/* ---- leaving --------------------------------------------------------------------------------- */

static intptr_t take_it(void *arg)
{
    return take(arg);
}

static intptr_t take_it_in_time(void *arg)
{
    (void)weft_deadline(weft_in(WEFT_MILLISECOND));
    return take(arg);
}

static intptr_t leave(void *arg)
{
    (void)arg;
    struct box box = {0};
    weft_task *tasks[4];
    for (int i = 0; i < 4; i++) {
        tasks[i] = go(take_it, &box);
        wait_until_waiting(&box, (size_t)i + 1);
    }
    const int leaving[] = {1, 3, 0};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_cancel(tasks[leaving[i]]), 0);
        CHECK_EQ(weft_await(tasks[leaving[i]]), -ECANCELED);
    }
    CHECK_EQ(waiting_in(&box), 1);
    CHECK_EQ(weft_await(go(take_it_in_time, &box)), -ETIMEDOUT);
    CHECK_EQ(waiting_in(&box), 1);
    put(&box);
    CHECK_EQ(weft_await(tasks[2]), 0);
    CHECK_EQ(box.tokens, 0);
    return 0;
}

static void who_leaves_is_granted_nothing(void)
{
    run_under(EVERYWHERE, leave);
}

/* A storm: each token is taken or is still there, whoever was cancelled when. */
static intptr_t cancel_and_grant(void *arg)
{
    (void)arg;
    enum { COUNT = 100 };
    struct box box = {0};
    weft_task *tasks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = go(take_it, &box);
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

static void nothing_is_lost_between_a_cancel_and_a_grant(void)
{
    run_under(EVERYWHERE, cancel_and_grant);
}

/* ---- by force -------------------------------------------------------------------------------- */

static intptr_t take_behind_a_shield(void *arg)
{
    CHECK_EQ(weft_shield(1), 0);
    return take(arg);
}

/* Half of them wait when the runtime is ended by force; the others have just been granted a token,
 * and are ended before they can take it, or after. */
static void a_forced_close_takes_waiters_out_and_passes_on(void)
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
        CHECK_EQ(weft_stop_the_world(runtime), 0);
        for (int i = 0; i < COUNT / 2; i++) {
            put(&box); /* nobody runs who could take it */
        }
        CHECK_EQ(weft_start_the_world(runtime), 0);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        unsigned taken = 0;
        for (int i = 0; i < COUNT; i++) {
            taken += weft_await(tasks[i]) == 0 ? 1 : 0;
        }
        CHECK_EQ(waiting_in(&box), 0);
        CHECK_EQ(box.tokens + taken, COUNT / 2);
    }
}

/* The node of a future, say, that is dropped after it was granted. */
static void who_cannot_take_it_passes_it_on(void)
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

static void who_stands_in_two_queues_is_granted_one_thing(void)
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
    TAP_TEST(what_is_granted_is_had_by_one),
    TAP_TEST(who_came_first_is_granted_first),
    TAP_TEST(who_leaves_is_granted_nothing),
    TAP_TEST(nothing_is_lost_between_a_cancel_and_a_grant),
    TAP_TEST(a_forced_close_takes_waiters_out_and_passes_on),
    TAP_TEST(who_cannot_take_it_passes_it_on),
    TAP_TEST(who_stands_in_two_queues_is_granted_one_thing),
};
TAP_MAIN(tests)
