/* SPDX-License-Identifier: MIT */
/*
 * sync/source.h - what the layers above add to the things that a select can wait for.
 *
 * A source cannot be locked while the others are looked at, as channels are.  So it is looked at
 * before; when the select has chosen it, or was woken for it, it is asked to run, and says so if it
 * cannot any more: then the select begins anew, having done nothing.
 */
#ifndef WF_SYNC_SOURCE_H
#define WF_SYNC_SOURCE_H

#include "sync/sync.h"

struct wf_source {
    /* [any]  0, or what the select gives: nobody can wait for that. */
    int (*check)(const weft_case *it);
    /* [waiter]  Begins: notes in the node as of when there was nothing.  0: it can run, or almost;
     * -EAGAIN: not now; else: it runs, with this for its result. */
    int (*begin)(weft_case *it, struct wf_wait_node *node);
    /* [waiter]  After a begin that gave -EAGAIN: into the queue, by a node that belongs to the
     * selection.  -EINPROGRESS: it is in; else as begin. */
    int (*enter)(weft_case *it, struct wf_wait_node *node);
    /* [waiter, closer]  The selection is won: out of the queue, if it is in one. */
    void (*leave)(weft_case *it, struct wf_wait_node *node);
    /* [waiter]  Runs: its result.  -EAGAIN: there is nothing any more. */
    int (*run)(weft_case *it);
    /* [waiter, closer]  After each begin; in no queue. */
    void (*end)(weft_case *it, struct wf_wait_node *node);
};

/* select.c  [any]  A case of this source; `item` is up to it. */
weft_case wf_case_of(const struct wf_source *source, void *item);

#endif
