/* SPDX-License-Identifier: MIT */
/*
 * task/pool.h - the memory of tasks, their extras, and pins that keep their runtime open: see
 * pool.c.
 */
#ifndef WF_TASK_POOL_H
#define WF_TASK_POOL_H

#include "task/task.h"

/* A failure that was noted.  Allocated with its message. */
struct wf_failure {
    struct wf_failure *next; /* the one noted before it */
    uint64_t task_id;
    int error;
    char name[WEFT_TASK_NAME_SIZE];
    char message[];
};

struct wf_task_slab;

/* The failures that a runtime has to report.  [lock] is that of the pool; the reporter is the
 * thread that has set is_reporting. */
struct wf_failures {
    struct wf_failure *newest; /* [lock]  the records, linked from the newest to the oldest */
    unsigned count;            /* [lock]  of records */
    size_t lost;               /* [lock]  failures for whose record there was no memory */
    size_t more;               /* [lock]  failures that are counted and not printed one by one */
    bool is_reporting;         /* [lock] */
    unsigned lines;            /* [reporter]  printed in the present second */
    int64_t lines_since_ns;    /* [reporter]  when that second began */
};

/* The memory of the tasks of a runtime.  Outlives the runtime until the last handle is dropped. */
struct wf_task_pool {
    struct wf_lock lock;
    struct weft_task *batches;  /* [lock]  free tasks: lists by `node`, listed by `next_batch` */
    struct wf_node *free;       /* [lock]  free tasks that were returned singly, by `node` */
    struct wf_task_slab *slabs; /* [lock]  newest first */
    size_t count;               /* [lock]  tasks in all slabs */
    size_t free_count;          /* [lock] */
    bool is_closed; /* [lock]  the runtime is freed: the last task returned frees the pool */
    struct wf_failures failures; /* unobserved; none once it is closed */

    WF_ATOMIC(uint32_t) external_refs; /* [any: add]  threads that have pinned the runtime */
    WF_ATOMIC(uint32_t) is_rundown;    /* [closer: write] [any: read]  no more pins */
    weft_runtime *runtime;             /* [const]  until the rundown */
};

/* [owner]  A worker's own free tasks: a list, and one full batch or none in reserve. */
struct wf_task_cache {
    struct wf_node *first;
    unsigned count;          /* in the list of `first` */
    struct wf_node *reserve; /* WF_TASK_BATCH tasks, or NULL */
};

/* [opener]  Opens a pool.  -ENOMEM. */
int wf_task_pool_new(struct wf_task_pool **out, weft_runtime *runtime);
/* [closer]  No task is alive; frees the pool, now or when the last handle is dropped. */
void wf_task_pool_close(struct wf_task_pool *pool);
/* [owner of cache; NULL: any]  Gives memory for a task.  Its pool is set, and it may have
 * extras that the last task in this memory left, for reuse.  NULL: out of memory. */
struct weft_task *wf_task_get(struct wf_task_pool *pool, struct wf_task_cache *cache);
/* [owner of cache; NULL: any]  Takes the memory back. */
void wf_task_put(struct wf_task_pool *pool, struct wf_task_cache *cache, struct weft_task *task);
/* [owner]  Gives all cached memory back to the pool. */
void wf_task_cache_done(struct wf_task_pool *pool, struct wf_task_cache *cache);
/* [any]  Calls `visit` for every live task, under the pool's lock.  `visit` must not wait,
 * and must not take memory from the pool or return it. */
void wf_task_pool_visit(struct wf_task_pool *pool, void (*visit)(struct weft_task *, void *),
                        void *context);

/* [any]  A thread that is no worker of the runtime pins the runtime, which is not freed
 * before wf_pool_unpin.  False: the runtime is closing, and the caller must not touch it. */
bool wf_pool_pin(struct wf_task_pool *pool);
/* [any]  Ends a pin.  The caller must not touch the runtime any more. */
void wf_pool_unpin(struct wf_task_pool *pool);
/* [closer]  Refuses further pins, and waits for the end of the last one.  Calls `relax` while it
 * waits: a task that has pinned the runtime may need the caller's worker. */
void wf_pool_rundown(struct wf_task_pool *pool, void (*relax)(void));

/* ---- extras: see extra.c ----------------------------------------------------------------------
 */

/* [the task, spawner]  The extras of a task, allocated when first needed.  NULL: out of
 * memory. */
struct wf_task_extra *wf_task_extra(struct weft_task *task);

/* [any]  Resets options, deadline and pins in the memory of a task to the defaults. */
void wf_task_reset(struct weft_task *task);
/* [spawner]  Sets the name; NULL: none.  A dump that reads it meanwhile may see half of it. */
void wf_task_name_put(struct wf_task_extra *extra, const char *name);
/* [any]  Copies the name; "" if the task has none. */
void wf_task_name(const struct weft_task *task, char name[WEFT_TASK_NAME_SIZE]);

#endif
