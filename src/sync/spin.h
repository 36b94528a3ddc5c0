/* SPDX-License-Identifier: MIT */
/*
 * sync/spin.h - a spin lock for a few dozen instructions, released by a plain store.
 *
 * Half of the cost of wf_lock without contention is the exchange by which its release learns that a
 * thread sleeps: 6 ns, of the 20 that a buffered send may take.  The release of a spin lock wakes
 * no thread: a thread that finds the lock held polls it, after a while yields its CPU between the
 * polls, in case the holder has lost its own, and at last sleeps between them (spin.c).  So the
 * lock is only for what is done in a few nanoseconds, and is never held across a call that waits or
 * allocates.
 *
 * A thread may hold several spin locks, taken in the order of their addresses.  They rank below all
 * other locks (os/os.h): a thread takes its spin locks first.
 */
#ifndef WF_SYNC_SPIN_H
#define WF_SYNC_SPIN_H

#include "base/base.h"

/* All zeros is free. */
struct wf_spin {
    wf_atomic_u32 word; /* [any: exchange]  1: held */
};

/* [any]  Waits between two attempts to take a lock: `*hints` hints to the CPU, and twice as many at
 * the next call.  A thread that tries again at once takes the cache line from the holder, which has
 * to fetch it again for its next step: each step then costs a message between two CPUs.  A thread
 * that backs off for the time of some ten steps finds the lock free as often, and does not slow the
 * holder down. */
static inline void wf_backoff(unsigned *hints)
{
    for (unsigned i = *hints; i > 0; i--) {
        wf_spin_hint();
    }
    *hints *= 2;
}

/* spin.c  [any]  Waits between two polls of a word that its holder is about to change from `held`;
 * `polls` is their number. */
void wf_spin_pause(wf_atomic_u32 *word, uint32_t held, unsigned polls);
/* spin.c  [any]  Takes a lock that was held a moment ago. */
void wf_spin_wait(struct wf_spin *spin);

#ifdef WF_MODEL
void wf_spin_wake(struct wf_spin *spin);
#endif

/* [any] */
static inline void wf_spin_acquire(struct wf_spin *spin)
{
    if (wf_exchange_acquire(&spin->word, 1) != 0) { /* (sync.K1) */
        wf_spin_wait(spin);
    }
}

/* [locked] */
static inline void wf_spin_release(struct wf_spin *spin)
{
    wf_store_release(&spin->word, 0); /* (sync.K1) */
#ifdef WF_MODEL
    wf_spin_wake(spin); /* see spin.c */
#endif
}

#endif
