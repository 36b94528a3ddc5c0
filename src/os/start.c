/* SPDX-License-Identifier: MIT */
/*
 * os/start.c - the start of a group of threads, all or none.
 *
 * Each new thread sets itself up, reports to the opener and waits for the opener's decision.  The
 * opener waits for all reports.  The threads run only if every thread could be started and is set
 * up; otherwise all of them end.
 */
#include <errno.h>

#include "os/os.h"

enum { START_PENDING, START_GO, START_END };

int wf_start_report(struct wf_start *start, int rc)
{
    if (rc != 0) {
        wf_store_relaxed(&start->error, rc); /* relaxed: the counter below publishes it */
    }
    (void)wf_fetch_add_release(&start->reports, 1);
    wf_parker_unpark(&start->opener); /* the opener outlives its threads */
    uint32_t verdict;
    /* acquire: pairs with the opener's store. */
    while ((verdict = wf_load_acquire(&start->verdict)) == START_PENDING) {
        (void)wf_futex_wait(&start->verdict, START_PENDING, WF_FOREVER); /* the loop checks again */
    }
    return verdict == START_GO ? 0 : -ECANCELED;
}

int wf_start_decide(struct wf_start *start, uint32_t started, int rc)
{
    while (wf_load_acquire(&start->reports) < started) { /* acquire: pairs with the reports */
        (void)wf_parker_park(&start->opener, WF_FOREVER);
    }
    rc = rc != 0 ? rc : wf_load_relaxed(&start->error); /* relaxed: ordered by the reports */
    wf_store_release(&start->verdict, rc == 0 ? START_GO : START_END); /* release: all is set up */
    (void)wf_futex_wake(&start->verdict, INT32_MAX);
    return rc;
}
