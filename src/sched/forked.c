/* SPDX-License-Identifier: MIT */
/*
 * sched/forked.c - what a process that was made by fork may do.
 *
 * Of all threads only the one that called fork is there.  If it was a worker's, it stands on the
 * stack of a task whose fellows nobody will ever run, with queues that the parent goes on with.  So
 * it becomes a thread like any other: it has no seat any more, and calls that need a task say so.
 * What waits for other tasks, or would start some, gives -EPERM; the return of the task's function,
 * for which there is nowhere to go, is stopped by a check (worker.c check_frame: it looks at tasks
 * that are not plain, so this one is made so, and the others pay nothing).
 *
 * A process that forks before it opens a runtime, or after it has closed the last, is as good as
 * new.
 */
#include <errno.h>
#include <pthread.h>

#include "sched/fast.h"

static WF_ATOMIC(int) runtimes;     /* [any]  that are open */
static WF_ATOMIC(int) is_installed; /* [any]  twice does no harm */
static WF_ATOMIC(int) is_forked;    /* [the only thread there is: write] */

/* [child]  The only thread. */
static void become_stranger(void)
{
    if (wf_load_relaxed(&runtimes) == 0) { /* all relaxed: no other thread is there */
        return;
    }
    struct weft_task *task = wf_task_self();
    if (task != NULL) {
        task->is_plain = false;
    }
    wf_seat = NULL;
    wf_store_relaxed(&is_forked, 1);
}

bool wf_is_forked(void)
{
    return wf_load_relaxed(&is_forked) != 0; /* relaxed: as above */
}

int wf_forked_enter(void)
{
    if (wf_is_forked()) {
        return -EPERM;
    }
    if (wf_load_relaxed(&is_installed) == 0) { /* relaxed: twice does no harm */
        int rc =
            WF_FAULT("pthread_atfork") ? -ENOMEM : -pthread_atfork(NULL, NULL, become_stranger);
        if (rc != 0) {
            return rc;
        }
        wf_store_relaxed(&is_installed, 1);
    }
    (void)wf_fetch_add_relaxed(&runtimes, 1); /* relaxed: a number */
    return 0;
}

void wf_forked_leave(void)
{
    (void)wf_fetch_sub_relaxed(&runtimes, 1); /* relaxed: a number */
}
