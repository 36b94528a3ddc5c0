/* SPDX-License-Identifier: MIT */
/*
 * cancel.c - a cancelled task: its waits return -ECANCELED, and it decides when to end.  Prints:
 *
 *     the task computes
 *     the task is cancelled
 *     its next wait returns -ECANCELED
 *     behind a shield it can wait again, for 42
 *     the task ended with -ECANCELED
 */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

static const char *name_of(intptr_t result)
{
    return result == -ECANCELED ? "-ECANCELED" : "something else";
}

static intptr_t answer(void *arg)
{
    (void)arg;
    return 42;
}

static intptr_t compute(void *arg)
{
    int rc = 0;
    (void)arg;
    printf("the task computes\n");
    while (rc == 0) {
        rc =
            weft_yield(); /* a loop that computes calls weft_check instead, which yields at times */
    }
    printf("its next wait returns %s\n", name_of(rc));
    weft_shield_begin();
    printf("behind a shield it can wait again, for %d\n", (int)weft_await(weft_go(answer, NULL)));
    weft_shield_end();
    return rc;
}

static intptr_t cancel(void *arg)
{
    (void)arg;
    weft_task *task = weft_go(compute, NULL);
    if (task == NULL || weft_yield() < 0) { /* it begins */
        return -ENOMEM;
    }
    printf("the task is cancelled\n");
    weft_cancel(task);
    intptr_t result = weft_await(task);
    printf("the task ended with %s\n", name_of(result));
    return result == -ECANCELED ? 0 : -EPROTO;
}

int main(void)
{
    const weft_runtime_options options = {.workers = 1}; /* makes the order of the lines certain */
    return weft_run(cancel, NULL, &options) == 0 ? 0 : 1;
}
