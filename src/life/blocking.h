/* SPDX-License-Identifier: MIT */
/*
 * life/blocking.h - the pool of threads for blocking functions: see blocking.c.
 */
#ifndef WF_LIFE_BLOCKING_H
#define WF_LIFE_BLOCKING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/base.h"
#include "os/os.h"
#include "queue/queue.h"

struct weft_task;

enum wf_job_state {
    WF_JOB_REQUESTED, /* new; in the reactor policy on its way through the control thread */
    WF_JOB_QUEUED,    /* in the list of the pool: waits for a thread */
    WF_JOB_RUNNING,   /* assigned to a thread, which may still be starting */
    WF_JOB_DONE,      /* the result is stored; only the task that waits has a pointer to the job */
};

/* A call of a blocking function.  It is in the frame of the task that waits; or, for a future, on
 * the heap: owned by the future, and after the future was dropped (is_left) by the thread that runs
 * or carries the job. */
struct wf_job {
    struct wf_node node;        /* reactor policy: in a queue of the control thread */
    struct wf_list link;        /* [lock]  while QUEUED */
    weft_fn fn;                 /* [const] */
    void *arg;                  /* [const] */
    void (*release)(void *arg); /* [const]  of a future: frees arg; or NULL */
    struct weft_task *task;     /* [const]  that waits; it may have ended if is_left */
    uint64_t task_id;           /* [const]  for traces */
    intptr_t result;            /* [the thread that runs it: write]  valid when DONE */
    enum wf_job_state state;    /* [lock] */
    int unwanted;               /* [lock]  why the job must not begin any more: an error; or 0 */
    bool is_left;               /* [lock]  its future was dropped: no task waits for it */
};

/* The pool of a runtime. */
struct wf_blocking {
    struct wf_lock lock;
    weft_runtime *runtime; /* [const] */
    struct wf_list jobs;   /* [lock]  QUEUED, oldest first */
    struct wf_list idle;   /* [lock]  threads without a job, newest first */
    bool is_closing;       /* [lock]  no more jobs begin */
    bool has_left;         /* [lock]  `left` is set */
    pthread_t left;        /* [lock]  the thread that ended last: the next one to end joins it */
    struct wf_parker closer;

    /* [lock: write] [any: read] */
    wf_atomic_u32 threads;       /* that run or are being started */
    wf_atomic_u32 started;       /* that run */
    wf_atomic_u32 resting;       /* in `idle` */
    wf_atomic_u32 waiting;       /* jobs in `jobs` */
    WF_ATOMIC(uint64_t) done;    /* jobs that ran */
    WF_ATOMIC(uint64_t) refused; /* threads that could not be started */
};

/* [opener]  No threads, no jobs. */
void wf_blocking_init(struct wf_blocking *pool, weft_runtime *runtime);
/* [closer]  From now on no job begins.  The tasks of queued jobs are not woken: the forced close is
 * about to abandon these tasks. */
void wf_blocking_shut(struct wf_blocking *pool);
/* [closer]  After the workers have left: waits for the jobs that have begun, and joins the threads.
 */
void wf_blocking_stop(struct wf_blocking *pool);

/* [any]  Assigns the job to a thread, or queues it; after wf_blocking_shut it stays queued for
 * ever. -EAGAIN, -ENOMEM: there is no thread, and none could be started; else the value of
 * `unwanted`.  On error the job does not run. */
int wf_blocking_submit(struct wf_blocking *pool, struct wf_job *job);
/* [control thread]  Steps 2 and 3 of its loop: submits a job; wakes the task of a job that has run.
 */
void wf_blocking_begin(struct wf_blocking *pool, struct wf_job *job);
void wf_blocking_end(struct wf_blocking *pool, struct wf_job *job);

/* [the task]  Submits a job of the task, in the reactor policy through the control thread.  Errors
 * as wf_blocking_submit. */
int wf_blocking_request(struct wf_blocking *pool, struct wf_job *job);
/* [the task]  Called after each wake-up.  True: the job is DONE, and its result is valid.  False:
 * the task must continue to wait.  If `interrupted` is not 0, a QUEUED job is removed from the
 * queue, its result is `interrupted`, and true is returned; a job that runs is not interrupted. */
bool wf_blocking_is_over(struct wf_blocking *pool, struct wf_job *job, int interrupted);
/* [the task, closer]  The future of the job is dropped.  A job that has not begun never begins; a
 * job that runs is freed by the thread that runs it. */
void wf_blocking_leave(struct wf_blocking *pool, struct wf_job *job);
/* [closer]  The control thread has ended and will not carry this job any further. */
void wf_blocking_abandon(struct wf_blocking *pool, struct wf_job *job);

/* [any]  The number of pool threads without a job.  All of them exist for the kernel too: a thread
 * that is being started is not included. */
unsigned wf_blocking_idle_threads(const struct wf_blocking *pool);

#endif
