/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a task that is put into a worker's slot is taken out exactly once, by its owner or by a
 *         thief, or is handed back by the put that displaces it, and whoever has it has it whole,
 * in every order of steps under every memory model. Method: the slot of src/sched/fast.h between an
 * owner and thieves.  A task is plain data, which whoever gets it touches: two who have it race,
 * and so does one who has half of it. Shows S4.2, S4.15 in small.
 */
#include "model/model.h"
#include "sched/fast.h"

enum { TASKS = 3 };

static struct wf_worker worker;
static struct weft_task tasks[TASKS];
static int filled[TASKS]; /* plain: behind task i; 1 when it was spawned, 2 when it was taken */

void wf_steal_need_watcher(struct wf_worker *of)
{
    (void)of;
    model_fail("a worker that has rested");
}

static void start(void)
{
    worker = (struct wf_worker){0};
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct weft_task){0};
        filled[i] = 0;
    }
}

/* [whoever has it] */
static void run(struct weft_task *task)
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
    run(wf_slot_put(&worker, &tasks[i])); /* the one that was there has left the slot */
}

static void check(void)
{
    run(wf_slot_take(&worker));
    MODEL_REQUIRE(wf_slot_take(&worker) == NULL);
    for (int i = 0; i < TASKS; i++) {
        MODEL_REQUIRE(filled[i] != 1);
    }
    MODEL_REQUIRE(filled[0] == 2);
}

static void steal(void)
{
    run(wf_slot_take(&worker));
}

static void steal_twice(void)
{
    steal();
    steal();
}

static void put_and_take(void)
{
    put(0);
    run(wf_slot_take(&worker));
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
    run(wf_slot_take(&worker));
    put(1);
    put(2);
}

/* What a thief took comes back to the owner, who fills it anew and puts it in again. */
static WF_ATOMIC(int) is_back;

static void start_reuse(void)
{
    start();
    wf_store_relaxed(&is_back, 0);
}

static void steal_and_give_back(void)
{
    struct weft_task *task = wf_slot_take(&worker);
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
    {.name = "put and take, a thief",
     .setup = start,
     .threads = {put_and_take, steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "put twice, a thief",
     .setup = start,
     .threads = {put_two, steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "put, take, put, put, a thief twice",
     .setup = start,
     .threads = {put_take_put_put, steal_twice},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "put twice, two thieves",
     .setup = start,
     .threads = {put_two, steal, steal},
     .names = {"owner", "thief 1", "thief 2"},
     .check = check},
    {.name = "what a thief took is put in again",
     .setup = start_reuse,
     .threads = {put_again, steal_and_give_back, steal},
     .names = {"owner", "thief 1", "thief 2"},
     .check = check},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"slot", tests, MODEL_COUNT(tests),
                                             NULL,   0,     "src/sched/fast.h"};
    return model_main(argc, argv, &suite);
}
