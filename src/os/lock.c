/* SPDX-License-Identifier: MIT */
/*
 * os/lock.c - a mutex in one word, for the runtime's own short critical sections.
 *
 * The word says whether threads may be asleep.  An uncontended lock costs one atomic instruction to
 * acquire, one to release, and no system call.
 *
 *   OPEN --acquire, try: CAS--> HELD            no thread sleeps
 *   any  --acquire: exchange--> SLEEPERS        found OPEN: acquired; else sleep and try again
 *   any  --release: exchange--> OPEN            found SLEEPERS: wake one sleeper
 *
 * No wake-up is lost: a thread sleeps only while the word is SLEEPERS, and the holder that replaces
 * this value wakes one sleeper.  The woken thread stores SLEEPERS again, because it cannot know
 * whether others still sleep.  The price: the last sleeper makes one futile wake call when it
 * releases.
 *
 * (os.L1) A release synchronises with the acquire that finds the lock open: the exchange in
 * wf_lock_release with the CAS or the exchange that takes the lock next.
 *
 * Rejected: pthread_mutex_t (40 bytes, and opaque to the model checker); a fair hand-off (the lock
 * would be idle during a context switch at each hand-off).
 */
#include "os/os.h"

enum {
    OPEN,
    HELD,
    SLEEPERS,
};

/* ---- ranks --------------------------------------------------------------------------------- */

#if defined(NDEBUG) || defined(WF_MODEL)

static void rank_take(uint32_t rank)
{
    (void)rank;
}

static void rank_drop(uint32_t rank)
{
    (void)rank;
}

#else

/* Bit r: this thread holds, or is about to take, a lock of rank r.  A set suffices: a thread never
 * holds two locks of one rank (rank 0 is not recorded), and may release in any order. */
static _Thread_local uint64_t held_ranks;

enum {
    RANK_END = 8 * sizeof(held_ranks),
};

/* A thread may hold several locks of rank 0. */
static bool is_above_all_ranks_held(uint32_t rank)
{
    return rank == 0 ? held_ranks >> 1 == 0 : held_ranks >> rank == 0;
}

static bool is_rank_held(uint32_t rank)
{
    return (held_ranks >> rank & 1) != 0;
}

/* Called before the thread waits for the lock: a wrong order panics instead of deadlocking. */
static void rank_take(uint32_t rank)
{
    WEFT_ASSERT(rank < RANK_END);
    WEFT_ASSERT(is_above_all_ranks_held(rank));
    if (rank != 0) {
        held_ranks |= (uint64_t)1 << rank;
    }
}

static void rank_drop(uint32_t rank)
{
    WEFT_ASSERT(rank == 0 || is_rank_held(rank));
    held_ranks &= ~((uint64_t)1 << rank);
}

#endif

/* ---- the lock ------------------------------------------------------------------------------ */

void wf_lock_init(struct wf_lock *lock, enum wf_lock_rank rank)
{
    wf_atomic_init(&lock->word, OPEN);
    lock->rank = rank;
}

static bool lock_take_open(struct wf_lock *lock)
{
    uint32_t found = OPEN;
    return wf_cas_acquire(&lock->word, &found, HELD); /* (os.L1) acquire */
}

/* The holder is likely to release sooner than this thread could sleep and be woken. */
static bool lock_take_spinning(struct wf_lock *lock)
{
    for (unsigned left = WF_LOCK_SPIN; left > 0; left--) {
        wf_spin_hint();
        /* relaxed: only decides whether to try; lock_take_open orders. */
        uint32_t found = wf_load_relaxed(&lock->word);
        if (found == SLEEPERS) {
            return false; /* other threads have stopped spinning and sleep */
        }
        if (found == OPEN && lock_take_open(lock)) {
            return true;
        }
    }
    return false;
}

void wf_lock_acquire(struct wf_lock *lock)
{
    rank_take(lock->rank);
    if (lock_take_open(lock) || lock_take_spinning(lock)) {
        return;
    }
    WF_JITTER();
    /* (os.L1) acquire.  Ends when the exchange follows a release; there is no bound: other threads
     * may take the lock first each time. */
    while (wf_exchange_acquire(&lock->word, SLEEPERS) != OPEN) {
        WF_REACHED("lock.sleep");
        WF_JITTER();
        (void)wf_futex_wait(&lock->word, SLEEPERS, WF_FOREVER); /* any result: try again */
    }
}

bool wf_lock_try(struct wf_lock *lock)
{
    rank_take(lock->rank);
    if (lock_take_open(lock)) {
        return true;
    }
    rank_drop(lock->rank);
    return false;
}

void wf_lock_release(struct wf_lock *lock)
{
    rank_drop(lock->rank);
    uint32_t found = wf_exchange_release(&lock->word, OPEN); /* (os.L1) release */
    WEFT_ASSERT(found != OPEN);
    WF_JITTER();
    if (found == SLEEPERS) {
        /* The next holder may have freed the lock by now.  The kernel only compares addresses: at
         * worst a waiter on an unrelated word at this address wakes spuriously. */
        (void)wf_futex_wake(&lock->word, 1);
    }
}
