/* SPDX-License-Identifier: MIT */
/*
 * weft/time.h - sleeping, and doing something at regular times.
 *
 * Time is a number of nanoseconds on CLOCK_MONOTONIC: it does not jump when somebody sets the clock
 * of the machine, and stands still while the machine is suspended.  No wait ends before its time.
 * How late it ends depends on the machine; on an idle one by less than a millisecond.
 *
 * A task that sleeps costs no thread: its worker goes on with others.  A thread that is no worker
 * may call these too, and is blocked.
 */
#ifndef WEFT_TIME_H
#define WEFT_TIME_H

#include <weft/types.h>

WEFT_BEGIN

#define WEFT_MICROSECOND INT64_C(1000)
#define WEFT_MILLISECOND INT64_C(1000000)
#define WEFT_SECOND INT64_C(1000000000)

/* Now.  Costs some 20 ns. */
WEFT_API weft_time weft_now(void);

/*
 * The point in time that lies so many nanoseconds ahead, for weft_deadline and weft_sleep_until;
 * WEFT_NEVER if it would be beyond the end of time.  A negative number gives one in the past.
 *
 *     weft_time old = weft_deadline_sooner(weft_in(5 * WEFT_SECOND));
 *     ... each call that waits gives -ETIMEDOUT from then on ...
 *     weft_deadline(old);
 */
WEFT_API weft_time weft_in(int64_t ns);

/*
 * Waits so many nanoseconds; 0 lets others run.
 *
 * 0            it has
 * -EINVAL      a negative number
 * -ECANCELED   the task was asked to end
 * -ETIMEDOUT   the task's deadline came first
 */
WEFT_API int weft_sleep(int64_t ns);

/* The same until a point in time.  One that has passed is no error: the task only lets others run.
 * WEFT_NEVER waits until the task is cancelled, or its deadline comes. */
WEFT_API int weft_sleep_until(weft_time at);

/* What an interval does about ticks that nobody waited for when they came. */
enum weft_missed {
    WEFT_MISSED_BURST, /* they come at once, one after the other, until it has caught up */
    WEFT_MISSED_DELAY, /* the next tick comes a period after the one that was late */
    WEFT_MISSED_SKIP,  /* they are left out; the next comes when it would have come anyway */
};

/* Ticks with equal distances.  Belongs to one task or thread at a time; needs no end. */
typedef struct weft_interval {
    weft_time next; /* when the next tick comes */
    int64_t period; /* in nanoseconds */
    enum weft_missed missed;
} weft_interval;

/*
 * The first tick comes one period from now.
 *
 * 0         it is set up
 * -EINVAL   NULL, a period that is not positive, or no such enum weft_missed
 */
WEFT_API int weft_interval_init(weft_interval *interval, int64_t period, enum weft_missed missed);

/*
 * Waits for the next tick.
 *
 *     weft_interval second;
 *     weft_interval_init(&second, WEFT_SECOND, WEFT_MISSED_SKIP);
 *     while (weft_interval_wait(&second) > 0) {
 *         show_progress();
 *     }
 *
 * > 0          how many ticks have come since the last time: 1, or with WEFT_MISSED_SKIP one more
 *              for each that was left out
 * -EINVAL      NULL, or not initialised
 * -ECANCELED   the task was asked to end
 * -ETIMEDOUT   the task's deadline came first; the tick is still to come
 */
WEFT_API int64_t weft_interval_wait(weft_interval *interval);

WEFT_END

#endif
