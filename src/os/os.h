/* SPDX-License-Identifier: MIT */
/*
 * os/os.h - thin Linux calls: futex, lock, threads, clock, memory, files, CPU count.
 *
 * Promises:      every call returns a value >= 0 or a negative errno; no caller reads errno.
 *                No policy: no retries except after EINTR.  Nothing is cached, except the fact that
 *                the kernel lacks or refuses a system call.
 * Must not know: queues, tasks, workers.
 * Tags:          [any] callable from any thread;  [owner] only the thread that parks in a parker;
 *                [locked lock] the caller holds the lock.
 *
 * Edges:
 *
 *   edge   from                         to                                carries
 *   os.L1  lock.c release: exchange     lock.c acquire: CAS or exchange;  the critical section
 *                                       os.h wf_lock_drain: load
 *   os.P1  park.c unpark: exchange      park.c park: CAS or exchange      what the waker wrote
 */
#ifndef WF_OS_OS_H
#define WF_OS_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/base.h"

/* ---- clock --------------------------------------------------------------------------------- */

#define WF_NS_PER_S INT64_C(1000000000)

/* The deadline of a wait without a time limit. */
#define WF_FOREVER INT64_MAX

/* [any]  Nanoseconds on CLOCK_MONOTONIC: never negative, never decreasing. */
int64_t wf_clock_now(void);

/* ---- futex --------------------------------------------------------------------------------- */

/*
 * [any]  Blocks the thread if *word == expected, until a wake or until deadline_ns on the clock of
 * wf_clock_now (WF_FOREVER: no limit).  0: woken, perhaps spuriously: the caller must check its
 * condition again.  -EAGAIN: *word != expected.  -ETIMEDOUT: the deadline has passed.  Restarts
 * after EINTR.
 */
int wf_futex_wait(wf_atomic_u32 *word, uint32_t expected, int64_t deadline_ns);

/* [any]  Wakes up to `count` threads and returns how many.  The kernel does not read the word,
 * which may even be freed memory: see wf_lock_release. */
int wf_futex_wake(wf_atomic_u32 *word, int count);

/* ---- lock ---------------------------------------------------------------------------------- */

/*
 * A mutex for the runtime's own short critical sections: one word, no allocation, blocks the
 * thread.  A holder never suspends its task, calls a user's function, or makes a blocking system
 * call.  All zero bytes with a rank is an open lock.
 *
 * In builds with assertions a thread panics if it takes a lock whose rank is not above the ranks of
 * all locks that it holds; wf_lock_try checks this too.  Rank 0, the rank of a lock of all zero
 * bytes, is the lowest.  A thread may hold several locks of rank 0 and must order them by other
 * means.
 */
struct wf_lock {
    wf_atomic_u32 word; /* [any: CAS]  0 open, 1 held, 2 held and threads may sleep on it */
    uint32_t rank;      /* [const] enum wf_lock_rank, below 64 */
};

/* [owner]  Before the lock is shared. */
void wf_lock_init(struct wf_lock *lock, enum wf_lock_rank rank);
/* [any]  Blocks the thread until it holds the lock. */
void wf_lock_acquire(struct wf_lock *lock);
/* [any]  True: the caller holds the lock.  False: another thread holds it. */
bool wf_lock_try(struct wf_lock *lock);
/* [locked lock]  Opens the lock and wakes one sleeping waiter. */
void wf_lock_release(struct wf_lock *lock);
/* [any]  Waits until the thread that holds the lock at the time of the call, if any, has released
 * it.  That thread does not access the memory of the lock afterwards, so the caller may free the
 * lock.  For a caller that was granted something under the lock and now frees the object that
 * contains the lock. */
static inline void wf_lock_drain(struct wf_lock *lock)
{
    /* (os.L1) acquire: all accesses of the last holder happen before the free. */
    if (wf_load_acquire(&lock->word) != 0) {
        wf_lock_acquire(lock);
        wf_lock_release(lock);
    }
}

/* ---- membarrier ---------------------------------------------------------------------------- */

/* [any]  Must succeed before the first wf_barrier_everywhere.  -ENOSYS, -EPERM, -EINVAL: the kernel
 * does not support membarrier, or a filter forbids it. */
int wf_barrier_register(void);
/* [any]  The slow side of an asymmetric fence: issues a membarrier.  When it returns 0 every thread
 * of the process has executed a full fence; pairs with wf_fence_light.  A negative errno: a filter
 * forbids the call, or the kernel has no memory for it. */
int wf_barrier_everywhere(void);

/* ---- parking ------------------------------------------------------------------------------- */

/* One thread, the owner, parks here until another thread unparks it.  All zero bytes: the owner is
 * not parked and no wake-up is pending. */
struct wf_parker {
    wf_atomic_u32 word; /* [any: exchange]  see os/park.c */
};

/* [owner]  Before the parker is shared. */
void wf_parker_init(struct wf_parker *parker);
/* [owner]  Blocks the thread until an unpark, or until the deadline.  Returns at once if an unpark
 * came since the last park returned.  0: unparked; -ETIMEDOUT: the deadline passed and no unpark
 * came.  Never returns spuriously. */
int wf_parker_park(struct wf_parker *parker, int64_t deadline_ns);
/* [any]  Wakes the owner, which then sees everything that the caller wrote before (os.P1).  True:
 * the owner is between wf_parker_begin_away and wf_parker_end_away, and the caller must end the
 * owner's system call.  False: the caller has nothing left to do. */
bool wf_parker_unpark(struct wf_parker *parker);

/* [owner]  For an owner that is about to sleep in a system call of its own, which waits for other
 * events too.  True: the owner may sleep, and must call wf_parker_end_away afterwards.  False: a
 * wake-up was pending and is consumed; the owner must not sleep.  A waker may act late, after
 * wf_parker_end_away.  Its action must then end the owner's next system call, as a write to an
 * eventfd does. */
bool wf_parker_begin_away(struct wf_parker *parker);
/* [owner]  After the system call.  0: woken; -ETIMEDOUT: it ended for another reason. */
int wf_parker_end_away(struct wf_parker *parker);

/* ---- threads ------------------------------------------------------------------------------- */

/* The start of a group of threads, all or none: see os/start.c.  All zero bytes: none started. */
struct wf_start {
    WF_ATOMIC(uint32_t) reports; /* [any: add]  threads that have reported success or failure */
    WF_ATOMIC(int32_t) error;    /* [any: write]  of a thread that failed; 0: none */
    wf_atomic_u32 verdict;       /* [opener: write]  0: wait; else see os/start.c */
    struct wf_parker opener;     /* where the opener waits for the reports */
};

/* [a new thread]  Reports that the thread is set up (`rc` 0) or could not be (`rc` below 0), and
 * blocks until the opener decides.  0: run; -ECANCELED: end.  `start` must outlive the call. */
int wf_start_report(struct wf_start *start, int rc);
/* [opener]  Waits for the reports of the `started` threads, and decides: they run if `rc` is 0 and
 * no thread failed, and end otherwise.  Returns `rc`, or the error of a thread. */
int wf_start_decide(struct wf_start *start, uint32_t started, int rc);

/* [any]  True: this process is a child of fork(2), and at the time of the fork its parent was
 * between wf_forked_enter and wf_forked_leave.  The other threads of the parent do not exist
 * here. */
bool wf_is_forked(void);
/* [any]  From now until wf_forked_leave, every child that fork(2) creates from this process is
 * marked: the only thread of the child calls `in_child`, and wf_is_forked returns true in the
 * child.  All callers pass the same function.  Returns 0; -EPERM: this process is itself a marked
 * child; -ENOMEM. */
int wf_forked_enter(void (*in_child)(void));
/* [any]  The reverse of wf_forked_enter. */
void wf_forked_leave(void);

struct wf_thread_options {
    const char *name;  /* truncated to WF_THREAD_NAME_MAX; NULL: the name of the caller's thread */
    size_t stack_size; /* bytes; 0: the system's default */
    int cpu;           /* if is_bound: the only CPU to run on */
    bool is_bound;
    /* Called if the thread ends by pthread_exit or pthread_cancel instead of by a return of its
     * function.  NULL: nothing is called. */
    void (*on_exit)(void);
};

/*
 * [any]  Starts a thread with all signals blocked: the library's threads handle no signal of the
 * program.  The signals that report a fault of the thread itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 * SIGTRAP, SIGSYS) keep the caller's mask.  The thread may run before *out is written; the caller
 * must join it.  NULL options: defaults.
 * -EAGAIN: the thread limit is reached, or there is no memory for the stack; -ENOMEM; -EINVAL: the
 * stack is below the system's minimum, or the CPU does not exist or is not allowed.
 */
int wf_thread_start(pthread_t *out, void *(*fn)(void *), void *arg,
                    const struct wf_thread_options *options);
/* [child of fork: its only thread]  If wf_thread_start has started the thread: unblocks all signals
 * that the caller of wf_thread_start did not block, or, if that was such a thread itself, its
 * starter. */
void wf_thread_unblock_in_child(void);
/* [any]  Blocks until the thread has ended.  -EDEADLK: it is the calling thread. */
int wf_thread_join(pthread_t thread);
/* [any]  The kernel's id of the calling thread. */
int wf_thread_id(void);
/* [any]  The current number of threads of the process; 0: unknown. */
unsigned wf_thread_count(void);
/* [any]  A number that identifies the calling thread among all live threads: an address, a multiple
 * of 16.  Cheaper than wf_thread_id: no system call. */
uintptr_t wf_thread_key(void);
/* [any]  Names the calling thread; truncates to WF_THREAD_NAME_MAX. */
int wf_thread_set_name(const char *name);
/* [any]  Binds the calling thread to one CPU.  -EINVAL: it does not exist or is not allowed. */
int wf_thread_bind(int cpu);

/* ---- CPU count ----------------------------------------------------------------------------- */

/* [any]  The number of CPUs that this process may use, at least 1: the smaller of the affinity mask
 * and the cgroup quota (v1 or v2; the smallest of the group and its ancestors), rounded up. */
unsigned wf_cpu_count(void);

/* [any]  wf_cpu_count with other files, for tests: `cgroup_file` replaces /proc/self/cgroup,
 * `mount` replaces /sys/fs/cgroup, and `affinity` is the number of CPUs in the mask. */
unsigned wf_cpu_count_in(const char *cgroup_file, const char *mount, unsigned affinity);

/* ---- memory -------------------------------------------------------------------------------- */

/* The kernel rounds every size below up to whole pages. */

/* [any]  Maps zeroed, private, page-aligned memory; the caller unmaps it.  -EINVAL: size 0;
 * -ENOMEM. */
int wf_memory_map(void **out, size_t size);
/* [any]  Unmaps a mapping or some of its pages.  -EINVAL: not page-aligned, or size 0; -ENOMEM: a
 * hole would exceed the limit of mappings, nothing was unmapped. */
int wf_memory_unmap(void *memory, size_t size);
/* [any]  Returns the pages to the kernel; they read as zero afterwards. */
int wf_memory_discard(void *memory, size_t size);
/* [any]  wf_memory_discard for several ranges in one call (Linux 6.13), with one TLB shootdown for
 * all ranges instead of one for each (Linux 6.16).  A negative errno: the kernel does not support
 * it, or discarded only some of the ranges. */
int wf_memory_discard_ranges(const struct iovec *ranges, size_t count);
/* [any]  Makes every access to the pages fault.  Costs up to two mappings; a process may have
 * wf_mapping_count_max().  -ENOMEM: that limit is exceeded, or nothing is mapped there. */
int wf_memory_protect(void *memory, size_t size);
/* [any]  Makes every access to the pages fault, by a marker in the page table instead of a mapping
 * (Linux 6.13).  The contents are lost.  wf_memory_discard keeps the marker; unmapping removes it.
 * -EINVAL: the kernel does not support it, or the pages are locked into memory. */
int wf_memory_guard(void *memory, size_t size);
/* [any]  True when wf_memory_guard works.  Tests it on a page, because emulators return 0 for
 * advice that they do not know. */
bool wf_memory_can_guard(void);
/* [any]  Forbids huge pages, which would allocate memory for pages that are never touched.
 * -EINVAL: the kernel has no huge pages. */
int wf_memory_no_huge_pages(void *memory, size_t size);
/* [any]  Sets pages[i] to 1 if page i of `memory` is resident, else to 0.  -ENOMEM: a page of the
 * range is not mapped. */
int wf_memory_resident(const void *memory, size_t size, unsigned char *pages);
/* [any]  The kernel's limit of mappings of a process (vm.max_map_count), or its default if it
 * cannot be read. */
size_t wf_mapping_count_max(void);
/* [any]  Bytes of a page. */
size_t wf_page_size(void);

/* ---- files --------------------------------------------------------------------------------- */

/* [any]  Writes all bytes: continues after short writes and EINTR, and blocks as long as the
 * descriptor does.  Returns 0, or the error of write(2), after which some bytes may be written;
 * -EIO also if the kernel writes nothing without an error.  Raises no SIGPIPE. */
int wf_file_write(int fd, const void *bytes, size_t size);

#endif
