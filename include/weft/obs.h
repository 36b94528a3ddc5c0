/* SPDX-License-Identifier: MIT */
/*
 * weft/obs.h - inspecting a runtime: counters, dumps, traces.
 *
 * Threads: every function may be called from any thread and any task.  A call from a non-worker
 *          thread must have returned before the runtime is closed.
 */
#ifndef WEFT_OBS_H
#define WEFT_OBS_H

#include <weft/runtime.h>
#include <weft/types.h>

WEFT_BEGIN

/* Counters of one worker, or the sum of all. */
typedef struct weft_worker_stats {
    uint64_t spawned;        /* tasks created */
    uint64_t completed;      /* tasks that ended in any way */
    uint64_t failed;         /* tasks that ended with a result < 0 */
    uint64_t cancelled;      /* tasks that ended with -ECANCELED after weft_cancel */
    uint64_t polled;         /* times a task was resumed */
    uint64_t yielded;        /* times a task yielded */
    uint64_t stolen;         /* tasks stolen from other workers */
    uint64_t steals_tried;   /* victims tried */
    uint64_t parked;         /* times it parked */
    uint64_t woken;          /* times another thread unparked it */
    uint64_t overflowed;     /* tasks moved from a full ring to the global queue */
    uint64_t lifo_hits;      /* tasks run from the LIFO slot */
    uint64_t global_fetches; /* tasks taken from the global queue */
    uint64_t queue_depth;    /* tasks in its own queues now */
    uint64_t forks_taken;    /* forks of other tasks that it took as a thief */
} weft_worker_stats;

typedef struct weft_runtime_stats {
    weft_worker_stats total; /* of all workers and of non-worker threads */
    unsigned workers;
    unsigned searching;    /* workers that are searching now */
    unsigned parked;       /* workers that are parked now */
    uint64_t live;         /* live tasks */
    uint64_t global_depth; /* tasks in the global queues */
    uint64_t stack_bytes;  /* bytes mapped for stacks */
    uint64_t stacks;       /* stacks in use by tasks */
    uint64_t stops;        /* times the world was stopped */
    uint64_t stop_ns_max;  /* the longest time until all workers stood still */
    uint64_t stop_ns_total;
    unsigned workers_total;    /* existing workers, including spares */
    unsigned workers_active;   /* workers that are not idle spares; stuck workers count */
    uint64_t hogs;             /* slices that were longer than hog_ns */
    uint64_t blocks;           /* calls of weft_block_begin */
    uint64_t spares_refused;   /* spares that could not be started */
    unsigned blocking_threads; /* threads for weft_blocking_call */
    unsigned blocking_idle;    /* such threads without a job now */
    uint64_t blocking_waiting; /* jobs that wait for such a thread now */
    uint64_t blocking_done;    /* jobs that ran */
    uint64_t blocking_refused; /* such threads that could not be started */
    uint64_t timers_fired;     /* sleeps and deadlines that expired */
    uint64_t io_events;        /* events that the kernel reported for descriptors */
    enum weft_io io;           /* the interface in use; WEFT_IO_AUTO: no task has done I/O yet */
    uint64_t lost_wakeups;     /* with WEFT_PARK_TIMEOUT_MS: parked although work was queued */
} weft_runtime_stats;

/* Fills *out with the statistics of the runtime.  Never waits. */
WEFT_API int weft_runtime_get_stats(weft_runtime *runtime, weft_runtime_stats *out)
    WEFT_NONNULL(1, 2);
/* Fills *out with the counters of one worker, by index below weft_runtime_stats.workers_total.
 * Never waits.  -EINVAL: no such worker. */
WEFT_API int weft_runtime_get_worker_stats(weft_runtime *runtime, weft_worker_stats *out,
                                           unsigned worker) WEFT_NONNULL(1, 2);

/* Writes one line for each worker and one for each live task of the runtime to `fd`: id, name,
 * state and what it waits for, age, resumptions, parent, function and spawn site.  Blocks as
 * write(2) does.  Returns the number of tasks; -ENOMEM; or an error of write. */
WEFT_API int weft_runtime_dump(weft_runtime *runtime, int fd) WEFT_NONNULL(1);

/* Returns a handle of the task with this id (from a dump, a trace, a report or weft_task_id), which
 * the caller must await or drop.  NULL: the runtime has no such task, or it has ended; also for id
 * 0.  Visits every task: for tools, not for loops. */
WEFT_API weft_task *weft_runtime_find_task(weft_runtime *runtime, uint64_t id) WEFT_NONNULL(1)
    __attribute__((warn_unused_result));

/* Starts a trace that keeps the last `events` events of each worker.  Events of a task: spawn queue
 * notify find enter wait commit wake yield block unblock finish free; of a worker: steal park
 * unpark.  Stops the world briefly, so it may wait for another caller that has stopped it.
 * -EINVAL: `events` is not a power of two within 16 .. 2^20; -ENOMEM; -EALREADY: a trace is
 * running; -EPERM: in a child process after fork. */
WEFT_API int weft_runtime_trace_start(weft_runtime *runtime, uint32_t events) WEFT_NONNULL(1);
/* Stops the trace and writes its events to `fd`, oldest first.  One line per event: nanoseconds
 * since the first event, worker ("-": a non-worker thread), event, task, and a number (spawn: the
 * parent; notify: the woken worker; wait: enum weft_wait; steal: the victim).  Stops the world
 * briefly, then blocks as write(2) does.  -EALREADY: no trace is running; -ENOMEM: the trace
 * continues; -EPERM: in a child process after fork; or an error of write, and the trace has
 * stopped. */
WEFT_API int weft_runtime_trace_stop(weft_runtime *runtime, int fd) WEFT_NONNULL(1);

/* ---- compatibility names --------------------------------------------------------------------- */

/* Weft unites five published scheduler designs, which name the states of a task differently
 * (docs/promises.md).  Tools that were written for one of them can show its names. */
enum weft_state_style {
    WEFT_STATE_STYLE_WEFT,    /* the names of weft_task_state_name */
    WEFT_STATE_STYLE_STEAL,   /* S0: Ready Running Blocked Complete */
    WEFT_STATE_STYLE_REACTOR, /* S1: Ready Running Suspended Resumed Completed Failed */
    WEFT_STATE_STYLE_PLAN,    /* S2: Created Running Suspended Resumed Completed Failed */
    WEFT_STATE_STYLE_PROCESS, /* S3: Ready Running Blocked Idle Complete */
    WEFT_STATE_STYLE_POLL,    /* S4: IDLE SCHEDULED RUNNING COMPLETE */
};

/* Returns the name of the state in this style; never NULL. */
WEFT_API const char *weft_state_style_name(enum weft_state_style style, enum weft_task_state state);

WEFT_END

#endif
