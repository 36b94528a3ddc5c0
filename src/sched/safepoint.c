/* SPDX-License-Identifier: MIT */
/*
 * sched/safepoint.c - stopping the world: every worker stands still between two tasks.
 *
 * The protocol, with W for a worker and S for whoever stops the world:
 *
 *   W enters: says that it is safe        S stops: says that all should stand still
 *             fence                                fence
 *             asked to?  then wakes S       S waits: until all have said that they are safe
 *   W leaves: says that it is not
 *             fence
 *             asked to?  then enters again, and sleeps until the world goes on
 *
 * (B1) Of the two fences one comes first: either the worker sees that it was asked, or S sees that
 * the worker is (not) safe.  A worker that sleeps is safe all the time, so a runtime in which
 * nobody runs stops at once.
 *
 * The second half is about whose turn it is: one at a time, the others wait; who has stopped the
 * world may do so again and has to start it as often.
 */
#include <errno.h>

#include "sched/sched.h"

/* ---- standing still ------------------------------------------------------------------------ */

void wf_safe_enter(struct wf_world *world, struct wf_safe *safe)
{
    /* release: what the worker did is seen by S, which reads it with acquire. */
    wf_store_release(&safe->is_safe, 1);
    wf_fence_seq_cst(); /* (B1) */
    if (wf_load_relaxed(&world->is_stopped) != 0) {
        wf_parker_unpark(&world->stopper);
    }
}

void wf_safe_leave(struct wf_world *world, struct wf_safe *safe)
{
    for (;;) {                               /* Each turn is one stop of the world. */
        wf_store_relaxed(&safe->is_safe, 0); /* relaxed: the fence orders it */
        wf_fence_seq_cst();                  /* (B1) */
        /* acquire: pairs with the start; what was done meanwhile is seen. */
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
    wf_fence_seq_cst();                      /* (B1) */
}

void wf_world_wait(struct wf_world *world, struct wf_safe *const *workers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        /* acquire: what the worker did before.  Who enters after we looked wakes us. */
        while (workers[i] != NULL && wf_load_acquire(&workers[i]->is_safe) == 0) {
            (void)wf_parker_park(&world->stopper, WF_FOREVER);
        }
    }
}

void wf_world_start(struct wf_world *world, struct wf_safe *const *workers, unsigned count)
{
    wf_store_release(&world->is_stopped, 0); /* release: what was done meanwhile */
    for (unsigned i = 0; i < count; i++) {
        if (workers[i] != NULL) {
            wf_parker_unpark(&workers[i]->parker);
        }
    }
}

/* ---- whose turn it is ---------------------------------------------------------------------- */

/* Who waits for the turn. */
struct turn {
    struct wf_list link; /* [lock] */
    struct wf_waiter waiter;
    const void *who;
    bool is_granted; /* [lock] */
};

/* The caller, as something that can be compared. */
static const void *caller(struct weft_task *self)
{
    static _Thread_local char thread;
    return self != NULL ? (const void *)self : (const void *)wf_of_thread(&thread);
}

/* [any]  Until the world is the caller's to stop; 0: it is the first stop of it. */
static unsigned take_turn(weft_runtime *runtime, struct weft_task *self, const void *who)
{
    struct turn turn = {.who = who};
    wf_waiter_init(&turn.waiter, self);
    wf_lock_acquire(&runtime->world_lock);
    if (runtime->world_owner == NULL || runtime->world_owner == who) {
        runtime->world_owner = who;
        turn.is_granted = true;
    } else {
        wf_list_push_back(&runtime->world_waiters, &turn.link);
        wf_lock_release(&runtime->world_lock);
        if (self != NULL) {
            wf_wait_begin(self, WEFT_WAIT_WORLD, runtime);
        }
        for (bool is_granted = false; !is_granted;) { /* whoever has it gives it back */
            wf_waiter_wait(&turn.waiter);
            wf_lock_acquire(&runtime->world_lock);
            is_granted = turn.is_granted;
            wf_lock_release(&runtime->world_lock);
        }
        if (self != NULL) {
            wf_wait_end(self);
        }
        wf_lock_acquire(&runtime->world_lock);
    }
    unsigned depth = runtime->world_depth++;
    wf_lock_release(&runtime->world_lock);
    return depth;
}

/* [locked world_lock]  Hands the turn to who waits for it longest. */
static void give_turn_locked(weft_runtime *runtime)
{
    struct wf_list *first = wf_list_pop_front(&runtime->world_waiters);
    runtime->world_owner = NULL;
    if (first != NULL) {
        struct turn *turn = wf_container_of(first, struct turn, link);
        runtime->world_owner = turn->who;
        turn->is_granted = true;
        wf_waiter_wake(&turn->waiter);
    }
}

/* [stopper, locked world_lock] */
static void start_locked(weft_runtime *runtime)
{
    wf_world_start(&runtime->world, runtime->safes, wf_seats(runtime));
    give_turn_locked(runtime);
}

void wf_world_forget(struct weft_task *task)
{
    /* relaxed: nobody runs it */
    weft_runtime *runtime = (weft_runtime *)wf_load_relaxed(&task->wait_object);
    wf_lock_acquire(&runtime->world_lock);
    if (runtime->world_owner == task) {
        give_turn_locked(runtime); /* it was its turn, and it never learnt of it */
    }
    struct wf_list *link = runtime->world_waiters.next;
    while (link != &runtime->world_waiters) {
        struct turn *turn = wf_container_of(link, struct turn, link);
        link = link->next;
        if (turn->waiter.task == task) {
            wf_list_remove(&turn->link);
        }
    }
    wf_lock_release(&runtime->world_lock);
}

/* The safepoints of all workers but that of the caller, whose worker is not standing still. */
static void others(weft_runtime *runtime, struct wf_safe **out)
{
    struct wf_worker *worker = wf_worker_self();
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        out[i] = worker == &runtime->workers[i] ? NULL : &runtime->workers[i].safe;
    }
}

bool wf_world_try_stop(weft_runtime *runtime)
{
    wf_lock_acquire(&runtime->world_lock);
    const bool is_free = runtime->world_owner == NULL;
    if (is_free) {
        runtime->world_owner = runtime; /* no caller of the functions below is that */
    }
    wf_lock_release(&runtime->world_lock);
    if (!is_free) {
        return false;
    }
    wf_world_stop(&runtime->world);
    others(runtime, runtime->safes); /* ours until the world starts again */
    bool is_still = true;
    for (unsigned i = 0; i < wf_seats(runtime) && is_still; i++) {
        const struct wf_safe *safe = runtime->safes[i];
        is_still = safe == NULL || wf_load_acquire(&safe->is_safe) != 0; /* (B1), as in wait */
    }
    if (!is_still) {
        wf_world_resume(runtime);
    }
    return is_still;
}

void wf_world_resume(weft_runtime *runtime)
{
    wf_lock_acquire(&runtime->world_lock);
    start_locked(runtime);
    wf_lock_release(&runtime->world_lock);
}

int weft_stop_the_world(weft_runtime *runtime)
{
    if (runtime == NULL) {
        return -EINVAL;
    }
    if (wf_is_forked()) {
        return -EPERM;
    }
    struct weft_task *self = wf_task_self();
    if (take_turn(runtime, self, caller(self)) > 0) {
        return 0;
    }
    int64_t began = wf_clock_now();
    struct wf_worker *worker = wf_worker_self();
    const bool is_ours = self != NULL && worker->runtime == runtime;
    wf_store_relaxed(&runtime->stopper, is_ours ? worker : NULL); /* relaxed: see the loop */
    wf_world_stop(&runtime->world);
    others(runtime, runtime->safes); /* ours until the world starts again */
    wf_world_wait(&runtime->world, runtime->safes, wf_seats(runtime));
    uint64_t took = (uint64_t)(wf_clock_now() - began);
    wf_counter_add(&runtime->stops, 1);
    wf_counter_add(&runtime->stop_ns_total, took);
    if (took > wf_counter_read(&runtime->stop_ns_max)) {
        wf_store_relaxed(&runtime->stop_ns_max, took); /* relaxed: others only look */
    }
    return 0;
}

int weft_start_the_world(weft_runtime *runtime)
{
    if (runtime == NULL) {
        return -EINVAL;
    }
    struct weft_task *self = wf_task_self();
    wf_lock_acquire(&runtime->world_lock);
    if (runtime->world_owner != caller(self)) {
        wf_lock_release(&runtime->world_lock);
        return -EPERM;
    }
    if (--runtime->world_depth == 0) {
        wf_store_relaxed(&runtime->stopper, NULL); /* relaxed: see the loop */
        start_locked(runtime);
    }
    wf_lock_release(&runtime->world_lock);
    return 0;
}
