/* SPDX-License-Identifier: MIT */
/*
 * weft/task.h - tasks: functions that run concurrently, by the million, on a few threads.
 *
 *     weft_task *t = weft_go(work, arg);     starts it now
 *     intptr_t result = weft_await(t);       waits for its end
 *
 * Handles:  a handle is a counted reference; weft_await and weft_drop take it back.
 * Waiting:  a call that "waits" suspends the calling task and never its worker's thread; called
 *           from a thread that is no worker it blocks that thread.
 * Cancel:   a call that waits gives -ECANCELED once the calling task was cancelled, and -ETIMEDOUT
 *           once its deadline has passed; each time anew, until the task ends or stands behind a
 *           shield.  Both end a wait that has begun.  A call that need not wait mostly succeeds all
 *           the same: a loop whose calls may never wait calls weft_check.
 * Blocking: a system call that waits, or a long computation, keeps the worker's thread; other
 *           workers go on, and after 10 ms a spare one stands in for it.  weft_check in a long loop
 *           lets others run; weft_blocking calls a function on a thread of its own.
 * Stacks:   64 KiB are usable unless the options say otherwise (16 KiB .. 64 MiB, rounded up to a
 *           power of two); who needs more is reported and the process ends.  Compile with
 *           -fstack-clash-protection, as weft's pkg-config and CMake files say: else a frame of
 *           more than a page can jump over the guard.
 * C++:      an exception must not leave a task's function, and weft_fail runs no destructors. Which
 *           exceptions are being handled is known by thread, not by task: inside of a catch block
 *           there must be no call that waits or yields.  Keep what you need, and wait after it.
 * Threads:  a task may go on in another thread after every call that waits or yields.  Addresses
 *           of thread-local variables, and errno, must not be kept across such calls, nor may a
 *           lock of pthreads be held.
 */
#ifndef WEFT_TASK_H
#define WEFT_TASK_H

#include <weft/types.h>

WEFT_BEGIN

enum weft_priority {
    WEFT_PRIORITY_NORMAL,
    WEFT_PRIORITY_HIGH, /* before the others, yet every 8th turn is theirs */
    WEFT_PRIORITY_LOW,  /* after the others, yet one in a few dozen turns is theirs */
};

typedef struct weft_task_options {
    uint32_t size; /* sizeof(weft_task_options), or 0 */
    enum weft_priority priority;
    const char *name;      /* copied, cut to 31 characters; NULL: none */
    size_t stack_size;     /* usable bytes; 0: the runtime's */
    size_t arg_copy;       /* so many bytes at `arg` are copied, and the task gets the copy */
    bool is_pinned;        /* always on one thread, and no other worker takes it */
    bool is_detached;      /* no handle is given, as with `out` NULL */
    bool keeps_fp_control; /* has a rounding mode of its own, also across waits */
} weft_task_options;

/* Starts fn(arg); the handle, or NULL when out of memory, or over a limit of the runtime, or not
 * inside a task.  A handle is awaited or dropped: one that is forgotten keeps the task's memory,
 * and its failure from being told.  Without a handle: weft_spawn(NULL, fn, arg, NULL). */
WEFT_API weft_task *weft_go(weft_fn fn, void *arg) __attribute__((warn_unused_result));

/* The same with options.  `out` NULL: detached.  -EINVAL: no function, a stack size out of range,
 * an arg_copy without arg, options of an unknown size; -ENOMEM; -EAGAIN: a limit of the runtime;
 * -ESHUTDOWN: it is closing; -EPERM: not inside a task (use weft_runtime_spawn). */
WEFT_API int weft_spawn(weft_task **out, weft_fn fn, void *arg, const weft_task_options *options);

/* Waits for the task's end, gives its result and takes the handle back.  If the caller is cancelled
 * or out of time: -ECANCELED or -ETIMEDOUT, the handle is gone too, and the task goes on.  NULL:
 * -ENOMEM, or outside of tasks, where weft_go gives nothing else, -EPERM; so that
 * weft_await(weft_go(...)) is complete.  Awaiting oneself: -EDEADLK, and the handle stays.  The
 * message of a weft_fail goes with the handle; who wants it calls weft_join and weft_task_message.
 */
WEFT_API intptr_t weft_await(weft_task *task);

/* Waits for the task's end and keeps the handle; several may join.  0 and the result in *result
 * (which may be NULL); -ECANCELED, -ETIMEDOUT: the caller's; -EDEADLK: oneself. */
WEFT_API int weft_join(weft_task *task, intptr_t *result);

/* 0 and the result if the task has ended; -EAGAIN: it has not.  Never waits. */
WEFT_API int weft_try_join(weft_task *task, intptr_t *result);

/* Waits for all; results[i], if `results` is given, is that of tasks[i].  Takes all handles back;
 * NULL among them counts as a task that failed with -ENOMEM. The first error of a task in order of
 * the array, else 0; -ECANCELED, -ETIMEDOUT: the caller's, and the tasks go on. */
WEFT_API int weft_await_all(weft_task **tasks, size_t count, intptr_t *results);

/* Waits for the first to end, cancels the others and waits for them too; takes all handles back.
 * The index of the first, with its result in *result; -EINVAL: count 0, or no task; -ENOMEM: only
 * for more than 8, and as with -EINVAL the handles stay; else as above. */
WEFT_API int weft_race(weft_task **tasks, size_t count, intptr_t *result);

/* One more handle of the same task, to be dropped or awaited on its own; the argument. */
WEFT_API weft_task *weft_task_ref(weft_task *task);

/* Takes the handle back; the task goes on.  NULL is allowed. */
WEFT_API void weft_drop(weft_task *task);

/* Asks the task to end: from now on its waits give -ECANCELED.  0, also when it has ended; -EINVAL:
 * NULL. */
WEFT_API int weft_cancel(weft_task *task);

/* 0, or -ECANCELED, or -ETIMEDOUT: what a wait would say.  Lets others run if the task has had its
 * share: for loops that compute.  Outside of a task: 0. */
WEFT_API int weft_check(void);

/* on != 0: one shield more, behind which cancelling and deadlines have no effect; 0: one less.
 * Nests up to 255.  -EOVERFLOW; -EINVAL: there is none; -EPERM: not inside a task. */
WEFT_API int weft_shield(int on);

/* Lets others run.  0; -ECANCELED or -ETIMEDOUT after it did so.  Outside of a task: sched_yield.
 */
WEFT_API int weft_yield(void);

/* Sets the point in time after which waits give -ETIMEDOUT (WEFT_NEVER: none); gives the old one.
 * A later one than the old one lifts that, too: who has a limit of its own inside of its caller's
 * wants weft_deadline_sooner.  Of the calling task alone: one that it starts has none, but for
 * those of a scope, which have that of the scope, and the pieces of weft_for and its like.  Outside
 * of tasks it does nothing, and gives WEFT_NEVER. */
WEFT_API weft_time weft_deadline(weft_time deadline);
/* The same, unless the old one comes before it. */
WEFT_API weft_time weft_deadline_sooner(weft_time deadline);

/* The calling task; NULL outside.  Borrowed: no handle is given. */
WEFT_API weft_task *weft_self(void);

/* Unique in the process, never 0.  Workers take ids in blocks, so they do not count tasks. */
WEFT_API uint64_t weft_task_id(const weft_task *task);

/* on != 0: the task stays on its present thread until as many calls with 0.  -EINVAL: it is not
 * pinned; -EOVERFLOW: 65535 times already; -EPERM: not inside a task. */
WEFT_API int weft_pin(int on);

/* ---- failing --------------------------------------------------------------------------------- */

/* Runs when the task is ended by weft_fail before it was taken off.  It lies in the caller's frame,
 * so it must be taken off before that is left: a task that returns with one is stopped by a check.
 */
typedef struct weft_cleanup {
    void (*fn)(void *arg);
    void *arg;
    struct weft_cleanup *next; /* private */
} weft_cleanup;

/* Puts a cleanup on the task's list.  Only inside a task. */
WEFT_API void weft_cleanup_push(weft_cleanup *cleanup, void (*fn)(void *arg), void *arg);
/* Takes the newest one off; runs it if `run` is not 0. */
WEFT_API void weft_cleanup_pop(weft_cleanup *cleanup, int run);

/* Ends the calling task from any depth with the result `error` (a negative errno) and a message,
 * after its cleanups, newest first; if one of these fails in turn, its error and message count.
 * Only inside a task. */
WEFT_API void weft_fail(int error, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

/* The message of weft_fail of a task that has ended, "" for none; the bytes it needs without the
 * end.  -EAGAIN: it has not ended. */
WEFT_API int weft_task_message(const weft_task *task, char *text, size_t text_size);

/* ---- task-local storage ---------------------------------------------------------------------- */

typedef uint32_t weft_key;

/* A key for the whole process; `destroy`, if not NULL, gets each task's value at its end unless
 * that is NULL.  -EAGAIN: there are 64 already. */
WEFT_API int weft_key_new(weft_key *out, void (*destroy)(void *value));

/* Where the calling task keeps its value, NULL at first.  NULL: out of memory, no such key, or not
 * inside a task. */
WEFT_API void **weft_local(weft_key key);

/* ---- looking at tasks ------------------------------------------------------------------------ */

enum weft_state {
    WEFT_CREATED,  /* has not run yet */
    WEFT_RUNNABLE, /* may run, as soon as a worker has time */
    WEFT_RUNNING,
    WEFT_BLOCKED, /* waits: see weft_info.wait */
    WEFT_COMPLETED,
    WEFT_FAILED,    /* ended with a result < 0 */
    WEFT_CANCELLED, /* ended with -ECANCELED after it was asked to */
};

/* What a task waits for. */
enum weft_wait {
    WEFT_WAIT_NOTHING,
    WEFT_WAIT_TASK,        /* the end of a task, `wait_object` */
    WEFT_WAIT_TASKS,       /* the end of any of several: weft_race */
    WEFT_WAIT_OUTER_TASK,  /* the end of a task of another runtime */
    WEFT_WAIT_OUTER_TASKS, /* any of several, some of them of another runtime */
    WEFT_WAIT_SCOPE,       /* the end of all tasks of a scope */
    WEFT_WAIT_ROOM,        /* room for a spawn */
    WEFT_WAIT_WORLD,       /* its turn to stop the world */
    WEFT_WAIT_TIME,        /* a point in time */
    WEFT_WAIT_WAKER,       /* a poll task: that somebody wakes it */
    WEFT_WAIT_BLOCKING,    /* a function on a thread of its own: weft_blocking */
    WEFT_WAIT_MUTEX,       /* a mutex, `wait_object`; the same holds for what follows */
    WEFT_WAIT_RWLOCK,
    WEFT_WAIT_SEMAPHORE,
    WEFT_WAIT_CONDITION,
    WEFT_WAIT_BARRIER,
    WEFT_WAIT_ONCE,
    WEFT_WAIT_NOTIFY,
    WEFT_WAIT_GROUP,
    WEFT_WAIT_SEND,     /* room in a channel */
    WEFT_WAIT_RECEIVE,  /* an item of a channel, of whatever kind */
    WEFT_WAIT_SELECT,   /* the first of several; no object */
    WEFT_WAIT_READABLE, /* a descriptor, whose number `wait_object` is */
    WEFT_WAIT_WRITABLE,
    WEFT_WAIT_OUTER_SELECT, /* the first of several, some of which come from outside; no object */
    WEFT_WAIT_KINDS
};

#define WEFT_NAME_SIZE 32

typedef struct weft_info {
    uint64_t id;
    uint64_t parent_id; /* the task that spawned it; 0: a thread did */
    char name[WEFT_NAME_SIZE];
    enum weft_state state;
    enum weft_wait wait; /* if blocked */
    const void *wait_object;
    uint64_t wait_task_id; /* if it waits for one task */
    weft_time
        wait_since;    /* as of the worker's last look at the clock, about a millisecond before */
    weft_time created; /* as of the last look at the clock by the worker that spawned it */
    weft_time deadline;
    weft_fn fn;
    const void *site; /* the address after the call that spawned it */
    intptr_t result;  /* if it has ended */
    enum weft_priority priority;
    uint32_t shields;
    uint64_t runs;     /* how often it was resumed */
    size_t stack_size; /* 0: it has no stack at the moment */
    bool has_run;
    bool is_cancelled; /* asked to end */
    bool is_pinned;
    bool is_detached;
} weft_info;

/* A snapshot.  -EINVAL: NULL. */
WEFT_API int weft_task_info(const weft_task *task, weft_info *out);

/* The vocabularies of the five designs that Weft unites, S0 to S4 in docs/promises.md. */
enum weft_style {
    WEFT_STYLE_WEFT,    /* created ready running blocked completed failed cancelled */
    WEFT_STYLE_STEAL,   /* S0: Ready Running Blocked Complete */
    WEFT_STYLE_REACTOR, /* S1: Ready Running Suspended Resumed Completed Failed */
    WEFT_STYLE_PLAN,    /* S2: Created Running Suspended Resumed Completed Failed */
    WEFT_STYLE_PROCESS, /* S3: Ready Running Blocked Idle Complete */
    WEFT_STYLE_POLL,    /* S4: IDLE SCHEDULED RUNNING COMPLETE */
};

/* The state in the words of a design; never NULL. */
WEFT_API const char *weft_state_name(const weft_info *info, enum weft_style style);
/* What it waits for, as a word. */
WEFT_API const char *weft_wait_name(enum weft_wait wait);

WEFT_END

#endif
