/* SPDX-License-Identifier: MIT */
/*
 * sched/timers.h - timers that wake tasks: see timers.c.
 */
#ifndef WF_SCHED_TIMERS_H
#define WF_SCHED_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/types.h>

#include "base/base.h"
#include "os/os.h"
#include "task/task.h"
#include "time/time.h"

struct wf_worker;

/* The timers set on one worker. */
struct wf_timers {
    struct wf_lock lock;
    struct wf_wheel wheel;      /* [lock] */
    struct wf_list due;         /* [lock]  expired timers whose tasks are not woken yet */
    WF_ATOMIC(int64_t) next_ns; /* [lock: write] [any: read]  not later than its first timer */
    WF_ATOMIC(uint64_t) fired;  /* [lock: write] [any: read]  timers that expired */
};

/* The next expiry in a runtime, and until when its leader sleeps. */
struct wf_timer_summary {
    WF_ATOMIC(int64_t) next_ns;  /* [any: CAS]  not later than the first timer; WF_FOREVER: none */
    WF_ATOMIC(int64_t) until_ns; /* [leader, control thread: write] [any: read]  0: no leader
                                  * sleeps */
    WF_ATOMIC(uint32_t) leader;  /* [leader, control thread: write] [any: read]  its index */
    bool is_leader_optional;     /* [const]  only a timer or a driver needs a leader */
};

/* [opener, monitor]  No timer is set. */
void wf_timers_init(struct wf_timers *timers, int64_t now_ns);
void wf_timer_summary_init(struct wf_timer_summary *timer_summary);
/* [the task]  Sets a timer that is not set yet.  It wakes the task at `at_ns` or soon after, not
 * before. */
void wf_task_timer_set(struct wf_task_timer *timer, struct weft_task *self, int64_t at_ns);
/* [the task, closer]  Cancels the timer; its memory is the caller's again, and a wake that is on
 * its way may still come.  Does nothing if the timer is not set, or all zeros. */
void wf_task_timer_clear(struct wf_task_timer *timer);
/* [worker, control thread]  Wakes the tasks of all timers that have expired.  `worker` is the
 * caller's; NULL: the control thread.  Returns at once if no timer has expired, or if another
 * thread is already waking these tasks. */
void wf_timers_look(weft_runtime *runtime, struct wf_worker *worker, int64_t now_ns);
/* [any]  True: a timer is set, or has expired and its task is not woken yet. */
bool wf_timers_are_set(weft_runtime *runtime);
/* [any]  When wf_timers_look is due, at the latest; WF_FOREVER: no timer is set. */
int64_t wf_timers_next(const weft_runtime *runtime);
/* [leader, control thread]  Announces that the caller is about to sleep until `until_ns`.  `leader`
 * is the index of its worker; the control thread passes 0.  A thread that sets an earlier timer
 * ends the sleep by wake_leader of the policy. */
void wf_timers_set_leader(weft_runtime *runtime, uint32_t leader, int64_t until_ns);
/* [leader, control thread]  The caller is awake. */
void wf_timers_clear_leader(weft_runtime *runtime);

#endif
