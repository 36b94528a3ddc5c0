/* SPDX-License-Identifier: MIT */
/*
 * sync/spin.h - a lock for a few dozen instructions, that is given back by a plain store.
 *
 * Half of what wf_lock costs without contention is the exchange by which its release learns that
 * somebody sleeps: 6 ns, of the 20 that a buffered send may take.  Here nobody sleeps for the lock:
 * who finds it held looks again, and after a while lets other threads run.  So it is only for what
 * is held for a few nanoseconds, and never across a call that waits or allocates.  A thread that
 * loses its CPU while it holds one makes others yield until it has it again.
 *
 * Several may be held together, by address; they rank below all other locks.
 */
#ifndef WF_SYNC_SPIN_H
#define WF_SYNC_SPIN_H

#include "base/base.h"

/* All zeros is open. */
struct wf_spin {
    wf_atomic_u32 word; /* [any: exchange]  1: held */
};

/* [any]  Between two attempts, the first time so many hints to the CPU, and each time twice as
 * many. Who comes back at once takes the line from the holder, which has to fetch it again for its
 * next step, and so on: each step then costs a message between two CPUs.  Who stays away for as
 * long as some ten steps take finds the lock open as often, and leaves the other in peace. */
static inline void wf_backoff(unsigned *hints)
{
    for (unsigned i = *hints; i > 0; i--) {
        wf_spin_hint();
    }
    *hints *= 2;
}

/* spin.c  [any]  Between two looks at a word which somebody is about to change from `held`;
 * `looks` is their number. */
void wf_spin_pause(wf_atomic_u32 *word, uint32_t held, unsigned looks);
/* spin.c  [any]  It was held a moment ago. */
void wf_spin_wait(struct wf_spin *spin);

#ifdef WF_MODEL
void wf_spin_wake(struct wf_spin *spin);
#endif

/* [any] */
static inline void wf_spin_acquire(struct wf_spin *spin)
{
    if (wf_exchange_acquire(&spin->word, 1) != 0) { /* (K1) */
        wf_spin_wait(spin);
    }
}

/* [locked] */
static inline void wf_spin_release(struct wf_spin *spin)
{
    wf_store_release(&spin->word, 0); /* (K1) */
#ifdef WF_MODEL
    wf_spin_wake(spin); /* see spin.c */
#endif
}

#endif
