/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a task that is put into a worker's LIFO slot is taken out exactly once, by its owner or
 *         by a thief, or is returned by the put that displaces it, and the taker sees the complete
 *         task, in every order of steps under every memory model.
 * Method: the slot of src/queue/runq.h between an owner and thieves.  A task is plain data, which
 *         its taker touches: two takers, or a partial view, are a race.
 *         Shows S4.2, S4.15 in small.
 */
#include "model/model.h"
#include "queue/runq.h"

enum { TASKS = 3 };

static struct wf_runq runq;
static struct wf_node tasks[TASKS];
static int filled[TASKS]; /* plain: data of task i; 1 when it was spawned, 2 when it was taken */

static void start(void)
{
    runq = (struct wf_runq){.mode = WF_RUNQ_FAIR};
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct wf_node){0};
        filled[i] = 0;
    }
}

/* [the thread that has the task] */
static void run(struct wf_node *task)
{
    if (task != NULL) {
        const long i = task - tasks;
        MODEL_REQUIRE(wf_plain_load(&filled[i]) == 1);
        wf_plain_store(&filled[i], 2);
    }
}

static void put(int i)
{
    wf_plain_store(&filled[i], 1);
    run(wf_lifo_put(&runq, &tasks[i])); /* the displaced task has left the slot */
}

static void check(void)
{
    run(wf_lifo_take(&runq));
    MODEL_REQUIRE(wf_lifo_take(&runq) == NULL);
    for (int i = 0; i < TASKS; i++) {
        MODEL_REQUIRE(filled[i] != 1);
    }
    MODEL_REQUIRE(filled[0] == 2);
}

static void steal(void)
{
    run(wf_lifo_take(&runq));
}

static void steal_twice(void)
{
    steal();
    steal();
}

static void put_and_take(void)
{
    put(0);
    run(wf_lifo_take(&runq));
}

/* The second put finds the slot full, or emptied by a thief. */
static void put_two(void)
{
    put(0);
    put(1);
}

/* A thief that has seen the first task may find any of the others when it takes. */
static void put_take_put_put(void)
{
    put(0);
    run(wf_lifo_take(&runq));
    put(1);
    put(2);
}

/* A stolen task comes back to the owner, which fills it again and puts it into the slot again. */
static WF_ATOMIC(int) is_back;

static void start_reuse(void)
{
    start();
    wf_store_relaxed(&is_back, 0);
}

static void steal_and_give_back(void)
{
    struct wf_node *task = wf_lifo_take(&runq);
    run(task);
    wf_store_release(&is_back, task != NULL ? 1 : 0);
}

static void put_again(void)
{
    put(0);
    if (wf_load_acquire(&is_back) != 0) {
        put(0);
    }
}

static const struct model_test tests[] = {
    {.name = "put and take, one thief",
     .setup = start,
     .threads = {put_and_take, steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "put twice, one thief",
     .setup = start,
     .threads = {put_two, steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "put, take, put, put; two steals of one thief",
     .setup = start,
     .threads = {put_take_put_put, steal_twice},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "put twice, two thieves",
     .setup = start,
     .threads = {put_two, steal, steal},
     .names = {"owner", "thief 1", "thief 2"},
     .check = check},
    {.name = "stolen task is put into the slot again",
     .setup = start_reuse,
     .threads = {put_again, steal_and_give_back, steal},
     .names = {"owner", "thief 1", "thief 2"},
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"lifo", tests, MODEL_COUNT(tests),
                                             NULL,   0,     "src/queue/runq.h"};
    return model_main(argc, argv, &suite);
}
