/* SPDX-License-Identifier: MIT */
/*
 * sync/source.h - select cases that the layers above add.
 *
 * Channels are locked while the cases are checked; a source cannot be.  So the select checks a
 * source before it takes the locks.  When the select has chosen the case of a source, or was woken
 * for it, the select calls `run`, which returns -EAGAIN if the event is gone: then the select
 * starts again, having done nothing.
 */
#ifndef WF_SYNC_SOURCE_H
#define WF_SYNC_SOURCE_H

#include "sync/sync.h"

struct wf_source {
    /* [any]  0; else the case is invalid, and this is the result of the select. */
    int (*check)(const weft_case *it);
    /* [waiter]  Begins: records in the node what `enter` needs to miss no later event, and checks
     * for the event.  0: the case can probably run; -EAGAIN: not now; else: the case runs, with
     * this result. */
    int (*begin)(weft_case *it, struct wf_wait_node *node);
    /* [waiter]  After a begin that returned -EAGAIN: puts the node, which belongs to the selection,
     * into the queue of the source.  -EINPROGRESS: it is in the queue; else as begin. */
    int (*enter)(weft_case *it, struct wf_wait_node *node);
    /* [waiter, closer]  The selection is won: takes the node out of the queue, if it is there. */
    void (*leave)(weft_case *it, struct wf_wait_node *node);
    /* [waiter]  Runs the case: its result.  -EAGAIN: the event is gone. */
    int (*run)(weft_case *it);
    /* [waiter, closer]  Called once after each begin, when the node is in no queue: releases what
     * begin and enter have acquired. */
    void (*end)(weft_case *it, struct wf_wait_node *node);
};

/* select.c  [any]  A case of this source.  `item` is for the source. */
weft_case wf_case_of(const struct wf_source *source, void *item);

#endif
