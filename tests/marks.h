/* SPDX-License-Identifier: MIT */
/* marks.h - lets a test that sets out to reach a rare branch prove that it did. */
#ifndef MARKS_H
#define MARKS_H

#include <string.h>

#include "base/base.h"
#include "tap.h"

/* Fails unless this process has passed WF_REACHED(name).  Builds without marks prove nothing and
 * let it pass. */
static inline void check_reached(const char *name)
{
#ifdef WF_TEST_AIDS
    const struct wf_mark *mark;
    size_t count = wf_marks(&mark);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(mark[i].name, name) == 0 && wf_load_relaxed(&mark[i].is_reached) != 0) {
            return;
        }
    }
    tap_fail(__FILE__, __LINE__, "the branch %s was not taken", name);
#else
    (void)name;
#endif
}

#endif
