/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the MPSC queue keeps each sender's order; exactly one sender after each emptying learns
 *         that the queue was empty; a sender that stalls halfway loses nothing and delays no other
 *         sender.
 * Method: in one thread; then a send and a take stopped after each of their instructions while
 *         others send and receive (step.h). Real senders race in test_ledger.c.
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

/* ---- single thread ------------------------------------------------------------------------- */

/* part of S3.20: the events of a process come in the order in which they were sent */
static void mpsc_is_fifo(void)
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

static void mpsc_take_appends_to_the_receivers_chain(void)
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

static void mpsc_first_push_after_emptying_reports_it(void)
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
    CHECK_EQ(wf_mpsc_take(&mpsc, &out), 0); /* this take found the queue empty */
    CHECK(send(&mpsc, 3));
    CHECK(!send(&mpsc, 4));
    CHECK_EQ(wf_mpsc_take(&mpsc, &out), 2);
    check_chain(&out, 0, 5);
}

static void mpsc_allocates_nothing(void)
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

/* behaviour 9, by hand, for builds that cannot be stepped: the two steps of wf_mpsc_push, with
 * other operations in between. */
static void mpsc_sender_stalled_between_steps_delays_no_other(void)
{
    struct wf_mpsc mpsc;
    struct wf_chain out = {0};
    wf_mpsc_init(&mpsc);
    struct wf_node *stalled = item_node(items, 9);
    /* the queue was empty at the time of this load */
    struct wf_node *head = wf_load_relaxed(&mpsc.head);
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

/* The stalled sender saw an item at the head.  Meanwhile that item was received and sent again.
 * The sender finds the same address at the head, with other items below it: its link is still
 * correct (no ABA problem). */
static void mpsc_push_is_immune_to_aba(void)
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

/* ---- between any two instructions ----------------------------------------------------------- */

enum { STALLED = ITEMS - 1 }; /* the stepped sender's item; the others send from 0 on */

struct scene {
    struct wf_mpsc mpsc;
    struct wf_chain received;
    size_t sent;  /* by others */
    size_t wakes; /* sends of others that found the queue empty */
    /* separate: `wakes += send()` could be interrupted between load and store */
    bool is_stalled_first;
    size_t drains; /* takes that found something */
};

static void send_stalled(void *context)
{
    struct scene *scene = context;
    scene->is_stalled_first = send(&scene->mpsc, STALLED);
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

/* The stalled sender does not hold up the others: all items that they sent arrive at once. */
static void send_and_receive(void *context)
{
    struct scene *scene = context;
    send_others(scene);
    receive(scene);
    CHECK(scene->received.count >= scene->sent);
    send_others(scene);
}

/* All items arrived once, those of the others in their order, and one sender after each emptying
 * found the queue empty. */
static void check_scene(struct scene *scene, bool has_stalled)
{
    receive(scene);
    CHECK_EQ(scene->received.count, scene->sent + (has_stalled ? 1 : 0));
    CHECK_EQ(scene->wakes + scene->is_stalled_first, scene->drains);
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
    bool is_interrupted = true;
    for (uint64_t at = 1; is_interrupted; at++) {
        struct scene scene = {.sent = 0};
        wf_mpsc_init(&scene.mpsc);
        for (size_t i = 0; i < ITEMS; i++) {
            wf_store_relaxed(&items[i].taken, 0);
        }
        while (scene.sent < before) {
            scene.wakes += send(&scene.mpsc, scene.sent++);
        }
        is_interrupted = step_interrupt(at, op, meanwhile, &scene);
        check_scene(&scene, op == send_stalled);
        CHECK(is_interrupted || at > 1);
    }
}

/* behaviour 9 */
static void mpsc_sender_stalled_anywhere_loses_nothing(void)
{
    for (size_t before = 0; before <= 2; before++) {
        check_everywhere(before, send_stalled, send_others);
        check_everywhere(before, send_stalled, receive);
        check_everywhere(before, send_stalled, send_and_receive);
    }
}

static void mpsc_receiver_interrupted_anywhere_loses_nothing(void)
{
    for (size_t before = 0; before <= 3; before++) {
        check_everywhere(before, receive, send_others);
    }
}

static const struct tap_test tests[] = {
    TAP_TEST(mpsc_is_fifo),
    TAP_TEST(mpsc_take_appends_to_the_receivers_chain),
    TAP_TEST(mpsc_first_push_after_emptying_reports_it),
    TAP_TEST(mpsc_allocates_nothing),
    TAP_TEST(mpsc_sender_stalled_between_steps_delays_no_other),
    TAP_TEST(mpsc_push_is_immune_to_aba),
    TAP_TEST(mpsc_sender_stalled_anywhere_loses_nothing),
    TAP_TEST(mpsc_receiver_interrupted_anywhere_loses_nothing),
};
TAP_MAIN(tests)
