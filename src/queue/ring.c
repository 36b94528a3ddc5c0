/* SPDX-License-Identifier: MIT */
/*
 * queue/ring.c - a worker's bounded FIFO, from which a thief takes half in one claim.
 *
 * The idea is Tokio's: head packs two positions in one cell, so that one compare-and-exchange says
 * both where the owner pops next (`real`) and how far slots may be refilled (`steal`).  A steal is
 *
 *   1 claim    CAS head: real += n.  The items are the thief's from here on; nobody can take the
 *              slots away, and while steal != real no second thief begins.
 *   2 copy     plain reads, undisturbed: the owner refills only below steal + capacity.
 *   3 release  CAS head: steal = real, whatever the owner popped meanwhile.
 *
 * The owner keeps a copy of the head it knows and goes by that: its push finds room without a look
 * at a cell that thieves write, and its pop compares with a value at hand.  A load of the head
 * would wait for the locked instruction that wrote it, and the compare-and-exchange for the load: 2
 * to 4 ns of a push and pop of 12 to 15.  When the copy is old, the compare-and-exchange fails or
 * the ring seems full, and only then the owner looks.
 *
 * Rejected: a pop that adds one to both positions at once and mends afterwards what a thief at work
 * or an empty ring made of it: no faster, measured, than to compare with what is known.
 * Rejected: the roles the other way round (a thief advances `steal`, gives up when the owner popped
 * meanwhile): owner and thief would hold the same slots, or a busy owner would defeat every steal.
 * Rejected: 16-bit positions.  A thief that sleeps while 65,536 items pass would find its head
 * value again and claim slots that are not what it counted; 32 bits make that four billion.
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

/* Positions wrap: their distance is right only in their own width. */
static wf_ring_pos distance(wf_ring_pos from, wf_ring_pos to)
{
    return (wf_ring_pos)(to - from);
}

static struct wf_node **slot_at(struct wf_ring *ring, wf_ring_pos position)
{
    return &ring->slots[position % WF_RING_CAPACITY];
}

void wf_ring_init(struct wf_ring *ring)
{
    *ring = (struct wf_ring){0};
}

/* [owner]  The head as it is now; known from here on. */
static wf_ring_pair look(struct wf_ring *ring)
{
    /* acquire: pairs with (R2).  The thief's reads of its slots come before our refill. */
    wf_ring_pair head = wf_load_acquire(&ring->head);
    wf_plain_store(&ring->known, head);
    return head;
}

/* [owner]  Takes the oldest out at one stroke; so many are there, and no thief is at work.  False:
 * one came in between. */
static bool take_oldest(struct wf_ring *ring, wf_ring_pair head, wf_ring_pos count,
                        struct wf_chain *batch)
{
    wf_ring_pos first = real_of(head);
    wf_ring_pos next = (wf_ring_pos)(first + count);
    /* (R3) release: who sees this head sees a tail at or past it. */
    if (!wf_cas_release(&ring->head, &head, pair(next, next))) {
        WF_REACHED("ring.overflow_lost_to_thief");
        return false;
    }
    wf_plain_store(&ring->known, pair(next, next));
    for (wf_ring_pos i = 0; i < count; i++) {
        wf_chain_push(batch, wf_plain_load(slot_at(ring, (wf_ring_pos)(first + i))));
    }
    wf_counter_add(&ring->counters.overflowed, count);
    return true;
}

/* [owner]  Makes room in a ring that looked full.  False: a thief holds the room until it has
 * copied; waiting for it would block the owner on a thread that may not be running. */
static bool make_room(struct wf_ring *ring, wf_ring_pos tail, wf_overflow_fn overflow,
                      void *context)
{
    for (;;) { /* Each lost CAS means that a thief claimed items; it ends when one is at work. */
        wf_ring_pair head = look(ring);
        if (distance(steal_of(head), tail) < WF_RING_CAPACITY) {
            return true;
        }
        if (steal_of(head) != real_of(head)) {
            return false;
        }
        struct wf_chain batch = {0};
        if (take_oldest(ring, head, WF_RING_CAPACITY / 2, &batch)) {
            overflow(context, &batch);
            return true;
        }
    }
}

/* [owner]  There is room. */
static void put(struct wf_ring *ring, wf_ring_pos tail, struct wf_node *item)
{
    wf_plain_store(slot_at(ring, tail), item);
    WF_JITTER();
    /* (R1) release: who sees this tail sees the slot and everything in the item. */
    wf_store_release(&ring->tail, (wf_ring_pos)(tail + 1));
}

/* [owner]  By what was known the ring is full.  Apart, so that a push with room saves no registers
 * for what it does not do: a pop's locked instruction waits for these stores too. */
static __attribute__((noinline, cold)) void push_full(struct wf_ring *ring, struct wf_node *item,
                                                      wf_overflow_fn overflow, void *context)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    if (make_room(ring, tail, overflow, context)) {
        put(ring, tail, item);
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
        put(ring, tail, item);
    } else {
        push_full(ring, item, overflow, context);
    }
}

bool wf_ring_try_push(struct wf_ring *ring, struct wf_node *item)
{
    WEFT_ASSERT(item != NULL);
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    if (distance(steal_of(wf_plain_load(&ring->known)), tail) >= WF_RING_CAPACITY &&
        distance(steal_of(look(ring)), tail) >= WF_RING_CAPACITY) {
        return false;
    }
    wf_counter_add(&ring->counters.pushed, 1);
    put(ring, tail, item);
    return true;
}

bool wf_ring_push_behind(struct wf_ring *ring, struct wf_node *item)
{
    WEFT_ASSERT(item != NULL);
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    wf_ring_pos real = real_of(wf_plain_load(&ring->known));
    WEFT_ASSERT(wf_load_relaxed(&ring->head) == pair(real, real)); /* nobody steals */
    wf_ring_pos count = distance(real, tail);
    if (count == 0 || count == WF_RING_CAPACITY) {
        return false;
    }
    wf_counter_add(&ring->counters.pushed, 1);
    put(ring, tail, item);
    return true;
}

size_t wf_ring_take_all(struct wf_ring *ring, struct wf_chain *out)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    wf_ring_pair head = look(ring);
    wf_ring_pos count = distance(real_of(head), tail);
    if (steal_of(head) != real_of(head) || count == 0 || !take_oldest(ring, head, count, out)) {
        return 0;
    }
    return count;
}

size_t wf_ring_room(struct wf_ring *ring)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    return WF_RING_CAPACITY - distance(steal_of(look(ring)), tail);
}

size_t wf_ring_push_chain(struct wf_ring *ring, struct wf_chain *chain)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    size_t room = wf_ring_room(ring);
    size_t taken = 0;
    while (taken < room && chain->first != NULL) {
        wf_plain_store(slot_at(ring, (wf_ring_pos)(tail + taken)), wf_chain_pop(chain));
        taken++;
    }
    if (taken > 0) {
        wf_counter_add(&ring->counters.pushed, taken);
        wf_store_release(&ring->tail, (wf_ring_pos)(tail + taken)); /* (R1) */
    }
    return taken;
}

struct wf_node *wf_ring_pop(struct wf_ring *ring)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    wf_ring_pair head = wf_plain_load(&ring->known);
    for (;;) { /* A lost CAS means that a thief claimed or released; there are finitely many. */
        wf_ring_pos real = real_of(head);
        if (real == tail) {
            return NULL;
        }
        wf_ring_pos next = (wf_ring_pos)(real + 1);
        bool is_stolen_from = steal_of(head) != real;
        WEFT_ASSERT(!is_stolen_from || steal_of(head) != next); /* I1 */
        wf_ring_pair popped = pair(is_stolen_from ? steal_of(head) : next, next);
        WF_JITTER();
        /* (R3) release: who sees this head sees a tail at or past it. */
        if (wf_cas_release(&ring->head, &head, popped)) {
            wf_plain_store(&ring->known, popped);
            wf_counter_add(&ring->counters.popped, 1);
            return wf_plain_load(slot_at(ring, real));
        }
        WF_REACHED("ring.pop_met_thief");
        head = look(ring);
    }
}

void wf_ring_settle(struct wf_ring *ring)
{
    (void)look(ring);
}

struct wf_node *wf_ring_pop_alone(struct wf_ring *ring)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    wf_ring_pos real = real_of(wf_plain_load(&ring->known));
    WEFT_ASSERT(wf_load_relaxed(&ring->head) == pair(real, real)); /* nobody steals */
    if (real == tail) {
        return NULL;
    }
    wf_ring_pos next = (wf_ring_pos)(real + 1);
    wf_store_release(&ring->head, pair(next, next)); /* (R3) */
    wf_plain_store(&ring->known, pair(next, next));
    wf_counter_add(&ring->counters.popped, 1);
    return wf_plain_load(slot_at(ring, real));
}

struct wf_node *wf_ring_peek_alone(struct wf_ring *ring, wf_ring_pos ahead)
{
    wf_ring_pos tail = wf_load_relaxed(&ring->tail); /* relaxed: only the owner writes it */
    wf_ring_pos real = real_of(wf_plain_load(&ring->known));
    return ahead < distance(real, tail) ? wf_plain_load(slot_at(ring, (wf_ring_pos)(real + ahead)))
                                        : NULL;
}

/* [thief]  Step 1.  Gives how many items were claimed, from *first on; 0: none to be had. */
static wf_ring_pos claim(struct wf_ring *from, wf_ring_pos room, wf_ring_pos *first)
{
    wf_ring_pair head = wf_load_acquire(&from->head); /* pairs with (R3) */
    for (;;) { /* A lost CAS means that the owner popped or another thief claimed. */
        wf_ring_pos real = real_of(head);
        if (steal_of(head) != real) {
            WF_REACHED("ring.second_thief_turned_away");
            return 0; /* I3 */
        }
        /* acquire: pairs with (R1); the slots below tail are filled. */
        wf_ring_pos tail = wf_load_acquire(&from->tail);
        wf_ring_pos available = distance(real, tail); /* nonsense if head has moved on: CAS fails */
        wf_ring_pos count = (wf_ring_pos)(available - available / 2);
        count = count < room ? count : room;
        if (count == 0) {
            return 0;
        }
        WF_JITTER();
        /* acquire on failure, pairs with (R3).  On success nothing is published: until the release
         * below, other thieves turn away at steal != real before they look at the tail. */
        if (wf_cas_acquire_both(&from->head, &head, pair(real, (wf_ring_pos)(real + count)))) {
            WEFT_CHECK(available <= WF_RING_CAPACITY); /* I1 */
            *first = real;
            return count;
        }
        WF_REACHED("ring.claim_lost");
    }
}

/* [thief]  Step 3. */
static void release(struct wf_ring *from)
{
    wf_ring_pair head = wf_load_relaxed(&from->head); /* relaxed: the CAS compares it anyway */
    wf_ring_pos real;
    do { /* A lost CAS means that the owner popped: at most as often as it has items. */
        real = real_of(head);
        WF_JITTER();
        /* (R2) release: the slots were read before the owner may refill them. */
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
    wf_ring_pos room = (wf_ring_pos)(WF_RING_CAPACITY - distance(steal_of(look(into)), tail));
    wf_ring_pos first;
    wf_ring_pos count =
        claim(from, room < most ? (wf_ring_pos)(room + 1) : (wf_ring_pos)most, &first);
    if (count == 0) {
        return NULL;
    }
    for (wf_ring_pos i = 0; i + 1 < count; i++) {
        wf_plain_store(slot_at(into, (wf_ring_pos)(tail + i)),
                       wf_plain_load(slot_at(from, (wf_ring_pos)(first + i))));
        WF_JITTER();
    }
    wf_ring_pos kept = (wf_ring_pos)(count - 1);
    struct wf_node *newest = wf_plain_load(slot_at(from, (wf_ring_pos)(first + kept)));
    release(from);
    if (kept > 0) {
        wf_store_release(&into->tail, (wf_ring_pos)(tail + kept)); /* (R1) */
    }
    wf_counter_add(&into->counters.stolen, count);
    return newest;
}

struct wf_node *wf_ring_steal_one(struct wf_ring *from)
{
    wf_ring_pos first;
    if (claim(from, 1, &first) == 0) {
        return NULL;
    }
    struct wf_node *oldest = wf_plain_load(slot_at(from, first));
    release(from);
    return oldest;
}

size_t wf_ring_count(struct wf_ring *ring)
{
    /* Of a queue that moves: the head first, (R3) acquire.  The other way round the owner could put
     * one in and take one out in between, and a ring that was never empty would seem so. */
    wf_ring_pos real = real_of(wf_load_acquire(&ring->head));
    wf_ring_pos tail = wf_load_relaxed(&ring->tail);
    wf_ring_pos count = distance(real, tail);
    return count <= WF_RING_CAPACITY ? count : WF_RING_CAPACITY;
}
