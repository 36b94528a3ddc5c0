/* SPDX-License-Identifier: MIT */
/*
 * weft/obs.h - looking at a runtime without stopping it.
 *
 * Threads: every function may be called from any thread and any task, but a call from outside must
 *          have returned before the runtime is closed.
 */
#ifndef WEFT_OBS_H
#define WEFT_OBS_H

#include <weft/runtime.h>
#include <weft/types.h>

WEFT_BEGIN

/* Of one worker, or the sum of all. */
typedef struct weft_counters {
    uint64_t spawned;        /* tasks made */
    uint64_t completed;      /* tasks that ended, however */
    uint64_t failed;         /* of them, with a result < 0 */
    uint64_t cancelled;      /* of them, with -ECANCELED after being asked to */
    uint64_t polled;         /* times a task was resumed */
    uint64_t yielded;        /* times a task let others run */
    uint64_t stolen;         /* tasks taken from other workers */
    uint64_t steals_tried;   /* other workers looked at */
    uint64_t parked;         /* times it went to sleep */
    uint64_t woken;          /* times it was woken by somebody */
    uint64_t overflowed;     /* tasks moved from a full ring to the global queue */
    uint64_t lifo_hits;      /* tasks run out of the slot of the newest */
    uint64_t global_fetches; /* tasks taken from the global queue */
    uint64_t queue_depth;    /* tasks waiting in its own queues now */
    uint64_t forks_taken;    /* forks of other tasks that it made tasks of */
} weft_counters;

typedef struct weft_stats {
    weft_counters total; /* of all workers and of foreign threads */
    unsigned workers;
    unsigned searching;    /* workers that look for work now */
    unsigned parked;       /* workers that sleep now */
    uint64_t live;         /* tasks alive */
    uint64_t global_depth; /* tasks waiting in the global queues */
    uint64_t stack_bytes;  /* mapped for stacks */
    uint64_t stacks;       /* of them, in use by tasks */
    uint64_t stops;        /* times the world was stopped */
    uint64_t stop_ns_max;  /* the longest time until all stood still */
    uint64_t stop_ns_total;
    unsigned seats;            /* workers that exist: spares too */
    unsigned in_play;          /* of them, those that run tasks or could */
    uint64_t hogs;             /* turns that were longer than hog_ns */
    uint64_t blocks;           /* calls of weft_block_begin */
    uint64_t spares_refused;   /* spares that could not be started */
    unsigned blocking_threads; /* for weft_blocking */
    unsigned blocking_idle;    /* of them, without a job now */
    uint64_t blocking_waiting; /* jobs that wait for one now */
    uint64_t blocking_done;    /* jobs that ran */
    uint64_t blocking_refused; /* threads for them that could not be started */
    uint64_t timers_fired;     /* sleeps and deadlines whose time has come */
    uint64_t io_events;        /* that the kernel told of descriptors */
    enum weft_io io;           /* by which it does I/O; WEFT_IO_AUTO: no task has needed any yet */
    uint64_t lost_wakeups;     /* build option WEFT_PARK_TIMEOUT_MS: work beside a sleeper */
} weft_stats;

/* -EINVAL: NULL. */
WEFT_API int weft_runtime_stats(weft_runtime *runtime, weft_stats *out);
/* -EINVAL: NULL, or no such worker. */
WEFT_API int weft_worker_stats(weft_runtime *runtime, unsigned worker, weft_counters *out);

/* Writes one line for each worker and one for each live task of the runtime: id, name, state and
 * what it waits for, age, resumptions, parent, function and place of its spawn.  The number of
 * tasks, or the error of write. */
WEFT_API int weft_dump(weft_runtime *runtime, int fd);

/* A handle of the task that has this id, as dumps, traces, reports and weft_task_id give it; to be
 * awaited or dropped as any other.  NULL: the runtime has no such task, or it has ended; also for
 * id 0 or no runtime.  Looks at every task: for tools, not for loops. */
WEFT_API weft_task *weft_task_find(weft_runtime *runtime, uint64_t id)
    __attribute__((warn_unused_result));

/* Keeps the last `events` events of each worker from now on.  Events of a task: spawn queue notify
 * find enter wait commit wake yield block unblock finish free; of a worker: steal park unpark.
 * -EINVAL: not a power of two within 16 .. 2^20; -ENOMEM; -EALREADY. */
WEFT_API int weft_trace_start(weft_runtime *runtime, uint32_t events);
/* Writes what was kept, oldest first, and stops.  A line an event: nanoseconds since the first,
 * worker
 * ("-": another thread), event, task, and a number (spawn: the parent; notify: the worker called;
 * wait: enum weft_wait; steal: the worker stolen from).  -EALREADY: not started; -ENOMEM: it goes
 * on; else the error of write, and it has stopped. */
WEFT_API int weft_trace_stop(weft_runtime *runtime, int fd);

WEFT_END

#endif
