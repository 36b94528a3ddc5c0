/* SPDX-License-Identifier: MIT */
/*
 * bench.c - the harness: a cell of the table is a row run by a variant.  Each repetition of each
 * cell is one child process, and the table summarises their output lines.
 *
 * Rejected: timing our own rows inside this process and only peers outside.  Two ways of measuring
 * would be compared with each other, and the peak memory of one row would hide that of the next.
 */
#include "bench.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "parts.h"

enum {
    CELLS_MAX = 512,
    PEERS_MAX = 32,
    REPS_MAX = 100,
    REPS_DEFAULT = 7,
    REPS_QUICK = 3,
    SECONDS_DEFAULT = 8,
    SECONDS_MAX = 3600,
    QUICK_DIVISOR = 10,
    WORKERS_MAX = 1024,
    LIST_SIZE_MAX = 1 << 16,     /* bytes of a --list */
    CHILD_LIMIT_MS = 300 * 1000, /* a repetition that takes longer counts as hung */
};

struct cell {
    struct bench_line key;          /* row, variant, unit, ops, workers, as listed by its program */
    char label[2 * BENCH_NAME_MAX]; /* the variant as printed */
    const char *program;
    double wall_ns[REPS_MAX]; /* per operation */
    double cpu_ns[REPS_MAX];
    size_t count; /* repetitions that succeeded */
    uint64_t spent_ns;
    uint64_t rss_kb;
    double min_ns; /* these are set when all repetitions are done */
    double median_ns;
    double median_cpu_ns;
};

static struct {
    const struct bench_suite *suite;
    const char *filter;
    const char *base;
    FILE *json;
    uint64_t reps;
    uint64_t seconds; /* a cell that has taken longer is not repeated */
    bool is_quick;
    bool has_failed;
    char *peers[PEERS_MAX];
    size_t peer_count;
    uint64_t workers_min; /* a row with workers runs with each number from here */
    uint64_t workers_max; /* to here */
    struct cell cells[CELLS_MAX];
    size_t cell_count;
} bench;

/* ---- children -------------------------------------------------------------------------------- */

/* The kernel divides a CPU among sessions before it considers niceness inside them: a separate
 * session with the largest share keeps other work away.  Without the permission it runs without. */
static void shield(void)
{
    (void)setsid();
    int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t ignored = write(fd, "-20", 3);
        (void)ignored;
        (void)close(fd);
    }
}

/* Runs a program to its end and returns its output; false if it failed. */
static bool run_child(char *const *args, char *text, size_t size)
{
    int out = memfd_create("bench", MFD_CLOEXEC);
    (void)fflush(NULL); /* else the child would inherit buffered output and might write it */
    pid_t child = out < 0 ? -1 : fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the interrupt key does not reach its session */
        shield();
        (void)dup2(out, STDOUT_FILENO);
        (void)execv(args[0], args);
        _exit(127);
    }
    int status = -1;
    if (child > 0) {
        struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};
        if (poll(&ended, 1, CHILD_LIMIT_MS) != 1) {
            (void)kill(-child, SIGKILL);
        }
        (void)close(ended.fd);
        (void)waitpid(child, &status, 0);
    }
    ssize_t length = pread(out, text, size - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    (void)close(out);
    return status == 0;
}

static void repeat(struct cell *cell)
{
    char text[1024];
    char ops[24];
    char workers[24];
    struct bench_line line;
    char *const args[] = {
        (char *)(uintptr_t)cell->program, cell->key.row, cell->key.variant, ops, workers, NULL};
    if (cell->spent_ns > bench.seconds * UINT64_C(1000000000)) {
        return;
    }
    (void)snprintf(ops, sizeof(ops), "%" PRIu64, cell->key.ops);
    (void)snprintf(workers, sizeof(workers), "%" PRIu64, cell->key.workers);
    const uint64_t start_ns = bench_now_ns();
    const bool has_run = run_child(args, text, sizeof(text));
    cell->spent_ns += bench_now_ns() - start_ns;
    if (!has_run || bench_parse_line(text, &line) != 0 || line.wall_ns == 0) {
        (void)fprintf(stderr, "failed: %s, %s\n", cell->key.row, cell->label);
        bench.has_failed = true;
        return;
    }
    cell->wall_ns[cell->count] = (double)line.wall_ns / (double)line.ops;
    cell->cpu_ns[cell->count] = (double)line.cpu_ns / (double)line.ops;
    cell->count++;
    cell->rss_kb = line.rss_kb > cell->rss_kb ? line.rss_kb : cell->rss_kb;
}

/* ---- the list of cells ---------------------------------------------------------------------- */

/* Inserts the cell after the last one of its row, so that variants run one after the other. */
static void add_cell(const struct cell *cell)
{
    WEFT_CHECK(bench.cell_count < CELLS_MAX);
    size_t at = bench.cell_count;
    while (at > 0 && (strcmp(bench.cells[at - 1].key.row, cell->key.row) != 0 ||
                      bench.cells[at - 1].key.workers != cell->key.workers)) {
        at--; /* ends at 0 for a new row, which goes last */
    }
    at = at == 0 ? bench.cell_count : at;
    memmove(&bench.cells[at + 1], &bench.cells[at], (bench.cell_count - at) * sizeof(*cell));
    bench.cells[at] = *cell;
    bench.cell_count++;
}

/* A peer's row is added to our row of the same name; a suite without rows takes all. */
static bool is_wanted(const struct cell *cell)
{
    bool is_known = bench.suite->row_count == 0;
    for (size_t i = 0; i < bench.suite->row_count; i++) {
        is_known = is_known || strcmp(bench.suite->rows[i].name, cell->key.row) == 0;
    }
    return is_known && (bench.filter == NULL || strstr(cell->key.row, bench.filter) != NULL ||
                        strstr(cell->label, bench.filter) != NULL);
}

/* Adds the rows that a peer, PROGRAM or NAME=PROGRAM, lists. */
static void add_peer(char *peer)
{
    static char text[LIST_SIZE_MAX];
    char *equals = strchr(peer, '=');
    char *program = equals != NULL ? equals + 1 : peer;
    char list[] = "--list";
    char *const args[] = {program, list, NULL};
    if (!run_child(args, text, sizeof(text))) {
        (void)fprintf(stderr, "skipped: %s (does not list its rows)\n", program);
        return;
    }
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct cell cell = {.program = program};
        if (bench_parse_line(line, &cell.key) != 0) {
            (void)fprintf(stderr, "skipped: a row of %s (%s)\n", program, line);
            continue;
        }
        (void)snprintf(cell.label, sizeof(cell.label), "%.*s%s%s",
                       equals != NULL ? (int)(equals - peer) : 0, peer, equals != NULL ? ":" : "",
                       cell.key.variant);
        if (bench.is_quick && cell.key.ops >= QUICK_DIVISOR) {
            cell.key.ops /= QUICK_DIVISOR;
        }
        bool has_workers = cell.key.workers != 0;
        uint64_t last = has_workers ? bench.workers_max : 0;
        cell.key.workers = has_workers ? bench.workers_min : 0;
        for (; is_wanted(&cell) && cell.key.workers <= last; cell.key.workers++) {
            add_cell(&cell);
        }
    }
}

/* ---- the report ----------------------------------------------------------------------------- */

static const struct cell *find_cell(const char *row, const char *label, uint64_t workers)
{
    for (const struct cell *cell = bench.cells; cell < bench.cells + bench.cell_count; cell++) {
        if (cell->key.workers == workers && strcmp(cell->key.row, row) == 0 &&
            strcmp(cell->label, label) == 0) {
            return cell;
        }
    }
    return NULL;
}

/* At least three digits, for any magnitude; "-" if there is no figure. */
static void print_number(double value)
{
    (void)(value > 0 ? printf(" %.*f |", value < 10 ? 2 : value < 1000, value) : printf(" - |"));
}

static void print_table(const char *place)
{
    (void)printf("## %s\n\n%s; %" PRIu64 " repetitions\n\n", bench.suite->title, place, bench.reps);
    (void)printf("| row | workers | per | variant | min ns | median ns | CPU ns | peak KiB "
                 "| min / %s | median / %s |\n|---|--:|---|---|--:|--:|--:|--:|--:|--:|\n",
                 bench.base, bench.base);
    for (const struct cell *cell = bench.cells; cell < bench.cells + bench.cell_count; cell++) {
        const struct cell *base = find_cell(cell->key.row, bench.base, cell->key.workers);
        (void)printf("| %s | %" PRIu64 " | %s | %s |", cell->key.row, cell->key.workers,
                     cell->key.unit, cell->label);
        print_number(cell->min_ns);
        print_number(cell->median_ns);
        print_number(cell->median_cpu_ns);
        print_number((double)cell->rss_kb);
        print_number(base == NULL ? 0 : bench_ratio(cell->min_ns, base->min_ns));
        print_number(base == NULL ? 0 : bench_ratio(cell->median_ns, base->median_ns));
        (void)printf("\n");
    }
}

static void write_json(const char *place)
{
    (void)fputs("{\"machine\":", bench.json);
    bench_put_quoted(bench.json, place);
    for (const struct cell *cell = bench.cells; cell < bench.cells + bench.cell_count; cell++) {
        (void)fputs("}\n{\"row\":", bench.json);
        bench_put_quoted(bench.json, cell->key.row);
        (void)fputs(",\"variant\":", bench.json);
        bench_put_quoted(bench.json, cell->label);
        (void)fputs(",\"unit\":", bench.json);
        bench_put_quoted(bench.json, cell->key.unit);
        (void)fprintf(bench.json, ",\"workers\":%" PRIu64 ",\"ops\":%" PRIu64 ",\"reps\":%zu",
                      cell->key.workers, cell->key.ops, cell->count);
        if (cell->count > 0) {
            (void)fprintf(bench.json,
                          ",\"min_ns\":%.3f,\"median_ns\":%.3f,\"cpu_ns\":%.3f,\"rss_kb\":%" PRIu64,
                          cell->min_ns, cell->median_ns, cell->median_cpu_ns, cell->rss_kb);
        }
    }
    (void)fputs("}\n", bench.json);
    (void)fclose(bench.json);
}

static void print_goals(void)
{
    for (size_t i = 0; i < bench.suite->goal_count; i++) {
        const struct bench_goal *goal = &bench.suite->goals[i];
        const struct cell *cell = find_cell(goal->row, goal->variant, goal->workers);
        const struct cell *than = find_cell(goal->row, goal->than, goal->workers);
        (void)printf("%sgoal: %s, ", i == 0 ? "\n" : "", goal->row);
        if (goal->workers != 0) {
            (void)printf("workers %u, ", goal->workers);
        }
        (void)printf("%s / %s %s %.2f: ", goal->variant, goal->than,
                     goal->is_strict ? "<" : "<=", goal->limit);
        const bool is_there = cell != NULL && cell->count > 0;
        if (!is_there || than == NULL || than->count == 0) {
            (void)printf("not measured, no figure of %s\n", is_there ? goal->than : goal->variant);
            continue;
        }
        const double of_minima = bench_ratio(cell->min_ns, than->min_ns);
        const double of_medians = bench_ratio(cell->median_ns, than->median_ns);
        const double ratio = goal->is_median ? of_medians : of_minima;
        const bool is_met = goal->is_strict ? ratio < goal->limit : ratio <= goal->limit;
        (void)printf("%.2f (%s %.2f), %s\n", ratio, goal->is_median ? "minima" : "medians",
                     goal->is_median ? of_minima : of_medians, is_met ? "met" : "not met");
    }
}

/* ---- options -------------------------------------------------------------------------------- */

static bool take_option(const char *name, char *value)
{
    if (strcmp(name, "--filter") == 0) {
        bench.filter = value;
        return true;
    }
    if (strcmp(name, "--base") == 0) {
        bench.base = value;
        return true;
    }
    if (strcmp(name, "--json") == 0) {
        bench.json = fopen(value, "we");
        return bench.json != NULL;
    }
    if (strcmp(name, "--peer") == 0 && bench.peer_count < PEERS_MAX) {
        bench.peers[bench.peer_count++] = value;
        return true;
    }
    if (strcmp(name, "--workers") == 0) {
        return wf_parse_u64(value, 1, WORKERS_MAX, &bench.workers_min) == 0 &&
               wf_parse_u64(value, 1, WORKERS_MAX, &bench.workers_max) == 0;
    }
    if (strcmp(name, "--seconds") == 0) {
        return wf_parse_u64(value, 0, SECONDS_MAX, &bench.seconds) == 0;
    }
    return strcmp(name, "--reps") == 0 && wf_parse_u64(value, 1, REPS_MAX, &bench.reps) == 0;
}

static bool take_options(char **args)
{
    for (; *args != NULL; args++) {
        if (strcmp(*args, "--quick") == 0) {
            bench.is_quick = true;
        } else if (args[1] == NULL || !take_option(args[0], args[1])) {
            return false;
        } else {
            args++;
        }
    }
    if (bench.reps == 0) {
        bench.reps = bench.is_quick ? REPS_QUICK : REPS_DEFAULT;
    }
    return true;
}

int bench_main(int argc, char **argv, const struct bench_suite *suite)
{
    static char own[] = "/proc/self/exe";
    char place[1024];

    int status = bench_answer(argc, argv, suite);
    if (status >= 0) {
        return status;
    }
    bench.workers_min = 1;
    bench.workers_max = 2;
    bench.seconds = SECONDS_DEFAULT;
    bench.suite = suite;
    bench.base = suite->base;
    bench.peers[bench.peer_count++] = own;
    if (!take_options(argv + 1)) {
        (void)fprintf(stderr,
                      "usage: %s [--filter TEXT] [--reps N] [--quick] [--base VARIANT] "
                      "[--json FILE] [--workers N] [--seconds N] [--peer [NAME=]PROGRAM]... "
                      "| --list\n",
                      argv[0]);
        return 2;
    }
    for (size_t i = 0; i < bench.peer_count; i++) {
        add_peer(bench.peers[i]);
    }
    for (size_t i = 0; i < bench.reps * bench.cell_count; i++) {
        repeat(&bench.cells[i % bench.cell_count]);
    }
    for (struct cell *cell = bench.cells; cell < bench.cells + bench.cell_count; cell++) {
        cell->min_ns = bench_minimum(cell->wall_ns, cell->count);
        cell->median_ns = bench_median(cell->wall_ns, cell->count);
        cell->median_cpu_ns = bench_median(cell->cpu_ns, cell->count);
    }
    bench_describe(place, sizeof(place));
    print_table(place);
    print_goals();
    if (bench.json != NULL) {
        write_json(place);
    }
    return bench.has_failed ? 1 : 0;
}
