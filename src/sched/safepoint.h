/* SPDX-License-Identifier: MIT */
/*
 * sched/safepoint.h - stopping the world: workers that stand still between two tasks.  safepoint.c
 * has the protocol.
 */
#ifndef WF_SCHED_SAFEPOINT_H
#define WF_SCHED_SAFEPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/types.h>

#include "base/base.h"
#include "os/os.h"

struct weft_task;
struct wf_worker;

/* Whether a worker stands still. */
struct wf_safe {
    WF_ATOMIC(uint32_t) is_safe; /* [owner: write] [any: read] */
    struct wf_parker parker;     /* where it waits for the world to go on */
};

/* The world of one runtime. */
struct wf_world {
    WF_ATOMIC(uint32_t) is_stopped; /* [stopper: write] [any: read]  workers must stand still */
    struct wf_parker stopper;       /* where the stopper waits for them */
};

/* Which of several stoppers has its turn. */
struct wf_world_turn {
    struct wf_lock lock;
    struct wf_list waiters; /* [lock]  tasks and threads that want to stop the world next */
    const void *owner;      /* [lock]  task or thread that has stopped it; the runtime itself in
                             * wf_world_try_stop; NULL: it runs */
    unsigned depth;         /* [lock]  nested stops of the owner */
    /* [owner: write] [any: read]  The worker whose task has stopped the world; or NULL. */
    WF_ATOMIC(struct wf_worker *) worker;
};

/* [owner: write] [any: read]  How long stops took. */
struct wf_world_stats {
    WF_ATOMIC(uint64_t) stops;
    WF_ATOMIC(uint64_t) ns_max;
    WF_ATOMIC(uint64_t) ns_total;
};

/* [owner]  The worker stands still from here on: it touches no task. */
void wf_safe_enter(struct wf_world *world, struct wf_safe *safe);
/* [owner]  The worker waits until the world is not stopped, and from then on may touch tasks. */
void wf_safe_leave(struct wf_world *world, struct wf_safe *safe);
/* [stopper]  Requests a stop of all workers.  Does not wait: see wf_world_wait. */
void wf_world_stop(struct wf_world *world);
/* [stopper]  Waits until these workers stand still; NULL entries are skipped. */
void wf_world_wait(struct wf_world *world, struct wf_safe *const *workers, unsigned count);
/* [stopper]  Lets the world go on, and wakes these workers. */
void wf_world_start(struct wf_world *world, struct wf_safe *const *workers, unsigned count);

/* [loop]  Stops the world if all workers except the caller stand still already and no other stopper
 * has its turn.  False: nothing was done. */
bool wf_world_try_stop(weft_runtime *runtime);
/* [loop]  After wf_world_try_stop: lets the world go on, and gives up the turn. */
void wf_world_resume(weft_runtime *runtime);

#endif
