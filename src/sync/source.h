/* SPDX-License-Identifier: MIT */
/*
 * sync/source.h - select cases that the layers above add.
 *
 * A source cannot be locked while the other cases are checked, as channels are.  So it is checked
 * before.  When the select has chosen it, or was woken for it, the source is asked to run, and
 * fails with -EAGAIN if it cannot any more: then the select starts again, having done nothing.
 */
#ifndef WF_SYNC_SOURCE_H
#define WF_SYNC_SOURCE_H

#include "sync/sync.h"

struct wf_source {
    /* [any]  0; else the case is invalid, and this is the result of the select. */
    int (*check)(const weft_case *it);
    /* [waiter]  Begins: records in the node when there was nothing.  0: it can probably run;
     * -EAGAIN: not now; else: it runs, with this result. */
    int (*begin)(weft_case *it, struct wf_wait_node *node);
    /* [waiter]  After a begin that returned -EAGAIN: puts the node, which belongs to the selection,
     * into the queue of the source.  -EINPROGRESS: it is in the queue; else as begin. */
    int (*enter)(weft_case *it, struct wf_wait_node *node);
    /* [waiter, closer]  The selection is won: takes the node out of the queue, if it is there. */
    void (*leave)(weft_case *it, struct wf_wait_node *node);
    /* [waiter]  Runs the case: its result.  -EAGAIN: the event is gone. */
    int (*run)(weft_case *it);
    /* [waiter, closer]  After each begin; the node is in no queue. */
    void (*end)(weft_case *it, struct wf_wait_node *node);
};

/* select.c  [any]  A case of this source.  `item` is for the source. */
weft_case wf_case_of(const struct wf_source *source, void *item);

#endif
