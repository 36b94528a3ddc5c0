/* SPDX-License-Identifier: MIT */
/*
 * base/alloc.c - the library's only access to the heap: a replaceable allocator, counters that
 * reveal leaks, and a fault point with which tests make each allocation fail in turn.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static void *libc_alloc(size_t alignment, size_t size)
{
    if (alignment <= _Alignof(max_align_t)) {
        return malloc(size);
    }
    void *memory = NULL;
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

static const struct wf_allocator libc_allocator = {libc_alloc, free};

static WF_ATOMIC(const struct wf_allocator *) allocator; /* NULL: libc's */

/* [any: add]  relaxed: counts.  wf_allocator_set and the tests compare them; the values are exact
 * only while no other thread allocates. */
static WF_ATOMIC(uint64_t) allocated;
static WF_ATOMIC(uint64_t) freed;
static WF_ATOMIC(uint64_t) refused;

int wf_allocator_set(const struct wf_allocator *new_allocator)
{
    if (wf_load_relaxed(&allocated) != wf_load_relaxed(&freed)) {
        return -EBUSY;
    }
    wf_store_release(&allocator, new_allocator); /* release: pairs with allocator_current */
    return 0;
}

static const struct wf_allocator *allocator_current(void)
{
    /* acquire: pairs with wf_allocator_set. */
    const struct wf_allocator *set = wf_load_acquire(&allocator);
    return set != NULL ? set : &libc_allocator;
}

void *wf_alloc_aligned(size_t alignment, size_t size)
{
    WEFT_ASSERT(wf_is_power_of_two(alignment));
    void *memory =
        WF_FAULT("alloc") ? NULL : allocator_current()->alloc(alignment, size == 0 ? 1 : size);
    if (memory == NULL) {
        (void)wf_fetch_add_relaxed(&refused, 1);
        return NULL;
    }
    (void)wf_fetch_add_relaxed(&allocated, 1);
    return memory;
}

void *wf_alloc(size_t size)
{
    return wf_alloc_aligned(_Alignof(max_align_t), size);
}

void *wf_alloc_zeroed(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        (void)wf_fetch_add_relaxed(&refused, 1);
        return NULL;
    }
    void *memory = wf_alloc(bytes);
    if (memory != NULL) {
        memset(memory, 0, bytes);
    }
    return memory;
}

void wf_free(void *memory)
{
    if (memory == NULL) {
        return;
    }
    allocator_current()->free(memory);
    (void)wf_fetch_add_relaxed(&freed, 1);
}

void wf_alloc_stats(struct wf_alloc_stats *out)
{
    out->allocated = wf_load_relaxed(&allocated);
    out->freed = wf_load_relaxed(&freed);
    out->refused = wf_load_relaxed(&refused);
}
