/* SPDX-License-Identifier: MIT */
/*
 * sched/monitor.h - workers that are stuck, and those that stand in for them: a part of sched.h,
 * see monitor.c.
 */
#ifndef WF_SCHED_MONITOR_H
#define WF_SCHED_MONITOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "os/os.h"

struct wf_worker;

/* Places of spawns that a hog was reported of. */
#define WF_HOG_SITES 64u

/* A worker as the monitor knows it. */
struct wf_post {
    struct wf_list link;         /* [lock]  among those on the bench */
    struct wf_parker bench;      /* where it sits there */
    wf_atomic_u32 is_benched;    /* [lock: write] [any: read] */
    wf_atomic_u32 is_sent_off;   /* [control: write] [owner: take]  reactor policy */
    bool is_spare;               /* [const]  beyond options.workers */
    bool has_thread;             /* [monitor, closer] */
    bool is_hog;                 /* [lock]  its turn has become too long */
    bool is_blocked;             /* [lock]  it is between weft_block_begin and end */
    unsigned blocks;             /* [owner]  weft_block_begin without an end */
    uint64_t seen_polled;        /* [monitor]  as of the last look ... */
    uint64_t seen_rounds;        /* [monitor] */
    int64_t seen_ns;             /* [monitor]  ... and since when it is so */
    WF_ATOMIC(int64_t) stuck_ns; /* [monitor: write] [any: read]  since when; 0: it is not */
};

struct wf_monitor {
    struct wf_lock lock;
    struct wf_list bench;     /* [lock]  spares that are not needed, newest first */
    unsigned stuck;           /* [lock]  workers in play that are stuck or blocked */
    wf_atomic_u32 surplus;    /* [lock: write] [any: read]  in play, and one too many */
    wf_atomic_u32 is_dozing;  /* [monitor: write] [any: read] */
    wf_atomic_u32 is_leaving; /* [closer: write] */
    struct wf_parker parker;  /* where the monitor sleeps */
    pthread_t thread;
    wf_atomic_u32 is_started;         /* [closer: write] [any: read]  the thread is there */
    bool has_barrier;                 /* [const]  who is alone can be told that it is not */
    wf_atomic_u32 is_barrier_refused; /* [any: write]  by the kernel, later: see alone.c */
    int64_t noted_ns;                /* [monitor]  since when it sees failures; 0: there are none */
    const void *sites[WF_HOG_SITES]; /* [monitor] */
    unsigned site_count;             /* [monitor] */
    WF_ATOMIC(uint64_t) hogs;        /* [monitor: write] [any: read]  turns that were too long */
    WF_ATOMIC(uint64_t) blocked;     /* [lock: write] [any: read]  weft_block_begin */
    WF_ATOMIC(uint64_t) started;     /* [monitor: write] [any: read]  threads of spares */
    WF_ATOMIC(uint64_t) refused;     /* [monitor: write] [any: read]  spares that could not start */
};

/* [opener]  Starts the monitor.  -EAGAIN, -ENOMEM. */
int wf_monitor_start(weft_runtime *runtime);
/* [closer]  No more spares from here on.  Twice is allowed. */
void wf_monitor_stop(weft_runtime *runtime);

/* [monitor]  Sleeps until somebody wakes up, if nobody is awake. */
void wf_monitor_doze(weft_runtime *runtime);
/* [owner]  As wf_safe_leave; the monitor does not sleep while somebody is awake. */
void wf_monitor_wake_up(struct wf_worker *worker);
/* [any]  A hint: there are more in play than are needed. */
bool wf_monitor_is_surplus(const weft_runtime *runtime);
/* [owner of a spare, which has nothing in its queues]  Sits on the bench until it is needed again;
 * false: it is needed now. */
bool wf_monitor_bench(struct wf_worker *worker);
/* [control thread]  The same, for a worker that wants work: it will sit down by itself. */
bool wf_monitor_send_off(struct wf_worker *worker);
/* [owner]  Sits there as long as it is benched. */
void wf_monitor_sit(struct wf_worker *worker);
/* [any]  After something came that only this worker can run: calls it, if it is benched. */
void wf_monitor_recall(struct wf_worker *worker);

#endif
