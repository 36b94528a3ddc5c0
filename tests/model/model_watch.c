/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/watch.c a waiter is woken by a new version and by the close, no
 *         modification is lost to another, a borrowed value does not change, and no thread touches
 *         freed memory, in every order of steps under every memory model.
 * Method: values are plain data.  A lost wake-up is a deadlock.  The watch comes from the checker's
 *         heap and is freed with its last handle.
 */
#include "model/sync_helpers.h"
#include "sync/chan.h"

static weft_watch *watch;
static uint64_t last; /* the value at the end */
static struct wf_wait_node *abandoned_node;
static uint64_t left_version;

static void start(void)
{
    const uint64_t first = 10;
    start_tasks();
    last = 11;
    abandoned_node = NULL;
    left_version = 1;
    MODEL_REQUIRE(weft_watch_new(&watch, sizeof(uint64_t), &first) == 0);
    MODEL_REQUIRE(weft_watch_version(watch) == 1); /* the lock is open */
}

static void set(uint64_t value)
{
    MODEL_REQUIRE(weft_watch_set(watch, &value) == 0);
}

/* No waiter has seen the second version yet. */
static void start_set(void)
{
    start();
    set(11);
}

static void start_two(void)
{
    start_set();
    last = 12;
}

static void start_modified(void)
{
    start();
    last = 12;
}

static void start_thread(void)
{
    start();
    is_thread[0] = true;
}

/* Thread 3, which does not exist, waits by a future. */
static void start_with_abandoned(void)
{
    start();
    abandoned_node = wf_alloc_zeroed(1, sizeof(*abandoned_node));
    wf_node_init(abandoned_node, &selves[3]);
    MODEL_REQUIRE(wf_watch_begin(watch, abandoned_node, &left_version) == -EINPROGRESS);
}

static void check(void)
{
    if (watch != NULL) {
        uint64_t value = 0;
        MODEL_REQUIRE(weft_watch_get(watch, &value, NULL) == 0);
        MODEL_REQUIRE(value == last);
    }
    weft_watch_unref(watch);
    wf_free(abandoned_node);
}

/* ---- threads ------------------------------------------------------------------------------- */

/* The value of a version is 9 more than its number. */
static int read_version(uint64_t *seen)
{
    uint64_t value = 0;
    uint64_t version = 0;
    const int rc = weft_watch_wait(watch, seen);
    MODEL_REQUIRE(weft_watch_get(watch, &value, &version) == 0);
    MODEL_REQUIRE(wf_plain_load(&value) == version + 9);
    MODEL_REQUIRE(rc != 0 || version >= *seen);
    return rc;
}

static void wait_for_version(void)
{
    uint64_t seen = 1;
    MODEL_REQUIRE(read_version(&seen) == 0);
    MODEL_REQUIRE(seen == 2);
}

static void wait_for_the_last(void)
{
    uint64_t seen = 1;
    while (seen != 3) { /* each iteration is a version */
        MODEL_REQUIRE(read_version(&seen) == 0);
    }
}

static void wait_until_closed(void)
{
    uint64_t seen = 1;
    int rc = read_version(&seen);
    while (rc == 0) { /* each iteration is a version */
        rc = read_version(&seen);
    }
    MODEL_REQUIRE(rc == -EPIPE);
    MODEL_REQUIRE(seen == 2);
}

static void wait_cancelled(void)
{
    uint64_t seen = 1;
    const int rc = read_version(&seen);
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
}

static void wait_and_leave(void)
{
    wait_for_version();
    weft_watch_unref(watch);
}

/* The borrowed value does not change. */
static void borrow(void)
{
    uint64_t version = 0;
    const uint64_t *value = weft_watch_borrow(watch, &version);
    MODEL_REQUIRE(wf_plain_load(value) == version + 9);
    MODEL_REQUIRE(wf_plain_load(value) == version + 9);
    weft_watch_return(watch, value);
}

static void set_one(void)
{
    set(11);
}

static void set_the_third(void)
{
    set(12);
}

static bool add_one(void *value, void *arg)
{
    (void)arg;
    uint64_t *number = value;
    wf_plain_store(number, wf_plain_load(number) + 1);
    return true;
}

static void modify(void)
{
    MODEL_REQUIRE(weft_watch_modify(watch, add_one, NULL) == 1);
}

static void close_it(void)
{
    MODEL_REQUIRE(weft_watch_close(watch) == 0);
}

static void start_handles(void)
{
    start();
    (void)weft_watch_ref(watch);
}

static void set_and_drop(void)
{
    set_one();
    weft_watch_unref(watch);
}

static void check_gone(void)
{
    watch = NULL; /* freed by one of the threads: a leak or a second free fails the run */
    check();
}

static void cancel_and_set(void)
{
    cancel(0);
    set_one();
}

static void set_and_cancel(void)
{
    set_one();
    cancel(0);
}

static void abandon_node(void)
{
    struct wf_wait_node *node = abandoned_node;
    wf_waitq_abandon(node);
    abandoned_node = NULL;
    wf_free(node);
}

static const struct model_test tests[] = {
    {.name = "set races wait",
     .setup = start,
     .threads = {wait_for_version, set_one},
     .names = {"waits", "sets"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check},
    {.name = "set races wait of a thread",
     .setup = start_thread,
     .threads = {wait_for_version, set_one},
     .names = {"thread", "sets"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check},
    {.name = "two sets race wait",
     .setup = start_two,
     .threads = {wait_for_the_last, set_the_third},
     .names = {"waits", "sets"},
     .bound = {4, 2, 2}, /* three preemptions, else one */
     .check = check},
    {.name = "modify races modify",
     .setup = start_modified,
     .threads = {modify, modify},
     .names = {"modifies", "modifies too"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check},
    {.name = "set races a borrow",
     .setup = start_two,
     .threads = {borrow, set_the_third},
     .names = {"borrows", "sets"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check},
    {.name = "close races wait",
     .setup = start_set,
     .threads = {wait_until_closed, close_it},
     .names = {"waits", "closes"},
     .bound = {4, 2, 2}, /* three preemptions, else one */
     .check = check},
    {.name = "cancel, then set, race wait",
     .setup = start,
     .threads = {wait_cancelled, cancel_and_set},
     .names = {"cancelled", "sets"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check},
    {.name = "set, then cancel, race wait",
     .setup = start,
     .threads = {wait_cancelled, set_and_cancel},
     .names = {"cancelled", "sets"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check},
    {.name = "last handle frees it",
     .setup = start_handles,
     .threads = {wait_and_leave, set_and_drop},
     .names = {"waits", "sets"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check_gone},
    {.name = "abandoned waiter is removed during set",
     .setup = start_with_abandoned,
     .threads = {abandon_node, set_one},
     .names = {"closer", "sets"},
     .bound = {4, 2, 3}, /* three preemptions, one under tso, two under view */
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"watch", tests, MODEL_COUNT(tests),
                                             NULL,    0,     "src/sync/watch.c"};
    return model_main(argc, argv, &suite);
}
