/* SPDX-License-Identifier: MIT */
/*
 * os/futex.c - futex(2), for which libc has no wrapper.
 *
 * FUTEX_WAIT_BITSET instead of FUTEX_WAIT: it takes an absolute deadline, so a wait that a signal
 * interrupted restarts with the same deadline.  Private: no word is shared between processes, and
 * the kernel need not look up the page.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"

_Static_assert(sizeof(wf_atomic_u32) == sizeof(uint32_t), "the kernel reads the cell itself");
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
    /* The kernel rejects negative times. */
    const int64_t at_ns = deadline_ns > 0 ? deadline_ns : 0;
    const struct timespec deadline = {
        .tv_sec = at_ns / WF_NS_PER_S,
        .tv_nsec = at_ns % WF_NS_PER_S,
    };
    int rc;
    do { /* Ends: each iteration needs another signal. */
        rc = wait_once(word, expected, deadline_ns == WF_FOREVER ? NULL : &deadline);
    } while (rc == -EINTR);
    return rc;
}

int wf_futex_wake(wf_atomic_u32 *word, int count)
{
    /* No fault point: this cannot fail for an aligned word. */
    long rc = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
    return rc >= 0 ? (int)rc : -errno;
}
