/* SPDX-License-Identifier: MIT */
/*
 * sync/spin.c - when a spin lock is held.
 *
 * First the CPU waits, then the thread lets others run: on a machine that is busy the holder may be
 * one that has lost its CPU.  If it does not come back although we yield, it has a lower priority
 * than we have, by the kernel's real-time classes: then only sleeping lets it run.
 */
#include <sched.h>

#include "os/os.h"
#include "sync/spin.h"

enum {
    LOOKS = 100,           /* before the thread yields, some microseconds */
    YIELDS = 1000,         /* before it sleeps between its looks */
    SLEEP_NS = 100 * 1000, /* of which nobody wakes it */
};

#ifdef WF_MODEL

/* Looking again and again would have no end there.  So who waits sleeps, and a release wakes it. */
void wf_spin_pause(wf_atomic_u32 *word, uint32_t held, unsigned looks)
{
    (void)looks;
    (void)wf_futex_wait(word, held, WF_FOREVER);
}

void wf_spin_wake(struct wf_spin *spin)
{
    (void)wf_futex_wake(&spin->word, 1);
}

static bool may_be_open(struct wf_spin *spin)
{
    (void)spin;
    return true;
}

#else

void wf_spin_pause(wf_atomic_u32 *word, uint32_t held, unsigned looks)
{
    wf_spin_hint();
    if (looks > LOOKS + YIELDS) {
        (void)wf_futex_wait(word, held, wf_clock_now() + SLEEP_NS);
    } else if (looks > LOOKS) {
        (void)sched_yield();
    }
}

/* Whether it is worth to try: a look takes the line from nobody. */
static bool may_be_open(struct wf_spin *spin)
{
    return wf_load_relaxed(&spin->word) == 0; /* relaxed: the exchange decides */
}

#endif

void wf_spin_wait(struct wf_spin *spin)
{
    unsigned looks = 0;
    unsigned hints = WF_BACKOFF_FIRST;
    do { /* Ends when the holder has released it, and nobody else was faster. */
        if (hints <= WF_BACKOFF_MAX) {
            wf_backoff(&hints);
        } else {
            wf_spin_pause(&spin->word, 1, looks++);
        }
        while (!may_be_open(spin)) {
            wf_spin_pause(&spin->word, 1, looks++);
        }
    } while (wf_exchange_acquire(&spin->word, 1) != 0); /* (K1) */
}
