/* SPDX-License-Identifier: MIT */
/*
 * queue/deque.c - a growable work-stealing deque: the owner works LIFO, thieves take the oldest.
 *
 * Chase and Lev's deque with the C11 memory orders of Le et al.  The owner works at `bottom`
 * without a locked instruction, except one fence in pop; thieves compete for `top` by CAS.  Owner
 * and thief conflict only at the last item, which either takes by winning the CAS.
 *
 * Rejected: half of the items in one CAS.  The owner pops without a CAS of `top` as long as two
 * items are left, so it may pop into the half that a thief has read but not yet claimed: the item
 * is taken twice, and top passes bottom.  With one CAS for each item the thief reads bottom each
 * time.
 * Rejected: freeing replaced buffers by epochs.  Sizes double, so all replaced buffers
 * together are smaller than the newest, and a thief need not announce itself.
 *
 * Push publishes by a release store of bottom where the paper has a fence.  Therefore the first
 * store of bottom in pop is a release too: else a thief that reads it would not see what push
 * wrote.
 */
#include <errno.h>

#include "queue/queue.h"

struct wf_deque_buffer {
    struct wf_deque_buffer *older; /* [owner]  the buffer that this one replaced; NULL: none */
    size_t capacity;               /* [const]  a power of two */
    /* [owner: write] [any: read]  Atomic, because a thief about to lose its CAS may read a slot
     * that the owner is refilling; the thief discards the value. */
    WF_ATOMIC(struct wf_node *) slots[];
};

#define deque_slot(buffer, position) (&(buffer)->slots[(position) & ((buffer)->capacity - 1)])

/* The number of items between two positions; negative inside the pop of an empty deque. */
static wf_deque_diff items_between(wf_deque_pos top, wf_deque_pos bottom)
{
    return (wf_deque_diff)(wf_deque_pos)(bottom - top);
}

/* Zeroed: a thief with a stale top may read a slot that was never filled, before it loses its
 * CAS. */
static struct wf_deque_buffer *deque_buffer_new(size_t capacity, struct wf_deque_buffer *older)
{
    struct wf_deque_buffer *buffer =
        wf_alloc_zeroed(1, sizeof(*buffer) + capacity * sizeof(buffer->slots[0]));
    if (buffer != NULL) {
        buffer->older = older;
        buffer->capacity = capacity;
    }
    return buffer;
}

int wf_deque_init(struct wf_deque *deque, size_t capacity)
{
    if (!wf_is_power_of_two(capacity) || capacity < WF_DEQUE_CAPACITY_MIN ||
        capacity > WF_DEQUE_CAPACITY_MAX) {
        return -EINVAL;
    }
    struct wf_deque_buffer *buffer = deque_buffer_new(capacity, NULL);
    if (buffer == NULL) {
        return -ENOMEM;
    }
    *deque = (struct wf_deque){0};
    wf_atomic_init(&deque->buffer, buffer);
    return 0;
}

void wf_deque_done(struct wf_deque *deque)
{
    WEFT_ASSERT(wf_deque_count(deque) == 0);
    /* relaxed: no other thread accesses the deque any more. */
    struct wf_deque_buffer *buffer = wf_load_relaxed(&deque->buffer);
    while (buffer != NULL) {
        struct wf_deque_buffer *older = buffer->older;
        wf_free(buffer);
        buffer = older;
    }
    wf_store_relaxed(&deque->buffer, NULL);
}

/* [owner]  Installs a buffer of twice the size with the same items.  NULL: no memory, or at the
 * size limit.  Not inlined: inlined, it made every push save five registers for a rare path. */
static __attribute__((noinline, cold)) struct wf_deque_buffer *
deque_grow(struct wf_deque *deque, struct wf_deque_buffer *old, wf_deque_pos top,
           wf_deque_pos bottom)
{
    if (old->capacity >= WF_DEQUE_CAPACITY_MAX) {
        return NULL;
    }
    struct wf_deque_buffer *buffer = deque_buffer_new(old->capacity * 2, old);
    if (buffer == NULL) {
        return NULL;
    }
    for (wf_deque_pos i = top; i != bottom; i++) {
        /* relaxed: only the owner writes slots; (queue.D2) publishes the copies. */
        wf_atomic_init(deque_slot(buffer, i), wf_load_relaxed(deque_slot(old, i)));
    }
    WF_JITTER();
    /* (queue.D2) release: a thief that sees the buffer sees its size and the copied slots. */
    wf_store_release(&deque->buffer, buffer);
    return buffer;
}

/* [owner]  Returns the newest buffer, with a free slot; NULL: full, and cannot grow. */
static inline struct wf_deque_buffer *deque_reserve(struct wf_deque *deque, wf_deque_pos bottom)
{
    /* relaxed: only the owner writes it. */
    struct wf_deque_buffer *buffer = wf_load_relaxed(&deque->buffer);
    /* acquire: pairs with (queue.D4); a thief has read its slot before the owner refills it.  A
     * stale top only makes the deque seem fuller than it is. */
    wf_deque_pos top = wf_load_acquire(&deque->top);
    if ((size_t)items_between(top, bottom) < buffer->capacity) {
        return buffer;
    }
    return deque_grow(deque, buffer, top, bottom);
}

/* [owner]  A push that does not count as pushed: items that a thief keeps count as stolen. */
static inline __attribute__((always_inline)) int deque_put(struct wf_deque *deque,
                                                           struct wf_node *item)
{
    WEFT_ASSERT(item != NULL);
    wf_deque_pos bottom = wf_load_relaxed(&deque->bottom); /* relaxed: only the owner writes it */
    struct wf_deque_buffer *buffer = deque_reserve(deque, bottom);
    if (buffer == NULL) {
        WF_REACHED("deque.push_refused");
        return -ENOMEM;
    }
    wf_store_relaxed(deque_slot(buffer, bottom), item); /* relaxed: (queue.D1) publishes it */
    WF_JITTER();
    /* (queue.D1) release: a thief that sees this bottom sees the slot and the item's contents. */
    wf_store_release(&deque->bottom, (wf_deque_pos)(bottom + 1));
    return 0;
}

int wf_deque_push(struct wf_deque *deque, struct wf_node *item)
{
    int rc = deque_put(deque, item);
    if (rc == 0) {
        wf_counter_add(&deque->counters.pushed, 1);
    }
    return rc;
}

struct wf_node *wf_deque_pop(struct wf_deque *deque)
{
    wf_deque_pos bottom = wf_load_relaxed(&deque->bottom); /* relaxed: only the owner writes it */
    /* relaxed: top only grows, so a deque that seems empty is empty; saves the fence then. */
    wf_deque_pos top = wf_load_relaxed(&deque->top);
    if (items_between(top, bottom) <= 0) {
        return NULL;
    }
    /* relaxed: only the owner writes it. */
    struct wf_deque_buffer *buffer = wf_load_relaxed(&deque->buffer);
    bottom--;
    /* relaxed: only the owner writes slots.  The load precedes the fence, because a load after the
     * fence would have to wait for it. */
    struct wf_node *item = wf_load_relaxed(deque_slot(buffer, bottom));
    /* (queue.D1) release: a thief may read this bottom instead of the bottom of a push. */
    wf_store_release(&deque->bottom, bottom);
    WF_JITTER();
    /* (queue.D3) Either the thief sees the lowered bottom, or the owner sees the raised top. */
    wf_fence_seq_cst();
    top = wf_load_relaxed(&deque->top);
    wf_deque_diff left = items_between(top, bottom);
    if (left <= 0) {
        /* The last item, or none: thieves compete for it by a CAS of top, and so must the owner.
         * relaxed: the modification order of top decides, and the CAS publishes nothing. */
        bool is_won = left == 0 && wf_cas_relaxed(&deque->top, &top, (wf_deque_pos)(top + 1));
        /* relaxed: the fence above makes it the release that (queue.D1) needs. */
        wf_store_relaxed(&deque->bottom, (wf_deque_pos)(bottom + 1));
        if (!is_won) {
            WF_REACHED("deque.pop_lost_last");
            return NULL;
        }
    }
    wf_counter_add(&deque->counters.popped, 1);
    return item;
}

enum wf_steal wf_deque_steal(struct wf_deque *deque, struct wf_node **out)
{
    wf_deque_pos top = wf_load_relaxed(&deque->top);       /* relaxed: the fence makes it acquire */
    wf_fence_seq_cst();                                    /* (queue.D3) */
    wf_deque_pos bottom = wf_load_acquire(&deque->bottom); /* acquire: pairs with (queue.D1) */
    if (items_between(top, bottom) <= 0) {
        return WF_STEAL_EMPTY;
    }
    /* acquire: pairs with (queue.D2). */
    struct wf_deque_buffer *buffer = wf_load_acquire(&deque->buffer);
    /* relaxed: the load of bottom orders it; the value is stale only if the CAS fails. */
    struct wf_node *item = wf_load_relaxed(deque_slot(buffer, top));
    WF_JITTER();
    /* (queue.D4) release: the thief has read the slot before the owner sees this top and refills
     * it. */
    if (!wf_cas_release(&deque->top, &top, (wf_deque_pos)(top + 1))) {
        WF_REACHED("deque.steal_lost");
        return WF_STEAL_LOST;
    }
    *out = item;
    return WF_STEAL_TAKEN;
}

struct wf_node *wf_deque_steal_half(struct wf_deque *from, struct wf_deque *into)
{
    WEFT_ASSERT(from != into);
    size_t count = wf_deque_count(from);
    struct wf_node *newest = NULL;
    size_t left = count - count / 2;
    while (left > 0) { /* Lock-free: when it gets nothing, another thread has taken an item. */
        /* Reserve first: a stolen item without a free slot would be lost. */
        wf_deque_pos bottom = wf_load_relaxed(&into->bottom); /* relaxed: the thief owns `into` */
        if (newest != NULL && deque_reserve(into, bottom) == NULL) {
            WF_REACHED("deque.steal_half_without_room");
            break;
        }
        struct wf_node *item;
        enum wf_steal result = wf_deque_steal(from, &item);
        if (result == WF_STEAL_EMPTY) {
            break;
        }
        if (result == WF_STEAL_LOST) {
            left -= newest != NULL ? 1 : 0; /* a thief without an item tries again */
            continue;
        }
        left--;
        wf_counter_add(&into->counters.stolen, 1);
        if (newest != NULL) {
            int rc = deque_put(into, newest);
            WEFT_CHECK(rc == 0);
        }
        newest = item;
    }
    return newest;
}

size_t wf_deque_count(struct wf_deque *deque)
{
    wf_deque_pos bottom = wf_load_relaxed(&deque->bottom); /* relaxed, both: a hint */
    wf_deque_pos top = wf_load_relaxed(&deque->top);
    wf_deque_diff count = items_between(top, bottom);
    return count > 0 ? (size_t)count : 0;
}
