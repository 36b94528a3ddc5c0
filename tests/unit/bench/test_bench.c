/* SPDX-License-Identifier: MIT */
/*
 * Goal:   the benchmark harness computes and reports correctly: a wrong number in a table is worse
 *         than none.
 * Method: the arithmetic and the line parser are called with known answers.  Whole runs use this
 *         program itself as the measured program, with rows that state the time they took, and
 *         shell scripts as peers, so that every figure of the report is known beforehand.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "parts.h"
#include "tap.h"

/* ---- arithmetic ----------------------------------------------------------------------------- */

static void stats_median_is_the_middle(void)
{
    double odd[] = {9, 1, 5};
    double even[] = {8, 2, 4, 6};
    double one[] = {7};
    CHECK(bench_median(odd, 3) == 5);
    CHECK(bench_median(even, 4) == 5);
    CHECK(bench_median(one, 1) == 7);
    CHECK(isnan(bench_median(one, 0)));
}

static void stats_minimum_is_the_smallest(void)
{
    const double values[] = {3, 1.5, 2};
    CHECK(bench_minimum(values, 3) == 1.5);
    CHECK(bench_minimum(values, 1) == 3);
    CHECK(isnan(bench_minimum(values, 0)));
}

static void stats_ratio_needs_both_figures(void)
{
    CHECK(bench_ratio(3, 2) == 1.5);
    CHECK(isnan(bench_ratio(3, 0)));
    CHECK(isnan(bench_ratio(0, 3)));
    CHECK(isnan(bench_ratio(3, (double)NAN)));
    CHECK(isnan(bench_ratio((double)NAN, 3)));
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void check_quoted(const char *text, const char *wanted)
{
    char out[64] = "";
    FILE *stream = fmemopen(out, sizeof(out), "w");
    CHECK(stream != NULL);
    bench_put_quoted(stream, text);
    CHECK_EQ(fclose(stream), 0);
    CHECK_STR(out, wanted);
}

static void json_quotes_text(void)
{
    check_quoted("", "\"\"");
    check_quoted("push+pop 64", "\"push+pop 64\"");
    check_quoted("a\"b\\c", "\"a\\\"b\\\\c\"");
    check_quoted("\t\n\x01", "\"\\u0009\\u000a\\u0001\"");
    check_quoted("\xc3\xa9", "\"\xc3\xa9\"");
}

static void json_line_is_parsed(void)
{
    struct bench_line line;
    CHECK_EQ(bench_parse_line("{\"row\":\"yield-2\",\"variant\":\"go\",\"unit\":\"switch\","
                              "\"ops\":10,\"workers\":2,\"wall_ns\":18446744073709551615,"
                              "\"cpu_ns\":0,\"rss_kb\":7}\n",
                              &line),
             0);
    CHECK_STR(line.row, "yield-2");
    CHECK_STR(line.variant, "go");
    CHECK_STR(line.unit, "switch");
    CHECK_EQ(line.ops, 10);
    CHECK_EQ(line.workers, 2);
    CHECK(line.wall_ns == UINT64_MAX);
    CHECK_EQ(line.cpu_ns, 0);
    CHECK_EQ(line.rss_kb, 7);
}

static void json_ignores_order_blanks_and_unknown_keys(void)
{
    struct bench_line line;
    CHECK_EQ(bench_parse_line(" { \"new\" : \"x\" , \"ops\" : 3 , \"newer\":1,\"variant\":"
                              "\"a\\\"b\\\\c\\/d\",\"row\":\"r\" } ",
                              &line),
             0);
    CHECK_STR(line.variant, "a\"b\\c/d");
    CHECK_STR(line.unit, "");
    CHECK_EQ(line.ops, 3);
    CHECK_EQ(line.wall_ns, 0);
}

static void check_refused(const char *text, int error)
{
    struct bench_line line;
    struct bench_line before;
    memset(&line, 0x5a, sizeof(line));
    before = line;
    int rc = bench_parse_line(text, &line);
    if (rc != error) {
        tap_fail(__FILE__, __LINE__, "%d instead of %d for %s", rc, error, text);
    }
    CHECK_EQ(memcmp(&line, &before, sizeof(line)), 0);
}

static void json_refuses_malformed_lines(void)
{
    static const char *const lines[] = {
        "",
        "{",
        "{}",
        "hello",
        "{\"row\":\"r\",\"variant\":\"v\",\"ops\":1",
        "{\"row\":\"r\",\"variant\":\"v\",\"ops\":1}}",
        "{\"row\":\"r\",\"variant\":\"v\",\"ops\":1} 2",
        "{\"row\":\"r\",\"variant\":\"v\",\"ops\":1,}",
        "{\"row\":\"r\" \"variant\":\"v\",\"ops\":1}",
        "{\"row\":\"r,\"variant\":\"v\",\"ops\":1}",
        "{\"row\":\"r\",\"variant\":\"v\",\"ops\":-1}",
        "{\"row\":\"r\",\"variant\":\"v\",\"ops\":+1}",
        "{\"row\":\"r\",\"variant\":\"v\",\"ops\":1.5}",
        "{\"row\":\"r\",\"variant\":\"v\",\"ops\":\"1\"}",
        "{\"row\":1,\"variant\":\"v\",\"ops\":1}",
        "{\"row\":\"r\",\"row\":\"r\",\"variant\":\"v\",\"ops\":1}",
        "{\"row\":\"r\\n\",\"variant\":\"v\",\"ops\":1}",
        "{\"row\":\"r\\",
        "{\"row\":\"r",
        "{\"row\":\"r\n\",\"variant\":\"v\",\"ops\":1}",
        "{row:\"r\",\"variant\":\"v\",\"ops\":1}",
        "{\"row\":[\"r\"],\"variant\":\"v\",\"ops\":1}",
        "{\"row\":\"\",\"variant\":\"v\",\"ops\":1}", /* from here: well-formed, but useless */
        "{\"variant\":\"v\",\"ops\":1}",
        "{\"row\":\"r\",\"ops\":1}",
        "{\"row\":\"r\",\"variant\":\"v\"}",
        "{\"row\":\"r\",\"variant\":\"v\",\"ops\":0}",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        check_refused(lines[i], -EINVAL);
    }
}

static void json_refuses_values_out_of_range(void)
{
    char text[256];
    char name[BENCH_NAME_MAX + 1];
    struct bench_line line;

    check_refused("{\"row\":\"r\",\"variant\":\"v\",\"ops\":18446744073709551616}", -ERANGE);
    memset(name, 'x', sizeof(name));
    name[BENCH_NAME_MAX] = '\0';
    (void)snprintf(text, sizeof(text), "{\"row\":\"%s\",\"variant\":\"v\",\"ops\":1}", name);
    check_refused(text, -ERANGE);
    name[BENCH_NAME_MAX - 1] = '\0'; /* the longest name that fits */
    (void)snprintf(text, sizeof(text), "{\"row\":\"%s\",\"variant\":\"v\",\"ops\":1}", name);
    CHECK_EQ(bench_parse_line(text, &line), 0);
    CHECK_STR(line.row, name);
}

/* ---- whole runs ----------------------------------------------------------------------------- */

/* Rows that state their own time: the report can be compared with known figures. */
static uint64_t run_ten(uint64_t ops, unsigned workers)
{
    (void)workers;
    return ops * 10;
}

static uint64_t run_twenty(uint64_t ops, unsigned workers)
{
    (void)workers;
    return ops * 20;
}

static uint64_t run_by_workers(uint64_t ops, unsigned workers)
{
    return ops * workers;
}

/* Timed by the harness: long enough to be more than 0. */
static uint64_t run_timed(uint64_t ops, unsigned workers)
{
    volatile uint64_t sum = workers;
    for (uint64_t i = 0; i < ops; i++) {
        sum = sum + i;
    }
    return 0;
}

static const struct bench_row rows[] = {
    {"known", "ten", "step", 1000, 0, run_ten},
    {"known", "twenty", "step", 1000, 0, run_twenty},
    {"split", "own", "task", 1000, 1, run_by_workers},
    {"timed", "own", "step", 100000, 0, run_timed},
};

static const struct bench_goal goals[] = {
    {"known", "twenty", "ten", 2.0, false, 0, false},
    {"known", "twenty", "ten", 2.0, true, 0, false},
    {"known", "ten", "twenty", 0.6, true, 0, false},
    {"known", "ten", "missing", 1.0, false, 0, false},
    {"known", "twenty", "ten", 1.5, false, 0, true},
    {"known", "ten", "peer", 0.5, false, 0, false},
    {"split", "own", "own", 1.0, false, 2, false},
};

static const struct bench_suite suite = {
    .title = "Suite",
    .base = "ten",
    .rows = rows,
    .row_count = sizeof(rows) / sizeof(rows[0]),
    .goals = goals,
    .goal_count = sizeof(goals) / sizeof(goals[0]),
};

enum { ARGS_MAX = 8, REPORT_MAX = 8192 };
static char *bench_args[ARGS_MAX + 1];
static int bench_argc;

static void run_bench(void)
{
    (void)dup2(STDERR_FILENO, STDOUT_FILENO); /* tap_run_child collects stderr */
    exit(bench_main(bench_argc, bench_args, &suite));
}

/* Runs the suite with these options (NULL ends the list); returns the exit status and the
 * report. */
static int run_with(char *report, char *const *options)
{
    const char *wrapper = getenv("WEFT_TEST_WRAP");
    if (wrapper != NULL && wrapper[0] != '\0') {
        tap_skip("a program cannot start itself inside an emulator");
    }
    bench_argc = 0;
    bench_args[bench_argc++] = (char *)(uintptr_t) "bench";
    for (; *options != NULL; options++) {
        CHECK(bench_argc < ARGS_MAX);
        bench_args[bench_argc++] = *options;
    }
    bench_args[bench_argc] = NULL;
    int status = tap_run_child(run_bench, report, REPORT_MAX);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define RUN(report, ...) run_with((report), (char *[]){__VA_ARGS__, NULL})
#define OPTION(text) ((char *)(uintptr_t)(text))

static void check_contains(const char *report, const char *wanted)
{
    if (strstr(report, wanted) == NULL) {
        tap_fail(__FILE__, __LINE__, "no \"%s\" in:\n%s", wanted, report);
    }
}

static void check_lacks(const char *report, const char *unwanted)
{
    if (strstr(report, unwanted) != NULL) {
        tap_fail(__FILE__, __LINE__, "\"%s\" in:\n%s", unwanted, report);
    }
}

/* Writes an executable shell script into a fresh directory. */
static void write_script(char *path, const char *body)
{
    char directory[] = "/tmp/test_bench.XXXXXX";
    CHECK(mkdtemp(directory) != NULL);
    (void)sprintf(path, "%s/peer", directory);
    FILE *script = fopen(path, "w");
    CHECK(script != NULL);
    CHECK(fprintf(script, "#!/bin/sh\n%s\n", body) > 0);
    CHECK_EQ(fclose(script), 0);
    CHECK_EQ(chmod(path, 0700), 0);
}

static void remove_script(char *path)
{
    CHECK_EQ(unlink(path), 0);
    *strrchr(path, '/') = '\0';
    CHECK_EQ(rmdir(path), 0);
}

static void report_table_divides_by_the_base(void)
{
    char report[REPORT_MAX];
    CHECK_EQ(RUN(report, OPTION("--reps"), OPTION("3"), OPTION("--filter"), OPTION("known")), 0);
    check_contains(report, "## Suite");
    check_contains(report, "; 3 repetitions\n");
    check_contains(report, "| min / ten | median / ten |");
    check_contains(report, "| known | 0 | step | ten | 10.0 | 10.0 | - |");
    check_contains(report, "| 1.00 | 1.00 |");
    check_contains(report, "| known | 0 | step | twenty | 20.0 | 20.0 | - |");
    check_contains(report, "| 2.00 | 2.00 |");
    check_lacks(report, "timed");
}

static void report_base_can_be_chosen(void)
{
    char report[REPORT_MAX];
    CHECK_EQ(RUN(report, OPTION("--base"), OPTION("twenty"), OPTION("--reps"), OPTION("1")), 0);
    check_contains(report, "| 0.50 | 0.50 |");
    check_contains(report, "| - | - |"); /* a row that has no such variant */
}

static void report_judges_goals_by_their_ratio(void)
{
    char report[REPORT_MAX];
    CHECK_EQ(RUN(report, OPTION("--quick")), 0);
    check_contains(report, "goal: known, twenty / ten <= 2.00: 2.00 (medians 2.00), met\n");
    check_contains(report, "goal: known, twenty / ten < 2.00: 2.00 (medians 2.00), not met\n");
    check_contains(report, "goal: known, ten / twenty < 0.60: 0.50 (medians 0.50), met\n");
    check_contains(report, "goal: known, twenty / ten <= 1.50: 2.00 (minima 2.00), not met\n");
    check_contains(report,
                   "goal: known, ten / missing <= 1.00: not measured, no figure of missing\n");
    check_contains(report, "goal: split, workers 2, own / own <= 1.00: 1.00 (medians 1.00), met\n");
}

static void run_varies_the_workers_of_a_row(void)
{
    char report[REPORT_MAX];
    CHECK_EQ(RUN(report, OPTION("--quick"), OPTION("--filter"), OPTION("split")), 0);
    check_contains(report, "| split | 1 | task | own | 1.00 | 1.00 |");
    check_contains(report, "| split | 2 | task | own | 2.00 | 2.00 |");
    CHECK_EQ(RUN(report, OPTION("--quick"), OPTION("--workers"), OPTION("5")), 0);
    check_contains(report, "| split | 5 | task | own | 5.00 | 5.00 |");
    check_lacks(report, "| split | 1 |");
}

/* The number in the n-th column (from 1) of a row of the table. */
static double column(const char *row, int n)
{
    for (; n > 0; n--) {
        row = strchr(row, '|');
        CHECK(row != NULL);
        row++;
    }
    return strtod(row, NULL);
}

static void run_times_a_row_that_does_not_time_itself(void)
{
    char report[REPORT_MAX];
    CHECK_EQ(RUN(report, OPTION("--quick"), OPTION("--filter"), OPTION("timed")), 0);
    const char *row = strstr(report, "| timed | 0 | step | own |");
    CHECK(row != NULL);
    double min_ns = column(row, 5);
    CHECK(min_ns > 0);
    CHECK(column(row, 6) >= min_ns); /* the median */
    CHECK(column(row, 8) > 0);       /* peak memory */
}

static void peer_joins_rows_of_the_same_name(void)
{
    char report[REPORT_MAX];
    char peer[64];
    char named[96];
    /* Uses its arguments: 5 ns per operation, and 10 ns more for each worker. */
    write_script(peer, "if [ \"$1\" = --list ]; then\n"
                       "  echo '{\"row\":\"known\",\"variant\":\"peer\",\"ops\":100,"
                       "\"unit\":\"step\",\"workers\":0}'\n"
                       "  echo '{\"row\":\"split\",\"variant\":\"peer\",\"ops\":100,"
                       "\"unit\":\"step\",\"workers\":1}'\n"
                       "  echo '{\"row\":\"other\",\"variant\":\"peer\",\"ops\":100}'\n"
                       "  exit\n"
                       "fi\n"
                       "echo \"{\\\"row\\\":\\\"$1\\\",\\\"variant\\\":\\\"$2\\\",\\\"ops\\\":$3,"
                       "\\\"wall_ns\\\":$(($3 * (5 + 10 * $4))),\\\"cpu_ns\\\":$(($3 * 3)),"
                       "\\\"rss_kb\\\":4321}\"");
    CHECK_EQ(RUN(report, OPTION("--reps"), OPTION("2"), OPTION("--peer"), peer), 0);
    check_contains(report, "| known | 0 | step | peer | 5.00 | 5.00 | 3.00 | 4321 | 0.50 | 0.50 |");
    check_contains(report, "| split | 1 | step | peer | 15.0 | 15.0 | 3.00 | 4321 | - | - |");
    check_contains(report, "| split | 2 | step | peer | 25.0 | 25.0 | 3.00 | 4321 | - | - |");
    check_contains(report, "goal: known, ten / peer <= 0.50: 2.00 (medians 2.00), not met\n");
    check_lacks(report, "| other |");
    CHECK(strstr(report, "| peer |") < strstr(report, "| split |")); /* beside its row */

    (void)snprintf(named, sizeof(named), "old=%s", peer);
    CHECK_EQ(RUN(report, OPTION("--quick"), OPTION("--peer"), named), 0);
    check_contains(report, "| known | 0 | step | old:peer | 5.00 | 5.00 |");
    remove_script(peer);
}

static void peer_failure_affects_only_its_own_cell(void)
{
    static const char *const endings[] = {
        "exit 1",
        "kill -9 $$",
        "echo nonsense",
        "echo '{\"row\":\"known\",\"variant\":\"peer\",\"ops\":100}'", /* no time */
        "echo '{\"row\":\"known\",\"variant\":\"peer\",\"ops\":1,\"wall_ns\":1}'; exit 3",
    };
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        char report[REPORT_MAX];
        char peer[64];
        char body[512];
        (void)snprintf(body, sizeof(body),
                       "if [ \"$1\" = --list ]; then echo not a row; echo "
                       "'{\"row\":\"known\",\"variant\":\"peer\",\"ops\":100}'; exit; fi\n%s",
                       endings[i]);
        write_script(peer, body);
        CHECK_EQ(RUN(report, OPTION("--quick"), OPTION("--peer"), peer), 1);
        check_contains(report, "skipped: a row of ");
        check_contains(report, "failed: known, peer\n");
        check_contains(report, "| known | 0 |  | peer | - | - | - | - | - | - |");
        check_contains(report, "| known | 0 | step | ten | 10.0 | 10.0 |");
        check_contains(report,
                       "goal: known, ten / peer <= 0.50: not measured, no figure of peer\n");
        remove_script(peer);
    }
}

static void peer_that_is_missing_is_skipped(void)
{
    char report[REPORT_MAX];
    CHECK_EQ(RUN(report, OPTION("--quick"), OPTION("--peer"), OPTION("/nowhere/peer")), 0);
    check_contains(report, "skipped: /nowhere/peer (does not list its rows)\n");
    check_contains(report, "| known | 0 | step | ten | 10.0 | 10.0 |");
}

static void report_json_has_a_line_per_cell(void)
{
    char report[REPORT_MAX];
    char path[] = "/tmp/test_bench.XXXXXX";
    char line[2048];
    size_t lines = 0;
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ(RUN(report, OPTION("--reps"), OPTION("2"), OPTION("--json"), path), 0);
    FILE *json = fdopen(fd, "r");
    CHECK(json != NULL);
    CHECK(fgets(line, sizeof(line), json) != NULL);
    CHECK_EQ(strncmp(line, "{\"machine\":\"", 12), 0);
    while (fgets(line, sizeof(line), json) != NULL) {
        lines++;
        check_contains(line, "\"reps\":2,\"min_ns\":");
        CHECK_STR(line + strlen(line) - 2, "}\n");
        if (strstr(line, "\"twenty\"") != NULL) {
            check_contains(line, "{\"row\":\"known\",\"variant\":\"twenty\",\"unit\":\"step\","
                                 "\"workers\":0,\"ops\":1000,\"reps\":2,\"min_ns\":20.000,"
                                 "\"median_ns\":20.000,\"cpu_ns\":0.000,\"rss_kb\":");
        }
    }
    CHECK_EQ(lines, 5); /* four rows, one of them with 1 and 2 workers */
    CHECK_EQ(fclose(json), 0);
    CHECK_EQ(unlink(path), 0);
}

static void run_does_not_repeat_long_rows(void)
{
    char report[REPORT_MAX];
    char path[] = "/tmp/test_bench.XXXXXX";
    char line[2048];
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ(RUN(report, OPTION("--seconds"), OPTION("0"), OPTION("--filter"), OPTION("known"),
                 OPTION("--json"), path),
             0);
    FILE *json = fdopen(fd, "r");
    CHECK(json != NULL);
    CHECK(fgets(line, sizeof(line), json) != NULL); /* the machine */
    CHECK(fgets(line, sizeof(line), json) != NULL);
    check_contains(line, "\"reps\":1,\"min_ns\":10.000,");
    CHECK_EQ(fclose(json), 0);
    CHECK_EQ(unlink(path), 0);
}

static void bench_refuses_bad_usage(void)
{
    char report[REPORT_MAX];
    CHECK_EQ(RUN(report, OPTION("--reps"), OPTION("0")), 2);
    check_contains(report, "usage: bench [--filter TEXT]");
    CHECK_EQ(RUN(report, OPTION("--reps"), OPTION("many")), 2);
    CHECK_EQ(RUN(report, OPTION("--workers"), OPTION("1,2")), 2);
    CHECK_EQ(RUN(report, OPTION("--seconds"), OPTION("-1")), 2);
    CHECK_EQ(RUN(report, OPTION("--json"), OPTION("/nowhere/file")), 2);
    CHECK_EQ(RUN(report, OPTION("--unheard-of")), 2);
    CHECK_EQ(RUN(report, OPTION("--filter")), 2); /* its argument is missing */
    CHECK_EQ(RUN(report, OPTION("known")), 2);
    CHECK_EQ(RUN(report, OPTION("no-row"), OPTION("ten"), OPTION("1"), OPTION("0")), 2);
    CHECK_EQ(RUN(report, OPTION("known"), OPTION("ten"), OPTION("none"), OPTION("0")), 2);
}

static const struct tap_test tests[] = {
    TAP_TEST(stats_median_is_the_middle),
    TAP_TEST(stats_minimum_is_the_smallest),
    TAP_TEST(stats_ratio_needs_both_figures),
    TAP_TEST(json_quotes_text),
    TAP_TEST(json_line_is_parsed),
    TAP_TEST(json_ignores_order_blanks_and_unknown_keys),
    TAP_TEST(json_refuses_malformed_lines),
    TAP_TEST(json_refuses_values_out_of_range),
    TAP_TEST(report_table_divides_by_the_base),
    TAP_TEST(report_base_can_be_chosen),
    TAP_TEST(report_judges_goals_by_their_ratio),
    TAP_TEST(run_varies_the_workers_of_a_row),
    TAP_TEST(run_times_a_row_that_does_not_time_itself),
    TAP_TEST(peer_joins_rows_of_the_same_name),
    TAP_TEST(peer_failure_affects_only_its_own_cell),
    TAP_TEST(peer_that_is_missing_is_skipped),
    TAP_TEST(report_json_has_a_line_per_cell),
    TAP_TEST(run_does_not_repeat_long_rows),
    TAP_TEST(bench_refuses_bad_usage),
};

/* The harness starts this program again, by this name, to measure its rows. */
int main(int argc, char **argv)
{
    if (strcmp(argv[0], "/proc/self/exe") == 0) {
        return bench_main(argc, argv, &suite);
    }
    return tap_main(argc, argv, __FILE__, tests, sizeof(tests) / sizeof(tests[0]));
}
