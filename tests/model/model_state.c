/* SPDX-License-Identifier: MIT */
/*
 * Goal:   with src/sched/state.c a task that is woken runs again after the last wake, is queued
 *         once at a time, is freed once and after every use, a cancel is never lost, and who joins
 *         a task is woken by its end and sees the result, in every order of steps under every
 *         memory model.
 * Method: a worker runs one task that waits for news; wakers and cancellers bring some.  The queue
 *         is a plain variable: two who queue at once, or one who queues what still runs, race.
 *         Handles and the run give their references back; the memory is the checker's, so that a
 *         late touch is a use after free.  (The calls that wait are in model_join.c.)  Who finds a
 *         task by its id has none before: there the memory is that of one task after the other.
 *         Keeps S4.37, S4.38, S4.39; behaviours 10, 11.
 */
#include "model/model.h"
#include "sched/sched.h"

static struct wf_state *state;
static struct wf_parker parker; /* of the worker */
static struct wf_state *queue;  /* plain: the run queue, of one place */
static int context;             /* plain: what a suspended task consists of */
static WF_ATOMIC(int) news[2];  /* relaxed: the state word is to order them */
static int gift;                /* plain: comes with the cancel */
static int ran;

static void start_with(unsigned references)
{
    state = wf_alloc(sizeof(*state));
    wf_state_init(state, references);
    wf_parker_init(&parker);
    queue = NULL;
    context = 0;
    wf_store_relaxed(&news[0], 0);
    wf_store_relaxed(&news[1], 0);
    gift = 0;
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

/* Whoever is told to, and nobody else, puts the task into the queue. */
static void act(enum wf_wake wake)
{
    if (wake == WF_WAKE_QUEUE) {
        MODEL_REQUIRE(wf_plain_load(&queue) == NULL); /* I1 */
        wf_plain_store(&queue, state);
        wf_plain_store(&context, wf_plain_load(&context) + 1); /* it is whole, and ours: T2 */
        wf_parker_unpark(&parker);
    }
}

/* The worker: suspends the task, parks it, and waits until somebody queues it. */
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
    while (wf_load_relaxed(&news[0]) == 0) {
        suspend();
    }
}

static void wait_for_two(void)
{
    while (wf_load_relaxed(&news[0]) == 0 || wf_load_relaxed(&news[1]) == 0) {
        suspend();
    }
}

static void wake_first(void)
{
    wf_store_relaxed(&news[0], 1);
    act(wf_state_wake(state));
}

static void wake_second(void)
{
    wf_store_relaxed(&news[1], 1);
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
    MODEL_REQUIRE(wf_plain_load(&gift) == 1);
}

static void cancel(void)
{
    wf_plain_store(&gift, 1);
    act(wf_state_cancel(state));
}

/* Behind a shield a cancel wakes nobody; when the shield is gone it is there. */
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
    MODEL_REQUIRE(wake != WF_WAKE_QUEUE); /* it never was idle */
    release(wf_state_unref(state));
}

/* ---- joining ------------------------------------------------------------------------------- */

/* The end of a run, as in task.c: but for SHARED the task is not touched after the step. */
static void run_and_hand_over(void)
{
    struct wf_state *task = state; /* its address, whatever becomes of it */
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

static void join_alone(void)
{
    struct wf_state *task = state;
    if (wf_state_has_one_handle(task) && wf_state_join(task, &parker)) {
        wait_for_end(task);
    } else {
        MODEL_REQUIRE(wf_state_is_complete(task));
    }
    see_result_and_drop(task);
}

/* It may take back that it waits; if that is too late the result is there. */
static void join_and_give_up(void)
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
static void look_and_drop(void)
{
    struct wf_state *task = state;
    if (wf_state_is_complete(task)) {
        see_result_and_drop(task);
    } else {
        release(wf_state_is_sole(task) || wf_state_unref(task));
    }
}

/* ---- finding by id ------------------------------------------------------------------------- */

/* The memory is a pool's: whoever gives the last reference back takes the id out, and the worker,
 * if it is the one, begins another task in it. */
static WF_ATOMIC(uint64_t) id;
static int body; /* plain: which task it is */
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

/* As fill in task.c. */
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

/* As wf_task_hold, of the first. */
static void find_first(void)
{
    if (wf_load_acquire(&id) != 1 || !wf_state_hold(state)) {
        return;
    }
    if (wf_load_relaxed(&id) == 1) {
        MODEL_REQUIRE(wf_plain_load(&body) == 1); /* it is the one, and stays */
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

/* As weft_drop: the last reference goes without a locked instruction. */
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
    {.name = "one wake",
     .setup = start,
     .threads = {wait_for_one, wake_first},
     .names = {"worker", "waker"},
     .check = free_state},
    {.name = "one waker, twice",
     .setup = start,
     .threads = {wait_for_two, wake_twice},
     .names = {"worker", "waker"},
     .check = free_state},
    {.name = "a cancel",
     .setup = start,
     .threads = {wait_for_cancel, cancel},
     .names = {"worker", "canceller"},
     .check = free_state},
    {.name = "a cancel behind a shield",
     .setup = start,
     .threads = {wait_behind_a_shield, cancel_then_wake},
     .names = {"worker", "canceller"},
     .check = free_state},
    {.name = "completion against the last handle",
     .setup = start_shared,
     .threads = {run_and_complete, join_and_drop},
     .names = {"worker", "holder"},
     .check = check_freed},
    {.name = "two wakers",
     .setup = start,
     .threads = {wait_for_two, wake_first, wake_second},
     .names = {"worker", "waker 1", "waker 2"},
     .check = free_state},
    {.name = "a wake against a cancel",
     .setup = start,
     .threads = {wait_for_cancel, cancel, wake_first},
     .names = {"worker", "canceller", "waker"},
     .check = free_state},
    {.name = "three owners",
     .setup = start_three,
     .threads = {run_and_complete, ref_and_drop_both, wake_late_and_drop},
     .names = {"worker", "holder", "waker"},
     .check = check_freed},
    {.name = "the only handle joins",
     .setup = start_shared,
     .threads = {run_and_hand_over, join_alone},
     .names = {"worker", "joiner"},
     .check = check_freed},
    {.name = "a joiner that gives up",
     .setup = start_shared,
     .threads = {run_and_hand_over, join_and_give_up},
     .names = {"worker", "joiner"},
     .check = check_freed},
    {.name = "a joiner by way of sharing",
     .setup = start_shared,
     .threads = {run_and_hand_over, join_by_sharing},
     .names = {"worker", "joiner"},
     .check = check_freed},
    {.name = "a joiner and one who looks",
     .setup = start_three,
     .threads = {run_and_hand_over, join_by_sharing, look_and_drop},
     .names = {"worker", "joiner", "looker"},
     .check = check_freed},
    {.name = "two who look",
     .setup = start_three,
     .threads = {run_and_hand_over, look_and_drop, look_and_drop},
     .names = {"worker", "looker 1", "looker 2"},
     .check = check_freed},
    {.name = "one who finds a task by its id",
     .setup = start_found,
     .threads = {run_one_after_the_other, find_first},
     .names = {"worker", "finder"},
     .check = check_spent},
    {.name = "one who finds a task whose handle is dropped",
     .setup = start_found_with_handle,
     .threads = {run_one, drop_handle, find_first},
     .names = {"worker", "holder", "finder"},
     .check = check_spent},
};

static const struct model_equivalent equivalents[] = {
    {"wf_state_unjoin: wf_fetch_sub_acq_rel(&state->word) -> acquire",
     "Who takes its join back then gives back the handle, and that releases."},
    {"wf_state_share: wf_fetch_or_acq_rel(&state->word) -> acquire",
     "Publishes nothing by itself: what the end of the task is to find stands in the list, under "
     "its lock."},
};

int main(int argc, char **argv)
{
    static const struct model_suite suite = {"state",
                                             tests,
                                             MODEL_COUNT(tests),
                                             equivalents,
                                             MODEL_COUNT(equivalents),
                                             "src/sched/state.c"};
    return model_main(argc, argv, &suite);
}
