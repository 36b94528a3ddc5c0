/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/rwlock.c one writer or many readers hold the lock, each sees earlier
 *         writes, and a waiter that is cancelled or never runs again delays no other, in every
 *         order of steps under every memory model.
 * Method: the lock protects plain data, so that a reader beside a writer is a race.  A lost wake-up
 *         is a deadlock.  The lock comes from the checker's heap and is freed by the last holder: a
 *         later access is a use after free.
 */
#include "model/sync_helpers.h"

static weft_rwlock *rwlock;
static unsigned sum;         /* plain: under the lock */
static unsigned users;       /* plain: written by writers; the last frees it */
static unsigned written;     /* number of writers that succeed */
static unsigned inside;      /* readers that hold the lock at the end */
static unsigned reading_now; /* not a step of the model */
static struct wf_wait_node *abandoned_node;

static struct wf_rwlock *inner(void)
{
    return (struct wf_rwlock *)(void *)rwlock;
}

static void start(void)
{
    start_tasks();
    rwlock = wf_alloc_zeroed(1, sizeof(*rwlock));
    sum = 0;
    users = 0;
    written = 2;
    inside = 0;
    reading_now = 0;
    abandoned_node = NULL;
}

static void start_one_writer(void)
{
    start();
    written = 1;
}

static void start_thread(void)
{
    start_one_writer();
    is_thread[0] = true;
}

static void start_users(void)
{
    start();
    users = 2;
}

/* A reader holds the lock from before the threads until after them. */
static void start_read(void)
{
    start();
    MODEL_REQUIRE(weft_rwlock_try_rdlock(rwlock) == 0);
    written = 0;
    inside = 1;
}

/* Thread 3, which does not exist, waits. */
static void add_abandoned(bool is_writer)
{
    abandoned_node = wf_alloc_zeroed(1, sizeof(*abandoned_node));
    wf_node_init(abandoned_node, &selves[3]);
    MODEL_REQUIRE(wf_rwlock_begin(inner(), abandoned_node, is_writer, (uintptr_t)&selves[3]) ==
                  -EINPROGRESS);
}

static void start_behind_a_writer(void)
{
    start_read();
    add_abandoned(true);
}

/* Thread 1 holds the lock for writing. */
static void lock_for_writing(void)
{
    start();
    wf_store_relaxed(&inner()->word, (uintptr_t)&selves[1] | 2);
    selves[1].owned_locks = &inner()->owned;
}

static void start_written_with_a_writer_left(void)
{
    lock_for_writing();
    add_abandoned(true);
}

static void start_written_with_a_reader_left(void)
{
    lock_for_writing();
    add_abandoned(false);
}

static void check(void)
{
    MODEL_REQUIRE(sum == written);
    if (rwlock != NULL) {
        for (; inside > 0; inside--) {
            MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
        }
        MODEL_REQUIRE(inner()->queue.first == NULL);
        MODEL_REQUIRE(weft_rwlock_try_wrlock(rwlock) == 0);
        MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        MODEL_REQUIRE(selves[i].owned_locks == NULL);
    }
    wf_free(rwlock);
    wf_free(abandoned_node);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void add_one(void)
{
    MODEL_REQUIRE(reading_now == 0);
    wf_plain_store(&sum, wf_plain_load(&sum) + 1);
}

static void write_once(void)
{
    MODEL_REQUIRE(weft_rwlock_wrlock(rwlock) == 0);
    add_one();
    MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
}

static void read_once(void)
{
    MODEL_REQUIRE(weft_rwlock_rdlock(rwlock) == 0);
    reading_now++;
    MODEL_REQUIRE(wf_plain_load(&sum) <= written);
    reading_now--;
    MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
}

static void try_to_read(void)
{
    if (weft_rwlock_try_rdlock(rwlock) == 0) {
        MODEL_REQUIRE(wf_plain_load(&sum) <= written);
        MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
    }
}

/* A reader holds the lock for ever. */
static void write_without_success(void)
{
    MODEL_REQUIRE(weft_rwlock_wrlock(rwlock) == -ECANCELED);
}

static void write_cancelled(void)
{
    const int rc = weft_rwlock_wrlock(rwlock);
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        add_one();
        MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
    } else {
        written--; /* not a step of the model: read after all threads */
    }
}

static void read_cancelled(void)
{
    const int rc = weft_rwlock_rdlock(rwlock);
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
    }
}

static void write_and_free(void)
{
    weft_rwlock *mine = rwlock;
    MODEL_REQUIRE(weft_rwlock_wrlock(mine) == 0);
    add_one();
    const unsigned left = wf_plain_load(&users) - 1;
    wf_plain_store(&users, left);
    MODEL_REQUIRE(weft_rwlock_unlock(mine) == 0);
    if (left == 0) {
        rwlock = NULL;
        wf_free(mine);
    }
}

/* [thread 1] */
static void stop_writing(void)
{
    add_one();
    MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
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

static void stop_reading(void)
{
    inside--; /* not a step of the model */
    MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
}

static void read_and_stay(void)
{
    if (weft_rwlock_try_rdlock(rwlock) == 0) {
        inside++; /* not a step of the model */
    }
}

static const struct model_test tests[] = {
    {.name = "two writers",
     .setup = start,
     .threads = {write_once, write_once},
     .names = {"first", "second"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "writer races reader",
     .setup = start_one_writer,
     .threads = {write_once, read_once},
     .names = {"writes", "reads"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "writer races try_read",
     .setup = start_one_writer,
     .threads = {write_once, try_to_read},
     .names = {"writes", "tries"},
     .check = check},
    {.name = "writer thread races reader",
     .setup = start_thread,
     .threads = {write_once, read_once},
     .names = {"thread", "reads"},
     .bound = {4, 3, 2}, /* three preemptions, two under tso, one under view */
     .check = check},
    {.name = "last holder frees it",
     .setup = start_users,
     .threads = {write_and_free, write_and_free},
     .names = {"first", "second"},
     .bound = {0, 4, 4}, /* three preemptions */
     .check = check},
    {.name = "writer races two readers",
     .setup = start_one_writer,
     .threads = {write_once, read_once, read_once},
     .names = {"writes", "reads", "reads too"},
     .bound = {4, 2, 1}, /* three preemptions, one under tso, none under view */
     .check = check,
     .is_slow = 1},
    {.name = "cancel of a writer races a writer",
     .setup = start,
     .threads = {write_cancelled, write_once, cancel_first},
     .names = {"cancelled", "writes", "canceller"},
     .bound = {4, 3, 2}, /* three preemptions, two under tso, one under view */
     .check = check},
    {.name = "cancel of a reader races a writer",
     .setup = start_one_writer,
     .threads = {read_cancelled, write_once, cancel_first},
     .names = {"cancelled", "writes", "canceller"},
     .bound = {4, 3, 2}, /* three preemptions, two under tso, one under view */
     .check = check},
    {.name = "cancelled waiting writer admits a reader",
     .setup = start_read,
     .threads = {write_without_success, read_once, cancel_first},
     .names = {"writer", "reads", "canceller"},
     .bound = {4, 3, 2}, /* three preemptions, two under tso, one under view */
     .check = check},
    {.name = "abandoned waiting writer admits a reader",
     .setup = start_behind_a_writer,
     .threads = {read_once, abandon_node},
     .names = {"reads", "closer"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "abandoned writer, one reader leaves, one comes",
     .setup = start_behind_a_writer,
     .threads = {stop_reading, read_and_stay, abandon_node},
     .names = {"stops", "begins", "leaves"},
     .bound = {0, 4, 3}, /* three preemptions under tso, two under view */
     .check = check},
    {.name = "abandoned granted writer passes the lock on",
     .setup = start_written_with_a_writer_left,
     .threads = {write_once, stop_writing, abandon_node},
     .names = {"writes", "unlocks", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "abandoned granted reader passes the lock on",
     .setup = start_written_with_a_reader_left,
     .threads = {write_once, stop_writing, abandon_node},
     .names = {"writes", "unlocks", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"rwlock", tests, MODEL_COUNT(tests),
                                             NULL,     0,     "src/sync/rwlock.c"};
    return model_main(argc, argv, &suite);
}
