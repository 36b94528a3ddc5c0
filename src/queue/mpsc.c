/* SPDX-License-Identifier: MIT */
/*
 * queue/mpsc.c - many senders, one receiver, no allocation: mailboxes and cross-worker frees.
 *
 * Senders push onto a stack by CAS; the receiver takes the whole stack by one exchange and turns it
 * over.  There is one word, so there is no half-done state: a sender that stalls before its CAS has
 * not sent, after it has sent, and the receiver can take everything that was sent in either case.
 *
 * Rejected: Vyukov's queue, whose sender swaps the tail and then links.  Its push is one exchange
 * instead of a CAS loop, but a sender that is preempted between its two steps hides every later
 * item, also from a receiver that is awake, until it runs again; and a sender cannot tell whether
 * the queue was empty, so every send would have to wake the receiver.  (Here, too, a sender that is
 * preempted between finding the box empty and waking the receiver leaves it asleep that long.)
 *
 * No ABA: push only links in front of whatever the head is when the CAS succeeds.
 */
#include "queue/queue.h"

void wf_mpsc_init(struct wf_mpsc *mpsc)
{
    wf_atomic_init(&mpsc->head, NULL);
}

bool wf_mpsc_push(struct wf_mpsc *mpsc, struct wf_node *item)
{
    WEFT_ASSERT(item != NULL);
    struct wf_node *head = wf_load_relaxed(&mpsc->head); /* relaxed: only compared and linked */
    do { /* A lost CAS means that another sender got in first. */
        wf_plain_store(&item->next, head);
        WF_JITTER();
        /* (X1) release: the receiver sees the link and everything in the item. */
    } while (!wf_cas_release(&mpsc->head, &head, item));
    return head == NULL;
}

size_t wf_mpsc_take(struct wf_mpsc *mpsc, struct wf_chain *out)
{
    /* relaxed: saves a locked instruction on an empty box; a push missed here is a later one. */
    if (wf_load_relaxed(&mpsc->head) == NULL) {
        return 0;
    }
    /* acquire: pairs with (X1) of every sender in the stack: each push is a read-modify-write and
     * so carries the earlier ones' release on. */
    struct wf_node *newest = wf_exchange_acquire(&mpsc->head, NULL);
    struct wf_chain taken = {.last = newest};
    while (newest != NULL) { /* turn over: newest-first becomes oldest-first */
        struct wf_node *older = wf_plain_load(&newest->next);
        wf_plain_store(&newest->next, taken.first);
        taken.first = newest;
        taken.count++;
        newest = older;
    }
    size_t count = taken.count;
    wf_chain_append(out, &taken);
    return count;
}

bool wf_mpsc_is_empty(struct wf_mpsc *mpsc)
{
    return wf_load_relaxed(&mpsc->head) == NULL; /* relaxed: a hint, see the header */
}
