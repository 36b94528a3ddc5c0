/* SPDX-License-Identifier: MIT */
/*
 * limiter.c - a rate limiter: an interval fills a channel with permits, and a task takes one before
 * each operation.  Permits that were saved up are used at once; after that the interval limits the
 * rate.  Prints:
 *
 *     5 at once, 10 more one at a time
 *     not faster than allowed: yes
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { SAVED = 5, MORE = 10 };

static const int64_t PERIOD = 2 * WEFT_MILLISECOND;

static intptr_t give_permits(void *arg)
{
    weft_chan *permits = arg;
    const char permit = 1;
    weft_interval interval;
    weft_interval_init(&interval, PERIOD, WEFT_MISSED_DELAY);
    for (;;) { /* until the task is cancelled */
        int64_t ticks = weft_interval_wait(&interval);
        if (ticks < 0) {
            return 0;
        }
        (void)weft_chan_try_send(permits, &permit); /* a full channel discards the permit */
    }
}

static intptr_t run(void *arg)
{
    weft_chan *permits;
    char permit = 1;
    int at_once = 0;
    (void)arg;
    if (weft_chan_new(&permits, sizeof(permit), SAVED) != 0) {
        return -1;
    }
    while (weft_chan_try_send(permits, &permit) == 0) {
        /* fills the channel: the state after a long pause */
    }
    while (weft_chan_try_recv(permits, &permit) == 0) {
        at_once++;
    }
    weft_time begin = weft_now();
    weft_task *giver = weft_go(give_permits, permits);
    for (int i = 0; i < MORE; i++) {
        if (weft_chan_recv(permits, &permit) != 0) { /* waits for a permit */
            return -1;
        }
    }
    bool is_slow = weft_now() - begin >= MORE * PERIOD;
    weft_cancel(giver);
    intptr_t rc = weft_await(giver);
    weft_chan_unref(permits);
    printf("%d at once, %d more one at a time\n", at_once, MORE);
    printf("not faster than allowed: %s\n", is_slow ? "yes" : "no");
    return rc;
}

int main(void)
{
    return weft_run(run, NULL, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
