/* SPDX-License-Identifier: MIT */
/*
 * sched/pool.c - the memory of tasks.
 *
 * Slabs of tasks, which are never used for anything else and go back to the system only with the
 * pool.  Whoever kept the address of a task that has ended can do no harm by waking it: the memory
 * is that of a task, perhaps of another, and every wait looks again at what it waits for.  It also
 * makes a list of all tasks that costs nothing to keep: a dump walks the slabs.
 *
 * Workers take and give whole batches, so that the lock is taken once for many tasks and held for a
 * few instructions: nobody goes through a list that would have to come into the CPU's caches first.
 *
 * A pool whose runtime is closed waits for the last handle.
 */
#include <errno.h>
#include <sched.h>

#include "sched/sched.h"

struct wf_task_slab {
    struct wf_task_slab *next;
    alignas(WF_CACHE_LINE) struct weft_task tasks[WF_TASK_SLAB_COUNT];
};

int wf_task_pool_new(struct wf_task_pool **out, weft_runtime *runtime)
{
    struct wf_task_pool *pool = wf_alloc_zeroed(1, sizeof(*pool));
    if (pool == NULL) {
        return -ENOMEM;
    }
    wf_lock_init(&pool->lock, WF_RANK_TASK_POOL);
    pool->runtime = runtime;
    *out = pool;
    return 0;
}

static void extra_free(struct wf_task_extra *extra)
{
    if (extra != NULL) {
        WEFT_ASSERT(extra->locals == NULL);
        wf_free(extra->arg_copy);
        wf_free(extra->message);
        wf_free(extra->board);
        wf_free(extra);
    }
}

static void pool_free(struct wf_task_pool *pool)
{
    while (pool->slabs != NULL) {
        struct wf_task_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        for (size_t i = 0; i < WF_TASK_SLAB_COUNT; i++) {
            extra_free(wf_load_relaxed(&slab->tasks[i].extra)); /* relaxed: nobody else is left */
        }
        wf_free(slab);
    }
    wf_free(pool);
}

/* [locked pool->lock] */
static bool is_over_locked(const struct wf_task_pool *pool)
{
    return pool->is_closed && pool->free_count == pool->count;
}

void wf_task_pool_close(struct wf_task_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    wf_lock_acquire(&pool->lock);
    pool->is_closed = true;
    struct wf_failure *failures = pool->failures;
    pool->failures = NULL;
    bool is_over = is_over_locked(pool);
    wf_lock_release(&pool->lock);
    wf_failures_free(failures); /* noted after the last report */
    if (is_over) {
        pool_free(pool);
    }
}

/* ---- strangers ----------------------------------------------------------------------------- */

bool wf_pool_enter(struct wf_task_pool *pool)
{
    (void)wf_fetch_add_relaxed(&pool->strangers, 1); /* relaxed: the fence orders it */
    wf_fence_seq_cst();                              /* (N1) */
    if (wf_load_relaxed(&pool->is_shut) == 0) {
        return true;
    }
    wf_pool_leave(pool);
    return false;
}

void wf_pool_leave(struct wf_task_pool *pool)
{
    (void)wf_fetch_sub_release(&pool->strangers, 1); /* (N2) the pool may be gone after this */
}

void wf_pool_shut(struct wf_task_pool *pool)
{
    wf_store_relaxed(&pool->is_shut, 1);             /* relaxed: the fence orders it */
    wf_fence_seq_cst();                              /* (N1) */
    while (wf_load_acquire(&pool->strangers) != 0) { /* (N2) each is a few steps from leaving */
        struct weft_task *self = wf_task_self();
        if (self != NULL) {
            wf_task_yield(self); /* it may be a task that needs the caller's worker for that */
        }
        (void)sched_yield(); /* cannot fail on Linux */
    }
}

/* A slab of free tasks, linked by their nodes. */
static struct wf_task_slab *slab_new(struct wf_task_pool *pool)
{
    struct wf_task_slab *slab = wf_alloc_aligned(WF_CACHE_LINE, sizeof(*slab));
    if (slab == NULL) {
        return NULL;
    }
    slab->next = NULL;
    for (size_t i = 0; i < WF_TASK_SLAB_COUNT; i++) {
        slab->tasks[i] = (struct weft_task){.pool = pool};
        wf_task_reset(&slab->tasks[i]);
        slab->tasks[i].node.next =
            i + 1 < WF_TASK_SLAB_COUNT ? &slab->tasks[i + 1].node : (struct wf_node *)NULL;
    }
    return slab;
}

/* [locked pool->lock]  A batch becomes the pool's. */
static void put_batch_locked(struct wf_task_pool *pool, struct wf_node *first, unsigned count)
{
    struct weft_task *task = wf_container_of(first, struct weft_task, node);
    task->next_batch = pool->batches;
    task->batch_count = count;
    pool->batches = task;
    pool->free_count += count;
    WEFT_CHECK(pool->free_count <= pool->count);
}

/* [locked pool->lock]  Up to `count` tasks of a batch; what is left of it stays. */
static unsigned take_batch_locked(struct wf_task_pool *pool, unsigned count, struct wf_node **list)
{
    struct weft_task *task = pool->batches;
    if (task == NULL) {
        return 0;
    }
    const unsigned there = task->batch_count;
    pool->batches = task->next_batch;
    pool->free_count -= there;
    *list = &task->node;
    if (there <= count) {
        return there;
    }
    struct wf_node *last = *list;
    for (unsigned i = 1; i < count; i++) {
        last = last->next;
    }
    put_batch_locked(pool, last->next, there - count);
    last->next = NULL;
    return count;
}

/* [locked pool->lock]  Up to `count` of those that came one by one; gives how many. */
static unsigned take_single_locked(struct wf_task_pool *pool, unsigned count, struct wf_node **list)
{
    unsigned taken = 0;
    while (taken < count && pool->free != NULL) {
        struct wf_node *node = pool->free;
        pool->free = node->next;
        node->next = *list;
        *list = node;
        taken++;
    }
    pool->free_count -= taken;
    return taken;
}

/* [locked pool->lock]  Up to `count` tasks. */
static unsigned take_locked(struct wf_task_pool *pool, unsigned count, struct wf_node **list)
{
    unsigned taken = take_single_locked(pool, count, list);
    return taken > 0 ? taken : take_batch_locked(pool, count, list);
}

/* At least one free task and at most `count`; 0: out of memory. */
static unsigned task_pool_take(struct wf_task_pool *pool, unsigned count, struct wf_node **list)
{
    wf_lock_acquire(&pool->lock);
    unsigned taken = take_locked(pool, count, list);
    wf_lock_release(&pool->lock);
    if (taken > 0) {
        return taken;
    }
    struct wf_task_slab *slab = slab_new(pool); /* not under the lock: it may ask the kernel */
    if (slab == NULL) {
        return 0;
    }
    wf_lock_acquire(&pool->lock);
    slab->next = pool->slabs;
    pool->slabs = slab;
    pool->count += WF_TASK_SLAB_COUNT;
    put_batch_locked(pool, &slab->tasks[0].node, WF_TASK_SLAB_COUNT);
    taken = take_locked(pool, count, list);
    wf_lock_release(&pool->lock);
    return taken;
}

/* Takes the list of `count` tasks; frees the pool if they were the last. */
static void task_pool_give(struct wf_task_pool *pool, struct wf_node *list, unsigned count)
{
    wf_lock_acquire(&pool->lock);
    if (count == 1) {
        list->next = pool->free;
        pool->free = list;
        pool->free_count++;
        WEFT_CHECK(pool->free_count <= pool->count);
    } else {
        put_batch_locked(pool, list, count);
    }
    bool is_over = is_over_locked(pool);
    wf_lock_release(&pool->lock);
    if (is_over) {
        WF_REACHED("pool.outlived_its_runtime");
        pool_free(pool);
    }
}

struct weft_task *wf_task_get(struct wf_task_pool *pool, struct wf_task_cache *cache)
{
    struct wf_node *node = NULL;
    if (cache == NULL) {
        (void)task_pool_take(pool, 1, &node);
    } else {
        if (cache->first == NULL && cache->reserve != NULL) {
            cache->first = cache->reserve;
            cache->count = WF_TASK_BATCH;
            cache->reserve = NULL;
        } else if (cache->first == NULL) {
            cache->count = task_pool_take(pool, WF_TASK_BATCH, &cache->first);
        }
        node = cache->first;
        if (node != NULL) {
            cache->first = node->next;
            cache->count--;
        }
    }
    return node != NULL ? wf_container_of(node, struct weft_task, node) : NULL;
}

/* The newest stay: they are in the CPU's caches. */
static void set_aside(struct wf_task_pool *pool, struct wf_task_cache *cache)
{
    struct wf_node *older = cache->reserve;
    cache->reserve = cache->first;
    cache->first = NULL;
    cache->count = 0;
    if (older != NULL) {
        task_pool_give(pool, older, WF_TASK_BATCH);
    }
}

void wf_task_put(struct wf_task_pool *pool, struct wf_task_cache *cache, struct weft_task *task)
{
    WEFT_ASSERT(task->pool == pool);
    wf_store_relaxed(&task->id, 0); /* relaxed: a dump may see it a moment longer */
    if (cache == NULL) {
        task_pool_give(pool, &task->node, 1);
        return;
    }
    if (cache->count == WF_TASK_BATCH) {
        set_aside(pool, cache);
    }
    task->node.next = cache->first;
    cache->first = &task->node;
    cache->count++;
}

void wf_task_cache_done(struct wf_task_pool *pool, struct wf_task_cache *cache)
{
    if (cache->reserve != NULL) {
        task_pool_give(pool, cache->reserve, WF_TASK_BATCH);
    }
    if (cache->first != NULL) {
        task_pool_give(pool, cache->first, cache->count);
    }
    *cache = (struct wf_task_cache){0};
}

void wf_task_pool_visit(struct wf_task_pool *pool, void (*visit)(struct weft_task *, void *),
                        void *context)
{
    wf_lock_acquire(&pool->lock);
    for (struct wf_task_slab *slab = pool->slabs; slab != NULL; slab = slab->next) {
        for (size_t i = 0; i < WF_TASK_SLAB_COUNT; i++) {
            if (wf_load_acquire(&slab->tasks[i].id) !=
                0) { /* acquire: what the spawner filled in */
                visit(&slab->tasks[i], context);
            }
        }
    }
    wf_lock_release(&pool->lock);
}

struct wf_task_extra *wf_task_extra(struct weft_task *task)
{
    struct wf_task_extra *extra = wf_load_relaxed(&task->extra); /* relaxed: ours, or none */
    if (extra == NULL) {
        extra = wf_alloc_zeroed(1, sizeof(*extra));
        wf_store_release(&task->extra, extra); /* release: a dump looks at its name */
    }
    return extra;
}
