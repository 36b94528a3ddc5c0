/* SPDX-License-Identifier: MIT */
/*
 * fiber/stack.c - the pool of stacks, and the caches of the workers in front of it.
 *
 * A stack is handed out by the worker's cache, without a lock; the cache refills from the pool and
 * gives back to it several at once; the pool takes them from slabs, and asks the kernel for a new
 * slab outside of its lock, since that is up to 66 system calls.
 *
 * Free stacks keep the memory of their touched pages, for the next one who will touch the same.
 * After a burst that is too much: when the free stacks of a size exceed a limit, and are more than
 * those in use, first slabs that are wholly free are unmapped, then the memory of free stacks in
 * the others goes back, until half is left, so that a program that comes and goes does not pay each
 * time.  To make slabs
 * wholly free, stacks are taken from those that are not, and there first from the lowest.
 *
 * Rejected: stacks of any size (they would not fit each other's holes; powers of two waste address
 * space only); a pool for each worker (a program whose tasks begin on one worker and end on another
 * would map without end).
 */
#include <errno.h>

#include "fiber/fiber.h"

/* The smallest class that fits; WF_STACK_CLASSES: none. */
static unsigned class_of(const struct wf_stack_pool *pool, size_t size)
{
    if (size == 0) {
        size = WF_STACK_SIZE_DEFAULT * WF_STACK_SCALE;
    }
    if (size < WF_STACK_SIZE_MIN || size > WF_STACK_SIZE_MAX) {
        return WF_STACK_CLASSES;
    }
    size = size > pool->page_size ? size : pool->page_size;
    /* The bits that size - 1 has more than the smallest one; both are at least 1. */
    const unsigned index = (unsigned)(__builtin_clzll(WF_STACK_SIZE_MIN - 1) -
                                      __builtin_clzll((unsigned long long)size - 1));
    WEFT_ASSERT(wf_stack_class_size(index) >= size);
    return index;
}

/* Stacks of a class that a cache keeps. */
static unsigned cache_max(unsigned class_index)
{
    size_t count = WF_STACK_CACHE_BYTES / WF_STACK_SIZE_MIN >> class_index; /* without a division */
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

/* [locked pool->lock]  Puts the slab where it belongs after its bits changed. */
static void file_locked(struct wf_stack_class *class, struct wf_slab *slab)
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

/* [locked pool->lock]  Takes these stacks out of the pool. */
static void take_locked(struct wf_stack_class *class, struct wf_slab *slab, uint64_t stacks)
{
    WEFT_ASSERT((slab->free & stacks) == stacks);
    class->free_count -= (size_t)__builtin_popcountll(stacks);
    class->dirty_count -= (size_t)__builtin_popcountll(slab->dirty & stacks);
    slab->free &= ~stacks;
    slab->dirty &= ~stacks;
    file_locked(class, slab);
}

/* [locked pool->lock]  And puts them back. */
static void give_locked(struct wf_stack_class *class, struct wf_slab *slab, uint64_t stacks,
                        bool is_dirty)
{
    WEFT_CHECK((slab->free & stacks) == 0); /* a stack came back twice */
    class->free_count += (size_t)__builtin_popcountll(stacks);
    slab->free |= stacks;
    if (is_dirty) {
        class->dirty_count += (size_t)__builtin_popcountll(stacks);
        slab->dirty |= stacks;
    }
    file_locked(class, slab);
}

/* The `count` lowest bits of `bits`, or all of them. */
static uint64_t lowest(uint64_t bits, unsigned count)
{
    uint64_t result = 0;
    for (; count > 0 && bits != 0; count--) {
        result |= bits & -bits;
        bits &= bits - 1;
    }
    return result;
}

/* [locked pool->lock]  At most `count` stacks as a list; those that hold memory first. */
static unsigned take_some_locked(struct wf_stack_class *class, unsigned count,
                                 struct wf_stack **list)
{
    unsigned taken = 0;
    while (taken < count && !wf_list_is_empty(&class->partial)) {
        struct wf_slab *slab = slab_of(class->partial.next);
        uint64_t stacks = lowest(slab->dirty != 0 ? slab->dirty : slab->free, count - taken);
        take_locked(class, slab, stacks);
        for (; stacks != 0; stacks &= stacks - 1) {
            struct wf_stack *stack = &slab->stacks[__builtin_ctzll(stacks)];
            stack->next = *list;
            *list = stack;
            taken++;
        }
    }
    return taken;
}

/* [locked pool->lock]  Once for a slab that comes, once for one that goes. */
static void count_locked(struct wf_stack_pool *pool, const struct wf_slab *slab, bool is_new)
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

/* ---- memory goes back ---------------------------------------------------------------------- */

/* Takes one wholly free slab out of a class whose free stacks exceed the limit; NULL: none. */
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
            take_locked(class, slab, slab->free);
            count_locked(pool, slab, false);
            pool->mapped_bytes -= slab->bytes;
            pool->unmapped += slab->count;
            found = slab;
        }
    }
    wf_lock_release(&pool->lock);
    return found;
}

/* Gives back the memory of the dirty stacks of one slab if those of the class exceed the limit.  In
 * the meantime nobody else can have these stacks. */
static bool discard_some(struct wf_stack_pool *pool, unsigned class_index, size_t bytes_max)
{
    struct wf_stack_class *class = &pool->classes[class_index];
    struct wf_slab *slab = NULL;
    uint64_t stacks = 0;
    wf_lock_acquire(&pool->lock);
    if (class->dirty_count * wf_stack_class_size(class_index) > bytes_max) {
        slab = slab_of_dirty(class->dirty.next);
        stacks = slab->dirty;
        take_locked(class, slab, stacks);
    }
    wf_lock_release(&pool->lock);
    if (slab == NULL) {
        return false;
    }
    WF_JITTER();
    wf_slab_discard(slab, stacks);
    wf_lock_acquire(&pool->lock);
    give_locked(class, slab, stacks, false);
    pool->discarded += (uint64_t)__builtin_popcountll(stacks);
    wf_lock_release(&pool->lock);
    return true;
}

/* Down to the limit, as far as that is possible; true when anything went back.  Ends: each turn
 * takes a slab or some dirty stacks away, of which others can only add as many as they had. */
static bool shrink(struct wf_stack_pool *pool, unsigned class_index, size_t bytes_max)
{
    struct wf_slab *slab;
    bool is_less = false;
    while ((slab = pop_free_slab(pool, class_index, bytes_max)) != NULL) {
        wf_slab_free(slab);
        is_less = true;
    }
    while (discard_some(pool, class_index, bytes_max)) {
        is_less = true;
    }
    return is_less;
}

bool wf_stack_pool_trim(struct wf_stack_pool *pool)
{
    bool is_less = false;
    for (unsigned i = 0; i < WF_STACK_CLASSES; i++) {
        is_less = shrink(pool, i, 0) || is_less;
    }
    return is_less;
}

/* ---- between pool and caches --------------------------------------------------------------- */

/* False: the limit of mapped bytes does not allow it. */
static bool reserve(struct wf_stack_pool *pool, size_t bytes)
{
    wf_lock_acquire(&pool->lock);
    bool is_allowed = pool->options.mapped_bytes_max - pool->mapped_bytes >= bytes;
    if (is_allowed) {
        pool->mapped_bytes += bytes;
    }
    wf_lock_release(&pool->lock);
    return is_allowed;
}

/* A new slab, and some stacks of it. */
static int grow(struct wf_stack_pool *pool, unsigned class_index, unsigned count,
                struct wf_stack **list, unsigned *taken)
{
    struct wf_stack_class *class = &pool->classes[class_index];
    struct wf_slab *slab;
    const size_t bytes = wf_slab_bytes(class_index);
    if (!reserve(pool, bytes)) {
        WF_REACHED("stack.limit");
        return -ENOMEM;
    }
    int rc = wf_slab_new(pool, class_index, &slab);
    wf_lock_acquire(&pool->lock);
    if (rc != 0) {
        pool->mapped_bytes -= bytes;
    } else {
        count_locked(pool, slab, true);
        class->free_count += slab->count;
        file_locked(class, slab);
        *taken = take_some_locked(class, count, list);
    }
    wf_lock_release(&pool->lock);
    return rc;
}

/* Gives at least one stack and at most `count`. */
static int pool_take(struct wf_stack_pool *pool, unsigned class_index, unsigned count,
                     struct wf_stack **list, unsigned *taken)
{
    wf_lock_acquire(&pool->lock);
    *taken = take_some_locked(&pool->classes[class_index], count, list);
    wf_lock_release(&pool->lock);
    if (*taken > 0) {
        return 0;
    }
    int rc = grow(pool, class_index, count, list, taken);
    if (rc == -ENOMEM && wf_stack_pool_trim(pool)) { /* what other sizes had in reserve */
        WF_REACHED("stack.tried_again");
        rc = grow(pool, class_index, count, list, taken);
    }
    return rc;
}

/* Takes the list. */
static void pool_give(struct wf_stack_pool *pool, unsigned class_index, struct wf_stack *list)
{
    struct wf_stack_class *class = &pool->classes[class_index];
    wf_lock_acquire(&pool->lock);
    while (list != NULL) {
        struct wf_stack *stack = list;
        list = stack->next;
        WEFT_ASSERT(stack->slab->pool == pool);
        give_locked(class, stack->slab, UINT64_C(1) << (stack - stack->slab->stacks), true);
    }
    const size_t free_bytes = class->free_count * wf_stack_class_size(class_index);
    const size_t used_bytes = class->count * wf_stack_class_size(class_index) - free_bytes;
    wf_lock_release(&pool->lock);
    const size_t bytes_max =
        used_bytes > pool->options.free_bytes_max ? used_bytes : pool->options.free_bytes_max;
    if (free_bytes > bytes_max) {
        (void)shrink(pool, class_index, bytes_max / 2);
    }
}

/* ---- caches -------------------------------------------------------------------------------- */

void wf_stack_cache_init(struct wf_stack_cache *cache, struct wf_stack_pool *pool)
{
    *cache = (struct wf_stack_cache){.pool = pool};
}

/* Keeps the first ones, which were used last, and gives the others to the pool. */
static void cache_cut(struct wf_stack_cache *cache, unsigned class_index, unsigned keep)
{
    struct wf_stack **end = &cache->classes[class_index].first;
    for (unsigned i = 0; i < keep; i++) {
        end = &(*end)->next;
    }
    struct wf_stack *rest = *end;
    *end = NULL;
    wf_store_relaxed(&cache->classes[class_index].count, keep); /* relaxed: others only look */
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
    /* relaxed: ours */
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
    wf_store_relaxed(&stack->user, NULL); /* relaxed: nobody asks about a free stack */
    wf_notice_stack_back(stack);
    stack->next = cache->classes[index].first;
    cache->classes[index].first = stack;
    unsigned count = wf_load_relaxed(&cache->classes[index].count) + 1; /* relaxed: ours */
    wf_store_relaxed(&cache->classes[index].count, count);
    if (count > cache_max(index)) {
        cache_cut(cache, index, cache_max(index) / 2);
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

int wf_stack_pool_init(struct wf_stack_pool *pool, const struct wf_stack_options *options)
{
    static const struct wf_stack_options defaults;
    struct wf_stack_options all = options != NULL ? *options : defaults;
    if ((unsigned)all.guard >= WF_GUARD_KINDS) {
        return -EINVAL;
    }
    enum wf_guard guard = all.guard;
    if (guard == WF_GUARD_BEST || guard == WF_GUARD_NOTE) {
        const bool can_note = wf_memory_can_guard();
        if (guard == WF_GUARD_NOTE && !can_note) {
            return -EINVAL;
        }
        guard = can_note ? WF_GUARD_NOTE : WF_GUARD_MAPPING;
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
    WEFT_CHECK(pool->slabs == 0); /* a stack is still out */
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
