/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a spawned task starts without an await, gets its argument and gives its result; it has an
 *         id and an observable state, and stays on a thread when pinned.
 * Method: tasks that check themselves and each other; plain memory goes along with every argument
 *         and every result.
 */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "sched_helpers.h"

/* ---- start and result ------------------------------------------------------------------------ */

static intptr_t spawn_and_wait_for_flag(void *arg)
{
    (void)arg;
    wf_atomic_u32 flag = {0};
    weft_task *task = go(count_up, &flag);
    wait_for(&flag, 1); /* no await */
    weft_task_unref(task);
    return 0;
}

/* S2.2, S2.11, S2.12 */
static void spawn_starts_a_task_without_an_await(void)
{
    run_under(EVERYWHERE, spawn_and_wait_for_flag);
}

static intptr_t check_results(void *arg)
{
    (void)arg;
    int object = 0;
    const intptr_t values[] = {0, 1, -1, -EIO, 4711, INTPTR_MAX, INTPTR_MIN, (intptr_t)&object};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        CHECK_EQ(weft_await(go(echo, (void *)values[i])), values[i]);
    }
    return 0;
}

/* behaviour 27, S4.45 */
static void await_returns_every_result_value_unchanged(void)
{
    run_under(EVERYWHERE, check_results);
}

static intptr_t add_one(void *arg)
{
    int *number = arg;
    *number += 1;
    return 0;
}

static intptr_t pass_memory_and_back(void *arg)
{
    (void)arg;
    for (int round = 0; round < 100; round++) {
        int number = round;
        weft_task *task = go(add_one, &number);
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(number, round + 1);
    }
    return 0;
}

/* The task sees the writes of the spawner, the awaiter sees those of the task. */
static void spawn_and_await_publish_plain_memory(void)
{
    run_under(EVERYWHERE, pass_memory_and_back);
}

/* ---- options --------------------------------------------------------------------------------- */

enum { BYTES_MAX = 40000 };

static size_t copied_size;
static const unsigned char *copied_original;

static intptr_t check_copy(void *arg)
{
    const unsigned char *bytes = arg;
    CHECK(bytes != copied_original);
    CHECK_EQ((uintptr_t)bytes % _Alignof(max_align_t), 0);
    for (size_t i = 0; i < copied_size; i++) {
        CHECK_EQ(bytes[i], (unsigned char)(i * 7));
    }
    memset(arg, 0xee, copied_size); /* the copy belongs to the task */
    (void)weft_yield();
    for (size_t i = 0; i < copied_size; i++) {
        CHECK_EQ(bytes[i], 0xee);
    }
    return 0;
}

static intptr_t spawn_with_copies(void *arg)
{
    (void)arg;
    static unsigned char bytes[BYTES_MAX];
    const size_t sizes[] = {1, 8, 100, 4096, BYTES_MAX};
    copied_original = bytes;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        copied_size = sizes[i];
        for (size_t j = 0; j < sizes[i]; j++) {
            bytes[j] = (unsigned char)(j * 7);
        }
        weft_task *task = NULL;
        const weft_task_options options = {.arg_copy = sizes[i]};
        CHECK_EQ(weft_spawn(&task, check_copy, bytes, &options), 0);
        memset(bytes, 0, sizes[i]); /* the spawner may reuse it as soon as the spawn returns */
        CHECK_EQ(weft_await(task), 0);
    }
    return 0;
}

static void arg_copy_option_copies_the_argument_into_the_task(void)
{
    run_under(EVERYWHERE, spawn_with_copies);
}

static __attribute__((noinline)) int use_stack(size_t bytes)
{
    volatile unsigned char frame[512 << 10];
    for (size_t i = 0; i < bytes && i < sizeof(frame); i += 1024) {
        frame[i] = (unsigned char)i;
    }
    return frame[0];
}

static intptr_t use_half_a_megabyte(void *arg)
{
    (void)arg;
    CHECK_EQ(use_stack(512 << 10), 0);
    CHECK(info_of(weft_self()).stack_size >= 1 << 20);
    return 0;
}

static intptr_t spawn_with_large_stack(void *arg)
{
    (void)arg;
    weft_task *task = NULL;
    const weft_task_options options = {.stack_size = 1 << 20};
    CHECK_EQ(weft_spawn(&task, use_half_a_megabyte, NULL, &options), 0);
    return weft_await(task);
}

static void stack_size_option_of_a_task_is_honoured(void)
{
    run_under(EVERYWHERE, spawn_with_large_stack);
}

/* The stack size of the runtime is for tasks without one of their own. */
static void stack_size_option_of_a_runtime_is_the_default(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        tour.options.stack_size = 1 << 20;
        CHECK_EQ(weft_run(use_half_a_megabyte, NULL, &tour.options), 0);
    }
}

static intptr_t round_upwards(void *arg)
{
    CHECK_EQ(fegetround(), FE_TONEAREST);
    CHECK_EQ(fesetround(FE_UPWARD), 0);
    raise_by_one(arg);
    for (int i = 0; i < 20; i++) {
        (void)weft_yield();
        CHECK_EQ(fegetround(), FE_UPWARD);
    }
    return 0;
}

static intptr_t round_beside_others(void *arg)
{
    (void)arg;
    wf_atomic_u32 started = {0};
    weft_task *tasks[3];
    const weft_task_options options = {.keeps_fp_control = true};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_spawn(&tasks[i], round_upwards, &started, &options), 0);
    }
    while (wf_load_acquire(&started) < 3) {
        (void)weft_yield();
        CHECK_EQ(fegetround(), FE_TONEAREST);
    }
    CHECK_EQ(weft_await_all(tasks, 3, NULL), 0);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    return 0;
}

static void keeps_fp_control_option_keeps_the_rounding_mode_per_task(void)
{
    run_under(EVERYWHERE, round_beside_others);
}

/* ---- identity and information ---------------------------------------------------------------- */

enum { IDS = 300 };

static uint64_t ids[20 * IDS]; /* over all runtimes of the test */
static size_t id_count;

static intptr_t return_id(void *arg)
{
    (void)arg;
    return (intptr_t)weft_task_id(weft_self());
}

static intptr_t collect_ids(void *arg)
{
    (void)arg;
    for (int i = 0; i < IDS; i++) {
        weft_task *task = go(return_id, NULL);
        const uint64_t id = weft_task_id(task);
        CHECK_EQ(weft_await(task), id);
        CHECK(id > 0);
        CHECK(id_count < sizeof(ids) / sizeof(ids[0]));
        ids[id_count++] = id;
    }
    return 0;
}

static int compare_ids(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static intptr_t expect_first_id(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_task_id(weft_self()), 1);
    return 0;
}

/* S2.18, behaviour 27 */
static void task_ids_start_at_1_and_are_never_reused(void)
{
    CHECK_EQ(weft_run(expect_first_id, NULL, NULL), 0);
    run_under(EVERYWHERE, collect_ids);
    qsort(ids, id_count, sizeof(ids[0]), compare_ids);
    for (size_t i = 1; i < id_count; i++) {
        CHECK(ids[i - 1] < ids[i]);
    }
}

static __attribute__((noinline)) weft_task *spawn_at_known_site(wf_atomic_u32 *cell,
                                                                const weft_task_options *options)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn(&task, stand_by, cell, options), 0);
    return task;
}

static intptr_t check_info(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    const weft_task_options options = {
        .name = "a name of more than one and thirty characters",
        .priority = WEFT_PRIORITY_HIGH,
        .is_pinned = true,
    };
    weft_task *task = spawn_at_known_site(&open, &options);
    const weft_task_info info = info_of(task);
    CHECK_EQ(info.id, weft_task_id(task));
    CHECK_EQ(info.parent_id, weft_task_id(weft_self()));
    CHECK_STR(info.name, "a name of more than one and thi");
    CHECK(info.fn == stand_by);
    CHECK((uintptr_t)info.site > (uintptr_t)spawn_at_known_site);
    CHECK((uintptr_t)info.site < (uintptr_t)spawn_at_known_site + 1024);
    CHECK(info.created > 0); /* from a cached clock */
    CHECK(info.created <= wf_clock_now());
    CHECK_EQ(info.deadline, WEFT_NEVER);
    CHECK_EQ(info.priority, WEFT_PRIORITY_HIGH);
    CHECK_EQ(info.shields, 0);
    CHECK(!info.is_cancelled);
    CHECK(info.is_pinned);
    CHECK(!info.is_detached);
    raise_by_one(&open);
    CHECK_EQ(weft_join(task, NULL), 0);
    const weft_task_info after = info_of(task);
    CHECK(after.has_run);
    CHECK(after.runs >= 1);
    CHECK_EQ(after.stack_size, 0); /* released */
    CHECK_STR(after.name, info.name);
    weft_task_unref(task);
    return 0;
}

static void task_info_reports_all_fields(void)
{
    run_under(EVERYWHERE, check_info);
}

static void expect_no_parent(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    weft_task *task = go_into(runtime, echo, NULL);
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK_EQ(info_of(task).parent_id, 0);
    CHECK_STR(info_of(task).name, "");
    weft_task_unref(task);
}

/* behaviour 27 */
static void task_info_of_a_task_from_a_thread_has_no_parent(void)
{
    open_under(EVERYWHERE, expect_no_parent);
}

/* ---- states ---------------------------------------------------------------------------------- */

struct state_names {
    enum weft_task_state state;
    bool has_run;
    const char *names[6]; /* by style */
};

static const enum weft_state_style styles[6] = {
    WEFT_STATE_STYLE_WEFT, WEFT_STATE_STYLE_STEAL,   WEFT_STATE_STYLE_REACTOR,
    WEFT_STATE_STYLE_PLAN, WEFT_STATE_STYLE_PROCESS, WEFT_STATE_STYLE_POLL,
};

static const struct state_names state_names[] = {
    {WEFT_TASK_CREATED, false, {"created", "Ready", "Ready", "Created", "Ready", "SCHEDULED"}},
    {WEFT_TASK_READY, true, {"ready", "Ready", "Resumed", "Resumed", "Ready", "SCHEDULED"}},
    {WEFT_TASK_RUNNING, true, {"running", "Running", "Running", "Running", "Running", "RUNNING"}},
    {WEFT_TASK_BLOCKED, true, {"blocked", "Blocked", "Suspended", "Suspended", "Blocked", "IDLE"}},
    {WEFT_TASK_COMPLETED,
     true,
     {"completed", "Complete", "Completed", "Completed", "Complete", "COMPLETE"}},
    {WEFT_TASK_FAILED, true, {"failed", "Complete", "Failed", "Failed", "Complete", "COMPLETE"}},
    {WEFT_TASK_CANCELLED,
     true,
     {"cancelled", "Complete", "Failed", "Failed", "Complete", "COMPLETE"}},
};

static void check_state(const weft_task *task, enum weft_task_state state)
{
    const weft_task_info info = info_of(task);
    CHECK_EQ(info.state, state);
    CHECK_EQ(state_names[state].state, state);
    CHECK_EQ(info.has_run, state_names[state].has_run);
    for (int i = 0; i < 6; i++) {
        CHECK_STR(weft_state_style_name(styles[i], info.state), state_names[state].names[i]);
    }
}

struct lifecycle {
    wf_atomic_u32 started;
    wf_atomic_u32 may_block;
    weft_task *awaited;
    intptr_t result;
};

static intptr_t run_states(void *arg)
{
    struct lifecycle *lifecycle = arg;
    check_state(weft_self(), WEFT_TASK_RUNNING);
    raise_by_one(&lifecycle->started);
    wait_for(&lifecycle->may_block, 1);
    int rc = weft_join(lifecycle->awaited, NULL);
    return rc < 0 ? rc : lifecycle->result;
}

/* One worker: while this task runs, no other does. */
static enum weft_task_state check_states(struct lifecycle *lifecycle, bool is_cancelled)
{
    wf_atomic_u32 open = {0};
    lifecycle->awaited = go(stand_by, &open);
    weft_task *task = go(run_states, lifecycle);
    check_state(task, WEFT_TASK_CREATED);
    CHECK_EQ(info_of(task).runs, 0);
    CHECK_EQ(info_of(task).stack_size, 0); /* allocated at the first run */
    wait_for(&lifecycle->started, 1);
    check_state(task, WEFT_TASK_READY);
    CHECK(info_of(task).stack_size > 0);
    raise_by_one(&lifecycle->may_block);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    check_state(task, WEFT_TASK_BLOCKED);
    const weft_task_info info = info_of(task);
    CHECK_EQ(info.wait, WEFT_WAIT_TASK);
    CHECK(info.wait_object == lifecycle->awaited);
    CHECK_EQ(info.wait_task_id, weft_task_id(lifecycle->awaited));
    CHECK(info.wait_since <= wf_clock_now());
    if (is_cancelled) {
        CHECK_EQ(weft_cancel(task), 0);
    } else {
        raise_by_one(&open);
    }
    intptr_t result = 1;
    CHECK_EQ(weft_join(task, &result), 0);
    raise_by_one(&open);
    CHECK_EQ(weft_await(lifecycle->awaited), 0);
    CHECK_EQ(result, is_cancelled ? -ECANCELED : lifecycle->result);
    CHECK_EQ(info_of(task).result, result);
    CHECK_EQ(info_of(task).is_cancelled, is_cancelled);
    const enum weft_task_state state = state_of(task);
    check_state(task, state);
    weft_task_unref(task);
    return state;
}

static intptr_t check_all_ends(void *arg)
{
    (void)arg;
    CHECK_EQ(check_states(&(struct lifecycle){.result = 7}, false), WEFT_TASK_COMPLETED);
    CHECK_EQ(check_states(&(struct lifecycle){.result = -EIO}, false), WEFT_TASK_FAILED);
    CHECK_EQ(check_states(&(struct lifecycle){.result = 7}, true), WEFT_TASK_CANCELLED);
    /* A task that returns -ECANCELED without a cancel has failed. */
    CHECK_EQ(check_states(&(struct lifecycle){.result = -ECANCELED}, false), WEFT_TASK_FAILED);
    return 0;
}

static intptr_t acquire_permit(void *arg)
{
    return weft_sem_acquire(arg, 1);
}

/* The woken task is ready but does not run: this task does. */
static intptr_t check_states_of_a_wake(void *arg)
{
    (void)arg;
    weft_sem sem = {0};
    weft_task *task = go(acquire_permit, &sem);
    check_state(task, WEFT_TASK_CREATED);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    check_state(weft_self(), WEFT_TASK_RUNNING);
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    check_state(task, WEFT_TASK_READY);
    CHECK_EQ(weft_join(task, NULL), 0);
    check_state(task, WEFT_TASK_COMPLETED);
    weft_task_unref(task);
    return 0;
}

/* S0.20 */
static void task_state_after_a_wake_is_ready(void)
{
    run_under(ON_ONE_WORKER, check_states_of_a_wake);
}

/* X8, S0.8, S0.20, S1.21, S1.30, S2.15, S4.36, part of S3.17, behaviour 27; X22 */
static void state_name_covers_all_states_in_all_styles(void)
{
    run_under(ON_ONE_WORKER, check_all_ends);
}

static void wait_name_is_unique_for_each_wait(void)
{
    for (int i = 0; i < WEFT_WAIT_KINDS; i++) {
        CHECK(weft_wait_name((enum weft_wait)i)[0] != '\0');
        for (int j = 0; j < i; j++) {
            CHECK(strcmp(weft_wait_name((enum weft_wait)i), weft_wait_name((enum weft_wait)j)) !=
                  0);
        }
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t blocks_allocated(void)
{
    struct wf_alloc_stats stats;
    wf_alloc_stats(&stats);
    return stats.allocated;
}

/* Allocates memory for the largest number of live tasks once, and reuses it in every later batch.
 * */
static intptr_t spawn_batches(void *arg)
{
    (void)arg;
    enum { BATCH = 300, BATCHES = 20 };
    weft_task *tasks[BATCH];
    uint64_t blocks = 0;
    for (int round = 0; round < BATCHES; round++) {
        for (int i = 0; i < BATCH; i++) {
            tasks[i] = go(echo, NULL);
        }
        CHECK_EQ(weft_await_all(tasks, BATCH, NULL), 0);
        if (round == 0) {
            blocks = blocks_allocated();
        }
    }
    CHECK_EQ(blocks_allocated(), blocks);
    return 0;
}

/* S2.51: with test_fork.c, whose forks pass through no queue */
static void task_memory_is_reused(void)
{
    run_under(ON_ONE_WORKER, spawn_batches);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { STEPS = 200 };

static intptr_t check_thread_stays(void *arg)
{
    (void)arg;
    const int id = wf_thread_id();
    CHECK(info_of(weft_self()).is_pinned);
    for (int i = 0; i < STEPS; i++) {
        (void)weft_yield();
        CHECK_EQ(wf_thread_id(), id);
    }
    return 0;
}

static intptr_t yield_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < STEPS; i++) {
        (void)weft_yield();
    }
    return 0;
}

static intptr_t pin_for_a_while(void *arg)
{
    (void)weft_yield();
    CHECK_EQ(weft_pin_begin(), 0);
    CHECK_EQ(weft_pin_begin(), 0);
    CHECK_EQ(weft_pin_end(), 0);
    CHECK_EQ(check_thread_stays(arg), 0);
    CHECK_EQ(weft_pin_end(), 0);
    CHECK(!info_of(weft_self()).is_pinned);
    return yield_often(arg);
}

static intptr_t run_pinned_beside_others(void *arg)
{
    (void)arg;
    enum { EACH = 3 };
    weft_task *tasks[3 * EACH];
    const weft_task_options options = {.is_pinned = true};
    for (int i = 0; i < 3 * EACH; i += 3) {
        CHECK_EQ(weft_spawn(&tasks[i], check_thread_stays, NULL, &options), 0);
        tasks[i + 1] = go(yield_often, NULL);
        tasks[i + 2] = go(pin_for_a_while, NULL);
    }
    return weft_await_all(tasks, 3 * EACH, NULL);
}

/* Other workers steal whatever they can. */
static void pin_keeps_a_task_on_its_thread(void)
{
    run_under(EVERYWHERE, run_pinned_beside_others);
}

static intptr_t unpin_too_often(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_pin_end(), -EINVAL);
    CHECK(!info_of(weft_self()).is_pinned);
    CHECK_EQ(weft_pin_begin(), 0);
    CHECK_EQ(weft_pin_end(), 0);
    CHECK_EQ(weft_pin_end(), -EINVAL);
    CHECK(!info_of(weft_self()).is_pinned);
    return 0;
}

static void pin_end_of_a_task_that_is_not_pinned_fails(void)
{
    run_under(EVERYWHERE, unpin_too_often);
}

/* In each round the pinned task is queued on its worker, which is occupied until tasks queued
 * behind it have run: thieves would have taken it before them. */
struct steal_trap {
    int thread; /* plain: the thread of the pinned task */
    wf_atomic_u32 stolen;
    wf_atomic_u32 is_over;
};

enum { WITNESSES = 5, ROUNDS = 20 };

static intptr_t occupy_worker(void *arg)
{
    struct steal_trap *steal_trap = arg;
    if (wf_thread_id() == steal_trap->thread) { /* else the round shows nothing */
        for (int i = 0; i < WITNESSES; i++) {
            weft_task_unref(go(count_up, &steal_trap->stolen));
        }
        hold_for(&steal_trap->stolen, WITNESSES);
    }
    raise_by_one(&steal_trap->is_over);
    return 0;
}

static intptr_t check_not_stolen(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct steal_trap steal_trap = {.thread = wf_thread_id()};
        weft_task *task = go(occupy_worker, &steal_trap);
        while (wf_load_acquire(&steal_trap.is_over) == 0) {
            (void)weft_yield();
            CHECK_EQ(wf_thread_id(), steal_trap.thread);
        }
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(wf_thread_id(), steal_trap.thread);
    }
    return 0;
}

static intptr_t pin_and_check_not_stolen(void *arg)
{
    CHECK_EQ(weft_pin_begin(), 0);
    CHECK_EQ(check_not_stolen(arg), 0);
    return weft_pin_end();
}

static intptr_t check_pinned_tasks(void *arg)
{
    weft_task *task = NULL;
    const weft_task_options options = {.is_pinned = true};
    CHECK_EQ(weft_spawn(&task, check_not_stolen, arg, &options), 0);
    CHECK_EQ(weft_await(task), 0);
    return weft_await(go(pin_and_check_not_stolen, arg));
}

static void steal_never_takes_a_pinned_task(void)
{
    run_under(ON_SEVERAL, check_pinned_tasks);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static intptr_t spawn_with_bad_options(void *arg)
{
    (void)arg;
    static char no_task;
    weft_task *const before = (weft_task *)(void *)&no_task;
    weft_task *task = before;
    const weft_task_options bad[] = {
        {.stack_size = SIZE_MAX},
        {.stack_size = WF_STACK_SIZE_MAX + 1},
        {.arg_copy = 8},
        {.priority = (enum weft_priority)99},
        {.size = 1},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(weft_spawn(&task, echo, NULL, &bad[i]), -EINVAL);
    }
    CHECK(task == before);
    return 0;
}

static void spawn_rejects_bad_options(void)
{
    run_under(EVERYWHERE, spawn_with_bad_options);
}

static void task_calls_outside_of_tasks_fail_with_eperm(void)
{
    weft_task *task = NULL;
    CHECK(weft_self() == NULL);
    CHECK(weft_runtime_self() == NULL);
    CHECK(weft_go(echo, NULL) == NULL);
    CHECK_EQ(weft_spawn(&task, echo, NULL, NULL), -EPERM);
    CHECK(task == NULL);
    CHECK_EQ(weft_shield_begin(), -EPERM);
    CHECK_EQ(weft_shield_end(), -EPERM);
}

static void spawn_detached(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    wf_atomic_u32 ended = {0};
    weft_task *task = NULL;
    const weft_task_options options = {.is_detached = true};
    CHECK_EQ(weft_runtime_spawn(runtime, NULL, count_up, &ended, NULL), 0);
    CHECK_EQ(weft_runtime_spawn(runtime, &task, count_up, &ended, &options), 0);
    CHECK(task == NULL);
    wait_for(&ended, 2);
}

/* behaviour 34 */
static void detached_task_runs_without_a_handle(void)
{
    open_under(EVERYWHERE, spawn_detached);
}

static const struct tap_test tests[] = {
    TAP_TEST(spawn_starts_a_task_without_an_await),
    TAP_TEST(await_returns_every_result_value_unchanged),
    TAP_TEST(spawn_and_await_publish_plain_memory),
    TAP_TEST(arg_copy_option_copies_the_argument_into_the_task),
    TAP_TEST(stack_size_option_of_a_task_is_honoured),
    TAP_TEST(stack_size_option_of_a_runtime_is_the_default),
    TAP_TEST(keeps_fp_control_option_keeps_the_rounding_mode_per_task),
    TAP_TEST(task_ids_start_at_1_and_are_never_reused),
    TAP_TEST(task_info_reports_all_fields),
    TAP_TEST(task_info_of_a_task_from_a_thread_has_no_parent),
    TAP_TEST(task_state_after_a_wake_is_ready),
    TAP_TEST(state_name_covers_all_states_in_all_styles),
    TAP_TEST(wait_name_is_unique_for_each_wait),
    TAP_TEST(task_memory_is_reused),
    TAP_TEST(pin_keeps_a_task_on_its_thread),
    TAP_TEST(pin_end_of_a_task_that_is_not_pinned_fails),
    TAP_TEST(steal_never_takes_a_pinned_task),
    TAP_TEST(spawn_rejects_bad_options),
    TAP_TEST(task_calls_outside_of_tasks_fail_with_eperm),
    TAP_TEST(detached_task_runs_without_a_handle),
};
TAP_MAIN(tests)
