/* SPDX-License-Identifier: MIT */
/*
 * os/cpu.c - how many CPUs the process may use.
 *
 * Two limits apply: the affinity mask, which includes cpusets, and the CPU quota of the control
 * group, the usual limit of a container.  A quota is a share of CPU time on any CPU.  If more
 * threads run than it pays for, the kernel throttles all of them until the next period.
 *
 * A quota limits a group and all its descendants, so every ancestor is read and the smallest quota
 * applies.  The walk to the root also handles containers that mount their own group as the root but
 * name it by its path on the host: levels that do not exist here are skipped.
 *
 *   version 2   <mount>/<group>/cpu.max             "<quota> <period>", quota "max": none
 *   version 1   <mount>/<controllers>/<group>/cpu.cfs_quota_us and cpu.cfs_period_us; -1: none
 *   hybrid      both, version 2 in <mount>/unified
 *
 * Anything else than two positive numbers (max, -1, an empty, malformed or missing file) means that
 * this level has no limit.  A runtime must start on an unknown system too.
 *
 * Rejected: to find the mounts in /proc/self/mountinfo.  It takes another parser, for mount points
 * that no known system uses.
 */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

/* On the heap: it is large, and the caller may be on a small stack. */
struct survey {
    const char *mount;
    uint64_t cpus_max; /* the smallest quota so far, rounded up to CPUs; UINT64_MAX: none */
    char groups[WF_CGROUP_FILE_SIZE_MAX]; /* the contents of the cgroup file */
    char path[PATH_MAX];                  /* the current level and the file in it */
};

enum {
    QUOTA,
    PERIOD,
    NUMBERS,
    VALUE_SIZE_MAX = 64, /* bytes; two 64-bit decimal numbers take 42 */
};

/* Reads the whole file as a string.  False: it cannot be read, or does not fit into `size`: the
 * first part alone may mean something else. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = WF_FAULT("open") ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t used = 0;
    ssize_t n = 0;
    while (used < size) { /* Ends: each iteration reads at least one byte. */
        n = WF_FAULT("read") ? -1 : read(fd, text + used, size - used);
        if (n <= 0) {
            break;
        }
        used += (size_t)n;
    }
    (void)close(fd); /* nothing was written */
    if (n < 0 || used == size) {
        return false;
    }
    text[used] = '\0';
    return true;
}

/* Reads `count` positive numbers from the file `file` of the level whose path is path[0..end). */
static bool cpu_read_numbers(struct survey *survey, size_t end, const char *file, uint64_t *numbers,
                             size_t count)
{
    const size_t size = sizeof(survey->path) - end;
    char text[VALUE_SIZE_MAX];
    int length = snprintf(survey->path + end, size, "/%s", file);
    if (length < 0 || (size_t)length >= size || !read_text(survey->path, text, sizeof(text))) {
        return false;
    }
    char *rest = text;
    for (size_t i = 0; i < count; i++) {
        if (wf_parse_u64(strsep(&rest, " \n"), 1, UINT64_MAX, &numbers[i]) != 0) {
            return false;
        }
    }
    return true;
}

static bool read_level_v2(struct survey *survey, size_t end, uint64_t *numbers)
{
    return cpu_read_numbers(survey, end, "cpu.max", numbers, NUMBERS);
}

static bool read_level_v1(struct survey *survey, size_t end, uint64_t *numbers)
{
    return cpu_read_numbers(survey, end, "cpu.cfs_quota_us", &numbers[QUOTA], 1) &&
           cpu_read_numbers(survey, end, "cpu.cfs_period_us", &numbers[PERIOD], 1);
}

/* Reads the group and all its ancestors up to the root of the hierarchy. */
static void survey_hierarchy(struct survey *survey, const char *hierarchy, const char *group,
                             bool (*read_level)(struct survey *, size_t, uint64_t *))
{
    const size_t root = strlen(survey->mount) + 1 + strlen(hierarchy);
    int length =
        snprintf(survey->path, sizeof(survey->path), "%s/%s%s", survey->mount, hierarchy, group);
    if (length < 0 || (size_t)length >= sizeof(survey->path)) {
        return;
    }
    for (size_t end = (size_t)length;;) { /* Ends: each iteration shortens the path. */
        uint64_t numbers[NUMBERS];
        if (read_level(survey, end, numbers)) {
            uint64_t cpus = (numbers[QUOTA] - 1) / numbers[PERIOD] + 1;
            survey->cpus_max = cpus < survey->cpus_max ? cpus : survey->cpus_max;
        }
        survey->path[end] = '\0';
        const char *slash = strrchr(survey->path + root, '/');
        if (slash == NULL) {
            return;
        }
        end = (size_t)(slash - survey->path);
    }
}

/* Compares whole words: cpuset and cpuacct are controllers too. */
static bool lists_cpu(const char *controllers)
{
    static const char cpu[] = "cpu";
    for (;;) {
        size_t length = strcspn(controllers, ",");
        if (length == strlen(cpu) && strncmp(controllers, cpu, length) == 0) {
            return true;
        }
        if (controllers[length] == '\0') {
            return false;
        }
        controllers += length + 1;
    }
}

/* A line is "<id>:<controllers>:<group>"; the group may contain colons. */
static void survey_line(struct survey *survey, char *line)
{
    const char *id = strsep(&line, ":");
    const char *controllers = strsep(&line, ":");
    const char *group = line;
    if (group == NULL || group[0] != '/') {
        return;
    }
    if (strcmp(id, "0") == 0 && controllers[0] == '\0') {
        survey_hierarchy(survey, ".", group, read_level_v2);
        survey_hierarchy(survey, "unified", group, read_level_v2);
    } else if (lists_cpu(controllers)) {
        survey_hierarchy(survey, controllers, group, read_level_v1);
        survey_hierarchy(survey, "cpu", group, read_level_v1);
    }
}

static unsigned count_affinity(void)
{
    /* The mask of the calling thread: the threads that it starts inherit it. */
    cpu_set_t mask[WF_CPU_MAX / CPU_SETSIZE];
    if (!WF_FAULT("sched_getaffinity") && sched_getaffinity(0, sizeof(mask), mask) == 0) {
        return (unsigned)CPU_COUNT_S(sizeof(mask), mask);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

unsigned wf_cpu_count(void)
{
    return wf_cpu_count_in("/proc/self/cgroup", "/sys/fs/cgroup", count_affinity());
}

unsigned wf_cpu_count_in(const char *cgroup_file, const char *mount, unsigned affinity)
{
    const unsigned unlimited = affinity > 0 ? affinity : 1;
    struct survey *survey = wf_alloc(sizeof(*survey));
    if (survey == NULL) {
        return unlimited;
    }
    survey->mount = mount;
    survey->cpus_max = UINT64_MAX;
    if (read_text(cgroup_file, survey->groups, sizeof(survey->groups))) {
        char *rest = survey->groups;
        while (rest != NULL) { /* Ends: strsep sets `rest` to NULL after the last line. */
            survey_line(survey, strsep(&rest, "\n"));
        }
    }
    const uint64_t cpus_max = survey->cpus_max;
    wf_free(survey);
    return cpus_max < unlimited ? (unsigned)cpus_max : unlimited;
}
