/* SPDX-License-Identifier: MIT */
/*
 * queue/ring.c - a worker's bounded FIFO, from which a thief takes half in one claim.
 *
 * The idea is Tokio's: head packs two positions into one cell, so that one CAS updates both the
 * next item that the owner pops (`real`) and the limit for refilling slots (`steal`).  A steal has
 * three steps:
 *
 *   1 claim    CAS head: real += n.  The thief owns the items now: the owner does not refill their
 *              slots, and no second thief begins while steal != real.
 *   2 copy     Plain reads: the owner refills only slots below steal + capacity.
 *   3 release  CAS head: steal = real, where real includes what the owner has popped meanwhile.
 *
 * The owner works with a private copy of head (`known`).  Its push finds a free slot without
 * reading a cell that thieves write, and its pop passes the copy to the CAS.  A load of head would
 * wait for the locked instruction that wrote it, and the CAS would wait for the load: 2 to 4 ns of
 * a push and pop of 12 to 15.  If the copy is stale, the CAS fails or the ring seems full, and only
 * then the owner reloads head.
 *
 * Rejected: a pop that adds one to both positions by fetch-add and repairs the result if a steal is
 * in progress or the ring is empty: measured, no faster than the CAS with the known head.
 * Rejected: exchanged roles (the thief advances `steal`, and aborts if the owner has popped
 * meanwhile): owner and thief would own the same slots, or a busy owner would defeat every steal.
 * Rejected: 16-bit positions.  A thief that sleeps while 65,536 items pass would find its old head
 * value again and claim other slots than it has counted (ABA); with 32 bits it takes four billion.
 */
#include "queue/queue.h"

static wf_ring_pair pair(wf_ring_pos steal, wf_ring_pos real)
{
    return (wf_ring_pair)((wf_ring_pair)((wf_ring_pair)steal << WF_RING_POS_BITS) | real);
}

static wf_ring_pos steal_of(wf_ring_pair head)
{
    return (wf_ring_pos)(head >> WF_RING_POS_BITS);
}

static wf_ring_pos real_of(wf_ring_pair head)
{
    return (wf_ring_pos)head;
}

/* Positions wrap: their distance is correct only in their own width. */
static wf_ring_pos distance(wf_ring_pos from, wf_ring_pos to)
{
    return (wf_ring_pos)(to - from);
}

static struct wf_node **ring_slot(struct wf_ring *ring, wf_ring_pos position)
{
    return &ring->slots[position % WF_RING_CAPACITY];
}

void wf_ring_init(struct wf_ring *ring)
{
    *ring = (struct wf_ring){0};
}

/* [owner]  Loads head, and keeps it as the known head. */
static wf_ring_pair ring_refresh_head(struct wf_ring *ring)
{
    /* acquire: pairs with (queue.R2): the thief has read its slots before they are refilled. */
    wf_ring_pair head = wf_load_acquire(&ring->head);
    wf_plain_store(&ring->known, head);
    return head;
}

/* [owner]  Removes the `count` oldest items by one CAS.  `head` shows that many items and no steal
 * in progress.  False: a thief came first. */
static bool ring_take_oldest(struct wf_ring *ring, wf_ring_pair head, wf_ring_pos count,
                             struct wf_chain *batch)
{
    wf_ring_pos first = real_of(head);
    wf_ring_pos next = (wf_ring_pos)(first + count);
    /* (queue.R3) release: a thief that sees this head sees a tail at or past it. */
    if (!wf_cas_release(&ring->head, &head, pair(next, next))) {
        WF_REACHED("ring.overflow_lost_to_thief");
        return false;
    }
    wf_plain_store(&ring->known, pair(next, next));
    for (wf_ring_pos i = 0; i < count; i++) {
        wf_chain_push(batch, wf_plain_load(ring_slot(ring, (wf_ring_pos)(first + i))));
    }
    wf_counter_add(&ring->counters.overflowed, count);
    return true;
}

/* [owner]  Frees slots of a ring that is full according to `known`.  False: a thief is still
 * copying from these slots.  The owner does not wait: the thief may be preempted. */
static bool ring_free_slots(struct wf_ring *ring, wf_ring_pos tail, wf_overflow_fn overflow,
                            void *context)
{
    for (;;) { /* Ends: a failed CAS means that a thief has claimed items and is now active. */
        wf_ring_pair head = ring_refresh_head(ring);
        if (distance(steal_of(head), tail) < WF_RING_CAPACITY) {
            return true;
        }
        if (steal_of(head) != real_of(head)) {
            return false;
        }
        struct wf_chain batch = {0};
        if (ring_take_oldest(ring, head, WF_RING_CAPACITY / 2, &batch)) {
            overflow(context, &batch);
            return true;
        }
    }
}

/* [owner]  Writes `item` to the free slot at `tail`, and publishes it. */
static void ring_put(struct wf_ring *ring, wf_ring_pos tail, struct wf_node *item)
{
    wf_plain_store(ring_slot(ring, tail), item);
    WF_JITTER();
    /* (queue.R1) release: a thief that sees this tail sees the slot and the item's contents. */
    wf_store_release(&ring->tail, (wf_ring_pos)(tail + 1));
}

/* [owner]  The slow path of push: the ring is full by the known head.  Not inlined, so that the
 * fast path stores no registers to the stack: the locked instruction of the next pop would wait for
 * such stores. */
static __attribute__((noinline, cold)) void push_slow(struct wf_ring *ring, struct wf_node *item,
                                                      wf_overflow_fn overflow, void *context)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    if (ring_free_slots(ring, tail, overflow, context)) {
        ring_put(ring, tail, item);
        return;
    }
    WF_REACHED("ring.full_while_stolen_from");
    struct wf_chain batch = {0};
    wf_chain_push(&batch, item);
    wf_counter_add(&ring->counters.overflowed, 1);
    overflow(context, &batch);
}

void wf_ring_push(struct wf_ring *ring, struct wf_node *item, wf_overflow_fn overflow,
                  void *context)
{
    WEFT_ASSERT(item != NULL);
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    wf_counter_add(&ring->counters.pushed, 1);
    if (distance(steal_of(wf_plain_load(&ring->known)), tail) < WF_RING_CAPACITY) {
        ring_put(ring, tail, item);
    } else {
        push_slow(ring, item, overflow, context);
    }
}

bool wf_ring_try_push(struct wf_ring *ring, struct wf_node *item)
{
    WEFT_ASSERT(item != NULL);
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    if (distance(steal_of(wf_plain_load(&ring->known)), tail) >= WF_RING_CAPACITY &&
        distance(steal_of(ring_refresh_head(ring)), tail) >= WF_RING_CAPACITY) {
        return false;
    }
    wf_counter_add(&ring->counters.pushed, 1);
    ring_put(ring, tail, item);
    return true;
}

bool wf_ring_push_biased(struct wf_ring *ring, struct wf_node *item)
{
    WEFT_ASSERT(item != NULL);
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    wf_ring_pos real = real_of(wf_plain_load(&ring->known));
    WEFT_ASSERT(wf_load_relaxed(&ring->head) == pair(real, real)); /* no steal in progress */
    wf_ring_pos count = distance(real, tail);
    if (count == 0 || count == WF_RING_CAPACITY) {
        return false;
    }
    wf_counter_add(&ring->counters.pushed, 1);
    ring_put(ring, tail, item);
    return true;
}

size_t wf_ring_take_all(struct wf_ring *ring, struct wf_chain *out)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    wf_ring_pair head = ring_refresh_head(ring);
    wf_ring_pos count = distance(real_of(head), tail);
    if (steal_of(head) != real_of(head) || count == 0 ||
        !ring_take_oldest(ring, head, count, out)) {
        return 0;
    }
    return count;
}

size_t wf_ring_free_count(struct wf_ring *ring)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    return WF_RING_CAPACITY - distance(steal_of(ring_refresh_head(ring)), tail);
}

size_t wf_ring_push_chain(struct wf_ring *ring, struct wf_chain *chain)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    size_t free_count = wf_ring_free_count(ring);
    size_t taken = 0;
    while (taken < free_count && chain->first != NULL) {
        wf_plain_store(ring_slot(ring, (wf_ring_pos)(tail + taken)), wf_chain_pop(chain));
        taken++;
    }
    if (taken > 0) {
        wf_counter_add(&ring->counters.pushed, taken);
        wf_store_release(&ring->tail, (wf_ring_pos)(tail + taken)); /* (queue.R1) release */
    }
    return taken;
}

struct wf_node *wf_ring_pop(struct wf_ring *ring)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    wf_ring_pair head = wf_plain_load(&ring->known);
    for (;;) { /* Ends: a failed CAS means that a thief has claimed or released, which is finite. */
        wf_ring_pos real = real_of(head);
        if (real == tail) {
            return NULL;
        }
        wf_ring_pos next = (wf_ring_pos)(real + 1);
        bool is_stolen_from = steal_of(head) != real;
        WEFT_ASSERT(!is_stolen_from || steal_of(head) != next); /* I1 */
        wf_ring_pair popped = pair(is_stolen_from ? steal_of(head) : next, next);
        WF_JITTER();
        /* (queue.R3) release: a thief that sees this head sees a tail at or past it. */
        if (wf_cas_release(&ring->head, &head, popped)) {
            wf_plain_store(&ring->known, popped);
            wf_counter_add(&ring->counters.popped, 1);
            return wf_plain_load(ring_slot(ring, real));
        }
        WF_REACHED("ring.pop_met_thief");
        head = ring_refresh_head(ring);
    }
}

void wf_ring_refresh(struct wf_ring *ring)
{
    (void)ring_refresh_head(ring);
}

struct wf_node *wf_ring_pop_biased(struct wf_ring *ring)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    wf_ring_pos real = real_of(wf_plain_load(&ring->known));
    WEFT_ASSERT(wf_load_relaxed(&ring->head) == pair(real, real)); /* no steal in progress */
    if (real == tail) {
        return NULL;
    }
    wf_ring_pos next = (wf_ring_pos)(real + 1);
    wf_store_release(&ring->head, pair(next, next)); /* (queue.R3) release */
    wf_plain_store(&ring->known, pair(next, next));
    wf_counter_add(&ring->counters.popped, 1);
    return wf_plain_load(ring_slot(ring, real));
}

struct wf_node *wf_ring_peek_biased(struct wf_ring *ring, wf_ring_pos ahead)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    wf_ring_pos real = real_of(wf_plain_load(&ring->known));
    return ahead < distance(real, tail)
               ? wf_plain_load(ring_slot(ring, (wf_ring_pos)(real + ahead)))
               : NULL;
}

/* [thief]  Step 1: claims up to `max` items from *first on, and returns how many; 0: `from` is
 * empty, or another steal is in progress. */
static wf_ring_pos ring_claim(struct wf_ring *from, wf_ring_pos max, wf_ring_pos *first)
{
    wf_ring_pair head = wf_load_acquire(&from->head); /* acquire: pairs with (queue.R3) */
    for (;;) { /* Lock-free: a failed CAS means that the owner popped or another thief claimed. */
        wf_ring_pos real = real_of(head);
        if (steal_of(head) != real) {
            WF_REACHED("ring.second_thief_turned_away");
            return 0; /* I3 */
        }
        /* acquire: pairs with (queue.R1): the slots below tail are filled. */
        wf_ring_pos tail = wf_load_acquire(&from->tail);
        wf_ring_pos available = distance(real, tail); /* garbage if head is stale: the CAS fails */
        wf_ring_pos count = (wf_ring_pos)(available - available / 2);
        count = count < max ? count : max;
        if (count == 0) {
            return 0;
        }
        WF_JITTER();
        /* acquire on failure: pairs with (queue.R3).  On success it publishes nothing: until step 3
         * other thieves see steal != real and leave before they load the tail. */
        if (wf_cas_acquire_both(&from->head, &head, pair(real, (wf_ring_pos)(real + count)))) {
            WEFT_CHECK(available <= WF_RING_CAPACITY); /* I1 */
            *first = real;
            return count;
        }
        WF_REACHED("ring.claim_lost");
    }
}

/* [thief]  Step 3. */
static void ring_release(struct wf_ring *from)
{
    wf_ring_pair head = wf_load_relaxed(&from->head); /* relaxed: the CAS validates it */
    wf_ring_pos real;
    do { /* Ends: a failed CAS means that the owner popped, at most once for each of its items. */
        real = real_of(head);
        WF_JITTER();
        /* (queue.R2) release: the thief has read the slots before the owner refills them.
         * (queue.R3) release: another thief that sees this head sees a tail at or past it. */
    } while (!wf_cas_release(&from->head, &head, pair(real, real)));
}

struct wf_node *wf_ring_steal(struct wf_ring *from, struct wf_ring *into)
{
    return wf_ring_steal_some(from, into, WF_RING_CAPACITY);
}

struct wf_node *wf_ring_steal_some(struct wf_ring *from, struct wf_ring *into, size_t most)
{
    WEFT_ASSERT(from != into);
    wf_ring_pos tail = wf_load_relaxed(&into->tail); /* relaxed: the thief owns `into` */
    wf_ring_pos free_count =
        (wf_ring_pos)(WF_RING_CAPACITY - distance(steal_of(ring_refresh_head(into)), tail));
    /* One more than fits: the thief runs the newest at once. */
    wf_ring_pos max = free_count < most ? (wf_ring_pos)(free_count + 1) : (wf_ring_pos)most;
    wf_ring_pos first;
    wf_ring_pos count = ring_claim(from, max, &first);
    if (count == 0) {
        return NULL;
    }
    for (wf_ring_pos i = 0; i + 1 < count; i++) {
        wf_plain_store(ring_slot(into, (wf_ring_pos)(tail + i)),
                       wf_plain_load(ring_slot(from, (wf_ring_pos)(first + i))));
        WF_JITTER();
    }
    wf_ring_pos kept = (wf_ring_pos)(count - 1);
    struct wf_node *newest = wf_plain_load(ring_slot(from, (wf_ring_pos)(first + kept)));
    ring_release(from);
    if (kept > 0) {
        wf_store_release(&into->tail, (wf_ring_pos)(tail + kept)); /* (queue.R1) release */
    }
    wf_counter_add(&into->counters.stolen, count);
    return newest;
}

struct wf_node *wf_ring_steal_one(struct wf_ring *from)
{
    wf_ring_pos first;
    if (ring_claim(from, 1, &first) == 0) {
        return NULL;
    }
    struct wf_node *oldest = wf_plain_load(ring_slot(from, first));
    ring_release(from);
    return oldest;
}

size_t wf_ring_count(struct wf_ring *ring)
{
    /* Head before tail.  In the other order the owner could push one item and pop one in between,
     * and a ring that was never empty would seem empty.  acquire: pairs with (queue.R3), and keeps
     * the order.  relaxed: a hint otherwise. */
    wf_ring_pos real = real_of(wf_load_acquire(&ring->head));
    wf_ring_pos tail = wf_load_relaxed(&ring->tail);
    wf_ring_pos count = distance(real, tail);
    return count <= WF_RING_CAPACITY ? count : WF_RING_CAPACITY;
}
