/* SPDX-License-Identifier: MIT */
/*
 * sched/policy.h - the interface of a policy, which decides where and when tasks run.
 *
 * Two policies implement it: `steal` (steal.c, leader.c), in which every worker decides for itself,
 * and `reactor` (reactor.c), in which a control thread decides for all.  A third could implement
 * it, a simulation with one thread, choices from a seed and virtual time: the choice of the next
 * task, parking and the wake-ups for timers are operations of the interface.  Code outside of the
 * policies does not ask which policy is in use: it calls the operations, and reads `steals` and
 * `thread_count`.
 */
#ifndef WF_SCHED_POLICY_H
#define WF_SCHED_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/types.h>

struct weft_task;
struct wf_node;
struct wf_worker;

/* If an operation may be NULL, its comment says what the caller does instead.  [const] */
struct wf_policy {
    /* Idle workers look for work themselves: in run queues, among exposed forks, and for the I/O
     * requests of a stuck worker.  Otherwise all of it must be handed to them as ready tasks. */
    bool steals;
    unsigned thread_count; /* threads beside the workers */

    /* [opener]  Sets up the policy and starts its threads.  Called when everything but the workers'
     * threads is set up.  Returns 0, -ENOMEM or -EAGAIN.  NULL: there is nothing to set up. */
    int (*open)(weft_runtime *runtime);
    /* [closer]  The workers have left: ends the threads of the policy.  Twice is allowed.  NULL:
     * there are none. */
    void (*stop)(weft_runtime *runtime);
    /* [closer]  No pool thread is left: abandons the blocking jobs on their way.  NULL: there are
     * none. */
    void (*abandon_jobs)(weft_runtime *runtime);
    /* [opener, closer]  Frees what the policy has.  NULL: it has nothing. */
    void (*free)(weft_runtime *runtime);

    /* [any]  Queues a ready task that a worker's run queue does not take.  `worker` is the
     * caller's, if it is of this runtime; else NULL.  Only ready.c calls it. */
    void (*ready)(weft_runtime *runtime, struct wf_worker *worker, struct weft_task *task);
    /* [loop]  The next task, without waiting; NULL: none. */
    struct weft_task *(*next)(struct wf_worker *worker);
    /* [loop]  No task was found: parks until it is worth trying again. */
    void (*park)(struct wf_worker *worker);
    /* [any]  Wakes the leader; without one, any sleeper.  The caller has issued a fence after what
     * the leader must see. */
    void (*wake_leader)(weft_runtime *runtime);
    /* [any, runtime pinned]  Wakes one parked worker, which looks for work; in the reactor policy
     * the control thread. */
    void (*wake_any)(weft_runtime *runtime);

    /* [monitor]  A stuck worker may have been the leader: wakes a worker to replace it, if a leader
     * is needed and there is none.  NULL: the policy has no leader. */
    void (*repair_leader)(weft_runtime *runtime);
    /* [monitor]  There are more active workers than needed: makes an active spare that has no task
     * park as an idle spare. */
    void (*recall_spare)(weft_runtime *runtime);
    /* [any]  The number of workers without a task.  A hint. */
    unsigned (*idle_count)(weft_runtime *runtime);
    /* [any]  The number of parked workers.  A hint. */
    unsigned (*parked_count)(weft_runtime *runtime);
    /* [any]  The number of ready tasks in the shared queues of the policy.  A hint. */
    uint64_t (*queued_count)(weft_runtime *runtime);
    /* [any]  Whether the caller is a thread of the policy.  NULL: it has none. */
    bool (*is_own_thread)(const weft_runtime *runtime);

    /* [the task]  Hands a blocking job to the pool.  NULL: the caller submits the job itself. */
    void (*carry_job)(weft_runtime *runtime, struct wf_node *job);
    /* [a pool thread]  Carries the result of a job to its task.  NULL: as for `carry_job`. */
    void (*carry_result)(weft_runtime *runtime, struct wf_node *job);
};

extern const struct wf_policy wf_policy_steal;
extern const struct wf_policy wf_policy_reactor;

#endif
