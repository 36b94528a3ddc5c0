/* SPDX-License-Identifier: MIT */
/*
 * fiber/registry.c - finds the stack at an address, from a signal handler.
 *
 * A fault handler must not take a lock: the interrupted thread may hold it.  So readers walk the
 * list of slabs without a lock, and a slab that was unlinked must not be freed under a reader.
 * Readers are counted:
 *
 *   find    readers + 1; walk and copy; readers - 1
 *   remove  unlink; wait until readers is 0 once: later readers cannot find the slab
 *
 * (fiber.F2) A reader increments the count before it reads a link.  Remove writes the link before
 * it reads the count.  Each has a fence in between, so either remove sees the reader and waits, or
 * the reader does not see the slab.
 *
 * A walk takes microseconds and only fault handlers walk, so the wait is a yield at worst.
 * Rejected: a table of addresses (it would have to grow under its readers, which is the same
 * problem); to keep all slabs forever (their memory would never return to the heap).
 */
#include <sched.h>

#include "fiber/fiber.h"

struct wf_slab_registry wf_slab_registry = {.lock = {.rank = WF_RANK_SLAB_LIST}};

static struct wf_slab_registry *const all = &wf_slab_registry;

void wf_slab_list_add(struct wf_slab *slab)
{
    wf_lock_acquire(&all->lock);
    struct wf_slab *next = wf_load_relaxed(&all->first); /* relaxed: the lock orders it */
    slab->previous = NULL;
    wf_atomic_init(&slab->next, next);
    if (next != NULL) {
        next->previous = slab;
    }
    wf_store_release(&all->first, slab); /* (fiber.F1) release: readers see its fields */
    wf_lock_release(&all->lock);
}

void wf_slab_list_remove(struct wf_slab *slab)
{
    wf_lock_acquire(&all->lock);
    struct wf_slab *next = wf_load_relaxed(&slab->next); /* relaxed: the lock orders it */
    if (next != NULL) {
        next->previous = slab->previous;
    }
    if (slab->previous != NULL) {
        /* relaxed: `next` was added before `previous`, so a reader that acquired `previous` by
         * (fiber.F1) sees the fields of `next` too. */
        wf_store_relaxed(&slab->previous->next, next);
    } else {
        wf_store_release(&all->first, next); /* (fiber.F1) release: the fields of `next` */
    }
    wf_lock_release(&all->lock);
    WF_JITTER();
    wf_fence_seq_cst(); /* (fiber.F2) */
    /* acquire: pairs with (fiber.F3).  Ends when the current readers have finished. */
    while (wf_load_acquire(&all->readers) != 0) {
        WF_REACHED("registry.waited_for_reader");
        wf_spin_hint();
        (void)sched_yield();
    }
}

/* Plain: (fiber.F1) publishes these fields, and (fiber.F3) keeps the slab allocated. */
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
        .user = wf_load_relaxed(&stack->user), /* relaxed: the faulting thread owns the stack */
        .is_guard = address < (uintptr_t)stack->low,
    };
}

bool wf_stack_find(const void *address, struct wf_stack_place *out)
{
    bool is_found = false;
    (void)wf_fetch_add_relaxed(&all->readers, 1); /* relaxed: the fence orders it */
    wf_fence_seq_cst();                           /* (fiber.F2) */
    WF_JITTER();
    /* acquire: pairs with (fiber.F1).  Ends: slabs are added at the front only. */
    for (struct wf_slab *slab = wf_load_acquire(&all->first); slab != NULL && !is_found;
         slab = wf_load_relaxed(&slab->next)) { /* relaxed: see wf_slab_list_remove */
        WF_JITTER();
        is_found = is_within(slab, (uintptr_t)address);
        if (is_found) {
            place_of(slab, (uintptr_t)address, out);
        }
    }
    (void)wf_fetch_sub_release(&all->readers, 1); /* (fiber.F3) release */
    return is_found;
}
