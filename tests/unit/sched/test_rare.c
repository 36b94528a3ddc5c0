/* SPDX-License-Identifier: MIT */
/*
 * Goal:   what happens rarely comes out right: wake-ups at the last moment, queues that are full
 *         just then, runtimes that go while their tasks wait for another's.
 * Method: each scene leads into one branch on purpose, and says so by its mark; where two threads
 *         would have to meet, one operation is run an instruction at a time (step.h).
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "aids.h"
#include "marks.h"
#include "sched/sched.h"
#include "sched_aids.h"
#include "step.h"

/* Where every turn is long, workers look at the clock at each, and go by way of their loop: slow
 * builds do not get everywhere. */
#if defined(__OPTIMIZE__) && defined(__x86_64__) && !defined(WF_TSAN) && !defined(WF_HOSTILE)
#define IS_SLOW 0
#else
#define IS_SLOW 1
#endif

/* A thread that was kept from its CPU has had a long turn, too: then once more. */
static void run_until_reached(enum which which, weft_fn body, const char *mark)
{
    for (unsigned tries = 0; tries_to_reach(mark, &tries);) {
        run_under(which, body);
        if (IS_SLOW) {
            return;
        }
    }
    check_reached(mark);
}

/* ---- going from task to task --------------------------------------------------------------- */

static intptr_t wait_with_a_notice(void *arg)
{
    (void)arg;
    wf_atomic_u32 ran = {0};
    weft_task *task = go(count_up, &ran);
    CHECK_EQ(weft_cancel(weft_self()), 0); /* the notice that the next sleep will find */
    CHECK_EQ(weft_shield(1), 0);
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK_EQ(wf_load_acquire(&ran), 1); /* to raise_by_one */
    CHECK_EQ(weft_shield(0), 0);
    CHECK_EQ(weft_check(), -ECANCELED);
    weft_drop(task);
    return 0;
}

/* part of behaviour 10: woken while it runs, it looks once more */
static void who_was_woken_before_it_sleeps_goes_on(void)
{
    run_under(EVERYWHERE, wait_with_a_notice);
    check_reached("worker.woken_before_it_slept");
}

static intptr_t end_before_a_larger_one(void *arg)
{
    (void)arg;
    const weft_task_options large = {.stack_size = (size_t)1 << 20};
    const weft_task_options rounding = {.keeps_fp_control = true};
    weft_task *tasks[2];
    CHECK_EQ(weft_spawn(&tasks[0], echo, (void *)7, &large), 0);
    CHECK_EQ(weft_spawn(&tasks[1], echo, (void *)8, &rounding), 0);
    weft_drop(go(echo, NULL)); /* runs first, being the newest, and finds one of them next */
    CHECK_EQ(weft_await(tasks[0]), 7);
    CHECK_EQ(weft_await(tasks[1]), 8);
    return 0;
}

static void who_needs_another_stack_does_not_get_the_last_ones(void)
{
    run_until_reached(EVERYWHERE, end_before_a_larger_one, "worker.stack_does_not_fit");
}

enum { CHAIN = 20 };

struct chain {
    unsigned left;      /* plain: each hands it on */
    wf_atomic_u32 ends; /* raised by the last */
};

static intptr_t start_the_next(void *arg)
{
    struct chain *chain = arg;
    if (--chain->left == 0) {
        raise_by_one(&chain->ends);
    } else {
        weft_drop(go(start_the_next, chain));
    }
    return 0;
}

static void run_a_chain(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct chain chain = {.left = CHAIN};
    weft_drop(go_into(runtime, start_the_next, &chain));
    wait_for(&chain.ends, 1);
}

static void the_slot_has_its_turn_after_an_empty_ring(void)
{
    for (unsigned tries = 0; tries_to_reach("fast.slot_after_the_ring", &tries);) {
        open_under(EVERYWHERE, run_a_chain);
    }
    check_reached("fast.slot_after_the_ring");
}

/* ---- queues -------------------------------------------------------------------------------- */

static void call_a_home(weft_runtime *runtime, const struct setting *setting)
{
    const weft_task_options options = {.is_pinned = true};
    weft_task *task = NULL;
    while (stats_of(runtime).parked < setting->workers) {
        (void)sched_yield();
    }
    CHECK_EQ(weft_runtime_spawn(runtime, &task, echo, (void *)7, &options), 0);
    CHECK_EQ(weft_await(task), 7);
}

static void a_pinned_task_wakes_its_worker(void)
{
    open_under(EVERYWHERE, call_a_home);
    check_reached("steal.home_is_called");
}

/* Keeps the worker until somebody wants a break, and then gives one. */
static intptr_t work_until_asked(void *arg)
{
    (void)arg;
    weft_runtime *runtime = weft_runtime_self();
    wf_atomic_u32 ran = {0};
    weft_task *task = go(count_up, &ran);
    while (wf_load_relaxed(&runtime->workers[0].is_asked) == 0) {
        (void)sched_yield();
    }
    const int64_t asked_ns = wf_clock_now();
    while (wf_clock_now() < asked_ns + 2 * WF_TURN_MAX_NS) { /* and it is asked again, no more */
        (void)sched_yield();
    }
    CHECK_EQ(wf_load_acquire(&ran), 0); /* to raise_by_one */
    CHECK_EQ(weft_check(), 0);
    CHECK_EQ(wf_load_acquire(&ran), 1);
    return weft_await(task);
}

/* S1.11 */
static void the_reactor_asks_long_turns_for_a_break(void)
{
    const struct setting setting = {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 1};
    const weft_options options = options_of(&setting);
    CHECK_EQ(weft_run(work_until_asked, NULL, &options), 0);
    check_reached("reactor.break_asked");
}

/* ---- waiting ------------------------------------------------------------------------------- */

#ifdef WF_TEST_AIDS

struct encounter {
    weft_runtime *runtime;
    weft_task *task;
    wf_atomic_u32 open;
    int rc;
};

static void join_it(void *context)
{
    struct encounter *encounter = context;
    encounter->rc = weft_join(encounter->task, NULL);
}

static void end_it(void *context)
{
    struct encounter *encounter = context;
    raise_by_one(&encounter->open);
    while (weft_try_join(encounter->task, NULL) != 0) {
        (void)sched_yield();
    }
}

/* Stops at the instruction at which the mark is reached: later ones sleep until the end, which
 * nobody would bring about. */
static void meet_an_end(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    const char *const mark = "join.ended_before_it_was_listed";
    for (uint64_t at = 1; !is_reached(mark); at++) {
        struct encounter encounter = {.runtime = runtime};
        encounter.task = go_into(runtime, stand_by, &encounter.open);
        CHECK(step_interrupt(at, join_it, end_it, &encounter));
        CHECK_EQ(encounter.rc, 0);
        weft_drop(encounter.task);
    }
}

/* part of behaviour 28: the lost waiter */
static void an_end_between_two_steps_of_a_join_is_seen(void)
{
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    const weft_options options = options_of(&setting);
    weft_runtime *runtime = NULL;
    step_require();
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    meet_an_end(runtime, &setting);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

static void spawn_one_more(void *context)
{
    struct encounter *encounter = context;
    weft_task *task = NULL;
    encounter->rc = weft_runtime_spawn(encounter->runtime, &task, echo, (void *)7, NULL);
    encounter->rc = encounter->rc == 0 && weft_await(task) == 7 ? 0 : -EIO;
}

static void make_room(void *context)
{
    struct encounter *encounter = context;
    raise_by_one(&encounter->open);
    while (wf_load_relaxed(&encounter->runtime->room.live) > 0) {
        (void)sched_yield();
    }
}

/* As above. */
static void room_that_comes_between_two_steps_of_a_wait_is_seen(void)
{
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    weft_options options = options_of(&setting);
    weft_runtime *runtime = NULL;
    step_require();
    options.tasks_max = 1;
    options.spawn_waits = true;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (uint64_t at = 1; !is_reached("room.made_before_it_slept"); at++) {
        struct encounter encounter = {.runtime = runtime};
        encounter.task = go_into(runtime, stand_by, &encounter.open);
        CHECK(step_interrupt(at, spawn_one_more, make_room, &encounter));
        CHECK_EQ(encounter.rc, 0);
        weft_drop(encounter.task);
        make_room(&encounter); /* of the second task, too */
    }
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

#endif

static intptr_t race_with_the_dead(void *arg)
{
    (void)arg;
    wf_atomic_u32 never = {0};
    intptr_t result = 0;
    weft_task *tasks[] = {go(stand_by_or_leave, &never), go(echo, (void *)7),
                          go(stand_by_or_leave, &never)};
    CHECK_EQ(weft_join(tasks[1], NULL), 0);
    CHECK_EQ(weft_race(tasks, 3, &result), 1);
    CHECK_EQ(result, 7);
    return 0;
}

/* behaviour 36 */
static void who_has_ended_before_a_race_wins_it(void)
{
    run_under(EVERYWHERE, race_with_the_dead);
    check_reached("join.race_was_over");
}

struct queue {
    wf_atomic_u32 open;
    wf_atomic_u32 is_second_through;
    weft_task *first;
    weft_task *second;
};

/* Keeps its own place until the second had its room, which is not that of its end. */
static intptr_t spawn_or_stay(void *arg)
{
    struct queue *queue = arg;
    wf_atomic_u32 ran = {0};
    weft_task *task = NULL;
    int rc = weft_spawn(&task, count_up, &ran, NULL);
    CHECK_EQ(weft_shield(1), 0);
    if (rc == 0) {
        CHECK_EQ(weft_await(task), 0);
    }
    wait_for(&queue->is_second_through, 1);
    CHECK_EQ(weft_shield(0), 0);
    return rc;
}

static intptr_t spawn_second(void *arg)
{
    struct queue *queue = arg;
    wf_atomic_u32 ran = {0};
    weft_task *task = NULL;
    CHECK_EQ(weft_spawn(&task, count_up, &ran, NULL), 0);
    raise_by_one(&queue->is_second_through);
    return weft_await(task);
}

/* The two that wait have low priority: so we run before the first, which was woken, and cancel it.
 * Now and then a low one has its turn before us; then nothing is passed on. */
static intptr_t cancel_who_was_let_in(void *arg)
{
    (void)arg;
    const weft_task_options low = {.priority = WEFT_PRIORITY_LOW};
    struct queue queue = {.open = {0}};
    weft_task *last = go(stand_by, &queue.open);
    CHECK_EQ(weft_spawn(&queue.first, spawn_or_stay, &queue, &low), 0);
    CHECK_EQ(weft_spawn(&queue.second, spawn_second, &queue, &low), 0);
    wait_for_state(queue.first, WEFT_BLOCKED);
    wait_for_state(queue.second, WEFT_BLOCKED);
    raise_by_one(&queue.open);
    CHECK_EQ(weft_await(last), 0);
    CHECK_EQ(weft_cancel(queue.first), 0);
    CHECK_EQ(weft_await(queue.second), 0);
    intptr_t result = weft_await(queue.first);
    CHECK(result == 0 || result == -ECANCELED);
    return 0;
}

static void room_for_one_who_was_cancelled_is_the_nexts(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        tour.options.tasks_max = 4; /* the first task, the last one, and two that want more */
        tour.options.spawn_waits = true;
        for (unsigned tries = 0; tries_to_reach("room.passed_on", &tries);) {
            CHECK_EQ(weft_run(cancel_who_was_let_in, NULL, &tour.options), 0);
        }
    }
    check_reached("room.passed_on");
}

/* ---- runtimes that go ---------------------------------------------------------------------- */

struct closing {
    weft_runtime *runtime;
    wf_atomic_u32 open;
    wf_atomic_u32 thread_id;
};

/* Shielded, so that closing cannot end it before it wants to. */
static intptr_t stand_by_shielded(void *arg)
{
    CHECK_EQ(weft_shield(1), 0);
    wait_for(arg, 1);
    CHECK_EQ(weft_shield(0), 0);
    return 0;
}

static void *close_it(void *arg)
{
    struct closing *closing = arg;
    (void)wf_fetch_add_release(&closing->thread_id, (uint32_t)wf_thread_id());
    CHECK_EQ(weft_runtime_close(closing->runtime, -1), 0);
    return NULL;
}

static void spawn_while_it_closes(const weft_options *options)
{
    struct closing closing = {.runtime = NULL};
    weft_task *task = NULL;
    pthread_t thread;
    CHECK_EQ(weft_runtime_open(&closing.runtime, options), 0);
    weft_drop(go_into(closing.runtime, stand_by_shielded, &closing.open));
    CHECK_EQ(wf_thread_start(&thread, close_it, &closing, NULL), 0);
    wait_for(&closing.thread_id, 1);
    int rc = 0;
    while (rc == 0) { /* until it has begun */
        rc = weft_runtime_spawn(closing.runtime, &task, echo, NULL, NULL);
        weft_drop(rc == 0 ? task : NULL);
    }
    CHECK_EQ(rc, -ESHUTDOWN);
    raise_by_one(&closing.open);
    CHECK_EQ(wf_thread_join(thread), 0);
}

/* part of behaviour 49: submit racing stop, submit after stop */
static void a_runtime_that_closes_takes_nothing_new(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        spawn_while_it_closes(&tour.options);
    }
    check_reached("task.gate_is_closed");
}

/* A task of a runtime that goes, in the lists of one that stays. */
struct guest {
    weft_runtime *host;
    weft_task *tasks[2];
    wf_atomic_u32 open;
};

static intptr_t join_outside(void *arg)
{
    struct guest *guest = arg;
    CHECK_EQ(weft_shield(1), 0);
    return weft_join(guest->tasks[0], NULL);
}

static intptr_t race_outside(void *arg)
{
    struct guest *guest = arg;
    CHECK_EQ(weft_shield(1), 0);
    weft_task *tasks[] = {weft_task_ref(guest->tasks[0]), weft_task_ref(guest->tasks[1])};
    return weft_race(tasks, 2, NULL);
}

static intptr_t spawn_outside(void *arg)
{
    struct guest *guest = arg;
    CHECK_EQ(weft_shield(1), 0);
    return weft_runtime_spawn(guest->host, NULL, echo, NULL, NULL);
}

static intptr_t stop_outside(void *arg)
{
    struct guest *guest = arg;
    CHECK_EQ(weft_shield(1), 0);
    return weft_stop_the_world(guest->host);
}

/* Until the guest waits, then its runtime goes by force. */
static void evict(struct guest *guest, weft_fn fn, enum weft_wait wait, const weft_options *options)
{
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    weft_task *task = go_into(runtime, fn, guest);
    wait_for_state(task, WEFT_BLOCKED);
    CHECK_EQ(info_of(task).wait, wait);
    CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    CHECK_EQ(weft_await(task), -ECANCELED);
}

static void evict_joiners(const weft_options *options)
{
    struct guest guest = {.host = NULL};
    CHECK_EQ(weft_runtime_open(&guest.host, options), 0);
    for (int i = 0; i < 2; i++) {
        guest.tasks[i] = go_into(guest.host, stand_by, &guest.open);
    }
    evict(&guest, join_outside, WEFT_WAIT_OUTER_TASK, options);
    evict(&guest, race_outside, WEFT_WAIT_OUTER_TASKS, options);
    raise_by_one(&guest.open);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_join(guest.tasks[i], NULL), 0);
        weft_drop(guest.tasks[i]);
        weft_drop(guest.tasks[i]); /* the handle that the race had */
    }
    CHECK_EQ(weft_runtime_close(guest.host, -1), 0);
}

static void evict_spawner(weft_options options)
{
    struct guest guest = {.host = NULL};
    weft_options full = options;
    full.tasks_max = 1;
    full.spawn_waits = true;
    CHECK_EQ(weft_runtime_open(&guest.host, &full), 0);
    weft_task *task = go_into(guest.host, stand_by, &guest.open);
    evict(&guest, spawn_outside, WEFT_WAIT_ROOM, &options);
    raise_by_one(&guest.open);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_await(go_into(guest.host, echo, (void *)7)), 7); /* the room is there */
    CHECK_EQ(weft_runtime_close(guest.host, -1), 0);
}

struct keeper {
    wf_atomic_u32 begun;
    wf_atomic_u32 may_end;
};

static intptr_t keep_the_worker(void *arg)
{
    struct keeper *keeper = arg;
    raise_by_one(&keeper->begun);
    hold_for(&keeper->may_end, 1);
    return 0;
}

/* Nothing else runs there until the runtime is closed by force. */
static intptr_t keep_the_worker_to_the_end(void *arg)
{
    weft_runtime *runtime = weft_runtime_self();
    raise_by_one(arg);
    while (wf_load_acquire(&runtime->is_leaving) != WF_LEAVE_NOW) { /* to the closer's store */
        (void)sched_yield();
    }
    return 0;
}

/* The guest was counted in the host, and waited for the queue; there was room and it was told, but
 * it never ran again. */
static void the_count_of_a_guest_that_was_woken_is_given_back(void)
{
    const weft_options options = options_of(&settings[0]);
    weft_options limited = options;
    limited.global_capacity = 1;
    limited.tasks_max = 3;
    limited.spawn_waits = true;
    struct guest guest = {.host = NULL};
    weft_runtime *home = NULL;
    wf_atomic_u32 is_home_busy = {0};
    struct keeper abroad = {.begun = {0}};
    CHECK_EQ(weft_runtime_open(&guest.host, &limited), 0);
    CHECK_EQ(weft_runtime_open(&home, &options), 0);
    weft_task *first = go_into(guest.host, keep_the_worker, &abroad);
    wait_for(&abroad.begun, 1);
    weft_task *second = go_into(guest.host, echo, (void *)7); /* the queue is full */
    weft_task *waiting = go_into(home, spawn_outside, &guest);
    wait_for_state(waiting, WEFT_BLOCKED);
    weft_task *busy = go_into(home, keep_the_worker_to_the_end, &is_home_busy);
    wait_for(&is_home_busy, 1);
    raise_by_one(&abroad.may_end);
    CHECK_EQ(weft_await(first), 0);
    CHECK_EQ(weft_await(second), 7); /* it was taken out of the queue */
    CHECK_EQ(state_of(waiting), WEFT_RUNNABLE);
    CHECK_EQ(weft_runtime_close(home, 0), -ETIMEDOUT);
    CHECK_EQ(weft_await(busy), 0);
    CHECK_EQ(weft_await(waiting), -ECANCELED);
    weft_task *tasks[3];
    for (int i = 0; i < 3; i++) { /* as many as may live at once */
        tasks[i] = go_into(guest.host, stand_by, &guest.open);
    }
    raise_by_one(&guest.open);
    CHECK_EQ(weft_await_all(tasks, 3, NULL), 0);
    CHECK_EQ(weft_runtime_close(guest.host, -1), 0);
}

static void evict_stopper(const weft_options *options)
{
    struct guest guest = {.host = NULL};
    CHECK_EQ(weft_runtime_open(&guest.host, options), 0);
    CHECK_EQ(weft_stop_the_world(guest.host), 0);
    evict(&guest, stop_outside, WEFT_WAIT_WORLD, options);
    CHECK_EQ(weft_start_the_world(guest.host), 0);
    CHECK_EQ(weft_await(go_into(guest.host, echo, (void *)7)), 7); /* it is nobody's turn */
    CHECK_EQ(weft_runtime_close(guest.host, -1), 0);
}

/* part of behaviour 19, part of behaviour 34 */
static void who_goes_with_its_runtime_is_forgotten_by_others(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        evict_joiners(&tour.options);
        evict_spawner(tour.options);
        evict_stopper(&tour.options);
    }
    check_reached("runtime.forgets_a_join");
    check_reached("runtime.forgets_a_wait_for_room");
    check_reached("runtime.forgets_a_turn");
}

static intptr_t close_another(void *arg)
{
    const struct setting *setting = arg;
    const weft_options options = options_of(setting);
    struct guest guest = {.host = weft_runtime_self()};
    guest.tasks[0] = go(stand_by, &guest.open);
    evict(&guest, join_outside, WEFT_WAIT_OUTER_TASK, &options);
    raise_by_one(&guest.open);
    CHECK_EQ(weft_await(guest.tasks[0]), 0);
    while (stats_of(guest.host).live > 1) { /* whoever awaits may be told a moment earlier */
        let_others_run();
    }
    const weft_stats stats = stats_of(guest.host);
    CHECK_EQ(stats.live, 1); /* ourselves: what ended elsewhere is not counted here */
    CHECK_EQ(stats.total.spawned, 2);
    CHECK_EQ(stats.total.completed, 1);
    return 0;
}

static void a_task_may_close_another_runtime_by_force(void)
{
    run_under(EVERYWHERE, close_another);
}

static void a_failure_that_outlives_its_runtime_is_told_nobody(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, echo, (void *)-EIO);
        wait_for_state(task, WEFT_FAILED);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(weft_cancel(task), 0); /* late, and no harm */
        weft_drop(task);                /* the hook would fail the test */
    }
    check_reached("fail.after_its_runtime");
    check_reached("worker.woken_after_its_runtime");
    check_reached("pool.outlived_its_runtime");
}

/* ---- a sandbox that closes later ----------------------------------------------------------- */

/* From now on, in all threads, the kernel refuses membarrier. */
static void forbid_barriers(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
        tap_skip("the kernel takes no filters here");
    }
}

static intptr_t raise_in_task(void *arg)
{
    raise_by_one(arg);
    return 0;
}

static intptr_t spawn_until_stolen(void *arg)
{
    (void)arg;
    wf_atomic_u32 sum = {0};
    uint32_t spawned = 0;
    forbid_barriers();
    while (stats_of(weft_runtime_self()).total.stolen == 0) {
        weft_task *tasks[32];
        for (size_t i = 0; i < 32; i++) {
            tasks[i] = go(raise_in_task, &sum);
        }
        CHECK_EQ(weft_await_all(tasks, 32, NULL), 0);
        spawned += 32;
    }
    CHECK_EQ(wf_load_acquire(&sum), spawned);
    return 0;
}

static void a_fence_that_is_refused_later_is_done_without(void)
{
    const weft_options options = {.workers = 2};
    CHECK_EQ(weft_run(spawn_until_stolen, NULL, &options), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(who_was_woken_before_it_sleeps_goes_on),
    TAP_TEST(who_needs_another_stack_does_not_get_the_last_ones),
    TAP_TEST(the_slot_has_its_turn_after_an_empty_ring),
    TAP_TEST(a_pinned_task_wakes_its_worker),
    TAP_TEST(the_reactor_asks_long_turns_for_a_break),
#ifdef WF_TEST_AIDS
    TAP_TEST(an_end_between_two_steps_of_a_join_is_seen),
    TAP_TEST(room_that_comes_between_two_steps_of_a_wait_is_seen),
#endif
    TAP_TEST(who_has_ended_before_a_race_wins_it),
    TAP_TEST(room_for_one_who_was_cancelled_is_the_nexts),
    TAP_TEST(a_runtime_that_closes_takes_nothing_new),
    TAP_TEST(who_goes_with_its_runtime_is_forgotten_by_others),
    TAP_TEST(the_count_of_a_guest_that_was_woken_is_given_back),
    TAP_TEST(a_task_may_close_another_runtime_by_force),
    TAP_TEST(a_failure_that_outlives_its_runtime_is_told_nobody),
    TAP_TEST(a_fence_that_is_refused_later_is_done_without),
};
TAP_MAIN(tests)
