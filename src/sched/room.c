/* SPDX-License-Identifier: MIT */
/*
 * sched/room.c - limits of a runtime, and waiting for room below them.
 *
 * Two kinds: tasks alive at once (tasks_max), counted here, and tasks in the global queue
 * (global_capacity), which the queue counts itself.  A runtime without limits comes here never.
 *
 * Who waits says what for and stands in the list of its kind under the lock; whoever makes room
 * wakes as many as it made room for, who try again, and may find that another was faster.  To look
 * whether somebody waits costs a fence and a load.  (Q1) The waiter looks for room once more after
 * it stands in the list, with a fence in between: either it sees the room, or who made the room
 * sees it.
 */
#include <errno.h>

#include "sched/sched.h"

/* Who waits for room. */
struct room_waiter {
    struct wf_list link; /* [lock] */
    struct wf_waiter waiter;
    bool is_listed;         /* [lock] */
    enum wf_room_kind kind; /* [const] */
    weft_runtime *runtime;  /* [const]  where it waits for room */
};

static bool has_room(weft_runtime *runtime, enum wf_room_kind kind)
{
    const weft_options *options = &runtime->options;
    if (wf_load_relaxed(&runtime->is_closing) != 0) { /* all relaxed: the fences order them */
        return true;
    }
    return kind == WF_ROOM_TASKS ? wf_load_relaxed(&runtime->room.live) < options->tasks_max
                                 : wf_runtime_queued(runtime) < options->global_capacity;
}

/* [locked room.lock] */
static void list_locked(struct wf_room *room, struct room_waiter *waiter)
{
    const enum wf_room_kind kind = waiter->kind;
    wf_list_push_back(&room->waiters[kind], &waiter->link);
    waiter->is_listed = true;
    /* relaxed: written under the lock, and the fences order it for who looks without */
    wf_store_relaxed(&room->waiting[kind], wf_load_relaxed(&room->waiting[kind]) + 1);
}

/* [locked room.lock] */
static void unlist_locked(struct wf_room *room, struct room_waiter *waiter)
{
    const enum wf_room_kind kind = waiter->kind;
    wf_list_remove(&waiter->link);
    waiter->is_listed = false;
    wf_store_relaxed(&room->waiting[kind], wf_load_relaxed(&room->waiting[kind]) - 1);
}

static void wake_some(struct wf_room *room, enum wf_room_kind kind, size_t count)
{
    wf_lock_acquire(&room->lock);
    while (count > 0 && !wf_list_is_empty(&room->waiters[kind])) {
        struct room_waiter *waiter =
            wf_container_of(room->waiters[kind].next, struct room_waiter, link);
        unlist_locked(room, waiter);
        wf_waiter_wake(&waiter->waiter);
        count--;
    }
    wf_lock_release(&room->lock);
}

void wf_room_close(weft_runtime *runtime)
{
    for (unsigned kind = 0; kind < WF_ROOM_KINDS; kind++) {
        wake_some(&runtime->room, (enum wf_room_kind)kind, SIZE_MAX); /* who comes later sees it */
    }
}

void wf_room_wake(weft_runtime *runtime, enum wf_room_kind kind, size_t count)
{
    wf_fence_seq_cst(); /* (Q1) */
    if (wf_load_relaxed(&runtime->room.waiting[kind]) > 0) {
        wake_some(&runtime->room, kind, count);
    }
}

/* [the waiter]  Sleeps until woken; why it may not, if so. */
static int sleep_for_room(struct weft_task *self, struct room_waiter *waiter)
{
    if (self == NULL) {
        wf_waiter_wait(&waiter->waiter);
        return 0;
    }
    int rc = wf_task_interrupted(self);
    if (rc == 0) {
        wf_wait_begin(self, WEFT_WAIT_ROOM, waiter);
        wf_waiter_wait(&waiter->waiter);
        wf_wait_end(self);
        rc = wf_task_interrupted(self);
    }
    return rc;
}

int wf_room_wait(weft_runtime *runtime, enum wf_room_kind kind)
{
    struct weft_task *self = wf_task_self();
    struct wf_room *room = &runtime->room;
    struct room_waiter waiter = {.kind = kind, .runtime = runtime};
    wf_waiter_init(&waiter.waiter, self);
    wf_lock_acquire(&room->lock);
    list_locked(room, &waiter);
    wf_lock_release(&room->lock);
    wf_fence_seq_cst(); /* (Q1) */
    int rc = 0;
    if (has_room(runtime, kind)) {
        WF_REACHED("room.made_before_it_slept");
    } else {
        rc = sleep_for_room(self, &waiter);
    }
    wf_lock_acquire(&room->lock);
    bool is_woken = !waiter.is_listed;
    if (waiter.is_listed) {
        unlist_locked(room, &waiter);
    }
    wf_lock_release(&room->lock);
    if (rc != 0 && is_woken) {
        WF_REACHED("room.passed_on");
        wf_room_wake(runtime, kind, 1); /* the room that we were woken for is another's */
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
        if (wf_load_relaxed(&runtime->is_closing) != 0) { /* relaxed: see has_room */
            return -ESHUTDOWN;
        }
        if (!runtime->options.spawn_waits) {
            return -EAGAIN;
        }
        int rc = wf_room_wait(runtime, WF_ROOM_TASKS);
        if (rc != 0) {
            return rc;
        }
    }
}

void wf_room_leave(weft_runtime *runtime)
{
    (void)wf_fetch_sub_relaxed(&runtime->room.live, 1); /* relaxed: the fence in wake orders it */
    wf_room_wake(runtime, WF_ROOM_TASKS, 1);
}

void wf_room_forget(struct weft_task *task)
{
    /* relaxed: nobody runs it, so its frame is as it left it */
    struct room_waiter *waiter = (struct room_waiter *)wf_load_relaxed(&task->wait_object);
    weft_runtime *runtime = waiter->runtime;
    wf_lock_acquire(&runtime->room.lock);
    const bool is_woken = !waiter->is_listed;
    if (!is_woken) {
        unlist_locked(&runtime->room, waiter);
    }
    wf_lock_release(&runtime->room.lock);
    if (runtime->pool == task->pool) {
        return; /* which goes too */
    }
    if (is_woken) {
        WF_REACHED("room.woken_and_forgotten");
        wf_room_wake(runtime, waiter->kind, 1); /* the room is another's */
    }
    if (waiter->kind == WF_ROOM_QUEUE && runtime->options.tasks_max != 0) {
        wf_room_leave(runtime); /* it was counted before it waited for the queue */
    }
    wf_pool_leave(runtime->pool); /* in its stead: see wf_task_spawn */
}
