/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the inbox keeps each sender's order, tells exactly one sender of each emptying, and a
 *         sender that stalls halfway loses nothing and delays nobody.
 * Method: alone; then a send and a take stopped after each of their instructions while others
 *         send and receive (step.h).  Real senders race in test_ledger.c.
 */
#include "items.h"
#include "queue/queue.h"
#include "step.h"
#include "tap.h"

enum { ITEMS = 64 };

static struct item items[ITEMS];

static bool send(struct wf_mpsc *mpsc, size_t index)
{
    return wf_mpsc_push(mpsc, item_node(items, index));
}

static void check_chain(struct wf_chain *chain, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        CHECK_EQ(item_index(wf_chain_pop(chain)), i);
    }
    CHECK(wf_chain_pop(chain) == NULL);
    CHECK_EQ(chain->count, 0);
}

/* ---- alone --------------------------------------------------------------------------------- */

/* part of S3.20: the events of a process come in the order they were sent */
static void items_arrive_in_the_order_they_were_sent(void)
{
    struct wf_mpsc mpsc;
    struct wf_chain out = {0};
    wf_mpsc_init(&mpsc);
    CHECK_EQ(wf_mpsc_take(&mpsc, &out), 0);
    CHECK_EQ(out.count, 0);
    for (size_t count = 1; count <= ITEMS; count *= 2) {
        for (size_t i = 0; i < count; i++) {
            (void)send(&mpsc, i);
        }
        CHECK_EQ(wf_mpsc_take(&mpsc, &out), count);
        CHECK_EQ(out.count, count);
        check_chain(&out, 0, count);
        CHECK_EQ(wf_mpsc_take(&mpsc, &out), 0);
    }
}

static void what_is_taken_goes_behind_what_the_receiver_has(void)
{
    struct wf_mpsc mpsc;
    struct wf_chain out = items_chain(items, 0, 2);
    wf_mpsc_init(&mpsc);
    for (size_t i = 2; i < 5; i++) {
        (void)send(&mpsc, i);
    }
    CHECK_EQ(wf_mpsc_take(&mpsc, &out), 3);
    (void)send(&mpsc, 5);
    CHECK_EQ(wf_mpsc_take(&mpsc, &out), 1);
    CHECK_EQ(out.count, 6);
    check_chain(&out, 0, 6);
}

static void the_first_sender_after_an_emptying_is_told(void)
{
    struct wf_mpsc mpsc;
    struct wf_chain out = {0};
    wf_mpsc_init(&mpsc);
    CHECK(wf_mpsc_is_empty(&mpsc));
    CHECK(send(&mpsc, 0));
    CHECK(!wf_mpsc_is_empty(&mpsc));
    CHECK(!send(&mpsc, 1));
    CHECK(!send(&mpsc, 2));
    CHECK_EQ(wf_mpsc_take(&mpsc, &out), 3);
    CHECK(wf_mpsc_is_empty(&mpsc));
    CHECK_EQ(wf_mpsc_take(&mpsc, &out), 0); /* nothing was emptied by this one */
    CHECK(send(&mpsc, 3));
    CHECK(!send(&mpsc, 4));
    CHECK_EQ(wf_mpsc_take(&mpsc, &out), 2);
    check_chain(&out, 0, 5);
}

static void nothing_is_allocated(void)
{
    struct wf_alloc_stats before;
    struct wf_alloc_stats after;
    struct wf_mpsc mpsc;
    struct wf_chain out = {0};
    wf_alloc_stats(&before);
    wf_mpsc_init(&mpsc);
    for (size_t i = 0; i < ITEMS; i++) {
        (void)send(&mpsc, i);
    }
    CHECK_EQ(wf_mpsc_take(&mpsc, &out), ITEMS);
    wf_alloc_stats(&after);
    CHECK_EQ(after.allocated, before.allocated);
}

/* ---- a stalled sender ---------------------------------------------------------------------- */

/* behaviour 9, by hand, for builds that cannot be stepped: the sender's two steps done one after
 * the other, with the world going on in between.  They are those of wf_mpsc_push. */
static void a_sender_stalled_between_its_steps_delays_nobody(void)
{
    struct wf_mpsc mpsc;
    struct wf_chain out = {0};
    wf_mpsc_init(&mpsc);
    struct wf_node *stalled = item_node(items, 9);
    struct wf_node *head = wf_load_relaxed(&mpsc.head); /* empty, when it looked */
    stalled->next = head;

    CHECK(send(&mpsc, 0));
    CHECK(!send(&mpsc, 1));
    CHECK_EQ(wf_mpsc_take(&mpsc, &out), 2);
    check_chain(&out, 0, 2);
    CHECK(send(&mpsc, 2));

    CHECK(!wf_cas_release(&mpsc.head, &head, stalled));
    CHECK(head == &items[2].node);
    stalled->next = head;
    CHECK(wf_cas_release(&mpsc.head, &head, stalled));
    CHECK_EQ(wf_mpsc_take(&mpsc, &out), 2);
    CHECK_EQ(item_index(wf_chain_pop(&out)), 2);
    CHECK_EQ(item_index(wf_chain_pop(&out)), 9);
}

/* The stalled sender saw an item at the head; it was received and sent again meanwhile, so the
 * sender finds the same address there, over other items: its link is right all the same. */
static void an_item_sent_again_does_not_fool_a_stalled_sender(void)
{
    struct wf_mpsc mpsc;
    struct wf_chain out = {0};
    wf_mpsc_init(&mpsc);
    (void)send(&mpsc, 0);
    struct wf_node *stalled = item_node(items, 9);
    struct wf_node *head = wf_load_relaxed(&mpsc.head);
    stalled->next = head;

    CHECK_EQ(wf_mpsc_take(&mpsc, &out), 1);
    check_chain(&out, 0, 1);
    CHECK(send(&mpsc, 1));
    CHECK(!send(&mpsc, 0));

    CHECK(wf_cas_release(&mpsc.head, &head, stalled));
    CHECK_EQ(wf_mpsc_take(&mpsc, &out), 3);
    CHECK_EQ(item_index(wf_chain_pop(&out)), 1);
    CHECK_EQ(item_index(wf_chain_pop(&out)), 0);
    CHECK_EQ(item_index(wf_chain_pop(&out)), 9);
}

/* ---- the same, between any two instructions ------------------------------------------------- */

enum { STALLED = ITEMS - 1 }; /* the stepped sender's item; the others send from 0 on */

struct scene {
    struct wf_mpsc mpsc;
    struct wf_chain received;
    size_t sent;          /* by others */
    size_t wakes;         /* sends of others that found it empty */
    bool is_stalled_told; /* apart: `wakes += send()` could be interrupted between load and store */
    size_t drains;        /* takes that found something */
};

static void send_stalled(void *context)
{
    struct scene *scene = context;
    scene->is_stalled_told = send(&scene->mpsc, STALLED);
}

static void send_others(void *context)
{
    struct scene *scene = context;
    scene->wakes += send(&scene->mpsc, scene->sent++);
    scene->wakes += send(&scene->mpsc, scene->sent++);
}

static void receive(void *context)
{
    struct scene *scene = context;
    scene->drains += wf_mpsc_take(&scene->mpsc, &scene->received) > 0;
}

/* Whatever the stalled sender holds up, it is not the others: all they sent arrives at once. */
static void send_and_receive(void *context)
{
    struct scene *scene = context;
    send_others(scene);
    receive(scene);
    CHECK(scene->received.count >= scene->sent);
    send_others(scene);
}

/* All arrived once, the others' in their order, and each emptying was told to one sender. */
static void check_scene(struct scene *scene, bool has_stalled)
{
    receive(scene);
    CHECK_EQ(scene->received.count, scene->sent + (has_stalled ? 1 : 0));
    CHECK_EQ(scene->wakes + scene->is_stalled_told, scene->drains);
    CHECK(wf_mpsc_is_empty(&scene->mpsc));
    size_t next = 0;
    for (struct wf_node *node; (node = wf_chain_pop(&scene->received)) != NULL;) {
        if (item_take(items, node) != STALLED) {
            CHECK_EQ(item_index(node), next);
            next++;
        }
    }
    CHECK_EQ(next, scene->sent);
}

static void check_everywhere(size_t before, step_fn op, step_fn meanwhile)
{
    step_require();
    bool is_inside = true;
    for (uint64_t at = 1; is_inside; at++) {
        struct scene scene = {.sent = 0};
        wf_mpsc_init(&scene.mpsc);
        for (size_t i = 0; i < ITEMS; i++) {
            wf_store_relaxed(&items[i].taken, 0);
        }
        while (scene.sent < before) {
            scene.wakes += send(&scene.mpsc, scene.sent++);
        }
        is_inside = step_interrupt(at, op, meanwhile, &scene);
        check_scene(&scene, op == send_stalled);
        CHECK(is_inside || at > 1);
    }
}

/* behaviour 9 */
static void a_sender_stalled_anywhere_loses_nothing(void)
{
    for (size_t before = 0; before <= 2; before++) {
        check_everywhere(before, send_stalled, send_others);
        check_everywhere(before, send_stalled, receive);
        check_everywhere(before, send_stalled, send_and_receive);
    }
}

static void a_receiver_interrupted_anywhere_loses_nothing(void)
{
    for (size_t before = 0; before <= 3; before++) {
        check_everywhere(before, receive, send_others);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(items_arrive_in_the_order_they_were_sent),
    TAP_TEST(what_is_taken_goes_behind_what_the_receiver_has),
    TAP_TEST(the_first_sender_after_an_emptying_is_told),
    TAP_TEST(nothing_is_allocated),
    TAP_TEST(a_sender_stalled_between_its_steps_delays_nobody),
    TAP_TEST(an_item_sent_again_does_not_fool_a_stalled_sender),
    TAP_TEST(a_sender_stalled_anywhere_loses_nothing),
    TAP_TEST(a_receiver_interrupted_anywhere_loses_nothing),
};
TAP_MAIN(tests)
