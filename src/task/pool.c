/* SPDX-License-Identifier: MIT */
/*
 * task/pool.c - the memory of tasks, and rundown protection of the runtime.
 *
 * The pool has slabs of tasks.  Their memory is never used for anything else, and is freed only
 * with the pool (type-stable memory).  So a late waker that still has the address of a task which
 * has ended wakes another task, or none, and every wait checks its condition after a wake.  The
 * slabs are also a list of all tasks that costs nothing to maintain: a dump walks them.
 *
 * A worker takes and returns whole batches.  It takes the lock once for many tasks and holds it for
 * a few instructions, because a batch moves without a walk through its list, whose nodes would be
 * cache misses.  Exceptions: tasks that were returned singly are taken singly, and a dump walks the
 * slabs under the lock.
 *
 * A pool outlives its runtime until the last handle is released.
 */
#include <errno.h>

#include "task/pool.h"

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
        wf_free(extra->forks_memory);
        wf_free(extra);
    }
}

static void pool_free(struct wf_task_pool *pool)
{
    while (pool->slabs != NULL) {
        struct wf_task_slab *slab = pool->slabs;
        pool->slabs = slab->next;
        for (size_t i = 0; i < WF_TASK_SLAB_COUNT; i++) {
            extra_free(wf_load_relaxed(&slab->tasks[i].extra)); /* relaxed: the last thread */
        }
        wf_free(slab);
    }
    wf_free(pool);
}

/* [locked pool->lock] */
static bool is_unused_locked(const struct wf_task_pool *pool)
{
    return pool->is_closed && pool->free_count == pool->count;
}

/* [closer]  Frees records that will not be reported. */
static void failures_free(struct wf_failure *failures)
{
    while (failures != NULL) {
        struct wf_failure *next = failures->next;
        wf_free(failures);
        failures = next;
    }
}

void wf_task_pool_close(struct wf_task_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    wf_lock_acquire(&pool->lock);
    pool->is_closed = true;
    struct wf_failure *failures = pool->failures.newest;
    pool->failures.newest = NULL;
    bool is_unused = is_unused_locked(pool);
    wf_lock_release(&pool->lock);
    failures_free(failures); /* those noted after the last report */
    if (is_unused) {
        pool_free(pool);
    }
}

/* ---- rundown ------------------------------------------------------------------------------- */

/*
 * A non-worker thread pins the runtime while it wakes or queues a task, so that the closer does not
 * free the runtime under it.
 *
 *   non-worker thread (wf_pool_pin)          closer (wf_pool_rundown)
 *   1 add 1 to external_refs                 1 set is_rundown
 *   2 fence                                  2 fence
 *   3 is_rundown: unpin, fail                3 wait until external_refs is 0, then free the runtime
 *
 * One of the two sees what the other stored (task.N1): the thread fails, or the closer waits for
 * it.  The release in wf_pool_unpin orders every use of the runtime before the free (task.N2).
 */

bool wf_pool_pin(struct wf_task_pool *pool)
{
    (void)wf_fetch_add_relaxed(&pool->external_refs, 1); /* relaxed: the fence orders it */
    wf_fence_seq_cst();                                  /* (task.N1) */
    if (wf_load_relaxed(&pool->is_rundown) == 0) {
        return true;
    }
    wf_pool_unpin(pool);
    return false;
}

void wf_pool_unpin(struct wf_task_pool *pool)
{
    (void)wf_fetch_sub_release(&pool->external_refs,
                               1); /* (task.N2) release: the runtime may be freed after this */
}

void wf_pool_rundown(struct wf_task_pool *pool, void (*relax)(void))
{
    wf_store_relaxed(&pool->is_rundown, 1); /* relaxed: the fence orders it */
    wf_fence_seq_cst();                     /* (task.N1) */
    while (wf_load_acquire(&pool->external_refs) !=
           0) { /* (task.N2) ends: each thread that has pinned it unpins soon */
        relax();
    }
}

/* ---- slabs and batches --------------------------------------------------------------------- */

/* A slab of free tasks, linked by their nodes; NULL: out of memory. */
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

/* [locked pool->lock]  Returns a batch to the pool. */
static void put_batch_locked(struct wf_task_pool *pool, struct wf_node *first, unsigned count)
{
    struct weft_task *task = wf_container_of(first, struct weft_task, node);
    task->next_batch = pool->batches;
    task->batch_count = count;
    pool->batches = task;
    pool->free_count += count;
    WEFT_CHECK(pool->free_count <= pool->count);
}

/* [locked pool->lock]  Takes up to `count` tasks of the first batch; the rest of it stays. */
static unsigned take_batch_locked(struct wf_task_pool *pool, unsigned count, struct wf_node **list)
{
    struct weft_task *task = pool->batches;
    if (task == NULL) {
        return 0;
    }
    const unsigned available = task->batch_count;
    pool->batches = task->next_batch;
    pool->free_count -= available;
    *list = &task->node;
    if (available <= count) {
        return available;
    }
    struct wf_node *last = *list;
    for (unsigned i = 1; i < count; i++) {
        last = last->next;
    }
    put_batch_locked(pool, last->next, available - count);
    last->next = NULL;
    return count;
}

/* [locked pool->lock]  Takes up to `count` tasks that were returned one by one; returns their
 * number.
 */
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

/* [locked pool->lock]  Takes up to `count` tasks; returns their number. */
static unsigned task_take_locked(struct wf_task_pool *pool, unsigned count, struct wf_node **list)
{
    unsigned taken = take_single_locked(pool, count, list);
    return taken > 0 ? taken : take_batch_locked(pool, count, list);
}

/* [any]  Takes at least one free task and at most `count`; returns their number.  0: out of
 * memory. */
static unsigned task_pool_take(struct wf_task_pool *pool, unsigned count, struct wf_node **list)
{
    wf_lock_acquire(&pool->lock);
    unsigned taken = task_take_locked(pool, count, list);
    wf_lock_release(&pool->lock);
    if (taken > 0) {
        return taken;
    }
    struct wf_task_slab *slab = slab_new(pool); /* not under the lock: a system call */
    if (slab == NULL) {
        return 0;
    }
    wf_lock_acquire(&pool->lock);
    slab->next = pool->slabs;
    pool->slabs = slab;
    pool->count += WF_TASK_SLAB_COUNT;
    put_batch_locked(pool, &slab->tasks[0].node, WF_TASK_SLAB_COUNT);
    taken = task_take_locked(pool, count, list);
    wf_lock_release(&pool->lock);
    return taken;
}

/* [any]  Returns a list of `count` tasks.  Frees the pool if it is closed and they were the last.
 */
static void task_pool_return(struct wf_task_pool *pool, struct wf_node *list, unsigned count)
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
    bool is_unused = is_unused_locked(pool);
    wf_lock_release(&pool->lock);
    if (is_unused) {
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

/* [owner]  The full batch at hand becomes the reserve; the old reserve, which is colder in the
 * CPU's caches, goes to the pool. */
static void cache_set_reserve(struct wf_task_pool *pool, struct wf_task_cache *cache)
{
    struct wf_node *older = cache->reserve;
    cache->reserve = cache->first;
    cache->first = NULL;
    cache->count = 0;
    if (older != NULL) {
        task_pool_return(pool, older, WF_TASK_BATCH);
    }
}

void wf_task_put(struct wf_task_pool *pool, struct wf_task_cache *cache, struct weft_task *task)
{
    WEFT_ASSERT(task->pool == pool);
    wf_store_relaxed(&task->id, 0); /* relaxed: a dump may still see the old id */
    if (cache == NULL) {
        task_pool_return(pool, &task->node, 1);
        return;
    }
    if (cache->count == WF_TASK_BATCH) {
        cache_set_reserve(pool, cache);
    }
    task->node.next = cache->first;
    cache->first = &task->node;
    cache->count++;
}

void wf_task_cache_done(struct wf_task_pool *pool, struct wf_task_cache *cache)
{
    if (cache->reserve != NULL) {
        task_pool_return(pool, cache->reserve, WF_TASK_BATCH);
    }
    if (cache->first != NULL) {
        task_pool_return(pool, cache->first, cache->count);
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
