/* SPDX-License-Identifier: MIT */
/*
 * os/os.h - thin Linux calls: futex, lock, threads, clock, memory, files, CPU count.
 *
 * Promises:      every call gives a value >= 0 or a negative errno; errno itself is read at once
 *                and never handed on.  No policy: no retries but for EINTR, no caching.
 * Must not know: queues, tasks, workers.
 * Tags:          [any] callable from any thread.
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

/* A deadline that never comes. */
#define WF_FOREVER INT64_MAX

/* [any]  Nanoseconds on CLOCK_MONOTONIC; never negative, never less than before. */
int64_t wf_clock_now(void);

/* ---- futex --------------------------------------------------------------------------------- */

/*
 * [any]  Sleeps while *word == expected, until a wake, or until deadline_ns on the clock above
 * (WF_FOREVER: no limit).  0: woken, perhaps spuriously: look again.  -EAGAIN: the word differed.
 * -ETIMEDOUT: the deadline passed (at once for one in the past).  EINTR is swallowed.
 */
int wf_futex_wait(wf_atomic_u32 *word, uint32_t expected, int64_t deadline_ns);

/* [any]  Wakes at most `count` threads; gives how many.  The word is not looked at and may even be
 * freed memory: see wf_lock_release. */
int wf_futex_wake(wf_atomic_u32 *word, int count);

/* ---- lock ---------------------------------------------------------------------------------- */

/*
 * A mutex for the runtime's own short critical sections: one word, no allocation, blocks the
 * thread.  Never held across a suspension, a user's function or a system call that waits.
 * All zero bytes with a rank is an open lock.
 *
 * In builds with assertions a thread panics that takes a lock, by wf_lock_try too, of a rank not
 * above all the ranks it holds: so it would for a second lock of the same rank.  Rank 0, that of a
 * lock that is all zeros, is the lowest, and may be held several times: whoever does so must have
 * an order of its own.
 */
struct wf_lock {
    wf_atomic_u32 word; /* [any: CAS]  0 open, 1 held, 2 held and somebody may sleep */
    uint32_t rank;      /* [const] enum wf_lock_rank, below 64 */
};

void wf_lock_init(struct wf_lock *lock, enum wf_lock_rank rank);
/* [any]  Waits as long as it takes. */
void wf_lock_acquire(struct wf_lock *lock);
/* [any]  False: somebody holds it. */
bool wf_lock_try(struct wf_lock *lock);
/* [locked lock] */
void wf_lock_release(struct wf_lock *lock);
/* [any]  Whoever held it when this was called has let go of it, and touches it no more.  For those
 * who were told something under the lock and are about to free it. */
static inline void wf_lock_pass(struct wf_lock *lock)
{
    if (wf_load_acquire(&lock->word) != 0) { /* (L1) acquire: every use of it before the free */
        wf_lock_acquire(lock);
        wf_lock_release(lock);
    }
}

/* ---- fences in all threads ------------------------------------------------------------------ */

/* [any]  Before the first of those below.  -ENOSYS, -EPERM, -EINVAL: the kernel has none. */
int wf_barrier_register(void);
/* [any]  Every thread of the process has gone through a fence when this gives 0: pairs with
 * wf_fence_light.  Else the kernel refuses, because of a filter, or has no memory for it. */
int wf_barrier_everywhere(void);

/* ---- parking ------------------------------------------------------------------------------- */

/* Where one thread, the owner, sleeps until any other wakes it.  All zero bytes: nobody sleeps, no
 * wake is pending. */
struct wf_parker {
    wf_atomic_u32 word; /* [any: exchange]  see os/park.c */
};

void wf_parker_init(struct wf_parker *parker);
/* [owner]  Sleeps until woken, or returns at once if it was woken since the last return.
 * 0: woken; -ETIMEDOUT: the deadline passed and no wake came.  Never returns without a reason. */
int wf_parker_park(struct wf_parker *parker, int64_t deadline_ns);
/* [any]  Wakes the owner; everything written before is seen by it.  True: it is in a berth, and the
 * caller has to call it there. */
bool wf_parker_unpark(struct wf_parker *parker);

/* Where a thread sleeps instead: in a system call that waits for more than to be woken. */
struct wf_berth {
    /* [owner]  Returns when called, by the deadline, for a reason of its own, or for none. */
    void (*wait)(struct wf_berth *berth, int64_t deadline_ns);
    /* [any]  Ends the wait that is on; if there is none, the next. */
    void (*call)(struct wf_berth *berth);
};
/* [owner]  Sleeps there.  0: woken; -ETIMEDOUT: back without a wake, for whatever reason. */
int wf_parker_park_in(struct wf_parker *parker, struct wf_berth *berth, int64_t deadline_ns);

/* ---- threads ------------------------------------------------------------------------------- */

struct wf_thread_options {
    const char *name;  /* NULL: inherits; longer than WF_THREAD_NAME_MAX: cut */
    size_t stack_size; /* bytes; 0: the system's */
    int cpu;           /* the one CPU to run on, if is_bound */
    bool is_bound;
};

/*
 * [any]  Starts a thread with all signals blocked: the library takes no signal of the program's.
 * Those that report a fault of the thread itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS)
 * stay as they are in the caller.  The thread may run before *out is written.
 * NULL options = defaults.  -EAGAIN: no more threads, or no memory for the stack; -ENOMEM;
 * -EINVAL: a stack below the system's minimum, no such CPU, or not ours to use.
 */
int wf_thread_start(pthread_t *out, void *(*fn)(void *), void *arg,
                    const struct wf_thread_options *options);
/* [any]  Waits for the thread's end.  -EDEADLK: its own. */
int wf_thread_join(pthread_t thread);
/* [any]  The kernel's id of the calling thread. */
int wf_thread_id(void);
/* [any]  Threads of the process at this moment.  0: it cannot be known. */
unsigned wf_thread_count(void);
/* [any]  A number that no other thread has as long as this one lives: an address, and a multiple of
 * 16.  Costs less than the id. */
uintptr_t wf_thread_key(void);
/* [any]  Name and affinity of the calling thread. */
int wf_thread_set_name(const char *name); /* cut to WF_THREAD_NAME_MAX */
int wf_thread_bind(int cpu);              /* -EINVAL: no such CPU, or not ours to use */

/* ---- CPU count ----------------------------------------------------------------------------- */

/* [any]  CPUs this process may use: the smaller of the affinity mask and the cgroup quota (v1 or
 * v2, the tightest of the group and its ancestors), rounded up; at least 1. */
unsigned wf_cpu_count(void);

/* [any]  The same from given roots, for tests: `cgroup_file` stands for /proc/self/cgroup, `mount`
 * for /sys/fs/cgroup; `affinity` is the number of CPUs in the mask. */
unsigned wf_cpu_count_in(const char *cgroup_file, const char *mount, unsigned affinity);

/* ---- memory -------------------------------------------------------------------------------- */

/* [any]  Zeroed, private, page-aligned; `size` is rounded up to pages, here and below.  -EINVAL: 0;
 * -ENOMEM. */
int wf_memory_map(void **out, size_t size);
/* [any]  All of a mapping or some of its pages.  -EINVAL: not at the start of a page, or size 0;
 * -ENOMEM: a hole in a mapping would make one mapping too many, nothing was unmapped. */
int wf_memory_unmap(void *memory, size_t size);
/* [any]  Gives the pages back to the kernel; they read as zero afterwards. */
int wf_memory_discard(void *memory, size_t size);
/* [any]  The same for several pieces at once (Linux 6.13): what the CPUs of other threads remember
 * of the pages is taken from them once, and not for each piece (Linux 6.16).  Less than 0: the
 * kernel does not know it, or not all of them went; the others may have. */
int wf_memory_discard_pieces(const struct iovec *pieces, size_t count);
/* [any]  Makes the pages fault on any access.  Costs up to two mappings, of which a process has
 * wf_mapping_count_max().  -ENOMEM: that would be one too many, or nothing is mapped there. */
int wf_memory_protect(void *memory, size_t size);
/* [any]  The same without a mapping of its own, by a note in the page table (Linux 6.13); what the
 * pages held is lost.  They stay as they are through wf_memory_discard, until they are unmapped.
 * -EINVAL: the kernel does not know it, or the pages are locked into memory. */
int wf_memory_guard(void *memory, size_t size);
/* [any]  True when wf_memory_guard works.  Tried on a page, because emulators answer 0 to advice
 * that they do not know. */
bool wf_memory_can_guard(void);
/* [any]  Forbids huge pages, which would give memory to pages nobody touched.  -EINVAL: the kernel
 * has none. */
int wf_memory_keep_small(void *memory, size_t size);
/* [any]  Sets pages[i] to 1 where page i of `memory` has memory behind it, else to 0.  -ENOMEM:
 * something in between is not mapped. */
int wf_memory_touched(const void *memory, size_t size, unsigned char *pages);
/* [any]  Mappings that the kernel allows a process (vm.max_map_count), or its usual number when it
 * does not tell. */
size_t wf_mapping_count_max(void);
/* [any]  Bytes. */
size_t wf_page_size(void);

/* ---- files --------------------------------------------------------------------------------- */

/* [any]  All of it, however often the kernel takes only some or a signal comes in between; waits as
 * long as the descriptor makes it wait.  Else the error of write, when some may be out already;
 * -EIO too when it takes nothing and gives no reason. */
int wf_file_write(int fd, const void *bytes, size_t size);

#endif
