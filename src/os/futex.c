/* SPDX-License-Identifier: MIT */
/*
 * os/futex.c - sleeping on a word of memory.
 *
 * libc has no call for it.  FUTEX_WAIT_BITSET rather than FUTEX_WAIT: it takes a point in time
 * instead of a duration, so that a wait which a signal interrupted goes on with the same deadline
 * and never drifts.  Private: no word is shared between processes, which spares the kernel a
 * look-up.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"

_Static_assert(sizeof(wf_atomic_u32) == sizeof(uint32_t), "the kernel looks at the cell itself");
_Static_assert(sizeof(time_t) == sizeof(int64_t), "the system call takes this libc's timespec");

static int wait_once(wf_atomic_u32 *word, uint32_t expected, const struct timespec *deadline)
{
    if (WF_FAULT("futex_wait")) {
        return -EINTR;
    }
    long rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, deadline, NULL,
                      FUTEX_BITSET_MATCH_ANY);
    return rc == 0 ? 0 : -errno;
}

int wf_futex_wait(wf_atomic_u32 *word, uint32_t expected, int64_t deadline_ns)
{
    /* The kernel refuses times before its start. */
    const int64_t at_ns = deadline_ns > 0 ? deadline_ns : 0;
    const struct timespec deadline = {
        .tv_sec = at_ns / WF_NS_PER_S,
        .tv_nsec = at_ns % WF_NS_PER_S,
    };
    int rc;
    do { /* Ends: each turn needs another signal. */
        rc = wait_once(word, expected, deadline_ns == WF_FOREVER ? NULL : &deadline);
    } while (rc == -EINTR);
    return rc;
}

int wf_futex_wake(wf_atomic_u32 *word, int count)
{
    /* No fault point: for an aligned word this cannot fail. */
    long rc = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
    return rc >= 0 ? (int)rc : -errno;
}
