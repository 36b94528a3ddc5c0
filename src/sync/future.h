/* SPDX-License-Identifier: MIT */
/*
 * sync/future.h - a wait as a future, for whatever has its wait in three phases: see future.c.
 */
#ifndef WF_SYNC_FUTURE_H
#define WF_SYNC_FUTURE_H

#include "sync/sync.h"

enum wf_future_phase {
    WF_PHASE_NEW,
    WF_PHASE_WAITING, /* the node is in a queue, or was granted; and among its task's partings */
    WF_PHASE_OVER,
};

struct wf_future_wait;

/* One kind of wait. */
struct wf_future_kind {
    /* 0 or more, or an error: the result; -EINPROGRESS: the node waits. */
    intptr_t (*begin)(struct wf_future_wait *wait, struct weft_task *self);
    /* The node was granted: the same.  NULL: what the granter wrote. */
    intptr_t (*granted)(struct wf_future_wait *wait);
    void (*abandon)(struct wf_wait_node *node);
    bool has_no_queue; /* only `granted` knows whether it was */
};

struct wf_future_wait {
    weft_future future;
    struct wf_wait_node node;
    struct wf_patience patience;
    const struct wf_future_kind *kind; /* [const] */
    void *object;                      /* [const]  NULL: the result is -EINVAL */
    void *item;                        /* [const] */
    uint32_t count;                    /* [const] */
    enum wf_future_phase phase;        /* [the task] */
};

/* [the task]  Makes the future; what its kind needs besides is filled in by the caller. */
struct wf_future_wait *wf_future_set_up(weft_wait_future *future, const struct wf_future_kind *kind,
                                        void *object);

#endif
