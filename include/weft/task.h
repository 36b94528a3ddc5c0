/* SPDX-License-Identifier: MIT */
/*
 * weft/task.h - tasks: functions that run concurrently, by the million, on a few threads.
 *
 *     weft_task *t = weft_go(work, arg);     starts it now
 *     intptr_t result = weft_await(t);       waits for its end
 *
 * Handles:  a handle is a counted reference.  weft_await and weft_task_unref consume it.
 * Waiting:  a call that "waits" suspends the calling task, never its worker's thread.  On a
 *           non-worker thread it blocks that thread.
 * Cancel:   a call that waits returns -ECANCELED once the calling task was cancelled, and
 *           -ETIMEDOUT once its deadline has passed.  Every such call does, until the task ends or
 *           raises a shield.  A cancellation or a deadline also ends a wait that has begun.  A call
 *           that need not wait usually succeeds in spite of both: a loop whose calls may never wait
 *           should call weft_check.
 * Blocking: a blocking system call or a long computation keeps the worker's thread.  Other workers
 *           continue, and after 10 ms another thread, a spare, runs the worker's other tasks.
 *           weft_check in a long loop lets other tasks run; weft_blocking_call calls a function on
 *           a thread of the blocking pool.
 * Stacks:   64 KiB are usable unless the options say otherwise (16 KiB .. 64 MiB, rounded up to a
 *           power of two).  A stack overflow is reported and ends the process.  Compile with
 *           -fstack-clash-protection, which Weft's pkg-config and CMake files add: without it a
 *           frame of more than a page can jump over the guard.
 * C++:      an exception must not leave a task's function, and weft_fail runs no destructors.  The
 *           C++ runtime records the exceptions being handled per thread, not per task: a catch
 *           block must not contain a call that waits or yields.  Copy what is needed and wait after
 *           the block.
 * Threads:  a task may continue on another thread after every call that waits or yields.  Do not
 *           keep addresses of thread-local variables, errno included, across such a call, and do
 *           not hold a pthread lock across it.  A task or a blocking function that ends its thread,
 *           by pthread_exit or pthread_cancel, is reported and ends the process.
 */
#ifndef WEFT_TASK_H
#define WEFT_TASK_H

#include <weft/types.h>

WEFT_BEGIN

enum weft_priority {
    WEFT_PRIORITY_NORMAL,
    WEFT_PRIORITY_HIGH, /* before the others, except in every 8th tick */
    WEFT_PRIORITY_LOW,  /* after the others, except in every 64th tick */
};

typedef struct weft_task_options {
    uint32_t size; /* sizeof(weft_task_options), or 0 */
    enum weft_priority priority;
    const char *name;      /* copied, truncated to 31 characters; NULL: none */
    size_t stack_size;     /* usable bytes; 0: the runtime's default */
    size_t arg_copy;       /* copies this many bytes at `arg`; the task receives the copy */
    bool is_pinned;        /* always runs on the same thread; no other worker takes it */
    bool is_detached;      /* returns no handle, as with `out` NULL */
    bool keeps_fp_control; /* keeps its own floating-point rounding mode across waits */
} weft_task_options;

/* Starts fn(arg) as a new task.  Returns a handle, or NULL if there is no memory, a limit of the
 * runtime is reached, the runtime is closing, or the caller is not a task.  The caller must await
 * or drop the handle: a forgotten handle keeps the task's memory, and its failure is never
 * reported.  To start a task without a handle: weft_spawn(NULL, fn, arg, NULL). */
WEFT_API weft_task *weft_go(weft_fn fn, void *arg) WEFT_NONNULL(1)
    __attribute__((warn_unused_result));

/*
 * Starts fn(arg) as a new task with options.  *out receives a handle; with `out` NULL the task is
 * detached.  Waits only if the runtime has `spawn_waits` and a limit is reached.
 *
 * -EINVAL      a stack size or priority out of range, an arg_copy without arg, options of an
 *              unknown size
 * -ENOMEM      no memory
 * -EAGAIN      a limit of the runtime is reached
 * -ESHUTDOWN   the runtime is closing
 * -EPERM       the caller is not a task: use weft_runtime_spawn
 */
WEFT_API int weft_spawn(weft_task **out, weft_fn fn, void *arg, const weft_task_options *options)
    WEFT_NONNULL(2);

/*
 * Waits for the end of the task, consumes the handle and returns the task's result.
 *
 * -ECANCELED, -ETIMEDOUT   the caller was interrupted; the handle is consumed, the task continues
 * -EDEADLK                 the task is the caller, which keeps the handle
 * -EPERM                   in a child process after fork, if the task has not ended; the handle is
 *                          consumed
 *
 * NULL is allowed, so weft_await(weft_go(...)) needs no check in between.  For NULL a task gets the
 * error of its last weft_go that failed (-ENOMEM, -EAGAIN, -ESHUTDOWN), or -ENOMEM if none
 * has failed.  Outside of tasks, where weft_go always returns NULL, the result is -EPERM.
 *
 * The message of weft_fail is freed with the last handle; to read it use weft_join and
 * weft_task_message.
 */
WEFT_API intptr_t weft_await(weft_task *task);

/* Waits for the end of the task and keeps the handle; several tasks and threads may join one task.
 * Returns 0 and stores the task's result in *result, which may be NULL.  Errors: -ECANCELED,
 * -ETIMEDOUT: the caller was interrupted; -EDEADLK: the task is the caller. */
WEFT_API int weft_join(weft_task *task, intptr_t *result) WEFT_NONNULL(1);

/* Returns 0 and the result in *result (may be NULL) if the task has ended; -EAGAIN if it has not.
 * Never waits.  Keeps the handle. */
WEFT_API int weft_try_join(weft_task *task, intptr_t *result) WEFT_NONNULL(1);

/*
 * Waits for all tasks, consumes all handles and, if `results` is not NULL, stores the result of
 * tasks[i] in results[i].  A NULL handle counts as a task that failed with the
 * error of weft_await(NULL).
 *
 * Returns 0, or the error of the first failed task in array order; -ECANCELED, -ETIMEDOUT: the
 * caller was interrupted, the handles are consumed and the tasks continue; -EDEADLK: the caller is
 * one of the tasks; -EPERM: in a child process after fork.  With the last
 * two the caller keeps the handles.
 */
WEFT_API int weft_await_all(weft_task **tasks, size_t count, intptr_t *results);

/*
 * Waits until the first task ends, cancels the others and waits for them too, and consumes all
 * handles.  Returns the index of the first task and stores its result in *result, which may be
 * NULL.
 *
 * -ECANCELED, -ETIMEDOUT   the caller was interrupted; the handles are consumed and the tasks
 *                          continue
 * -EINVAL                  count is 0, or a handle is NULL
 * -EDEADLK                 the caller is one of the tasks
 * -ENOMEM                  only for more than 8 tasks
 * -EPERM                   in a child process after fork
 * With the last four the caller keeps the handles.
 */
WEFT_API int weft_await_first(weft_task **tasks, size_t count, intptr_t *result);

/* Adds a handle of the same task, to be dropped or awaited on its own.  Returns its argument, which
 * must not be NULL. */
WEFT_API weft_task *weft_task_ref(weft_task *task) WEFT_NONNULL(1);

/* Consumes the handle; the task continues.  NULL is allowed.  Never waits. */
WEFT_API void weft_task_unref(weft_task *task);

/* Cancels the task: its current wait and all later waits return -ECANCELED, except while the task
 * is shielded (weft_shield_begin).  Does not wait for the task.  Returns 0, also if the task has
 * ended. */
WEFT_API int weft_cancel(weft_task *task) WEFT_NONNULL(1);

/* Cancellation point for loops that compute.  Yields if the task has used up its budget or another
 * worker requested it.  Returns 0, or -ECANCELED or -ETIMEDOUT as a wait would.  Outside a task it
 * returns 0. */
WEFT_API int weft_check(void);

/* Increase and decrease the shield depth of the calling task.  While the depth is above 0,
 * cancellation and deadlines have no effect.  Return 0; -EOVERFLOW: the depth is 255 already;
 * -EINVAL: the depth is 0; -EPERM: not inside a task. */
WEFT_API int weft_shield_begin(void);
WEFT_API int weft_shield_end(void);

/* Lets other tasks run.  Returns 0, or -ECANCELED or -ETIMEDOUT after it has yielded.  Outside a
 * task it calls sched_yield. */
WEFT_API int weft_yield(void);

/* Sets the calling task's deadline, after which its waits return -ETIMEDOUT (WEFT_NEVER: none), and
 * returns the old one.  A later deadline replaces an earlier one; to only ever tighten it use
 * weft_deadline_tighten.  Deadlines are per task.  A new task has none, with two exceptions: a task
 * of a scope has the scope's, and a fork (weft/par_fork.h), also one of weft_par_for, has its
 * caller's. Outside a task it does nothing and returns WEFT_NEVER. */
WEFT_API weft_time weft_deadline_set(weft_time deadline);
/* Sets the calling task's deadline unless the present one is earlier; returns the old one.  Outside
 * a task it does nothing and returns WEFT_NEVER. */
WEFT_API weft_time weft_deadline_tighten(weft_time deadline);

/* Returns the calling task; NULL outside a task.  Borrowed: adds no handle. */
WEFT_API weft_task *weft_self(void);

/* Returns the task's id, which is unique in the process and never 0; 0 for NULL.  Workers reserve
 * ids in blocks, so ids do not count tasks. */
WEFT_API uint64_t weft_task_id(const weft_task *task);

/* weft_pin_begin pins the calling task to its present thread; weft_pin_end undoes one such call.
 * Return 0; -EOVERFLOW: the task is pinned 65535 times already; -EINVAL: the task is not pinned;
 * -EPERM: not inside a task. */
WEFT_API int weft_pin_begin(void);
WEFT_API int weft_pin_end(void);

/* ---- failing --------------------------------------------------------------------------------- */

/* A function to call if weft_fail ends the task.  The record lies in the caller's frame and must be
 * popped before that frame is left: a task that returns with a cleanup pushed ends the process with
 * a message. */
typedef struct weft_cleanup {
    void (*fn)(void *arg);
    void *arg;
    struct weft_cleanup *next; /* private */
} weft_cleanup;

/* Pushes a cleanup on the calling task's list.  Only inside a green thread: any other caller ends
 * the process with a message. */
WEFT_API void weft_cleanup_push(weft_cleanup *cleanup, void (*fn)(void *arg), void *arg)
    WEFT_NONNULL(1, 2);
/* Removes the newest cleanup, which `cleanup` must be; runs it if `run` is true.  Only inside a
 * green thread. */
WEFT_API void weft_cleanup_pop(weft_cleanup *cleanup, bool run) WEFT_NONNULL(1);

/* Ends the calling task from any call depth with the result `error` (a negative errno) and a
 * message.  Runs the task's cleanups first, newest first, behind a shield; they may wait.  If a
 * cleanup calls weft_fail, its error and message replace the first ones.  Does not return.  Only
 * inside a green thread: any other caller ends the process with a message. */
WEFT_API void weft_fail(int error, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

/* Copies the weft_fail message of a task that has ended to `text`, "" if there is none, truncated
 * to text_size bytes with the final '\0'.  Returns the length of the whole message without the
 * '\0'.  -EAGAIN: the task has not ended. */
WEFT_API int weft_task_message(const weft_task *task, char *text, size_t text_size) WEFT_NONNULL(1);

/* ---- task-local storage ---------------------------------------------------------------------- */

typedef uint32_t weft_key;

/* Creates a key for the whole process; keys are never freed.  At the end of each task `destroy`, if
 * not NULL, is called with the task's value unless that is NULL.  -EAGAIN: there are 64 keys
 * already. */
WEFT_API int weft_key_create(weft_key *out, void (*destroy)(void *value)) WEFT_NONNULL(1);

/* Returns the address of the calling task's value for the key; the value is NULL at first.  Returns
 * NULL if there is no memory, the key does not exist, or the caller is not a task. */
WEFT_API void **weft_key_slot(weft_key key);

/* ---- inspecting tasks ------------------------------------------------------------------------ */

enum weft_task_state {
    WEFT_TASK_CREATED, /* has not run yet */
    WEFT_TASK_READY,   /* is queued, or about to be */
    WEFT_TASK_RUNNING,
    WEFT_TASK_BLOCKED, /* waits: see weft_task_info.wait */
    WEFT_TASK_COMPLETED,
    WEFT_TASK_FAILED,    /* ended with a result < 0 */
    WEFT_TASK_CANCELLED, /* ended with -ECANCELED after it was cancelled */
};

/* What a task waits for. */
enum weft_wait {
    WEFT_WAIT_NOTHING,
    WEFT_WAIT_TASK,           /* the end of a task, `wait_object` */
    WEFT_WAIT_TASKS,          /* the end of the first of several tasks: weft_await_first */
    WEFT_WAIT_EXTERNAL_TASK,  /* the end of a task of another runtime */
    WEFT_WAIT_EXTERNAL_TASKS, /* the first of several tasks, some of them of another runtime */
    WEFT_WAIT_SCOPE,          /* the end of all tasks of a scope */
    WEFT_WAIT_ADMISSION,      /* admission of a spawn: a limit of the runtime is reached */
    WEFT_WAIT_WORLD,          /* another caller to start the world again */
    WEFT_WAIT_TIME,           /* a point in time */
    WEFT_WAIT_WAKER,          /* a wake-up of this poll task */
    WEFT_WAIT_BLOCKING,       /* a function on a thread of the blocking pool: weft_blocking_call */
    WEFT_WAIT_MUTEX,          /* a mutex, `wait_object`; likewise for the kinds below */
    WEFT_WAIT_RWLOCK,
    WEFT_WAIT_SEMAPHORE,
    WEFT_WAIT_CONDITION,
    WEFT_WAIT_BARRIER,
    WEFT_WAIT_ONCE,
    WEFT_WAIT_NOTIFY,
    WEFT_WAIT_GROUP,
    WEFT_WAIT_SEND,     /* free space in a channel, or a receiver */
    WEFT_WAIT_RECEIVE,  /* an item of a channel of any kind */
    WEFT_WAIT_SELECT,   /* the first of several cases; no object */
    WEFT_WAIT_READABLE, /* a descriptor; `wait_object` is its number */
    WEFT_WAIT_WRITABLE,
    WEFT_WAIT_EXTERNAL_SELECT, /* the first of several cases, some of them external; no object */
    WEFT_WAIT_KINDS
};

#define WEFT_TASK_NAME_SIZE 32

typedef struct weft_task_info {
    uint64_t id;
    uint64_t parent_id; /* the task that spawned it; 0: a thread did */
    char name[WEFT_TASK_NAME_SIZE];
    enum weft_task_state state;
    enum weft_wait wait; /* if blocked */
    const void *wait_object;
    uint64_t wait_task_id; /* if it waits for one task */
    weft_time wait_since;  /* by the worker's cached clock, which may be about a millisecond old */
    weft_time created;     /* by the cached clock of the worker that spawned it */
    weft_time deadline;
    weft_fn fn;
    const void *site; /* the address after the call that spawned it */
    intptr_t result;  /* if it has ended */
    enum weft_priority priority;
    uint32_t shields;
    uint64_t runs;     /* how often it was resumed */
    size_t stack_size; /* 0: it has no stack at present */
    bool has_run;
    bool is_cancelled; /* weft_cancel was called */
    bool is_pinned;
    bool is_detached;
} weft_task_info;

/* Fills *out with a snapshot of the task.  Never waits. */
WEFT_API int weft_task_get_info(const weft_task *task, weft_task_info *out) WEFT_NONNULL(1, 2);

/* Returns the name of the state, such as "blocked"; never NULL. */
WEFT_API const char *weft_task_state_name(enum weft_task_state state);
/* Returns a word for what a task waits for; never NULL. */
WEFT_API const char *weft_wait_name(enum weft_wait wait);

WEFT_END

#endif
