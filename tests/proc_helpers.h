/* SPDX-License-Identifier: MIT */
/* proc_helpers.h - memory and threads of this process, from /proc. */
#ifndef PROC_HELPERS_H
#define PROC_HELPERS_H

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

/* Mapped pages that are in memory. */
static inline size_t resident_bytes(void)
{
    return memory_use().resident;
}

/* All mapped memory. */
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

/* Threads of runtimes, by their names: sanitizers have threads of their own. */
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
        if (file != NULL) { /* or the thread has ended */
            (void)!fread(name, 1, sizeof(name) - 1, file);
            (void)fclose(file);
        }
        count += strncmp(name, "weft-", 5) == 0 ? 1 : 0;
    }
    CHECK_EQ(closedir(folder), 0);
    return count;
}

/* Waits: a thread may not have set its name yet, and the kernel may still list a joined one. A
 * wrong number hangs the test. */
static inline void expect_threads(unsigned count)
{
    while (thread_count() != count) {
        (void)sched_yield();
    }
}

#endif
