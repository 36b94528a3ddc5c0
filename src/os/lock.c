/* SPDX-License-Identifier: MIT */
/*
 * os/lock.c - a mutex in one word, for the runtime's own short critical sections.
 *
 * The word tells whether anybody may be asleep, so a lock without contention costs one atomic
 * instruction to take, one to leave, and no system call.
 *
 *   OPEN --acquire, try: CAS--> HELD            nobody waits
 *   any  --acquire: exchange--> SLEEPERS        found OPEN: ours; else sleep and do it again
 *   any  --release: exchange--> OPEN            found SLEEPERS: wake one
 *
 * No sleeper is forgotten: a thread falls asleep only while the word says SLEEPERS, whoever takes
 * that value away wakes one, and the one that was woken puts it back, since it cannot know whether
 * others sleep still.  The price is that the last of them wakes nobody, once.
 *
 * (L1) The release of a lock synchronises with the acquire that finds it open: the exchange in
 * wf_lock_release with the CAS or the exchange that takes the lock next.
 *
 * Rejected: pthread_mutex_t (40 bytes, and a model checker cannot see into it); a fair
 * hand-off (each would wait for a context switch while the lock stands idle).
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

/* Bit r: this thread holds, or is about to take, a lock of rank r.  A set is enough, since no two
 * locks of one rank are ever held together, and it does not mind the order of the releases. */
static _Thread_local uint64_t held_ranks;

enum {
    RANK_END = 8 * sizeof(held_ranks),
};

/* Several of rank 0 may be held together. */
static bool is_above_all_ranks_held(uint32_t rank)
{
    return rank == 0 ? held_ranks >> 1 == 0 : held_ranks >> rank == 0;
}

static bool is_rank_held(uint32_t rank)
{
    return (held_ranks >> rank & 1) != 0;
}

/* Before the lock is waited for: a wrong order is reported instead of becoming a deadlock. */
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

static bool take_open(struct wf_lock *lock)
{
    uint32_t found = OPEN;
    return wf_cas_acquire(&lock->word, &found, HELD); /* L1 */
}

/* The holder is likely to be done sooner than this thread could fall asleep. */
static bool take_spinning(struct wf_lock *lock)
{
    for (unsigned left = WF_LOCK_SPIN; left > 0; left--) {
        wf_spin_hint();
        /* relaxed: only decides whether to try; take_open orders. */
        uint32_t found = wf_load_relaxed(&lock->word);
        if (found == SLEEPERS) {
            return false; /* others gave up before us */
        }
        if (found == OPEN && take_open(lock)) {
            return true;
        }
    }
    return false;
}

void wf_lock_acquire(struct wf_lock *lock)
{
    rank_take(lock->rank);
    if (take_open(lock) || take_spinning(lock)) {
        return;
    }
    WF_JITTER();
    /* L1.  Ends when a release comes between two turns; how long that takes is up to the others. */
    while (wf_exchange_acquire(&lock->word, SLEEPERS) != OPEN) {
        WF_REACHED("lock.sleep");
        WF_JITTER();
        (void)wf_futex_wait(&lock->word, SLEEPERS, WF_FOREVER); /* any result: look again */
    }
}

bool wf_lock_try(struct wf_lock *lock)
{
    rank_take(lock->rank);
    if (take_open(lock)) {
        return true;
    }
    rank_drop(lock->rank);
    return false;
}

void wf_lock_release(struct wf_lock *lock)
{
    rank_drop(lock->rank);
    uint32_t found = wf_exchange_release(&lock->word, OPEN); /* L1 */
    WEFT_ASSERT(found != OPEN);
    WF_JITTER();
    if (found == SLEEPERS) {
        /* The next holder may have freed the lock by now.  The kernel only compares addresses, so
         * at worst somebody else's waiter looks at its word once more. */
        (void)wf_futex_wake(&lock->word, 1);
    }
}
