/* SPDX-License-Identifier: MIT */
/*
 * weft/sync.h - locks for tasks and threads: mutex, rwlock, semaphore, condition variable.
 *
 * Zeros:    an object of all zeros is initialised; an object that needs a number has a
 *           WEFT_*_INIT(number).  No object needs clean-up, none allocates, and each fits in a
 *           cache line.  An object must not be moved or freed while it is locked or while a call on
 *           it is in progress.
 * Waiting:  suspends the calling task, never its worker's thread.  A wait on a non-worker thread
 *           blocks that thread.  Calls named try never wait, and need no runtime.
 * Errors:   a wait of a task returns -ECANCELED when the task is cancelled and -ETIMEDOUT when its
 *           deadline passes.  On error the state is unchanged: the lock is not held, no permit was
 *           taken.  A call that need not wait succeeds even if the task was cancelled.  No call has
 *           a timeout parameter; use the task's deadline:
 *
 *               weft_time old = weft_deadline_tighten(weft_time_after(5 * WEFT_MILLISECOND));
 *               int rc = weft_sem_acquire(&connections, 1);
 *               weft_deadline_set(old);
 *
 *           A non-worker thread has no deadline and cannot be cancelled; it waits without limit.  A
 *           cancelled task that must lock something to clean up raises a shield for that:
 *           weft_shield_begin(), weft_mutex_lock ... weft_shield_end().
 * Grants:   what was granted to a waiting task belongs to it, even if the task is cancelled at that
 *           moment: the call succeeds, and the task's next wait returns -ECANCELED.
 * Order:    waiters are served first come, first served, except by the mutex: see there.
 * Memory:   what a caller did before an unlock, a release, a notify, a barrier wait or a done is
 *           visible to each task and thread that this call lets continue.
 */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/types.h>

WEFT_BEGIN

/* ---- mutex ----------------------------------------------------------------------------------- */

/*
 * Held by the task or non-worker thread that locked it, until this holder unlocks it.  The holder
 * may wait for anything else meanwhile; a task that holds the mutex may continue on another thread.
 *
 * Order: unlock wakes the longest waiter, which then tries to lock.  A running task may take the
 * mutex before that waiter does: a free mutex is not reserved for a waiter that does not run yet.
 * If a waiter has lost the mutex once in this way, an unlock hands the mutex over to it, so no
 * waiter waits for ever.
 *
 * A task that ends, by return, by weft_fail or by a forced close of its runtime, releases the
 * mutexes that it holds; this is reported like an unobserved failure, with -EOWNERDEAD.  A thread
 * that ends leaves its mutexes locked.
 */
typedef struct weft_mutex {
    uint64_t opaque[7];
} weft_mutex;

/*
 * Locks the mutex; waits until it can.
 *
 * 0            the caller holds it
 * -EDEADLK     the caller holds it already
 * -ECANCELED   the task was cancelled; the mutex is not held
 * -ETIMEDOUT   the task's deadline passed; the mutex is not held
 */
WEFT_API int weft_mutex_lock(weft_mutex *mutex) WEFT_NONNULL(1);

/* Locks the mutex if it is free; never waits.  Returns 0; -EAGAIN: another holder has it; -EDEADLK:
 * the caller holds it already. */
WEFT_API int weft_mutex_try_lock(weft_mutex *mutex) WEFT_NONNULL(1);

/* Unlocks the mutex; never waits.  -EPERM: the caller does not hold it. */
WEFT_API int weft_mutex_unlock(weft_mutex *mutex) WEFT_NONNULL(1);

/* Returns 1 if the mutex is locked at this moment, else 0. */
WEFT_API int weft_mutex_is_locked(const weft_mutex *mutex) WEFT_NONNULL(1);

/* ---- rwlock ---------------------------------------------------------------------------------- */

/*
 * Held by many readers or by one writer.  Requests are served in order of arrival: a waiting writer
 * holds back readers that arrive later, and consecutive waiting readers are admitted together.
 *
 * A task must not read-lock it twice: a writer that arrives in between waits for the first lock,
 * and the second lock waits for the writer.
 *
 * A task that ends while it holds the write lock releases it, as with a mutex.  Readers are counted
 * but not recorded: a task that ends with a read lock, by weft_fail or by a forced close, leaves
 * the rwlock read-locked.  Writers then wait until another task or thread unlocks it in its place,
 * which is allowed.  A task that may fail while it reads should unlock in a cleanup.
 */
typedef struct weft_rwlock {
    uint64_t opaque[8];
} weft_rwlock;

/*
 * Lock it for reading, or for writing; wait until they can.
 *
 * 0            the caller holds it
 * -EDEADLK     the caller holds the write lock already
 * -ECANCELED   the task was cancelled; the lock is not held
 * -ETIMEDOUT   the task's deadline passed; the lock is not held
 */
WEFT_API int weft_rwlock_rdlock(weft_rwlock *rwlock) WEFT_NONNULL(1);
WEFT_API int weft_rwlock_wrlock(weft_rwlock *rwlock) WEFT_NONNULL(1);

/* Lock it for reading, or for writing, if that is possible at once; never wait.  Return 0; -EAGAIN:
 * it is locked, also by the caller, or others wait for it. */
WEFT_API int weft_rwlock_try_rdlock(weft_rwlock *rwlock) WEFT_NONNULL(1);
WEFT_API int weft_rwlock_try_wrlock(weft_rwlock *rwlock) WEFT_NONNULL(1);

/* Releases one read lock, or the caller's write lock; never waits.  -EPERM: another holder has the
 * write lock, or it is not locked. */
WEFT_API int weft_rwlock_unlock(weft_rwlock *rwlock) WEFT_NONNULL(1);

/* ---- semaphore ------------------------------------------------------------------------------- */

/* A number of permits.  Permits have no owner: any task or thread may release what another one
 * acquired. */
typedef struct weft_sem {
    uint64_t opaque[4];
} weft_sem;

/* The maximum number of permits of one semaphore. */
#define WEFT_SEM_PERMITS_MAX UINT32_MAX

/* Initialiser with an initial number of permits; all zeros has none. */
/* clang-format off */
#define WEFT_SEM_INIT(permits) {{(uint64_t)(uint32_t)(permits) << 1, 0, 0, 0}}
/* clang-format on */

/* Initialises a semaphore that is not static, before its first use. */
WEFT_API int weft_sem_init(weft_sem *sem, uint32_t permits) WEFT_NONNULL(1);

/*
 * Takes `count` permits at once; waits until that many are free and all earlier waiters are served.
 * A small request does not overtake an earlier large one.
 *
 * 0            the caller has the permits
 * -EINVAL      a count of 0
 * -ECANCELED   the task was cancelled; no permit was taken
 * -ETIMEDOUT   the task's deadline passed; no permit was taken
 */
WEFT_API int weft_sem_acquire(weft_sem *sem, uint32_t count) WEFT_NONNULL(1);

/* Takes `count` permits if they are free; never waits.  Returns 0; -EAGAIN: there are fewer, or
 * others wait; -EINVAL: a count of 0. */
WEFT_API int weft_sem_try_acquire(weft_sem *sem, uint32_t count) WEFT_NONNULL(1);

/* Adds `count` permits; never waits.  -EINVAL: a count of 0; -EOVERFLOW: there would be more than
 * WEFT_SEM_PERMITS_MAX; no permit was added. */
WEFT_API int weft_sem_release(weft_sem *sem, uint32_t count) WEFT_NONNULL(1);

/* Returns the number of free permits at this moment. */
WEFT_API int64_t weft_sem_permits(const weft_sem *sem) WEFT_NONNULL(1);

/* ---- condition variable ---------------------------------------------------------------------- */

/* Lets tasks and threads wait until a condition that a mutex protects may have become true. */
typedef struct weft_cond {
    uint64_t opaque[4];
} weft_cond;

/*
 * Unlocks the mutex, waits for a signal, and locks the mutex again, whatever the result.  The
 * condition may have become false again meanwhile, so:
 *
 *     weft_mutex_lock(&mutex);
 *     while (rc == 0 && is_empty(queue)) {
 *         rc = weft_cond_wait(&not_empty, &mutex);
 *     }
 *
 * 0            it was signalled
 * -EPERM       the caller does not hold the mutex
 * -ECANCELED   the task was cancelled; the mutex is held
 * -ETIMEDOUT   the task's deadline passed; the mutex is held
 */
WEFT_API int weft_cond_wait(weft_cond *cond, weft_mutex *mutex) WEFT_NONNULL(1, 2);

/* Wake the longest waiter, or all waiters.  May be called with or without the mutex; never wait. */
WEFT_API int weft_cond_signal(weft_cond *cond) WEFT_NONNULL(1);
WEFT_API int weft_cond_broadcast(weft_cond *cond) WEFT_NONNULL(1);

WEFT_END

#endif
