/* SPDX-License-Identifier: MIT */
/*
 * queue/deque.c - a worker's growable stack, whose oldest items thieves take one by one.
 *
 * Chase and Lev's deque with the C11 orders of Le et al.: the owner works at `bottom` without a
 * locked instruction but for one fence in pop; thieves compete for `top` by CAS.  Owner and thief
 * can meet only at the last item, where both must win the CAS.
 *
 * Rejected: half the items in one CAS.  The owner pops LIFO without touching `top` as long as two
 * items are left, so it may walk into the half that a thief has read but not yet claimed: the item
 * is then taken twice, and top passes bottom.  One CAS an item re-reads bottom each time.
 * Rejected: freeing a replaced buffer by epochs.  Sizes double, so keeping all costs less than the
 * newest one does, and a steal needs no announcement.
 *
 * Push publishes by a release store of bottom where the paper has a fence; pop's first store of
 * bottom is therefore release too, or a thief that read it would not see what push wrote.
 */
#include <errno.h>

#include "queue/queue.h"

struct wf_deque_buffer {
    struct wf_deque_buffer *older; /* [owner]  the one this replaced; NULL for the first */
    size_t capacity;               /* [const]  a power of two */
    /* [owner: write] [any: read]  Atomic because a thief about to lose its CAS may read a slot
     * that the owner is refilling; the value is then thrown away. */
    WF_ATOMIC(struct wf_node *) slots[];
};

#define slot_at(buffer, position) (&(buffer)->slots[(position) & ((buffer)->capacity - 1)])

/* Items between two positions; negative inside the pop of an empty deque. */
static wf_deque_diff items_between(wf_deque_pos top, wf_deque_pos bottom)
{
    return (wf_deque_diff)(wf_deque_pos)(bottom - top);
}

/* Zeroed: a thief with an outdated top may read a slot that was never filled, and lose its CAS. */
static struct wf_deque_buffer *new_buffer(size_t capacity, struct wf_deque_buffer *older)
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
    struct wf_deque_buffer *buffer = new_buffer(capacity, NULL);
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
    struct wf_deque_buffer *buffer =
        wf_load_relaxed(&deque->buffer); /* relaxed: nobody else left */
    while (buffer != NULL) {
        struct wf_deque_buffer *older = buffer->older;
        wf_free(buffer);
        buffer = older;
    }
    wf_store_relaxed(&deque->buffer, NULL);
}

/* [owner]  Twice the slots, the same items.  NULL: no memory, or at the limit.  Kept out of push:
 * inlined, it made every push save five registers for a path that is hardly ever taken. */
static __attribute__((noinline, cold)) struct wf_deque_buffer *
grow(struct wf_deque *deque, struct wf_deque_buffer *old, wf_deque_pos top, wf_deque_pos bottom)
{
    if (old->capacity >= WF_DEQUE_CAPACITY_MAX) {
        return NULL;
    }
    struct wf_deque_buffer *buffer = new_buffer(old->capacity * 2, old);
    if (buffer == NULL) {
        return NULL;
    }
    for (wf_deque_pos i = top; i != bottom; i++) {
        /* relaxed: our own stores; published by (D2). */
        wf_atomic_init(slot_at(buffer, i), wf_load_relaxed(slot_at(old, i)));
    }
    WF_JITTER();
    /* (D2) release: who sees the buffer sees its size and the copied slots. */
    wf_store_release(&deque->buffer, buffer);
    return buffer;
}

/* [owner]  The buffer with room for one more item; NULL: full and cannot grow. */
static inline struct wf_deque_buffer *with_room(struct wf_deque *deque, wf_deque_pos bottom)
{
    struct wf_deque_buffer *buffer = wf_load_relaxed(&deque->buffer); /* relaxed: ours */
    /* acquire: pairs with the thieves' CAS; they have read their slots before we refill them.  A
     * stale top only makes the deque look fuller than it is. */
    wf_deque_pos top = wf_load_acquire(&deque->top);
    if ((size_t)items_between(top, bottom) < buffer->capacity) {
        return buffer;
    }
    return grow(deque, buffer, top, bottom);
}

/* [owner]  A push that is not counted: what a thief keeps counts as stolen, not as pushed again. */
static inline __attribute__((always_inline)) int put(struct wf_deque *deque, struct wf_node *item)
{
    WEFT_ASSERT(item != NULL);
    wf_deque_pos bottom = wf_load_relaxed(&deque->bottom); /* relaxed: only the owner writes it */
    struct wf_deque_buffer *buffer = with_room(deque, bottom);
    if (buffer == NULL) {
        WF_REACHED("deque.push_refused");
        return -ENOMEM;
    }
    wf_store_relaxed(slot_at(buffer, bottom), item); /* relaxed: published by (D1) */
    WF_JITTER();
    /* (D1) release: who sees this bottom sees the slot and everything in the item. */
    wf_store_release(&deque->bottom, (wf_deque_pos)(bottom + 1));
    return 0;
}

int wf_deque_push(struct wf_deque *deque, struct wf_node *item)
{
    int rc = put(deque, item);
    if (rc == 0) {
        wf_counter_add(&deque->counters.pushed, 1);
    }
    return rc;
}

struct wf_node *wf_deque_pop(struct wf_deque *deque)
{
    wf_deque_pos bottom = wf_load_relaxed(&deque->bottom); /* relaxed: only the owner writes it */
    /* relaxed: top only grows, so what looks empty is empty; saves the fence on an idle worker. */
    wf_deque_pos top = wf_load_relaxed(&deque->top);
    if (items_between(top, bottom) <= 0) {
        return NULL;
    }
    struct wf_deque_buffer *buffer = wf_load_relaxed(&deque->buffer); /* relaxed: ours */
    bottom--;
    /* relaxed: our own store.  Read before the fence, behind which every load would wait. */
    struct wf_node *item = wf_load_relaxed(slot_at(buffer, bottom));
    wf_store_release(&deque->bottom, bottom); /* (D1): a thief may read this bottom instead */
    WF_JITTER();
    /* (D3) either a thief sees the lowered bottom, or we see its raised top. */
    wf_fence_seq_cst();
    top = wf_load_relaxed(&deque->top);
    wf_deque_diff left = items_between(top, bottom);
    if (left <= 0) {
        /* The last item, or none: thieves compete for it at top, so must we.  relaxed: the CAS
         * decides by the one order of top's changes and publishes nothing. */
        bool is_won = left == 0 && wf_cas_relaxed(&deque->top, &top, (wf_deque_pos)(top + 1));
        /* relaxed: behind the fence, which lends it the release that (D1) asks for. */
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
    wf_fence_seq_cst();                                    /* (D3) */
    wf_deque_pos bottom = wf_load_acquire(&deque->bottom); /* pairs with (D1) */
    if (items_between(top, bottom) <= 0) {
        return WF_STEAL_EMPTY;
    }
    struct wf_deque_buffer *buffer = wf_load_acquire(&deque->buffer); /* pairs with (D2) */
    struct wf_node *item = wf_load_relaxed(slot_at(buffer, top)); /* stale only if the CAS fails */
    WF_JITTER();
    /* release: the slot was read before the owner, seeing this top, may refill it. */
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
    while (left > 0) { /* Each turn in which it gets nothing another takes one. */
        /* Room first: an item in hand that fits nowhere would be lost. */
        wf_deque_pos bottom = wf_load_relaxed(&into->bottom); /* relaxed: the thief owns `into` */
        if (newest != NULL && with_room(into, bottom) == NULL) {
            WF_REACHED("deque.steal_half_without_room");
            break;
        }
        struct wf_node *item;
        enum wf_steal result = wf_deque_steal(from, &item);
        if (result == WF_STEAL_EMPTY) {
            break;
        }
        if (result == WF_STEAL_LOST) {
            left -= newest != NULL ? 1 : 0; /* one less for us; but who has none asks again */
            continue;
        }
        left--;
        wf_counter_add(&into->counters.stolen, 1);
        if (newest != NULL) {
            int rc = put(into, newest);
            WEFT_CHECK(rc == 0);
        }
        newest = item;
    }
    return newest;
}

size_t wf_deque_count(struct wf_deque *deque)
{
    wf_deque_pos bottom = wf_load_relaxed(&deque->bottom); /* relaxed: a hint */
    wf_deque_pos top = wf_load_relaxed(&deque->top);
    wf_deque_diff count = items_between(top, bottom);
    return count > 0 ? (size_t)count : 0;
}
