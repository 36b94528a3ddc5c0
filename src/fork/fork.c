/* SPDX-License-Identifier: MIT */
/*
 * fork/fork.c - fork-join with the records in the frames of a task.
 *
 * A fork that no thief takes costs five stores and a join that calls it: no allocation, no locked
 * instruction, no fence.  Thieves take from the shared part of the split deque (fork_shared.c).
 * The owner moves forks there on a request, at its next fork or join.  The request comes from a
 * thief that found no exposed fork, from the thief that took the last one, or from the owner
 * itself when none of its forks is exposed.  So as long as a task has private forks, one is exposed
 * or is about to be, and a long leaf hides no work.  A task whose forks no thief wants touches the
 * shared part once for each tree of forks.  The owner exposes the oldest half of its private forks:
 * these are the largest.
 *
 * A thief makes a task for the fork, with a stack, before its CAS.  After the CAS nothing can fail.
 * The task is an ordinary one, which may wait and migrate.  The record of the fork owns the only
 * handle of that task, and the join waits for its end.
 *
 * A task that is suspended with unjoined forks makes a task of each fork and queues it: the
 * suspended task may wait for what its forks do, and there may be only one worker.  In the reactor
 * policy no worker steals.  There the owner makes tasks of its oldest forks on a request, at most
 * one for each worker without work.
 *
 * Rejected: thieves that take forks of suspended tasks.  They would have to find these tasks first.
 */
#include <errno.h>
#include <string.h>

#include <weft/par_fork_typed.h>

#include "fork/fork.h"

_Static_assert(offsetof(struct weft_par_forks, newest) ==
                       offsetof(struct weft_par_forks_front, newest) &&
                   offsetof(struct weft_par_forks, marked) ==
                       offsetof(struct weft_par_forks_front, marked) &&
                   offsetof(struct weft_par_forks, requested) ==
                       offsetof(struct weft_par_forks_front, requested),
               "the public inline functions use these fields");

/* A caller with these forks runs each fork at once.  Also used when there is no memory for a split
 * deque. */
struct weft_par_forks wf_forks_outside = {.requested = {WEFT_PAR_FORKS_AT_ONCE}};

/* ---- tasks made of forks ------------------------------------------------------------------- */

/* [owner]  Copies to the task what a fork inherits from its parent, which cannot end before the
 * fork does. */
static void fork_inherit(struct wf_worker *worker, struct weft_task *task, struct weft_task *parent,
                         const weft_par_fork *fork)
{
    /* All relaxed: the task is not queued yet, and other threads read it only for information. */
    wf_store_relaxed(&task->fn, fork->fn);
    task->arg = fork->arg;
    task->is_bare = false;
    task->home = (uint16_t)worker->index;
    wf_store_relaxed(&task->origin.parent_id, wf_task_id(parent));
    wf_store_relaxed(&task->origin.site, (uintptr_t)fork->fn);
    wf_store_relaxed(&task->marks, WF_TASK_OBSERVED); /* the join reads the result */
    wf_store_relaxed(&task->deadline, wf_load_relaxed(&parent->deadline));
    wf_store_relaxed(&task->priority, wf_load_relaxed(&parent->priority));
    task->needs_slow_queue = wf_load_relaxed(&task->priority) != WEFT_PRIORITY_NORMAL;
    wf_counter_add(&worker->counters.spawned, 1);
    if (worker->runtime->options.tasks_max != 0) {
        /* relaxed: a number; the limit never refuses a fork */
        (void)wf_fetch_add_relaxed(&worker->runtime->limits->live, 1);
    }
    if (wf_state_is_cancelled(&parent->state)) {
        (void)wf_state_cancel(&task->state); /* the task does not wait: no wake-up */
    }
}

/* [the task]  Makes a task of one of its forks and queues it.  False: out of memory. */
static bool fork_to_task(struct wf_worker *worker, struct weft_task *self, weft_par_fork *fork)
{
    const struct wf_spawn spawn = {.fn = fork->fn, .arg = fork->arg, .has_handle = true};
    if (wf_task_make(worker, &spawn, &fork->task) != 0) {
        return false;
    }
    fork->place = WF_FORK_KEPT;
    fork_inherit(worker, fork->task, self, fork);
    wf_store_relaxed(&fork->task->stack_size, wf_load_relaxed(&self->stack_size));
    if (wf_load_relaxed(&self->pins) > 0) {
        wf_store_relaxed(&fork->task->pins, 1);
        fork->task->needs_slow_queue = true;
    }
    wf_task_place_on(worker, fork->task);
    return true;
}

/* ---- exposing forks ------------------------------------------------------------------------ */

/* [the task]  Whether its forks may run on other workers. */
static bool may_share(const struct wf_worker *worker, const struct weft_task *self)
{
    return !worker->is_single && wf_load_relaxed(&self->pins) == 0 &&
           self->body != WF_BODY_GREEN_FP && !worker->runtime->options.no_steal;
}

/* [the task]  Links the forks from `marked` to the newest in the direction from old to new, and
 * sets `marked` to the newest.  So each record is linked only once. */
static void link_newer(struct weft_par_forks *forks)
{
    weft_par_fork *fork = forks->newest;
    for (; fork != NULL && fork != forks->marked; fork = fork->older) {
        if (fork->older != NULL) {
            fork->older->newer = fork;
        } else {
            forks->oldest = fork;
        }
    }
    forks->marked = forks->newest;
}

/* [the task]  Finds the oldest half of its private forks, at most `limit`, oldest first.  Returns
 * their number. */
static uint32_t find_oldest(struct weft_par_forks *forks, uint32_t limit,
                            weft_par_fork *found[2 * WF_FORK_SHARED_MAX])
{
    uint32_t count = 0;
    link_newer(forks);
    weft_par_fork *fork = forks->shared != NULL ? forks->shared->newer : forks->oldest;
    for (found[count++] = fork; fork != forks->newest && count < 2 * limit; found[count++] = fork) {
        fork = fork->newer;
    }
    return count - count / 2;
}

/* [the task]  Makes tasks of its oldest private forks: at most one for each worker to which the
 * control thread has no task to give. */
static void expose_as_tasks(struct wf_worker *worker, struct weft_par_forks *forks)
{
    wf_fence_seq_cst(); /* (sched.K4): the task sees the idle workers, or is requested again */
    const unsigned idle = worker->runtime->policy->idle_count(worker->runtime);
    weft_par_fork *found[2 * WF_FORK_SHARED_MAX];
    if (idle == 0) {
        return;
    }
    const uint32_t count =
        find_oldest(forks, idle < WF_FORK_SHARED_MAX ? idle : WF_FORK_SHARED_MAX, found);
    for (uint32_t i = 0; i < count && fork_to_task(worker, forks->owner, found[i]); i++) {
        forks->shared = found[i];
    }
}

/* [the task]  Exposes the oldest half of its private forks, and notifies a parked worker. */
static void expose_oldest(struct wf_worker *worker, struct weft_par_forks *forks)
{
    weft_runtime *runtime = worker->runtime;
    weft_par_fork *found[2 * WF_FORK_SHARED_MAX];
    const uint32_t count = find_oldest(forks, WF_FORK_SHARED_MAX, found);
    for (uint32_t i = 0; i < count && wf_fork_expose(forks, found[i]); i++) {
        forks->shared = found[i];
    }
    wf_steal_notify(runtime, worker);
}

/* [the task]  Answers a request.  Without private forks the request stays set. */
static void answer_request(struct wf_worker *worker, struct weft_par_forks *forks)
{
    if (forks->newest == forks->shared) {
        return;
    }
    /* relaxed: a fence follows before this task looks for idle workers: in wf_steal_notify (steal),
     * or in expose_as_tasks (reactor, (sched.K4)). */
    wf_store_relaxed(&forks->requested, WF_FORK_NOT_REQUESTED);
    if (!may_share(worker, forks->owner)) {
        return;
    }
    if (worker->runtime->policy->steals) {
        expose_oldest(worker, forks);
    } else {
        expose_as_tasks(worker, forks);
    }
}

void wf_forks_release(struct weft_task *self)
{
    struct wf_worker *worker = wf_worker_self();
    struct weft_par_forks *forks = wf_forks_of(self);
    bool is_private = forks->newest != forks->shared;
    bool are_all_released = true;
    /* relaxed: a flag.  The closer cancels all tasks, so no task waits for these forks. */
    if (self->body == WF_BODY_GREEN_FP ||
        wf_load_relaxed(&worker->runtime->shutdown.is_closing) != 0) {
        return;
    }
    for (weft_par_fork *fork = forks->newest; fork != forks->released; fork = fork->older) {
        is_private = is_private && fork != forks->shared;
        if (is_private) {
            fork->task = NULL;
            fork->place = WF_FORK_KEPT;
        } else if (fork->task == NULL && fork->place != WF_FORK_KEPT) {
            fork->task = wf_fork_retract(forks, fork);
            fork->place = WF_FORK_KEPT;
        }
        if (fork->task == NULL && !fork_to_task(worker, self, fork)) {
            WF_REACHED("fork.release_without_memory");
            are_all_released = false;
        }
    }
    link_newer(forks);
    forks->shared = forks->newest;
    forks->released = are_all_released ? forks->newest : forks->released;
    wf_store_relaxed(&forks->requested, WF_FORK_BY_OWNER); /* relaxed: a request to ourselves */
}

/* ---- fork ---------------------------------------------------------------------------------- */

/* [the task]  Gives the task a split deque and returns the deque.  NULL: out of memory. */
static struct weft_par_forks *attach(struct wf_worker *worker, struct weft_task *self)
{
    struct wf_task_extra *extra = wf_task_extra(self);
    if (extra == NULL) {
        return NULL;
    }
    struct weft_par_forks *forks = extra->forks_memory;
    if (forks == NULL) {
        forks = wf_alloc_aligned(WF_CACHE_LINE, sizeof(*forks));
        if (forks == NULL) {
            return NULL;
        }
        memset(forks, 0, sizeof(*forks));
        forks->owner = self;
        extra->forks_memory = forks;
    }
    /* relaxed: the store below publishes it.  A thief that knows this memory from an earlier task
     * can only set a request. */
    wf_store_relaxed(&forks->requested,
                     worker->is_single ? WF_FORK_NOT_REQUESTED : WF_FORK_BY_OWNER);
    self->is_bare = false;                  /* its end and every wait must check its forks */
    wf_store_release(&extra->forks, forks); /* (fork.K3) */
    worker->forks = forks;
    return forks;
}

weft_par_forks *weft_par_forks_self(void)
{
    struct wf_worker *worker = wf_worker_self();
    struct weft_task *self = wf_task_on(worker);
    struct weft_par_forks *forks = self != NULL ? wf_forks_of(self) : NULL;
    if (forks == NULL && self != NULL && self->body != WF_BODY_POLL) {
        forks = attach(worker, self);
    }
    return forks != NULL ? forks : &wf_forks_outside;
}

/* [the task]  Adds a private fork. */
static inline void fork_push(struct weft_par_forks *forks, weft_par_fork *fork)
{
    fork->older = forks->newest;
    forks->newest = fork;
}

void weft_par_fork_go_slow(weft_par_forks *forks, weft_par_fork *fork)
{
    fork->forks = forks;
    if (forks == &wf_forks_outside) {
        fork->result = fork->fn(fork->arg);
        return;
    }
    fork_push(forks, fork);
    if (wf_load_relaxed(&forks->requested) != WF_FORK_NOT_REQUESTED) { /* relaxed: a request */
        answer_request(wf_worker_self(), forks);
    }
}

/* [any]  Not inlined: the fast path of weft_par_fork_go is a dozen instructions without a frame. */
static __attribute__((noinline)) void go_slow(weft_par_fork *fork)
{
    weft_par_fork_go_slow(weft_par_forks_self(), fork);
}

void weft_par_fork_go(weft_par_fork *fork, weft_fn fn, void *arg)
{
    const struct wf_worker *worker = wf_current_worker;
    fork->fn = fn;
    fork->arg = arg;
    if (__builtin_expect(worker != NULL, 1)) {
        struct weft_par_forks *forks = worker->forks;
        /* relaxed: a request */
        if (__builtin_expect(wf_load_relaxed(&forks->requested) == WF_FORK_NOT_REQUESTED, 1)) {
            fork->forks = forks;
            fork_push(forks, fork);
            return;
        }
    }
    go_slow(fork);
}

/* ---- join ---------------------------------------------------------------------------------- */

/* [the task]  Removes the newest fork, which is in the shared part and has no slot any more. */
static void pop_shared(struct weft_par_forks *forks, weft_par_fork *fork)
{
    uint32_t slot;
    forks->newest = fork->older;
    forks->marked = fork->older;
    forks->shared = fork->older;
    if (forks->released == fork) {
        forks->released = fork->older;
    }
    if (fork->place != WF_FORK_KEPT) {
        forks->position = fork->place;
    }
    if (wf_fork_peek(forks, &slot) == 0) {
        wf_store_relaxed(&forks->requested, WF_FORK_BY_OWNER); /* relaxed: a request to ourselves */
    }
}

/* [the task]  Claims a fork of the shared part.  NULL: the caller owns the fork.  Otherwise returns
 * the task that runs it. */
static struct weft_task *fork_claim(struct weft_par_forks *forks, weft_par_fork *fork)
{
    if (fork->task == NULL && fork->place != WF_FORK_KEPT) {
        fork->task = wf_fork_retract(forks, fork);
    }
    return fork->task;
}

/* [the task]  Cancels the tasks that took its forks, and retracts the other forks. */
static void cancel_all(struct weft_par_forks *forks)
{
    for (weft_par_fork *fork = forks->shared; fork != NULL; fork = fork->older) {
        if (fork_claim(forks, fork) != NULL) {
            wf_task_cancel(fork->task);
        } else {
            fork->place = WF_FORK_KEPT; /* retracted: its join runs it */
        }
    }
}

/* [task]  Waits for the end of `task`, even if the caller is cancelled or its deadline passes: then
 * it waits again under a shield.  A caller that is cancelled first cancels all its forks. */
static void fork_wait_end(struct weft_par_forks *forks, struct weft_task *task)
{
    WF_RULE(!wf_is_forked(), "weft_par_fork_join: the fork runs in the parent: call exec or _exit");
    int rc = wf_join_wait(task);
    if (rc == 0) {
        return;
    }
    if (rc == -ECANCELED) {
        cancel_all(forks);
    }
    struct weft_task *self = forks->owner;
    const bool is_shielded =
        wf_state_shield(&self->state) == 0; /* otherwise the depth is 255 already */
    rc = wf_join_wait(task);
    WEFT_CHECK(rc == 0); /* no cancellation passes a shield */
    if (is_shielded) {
        (void)wf_state_unshield(&self->state);
    }
}

/* [the task]  Fails with the error and message of its fork, which has failed. */
static _Noreturn void fail_as(struct weft_task *task)
{
    char message[256];
    const int error = (int)wf_plain_load(&task->result);
    (void)wf_message_copy(task, message, sizeof(message)); /* may be truncated */
    wf_task_unref(task);
    weft_fail(error, message[0] != '\0' ? "%s" : NULL, message);
}

/* [the task]  Joins the newest fork, which is in the shared part. */
static intptr_t join_shared(struct weft_par_forks *forks, weft_par_fork *fork)
{
    struct weft_task *task = fork_claim(forks, fork);
    if (task == NULL) {
        pop_shared(forks, fork);
        return fork->fn(fork->arg);
    }
    fork_wait_end(forks, task);
    pop_shared(forks, fork);
    /* relaxed: (task.T3) orders it */
    if ((wf_load_relaxed(&task->marks) & WF_TASK_FAILED) != 0) {
        fail_as(task);
    }
    const bool has_run = wf_load_relaxed(&task->runs) > 0;
    const intptr_t result = wf_plain_load(&task->result);
    wf_task_unref(task);
    if (!has_run) {
        WF_REACHED("fork.task_without_stack");
        return fork->fn(fork->arg); /* the task got no stack: the join runs the fork itself */
    }
    return result;
}

intptr_t weft_par_fork_join_slow(weft_par_forks *forks, weft_par_fork *fork)
{
    if (forks == &wf_forks_outside) {
        return fork->result;
    }
    WF_RULE(forks->newest == fork, "weft_par_fork_join: not the newest fork");
    struct wf_worker *worker = wf_worker_self(); /* NULL: in the child of fork(2) */
    /* relaxed: a request */
    if (wf_load_relaxed(&forks->requested) != WF_FORK_NOT_REQUESTED && worker != NULL) {
        answer_request(worker, forks);
    }
    if (forks->shared == fork) {
        return join_shared(forks, fork);
    }
    if (forks->marked == fork) {
        forks->marked = fork->older;
    }
    forks->newest = fork->older;
    return fork->fn(fork->arg);
}

/* ---- drop without join --------------------------------------------------------------------- */

void wf_forks_cut(struct weft_task *self)
{
    struct weft_par_forks *forks = wf_forks_of(self);
    forks->newest = forks->shared;
    forks->marked = forks->shared;
    cancel_all(forks);
    while (forks->newest != NULL) {
        weft_par_fork *fork = forks->newest;
        if (fork->task != NULL) {
            WF_REACHED("fork.failure_waits_for_thief");
            fork_wait_end(forks, fork->task);
            wf_task_unref(fork->task);
        }
        pop_shared(forks, fork);
    }
}

void wf_forks_forget(struct weft_task *task)
{
    struct weft_par_forks *forks = wf_forks_of(task);
    for (weft_par_fork *fork = forks->shared; fork != NULL; fork = fork->older) {
        if (fork_claim(forks, fork) != NULL) {
            WF_REACHED("fork.forgotten");
            wf_task_unref(fork->task);
        }
    }
    forks->newest = NULL;
    forks->marked = NULL;
    forks->shared = NULL;
    forks->released = NULL;
}

/* ---- steal --------------------------------------------------------------------------------- */

/* [any]  Returns the split deque of the task that runs on `victim`; NULL: none.  The task may end
 * meanwhile.  The pool reuses its memory, extras and split deque only for another task and frees
 * them when the pool is freed, so the caller may still read the split deque. */
static struct weft_par_forks *forks_on(struct wf_worker *victim)
{
    struct weft_task *task = wf_load_acquire(&victim->current); /* (sched.K5) */
    const struct wf_task_extra *extra = task != NULL ? wf_load_acquire(&task->extra) : NULL;
    return extra != NULL ? wf_load_acquire(&extra->forks) : NULL; /* (fork.K3) */
}

bool wf_fork_is_open(struct wf_worker *victim)
{
    uint32_t slot;
    struct weft_par_forks *forks = forks_on(victim);
    return forks != NULL && wf_fork_peek(forks, &slot) != 0;
}

void wf_forks_request_all(weft_runtime *runtime)
{
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        struct weft_par_forks *forks = forks_on(&runtime->workers[i]);
        if (forks != NULL) {
            wf_fork_request(forks);
        }
    }
}

/* [owner]  Makes a task with a stack of that size, so that nothing can fail after the CAS.  NULL:
 * no memory. */
static struct weft_task *fork_task_new(struct wf_worker *worker, uint32_t stack_size)
{
    const struct wf_spawn spawn = {.has_handle = true};
    struct weft_task *task;
    if (wf_task_make(worker, &spawn, &task) != 0) {
        return NULL;
    }
    wf_store_relaxed(&task->stack_size, stack_size); /* relaxed: the task is not queued yet */
    if (wf_task_begin(worker, task) != 0) {
        WF_REACHED("fork.steal_without_stack");
        wf_task_unmake(worker, task);
        return NULL;
    }
    return task;
}

/* [owner]  The thief lost the race for the fork: returns the stack of the task that it made. */
static void return_stack(struct wf_worker *worker, struct weft_task *task)
{
    struct wf_stack *stack = task->fiber->stack;
    task->fiber = NULL;
    wf_store_relaxed(&stack->user, NULL); /* relaxed: only this thread's SIGSEGV handler reads it */
    /* relaxed: only the owner writes them.  The stack may have been the warm one, whose fiber waits
     * for its next task. */
    if (wf_load_relaxed(&task->stack_size) == 0 && wf_load_relaxed(&worker->warm_stack) == NULL) {
        wf_store_relaxed(&worker->warm_stack, stack);
    } else {
        wf_stack_put(&worker->stacks, stack);
    }
}

/* [owner]  Gives the task a stack of the right size.  The thief has read the size before its CAS,
 * when the parent's memory may still have belonged to an earlier task. */
static void fit_stack(struct wf_worker *worker, struct weft_task *task, uint32_t stack_size)
{
    if (wf_load_relaxed(&task->stack_size) ==
        stack_size) { /* relaxed: the task is not queued yet */
        return;
    }
    struct wf_fiber *fiber = task->fiber;
    const uint32_t old_size = wf_load_relaxed(&task->stack_size);
    wf_store_relaxed(&task->stack_size, stack_size);
    if (wf_task_begin(worker, task) != 0) {
        wf_store_relaxed(&task->stack_size, old_size); /* no memory: the task keeps its stack */
        task->fiber = fiber;
        return;
    }
    wf_stack_put(&worker->stacks, fiber->stack);
}

struct weft_task *wf_fork_steal(struct wf_worker *worker, struct wf_worker *victim)
{
    struct weft_par_forks *forks = forks_on(victim);
    if (forks == NULL) {
        return NULL;
    }
    uint32_t slot;
    const uintptr_t word = wf_fork_peek(forks, &slot);
    if (word == 0) {
        wf_fork_request(forks);
        return NULL;
    }
    struct weft_task *parent = forks->owner;
    /* relaxed: a flag.  The closer must find and cancel all tasks, so a thief makes no new task
     * while the runtime closes. */
    if (wf_load_relaxed(&worker->runtime->shutdown.is_closing) != 0) {
        return NULL;
    }
    /* relaxed: fit_stack corrects the size of an earlier task in the same memory */
    struct weft_task *task = fork_task_new(worker, wf_load_relaxed(&parent->stack_size));
    if (task == NULL) {
        return NULL;
    }
    const weft_par_fork *fork = wf_fork_take(forks, slot, word, task);
    if (fork == NULL) {
        return_stack(worker, task);
        wf_task_unmake(worker, task);
        return NULL;
    }
    fork_inherit(worker, task, parent, fork);
    fit_stack(worker, task,
              wf_load_relaxed(&parent->stack_size)); /* relaxed: the parent cannot end now */
    wf_counter_add(&worker->counters.forks_taken, 1);
    if (wf_fork_peek(forks, &slot) == 0) {
        wf_fork_request(forks);
    }
    wf_trace(worker->trace, WF_TRACE_STEAL, wf_task_id(task), victim->index);
    return task;
}
