/* SPDX-License-Identifier: MIT */
/* proc_aids.h - what the kernel says about the memory of this process. */
#ifndef PROC_AIDS_H
#define PROC_AIDS_H

#include <stdio.h>

#include "os/os.h"
#include "tap.h"

static inline size_t resident_bytes(void)
{
    unsigned long all = 0;
    unsigned long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL);
    CHECK_EQ(fscanf(file, "%lu %lu", &all, &resident), 2); // NOLINT(cert-err34-c): the kernel's
    (void)fclose(file);
    return resident * wf_page_size();
}

static inline size_t mapping_count(void)
{
    size_t count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file != NULL);
    for (int c; (c = getc(file)) != EOF;) {
        count += c == '\n' ? 1 : 0;
    }
    (void)fclose(file);
    return count;
}

#endif
