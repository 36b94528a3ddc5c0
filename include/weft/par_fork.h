/* SPDX-License-Identifier: MIT */
/*
 * weft/par_fork.h - fork-join at the cost of a few instructions, for work that divides itself.
 *
 *     weft_par_fork left;
 *     weft_par_fork_go(&left, sort_half, &lower);      may run on another worker from here on
 *     sort_half(&upper);
 *     intptr_t result = weft_par_fork_join(&left);     runs it here, unless a thief took it
 *
 * The record lies in the caller's frame; nothing is allocated and nothing can fail.  Forks must be
 * joined in reverse order, each once, before the frame is left; a violation that a check detects
 * ends the process with a message.  A fork that no thief took is run by its join as a plain call.
 * The join of a fork that was taken suspends the task until the fork has ended.
 *
 * Waiting:  a fork may wait, yield and fork like any task.  When the task that forked is suspended,
 *           its forks become tasks of their own, so that task may even wait for something that one
 *           of its forks does.
 * Cancel:   a fork runs under the deadline and the cancellation of the task that forked it.  A join
 *           always waits for the end, and passes a cancellation on to forks that thieves run.
 * Failing:  weft_fail in a fork fails the task that forked it, at the join.
 * Identity: a fork has none.  weft_self and task-local values are those of the task it happens to
 *           run in: the task that forked it, or a new one.
 * Pinning:  forks of a pinned task, or of a task with its own rounding mode, run in that task.  If
 *           a pinned task is suspended, its forks become tasks pinned to the same thread.
 * Outside:  on a non-worker thread and in a poll task, weft_par_fork_go runs the fork at once.
 */
#ifndef WEFT_PAR_FORK_H
#define WEFT_PAR_FORK_H

#include <weft/types.h>

WEFT_BEGIN

/* The forks of one task that are not joined yet. */
typedef struct weft_par_forks weft_par_forks;

/* All fields are private. */
typedef struct weft_par_fork {
    weft_fn fn;
    void *arg;
    struct weft_par_fork *older;
    struct weft_par_fork *newer;
    weft_par_forks *forks;
    weft_task *task;
    intptr_t result;
    uint32_t place;
    uint32_t reserved;
} weft_par_fork;

/* Forks fn(arg): another worker may run it from here on.  Never waits.  The record must stay in
 * place until weft_par_fork_join. */
WEFT_API void weft_par_fork_go(weft_par_fork *fork, weft_fn fn, void *arg) WEFT_NONNULL(1, 2);

/* Joins the newest fork that is not joined yet, which `fork` must be, and returns its result.  May
 * suspend the task, or run the fork as a plain call. */
static inline intptr_t weft_par_fork_join(weft_par_fork *fork);

/* ---- private from here on -------------------------------------------------------------------- */

/* The slow path of weft_par_fork_join: a thief has requested forks, or took this one. */
WEFT_API intptr_t weft_par_fork_join_slow(weft_par_forks *forks, weft_par_fork *fork)
    WEFT_NONNULL(1, 2);

/* The part of weft_par_forks that is used inline. */
struct weft_par_forks_front {
    weft_par_fork *newest;
    weft_par_fork *marked;
    void *opaque[14];
    uint32_t requested;
};

static inline struct weft_par_forks_front *weft_par_forks_front_of(weft_par_forks *forks)
{
    return (struct weft_par_forks_front *)(void *)forks;
}

static inline bool weft_par_forks_is_requested(weft_par_forks *forks)
{
    return __builtin_expect(
        __atomic_load_n(&weft_par_forks_front_of(forks)->requested, __ATOMIC_RELAXED) != 0, 0);
}

static inline intptr_t weft_par_fork_join(weft_par_fork *fork)
{
    struct weft_par_forks_front *front = weft_par_forks_front_of(fork->forks);
    if (weft_par_forks_is_requested(fork->forks) || __builtin_expect(front->marked == fork, 0) ||
        __builtin_expect(front->newest != fork,
                         0)) { /* not the newest fork: a violation, which the slow path reports */
        return weft_par_fork_join_slow(fork->forks, fork);
    }
    front->newest = fork->older;
    return fork->fn(fork->arg);
}

WEFT_END

#endif
