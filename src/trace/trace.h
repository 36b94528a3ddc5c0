/* SPDX-License-Identifier: MIT */
/*
 * trace/trace.h - records which event happened when on which worker.
 *
 * Promises:      recording into a ring never blocks, never fails and allocates nothing; disabled it
 *                costs one branch.  A reader gets whole events only: it drops an event that the
 *                owner may have overwritten during the copy.
 * Must not know: tasks and workers (it records their numbers), and what a reader makes of an event.
 *
 *   ring    the last events of one worker, the only writer; any thread reads at the same time
 *   shared  one more ring, under a lock, for non-worker threads
 *   log     the events of several rings merged by time, and as text
 *
 * Tags:  [owner] the only thread that writes the ring;  [any] any thread;
 *        [tracer] the caller that starts, stops and collects the trace, one at a time.
 *        Fields: [const] set before publication; [owner: write] [any: read].
 *
 * Edges:
 *
 *   edge      from                          to                        carries
 *   trace.E1  ring.c put: store head        ring.c read: load head    the events below head
 *   trace.E2  ring.c put: store to a slot   ring.c read: load slot    a head that is at least the
 *                                                                     number of the event that is
 *                                                                     being written to the slot
 */
#ifndef WF_TRACE_TRACE_H
#define WF_TRACE_TRACE_H

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "os/os.h"

/* ---- events -------------------------------------------------------------------------------- */

/*
 * The first ten are the life of a task, in its order.  The names appear in a trace.  `arg` is the
 * id of the spawning task for spawn (0: none), the index of the woken worker for notify, the kind
 * of the wait for wait, the index of the victim for steal, and the number of the step, 1 to 9, for
 * step; else it is 0.
 */
/* clang-format off */
#define WF_TRACE_TABLE(X)                                                                          \
    X(WF_TRACE_SPAWN,  "spawn")  /* the task was created */                                        \
    X(WF_TRACE_QUEUE,  "queue")  /* the task was put into a run queue */                           \
    X(WF_TRACE_NOTIFY, "notify") /* a parked worker was woken for it */                            \
    X(WF_TRACE_FIND,   "find")   /* a worker took the task from a queue */                         \
    X(WF_TRACE_ENTER,  "enter")  /* the task begins a slice */                                     \
    X(WF_TRACE_WAIT,   "wait")   /* the task begins to suspend */                                  \
    X(WF_TRACE_COMMIT, "commit") /* the task is suspended: any worker may resume it */             \
    X(WF_TRACE_WAKE,   "wake")   /* the task was woken */                                          \
    X(WF_TRACE_FINISH, "finish") /* the task's function returned */                                \
    X(WF_TRACE_FREE,   "free")   /* the task's memory was freed */                                 \
    X(WF_TRACE_STEAL,  "steal")  /* a worker stole from another one */                             \
    X(WF_TRACE_PARK,   "park")   /* a worker parks */                                              \
    X(WF_TRACE_UNPARK, "unpark") /* a worker returns from park */                                  \
    X(WF_TRACE_YIELD,  "yield")  /* the task yielded */                                            \
    X(WF_TRACE_CANCEL, "cancel") /* the task was cancelled */                                      \
    X(WF_TRACE_BLOCK,  "block")  /* the task's job goes to a thread of the blocking pool */        \
    X(WF_TRACE_UNBLOCK, "unblock") /* that job has returned */                                     \
    X(WF_TRACE_STEP,   "step")   /* a step of the control thread's loop */
/* clang-format on */

enum wf_trace_event {
#define WF_TRACE_ENUM(event, name) event,
    WF_TRACE_TABLE(WF_TRACE_ENUM)
#undef WF_TRACE_ENUM
        WF_TRACE_EVENT_COUNT
};

/* [any]  The name in the table; "?" for an unknown event. */
const char *wf_trace_event_name(enum wf_trace_event event);

/* The worker number of a non-worker thread. */
#define WF_TRACE_FOREIGN UINT16_MAX

/* A copy of an event, for a reader. */
struct wf_trace_record {
    int64_t time_ns;  /* on the clock of wf_clock_now */
    uint64_t task_id; /* 0: none */
    uint64_t arg;     /* see WF_TRACE_TABLE */
    uint16_t kind;    /* enum wf_trace_event */
    uint16_t worker;  /* its index, or WF_TRACE_FOREIGN */
};

/* ---- ring ---------------------------------------------------------------------------------- */

/* [owner: write] [any: read]  An event in a ring. */
struct wf_trace_slot {
    WF_ATOMIC(int64_t) time_ns;
    WF_ATOMIC(uint64_t) task_id;
    WF_ATOMIC(uint64_t) arg;
    WF_ATOMIC(uint64_t) kind;
};

/*
 * Invariants:
 *   I1  event number n, counted from 0, is in slot n mod (events + 1)
 *   I2  the events [head - events, head) are whole; the owner may be writing event number `head` to
 *       the remaining slot
 */
struct wf_trace_ring {
    uint32_t events;          /* [const]  events that can be read; there is one more slot */
    uint16_t worker;          /* [const]  index, or WF_TRACE_FOREIGN */
    uint32_t next;            /* [owner]  the slot of event number `head` */
    WF_ATOMIC(uint64_t) head; /* [owner: write] [any: read]  events written since the start */
    alignas(WF_CACHE_LINE) struct wf_trace_slot slots[];
};

/* [any]  Creates a ring for the last `events` events of worker `worker`.  -EINVAL: `events` is not
 * a power of two within WF_TRACE_EVENTS_MIN .. WF_TRACE_EVENTS_MAX, or `worker` is neither an index
 * nor WF_TRACE_FOREIGN; -ENOMEM. */
int wf_trace_ring_new(struct wf_trace_ring **out, uint32_t events, unsigned worker);
/* [any]  The ring must have neither writer nor reader.  NULL is allowed. */
void wf_trace_ring_free(struct wf_trace_ring *ring);

/* [owner]  Records an event with the current time; a full ring loses its oldest event. */
void wf_trace_put(struct wf_trace_ring *ring, enum wf_trace_event event, uint64_t task_id,
                  uint64_t arg);

/* [owner]  wf_trace_put, unless tracing is disabled: `ring` is NULL.  A macro, so that the
 * arguments are not evaluated then: a task's id is in a cache line that a switch does not need. */
#define wf_trace(ring, event, task_id, arg)                                                        \
    do {                                                                                           \
        struct wf_trace_ring *const ring_ = (ring);                                                \
        if (__builtin_expect(ring_ != NULL, 0)) {                                                  \
            wf_trace_put(ring_, (event), (task_id), (arg));                                        \
        }                                                                                          \
    } while (0)

/* [any]  Copies up to `max` of the newest events to `out`, oldest first, without a gap; returns
 * their number.  Leaves out the oldest events if the owner overwrites them during the copy. */
size_t wf_trace_read(struct wf_trace_ring *ring, struct wf_trace_record *out, size_t max);

/* ---- shared -------------------------------------------------------------------------------- */

/* The ring of all non-worker threads.  The writer reads the clock under the lock, so the events are
 * in the order of their times here too. */
struct wf_trace_shared {
    struct wf_lock lock;
    struct wf_trace_ring *ring; /* [lock: write] [tracer: read]  [owner]: the lock's holder */
};

/* [tracer]  Creates the ring.  Errors as wf_trace_ring_new. */
int wf_trace_shared_init(struct wf_trace_shared *shared, uint32_t events);
/* [tracer]  Replaces the ring by an empty one of `events` events.  Other threads may write at the
 * same time; none may read.  Errors as wf_trace_ring_new: the old ring stays. */
int wf_trace_shared_renew(struct wf_trace_shared *shared, uint32_t events);
/* [tracer]  Frees the ring, which must have neither writers nor readers. */
void wf_trace_shared_done(struct wf_trace_shared *shared);

/* [any]  Records an event.  May be called under any lock: WF_RANK_TRACE is the highest rank. */
void wf_trace_shared_put(struct wf_trace_shared *shared, enum wf_trace_event event,
                         uint64_t task_id, uint64_t arg);

/* [any]  wf_trace_shared_put, unless tracing is disabled: `shared` is NULL. */
static inline void wf_trace_shared(struct wf_trace_shared *shared, enum wf_trace_event event,
                                   uint64_t task_id, uint64_t arg)
{
    if (__builtin_expect(shared != NULL, 0)) {
        wf_trace_shared_put(shared, event, task_id, arg);
    }
}

/* ---- log ----------------------------------------------------------------------------------- */

/* [any]  Merges the events of the rings by time.  Events of equal time are in the order of their
 * rings, events of one ring in their own order.  A ring may be NULL.  *out gets *out_count records;
 * the caller frees it by wf_free.  -ENOMEM: both are untouched. */
int wf_trace_collect(struct wf_trace_ring *const *rings, size_t count, struct wf_trace_record **out,
                     size_t *out_count);

/* [any]  Writes one line for each event: nanoseconds since the first event, worker ("-": none),
 * event, task id and arg, separated by spaces.  Returns 0 or the error of wf_file_write. */
int wf_trace_write(int fd, const struct wf_trace_record *records, size_t count);

#endif
