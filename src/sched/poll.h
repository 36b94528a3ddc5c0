/* SPDX-License-Identifier: MIT */
/*
 * sched/poll.h - what a wait leaves in the hands of others, and poll tasks and futures, which leave
 * more than one such thing: a part of sched.h, which includes it.
 */
#ifndef WF_SCHED_POLL_H
#define WF_SCHED_POLL_H

#include "sched/sched.h"

/* ---- partings ------------------------------------------------------------------------------ */

/* What a wait of a layer above leaves in the hands of others: a node in the list of something that
 * may outlive the task.  In the frame of the wait, or in a future. */
struct wf_parting {
    struct wf_parting *next; /* [the task] */
    struct wf_parting *prev; /* [the task] */

    /* [closer]  The task will never run again: takes the node out. */
    void (*forget)(struct wf_parting *parting);
    /* [the report of deadlocks]  The task that has what this one waits for; NULL: nobody known.
     * The function itself may be NULL. */
    const struct weft_task *(*awaited)(const struct wf_parting *parting);
};

static inline void wf_parting_add(struct weft_task *self, struct wf_parting *parting)
{
    parting->prev = NULL;
    parting->next = self->partings;
    if (self->partings != NULL) {
        self->partings->prev = parting;
    }
    self->partings = parting;
    self->is_plain = false;
}

static inline void wf_parting_remove(struct weft_task *self, struct wf_parting *parting)
{
    if (parting->next != NULL) {
        parting->next->prev = parting->prev;
    }
    if (parting->prev != NULL) {
        parting->prev->next = parting->next;
    } else {
        self->partings = parting->next;
    }
}

/* [the task, closer]  Those who know of its waits do not any more. */
void wf_partings_forget(struct weft_task *task);

/* ---- joiners ------------------------------------------------------------------------------- */

/* Somebody who waits for the end of a task, perhaps for more than that: see join.c. */
struct wf_joiner {
    struct wf_joiner *next;   /* [lock] */
    struct wf_waiter *waiter; /* [const] */
    wf_atomic_i32 *winner; /* [const]  of those it waits for; -1: none; NULL: it is the only one */
    int32_t index;         /* [const]  what the end of the task makes of it */
    bool is_listed;        /* [lock] */
};

/* join.c  [any, holding a handle]  It is woken at the end.  False: the task has ended. */
bool wf_joiner_enter(struct weft_task *task, struct wf_joiner *joiner);
/* join.c  [the joiner]  After this nobody knows its node. */
void wf_joiner_leave(struct weft_task *task, struct wf_joiner *joiner);
/* join.c  [any]  The task has ended: its result, which counts as seen. */
intptr_t wf_join_observe(struct weft_task *task);

/* ---- poll tasks ---------------------------------------------------------------------------- */

/* poll.c  [spawner]  Makes it a poll task.  -ENOMEM: nothing is left behind. */
int wf_poll_init(struct weft_task *task, const struct wf_spawn *spawn);
/* poll.c  [any]  It has ended: gives the state back. */
void wf_poll_done(struct weft_task *task);
/* poll.c  [owner]  Calls it once.  True: it has ended, with this result. */
bool wf_poll_call(struct wf_worker *worker, struct weft_task *task, intptr_t *result);

/* Who polls: a poll task, or a green thread that waits for a future. */
struct weft_cx {
    struct weft_task *task;
};

/* poll.c  [the task]  Counts one operation.  False: it has had its share; the future gives
 * WEFT_PENDING, and is polled again soon. */
bool wf_cx_spend(struct weft_cx *cx);
/* poll.c  [the task]  There was nothing to be done: the operation does not count.  Else who waits
 * for many at once would have had its share before it has asked the last of them, again and again.
 */
void wf_cx_give_back(struct weft_cx *cx);

/* The time that a future has.  All zeros: it does not wait. */
struct wf_patience {
    struct wf_alarm alarm;
    int64_t until_ns; /* [the task]  when the alarm rings, while it is set */
};
/* future.c  [the task]  It is woken at this time, or at its deadline if that comes first. */
void wf_patience_keep(struct wf_patience *patience, struct weft_task *self, int64_t until_ns);
void wf_patience_end(struct wf_patience *patience);

#endif
