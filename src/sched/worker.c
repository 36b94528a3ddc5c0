/* SPDX-License-Identifier: MIT */
/*
 * sched/worker.c - a worker's thread: its loop, and the switch from task to task.
 *
 * Loop.  The worker's thread runs a loop on its own stack: find a task, switch to its fiber, finish
 * the switch when the thread comes back.
 *
 * Switch.  A task that suspends, yields or ends takes the next task from the worker's run queue
 * itself, and switches to it directly.  It returns to the loop only if the run queue is empty or
 * something else is due.  This saves one of two switches.
 *
 * Finish.  A task that switches away must be requeued or made IDLE, or its stack must be freed, and
 * that is safe only when no thread runs on its stack any more.  So the context that switches away
 * sends an after-switch action as the message of the switch: the address of a task or a stack, with
 * the action in its low bits.  The context that resumes calls wf_finish_switch() first.
 *
 * A task gets a stack when it first runs.  If a task ends and the next task has never run, the next
 * task takes over the stack: the fiber calls the next task's function, without a switch.
 *
 * The functions that every switch goes through are in switch.h.
 *
 * After a switch a fiber may run on another thread: it must read everything thread-local again.
 * See fiber.h.
 */
#include <errno.h>
#include <sched.h>

#include "sched/wait.h"

_Thread_local struct wf_worker *wf_current_worker;

WF_READS_TLS struct wf_worker *wf_worker_self(void)
{
    return wf_tls(wf_current_worker);
}

WF_READS_TLS struct weft_task *wf_task_self(void)
{
    return wf_task_on(wf_tls(wf_current_worker));
}

/* [owner]  Makes the task IDLE.  If a waker was faster, requeues it. */
static void make_idle(struct wf_worker *worker, struct weft_task *task)
{
    /* First: once the task is IDLE it may be woken, run and freed. */
    wf_trace(worker->trace, WF_TRACE_COMMIT, wf_task_id(task), 0);
    if (!wf_state_park(&task->state)) {
        WF_REACHED("worker.woken_before_it_slept");
        wf_ready(worker, task, WF_RUN_BACK);
    }
}

void wf_finish_switch(struct wf_worker *worker, void *message)
{
    const enum wf_after_switch after = (enum wf_after_switch)((uintptr_t)message & WF_AFTER_MASK);
    void *what = (char *)message - after;
    struct weft_task *task = what;
    switch (after) {
    case WF_AFTER_REQUEUE:
        wf_ready(worker, task, WF_RUN_BACK);
        break;
    case WF_AFTER_RUN_NEXT: /* a task that became ready meanwhile keeps the LIFO slot */
        wf_ready(worker, task, wf_lifo_is_full(&worker->runq) ? WF_RUN_BACK : WF_RUN_NEXT);
        break;
    case WF_AFTER_PARK:
        make_idle(worker, task);
        break;
    case WF_AFTER_FREE_STACK:
        wf_stack_put(&worker->stacks, what);
        break;
    case WF_AFTER_NOTHING:
        break;
    }
}

/* ---- fibers of tasks ----------------------------------------------------------------------- */

/* [owner]  Returns the next task if the fiber on `stack` must run it.  NULL: the fiber must switch
 * to *to, which is the loop or the fiber of the next task. */
static struct weft_task *next_on_stack(struct wf_worker *worker, struct wf_stack *stack,
                                       struct wf_fiber **to)
{
    *to = &worker->loop;
    struct weft_task *next = wf_pick_next(worker);
    if (next == NULL) {
        wf_enter_loop(worker);
        return NULL;
    }
    if (next->fiber != NULL) {
        wf_enter_task(worker, next);
        *to = next->fiber;
        return NULL;
    }
    if (wf_load_relaxed(&next->stack_size) != 0 || next->body != WF_BODY_GREEN) {
        WF_REACHED("worker.stack_does_not_fit");
        worker->run.next = next;
        wf_enter_loop(worker);
        return NULL;
    }
    next->fiber = &stack->fiber;
    wf_store_relaxed(&stack->user, next); /* relaxed: only this thread's SIGSEGV handler reads it */
    wf_enter_task(worker, next);
    return next;
}

/* [owner]  The stack becomes the worker's warm stack, and its fiber switches to *to.  The next task
 * that begins on this worker begins here, which saves fetching a stack and making a fiber.  Returns
 * that task. */
static struct weft_task *warm_stack_wait(struct wf_worker *worker, struct wf_stack *stack,
                                         struct wf_fiber *to)
{
    wf_store_relaxed(&stack->user, NULL); /* relaxed: only this thread's SIGSEGV handler reads it */
    /* relaxed: only this thread takes it, in wf_task_begin */
    wf_store_relaxed(&worker->warm_stack, stack);
    void *message = wf_fiber_switch(&stack->fiber, to, wf_switch_message(NULL, WF_AFTER_NOTHING));
    worker = wf_worker_self();
    wf_finish_switch(worker, message);
    return wf_load_relaxed(&worker->current); /* relaxed: only the owner writes it */
}

/* [the task]  In the child of fork(2) no worker can run another task: see runtime/runtime.c. */
static void check_process(void)
{
    WF_RULE(!wf_is_forked(),
            "the task must not end or wait in the child of fork: call exec or _exit");
}

/* [the task]  The task's function has returned.  Scopes, cleanups, forks and hooks that its frames
 * contained can be neither closed nor run any more. */
static void check_frame(const struct weft_task *task)
{
    check_process();
    WF_RULE(task->open_scopes == NULL, "the task ended with an open scope: call weft_scope_close");
    WF_RULE(task->cleanups == NULL, "the task ended with a cleanup: call weft_cleanup_pop");
    WF_RULE(!wf_has_forks(task), "the task ended with an unjoined fork: call weft_par_fork_join");
    WF_RULE(task->abandon_hooks == NULL, "the task ended with a pending future: drop it first");
}

/* [the task]  The task must not own a lock that its frames contained.  All other locks that it owns
 * are released: see life/attachments.c. */
static void check_owned_locks(const struct weft_task *task, const struct wf_stack *stack)
{
    for (const struct wf_owned_lock *owned = task->owned_locks; owned != NULL;
         owned = owned->next) {
        const char *place = (const char *)owned;
        WF_RULE(place < stack->low || place >= wf_stack_high(stack),
                "the task ended with a held lock in its stack frame: unlock it first");
    }
}

/* The entry function of a task's fiber.  Runs one task after the other, as long as the next task
 * can begin on this stack. */
static struct wf_fiber_exit task_entry(void *arg, void *message)
{
    struct wf_stack *stack = arg;
    struct wf_worker *worker = wf_worker_self();
    /* relaxed: only the owner writes it */
    struct weft_task *task = wf_load_relaxed(&worker->current);
    /* wf_stack_put checks the canary, so a stack with a canary is put back after each task. */
    const bool is_default = wf_load_relaxed(&task->stack_size) == 0 &&
                            task->body == WF_BODY_GREEN && stack->guard != WF_GUARD_CANARY;
    struct wf_fiber *to = &worker->loop;
    wf_finish_switch(worker, message);
    do {
        intptr_t result = wf_load_relaxed(&task->fn)(task->arg);
        if (!task->is_bare) {
            check_frame(task);
        }
        if (__builtin_expect(task->owned_locks != NULL, 0)) {
            check_owned_locks(task, stack);
        }
        worker = wf_upcalls.task_finish(task, result);
        task = NULL;
        if (is_default) {
            task = next_on_stack(worker, stack, &to);
            /* relaxed: only the owner writes it */
            if (task == NULL && wf_load_relaxed(&worker->warm_stack) == NULL) {
                task = warm_stack_wait(worker, stack, to);
            }
        } else {
            to = &worker->loop;
            wf_enter_loop(worker);
        }
    } while (task != NULL);
    return (struct wf_fiber_exit){to, wf_switch_message(stack, WF_AFTER_FREE_STACK)};
}

_Noreturn void wf_task_exit(struct weft_task *self, intptr_t result)
{
    struct wf_fiber *fiber = self->fiber;
    struct wf_worker *worker = wf_upcalls.task_finish(self, result);
    wf_enter_loop(worker);
    wf_fiber_switch_final(fiber, &worker->loop,
                          wf_switch_message(fiber->stack, WF_AFTER_FREE_STACK));
}

int wf_task_begin(struct wf_worker *worker, struct weft_task *task)
{
    /* relaxed: only the owner writes it */
    struct wf_stack *stack = wf_load_relaxed(&worker->warm_stack);
    if (stack != NULL && wf_load_relaxed(&task->stack_size) == 0 && task->body == WF_BODY_GREEN) {
        wf_store_relaxed(&worker->warm_stack, NULL); /* relaxed: other threads only read it */
        wf_store_relaxed(&stack->user, task);        /* relaxed: only this thread's SIGSEGV handler
                                                      * reads it */
        task->fiber = &stack->fiber;
        return 0;
    }
    size_t size = (size_t)wf_load_relaxed(&task->stack_size) << 10; /* relaxed: set by the spawn */
    size = size != 0 ? size : worker->runtime->options.stack_size;
    int rc = wf_stack_get(&worker->stacks, size, &stack);
    if (rc != 0) {
        return rc;
    }
    wf_store_relaxed(&stack->user, task); /* relaxed: only this thread's SIGSEGV handler reads it */
    wf_fiber_init(&stack->fiber, stack, task_entry, stack);
    if (task->body == WF_BODY_GREEN_FP) {
        wf_fiber_keep_fp_control(&stack->fiber);
    }
    task->fiber = &stack->fiber;
    return 0;
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* [loop]  Calls a poll task once. */
static void poll_task_run(struct wf_worker *worker, struct weft_task *task)
{
    intptr_t result = 0;
    wf_enter_task(worker, task);
    const bool has_ended = wf_upcalls.poll_call(worker, task, &result);
    if (!task->is_bare) {
        check_process();
    }
    if (has_ended) {
        (void)wf_upcalls.task_finish(task, result);
        wf_enter_loop(worker);
    } else {
        wf_enter_loop(worker);
        make_idle(worker, task);
    }
}

/* [loop]  Runs the task until the thread returns to the loop; other tasks may have run in between.
 * A task that gets no stack ends here.  That changes run.seq too, so that the failure is reported
 * when the runtime is quiescent. */
static void worker_run(struct wf_worker *worker, struct weft_task *task)
{
    wf_store_release(&worker->run.seq, worker->run.seq_own + 1); /* (sched.Y1) */
    if (task->body == WF_BODY_POLL) {
        poll_task_run(worker, task);
    } else if (task->fiber == NULL && wf_task_begin(worker, task) != 0) {
        WF_REACHED("worker.no_stack");
        wf_upcalls.task_abandon(task, -ENOMEM);
    } else {
        wf_enter_task(worker, task);
        void *message =
            wf_fiber_switch(&worker->loop, task->fiber, wf_switch_message(NULL, WF_AFTER_NOTHING));
        WEFT_ASSERT(worker == wf_worker_self()); /* the loop stays with its thread */
        wf_enter_loop(worker);
        wf_finish_switch(worker, message);
    }
    worker->run.seq_own += 2;
    wf_store_release(&worker->run.seq, worker->run.seq_own); /* (sched.Y1) */
}

/* [loop]  The worker has seen that the runtime closes: no task can spawn on this worker any more.
 * Wakes the closer, which then cancels the tasks that were spawned here after its last pass. */
static void note_closing(struct wf_worker *worker)
{
    worker->has_seen_closing = true;
    wf_parker_unpark(&worker->runtime->shutdown.closer);
}

static void loop(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    for (;;) { /* Ends when the runtime closes. */
        if (wf_load_relaxed(&runtime->world.is_stopped) != 0) {
            /* relaxed: only the worker's own thread stores the worker here */
            WF_RULE(wf_load_relaxed(&runtime->world_turn.worker) != worker,
                    "the task has stopped the world and must not wait or end: call "
                    "weft_world_start");
            wf_safe_enter(&runtime->world, &worker->safe);
            wf_worker_leave_safe(worker);
        }
        /* relaxed: the spawns that follow are on the same thread, and see it too */
        if (!worker->has_seen_closing && wf_load_relaxed(&runtime->shutdown.is_closing) != 0) {
            note_closing(worker);
        }
        /* acquire: pairs with the closer's store in workers_leave */
        const uint32_t leaving = wf_load_acquire(&runtime->shutdown.exit_mode);
        if (leaving == WF_EXIT_NOW) {
            WF_REACHED("worker.made_to_leave");
            return;
        }
        struct weft_task *task = worker->run.next;
        worker->run.next = NULL;
        if (task == NULL) {
            task = runtime->policy->next(worker);
        }
        if (task != NULL) {
            worker_run(worker, task);
        } else if (leaving == WF_EXIT_WHEN_DONE) {
            return;
        } else {
            runtime->policy->park(worker);
        }
    }
}

void *wf_worker_main(void *arg)
{
    struct wf_worker *worker = arg;
    int rc = wf_signal_stack_init(&worker->thread.signal_stack);
    if (wf_start_report(worker->thread.start, rc) == 0) {
        wf_current_worker = worker;
        wf_enter_loop(worker);
        wf_fiber_init_thread(&worker->loop);
        worker->tick.now_ns = wf_clock_now();
        wf_worker_leave_safe(worker);
        loop(worker);
        /* relaxed: only the owner writes it */
        struct wf_stack *warm_stack = wf_load_relaxed(&worker->warm_stack);
        if (warm_stack != NULL) {
            wf_store_relaxed(&worker->warm_stack, NULL);
            wf_stack_put(&worker->stacks, warm_stack); /* its fiber is not resumed any more */
        }
        wf_stack_cache_done(&worker->stacks);
        wf_task_cache_done(worker->pool, &worker->tasks);
        wf_safe_enter(&worker->runtime->world, &worker->safe); /* a stopper does not wait for it */
        wf_current_worker = NULL;
    }
    if (rc == 0) {
        wf_signal_stack_done(&worker->thread.signal_stack);
    }
    return NULL;
}

/* ---- counting ------------------------------------------------------------------------------ */

uint64_t wf_runtime_live(const weft_runtime *runtime)
{
    /* (sched.Y2) acquire, and read first: a task that is counted as ended is counted as begun in
     * the reads that follow. */
    uint64_t ended = wf_load_acquire(&runtime->foreign.completed);
    uint64_t begun = 0;
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        ended += wf_load_acquire(&runtime->workers[i].counters.completed);
    }
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        begun += wf_counter_read(&runtime->workers[i].counters.spawned);
    }
    begun += wf_counter_read(&runtime->foreign.spawned);
    return begun > ended ? begun - ended : 0;
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
    if (!self->needs_slow_queue) {
        next = wf_pick_next(worker);
        if (next == NULL && worker->runq.mode == WF_RUNQ_FAIR && !wf_steal_is_due(worker)) {
            return; /* no other task is ready here */
        }
    }
    wf_switch_away(worker, self, next, WF_AFTER_REQUEUE);
}

void wf_task_yield(struct weft_task *self)
{
    struct wf_worker *worker = wf_worker_self();
    /* relaxed: only the worker's own thread stores the worker here */
    if (wf_load_relaxed(&worker->runtime->world_turn.worker) == worker) {
        self->budget = WF_TASK_BUDGET; /* it has stopped the world: no other task may run */
        return;
    }
    yield(worker, self);
}

int weft_yield(void)
{
    struct wf_worker *worker = wf_worker_self();
    struct weft_task *self = wf_task_on(worker);
    if (self == NULL) {
        (void)sched_yield(); /* cannot fail on Linux */
        return 0;
    }
    yield(worker, self);
    return wf_interrupted(self);
}

void wf_task_spend(struct weft_task *self)
{
    wf_budget_spend(self);
}
