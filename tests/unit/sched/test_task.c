/* SPDX-License-Identifier: MIT */
/*
 * Goal:   a task begins by itself, gets its argument, gives its result, has an identity, a state
 *         that can be looked at, storage of its own, and stays on a thread when told to.
 * Method: tasks that look at themselves and at each other; plain memory goes along with every
 *         argument and every result.
 */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "sched_aids.h"

/* ---- beginning and result -------------------------------------------------------------------- */

static intptr_t begin_and_look_away(void *arg)
{
    (void)arg;
    wf_atomic_u32 flag = {0};
    weft_task *task = go(count_up, &flag);
    wait_for(&flag, 1); /* nobody awaits it */
    weft_drop(task);
    return 0;
}

/* S2.2, S2.11, S2.12 */
static void a_task_begins_by_itself(void)
{
    run_under(EVERYWHERE, begin_and_look_away);
}

static intptr_t give_many_results(void *arg)
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
static void every_result_comes_back_as_it_was(void)
{
    run_under(EVERYWHERE, give_many_results);
}

static intptr_t add_one(void *arg)
{
    int *number = arg;
    *number += 1;
    return 0;
}

static intptr_t hand_over_and_back(void *arg)
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

/* What the spawner wrote is seen by the task, what that wrote by who awaited it. */
static void plain_memory_travels_with_spawn_and_await(void)
{
    run_under(EVERYWHERE, hand_over_and_back);
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
    memset(arg, 0xee, copied_size); /* it is the task's own */
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
        memset(bytes, 0, sizes[i]); /* ours again as soon as the spawn returned */
        CHECK_EQ(weft_await(task), 0);
    }
    return 0;
}

static void an_argument_can_be_copied_into_the_task(void)
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

static intptr_t ask_for_a_large_stack(void *arg)
{
    (void)arg;
    weft_task *task = NULL;
    const weft_task_options options = {.stack_size = 1 << 20};
    CHECK_EQ(weft_spawn(&task, use_half_a_megabyte, NULL, &options), 0);
    return weft_await(task);
}

static void a_task_gets_the_stack_it_asks_for(void)
{
    run_under(EVERYWHERE, ask_for_a_large_stack);
}

/* The runtime's size is for those who do not ask. */
static void a_runtime_gives_its_tasks_the_stack_it_was_opened_with(void)
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

static void a_rounding_mode_stays_with_the_task_that_keeps_one(void)
{
    run_under(EVERYWHERE, round_beside_others);
}

/* ---- identity and information ---------------------------------------------------------------- */

enum { IDS = 300 };

static uint64_t ids[20 * IDS]; /* over all runtimes of the test */
static size_t id_count;

static intptr_t give_id(void *arg)
{
    (void)arg;
    return (intptr_t)weft_task_id(weft_self());
}

static intptr_t collect_ids(void *arg)
{
    (void)arg;
    for (int i = 0; i < IDS; i++) {
        weft_task *task = go(give_id, NULL);
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

static intptr_t expect_the_first_id(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_task_id(weft_self()), 1);
    return 0;
}

/* S2.18, behaviour 27 */
static void ids_begin_with_one_and_never_come_again(void)
{
    CHECK_EQ(weft_run(expect_the_first_id, NULL, NULL), 0);
    run_under(EVERYWHERE, collect_ids);
    qsort(ids, id_count, sizeof(ids[0]), compare_ids);
    for (size_t i = 1; i < id_count; i++) {
        CHECK(ids[i - 1] < ids[i]);
    }
}

static __attribute__((noinline)) weft_task *spawn_here(wf_atomic_u32 *cell,
                                                       const weft_task_options *options)
{
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn(&task, stand_by, cell, options), 0);
    return task;
}

static intptr_t look_at_a_task(void *arg)
{
    (void)arg;
    wf_atomic_u32 open = {0};
    const weft_task_options options = {
        .name = "a name of more than one and thirty characters",
        .priority = WEFT_PRIORITY_HIGH,
        .is_pinned = true,
    };
    weft_task *task = spawn_here(&open, &options);
    const weft_info info = info_of(task);
    CHECK_EQ(info.id, weft_task_id(task));
    CHECK_EQ(info.parent_id, weft_task_id(weft_self()));
    CHECK_STR(info.name, "a name of more than one and thi");
    CHECK(info.fn == stand_by);
    CHECK((uintptr_t)info.site > (uintptr_t)spawn_here);
    CHECK((uintptr_t)info.site < (uintptr_t)spawn_here + 1024);
    CHECK(info.created > 0); /* of a clock that is read now and then */
    CHECK(info.created <= wf_clock_now());
    CHECK_EQ(info.deadline, WEFT_NEVER);
    CHECK_EQ(info.priority, WEFT_PRIORITY_HIGH);
    CHECK_EQ(info.shields, 0);
    CHECK(!info.is_cancelled);
    CHECK(info.is_pinned);
    CHECK(!info.is_detached);
    raise_by_one(&open);
    CHECK_EQ(weft_join(task, NULL), 0);
    const weft_info after = info_of(task);
    CHECK(after.has_run);
    CHECK(after.runs >= 1);
    CHECK_EQ(after.stack_size, 0); /* given back */
    CHECK_STR(after.name, info.name);
    weft_drop(task);
    return 0;
}

static void a_task_can_be_looked_at(void)
{
    run_under(EVERYWHERE, look_at_a_task);
}

static void expect_no_parent(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    weft_task *task = go_into(runtime, echo, NULL);
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK_EQ(info_of(task).parent_id, 0);
    CHECK_STR(info_of(task).name, "");
    weft_drop(task);
}

/* behaviour 27 */
static void a_task_that_a_thread_spawned_has_no_parent(void)
{
    open_under(EVERYWHERE, expect_no_parent);
}

/* ---- states ---------------------------------------------------------------------------------- */

struct words {
    enum weft_state state;
    bool has_run;
    const char *word[6]; /* by style */
};

static const enum weft_style styles[6] = {
    WEFT_STYLE_WEFT, WEFT_STYLE_STEAL,   WEFT_STYLE_REACTOR,
    WEFT_STYLE_PLAN, WEFT_STYLE_PROCESS, WEFT_STYLE_POLL,
};

static const struct words words[] = {
    {WEFT_CREATED, false, {"created", "Ready", "Ready", "Created", "Ready", "SCHEDULED"}},
    {WEFT_RUNNABLE, true, {"ready", "Ready", "Resumed", "Resumed", "Ready", "SCHEDULED"}},
    {WEFT_RUNNING, true, {"running", "Running", "Running", "Running", "Running", "RUNNING"}},
    {WEFT_BLOCKED, true, {"blocked", "Blocked", "Suspended", "Suspended", "Blocked", "IDLE"}},
    {WEFT_COMPLETED,
     true,
     {"completed", "Complete", "Completed", "Completed", "Complete", "COMPLETE"}},
    {WEFT_FAILED, true, {"failed", "Complete", "Failed", "Failed", "Complete", "COMPLETE"}},
    {WEFT_CANCELLED, true, {"cancelled", "Complete", "Failed", "Failed", "Complete", "COMPLETE"}},
};

static void check_state(const weft_task *task, enum weft_state state)
{
    const weft_info info = info_of(task);
    CHECK_EQ(info.state, state);
    CHECK_EQ(words[state].state, state);
    CHECK_EQ(info.has_run, words[state].has_run);
    for (int i = 0; i < 6; i++) {
        CHECK_STR(weft_state_name(&info, styles[i]), words[state].word[i]);
    }
}

struct life {
    wf_atomic_u32 started;
    wf_atomic_u32 may_block;
    weft_task *awaited;
    intptr_t result;
};

static intptr_t live(void *arg)
{
    struct life *life = arg;
    check_state(weft_self(), WEFT_RUNNING);
    raise_by_one(&life->started);
    wait_for(&life->may_block, 1);
    int rc = weft_join(life->awaited, NULL);
    return rc < 0 ? rc : life->result;
}

/* One worker: while we run, nobody else does. */
static enum weft_state follow(struct life *life, bool is_cancelled)
{
    wf_atomic_u32 open = {0};
    life->awaited = go(stand_by, &open);
    weft_task *task = go(live, life);
    check_state(task, WEFT_CREATED);
    CHECK_EQ(info_of(task).runs, 0);
    CHECK_EQ(info_of(task).stack_size, 0); /* comes with the first run */
    wait_for(&life->started, 1);
    check_state(task, WEFT_RUNNABLE);
    CHECK(info_of(task).stack_size > 0);
    raise_by_one(&life->may_block);
    wait_for_state(task, WEFT_BLOCKED);
    check_state(task, WEFT_BLOCKED);
    const weft_info info = info_of(task);
    CHECK_EQ(info.wait, WEFT_WAIT_TASK);
    CHECK(info.wait_object == life->awaited);
    CHECK_EQ(info.wait_task_id, weft_task_id(life->awaited));
    CHECK(info.wait_since <= wf_clock_now());
    if (is_cancelled) {
        CHECK_EQ(weft_cancel(task), 0);
    } else {
        raise_by_one(&open);
    }
    intptr_t result = 1;
    CHECK_EQ(weft_join(task, &result), 0);
    raise_by_one(&open);
    CHECK_EQ(weft_await(life->awaited), 0);
    CHECK_EQ(result, is_cancelled ? -ECANCELED : life->result);
    CHECK_EQ(info_of(task).result, result);
    CHECK_EQ(info_of(task).is_cancelled, is_cancelled);
    const enum weft_state state = state_of(task);
    check_state(task, state);
    weft_drop(task);
    return state;
}

static intptr_t follow_three_lives(void *arg)
{
    (void)arg;
    CHECK_EQ(follow(&(struct life){.result = 7}, false), WEFT_COMPLETED);
    CHECK_EQ(follow(&(struct life){.result = -EIO}, false), WEFT_FAILED);
    CHECK_EQ(follow(&(struct life){.result = 7}, true), WEFT_CANCELLED);
    /* Whoever gives -ECANCELED without having been asked has failed. */
    CHECK_EQ(follow(&(struct life){.result = -ECANCELED}, false), WEFT_FAILED);
    return 0;
}

static intptr_t wait_for_a_permit(void *arg)
{
    return weft_sem_acquire(arg, 1);
}

/* Who is woken is ready, and no more: we run. */
static intptr_t follow_one_who_is_woken(void *arg)
{
    (void)arg;
    weft_sem sem = {0};
    weft_task *task = go(wait_for_a_permit, &sem);
    check_state(task, WEFT_CREATED);
    wait_for_state(task, WEFT_BLOCKED);
    check_state(weft_self(), WEFT_RUNNING);
    CHECK_EQ(weft_sem_release(&sem, 1), 0);
    check_state(task, WEFT_RUNNABLE);
    CHECK_EQ(weft_join(task, NULL), 0);
    check_state(task, WEFT_COMPLETED);
    weft_drop(task);
    return 0;
}

/* S0.20 */
static void who_is_woken_is_ready_before_it_runs(void)
{
    run_under(ON_ONE_WORKER, follow_one_who_is_woken);
}

/* X8, S0.8, S0.20, S1.21, S1.30, S2.15, S4.36, part of S3.17, behaviour 27; X22 */
static void a_life_has_its_states_in_the_words_of_every_design(void)
{
    run_under(ON_ONE_WORKER, follow_three_lives);
}

static void every_wait_has_a_word_of_its_own(void)
{
    for (int i = 0; i < WEFT_WAIT_KINDS; i++) {
        CHECK(weft_wait_name((enum weft_wait)i)[0] != '\0');
        for (int j = 0; j < i; j++) {
            CHECK(strcmp(weft_wait_name((enum weft_wait)i), weft_wait_name((enum weft_wait)j)) !=
                  0);
        }
    }
}

/* ---- storage --------------------------------------------------------------------------------- */

static weft_key key;
static weft_key quiet_key;
static wf_atomic_u32 destroyed;

static void destroy(void *value)
{
    int *number = value;
    CHECK_EQ(*number, 7);
    free(value);
    raise_by_one(&destroyed);
}

static intptr_t keep_values(void *arg)
{
    CHECK(weft_local(key) != NULL);
    CHECK(*weft_local(key) == NULL);
    CHECK(*weft_local(quiet_key) == NULL);
    int *number = malloc(sizeof(*number));
    CHECK(number != NULL);
    *number = 7;
    *weft_local(key) = number;
    *weft_local(quiet_key) = arg;
    for (int i = 0; i < 10; i++) {
        (void)weft_yield();
        CHECK(*weft_local(key) == number);
        CHECK(*weft_local(quiet_key) == arg);
    }
    return 0;
}

static intptr_t keep_no_value(void *arg)
{
    (void)arg;
    CHECK(*weft_local(key) == NULL); /* a NULL is nothing to destroy */
    return 0;
}

static intptr_t spawn_keepers(void *arg)
{
    (void)arg;
    enum { KEEPERS = 20 };
    weft_task *tasks[KEEPERS + 1];
    wf_store_relaxed(&destroyed, 0);
    for (int i = 0; i < KEEPERS; i++) {
        tasks[i] = go(keep_values, &tasks[i]);
    }
    tasks[KEEPERS] = go(keep_no_value, NULL);
    CHECK_EQ(weft_await_all(tasks, KEEPERS + 1, NULL), 0);
    CHECK(*weft_local(key) == NULL);
    CHECK_EQ(wf_load_acquire(&destroyed), KEEPERS); /* before the end was told */
    return 0;
}

/* part of S2.9, S2.50 */
static void a_task_keeps_values_of_its_own(void)
{
    CHECK_EQ(weft_key_new(&key, destroy), 0);
    CHECK_EQ(weft_key_new(&quiet_key, NULL), 0);
    run_under(EVERYWHERE, spawn_keepers);
}

static intptr_t ask_for_unknown_keys(void *arg)
{
    const weft_key *last = arg;
    CHECK(weft_local(*last) != NULL);
    CHECK(weft_local(1000) == NULL);
    CHECK(weft_local(UINT32_MAX) == NULL);
    return 0;
}

static void there_are_64_keys(void)
{
    weft_key last = 0;
    for (int i = 0; i < 64; i++) {
        CHECK_EQ(weft_key_new(&last, NULL), 0);
    }
    weft_key none = 4711;
    CHECK_EQ(weft_key_new(&none, NULL), -EAGAIN);
    CHECK_EQ(none, 4711);
    CHECK(weft_local(last) == NULL); /* not inside a task */
    CHECK_EQ(weft_run(ask_for_unknown_keys, &last, NULL), 0);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t blocks_allocated(void)
{
    struct wf_alloc_stats stats;
    wf_alloc_stats(&stats);
    return stats.allocated;
}

/* As many as ever are alive at once, and then the same again and again. */
static intptr_t come_and_go(void *arg)
{
    (void)arg;
    enum { TOGETHER = 300, ROUNDS_OF_THEM = 20 };
    weft_task *tasks[TOGETHER];
    uint64_t blocks = 0;
    for (int round = 0; round < ROUNDS_OF_THEM; round++) {
        for (int i = 0; i < TOGETHER; i++) {
            tasks[i] = go(echo, NULL);
        }
        CHECK_EQ(weft_await_all(tasks, TOGETHER, NULL), 0);
        if (round == 0) {
            blocks = blocks_allocated();
        }
    }
    CHECK_EQ(blocks_allocated(), blocks);
    return 0;
}

/* S2.51: with forks, in test_fork.c, which pass through no queue */
static void the_memory_of_those_that_ended_is_used_again(void)
{
    run_under(ON_ONE_WORKER, come_and_go);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { STEPS = 200 };

static intptr_t stay(void *arg)
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

static intptr_t wander(void *arg)
{
    (void)arg;
    for (int i = 0; i < STEPS; i++) {
        (void)weft_yield();
    }
    return 0;
}

static intptr_t stay_for_a_while(void *arg)
{
    (void)weft_yield();
    CHECK_EQ(weft_pin(1), 0);
    CHECK_EQ(weft_pin(1), 0);
    CHECK_EQ(weft_pin(0), 0);
    CHECK_EQ(stay(arg), 0);
    CHECK_EQ(weft_pin(0), 0);
    CHECK(!info_of(weft_self()).is_pinned);
    return wander(arg);
}

static intptr_t mix_the_pinned_with_others(void *arg)
{
    (void)arg;
    enum { EACH = 3 };
    weft_task *tasks[3 * EACH];
    const weft_task_options options = {.is_pinned = true};
    for (int i = 0; i < 3 * EACH; i += 3) {
        CHECK_EQ(weft_spawn(&tasks[i], stay, NULL, &options), 0);
        tasks[i + 1] = go(wander, NULL);
        tasks[i + 2] = go(stay_for_a_while, NULL);
    }
    return weft_await_all(tasks, 3 * EACH, NULL);
}

/* Others are about that take whatever they may. */
static void a_pinned_task_stays_on_its_thread(void)
{
    run_under(EVERYWHERE, mix_the_pinned_with_others);
}

/* One round: the pinned task is queued on its worker, which is held, until others have run that
 * were queued behind it: thieves would have taken it before them. */
struct trap {
    int thread; /* plain: of the pinned task */
    wf_atomic_u32 stolen;
    wf_atomic_u32 is_over;
};

enum { WITNESSES = 5, ROUNDS = 20 };

static intptr_t hold_its_worker(void *arg)
{
    struct trap *trap = arg;
    if (wf_thread_id() == trap->thread) { /* else the round shows nothing */
        for (int i = 0; i < WITNESSES; i++) {
            weft_drop(go(count_up, &trap->stolen));
        }
        hold_for(&trap->stolen, WITNESSES);
    }
    raise_by_one(&trap->is_over);
    return 0;
}

static intptr_t be_left_where_it_is(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct trap trap = {.thread = wf_thread_id()};
        weft_task *task = go(hold_its_worker, &trap);
        while (wf_load_acquire(&trap.is_over) == 0) {
            (void)weft_yield();
            CHECK_EQ(wf_thread_id(), trap.thread);
        }
        CHECK_EQ(weft_await(task), 0);
        CHECK_EQ(wf_thread_id(), trap.thread);
    }
    return 0;
}

static intptr_t pin_and_be_left(void *arg)
{
    CHECK_EQ(weft_pin(1), 0);
    CHECK_EQ(be_left_where_it_is(arg), 0);
    return weft_pin(0);
}

static intptr_t tempt_thieves(void *arg)
{
    weft_task *task = NULL;
    const weft_task_options options = {.is_pinned = true};
    CHECK_EQ(weft_spawn(&task, be_left_where_it_is, arg, &options), 0);
    CHECK_EQ(weft_await(task), 0);
    return weft_await(go(pin_and_be_left, arg));
}

static void nobody_takes_a_pinned_task(void)
{
    run_under(ON_SEVERAL, tempt_thieves);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static intptr_t spawn_badly(void *arg)
{
    (void)arg;
    weft_task *const before = (weft_task *)&key;
    weft_task *task = before;
    const weft_task_options bad[] = {
        {.stack_size = SIZE_MAX},
        {.stack_size = WF_STACK_SIZE_MAX + 1},
        {.arg_copy = 8},
        {.priority = (enum weft_priority)99},
        {.size = 1},
    };
    CHECK_EQ(weft_spawn(&task, NULL, NULL, NULL), -EINVAL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_EQ(weft_spawn(&task, echo, NULL, &bad[i]), -EINVAL);
    }
    CHECK(task == before);
    CHECK_EQ(weft_task_info(NULL, &(weft_info){0}), -EINVAL);
    CHECK_EQ(weft_task_info(weft_self(), NULL), -EINVAL);
    CHECK(weft_go(NULL, NULL) == NULL);
    return 0;
}

static void bad_options_are_refused(void)
{
    run_under(EVERYWHERE, spawn_badly);
}

static void outside_of_tasks_calls_say_so(void)
{
    weft_task *task = NULL;
    CHECK(weft_self() == NULL);
    CHECK(weft_runtime_self() == NULL);
    CHECK(weft_go(echo, NULL) == NULL);
    CHECK_EQ(weft_spawn(&task, echo, NULL, NULL), -EPERM);
    CHECK(task == NULL);
    CHECK_EQ(weft_shield(1), -EPERM);
    CHECK_EQ(weft_shield(0), -EPERM);
}

static void detach(weft_runtime *runtime, const struct setting *setting)
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
static void a_detached_task_has_no_handle_and_runs(void)
{
    open_under(EVERYWHERE, detach);
}

static const struct tap_test tests[] = {
    TAP_TEST(a_task_begins_by_itself),
    TAP_TEST(every_result_comes_back_as_it_was),
    TAP_TEST(plain_memory_travels_with_spawn_and_await),
    TAP_TEST(an_argument_can_be_copied_into_the_task),
    TAP_TEST(a_task_gets_the_stack_it_asks_for),
    TAP_TEST(a_runtime_gives_its_tasks_the_stack_it_was_opened_with),
    TAP_TEST(a_rounding_mode_stays_with_the_task_that_keeps_one),
    TAP_TEST(ids_begin_with_one_and_never_come_again),
    TAP_TEST(a_task_can_be_looked_at),
    TAP_TEST(a_task_that_a_thread_spawned_has_no_parent),
    TAP_TEST(who_is_woken_is_ready_before_it_runs),
    TAP_TEST(a_life_has_its_states_in_the_words_of_every_design),
    TAP_TEST(every_wait_has_a_word_of_its_own),
    TAP_TEST(a_task_keeps_values_of_its_own),
    TAP_TEST(there_are_64_keys),
    TAP_TEST(the_memory_of_those_that_ended_is_used_again),
    TAP_TEST(a_pinned_task_stays_on_its_thread),
    TAP_TEST(nobody_takes_a_pinned_task),
    TAP_TEST(bad_options_are_refused),
    TAP_TEST(outside_of_tasks_calls_say_so),
    TAP_TEST(a_detached_task_has_no_handle_and_runs),
};
TAP_MAIN(tests)
