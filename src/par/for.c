/* SPDX-License-Identifier: MIT */
/*
 * par/for.c - loops: weft_par_for and weft_par_map.
 */
#include <errno.h>

#include "par/par.h"

struct loop {
    void (*body)(size_t lo, size_t hi, void *arg);
    void *arg;
    bool is_shielded; /* the caller of weft_par_for was: then no chunk is left out, on any worker */
};

/* A part of a loop.  The task that runs it processes it in chunks, and may split what is left into
 * two ranges, of which a thief can take the upper one. */
struct range {
    const struct loop *loop;
    size_t lo;
    size_t hi;
    struct wf_grain grain;
};

static intptr_t run_range(void *arg);

/* Forks the upper half. */
static int run_halves(const struct range *range)
{
    const size_t middle = range->lo + (range->hi - range->lo) / 2;
    struct range lower = {range->loop, range->lo, middle, range->grain};
    struct range upper = {range->loop, middle, range->hi, range->grain};
    weft_par_fork fork;
    weft_par_fork_go(&fork, run_range, &upper);
    const int rc = (int)run_range(&lower);
    const int upper_rc = (int)weft_par_fork_join(&fork);
    return rc != 0 ? rc : upper_rc;
}

static void run_chunk(struct range *range)
{
    const size_t left = range->hi - range->lo;
    const size_t count = range->grain.chunk < left ? range->grain.chunk : left;
    const int64_t start_ns = range->grain.is_measured ? wf_clock_now() : 0;
    range->loop->body(range->lo, range->lo + count, range->loop->arg);
    range->lo += count;
    if (range->grain.is_measured) {
        wf_grain_adapt(&range->grain, count, wf_clock_now() - start_ns);
    }
}

static intptr_t run_range(void *arg)
{
    struct range *range = arg;
    weft_par_forks *forks = wf_par_forks();
    while (range->lo < range->hi) {
        if (wf_par_is_split(forks, &range->grain, range->hi - range->lo)) {
            return run_halves(range);
        }
        const int rc = weft_check();
        if (rc != 0 && !range->loop->is_shielded) {
            return rc;
        }
        run_chunk(range);
    }
    return 0;
}

int weft_par_for(size_t begin, size_t end, size_t grain,
                 void (*body)(size_t lo, size_t hi, void *arg), void *arg)
{
    WF_NOT_NULL(body, "weft_par_for: body is NULL");
    if (begin > end) {
        return -EINVAL;
    }
    const struct loop loop = {body, arg, wf_par_is_shielded()};
    struct range all = {&loop, begin, end, wf_grain_of(grain)};
    return (int)run_range(&all);
}

/* ---- mapping ------------------------------------------------------------------------------- */

struct mapping {
    const char *items;
    size_t item_size;
    char *results;
    size_t result_size;
    void (*fn)(const void *item, void *result, void *arg);
    void *arg;
};

static void map_chunk(size_t lo, size_t hi, void *arg)
{
    const struct mapping *mapping = arg;
    for (size_t i = lo; i < hi; i++) {
        mapping->fn(mapping->items + i * mapping->item_size,
                    mapping->results + i * mapping->result_size, mapping->arg);
    }
}

int weft_par_map(const void *items, size_t item_size, void *results, size_t result_size,
                 size_t count, void (*fn)(const void *item, void *result, void *arg), void *arg)
{
    WF_NOT_NULL(fn, "weft_par_map: fn is NULL");
    WF_RULE_CHECKED(count == 0 || items != NULL, "weft_par_map: items is NULL");
    WF_RULE_CHECKED(count == 0 || results != NULL, "weft_par_map: results is NULL");
    struct mapping mapping = {items, item_size, results, result_size, fn, arg};
    return weft_par_for(0, count, 0, map_chunk, &mapping);
}
