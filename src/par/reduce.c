/* SPDX-License-Identifier: MIT */
/*
 * par/reduce.c - reductions.
 *
 * A task adds its range to a value, chunk by chunk from left to right.  When it splits the range,
 * the upper half starts with a value of its own, the identity.  When both halves are done, the task
 * combines that value with its own, on the right.  So the order of the operands never changes, and
 * there is one additional value for each split.
 */
#include <errno.h>
#include <string.h>

#include "par/par.h"

enum { FRAME_MAX = 256 }; /* bytes of the largest value that is kept in the frame */

/* A part of the reduction, processed by one task. */
struct part {
    const weft_par_reducer *reducer;
    size_t lo;
    size_t hi;
    struct wf_grain grain;
    void *value;
    bool is_shielded; /* the caller of weft_par_reduce was: then no chunk is left out */
};

static void begin_with_identity(const weft_par_reducer *reducer, void *value)
{
    if (reducer->identity != NULL) {
        memcpy(value, reducer->identity, reducer->size);
    } else {
        memset(value, 0, reducer->size);
    }
}

static intptr_t add_part(void *arg);

/* Adds the lower half to the value and the upper half to `other`, and combines the two. */
static int add_halves(const struct part *part, void *other)
{
    const weft_par_reducer *reducer = part->reducer;
    const size_t middle = part->lo + (part->hi - part->lo) / 2;
    struct part lower = {reducer, part->lo, middle, part->grain, part->value, part->is_shielded};
    struct part upper = {reducer, middle, part->hi, part->grain, other, part->is_shielded};
    weft_par_fork fork;
    begin_with_identity(reducer, other);
    weft_par_fork_go(&fork, add_part, &upper);
    const int rc = (int)add_part(&lower);
    const int upper_rc = (int)weft_par_fork_join(&fork);
    reducer->combine(part->value, other, reducer->arg);
    return rc != 0 ? rc : upper_rc;
}

static void add_chunk(struct part *part)
{
    const size_t left = part->hi - part->lo;
    const size_t count = part->grain.chunk < left ? part->grain.chunk : left;
    const int64_t start_ns = part->grain.is_measured ? wf_clock_now() : 0;
    part->reducer->body(part->lo, part->lo + count, part->value, part->reducer->arg);
    part->lo += count;
    if (part->grain.is_measured) {
        wf_grain_adapt(&part->grain, count, wf_clock_now() - start_ns);
    }
}

/* Splits the part, unless there is no memory for another value. */
static intptr_t add_split(struct part *part, bool *is_split)
{
    union {
        char bytes[FRAME_MAX];
        max_align_t aligned;
    } frame;
    struct wf_par_memory other = {.bytes = frame.bytes};
    const bool is_large = part->reducer->size > FRAME_MAX;
    if (is_large) {
        wf_par_alloc(&other, part->reducer->size);
    }
    *is_split = other.bytes != NULL;
    if (other.bytes == NULL) {
        WF_REACHED("reduce.no_memory_to_split");
        return 0;
    }
    const intptr_t rc = add_halves(part, other.bytes);
    if (is_large) {
        wf_par_free(&other);
    }
    return rc;
}

static intptr_t add_part(void *arg)
{
    struct part *part = arg;
    weft_par_forks *forks = wf_par_forks();
    while (part->lo < part->hi) {
        if (wf_par_is_split(forks, &part->grain, part->hi - part->lo)) {
            bool is_split;
            const intptr_t rc = add_split(part, &is_split);
            if (is_split) {
                return rc;
            }
        }
        const int rc = weft_check();
        if (rc != 0 && !part->is_shielded) {
            return rc;
        }
        add_chunk(part);
    }
    return 0;
}

int weft_par_reduce(void *out, size_t begin, size_t end, size_t grain,
                    const weft_par_reducer *reducer)
{
    WF_NOT_NULL(reducer, "weft_par_reduce: reducer is NULL");
    WF_NOT_NULL(out, "weft_par_reduce: out is NULL");
    if (reducer->body == NULL || reducer->combine == NULL || reducer->size == 0 || begin > end) {
        return -EINVAL;
    }
    struct part all = {reducer, begin, end, wf_grain_of(grain), out, wf_par_is_shielded()};
    begin_with_identity(reducer, out);
    return (int)add_part(&all);
}
