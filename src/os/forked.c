/* SPDX-License-Identifier: MIT */
/*
 * os/forked.c - the library in the child of fork(2).
 *
 * In the child only the thread that called fork exists.  If the parent has open runtimes, the child
 * lacks their threads, and the child's copies of their queues are unusable.  So the child is
 * marked, and the layer above detaches the child's thread from its worker (runtime/runtime.c).
 * A thread of the library blocks all signals; its child must not.
 *
 * A process that calls fork while it has no open runtime gets a child without restrictions.
 */
#include <errno.h>
#include <pthread.h>

#include "os/os.h"

static WF_ATOMIC(int) entered;        /* [any: add]  calls of enter without their leave */
static WF_ATOMIC(int) is_installed;   /* [any: write]  pthread_atfork has registered forked_child */
static WF_ATOMIC(int) is_forked;      /* [child: write] [any: read] */
static WF_ATOMIC(uintptr_t) child_fn; /* [any: write]  `in_child` of all callers */

/* [child: its only thread]  The handler of pthread_atfork. */
static void forked_child(void)
{
    if (wf_load_relaxed(&entered) == 0) { /* all relaxed: no other thread exists */
        return;
    }
    ((void (*)(void))wf_load_relaxed(&child_fn))();
    wf_store_relaxed(&is_forked, 1);
    wf_thread_unblock_in_child();
}

bool wf_is_forked(void)
{
    return wf_load_relaxed(&is_forked) != 0; /* relaxed: written before other threads exist */
}

int wf_forked_enter(void (*in_child)(void))
{
    if (wf_is_forked()) {
        return -EPERM;
    }
    wf_store_relaxed(&child_fn, (uintptr_t)in_child); /* relaxed: always the same value */
    if (wf_load_relaxed(&is_installed) == 0) {        /* relaxed: installing it twice is harmless */
        int rc = WF_FAULT("pthread_atfork") ? -ENOMEM : -pthread_atfork(NULL, NULL, forked_child);
        if (rc != 0) {
            return rc;
        }
        wf_store_relaxed(&is_installed, 1);
    }
    (void)wf_fetch_add_relaxed(&entered, 1); /* relaxed: only counts */
    return 0;
}

void wf_forked_leave(void)
{
    (void)wf_fetch_sub_relaxed(&entered, 1); /* relaxed: only counts */
}
