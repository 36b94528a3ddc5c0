/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the only worker uses its slot without locked instructions until it is told that others
 *         come; then no task is taken twice or lost, and none is queued that nobody is called for,
 *         in every order of steps under every memory model.
 * Method: wf_alone_begin, wf_alone_revoke and the slot of src/sched/fast.h between the owner and a
 *         thief that asks first.  The barrier in all threads is a fence at both ends here: what is
 *         proved is that one at each place is enough.
 */
#include "model/model.h"
#include "sched/fast.h"

enum { TASKS = 2 };

static struct wf_worker worker;
static struct weft_task tasks[TASKS];
static int filled[TASKS]; /* plain: behind task i; 1 when it was spawned, 2 when it was taken */
static wf_atomic_u32 queued;
static int touched; /* plain: what belongs to whoever has the queues */
static struct wf_parker spare;

void wf_steal_need_watcher(struct wf_worker *of)
{
    (void)of;
    model_fail("a worker that has rested");
}

void wf_barrier_everywhere(void)
{
    wf_fence_seq_cst();
}

static void start(void)
{
    worker = (struct wf_worker){.is_lone = true};
    wf_store_relaxed(&worker.is_alone, 1);
    wf_store_relaxed(&queued, 0);
    touched = 0;
    wf_parker_init(&spare);
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

/* As wf_take_fair does. */
static void take(void)
{
    const bool is_alone = wf_alone_begin(&worker);
    struct weft_task *task = is_alone ? wf_slot_take_alone(&worker) : wf_slot_take(&worker);
    if (is_alone) {
        wf_alone_end(&worker);
    }
    run(task);
}

static void check(void)
{
    run(wf_slot_take(&worker));
    for (int i = 0; i < TASKS; i++) {
        MODEL_REQUIRE(filled[i] != 1);
    }
    MODEL_REQUIRE(filled[0] == 2);
}

static void put_and_take(void)
{
    put(0);
    take();
}

static void put_two(void)
{
    put(0);
    put(1);
}

static void come_and_steal(void)
{
    if (wf_alone_revoke(&worker)) {
        run(wf_slot_take(&worker));
    }
}

/* What the owner alone does without any order of its own. */
static void touch_alone(void)
{
    if (wf_alone_begin(&worker)) {
        wf_plain_store(&touched, wf_plain_load(&touched) + 1);
        wf_alone_end(&worker);
    }
}

static void come_and_touch(void)
{
    if (wf_alone_revoke(&worker)) {
        wf_plain_store(&touched, wf_plain_load(&touched) + 1);
    }
}

/* What goes into the ring: who sees itself alone calls nobody. */
static void push(void)
{
    wf_store_relaxed(&queued, 1);
    if (!wf_is_alone(&worker)) {
        (void)wf_parker_unpark(&spare);
    }
}

static void come_and_sleep(void)
{
    (void)wf_alone_revoke(&worker);
    if (wf_load_relaxed(&queued) == 0) {
        (void)wf_parker_park(&spare, WF_FOREVER);
    }
    MODEL_REQUIRE(wf_load_relaxed(&queued) == 1);
}

static const struct model_test tests[] = {
    {.name = "put and take, another comes",
     .setup = start,
     .threads = {put_and_take, come_and_steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "put twice, another comes",
     .setup = start,
     .threads = {put_two, come_and_steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "what is done alone, another comes",
     .setup = start,
     .threads = {touch_alone, come_and_touch},
     .names = {"owner", "thief"}},
    {.name = "push, another comes and sleeps",
     .setup = start,
     .threads = {push, come_and_sleep},
     .names = {"owner", "spare"}},
};

static const struct model_equivalent equivalents[] = {
    {"wf_slot_put: wf_store_release(&worker->slot) -> relaxed",
     "the light fence is a whole one here, and does it; model_slot shows that it is needed"},
    {"wf_slot_put: wf_exchange_release(&worker->slot) -> relaxed", "the same"},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {
        "alone",           tests, MODEL_COUNT(tests), equivalents, MODEL_COUNT(equivalents),
        "src/sched/fast.h"};
    return model_main(argc, argv, &suite);
}
