/* SPDX-License-Identifier: MIT */
/*
 * Goal:   rare branches work: wake-ups at the last moment, queues that are full at that moment,
 *         runtimes that close while their tasks wait in another one.
 * Method: each test leads into one branch on purpose, and checks its reached mark; where two
 *         threads would have to meet, one operation runs one instruction at a time (step.h).
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "helpers.h"
#include "life/life.h"
#include "marks.h"
#include "sched_helpers.h"
#include "step.h"

/* In slow builds every slice is long: workers read the clock at each switch and return to their
 * loop, so that some branches are not reached. */
#if defined(__OPTIMIZE__) && defined(__x86_64__) && !defined(WF_TSAN) && !defined(WF_HOSTILE)
#define IS_SLOW 0
#else
#define IS_SLOW 1
#endif

/* A thread that lost its CPU has had a long slice, too: then repeat. */
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

/* ---- switches between tasks ------------------------------------------------------------------ */

static intptr_t wait_with_pending_cancel(void *arg)
{
    (void)arg;
    wf_atomic_u32 ran = {0};
    weft_task *task = go(count_up, &ran);
    CHECK_EQ(weft_cancel(weft_self()), 0); /* the pending wake that the next suspension finds */
    CHECK_EQ(weft_shield_begin(), 0);
    CHECK_EQ(weft_join(task, NULL), 0);
    CHECK_EQ(wf_load_acquire(&ran), 1); /* pairs with raise_by_one */
    CHECK_EQ(weft_shield_end(), 0);
    CHECK_EQ(weft_check(), -ECANCELED);
    weft_task_unref(task);
    return 0;
}

/* part of behaviour 10: a task that is woken while it runs does not suspend */
static void wake_before_the_suspension_is_not_lost(void)
{
    run_under(EVERYWHERE, wait_with_pending_cancel);
    check_reached("worker.woken_before_it_slept");
}

static intptr_t spawn_with_other_stacks(void *arg)
{
    (void)arg;
    const weft_task_options large = {.stack_size = (size_t)1 << 20};
    const weft_task_options rounding = {.keeps_fp_control = true};
    weft_task *tasks[2];
    CHECK_EQ(weft_spawn(&tasks[0], echo, (void *)7, &large), 0);
    CHECK_EQ(weft_spawn(&tasks[1], echo, (void *)8, &rounding), 0);
    weft_task_unref(
        go(echo, NULL)); /* in the LIFO slot: runs first, then switches to a task above */
    CHECK_EQ(weft_await(tasks[0]), 7);
    CHECK_EQ(weft_await(tasks[1]), 8);
    return 0;
}

static void stack_of_an_ended_task_is_not_reused_for_another_size(void)
{
    run_until_reached(EVERYWHERE, spawn_with_other_stacks, "worker.stack_does_not_fit");
}

enum { CHAIN = 20 };

struct chain {
    unsigned left;      /* plain: each task passes it on */
    wf_atomic_u32 ends; /* raised by the last task */
};

static intptr_t spawn_next(void *arg)
{
    struct chain *chain = arg;
    if (--chain->left == 0) {
        raise_by_one(&chain->ends);
    } else {
        weft_task_unref(go(spawn_next, chain));
    }
    return 0;
}

static void run_chain(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    struct chain chain = {.left = CHAIN};
    weft_task_unref(go_into(runtime, spawn_next, &chain));
    wait_for(&chain.ends, 1);
}

static void lifo_slot_runs_again_when_the_ring_is_empty(void)
{
    for (unsigned tries = 0; tries_to_reach("runq.slot_after_the_ring", &tries);) {
        open_under(EVERYWHERE, run_chain);
    }
    check_reached("runq.slot_after_the_ring");
}

/* ---- queues -------------------------------------------------------------------------------- */

static void spawn_pinned(weft_runtime *runtime, const struct setting *setting)
{
    const weft_task_options options = {.is_pinned = true};
    weft_task *task = NULL;
    while (stats_of(runtime).parked < setting->workers) {
        (void)sched_yield();
    }
    CHECK_EQ(weft_runtime_spawn(runtime, &task, echo, (void *)7, &options), 0);
    CHECK_EQ(weft_await(task), 7);
}

static void inbox_push_wakes_the_parked_worker(void)
{
    open_under(EVERYWHERE, spawn_pinned);
    check_reached("steal.home_is_woken");
}

/* Keeps the worker until the control thread requests preemption, then yields in weft_check. */
static intptr_t work_until_preempted(void *arg)
{
    (void)arg;
    weft_runtime *runtime = weft_runtime_self();
    wf_atomic_u32 ran = {0};
    weft_task *task = go(count_up, &ran);
    while (wf_load_relaxed(&runtime->workers[0].preempt.is_requested) == 0) {
        (void)sched_yield();
    }
    const int64_t requested_ns = wf_clock_now();
    while (wf_clock_now() < requested_ns + 2 * WF_SLICE_MAX_NS) { /* only another request comes */
        (void)sched_yield();
    }
    CHECK_EQ(wf_load_acquire(&ran), 0); /* pairs with raise_by_one */
    CHECK_EQ(weft_check(), 0);
    CHECK_EQ(wf_load_acquire(&ran), 1);
    return weft_await(task);
}

/* S1.11 */
static void reactor_requests_preemption_of_a_long_slice(void)
{
    const struct setting setting = {WEFT_POLICY_REACTOR, WEFT_ORDER_FAIR, 1};
    const weft_runtime_options options = options_of(&setting);
    CHECK_EQ(weft_run(work_until_preempted, NULL, &options), 0);
    check_reached("reactor.preempt_requested");
}

/* ---- waits ----------------------------------------------------------------------------------- */

#ifdef WF_TEST_HOOKS

struct meeting {
    weft_runtime *runtime;
    weft_task *task;
    wf_atomic_u32 open;
    int rc;
};

static void join_task(void *context)
{
    struct meeting *meeting = context;
    meeting->rc = weft_join(meeting->task, NULL);
}

static void end_task(void *context)
{
    struct meeting *meeting = context;
    raise_by_one(&meeting->open);
    while (weft_try_join(meeting->task, NULL) != 0) {
        (void)sched_yield();
    }
}

/* Ends at the instruction at which the mark is reached: at later instructions the join would sleep
 * until the task ends, and no other thread would end it. */
static void end_during_join(weft_runtime *runtime, const struct setting *setting)
{
    (void)setting;
    const char *const mark = "join.ended_before_it_was_listed";
    for (uint64_t at = 1; !is_reached(mark); at++) {
        struct meeting meeting = {.runtime = runtime};
        meeting.task = go_into(runtime, stand_by, &meeting.open);
        CHECK(step_interrupt(at, join_task, end_task, &meeting));
        CHECK_EQ(meeting.rc, 0);
        weft_task_unref(meeting.task);
    }
}

/* part of behaviour 28: the lost waiter */
static void join_sees_an_end_between_any_two_instructions(void)
{
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    const weft_runtime_options options = options_of(&setting);
    weft_runtime *runtime = NULL;
    step_require();
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    end_during_join(runtime, &setting);
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

static void spawn_one_more(void *context)
{
    struct meeting *meeting = context;
    weft_task *task = NULL;
    meeting->rc = weft_runtime_spawn(meeting->runtime, &task, echo, (void *)7, NULL);
    meeting->rc = meeting->rc == 0 && weft_await(task) == 7 ? 0 : -EIO;
}

static void end_live_tasks(void *context)
{
    struct meeting *meeting = context;
    raise_by_one(&meeting->open);
    while (wf_load_relaxed(&meeting->runtime->limits->live) > 0) {
        (void)sched_yield();
    }
}

/* Ends at the mark, like end_during_join. */
static void spawn_wait_sees_an_admission_between_any_two_instructions(void)
{
    const struct setting setting = {WEFT_POLICY_STEAL, WEFT_ORDER_FAIR, 1};
    weft_runtime_options options = options_of(&setting);
    weft_runtime *runtime = NULL;
    step_require();
    options.tasks_max = 1;
    options.spawn_waits = true;
    CHECK_EQ(weft_runtime_open(&runtime, &options), 0);
    for (uint64_t at = 1; !is_reached("limit.made_before_it_slept"); at++) {
        struct meeting meeting = {.runtime = runtime};
        meeting.task = go_into(runtime, stand_by, &meeting.open);
        CHECK(step_interrupt(at, spawn_one_more, end_live_tasks, &meeting));
        CHECK_EQ(meeting.rc, 0);
        weft_task_unref(meeting.task);
        end_live_tasks(&meeting); /* waits for the end of the second task, too */
    }
    CHECK_EQ(weft_runtime_close(runtime, -1), 0);
}

#endif

static intptr_t race_with_ended_task(void *arg)
{
    (void)arg;
    wf_atomic_u32 never = {0};
    intptr_t result = 0;
    weft_task *tasks[] = {go(stand_by_or_leave, &never), go(echo, (void *)7),
                          go(stand_by_or_leave, &never)};
    CHECK_EQ(weft_join(tasks[1], NULL), 0);
    CHECK_EQ(weft_await_first(tasks, 3, &result), 1);
    CHECK_EQ(result, 7);
    return 0;
}

/* behaviour 36 */
static void race_is_won_by_a_task_that_has_ended(void)
{
    run_under(EVERYWHERE, race_with_ended_task);
    check_reached("join.race_was_over");
}

struct queue {
    wf_atomic_u32 open;
    wf_atomic_u32 is_second_through;
    weft_task *first;
    weft_task *second;
};

/* Stays alive until the second spawner was admitted, so that its own end does not admit a task. */
static intptr_t spawn_first(void *arg)
{
    struct queue *queue = arg;
    wf_atomic_u32 ran = {0};
    weft_task *task = NULL;
    int rc = weft_spawn(&task, count_up, &ran, NULL);
    CHECK_EQ(weft_shield_begin(), 0);
    if (rc == 0) {
        CHECK_EQ(weft_await(task), 0);
    }
    wait_for(&queue->is_second_through, 1);
    CHECK_EQ(weft_shield_end(), 0);
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

/* Both waiting spawners have low priority: so this task runs before the first one, which was woken,
 * and cancels it. Now and then a task of low priority runs before this one; then no admission is
 * passed on. */
static intptr_t cancel_admitted_spawner(void *arg)
{
    (void)arg;
    const weft_task_options low = {.priority = WEFT_PRIORITY_LOW};
    struct queue queue = {.open = {0}};
    weft_task *last = go(stand_by, &queue.open);
    CHECK_EQ(weft_spawn(&queue.first, spawn_first, &queue, &low), 0);
    CHECK_EQ(weft_spawn(&queue.second, spawn_second, &queue, &low), 0);
    wait_for_state(queue.first, WEFT_TASK_BLOCKED);
    wait_for_state(queue.second, WEFT_TASK_BLOCKED);
    raise_by_one(&queue.open);
    CHECK_EQ(weft_await(last), 0);
    CHECK_EQ(weft_cancel(queue.first), 0);
    CHECK_EQ(weft_await(queue.second), 0);
    intptr_t result = weft_await(queue.first);
    CHECK(result == 0 || result == -ECANCELED);
    return 0;
}

static void limit_passes_the_admission_of_a_cancelled_spawner_on(void)
{
    for (struct tour tour = {.which = ON_ONE_WORKER}; tour_next(&tour);) {
        tour.options.tasks_max = 4; /* this task, the last one, and the two spawners */
        tour.options.spawn_waits = true;
        for (unsigned tries = 0; tries_to_reach("limit.passed_on", &tries);) {
            CHECK_EQ(weft_run(cancel_admitted_spawner, NULL, &tour.options), 0);
        }
    }
    check_reached("limit.passed_on");
}

/* ---- closing runtimes ------------------------------------------------------------------------ */

struct closing {
    weft_runtime *runtime;
    wf_atomic_u32 open;
    wf_atomic_u32 thread_id;
};

/* Shielded, so that the close cannot end it. */
static intptr_t stand_by_shielded(void *arg)
{
    CHECK_EQ(weft_shield_begin(), 0);
    wait_for(arg, 1);
    CHECK_EQ(weft_shield_end(), 0);
    return 0;
}

static void *close_thread(void *arg)
{
    struct closing *closing = arg;
    (void)wf_fetch_add_release(&closing->thread_id, (uint32_t)wf_thread_id());
    CHECK_EQ(weft_runtime_close(closing->runtime, -1), 0);
    return NULL;
}

static void spawn_during_close(const weft_runtime_options *options)
{
    struct closing closing = {.runtime = NULL};
    weft_task *task = NULL;
    pthread_t thread;
    CHECK_EQ(weft_runtime_open(&closing.runtime, options), 0);
    weft_task_unref(go_into(closing.runtime, stand_by_shielded, &closing.open));
    CHECK_EQ(wf_thread_start(&thread, close_thread, &closing, NULL), 0);
    wait_for(&closing.thread_id, 1);
    int rc = 0;
    while (rc == 0) { /* until the close has begun */
        rc = weft_runtime_spawn(closing.runtime, &task, echo, NULL, NULL);
        weft_task_unref(rc == 0 ? task : NULL);
    }
    CHECK_EQ(rc, -ESHUTDOWN);
    raise_by_one(&closing.open);
    CHECK_EQ(wf_thread_join(thread), 0);
}

/* part of behaviour 49: submit racing stop, submit after stop */
static void spawn_fails_with_eshutdown_while_the_runtime_closes(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        spawn_during_close(&tour.options);
    }
    check_reached("spawn.gate_is_closed");
}

/* A task of a runtime that closes, in the wait queues of a runtime that stays open. */
struct waiter {
    weft_runtime *other_runtime;
    weft_task *tasks[2];
    wf_atomic_u32 open;
};

static intptr_t join_outside(void *arg)
{
    struct waiter *waiter = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    return weft_join(waiter->tasks[0], NULL);
}

static intptr_t race_outside(void *arg)
{
    struct waiter *waiter = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    weft_task *tasks[] = {weft_task_ref(waiter->tasks[0]), weft_task_ref(waiter->tasks[1])};
    return weft_await_first(tasks, 2, NULL);
}

static intptr_t spawn_outside(void *arg)
{
    struct waiter *waiter = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    return weft_runtime_spawn(waiter->other_runtime, NULL, echo, NULL, NULL);
}

static intptr_t stop_outside(void *arg)
{
    struct waiter *waiter = arg;
    CHECK_EQ(weft_shield_begin(), 0);
    return weft_world_stop(waiter->other_runtime);
}

/* Waits until the task waits, then closes its runtime by force. */
static void close_by_force_while_waiting(struct waiter *waiter, weft_fn fn, enum weft_wait wait,
                                         const weft_runtime_options *options)
{
    weft_runtime *runtime = NULL;
    CHECK_EQ(weft_runtime_open(&runtime, options), 0);
    weft_task *task = go_into(runtime, fn, waiter);
    wait_for_state(task, WEFT_TASK_BLOCKED);
    CHECK_EQ(info_of(task).wait, wait);
    CHECK_EQ(weft_runtime_close(runtime, 0), -ETIMEDOUT);
    CHECK_EQ(weft_await(task), -ECANCELED);
}

static void check_joiners(const weft_runtime_options *options)
{
    struct waiter waiter = {.other_runtime = NULL};
    CHECK_EQ(weft_runtime_open(&waiter.other_runtime, options), 0);
    for (int i = 0; i < 2; i++) {
        waiter.tasks[i] = go_into(waiter.other_runtime, stand_by, &waiter.open);
    }
    close_by_force_while_waiting(&waiter, join_outside, WEFT_WAIT_EXTERNAL_TASK, options);
    close_by_force_while_waiting(&waiter, race_outside, WEFT_WAIT_EXTERNAL_TASKS, options);
    raise_by_one(&waiter.open);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_join(waiter.tasks[i], NULL), 0);
        weft_task_unref(waiter.tasks[i]); /* the forced close gave the handle of the race back */
    }
    CHECK_EQ(weft_runtime_close(waiter.other_runtime, -1), 0);
}

static void check_spawner(weft_runtime_options options)
{
    struct waiter waiter = {.other_runtime = NULL};
    weft_runtime_options full = options;
    full.tasks_max = 1;
    full.spawn_waits = true;
    CHECK_EQ(weft_runtime_open(&waiter.other_runtime, &full), 0);
    weft_task *task = go_into(waiter.other_runtime, stand_by, &waiter.open);
    close_by_force_while_waiting(&waiter, spawn_outside, WEFT_WAIT_ADMISSION, &options);
    raise_by_one(&waiter.open);
    CHECK_EQ(weft_await(task), 0);
    CHECK_EQ(weft_await(go_into(waiter.other_runtime, echo, (void *)7)), 7); /* admitted */
    CHECK_EQ(weft_runtime_close(waiter.other_runtime, -1), 0);
}

struct keeper {
    wf_atomic_u32 begun;
    wf_atomic_u32 may_end;
};

static intptr_t occupy_worker(void *arg)
{
    struct keeper *keeper = arg;
    raise_by_one(&keeper->begun);
    hold_for(&keeper->may_end, 1);
    return 0;
}

/* No other task runs there until the runtime is closed by force. */
static intptr_t occupy_worker_until_exit(void *arg)
{
    weft_runtime *runtime = weft_runtime_self();
    raise_by_one(arg);
    while (wf_load_acquire(&runtime->shutdown.exit_mode) !=
           WF_EXIT_NOW) { /* pairs with the closer */
        (void)sched_yield();
    }
    return 0;
}

/* The other runtime counted the spawner, which waited for the queue. It was admitted and woken, but
 * never ran again. */
static void forced_close_returns_the_task_count_of_a_woken_spawner(void)
{
    const weft_runtime_options options = options_of(&settings[0]);
    weft_runtime_options limited = options;
    limited.global_capacity = 1;
    limited.tasks_max = 3;
    limited.spawn_waits = true;
    struct waiter waiter = {.other_runtime = NULL};
    weft_runtime *own_runtime = NULL;
    wf_atomic_u32 is_own_busy = {0};
    struct keeper occupier = {.begun = {0}};
    CHECK_EQ(weft_runtime_open(&waiter.other_runtime, &limited), 0);
    CHECK_EQ(weft_runtime_open(&own_runtime, &options), 0);
    weft_task *first = go_into(waiter.other_runtime, occupy_worker, &occupier);
    wait_for(&occupier.begun, 1);
    weft_task *second = go_into(waiter.other_runtime, echo, (void *)7); /* the queue is full */
    weft_task *waiting = go_into(own_runtime, spawn_outside, &waiter);
    wait_for_state(waiting, WEFT_TASK_BLOCKED);
    weft_task *busy = go_into(own_runtime, occupy_worker_until_exit, &is_own_busy);
    wait_for(&is_own_busy, 1);
    raise_by_one(&occupier.may_end);
    CHECK_EQ(weft_await(first), 0);
    CHECK_EQ(weft_await(second), 7); /* the worker took it out of the queue */
    CHECK_EQ(state_of(waiting), WEFT_TASK_READY);
    CHECK_EQ(weft_runtime_close(own_runtime, 0), -ETIMEDOUT);
    CHECK_EQ(weft_await(busy), 0);
    CHECK_EQ(weft_await(waiting), -ECANCELED);
    weft_task *tasks[3];
    for (int i = 0; i < 3; i++) { /* up to the limit of live tasks */
        tasks[i] = go_into(waiter.other_runtime, stand_by, &waiter.open);
    }
    raise_by_one(&waiter.open);
    CHECK_EQ(weft_await_all(tasks, 3, NULL), 0);
    CHECK_EQ(weft_runtime_close(waiter.other_runtime, -1), 0);
}

static void check_stopper(const weft_runtime_options *options)
{
    struct waiter waiter = {.other_runtime = NULL};
    CHECK_EQ(weft_runtime_open(&waiter.other_runtime, options), 0);
    CHECK_EQ(weft_world_stop(waiter.other_runtime), 0);
    close_by_force_while_waiting(&waiter, stop_outside, WEFT_WAIT_WORLD, options);
    CHECK_EQ(weft_world_start(waiter.other_runtime), 0);
    CHECK_EQ(weft_await(go_into(waiter.other_runtime, echo, (void *)7)), 7); /* no stopper waits */
    CHECK_EQ(weft_runtime_close(waiter.other_runtime, -1), 0);
}

/* part of behaviour 19, part of behaviour 34 */
static void forced_close_removes_waiters_from_other_runtimes(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        check_joiners(&tour.options);
        check_spawner(tour.options);
        check_stopper(&tour.options);
    }
    check_reached("join.abandoned");
    check_reached("limit.abandoned");
    check_reached("safepoint.turn_abandoned");
}

static intptr_t force_close_in_task(void *arg)
{
    const struct setting *setting = arg;
    const weft_runtime_options options = options_of(setting);
    struct waiter waiter = {.other_runtime = weft_runtime_self()};
    waiter.tasks[0] = go(stand_by, &waiter.open);
    close_by_force_while_waiting(&waiter, join_outside, WEFT_WAIT_EXTERNAL_TASK, &options);
    raise_by_one(&waiter.open);
    CHECK_EQ(weft_await(waiter.tasks[0]), 0);
    while (stats_of(waiter.other_runtime).live > 1) { /* await returns before the count drops */
        let_others_run();
    }
    const weft_runtime_stats stats = stats_of(waiter.other_runtime);
    CHECK_EQ(stats.live, 1); /* this task: not those of the other runtime */
    CHECK_EQ(stats.total.spawned, 2);
    CHECK_EQ(stats.total.completed, 1);
    return 0;
}

static void forced_close_of_another_runtime_works_in_a_task(void)
{
    run_under(EVERYWHERE, force_close_in_task);
}

static void failure_report_is_skipped_after_the_runtime_closed(void)
{
    for (struct tour tour = {.which = EVERYWHERE}; tour_next(&tour);) {
        weft_runtime *runtime = NULL;
        CHECK_EQ(weft_runtime_open(&runtime, &tour.options), 0);
        weft_task *task = go_into(runtime, echo, (void *)-EIO);
        wait_for_state(task, WEFT_TASK_FAILED);
        CHECK_EQ(weft_runtime_close(runtime, -1), 0);
        CHECK_EQ(weft_cancel(task), 0); /* late: no effect */
        weft_task_unref(task);          /* a report would fail the test */
    }
    check_reached("fail.after_its_runtime");
    check_reached("ready.woken_after_its_runtime");
    check_reached("pool.outlived_its_runtime");
}

/* ---- membarrier forbidden later -------------------------------------------------------------- */

/* Makes the kernel refuse membarrier in all threads of the process. */
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

static void bias_works_when_membarrier_fails_later(void)
{
    const weft_runtime_options options = {.workers = 2};
    CHECK_EQ(weft_run(spawn_until_stolen, NULL, &options), 0);
}

static const struct tap_test tests[] = {
    TAP_TEST(wake_before_the_suspension_is_not_lost),
    TAP_TEST(stack_of_an_ended_task_is_not_reused_for_another_size),
    TAP_TEST(lifo_slot_runs_again_when_the_ring_is_empty),
    TAP_TEST(inbox_push_wakes_the_parked_worker),
    TAP_TEST(reactor_requests_preemption_of_a_long_slice),
#ifdef WF_TEST_HOOKS
    TAP_TEST(join_sees_an_end_between_any_two_instructions),
    TAP_TEST(spawn_wait_sees_an_admission_between_any_two_instructions),
#endif
    TAP_TEST(race_is_won_by_a_task_that_has_ended),
    TAP_TEST(limit_passes_the_admission_of_a_cancelled_spawner_on),
    TAP_TEST(spawn_fails_with_eshutdown_while_the_runtime_closes),
    TAP_TEST(forced_close_removes_waiters_from_other_runtimes),
    TAP_TEST(forced_close_returns_the_task_count_of_a_woken_spawner),
    TAP_TEST(forced_close_of_another_runtime_works_in_a_task),
    TAP_TEST(failure_report_is_skipped_after_the_runtime_closed),
    TAP_TEST(bias_works_when_membarrier_fails_later),
};
TAP_MAIN(tests)
