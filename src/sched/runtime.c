/* SPDX-License-Identifier: MIT */
/*
 * sched/runtime.c - opening a runtime, running in it, closing it.
 *
 * To open is all or nothing: the threads of the workers start together, and only when each has what
 * it needs.
 *
 * To close, in numbered steps:
 *   1  no more spawns from outside (the gate), none from tasks (is_closing)
 *   2  every task is cancelled; whoever waits for room is woken
 *   3  wait until none is alive.  A spawn that slipped in before step 1 was seen is found when the
 *      runtime falls quiet, and step 2 is done again
 *   4  at the deadline: workers leave between two tasks, whatever is queued; blocking work that has
 *      not begun never will
 *   5  threads are joined, those for blocking work too; a function that is running is waited for
 *   6  tasks that are still alive complete with -ECANCELED; only then their stacks go, because a
 *      scope may lie on one of them
 *   7  memory goes back; that of tasks with handles, when the last of these is dropped
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sched/alone.h"
#include "sched/sched.h"

enum { START_PENDING, START_GO, START_END };

/* ---- starting threads ---------------------------------------------------------------------- */

int wf_start_report(struct wf_start *start, int rc)
{
    if (rc != 0) {
        wf_store_relaxed(&start->error, rc); /* relaxed: the counter below publishes it */
    }
    (void)wf_fetch_add_release(&start->reports, 1);
    wf_parker_unpark(&start->opener); /* it lives as long as the runtime */
    uint32_t verdict;
    /* acquire: pairs with the opener's store. */
    while ((verdict = wf_load_acquire(&start->verdict)) == START_PENDING) {
        (void)wf_futex_wait(&start->verdict, START_PENDING, WF_FOREVER); /* looks again anyway */
    }
    return verdict == START_GO ? 0 : -ECANCELED;
}

static void start_wait(struct wf_start *start, uint32_t reports)
{
    while (wf_load_acquire(&start->reports) < reports) { /* acquire: pairs with the reports */
        (void)wf_parker_park(&start->opener, WF_FOREVER);
    }
}

/* Waits for those that were started, and tells them whether it was all of them. */
static int start_decide(struct wf_start *start, uint32_t started, int rc)
{
    start_wait(start, started);
    rc = rc != 0 ? rc : wf_load_relaxed(&start->error); /* relaxed: ordered by the reports */
    wf_store_release(&start->verdict, rc == 0 ? START_GO : START_END); /* release: all is set up */
    (void)wf_futex_wake(&start->verdict, INT32_MAX);
    return rc;
}

int wf_worker_start(struct wf_worker *worker)
{
    char name[WF_THREAD_NAME_MAX + 1];
    (void)snprintf(name, sizeof(name), "weft-%u", worker->index); /* fits, or is cut */
    const struct wf_thread_options options = {.name = name};
    worker->own_start = (struct wf_start){.opener = {{0}}};
    worker->start = &worker->own_start;
    int rc = wf_thread_start(&worker->thread, wf_worker_main, worker, &options);
    if (rc != 0) {
        return rc;
    }
    rc = start_decide(worker->start, 1, 0);
    if (rc != 0) {
        WF_REACHED("runtime.spare_ends_at_once");
        (void)wf_thread_join(worker->thread); /* it ends at once */
    }
    worker->post.has_thread = rc == 0;
    return rc;
}

/* Starts all threads or none. */
static int start_threads(weft_runtime *runtime)
{
    struct wf_start *start = &runtime->start;
    unsigned started = 0;
    int rc = 0;
    for (; started < runtime->worker_count && rc == 0; started += rc == 0 ? 1u : 0u) {
        char name[WF_THREAD_NAME_MAX + 1];
        struct wf_worker *worker = &runtime->workers[started];
        (void)snprintf(name, sizeof(name), "weft-%u", started); /* fits, or is cut */
        const struct wf_thread_options options = {.name = name};
        worker->start = start;
        rc = wf_thread_start(&worker->thread, wf_worker_main, worker, &options);
        worker->post.has_thread = rc == 0;
    }
    rc = start_decide(start, started, rc);
    for (unsigned i = 0; i < started && rc != 0; i++) {
        WF_REACHED("runtime.not_all_threads");
        (void)wf_thread_join(runtime->workers[i].thread); /* they end at once */
    }
    return rc;
}

/* ---- opening ------------------------------------------------------------------------------- */

static void workers_done(weft_runtime *runtime, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct wf_worker *worker = &runtime->workers[i];
        while (wf_deque_pop(&worker->deque) != NULL) { /* what a forced close left */
        }
        wf_deque_done(&worker->deque);
    }
    wf_free(runtime->workers);
    wf_free(runtime->safes);
}

int wf_worker_init(weft_runtime *runtime, unsigned index)
{
    struct wf_worker *worker = &runtime->workers[index];
    const bool is_steal = runtime->options.policy == WEFT_POLICY_STEAL;
    memset(worker, 0, sizeof(*worker));
    worker->runtime = runtime;
    worker->pool = runtime->pool;
    worker->index = index;
    worker->is_fast = is_steal && runtime->options.order == WEFT_ORDER_FAIR;
    worker->is_lone = runtime->worker_count == 1 && index == 0;
    worker->post.is_spare = index >= runtime->worker_count;
    /* Both relaxed: not published yet.  It is safe until its thread says otherwise. */
    const bool is_alone = runtime->monitor.has_barrier && (worker->is_lone || worker->is_fast);
    wf_store_relaxed(&worker->company, is_alone ? WF_ALONE : WF_SHARED);
    wf_store_relaxed(&worker->safe.is_safe, 1);
    worker->clock_turns = 1;
    worker->polls_left = 1;
    worker->task_ns = WF_TURN_FIRST_NS;
    worker->interval = wf_steal_interval(worker->task_ns);
    wf_random_init(&worker->random, runtime->options.seed + index);
    wf_stack_cache_init(&worker->stacks, &runtime->stacks);
    wf_ring_init(&worker->ring);
    wf_mpsc_init(&worker->inbox);
    wf_parker_init(&worker->parker);
    wf_parker_init(&worker->safe.parker);
    wf_parker_init(&worker->post.bench);
    wf_timers_init(&worker->timers, wf_clock_now());
    return wf_deque_init(&worker->deque, WF_DEQUE_CAPACITY_MIN);
}

static int workers_init(weft_runtime *runtime)
{
    const unsigned count = runtime->worker_count;
    const unsigned most = runtime->seats_max; /* memory that is not touched is not there */
    runtime->workers = wf_alloc_aligned(WF_CACHE_LINE, most * sizeof(struct wf_worker));
    runtime->safes = wf_alloc_zeroed(most, sizeof(struct wf_safe *));
    if (runtime->workers == NULL || runtime->safes == NULL) {
        wf_free(runtime->workers);
        wf_free(runtime->safes);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < count; i++) {
        int rc = wf_worker_init(runtime, i);
        if (rc != 0) {
            workers_done(runtime, i);
            return rc;
        }
    }
    wf_store_relaxed(&runtime->seats, count); /* both relaxed: not published yet */
    wf_store_relaxed(&runtime->in_play, count);
    return 0;
}

static int queues_init(weft_runtime *runtime)
{
    bool is_depth_first = runtime->options.order == WEFT_ORDER_DEPTH_FIRST;
    struct wf_inject_options options = {.batch_max = runtime->options.global_batch};
    if (is_depth_first && options.batch_max > WF_INJECT_BATCH_DEPTH_FIRST + 1) {
        options.batch_max = WF_INJECT_BATCH_DEPTH_FIRST + 1; /* one to run and 16 to keep */
    }
    int rc = wf_inject_init(&runtime->global, &options);
    if (rc == 0) {
        rc = wf_inject_init(&runtime->high, NULL);
    }
    if (rc == 0) {
        rc = wf_inject_init(&runtime->low, NULL);
    }
    wf_hours_init(&runtime->hours);
    return rc != 0 ? rc : wf_idle_init(&runtime->idle, runtime->worker_count);
}

static int fill(weft_runtime *runtime)
{
    runtime->worker_count = runtime->options.workers;
    const uint64_t seats = (uint64_t)runtime->worker_count + runtime->options.spares_max;
    const bool has_spares = !runtime->options.no_monitor;
    runtime->seats_max = !has_spares              ? runtime->worker_count
                         : seats < WF_WORKERS_MAX ? (unsigned)seats
                                                  : WF_WORKERS_MAX;
    wf_lock_init(&runtime->monitor.lock, WF_RANK_MONITOR);
    wf_list_init(&runtime->monitor.bench);
    wf_parker_init(&runtime->monitor.parker);
    /* Of the only worker, without the monitor, nobody would ever ask for it. */
    runtime->monitor.has_barrier =
        (!has_spares && runtime->worker_count == 1) || wf_barrier_register() == 0;
    bool is_steal = runtime->options.policy == WEFT_POLICY_STEAL;
    runtime->policy = is_steal ? &wf_policy_steal : &wf_policy_reactor;
    wf_lock_init(&runtime->gate, WF_RANK_GATE);
    wf_lock_init(&runtime->room.lock, WF_RANK_ROOM);
    wf_lock_init(&runtime->world_lock, WF_RANK_WORLD);
    for (unsigned kind = 0; kind < WF_ROOM_KINDS; kind++) {
        wf_list_init(&runtime->room.waiters[kind]);
    }
    wf_list_init(&runtime->world_waiters);
    wf_blocking_init(&runtime->blocking, runtime);
    return queues_init(runtime);
}

/* Everything but the threads; what is there is undone in the reverse order. */
static int build(weft_runtime *runtime)
{
    int rc = fill(runtime);
    if (rc != 0) {
        return rc;
    }
    rc = wf_task_pool_new(&runtime->pool, runtime);
    if (rc != 0) {
        return rc;
    }
    rc = wf_stack_pool_init(&runtime->stacks, NULL);
    if (rc != 0) {
        goto close_tasks;
    }
    rc = workers_init(runtime);
    if (rc != 0) {
        goto close_stacks;
    }
    rc = wf_overflow_install(wf_overflow_print);
    if (rc != 0) {
        goto close_workers;
    }
    rc = runtime->options.policy == WEFT_POLICY_REACTOR ? wf_reactor_new(runtime) : 0;
    if (rc != 0) {
        goto remove_overflow;
    }
    return 0;

remove_overflow:
    wf_overflow_remove();
close_workers:
    workers_done(runtime, wf_seats(runtime));
close_stacks:
    wf_stack_pool_done(&runtime->stacks);
close_tasks:
    wf_task_pool_close(runtime->pool);
    return rc;
}

/* The reverse of build. */
static void dismantle(weft_runtime *runtime)
{
    wf_reactor_free(runtime->reactor);
    wf_driver_done(runtime);
    wf_runtime_trace_done(runtime);
    wf_overflow_remove();
    workers_done(runtime, wf_seats(runtime));
    wf_stack_pool_done(&runtime->stacks);
    wf_task_pool_close(runtime->pool);
}

int weft_runtime_open(weft_runtime **out, const weft_options *options)
{
    weft_options filled;
    int rc = out != NULL ? wf_options_fill(&filled, options, NULL, 0) : -EINVAL;
    if (rc != 0) {
        return rc;
    }
    rc = wf_forked_enter();
    if (rc != 0) {
        return rc;
    }
    weft_runtime *runtime = wf_alloc_aligned(WF_CACHE_LINE, sizeof(*runtime));
    if (runtime == NULL) {
        rc = -ENOMEM;
        goto leave_process;
    }
    memset(runtime, 0, sizeof(*runtime));
    runtime->options = filled;
    rc = build(runtime);
    if (rc != 0) {
        goto free_runtime;
    }
    rc = start_threads(runtime);
    if (rc != 0) {
        goto dismantle_runtime;
    }
    rc = wf_monitor_start(runtime);
    if (rc == 0 && filled.trace_events != 0) {
        rc = weft_trace_start(runtime, filled.trace_events);
    }
    if (rc != 0) {
        (void)weft_runtime_close(runtime, 0); /* nothing runs yet */
        return rc;
    }
    *out = runtime;
    return 0;

dismantle_runtime:
    dismantle(runtime);
free_runtime:
    wf_free(runtime);
leave_process:
    wf_forked_leave();
    return rc;
}

/* ---- closing ------------------------------------------------------------------------------- */

/* Once each: a task that cannot obey yet would be woken to find that, which is a moment after which
 * nothing runs again, and so on. */
static void cancel_visited(struct weft_task *task, void *context)
{
    (void)context;
    if ((wf_load_relaxed(&task->state.word) & WF_STATE_CANCELLED) == 0) { /* relaxed: it stays */
        wf_task_cancel(task); /* or who is in its memory next, which is to end as well */
    }
}

/* Says of the first few who do not end. */
static void tell_visited(struct weft_task *task, void *context)
{
    unsigned *left = context;
    if (*left > 0 && !wf_state_is_complete(&task->state)) {
        wf_left_print(task);
        --*left;
    }
}

/* Steps 1 to 3; false: the deadline passed. */
static bool wait_for_end(weft_runtime *runtime, int64_t deadline_ns)
{
    /* Who called weft_run sees nothing but that it does not return.  relaxed: as where it is set */
    const bool is_run = wf_load_relaxed(&runtime->has_main) != 0;
    int64_t tell_ns = is_run ? wf_clock_now() + WF_LEFT_TELL_NS : WF_FOREVER;
    for (;;) { /* Each turn but the last is a moment at which nothing ran, or the one of telling. */
        wf_task_pool_visit(runtime->pool, cancel_visited, NULL);
        wf_room_close(runtime);
        if (wf_runtime_live(runtime) == 0) {
            return true;
        }
        const bool has_to_tell = tell_ns < deadline_ns;
        if (wf_parker_park(&runtime->closer, has_to_tell ? tell_ns : deadline_ns) != -ETIMEDOUT) {
            continue;
        }
        if (!has_to_tell) {
            return wf_runtime_live(runtime) == 0;
        }
        unsigned left = WF_LEFT_TELL_MAX;
        wf_task_pool_visit(runtime->pool, tell_visited, &left);
        tell_ns = WF_FOREVER;
    }
}

/* Steps 4 and 5. */
static void leave(weft_runtime *runtime, bool is_forced)
{
    /* release: pairs with the loop's load. */
    wf_store_release(&runtime->is_leaving, is_forced ? WF_LEAVE_NOW : WF_LEAVE_WHEN_DONE);
    wf_fence_seq_cst(); /* (S1): either a worker that is going to sleep sees it, or we its bit */
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        wf_driver_unpark(runtime, &runtime->workers[i].parker);
        (void)wf_parker_unpark(
            &runtime->workers[i].post.bench); /* nobody sleeps in a berth there */
    }
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        if (runtime->workers[i].post.has_thread) {
            int rc = wf_thread_join(runtime->workers[i].thread);
            WEFT_CHECK(rc == 0); /* a thread of our own, joined once */
        }
    }
    wf_reactor_stop(runtime->reactor); /* it looks at tasks too */
    wf_blocking_stop(&runtime->blocking);
    wf_reactor_empty(runtime->reactor);
}

/* Step 6: the list goes through `node`, since no queue is in use any more. */
struct leftovers {
    struct wf_chain tasks;
    struct wf_stack *stacks;
};

static void collect(struct weft_task *task, void *context)
{
    struct leftovers *leftovers = context;
    if (!wf_state_is_complete(&task->state)) {
        wf_chain_push(&leftovers->tasks, &task->node);
    }
}

/* No thread is left that could take it. */
static void place_nowhere(weft_runtime *runtime, struct wf_worker *worker, struct weft_task *task)
{
    (void)runtime;
    (void)worker;
    (void)task;
}

/* What others still know of a task that waits, and whose stack goes; and what it holds. */
static void forget(struct weft_task *task)
{
    wf_partings_forget(task);
    if (task->held != NULL) {
        wf_held_release(task);
    }
    if (task->body != WF_BODY_POLL) {
        wf_alarm_clear(&task->alarm);
    }
    switch (wf_load_relaxed(&task->wait)) { /* relaxed: nobody runs it */
    case WEFT_WAIT_OUTER_TASK:
    case WEFT_WAIT_OUTER_TASKS:
        WF_REACHED("runtime.forgets_a_join");
        wf_join_forget(task);
        break;
    case WEFT_WAIT_ROOM:
        WF_REACHED("runtime.forgets_a_wait_for_room");
        wf_room_forget(task);
        break;
    case WEFT_WAIT_WORLD:
        WF_REACHED("runtime.forgets_a_turn");
        wf_world_forget(task);
        break;
    default:
        break;
    }
}

static void end_leftovers(weft_runtime *runtime)
{
    static const struct wf_policy nobody = {.place = place_nowhere};
    runtime->policy = &nobody;
    struct leftovers leftovers = {0};
    wf_task_pool_visit(runtime->pool, collect, &leftovers);
    struct wf_chain forgotten = {0};
    struct wf_node *node;
    while ((node = wf_chain_pop(&leftovers.tasks)) != NULL) {
        forget(wf_container_of(node, struct weft_task, node));
        wf_chain_push(&forgotten, node);
    }
    /* Only now: what they waited in and held may lie in the memory of any of them. */
    while ((node = wf_chain_pop(&forgotten)) != NULL) {
        struct weft_task *task = wf_container_of(node, struct weft_task, node);
        struct wf_stack *stack = task->fiber != NULL ? task->fiber->stack : NULL;
        if (stack != NULL) {
            stack->next = leftovers.stacks;
            leftovers.stacks = stack;
        }
        (void)wf_state_cancel(&task->state);
        (void)wf_state_wake(
            &task->state); /* active, also behind a shield: its end is one of those */
        wf_task_abandon(task, -ECANCELED);
    }
    struct wf_stack_cache cache;
    wf_stack_cache_init(&cache, &runtime->stacks);
    while (leftovers.stacks != NULL) {
        struct wf_stack *stack = leftovers.stacks;
        leftovers.stacks = stack->next;
        wf_stack_put(&cache, stack);
    }
    wf_stack_cache_done(&cache);
}

int weft_runtime_close(weft_runtime *runtime, int64_t timeout_ns)
{
    if (runtime == NULL) {
        return -EINVAL;
    }
    if (wf_is_forked()) {
        return -EPERM;
    }
    struct wf_worker *worker = wf_worker_self();
    if ((worker != NULL && worker->runtime == runtime) || wf_reactor_is_self(runtime->reactor)) {
        return -EDEADLK;
    }
    int64_t now = wf_clock_now();
    int64_t deadline_ns =
        timeout_ns < 0 || timeout_ns > WF_FOREVER - now ? WF_FOREVER : now + timeout_ns;
    wf_lock_acquire(&runtime->gate);
    const bool is_hook = wf_load_relaxed(&runtime->is_closing) != 0; /* relaxed: the gate's */
    wf_store_relaxed(&runtime->is_closing, 1); /* relaxed: the gate orders it for those outside */
    wf_lock_release(&runtime->gate);
    if (is_hook) {
        return -EDEADLK; /* of a close that has not returned */
    }
    wf_fence_seq_cst(); /* (C1) */
    bool is_done = wait_for_end(runtime, deadline_ns);
    wf_pool_shut(runtime->pool);
    wf_monitor_stop(runtime);
    if (!is_done) {
        wf_blocking_shut(&runtime->blocking);
    }
    leave(runtime, !is_done);
    if (!is_done) {
        is_done = wf_runtime_live(runtime) == 0;
        end_leftovers(runtime);
    }
    wf_failures_report(runtime);
#if defined(WF_PARK_TIMEOUT_NS) && defined(WF_TEST_AIDS)
    WEFT_CHECK(wf_load_relaxed(&runtime->idle.lost_wakeups) == 0);
#endif
    dismantle(runtime);
    wf_free(runtime);
    wf_forked_leave();
    return is_done ? 0 : -ETIMEDOUT;
}

/* ---- running ------------------------------------------------------------------------------- */

/* Who calls weft_run with bad options or a bad environment has nobody else to tell it. */
static void complain(int rc, const weft_options *options)
{
    char text[256];
    char line[sizeof(text) + 16];
    if (rc == -EINVAL && weft_options_check(options, text, sizeof(text)) != 0) {
        int length = snprintf(line, sizeof(line), "weft: %s\n", text);
        (void)wf_file_write(STDERR_FILENO, line, (size_t)length); /* nobody to tell of an error */
    }
}

/* The words of a weft_fail of the first task: to where the caller wants them; or, if it has said
 * nothing of failures, to stderr. */
static void pass_message(const struct weft_task *task, const weft_options *options)
{
    char text[256];
    char line[sizeof(text) + 32];
    if (options != NULL && options->message != NULL) {
        (void)wf_message_copy(task, options->message, options->message_size); /* cut is fine */
    } else if ((options == NULL || options->on_failure == NULL) &&
               wf_message_copy(task, text, sizeof(text)) > 0) {
        const int length = snprintf(line, sizeof(line), "weft: main failed: %s\n", text);
        (void)wf_file_write(STDERR_FILENO, line, (size_t)length); /* nobody to tell of an error */
    }
}

intptr_t weft_run(weft_fn fn, void *arg, const weft_options *options)
{
    if (wf_worker_self() != NULL) {
        return -EPERM;
    }
    if (fn == NULL) {
        return -EINVAL;
    }
    weft_runtime *runtime;
    int rc = weft_runtime_open(&runtime, options);
    if (rc != 0) {
        complain(rc, options);
        return rc;
    }
    wf_store_relaxed(&runtime->has_main, 1); /* relaxed: before anything is spawned */
    const weft_task_options main_options = {.name = "main"};
    struct weft_task *task;
    rc = weft_runtime_spawn(runtime, &task, fn, arg, &main_options);
    if (rc != 0) {
        (void)weft_runtime_close(runtime, 0); /* nothing runs */
        return rc;
    }
    rc = wf_join_main(runtime, task);
    (void)weft_runtime_close(runtime, rc == -EDEADLK ? WF_DEADLOCK_GRACE_NS : -1);
    intptr_t result = task->result; /* complete, and the handle keeps it */
    pass_message(task, options);
    weft_drop(task);
    return rc == 0 ? result : rc;
}

weft_runtime *weft_runtime_self(void)
{
    struct wf_worker *worker = wf_worker_self();
    return worker != NULL ? worker->runtime : NULL;
}

unsigned weft_runtime_workers(const weft_runtime *runtime)
{
    return runtime != NULL ? runtime->worker_count : 0;
}

uint64_t wf_runtime_live(const weft_runtime *runtime)
{
    /* (Y2) acquire, and read first: whoever is counted as ended is counted as begun below. */
    uint64_t ended = wf_load_acquire(&runtime->foreign.completed);
    uint64_t begun = 0;
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        ended += wf_load_acquire(&runtime->workers[i].counters.completed);
    }
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        begun += wf_counter_read(&runtime->workers[i].counters.spawned);
    }
    begun += wf_counter_read(&runtime->foreign.spawned);
    return begun > ended ? begun - ended : 0;
}

uint64_t wf_runtime_queued(weft_runtime *runtime)
{
    if (runtime->reactor != NULL) {
        return wf_reactor_queued(runtime->reactor);
    }
    return wf_inject_count(&runtime->global) + wf_inject_count(&runtime->high) +
           wf_inject_count(&runtime->low);
}
