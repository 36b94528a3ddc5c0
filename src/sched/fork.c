/* SPDX-License-Identifier: MIT */
/*
 * sched/fork.c - fork-join in the frames of a task.
 *
 * A fork that nobody takes is five stores and a join that calls it: no allocation, no locked
 * instruction, no fence.  What others may take lies on the board (board.c), and gets there when the
 * task is asked: by a thief that found nothing, by the thief that took the last one, or by the task
 * itself when nothing of it lies open.  So as long as a task has forks of its own, one lies open or
 * is about to, and a long leaf hides no work; and a task whose forks nobody wants touches the board
 * once for each tree.  Of the private ones the oldest half is laid open: they are the largest.
 *
 * Who takes a fork makes a task of it, with a stack, before the CAS: from then on nothing can fail.
 * The task is an ordinary one, that may wait and move; the record holds its one handle, and the
 * join is an await.
 *
 * A task that is suspended with unjoined forks makes tasks of them all, and places these like any
 * other: it may be that it waits for what they do, on the only worker there is.  In the policy of
 * the reactor, where no worker looks for work by itself, the same happens to as many as there are
 * workers without work, when the task is asked.
 *
 * Rejected: to let thieves take from suspended tasks, for which they would have to be found.
 */
#include <errno.h>
#include <string.h>

#include <weft/fork_typed.h>

#include "sched/fast.h"
#include "sched/fork.h"
#include "sched/sched.h"

_Static_assert(offsetof(struct weft_forks, newest) == offsetof(struct weft_forks_front, newest) &&
                   offsetof(struct weft_forks, marked) ==
                       offsetof(struct weft_forks_front, marked) &&
                   offsetof(struct weft_forks, asked) == offsetof(struct weft_forks_front, asked),
               "what is used inline");

/* With these, or when there is no memory for others, forks run at once. */
struct weft_forks wf_forks_outside = {.asked = {WEFT_FORKS_ALONE}};

/* ---- tasks made of forks ------------------------------------------------------------------- */

/* [owner]  What a fork has of the task that forked it, which cannot end meanwhile. */
static void inherit(struct wf_worker *worker, struct weft_task *task, struct weft_task *parent,
                    const weft_fork *fork)
{
    /* All relaxed: the task is not placed yet, and others only look. */
    wf_store_relaxed(&task->fn, fork->fn);
    task->arg = fork->arg;
    task->is_plain = false;
    task->home = (uint16_t)worker->index;
    wf_store_relaxed(&task->parent_id, wf_task_id(parent));
    wf_store_relaxed(&task->site, (uintptr_t)fork->fn);
    wf_store_relaxed(&task->marks, WF_MARK_OBSERVED); /* by the join */
    wf_store_relaxed(&task->deadline, wf_load_relaxed(&parent->deadline));
    wf_store_relaxed(&task->priority, wf_load_relaxed(&parent->priority));
    task->is_special = wf_load_relaxed(&task->priority) != WEFT_PRIORITY_NORMAL;
    wf_counter_add(&worker->counters.spawned, 1);
    if (worker->runtime->options.tasks_max != 0) {
        /* relaxed: a number; a fork is none of the tasks that the limit is for */
        (void)wf_fetch_add_relaxed(&worker->runtime->room.live, 1);
    }
    if (wf_state_is_cancelled(&parent->state)) {
        (void)wf_state_cancel(&task->state); /* active: nothing to be woken */
    }
}

/* [the task]  Makes a task of one of its own forks and places it.  False: out of memory. */
static bool make_task(struct wf_worker *worker, struct weft_task *self, weft_fork *fork)
{
    const struct wf_spawn spawn = {.fn = fork->fn, .arg = fork->arg, .has_handle = true};
    if (wf_task_make(worker, &spawn, &fork->task) != 0) {
        return false;
    }
    fork->place = WF_FORK_KEPT;
    inherit(worker, fork->task, self, fork);
    wf_store_relaxed(&fork->task->stack_size, wf_load_relaxed(&self->stack_size));
    if (wf_load_relaxed(&self->pins) > 0) {
        wf_store_relaxed(&fork->task->pins, 1);
        fork->task->is_special = true;
    }
    wf_task_place_on(worker, fork->task);
    return true;
}

/* ---- laying open --------------------------------------------------------------------------- */

/* [the task]  Whether its forks may run elsewhere. */
static bool may_share(const struct wf_worker *worker, const struct weft_task *self)
{
    return !worker->is_lone && wf_load_relaxed(&self->pins) == 0 &&
           self->body != WF_BODY_GREEN_FP && !worker->runtime->options.no_steal;
}

/* [the task]  Links what was forked since the last time: each record once. */
static void mark(struct weft_forks *forks)
{
    weft_fork *fork = forks->newest;
    for (; fork != NULL && fork != forks->marked; fork = fork->older) {
        if (fork->older != NULL) {
            fork->older->newer = fork;
        } else {
            forks->oldest = fork;
        }
    }
    forks->marked = forks->newest;
}

/* [the task]  The oldest half of the private ones, or as many of it as there is room for, oldest
 * first; gives how many. */
static uint32_t find_oldest(struct weft_forks *forks, uint32_t room,
                            weft_fork *found[2 * WF_FORK_PLACES])
{
    uint32_t count = 0;
    mark(forks);
    weft_fork *fork = forks->shared != NULL ? forks->shared->newer : forks->oldest;
    for (found[count++] = fork; fork != forks->newest && count < 2 * room; found[count++] = fork) {
        fork = fork->newer;
    }
    return count - count / 2;
}

/* [the task]  To the workers that the control thread has nothing for. */
static void hand_out(struct wf_worker *worker, struct weft_forks *forks)
{
    wf_fence_seq_cst(); /* (K4): we are asked again, or see who has no work */
    const unsigned idle = wf_reactor_idle(worker->runtime->reactor);
    weft_fork *found[2 * WF_FORK_PLACES];
    if (idle == 0) {
        return;
    }
    const uint32_t count = find_oldest(forks, idle < WF_FORK_PLACES ? idle : WF_FORK_PLACES, found);
    for (uint32_t i = 0; i < count && make_task(worker, forks->owner, found[i]); i++) {
        forks->shared = found[i];
    }
}

static void lay_open(struct wf_worker *worker, struct weft_forks *forks)
{
    weft_runtime *runtime = worker->runtime;
    weft_fork *found[2 * WF_FORK_PLACES];
    const uint32_t count = find_oldest(forks, WF_FORK_PLACES, found);
    for (uint32_t i = 0; i < count && wf_board_offer(forks, found[i]); i++) {
        forks->shared = found[i];
    }
    int sleeper = wf_idle_notify(&runtime->idle);
    if (sleeper >= 0) {
        wf_trace_event(runtime, worker, WF_TRACE_NOTIFY, 0, (uint64_t)sleeper);
        wf_driver_unpark(runtime, &runtime->workers[sleeper].parker);
    }
}

/* [the task]  It was asked.  Without anything to share it stays so. */
static void share(struct wf_worker *worker, struct weft_forks *forks)
{
    if (forks->newest == forks->shared) {
        return;
    }
    wf_store_relaxed(&forks->asked, WF_FORK_NOT_ASKED); /* relaxed: before we look who is asleep */
    if (!may_share(worker, forks->owner)) {
        return;
    }
    if (worker->runtime->reactor != NULL) {
        hand_out(worker, forks);
    } else {
        lay_open(worker, forks);
    }
}

void wf_forks_release(struct weft_task *self)
{
    struct wf_worker *worker = wf_worker_self();
    struct weft_forks *forks = wf_forks_of(self);
    bool is_private = forks->newest != forks->shared;
    bool is_everything_released = true;
    /* relaxed: who is closing asks all tasks to end, so that nobody waits for those */
    if (self->body == WF_BODY_GREEN_FP || wf_load_relaxed(&worker->runtime->is_closing) != 0) {
        return;
    }
    for (weft_fork *fork = forks->newest; fork != forks->released; fork = fork->older) {
        is_private = is_private && fork != forks->shared;
        if (is_private) {
            fork->task = NULL;
            fork->place = WF_FORK_KEPT;
        } else if (fork->task == NULL && fork->place != WF_FORK_KEPT) {
            fork->task = wf_board_withdraw(forks, fork);
            fork->place = WF_FORK_KEPT;
        }
        if (fork->task == NULL && !make_task(worker, self, fork)) {
            WF_REACHED("fork.kept_for_lack_of_memory");
            is_everything_released = false;
        }
    }
    mark(forks);
    forks->shared = forks->newest;
    forks->released = is_everything_released ? forks->newest : forks->released;
    wf_store_relaxed(&forks->asked, WF_FORK_BY_ITSELF); /* relaxed: a request to ourselves */
}

/* ---- forking ------------------------------------------------------------------------------- */

/* [the task]  Gives it a board; NULL: out of memory. */
static struct weft_forks *attach(struct wf_worker *worker, struct weft_task *self)
{
    struct wf_task_extra *extra = wf_task_extra(self);
    if (extra == NULL) {
        return NULL;
    }
    struct weft_forks *forks = extra->board;
    if (forks == NULL) {
        forks = wf_alloc_aligned(WF_CACHE_LINE, sizeof(*forks));
        if (forks == NULL) {
            return NULL;
        }
        memset(forks, 0, sizeof(*forks));
        forks->owner = self;
        extra->board = forks;
    }
    /* relaxed: published below, or known to others who do no harm */
    wf_store_relaxed(&forks->asked, worker->is_lone ? WF_FORK_NOT_ASKED : WF_FORK_BY_ITSELF);
    self->is_plain = false;                 /* its end, and every wait, look at its forks */
    wf_store_release(&extra->forks, forks); /* (K3) */
    worker->forks = forks;
    return forks;
}

weft_forks *weft_forks_self(void)
{
    struct wf_worker *worker = wf_worker_self();
    struct weft_task *self = worker != NULL ? wf_load_relaxed(&worker->current) : NULL;
    struct weft_forks *forks = self != NULL ? wf_forks_of(self) : NULL;
    if (forks == NULL && self != NULL && self->body != WF_BODY_POLL) {
        forks = attach(worker, self);
    }
    return forks != NULL ? forks : &wf_forks_outside;
}

/* [the task] */
static inline void push(struct weft_forks *forks, weft_fork *fork)
{
    fork->older = forks->newest;
    forks->newest = fork;
}

void weft_fork_go_slowly(weft_forks *forks, weft_fork *fork)
{
    fork->forks = forks;
    if (forks == &wf_forks_outside) {
        fork->result = fork->fn(fork->arg);
        return;
    }
    push(forks, fork);
    if (wf_load_relaxed(&forks->asked) != WF_FORK_NOT_ASKED) { /* relaxed: a request */
        share(wf_worker_self(), forks);
    }
}

/* [any]  By its own: the other way is a dozen instructions, without a frame. */
static __attribute__((noinline)) void go_slowly(weft_fork *fork)
{
    weft_fork_go_slowly(weft_forks_self(), fork);
}

void weft_fork_go(weft_fork *fork, weft_fn fn, void *arg)
{
    const struct wf_worker *worker = wf_seat;
    fork->fn = fn;
    fork->arg = arg;
    if (__builtin_expect(worker != NULL, 1)) {
        struct weft_forks *forks = worker->forks;
        /* relaxed: a request */
        if (__builtin_expect(wf_load_relaxed(&forks->asked) == WF_FORK_NOT_ASKED, 1)) {
            fork->forks = forks;
            push(forks, fork);
            return;
        }
    }
    go_slowly(fork);
}

/* ---- joining ------------------------------------------------------------------------------- */

/* [the task]  The newest is not private, and gone. */
static void drop_shared(struct weft_forks *forks, weft_fork *fork)
{
    uint32_t place;
    forks->newest = fork->older;
    forks->marked = fork->older;
    forks->shared = fork->older;
    if (forks->released == fork) {
        forks->released = fork->older;
    }
    if (fork->place != WF_FORK_KEPT) {
        forks->position = fork->place;
    }
    if (wf_board_look(forks, &place) == 0) {
        wf_store_relaxed(&forks->asked, WF_FORK_BY_ITSELF); /* relaxed: a request to ourselves */
    }
}

/* [the task]  Who has this fork, which is not private; NULL: we have it now. */
static struct weft_task *claim(struct weft_forks *forks, weft_fork *fork)
{
    if (fork->task == NULL && fork->place != WF_FORK_KEPT) {
        fork->task = wf_board_withdraw(forks, fork);
    }
    return fork->task;
}

/* [the task]  Asks all that took a fork of it to end. */
static void cancel_all(struct weft_forks *forks)
{
    for (weft_fork *fork = forks->shared; fork != NULL; fork = fork->older) {
        if (claim(forks, fork) != NULL) {
            wf_task_cancel(fork->task);
        } else {
            fork->place = WF_FORK_KEPT; /* ours again, to be run by its join */
        }
    }
}

/* [task]  Until the end of the task, whatever happens to us. */
static void wait_for_end(struct weft_forks *forks, struct weft_task *task)
{
    int rc = wf_join_wait(task);
    if (rc == 0) {
        return;
    }
    if (rc == -ECANCELED) {
        cancel_all(forks);
    }
    struct weft_task *self = forks->owner;
    const bool is_shielded = wf_state_shield(&self->state) == 0; /* else it has 255 already */
    rc = wf_join_wait(task);
    WEFT_CHECK(rc == 0); /* nothing gets through a shield */
    if (is_shielded) {
        (void)wf_state_unshield(&self->state);
    }
}

/* [the task]  Its fork failed: so does it. */
static _Noreturn void fail_as(struct weft_task *task)
{
    char message[256];
    const int error = (int)wf_plain_load(&task->result);
    (void)wf_message_copy(task, message, sizeof(message)); /* cut is fine */
    wf_task_unref(task);
    weft_fail(error, message[0] != '\0' ? "%s" : NULL, message);
}

static intptr_t join_shared(struct weft_forks *forks, weft_fork *fork)
{
    struct weft_task *task = claim(forks, fork);
    if (task == NULL) {
        drop_shared(forks, fork);
        return fork->fn(fork->arg);
    }
    wait_for_end(forks, task);
    drop_shared(forks, fork);
    /* relaxed: (T3) orders it */
    if ((wf_load_relaxed(&task->marks) & WF_MARK_FAILED) != 0) {
        fail_as(task);
    }
    const bool has_run = wf_load_relaxed(&task->runs) > 0;
    const intptr_t result = wf_plain_load(&task->result);
    wf_task_unref(task);
    if (!has_run) {
        WF_REACHED("fork.no_stack_to_run_it");
        return fork->fn(fork->arg); /* a fork cannot fail */
    }
    return result;
}

intptr_t weft_fork_join_slowly(weft_forks *forks, weft_fork *fork)
{
    if (forks == &wf_forks_outside) {
        return fork->result;
    }
    WF_RULE(forks->newest == fork, "weft_fork_join of a fork that is not the newest");
    if (wf_load_relaxed(&forks->asked) != WF_FORK_NOT_ASKED) { /* relaxed: a request */
        share(wf_worker_self(), forks);
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

/* ---- frames that are left without joins ---------------------------------------------------- */

void wf_forks_cut(struct weft_task *self)
{
    struct weft_forks *forks = wf_forks_of(self);
    forks->newest = forks->shared;
    forks->marked = forks->shared;
    cancel_all(forks);
    while (forks->newest != NULL) {
        weft_fork *fork = forks->newest;
        if (fork->task != NULL) {
            WF_REACHED("fork.waited_for_by_a_failure");
            wait_for_end(forks, fork->task);
            wf_task_unref(fork->task);
        }
        drop_shared(forks, fork);
    }
}

void wf_forks_forget(struct weft_task *task)
{
    struct weft_forks *forks = wf_forks_of(task);
    for (weft_fork *fork = forks->shared; fork != NULL; fork = fork->older) {
        if (claim(forks, fork) != NULL) {
            WF_REACHED("fork.forgotten");
            wf_task_unref(fork->task);
        }
    }
    forks->newest = NULL;
    forks->marked = NULL;
    forks->shared = NULL;
    forks->released = NULL;
}

/* ---- taking -------------------------------------------------------------------------------- */

static struct weft_forks *forks_on(struct wf_worker *victim)
{
    struct weft_task *task = wf_load_acquire(&victim->current); /* (K5); tasks stay tasks */
    const struct wf_task_extra *extra = task != NULL ? wf_load_acquire(&task->extra) : NULL;
    return extra != NULL ? wf_load_acquire(&extra->forks) : NULL; /* (K3) */
}

bool wf_fork_is_open(struct wf_worker *victim)
{
    uint32_t place;
    struct weft_forks *forks = forks_on(victim);
    return forks != NULL && wf_board_look(forks, &place) != 0;
}

void wf_forks_ask_all(weft_runtime *runtime)
{
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        struct weft_forks *forks = forks_on(&runtime->workers[i]);
        if (forks != NULL) {
            wf_board_ask(forks);
        }
    }
}

/* [owner]  A task with a stack of that size, so that nothing can fail any more; NULL: no memory. */
static struct weft_task *prepare(struct wf_worker *worker, uint32_t stack_size)
{
    const struct wf_spawn spawn = {.has_handle = true};
    struct weft_task *task;
    if (wf_task_make(worker, &spawn, &task) != 0) {
        return NULL;
    }
    wf_store_relaxed(&task->stack_size, stack_size); /* relaxed: it is ours */
    if (wf_task_begin(worker, task) != 0) {
        WF_REACHED("fork.no_stack_to_take_it");
        wf_task_unmake(worker, task);
        return NULL;
    }
    return task;
}

static void give_stack_back(struct wf_worker *worker, struct weft_task *task)
{
    struct wf_stack *stack = task->fiber->stack;
    task->fiber = NULL;
    wf_store_relaxed(&stack->user, NULL); /* relaxed: read by a fault of this thread */
    /* relaxed: our own */
    if (wf_load_relaxed(&task->stack_size) == 0 && wf_load_relaxed(&worker->spare) == NULL) {
        wf_store_relaxed(&worker->spare, stack); /* its fiber may be one that waits for a task */
    } else {
        wf_stack_put(&worker->stacks, stack);
    }
}

/* [owner]  It was prepared for the stack of another task, which was in this memory before. */
static void fit_stack(struct wf_worker *worker, struct weft_task *task, uint32_t stack_size)
{
    if (wf_load_relaxed(&task->stack_size) == stack_size) { /* relaxed: it is ours */
        return;
    }
    struct wf_fiber *fiber = task->fiber;
    const uint32_t old_size = wf_load_relaxed(&task->stack_size);
    wf_store_relaxed(&task->stack_size, stack_size);
    if (wf_task_begin(worker, task) != 0) {
        wf_store_relaxed(&task->stack_size, old_size); /* better than none */
        task->fiber = fiber;
        return;
    }
    wf_stack_put(&worker->stacks, fiber->stack);
}

struct weft_task *wf_fork_steal(struct wf_worker *worker, struct wf_worker *victim)
{
    struct weft_forks *forks = forks_on(victim);
    if (forks == NULL) {
        return NULL;
    }
    uint32_t place;
    const uintptr_t word = wf_board_look(forks, &place);
    if (word == 0) {
        wf_board_ask(forks);
        return NULL;
    }
    struct weft_task *parent = forks->owner;
    /* relaxed, both: who is closing asks all tasks to end, and those must be found; and a size that
     * was another's is seen below */
    if (wf_load_relaxed(&worker->runtime->is_closing) != 0) {
        return NULL;
    }
    struct weft_task *task = prepare(worker, wf_load_relaxed(&parent->stack_size));
    if (task == NULL) {
        return NULL;
    }
    const weft_fork *fork = wf_board_take(forks, place, word, task);
    if (fork == NULL) {
        give_stack_back(worker, task);
        wf_task_unmake(worker, task);
        return NULL;
    }
    inherit(worker, task, parent, fork);
    fit_stack(worker, task, wf_load_relaxed(&parent->stack_size)); /* relaxed: it cannot end now */
    wf_counter_add(&worker->counters.forks_taken, 1);
    if (wf_board_look(forks, &place) == 0) {
        wf_board_ask(forks);
    }
    wf_trace(worker->trace, WF_TRACE_STEAL, wf_task_id(task), victim->index);
    return task;
}
