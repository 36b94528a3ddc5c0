/* SPDX-License-Identifier: MIT */
/*
 * sync/group.c - waiting until counted work is done: wait group and latch.
 *
 * The word is the count and a bit that says that there may be waiters.  If the bit is set, the
 * caller that takes the count to 0 does so under the lock of the queue, and grants all waiters.
 * Otherwise an add or a done is one compare-and-exchange.  A waiter mostly has the group in its
 * frame, and leaves as soon as the count is 0.  So a caller that finds the count 0 first waits
 * until the caller that took the count to 0 has released the lock (wf_lock_drain).
 */
#include <errno.h>

#include "future/future.h"
#include "sync/sync.h"

#define WAITERS UINT64_C(1)

_Static_assert(sizeof(struct wf_group) <= sizeof(weft_group), "it fits");

static struct wf_group *group_of(weft_group *group)
{
    return (struct wf_group *)(void *)group;
}

static uint64_t count_of(uint64_t word)
{
    return word >> 1;
}

/* [any]  True: the count is 0, and the caller that took it to 0 is done with the group. */
static bool group_is_done(struct wf_group *group)
{
    if (count_of(wf_load_acquire(&group->word)) != 0) { /* (sync.G1) */
        return false;
    }
    wf_lock_drain(&group->queue.lock);
    return true;
}

/* [locked]  Grants all waiters. */
static void group_open(struct wf_group *group, struct wf_wakes *wakes)
{
    struct wf_wait_node *node;
    while ((node = wf_waitq_claim(&group->queue)) != NULL) {
        wf_wakes_add(wakes, node);
    }
}

/* [any]  Subtracts.  `is_locked`: the caller holds the lock.  0: done, and if *is_last the caller
 * must grant the waiters; -EAGAIN: the caller needs the lock for that; -EINVAL: the count is less.
 */
static int group_subtract(struct wf_group *group, uint32_t count, bool is_locked, bool *is_last)
{
    uint64_t word = wf_load_relaxed(&group->word); /* relaxed: the CAS decides */
    uint64_t next;
    do { /* each lost CAS is an operation of another thread that succeeded */
        if (count_of(word) < count) {
            return -EINVAL;
        }
        *is_last = count_of(word) == count && (word & WAITERS) != 0;
        if (*is_last && !is_locked) {
            return -EAGAIN;
        }
        next = *is_last ? 0 : word - ((uint64_t)count << 1);
    } while (!wf_cas_acq_rel(&group->word, &word, next)); /* (sync.G1) */
    return 0;
}

static int group_done(struct wf_group *group, uint32_t count)
{
    bool is_last;
    int rc = group_subtract(group, count, false, &is_last);
    if (rc == -EAGAIN) {
        struct wf_wakes wakes = {.count = 0};
        wf_lock_acquire(&group->queue.lock);
        rc = group_subtract(group, count, true, &is_last);
        if (rc == 0 && is_last) {
            group_open(group, &wakes);
        }
        wf_lock_release(&group->queue.lock);
        wf_wakes_do(&wakes);
    }
    return rc;
}

int wf_group_begin(struct wf_group *group, struct wf_wait_node *node)
{
    wf_lock_acquire(&group->queue.lock);
    uint64_t word;
    bool is_waiting = false;
    /* (sync.G1); each lost CAS is an operation of another thread that succeeded */
    while (!is_waiting && count_of(word = wf_load_acquire(&group->word)) != 0) {
        /* relaxed: the load sees the last finisher, or that finisher grants */
        is_waiting = wf_cas_relaxed(&group->word, &word, word | WAITERS);
    }
    if (is_waiting) {
        wf_waitq_push(&group->queue, node);
    }
    wf_lock_release(&group->queue.lock);
    return is_waiting ? -EINPROGRESS : 0;
}

static int group_wait_all(struct wf_group *group)
{
    struct weft_task *self = wf_task_self();
    if (self != NULL) {
        wf_task_spend(self);
    }
    if (group_is_done(group)) {
        return 0;
    }
    struct wf_wait_node node;
    int rc = self != NULL ? wf_interrupted(self) : 0;
    if (rc != 0) {
        return rc;
    }
    wf_node_init(&node, self);
    rc = wf_group_begin(group, &node);
    return rc == -EINPROGRESS ? wf_waitq_wait(&node, WEFT_WAIT_GROUP, group, WEFT_NEVER) : rc;
}

/* ---- wait group ---------------------------------------------------------------------------- */

int weft_group_add(weft_group *out, uint32_t count)
{
    WF_NOT_NULL(out, "weft_group_add: group is NULL");
    struct wf_group *group = group_of(out);
    uint64_t word = wf_load_relaxed(&group->word); /* relaxed: the CAS decides */
    do { /* each lost CAS is an operation of another thread that succeeded */
        if (count_of(word) + count > UINT32_MAX) {
            return -EOVERFLOW;
        }
        /* relaxed: the adder has done nothing yet, and a CAS continues the release sequence of
         * earlier finishers (sync.G1) */
    } while (!wf_cas_relaxed(&group->word, &word, word + ((uint64_t)count << 1)));
    return 0;
}

int weft_group_finish(weft_group *out)
{
    WF_NOT_NULL(out, "weft_group_finish: group is NULL");
    return group_done(group_of(out), 1);
}

int weft_group_wait(weft_group *out)
{
    WF_NOT_NULL(out, "weft_group_wait: group is NULL");
    return group_wait_all(group_of(out));
}

int64_t weft_group_count(const weft_group *out)
{
    WF_NOT_NULL(out, "weft_group_count: group is NULL");
    const struct wf_group *group = (const struct wf_group *)(const void *)out;
    return (int64_t)count_of(wf_load_relaxed(&group->word)); /* relaxed: a hint */
}

/* ---- latch --------------------------------------------------------------------------------- */

int weft_latch_init(weft_latch *latch, uint32_t count)
{
    WF_NOT_NULL(latch, "weft_latch_init: latch is NULL");
    *latch = (weft_latch)WEFT_LATCH_INIT(count);
    return 0;
}

int weft_latch_count_down(weft_latch *latch, uint32_t count)
{
    WF_NOT_NULL(latch, "weft_latch_count_down: latch is NULL");
    return group_done(group_of(&latch->group), count);
}

int weft_latch_wait(weft_latch *latch)
{
    WF_NOT_NULL(latch, "weft_latch_wait: latch is NULL");
    return group_wait_all(group_of(&latch->group));
}

int weft_latch_try_wait(weft_latch *latch)
{
    WF_NOT_NULL(latch, "weft_latch_try_wait: latch is NULL");
    return group_is_done(group_of(&latch->group)) ? 0 : -EAGAIN;
}
