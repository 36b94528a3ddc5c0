/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/notify.c no notification is lost and at most one permit is stored, and with
 *         src/sync/group.c a waiter continues when the last worker is done, and not before; it sees
 *         the writes before that, in every order of steps under every memory model.
 * Method: the payload of a notification, or of a done, is plain data.  A lost one is a deadlock.
 *         Both objects come from the checker's heap and are freed by the waiter, in some tests: a
 *         late access is a use after free.
 *         Keeps part of behaviour 53.
 */
#include "model/sync_helpers.h"

static weft_notify *notify;
static weft_group *group;
static int
    payloads[MODEL_THREADS_MAX]; /* plain: written by thread i before it notifies or is done */
static unsigned taken;           /* not a step of the model: read after all threads */
static unsigned expected;        /* permits that are taken or stored at the end */
static struct wf_wait_node *abandoned_node; /* of a task that never runs again */

static void start(void)
{
    start_tasks();
    notify = wf_alloc_zeroed(1, sizeof(*notify));
    group = wf_alloc_zeroed(1, sizeof(*group));
    taken = 0;
    expected = 1;
    abandoned_node = NULL;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        payloads[i] = 0;
    }
}

static void start_thread(void)
{
    start();
    is_thread[0] = true;
}

static void start_none(void)
{
    start();
    expected = 0;
}

/* Thread 3, which does not exist, waits. */
static void start_with_abandoned(void)
{
    start();
    abandoned_node = wf_alloc_zeroed(1, sizeof(*abandoned_node));
    wf_node_init(abandoned_node, &selves[3]);
    (void)wf_notify_begin((struct wf_notify *)(void *)notify, abandoned_node);
}

/* The waiter has left: the word still has its waiters bit. */
static void start_after_one_left(void)
{
    start_with_abandoned();
    abandoned_node->hook.abandon(&abandoned_node->hook);
}

static void start_group(void)
{
    start_none();
    (void)weft_group_add(group, 1);
}

static void start_group_thread(void)
{
    start_group();
    is_thread[0] = true;
}

static void start_group_of_two(void)
{
    start_none();
    (void)weft_group_add(group, 2);
}

static void check(void)
{
    if (notify != NULL) {
        MODEL_REQUIRE(((struct wf_notify *)(void *)notify)->queue.first == NULL);
        taken += weft_notify_try_wait(notify) == 0 ? 1 : 0;
        MODEL_REQUIRE(weft_notify_try_wait(notify) == -EAGAIN);
    }
    MODEL_REQUIRE(taken == expected);
    MODEL_REQUIRE(group == NULL || ((struct wf_group *)(void *)group)->queue.first == NULL);
    wf_free(notify);
    wf_free(group);
    wf_free(abandoned_node);
}

/* The first notification is lost without a waiter; with a waiter, the second is stored. */
static void check_notified(void)
{
    const uint64_t word = wf_load_relaxed(&((struct wf_notify *)(void *)notify)->word);
    MODEL_REQUIRE(taken == 1 && word <= 1);
    expected = 1 + (unsigned)word;
    check();
}

/* ---- threads ------------------------------------------------------------------------------- */

/* [thread 1 or 2] */
static void notify_one(void)
{
    wf_plain_store(&payloads[model_thread()], 1);
    MODEL_REQUIRE(weft_notify_one(notify) == 0);
}

static void notify_all(void)
{
    wf_plain_store(&payloads[model_thread()], 1);
    MODEL_REQUIRE(weft_notify_all(notify) == 0);
}

/* notify_all wakes waiters only; notify_one stores a permit if there is no waiter. */
static void notify_all_then_one(void)
{
    notify_all();
    MODEL_REQUIRE(weft_notify_one(notify) == 0);
}

static int wait_for_notification(void)
{
    const int rc = weft_notify_wait(notify);
    taken += rc == 0 ? 1 : 0;
    return rc;
}

/* Thread 1 notifies. */
static void wait_once(void)
{
    MODEL_REQUIRE(wait_for_notification() == 0);
    MODEL_REQUIRE(wf_plain_load(&payloads[1]) == 1);
}

static void wait_cancelled(void)
{
    const int rc = wait_for_notification();
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
}

static void wait_and_free(void)
{
    wait_once();
    weft_notify *old = notify;
    notify = NULL;
    wf_free(old);
}

static void try_once(void)
{
    if (weft_notify_try_wait(notify) == 0) {
        taken++;
        MODEL_REQUIRE(wf_plain_load(&payloads[1]) == 1);
    }
}

static void cancel_first(void)
{
    cancel(0);
}

static void abandon_node(void)
{
    abandoned_node->hook.abandon(&abandoned_node->hook);
    struct wf_wait_node *node = abandoned_node;
    abandoned_node = NULL;
    wf_free(node);
}

/* [thread 1 or 2] */
static void finish_one(void)
{
    wf_plain_store(&payloads[model_thread()], 1);
    MODEL_REQUIRE(weft_group_finish(group) == 0);
}

static void wait_for_one(void)
{
    MODEL_REQUIRE(weft_group_wait(group) == 0);
    MODEL_REQUIRE(wf_plain_load(&payloads[1]) == 1);
}

static void wait_for_group_and_free(void)
{
    wait_for_one();
    weft_group *old = group;
    group = NULL;
    wf_free(old);
}

static void wait_for_two_and_free(void)
{
    wait_for_group_and_free();
    MODEL_REQUIRE(wf_plain_load(&payloads[2]) == 1);
}

static void wait_for_group_cancelled(void)
{
    const int rc = weft_group_wait(group);
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        MODEL_REQUIRE(wf_plain_load(&payloads[1]) == 1);
    }
}

static const struct model_test tests[] = {
    {.name = "notify_one races wait",
     .setup = start,
     .threads = {wait_once, notify_one},
     .names = {"waits", "notifies"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "notify_one races try",
     .setup = start,
     .threads = {try_once, notify_one},
     .names = {"tries", "notifies"},
     .check = check},
    {.name = "notify_one races wait of a thread",
     .setup = start_thread,
     .threads = {wait_once, notify_one},
     .names = {"thread", "notifies"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "notified waiter frees it",
     .setup = start,
     .threads = {wait_and_free, notify_one},
     .names = {"waits", "notifies"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "notified waiter frees it after an earlier waiter left",
     .setup = start_after_one_left,
     .threads = {wait_and_free, notify_one},
     .names = {"waits", "notifies"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "cancel races notify_one and wait",
     .setup = start,
     .threads = {wait_cancelled, notify_one, cancel_first},
     .names = {"waits", "notifies", "canceller"},
     .bound = {4, 2, 2}, /* three preemptions, else one */
     .check = check},
    {.name = "abandoned waiter passes the notification on",
     .setup = start_with_abandoned,
     .threads = {wait_once, notify_one, abandon_node},
     .names = {"waits", "notifies", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "notify_all, then notify_one, race wait",
     .setup = start,
     .threads = {wait_once, notify_all_then_one},
     .names = {"waits", "notifies"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check_notified},
    {.name = "group done races wait, the waiter frees it",
     .setup = start_group,
     .threads = {wait_for_group_and_free, finish_one},
     .names = {"waits", "done"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "group done races wait of a thread",
     .setup = start_group_thread,
     .threads = {wait_for_group_and_free, finish_one},
     .names = {"thread", "done"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "group of two done races wait",
     .setup = start_group_of_two,
     .threads = {wait_for_two_and_free, finish_one, finish_one},
     .names = {"waits", "done", "done too"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "group cancel races done and wait",
     .setup = start_group,
     .threads = {wait_for_group_cancelled, finish_one, cancel_first},
     .names = {"waits", "done", "canceller"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"event", tests, MODEL_COUNT(tests),
                                             NULL,    0,     "src/sync/"};
    return model_main(argc, argv, &suite);
}
