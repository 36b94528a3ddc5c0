/* SPDX-License-Identifier: MIT */
/*
 * queue/bias.h - biased ownership of a run queue: the owner works without locked instructions until
 * another thread revokes the bias.  bias.c has the protocol.
 */
#ifndef WF_QUEUE_BIAS_H
#define WF_QUEUE_BIAS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "os/os.h"

enum wf_bias_state {
    WF_UNBIASED, /* every thread, the owner included, uses locked instructions */
    WF_BIASED,   /* only the owner may touch the queue; other threads must revoke first */
    WF_REVOKING, /* a thief has asked for the barrier; other threads turn back */
};

/* What all biased queues of a runtime share. */
struct wf_bias_domain {
    bool has_barrier;                 /* [const]  membarrier is there, so a bias can be revoked */
    wf_atomic_u32 is_barrier_refused; /* [any: write]  the kernel has begun to refuse it */
};

struct wf_bias {
    wf_atomic_u32 state;           /* [owner, thief: write]  enum wf_bias_state */
    wf_atomic_u32 is_in_section;   /* [owner: write] [thief: read]  the owner is using the queue */
    struct wf_bias_domain *domain; /* [const] */
    bool is_enabled;               /* [const]  the queue may be biased */
    uint32_t remote_seen;          /* [owner]  `remote` at its last check ... */
    int64_t remote_ns;             /* [owner]  ... and when a check last found it changed */
    /* [thief: add]  Low half: threads that are inside now.  High half: accesses that have ended. */
    wf_atomic_u32 remote;
};

/* If `is_wanted` and the domain has the barrier, the queue begins biased, and wf_bias_try_set may
 * bias it again. */
void wf_bias_init(struct wf_bias *bias, struct wf_bias_domain *domain, bool is_wanted);

/* [thief]  Ends the bias, if there is one, and enters the queue until wf_bias_release.  False: the
 * thief has not entered the queue.  The owner was inside a biased section (the bias is ended all
 * the same), another thief is revoking, or the kernel refuses the barrier. */
bool wf_bias_revoke(struct wf_bias *bias);
/* [thief]  Leaves the queue. */
void wf_bias_release(struct wf_bias *bias);

/* [owner, outside of a section]  Gives the bias up. */
void wf_bias_drop(struct wf_bias *bias);
/* [owner, outside of a section]  True: no other thread has accessed the queue for WF_BIAS_AFTER_NS,
 * so wf_bias_try_set is worth its fence.  Gives the bias up if the kernel refuses the barrier. */
bool wf_bias_is_due(struct wf_bias *bias, int64_t now_ns);
/* [owner, outside of a section]  Takes the bias; false: a thread is inside the queue. */
bool wf_bias_try_set(struct wf_bias *bias);

/* [owner]  Begins a biased section: until wf_bias_exit no other thread touches the queue.  False:
 * the queue is not biased, and the owner must use locked instructions. */
static inline bool wf_bias_enter(struct wf_bias *bias)
{
    if (wf_load_relaxed(&bias->state) != WF_BIASED) { /* relaxed: checked again below */
        return false;
    }
    wf_store_relaxed(&bias->is_in_section, 1); /* relaxed: the fence orders it (queue.B1) */
    wf_fence_light();                          /* (queue.B1) */
    if (__builtin_expect(wf_load_relaxed(&bias->state) == WF_BIASED, 1)) {
        return true;
    }
    WF_REACHED("bias.revoked_meanwhile");
    wf_store_release(&bias->is_in_section, 0); /* (queue.B1) release: the previous section */
    return false;
}

/* [owner]  Ends the section. */
static inline void wf_bias_exit(struct wf_bias *bias)
{
    wf_store_release(&bias->is_in_section, 0); /* (queue.B1) release: what the owner did inside */
}

/* [owner]  Whether the queue is biased, after the light fence that orders the owner's last push
 * before this load: a thread that revokes later sees that push. */
static inline bool wf_bias_is_set(struct wf_bias *bias)
{
    wf_fence_light(); /* (queue.B1) */
    return wf_load_relaxed(&bias->state) == WF_BIASED;
}

#endif
