/* SPDX-License-Identifier: MIT */
/*
 * sched/alone.h - whether a worker is alone with its queues: what its owner and visitors do.  See
 * alone.c.
 */
#ifndef WF_SCHED_ALONE_H
#define WF_SCHED_ALONE_H

#include "sched/sched.h"

/* Whether others may touch the queues of a worker. */
enum wf_company {
    WF_SHARED, /* with locked instructions, as the owner does */
    WF_ALONE,  /* nobody: who wants to has to ask */
    WF_ASKED,  /* nobody yet */
};

/* [any]  About to touch the queues of another; false: not now.  Until wf_visit_end. */
bool wf_visit_begin(struct wf_worker *host);
void wf_visit_end(struct wf_worker *host);

/* [owner, not inside]  Others may come as they like. */
void wf_alone_give_up(struct wf_worker *worker);
/* [owner]  If nobody has visited it for a while, it uses its queues as if it were alone. */
void wf_alone_again(struct wf_worker *worker, int64_t now);

/* [owner]  True: it may use its queues as nobody else does, until wf_alone_end. */
static inline bool wf_alone_begin(struct wf_worker *worker)
{
    if (wf_load_relaxed(&worker->company) != WF_ALONE) { /* relaxed: looks again below */
        return false;
    }
    wf_store_relaxed(&worker->is_inside, 1); /* relaxed: (M2) */
    wf_fence_light();                        /* (M2) */
    if (__builtin_expect(wf_load_relaxed(&worker->company) == WF_ALONE, 1)) {
        return true;
    }
    WF_REACHED("alone.visited_meanwhile");
    wf_store_release(&worker->is_inside, 0); /* (M2) release: what was done the time before */
    return false;
}

static inline void wf_alone_end(struct wf_worker *worker)
{
    wf_store_release(&worker->is_inside, 0); /* (M2) */
}

/* [owner]  There is nobody to be told of what it has queued just now. */
static inline bool wf_is_alone(struct wf_worker *worker)
{
    if (!worker->is_lone) {
        return false;
    }
    wf_fence_light(); /* (M2): who sees it alone has queued before the others come */
    return wf_load_relaxed(&worker->company) == WF_ALONE;
}

#endif
