/* SPDX-License-Identifier: MIT */
/*
 * weft/fork.h - fork-join at the cost of a few instructions, for work that divides itself.
 *
 *     weft_fork left;
 *     weft_fork_go(&left, sort_half, &lower);      may run beside us from now on
 *     sort_half(&upper);
 *     intptr_t result = weft_fork_join(&left);     runs it here, if nobody took it
 *
 * The record lies in the caller's frame; nothing is allocated and nothing can fail.  Forks are
 * joined in the reverse order, each once, before the frame is left: who does not is told so.  A
 * fork that no other worker took is run by its join as a plain call; a join of one that was taken
 * suspends the task until it has ended.
 *
 * Waiting:  a fork may wait, yield and fork like any task.  When the task that forked is suspended,
 *           its forks become tasks of their own, so that it may even wait for what they do.
 * Cancel:   a fork runs under the deadline and the cancelling of the task that forked it; a join
 *           always waits for the end, and passes a cancel on to forks that others run.
 * Failing:  weft_fail in a fork fails the task that forked it, at the join.
 * Identity: a fork has none.  weft_self and task-local values are those of the task it happens to
 *           run in, which is either the one that forked it or a new one.
 * Pinning:  forks of a task that is pinned or has a rounding mode of its own run in that task; if
 *           it is suspended, those of a pinned one become tasks pinned to the same thread.
 * Outside:  in a thread that is no worker, and in a poll task, a fork runs at once, in
 *           weft_fork_go.
 */
#ifndef WEFT_FORK_H
#define WEFT_FORK_H

#include <weft/types.h>

WEFT_BEGIN

/* The forks of a task that are not joined yet. */
typedef struct weft_forks weft_forks;

/* All fields are private. */
typedef struct weft_fork {
    weft_fn fn;
    void *arg;
    struct weft_fork *older;
    struct weft_fork *newer;
    weft_forks *forks;
    weft_task *task;
    intptr_t result;
    uint32_t place;
    uint32_t reserved;
} weft_fork;

/* From now on another worker may run fn(arg). */
WEFT_API void weft_fork_go(weft_fork *fork, weft_fn fn, void *arg);

/* The result of the newest fork that was not joined, which has ended then. */
static inline intptr_t weft_fork_join(weft_fork *fork);

/* ---- private from here on -------------------------------------------------------------------- */

/* What weft_fork_join does unless nobody asks for work. */
WEFT_API intptr_t weft_fork_join_slowly(weft_forks *forks, weft_fork *fork);

/* The part of weft_forks that is used inline. */
struct weft_forks_front {
    weft_fork *newest;
    weft_fork *marked;
    void *hidden[14];
    uint32_t asked;
};

static inline struct weft_forks_front *weft_forks_front_of(weft_forks *forks)
{
    return (struct weft_forks_front *)(void *)forks;
}

static inline bool weft_forks_is_asked(weft_forks *forks)
{
    return __builtin_expect(
        __atomic_load_n(&weft_forks_front_of(forks)->asked, __ATOMIC_RELAXED) != 0, 0);
}

static inline intptr_t weft_fork_join(weft_fork *fork)
{
    struct weft_forks_front *front = weft_forks_front_of(fork->forks);
    if (weft_forks_is_asked(fork->forks) || __builtin_expect(front->marked == fork, 0) ||
        __builtin_expect(front->newest != fork, 0)) { /* the last: a broken rule, which it tells */
        return weft_fork_join_slowly(fork->forks, fork);
    }
    front->newest = fork->older;
    return fork->fn(fork->arg);
}

WEFT_END

#endif
