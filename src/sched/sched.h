/* SPDX-License-Identifier: MIT */
/*
 * sched/sched.h - who runs where and when.
 *
 * Promises:      work that is queued while a worker sleeps wakes one; no wake-up rests on a
 * timeout. Must not know: timers, locks of users, I/O, processes. Tags:          [owner] the worker
 * itself; [any] any thread.
 *
 * Who synchronises with whom (the letters are the labels in the code):
 *
 *   edge  from                           to                            carries
 *   S1    idle.c notify: fence           sleep: fence                  one of both sees the other
 *   T1    state.c wake: CAS              park: CAS                     what the waker did before
 *   T2    state.c park: CAS              wake: CAS                     the suspended task
 *   T3    state.c complete, unref        the last unref                every use before the free
 */
#ifndef WF_SCHED_SCHED_H
#define WF_SCHED_SCHED_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "os/os.h"

/* ---- the state of a task ------------------------------------------------------------------- */

/*
 * One word:  | references 24 | shield 8 | flags 8 | lifecycle 8 | reserved 16 |
 *
 *              wake: queue it
 *        +---------------------+      wake: set NOTIFIED
 *        |                     v       +--+
 *      IDLE                  ACTIVE <--+  |        complete
 *        ^   park, if not      |  ^-------+ ----------------------> COMPLETE
 *        +---- NOTIFIED -------+  park, if NOTIFIED: clears it, goes on
 *
 * ACTIVE is queued or running: to whoever wakes a task the two are the same, so a task that starts
 * to run, or yields, does not touch the word.  (Which of them it is, is known by the worker.)
 *
 * Invariants:
 *   I1  only the transition IDLE -> ACTIVE lets a task be queued: it is in one queue at the most
 *   I2  NOTIFIED is set only while ACTIVE, and taken by the next park
 *   I3  references never come back from 0; the last one to go frees the task
 */
struct wf_state {
    WF_ATOMIC(uint64_t) word; /* [any: CAS] */
};

enum wf_lifecycle { WF_IDLE, WF_ACTIVE, WF_COMPLETE };

/* What a snapshot of the word says. */
struct wf_state_view {
    enum wf_lifecycle lifecycle;
    bool is_notified;
    bool is_cancelled; /* asked for, perhaps behind a shield */
    unsigned shields;
    unsigned references;
};

enum wf_wake {
    WF_WAKE_QUEUE, /* it was idle: the caller must queue it, nobody else will */
    WF_WAKE_NOTED, /* it is active and will look again before it sleeps */
    WF_WAKE_LATE,  /* it is complete */
};

/* Active, with so many references. */
void wf_state_init(struct wf_state *state, unsigned references);

/* [any]  Something happened that the task may wait for. */
enum wf_wake wf_state_wake(struct wf_state *state);

/* [owner: the worker that runs it, off its stack]  True: it is idle now and somebody else's as soon
 * as it is woken.  False: it was woken meanwhile and goes on. */
bool wf_state_park(struct wf_state *state);

/* [owner]  The result is written; gives the run's reference back.  True: it was the last. */
bool wf_state_complete(struct wf_state *state);

/* [any, holding a reference]  -EOVERFLOW: 2^24 - 1 are out. */
int wf_state_ref(struct wf_state *state);
/* [any]  True: it was the last; the caller frees the task. */
bool wf_state_unref(struct wf_state *state);

/* [any]  Asks the task to end: it is woken, unless it stands behind a shield. */
enum wf_wake wf_state_cancel(struct wf_state *state);

/* [the task]  A shield more: cancelling takes effect only when all are gone.  -EOVERFLOW: 255. */
int wf_state_shield(struct wf_state *state);
/* [the task]  A shield less; -EINVAL: there is none. */
int wf_state_unshield(struct wf_state *state);

/* [any]  Asked to end, and no shield. */
bool wf_state_is_cancelled(struct wf_state *state);
void wf_state_read(struct wf_state *state, struct wf_state_view *out);

/* ---- idle workers -------------------------------------------------------------------------- */

/* Words of the bitmap of sleeping workers. */
#define WF_IDLE_WORDS ((WF_WORKERS_MAX + 63u) / 64u)

/*
 * A worker is busy, searching (it has no work and looks for some) or asleep.  See idle.c.
 *
 * Invariants:
 *   I1  a set bit is a worker that announced its sleep and was not claimed since
 *   I2  searching counts the workers that search, and those that were claimed and not yet woke
 *   I3  work was queued and a worker's bit is set => somebody searches, or the worker that queued
 *       it has not finished its notify, or the sleeper has not finished its second look
 */
struct wf_idle {
    unsigned workers; /* [const]  1 .. WF_WORKERS_MAX */

    /* [any: add] */
    alignas(WF_CACHE_LINE) WF_ATOMIC(uint32_t) searching;

    /* [any: or, and]  bit i of word i / 64: worker i sleeps. */
    alignas(WF_CACHE_LINE) WF_ATOMIC(uint64_t) asleep[WF_IDLE_WORDS];
};

/* -EINVAL: no workers, or more than WF_WORKERS_MAX. */
int wf_idle_init(struct wf_idle *idle, unsigned workers);

/* [owner]  Asks to search; false when half of the workers do already.  Who is refused goes to
 * sleep: those that search will call it. */
bool wf_idle_begin_search(struct wf_idle *idle);

/* [owner]  Stops to search, having found work.  True: it was the last, and must notify, because
 * what woke it may have been more than one piece of work. */
bool wf_idle_end_search(struct wf_idle *idle);

/* Looks at everything that could be work for the worker; called between announcement and sleep. */
typedef bool (*wf_has_work_fn)(void *context);

/* [owner]  Sleeps until claimed by a notifier or until the deadline; does not sleep if has_work
 * says so.  `is_searching`: it searched before.  True: it comes back as a searcher. */
bool wf_idle_sleep(struct wf_idle *idle, unsigned worker, struct wf_parker *parker,
                   bool is_searching, wf_has_work_fn has_work, void *context, int64_t deadline_ns);

/* [any]  After work was queued.  Gives the worker to unpark, which is claimed and counts as
 * searching from now on; -1: nobody sleeps, or a searcher will find it. */
int wf_idle_notify(struct wf_idle *idle);

/* [any]  Claims any sleeping worker, whether or not others search; -1: nobody sleeps. */
int wf_idle_claim(struct wf_idle *idle);

/* [any]  Hints. */
unsigned wf_idle_searching(struct wf_idle *idle);
unsigned wf_idle_asleep(struct wf_idle *idle);

#endif
