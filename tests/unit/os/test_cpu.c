/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the number of CPUs respects the affinity mask and the CPU quota of every control group
 *         above the process, in all layouts that containers use, and is never 0.
 * Method: a table; each row is written as files into a directory that replaces the kernel's.  Then
 *         every call that reads them fails in turn.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helpers.h"
#include "os/os.h"

enum { FILES_MAX = 6, AFFINITY = 8 };

struct row {
    const char *name;
    const char *groups; /* the text of /proc/self/cgroup; NULL: the file is missing */
    struct {
        const char *path; /* below the mount */
        const char *text;
    } files[FILES_MAX];
    unsigned cpus; /* expected, with AFFINITY CPUs in the mask */
};

/* ---- directories --------------------------------------------------------------------------- */

static char root[] = "/tmp/weft-cpu-XXXXXX";

static void root_new(void)
{
    memcpy(root, "/tmp/weft-cpu-XXXXXX", sizeof(root));
    CHECK(mkdtemp(root) != NULL);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static void root_remove(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    CHECK_EQ(nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* Writes root/path, and creates its folders. */
static void write_file(const char *path, const char *text)
{
    char full[PATH_MAX];
    CHECK(snprintf(full, sizeof(full), "%s/%s", root, path) < (int)sizeof(full));
    for (char *slash = strchr(full + sizeof(root), '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        CHECK(mkdir(full, S_IRWXU) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    CHECK(file != NULL);
    CHECK_EQ(fwrite(text, 1, strlen(text), file), strlen(text));
    CHECK_EQ(fclose(file), 0);
}

static unsigned count_with_affinity(unsigned affinity)
{
    char groups[64];
    char mount[64];
    (void)snprintf(groups, sizeof(groups), "%s/groups", root);
    (void)snprintf(mount, sizeof(mount), "%s/mount", root);
    return wf_cpu_count_in(groups, mount, affinity);
}

static void write_row(const struct row *row)
{
    root_new();
    if (row->groups != NULL) {
        write_file("groups", row->groups);
    }
    for (size_t i = 0; i < FILES_MAX && row->files[i].path != NULL; i++) {
        char path[PATH_MAX];
        CHECK(snprintf(path, sizeof(path), "mount/%s", row->files[i].path) < (int)sizeof(path));
        write_file(path, row->files[i].text);
    }
}

/* ---- the table ----------------------------------------------------------------------------- */

#define V1_QUOTA(folder) folder "/cpu.cfs_quota_us"
#define V1_PERIOD(folder) folder "/cpu.cfs_period_us"

static const struct row rows[] = {
    /* version 2 */
    {"v2: at the group", "0::/a/b\n", {{"a/b/cpu.max", "200000 100000\n"}}, 2},
    {"v2: at the root, as in a container", "0::/\n", {{"cpu.max", "300000 100000\n"}}, 3},
    {"v2: no quota at the group, one above",
     "0::/a/b\n",
     {{"a/b/cpu.max", "max 100000\n"}, {"a/cpu.max", "400000 100000\n"}},
     4},
    {"v2: tighter above",
     "0::/a/b/c\n",
     {{"a/b/c/cpu.max", "500000 100000\n"}, {"a/cpu.max", "200000 100000\n"}},
     2},
    {"v2: looser above",
     "0::/a/b\n",
     {{"a/b/cpu.max", "200000 100000\n"}, {"a/cpu.max", "500000 100000\n"}},
     2},
    {"v2: other periods",
     "0::/a/b\n",
     {{"a/b/cpu.max", "30000 10000\n"},
      {"a/cpu.max", "1500000 500000\n"},
      {"cpu.max", "2000000 1000000\n"}},
     2},
    {"v2: a sibling's quota does not count",
     "0::/a/b\n",
     {{"a/c/cpu.max", "100000 100000\n"}, {"ab/cpu.max", "100000 100000\n"}},
     AFFINITY},
    {"v2: a quota above the mount does not count",
     "0::/a\n",
     {{"../cpu.max", "100000 100000\n"}},
     AFFINITY},
    {"v2: a quota below does not count", "0::/a\n", {{"a/b/cpu.max", "100000 100000\n"}}, AFFINITY},
    {"v2: the host's path in a container",
     "0::/docker/0123\n",
     {{"cpu.max", "200000 100000\n"}},
     2},
    {"v2: a group that was removed", "0::/a/b (deleted)\n", {{"a/cpu.max", "300000 100000\n"}}, 3},
    {"v2: colons in the path", "0::/a:b/c::d\n", {{"a:b/c::d/cpu.max", "200000 100000\n"}}, 2},
    {"v2: no newline at the end", "0::/a", {{"a/cpu.max", "200000 100000"}}, 2},

    /* rounding */
    {"a fraction is rounded up", "0::/a\n", {{"a/cpu.max", "150000 100000\n"}}, 2},
    {"a microsecond more is a CPU more", "0::/a\n", {{"a/cpu.max", "200001 100000\n"}}, 3},
    {"less than one CPU is one", "0::/a\n", {{"a/cpu.max", "1000 100000\n"}}, 1},
    {"more than the mask is the mask", "0::/a\n", {{"a/cpu.max", "900000 100000\n"}}, AFFINITY},
    {"as large as numbers get",
     "0::/a\n",
     {{"a/cpu.max", "18446744073709551615 100000\n"}},
     AFFINITY},
    {"2^32 CPUs and one", "0::/a\n", {{"a/cpu.max", "4294967297 1\n"}}, AFFINITY},

    /* no limit */
    {"max", "0::/a\n", {{"a/cpu.max", "max 100000\n"}}, AFFINITY},
    {"no files", "0::/a\n", {{NULL, NULL}}, AFFINITY},
    {"no list of groups", NULL, {{"cpu.max", "100000 100000\n"}}, AFFINITY},
    {"an empty list of groups", "", {{"cpu.max", "100000 100000\n"}}, AFFINITY},
    {"an empty file", "0::/a\n", {{"a/cpu.max", ""}}, AFFINITY},
    {"a blank line", "0::/a\n", {{"a/cpu.max", "\n"}}, AFFINITY},

    /* malformed: the level is skipped, the next one counts */
    {"not a number", "0::/a\n", {{"a/cpu.max", "many 100000\n"}, {"cpu.max", "200000 100000"}}, 2},
    {"no period", "0::/a\n", {{"a/cpu.max", "100000\n"}}, AFFINITY},
    {"a period of 0", "0::/a\n", {{"a/cpu.max", "100000 0\n"}}, AFFINITY},
    {"a quota of 0", "0::/a\n", {{"a/cpu.max", "0 100000\n"}}, AFFINITY},
    {"a negative period", "0::/a\n", {{"a/cpu.max", "100000 -1\n"}}, AFFINITY},
    {"hexadecimal", "0::/a\n", {{"a/cpu.max", "0x10000 100000\n"}}, AFFINITY},
    {"a number beyond 64 bits", "0::/a\n", {{"a/cpu.max", "18446744073709551616 1\n"}}, AFFINITY},
    {"two spaces", "0::/a\n", {{"a/cpu.max", "100000  100000\n"}}, AFFINITY},
    {"a file that is far too long",
     "0::/a\n",
     {{"a/cpu.max", "100000 100000                                                         \n"}},
     AFFINITY},
    {"a third field", "0::/a\n", {{"a/cpu.max", "200000 100000 7\n"}}, 2},
    {"a folder for a file", "0::/a\n", {{"a/cpu.max/x", ""}, {"cpu.max", "200000 100000\n"}}, 2},
    {"lines without colons", "nonsense\n0\n\n0::/a\n", {{"a/cpu.max", "200000 100000\n"}}, 2},
    {"a line with one colon", "0:/a\n", {{"a/cpu.max", "200000 100000\n"}}, AFFINITY},
    {"a path that is not absolute", "0::a\n", {{".a/cpu.max", "200000 100000\n"}}, AFFINITY},
    {"controllers in version 2's line", "0:cpu:/a\n", {{"a/cpu.max", "200000 100000\n"}}, AFFINITY},
    {"a nameless line of version 1", "3::/a\n", {{"a/cpu.max", "200000 100000\n"}}, AFFINITY},

    /* version 1 */
    {"v1: cpu,cpuacct",
     "4:cpu,cpuacct:/a/b\n",
     {{V1_QUOTA("cpu,cpuacct/a/b"), "200000\n"}, {V1_PERIOD("cpu,cpuacct/a/b"), "100000\n"}},
     2},
    {"v1: mounted as cpu",
     "4:cpu,cpuacct:/a/b\n",
     {{V1_QUOTA("cpu/a/b"), "300000\n"}, {V1_PERIOD("cpu/a/b"), "100000\n"}},
     3},
    {"v1: cpu alone",
     "11:memory:/m\n4:cpu:/a\n3:cpuacct:/x\n",
     {{V1_QUOTA("cpu/a"), "150000\n"}, {V1_PERIOD("cpu/a"), "100000\n"}},
     2},
    {"v1: cpu not first",
     "4:cpuacct,cpu:/a\n",
     {{V1_QUOTA("cpuacct,cpu/a"), "200000\n"}, {V1_PERIOD("cpuacct,cpu/a"), "100000\n"}},
     2},
    {"v1: tighter above",
     "4:cpu:/a/b\n",
     {{V1_QUOTA("cpu/a/b"), "500000\n"},
      {V1_PERIOD("cpu/a/b"), "100000\n"},
      {V1_QUOTA("cpu/a"), "50000\n"},
      {V1_PERIOD("cpu/a"), "20000\n"}},
     3},
    {"v1: at the root, as in a container",
     "4:cpu,cpuacct:/docker/0123\n",
     {{V1_QUOTA("cpu,cpuacct"), "200000\n"}, {V1_PERIOD("cpu,cpuacct"), "100000\n"}},
     2},
    {"v1: -1 is none",
     "4:cpu:/a\n",
     {{V1_QUOTA("cpu/a"), "-1\n"}, {V1_PERIOD("cpu/a"), "100000\n"}},
     AFFINITY},
    {"v1: -1 here, a quota above",
     "4:cpu:/a\n",
     {{V1_QUOTA("cpu/a"), "-1\n"},
      {V1_PERIOD("cpu/a"), "100000\n"},
      {V1_QUOTA("cpu"), "200000\n"},
      {V1_PERIOD("cpu"), "100000\n"}},
     2},
    {"v1: no period", "4:cpu:/a\n", {{V1_QUOTA("cpu/a"), "200000\n"}}, AFFINITY},
    {"v1: no quota", "4:cpu:/a\n", {{V1_PERIOD("cpu/a"), "100000\n"}}, AFFINITY},
    {"v1: cpuset and cpuacct are not cpu",
     "4:cpuset,cpuacct:/a\n",
     {{V1_QUOTA("cpu/a"), "200000\n"}, {V1_PERIOD("cpu/a"), "100000\n"}},
     AFFINITY},
    {"v1: another of three letters",
     "4:net:/a\n",
     {{V1_QUOTA("cpu/a"), "200000\n"}, {V1_PERIOD("cpu/a"), "100000\n"}},
     AFFINITY},
    {"v1: a named hierarchy",
     "1:name=cpu:/a\n",
     {{V1_QUOTA("cpu/a"), "200000\n"}, {V1_PERIOD("cpu/a"), "100000\n"}},
     AFFINITY},

    /* both at once */
    {"hybrid: quota in version 1",
     "4:cpu,cpuacct:/a\n1:name=systemd:/u\n0::/u\n",
     {{V1_QUOTA("cpu,cpuacct/a"), "200000\n"}, {V1_PERIOD("cpu,cpuacct/a"), "100000\n"}},
     2},
    {"hybrid: quota in version 2",
     "5:memory:/m\n0::/u/v\n",
     {{"unified/u/v/cpu.max", "max 100000\n"}, {"unified/u/cpu.max", "300000 100000\n"}},
     3},
    {"hybrid: the tighter of both",
     "4:cpu:/a\n0::/u\n",
     {{V1_QUOTA("cpu/a"), "500000\n"},
      {V1_PERIOD("cpu/a"), "100000\n"},
      {"unified/u/cpu.max", "200000 100000\n"}},
     2},
};

static void cpu_count_respects_cgroup_quotas(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        write_row(&rows[i]);
        unsigned cpus = count_with_affinity(AFFINITY);
        root_remove();
        if (cpus != rows[i].cpus) {
            tap_fail(__FILE__, __LINE__, "%s: %u CPUs, expected %u", rows[i].name, cpus,
                     rows[i].cpus);
        }
    }
}

static void cpu_count_respects_affinity_mask_and_is_never_zero(void)
{
    const struct row row = {NULL, "0::/\n", {{"cpu.max", "300000 100000\n"}}, 3};
    write_row(&row);
    CHECK_EQ(count_with_affinity(0), 1);
    CHECK_EQ(count_with_affinity(1), 1);
    CHECK_EQ(count_with_affinity(2), 2);
    CHECK_EQ(count_with_affinity(3), 3);
    CHECK_EQ(count_with_affinity(UINT_MAX), 3);
    root_remove();
    CHECK_EQ(wf_cpu_count_in("/nonexistent", "/nonexistent", 0), 1);
}

/* ---- long texts ---------------------------------------------------------------------------- */

static void cpu_count_skips_lines_of_other_controllers(void)
{
    enum { LINES = 100 };
    char groups[WF_CGROUP_FILE_SIZE_MAX];
    size_t used = 0;
    for (int i = LINES; i > 0; i--) {
        used += (size_t)snprintf(groups + used, sizeof(groups) - used,
                                 "%d:some-controller:/a/path/of/quite/some/length/%d\n", i, i);
    }
    (void)snprintf(groups + used, sizeof(groups) - used, "0::/a\n");
    const struct row row = {NULL, groups, {{"a/cpu.max", "200000 100000\n"}}, 2};
    write_row(&row);
    CHECK_EQ(count_with_affinity(AFFINITY), 2);
    root_remove();
}

static void cpu_count_ignores_overlong_group_list(void)
{
    char groups[WF_CGROUP_FILE_SIZE_MAX + 16] = "0::/a\n";
    memset(groups + strlen(groups), 'x', sizeof(groups) - strlen(groups) - 1);
    const struct row row = {NULL, groups, {{"a/cpu.max", "200000 100000\n"}}, AFFINITY};
    write_row(&row);
    CHECK_EQ(count_with_affinity(AFFINITY), AFFINITY);
    root_remove();
}

/* The group's own folder does not fit into a path, or its file does not. */
static void cpu_count_ignores_overlong_group_path(void)
{
    const size_t lengths[] = {PATH_MAX + 10, PATH_MAX, PATH_MAX - 40, PATH_MAX - 50};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        char groups[PATH_MAX + 32] = "0::/";
        memset(groups + strlen(groups), 'x', lengths[i]);
        const struct row row = {NULL, groups, {{NULL, NULL}}, AFFINITY};
        write_row(&row);
        CHECK_EQ(count_with_affinity(AFFINITY), AFFINITY);
        root_remove();
    }
}

/* The longest path that fits is read at the levels above it; a path with one byte more is not. */
static void cpu_count_ignores_group_path_of_exactly_the_limit(void)
{
    static const char top[] = "0::/a/";
    for (size_t length = PATH_MAX - 1; length <= PATH_MAX; length++) {
        const struct row above = {NULL, NULL, {{"a/cpu.max", "200000 100000\n"}}, 0};
        write_row(&above);
        const size_t prefix = strlen(root) + strlen("/mount/."); /* of the path, before the group */
        const size_t group = length - prefix;
        char groups[PATH_MAX + sizeof(top)];
        memset(groups, 'x', sizeof(groups));
        memcpy(groups, top, strlen(top));
        groups[strlen("0::") + group] = '\0';
        write_file("groups", groups);
        CHECK_EQ(count_with_affinity(AFFINITY), length < PATH_MAX ? 2 : AFFINITY);
        root_remove();
    }
}

/* ---- this machine -------------------------------------------------------------------------- */

static void cpu_count_of_this_machine_is_within_its_mask(void)
{
    cpu_set_t mask;
    CHECK_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    CHECK(wf_cpu_count() >= 1);
    CHECK(wf_cpu_count() <= (unsigned)CPU_COUNT(&mask));
    int cpu = 0;
    while (!CPU_ISSET((size_t)cpu, &mask)) {
        cpu++;
    }
    CHECK_EQ(wf_thread_bind(cpu), 0);
    CHECK_EQ(wf_cpu_count(), 1);
}

/* ---- injected failures --------------------------------------------------------------------- */

#ifdef WF_TEST_HOOKS

static unsigned count_open_files(void)
{
    enum { FILES = 1024 };
    unsigned count = 0;
    for (int fd = 0; fd < FILES; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

static void cpu_count_survives_every_failed_call_without_leak(void)
{
    const struct row row = {
        NULL,
        "4:cpu:/a\n0::/u\n",
        {{V1_QUOTA("cpu/a"), "500000\n"},
         {V1_PERIOD("cpu/a"), "100000\n"},
         {"u/cpu.max", "200000 100000\n"}},
        2,
    };
    write_row(&row);
    const unsigned open_files = count_open_files();
    unsigned loosened = 0;
    uint64_t n = 1;
    for (bool is_hit = true; is_hit; n++) {
        struct wf_alloc_stats stats;
        wf_fault_arm(n);
        unsigned cpus = count_with_affinity(AFFINITY);
        is_hit = wf_fault_hit(NULL);
        wf_fault_arm(0);
        CHECK(cpus == 2 || cpus == 5 || cpus == AFFINITY);
        CHECK(is_hit || cpus == 2);
        loosened += cpus != 2;
        wf_alloc_stats(&stats);
        CHECK_EQ(stats.allocated, stats.freed);
        CHECK_EQ(count_open_files(), open_files);
    }
    /* The allocation, the list (one open, two reads), and v2's file (the same). */
    CHECK_EQ(loosened, 7);
    root_remove();
}

static void cpu_count_falls_back_to_online_cpus_without_mask(void)
{
    const char *what;
    const unsigned cpus = wf_cpu_count();
    wf_fault_arm(1);
    const unsigned online = wf_cpu_count();
    CHECK(wf_fault_hit(&what));
    CHECK_STR(what, "sched_getaffinity");
    CHECK(online >= cpus);
    CHECK(online <= (unsigned)sysconf(_SC_NPROCESSORS_ONLN));
}

#endif

static const struct tap_test tests[] = {
    TAP_TEST(cpu_count_respects_cgroup_quotas),
    TAP_TEST(cpu_count_respects_affinity_mask_and_is_never_zero),
    TAP_TEST(cpu_count_skips_lines_of_other_controllers),
    TAP_TEST(cpu_count_ignores_overlong_group_list),
    TAP_TEST(cpu_count_ignores_overlong_group_path),
    TAP_TEST(cpu_count_ignores_group_path_of_exactly_the_limit),
    TAP_TEST(cpu_count_of_this_machine_is_within_its_mask),
#ifdef WF_TEST_HOOKS
    TAP_TEST(cpu_count_survives_every_failed_call_without_leak),
    TAP_TEST(cpu_count_falls_back_to_online_cpus_without_mask),
#endif
};
TAP_MAIN(tests)
