/* SPDX-License-Identifier: MIT */
/*
 * sched/guest.c - workers that run what others have queued, and whether that is worth it.
 *
 * A worker that comes out of a search is a guest.  That is worth it if what it takes keeps it busy,
 * or makes work of its own.  If it is nothing but tasks that end at once, the two of them lose more
 * by what goes from cache to cache than the second can gain: then, after some visits, it takes a
 * few at a time and looks away in between, so that who has the tasks runs them.
 */
#include "sched/sched.h"

/* [owner]  Grows with what tasks of this worker do for it: spawn, wake, go on. */
static uint64_t own_work(struct wf_worker *worker)
{
    struct wf_counters *counters = &worker->counters;
    return wf_counter_read(&counters->spawned) + wf_counter_read(&counters->yielded) +
           wf_counter_read(&counters->lifo_hits);
}

/* [owner]  Grows as long as those who have tasks run them themselves, or make more: who does that
 * will run them soon. */
static uint64_t steps_of_others(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    uint64_t steps = 0;
    for (unsigned i = 0; i < wf_seats(runtime); i++) {
        const struct wf_counters *counters = &runtime->workers[i].counters;
        steps += i != worker->index
                     ? wf_counter_read(&counters->polled) + wf_counter_read(&counters->spawned)
                     : 0;
    }
    return steps;
}

void wf_guest_begin(struct wf_worker *worker, int64_t now)
{
    worker->visit_ns = now;
    worker->visit_turns = wf_counter_read(&worker->counters.polled);
    worker->visit_own = own_work(worker);
    worker->visit_other = steps_of_others(worker);
}

/* [owner]  Whether others are at work, and what there is to do comes from them; and they do not
 * stay in one task, behind which the others would have to wait for us. */
static bool is_needless(struct wf_worker *worker)
{
    weft_runtime *runtime = worker->runtime;
    return wf_idle_asleep(&runtime->idle) + wf_idle_searching(&runtime->idle) + 1 <
               wf_in_play(runtime) &&
           steps_of_others(worker) != worker->visit_other &&
           (worker->shyness < WF_SHY || wf_idle_arrivals(&runtime->idle) == worker->arrivals);
}

/* [owner]  Looks away for a while, or until something comes from outside.  It counts as searching
 * all the time, so that nobody else is called for what lies in the queues of those who work. */
static void hold_back(struct wf_worker *worker, int64_t until)
{
    weft_runtime *runtime = worker->runtime;
    worker->is_searching = worker->is_searching || wf_idle_begin_search(&runtime->idle);
    if (worker->is_searching) {
        wf_safe_enter(&runtime->world, &worker->safe);
        wf_idle_pause(&runtime->idle, worker->arrivals, until);
        wf_monitor_wake_up(worker);
    }
}

void wf_guest_be_shy(struct wf_worker *worker, uint32_t shyness)
{
    if ((shyness >= WF_SHY) != (worker->shyness >= WF_SHY)) {
        wf_idle_heed(&worker->runtime->idle, shyness >= WF_SHY);
    }
    worker->shyness = shyness;
}

void wf_guest_judge(struct wf_worker *worker)
{
    const uint64_t turns = wf_counter_read(&worker->counters.polled) - worker->visit_turns;
    if (own_work(worker) != worker->visit_own) {
        worker->is_guest = false; /* what it took it goes on with */
        wf_guest_be_shy(worker, 0);
    } else if (turns > 0) {
        int64_t now = wf_clock_now();
        if (now - worker->visit_ns >= (int64_t)turns * WF_VISIT_WORTH_NS || !is_needless(worker)) {
            wf_guest_be_shy(worker, 0);
        } else if (worker->shyness < WF_SHY) {
            wf_guest_be_shy(worker, worker->shyness + 1);
        } else {
            hold_back(worker, now + (WF_VISIT_PAUSE_NS << (worker->shyness - WF_SHY)));
            worker->shyness += worker->shyness < WF_SHYNESS_MAX ? 1 : 0;
            now = wf_clock_now();
        }
        wf_guest_begin(worker, now);
    }
}
