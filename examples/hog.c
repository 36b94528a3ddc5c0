/* SPDX-License-Identifier: MIT */
/*
 * hog.c - two loops that never yield, on a runtime with one worker; a clock still ticks, because
 * spares take over.  Prints:
 *
 *     tick 1
 *     tick 2
 *     tick 3
 *     both loops ran
 */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { TICKS = 3 };

static atomic_bool is_over;

static intptr_t loop(void *arg)
{
    unsigned long *turns = arg;
    while (!is_over) {
        *turns += 1;
    }
    return 0;
}

static intptr_t tick(void *arg)
{
    (void)arg;
    unsigned long turns[2] = {0, 0};
    weft_task *loops[2] = {weft_go(loop, &turns[0]), weft_go(loop, &turns[1])};
    for (int i = 1; i <= TICKS; i++) {
        weft_sleep(50 * WEFT_MILLISECOND);
        printf("tick %d\n", i);
    }
    is_over = true;
    int rc = weft_await_all(loops, 2, NULL);
    if (turns[0] > 0 && turns[1] > 0) {
        puts("both loops ran");
    }
    return rc;
}

int main(void)
{
    const weft_runtime_options options = {.workers = 1};
    return weft_run(tick, NULL, &options) == 0 ? 0 : 1;
}
