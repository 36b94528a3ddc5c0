/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a select runs exactly one case, of those that can run any with the same chance; it waits
 *         for the first if none can, in tasks and in threads; it never meets itself; cancel,
 *         deadline and force end it, and then no case has run.
 * Method: scenes with one thing that happens, for each kind of case; many rounds counted for the
 *         fairness; storms are in test_select_storms.c.
 */
#include <string.h>

#include "chan_aids.h"
#include "fault_aids.h"

/* ---- arguments ------------------------------------------------------------------------------- */

static intptr_t ask_absurdly(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(0);
    int item = 0;
    weft_case it = weft_case_recv(chan, &item);
    CHECK_EQ(weft_select(NULL, 1, 1), -EINVAL);
    CHECK_EQ(weft_select(&it, 0, 1), -EINVAL);
    CHECK_EQ(weft_select(&it, SIZE_MAX, 1), -EINVAL);
    it = weft_case_recv(NULL, &item);
    CHECK_EQ(weft_select(&it, 1, 1), -EINVAL);
    it = weft_case_recv(chan, NULL);
    CHECK_EQ(weft_select(&it, 1, 1), -EINVAL);
    it = weft_case_send(chan, NULL);
    CHECK_EQ(weft_select(&it, 1, 0), -EINVAL);
    it = weft_case_task(NULL);
    CHECK_EQ(weft_select(&it, 1, 0), -EINVAL);
    it.kind = (enum weft_case_kind)77;
    CHECK_EQ(weft_select(&it, 1, 0), -EINVAL);
    it = (weft_case){.kind = WEFT_CASE_NONE};
    CHECK_EQ(weft_select(&it, 1, 0), -EINVAL); /* it would wait for ever */
    CHECK_EQ(weft_select(&it, 1, 1), -EAGAIN);
    if (weft_self() != NULL) {
        it = weft_case_task(weft_self());
        CHECK_EQ(weft_select(&it, 1, 0), -EDEADLK);
    }
    weft_chan_drop(chan);
    return 0;
}

static void bad_arguments_are_refused(void)
{
    run_under(ON_ONE_WORKER, ask_absurdly);
    (void)ask_absurdly(NULL);
}

/* ---- what can run at once -------------------------------------------------------------------- */

static intptr_t run_at_once(void *arg)
{
    (void)arg;
    weft_chan *in = int_chan(2);
    weft_chan *out = int_chan(1);
    int got = -1;
    int item = 5;
    weft_case cases[] = {
        {.kind = WEFT_CASE_NONE},
        weft_case_recv(in, &got),
        weft_case_time(weft_in(HOUR)),
        weft_case_time(WEFT_NEVER),
    };
    CHECK_EQ(weft_select(cases, 4, 1), -EAGAIN);
    send_int(in, 7);
    CHECK_EQ(weft_select(cases, 4, 0), 1);
    CHECK_EQ(cases[1].result, 0);
    CHECK_EQ(got, 7);
    CHECK_EQ(weft_select(cases, 4, 1), -EAGAIN); /* it was taken */
    cases[0] = weft_case_send(out, &item);
    CHECK_EQ(weft_select(cases, 4, 1), 0);
    CHECK_EQ(weft_select(cases, 4, 1), -EAGAIN); /* full */
    CHECK_EQ(recv_int(out), 5);
    cases[0].kind = WEFT_CASE_NONE;
    cases[3] = weft_case_time(weft_now() - 1);
    CHECK_EQ(weft_select(cases, 4, 0), 3);
    CHECK_EQ(cases[3].result, 0);
    weft_chan *wide = int_chan(WEFT_UNBOUNDED);
    cases[3] = weft_case_send(wide, &item);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_select(cases, 4, i % 2), 3);
    }
    CHECK_EQ(weft_chan_length(wide), 100);
    weft_chan_drop(in);
    weft_chan_drop(out);
    weft_chan_drop(wide);
    return 0;
}

static void what_can_run_runs_at_once(void)
{
    run_under(EVERYWHERE, run_at_once);
    (void)run_at_once(NULL);
}

static intptr_t ask_closed_ones(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(1);
    int item = 3;
    weft_case receive = weft_case_recv(chan, &item);
    weft_case send = weft_case_send(chan, &item);
    send_int(chan, 8);
    CHECK_EQ(weft_chan_close(chan), 0);
    CHECK_EQ(weft_select(&send, 1, 0), 0);
    CHECK_EQ(send.result, -EPIPE);
    CHECK_EQ(weft_select(&receive, 1, 0), 0);
    CHECK_EQ(receive.result, 0);
    CHECK_EQ(item, 8);
    CHECK_EQ(weft_select(&receive, 1, 1), 0);
    CHECK_EQ(receive.result, -EPIPE);
    weft_chan_drop(chan);
    return 0;
}

static void a_closed_channel_can_always_run(void)
{
    run_under(ON_ONE_WORKER, ask_closed_ones);
    (void)ask_closed_ones(NULL);
}

static intptr_t look_at_ended_tasks(void *arg)
{
    (void)arg;
    wf_atomic_u32 cell = {0};
    weft_task *ended = go(echo, (void *)7);
    weft_task *standing = go(stand_by, &cell);
    weft_case cases[] = {
        weft_case_task(standing), weft_case_task(ended),
        weft_case_task(ended), /* twice: either of them */
    };
    wait_for_state(ended, WEFT_COMPLETED);
    for (int i = 0; i < 10; i++) {
        const int ran = weft_select(cases, 3, i % 2);
        CHECK(ran == 1 || ran == 2);
        CHECK_EQ(cases[ran].value, 7);
        CHECK_EQ(cases[ran].result, 0);
    }
    raise_by_one(&cell);
    CHECK_EQ(weft_await(standing), 0);
    CHECK_EQ(weft_await(ended), 7); /* the handle is still ours */
    return 0;
}

static void a_task_that_has_ended_can_run(void)
{
    run_under(EVERYWHERE, look_at_ended_tasks);
}

/* ---- fairness -------------------------------------------------------------------------------- */

static intptr_t count_choices(void *arg)
{
    (void)arg;
    enum { ROUNDS = 4000, READY = 4 };
    weft_chan *empty = int_chan(1);
    weft_chan *chans[READY];
    weft_case cases[7];
    int counts[7] = {0};
    int item = 0;
    for (int i = 0; i < READY; i++) {
        chans[i] = int_chan(1);
    }
    /* Those that can run stand together, with others beside them: a choice that begins anywhere and
     * takes the next would like the first of them best. */
    for (int i = 0; i < 7; i++) {
        cases[i] = weft_case_recv(i < READY ? chans[i] : empty, &item);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < READY; i++) {
            (void)weft_try_send(chans[i], &item); /* the one that was taken */
        }
        counts[weft_select(cases, 7, round % 2)]++;
    }
    for (int i = 0; i < 7; i++) { /* a thousand each; five deviations are 137 */
        CHECK(i < READY ? counts[i] > 863 && counts[i] < 1137 : counts[i] == 0);
    }
    for (int i = 0; i < READY; i++) {
        weft_chan_drop(chans[i]);
    }
    weft_chan_drop(empty);
    return 0;
}

/* behaviour 52: select favours nobody */
static void of_several_each_has_the_same_chance(void)
{
    run_under(ON_ONE_WORKER, count_choices);
    (void)count_choices(NULL);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* One who waits for all kinds at once. */
struct choice {
    weft_chan *in;
    weft_chan *out;
    weft_task *task;
    weft_time at;
    int got;   /* plain: read after its end */
    int given; /* what it sends */
    weft_case cases[5];
    int ran;
    wf_atomic_u32 is_over;
};

static intptr_t choose(void *arg)
{
    struct choice *choice = arg;
    choice->cases[0] = weft_case_recv(choice->in, &choice->got);
    choice->cases[1] = weft_case_send(choice->out, &choice->given);
    choice->cases[2] = weft_case_task(choice->task);
    choice->cases[3] = weft_case_time(choice->at);
    choice->cases[4] = weft_case_recv(choice->in, &choice->got); /* the same once more */
    choice->ran = weft_select(choice->cases, 5, 0);
    return choice->ran < 0 ? choice->ran : 0;
}

static void *choose_in_thread(void *arg)
{
    (void)choose(arg);
    return NULL;
}

enum event { AN_ITEM, A_RECEIVER, A_CLOSE_OF_IN, A_CLOSE_OF_OUT, AN_END, A_TIME, EVENTS };

/* Sets the scene, and lets something happen to it. */
static void cause(struct choice *choice, enum event event)
{
    switch (event) {
    case AN_ITEM:
        send_int(choice->in, 11);
        break;
    case A_RECEIVER:
        CHECK_EQ(recv_int(choice->out), 22);
        break;
    case A_CLOSE_OF_IN:
        CHECK_EQ(weft_chan_close(choice->in), 0);
        break;
    case A_CLOSE_OF_OUT:
        CHECK_EQ(weft_chan_close(choice->out), 0);
        break;
    case AN_END:
        raise_by_one(&choice->is_over);
        break;
    default:
        break; /* the time comes by itself */
    }
}

static void check_choice(const struct choice *choice, enum event event)
{
    const bool is_first_in = choice->ran == 0 || choice->ran == 4;
    switch (event) {
    case AN_ITEM:
        CHECK(is_first_in && choice->cases[choice->ran].result == 0);
        CHECK_EQ(choice->got, 11);
        break;
    case A_CLOSE_OF_IN:
        CHECK(is_first_in && choice->cases[choice->ran].result == -EPIPE);
        break;
    case A_RECEIVER:
    case A_CLOSE_OF_OUT:
        CHECK_EQ(choice->ran, 1);
        CHECK_EQ(choice->cases[1].result, event == A_RECEIVER ? 0 : -EPIPE);
        break;
    case AN_END:
        CHECK_EQ(choice->ran, 2);
        CHECK_EQ(choice->cases[2].result, 0);
        break;
    default:
        CHECK_EQ(choice->ran, 3);
        CHECK(weft_now() >= choice->at);
        break;
    }
    CHECK_EQ(choice->got, event == AN_ITEM ? 11 : -1);
    CHECK_EQ(waiting_in(choice->in) + waiting_in(choice->out), 0); /* it has left everything */
}

static void choice_init(struct choice *choice, enum event event)
{
    *choice = (struct choice){.in = int_chan(0), .out = int_chan(0), .got = -1, .given = 22};
    choice->at = weft_in(event == A_TIME ? WEFT_MILLISECOND : HOUR);
}

static void choice_done(struct choice *choice, enum event event)
{
    if (event != AN_END) {
        raise_by_one(&choice->is_over);
    }
    CHECK_EQ(weft_await(choice->task), 0);
    weft_chan_drop(choice->in);
    weft_chan_drop(choice->out);
}

static intptr_t wait_for_each_kind(void *arg)
{
    (void)arg;
    for (enum event event = 0; event < EVENTS; event++) {
        struct choice choice;
        choice_init(&choice, event);
        choice.task = go(stand_by, &choice.is_over);
        weft_task *task = go(choose, &choice);
        if (event != A_TIME) {
            wait_for_state(task, WEFT_BLOCKED);
            CHECK_EQ(info_of(task).wait, WEFT_WAIT_SELECT);
            CHECK_EQ(waiting_in(choice.in), 2);
            CHECK_EQ(waiting_in(choice.out), 1);
        }
        cause(&choice, event);
        CHECK_EQ(weft_await(task), 0);
        check_choice(&choice, event);
        choice_done(&choice, event);
    }
    return 0;
}

static void it_waits_for_the_first(void)
{
    run_under(EVERYWHERE, wait_for_each_kind);
}

static void wait_in_a_thread(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    for (enum event event = 0; event < EVENTS; event++) {
        struct choice choice;
        pthread_t thread;
        choice_init(&choice, event);
        choice.task = go_into(runtime, stand_by, &choice.is_over);
        CHECK_EQ(wf_thread_start(&thread, choose_in_thread, &choice, NULL), 0);
        if (event != A_TIME) {
            wait_until_waiting(choice.in, 2);
        }
        cause(&choice, event);
        CHECK_EQ(wf_thread_join(thread), 0);
        check_choice(&choice, event);
        choice_done(&choice, event);
    }
}

static void a_thread_waits_for_the_first_too(void)
{
    open_under(EVERYWHERE, wait_in_a_thread);
}

static intptr_t end_the_wait(void *arg)
{
    (void)arg;
    for (int is_deadline = 0; is_deadline < 2; is_deadline++) {
        struct choice choice;
        choice_init(&choice, AN_END);
        choice.task = go(stand_by, &choice.is_over);
        if (is_deadline) {
            weft_deadline(weft_in(WEFT_MILLISECOND));
            CHECK_EQ(choose(&choice), -ETIMEDOUT);
            CHECK_EQ(choose(&choice), -ETIMEDOUT); /* it has passed */
            weft_deadline(WEFT_NEVER);
        } else {
            weft_task *task = go(choose, &choice);
            wait_for_state(task, WEFT_BLOCKED);
            CHECK_EQ(weft_cancel(task), 0);
            CHECK_EQ(weft_await(task), -ECANCELED);
        }
        CHECK_EQ(choice.got, -1);
        CHECK_EQ(waiting_in(choice.in) + waiting_in(choice.out), 0);
        choice_done(&choice, A_TIME);
    }
    return 0;
}

static void cancel_and_deadline_end_it(void)
{
    run_under(EVERYWHERE, end_the_wait);
}

/* ---- meeting --------------------------------------------------------------------------------- */

struct meeting {
    weft_chan *chan;
    int given;
    int got;
    int ran;
};

/* Sends and receives on the same channel, whichever comes first. */
static intptr_t meet(void *arg)
{
    struct meeting *meeting = arg;
    weft_case cases[] = {
        weft_case_send(meeting->chan, &meeting->given),
        weft_case_recv(meeting->chan, &meeting->got),
    };
    CHECK_EQ(weft_select(cases, 2, 1), -EAGAIN); /* alone it does not meet itself */
    meeting->ran = weft_select(cases, 2, 0);
    return meeting->ran < 0 ? meeting->ran : 0;
}

static intptr_t let_two_meet(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(0);
    struct meeting first = {.chan = chan, .given = 1, .got = -1};
    struct meeting second = {.chan = chan, .given = 2, .got = -1};
    weft_task *task = go(meet, &first);
    wait_until_waiting(chan, 2);
    weft_case cases[] = {weft_case_send(chan, &second.given), weft_case_recv(chan, &second.got)};
    second.ran = weft_select(cases, 2, 0);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(first.ran, 1 - second.ran);
    CHECK_EQ(first.got, first.ran == 1 ? 2 : -1);
    CHECK_EQ(second.got, second.ran == 1 ? 1 : -1);
    CHECK_EQ(waiting_in(chan), 0);
    weft_chan_drop(chan);
    return 0;
}

static void two_selects_meet_and_none_meets_itself(void)
{
    run_under(EVERYWHERE, let_two_meet);
}

/* ---- many cases ------------------------------------------------------------------------------ */

static intptr_t ask_for_many(void *arg)
{
    enum { CASES = 100 };
    static weft_chan *chans[CASES];
    static weft_case cases[CASES];
    int got = -1;
    (void)arg;
    for (int i = 0; i < CASES; i++) {
        chans[i] = int_chan(1);
    }
    for (int i = 0; i < CASES; i++) { /* not in the order of their addresses, and one twice */
        cases[i] = weft_case_recv(chans[(i * 37) % (CASES - 1)], &got);
    }
    CHECK_EQ(weft_select(cases, CASES, 1), -EAGAIN);
    for (int i = 1; i < CASES - 1; i++) {
        send_int(chans[(i * 37) % (CASES - 1)], i);
        CHECK_EQ(weft_select(cases, CASES, 0), i);
        CHECK_EQ(got, i);
    }
    cases[5] = weft_case_time(weft_in(WEFT_MILLISECOND));
    CHECK_EQ(weft_select(cases, CASES, 0), 5);
    for (int i = 0; i < CASES; i++) {
        CHECK_EQ(waiting_in(chans[i]), 0);
        weft_chan_drop(chans[i]);
    }
    return 0;
}

static void there_may_be_many_cases(void)
{
    run_under(ON_ONE_WORKER, ask_for_many);
    (void)ask_for_many(NULL);
}

static void up_to_16_cases_need_no_memory(void)
{
    struct faults faults = {0};
    while (faults_next(&faults)) {
        weft_chan *chan = int_chan(1);
        weft_case cases[17];
        int item = 0;
        for (int i = 0; i < 17; i++) {
            cases[i] = weft_case_recv(chan, &item);
        }
        cases[16] = weft_case_time(0);
        faults_begin(&faults);
        const int few = weft_select(cases + 1, 16, 0);
        const int many = weft_select(cases, 17, 0);
        faults_end(&faults);
        CHECK_EQ(few, 15);
        CHECK(many == 16 || (many == -ENOMEM && faults.what != NULL));
        faults.refused += many < 0 ? 1 : 0;
        weft_chan_drop(chan);
    }
    CHECK_EQ(faults.refused, 2); /* one allocation: alone, and when all memory is gone */
}

static void a_channel_that_cannot_grow_is_an_error(void)
{
    struct faults faults = {0};
    while (faults_next(&faults)) {
        int item = 0;
        weft_chan *chan = int_chan(WEFT_UNBOUNDED);
        weft_case it = weft_case_send(chan, &item);
        faults_begin(&faults);
        const int ran = weft_select(&it, 1, 0);
        faults_end(&faults);
        CHECK(ran == 0 || (ran == -ENOMEM && faults.what != NULL));
        CHECK_EQ(weft_chan_length(chan), ran == 0 ? 1 : 0);
        faults.refused += ran < 0 ? 1 : 0;
        weft_chan_drop(chan);
    }
    CHECK(faults.refused >= 1);
}

/* ---- by force -------------------------------------------------------------------------------- */

static intptr_t choose_shielded(void *arg)
{
    CHECK_EQ(weft_shield(1), 0);
    (void)choose(arg);
    tap_fail(__FILE__, __LINE__, "it is never resumed");
}

static void who_is_ended_by_force_leaves_everything(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        weft_runtime *outer = NULL;
        struct choice choice;
        int item = 0;
        choice_init(&choice, AN_END);
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        CHECK_EQ(weft_runtime_open(&outer, &tour.options), 0);
        choice.task = go_into(outer, stand_by, &choice.is_over);
        weft_task *task = go_into(runtime, choose_shielded, &choice);
        wait_for_state(task, WEFT_BLOCKED);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(waiting_in(choice.in) + waiting_in(choice.out), 0);
        CHECK_EQ(weft_try_send(choice.in, &item), -EAGAIN);
        choice_done(&choice, A_TIME); /* its end wakes nobody */
        CHECK_EQ(weft_runtime_close(outer, -1), 0);
    }
}

static intptr_t choose_of_many_shielded(void *chan)
{
    enum { MANY = 17 }; /* one more than fit into the frame */
    weft_case cases[MANY];
    int items[MANY];
    CHECK_EQ(weft_shield(1), 0);
    for (int i = 0; i < MANY; i++) {
        cases[i] = weft_case_recv(chan, &items[i]);
    }
    (void)weft_select(cases, MANY, 0);
    tap_fail(__FILE__, __LINE__, "it is never resumed");
}

/* The sanitizers say whether its memory is lost. */
static void who_is_ended_by_force_gives_its_memory_back(void)
{
    weft_runtime *runtime = NULL;
    weft_chan *chan;
    int item = 0;
    CHECK_EQ(weft_chan_open(&chan, sizeof(int), 0), 0);
    CHECK_EQ(weft_runtime_open(&runtime, &(weft_options){.workers = 1}), 0);
    weft_task *task = go_into(runtime, choose_of_many_shielded, chan);
    wait_for_state(task, WEFT_BLOCKED);
    CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(weft_try_send(chan, &item), -EAGAIN); /* nobody waits */
    weft_chan_drop(chan);
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

static intptr_t receive_either_and_stay(void *arg)
{
    struct choice *choice = arg;
    weft_case cases[] = {weft_case_recv(choice->out, &choice->given),
                         weft_case_recv(choice->in, &choice->got)};
    CHECK_EQ(weft_shield(1), 0);
    choice->ran = weft_select(cases, 2, 0);
    (void)weft_sleep_until(WEFT_NEVER);
    tap_fail(__FILE__, __LINE__, "it is never resumed");
}

/* An item that was handed to a select whose task never ran again is in the channel.  Where the task
 * has run once more, before its runtime went, the item is the task's. */
static void an_item_for_one_who_is_gone_comes_back(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        struct choice choice = {.in = int_chan(0), .out = int_chan(0), .ran = -1};
        struct hog hog = {{0}, {0}};
        pthread_t closer;
        int item = -1;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, receive_either_and_stay, &choice);
        wait_until_waiting(choice.in, 1);
        weft_task *keeper = go_into(runtime, keep_the_worker, &hog);
        wait_for(&hog.is_running, 1);
        CHECK_EQ(wf_thread_start(&closer, close_by_force, runtime, NULL), 0);
        while (wf_load_acquire(&runtime->is_leaving) != WF_LEAVE_NOW) { /* the closer's */
            (void)sched_yield();
        }
        send_int(choice.in, 11);
        CHECK_EQ(waiting_in(choice.out), 1); /* the worker is kept: it has not noticed */
        raise_by_one(&hog.is_over);
        CHECK_EQ(wf_thread_join(closer), 0);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(weft_try_recv(choice.in, &item), choice.ran == 1 ? -EAGAIN : 0);
        CHECK_EQ(choice.ran == 1 ? choice.got : item, 11);
        CHECK_EQ(waiting_in(choice.in) + waiting_in(choice.out), 0);
        weft_drop(keeper);
        weft_chan_drop(choice.in);
        weft_chan_drop(choice.out);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(bad_arguments_are_refused),
    TAP_TEST(what_can_run_runs_at_once),
    TAP_TEST(a_closed_channel_can_always_run),
    TAP_TEST(a_task_that_has_ended_can_run),
    TAP_TEST(of_several_each_has_the_same_chance),
    TAP_TEST(it_waits_for_the_first),
    TAP_TEST(a_thread_waits_for_the_first_too),
    TAP_TEST(cancel_and_deadline_end_it),
    TAP_TEST(two_selects_meet_and_none_meets_itself),
    TAP_TEST(there_may_be_many_cases),
    TAP_TEST(up_to_16_cases_need_no_memory),
    TAP_TEST(a_channel_that_cannot_grow_is_an_error),
    TAP_TEST(who_is_ended_by_force_leaves_everything),
    TAP_TEST(who_is_ended_by_force_gives_its_memory_back),
    TAP_TEST(an_item_for_one_who_is_gone_comes_back),
};
TAP_MAIN(tests)
