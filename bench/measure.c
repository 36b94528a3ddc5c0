/* SPDX-License-Identifier: MIT */
/*
 * measure.c - the part that depends on the machine: the measured side of a benchmark program, and
 * the line that describes the machine.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "parts.h"

enum { WARM_UP_DIVISOR = 10 };

uint64_t bench_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void list(const struct bench_suite *suite)
{
    for (size_t i = 0; i < suite->row_count; i++) {
        const struct bench_row *row = &suite->rows[i];
        (void)printf("{\"row\":\"%s\",\"variant\":\"%s\",\"unit\":\"%s\",\"ops\":%" PRIu64
                     ",\"workers\":%u}\n",
                     row->name, row->variant, row->unit, row->ops, row->workers);
    }
}

static const struct bench_row *find_row(const struct bench_suite *suite, const char *name,
                                        const char *variant)
{
    for (size_t i = 0; i < suite->row_count; i++) {
        if (strcmp(suite->rows[i].name, name) == 0 &&
            strcmp(suite->rows[i].variant, variant) == 0) {
            return &suite->rows[i];
        }
    }
    return NULL;
}

static uint64_t cpu_time_ns(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail for this process */
    uint64_t s = (uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec;
    uint64_t us = (uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec;
    return s * UINT64_C(1000000000) + us * 1000;
}

/* Peak memory in KiB.  Not from getrusage, whose figure is inherited from the parent process. */
static uint64_t peak_memory_kb(void)
{
    static const char peak[] = "VmHWM:";
    uint64_t peak_kb = 0;
    FILE *status = fopen("/proc/self/status", "re");
    for (char line[256]; status != NULL && fgets(line, sizeof(line), status) != NULL;) {
        if (strncmp(line, peak, strlen(peak)) == 0) {
            peak_kb = strtoull(line + strlen(peak), NULL, 10);
        }
    }
    if (status != NULL) {
        (void)fclose(status);
    }
    return peak_kb;
}

static int measure(const struct bench_suite *suite, char **args)
{
    const struct bench_row *row = find_row(suite, args[0], args[1]);
    uint64_t ops = strtoull(args[2], NULL, 10);
    unsigned workers = (unsigned)strtoul(args[3], NULL, 10);
    if (row == NULL || ops == 0) {
        return 2;
    }
    if (ops >= WARM_UP_DIVISOR) {
        (void)row->run(ops / WARM_UP_DIVISOR, workers);
    }
    uint64_t cpu_before_ns = cpu_time_ns();
    uint64_t start_ns = bench_now_ns();
    uint64_t counted_ns = row->run(ops, workers);
    uint64_t wall_ns = bench_now_ns() - start_ns;
    uint64_t cpu_ns = cpu_time_ns() - cpu_before_ns;
    (void)printf("{\"row\":\"%s\",\"variant\":\"%s\",\"ops\":%" PRIu64 ",\"wall_ns\":%" PRIu64
                 ",\"cpu_ns\":%" PRIu64 ",\"rss_kb\":%" PRIu64 "}\n",
                 row->name, row->variant, ops, counted_ns != 0 ? counted_ns : wall_ns,
                 counted_ns != 0 ? 0 : cpu_ns, peak_memory_kb());
    return 0;
}

int bench_answer(int argc, char **argv, const struct bench_suite *suite)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list(suite);
        return 0;
    }
    if (argc == 5 && argv[1][0] != '-') {
        return measure(suite, argv + 1);
    }
    return -1;
}

void bench_describe(char *text, size_t size)
{
    char model[256] = "unknown CPU";
    char date[32];
    struct utsname name;
    struct tm utc;
    time_t now = time(NULL);
    FILE *info = fopen("/proc/cpuinfo", "re");
    for (char line[256]; info != NULL && fgets(line, sizeof(line), info) != NULL;) {
        if (sscanf(line, "model name : %255[^\n]", model) == 1) {
            break;
        }
    }
    if (info != NULL) {
        (void)fclose(info);
    }
    (void)uname(&name);
    (void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
    (void)snprintf(text, size, "%s, %ld cores; %s %s %s; compiler %s; %s", model,
                   sysconf(_SC_NPROCESSORS_ONLN), name.sysname, name.release, name.machine,
                   __VERSION__, date);
}
