/* SPDX-License-Identifier: MIT */
/*
 * sched/steal_backoff.c - a thief whose steals do not pay takes less, then pauses.
 *
 * A steal pays if the stolen tasks keep the thief busy, or make work of their own.  If they all end
 * at once, thief and victim lose more to the cache lines that move between them than the thief can
 * gain.  Then the victim should run them.
 *
 *                  raise                         raise
 *     level 0 ----------------> levels 1, 2 ----------------> levels 3 to 7
 *     steals freely             at most                       the small batches, and a pause after
 *        ^                      WF_STEAL_BACKOFF_BATCH        each: 100 us at level 3, doubled with
 *        |                      tasks at a time               each level up to 1.6 ms at level 7
 *        |                           |                             |   |  ^
 *        |                           |                             |   +--+ raise, after the pause,
 *        |                           |                             |        up to level 7
 *        +------- clear -------------+------- clear ---------------+
 *
 * The thief measures from the end of a search, and checks when its own queue is empty again:
 *
 *   clear   - a task of the thief has spawned or yielded, or a task ran from its LIFO slot: the
 *             thief has work of its own, and is no longer tracked
 *           - or the stolen tasks took WF_STEAL_WORTH_NS or more each, on average
 *           - or the victims need help: no other worker is busy, or the other workers have not run
 *             or spawned a task since, so a long one may keep the queued tasks waiting
 *           - or, at level 3 and above, external work was submitted
 *   raise   - the thief has run stolen tasks and none of this is true
 *
 * A check at which the thief has run no task since the last one changes nothing.  A spare that
 * parks clears its level (steal.c).  config.h has the constants.
 */
#include "sched/sched.h"

/* [owner]  A count that grows when tasks of this worker make work for it: they spawn, yield, or
 * wake a task that runs from the LIFO slot. */
static uint64_t work_of_own(struct wf_worker *worker)
{
    struct wf_counters *counters = &worker->counters;
    return wf_counter_read(&counters->spawned) + wf_counter_read(&counters->yielded) +
           wf_counter_read(&worker->runq.lifo_hits);
}

/* [owner]  A count that grows when the other workers run or spawn tasks.  As long as it grows, the
 * victims will run their queued tasks soon. */
static uint64_t progress_of_others(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    uint64_t steps = 0;
    for (unsigned i = 0; i < wf_worker_total(runtime); i++) {
        const struct wf_counters *counters = &runtime->workers[i].counters;
        steps += i != worker->index
                     ? wf_counter_read(&counters->polled) + wf_counter_read(&counters->spawned)
                     : 0;
    }
    return steps;
}

void wf_steal_backoff_begin(struct wf_worker *worker, int64_t now)
{
    worker->backoff.began_ns = now;
    worker->backoff.polled = wf_counter_read(&worker->counters.polled);
    worker->backoff.own = work_of_own(worker);
    worker->backoff.others = progress_of_others(worker);
}

/* [owner]  True: the victims need no help of this thief.  Another worker is busy, the other workers
 * make progress (so no long task keeps the queued tasks waiting), and no external work came. */
static bool is_steal_needless(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    return wf_idle_asleep(&runtime->idle) + wf_idle_searching(&runtime->idle) + 1 <
               wf_workers_active(runtime) &&
           progress_of_others(worker) != worker->backoff.others &&
           (worker->backoff.level < WF_STEAL_LEVEL_PAUSE ||
            wf_idle_external_seq(&runtime->idle) == worker->backoff.external_seq);
}

/* [owner]  Pauses until the time, or until external work is submitted.  The thief counts as
 * searching all the time, so that submitters wake no other worker for tasks in the queues of the
 * victims. */
static void pause_stealing(struct wf_worker *worker, int64_t until)
{
    weft_runtime *runtime = worker->runtime;
    worker->search.is_active = worker->search.is_active || wf_idle_begin_search(&runtime->idle);
    if (worker->search.is_active) {
        wf_safe_enter(&runtime->world, &worker->safe);
        wf_idle_backoff_wait(&runtime->idle, worker->backoff.external_seq, until);
        wf_worker_leave_safe(worker);
    }
}

void wf_steal_backoff_set(struct wf_worker *worker, uint32_t level)
{
    if ((level >= WF_STEAL_LEVEL_PAUSE) != (worker->backoff.level >= WF_STEAL_LEVEL_PAUSE)) {
        wf_idle_track_external(&worker->runtime->idle, level >= WF_STEAL_LEVEL_PAUSE);
    }
    worker->backoff.level = level;
}

void wf_steal_backoff_update(struct wf_worker *worker)
{
    const uint64_t ticks = wf_counter_read(&worker->counters.polled) - worker->backoff.polled;
    if (work_of_own(worker) != worker->backoff.own) {
        worker->backoff.is_tracked = false; /* it has work of its own now */
        wf_steal_backoff_set(worker, 0);
    } else if (ticks > 0) {
        int64_t now = wf_clock_now();
        if (now - worker->backoff.began_ns >= (int64_t)ticks * WF_STEAL_WORTH_NS ||
            !is_steal_needless(worker)) {
            wf_steal_backoff_set(worker, 0);
        } else if (worker->backoff.level < WF_STEAL_LEVEL_PAUSE) {
            wf_steal_backoff_set(worker, worker->backoff.level + 1);
        } else {
            pause_stealing(worker, now + (WF_STEAL_PAUSE_NS
                                          << (worker->backoff.level - WF_STEAL_LEVEL_PAUSE)));
            worker->backoff.level += worker->backoff.level < WF_STEAL_LEVEL_MAX ? 1 : 0;
            now = wf_clock_now();
        }
        wf_steal_backoff_begin(worker, now);
    }
}
