/* SPDX-License-Identifier: MIT */
/*
 * sync/future.h - a wait as a future, for each object whose wait has three phases: see future.c.
 */
#ifndef WF_SYNC_FUTURE_H
#define WF_SYNC_FUTURE_H

#include "sync/sync.h"

struct wf_future_wait;

/* One kind of wait. */
struct wf_future_kind {
    /* [the task]  Begins the wait: its result, or -EINPROGRESS if the node waits. */
    intptr_t (*begin)(struct wf_future_wait *wait, struct weft_task *self);
    /* [the task]  The node was granted.  Returns as begin.  NULL: the result is the node's. */
    intptr_t (*granted)(struct wf_future_wait *wait);
    /* [the task, closer]  Leaves the queue and passes on what was granted. */
    void (*abandon)(struct wf_wait_node *node);
    bool has_no_queue; /* only `granted` knows whether the wait is over */
};

struct wf_future_wait {
    struct wf_future_base base;
    struct wf_wait_node node;
    const struct wf_future_kind *kind; /* [const] */
    void *object;                      /* [const]  NULL: the result is -EINVAL */
    void *item;                        /* [const] */
    uint32_t count;                    /* [const] */
};

/* [the task]  Initialises the future.  The caller fills in the fields that its kind needs. */
struct wf_future_wait *wf_future_set_up(weft_wait_future *future, const struct wf_future_kind *kind,
                                        void *object);

#endif
