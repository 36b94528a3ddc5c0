/* SPDX-License-Identifier: MIT */
/*
 * Goal:   src/queue/mpsc.c loses nothing, keeps each sender's order, and tells exactly one sender
 *         to wake the receiver, in every order of steps under every memory model.
 * Method: two or three senders and the receiver; items carry a plain payload.  In the last test the
 *         receiver sleeps on a futex and only a sender that found the queue empty wakes it: a wrong
 *         answer shows as a deadlock.  Keeps behaviour 9; part of S3.20.
 */
#include "model/ledger.h"
#include "os/os.h"
#include "queue/queue.h"

static struct wf_mpsc box;
static struct wf_chain taken;
static wf_atomic_u32 bell;
static int pushed;
static int sender_of[4]; /* by item */
static int last_of_sender[3];

/* Two items each of two senders. */
static void start(void)
{
    ledger_clear();
    wf_mpsc_init(&box);
    taken = (struct wf_chain){0};
    wf_store_relaxed(&bell, 0);
    pushed = 4;
    for (int i = 0; i < 4; i++) {
        sender_of[i] = i / 2;
    }
    last_of_sender[0] = last_of_sender[1] = last_of_sender[2] = -1;
}

/* One item each of `senders` senders. */
static void start_with_one_each(int senders)
{
    start();
    pushed = senders;
    for (int i = 0; i < senders; i++) {
        sender_of[i] = i;
    }
}

static int take_all(void)
{
    size_t count = wf_mpsc_take(&box, &taken);
    MODEL_REQUIRE(count == taken.count);
    int got = 0;
    struct wf_node *node;
    while ((node = wf_chain_pop(&taken)) != NULL) {
        int number = ledger_take(node);
        int *last = &last_of_sender[sender_of[number]];
        MODEL_REQUIRE(number > *last);
        *last = number;
        got++;
    }
    return got;
}

static void check_all(void)
{
    (void)take_all();
    MODEL_REQUIRE(wf_mpsc_is_empty(&box));
    ledger_all_taken(pushed);
}

static void send_0_1(void)
{
    (void)wf_mpsc_push(&box, ledger_make(0));
    (void)wf_mpsc_push(&box, ledger_make(1));
}

static void send_2_3(void)
{
    (void)wf_mpsc_push(&box, ledger_make(2));
    (void)wf_mpsc_push(&box, ledger_make(3));
}

static void send_0(void)
{
    (void)wf_mpsc_push(&box, ledger_make(0));
}

static void send_1(void)
{
    (void)wf_mpsc_push(&box, ledger_make(1));
}

static void send_2(void)
{
    (void)wf_mpsc_push(&box, ledger_make(2));
}

static void receive_once(void)
{
    (void)take_all();
}

static void receive_twice(void)
{
    (void)take_all();
    (void)take_all();
}

static void send_and_wake_if_empty(int number)
{
    if (wf_mpsc_push(&box, ledger_make(number))) {
        (void)wf_fetch_add_release(&bell, 1);
        (void)wf_futex_wake(&bell, 1);
    }
}

static void send_and_wake_0(void)
{
    send_and_wake_if_empty(0);
}

static void send_and_wake_1(void)
{
    send_and_wake_if_empty(1);
}

/* Sleeps whenever it finds the queue empty; ends when it has all items. */
static void receive_all(void)
{
    for (int got = 0; got < 2;) {
        uint32_t heard = wf_load_acquire(&bell);
        int now = take_all();
        got += now;
        if (now == 0) {
            (void)wf_futex_wait(&bell, heard, WF_FOREVER);
        }
    }
}

static void start_for_two(void)
{
    start_with_one_each(2);
}

static void start_for_three(void)
{
    start_with_one_each(3);
}

static const struct model_test tests[] = {
    {.name = "two senders, one take",
     .setup = start,
     .threads = {send_0_1, send_2_3, receive_once},
     .names = {"sender 1", "sender 2", "receiver"},
     .check = check_all},
    {.name = "two senders, two takes",
     .setup = start,
     .threads = {send_0_1, send_2_3, receive_twice},
     .names = {"sender 1", "sender 2", "receiver"},
     .check = check_all,
     .is_slow = 1},
    {.name = "three senders, one take",
     .setup = start_for_three,
     .threads = {send_0, send_1, send_2, receive_once},
     .names = {"sender 1", "sender 2", "sender 3", "receiver"},
     .check = check_all},
    {.name = "sleeping receiver is woken by the first sender",
     .setup = start_for_two,
     .threads = {send_and_wake_0, send_and_wake_1, receive_all},
     .names = {"sender 1", "sender 2", "receiver"},
     .check = check_all,
     .spurious_wakes = 1},
};

static const struct model_equivalent equivalents[] = {{NULL, NULL}};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"mpsc",      tests, MODEL_COUNT(tests),
                                             equivalents, 0,     NULL};
    return model_main(argc, argv, &suite);
}
