/* SPDX-License-Identifier: MIT */
/* marks.h - which rare branches a test has reached: for tests that aim at one, and for
 * tests/marks.sh, which requires that some test reaches each. */
#ifndef MARKS_H
#define MARKS_H

#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "tap.h"

#define TRIES_TO_REACH 200u

/* True if this process has passed WF_REACHED(name); never in builds without marks. */
static inline bool is_reached(const char *name)
{
    const struct wf_mark *mark;
    size_t count = wf_marks(&mark);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(mark[i].name, name) == 0 && wf_load_relaxed(&mark[i].is_reached) != 0) {
            return true;
        }
    }
    return false;
}

/* Fails unless this process has passed WF_REACHED(name). Has no effect in builds without marks. */
static inline void check_reached(const char *name)
{
#ifdef WF_TEST_HOOKS
    if (!is_reached(name)) {
        tap_fail(__FILE__, __LINE__, "the branch %s was not taken", name);
    }
#else
    (void)name;
#endif
}

/* True while a scenario that reaches a branch by chance should be run (again): until this process
 * has passed WF_REACHED(name), at most TRIES_TO_REACH times; once in builds without marks.  *tries
 * begins at 0. */
static inline bool tries_to_reach(const char *name, unsigned *tries)
{
#ifdef WF_TEST_HOOKS
    return (*tries)++ == 0 || (!is_reached(name) && *tries <= TRIES_TO_REACH);
#else
    (void)name;
    return (*tries)++ == 0;
#endif
}

/* Appends the marks that this process reached to the file, if one is named; one write for all marks
 * keeps the lines of parallel tests intact. */
static inline void marks_write(const char *path)
{
    const struct wf_mark *mark;
    size_t count = wf_marks(&mark);
    FILE *file = path == NULL || count == 0 ? NULL : fopen(path, "a");
    if (file == NULL) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (wf_load_relaxed(&mark[i].is_reached) != 0) {
            (void)fprintf(file, "%s\n", mark[i].name);
        }
    }
    (void)fclose(file);
}

#endif
