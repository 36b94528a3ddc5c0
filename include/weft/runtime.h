/* SPDX-License-Identifier: MIT */
/*
 * weft/runtime.h - a runtime: some workers (OS threads) over which tasks are woven.
 *
 * Most programs need one call, weft_run.  Several runtimes may live in one process; a task of one
 * may wait for, cancel and wake tasks of another.
 *
 * Threads: every function may be called from any thread, and from inside a task unless it says
 *          otherwise.
 * Errors:  0 or a negative errno; outputs are untouched on error.
 */
#ifndef WEFT_RUNTIME_H
#define WEFT_RUNTIME_H

#include <weft/task.h>
#include <weft/types.h>

WEFT_BEGIN

/* Who decides which task runs where. */
enum weft_policy {
    WEFT_POLICY_DEFAULT, /* $WEFT_POLICY, else steal */
    WEFT_POLICY_STEAL,   /* every worker for itself; who has nothing takes from others */
    WEFT_POLICY_REACTOR, /* one control thread decides everything and hands tasks to the workers */
};

/* In which order a worker of the steal policy takes its own tasks. */
enum weft_order {
    WEFT_ORDER_DEFAULT,     /* $WEFT_ORDER, else fair */
    WEFT_ORDER_FAIR,        /* oldest first, but for the one that was made ready last */
    WEFT_ORDER_DEPTH_FIRST, /* newest first; thieves take the oldest */
};

/* By what the kernel is asked for I/O.  A kernel that refuses io_uring, at once or later, is asked
 * by epoll instead; a library that was built without it refuses WEFT_IO_URING.  weft_stats says
 * which one it is. */
enum weft_io {
    WEFT_IO_AUTO, /* $WEFT_IO (auto, epoll or uring), else epoll */
    WEFT_IO_EPOLL,
    WEFT_IO_URING,
};

/* A task that failed and whose result nobody looked at; or, with -EOWNERDEAD, a task that ended,
 * however it did, while it held locks: they were released, and the message says how many. */
typedef struct weft_failure {
    uint64_t task_id;    /* 0: some, for which there was no memory; the message says how many */
    const char *name;    /* "" for none */
    int error;           /* the negative errno */
    const char *message; /* of weft_fail; "" for none */
} weft_failure;

/* A set of tasks that all wait for each other. */
typedef struct weft_deadlock {
    size_t count;                  /* tasks that wait; no others are left */
    const weft_task *const *cycle; /* each waits for the next, the last for the first */
    size_t cycle_count;            /* 0: a chain that ends in a task that waits for nothing */
    const char *text;              /* the same in words, one line a task */
} weft_deadlock;

/* A task that has kept its worker for too long. */
typedef struct weft_hog {
    uint64_t task_id;
    const char *name; /* "" for none */
    weft_fn fn;
    const void *site; /* where it was spawned */
    unsigned worker;
    int64_t ran_ns; /* so long by now */
} weft_hog;

typedef struct weft_options {
    uint32_t size; /* sizeof(weft_options), or 0 */
    /* 0: $WEFT_WORKERS, else $RAYA_NUM_THREADS (what one of the designs calls it), else as many as
     * the process has CPUs.  A variable that is no number is an error in any case. */
    uint32_t workers;
    enum weft_policy policy;
    enum weft_order order;
    enum weft_io io;
    bool no_steal;          /* workers take nothing from each other */
    bool steal_first;       /* look at other workers before the global queue */
    bool spawn_waits;       /* a spawn that finds the runtime full waits instead of -EAGAIN */
    uint32_t io_events_max; /* events taken from the kernel at once, up to 256; 0: 256 */
    uint32_t global_batch;  /* tasks taken from the global queue at once; 0: up to 64 */
    size_t global_capacity; /* tasks waiting in the global queue; 0: no limit */
    size_t tasks_max;       /* tasks alive at once; 0: no limit */
    size_t
        stack_size; /* of tasks that don't say; 0: $WEFT_STACK (bytes, or 128K, 1M), else 64 KiB */
    uint64_t seed;  /* of the choice of victims; 0: from the clock */
    uint32_t trace_events; /* events kept per worker; 0: no trace until weft_trace_start */

    /* Of a task that failed and whose handle was dropped.  Called when nothing is left to run, or,
     * in a runtime that is always busy, after a second or so by the monitor; one call at a time.
     * NULL: a line on stderr.  On a thread of the runtime: must not wait. */
    void (*on_failure)(void *context, const weft_failure *failure);
    /* Called within 100 ms of a deadlock; NULL: a report on stderr.  weft_run then ends with
     * -EDEADLK; a runtime that was opened stays as it is. */
    void (*on_deadlock)(void *context, const weft_deadlock *deadlock);
    void *hook_context;

    /* weft_run: gets the message of weft_fail of the first task, or "".  NULL: that is a line on
     * stderr, unless there is an on_failure. */
    char *message;
    size_t message_size; /* bytes there, the end included; a longer message is cut */

    /* Nanoseconds after which a task that runs without a call of Weft counts as a hog, and a spare
     * worker does what its worker cannot; 0: $WEFT_HOG (500us, 10ms, 2s), else 10 ms. */
    int64_t hog_ns;
    /* Workers beyond `workers`, in place of those that are stuck; 0: $WEFT_SPARES, else 64. */
    uint32_t spares_max;
    /* Nobody looks for hogs, and there are no spares: WEFT_MONITOR=0, too.  While one task computes
     * and all other workers sleep, news of descriptors may wait until it makes a call. */
    bool no_monitor;
    /* Called once for each place from which a hog was spawned, on the monitor's thread: must not
     * wait.  NULL: nobody is told. */
    void (*on_hog)(void *context, const weft_hog *hog);

    uint32_t blocking_max;    /* threads for weft_blocking; 0: $WEFT_BLOCKING_MAX, else 512 */
    int64_t blocking_idle_ns; /* that such a thread waits for a job before it ends; 0: 10 s */
} weft_options;

/* Opens a runtime, runs fn(arg) as its first task, waits for its end and closes the runtime: every
 * task that is still alive then is cancelled and waited for: one that does not heed -ECANCELED
 * keeps it from returning, and is named on stderr after two seconds.  Gives the result of fn; or
 * -EINVAL: bad options or environment, and a line on stderr says which; -ENOMEM, -EAGAIN: no
 * memory, no threads; -EDEADLK: all tasks waited for each other; -EPERM: called from inside a task.
 */
WEFT_API intptr_t weft_run(weft_fn fn, void *arg, const weft_options *options);

/*
 * Starts the workers.  Errors as above.
 *
 * A process with a runtime may call fork, in a task as well; weft_child_spawn is the better way.
 * In the child there are no workers, and the task that called it is one no more: it is a thread,
 * which is to call exec or _exit.  Calls that would start tasks, wait for some, or open or close a
 * runtime give -EPERM there; what else waits for other tasks waits for ever; the return of the
 * task's function is stopped by a check.  Descriptors are shared with the parent as ever.
 */
WEFT_API int weft_runtime_open(weft_runtime **out, const weft_options *options);

/*
 * Cancels every task, waits for them at most timeout_ns (negative: without limit), then takes the
 * stacks of those that still wait: their handles complete with -ECANCELED, their cleanups do not
 * run.  A function that is running at that moment cannot be stopped and is waited for.  Handles
 * that are still out stay valid until they are dropped.  0: all ended by themselves; -ETIMEDOUT:
 * some were forced.  -EDEADLK: called from a task or a hook of this runtime, which it would have to
 * wait for.  A spawn from another thread that has begun before this returns gets -ESHUTDOWN; none
 * may begin afterwards.  Handles may be used meanwhile; other calls that get the runtime (to stop
 * its world, to look at it, to trace it) must have returned before.
 */
WEFT_API int weft_runtime_close(weft_runtime *runtime, int64_t timeout_ns);

/* As weft_spawn, into a runtime that need not be the caller's.  -ESHUTDOWN: it is closing. */
WEFT_API int weft_runtime_spawn(weft_runtime *runtime, weft_task **out, weft_fn fn, void *arg,
                                const weft_task_options *options);

/* The runtime of the calling task; NULL outside. */
WEFT_API weft_runtime *weft_runtime_self(void);

/* Workers of the runtime. */
WEFT_API unsigned weft_runtime_workers(const weft_runtime *runtime);

/* What weft_runtime_open would say to these options and this environment.  0, or -EINVAL with a
 * sentence in `text` that names the option or the variable. */
WEFT_API int weft_options_check(const weft_options *options, char *text, size_t text_size);

/*
 * Stops every worker at its next scheduling point, and returns when all stand still; workers that
 * sleep do already.  Until weft_start_the_world no task runs but the caller.  Nests; another caller
 * waits for its turn.  From a task or any thread.  Who has stopped the world must not wait, yield
 * or end before it has started it: a check stops that.  Two runtimes must not stop each other's
 * worlds: a task that waits until another runtime stands still keeps its own worker, and does not
 * stand still itself.
 */
WEFT_API int weft_stop_the_world(weft_runtime *runtime);
/* -EPERM: the caller did not stop it. */
WEFT_API int weft_start_the_world(weft_runtime *runtime);

WEFT_END

#endif
