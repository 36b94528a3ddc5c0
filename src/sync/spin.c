/* SPDX-License-Identifier: MIT */
/*
 * sync/spin.c - the slow path of a spin lock.
 *
 * A thread that finds the lock held first lets its CPU wait, then yields it: on a busy machine the
 * holder may have lost its CPU.  If the lock stays held although the thread yields, the holder has
 * a lower priority, by the kernel's real-time classes: then it runs only if the thread sleeps.
 */
#include <sched.h>

#include "os/os.h"
#include "sync/spin.h"

enum {
    POLLS = 100,           /* before the thread yields: some microseconds */
    YIELDS = 1000,         /* before it sleeps between its polls */
    SLEEP_NS = 100 * 1000, /* of one sleep, which no release ends */
};

#ifdef WF_MODEL

/* In the model checker a loop of polls has no end.  So the waiter sleeps, and a release wakes it.
 */
void wf_spin_pause(wf_atomic_u32 *word, uint32_t held, unsigned polls)
{
    (void)polls;
    (void)wf_futex_wait(word, held, WF_FOREVER);
}

void wf_spin_wake(struct wf_spin *spin)
{
    (void)wf_futex_wake(&spin->word, 1);
}

static bool spin_may_be_free(struct wf_spin *spin)
{
    (void)spin;
    return true;
}

#else

void wf_spin_pause(wf_atomic_u32 *word, uint32_t held, unsigned polls)
{
    wf_spin_hint();
    if (polls > POLLS + YIELDS) {
        (void)wf_futex_wait(word, held, wf_clock_now() + SLEEP_NS);
    } else if (polls > POLLS) {
        (void)sched_yield();
    }
}

/* True: an exchange may succeed.  A load does not take the cache line from the holder. */
static bool spin_may_be_free(struct wf_spin *spin)
{
    return wf_load_relaxed(&spin->word) == 0; /* relaxed: the exchange decides */
}

#endif

void wf_spin_wait(struct wf_spin *spin)
{
    unsigned polls = 0;
    unsigned hints = WF_BACKOFF_FIRST;
    do { /* ends when the holder has released it, and no other thread was faster */
        if (hints <= WF_BACKOFF_MAX) {
            wf_backoff(&hints);
        } else {
            wf_spin_pause(&spin->word, 1, polls++);
        }
        while (!spin_may_be_free(spin)) {
            wf_spin_pause(&spin->word, 1, polls++);
        }
    } while (wf_exchange_acquire(&spin->word, 1) != 0); /* (sync.K1) */
}
