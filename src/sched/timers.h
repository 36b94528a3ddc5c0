/* SPDX-License-Identifier: MIT */
/*
 * sched/timers.h - tasks that are woken at a point in time: a part of sched.h, see timers.c.
 */
#ifndef WF_SCHED_TIMERS_H
#define WF_SCHED_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/types.h>

#include "base/base.h"
#include "os/os.h"
#include "time/time.h"

struct wf_worker;

/* What tasks of one worker wait for the time of; see timers.c. */
struct wf_timers {
    struct wf_lock lock;
    struct wf_wheel wheel;      /* [lock] */
    struct wf_list due;         /* [lock]  out of the wheel, but nobody was woken yet */
    WF_ATOMIC(int64_t) next_ns; /* [lock: write] [any: read]  not after its first timer */
    WF_ATOMIC(uint64_t) fired;  /* [lock: write] [any: read]  whose time has come */
};

/* Wakes a task at a point in time.  `place` of the timer is the worker in whose timers it is set,
 * plus 1; 0: it is not set.  [the task] */
struct wf_alarm {
    struct wf_timer timer;  /* [lock of the timers] */
    struct weft_task *task; /* [const]  while it is set */
};

/* The time of a runtime. */
struct wf_hours {
    WF_ATOMIC(int64_t) next_ns;  /* [any: CAS]  when somebody has to look; WF_FOREVER: never */
    WF_ATOMIC(int64_t) until_ns; /* [watcher: write]  how long it sleeps; 0: nobody does */
    WF_ATOMIC(uint32_t) watcher; /* [watcher: write]  the worker */
};

/* Empty. */
void wf_timers_init(struct wf_timers *timers, int64_t now_ns);
void wf_hours_init(struct wf_hours *hours);
/* [the task]  It is woken at this time, or soon after; not before. */
void wf_alarm_set(struct wf_alarm *alarm, struct weft_task *self, int64_t at_ns);
/* [the task, closer]  Nobody knows of the alarm any more; a wake may still come.  One
 * that is all zeros, or is not set, is left as it is. */
void wf_alarm_clear(struct wf_alarm *alarm);
/* [worker, control thread]  Wakes whom it is time for, if anybody.  `worker` is the
 * caller's; NULL: the control thread. */
void wf_timers_look(weft_runtime *runtime, struct wf_worker *worker, int64_t now_ns);
/* [any]  Whether anybody will be woken by the time. */
bool wf_timers_are_set(weft_runtime *runtime);
/* [any]  When somebody has to look; WF_FOREVER: there is nothing. */
int64_t wf_timers_next(const weft_runtime *runtime);
/* [watcher]  It sleeps until then, unless called by the policy's `hurry`. */
void wf_timers_watch(weft_runtime *runtime, uint32_t watcher, int64_t until_ns);
/* [watcher]  It does not any more. */
void wf_timers_unwatch(weft_runtime *runtime);

#endif
