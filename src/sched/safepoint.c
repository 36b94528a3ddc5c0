/* SPDX-License-Identifier: MIT */
/*
 * sched/safepoint.c - stopping the world: every worker stands still between two tasks.
 *
 * Worker against stopper (sched.B1):
 *
 *   worker enters (wf_safe_enter)            stopper (wf_world_stop, wf_world_wait)
 *   1 set is_safe                            1 set is_stopped
 *   2 fence                                  2 fence
 *   3 is_stopped: wake the stopper           3 wait until is_safe is set in all other workers
 *
 *   worker leaves (wf_safe_leave)
 *   1 clear is_safe
 *   2 fence
 *   3 is_stopped: enter again, sleep until
 *     the world runs, go to 1
 *
 * One of the two fences comes first: either the worker sees is_stopped, or the stopper sees the
 * value that the worker has stored in is_safe.  A worker that sleeps is safe all the time, so a
 * runtime in which no worker runs stops at once.
 *
 * The second half of the file grants the turn to stop the world to one stopper at a time; the
 * others wait in a queue.  The stopper may stop the world again, and must start it once for each
 * stop.
 */
#include <errno.h>

#include "sched/wait.h"

/* ---- standing still ------------------------------------------------------------------------ */

void wf_safe_enter(struct wf_world *world, struct wf_safe *safe)
{
    /* release: pairs with the stopper's acquire, which sees what the worker did */
    wf_store_release(&safe->is_safe, 1);
    wf_fence_seq_cst(); /* (sched.B1) */
    if (wf_load_relaxed(&world->is_stopped) != 0) {
        wf_parker_unpark(&world->stopper);
    }
}

void wf_safe_leave(struct wf_world *world, struct wf_safe *safe)
{
    for (;;) { /* repeats after each park: the world may still be stopped, or stopped again */
        wf_store_relaxed(&safe->is_safe, 0); /* relaxed: the fence orders it */
        wf_fence_seq_cst();                  /* (sched.B1), (sched.M3) */
        /* acquire: pairs with wf_world_start; the worker sees what the stopper did */
        if (wf_load_acquire(&world->is_stopped) == 0) {
            return;
        }
        wf_safe_enter(world, safe);
        (void)wf_parker_park(&safe->parker, WF_FOREVER); /* wf_world_start wakes it */
    }
}

void wf_world_stop(struct wf_world *world)
{
    wf_store_relaxed(&world->is_stopped, 1); /* relaxed: the fence orders it */
    wf_fence_seq_cst();                      /* (sched.B1) */
}

void wf_world_wait(struct wf_world *world, struct wf_safe *const *workers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        /* acquire: what the worker did before.  A worker that enters after this load wakes the
         * stopper (sched.B1). */
        while (workers[i] != NULL && wf_load_acquire(&workers[i]->is_safe) == 0) {
            (void)wf_parker_park(&world->stopper, WF_FOREVER);
        }
    }
}

void wf_world_start(struct wf_world *world, struct wf_safe *const *workers, unsigned count)
{
    wf_store_release(&world->is_stopped, 0); /* release: what the stopper did */
    for (unsigned i = 0; i < count; i++) {
        if (workers[i] != NULL) {
            wf_parker_unpark(&workers[i]->parker);
        }
    }
}

/* ---- turns of stoppers --------------------------------------------------------------------- */

/* A stopper that wants the turn, in its frame. */
struct turn {
    struct wf_abandon_hook hook;
    weft_runtime *runtime; /* [const] */
    struct wf_list link;   /* [lock] */
    struct wf_waiter waiter;
    const void *stopper; /* [const]  see stopper_identity */
    bool is_granted;     /* [lock] */
};

/* [any]  An address that identifies the calling task, or the calling thread outside of tasks. */
static const void *stopper_identity(struct weft_task *self)
{
    static _Thread_local char thread;
    return self != NULL ? (const void *)self : (const void *)wf_tls(&thread);
}

/* [locked world_turn.lock]  Grants the turn to the stopper that has waited longest. */
static void world_grant_turn_locked(weft_runtime *runtime)
{
    struct wf_list *first = wf_list_pop_front(&runtime->world_turn.waiters);
    runtime->world_turn.owner = NULL;
    if (first != NULL) {
        struct turn *turn = wf_container_of(first, struct turn, link);
        runtime->world_turn.owner = turn->stopper;
        turn->is_granted = true;
        wf_waiter_wake(&turn->waiter);
    }
}

/* [closer]  The stopper's task never runs again: takes it out of the queue, or passes on the turn
 * that it was granted. */
static void turn_abandon(struct wf_abandon_hook *hook)
{
    struct turn *turn = wf_container_of(hook, struct turn, hook);
    weft_runtime *runtime = turn->runtime;
    WF_REACHED("safepoint.turn_abandoned");
    wf_lock_acquire(&runtime->world_turn.lock);
    if (turn->is_granted) {
        world_grant_turn_locked(runtime);
    } else {
        wf_list_remove(&turn->link);
    }
    wf_lock_release(&runtime->world_turn.lock);
}

/* [any]  Waits for the turn; a task suspends.  Returns the number of stops of this stopper that are
 * in effect already. */
static unsigned world_take_turn(weft_runtime *runtime, struct weft_task *self, const void *stopper)
{
    struct turn turn = {.hook = {.abandon = turn_abandon}, .runtime = runtime, .stopper = stopper};
    wf_waiter_init(&turn.waiter, self);
    wf_lock_acquire(&runtime->world_turn.lock);
    if (runtime->world_turn.owner == NULL || runtime->world_turn.owner == stopper) {
        runtime->world_turn.owner = stopper;
        turn.is_granted = true;
    } else {
        wf_list_push_back(&runtime->world_turn.waiters, &turn.link);
        wf_lock_release(&runtime->world_turn.lock);
        if (self != NULL) {
            wf_abandon_hook_enter(self, &turn.hook);
            wf_wait_begin(self, WEFT_WAIT_WORLD, runtime);
        }
        for (bool is_granted = false; !is_granted;) { /* ends: each stopper starts the world */
            wf_waiter_wait(&turn.waiter);
            wf_lock_acquire(&runtime->world_turn.lock);
            is_granted = turn.is_granted;
            wf_lock_release(&runtime->world_turn.lock);
        }
        if (self != NULL) {
            wf_wait_end(self);
            wf_abandon_hook_remove(self, &turn.hook);
        }
        wf_lock_acquire(&runtime->world_turn.lock);
    }
    unsigned depth = runtime->world_turn.depth++;
    wf_lock_release(&runtime->world_turn.lock);
    return depth;
}

/* [stopper, locked world_turn.lock] */
static void world_start_locked(weft_runtime *runtime)
{
    wf_world_start(&runtime->world, runtime->safes, wf_worker_total(runtime));
    world_grant_turn_locked(runtime);
}

/* [stopper]  Collects the safepoints of all workers.  The entry of the caller's own worker, which
 * does not stand still, is NULL. */
static void collect_safes(weft_runtime *runtime, struct wf_safe **out)
{
    struct wf_worker *worker = wf_worker_self();
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        out[i] = worker == &runtime->workers[i] ? NULL : &runtime->workers[i].safe;
    }
}

bool wf_world_try_stop(weft_runtime *runtime)
{
    wf_lock_acquire(&runtime->world_turn.lock);
    const bool is_free = runtime->world_turn.owner == NULL;
    if (is_free) {
        runtime->world_turn.owner = runtime; /* equals no stopper_identity */
    }
    wf_lock_release(&runtime->world_turn.lock);
    if (!is_free) {
        return false;
    }
    wf_world_stop(&runtime->world);
    collect_safes(runtime, runtime->safes); /* the stopper's until the world starts */
    bool is_still = true;
    for (unsigned i = 0; i < wf_worker_total(runtime) && is_still; i++) {
        const struct wf_safe *safe = runtime->safes[i];
        /* (sched.B1) acquire: what the worker did before */
        is_still = safe == NULL || wf_load_acquire(&safe->is_safe) != 0;
    }
    if (!is_still) {
        wf_world_resume(runtime);
    }
    return is_still;
}

void wf_world_resume(weft_runtime *runtime)
{
    wf_lock_acquire(&runtime->world_turn.lock);
    world_start_locked(runtime);
    wf_lock_release(&runtime->world_turn.lock);
}

int weft_world_stop(weft_runtime *runtime)
{
    WF_NOT_NULL(runtime, "weft_world_stop: runtime is NULL");
    if (wf_is_forked()) {
        return -EPERM;
    }
    struct weft_task *self = wf_task_self();
    if (world_take_turn(runtime, self, stopper_identity(self)) > 0) {
        return 0;
    }
    int64_t began = wf_clock_now();
    struct wf_worker *worker = wf_worker_self();
    const bool is_ours = self != NULL && worker->runtime == runtime;
    /* relaxed: only this worker's thread compares it with this worker (worker.c) */
    wf_store_relaxed(&runtime->world_turn.worker, is_ours ? worker : NULL);
    wf_world_stop(&runtime->world);
    collect_safes(runtime, runtime->safes); /* the stopper's until the world starts */
    wf_world_wait(&runtime->world, runtime->safes, wf_worker_total(runtime));
    uint64_t took = (uint64_t)(wf_clock_now() - began);
    wf_counter_add(&runtime->world_stats.stops, 1);
    wf_counter_add(&runtime->world_stats.ns_total, took);
    if (took > wf_counter_read(&runtime->world_stats.ns_max)) {
        wf_store_relaxed(&runtime->world_stats.ns_max, took); /* relaxed: a statistic */
    }
    return 0;
}

int weft_world_start(weft_runtime *runtime)
{
    WF_NOT_NULL(runtime, "weft_world_start: runtime is NULL");
    struct weft_task *self = wf_task_self();
    wf_lock_acquire(&runtime->world_turn.lock);
    if (runtime->world_turn.owner != stopper_identity(self)) {
        wf_lock_release(&runtime->world_turn.lock);
        return -EPERM;
    }
    if (--runtime->world_turn.depth == 0) {
        wf_store_relaxed(&runtime->world_turn.worker, NULL); /* relaxed: as in the stop */
        world_start_locked(runtime);
    }
    wf_lock_release(&runtime->world_turn.lock);
    return 0;
}
