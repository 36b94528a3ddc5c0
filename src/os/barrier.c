/* SPDX-License-Identifier: MIT */
/*
 * os/barrier.c - membarrier(2): one thread makes every thread of the process execute a full fence.
 * The caller pays for the system call, and each running thread for one interrupt.  The other side
 * of the pair is wf_fence_light, which emits no instruction.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

int wf_barrier_register(void)
{
    if (WF_FAULT("membarrier")) {
        return -ENOSYS;
    }
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 ? 0
                                                                                         : -errno;
}

int wf_barrier_everywhere(void)
{
    if (WF_FAULT("membarrier.later")) {
        return -EPERM;
    }
    return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 ? 0 : -errno;
}
