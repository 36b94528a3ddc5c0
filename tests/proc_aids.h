/* SPDX-License-Identifier: MIT */
/* proc_aids.h - what the kernel says about the memory of this process. */
#ifndef PROC_AIDS_H
#define PROC_AIDS_H

#include <stdio.h>

#include "os/os.h"
#include "tap.h"

struct memory_use {
    size_t all;
    size_t resident;
};

static inline struct memory_use memory_use(void)
{
    unsigned long all = 0;
    unsigned long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL);
    CHECK_EQ(fscanf(file, "%lu %lu", &all, &resident), 2); // NOLINT(cert-err34-c): the kernel's
    (void)fclose(file);
    return (struct memory_use){all * wf_page_size(), resident * wf_page_size()};
}

/* Pages that have memory behind them. */
static inline size_t resident_bytes(void)
{
    return memory_use().resident;
}

/* Everything that is mapped. */
static inline size_t virtual_bytes(void)
{
    return memory_use().all;
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
