/* SPDX-License-Identifier: MIT */
/*
 * fiber/registry.c - which stack is at an address, asked from a signal handler.
 *
 * The handler of a fault may not take a lock: the thread it interrupted may hold it.  So slabs are
 * in a list that is read without one, and the problem is when a slab that left the list may be
 * freed.  Readers are counted while they walk:
 *
 *   find    readers + 1, walk and copy, readers - 1
 *   remove  unlink, then wait until the count is 0 once: whoever came later cannot find the slab
 *
 * (F2) A reader counts itself before it reads a link; remove writes the link before it reads the
 * count; each has a fence in between.  So either remove sees the reader and waits, or the reader
 * sees that the slab is gone.
 *
 * A walk takes microseconds, and the only one who makes them is a handler, so waiting is a yield at
 * worst.  Rejected: a table of addresses (would have to grow under readers: the same problem), and
 * keeping all slabs forever (then nothing ever comes back to the heap).
 */
#include <sched.h>

#include "fiber/fiber.h"

struct wf_slab_registry wf_slab_registry = {.lock = {.rank = WF_RANK_SLAB_LIST}};

static struct wf_slab_registry *const all = &wf_slab_registry;

void wf_slab_list_add(struct wf_slab *slab)
{
    wf_lock_acquire(&all->lock);
    struct wf_slab *next = wf_load_relaxed(&all->first); /* relaxed: written under the lock */
    slab->previous = NULL;
    wf_atomic_init(&slab->next, next);
    if (next != NULL) {
        next->previous = slab;
    }
    wf_store_release(&all->first, slab); /* (F1) who sees the slab sees its fields */
    wf_lock_release(&all->lock);
}

void wf_slab_list_remove(struct wf_slab *slab)
{
    wf_lock_acquire(&all->lock);
    struct wf_slab *next = wf_load_relaxed(&slab->next); /* relaxed: written under the lock */
    if (next != NULL) {
        next->previous = slab->previous;
    }
    if (slab->previous != NULL) {
        /* relaxed: leads to older slabs than the one it stands in, which the reader knows by the
         * way it came to that one. */
        wf_store_relaxed(&slab->previous->next, next);
    } else {
        wf_store_release(&all->first, next); /* (F1) of the slabs behind */
    }
    wf_lock_release(&all->lock);
    WF_JITTER();
    wf_fence_seq_cst(); /* (F2) */
    /* (F2), (F3); ends when the handlers that came before have looked. */
    while (wf_load_acquire(&all->readers) != 0) {
        WF_REACHED("registry.waited_for_reader");
        wf_spin_hint();
        (void)sched_yield();
    }
}

/* Plain: (F1) carries what is read here, and (F3) keeps it alive. */
static bool is_within(const struct wf_slab *slab, uintptr_t address)
{
    return address - (uintptr_t)wf_plain_load(&slab->memory) < slab->bytes;
}

static void place_of(const struct wf_slab *slab, uintptr_t address, struct wf_stack_place *out)
{
    const struct wf_stack *stack =
        &slab->stacks[(address - (uintptr_t)slab->memory) / slab->stride];
    *out = (struct wf_stack_place){
        .low = stack->low,
        .size = stack->size,
        .user = wf_load_relaxed(&stack->user), /* relaxed: the fault is on the owner's thread */
        .is_guard = address < (uintptr_t)stack->low,
    };
}

bool wf_stack_find(const void *address, struct wf_stack_place *out)
{
    bool is_found = false;
    (void)wf_fetch_add_relaxed(&all->readers, 1); /* relaxed: the fence orders it */
    wf_fence_seq_cst();                           /* (F2) */
    WF_JITTER();
    /* Ends: slabs are added in front only. */
    for (struct wf_slab *slab = wf_load_acquire(&all->first); slab != NULL && !is_found; /* (F1) */
         slab = wf_load_relaxed(&slab->next)) { /* relaxed: see wf_slab_list_remove */
        WF_JITTER();
        is_found = is_within(slab, (uintptr_t)address);
        if (is_found) {
            place_of(slab, (uintptr_t)address, out);
        }
    }
    (void)wf_fetch_sub_release(&all->readers, 1); /* (F3) */
    return is_found;
}
