/* SPDX-License-Identifier: MIT */
/*
 * trace/ring.c - the last events of a worker: a wait-free writer, and readers that validate.
 *
 * The owner writes an event to the slot after the newest one and then advances head.  A reader
 *
 *   1 bounds     loads head: the events below it are whole (trace.E1).
 *   2 copies     loads the slots, oldest first, while the owner may overtake it.
 *   3 validates  loads head again, and drops the events more than `events` below it: the owner may
 *                have begun to overwrite their slots.
 *
 * Why this suffices: a torn copy mixes words of event n with words of event n + slots.  When the
 * owner began to write event n + slots, head was n + slots.  Every store to a slot is a release, so
 * a reader that loads one word of the new event sees this head or a later one in step 3 (trace.E2)
 * and drops event n.  So the owner writes nothing but the event and head.  There is one more slot
 * than readable events, so a reader drops nothing from a ring that is not being written.
 *
 * Rejected: a sequence number in each slot, odd during a write and even after it: two more stores
 * for each event, without a use for the reader.  Rejected: acquire and release fences around
 * relaxed words, as in a seqlock: ThreadSanitizer does not support fences (base/atomic.h), and on
 * x86 the acquire and release accesses are free.  Rejected: the CPU's time stamp counter instead of
 * the clock: it needs calibration, and the times of a trace must agree with deadlines, which are on
 * the clock.
 */
#include <errno.h>
#include <string.h>

#include "trace/trace.h"

static uint32_t slot_count(const struct wf_trace_ring *ring)
{
    return ring->events + 1;
}

static uint32_t slot_after(const struct wf_trace_ring *ring, uint32_t slot)
{
    return slot == ring->events ? 0 : slot + 1;
}

/* ---- creating ------------------------------------------------------------------------------ */

static void slot_init(struct wf_trace_slot *slot)
{
    wf_atomic_init(&slot->time_ns, 0);
    wf_atomic_init(&slot->task_id, 0);
    wf_atomic_init(&slot->arg, 0);
    wf_atomic_init(&slot->kind, 0);
}

int wf_trace_ring_new(struct wf_trace_ring **out, uint32_t events, unsigned worker)
{
    if (!wf_is_power_of_two(events) || events < WF_TRACE_EVENTS_MIN ||
        events > WF_TRACE_EVENTS_MAX) {
        return -EINVAL;
    }
    if (worker >= WF_WORKERS_MAX && worker != WF_TRACE_FOREIGN) {
        return -EINVAL;
    }
    struct wf_trace_ring *ring = wf_alloc_aligned(
        WF_CACHE_LINE, sizeof(*ring) + ((size_t)events + 1) * sizeof(ring->slots[0]));
    if (ring == NULL) {
        return -ENOMEM;
    }
    ring->events = events;
    ring->worker = (uint16_t)worker;
    wf_plain_store(&ring->next, 0);
    wf_atomic_init(&ring->head, 0);
    /* This also touches every page: the owner has no page faults between events. */
    for (uint32_t i = 0; i < slot_count(ring); i++) {
        slot_init(&ring->slots[i]);
    }
    *out = ring;
    return 0;
}

void wf_trace_ring_free(struct wf_trace_ring *ring)
{
    wf_free(ring);
}

/* ---- writing ------------------------------------------------------------------------------- */

void wf_trace_put(struct wf_trace_ring *ring, enum wf_trace_event event, uint64_t task_id,
                  uint64_t arg)
{
    const int64_t now_ns = wf_clock_now();
    const uint32_t at = wf_plain_load(&ring->next);
    struct wf_trace_slot *slot = &ring->slots[at];
    uint64_t head = wf_load_relaxed(&ring->head); /* relaxed: only the owner writes it */
    /* (trace.E2) release, each: a reader that loads the word sees this head in step 3. */
    wf_store_release(&slot->time_ns, now_ns);
    WF_JITTER();
    wf_store_release(&slot->task_id, task_id);
    wf_store_release(&slot->arg, arg);
    WF_JITTER();
    wf_store_release(&slot->kind, (uint64_t)event);
    WF_JITTER();
    wf_store_release(&ring->head, head + 1); /* (trace.E1) release: the event is whole. */
    wf_plain_store(&ring->next, slot_after(ring, at));
}

/* ---- reading ------------------------------------------------------------------------------- */

/* acquire, each: pairs with (trace.E2), for the second load of head. */
static void slot_copy(struct wf_trace_slot *slot, struct wf_trace_record *out)
{
    out->time_ns = wf_load_acquire(&slot->time_ns);
    WF_JITTER();
    out->task_id = wf_load_acquire(&slot->task_id);
    out->arg = wf_load_acquire(&slot->arg);
    WF_JITTER();
    out->kind = (uint16_t)wf_load_acquire(&slot->kind);
}

size_t wf_trace_read(struct wf_trace_ring *ring, struct wf_trace_record *out, size_t max)
{
    uint64_t head = wf_load_acquire(&ring->head); /* acquire: pairs with (trace.E1) */
    size_t count = head < ring->events ? (size_t)head : ring->events;
    count = count < max ? count : max;
    uint64_t first = head - count;
    uint32_t slot = (uint32_t)(first % slot_count(ring));
    for (size_t i = 0; i < count; i++) {
        slot_copy(&ring->slots[slot], &out[i]);
        out[i].worker = ring->worker;
        slot = slot_after(ring, slot);
    }
    /* relaxed: it cannot move before the acquire loads of the slots. */
    uint64_t now = wf_load_relaxed(&ring->head);
    /* The oldest event that is certainly whole. */
    uint64_t oldest = now < slot_count(ring) ? 0 : now - ring->events;
    if (oldest <= first) {
        return count;
    }
    WF_REACHED("trace.overtaken");
    size_t lost = oldest - first < count ? (size_t)(oldest - first) : count;
    memmove(out, out + lost, (count - lost) * sizeof(out[0]));
    return count - lost;
}

/* ---- shared -------------------------------------------------------------------------------- */

int wf_trace_shared_init(struct wf_trace_shared *shared, uint32_t events)
{
    struct wf_trace_ring *ring;
    int rc = wf_trace_ring_new(&ring, events, WF_TRACE_FOREIGN);
    if (rc != 0) {
        return rc;
    }
    wf_lock_init(&shared->lock, WF_RANK_TRACE);
    shared->ring = ring;
    return 0;
}

int wf_trace_shared_renew(struct wf_trace_shared *shared, uint32_t events)
{
    struct wf_trace_ring *ring;
    int rc = wf_trace_ring_new(&ring, events, WF_TRACE_FOREIGN);
    if (rc != 0) {
        return rc;
    }
    wf_lock_acquire(&shared->lock);
    struct wf_trace_ring *old = shared->ring;
    shared->ring = ring;
    wf_lock_release(&shared->lock);
    wf_trace_ring_free(old);
    return 0;
}

void wf_trace_shared_done(struct wf_trace_shared *shared)
{
    wf_trace_ring_free(shared->ring);
    shared->ring = NULL;
}

void wf_trace_shared_put(struct wf_trace_shared *shared, enum wf_trace_event event,
                         uint64_t task_id, uint64_t arg)
{
    wf_lock_acquire(&shared->lock);
    wf_trace_put(shared->ring, event, task_id, arg);
    wf_lock_release(&shared->lock);
}
