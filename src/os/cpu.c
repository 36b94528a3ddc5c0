/* SPDX-License-Identifier: MIT */
/*
 * os/cpu.c - how many CPUs are really ours.
 *
 * Two limits hold at once: the affinity mask (which includes cpusets) and the CPU quota of the
 * control group, the usual limit of a container: a share of time on any CPU.  More threads than
 * the quota pays for would all be stopped together until the next period.
 *
 * A quota binds a group and everything below it, so every ancestor is read and the tightest wins.
 * The walk to the root also serves containers that show their own group as the root of the mount
 * and yet name it by its path on the host: the levels that are missing here are passed over.
 *
 *   version 2   <mount>/<group>/cpu.max             "<quota> <period>", quota "max": none
 *   version 1   <mount>/<controllers>/<group>/cpu.cfs_quota_us and cpu.cfs_period_us; -1: none
 *   hybrid      both, version 2 in <mount>/unified
 *
 * Whatever is not a pair of positive numbers (max, -1, an empty, malformed or missing file) means
 * the same: no limit at this level.  A runtime must start on a machine that we did not foresee.
 *
 * Rejected: finding the mounts in /proc/self/mountinfo.  It is a parser more, for a place that no
 * system we know of uses.
 */
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"

/* Large, and the caller may be on a small stack: lives on the heap. */
struct survey {
    const char *mount;
    uint64_t cpus_max; /* the tightest quota so far, rounded up to CPUs; UINT64_MAX: none */
    char groups[WF_CGROUP_FILE_SIZE_MAX]; /* the process's groups, one a line */
    char path[PATH_MAX];                  /* the level being read, and the file in it */
};

enum {
    QUOTA,
    PERIOD,
    NUMBERS,
    VALUE_SIZE_MAX = 64, /* bytes of a file with two numbers, generously */
};

/* The whole file as a string.  False: unreadable, or longer than `size` allows: half a file could
 * say something else than the whole. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = WF_FAULT("open") ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t used = 0;
    ssize_t n = 0;
    while (used < size) { /* Ends: each turn takes at least one byte of the room. */
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

/* Reads `count` positive numbers from a file of the level that ends at path[end]. */
static bool read_numbers(struct survey *survey, size_t end, const char *file, uint64_t *numbers,
                         size_t count)
{
    const size_t room = sizeof(survey->path) - end;
    char text[VALUE_SIZE_MAX];
    int length = snprintf(survey->path + end, room, "/%s", file);
    if (length < 0 || (size_t)length >= room || !read_text(survey->path, text, sizeof(text))) {
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
    return read_numbers(survey, end, "cpu.max", numbers, NUMBERS);
}

static bool read_level_v1(struct survey *survey, size_t end, uint64_t *numbers)
{
    return read_numbers(survey, end, "cpu.cfs_quota_us", &numbers[QUOTA], 1) &&
           read_numbers(survey, end, "cpu.cfs_period_us", &numbers[PERIOD], 1);
}

/* Reads the group and all above it, up to the root of the hierarchy. */
static void survey_hierarchy(struct survey *survey, const char *hierarchy, const char *group,
                             bool (*read_level)(struct survey *, size_t, uint64_t *))
{
    const size_t root = strlen(survey->mount) + 1 + strlen(hierarchy);
    int length =
        snprintf(survey->path, sizeof(survey->path), "%s/%s%s", survey->mount, hierarchy, group);
    if (length < 0 || (size_t)length >= sizeof(survey->path)) {
        return;
    }
    for (size_t end = (size_t)length;;) { /* Ends: the path gets shorter with each turn. */
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

/* "cpu" as a whole word: cpuset and cpuacct are controllers too. */
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
    /* Of the calling thread: the threads it starts inherit it. */
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
        while (rest != NULL) { /* Ends: strsep clears `rest` behind the last line. */
            survey_line(survey, strsep(&rest, "\n"));
        }
    }
    const uint64_t cpus_max = survey->cpus_max;
    wf_free(survey);
    return cpus_max < unlimited ? (unsigned)cpus_max : unlimited;
}
