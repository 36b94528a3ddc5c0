/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a runtime finds its tasks by their ids as long as they live, and gives a handle like any
 *         other: the task it stands for stays that one, whatever ends and begins meanwhile.
 * Method: tasks that are held while they are looked for; tasks that end just then; the end of one
 *         and the beginning of another between any two instructions of taking the reference.
 *         All orders of steps are exhausted in tests/model/model_state.c.
 */
#include "marks.h"
#include "sched/fork.h"
#include "sched/sched.h"
#include "sched_aids.h"
#include "step.h"

/* ---- while it lives -------------------------------------------------------------------------- */

enum { COUNT = 20 };

struct guest {
    wf_atomic_u32 *open;
    int plain; /* what it did */
};

static intptr_t work_when_open(void *arg)
{
    struct guest *guest = arg;
    wait_for(guest->open, 1);
    guest->plain = 7;
    return (intptr_t)weft_task_id(weft_self());
}

static void find_each(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    wf_atomic_u32 open = {0};
    struct guest guests[COUNT];
    weft_task *found[COUNT];
    uint64_t ids[COUNT];
    for (int i = 0; i < COUNT; i++) {
        guests[i] = (struct guest){.open = &open};
        weft_task *task = go_into(runtime, work_when_open, &guests[i]);
        ids[i] = weft_task_id(task);
        found[i] = weft_task_find(runtime, ids[i]);
        CHECK(found[i] == task);
        weft_drop(task); /* what was found keeps it */
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(info_of(found[i]).id, ids[i]);
        weft_task *again = weft_task_find(runtime, ids[i]);
        CHECK(again == found[i]);
        weft_drop(again);
    }
    raise_by_one(&open);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(weft_join(found[i], NULL), 0);
        CHECK(weft_task_find(runtime, ids[i]) == NULL); /* it has ended, and its handle is out */
        CHECK_EQ(weft_await(found[i]), ids[i]);
        CHECK_EQ(guests[i].plain, 7);
        CHECK(weft_task_find(runtime, ids[i]) == NULL);
    }
}

/* S2.30 */
static void a_task_is_found_by_its_id_until_it_ends(void)
{
    open_under(EVERYWHERE, find_each);
}

static void find_nothing(weft_runtime *runtime, const struct setting *setting)
{
    wf_atomic_u32 open = {0};
    weft_runtime *other = NULL;
    const weft_options options = options_of(setting);
    CHECK(weft_task_find(runtime, 1) == NULL); /* nothing was ever spawned */
    CHECK_EQ(weft_runtime_open(&other, &options), 0);
    weft_task *task = go_into(runtime, stand_by, &open);
    CHECK(weft_task_find(runtime, 0) == NULL);
    CHECK(weft_task_find(runtime, UINT64_MAX) == NULL);
    CHECK(weft_task_find(NULL, weft_task_id(task)) == NULL);
    CHECK(weft_task_find(other, weft_task_id(task)) == NULL); /* not one of its own */
    raise_by_one(&open);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_runtime_close(other, -1), 0);
}

static void what_is_not_there_is_not_found(void)
{
    open_under(EVERYWHERE, find_nothing);
}

static wf_atomic_u64 own_id;

static intptr_t say_id_and_wait(void *arg)
{
    wf_store_release(&own_id, weft_task_id(weft_self()));
    return stand_by_or_leave(arg);
}

static intptr_t say_id_and_fail(void *arg)
{
    wf_store_release(&own_id, weft_task_id(weft_self()));
    wait_for(arg, 1);
    return -EIO;
}

static uint64_t wait_for_id(void)
{
    uint64_t id = 0;
    while ((id = wf_load_acquire(&own_id)) == 0) {
        let_others_run();
    }
    return id;
}

/* Nobody has a handle of these until they are found. */
static intptr_t find_the_detached(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    wf_store_relaxed(&own_id, 0);
    CHECK_EQ(weft_spawn(NULL, say_id_and_wait, &open, NULL), 0);
    weft_task *task = weft_task_find(weft_runtime_self(), wait_for_id());
    CHECK(task != NULL);
    CHECK(info_of(task).is_detached);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);

    wf_store_relaxed(&own_id, 0);
    CHECK_EQ(weft_spawn(NULL, say_id_and_fail, &open, NULL), 0);
    task = weft_task_find(weft_runtime_self(), wait_for_id());
    CHECK(task != NULL);
    raise_by_one(&open);
    CHECK_EQ(weft_await(task), -EIO); /* seen by us, so nobody else is told */
    weft_task *self = weft_task_find(weft_runtime_self(), weft_task_id(weft_self()));
    CHECK(self == weft_self());
    CHECK_EQ(weft_await(self), -EDEADLK);
    weft_drop(self);
    return 0;
}

static void what_was_started_without_a_handle_is_found_too(void)
{
    run_under(EVERYWHERE, find_the_detached);
}

/* S2.33: the registry, the statistics and the end agree on who is there. */
static void what_is_found_is_counted_and_ends_with_its_runtime(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        wf_atomic_u32 never = {0};
        weft_runtime *runtime = NULL;
        weft_task *found[COUNT];
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (unsigned i = 0; i < COUNT; i++) {
            CHECK_EQ(stats_of(runtime).live, i);
            weft_task *task = go_into(runtime, stand_by_or_leave, &never);
            found[i] = weft_task_find(runtime, weft_task_id(task));
            CHECK(found[i] == task);
            weft_drop(task);
        }
        CHECK_EQ(stats_of(runtime).live, COUNT);
        CHECK_EQ(stats_of(runtime).total.spawned, COUNT);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        for (unsigned i = 0; i < COUNT; i++) {
            CHECK_EQ(state_of(found[i]), WEFT_CANCELLED); /* the handle outlives it */
            CHECK_EQ(weft_await(found[i]), -ECANCELED);
        }
    }
}

/* ---- while it ends --------------------------------------------------------------------------- */

static wf_atomic_u64 latest;

static intptr_t say_id_and_end(void *arg)
{
    const uint64_t id = weft_task_id(weft_self());
    for (int i = 0; i < *(const int *)arg; i++) {
        wf_store_release(&latest, id); /* so mostly it is one that is about to end */
        (void)weft_yield();
    }
    return (intptr_t)id;
}

static intptr_t come_and_go(void *arg)
{
    static int yields[] = {1, 1, 2, 3, 4, 0, 8, 20};
    wf_atomic_u32 *is_over = arg;
    while (wf_load_acquire(is_over) == 0) { /* to raise_by_one */
        weft_task *tasks[8];
        for (int i = 0; i < 8; i++) {
            tasks[i] = go(say_id_and_end, &yields[i]);
        }
        for (int i = 0; i < 8; i++) {
            if (i % 2 == 0) {
                weft_drop(tasks[i]);
            } else {
                CHECK(weft_await(tasks[i]) > 0);
            }
        }
    }
    return 0;
}

static void find_meanwhile(weft_runtime *runtime, const struct setting *setting)
{
    wf_atomic_u32 is_over = {0};
    if (setting->workers > 2) {
        return; /* more of them show no more, and it takes long where there are few CPUs */
    }
    wf_store_relaxed(&latest, 0);
    weft_task *task = go_into(runtime, come_and_go, &is_over);
    for (int found = 0; found < 50;) {
        const uint64_t id = wf_load_acquire(&latest);
        weft_task *one = weft_task_find(runtime, id);
        if (one != NULL) {
            CHECK_EQ(weft_task_id(one), id);
            CHECK_EQ(weft_await(one), id); /* it, and no other that began in its memory */
            found++;
        }
    }
    raise_by_one(&is_over);
    CHECK_EQ(weft_await(task), 0);
}

static void what_is_found_stays_itself_while_others_come_and_go(void)
{
    open_under(EVERYWHERE, find_meanwhile);
}

/* ---- between any two instructions ------------------------------------------------------------ */

struct scene {
    struct wf_task_pool *pool;
    struct wf_task_cache cache;
    struct weft_task *task;
    bool is_held;
};

/* As fill in task.c. */
static void begin_task(struct scene *scene, uint64_t id)
{
    scene->task = wf_task_get(scene->pool, &scene->cache);
    CHECK(scene->task != NULL);
    scene->task->result = 0;
    wf_state_init(&scene->task->state, 1);
    wf_store_release(&scene->task->id, id);
}

static void end_task(struct scene *scene)
{
    void *joiner;
    if ((wf_state_complete(&scene->task->state, &joiner) & WF_ENDED_LAST) != 0) {
        wf_task_put(scene->pool, &scene->cache, scene->task);
    }
}

static void hold_first(void *context)
{
    struct scene *scene = context;
    scene->is_held = wf_task_hold(scene->task, 1);
}

/* The next one begins in the same memory, if that is free. */
static void end_and_begin(void *context)
{
    struct scene *scene = context;
    struct weft_task *first = scene->task;
    end_task(scene);
    begin_task(scene, 2);
    if (scene->task != first) {
        WEFT_CHECK(wf_state_is_complete(&first->state)); /* somebody has it */
    }
}

static unsigned references_of(const struct weft_task *task)
{
    struct wf_state_view view;
    wf_state_read(&task->state, &view);
    return view.references;
}

static void a_reference_is_never_of_another_task(void)
{
    step_require();
    bool is_inside = true;
    for (uint64_t at = 1; is_inside; at++) {
        struct scene scene = {.is_held = false};
        CHECK_EQ(wf_task_pool_new(&scene.pool, NULL), 0);
        begin_task(&scene, 1);
        struct weft_task *first = scene.task;
        is_inside = step_interrupt(at, hold_first, end_and_begin, &scene);
        if (scene.is_held) {
            CHECK_EQ(weft_task_id(first), 1);
            CHECK_EQ(references_of(first), is_inside ? 1 : 2); /* ours, and that of its run */
            CHECK(!is_inside || scene.task != first);
            wf_task_unref(first);
        } else {
            CHECK(scene.task == first);
            CHECK_EQ(weft_task_id(first), 2);
        }
        CHECK_EQ(references_of(scene.task), 1); /* the next one has what it had */
        end_task(&scene);
        wf_task_cache_done(scene.pool, &scene.cache);
        wf_task_pool_close(scene.pool);
    }
    check_reached("task.held_another");
}

/* ---- one that never begins ------------------------------------------------------------------- */

/* A worker that wants to take a fork makes a task first, and may find that another was faster. */
static intptr_t find_one_that_is_taken_back(void *arg)
{
    (void)arg;
    const struct wf_spawn spawn = {.fn = echo, .has_handle = true};
    const uint64_t live = stats_of(weft_runtime_self()).live;
    struct weft_task *task = NULL;
    CHECK_EQ(weft_pin(1), 0); /* wf_task_make is the worker's */
    CHECK_EQ(wf_task_make(wf_worker_self(), &spawn, &task), 0);
    weft_task *found = weft_task_find(weft_runtime_self(), weft_task_id(task));
    CHECK(found == task);
    CHECK_EQ(weft_try_join(found, NULL), -EAGAIN);
    wf_task_unmake(wf_worker_self(), task);
    CHECK(weft_task_find(weft_runtime_self(), weft_task_id(found)) == NULL);
    CHECK_EQ(state_of(found), WEFT_CANCELLED);
    CHECK_EQ(weft_await(found), -ECANCELED);
    CHECK_EQ(stats_of(weft_runtime_self()).live, live);
    return weft_pin(0);
}

static void one_that_never_begins_ends_for_who_found_it(void)
{
    run_under(EVERYWHERE, find_one_that_is_taken_back);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_task_is_found_by_its_id_until_it_ends),
    TAP_TEST(what_is_not_there_is_not_found),
    TAP_TEST(what_was_started_without_a_handle_is_found_too),
    TAP_TEST(what_is_found_is_counted_and_ends_with_its_runtime),
    TAP_TEST(what_is_found_stays_itself_while_others_come_and_go),
    TAP_TEST(a_reference_is_never_of_another_task),
    TAP_TEST(one_that_never_begins_ends_for_who_found_it),
};
TAP_MAIN(tests)
