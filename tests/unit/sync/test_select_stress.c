/* SPDX-License-Identifier: MIT */
/*
 * Goal:   selects against selects, senders and receivers, in tasks and in threads, with deadlines
 *         that end them at any moment: every item arrives once, and no waiter is left in a queue.
 * Method: a ledger of items that go through whichever of three channels is ready; tasks that end
 *         while a select waits for them.
 */
#include "chan_helpers.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- selects, senders and receivers ---------------------------------------------------------- */

enum { CHANS = 3 };

static struct ledger ledger;
static weft_chan *chans[CHANS]; /* the first is the ledger's channel */

/* Sends each entry to whichever channel accepts it first. */
static intptr_t send_anywhere(void *arg)
{
    struct entry *entry;
    (void)arg;
    while ((entry = ledger_next(&ledger)) != NULL) {
        weft_case cases[CHANS + 1];
        for (int i = 0; i < CHANS; i++) {
            cases[i] = weft_case_send(chans[i], &entry);
        }
        cases[CHANS] = weft_case_time(weft_time_after(HOUR));
        const int ran = weft_select(cases, entry->text % 2 == 0 ? CHANS + 1 : CHANS);
        CHECK(ran >= 0 && ran < CHANS);
        CHECK_EQ(cases[ran].result, 0);
    }
    return 0;
}

/* Receives until all channels are closed. */
static intptr_t take_anywhere(void *arg)
{
    struct entry *entry = NULL;
    weft_case cases[CHANS];
    int open = CHANS;
    (void)arg;
    for (int i = 0; i < CHANS; i++) {
        cases[i] = weft_case_recv(chans[i], &entry);
    }
    while (open > 0) {
        const int ran = weft_select(cases, CHANS);
        CHECK(ran >= 0);
        if (cases[ran].result == -EPIPE) {
            cases[ran].kind = WEFT_CASE_NONE;
            open--;
        } else {
            CHECK_EQ(cases[ran].result, 0);
            ledger_take(&ledger, entry);
        }
    }
    return 0;
}

static intptr_t send_to_one(void *arg)
{
    struct entry *entry;
    while ((entry = ledger_next(&ledger)) != NULL) {
        CHECK_EQ(weft_chan_send(arg, &entry), 0);
    }
    return 0;
}

static intptr_t take_from_one(void *arg)
{
    struct entry *entry;
    while (weft_chan_recv(arg, &entry) == 0) {
        ledger_take(&ledger, entry);
    }
    return 0;
}

static void *send_in_thread(void *arg)
{
    (void)send_anywhere(arg);
    return NULL;
}

static void *take_in_thread(void *arg)
{
    (void)take_anywhere(arg);
    return NULL;
}

static void stress_begin(size_t capacity, size_t count)
{
    ledger_init(&ledger, capacity, count);
    chans[0] = ledger.chan;
    for (int i = 1; i < CHANS; i++) {
        chans[i] = chan_of(sizeof(struct entry *), capacity);
    }
}

static void stress_close(void)
{
    for (int i = 0; i < CHANS; i++) {
        CHECK_EQ(weft_chan_close(chans[i]), 0);
    }
}

static void stress_check(void)
{
    for (int i = 0; i < CHANS; i++) {
        CHECK_EQ(waiting_in(chans[i]), 0);
        CHECK_EQ(weft_chan_length(chans[i]), 0);
    }
    ledger_check(&ledger); /* drops the first channel */
    for (int i = 1; i < CHANS; i++) {
        weft_chan_unref(chans[i]);
    }
}

static intptr_t run_stress(void *arg)
{
    (void)arg;
    const size_t capacities[] = {0, 1, 5};
    for (size_t i = 0; i < COUNT_OF(capacities); i++) {
        weft_task *senders[4];
        weft_task *takers[4];
        stress_begin(capacities[i], 600);
        for (int n = 0; n < 4; n++) { /* selects, and senders and receivers of a single channel */
            senders[n] = go(n < 3 ? send_anywhere : send_to_one, chans[1]);
            takers[n] = go(n < 3 ? take_anywhere : take_from_one, chans[2]);
        }
        CHECK_EQ(weft_await_all(senders, 4, NULL), 0);
        stress_close();
        CHECK_EQ(weft_await_all(takers, 4, NULL), 0);
        stress_check();
    }
    return 0;
}

/* behaviour 52 */
static void select_stress_every_item_arrives_once(void)
{
    run_under(EVERYWHERE, run_stress);
}

static void stress_with_threads(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    pthread_t sender;
    pthread_t taker;
    weft_task *senders[2];
    weft_task *takers[2];
    stress_begin(0, 300);
    CHECK_EQ(wf_thread_start(&taker, take_in_thread, NULL, NULL), 0);
    for (int n = 0; n < 2; n++) {
        senders[n] = go_into(runtime, send_anywhere, NULL);
        takers[n] = go_into(runtime, take_anywhere, NULL);
    }
    CHECK_EQ(wf_thread_start(&sender, send_in_thread, NULL, NULL), 0);
    CHECK_EQ(weft_await_all(senders, 2, NULL), 0);
    CHECK_EQ(wf_thread_join(sender), 0);
    stress_close();
    CHECK_EQ(weft_await_all(takers, 2, NULL), 0);
    CHECK_EQ(wf_thread_join(taker), 0);
    stress_check();
}

static void select_stress_with_threads_every_item_arrives_once(void)
{
    open_under(EVERYWHERE, stress_with_threads);
}

/* Times out now and then: received entries count, nothing else does. */
static intptr_t take_with_deadlines(void *arg)
{
    struct entry *entry = NULL;
    weft_case cases[CHANS];
    int open = CHANS;
    unsigned round = 0;
    (void)arg;
    for (int i = 0; i < CHANS; i++) {
        cases[i] = weft_case_recv(chans[i], &entry);
    }
    while (open > 0) {
        weft_deadline_set(weft_time_after((int64_t)(round++ % 4) * 50 * WEFT_MICROSECOND));
        const int ran = weft_select(cases, CHANS);
        CHECK(ran >= 0 || ran == -ETIMEDOUT);
        if (ran >= 0 && cases[ran].result == -EPIPE) {
            cases[ran].kind = WEFT_CASE_NONE;
            open--;
        } else if (ran >= 0) {
            ledger_take(&ledger, entry);
        }
    }
    return 0;
}

static intptr_t run_stress_with_deadlines(void *arg)
{
    (void)arg;
    weft_task *senders[3];
    weft_task *takers[3];
    stress_begin(0, 300);
    for (int n = 0; n < 3; n++) {
        senders[n] = go(send_anywhere, NULL);
        takers[n] = go(take_with_deadlines, NULL);
    }
    CHECK_EQ(weft_await_all(senders, 3, NULL), 0);
    stress_close();
    CHECK_EQ(weft_await_all(takers, 3, NULL), 0);
    stress_check();
    return 0;
}

static void select_stress_with_deadlines_loses_no_item(void)
{
    run_under(EVERYWHERE, run_stress_with_deadlines);
}

/* ---- tasks that end during a select ---------------------------------------------------------- */

static intptr_t race_with_ends(void *arg)
{
    (void)arg;
    for (int round = 0; round < 200; round++) {
        weft_task *first = go(echo, (void *)1);
        weft_task *second = go(echo, (void *)2);
        weft_case cases[] = {weft_case_task(first), weft_case_task(second)};
        if (round % 3 == 0) {
            (void)weft_yield();
        }
        const int ran = weft_select(cases, 2);
        CHECK(ran == 0 || ran == 1);
        CHECK_EQ(cases[ran].value, ran + 1);
        CHECK_EQ(weft_await(second), 2);
        CHECK_EQ(weft_await(first), 1);
    }
    return 0;
}

static void select_of_tasks_survives_their_end_at_any_moment(void)
{
    run_under(EVERYWHERE, race_with_ends);
}

static const struct tap_test tests[] = {
    TAP_TEST(select_stress_every_item_arrives_once),
    TAP_TEST(select_stress_with_threads_every_item_arrives_once),
    TAP_TEST(select_stress_with_deadlines_loses_no_item),
    TAP_TEST(select_of_tasks_survives_their_end_at_any_moment),
};
TAP_MAIN(tests)
