/* SPDX-License-Identifier: MIT */
/*
 * sync/watch.c - the newest value.
 *
 * The value lies in a block.  While nobody has borrowed the block, a new value is copied over the
 * old one; else it goes into another block, which becomes the current one, and the old one belongs
 * to those who have it until the last gives it back.  So nobody ever waits for a reader, a writer
 * or a function that modifies.  One block that is not needed is kept for the next time.
 *
 * A modification works on a copy without the lock, and is published only if no other version came
 * meanwhile; else it begins anew.
 */
#include <errno.h>
#include <stdalign.h>

#include "sched/fast.h"
#include "sync/chan.h"

struct block {
    uint32_t borrows; /* [locked]  those who look at it */
    alignas(max_align_t) char value[];
};

struct weft_watch {
    struct wf_spin lock;
    uint32_t size;            /* [const]  bytes of the value */
    uint64_t version;         /* [locked]  of the current block, from 1 */
    struct block *current;    /* [locked] */
    struct block *spare;      /* [locked]  one that nobody uses; NULL: none */
    struct wf_waitq watchers; /* [locked]  who waits; its own lock is not used */
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

int weft_watch_open(weft_watch **out, size_t size, const void *value)
{
    if (out == NULL || value == NULL || size == 0 || size > WEFT_ITEM_SIZE_MAX) {
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

static void spend(void)
{
    struct weft_task *self = wf_task_self();
    if (self != NULL) {
        wf_task_spend(self);
    }
}

/* ---- blocks -------------------------------------------------------------------------------- */

/* [locked]  Nobody uses it any more.  Gives one that is to be freed without the lock, or NULL. */
static struct block *give_up(struct weft_watch *watch, struct block *block)
{
    if (watch->spare == NULL) {
        watch->spare = block;
        return NULL;
    }
    return block;
}

/* [locked]  There is a new version, in this block.  As above. */
static struct block *publish(struct weft_watch *watch, struct block *block)
{
    struct block *old = watch->current;
    struct block *surplus = NULL;
    if (block != old) {
        watch->current = block;
        surplus = old->borrows == 0 ? give_up(watch, old) : NULL;
    }
    wf_plain_store(&watch->version, wf_plain_load(&watch->version) + 1);
    wf_waitq_grant_all(&watch->watchers, &watch->lock, 0);
    return surplus;
}

/* [locked]  A block of one's own: the spare one, or one that was allocated with the lock open.
 * NULL: there is no memory. */
static struct block *get_block(struct weft_watch *watch)
{
    struct block *block = watch->spare;
    watch->spare = NULL;
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
    if (watch == NULL || value == NULL) {
        return -EINVAL;
    }
    struct block *surplus = NULL;
    int rc = 0;
    wf_spin_acquire(&watch->lock);
    struct block *block = watch->current;
    if (block->borrows > 0) {
        block = get_block(watch);
    }
    if (block == NULL) {
        rc = -ENOMEM;
    } else if (wf_plain_load(&watch->is_closed)) {
        surplus = block != watch->current ? give_up(watch, block) : NULL;
        rc = -EPIPE;
    } else {
        wf_item_copy(block->value, value, watch->size);
        surplus = publish(watch, block);
    }
    wf_spin_release(&watch->lock);
    wf_free(surplus);
    spend();
    return rc;
}

int weft_watch_modify(weft_watch *watch, bool (*fn)(void *value, void *arg), void *arg)
{
    if (watch == NULL || fn == NULL) {
        return -EINVAL;
    }
    struct block *surplus = NULL;
    wf_spin_acquire(&watch->lock);
    struct block *block = get_block(watch);
    int rc = block == NULL ? -ENOMEM : 1;
    while (rc == 1) { /* Ends when nobody else was faster. */
        const uint64_t version = watch->version;
        if (watch->is_closed) {
            rc = -EPIPE;
            break;
        }
        wf_item_copy(block->value, watch->current->value, watch->size);
        wf_spin_release(&watch->lock);
        rc = fn(block->value, arg) ? 1 : 0;
        wf_spin_acquire(&watch->lock);
        if (rc == 1 && watch->version == version && !watch->is_closed) {
            surplus = publish(watch, block);
            block = NULL;
            break;
        }
    }
    if (block != NULL) {
        surplus = give_up(watch, block);
    }
    wf_spin_release(&watch->lock);
    wf_free(surplus);
    spend();
    return rc;
}

/* ---- looking ------------------------------------------------------------------------------- */

int weft_watch_get(weft_watch *watch, void *value, uint64_t *version)
{
    if (watch == NULL || value == NULL) {
        return -EINVAL;
    }
    wf_spin_acquire(&watch->lock);
    wf_item_copy(value, watch->current->value, watch->size);
    const uint64_t number = wf_plain_load(&watch->version);
    wf_spin_release(&watch->lock);
    if (version != NULL) {
        *version = number;
    }
    spend();
    return 0;
}

const void *weft_watch_borrow(weft_watch *watch, uint64_t *version)
{
    if (watch == NULL) {
        return NULL;
    }
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
    if (watch == NULL || value == NULL) {
        return;
    }
    struct block *block = wf_container_of((uintptr_t)value, struct block, value);
    struct block *surplus = NULL;
    wf_spin_acquire(&watch->lock);
    WEFT_CHECK(block->borrows > 0);
    block->borrows--;
    if (block->borrows == 0 && block != watch->current) {
        surplus = give_up(watch, block);
    }
    wf_spin_release(&watch->lock);
    wf_free(surplus);
    spend();
}

uint64_t weft_watch_version(const weft_watch *watch)
{
    if (watch == NULL) {
        return 0;
    }
    struct wf_spin *lock = &((struct weft_watch *)(uintptr_t)watch)->lock;
    wf_spin_acquire(lock);
    const uint64_t version = watch->version;
    wf_spin_release(lock);
    return version;
}

/* [locked]  0: there is another version, whose number it puts down.  -EPIPE; or the node is in the
 * queue: -EINPROGRESS. */
static int look_or_queue(struct weft_watch *watch, struct wf_wait_node *node, uint64_t *version)
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
    wf_waitq_push(&watch->watchers, node);
    return -EINPROGRESS;
}

int wf_watch_begin(weft_watch *watch, struct wf_wait_node *node, uint64_t *version)
{
    wf_spin_acquire(&watch->lock);
    const int rc = look_or_queue(watch, node, version);
    wf_spin_release(&watch->lock);
    return rc;
}

/* [any]  There was nothing new, and the lock is held. */
static __attribute__((noinline)) int wait_for_news(struct weft_watch *watch, uint64_t *version)
{
    struct wf_wait_node node;
    wf_node_init(&node, wf_task_self());
    for (;;) { /* Ends with another version, the close, or when it may not wait on. */
        int rc = look_or_queue(watch, &node, version);
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
    if (watch == NULL || version == NULL) {
        return -EINVAL;
    }
    wf_spin_acquire(&watch->lock);
    if (wf_plain_load(&watch->version) == *version) {
        return wait_for_news(watch, version);
    }
    *version = wf_plain_load(&watch->version);
    wf_spin_release(&watch->lock);
    spend();
    return 0;
}

/* ---- the end ------------------------------------------------------------------------------- */

int weft_watch_close(weft_watch *watch)
{
    if (watch == NULL) {
        return -EINVAL;
    }
    wf_spin_acquire(&watch->lock);
    const bool was_closed = wf_plain_load(&watch->is_closed);
    wf_plain_store(&watch->is_closed, true);
    wf_waitq_grant_all(&watch->watchers, &watch->lock, 0);
    wf_spin_release(&watch->lock);
    return was_closed ? -EPIPE : 0;
}

weft_watch *weft_watch_ref(weft_watch *watch)
{
    /* relaxed: the caller has a handle, so it does not go meanwhile */
    const uint32_t before = wf_fetch_add_relaxed(&watch->refs, 1);
    WEFT_CHECK(before > 0);
    WEFT_CHECK(before < UINT32_MAX);
    return watch;
}

void weft_watch_drop(weft_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    /* (K2) release: our uses.  acquire: those of the others, if we are the last. */
    const uint32_t before = wf_fetch_sub_acq_rel(&watch->refs, 1);
    WEFT_CHECK(before > 0);
    if (before == 1) {
        const bool is_anybody_waiting = watch->watchers.first != NULL;
        const bool is_borrowed = watch->current->borrows > 0;
        WEFT_CHECK(!is_anybody_waiting); /* whoever waits has a handle */
        WEFT_CHECK(!is_borrowed);        /* as has whoever looks */
        wf_free(watch->current);
        wf_free(watch->spare);
        wf_free(watch);
    }
}
