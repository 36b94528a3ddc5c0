/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a worker uses its slot and its ring without locked instructions until somebody comes, and
 *         again when nobody has come for a while: no task is taken twice or lost, and none lies in
 *         a ring while everybody sleeps, in every order of steps under every memory model.
 * Method: src/sched/alone.c with the slot of src/sched/fast.h and the real ring, between the owner
 *         and visitors who take what they may; and with the real src/sched/idle.c, where a thief
 *         sleeps for ever and the owner, who goes on to compute, calls it for the first item in its
 *         ring only.
 */
#include "model/ledger.h"
#include "sched/fast.h"

enum { TASKS = 3 };

static weft_runtime runtime;
static struct wf_worker *worker; /* the owner */
static struct wf_worker workers[3];
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

static void start_as(enum wf_company company)
{
    runtime = (struct weft_runtime){.workers = workers};
    runtime.monitor.has_barrier = true;
    wf_lock_init(&runtime.monitor.lock, WF_RANK_MONITOR);
    wf_store_relaxed(&runtime.in_play, 1);
    worker = &workers[0];
    for (uint32_t i = 0; i < MODEL_COUNT(workers); i++) {
        workers[i] = (struct wf_worker){.runtime = &runtime, .index = i, .is_fast = true};
        wf_ring_init(&workers[i].ring);
        wf_parker_init(&workers[i].parker);
    }
    wf_store_relaxed(&worker->company, company);
    wf_store_relaxed(&queued, 0);
    touched = 0;
    wf_parker_init(&spare);
    ledger_clear();
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct weft_task){0};
        filled[i] = 0;
    }
}

static void start(void)
{
    start_as(WF_ALONE);
}

static void start_shared(void)
{
    start_as(WF_SHARED);
    worker->visited_ns = -WF_ALONE_AFTER_NS; /* long ago */
}

static void start_lone(void)
{
    start();
    worker->is_lone = true;
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
    run(wf_slot_put(worker, &tasks[i])); /* the one that was there has left the slot */
}

/* As wf_take_fair does. */
static void take(void)
{
    const bool is_alone = wf_alone_begin(worker);
    struct weft_task *task = is_alone ? wf_slot_take_alone(worker) : wf_slot_take(worker);
    if (is_alone) {
        wf_alone_end(worker);
    }
    run(task);
}

static void check(void)
{
    run(wf_slot_take(worker));
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

static void put_and_be_alone(void)
{
    put(0);
    wf_alone_again(worker, 0);
    put(1);
}

static void come_and_steal(void)
{
    if (wf_visit_begin(worker)) {
        run(wf_slot_take(worker));
        wf_visit_end(worker);
    }
}

/* ---- what only one at a time may touch ------------------------------------------------------- */

static void touch(void)
{
    wf_plain_store(&touched, wf_plain_load(&touched) + 1);
}

static void touch_alone(void)
{
    if (wf_alone_begin(worker)) {
        touch();
        wf_alone_end(worker);
    }
}

static void be_alone_and_touch(void)
{
    wf_alone_again(worker, 0);
    touch_alone();
}

static void touch_and_be_alone_and_touch(void)
{
    touch_alone();
    worker->visits_seen = wf_load_relaxed(&worker->visits); /* as if it had looked long ago */
    worker->visited_ns = -WF_ALONE_AFTER_NS;
    wf_alone_again(worker, 0);
    touch_alone();
}

static void come_and_touch(void)
{
    if (wf_visit_begin(worker)) {
        touch();
        wf_visit_end(worker);
    }
}

/* One of several: they have an order among themselves, but not with the owner. */
static void come_and_look(void)
{
    if (wf_visit_begin(worker)) {
        (void)wf_plain_load(&touched);
        wf_visit_end(worker);
    }
}

/* ---- the ring -------------------------------------------------------------------------------- */

static void overflow(void *context, struct wf_chain *batch)
{
    (void)context;
    (void)batch;
    model_fail("more than a ring holds");
}

/* As wf_steal_push does. */
static void push(int number)
{
    struct wf_node *node = ledger_make(number);
    if (wf_alone_begin(worker)) {
        const bool is_done = wf_ring_push_behind(&worker->ring, node);
        wf_alone_end(worker);
        if (is_done) {
            return;
        }
    }
    wf_ring_push(&worker->ring, node, overflow, NULL);
    const int sleeper = wf_idle_notify(&runtime.idle);
    if (sleeper >= 0) {
        (void)wf_parker_unpark(&workers[sleeper].parker);
    }
}

/* As wf_take_fair does. */
static void pop(void)
{
    const bool is_alone = wf_alone_begin(worker);
    struct wf_node *node = is_alone ? wf_ring_pop_alone(&worker->ring) : wf_ring_pop(&worker->ring);
    if (is_alone) {
        wf_alone_end(worker);
    }
    (void)ledger_take(node);
}

/* As steal_oldest does. */
static bool steal(struct wf_worker *thief)
{
    if (wf_ring_count(&worker->ring) == 0 || !wf_visit_begin(worker)) {
        return false;
    }
    struct wf_node *node = wf_ring_steal(&worker->ring, &thief->ring);
    wf_visit_end(worker);
    for (struct wf_node *kept = node; kept != NULL; kept = wf_ring_pop(&thief->ring)) {
        (void)ledger_take(kept);
    }
    return node != NULL;
}

static void steal_once(void)
{
    (void)steal(&workers[1]);
}

static void steal_once_too(void)
{
    (void)steal(&workers[2]);
}

static void push_one_and_pop(void)
{
    push(0);
    pop();
}

static void check_one(void)
{
    ledger_all_taken(1);
}

static void push_and_pop(void)
{
    push(0);
    push(1);
    pop();
    pop();
}

static void push_and_be_alone_and_pop(void)
{
    push(0);
    push(1);
    worker->visits_seen = wf_load_relaxed(&worker->visits); /* as if it had looked long ago */
    worker->visited_ns = -WF_ALONE_AFTER_NS;
    wf_alone_again(worker, 0);
    pop();
    pop();
}

static void check_ring(void)
{
    ledger_all_taken(2);
    MODEL_REQUIRE(wf_ring_count(&worker->ring) == 0);
}

/* ---- who sleeps ------------------------------------------------------------------------------ */

static bool has_work(void *context)
{
    (void)context;
    return wf_ring_count(&worker->ring) > 0;
}

static void start_thief(void)
{
    start();
    MODEL_REQUIRE(wf_idle_init(&runtime.idle, 2) == 0);
}

/* [thief]  Takes what there is, and sleeps when there is nothing, for ever. */
static void steal_and_sleep(void)
{
    struct wf_worker *thief = &workers[1];
    const struct wf_sleep sleep = {.parker = &thief->parker,
                                   .has_work = has_work,
                                   .deadline_ns = WF_FOREVER,
                                   .is_searching = false};
    struct wf_sleep searching = sleep;
    searching.is_searching = true;
    bool is_searching = false;
    for (;;) {
        if (steal(thief)) {
            continue; /* it would call others, who are not there */
        }
        if (has_work(NULL)) {
            wf_spin_hint(); /* was turned away */
            continue;
        }
        is_searching =
            wf_idle_sleep(&runtime.idle, thief->index, is_searching ? &searching : &sleep);
    }
}

/* Goes on to compute, and leaves what is there to others. */
static void push_two_and_compute(void)
{
    push(0);
    push(1);
}

/* With one item of which everybody knows. */
static void start_with_item(void)
{
    start_thief();
    wf_ring_push(&worker->ring, ledger_make(0), overflow, NULL);
}

static void push_and_pop_behind(void)
{
    push(1);
    pop();
    push(2);
}

/* [thief]  Nobody will call it: it has to see that there is something. */
static void look_and_stay(void)
{
    struct wf_worker *thief = &workers[1];
    const struct wf_sleep sleep = {
        .parker = &thief->parker, .has_work = has_work, .deadline_ns = WF_FOREVER};
    MODEL_REQUIRE(!wf_idle_sleep(&runtime.idle, thief->index, &sleep));
}

static void check_all_stolen(void)
{
    MODEL_REQUIRE(wf_ring_count(&worker->ring) == 0); /* nothing waits beside a sleeper */
    MODEL_REQUIRE(wf_idle_searching(&runtime.idle) == 0);
}

/* ---- the only worker ------------------------------------------------------------------------- */

/* Who sees itself alone calls nobody. */
static void push_lone(void)
{
    wf_store_relaxed(&queued, 1);
    if (!wf_is_alone(worker)) {
        (void)wf_parker_unpark(&spare);
    }
}

static void come_and_sleep(void)
{
    if (wf_visit_begin(worker)) {
        wf_visit_end(worker);
    }
    if (wf_load_relaxed(&queued) == 0) {
        (void)wf_parker_park(&spare, WF_FOREVER);
    }
    MODEL_REQUIRE(wf_load_relaxed(&queued) == 1);
}

/* As set_blocked does. */
static void put_and_block(void)
{
    put(0);
    wf_lock_acquire(&runtime.monitor.lock);
    wf_alone_give_up(worker);
    wf_lock_release(&runtime.monitor.lock);
}

/* ---- who stays for one thing and takes another ------------------------------------------------
 */

static void start_three(void)
{
    start();
    MODEL_REQUIRE(wf_idle_init(&runtime.idle, 3) == 0);
    wf_store_relaxed(&runtime.idle.asleep[0], 1u << 2); /* the third worker sleeps */
    wf_store_relaxed(&runtime.idle.searching, 1);       /* the second searches */
}

static void push_here_and_elsewhere(void)
{
    push(0);
    wf_store_release(&queued, 1); /* to the global queue */
    const int sleeper = wf_idle_notify(&runtime.idle);
    MODEL_REQUIRE(sleeper == -1 || sleeper > 0);
    push(1); /* behind: calls nobody */
}

static bool has_any(void *context)
{
    return has_work(context) || wf_load_relaxed(&queued) != 0;
}

/* [second]  As rest, poll and found do: the global queue comes before the rings of others. */
static void stay_and_take_elsewhere(void)
{
    const struct wf_sleep sleep = {.parker = &workers[1].parker,
                                   .has_work = has_any,
                                   .deadline_ns = WF_FOREVER,
                                   .is_searching = true};
    if (wf_idle_sleep(&runtime.idle, 1, &sleep)) {
        return; /* called: it looks when it stops to search */
    }
    wf_fence_seq_cst(); /* (S1) */
    if (has_any(NULL)) {
        (void)wf_idle_notify(&runtime.idle);
    }
}

static void check_third_is_called(void)
{
    const bool is_asleep = (wf_load_relaxed(&runtime.idle.asleep[0]) & (1u << 2)) != 0;
    MODEL_REQUIRE(!is_asleep || wf_ring_count(&worker->ring) == 0 ||
                  wf_idle_searching(&runtime.idle) > 0);
}

static const struct model_test tests[] = {
    {.name = "put and take, another comes",
     .has_barrier = 1,
     .setup = start,
     .threads = {put_and_take, come_and_steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "put twice, another comes",
     .has_barrier = 1,
     .setup = start,
     .threads = {put_two, come_and_steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "put, be alone, put, another comes",
     .has_barrier = 1,
     .setup = start_shared,
     .threads = {put_and_be_alone, come_and_steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "what is done alone, another comes",
     .has_barrier = 1,
     .setup = start,
     .threads = {touch_alone, come_and_touch},
     .names = {"owner", "thief"}},
    {.name = "what is done alone, two others come",
     .has_barrier = 1,
     .setup = start,
     .threads = {touch_alone, come_and_look, come_and_look},
     .names = {"owner", "thief", "another"}},
    {.name = "being alone again, another comes",
     .has_barrier = 1,
     .setup = start_shared,
     .threads = {be_alone_and_touch, come_and_touch},
     .names = {"owner", "thief"}},
    {.name = "being alone, visited, alone again",
     .has_barrier = 1,
     .setup = start,
     .threads = {touch_and_be_alone_and_touch, come_and_touch},
     .names = {"owner", "thief"}},
    {.name = "push and pop, another comes",
     .has_barrier = 1,
     .setup = start,
     .threads = {push_and_pop, steal_once},
     .names = {"owner", "thief"},
     .check = check_ring},
    {.name = "push, be alone, pop, another comes",
     .has_barrier = 1,
     .setup = start,
     .threads = {push_and_be_alone_and_pop, steal_once},
     .names = {"owner", "thief"},
     .check = check_ring,
     .bound = {0, 0, 3}, /* two preemptions under view */
     .is_slow = 1},
    {.name = "push and pop, two others come",
     .has_barrier = 1,
     .setup = start,
     .threads = {push_one_and_pop, steal_once, steal_once_too},
     .names = {"owner", "thief", "another"},
     .check = check_one,
     .bound = {3, 1, 3}, /* two preemptions, none under tso */
     .is_slow = 1},
    /* Without has_barrier: a plain search under tso takes hours.  What the reduction leaves out
     * there is in view. */
    {.name = "two pushes, the second without a call, a thief that sleeps",
     .setup = start_thief,
     .threads = {push_two_and_compute, steal_and_sleep},
     .names = {"owner", "thief"},
     .check = check_all_stolen,
     .may_rest = 1,
     .bound = {4, 0, 3}, /* three preemptions, two under view */
     .is_slow = 1},
    {.name = "a ring that is never empty, a thief that would sleep",
     .has_barrier = 1,
     .setup = start_with_item,
     .threads = {push_and_pop_behind, look_and_stay},
     .names = {"owner", "thief"}},
    {.name = "blocks, the monitor comes late",
     .has_barrier = 1,
     .setup = start_lone,
     .threads = {put_and_block, come_and_steal},
     .names = {"owner", "monitor"},
     .check = check},
    {.name = "stays for what is here, takes what is elsewhere",
     .has_barrier = 1,
     .setup = start_three,
     .threads = {push_here_and_elsewhere, stay_and_take_elsewhere},
     .names = {"owner", "second"},
     .check = check_third_is_called,
     .may_rest = 1},
    {.name = "the only worker pushes, a spare comes and sleeps",
     .has_barrier = 1,
     .setup = start_lone,
     .threads = {push_lone, come_and_sleep},
     .names = {"owner", "spare"}},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {
        "alone", tests, MODEL_COUNT(tests), NULL, 0, "src/sched/alone src/sched/fast.h",
    };
    return model_main(argc, argv, &suite);
}
