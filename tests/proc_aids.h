/* SPDX-License-Identifier: MIT */
/* proc_aids.h - what the kernel says about the memory and the threads of this process. */
#ifndef PROC_AIDS_H
#define PROC_AIDS_H

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

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

/* Threads of runtimes, by their names: sanitizers have some of their own. */
static inline unsigned thread_count(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder != NULL);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[300];
        char name[16] = "";
        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL) { /* or it has gone meanwhile */
            (void)!fread(name, 1, sizeof(name) - 1, file);
            (void)fclose(file);
        }
        count += strncmp(name, "weft-", 5) == 0 ? 1 : 0;
    }
    CHECK_EQ(closedir(folder), 0);
    return count;
}

/* Waits: a thread may not have taken its name yet, and the kernel may not have forgotten one that
 * was joined.  One that is missing or too many hangs the test. */
static inline void expect_threads(unsigned count)
{
    while (thread_count() != count) {
        (void)sched_yield();
    }
}

#endif
