/* SPDX-License-Identifier: MIT */
/*
 * fiber/stack.c - the pool of stacks, and the workers' caches in front of it.
 *
 * A worker gets a stack from its cache, without a lock.  The cache exchanges batches with the pool.
 * The pool takes stacks from slabs, and maps a new slab without holding its lock, because that
 * takes up to 66 system calls.
 *
 * Free stacks keep the memory of their touched pages, because the next fiber touches the same
 * pages.  After a burst that is too much.  When the free stacks of a size exceed a limit, and
 * outnumber the stacks in use, the pool unmaps entirely free slabs, and then returns the memory of
 * free stacks in the other slabs to the kernel.  It stops at half of the limit, so that a program
 * whose load varies does not pay each time.  To get entirely free slabs, the pool takes stacks from
 * partly used slabs first, and there from the lowest address.
 *
 * Rejected: stacks of any size (fragmentation; powers of two waste only address space); a pool for
 * each worker (a program whose tasks begin on one worker and end on another would map without
 * bound).
 */
#include <errno.h>

#include "fiber/fiber.h"

/* The smallest class whose stacks have `size` bytes; WF_STACK_CLASSES: none. */
static unsigned class_of(const struct wf_stack_pool *pool, size_t size)
{
    if (size == 0) {
        size = WF_STACK_SIZE_DEFAULT * WF_STACK_SCALE;
    }
    if (size < WF_STACK_SIZE_MIN || size > WF_STACK_SIZE_MAX) {
        return WF_STACK_CLASSES;
    }
    size = size > pool->page_size ? size : pool->page_size;
    /* The bit length of size - 1 minus that of the minimum - 1.  Neither is 0, for which clz is
     * undefined. */
    const unsigned index = (unsigned)(__builtin_clzll(WF_STACK_SIZE_MIN - 1) -
                                      __builtin_clzll((unsigned long long)size - 1));
    WEFT_ASSERT(wf_stack_class_size(index) >= size);
    return index;
}

/* The maximum number of stacks of a class in a cache. */
static unsigned cache_max(unsigned class_index)
{
    size_t count = WF_STACK_CACHE_BYTES / WF_STACK_SIZE_MIN >> class_index; /* no division */
    count = count > 0 ? count : 1;
    return count > WF_STACK_CACHE_MAX ? WF_STACK_CACHE_MAX : (unsigned)count;
}

/* ---- the pool, locked ---------------------------------------------------------------------- */

static struct wf_slab *slab_of(struct wf_list *link)
{
    return wf_container_of(link, struct wf_slab, link);
}

static struct wf_slab *slab_of_dirty(struct wf_list *link)
{
    return wf_container_of(link, struct wf_slab, dirty_link);
}

/* [locked pool->lock]  Moves the slab to the right lists after its bitmaps changed. */
static void slab_relink_locked(struct wf_stack_class *class, struct wf_slab *slab)
{
    wf_list_remove(&slab->link);
    if (slab->free == wf_slab_all(slab)) {
        wf_list_push_back(&class->partial, &slab->link);
    } else if (slab->free != 0) {
        wf_list_push_front(&class->partial, &slab->link);
    }
    if (slab->dirty == 0) {
        wf_list_remove(&slab->dirty_link);
    } else if (wf_list_is_empty(&slab->dirty_link)) {
        wf_list_push_back(&class->dirty, &slab->dirty_link);
    }
}

/* [locked pool->lock]  Removes these free stacks, a bitmap, from the pool. */
static void stack_take_locked(struct wf_stack_class *class, struct wf_slab *slab, uint64_t stacks)
{
    WEFT_ASSERT((slab->free & stacks) == stacks);
    class->free_count -= (size_t)__builtin_popcountll(stacks);
    class->dirty_count -= (size_t)__builtin_popcountll(slab->dirty & stacks);
    slab->free &= ~stacks;
    slab->dirty &= ~stacks;
    slab_relink_locked(class, slab);
}

/* [locked pool->lock]  Returns these stacks, a bitmap, to the pool. */
static void stack_give_locked(struct wf_stack_class *class, struct wf_slab *slab, uint64_t stacks,
                              bool is_dirty)
{
    WEFT_CHECK((slab->free & stacks) == 0); /* else a stack was returned twice */
    class->free_count += (size_t)__builtin_popcountll(stacks);
    slab->free |= stacks;
    if (is_dirty) {
        class->dirty_count += (size_t)__builtin_popcountll(stacks);
        slab->dirty |= stacks;
    }
    slab_relink_locked(class, slab);
}

/* The `count` lowest set bits of `bits`, or all if there are fewer. */
static uint64_t lowest_bits(uint64_t bits, unsigned count)
{
    uint64_t result = 0;
    for (; count > 0 && bits != 0; count--) {
        result |= bits & -bits;
        bits &= bits - 1;
    }
    return result;
}

/* [locked pool->lock]  Takes up to `count` stacks, of each slab the dirty ones first, and adds them
 * to the front of *list.  Returns how many. */
static unsigned take_some_locked(struct wf_stack_class *class, unsigned count,
                                 struct wf_stack **list)
{
    unsigned taken = 0;
    while (taken < count && !wf_list_is_empty(&class->partial)) {
        struct wf_slab *slab = slab_of(class->partial.next);
        uint64_t stacks = lowest_bits(slab->dirty != 0 ? slab->dirty : slab->free, count - taken);
        stack_take_locked(class, slab, stacks);
        for (; stacks != 0; stacks &= stacks - 1) {
            struct wf_stack *stack = &slab->stacks[__builtin_ctzll(stacks)];
            stack->next = *list;
            *list = stack;
            taken++;
        }
    }
    return taken;
}

/* [locked pool->lock]  Adds a new slab to the counts, or subtracts a removed one. */
static void stack_count_locked(struct wf_stack_pool *pool, const struct wf_slab *slab, bool is_new)
{
    struct wf_stack_class *class = &pool->classes[slab->class_index];
    pool->slabs = is_new ? pool->slabs + 1 : pool->slabs - 1;
    pool->stacks = is_new ? pool->stacks + slab->count : pool->stacks - slab->count;
    class->count = is_new ? class->count + slab->count : class->count - slab->count;
    for (unsigned i = 0; i < slab->count; i++) {
        size_t *guards = &pool->guards[slab->stacks[i].guard];
        *guards = is_new ? *guards + 1 : *guards - 1;
    }
}

/* ---- trimming ------------------------------------------------------------------------------ */

/* Removes one entirely free slab from a class whose free stacks exceed bytes_max; NULL: none. */
static struct wf_slab *pop_free_slab(struct wf_stack_pool *pool, unsigned class_index,
                                     size_t bytes_max)
{
    struct wf_stack_class *class = &pool->classes[class_index];
    struct wf_slab *found = NULL;
    wf_lock_acquire(&pool->lock);
    if (class->free_count * wf_stack_class_size(class_index) > bytes_max &&
        !wf_list_is_empty(&class->partial)) {
        struct wf_slab *slab = slab_of(class->partial.prev);
        if (slab->free == wf_slab_all(slab)) {
            stack_take_locked(class, slab, slab->free);
            stack_count_locked(pool, slab, false);
            pool->mapped_bytes -= slab->bytes;
            pool->unmapped += slab->count;
            found = slab;
        }
    }
    wf_lock_release(&pool->lock);
    return found;
}

/* Returns the memory of the dirty stacks of one slab to the kernel, if the dirty stacks of the
 * class exceed bytes_max; false: they do not.  The stacks are out of the pool meanwhile. */
static bool discard_some(struct wf_stack_pool *pool, unsigned class_index, size_t bytes_max)
{
    struct wf_stack_class *class = &pool->classes[class_index];
    struct wf_slab *slab = NULL;
    uint64_t stacks = 0;
    wf_lock_acquire(&pool->lock);
    if (class->dirty_count * wf_stack_class_size(class_index) > bytes_max) {
        slab = slab_of_dirty(class->dirty.next);
        stacks = slab->dirty;
        stack_take_locked(class, slab, stacks);
    }
    wf_lock_release(&pool->lock);
    if (slab == NULL) {
        return false;
    }
    WF_JITTER();
    wf_slab_discard(slab, stacks);
    wf_lock_acquire(&pool->lock);
    stack_give_locked(class, slab, stacks, false);
    pool->discarded += (uint64_t)__builtin_popcountll(stacks);
    wf_lock_release(&pool->lock);
    return true;
}

/* Trims a class down to bytes_max as far as possible; true if it trimmed anything.  Ends: each
 * iteration removes a slab or some dirty stacks, and other threads can add only stacks that are in
 * use. */
static bool class_trim(struct wf_stack_pool *pool, unsigned class_index, size_t bytes_max)
{
    struct wf_slab *slab;
    bool is_trimmed = false;
    while ((slab = pop_free_slab(pool, class_index, bytes_max)) != NULL) {
        wf_slab_free(slab);
        is_trimmed = true;
    }
    while (discard_some(pool, class_index, bytes_max)) {
        is_trimmed = true;
    }
    return is_trimmed;
}

bool wf_stack_pool_trim(struct wf_stack_pool *pool)
{
    bool is_trimmed = false;
    for (unsigned i = 0; i < WF_STACK_CLASSES; i++) {
        is_trimmed = class_trim(pool, i, 0) || is_trimmed;
    }
    return is_trimmed;
}

/* ---- batches between pool and caches ------------------------------------------------------- */

/* Counts the bytes as mapped.  False: they would exceed mapped_bytes_max. */
static bool pool_reserve(struct wf_stack_pool *pool, size_t bytes)
{
    wf_lock_acquire(&pool->lock);
    bool is_allowed = pool->options.mapped_bytes_max - pool->mapped_bytes >= bytes;
    if (is_allowed) {
        pool->mapped_bytes += bytes;
    }
    wf_lock_release(&pool->lock);
    return is_allowed;
}

/* Maps a new slab, and takes up to `count` stacks. */
static int stack_pool_grow(struct wf_stack_pool *pool, unsigned class_index, unsigned count,
                           struct wf_stack **list, unsigned *taken)
{
    struct wf_stack_class *class = &pool->classes[class_index];
    struct wf_slab *slab;
    const size_t bytes = wf_slab_bytes(class_index);
    if (!pool_reserve(pool, bytes)) {
        WF_REACHED("stack.limit");
        return -ENOMEM;
    }
    int rc = wf_slab_new(pool, class_index, &slab);
    wf_lock_acquire(&pool->lock);
    if (rc != 0) {
        pool->mapped_bytes -= bytes;
    } else {
        stack_count_locked(pool, slab, true);
        class->free_count += slab->count;
        slab_relink_locked(class, slab);
        *taken = take_some_locked(class, count, list);
    }
    wf_lock_release(&pool->lock);
    return rc;
}

/* Takes at least one and up to `count` stacks, and adds them to the front of *list. */
static int pool_take(struct wf_stack_pool *pool, unsigned class_index, unsigned count,
                     struct wf_stack **list, unsigned *taken)
{
    wf_lock_acquire(&pool->lock); /* (fiber.L1) */
    *taken = take_some_locked(&pool->classes[class_index], count, list);
    wf_lock_release(&pool->lock);
    if (*taken > 0) {
        return 0;
    }
    int rc = stack_pool_grow(pool, class_index, count, list, taken);
    if (rc == -ENOMEM && wf_stack_pool_trim(pool)) { /* frees memory of the other sizes */
        WF_REACHED("stack.tried_again");
        rc = stack_pool_grow(pool, class_index, count, list, taken);
    }
    return rc;
}

/* Returns the stacks of the list to the pool, and trims the class if it has too many. */
static void pool_give(struct wf_stack_pool *pool, unsigned class_index, struct wf_stack *list)
{
    struct wf_stack_class *class = &pool->classes[class_index];
    wf_lock_acquire(&pool->lock);
    while (list != NULL) {
        struct wf_stack *stack = list;
        list = stack->next;
        WEFT_ASSERT(stack->slab->pool == pool);
        stack_give_locked(class, stack->slab, UINT64_C(1) << (stack - stack->slab->stacks), true);
    }
    const size_t free_bytes = class->free_count * wf_stack_class_size(class_index);
    const size_t used_bytes = class->count * wf_stack_class_size(class_index) - free_bytes;
    wf_lock_release(&pool->lock); /* (fiber.L1) */
    const size_t bytes_max =
        used_bytes > pool->options.free_bytes_max ? used_bytes : pool->options.free_bytes_max;
    if (free_bytes > bytes_max) {
        (void)class_trim(pool, class_index, bytes_max / 2);
    }
}

/* ---- caches -------------------------------------------------------------------------------- */

void wf_stack_cache_init(struct wf_stack_cache *cache, struct wf_stack_pool *pool)
{
    *cache = (struct wf_stack_cache){.pool = pool};
}

/* Keeps the `keep` most recently used stacks, and returns the others to the pool. */
static void cache_cut(struct wf_stack_cache *cache, unsigned class_index, unsigned keep)
{
    struct wf_stack **end = &cache->classes[class_index].first;
    for (unsigned i = 0; i < keep; i++) {
        end = &(*end)->next;
    }
    struct wf_stack *rest = *end;
    *end = NULL;
    wf_store_relaxed(&cache->classes[class_index].count, keep); /* relaxed: readers take a hint */
    pool_give(cache->pool, class_index, rest);
}

void wf_stack_cache_done(struct wf_stack_cache *cache)
{
    for (unsigned i = 0; i < WF_STACK_CLASSES; i++) {
        if (cache->classes[i].first != NULL) {
            cache_cut(cache, i, 0);
        }
    }
}

size_t wf_stack_cache_count(const struct wf_stack_cache *cache)
{
    size_t sum = 0;
    for (unsigned i = 0; i < WF_STACK_CLASSES; i++) {
        sum += wf_load_relaxed(&cache->classes[i].count); /* relaxed: a hint */
    }
    return sum;
}

int wf_stack_get(struct wf_stack_cache *cache, size_t size, struct wf_stack **out)
{
    const unsigned index = class_of(cache->pool, size);
    if (index == WF_STACK_CLASSES) {
        return -EINVAL;
    }
    /* relaxed, here and below: only the owner writes it; readers take a hint. */
    unsigned count = wf_load_relaxed(&cache->classes[index].count);
    if (count == 0) {
        const unsigned batch = cache_max(index) / 2 > 0 ? cache_max(index) / 2 : 1;
        int rc = pool_take(cache->pool, index, batch, &cache->classes[index].first, &count);
        if (rc != 0) {
            return rc;
        }
    }
    struct wf_stack *stack = cache->classes[index].first;
    cache->classes[index].first = stack->next;
    wf_store_relaxed(&cache->classes[index].count, count - 1);
    stack->next = NULL;
    if (stack->guard == WF_GUARD_CANARY) {
        wf_canary_put(stack);
    }
    *out = stack;
    return 0;
}

void wf_stack_put(struct wf_stack_cache *cache, struct wf_stack *stack)
{
    const unsigned index = stack->slab->class_index;
    if (stack->guard == WF_GUARD_CANARY && !wf_canary_is_intact(stack)) {
        wf_overflow_found(stack);
    }
    wf_store_relaxed(&stack->user, NULL); /* relaxed: no fault refers to a free stack */
    wf_sanitizer_stack_back(stack);
    stack->next = cache->classes[index].first;
    cache->classes[index].first = stack;
    /* relaxed, both: only the owner writes it; readers take a hint. */
    unsigned count = wf_load_relaxed(&cache->classes[index].count) + 1;
    wf_store_relaxed(&cache->classes[index].count, count);
    if (count > cache_max(index)) {
        cache_cut(cache, index, cache_max(index) / 2);
    }
}

/* ---- the pool ------------------------------------------------------------------------------ */

int wf_stack_pool_init(struct wf_stack_pool *pool, const struct wf_stack_options *options)
{
    static const struct wf_stack_options defaults;
    struct wf_stack_options all = options != NULL ? *options : defaults;
    if ((unsigned)all.guard >= WF_GUARD_KINDS) {
        return -EINVAL;
    }
    enum wf_guard guard = all.guard;
    if (guard == WF_GUARD_BEST || guard == WF_GUARD_MARKER) {
        const bool has_marker = wf_memory_can_guard();
        if (guard == WF_GUARD_MARKER && !has_marker) {
            return -EINVAL;
        }
        guard = has_marker ? WF_GUARD_MARKER : WF_GUARD_MAPPING;
    }
    all.mapped_bytes_max = all.mapped_bytes_max != 0 ? all.mapped_bytes_max : SIZE_MAX;
    all.free_bytes_max = all.free_bytes_max != 0 ? all.free_bytes_max : WF_STACK_FREE_BYTES_MAX;
    if (all.guard_mappings_max == 0) {
        all.guard_mappings_max = wf_mapping_count_max() / 2;
    }
    *pool = (struct wf_stack_pool){.options = all, .page_size = wf_page_size()};
    wf_lock_init(&pool->lock, WF_RANK_STACK_POOL);
    wf_atomic_init(&pool->guard, guard);
    for (unsigned i = 0; i < WF_STACK_CLASSES; i++) {
        wf_list_init(&pool->classes[i].partial);
        wf_list_init(&pool->classes[i].dirty);
    }
    return 0;
}

void wf_stack_pool_done(struct wf_stack_pool *pool)
{
    (void)wf_stack_pool_trim(pool);
    WEFT_CHECK(pool->slabs == 0); /* else a stack was not returned */
}

void wf_stack_pool_stats(struct wf_stack_pool *pool, struct wf_stack_stats *out)
{
    wf_lock_acquire(&pool->lock);
    *out = (struct wf_stack_stats){
        .mapped_bytes = pool->mapped_bytes,
        .slabs = pool->slabs,
        .stacks = pool->stacks,
        .discarded = pool->discarded,
        .unmapped = pool->unmapped,
    };
    for (unsigned i = 0; i < WF_GUARD_KINDS; i++) {
        out->guards[i] = pool->guards[i];
    }
    for (unsigned i = 0; i < WF_STACK_CLASSES; i++) {
        out->free += pool->classes[i].free_count;
        out->dirty += pool->classes[i].dirty_count;
    }
    wf_lock_release(&pool->lock);
}
