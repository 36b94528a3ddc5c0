/* SPDX-License-Identifier: MIT */
/*
 * scope.c - three tasks that cannot outlive a block of code.  When one fails, the others are
 * cancelled, and the block ends when all tasks have ended.  Prints:
 *
 *     the mason was cancelled
 *     the roofer was cancelled
 *     the carpenter failed
 *     all tasks have ended, and the scope returns -EIO
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

struct hand {
    const char *name;
    bool is_clumsy;
    const char *end; /* how the task ended */
};

static intptr_t build(void *arg)
{
    struct hand *hand = arg;
    if (hand->is_clumsy) {
        hand->end = "failed";
        return -EIO;
    }
    int rc = 0;
    while (rc == 0) {
        rc = weft_yield(); /* works until a wait returns -ECANCELED */
    }
    hand->end = "was cancelled";
    return rc;
}

static intptr_t day(void *arg)
{
    struct hand hands[] = {{"mason", false, ""}, {"roofer", false, ""}, {"carpenter", true, ""}};
    weft_scope scope;
    (void)arg;
    int rc = weft_scope_open(&scope, NULL);
    for (size_t i = 0; i < 3 && rc == 0; i++) {
        rc = weft_scope_go(&scope, build, &hands[i]);
    }
    rc = weft_scope_close(&scope); /* from here on no task has a pointer to hands */
    for (size_t i = 0; i < 3; i++) {
        printf("the %s %s\n", hands[i].name, hands[i].end);
    }
    printf("all tasks have ended, and the scope returns %s\n",
           rc == -EIO ? "-EIO" : "something else");
    return rc == -EIO ? 0 : -EPROTO;
}

int main(void)
{
    return weft_run(day, NULL, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
