/* SPDX-License-Identifier: MIT */
/* model/main.c - the command line of a model program, its table, and the trace of a failing run. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/engine.h"

static const char usage[] =
    "usage: %s [options]\n"
    "  --test NAME        only tests whose name contains NAME\n"
    "  --memory M         only this memory model: sc, tso, view\n"
    "  --search S         dfs (default, exhaustive), plain (dfs without race reduction),\n"
    "                     pct:DEPTH, random\n"
    "  --bound N          dfs with at most N preemptions\n"
    "  --runs N           runs of pct and random (default 100000)\n"
    "  --seed N           first seed of pct and random; run k uses seed N + k\n"
    "  --trace            print the run that failed, also where failing is expected\n"
    "  --stop             stop at the first test that does not end as expected\n"
    "  --compare          dfs and plain must finish the same number of runs\n"
    "  --mutants          weaken the code at one place after the other: every mutant must fail\n"
    "  --verbose          with --mutants: also which test killed each\n"
    "  --limit N          with --mutants: seconds for each (default 300)\n";

static const char *program;
static bool is_trace_wanted;

const char *memory_name(enum model_memory memory)
{
    static const char *const names[] = {"sc", "tso", "view"};
    return names[memory];
}

const char *thread_name(unsigned thread)
{
    static const char *const numbers[MODEL_THREADS_MAX] = {"T0", "T1", "T2", "T3"};
    const char *name = engine.test->names[thread];
    return name != NULL ? name : numbers[thread];
}

/* ---- traces -------------------------------------------------------------------------------- */

void trace_step(const char *format, ...)
{
    if (!engine.is_tracing) {
        return;
    }
    /* Inside a guarded step no fiber runs; the step belongs to the action's thread then. */
    unsigned thread = engine.current >= 0 ? (unsigned)engine.current : memory_acting_thread();
    printf("  %4u  %-8s ", engine.steps, thread_name(thread));
    va_list args;
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    const struct model_site *site = engine.current < 0 ? memory_acting_site() : NULL;
    if (site != NULL) {
        printf("   [%s:%d %s]", site->file, site->line, site->function);
    }
    printf("\n");
}

static void print_failure(const struct search *search, const struct search_result *result)
{
    if (search->kind != SEARCH_DFS) {
        printf("  seed %" PRIu64 ", execution %" PRIu64 "\n", result->failing_seed,
               result->executions);
    }
    search_replay();
    printf("  => %s\n", engine.failure);
}

/* Prints the command that repeats the failing run. */
static void print_again(const struct model_test *test, enum model_memory memory,
                        const struct search *how, const struct search_result *result)
{
    printf("  again: %s --test \"%s\" --memory %s", program, test->name, memory_name(memory));
    if (how->kind == SEARCH_DFS && how->bound != 0) {
        printf(" --bound %u", how->bound - 1);
    } else if (how->kind == SEARCH_PCT) {
        printf(" --search pct:%u --runs 1 --seed %" PRIu64, how->depth, result->failing_seed);
    } else if (how->kind == SEARCH_RANDOM) {
        printf(" --search random --runs 1 --seed %" PRIu64, result->failing_seed);
    }
    printf(" --trace\n");
}

/* ---- tests --------------------------------------------------------------------------------- */

static void print_row(const struct model_suite *suite, const struct model_test *test,
                      enum model_memory memory, const struct search *search,
                      const struct search_result *result, bool is_as_expected)
{
    char name[96];
    (void)snprintf(name, sizeof(name), "%s: %s", suite->name, test->name);
    double rate = result->seconds > 0
                      ? (double)(result->executions + result->blocked) / result->seconds / 1e6
                      : 0;
    const char *extent = result->is_failed      ? "fails"
                         : result->is_exhausted ? "exhausted"
                                                : "sampled";
    char bound[24] = "";
    if (search->bound != 0) {
        (void)snprintf(bound, sizeof(bound), ", bound %u", search->bound - 1);
    }
    printf("%-56s %-4s %9" PRIu64 " runs + %9" PRIu64 " cut  %6.2f s  %5.2f M/s  %s%s%s\n", name,
           memory_name(memory), result->executions, result->blocked, result->seconds, rate, extent,
           bound, is_as_expected ? (result->is_failed ? " (as it must)" : "") : "  <-- WRONG");
}

/* True if the run stopped because of a limit of the checker.  Such a run shows nothing about the
 * code. */
static bool is_limit(void)
{
    static const char *const texts[] = {"for the model", "is too small", "not deterministic"};
    for (size_t i = 0; i < MODEL_COUNT(texts); i++) {
        if (strstr(engine.failure, texts[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static bool run_test(const struct model_suite *suite, const struct model_test *test,
                     enum model_memory memory, const struct search *how, bool is_quiet)
{
    struct search search = *how;
    if (search.kind == SEARCH_DFS && search.bound == 0) {
        search.bound = test->bound[memory];
    }
    struct search_result result;
    search_run(test, memory, &search, &result);
    bool is_expected_to_fail = test->expect[memory] == MODEL_FAILS;
    bool is_as_expected =
        result.is_failed == is_expected_to_fail && !(result.is_failed && is_limit());
    if (is_quiet) {
        return is_as_expected;
    }
    print_row(suite, test, memory, &search, &result, is_as_expected);
    if (result.is_failed && (!is_as_expected || is_trace_wanted)) {
        print_failure(&search, &result);
        if (!is_trace_wanted) {
            print_again(test, memory, how, &result);
        }
    }
    return is_as_expected;
}

bool suite_holds(const struct model_suite *suite, struct suite_place *place)
{
    const struct search search = {.kind = SEARCH_DFS};
    /* The weakest model first: it finds most. */
    static const enum model_memory order[] = {MODEL_VIEW, MODEL_TSO, MODEL_SC};
    for (size_t i = 0; i < suite->test_count; i++) {
        for (unsigned m = 0; m < MODEL_MEMORIES && !suite->tests[i].is_slow; m++) {
            *place = (struct suite_place){&suite->tests[i], order[m]};
            if (!run_test(suite, place->test, place->memory, &search, true)) {
                return false;
            }
        }
    }
    return true;
}

/* The reduction by races must lose nothing: each class of equivalent orders is run once with it
 * and once without.  Searches that fail stop early, so only those that hold can be compared. */
static bool compare(const struct model_suite *suite, const struct model_test *test,
                    enum model_memory memory)
{
    const struct search plain = {.kind = SEARCH_DFS, .is_bare = true};
    const struct search reduced = {.kind = SEARCH_DFS};
    struct search_result a;
    struct search_result b;
    if (test->is_slow || test->expect[memory] == MODEL_FAILS || test->bound[memory] != 0) {
        return true;
    }
    search_run(test, memory, &plain, &a);
    search_run(test, memory, &reduced, &b);
    bool is_same = a.executions == b.executions && !a.is_failed && !b.is_failed;
    printf("%s: %s, %s: %" PRIu64 " runs; cut %" PRIu64 " plainly, %" PRIu64 " by races%s\n",
           suite->name, test->name, memory_name(memory), a.executions, a.blocked, b.blocked,
           is_same ? "" : "  <-- WRONG: not as many");
    return is_same;
}

/* ---- command line -------------------------------------------------------------------------- */

struct arguments {
    struct search search;
    const char *test;
    const char *memory;
    unsigned limit_s;
    bool is_mutants;
    bool is_verbose;
    bool is_compare;
    bool is_stop;
};

static bool parse_search(const char *text, struct search *search)
{
    if (strcmp(text, "dfs") == 0) {
        search->kind = SEARCH_DFS;
    } else if (strcmp(text, "plain") == 0) {
        search->kind = SEARCH_DFS;
        search->is_bare = true;
    } else if (strcmp(text, "random") == 0) {
        search->kind = SEARCH_RANDOM;
    } else if (strncmp(text, "pct:", 4) == 0 && atoi(text + 4) > 0) {
        search->kind = SEARCH_PCT;
        search->depth = (unsigned)atoi(text + 4);
    } else {
        return false;
    }
    return true;
}

static bool parse_memory(const char *text)
{
    return strcmp(text, "sc") == 0 || strcmp(text, "tso") == 0 || strcmp(text, "view") == 0;
}

static bool parse(int argc, char **argv, struct arguments *out)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool is_flag = true;
        if (strcmp(argv[i], "--trace") == 0) {
            is_trace_wanted = true;
        } else if (strcmp(argv[i], "--mutants") == 0) {
            out->is_mutants = true;
        } else if (strcmp(argv[i], "--verbose") == 0) {
            out->is_verbose = true;
        } else if (strcmp(argv[i], "--stop") == 0) {
            out->is_stop = true;
        } else if (strcmp(argv[i], "--compare") == 0) {
            out->is_compare = true;
        } else {
            is_flag = false;
        }
        if (is_flag) {
            continue;
        }
        uint64_t number = value != NULL ? strtoull(value, NULL, 10) : 0;
        bool is_good = value != NULL;
        if (strcmp(argv[i], "--test") == 0) {
            out->test = value;
        } else if (strcmp(argv[i], "--memory") == 0) {
            out->memory = value;
            is_good = is_good && parse_memory(value);
        } else if (strcmp(argv[i], "--search") == 0) {
            is_good = is_good && parse_search(value, &out->search);
        } else if (strcmp(argv[i], "--bound") == 0) {
            out->search.bound = (unsigned)number + 1;
        } else if (strcmp(argv[i], "--runs") == 0) {
            out->search.runs = number;
        } else if (strcmp(argv[i], "--seed") == 0) {
            out->search.seed = number;
        } else if (strcmp(argv[i], "--limit") == 0) {
            out->limit_s = (unsigned)number;
        } else {
            is_good = false;
        }
        if (!is_good) {
            return false;
        }
        i++;
    }
    if (out->search.kind != SEARCH_DFS && out->search.runs == 0) {
        out->search.runs = 100000;
    }
    return true;
}

int model_main(int argc, char **argv, const struct model_suite *suite)
{
    struct arguments arguments = {.search = {.kind = SEARCH_DFS, .seed = 1}, .limit_s = 300};
    program = argv[0];
    /* line buffered into a pipe, too: for interactive use */
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (!parse(argc, argv, &arguments)) {
        (void)fprintf(stderr, usage, argv[0]);
        return 2;
    }
    if (arguments.is_mutants) {
        return mutant_run_all(suite, arguments.is_verbose, arguments.limit_s);
    }
    bool is_good = true;
    unsigned count = 0;
    for (size_t i = 0; i < suite->test_count; i++) {
        const struct model_test *test = &suite->tests[i];
        if (arguments.test != NULL && strstr(test->name, arguments.test) == NULL) {
            continue;
        }
        for (unsigned m = 0; m < MODEL_MEMORIES && (is_good || !arguments.is_stop); m++) {
            enum model_memory memory = (enum model_memory)m;
            if (arguments.memory == NULL || strcmp(arguments.memory, memory_name(memory)) == 0) {
                is_good = (arguments.is_compare
                               ? compare(suite, test, memory)
                               : run_test(suite, test, memory, &arguments.search, false)) &&
                          is_good;
                count++;
            }
        }
    }
    if (count == 0) {
        (void)fprintf(stderr, "%s: no test matches \"%s\"\n", program, arguments.test);
        return 2;
    }
    return is_good ? 0 : 1;
}
