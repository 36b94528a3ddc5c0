/* SPDX-License-Identifier: MIT */
/*
 * model/mutant.c - can the checker, with these tests, find a missing order?
 *
 * Each site of the code under test is weakened by one degree, each fence is dropped, one at a time;
 * the whole suite then runs in a child process (a mutant may corrupt memory).  A mutant that no
 * test notices is either a hole in the tests or an order that the code does not need: it must be
 * listed by the suite as equivalent, with the reason.  A listed one that is noticed is an error
 * too.
 *
 * A mutant that crashes is noticed, but counted apart, since the crash may come from the checker.
 * One that is still running at its limit has shown nothing, and is an error.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/engine.h"

enum { PARALLEL = 2, MUTANTS_MAX = 256 };

enum verdict { SURVIVED, KILLED, CRASHED, TIMED_OUT, LOST, VERDICTS };

struct mutant {
    struct model_site *site;
    uint8_t order;
    bool is_failure; /* the order of a failed CAS is weakened, not that of a successful one */
    pid_t child;
    struct suite_place *place; /* [child: write]  the test that runs, or that failed */
    char name[160];
};

extern struct model_site __start_model_sites[];
extern struct model_site __stop_model_sites[];

static struct mutant mutants[MUTANTS_MAX];
static size_t mutant_count;

/* Results of the mutants. */
struct tally {
    unsigned verdicts[VERDICTS];
    unsigned equivalent;
    unsigned wrong;
    bool is_verbose;
};

/* Sites are distinguished by function, operation and cell; a number follows where that is not
 * enough, so that names in a suite's list survive edits elsewhere in the file. */
static unsigned occurrence(const struct model_site *site)
{
    unsigned before = 0;
    for (const struct model_site *s = __start_model_sites; s < __stop_model_sites; s++) {
        bool is_alike = s->function != NULL && strcmp(s->function, site->function) == 0 &&
                        strcmp(s->name, site->name) == 0 && strcmp(s->cell, site->cell) == 0;
        before += is_alike && s->line < site->line ? 1 : 0;
    }
    return before + 1;
}

static void add(struct model_site *site, unsigned order, bool is_failure)
{
    if (mutant_count == MUTANTS_MAX) {
        abort();
    }
    struct mutant *mutant = &mutants[mutant_count++];
    *mutant = (struct mutant){.site = site, .order = (uint8_t)order, .is_failure = is_failure};
    unsigned number = occurrence(site);
    char suffix[16] = "";
    if (number > 1) {
        (void)snprintf(suffix, sizeof(suffix), " #%u", number);
    }
    (void)snprintf(mutant->name, sizeof(mutant->name), "%s: %s(%s)%s -> %s%s", site->function,
                   site->name, site->cell, suffix, is_failure ? "failure " : "", order_name(order));
}

/* The orders one degree weaker. */
static void add_mutants_of(struct model_site *site)
{
    bool is_load = site->kind == MODEL_LOAD;
    bool is_store = site->kind == MODEL_STORE;
    switch (site->order) {
    case MODEL_SEQ_CST:
        add(site,
            site->kind == MODEL_FENCE ? MODEL_DROPPED
            : is_load                 ? MODEL_ACQUIRE
            : is_store                ? MODEL_RELEASE
                                      : MODEL_ACQ_REL,
            false);
        break;
    case MODEL_ACQ_REL:
        add(site, MODEL_ACQUIRE, false);
        add(site, MODEL_RELEASE, false);
        break;
    case MODEL_ACQUIRE:
    case MODEL_RELEASE:
        add(site, MODEL_RELAXED, false);
        break;
    default:
        break;
    }
    if (site->kind == MODEL_CAS && site->failure_order == MODEL_ACQUIRE) {
        add(site, MODEL_RELAXED, true);
    }
}

/* Sites of the test file itself are not mutated. */
static bool is_under_test(const struct model_suite *suite, const struct model_site *site)
{
    const char *name = suite->mutated != NULL ? suite->mutated : "src/";
    while (name != NULL) {
        const size_t length = strcspn(name, " ");
        if (strncmp(site->file, name, length) == 0) {
            return true;
        }
        name = name[length] != '\0' ? name + length + 1 : NULL;
    }
    return false;
}

static _Noreturn void run_mutant(const struct mutant *mutant, const struct model_suite *suite,
                                 unsigned limit_s)
{
    if (mutant->is_failure) {
        mutant->site->failure_now = mutant->order;
    } else {
        mutant->site->order_now = mutant->order;
    }
    (void)alarm(limit_s);
    _exit(suite_holds(suite, mutant->place) ? 0 : 1);
}

static enum verdict verdict_of(int status)
{
    if (WIFEXITED(status)) {
        return WEXITSTATUS(status) == 0 ? SURVIVED : WEXITSTATUS(status) == 1 ? KILLED : LOST;
    }
    switch (WTERMSIG(status)) {
    case SIGALRM:
        return TIMED_OUT;
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGILL:
    case SIGFPE:
        return CRASHED;
    default:
        return LOST; /* another process ended it */
    }
}

static const struct model_equivalent *find_equivalent(const struct model_suite *suite,
                                                      const char *name)
{
    for (size_t i = 0; i < suite->equivalent_count; i++) {
        if (strcmp(suite->equivalents[i].mutant, name) == 0) {
            return &suite->equivalents[i];
        }
    }
    return NULL;
}

/* In lines of at most 100 columns, each indented. */
static void print_folded(const char *text, int indent)
{
    const size_t width = 100 - (size_t)indent;
    while (*text != '\0') {
        size_t length = strlen(text);
        if (length > width) {
            length = width;
            while (length > 1 && text[length] != ' ') {
                length--;
            }
        }
        printf("%*s%.*s\n", indent, "", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

static void print_place(const char *what, const struct mutant *mutant)
{
    printf("  %s: %s  (in %s, %s)\n", what, mutant->name, mutant->place->test->name,
           memory_name(mutant->place->memory));
}

/* Counts the mutant, and prints it if it is wrong or if all are wanted. */
static void judge(const struct model_suite *suite, const struct mutant *mutant, int status,
                  struct tally *tally)
{
    const enum verdict verdict = verdict_of(status);
    const bool is_noticed = verdict == KILLED || verdict == CRASHED;
    const struct model_equivalent *equivalent = find_equivalent(suite, mutant->name);
    tally->verdicts[verdict]++;
    if (is_noticed && equivalent != NULL) {
        print_place("WRONG: listed as equivalent, but noticed", mutant);
        tally->wrong++;
    } else if (is_noticed && tally->is_verbose) {
        print_place(verdict == KILLED ? "killed" : "crashed", mutant);
    } else if (verdict == TIMED_OUT) {
        print_place("WRONG: still running when its time was over", mutant);
        tally->wrong++;
    } else if (verdict == LOST) {
        print_place("WRONG: ended by neither the model nor itself", mutant);
        tally->wrong++;
    } else if (verdict == SURVIVED && equivalent == NULL) {
        printf("  WRONG: survives: %s  [%s:%d]\n", mutant->name, mutant->site->file,
               mutant->site->line);
        tally->wrong++;
    } else if (verdict == SURVIVED) {
        printf("  equivalent: %s\n", mutant->name);
        print_folded(equivalent->reason, 14);
        tally->equivalent++;
    }
}

static void collect_one(const struct model_suite *suite, struct tally *tally)
{
    int status;
    pid_t child = wait(&status);
    for (size_t i = 0; i < mutant_count; i++) {
        if (mutants[i].child == child && child > 0) {
            judge(suite, &mutants[i], status, tally);
            return;
        }
    }
    printf("  WRONG: a mutant could not be started\n");
    tally->wrong++;
}

/* An entry of the list that names no mutant refers to code that has changed. */
static unsigned check_list(const struct model_suite *suite)
{
    unsigned wrong = 0;
    for (size_t i = 0; i < suite->equivalent_count; i++) {
        bool is_found = false;
        for (size_t k = 0; k < mutant_count; k++) {
            is_found = is_found || strcmp(mutants[k].name, suite->equivalents[i].mutant) == 0;
        }
        if (!is_found) {
            printf("  WRONG: no such mutant: %s\n", suite->equivalents[i].mutant);
            wrong++;
        }
    }
    return wrong;
}

/* Children store their current test here; the pointers are valid on both sides of a fork. */
static struct suite_place *shared_places(void)
{
    void *memory = mmap(NULL, MUTANTS_MAX * sizeof(struct suite_place), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    return memory;
}

/* Makes a mutant for each degree of each site that the tests reach; returns the number of sites
 * that no test reaches. */
static unsigned make_mutants(const struct model_suite *suite)
{
    unsigned wrong = 0;
    for (struct model_site *site = __start_model_sites; site < __stop_model_sites; site++) {
        if (is_under_test(suite, site) && site->is_reached) {
            add_mutants_of(site);
        } else if (is_under_test(suite, site) && site->order != MODEL_RELAXED &&
                   site->function != NULL) {
            printf("  WRONG: no test reaches %s: %s(%s) while threads run\n", site->function,
                   site->name, site->cell);
            wrong++;
        }
    }
    return wrong;
}

int mutant_run_all(const struct model_suite *suite, bool is_verbose, unsigned limit_s)
{
    struct suite_place *places = shared_places();
    if (!suite_holds(suite, places)) { /* also records which sites the tests reach */
        printf("  WRONG: %s: the code itself fails in %s, %s; mutants mean nothing\n", suite->name,
               places->test->name, memory_name(places->memory));
        return 1;
    }
    struct tally tally = {.is_verbose = is_verbose, .wrong = make_mutants(suite)};
    for (size_t i = 0; i < mutant_count; i++) {
        if (i >= PARALLEL) {
            collect_one(suite, &tally);
        }
        places[i] = (struct suite_place){suite->tests, MODEL_VIEW};
        mutants[i].place = &places[i];
        mutants[i].child = fork();
        if (mutants[i].child == 0) {
            run_mutant(&mutants[i], suite, limit_s);
        }
    }
    for (size_t i = 0; i < mutant_count && i < PARALLEL; i++) {
        collect_one(suite, &tally);
    }
    tally.wrong += check_list(suite);
    printf("%s: %zu mutants, %u killed, %u crashed, %u equivalent, %u wrong\n", suite->name,
           mutant_count, tally.verdicts[KILLED], tally.verdicts[CRASHED], tally.equivalent,
           tally.wrong);
    return tally.wrong == 0 ? 0 : 1;
}
