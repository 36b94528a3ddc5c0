/* SPDX-License-Identifier: MIT */
/*
 * weft/runtime.h - a runtime: a set of workers (OS threads) that run tasks.
 *
 * Most programs need one call, weft_run.  Several runtimes may exist in one process; a task of one
 * runtime may wait for, cancel and wake tasks of another.
 *
 * Threads: every function may be called from any thread, and from inside a task unless its contract
 *          says otherwise.
 * Errors:  0 or a negative errno; outputs are untouched on error.
 */
#ifndef WEFT_RUNTIME_H
#define WEFT_RUNTIME_H

#include <weft/task.h>
#include <weft/types.h>

WEFT_BEGIN

/* What decides which worker runs a task. */
enum weft_policy {
    WEFT_POLICY_DEFAULT, /* $WEFT_POLICY, else steal */
    WEFT_POLICY_STEAL,   /* each worker has a run queue; an idle worker steals from the others */
    WEFT_POLICY_REACTOR, /* one control thread assigns every task to a worker */
};

/* The order in which a worker of the steal policy takes the tasks of its own run queue. */
enum weft_order {
    WEFT_ORDER_DEFAULT,     /* $WEFT_ORDER, else fair */
    WEFT_ORDER_FAIR,        /* oldest first, except that the task made ready last runs next */
    WEFT_ORDER_DEPTH_FIRST, /* newest first; thieves take the oldest */
};

/* The kernel interface for I/O.  If the kernel refuses io_uring, at the start or later, the runtime
 * uses epoll instead.  A library built without io_uring rejects WEFT_IO_URING with -EINVAL.
 * weft_runtime_stats.io gives the interface in use. */
enum weft_io {
    WEFT_IO_AUTO, /* $WEFT_IO (auto, epoll or uring), else epoll */
    WEFT_IO_EPOLL,
    WEFT_IO_URING,
};

/* Describes a task that failed and whose result was never read.  With the error -EOWNERDEAD it
 * describes a task that ended, in any way, while it held locks: the runtime released them, and the
 * message gives their number. */
typedef struct weft_failure {
    uint64_t task_id;    /* 0: failures that could not be recorded; the message counts them */
    const char *name;    /* "" if the task has none */
    int error;           /* the negative errno */
    const char *message; /* of weft_fail; "" if there is none */
} weft_failure;

/* Describes a set of tasks that all wait for each other. */
typedef struct weft_deadlock {
    size_t count;                  /* waiting tasks; the runtime has no others */
    const weft_task *const *cycle; /* each waits for the next one, the last for the first */
    size_t cycle_count;            /* 0: no cycle was found; for example, all wait in channels */
    const char *text;              /* the same as text, one line for each task */
} weft_deadlock;

/* Describes a task whose slice became longer than `hog_ns`. */
typedef struct weft_hog {
    uint64_t task_id;
    const char *name; /* "" if the task has none */
    weft_fn fn;
    const void *site; /* the address at which the task was spawned */
    unsigned worker;
    int64_t ran_ns; /* the length of its slice so far */
} weft_hog;

typedef struct weft_runtime_options {
    uint32_t size; /* sizeof(weft_runtime_options), or 0 */
    /* 0: $WEFT_WORKERS, else $RAYA_NUM_THREADS (the name in one of the published designs), else the
     * number of CPUs the process may use.  The first of the two variables that is set must be a
     * valid number, even if `workers` is not 0. */
    uint32_t workers;
    enum weft_policy policy;
    enum weft_order order;
    enum weft_io io;
    bool no_steal;          /* workers do not steal from each other */
    bool steal_first;       /* try other workers before the global queue */
    bool spawn_waits;       /* a spawn beyond a limit waits instead of failing with -EAGAIN */
    uint32_t io_events_max; /* events fetched from the kernel at once, up to 256; 0: 256 */
    uint32_t global_batch;  /* tasks taken from the global queue at once; 0: up to 64 */
    size_t global_capacity; /* limit of tasks in the global queue; 0: no limit */
    size_t tasks_max;       /* limit of live tasks; 0: no limit */
    size_t stack_size; /* default stack size; 0: $WEFT_STACK (bytes, or 128K, 1M), else 64 KiB */
    uint64_t seed;     /* seed of the random choice of victims; 0: from the clock */
    uint32_t trace_events; /* events kept per worker; 0: no trace until weft_runtime_trace_start */

    /* Called for a task that failed and whose handle was dropped without reading its result.  Runs
     * when no task is left to run; in a runtime that is always busy the monitor calls it after
     * about a second.  Calls do not overlap.  NULL: prints a line on stderr for each, up to 16 in a
     * second, and one line with the number of the others.  Not called for a task of a scope
     * (weft_scope_close returns the first error), for a cancelled task that ends with -ECANCELED,
     * and for -ESHUTDOWN in a runtime that is closing.  Runs on a thread of the runtime and must
     * not wait. */
    void (*on_failure)(void *context, const weft_failure *failure);
    /* Called within 100 ms of a deadlock: every task waits for the end of a task or for a lock that
     * a task holds, and no timer is set.  A wait for a channel, or for another object that any
     * thread could signal, counts only if the process has no thread besides those of this runtime
     * and the caller of weft_run: any other thread might end that wait, even one that has not
     * called Weft yet.  So with another thread, or after weft_runtime_open, or without /proc, such
     * a deadlock is not reported.
     *
     * NULL: prints a report on stderr.  Afterwards weft_run returns -EDEADLK; a runtime from
     * weft_runtime_open stays as it is. */
    void (*on_deadlock)(void *context, const weft_deadlock *deadlock);
    void *hook_context;

    /* For weft_run: receives the weft_fail message of the first task, or "".  NULL: the message is
     * printed on stderr, unless on_failure is set. */
    char *message;
    size_t message_size; /* bytes at `message` with the final '\0'; a longer message is truncated */

    /* Nanoseconds after which a task that runs without calling Weft counts as a hog and a spare
     * takes over the work of its worker.  0: $WEFT_HOG (500us, 10ms, 2s), else 10 ms. */
    int64_t hog_ns;
    /* Limit of spares: workers beyond `workers` that replace stuck ones.  0: $WEFT_SPARES, else 64.
     */
    uint32_t spares_max;
    /* Starts no monitor: hogs are not detected and there are no spares.  WEFT_MONITOR=0 does the
     * same.  While one task computes and all other workers are parked, readiness of descriptors may
     * be delivered only at that task's next call of Weft. */
    bool no_monitor;
    /* Called once for each spawn site of a hog, on the monitor's thread; must not wait.  NULL:
     * hogs are not reported. */
    void (*on_hog)(void *context, const weft_hog *hog);

    uint32_t blocking_max;    /* threads for weft_blocking_call; 0: $WEFT_BLOCKING_MAX, else 512 */
    int64_t blocking_idle_ns; /* idle time after which such a thread ends; 0: 10 s */
} weft_runtime_options;

/*
 * Opens a runtime, runs fn(arg) as its first task, waits for the end of that task, and closes the
 * runtime.  The close cancels every task that is still alive and waits for it without a time limit:
 * a task that ignores -ECANCELED keeps weft_run from returning, and is named on stderr after two
 * seconds.  Blocks the calling thread.
 *
 * Returns the result of fn, or
 * -EINVAL           invalid options or environment, named in a line on stderr
 * -ENOMEM, -EAGAIN  no memory, or the system starts no more threads
 * -EDEADLK          all tasks waited for each other
 * -EPERM            called from inside a task, or in a child process after fork
 */
WEFT_API intptr_t weft_run(weft_fn fn, void *arg, const weft_runtime_options *options)
    WEFT_NONNULL(1);

/*
 * Opens a runtime and starts its workers.  *out belongs to the caller until weft_runtime_close.
 *
 * -EINVAL           invalid options or environment: see weft_runtime_options_check
 * -ENOMEM, -EAGAIN  no memory, or the system starts no more threads
 * -EPERM            called in a child process after fork
 *
 * Fork: a process with a runtime may call fork, also from a task; weft_child_spawn is the better
 * way.  The child has no workers.  The calling task becomes a plain thread there, which should call
 * exec or _exit.  In the child, calls that would start tasks, wait for tasks, or open or close a
 * runtime return -EPERM; any other call that waits for another task waits for ever; returning from
 * the task's function ends the child with a message.  Descriptors are shared with the parent, as
 * after any fork.
 */
WEFT_API int weft_runtime_open(weft_runtime **out, const weft_runtime_options *options)
    WEFT_NONNULL(1);

/*
 * Cancels every task, waits for them up to timeout_ns (negative: no limit), and frees the runtime.
 * Blocks the calling thread.  After the timeout it forces the close: a suspended task is not
 * resumed, its stack is freed, its handles complete with -ECANCELED and its cleanups do not run.  A
 * function that is running at that moment cannot be stopped; the close waits for it.  Handles of
 * tasks stay valid until they are dropped.
 *
 * During the close other threads may use handles.  A spawn that races with the close succeeds or
 * returns -ESHUTDOWN.  No spawn may begin after the close has returned.  All other calls that take
 * the runtime (to stop its world, to inspect or to trace it) must have returned before the close
 * begins.
 *
 * 0            every task ended
 * -ETIMEDOUT   some tasks were forced
 * -EDEADLK     called from a task or a hook of this runtime: the close would wait for its own
 *              caller
 * -EPERM       called in a child process after fork
 */
WEFT_API int weft_runtime_close(weft_runtime *runtime, int64_t timeout_ns) WEFT_NONNULL(1);

/* Spawns a task, as weft_spawn does, into `runtime`, from any thread or task.  May wait for
 * admission if the runtime has `spawn_waits`.  Errors: those of weft_spawn; -ESHUTDOWN: the runtime
 * is closing. */
WEFT_API int weft_runtime_spawn(weft_runtime *runtime, weft_task **out, weft_fn fn, void *arg,
                                const weft_task_options *options) WEFT_NONNULL(1, 3);

/* Returns the runtime of the calling task; NULL outside a task.  Borrowed. */
WEFT_API weft_runtime *weft_runtime_self(void);

/* Returns the configured number of workers, without spares. */
WEFT_API unsigned weft_runtime_workers(const weft_runtime *runtime) WEFT_NONNULL(1);

/* Checks the options and the current environment as weft_runtime_open would.  Returns 0, or -EINVAL
 * with a sentence in `text` that names the option or the variable.  `text` may be NULL. */
WEFT_API int weft_runtime_options_check(const weft_runtime_options *options, char *text,
                                        size_t text_size);

/*
 * Stops every worker at its next scheduling point and returns when all of them stand still; a
 * parked worker already does.  Until weft_world_start no task except the caller runs.  Calls of
 * one caller nest; another caller waits until the world was started again.  A calling task is
 * suspended while it waits for that; a non-worker thread is blocked.
 *
 * The caller must not wait, yield or end before it has started the world: if a task of this runtime
 * does, the process ends with a message.  Two runtimes must not stop each other's worlds: a task
 * that waits until another runtime stands still keeps its own worker, which therefore does not
 * stand still itself.
 *
 * 0; -EPERM: called in a child process after fork.
 */
WEFT_API int weft_world_stop(weft_runtime *runtime) WEFT_NONNULL(1);
/* Undoes one weft_world_stop of the same task or thread; the last one lets the workers run.
 * -EPERM: the caller did not stop it. */
WEFT_API int weft_world_start(weft_runtime *runtime) WEFT_NONNULL(1);

WEFT_END

#endif
