/* SPDX-License-Identifier: MIT */
/*
 * sched/alone.c - queues that their owner uses as if nobody else did, and who comes to them.
 *
 * Most of the time nobody takes anything from a worker, and the locked instructions that guard its
 * slot and its ring are most of what a switch costs.  So the owner goes without them for as long as
 * it is alone; who wants something comes as a visitor, and pays for both.  With O for the owner and
 * V for a visitor:
 *
 *   O1 marks that it is inside               V1 counts itself as a visitor; fence
 *   O2 light fence                           V2 is the owner alone?  then says that it is not,
 *   O3 still alone?  does as it likes           and makes every thread go through a fence (M2)
 *   O4 takes the mark away                   V3 is the owner inside?  then comes back later
 *                                            V4 takes what it wants, and counts itself out
 *
 * Of O2 and the fence that V2 makes the owner go through one comes first.  O2 first: V3 sees the
 * mark.  The other first: O3 sees that it is not alone any more, and from there on the owner works
 * with the same instructions as everybody else.  A second visitor could see what V2 says before the
 * fence has been everywhere: so it says `asked` first, with which all others go away, and that the
 * owner shares only then (M5).  Each thread has that fence at a moment of its own.
 *
 * The kernel may refuse the fence, by a filter that came later.  Then the visitor goes away, and
 * comes back; and the owner itself says that it shares, at its next look at the clock, and is never
 * alone again.
 *
 * When nobody has come for a while, the owner is alone again: it says so, and looks after a fence
 * whether there is a visitor (M4).  One who came before counts, and one who comes later sees what
 * the owner has said.
 *
 * The only worker of a runtime calls nobody for what it queues as long as it is alone.  So it stays
 * with others as long as a spare is in play, and a spare comes as a visitor when it gets up.
 *
 * Rejected: a lock for those who come, which a thief would hold while it steals and another waits
 * for; to ask the owner for what it has, as thieves of forks do (fork.h): a task that computes and
 * makes no calls would keep what is in its worker's queues to itself.
 */
#include "sched/alone.h"

/* Visitors now in the lower half, how often one has left in the upper. */
#define VISITOR UINT32_C(1)
#define VISITORS_MASK UINT32_C(0xffff)
#define VISIT_ENDED (UINT32_C(0x10000) - VISITOR)

_Static_assert(WF_WORKERS_MAX + 1 <= VISITORS_MASK, "every worker and the monitor");

/* [visitor]  The owner was alone, and is not any more.  False: another is saying so. */
static bool say_shared(struct wf_worker *host)
{
    uint32_t alone = WF_ALONE;
    /* relaxed: the fences order it */
    if (!wf_cas_relaxed(&host->company, &alone, WF_ASKED)) {
        return false;
    }
    if (wf_barrier_everywhere() != 0) { /* (M2) */
        uint32_t asked = WF_ASKED;
        /* Both relaxed: as if nobody had asked, unless the owner shares by itself meanwhile; and a
         * hint, to do so at its next look at the clock. */
        (void)wf_cas_relaxed(&host->company, &asked, WF_ALONE);
        wf_store_relaxed(&host->runtime->monitor.is_barrier_refused, 1);
        return false;
    }
    wf_store_relaxed(&host->company, WF_SHARED); /* (M5) relaxed: behind our own fence of that */
    return true;
}

bool wf_visit_begin(struct wf_worker *host)
{
    (void)wf_fetch_add_relaxed(&host->visits, VISITOR);     /* relaxed: the fence orders it */
    wf_fence_seq_cst();                                     /* (M4) */
    const uint32_t state = wf_load_acquire(&host->company); /* (M5) before the look inside */
    const bool is_shared = state == WF_SHARED || (state == WF_ALONE && say_shared(host));
    /* (M2) acquire: what the owner did there. */
    if (is_shared && wf_load_acquire(&host->is_inside) == 0) {
        return true;
    }
    WF_REACHED("alone.visitor_turned_away");
    wf_visit_end(host);
    return false;
}

void wf_visit_end(struct wf_worker *host)
{
    (void)wf_fetch_add_release(&host->visits, VISIT_ENDED); /* (M4) release: what it took */
}

/* [owner]  If nobody is there. */
static void be_alone(struct wf_worker *worker)
{
    wf_store_relaxed(&worker->company, WF_ALONE); /* relaxed: the fence orders it */
    wf_fence_seq_cst();                           /* (M4) */
    /* (M4) acquire: what they took */
    if ((wf_load_acquire(&worker->visits) & VISITORS_MASK) != 0) {
        WF_REACHED("alone.not_for_long");
        wf_store_relaxed(&worker->company, WF_SHARED); /* relaxed: it did nothing meanwhile */
        return;
    }
    wf_ring_settle(&worker->ring);
}

void wf_alone_give_up(struct wf_worker *worker)
{
    wf_store_release(&worker->company, WF_SHARED); /* (M5) release: what it did alone */
}

void wf_alone_again(struct wf_worker *worker, int64_t now)
{
    weft_runtime *runtime = worker->runtime;
    if (__builtin_expect(wf_load_relaxed(&runtime->monitor.is_barrier_refused) != 0, 0)) {
        WF_REACHED("alone.no_barrier_any_more");
        wf_alone_give_up(worker); /* relaxed above: a hint, and it is not inside */
        return;
    }
    const uint32_t visits = wf_load_relaxed(&worker->visits); /* relaxed: be_alone looks again */
    /* relaxed: the same */
    if (!runtime->monitor.has_barrier || !(worker->is_fast || worker->is_lone) ||
        wf_load_relaxed(&worker->company) != WF_SHARED) {
        return;
    }
    if (visits != worker->visits_seen || (visits & VISITORS_MASK) != 0) {
        worker->visits_seen = visits;
        worker->visited_ns = now;
        return;
    }
    if (now - worker->visited_ns < WF_ALONE_AFTER_NS) {
        return;
    }
    if (!worker->is_lone) {
        be_alone(worker);
        return;
    }
    wf_lock_acquire(&runtime->monitor.lock); /* or a spare could get up meanwhile */
    if (wf_in_play(runtime) == 1) {
        be_alone(worker);
    }
    wf_lock_release(&runtime->monitor.lock);
}
