/* SPDX-License-Identifier: MIT */
/*
 * weft/sync.h - what tasks and threads wait for each other with.
 *
 * Zeros:    an object that is all zeros is ready; what needs a number has a WEFT_*_INIT(number).
 *           None needs an end, none allocates, and each is at most a cache line.  It must not be
 *           moved or freed while it is locked, or somebody is inside a call with it.
 * Waiting:  suspends the calling task, never its worker's thread; called from a thread that is no
 *           worker it blocks that thread.  The calls whose names begin with try never wait, and
 *           need no runtime at all.
 * Ends:     a wait of a task ends with -ECANCELED when the task is cancelled, and with -ETIMEDOUT
 *           when its deadline comes; nothing has changed then: who goes on after a lock that was
 *           not 0 goes on without it.  A call that need not wait succeeds all the same.  None has
 *           a time limit of its own:
 *
 *               weft_time old = weft_deadline_sooner(weft_in(5 * WEFT_MILLISECOND));
 *               int rc = weft_sem_acquire(&seats, 1);
 *               weft_deadline(old);
 *
 *           A foreign thread has no deadline and cannot be cancelled: it waits as long as it takes.
 *           Who was cancelled and has to lock something to tidy up stands behind a shield for that:
 *           weft_shield(1), weft_mutex_lock ... weft_shield(0).
 * Grants:   what was given to a task that waits is the task's, even if it is cancelled at that very
 *           moment: the call succeeds, and the next one that waits says -ECANCELED.
 * Order:    who waits longest is served first, but for the mutex, which says why not.
 * Memory:   what was done before an unlock, a release, a notify, an arrival or a done is seen by
 *           whoever the call lets go on.
 */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/types.h>

WEFT_BEGIN

/* ---- mutex ----------------------------------------------------------------------------------- */

/*
 * Belongs to the task, or foreign thread, that has locked it, until that one unlocks it.  A task
 * may wait for anything else while it has one, and may go on in another thread.
 *
 * Who unlocks lets the longest waiting one try, while others may still be faster: a lock that is
 * free is never kept for somebody who does not run yet.  One that was too late a few times gets it
 * handed over, so that nobody waits for ever.
 *
 * A task that ends, by return or weft_fail or because its runtime is closed by force, unlocks what
 * it holds; this is reported like a failure that nobody saw, with -EOWNERDEAD.  A thread that ends
 * leaves its mutexes locked.
 */
typedef struct weft_mutex {
    uint64_t private_data[6];
} weft_mutex;

/*
 * Locks it; waits until that is possible.
 *
 * 0            it is locked
 * -EINVAL      NULL
 * -EDEADLK     the caller has it already
 * -ECANCELED   the task was asked to end
 * -ETIMEDOUT   the task's deadline came first
 */
WEFT_API int weft_mutex_lock(weft_mutex *mutex);

/* The same without waiting.  -EAGAIN: somebody else has it. */
WEFT_API int weft_mutex_try_lock(weft_mutex *mutex);

/* Unlocks it.  -EPERM: the caller does not have it; -EINVAL: NULL. */
WEFT_API int weft_mutex_unlock(weft_mutex *mutex);

/* 1: somebody has it at this moment; 0: nobody.  -EINVAL: NULL. */
WEFT_API int weft_mutex_is_locked(const weft_mutex *mutex);

/* ---- rwlock ---------------------------------------------------------------------------------- */

/*
 * Many who read at the same time, or one who writes.  In order of arrival: a writer that waits
 * keeps readers that come later waiting, and readers that wait together are let in together.
 *
 * So a task must not read-lock it twice: a writer that comes in between would wait for the first,
 * and the second for the writer.
 *
 * A task that ends while it writes unlocks it, as with a mutex.  Who reads is only counted, not
 * known: a task that ends while it reads, by weft_fail or by force, leaves it read-locked, and
 * writers wait until somebody else unlocks it in its place, which anybody may.  A task that may
 * fail while it reads unlocks it in a cleanup.
 */
typedef struct weft_rwlock {
    uint64_t private_data[7];
} weft_rwlock;

/*
 * Locks it for reading, or for writing; waits until that is possible.
 *
 * 0            it is locked
 * -EINVAL      NULL
 * -EDEADLK     the caller writes already
 * -ECANCELED   the task was asked to end
 * -ETIMEDOUT   the task's deadline came first
 */
WEFT_API int weft_rwlock_read(weft_rwlock *rwlock);
WEFT_API int weft_rwlock_write(weft_rwlock *rwlock);

/* The same without waiting.  -EAGAIN: it is locked, or others wait. */
WEFT_API int weft_rwlock_try_read(weft_rwlock *rwlock);
WEFT_API int weft_rwlock_try_write(weft_rwlock *rwlock);

/* Takes one lock back, whichever the caller has.  -EPERM: somebody else writes, or nobody has it;
 * -EINVAL: NULL. */
WEFT_API int weft_rwlock_unlock(weft_rwlock *rwlock);

/* ---- semaphore ------------------------------------------------------------------------------- */

/* A number of permits: seats, connections, slots.  Nobody owns a permit: who releases one need not
 * be who acquired it. */
typedef struct weft_sem {
    uint64_t private_data[4];
} weft_sem;

/* Of one semaphore, at most. */
#define WEFT_PERMITS_MAX UINT32_MAX

/* With so many permits at first; all zeros has none. */
/* clang-format off */
#define WEFT_SEM_INIT(permits) {{(uint64_t)(uint32_t)(permits) << 1, 0, 0, 0}}
/* clang-format on */

/* The same for one that is not static.  Nobody uses it yet.  -EINVAL: NULL. */
WEFT_API int weft_sem_init(weft_sem *sem, uint32_t permits);

/*
 * Takes so many permits, all at once; waits until there are as many and all who came before have
 * theirs.  A request for many is not passed by small ones that come later.
 *
 * 0            it has them
 * -EINVAL      NULL, or a count of 0
 * -ECANCELED   the task was asked to end
 * -ETIMEDOUT   the task's deadline came first
 */
WEFT_API int weft_sem_acquire(weft_sem *sem, uint32_t count);

/* The same without waiting.  -EAGAIN: there are not as many, or others wait. */
WEFT_API int weft_sem_try_acquire(weft_sem *sem, uint32_t count);

/* Gives so many permits.  -EINVAL: NULL, or a count of 0; -EOVERFLOW: it would have more than
 * WEFT_PERMITS_MAX, and has as many as before. */
WEFT_API int weft_sem_release(weft_sem *sem, uint32_t count);

/* How many nobody has taken, at this moment.  -EINVAL: NULL. */
WEFT_API int64_t weft_sem_permits(const weft_sem *sem);

/* ---- condition variable ---------------------------------------------------------------------- */

/* Where those wait for whom something under a mutex is not as they need it. */
typedef struct weft_cond {
    uint64_t private_data[4];
} weft_cond;

/*
 * Unlocks the mutex, waits for a signal, and locks the mutex again, whatever the result.  What was
 * waited for may have changed again meanwhile, so:
 *
 *     weft_mutex_lock(&mutex);
 *     while (rc == 0 && is_empty(queue)) {
 *         rc = weft_cond_wait(&not_empty, &mutex);
 *     }
 *
 * 0            there was a signal
 * -EINVAL      NULL
 * -EPERM       the caller does not have the mutex
 * -ECANCELED   the task was asked to end
 * -ETIMEDOUT   the task's deadline came first
 */
WEFT_API int weft_cond_wait(weft_cond *cond, weft_mutex *mutex);

/* Lets the longest waiting one go on, or all.  With or without the mutex.  -EINVAL: NULL. */
WEFT_API int weft_cond_signal(weft_cond *cond);
WEFT_API int weft_cond_broadcast(weft_cond *cond);

WEFT_END

#endif
