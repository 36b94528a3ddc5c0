/* SPDX-License-Identifier: MIT */
/*
 * queue/bias.c - biased ownership: revocation and regaining.
 *
 * Most of the time no thread steals from a worker, and the locked instructions that protect its
 * LIFO slot and its ring are most of the cost of a switch.  So the owner does without them while
 * the queue is biased towards it.  A thief must revoke the bias first: it alone issues the fence
 * that both sides would need (membarrier).
 *
 *   owner                                    thief
 *   O1 sets is_in_section                    T1 counts itself in `remote`; fence
 *   O2 light fence (compiler only)           T2 if BIASED: sets REVOKING, runs membarrier,
 *   O3 still BIASED?  uses the queue            sets UNBIASED
 *   O4 clears is_in_section                  T3 is_in_section set?  turns back
 *                                            T4 uses the queue, counts itself out
 *
 * membarrier executes a full fence in every running thread of the process, each at a moment of its
 * own (queue.B1).  The owner's O2 comes either before or after its fence.  Before: T3 sees
 * is_in_section.  After: O3 sees that the queue is not BIASED, and the owner uses locked
 * instructions from then on, as the thief does.
 *
 * Revocation has two steps because a second thief could otherwise see UNBIASED before the owner has
 * executed the barrier.  The first thief sets REVOKING, at which every other thief turns back, and
 * sets UNBIASED only after membarrier has returned (queue.B3).
 *
 * The kernel may begin to refuse membarrier, through a seccomp filter installed later.  Then the
 * thief restores BIASED, sets `is_barrier_refused` and turns back.  The owner finds that flag at
 * its next clock tick, gives up the bias by itself, and never takes it again.
 *
 * When no thread has accessed the queue for a while the owner takes the bias again: it sets BIASED,
 * executes a fence, and looks for threads inside (queue.B2).  It sees a thief that counted itself
 * before; a thief that counts itself later sees BIASED.
 *
 * Rejected: a lock for remote accessors, since the owner would wait for a thief that was preempted
 * with the lock held.  Rejected: a request that the owner answers (as thieves of forks do), since a
 * task that computes without a call would keep all queued tasks of its worker from running.
 */
#include "queue/bias.h"

/* The halves of `remote`. */
#define ACCESSOR UINT32_C(1)
#define ACCESSORS_MASK UINT32_C(0xffff)
#define ACCESS_ENDED (UINT32_C(0x10000) - ACCESSOR)

_Static_assert(WF_WORKERS_MAX + 1 <= ACCESSORS_MASK, "every worker and the monitor fit");

void wf_bias_init(struct wf_bias *bias, struct wf_bias_domain *domain, bool is_wanted)
{
    *bias = (struct wf_bias){.domain = domain, .is_enabled = is_wanted && domain->has_barrier};
    wf_atomic_init(&bias->state, bias->is_enabled ? WF_BIASED : WF_UNBIASED);
}

/* [thief]  T2.  False: another thief is revoking, or the kernel refuses the barrier. */
static bool bias_revoke_owner(struct wf_bias *bias)
{
    uint32_t biased = WF_BIASED;
    if (!wf_cas_relaxed(&bias->state, &biased, WF_REVOKING)) { /* relaxed: the fences order it */
        return false;
    }
    if (wf_barrier_everywhere() != 0) { /* (queue.B1) */
        uint32_t revoking = WF_REVOKING;
        /* Restores BIASED, unless the owner has dropped the bias meanwhile.  relaxed: no thief
         * has accessed the queue in between. */
        (void)wf_cas_relaxed(&bias->state, &revoking, WF_BIASED);
        wf_store_relaxed(&bias->domain->is_barrier_refused, 1); /* relaxed: a hint to owners */
        return false;
    }
    wf_store_relaxed(&bias->state, WF_UNBIASED); /* (queue.B3) relaxed: behind the barrier */
    return true;
}

bool wf_bias_revoke(struct wf_bias *bias)
{
    (void)wf_fetch_add_relaxed(&bias->remote, ACCESSOR);  /* relaxed: the fence orders it */
    wf_fence_seq_cst();                                   /* (queue.B2) */
    const uint32_t state = wf_load_acquire(&bias->state); /* (queue.B3) before the check below */
    const bool is_unbiased =
        state == WF_UNBIASED || (state == WF_BIASED && bias_revoke_owner(bias));
    /* (queue.B1) acquire: what the owner did in its last section */
    if (is_unbiased && wf_load_acquire(&bias->is_in_section) == 0) {
        return true;
    }
    WF_REACHED("bias.thief_turned_back");
    wf_bias_release(bias);
    return false;
}

void wf_bias_release(struct wf_bias *bias)
{
    (void)wf_fetch_add_release(&bias->remote, ACCESS_ENDED); /* (queue.B2) what the thief took */
}

void wf_bias_drop(struct wf_bias *bias)
{
    wf_store_release(&bias->state, WF_UNBIASED); /* (queue.B3) release: the owner's last section */
}

bool wf_bias_is_due(struct wf_bias *bias, int64_t now_ns)
{
    /* relaxed: a hint; a later check sees it too */
    if (__builtin_expect(wf_load_relaxed(&bias->domain->is_barrier_refused) != 0, 0)) {
        WF_REACHED("bias.barrier_refused");
        wf_bias_drop(bias);
        return false;
    }
    /* relaxed: only the owner sets BIASED */
    if (!bias->is_enabled || wf_load_relaxed(&bias->state) != WF_UNBIASED) {
        return false;
    }
    const uint32_t remote = wf_load_relaxed(&bias->remote); /* relaxed: wf_bias_try_set decides */
    if (remote != bias->remote_seen || (remote & ACCESSORS_MASK) != 0) {
        bias->remote_seen = remote;
        bias->remote_ns = now_ns;
        return false;
    }
    return now_ns - bias->remote_ns >= WF_BIAS_AFTER_NS;
}

bool wf_bias_try_set(struct wf_bias *bias)
{
    wf_store_relaxed(&bias->state, WF_BIASED); /* relaxed: the fence orders it */
    wf_fence_seq_cst();                        /* (queue.B2) */
    /* (queue.B2) acquire: what the threads that have left took */
    if ((wf_load_acquire(&bias->remote) & ACCESSORS_MASK) != 0) {
        WF_REACHED("bias.thief_was_faster");
        wf_store_relaxed(&bias->state, WF_UNBIASED); /* relaxed: no section was entered */
        return false;
    }
    return true;
}
