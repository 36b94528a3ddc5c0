/* SPDX-License-Identifier: MIT */
/*
 * task/task.h - what a task is: its header, which the scheduler and all layers above it share.
 *
 * Promises:      One state word decides which thread may run, wake, join and free a task (state.h).
 *                The memory of a task belongs to a pool and is only ever used for tasks (pool.h),
 *                so a wake-up that comes after the task has ended is a spurious wake of another
 *                task, and does no other harm.  If a task never runs again, the closer undoes what
 *                the task has registered (abandon.h).
 * Must not know: workers, queues, which task runs next, how a task begins, waits or ends.
 *
 * Tags:  [the task] the task itself;  [spawner] the thread that makes it;  [owner] the worker that
 *        runs it;  [joiner] a task or thread that joins it;  [any] any thread;  [closer] the thread
 *        that closes the runtime.
 *        Fields: [const] set before publication; [the task: write] [any: read]; [lock].
 *
 * Edges, with the functions named without their wf_ prefix.  "One sees the other": the thread whose
 * fence comes second sees what the other thread stored before its fence.
 *
 *   edge      from (file function: operation)    to                           carries
 *   task.T1   state.c wake: CAS                  park: CAS                    what the waker did
 *   task.T2   state.c park: CAS                  wake: CAS                    the suspended task
 *   task.T3   state.c complete: CAS; unref: sub  unref: sub; word: loads      result, earlier uses
 *   task.T4   state.c join: add                  complete: load, CAS          the joiner
 *   task.T5   state.h init: store                state.c try_ref: CAS         the old id is gone
 *   task.N1   pool.c pin: fence                  rundown: fence               one sees the other
 *   task.N2   pool.c unpin: sub                  rundown: load                uses of the runtime
 */
#ifndef WF_TASK_TASK_H
#define WF_TASK_TASK_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/base.h"
#include "fiber/fiber.h"
#include "os/os.h"
#include "task/state.h"
#include "time/time.h"

struct wf_abandon_hook;
struct wf_task_pool;
struct wf_joiner;
struct wf_owned_lock;
struct wf_scope;

/* Extras: what few tasks have.  Allocated when first needed, and kept with the memory of the task.
 */
struct wf_task_extra {
    WF_ATOMIC(uint64_t)
    name[WEFT_TASK_NAME_SIZE / sizeof(uint64_t)]; /* [spawner: write] [any: read] */
    void *arg_copy;                               /* [owner]  NULL: none */
    void **locals;                                /* [the task]  NULL: none yet */
    char *message;                                /* [the task]  of weft_fail; NULL: none */
    struct weft_par_forks *forks_memory; /* [the task]  memory for its forks; NULL: none yet */
    WF_ATOMIC(struct weft_par_forks *)
    forks; /* [the task: write] [any: read]  that memory while the
                                           * task has a split deque; NULL: it has none */
};

/* [the task]  A timer that wakes its task.  `timer.place` is 1 plus the index of the worker on
 * which the timer is set; 0: it is not set.  sched/timers.c sets it. */
struct wf_task_timer {
    struct wf_timer timer;  /* [lock of the timers] */
    struct weft_task *task; /* [const while it is set] */
};

/* [spawner: write] [any: read]  Where a task comes from. */
struct wf_task_origin {
    WF_ATOMIC(uint64_t) parent_id;
    WF_ATOMIC(uintptr_t) site;
    WF_ATOMIC(int64_t) created_ns;
};

/* [the task: write] [any: read]  What a task waits for; `wait` of the task is the kind. */
struct wf_wait_record {
    WF_ATOMIC(uintptr_t) object;
    WF_ATOMIC(int64_t) since_ns;
    WF_ATOMIC(uint64_t) task_id; /* 0: not for one task */
};

struct weft_task {
    /* One cache line: every switch touches it. */
    struct wf_node node;         /* in at most one queue */
    struct wf_state state;       /* [any] */
    struct wf_fiber *fiber;      /* [owner]  NULL: not run yet, ended, or a poll task */
    struct wf_task_pool *pool;   /* [const]  as long as the memory lives */
    uint8_t budget;              /* [the task]  operations until it must yield */
    bool is_timed;               /* [the task]  its timer is set for a wait */
    WF_ATOMIC(uint16_t) pins;    /* [the task: write] [any: read]  see weft_pin_begin */
    WF_ATOMIC(uint8_t) wait;     /* [the task: write] [any: read]  enum weft_wait */
    bool is_bare;                /* [the task]  no extras, options, hooks: see wf_task_reset */
    bool needs_slow_queue;       /* [the task]  pinned, or of high or low priority */
    uint8_t body;                /* [const]  enum wf_body */
    WF_ATOMIC(uint64_t) runs;    /* [owner: write] [any: read] */
    WF_ATOMIC(int64_t) deadline; /* [the task: write] [any: read] */

    /* Touched when the task begins and when it ends. */
    WF_ATOMIC(weft_fn) fn; /* [spawner: write] [any: read] */
    union {
        void *arg;                    /* [const] */
        struct weft_task *next_batch; /* [lock of pool.c]  free memory: the next batch */
    };
    union {
        intptr_t result; /* [the task: write, just before COMPLETE] [joiner: read] */
        struct wf_owned_lock *owned_locks; /* [the task]  until then; newest first, or NULL */
        unsigned batch_count;              /* [lock of pool.c]  free memory: tasks in the batch */
    };

    WF_ATOMIC(uint64_t) id; /* [spawner: write] [any: read]  0: this memory is free */
    struct wf_task_origin origin;
    WF_ATOMIC(uint8_t) priority;    /* [spawner: write] [any: read]  enum weft_priority */
    WF_ATOMIC(uint8_t) marks;       /* [the task, joiner: or] [any: read]  enum wf_task_flag; in the
                                     * upper four bits the error of weft_go */
    uint16_t home;                  /* [the task]  the worker to which it is pinned */
    WF_ATOMIC(uint32_t) stack_size; /* [spawner: write] [any: read]  KiB; 0: the default */

    /* Touched only by tasks that wait or are not bare: most tasks touch no more than two lines. */
    struct wf_wait_record wait_record;

    struct wf_abandon_hook *abandon_hooks;   /* [the task]  newest first; NULL: none */
    struct wf_joiner *joiners;               /* [lock of join.c]  see wf_state_share */
    struct wf_scope *scope;                  /* [const]  to which it belongs; NULL: none, or left */
    struct wf_scope *open_scopes;            /* [the task]  innermost first */
    WF_ATOMIC(struct wf_task_extra *) extra; /* [spawner, the task: write] [any: read]  or NULL */

    union {
        struct {                             /* of a green thread */
            struct wf_task_timer task_timer; /* [the task]  ends its wait at a deadline */
            struct wf_list scope_link;       /* [lock of the scope] */
            weft_cleanup *cleanups;          /* [the task]  newest first */
        };
        unsigned char state_bytes[WEFT_POLL_STATE_INLINE]; /* [the task]  of a poll task */
    };
};

/* The kind of a task.  Only the loop begins a task that is not WF_BODY_GREEN. */
enum wf_body {
    WF_BODY_GREEN,    /* a green thread */
    WF_BODY_GREEN_FP, /* a green thread with floating-point control words of its own */
    WF_BODY_POLL,     /* a poll task, on the worker's own stack */
};

#ifndef WF_MODEL
_Static_assert(offsetof(struct weft_task, fn) == WF_CACHE_LINE, "a switch needs one line of it");
_Static_assert(sizeof(struct weft_task) % WF_CACHE_LINE == 0, "the line is its own");
_Static_assert(offsetof(struct weft_task, wait_record) == 2 * WF_CACHE_LINE, "a short life two");
_Static_assert(WF_TASK_BUDGET <= UINT8_MAX, "the budget is a byte");
#endif

/* Flags of a task that are set once. */
enum wf_task_flag {
    WF_TASK_OBSERVED = 1,  /* a caller saw the result */
    WF_TASK_DETACHED = 2,  /* it never had a handle */
    WF_TASK_CANCELLED = 4, /* it ended because it was cancelled */
    WF_TASK_FAILED = 8,    /* it ended by weft_fail */
};

/* [any, with a reference] */
static inline uint64_t wf_task_id(const struct weft_task *task)
{
    return wf_load_relaxed(&task->id); /* relaxed: constant while there is a reference */
}

/* [any]  For checks: false if the task was freed and its memory has no new task. */
static inline bool wf_is_live_handle(const struct weft_task *task)
{
    return wf_load_relaxed(&task->id) != 0; /* relaxed: constant while there is a reference */
}

/* A task, or a non-worker thread, that waits.  On the stack of the wait. */
struct wf_waiter {
    struct weft_task *task; /* NULL: the thread */
    struct wf_parker parker;
};

/* [any]  The task that is linked by this node; NULL: there is no node. */
static inline struct weft_task *wf_task_of(struct wf_node *node)
{
    return node != NULL ? wf_container_of(node, struct weft_task, node) : NULL;
}

#endif
