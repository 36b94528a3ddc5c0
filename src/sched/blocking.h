/* SPDX-License-Identifier: MIT */
/*
 * sched/blocking.h - threads for functions that block: a part of sched.h, see blocking.c.
 */
#ifndef WF_SCHED_BLOCKING_H
#define WF_SCHED_BLOCKING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/base.h"
#include "os/os.h"
#include "queue/queue.h"

struct weft_task;
struct wf_reactor;

enum wf_job_state {
    WF_JOB_ASKED,   /* reactor policy: in the control thread's box */
    WF_JOB_QUEUED,  /* in the list of the pool */
    WF_JOB_RUNNING, /* a thread has it, or is started for it */
    WF_JOB_DONE,    /* the result is there, and nobody knows it any more but its task */
};

/* A function to be called, in the frame of the task that waits for it; or, for a future, in memory
 * of its own, which belongs to the future until it is left, and then to whoever has the job. */
struct wf_job {
    struct wf_node node;        /* reactor policy: in one of the control thread's boxes */
    struct wf_list link;        /* [lock]  while QUEUED */
    weft_fn fn;                 /* [const] */
    void *arg;                  /* [const] */
    void (*release)(void *arg); /* [const]  of a future: what becomes of arg; or NULL */
    struct weft_task *task;     /* [const]  may be gone when it is left */
    uint64_t task_id;           /* [const]  for traces */
    intptr_t result;            /* [who has it]  when DONE */
    enum wf_job_state state;    /* [lock] */
    int unwanted;               /* [lock]  while ASKED: why its task waits for it no more; or 0 */
    bool is_left;               /* [lock]  its future was dropped: nobody waits for it */
};

/* The threads of a runtime. */
struct wf_blocking {
    struct wf_lock lock;
    weft_runtime *runtime; /* [const] */
    struct wf_list jobs;   /* [lock]  that wait for a thread, oldest first */
    struct wf_list idle;   /* [lock]  threads that wait for a job, newest first */
    bool is_closing;       /* [lock]  no job begins any more */
    bool has_left;         /* [lock]  `left` is one */
    pthread_t left;        /* [lock]  the last thread that ended: the next one joins it */
    struct wf_parker closer;

    /* [lock: write] [any: read] */
    wf_atomic_u32 threads;       /* alive, or being started */
    wf_atomic_u32 started;       /* of them, those that are there */
    wf_atomic_u32 resting;       /* of them, in `idle` */
    wf_atomic_u32 waiting;       /* jobs in the list */
    WF_ATOMIC(uint64_t) done;    /* jobs that ran */
    WF_ATOMIC(uint64_t) refused; /* threads that could not be started */
};

void wf_blocking_init(struct wf_blocking *pool, weft_runtime *runtime);
/* [closer]  Jobs that have not begun by now never will, and nobody is told: their tasks are about
 * to be taken by force. */
void wf_blocking_shut(struct wf_blocking *pool);
/* [closer]  No worker is left: waits for jobs that have begun, and for the threads. */
void wf_blocking_stop(struct wf_blocking *pool);

/* [any]  Gives the job to a thread, or to the list.  -EAGAIN, -ENOMEM: there is none; or why it is
 * not wanted any more. */
int wf_blocking_submit(struct wf_blocking *pool, struct wf_job *job);
/* [control thread]  Steps 2 and 3: a job that was asked for; one that has run. */
void wf_blocking_begin(struct wf_blocking *pool, struct wf_job *job);
void wf_blocking_end(struct wf_blocking *pool, struct wf_job *job);

/* [the task]  Submits a job of this task, by way of the control thread if there is one. */
int wf_blocking_ask(struct wf_blocking *pool, struct wf_job *job);
/* [the task]  It is awake: whether the wait is over.  `interrupted` says what it gives then, if the
 * job has not begun. */
bool wf_blocking_is_over(struct wf_blocking *pool, struct wf_job *job, int interrupted);
/* [the task, closer]  Nobody waits for the job of this future any more.  One that has not begun
 * never will; one that runs is freed by the thread that runs it. */
void wf_blocking_leave(struct wf_blocking *pool, struct wf_job *job);
/* [closer]  No thread is left that could bring it on its way. */
void wf_blocking_strand(struct wf_blocking *pool, struct wf_job *job);

/* [any]  Threads that are there and run nothing.  Not more than the kernel would count. */
unsigned wf_blocking_resting(const struct wf_blocking *pool);

/* reactor.c  [any]  Into the boxes of steps 2 and 3. */
void wf_reactor_ask(struct wf_reactor *reactor, struct wf_job *job);
void wf_reactor_return(struct wf_reactor *reactor, struct wf_job *job);
/* reactor.c  [closer]  Jobs that are still in them are stranded. */
void wf_reactor_empty(struct wf_reactor *reactor);

#endif
