/* SPDX-License-Identifier: MIT */
/*
 * weft/time.h - sleeping, and periodic ticks.
 *
 * Time is a number of nanoseconds on CLOCK_MONOTONIC: it does not jump when the machine's clock is
 * set, and it stands still while the machine is suspended.  No wait ends before its time.  How late
 * it ends depends on the machine; on an idle one it is less than a millisecond.
 *
 * A sleeping task keeps no thread: its worker runs other tasks.  A non-worker thread may call these
 * functions too and is blocked.
 */
#ifndef WEFT_TIME_H
#define WEFT_TIME_H

#include <weft/types.h>

WEFT_BEGIN

#define WEFT_MICROSECOND INT64_C(1000)
#define WEFT_MILLISECOND INT64_C(1000000)
#define WEFT_SECOND INT64_C(1000000000)

/* Returns the present time.  Costs about 20 ns. */
WEFT_API weft_time weft_now(void);

/*
 * Returns the point in time `ns` nanoseconds from now, for weft_deadline_set and weft_sleep_until;
 * WEFT_NEVER if it would overflow.  A negative number gives a point in the past.
 *
 *     weft_time old = weft_deadline_tighten(weft_time_after(5 * WEFT_SECOND));
 *     ... after 5 seconds each call that waits returns -ETIMEDOUT ...
 *     weft_deadline_set(old);
 */
WEFT_API weft_time weft_time_after(int64_t ns);

/*
 * Waits for `ns` nanoseconds; 0 only yields.
 *
 * 0            the time has passed
 * -EINVAL      a negative number
 * -ECANCELED   the task was cancelled
 * -ETIMEDOUT   the task's deadline came first
 */
WEFT_API int weft_sleep(int64_t ns);

/* Waits until the given point in time.  If it has passed, the task only yields; that is no error.
 * WEFT_NEVER waits until the task is cancelled or its deadline passes.  Errors: -ECANCELED,
 * -ETIMEDOUT. */
WEFT_API int weft_sleep_until(weft_time at);

/* What an interval does about ticks that came while its user was not waiting for them. */
enum weft_missed {
    WEFT_MISSED_BURST, /* delivers them one after the other, without a pause, until none is left */
    WEFT_MISSED_DELAY, /* the next tick comes one period after the late one was delivered */
    WEFT_MISSED_SKIP,  /* leaves them out; the next tick comes at its regular time */
};

/* Ticks at equal distances.  Belongs to one task or thread at a time; needs no clean-up. */
typedef struct weft_interval {
    weft_time next; /* when the next tick comes */
    int64_t period_ns;
    enum weft_missed missed;
} weft_interval;

/*
 * Initialises an interval; its first tick comes one period from now.
 *
 * 0
 * -EINVAL   a period that is not positive, or an unknown enum weft_missed
 */
WEFT_API int weft_interval_init(weft_interval *interval, int64_t period_ns, enum weft_missed missed)
    WEFT_NONNULL(1);

/*
 * Waits for the next tick.
 *
 *     weft_interval second;
 *     weft_interval_init(&second, WEFT_SECOND, WEFT_MISSED_SKIP);
 *     while (weft_interval_wait(&second) > 0) {
 *         show_progress();
 *     }
 *
 * > 0          the number of ticks since the last call: 1, or with WEFT_MISSED_SKIP one more for
 *              each tick that was left out
 * -EINVAL      not initialised
 * -ECANCELED   the task was cancelled
 * -ETIMEDOUT   the task's deadline came first; the tick is still to come
 */
WEFT_API int64_t weft_interval_wait(weft_interval *interval) WEFT_NONNULL(1);

WEFT_END

#endif
