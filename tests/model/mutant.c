/* SPDX-License-Identifier: MIT */
/*
 * model/mutant.c - is the checker, with these tests, able to see a missing order?
 *
 * Each site of the code under test is weakened by one degree, each fence is dropped, one at a time;
 * the whole suite then runs in a child process (a mutant may corrupt memory).  A mutant that no
 * test notices is either a hole in the tests or an order that the code does not need: it must be
 * listed by the suite as equivalent, with the reason.  A listed one that is noticed is an error
 * too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/engine.h"

enum { PARALLEL = 2, MUTANTS_MAX = 256, MUTANT_SECONDS_MAX = 300 };

struct mutant {
    struct model_site *site;
    uint8_t order;
    bool is_failure; /* the order of a failed CAS is weakened, not that of a successful one */
    pid_t child;
    char name[160];
};

extern struct model_site __start_model_sites[];
extern struct model_site __stop_model_sites[];

static struct mutant mutants[MUTANTS_MAX];
static size_t mutant_count;

static const char *short_name(unsigned order)
{
    switch (order) {
    case MODEL_RELAXED:
        return "relaxed";
    case MODEL_ACQUIRE:
        return "acquire";
    case MODEL_RELEASE:
        return "release";
    case MODEL_ACQ_REL:
        return "acq_rel";
    default:
        return "dropped";
    }
}

/* Sites are told apart by function, operation and cell; a number follows where that is not enough,
 * so that names in a suite's list outlive edits elsewhere in the file. */
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
                   site->name, site->cell, suffix, is_failure ? "failure " : "", short_name(order));
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

/* Sites of the test file itself are its own business. */
static bool is_under_test(const struct model_suite *suite, const struct model_site *site)
{
    return suite->mutated != NULL ? strcmp(site->file, suite->mutated) == 0
                                  : strncmp(site->file, "src/", 4) == 0;
}

static _Noreturn void run_mutant(const struct mutant *mutant, const struct model_suite *suite)
{
    if (mutant->is_failure) {
        mutant->site->failure_now = mutant->order;
    } else {
        mutant->site->order_now = mutant->order;
    }
    (void)alarm(MUTANT_SECONDS_MAX); /* a run without end is noticed, too */
    _exit(suite_holds(suite, true) ? 0 : 1);
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

/* Prints what is remarkable; gives 1 for a mutant that is not accounted for. */
static unsigned judge(const struct model_suite *suite, const struct mutant *mutant, int status,
                      unsigned *killed)
{
    bool is_killed = !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    const struct model_equivalent *equivalent = find_equivalent(suite, mutant->name);
    *killed += is_killed ? 1 : 0;
    if (is_killed && equivalent != NULL) {
        printf("  WRONG: listed as equivalent, but killed: %s\n", mutant->name);
        return 1;
    }
    if (!is_killed && equivalent == NULL) {
        printf("  WRONG: survives: %s  [%s:%d]\n", mutant->name, mutant->site->file,
               mutant->site->line);
        return 1;
    }
    if (!is_killed) {
        printf("  equivalent: %s\n              %s\n", mutant->name, equivalent->reason);
    }
    return 0;
}

static unsigned collect_one(const struct model_suite *suite, unsigned *killed)
{
    int status;
    pid_t child = wait(&status);
    for (size_t i = 0; i < mutant_count; i++) {
        if (mutants[i].child == child) {
            return judge(suite, &mutants[i], status, killed);
        }
    }
    return 1;
}

/* A listed equivalent that names no mutant has outlived its code. */
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

int mutant_run_all(const struct model_suite *suite)
{
    if (!suite_holds(suite, true)) { /* also finds out which sites the tests reach */
        printf("%s: the code itself fails; mutants mean nothing\n", suite->name);
        return 1;
    }
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
    unsigned killed = 0;
    (void)fflush(stdout);
    for (size_t i = 0; i < mutant_count; i++) {
        if (i >= PARALLEL) {
            wrong += collect_one(suite, &killed);
        }
        mutants[i].child = fork();
        if (mutants[i].child == 0) {
            run_mutant(&mutants[i], suite);
        }
    }
    for (size_t i = 0; i < mutant_count && i < PARALLEL; i++) {
        wrong += collect_one(suite, &killed);
    }
    wrong += check_list(suite);
    printf("%s: %zu mutants, %u killed, %zu equivalent\n", suite->name, mutant_count, killed,
           mutant_count - killed);
    return wrong == 0 ? 0 : 1;
}
