/* SPDX-License-Identifier: MIT */
/*
 * helpers.h - shared by several test programs: which assertions this build has, and a wait until a
 * thread sleeps.
 */
#ifndef HELPERS_H
#define HELPERS_H

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "tap.h"

/* A test of assertions checks builds with and without them. */
#ifndef NDEBUG
#define HAS_ASSERTS 1
#else
#define HAS_ASSERTS 0
#endif
#ifdef WF_SLOW_ASSERT
#define HAS_SLOW_ASSERTS 1
#else
#define HAS_SLOW_ASSERTS 0
#endif

/* Waits until the kernel reports that a thread of this process sleeps. The caller must know the
 * only thing on which the thread can sleep. */
static inline void wait_until_asleep(int thread_id)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread_id);
    for (;;) {
        char text[512];
        FILE *file = fopen(path, "r");
        CHECK(file != NULL);
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        (void)fclose(file);
        const char *name_end = strrchr(text, ')'); /* "<id> (<name>) <state> ..." */
        CHECK(name_end != NULL);
        if (name_end[2] == 'S') {
            return;
        }
        (void)sched_yield();
    }
}

#endif
