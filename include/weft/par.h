/* SPDX-License-Identifier: MIT */
/*
 * weft/par.h - parallel loops, reductions, prefix sums and sorts.
 *
 *     weft_par_for(0, n, 0, body, arg);                body(lo, hi, arg) for chunks of [0, n)
 *     weft_par_sort(items, n, sizeof(items[0]), compare, arg);
 *
 * All of them are built on forks (weft/par_fork.h): they return when all work is done, may suspend
 * the calling task, and bodies may wait like any task.  Outside a task the caller does all work
 * itself. A chunk is split only when another worker requests work, so a loop costs little more than
 * a plain loop if no worker takes a part of it.
 *
 * Grain:   the number of items below which a chunk is not split; 0: as many as take a few
 *          microseconds, measured while the loop runs.
 * Cancel:  between chunks, loops check whether the calling task was cancelled or its deadline has
 *          passed, and return -ECANCELED or -ETIMEDOUT; some chunks were then never run.  Sorts do
 *          not check.
 */
#ifndef WEFT_PAR_H
#define WEFT_PAR_H

#include <weft/types.h>

WEFT_BEGIN

/* Calls body(lo, hi, arg) for chunks that together are [begin, end), each index once, in any order.
 * -EINVAL: begin > end; -ECANCELED, -ETIMEDOUT: some chunks were not run. */
WEFT_API int weft_par_for(size_t begin, size_t end, size_t grain,
                          void (*body)(size_t lo, size_t hi, void *arg), void *arg) WEFT_NONNULL(4);

/* How to reduce the items of a range to one value, called their sum here.  `combine` must be
 * associative; it need not be commutative. */
typedef struct weft_par_reducer {
    size_t size;          /* bytes of a value */
    const void *identity; /* the value of an empty sum; NULL: zero bytes */
    /* Adds the items with the indices [lo, hi), in this order, to *value, the left operand. */
    void (*body)(size_t lo, size_t hi, void *value, void *arg);
    /* Adds *right, the right operand, to *value, the left operand. */
    void (*combine)(void *value, const void *right, void *arg);
    void *arg; /* passed to both */
} weft_par_reducer;

/* Stores the sum of [begin, end) in *out.  -EINVAL: a reducer without body or combine, or of size
 * 0, or begin > end; -ECANCELED, -ETIMEDOUT: *out is the sum of some chunks. */
WEFT_API int weft_par_reduce(void *out, size_t begin, size_t end, size_t grain,
                             const weft_par_reducer *reducer) WEFT_NONNULL(1, 5);

/* Calls fn(item, result, arg) for each of `count` items of one array, with the element of the same
 * index in the other; both may be the same array.  -ECANCELED, -ETIMEDOUT: some items were not
 * mapped. */
WEFT_API int weft_par_map(const void *items, size_t item_size, void *results, size_t result_size,
                          size_t count, void (*fn)(const void *item, void *result, void *arg),
                          void *arg) WEFT_NONNULL(6);

/* Replaces each item by the sum of itself and all items before it.  `combine` is that of
 * weft_par_reducer.  Does not check for cancellation.  -EINVAL: size is 0 or above 256. */
WEFT_API int weft_par_scan(void *items, size_t count, size_t size,
                           void (*combine)(void *value, const void *right, void *arg), void *arg)
    WEFT_NONNULL(4);
/* weft_par_scan for numbers; integers wrap around.  Sums of doubles are rounded in a different
 * order than by a plain loop. */
WEFT_API int weft_par_scan_i64(int64_t *items, size_t count);
WEFT_API int weft_par_scan_f64(double *items, size_t count);

/* Returns a negative number if a goes before b, a positive one if a goes after b, 0 if both orders
 * are allowed. */
typedef int (*weft_compare_fn)(const void *a, const void *b, void *arg);

/* Sorts `count` items of `size` bytes.  Allocates a second array of the same size; without memory
 * it sorts in place, on the calling worker only and slowly.  -EINVAL: size is 0, or count * size
 * overflows. */
WEFT_API int weft_par_sort(void *items, size_t count, size_t size, weft_compare_fn compare,
                           void *arg) WEFT_NONNULL(4);
/* Sorts as weft_par_sort does, and equal items keep their order.  -EINVAL: size is 0, or count *
 * size overflows; -ENOMEM: nothing was changed. */
WEFT_API int weft_par_sort_stable(void *items, size_t count, size_t size, weft_compare_fn compare,
                                  void *arg) WEFT_NONNULL(4);

WEFT_END

#endif
