/* SPDX-License-Identifier: MIT */
/*
 * sched/sched.h - the scheduler: which task runs on which worker, and when.
 *
 * Promises:      Work that is queued while a worker sleeps wakes a worker; no wake-up depends on a
 *                timeout.  A task runs on one thread at a time.  The thread that resumes a task
 *                sees what the task did before it was suspended, and the task sees what its waker
 *                did.  Every suspended task has a wait record that says what it waits for.
 * Must not know: how a task ends, forks, futures, locks of users, I/O, processes.
 *
 * Terms: docs/glossary.md.  A policy decides where tasks run: `steal`, each worker for itself
 *        (steal.c), or `reactor`, a control thread for all workers (reactor.c).
 *
 * Tags:  [owner] the thread of the worker that is named;  [worker] the thread of any worker;
 *        [loop] a worker outside of any task;  [leader] the worker that is the leader;
 *        [task] inside a task, may suspend;  [the task] the task that is named, on its own behalf;
 *        [green thread] inside a task with a stack;  [joiner] a task or thread that joins;
 *        [monitor], [control thread] these threads;  [opener], [closer] the thread that opens or
 *        closes the runtime;  [weft_run] the thread inside weft_run;  [stopper] the task or thread
 *        that stops the world;  [any] any thread.
 *        Fields: [const] set before publication; [owner: write] [any: read]; [any: CAS]; [lock];
 *        [world stopped] only while the world is stopped.
 *
 * Edges.  The functions are named without prefix: `notify` is wf_idle_notify, `enter` is
 * wf_safe_enter.  "One sees the other": the thread whose fence comes second sees what the other
 * thread stored before its fence.
 *
 *   edge      from (file function: operation)    to                           carries
 *   sched.S1  idle.c notify, claim_worker: fence sleep: fence                 one sees the other
 *             leader.c summon, wake_any: fence   steal.c stop_search: fence
 *             runtime.c workers_leave: fence     steal.c give_up_search: fence
 *                                                spare.c wait: fence of enter
 *   sched.S2  idle.c end_search: sub             steal.c stop_search: fence   the tasks it stole
 *   sched.S3  idle.c external: fences, add       external_seq: load; fences   the external work
 *   sched.S4  idle.c sleep: or                   claim, claim_worker: and     the sleeping worker
 *   sched.D1  switch.h enter_task: store current dump.c, monitor.c: load      the task's memory
 *   sched.H1  reactor.c dispatch: store handoff  next, park: exchange         the task handed over
 *   sched.K4  reactor.c dispatch: fence         fork.c expose_as_tasks: fence one sees the other
 *   sched.K5  switch.h enter_task: store current fork.c forks_on: load        the task's memory
 *   sched.V1  trace.c start: store is_on         sched.h trace_event: load    the shared ring
 *   sched.V2  driver.c attach: CAS, fence        of: load;                    the driver
 *                                                idle.c sleep: fence
 *   sched.Y1  worker.c run: store run.seq        quiescence.c activity: load  what the tasks did
 *   sched.Y2  end.c complete: store completed    worker.c live: load          that it was spawned
 *   sched.M1  monitor.c make_spare: store total  sched.h worker_total: load   the new worker
 *   sched.M3  monitor.c sleep: fence             safepoint.c leave: fence     one sees the other
 *   sched.B1  safepoint.c enter, leave: fence    stop: fence                  one sees the other
 *   sched.A1  timers.c timer_set: fence          look: fence                  one sees the other
 *   sched.A2  timers.c publish: fence            idle.c sleep: fence;         one sees the other
 *                                                reactor.c: fence
 */
#ifndef WF_SCHED_SCHED_H
#define WF_SCHED_SCHED_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/base.h"
#include "fiber/fiber.h"
#include "os/os.h"
#include "queue/runq.h"
#include "sched/driver.h"
#include "sched/idle.h"
#include "sched/policy.h"
#include "sched/safepoint.h"
#include "sched/spare.h"
#include "sched/timers.h"
#include "sched/worker.h"
#include "task/abandon.h"
#include "task/owned_lock.h"
#include "task/pool.h"
#include "trace/trace.h"

#if defined(WF_HOSTILE) && !defined(WF_MODEL)
#define WF_MIGRATES() wf_jitter_coin() /* every other ready task goes to another worker */
#else
#define WF_MIGRATES() false
#endif

/* ---- the steal policy ----------------------------------------------------------------------- */

/* steal.c  [any]  Wakes a parked worker for queued work, unless one is searching.  `worker` is the
 * caller's, or NULL. */
void wf_steal_notify(weft_runtime *runtime, struct wf_worker *worker);
/* steal.c  [any]  Ends the pause of all searchers in steal backoff, and then does the same as
 * wf_steal_notify.  For work that such a searcher must see: external submissions, tasks of high or
 * low priority (also those that a worker makes ready), tasks moved from a spare or stuck worker,
 * and the run queue of a worker that is about to block. */
void wf_steal_notify_external(weft_runtime *runtime, struct wf_worker *worker);
/* steal.c  [owner]  Whether a task that yields must return to the loop although the run queue is
 * empty: a tick is due, the world stops, or another queue has tasks. */
bool wf_steal_is_due(struct wf_worker *worker);
/* steal.c  [owner]  The worker is about to block: others must take what it has queued. */
void wf_steal_handoff(struct wf_worker *worker);
/* steal.c  [any]  Whether this worker must not sleep: a queue has work for it (LIFO slots do not
 * count: their owners are about to empty them), a fork is exposed, the workers leave, or the worker
 * is the last one awake and a quiescence report is due.  `context` is the worker. */
bool wf_steal_has_work(void *context);

/* global.c  [any]  Ticks between two checks of the global queue, if a slice takes `slice_ns`. */
uint32_t wf_global_interval(int64_t slice_ns);
/* global.c  [owner]  If a reading of the clock is due in this tick: reads it, wakes the tasks of
 * expired timers, polls the driver, and sets the tick of the next reading.  True: the
 * global queue goes before the run queue in this tick. */
bool wf_global_is_due(struct wf_worker *worker);
/* global.c  [owner]  Takes a fair share of the tasks in the global queue: returns one to run, and
 * moves the others to the run queue.  NULL: the global queue is empty. */
struct weft_task *wf_global_take(struct wf_worker *worker);
/* global.c  [owner]  A task of this queue; NULL: it is empty. */
struct weft_task *wf_global_take_one(struct wf_worker *worker, struct wf_inject *inject);

/* prefetch.c  [owner]  Prefetches the fibers and the top frames of the tasks in the chain.  The
 * tasks must be in no queue, so that no other thread resumes them meanwhile. */
void wf_prefetch_chain(const struct wf_chain *chain);
/* prefetch.c  [owner]  The worker is about to be in the kernel for a while: prefetches the memory
 * that the next task of its run queue touches when it is resumed. */
void wf_prefetch_next(struct wf_worker *worker);

/* leader.c  [any]  Makes sure that a leader watches the running workers: wakes a parked worker,
 * which becomes the leader, or the leader if it sleeps for too long. */
void wf_leader_summon(weft_runtime *runtime);
/* leader.c  [owner]  Calls wf_leader_summon, and clears leader.may_be_needed.  For the first time
 * since the worker parked there is something that a leader must watch: a task in the worker's LIFO
 * slot, or a timer. */
void wf_leader_needed(struct wf_worker *worker);
/* leader.c  [loop]  The worker is about to park.  Makes it the leader if one is needed and there is
 * none.  Returns the deadline of the park; WF_FOREVER if the worker is not the leader. */
int64_t wf_leader_begin(struct wf_worker *worker);
/* leader.c  [loop]  The second check of a worker that has set its bit as a sleeper: true if it must
 * stay awake.  `context` is the worker. */
bool wf_leader_must_stay(void *context);
/* leader.c  [leader, awake]  Requests preemption of long slices, dispatches I/O events, steps down.
 */
void wf_leader_end(struct wf_worker *worker);
/* leader.c  [any]  Operations of the steal policy: see struct wf_policy. */
void wf_leader_wake(weft_runtime *runtime);
void wf_leader_wake_any(weft_runtime *runtime);
void wf_leader_repair(weft_runtime *runtime);

/* steal_backoff.c  [owner]  The worker has found tasks by a search: starts to measure whether the
 * steal pays. */
void wf_steal_backoff_begin(struct wf_worker *worker, int64_t now);
/* steal_backoff.c  [owner]  The stolen tasks have run: raises or clears the level, and pauses. */
void wf_steal_backoff_update(struct wf_worker *worker);
/* steal_backoff.c  [owner]  Sets the level. */
void wf_steal_backoff_set(struct wf_worker *worker, uint32_t level);

/* ---- runtimes ------------------------------------------------------------------------------ */

struct wf_blocking;
struct wf_limits;
struct wf_reactor;
struct weft_par_forks;

/* When workers leave their loop. */
enum wf_exit_mode {
    WF_EXIT_NOT,
    WF_EXIT_WHEN_DONE, /* as soon as the worker finds no task */
    WF_EXIT_NOW,       /* between two tasks */
};

/* The queues that all workers share. */
struct wf_shared_queues {
    struct wf_inject global; /* tasks of normal priority: external submissions, overflow of rings */
    struct wf_inject high;   /* tasks of high priority */
    struct wf_inject low;    /* tasks of low priority */
};

/* The end of a runtime: see runtime/runtime.c. */
struct wf_shutdown {
    struct wf_lock gate;            /* a non-worker thread checks is_closing and counts its spawn
                                     * under it; the closer sets is_closing under it */
    WF_ATOMIC(uint32_t) is_closing; /* [closer: write] [any: read]  no more spawns */
    WF_ATOMIC(uint32_t) exit_mode;  /* [closer: write] [any: read]  enum wf_exit_mode */
    struct wf_parker closer;        /* where weft_runtime_close waits */
};

/* What is known of quiescence: see obs/quiescence.c. */
struct wf_quiescence {
    WF_ATOMIC(uint64_t) reported_at;   /* [any: write]  activity at the last report; 0: one was
                                        * requested */
    uint64_t deadlock_at;              /* [world stopped]  slices run at the last deadlock */
    WF_ATOMIC(uint32_t) is_deadlocked; /* [loop: write] [any: read] */
};

/* The wait of weft_run for the first task. */
struct wf_main_wait {
    struct wf_waiter waiter;
    WF_ATOMIC(uint32_t) is_used; /* [weft_run: write] [any: read]  weft_run opened the runtime */
};

/* The trace of a runtime: see obs/trace.c. */
struct wf_runtime_trace {
    WF_ATOMIC(uint32_t) is_on;      /* [stopper: write] [any: read] */
    struct wf_trace_shared outside; /* events of non-worker threads */
};

struct weft_runtime {
    struct wf_start start;
    weft_runtime_options options; /* [const]  defaults filled in */
    const struct wf_policy *policy;
    unsigned worker_count;        /* [const]  configured workers: options.workers */
    unsigned workers_max;         /* [const]  workers and spares that may exist */
    wf_atomic_u32 workers_total;  /* [monitor: write] [any: read]  workers that exist */
    wf_atomic_u32 workers_active; /* [monitor.lock: write] [any: read]  not parked as spares */
    struct wf_worker *workers;    /* [const] */
    struct wf_safe **safes;       /* [stopper]  of all workers except the stopper's own */
    struct wf_task_pool *pool;    /* [const] */
    struct wf_stack_pool stacks;
    struct wf_reactor *reactor; /* [const]  of the reactor policy; only reactor.c uses it */
    struct wf_monitor monitor;
    struct wf_bias_domain bias_domain;

    /* Of the layers above, which the scheduler does not look into.  [const] */
    struct wf_blocking *blocking; /* life/blocking.h */
    struct wf_limits *limits;     /* life/life.h */

    struct wf_shared_queues queues;
    struct wf_idle idle;
    struct wf_world world;

    alignas(WF_CACHE_LINE) struct wf_shutdown shutdown;

    WF_ATOMIC(uint32_t) has_leader; /* [any: exchange]  a worker is the leader: leader.c */
    struct wf_timer_summary timer_summary;
    WF_ATOMIC(struct wf_driver *) driver; /* [any: CAS]  NULL: none yet */

    struct wf_counters foreign; /* [gate, closer: write] [any: read]  of non-worker threads */

    struct wf_world_turn world_turn;
    struct wf_world_stats world_stats;
    struct wf_runtime_trace trace;
    struct wf_quiescence quiescence;
    struct wf_main_wait main_wait;
};

static inline void wf_trace_event(weft_runtime *runtime, struct wf_worker *worker,
                                  enum wf_trace_event event, uint64_t id, uint64_t arg)
{
    if (worker != NULL) {
        wf_trace(worker->trace, event, id, arg);
    } else if (wf_load_acquire(&runtime->trace.is_on) != 0) { /* (sched.V1) */
        wf_trace_shared(&runtime->trace.outside, event, id, arg);
    }
}

/* [any]  The number of workers that exist, spares included.  A thread that found a task of worker i
 * reads a number above i. */
static inline unsigned wf_worker_total(const weft_runtime *runtime)
{
#ifdef WF_MODEL
    return runtime->worker_count; /* constant: model programs start no spares */
#else
    return wf_load_acquire(&runtime->workers_total); /* (sched.M1) */
#endif
}

/* [any]  The number of workers that are not parked as spares. */
static inline unsigned wf_workers_active(const weft_runtime *runtime)
{
    /* relaxed: a hint, or behind a fence (sched.S1) */
    return wf_load_relaxed(&runtime->workers_active);
}

/* worker.c  [any]  The number of live tasks; exact while no task runs. */
uint64_t wf_runtime_live(const weft_runtime *runtime);

/* [any]  The number of tasks in shared queues.  A hint. */
static inline uint64_t wf_runtime_queued(weft_runtime *runtime)
{
    return runtime->policy->queued_count(runtime);
}

/* ---- upcalls ------------------------------------------------------------------------------- */

/*
 * Upcalls: functions of higher layers that the scheduler calls, and that the layers between use to
 * call each other.  There is one table, which runtime/upcalls.c fills.  [const]
 */
struct wf_upcalls {
    /* life  [the task]  Its function has returned: ends it.  Returns the worker on which it ended;
     * the caller must not touch the task any more. */
    struct wf_worker *(*task_finish)(struct weft_task *task, intptr_t result);
    /* life  [any]  Ends a task that cannot begin to run, or is suspended and never resumed. */
    void (*task_abandon)(struct weft_task *task, intptr_t result);
    /* life  [owner, control thread]  `count` tasks were taken out of the shared queues. */
    void (*queue_shrunk)(weft_runtime *runtime, size_t count);
    /* life  [control thread]  Submits a blocking job to the pool. */
    void (*job_begin)(weft_runtime *runtime, struct wf_node *job);
    /* life  [control thread]  A blocking job has run: wakes its task. */
    void (*job_end)(weft_runtime *runtime, struct wf_node *job);
    /* life  [closer]  The control thread has ended and will not pass this job on: abandons it. */
    void (*job_abandon)(weft_runtime *runtime, struct wf_node *job);

    /* fork  Stands for the split deque of a task without one, and of the loop: wf_forks_enter. */
    struct weft_par_forks *no_forks;
    /* fork  [the task]  It is about to be suspended with forks: makes tasks of them. */
    void (*forks_release)(struct weft_task *self);
    /* fork  [the task]  Its frames are left: drops its forks, and waits for those that run. */
    void (*forks_cut)(struct weft_task *self);
    /* fork  [closer]  The task never runs again: drops its forks. */
    void (*forks_forget)(struct weft_task *task);
    /* fork  [owner, searching]  Steals a fork of the task on `victim`.  NULL: none to be had. */
    struct weft_task *(*fork_steal)(struct wf_worker *worker, struct wf_worker *victim);
    /* fork  [any]  Whether the task on `victim` has an exposed fork.  A hint. */
    bool (*fork_is_open)(struct wf_worker *victim);
    /* fork  [control thread]  Requests forks of every task that runs. */
    void (*forks_request_all)(weft_runtime *runtime);

    /* future  [owner]  Calls a poll task once.  True: it has ended, with this result. */
    bool (*poll_call)(struct wf_worker *worker, struct weft_task *task, intptr_t *result);
    /* future  [any]  A poll task has ended: drops its futures, and frees its state. */
    void (*poll_done)(struct weft_task *task);

    /* obs  [any]  Whether something happened since the last report of quiescence. */
    bool (*quiescence_is_due)(weft_runtime *runtime);
    /* obs  [loop, control thread]  No task runs and none is queued.  `is_still` true: no worker can
     * begin a task during the call. */
    void (*quiescence_report)(weft_runtime *runtime, bool is_still);
    /* obs  [any]  Requests a report of something that happened outside of the runtime's tasks. */
    void (*quiescence_request)(struct wf_task_pool *pool);
    /* obs  [any]  The program broke a rule: prints the task and the rule; ends the process. */
    __attribute__((noreturn)) void (*misuse)(const char *what);
};

extern const struct wf_upcalls wf_upcalls;

#ifdef WF_MODEL
#define WF_RULE(is_kept, what) WEFT_CHECK(is_kept)
#else
#define WF_RULE(is_kept, what)                                                                     \
    (__builtin_expect(!!(is_kept), 1) ? (void)0 : wf_upcalls.misuse(what))
#endif

/*
 * Rules that only builds with assertions check, because they are on hot paths or because a fault
 * follows at once without them.  WF_NOT_NULL is for a pointer that WEFT_NONNULL declares: the
 * compiler takes such a pointer for not NULL and would remove a plain check, so the asm hides the
 * value from it.  (Rejected: a WEFT_NONNULL that is empty inside of the library.  It would depend
 * on which header comes first, and the library's own calls would not be checked.)  clang's analyzer
 * does not see that a broken rule ends the process, so it gets no check.
 */
#if !defined(NDEBUG) && !defined(__clang_analyzer__)
#define WF_RULE_CHECKED(is_kept, what) WF_RULE(is_kept, what)
#define WF_NOT_NULL(pointer, what)                                                                 \
    do {                                                                                           \
        uintptr_t wf_hidden = (uintptr_t)(pointer);                                                \
        __asm__("" : "+r"(wf_hidden));                                                             \
        WF_RULE(wf_hidden != 0, what);                                                             \
    } while (0)
#else
#define WF_RULE_CHECKED(is_kept, what) ((void)sizeof(is_kept))
#define WF_NOT_NULL(pointer, what) ((void)sizeof(pointer))
#endif

#endif
