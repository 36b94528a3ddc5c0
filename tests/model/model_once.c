/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/once.c one of those who come at once does it, the others wait and see what
 *         it did; if it fails, one of them does it in its turn; and a turn that was given to one
 *         who is cancelled, or never runs again, is not lost; in every order of steps under every
 *         memory model.
 * Method: what is done is plain, so that two who do it, or one who does not see it, are a race.  A
 *         turn that is lost is a deadlock.  Each call that was not cancelled must end, and it is
 *         done in the end, by one.  What a value points at is plain, too.
 *         Keeps part of behaviour 53.
 */
#include "model/sync_aids.h"

static weft_once *once;
static unsigned tries;                 /* plain: of the one whose turn it is */
static unsigned done;                  /* plain: the same */
static struct wf_wait_node *left_node; /* of a task that never runs again */
static struct wf_wait_node *turn_node; /* of one whose turn it is, which never runs again */

/* Of a call by weft_fail, which is not modelled. */
void weft_cleanup_push(weft_cleanup *cleanup, void (*fn)(void *arg), void *arg)
{
    (void)cleanup;
    (void)fn;
    (void)arg;
}

void weft_cleanup_pop(weft_cleanup *cleanup, int run)
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
    left_node = NULL;
    turn_node = NULL;
}

static void start_foreign(void)
{
    start();
    is_foreign[0] = true;
}

static struct wf_wait_node *begin(unsigned thread)
{
    struct wf_wait_node *node = wf_alloc_zeroed(1, sizeof(*node));
    wf_node_init(node, &selves[thread]);
    node->queue = &inner()->queue;
    node->result = wf_once_begin(inner(), node);
    return node;
}

/* It is the turn of one that does not exist, and thread 3, which does not exist either, waits. */
static void start_with_one_left(void)
{
    start();
    turn_node = begin(2);
    left_node = begin(3);
    left_node->result = 0;
}

static void check(void)
{
    MODEL_REQUIRE(done == 1);
    MODEL_REQUIRE(is_done());
    MODEL_REQUIRE(inner()->queue.first == NULL);
    wf_free(once);
    wf_free(left_node);
    wf_free(turn_node);
}

/* Each of those who came was cancelled, perhaps. */
static void check_cancelled(void)
{
    MODEL_REQUIRE(done == (is_done() ? 1 : 0));
    MODEL_REQUIRE(wf_load_relaxed(&inner()->word) == 0 || is_done()); /* nobody's turn */
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

static void ask(void)
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

/* One who was handed the turn takes it, cancelled or not. */
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

/* ---- a value that is set once --------------------------------------------------------------- */

static weft_cell *cell;
static unsigned content; /* plain: what the value points at; of the one whose turn it is */
static unsigned set_by_us;

static void start_cell(void)
{
    start_tasks();
    cell = wf_alloc_zeroed(1, sizeof(*cell));
    content = 0;
    set_by_us = 0;
}

/* As weft_cell_get, which is inline; the model's words are no words. */
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
    MODEL_REQUIRE(weft_cell_make(cell, make_content, NULL, &value) == 0);
    MODEL_REQUIRE(wf_plain_load((unsigned *)value) == 1);
}

static void bring(void)
{
    unsigned *own = wf_alloc_zeroed(1, sizeof(*own));
    wf_plain_store(own, 1);
    const int rc = weft_cell_set(cell, own);
    MODEL_REQUIRE(rc == 0 || rc == -EEXIST);
    if (rc == 0) {
        wf_plain_store(&set_by_us, wf_plain_load(&set_by_us) + 1); /* one only: or it is a race */
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

static void abandon_left(void)
{
    left_node->parting.forget(&left_node->parting);
    struct wf_wait_node *node = left_node;
    left_node = NULL;
    wf_free(node);
}

static const struct model_test tests[] = {
    {.name = "two come at once",
     .setup = start,
     .threads = {do_once, do_once},
     .names = {"first", "second"},
     .check = check},
    {.name = "one asks",
     .setup = start,
     .threads = {do_once, ask},
     .names = {"does", "asks"},
     .check = check},
    {.name = "a foreign thread comes",
     .setup = start_foreign,
     .threads = {do_once, do_once},
     .names = {"thread", "task"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "one fails",
     .setup = start,
     .threads = {fail_once, do_once},
     .names = {"fails", "does"},
     .check = check},
    {.name = "one fails and a foreign thread comes",
     .setup = start_foreign,
     .threads = {do_once, fail_once},
     .names = {"thread", "fails"},
     .bound = {0, 0, 4}, /* as above */
     .check = check},
    {.name = "one is cancelled as the other fails",
     .setup = start,
     .threads = {do_cancelled, fail_once, cancel_first},
     .names = {"cancelled", "fails", "canceller"},
     .bound = {0, 0, 2}, /* one preemption under view */
     .check = check_cancelled},
    {.name = "a turn of one that never runs again",
     .setup = start_with_one_left,
     .threads = {do_once, give_up_turn, abandon_left},
     .names = {"does", "gives up", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "two bring a value",
     .setup = start_cell,
     .threads = {bring, bring},
     .names = {"first", "second"},
     .check = check_cell},
    {.name = "one brings a value, one makes it, and one looks",
     .setup = start_cell,
     .threads = {bring, make, get},
     .names = {"brings", "makes", "looks"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso, one under view */
     .check = check_cell},
    {.name = "two come, and one asks",
     .setup = start,
     .threads = {do_once, do_once, ask},
     .names = {"first", "second", "asks"},
     .bound = {3, 1, 2}, /* two preemptions, none under tso, one under view */
     .check = check},
    {.name = "three come at once",
     .setup = start,
     .threads = {do_once, do_once, do_once},
     .names = {"first", "second", "third"},
     .bound = {3, 1, 1}, /* two preemptions, else none */
     .check = check,
     .is_slow = 1},
    {.name = "one of three fails",
     .setup = start,
     .threads = {fail_once, do_once, do_once},
     .names = {"fails", "does", "does too"},
     .bound = {3, 1, 1}, /* as above */
     .check = check,
     .is_slow = 1},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"once", tests, MODEL_COUNT(tests),
                                             NULL,   0,     "src/sync/once.c"};
    return model_main(argc, argv, &suite);
}
