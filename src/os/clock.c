/* SPDX-License-Identifier: MIT */
/*
 * os/clock.c - the one clock.  CLOCK_MONOTONIC: never set back, and the clock that futex deadlines
 * are on.  libc answers from memory shared with the kernel, so a reading costs no system call.
 */
#include <time.h>

#include "os/os.h"

int64_t wf_clock_now(void)
{
    struct timespec now;
    /* Fails only for an unknown clock or a bad address. */
    WEFT_CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (int64_t)now.tv_sec * WF_NS_PER_S + now.tv_nsec;
}
