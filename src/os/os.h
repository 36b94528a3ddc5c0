/* SPDX-License-Identifier: MIT */
/*
 * os/os.h - thin Linux calls: futex, lock, threads, clock, memory, CPU count.
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

#include "base/base.h"

/* ---- clock --------------------------------------------------------------------------------- */

/* Nanoseconds on CLOCK_MONOTONIC. */
#define WF_FOREVER INT64_MAX

/* [any] */
int64_t wf_clock_now(void);

/* ---- futex --------------------------------------------------------------------------------- */

/*
 * [any]  Sleeps while *word == expected, until a wake, or until deadline_ns on the clock above
 * (WF_FOREVER: no limit).  0: woken, perhaps spuriously: look again.  -EAGAIN: the word differed.
 * -ETIMEDOUT: the deadline passed (at once for one in the past).  EINTR is swallowed.
 */
int wf_futex_wait(wf_atomic_u32 *word, uint32_t expected, int64_t deadline_ns);

/* [any]  Wakes at most `count` threads; gives how many. */
int wf_futex_wake(wf_atomic_u32 *word, int count);

/* ---- lock ---------------------------------------------------------------------------------- */

/*
 * A mutex for the runtime's own short critical sections: one word, no allocation, blocks the
 * thread.  Never held across a suspension, a user's function or a system call that waits.
 * All zero bytes with a rank is an open lock.
 */
struct wf_lock {
    wf_atomic_u32 word; /* [any: CAS]  0 open, 1 held, 2 held and somebody may sleep */
    uint32_t rank;      /* [const] enum wf_lock_rank */
};

/* [any] */
void wf_lock_init(struct wf_lock *lock, enum wf_lock_rank rank);
void wf_lock_acquire(struct wf_lock *lock);
bool wf_lock_try(struct wf_lock *lock);
/* [locked lock] */
void wf_lock_release(struct wf_lock *lock);

/* ---- threads ------------------------------------------------------------------------------- */

struct wf_thread_options {
    const char *name;  /* NULL: inherits; longer than WF_THREAD_NAME_MAX: cut */
    size_t stack_size; /* bytes; 0: the system's */
    int cpu;           /* the one CPU to run on, if is_bound */
    bool is_bound;
};

/* [any]  Starts a thread with all signals blocked (the library takes no signal of the program's).
 * NULL options = defaults.  -EAGAIN: no more threads; -EINVAL: absurd stack size or CPU. */
int wf_thread_start(pthread_t *out, void *(*fn)(void *), void *arg,
                    const struct wf_thread_options *options);
/* [any]  Waits for the thread's end. */
int wf_thread_join(pthread_t thread);
/* [any]  The kernel's id of the calling thread. */
int wf_thread_id(void);
/* [any]  Name and affinity of the calling thread. */
int wf_thread_set_name(const char *name);
int wf_thread_bind(int cpu); /* -EINVAL: no such CPU, or not ours to use */

/* ---- CPU count ----------------------------------------------------------------------------- */

/* [any]  CPUs this process may use: the smaller of the affinity mask and the cgroup quota (v1 or
 * v2, the tightest of the group and its ancestors), rounded up; at least 1. */
unsigned wf_cpu_count(void);

/* [any]  The same from given roots, for tests: `cgroup_file` stands for /proc/self/cgroup, `mount`
 * for /sys/fs/cgroup; `affinity` is the number of CPUs in the mask. */
unsigned wf_cpu_count_in(const char *cgroup_file, const char *mount, unsigned affinity);

/* ---- memory -------------------------------------------------------------------------------- */

/* [any]  Zeroed, private, page-aligned; `size` is rounded up to pages.  -EINVAL: 0; -ENOMEM. */
int wf_memory_map(void **out, size_t size);
int wf_memory_unmap(void *memory, size_t size);
/* [any]  Gives the pages back to the kernel; they read as zero afterwards. */
int wf_memory_discard(void *memory, size_t size);
/* [any]  Makes the pages fault on any access. */
int wf_memory_protect(void *memory, size_t size);
/* [any]  Bytes. */
size_t wf_page_size(void);

#endif
