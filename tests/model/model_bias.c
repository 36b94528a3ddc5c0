/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a worker uses its LIFO slot and its ring without locked instructions until a thief
 *         revokes the bias, and again when no thief has come for a while: no task is taken twice or
 *         lost, and no task stays in a ring while all workers sleep, in every order of steps under
 *         every memory model.
 * Method: src/queue/bias.c with the slot of src/queue/runq.h and the real ring, between the owner
 *         and thieves; and with the real src/sched/idle.c, where a thief parks without a deadline
 *         and the owner, which computes afterwards, wakes it only for the first item in its ring.
 */
#include "model/ledger.h"
#include "queue/runq.h"
#include "sched/idle.h"
#include "sched/sched.h"

enum { TASKS = 3, WORKERS = 3 };

static struct wf_bias_domain domain;
static struct wf_inject global;
static struct wf_idle idle;
static struct wf_lock monitor_lock;
static struct wf_runq queues[WORKERS];
static struct wf_runq *const runq = &queues[0]; /* the owner's */
static struct wf_parker parkers[WORKERS];
static struct wf_node tasks[TASKS];
static int filled[TASKS]; /* plain: data of task i; 1 when it was spawned, 2 when it was taken */
static wf_atomic_u32 queued;
static int touched; /* plain: only the thread that may access the queues touches it */
static struct wf_parker spare;

static void start_as(enum wf_bias_state state)
{
    domain = (struct wf_bias_domain){.has_barrier = true};
    wf_lock_init(&monitor_lock, WF_RANK_MONITOR);
    MODEL_REQUIRE(wf_inject_init(&global, NULL) == 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        MODEL_REQUIRE(wf_runq_init(&queues[i], WF_RUNQ_FAIR, &global, &domain, i == 0) == 0);
        wf_parker_init(&parkers[i]);
    }
    wf_store_relaxed(&runq->bias.state, state);
    wf_store_relaxed(&queued, 0);
    touched = 0;
    wf_parker_init(&spare);
    ledger_clear();
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = (struct wf_node){0};
        filled[i] = 0;
    }
}

static void start(void)
{
    start_as(WF_BIASED);
}

static void start_unbiased(void)
{
    start_as(WF_UNBIASED);
    runq->bias.remote_ns = -WF_BIAS_AFTER_NS; /* long ago */
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
    run(wf_lifo_put(runq, &tasks[i])); /* the displaced task has left the slot */
}

/* As wf_runq_pop_fair does. */
static void take(void)
{
    const bool is_biased = wf_bias_enter(&runq->bias);
    struct wf_node *task = is_biased ? wf_lifo_take_biased(runq) : wf_lifo_take(runq);
    if (is_biased) {
        wf_bias_exit(&runq->bias);
    }
    run(task);
}

static void check(void)
{
    run(wf_lifo_take(runq));
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

/* As the owner does at a tick. */
static void regain(void)
{
    if (wf_bias_is_due(&runq->bias, 0)) {
        wf_runq_bias(runq);
    }
}

static void put_and_regain(void)
{
    put(0);
    regain();
    put(1);
}

static void revoke_and_steal(void)
{
    if (wf_bias_revoke(&runq->bias)) {
        run(wf_lifo_take(runq));
        wf_bias_release(&runq->bias);
    }
}

/* ---- exclusive access ------------------------------------------------------------------------ */

static void touch(void)
{
    wf_plain_store(&touched, wf_plain_load(&touched) + 1);
}

static void touch_biased(void)
{
    if (wf_bias_enter(&runq->bias)) {
        touch();
        wf_bias_exit(&runq->bias);
    }
}

static void regain_and_touch(void)
{
    regain();
    touch_biased();
}

static void touch_and_regain_and_touch(void)
{
    touch_biased();
    /* as if the owner had checked long ago */
    runq->bias.remote_seen = wf_load_relaxed(&runq->bias.remote);
    runq->bias.remote_ns = -WF_BIAS_AFTER_NS;
    regain();
    touch_biased();
}

static void revoke_and_touch(void)
{
    if (wf_bias_revoke(&runq->bias)) {
        touch();
        wf_bias_release(&runq->bias);
    }
}

/* One of several thieves: they are ordered among themselves, but not with the owner. */
static void revoke_and_read(void)
{
    if (wf_bias_revoke(&runq->bias)) {
        (void)wf_plain_load(&touched);
        wf_bias_release(&runq->bias);
    }
}

/* ---- the ring -------------------------------------------------------------------------------- */

static void overflow(void *context, struct wf_chain *batch)
{
    (void)context;
    (void)batch;
    model_fail("the ring overflows");
}

/* As wf_runq_push_displaced does. */
static void push(int number)
{
    struct wf_node *node = ledger_make(number);
    if (wf_runq_push_biased(runq, node)) {
        return;
    }
    wf_ring_push(&runq->ring, node, overflow, NULL);
    const int sleeper = wf_idle_notify(&idle);
    if (sleeper >= 0) {
        (void)wf_parker_unpark(&parkers[sleeper]);
    }
}

/* As wf_runq_pop_fair does. */
static void pop(void)
{
    const bool is_biased = wf_bias_enter(&runq->bias);
    struct wf_node *node = is_biased ? wf_ring_pop_biased(&runq->ring) : wf_ring_pop(&runq->ring);
    if (is_biased) {
        wf_bias_exit(&runq->bias);
    }
    (void)ledger_take(node);
}

/* As steal_oldest does. */
static bool steal(struct wf_runq *thief)
{
    if (wf_ring_count(&runq->ring) == 0 || !wf_bias_revoke(&runq->bias)) {
        return false;
    }
    struct wf_node *node = wf_ring_steal(&runq->ring, &thief->ring);
    wf_bias_release(&runq->bias);
    for (struct wf_node *kept = node; kept != NULL; kept = wf_ring_pop(&thief->ring)) {
        (void)ledger_take(kept);
    }
    return node != NULL;
}

static void steal_once(void)
{
    (void)steal(&queues[1]);
}

static void steal_once_too(void)
{
    (void)steal(&queues[2]);
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

static void push_and_regain_and_pop(void)
{
    push(0);
    push(1);
    /* as if the owner had checked long ago */
    runq->bias.remote_seen = wf_load_relaxed(&runq->bias.remote);
    runq->bias.remote_ns = -WF_BIAS_AFTER_NS;
    regain();
    pop();
    pop();
}

static void check_ring(void)
{
    ledger_all_taken(2);
    MODEL_REQUIRE(wf_ring_count(&runq->ring) == 0);
}

/* ---- a thief that parks ---------------------------------------------------------------------- */

static bool has_work(void *context)
{
    (void)context;
    return wf_ring_count(&runq->ring) > 0;
}

static void start_thief(void)
{
    start();
    MODEL_REQUIRE(wf_idle_init(&idle, 2) == 0);
}

/* [thief]  Takes what there is, and parks without a deadline when there is nothing. */
static void steal_and_sleep(void)
{
    const struct wf_sleep sleep = {.parker = &parkers[1],
                                   .has_work = has_work,
                                   .deadline_ns = WF_FOREVER,
                                   .is_searching = false};
    struct wf_sleep searching = sleep;
    searching.is_searching = true;
    bool is_searching = false;
    for (;;) {
        if (steal(&queues[1])) {
            continue; /* it would wake other workers, which do not exist here */
        }
        if (has_work(NULL)) {
            wf_spin_hint(); /* was refused */
            continue;
        }
        is_searching = wf_idle_sleep(&idle, 1, is_searching ? &searching : &sleep);
    }
}

/* The owner computes, and leaves its items to thieves. */
static void push_two_and_compute(void)
{
    push(0);
    push(1);
}

/* With one item that all workers know of. */
static void start_with_item(void)
{
    start_thief();
    wf_ring_push(&runq->ring, ledger_make(0), overflow, NULL);
}

static void push_and_pop_behind(void)
{
    push(1);
    pop();
    push(2);
}

/* [thief]  No worker will wake it: it must see that there is an item. */
static void search_and_stay(void)
{
    const struct wf_sleep sleep = {
        .parker = &parkers[1], .has_work = has_work, .deadline_ns = WF_FOREVER};
    MODEL_REQUIRE(!wf_idle_sleep(&idle, 1, &sleep));
}

static void check_all_stolen(void)
{
    MODEL_REQUIRE(wf_ring_count(&runq->ring) == 0); /* no item waits beside a sleeping worker */
    MODEL_REQUIRE(wf_idle_searching(&idle) == 0);
}

/* ---- the only worker ------------------------------------------------------------------------- */

/* A single worker wakes no other worker. */
static void push_single(void)
{
    wf_store_relaxed(&queued, 1);
    if (!wf_bias_is_set(&runq->bias)) {
        (void)wf_parker_unpark(&spare);
    }
}

static void start_and_park(void)
{
    if (wf_bias_revoke(&runq->bias)) {
        wf_bias_release(&runq->bias);
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
    wf_lock_acquire(&monitor_lock);
    wf_bias_drop(&runq->bias);
    wf_lock_release(&monitor_lock);
}

/* ---- a searcher that aborts its park for one item and takes another ----------------------------
 */

static void start_three(void)
{
    start();
    MODEL_REQUIRE(wf_idle_init(&idle, 3) == 0);
    wf_store_relaxed(&idle.asleep[0], 1u << 2); /* the third worker sleeps */
    wf_store_relaxed(&idle.searching, 1);       /* the second worker searches */
}

static void push_local_and_global(void)
{
    push(0);
    wf_store_release(&queued, 1); /* to the global queue */
    const int sleeper = wf_idle_notify(&idle);
    MODEL_REQUIRE(sleeper == -1 || sleeper > 0);
    push(1); /* not the first item: wakes no worker */
}

static bool has_any(void *context)
{
    return has_work(context) || wf_load_relaxed(&queued) != 0;
}

/* [second]  As the scheduler does: the global queue comes before the rings of other workers. */
static void stay_and_take_global(void)
{
    const struct wf_sleep sleep = {.parker = &parkers[1],
                                   .has_work = has_any,
                                   .deadline_ns = WF_FOREVER,
                                   .is_searching = true};
    if (wf_idle_sleep(&idle, 1, &sleep)) {
        return; /* woken: it checks when it stops searching */
    }
    wf_fence_seq_cst(); /* (sched.S1) */
    if (has_any(NULL)) {
        (void)wf_idle_notify(&idle);
    }
}

static void check_third_is_woken(void)
{
    const bool is_asleep = (wf_load_relaxed(&idle.asleep[0]) & (1u << 2)) != 0;
    MODEL_REQUIRE(!is_asleep || wf_ring_count(&runq->ring) == 0 || wf_idle_searching(&idle) > 0);
}

static const struct model_test tests[] = {
    {.name = "owner puts and takes, a thief revokes the bias",
     .has_barrier = 1,
     .setup = start,
     .threads = {put_and_take, revoke_and_steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "owner puts twice, a thief revokes the bias",
     .has_barrier = 1,
     .setup = start,
     .threads = {put_two, revoke_and_steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "owner puts, regains the bias, puts; a thief",
     .has_barrier = 1,
     .setup = start_unbiased,
     .threads = {put_and_regain, revoke_and_steal},
     .names = {"owner", "thief"},
     .check = check},
    {.name = "biased access excludes a thief",
     .has_barrier = 1,
     .setup = start,
     .threads = {touch_biased, revoke_and_touch},
     .names = {"owner", "thief"}},
    {.name = "biased access excludes two thieves",
     .has_barrier = 1,
     .setup = start,
     .threads = {touch_biased, revoke_and_read, revoke_and_read},
     .names = {"owner", "thief", "another"}},
    {.name = "owner regains the bias, a thief revokes it",
     .has_barrier = 1,
     .setup = start_unbiased,
     .threads = {regain_and_touch, revoke_and_touch},
     .names = {"owner", "thief"}},
    {.name = "bias revoked and regained",
     .has_barrier = 1,
     .setup = start,
     .threads = {touch_and_regain_and_touch, revoke_and_touch},
     .names = {"owner", "thief"}},
    {.name = "owner pushes and pops, a thief steals",
     .has_barrier = 1,
     .setup = start,
     .threads = {push_and_pop, steal_once},
     .names = {"owner", "thief"},
     .check = check_ring},
    {.name = "owner pushes, regains the bias, pops; a thief",
     .has_barrier = 1,
     .setup = start,
     .threads = {push_and_regain_and_pop, steal_once},
     .names = {"owner", "thief"},
     .check = check_ring,
     .bound = {0, 0, 3}, /* two preemptions under view */
     .is_slow = 1},
    {.name = "owner pushes and pops, two thieves steal",
     .has_barrier = 1,
     .setup = start,
     .threads = {push_one_and_pop, steal_once, steal_once_too},
     .names = {"owner", "thief", "another"},
     .check = check_one,
     .bound = {3, 1, 3}, /* two preemptions, none under tso */
     .is_slow = 1},
    /* Without has_barrier: a plain search under tso takes hours.  The search under view covers what
     * the reduction omits there. */
    {.name = "second push wakes no thief, a thief parks",
     .setup = start_thief,
     .threads = {push_two_and_compute, steal_and_sleep},
     .names = {"owner", "thief"},
     .check = check_all_stolen,
     .may_rest = 1,
     .bound = {4, 0, 3}, /* three preemptions, two under view */
     .is_slow = 1},
    {.name = "thief does not park beside a nonempty ring",
     .has_barrier = 1,
     .setup = start_with_item,
     .threads = {push_and_pop_behind, search_and_stay},
     .names = {"owner", "thief"}},
    {.name = "owner blocks, the monitor revokes late",
     .has_barrier = 1,
     .setup = start,
     .threads = {put_and_block, revoke_and_steal},
     .names = {"owner", "monitor"},
     .check = check},
    {.name = "searcher takes a global task, rescans for the ring",
     .has_barrier = 1,
     .setup = start_three,
     .threads = {push_local_and_global, stay_and_take_global},
     .names = {"owner", "second"},
     .check = check_third_is_woken,
     .may_rest = 1},
    {.name = "single worker pushes, a spare starts and parks",
     .has_barrier = 1,
     .setup = start,
     .threads = {push_single, start_and_park},
     .names = {"owner", "spare"}},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {
        "bias", tests, MODEL_COUNT(tests), NULL, 0, "src/queue/bias src/queue/runq",
    };
    return model_main(argc, argv, &suite);
}
