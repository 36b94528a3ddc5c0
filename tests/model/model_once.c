/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/once.c one of several concurrent callers runs the function, the others wait
 *         and see its writes; if it fails, one of the waiters runs it in its turn; and a turn that
 *         was given to a waiter that is cancelled, or never runs again, is not lost; in every order
 *         of steps under every memory model.
 * Method: the function writes plain data, so that two runners, or a caller that does not see its
 *         writes, are a race.  A lost turn is a deadlock.  Each call that was not cancelled must
 *         end, and the function has succeeded once in the end.  The target of a value is plain,
 *         too.
 *         Keeps part of behaviour 53.
 */
#include "model/sync_helpers.h"

static weft_once *once;
static unsigned tries;                      /* plain: written by the running caller */
static unsigned done;                       /* plain: written by the running caller */
static struct wf_wait_node *abandoned_node; /* of a task that never runs again */
static struct wf_wait_node *turn_node;      /* of a task that has the turn and never runs again */

/* For a call of weft_fail, which is not modelled. */
void weft_cleanup_push(weft_cleanup *cleanup, void (*fn)(void *arg), void *arg)
{
    (void)cleanup;
    (void)fn;
    (void)arg;
}

void weft_cleanup_pop(weft_cleanup *cleanup, bool run)
{
    (void)cleanup;
    (void)run;
}

static struct wf_once *inner(void)
{
    return (struct wf_once *)(void *)once;
}

static bool is_done(void)
{
    return wf_once_is_done((const struct wf_once *)(const void *)once);
}

static void start(void)
{
    start_tasks();
    once = wf_alloc_zeroed(1, sizeof(*once));
    tries = 0;
    done = 0;
    abandoned_node = NULL;
    turn_node = NULL;
}

static void start_thread(void)
{
    start();
    is_thread[0] = true;
}

static struct wf_wait_node *begin(unsigned thread)
{
    struct wf_wait_node *node = wf_alloc_zeroed(1, sizeof(*node));
    wf_node_init(node, &selves[thread]);
    node->queue = &inner()->queue;
    node->result = wf_once_begin(inner(), node);
    return node;
}

/* The turn belongs to a task that does not exist, and thread 3, which does not exist either,
 * waits. */
static void start_with_abandoned(void)
{
    start();
    turn_node = begin(2);
    abandoned_node = begin(3);
    abandoned_node->result = 0;
}

static void check(void)
{
    MODEL_REQUIRE(done == 1);
    MODEL_REQUIRE(is_done());
    MODEL_REQUIRE(inner()->queue.first == NULL);
    wf_free(once);
    wf_free(abandoned_node);
    wf_free(turn_node);
}

/* Each caller may have been cancelled. */
static void check_cancelled(void)
{
    MODEL_REQUIRE(done == (is_done() ? 1 : 0));
    MODEL_REQUIRE(wf_load_relaxed(&inner()->word) == 0 || is_done()); /* no caller has the turn */
    MODEL_REQUIRE(inner()->queue.first == NULL);
    wf_free(once);
}

/* ---- threads ------------------------------------------------------------------------------- */

static intptr_t succeed(void *arg)
{
    (void)arg;
    wf_plain_store(&tries, wf_plain_load(&tries) + 1);
    wf_plain_store(&done, wf_plain_load(&done) + 1);
    return 1;
}

static intptr_t fail(void *arg)
{
    (void)arg;
    wf_plain_store(&tries, wf_plain_load(&tries) + 1);
    return -EIO;
}

static void do_once(void)
{
    const intptr_t rc = weft_once_do(once, succeed, NULL);
    MODEL_REQUIRE(rc == 0 || rc == 1);
    MODEL_REQUIRE(wf_plain_load(&done) == 1);
}

static void ask_if_done(void)
{
    if (is_done()) {
        MODEL_REQUIRE(wf_plain_load(&done) == 1);
    }
}

static void fail_once(void)
{
    const intptr_t rc = weft_once_do(once, fail, NULL);
    MODEL_REQUIRE(rc == 0 || rc == -EIO);
    if (rc == 0) {
        MODEL_REQUIRE(wf_plain_load(&done) == 1);
    }
}

/* A waiter that was given the turn takes it, cancelled or not. */
static void do_cancelled(void)
{
    const intptr_t rc = weft_once_do(once, succeed, NULL);
    MODEL_REQUIRE(rc == 0 || rc == 1 || rc == -ECANCELED);
    if (rc >= 0) {
        MODEL_REQUIRE(wf_plain_load(&done) == 1);
    }
}

static void cancel_first(void)
{
    cancel(0);
}

static void give_up_turn(void)
{
    wf_plain_store(&tries, wf_plain_load(&tries) + 1);
    turn_node->pass_on(turn_node);
}

/* ---- cells ---------------------------------------------------------------------------------- */

static weft_cell *cell;
static unsigned content; /* plain: the target of the value; written by the running caller */
static unsigned set_by_us;

static void start_cell(void)
{
    start_tasks();
    cell = wf_alloc_zeroed(1, sizeof(*cell));
    content = 0;
    set_by_us = 0;
}

/* As weft_cell_get, which is inline and does not use the model's atomics. */
static void get(void)
{
    const unsigned *value = wf_load_acquire(&((struct wf_cell *)(void *)cell)->value);
    if (value != NULL) {
        MODEL_REQUIRE(wf_plain_load(value) == 1);
    }
}

static void *make_content(void *arg)
{
    (void)arg;
    wf_plain_store(&content, wf_plain_load(&content) + 1);
    return &content;
}

static void make(void)
{
    void *value = NULL;
    MODEL_REQUIRE(weft_cell_make(cell, &value, make_content, NULL) == 0);
    MODEL_REQUIRE(wf_plain_load((unsigned *)value) == 1);
}

static void set_value(void)
{
    unsigned *own = wf_alloc_zeroed(1, sizeof(*own));
    wf_plain_store(own, 1);
    const int rc = weft_cell_set(cell, own);
    MODEL_REQUIRE(rc == 0 || rc == -EEXIST);
    if (rc == 0) {
        /* only one setter: otherwise a race */
        wf_plain_store(&set_by_us, wf_plain_load(&set_by_us) + 1);
    } else {
        wf_free(own);
    }
    get();
}

static void check_cell(void)
{
    unsigned *value = wf_load_relaxed(&((struct wf_cell *)(void *)cell)->value);
    MODEL_REQUIRE(value != NULL && *value == 1);
    MODEL_REQUIRE(set_by_us + content == 1);
    if (value != &content) {
        wf_free(value);
    }
    wf_free(cell);
}

static void abandon_node(void)
{
    abandoned_node->hook.abandon(&abandoned_node->hook);
    struct wf_wait_node *node = abandoned_node;
    abandoned_node = NULL;
    wf_free(node);
}

static const struct model_test tests[] = {
    {.name = "two callers",
     .setup = start,
     .threads = {do_once, do_once},
     .names = {"first", "second"},
     .check = check},
    {.name = "caller races is_done",
     .setup = start,
     .threads = {do_once, ask_if_done},
     .names = {"caller", "is_done"},
     .check = check},
    {.name = "caller races a thread",
     .setup = start_thread,
     .threads = {do_once, do_once},
     .names = {"thread", "task"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "failing caller passes the turn on",
     .setup = start,
     .threads = {fail_once, do_once},
     .names = {"failing", "caller"},
     .check = check},
    {.name = "failing caller passes the turn to a thread",
     .setup = start_thread,
     .threads = {do_once, fail_once},
     .names = {"thread", "failing"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "cancel races a failing caller",
     .setup = start,
     .threads = {do_cancelled, fail_once, cancel_first},
     .names = {"cancelled", "failing", "canceller"},
     .bound = {0, 0, 2}, /* one preemption under view */
     .check = check_cancelled},
    {.name = "abandoned waiter passes the turn on",
     .setup = start_with_abandoned,
     .threads = {do_once, give_up_turn, abandon_node},
     .names = {"caller", "abandons", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "cell set races set",
     .setup = start_cell,
     .threads = {set_value, set_value},
     .names = {"first", "second"},
     .check = check_cell},
    {.name = "cell set races make and get",
     .setup = start_cell,
     .threads = {set_value, make, get},
     .names = {"sets", "makes", "gets"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso, one under view */
     .check = check_cell},
    {.name = "two callers race is_done",
     .setup = start,
     .threads = {do_once, do_once, ask_if_done},
     .names = {"first", "second", "is_done"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso, one under view */
     .check = check},
    {.name = "three callers",
     .setup = start,
     .threads = {do_once, do_once, do_once},
     .names = {"first", "second", "third"},
     .bound = {3, 1, 1}, /* two preemptions, else none */
     .check = check,
     .is_slow = 1},
    {.name = "failing caller passes the turn to one of two",
     .setup = start,
     .threads = {fail_once, do_once, do_once},
     .names = {"failing", "caller", "caller 2"},
     .bound = {3, 1, 1}, /* two preemptions, else none */
     .check = check,
     .is_slow = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"once", tests, MODEL_COUNT(tests),
                                             NULL,   0,     "src/sync/once.c"};
    return model_main(argc, argv, &suite);
}
