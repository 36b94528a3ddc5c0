/* SPDX-License-Identifier: MIT */
/*
 * life/sleep.c - the clock, sleeps and intervals.
 */
#include <errno.h>

#include "life/life.h"

weft_time weft_now(void)
{
    return wf_clock_now();
}

/* The time `ns` after another; WEFT_NEVER on overflow. */
static weft_time time_after(weft_time from, int64_t ns)
{
    weft_time at;
    return __builtin_add_overflow(from, ns, &at) ? WEFT_NEVER : at;
}

weft_time weft_time_after(int64_t ns)
{
    return time_after(wf_clock_now(), ns);
}

/* [non-worker thread] */
static void thread_sleep_until(weft_time at)
{
    struct wf_parker parker; /* local: no thread unparks it */
    wf_parker_init(&parker);
    (void)wf_parker_park(&parker, at);
}

int weft_sleep_until(weft_time at)
{
    struct weft_task *self = wf_task_self();
    if (self == NULL) {
        thread_sleep_until(at);
        return 0;
    }
    int rc = wf_task_interrupted(self);
    if (rc != 0) {
        return rc;
    }
    if (wf_clock_now() >= at) {
        wf_task_yield(self);
        return wf_task_interrupted(self);
    }
    wf_wait_begin_until(self, WEFT_WAIT_TIME, NULL, at);
    do { /* a wake may be spurious */
        wf_task_suspend(self);
        rc = wf_task_interrupted(self);
    } while (rc == 0 && wf_clock_now() < at);
    wf_wait_end(self);
    return rc;
}

int weft_sleep(int64_t ns)
{
    return ns < 0 ? -EINVAL : weft_sleep_until(weft_time_after(ns));
}

/* ---- intervals ----------------------------------------------------------------------------- */

int weft_interval_init(weft_interval *interval, int64_t period_ns, enum weft_missed missed)
{
    WF_NOT_NULL(interval, "weft_interval_init: interval is NULL");
    if (period_ns <= 0 || (unsigned)missed > WEFT_MISSED_SKIP) {
        return -EINVAL;
    }
    *interval = (weft_interval){
        .next = weft_time_after(period_ns), .period_ns = period_ns, .missed = missed};
    return 0;
}

int64_t weft_interval_wait(weft_interval *interval)
{
    WF_NOT_NULL(interval, "weft_interval_wait: interval is NULL");
    if (interval->period_ns <= 0) {
        return -EINVAL;
    }
    int rc = weft_sleep_until(interval->next);
    if (rc != 0) {
        return rc;
    }
    int64_t ticks = 1;
    switch (interval->missed) {
    case WEFT_MISSED_DELAY:
        interval->next = weft_time_after(interval->period_ns);
        break;
    case WEFT_MISSED_SKIP:
        ticks += (wf_clock_now() - interval->next) / interval->period_ns;
        interval->next = time_after(interval->next, ticks * interval->period_ns);
        break;
    default:
        interval->next = time_after(interval->next, interval->period_ns);
        break;
    }
    return ticks;
}
