/* SPDX-License-Identifier: MIT */
/*
 * os/clock.c - the only clock.  CLOCK_MONOTONIC never goes back, and futex deadlines use it.  libc
 * reads it through the vDSO, without a system call.
 */
#include <time.h>

#include "os/os.h"

int64_t wf_clock_now(void)
{
    struct timespec now;
    /* It fails only for an unknown clock or a bad address. */
    WEFT_CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * WF_NS_PER_S + now.tv_nsec;
}
