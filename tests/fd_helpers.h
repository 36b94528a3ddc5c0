/* SPDX-License-Identifier: MIT */
/*
 * fd_helpers.h - the open descriptors of the process: how many there are, and how to use them up.
 *
 * The C library opens a descriptor for a moment in any thread, for example to read the number of
 * CPUs when the ninth thread of the process makes an arena for malloc.  Such a descriptor is
 * transient: it is a file below /sys or /proc.  A test must neither count it nor take its number
 * for one that stays in use.
 */
#ifndef FD_HELPERS_H
#define FD_HELPERS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tap.h"

/* What a descriptor number refers to. */
enum fd_use { FD_FREE, FD_TRANSIENT, FD_IN_USE };

/* `name` is the entry of a descriptor in the open directory /proc/self/fd, or its path. */
static inline enum fd_use fd_use_of(int directory, const char *name)
{
    char link[8] = "";
    if (readlinkat(directory, name, link, sizeof(link) - 1) <= 0) {
        return FD_FREE;
    }
    const bool is_transient = strncmp(link, "/sys/", 5) == 0 || strncmp(link, "/proc/", 6) == 0;
    return is_transient ? FD_TRANSIENT : FD_IN_USE;
}

static inline bool fd_is_transient(int fd)
{
    char path[32];
    CHECK(snprintf(path, sizeof(path), "/proc/self/fd/%d", fd) < (int)sizeof(path));
    return fd_use_of(AT_FDCWD, path) == FD_TRANSIENT;
}

static inline bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0 && !fd_is_transient(fd);
}

/* The number of open descriptors, except transient ones.  The folder lists all names at once: a
 * name without a link was a transient descriptor, and is closed by now. */
static inline size_t open_count(void)
{
    size_t count = 0;
    struct dirent *entry;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    while ((entry = readdir(folder)) != NULL) { // NOLINT(concurrency-mt-unsafe): our own stream
        count += fd_use_of(dirfd(folder), entry->d_name) == FD_IN_USE ? 1 : 0;
    }
    CHECK_EQ(closedir(folder), 0);
    return count;
}

/* All descriptors of the process are in use from shortage_begin to shortage_end. */
struct shortage {
    struct rlimit before;
    int taken[64];
    size_t count;
};

/* Takes every free descriptor below the limit.  Returns how many there were. */
static inline size_t shortage_fill(struct shortage *shortage)
{
    const size_t count = shortage->count;
    for (;;) { /* bounded by the limit, which shortage_begin has set */
        const int fd = dup(STDIN_FILENO);
        if (fd < 0) {
            CHECK_EQ(errno, EMFILE);
            return shortage->count - count;
        }
        CHECK(shortage->count < sizeof(shortage->taken) / sizeof(shortage->taken[0]));
        shortage->taken[shortage->count++] = fd;
    }
}

/* Whether a descriptor below the limit is transient. */
static inline bool shortage_has_transient(int limit)
{
    for (int fd = 0; fd < limit; fd++) {
        if (fd_is_transient(fd)) {
            return true;
        }
    }
    return false;
}

/* Uses up all descriptors.  A transient descriptor becomes free later, so this waits for its end
 * and takes its number too; while all numbers are taken, no other is opened. */
static inline void shortage_begin(struct shortage *shortage)
{
    shortage->count = 0;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &shortage->before), 0);
    const int free_fd = dup(STDIN_FILENO);
    CHECK(free_fd >= 0);
    CHECK_EQ(close(free_fd), 0);
    struct rlimit limit = shortage->before;
    limit.rlim_cur = (rlim_t)free_fd + 32; /* above the numbers in use, among which holes are few */
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    (void)shortage_fill(shortage);
    while (shortage_has_transient((int)limit.rlim_cur) || shortage_fill(shortage) > 0) {
        (void)sched_yield();
    }
}

/* Frees one descriptor; the limit stays. */
static inline void shortage_relieve(struct shortage *shortage)
{
    CHECK(shortage->count > 0);
    CHECK_EQ(close(shortage->taken[--shortage->count]), 0);
}

static inline void shortage_end(struct shortage *shortage)
{
    while (shortage->count > 0) {
        shortage_relieve(shortage);
    }
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &shortage->before), 0);
}

#endif /* FD_HELPERS_H */
