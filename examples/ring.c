/* SPDX-License-Identifier: MIT */
/*
 * ring.c - a token travels around a ring of 503 tasks.  Each task awaits its predecessor, whose
 * result is the token, and returns it; the first task of a round awaits the last task of the round
 * before.  Prints:
 *
 *     503 tasks, 200 rounds, 100600 hops
 */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { TASKS = 503, ROUNDS = 200 };

static intptr_t start(void *arg)
{
    (void)arg;
    int rc = weft_yield(); /* lets the next task await this one first */
    return rc < 0 ? rc : 0;
}

static intptr_t pass(void *before)
{
    intptr_t token = weft_await(before);
    return token < 0 ? token : token + 1;
}

static intptr_t go_round(void *arg)
{
    (void)arg;
    intptr_t token = 0;
    for (int round = 0; round < ROUNDS && token >= 0; round++) {
        weft_task *last = weft_go(start, NULL);
        for (int i = 0; i < TASKS && last != NULL; i++) {
            last = weft_go(pass, last);
        }
        intptr_t hops = weft_await(last);
        token = hops < 0 ? hops : token + hops;
    }
    return token;
}

int main(void)
{
    intptr_t hops = weft_run(go_round, NULL, NULL);
    printf("%d tasks, %d rounds, %d hops\n", TASKS, ROUNDS, (int)hops);
    return hops == TASKS * ROUNDS ? EXIT_SUCCESS : EXIT_FAILURE;
}
