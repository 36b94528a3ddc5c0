/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sync/rwlock.c one writes or many read, each sees what was written before, and
 *         nobody is kept waiting by one who is cancelled or never runs again, in every order of
 *         steps under every memory model.
 * Method: what the lock protects is plain, so that a reader beside a writer is a race.  A lost
 *         wake-up is a deadlock.  The lock comes from the checker's heap and is freed by the last
 *         who unlocks it: a later touch is a use after free.
 */
#include "model/sync_aids.h"

static weft_rwlock *rwlock;
static unsigned sum;         /* plain: under the lock */
static unsigned users;       /* plain: of those who write; the last frees it */
static unsigned written;     /* by how many, at the end */
static unsigned inside;      /* readers that are inside at the end */
static unsigned reading_now; /* no step of the model */
static struct wf_wait_node *left_node;

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
    left_node = NULL;
}

static void start_one_writer(void)
{
    start();
    written = 1;
}

static void start_foreign(void)
{
    start_one_writer();
    is_foreign[0] = true;
}

static void start_users(void)
{
    start();
    users = 2;
}

/* Somebody reads, from before the beginning to after the end. */
static void start_read(void)
{
    start();
    MODEL_REQUIRE(weft_rwlock_try_read(rwlock) == 0);
    written = 0;
    inside = 1;
}

/* Thread 3, which does not exist, waits. */
static void leave_one(bool is_writer)
{
    left_node = wf_alloc_zeroed(1, sizeof(*left_node));
    wf_node_init(left_node, &selves[3]);
    MODEL_REQUIRE(wf_rwlock_begin(inner(), left_node, is_writer, (uintptr_t)&selves[3]) ==
                  -EINPROGRESS);
}

static void start_behind_a_writer(void)
{
    start_read();
    leave_one(true);
}

/* Thread 1 writes. */
static void be_written(void)
{
    start();
    wf_store_relaxed(&inner()->word, (uintptr_t)&selves[1] | 2);
    selves[1].held = &inner()->held;
}

static void start_written_with_a_writer_left(void)
{
    be_written();
    leave_one(true);
}

static void start_written_with_a_reader_left(void)
{
    be_written();
    leave_one(false);
}

static void check(void)
{
    MODEL_REQUIRE(sum == written);
    if (rwlock != NULL) {
        for (; inside > 0; inside--) {
            MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
        }
        MODEL_REQUIRE(inner()->queue.first == NULL);
        MODEL_REQUIRE(weft_rwlock_try_write(rwlock) == 0);
        MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
    }
    for (unsigned i = 0; i < MODEL_THREADS_MAX; i++) {
        MODEL_REQUIRE(selves[i].held == NULL);
    }
    wf_free(rwlock);
    wf_free(left_node);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void add_one(void)
{
    MODEL_REQUIRE(reading_now == 0);
    wf_plain_store(&sum, wf_plain_load(&sum) + 1);
}

static void write_once(void)
{
    MODEL_REQUIRE(weft_rwlock_write(rwlock) == 0);
    add_one();
    MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
}

static void read_once(void)
{
    MODEL_REQUIRE(weft_rwlock_read(rwlock) == 0);
    reading_now++;
    MODEL_REQUIRE(wf_plain_load(&sum) <= written);
    reading_now--;
    MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
}

static void try_to_read(void)
{
    if (weft_rwlock_try_read(rwlock) == 0) {
        MODEL_REQUIRE(wf_plain_load(&sum) <= written);
        MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
    }
}

/* Somebody reads for ever. */
static void write_in_vain(void)
{
    MODEL_REQUIRE(weft_rwlock_write(rwlock) == -ECANCELED);
}

static void write_cancelled(void)
{
    const int rc = weft_rwlock_write(rwlock);
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        add_one();
        MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
    } else {
        written--; /* no step of the model: read after all */
    }
}

static void read_cancelled(void)
{
    const int rc = weft_rwlock_read(rwlock);
    MODEL_REQUIRE(rc == 0 || rc == -ECANCELED);
    if (rc == 0) {
        MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
    }
}

static void write_and_free(void)
{
    weft_rwlock *mine = rwlock;
    MODEL_REQUIRE(weft_rwlock_write(mine) == 0);
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

static void abandon_left(void)
{
    left_node->parting.forget(&left_node->parting);
    struct wf_wait_node *node = left_node;
    left_node = NULL;
    wf_free(node);
}

static void stop_reading(void)
{
    inside--; /* no step of the model */
    MODEL_REQUIRE(weft_rwlock_unlock(rwlock) == 0);
}

static void read_and_stay(void)
{
    if (weft_rwlock_try_read(rwlock) == 0) {
        inside++; /* no step of the model */
    }
}

static const struct model_test tests[] = {
    {.name = "two write",
     .setup = start,
     .threads = {write_once, write_once},
     .names = {"first", "second"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "one writes, one reads",
     .setup = start_one_writer,
     .threads = {write_once, read_once},
     .names = {"writes", "reads"},
     .bound = {0, 0, 4}, /* as above */
     .check = check},
    {.name = "one writes, one tries to read",
     .setup = start_one_writer,
     .threads = {write_once, try_to_read},
     .names = {"writes", "tries"},
     .check = check},
    {.name = "a foreign thread writes",
     .setup = start_foreign,
     .threads = {write_once, read_once},
     .names = {"thread", "reads"},
     .bound = {4, 3, 2}, /* three preemptions, two under tso, one under view */
     .check = check},
    {.name = "the last frees it",
     .setup = start_users,
     .threads = {write_and_free, write_and_free},
     .names = {"first", "second"},
     .bound = {0, 4, 4}, /* three preemptions */
     .check = check},
    {.name = "one writes, two read",
     .setup = start_one_writer,
     .threads = {write_once, read_once, read_once},
     .names = {"writes", "reads", "reads too"},
     .bound = {4, 2, 1}, /* three preemptions, one under tso, none under view */
     .check = check,
     .is_slow = 1},
    {.name = "a writer is cancelled",
     .setup = start,
     .threads = {write_cancelled, write_once, cancel_first},
     .names = {"cancelled", "writes", "canceller"},
     .bound = {4, 3, 2}, /* three preemptions, two under tso, one under view */
     .check = check},
    {.name = "a reader is cancelled",
     .setup = start_one_writer,
     .threads = {read_cancelled, write_once, cancel_first},
     .names = {"cancelled", "writes", "canceller"},
     .bound = {4, 3, 2}, /* as above */
     .check = check},
    {.name = "a writer in the way is cancelled",
     .setup = start_read,
     .threads = {write_in_vain, read_once, cancel_first},
     .names = {"writer", "reads", "canceller"},
     .bound = {4, 3, 2}, /* three preemptions, two under tso, one under view */
     .check = check},
    {.name = "a writer in the way never runs again",
     .setup = start_behind_a_writer,
     .threads = {read_once, abandon_left},
     .names = {"reads", "closer"},
     .bound = {0, 0, 4}, /* three preemptions under view */
     .check = check},
    {.name = "one stops to read, one begins, a writer leaves",
     .setup = start_behind_a_writer,
     .threads = {stop_reading, read_and_stay, abandon_left},
     .names = {"stops", "begins", "leaves"},
     .bound = {0, 4, 3}, /* three preemptions under tso, two under view */
     .check = check},
    {.name = "let in, a writer never runs again",
     .setup = start_written_with_a_writer_left,
     .threads = {write_once, stop_writing, abandon_left},
     .names = {"writes", "unlocks", "closer"},
     .bound = {3, 2, 2}, /* two preemptions, else one */
     .check = check},
    {.name = "let in, a reader never runs again",
     .setup = start_written_with_a_reader_left,
     .threads = {write_once, stop_writing, abandon_left},
     .names = {"writes", "unlocks", "closer"},
     .bound = {3, 2, 2}, /* as above */
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"rwlock", tests, MODEL_COUNT(tests),
                                             NULL,     0,     "src/sync/rwlock.c"};
    return model_main(argc, argv, &suite);
}
