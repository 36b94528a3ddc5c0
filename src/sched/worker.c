/* SPDX-License-Identifier: MIT */
/*
 * sched/worker.c - a worker's thread, and how it goes from task to task.
 *
 * A thread in a worker's seat has a loop of its own, on its own stack: take a task, switch to its
 * fiber, see to what it left behind.  But a task that suspends, yields or ends looks itself for the
 * next one in the worker's own queues, and switches there directly; the loop is only needed when
 * these are empty or something else is due.  It saves one of two switches.
 *
 * What a task leaves behind can only be done when nobody stands on its stack any more: to queue it
 * again, to make it idle, to give its stack back.  So it travels as the message of the switch (the
 * address of a task or a stack, and in its low bits what to do), and the first thing that whoever
 * arrives does is wf_arrive().
 *
 * A task gets a stack when it first runs.  One that ends and finds a task that has never run next
 * leaves it its stack: the fiber goes on with the other's function, without any switch.
 *
 * The functions that every switch goes through are in fast.h.
 *
 * After a switch everything that belongs to a thread must be asked for anew: see fiber.h.
 */
#include <errno.h>
#include <sched.h>

#include "sched/fast.h"
#include "sched/fork.h"
#include "sched/sched.h"

_Thread_local struct wf_worker *wf_seat;

WF_ASKS_THREAD struct wf_worker *wf_worker_self(void)
{
    return wf_of_thread(wf_seat);
}

WF_ASKS_THREAD struct weft_task *wf_task_self(void)
{
    struct wf_worker *worker = wf_of_thread(wf_seat);
    return worker != NULL ? wf_load_relaxed(&worker->current) : NULL; /* relaxed: our own */
}

/* [owner]  Makes the task idle; but if somebody woke it meanwhile, it goes on. */
static void park(struct wf_worker *worker, struct weft_task *task)
{
    /* Before the step, after which it may be gone. */
    wf_trace(worker->trace, WF_TRACE_COMMIT, wf_task_id(task), 0);
    if (!wf_state_park(&task->state)) {
        WF_REACHED("worker.woken_before_it_slept");
        worker->runtime->policy->requeue(worker, task);
    }
}

/* [owner]  Does what the one before left to be done. */
void wf_arrive(struct wf_worker *worker, void *message)
{
    const enum wf_errand errand = (enum wf_errand)((uintptr_t)message & WF_ERRAND_MASK);
    void *what = (char *)message - errand;
    struct weft_task *task = what;
    switch (errand) {
    case WF_ERRAND_YIELD:
        if (worker->is_fast && !task->is_special && !WF_MIGRATES()) {
            wf_steal_push_back(worker, task);
        } else {
            worker->runtime->policy->requeue(worker, task);
        }
        break;
    case WF_ERRAND_NEAR:
        /* relaxed: only we fill it.  Who is in there was ready before. */
        if (worker->is_fast && wf_load_relaxed(&worker->slot) == NULL && !WF_MIGRATES()) {
            (void)wf_slot_put(worker, task);
        } else {
            worker->runtime->policy->requeue(worker, task);
        }
        break;
    case WF_ERRAND_PARK:
        park(worker, task);
        break;
    case WF_ERRAND_END:
        wf_stack_put(&worker->stacks, what);
        break;
    case WF_ERRAND_NONE:
        break;
    }
}

/* ---- fibers of tasks ----------------------------------------------------------------------- */

/* [owner]  A task that the fiber on `stack` may go on with; NULL: it has to end, and *to is where
 * the thread goes. */
static struct weft_task *next_on(struct wf_worker *worker, struct wf_stack *stack,
                                 struct wf_fiber **to)
{
    *to = &worker->loop;
    struct weft_task *next = wf_pick(worker);
    if (next == NULL) {
        wf_enter_loop(worker);
        return NULL;
    }
    if (next->fiber != NULL) {
        wf_enter(worker, next);
        *to = next->fiber;
        return NULL;
    }
    if (wf_load_relaxed(&next->stack_size) != 0 || next->body != WF_BODY_GREEN) {
        WF_REACHED("worker.stack_does_not_fit");
        worker->handed = next;
        wf_enter_loop(worker);
        return NULL;
    }
    next->fiber = &stack->fiber;
    wf_store_relaxed(&stack->user, next); /* relaxed: read by a fault of this thread */
    wf_enter(worker, next);
    return next;
}

/* [owner]  The fiber on `stack` becomes the worker's spare one: the next task that begins on this
 * worker begins here, without a stack to be fetched and a fiber to be made.  Gives that task. */
static struct weft_task *wait_for_task(struct wf_worker *worker, struct wf_stack *stack,
                                       struct wf_fiber *to)
{
    wf_store_relaxed(&stack->user, NULL);    /* relaxed: read by a fault of this thread */
    wf_store_relaxed(&worker->spare, stack); /* relaxed: only this thread takes it, over there */
    void *message = wf_fiber_switch(&stack->fiber, to, wf_message_of(NULL, WF_ERRAND_NONE));
    worker = wf_worker_self();
    wf_arrive(worker, message);
    return wf_load_relaxed(&worker->current); /* relaxed: our own */
}

/* [the task]  In the child of a fork there is nothing that could go on: see forked.c. */
static void check_process(void)
{
    WF_RULE(!wf_is_forked(), "a task goes on in the child of fork: it has to exec or _exit");
}

/* [the task]  What lay in the frame that was left can be neither closed nor run any more. */
static void check_frame(const struct weft_task *task)
{
    check_process();
    WF_RULE(task->open_scopes == NULL, "ended with a scope open: weft_scope_close it first");
    WF_RULE(task->cleanups == NULL, "ended with a cleanup in its frame: weft_cleanup_pop it first");
    WF_RULE(!wf_has_forks(task), "ended with a fork in its frame: weft_fork_join it first");
    WF_RULE(task->partings == NULL, "ended with a future in its frame: drop it first");
}

/* [the task]  The same of a lock; what it holds elsewhere it lets go of: see held.c. */
static void check_held(const struct weft_task *task, const struct wf_stack *stack)
{
    for (const struct wf_held *held = task->held; held != NULL; held = held->next) {
        const char *place = (const char *)held;
        WF_RULE(place < stack->low || place >= wf_stack_high(stack),
                "ended with a lock in its frame that it holds: unlock it first");
    }
}

/* What runs on the stack of tasks: one after the other, as long as there is one that can begin
 * here. */
static struct wf_fiber_exit strand_main(void *arg, void *message)
{
    struct wf_stack *stack = arg;
    struct wf_worker *worker = wf_worker_self();
    struct weft_task *task = wf_load_relaxed(&worker->current); /* relaxed: our own */
    /* A canary is only looked at when the stack goes back, so there it does after each task. */
    const bool is_default = wf_load_relaxed(&task->stack_size) == 0 &&
                            task->body == WF_BODY_GREEN && stack->guard != WF_GUARD_CANARY;
    struct wf_fiber *to = &worker->loop;
    wf_arrive(worker, message);
    do {
        intptr_t result = wf_load_relaxed(&task->fn)(task->arg);
        if (!task->is_plain) {
            check_frame(task);
        }
        if (__builtin_expect(task->held != NULL, 0)) {
            check_held(task, stack);
        }
        worker = wf_task_finish(task, result);
        task = NULL;
        if (is_default) {
            task = next_on(worker, stack, &to);
            if (task == NULL && wf_load_relaxed(&worker->spare) == NULL) { /* relaxed: our own */
                task = wait_for_task(worker, stack, to);
            }
        } else {
            to = &worker->loop;
            wf_enter_loop(worker);
        }
    } while (task != NULL);
    return (struct wf_fiber_exit){to, wf_message_of(stack, WF_ERRAND_END)};
}

_Noreturn void wf_task_exit(struct weft_task *self, intptr_t result)
{
    struct wf_fiber *fiber = self->fiber;
    struct wf_worker *worker = wf_task_finish(self, result);
    wf_enter_loop(worker);
    wf_fiber_switch_final(fiber, &worker->loop, wf_message_of(fiber->stack, WF_ERRAND_END));
}

/* [owner]  Gives the task a fiber.  -ENOMEM: no stack. */
int wf_task_begin(struct wf_worker *worker, struct weft_task *task)
{
    struct wf_stack *stack = wf_load_relaxed(&worker->spare); /* relaxed: our own */
    if (stack != NULL && wf_load_relaxed(&task->stack_size) == 0 && task->body == WF_BODY_GREEN) {
        wf_store_relaxed(&worker->spare, NULL); /* relaxed: others only look */
        wf_store_relaxed(&stack->user, task);   /* relaxed: read by a fault of this thread */
        task->fiber = &stack->fiber;
        return 0;
    }
    size_t size = (size_t)wf_load_relaxed(&task->stack_size) << 10; /* relaxed: set by the spawn */
    size = size != 0 ? size : worker->runtime->options.stack_size;
    int rc = wf_stack_get(&worker->stacks, size, &stack);
    if (rc != 0) {
        return rc;
    }
    wf_store_relaxed(&stack->user, task); /* relaxed: read by a fault of this thread */
    wf_fiber_init(&stack->fiber, stack, strand_main, stack);
    if (task->body == WF_BODY_GREEN_FP) {
        wf_fiber_keep_fp_control(&stack->fiber);
    }
    task->fiber = &stack->fiber;
    return 0;
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* [loop]  Calls a poll task once. */
static void call(struct wf_worker *worker, struct weft_task *task)
{
    intptr_t result = 0;
    wf_enter(worker, task);
    const bool has_ended = wf_poll_call(worker, task, &result);
    if (!task->is_plain) {
        check_process();
    }
    if (has_ended) {
        (void)wf_task_finish(task, result);
        wf_enter_loop(worker);
    } else {
        wf_enter_loop(worker);
        park(worker, task);
    }
}

/* [loop]  Runs the task until the thread comes back; others may have run in between.  One that gets
 * no stack ends here: that is a round too, or nobody would report it. */
static void run(struct wf_worker *worker, struct weft_task *task)
{
    wf_store_release(&worker->rounds, worker->round + 1); /* (Y1) */
    if (task->body == WF_BODY_POLL) {
        call(worker, task);
    } else if (task->fiber == NULL && wf_task_begin(worker, task) != 0) {
        WF_REACHED("worker.no_stack");
        wf_task_abandon(task, -ENOMEM);
    } else {
        wf_enter(worker, task);
        void *message =
            wf_fiber_switch(&worker->loop, task->fiber, wf_message_of(NULL, WF_ERRAND_NONE));
        WEFT_ASSERT(worker == wf_worker_self()); /* the loop stays with its thread */
        wf_enter_loop(worker);
        wf_arrive(worker, message);
    }
    worker->round += 2;
    wf_store_release(&worker->rounds, worker->round); /* (Y1) */
}

/* [loop]  From here on no task spawns anything on this worker: the closer has to look for those
 * that it missed. */
static void see_closing(struct wf_worker *worker)
{
    worker->has_seen_closing = true;
    wf_parker_unpark(&worker->runtime->closer);
}

static void loop(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    for (;;) { /* Ends when the runtime closes. */
        if (wf_load_relaxed(&runtime->world.is_stopped) != 0) {
            /* relaxed: whether it is this worker is only ever said by its own thread */
            WF_RULE(wf_load_relaxed(&runtime->stopper) != worker,
                    "who stopped the world waits or ends: weft_start_the_world comes first");
            wf_safe_enter(&runtime->world, &worker->safe);
            wf_monitor_wake_up(worker);
        }
        /* relaxed: seen by the spawns that follow, which are in the same thread */
        if (!worker->has_seen_closing && wf_load_relaxed(&runtime->is_closing) != 0) {
            see_closing(worker);
        }
        const uint32_t leaving = wf_load_acquire(&runtime->is_leaving); /* acquire: the closer's */
        if (leaving == WF_LEAVE_NOW) {
            WF_REACHED("worker.made_to_leave");
            return;
        }
        struct weft_task *task = worker->handed;
        worker->handed = NULL;
        if (task == NULL) {
            task = runtime->policy->poll(worker);
        }
        if (task != NULL) {
            run(worker, task);
        } else if (leaving == WF_LEAVE_WHEN_DONE) {
            return;
        } else {
            runtime->policy->rest(worker);
        }
    }
}

void *wf_worker_main(void *arg)
{
    struct wf_worker *worker = arg;
    int rc = wf_signal_stack_init(&worker->signal_stack);
    if (wf_start_report(worker->start, rc) == 0) {
        wf_seat = worker;
        wf_enter_loop(worker);
        wf_fiber_init_thread(&worker->loop);
        worker->now_ns = wf_clock_now();
        wf_monitor_wake_up(worker);
        loop(worker);
        struct wf_stack *spare = wf_load_relaxed(&worker->spare); /* relaxed: our own */
        if (spare != NULL) {
            wf_store_relaxed(&worker->spare, NULL);
            wf_stack_put(&worker->stacks, spare); /* its fiber is not resumed any more */
        }
        wf_stack_cache_done(&worker->stacks);
        wf_task_cache_done(worker->pool, &worker->tasks);
        wf_safe_enter(&worker->runtime->world, &worker->safe); /* for those who stop the world */
        wf_seat = NULL;
    }
    if (rc == 0) {
        wf_signal_stack_done(&worker->signal_stack);
    }
    return NULL;
}

/* ---- waiting ------------------------------------------------------------------------------- */

void wf_task_suspend(struct weft_task *self)
{
    wf_suspend(self);
}

static inline __attribute__((always_inline)) void yield(struct wf_worker *worker,
                                                        struct weft_task *self)
{
    struct weft_task *next = NULL;
    if (self->fiber == NULL) {
        return; /* a poll task: it yields by returning */
    }
    wf_counter_add(&worker->counters.yielded, 1);
    wf_trace(worker->trace, WF_TRACE_YIELD, wf_task_id(self), 0);
    self->budget = WF_TASK_BUDGET;
    if (!self->is_special) {
        next = wf_pick(worker);
        if (next == NULL && worker->is_fast && !wf_steal_is_due(worker)) {
            return; /* nobody else wants to run here */
        }
    }
    wf_leave(worker, self, next, WF_ERRAND_YIELD);
}

void wf_task_yield(struct weft_task *self)
{
    struct wf_worker *worker = wf_worker_self();
    /* relaxed: whether it is this worker is only ever said by its own thread */
    if (wf_load_relaxed(&worker->runtime->stopper) == worker) {
        self->budget = WF_TASK_BUDGET; /* nobody else may run; and it did not ask to yield */
        return;
    }
    yield(worker, self);
}

int weft_yield(void)
{
    struct wf_worker *worker = wf_worker_self();
    struct weft_task *self = worker != NULL ? wf_load_relaxed(&worker->current) : NULL;
    if (self == NULL) {
        (void)sched_yield(); /* cannot fail on Linux */
        return 0;
    }
    yield(worker, self);
    return wf_interrupted(self);
}

/* [any]  Queues a task that is ready, for the reason that `event` names. */
static void place_because(struct wf_worker *worker, struct weft_task *task,
                          enum wf_trace_event event)
{
    weft_runtime *runtime = task->pool->runtime;
    const uint64_t id = wf_task_id(task);
    const uint64_t parent = wf_load_relaxed(&task->parent_id); /* relaxed: whoever places has it */
    wf_trace_event(runtime, worker, event, id, event == WF_TRACE_SPAWN ? parent : 0);
    wf_trace_event(runtime, worker, WF_TRACE_QUEUE, id, 0);
    runtime->policy->place(runtime, worker, task);
}

/* [owner]  The same on one of the task's own workers. */
static inline void place_here(struct wf_worker *worker, struct weft_task *task,
                              enum wf_trace_event event)
{
    if (!worker->is_fast || worker->trace != NULL || task->is_special || WF_MIGRATES()) {
        place_because(worker, task, event);
        return;
    }
    struct weft_task *old = wf_slot_put(worker, task);
    if (old != NULL) {
        wf_steal_push(worker, old);
    }
}

/* [any]  Changes the state, and queues the task if that is what it needs. */
static inline void wake_by(struct wf_worker *worker, struct weft_task *task,
                           enum wf_wake (*change)(struct wf_state *))
{
    if (worker != NULL && worker->pool == task->pool) {
        if (change(&task->state) == WF_WAKE_QUEUE) {
            place_here(worker, task, WF_TRACE_WAKE);
        }
    } else if (wf_pool_enter(task->pool)) { /* its runtime may be closed meanwhile */
        struct wf_task_pool *pool = task->pool;
        if (change(&task->state) == WF_WAKE_QUEUE) {
            place_because(NULL, task, WF_TRACE_WAKE);
        }
        wf_pool_leave(pool);
    } else {
        WF_REACHED("worker.woken_after_its_runtime");
    }
}

void wf_task_wake(struct weft_task *task)
{
    wake_by(wf_worker_self(), task, wf_state_wake);
}

void wf_task_wake_on(struct wf_worker *worker, struct weft_task *task)
{
    wake_by(worker, task, wf_state_wake);
}

void wf_task_cancel(struct weft_task *task)
{
    wake_by(wf_worker_self(), task, wf_state_cancel);
}

void wf_task_place_on(struct wf_worker *worker, struct weft_task *task)
{
    if (worker != NULL && worker->pool == task->pool) {
        place_here(worker, task, WF_TRACE_SPAWN);
    } else {
        place_because(NULL, task, WF_TRACE_SPAWN);
    }
}

void wf_task_place(struct weft_task *task)
{
    wf_task_place_on(wf_worker_self(), task);
}

void wf_task_spend(struct weft_task *self)
{
    wf_spend(self);
}
