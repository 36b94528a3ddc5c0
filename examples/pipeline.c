/* SPDX-License-Identifier: MIT */
/*
 * pipeline.c - three stages connected by small channels: a stage that is ahead waits for the next
 * one, so the number of queued items is bounded, however long the input is.  Prints:
 *
 *     1000 numbers, sum of their squares 333833500
 *     never more than 8 queued: yes
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { NUMBERS = 1000, CAPACITY = 4 };

struct line {
    weft_chan *numbers;
    weft_chan *squares;
};

static intptr_t count(void *arg)
{
    struct line *line = arg;
    int rc = 0;
    for (int n = 1; n <= NUMBERS && rc == 0; n++) {
        rc = weft_chan_send(line->numbers, &n); /* waits while the channel is full */
    }
    (void)weft_chan_close(line->numbers);
    return rc;
}

static intptr_t square(void *arg)
{
    struct line *line = arg;
    int n;
    int rc = 0;
    while (rc == 0 &&
           weft_chan_recv(line->numbers, &n) == 0) { /* until the channel is closed and empty */
        n *= n;
        rc = weft_chan_send(line->squares, &n);
    }
    (void)weft_chan_close(line->squares);
    return rc;
}

static intptr_t run(void *arg)
{
    struct line line;
    weft_scope scope;
    (void)arg;
    if (weft_chan_new(&line.numbers, sizeof(int), CAPACITY) != 0 ||
        weft_chan_new(&line.squares, sizeof(int), CAPACITY) != 0) {
        return -1;
    }
    weft_scope_open(&scope, NULL);
    weft_scope_go(&scope, count, &line);
    weft_scope_go(&scope, square, &line);
    int64_t sum = 0;
    int received = 0;
    size_t most = 0;
    for (int n; weft_chan_recv(line.squares, &n) == 0; received++) {
        size_t waiting = weft_chan_length(line.numbers) + weft_chan_length(line.squares);
        most = waiting > most ? waiting : most;
        sum += n;
    }
    int rc = weft_scope_close(&scope);
    weft_chan_unref(line.numbers);
    weft_chan_unref(line.squares);
    printf("%d numbers, sum of their squares %lld\n", received, (long long)sum);
    printf("never more than %d queued: %s\n", 2 * CAPACITY, most <= 2 * CAPACITY ? "yes" : "no");
    return rc;
}

int main(void)
{
    return weft_run(run, NULL, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
