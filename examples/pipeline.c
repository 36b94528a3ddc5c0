/* SPDX-License-Identifier: MIT */
/*
 * pipeline.c - three stages, with little room between them: a stage that is ahead waits for the
 * next one, so however much is to be done, no more than that is ever on its way.  Prints:
 *
 *     1000 numbers, sum of their squares 333833500
 *     never more than 11 on their way: yes
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { NUMBERS = 1000, ROOM = 4, MOST = 2 * ROOM + 3 }; /* each stage has one in its hands */

struct line {
    weft_chan *numbers;
    weft_chan *squares;
    int begun; /* by the first stage */
};

static intptr_t count(void *arg)
{
    struct line *line = arg;
    int rc = 0;
    for (int n = 1; n <= NUMBERS && rc == 0; n++) {
        rc = weft_send(line->numbers, &n); /* waits while there is no room */
        __atomic_store_n(&line->begun, n, __ATOMIC_RELAXED);
    }
    (void)weft_chan_close(line->numbers);
    return rc;
}

static intptr_t square(void *arg)
{
    struct line *line = arg;
    int n;
    int rc = 0;
    while (rc == 0 && weft_recv(line->numbers, &n) == 0) { /* until it is closed and empty */
        n *= n;
        rc = weft_send(line->squares, &n);
    }
    (void)weft_chan_close(line->squares);
    return rc;
}

static intptr_t run(void *arg)
{
    struct line line = {.begun = 0};
    weft_scope scope;
    (void)arg;
    if (weft_chan_open(&line.numbers, sizeof(int), ROOM) != 0 ||
        weft_chan_open(&line.squares, sizeof(int), ROOM) != 0) {
        return -1;
    }
    weft_scope_open(&scope, NULL);
    weft_scope_go(&scope, count, &line);
    weft_scope_go(&scope, square, &line);
    int64_t sum = 0;
    int received = 0;
    int most = 0;
    for (int n; weft_recv(line.squares, &n) == 0; received++) {
        int on_their_way = __atomic_load_n(&line.begun, __ATOMIC_RELAXED) - received;
        most = on_their_way > most ? on_their_way : most;
        sum += n;
    }
    int rc = weft_scope_close(&scope);
    weft_chan_drop(line.numbers);
    weft_chan_drop(line.squares);
    printf("%d numbers, sum of their squares %lld\n", received, (long long)sum);
    printf("never more than %d on their way: %s\n", MOST, most <= MOST ? "yes" : "no");
    return rc;
}

int main(void)
{
    return weft_run(run, NULL, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
