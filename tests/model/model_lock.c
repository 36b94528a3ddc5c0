/* SPDX-License-Identifier: MIT */
/*
 * Goal:   src/os/lock.c excludes, orders the data that it protects, and never leaves a thread
 *         asleep beside an open lock, in every order of steps under every memory model.
 * Method: threads take the lock around plain data: a missing edge is a race, two holders are a race
 *         too, and a lost wake-up is a deadlock.
 */
#include "model/model.h"
#include "os/os.h"

static struct wf_lock lock;
static int protected;
static int tried;

static void start(void)
{
    wf_lock_init(&lock, WF_RANK_INJECT);
    protected = 0;
    tried = 0;
}

static void add_one(void)
{
    wf_lock_acquire(&lock);
    wf_plain_store(&protected, wf_plain_load(&protected) + 1);
    wf_lock_release(&lock);
}

static void add_twice(void)
{
    add_one();
    add_one();
}

static void try_one(void)
{
    if (wf_lock_try(&lock)) {
        wf_plain_store(&protected, wf_plain_load(&protected) + 1);
        tried++;
        wf_lock_release(&lock);
    }
}

static void check_two(void)
{
    MODEL_REQUIRE(protected == 2);
    MODEL_REQUIRE(wf_load_relaxed(&lock.word) == 0);
}

static void check_three(void)
{
    MODEL_REQUIRE(protected == 3);
    MODEL_REQUIRE(wf_load_relaxed(&lock.word) == 0);
}

static void check_tried(void)
{
    MODEL_REQUIRE(protected == 1 + tried);
    MODEL_REQUIRE(wf_load_relaxed(&lock.word) == 0);
}

static const struct model_test tests[] = {
    {.name = "two threads", .setup = start, .threads = {add_one, add_one}, .check = check_two},
    {.name = "two threads, one twice",
     .setup = start,
     .threads = {add_twice, add_one},
     .check = check_three},
    {.name = "three threads",
     .setup = start,
     .threads = {add_one, add_one, add_one},
     .check = check_three},
    {.name = "spurious wake-ups",
     .setup = start,
     .threads = {add_one, add_one},
     .check = check_two,
     .spurious_wakes = 2},
    {.name = "acquire against try",
     .setup = start,
     .threads = {add_one, try_one},
     .check = check_tried},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"lock", tests, MODEL_COUNT(tests), NULL, 0, NULL};
    return model_main(argc, argv, &suite);
}
