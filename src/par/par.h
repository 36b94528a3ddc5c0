/* SPDX-License-Identifier: MIT */
/*
 * par/par.h - loops, sums and sorts made of forks.
 *
 * Promises:      every piece is done once before a call returns, whoever does it, and the result is
 *                that of the plain form.  A call that nobody helps costs little more than that.
 * Must not know: how forks are taken, tasks, workers: the layer uses the public interface of forks
 *                and nothing else of sched.
 *
 *   piece     a range of indices that one body gets at a time
 *   pace      how large pieces are, so that one takes some microseconds
 *
 * Splitting is lazy: a range is worked off piece by piece, and between two pieces the task looks
 * whether somebody asks it for work; only then does half of what is left become a fork.  The look
 * is a load and a branch.  (Tzannes et al., "Lazy Binary-Splitting", PPoPP 2010; here without a
 * look at a queue.)
 */
#ifndef WF_PAR_PAR_H
#define WF_PAR_PAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/fork.h>
#include <weft/fork_typed.h>
#include <weft/par.h>
#include <weft/runtime.h>
#include <weft/task.h>

#include "base/base.h"
#include "os/os.h"

/* How large the pieces of a range are at the moment.  Every field is that of the task that works it
 * off. */
struct wf_pace {
    size_t grain;     /* not split below this; at least 1 */
    size_t piece;     /* indices of the next one */
    bool is_measured; /* the grain was left to us */
    size_t seen;      /* indices of the last piece that was measured; 0: none yet */
    int64_t seen_ns;  /* how long it took */
};

struct wf_pace wf_pace_of(size_t grain);
/* So many indices took so long. */
void wf_pace_adapt(struct wf_pace *pace, size_t count, int64_t ns);

/* Whether so many indices are worth the work of another. */
bool wf_pace_is_worth(const struct wf_pace *pace, size_t count);

/* The forks of the calling task; NULL: outside of tasks, where nobody would take any. */
weft_forks *wf_par_forks(void);

/* Memory that lasts for one call: it goes back with wf_par_free, or when a function of the user's
 * fails by weft_fail, and the call never returns. */
struct wf_par_memory {
    void *bytes; /* NULL: there was none */
    bool has_cleanup;
    weft_cleanup cleanup;
};
void wf_par_alloc(struct wf_par_memory *memory, size_t size);
void wf_par_free(struct wf_par_memory *memory);

/* Whether the calling task stands behind a shield: a fork that another worker took does not. */
bool wf_par_is_shielded(void);

/* Whether the range is to be split, because somebody wants work and it is large enough. */
static inline bool wf_par_is_split(weft_forks *forks, const struct wf_pace *pace, size_t count)
{
    return forks != NULL && count > pace->grain && weft_forks_is_asked(forks) &&
           wf_pace_is_worth(pace, count);
}

#endif
