/* SPDX-License-Identifier: MIT */
/*
 * parts.h - the parts of bench.c: the line of JSON that carries a result from the measured process
 * to the table, statistics, and the measured side itself.
 */
#ifndef BENCH_PARTS_H
#define BENCH_PARTS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench.h"

enum { BENCH_NAME_MAX = 64 }; /* bytes of a name with its final '\0' */

/* The contents of a line; missing fields are 0 or empty. */
struct bench_line {
    char row[BENCH_NAME_MAX];
    char variant[BENCH_NAME_MAX];
    char unit[BENCH_NAME_MAX];
    uint64_t ops;
    uint64_t workers;
    uint64_t wall_ns;
    uint64_t cpu_ns;
    uint64_t rss_kb;
};

/* ---- line.c: computes only ---------------------------------------------------------------------
 */

/* Reads one flat JSON object: strings and whole numbers, keys in any order; unknown keys are
 * skipped.  -EINVAL: malformed, a key twice, or no row, variant and ops; -ERANGE: a number beyond
 * 64 bits or a text beyond a name's size.  *out untouched on error. */
int bench_parse_line(const char *text, struct bench_line *out);

/* Writes `text` as a JSON string, quotes included. */
void bench_put_quoted(FILE *out, const char *text);

/* Sorts `values` and returns the median: the mean of the middle two for an even count; NAN for
 * none.
 */
double bench_median(double *values, size_t count);
double bench_minimum(const double *values, size_t count);
/* Returns value / base; NAN if one of them is not positive. */
double bench_ratio(double value, double base);

/* ---- measure.c
 * ----------------------------------------------------------------------------------- */

/* Describes the machine, the compiler and the date; truncated to `size`. */
void bench_describe(char *text, size_t size);

#endif
