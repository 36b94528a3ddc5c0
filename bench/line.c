/* SPDX-License-Identifier: MIT */
/*
 * line.c - statistics, and a reader for one flat JSON object.
 *
 * A full JSON parser is not needed: the protocol has no nesting, no fractions, no signs.  The
 * reader is strict, because a misread line would be a wrong number in a table.
 */
#include "parts.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const struct field {
    const char *name;
    size_t offset;
    bool is_text;
} fields[] = {
    {"row", offsetof(struct bench_line, row), true},
    {"variant", offsetof(struct bench_line, variant), true},
    {"unit", offsetof(struct bench_line, unit), true},
    {"ops", offsetof(struct bench_line, ops), false},
    {"workers", offsetof(struct bench_line, workers), false},
    {"wall_ns", offsetof(struct bench_line, wall_ns), false},
    {"cpu_ns", offsetof(struct bench_line, cpu_ns), false},
    {"rss_kb", offsetof(struct bench_line, rss_kb), false},
};

/* Skips blanks, and `c` if it comes next. */
static bool take(const char **at, char c)
{
    *at += strspn(*at, " \t\r\n");
    if (**at != c) {
        return false;
    }
    (*at)++;
    return true;
}

/* Reads a string after its opening quote; `out` has BENCH_NAME_MAX bytes. */
static int parse_text(const char **at, char *out)
{
    size_t used = 0;
    while (**at != '"') {
        if (**at == '\\' && strchr("\"\\/", *++*at) == NULL) {
            return -EINVAL; /* an escape, which no name of a row needs */
        }
        char c = *(*at)++;
        if ((unsigned char)c < ' ') { /* the end of the line too */
            return -EINVAL;
        }
        if (used == BENCH_NAME_MAX - 1) {
            return -ERANGE;
        }
        out[used++] = c;
    }
    (*at)++;
    out[used] = '\0';
    return 0;
}

static int parse_number(const char **at, uint64_t *out)
{
    char *end = NULL;
    if (**at < '0' || **at > '9') { /* strtoull would take a sign */
        return -EINVAL;
    }
    errno = 0;
    *out = strtoull(*at, &end, 10);
    *at = end;
    return errno == ERANGE ? -ERANGE : 0;
}

/* Reads one `"key": value` into its field of *line; `seen` has a bit for each field. */
static int parse_pair(const char **at, struct bench_line *line, unsigned *seen)
{
    char key[BENCH_NAME_MAX];
    char text[BENCH_NAME_MAX] = "";
    uint64_t number = 0;

    int rc = take(at, '"') ? parse_text(at, key) : -EINVAL;
    if (rc != 0 || !take(at, ':')) {
        return rc != 0 ? rc : -EINVAL;
    }
    bool is_text = take(at, '"');
    rc = is_text ? parse_text(at, text) : parse_number(at, &number);
    for (size_t i = 0; rc == 0 && i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(key, fields[i].name) != 0) {
            continue;
        }
        if ((*seen & (1u << i)) != 0 || is_text != fields[i].is_text) {
            return -EINVAL;
        }
        *seen |= 1u << i;
        const void *value = is_text ? (const void *)text : (const void *)&number;
        memcpy((char *)line + fields[i].offset, value, is_text ? sizeof(text) : sizeof(number));
    }
    return rc;
}

int bench_parse_line(const char *text, struct bench_line *out)
{
    struct bench_line line = {.ops = 0};
    unsigned seen = 0;
    const char *at = text;

    if (!take(&at, '{')) {
        return -EINVAL;
    }
    do {
        int rc = parse_pair(&at, &line, &seen);
        if (rc != 0) {
            return rc;
        }
    } while (take(&at, ','));
    if (!take(&at, '}') || !take(&at, '\0')) {
        return -EINVAL;
    }
    if (line.row[0] == '\0' || line.variant[0] == '\0' || line.ops == 0) {
        return -EINVAL;
    }
    *out = line;
    return 0;
}

void bench_put_quoted(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            (void)fprintf(out, "\\%c", *text);
        } else if ((unsigned char)*text < ' ') {
            (void)fprintf(out, "\\u%04x", (unsigned)*text);
        } else {
            (void)fputc(*text, out);
        }
    }
    (void)fputc('"', out);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
    if (count == 0) {
        return (double)NAN;
    }
    qsort(values, count, sizeof(values[0]), compare_doubles);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

double bench_minimum(const double *values, size_t count)
{
    double least = (double)NAN;
    for (size_t i = 0; i < count; i++) {
        least = i == 0 || values[i] < least ? values[i] : least;
    }
    return least;
}

double bench_ratio(double value, double base)
{
    return value > 0 && base > 0 ? value / base : (double)NAN;
}
