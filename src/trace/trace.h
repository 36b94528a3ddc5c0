/* SPDX-License-Identifier: MIT */
/*
 * trace/trace.h - what happened, when, on which worker: recording only.
 *
 * Promises:      recording never waits, never fails and allocates nothing; switched off it costs
 * one branch.  What is read back is whole: an event that was overwritten while it was copied is
 * left out, never shown half. Must not know: tasks (it records their numbers), workers (theirs
 * too), what an event means to whoever reads it.
 *
 *   ring    the last events of one worker, which alone writes; anybody reads meanwhile.
 *   shared  one ring more, under a lock, for the threads that are no worker.
 *   log     the events of several rings in the order of their times, and as text.
 *
 * Tags:  [owner] the one thread that writes a ring;  [any] any thread.
 *        Fields: [const] set before publication; [owner: write] [any: read].
 *
 * Who synchronises with whom (the letters are the labels in the code):
 *
 *   edge  from                          to                            carries
 *   E1    ring.c put: store head        read: load head               the events below it
 *   E2    ring.c put: store to a slot   read: load from a slot        a head at or past the event
 *                                                                     that is being written there
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
 * The first ten are the life of a task, in its order.  The names are what a trace shows.  `arg`
 * says of spawn which task did it (0: none), of notify which worker was called, of steal how many
 * items came, and of step which of the nine it is, from 1; elsewhere it is 0.
 */
/* clang-format off */
#define WF_TRACE_TABLE(X)                                                                          \
    X(WF_TRACE_SPAWN,  "spawn")  /* the task was made */                                           \
    X(WF_TRACE_QUEUE,  "queue")  /* it was put where workers look */                               \
    X(WF_TRACE_NOTIFY, "notify") /* a sleeping worker was called for it */                         \
    X(WF_TRACE_FIND,   "find")   /* a worker took it */                                            \
    X(WF_TRACE_ENTER,  "enter")  /* it runs from here on */                                        \
    X(WF_TRACE_WAIT,   "wait")   /* it asks to be suspended */                                     \
    X(WF_TRACE_COMMIT, "commit") /* it is suspended: its stack may go on elsewhere */              \
    X(WF_TRACE_WAKE,   "wake")   /* it was woken */                                                \
    X(WF_TRACE_FINISH, "finish") /* it returned */                                                 \
    X(WF_TRACE_FREE,   "free")   /* its memory went back */                                        \
    X(WF_TRACE_STEAL,  "steal")  /* a worker took from another */                                  \
    X(WF_TRACE_PARK,   "park")   /* a worker goes to sleep */                                      \
    X(WF_TRACE_UNPARK, "unpark") /* a worker comes back from it */                                 \
    X(WF_TRACE_YIELD,  "yield")  /* the task let others go first */                                \
    X(WF_TRACE_CANCEL, "cancel") /* the task was asked to end */                                   \
    X(WF_TRACE_BLOCK,  "block")  /* its function goes to a thread of its own */                    \
    X(WF_TRACE_UNBLOCK, "unblock") /* that has returned */                                         \
    X(WF_TRACE_STEP,   "step")   /* of the reactor's loop */
/* clang-format on */

enum wf_trace_event {
#define WF_TRACE_ENUM(event, name) event,
    WF_TRACE_TABLE(WF_TRACE_ENUM)
#undef WF_TRACE_ENUM
        WF_TRACE_EVENT_COUNT
};

/* [any]  As the table has it; "?" for what is none. */
const char *wf_trace_event_name(enum wf_trace_event event);

/* As the number of a worker: a thread that is none. */
#define WF_TRACE_FOREIGN UINT16_MAX

/* An event as it is read. */
struct wf_trace_record {
    int64_t time_ns; /* on wf_clock_now */
    uint64_t task_id;
    uint64_t arg;
    uint16_t kind; /* enum wf_trace_event */
    uint16_t worker;
};

/* ---- ring ---------------------------------------------------------------------------------- */

/* An event as it is kept.  [owner: write] [any: read] */
struct wf_trace_slot {
    WF_ATOMIC(int64_t) time_ns;
    WF_ATOMIC(uint64_t) task_id;
    WF_ATOMIC(uint64_t) arg;
    WF_ATOMIC(uint64_t) kind;
};

/*
 * Invariants:
 *   I1  event number n, counted from 0, stands in slot n mod (events + 1)
 *   I2  the events [head - events, head) are whole; in the one slot left the owner may be writing
 *       event number `head`
 */
struct wf_trace_ring {
    uint32_t events;          /* [const]  that can be read; there is a slot more */
    uint16_t worker;          /* [const] */
    uint32_t next;            /* [owner]  the slot of event number `head` */
    WF_ATOMIC(uint64_t) head; /* [owner: write] [any: read]  events since the start */
    alignas(WF_CACHE_LINE) struct wf_trace_slot slots[];
};

/* Keeps the last `events` events of worker `worker`.  -EINVAL: not a power of two within
 * WF_TRACE_EVENTS_MIN .. WF_TRACE_EVENTS_MAX, or no worker and not WF_TRACE_FOREIGN; -ENOMEM. */
int wf_trace_ring_new(struct wf_trace_ring **out, uint32_t events, unsigned worker);
/* Nobody writes or reads any more.  NULL is allowed. */
void wf_trace_ring_free(struct wf_trace_ring *ring);

/* [owner]  Records an event with the time of now; the oldest one goes when there is no room. */
void wf_trace_put(struct wf_trace_ring *ring, enum wf_trace_event event, uint64_t task_id,
                  uint64_t arg);

/* [owner]  The same where tracing may be switched off: NULL.  A macro, so that the id of the task
 * is then not even read: it lies in a line of the cache that a switch does not need. */
#define wf_trace(ring, event, task_id, arg)                                                        \
    do {                                                                                           \
        struct wf_trace_ring *const ring_ = (ring);                                                \
        if (__builtin_expect(ring_ != NULL, 0)) {                                                  \
            wf_trace_put(ring_, (event), (task_id), (arg));                                        \
        }                                                                                          \
    } while (0)

/* [any]  The newest events, at most `max`, oldest first, without a gap; gives how many.  Fewer than
 * there were when the owner writes meanwhile: what it overtook is left out. */
size_t wf_trace_read(struct wf_trace_ring *ring, struct wf_trace_record *out, size_t max);

/* ---- shared -------------------------------------------------------------------------------- */

/* For all threads that are no worker.  The time is read under the lock, so that here too no event
 * has an earlier time than the one before it. */
struct wf_trace_shared {
    struct wf_lock lock;
    struct wf_trace_ring *ring; /* [lock]  its events; [who starts and stops: read] */
};

/* As wf_trace_ring_new. */
int wf_trace_shared_init(struct wf_trace_shared *shared, uint32_t events);
/* [nobody reads]  The same again, while others may write: what was recorded is forgotten. */
int wf_trace_shared_renew(struct wf_trace_shared *shared, uint32_t events);
/* Nobody writes or reads any more. */
void wf_trace_shared_done(struct wf_trace_shared *shared);

/* [any]  Under any other lock too: none has a higher rank. */
void wf_trace_shared_put(struct wf_trace_shared *shared, enum wf_trace_event event,
                         uint64_t task_id, uint64_t arg);

/* [any]  The same where tracing may be switched off: NULL. */
static inline void wf_trace_shared(struct wf_trace_shared *shared, enum wf_trace_event event,
                                   uint64_t task_id, uint64_t arg)
{
    if (__builtin_expect(shared != NULL, 0)) {
        wf_trace_shared_put(shared, event, task_id, arg);
    }
}

/* ---- log ----------------------------------------------------------------------------------- */

/* [any]  What the rings hold, in the order of the times; of equal times, in the order of the rings,
 * and of one ring in its own.  A ring may be NULL.  Gives *out, to be freed by wf_free, and its
 * length.  -ENOMEM: both untouched. */
int wf_trace_collect(struct wf_trace_ring *const *rings, size_t count, struct wf_trace_record **out,
                     size_t *out_count);

/* [any]  Writes a line an event: nanoseconds since the first, worker ("-": none), event, task and
 * arg, with blanks between them.  Else the error of wf_file_write. */
int wf_trace_write(int fd, const struct wf_trace_record *records, size_t count);

#endif
