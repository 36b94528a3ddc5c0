/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/task/state.c a woken task runs again after the last wake-up, is queued once at
 *         a time, is freed once and after every use, a cancel is never lost, and a joiner is woken
 *         by the end of the task and sees the result, in every order of steps under every memory
 *         model.
 * Method: a worker runs one task that waits for events; wakers and cancellers cause some.  The
 *         queue is a plain variable: two concurrent queueings, or the queueing of a running task,
 *         are a race.  Handles and the run release their references; the memory is the checker's,
 *         so that a late access is a use after free.  (The calls that wait are in model_join.c.) A
 *         thread that looks up a task by its id has no reference before: there the memory is reused
 *         by one task after the other.
 *         Keeps S4.37, S4.38, S4.39; behaviours 10, 11.
 */
#include "model/model.h"
#include "sched/sched.h"

static struct wf_state *state;
static struct wf_parker parker;  /* of the worker */
static struct wf_state *queue;   /* plain: the run queue, of one slot */
static int context;              /* plain: the context of a suspended task */
static WF_ATOMIC(int) events[2]; /* relaxed: the state word must order them */
static int payload;              /* plain: published by the cancel */
static int ran;

static void start_with(unsigned references)
{
    state = wf_alloc(sizeof(*state));
    wf_state_init(state, references);
    wf_parker_init(&parker);
    queue = NULL;
    context = 0;
    wf_store_relaxed(&events[0], 0);
    wf_store_relaxed(&events[1], 0);
    payload = 0;
    ran = 0;
}

static void start(void)
{
    start_with(1);
}

static void start_shared(void)
{
    start_with(2);
}

static void start_three(void)
{
    start_with(3);
}

static void free_state(void)
{
    wf_free(state);
}

static void check_freed(void)
{
    MODEL_REQUIRE(state == NULL);
}

/* Puts the task into the queue if the wake-up result says so, and only then. */
static void act(enum wf_wake wake)
{
    if (wake == WF_WAKE_QUEUE) {
        MODEL_REQUIRE(wf_plain_load(&queue) == NULL); /* I1 */
        wf_plain_store(&queue, state);
        /* the context is complete, and owned: (task.T2) */
        wf_plain_store(&context, wf_plain_load(&context) + 1);
        wf_parker_unpark(&parker);
    }
}

/* The worker: suspends the task, parks it, and waits until another thread queues it. */
static void suspend(void)
{
    wf_plain_store(&context, wf_plain_load(&context) + 1);
    if (wf_state_park(state)) {
        (void)wf_parker_park(&parker, WF_FOREVER);
        MODEL_REQUIRE(wf_plain_load(&queue) == state);
        wf_plain_store(&queue, (struct wf_state *)NULL);
        wf_plain_store(&context, wf_plain_load(&context) + 1);
    }
    ran++;
}

static void wait_for_one(void)
{
    while (wf_load_relaxed(&events[0]) == 0) {
        suspend();
    }
}

static void wait_for_two(void)
{
    while (wf_load_relaxed(&events[0]) == 0 || wf_load_relaxed(&events[1]) == 0) {
        suspend();
    }
}

static void wake_first(void)
{
    wf_store_relaxed(&events[0], 1);
    act(wf_state_wake(state));
}

static void wake_second(void)
{
    wf_store_relaxed(&events[1], 1);
    act(wf_state_wake(state));
}

static void wake_twice(void)
{
    wake_first();
    wake_second();
}

static void wait_for_cancel(void)
{
    while (!wf_state_is_cancelled(state)) {
        suspend();
    }
    MODEL_REQUIRE(wf_plain_load(&payload) == 1);
}

static void cancel(void)
{
    wf_plain_store(&payload, 1);
    act(wf_state_cancel(state));
}

/* Behind a shield a cancel wakes no task; after the shield it is seen. */
static void wait_behind_a_shield(void)
{
    MODEL_REQUIRE(wf_state_shield(state) == 0);
    wait_for_one();
    MODEL_REQUIRE(!wf_state_is_cancelled(state));
    MODEL_REQUIRE(wf_state_unshield(state) == 0);
    wait_for_cancel();
}

static void cancel_then_wake(void)
{
    cancel();
    wake_first();
}

/* ---- references ---------------------------------------------------------------------------- */

static void release(bool is_last)
{
    if (is_last) {
        wf_free(state);
        state = NULL;
    }
}

static void run_and_complete(void)
{
    wf_plain_store(&context, 7); /* the result */
    void *joiner;
    release((wf_state_complete(state, &joiner) & WF_ENDED_LAST) != 0);
    MODEL_REQUIRE(joiner == NULL);
}

static void join_and_drop(void)
{
    struct wf_state_view view;
    wf_state_read(state, &view);
    if (view.lifecycle == WF_COMPLETE) {
        MODEL_REQUIRE(wf_plain_load(&context) == 7);
    }
    release(wf_state_unref(state));
}

static void ref_and_drop_both(void)
{
    MODEL_REQUIRE(wf_state_ref(state) == 0);
    release(wf_state_unref(state));
    release(wf_state_unref(state));
}

static void wake_late_and_drop(void)
{
    enum wf_wake wake = wf_state_wake(state);
    MODEL_REQUIRE(wake != WF_WAKE_QUEUE); /* the task was never idle */
    release(wf_state_unref(state));
}

/* ---- joining ------------------------------------------------------------------------------- */

/* The end of a run, as in end.c: unless SHARED is set the task is not touched after the step. */
static void run_and_wake_joiner(void)
{
    struct wf_state *task = state; /* its address, even if it is freed */
    wf_plain_store(&context, 7);   /* the result */
    void *joiner;
    const unsigned ended = wf_state_complete(task, &joiner);
    bool is_last = (ended & WF_ENDED_LAST) != 0;
    if (joiner != NULL) {
        MODEL_REQUIRE(joiner == &parker);
        wf_parker_unpark(&parker);
    }
    if ((ended & WF_ENDED_SHARED) != 0) {
        wf_parker_unpark(&parker);
        is_last = wf_state_unref(task);
    }
    release(is_last);
}

static void see_result_and_drop(struct wf_state *task)
{
    MODEL_REQUIRE(wf_plain_load(&context) == 7);
    release(wf_state_is_sole(task) || wf_state_unref(task));
}

static void wait_for_end(const struct wf_state *task)
{
    do {
        (void)wf_parker_park(&parker, WF_FOREVER);
    } while (!wf_state_is_complete(task));
}

static void join_only_handle(void)
{
    struct wf_state *task = state;
    if (wf_state_has_one_handle(task) && wf_state_join(task, &parker)) {
        wait_for_end(task);
    } else {
        MODEL_REQUIRE(wf_state_is_complete(task));
    }
    see_result_and_drop(task);
}

/* It may withdraw its join; if that is too late the result is there. */
static void join_and_unjoin(void)
{
    struct wf_state *task = state;
    if (wf_state_join(task, &parker) && wf_state_unjoin(task)) {
        release(wf_state_is_sole(task) || wf_state_unref(task));
        return;
    }
    see_result_and_drop(task);
}

static void join_by_sharing(void)
{
    struct wf_state *task = state;
    if (wf_state_share(task)) {
        wait_for_end(task);
    }
    see_result_and_drop(task);
}

/* Never waits: as weft_try_join. */
static void try_join_and_drop(void)
{
    struct wf_state *task = state;
    if (wf_state_is_complete(task)) {
        see_result_and_drop(task);
    } else {
        release(wf_state_is_sole(task) || wf_state_unref(task));
    }
}

/* ---- lookup by id -------------------------------------------------------------------------- */

/* The memory belongs to a pool: the thread that releases the last reference removes the id; if that
 * is the worker, it begins another task in it. */
static WF_ATOMIC(uint64_t) id;
static int body; /* plain: identifies the task */
static int spent[3];

static void start_found(void)
{
    start();
    wf_plain_store(&body, 1);
    wf_store_relaxed(&id, 1);
    spent[1] = 0;
    spent[2] = 0;
}

/* As wf_task_put. */
static void put_back(void)
{
    const int which = wf_plain_load(&body);
    spent[which]++;
    wf_plain_store(&body, 0);
    wf_store_relaxed(&id, 0);
}

/* As fill in spawn.c. */
static void begin_second(void)
{
    wf_plain_store(&body, 2);
    wf_state_init(state, 1);
    wf_store_release(&id, 2);
}

static bool end_one(void)
{
    void *joiner;
    if ((wf_state_complete(state, &joiner) & WF_ENDED_LAST) == 0) {
        return false;
    }
    put_back();
    return true;
}

static void run_one_after_the_other(void)
{
    if (end_one()) {
        begin_second();
        (void)end_one();
    }
}

/* As wf_task_try_ref, of the first task. */
static void find_first(void)
{
    if (wf_load_acquire(&id) != 1 || !wf_state_try_ref(state)) {
        return;
    }
    if (wf_load_relaxed(&id) == 1) {
        MODEL_REQUIRE(wf_plain_load(&body) == 1); /* it is the first task, and stays */
    }
    if (wf_state_unref(state)) {
        put_back();
    }
}

static void start_found_with_handle(void)
{
    start_found();
    wf_state_init(state, 2);
}

/* As weft_task_unref: the last reference is released without a locked instruction. */
static void drop_handle(void)
{
    bool is_last = wf_state_is_sole(state);
    if (is_last) {
        wf_state_retire(state);
    } else {
        is_last = wf_state_unref(state);
    }
    if (is_last) {
        put_back();
    }
}

static void run_one(void)
{
    (void)end_one();
}

static void check_spent(void)
{
    MODEL_REQUIRE(spent[1] == 1);
    MODEL_REQUIRE(spent[2] <= 1);
    MODEL_REQUIRE(wf_load_relaxed(&id) == 0);
    free_state();
}

static const struct model_test tests[] = {
    {.name = "wake-up races park",
     .setup = start,
     .threads = {wait_for_one, wake_first},
     .names = {"worker", "waker"},
     .check = free_state},
    {.name = "two wake-ups of one waker race park",
     .setup = start,
     .threads = {wait_for_two, wake_twice},
     .names = {"worker", "waker"},
     .check = free_state},
    {.name = "cancel races park",
     .setup = start,
     .threads = {wait_for_cancel, cancel},
     .names = {"worker", "canceller"},
     .check = free_state},
    {.name = "cancel behind a shield races park",
     .setup = start,
     .threads = {wait_behind_a_shield, cancel_then_wake},
     .names = {"worker", "canceller"},
     .check = free_state},
    {.name = "completion races the last unref",
     .setup = start_shared,
     .threads = {run_and_complete, join_and_drop},
     .names = {"worker", "holder"},
     .check = check_freed},
    {.name = "two wakers race park",
     .setup = start,
     .threads = {wait_for_two, wake_first, wake_second},
     .names = {"worker", "waker 1", "waker 2"},
     .check = free_state},
    {.name = "wake-up races cancel and park",
     .setup = start,
     .threads = {wait_for_cancel, cancel, wake_first},
     .names = {"worker", "canceller", "waker"},
     .check = free_state},
    {.name = "completion races two other references",
     .setup = start_three,
     .threads = {run_and_complete, ref_and_drop_both, wake_late_and_drop},
     .names = {"worker", "holder", "waker"},
     .check = check_freed},
    {.name = "join of the only handle races completion",
     .setup = start_shared,
     .threads = {run_and_wake_joiner, join_only_handle},
     .names = {"worker", "joiner"},
     .check = check_freed},
    {.name = "join and unjoin race completion",
     .setup = start_shared,
     .threads = {run_and_wake_joiner, join_and_unjoin},
     .names = {"worker", "joiner"},
     .check = check_freed},
    {.name = "shared join races completion",
     .setup = start_shared,
     .threads = {run_and_wake_joiner, join_by_sharing},
     .names = {"worker", "joiner"},
     .check = check_freed},
    {.name = "shared join and try_join race completion",
     .setup = start_three,
     .threads = {run_and_wake_joiner, join_by_sharing, try_join_and_drop},
     .names = {"worker", "joiner", "try_join"},
     .check = check_freed},
    {.name = "two try_joins race completion",
     .setup = start_three,
     .threads = {run_and_wake_joiner, try_join_and_drop, try_join_and_drop},
     .names = {"worker", "try_join 1", "try_join 2"},
     .check = check_freed},
    {.name = "lookup by id races reuse of the task",
     .setup = start_found,
     .threads = {run_one_after_the_other, find_first},
     .names = {"worker", "finder"},
     .check = check_spent},
    {.name = "lookup by id races the last unref",
     .setup = start_found_with_handle,
     .threads = {run_one, drop_handle, find_first},
     .names = {"worker", "holder", "finder"},
     .check = check_spent},
};

static const struct model_equivalent equivalents[] = {
    {"wf_state_unjoin: wf_fetch_sub_acq_rel(&state->word) -> acquire",
     "The caller then releases its handle, which has release order."},
    {"wf_state_share: wf_fetch_or_acq_rel(&state->word) -> acquire",
     "Publishes nothing by itself: what the end of the task must find is in the list, under "
     "its lock."},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {
        "state",           tests, MODEL_COUNT(tests), equivalents, MODEL_COUNT(equivalents),
        "src/task/state.c"};
    return model_main(argc, argv, &suite);
}
