/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a oneshot passes one value once, in either order of sender and receiver; the receiver may
 *         free it as soon as the value was received; cancel, deadline, close and forced close end
 *         the wait.
 * Method: both orders of sender and receiver in tasks, threads and two runtimes; many iterations
 *         with the oneshot in the frame of the receiver, which is left at once.
 */
#include "chan_helpers.h"

/* Returns when the task waits for the oneshot. */
static void wait_until_waited(weft_task *task)
{
    while (info_of(task).wait != WEFT_WAIT_RECEIVE || state_of(task) != WEFT_TASK_BLOCKED) {
        let_others_run();
    }
}

static intptr_t receive(void *arg)
{
    void *value = NULL;
    const int rc = weft_oneshot_recv(arg, &value);
    return rc != 0 ? rc : *(int *)value;
}

static void oneshot_works_without_a_runtime(void)
{
    weft_oneshot oneshot = {{0}};
    void *value = NULL;
    int number = 3;
    CHECK_EQ(weft_oneshot_try_recv(&oneshot, &value), -EAGAIN);
    CHECK_EQ(weft_oneshot_send(&oneshot, &number), 0);
    CHECK_EQ(weft_oneshot_send(&oneshot, NULL), -EALREADY);
    CHECK_EQ(weft_oneshot_close(&oneshot), 0); /* the value can still be received */
    CHECK_EQ(weft_oneshot_recv(&oneshot, &value), 0);
    CHECK(value == &number);
    CHECK_EQ(weft_oneshot_recv(&oneshot, &value), -EALREADY);
    CHECK_EQ(weft_oneshot_try_recv(&oneshot, &value), -EALREADY);
    CHECK_EQ(weft_oneshot_send(&oneshot, &number), -EALREADY);
    oneshot = (weft_oneshot){{0}};
    CHECK_EQ(weft_oneshot_close(&oneshot), 0);
    CHECK_EQ(weft_oneshot_close(&oneshot), -EPIPE);
    CHECK_EQ(weft_oneshot_send(&oneshot, &number), -EPIPE);
    CHECK_EQ(weft_oneshot_recv(&oneshot, &value), -EPIPE);
    oneshot = (weft_oneshot){{0}};
    CHECK_EQ(weft_oneshot_send(&oneshot, &number), 0);
    CHECK_EQ(weft_oneshot_recv(&oneshot, NULL), 0); /* a NULL output discards the value */
}

static intptr_t send_to_a_waiter(void *arg)
{
    (void)arg;
    weft_oneshot oneshot = {{0}};
    int number = 0; /* plain */
    weft_task *task = go(receive, &oneshot);
    wait_until_waited(task);
    CHECK(info_of(task).wait_object == &oneshot);
    CHECK_EQ(weft_oneshot_recv(&oneshot, NULL), -EBUSY);
    CHECK_EQ(weft_oneshot_try_recv(&oneshot, NULL), -EBUSY);
    number = 5;
    CHECK_EQ(weft_oneshot_send(&oneshot, &number), 0);
    CHECK_EQ(weft_await(task), 5);
    oneshot = (weft_oneshot){{0}};
    task = go(receive, &oneshot);
    wait_until_waited(task);
    CHECK_EQ(weft_oneshot_close(&oneshot), 0);
    CHECK_EQ(weft_await(task), -EPIPE);
    return 0;
}

static void oneshot_value_and_close_wake_the_receiver(void)
{
    run_under(EVERYWHERE, send_to_a_waiter);
}

static intptr_t end_the_wait(void *arg)
{
    (void)arg;
    weft_oneshot oneshot = {{0}};
    int number = 8;
    weft_task *task = go(receive, &oneshot);
    wait_until_waited(task);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);
    weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(receive(&oneshot), -ETIMEDOUT);
    CHECK_EQ(receive(&oneshot), -ETIMEDOUT); /* the deadline has passed */
    CHECK_EQ(weft_oneshot_send(&oneshot, &number), 0);
    CHECK_EQ(receive(&oneshot), 8); /* returns at once */
    weft_deadline_set(WEFT_NEVER);
    return 0;
}

static void oneshot_recv_ends_by_cancel_and_deadline(void)
{
    run_under(EVERYWHERE, end_the_wait);
}

/* ---- oneshot in the receiver's frame --------------------------------------------------------- */

struct request {
    weft_oneshot *answer;
    int number; /* plain: written by the sender */
};

static intptr_t answer(void *arg)
{
    struct request *request = arg;
    request->number++;
    CHECK_EQ(weft_oneshot_send(request->answer, request), 0);
    return 0;
}

static void *answer_in_thread(void *arg)
{
    (void)answer(arg);
    return NULL;
}

/* The oneshot's frame differs each time, and is reused for other data afterwards. */
static __attribute__((noinline)) int ask(struct request *request, weft_task **task,
                                         weft_runtime *runtime, int round)
{
    weft_oneshot oneshot = {{0}};
    void *value = NULL;
    request->answer = &oneshot;
    *task = runtime != NULL ? go_into(runtime, answer, request) : go(answer, request);
    if (round % 2 == 0) {
        let_others_run();
    }
    CHECK_EQ(weft_oneshot_recv(&oneshot, &value), 0);
    CHECK(value == request);
    return request->number;
}

static __attribute__((noinline)) int dirty(int round)
{
    volatile uintptr_t words[64];
    for (int i = 0; i < 64; i++) {
        words[i] = (uintptr_t)round;
    }
    return (int)words[round % 64];
}

static void ask_often(weft_runtime *runtime)
{
    for (int round = 0; round < 200; round++) {
        struct request request = {.number = round};
        weft_task *task;
        CHECK_EQ(ask(&request, &task, runtime, round), round + 1);
        CHECK_EQ(dirty(round), round);
        CHECK_EQ(weft_await(task), 0);
    }
}

static intptr_t ask_as_task(void *arg)
{
    (void)arg;
    ask_often(NULL);
    return 0;
}

static void oneshot_may_lie_in_the_receivers_frame(void)
{
    run_under(EVERYWHERE, ask_as_task);
}

static void ask_from_outside(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    ask_often(runtime);
}

static void oneshot_receives_in_a_thread(void)
{
    open_under(EVERYWHERE, ask_from_outside);
}

static intptr_t ask_a_thread(void *arg)
{
    (void)arg;
    for (int round = 0; round < 10; round++) {
        weft_oneshot oneshot = {{0}};
        struct request request = {.answer = &oneshot, .number = round};
        pthread_t thread;
        CHECK_EQ(wf_thread_start(&thread, answer_in_thread, &request, NULL), 0);
        CHECK_EQ(weft_oneshot_recv(&oneshot, NULL), 0);
        CHECK_EQ(request.number, round + 1);
        CHECK_EQ(wf_thread_join(thread), 0);
    }
    return 0;
}

static void oneshot_sends_from_a_thread(void)
{
    run_under(EVERYWHERE, ask_a_thread);
}

/* ---- races ----------------------------------------------------------------------------------- */

static intptr_t race_with_a_cancel(void *arg)
{
    (void)arg;
    for (int round = 0; round < 200; round++) {
        weft_oneshot oneshot = {{0}};
        int number = round;
        void *value = NULL;
        weft_task *task = go(receive, &oneshot);
        if (round % 3 == 0) {
            wait_until_waited(task);
        }
        weft_task *sender = go(count_up, &(wf_atomic_u32){0}); /* another task to run */
        CHECK_EQ(weft_cancel(task), 0);
        CHECK_EQ(weft_oneshot_send(&oneshot, &number), 0);
        const intptr_t rc = weft_await(task);
        CHECK(rc == round || rc == -ECANCELED);
        if (rc < 0) { /* the value is still there */
            CHECK_EQ(weft_oneshot_try_recv(&oneshot, &value), 0);
            CHECK(value == &number);
        }
        CHECK_EQ(weft_await(sender), 0);
    }
    return 0;
}

static void oneshot_cancel_racing_send_loses_no_value(void)
{
    run_under(EVERYWHERE, race_with_a_cancel);
}

static intptr_t receive_shielded(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    (void)weft_oneshot_recv(arg, NULL);
    tap_fail(__FILE__, __LINE__, "resumed after a forced close");
}

static void oneshot_forced_close_removes_the_receiver(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_oneshot oneshot = {{0}};
        int number = 4;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, receive_shielded, &oneshot);
        wait_until_waited(task);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(weft_oneshot_send(&oneshot, &number), 0);
        CHECK_EQ(receive(&oneshot), 4);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(oneshot_works_without_a_runtime),
    TAP_TEST(oneshot_value_and_close_wake_the_receiver),
    TAP_TEST(oneshot_recv_ends_by_cancel_and_deadline),
    TAP_TEST(oneshot_may_lie_in_the_receivers_frame),
    TAP_TEST(oneshot_receives_in_a_thread),
    TAP_TEST(oneshot_sends_from_a_thread),
    TAP_TEST(oneshot_cancel_racing_send_loses_no_value),
    TAP_TEST(oneshot_forced_close_removes_the_receiver),
};
TAP_MAIN(tests)
