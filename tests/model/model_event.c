/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/notify.c no notice is lost and at most one permit kept, and with
 *         src/sync/group.c whoever waits goes on when the last is done, and not before; what was
 *         done before is seen by who goes on, in every order of steps under every memory model.
 * Method: what a notice, or a done, says is plain data.  A lost one is a deadlock.  Both objects
 *         come from the checker's heap and are freed by who waited for them, in some tests: a late
 *         touch is a use after free.
 *         Keeps part of behaviour 53.
 */
#include "model/sync_aids.h"

static weft_notify *notify;
static weft_group *group;
static int
    letters[MODEL_THREADS_MAX]; /* plain: written by thread i before it notifies or is done */
static unsigned taken;          /* no steps of the model: read after all */
static unsigned expected;       /* notices that were taken, or are kept, in the end */
static struct wf_wait_node *left_node; /* of a task that never runs again */

static void start(void)
{
    start_tasks();
    notify = wf_alloc_zeroed(1, sizeof(*notify));
    group = wf_alloc_zeroed(1, sizeof(*group));
    taken = 0;
    expected = 1;
    left_node = NULL;
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        letters[i] = 0;
    }
}

static void start_foreign(void)
{
    start();
    is_foreign[0] = true;
}

static void start_none(void)
{
    start();
    expected = 0;
}

/* Thread 3, which does not exist, waits. */
static void start_with_one_left(void)
{
    start();
    left_node = wf_alloc_zeroed(1, sizeof(*left_node));
    wf_node_init(left_node, &selves[3]);
    (void)wf_notify_begin((struct wf_notify *)(void *)notify, left_node);
}

/* It has left: the word says still that somebody may wait. */
static void start_after_one_left(void)
{
    start_with_one_left();
    left_node->parting.forget(&left_node->parting);
}

static void start_group(void)
{
    start_none();
    (void)weft_group_add(group, 1);
}

static void start_group_foreign(void)
{
    start_group();
    is_foreign[0] = true;
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
        taken += weft_notify_try(notify) == 0 ? 1 : 0;
        MODEL_REQUIRE(weft_notify_try(notify) == -EAGAIN);
    }
    MODEL_REQUIRE(taken == expected);
    MODEL_REQUIRE(group == NULL || ((struct wf_group *)(void *)group)->queue.first == NULL);
    wf_free(notify);
    wf_free(group);
    wf_free(left_node);
}

/* The first notice is lost, if nobody waited; if somebody did, the second is kept. */
static void check_told(void)
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
    wf_plain_store(&letters[model_thread()], 1);
    MODEL_REQUIRE(weft_notify_one(notify) == 0);
}

static void notify_all(void)
{
    wf_plain_store(&letters[model_thread()], 1);
    MODEL_REQUIRE(weft_notify_all(notify) == 0);
}

/* That of all is for who waits only; the other one is kept if there is nobody. */
static void notify_all_then_one(void)
{
    notify_all();
    MODEL_REQUIRE(weft_notify_one(notify) == 0);
}

static int wait_for_notice(void)
{
    const int rc = weft_notify_wait(notify);
    taken += rc == 0 ? 1 : 0;
    return rc;
}

/* Thread 1 notifies. */
static void wait_once(void)
{
    MODEL_REQUIRE(wait_for_notice() == 0);
    MODEL_REQUIRE(wf_plain_load(&letters[1]) == 1);
}

static void wait_cancelled(void)
{
    const int rc = wait_for_notice();
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
    if (weft_notify_try(notify) == 0) {
        taken++;
        MODEL_REQUIRE(wf_plain_load(&letters[1]) == 1);
    }
}

static void cancel_first(void)
{
    cancel(0);
}

static void abandon_left(void)
{
    left_node->parting.forget(&left_node->parting);
    struct wf_wait_node *node = left_node;
    left_node = NULL;
    wf_free(node);
}

/* [thread 1 or 2] */
static void be_done(void)
{
    wf_plain_store(&letters[model_thread()], 1);
    MODEL_REQUIRE(weft_group_done(group) == 0);
}

static void wait_for_one(void)
{
    MODEL_REQUIRE(weft_group_wait(group) == 0);
    MODEL_REQUIRE(wf_plain_load(&letters[1]) == 1);
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
    MODEL_REQUIRE(wf_plain_load(&letters[2]) == 1);
}

static void wait_for_group_cancelled(void)
{
    const int rc = weft_group_wait(group);
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        MODEL_REQUIRE(wf_plain_load(&letters[1]) == 1);
    }
}

static const struct model_test tests[] = {
    {.name = "a notice",
     .setup = start,
     .threads = {wait_once, notify_one},
     .names = {"waits", "notifies"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "a notice and a try",
     .setup = start,
     .threads = {try_once, notify_one},
     .names = {"tries", "notifies"},
     .check = check},
    {.name = "a notice to a foreign thread",
     .setup = start_foreign,
     .threads = {wait_once, notify_one},
     .names = {"thread", "notifies"},
     .bound = {0, 0, 4}, /* as above */
     .check = check},
    {.name = "it is freed by who was notified",
     .setup = start,
     .threads = {wait_and_free, notify_one},
     .names = {"waits", "notifies"},
     .bound = {0, 0, 4}, /* as above */
     .check = check},
    {.name = "it is freed where somebody waited before",
     .setup = start_after_one_left,
     .threads = {wait_and_free, notify_one},
     .names = {"waits", "notifies"},
     .bound = {0, 0, 4}, /* as above */
     .check = check},
    {.name = "a notice, cancelled",
     .setup = start,
     .threads = {wait_cancelled, notify_one, cancel_first},
     .names = {"waits", "notifies", "canceller"},
     .bound = {4, 2, 2}, /* three preemptions, else one */
     .check = check},
    {.name = "a notice to one that never runs again",
     .setup = start_with_one_left,
     .threads = {wait_once, notify_one, abandon_left},
     .names = {"waits", "notifies", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "all are told, then one",
     .setup = start,
     .threads = {wait_once, notify_all_then_one},
     .names = {"waits", "notifies"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check_told},
    {.name = "one done",
     .setup = start_group,
     .threads = {wait_for_group_and_free, be_done},
     .names = {"waits", "done"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "a foreign thread waits for a group",
     .setup = start_group_foreign,
     .threads = {wait_for_group_and_free, be_done},
     .names = {"thread", "done"},
     .bound = {0, 0, 4}, /* as above */
     .check = check},
    {.name = "two done",
     .setup = start_group_of_two,
     .threads = {wait_for_two_and_free, be_done, be_done},
     .names = {"waits", "done", "done too"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "a group, cancelled",
     .setup = start_group,
     .threads = {wait_for_group_cancelled, be_done, cancel_first},
     .names = {"waits", "done", "canceller"},
     .bound = {3, 2, 2}, /* as above */
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"event", tests, MODEL_COUNT(tests),
                                             NULL,    0,     "src/sync/"};
    return model_main(argc, argv, &suite);
}
