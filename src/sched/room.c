/* SPDX-License-Identifier: MIT */
/*
 * sched/room.c - limits of a runtime, and waiting for room below them.
 *
 * Two limits: tasks alive at once (tasks_max), counted here, and tasks in the global queue
 * (global_capacity), which the queue counts itself.  A runtime without limits comes here never.
 *
 * Who waits stands in a list under the lock; whoever makes room wakes the first, who tries again,
 * and may find that another was faster.  To look whether somebody waits costs one load; the waiter
 * looks for room once more after it stands in the list, with a fence on either side: see leave.
 */
#include <errno.h>

#include "sched/sched.h"

/* Who waits for room. */
struct room_waiter {
    struct wf_list link; /* [lock] */
    struct wf_waiter waiter;
    bool is_listed; /* [lock] */
};

static bool has_room(weft_runtime *runtime)
{
    const weft_options *options = &runtime->options;
    /* relaxed: the fences order it */
    bool has_tasks =
        options->tasks_max == 0 || wf_load_relaxed(&runtime->room.live) < options->tasks_max;
    bool has_queue =
        options->global_capacity == 0 || wf_runtime_queued(runtime) < options->global_capacity;
    return (has_tasks && has_queue) || wf_load_relaxed(&runtime->is_closing) != 0;
}

/* [locked room.lock]  False: nobody waits. */
static bool wake_first_locked(weft_runtime *runtime)
{
    struct wf_list *first = wf_list_pop_front(&runtime->room.waiters);
    if (first == NULL) {
        return false;
    }
    struct room_waiter *waiter = wf_container_of(first, struct room_waiter, link);
    waiter->is_listed = false;
    wf_counter_add(&runtime->room.waiting, (uint32_t)-1);
    wf_waiter_wake(&waiter->waiter);
    return true;
}

void wf_room_close(weft_runtime *runtime)
{
    wf_lock_acquire(&runtime->room.lock);
    while (wake_first_locked(runtime)) { /* who comes later sees that it is closing */
    }
    wf_lock_release(&runtime->room.lock);
}

void wf_room_wake(weft_runtime *runtime)
{
    wf_fence_seq_cst(); /* (Q1) we made room; either we see who waits, or it sees the room */
    if (wf_load_relaxed(&runtime->room.waiting) == 0 || !has_room(runtime)) {
        return;
    }
    wf_lock_acquire(&runtime->room.lock);
    (void)wake_first_locked(runtime); /* nobody any more: another was faster */
    wf_lock_release(&runtime->room.lock);
}

static void list_leave(weft_runtime *runtime, struct room_waiter *waiter)
{
    wf_lock_acquire(&runtime->room.lock);
    if (waiter->is_listed) {
        wf_list_remove(&waiter->link);
        waiter->is_listed = false;
        wf_counter_add(&runtime->room.waiting, (uint32_t)-1);
    }
    wf_lock_release(&runtime->room.lock);
}

int wf_room_wait(weft_runtime *runtime)
{
    struct weft_task *self = wf_task_self();
    struct room_waiter waiter = {.is_listed = true};
    wf_waiter_init(&waiter.waiter, self);
    wf_lock_acquire(&runtime->room.lock);
    wf_list_push_back(&runtime->room.waiters, &waiter.link);
    wf_counter_add(&runtime->room.waiting, 1);
    wf_lock_release(&runtime->room.lock);
    wf_fence_seq_cst(); /* (Q1) */
    int rc = 0;
    if (!has_room(runtime)) {
        rc = self != NULL ? wf_task_interrupted(self) : 0;
        if (rc == 0) {
            if (self != NULL) {
                wf_wait_begin(self, WEFT_WAIT_ROOM, runtime);
            }
            wf_waiter_wait(&waiter.waiter);
            if (self != NULL) {
                wf_wait_end(self);
                rc = wf_task_interrupted(self);
            }
        }
    }
    list_leave(runtime, &waiter);
    if (rc != 0) {
        wf_room_wake(runtime); /* the room that we were woken for is another's */
    }
    return rc;
}

int wf_room_enter(weft_runtime *runtime)
{
    for (;;) { /* Waits only where the options want it. */
        uint64_t live = wf_load_relaxed(&runtime->room.live); /* relaxed: the CAS decides */
        while (live < runtime->options.tasks_max) {
            if (wf_cas_relaxed(&runtime->room.live, &live, live + 1)) { /* relaxed: a number */
                return 0;
            }
        }
        if (wf_load_relaxed(&runtime->is_closing) != 0) {
            return -ESHUTDOWN;
        }
        if (!runtime->options.spawn_waits) {
            return -EAGAIN;
        }
        int rc = wf_room_wait(runtime);
        if (rc != 0) {
            return rc;
        }
    }
}

void wf_room_leave(weft_runtime *runtime)
{
    (void)wf_fetch_sub_relaxed(&runtime->room.live, 1); /* relaxed: the fence in wake orders it */
    wf_room_wake(runtime);
}
