/* SPDX-License-Identifier: MIT */
/*
 * par/scan.c - prefix sums.
 *
 * Two passes over blocks.  The first pass computes the sum of each block.  Then the caller turns
 * these sums into prefix sums.  The second pass scans each block, starting with the sum of all
 * blocks before it.  That is twice the work: two workers gain only what the second pass finds in
 * their caches; four workers take half of the time.
 *
 * A scan ignores cancellation: an array in which only some items are sums would be useless.
 */
#include <errno.h>
#include <string.h>

#include "par/par.h"

/* The operations of one type of items. */
struct kind {
    size_t size;
    /* Adds the items [lo, hi) to *sum. */
    void (*add)(const struct kind *kind, const void *items, size_t lo, size_t hi, void *sum);
    /* Replaces the items [lo, hi) by their prefix sums, starting with *before unless it is NULL. */
    void (*scan)(const struct kind *kind, void *items, size_t lo, size_t hi, const void *before);
    void (*combine)(void *value, const void *right, void *arg);
    void *arg;
};

struct scan {
    const struct kind *kind;
    void *items;
    size_t count;
    size_t block; /* items of one block */
    char *sums;   /* of each block; then the prefix sums of these */
};

static size_t end_of(const struct scan *scan, size_t block)
{
    const size_t end = (block + 1) * scan->block;
    return end < scan->count ? end : scan->count;
}

static void add_blocks(size_t lo, size_t hi, void *arg)
{
    const struct scan *scan = arg;
    const size_t size = scan->kind->size;
    for (size_t i = lo; i < hi; i++) {
        const size_t first = i * scan->block;
        memcpy(scan->sums + i * size, (const char *)scan->items + first * size, size);
        scan->kind->add(scan->kind, scan->items, first + 1, end_of(scan, i), scan->sums + i * size);
    }
}

static void scan_blocks(size_t lo, size_t hi, void *arg)
{
    const struct scan *scan = arg;
    for (size_t i = lo; i < hi; i++) {
        const char *before = i > 0 ? scan->sums + (i - 1) * scan->kind->size : NULL;
        scan->kind->scan(scan->kind, scan->items, i * scan->block, end_of(scan, i), before);
    }
}

/* Both passes run under a shield: a cancellation cannot end them early. */
static void run_blocks(struct scan *scan, size_t blocks)
{
    const bool is_shielded = weft_shield_begin() == 0;
    int rc = weft_par_for(0, blocks - 1, 1, add_blocks, scan);
    WEFT_CHECK(rc == 0);
    scan->kind->scan(scan->kind, scan->sums, 0, blocks - 1, NULL);
    rc = weft_par_for(0, blocks, 1, scan_blocks, scan);
    WEFT_CHECK(rc == 0);
    if (is_shielded) {
        (void)weft_shield_end();
    }
}

/* Scans the items by blocks.  Scans them as one block if they fit into one, if no other worker
 * could help, or if there is no memory for the sums of the blocks. */
static void scan_all(const struct kind *kind, void *items, size_t count)
{
    struct scan scan = {.kind = kind, .items = items, .count = count, .block = WF_SCAN_BLOCK};
    const size_t blocks = (count + scan.block - 1) / scan.block;
    weft_runtime *runtime = weft_runtime_self();
    struct wf_par_memory sums = {.bytes = NULL};
    if (blocks >= 2 && runtime != NULL && weft_runtime_workers(runtime) > 1) {
        wf_par_alloc(&sums, blocks * kind->size); /* smaller than the array: no overflow */
    }
    if (sums.bytes == NULL) {
        kind->scan(kind, items, 0, count, NULL);
        return;
    }
    scan.sums = sums.bytes;
    run_blocks(&scan, blocks);
    wf_par_free(&sums);
}

/* ---- items of any kind --------------------------------------------------------------------- */

static void add_items(const struct kind *kind, const void *items, size_t lo, size_t hi, void *sum)
{
    for (size_t i = lo; i < hi; i++) {
        kind->combine(sum, (const char *)items + i * kind->size, kind->arg);
    }
}

/* `combine` changes its left operand, so it works on a copy of the item before. */
static void scan_items(const struct kind *kind, void *items, size_t lo, size_t hi,
                       const void *before)
{
    const size_t size = kind->size;
    char *all = items;
    union {
        char bytes[WF_SCAN_ITEM_MAX];
        max_align_t aligned;
    } frame;
    for (size_t i = lo; i < hi; i++) {
        const void *left = i > lo ? all + (i - 1) * size : before;
        if (left == NULL) {
            continue;
        }
        memcpy(frame.bytes, left, size);
        kind->combine(frame.bytes, all + i * size, kind->arg);
        memcpy(all + i * size, frame.bytes, size);
    }
}

int weft_par_scan(void *items, size_t count, size_t size,
                  void (*combine)(void *value, const void *right, void *arg), void *arg)
{
    WF_NOT_NULL(combine, "weft_par_scan: combine is NULL");
    WF_RULE_CHECKED(count == 0 || items != NULL, "weft_par_scan: items is NULL");
    if (size == 0 || size > WF_SCAN_ITEM_MAX) {
        return -EINVAL;
    }
    const struct kind kind = {size, add_items, scan_items, combine, arg};
    scan_all(&kind, items, count);
    return 0;
}

/* ---- numbers ------------------------------------------------------------------------------- */

static void add_i64(const struct kind *kind, const void *items, size_t lo, size_t hi, void *sum)
{
    const uint64_t *all = items;
    uint64_t value = *(uint64_t *)sum; /* unsigned: wraps around */
    (void)kind;
    for (size_t i = lo; i < hi; i++) {
        value += all[i];
    }
    *(uint64_t *)sum = value;
}

static void scan_i64(const struct kind *kind, void *items, size_t lo, size_t hi, const void *before)
{
    uint64_t *all = items;
    uint64_t value = before != NULL ? *(const uint64_t *)before : 0;
    (void)kind;
    for (size_t i = lo; i < hi; i++) {
        value += all[i];
        all[i] = value;
    }
}

static void add_f64(const struct kind *kind, const void *items, size_t lo, size_t hi, void *sum)
{
    const double *all = items;
    double value = *(double *)sum;
    (void)kind;
    for (size_t i = lo; i < hi; i++) {
        value += all[i];
    }
    *(double *)sum = value;
}

static void scan_f64(const struct kind *kind, void *items, size_t lo, size_t hi, const void *before)
{
    double *all = items;
    double value = before != NULL ? *(const double *)before : 0;
    (void)kind;
    for (size_t i = lo; i < hi; i++) {
        value += all[i];
        all[i] = value;
    }
}

int weft_par_scan_i64(int64_t *items, size_t count)
{
    WF_RULE_CHECKED(count == 0 || items != NULL, "weft_par_scan_i64: items is NULL");
    static const struct kind kind = {.size = sizeof(int64_t), .add = add_i64, .scan = scan_i64};
    scan_all(&kind, items, count);
    return 0;
}

int weft_par_scan_f64(double *items, size_t count)
{
    WF_RULE_CHECKED(count == 0 || items != NULL, "weft_par_scan_f64: items is NULL");
    static const struct kind kind = {.size = sizeof(double), .add = add_f64, .scan = scan_f64};
    scan_all(&kind, items, count);
    return 0;
}
