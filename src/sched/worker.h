/* SPDX-License-Identifier: MIT */
/*
 * sched/worker.h - a worker: its run queue, its counters, its caches, its thread.  Each sub-struct
 * says which file uses it.
 */
#ifndef WF_SCHED_WORKER_H
#define WF_SCHED_WORKER_H

#include <pthread.h>

#include "queue/runq.h"
#include "sched/driver.h"
#include "sched/safepoint.h"
#include "sched/spare.h"
#include "sched/timers.h"
#include "task/pool.h"
#include "trace/trace.h"

/* [owner: write] [any: read]  What a worker counts: see obs/stats.c. */
struct wf_counters {
    WF_ATOMIC(uint64_t) spawned;
    WF_ATOMIC(uint64_t) completed;
    WF_ATOMIC(uint64_t) failed;
    WF_ATOMIC(uint64_t) cancelled;
    WF_ATOMIC(uint64_t) polled;
    WF_ATOMIC(uint64_t) yielded;
    WF_ATOMIC(uint64_t) steals_tried;
    WF_ATOMIC(uint64_t) slots_stolen;
    WF_ATOMIC(uint64_t) parked;
    WF_ATOMIC(uint64_t) woken;
    WF_ATOMIC(uint64_t) global_fetches;
    WF_ATOMIC(uint64_t) forks_taken;      /* forks of other tasks that it took and ran as tasks */
    WF_ATOMIC(uint64_t) waits_for_task;   /* begun waits for a task, a mutex or a rwlock */
    WF_ATOMIC(uint64_t) waits_ended;      /* ended waits for a task, a mutex or a rwlock */
    WF_ATOMIC(uint64_t) waits_in_sync;    /* begun waits in other objects of layer sync */
    WF_ATOMIC(uint64_t) sync_waits_ended; /* ended waits in other objects of layer sync */
};

/* [owner]  When a worker checks the clock and the global queue.  Counted in ticks: see global.c. */
struct wf_tick {
    uint32_t left;        /* until the worker reads the clock again */
    uint32_t clock;       /* between two reads of the clock */
    uint32_t interval;    /* between two checks of the global queue */
    uint32_t global;      /* since the last check of the global queue */
    uint32_t count;       /* passes of the loop */
    bool is_after_global; /* the last tick began with the global queue */
    int64_t now_ns;       /* the clock when it was last read */
    int64_t global_ns;    /* when the global queue was last checked */
    int64_t slice_ns;     /* moving average of a slice */
};

/* [owner]  Searching for work: see steal.c. */
struct wf_search {
    bool is_active;   /* counted in runtime->idle.searching */
    bool must_rescan; /* it woke up unclaimed (saw work, deadline, event), or saw work when it gave
                       * up its search: stop_search checks all queues again */
};

/* [owner]  The worker as leader: see leader.c. */
struct wf_leadership {
    bool is_self;             /* this worker is the leader */
    bool may_be_needed;       /* set when it parks: when it next fills its slot, sets a timer or
                               * finds a task, it must make sure that there is a leader */
    int64_t until_ns;         /* until when it parks as leader */
    struct wf_driver *driver; /* in which it parks; NULL: at its own parker */
};

/* [owner]  I/O requests that the worker has not submitted to the kernel yet: see io/uring.c. */
struct wf_submission {
    bool has_unsubmitted; /* there are some */
    int64_t submitted_ns; /* when the worker last submitted although it had tasks to run */
};

/* [owner]  Whether stealing pays: see steal_backoff.c. */
struct wf_steal_backoff {
    bool is_tracked;       /* the worker found its tasks by a search: measure whether they pay */
    uint32_t level;        /* 0: steals freely; WF_STEAL_LEVEL_PAUSE and above: pauses */
    int64_t began_ns;      /* when the worker last began with stolen tasks */
    uint64_t polled;       /* slices that it had run by then */
    uint64_t own;          /* work of its own by then: spawns, yields, hits of the LIFO slot */
    uint64_t others;       /* slices and spawns of all other workers by then */
    uint32_t external_seq; /* external submissions before it last checked the shared queues */
};

/* What the loop runs: see worker.c. */
struct wf_run {
    struct weft_task *next;  /* [owner]  in the next pass of the loop; NULL: none */
    uint64_t seq_own;        /* [owner]  `seq` without its lowest bit */
    WF_ATOMIC(uint64_t) seq; /* [owner: write] [any: read]  odd: inside tasks */
};

/* [owner]  A block of task ids: see life/spawn.c. */
struct wf_task_ids {
    uint64_t next; /* the next id */
    uint64_t end;  /* one past the last id of the block */
};

/* Tasks that only this worker may run: see steal.c. */
struct wf_pinned {
    alignas(WF_CACHE_LINE) struct wf_mpsc inbox;
    struct wf_chain taken; /* [owner]  taken out of the inbox, to be run */
};

/* Long slices: see leader.c. */
struct wf_preempt {
    WF_ATOMIC(uint32_t) is_requested; /* [any: write]  the task must yield: see weft_check */
    WF_ATOMIC(uint64_t) polled_seen;  /* [leader: write]  `polled` at the leader's last check */
};

/* The worker in the reactor policy: see reactor.c. */
struct wf_reactor_link {
    WF_ATOMIC(struct weft_task *) handoff; /* [control thread: put] [owner: take]  to run next */
    struct wf_node node;                   /* in the control thread's queue of idle workers */
    bool is_listed;                        /* [owner]  `node` is in that queue */
    int64_t slice_began_ns;                /* [control thread]  when the worker got its task */
};

/* The thread of a worker: see runtime/start.c. */
struct wf_worker_thread {
    pthread_t handle;
    struct wf_start *start;              /* [owner]  until it has started */
    struct wf_start own_start;           /* of a spare */
    struct wf_signal_stack signal_stack; /* [owner] */
};

struct wf_worker {
    /* Touched by the owner at every switch. */
    weft_runtime *runtime;                 /* [const] */
    struct wf_task_pool *pool;             /* [const]  of the runtime */
    WF_ATOMIC(struct weft_task *) current; /* [owner: write] [any: read]  NULL: in the loop */
    struct weft_par_forks *forks;          /* [owner]  of the current task: see fork.h */
    uint32_t index;                        /* [const] */
    bool is_single;                        /* [const]  the only worker, apart from spares */
    bool has_seen_closing;                 /* [owner] */
    struct wf_tick tick;
    struct wf_search search;
    struct wf_leadership leader;
    struct wf_fiber loop; /* [owner]  the thread's own stack */
    struct wf_run run;
    struct wf_task_ids ids;
    struct wf_task_cache tasks;  /* [owner] */
    struct wf_trace_ring *trace; /* [owner]  changed while the world is stopped; NULL: off */

    struct wf_submission io;
    struct wf_steal_backoff backoff;
    struct wf_random random;                 /* [owner] */
    struct wf_stack_cache stacks;            /* [owner] */
    WF_ATOMIC(struct wf_stack *) warm_stack; /* [owner: write] [any: read]  its fiber waits for a
                                              * task to run; NULL: none */
    struct wf_counters counters;             /* [owner: write] [any: read] */
    struct wf_runq runq;
    struct wf_pinned pinned;

    struct wf_parker parker;
    struct wf_safe safe;
    struct wf_preempt preempt;
    struct wf_reactor_link reactor;
    struct wf_timers timers;
    struct wf_worker_health health;
    struct wf_worker_thread thread;
};

#ifndef WF_MODEL
_Static_assert(offsetof(struct wf_worker, tick.left) < WF_CACHE_LINE, "a switch needs one line");
#endif

/* [owner]  The task that runs on the caller's worker; NULL: none, or there is no worker. */
static inline struct weft_task *wf_task_on(const struct wf_worker *worker)
{
    /* relaxed: only the owner writes it */
    return worker != NULL ? wf_load_relaxed(&worker->current) : NULL;
}

/* worker.c  The worker of the calling thread; NULL: a non-worker thread. */
extern _Thread_local struct wf_worker *wf_current_worker;

/* worker.c  [any]  The worker of the calling thread; NULL: a non-worker thread. */
struct wf_worker *wf_worker_self(void);
/* worker.c  [any]  The calling task; NULL: the caller is no task. */
struct weft_task *wf_task_self(void);

/* worker.c  [owner]  Carries out the after-switch action in `message` for the context that switched
 * away. */
void wf_finish_switch(struct wf_worker *worker, void *message);
/* worker.c  The main function of a worker's thread; `arg` is the worker. */
void *wf_worker_main(void *arg);

/* worker.c  [owner]  Gives the task a fiber.  -ENOMEM: no stack. */
int wf_task_begin(struct wf_worker *worker, struct weft_task *task);
/* worker.c  [the task]  Ends the task from any depth of its stack. */
_Noreturn void wf_task_exit(struct weft_task *self, intptr_t result);

/* worker.c  [task]  Suspends the task until it is woken.  Wakes may be spurious: the caller checks
 * its condition again.  The caller has filled the wait record. */
void wf_task_suspend(struct weft_task *self);
/* worker.c  [task]  Requeues the caller and runs other tasks, if there are any. */
void wf_task_yield(struct weft_task *self);
/* worker.c  [the task]  Counts one operation; yields when the budget is used up. */
void wf_task_spend(struct weft_task *self);

#endif
