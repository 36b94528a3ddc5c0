/* SPDX-License-Identifier: MIT */
/*
 * fiber/slab.c - one mapping with many stacks, and the guards between them.
 *
 *     memory                                                          memory + bytes
 *     | guard | stack 0      | guard | stack 1      | ... | guard | stack n     |
 *              low       high
 *
 * Stacks grow down, so the guard of a stack is below it.  There are three kinds, tried in this
 * order:
 *
 *   marker   A guard marker in the page table: no mapping, but Linux 6.13 or later.
 *   mapping  Pages without access rights: two mappings.  The kernel limits the mappings of a
 *            process, and guards take at most half of the limit.
 *   canary   A pattern: free, but it does not stop an overflow and reveals it only afterwards.
 *
 * Rejected: one mapping for each stack (a million would be 15 times the kernel's limit); stacks
 * that grow by copying (pointers into them would break); segmented stacks (all code would have to
 * be compiled for them); guards as large as the stack (address space is free, page tables are not).
 */
#include <errno.h>

#include "fiber/fiber.h"

/* [any: add]  Mappings used for guards by all pools of the process. */
static WF_ATOMIC(size_t) guard_mappings;

enum {
    MAPPINGS_PER_GUARD = 2, /* the guard, and the stack that it splits from the one below */
};

static unsigned class_count(unsigned class_index)
{
    size_t count = WF_SLAB_BYTES / wf_stack_class_size(class_index);
    if (count > WF_SLAB_STACKS_MAX) {
        return WF_SLAB_STACKS_MAX;
    }
    return count > 0 ? (unsigned)count : 1;
}

size_t wf_guard_size(void)
{
    const size_t page_size = wf_page_size();
    return page_size > WF_GUARD_BYTES_MIN ? page_size : WF_GUARD_BYTES_MIN;
}

size_t wf_slab_bytes(unsigned class_index)
{
    return class_count(class_index) * (wf_stack_class_size(class_index) + wf_guard_size());
}

/* ---- guards -------------------------------------------------------------------------------- */

static char *guard_of(const struct wf_stack *stack)
{
    return stack->low - wf_guard_size();
}

static int guard_by_mapping(struct wf_stack_pool *pool, struct wf_stack *stack)
{
    /* relaxed: a count; a caller that exceeds the limit takes its share back. */
    size_t used = wf_fetch_add_relaxed(&guard_mappings, MAPPINGS_PER_GUARD);
    int rc = -ENOMEM;
    if (used + MAPPINGS_PER_GUARD <= pool->options.guard_mappings_max) {
        rc = wf_memory_protect(guard_of(stack), wf_guard_size());
    }
    if (rc != 0) {
        (void)wf_fetch_sub_relaxed(&guard_mappings, MAPPINGS_PER_GUARD);
    }
    return rc;
}

/* Installs the guard and sets stack->guard to its kind: the kind that the options require, or else
 * the first kind that works.  Returns 0, the error of the required kind, or -ENOMEM if the kernel
 * has no memory for a marker. */
static int guard_install(struct wf_stack_pool *pool, struct wf_stack *stack)
{
    const bool has_choice = pool->options.guard == WF_GUARD_BEST;
    uint32_t kind = wf_load_relaxed(&pool->guard); /* relaxed: a hint; each kind can fail */
    if (kind == WF_GUARD_MARKER) {
        int rc = wf_memory_guard(guard_of(stack), wf_guard_size());
        if (rc != 0 && (rc == -ENOMEM || !has_choice)) {
            return rc;
        }
        if (rc != 0) { /* all memory of the process is locked (mlockall) */
            WF_REACHED("slab.marker_refused");
            kind = WF_GUARD_MAPPING;
            wf_store_relaxed(&pool->guard, kind); /* relaxed: a hint */
        }
    }
    if (kind == WF_GUARD_MAPPING) {
        int rc = guard_by_mapping(pool, stack);
        if (rc != 0 && !has_choice) {
            return rc;
        }
        if (rc != 0) {
            WF_REACHED("slab.mapping_refused");
            kind = WF_GUARD_CANARY; /* for this stack only: mappings may become free again */
        }
    }
    stack->guard = (enum wf_guard)kind;
    return 0;
}

/* ---- canaries ------------------------------------------------------------------------------ */

enum {
    CANARY_WORDS = WF_CANARY_BYTES / sizeof(uint64_t),
};

/* Differs from word to word, so that a copy of another part of the stack does not match. */
static uint64_t canary_word(const uint64_t *word)
{
    return (uint64_t)(uintptr_t)word * 0x9e3779b97f4a7c15u;
}

static uint64_t *canary_of(const struct wf_stack *stack)
{
    return (uint64_t *)(void *)(stack->low - WF_CANARY_BYTES);
}

void wf_canary_put(struct wf_stack *stack)
{
    WEFT_ASSERT(stack->guard == WF_GUARD_CANARY);
    if (stack->has_canary) {
        return;
    }
    uint64_t *words = canary_of(stack);
    for (size_t i = 0; i < CANARY_WORDS; i++) {
        words[i] = canary_word(&words[i]);
    }
    stack->has_canary = true;
}

bool wf_canary_is_intact(const struct wf_stack *stack)
{
    WEFT_ASSERT(stack->has_canary); /* wf_stack_get has written it */
    const uint64_t *words = canary_of(stack);
    uint64_t difference = 0;
    for (size_t i = 0; i < CANARY_WORDS; i++) {
        difference |= words[i] ^ canary_word(&words[i]);
    }
    return difference == 0;
}

/* ---- slabs --------------------------------------------------------------------------------- */

/* Releases the guards and the sanitizers' records of the first `count` stacks.  The caller unmaps
 * the memory. */
static void slab_release_stacks(struct wf_slab *slab, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        wf_sanitizer_stack_gone(&slab->stacks[i]);
        if (slab->stacks[i].guard == WF_GUARD_MAPPING) {
            (void)wf_fetch_sub_relaxed(&guard_mappings, MAPPINGS_PER_GUARD); /* relaxed: a count */
        }
    }
}

static int slab_init_stacks(struct wf_stack_pool *pool, struct wf_slab *slab)
{
    for (unsigned i = 0; i < slab->count; i++) {
        struct wf_stack *stack = &slab->stacks[i];
        stack->low = slab->memory + i * slab->stride + wf_guard_size();
        stack->size = wf_stack_class_size(slab->class_index);
        stack->slab = slab;
        stack->color = (size_t)(i % WF_STACK_COLORS) * WF_CACHE_LINE;
        int rc = guard_install(pool, stack);
        if (rc != 0) {
            slab_release_stacks(slab, i);
            return rc;
        }
        wf_sanitizer_stack_new(stack);
    }
    return 0;
}

int wf_slab_new(struct wf_stack_pool *pool, unsigned class_index, struct wf_slab **out)
{
    const unsigned count = class_count(class_index);
    struct wf_slab *slab = wf_alloc_zeroed(1, sizeof(*slab) + count * sizeof(slab->stacks[0]));
    if (slab == NULL) {
        return -ENOMEM;
    }
    slab->pool = pool;
    slab->bytes = wf_slab_bytes(class_index);
    slab->stride = wf_stack_class_size(class_index) + wf_guard_size();
    slab->class_index = class_index;
    slab->count = count;
    slab->free = wf_slab_all(slab);
    wf_list_init(&slab->link);
    wf_list_init(&slab->dirty_link);

    void *memory;
    int rc = wf_memory_map(&memory, slab->bytes);
    if (rc != 0) {
        goto free_slab;
    }
    slab->memory = memory;
    /* With huge pages the first touch of a stack could allocate the pages of its neighbours.  An
     * error means that the kernel has no huge pages. */
    (void)wf_memory_no_huge_pages(memory, slab->bytes);
    rc = slab_init_stacks(pool, slab);
    if (rc != 0) {
        goto unmap;
    }
    wf_slab_list_add(slab);
    *out = slab;
    return 0;

unmap:
    (void)wf_memory_unmap(memory, slab->bytes); /* on error only address space leaks */
free_slab:
    wf_free(slab);
    return rc;
}

void wf_slab_free(struct wf_slab *slab)
{
    if (slab == NULL) {
        return;
    }
    wf_slab_list_remove(slab);
    slab_release_stacks(slab, slab->count);
    /* The kernel fails only if it had to split a larger mapping and the limit of mappings is
     * reached: then address space leaks, but no memory. */
    if (wf_memory_unmap(slab->memory, slab->bytes) != 0) {
        WF_REACHED("slab.unmap_refused");
        (void)wf_memory_discard(slab->memory, slab->bytes);
    }
    wf_free(slab);
}

/* A slab has at most 64 stacks, and two ranges have a stack between them. */
enum { RANGES_MAX = 32 };

/* Sets `ranges` to the runs of adjacent stacks in the bitmap and returns their number.  A discard
 * of one stack takes the kernel about as long as one of all. */
static size_t find_ranges(const struct wf_slab *slab, uint64_t stacks,
                          struct iovec ranges[RANGES_MAX])
{
    size_t count = 0;
    while (stacks != 0) {
        const unsigned from = (unsigned)__builtin_ctzll(stacks);
        const uint64_t run = stacks >> from;
        const unsigned length = run == UINT64_MAX ? 64 : (unsigned)__builtin_ctzll(~run);
        ranges[count++] = (struct iovec){.iov_base = slab->memory + from * slab->stride,
                                         .iov_len = length * slab->stride};
        stacks &= from + length == 64 ? 0 : UINT64_MAX << (from + length);
    }
    return count;
}

void wf_slab_discard(struct wf_slab *slab, uint64_t stacks)
{
    struct iovec ranges[RANGES_MAX];
    const size_t count = find_ranges(slab, stacks, ranges);
    const bool is_done = count > 1 && wf_memory_discard_ranges(ranges, count) == 0;
    for (size_t i = 0; i < count; i++) {
        char *memory = ranges[i].iov_base;
        if (!is_done) {
            /* Guards stay.  If it fails (the memory is locked) some stacks keep their memory; all
             * get new canaries. */
            (void)wf_memory_discard(memory, ranges[i].iov_len);
        }
        const size_t from = (size_t)(memory - slab->memory) / slab->stride;
        for (size_t k = 0; k < ranges[i].iov_len / slab->stride; k++) {
            slab->stacks[from + k].has_canary = false;
        }
    }
}

/* ---- depth --------------------------------------------------------------------------------- */

int wf_stack_depth(const struct wf_stack *stack, size_t *out)
{
    enum { PAGES = 256 }; /* asked of the kernel at once */
    unsigned char is_resident[PAGES];
    const size_t page_size = wf_page_size();
    for (size_t offset = 0; offset < stack->size; offset += PAGES * page_size) {
        const size_t left = stack->size - offset;
        const size_t bytes = left < PAGES * page_size ? left : PAGES * page_size;
        int rc = wf_memory_resident(stack->low + offset, bytes, is_resident);
        if (rc != 0) {
            return rc;
        }
        for (size_t i = 0; i < bytes / page_size; i++) {
            if (is_resident[i] != 0) {
                *out = left - i * page_size;
                return 0;
            }
        }
    }
    *out = 0;
    return 0;
}
