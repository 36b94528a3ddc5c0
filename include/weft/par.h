/* SPDX-License-Identifier: MIT */
/*
 * weft/par.h - loops, sums, prefix sums and sorts that spread over the workers.
 *
 *     weft_for(0, n, 0, body, arg);                body(lo, hi, arg) for pieces of [0, n)
 *     weft_sort(items, n, sizeof(items[0]), compare, arg);
 *
 * All of them are made of forks (weft/fork.h): they return when everything is done, bodies may wait
 * like any task, and called outside of tasks they do the work alone.  A piece is split when another
 * worker wants work and not before, so what nobody takes costs little more than the plain loop.
 *
 * Grain:   items below which a piece is not split; 0: as many as take some microseconds, which is
 *          found out while the loop runs.
 * Cancel:  loops look between pieces whether the calling task was cancelled or is out of time, and
 *          give -ECANCELED or -ETIMEDOUT: then some pieces were never run.  Sorts do not look.
 */
#ifndef WEFT_PAR_H
#define WEFT_PAR_H

#include <weft/types.h>

WEFT_BEGIN

/* Calls body(lo, hi, arg) for pieces that together are [begin, end), each index once, in any order.
 * -EINVAL: no body, or begin > end; -ECANCELED, -ETIMEDOUT. */
WEFT_API int weft_for(size_t begin, size_t end, size_t grain,
                      void (*body)(size_t lo, size_t hi, void *arg), void *arg);

/* How to add up.  `combine` has to be associative; it need not be commutative. */
typedef struct weft_reducer {
    size_t size;          /* bytes of a value */
    const void *identity; /* what a sum begins with; NULL: zero bytes */
    /* Adds the indices [lo, hi) to *value, on its right. */
    void (*body)(size_t lo, size_t hi, void *value, void *arg);
    /* Adds *right to *value, on its right. */
    void (*combine)(void *value, const void *right, void *arg);
    void *arg; /* of both */
} weft_reducer;

/* The sum of [begin, end) in *out.  -EINVAL: something is missing, size 0, or begin > end;
 * -ECANCELED, -ETIMEDOUT: *out holds the sum of some pieces. */
WEFT_API int weft_reduce(size_t begin, size_t end, size_t grain, const weft_reducer *reducer,
                         void *out);

/* Calls fn(item, result, arg) for each of `count` items of an array, with its place in another;
 * both may be the same.  -EINVAL: something is missing; -ECANCELED, -ETIMEDOUT. */
WEFT_API int weft_map(const void *items, size_t item_size, void *results, size_t result_size,
                      size_t count, void (*fn)(const void *item, void *result, void *arg),
                      void *arg);

/* Replaces each item by the sum of it and all before it.  `combine` as in weft_reducer.  Not
 * cancelled.  -EINVAL: something is missing, size 0 or above 256. */
WEFT_API int weft_scan(void *items, size_t count, size_t size,
                       void (*combine)(void *value, const void *right, void *arg), void *arg);
/* The same for numbers; integers wrap around.  Sums of doubles are rounded in another order than a
 * plain loop does.  -EINVAL: items NULL. */
WEFT_API int weft_scan_i64(int64_t *items, size_t count);
WEFT_API int weft_scan_f64(double *items, size_t count);

/* Negative, 0, positive: a goes before b, either way, after b. */
typedef int (*weft_compare)(const void *a, const void *b, void *arg);

/* Sorts `count` items of `size` bytes.  Needs as much memory again, and if there is none sorts in
 * place, alone and slowly.  -EINVAL: something is missing, size 0. */
WEFT_API int weft_sort(void *items, size_t count, size_t size, weft_compare compare, void *arg);
/* The same, and equal items keep their order.  -ENOMEM: nothing was changed. */
WEFT_API int weft_sort_stable(void *items, size_t count, size_t size, weft_compare compare,
                              void *arg);

WEFT_END

#endif
