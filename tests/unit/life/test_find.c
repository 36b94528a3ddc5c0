/* SPDX-License-Identifier: MIT */
/*
 * Goal:   weft_runtime_find_task returns a handle for each live task of the runtime by its id. The
 *         handle keeps its task, whatever tasks end and begin later.
 * Method: tasks that stay alive while the test finds them; tasks that end during the search; the
 *         end of one task and the begin of another between any two instructions of the reference
 *         count. tests/model/model_state.c exhausts all interleavings.
 */
#include "fork/fork.h"
#include "life/life.h"
#include "marks.h"
#include "sched_helpers.h"
#include "step.h"

/* ---- live tasks ------------------------------------------------------------------------------ */

enum { COUNT = 20 };

struct task_arg {
    wf_atomic_u32 *open;
    int plain; /* written by the task */
};

static intptr_t work_when_open(void *arg)
{
    struct task_arg *task_arg = arg;
    wait_for(task_arg->open, 1);
    task_arg->plain = 7;
    return (intptr_t)weft_task_id(weft_self());
}

static void find_each(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    wf_atomic_u32 open = {0};
    struct task_arg task_args[COUNT];
    weft_task *found[COUNT];
    uint64_t ids[COUNT];
    for (int i = 0; i < COUNT; i++) {
        task_args[i] = (struct task_arg){.open = &open};
        weft_task *task = go_into(runtime, work_when_open, &task_args[i]);
        ids[i] = weft_task_id(task);
        found[i] = weft_runtime_find_task(runtime, ids[i]);
        CHECK(found[i] == task);
        weft_task_unref(task); /* the found handle keeps the task */
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(info_of(found[i]).id, ids[i]);
        weft_task *again = weft_runtime_find_task(runtime, ids[i]);
        CHECK(again == found[i]);
        weft_task_unref(again);
    }
    raise_by_one(&open);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(weft_join(found[i], NULL), 0);
        CHECK(weft_runtime_find_task(runtime, ids[i]) ==
              NULL); /* ended, although a handle exists */
        CHECK_EQ(weft_await(found[i]), ids[i]);
        CHECK_EQ(task_args[i].plain, 7);
        CHECK(weft_runtime_find_task(runtime, ids[i]) == NULL);
    }
}

/* S2.30 */
static void task_find_returns_a_live_task_until_it_ends(void)
{
    open_under(EVERYWHERE, find_each);
}

static void find_nothing(weft_runtime *runtime, const struct setting *setting)
{
    wf_atomic_u32 open = {0};
    weft_runtime *other = NULL;
    const weft_runtime_options options = options_of(setting);
    CHECK(weft_runtime_find_task(runtime, 1) == NULL); /* no task was ever spawned */
    CHECK_EQ(weft_runtime_open(&other, &options), 0);
    weft_task *task = go_into(runtime, stand_by, &open);
    CHECK(weft_runtime_find_task(runtime, 0) == NULL);
    CHECK(weft_runtime_find_task(runtime, UINT64_MAX) == NULL);
    CHECK(weft_runtime_find_task(other, weft_task_id(task)) ==
          NULL); /* a task of another runtime */
    raise_by_one(&open);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_runtime_close(other, -1), 0);
}

static void task_find_returns_null_for_unknown_ids(void)
{
    open_under(EVERYWHERE, find_nothing);
}

static wf_atomic_u64 own_id;

static intptr_t publish_id_and_wait(void *arg)
{
    wf_store_release(&own_id, weft_task_id(weft_self()));
    return stand_by_or_leave(arg);
}

static intptr_t publish_id_and_fail(void *arg)
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

/* These tasks have no handle until weft_runtime_find_task returns one. */
static intptr_t find_detached(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    wf_store_relaxed(&own_id, 0);
    CHECK_EQ(weft_spawn(NULL, publish_id_and_wait, &open, NULL), 0);
    weft_task *task = weft_runtime_find_task(weft_runtime_self(), wait_for_id());
    CHECK(task != NULL);
    CHECK(info_of(task).is_detached);
    CHECK_EQ(weft_cancel(task), 0);
    CHECK_EQ(weft_await(task), -ECANCELED);

    wf_store_relaxed(&own_id, 0);
    CHECK_EQ(weft_spawn(NULL, publish_id_and_fail, &open, NULL), 0);
    task = weft_runtime_find_task(weft_runtime_self(), wait_for_id());
    CHECK(task != NULL);
    raise_by_one(&open);
    CHECK_EQ(weft_await(task), -EIO); /* the await has seen the failure, so it is not reported */
    weft_task *self = weft_runtime_find_task(weft_runtime_self(), weft_task_id(weft_self()));
    CHECK(self == weft_self());
    CHECK_EQ(weft_await(self), -EDEADLK);
    weft_task_unref(self);
    return 0;
}

static void task_find_returns_detached_tasks(void)
{
    run_under(EVERYWHERE, find_detached);
}

/* S2.33: the registry, the statistics and the close agree on the live tasks. */
static void task_find_agrees_with_stats_and_runtime_close(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        wf_atomic_u32 never = {0};
        weft_runtime *runtime = NULL;
        weft_task *found[COUNT];
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        for (unsigned i = 0; i < COUNT; i++) {
            CHECK_EQ(stats_of(runtime).live, i);
            weft_task *task = go_into(runtime, stand_by_or_leave, &never);
            found[i] = weft_runtime_find_task(runtime, weft_task_id(task));
            CHECK(found[i] == task);
            weft_task_unref(task);
        }
        CHECK_EQ(stats_of(runtime).live, COUNT);
        CHECK_EQ(stats_of(runtime).total.spawned, COUNT);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        for (unsigned i = 0; i < COUNT; i++) {
            CHECK_EQ(state_of(found[i]), WEFT_TASK_CANCELLED); /* the handle outlives the runtime */
            CHECK_EQ(weft_await(found[i]), -ECANCELED);
        }
    }
}

/* ---- ending tasks ---------------------------------------------------------------------------- */

static wf_atomic_u64 latest;

static intptr_t publish_id_and_end(void *arg)
{
    const uint64_t id = weft_task_id(weft_self());
    for (int i = 0; i < *(const int *)arg; i++) {
        wf_store_release(&latest, id); /* so that it mostly names a task about to end */
        (void)weft_yield();
    }
    return (intptr_t)id;
}

static intptr_t spawn_and_end(void *arg)
{
    static int yields[] = {1, 1, 2, 3, 4, 0, 8, 20};
    wf_atomic_u32 *is_over = arg;
    while (wf_load_acquire(is_over) == 0) { /* pairs with raise_by_one */
        weft_task *tasks[8];
        for (int i = 0; i < 8; i++) {
            tasks[i] = go(publish_id_and_end, &yields[i]);
        }
        for (int i = 0; i < 8; i++) {
            if (i % 2 == 0) {
                weft_task_unref(tasks[i]);
            } else {
                CHECK(weft_await(tasks[i]) > 0);
            }
        }
    }
    return 0;
}

static void find_while_tasks_end(weft_runtime *runtime, const struct setting *setting)
{
    wf_atomic_u32 is_over = {0};
    if (setting->workers > 2) {
        return; /* more workers show nothing new, and take long on few CPUs */
    }
    wf_store_relaxed(&latest, 0);
    weft_task *task = go_into(runtime, spawn_and_end, &is_over);
    for (int found = 0; found < 50;) {
        const uint64_t id = wf_load_acquire(&latest);
        weft_task *candidate = weft_runtime_find_task(runtime, id);
        if (candidate != NULL) {
            CHECK_EQ(weft_task_id(candidate), id);
            CHECK_EQ(weft_await(candidate), id); /* no later task in the same memory */
            found++;
        }
    }
    raise_by_one(&is_over);
    CHECK_EQ(weft_await(task), 0);
}

static void task_find_handle_keeps_its_task_while_memory_is_reused(void)
{
    open_under(EVERYWHERE, find_while_tasks_end);
}

/* ---- between any two instructions ------------------------------------------------------------ */

struct scene {
    struct wf_task_pool *pool;
    struct wf_task_cache cache;
    struct weft_task *task;
    bool has_reference;
};

/* Like wf_task_make: memory, state word, then the id. */
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

static void ref_first(void *context)
{
    struct scene *scene = context;
    scene->has_reference = wf_task_try_ref(scene->task, 1);
}

/* The next task begins in the same memory, if that is free. */
static void end_and_begin(void *context)
{
    struct scene *scene = context;
    struct weft_task *first = scene->task;
    end_task(scene);
    begin_task(scene, 2);
    if (scene->task != first) {
        WEFT_CHECK(wf_state_is_complete(&first->state)); /* a reference keeps the memory */
    }
}

static unsigned references_of(const struct weft_task *task)
{
    struct wf_state_view view;
    wf_state_read(&task->state, &view);
    return view.references;
}

static void task_try_ref_never_refers_to_another_task(void)
{
    step_require();
    bool is_in_section = true;
    for (uint64_t at = 1; is_in_section; at++) {
        struct scene scene = {.has_reference = false};
        CHECK_EQ(wf_task_pool_new(&scene.pool, NULL), 0);
        begin_task(&scene, 1);
        struct weft_task *first = scene.task;
        is_in_section = step_interrupt(at, ref_first, end_and_begin, &scene);
        if (scene.has_reference) {
            CHECK_EQ(weft_task_id(first), 1);
            CHECK_EQ(references_of(first), is_in_section ? 1 : 2); /* the test and the run */
            CHECK(!is_in_section || scene.task != first);
            wf_task_unref(first);
        } else {
            CHECK(scene.task == first);
            CHECK_EQ(weft_task_id(first), 2);
        }
        CHECK_EQ(references_of(scene.task), 1); /* the references of the next task are unchanged */
        end_task(&scene);
        wf_task_cache_done(scene.pool, &scene.cache);
        wf_task_pool_close(scene.pool);
    }
    check_reached("end.held_another");
}

/* ---- a task that never begins ---------------------------------------------------------------- */

/* A thief makes a task before it takes a fork, and may find that another thief was faster. */
static intptr_t find_unmade_task(void *arg)
{
    (void)arg;
    const struct wf_spawn spawn = {.fn = echo, .has_handle = true};
    const uint64_t live = stats_of(weft_runtime_self()).live;
    struct weft_task *task = NULL;
    CHECK_EQ(weft_pin_begin(), 0); /* wf_task_make is [owner] */
    CHECK_EQ(wf_task_make(wf_worker_self(), &spawn, &task), 0);
    weft_task *found = weft_runtime_find_task(weft_runtime_self(), weft_task_id(task));
    CHECK(found == task);
    CHECK_EQ(weft_try_join(found, NULL), -EAGAIN);
    wf_task_unmake(wf_worker_self(), task);
    CHECK(weft_runtime_find_task(weft_runtime_self(), weft_task_id(found)) == NULL);
    CHECK_EQ(state_of(found), WEFT_TASK_CANCELLED);
    CHECK_EQ(weft_await(found), -ECANCELED);
    CHECK_EQ(stats_of(weft_runtime_self()).live, live);
    return weft_pin_end();
}

static void task_find_handle_of_an_unmade_task_reports_cancelled(void)
{
    run_under(EVERYWHERE, find_unmade_task);
}

static const struct tap_test tests[] = {
    TAP_TEST(task_find_returns_a_live_task_until_it_ends),
    TAP_TEST(task_find_returns_null_for_unknown_ids),
    TAP_TEST(task_find_returns_detached_tasks),
    TAP_TEST(task_find_agrees_with_stats_and_runtime_close),
    TAP_TEST(task_find_handle_keeps_its_task_while_memory_is_reused),
    TAP_TEST(task_try_ref_never_refers_to_another_task),
    TAP_TEST(task_find_handle_of_an_unmade_task_reports_cancelled),
};
TAP_MAIN(tests)
