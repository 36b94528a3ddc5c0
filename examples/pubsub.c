/* SPDX-License-Identifier: MIT */
/*
 * pubsub.c - publish and subscribe.  Each subscriber receives every item.  A subscriber that lags
 * by more than the capacity learns how many items it has missed, and does not delay the others.
 * Prints:
 *
 *     the reader saw 100 of 100
 *     the sleeper saw 8 and missed 92
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { NEWS = 100, KEPT = 8 };

struct subscriber {
    weft_subscription subscription;
    weft_chan *seen; /* the reader acknowledges each item here; NULL: the sleeper */
    int count;
    int64_t missed;
};

static intptr_t read_news(void *arg)
{
    struct subscriber *subscriber = arg;
    int item;
    int64_t missed;
    while ((missed = weft_broadcast_recv(&subscriber->subscription, &item)) >= 0) {
        subscriber->count++;
        subscriber->missed += missed;
        if (subscriber->seen != NULL && weft_chan_send(subscriber->seen, &item) != 0) {
            break;
        }
    }
    return 0;
}

static intptr_t run(void *arg)
{
    weft_broadcast *news;
    struct subscriber reader = {.count = 0};
    struct subscriber sleeper = {.count = 0};
    (void)arg;
    if (weft_broadcast_new(&news, sizeof(int), KEPT) != 0 ||
        weft_chan_new(&reader.seen, sizeof(int), 0) != 0) {
        return -1;
    }
    weft_broadcast_subscribe(&reader.subscription, news);
    weft_broadcast_subscribe(&sleeper.subscription, news);
    weft_task *task = weft_go(read_news, &reader);
    for (int i = 0, seen; i < NEWS; i++) {
        weft_broadcast_send(news, &i);
        weft_chan_recv(reader.seen, &seen); /* the reader keeps up; the sleeper is not waited for */
    }
    weft_broadcast_close(news);
    read_news(&sleeper); /* the items that are still kept */
    intptr_t rc = weft_await(task);
    printf("the reader saw %d of %d\n", reader.count, NEWS);
    printf("the sleeper saw %d and missed %lld\n", sleeper.count, (long long)sleeper.missed);
    weft_broadcast_unsubscribe(&reader.subscription);
    weft_broadcast_unsubscribe(&sleeper.subscription);
    weft_broadcast_unref(news);
    weft_chan_unref(reader.seen);
    return rc;
}

int main(void)
{
    return weft_run(run, NULL, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
