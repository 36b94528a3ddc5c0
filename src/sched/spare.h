/* SPDX-License-Identifier: MIT */
/*
 * sched/spare.h - stuck workers and spares: what the workers do for the monitor.  runtime/monitor.c
 * has the idea.
 */
#ifndef WF_SCHED_SPARE_H
#define WF_SCHED_SPARE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "os/os.h"

struct wf_worker;

/* The maximum number of spawn sites of hogs that are reported, each once. */
#define WF_HOG_SITES 64u

/* What the monitor knows of a worker. */
struct wf_worker_health {
    struct wf_list link;             /* [lock]  in the list of idle spares */
    struct wf_parker spare_parker;   /* where it parks as an idle spare */
    wf_atomic_u32 is_spare_parked;   /* [lock: write] [any: read] */
    wf_atomic_u32 is_dismissed;      /* [control thread: write] [owner: clear]  it must park */
    bool is_spare;                   /* [const]  beyond options.workers */
    bool has_thread;                 /* [opener, monitor: write] [closer: read] */
    bool is_hog;                     /* [lock]  its slice is longer than hog_ns */
    bool is_blocked;                 /* [lock]  between weft_block_begin and weft_block_end */
    unsigned blocks;                 /* [owner]  nesting depth of weft_block_begin */
    uint64_t seen_polled;            /* [monitor]  counters at the last sample ... */
    uint64_t seen_run_seq;           /* [monitor] */
    int64_t seen_ns;                 /* [monitor]  ... and since when they are unchanged */
    WF_ATOMIC(int64_t) hog_since_ns; /* [monitor: write] [any: read]  0: it is no hog */
};

struct wf_monitor {
    struct wf_lock lock;
    struct wf_list idle_spares; /* [lock]  parked spares, last parked first */
    unsigned stuck;             /* [lock]  active workers that are stuck */
    wf_atomic_u32 surplus;      /* [lock: write] [any: read]  active workers beyond those needed */
    wf_atomic_u32 is_asleep;    /* [monitor: write] [any: read] */
    wf_atomic_u32 is_leaving;   /* [closer: write] */
    struct wf_parker parker;    /* where the monitor sleeps */
    pthread_t thread;
    wf_atomic_u32 is_started;        /* [opener, closer: write] [any: read]  the thread exists */
    int64_t noted_ns;                /* [monitor]  since when failures wait; 0: none do */
    const void *sites[WF_HOG_SITES]; /* [monitor] */
    unsigned site_count;             /* [monitor] */
    WF_ATOMIC(uint64_t) hogs;        /* [monitor: write] [any: read]  slices longer than hog_ns */
    WF_ATOMIC(uint64_t) blocked;     /* [lock: write] [any: read]  calls of weft_block_begin */
    WF_ATOMIC(uint64_t) started;     /* [monitor: write] [any: read]  threads of spares */
    WF_ATOMIC(uint64_t) refused;     /* [monitor: write] [any: read]  spares that failed to start */
};

/* [locked monitor.lock]  Adds `more`, which may be negative, to the number of active workers, and
 * sets the surplus. */
void wf_workers_active_add_locked(weft_runtime *runtime, int32_t more);
/* [locked monitor.lock]  Whether one more worker is needed. */
bool wf_workers_are_short_locked(weft_runtime *runtime);
/* [locked monitor.lock]  Sets why the worker is stuck; both false: it is not.  Updates
 * `monitor.stuck` and the surplus. */
void wf_worker_set_stuck_locked(struct wf_worker *worker, bool is_hog, bool is_blocked);
/* [locked monitor.lock]  If the runtime has only one configured worker, revokes the bias of its run
 * queue, so that this worker notifies others from then on.  False: the revocation failed. */
bool wf_single_bias_revoke_locked(weft_runtime *runtime);
/* [locked monitor.lock]  Makes an idle spare active.  The caller must unpark its thread. */
void wf_spare_activate_locked(struct wf_worker *worker);

/* [owner]  Leaves the safe state with wf_safe_leave, and wakes the monitor if it sleeps. */
void wf_worker_leave_safe(struct wf_worker *worker);
/* [any]  Whether more workers are active than needed.  A hint. */
bool wf_spare_is_surplus(const weft_runtime *runtime);
/* [owner of a spare, which has empty queues]  Parks the spare until it is needed again.  False: it
 * is needed now, and has not parked. */
bool wf_spare_park(struct wf_worker *worker);
/* [owner, control thread]  Puts a worker that wants work into the list of idle spares; its owner
 * must call wf_spare_wait.  False: it is no spare, or is needed. */
bool wf_spare_dismiss(struct wf_worker *worker);
/* [owner]  Waits as long as the worker is in the list of idle spares. */
void wf_spare_wait(struct wf_worker *worker);
/* [any]  Unparks the worker if it is an idle spare.  The caller has queued a task that only this
 * worker can run. */
void wf_spare_unpark(struct wf_worker *worker);

#endif
