/* SPDX-License-Identifier: MIT */
/*
 * bench.h - the benchmark harness: what is measured, how, and what is printed.
 *
 * A row is one kind of work, done by one variant (an implementation); variants of a row are
 * compared with each other.  Every repetition is a process of its own that writes one line of JSON:
 * a fresh heap, its own peak memory, and a crash costs one cell of the table.  Our rows are
 * measured in the same way as peers in other languages: the program starts itself.
 *
 *   PROGRAM --list                    one line for each row and variant:
 *     {"row":"yield-2","variant":"go","unit":"switch","ops":1000000,"workers":1}
 *     ops: operations of one repetition, about 50 ms; workers 0: the row has no workers
 *   PROGRAM ROW VARIANT OPS WORKERS   warms up with OPS / 10, then measures and prints:
 *     {"row":"yield-2","variant":"go","ops":1000000,"wall_ns":1,"cpu_ns":1,"rss_kb":1}
 *
 * Repetitions are interleaved, A B C A B C, so that other load affects all variants alike.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs `ops` operations on `workers` workers (0 if the row has none).  Returns 0 to be timed from
 * call to return, or the nanoseconds that it measured itself, if the preparation must not count;
 * the CPU time of such a row is not reported. */
typedef uint64_t (*bench_run_fn)(uint64_t ops, unsigned workers);

struct bench_row {
    const char *name;
    const char *variant;
    const char *unit; /* what one operation is */
    uint64_t ops;     /* of one repetition */
    unsigned workers; /* 0: does not apply; 1: runs with 1 and with 2 */
    bench_run_fn run;
};

/* A required ratio: variant / than, by their minima. */
struct bench_goal {
    const char *row;
    const char *variant;
    const char *than;
    double limit;
    bool is_strict; /* below the limit; else at most */
    unsigned workers;
    bool is_median; /* by their medians, for latency rows: their minimum is luck */
};

struct bench_suite {
    const char *title;
    const char *base; /* the variant that others are divided by, unless --base is given */
    const struct bench_row *rows; /* none: the suite consists of what the peers list */
    size_t row_count;
    const struct bench_goal *goals;
    size_t goal_count;
};

/*
 * The whole program: reads the options, runs, prints a Markdown table and the goals.
 *   --filter TEXT   only rows whose name or variant contains TEXT
 *   --reps N        repetitions (7)         --quick         3, with a tenth of the operations
 *   --base VARIANT  what to divide by       --json FILE     results too, a line each
 *   --workers N     number of workers (1 and 2)
 *   --seconds N     a variant of a row that took longer is not repeated (8)
 *   --peer PROGRAM  adds this program's rows of the same names; may be given several times.
 *                   NAME=PROGRAM prints its variants as NAME:variant: two builds side by side
 * Exit status: 0, 1 when a row failed to run, 2 for bad usage.  Never depends on a time.
 */
int bench_main(int argc, char **argv, const struct bench_suite *suite);

/* The measured side, sufficient for a peer in C or C++: answers --list or measures one row, and
 * returns the exit status; -1 if the arguments request neither. */
int bench_answer(int argc, char **argv, const struct bench_suite *suite);

/* Nanoseconds on the monotonic clock. */
uint64_t bench_now_ns(void);

#ifdef __cplusplus
}
#endif

#endif
