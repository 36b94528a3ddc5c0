/* SPDX-License-Identifier: MIT */
/*
 * sched/policy.h - the seam behind which a policy decides where and when tasks run.
 *
 * Two policies stand behind it: `steal` (steal.c, leader.c), in which every worker decides for
 * itself, and `reactor` (reactor.c), in which a control thread decides for all.  A third, a
 * simulation with one thread, choices from a seed and virtual time, fits behind it: the choice of
 * the next task, parking and the wake-ups for time are here.  Other files ask only `steals`.
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

    /* [opener]  Everything but the workers' threads is set up.  -ENOMEM, -EAGAIN; NULL: nothing to
     * do. */
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
    /* [any, runtime pinned]  If all workers are parked, one thread must look for work. */
    void (*wake_any)(weft_runtime *runtime);

    /* [monitor]  A worker is stuck that may have been the leader.  NULL: there is no leader. */
    void (*repair_leader)(weft_runtime *runtime);
    /* [monitor]  There are more active workers than configured: wakes a spare, which parks. */
    void (*recall_spare)(weft_runtime *runtime);
    /* [any]  The number of workers without a task.  A hint. */
    unsigned (*idle_count)(weft_runtime *runtime);
    /* [any]  The number of parked workers.  A hint. */
    unsigned (*parked_count)(weft_runtime *runtime);
    /* [any]  The number of tasks in no worker's run queue.  A hint. */
    uint64_t (*queued_count)(weft_runtime *runtime);
    /* [any]  Whether the caller is a thread of the policy.  NULL: it has none. */
    bool (*is_own_thread)(const weft_runtime *runtime);

    /* [the task]  Carries a blocking job to the pool.  NULL: the caller does it itself. */
    void (*carry_job)(weft_runtime *runtime, struct wf_node *job);
    /* [a pool thread]  Carries the result of a job to its task.  NULL: as for `carry_job`. */
    void (*carry_result)(weft_runtime *runtime, struct wf_node *job);
};

extern const struct wf_policy wf_policy_steal;
extern const struct wf_policy wf_policy_reactor;

#endif
