/* SPDX-License-Identifier: MIT */
/*
 * par/par.h - parallel loops, reductions, scans and sorts on top of forks.
 *
 * Promises:      unless a call is cancelled, every index is processed exactly once before it
 *                returns, by the caller or by thieves, and the result is that of the sequential
 *                form.  A call from which no thief steals costs little more than that form.
 * Must not know: how forks are stolen, tasks, workers.  The layer uses the public interface of
 *                forks; only grain.c calls sched: for the state of the calling task, and for the
 *                undo hook of struct wf_par_memory.
 *
 *   chunk     a range of indices that one call of the body gets
 *   grain     a range of at most this many indices is not split; the caller of a loop may set it,
 *             and chunks have this size then
 *
 * Splitting is lazy: the task processes its range chunk by chunk, and checks between two chunks
 * whether a thief has requested work.  Only then does it fork the upper half of the rest.  The
 * check is a load and a branch.  (Tzannes et al., "Lazy Binary-Splitting", PPoPP 2010; their check
 * reads a queue.)
 */
#ifndef WF_PAR_PAR_H
#define WF_PAR_PAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/par.h>
#include <weft/par_fork.h>
#include <weft/par_fork_typed.h>
#include <weft/runtime.h>
#include <weft/task.h>

#include "base/base.h"
#include "os/os.h"
#include "sched/wait.h"

/* [the task]  The size of the chunks of a range that the task processes. */
struct wf_grain {
    size_t grain;     /* ranges up to this size are not split; at least 1 */
    size_t chunk;     /* indices of the next chunk */
    bool is_measured; /* the caller gave no grain: chunks are timed */
    size_t seen;      /* indices of the last timed chunk; 0: none yet */
    int64_t seen_ns;  /* duration of that chunk */
};

/* The state for a new range.  grain 0: chunks are timed, and the first is one index. */
struct wf_grain wf_grain_of(size_t grain);
/* A chunk of `count` indices took `ns`: sets the size of the next chunk. */
void wf_grain_adapt(struct wf_grain *grain, size_t count, int64_t ns);

/* Whether `count` remaining indices take longer than it costs to wake another worker.  Also true if
 * the caller of the loop set the grain, or if the range is small and no chunk was timed yet. */
bool wf_grain_is_worth_forking(const struct wf_grain *grain, size_t count);

/* [any]  The forks of the calling task.  NULL: the caller cannot fork (a non-worker thread, a poll
 * task), and must not split. */
weft_par_forks *wf_par_forks(void);

/* Memory for the duration of one call.  wf_par_free frees it.  A function of the user may call
 * weft_fail, or may wait or yield when a forced close comes: then the call never returns, and the
 * hook frees it. */
struct wf_par_memory {
    void *bytes; /* NULL: out of memory */
    struct wf_undo_hook hook;
};
/* [any]  Allocates `size` bytes; memory->bytes is NULL on failure. */
void wf_par_alloc(struct wf_par_memory *memory, size_t size);
/* [any]  Frees them.  Only the caller of wf_par_alloc may call it. */
void wf_par_free(struct wf_par_memory *memory);

/* [any]  Whether the calling task is shielded.  A stolen fork does not inherit the shield: the
 * caller must pass it on. */
bool wf_par_is_shielded(void);

/* [the task]  Whether to split a range with `count` remaining indices: forks were requested, and
 * the range is large enough. */
static inline bool wf_par_is_split(weft_par_forks *forks, const struct wf_grain *grain,
                                   size_t count)
{
    return forks != NULL && count > grain->grain && weft_par_forks_is_requested(forks) &&
           wf_grain_is_worth_forking(grain, count);
}

#endif
