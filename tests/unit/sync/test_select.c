/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a select runs exactly one case, each ready case with the same probability; it waits for
 *         the first if none is ready, in tasks and in threads; it never pairs with itself; cancel,
 *         deadline and forced close end it, and then no case has run.
 * Method: scenes with one event, for each kind of case; many counted iterations for the fairness;
 *         test_select_stress.c has the stress tests.
 */
#include <string.h>

#include "chan_helpers.h"
#include "fault_helpers.h"

/* ---- arguments ------------------------------------------------------------------------------- */

static intptr_t select_with_bad_arguments(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(0);
    int item = 0;
    weft_case it = weft_case_recv(chan, &item);
    CHECK_EQ(weft_try_select(NULL, 1), -EINVAL);
    CHECK_EQ(weft_try_select(&it, 0), -EINVAL);
    CHECK_EQ(weft_try_select(&it, SIZE_MAX), -EINVAL);
    it = weft_case_recv(NULL, &item);
    CHECK_EQ(weft_try_select(&it, 1), -EINVAL);
    it = weft_case_recv(chan, NULL);
    CHECK_EQ(weft_try_select(&it, 1), -EINVAL);
    it = weft_case_send(chan, NULL);
    CHECK_EQ(weft_select(&it, 1), -EINVAL);
    it = weft_case_task(NULL);
    CHECK_EQ(weft_select(&it, 1), -EINVAL);
    it.kind = (enum weft_case_kind)77;
    CHECK_EQ(weft_select(&it, 1), -EINVAL);
    it = (weft_case){.kind = WEFT_CASE_NONE};
    CHECK_EQ(weft_select(&it, 1), -EINVAL); /* it would wait for ever */
    CHECK_EQ(weft_try_select(&it, 1), -EAGAIN);
    if (weft_self() != NULL) {
        it = weft_case_task(weft_self());
        CHECK_EQ(weft_select(&it, 1), -EDEADLK);
    }
    weft_chan_unref(chan);
    return 0;
}

static void select_refuses_bad_arguments(void)
{
    run_under(ON_ONE_WORKER, select_with_bad_arguments);
    (void)select_with_bad_arguments(NULL);
}

/* ---- ready cases ----------------------------------------------------------------------------- */

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
        weft_case_time(weft_time_after(HOUR)),
        weft_case_time(WEFT_NEVER),
    };
    CHECK_EQ(weft_try_select(cases, 4), -EAGAIN);
    send_int(in, 7);
    CHECK_EQ(weft_select(cases, 4), 1);
    CHECK_EQ(cases[1].result, 0);
    CHECK_EQ(got, 7);
    CHECK_EQ(weft_try_select(cases, 4), -EAGAIN); /* the item was taken */
    cases[0] = weft_case_send(out, &item);
    CHECK_EQ(weft_try_select(cases, 4), 0);
    CHECK_EQ(weft_try_select(cases, 4), -EAGAIN); /* full */
    CHECK_EQ(recv_int(out), 5);
    cases[0].kind = WEFT_CASE_NONE;
    cases[3] = weft_case_time(weft_now() - 1);
    CHECK_EQ(weft_select(cases, 4), 3);
    CHECK_EQ(cases[3].result, 0);
    weft_chan *wide = int_chan(WEFT_CHAN_UNBOUNDED);
    cases[3] = weft_case_send(wide, &item);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ((i % 2 != 0 ? weft_try_select(cases, 4) : weft_select(cases, 4)), 3);
    }
    CHECK_EQ(weft_chan_length(wide), 100);
    weft_chan_unref(in);
    weft_chan_unref(out);
    weft_chan_unref(wide);
    return 0;
}

static void select_runs_a_ready_case_at_once(void)
{
    run_under(EVERYWHERE, run_at_once);
    (void)run_at_once(NULL);
}

static intptr_t select_on_closed_channels(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(1);
    int item = 3;
    weft_case receive = weft_case_recv(chan, &item);
    weft_case send = weft_case_send(chan, &item);
    send_int(chan, 8);
    CHECK_EQ(weft_chan_close(chan), 0);
    CHECK_EQ(weft_select(&send, 1), 0);
    CHECK_EQ(send.result, -EPIPE);
    CHECK_EQ(weft_select(&receive, 1), 0);
    CHECK_EQ(receive.result, 0);
    CHECK_EQ(item, 8);
    CHECK_EQ(weft_try_select(&receive, 1), 0);
    CHECK_EQ(receive.result, -EPIPE);
    weft_chan_unref(chan);
    return 0;
}

static void select_closed_channel_is_always_ready(void)
{
    run_under(ON_ONE_WORKER, select_on_closed_channels);
    (void)select_on_closed_channels(NULL);
}

static intptr_t select_on_ended_tasks(void *arg)
{
    (void)arg;
    wf_atomic_u32 cell = {0};
    weft_task *ended = go(echo, (void *)7);
    weft_task *standing = go(stand_by, &cell);
    weft_case cases[] = {
        weft_case_task(standing), weft_case_task(ended),
        weft_case_task(ended), /* twice: either case may run */
    };
    wait_for_state(ended, WEFT_TASK_COMPLETED);
    for (int i = 0; i < 10; i++) {
        const int ran = (i % 2 != 0 ? weft_try_select(cases, 3) : weft_select(cases, 3));
        CHECK(ran == 1 || ran == 2);
        CHECK_EQ(cases[ran].value, 7);
        CHECK_EQ(cases[ran].result, 0);
    }
    raise_by_one(&cell);
    CHECK_EQ(weft_await(standing), 0);
    CHECK_EQ(weft_await(ended), 7); /* the test still owns the handle */
    return 0;
}

static void select_ended_task_is_ready(void)
{
    run_under(EVERYWHERE, select_on_ended_tasks);
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
    /* The ready cases are adjacent, with others beside them: a choice that begins anywhere and
     * takes the next ready case would prefer the first of these. */
    for (int i = 0; i < 7; i++) {
        cases[i] = weft_case_recv(i < READY ? chans[i] : empty, &item);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < READY; i++) {
            (void)weft_chan_try_send(chans[i], &item); /* refills the channel that was taken from */
        }
        counts[(round % 2 != 0 ? weft_try_select(cases, 7) : weft_select(cases, 7))]++;
    }
    for (int i = 0; i < 7; i++) { /* a thousand each; five standard deviations are 137 */
        CHECK(i < READY ? counts[i] > 863 && counts[i] < 1137 : counts[i] == 0);
    }
    for (int i = 0; i < READY; i++) {
        weft_chan_unref(chans[i]);
    }
    weft_chan_unref(empty);
    return 0;
}

/* behaviour 52: select is fair */
static void select_chooses_ready_cases_evenly(void)
{
    run_under(ON_ONE_WORKER, count_choices);
    (void)count_choices(NULL);
}

/* A select with two cases of the same kind, which one event makes ready together. */
struct twins {
    weft_case (*case_of)(struct twins *twins);
    weft_chan *chan;
    weft_task *task;
    weft_time at;
    int item;
    int counts[2]; /* plain: read after the end of the task that selects */
};

enum { TWIN_ROUNDS = 400, TWIN_SPREAD = 60 }; /* six standard deviations */

static intptr_t yield_once(void *arg)
{
    (void)arg;
    return weft_yield();
}

static intptr_t select_twins(void *arg)
{
    struct twins *twins = arg;
    for (int round = 0; round < TWIN_ROUNDS; round++) {
        twins->at = weft_time_after(WEFT_MILLISECOND);
        twins->task = weft_self() != NULL ? go(yield_once, NULL) : NULL;
        weft_case cases[2] = {twins->case_of(twins), twins->case_of(twins)};
        const int ran = weft_select(cases, 2);
        CHECK(ran == 0 || ran == 1);
        twins->counts[ran]++;
        weft_task_unref(twins->task);
    }
    return 0;
}

static weft_case recv_twin(struct twins *twins)
{
    return weft_case_recv(twins->chan, &twins->item);
}

static weft_case send_twin(struct twins *twins)
{
    return weft_case_send(twins->chan, &twins->item);
}

static weft_case task_twin(struct twins *twins)
{
    return weft_case_task(twins->task);
}

static weft_case time_twin(struct twins *twins)
{
    return weft_case_time(twins->at);
}

/* Meets each select of select_twins.  The channel has no buffer: a call succeeds only while the
 * select waits. */
static void meet_twins(struct twins *twins)
{
    int item = 0;
    for (int round = 0; round < TWIN_ROUNDS; round++) {
        int rc;
        do {
            let_others_run();
            rc = twins->case_of == recv_twin ? weft_chan_try_send(twins->chan, &item)
                                             : weft_chan_try_recv(twins->chan, &item);
        } while (rc == -EAGAIN);
        CHECK_EQ(rc, 0);
    }
}

static void check_twins(const struct twins *twins)
{
    CHECK(twins->counts[0] > TWIN_ROUNDS / 2 - TWIN_SPREAD);
    CHECK(twins->counts[0] < TWIN_ROUNDS / 2 + TWIN_SPREAD);
}

static intptr_t count_twins(void *arg)
{
    (void)arg;
    weft_case (*const kinds[])(struct twins *) = {recv_twin, send_twin, task_twin, time_twin};
    for (int i = 0; i < 4; i++) {
        struct twins twins = {.case_of = kinds[i], .chan = int_chan(0)};
        tap_doing("kind %d", i);
        weft_task *task = go(select_twins, &twins);
        if (i < 2) {
            meet_twins(&twins);
        }
        CHECK_EQ(weft_await(task), 0);
        check_twins(&twins);
        weft_chan_unref(twins.chan);
    }
    return 0;
}

static void *select_twins_in_thread(void *arg)
{
    (void)select_twins(arg);
    return NULL;
}

/* behaviour 52: select is fair, also if it has to wait */
static void select_that_waits_chooses_between_equal_cases_evenly(void)
{
    run_under(ON_ONE_WORKER, count_twins);
    struct twins twins = {.case_of = recv_twin, .chan = int_chan(0)};
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, select_twins_in_thread, &twins), 0);
    meet_twins(&twins);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    check_twins(&twins);
    weft_chan_unref(twins.chan);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* A task that waits for all kinds of cases at once. */
struct choice {
    weft_chan *in;
    weft_chan *out;
    weft_task *task;
    weft_time at;
    int got;   /* plain: read after its end */
    int given; /* the item that it sends */
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
    choice->cases[4] = weft_case_recv(choice->in, &choice->got); /* the same channel once more */
    choice->ran = weft_select(choice->cases, 5);
    return choice->ran < 0 ? choice->ran : 0;
}

static void *choose_in_thread(void *arg)
{
    (void)choose(arg);
    return NULL;
}

enum event { AN_ITEM, A_RECEIVER, A_CLOSE_OF_IN, A_CLOSE_OF_OUT, AN_END, A_TIME, EVENTS };

/* Causes one event for the waiting select. */
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
        break; /* the timer expires */
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
    CHECK_EQ(waiting_in(choice->in) + waiting_in(choice->out), 0); /* it waits in no queue */
}

static void choice_init(struct choice *choice, enum event event)
{
    *choice = (struct choice){.in = int_chan(0), .out = int_chan(0), .got = -1, .given = 22};
    choice->at = weft_time_after(event == A_TIME ? WEFT_MILLISECOND : HOUR);
}

static void choice_done(struct choice *choice, enum event event)
{
    if (event != AN_END) {
        raise_by_one(&choice->is_over);
    }
    CHECK_EQ(weft_await(choice->task), 0);
    weft_chan_unref(choice->in);
    weft_chan_unref(choice->out);
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
            wait_for_state(task, WEFT_TASK_BLOCKED);
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

static void select_waits_for_the_first_event(void)
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

static void select_waits_in_a_thread(void)
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
            weft_deadline_set(weft_time_after(WEFT_MILLISECOND));
            CHECK_EQ(choose(&choice), -ETIMEDOUT);
            CHECK_EQ(choose(&choice), -ETIMEDOUT); /* the deadline has passed */
            weft_deadline_set(WEFT_NEVER);
        } else {
            weft_task *task = go(choose, &choice);
            wait_for_state(task, WEFT_TASK_BLOCKED);
            CHECK_EQ(weft_cancel(task), 0);
            CHECK_EQ(weft_await(task), -ECANCELED);
        }
        CHECK_EQ(choice.got, -1);
        CHECK_EQ(waiting_in(choice.in) + waiting_in(choice.out), 0);
        choice_done(&choice, A_TIME);
    }
    return 0;
}

static void select_ends_by_cancel_and_deadline(void)
{
    run_under(EVERYWHERE, end_the_wait);
}

/* ---- select against select ------------------------------------------------------------------- */

struct pairing {
    weft_chan *chan;
    int given;
    int got;
    int ran;
};

/* Sends and receives on the same channel, whichever is ready first. */
static intptr_t pair_up(void *arg)
{
    struct pairing *pairing = arg;
    weft_case cases[] = {
        weft_case_send(pairing->chan, &pairing->given),
        weft_case_recv(pairing->chan, &pairing->got),
    };
    CHECK_EQ(weft_try_select(cases, 2), -EAGAIN); /* a select does not pair with itself */
    pairing->ran = weft_select(cases, 2);
    return pairing->ran < 0 ? pairing->ran : 0;
}

static intptr_t pair_two_selects(void *arg)
{
    (void)arg;
    weft_chan *chan = int_chan(0);
    struct pairing first = {.chan = chan, .given = 1, .got = -1};
    struct pairing second = {.chan = chan, .given = 2, .got = -1};
    weft_task *task = go(pair_up, &first);
    wait_until_waiting(chan, 2);
    weft_case cases[] = {weft_case_send(chan, &second.given), weft_case_recv(chan, &second.got)};
    second.ran = weft_select(cases, 2);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(first.ran, 1 - second.ran);
    CHECK_EQ(first.got, first.ran == 1 ? 2 : -1);
    CHECK_EQ(second.got, second.ran == 1 ? 1 : -1);
    CHECK_EQ(waiting_in(chan), 0);
    weft_chan_unref(chan);
    return 0;
}

static void select_pairs_with_another_select_never_with_itself(void)
{
    run_under(EVERYWHERE, pair_two_selects);
}

/* ---- many cases ------------------------------------------------------------------------------ */

static intptr_t select_of_many_cases(void *arg)
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
    CHECK_EQ(weft_try_select(cases, CASES), -EAGAIN);
    for (int i = 1; i < CASES - 1; i++) {
        send_int(chans[(i * 37) % (CASES - 1)], i);
        CHECK_EQ(weft_select(cases, CASES), i);
        CHECK_EQ(got, i);
    }
    cases[5] = weft_case_time(weft_time_after(WEFT_MILLISECOND));
    CHECK_EQ(weft_select(cases, CASES), 5);
    for (int i = 0; i < CASES; i++) {
        CHECK_EQ(waiting_in(chans[i]), 0);
        weft_chan_unref(chans[i]);
    }
    return 0;
}

static void select_supports_many_cases(void)
{
    run_under(ON_ONE_WORKER, select_of_many_cases);
    (void)select_of_many_cases(NULL);
}

static void select_of_up_to_16_cases_allocates_nothing(void)
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
        const int few = weft_select(cases + 1, 16);
        const int many = weft_select(cases, 17);
        faults_end(&faults);
        CHECK_EQ(few, 15);
        CHECK(many == 16 || (many == -ENOMEM && faults.what != NULL));
        faults.refused += many < 0 ? 1 : 0;
        weft_chan_unref(chan);
    }
    CHECK_EQ(faults.refused, 2); /* one allocation: refused once, and when all memory is refused */
}

static void select_returns_error_if_a_channel_cannot_grow(void)
{
    struct faults faults = {0};
    while (faults_next(&faults)) {
        int item = 0;
        weft_chan *chan = int_chan(WEFT_CHAN_UNBOUNDED);
        weft_case it = weft_case_send(chan, &item);
        faults_begin(&faults);
        const int ran = weft_select(&it, 1);
        faults_end(&faults);
        CHECK(ran == 0 || (ran == -ENOMEM && faults.what != NULL));
        CHECK_EQ(weft_chan_length(chan), ran == 0 ? 1 : 0);
        faults.refused += ran < 0 ? 1 : 0;
        weft_chan_unref(chan);
    }
    CHECK(faults.refused >= 1);
}

/* ---- forced close ---------------------------------------------------------------------------- */

static intptr_t choose_shielded(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    (void)choose(arg);
    tap_fail(__FILE__, __LINE__, "resumed after a forced close");
}

static void select_forced_close_removes_all_its_waits(void)
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
        wait_for_state(task, WEFT_TASK_BLOCKED);
        CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(waiting_in(choice.in) + waiting_in(choice.out), 0);
        CHECK_EQ(weft_chan_try_send(choice.in, &item), -EAGAIN);
        choice_done(&choice, A_TIME); /* its end wakes no task */
        CHECK_EQ(weft_runtime_close(outer, -1), 0);
    }
}

static intptr_t choose_of_many_shielded(void *chan)
{
    enum { MANY = 17 }; /* one more than fit into the frame */
    weft_case cases[MANY];
    int items[MANY];
    CHECK_EQ(weft_shield_begin(), 0);
    for (int i = 0; i < MANY; i++) {
        cases[i] = weft_case_recv(chan, &items[i]);
    }
    (void)weft_select(cases, MANY);
    tap_fail(__FILE__, __LINE__, "resumed after a forced close");
}

/* LeakSanitizer reports lost memory. */
static void select_forced_close_frees_its_memory(void)
{
    weft_runtime *runtime = NULL;
    weft_chan *chan;
    int item = 0;
    CHECK_EQ(weft_chan_new(&chan, sizeof(int), 0), 0);
    CHECK_EQ(weft_runtime_open(&runtime, &(weft_runtime_options){.workers = 1}), 0);
    weft_task *task = go_into(runtime, choose_of_many_shielded, chan);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    CHECK_EQ(weft_await(task), -ECANCELED);
    CHECK_EQ(weft_chan_try_send(chan, &item), -EAGAIN); /* no task waits */
    weft_chan_unref(chan);
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

static intptr_t receive_either_and_stay(void *arg)
{
    struct choice *choice = arg;
    weft_case cases[] = {weft_case_recv(choice->out, &choice->given),
                         weft_case_recv(choice->in, &choice->got)};
    CHECK_EQ(weft_shield_begin(), 0);
    choice->ran = weft_select(cases, 2);
    (void)weft_sleep_until(WEFT_NEVER);
    tap_fail(__FILE__, __LINE__, "resumed after a forced close");
}

/* An item that was granted to a select whose task never ran again is back in the channel.  If the
 * task ran once more before its runtime was freed, the task has the item. */
static void select_forced_close_returns_a_granted_item(void)
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
        weft_task *keeper = go_into(runtime, occupy_until_over, &hog);
        wait_for(&hog.is_running, 1);
        CHECK_EQ(wf_thread_start(&closer, close_by_force, runtime, NULL), 0);
        while (wf_load_acquire(&runtime->shutdown.exit_mode) !=
               WF_EXIT_NOW) { /* set by the closer */
            (void)sched_yield();
        }
        send_int(choice.in, 11);
        CHECK_EQ(waiting_in(choice.out), 1); /* the worker is occupied: the task has not run */
        raise_by_one(&hog.is_over);
        CHECK_EQ(wf_thread_join(closer), 0);
        CHECK_EQ(weft_await(task), -ECANCELED);
        CHECK_EQ(weft_chan_try_recv(choice.in, &item), choice.ran == 1 ? -EAGAIN : 0);
        CHECK_EQ(choice.ran == 1 ? choice.got : item, 11);
        CHECK_EQ(waiting_in(choice.in) + waiting_in(choice.out), 0);
        weft_task_unref(keeper);
        weft_chan_unref(choice.in);
        weft_chan_unref(choice.out);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(select_refuses_bad_arguments),
    TAP_TEST(select_runs_a_ready_case_at_once),
    TAP_TEST(select_closed_channel_is_always_ready),
    TAP_TEST(select_ended_task_is_ready),
    TAP_TEST(select_chooses_ready_cases_evenly),
    TAP_TEST(select_that_waits_chooses_between_equal_cases_evenly),
    TAP_TEST(select_waits_for_the_first_event),
    TAP_TEST(select_waits_in_a_thread),
    TAP_TEST(select_ends_by_cancel_and_deadline),
    TAP_TEST(select_pairs_with_another_select_never_with_itself),
    TAP_TEST(select_supports_many_cases),
    TAP_TEST(select_of_up_to_16_cases_allocates_nothing),
    TAP_TEST(select_returns_error_if_a_channel_cannot_grow),
    TAP_TEST(select_forced_close_removes_all_its_waits),
    TAP_TEST(select_forced_close_frees_its_memory),
    TAP_TEST(select_forced_close_returns_a_granted_item),
};
TAP_MAIN(tests)
