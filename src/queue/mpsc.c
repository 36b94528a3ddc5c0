/* SPDX-License-Identifier: MIT */
/*
 * queue/mpsc.c - many senders, one receiver, no allocation: inboxes of workers and of the control
 * thread.
 *
 * Senders push to a stack by CAS; the receiver takes the whole stack by one exchange and reverses
 * it.  There is one word and thus no intermediate state: a sender that stalls before its CAS has
 * not sent, one that stalls after it has sent, and the receiver can always take everything that was
 * sent.
 *
 * Rejected: Vyukov's queue, whose sender exchanges the tail and then links the item.  Its push is
 * one exchange instead of a CAS loop.  But a sender that is preempted between the two steps hides
 * every later item from the receiver until it runs again, and a sender cannot know whether the
 * queue was empty, so every send would have to wake the receiver.  (Here, too, the receiver stays
 * asleep while a sender is preempted between its push to the empty queue and the wake-up.)
 *
 * No ABA: push links the item in front of any head for which the CAS succeeds.
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
    do { /* Lock-free: a failed CAS means that another sender has pushed, or the receiver taken. */
        wf_plain_store(&item->next, head);
        WF_JITTER();
        /* (queue.X1) release: the receiver sees the link and the contents of the item. */
    } while (!wf_cas_release(&mpsc->head, &head, item));
    return head == NULL;
}

size_t wf_mpsc_take(struct wf_mpsc *mpsc, struct wf_chain *out)
{
    /* relaxed: saves a locked instruction on an empty queue.  A push that it misses counts as a
     * later one. */
    if (wf_load_relaxed(&mpsc->head) == NULL) {
        return 0;
    }
    /* acquire: pairs with (queue.X1) of every sender in the stack: each push is a read-modify-write
     * and continues the release sequences of the earlier ones. */
    struct wf_node *newest = wf_exchange_acquire(&mpsc->head, NULL);
    struct wf_chain taken = {.last = newest};
    while (newest != NULL) { /* reverses: newest first becomes oldest first */
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
    return wf_load_relaxed(&mpsc->head) == NULL; /* relaxed: a hint */
}
