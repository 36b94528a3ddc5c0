/* SPDX-License-Identifier: MIT */
/*
 * weft/event.h - waiting for something to happen: notify, wait group, latch, barrier, once.
 *
 * What weft/sync.h says of zeros, waiting, ends, grants and memory holds for all of these too.
 */
#ifndef WEFT_EVENT_H
#define WEFT_EVENT_H

#include <weft/types.h>

WEFT_BEGIN

/* ---- notify ---------------------------------------------------------------------------------- */

/* "Look again."  Keeps one permit if nobody waits, however often it was notified: so whoever
 * changes something and then notifies is heard by who looks and then waits. */
typedef struct weft_notify {
    uint64_t private_data[4];
} weft_notify;

/*
 * Takes the permit, or waits to be notified.
 *
 * 0            it was notified
 * -EINVAL      NULL
 * -ECANCELED   the task was asked to end
 * -ETIMEDOUT   the task's deadline came first
 */
WEFT_API int weft_notify_wait(weft_notify *notify);
/* The same without waiting.  -EAGAIN: there is no permit. */
WEFT_API int weft_notify_try(weft_notify *notify);
/* Lets go on who has waited longest; if nobody waits, the next who would.  -EINVAL: NULL. */
WEFT_API int weft_notify_one(weft_notify *notify);
/* Lets go on all who wait now; keeps nothing for those who come later.  -EINVAL: NULL. */
WEFT_API int weft_notify_all(weft_notify *notify);

/* ---- wait group and latch -------------------------------------------------------------------- */

/* Waits for work that is counted: add before it begins, done when it has ended. */
typedef struct weft_group {
    uint64_t private_data[4];
} weft_group;

/* So much more.  -EINVAL: NULL; -EOVERFLOW: more than UINT32_MAX, and it is as before. */
WEFT_API int weft_group_add(weft_group *group, uint32_t count);
/* One less.  At 0 all who wait go on.  -EINVAL: NULL, or there is none left: it is as before. */
WEFT_API int weft_group_done(weft_group *group);
/*
 * Waits until there is nothing left.
 *
 * 0            there was a moment at which there was nothing
 * -EINVAL      NULL
 * -ECANCELED   the task was asked to end
 * -ETIMEDOUT   the task's deadline came first
 */
WEFT_API int weft_group_wait(weft_group *group);
/* How much is left.  -EINVAL: NULL. */
WEFT_API int64_t weft_group_count(const weft_group *group);

/* A door that is opened once, by as many as it was set up for; all zeros is open. */
typedef struct weft_latch {
    weft_group group;
} weft_latch;

/* clang-format off */
#define WEFT_LATCH_INIT(count) {{{(uint64_t)(uint32_t)(count) << 1, 0, 0, 0}}}
/* clang-format on */

/* For one that is not static.  Nobody uses it yet.  -EINVAL: NULL. */
WEFT_API int weft_latch_init(weft_latch *latch, uint32_t count);
/* So many less.  -EINVAL: NULL, or more than are left: it is as before. */
WEFT_API int weft_latch_count_down(weft_latch *latch, uint32_t count);
/* As weft_group_wait. */
WEFT_API int weft_latch_wait(weft_latch *latch);
/* 0: it is open; -EAGAIN: it is not; -EINVAL: NULL. */
WEFT_API int weft_latch_try(weft_latch *latch);

/* ---- barrier --------------------------------------------------------------------------------- */

/* So many come together, again and again.  All zeros is for nobody: it needs a number. */
typedef struct weft_barrier {
    uint64_t private_data[5];
} weft_barrier;

/* clang-format off */
#define WEFT_BARRIER_INIT(count) {{0, 0, 0, (uint64_t)(uint32_t)(count), 0}}
/* clang-format on */

/* For one that is not static.  Nobody uses it yet.  -EINVAL: NULL, or a count of 0. */
WEFT_API int weft_barrier_init(weft_barrier *barrier, uint32_t count);
/*
 * Waits until as many have come as it was set up for.  The next to come begin a new generation.
 *
 * 1            all have come, and this is the leader: of each generation there is one
 * 0            all have come
 * -EINVAL      NULL, or without a number
 * -ECANCELED   the task was asked to end, and does not count as one that has come
 * -ETIMEDOUT   the task's deadline came first; likewise
 */
WEFT_API int weft_barrier_wait(weft_barrier *barrier);
/* How often all have come together.  -EINVAL: NULL. */
WEFT_API int64_t weft_barrier_generation(const weft_barrier *barrier);

/* ---- once ------------------------------------------------------------------------------------ */

/* Something is done once, by the first who comes; the others wait for it. */
typedef struct weft_once {
    uint64_t private_data[5];
} weft_once;

/*
 * Calls fn(arg), unless it was done.  If fn gives an error, or ends its task by weft_fail, it was
 * not done, and the next who waits or comes does it.
 *
 * >= 0         it is done; what fn gave, for the one who did it, 0 for the others
 * < 0          what fn gave
 * -EINVAL      NULL
 * -EDEADLK     called by fn itself
 * -ECANCELED   the task was asked to end while another one did it
 * -ETIMEDOUT   the task's deadline came first
 */
WEFT_API intptr_t weft_once_do(weft_once *once, weft_fn fn, void *arg);
/* What the first word of a weft_once is for good once it was done. */
#define WEFT_ONCE_DONE 3u

/* Whether it was done: one load, after which all that was done is seen.  False for NULL. */
static inline bool weft_once_is_done(const weft_once *once)
{
    return once && __atomic_load_n(&once->private_data[0], __ATOMIC_ACQUIRE) == WEFT_ONCE_DONE;
}

/* A value that is made once.  NULL is no value. */
typedef struct weft_cell {
    weft_once once;
    void *value; /* by weft_cell_get */
} weft_cell;

/* The value, and what it points at as it was when it was set: one load.  NULL: there is none yet,
 * or the cell is NULL. */
static inline void *weft_cell_get(const weft_cell *cell)
{
    return cell ? __atomic_load_n(&cell->value, __ATOMIC_ACQUIRE) : 0;
}
/* Sets it.  -EEXIST: there is one; -EINVAL: NULL; -ECANCELED, -ETIMEDOUT: as above, while another
 * one was making it. */
WEFT_API int weft_cell_set(weft_cell *cell, void *value);
/* Makes it by make(arg) if need be; *out is the value.  If make gives NULL that is -ENOMEM, and the
 * next one tries again.  Else as weft_once_do. */
WEFT_API int weft_cell_make(weft_cell *cell, void *(*make)(void *arg), void *arg, void **out);

WEFT_END

#endif
