/* SPDX-License-Identifier: MIT */
/*
 * sync/watch.c - the newest value.
 *
 * The value lies in a block.  While the block is not borrowed, a writer copies the new value over
 * the old one.  Else the writer fills another block, which becomes the current one; the last reader
 * that returns the old block keeps it as the one unused block for the next writer, or frees it.  So
 * no caller ever waits for a reader, a writer or a function that modifies.
 *
 * A modification works on a copy, without the lock, and is published only if no other version was
 * published meanwhile; else it starts again.
 */
#include <errno.h>
#include <stdalign.h>

#include "future/future.h"
#include "sync/chan.h"

struct block {
    uint32_t borrows; /* [locked]  readers that have it */
    alignas(max_align_t) char value[];
};

struct weft_watch {
    struct wf_spin lock;
    uint32_t size;            /* [const]  bytes of the value */
    uint64_t version;         /* [locked]  of the current block, from 1 */
    struct block *current;    /* [locked] */
    struct block *unused;     /* [locked]  an unused block; NULL: none */
    struct wf_waitq waiters;  /* [locked]  its own lock is not used */
    bool is_closed;           /* [locked] */
    WF_ATOMIC(uint32_t) refs; /* [any: add]  handles */
};

static struct block *block_new(size_t size)
{
    struct block *block = wf_alloc_aligned(alignof(struct block), sizeof(*block) + size);
    if (block != NULL) {
        block->borrows = 0;
    }
    return block;
}

int weft_watch_new(weft_watch **out, size_t size, const void *value)
{
    WF_NOT_NULL(out, "weft_watch_new: out is NULL");
    WF_NOT_NULL(value, "weft_watch_new: value is NULL");
    if (size == 0 || size > WEFT_CHAN_ITEM_SIZE_MAX) {
        return -EINVAL;
    }
    struct weft_watch *watch = wf_alloc_aligned(WF_CACHE_LINE, sizeof(*watch));
    struct block *block = block_new(size);
    if (watch == NULL || block == NULL) {
        wf_free(watch);
        wf_free(block);
        return -ENOMEM;
    }
    *watch = (struct weft_watch){.size = (uint32_t)size, .version = 1, .current = block};
    wf_atomic_init(&watch->refs, 1);
    wf_item_copy(block->value, value, watch->size);
    *out = watch;
    return 0;
}

static void watch_spend(void)
{
    struct weft_task *self = wf_task_self();
    if (self != NULL) {
        wf_task_spend(self);
    }
}

/* ---- blocks -------------------------------------------------------------------------------- */

/* [locked]  Keeps this block, which is not borrowed, as the unused one, and returns NULL.  If there
 * is an unused one already, returns the block: the caller must free it after it has released the
 * lock. */
static struct block *watch_keep_block(struct weft_watch *watch, struct block *block)
{
    if (watch->unused == NULL) {
        watch->unused = block;
        return NULL;
    }
    return block;
}

/* [locked]  Makes this block the current version, and grants all waiters.  Returns as
 * watch_keep_block. */
static struct block *watch_publish(struct weft_watch *watch, struct block *block)
{
    struct block *old = watch->current;
    struct block *surplus = NULL;
    if (block != old) {
        watch->current = block;
        surplus = old->borrows == 0 ? watch_keep_block(watch, old) : NULL;
    }
    wf_plain_store(&watch->version, wf_plain_load(&watch->version) + 1);
    wf_waitq_grant_all(&watch->waiters, &watch->lock, 0);
    return surplus;
}

/* [locked]  Returns a block for the caller: the unused one, or a new one.  Releases the lock while
 * it allocates.  NULL: no memory. */
static struct block *watch_get_block(struct weft_watch *watch)
{
    struct block *block = watch->unused;
    watch->unused = NULL;
    if (block == NULL) {
        wf_spin_release(&watch->lock);
        block = block_new(watch->size);
        wf_spin_acquire(&watch->lock);
    }
    return block;
}

/* ---- setting ------------------------------------------------------------------------------- */

int weft_watch_set(weft_watch *watch, const void *value)
{
    WF_NOT_NULL(watch, "weft_watch_set: watch is NULL");
    WF_NOT_NULL(value, "weft_watch_set: value is NULL");
    struct block *surplus = NULL;
    int rc = 0;
    wf_spin_acquire(&watch->lock);
    struct block *block = watch->current;
    if (block->borrows > 0) {
        block = watch_get_block(watch);
    }
    if (block == NULL) {
        rc = -ENOMEM;
    } else if (wf_plain_load(&watch->is_closed)) {
        surplus = block != watch->current ? watch_keep_block(watch, block) : NULL;
        rc = -EPIPE;
    } else {
        wf_item_copy(block->value, value, watch->size);
        surplus = watch_publish(watch, block);
    }
    wf_spin_release(&watch->lock);
    wf_free(surplus);
    watch_spend();
    return rc;
}

int weft_watch_modify(weft_watch *watch, bool (*fn)(void *value, void *arg), void *arg)
{
    WF_NOT_NULL(watch, "weft_watch_modify: watch is NULL");
    WF_NOT_NULL(fn, "weft_watch_modify: fn is NULL");
    struct wf_undo_hook hook;
    struct block *surplus = NULL;
    wf_spin_acquire(&watch->lock);
    struct block *block = watch_get_block(watch);
    int rc = block == NULL ? -ENOMEM : 1;
    while (rc == 1) { /* Ends when no other writer was faster. */
        const uint64_t version = watch->version;
        if (watch->is_closed) {
            rc = -EPIPE;
            break;
        }
        wf_item_copy(block->value, watch->current->value, watch->size);
        wf_spin_release(&watch->lock);
        wf_undo_hook_add(&hook, wf_free, block); /* fn may never return */
        rc = fn(block->value, arg) ? 1 : 0;
        wf_undo_hook_remove(&hook);
        wf_spin_acquire(&watch->lock);
        if (rc == 1 && watch->version == version && !watch->is_closed) {
            surplus = watch_publish(watch, block);
            block = NULL;
            break;
        }
    }
    if (block != NULL) {
        surplus = watch_keep_block(watch, block);
    }
    wf_spin_release(&watch->lock);
    wf_free(surplus);
    watch_spend();
    return rc;
}

/* ---- reading ------------------------------------------------------------------------------- */

int weft_watch_get(weft_watch *watch, void *value, uint64_t *version)
{
    WF_NOT_NULL(watch, "weft_watch_get: watch is NULL");
    WF_NOT_NULL(value, "weft_watch_get: value is NULL");
    wf_spin_acquire(&watch->lock);
    wf_item_copy(value, watch->current->value, watch->size);
    const uint64_t number = wf_plain_load(&watch->version);
    wf_spin_release(&watch->lock);
    if (version != NULL) {
        *version = number;
    }
    watch_spend();
    return 0;
}

const void *weft_watch_borrow(weft_watch *watch, uint64_t *version)
{
    WF_NOT_NULL(watch, "weft_watch_borrow: watch is NULL");
    wf_spin_acquire(&watch->lock);
    struct block *block = watch->current;
    block->borrows++;
    const uint64_t number = wf_plain_load(&watch->version);
    wf_spin_release(&watch->lock);
    if (version != NULL) {
        *version = number;
    }
    return block->value;
}

void weft_watch_return(weft_watch *watch, const void *value)
{
    WF_NOT_NULL(watch, "weft_watch_return: watch is NULL");
    WF_NOT_NULL(value, "weft_watch_return: value is NULL");
    struct block *block = wf_container_of((uintptr_t)value, struct block, value);
    struct block *surplus = NULL;
    wf_spin_acquire(&watch->lock);
    WEFT_CHECK(block->borrows > 0);
    block->borrows--;
    if (block->borrows == 0 && block != watch->current) {
        surplus = watch_keep_block(watch, block);
    }
    wf_spin_release(&watch->lock);
    wf_free(surplus);
    watch_spend();
}

uint64_t weft_watch_version(const weft_watch *watch)
{
    WF_NOT_NULL(watch, "weft_watch_version: watch is NULL");
    struct wf_spin *lock = &((struct weft_watch *)(uintptr_t)watch)->lock;
    wf_spin_acquire(lock);
    const uint64_t version = watch->version;
    wf_spin_release(lock);
    return version;
}

/* [locked]  0: there is another version, now in *version.  -EPIPE: closed.  -EINPROGRESS: the node
 * is in the queue. */
static int watch_check_or_queue(struct weft_watch *watch, struct wf_wait_node *node,
                                uint64_t *version)
{
    const uint64_t newest = wf_plain_load(&watch->version);
    if (newest != *version) {
        *version = newest;
        return 0;
    }
    if (wf_plain_load(&watch->is_closed)) {
        return -EPIPE;
    }
    node->spin = &watch->lock;
    wf_waitq_push(&watch->waiters, node);
    return -EINPROGRESS;
}

int wf_watch_begin(weft_watch *watch, struct wf_wait_node *node, uint64_t *version)
{
    wf_spin_acquire(&watch->lock);
    const int rc = watch_check_or_queue(watch, node, version);
    wf_spin_release(&watch->lock);
    return rc;
}

/* [locked, any]  Releases the lock, and waits for another version. */
static __attribute__((noinline)) int watch_wait_slow(struct weft_watch *watch, uint64_t *version)
{
    struct wf_wait_node node;
    wf_node_init(&node, wf_task_self());
    for (;;) { /* Ends with another version, the close, or an interruption. */
        int rc = watch_check_or_queue(watch, &node, version);
        wf_spin_release(&watch->lock);
        if (rc != -EINPROGRESS) {
            return rc;
        }
        rc = wf_waitq_wait(&node, WEFT_WAIT_RECEIVE, watch, WEFT_NEVER);
        if (rc != 0) {
            return rc;
        }
        wf_node_reset(&node);
        wf_spin_acquire(&watch->lock);
    }
}

int weft_watch_wait(weft_watch *watch, uint64_t *version)
{
    WF_NOT_NULL(watch, "weft_watch_wait: watch is NULL");
    WF_NOT_NULL(version, "weft_watch_wait: version is NULL");
    wf_spin_acquire(&watch->lock);
    if (wf_plain_load(&watch->version) == *version) {
        return watch_wait_slow(watch, version);
    }
    *version = wf_plain_load(&watch->version);
    wf_spin_release(&watch->lock);
    watch_spend();
    return 0;
}

/* ---- closing ------------------------------------------------------------------------------- */

int weft_watch_close(weft_watch *watch)
{
    WF_NOT_NULL(watch, "weft_watch_close: watch is NULL");
    wf_spin_acquire(&watch->lock);
    const bool was_closed = wf_plain_load(&watch->is_closed);
    wf_plain_store(&watch->is_closed, true);
    wf_waitq_grant_all(&watch->waiters, &watch->lock, 0);
    wf_spin_release(&watch->lock);
    return was_closed ? -EPIPE : 0;
}

weft_watch *weft_watch_ref(weft_watch *watch)
{
    /* relaxed: the caller's handle keeps the object */
    const uint32_t before = wf_fetch_add_relaxed(&watch->refs, 1);
    WEFT_CHECK(before > 0);
    WEFT_CHECK(before < UINT32_MAX);
    return watch;
}

void weft_watch_unref(weft_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    /* (sync.K2) release: the uses by this handle.  acquire: the uses by all others, for the last.
     */
    const uint32_t before = wf_fetch_sub_acq_rel(&watch->refs, 1);
    WEFT_CHECK(before > 0);
    if (before == 1) {
        const bool has_waiters = watch->waiters.first != NULL;
        const bool is_borrowed = watch->current->borrows > 0;
        WEFT_CHECK(!has_waiters); /* a waiter has a handle */
        WEFT_CHECK(!is_borrowed); /* a reader that borrows has a handle too */
        wf_free(watch->current);
        wf_free(watch->unused);
        wf_free(watch);
    }
}
